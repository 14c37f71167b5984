"""Launches for columns: kept elements that lie together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from . import tuning
from .layout import Dim, Layout
from .plans import FLAT, RESULT, Fold, Planner, Steps, Way, aligned_by, blocks_for, is_one, row_major, slots_of
from .task import Work

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


class ColumnPlanner(Planner):
    """Tiles of columns; few columns whose lines follow one another are read as one long line.

    Attributes
    ----------
    columns_of_cell : int
        Neighbouring columns that become one cell. By default each has a cell of its own.
    """

    columns_of_cell = 1

    def __init__(self, *of: Any) -> None:
        """As every planner."""
        super().__init__(*of)
        layout, op = self.layout, self.op
        self.line, self.rows, self.runs = layout.kept[-1], layout.kept[:-1], layout.reduced
        self.together = self.line.strides[: len(op.itemsizes)] == op.itemsizes
        self.crowded = op.crowded and self.chunks == 1 and len(self.runs) <= 1
        others = (*self.rows, *self.runs)
        self.vector = self._column_vector(self.line, others, self.crowded) if self.together else 1

    def ways(self) -> Iterator[tuple[str, Way]]:
        op, line, rows, runs = self.op, self.line, self.rows, self.runs
        size, is_single = op.itemsizes[0], len(op.itemsizes) == 1
        if self._is_flat():
            yield "flat columns", self._flat_columns
        if len(runs) > 1 and self._is_free():
            if self.together and is_single and runs[-1].a == line.size * size:
                yield "inner runs as columns", self._inner_runs_as_columns
            if self.together and self.chunks == 1:
                yield "outer runs of columns", self._outer_runs
        has_gaps = bool(rows) and rows[-1].a % size == 0 and rows[-1].a > line.size * size
        if self.together and has_gaps and is_single and self._is_free():
            yield "padded columns", self._padded_columns
        if self._takes_unaligned():
            yield "unaligned columns", self._unaligned_columns
        yield "columns", self._aligned_columns

    def pick(self) -> str:
        line, rows, runs, vector = self.line, self.rows, self.runs, self.vector
        if self._flat_fits():
            return "flat columns"
        if self.together and self._runs_widen(line, runs):
            return "inner runs as columns"
        if self.together and self._is_padded(line, rows, runs):
            return "padded columns"
        is_slow = vector * self.op.itemsizes[0] < tuning.PARTED_LOAD or self._has_positions()
        if self.together and is_slow and self.columns_of_cell == 1 and self._runs_part(runs):
            return "outer runs of columns"
        return "unaligned columns" if self._reads_unaligned() else "columns"

    def _outer_runs(self) -> Steps:
        return outer_runs_as_rows(self, ColumnPlanner, self.runs)

    def _aligned_columns(self) -> Steps:
        nbytes = self.vector * self.op.itemsizes[0]
        aligned = self.vector == 1 or (self.phases[0] % nbytes == 0 and aligned_by(self.rows, 0, nbytes))
        return self._tiles(self.vector, aligned)

    def _unaligned_columns(self) -> Steps:
        return self._tiles(self._widest(), True, unaligned=True)

    def _widest(self, crowded: bool = False) -> int:
        """Columns a thread may own: a 16-byte load's worth, fewer for large states."""
        sizes = self.op.itemsizes
        if sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        vector = 16 // max(sizes)
        for start, columns in NARROW_COLUMNS.items():
            if self.op.type.startswith(start):
                return columns
        narrow = self._is_narrow_float() and self.op.state_bytes >= tuning.HEAVY_STATE_BYTES
        is_product = self.op.type.startswith("Both<")  # whose running values are smaller than its states
        limit = tuning.NARROW_STATE_BYTES if narrow or is_product else tuning.COLUMN_STATE_BYTES
        if crowded:
            vector, limit = min(vector, max(tuning.CROWDED_ITEMS)), tuning.CROWDED_STATE_BYTES
        while vector > 1 and vector * self.op.state_bytes > limit:
            vector //= 2
        return vector

    def _column_items(self, load_bytes: int) -> int:
        heavy = self.op.state_bytes >= tuning.HEAVY_STATE_BYTES and not self._is_narrow_float()
        heavy = heavy or self.op.type.startswith(("Casting<", "Mapped<"))  # what is loaded grows before it is folded
        return min(16, max(2, tuning.COLUMN_LOAD_BYTES // (2 if heavy else 1) // load_bytes))

    def _column_vector(self, line: Dim, others: Sequence[Dim], crowded: bool) -> int:
        """The most columns that keep every run of a thread at one phase."""
        vector = self._widest(crowded)
        for operand, size in enumerate(self.op.itemsizes):
            while vector > 1 and size and not aligned_by(others, operand, vector * size):
                vector //= 2
        places = [(p, n) for p, n in zip(self.phases, self.op.itemsizes, strict=True) if n]
        while vector > 1 and not is_one(p // n % vector for p, n in places):
            vector //= 2
        return vector

    def _takes_unaligned(self) -> bool:
        """Whether lines that begin at any alignment may be read as the aligned words that hold a load, of more columns
        than an aligned load has."""
        widest, size, is_single = self._widest(), self.op.itemsizes[0], len(self.op.itemsizes) == 1
        if not self.together or self.crowded or not is_single or not self.op.commutative or self._has_positions():
            return False
        return widest > self.vector and widest * size >= 4 and self.line.size >= widest

    def _reads_unaligned(self) -> bool:
        """Whether they are, where one or two elements are all that keep to an alignment: of few rows, where there is
        more to each column than to read it, or of four elements of four bytes with which little is done."""
        size, widest = self.op.itemsizes[0], self._widest()
        fits = self.vector <= tuning.UNALIGNED_WIDEST and widest >= 4 * self.vector
        if not fits or not self._takes_unaligned():
            return False
        count = math.prod(dim.size for dim in self.rows) * self.line.size // widest
        is_flat = self.chunks * math.prod(dim.size for dim in self.runs) < tuning.UNALIGNED_RUNS
        return size == widest == 4 or (is_flat and count >= tuning.UNALIGNED_SLOTS)

    def _is_free(self) -> bool:
        """Whether it may be taken apart, as nothing of what it leaves is spoken for."""
        return self.columns_of_cell == 1 and self._folds_states()

    def _runs_widen(self, line: Dim, runs: Sequence[Dim]) -> bool:
        """Whether short lines follow one another in the innermost of several runs, which others repeat so often that a
        state for each of its elements is little."""
        size = self.op.itemsizes[0]
        if len(runs) < 2 or not self._is_free():
            return False
        if len(self.op.itemsizes) > 1 or runs[-1].a != line.size * size or line.size * size >= tuning.WIDENED_LINE:
            return False
        return self._is_worth_states(math.prod(dim.size for dim in runs[:-1]))

    def _inner_runs_as_columns(self) -> Steps:
        """All elements of the innermost run as columns; their states are folded behind."""
        line, rows, runs = self.line, self.rows, self.runs
        inner, state = runs[-1], self.op.state_bytes
        length = inner.size * line.size
        cells = tuple(replace(dim, c=row_major(rows, i) * length) for i, dim in enumerate(rows))
        planner = state_planner(self, ColumnPlanner, (*cells, replace(line, size=length, c=1)), runs[:-1])
        kept = (
            *(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(rows, cells, strict=True)),
            Dim(line.size, state, 0, line.c),
        )
        reduced = (Dim(inner.size, line.size * state, 0, inner.c),)
        return folded_behind(self, planner.launches(), kept, reduced, planner.cells)

    def _is_padded(self, line: Dim, rows: Sequence[Dim], runs: Sequence[Dim]) -> bool:
        """Whether short lines lie a little apart, as those that a slice leaves, so that what is between them is read
        with them, and the runs so many that states of it are little."""
        size = self.op.itemsizes[0]
        if not rows or len(self.op.itemsizes) > 1 or not self._is_free():
            return False
        apart, nbytes = rows[-1].a, line.size * size
        is_near = apart % size == 0 and nbytes < apart <= min(tuning.PADDED_SHARE * nbytes, tuning.WIDENED_LINE)
        return is_near and self._is_worth_states(2 * math.prod(dim.size for dim in runs))

    def _padded_columns(self) -> Steps:
        """Lines and what is between them as longer lines, whose states of the kept columns are finished behind."""
        line, rows, runs = self.line, self.rows, self.runs
        state, apart = self.op.state_bytes, rows[-1].a // self.op.itemsizes[0]
        lines = rows[-1].size
        length = (lines - 1) * apart + line.size
        outer = tuple(replace(dim, c=row_major(rows[:-1], i) * length) for i, dim in enumerate(rows[:-1]))
        planner = state_planner(self, ColumnPlanner, (*outer, replace(line, size=length, c=1)), runs)
        kept = (
            *(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(rows[:-1], outer, strict=True)),
            Dim(lines, apart * state, 0, rows[-1].c),
            Dim(line.size, state, 0, line.c),
        )
        return folded_behind(self, planner.launches(), kept, (), planner.cells)

    def _is_flat(self) -> bool:
        """Lines that follow one another without a gap can be read as longer, aligned ones."""
        line, rows, runs, size = self.line, self.rows, self.runs, self.op.itemsizes[0]
        one_chunk = self.chunks == 1 and len(runs) == 1 and len(self.op.itemsizes) == 1
        if not self.together or not one_chunk or not self.op.commutative or (vector := self._widest()) == 1:
            return False
        if runs[0].a != line.size * size or self.phases[0] or not aligned_by(rows, 0, vector * size):
            return False
        periods = self._periods(line, vector)
        return periods * line.size <= tuning.THREADS * vector and runs[0].size >= periods

    def _flat_fits(self) -> bool:
        """Whether such lines are short, and many."""
        if not self._is_flat():
            return False
        line, vector = self.line, self._widest()
        is_short = line.size % vector != 0 or line.size < tuning.FLAT_SLOTS * vector
        return is_short and self.runs[0].size >= 4 * self._periods(line, vector)

    def _periods(self, line: Dim, vector: int) -> int:
        """Lines laid end to end: a whole number of vectors, up to a block's width of them."""
        least = vector // math.gcd(line.size, vector)
        most = least * max(1, tuning.THREADS * vector // (least * line.size))
        unit = math.lcm(least, tuning.CACHE_LINE // math.gcd(tuning.CACHE_LINE, line.size * self.op.itemsizes[0]))
        aligned = most // unit * unit
        return aligned if aligned >= 0.9 * most else most

    def _flat_columns(self) -> Steps:
        """A long line that one block spans: the block folds its periods itself."""
        op, vector, line, rows, (run,) = self.op, self._widest(), self.line, self.rows, self.runs
        periods = self._periods(line, vector)
        length = periods * line.size
        long = Dim(run.size // periods, run.a * periods, 0, run.c * periods)
        work = replace(
            self.work,
            rows=math.prod(d.size for d in rows),
            runs=long.size,
            length=length,
            slots=length // vector,
            tail=run.size % periods * line.size,
            step_a=line.a,
            step_b=run.c,
            step_c=line.c,
            width=line.size,
            row=tuple(rows),
            run=(long,),
        )
        items = self._column_items(vector * op.itemsizes[0])
        if op.state_bytes > 8:  # the fold of periods needs registers too
            items = max(2, min(items, tuning.COLUMN_LOAD_BYTES // 2 // (vector * op.itemsizes[0])))
        blocks = tuning.FLAT_BLOCKS if line.size % vector else tuning.FLAT_BLOCKS // 4
        wanted = -(-blocks // work.rows)
        splits = max(1, min(wanted, long.size // items), -(-long.size // tuning.MOST_TAKEN))
        name = f"reduce_flat_columns<{op.type}, {{}}, {vector}, {tuning.THREADS}, {items}, {{}}, {self.batch}>"
        shared = tuning.THREADS * vector * op.state_bytes
        work = replace(work, splits=splits)
        is_long = splits * line.size > tuning.THREADS * self._chain()
        finish = "two-pass" if is_long and self.finish == "ticket" else self.finish
        return self._finished(name, work, work.rows * splits, work.rows, line.size, shared, work.cells, finish)

    def _tiles(self, vector: int, aligned: bool, unaligned: bool = False) -> Steps:
        """Columns by tiles of so many a thread, whose lines begin with slots where they are aligned."""
        op, line, crowded = self.op, self.line, self.crowded
        work = replace(
            self.work,
            rows=math.prod(d.size for d in self.rows),
            runs=math.prod(d.size for d in self.runs),
            length=line.size,
            slots=slots_of(line.size, vector, aligned),
            step_a=line.a,
            step_b=line.b,
            step_c=line.c,
            more=self._more(line),
            row=self.rows,
            run=self.runs,
        )
        runs = work.runs * self.chunks
        wide, even = self._width(work, runs), self.chunks == 1 and len(work.run) <= 1
        tiles = -(-work.rows * work.slots // wide)
        tall = tuning.THREADS // wide
        load = vector * sum(op.itemsizes)
        items = (
            tuning.CROWDED_ITEMS[vector]
            if crowded
            else self._column_items(load * (tuning.UNALIGNED_WORDS if unaligned else 1))
        )
        if op.core.startswith("Kept<") and runs <= tuning.THREAD_ROW:
            items = min(items, tuning.STOPPING_ITEMS)
        while items > 1 and items * tall >= 2 * runs:
            items //= 2
        published = wide * vector * op.state_bytes // (2 if op.itemsizes[0] <= 2 else 1)
        most = min(max(tuning.COLUMN_PARTIAL_BYTES // published, tuning.ONE_WAVE), tuning.COLUMN_BLOCKS)
        most = min(most, max(self._chain() * tuning.THREADS // (wide * vector) * tiles, tuning.ONE_WAVE))
        warp_tiles = tiles * runs * wide // (32 * items)
        wanted = -(-blocks_for(warp_tiles, most) // tiles)
        most = max(1, runs // max(1, tall * items))
        splits = _even_splits(tiles, runs, vector, most) if crowded else min(wanted, most)
        splits = max(splits, -(-runs // (tall * tuning.MOST_TAKEN)))
        name = (
            f"reduce_columns<{op.type}, {{}}, {vector}, {tuning.THREADS}, {wide}, {items}, "
            f"{str(even).lower()}, {str(unaligned).lower()}, {{}}, {self.batch}>"
        )
        shared = max(tuning.THREADS * vector, wide * vector) * op.state_bytes
        is_long = splits * wide * vector > 2 * tuning.THREADS * self._chain()
        finish = "two-pass" if is_long and self.finish == "ticket" else self.finish
        work = replace(work, splits=splits, tiles=tiles)
        return self._finished(name, work, tiles * splits, tiles, wide * vector, shared, work.cells, finish)

    def _width(self, work: Work, runs: int) -> int:
        """Threads across a tile; the rest of the block goes down it, where tiles alone would not fill the GPU."""
        wide, least = 256, tuning.COLUMN_WIDTH
        few = work.rows * work.slots < tuning.COLUMN_TILES * wide
        while few and wide > least and runs >= 2 * tuning.THREADS // wide:
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
    return kind(replace(of.op, emit=""), layout, of.phases, of.chunks, of.finish, of.option)


def outer_runs_as_rows(of: Planner, kind: type[Planner], runs: Sequence[Dim], line: Sequence[Dim] = ()) -> Steps:
    """The longest of several runs alone, which is of one stride: each place in the others has states of its own, which
    are folded behind."""
    longest = max(runs, key=lambda dim: dim.size)
    others, state = [dim for dim in runs if dim is not longest], of.op.state_bytes
    dims = (*others, *of.layout.kept)
    cells = [replace(dim, c=row_major(dims, i)) for i, dim in enumerate(dims)]
    states = [Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(dims, cells, strict=True)]
    planner = state_planner(of, kind, cells, (longest, *line))
    return folded_behind(of, planner.launches(), states[len(others) :], states[: len(others)], planner.cells)


def folded_behind(of: Planner, steps: Steps, kept: Sequence[Dim], reduced: Sequence[Dim], states: int) -> Steps:
    """Launches that leave so many states, and the fold of these to what a planner has to give."""
    steps = [replace(step, writes=FLAT) if step.writes == RESULT else step for step in steps]
    high = states * of.op.state_bytes
    layout = Layout(tuple(kept), tuple(reduced), 0, 0, of.layout.cell, 0, high, 0, 0)
    return [*steps, Fold(of.op, layout, FLAT)]


def folded_columns(count: int, state: int, step: int) -> tuple[Dim, ...]:
    """Neighbouring states that become one, with so much between their positions."""
    return (Dim(count, state, 0, step),) if count > 1 else ()


def _even_splits(tiles: int, runs: int, vector: int, most: int) -> int:
    """Splits whose blocks fill waves, each of which reads its rows and ends."""
    wave = tuning.PROCESSORS * tuning.CROWDED_BLOCKS[vector]

    def cost(splits: int) -> int:
        return -(-tiles * splits // wave) * (-(-runs // splits) + tuning.CROWDED_ROWS)

    return min(range(1, min(most, max(8, 2 * wave // tiles)) + 1), key=cost)
