"""Launches for rows: reduced elements that lie together, or at any stride."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from . import tuning
from .column_plans import ColumnPlanner, folded_behind, folded_columns, outer_runs_as_rows, state_planner
from .layout import Dim, merged
from .plans import Launch, Planner, Steps, Way, aligned_by, blocks_for, is_one, row_major, slots_of
from .task import Work

# Operators that fill registers with more than a tile, of which nobody knows how many, and those that a tile of narrow
# elements fills them for: a second tile would spill.
FULL = ("Mapped<", "Both<", "User<")
FULL_OF_ONE_TILE = ("Prod<", "MaxMagnitude<", "Sum<Magnitude<i8>")


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
        self.vector = vector = self._row_vector(line, (*layout.kept, *runs))
        unit = vector * op.itemsizes[0]
        self.aligned = self.phases[0] % unit == 0 and aligned_by((*layout.kept, *runs), 0, unit)
        self.work = replace(
            self.work,
            rows=self.cells,
            runs=math.prod(d.size for d in runs),
            length=line.size,
            slots=slots_of(line.size, vector, self.aligned),
            step_a=line.a,
            step_b=line.b,
            step_c=line.c,
            more=self._more(line),
            row=layout.kept,
            run=runs,
        )
        self.lines = self.work.runs * self.chunks
        self.slots = slots_of(line.size, vector, True)
        self.row_bytes = line.size * op.itemsizes[0]

    def ways(self) -> Iterator[tuple[str, Way]]:
        op = self.op
        if self._lies_in_rows():
            if self._fits_a_thread():
                yield "staged rows", self._staged_rows
            if op.commutative and 4 * self.row_bytes <= tuning.TEAM_TILE_BYTES:
                yield "team rows", self._team_rows
        own = self._own_slots()[0]
        if self.lines == 1 and (op.commutative or own.slots <= 32):
            yield "own slots", self._own_slot_rows
        if self.layout.kept and all(op.itemsizes):
            yield "rows as columns", self._as_columns
        if not op.commutative:
            yield "ordered rows", self._ordered_rows
            return
        if self._is_end_to_end():
            yield "end to end", self._end_to_end
        if self.runs and len(op.itemsizes) == 1 and self._folds_states():
            yield "columns first", self._columns_first
        if len(self.runs) > 1 and self.chunks == 1 and self._folds_states():
            yield "outer runs of rows", self._outer_runs
        if self._is_even():
            yield "even rows", self._even_rows
        fits_a_team = self.slots * self.lines <= tuning.LARGE_STATE_ROW_SLOTS
        if self.lines == 1:
            if fits_a_team:
                yield "team a line", self._team_line
            yield "blocks a line", self._block_line
            return
        if fits_a_team:
            yield "team long lines", self._team_long_lines
        yield "blocks long lines", self._block_long_lines
        whole = self._side_by_side()[0]
        if whole.slots <= 32:
            yield "team lines abreast", self._team_lines_abreast
        if whole.slots <= tuning.THREADS:
            yield "blocks lines abreast", self._block_lines_abreast

    def pick(self) -> str:
        op = self.op
        if self._is_staged() and (op.commutative or self._fits_a_thread()):
            return "staged rows" if self._fits_a_thread() else "team rows"
        if not op.commutative:
            if self._fits_a_column():
                return "rows as columns"
            has_slots = self._own_slots()[1] > 1
            return "own slots" if has_slots and self.slots <= 32 and self.lines == 1 else "ordered rows"
        if self._lies_end_to_end():
            return "end to end"
        if self._columns_pay():
            return "outer runs of rows" if self._has_positions() and self._runs_part(self.runs) else "columns first"
        if self._is_even() and self.work.rows >= tuning.GRID:
            return "even rows"
        row_slots = self.slots * self.lines
        is_large = op.state_bytes >= tuning.LARGE_STATE_BYTES
        most = tuning.LARGE_STATE_ROW_SLOTS if is_large else tuning.SHORT_ROW_SLOTS
        if row_slots <= most and (self.work.rows >= tuning.GRID or row_slots <= 32):
            if self.lines == 1:
                return "own slots" if self._own_slots()[0].slots <= tuning.PARTIAL_SLOTS else "team a line"
            return "team lines abreast" if self._teams_abreast() else "team long lines"
        if self.lines == 1:
            return "blocks a line"
        return "blocks lines abreast" if self._blocks_abreast() else "blocks long lines"

    def _as_columns(self) -> Steps:
        """A thread takes each row, as if it were a column."""
        return ColumnPlanner(self.op, self.layout, self.phases, self.chunks, self.finish, self.option).launches()

    def _outer_runs(self) -> Steps:
        return outer_runs_as_rows(self, RowPlanner, self.runs, (self.line,))

    def _fits_a_column(self) -> bool:
        """Rows in element order that are so short, so many, and not read by vectors, that a thread takes each, as if
        it were a column."""
        elements = self.line.size * self.lines
        is_single = self._own_slots()[1] == 1
        few = tuning.THREADS if elements < 16 else 32  # threads across a tile: the others go down longer columns
        is_short = is_single and elements <= tuning.THREAD_ROW and all(self.op.itemsizes)
        return is_short and self.work.rows >= tuning.THREAD_ROWS * few

    def _own_slots(self) -> tuple[Work, int, bool]:
        """Lines that begin with a slot of theirs: the work, the elements of a slot, and whether lines begin at any
        alignment or end with part of one. Several operands are read one by one then."""
        work, vector = self.work, self.vector
        partial = vector > 1 and (not self.aligned or work.length % vector > 0)
        if partial and len(self.op.itemsizes) > 1:
            vector, partial = 1, False
        return replace(work, slots=slots_of(work.length, vector, True)), vector, partial

    def _row_vector(self, line: Dim, others: Sequence[Dim]) -> int:
        """Elements a load: 16 bytes' worth where elements lie together, and operands at one phase."""
        sizes = self.op.itemsizes
        if line.a != sizes[0] or sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        if len(sizes) == 1:
            return 16 // sizes[0]
        vector = 16 // max(sizes)
        same = line.strides[: len(sizes)] == sizes
        for places in (self.phases, *(dim.strides for dim in others)):
            same = same and is_one(place // n % vector for place, n in zip(places, sizes, strict=False) if n)
        return vector if same else 1

    def _columns_pay(self) -> bool:
        """True where lines fill so little of the vectors which they are read in that it is faster to take their
        elements as columns first, and to fold those."""
        op, line, vector = self.op, self.line, self.vector
        if not self.runs or vector == 1 or not self._folds_states() or len(op.itemsizes) > 1:
            return False
        length = self.lines * self.cells
        nbytes = length * line.size * op.itemsizes[0]
        read = length * self.slots * vector * op.itemsizes[0] * self._line_cost()
        states = self.cells * line.size * op.state_bytes
        return nbytes * tuning.COLUMNS_READ + states * tuning.COLUMN_STATES + tuning.FOLD_BYTES < read

    def _line_cost(self) -> float:
        """How many times as long as a line of whole tiles each of its loads takes."""
        vector, slots = self.vector, self.slots
        _, items = self._line_tile(slots, [32], self._items(vector))
        whole, whole_vector = self._side_by_side()
        share = self._side_share(whole.slots, vector // whole_vector, tuning.THREADS)
        if self._lies_abreast(share, slots, 32 * items):
            is_placed = self._has_positions() and not self._is_even_run()
            return 1 / share / (tuning.UNEVEN_SHARE if is_placed else 1)
        return 1 / math.sqrt(self._share_of_tiles(slots, 32 * items))

    def _side_by_side(self) -> tuple[Work, int]:
        """The work by aligned slots that a line is a whole number of, each line beginning with one, and the elements of
        one."""
        vector, length, others = self.vector, self.line.size, (*self.layout.kept, *self.runs)
        for operand, size in enumerate(self.op.itemsizes):
            while (
                vector > 1
                and size
                and not (
                    length % vector == 0
                    and self.phases[operand] % (vector * size) == 0
                    and aligned_by(others, operand, vector * size)
                )
            ):
                vector //= 2
        return replace(self.work, slots=length // vector), vector

    def _is_end_to_end(self) -> bool:
        """Whether the elements of a row follow one another, but their indices are in another order. Of several
        operators together some may count elements while others are told indices: those are taken otherwise."""
        op, reduced, size, vector = self.op, self.layout.reduced, self.op.itemsizes[0], self.vector
        is_plain = op.type.startswith("Arg") and len(op.itemsizes) == 1
        if len(reduced) < 2 or self.chunks > 1 or not is_plain or not self._has_positions():
            return False
        together = [row_major(reduced, i) * size for i in range(len(reduced))]
        if [dim.a for dim in reduced] != together or reduced[0].c < 0 or vector == 1:
            return False
        is_aligned = self.phases[0] % 16 == 0 and aligned_by(self.layout.kept, 0, 16)
        return is_aligned and reduced[0].size * row_major(reduced, 0) >= math.lcm(row_major(reduced, 0), vector)

    def _lies_end_to_end(self) -> bool:
        """Whether such rows are few, and of many elements."""
        reduced, vector = self.layout.reduced, self.vector
        if not self._is_end_to_end() or vector * self.op.state_bytes > tuning.END_TO_END_STATES:
            return False
        length = math.lcm(row_major(reduced, 0), vector)
        most = reduced[0].size * row_major(reduced, 0)
        is_short = length <= vector * tuning.THREADS * tuning.POLLED_BLOCKS  # a thread keeps to a slot of it
        is_short = is_short and self.cells < tuning.FEW_BLOCKS
        is_long = most * self.op.itemsizes[0] >= tuning.END_TO_END_BYTES
        return is_short and is_long and length * tuning.END_TO_END_LINES <= most

    def _end_to_end(self) -> Steps:
        reduced, op, vector = self.layout.reduced, self.op, self.vector
        line = row_major(reduced, 0)
        lines = math.lcm(line, vector) // line  # of a long one, which is a whole number of slots
        runs, slots = reduced[0].size // lines, lines * line // vector
        items = min(self._items(vector), tuning.ROW_ITEMS)
        threads = tuning.THREADS
        wanted = -(-tuning.END_TO_END_BLOCKS // self.cells)
        wanted = max(1, min(wanted, runs * slots // (threads * items)), -(-slots // threads))
        wanted = max(wanted, -(-2 * runs * slots // (threads * tuning.MOST_TAKEN)))
        splits = min(range(wanted, wanted + -(-wanted // 8) + 1), key=lambda n: n * threads % slots / (n * threads))
        work = replace(
            self.work,
            runs=runs,
            length=lines * line,
            slots=slots,
            splits=splits,
            tiles=lines,
            tail=reduced[0].size % lines * line,
            step_b=0,
            step_c=0,
            run=reduced,
        )
        head = f"reduce_rows<{op.type}, {{}}, {vector}, {threads}, {items}, END_TO_END, {{}}, {self.batch}>"
        return self._finished(head, work, self.cells * splits, self.cells)

    def _columns_first(self) -> Steps:
        """Each of a line's elements as a column; their states are folded behind."""
        line = self.line
        kept, count, state = self.layout.kept, line.size, self.op.state_bytes
        cells = [replace(dim, c=row_major(kept, i) * count) for i, dim in enumerate(kept)]
        columns = merged([*cells, replace(line, c=1)], True)
        planner = state_planner(self, ColumnPlanner, columns, self.runs)
        planner.columns_of_cell = count
        steps = planner.launches()
        states = tuple(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(kept, cells, strict=True))
        return folded_behind(self, steps, states, folded_columns(count, state, line.c), self.cells * count)

    def _is_even(self) -> bool:
        """Rows of a few slots a lane, one stride apart."""
        work, vector = self.work, self.vector
        is_apart = self.lines == 1 and len(work.row) <= 1 and not work.more
        is_whole = vector > 1 and self.aligned and work.length % vector == 0
        return is_apart and is_whole and self.slots <= 32 * tuning.EVEN_ROW_ITEMS

    def _even_rows(self) -> Steps:
        work, vector = self.work, self.vector
        lanes = min(32, 1 << (work.slots - 1).bit_length())
        items = 1 << (-(-work.slots // lanes) - 1).bit_length()
        batch = tuning.EVEN_ROW_BATCH // (items * items) * min(items, 2) // (1 if self.op.state_bytes <= 8 else 2)
        batch = max(1, batch // self._crowds(vector))
        rows_a_block = tuning.THREADS // lanes * batch
        op = self.op
        most = tuning.ROW_BLOCKS if op.state_bytes >= tuning.HEAVY_STATE_BYTES else tuning.EVEN_ROW_BLOCKS
        blocks = min(-(-work.rows // rows_a_block), most)
        sizes = f"{vector}, {tuning.THREADS}, {lanes}, {batch}, {items}, {self.batch}"
        name = f"reduce_even_rows<{op.type}, {op.emits}, {sizes}>"
        return [Launch(name, blocks, work)]

    def _lies_in_rows(self) -> bool:
        """Rows that follow one another: blocks copy them to shared memory whatever their alignment."""
        op, kept = self.op, self.layout.kept
        if self.vector * op.itemsizes[0] != 16 or self.line.a != op.itemsizes[0] or "Refold" in op.type:
            return False
        if self.lines > 1 or len(op.itemsizes) > 1:
            return False
        apart = [row_major(kept, i) * self.row_bytes for i in range(len(kept))]
        return len(kept) > 0 and [dim.a for dim in kept] == apart

    def _is_staged(self) -> bool:
        """Whether such rows are short."""
        row_bytes, size = self.row_bytes, self.op.itemsizes[0]
        if self.aligned and row_bytes % 16 == 0 and size > 2 and row_bytes not in tuning.EVEN_TEAM_BYTES:
            return False
        return row_bytes < tuning.TEAM_ROW_BYTES and self._lies_in_rows()

    def _fits_a_thread(self) -> bool:
        is_short = self.row_bytes < tuning.STAGED_ROW_BYTES and self.line.size <= tuning.UNROLLED_ROW
        return is_short and self.row_bytes % 16 > 0

    def _staged_rows(self) -> Steps:
        work, row_bytes = self.work, self.row_bytes
        tile_rows = tuning.STAGED_TILE_BYTES // row_bytes // tuning.THREADS * tuning.THREADS
        name = f"reduce_staged_rows<{self.op.type}, {self.op.emits}, {work.length}, {tuning.THREADS}, {self.batch}>"
        return self._tiled(name, work, tile_rows, row_bytes, tuning.THREADS)

    def _team_rows(self) -> Steps:
        op, lanes, threads, row_bytes = self.op, 1, tuning.TEAM_THREADS, self.row_bytes
        while lanes < 32 and threads // lanes * row_bytes > tuning.TEAM_TILE_BYTES:
            lanes *= 2
        tile_rows = threads // lanes
        tile_rows *= max(1, tuning.TEAM_TILE_LEAST // (tile_rows * row_bytes))
        slot = 16
        if row_bytes < tuning.TEAM_SLOT_BYTES and op.itemsizes[0] < 4:
            slot = max(4, math.gcd(row_bytes, 16))  # few slots reach past such a row, which costs more than words do
        sizes = f"{slot // op.itemsizes[0]}, {threads}, {lanes}, {self.batch}"
        name = f"reduce_team_rows<{op.type}, {op.emits}, {sizes}>"
        return self._tiled(name, self.work, tile_rows, row_bytes, threads)

    def _tiled(self, name: str, work: Work, tile_rows: int, row_bytes: int, threads: int) -> Steps:
        blocks, shared = -(-work.rows // tile_rows), tile_rows * row_bytes + tuning.TILE_MARGIN
        return [Launch(name, blocks, replace(work, slots=tile_rows), shared, threads=threads)]

    def _line_tile(self, slots: int, widths: Sequence[int], items: int) -> tuple[int, int]:
        """Lanes and loads a lane, ``items`` at most, whose tiles a line of so many slots fills best."""

        def worth(tile: tuple[int, int]) -> tuple[float, int]:
            lanes, loads = tile
            return self._share_of_tiles(slots, lanes * loads) * loads / (loads + tuning.LOAD_LATENCY), lanes

        return max(((lanes, loads) for lanes in widths for loads in tuning.TILE_ITEMS if loads <= items), key=worth)

    def _share_of_tiles(self, slots: int, tile: int) -> float:
        """The share that the slots of a line are of those of the tiles it takes, and of what its ends take."""
        return slots / (-(-slots // tile) * tile + (0 if self.aligned else tuning.END_SLOTS))

    def _side_share(self, slots: int, narrower: int, threads: int) -> float:
        """The share of so many threads that lines of so many slots give work to side by side, less what it costs that
        slots are so many times narrower, and where lines have to be looked up."""
        share = slots * (threads // slots) / threads / math.pow(narrower, tuning.NARROW_LOADS)
        return share if self._is_even_run() else share * tuning.UNEVEN_SHARE

    def _lies_abreast(self, share: float, phased_slots: int, tile: int) -> bool:
        """Whether lines are better taken side by side, with that share of threads, than in tiles of their own, which
        have as many slots as a line has at any alignment."""
        return share > 0 and share >= tuning.ABREAST * self._share_of_tiles(phased_slots, tile)

    def _is_even_run(self) -> bool:
        """Whether lines of a row are one stride apart."""
        return self.chunks == 1 and len(self.layout.reduced) <= 2

    def _side_items(self, vector: int) -> tuple[str, int]:
        """How lines are taken that lie side by side, and loads in flight: each has an address to be looked up where
        they are not one stride apart."""
        items = self._items(vector)
        return ("EVEN_LINES", items) if self._is_even_run() else ("SHORT_LINES", max(1, items // 4))

    def _widens(self, vector: int) -> bool:
        """Sums of narrow elements: a pack of them, as they are added up, fills many registers."""
        return self.op.core.startswith(("Sum<", "Mean<", "RootSum<")) and vector > 4

    def _crowds(self, vector: int) -> int:
        """How many times as many registers as others, packs of several narrow operands fill."""
        sizes = self.op.itemsizes
        if len(sizes) > 2:
            return max(1, round(vector * sum(sizes) / 32))
        return max(1, vector // 4) if len(sizes) > 1 else 1

    def _items(self, vector: int) -> int:
        """Loads in flight: more where each brings less."""
        heavy = self._widens(vector) or self._crowds(vector) > 1 or self.op.state_bytes >= tuning.HEAVY_STATE_BYTES
        items = tuning.ROW_ITEMS // 2 if heavy else tuning.ROW_ITEMS
        return items if vector * sum(self.op.itemsizes) >= 16 else min(16, 2 * items)

    def _lanes(self, slots: int) -> int:
        """Lanes of a team for so many slots of a row."""
        each = tuning.SHORT_ROW_SLOTS_A_LANE if self.op.commutative else 1
        return min(32, _power_of_two(-(-slots // each)))

    def _own_slot_rows(self) -> Steps:
        """Teams of lanes for rows that begin with a slot of theirs."""
        work, vector, partial = self._own_slots()
        lanes = self._lanes(work.slots)
        if work.slots <= lanes:
            batch = tuning.SHORT_ROW_BATCH // self._crowds(vector)
            return self._teams(work, vector, lanes, "ONE_LINE", 1, 1, batch, partial)
        return self._teams(work, vector, lanes, "SHORT_LINE", self._items(vector), 1, 1, partial)

    def _team_line(self) -> Steps:
        # of one load in flight, a lane has one slot of several rows
        lanes, items = self._lanes(self._own_slots()[0].slots), self._items(self.vector)
        return self._teams(self.work, self.vector, lanes, "ONE_LINE", items, 2)

    def _team_long_lines(self) -> Steps:
        lanes, items = self._line_tile(self.work.slots, [8, 16, 32], self._items(self.vector))
        return self._teams(self.work, self.vector, lanes, "LONG_LINES", items)

    def _team_lines_abreast(self) -> Steps:
        whole, vector = self._side_by_side()
        return self._teams(whole, vector, self._lanes_abreast(whole), *self._side_items(vector))

    def _lanes_abreast(self, whole: Work) -> int:
        return max(self._lanes(self._own_slots()[0].slots * self.lines), min(32, _power_of_two(whole.slots)))

    def _teams_abreast(self) -> bool:
        """Whether teams take lines side by side."""
        tile = self._line_tile(self.work.slots, [8, 16, 32], self._items(self.vector))
        whole, vector = self._side_by_side()
        share = self._side_share(whole.slots, self.vector // vector, self._lanes_abreast(whole))
        return self._lies_abreast(share, self.work.slots, math.prod(tile))

    def _teams(
        self,
        work: Work,
        vector: int,
        lanes: int,
        kind: str,
        items: int,
        least: int = 1,
        batch: int = 1,
        partial: bool = False,
    ) -> Steps:
        """Rows by teams of lanes, each of which has so many loads in flight, ``least`` at least."""
        op = self.op
        while items > least and lanes * items >= 2 * work.slots * self.lines:
            items //= 2
        teams = tuning.THREADS // lanes
        blocks = min(-(-work.rows // (teams * batch)), tuning.ROW_BLOCKS)
        name = (
            f"reduce_short_rows<{op.type}, {op.emits}, {vector}, {tuning.THREADS}, {lanes}, {batch}, {items}, "
            f"{kind}, {str(partial).lower()}, {self.batch}>"
        )
        return [Launch(name, blocks, replace(work, tiles=-(-work.slots // (lanes * items))))]

    def _folds_pairs(self) -> bool:
        """Sums of two words each, which cost arithmetic but no traffic."""
        return "Twofold" in self.op.type and self.op.core.startswith(("Sum<", "Mean<", "RootSum<"))

    def _block_line(self) -> Steps:
        items, work, vector = self._items(self.vector), self.work, self.vector
        if self._folds_pairs() and items < tuning.PAIR_ITEMS:
            items = tuning.PAIR_ITEMS
        row_tiles = -(-work.slots // (32 * items))
        if even := self._even_waves(work.rows, row_tiles, vector):
            return self._blocks(work, vector, items, "LINE_AHEAD", even)
        return self._blocks(work, vector, items, "ONE_LINE", self._splits(work.rows, row_tiles))

    def _block_long_lines(self) -> Steps:
        work, (_, items) = self.work, self._block_tile()
        splits = self._splits(work.rows, -(-work.slots // (32 * items)) * self.lines)
        return self._blocks(work, self.vector, items, "LONG_LINES", splits)

    def _block_tile(self) -> tuple[int, int]:
        items = self._items(self.vector)
        if self._folds_pairs() and items < tuning.PAIR_ITEMS:
            items = tuning.PAIR_ITEMS
        return self._line_tile(self.work.slots, [32], items)

    def _block_lines_abreast(self) -> Steps:
        work, vector = self._side_by_side()
        kind, items = self._side_items(vector)
        while items > 1 and tuning.THREADS // work.slots * items >= 2 * self.lines:
            items //= 2
        splits = self._splits(work.rows, -(-work.slots * self.lines // (32 * items)))
        return self._blocks(work, vector, items, kind, splits)

    def _blocks_abreast(self) -> bool:
        """Whether blocks take lines side by side."""
        whole, vector = self._side_by_side()
        share = self._side_share(whole.slots, self.vector // vector, tuning.THREADS)
        return self._lies_abreast(share, self.work.slots, math.prod(self._block_tile()))

    def _blocks(self, work: Work, vector: int, items: int, kind: str, splits: int) -> Steps:
        sizes = f"{vector}, {tuning.THREADS}, {items}, {kind}"
        head = f"reduce_rows<{self.op.type}, {{}}, {sizes}, {{}}, {self.batch}>"
        work = replace(work, tiles=-(-work.slots // (32 * items)), splits=splits)
        return self._finished(head, work, min(work.rows * splits, tuning.ROW_BLOCKS), work.rows)

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
        heavy = self.op.state_bytes >= tuning.HEAVY_STATE_BYTES and not sums
        most = tuning.HEAVY_BLOCKS if heavy else tuning.BLOCKS
        if heavy and self._is_narrow_float():
            most = tuning.NARROW_HEAVY_BLOCKS
        if self._folds_pairs():
            most = tuning.PAIR_BLOCKS
        wanted = -(-blocks_for(rows * row_tiles, most) // rows)
        return max(1, min(wanted, -(-row_tiles // (tuning.THREADS // 32))))

    def _ordered_rows(self) -> Steps:
        op, items, work, vector = self.op, 4, self.work, self.vector
        slots = work.slots * work.runs * self.chunks
        splits = self._splits(work.rows, -(-slots // (32 * items)))
        work, blocks = replace(work, splits=splits), min(work.rows * splits, tuning.ROW_BLOCKS)
        if splits == 1 and work.rows >= tuning.GRID and slots <= tuning.WARP_ROW_SLOTS:
            name = f"reduce_ordered<{op.type}, {op.emits}, {vector}, 32, {items}, TICKET, {self.batch}>"
            return [Launch(name, blocks, work, op.state_bytes, threads=32)]
        name = f"reduce_ordered<{op.type}, {{}}, {vector}, {tuning.THREADS}, {items}, {{}}, {self.batch}>"
        return self._finished(name, work, blocks, work.rows)


def _power_of_two(n: int) -> int:
    """The least that is not below n."""
    return 1 << (n - 1).bit_length()
