"""How a scan of one chunk is cut: which kernels, with which template arguments, and the bytes of their ``Scan``.

Lines along the last axis in memory are scanned in one pass, in tiles (any and all of one line as positions). Lines that
lie side by side are scanned in strips of columns (scan_columns.py), many of those by a warp each
(scan_serial_columns.py); where columns are few and fill memory, in stretches of it (scan_contiguous_columns.py), by
clusters of blocks where a GPU has them (scan_cluster_columns.py). Short lines are taken whole by a lane, a thread or a
sub-warp (scan_small_lines.py), other lines by a thread or a warp each, or by several. Every kernel that takes a scan
gives its plan; of these the one is used that is predicted to take least time (scan_costs.py), by shapes, dtypes and the
GPU's properties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import ArgumentError, message
from . import (
    scan_cluster_columns,
    scan_columns,
    scan_contiguous_columns,
    scan_costs,
    scan_serial_columns,
    scan_small_lines,
)
from .scan_task import (
    LANES,
    METHODS,
    PACK,
    RING_SLOTS,
    SINGLE_PASS,
    STAGES,
    STATE_SLOTS,
    WRITE_DELAY,
    Gpu,
    Operands,
    Operator,
    Plan,
    Scan,
    Step,
    tile_state_bytes,
    tile_states,
    words,
)
from .task import flag

Shapes = Sequence[tuple[int, int]]

# (warps, packs a lane), the first that fits. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy with 10 and 11, then
# with 16 and 7: a line of float32 0.96 and 0.94, of int64 0.95 and 0.90, of float64 0.90 and 0.88. More warps are
# better where more is to be done for each byte: means 0.80 and 0.88, float16 0.76 and 0.89, (2^25, 32) along its rows
# 0.66 and 0.80. uint8 to uint64 0.96 with 24 and 11, int32 to int64 0.95 with 16 and 9.
SHAPES = ((24, 11), (20, 11), (16, 11), (16, 9), (16, 7), (10, 11), (8, 11), (8, 7), (4, 7), (4, 3), (2, 1))
OF_ONE_LINE = tuple(shape for shape in SHAPES if shape != (16, 7))
# Of a line, from which on lines are scanned as one is, in rounds at whose ends warps meet. Shares so and else: maxima
# of float32 along (32, 2^25) 1.01 and 0.86, along (1024, 2^20) 1.02 and 1.01, along (8192, 2^17) 1.02 and 1.04; sums of
# int64 along 32 lines 1.02 and 0.88, of float64 0.96 and 0.89; but maxima of uint8 0.96 and 0.97.
LONG_BYTES = 1 << 21
# Elements and flags, with 10 and 9, 12 and 7, 8 and 11: a line of float32 0.87, 0.84, 0.84; 32768 lines 0.72, 0.87,
# 0.64.
OF_SEGMENTS = ((10, 9), *SHAPES), ((12, 7), *SHAPES)
# Lines of 16-bit elements with 16 and 7, 20 and 5, 22 and 5: sums of float16 along (32768, 65536) 0.86, 0.89, 0.92.
OF_NARROW_LINES = ((22, 5), *SHAPES)
# Variances and deviations, whose states take registers, with 10 and 11, 12 and 9: of a line of float32 0.93 and 0.85,
# its deviations 0.91 and 0.92, 32768 lines 0.83 and 0.95 (14 and 7: 0.89), a line of float16 0.83 and 0.86, of float64,
# whose states are of 32 bytes, 0.89 and 0.80, its deviations 0.94 and 0.92, along 32768 lines 0.89 and 0.93, variances
# along lines of 4096 0.83 and 0.81. Deviations of float32 along 32768 lines with 12 and 9, 16 and 7: 0.77 and 0.84.
OF_VARIANCES = ((12, 9), *OF_ONE_LINE)
# Means of a line of 16-bit elements with 16 and 7, 20 and 5: 0.85 and 0.87.
OF_NARROW_MEANS = ((20, 5), *SHAPES)
# Lines with gaps take more registers. [:, 1:-1] of float32 along with 14 and 7, 12 and 9, 10 and 11: 0.86, 0.89, 0.83
# of a copy, with three packs unrolled 0.87 and 0.91 of the first two; but lines of 1022, shorter than what a warp takes
# with 9, have 0.68 with 7 and else 0.64.
STRIDED = ((14, 9), (12, 9), (14, 7), (8, 7), (4, 7), (4, 3), (2, 1))
# Elements of one or two bytes, with 12 and 9, 20 and 5: [:, 1:-1] of uint8 along 0.52 and 0.62, of float16 0.56 and
# 0.61.
NARROW_STRIDED = ((20, 5), (16, 5), (8, 5), (4, 3), (2, 1))

# Of one line, by two blocks an SM: the first tiles come and the last ones leave in half the time. 64 MiB as above and
# so: minima of int8 52 and 48 us, of int16 48 and 45, sums of float32 48 and 47, non-zero uint16 36 and 34, maxima of
# uint64 backwards 52 and 48; but minima of 256 MiB of float64 149 and 158, products of float32 71 and 77, and maxima of
# 4 MiB of int16, less than TWO_BLOCKS_ROUNDS of one block an SM, 13.5 and 14.8 (H200, 2026-11-27).
OF_TWO_BLOCKS, TWO_BLOCKS, TWO_BLOCKS_ROUNDS, SMALL_STATE_BYTES = (7, 7), 1.05, 4, 8
RESERVED_BYTES = 1024  # of shared memory, for each block of an SM

MOST_LINES = 1 << 32  # that a launch has warps for
THREADS = 64  # of a block that scans line by line: few lines go to many processors
BATCH = 128  # bytes of elements that a thread loads at once; as much again where threads are few
HEAVY_BATCH = 8  # elements of means and variances, whose code is long
WARP_BATCH = 8  # elements of a lane, where a warp takes a line
FEW = 1 << 17
# Lines from which on a thread takes a whole one, or a warp does; fewer are shared by FEW threads.
ENOUGH, ENOUGH_OF_WARPS = 1 << 13, 1 << 11
SHORTEST = 64  # elements of a part, for each thread that shares it
PREFIXES = 4  # parts of a line whose states a warp scans in the time that an element takes: a guess

# (warps, packs a lane), the first that fits. H200, CUDA 13.0, 4 GiB, 2026-11, any of float32 with 4 and 56, 6 and 37, 8
# and 28, 16 and 14, 24 and 9: 1.06, 1.08, 1.06, 1.05 and 1.04 of a copy (1.11 is what such a copy has); as other
# scans 0.85.
ANY_ALL_SHAPES = ((6, 37), (8, 16), (8, 8), (4, 4), (2, 3), (2, 1))
ANY_ALL_STAGES = 2  # tiles in shared memory (kernels/scan/any_all.cuh)


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, gpu: Gpu, method: str = SINGLE_PASS) -> Plan:
    """Cut a scan, as is predicted to take least time on this GPU.

    ``method``: one of ``scan_task.METHODS``, or a kernel of those that take the scan (``scan_costs.kernel_of``).
    """
    if method == SINGLE_PASS:
        return scan_costs.least(every(op, arrays, exclusive, reverse, gpu), op, arrays, gpu)
    if method in METHODS:
        return _by_lines(Scan(op, arrays, exclusive, reverse, gpu), _lanes_of(arrays))
    kernels = {scan_costs.kernel_of(plan): plan for plan in every(op, arrays, exclusive, reverse, gpu)}
    if method not in kernels:
        expected = " or ".join(map(repr, (*METHODS, *kernels)))
        raise ArgumentError(message("scan", f"method {method!r}", expected, "Leave it out."))
    return kernels[method]


def every(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, gpu: Gpu) -> list[Plan]:
    """The plans of all kernels that take a scan, of each kernel one."""
    return [plan for plan in _plans(Scan(op, arrays, exclusive, reverse, gpu)) if plan]


def _plans(scan: Scan) -> Iterator[Plan | None]:
    """Every kernel's plan, None of those that do not take such a scan."""
    op, arrays = scan.op, scan.arrays
    if len(op.itemsizes) <= 2:  # the single pass takes two operands
        counted = op.with_counts() if arrays.index_step > 0 else None
        if counted or not op.indexed:
            yield from _without_positions(replace(scan, op=counted or op))
        yield scan_small_lines.thread_columns(scan)
        yield _in_rows(scan)
    for lanes in sorted({1, _lanes_of(arrays)}):
        yield _by_lines(scan, lanes)


