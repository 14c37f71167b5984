"""What a launch is told: the bytes of its task, and plans that take every element once, in order where that matters."""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
import os
import re
import struct
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu.samples import DTYPES, LAYOUTS, rows, view_of
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from plan_chunks import (
    Chunk,
    chunks,
    contiguous,
    gapped,
    in_planes,
    inside,
    laid,
    paired,
    plain,
    plain_chunks,
    turned,
    walked,
)
from plan_machine import check_launch, check_plan, chosen, parameters, plan_of, planned, short_chains, small_grids
from simt import Kernels, Unit, build
from tiers import only, slow

from gpureduce_dask import device as device_package
from gpureduce_dask.device import chunk_plans, launch, sources, tuning
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device.layout import MAX_DIMS, Dim, collapse, order_of
from gpureduce_dask.device.plans import FLAT, Operator
from gpureduce_dask.device.specialise import IDEMPOTENT, first_of_repeated, first_or_last
from gpureduce_dask.device.task import BATCH, BATCH4, Work, base_bytes, div_words, more_bytes, walk_words
from gpureduce_dask.errors import ArgumentError, DtypeError
from gpureduce_dask.expressions.mapped import mapped
from gpureduce_dask.expressions.program import unchanged
from gpureduce_dask.operators.product_monoid import product
from gpureduce_dask.operators.table import OPERATORS

FOLDER = Path(device_package.__file__).parent

# ---- bytes

MEMBERS = (
    *("rows", "runs", "length", "slots", "splits", "tiles", "chunks", "cells", "tail"),
    *("step_a", "step_b", "step_c", "first_cell", "low_a", "high_a", "low_b", "high_b"),
)
DIVS = {"by_slots": "slots", "by_tiles": "tiles", "by_runs": "runs", "by_width": "width", "by_splits": "splits"}
PROBES = """
template <int Chunks> __global__ void show_task(const __grid_constant__ Task<Chunks> task) {
    i64* out = (i64*)task.out;
    *out++ = (i64)sizeof(Task<Chunks>);
    *out++ = (i64)task.partials;
    *out++ = (i64)task.tickets;
    MEMBERS
    for (int i = 0; i < 2; i++) *out++ = bit_cast<i64>(task.option[i]);
    for (int i = 0; i < 5; i++) {
        const Offset row = task.row.at(i), run = task.run.at(i);
        *out++ = row.a; *out++ = row.b; *out++ = row.c;
        *out++ = run.a; *out++ = run.b; *out++ = run.c;
    }
    for (const Base& base : task.base) { *out++ = (i64)base.a; *out++ = (i64)base.b; *out++ = base.index; }
}

template <int Chunks> __global__ void show_more(const __grid_constant__ Task4<Chunks> task) {
    i64* out = (i64*)task.out;
    *out++ = (i64)sizeof(Task4<Chunks>);
    for (int k = 0; k < 2; k++) { *out++ = task.step_more[k]; *out++ = task.low_more[k]; *out++ = task.high_more[k]; }
    for (int i = 0; i < 5; i++)
        for (const Offset4& at : {task.row_at(i), task.run_at(i)}) {
            *out++ = at.a; *out++ = at.b; *out++ = at.c; *out++ = at.more[0]; *out++ = at.more[1];
        }
    for (const Base& base : task.base) {
        const Pointers4 at = task.pointers(&base);
        *out++ = (i64)at.a; *out++ = (i64)at.b; *out++ = (i64)at.more[0]; *out++ = (i64)at.more[1];
    }
}

struct Divisions { const u64* numbers; u64* quotients; u64 count; Div div; };
__global__ void divide_all(const __grid_constant__ Divisions task) {
    for (u64 i = 0; i < task.count; i++) task.quotients[i] = task.div.of(task.numbers[i]);
}

struct Walking { Offset* out; u64 count; Walk walk; };
__global__ void walk_all(const __grid_constant__ Walking task) {
    for (u64 i = 0; i < task.count; i++) task.out[i] = task.walk.at(i);
}
"""


MORE = ("show_more<1>", f"show_more<{BATCH4}>")


@cache
def probes() -> Kernels:
    """Kernels that say what they find in a task, compiled for the CPU."""
    shown = [f"*out++ = (i64)task.{name};" for name in MEMBERS]
    shown += [f"*out++ = (i64)task.{name}.size;" for name in DIVS]
    text = sources.source() + PROBES.replace("MEMBERS", "\n    ".join(shown))
    return build([Unit(text, ("show_task<1>", f"show_task<{BATCH}>", *MORE, "divide_all", "walk_all"))])[0]


def address(array: np.ndarray[Any, Any]) -> int:
    return array.ctypes.data


