"""How a scan of many lines that lie side by side is cut where each warp takes a strip of columns alone.

From the first row to the last: nothing is folded before and no tile looks back, but there have to be enough strips.
"""

from __future__ import annotations

import re

from . import scan_columns
from .scan_task import ENTRY, LANES, SECTOR, Plan, Scan, Step
from .task import flag
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


def plan(scan: Scan) -> Plan | None:
    """The launch, where lines lie side by side in every array, in aligned rows, and are many; else None."""
    op = scan.op
    if not (OPERATORS_ALSO_EXCLUSIVE.match(op.type) or (not scan.exclusive and OPERATORS.fullmatch(op.type))):
        return None
    # rows begin where sectors do
    if not scan.line_dims or scan.length < SHORTEST or scan.steps[0] % SECTOR or scan.steps[-1] % SECTOR:
        return None
    lane_columns = WIDTH // scan.widest // (2 if scan.sizes[0] == 2 and op.state_bytes > 16 else 1)
    while lane_columns > 0:
        strip = LANES * lane_columns
        if scan.columns.size >= strip and strip * scan.sizes[0] >= LEAST and scan.takes_columns(lane_columns):
            strips = scan_columns.strips_of(scan, lane_columns, 1)
            chains = scan.plane_count * strips.count
            if warps := _warps_of(chains):
                break
        lane_columns //= 2
    else:
        return None
    layouts = scan_columns.layouts_of(scan, strips)
    free = (scan.gpu.shared_bytes + RESERVED) // warps - RESERVED - STAGES * len(layouts) * LANES
    rows = free // (STAGES * sum(layout.row for layout in layouts) + ENTRY) // FEWEST * FEWEST
    if rows < FEWEST:
        return None
    nbytes = STAGES * sum(layout.share(rows) for layout in layouts) + ENTRY * rows
    kernel = f"scan_serial_columns<{op.type}, {op.emits}, {lane_columns}, {flag(scan.exclusive)}>"
    members = scan_columns.words(scan, strips, layouts, -(-scan.length // rows), rows, 1)
    return Plan((Step(kernel, chains, LANES, nbytes),), members, starts=scan.starts)


def _warps_of(chains: int) -> int:
    """Warps of a processor with which so many strips keep all of them busy; 0 where there are too few."""

    def share(warps: int) -> float:
        resident = PROCESSORS * warps
        return min(PLENTY, chains / (-(-chains // resident) * resident) * WARPS[warps])

    best = max(WARPS, key=share)
    return best if share(best) >= ENOUGH else 0
