"""How a scan of lines that lie side by side is cut into strips of columns: a strip into tiles of rows, or, where strips
are many, a warp for each (kernels/scan/columns.cuh)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from . import scan_task
from .layout import span
from .scan_task import ENTRY, LANES, PACK, RING_SLOTS, STAGES, STATE_SLOTS, WRITE_DELAY, Scan, Tiling
from .tuning import PROCESSORS, SECTOR

SPARSEST = 4  # places of an element from one column to the next, at most: all that lies between is read
STRIP = 256  # bytes of a row, at most, that a warp takes at once
# And where rows are not aligned, so that a strip's ends, of whose sectors the neighbours have a part, are few among
# them: down (32768, 32767) 0.53 of a copy with 128, 0.72 with 256, 0.93 with 512. Columns of a lane: as many look back.
STRIP_MISALIGNED, MOST_STRIDED = 512, 4
WORD, WORD_OF_NARROW = 8, 4  # bytes of a lane in an aligned row: of float32 with 4, 8 and 16 0.97, 1.02 and 0.71
# Strips that several columns a lane must leave: down (n, 1024) 0.85 and 0.90 with one and two, (n, 128) 0.85 and 0.84.
STRIPS = 4
MANY_IN_SEGMENTS = 4224  # columns, of which a lane takes two, of sums in segments: down (32768, 32768) 0.86, else 0.78

# Warps of a block, those that look back among them: the most that leave lanes some rows. H200, CUDA 13.0, 4 GiB,
# 2026-11, sums of float32: 0.92 of a copy with 18 and 0.90 with 16 down (32768, 32768), 0.82 and 0.86 down (2^25, 32).
WARPS = (16, 10, 6, 4)
WARPS_OF_MANY = (18, *WARPS)  # where chains are many, and a column wide
# Of large states, which take registers, also by two warps a tile: nanvar of uint32 with 16, 10, 6 450, 287, 248 us.
LARGE_BYTES, WARPS_OF_LARGE, LOOK_BACK_OF_LARGE = 32, (WARPS[1:], (12, 8, 6)), 2  # the last: that share a tile's states
FEWEST = 4  # rows of a lane
TILE = 128 << 10  # bytes of a tile, read and written, at most: more makes the last round of tiles too long
TILES = 512  # as many at least, if that leaves lanes some rows
FEW_CHAINS = PROCESSORS // 2  # whose tiles look back further than to the one before them
# Whose warps find reciprocals once for all columns: means of float32 down (n, 64) 0.83, not 0.77, but not of integers
BY_TABLE = re.compile(r"Mean<Value<(half|bfloat16|f32), f64>, f64>|(Var|Std)<([iu]\d+|boolean|f64), false>")


class RowLayout(NamedTuple):
    """How an operand's rows lie in shared memory: members of ``RowLayout`` (kernels/core/scan_task.cuh)."""

    row: int  # bytes of shared memory for one
    joined: bool
    ahead: list[int]  # members before the bytes of a warp's rows, and behind them
    behind: list[int]

    @classmethod
    def of(cls, strips: Strips, i: int) -> RowLayout:
        scan = strips.scan
        size, step, column_step = scan.sizes[i], scan.steps[i], scan.column_steps[i]
        nbytes = (strips.width - 1) * column_step + size
        strip = strips.width * column_step if strips.count > 1 else 0
        phase = (scan.arrays.phases[i] - strips.lead * column_step) % PACK  # of the strips behind the first
        # Bytes that the operand owns, relative to the first element that is scanned.
        low, high = (end - scan.starts[i] for end in span(scan.arrays.shape, scan.arrays.strides[i], size))
        joined = (strips.count == 1 or not column_step) and nbytes <= abs(step) <= nbytes * 5 // 4
        packs = -(-nbytes // PACK) + any(n % PACK for n in (phase, strip, *scan.row_steps(i)))
        ahead = [step, packs * PACK, step % PACK, column_step, low, high, int(joined)]
        behind = [LANES // packs, -(-(1 << 16) // packs), size - column_step]
        return cls(abs(step) if joined else packs * PACK, joined, ahead, behind)

    def share(self, rows: int) -> int:
        """Bytes of shared memory for a warp's rows."""
        return rows * self.row + (32 + -rows * self.row % PACK if self.joined else 0)


@dataclass
class Strips:
    """How columns are cut: whole sectors of memory, all but those at the ends."""

    scan: Scan
    lane_columns: int  # columns of a lane
    column_stride: int = 1  # from one of them to the next

    def __post_init__(self) -> None:
        scan, columns, most = self.scan, self.scan.columns.size, LANES * self.lane_columns
        self.width, self.count, self.lead = columns, 1, 0  # of a strip; of a plane; columns that the first one lacks
        most = min(most, STRIP // scan.widest) if self.lane_columns == 1 else most  # of several no lane idles
        if columns > most:
            unit = SECTOR // min(scan.sizes)
            if scan.columns.a > 0 and not any(n % PACK for n in scan.row_steps(0)):
                lead = scan.arrays.phases[0] // scan.sizes[0]
                self.lead = lead if lead % self.lane_columns == 0 else 0
            columns += self.lead
            self.width = min(most, -(-columns // (-(-columns // most) * unit)) * unit)
            self.count = -(-columns // self.width)
        self.chains = scan.plane_count * self.count  # strips of all planes
        self.is_anchored = self.chains < FEW_CHAINS  # by tile states of several levels
        self.row_groups = 1 if self.lane_columns > 1 else LANES // self.width  # lanes in one column, each with own rows
        self.layouts = [RowLayout.of(self, i) for i in range(len(scan.op.itemsizes))]
        self.row_bytes = STAGES * sum(layout.row for layout in self.layouts)  # of shared memory for a row
        # Bytes of a row of results in shared memory: of whole rows, too short to be written by a warp at once.
        written = self.width * scan.op.out_bytes
        is_short = self.row_groups > 1 or written % SECTOR != 0
        self.staged = written if is_short and self.count == 1 and abs(scan.steps[-1]) == written else 0

    def share(self, rows: int) -> int:
        """Bytes of shared memory for a warp's rows, so many of a lane."""
        return STAGES * sum(layout.share(self.row_groups * rows) for layout in self.layouts)

    def words(self, links: int, rows: int) -> bytes:
        """With so many tiles a chain, and rows of a lane."""
        numbers = (self.count, self.width, self.lead, self.chains, links, rows, self.row_groups, self.chains * links)
        layouts = [n for it in self.layouts for n in (*it.ahead, it.share(self.row_groups * rows), *it.behind)]
        return self.scan.strip_words((*numbers, self.scan.steps[-1]), layouts)


def column_strips(scan: Scan) -> Tiling | None:
    """In tiles, where lines lie side by side in every array; None where they do not, or lie far apart."""
    op = scan.op
    is_near = all(0 <= step <= SPARSEST * n for step, n in zip(scan.column_steps, op.itemsizes, strict=False))
    if not is_near or scan.columns.c != op.out_bytes:
        return None
    strips = Strips(scan, *_columns_of_lane(scan))
    is_slow = strips.lane_columns == 1 and strips.is_anchored and op.published_bytes() > PACK
    back = LOOK_BACK_OF_LARGE if is_slow else strips.lane_columns  # warps that look back for a tile
    shapes: tuple[int, ...] = WARPS if strips.lane_columns > 1 or strips.is_anchored else WARPS_OF_MANY
    shapes = WARPS_OF_LARGE[is_slow] if op.state_bytes + op.itemsizes[0] > LARGE_BYTES else shapes
    counts = [n - WRITE_DELAY * back for n in shapes]  # of warps that scan
    return next(filter(None, (_tiling(strips, n, back) for n in counts if n > 1)), None)


def _columns_of_lane(scan: Scan) -> tuple[int, int]:
    """How many columns a lane takes, and from one of them to the next. Side by side as many as fill a word, where all
    rows are aligned to that; where rows are not aligned, a warp's width apart, as many as fill a strip."""
    op, columns, sizes = scan.op, scan.columns, scan.sizes
    in_segments = op.type.startswith("Segmented<Sum<") and sizes == (4, 1, 4) and scan.arrays.lines >= MANY_IN_SEGMENTS
    if not in_segments and (len(sizes) > 2 or op.state_bytes > 8):
        return 1, 1
    nbytes, strips = (WORD_OF_NARROW, 1) if sizes[0] < 4 else (WORD, STRIPS)
    count = nbytes // sizes[0]
    is_wide = columns.size >= LANES * count * strips and count * op.out_bytes <= 16
    if count > 1 and is_wide and scan.takes_columns(count):
        return count, 1
    is_whole = columns.a == sizes[0] and all(abs(s) == columns.size * n for s, n in zip(scan.steps, sizes, strict=True))
    if is_whole and not in_segments and LANES < columns.size < 2 * LANES:
        return 2, LANES  # whole rows leave no sector to another strip: (n, 33) 0.49 and 0.57, (n, 48) 0.78 and 0.84
    is_aligned = not any(n % SECTOR for n in (*scan.row_steps(0), scan.arrays.phases[-1], *scan.row_steps(-1)))
    most = 1 if in_segments or is_aligned else min(MOST_STRIDED, STRIP_MISALIGNED // scan.widest // LANES)
    count = scan_task.power_of_two(min(most, columns.size // LANES))
    return (count, LANES) if count > 1 else (1, 1)


def _tiling(strips: Strips, warps: int, back: int) -> Tiling | None:
    """With as many rows of a lane as fit, tiles of a line alike; None where so many warps have too few."""
    scan, row_groups, lane_columns = strips.scan, strips.row_groups, strips.lane_columns
    op, length, limit, lanes = scan.op, scan.length, scan.gpu.shared_bytes, warps * row_groups
    table = ENTRY if not scan.exclusive and BY_TABLE.fullmatch(op.type) else 0  # bytes of shared memory for each row
    scratch = STATE_SLOTS * warps * LANES * lane_columns * op.state_bytes + RING_SLOTS * 64 + 64
    free = ((limit - scratch) // warps - STAGES * 48 * len(strips.layouts) - 48) // row_groups
    most = min(free // (strips.row_bytes + strips.staged + table), TILE // (strips.width * sum(scan.sizes) * lanes))
    most = _conflict_free_rows(min(most, max(2 * FEWEST, strips.chains * length // (TILES * lanes))), strips)
    if most < (FEWEST if warps > 2 else 1):
        return None
    links = -(-length // (lanes * most))
    rows = -(-length // (links * lanes))
    if row_groups > 1:
        rows = _conflict_free_rows(min(most, rows + 8), strips) if links > 1 else rows + (rows % 2 == 0)
    results = (row_groups * rows * strips.staged + 31) // PACK * PACK if strips.staged else 0
    shared_bytes = warps * (strips.share(rows) + results + row_groups * rows * table) + scratch
    if shared_bytes > limit:
        return None
    links = -(-length // (lanes * rows))
    # Of a column: of many chains each has one place, which is written again and again.
    each = op.published_bytes() if strips.is_anchored else 16 * -(-op.state_bytes // 8)
    states = scan_task.chain_tile_states(links, scan_task.radix_of(each)) if strips.is_anchored else 1
    published = strips.chains * LANES * lane_columns * states * each
    tiles, rounds = strips.chains * links, -(-strips.chains * links // scan.gpu.processors)
    arguments = (warps, lane_columns, strips.column_stride, strips.is_anchored, strips.staged > 0, scan.exclusive, back)
    cost = "StripScan, several a lane" if lane_columns > 1 == strips.column_stride else ""
    words, warps = strips.words(links, rows), warps + WRITE_DELAY * back
    return Tiling(arguments, tiles, warps, words, shared_bytes, published, chain=rounds, cost=cost)


def _conflict_free_rows(most: int, strips: Strips) -> int:
    """Rows of a lane, at most so many, with which the lanes of a warp are in different banks."""
    lanes, width, size = range(strips.row_groups * strips.width), strips.width, strips.scan.sizes[0]
    found = range(most, most * 3 // 4 if strips.row_groups > 1 else most - 1, -1)
    return min(found, key=lambda rows: scan_task.most_in_a_bank(lanes, width, rows * width, size), default=most)


# ---- a warp for each strip, alone: nothing is folded before and no tile looks back

# Operators with much to do for each byte. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy in tiles and alone, down
# (32768, 32768) of float32: var 0.64 and 0.97, std 0.48 and 0.89, mean 0.88 and 0.97, sums in segments 0.86 and 0.94.
# But nanvar 0.44 and 0.27, maxima in segments 0.97 and 0.94, sums 1.03 and 0.98, means of int32 0.94 and 0.91, sums of
# rows that no alignment suits 0.92 and 0.53; std of float64, roots of all digits, 0.52.
ALONE = re.compile(
    r"Var<(half|bfloat16|f32|f64|i32|u32), false>|Std<(half|bfloat16|f32), false>"
    r"|Mean<\w+<(half|bfloat16|f32|f64), f64>, (f64|Twofold)>"
)
ALONE_ALSO_EXCLUSIVE = "Segmented<Sum<"
SHORTEST_ALONE = 256  # rows: of as many var 0.73 by a thread a line and 0.88
WIDTH = 8  # bytes of a lane's columns, of the widest elements; of variances of narrow ones half: float16 0.93, not 0.74
LEAST_ROW = 128  # bytes of a strip's row
FEWEST_ALONE = 8  # rows of a tile
RESERVED = 1024  # bytes of shared memory that a block takes besides
# Warps of a processor, and their share of what as many could do: best where its four quarters have as many each. As
# above, var down 24576, 32768, 40960 and 49152 columns, with 3, 4, 5 and 3 (in two waves): 0.96, 0.97, 0.86 and 0.97.
WARPS_ALONE = {8: 1.0, 4: 1.0, 3: 1.0, 7: 0.97, 6: 0.95, 5: 0.9}
# Of what all processors could do: at least, and as good as all. Down 20480 columns (0.81) 0.64 in tiles and 0.82, 12288
# (0.97) 0.64 and 0.76, but 8192 (0.65) 0.64 and 0.55.
ENOUGH, PLENTY = 0.75, 0.95


def serial_columns(scan: Scan) -> Tiling | None:
    """Where lines lie side by side in every array, in rows that begin where sectors do, and strips are many."""
    op = scan.op
    pays = op.type.startswith(ALONE_ALSO_EXCLUSIVE) or (not scan.exclusive and ALONE.fullmatch(op.type))
    if not pays or scan.length < SHORTEST_ALONE or scan.steps[0] % SECTOR or scan.steps[-1] % SECTOR:
        return None
    most = WIDTH // scan.widest // (2 if scan.sizes[0] == 2 and op.state_bytes > 16 else 1)
    counts = (n for n in (8, 4, 2, 1) if n <= most and LANES * n <= scan.columns.size and scan.takes_columns(n))
    cuts = (Strips(scan, n) for n in counts if LANES * n * scan.sizes[0] >= LEAST_ROW)
    strips, warps = next(((cut, warps) for cut in cuts if (warps := _warps_of(cut.chains))), (None, 0))
    if strips is None:
        return None
    free = (scan.gpu.shared_bytes + RESERVED) // warps - RESERVED - STAGES * len(strips.layouts) * LANES
    rows = free // (strips.row_bytes + ENTRY) // FEWEST_ALONE * FEWEST_ALONE
    if not rows:
        return None
    words, nbytes = strips.words(-(-scan.length // rows), rows), strips.share(rows) + ENTRY * rows
    return Tiling((strips.lane_columns, scan.exclusive), strips.chains, 1, words, nbytes)


def _warps_of(chains: int) -> int:
    """Warps of a processor with which so many strips, evenly divided, keep all processors busy; 0 where too few do."""
    waves = {warps: -(-chains // (PROCESSORS * warps)) for warps in WARPS_ALONE}
    shares = {warps: min(PLENTY, chains / (n * PROCESSORS * warps) * WARPS_ALONE[warps]) for warps, n in waves.items()}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= ENOUGH else 0
