"""Kernels of groups on the emulated machine, in every order of threads, against the host's answers."""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from simt import build
from simt.backend import Emulator, get, put

from gpureduce_dask import errors
from gpureduce_dask.device import contiguous, launch, sources
from gpureduce_dask.device import group_plans as plans
from gpureduce_dask.device import groups as device_groups
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device.layout import Dim
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.host import groups as host_groups
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.labels import View, boxes
from gpureduce_dask.operators.grouped import Bins, Labels, binned
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.place import Place
from tests.strategies import BFLOAT16, values

# What each method is made to take: groups, and the limits that lead there.
METHODS = {
    plans.PRIVATE: {},
    plans.TILES: {"PRIVATE_FULL": 0, "PRIVATE_BYTES": 0, "PRIVATE_MOST": 0, "WINDOW_LEAST": 10**9},
    plans.WINDOW: {"PRIVATE_FULL": 0, "PRIVATE_BYTES": 0, "WINDOW_COLUMNS": (4,)},
    plans.BEST: {"BEST_LEAST": 0, "WINDOW_COLUMNS": (4,)},
    plans.MERGED: {"PRIVATE_FULL": 0, "WINDOW_LEAST": 10**9, "BEST_LEAST": 0, "WINDOW_COLUMNS": (4,)},
    plans.ROWS: {"MANY_ROWS": 1, "WINDOW_LEAST": 10**9},
    plans.RAISED: {"PRIVATE_FULL": 0, "WINDOW_LEAST": 10**9, "gpu": lambda device: Gpu(16, 3)},
    "scattered": {"PRIVATE_FULL": 0, "PRIVATE_BYTES": 0, "PRIVATE_MOST": 0, "TILE_BYTES": 0, "WINDOW_LEAST": 10**9},
}
# What adds numbers exactly; the last with little shared memory, so that much lies outside of all limbs.
EXACT = {
    "memory": {**METHODS["scattered"], "ROUNDED": 0},
    "window": METHODS[plans.WINDOW],
    "narrow": {"PRIVATE_FULL": 0, "PRIVATE_BYTES": 0, "WINDOW_COLUMNS": (1,), "WINDOW_MORE": (0, 0), "ROUNDED": 0},
}
NUMBERS = (
    *(("sum", t) for t in ("f4", "f8", "f2", "c8", "c16")),
    *(("mean", t) for t in ("f4", "f8", "u8", "c8")),
    *(("nansum", "f8"), ("nanmean", "f4"), ("norm1", "f8"), ("norm1", "i8"), ("norm2", "f4"), ("norm2", "i4")),
    *(("sumsq", t) for t in ("f2", "f4", "f8", "c8")),
    *(("var", t) for t in ("f2", "f4", "f8", "?", "i1", "u2", "i4", "i8", "u8", "c8", "c16")),
    *(("nanstd", t) for t in ("f4", "c8")),
)
# What takes lines by pieces of sorted positions, whatever the operator.
LINES = {**METHODS["scattered"], "_WORDS": re.compile("none")}
SMALL = {"gpu": lambda device: Gpu(2**17, 3), "WINDOW_THREADS": 64, "WINDOW_LEAST": 0, "WINDOW_SHARE": 400}
SMALL |= {"THREADS": 64, "PIECE": 40, "COLUMN_PIECE": 3, "COLUMN_THREADS": 1, "BLOCKS": 3, "LEAST_SLOTS": 1}
SMALL |= {
    "DIGIT_BITS": 2,
    "SORT_ITEMS": 2,
    "SORT_BLOCKS": 3,
    "SORT_SHORT": 64,
    "TILE_BLOCKS": 2,
    "TILE_PIECE": 4,
    "BEST_LEAST": 10**9,
    "ROW_BLOCKS": ((3, 64), (1, 128)),
    "ROW_TILES": 2,
    "ROW_SUBWARPS": ((1, 6), (8, 24), (32, 40)),
    "ROW_LANES": 20,
    "ROUNDED": 6,
}
OPS = [
    *(("sum", t) for t in ("f4", "f2", "i4", "f8")),
    *(("count_nonzero", "u1"), ("max", "i4"), ("any", "?"), ("all", "f4")),
    *(
        ("mean", "f4"),
        ("var", "f4"),
        ("argmax", "f4"),
        ("argmin", "c8"),
        ("min", "f8"),
        ("first", "f4"),
        ("nanargmin", "f2"),
    ),
]


