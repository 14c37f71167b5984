"""Launches for rows: reduced elements that lie together, or at any stride."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from . import tuning
from .column_plans import ColumnPlanner, folded_behind, folded_columns, outer_runs_as_rows, state_planner
from .layout import Dim, merged
from .plans import Launch, Planner, Steps, aligned_by, blocks_for, is_one, row_major, slots_of
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
    """Chooses the kernel by how long rows are, how many there are, and how they are aligned."""

    def launches(self) -> Steps:
        layout, op = self.layout, self.op
        line = layout.reduced[-1] if layout.reduced else one_element(op.itemsizes)
        runs = layout.reduced[:-1]
        vector = self._row_vector(line, (*layout.kept, *runs))
        unit = vector * op.itemsizes[0]
        self.aligned = self.phases[0] % unit == 0 and aligned_by((*layout.kept, *runs), 0, unit)
        work = replace(
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
        slots = slots_of(line.size, vector, True)
        staged = self._is_staged(line, runs, vector)
        if staged and (op.commutative or self._fits_a_thread(line)):
            return [self._staged(line, work)]
        if not op.commutative:
            if self._fits_a_column(work, vector):
                return ColumnPlanner(op, layout, self.phases, self.chunks, self.finish, self.option).launches()
            one_slot_a_lane = self._own_slots(work, vector)[1] > 1 and slots <= 32 and work.runs * self.chunks == 1
            return [self._short_rows(work, vector)] if one_slot_a_lane else self._ordered(work, vector)
        if self._lies_end_to_end(line, vector):
            return self._end_to_end(vector)
        if self._columns_pay(line, runs, vector, slots):
            if self._has_positions() and self._runs_part(runs):
                return outer_runs_as_rows(self, RowPlanner, runs, (line,))
            return self._columns_first(line, runs)
        if slots <= 32 * tuning.EVEN_ROW_ITEMS and self._is_even(work, vector):
            return [self._even_rows(work, vector)]
        row_slots = slots * work.runs * self.chunks
        is_large = op.state_bytes >= tuning.LARGE_STATE_BYTES
        most = tuning.LARGE_STATE_ROW_SLOTS if is_large else tuning.SHORT_ROW_SLOTS
        if row_slots <= most and (work.rows >= tuning.GRID or row_slots <= 32):
            return [self._short_rows(work, vector)]
        return self._block_rows(work, vector)

    def _fits_a_column(self, work: Work, vector: int) -> bool:
        """Rows in element order that are so short, so many, and not read by vectors, that a thread takes each, as if
        it were a column."""
        elements = work.length * work.runs * self.chunks
        is_single = self._own_slots(work, vector)[1] == 1
        few = tuning.THREADS if elements < 16 else 32  # threads across a tile: the others go down longer columns
        is_short = is_single and elements <= tuning.THREAD_ROW and all(self.op.itemsizes)
        return is_short and work.rows >= tuning.THREAD_ROWS * few

    def _own_slots(self, work: Work, vector: int) -> tuple[Work, int, bool]:
        """Lines that begin with a slot of theirs: the work, the elements of a slot, and whether lines begin at any
        alignment or end with part of one. Several operands are read one by one then."""
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

    def _columns_pay(self, line: Dim, runs: Sequence[Dim], vector: int, slots: int) -> bool:
        """True where lines fill so little of the vectors which they are read in that it is faster to take their
        elements as columns first, and to fold those."""
        op = self.op
        if not runs or vector == 1 or not self._folds_states() or len(op.itemsizes) > 1:
            return False
        length = self.chunks * self.cells * math.prod(dim.size for dim in runs)
        nbytes = length * line.size * op.itemsizes[0]
        read = (
            length * slots * vector * op.itemsizes[0] * self._line_cost(line, slots, vector, (*self.layout.kept, *runs))
        )
        states = self.cells * line.size * op.state_bytes
        return nbytes * tuning.COLUMNS_READ + states * tuning.COLUMN_STATES + tuning.FOLD_BYTES < read

    def _line_cost(self, line: Dim, slots: int, vector: int, others: Sequence[Dim]) -> float:
        """How many times as long as a line of whole tiles each of its loads takes."""
        _, items = self._line_tile(slots, [32], self._items(vector))
        whole = self._whole_vector(line, vector, others)
        share = self._side_share(line.size // whole, vector // whole, tuning.THREADS)
        if self._lies_abreast(share, slots, 32 * items):
            is_placed = self._has_positions() and not self._is_even_run()
            return 1 / share / (tuning.UNEVEN_SHARE if is_placed else 1)
        return 1 / math.sqrt(self._share_of_tiles(slots, 32 * items))

    def _whole_vector(self, line: Dim, vector: int, others: Sequence[Dim]) -> int:
        """Elements a load of which lines are whole, aligned slots, each of which begins with one."""
        for operand, size in enumerate(self.op.itemsizes):
            while (
                vector > 1
                and size
                and not (
                    line.size % vector == 0
                    and self.phases[operand] % (vector * size) == 0
                    and aligned_by(others, operand, vector * size)
                )
            ):
                vector //= 2
        return vector

    def _side_by_side(self, work: Work, vector: int) -> tuple[Work, int]:
        """The work by slots that a line is a whole number of, and the elements of one."""
        whole = self._whole_vector(Dim(work.length, 0), vector, (*work.row, *work.run))
        return replace(work, slots=work.length // whole), whole

    def _lies_end_to_end(self, line: Dim, vector: int) -> bool:
        """Whether the elements of a row follow one another, and are many, but their indices are in another order. Of
        several operators together some may count elements while others are told indices: those are taken otherwise."""
        op, reduced, size = self.op, self.layout.reduced, self.op.itemsizes[0]
        is_plain = op.type.startswith("Arg") and len(op.itemsizes) == 1
        if len(reduced) < 2 or self.chunks > 1 or not is_plain or not self._has_positions():
            return False
        together = [row_major(reduced, i) * size for i in range(len(reduced))]
        if [dim.a for dim in reduced] != together or reduced[0].c < 0 or vector == 1:
            return False
        if vector * op.state_bytes > tuning.END_TO_END_STATES:
            return False
        if self.phases[0] % 16 or not aligned_by(self.layout.kept, 0, 16) or self.cells >= tuning.FEW_BLOCKS:
            return False
        length = math.lcm(row_major(reduced, 0), vector)
        most = reduced[0].size * row_major(reduced, 0)
        is_short = length <= vector * tuning.THREADS * tuning.POLLED_BLOCKS  # a thread keeps to a slot of it
        return is_short and most * size >= tuning.END_TO_END_BYTES and length * tuning.END_TO_END_LINES <= most

    def _end_to_end(self, vector: int) -> Steps:
        reduced, op = self.layout.reduced, self.op
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
            rows=self.cells,
            runs=runs,
            length=lines * line,
            slots=slots,
            splits=splits,
            tiles=lines,
            tail=reduced[0].size % lines * line,
            step_a=op.itemsizes[0],
            row=self.layout.kept,
            run=reduced,
        )
        head = f"reduce_rows<{op.type}, {{}}, {vector}, {threads}, {items}, END_TO_END, {{}}, {self.batch}>"
        return self._finished(head, work, self.cells * splits, self.cells)

    def _columns_first(self, line: Dim, runs: Sequence[Dim]) -> Steps:
        """Each of a line's elements as a column; their states are folded behind."""
        kept, count, state = self.layout.kept, line.size, self.op.state_bytes
        cells = [replace(dim, c=row_major(kept, i) * count) for i, dim in enumerate(kept)]
        columns = merged([*cells, replace(line, c=1)], True)
        planner = state_planner(self, ColumnPlanner, columns, runs)
        planner.columns_of_cell = count
        steps = planner.launches()
        states = tuple(Dim(dim.size, cell.c * state, 0, dim.c) for dim, cell in zip(kept, cells, strict=True))
        return folded_behind(self, steps, states, folded_columns(count, state, line.c), self.cells * count)

    def _is_even(self, work: Work, vector: int) -> bool:
        """Rows of a few slots a lane, one stride apart, enough of them to fill the GPU."""
        one_run = work.runs * self.chunks == 1 and len(work.row) <= 1 and not work.more
        return vector > 1 and self.aligned and one_run and work.length % vector == 0 and work.rows >= tuning.GRID

    def _even_rows(self, work: Work, vector: int) -> Launch:
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
        return Launch(name, blocks, work)

    def _is_staged(self, line: Dim, runs: Sequence[Dim], vector: int) -> bool:
        """Short rows that follow one another: blocks copy them to shared memory whatever their alignment."""
        op, kept, row_bytes = self.op, self.layout.kept, line.size * self.op.itemsizes[0]
        if vector * op.itemsizes[0] != 16 or line.a != op.itemsizes[0] or "Refold" in op.type:
            return False
        if runs or self.chunks > 1 or len(op.itemsizes) > 1:
            return False
        if self.aligned and row_bytes % 16 == 0 and op.itemsizes[0] > 2 and row_bytes not in tuning.EVEN_TEAM_BYTES:
            return False
        apart = [row_major(kept, i) * row_bytes for i in range(len(kept))]
        return len(kept) > 0 and [dim.a for dim in kept] == apart and row_bytes < tuning.TEAM_ROW_BYTES

    def _fits_a_thread(self, line: Dim) -> bool:
        row_bytes = line.size * self.op.itemsizes[0]
        return row_bytes < tuning.STAGED_ROW_BYTES and line.size <= tuning.UNROLLED_ROW and row_bytes % 16 > 0

    def _staged(self, line: Dim, work: Work) -> Launch:
        row_bytes = work.length * self.op.itemsizes[0]
        if not self._fits_a_thread(line):
            return self._team_rows(work, row_bytes)
        tile_rows = tuning.STAGED_TILE_BYTES // row_bytes // tuning.THREADS * tuning.THREADS
        name = f"reduce_staged_rows<{self.op.type}, {self.op.emits}, {work.length}, {tuning.THREADS}, {self.batch}>"
        return self._tiled(name, work, tile_rows, row_bytes, tuning.THREADS)

    def _team_rows(self, work: Work, row_bytes: int) -> Launch:
        op, lanes, threads = self.op, 1, tuning.TEAM_THREADS
        while lanes < 32 and threads // lanes * row_bytes > tuning.TEAM_TILE_BYTES:
            lanes *= 2
        tile_rows = threads // lanes
        tile_rows *= max(1, tuning.TEAM_TILE_LEAST // (tile_rows * row_bytes))
        slot = 16
        if row_bytes < tuning.TEAM_SLOT_BYTES and op.itemsizes[0] < 4:
            slot = max(4, math.gcd(row_bytes, 16))  # few slots reach past such a row, which costs more than words do
        sizes = f"{slot // op.itemsizes[0]}, {threads}, {lanes}, {self.batch}"
        return self._tiled(f"reduce_team_rows<{op.type}, {op.emits}, {sizes}>", work, tile_rows, row_bytes, threads)

    def _tiled(self, name: str, work: Work, tile_rows: int, row_bytes: int, threads: int) -> Launch:
        blocks, shared = -(-work.rows // tile_rows), tile_rows * row_bytes + tuning.TILE_MARGIN
        return Launch(name, blocks, replace(work, slots=tile_rows), shared, threads=threads)

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

    def _short_rows(self, phased: Work, phased_vector: int) -> Launch:
        op, lines = self.op, phased.runs * self.chunks
        own, own_vector, is_part = self._own_slots(phased, phased_vector)
        each = tuning.SHORT_ROW_SLOTS_A_LANE if op.commutative else 1
        lanes, batch, partial = min(32, _power_of_two(-(-own.slots * lines // each))), 1, False
        work, vector, kind, items, least = phased, phased_vector, "ONE_LINE", self._items(phased_vector), 1
        if lines > 1:
            tile = self._line_tile(phased.slots, [8, 16, 32], items)
            whole, whole_vector = self._side_by_side(phased, phased_vector)
            wide = max(lanes, min(32, _power_of_two(whole.slots)))
            share = self._side_share(whole.slots, vector // whole_vector, wide)
            if self._lies_abreast(share, phased.slots, math.prod(tile)):
                work, vector, lanes, (kind, items) = whole, whole_vector, wide, self._side_items(whole_vector)
            else:
                kind, (lanes, items) = "LONG_LINES", tile
        elif own.slots <= lanes:
            work, vector, partial = own, own_vector, is_part
            items, batch = 1, tuning.SHORT_ROW_BATCH // self._crowds(vector)
        elif own.slots <= tuning.PARTIAL_SLOTS:
            work, vector, partial, kind, items = own, own_vector, is_part, "SHORT_LINE", self._items(own_vector)
        else:
            least = 2  # of one, a lane has one slot of several rows
        while items > least and lanes * items >= 2 * work.slots * lines:
            items //= 2
        teams = tuning.THREADS // lanes
        blocks = min(-(-work.rows // (teams * batch)), tuning.ROW_BLOCKS)
        name = (
            f"reduce_short_rows<{op.type}, {op.emits}, {vector}, {tuning.THREADS}, {lanes}, {batch}, {items}, "
            f"{kind}, {str(partial).lower()}, {self.batch}>"
        )
        return Launch(name, blocks, replace(work, tiles=-(-work.slots // (lanes * items))))

    def _folds_pairs(self) -> bool:
        """Sums of two words each, which cost arithmetic but no traffic."""
        return "Twofold" in self.op.type and self.op.core.startswith(("Sum<", "Mean<", "RootSum<"))

    def _block_rows(self, work: Work, vector: int) -> Steps:
        items, lines, kind = self._items(vector), work.runs * self.chunks, "ONE_LINE"
        if self._folds_pairs() and items < tuning.PAIR_ITEMS:
            items = tuning.PAIR_ITEMS
        if lines > 1:
            kind, (_, items) = "LONG_LINES", self._line_tile(work.slots, [32], items)
            whole, whole_vector = self._side_by_side(work, vector)
            share = self._side_share(whole.slots, vector // whole_vector, tuning.THREADS)
            if self._lies_abreast(share, work.slots, 32 * items):
                work, vector, (kind, items) = whole, whole_vector, self._side_items(whole_vector)
                while items > 1 and tuning.THREADS // work.slots * items >= 2 * lines:
                    items //= 2
        tiles = -(-work.slots // (32 * items))
        row_tiles = tiles * lines if kind == "LONG_LINES" else -(-work.slots * lines // (32 * items))
        splits = self._splits(work.rows, row_tiles)
        if kind == "ONE_LINE" and (even := self._even_waves(work.rows, row_tiles, vector)):
            splits, kind = even, "LINE_AHEAD"
        op = self.op
        sizes = f"{vector}, {tuning.THREADS}, {items}, {kind}"
        head = f"reduce_rows<{op.type}, {{}}, {sizes}, {{}}, {self.batch}>"
        work = replace(work, tiles=tiles, splits=splits)
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

    def _ordered(self, work: Work, vector: int) -> Steps:
        op, items = self.op, 4
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
