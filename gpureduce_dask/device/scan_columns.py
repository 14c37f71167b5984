"""How a scan of lines that lie side by side is cut: into strips of columns, those into tiles of rows, and of a strip
which columns a lane takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .scan_task import (
    ENTRY,
    LANES,
    RING_SLOTS,
    SECTOR,
    STAGES,
    STATE_SLOTS,
    WRITE_DELAY,
    Operator,
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

# Columns of a lane: as many warps look back.
MOST_STRIDED = 4
# Bytes of a row where no alignment suits all rows, so that a strip's ends, of whose sectors the neighbours have a part,
# are few among them: down (32768, 32767) 0.53 of a copy with 128, 0.72 with 256, 0.93 with 512.
STRIP_MISALIGNED = 512
# Bytes that a lane takes at once of an aligned row of narrow elements; of those of four bytes down (32768, 32768) 0.97,
# 1.02 and 0.71 with 4, 8 and 16.
WORD, WORD_OF_NARROW = 8, 4
# Strips that several columns a lane must leave: down (n, 1024) 0.85 and 0.90 with one and two, (n, 128) 0.85 and 0.84.
STRIPS = 4
MANY_IN_SEGMENTS = 4224  # columns, whose chains are many (scan_columns.FEW_CHAINS)


def columns_of_lane(scan: Scan) -> tuple[int, int]:
    """How many columns a lane takes, and from one of them to the next."""
    lane_columns = _adjacent_columns(scan)
    if lane_columns > 1 or len(scan.sizes) > 2 or scan.op.state_bytes > 8:
        return lane_columns, 1
    lane_columns = _strided_columns(scan)
    return lane_columns, LANES if lane_columns > 1 else 1


def _adjacent_columns(scan: Scan) -> int:
    """Columns side by side that a lane takes at once: as many as fill a word, where all rows are aligned to that. Of
    sums with a flag each, of many columns of float32, two: down (32768, 32768) 0.78 and 0.86."""
    op, size, columns = scan.op, scan.sizes[0], scan.columns.size
    nbytes, strips = (WORD_OF_NARROW, 1) if size < 4 else (WORD, STRIPS)
    count = max(1, nbytes // size)
    if len(scan.sizes) > 2:
        pays = op.type.startswith("Segmented<Sum<") and scan.sizes == (4, 1, 4)
        pays = pays and scan.plane_count * columns >= MANY_IN_SEGMENTS
    else:
        pays = op.state_bytes <= 8 and count * op.out_bytes <= 16
    return count if pays and columns >= LANES * count * strips and scan.takes_columns(count) else 1


def _rows_are_contiguous(scan: Scan) -> bool:
    """True where one row of the operand lies after another in memory, and of the results."""
    columns, sizes = scan.columns, scan.sizes
    return columns.a == sizes[0] and all(abs(s) == columns.size * n for s, n in zip(scan.steps, sizes, strict=True))


def _strided_columns(scan: Scan) -> int:
    """Columns a warp's width apart, where rows are not aligned: as many as fill a strip."""
    columns = scan.columns.size
    if LANES < columns < 2 * LANES and _rows_are_contiguous(scan):
        return 2  # whole rows leave no sector to another strip: (n, 33) 0.49 and 0.57, (n, 48) 0.78 and 0.84
    if not any(n % SECTOR for n in (*scan.row_steps(0), *scan.row_places(-1))):
        return 1
    count = min(MOST_STRIDED, STRIP_MISALIGNED // scan.widest // LANES)
    while columns < LANES * count:
        count //= 2
    return max(1, count)


def conflict_free_rows(most: int, row_groups: int, width: int, op: Operator) -> int:
    """Rows of a lane, at most so many, with which the lanes of a warp are in different banks."""

    def conflicts(rows: int) -> int:
        places = (lane // width * rows * width + lane % width for lane in range(row_groups * width))
        return most_in_a_bank(place * op.itemsizes[0] // 4 for place in places)

    return min(range(most, most * 3 // 4, -1), key=conflicts) if most > 1 else most


# Warps of a block, those that look back among them: the most that leave lanes some rows. H200, CUDA 13.0, 4 GiB,
# 2026-11, sums of float32: 0.92 of a copy with 18 and 0.90 with 16 down (32768, 32768), 0.82 and 0.86 down (2^25, 32).
WARPS = (16, 10, 6, 4)
WARPS_OF_MANY = (18, *WARPS)  # where chains are many, and a column wide
# Of large states, which take registers. H200, 2026-11-26, with 16, 10 and 6: nanvar of uint32 down (1082400, 31) 450,
# 287 and 248 us, of int32 down (28, 108941, 11) 237, 169 and 183, deviations of complex128 down (466032, 9) 197, 118
# and 135.
LARGE_STATE_BYTES = 32
WARPS_OF_LARGE = WARPS[1:]
FEWEST = 4  # rows of a lane
SHORTEST = 16  # elements of a line
STRIP = 256  # bytes of a row, at most, that a warp takes at once
SPARSEST = 4  # places of an element from one column to the next, at most: all that lies between is read
MOST = 128 << 10  # bytes of a tile, read and written: more makes the last round of tiles too long
TILES = 512  # as many at least, if that leaves lanes some rows
# Chains, half as many as processors, whose tiles look back further than to the one before them.
FEW_CHAINS = PROCESSORS // 2
# Means of which a warp finds the reciprocals of its rows once for all columns (kernels/scan/reciprocal_table.cuh).
# H200, 4 GiB, 2026-11, down (n, 64), (n, 1024), (n, 8192) of float32 0.77, 0.79, 0.91 and 0.83, 0.83, 0.96, of float16
# down (n, 1024), (n, 8192) 0.51, 0.57 and 0.58, 0.65.
BY_TABLE = re.compile(r"Mean<Value<(half|bfloat16|f32), f64>, f64>")
RADIX, RADIX_OF_LARGE, LARGE_TILE_STATE = 8, 16, 16  # of the look-back, where chains are few (kernels/scan/columns.cuh)


@dataclass(frozen=True)
class _RowLayout:
    """How an operand's rows lie in shared memory (``RowLayout``)."""

    step: int
    pitch: int
    size: int  # of an element
    column_step: int
    low: int
    high: int
    joined: bool

    @property
    def row(self) -> int:
        """Bytes of shared memory for a row."""
        return abs(self.step) if self.joined else self.pitch

    def share(self, rows: int) -> int:
        """Bytes of shared memory for a warp's rows."""
        if not self.pitch:
            return 0
        return rows * self.row + (32 + -rows * self.row % 16 if self.joined else 0)

    def words(self, rows: int) -> list[int]:
        packs = self.pitch // 16
        inverse = -(-(1 << 16) // packs) if packs else 0
        lies = [self.step, self.pitch, self.step % 16, self.column_step, self.low, self.high, int(self.joined)]
        return [*lies, self.share(rows), LANES // max(1, packs), inverse, self.size - self.column_step]


@dataclass(frozen=True)
class Strips:
    """How columns are cut."""

    width: int  # columns of a strip
    count: int
    lead: int  # columns that the first one lacks


@dataclass(frozen=True)
class Cut:
    """How a strip is cut into tiles."""

    warps: int
    lane_columns: int  # columns of a lane
    column_stride: int  # from one of them to the next
    row_groups: int
    rows: int
    links: int
    stages_results: bool
    shared_bytes: int


def plan(scan: Scan) -> Plan | None:
    """The launch, where lines lie side by side in every array; None where they do not, or are short."""
    op, processors = scan.op, scan.gpu.processors
    if not scan.line_dims or scan.columns.size < 2 or not scan.lies_in_packs or scan.length < SHORTEST:
        return None
    *column_steps, column_step_out = scan.apart(scan.columns)
    if column_step_out != op.out_bytes:
        return None
    if any(not 0 <= step <= SPARSEST * n for step, n in zip(column_steps, op.itemsizes, strict=True)):
        return None
    lane_columns, column_stride = columns_of_lane(scan)
    strips = strips_of(scan, lane_columns, column_stride)
    layouts = layouts_of(scan, strips)
    cut = _cut(scan, layouts, strips, lane_columns, column_stride)
    if cut is None:
        return None
    chains = scan.plane_count * strips.count
    tiles, anchored = chains * cut.links, chains < FEW_CHAINS
    flags = map(flag, (anchored, cut.stages_results, scan.exclusive))
    template = ", ".join((op.type, op.emits, f"{cut.warps}, {lane_columns}, {column_stride}", *flags))
    threads = LANES * (cut.warps + WRITE_DELAY * lane_columns)
    step = Step(f"scan_tiles<StripScan<{template}>>", min(tiles, processors), threads, cut.shared_bytes)
    members = words(scan, strips, layouts, cut.links, cut.rows, cut.row_groups)
    cost = "StripScan, several a lane" if lane_columns > 1 == column_stride and strips.width > lane_columns else ""
    scratch = chains * LANES * lane_columns * _tile_state_bytes(op, cut.links, anchored) + 16
    return Plan((step,), members, scratch, True, scan.starts, -(-tiles // processors), cost)


def _tile_state_bytes(op: Operator, links: int, anchored: bool) -> int:
    """Of a chain of so many tiles, for each of its columns."""
    if not anchored:  # one, written again and again
        return 16 * -(-op.state_bytes // 8)
    each = published_bytes(op)
    return each * chain_tile_states(links, RADIX if each <= LARGE_TILE_STATE else RADIX_OF_LARGE)


def words(scan: Scan, strips: Strips, layouts: list[_RowLayout], links: int, rows: int, row_groups: int) -> bytes:
    """The members of ``Strips`` behind its pointers (kernels/core/scan_task.cuh), with so many tiles a chain."""
    chains = scan.plane_count * strips.count
    shape = (scan.length, scan.columns.size, strips.count, strips.width, strips.lead, chains)
    numbers = (*shape, links, rows, row_groups, chains * links, scan.steps[-1])
    row_layouts = [word for each in (*layouts, _NONE)[:2] for word in each.words(row_groups * rows)]
    return strip_words(numbers, scan.op.option, row_layouts, scan.planes)


_NONE = _RowLayout(0, 0, 0, 0, 0, 0, False)


def strips_of(scan: Scan, lane_columns: int, column_stride: int) -> Strips:
    """Strips of whole sectors of memory, all but those at the ends."""
    columns = scan.columns.size
    most = LANES * lane_columns if column_stride > 1 else min(LANES * lane_columns, max(8, STRIP // scan.widest))
    if columns <= most:
        return Strips(columns, 1, 0)
    unit = max(lane_columns if column_stride == 1 else 1, SECTOR // min(scan.sizes))
    lead = scan.arrays.phases[0] // scan.sizes[0] if not any(n % 16 for n in scan.row_steps(0)) else 0
    lead = lead if scan.columns.a > 0 and lead % lane_columns == 0 else 0
    count = -(-(columns + lead) // most)
    width = min(most, -(-(columns + lead) // (count * unit)) * unit)
    return Strips(width, -(-(columns + lead) // width), lead)


def layouts_of(scan: Scan, strips: Strips) -> list[_RowLayout]:
    """How the rows of each operand lie in shared memory."""
    found, column_steps = [], scan.apart(scan.columns)
    for i, size in enumerate(scan.op.itemsizes):
        step, start, column_step = scan.steps[i], scan.starts[i], column_steps[i]
        nbytes = (strips.width - 1) * column_step + size
        strip = strips.width * column_step if strips.count > 1 else 0
        phase = (scan.arrays.phases[i] - strips.lead * column_step) % 16  # of the strips behind the first
        is_aligned = not any(n % 16 for n in (phase, strip, *scan.row_steps(i)))
        low, high = scan.arrays.span(i, size)
        is_joined = (strips.count == 1 or not column_step) and nbytes <= abs(step) <= nbytes * 5 // 4
        pitch = -(-nbytes // 16) * 16 + (0 if is_aligned else 16)
        found.append(_RowLayout(step, pitch, size, column_step, low - start, high - start, is_joined))
    return found


def _cut(scan: Scan, layouts: list[_RowLayout], strips: Strips, lane_columns: int, column_stride: int) -> Cut | None:
    """Rows of a tile: as many as shared memory holds, tiles of a line alike."""
    op, length, limit, width = scan.op, scan.length, scan.gpu.shared_bytes, strips.width
    has_table = lane_columns == 1 and not scan.exclusive and BY_TABLE.fullmatch(op.type)
    table_bytes = ENTRY if has_table else 0  # for each row
    count = scan.plane_count * strips.count  # of chains
    row_groups = 1 if lane_columns > 1 else LANES // width
    written = width * op.out_bytes
    stages_results = (
        (lane_columns == 1 or column_stride > 1)
        and strips.count == 1
        and abs(scan.steps[-1]) == written
        and (row_groups > 1 or written % 32 != 0)
    )
    copied = width * sum(scan.sizes)
    shapes = WARPS_OF_MANY if lane_columns == 1 and count >= FEW_CHAINS else WARPS
    for all_warps in WARPS_OF_LARGE if op.state_bytes >= LARGE_STATE_BYTES else shapes:
        warps = all_warps - WRITE_DELAY * lane_columns
        if warps < 2:
            break
        scratch = STATE_SLOTS * warps * LANES * lane_columns * op.state_bytes + RING_SLOTS * 64 + 64
        free = (limit - scratch) // warps - STAGES * 48 * len(layouts) - 48
        each = STAGES * sum(b.row for b in layouts) + (written if stages_results else 0) + table_bytes
        most = min(free // (each * row_groups), MOST // (copied * warps * row_groups))
        most = min(most, max(2 * FEWEST, count * length // (TILES * warps * row_groups)))
        if row_groups > 1:
            most = conflict_free_rows(most, row_groups, width, op)
        if most < (FEWEST if warps > 2 else 1):
            continue
        links = -(-length // (warps * row_groups * most))
        rows = -(-length // (links * warps * row_groups))
        if row_groups > 1:
            rows = (
                conflict_free_rows(min(most, rows + 8), row_groups, width, op) if links > 1 else rows + (rows % 2 == 0)
            )
        links = -(-length // (warps * row_groups * rows))
        results = (row_groups * rows * written + 31) // 16 * 16 if stages_results else 0
        shares = STAGES * sum(b.share(row_groups * rows) for b in layouts)
        nbytes = warps * (shares + results + row_groups * rows * table_bytes) + scratch
        if nbytes > limit:  # of the one tile of a line, with a row more so that lanes are in different banks
            continue
        shape = warps, lane_columns, column_stride, row_groups, rows, links
        return Cut(*shape, stages_results, nbytes)
    return None