def _without_positions(scan: Scan) -> Iterator[Plan | None]:
    """By the kernels that tell no positions."""
    yield scan_small_lines.lane_lines(scan)
    yield scan_small_lines.small_lines(scan)
    yield _any_all(scan)
    yield scan_small_lines.subwarp_lines(scan)
    yield scan_cluster_columns.plan(scan) or scan_contiguous_columns.plan(scan)
    yield scan_serial_columns.plan(scan)
    yield scan_columns.plan(scan)


def _any_all(scan: Scan) -> Plan | None:
    """For one dense line, taken from its begin; None for several, or where no alignment suits both arrays."""
    op, arrays = scan.op, scan.arrays
    if not op.type.startswith(("Any<", "All<")) or len(scan.sizes) > 2 or scan.exclusive or scan.reverse:
        return None
    if arrays.lines > 1 or not arrays.is_along_memory or not all(map(scan.is_contiguous, range(2))):
        return None
    (size,), (phase, lead) = op.itemsizes, arrays.phases
    if not scan.lies_in_packs or op.out_bytes != 1 or lead * size % PACK != phase:
        return None
    for warps, run in ANY_ALL_SHAPES:
        tile = LANES * warps * run * PACK
        nbytes = ANY_ALL_STAGES * tile + 8 * STATE_SLOTS * warps + 8 * RING_SLOTS + 16
        if nbytes <= scan.gpu.shared_bytes:
            tiles = -(-(scan.length + lead) // (tile // size))
            kind = f"AnyAllScan<{op.type}, {warps}, {run}>"
            return _in_tiles(scan, kind, tiles, warps, nbytes, words(scan, tiles=tiles, lead=lead))
    return None


def _in_rows(scan: Scan) -> Plan | None:
    """In tiles, where the axis is the last one in memory. Lines with gaps, or without an alignment that suits all
    arrays, are copied unit by unit."""
    op, arrays, lines = scan.op, scan.arrays, scan.arrays.lines
    if not arrays.is_along_memory:
        return None
    contiguous = [scan.is_contiguous(i) for i in range(len(scan.sizes))]
    pairs = list(zip(scan.sizes, arrays.phases, strict=True))
    leads = range(PACK) if all(contiguous) else ()
    lead = next((n for n in leads if all(n * size % PACK == phase for size, phase in pairs)), None)
    strided = lead is None
    if lead is None:
        lead = arrays.phases[-1] // op.out_bytes if contiguous[-1] else 0
    is_long = lines == 1 or (scan.widest > 1 and scan.length * scan.widest >= LONG_BYTES)
    shapes = _strided_shapes(scan) if strided else _shapes(scan, is_long)
    rows = _even_rows(scan, shapes, strided)
    if rows is None:
        return None
    tiles = -(-(lines * scan.length + lead) // rows.elements)
    kind = 0 if lines == 1 else 1 if is_long else 2
    flags = ", ".join(flag(x) for x in (strided, scan.exclusive, scan.reverse))
    blocks = f", {rows.blocks}" if rows.blocks > 1 else ""
    units = [_copy_unit(scan, i, lead) for i in range(len(scan.sizes))]
    if contiguous[-1]:
        units[-1] = 0
    members = words(
        scan,
        tiles=tiles,
        lead=lead,
        steps=[strides[-1] for strides in arrays.strides],
        units=units,
        step_index=arrays.index_step,
        walk=scan.line_dims,
    )
    name = f"RowScan<{op.type}, {op.emits}, {rows.warps}, {rows.run}, {kind}, {flags}{blocks}>"
    cost = "RowScan, strided" if strided else ""
    return _in_tiles(scan, name, tiles, rows.warps, rows.shared_bytes, members, rows.blocks, cost)


def _in_tiles(
    scan: Scan, kind: str, tiles: int, warps: int, nbytes: int, members: bytes, blocks: int = 1, cost: str = ""
) -> Plan:
    """By so many ``blocks`` of a processor, of lines that kernels walk in either direction."""
    threads = LANES * (warps + WRITE_DELAY)
    step = Step(f"scan_tiles<{kind}>", min(tiles, blocks * scan.gpu.processors), threads, nbytes)
    scratch = tile_states(tiles) * tile_state_bytes(scan.op.state_bytes) + 16
    return Plan((step,), members, scratch, True, (0,) * len(scan.sizes), cost=cost)


def _even_rows(scan: Scan, shapes: Shapes, strided: bool) -> Rows | None:
    """Tiles of the first shape that fits, or of another with which processors take fewer elements in as many rounds."""
    op, limit = scan.op, scan.gpu.shared_bytes

    def taken(rows: Rows, more: int = 0) -> int:
        return (-(-math.prod(scan.arrays.shape) // (rows.elements * scan.gpu.processors)) + more) * rows.elements

    best = _fitting(scan, limit, shapes)
    is_small = scan.arrays.lines == 1 and op.state_bytes <= SMALL_STATE_BYTES
    is_small = is_small and (not strided or max(op.itemsizes) == 8)  # of narrow elements with gaps 115 us and 161
    if best and is_small and taken(best) >= TWO_BLOCKS_ROUNDS * best.elements:
        two = _fitting(scan, (limit + RESERVED_BYTES) // 2 - RESERVED_BYTES, (OF_TWO_BLOCKS,))
        if two and taken(two, WRITE_DELAY) * TWO_BLOCKS < taken(best, WRITE_DELAY):
            return replace(two, blocks=2)
    return best


def _shapes(scan: Scan, is_long: bool) -> Shapes:
    """Shapes for lines without gaps."""
    op, lines, widest = scan.op, scan.arrays.lines, scan.widest
    if op.type.startswith("Segmented<"):
        return OF_SEGMENTS[lines > 1]
    if op.type.startswith("Std<") and op.itemsizes[0] == op.out_bytes > 2 and not is_long:
        return SHAPES if op.out_bytes == 4 else OF_VARIANCES
    if op.type.startswith(("Var<", "Std<")):
        is_wide = lines == 1 and widest > 2 and (op.type.startswith("Var<") or op.out_bytes == 4)
        return OF_VARIANCES if op.state_bytes <= 24 and not is_wide else OF_ONE_LINE
    if lines > 1 and widest == 2 and op.type.startswith(("Sum<", "MinMax<")):
        return OF_NARROW_LINES
    if lines == 1 and widest == 2 and op.type.startswith("Mean<"):
        return OF_NARROW_MEANS
    return OF_ONE_LINE if is_long and widest >= 4 and op.state_bytes <= 2 * sum(op.itemsizes) else SHAPES


def _strided_shapes(scan: Scan) -> Shapes:
    """Shapes for lines with gaps: of those with many warps the first whose share is no longer than a line."""
    if scan.widest < 4:
        return NARROW_STRIDED
    fits = (i for i, (_, run) in enumerate(STRIDED[:3]) if LANES * PACK * run <= scan.length * scan.widest)
    return STRIDED[next(fits, 0) :]


def _copy_unit(scan: Scan, operand: int, lead: int) -> int:
    """Bytes that lie together, aligned in memory and in shared memory alike, wherever lines begin."""
    size = scan.sizes[operand]
    if scan.arrays.strides[operand][-1] != size and scan.length > 1:
        return size
    return math.gcd(scan.arrays.alignment(operand), scan.length * size, lead * size)


def _lanes_of(arrays: Operands) -> int:
    """Lanes that take a line together: a warp, where they read neighbours, of as many lines as a launch has warps."""
    return LANES if arrays.is_along_memory and arrays.lines < MOST_LINES else 1


def _by_lines(scan: Scan, lanes: int) -> Plan:
    """By a thread a line, or a warp (``lanes``); where lines are few, a part of one: each part is folded, their states
    are scanned, and then each part."""
    op, length, lines = scan.op, scan.length, scan.arrays.lines
    splits = 1  # threads or warps that share a line
    if lines < (ENOUGH if lanes == 1 else ENOUGH_OF_WARPS):
        splits = max(1, min(-(-FEW // (lines * lanes)), length // (SHORTEST * lanes)))
    batch = BATCH // sum(max(4, n) for n in op.itemsizes) * (2 if lines * splits < FEW and not op.indexed else 1)
    batch = min(WARP_BATCH, batch) if lanes > 1 else scan_small_lines.rows_per_batch(op, length, batch, HEAVY_BATCH)
    blocks = -(-lines * splits * lanes // THREADS)
    shape = f"{THREADS}, {batch}, {lanes}"
    name = f"scan_lines<{op.type}, {op.emits}, {shape}, {flag(splits > 1)}, {flag(scan.exclusive)}>"
    launches = [Step(name, blocks, THREADS)]
    if splits > 1:
        fold = Step(f"scan_fold_parts<{op.type}, {shape}>", blocks, THREADS)
        launches = [fold, Step(f"scan_parts<{op.type}, {THREADS}>", -(-lines * LANES // THREADS), THREADS), *launches]
    members = words(scan, tiles=splits, steps=scan.steps, step_index=scan.arrays.index_step, walk=scan.line_dims)
    scratch = lines * splits * op.state_bytes if splits > 1 else 0
    chain = -(-length // (splits * lanes)) + (splits / PREFIXES if splits > 1 else 0)
    cost = f"{launches[0].kernel.partition('<')[0]}, by warps" if lanes > 1 else ""
    return Plan(tuple(launches), members, scratch, False, scan.starts, chain, cost)


@dataclass(frozen=True)
class Rows:
    """The single pass over lines that lie one after another."""

    warps: int
    run: int
    elements: int  # of a tile
    shared_bytes: int
    blocks: int = 1  # of an SM


def _fitting(scan: Scan, limit: int, shapes: Shapes) -> Rows | None:
    """The first tiles that fit into ``limit`` bytes of shared memory; None where elements are not of 1 to 16 bytes."""
    if not scan.lies_in_packs:
        return None
    op = scan.op
    for warps, run in shapes:
        share = LANES * run * (PACK // scan.widest)
        kept = 0 if op.out_bytes == op.itemsizes[0] else share * op.out_bytes
        scratch = STATE_SLOTS * warps * (op.running_bytes + op.state_bytes) + 4 * STAGES * warps + 8 * RING_SLOTS + 48
        nbytes = warps * (STAGES * share * sum(op.itemsizes) + kept) + scratch
        if nbytes <= limit:
            return Rows(warps, run, warps * share, nbytes)
    return None
