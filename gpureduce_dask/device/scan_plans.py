"""How a scan of one chunk is cut: which kernels, with which template arguments, and the bytes of their ``Scan``.

Every kernel that takes a scan gives its plan (``KERNELS``: those of one launch); of these the one is used that is
predicted to take least time (scan_costs.py), by shapes, dtypes and the GPU's properties. Planned here are lines along
memory in tiles, and any lines by a thread or a warp each, or several; elsewhere short lines (scan_small_lines.py), and
those that lie side by side, in strips (scan_columns.py) or where they fill memory (scan_contiguous_columns.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from . import scan_costs, scan_task
from .scan_columns import column_strips, serial_columns
from .scan_contiguous_columns import BLOCKS, cluster_columns, contiguous_columns
from .scan_small_lines import lane_lines, rows_per_batch, small_lines, subwarp_lines, thread_columns
from .scan_task import LANES, PACK, SINGLE_PASS, Each, Gpu, Kernel, Operands, Operator, Plan, Scan, Step, Tiling

# Of rows, (warps, packs a lane), the first that fits. H200, 2026-11-30, us with 20 and 5, 16 and 7, 10 and 11: sums of
# float32 of 64 MiB 44, 47, 47, along [:, 1:-1] of (2048, 8194) 49, 52, 56, of float16 so 78, 95, 136.
SHAPES = ((20, 5), (16, 5), (8, 7), (8, 5), (4, 7), (4, 3), (2, 1))
# Results wider than elements leave room for larger tiles, which are better where there are some rounds of them: argmin
# of float32 with 16 and 11 131 us of 256 MiB, 45 of 64, with 20 and 5 152 and 47. Of moments by fewer warps.
LARGE_SHAPES, LARGE_OF_MOMENTS, FEW_ROUNDS = ((24, 11), (20, 11), (16, 11), (16, 9)), ((14, 15), (14, 11)), 5
# Of many rounds along long lines, too: 1 GiB of float32 with 20 and 5, 16 and 7, 10 and 11: means 586, 576, 671,
# sums 573, 561, 553, variances 658, 636, 603, of float64 723, 663, 638.
LONG_BYTES, LONG_SHAPES, FEW_WARPS, ROUNDS = 1 << 21, ((16, 7),), ((10, 11),), 10
OF_FEW_WARPS = re.compile(r"Sum<.*\b(?:f64|Twofold)>+|(?:Var|Std)<[fiu](?:32|64),.*")
# Of large states: deviations of float64 along (64, 131072) with 12 and 9 52, with 20 and 5 58.
SMALL_STATE_BYTES, LARGE_STATE_BYTES, OF_LARGE = 16, 24, ((12, 9), *SHAPES)
# Of a few instructions an element, whose warps keep step along long lines: maxima of 1 GiB of float32 545, not 605 us.
KEEPS_STEP = re.compile(r"(?:MinMax|FirstLast|CountNonzero|PeakToPeak)<.*|Sum<.*[iu]64>")
# Of any and all: any of float32 of 4 GiB with 4 and 56, 6 and 37, 24 and 9 1.06, 1.08, 1.04 of a copy, as others 0.85.
ANY_ALL_SHAPES = ((6, 37), (8, 16), (8, 8), (4, 4), (2, 3), (2, 1))
ANY_ALL_STAGES = 2  # tiles in shared memory (kernels/scan/any_all.cuh)

MOST_LINES = 1 << 32  # that a launch has warps for
THREADS = 64  # of a block that scans line by line: few lines go to many processors
BATCH = 128  # bytes of elements that a thread loads at once; as much again where threads are few
WARP_BATCH = 8  # elements of a lane, where a warp takes a line
# Lines from which on a thread takes a whole one, or a warp does; fewer are shared by FEW threads.
ENOUGH, ENOUGH_OF_WARPS, FEW = 1 << 13, 1 << 11, 1 << 17
SHORTEST = 64  # elements of a part, for each thread that shares it
PREFIXES = 4  # parts of a line whose states a warp scans in the time that an element takes: a guess


def any_all(scan: Scan) -> Tiling | None:
    """For one dense line, taken from its begin; None for several, or where no alignment suits both arrays."""
    op, is_whole = scan.op, scan.arrays.lines == 1 and scan.lead is not None and not scan.exclusive and not scan.reverse
    if not is_whole or not op.type.startswith(("Any<", "All<")) or op.out_bytes != 1:
        return None
    nbytes = ANY_ALL_STAGES * LANES * PACK, 8 * scan_task.STATE_SLOTS, 8 * scan_task.RING_SLOTS + 16
    return _in_tiles(scan, ((FEW_ROUNDS, ANY_ALL_SHAPES[:1]), (0, ANY_ALL_SHAPES[1:])), nbytes)


def rows(scan: Scan) -> Tiling | None:
    """Lines with gaps, or without an alignment that suits all arrays, are copied unit by unit."""
    op = scan.op
    of_element = scan_task.STAGES * sum(op.itemsizes) + (0 if op.out_bytes == op.itemsizes[0] else op.out_bytes)
    of_warp = scan_task.STATE_SLOTS * (op.running_bytes + op.state_bytes) + 4 * scan_task.STAGES
    nbytes = LANES * (PACK // scan.widest) * of_element, of_warp, 8 * scan_task.RING_SLOTS + 48
    lines = scan.arrays.lines > 1, scan.lead is None, scan.exclusive, scan.reverse
    is_long = scan.lead is not None and (scan.arrays.lines == 1 or scan.length * scan.widest >= LONG_BYTES)
    of_moments = LARGE_OF_MOMENTS if op.out_bytes >= 4 * sum(op.itemsizes) else ()
    larger = LARGE_SHAPES if op.state_bytes <= SMALL_STATE_BYTES else of_moments
    longer = () if not is_long else FEW_WARPS if OF_FEW_WARPS.fullmatch(op.type) else LONG_SHAPES
    most = [] if op.type.startswith("Segmented<") else [(FEW_ROUNDS, larger), (ROUNDS, longer)]
    shapes = (*most, (0, SHAPES if op.state_bytes <= LARGE_STATE_BYTES else OF_LARGE))
    keeps_step = is_long and 1 < op.state_bytes <= 2 * sum(op.itemsizes) and KEEPS_STEP.fullmatch(op.type) is not None
    return _in_tiles(scan, shapes, nbytes, *lines, keeps_step)


def tile_states(tiles: int) -> int:
    """Published states: of every tile, every 16th and every 128th."""
    return tiles + tiles // 16 + tiles // 128


def _in_tiles(scan: Scan, shapes: Sequence[tuple[int, Sequence[Each]]], nbytes: Each, *rest: int) -> Tiling | None:
    """By blocks of which a warp looks back for all lines, of the first of these shapes that fits into shared memory.

    ``shapes``: with the rounds of tiles that they need. ``nbytes``: of shared memory for a pack of each lane of a warp,
    for a warp, and besides. ``rest``: of the template arguments.
    """
    arrays, sizes, (of_packs, of_warp, of_block) = scan.arrays, scan.sizes, nbytes
    is_whole = scan.is_contiguous(len(sizes) - 1)
    lead = scan.lead if scan.lead is not None else arrays.phases[-1] // sizes[-1] if is_whole else 0
    # Bytes that lie together, aligned in memory and in shared memory alike, wherever lines begin.
    units = [math.gcd(scan.alignment(i), lead * size) for i, size in enumerate(sizes)]
    steps = [strides[-1] for strides in arrays.strides]
    if scan.length > 1:
        units = [unit if step == size else size for unit, step, size in zip(units, steps, sizes, strict=True)]
    units[-1] = 0 if is_whole else units[-1]
    packs = math.prod(arrays.shape) // (scan.gpu.processors * LANES * PACK // scan.widest)  # of a lane, in all rounds
    for warps, run in (each for rounds, some in shapes for each in some if rounds * math.prod(each) <= packs):
        shared_bytes = warps * (run * of_packs + of_warp) + of_block
        if shared_bytes <= scan.gpu.shared_bytes:
            tiles = -(-(arrays.lines * scan.length + lead) // (warps * run * LANES * (PACK // scan.widest)))
            published = tile_states(tiles) * 128 * -(-scan.op.state_bytes // 64)  # kernels/scan/tile_state.cuh
            words, all_warps = scan.words(tiles, lead, steps=steps, units=units), warps + scan_task.WRITE_DELAY
            cost = "RowScan, strided" if scan.lead is None else ""
            return Tiling((warps, run, *rest), tiles, all_warps, words, shared_bytes, published, cost=cost)
    return None


def _by_lines(scan: Scan, lanes: int) -> Plan:
    """By a thread a line, or a warp (``lanes``); where lines are few, a part of one: each part is folded, their states
    are scanned, and then each part."""
    op, length, lines = scan.op, scan.length, scan.arrays.lines
    most = length // (SHORTEST * lanes) if lines < (ENOUGH if lanes == 1 else ENOUGH_OF_WARPS) else 1
    splits = max(1, min(-(-FEW // (lines * lanes)), most))  # threads or warps that share a line
    batch = BATCH // sum(max(4, n) for n in op.itemsizes) * (2 if lines * splits < FEW and not op.indexed else 1)
    batch = min(WARP_BATCH, batch) if lanes > 1 else rows_per_batch(op, length, batch)
    shape, blocks = (THREADS, batch, lanes), -(-lines * splits * lanes // THREADS)
    kernel = scan_task.named("scan_lines", op.type, op.emits, *shape, splits > 1, scan.exclusive)
    steps, scratch, chain = [Step(kernel, blocks, THREADS)], 0, float(-(-length // (splits * lanes)))
    if splits > 1:
        fold = Step(scan_task.named("scan_fold_parts", op.type, *shape), blocks, THREADS)
        parts = Step(scan_task.named("scan_parts", op.type, THREADS), -(-lines * LANES // THREADS), THREADS)
        steps, scratch, chain = [fold, parts, *steps], lines * splits * op.state_bytes, chain + splits / PREFIXES
    cost = f"{steps[0].scan}, by warps" if lanes > 1 else ""
    return Plan(tuple(steps), scan.words(splits), scratch, False, scan.starts, chain, cost)


KERNELS = (
    Kernel("LaneLineScan", lane_lines, "scan_shares", along_memory=True, turns=True),
    Kernel("SmallLineScan", small_lines, "scan_shares"),
    Kernel("SubwarpLineScan", subwarp_lines, "scan_shares", along_memory=True, turns=True),
    Kernel("ClusterColumnScan", cluster_columns, "scan_cluster_tiles", cluster=BLOCKS, turns=True),
    Kernel("ContiguousColumnScan", contiguous_columns, "scan_tiles", turns=True),
    Kernel("scan_serial_columns", serial_columns),
    Kernel("StripScan", column_strips, "scan_tiles"),
    Kernel("AnyAllScan", any_all, "scan_tiles", along_memory=True, turns=True, emits=False),
    Kernel("scan_thread_columns", thread_columns, tells_positions=True),
    Kernel("RowScan", rows, "scan_tiles", along_memory=True, turns=True, tells_positions=True),
)


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, gpu: Gpu, method: str = SINGLE_PASS) -> Plan:
    """Cut a scan, as is predicted to take least time on this GPU.

    ``method``: one of ``scan_task.METHODS``, or a kernel of those that take the scan (``scan_costs.kernel_of``).
    """
    plans = every(op, arrays, exclusive, reverse, gpu)
    if method == SINGLE_PASS:
        return scan_costs.least(plans, op, arrays, gpu)
    known = {scan_task.BY_LINES: plans[-1]} | {scan_costs.kernel_of(plan): plan for plan in plans}
    return known[scan_task.check_method(method, (SINGLE_PASS, *known))]


def every(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, gpu: Gpu) -> list[Plan]:
    """The plans of all kernels that take a scan; the last one is by lines, by warps where those read neighbours."""
    scan = Scan(op, arrays, exclusive, reverse, gpu)
    without = replace(scan, op=op.with_counts()) if op.indexed and arrays.index_step > 0 else scan
    kernels = KERNELS if len(op.itemsizes) <= 2 else ()  # the single pass takes two operands
    found = [kernel.plan(scan if kernel.tells_positions else without) for kernel in kernels]
    by_warps = arrays.is_along_memory and arrays.lines < MOST_LINES
    found += [_by_lines(scan, lanes) for lanes in ((1, LANES) if by_warps else (1,))]
    return [plan for plan in found if plan]
