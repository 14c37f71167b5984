"""Defects put into the kernels' text, one at a time: the emulated tests notice every one of them."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from tiers import only

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from simt import SCHEDULES, SimtError, build
from simt.backend import Emulator, get, put
from simt.cases import (
    DEEP,
    LOGIC,
    Case,
    check_batch,
    check_exact,
    check_far,
    check_fold,
    check_gaps,
    check_nothing,
    check_outlier,
    check_ties,
    check_zeros,
    small_grids,
)

from gpureduce_dask.device import contiguous, sources
from gpureduce_dask.device import groups as device_groups
from gpureduce_dask.operators.table import OPERATORS
from tests import test_emulated_bins as bins

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SEEDS = 12  # the search ends at the first order that shows the defect


def partial_of(name: str, dtype: str, layout: str, **options: object) -> Callable[[Emulator], None]:
    return Case(OPERATORS[name].bind(dtype), layout, forms=(False,), **options).check


def affine(layout: str) -> Callable[[Emulator], None]:
    return Case(DEEP["affine"], layout, forms=(False,)).check


LINE = partial_of("sum", "f8", "line inside", seed=1)
PROBES: dict[str, tuple[Callable[[Emulator], None], ...]] = {
    "line": (LINE, partial_of("argmax", "f4", "line inside"), partial_of("sum", "f4", "line inside")),
    "line ahead": (partial_of("sum", "i8", "line inside", seed=1), partial_of("argmax", "f8", "line inside")),
    "whole line": (partial_of("sum", "f8", "line"),),
    "rows": (partial_of("sum", "f8", "long rows"), partial_of("sum", "i4", "rows with edges", seed=1)),
    "rounds": (partial_of("sum", "f8", "more rows than blocks"),),
    "long lines": (partial_of("sum", "f8", "long lines"), partial_of("argmax", "u1", "rows of another order")),
    "short rows": (
        *(partial_of(name, "f4", "few short rows") for name in ("sum", "mean")),
        partial_of("var", "f8", "few short rows", seed=1),
        partial_of("nanvar", "f4", "few short rows", seed=1),
    ),
    "odd short rows": tuple(
        partial_of(name, dtype, layout)
        for name, dtype, layout in (
            ("sum", "u1", "few short rows"),
            ("sum", "u1", "few short rows to the end"),
            ("max", "i2", "few short rows"),
        )
    ),
    "short lines": (
        *(partial_of("argmax", "f4", "short lines", seed=seed) for seed in range(2)),
        partial_of("sum", "i2", "many dimensions"),
    ),
    "subwarps": tuple(
        partial_of(name, dtype, layout, seed=1)
        for name, dtype, layout in [
            *(("sum", "f8", "subwarp rows"), ("argmax", "f4", "subwarp rows"), ("max", "u1", "long subwarp rows")),
            *(("var", "i1", "long subwarp rows"), ("var", "f4", "rows one row on"), ("prod", "i2", "rows one row on")),
        ]
    ),
    "subwarp runs": tuple(
        partial_of(*each)
        for each in (
            ("sum", "f8", "subwarp runs"),
            ("var", "f4", "subwarp runs"),
            ("argmax", "f4", "long subwarp runs"),
        )
    ),
    "subwarp positions": (
        partial_of("argmax", "?", "rows one row on"),
        partial_of("argmin", "i1", "subwarp rows", seed=1),
    ),
    "staged": tuple(
        partial_of(name, dtype, layout, seed=seed)
        for name, dtype, layout in [("sum", "f8", "staged rows"), ("max", "u1", "staged rows inside")]
        for seed in range(2)
    ),
    "planes": tuple(
        partial_of(name, dtype, f"{layout} in planes", seed=1)
        for name, dtype, layout in [
            ("sum", "f4", "subwarp rows"),
            ("max", "u1", "staged rows"),
            ("var", "f4", "subwarp runs"),
        ]
    ),
    "parts": tuple(
        partial_of(name, dtype, layout, seed=1)
        for name, dtype, layout in [
            *((name, dtype, "rows with edges") for name, dtype in (("var", "f4"), ("var", "i2"), ("nanmean", "f4"))),
            ("prod", "f4", "few short rows"),
        ]
    ),
    "columns": (
        partial_of("sum", "f8", "columns"),
        partial_of("argmax", "f4", "columns inside", seed=1),
        *(partial_of(name, "f8", "columns") for name in ("var", "skew")),
    ),
    "wide columns": (partial_of("sum", "u1", "short columns inside", seed=1),),
    "staged planes": tuple(
        partial_of(name, dtype, layout, seed=1)
        for name, dtype, layout in [
            ("sum", "i1", "staged planes"),
            ("max", "f4", "staged planes apart"),
            ("argmax", "u2", "staged planes apart"),
        ]
    ),
    "staged columns": tuple(
        partial_of(name, dtype, layout, seed=seed)
        for name, dtype, layout in [
            *(("sum", "u1", "staged columns"), ("max", "i1", "staged columns"), ("var", "i1", "staged columns")),
            *(("sum", "i1", "staged columns one on"), ("min", "u1", "staged columns one on")),
        ]
        for seed in range(2)
    ),
    "short columns": tuple(
        partial_of(name, dtype, f"short columns{where}", seed=1)
        for name, dtype in (("max", "u1"), ("sum", "f4"))
        for where in ("", " inside", " in reverse")
    ),
    "flat": (
        partial_of("sum", "f4", "few columns"),
        partial_of("argmin", "f4", "few columns", seed=1),
        partial_of("sum", "i2", "few columns apart"),
        partial_of("argmax", "f4", "few columns of steps", seed=1),
    ),
    "end to end": (
        partial_of("sum", "f4", "columns end to end", seed=1),
        partial_of("argmax", "f4", "columns of planes end to end", seed=1),
        partial_of("sum", "f4", "columns with gaps end to end"),
        partial_of("mean", "i4", "columns of planes with gaps end to end", seed=1),
        partial_of("max", "i2", "columns far apart end to end"),
    ),
    "moved": (
        partial_of("argmax", "f4", "short lines as columns, in any order"),
        partial_of("argmin", "i2", "columns in any order", seed=1),
    ),
    "ties": (check_ties,),
    "order": (affine("line inside"), affine("columns"), affine("planes")),
    "ordered rows": (affine("rows with edges"), affine("more rows than blocks")),
    "folds": (partial(check_fold, name="var"), partial(check_fold, name="affine")),
    "batch": (partial(check_batch, name="argmax"),),
    "two-pass": tuple(partial_of("sum", "i4", layout, finish="two-pass") for layout in ("columns", "long rows")),
    "atomic": (
        partial_of("sum", "i4", "line inside", finish="atomic"),
        partial_of("any", "f2", "columns", finish="atomic"),
    ),
    "extremes": tuple(
        partial_of("max", dtype, layout)
        for dtype, layout in [("i1", "short rows"), ("f2", "short rows"), ("i4", "staged rows"), ("f4", "staged rows")]
    ),
    "nan": tuple(partial_of(n, d, "line inside", nan=True) for n in ("max", "nanmin") for d in ("f4", "f2", "f8")),
    "positions": (
        partial_of("argmax", "i1", "line inside"),
        partial_of("nanargmin", "f4", "rows with edges", nan=True),
    ),
    "moments": (partial_of("var", "f8", "line inside"), partial_of("kurtosis", "f4", "line")),
    "exact": (check_exact,),
    "far": (check_far,),
    "outlier": (check_outlier,),
    "gaps": (check_gaps,),
    "nothing": (check_nothing,),
    "zeros": tuple(partial(check_zeros, bound=bound) for bound in LOGIC),
}


def by_groups(call: Callable[[], Any], **limits: Any) -> Callable[[Emulator], None]:
    """A reduction of groups, which are found as these limits have it."""

    def check(machine: Emulator) -> None:
        with bins.machine(machine, **limits):
            found = call()
            if not machine.collecting:
                bins.same(*found)

    return check


def line(op: str, dtype: str, length: int, groups: int, runs: bool = False) -> Callable[[], Any]:
    """Numbers of any size, none of which hides others; of ``runs`` long stretches are of one group."""

    def call() -> Any:
        bound, _, labels = bins.labelled(op, dtype, (length,), (0,), groups, True)
        if runs:
            labels[:1152], labels[1152:2200] = 1, 3  # a warp has a load of one group, and then one of another
            labels[2200:] = np.arange(length - 2200) % 4  # and then lanes alike, each of several groups
        x = np.random.default_rng(9).normal(size=length).astype(dtype)
        return device_groups.reduce_many([((put(x),), put(labels))], bound, (0,), None), bound, x, labels, (0,)

    return call


def check_chunks(machine: Emulator, lengths: str, kept: tuple[int, ...]) -> None:
    with bins.machine(machine):
        states, parts, places = bins.chunks_of("var", bins.LENGTHS[lengths], kept)
        if not machine.collecting:
            bins.check(get(states).view(parts[0][0].state)[..., 0], parts, places, "var")


def check_copy(machine: Emulator, shape: tuple[int, ...], dtype: str, view: Callable[[Any], Any]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with bins.machine(machine), pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "BLOCKS", 3)
        copied = contiguous.copied(put(x, view))
        if not machine.collecting:
            np.testing.assert_array_equal(get(copied), view(x))


ROWS = [
    ("var", ("f4",), 509, 9, 0, "random"),
    ("last", ("u1",), 203, 2, 3, "in turn"),
    ("affine", ("i1", "i2"), 61, 16, 1, "one"),
    ("argmin", ("u1",), 512, 130, 0, "none"),
]
WORDS = bins.METHODS[bins.plans.RAISED]
SORTED = {**bins.METHODS["scattered"], "DIGIT_BITS": 7}  # more digits than a warp has lanes
GROUPS: dict[str, tuple[Callable[[Emulator], None], ...]] = {
    "tiles": (
        by_groups(line("var", "f4", 3000, 5, runs=True), **bins.MANY_TILES),
        by_groups(line("var", "f4", 3000, 5, runs=True), **bins.METHODS["tiles"], TILE_BLOCKS=1),
        by_groups(line("var", "f4", 700, 90), **bins.METHODS["tiles"]),
        by_groups(line("var", "f4", 700, 300), **bins.METHODS["tiles"]),
        by_groups(line("kurtosis", "f4", 3000, 5), **bins.MANY_TILES),
    ),
    "positions in tiles": (by_groups(line("argmax", "c8", 3000, 5, runs=True), **bins.MANY_TILES),),
    "sorted": (by_groups(line("var", "f4", 1500, 90), **bins.LINES), by_groups(line("var", "f4", 1500, 127), **SORTED)),
    "runs sorted": (by_groups(line("var", "f4", 3000, 5, runs=True), **bins.METHODS["scattered"]),),
    "pieces": (
        by_groups(line("var", "f4", 700, 5), **bins.METHODS["scattered"], SUBWARPS=(8,)),
        by_groups(line("first", "f4", 700, 5), **bins.LINES),
    ),
    "sorted by a block": tuple(
        by_groups(line("var", "f4", n, groups), **{**bins.LINES, "SORT_SHORT": 2000, "DIGIT_BITS": bits})
        for n, groups, bits in ((700, 90, 4), (300, 3, 2), (1500, 127, 7))
    ),
    "rows of groups": tuple(by_groups(partial(bins.tiled, *case), **bins.METHODS[bins.plans.ROWS]) for case in ROWS),
    "rows apart": (by_groups(partial(bins.apart, "var", "f4", "rows"), **bins.METHODS[bins.plans.ROWS]),),
    "columns apart": (by_groups(partial(bins.apart, "var", "f4", "parts of planes")),),
    "words": tuple(
        by_groups(line(op, dtype, 1500, 1000), **WORDS)
        for op, dtype in (
            *(("argmax", "f8"), ("argmin", "i8"), ("last", "f4"), ("max", "u1"), ("norminf", "f4")),
            *(("ptp", "f4"), ("all", "u1")),
        )
    ),
    "chunks of groups": tuple(
        partial(check_chunks, lengths=lengths, kept=kept) for lengths in bins.LENGTHS for kept in ((), (40,))
    ),
    "copies": (
        partial(check_copy, shape=(90, 37), dtype="u1", view=lambda x: x[:, 1:-1]),
        partial(check_copy, shape=(333,), dtype="u2", view=lambda x: x[::-1]),
        partial(check_copy, shape=(9, 2, 3, 2), dtype="u1", view=lambda x: x.transpose(2, 0, 3, 1)),
    ),
    "copies of transposes": (
        partial(check_copy, shape=(90, 70), dtype="u1", view=lambda x: x.T),
        partial(check_copy, shape=(3, 40, 37), dtype="f4", view=lambda x: x.transpose(0, 2, 1)),
    ),
}
PROBES |= GROUPS


@dataclass(frozen=True)
class Mutant:
    """A place in a function or struct, what stands there instead, and which probes must notice."""

    what: str
    probe: str
    where: str
    old: str
    new: str = ""
    nth: int = 0

    def text(self) -> str | None:
        """The changed text, or None where there is no such place."""
        shipped = text_of(self.probe)
        begin, end = body(shipped, self.where)
        parts = shipped[begin:end].split(self.old)
        if len(parts) <= self.nth + 1:
            return None
        changed = self.old.join(parts[: self.nth + 1]) + self.new + self.old.join(parts[self.nth + 1 :])
        return shipped[:begin] + changed + shipped[end:]


def text_of(probe: str) -> str:
    """The kernels that a probe's checks take, as they are."""
    return sources.source("bins.cuh" if probe in GROUPS else "reduce.cuh")