def seen(array: Any) -> np.ndarray:
    """A CuPy array over host memory, whatever its strides."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    raw = (ctypes.c_char * span).from_address(array.data.ptr)
    return np.ndarray(array.shape, array.dtype, raw, 0, array.strides)


def close(got: np.ndarray, expected: np.ndarray, case: str) -> None:
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-3 if got.itemsize == 2 else 1e-6, atol=1e-6, err_msg=case)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=case)


def boxed(lines: list[Any], counts: tuple[int, ...]) -> Any:
    return put(boxes(lines, counts, slice(0, int(np.prod([len(line) for line in lines])))))


def paired(labels: Any, view: View, bins: Bins) -> Any:
    flat = seen(labels).astype("i8")
    row = np.arange(flat.size) // view.size(view.now)
    return put(np.where(flat < 0, -1, row * bins.count + flat))


@contextmanager
def machine(emulator: Emulator, **limits: Any) -> Iterator[None]:
    with emulator.installed(), pytest.MonkeyPatch.context() as patch:
        for name, value in {**SMALL, **limits}.items():
            patch.setattr(plans, name, value)
        patch.setattr(plans, "_ready", {})
        patch.setattr(contiguous, "_plans", {})
        patch.setattr(device_groups, "_prepared", {})
        patch.setattr(device_groups, "_methods", {})
        patch.setattr(device_groups, "_codes", type(device_groups._codes)())
        patch.setattr(device_groups, "on_device", lambda a: put(a) if isinstance(a, np.ndarray) else a)
        patch.setattr(device_groups, "read_flags", lambda memory: ctypes.c_uint32.from_address(memory.ptr).value)
        patch.setattr(device_groups, "boxed", boxed)
        patch.setattr(device_groups, "paired", paired)
        patch.setattr(launch, "fill_zeros", lambda at, n, stream: ctypes.memset(at, 0, n))
        yield


def labelled(op: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], count: int, own_chunk: bool) -> Any:
    row = OPERATORS[op]
    x = values(shape, dtype, 3, special=op != "nanargmin")
    labels = np.random.default_rng(4).integers(-1, count, [shape[a] for a in axes])
    bins = Bins("grouped", (count,), axes, None if own_chunk else Labels([labels.astype("i2")]))
    return binned(row.bind(dtype), bins), x, labels.astype("i4") if own_chunk else None


def finite(x: np.ndarray) -> np.ndarray:
    """Other elements of the same shape and dtype: what is lost of them shows in every sum and variance."""
    return (np.random.default_rng(6).normal(size=x.shape) * 9).astype(x.dtype)


# Operators, and where their rows lie: one long row, rows with labels in common, columns, a few columns, odd axes.
CASES = {
    f"{op}-{dtype}-{name}": (op, dtype, shape, axes, count, own)
    for i, (op, dtype) in enumerate(OPS)
    for j, (name, shape, axes, count, own) in enumerate(
        [
            ("long", (1024,), (0,), 5, True),
            ("rows", (3, 61), (1,), 7, False),
            ("columns", (37, 40), (0,), 4, True),
            ("odd-columns", (2, 50, 33), (1,), 2, True),
            ("few-columns", (45, 3), (0,), 3, False),
            ("short-columns", (6, 20, 9), (1,), 3, True),
            ("apart", (5, 3, 16), (0, 2), 6, True),
        ]
    )
    if (i + j) % 2 == 0 or op in ("sum", "var", "argmax")
}

# And what else adds exactly, to groups in shared memory: no infinity hides other elements.
ADDED = {
    f"{op}-{t}": (op, t, (1024,), (0,), 5, True) for op, t in (("nansum", "f4"), ("mean", "i2"), ("nanmean", "f2"))
}
# Extremes and what else a word stands for, of floats and of integers that are as small as can be too, a group of which
# is empty.
RAISED = {
    f"{op}-{t}-{n}": (op, t, (n,), (0,), groups, True)
    for op, t in (
        *(("max", t) for t in ("f4", "f8", "u1", "i8", "?", "f2")),
        *(("min", t) for t in ("f4", "u4", "i2", "?")),
        *(("nanmax", t) for t in ("f4", "f2")),
        *(("nanmin", t) for t in ("f8", "f4")),
        *((op, t) for op in ("argmax", "argmin", "nanargmax") for t in ("f4", "f2", "i4", "u1", "f8", "i8")),
        *((op, t) for op in ("first", "last") for t in ("f4", "i2", "f8")),
        *(("norminf", t) for t in ("f4", "i8")),
        *(("ptp", t) for t in ("f4", "f2", "u1", "u4", "i8")),
        *((op, t) for op in ("any", "all") for t in ("f4", "c8", "u1", "i8")),
    )
    for n, groups in ((700, 6), (9, 20))
}


SORTED = [
    (op, t, way)
    for op, t in (
        *(("var", "f4"), ("argmax", "f8"), ("sum", "f8"), ("prod", "f4"), ("prod", "u1"), ("nanprod", "f8")),
        *(("prod", "c8"), ("kurtosis", "f4"), ("skew", "i1"), ("moments", "f8")),
    )
    for way in ("rising", "one", "mixed")
]
MANY_TILES = {**METHODS[plans.TILES], "TILE_ITEMS": (16,), "TILE_BLOCKS": 1}
JOINED, SIDES = ("sum", "var", "nanargmax"), (1, 1 << 16)  # by a thread a cell, and by a warp
# How many lanes fold a piece, and in what order the axes of a chunk of (6, 5, 36) lie in memory, where the first and
# the last are reduced, or the middle one: columns that are kept behind, rows, labels in another order, none of these.
SUBWARPS = (1, 8, 32)
ORDERS = ((2, 0, 1), (0, 2, 1), (1, 2, 0), (1, 0, 2), (2, 1, 0))
LAID = [(op, axes, order) for op in ("var", "argmax", "first") for axes in ((0, 2), (1,)) for order in ORDERS]


# Integers whose products are merged by atomics: labels in runs, of a pack, of many lanes, of all, and at random.
PRODUCTS = [
    (way, t, labels)
    for way in (plans.MERGED, "scattered")
    for t in ("i4", "u1", "i8", "?")
    for labels in ("random", "in turn", "packs", "lanes", "rising", "one")
]


def cases(method: str) -> list[str]:
    return [
        *CASES,
        *{plans.WINDOW: ADDED, "scattered": ADDED, plans.BEST: RAISED, plans.RAISED: RAISED}.get(method, ()),
    ]


def reduced(case: str) -> Any:
    op, dtype, shape, axes, count, own = {**CASES, **ADDED, **RAISED}[case]
    bound, x, labels = labelled(op, dtype, shape, axes, count, own)
    if case in ADDED:
        x[np.isinf(x)] = 1
    if case in RAISED and labels is not None:
        least = 0 if op == "nanargmax" else np.nan  # of a group without a number it has no answer
        x[labels == 0] = least if x.dtype.kind in "fc" else 0 if x.dtype.kind == "b" else np.iinfo(dtype).min
        if x.dtype.kind == "f":
            x[labels == 2] = np.copysign(0, x[labels == 2])  # two zeros, which are equal
        x[labels == 1] = 1 if x.dtype.kind in "fcb" else np.iinfo(dtype).max
    given = None if labels is None else put(labels)
    return device_groups.reduce_many([((put(x),), given)], bound, axes, None), bound, x, labels, axes


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    found = Emulator(sources.source("bins.cuh"))

    def calls() -> None:
        for method, limits in METHODS.items():
            with machine(found, **limits):
                for case in cases(method):
                    reduced(case)
        with machine(found, **METHODS[plans.BEST]):
            tied()
        with machine(found):
            alone()
        with machine(found, **MANY_TILES):
            for case in SORTED:
                runs(*case)
        with machine(found):
            in_stages()
            shapes_combined()
        for op, many in itertools.product(JOINED, SIDES):
            with machine(found, MANY_CELLS=many):
                chunks_of(op, LENGTHS["unlike"], (40,))
        for limits, lengths in itertools.product((LINES, METHODS[plans.ROWS]), LENGTHS.values()):
            with machine(found, **limits):
                chunks_of("first", lengths, ())
        with machine(found):
            for case in LAID:
                laid(*case)
        for method, dtype, way in PRODUCTS:
            with machine(found, **METHODS[method]):
                products(dtype, way)
        for (method, *op), name in itertools.product(APART_OPS, APART):
            with machine(found, **METHODS[method]):
                apart(*op, name)
        for op, name in itertools.product(COLUMN_OPS, COLUMNS):
            with machine(found):
                apart(*op, name)
        for limits, case in itertools.product(METHODS.values(), HALF_ALIGNED):
            with machine(found, **limits):
                half_aligned(*case)
        for op, own in itertools.product(CUT, (True, False)):
            with machine(found):
                in_parts(op, own)
        for lanes in SUBWARPS:
            with machine(found, SUBWARPS=(lanes,), MANY_CELLS=1 if lanes == 1 else 1 << 16, **LINES):
                in_subwarps()
        for case in TILED:
            with machine(found, **METHODS[plans.ROWS]):
                tiled(*case)
        for case in TILED[:LONG]:
            with machine(found, **METHODS[plans.ROWS], rank_type=lambda rows: "u32"):
                tiled(*case)
        for limits, (op, dtype) in itertools.product(EXACT, NUMBERS):
            with machine(found, **EXACT[limits]):
                if adds_exactly(op, dtype, limits):
                    magnitudes(op, dtype)

    units = found.collect(calls, 8)
    found.adopt(build(units, 2))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_kernels_give_the_answers_of_the_host(emulator, method):
    for i, case in enumerate(cases(method)):
        emulator.schedule = ("forward", "reverse", "random", "starved", "round_robin")[i % 5]
        with machine(emulator, **METHODS[method]):
            states, bound, x, labels, axes = reduced(case)
            got = get(states).view(bound.state)[..., 0]
        expected = host_groups.reduce_many([((x,), labels)], bound, axes, None)
        assert got.shape == expected.shape, case
        part = bound.inner
        mine, theirs = (p.getfield(part.state, 0) for p in (got, expected))
        if part.monoid.empty == "raise" and bound.is_counted:
            some = expected["count_count"] > 0
            if plans.word_of(device_operator.cuda_operator(bound.cells)):  # counts say whether there are any
                np.testing.assert_array_equal(got["count_count"] > 0, some)
            else:
                np.testing.assert_array_equal(got["count_count"], expected["count_count"])
            mine, theirs = mine[some], theirs[some]
        close(host_reduce.finalise(mine, part), host_reduce.finalise(theirs, part), case)


def test_every_kernel_is_among_them(emulator):
    names = {name.partition("<")[0] for _, name in emulator._kernels}
    kinds = (
        "private",
        "tiles",
        "window",
        "best",
        "raise",
        "raised",
        "atomic",
        "exact",
        "round",
        "pieces",
        "columns",
        "join",
        "ranks",
        "rows",
    )
    kinds += ("sort_count", "sort_offsets", "sort_split", "sort_starts", "sort_block")
    assert {f"bins_{kind}" for kind in kinds} <= names


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_in_every_order(emulator, method):
    found = set()
    for _ in emulator.orders():
        with machine(emulator, **METHODS[method]):
            found.add(get(reduced("sum-f4-long")[0]).tobytes())
    assert len(found) == 1


def in_stages() -> Any:
    """Rows that later stages fold keep their groups apart."""
    bound, x, labels = labelled("first", "f4", (4, 30), (0, 1), 3, True)
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (1,), None), bound, x, labels


HALF_ALIGNED = [
    (op, dtype, length) for op, dtype in (("var", "f4"), ("max", "f2"), ("argmax", "i1")) for length in (62, 300)
]


def half_aligned(op: str, dtype: str, length: int) -> Any:
    """Rows that begin at some vectors of two elements, or of four, and not at those of 16 bytes."""
    bound, x, labels = labelled(op, dtype, (3, length), (1,), 5, True)
    x = finite(x)
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (1,), None), bound, x, labels, (1,)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", HALF_ALIGNED, ids=str)
def test_loads_of_some_elements(emulator, method, case):
    emulator.schedule = "random"
    with machine(emulator, **METHODS[method]):
        same(*half_aligned(*case))


LENGTHS = {"alike": (20,) * 5, "unlike": (37, 5, 5, 20)}  # of chunks, which one launch takes where they are alike


def chunks_of(op: str, lengths: Sequence[int], kept: tuple[int, ...]) -> Any:
    """Several chunks, folded in order: those of a later chunk behind those of the chunks before."""
    rng = np.random.default_rng(7)
    parts = [labelled(op, "f4", (n, *kept), (0,), 4, True) for n in lengths]
    for _, x, _ in parts:
        x[:] = rng.normal(size=x.shape)
    chunks = [((put(x),), put(labels)) for _, x, labels in parts]
    starts = [0, *itertools.accumulate(lengths)]
    places = [Place((start, *(0 for _ in kept)), (starts[-1], *(0 for _ in kept))) for start in starts[:-1]]
    return device_groups.reduce_many(chunks, parts[0][0], (0,), places), parts, places


@pytest.mark.parametrize("many", SIDES)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("op", JOINED)
def test_columns_of_several_chunks(emulator, op, lengths, many):
    with machine(emulator, MANY_CELLS=many, PARTS_BYTES=2**15):
        states, parts, places = chunks_of(op, LENGTHS[lengths], (40,))
        got = get(states).view(parts[0][0].state)[..., 0]
    check(got, parts, places, op)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_lines_of_several_chunks(emulator, lengths):
    together = []
    plan = plans.pieces
    taken = {**LINES, "pieces": lambda op, rows, count: together.append(count) or plan(op, rows, count)}
    with machine(emulator, **taken):
        states, parts, places = chunks_of("first", LENGTHS[lengths], ())
        got = get(states).view(parts[0][0].state)[..., 0]
    check(got, parts, places, "first")
    assert together == {"alike": [5], "unlike": [1, 2, 1]}[lengths]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_rows_of_several_chunks(emulator, lengths):
    with machine(emulator, **METHODS[plans.ROWS]):
        states, parts, places = chunks_of("first", LENGTHS[lengths], ())
        got = get(states).view(parts[0][0].state)[..., 0]
    check(got, parts, places, "first")


@pytest.mark.parametrize("op, shape", [("first", (20,)), ("var", (37, 40))])
@pytest.mark.parametrize("label, strict", [(4, False), (-1, True)])
def test_labels_that_no_group_has(emulator, op, shape, label, strict):
    bound, x, labels = labelled(op, "f4", shape, (0,), 4, True)
    bound = binned(bound.inner, replace(bound.bins, strict=strict))
    labels[:] = 1
    with machine(emulator):
        device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None)
        labels[7] = label
        with pytest.raises(errors.ArgumentError):
            device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None)


def in_subwarps() -> list[Any]:
    """Short rows, and groups of a line that are many: what sub-warps fold."""
    found = []
    for op, dtype, shape, axes, groups in (("var", "f4", (520, 9), (1,), 3), ("first", "i4", (300,), (0,), 90)):
        bound, x, labels = labelled(op, dtype, shape, axes, groups, True)
        x = finite(x)
        found.append((device_groups.reduce_many([((put(x),), put(labels))], bound, axes, None), bound, x, labels, axes))
    return found


@pytest.mark.parametrize("lanes", SUBWARPS)
def test_pieces_by_subwarps(emulator, lanes):
    emulator.schedule = "random"
    with machine(emulator, SUBWARPS=(lanes,), MANY_CELLS=1 if lanes == 1 else 1 << 16, **LINES):
        for states, bound, x, labels, axes in in_subwarps():
            same(states, bound, x, labels, axes)


def runs(op: str, dtype: str, way: str) -> Any:
    """Labels of which many neighbours are the same, or all, or those of some stretches."""
    bound, x, labels = labelled(op, dtype, (3000,), (0,), 5, True)
    x = finite(x)
    labels = np.sort(labels) if way == "rising" else labels * 0 + 2 if way == "one" else labels
    if way == "mixed":
        labels[:1024], labels[1300:2100] = 1, 3
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None), bound, x, labels, (0,)


@pytest.mark.parametrize("case", SORTED, ids=str)
def test_runs_of_one_group(emulator, case):
    for _ in emulator.orders():
        with machine(emulator, **MANY_TILES):
            same(*runs(*case))


# Rows that blocks have in shared memory: of elements of every size, aligned or not, of one operand or two, into groups
# that one lane folds, or some, or a warp, and how labels are dealt to elements.
TILED = [
    (op, dtypes, length, count, offset, way)
    for (op, *dtypes), (length, count, offset), way in zip(
        [
            ("var", "f4"), ("nanprod", "i1"), ("std", "i2"), ("sumsq", "u2"), ("nansum", "bfloat16"), ("var", "f2"),
            ("argmax", "?"), ("argmin", "u1"), ("nanargmax", "f8"), ("norm1", "u2"), ("norminf", "u4"), ("sum", "c16"),
            ("first", "c8"), ("last", "f2"), ("first", "i8"), ("affine", "i1", "i2"), ("affine", "i4", "i4"),
            ("affine", "u2", "i8"), ("any", "?"), ("kurtosis", "f4"), ("max", "i8"), ("last", "u1"), ("mean", "u8"),
            ("ptp", "bfloat16"), ("affine", "i8", "u1"),
        ],
        itertools.cycle(
            [(61, 4, 1), (128, 5, 0), (203, 90, 3), (37, 12, 2), (256, 2, 0), (20, 40, 1), (3, 2, 1), (512, 130, 0)]
        ),
        itertools.cycle(["random", "in turn", "sorted", "one", "none"]),
        strict=False,
    )
]  # fmt: skip
LONG = 3  # of them, as if they were longer


def tiled(op: str, dtypes: Sequence[str], length: int, count: int, offset: int, way: str) -> Any:
    """Five rows that end some elements before an aligned address, behind which there may be nothing to read."""
    rng, kinds = np.random.default_rng(8), [BFLOAT16 if t == "bfloat16" else np.dtype(t) for t in dtypes]
    bound = binned(OPERATORS[op].bind(*kinds), Bins("grouped", (count,), (1,)))
    lines = [values((5 * length + offset,), t, 3 + i, special=op in ("first", "last")) for i, t in enumerate(kinds)]
    if op == "affine":
        lines = [rng.integers(0, 3, line.shape).astype(line.dtype) for line in lines]
    at = np.arange(length)
    labels = {
        "random": rng.integers(-1, count, length),
        "in turn": at % count,
        "sorted": at * count // length,
        "one": at * 0 + count - 1,
        "none": np.where(at < length // 3, -1, rng.integers(0, count, length) // 2),
    }[way].astype("i4")
    given = tuple(put(line, lambda a: a[: 5 * length].reshape(5, length)) for line in lines)
    chunks = tuple(line[: 5 * length].reshape(5, length) for line in lines)
    states = device_groups.reduce_many([(given, put(labels))], bound, (1,), None)
    return states, bound, chunks if len(chunks) > 1 else chunks[0], labels, (1,)


@pytest.mark.parametrize("case", TILED[:LONG], ids=str)
def test_rows_longer_than_16_bits_count(emulator, case):
    with machine(emulator, **METHODS[plans.ROWS], rank_type=lambda rows: "u32"):
        same(*tiled(*case))


@pytest.mark.parametrize("case", TILED, ids=str)
def test_rows_in_shared_memory(emulator, case):
    for emulator.schedule in ("random", "starved"):
        with machine(emulator, **METHODS[plans.ROWS]):
            same(*tiled(*case))


CUT = ("first", "argmax", "var")


def in_parts(op: str, own: bool) -> Any:
    """More elements a row than positions count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_groups, "MOST", 100)
        bound, x, labels = labelled(op, "f4", (3, 9, 40), (1, 2), 4, own)
        x = finite(x)
        given = None if labels is None else put(labels)
        return device_groups.reduce_many([((put(x),), given)], bound, (1, 2), None), bound, x, labels, (1, 2)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("op", CUT)
