"""How a scan of many columns is cut for the blocks of a cluster (kernels/scan/cluster_columns.cuh)."""

from __future__ import annotations

import math

from . import scan_task
from .scan_contiguous_columns import LINE, SCRATCH, Tiles, launch, lead_of
from .scan_task import LANES, PACK, RING_SLOTS, STATE_SLOTS, WRITE_DELAY, Plan, Scan, published_bytes
from .task import flag

# Blocks of a cluster: of four, sums of float32 down (n, 100), (n, 65) 0.86, 0.81 of a copy, and of two 0.92, 0.88.
BLOCKS = 2
LEAST_SHARED_BYTES = 227 << 10  # of a block: with less, tiles are too small to pay
# Columns. H200, CUDA 13.0, 4 GiB of float32, 2026-11, shares of a copy as contiguous columns (or in strips) and by
# clusters: sums down (n, 8), (n, 10), (n, 12), (n, 16), (n, 20), (n, 28), (n, 32), (n, 33), (n, 40), (n, 52), (n, 65),
# (n, 80), (n, 100), (n, 113), (n, 128) 0.93, 0.88, 0.94, 0.95, 0.89, 0.90, 0.94, 0.89, 0.90, 0.82, 0.87, 0.88, 0.86,
# 0.83, 0.88 and 0.93, 0.79, 0.97, 1.01, 0.97, 1.00, 1.01, 0.94, 0.99, 0.98, 0.93, 0.98, 0.95, 0.93, 0.96; maxima down
# (n, 8), (n, 12), (n, 16), (n, 33), (n, 63), (n, 104), (n, 128) 0.96, 0.92, 0.95, 0.87, 0.89, 0.85, 0.94 and 0.95,
# 0.97, 1.02, 0.93, 0.99, 0.96, 0.98; but sums down (n, 129), (n, 160), (n, 256) 0.81, 0.93, 0.87 and 0.77, 0.91, 0.91.
# Of float64, whose sums are pairs, down (n, 12), (n, 16), (n, 24), (n, 33), (n, 64), (n, 65), (n, 80), (n, 100), (n,
# 128) 0.85, 0.89, 0.86, 0.81, 0.85, 0.67, 0.79, 0.78, 0.86 and 0.79, 0.92, 0.93, 0.87, 0.93, 0.85, 0.87, 0.83, 0.90;
# sums of int64 down (n, 8), (n, 12), (n, 16), (n, 33), (n, 65), (n, 100) 0.98, 0.92, 0.96, 0.91, 0.74, 0.89 and 0.95,
# 0.96, 1.01, 0.94, 0.92, 0.94, (n, 64) both and (n, 128) in strips 0.98; maxima of float64 down (n, 16), (n, 33), (n,
# 65), (n, 100), (n, 120) 0.95, 0.90, 0.75, 0.89, 0.92 and 1.01, 0.93, 0.91, 0.94, 0.94, (n, 128) in strips 0.98.
NARROWEST, WIDEST = 12, 128
NARROWEST_OF_PAIRS, WIDEST_OF_EIGHTS = 16, 127  # of eight bytes those whose states are no pairs
# At least. Of 64, 256, 512, 1024 MiB sums down (n, 16) 0.65, 0.84, 0.89, 0.91 as contiguous columns and 0.59, 0.86,
# 0.92, 0.97, down (n, 100) 0.59, 0.77, 0.82, 0.84 and 0.60, 0.83, 0.89, 0.92, maxima 0.64, 0.80, 0.83, 0.85 and 0.60,
# 0.84, 0.90, 0.94.
TILES = 2000
# Warp groups, and warps of each. Sums wait for their arithmetic, so that few lanes should idle: down (n, 24), (n, 40),
# (n, 56), (n, 70), (n, 90), (n, 100), (n, 113), (n, 127) two of six 0.97, 1.00, 0.98, 0.79, 0.98, 0.70, 0.80, 0.77, two
# of seven 0.98, 0.98, 0.99, 0.96, 0.94, 0.97, 0.75, 0.81, two of eight 0.98, 0.98, 0.99, 0.95, 0.92, 0.96, 0.94, 0.96.
# Others, which do not, by columns: those of float64 down (n, 65), (n, 100) two of six 0.76, 0.69, one of twelve 0.85,
# 0.83, down (n, 33) 0.87 and 0.82.
GROUPS_OF_SUMS = (2, 6), (2, 7), (2, 8)
GROUPS = (96, (2, 6)), (112, (2, 7)), (128, (2, 8))
GROUPS_OF_EIGHTS = (64, (2, 6)), (128, (1, 12))
STAGES, RADIX = 3, 8
REGISTERS = 65536 // 4  # of each quarter of a processor, which has every fourth warp
OTHER_REGISTERS = 50  # of a lane, besides the rows that it holds, of extremes of four bytes
# Of a lane's registers those that hold rows: with more rows of other operators they spill.
REGISTER_SHARE, REGISTER_SHARE_OF_PAIRS = 7 / 16, 3 / 8
# What of a copy is lost, about, where tiles are as small as this many bytes, in proportion; where lanes idle; by a warp
# more; and where a warp group's share begins within a line of memory, by how it is aligned: sums down (n, 100) by two
# warp groups of seven warps, of 44, 42, 45, 41 rows a lane 0.92, 0.90, 0.90, 0.89.
LARGE_TILE, SMALL_TILE_COST, IDLE_COST, WARP_COST = 72 << 10, 0.13, 0.2, 0.006
MISALIGNED_COST = {128: 0.0, 64: 0.013, 32: 0.025, 16: 0.03}


