"""Kernels that copy in C order, on the emulated machine in every order of threads, against NumPy's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from numpy.lib.stride_tricks import as_strided
from simt import build
from simt.backend import Emulator, get, put

from gpureduce_dask.device import contiguous, sources

View = Callable[[np.ndarray], np.ndarray]

LAYOUTS: dict[str, tuple[tuple[int, ...], View]] = {
    "stepped": ((700,), lambda x: x[::2]),
    "reversed": ((300,), lambda x: x[::-1]),
    "inside": ((40, 37), lambda x: x[:, 1:-1]),
    "rows apart": ((9, 100), lambda x: x[::3, 3:]),
    "columns apart": ((30, 50), lambda x: x[:, ::3]),
    "short lines": ((90, 6), lambda x: x[:, 1:]),
    "transposed": ((40, 37), lambda x: x.T),
    "narrow, transposed": ((400, 3), lambda x: x.T),
    "few columns apart": ((41, 6, 3, 5), lambda x: x.transpose(2, 0, 1, 3)),
    "short axes": ((9, 2, 3, 2), lambda x: x.transpose(2, 0, 3, 1)),
    "columns, two axes behind": ((20, 31, 3, 13), lambda x: x.transpose(3, 0, 2, 1)[:, ::2]),
    "columns in steps": ((90, 34), lambda x: x[:, ::2].T),
    "planes in steps, reversed": ((5, 70, 40), lambda x: x[:, :, ::-2].transpose(2, 0, 1)),
    "last axis first": ((5, 70, 90), lambda x: x.transpose(2, 0, 1)),
    "planes transposed, reversed": ((5, 70, 90), lambda x: x.transpose(0, 2, 1)[::-1]),
    "five axes": ((3, 4, 5, 6, 7), lambda x: x.transpose(4, 2, 0, 1, 3)),
    "one element": ((1,), lambda x: as_strided(x, (4, 90), (0, 0))),
    "one line": ((90,), lambda x: as_strided(x, (50, 90), (0, x.itemsize))),
    "as it lies": ((40, 37), lambda x: x),
    "no axes": ((3,), lambda x: x[1:2].reshape(())),
}
DTYPES = "u1 u2 f4 f8 c16".split()
# Elements of other sizes, which are copied as units of 4 and 8 bytes, or as runs of bytes: shape, and the order of axes
STRUCTS = {"V12": ((40, 5), (1, 0)), "V24": ((11, 7), (1, 0)), "V3": ((20, 30), (1, 0)), "V5": ((4, 9, 8), (2, 0, 1))}
EMPTY: list[tuple[tuple[int, ...], View]] = [((0,), lambda x: x[::2]), ((4, 0, 3), lambda x: x.T)]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    raw = np.random.default_rng(0).integers(0, 256, int(np.prod(shape)) * kind.itemsize, np.uint8)
    return raw.view(kind).reshape(shape)


def arrays() -> dict[str, tuple[np.ndarray, View]]:
    found = {f"{name} {t}": (drawn(shape, t), view) for name, (shape, view) in LAYOUTS.items() for t in DTYPES}
    for t, (shape, order) in STRUCTS.items():
        found[f"struct {t}"] = drawn(shape, t), lambda x, order=order: x.transpose(order)
    # Bytes that lie together in runs of 24 and of 8: by the largest units that a run and its place are made of
    found["runs of bytes"] = drawn((11, 7, 24), "u1"), lambda x: x.transpose(1, 0, 2)
    found["runs of 12 bytes"] = drawn((40, 50, 12), "u1"), lambda x: x.transpose(1, 0, 2)
    found["runs inside"] = drawn((11, 7, 24), "u1"), lambda x: x[:, :, 8:16]
    for number, (shape, view) in enumerate(EMPTY):
        found[f"empty {number}"] = drawn(shape, "f4"), view
    return found


ARRAYS = arrays()


@contextmanager
def machine(emulator: Emulator) -> Iterator[None]:
    with emulator.installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "_plans", {})
        patch.setattr(contiguous, "BLOCKS", 3)  # that go round
        yield


def copy(case: str) -> Any:
    array, view = ARRAYS[case]
    return contiguous.copied(put(array, view))


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    found = Emulator(sources.source("contiguous.cuh"))

    def calls() -> None:
        with machine(found):
            for case in ARRAYS:
                copy(case)

    found.adopt(build(found.collect(calls, 4), 2))
    return found


@pytest.mark.parametrize("case", ARRAYS)
def test_copies_are_numpys(emulator, case):
    array, view = ARRAYS[case]
    for _ in emulator.orders():
        with machine(emulator):
            got = copy(case)
        assert got.flags.c_contiguous
        assert (got.shape, got.dtype) == (view(array).shape, array.dtype)
        assert get(got).tobytes() == view(array).tobytes()


def kernel(case: str) -> str:
    array, view = ARRAYS[case]
    seen = view(array)
    return contiguous.plan(*contiguous.cut(seen.shape, seen.strides, seen.itemsize, 0)).kernel


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_are_for_axes_that_change_places(dtype):
    names = {name: kernel(f"{name} {dtype}").partition("<")[0] for name in LAYOUTS}
    turned = {name for name, kind in names.items() if kind == "contiguous_turned"}
    assert {"transposed", "columns in steps", "last axis first", "planes transposed, reversed"} <= turned
    lines = {"stepped", "reversed", "inside", "rows apart", "columns apart", "one element", "one line", "as it lies"}
    assert turned.isdisjoint(lines)


@pytest.mark.parametrize(
    ("case", "unit"),
    [
        *(("as it lies u1", "u64"), ("as it lies f4", "uint4"), ("as it lies c16", "uint4")),
        *(("struct V12", "u32"), ("struct V24", "u64"), ("struct V3", "u8")),
        *(("runs of bytes", "u64"), ("runs of 12 bytes", "u32"), ("runs inside", "u64")),
        *(("stepped u2", "u16"), ("transposed f4", "u32"), ("transposed f8", "u64")),
    ],
)
def test_units_are_as_large_as_a_copy_allows(case, unit):
    assert f"<{unit}, " in kernel(case)


def test_what_is_in_order_is_not_copied():
    x = put(drawn((40, 37), "f4"))
    assert contiguous.in_c_order(x) is x


def test_arrays_of_many_axes_are_cupys_to_copy(monkeypatch):
    """More axes than a launch tells apart."""
    import cupy

    given = []
    monkeypatch.setattr(cupy, "ascontiguousarray", lambda a: given.append(a) or a)
    x = drawn((2,) * 12, "u1")
    with machine(Emulator()):
        contiguous.copied(put(x, lambda a: a.transpose(*range(0, 12, 2), *range(1, 12, 2))[::-1, ::-1]))
    assert len(given) == 1
