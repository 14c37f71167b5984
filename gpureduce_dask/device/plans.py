"""What a plan is made of: launches, and what every planner of launches knows.

Nothing here asks which GPU it is for: the same chunk is cut the same way everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from . import reduce_costs, tuning
from .layout import Dim, Layout
from .reduce_costs import Effort, chain_of, folding, touched
from .task import BATCH, BATCH4, Work

CHUNK, PARTIALS, FLAT, RESULT = "chunk", "partials", "flat", "result"  # where a launch reads and writes
DEEPEST = 2  # ways within ways that leave states


@dataclass(frozen=True)
class Operator:
    """What a kernel needs to know of an operator: its CUDA type, the state's size, and those of elements, which are 0
    of operands that have one for a whole line."""

    type: str
    itemsizes: tuple[int, ...]
    state_bytes: int
    commutative: bool = True
    emit: str = ""  # the type a cell is stored as; a state by default
    emitted_by: str = "Final"  # what makes that of a state

    @property
    def core(self) -> str:
        """The type of what takes in elements, or what is computed of them."""
        return self.type.removeprefix("Mapped<")

    @property
    def crowded(self) -> bool:
        """Whether a thread that walks columns has its registers full (kernels/monoid/plain.cuh)."""
        sizes = {"Both": 2 | 4, "Average": 4 | 8}.get(self.core.partition("<")[0], 0)
        return bool(sizes & self.itemsizes[0])

    @property
    def is_heavy(self) -> bool:
        """Whether its states are large, and to fold them costs more than of others."""
        return self.state_bytes >= tuning.HEAVY_STATE_BYTES

    @property
    def emits(self) -> str:
        return f"{self.emitted_by}<{self.type}, {self.emit}>" if self.emit else f"Keep<{self.type}>"


@dataclass(frozen=True)
class Launch:
    """One kernel launch, complete but for its pointers."""

    kernel: str  # a name expression
    blocks: int
    work: Work
    shared_bytes: int = 0
    partial_states: int = 0  # states of scratch for its blocks' partials
    tickets: int = 0  # words that are zero before and after it: a group of blocks each, or their published states
    reads: str = CHUNK  # or PARTIALS of the launch before, or FLAT
    writes: str = RESULT  # or FLAT: states of work.cells cells
    threads: int = tuning.THREADS
    effort: Effort | None = field(default=None, compare=False, repr=False)  # what its predicted time depends on


@dataclass(frozen=True)
class Fold:
    """States that a plan leaves, laid out so, to be folded by the operator that made them."""

    op: Operator
    layout: Layout
    reads: str  # PARTIALS of the launch before, or FLAT
    writes: str = RESULT  # or FLAT
    effort: Effort | None = field(default=None, compare=False, repr=False)


Steps = list[Launch | Fold]
Way = Callable[[], Steps]


def seconds_of(steps: Steps) -> float:
    """Predicted for all of them."""
    return sum(reduce_costs.seconds(step.effort) for step in steps if step.effort)


def blocks_for(tiles: int, most: int) -> int:
    """Blocks that share so many warp tiles: one tile a warp up to FEW_BLOCKS, then TILES_PER_WARP, then a full grid."""
    warps = tuning.THREADS // 32
    blocks = -(-tiles // warps)
    if blocks > tuning.FEW_BLOCKS:
        blocks = max(tuning.FEW_BLOCKS, -(-tiles // (warps * tuning.TILES_PER_WARP)))
    return min(blocks, most)


def balanced(groups: int, wanted: int, most: int) -> int:
    """Splits of each of so many groups: as many as are wanted, or somewhat fewer whose blocks leave fewer processors
    without one at the end."""

    def rounded_up(splits: int) -> int:
        """Blocks of whole rounds by those that there are, in sixteenths."""
        blocks = groups * splits
        return round(16 * (-(-blocks // tuning.PROCESSORS) * tuning.PROCESSORS / blocks))

    wanted = max(1, min(wanted, most))
    return min(range(wanted, -(-wanted * 3 // 4) - 1, -1), key=rounded_up)


def aligned_by(dims: Sequence[Dim], operand: int, unit: int) -> bool:
    return all(d.strides[operand] % unit == 0 for d in dims)


def is_one(values: Iterable[int]) -> bool:
    """True where all are the same."""
    return len(set(values)) == 1


def slots_of(length: int, vector: int, aligned: bool) -> int:
    return -(-length // vector) if aligned else (length + 2 * vector - 2) // vector


def row_major(dims: Sequence[Dim], i: int) -> int:
    """How far apart neighbours along dimension i are when dims are numbered one after another."""
    return math.prod(d.size for d in dims[i + 1 :])


def by_cells(kernel: str, op: Operator, cells: int, option: tuple[float, float] = (0.0, 0.0)) -> Launch:
    """A kernel of which a thread takes each cell."""
    name, blocks = f"{kernel}<{op.type}, {op.emits}, {tuning.THREADS}, 1>", -(-cells // tuning.THREADS)
    return Launch(name, min(blocks, tuning.GRID), Work(rows=cells, cells=cells, option=option))


class Planner:
    """What is to be reduced: ``chunks`` chunks of one layout into one partial."""

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
        self.batch = 1 if chunks == 1 else BATCH4 if layout.more else BATCH
        self.cells = math.prod(d.size for d in layout.kept)
        self.option = option
        self.depth = 0  # of planners whose ways this is part of
        dims = (*layout.kept, *layout.reduced)
        self.read = chunks * sum(touched(dims, k, size) for k, size in enumerate(op.itemsizes))  # bytes of memory
        self.written = self.cells * (min(8, op.state_bytes) if op.emit else op.state_bytes)
        self.work = Work(
            chunks=chunks,
            batch=self.batch,
            cells=self.cells,
            option=option,
            first_cell=layout.cell,
            low_a=layout.low_a,
            high_a=layout.high_a,
            low_b=layout.low_b,
            high_b=layout.high_b,
        )

    def launches(self) -> Steps:
        """The launches, and folds of what they leave, in order."""
        return self.least()[2]

    def least(self) -> tuple[float, str, Steps]:
        """The way that is predicted to take least: seconds, its name and its launches."""
        best, picked, launches = math.inf, "", Steps()
        for name, least, way in self.ways():
            if least < best and (seconds := seconds_of(steps := way())) < best:
                best, picked, launches = seconds, name, steps
        return best, picked, launches

    @property
    def least_folded(self) -> float:
        """Seconds that any way takes at least that leaves states to be folded behind."""
        return reduce_costs.seconds(folding(0, self.read, 1)) + reduce_costs.least_start()

    def ways(self) -> Iterator[tuple[str, float, Way]]:
        """Every way to take the layout: its name, seconds that it takes at least, and what finds its launches. Those
        that are found in no time come first."""
        raise NotImplementedError

    def _work_by_lines(
        self, line: Dim, rows: tuple[Dim, ...], runs: tuple[Dim, ...], vector: int, aligned: bool
    ) -> Work:
        """The work by slots of so many elements of lines, which rows and runs lead to."""
        return self.work.but(
            rows=math.prod(d.size for d in rows),
            runs=math.prod(d.size for d in runs),
            length=line.size,
            slots=slots_of(line.size, vector, aligned),
            step_a=line.a,
            step_b=line.b,
            step_c=line.c,
            more=tuple((step, low, high) for step, (_, low, high) in zip(line.more, self.layout.more, strict=True)),
            row=rows,
            run=runs,
        )

    def _folds_states(self) -> bool:
        """Whether parts of a cell may have states of their own, which are folded behind. A user's may have positions,
        which a fold does not move."""
        is_known = "Refold" not in self.op.type and not (self._has_positions() and "User<" in self.op.type)
        return self.op.commutative and is_known

    def _has_positions(self) -> bool:
        return any(dim.c for dim in self.layout.reduced)

    def _effort(
        self,
        kind: str,
        threads: float,
        loads: float,
        vector: int,
        rounds: float,
        lines: float,
        ends: float,
        lookups: float = 0,
        nbytes: float = 0,
    ) -> Effort:
        """Of a launch whose threads issue so many loads of so many elements, of each operand."""
        operands = len(self.op.itemsizes)
        nbytes = max(self.read, nbytes) + self.written
        elements, loads, lines = loads * vector, loads * operands, lines * operands
        return Effort(kind, self.op.state_bytes, nbytes, threads, loads, elements, rounds, lines, ends, lookups)

    def _stops(self) -> bool:
        """Whether a thread reads on only until it has an element that decides."""
        return self.op.core.startswith("FirstLast<")

    def _is_narrow_float(self) -> bool:
        return "half" in self.op.type or "bfloat16" in self.op.type

    def _chain(self) -> int:
        """Partials that a thread of the last block may fold one after another."""
        return tuning.HEAVY_CHAIN if self.op.is_heavy else tuning.CHAIN

    def _lines_begin_at(self, dims: Sequence[Dim], operand: int, unit: int) -> bool:
        """True where lines that are so far apart begin at multiples of so many bytes."""
        return self.phases[operand] % unit == 0 and aligned_by(dims, operand, unit)

    def _published_bytes(self, states: int) -> int:
        """Of so many states that blocks publish (kernels/core/published.cuh)."""
        return states * 16 * -(-self.op.state_bytes // 8)

    def _published_words(self, groups: int, splits: int, columns: int) -> int:
        """Words of the states that blocks publish where one waits for them; else 0."""
        words = self._published_bytes(groups * splits * columns) // 4
        few = groups <= tuning.POLLED_GROUPS and groups * splits <= tuning.POLLED_BLOCKS
        return words if few and words <= tuning.TICKETS else 0

    def _finished(
        self,
        name: str,
        work: Work,
        blocks: int,
        groups: int,
        columns: int = 1,
        shared: int = 0,
        cells: int = 0,
        is_long: bool = False,
        *,
        effort: Effort,
    ) -> Steps:
        """The launch, and with it whatever brings the partials of its blocks together: a launch of its own where these
        are long to fold."""
        op, states = self.op, groups * work.splits * columns
        finish = "two-pass" if is_long and self.finish == "ticket" else self.finish
        shared = max(shared, tuning.THREADS // 32 * op.state_bytes, 16)
        if work.splits == 1:
            return [Launch(name.format(op.emits, "TICKET"), blocks, work, shared, effort=effort)]
        effort = effort._replace(left=states)
        if finish == "ticket":
            effort = effort._replace(chain=chain_of(work.splits, columns, tuning.THREADS))
            if words := self._published_words(groups, work.splits, columns):
                return [Launch(name.format(op.emits, "POLLED"), blocks, work, shared, tickets=words, effort=effort)]
            return [Launch(name.format(op.emits, "TICKET"), blocks, work, shared, states, groups, effort=effort)]
        keep = replace(op, emit="")
        if finish == "atomic":
            fill = by_cells("fill_cells", keep, work.cells)
            return [fill, Launch(name.format(keep.emits, "ATOMIC"), blocks, work, shared, effort=effort)]
        cells = cells or work.rows
        first = Launch(name.format(keep.emits, "TWO_PASS"), blocks, work, shared, cells * work.splits, effort=effort)
        state = op.state_bytes
        if columns == 1:  # rows publish (row, split)
            steps = (row_major(work.row, i) * work.splits * state for i in range(len(work.row)))
            kept = tuple(Dim(d.size, step, 0, d.c) for d, step in zip(work.row, steps, strict=True))
            reduced, first_cell = Dim(work.splits, state), work.first_cell
        else:  # columns (split, cell)
            kept = (Dim(cells, state, 0, 1),) if cells > 1 else ()
            reduced, first_cell = Dim(work.splits, cells * state), 0
        return [first, self.fold(kept, (reduced,), cells * work.splits, first_cell, PARTIALS)]

    def fold(self, kept: tuple[Dim, ...], reduced: tuple[Dim, ...], states: int, first_cell: int, reads: str) -> Fold:
        """Of so many states, one behind another and laid out so, to what the planner has to give."""
        size = self.op.state_bytes
        layout = Layout(kept, reduced, 0, 0, first_cell, 0, states * size, 0, 0)
        return Fold(self.op, layout, reads, effort=folding(states, self.written, size))
