"""From a layout to launches: which kernel, with which template arguments, on which grid.

Nothing here asks which GPU it is for: the same chunk is cut the same way everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..monoid import DType
from . import tuning
from .layout import Dim, Layout
from .task import Work

# Byte operators whose running columns are far smaller than their states (kernels/monoid/columns.cuh): columns a thread.
_BYTES = ("i8", "u8", "boolean")
NARROW_COLUMNS = {f"{op}<{t}, ": 8 for op in ("Arg", "Var", "Std") for t in _BYTES}
NARROW_COLUMNS |= {f"Sum<Value<{t}, ": 16 for t in _BYTES}
CHUNK, PARTIALS, FLAT, RESULT = "chunk", "partials", "flat", "result"  # where a launch reads and writes


@dataclass(frozen=True)
class Operator:
    """What a kernel needs to know of an operator: its CUDA type, element sizes, and the state's size."""

    type: str
    itemsizes: tuple[int, ...]
    state_bytes: int
    commutative: bool = True
    emit: str = ""  # the type a cell is stored as; a state by default

    @property
    def emits(self) -> str:
        return f"Final<{self.type}, {self.emit}>" if self.emit else f"Keep<{self.type}>"


@dataclass(frozen=True)
class Launch:
    """One kernel launch, complete but for its pointers."""

    kernel: str  # a name expression
    blocks: int
    work: Work
    shared_bytes: int = 0
    partial_states: int = 0  # states of scratch for its blocks' partials
    tickets: int = 0
    reads: str = CHUNK  # or PARTIALS of the launch before, or FLAT
    writes: str = RESULT  # or FLAT: states of work.cells cells
    threads: int = tuning.THREADS