def test_long_rows_are_cut(emulator, op, own):
    with machine(emulator):
        same(*in_parts(op, own))


@pytest.mark.parametrize("shape", [(9, 40), (40, 9), (1, 300)])
def test_parts_of_long_rows_follow_one_another(monkeypatch, shape):
    """In C order: an operator that does not commute is folded part by part."""
    monkeypatch.setattr(device_groups, "MOST", 50)
    bound, _, labels = labelled("first", "f4", shape, (0, 1), 4, True)
    x = np.arange(math.prod(shape)).reshape(shape)
    parts = [*device_groups._parts([((x,), labels)], bound, (0, 1), None)]
    assert len(parts) > 1 and all(part.size <= 50 for (part,), _, _ in parts)
    np.testing.assert_array_equal(np.concatenate([part.reshape(-1) for (part,), _, _ in parts]), x.reshape(-1))
    for (part,), mine, place in parts:
        at = tuple(slice(o, o + n) for o, n in zip(place.offsets, part.shape, strict=True))
        np.testing.assert_array_equal(x[at], part)
        np.testing.assert_array_equal(labels[at], mine)


def laid(op: str, axes: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """A chunk whose axes lie in this order in memory."""
    bound, x, labels = labelled(op, "f4", (6, 5, 36), axes, 4, True)
    x = finite(x)
    back = tuple(order.index(a) for a in range(3))
    given = put(np.ascontiguousarray(x.transpose(order)), lambda a: a.transpose(back))
    return device_groups.reduce_many([((given,), put(labels))], bound, axes, None), bound, x, labels, axes


# Chunks whose rows are read as they lie: an array's shape, how it is viewed, and which axes are reduced.
APART = {
    "backwards": ((1037,), lambda a: a[::-1], (0,)),
    "packs backwards": ((1040,), lambda a: a[::-1], (0,)),
    "every third": ((2101,), lambda a: a[::3], (0,)),
    "lines": ((9, 2, 64), lambda a: a[:, 1], (0, 1)),
    "lines backwards": ((9, 2, 64), lambda a: a[::-1, 1, ::-1], (0, 1)),
    "odd lines": ((30, 23), lambda a: a[:, 1:-1], (0, 1)),
    "lines of planes": ((4, 9, 40), lambda a: a[:, :-2, 4:-4], (0, 1, 2)),
    "rows": ((3, 5, 2, 64), lambda a: a[:, :, 0], (1, 2)),
    "rows that begin anywhere": ((3, 700), lambda a: a[::-1, 3:-3], (1,)),
    "rows with a rest": ((3, 704), lambda a: a[:, :701], (1,)),
    "repeated": ((60,), lambda a: np.broadcast_to(a[:, None], (60, 20)), (0, 1)),
}
APART_OPS = [
    *((plans.PRIVATE, op, t) for op, t in (("var", "f4"), ("argmax", "f4"))),
    *((plans.TILES, op, t) for op, t in (("var", "f2"), ("argmin", "c8"))),
    *((plans.WINDOW, op, t) for op, t in (("var", "f4"), ("sum", "u1"), ("sum", "f8"))),
    *((plans.BEST, op, t) for op, t in (("max", "f2"), ("argmax", "i1"), ("last", "f4"))),
    *((plans.RAISED, op, t) for op, t in (("argmax", "f8"), ("last", "f4"), ("norminf", "f4"))),
    *((plans.MERGED, op, t) for op, t in (("prod", "i4"), ("prod", "u1"))),
    *(("scattered", op, t) for op, t in (("sum", "f2"), ("count_nonzero", "u1"), ("prod", "i2"))),
    *((plans.ROWS, op, t) for op, t in (("var", "f4"), ("last", "f8"), ("argmax", "i1"), ("sum", "f2"))),
]


# Chunks whose columns are read so.
COLUMNS = {
    "rows backwards": ((37, 40), lambda a: a[::-1], (0,)),
    "columns backwards": ((37, 40), lambda a: a[:, ::-1], (0,)),
    "every third column": ((37, 120), lambda a: a[:, ::3], (0,)),
    "parts of planes": ((4, 9, 3, 44), lambda a: a[1:, ::2, :, 2:-2], (1,)),
    "planes between": ((5, 3, 7, 40), lambda a: a, (0, 2)),
    "columns numbered first": ((15, 40), lambda a: a[:, ::-1].T, (1,)),
    "odd columns": ((3, 29, 44), lambda a: a[:, 1:, 1:-2], (1,)),
}
COLUMN_OPS = ("var", "f4"), ("argmax", "i1"), ("first", "f8"), ("sum", "u1"), ("max", "f2")


def apart(op: str, dtype: str, name: str) -> Any:
    shape, view, axes = {**APART, **COLUMNS}[name]
    whole = finite(values(shape, dtype, 3))
    x = view(whole)
    bound, _, labels = labelled(op, dtype, x.shape, axes, 5, True)
    return device_groups.reduce_many([((put(whole, view),), put(labels))], bound, axes, None), bound, x, labels, axes


def products(dtype: str, way: str) -> Any:
    """Odd numbers, most of them: a product that is zero hides what was lost."""
    bound, _, labels = labelled("prod", dtype, (2051,), (0,), 9, True)
    rng, at, x = np.random.default_rng(8), np.arange(2051), np.empty(2051, dtype)
    if x.dtype.kind in "iu":
        x[:] = rng.integers(0, 100, x.size) * 2 + 1 + (rng.random(x.size) < 0.02)
    else:
        x[:] = at != 77
    runs = {
        "in turn": at % 9,
        "packs": at // 16 * 5 % 9,
        "lanes": at // 40 % 9,
        "rising": at * 9 // x.size,
        "one": at * 0 + 4,
    }
    labels = runs.get(way, labels).astype("i4")
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None), bound, x, labels, (0,)


