"""Launches for columns: kept elements that lie together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from . import tuning
from .layout import Dim
from .plans import (
    DEEPEST,
    FLAT,
    RESULT,
    Launch,
    Planner,
    Steps,
    Way,
    aligned_by,
    balanced,
    blocks_for,
    is_one,
    row_major,
    seconds_of,
    slots_of,
)
from .reduce_costs import Effort, rounds_of, shared_lines
from .task import Work, flag
from .tuning import CACHE_LINE, SECTOR

# Operators whose running columns are far smaller than their states (kernels/monoid/columns.cuh): columns a thread.
_BYTES, _HALVES = ("i8", "u8", "boolean"), ("i16", "u16")
NARROW_COLUMNS = {f"{op}<{t}, ": 8 for op in ("Arg", "Var", "Std") for t in _BYTES}
NARROW_COLUMNS |= {f"{op}<{t}, ": 4 for op in ("Var", "Std") for t in _HALVES}
NARROW_COLUMNS |= {
    f"{op}<{t}>": 4 if t in _BYTES else 2
    for op in ("CentralMoment", "Skewness", "Kurtosis")
    for t in (*_BYTES, *_HALVES)
}
NARROW_COLUMNS |= {f"Sum<Value<{t}, ": 16 for t in _BYTES}
# Operators whose running values are twice as wide as the elements, or more: of 2 or 4 bytes they have half the loads in
# flight, where these are of more than 4 or have to be looked up. float32 of 256 MiB, an H200: sum 0.81 of a read, with
# all 0.74; prod 0.79, 0.68; ptp 0.82, 0.76. But by a column a thread, sums of (1001, 16761) 24 us and with all 22.
WIDENING = ("Sum<", "Mean<", "RootSum<", "Prod<", "PeakToPeak<")
# Operators whose states take as long to bring together as many elements do to take in.
MOMENTS = ("Var<", "Std<", "CentralMoment<", "Skewness<", "Kurtosis<", "ComplexMoments<", "ComplexStd<")


@lru_cache(256)
def _narrow_columns(op: str) -> int:
    """Columns a thread of such an operator, or 0."""
    return next((columns for start, columns in NARROW_COLUMNS.items() if op.startswith(start)), 0)


class Tiling(NamedTuple):
    """How columns are cut into tiles."""

    wide: int  # threads across a tile
    tiles: int
    items: int  # loads in flight of a thread
    splits: int  # blocks that share the runs of a tile


class ColumnPlanner(Planner):
    """Tiles of columns; few columns whose lines follow one another are read as one long line."""

    def __init__(self, *of: Any) -> None:
        """As every planner."""
        super().__init__(*of)
        layout, op = self.layout, self.op
        self.line, self.rows, self.runs = layout.kept[-1], layout.kept[:-1], layout.reduced
        self.together = self.line.strides[: len(op.itemsizes)] == op.itemsizes
        self.crowded = op.crowded and self.chunks == 1 and len(self.runs) <= 1
        others = self.runs if len(op.itemsizes) == 1 else (*self.rows, *self.runs)
        self.vector = self._column_vector(others) if self.together else 1
        self.tail = 0  # elements of a last, incomplete run

    def ways(self) -> Iterator[tuple[str, float, Way]]:
        op, line, runs = self.op, self.line, self.runs
        if self.chunks == 1 or not self.tail:
            yield "columns", 0, self._tiles
        if self._may_go_by_chunk():
            yield "columns by chunk", 0, partial(self._tiles, by_chunk=True)
        if self.tail:
            return
        if self._is_flat():
            yield "flat columns", 0, self._flat_columns
        if planes := self._planes_of_a_tile():
            yield "staged planes", 0, partial(self._staged_planes, planes)
        if stagings := self._stagings():
            yield "staged columns", 0, partial(self._staged_columns, stagings)
        if self.depth == DEEPEST or not self._folds_states():
            return
        if repeats := repeated(self):
            yield "repeated elements once", self.least_folded, partial(repeated_once, self, repeats)
        if not self.together:
            return
        if together := self._lines_together():
            yield "columns end to end", self.least_folded, partial(self._columns_end_to_end, together)
        if len(runs) < 2:
            return
        if len(op.itemsizes) == 1 and runs[-1].a == line.size * op.itemsizes[0]:
            inner = partial(self._run_as_columns, runs[-1], line.size, runs[:-1])
            yield "inner runs as columns", self.least_folded, inner
        if self.chunks == 1:
            yield "outer runs of columns", self.least_folded, partial(outer_runs_as_rows, self, runs)

    def _may_go_by_chunk(self) -> bool:
        """Whether each block may keep to runs of one chunk, one stride apart."""
        return self.chunks > 1 and len(self.runs) <= 1 and self.cells <= self._most_by_chunk()

    def _most_by_chunk(self) -> int:
        """Cells, at most: for which there are tickets, and whose states of each chunk are few beside what is read."""
        return min(tuning.TICKETS, int(self.read // (2 * self.chunks * self.op.state_bytes)))

    def _widest(self, crowded: bool = False) -> int:
        """Columns a thread may own: a 16-byte load's worth, fewer for large states."""
        sizes = self.op.itemsizes
        if sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        vector = 16 // max(sizes)
        if columns := _narrow_columns(self.op.type):
            return columns
        narrow = self._is_narrow_float() and self.op.is_heavy
        is_product = self.op.type.startswith("Both<")  # whose running values are smaller than its states
        limit = tuning.NARROW_STATE_BYTES if narrow or is_product else tuning.COLUMN_STATE_BYTES
        if crowded:
            vector, limit = min(vector, max(tuning.CROWDED_ITEMS)), tuning.CROWDED_STATE_BYTES
        while vector > 1 and vector * self.op.state_bytes > limit:
            vector //= 2
        return vector

    def _column_items(self, load_bytes: int) -> int:
        heavy = self.op.is_heavy and not self._is_narrow_float()
        # What is loaded grows before it is folded.
        heavy = heavy or self.op.type.startswith(("Casting<", "Mapped<", "Sum<Magnitude<boolean>"))
        return min(16, max(2, tuning.COLUMN_LOAD_BYTES // (2 if heavy else 1) // load_bytes))

    def _tile_items(self, load_bytes: int, even: bool) -> int:
        """Loads in flight of a thread that walks a tile, whose runs are one stride apart where ``even``."""
        items, is_wide = self._column_items(load_bytes), load_bytes > 4 or not even
        widens = is_wide and self.op.itemsizes[0] in (2, 4) and self.op.core.startswith(WIDENING)
        return max(2, items // 2) if widens else items

    def _column_vector(self, others: Sequence[Dim]) -> int:
        """The most columns that keep every run of a thread at one phase."""
        vector = self._widest(self.crowded)
        for operand, size in enumerate(self.op.itemsizes):
            while vector > 1 and size and not aligned_by(others, operand, vector * size):
                vector //= 2
        places = [(p, n) for p, n in zip(self.phases, self.op.itemsizes, strict=True) if n]
        while vector > 1 and not is_one(p // n % vector for p, n in places):
            vector //= 2
        return vector

    def _lines_together(self) -> int:
        """Lines that are taken as one longer one, behind which the next begins as far from a vector as the first does,
        and as many of these as leave few threads of a tile idle. 0 where lines are a whole number of vectors apart or
        much lies between them that is not read anyway, or where the states of several would not be few beside what
        is read."""
        op, line, runs, vector = self.op, self.line, self.runs, self._widest()
        if len(runs) != 1 or len(op.itemsizes) > 1 or self.crowded or vector <= self.vector:
            return 0
        (run,), size = runs, op.itemsizes[0]
        is_near = run.a < tuning.MOST_APART * line.size * size or run.a <= SECTOR
        if not is_near or run.a < line.size * size or run.a % size:
            return 0
        if self.chunks > 1 and not self._may_go_by_chunk():
            return 0
        apart = run.a // size
        least = vector // math.gcd(vector, apart)
        few = self.read / tuning.STATES_A_READ / (self.cells * op.state_bytes)
        if self.chunks > 1:  # they may go by chunk too, which those left over need
            few = min(few, self._most_by_chunk() * line.size / (self.cells * apart))
        most = int(min(few, run.size / 2)) // least

        def threads_a_slot(times: int) -> float:
            slots = -(-least * times * apart // vector)
            return round(-(-slots // tuning.COLUMN_WIDTH) * tuning.COLUMN_WIDTH / slots, 1)

        return least * min(range(1, min(most, tuning.COLUMN_WIDTH // 2) + 1), key=threads_a_slot, default=0)

    def _columns_end_to_end(self, count: int) -> Steps:
        """So many lines, with what lies between them, as one longer line of the same alignment as all others; the
        states of its columns are folded behind, but for those between lines."""
        (run,) = self.runs
        apart = run.a // self.op.itemsizes[0]
        long = Dim(run.size // count, run.a * count, 0, run.c * count)
        left = run.size % count
        tail = (left - 1) * apart + self.line.size if left else 0
        return self._run_as_columns(replace(run, size=count), apart, (long,), tail)

    def _run_as_columns(self, inner: Dim, apart: int, runs: Sequence[Dim], tail: int = 0) -> Steps:
        """All elements of the innermost run, whose lines are so far apart, as columns; their states are folded
        behind."""
        line, rows, state = self.line, self.rows, self.op.state_bytes
        length = (inner.size - 1) * apart + line.size
        cells = tuple(replace(dim, c=row_major(rows, i) * length) for i, dim in enumerate(rows))
        planner = state_planner(self, ColumnPlanner, (*cells, replace(line, size=length, c=1)), runs)
        planner.tail = tail
        kept = (
            *(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(rows, cells, strict=True)),
            Dim(line.size, state, 0, line.c),
        )
        reduced = (Dim(inner.size, apart * state, 0, inner.c),)
        return folded_behind(self, planner.launches(), kept, reduced, planner.cells)

    def _is_flat(self) -> bool:
        """Lines close to each other, of which several can be read as one that is a whole number of vectors from the
        next."""
        line, runs, size = self.line, self.runs, self.op.itemsizes[0]
        vector, is_simple = self._widest(), len(runs) == 1 and len(self.op.itemsizes) == 1
        if not is_simple or not self.op.commutative or vector == 1:
            return False
        apart, spanned = runs[0].a, (line.size - 1) * line.a + size
        is_near = apart < tuning.MOST_APART * spanned or apart <= SECTOR
        if line.a < size or not is_near or apart < spanned or any(step % size for step in (line.a, apart)):
            return False
        # What lies between columns is counted too: nanvar of 18 columns of bfloat16 63 us, by rows 39.
        if apart > spanned and self._counts_elements():
            return False
        if self.chunks > 1 and not self._may_go_by_chunk():
            return False
        periods = self._periods(vector)
        return periods * apart <= self._flat_room(vector) * size and runs[0].size >= periods

    def _counts_elements(self) -> bool:
        """Moments that leave out NaN, which take as many registers for each column."""
        return self.op.type.startswith(("Var<", "Std<")) and self.op.type.endswith(", true>")

    def _flat_room(self, vector: int) -> int:
        """Elements of lines that a block reads as one, at most; of one that begins within a vector, fewer."""
        is_aligned = self._lines_begin_at(self.rows, 0, vector * self.op.itemsizes[0])
        return (tuning.THREADS if is_aligned else tuning.THREADS - 1) * vector

    def _periods(self, vector: int) -> int:
        """Lines read as one: a whole number of vectors, up to a block's width of them."""
        apart = self.runs[0].a // self.op.itemsizes[0]
        least = vector // math.gcd(apart, vector)
        most = least * max(1, self._flat_room(vector) // (least * apart))
        unit = math.lcm(least, CACHE_LINE // math.gcd(CACHE_LINE, self.runs[0].a))
        aligned = most // unit * unit
        return aligned if aligned >= 0.9 * most else most

    def _flat_columns(self) -> Steps:
        """A long line that one block spans: the block folds its periods itself."""
        op, vector, line, rows, (run,) = self.op, self._widest(), self.line, self.rows, self.runs
        size, periods = op.itemsizes[0], self._periods(vector)
        apart, spanned = run.a // size, (line.size - 1) * line.a // size + 1
        length, left = (periods - 1) * apart + spanned, run.size % periods
        long = Dim(run.size // periods, run.a * periods, 0, run.c * periods)
        work = self.work.but(
            rows=math.prod(d.size for d in rows),
            runs=long.size,
            length=length,
            slots=slots_of(length, vector, self._lines_begin_at(rows, 0, vector * size)),
            tail=(left - 1) * apart + spanned if left else 0,
            tiles=apart,
            step_a=line.a,
            step_b=run.c,
            step_c=line.c,
            width=line.size,
            row=tuple(rows),
            run=(long,),
        )
        items = self._column_items(vector * size)
        if op.state_bytes > 8:  # the fold of periods needs registers too
            items = max(2, min(items, tuning.COLUMN_LOAD_BYTES // 2 // (vector * size)))
        is_much = apart % vector > 0 and self.read > tuning.FLAT_READ
        blocks, groups = tuning.FLAT_BLOCKS if is_much else tuning.FLAT_BLOCKS // 4, work.rows * self.chunks
        parts = balanced(groups, -(-blocks // groups), max(1, long.size // items))
        splits = max(parts, -(-long.size // tuning.MOST_TAKEN)) * self.chunks
        name = f"reduce_flat_columns<{op.type}, {{}}, {vector}, {tuning.THREADS}, {items}, {{}}, {self.batch}>"
        shared = tuning.THREADS * vector * op.state_bytes
        work = work.but(splits=splits)
        is_long = self._published_bytes(splits * line.size) > tuning.LONG_FOLD_BYTES
        each, threads = -(-long.size * self.chunks // splits), work.rows * splits * tuning.THREADS
        loads, ends, passed = threads * each, threads * vector, work.rows * self.chunks * run.size * run.a
        lines = loads * vector * size / CACHE_LINE
        effort = self._effort("flat columns", threads, loads, vector, each / items, lines, ends, nbytes=passed)
        blocks, columns = work.rows * splits, line.size
        return self._finished(name, work, blocks, work.rows, columns, shared, work.cells, is_long, effort=effort)

    def _planes_of_a_tile(self) -> int:
        """Small planes, one as far from the next as the next from the one behind it, that blocks copy to shared memory
        with what lies between them; 0 where they are not of few lines close to each other, or whole vectors of columns
        are a thread's anyway."""
        op, line, rows, runs, size = self.op, self.line, self.rows, self.runs, self.op.itemsizes[0]
        is_simple = len(runs) == 1 and len(op.itemsizes) == 1 and self.together and self.chunks == 1 and rows
        if not is_simple or size not in (1, 2, 4, 8, 16) or self.vector * size >= 16 or "Refold" in op.type:
            return 0
        (run,), nbytes, apart = runs, line.size * size, rows[-1].a
        if run.size > tuning.UNROLLED_ROW or not nbytes <= run.a <= tuning.ROWS_APART * nbytes:
            return 0
        plane = (run.size - 1) * run.a + nbytes
        is_near = plane <= apart <= tuning.ROWS_APART * plane and apart % size == 0
        is_long = len(rows) == 1 or rows[-1].size * apart >= tuning.PLANE_BYTES
        return tuning.STAGED_TILE_BYTES // apart if is_near and is_long else 0

    def _staged_planes(self, count: int) -> Steps:
        """A thread takes one column of such a plane after another."""
        op, line, (run,), planes = self.op, self.line, self.runs, self.rows[-1]
        work = self._work_by_lines(line, self.rows, self.runs, 1, True)
        slots = min(count, planes.size)
        work = work.but(slots=slots, tiles=-(-planes.size // slots), width=planes.size, step_b=planes.a)
        blocks, copied = work.rows // planes.size * work.tiles, work.rows * planes.a
        name = f"reduce_plane_columns<{op.type}, {op.emits}, {run.size}, {tuning.THREADS}, {self.batch}>"
        cells, shared = self.cells, slots * planes.a + tuning.TILE_MARGIN
        taken = cells * run.size, 1, 2, copied / CACHE_LINE, cells
        effort = self._effort("staged planes", blocks * tuning.THREADS, *taken, nbytes=copied)
        return [Launch(name, blocks, work, shared, effort=effort)]

    def _stagings(self) -> list[int]:
        """Elements of a slot of tiles that blocks copy to shared memory: for a few lines of bytes that begin at so many
        places of a word that few columns are a thread's otherwise. None where lines are too short for them. Positions,
        elements of two bytes and many lines took as long as otherwise or longer (H200, 0.99 to 1.2 times)."""
        op, line, runs, size = self.op, self.line, self.runs, self.op.itemsizes[0]
        is_simple = len(runs) == 1 and len(op.itemsizes) == 1 and self.together and op.commutative
        if not is_simple or size > 1 or self.vector >= tuning.STAGED_SLOT_BYTES or self.crowded or self._stops():
            return []
        if runs[0].size > tuning.STAGED_LINES_MOST or runs[0].c:  # which counts positions
            return []
        if "Refold" in op.type or (self.chunks > 1 and not self._may_go_by_chunk()):
            return []
        widest = min(self._widest(), tuning.STAGED_SLOT_BYTES)
        slots = {vector for vector in (widest, max(4, widest // 2)) if vector >= 4}
        return [vector for vector in slots if 2 * line.size >= self._staged_width(vector) * vector]

    def _staged_width(self, vector: int) -> int:
        """Slots across a tile, beside which lines have 16 bytes before them (kernels/grid/staged_columns.cuh)."""
        return tuning.THREADS - 16 // vector

    def _staged_columns(self, stagings: Sequence[int]) -> Steps:
        return min((self._staged_tiles(vector) for vector in stagings), key=seconds_of)

    def _staged_tiles(self, vector: int) -> Steps:
        """Tiles of columns whose lines blocks copy as they lie, some at a time."""
        op, line, (run,), lines = self.op, self.line, self.runs, tuning.STAGED_LINES
        wide = self._staged_width(vector)
        across = -(-line.size // (wide * vector))
        work = self._work_by_lines(line, self.rows, self.runs, vector, True).but(slots=across * wide)
        tiles = work.rows * across
        work = work.but(tiles=tiles, splits=self.chunks)
        name = f"reduce_staged_columns<{op.type}, {{}}, {vector}, {tuning.THREADS}, {lines}, {{}}, {self.batch}>"
        stage = lines * (tuning.THREADS * vector + 16)
        gap = 1 if vector * op.state_bytes <= tuning.APART_BYTES else 0
        shared = max(2 * stage, tuning.THREADS * (vector + gap) * max(8, op.state_bytes))
        is_long = self._published_bytes(work.splits * wide * vector) > tuning.LONG_FOLD_BYTES
        blocks, columns = tiles * work.splits, wide * vector
        copied = blocks * run.size * (columns + SECTOR) / CACHE_LINE
        taken = blocks * tuning.THREADS * run.size, vector, run.size / lines, copied, blocks * columns
        effort = self._effort("staged columns", blocks * tuning.THREADS, *taken)
        return self._finished(name, work, blocks, tiles, columns, shared, work.cells, is_long, effort=effort)

    def _tiles(self, by_chunk: bool = False) -> Steps:
        """Columns by tiles, whose lines begin with slots where they are aligned. ``by_chunk``: a block keeps to runs of
        one chunk, which are one stride apart."""
        op, line, vector = self.op, self.line, self.vector
        aligned = vector == 1 or self._lines_begin_at(self.rows, 0, vector * op.itemsizes[0])
        work = self._work_by_lines(line, self.rows, self.runs, vector, aligned).but(tail=self.tail)
        runs, even = work.runs * (1 if by_chunk else self.chunks), (by_chunk or self.chunks == 1) and len(work.run) <= 1
        apart = self.chunks if by_chunk else 1  # runs that have blocks of their own
        wide, tiles, items, splits = self._tiling(work, runs, even, apart)
        sizes = f"{vector}, {tuning.THREADS}, {wide}, {items}, {flag(even)}"
        name = f"reduce_columns<{op.type}, {{}}, {sizes}, {{}}, {self.batch}>"
        gap = 1 if vector > 1 and vector * op.state_bytes <= tuning.APART_BYTES else 0
        shared = tuning.THREADS * (vector + gap) * op.state_bytes
        is_long = self._published_bytes(splits * wide * vector) > tuning.LONG_FOLD_BYTES
        work = work.but(splits=splits, tiles=tiles)
        kind = "columns" if even else "columns looked up"
        effort = self._tile_effort(kind, work, wide, items)
        blocks, columns = tiles * splits, wide * vector
        return self._finished(name, work, blocks, tiles, columns, shared, work.cells, is_long, effort=effort)

    def _tiling(self, work: Work, runs: int, even: bool, apart: int) -> Tiling:
        """Few tiles are narrower where one block would have much to fold for the others, unless a launch of its own
        folds it all the same."""

        def folded(tiling: Tiling) -> int:
            return self._published_bytes(tiling.splits * tiling.wide * self.vector)

        found = narrow = self._tiles_of(self._width(work, runs), work, runs, even, apart)
        least = max(2, 2 * CACHE_LINE // (self.vector * sum(self.op.itemsizes)), 4 * tuning.THREADS // runs + 1)
        if found.wide <= tuning.COLUMN_WIDTH and not self.crowded and self.read <= tuning.NARROW_TILES_READ:
            few = tuning.FOLDED_BYTES * max(1, self.read // tuning.FOLDED_OF)  # a smaller part of more
            while folded(narrow) > few and narrow.wide >= least:
                narrow = self._tiles_of(narrow.wide // 2, work, runs, even, apart)
        return narrow if folded(narrow) <= tuning.LONG_FOLD_BYTES else found

    def _tiles_of(self, wide: int, work: Work, runs: int, even: bool, apart: int) -> Tiling:
        """Tiles of so many threads across, of columns whose runs are so many, and those of ``apart`` parts have blocks
        of their own."""
        op, vector, tall = self.op, self.vector, tuning.THREADS // wide
        tiles = -(-work.rows * work.slots // wide)
        items = tuning.CROWDED_ITEMS[vector] if self.crowded else self._tile_items(vector * sum(op.itemsizes), even)
        if self._stops() and runs <= tuning.STOPPING_RUNS:
            items = min(items, tuning.STOPPING_ITEMS)
        while items > 1 and items * tall >= 2 * runs:
            items //= 2
        published = wide * vector * op.state_bytes // (2 if op.itemsizes[0] <= 2 else 1)
        most = min(max(tuning.COLUMN_PARTIAL_BYTES // published, tuning.ONE_WAVE), tuning.COLUMN_BLOCKS)
        most = min(most, max(self._chain() * tuning.THREADS // (wide * vector) * tiles, tuning.ONE_WAVE))
        if self._stops():  # of more parts, each looks for an element of its own
            most = min(most, tuning.FEW_BLOCKS)
        warp_tiles = tiles * runs * apart * wide // (32 * items)
        is_filled = apart == 1 and self._is_filled(work, runs, wide)
        wanted = 1 if is_filled else -(-blocks_for(warp_tiles, most) // (tiles * apart))
        most = max(1, runs // max(1, tall * items))
        splits = _even_splits(tiles, runs, vector, most) if self.crowded else balanced(tiles * apart, wanted, most)
        return Tiling(wide, tiles, items, max(splits, -(-runs // (tall * tuning.MOST_TAKEN))) * apart)

    def _tile_effort(self, kind: str, work: Work, wide: int, items: int) -> Effort:
        vector, tall, runs = self.vector, tuning.THREADS // wide, work.runs * self.chunks
        share = -(-runs // work.splits)
        each = -(-share // tall)  # runs of a thread, and how many it takes
        taken = min(each, items) if self._stops() else each
        threads = work.tiles * work.splits * tuning.THREADS
        loads, step = threads * taken, work.step_a * vector
        if work.slots == 1:
            step = work.row[-1].a if work.row else 0
        lines = loads * shared_lines(step)
        if 1 < work.slots < 32 and work.row:  # a warp's loads are of several lines
            lines = max(lines, work.rows * runs * shared_lines(work.row[-1].a) * taken / each)
        ends = work.tiles * work.splits * wide * vector * max(1, (tall - 1).bit_length())
        lookups = loads if kind.endswith("looked up") else 0
        rounds = rounds_of(taken, items)
        effort = self._effort(kind, threads, loads, vector, rounds, lines, ends, lookups)
        return effort._replace(nbytes=effort.nbytes * taken / each)

    def _is_filled(self, work: Work, runs: int, wide: int) -> bool:
        """Whether columns of moments, of so many runs, fill the GPU by tiles of so many threads across, whose threads
        have their rows in few rounds of loads, or not many more bytes of them than their states have. More threads to a
        column would have more states to bring together."""
        size = sum(self.op.itemsizes)
        rounds = runs * wide / (tuning.THREADS * self._column_items(self.vector * size))
        is_short = rounds <= tuning.FEW_ROUNDS or runs * size <= tuning.FEW_STATES * self.op.state_bytes
        has_tiles = work.rows * work.slots >= tuning.EVEN_TILES * tuning.FEW_BLOCKS * wide
        return self.op.core.startswith(MOMENTS) and has_tiles and is_short

    def _width(self, work: Work, runs: int) -> int:
        """Threads across a tile; the rest of the block goes down it, where tiles alone would not fill the GPU, or where
        columns are so long that to fold them costs little."""
        wide, least = 256, tuning.COLUMN_WIDTH
        is_tall = work.rows * work.slots < tuning.COLUMN_TILES * wide or runs >= tuning.TALL_RUNS
        while is_tall and wide > least and runs >= 2 * tuning.THREADS // wide and not self._is_filled(work, runs, wide):
            wide //= 2
        if runs < 16:
            return 256
        while wide > 4 and wide >= 2 * work.rows * work.slots:
            wide //= 2
        return wide


AnyPlanner = TypeVar("AnyPlanner", bound=Planner)


def state_planner(of: Planner, kind: type[AnyPlanner], kept: Sequence[Dim], reduced: Sequence[Dim]) -> AnyPlanner:
    """What finds a state for each of these columns or rows, of what a planner has to reduce."""
    layout = replace(of.layout, kept=tuple(kept), reduced=tuple(reduced), cell=0)
    planner = kind(replace(of.op, emit=""), layout, of.phases, of.chunks, of.finish, of.option)
    planner.depth = of.depth + 1
    return planner


def outer_runs_as_rows(of: Planner, runs: Sequence[Dim], line: Sequence[Dim] = ()) -> Steps:
    """The longest of several runs alone, which is of one stride: each place in the others has states of its own, which
    are folded behind."""
    longest = max(runs, key=lambda dim: dim.size)
    others, state = [dim for dim in runs if dim is not longest], of.op.state_bytes
    dims = (*others, *of.layout.kept)
    cells = [replace(dim, c=row_major(dims, i)) for i, dim in enumerate(dims)]
    states = [Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(dims, cells, strict=True)]
    planner = state_planner(of, type(of), cells, (longest, *line))
    return folded_behind(of, planner.launches(), states[len(others) :], states[: len(others)], planner.cells)


def repeated(of: Planner) -> list[Dim]:
    """The dimensions that repeat elements of all operands, where more than these are to be reduced."""
    dims = [dim for dim in of.layout.reduced if not any(dim.strides)]
    return dims if len(dims) < len(of.layout.reduced) else []


def repeated_once(of: Planner, repeats: Sequence[Dim]) -> Steps:
    """Elements that repeat are reduced once; their states are folded behind as often as they repeat."""
    kept, state = of.layout.kept, of.op.state_bytes
    reduced = [dim for dim in of.layout.reduced if any(dim.strides)]
    cells = [replace(dim, c=row_major(kept, i)) for i, dim in enumerate(kept)]
    planner = state_planner(of, type(of), cells, reduced)
    states = [Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(kept, cells, strict=True)]
    again = [Dim(dim.size, 0, 0, dim.c) for dim in repeats]
    *steps, fold = folded_behind(of, planner.launches(), states, again, planner.cells)
    if fold.effort:
        fold = replace(fold, effort=fold.effort._replace(loads=fold.effort.loads * math.prod(d.size for d in repeats)))
    return [*steps, fold]


def folded_behind(of: Planner, steps: Steps, kept: Sequence[Dim], reduced: Sequence[Dim], states: int) -> Steps:
    """Launches that leave so many states, and the fold of these to what a planner has to give."""
    steps = [replace(step, writes=FLAT) if step.writes == RESULT else step for step in steps]
    return [*steps, of.fold(tuple(kept), tuple(reduced), states, of.layout.cell, FLAT)]


def folded_columns(count: int, state: int, step: int) -> tuple[Dim, ...]:
    """Neighbouring states that become one, with so much between their positions."""
    return (Dim(count, state, 0, step),) if count > 1 else ()


def _even_splits(tiles: int, runs: int, vector: int, most: int) -> int:
    """Splits whose blocks fill waves, each of which reads its rows and ends."""
    wave = tuning.PROCESSORS * tuning.CROWDED_BLOCKS[vector]

    def cost(splits: int) -> int:
        return -(-tiles * splits // wave) * (-(-runs // splits) + tuning.CROWDED_ROWS)

    return min(range(1, min(most, max(8, 2 * wave // tiles)) + 1), key=cost)
