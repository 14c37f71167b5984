"""How a scan of many lines that lie side by side is cut where each warp takes a strip of columns alone.

From the first row to the last: nothing is folded before and no tile looks back, but there have to be enough strips.
"""

from __future__ import annotations

import math
import re

from . import scan_columns
from .layout import Dim
from .scan_columns import LANES, Cut
from .scan_task import ENTRY, SECTOR, Operands, Operator, Plan, Step, flag
from .tuning import PROCESSORS  # among which strips are divided evenly

# Operators with much to do for each byte. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy in tiles and alone, down
# (32768, 32768) of float32 or as many bytes: var 0.64 and 0.97 (float64 0.77 and 0.97, float16 0.40 and 0.93, int32
# 0.87 and 0.90), std 0.48 and 0.89, mean 0.88 and 0.97 (float64 0.81 and 0.98, float16 0.56 and 0.85), nanmean 0.86 and
# 0.90, sums in segments 0.86 and 0.94 (float64 0.81 and 0.92, float16 0.60 and 1.01). But nanvar 0.44 and 0.27, maxima
# in segments 0.97 and 0.94, sums 1.03 and 0.98, means of int32 0.94 and 0.91; rows that no alignment suits, of sums
# 0.92 and 0.53. Roots of all digits take long (std of float64 0.52).
OPERATORS = re.compile(
    r"Var<(half|bfloat16|f32|f64|i32|u32), false>|Std<(half|bfloat16|f32), false>"
    r"|Mean<\w+<(half|bfloat16|f32|f64), f64>, (f64|Twofold)>"
)
OPERATORS_ALSO_EXCLUSIVE = re.compile(r"Segmented<Sum<")  # exclusive as well
# Bytes of a lane's columns in the array whose elements are largest; half of it for variances of narrow ones, and twice
# as many warps: of float16 0.74 and 0.93.
WIDTH = 8
LEAST = 128  # bytes of a strip's row
SHORTEST = 256  # rows: of as many var 0.73 by a thread a line and 0.88, of 512 0.72 and 0.94
STAGES = 4  # kernels/scan/columns.cuh
FEWEST = 8  # rows of a tile
RESERVED = 1024  # bytes of shared memory that a block takes besides
# Warps of a processor, and their share of what as many could do: best where its four quarters have as many each. As
# above, var down 24576, 32768, 40960 and 49152 columns, with 3, 4, 5 and 3 (in two waves): 0.96, 0.97, 0.86 and 0.97.
WARPS = {8: 1.0, 4: 1.0, 3: 1.0, 7: 0.97, 6: 0.95, 5: 0.9}
# Of what all processors could do: at least, and as good as all. Down 20480 columns (0.81) 0.64 in tiles and 0.82, 12288
# (0.97) 0.64 and 0.76, but 8192 (0.65) 0.64 and 0.55.
ENOUGH, PLENTY = 0.75, 0.95


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int) -> Plan | None:
    """The launch, where lines lie side by side in every array, in aligned rows, and are many; else None."""
    if not (OPERATORS_ALSO_EXCLUSIVE.match(op.type) or (not exclusive and OPERATORS.fullmatch(op.type))):
        return None
    kept, length = arrays.line_dims(), arrays.shape[arrays.axis]
    if not kept or length < SHORTEST or (kept[-1].a, kept[-1].c) != (op.itemsizes[0], op.out_bytes):
        return None
    *planes, columns = kept
    steps = [s[arrays.axis] for s in arrays.strides]
    lane_columns = (
        WIDTH // max(*op.itemsizes, op.out_bytes) // (2 if op.itemsizes[0] == 2 and op.state_bytes > 16 else 1)
    )
    while lane_columns > 0:
        if _aligned(op, arrays, columns, planes, steps, lane_columns):
            width, strips, lead = scan_columns.strips_of(op, arrays, kept, steps, lane_columns, 1)
            if warps := _warps_of(math.prod(dim.size for dim in planes) * strips):
                break
        lane_columns //= 2
    else:
        return None
    starts = [(length - 1) * s if reverse else 0 for s in steps]
    if reverse:
        steps = [-s for s in steps]
    strip = (width, strips, lead)
    layouts = [
        scan_columns.layout_of(arrays, i, n, steps[i], starts[i], kept, strip) for i, n in enumerate(op.itemsizes)
    ]
    chains = math.prod(dim.size for dim in planes) * strips
    free = (limit + RESERVED) // warps - RESERVED - STAGES * len(layouts) * LANES
    rows = free // (STAGES * sum(layout.row for layout in layouts) + ENTRY) // FEWEST * FEWEST
    if rows < FEWEST:
        return None
    nbytes = STAGES * sum(layout.share(rows) for layout in layouts) + ENTRY * rows
    cut = Cut(1, lane_columns, 1, width, strips, 1, rows, -(-length // rows), 0, 0, False, nbytes)
    step = Step(f"scan_serial_columns<{op.type}, {op.emits}, {lane_columns}, {flag(exclusive)}>", chains, LANES, nbytes)
    members = scan_columns.words(
        cut, (length, columns.size, lead, chains), (width, steps[-1]), op.option, layouts, planes
    )
    return Plan((step,), members, starts=tuple(starts))


def _aligned(
    op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int], lane_columns: int
) -> bool:
    """True where a lane can take so many columns at once in every row, and rows begin where sectors do."""
    sizes = (*op.itemsizes, op.out_bytes)
    if columns.size % lane_columns or columns.size < LANES * lane_columns or lane_columns * LANES * sizes[0] < LEAST:
        return False
    if len(op.itemsizes) > 1 and columns.b != sizes[1]:
        return False
    last = len(sizes) - 1
    for i, size in enumerate(sizes):
        offsets = [arrays.phases[i], steps[i], *(d.c if i == last else d.b if i else d.a for d in planes)]
        if any(n % (lane_columns * size) for n in offsets):
            return False
    return steps[0] % SECTOR == 0 and steps[-1] % SECTOR == 0


def _warps_of(chains: int) -> int:
    """Warps of a processor with which so many strips keep all of them busy; 0 where there are too few."""

    def share(warps: int) -> float:
        resident = PROCESSORS * warps
        return min(PLENTY, chains / (-(-chains // resident) * resident) * WARPS[warps])

    best = max(WARPS, key=share)
    return best if share(best) >= ENOUGH else 0