def _blocks_for(tiles: int, most: int) -> int:
    """Blocks that share this many warp tiles: one tile a warp up to a wave, then TILES_PER_WARP, then a full grid."""
    warps = tuning.THREADS // 32
    blocks = -(-tiles // warps)
    if blocks > tuning.ONE_WAVE:
        blocks = max(tuning.ONE_WAVE, -(-tiles // (warps * tuning.TILES_PER_WARP)))
    return min(blocks, most)


def _aligned(dims: Sequence[Dim], stride: str, unit: int) -> bool:
    return all(getattr(d, stride) % unit == 0 for d in dims)


def _slots(length: int, vector: int, aligned: bool) -> int:
    return -(-length // vector) if aligned else (length + 2 * vector - 2) // vector


def _common(layout: Layout, chunks: int, batch: int, option: tuple[float, float], cells: int) -> Work:
    return Work(
        chunks=chunks,
        batch=batch,
        cells=cells,
        option=option,
        first_cell=layout.cell,
        low_a=layout.low_a,
        high_a=layout.high_a,
        low_b=layout.low_b,
        high_b=layout.high_b,
    )


class Plan:
    """Chooses the launches that reduce ``chunks`` chunks of one layout into one partial."""

    def __init__(
        self,
        op: Operator,
        layout: Layout,
        phases: tuple[int, ...],
        chunks: int = 1,
        finish: str = "ticket",
        option: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``phases``: addresses of the walk's first elements modulo 16, one an operand, the same in every chunk."""
        self.op, self.layout, self.chunks, self.finish = op, layout, chunks, finish
        self.phases = phases
        self.batch = 1 if chunks == 1 else 120
        self.cells = math.prod(d.size for d in layout.kept)
        self.option = option
        self.work = _common(layout, chunks, self.batch, option, self.cells)

    def launches(self) -> list[Launch]:
        """The launches, in order."""
        if self._columns_lie_together():
            return self._column_launches()
        return self._row_launches()

    # ---- rows

    def _columns_lie_together(self) -> bool:
        kept, reduced = self.layout.kept, self.layout.reduced
        if not kept or not kept[-1].a:
            return False
        return not reduced or not reduced[-1].a or abs(kept[-1].a) < abs(reduced[-1].a)

    def _row_launches(self) -> list[Launch]:
        layout, op = self.layout, self.op
        line = layout.reduced[-1] if layout.reduced else Dim(1, op.itemsizes[0], op.itemsizes[-1])
        runs = layout.reduced[:-1]
        vector = self._row_vector(line, (*layout.kept, *runs))
        unit = vector * op.itemsizes[0]
        aligned = self.phases[0] % unit == 0 and _aligned((*layout.kept, *runs), "a", unit)
        slots = _slots(line.size, vector, aligned)
        work = replace(
            self.work,
            rows=self.cells,
            runs=math.prod(d.size for d in runs),
            length=line.size,
            slots=slots,
            step_a=line.a,
            step_b=line.b,
            step_c=line.c,
            row=layout.kept,
            run=runs,
        )
        if not op.commutative:
            return self._ordered(work)
        if self._is_staged(line, runs, vector, aligned):
            return [self._staged(work)]
        row_slots = slots * work.runs * self.chunks
        if slots <= 32 * tuning.EVEN_ROW_ITEMS and self._is_even(work, vector, aligned):
            return [self._even_rows(work, vector)]
        if row_slots <= tuning.SHORT_ROW_SLOTS and (work.rows >= tuning.GRID or row_slots <= 32):
            return [self._short_rows(work, vector, row_slots)]
        return self._block_rows(work, vector)

    def _row_vector(self, line: Dim, others: Sequence[Dim]) -> int:
        """Elements a load: 16 bytes' worth where elements lie together, and operands at one phase."""
        sizes = self.op.itemsizes
        if line.a != sizes[0] or sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        if len(sizes) == 1:
            return 16 // sizes[0]
        vector = 16 // max(sizes)
        same = line.b == sizes[1] and self.phases[0] // sizes[0] % vector == self.phases[1] // sizes[1] % vector
        for dim in others:
            same = same and dim.a // sizes[0] % vector == dim.b // sizes[1] % vector
        return vector if same else 1

    def _is_even(self, work: Work, vector: int, aligned: bool) -> bool:
        """Rows of a few slots a lane, one stride apart, enough of them to fill the GPU."""
        one_run = work.runs * self.chunks == 1 and len(work.row) <= 1
        return vector > 1 and aligned and one_run and work.length % vector == 0 and work.rows >= tuning.GRID

    def _even_rows(self, work: Work, vector: int) -> Launch:
        lanes = min(32, 1 << (work.slots - 1).bit_length())
        items = 1 << (-(-work.slots // lanes) - 1).bit_length()
        batch = max(
            1, tuning.EVEN_ROW_BATCH // (items * items) * min(items, 2) // (1 if self.op.state_bytes <= 8 else 2)
        )
        rows_a_block = tuning.THREADS // lanes * batch
        op = self.op
        most = tuning.ROW_BLOCKS if op.state_bytes >= tuning.HEAVY_STATE_BYTES else tuning.EVEN_ROW_BLOCKS
        blocks = min(-(-work.rows // rows_a_block), most)
        sizes = f"{vector}, {tuning.THREADS}, {lanes}, {batch}, {items}, {self.batch}"
        name = f"reduce_even_rows<{op.type}, {op.emits}, {sizes}>"
        return Launch(name, blocks, work)

    def _is_staged(self, line: Dim, runs: Sequence[Dim], vector: int, aligned: bool) -> bool:
        op, kept, row_bytes = self.op, self.layout.kept, line.size * self.op.itemsizes[0]
        byte_positions = op.type.startswith(("Arg<i8", "Arg<u8", "Arg<boolean"))  # H200: 0.58-0.70 R, even rows 0.15
        whole = aligned and not byte_positions
        if vector == 1 or whole or runs or self.chunks > 1 or len(op.itemsizes) > 1:
            return False
        together = len(kept) == 1 and kept[0].a == row_bytes and self.phases[0] == 0
        return together and row_bytes < tuning.TEAM_ROW_BYTES

    def _staged(self, work: Work) -> Launch:
        row_bytes = work.length * self.op.itemsizes[0]
        if row_bytes >= tuning.STAGED_ROW_BYTES or work.length > tuning.UNROLLED_ROW:
            return self._team_rows(work, row_bytes)
        tile_rows = tuning.STAGED_TILE_BYTES // row_bytes // tuning.THREADS * tuning.THREADS
        name = f"reduce_staged_rows<{self.op.type}, {self.op.emits}, {work.length}, {tuning.THREADS}, {self.batch}>"
        return Launch(name, -(-work.rows // tile_rows), replace(work, slots=tile_rows), tile_rows * row_bytes)

    def _team_rows(self, work: Work, row_bytes: int) -> Launch:
        op, lanes = self.op, 32
        while lanes > 1 and lanes * tuning.TEAM_ROW_WORDS > work.length // max(1, 4 // op.itemsizes[0]):
            lanes //= 2
        unit = 16 // math.gcd(16, row_bytes)  # rows until the next that starts at a multiple of 16
        most = max(unit, tuning.TEAM_TILE_BYTES // row_bytes // unit * unit)
        even = math.lcm(unit, tuning.THREADS // lanes)  # so that no team waits for others
        tile_rows = most // even * even or most
        name = f"reduce_team_rows<{op.type}, {op.emits}, {tuning.THREADS}, {lanes}, {self.batch}>"
        return Launch(name, -(-work.rows // tile_rows), replace(work, slots=tile_rows), tile_rows * row_bytes)

    def _lines(self, work: Work, lanes: int, items: int) -> str:
        if work.runs * self.chunks == 1:
            return "ONE_LINE"
        return "LONG_LINES" if work.slots * 4 >= lanes * items * 3 else "SHORT_LINES"

    def _is_narrow_float(self) -> bool:
        return "half" in self.op.type or "bfloat16" in self.op.type

    def _widens(self) -> bool:
        """Sums of narrow floats: a pack of them in binary64 fills many registers."""
        return self.op.type.startswith(("Sum<", "Mean<", "RootSum<")) and self._is_narrow_float()

    def _items(self, vector: int) -> int:
        """Loads in flight: more where each brings less."""
        heavy = self._widens() or self.op.state_bytes >= tuning.HEAVY_STATE_BYTES
        items = tuning.ROW_ITEMS // 2 if heavy else tuning.ROW_ITEMS
        return items if vector * sum(self.op.itemsizes) >= 16 else min(16, 2 * items)

    def _short_rows(self, work: Work, vector: int, row_slots: int) -> Launch:
        lanes = min(32, 1 << (row_slots - 1).bit_length())
        single = row_slots <= lanes and work.runs * self.chunks == 1
        items, batch = (1, tuning.SHORT_ROW_BATCH) if single else (self._items(vector), 1)
        while items > 1 and lanes * items >= 2 * row_slots:
            items //= 2
        lines = self._lines(work, lanes, items)
        teams = tuning.THREADS // lanes
        blocks = min(-(-work.rows // (teams * batch)), tuning.ROW_BLOCKS)
        op, threads = self.op, tuning.THREADS
        if lines == "ONE_LINE" and items == 1 and not single:
            items = 2
        name = (
            f"reduce_short_rows<{op.type}, {op.emits}, {vector}, {threads}, {lanes}, {batch}, {items}, "
            f"{lines}, {self.batch}>"
        )
        return Launch(name, blocks, replace(work, tiles=-(-work.slots // (lanes * items))))

    def _block_rows(self, work: Work, vector: int) -> list[Launch]:
        items = self._items(vector)
        lines = self._lines(work, 32, items)
        tiles = -(-work.slots // (32 * items))
        row_tiles = tiles * work.runs * self.chunks
        if lines == "SHORT_LINES":
            row_tiles = -(-work.slots * work.runs * self.chunks // (32 * items))
        splits = self._splits(work.rows, row_tiles)
        op = self.op
        head = f"reduce_rows<{op.type}, {{}}, {vector}, {tuning.THREADS}, {items}, {lines}, {{}}, {self.batch}>"
        work = replace(work, tiles=tiles, splits=splits)
        return self._finished(head, work, min(work.rows * splits, tuning.ROW_BLOCKS), work.rows)

    def _splits(self, rows: int, row_tiles: int) -> int:
        if rows >= tuning.GRID:
            return 1
        sums = self.op.type.startswith(("Sum<", "Mean<")) and self.op.state_bytes <= 32
        heavy = self.op.state_bytes >= tuning.HEAVY_STATE_BYTES and not sums
        most = tuning.HEAVY_BLOCKS if heavy else tuning.BLOCKS
        wanted = -(-_blocks_for(rows * row_tiles, most) // rows)
        return max(1, min(wanted, -(-row_tiles // (tuning.THREADS // 32))))

    def _ordered(self, work: Work) -> list[Launch]:
        items = 4
        elements = work.length * work.runs * self.chunks
        splits = self._splits(work.rows, -(-elements // (32 * items)))
        name = f"reduce_ordered<{self.op.type}, {{}}, {tuning.THREADS}, {items}, {{}}, {self.batch}>"
        work = replace(work, slots=work.length, splits=splits)
        return self._finished(name, work, min(work.rows * splits, tuning.ROW_BLOCKS), work.rows)

    # ---- columns

    def _column_launches(self) -> list[Launch]:
        layout, op = self.layout, self.op
        line, rows, runs = layout.kept[-1], layout.kept[:-1], layout.reduced
        together = line.a == op.itemsizes[0] and (len(op.itemsizes) == 1 or line.b == op.itemsizes[1])
        if together and self._flat_fits(line, rows, runs):
            return self._flat_columns(line, rows, runs[0])
        vector = self._column_vector(line, (*rows, *runs)) if together else 1
        aligned = vector == 1 or (
            self.phases[0] % (vector * op.itemsizes[0]) == 0 and _aligned(rows, "a", vector * op.itemsizes[0])
        )
        work = replace(
            self.work,
            rows=math.prod(d.size for d in rows),
            runs=math.prod(d.size for d in runs),
            length=line.size,
            slots=_slots(line.size, vector, aligned),
            step_a=line.a,
            step_b=line.b,
            step_c=line.c,
            row=rows,
            run=runs,
        )
        return self._tiles(work, vector, flat=False)

    def _widest(self) -> int:
        """Columns a thread may own: a 16-byte load's worth, fewer for large states."""
        sizes = self.op.itemsizes
        if sizes[0] not in (1, 2, 4, 8, 16) or "Refold" in self.op.type:
            return 1
        vector = 16 // max(sizes)
        for start, columns in NARROW_COLUMNS.items():
            if self.op.type.startswith(start):
                return columns
        narrow = self._is_narrow_float() and self.op.state_bytes >= tuning.HEAVY_STATE_BYTES
        limit = tuning.NARROW_STATE_BYTES if narrow else tuning.COLUMN_STATE_BYTES
        while vector > 1 and vector * self.op.state_bytes > limit:
            vector //= 2
        return vector

    def _column_items(self, load_bytes: int) -> int:
        heavy = self.op.state_bytes >= tuning.HEAVY_STATE_BYTES and not self._is_narrow_float()
        return min(16, max(2, tuning.COLUMN_LOAD_BYTES // (2 if heavy else 1) // load_bytes))

    def _column_vector(self, line: Dim, others: Sequence[Dim]) -> int:
        """The most columns that keep every run of a thread at one phase."""
        vector = self._widest()
        for stride, size in zip("ab", self.op.itemsizes, strict=False):
            while vector > 1 and not _aligned(others, stride, vector * size):
                vector //= 2
        if len(self.op.itemsizes) == 2:
            size_a, size_b = self.op.itemsizes
            while vector > 1 and self.phases[0] // size_a % vector != self.phases[1] // size_b % vector:
                vector //= 2
        return vector

    def _flat_fits(self, line: Dim, rows: Sequence[Dim], runs: Sequence[Dim]) -> bool:
        """Lines that follow one another without a gap can be read as longer, aligned ones."""
        size, vector = self.op.itemsizes[0], self._widest()
        one_chunk = self.chunks == 1 and len(runs) == 1 and len(self.op.itemsizes) == 1
        if not one_chunk or vector == 1 or not self.op.commutative:
            return False
        if runs[0].a != line.size * size or self.phases[0] or not _aligned(rows, "a", vector * size):
            return False
        periods = self._periods(line, vector)
        misaligned = line.size % vector != 0
        return (misaligned or line.size < tuning.FLAT_SLOTS * vector) and runs[0].size >= 4 * periods

    def _periods(self, line: Dim, vector: int) -> int:
        """Lines laid end to end: a whole number of vectors, up to a block's width of them."""
        least = vector // math.gcd(line.size, vector)
        most = least * max(1, tuning.THREADS * vector // (least * line.size))
        unit = math.lcm(least, tuning.CACHE_LINE // math.gcd(tuning.CACHE_LINE, line.size * self.op.itemsizes[0]))
        aligned = most // unit * unit
        return aligned if aligned >= 0.9 * most else most

    def _flat_columns(self, line: Dim, rows: Sequence[Dim], run: Dim) -> list[Launch]:
        vector = self._widest()
        periods = self._periods(line, vector)
        length = periods * line.size
        outer = math.prod(d.size for d in rows)
        if length <= tuning.THREADS * vector:
            return self._one_flat_tile(line, rows, run, vector, periods)
        cell_rows = tuple(Dim(d.size, d.a, d.b, _row_major(rows, i) * length) for i, d in enumerate(rows))
        work = replace(
            self.work,
            rows=outer,
            runs=run.size // periods,
            length=length,
            slots=length // vector,
            tail=run.size % periods * line.size,
            cells=outer * length,
            first_cell=0,
            step_a=line.a,
            step_b=run.c,
            step_c=1,
            width=line.size,
            row=cell_rows,
            run=(Dim(run.size // periods, run.a * periods, 0, run.c * periods),),
        )
        first = replace(self.op, emit="")
        launches = self._tiles(work, vector, flat=True, op=first)
        launches = [replace(launch, writes=FLAT) for launch in launches]
        state = self.op.state_bytes
        outer_dims = [Dim(d.size, _row_major(rows, i) * length * state, 0, d.c) for i, d in enumerate(rows)]
        folded = Layout(
            kept=(*outer_dims, Dim(line.size, state, 0, line.c)),
            reduced=(Dim(periods, line.size * state),),
            offset_a=0,
            offset_b=0,
            cell=self.layout.cell,
            low_a=0,
            high_a=outer * length * state,
            low_b=0,
            high_b=0,
        )
        return launches + fold_launches(self.op, folded, FLAT, self.option)

    def _one_flat_tile(self, line: Dim, rows: Sequence[Dim], run: Dim, vector: int, periods: int) -> list[Launch]:
        """A long line that one block spans: the block folds its periods itself."""
        op, length = self.op, periods * line.size
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
        return self._finished(name, work, work.rows * splits, work.rows, line.size, shared, work.cells, finish=finish)

    def _chain(self) -> int:
        """Partials that a thread of the last block may fold one after another."""
        return tuning.HEAVY_CHAIN if self.op.state_bytes >= tuning.HEAVY_STATE_BYTES else tuning.CHAIN

    def _tiles(self, work: Work, vector: int, flat: bool, op: Operator | None = None) -> list[Launch]:
        op = op or self.op
        runs = work.runs * self.chunks
        wide, even = self._width(work, runs, flat), self.chunks == 1 and len(work.run) <= 1
        tiles = -(-work.rows * work.slots // wide)
        tall = tuning.THREADS // wide
        load = vector * sum(op.itemsizes)
        items = self._column_items(load)
        while items > 1 and items * tall >= 2 * runs:
            items //= 2
        published = wide * vector * op.state_bytes // (2 if op.itemsizes[0] <= 2 or flat else 1)
        most = min(max(tuning.COLUMN_PARTIAL_BYTES // published, tuning.ONE_WAVE), tuning.COLUMN_BLOCKS)
        most = min(most, max(self._chain() * tuning.THREADS // (wide * vector) * tiles, tuning.ONE_WAVE))
        wanted = -(-_blocks_for(tiles * runs * wide // (32 * items), most) // tiles)
        splits = max(1, min(wanted, runs // max(1, tall * items)), -(-runs // (tall * tuning.MOST_TAKEN)))
        name = (
            f"reduce_columns<{op.type}, {{}}, {vector}, {tuning.THREADS}, {wide}, {items}, "
            f"{str(even).lower()}, {str(flat).lower()}, {{}}, {self.batch}>"
        )
        shared = max(tuning.THREADS * vector, wide * vector) * op.state_bytes
        is_long = splits * wide * vector > 2 * tuning.THREADS * self._chain()
        finish = "two-pass" if is_long and self.finish == "ticket" else self.finish
        return self._finished(
            name, replace(work, splits=splits), tiles * splits, tiles, wide * vector, shared, work.cells, op, finish
        )

    def _width(self, work: Work, runs: int, flat: bool) -> int:
        """Threads across a tile; the rest of the block goes down it."""
        wide, least = 256, tuning.COLUMN_WIDTH * (2 if flat else 1)  # twice: such lines start within a cache line
        while wide > least and runs >= 2 * tuning.THREADS // wide:
            wide //= 2
        if runs < 16:
            return 256
        while wide > 4 and wide >= 2 * work.rows * work.slots:
            wide //= 2
        return wide

    # ---- finishing

    def _finished(
        self,
        name: str,
        work: Work,
        blocks: int,
        groups: int,
        columns: int = 1,
        shared: int = 0,
        cells: int = 0,
        op: Operator | None = None,
        finish: str = "",
    ) -> list[Launch]:
        """The launch, and with it whatever brings the partials of its blocks together."""
        op, finish = op or self.op, finish or self.finish
        shared = max(shared, tuning.THREADS // 32 * op.state_bytes, 16)
        if work.splits == 1 or finish == "ticket":
            scratch = groups * work.splits * columns if work.splits > 1 else 0
            kernel = name.format(op.emits, "TICKET")
            return [Launch(kernel, blocks, work, shared, scratch, groups if work.splits > 1 else 0)]
        keep = replace(op, emit="")
        if finish == "atomic":
            fill = Launch(
                f"fill_cells<{op.type}, {keep.emits}, {tuning.THREADS}, 1>",
                min(-(-work.cells // tuning.THREADS), tuning.GRID),
                Work(rows=work.cells, cells=work.cells),
            )
            return [fill, Launch(name.format(keep.emits, "ATOMIC"), blocks, work, shared)]
        cells = cells or work.rows
        first = Launch(name.format(keep.emits, "TWO_PASS"), blocks, work, shared, cells * work.splits)
        state = op.state_bytes
        by_cell = columns == 1  # rows publish (row, split); columns (split, cell)
        kept = Dim(cells, (work.splits if by_cell else 1) * state, 0, 1)
        reduced = Dim(work.splits, state if by_cell else cells * state)
        if by_cell:
            kept_dims = tuple(
                Dim(d.size, _row_major(work.row, i) * work.splits * state, 0, d.c) for i, d in enumerate(work.row)
            )
        else:
            kept_dims = (kept,) if cells > 1 else ()
        first_cell = work.first_cell if by_cell else 0
        layout = Layout(kept_dims, (reduced,), 0, 0, first_cell, 0, cells * work.splits * state, 0, 0)
        return [first, *fold_launches(op, layout, PARTIALS, self.option)]


def _row_major(dims: Sequence[Dim], i: int) -> int:
    """How far apart neighbours along dimension i are when dims are numbered one after another."""
    return math.prod(d.size for d in dims[i + 1 :])


def refold(op: Operator) -> Operator:
    """The same operator on states."""
    return replace(op, type=f"Refold<{op.type}>", itemsizes=(op.state_bytes,))


def fold_launches(op: Operator, layout: Layout, reads: str, option: tuple[float, float]) -> list[Launch]:
    """Launches that fold states, laid out so, by the operator that made them."""
    inner = op if op.type.startswith("Refold<") else refold(op)
    return [replace(launch, reads=reads) for launch in Plan(inner, layout, (0,), option=option).launches()]


def operator(cuda_type: str, dtypes: Sequence[DType], state: DType, commutative: bool, emit: str = "") -> Operator:
    """The operator of these element dtypes; ``emit`` is the CUDA type of finished cells, states if empty."""
    return Operator(cuda_type, tuple(d.itemsize for d in dtypes), state.itemsize, commutative, emit)