@pytest.mark.parametrize("batch", [1, BATCH])
def test_a_task_is_the_struct_in_cuda(batch: int) -> None:
    """Member by member: each holds a number of its own."""
    numbers = {name: 1000 + i for i, name in enumerate(MEMBERS)}
    numbers.update(step_a=-7, first_cell=-(2**62), low_a=-9, high_b=2**62)
    row, run = (Dim(3, 11, -12, 13), Dim(2, 14, 15, -16)), (Dim(5, -21, 22, 23),)
    work = Work(**numbers, option=(1.5, -2.5), width=77, row=row, run=run, batch=batch)
    bases = [(2**63 + i, 5000 + i, -i) for i in range(batch)]
    expected = [1234, 5678, *numbers.values(), *(numbers.get(name, 77) for name in DIVS.values())]
    expected += struct.unpack("2q", struct.pack("2d", 1.5, -2.5))
    for i in range(5):
        outer, inner = divmod(i, 2)
        expected += [
            sum(p)
            for p in zip((11 * outer, -12 * outer, 13 * outer), (14 * inner, 15 * inner, -16 * inner), strict=True)
        ]
        expected += [-21 * i, 22 * i, 23 * i]
    expected += [int(np.int64(np.uint64(n))) if n >= 2**63 else n for base in bases for n in base]
    out = np.zeros(1 + len(expected), np.int64)
    task = struct.pack("3Q", address(out), 1234, 5678) + base_bytes(bases, batch) + work.words()
    probes().launch(f"show_task<{batch}>", task, 1, 1)
    assert out[0] == len(task) <= launch.MOST_BYTES == 4096
    assert out[1:].tolist() == expected


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("batch", [1, BATCH4])
def test_a_task_of_more_operands_is_the_struct_in_cuda(batch: int, count: int) -> None:
    further = ((41, -42, 43), (-44, -45, 46))[: count - 2]
    row = (Dim(3, 11, -12, 13, (14, -15)[: count - 2]), Dim(2, 16, 17, -18, (19, 20)[: count - 2]))
    run = (Dim(5, -21, 22, 23, (24, -25)[: count - 2]),)
    work = Work(row=row, run=run, batch=batch, more=further)
    bases = [(5000 + i, 6000 + i, -i) for i in range(batch)]
    pointers = np.zeros((batch, 2), np.int64)
    pointers[:, : count - 2] = np.arange(batch)[:, None] + np.array([7000, 8000])[: count - 2]
    expected = [n for each in (*further, *(((0, 0, 0),) * (4 - count))) for n in each]
    for i in range(5):
        outer, inner = divmod(i, 2)
        for at in ([outer, inner], row), ([i], run):
            each = [[n * m for m in (d.a, d.b, d.c, *d.more, 0)[:5]] for n, d in zip(*at, strict=True)]
            expected += [sum(p) for p in zip(*each, strict=True)]
    for (a, b, _), more in zip(bases, pointers.tolist(), strict=True):
        expected += [a, b, *more]
    out = np.zeros(1 + len(expected), np.int64)
    task = struct.pack("3Q", address(out), 0, 0) + base_bytes(bases, batch) + work.words() + work.more_words()
    task += more_bytes(pointers, batch)
    probes().launch(f"show_more<{batch}>", task, 1, 1)
    assert out[0] == len(task) <= launch.MOST_BYTES
    assert out[1:].tolist() == expected


def test_a_short_batch_leaves_room() -> None:
    assert len(base_bytes([(1, 2, 3)], BATCH)) == 24 * BATCH
    assert base_bytes([(1, 2, -3)], 2) == struct.pack("2Qq3Q", 1, 2, -3, 0, 0, 0)


sizes = st.one_of(
    st.integers(2, 2**63 - 1),
    st.integers(2, 1000),
    st.builds(lambda power, off: max(2, 2**power + off), st.integers(1, 62), st.integers(-2, 2)),
)


