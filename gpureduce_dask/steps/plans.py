"""What a step of the ladder launches on an array of n elements: arithmetic alone, no GPU.

Each way to launch is a function of a step, n and the grid: the number of blocks, for steps that leave it open. Launches
name their buffers, the input, the result or scratch, each with the element that they start at.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import ArgumentError, message
from ..history import Step

IN, OUT, SCRATCH = "in", "out", "scratch"
BLOCKS_AN_SM = 8  # of 256 threads: all that an SM can hold
THREADS_AN_SM = 2048
LINE, ROWS = 64, 8  # of a transpose's tile and block: SIDE and ROWS in transpose.cuh
MOST_BLOCKS = 2**31 - 1  # of one launch
TASK = struct.Struct("4Q2Q")  # in, out, more, counter, n, m

Buffer = tuple[str, int]  # IN, OUT or SCRATCH, and the element it starts at


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, complete but for the type of an element and the buffers' addresses."""

    kernel: str  # a name expression with {T}
    blocks: int
    threads: int
    reads: Buffer
    writes: Buffer
    n: int
    more: Buffer = (SCRATCH, 0)
    m: int = 0
    shared: int = 0  # elements of dynamic shared memory
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches of a step, and what they need."""

    launches: tuple[Launch, ...]
    out: int  # elements
    scratch: int = 0
    overwrites: bool = False  # what it reads first is scratch that must hold a copy of the input


def plan(step: Step, n: int, grid: int, columns: int = 1) -> Plan:
    """The launches of a step on ``n`` elements; of a transpose on ``n`` rows of ``columns`` columns.

    Raises ArgumentError for an array that is too long for one launch (some 10^11 elements), and for none.
    """
    if not 0 < n * columns <= MOST_BLOCKS * LINE:
        raise ArgumentError(
            message(step.label, f"{n * columns} elements", f"between 1 and {MOST_BLOCKS * LINE:,}", "Cut the array.")
        )
    return _turn(step, n, columns) if step.way == "turn" else _WAYS[step.way](step, n, grid)


def ceil(n: int, size: int) -> int:
    return -(-n // size)


@dataclass(slots=True)
class _Room:
    """Hands out scratch, element by element."""

    taken: int = 0
    launches: list[Launch] = field(default_factory=list)

    def take(self, elements: int) -> Buffer:
        self.taken += elements
        return SCRATCH, self.taken - elements


# ---- reductions


def _rounds(step: Step, n: int, tile: int, dynamic: bool = False, overwrites: bool = False) -> Plan:
    """A block a tile, then the same over the blocks' sums, until one is left."""
    room = _Room()
    reads = room.take(n) if overwrites else (IN, 0)
    while True:
        blocks = ceil(n, tile)
        writes = (OUT, 0) if blocks == 1 else room.take(blocks)
        shared = step.threads if dynamic else 0
        room.launches.append(Launch(step.kernel, blocks, step.threads, reads, writes, n, shared=shared))
        if blocks == 1:
            return Plan(tuple(room.launches), 1, room.taken, overwrites)
        n, reads = blocks, writes


def _in_place(step: Step, n: int, grid: int) -> Plan:
    return _rounds(step, n, step.threads, overwrites=True)


def _tiles(step: Step, n: int, grid: int) -> Plan:
    return _rounds(step, n, step.threads)


def _pairs(step: Step, n: int, grid: int) -> Plan:
    return _rounds(step, n, 2 * step.threads)


def _dynamic(step: Step, n: int, grid: int) -> Plan:
    return _rounds(step, n, step.threads, dynamic=True)