def tied() -> Any:
    """Equal elements, of a chunk in Fortran order: the position of the first one counts."""
    bound, _, labels = labelled("argmax", "i1", (6, 40), (0, 1), 3, False)
    x = np.ones((6, 40), "i1")
    given = put(np.ascontiguousarray(x.T), lambda a: a.T)
    return device_groups.reduce_many([((given,), labels)], bound, (0, 1), None), bound, x, labels, (0, 1)


def alone() -> Any:
    """No axis is reduced: each element is a group's only one."""
    bound, x, labels = labelled("sum", "f4", (3, 5), (), 2, True)
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (), None), bound, x, labels, ()


@pytest.mark.parametrize("call, limits", [(tied, METHODS[plans.BEST]), (alone, {})])
def test_positions_of_equals_and_no_axes(emulator, call, limits):
    with machine(emulator, **limits):
        same(*call())


@pytest.mark.parametrize("case", LAID, ids=str)
def test_axes_in_any_order_in_memory(emulator, case):
    with machine(emulator):
        same(*laid(*case))


@pytest.mark.parametrize("method, dtype, way", PRODUCTS)
def test_products_of_integers_by_atomics(emulator, method, dtype, way):
    for _ in emulator.orders():
        with machine(emulator, **METHODS[method]):
            same(*products(dtype, way))


