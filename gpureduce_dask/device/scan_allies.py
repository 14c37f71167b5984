"""How a scan of many columns is cut for blocks that are allies (kernels/scan/allies.cuh)."""

from __future__ import annotations

import math

from . import scan_dense, scan_lanes
from .scan_dense import LANES, NOTES, PACK, SLOTS, Dense, Tiles
from .scan_task import LAG, SPOTS, Operator, Plan, flag

# Blocks of a cluster: of four, sums of float32 down (n, 100), (n, 65) 0.86, 0.81 of a copy, and of two 0.92, 0.88.
ALLIES = 2
LIMIT = 227 << 10  # bytes of shared memory of a block: of GPUs that have clusters, and room for tiles as large
# Columns. H200, CUDA 13.0, 4 GiB of float32, 2026-11, shares of a copy as strands (or in strips) and by allies: sums
# down (n, 64), (n, 70), (n, 75), (n, 80), (n, 90), (n, 96), (n, 97), (n, 100), (n, 113), (n, 120), (n, 127), (n, 128)
# 0.92, 0.87, 0.89, 0.91, 0.91, 0.91, 0.88, 0.88, 0.86, 0.87, 0.87, 0.91 and 0.98, 0.94, 0.94, 0.95, 0.94, 0.96, 0.91,
# 0.92, 0.91, 0.94, 0.93, 0.95; but (n, 63), (n, 65), (n, 66) 0.92, 0.90, 0.91 and 0.92, 0.88, 0.90. Maxima down
# (n, 64), (n, 65), (n, 75), (n, 85), (n, 96), (n, 97), (n, 100), (n, 127) 0.96, 0.92, 0.91, 0.93, 0.97, 0.90, 0.90,
# 0.90 and 1.00, 0.96, 0.95, 0.95, 0.98, 0.93, 0.96, 0.95; but (n, 128) 0.97 and 0.96.
NARROWEST, FEWEST_OF_SUMS, WIDEST = 64, 70, 128
WIDEST_OF_SECTORS = 96  # of extremes: strips take wider rows of whole sectors
# At least. Those of 256 MiB are too few, down (n, 100) 0.78 as strands and 0.75; of 1 GiB enough, 0.86 and 0.88.
TILES = 6000
# Gangs, and warps of each. Sums wait for their arithmetic, of which each quarter of a processor should have as much:
# down (n, 100) one gang of sixteen 0.92, of fourteen 0.87, two of seven 0.91; down (n, 127) one of sixteen 0.93, two of
# eight 0.89. For extremes, which do not, by columns.
GANGS_OF_SUMS = ((1, 12), (1, 16))
GANGS = (96, (2, 6)), (112, (2, 7)), (128, (2, 8))
STAGES, STRETCH, WORD, POST = 3, 8, 4, 8
REGISTERS = 65536 // 4  # of each quarter of a processor, which has every fourth warp
OTHERS = 50  # of a lane, besides the rows that it holds
# What of a copy is lost, about, where tiles are as small as this many bytes, in proportion; where lanes idle; and where
# a gang's share begins within a line of memory, by how it is aligned: sums down (n, 100) by two gangs of seven warps,
# of 44, 42, 45, 41 rows a lane 0.92, 0.90, 0.90, 0.89.
LARGE, SMALLER, IDLE = 72 << 10, 0.13, 0.2
LINE, ASTRAY = 128, {128: 0.0, 64: 0.013, 32: 0.025, 16: 0.03}


def plan(op: Operator, dense: Dense, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where it pays."""
    sums, width = scan_lanes.adds_floats(op), dense.width
    if limit < LIMIT or dense.count > 1 or dense.sizes != (WORD, WORD) or not (sums or op.state_bytes <= WORD):
        return None
    if not _pays(sums, width):
        return None
    lookers = -(-width // (ALLIES * LANES))
    shapes = GANGS_OF_SUMS if sums else tuple(shape for most, shape in GANGS if width <= most)[:1]
    letter = 8 * -(-op.state_bytes // 4)  # bytes of a state as allies tell it
    cuts = [_cut(width, *shape, lookers, letter, limit) for shape in shapes if LANES * shape[1] >= width]
    _, gangs, warps, rows, nbytes = min(cuts, default=(math.inf, 0, 0, 0, 0))
    teams = gangs * (LANES * warps // width)
    if not rows or dense.length < TILES * teams * rows:
        return None
    numbers = (gangs, warps, lookers, flag(exclusive), STRETCH, rows, ALLIES)
    kernel = f"scan_allies<{', '.join((op.type, op.emits, *map(str, numbers)))}>"
    posted = ALLIES * lookers * LANES * POST
    tiles = Tiles(teams, rows, gangs * warps + LAG * lookers, nbytes, posts_bytes=posted, allies=ALLIES)
    return scan_dense.launch(op, dense, kernel, tiles, reverse, processors)


def _pays(sums: bool, width: int) -> bool:
    """False of columns that have been measured to be faster otherwise."""
    if sums:
        return width == NARROWEST or FEWEST_OF_SUMS <= width <= WIDEST
    return NARROWEST <= width <= (WIDEST_OF_SECTORS if width * WORD % scan_dense.SECTOR == 0 else WIDEST)


def _cut(width: int, gangs: int, warps: int, lookers: int, letter: int, limit: int) -> tuple[float, int, int, int, int]:
    """What is lost, gangs, warps of each, rows of a lane with which least is, and bytes of shared memory."""
    all_warps, each = gangs * warps + LAG * lookers, LANES * warps // width
    letters = 8 * SPOTS + SLOTS * (ALLIES - 1) * lookers * LANES * 2 * letter
    notes = NOTES + SLOTS * gangs * warps * LANES * POST + letters
    row = gangs * each * width * WORD
    registers = REGISTERS // (LANES * -(-all_warps // 4)) // 8 * 8
    most = min(registers - OTHERS, (limit - notes) // (STAGES * row))
    idle = 1 - each * width / (LANES * warps)
    found = [
        (SMALLER * LARGE / (rows * row) + ASTRAY[math.gcd(share, LINE)] + IDLE * idle, gangs, warps, rows)
        for rows in range(most, 0, -1)
        if (share := rows * row // gangs) % PACK == 0
    ]
    lost, gangs, warps, rows = min(found, default=(math.inf, gangs, warps, 0))
    return lost, gangs, warps, rows, STAGES * rows * row + notes
