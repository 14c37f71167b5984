"""How a scan of lines that lie side by side is cut where one row follows another in memory: columns a lane, and the
launch, which is that of clusters too (scan_cluster_columns.py)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

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
    published_bytes,
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
MOST, MOST_OF_EXTREMES = 320, 160
WHOLE_SECTORS = 128
# Rows of a plane. Shorter ones, where they are not taken by planes (scan_small_lines.py), are taken by a thread a line,
# but of planes of few bytes a row: (n, 12, 5) along its middle axis as contiguous columns and by threads 0.55 and 0.45,
# (n, 100, 2) 0.61 and 0.20; but (n, 7, 5) 0.31 and 0.46, (n, 64, 16) 0.70 and 1.01.
SHORTEST, SHORTEST_OF_FEW, FEW = 256, 12, 32
# Warp groups of a block, and warps of each; those behind for little shared memory.
GROUPS = ((14, 1), (12, 1), (4, 3), (2, 7), (2, 6), (1, 12), (1, 8), (2, 8), (4, 1), (2, 2), (2, 1), (1, 1))
# Those that look back among them: of more, each has too few registers.
MOST_WARPS = 24
ENOUGH = 12  # warps that scan: fewer only where more do not fit
TILE = 128 << 10  # bytes of a tile, read and written, at most
TILES = 512  # at least, if that leaves contiguous columns some rows
FEWEST = 4  # rows of a lane's columns
WORD = 4  # bytes of elements that are not narrow
WIDEST = 128  # columns
FEW_OF_LARGE = 16  # columns, at most, where tile states are large and take registers of a lane that looks back
FEW_CHAINS = PROCESSORS // 2
# Columns up to which whole rows are taken, of whole sectors too: of words; of their extremes; of pairs; of eight bytes.
# Maxima of float32 down (n, 120) 0.94 in strips and 0.94, but more is zeroed; int64 down (n, 64) 1.01 and 0.94.
MOST_OF_WORDS, MOST_OF_WORD_EXTREMES, MOST_OF_PAIRS, MOST_OF_EIGHTS = 127, 95, 64, 63
# Bytes of a line of memory: a warp's tile states fill whole ones. Down (n, 100) 0.78 where they do not, else 0.83.
LINE = 128
LEVEL_BYTES = 64  # of tile states that a lane has registers for
PLANE_TILES = 8  # tiles of a plane from which on planes are chains of their own
# What an element costs: to fold and to write it, eight rows together, four, and each of those left.
BATCH, HALF, SINGLE = 8, 0.75, 0.65
# And a state that is stored for the warps that look back, by as many of their lanes as share a column: sums of float32
# down (n, 5) by warp groups of four warps, which have 75 row groups' states, and of one 0.83 and 0.90.
PART_STATE_COST = 0.5

SCRATCH = 768  # bytes of SharedScratch but for states (kernels/scan/contiguous_tile.cuh)
LAYOUT_WORDS = 2 * 11  # of ``Strips``, used by strips of columns alone


@dataclass(frozen=True)
class Tiles:
    """How rows are cut into tiles, and the warps that scan them."""

    row_groups: int
    rows: int  # of a row group
    warps: int  # of a block
    shared_bytes: int
    radix: int  # of the look-back
    published_bytes: int  # of a tile
    joined: bool = False  # planes are one chain
    cluster_blocks: int = 1  # tiles that are published as one


@dataclass(frozen=True)
class _LookBack:
    """How it is found what comes before a tile, by so many warps."""

    warps: int
    columns: int  # of a warp: their tile states fill lines of memory
    nbytes: int  # of a column's tile state
    radix: int

    @property
    def slots(self) -> int:
        """Tile states of a level that a lane reads together: lanes share them where a warp has more than columns."""
        return min(-(-self.radix // (LANES // self.columns)), max(1, LEVEL_BYTES // self.nbytes))


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
    if not _pays(scan):
        return None
    look_back = _look_back(scan, published_bytes(op, scan.plane_count > 1))
    cut = _cut(scan, look_back.warps)
    if cut is None:
        return None
    joined = scan.plane_count > 1 and scan.length < PLANE_TILES * cut.row_groups * cut.rows
    if joined and not _planes_follow(scan):
        return None
    if not joined and scan.plane_count >= FEW_CHAINS:
        return None
    look_back = _with_states_of(look_back, scan.columns.size, published_bytes(op, joined))
    numbers, flags = (cut.warp_groups, cut.warps, look_back.warps), (flag(joined), flag(scan.exclusive))
    behind = (look_back.radix, look_back.slots)
    template = ", ".join((op.type, op.emits, *map(str, numbers), *flags, *map(str, behind)))
    tiles = Tiles(
        cut.row_groups,
        cut.rows,
        cut.warp_groups * cut.warps + WRITE_DELAY * look_back.warps,
        cut.shared_bytes,
        look_back.radix,
        look_back.warps * look_back.columns * look_back.nbytes,
        joined,
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
    tile_states = chains * chain_tile_states(clusters, tiles.radix) * tiles.published_bytes
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


def _look_back(scan: Scan, nbytes: int) -> _LookBack:
    """Few columns a warp, for lanes to share tile states, where so many warps are enough."""
    width, columns = scan.columns.size, _in_a_line(nbytes)
    is_wide = width > (4 if nbytes == 8 else 2) * columns
    columns *= 2 if is_wide else 1
    return _LookBack(-(-width // columns), columns, nbytes, 8 if nbytes == 16 or (is_wide and nbytes == 8) else 16)


def _in_a_line(nbytes: int) -> int:
    """Columns whose tile states fill a line of memory, a power of two (kernels/scan/chained_look_back.cuh)."""
    return next((LINE // n for n in (8, 16, 32) if nbytes <= n), 2)


def _with_states_of(look_back: _LookBack, width: int, nbytes: int) -> _LookBack:
    """The same warps with tile states of so many bytes."""
    line = _in_a_line(nbytes)
    return replace(look_back, columns=-(-width // (look_back.warps * line)) * line, nbytes=nbytes)


def _pays(scan: Scan) -> bool:
    """False where other kernels are faster."""
    op, width, size = scan.op, scan.columns.size, scan.sizes[0]
    read, row = width * size, width * scan.widest
    if scan.length < (SHORTEST_OF_FEW if scan.plane_count > 1 and read <= FEW else SHORTEST):
        return False
    if width > (WIDEST if published_bytes(op, scan.plane_count > 1) <= PACK else FEW_OF_LARGE):
        return False
    if scan.sizes == (WORD, WORD):
        most = MOST_OF_WORD_EXTREMES if op.type.startswith("MinMax<") and row % SECTOR == 0 else MOST_OF_WORDS
        if op.type.startswith("Mean<") and row % LINE == 0:
            most = LANES
        return width <= most
    if size == 8:
        return width <= (MOST_OF_PAIRS if op.state_bytes > 8 else MOST_OF_EIGHTS)
    if row % SECTOR == 0 and row >= WHOLE_SECTORS:
        return op.type.startswith("MinMax<") and row == WHOLE_SECTORS and size == WORD
    return read <= (MOST_OF_EXTREMES if op.type.startswith("MinMax<") else MOST)


def _cut(scan: Scan, look_back_warps: int) -> _Cut | None:
    """Warps, and row groups and rows of a tile: those that leave few lanes idle, in different banks."""
    best, cut = math.inf, None
    width, (size, size_out), elements = scan.columns.size, scan.sizes, math.prod(scan.arrays.shape)
    bytes_each = STAGES * size + (0 if size == size_out else size_out)  # of shared memory, for an element of a tile
    for warp_groups, warps in GROUPS:
        if cut and warp_groups * warps < ENOUGH:
            break
        if warp_groups * warps + WRITE_DELAY * look_back_warps > MOST_WARPS:
            continue
        lanes = LANES * warps  # of a warp group
        scratch = STATE_SLOTS * warp_groups * lanes * scan.op.running_bytes + SCRATCH
        most = min((scan.gpu.shared_bytes - scratch) // bytes_each, TILE // (size + size_out))
        most = min(most, max(warp_groups * lanes * 2 * FEWEST, elements // TILES)) // warp_groups
        for row_groups in range(lanes // width, lanes // width * 7 // 8, -1):
            highest = most // (row_groups * width)
            for rows in range(highest, highest * 2 // 3, -1):
                if row_groups * rows * width % (PACK // min(size, size_out)) or rows < min(FEWEST, warps):
                    continue
                steps = rows // BATCH + rows % BATCH // 4 * HALF + rows % 4 * SINGLE
                conflicts = _conflicts(rows * width % 256, width, size)
                cost = lanes / (row_groups * width) * (5 + 3 * conflicts + 4 * steps * BATCH / rows)
                cost += 6 * most / (row_groups * rows * width) + 0.15 * warps + 0.2 * abs(warp_groups * warps - 14)
                stored = warp_groups if warps == 1 else warp_groups * row_groups  # states
                cost += PART_STATE_COST * stored / max(1, LANES * look_back_warps // width)
                if cost < best:
                    nbytes = warp_groups * row_groups * rows * width * bytes_each + scratch
                    best, cut = cost, _Cut(warp_groups, warps, warp_groups * row_groups, rows, nbytes)
    return cut


@functools.lru_cache(maxsize=4096)
def _conflicts(distance: int, width: int, size: int) -> float:
    """Accesses to shared memory for one of a warp, on average; row groups are so many elements from each other."""
    each = max(1, size // 4)  # words of a lane: as many lanes fewer are served at once
    worst = []
    for begin in range(0, 4 * LANES, LANES // each):
        words = set()
        for lane in range(begin, begin + LANES // each):
            group, column = divmod(lane, width)
            words.add(group * LANES**3 + (group * distance + column) * size // 4)  # groups have words of their own
        worst.append(most_in_a_bank(words, each))
    return sum(worst) / len(worst)