@pytest.mark.parametrize("method, op, dtype", APART_OPS)
def test_rows_read_as_they_lie(emulator, method, op, dtype):
    for name, schedule in zip(APART, itertools.cycle(("forward", "reverse", "random")), strict=False):
        emulator.schedule = schedule
        with machine(emulator, **METHODS[method]):
            same(*apart(op, dtype, name))


@pytest.mark.parametrize("op, dtype", COLUMN_OPS)
def test_columns_read_as_they_lie(emulator, monkeypatch, op, dtype):
    """Without a copy of their elements."""
    copies, copied = [], contiguous.copied
    monkeypatch.setattr(contiguous, "copied", lambda a: copies.append((a.dtype, a.size)) or copied(a))
    for name, schedule in zip(COLUMNS, itertools.cycle(("forward", "reverse", "random")), strict=False):
        emulator.schedule = schedule
        with machine(emulator):
            states, bound, x, *rest = apart(op, dtype, name)
            same(states, bound, x, *rest)
        assert (x.dtype, x.size) not in copies, name


def test_how_rows_lie():
    """Packs begin at multiples of their size, elements behind one another or nearly; a load bears its divisions."""

    def lie(name, dtype, label_address=0):
        shape, view, axes = APART[name]
        x = view(np.empty(shape, dtype))
        row = [Dim(n, s) for axis, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if axis not in axes]
        run = [Dim(x.shape[a], x.strides[a]) for a in axes]
        first = sum((n - 1) * -s for n, s in zip(x.shape, x.strides, strict=True) if s < 0)
        first += {"lines of planes": 4, "rows that begin anywhere": 3, "odd lines": 1}.get(name, 0) * x.itemsize
        found = plans.lines(row, run, x.itemsize, 4, (first % 16, label_address))
        return found and (found[0], found[1].lie)

    assert lie("backwards", "f4") == lie("every third", "f4") == lie("repeated", "f4") == (4, plans.STEPPED)
    assert lie("packs backwards", "f4") == (4, plans.TURNED) and lie("packs backwards", "u1") == (8, plans.TURNED)
    assert lie("lines", "f4") == lie("rows", "f4") == lie("rows with a rest", "f4") == (4, plans.PACKED)
    assert lie("lines backwards", "f8") == (2, plans.TURNED) and lie("lines", "c16") == (1, plans.PACKED)
    assert lie("rows that begin anywhere", "f4") == (4, plans.STEPPED)
    assert lie("odd lines", "f4") == (1, plans.PACKED) and lie("odd lines", "f2") is None
    assert lie("lines of planes", "f4") == (4, plans.PACKED) and lie("lines of planes", "u1") == (8, plans.STEPPED)
    assert lie("lines", "f4", 4) == (1, plans.PACKED) and lie("lines", "f4", 8) == (2, plans.PACKED)
    far = [Dim(40, 4), Dim(30, 160)]
    assert plans.lines([], far, 4, 4, (0, 0)) is plans.lines([], [Dim(1, 4)], 4, 4, (0, 0)) is None