def _grid(step: Step, n: int, grid: int, dynamic: bool = False) -> Plan:
    """A grid that walks the array, then one block that walks the blocks' sums. Smaller blocks are as many more."""
    grid = grid * (THREADS_AN_SM // (32 * ceil(step.threads, 32))) // BLOCKS_AN_SM
    blocks, shared = min(grid, ceil(n, step.threads)), step.threads if dynamic else 0
    first = Launch(step.kernel, blocks, step.threads, (IN, 0), (SCRATCH, 0), n, shared=shared)
    second = Launch(step.kernel, 1, step.threads, (SCRATCH, 0), (OUT, 0), blocks, shared=shared)
    return Plan((first, second), 1, blocks)


def _dynamic_grid(step: Step, n: int, grid: int) -> Plan:
    return _grid(step, n, grid, dynamic=True)


def _atomic(step: Step, n: int, grid: int) -> Plan:
    clear = Launch("step_clear<{T}>", 1, 1, (IN, 0), (OUT, 0), 1)
    blocks = min(grid, ceil(n, step.threads))
    return Plan((clear, Launch(step.kernel, blocks, step.threads, (IN, 0), (OUT, 0), n)), 1, 1)


def _single(step: Step, n: int, grid: int, cooperative: bool = False) -> Plan:
    blocks = min(grid, ceil(n, step.threads))
    one = Launch(step.kernel, blocks, step.threads, (IN, 0), (OUT, 0), n, cooperative=cooperative)
    return Plan((one,), 1, blocks)


def _cooperative(step: Step, n: int, grid: int) -> Plan:
    return _single(step, n, grid, cooperative=True)


# ---- scans


def _walk(step: Step, n: int, grid: int) -> Plan:
    return Plan((Launch(step.kernel, 1, step.threads, (IN, 0), (OUT, 0), n),), n, 1)


def _companion(step: Step, suffix: str) -> str:
    """Another kernel of the step's file, which does not ask how shared memory is laid out."""
    return f"step_scan_{step.number:02}_{suffix}<{{T}}, {step.threads}>"


def _fan(step: Step, n: int, grid: int) -> Plan:
    """Tiles, their totals by the same way (in place), and the totals added to the tiles."""
    tile = step.threads * (2 if step.number == 7 else 1)
    room = _Room()
    after: list[Launch] = []
    reads, writes = (IN, 0), (OUT, 0)
    length = n
    while True:
        blocks = ceil(length, tile)
        totals = room.take(blocks)
        room.launches.append(Launch(step.kernel, blocks, step.threads, reads, writes, length, totals))
        if blocks == 1:
            return Plan((*room.launches, *reversed(after)), n, room.taken)
        after.append(Launch(_companion(step, "fan"), blocks, step.threads, writes, writes, length, totals))
        reads = writes = totals
        length = blocks


def _reduce_then_scan(step: Step, n: int, grid: int) -> Plan:
    """Totals of tiles, and so on upwards; then scans from the top, each from the bases above it."""
    room = _Room()
    after: list[Launch] = []
    reads, writes = (IN, 0), (OUT, 0)
    length = n
    while True:
        blocks = ceil(length, step.threads)
        totals = room.take(blocks)
        after.append(Launch(step.kernel, blocks, step.threads, reads, writes, length, totals))
        if blocks == 1:
            return Plan((*room.launches, *reversed(after)), n, room.taken)
        room.launches.append(Launch(_companion(step, "reduce"), blocks, step.threads, reads, totals, length))
        reads = writes = totals
        length = blocks


def _two_level(step: Step, n: int, grid: int) -> Plan:
    blocks = min(grid, ceil(n, step.threads))
    padded = "true" if step.variant else "false"
    totals = (SCRATCH, 0)
    return Plan(
        (
            Launch(_companion(step, "reduce"), blocks, step.threads, (IN, 0), totals, n),
            Launch(f"step_scan_02<{{T}}, {padded}, 1024>", 1, 1024, totals, totals, blocks),
            Launch(step.kernel, blocks, step.threads, (IN, 0), (OUT, 0), n, totals),
        ),
        n,
        blocks,
    )


def _doubling(step: Step, n: int, grid: int) -> Plan:
    """log2(n) launches, the last of which writes the result."""
    distances = [1 << k for k in range(max(1, (n - 1).bit_length()))]
    turns = [(OUT, 0) if i % 2 == 0 else (SCRATCH, 0) for i in range(len(distances))][::-1]
    reads = [(IN, 0), *turns[:-1]]
    blocks = min(grid, ceil(n, step.threads))
    launches = [
        Launch(step.kernel, blocks, step.threads, source, target, n, m=m)
        for source, target, m in zip(reads, turns, distances, strict=True)
    ]
    return Plan(tuple(launches), n, n)


# ---- transposes


def _turn(step: Step, rows: int, columns: int) -> Plan:
    blocks = ceil(rows, LINE) * ceil(columns, LINE)
    return Plan((Launch(step.kernel, blocks, LINE * ROWS, (IN, 0), (OUT, 0), rows, m=columns),), rows * columns, 1)


_WAYS: dict[str, Callable[[Step, int, int], Plan]] = {
    "in_place": _in_place,
    "tiles": _tiles,
    "pairs": _pairs,
    "dynamic": _dynamic,
    "grid": _grid,
    "dynamic_grid": _dynamic_grid,
    "atomic": _atomic,
    "single": _single,
    "cooperative": _cooperative,
    "warp": _walk,
    "walk": _walk,
    "fan": _fan,
    "reduce_then_scan": _reduce_then_scan,
    "two_level": _two_level,
    "doubling": _doubling,
}
