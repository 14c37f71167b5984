"""How a scan of lines that lie side by side is cut where one row follows another in memory: into tiles for a block, or
for the blocks of a cluster, which publish theirs as one (kernels/scan/contiguous_columns.cuh, cluster_columns.cuh)."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from . import scan_task
from .scan_columns import FEW_CHAINS, FEWEST, LARGE_BYTES, TILE, TILES
from .scan_costs import HEAVY_STATE_BYTES
from .scan_task import LANES, PACK, RING_SLOTS, STAGES, STATE_SLOTS, WRITE_DELAY, Scan, Tiling
from .tuning import CACHE_LINE, SECTOR

SCRATCH = 768  # bytes of SharedScratch but for states (kernels/scan/contiguous_columns.cuh)


class Cut(NamedTuple):
    """How rows are cut into tiles, and the warps of a block."""

    warp_groups: int
    warps: int  # of each, that scan
    look_back_warps: int
    row_groups: int  # of all warp groups
    rows: int  # of a row group
    shared_bytes: int
    cost: float


def _lies_in_rows(scan: Scan) -> bool:
    """True where rows lie one after another in both arrays, and packs are aligned at the same elements of both."""
    rows = tuple(scan.direction * scan.columns.size * n for n in scan.sizes)
    lies_in_rows = len(scan.sizes) == 2 and scan.column_steps == scan.sizes and scan.steps == rows
    return lies_in_rows and None not in map(scan.lead_at, (scan.arrays.phases, *map(scan.apart, scan.planes)))


def _tiling(scan: Scan, cut: Cut, chains: int, blocks: int, radix: int, state: int, *rest: int) -> Tiling:
    """``chains``: as many as planes, or one of all. ``blocks``: of a cluster. ``state``: bytes that tiles publish, of
    a cluster's blocks together. ``rest``: last of the template arguments."""
    ahead = PACK - 1 if chains > 1 else scan.lead or 0  # positions, at most, before the first row
    elements, width = scan.arrays.lines * scan.length // chains + ahead, scan.columns.size
    clusters = -(-elements // (blocks * cut.row_groups * cut.rows * width))
    links = clusters * blocks
    numbers = (1, width, 0, scan.plane_count, links, cut.rows, cut.row_groups, chains * links, scan.direction)
    warps = cut.warp_groups * cut.warps + WRITE_DELAY * cut.look_back_warps
    published = chains * scan_task.chain_tile_states(clusters, radix) * state
    arguments = (cut.warp_groups, cut.warps, cut.look_back_warps, *rest)
    return Tiling(arguments, chains * links, warps, scan.strip_words(numbers), cut.shared_bytes, published)


# ---- tiles of a block

# Bytes of a row, at most. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy so and in strips: sums of float32 down
# (n, 5) 0.85 and 0.55, (n, 65) 0.72 and 0.57, (n, 100) 0.64 and 0.71, maxima down (n, 33) 0.76 and 0.71, (n, 65) 0.63
# and 0.70. Rows of whole sectors go in strips from 128 bytes on: (n, 24) 0.85 and 0.84, (n, 32) 0.85 and 0.90.
MOST, MOST_OF_EXTREMES, WHOLE_SECTORS = 320, 160, 128
# Columns up to which whole rows are taken, of whole sectors too: of words; of means of whole lines; of pairs; of eight
# bytes. Int64 down (n, 64) in strips 1.01, and 0.94.
MOST_OF_WORDS, MOST_OF_MEANS, MOST_OF_PAIRS, MOST_OF_EIGHTS = 127, LANES, 64, 63
WIDEST = 128  # columns, of clusters too
# Columns, at most, where tile states are large and take registers of a lane that looks back; of several planes, where
# states have 8 to 16 bytes, too: products of int16 along axis 1 of (19, 11618, 38) in strips and so 38 and 44 us.
FEW_OF_LARGE = 16
# Rows of a plane. Shorter ones are taken by a thread a line, but of planes of few bytes a row: along the middle axis of
# (n, 12, 5) as contiguous columns and by threads 0.55 and 0.45; but (n, 7, 5) 0.31 and 0.46, (n, 64, 16) 0.70 and 1.01.
SHORTEST, SHORTEST_OF_FEW, FEW = 256, 12, 32
# Warp groups of a block, and warps of each; those behind only where shared memory has no room for the first.
GROUPS = ((14, 1), (12, 1), (4, 3), (2, 7), (2, 6), (1, 12)), ((1, 8), (2, 8)), ((4, 1),), ((2, 2),), ((2, 1),)
MOST_WARPS, MOST_OF_LARGE = 24, 12  # with those that look back, and without: of more, each has too few registers
LEVEL_BYTES = 64  # of tile states that a lane has registers for
PLANE_TILES = 8  # tiles of a plane from which on planes are chains of their own
# What an element costs: to fold and to write it, eight rows together, four, and each of those left.
BATCH, HALF, SINGLE = 8, 0.75, 0.65
# And a state that is stored for the warps that look back, by as many of their lanes as share a column: sums of float32
# down (n, 5) by warp groups of four warps, which have 75 row groups' states, and of one 0.83 and 0.90.
PART_STATE_COST = 0.5


def contiguous_columns(scan: Scan) -> Tiling | None:
    """None where other kernels are faster, or planes do not follow one another and are many, or short."""
    return (_in_chains(scan, joined=False) or _in_chains(scan, joined=True)) if _lies_in_rows(scan) else None


def _in_chains(scan: Scan, joined: bool) -> Tiling | None:
    """``joined``: planes are one chain, where they are short; else each is one, where they are long, and few."""
    width, planes, each = scan.columns.size, scan.plane_count, scan.op.published_bytes(joined)
    if (joined and planes == 1) or not _pays(scan, each):
        return None
    # Few columns a warp that looks back, for lanes to share tile states, where so many warps are enough.
    columns = _in_a_line(each)
    is_wide = width > (4 if each == 8 else 2) * columns
    warps = -(-width // (2 * columns if is_wide else columns))
    radix = scan_task.radix_of(each, shares_lanes=not is_wide)
    most = min(MOST_WARPS - WRITE_DELAY * warps, MOST_OF_LARGE if each > LARGE_BYTES else MOST_WARPS)
    found = ([cut for n, m in shapes if n * m <= most for cut in _cuts(scan, n, m, warps)] for shapes in GROUPS)
    cut = min(next(filter(None, found), ()), key=lambda cut: cut.cost, default=None)
    if cut is None or joined != (planes > 1 and scan.length < PLANE_TILES * cut.row_groups * cut.rows):
        return None
    if scan.lead is None if joined else planes >= FEW_CHAINS:
        return None
    columns = -(-width // (warps * columns)) * columns
    # Tile states of a level that a lane reads together: lanes share them where a warp has more than columns.
    slots = min(-(-radix // (LANES // columns)), max(1, LEVEL_BYTES // each))
    chains, state = 1 if joined else planes, warps * columns * each
    return _tiling(scan, cut, chains, 1, radix, state, joined, scan.exclusive, radix, slots)


def _in_a_line(nbytes: int) -> int:
    """Columns whose tile states fill a line of memory, a power of two: down (n, 100) 0.83, where they do not 0.78."""
    return next((CACHE_LINE // n for n in (8, 16, 32) if nbytes <= n), 2)


def _pays(scan: Scan, published: int) -> bool:
    """False where other kernels are faster, of columns whose tile states have so many bytes."""
    op, width, size = scan.op, scan.columns.size, scan.sizes[0]
    read, row = width * size, width * scan.widest
    shortest = SHORTEST_OF_FEW if scan.plane_count > 1 and read <= FEW else SHORTEST
    is_few = published > PACK or (scan.plane_count > 1 and PACK // 2 <= op.state_bytes < HEAVY_STATE_BYTES)
    if scan.length < shortest or width > (FEW_OF_LARGE if is_few else WIDEST):
        return False
    if scan.sizes == (4, 4):
        return width <= (MOST_OF_MEANS if op.type.startswith("Mean<") and row % CACHE_LINE == 0 else MOST_OF_WORDS)
    if size == 8:
        return width <= (MOST_OF_PAIRS if op.state_bytes > 8 else MOST_OF_EIGHTS)
    is_whole = row % SECTOR == 0 and row >= WHOLE_SECTORS
    return not is_whole and read <= (MOST_OF_EXTREMES if op.type.startswith("MinMax<") else MOST)


def _cuts(scan: Scan, warp_groups: int, warps: int, look_back_warps: int) -> Iterator[Cut]:
    """By row groups and rows, each with what an element costs: least where few lanes idle, in different banks."""
    width, (size, size_out), elements = scan.columns.size, scan.sizes, math.prod(scan.arrays.shape)
    bytes_each = STAGES * size + (0 if size == size_out else size_out)  # of shared memory, for an element of a tile
    lanes = LANES * warps  # of a warp group
    scratch = STATE_SLOTS * warp_groups * lanes * scan.op.running_bytes + SCRATCH
    most = min((scan.gpu.shared_bytes - scratch) // bytes_each, TILE // (size + size_out))
    most = min(most, max(warp_groups * lanes * 2 * FEWEST, elements // TILES)) // warp_groups
    for row_groups in range(lanes // width, lanes // width * 7 // 8, -1):
        highest = most // (row_groups * width)
        for rows in range(highest, highest * 2 // 3, -1):
            if rows >= min(FEWEST, warps) and row_groups * rows * width % (PACK // min(size, size_out)) == 0:
                steps = rows // BATCH + rows % BATCH // 4 * HALF + rows % 4 * SINGLE
                conflicts = _conflicts(rows * width % 256, width, size)
                cost = lanes / (row_groups * width) * (5 + 3 * conflicts + 4 * steps * BATCH / rows)
                cost += 6 * most / (row_groups * rows * width) + 0.15 * warps + 0.2 * abs(warp_groups * warps - 14)
                stored = warp_groups * (1 if warps == 1 else row_groups) * max(1, scan.op.running_bytes // PACK)
                cost += PART_STATE_COST * stored / (LANES * look_back_warps // width)
                nbytes = warp_groups * row_groups * rows * width * bytes_each + scratch
                yield Cut(warp_groups, warps, look_back_warps, warp_groups * row_groups, rows, nbytes, cost)


@functools.lru_cache(maxsize=4096)
def _conflicts(distance: int, width: int, size: int) -> float:
    """Accesses to shared memory for one of a warp, on average; row groups are so many elements from each other."""
    each = max(1, size // 4)  # words of a lane: as many lanes fewer are served at once
    warps = (range(begin, begin + LANES // each) for begin in range(0, 4 * LANES, LANES // each))
    return statistics.fmean(scan_task.most_in_a_bank(lanes, width, distance, size, each) for lanes in warps)


# ---- tiles of the blocks of a cluster

BLOCKS = 2  # of a cluster: of four, sums of float32 down (n, 100), (n, 65) 0.86, 0.81 of a copy, and of two 0.92, 0.88
LEAST_SHARED_BYTES = 227 << 10  # of a block: with less, tiles are too small to pay
# Columns. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy as contiguous columns (or in strips) and by clusters: sums
# of float32 down (n, 8), (n, 10), (n, 12), (n, 65), (n, 128) 0.93, 0.88, 0.94, 0.87, 0.88 and 0.93, 0.79, 0.97, 0.93,
# 0.96, but (n, 129), (n, 160) 0.81, 0.93 and 0.77, 0.91; of float64, whose sums are pairs, down (n, 12), (n, 16), (n,
# 65) 0.85, 0.89, 0.67 and 0.79, 0.92, 0.85; of int64 down (n, 8), (n, 12), (n, 100) 0.98, 0.92, 0.89 and 0.95, 0.96,
# 0.94, (n, 128) in strips 0.98.
NARROWEST, NARROWEST_OF_PAIRS, WIDEST_OF_EIGHTS = 12, 16, 127  # of eight bytes those whose states are no pairs
# At least. Of 64, 256, 1024 MiB sums down (n, 16) 0.65, 0.84, 0.91 as contiguous columns and 0.59, 0.86, 0.97.
LEAST_TILES = 2000
# Warp groups, and warps of each. Sums wait for their arithmetic, so that few lanes should idle: down (n, 70), (n, 113)
# two of six 0.79, 0.80, two of seven 0.96, 0.75, two of eight 0.95, 0.94. Others, which do not, by columns: those of
# float64 down (n, 65) two of six 0.76, one of twelve 0.85, down (n, 33) 0.87 and 0.82.
GROUPS_OF_SUMS = (2, 6), (2, 7), (2, 8)
GROUPS_OF_WORDS = (96, (2, 6)), (112, (2, 7)), (128, (2, 8))
GROUPS_OF_EIGHTS = (64, (2, 6)), (128, (1, 12))
CLUSTER_STAGES, RADIX = 3, 8
REGISTERS = 65536 // 4  # of each quarter of a processor, which has every fourth warp
OTHER_REGISTERS = 50  # of a lane, besides the rows that it holds, of extremes of four bytes
# Of a lane's registers those that hold rows: with more rows of other operators they spill.
REGISTER_SHARE, REGISTER_SHARE_OF_PAIRS = 7 / 16, 3 / 8
# What of a copy is lost, about, where tiles are as small as this many bytes, in proportion; where lanes idle; by a warp
# more; and where a warp group's share begins within a line of memory, by how it is aligned: sums down (n, 100) by two
# warp groups of seven warps, of 44, 42, 45, 41 rows a lane 0.92, 0.90, 0.90, 0.89.
LARGE_TILE, SMALL_TILE_COST, IDLE_COST, WARP_COST = 72 << 10, 0.13, 0.2, 0.006
MISALIGNED_COST = {128: 0.0, 64: 0.013, 32: 0.025, 16: 0.03}


def cluster_columns(scan: Scan) -> Tiling | None:
    """For one plane, where it pays, of a GPU that has clusters."""
    op, gpu, size, width, is_pair = scan.op, scan.gpu, scan.sizes[0], scan.columns.size, scan.op.adds_in == "Twofold"
    if not gpu.clusters or gpu.shared_bytes < LEAST_SHARED_BYTES or scan.sizes not in ((4, 4), (8, 8)) or scan.planes:
        return None
    least, most = (NARROWEST_OF_PAIRS, WIDEST) if is_pair else (NARROWEST, WIDEST if size == 4 else WIDEST_OF_EIGHTS)
    if not least <= width <= most or (op.state_bytes > size and not op.adds_in) or not _lies_in_rows(scan):
        return None
    back = -(-width // (BLOCKS * LANES))  # warps that look back
    by_columns = GROUPS_OF_WORDS if size == 4 else GROUPS_OF_EIGHTS
    shapes = GROUPS_OF_SUMS if op.adds_in == "f64" else (next(shape for most, shape in by_columns if width <= most),)
    cuts = (cut for shape in shapes if LANES * shape[1] >= width for cut in _cluster_cuts(scan, *shape, back))
    cut = min(cuts, key=lambda cut: cut.cost, default=None)
    if cut is None or scan.length < LEAST_TILES * cut.row_groups * cut.rows:
        return None
    return _tiling(scan, cut, 1, BLOCKS, RADIX, BLOCKS * back * LANES * op.published_bytes(), scan.exclusive, cut.rows)


def _cluster_cuts(scan: Scan, warp_groups: int, warps: int, look_back_warps: int) -> Iterator[Cut]:
    """By rows of a lane, each with what is lost."""
    op, size, width = scan.op, scan.sizes[0], scan.columns.size
    all_warps, each = warp_groups * warps + WRITE_DELAY * look_back_warps, LANES * warps // width
    message = 8 * -(-op.state_bytes // 4)  # bytes of a state that a block sends to another
    messages = 8 * RING_SLOTS + STATE_SLOTS * (BLOCKS - 1) * look_back_warps * LANES * 2 * message
    scratch = SCRATCH + STATE_SLOTS * warp_groups * warps * LANES * max(8, op.state_bytes) + messages
    row = warp_groups * each * width * size
    registers = REGISTERS // (LANES * -(-all_warps // 4)) // 8 * 8
    share_of_rows = REGISTER_SHARE_OF_PAIRS if op.adds_in == "Twofold" else REGISTER_SHARE
    row_registers = registers - OTHER_REGISTERS if op.state_bytes <= 4 else int(registers * share_of_rows)
    most = min(row_registers * 4 // size, (scan.gpu.shared_bytes - scratch) // (CLUSTER_STAGES * row))
    worse = IDLE_COST * (1 - each * width / (LANES * warps)) + WARP_COST * warps
    for rows in range(1, most + 1):
        share = rows * row // warp_groups
        if share % PACK == 0:
            cost = SMALL_TILE_COST * LARGE_TILE / (rows * row) + MISALIGNED_COST[math.gcd(share, CACHE_LINE)] + worse
            nbytes = CLUSTER_STAGES * rows * row + scratch
            yield Cut(warp_groups, warps, look_back_warps, warp_groups * each, rows, nbytes, cost)