def test_chunks_are_copied_only_where_no_order_of_axes_does_without(monkeypatch):
    """Columns lie side by side; labels are turned where they are fewer than elements; positions do not move."""
    order = {}
    for axes, lies in itertools.product(((0, 2), (1,)), ORDERS):
        bound, x, _ = labelled("var", "f4", (40, 50, 36), axes, 4, True)
        back = tuple(lies.index(a) for a in range(3))
        turned = np.ascontiguousarray(x.transpose(lies)).transpose(back)
        found = device_groups._order(turned, View(x.shape, axes, axes), bound)
        laid_out = turned.transpose(*found.ahead, *found.reduced, *found.behind)
        order[axes, lies] = laid_out.flags.c_contiguous
    assert order == {
        **{((0, 2), lies): lies in ((2, 0, 1), (0, 2, 1), (1, 2, 0), (1, 0, 2)) for lies in ORDERS},
        **{((1,), lies): True for lies in ORDERS},
    }


def same(states: Any, bound: Any, x: Any, labels: np.ndarray, axes: tuple[int, ...]) -> None:
    """Against the host's states. ``x``: a chunk, or one of each operand."""
    got = get(states).view(bound.state)[..., 0]
    expected = host_groups.reduce_many([(x if isinstance(x, tuple) else (x,), labels)], bound, axes, None)
    part = bound.inner
    mine, theirs = (p.getfield(part.state, 0) for p in (got, expected))
    if bound.is_counted:
        some = expected["count_count"] > 0
        np.testing.assert_array_equal(got["count_count"] > 0, some)
        mine, theirs = mine[some], theirs[some]
    close(host_reduce.finalise(mine, part), host_reduce.finalise(theirs, part), bound.inner.name)


