"""Launches for rows: reduced elements that lie together, or at any stride."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from . import reduce_costs, tuning
from .column_plans import (
    ColumnPlanner,
    folded_behind,
    folded_columns,
    outer_runs_as_rows,
    repeated,
    repeated_once,
    state_planner,
)
from .layout import Dim, merged
from .plans import DEEPEST, Launch, Planner, Steps, Way, aligned_by, balanced, blocks_for, is_one, row_major, slots_of
from .reduce_costs import CACHED, RESIDENT, in_sectors, rounds_of, shared_lines
from .task import Work, flag
from .tuning import CACHE_LINE, SECTOR

# How lines are taken (kernels/grid/rows.cuh), as costs have it.
LINES = {"ONE_LINE": "a line", "LINE_AHEAD": "a line", "LONG_LINES": "long lines", "EVEN_LINES": "even lines"}
LINES |= {"SHORT_LINES": "short lines"}

SUMS = ("Sum<", "Mean<", "RootSum<")
# Operators that fill registers with more than a tile, of which nobody knows how many, and those that a tile of narrow
# elements fills them for: a second tile would spill.
FULL = ("Mapped<", "Both<", "User<", "Backward<")
FULL_OF_ONE_TILE = tuple(f"Prod<{map}<{dtype}" for map in ("Value", "NonNan") for dtype in ("half", "bfloat16"))


def one_element(itemsizes: tuple[int, ...]) -> Dim:
    """A line of nothing but one element of each operand."""
    first, *others = itemsizes
    return Dim(1, first, others[0] if others else first, 0, tuple(others[1:]))


class RowPlanner(Planner):
    """Every way to take rows, and which one is taken: by how long rows are, how many there are, and how they are
    aligned."""

    def __init__(self, *of: Any) -> None:
        """As every planner."""
        super().__init__(*of)
        layout, op = self.layout, self.op
        self.line = line = layout.reduced[-1] if layout.reduced else one_element(op.itemsizes)
        self.runs = runs = layout.reduced[:-1]
        self.others = (*layout.kept, *runs)
        self.vector = vector = self._row_vector()
        self.aligned = self._lines_begin_at(self.others, 0, vector * op.itemsizes[0])
        self.work = self._work_by_lines(line, layout.kept, runs, vector, self.aligned)
        self.lines = self.work.runs * self.chunks
        self.slots = slots_of(line.size, vector, True)
        self.row_bytes = line.size * op.itemsizes[0]
        self.row_step, self.plane_rows = self._planes()
        self.staged = self.cells * self.lines * self.row_step  # bytes that are copied with what lies between rows

    def ways(self) -> Iterator[tuple[str, float, Way]]:
        op = self.op
        if self._lies_in_rows():
            fits_a_tile = op.commutative and 4 * self.row_step <= tuning.SUBWARP_TILE_BYTES
            if self.lines == 1 and self._fits_a_thread():
                yield "staged rows", 0, self._staged_rows
            if self.lines == 1 and fits_a_tile:
                yield "subwarp rows", 0, self._subwarp_rows
            fits_two = op.commutative and 2 * self._run_tile(tuning.SUBWARP_THREADS // 32) <= tuning.RUN_TILES_BYTES
            if self.lines > 1 and fits_two and self.line.size * self.lines <= tuning.MOST_TAKEN:
                yield "subwarp runs", 0, self._subwarp_runs
        most = tuning.SUBWARP_ROW_SLOTS if op.commutative else 32
        own = self._own_slots()
        if self.lines == 1 and own[0].slots <= most:
            yield "own slots", 0, functools.partial(self._own_slot_rows, *own)
        words, word = self._side_by_side()
        if self.lines == 1 and 1 < word < self.vector and words.slots <= most:
            yield "own words", 0, functools.partial(self._own_slot_rows, words, word, False)
        if op.commutative:
            yield from self._commutative_ways()
        else:
            yield "ordered rows", 0, self._ordered_rows
        if self.layout.kept and all(op.itemsizes):
            yield "rows as columns", self._least_as_columns(), self._as_columns
        if self.depth == DEEPEST or not self._folds_states():
            return
        if repeats := repeated(self):
            yield "repeated elements once", self.least_folded, functools.partial(repeated_once, self, repeats)
        if not self.runs:
            return
        if len(op.itemsizes) == 1:
            yield "columns first", self.least_folded, self._columns_first
        if len(self.runs) > 1 and self.chunks == 1:
            outer = functools.partial(outer_runs_as_rows, self, self.runs, (self.line,))
            yield "outer runs of rows", self.least_folded, outer

    def _commutative_ways(self) -> Iterator[tuple[str, float, Way]]:
        fits_a_subwarp = self.slots * self.lines <= tuning.SUBWARP_ROW_SLOTS
        if self.lines == 1:
            if fits_a_subwarp:
                yield "subwarp a line", 0, self._subwarp_line
            yield "blocks a line", 0, self._block_line
            return
        whole = self._side_by_side()[0]
        if whole.slots <= tuning.THREADS:
            yield "blocks short lines", 0, self._block_short_lines
        if whole.slots <= 32 and fits_a_subwarp:
            yield "subwarp short lines", 0, self._subwarp_short_lines
        if fits_a_subwarp:
            yield "subwarp long lines", 0, self._subwarp_long_lines
        yield "blocks long lines", 0, self._block_long_lines

    def _as_columns(self) -> Steps:
        """A thread takes each row, as if it were a column."""
        planner = ColumnPlanner(self.op, self.layout, self.phases, self.chunks, self.finish, self.option)
        planner.depth = self.depth
        return planner.launches()

    def _least_as_columns(self) -> float:
        """Seconds that takes at least: neighbouring threads' loads lie a row apart."""
        taken = 1 if self._stops() else self.line.size * self.lines
        lines = self.cells * taken * shared_lines(self.layout.kept[-1].a)
        return reduce_costs.seconds(self._effort("columns", 1, 0, 0, 0, lines, 0))

    def _own_slots(self) -> tuple[Work, int, bool]:
        """Lines that begin with a slot of theirs: the work, the elements of a slot, and whether lines begin at any
        alignment or end with part of one. Several operands are read one by one then."""
        work, vector = self.work, self.vector
        partial = vector > 1 and (not self.aligned or work.length % vector > 0)
        if partial and len(self.op.itemsizes) > 1:
            vector, partial = 1, False
        return work.but(slots=slots_of(work.length, vector, True)), vector, partial

    def _row_vector(self) -> int:
        """Elements a load: 16 bytes' worth where elements lie together, and operands at one phase."""
        line, sizes = self.line, self.op.itemsizes
        if line.a != sizes[0] or sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        if len(sizes) == 1:
            return 16 // sizes[0]
        vector = 16 // max(sizes)
        same = line.strides[: len(sizes)] == sizes
        for places in (self.phases, *(dim.strides for dim in self.others)):
            same = same and is_one(place // n % vector for place, n in zip(places, sizes, strict=False) if n)
        return vector if same else 1

    def _side_by_side(self) -> tuple[Work, int]:
        """The work by aligned slots that a line is a whole number of, each line beginning with one, and the elements of
        one."""
        vector, length = self.vector, self.line.size
        sizes = [(operand, size) for operand, size in enumerate(self.op.itemsizes) if size]
        while vector > 1 and (
            length % vector or not all(self._lines_begin_at(self.others, k, vector * n) for k, n in sizes)
        ):
            vector //= 2
        return self.work.but(slots=length // vector), vector

    def _columns_first(self) -> Steps:
        """Each of a line's elements as a column; their states are folded behind."""
        line = self.line
        kept, count, state = self.layout.kept, line.size, self.op.state_bytes
        cells = [replace(dim, c=row_major(kept, i) * count) for i, dim in enumerate(kept)]
        columns = merged([*cells, replace(line, c=1)], True)
        planner = state_planner(self, ColumnPlanner, columns, self.runs)
        planner.depth = DEEPEST
        steps = planner.launches()
        states = tuple(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(kept, cells, strict=True))
        return folded_behind(self, steps, states, folded_columns(count, state, line.c), self.cells * count)

    def _planes(self) -> tuple[int, int]:
        """Bytes from one row to the next, and of how many rows in turn that holds."""
        step, rows = (self.layout.kept[-1].a if self.layout.kept else 0), 1
        for dim in reversed(self.layout.kept):
            if dim.a != step * rows:
                break
            rows *= dim.size
        return step, rows

    def _lies_in_rows(self) -> bool:
        """Rows at one distance from each other in each plane: blocks copy them to shared memory whatever their
        alignment, with what lies between them."""
        op, step = self.op, self.row_step
        if self.vector * op.itemsizes[0] != 16 or self.line.a != op.itemsizes[0] or "Refold" in op.type:
            return False
        if op.type.startswith("Backward<"):  # places in a staged row ascend
            return False
        if len(op.itemsizes) > 1 or step % op.itemsizes[0]:
            return False
        is_near = self.row_bytes <= step <= tuning.ROWS_APART * self.row_bytes
        return is_near and (self.plane_rows == self.cells or self.plane_rows * step >= tuning.PLANE_BYTES)

    def _fits_a_thread(self) -> bool:
        is_short = self.row_step < tuning.STAGED_ROW_BYTES and self.line.size <= tuning.UNROLLED_ROW
        return is_short and self.row_bytes % 16 > 0

    def _staged_rows(self) -> Steps:
        tile_rows = tuning.STAGED_TILE_BYTES // self.row_step // tuning.THREADS * tuning.THREADS
        (work, blocks), rows = self._tiles(tile_rows), self.cells
        at_once, word, before = self._rows_of_words()
        arguments = f"{work.length}, {at_once}, {tuning.THREADS}, {self.batch}"
        name = f"reduce_staged_rows<{self.op.type}, {self.op.emits}, {arguments}>"
        if at_once == 1:
            taken = rows * work.length, 1, 2, self.staged / CACHE_LINE, rows
            effort = self._effort("staged rows", rows, *taken, nbytes=self.staged)
        else:
            work = work.but(tail=before)
            taken = self.staged // word, word // self.op.itemsizes[0], 2, self.staged / CACHE_LINE, rows
            effort = self._effort("staged rows by words", blocks * tuning.THREADS, *taken, nbytes=self.staged)
        return [Launch(name, blocks, work, self._tile_bytes(work.slots), effort=effort)]

    def _rows_of_words(self) -> tuple[int, int, int]:
        """How many rows that lie one behind another, as their cells do, a thread takes at once; bytes of the words that
        these are together, the widest there are; and the rows before the first word. One row where there are none."""
        op, kept = self.op, self.layout.kept
        elements = tuning.ROWS_TAKEN // 4 if op.is_heavy else tuning.ROWS_TAKEN
        most = min(elements // self.line.size, tuning.ROWS_STORED * self.cells // self.written)
        if self.row_step == self.row_bytes and kept[-1].size == self.plane_rows and kept[-1].c == 1:
            for word in (16, 8, 4):
                rows = word // math.gcd(self.row_bytes, word)
                begins = [i for i in range(rows) if (self.phases[0] + i * self.row_bytes) % word == 0]
                if 1 < rows <= most and begins and aligned_by(kept[:-1], 0, word):
                    return rows, word, begins[0]
        return 1, op.itemsizes[0], 0

    def _subwarp_slot(self) -> int:
        """Bytes of a slot in shared memory: few slots reach past a short row, which costs more than words do."""
        if self.row_bytes < tuning.SUBWARP_SLOT_BYTES and self.op.itemsizes[0] < 4:
            return max(4, math.gcd(self.row_bytes, 16))
        return 16

    def _subwarp_lanes(self, tile_bytes: int) -> int:
        """Lanes of a sub-warp, as few as let a row of each sub-warp fit into a tile of so many bytes."""
        lanes = 1
        while lanes < 32 and tuning.SUBWARP_THREADS // lanes * self.row_step > tile_bytes:
            lanes *= 2
        return lanes

    def _slots_of_lane(self, lanes: int) -> int:
        """Slots of a row, which may reach into one more than it fills, for each lane of a sub-warp."""
        return -(-(-(-self.row_bytes // self._subwarp_slot()) + 1) // lanes)

    def _subwarp_rows(self) -> Steps:
        threads, lanes = tuning.SUBWARP_THREADS, self._subwarp_lanes(tuning.SUBWARP_TILE_BYTES)
        tile_rows = threads // lanes
        tile_rows *= max(1, tuning.SUBWARP_TILE_LEAST // (tile_rows * self.row_step))
        work, blocks = self._tiles(tile_rows)
        each = self._slots_of_lane(lanes)
        rounds = 2 + each / 4 * -(-tile_rows * lanes // threads)
        return self._staged_subwarps("rows", work, blocks, self._tile_bytes(work.slots), lanes, each, rounds)

    def _subwarp_runs(self) -> Steps:
        """The same of several runs or chunks: a row a sub-warp, and two tiles, of which one is copied meanwhile."""
        lanes = self._subwarp_lanes(tuning.RUN_TILE_BYTES)
        tile_rows = tuning.SUBWARP_THREADS // lanes
        work, blocks = self._tiles(tile_rows)
        tile_bytes, each = self._run_tile(tile_rows), self._slots_of_lane(lanes) * self.lines
        work, rounds = work.but(tail=tile_bytes), self.lines + each / 4
        return self._staged_subwarps("runs", work, blocks, 2 * tile_bytes, lanes, each, rounds)

    def _staged_subwarps(
        self, kind: str, work: Work, blocks: int, shared: int, lanes: int, each: int, rounds: float
    ) -> Steps:
        """Sub-warps for rows that a block copies, of which a lane takes so many slots."""
        op, threads, vector = self.op, tuning.SUBWARP_THREADS, self._subwarp_slot() // self.op.itemsizes[0]
        name = f"reduce_subwarp_{kind}<{op.type}, {op.emits}, {vector}, {threads}, {lanes}, {self.batch}>"
        members = self.cells * lanes
        taken = members * each, vector, rounds, self.staged / CACHE_LINE, members
        effort = self._effort(f"subwarp {kind}", blocks * threads, *taken, nbytes=self.staged)
        return [Launch(name, blocks, work, shared, threads=threads, effort=effort)]

    def _run_tile(self, rows: int) -> int:
        """Bytes of a tile of so many rows of a run."""
        return -(-self._tile_bytes(rows) // 16) * 16

    def _tile_bytes(self, rows: int) -> int:
        return rows * self.row_step + tuning.TILE_MARGIN

    def _tiles(self, rows: int) -> tuple[Work, int]:
        """The work by tiles of at most so many rows of a plane, and blocks."""
        tiles = -(-self.plane_rows // rows)
        work = self.work.but(slots=min(rows, self.plane_rows), tiles=tiles, width=self.plane_rows, step_b=self.row_step)
        return work, self.cells // self.plane_rows * tiles

    def _line_tile(self, slots: int, widths: Sequence[int], items: int) -> tuple[int, int]:
        """Lanes and loads a lane, ``items`` at most, whose tiles a line of so many slots fills best."""

        def worth(tile: tuple[int, int]) -> tuple[float, int]:
            lanes, loads = tile
            return self._share_of_tiles(slots, lanes * loads) * loads / (loads + tuning.LOAD_LATENCY), lanes

        return max(((lanes, loads) for lanes in widths for loads in tuning.TILE_ITEMS if loads <= items), key=worth)

    def _share_of_tiles(self, slots: int, tile: int) -> float:
        """The share that the slots of a line are of those of the tiles it takes, and of what its ends take."""
        return slots / (-(-slots // tile) * tile + (0 if self.aligned else tuning.END_SLOTS))

    def _side_items(self, vector: int) -> tuple[str, int]:
        """How lines are taken that lie side by side, and loads in flight: each has an address to be looked up where
        they are not one stride apart."""
        items, are_even = self._items(vector), self.chunks == 1 and len(self.runs) <= 1
        return ("EVEN_LINES", items) if are_even else ("SHORT_LINES", max(1, items // 4))

    def _crowds(self, vector: int) -> int:
        """How many times as many registers as others, packs of several narrow operands fill."""
        sizes = self.op.itemsizes
        if len(sizes) > 2:
            return max(1, round(vector * sum(sizes) / 32))
        return max(1, vector // 4) if len(sizes) > 1 else 1

    def _items(self, vector: int) -> int:
        """Loads in flight: more where each brings less."""
        # A pack of 16-bit elements, as they are added up, fills many registers; bytes are added by words.
        widens = self.op.core.startswith(SUMS) and 4 < vector < 16
        heavy = widens or self._crowds(vector) > 1 or self.op.is_heavy
        items = tuning.ROW_ITEMS // 2 if heavy else tuning.ROW_ITEMS
        return items if vector * sum(self.op.itemsizes) >= 16 else min(16, 2 * items)

    def _few_items(self, vector: int) -> int:
        """The same of rows that have a sub-warp each: blocks of few registers share an SM."""
        return min(self._items(vector), max(4, tuning.SHORT_ROW_BYTES // (vector * sum(self.op.itemsizes))))

    def _lanes(self, slots: int) -> int:
        """Lanes of a sub-warp for so many slots of a row."""
        each = tuning.SHORT_ROW_SLOTS_A_LANE if self.op.commutative else 1
        return min(32, _power_of_two(-(-slots // each)))

    def _own_slot_rows(self, work: Work, vector: int, partial: bool) -> Steps:
        """Sub-warps for rows that begin with a slot of theirs, of so many elements; ``partial`` as in _own_slots."""
        lanes = self._lanes(work.slots)
        cost = "own slots, unaligned" if partial else "own slots"
        if work.slots <= lanes:
            batch = tuning.SHORT_ROW_BATCH // self._crowds(vector)
            return self._subwarps(work, vector, lanes, "ONE_LINE", 1, batch=batch, partial=partial, cost=cost)
        return self._subwarps(work, vector, lanes, "SHORT_LINE", self._few_items(vector), partial=partial, cost=cost)

    def _subwarp_line(self) -> Steps:
        # of one load in flight, a lane has one slot of several rows
        lanes, items = self._lanes(self._own_slots()[0].slots), self._few_items(self.vector)
        return self._subwarps(self.work, self.vector, lanes, "ONE_LINE", items, 2)

    def _subwarp_long_lines(self) -> Steps:
        lanes, items = self._line_tile(self.work.slots, [8, 16, 32], self._items(self.vector))
        return self._subwarps(self.work, self.vector, lanes, "LONG_LINES", items)

    def _subwarp_short_lines(self) -> Steps:
        whole, vector = self._side_by_side()
        lanes = max(self._lanes(self._own_slots()[0].slots * self.lines), min(32, _power_of_two(whole.slots)))
        return self._subwarps(whole, vector, lanes, *self._side_items(vector))

    def _subwarps(
        self,
        work: Work,
        vector: int,
        lanes: int,
        kind: str,
        items: int,
        least: int = 1,
        batch: int = 1,
        partial: bool = False,
        cost: str = "",
    ) -> Steps:
        """Rows by sub-warps, each of which has so many loads in flight, ``least`` at least."""
        op = self.op
        while items > least and lanes * items >= 2 * work.slots * self.lines:
            items //= 2
        subwarps = tuning.THREADS // lanes
        blocks = min(-(-work.rows // (subwarps * batch)), tuning.ROW_BLOCKS)
        name = (
            f"reduce_short_rows<{op.type}, {op.emits}, {vector}, {tuning.THREADS}, {lanes}, {batch}, {items}, "
            f"{kind}, {flag(partial)}, {self.batch}>"
        )
        work = work.but(tiles=-(-work.slots // (lanes * items)))
        loads, rounds, lines, lookups = self._walk(work, vector, lanes, items, kind)
        rounds *= max(1.0, work.rows / (blocks * subwarps * batch))  # sub-warps take one batch of rows after another
        taken = loads, vector, rounds, lines, work.rows * lanes, lookups
        effort = self._effort(cost or f"subwarp, {LINES[kind]}", blocks * tuning.THREADS, *taken)
        return [Launch(name, blocks, work, effort=effort)]

    def _walk(
        self, work: Work, vector: int, group: int, items: int, kind: str, splits: int = 1
    ) -> tuple[float, float, float, float]:
        """What groups of threads do, so many with each row: loads that all issue, rounds of them that one thread waits
        for, cache lines that they touch, and lines that are looked up."""
        rows, lines, slots, lanes = work.rows, self.lines, work.slots, min(32, group)
        nbytes = slots * vector * self.op.itemsizes[0]
        if kind in ("EVEN_LINES", "SHORT_LINES"):
            each = -(-lines // (splits * (group // slots)))
            loads = splits * group * each * rows
            apart = max(nbytes, abs(work.run[-1].a)) if work.run else nbytes  # lines of a warp may share a cache line
            touched = lines * min(-(-nbytes // CACHE_LINE), apart / CACHE_LINE) * rows
            return loads, rounds_of(each, items), touched, loads if kind == "SHORT_LINES" else 0
        step = work.step_a * vector if slots > 1 or not work.row else work.row[-1].a
        touched = lines * slots * shared_lines(step) * rows
        if kind == "SHORT_LINE" or (kind == "ONE_LINE" and items == 1 == work.tiles):
            each = -(-slots // lanes)
            return lanes * each * rows, rounds_of(each, items), touched, 0
        tiles = work.tiles * lines
        each = -(-tiles // (splits * (group // lanes)))
        lookups = tiles * lanes * rows if kind == "LONG_LINES" else 0
        return tiles * lanes * items * rows, each * (1 + items / 8), touched, lookups

    def _folds_pairs(self) -> bool:
        """Sums of two words each, which cost arithmetic but no traffic."""
        return "Twofold" in self.op.type and self.op.core.startswith(SUMS)

    def _block_line(self) -> Steps:
        work, vector = self.work, self.vector
        for items in self._ahead_items():
            if even := self._even_waves(work.rows, -(-work.slots // (32 * items)), vector):
                return self._blocks(work, vector, items, "LINE_AHEAD", even)
        items = self._block_items()
        splits = self._splits(work.rows, -(-work.slots // (32 * items)))
        return self._blocks(work, vector, items, "ONE_LINE", splits)

    def _ahead_items(self) -> tuple[int, ...]:
        """Loads of a tile while those of the next one are on their way, the best first; none of sums of two words, of
        which 1 GiB of float64 takes 252 us on an H200 so, and 242 tile by tile."""
        op, items = self.op, self._block_items()
        if self._folds_pairs():
            return ()
        if op.core.startswith("Prod<") and op.state_bytes == 16:
            each = self.work.rows * self.work.slots / (tuning.FEW_BLOCKS * tuning.THREADS)
            few = (tuning.ROW_ITEMS // 2,) if each > tuning.ROW_ITEMS else ()
            return (tuning.ROW_ITEMS,) if each > tuning.AHEAD_SLOTS else few
        crowds = self.vector > 4 and (self._is_narrow_float() or op.state_bytes > tuning.HEAVY_STATE_BYTES)
        # Variances of 64-bit integers, whose conversions take registers: with eight loads they spill.
        is_wide_integer = op.type.endswith(("<i64, false>", "<u64, false>"))
        most = tuning.PAIR_ITEMS if is_wide_integer else tuning.ROW_ITEMS
        return (most, items) if op.is_heavy and not crowds else (items,)

    def _block_long_lines(self) -> Steps:
        work, (_, items) = self.work, self._line_tile(self.work.slots, [32], self._block_items())
        splits = self._splits(work.rows, -(-work.slots // (32 * items)) * self.lines)
        return self._blocks(work, self.vector, items, "LONG_LINES", splits)

    def _block_items(self) -> int:
        items = self._items(self.vector)
        return max(items, tuning.PAIR_ITEMS) if self._folds_pairs() else items

    def _block_short_lines(self) -> Steps:
        work, vector = self._side_by_side()
        kind, items = self._side_items(vector)
        while items > 1 and tuning.THREADS // work.slots * items >= 2 * self.lines:
            items //= 2
        splits = self._splits(work.rows, -(-work.slots * self.lines // (32 * items)))
        return self._blocks(work, vector, items, kind, splits)

    def _blocks(self, work: Work, vector: int, items: int, kind: str, splits: int) -> Steps:
        sizes = f"{vector}, {tuning.THREADS}, {items}, {kind}"
        head = f"reduce_rows<{self.op.type}, {{}}, {sizes}, {{}}, {self.batch}>"
        work = work.but(tiles=-(-work.slots // (32 * items)), splits=splits)
        loads, rounds, lines, lookups = self._walk(work, vector, tuning.THREADS, items, kind, splits)
        blocks = work.rows * splits
        threads = blocks * tuning.THREADS
        if kind == "LONG_LINES" and blocks > tuning.FEW_BLOCKS:  # two share an SM, and some of the last wave have none
            rounds *= -(-blocks // tuning.FEW_BLOCKS) * tuning.FEW_BLOCKS / blocks
        taken = loads, vector, rounds, lines, threads, lookups, self._read_again(work)
        effort = self._effort(f"block, {LINES[kind]}", threads, *taken)
        return self._finished(head, work, min(blocks, tuning.ROW_BLOCKS), work.rows, effort=effort)

    def _read_again(self, work: Work) -> float:
        """Bytes of sectors where each row's lines are read by themselves, as they are no longer in the cache when the
        next row comes to them; else 0. Rows that all go on at a time come to them together."""
        if work.rows * work.splits * tuning.THREADS <= RESIDENT:
            return 0
        shift = math.gcd(SECTOR, *(dim.a for dim in (*work.row, *work.run)))
        nbytes = self.lines * in_sectors(work.length * self.op.itemsizes[0], shift)
        return work.rows * nbytes if self.lines > 1 and nbytes > CACHED else 0

    def _even_waves(self, rows: int, row_tiles: int, vector: int) -> int:
        """Blocks of each of a few rows that come in whole waves, where each warp has tiles enough to load one ahead;
        else 0."""
        warps, tiles = tuning.THREADS // 32, rows * row_tiles
        waves = max(1, round(tiles / (tuning.WAVE_TILES * warps * tuning.FEW_BLOCKS)))
        wanted = waves * tuning.FEW_BLOCKS
        splits = wanted // rows
        is_even = rows <= tuning.POLLED_GROUPS and splits * rows >= tuning.EVEN_WAVE * wanted and tiles > wanted * warps
        is_wide = vector * sum(self.op.itemsizes) == 16 and wanted <= tuning.MOST_EVEN
        is_full = self.op.type.startswith(FULL) or (vector > 4 and self.op.core.startswith(FULL_OF_ONE_TILE))
        return splits if is_even and is_wide and not is_full else 0

    def _splits(self, rows: int, row_tiles: int) -> int:
        if rows >= tuning.GRID:
            return 1
        sums = self.op.core.startswith(("Sum<", "Mean<")) and self.op.state_bytes <= 32
        heavy = self.op.is_heavy and not sums
        most = tuning.HEAVY_BLOCKS if heavy else tuning.BLOCKS
        if heavy and self._is_narrow_float():
            most = tuning.NARROW_HEAVY_BLOCKS
        if self._folds_pairs():
            most = tuning.PAIR_BLOCKS
        if self._stops():  # of more parts, each looks for an element of its own
            most = tuning.FEW_BLOCKS
        wanted = -(-blocks_for(rows * row_tiles, most) // rows)
        return balanced(rows, wanted, -(-row_tiles // (tuning.THREADS // 32)))

    def _ordered_rows(self) -> Steps:
        op, items, work, vector = self.op, 4, self.work, self.vector
        slots = work.slots * work.runs * self.chunks
        splits = self._splits(work.rows, -(-slots // (32 * items)))
        work, blocks = work.but(splits=splits), min(work.rows * splits, tuning.ROW_BLOCKS)
        is_warp = splits == 1 and work.rows >= tuning.GRID and slots <= tuning.WARP_ROW_SLOTS
        threads = 32 if is_warp else tuning.THREADS
        each = -(-slots // (splits * threads * items))
        taken = 1 if self._stops() else each
        members = work.rows * splits * threads
        loads, lines = members * taken * items, work.rows * slots * shared_lines(work.step_a * vector) * taken / each
        rounds = taken * work.rows * splits / blocks
        lookups = loads if self.lines > 1 else 0
        effort = self._effort("ordered rows", blocks * threads, loads, vector, rounds, lines, members, lookups)
        effort = effort._replace(nbytes=effort.nbytes * taken / each)
        if is_warp:
            name = f"reduce_ordered<{op.type}, {op.emits}, {vector}, 32, {items}, TICKET, {self.batch}>"
            return [Launch(name, blocks, work, op.state_bytes, threads=32, effort=effort)]
        name = f"reduce_ordered<{op.type}, {{}}, {vector}, {tuning.THREADS}, {items}, {{}}, {self.batch}>"
        return self._finished(name, work, blocks, work.rows, effort=effort)


def _power_of_two(n: int) -> int:
    """The least that is not below n."""
    return 1 << (n - 1).bit_length()
