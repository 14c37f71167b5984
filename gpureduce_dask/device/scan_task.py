"""What plans of scans are made of, and the bytes of a ``Scan`` (kernels/core/scan_task.cuh)."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..errors import ArgumentError, message
from . import scan_cost_tables
from .layout import Dim, merged
from .scan_cost_tables import Costs
from .task import div_words, flag, packed, walk_words

SINGLE_PASS, BY_LINES = METHODS = "look-back", "reduce-then-scan"

LANES, PACK = 32, 16  # of a warp; bytes that are copied together
TICKET = 16  # bytes of scratch
WRITE_DELAY, STAGES, RING_SLOTS = 2, 4, 8  # of kernels/scan/pipeline.cuh
STATE_SLOTS = WRITE_DELAY + 1
ENTRY = 16  # bytes of a table of reciprocals, for a row (kernels/scan/reciprocal_table.cuh)
COUNTED = "Counted"  # of states that count their elements
ROW_LAYOUTS = 2 * 11  # members of ``Strips`` that say how rows of two operands lie
Each = Sequence[int]  # of each array
# Operators of columns whose tile states leave out how many elements they are of (kernels/scan/chained_look_back.cuh)
_COMPACT = re.compile(r"(Mean<Value<\w+, f64>, f64>)|(?:Var|Std)<f32, false>")


@dataclass(frozen=True)
class Operator:
    """What a scan's kernels need to know of an operator."""

    type: str  # CUDA
    emits: str  # what a result is stored as
    itemsizes: tuple[int, ...]  # of the operands' elements
    out_bytes: int
    state_bytes: int
    state_alignment: int
    option: tuple[float, float] = (0.0, 0.0)
    indexed: bool = False  # states have positions

    def with_counts(self) -> Operator:
        """With states that count their elements (kernels/scan/scan_state.cuh); as it is where there are none."""
        found = re.fullmatch(r"Indexed<(Arg(?:Value)?<.*>)>", self.type)
        if found is None or not self.emits.startswith("Final<"):
            return self
        kind, align = f"{COUNTED}<{found[1]}>", max(8, self.state_alignment)
        size = -(-(self.state_bytes + 8) // align) * align
        return replace(self, type=kind, emits=self.emits.replace(self.type, kind), state_bytes=size, indexed=False)

    @property
    def running_bytes(self) -> int:
        """A state and whether a line began, as a CUDA struct."""
        words = -(-self.state_bytes // 4) * 4 + 4
        return -(-words // self.state_alignment) * self.state_alignment

    @property
    def adds_in(self) -> str:
        """Of sums of floats what they are added in: f64, or Twofold, a pair of it; nothing of other operators."""
        found = re.fullmatch(r"Sum<.*(f64|Twofold)>", self.type)
        return found[1] if found else ""

    def published_bytes(self, joined: bool = False) -> int:
        """Of a column's state as tiles publish it; ``joined``: of lines one after another, with whether one began."""
        if joined:
            return 16 * -(-self.running_bytes // 8)
        if found := _COMPACT.fullmatch(self.type):
            return 8 if found[1] else 16
        if self.adds_in:
            return self.state_bytes
        return 8 if self.state_bytes <= 4 else 16 * -(-self.state_bytes // 8)


@dataclass(frozen=True)
class Operands:
    """Arrays of one shape, the axes in the order of memory, the scanned one among them; byte strides of each."""

    shape: tuple[int, ...]
    axis: int
    strides: tuple[tuple[int, ...], ...]  # of the inputs, then of the results
    phases: tuple[int, ...]  # addresses modulo 16, in the same order
    index_step: int = 1  # from one element's position to that of the next that is scanned

    @property
    def is_along_memory(self) -> bool:
        """True where neighbours in memory are of one line: the axis is the last."""
        return self.axis == len(self.shape) - 1

    @property
    def lines(self) -> int:
        return math.prod(self.shape[: self.axis] + self.shape[self.axis + 1 :])

    def dims(self, axes: Iterable[int]) -> tuple[Dim, ...]:
        """Some axes, those that continue each other merged."""
        found = ((self.shape[i], tuple(s[i] for s in self.strides)) for i in axes if self.shape[i] != 1)
        return merged([Dim(n, s[0], s[1] if len(s) > 2 else 0, s[-1], s[2:-1]) for n, s in found], True)


@dataclass(frozen=True)
class Gpu:
    """What plans depend on, as a GPU's properties say it, and what kernels cost there."""

    shared_bytes: int  # of a block, at most
    processors: int
    clusters: bool = True  # blocks may reach into each other's shared memory
    bandwidth: float = 4.9e12  # bytes a second, of its memory's clock and width
    costs: Costs = field(default_factory=lambda: scan_cost_tables.shipped().costs, repr=False)


@dataclass
class Scan:
    """What is to be planned: an operator over arrays, which way, and on which GPU. Nothing is changed later."""

    op: Operator
    arrays: Operands
    exclusive: bool
    reverse: bool
    gpu: Gpu

    def __post_init__(self) -> None:
        axis, self.direction = self.arrays.axis, -1 if self.reverse else 1
        self.length = self.arrays.shape[axis]  # elements of a line
        # Of each operand, and of results: bytes of an element, from one of a line to the next that is scanned, and from
        # a line's first to the first that is scanned.
        self.sizes = (*self.op.itemsizes, self.op.out_bytes)
        self.steps = tuple(self.direction * strides[axis] for strides in self.arrays.strides)
        self.starts = tuple((1 - self.length) * step if self.reverse else 0 for step in self.steps)
        self.widest = max(self.sizes)
        # Where lines begin: columns are those nearest to each other in memory, planes where columns begin.
        self.line_dims = self.arrays.dims(i for i in range(len(self.arrays.shape)) if i != axis)
        self.columns, self.planes = (self.line_dims or (Dim(1, 0),))[-1], self.line_dims[:-1]
        self.plane_count = math.prod(dim.size for dim in self.planes)
        self.column_steps = self.apart(self.columns)
        # Elements that lack before the first one; None also where lines do not lie one after another in all arrays.
        is_dense = all(map(self.is_contiguous, range(len(self.sizes))))
        self.lead = self.lead_at(self.arrays.phases) if is_dense else None
        self.lies_in_packs = not any(n > PACK or n & (n - 1) for n in self.sizes)  # a pack is whole elements of each

    def is_contiguous(self, operand: int) -> bool:
        """True where an array's lines lie one after another."""
        size, shape = self.sizes[operand], self.arrays.shape
        axes = enumerate(zip(shape, self.arrays.strides[operand], strict=True))
        return all(n == 1 or stride == size * math.prod(shape[i + 1 :]) for i, (n, stride) in axes)

    def alignment(self, operand: int) -> int:
        """Bytes, 16 at most and a power of two, that an array's lines begin at multiples of, and are long."""
        steps = (self.apart(dim)[operand] for dim in self.line_dims)
        return math.gcd(PACK, self.arrays.phases[operand], self.length * self.sizes[operand], *steps)

    def lead_at(self, phases: Sequence[int]) -> int | None:
        """Elements that lack before places, modulo 16, so that packs are aligned; None where no number suits all."""
        pairs = list(zip(self.sizes, phases, strict=True))
        return next((n for n in range(PACK) if all((n * size - phase) % PACK == 0 for size, phase in pairs)), None)

    def apart(self, dim: Dim) -> tuple[int, ...]:
        """Bytes of each array from one line or plane to the next."""
        return (dim.a, dim.c) if len(self.sizes) == 2 else (dim.a, dim.b, dim.c)

    def row_steps(self, operand: int) -> list[int]:
        """Bytes from one row of columns to the next, and from one plane to the next."""
        return [self.steps[operand], *(self.apart(dim)[operand] for dim in self.planes)]

    def takes_columns(self, count: int) -> bool:
        """True where so many columns can be taken at once: neighbours in each array, in rows aligned to so many."""
        if self.columns.size % count or self.column_steps != self.sizes:
            return False
        rows = ((size, (self.arrays.phases[i], *self.row_steps(i))) for i, size in enumerate(self.sizes))
        return all(place % (count * size) == 0 for size, places in rows for place in places)

    def words(
        self, tiles: int, lead: int = 0, parts: int = 0, steps: Each = (), units: Each = (0, 0), in_planes: bool = False
    ) -> bytes:
        """The members of ``Scan`` behind its pointers (kernels/core/scan_task.cuh).

        ``steps``, ``units``: of each array, of which those of two operands and of results are told, and the third's
        step, that of flags; ``self.steps`` if not said. ``in_planes``: planes are walked, of so many tiles, not lines.
        """
        lines, length, steps = self.arrays.lines, self.length, steps or self.steps
        flag_step = steps[2] if len(steps) > 3 else 0
        numbers = [lines * length + lead, lead, lines, length, tiles, parts, flag_step, self.arrays.index_step]
        for first, *others, last in (steps, units):
            numbers += [first, others[0] if others else 0, last]
        bits = 31 + (length - 1).bit_length()
        short = (-(-(1 << bits) // length), bits) if length >> 30 == 0 else (0, 0)
        count, walk = (tiles, self.planes) if in_planes else (lines, self.line_dims)
        flags = [Dim(dim.size, dim.more[0]) for dim in self.line_dims if dim.more]  # of a third operand
        rest = (*div_words(length), *div_words(count), *walk_words(walk), *walk_words(flags))
        return packed(*numbers, *short) + struct.pack("2d", *self.op.option) + packed(*rest)

    def strip_words(self, numbers: Sequence[int], layouts: Sequence[int] = ()) -> bytes:
        """The members of ``Strips`` behind its pointers (kernels/core/scan_task.cuh): ``numbers`` are those from
        ``strips`` to ``step_out``, ``layouts`` those of ``RowLayout``, where rows have some."""
        strips, width, _, chains, *_ = numbers
        divs = [word for n in (chains, strips, width, self.length) for word in div_words(n)]
        rest = (*divs, *layouts, *[0] * (ROW_LAYOUTS - len(layouts)), *walk_words(self.planes))
        return packed(self.length, self.columns.size, *numbers) + struct.pack("2d", *self.op.option) + packed(*rest)


@dataclass(frozen=True)
class Step:
    """One launch."""

    kernel: str  # a name expression
    blocks: int
    threads: int
    shared_bytes: int = 0

    @property
    def scan(self) -> str:
        """Its name; of a kernel of tiles or of shares, what is done with them."""
        name, _, of = self.kernel.partition("<")
        return of.partition("<")[0] if name in ("scan_tiles", "scan_cluster_tiles", "scan_shares") else name


@dataclass(frozen=True)
class Plan:
    """The launches of a scan, the members of their ``Scan`` behind its pointers, and the scratch they share."""

    steps: tuple[Step, ...]
    words: bytes
    scratch_bytes: int = 0
    zeroes_scratch: bool = False  # scratch begins as zeros, a ticket of 16 bytes at its end
    starts: tuple[int, ...] = ()  # bytes from each array's first element to the first that the scan takes
    chain: float = 0.0  # elements that a thread, or tiles that a block takes one after another
    cost: str = ""  # whose costs are those of the plan, where they are not the first kernel's
    seconds: float = 0.0  # that it is predicted to take
    waste: float = 1.0  # times the bytes of elements and results that it takes the time of


def check_method(method: str, known: Sequence[str] = METHODS) -> str:
    """The method, where there is one of that name."""
    if method not in known:
        raise ArgumentError(message("scan", f"method {method!r}", " or ".join(map(repr, known)), "Leave it out."))
    return method


def named(kernel: str, *arguments: str | int) -> str:
    """A name expression: a kernel, or what is done with tiles, and its template arguments."""
    return f"{kernel}<{', '.join(flag(x) if isinstance(x, bool) else str(x) for x in arguments)}>"


class Tiling(NamedTuple):
    """How a kernel takes a scan: the tiles, and what it is given."""

    arguments: tuple[int, ...]  # of its template, behind types
    tiles: int  # or shares, or blocks
    warps: int  # of a block
    words: bytes  # of a ``Scan`` behind its pointers
    shared_bytes: int = 0
    published: int = 0  # bytes, by all tiles
    chain: float = 0.0  # these three as a plan has them
    waste: float = 1.0
    cost: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel, or what is done with the tiles or shares that a kernel takes one after another, and what plans it."""

    name: str
    tiling: Callable[[Scan], Tiling | None]  # None where it does not take a scan, or others are known to be faster
    taker: str = ""  # of tiles or shares, which takes arrays only where a pack is whole elements
    along_memory: bool = False  # takes lines only along memory
    tells_positions: bool = False  # takes states that have them
    turns: bool = False  # walks lines in either direction; else from the element on that is scanned first
    cluster: int = 1  # blocks of one
    emits: bool = True  # has the operator's ``emits`` as an argument

    def plan(self, scan: Scan) -> Plan | None:
        """The plan of a scan, where the kernel takes it."""
        is_taken = (scan.lies_in_packs or not self.taker) and (self.tells_positions or not scan.op.indexed)
        found = self.tiling(scan) if is_taken and (scan.arrays.is_along_memory or not self.along_memory) else None
        if found is None:
            return None
        kernel = named(self.name, scan.op.type, *[scan.op.emits] * self.emits, *found.arguments)
        blocks, in_tiles = found.tiles, "tiles" in self.taker
        if self.taker:
            kernel = f"{self.taker}<{kernel}>"
            rounds = blocks if in_tiles else -(-blocks // found.warps)  # a share is a warp's
            blocks = min(rounds, max(1, scan.gpu.processors // self.cluster) * self.cluster)
        step = Step(kernel, blocks, LANES * found.warps, found.shared_bytes)
        scratch = found.published + TICKET if in_tiles else 0
        starts = (0,) * len(scan.sizes) if self.turns else scan.starts
        return Plan((step,), found.words, scratch, in_tiles, starts, found.chain, found.cost, waste=found.waste)


def power_of_two(most: int) -> int:
    """The greatest that is no more, or 1."""
    return 1 << (max(1, most).bit_length() - 1)


def most_in_a_bank(lanes: Iterable[int], width: int, apart: int, size: int, together: int = 1) -> int:
    """Accesses to shared memory that lanes need for an element each: of one bank the most, where banks have so many
    neighbouring words each. Rows of ``width`` lanes are ``apart`` elements from each other, in words of their own."""
    places = (divmod(lane, width) for lane in lanes)
    words = {row * LANES**3 + (row * apart + column) * size // 4 for row, column in places}
    return max(Counter(word // together % (LANES // together) for word in words).values())


def radix_of(published: int, shares_lanes: bool = False) -> int:
    """Of the look-back of columns: tile states, of so many bytes, of a level (kernels/scan/columns.cuh has the same).
    More where lanes share them, and of large ones, which are folded a few at a time anyhow."""
    return 16 if published > 16 or (published == 8 and shares_lanes) else 8


def chain_tile_states(links: int, radix: int) -> int:
    """Published states of a chain of so many tiles, for each of its columns: from one chain to the next."""
    return links + (links // radix**2 + 1) * (radix + 1)