def check(got: np.ndarray, parts: Any, places: Any, op: str) -> None:
    bound = parts[0][0]
    expected = host_groups.reduce_many([((x,), labels) for _, x, labels in parts], bound, (0,), places)
    part = bound.inner
    mine, theirs = (host_reduce.finalise(p.getfield(part.state, 0), part) for p in (got, expected))
    close(mine, theirs, op)


def shapes_combined() -> list[set[Any]]:
    """The shapes of states that are combined, of chunks that are so long that their groups are found otherwise."""
    shapes: list[set[Any]] = []
    parts = [labelled("sum", "f4", shape, (0,), 5, True) for shape in ((8192,), (9,), (0,), (1024,))]
    chunks = [((put(x),), put(labels)) for _, x, labels in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_reduce, "combine", lambda both, _: shapes.append({b.shape for b in both}) or both[0])
        device_groups.reduce_many(chunks, parts[0][0], (0,), None)
    return shapes


def test_states_of_chunks_are_combined_in_one_shape(emulator):
    with machine(emulator):
        assert [len(each) for each in shapes_combined()] == [1, 1]


def test_rows_that_later_stages_fold(emulator):
    with machine(emulator):
        states, bound, x, labels = in_stages()
        got = get(states).view(bound.state)[..., 0]
    expected = host_groups.reduce_many([((x,), labels)], bound, (1,), None)
    np.testing.assert_array_equal(got["count_count"] > 0, expected["count_count"] > 0)
    for name in ("first_value", "first_seen"):
        np.testing.assert_array_equal(got[name], expected[name])


@pytest.mark.parametrize("method", METHODS)
def test_labels_without_a_group_are_reported(emulator, method):
    bound, x, labels = labelled("sum", "f4", (1024,), (0,), 5, True)
    labels[700] = 5
    with machine(emulator, **METHODS[method]), pytest.raises(errors.ArgumentError, match="label 5 or more"):
        device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None)


def adds_exactly(op: str, dtype: str, limits: str) -> bool:
    """Whether the operator is exact there: in memory alone where elements are a chunk each."""
    found = device_operator.cuda_operator(labelled(op, dtype, (8,), (0,), 5, True)[0].cells)
    return plans.adds_digits(found) if limits == "memory" else bool(plans.fields(found))