def plan(scan: Scan) -> Plan | None:
    """The launch, where it pays, of a GPU that has clusters and rows that lie one after another in both arrays."""
    if not scan.gpu.clusters or scan.gpu.shared_bytes < LEAST_SHARED_BYTES:
        return None
    lead = lead_of(scan)
    if lead is None or scan.plane_count > 1 or not _suits(scan):
        return None
    op, sums, width = scan.op, scan_task.adds_floats(scan.op), scan.columns.size
    look_back_warps = -(-width // (BLOCKS * LANES))
    by_columns = GROUPS if scan.sizes[0] == 4 else GROUPS_OF_EIGHTS
    shapes = GROUPS_OF_SUMS if sums else tuple(shape for most, shape in by_columns if width <= most)[:1]
    cuts = [_cut(scan, *shape, look_back_warps) for shape in shapes if LANES * shape[1] >= width]
    _, warp_groups, warps, rows, nbytes = min(cuts, default=(math.inf, 0, 0, 0, 0))
    row_groups = warp_groups * (LANES * warps // width)
    if not rows or scan.length < TILES * row_groups * rows:
        return None
    numbers = (warp_groups, warps, look_back_warps, flag(scan.exclusive), rows)
    kernel = f"scan_cluster_tiles<ClusterColumnScan<{', '.join((op.type, op.emits, *map(str, numbers)))}>>"
    tiles = Tiles(
        row_groups,
        rows,
        warp_groups * warps + WRITE_DELAY * look_back_warps,
        nbytes,
        RADIX,
        BLOCKS * look_back_warps * LANES * published_bytes(op),
        cluster_blocks=BLOCKS,
    )
    return launch(scan, lead, kernel, tiles)


def _suits(scan: Scan) -> bool:
    """True of elements, states and columns for which it pays."""
    op, size, width = scan.op, scan.sizes[0], scan.columns.size
    if size != op.out_bytes or size not in (4, 8):
        return False
    if scan_task.adds_pairs(op):
        return size == 8 and NARROWEST_OF_PAIRS <= width <= WIDEST
    small = op.state_bytes <= size or scan_task.adds_floats(op)
    return small and NARROWEST <= width <= (WIDEST if size == 4 else WIDEST_OF_EIGHTS)


def _cut(scan: Scan, warp_groups: int, warps: int, look_back_warps: int) -> tuple[float, int, int, int, int]:
    """What is lost, warp groups, warps of each, rows of a lane with which least is, and bytes of shared memory."""
    op, size, width = scan.op, scan.sizes[0], scan.columns.size
    all_warps, each = warp_groups * warps + WRITE_DELAY * look_back_warps, LANES * warps // width
    message = 8 * -(-op.state_bytes // 4)  # bytes of a state that a block sends to another
    messages = 8 * RING_SLOTS + STATE_SLOTS * (BLOCKS - 1) * look_back_warps * LANES * 2 * message
    scratch = SCRATCH + STATE_SLOTS * warp_groups * warps * LANES * max(8, op.state_bytes) + messages
    row = warp_groups * each * width * size
    registers = REGISTERS // (LANES * -(-all_warps // 4)) // 8 * 8
    share_of_rows = REGISTER_SHARE_OF_PAIRS if scan_task.adds_pairs(op) else REGISTER_SHARE
    row_registers = registers - OTHER_REGISTERS if op.state_bytes <= 4 else int(registers * share_of_rows)
    most = min(row_registers * 4 // size, (scan.gpu.shared_bytes - scratch) // (STAGES * row))
    worse = IDLE_COST * (1 - each * width / (LANES * warps)) + WARP_COST * warps
    found = [
        (SMALL_TILE_COST * LARGE_TILE / (rows * row) + MISALIGNED_COST[math.gcd(share, LINE)] + worse, rows)
        for rows in range(most, 0, -1)
        if (share := rows * row // warp_groups) % PACK == 0
    ]
    lost, rows = min(found, default=(math.inf, 0))
    return lost, warp_groups, warps, rows, STAGES * rows * row + scratch
