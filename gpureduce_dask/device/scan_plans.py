"""How a scan of one chunk is cut: which kernels, with which template arguments, and the bytes of their ``Scan``.

Lines that lie one after another without gaps are scanned in one pass, in tiles; lines at any strides by a thread each,
or by several. How lines are cut follows from shapes and dtypes, and from the GPU's shared memory alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .layout import Dim, merged
from .task import div_words, walk_words

LAG, STAGES = 2, 4  # of kernels/scan/rows.cuh

# (warps, packs a lane), the first that fits. H200, CUDA 13.0, 4 GiB, 2026-11: sums of float32 reach 0.95 of a copy with
# 16 and 7, uint8 to uint64 0.96 with 24 and 11, int32 to int64 0.95 with 16 and 9.
SHAPES = ((24, 11), (20, 11), (16, 11), (16, 9), (16, 7), (8, 7), (4, 7), (4, 3), (2, 1))

THREADS = 64  # of a block that scans line by line: few lines go to many processors
BATCH = 128  # bytes of elements that a thread loads at once; as much again where threads are few
FEW = 1 << 17  # threads
ENOUGH = 1 << 13  # lines from which on a thread takes a whole one; fewer are shared by FEW
SHORTEST = 64  # elements of a part


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

    @property
    def flow_bytes(self) -> int:
        """A state and whether a line began, as a CUDA struct."""
        words = -(-self.state_bytes // 4) * 4 + 4
        align = max(4, self.state_alignment)
        return -(-words // align) * align


@dataclass(frozen=True)
class Operands:
    """Arrays of one shape, the axes in the order of memory, the scanned one among them; byte strides of each."""

    shape: tuple[int, ...]
    axis: int
    strides: tuple[tuple[int, ...], ...]  # of the inputs, then of the results
    phases: tuple[int, ...]  # addresses modulo 16, in the same order

    @property
    def lines(self) -> int:
        return math.prod(self.shape[: self.axis] + self.shape[self.axis + 1 :])

    def kept(self) -> tuple[Dim, ...]:
        """Where lines begin: the other axes, those that continue each other merged."""
        first, out = self.strides[0], self.strides[-1]
        second = self.strides[1] if len(self.strides) > 2 else (0,) * len(first)
        others = [i for i, size in enumerate(self.shape) if i != self.axis and size > 1]
        return merged([Dim(self.shape[i], first[i], second[i], out[i]) for i in others], True)


@dataclass(frozen=True)
class Step:
    """One launch."""

    kernel: str  # a name expression
    blocks: int
    threads: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """The launches of a scan, the members of their ``Scan`` behind its pointers, and the scratch they share."""

    steps: tuple[Step, ...]
    words: bytes
    scratch_bytes: int = 0
    is_posted: bool = False  # scratch begins as zeros, a ticket of 16 bytes at its end
    starts: tuple[int, ...] = ()  # bytes from each array's first element to the first that the scan takes


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan:
    """Cut a scan.

    Parameters
    ----------
    limit : int
        Bytes of shared memory that a block may have.
    processors : int
        Of the GPU: blocks of the single pass stay until all tiles are done.
    """
    rows = _rows(op, arrays, limit)
    return (
        _by_lines(op, arrays, exclusive, reverse)
        if rows is None
        else _in_rows(op, arrays, rows, exclusive, reverse, processors)
    )


def _rows(op: Operator, arrays: Operands, limit: int) -> tuple[Rows, int] | None:
    """Tiles and lead, where lines lie one after another in every array and an alignment suits all of them."""
    sizes = (*op.itemsizes, op.out_bytes)
    if arrays.axis != len(arrays.shape) - 1:
        return None
    for size, strides in zip(sizes, arrays.strides, strict=True):
        step = size
        for n, stride in zip(reversed(arrays.shape), reversed(strides), strict=True):
            if n > 1 and stride != step:
                return None
            step *= n
    pairs = list(zip(sizes, arrays.phases, strict=True))
    lead = next((n for n in range(16) if all(n * size % 16 == phase for size, phase in pairs)), None)
    rows = fitting(op.itemsizes, op.out_bytes, op.state_bytes, op.flow_bytes, limit)
    return None if lead is None or rows is None else (rows, lead)


def _flag(value: bool) -> str:
    return str(value).lower()


def _in_rows(
    op: Operator, arrays: Operands, found: tuple[Rows, int], exclusive: bool, reverse: bool, processors: int
) -> Plan:
    rows, lead = found
    length, lines = arrays.shape[-1], arrays.lines
    tiles = -(-(lines * length + lead) // rows.elements)
    kind = 2 if lines > 1 else 0
    name = f"scan_rows<{op.type}, {op.emits}, {rows.warps}, {rows.run}, {kind}, {_flag(exclusive)}, {_flag(reverse)}>"
    step = Step(name, min(tiles, processors), rows.threads, rows.shared_bytes)
    members = words(lines=lines, length=length, tiles=tiles, lead=lead, option=op.option)
    return Plan((step,), members, posts(tiles) * posted_bytes(op.state_bytes) + 16, True, (0,) * len(arrays.strides))


def _by_lines(op: Operator, arrays: Operands, exclusive: bool, reverse: bool) -> Plan:
    length, lines = arrays.shape[arrays.axis], arrays.lines
    steps = [s[arrays.axis] for s in arrays.strides]
    starts = [(length - 1) * s if reverse else 0 for s in steps]
    if reverse:
        steps = [-s for s in steps]
    splits = splits_of(lines, length)
    batch = BATCH // sum(max(4, n) for n in op.itemsizes) * (2 if lines * splits < FEW else 1)
    blocks = -(-lines * splits // THREADS)
    scan = f"scan_lines<{op.type}, {op.emits}, {THREADS}, {batch}, {_flag(splits > 1)}, {_flag(exclusive)}>"
    launches = [Step(scan, blocks, THREADS)]
    if splits > 1:
        fold = Step(f"scan_fold_parts<{op.type}, {THREADS}, {batch}>", blocks, THREADS)
        launches = [fold, Step(f"scan_parts<{op.type}, {THREADS}>", -(-lines // THREADS), THREADS), *launches]
    second = steps[1] if len(steps) > 2 else 0
    members = words(
        lines=lines,
        length=length,
        tiles=splits,
        steps=(steps[0], second, steps[-1]),
        option=op.option,
        walk=arrays.kept(),
    )
    return Plan(tuple(launches), members, lines * splits * op.state_bytes if splits > 1 else 0, False, tuple(starts))


@dataclass(frozen=True)
class Rows:
    """The single pass over lines that lie one after another."""

    warps: int
    run: int
    elements: int  # of a tile
    shared_bytes: int

    @property
    def threads(self) -> int:
        return 32 * (self.warps + LAG)


def fitting(sizes: Sequence[int], out: int, state: int, flow: int, limit: int) -> Rows | None:
    """The largest tiles that fit into ``limit`` bytes of shared memory; None where elements are not of 1 to 16 bytes.

    ``sizes`` are those of the operands' elements, ``out`` of a result, ``state`` and ``flow`` of what warps exchange.
    """
    widest = max(*sizes, out)
    if widest > 16 or any(n & (n - 1) for n in (*sizes, out)):
        return None
    for warps, run in SHAPES:
        share = 32 * run * (16 // widest)
        kept = 0 if out == sizes[0] else share * out
        notes = (LAG + 1) * warps * (flow + state) + 8 * (STAGES + 2) + 16
        nbytes = warps * (STAGES * share * sum(sizes) + kept) + notes
        if nbytes <= limit:
            return Rows(warps, run, warps * share, nbytes)
    return None


def posted_bytes(state: int) -> int:
    """Of a state as tiles post it (kernels/scan/look_back.cuh)."""
    return 64 if state <= 8 else 16 * -(-state // 8)


def posts(tiles: int) -> int:
    """Posted states: of every tile, every 32nd and every 1024th."""
    return tiles + tiles // 32 + tiles // 1024


def splits_of(lines: int, length: int) -> int:
    """Threads that share a line."""
    if lines >= ENOUGH:
        return 1
    return max(1, min(-(-FEW // lines), length // SHORTEST))


def words(
    *,
    lines: int,
    length: int,
    tiles: int,
    lead: int = 0,
    steps: tuple[int, int, int] = (0, 0, 0),
    option: tuple[float, float] = (0.0, 0.0),
    walk: Sequence[Dim] = (),
) -> bytes:
    """The members of ``Scan`` behind its pointers (kernels/core/scan_task.cuh)."""
    numbers = [lines * length + lead, lead, lines, length, tiles]
    divs = div_words(length) + div_words(lines)
    return (
        struct.pack("5Q3q", *numbers, *steps)
        + struct.pack("2d", *option)
        + struct.pack("6Q", *divs)
        + struct.pack("49Q", *(n & ((1 << 64) - 1) for n in walk_words(walk)))
    )