def magnitudes(op: str, dtype: str, spread: int = 60, rising: bool = False) -> Any:
    """States of groups of numbers as large and as small as there are, and their elements. In the first groups are
    infinities and NaN, in the last numbers that are nearly equal."""
    rng = np.random.default_rng(5)
    bound, x, labels = labelled(op, dtype, (1024,), (0,), 5, True)
    if x.dtype.kind in "fc":
        info = np.finfo(x.dtype)
        low, high = (max(int(n), -spread * info.nmant // 10) for n in (info.minexp - info.nmant, -info.maxexp // 3))
        parts = np.ldexp(rng.normal(size=(2, 1024)), rng.integers(low, -high, (2, 1024)))
        parts[:, labels == 4] = 1000 + rng.normal(size=(2, (labels == 4).sum())) / 100
        x[:] = (parts[0] + 1j * parts[1]).astype(dtype) if x.dtype.kind == "c" else parts[0].astype(dtype)
        x[:4], labels[:5] = (np.inf, -np.inf, np.nan, np.inf), (0, 0, 1, 2, 3)
    elif x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        x[:] = rng.integers(info.min, info.max, 1024, dtype=x.dtype, endpoint=True)
        x[labels == 4] = info.max - rng.integers(0, 3, (labels == 4).sum()).astype(x.dtype)
    if rising:  # a pack is of one group
        order = np.argsort(labels, kind="stable")
        x, labels = x[order], labels[order]
    return device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None), bound, x, labels


def exactly(op: str, x: np.ndarray) -> complex:
    """The answer of finite elements, by rational numbers that are rounded at the end."""
    parts = [[Fraction(v.item()) for v in part] for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
    if x.dtype.kind == "b":
        parts = [[Fraction(int(v)) for v in x]]
    sums, squares, n = [sum(p) for p in parts], sum(v * v for p in parts for v in p), len(x)
    op = op.removeprefix("nan")
    if op in ("sumsq", "norm2"):
        return float(squares) if op == "sumsq" else math.sqrt(squares)
    if op == "norm1":
        return float(sum(abs(v) for v in parts[0]))
    if op in ("var", "std"):
        variance = (squares - sum(s * s for s in sums) / n) / n
        return math.sqrt(variance) if op == "std" else float(variance)
    real, *imaginary = (float(s / n if op == "mean" else s) for s in sums)
    return complex(real, *imaginary) if imaginary else real


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("op, dtype", NUMBERS)
@pytest.mark.parametrize("limits", EXACT)
def test_exact_sums_of_all_magnitudes(emulator, limits, op, dtype, rising):
    if not adds_exactly(op, dtype, limits):
        pytest.skip("in memory, elements are one chunk each")
    with machine(emulator, **EXACT[limits]):
        states, bound, x, labels = magnitudes(op, dtype, rising=rising)
        states = get(states).view(bound.state)[0, :, 0]
    with np.errstate(all="ignore"):
        got = bound.inner.monoid.finalise(
            tuple(states[n] for n in states.dtype.names),
            np.dtype("c16" if np.dtype(dtype).kind == "c" and op in ("sum", "mean") else "f8"),
        )
    first = 0
    if x.dtype.kind in "fc":
        first = 3
        for group in range(3):
            assert not np.isfinite(got[group]) or op.startswith("nan"), group
        if op in ("sum", "mean", "norm1", "norm2", "sumsq"):
            assert got[2].real == np.inf
            assert np.isnan(got[1])
    for group in range(first, 5):
        mine = x[labels == group]
        wanted = exactly(op, mine[~np.isnan(mine)] if x.dtype.kind in "fc" else mine)
        np.testing.assert_allclose(got[group], wanted, rtol=1e-15, atol=0, err_msg=f"{group}")


@pytest.mark.parametrize("limits", ["window", "narrow"])
@pytest.mark.parametrize("dtype, exponent", [("f4", -125), ("f8", -1021)])
def test_exact_sums_of_subnormal_numbers(emulator, limits, dtype, exponent):
    bound, _, labels = labelled("sum", dtype, (1024,), (0,), 5, True)
    x = np.ldexp(np.random.default_rng(7).normal(size=1024), exponent).astype(dtype)
    with machine(emulator, **EXACT[limits]):
        got = get(device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None)).view(bound.state)[0, :, 0]
    first = got.dtype.names[0]
    assert got[first].tolist() == [math.fsum(x[labels == k].astype("f8")) for k in range(5)]


def states_of(emulator: Emulator, op: str, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    bound = labelled(op, x.dtype.str[1:], (8,), (0,), 5, True)[0]
    with machine(emulator, **EXACT["window"]):
        states = device_groups.reduce_many([((put(x),), put(labels.astype("i4")))], bound, (0,), None)
        return get(states).view(bound.state)[0, :, 0]


def test_words_of_both_signs_cancel_to_a_small_sum(emulator):
    """Blocks may leave words that are large and come to one unit of a word 1280 bits below the highest one."""

    def fill(at: int, nbytes: int, stream: int) -> None:
        ctypes.memset(at, 0, nbytes)
        if nbytes > 5 * 8 * 61:
            words = np.ndarray((61, 5), "i8", (ctypes.c_char * nbytes).from_address(at))
            words[20:60, 0], words[60, 0] = 1 - 2**32, 1

    def left() -> list[float]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "fill_zeros", fill)
            bound = labelled("sum", "f8", (8,), (0,), 5, True)[0]
            states = device_groups.reduce_many([((put(np.zeros(8)),), put(np.zeros(8, "i4")))], bound, (0,), None)
        return list(get(states).view(bound.state)[0, 0, 0].item())

    for limits in ("window", "narrow"):  # a warp that rounds, and a thread
        with machine(emulator, **EXACT[limits]):
            assert left() == [2.0 ** (20 * plans.APART - 1074), 0]


@pytest.mark.parametrize(
    "dtype, base, step",
    [
        *(("i8", 2**62 + 511, 1), ("u8", 2**64 - 2**11 + 900, 1), ("i8", -(2**63) + 513, 2)),
        *(("f8", math.pi, 2.0**-51), ("c16", math.pi, 1e-24j), ("c16", 1e24j / 3, 1), ("c16", math.e - 1e-30j, 0)),
        *(("c16", 1e150 / 3, 0.5j), ("f8", 1e-160 / 3, 1e-150), ("f8", 1e150 / 3, 1e140), ("u8", 2**64 - 1, 0)),
    ],
)
def test_spreads_beside_large_means(emulator, dtype, base, step):
    """Elements all but equal, by parts in which a constant one is far larger; in the last group they are equal."""
    few = np.random.default_rng(9).integers(0, 3, 1024)
    labels = np.arange(1024) * 5 // 1024
    x = np.array([base + int(n) * step if k < 4 else base for n, k in zip(few, labels, strict=True)], dtype)
    got = states_of(emulator, "var", x, labels)
    for group, state in enumerate(got):
        mine = x[labels == group]
        m2 = exactly("var", mine) * len(mine)
        assert math.isclose(state[got.dtype.names[-1]], m2, rel_tol=1e-15), group
    assert got[-1][got.dtype.names[-1]] == 0


def test_sums_of_integers_wrap_and_carry(emulator):
    """Low words overflow again and again, both ways, and so does the sum itself."""
    rng = np.random.default_rng(6)
    bound, _, labels = labelled("sum", "i4", (1024,), (0,), 5, True)
    for low, high in ((-(2**31), 2**31), (2**30, 2**31), (-(2**31), -(2**30))):
        x = rng.integers(low, high, 1024).astype("i4")
        with machine(emulator, **METHODS[plans.WINDOW]):
            got = get(device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None)).view(bound.state)[
                0, :, 0
            ]
        assert got["value"].tolist() == [x[labels == k].sum(dtype="i8") for k in range(5)]