def body(text: str, where: str) -> tuple[int, int]:
    """The first function or struct of this name, from its name to its closing brace; nothing if there is none."""
    found = re.search(rf"(?<!\w){re.escape(where)}[^;{{}}]*\{{", text)
    depth = 0
    for place in range(found.end() - 1 if found else len(text), len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return found.start(), place + 1
    return 0, 0


BARRIER, FENCE = "__syncthreads();", "__threadfence();"
FORGET_RUNS = "split.ranks.clear(); if (split.ranks.lane == 0) split.run_number[split.ranks.warp] = 0;"
MUTANTS = [
    # warp and block
    Mutant("warp steps end early", "line", "warp_reduce(", "down < Lanes;", "down < Lanes / 2;"),
    Mutant(
        "lanes combined the wrong way round",
        "order",
        "warp_reduce(",
        "combine(state, shuffle_down(0xffffffffu, state, down, Lanes))",
        "combine(shuffle_down(0xffffffffu, state, down, Lanes), state)",
    ),
    Mutant("half of the warp in the mask", "line", "warp_reduce(", "0xffffffffu", "0x0000ffffu", nth=1),
    Mutant("a step too many", "short rows", "warp_reduce(", "down < Lanes;", "down <= Lanes;"),
    Mutant("a state's last word stays behind", "line", "shuffle_down(", "i < both.count;", "i < both.count - 1;"),
    Mutant("barrier dropped before warps' states are read", "line", "block_reduce(", BARRIER),
    Mutant("barrier dropped after warps' states are read", "rounds", "block_reduce(", BARRIER, nth=1),
    Mutant("one warp's state for all", "line", "block_reduce(", "threadIdx.x < warps ? threadIdx.x : 0", "0"),
    Mutant("half of the warps left out", "line", "block_reduce(", "<Op, warps>", "<Op, warps / 2>"),
    # finish
    Mutant("fence dropped before the ticket", "rows", "count_arrival(", FENCE),
    Mutant("barrier dropped before the ticket", "columns", "is_last_block(", BARRIER),
    Mutant("ticket off by one", "rows", "is_last_block(", "(u32)splits - 1", "(u32)splits - 2"),
    Mutant("ticket never full", "rows", "is_last_block(", "(u32)splits - 1", "(u32)splits"),
    Mutant("ticket not reset", "rows", "is_last_block(", "if (*last) *ticket = 0;"),
    Mutant("ticket counts nothing", "rows", "count_arrival(", "(ticket, 1u)", "(ticket, 0u)"),
    Mutant("barrier dropped before the decision is read", "rows", "is_last_block(", BARRIER, nth=1),
    Mutant("fence dropped after the ticket", "rows", "count_arrival(", FENCE, nth=1),
    Mutant("barrier dropped after the decision is read", "nothing", "is_last_block(", BARRIER, nth=2),
    Mutant("partials left over", "order", "fold_partials(", "count + Threads - 1", "count"),
    Mutant("partials read past their end", "line", "fold_partials(", "> count ? count :", "> count ? count + 1 :"),
    Mutant("partials of rows mixed", "rows", "finish_cell(", "row * task.splits", "row"),
    Mutant("partials of blocks mixed", "line", "finish_cell(", "(partials, split,", "(partials, split / 2,"),
    Mutant(
        "published states left behind",
        "line",
        "const Published<State>& partials, u32",
        "partials.clear(at + i * step);",
    ),
    Mutant(
        "published states not waited for",
        "line",
        "const Published<State>& partials, u32",
        "while (!all)",
        "while (false)",
    ),
    Mutant(
        "half of a state waited for", "line", "is_published(", "there && seen[i] >> 32 == mark", "seen[i] >> 32 == mark"
    ),
    Mutant("two blocks join", "line", "is_joining(", "split == task.splits - 1", "split >= task.splits - 2"),
    Mutant("rows share a ticket", "rows", "is_joining(", "task.tickets + group", "task.tickets"),
    Mutant("second pass forgotten", "two-pass", "finish_cell(", "Finish == TWO_PASS || "),
    Mutant("atomic result overwritten", "atomic", "struct Sum", "atomicAdd(", "atomicExch("),
    Mutant("flag of a neighbouring cell", "atomic", "struct Any", "1u << (8 * (u32)(at & 3))", "1u"),
    # lines
    Mutant("load before the operand", "whole line", "owns(", "a >= low_a && "),
    Mutant("load past the operand", "rows", "owns(", "a + bytes_a <=", "a <"),
    Mutant("elements before the line", "rows", "absorb_edge(", "from < 0 ? (i32)-from : 0", "0"),
    Mutant("elements past the line", "rows", "absorb_edge(", "left < V ? (i32)left : V", "V"),
    Mutant("one element past a short line", "short rows", "absorb_some(", "j < end", "j <= end"),
    Mutant(
        "elements outside a row move its mean",
        "parts",
        "struct PivotMoments",
        ": acc.pivot);",
        ": cast<f64>(pack.at[j]));",
    ),
    Mutant(
        "elements outside a row of integers count", "parts", "struct IntegerMoments", "acc.count -= V - (end - first);"
    ),
    Mutant("zeros outside a row count", "parts", "struct Mean :", "acc.count -= V - (end - first);"),
    Mutant(
        "elements outside a row multiply",
        "parts",
        "struct Prod :",
        "fill_outside(pack, -first, end - first, cast<In>(1));",
    ),
    Mutant("short lines singly, one past", "short rows", "absorb_singly(", "at < task.length", "at <= task.length"),
    Mutant("slots at the ends forgotten", "odd short rows", "absorb_short_line(", "singly |= 1u << i"),
    Mutant("one element past the line, singly", "line", "absorb_edge(", "at >= (i64)length", "at > (i64)length"),
    Mutant("positions without the phase", "line", "position(", " - phase"),
    Mutant(
        "index of a slot off by one", "short lines", "absorb_short_lines(", "(slot * V) * task", "(slot * V + 1) * task"
    ),
    Mutant("index of the first chunk for all", "batch", "find_line(", "base->index", "task.base[0].index"),
    Mutant("quotients too small", "short lines", "struct Div", "magic)", "magic - 2)"),
    Mutant("outermost strides forgotten", "short lines", "struct Walk", "offset.a += (i64)n * dim[0].a;"),
    # rows
    Mutant("head of the line forgotten", "line", "absorb_edges(", "line.phase != 0", "false"),
    Mutant("tail of the line forgotten", "line", "absorb_edges(", "whole.end >= whole.first", "false"),
    Mutant("edges taken in by every subwarp", "line", "absorb_line(", "if (subwarp == 0) "),
    Mutant("tile past the last whole slot", "line", "absorb_line(", "<= whole.end)", "<= whole.end + Lanes * Items)"),
    Mutant("slot past the last whole one", "line", "absorb_line(", "+ lane, whole.end)", "+ lane, whole.end + 1)", 1),
    Mutant("edges taken in by every tile", "long lines", "absorb_lines(", "if (at.number == 0) "),
    Mutant("a tile past its line", "long lines", "absorb_lines(", "<= end;", "<= end + Lanes * Items;"),
    Mutant("tiles of one line alone", "long lines", "absorb_lines(", "if (tile < tiles) at =", "if (false) at ="),
    Mutant("positions in the next tile's line", "long lines", "absorb_lines(", "> line = at.line", ">& line = at.line"),
    Mutant(
        "bytes between columns count", "gaps", "struct IntegerMomentColumns", "word(r, w) & 0x01010101u", "word(r, w)"
    ),
    Mutant("tiles left out", "line ahead", "absorb_whole_tiles(", "step = subwarps *", "step = (subwarps + 1) *"),
    Mutant(
        "a tile used before it is loaded",
        "line ahead",
        "absorb_whole_tiles(",
        "(odd, task, line, slot + step)",
        "(odd, task, line, slot)",
    ),
    Mutant("the tile behind the last one", "line ahead", "absorb_whole_tiles(", "slot + step < end", "slot < end"),
    Mutant(
        "rows left out when blocks go round",
        "rounds",
        "reduce_rows(",
        "work += gridDim.x",
        "work += gridDim.x + 1",
    ),
    Mutant("slots past the last", "odd short rows", "absorb_short_line(", "if (slot >= task.slots) continue;"),
    Mutant("lines in any order as if in turn", "ties", "struct SlotOfLines", "N == 1 || gap >= (V - 1) * step", "true"),
    Mutant("threads past the last line", "short lines", "absorb_short_lines(", "own >= lines_each || "),
    Mutant("rows past the last", "short rows", "reduce_short_rows(", "Lanes == 0 && row[r] < task.rows", "Lanes == 0"),
    Mutant("one round too few", "short rows", "reduce_short_rows(", "task.rows + subwarps * Batch - 1", "task.rows"),
    Mutant("every lane writes", "short rows", "reduce_short_rows(", "threadIdx.x % Lanes == 0 && "),
    Mutant("cells past the last", "subwarps", "reduce_tile_rows(", "row >= count || "),
    # columns
    Mutant("barrier dropped before columns are folded", "columns", "fold_down(", BARRIER),
    Mutant("barrier dropped between folds of columns", "columns", "fold_down(", BARRIER, nth=1),
    Mutant("a thread of each column forgotten", "columns", "fold_down(", "gap = 1;", "gap = 2;"),
    Mutant(
        "columns folded upwards",
        "order",
        "fold_down(",
        "(each[at], each[at + gap * Columns])",
        "(each[at + gap * Columns], each[at])",
    ),
    Mutant("splits left over", "columns", "fold_tile(", "splits + ranges - 1", "splits"),
    Mutant("ranges of splits forgotten", "columns", "fold_tile(", "Threads, ranges>", "Threads, 1>"),
    Mutant("tiles past the last column", "order", "write_tile(", "if (x >= task.rows * task.slots) return;"),
    Mutant("columns of one row alone", "wide columns", "write_tile(", "columns <= Threads || q >= end", "end == 0"),
    Mutant("columns outside the line", "columns", "write_tile(", "if (c < 0 || c >= (i64)task.length) continue;"),
    Mutant("cells behind a line", "short columns", "write_columns(", " && first + j < end"),
    Mutant("cells before a line", "short columns", "write_columns(", "first + j >= 0 && "),
    Mutant(
        "a vector of cells at any address", "short columns", "write_columns(", "(u64)out % sizeof(results) == 0", "true"
    ),
    Mutant("a row of few forgotten", "short columns", "take_few(", "left >= Items", "left > Items"),
    Mutant(
        "runs past the last",
        "columns",
        "struct SplitRuns",
        "begin + size < runs ? begin + size : runs",
        "begin + size",
    ),
    Mutant(
        "runs dealt out of order", "order", "reduce_columns(", "column.down * part", "(tall - 1 - column.down) * part"
    ),
    Mutant(
        "words that hold a load shifted too far",
        "odd short rows",
        "load_unaligned(",
        "past & 4 * gap",
        "past & 8 * gap",
    ),
    Mutant("positions stay where a part began", "moved", "struct Arg", "state.index + by", "state.index"),
    Mutant("the word behind forgotten", "odd short rows", "load_unaligned(", "at[w + 1] << 32", "at[w] << 32"),
    Mutant("words that no operand owns", "odd short rows", "owns_unaligned(", "(past ? 2 : 1) * V", "V"),
    Mutant(
        "what is left of a batch forgotten",
        "columns",
        "struct RunWalk",
        "        take_rest<Items, Whole, Least>(columns);",
    ),
    Mutant(
        "runs at the ends forgotten",
        "end to end",
        "struct RunWalk",
        "take_singly(columns, Items)",
        "take_singly(columns, 1)",
    ),
    Mutant(
        "incomplete line of columns forgotten",
        "end to end",
        "finish_tile(",
        "(share.is_last) take_tail",
        "(false) take_tail",
    ),
    Mutant("incomplete line of columns in every split", "end to end", "finish_tile(", "if (share.is_last) "),
    Mutant(
        "incomplete line from its first slot on",
        "end to end",
        "with_tail(",
        "(i64)place - line.phase >=",
        "(i64)place >=",
    ),
    Mutant("incomplete line past the last column", "end to end", "take_tail(", "if (x < task.rows * task.slots)"),
    Mutant("incomplete line forgotten", "flat", "reduce_flat_columns(", "if (task.tail && ", "if (false && "),
    Mutant("incomplete line in every split", "flat", "reduce_flat_columns(", " && share.is_last"),
    Mutant("elements between lines for columns", "flat", "struct Period", " && column < width"),
    Mutant("elements between steps for columns", "flat", "struct Period", " && column * step == past"),
    Mutant("elements of the next lines for columns", "flat", "struct Period", "position < length && "),
    Mutant("lines that begin within a vector", "flat", "reduce_flat_columns(", ".phase;", ".phase * 0;"),
    Mutant("elements of the first chunk in every split", "batch", "struct SplitRuns", "base += chunk, "),
    Mutant("runs of earlier chunks forgotten", "batch", "struct SplitRuns", "before = chunk * runs, "),
    Mutant("the first chunk's last split alone", "batch", "struct SplitRuns", ", part -= chunk * parts"),
    Mutant("barrier dropped before periods are folded", "flat", "fold_periods(", BARRIER),
    Mutant("barrier dropped between folds of periods", "flat", "fold_periods(", BARRIER, nth=1),
    Mutant("the middle period forgotten", "flat", "fold_periods(", "(rows + 1) / 2)", "rows / 2)"),
    # ordered and staged rows
    Mutant(
        "lanes' states counted again",
        "ordered rows",
        "reduce_ordered(",
        "if (threadIdx.x % 32) state = Op::identity();",
    ),
    Mutant(
        "tiles joined the wrong way round",
        "ordered rows",
        "reduce_span(",
        ": Op::combine(total, part)",
        ": Op::combine(part, total)",
    ),
    Mutant("elements left over", "ordered rows", "reduce_ordered(", "slots + parts - 1", "slots"),
    Mutant("barrier dropped before subwarps read", "subwarps", "reduce_subwarp_rows(", BARRIER),
    Mutant(
        "a tile copied over the one that is read", "subwarp runs", "reduce_subwarp_runs(", "(line & 1) * task.tail", "0"
    ),
    Mutant("a pivot of each line's own", "subwarp runs", "take_line(", "if (first) pivot = fill;", "pivot = fill;"),
    Mutant("all lines where the first is", "subwarp runs", "reduce_subwarp_runs(", "index = next_index;", ";"),
    Mutant("the start of a subwarp's row forgotten", "subwarps", "each_slot(", "which = lane;", "which = lane + 1;"),
    Mutant("the end of a subwarp's row forgotten", "subwarps", "each_slot(", "which < 2;", "which < 1;"),
    Mutant("a subwarp's turn goes past the row", "subwarps", "each_slot(", ": n + turn - slots", ": n"),
    Mutant(
        "what lies behind a row counts", "subwarps", "fill_outside(", "(u32)(place + j) >= (u32)length", "place + j < 0"
    ),
    Mutant("elements outside a row count", "subwarps", "fill_outside(", "pack.at[j] = fill;", ";"),
    Mutant("elements outside a row are taken", "subwarps", "take_part(", "left < V ? left : V", "V"),
    Mutant(
        "of slots as good the last", "subwarp positions", "void look(", "(place < seen.place)", "(place > seen.place)"
    ),
    Mutant(
        "the last of like bytes", "subwarp positions", "struct RawBytePlace", "(won & 255u)", "(255u - (won & 255u))"
    ),
    Mutant(
        "a place before the row", "subwarp positions", "placed(i32", "place < 0 ? 0 : place", "place < 0 ? 1 : place"
    ),
    Mutant("every plane where the first is", "planes", "stage_stretches(", "task.row.at(tile.plane).a", "0"),
    Mutant(
        "rows behind their plane",
        "planes",
        "struct StagedTile",
        "size - first < task.slots ? size - first",
        "false ? 0",
    ),
    Mutant("planes used before they are copied", "staged planes", "reduce_plane_columns(", BARRIER),
    Mutant("columns of one plane for all", "staged planes", "reduce_plane_columns(", "plane * (u32)task.step_b", "0"),
    Mutant(
        "columns behind their plane",
        "staged planes",
        "reduce_plane_columns(",
        "column -= width, plane++",
        "column -= 0",
    ),
    Mutant("a plane without its last line", "staged planes", "reduce_plane_columns(", "(Length - 1)", "(Length - 2)"),
    Mutant("lines used before they are copied", "staged columns", "reduce_staged_columns(", BARRIER),
    Mutant("lines copied over before they are used", "staged columns", "reduce_staged_columns(", BARRIER, nth=1),
    Mutant("a stage taken too early", "staged columns", "reduce_staged_columns(", "wait_copies<1>", "wait_copies<2>"),
    Mutant("lines past the last", "staged columns", "struct LineStage", "row >= count || ", ""),
    Mutant("all of a line's 16 bytes", "staged columns", "struct LineStage", "from + 16 <= high", "true"),
    Mutant("16 bytes from before the first", "staged columns", "struct LineStage", "from >= low && ", ""),
    Mutant("bytes of the first word alone", "staged columns", "load_unaligned(", "at[w + 1] << 32", "at[w] << 32"),
    Mutant(
        "the same place in every stage",
        "staged columns",
        "reduce_staged_columns(",
        "begin * step) % 16",
        "0 * step) % 16",
    ),
    Mutant("results before others have come", "staged columns", "write_results(", BARRIER),
    Mutant("results past the line", "staged columns", "write_results(", " && q < left", ""),
    Mutant("slots of aligned lines", "staged columns", "write_tile(", "V == 1 || Own", "V == 1"),
    Mutant("barrier dropped after staging", "staged", "reduce_staged_rows(", BARRIER),
    Mutant("tile used before it is copied", "staged", "reduce_staged_rows(", "wait_copies<0>", "wait_copies<1>"),
    Mutant("staging past the end", "staged", "stage_stretches(", "owned / 16 < wanted ? owned / 16 : wanted", "wanted"),
    Mutant("the last elements not staged", "staged", "stage_stretches(", "if (whole < wanted && ", "if (false && "),
    Mutant("the first elements not staged", "staged", "stage_stretches(", "if (begin && ", "if (false && "),
    Mutant(
        "rows before the first word left out", "staged", "reduce_staged_rows(", "threadIdx.x < before && ", "false && "
    ),
    Mutant(
        "rows behind the last word left out", "staged", "reduce_staged_rows(", "for (; r < rows.rows; r++) take_one(r);"
    ),
    Mutant("rows taken as the first of their word", "staged", "finish_rows(", "r * Length", "0"),
    Mutant("results stored as words wherever they are", "staged", "reduce_staged_rows(", "if (whole) {", "if (true) {"),
    # monoids
    Mutant("identity of a maximum is zero", "extremes", "struct Extreme", "T(u64(1) << (8 * sizeof(T) - 1))", "T(0)"),
    Mutant("identity of a float maximum is zero", "extremes", "struct Extreme<f32, Max, SkipNan>", "0xff800000u", "0u"),
    Mutant("NaN loses", "nan", "extreme_f32(f32", "|| b != b"),
    Mutant("NaN is not skipped", "nan", "struct Extreme<f64, Max, SkipNan>", "SkipNan ? a != a : b != b", "b != b"),
    Mutant("half of a word left out", "extremes", "struct NarrowBest", "Lane::better(lanes, lanes >> 16)", "lanes"),
    Mutant(
        "indices of backward lines ascend",
        "ties",
        "struct Backward",
        "V - 1) * step, -gap, -step",
        "V - 1) * step, -gap, step",
    ),
    Mutant(
        "packs of backward lines as they lie",
        "ties",
        "struct Backward",
        "reversed(packs[N - 1 - i])",
        "packs[N - 1 - i]",
    ),
    Mutant("ties go to the last", "positions", "bool improves(", "index < best.index", "index > best.index"),
    Mutant("no element beats one", "nothing", "struct Arg", "if (later.index >= 0) "),
    Mutant("rounding errors dropped", "exact", "add(Twofold& sum, f64 x)", "sum.lo = __dadd_rn(sum.lo, error);"),
    Mutant("low parts dropped", "exact", "add(Twofold& sum, Twofold x)", "sum.lo = __dadd_rn(sum.lo, x.lo);"),
    Mutant("means merged as rounded", "far", "distance(Twofold", " + (to.lo - from.lo)"),
    Mutant("means without their low parts", "far", "shifted(Twofold", "sum.hi - sum.hi == 0 ? sum.lo : 0", "0"),
    Mutant("means merged without their distance", "columns", "merge(Moments2", " + delta * delta * (a.count * part)"),
    Mutant(
        "third moment with the wrong sign", "columns", "merge(Moments4", "(a.count - b.count)", "(b.count - a.count)"
    ),
    Mutant("squares not moved to the mean", "moments", "Pooled<Moments2<M>>", "sum[2] - excess", "sum[2]"),
    Mutant(
        "the third moment as it lay", "moments", "Pooled<Moments4>", "away * (3 * own.m2 + spread)", "away * spread"
    ),
    Mutant("moments moved however far", "outlier", "may_shift(", "excess < 0.75 * squares", "excess < squares"),
    Mutant("minus zero is something", "zeros", "struct Significant<f32>", "0x7fffffffu", "0xffffffffu"),
    Mutant("a top bit alone is nothing", "zeros", "zeros(u32", "| word | low", "| low"),
    Mutant("any where all is asked for", "zeros", "struct LogicColumns", "(lane != 0) != Every", "lane != 0"),
    Mutant("columns of bytes that share a word", "zeros", "struct LogicColumns", "8 * (place % 4)", "0"),
    Mutant("a byte that counts as its bits", "zeros", "struct ByteCounts", " >> 7 & 0x01010101u", ""),
    Mutant("what is left of a column taken twice", "columns", "take_some(", "i + k < count", "i + k <= count"),
    Mutant("four rows too many", "columns", "take_some(", "i + some <= count", "i <= count"),
    Mutant(
        "a row read for another",
        "columns",
        "GR_HD Batch(",
        "i < count ? i : count - 1",
        "i + 1 < count ? i : 0",
    ),
    Mutant("half of what is left forgotten", "columns", "take_rest(", "left <= Items / 2", "left < Items"),
    # ranks in a tile
    Mutant("lanes before not counted", "sorted", "sum_before(", "if (lane >= step) through += other;"),
    Mutant("warps before not counted", "sorted", "sum_before(", "w < threadIdx.x / 32", "w + 1 < threadIdx.x / 32"),
    Mutant("barrier dropped before warps' sums are read", "sorted", "sum_before(", BARRIER),
    Mutant("lanes behind counted as before", "tiles", "rank(u32", "(1u << lane) - 1", "(2u << lane) - 1"),
    Mutant("lanes of another step found", "tiles", "rank(u32", ", *mine = 0"),
    Mutant("lanes look before others are there", "tiles", "rank(u32", "__syncwarp();"),
    Mutant("a count is raised before others read it", "tiles", "rank(u32", "__syncwarp();", nth=1),
    Mutant("elements of a warp counted once", "tiles", "rank(u32", "there + __popc(peers)", "there + 1"),
    Mutant("warps' elements of a group in one place", "tiles", "void count()", "at.add(mine[w]);"),
    Mutant("groups begin where others do", "tiles", "Quad before(", "begin + (low & 0xffff)", "begin"),
    Mutant("four groups begin where others do", "tiles", "void count()", "begin += number.sum();"),
    Mutant("barrier dropped before places are found", "tiles", "void count()", BARRIER),
    # tiles
    Mutant("each run in the place of the one before", "tiles", "void end_run(", "ranks.warp]++", "ranks.warp]"),
    Mutant("runs not told of", "tiles", "void end_run(", "*has_more = 1;"),
    Mutant("pieces behind the first not told of", "tiles", "void take(Index", "if (to < end) *has_more = 1;"),
    Mutant("runs of one warp alone", "tiles", "void take_more(Index", "w < Warps;", "w < 1;"),
    Mutant("runs forgotten", "tiles", "bins_tiles(", "if (run < split.groups) split.end_run(run, acc);"),
    Mutant("a run goes on in another group", "tiles", "bins_tiles(", " || at[i][0] >> 16 != run"),
    Mutant("a run of lanes that begin alike", "tiles", "bins_tiles(", "alike && at[i][j] == at[i][0]", "true"),
    Mutant("a tile without what was before it", "tiles", "begin(const Moments4& before)", "resumed(before)", "{}"),
    Mutant("power sums about nothing", "tiles", "resumed(", "{state.mean,", "{0,"),
    Mutant("runs are forgotten before others read them", "tiles", "bins_tiles(", "split.ranks.clear();", FORGET_RUNS),
    Mutant(
        "one piece has all of a group", "tiles", "void take(Index", "from + Piece < end ? from + Piece : end", "end"
    ),
    Mutant("pieces behind the first left out", "tiles", "void take_more(Index", "+ Piece - 1) / Piece", ") / Piece"),
    Mutant(
        "the first piece once more", "tiles", "void take_more(Index", "begins[low] / Piece + 1)", "begins[low] / Piece)"
    ),
    Mutant("barrier dropped before pieces are joined", "tiles", "void take_more(Index", BARRIER),
    Mutant("barrier dropped before the first tile", "tiles", "bins_tiles(", BARRIER),
    Mutant("barrier dropped before a tile is taken in", "tiles", "bins_tiles(", BARRIER, nth=2),
    Mutant("positions of elements mixed", "positions in tiles", "void put(", "(u16)place", "(u16)at"),
    Mutant("positions in runs without the tile's", "positions in tiles", "bins_tiles(", "(begin + first", "(first"),
    Mutant("positions in tiles without the tile's", "positions in tiles", "bins_tiles(", "begin * V + place", "place"),
    # sort
    Mutant("a warp of one digit counted as an element", "runs sorted", "count_digits(", "32u);", "1u);"),
    Mutant("barrier dropped before digits are counted", "sorted", "count_digits(", BARRIER),
    Mutant("barrier dropped before counts are told", "sorted", "count_digits(", BARRIER, nth=1),
    Mutant("smaller digits not before", "sorted", "bins_sort_offsets(", "if (smaller) atomicAdd(before, smaller);"),
    Mutant("barrier dropped before digits are added", "sorted", "bins_sort_offsets(", BARRIER),
    Mutant("shares before not counted", "sorted", "bins_sort_offsets(", "own += counts[i];", ";"),
    Mutant("two entries of a tile in one place", "sorted", "swizzled(", "at ^ (", "at | ("),
    Mutant("each tile where the first one is", "runs sorted", "split_tiles(", "offsets[d] += ", "offsets[d] += 0 * "),
    Mutant("digits apart by where they begin", "sorted", "split_tiles(", " - ranks.begins[digit]"),
    Mutant("barrier dropped before a tile is split", "sorted", "bins_sort_split(", BARRIER),
    Mutant("barrier dropped before a tile is counted for a split", "sorted", "split_tiles(", BARRIER),
    Mutant("barrier dropped before a tile is written", "sorted", "split_tiles(", BARRIER, nth=1),
    Mutant("barrier dropped before offsets move on", "runs sorted", "split_tiles(", BARRIER, nth=2),
    Mutant("groups start behind their first", "sorted", "find_start(", "< group)", "<= group)"),
    Mutant("each pass by the same digit", "sorted by a block", "bins_sort_block(", "pass * (u32)task.slots", "0"),
    Mutant(
        "positions of the last pass elsewhere",
        "sorted by a block",
        "bins_sort_block(",
        "(task.runs - pass) % 2",
        "pass % 2",
    ),
    Mutant(
        "keys written over as they are read",
        "sorted by a block",
        "bins_sort_block(",
        "(is_odd ? 0 : task.length)",
        "0",
    ),
    Mutant("digits where they begin in a share", "sorted by a block", "bins_sort_block(", "at += seen[d];"),
    # words
    Mutant(
        "the last of the equal", "words", "state(const u64* words, u32 place", "position(place)", "position(place + 1)"
    ),
    Mutant("both words the greatest", "words", "Code at(int word, T x, u32)", "word == 0 ? Least::of(x) : ", ""),
    Mutant("the first word alone", "words", "bins_raise(", "w < Keys::words", "w < 1"),
    Mutant("zeros forgotten", "words", "bins_raised(", "Keys::may_be_zero && words.zeros[k]", "false"),
    Mutant("all in one word", "words", "bins_raise(", "words.distance + k, word", "words.distance, word"),
    Mutant("places of all elements", "words", "bins_raise(", "if (word == words.best[k]) "),
    # pieces
    Mutant("second pieces are firsts", "pieces", "find_piece(", "low) + 1;", "low);"),
    Mutant("pieces past their end", "pieces", "find_piece(", "start + task.slots < stop ? ", "true ? "),
    Mutant("a lane takes all of a piece", "pieces", "part_of(", "stop, Lanes}", "stop, 1}"),
    Mutant("the last elements of a piece left out", "pieces", "fold_part(", "i < part.to; i += part.step", "false;"),
    Mutant("the last pieces not joined", "pieces", "join_parts(", "pieces + Lanes - 1", "pieces"),
    Mutant("columns of groups apart by one", "chunks of groups", "struct SortedColumns", "+ column;", "+ column / 2;"),
    Mutant("the last elements of columns left out", "chunks of groups", "bins_columns(", "order < end", "false"),
    Mutant("columns of one row in all", "columns apart", "struct SortedColumns", "row * task.tiles + ", ""),
    Mutant("columns read as rows lie", "columns apart", "struct SortedColumns", "Lie ? task.run", "false ? task.run"),
    Mutant("chunks before forgotten", "chunks of groups", "bins_join(", "load_state(before + cell)", "Op::identity()"),
    Mutant("the first chunk's pieces for all", "chunks of groups", "bins_join(", "c * task.rows + row", "row"),
    # rows of groups
    Mutant("elements in one place", "rows of groups", "struct Banked", "at ^ (", "at & ("),
    Mutant("elements of one row in all", "rows of groups", "store_rows(", "cell.row * tile.length + at", "at"),
    Mutant("rows of one block in all", "rows apart", "store_rows(", "tile.first + row)", "row)"),
    Mutant("edges not stored", "rows of groups", "store_rows(", "rest && cell.row < tile.rows", "false"),
    Mutant(
        "rows stored without their last pack",
        "rows of groups",
        "store_rows(",
        "slots = tile.length / V",
        "slots = tile.length / V - 1",
    ),
    Mutant("positions in order", "rows of groups", "fold_ordered(", "Indexed ? order[i] : 0", "i"),
    Mutant("barrier dropped before rows are folded", "rows of groups", "bins_rows(", BARRIER),
    Mutant("barrier dropped before cut groups are known", "rows of groups", "bins_rows(", BARRIER, nth=1),
    Mutant("barrier dropped before pieces of rows are joined", "rows of groups", "bins_rows(", BARRIER, nth=2),
    Mutant("first pieces of rows alone", "rows of groups", "bins_rows(", "atomicOr(tile.is_cut, 1u)", ";"),
    Mutant("pieces of one row for all", "rows of groups", "bins_rows(", "extra + some.row * tile.more +", "extra +"),
    # copies
    Mutant("the last units not copied", "copies", "contiguous_lines(", "u64 at = whole * n", "u64 at = task.runs"),
    Mutant("a pack stays in its line", "copies", "void move()", "if (++at == task.length) end_line()", "++at"),
    Mutant("dimensions do not end", "copies", "void end_line()", "digits[d] = 0", "digits[d] = 1"),
    Mutant(
        "units of any step lie side by side",
        "copies",
        "contiguous_lines(",
        "next.from + i * task.step_a",
        "next.from + i",
    ),
    Mutant("a line goes on behind its end", "copies", "load_across(", "for (; done < n;", "for (; false;"),
    Mutant("the next line's units from its end on", "copies", "load_across(", "i < (int)done", "i <= (int)done"),
    Mutant("barrier dropped before a tile is turned", "copies of transposes", "contiguous_turned(", BARRIER),
    Mutant(
        "a tile's rows past the end",
        "copies of transposes",
        "contiguous_turned(",
        "? (u32)(task.slots - second) ",
        "? Height ",
    ),
    Mutant(
        "a tile's units past the end",
        "copies of transposes",
        "contiguous_turned(",
        "? (u32)(task.length - first) ",
        "? Width ",
    ),
    Mutant("one plane for all", "copies of transposes", "contiguous_turned(", "task.row.at(plane)", "task.row.at(0)"),
    Mutant(
        "barrier dropped before a tile is turned back", "copies of transposes", "contiguous_turned(", BARRIER, nth=1
    ),
    Mutant("one row's place for all", "copies of transposes", "contiguous_turned(", "offsets[i])", "offsets[0])"),
]


def run(machine: Emulator, probe: str, most: int | None = None) -> Iterator[int]:
    """Counts the orders in which all checks of a probe have passed."""
    for number, _ in enumerate(itertools.islice(machine.orders(SEEDS), most), 1):
        for check in PROBES[probe]:
            check(machine)
        yield number


PASSES, SECONDS = 255, 60  # the exit of a process in which all orders pass; how long one may take


def orders_apart(machine: Emulator, probe: str) -> int:
    """How many orders it takes until a probe notices a defect, in a process of its own: where positions in shared
    memory are wrong it may write to any, and end the process or never end."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        passed, code = 0, PASSES
        try:
            with machine.installed():
                for number in run(machine, probe):
                    passed = number
        except (SimtError, AssertionError):
            code = passed
        finally:
            os._exit(code)  # whatever happened: the rest of the tests is the parent's
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != PASSES, "not noticed"
    return max(code, 0) + 1


@pytest.fixture(scope="module")
def machines(request: pytest.FixtureRequest) -> Iterator[dict[str, Emulator]]:
    """A machine for each mutant and, under the probe's name, one for each probe; compiled together, of those alone that
    are asked for."""
    given = [item.callspec.params for item in request.session.items if item.path == request.path and item.callspec]
    probes, mutants = ([each[name] for each in given if name in each] for name in ("probe", "mutant"))
    with small_grids():
        texts = {name: (name, text_of(name)) for name in probes}
        texts |= {mutant.what: (mutant.probe, text) for mutant in mutants if (text := mutant.text())}
        units = []
        machines = {}
        for what, (probe, text) in texts.items():
            machine = machines[what] = Emulator(text)
            found = machine.collect(lambda probe=probe, machine=machine: [check(machine) for check in PROBES[probe]])
            units.append(found)
        compiled = iter(build(itertools.chain(*units), libraries=4))
        for machine, found in zip(machines.values(), units, strict=True):
            machine.adopt([next(compiled) for _ in found])
        yield machines


QUICK = [*PROBES][::8]  # the defects that these are to notice run by default


@pytest.fixture(scope="module")
def searched() -> dict[str, int]:
    """For each probe, how many orders it took until it had noticed every defect."""
    return {}


@pytest.mark.parametrize("mutant", only(lambda m: m.probe in QUICK, MUTANTS), ids=lambda m: m.what)
def test_every_defect_is_noticed(machines: dict[str, Emulator], searched: dict[str, int], mutant: Mutant) -> None:
    assert mutant.what in machines, f"{mutant.old!r} does not stand in {mutant.where}"
    if mutant.probe in GROUPS:
        searched[mutant.probe] = max(searched.get(mutant.probe, 0), orders_apart(machines[mutant.what], mutant.probe))
        return
    passed = 0
    with machines[mutant.what].installed() as machine, pytest.raises((SimtError, AssertionError)):
        for number in run(machine, mutant.probe):
            passed = number
    searched[mutant.probe] = max(searched.get(mutant.probe, 0), passed + 1)


@pytest.mark.parametrize("probe", only(lambda probe: probe in QUICK, PROBES))
def test_the_text_as_it_is_passes(machines: dict[str, Emulator], searched: dict[str, int], probe: str) -> None:
    """In every order in which a defect was looked for, and in three of each schedule at least."""
    most = max(searched.get(probe, SEEDS * len(SCHEDULES)), 3 * len(SCHEDULES))
    with machines[probe].installed() as machine:
        assert [*run(machine, probe, most)] == [*range(1, most + 1)]
