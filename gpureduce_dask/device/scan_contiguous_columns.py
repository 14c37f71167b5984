"""How a scan of lines that lie side by side is cut where one row follows another in memory: columns a lane, and the
launch, which is that of clusters too (scan_cluster_columns.py)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from . import scan_task
from .scan_task import (
    LANES,
    PACK,
    SECTOR,
    STAGES,
    STATE_SLOTS,
    WRITE_DELAY,
    Plan,
    Scan,
    Step,
    chain_tile_states,
    most_in_a_bank,
    strip_words,
)
from .task import flag
from .tuning import PROCESSORS

# Bytes of a row, at most. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy as contiguous columns and in strips: sums
# of float32 down (n, 5) 0.85 and 0.55, (n, 16) 0.87 and 0.70, (n, 33) 0.79 and 0.55, (n, 65) 0.72 and 0.57, (n, 100)
# 0.64 and 0.71; maxima down (n, 5) 0.91 and 0.60, (n, 33) 0.76 and 0.71, (n, 65) 0.63 and 0.70; sums of float64, whose
# states are pairs, down (n, 32) 0.76 and 0.71, (n, 33) 0.56 and 0.58. Rows of whole sectors are better off in strips
# from 128 bytes on: sums of float32 down (n, 24) 0.85 and 0.84, (n, 32) 0.85 and 0.90; but maxima down (n, 32) 0.94 and
# 0.90.
MOST, MOST_OF_EXTREMES, MOST_OF_PAIRS = 320, 160, 256
WHOLE_SECTORS = 128
# Rows of a plane. Shorter ones, where they are not taken by planes (scan_small_lines.py), are taken by a thread a line,
# but of planes of few bytes a row: (n, 12, 5) along its middle axis as contiguous columns and by threads 0.55 and 0.45,
# (n, 100, 2) 0.61 and 0.20; but (n, 7, 5) 0.31 and 0.46, (n, 64, 16) 0.70 and 1.01.
SHORTEST, SHORTEST_OF_FEW, FEW = 256, 12, 32
# Warp groups of a block, and warps of each; those behind for little shared memory.
GROUPS = ((14, 1), (12, 1), (4, 3), (2, 7), (2, 6), (1, 12), (1, 8), (2, 8), (4, 1), (2, 2), (2, 1), (1, 1))
# Those that look back among them: of more, each has too few registers.
MOST_WARPS, MOST_BATCHED = 20, 24
ENOUGH = 12  # warps that scan: fewer only where more do not fit
TILE = 128 << 10  # bytes of a tile, read and written, at most
TILES = 512  # at least, if that leaves contiguous columns some rows
FEWEST = 4  # rows of a lane's columns
WORD = 4  # bytes that a lane takes at once of narrow elements
WIDEST = 128  # columns
# Columns of a warp that looks back, where so many warps are enough: lanes share their tile states.
SEVERAL, LOOK_BACK_WARPS = 8, 4
LOOK_BACK_WARPS_OF_VARIANCES = 8
LARGE = 16  # bytes of a state: of larger ones a lane that looks back has too few registers
FEW_CHAINS = PROCESSORS // 2
# Columns from which on tile states are polled in one batch (chained_look_back.cuh): of sums of float32; of pairs; of
# narrow elements; and of all else with small states. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy by steps of
# eight or sixteen (or in strips) and in one batch: sums of float32 down (n, 5), (n, 12), (n, 24), (n, 32), (n, 33), (n,
# 48), (n, 63), (n, 65), (n, 100) 0.93, 0.85, 0.89, 0.93, 0.75, 0.85, 0.77, 0.75, 0.74 and 0.94, 0.97, 0.96, 0.96, 0.93,
# 0.94, 0.92, 0.90, 0.89, (n, 128) 0.91 and 0.92; maxima down (n, 8), (n, 16), (n, 33), (n, 65), (n, 100) 0.99, 0.99,
# 0.81, 0.73, 0.83 and 0.98, 0.98, 0.91, 0.92, 0.90; of float64 down (n, 3), (n, 8), (n, 16), (n, 32), (n, 33), (n, 48),
# (n, 64) 0.80, 0.84, 0.87, 0.74, 0.60, 0.80, 0.84 and 0.79, 0.89, 0.92, 0.90, 0.81, 0.89, 0.87; of int64 down (n, 16),
# (n, 33) 0.99, 0.75 and 0.98, 0.93; of float16 down (n, 16), (n, 33), (n, 50) 0.77, 0.70, 0.73 and 0.86, 0.70, 0.81;
# maxima of uint8 down (n, 12), (n, 33), (n, 100) 0.74, 0.51, 0.62 and 0.77, 0.51, 0.84.
BATCHED_OF_SUMS, BATCHED_OF_PAIRS, BATCHED_OF_NARROW, BATCHED = 5, 8, 12, 17
# Means and variances of float32, whose tile states leave out how many elements they are of. By steps or in strips, and
# in one batch: means down (n, 5), (n, 8), (n, 16), (n, 24), (n, 32), (n, 33), (n, 48), (n, 65), (n, 80), (n, 127) 0.78,
# 0.80, 0.81, 0.79, 0.79, 0.60, 0.70, 0.59, 0.71, 0.68 and 0.70, 0.81, 0.83, 0.84, 0.84, 0.75, 0.81, 0.69, 0.74, 0.74,
# but (n, 64) in strips 0.83 and 0.81; variances down (n, 5), (n, 8), (n, 16), (n, 32), (n, 33), (n, 64), (n, 65), (n,
# 100), (n, 127) 0.59, 0.58, 0.50, 0.48, 0.33, 0.62, 0.43, 0.50, 0.51 and 0.57, 0.64, 0.70, 0.64, 0.64, 0.63, 0.57,
# 0.55, 0.60; deviations down (n, 16), (n, 33) 0.45, 0.32 and 0.66, 0.57.
BATCHED_OF_COUNTED = 8
COMPACT_BYTES = {"Mean<Value<f32, f64>, f64>": 8, "Var<f32, false>": 16, "Std<f32, false>": 16}
# Of results that are wider than elements: int32 to int64 down (n, 17), (n, 33) 0.86, 0.76 by steps and 0.85, 0.86 at
# once; uint8 to uint64 down (n, 33) 0.85 and 0.84.
BATCHED_OF_WIDENED = 33
# Columns up to which whole rows are taken, of whole sectors too: of words; of their extremes; of pairs; of eight bytes.
# Maxima of float32 down (n, 120) 0.94 in strips and 0.94, but more is zeroed; int64 down (n, 64) 1.01 and 0.94.
MOST_OF_WORDS, MOST_OF_WORD_EXTREMES, MOST_BATCHED_OF_PAIRS, MOST_OF_EIGHTS = 127, 95, 64, 63
# Bytes of a line of memory: a warp's tile states fill whole ones. Down (n, 100) 0.78 where they do not, else 0.83.
LINE = 128
LARGE_RADIX, SMALL_RADIX = 16, 8  # tiles of a stretch: the more the fewer registers are left
PLANE_TILES = 8  # tiles of a plane from which on planes are chains of their own
# What an element costs: to fold and to write it, eight rows together, four, and each of those left.
BATCH, HALF, SINGLE = 8, 0.75, 0.65
# And a state that is stored for the warps that look back, by as many of their lanes as share a column: sums of float32
# down (n, 5) by warp groups of four warps, which have 75 row groups' states, and of one 0.83 and 0.90.
PART_STATE_COST = 0.5

FEWEST_STATES = 8  # that a tile publishes, so that those of neighbouring tiles lie apart
SCRATCH = 768  # bytes of SharedScratch but for states (kernels/scan/contiguous_tile.cuh)
LAYOUT_WORDS = 2 * 11  # of ``Strips``, used by strips of columns alone


@dataclass(frozen=True)
class Tiles:
    """How rows are cut into tiles, and the warps that scan them."""

    row_groups: int
    rows: int  # of a row group
    warps: int  # of a block
    shared_bytes: int
    joined: bool = False  # planes are one chain
    lane_state_bytes: int = 8  # that a lane publishes
    radix: int = 0  # of the look-back, where tile states are polled in one batch
    published_bytes: int = 0  # of a tile, where they are
    cluster_blocks: int = 1  # tiles that are published as one


@dataclass(frozen=True)
class _LookBack:
    """How it is found what comes before a tile."""

    warps: int
    radix: int = 0  # where tile states are polled in one batch (kernels/scan/chained_look_back.cuh)
    states_per_lane: int = 0
    published_bytes: int = 0  # of a tile

    @property
    def template(self) -> tuple[str, ...]:
        return (str(self.radix), str(self.states_per_lane)) if self.radix else ()


@dataclass(frozen=True)
class _Cut:
    warp_groups: int
    warps: int  # of each
    row_groups: int  # of all
    rows: int
    shared_bytes: int


def plan(scan: Scan) -> Plan | None:
    """The launch, where rows lie one after another in both arrays; None where they do not, or columns are many."""
    op, lead = scan.op, lead_of(scan)
    if lead is None:
        return None
    look_back = _look_back(scan)
    if not _pays(scan, look_back):
        return None
    lane_columns = max(1, WORD // scan.sizes[0])
    while scan.columns.size % lane_columns or lane_columns * scan.widest > PACK or lead % lane_columns:
        lane_columns //= 2
    if look_back.warps > 2 and op.state_bytes > LARGE and not look_back.radix:
        return None
    cut = _cut(scan, lane_columns, look_back)
    if cut is None:
        return None
    joined = scan.plane_count > 1 and scan.length < PLANE_TILES * cut.row_groups * cut.rows
    if joined and not _planes_follow(scan):
        return None
    if not joined and scan.plane_count >= FEW_CHAINS:
        return None
    numbers = (cut.warp_groups, cut.warps, lane_columns, look_back.warps)
    flags = (flag(joined), flag(scan.exclusive))
    template = ", ".join((op.type, op.emits, *map(str, numbers), *flags, *look_back.template))
    tiles = Tiles(
        cut.row_groups,
        cut.rows,
        cut.warp_groups * cut.warps + WRITE_DELAY * look_back.warps,
        cut.shared_bytes,
        joined,
        op.running_bytes if joined else op.state_bytes,
        look_back.radix,
        look_back.published_bytes,
    )
    return launch(scan, lead, f"scan_tiles<ContiguousColumnScan<{template}>>", tiles)


def lead_of(scan: Scan) -> int | None:
    """Elements that lack before the first one, so that packs are aligned. None where rows do not lie one after another
    in both arrays, or packs are not aligned at the same elements."""
    if len(scan.sizes) != 2 or not scan.line_dims or not scan.lies_in_packs:
        return None
    (a, b), width = scan.sizes, scan.columns.size
    steps = tuple(strides[scan.arrays.axis] for strides in scan.arrays.strides)
    if width < 2 or scan.apart(scan.columns) != (a, b) or steps != (width * a, width * b):
        return None
    offsets = [scan.arrays.phases, *map(scan.apart, scan.planes)]
    if not all(any((n * a - p) % PACK == 0 and (n * b - q) % PACK == 0 for n in range(PACK)) for p, q in offsets):
        return None
    return scan.arrays.phases[0] // a if a <= b else scan.arrays.phases[1] // b


def launch(scan: Scan, lead: int, kernel: str, tiles: Tiles) -> Plan:
    """The plan, of one launch."""
    width, count = scan.columns.size, scan.plane_count
    chains = 1 if tiles.joined else count
    positions = scan.length * width * count // chains + (lead if chains == 1 else PACK - 1)
    clusters = -(-positions // (tiles.cluster_blocks * tiles.row_groups * tiles.rows * width))
    links = clusters * tiles.cluster_blocks
    each = tiles.published_bytes or max(FEWEST_STATES, width) * 16 * -(-tiles.lane_state_bytes // 8)
    tile_states = chains * chain_tile_states(clusters, True, tiles.radix) * each
    shape = (scan.length, width, 1, width, 0, count)
    numbers = (*shape, links, tiles.rows, tiles.row_groups, chains * links, -1 if scan.reverse else 1)
    members = strip_words(numbers, scan.op.option, [0] * LAYOUT_WORDS, scan.planes)
    blocks = min(chains * links, scan.gpu.processors // tiles.cluster_blocks * tiles.cluster_blocks)
    step = Step(kernel, blocks, LANES * tiles.warps, tiles.shared_bytes)
    return Plan((step,), members, tile_states + 16, True, (0, 0))


def _planes_follow(scan: Scan) -> bool:
    """True where one plane follows another in memory."""
    each = tuple(scan.length * scan.columns.size * n for n in scan.sizes)
    return len(scan.planes) <= 1 and all(scan.apart(dim) == each for dim in scan.planes)


def _look_back(scan: Scan) -> _LookBack:
    """Which warps look back, and whether in one batch: where states are short enough to be read together."""
    op, size, width = scan.op, scan.sizes[0], scan.columns.size
    sums, of_pairs, compact = scan_task.adds_floats(op), scan_task.adds_pairs(op), _compact_bytes(scan)
    steps = _LookBack(min(LOOK_BACK_WARPS, -(-width // SEVERAL)))
    fewest = BATCHED_OF_PAIRS if of_pairs else BATCHED_OF_NARROW if size < WORD else BATCHED
    if sums and size == WORD:
        fewest = BATCHED_OF_SUMS
    if compact:
        fewest = BATCHED_OF_COUNTED
    if size != op.out_bytes:
        fewest = BATCHED_OF_WIDENED if size == WORD else WIDEST + 1
    if scan.plane_count > 1 or width < fewest or (op.state_bytes > 8 and not of_pairs and not compact):
        return steps
    nbytes = compact or (8 if sums or op.state_bytes <= WORD else 16)  # of a tile state
    per = LINE // nbytes  # columns of a warp
    radix = LARGE_RADIX if nbytes == 8 and width <= LOOK_BACK_WARPS * per else SMALL_RADIX
    if width > (LOOK_BACK_WARPS if nbytes == 8 else 2) * per:
        per *= 2
    look_back_warps = -(-width // per)
    # As wide as all these warps take, though more is zeroed: where as few lines as columns fill, sums of float32 down
    # (n, 65), (n, 100) 0.90, 0.89 and 0.89, 0.88, of int64 down (n, 33) 0.93 and 0.91.
    if look_back_warps > (LOOK_BACK_WARPS_OF_VARIANCES if compact == 16 else LOOK_BACK_WARPS):
        return steps
    return _LookBack(look_back_warps, radix, radix * per // LANES, per * look_back_warps * nbytes)


def _compact_bytes(scan: Scan) -> int:
    """Bytes of a tile state that leaves out how many elements it is of (chained_look_back.cuh); 0 of others."""
    return COMPACT_BYTES.get(scan.op.type, 0) if scan.sizes == (WORD, WORD) else 0


def _pays(scan: Scan, look_back: _LookBack) -> bool:
    """False where other kernels are faster."""
    op, width, size = scan.op, scan.columns.size, scan.sizes[0]
    read, row = width * size, width * scan.widest
    if scan.length < (SHORTEST_OF_FEW if scan.plane_count > 1 and read <= FEW else SHORTEST):
        return False
    if width > WIDEST:
        return False
    if look_back.radix and scan.sizes == (WORD, WORD):
        most = MOST_OF_WORD_EXTREMES if op.type.startswith("MinMax<") and row % SECTOR == 0 else MOST_OF_WORDS
        if op.type.startswith("Mean<") and row % LINE == 0:
            most = LANES
        return width <= most
    if look_back.radix and size == 8:
        return width <= (MOST_BATCHED_OF_PAIRS if op.state_bytes > 8 else MOST_OF_EIGHTS)
    if size == 8:
        return read <= MOST_OF_PAIRS
    if row % SECTOR == 0 and row >= WHOLE_SECTORS:
        return op.type.startswith("MinMax<") and row == WHOLE_SECTORS and size == WORD
    return read <= (MOST_OF_EXTREMES if op.type.startswith("MinMax<") else MOST)


def _cut(scan: Scan, lane_columns: int, look_back: _LookBack) -> _Cut | None:
    """Warps, and row groups and rows of a tile: those that leave few lanes idle, in different banks."""
    best, cut = math.inf, None
    width, (size, size_out), elements = scan.columns.size, scan.sizes, math.prod(scan.arrays.shape)
    bytes_each = STAGES * size + (0 if size == size_out else size_out)  # of shared memory, for an element of a tile
    most_warps = MOST_BATCHED if look_back.radix else MOST_WARPS
    for warp_groups, warps in GROUPS:
        if cut and warp_groups * warps < ENOUGH:
            break
        if warp_groups * warps + WRITE_DELAY * look_back.warps > most_warps:
            continue
        lanes = LANES * warps * lane_columns  # columns that a warp group has lanes for
        scratch = STATE_SLOTS * warp_groups * lanes * scan.op.running_bytes + SCRATCH
        most = min((scan.gpu.shared_bytes - scratch) // bytes_each, TILE // (size + size_out))
        most = min(most, max(warp_groups * lanes * 2 * FEWEST, elements // TILES)) // warp_groups
        for row_groups in range(lanes // width, lanes // width * 7 // 8, -1):
            highest = most // (row_groups * width)
            for rows in range(highest, highest * 2 // 3, -1):
                if row_groups * rows * width % (PACK // min(size, size_out)) or rows < min(FEWEST, warps):
                    continue
                steps = rows // BATCH + rows % BATCH // 4 * HALF + rows % 4 * SINGLE
                conflicts = _conflicts(rows * width % (256 // lane_columns), width, lane_columns, size)
                cost = lanes / (row_groups * width) * (5 + 3 * conflicts + 4 * steps * BATCH / rows)
                cost += 6 * most / (row_groups * rows * width) + 0.15 * warps + 0.2 * abs(warp_groups * warps - 14)
                stored = warp_groups if warps == 1 else warp_groups * row_groups  # states
                cost += PART_STATE_COST * stored / max(1, LANES * look_back.warps // width)
                if cost < best:
                    nbytes = warp_groups * row_groups * rows * width * bytes_each + scratch
                    best, cut = cost, _Cut(warp_groups, warps, warp_groups * row_groups, rows, nbytes)
    return cut


@functools.lru_cache(maxsize=4096)
def _conflicts(distance: int, width: int, lane_columns: int, size: int) -> float:
    """Accesses to shared memory for one of a warp, on average; row groups are so many elements from each other."""
    each = max(1, lane_columns * size // 4)  # words of a lane: as many lanes fewer are served at once
    worst = []
    for begin in range(0, 4 * LANES, LANES // each):
        words = set()
        for lane in range(begin, begin + LANES // each):
            group, column = divmod(lane * lane_columns, width)
            words.add(group * LANES**3 + (group * distance + column) * size // 4)  # groups have words of their own
        worst.append(most_in_a_bank(words, each))
    return sum(worst) / len(worst)