@settings(max_examples=200, deadline=None)
@given(sizes, st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(-2, 2)), max_size=20))
@example(3, [])
@example(2**63 - 1, [])
@example(2**62 + 1, [])
def test_division_is_exact(size: int, near: list[tuple[int, int]]) -> None:
    """Of numbers around multiples of the size, and at both ends of what is allowed."""
    numbers = {0, 1, size - 1, size, size + 1, 2**63 - 1, 2**63 - 2, (2**63 - 1) // size * size}
    numbers |= {n // size * size + off for n, off in near}
    numbers = sorted(n for n in numbers if 0 <= n < 2**63)
    given_, found = np.array(numbers, np.uint64), np.empty(len(numbers), np.uint64)
    task = struct.pack("6Q", address(given_), address(found), len(numbers), *div_words(size))
    probes().launch("divide_all", task, 1, 1)
    assert found.tolist() == [n // size for n in numbers]


strides = st.integers(-(2**40), 2**40)
dims = st.builds(Dim, st.integers(2, 5), strides, strides, strides)


@settings(max_examples=50, deadline=None)
@given(st.lists(dims, max_size=MAX_DIMS))
def test_a_walk_is_a_nested_loop(dims: list[Dim]) -> None:
    assume(math.prod(d.size for d in dims) <= 3000)
    expected = [
        [sum(i * getattr(d, s) for i, d in zip(place, dims, strict=True)) for s in "abc"]
        for place in itertools.product(*(range(d.size) for d in dims))
    ]
    found = np.empty((len(expected), 3), np.int64)
    words = [n & (2**64 - 1) for n in walk_words(dims)]
    probes().launch("walk_all", struct.pack(f"2Q{len(words)}Q", address(found), len(expected), *words), 1, 1)
    assert found.tolist() == expected


# ---- layouts


@settings(max_examples=400, deadline=None)
@given(chunks())
@example(Chunk((2, 3), (1,), ((1, 2),), (0, 1), commutative=False))
def test_a_layout_takes_every_element_once(chunk: Chunk) -> None:
    layout, wanted = chunk.layout(), chunk.cells()
    found = {}
    for row in walked(layout.kept):
        found[layout.cell + row[2]] = [
            (0, layout.offset_a + row[0] + run[0], layout.offset_b + row[1] + run[1], run[2] * chunk.indexed)
            for run in walked(layout.reduced)
        ]
    assert sorted(found) == list(range(len(wanted)))
    assert all(chunk.same(found[cell], wanted[cell]) for cell in found)


@settings(max_examples=200, deadline=None)
@given(chunks())
def test_results_may_lie_as_elements_do(chunk: Chunk) -> None:
    """Cells in an order of axes are those of C order, renumbered; longer steps of memory are longer steps of cells."""
    order = order_of(chunk.shape, chunk.strides, chunk.axes) or tuple(range(len(chunk.shape)))
    layout, wanted = chunk.layout(order), chunk.cells()
    cells = [1 if a in chunk.axes else n for a, n in enumerate(chunk.shape)]
    numbers = np.arange(len(wanted)).reshape([cells[a] for a in order]).transpose(np.argsort(order)).ravel()
    found = {
        layout.cell + row[2]: [(0, layout.offset_a + row[0] + run[0], 0, 0) for run in walked(layout.reduced)]
        for row in walked(layout.kept)
    }
    places = {cell: sorted(at[1] for at in each) for cell, each in found.items()}
    assert places == {int(numbers[i]): sorted(at[1] for at in wanted[i]) for i in range(len(wanted))}
    steps = [abs(dim.c) for dim in layout.kept if dim.size > 1]
    assert steps == sorted(steps, reverse=True)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(3, 4), st.booleans())
def test_a_layout_of_more_operands_takes_every_element_once(data: st.DataObject, count: int, indexed: bool) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axes = tuple(a for a in range(len(shape)) if data.draw(st.booleans()))
    stride = st.sampled_from([0, 4, -4, 8, 12, 16, -48])
    strides = tuple(tuple(data.draw(stride) for _ in shape) for _ in range(count))
    steps = tuple(math.prod(shape[b] for b in axes[i + 1 :]) for i in range(len(axes)))
    layout = collapse(shape, strides, (4,) * count, axes, steps, True, indexed)
    wanted: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    lows = [0] * count
    for place in itertools.product(*map(range, shape)):
        at = tuple(sum(i * s for i, s in zip(place, each, strict=True)) for each in strides)
        lows = [min(pair) for pair in zip(lows, at, strict=True)]
        index = sum(place[a] * s for a, s in zip(axes, steps, strict=True)) if indexed else 0
        wanted.setdefault(tuple(n for a, n in enumerate(place) if a not in axes), []).append((*at, index))
    found = {}
    for outer in itertools.product(*(range(d.size) for d in layout.kept)):
        cell = layout.cell + sum(n * d.c for n, d in zip(outer, layout.kept, strict=True))
        mine = []
        for inner in itertools.product(*(range(d.size) for d in layout.reduced)):
            both = [*zip((*outer, *inner), (*layout.kept, *layout.reduced), strict=True)]
            at = tuple(o + sum(n * d.strides[k] for n, d in both) for k, o in enumerate(layout.offsets))
            mine.append((*at, sum(n * d.c for n, d in zip(inner, layout.reduced, strict=True)) if indexed else 0))
        found[cell] = sorted(mine)
    assert [found[c] for c in sorted(found)] == [sorted(each) for each in wanted.values()]
    assert [low + offset for offset, low, _ in layout.more] == lows[2:]


@settings(max_examples=200, deadline=None)
@given(chunks())
@example(Chunk((3, 2), (4, 2), ((8, -4), (-4, 2)), (0,)))
def test_a_layout_knows_what_the_operands_own(chunk: Chunk) -> None:
    layout = chunk.layout()
    elements = [element for cell in chunk.cells() for element in cell]
    owned = [(layout.low_a, layout.high_a, layout.offset_a), (layout.low_b, layout.high_b, layout.offset_b)]
    for i, (size, (low, high, offset)) in enumerate(zip(chunk.itemsizes, owned, strict=False)):
        assert low + offset == min(e[1 + i] for e in elements)
        assert high + offset == max(e[1 + i] for e in elements) + size


@settings(max_examples=50, deadline=None)
@given(chunks())
def test_a_layout_has_no_more_dimensions_than_it_needs(chunk: Chunk) -> None:
    """Contiguous chunks are one line to reduce, or one line of cells."""
    plain = tuple(contiguous(chunk.shape, size) for size in chunk.itemsizes)
    every = tuple(range(len(chunk.shape)))
    assert len(replace(chunk, strides=plain, axes=every, wider=1).layout().reduced) <= 1
    assert len(replace(chunk, strides=plain, axes=()).layout().kept) <= 1
    backwards = tuple(tuple(-s for s in n) for n in plain)
    if chunk.commutative and not chunk.indexed:
        assert len(replace(chunk, strides=backwards, axes=every, wider=1).layout().reduced) <= 1


def test_more_dimensions_than_a_walk_has() -> None:
    shape = (2,) * 18
    strides = tuple(3**i for i in range(18))
    for axes in ((), tuple(range(9)), tuple(range(18))):
        with pytest.raises(ArgumentError, match="at most 8 after merging"):
            Chunk(shape, (1,), (strides,), axes).layout()


# ---- plans

STATE_BYTES = st.sampled_from([1, 2, 8, 12, 16, 24, 32, 40, 64])
FINISHES = st.sampled_from(["ticket", "two-pass", "atomic"])


@pytest.mark.parametrize("grids", [nullcontext, slow(small_grids), short_chains])
@settings(max_examples=150, deadline=None)
@given(chunks(most=2000), STATE_BYTES, st.integers(1, 3), FINISHES)
def test_a_plan_takes_every_element_once(grids: Any, chunk: Chunk, state_bytes: int, count: int, finish: str) -> None:
    with grids():
        check_plan(chunk, state_bytes, count, finish)


@pytest.mark.parametrize("grids", [nullcontext, slow(small_grids), short_chains])
@settings(max_examples=60, deadline=None)
@given(plain_chunks(), STATE_BYTES, FINISHES)
def test_a_plan_of_a_plain_chunk(grids: Any, chunk: Chunk, state_bytes: int, finish: str) -> None:
    with grids():
        check_plan(chunk, state_bytes, 1, finish)


@pytest.mark.parametrize("grids", [nullcontext, slow(small_grids), short_chains])
@settings(max_examples=60, deadline=None)
@given(plain_chunks(sizes=[8, 12, 40]), st.booleans())
def test_a_plan_of_partials(grids: Any, chunk: Chunk, commutative: bool) -> None:
    with grids():
        check_plan(replace(chunk, commutative=commutative), chunk.itemsizes[0], 1, "ticket", refold=True)


PLANE = dict(indexed=True, wider=7)  # of an array with seven
# Each is for one kernel, or one way through it.
CASES: dict[str, tuple[str, Chunk, int, str]] = {
    "a line": ("reduce_rows Lines=ONE_LINE", plain((20001,), (0,)), 1, "ticket"),
    "a line, polled": ("reduce_rows Lines=ONE_LINE Finish=POLLED", plain((20001,), (0,)), 1, "ticket"),
    "lines by tickets": ("reduce_rows Finish=TICKET", inside((20, 12000), (1,)), 1, "ticket"),
    "a line in two passes": ("reduce_rows Lines=ONE_LINE Finish=TWO_PASS", plain((20001,), (0,)), 1, "two-pass"),
    "a line by atomics": ("reduce_rows Lines=ONE_LINE Finish=ATOMIC", inside((20001,), (0,)), 1, "atomic"),
    "long lines": ("reduce_rows Lines=LONG_LINES", inside((3, 2, 3000), (0, 2)), 1, "ticket"),
    "short lines": ("reduce_rows Lines=EVEN_LINES", inside((6, 50, 33), (0, 2)), 1, "ticket"),
    "lines with gaps": ("reduce_rows Lines=LONG_LINES", gapped((3, 2, 3000), (0, 2)), 1, "two-pass"),
    "rows of words": ("reduce_short_rows V=8 Partial=false", plain((901, 24), (1,), 1, starts=(8,)), 1, "ticket"),
    "short rows": ("reduce_short_rows Lines=SHORT_LINE Partial=true", inside((901, 32), (1,)), 1, "ticket"),
    "short lines as columns": ("reduce_flat_columns", plain((1500, 5, 3), (0, 2), 1), 1, "ticket"),
    "short lines as columns of planes": ("reduce_columns", inside((3, 70, 14, 3), (1, 3), 2), 1, "two-pass"),
    "short lines of any order as columns": (
        "reduce_columns Even=true",
        turned((7, 40, 6, 9), (0, 1, 3), (3, 2, 0, 1), (1, 1, 1, 1)),
        1,
        "ticket",
    ),
    "lines with gaps as longer ones": ("reduce_columns Even=true", inside((900, 6, 9), (0,), 4), 1, "ticket"),
    "runs of two strides": ("reduce_columns Even=true V=1", plain((99, 5, 7, 33), (0, 2)), 1, "ticket"),
    "short lines of chunks as columns": ("reduce_columns", plain((60, 38, 3), (0, 2), 1), 3, "ticket"),
    "rows of lines": ("reduce_short_rows Lines=EVEN_LINES", inside((901, 3, 5), (1, 2)), 1, "ticket"),
    "staged rows": ("reduce_staged_rows", plain((901, 7), (1,)), 1, "ticket"),
    "ordered staged rows": ("reduce_staged_rows", plain((901, 7), (1,), commutative=False), 1, "ticket"),
    "subwarp rows": ("reduce_subwarp_rows V=4", plain((901, 33), (1,), starts=(4,)), 1, "ticket"),
    "aligned subwarp rows": ("reduce_subwarp_rows V=4", plain((901, 32), (1,)), 1, "ticket"),
    "subwarp rows by words": ("reduce_subwarp_rows V=4", plain((901, 27), (1,), 1, starts=(1,)), 1, "ticket"),
    "subwarp rows of wide elements": ("reduce_subwarp_rows V=1", plain((901, 3), (1,), 16), 1, "ticket"),
    "subwarp rows apart": ("reduce_subwarp_rows V=4", inside((901, 33), (1,)), 1, "ticket"),
    "subwarp rows in planes": ("reduce_subwarp_rows V=4", in_planes((31, 40, 33), (2,)), 1, "ticket"),
    "subwarp runs in planes": ("reduce_subwarp_runs V=4", in_planes((3, 11, 300, 33), (0, 3)), 1, "ticket"),
    "subwarp runs": ("reduce_subwarp_runs V=4", plain((3, 301, 33), (0, 2), starts=(4,)), 1, "ticket"),
    "subwarp runs of chunks": ("reduce_subwarp_runs V=8", plain((301, 40), (1,), 2, starts=(2,)), 3, "ticket"),
    "columns": ("reduce_columns Finish=POLLED", plain((300, 64), (0,), 8), 1, "ticket"),
    "columns in two passes": ("reduce_columns Finish=TWO_PASS", inside((3000, 9), (0,)), 1, "two-pass"),
    "columns by atomics": ("reduce_columns Finish=ATOMIC", gapped((3000, 9), (0,)), 1, "atomic"),
    "ordered columns": ("reduce_columns", plain((300, 65), (0,), commutative=False), 1, "two-pass"),
    "planes": ("reduce_columns", plain((20, 30, 40), (1,)), 1, "ticket"),
    "columns with gaps end to end": ("reduce_columns V=4 Even=true", inside((700, 301), (0,)), 1, "two-pass"),
    "columns of planes with gaps end to end": ("reduce_columns V=4 Even=true", inside((5, 557, 61), (1,)), 3, "ticket"),
    "few columns": ("reduce_flat_columns Finish=POLLED", plain((9000, 3), (0,), indexed=True), 1, "ticket"),
    "few columns in two passes": ("reduce_flat_columns Finish=TWO_PASS", plain((9000, 3), (0,)), 1, "two-pass"),
    "few columns by atomics": ("reduce_flat_columns Finish=ATOMIC", plain((2, 6000, 3), (1,)), 1, "atomic"),
    "few columns with gaps": ("reduce_flat_columns", inside((3000, 26), (0,), 1), 1, "ticket"),
    "few columns with gaps of planes": ("reduce_flat_columns", inside((3, 1700, 26), (1,), 1), 1, "two-pass"),
    "a batch of few columns with gaps": ("reduce_flat_columns", inside((1500, 9), (0,), 1), 3, "ticket"),
    "odd columns": ("reduce_columns V=1", plain((18, 1001), (0,)), 1, "ticket"),
    "columns of small planes": ("reduce_plane_columns", plain((70, 5, 9), (1,), 1, starts=(3,)), 1, "ticket"),
    "columns of small planes apart": ("reduce_plane_columns", inside((3, 70, 4, 9), (2,), 4), 1, "ticket"),
    "odd columns of bytes": ("reduce_staged_columns", plain((30, 1001), (0,), 1), 1, "ticket"),
    "odd columns of planes of bytes": ("reduce_staged_columns", inside((2, 30, 1203), (1,), 1), 1, "two-pass"),
    "odd columns of a plane": ("reduce_columns V=1", plain((18, 1001, 1), (0, 2)), 1, "ticket"),
    "odd columns one element on": ("reduce_columns V=4", plain((531, 131), (0,), starts=(4,)), 1, "ticket"),
    "few columns of planes": ("reduce_columns", inside((90, 14, 3), (0, 1), 4), 1, "ticket"),
    "few columns of a plane": ("reduce_flat_columns", plain((9000, 3, 1), (0, 2), **PLANE), 1, "ticket"),
    "odd columns end to end": ("reduce_columns V=4 Even=true", plain((531, 131), (0,)), 1, "ticket"),
    "odd columns of planes end to end": ("reduce_columns V=4 Even=true", plain((3, 717, 77), (1,)), 1, "ticket"),
    "a batch of odd columns end to end": ("reduce_columns V=4 Even=true", plain((531, 131), (0,)), 3, "ticket"),
    "odd columns in two passes": ("reduce_columns V=1", plain((2, 20, 1001), (1,)), 1, "two-pass"),
    "odd columns, turned": (
        "reduce_columns V=1",
        turned((1001, 2, 20), (2,), (0, 2, 1), (1, 1, 1)),
        1,
        "ticket",
    ),
    "odd columns backwards": ("reduce_columns V=1", turned((18, 1001), (0,), (1, 0), (1, -1)), 1, "ticket"),
    "few columns, turned": ("reduce_flat_columns", turned((3, 2, 2000), (2,), (0, 2, 1), (1, 1, 1)), 1, "ticket"),
    "few columns one element on": ("reduce_columns", plain((3000, 3), (0,), starts=(4,)), 1, "ticket"),
    "rows backwards": ("reduce_rows Finish=TWO_PASS", turned((5, 9000), (1,), (1, 0), (-1, 1)), 1, "two-pass"),
    "rows of a warp each": ("reduce_short_rows Lines=ONE_LINE", inside((500, 300), (1,)), 1, "ticket"),
    "rows with room behind": (
        "reduce_short_rows Partial=true",
        replace(inside((5000, 6), (1,)), starts=(0,)),
        1,
        "ticket",
    ),
    "pairs": ("reduce_rows Lines=LONG_LINES", paired((3, 2, 3000), (0, 2), (2, 2), (8, 4)), 1, "ticket"),
    "pairs at odds": ("reduce_rows Lines=LONG_LINES", paired((3, 2, 3001), (0, 2), (1, 0), (0, 0)), 1, "ticket"),
    "pairs of rows at odds": ("reduce_short_rows", paired((900, 31), (1,), (1, 0), (0, 0)), 1, "ticket"),
    "pairs of columns": ("reduce_columns", paired((300, 30), (0,), (0, 2), (0, 8)), 1, "ticket"),
    "batch of ordered rows": (
        "reduce_ordered",
        plain((2000, 32), (1,), commutative=False),
        2,
        "ticket",
    ),
    "ordered short rows": (
        "reduce_columns V=1",
        replace(gapped((9000, 3), (1,)), commutative=False, indexed=True),
        1,
        "ticket",
    ),
    "ordered rows": ("reduce_ordered", plain((3, 4000), (1,), commutative=False), 1, "two-pass"),
    "a long row": ("reduce_rows Lines=LINE_AHEAD", plain((200_001,), (0,)), 1, "ticket"),
    "a batch": ("reduce_rows Lines=SHORT_LINES", inside((9, 80), (0, 1)), 5, "ticket"),
    "a batch of columns": ("reduce_columns", plain((30, 80), (0,)), 5, "two-pass"),
    "a batch of columns by chunk": ("reduce_columns Even=true", plain((30, 80), (0,)), 5, "ticket"),
    "a batch of few columns": ("reduce_flat_columns", plain((1500, 3), (0,)), 3, "ticket"),
    "a batch of few columns in two passes": ("reduce_flat_columns", plain((1500, 3), (0,)), 3, "two-pass"),
    "an ordered batch": ("reduce_ordered", plain((3, 90), (1,), commutative=False), 5, "ticket"),
    "atomics into cells": ("fill_cells", plain((2, 9000), (1,)), 1, "atomic"),
}


FIRST = {wanted.split()[0]: name for name, (wanted, *_) in [*CASES.items()][::-1]}  # case of each kernel


@pytest.mark.parametrize(
    "name", only(lambda name: name in FIRST.values() or math.prod(CASES[name][1].shape) * CASES[name][2] < 2500, CASES)
)
def test_every_kernel_takes_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, chunk, count, finish = CASES[name]
    if "long row" in name:
        monkeypatch.setattr(tuning, "FEW_BLOCKS", 6)
    kernel, *words = wanted.split()
    words = dict(word.split("=") for word in words)
    for state_bytes in (4, 16):
        launches = [step for way in check_plan(chunk, state_bytes, count, finish).values() for step in way]
        met = [chosen(step.kernel) for step in launches]
        assert [m for m in met if m.kernel == kernel and words.items() <= m.arguments.items()], launches


def test_every_kernel_has_a_case() -> None:
    assert {wanted.split()[0] for wanted, *_ in CASES.values()} == {*parameters()} - {"finalise_cells"}


class _OnDevice:
    """What a plan asks of a CuPy array, of a host's at an address that a GPU would give its base."""

    def __init__(self, x: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> None:
        self.shape, self.strides, self.dtype, self.itemsize = x.shape, x.strides, x.dtype, x.itemsize
        self.data = SimpleNamespace(ptr=2**40 + address(x) - address(base), device_id=0)


def test_what_the_sanitizers_walk_meets_every_kernel() -> None:
    met = set()
    for number, (shape, axes, view) in enumerate(LAYOUTS):
        for dtype in ("uint8", "float32"):
            base = np.zeros(shape, dtype)
            x = view_of(base, view)
            if 0 in x.shape:
                continue
            names = rows(dtype)
            for name in ("sum", names[number % len(names)]):
                bound = OPERATORS[name].bind(x.dtype)
                finishes = ("ticket", "two-pass") if name == "sum" and dtype == "uint8" else ("ticket",)
                for finish in finishes:
                    cut = chunk_plans._cut((_OnDevice(x, base),), 1, bound, axes, None, finish, False)
                    met |= {step.kernel.partition("<")[0] for step in cut.plan.launches()}
    assert met == {*parameters()} - {"finalise_cells", "fill_cells"}  # launches behind and before these


# ---- what every plan keeps to

MOST_MEMORY = 2**38  # bytes of a GPU


@cache
def table_operators() -> list[tuple[Operator, bool]]:
    """What the rows of the table are to a plan, and whether they have an index."""
    found = {}
    for row in OPERATORS.values():
        for dtypes in itertools.product(DTYPES, repeat=row.arity):
            with suppress(DtypeError):
                bound = row.bind(*dtypes)
                op = device_operator.cuda_operator(bound)
                key = (op.itemsizes, op.state_bytes, op.type.partition("<")[0], bound.indexed)
                found.setdefault(key, (op, bound.indexed))
    return list(found.values())


@st.composite
def huge_chunks(draw: st.DrawFn, op: Operator, indexed: bool, count: int) -> Chunk:
    """As many as no GPU holds, contiguous or every other element of the last axis."""
    shape: list[int] = []
    left = MOST_MEMORY // max(op.itemsizes) // count
    for _ in range(draw(st.integers(1, 4))):
        size = max(1, min(left, 2 ** draw(st.integers(0, 38)) + draw(st.integers(-1, 1))))
        shape.append(size)
        left //= size
    steps = [1] * (len(shape) - 1) + [draw(st.sampled_from([1, 1, 2]))]
    order, pads = range(len(shape))[::-1], [0] * len(shape)
    strides = tuple(laid(shape, n, order, steps, pads) for n in op.itemsizes)
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    assume(math.prod(n for a, n in enumerate(shape) if a not in axes) * op.state_bytes <= MOST_MEMORY)
    return Chunk(tuple(shape), op.itemsizes, strides, tuple(sorted(axes)), indexed, op.commutative)


@settings(max_examples=500, deadline=None)
@given(st.data(), st.sampled_from(table_operators()), st.sampled_from([1, 1, 2, BATCH]), FINISHES)
def test_launches_are_within_limits(
    data: st.DataObject, operator: tuple[Operator, bool], count: int, finish: str
) -> None:
    """Grids, shared memory, tickets and parameters."""
    op, indexed = operator
    launches = planned(data.draw(huge_chunks(op, indexed, count)), op, count, finish)
    for step in launches:
        check_launch(step, chosen(step.kernel), op)


@pytest.mark.parametrize("count", [2, 24, 77, BATCH])
def test_launches_read_what_was_written(count: int) -> None:
    """Of so many chunks, whose columns are taken end to end, too, with some left over."""
    for shape, axis in [
        ((60, 90), 0),
        ((33, 60, 5), 1),
        ((7, 41, 90), 1),
        ((100, 3), 0),
        ((257, 35), 0),
        ((61, 1001), 0),
    ]:
        for op, indexed in table_operators():
            strides = tuple(contiguous(shape, n) for n in op.itemsizes)
            plan, _ = plan_of(Chunk(shape, op.itemsizes, strides, (axis,), indexed), op, count, "ticket")
            for way, _, launches in plan.every():
                written = {"chunk"}
                for step in launches:
                    assert step.reads in written, (way, shape, op.type)
                    written |= {step.writes} | ({"partials"} if step.partial_states else set())
                assert launches, (way, shape, op.type)


def test_two_tiles_of_rows_are_no_more_than_any_gpu_has() -> None:
    for length in (8100, 8193, 12000):
        chunk = Chunk((256, length), (1,), ((length, 1),), (1,))
        plan, _ = plan_of(chunk, Operator("Op", (1,), 8), 2, "ticket")
        assert all(step.shared_bytes <= tuning.RUN_TILES_BYTES for _, _, launches in plan.every() for step in launches)


LARGE = [
    ((2**26,), (0,)),
    ((2, 2**25 + 1), (1,)),
    ((2**13, 2**13), (0,)),
    ((2**13 + 1, 2**13 + 1), (0,)),
    ((2**22, 17), (0,)),
    ((2**24, 5), (0,)),
    ((2**12, 128, 131), (0,)),
    ((128, 2**12, 131), (1,)),
    ((3, 2**20, 33), (0, 1)),
    ((4, 2**24), (0,)),
    *((shape, (0,)) for shape in [(18, 4965730), (9, 2**23 + 1)]),
    ((64, 2**20 + 3), (0,)),
]


@pytest.mark.parametrize(("shape", "axes"), LARGE, ids=str)
def test_scratch_is_a_small_part_of_a_large_chunk(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    too_much = {}
    for op, indexed in table_operators():
        chunk = Chunk(shape, op.itemsizes, tuple(contiguous(shape, n) for n in op.itemsizes), axes, indexed)
        launches = planned(chunk, op, 1, "ticket")
        scratch = sum(step.partial_states for step in launches)
        scratch += next((step.work.cells for step in launches if step.writes == FLAT), 0)
        bytes_read = math.prod(shape) * sum(op.itemsizes)
        if scratch * op.state_bytes > bytes_read // 4:
            too_much[op.type] = f"{scratch * op.state_bytes:,} bytes of scratch for {bytes_read:,}"
    assert not too_much


TALL = [(2**13, 64), (2**16, 64), (2**12, 256), (2**22, 17), (5242, 100), (2**20, 3)]


@pytest.mark.parametrize("shape", TALL, ids=str)
def test_no_block_folds_much_for_the_others(shape: tuple[int, int]) -> None:
    """Down columns, and no tile is so narrow for it that rows of it are parts of a cache line."""
    for op, indexed in table_operators():
        chunk = Chunk(shape, op.itemsizes, tuple(contiguous(shape, n) for n in op.itemsizes), (0,), indexed)
        for step in planned(chunk, op, 1, "ticket"):
            what, size = chosen(step.kernel), sum(op.itemsizes)
            if what.kernel == "reduce_columns" and what.arguments["Finish"] in ("POLLED", "TICKET"):
                wide = what["Wide"] * what["V"]
                assert step.work.splits * wide * op.state_bytes <= tuning.LONG_FOLD_BYTES, step.kernel
                if step.reads == "chunk":
                    assert wide * size >= min(tuning.CACHE_LINE, shape[1] * size // 2), step.kernel


def test_elements_that_repeat_are_taken_once() -> None:
    """By operators that they change nothing of; what others make of them is folded as often as they repeat."""
    shape = (28, 78, 30727)
    for op, indexed in table_operators():
        strides = tuple((0, shape[2] * n, n) for n in op.itemsizes)
        chunk = Chunk(shape, op.itemsizes, strides, (0, 1), indexed, op.commutative)
        repeats = [dim.size for dim in first_of_repeated(op, chunk.layout()).reduced]
        if op.type.startswith(IDEMPOTENT):
            assert repeats == [78], op.type
        elif op.commutative:
            assert repeats == [28, 78], op.type
            ways = {name: launches for name, _, launches in plan_of(chunk, op, 1, "ticket")[0].every()}
            first, *_, last = ways["repeated elements once"]
            assert (first.work.runs, last.work.runs) == (78, 28), op.type


def test_the_first_or_last_that_cannot_be_missing_is_read_alone() -> None:
    shape = (5, 7, 3)
    for op, indexed in table_operators():
        strides = tuple((7 * n, n, -35 * n) for n in op.itemsizes)
        layout = Chunk(shape, op.itemsizes, strides, (0, 2), indexed, op.commutative).layout()
        found, size = first_or_last(op, layout), op.itemsizes[0]
        if re.match(r"FirstLast<(boolean|[iu]\d+),", op.type):
            by = (4 * 7 - 2 * 35) * size if "true" in op.type else 0
            assert not found.reduced and found.offset_a == layout.offset_a + by, op.type
            assert found.low_a + by == layout.low_a and found.high_a + by == layout.high_a, op.type
        else:
            assert found is layout, op.type


def test_plans_do_not_know_the_gpu() -> None:
    """What makes plans imports nothing that could ask for one."""
    for name in ("layout", "plans", "row_plans", "column_plans", "reduce_costs", "specialise", "task", "tuning"):
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level for a in n.names}
        assert not modules & {"os", "platform", "cupy", "compile", "launch", "cupy_backends", "ctypes"}


def test_plans_are_the_same_in_every_process() -> None:
    """Whatever the order of sets and the dictionaries of a process: a chunk gives the same bits everywhere."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_device_plans as t; print(t.fingerprint())"
    seeds = ("0", "1", "12345")
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": s},
            text=True,
            capture_output=True,
            check=True,
        )
        for s in seeds
    ]
    assert {r.stdout.strip() for r in runs} == {fingerprint()}


def fingerprint() -> str:
    """Of all that the launches of the cases are told."""
    digest = hashlib.sha256()
    for _, chunk, count, finish in CASES.values():
        for op, _ in table_operators():
            if op.itemsizes == chunk.itemsizes:
                digest.update(repr(planned(chunk, op, count, finish)).encode())
    return digest.hexdigest()


def test_extremes_and_products_of_booleans_are_any_and_all() -> None:
    for name, core in (("max", "Any"), ("nanmin", "All"), ("prod", "All"), ("nanprod", "All")):
        bound = OPERATORS[name].bind("?")
        op, _ = device_operator.reducer(bound, 12, False)
        whole = f"Final<{core}<boolean>, i64>" if name.endswith("prod") else f"Keep<{core}<boolean>>"
        assert (op.type, op.state_bytes, op.emits) == (f"{core}<boolean>", 1, whole)
    together = product("prod_and_max", (OPERATORS["prod"].bind("?"), OPERATORS["max"].bind("?")))
    assert device_operator.reducer(together, 12, True)[0] == device_operator.cuda_operator(together, True)


def test_a_mean_of_all_elements_counts_none_of_them() -> None:
    plain, pairs = OPERATORS["mean"].bind("f4"), OPERATORS["mean"].bind("f8")
    op, option = device_operator.reducer(plain, 12, True)
    assert (op.type, op.emits) == ("Sum<Value<f32, f64>, f64>", "MeanOfSum<Sum<Value<f32, f64>, f64>, f32>")
    assert (op.state_bytes, option) == (8, (12.0, 0.0))
    op, _ = device_operator.reducer(pairs, 12, False)
    assert op.emits == "MeanOfSum<Sum<Value<f64, f64>, Twofold>, Averaged<Twofold>>"
    assert op.state_bytes == pairs.state.itemsize - 8
    f8, mask = np.dtype("f8"), np.dtype("?")
    masked = mapped(unchanged((f8, mask)), pairs, True)
    for counted in (
        OPERATORS["nanmean"].bind("f8"),
        masked,
        product("mean_and_max", (pairs, OPERATORS["max"].bind("f8"))),
    ):
        op, option = device_operator.reducer(counted, 12, True)
        assert op == device_operator.cuda_operator(counted, True)
        assert option == device_operator.options(counted)
