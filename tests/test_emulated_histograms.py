"""Histograms' kernels on the emulated machine, in every order of threads, against numpy.histogram."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from simt import build
from simt.backend import Emulator, get, put

from gpureduce_dask import chunk_groups
from gpureduce_dask.device import group_plans, histogram, launch, sources
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.operators.grouped import COUNT, Bins, Edges, binned
from tests.test_emulated_bins import machine as groups_on

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, which counts bool as bytes

BINS: dict[str, tuple[Any, Any]] = {
    "even": (7, (-3, 3)),
    "narrow": (40, (0.1, 0.7)),
    "one": (1, (0, 1)),
    "edges": (np.array([-30, 0, 1, 5, 5, 70]), None),
    "powers": (np.geomspace(0.5, 119, 40), None),
    "single": (np.array([-1, 0.5, 2], "f4"), None),
}
DTYPES = "? i1 u2 i4 i8 u8 f2 f4 f8".split()
CASES = [(dtype, bins) for i, dtype in enumerate(DTYPES) for j, bins in enumerate(BINS) if (i + j) % 2 or dtype == "f4"]


def chunks(dtype: str, bins: str) -> tuple[list[np.ndarray], Edges]:
    """Chunks of odd sizes and layouts, with elements on the edges and beside them."""
    count, span = BINS[bins]
    edges = np.histogram_bin_edges(np.empty(0, "u1" if dtype == "?" else dtype), count, span)
    rng = np.random.default_rng(3)
    found = []
    for shape in ((3, 5, 37), (2, 1100), (0, 4), (1,), (64, 129)):
        x = (rng.standard_normal(shape) * 3).astype(dtype)
        if x.dtype.kind == "f" and x.size > 6 * edges.size + 4:
            beside = [np.nextafter(edges, to * np.inf) for to in (-1, 1)]
            some = np.concatenate([edges, *beside, [np.nan, np.inf, -np.inf, -0.0]]).astype(dtype)
            x.reshape(-1)[: some.size] = some
        found.append(x)
    return found, Edges(edges, span)


@contextmanager
def machine(emulator: Emulator, room: int = 2**17) -> Iterator[None]:
    with emulator.installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_plans, "_ready", {})
        patch.setattr(histogram, "THREADS", 64)
        patch.setattr(histogram, "LOADS", 2)
        patch.setattr(histogram, "RESIDENT", 2)
        patch.setattr(histogram, "gpu", lambda device: Gpu(room, 3))
        patch.setattr(histogram, "on_device", lambda a: put(a))
        patch.setattr(launch, "fill_zeros", lambda at, n, stream: ctypes.memset(at, 0, n))
        histogram._edges_on.cache_clear()
        yield
        histogram._edges_on.cache_clear()


def counted(dtype: str, bins: str) -> Any:
    blocks, edges = chunks(dtype, bins)
    views = (None, lambda a: a.T, None, None, lambda a: a[::2, 1:])
    return histogram.counts_of([put(b, view) for b, view in zip(blocks, views, strict=True)], edges)


def coded(dtype: str, bins: str) -> Any:
    blocks, edges = chunks(dtype, bins)
    if histogram.compared_as(np.dtype(dtype), edges) is None:
        return None
    return histogram.codes_of(put(blocks[0], lambda a: a.T), edges)


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    found = Emulator(sources.source("bins.cuh"))

    def calls() -> None:
        with machine(found):
            for case in CASES:
                counted(*case)
                coded(*case)
        with groups_on(found), machine(found, room=100):
            by_codes()

    found.adopt(build(found.collect(calls, 8), 2))
    return found


@pytest.mark.parametrize(("dtype", "bins"), CASES)
def test_kernels_give_numpys_answers(emulator, dtype, bins):
    blocks, edges = chunks(dtype, bins)
    count, span = BINS[bins]
    read = [*blocks[:4], blocks[4][::2, 1:]]
    want = sum(np.histogram(b, count, span)[0] for b in read)
    for _ in emulator.orders():
        with machine(emulator):
            got, codes = counted(dtype, bins), coded(dtype, bins)
        if edges.edges.dtype == "f2" and span is not None:
            assert got is None and codes is None  # NumPy guesses in float16
            continue
        np.testing.assert_array_equal(get(got), want)
        own = get(codes)
        np.testing.assert_array_equal(
            np.bincount(own[own >= 0], minlength=len(want)), np.histogram(blocks[0], count, span)[0]
        )


def test_more_chunks_than_a_launch_takes(emulator):
    blocks, edges = chunks("f4", "powers")
    with machine(emulator):
        got = histogram.counts_of([put(blocks[0][0, :1]) for _ in range(histogram.BATCH)] + [put(blocks[1])], edges)
    want = histogram.BATCH * np.histogram(blocks[0][0, :1], edges.edges)[0] + np.histogram(blocks[1], edges.edges)[0]
    np.testing.assert_array_equal(get(got), want)


def by_codes() -> Any:
    """The partial of bytes where a block has no room for the bins."""
    bins = Bins("histogram", (6,), (0, 1), edges=Edges(np.array([-1, 0, 1, 5, 5, 70, 90])))
    block = np.random.default_rng(1).integers(0, 99, (40, 30)).astype("u1")
    return chunk_groups.reduce_many([(put(block),)], binned(COUNT.bind("u1"), bins), (0, 1), None), block, bins


def test_many_bins_are_groups_of_codes(emulator):
    with groups_on(emulator), machine(emulator, room=100):
        partial, block, bins = by_codes()
        got = get(partial).view("i8")
    np.testing.assert_array_equal(got.ravel(), np.histogram(block, bins.edges.edges)[0])
    assert got.shape == (1, 1, 6, 1)
