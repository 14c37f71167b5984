"""How a scan of short lines that lie side by side in small planes is cut: whole planes a warp."""

from __future__ import annotations

import math

from . import scan_dense
from .scan_short import LANES, warps_of
from .scan_task import SECTOR, Operands, Operator, Plan, Step, flag, words
from .scan_teams import SHARES

# H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy by planes, and by threads or strands: sums of float32 along the
# middle of (n, 7, 5) 0.98 and 0.46, (n, 12, 5) 0.96 and 0.54, (n, 100, 2) 0.89 and 0.61, (n, 20, 17) 0.95 and 0.79,
# of float64 (n, 7, 5) 0.99 and 0.68; maxima of uint8 0.76 and 0.25.
FEWEST = 1 << 14  # lines
LONGEST = 512  # bytes of a line
WIDEST = 128  # bytes of a row; those of whole sectors are taken by threads
# Bytes of a share, read or written, and warps that are enough: with 2 and 4 KiB maxima of (n, 8, 4) 0.96 and 0.98, but
# of uint8 (n, 7, 5) 0.76 and 0.73; with 24 warps (n, 7, 5) of float64 0.90.
LEAST, LEAST_OF_NARROW = 4096, 2048
WARPS = 16
PACK = 16  # bytes that are copied together


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where planes lie one after another in both arrays and are small; else None."""
    dense = scan_dense.found(op, arrays)
    if dense is None or dense.count < 2 or not dense.follows or any(arrays.phases) or arrays.lines < FEWEST:
        return None
    row, widest = dense.width * max(dense.sizes), max(dense.sizes)
    if dense.length * widest > LONGEST or row > WIDEST or (row % SECTOR == 0):
        return None
    planes = [dense.length * dense.width * n for n in dense.sizes]  # bytes
    unit = max(PACK // math.gcd(PACK, n) for n in planes)
    pitches = [n + PACK if n % (2 * PACK) == 0 else n for n in planes]
    each = SHARES * pitches[0] + (0 if planes[0] == planes[1] else pitches[1])
    least = LEAST if widest >= 4 else LEAST_OF_NARROW
    best, cut = 0.0, (0, 0)
    for count in range(unit, max(LANES, -(-least // planes[0])) + unit, unit):
        warps = warps_of(op, count * each, limit)
        lines = count * dense.width
        share = lines / (-(-lines // LANES) * LANES) * min(1, warps / WARPS) * min(1, count * max(planes) / least)
        if share > best * 1.02:
            best, cut = share, (count, warps)
    count, warps = cut
    if not warps:
        return None
    tiles = -(-dense.count // count)
    name = f"scan_small_planes<{op.type}, {op.emits}, {warps}, {flag(exclusive)}, {flag(reverse)}>"
    step = Step(name, min(-(-tiles // warps), processors), LANES * warps, warps * count * each)
    members = words(
        lines=arrays.lines,
        length=dense.length,
        tiles=tiles,
        parts=count,
        steps=(dense.width * dense.sizes[0], 0, dense.width * dense.sizes[1]),
        grains=(pitches[0], 0, pitches[1]),
        option=op.option,
    )
    return Plan((step,), members, starts=(0,) * len(arrays.strides))
