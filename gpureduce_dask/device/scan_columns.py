"""How a scan of lines that lie side by side is cut: into strips of columns, those into tiles of rows, and of a strip
which columns a lane takes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from . import scan_task
from .layout import Dim
from .scan_task import (
    ENTRY,
    RING_SLOTS,
    SECTOR,
    STAGES,
    WRITE_DELAY,
    Operands,
    Operator,
    Plan,
    Step,
    chain_tile_states,
    flag,
    strip_words,
)
from .tuning import PROCESSORS

LANES = 32

# Bytes of states that one lane looks back for, where columns lie side by side: warps that need not look back scan.
# Maxima of bytes down (65536, 65536) 0.69 and 0.98 of a copy, sums of float16 0.79 and 0.86 (both by the word as
# well, kernels/scan/column_ops.cuh); but sums of uint8 in 64 bits, of which four are 32 bytes, 0.74 and 0.71. Of
# strided columns it is two at a time where elements are narrow and chains many: sums of float16 down (32768, 32767)
# 0.65 and 0.73; but of float32 down (n, 513), whose chains are few, 0.69 and 0.58.
STATE_BYTES = 16
# Columns of a lane: as many warps look back. Sums of float32 take fewer where lanes were idle and strips are as few:
# down (n, 257), in strips of 88, with four and three 0.73 and 0.77.
MOST_STRIDED = 4
# Strips of extremes of one or two bytes from which on a lane takes more, of which one warp looks back. H200, CUDA 13.0,
# 4 GiB, 2026-11, maxima of float16 down (32768, 65535) 0.76 and 0.81, of uint8 down (65536, 65535) 0.50 and 0.57; but
# sums of float16 0.74 and 0.57.
CHAINS_OF_NARROW = 128
# Bytes of a row where no alignment suits all rows, so that a strip's ends, of whose sectors the neighbours have a part,
# are few among them: down (32768, 32767) 0.53 of a copy with 128, 0.72 with 256, 0.93 with 512.
STRIP_MISALIGNED = 512
# Bytes that a lane takes at once of an aligned row of narrow elements; of those of four bytes down (32768, 32768) 0.97,
# 1.02 and 0.71 with 4, 8 and 16.
WORD, WORD_OF_NARROW = 8, 4
# Strips that several columns a lane must leave: down (n, 1024) 0.85 and 0.90 with one and two, (n, 128) 0.85 and 0.84.
STRIPS = 4
MANY_IN_SEGMENTS = 4224  # columns, whose chains are many (scan_columns.FEW_CHAINS)
# Columns of which a lane takes whole rows, where rows do not follow one another (scan_contiguous_columns.py): down
# (n, 3) 0.65 of a copy and 0.53 with one column a lane, (n, 5) 0.61 and 0.57; (n, 4), where lanes meet in their banks,
# 0.56 and 0.68.
WHOLE_ROWS = (3, 5)


def columns_of_lane(
    op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]
) -> tuple[int, int]:
    """How many columns a lane takes, and from one of them to the next."""
    if (lane_columns := _adjacent_columns(op, arrays, columns, planes, steps)) > 1:
        return lane_columns, 1
    if (lane_columns := _strided_columns(op, arrays, columns, planes, steps)) > 1:
        return lane_columns, LANES
    return columns.size if _takes_rows(op, arrays, columns, steps) else 1, 1


def _adjacent_columns(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """Columns side by side that a lane takes at once: as many as fill a word, where all rows are aligned to that."""
    nbytes, strips = (WORD_OF_NARROW, 1) if op.itemsizes[0] < 4 else (WORD, STRIPS)
    count = nbytes // op.itemsizes[0] if op.itemsizes[0] < nbytes else 1
    if len(op.itemsizes) > 1:
        return _adjacent_segments(op, arrays, columns, planes, steps)
    if columns.a != op.itemsizes[0]:
        return 1
    if columns.size < LANES * count * strips or columns.size % count:
        return 1
    written = count * op.out_bytes
    read_at = [arrays.phases[0], steps[0], *(d.a for d in planes)]
    write_at = [arrays.phases[-1], steps[-1], *(d.c for d in planes)]
    aligned = all(n % nbytes == 0 for n in read_at) and all(n % written == 0 for n in write_at)
    return count if aligned and written <= 16 and op.state_bytes <= 8 else 1


def _adjacent_segments(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """The same of sums with a flag each: of many columns of float32 two, down (32768, 32768) 0.78 and 0.86."""
    count, sizes = 2, (*op.itemsizes, op.out_bytes)
    if not op.type.startswith("Segmented<Sum<") or sizes != (4, 1, 4) or columns.size % count:
        return 1
    if (columns.a, columns.b) != op.itemsizes or math.prod(d.size for d in (*planes, columns)) < MANY_IN_SEGMENTS:
        return 1
    offsets = [arrays.phases, steps, *((d.a, d.b, d.c) for d in planes)]
    aligned = all(at % (count * n) == 0 for place in offsets for at, n in zip(place, sizes, strict=True))
    return count if aligned and columns.size >= LANES * count * STRIPS else 1


def _takes_rows(op: Operator, arrays: Operands, columns: Dim, steps: list[int]) -> bool:
    """True where a lane takes whole rows: few columns, one row after another in memory."""
    return (
        columns.size in WHOLE_ROWS
        and len(op.itemsizes) == 1
        and op.state_bytes <= 8
        and _rows_are_contiguous(op, columns, steps)
    )


def _rows_are_contiguous(op: Operator, columns: Dim, steps: list[int]) -> bool:
    """True where one row lies after another in memory."""
    sizes = (*op.itemsizes, op.out_bytes)
    return columns.a == sizes[0] and all(abs(s) == columns.size * n for s, n in zip(steps, sizes, strict=True))


def _strided_columns(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """Columns a warp's width apart, where rows are not aligned: as many as fill a strip."""
    if len(op.itemsizes) > 1 or op.state_bytes > 8:
        return 1
    if LANES < columns.size < 2 * LANES and _rows_are_contiguous(op, columns, steps):
        return 2  # whole rows leave no sector to another strip: (n, 33) 0.49 and 0.57, (n, 48) 0.78 and 0.84
    read_at = [steps[0], *(d.a for d in planes)]
    write_at = [arrays.phases[-1], steps[-1], *(d.c for d in planes)]
    if not any(n % 32 for n in (*read_at, *write_at)):
        return 1
    size, most = op.itemsizes[0], MOST_STRIDED
    of_narrow = op.type.startswith("MinMax<") and size <= 2
    if (
        of_narrow
        and math.prod(d.size for d in planes) * -(-columns.size // (STRIP_MISALIGNED // size)) >= CHAINS_OF_NARROW
    ):
        most = STRIP_MISALIGNED // size // LANES
    count = min(most, STRIP_MISALIGNED // max(size, op.out_bytes) // LANES)
    while columns.size < LANES * count:
        count //= 2
    if count == MOST_STRIDED and not planes and scan_task.adds_floats(op) and (size, op.out_bytes) == (4, 4):
        strips = -(-columns.size // (LANES * count))
        count = min(count, -(-columns.size // (strips * LANES)))
    return max(1, count)


def look_back_columns_of(op: Operator, lane_columns: int, column_stride: int, anchored: bool) -> int:
    """Of a lane's columns those that one of a warp that looks back does so for (kernels/scan/columns.cuh)."""
    if column_stride > 1 and (anchored or op.itemsizes[0] > 2):
        return 1
    state_limit = STATE_BYTES // 2 if anchored and op.itemsizes[0] < 4 else STATE_BYTES
    if lane_columns * op.state_bytes <= state_limit:
        return lane_columns
    return 2 if column_stride > 1 and 2 * op.state_bytes <= state_limit else 1


def conflict_free_rows(most: int, row_groups: int, width: int, op: Operator) -> int:
    """Rows of a lane, at most so many, with which the lanes of a warp are in different banks."""

    def conflicts(rows: int) -> int:
        banks: dict[int, set[int]] = {}
        for lane in range(row_groups * width):
            word = (lane // width * rows * width + lane % width) * op.itemsizes[0] // 4
            banks.setdefault(word % 32, set()).add(word)
        return max(map(len, banks.values()))

    return min(range(most, most * 3 // 4, -1), key=conflicts) if most > 1 else most


STATE_SLOTS = WRITE_DELAY + 1
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
# H200: chains, half as many as processors, whose tiles look back further than to the one before them. Tiles are taken
# early there, but for sums of floats in one column a lane, and of narrow ones: early and late, down (n, 64), (n, 96),
# (n, 128), (n, 200) of float32 0.86 and 0.88, 0.87 and 0.90, 0.87 and 0.91, 0.79 and 0.86 of a copy; of float16 down
# (n, 256), (n, 512), (n, 1024), (n, 2048) 0.79 and 0.83 to 0.85. But two columns of float32 a lane, down (n, 256),
# (n, 512), (n, 1000), 0.89 and 0.83, 0.91 and 0.88, 0.88 and 0.84; float64 down (n, 128) 0.86 and 0.82.
FEW_CHAINS = PROCESSORS // 2
# Means of which a warp finds the reciprocals of its rows once for all columns (kernels/scan/reciprocal_table.cuh).
# H200, 4 GiB, 2026-11, down (n, 64), (n, 1024), (n, 8192) of float32 0.77, 0.79, 0.91 and 0.83, 0.83, 0.96, of float16
# down (n, 1024), (n, 8192) 0.51, 0.57 and 0.58, 0.65.
BY_TABLE = re.compile(r"Mean<Value<(half|bfloat16|f32), f64>, f64>")
FEW_STRIPS = 16  # all alike; of more the last one has fewer columns
RADIX = 8  # where tile states are polled in one batch (kernels/scan/chained_look_back.cuh)


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
        return [*lies, self.share(rows), packs, LANES // max(1, packs), inverse, self.size - self.column_step]


@dataclass(frozen=True)
class Cut:
    """Strips and tiles."""

    warps: int
    lane_columns: int  # columns of a lane
    column_stride: int  # from one of them to the next
    width: int
    strips: int
    row_groups: int
    rows: int
    links: int
    look_back_warps: int
    look_back_columns: int  # columns that a lane of theirs looks back for
    stages_results: bool
    shared_bytes: int


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where lines lie side by side in every array; None where they do not, or are short."""
    kept, length = arrays.line_dims(), arrays.shape[arrays.axis]
    sizes = (*op.itemsizes, op.out_bytes)
    if not kept or kept[-1].size < 2 or any(n > 16 or n & (n - 1) for n in sizes):
        return None
    *planes, columns = kept
    column_steps = zip((columns.a, columns.b), op.itemsizes, strict=False)
    if columns.c != op.out_bytes or any(not 0 <= step <= SPARSEST * n for step, n in column_steps):
        return None
    steps = [s[arrays.axis] for s in arrays.strides]
    starts = [(length - 1) * s if reverse else 0 for s in steps]
    if reverse:
        steps = [-s for s in steps]
    count = math.prod(dim.size for dim in planes)
    lane_columns, column_stride = columns_of_lane(op, arrays, columns, planes, steps)
    if length < SHORTEST:
        return None
    width, strips, lead = strips_of(op, arrays, kept, steps, lane_columns, column_stride)
    own_columns = width
    if strips > 1 and _may_overlap(op, lane_columns, column_stride, exclusive):
        overlapping = _overlapping(op, columns.size, lane_columns)
        if count * overlapping[1] >= FEW_CHAINS:
            (width, strips, own_columns), lead = overlapping, 0
    layouts = [
        layout_of(arrays, i, n, steps[i], starts[i], kept, (width, strips, lead)) for i, n in enumerate(op.itemsizes)
    ]
    table_bytes = ENTRY if lane_columns == 1 and not exclusive and BY_TABLE.fullmatch(op.type) else 0
    cut = _cut(
        op, layouts, (count, length), (lane_columns, column_stride, width, strips), steps[-1], limit, table_bytes
    )
    if cut is None:
        return None
    chains, tiles = count * strips, count * strips * cut.links
    anchored = chains < FEW_CHAINS
    shape = (str(cut.warps), str(lane_columns), str(column_stride))
    prefetches_tile = anchored and len(op.itemsizes) == 1 and not _takes_tiles_late(op, cut, chains)
    template = (op.type, op.emits, *shape, *map(flag, (anchored, prefetches_tile, cut.stages_results, exclusive)))
    step = Step(
        f"scan_tiles<StripScan<{', '.join(template)}>>",
        min(tiles, processors),
        LANES * (cut.warps + WRITE_DELAY * cut.look_back_warps),
        cut.shared_bytes,
    )
    members = words(cut, (length, columns.size, lead, chains), (own_columns, steps[-1]), op.option, layouts, planes)
    radix = RADIX if _polls_in_batch(op, cut, chains) else 0
    each = 8 if radix else 16 * -(-cut.look_back_columns * op.state_bytes // 8)
    tile_states = chains * chain_tile_states(cut.links, anchored, radix) * LANES * cut.look_back_warps * each
    cost = "StripScan, several a lane" if lane_columns > 1 == column_stride and width > lane_columns else ""
    return Plan((step,), members, tile_states + 16, True, tuple(starts), -(-tiles // processors), cost)


def _takes_tiles_late(op: Operator, cut: Cut, chains: int) -> bool:
    """True where few chains had better take tiles as many do: not early. (n, 32) is one chain."""
    if _polls_in_batch(op, cut, chains):
        return True
    narrow_or_single = op.itemsizes[0] <= 2 or cut.lane_columns == 1
    return chains > 1 and cut.column_stride == 1 and narrow_or_single and scan_task.adds_floats(op)


def _polls_in_batch(op: Operator, cut: Cut, chains: int) -> bool:
    """True where few chains poll short tile states in one batch (kernels/scan/columns.cuh)."""
    words_apart = cut.column_stride > 1 and cut.look_back_columns == 1 and (*op.itemsizes, op.out_bytes) == (4, 4)
    return chains < FEW_CHAINS and words_apart and (scan_task.adds_floats(op) or op.state_bytes <= 4)


def words(
    cut: Cut,
    sizes: tuple[int, int, int, int],
    steps: tuple[int, int],
    option: tuple[float, float],
    layouts: list[_RowLayout],
    planes: list[Dim],
) -> bytes:
    """The members of ``Strips`` behind its pointers (kernels/core/scan_task.cuh).

    ``steps``: columns from one strip to the next, and bytes from one row of results to the next.
    """
    length, columns, lead, chains = sizes
    tiles, rows = chains * cut.links, cut.row_groups * cut.rows
    numbers = (length, columns, cut.strips, cut.width, lead, chains, cut.links, cut.rows, cut.row_groups, tiles, *steps)
    return strip_words(numbers, option, [word for each in (*layouts, _NONE)[:2] for word in each.words(rows)], planes)


def _may_overlap(op: Operator, lane_columns: int, column_stride: int, exclusive: bool) -> bool:
    """True where strips of many chains do (kernels/scan/columns.cuh).

    Of a scan in place one strip may read what another has written there. To extremes so far that makes no difference,
    but to those of all before it would.
    """
    extremes_of_bytes = op.out_bytes == 1 and lane_columns == 16 and not exclusive
    return column_stride > 1 and (op.out_bytes > op.itemsizes[0] or extremes_of_bytes)


def _overlapping(op: Operator, columns: int, lane_columns: int) -> tuple[int, int, int]:
    """Columns of a strip, strips, and columns from one to the next: a sector less one, that each writes it whole."""
    most, over = LANES * lane_columns, SECTOR // op.out_bytes - 1
    strips = -(-(columns - most) // (most - over)) + 1
    own_columns = most - over if strips > FEW_STRIPS else -(-(columns - over) // strips)
    return own_columns + over, -(-(columns - own_columns - over) // own_columns) + 1, own_columns


_NONE = _RowLayout(0, 0, 0, 0, 0, 0, False)


def strips_of(
    op: Operator, arrays: Operands, kept: tuple[Dim, ...], steps: list[int], lane_columns: int, column_stride: int
) -> tuple[int, int, int]:
    """Columns of a strip, strips, and columns that the first one lacks: of whole sectors of memory all but the ends."""
    columns, sizes = kept[-1].size, (*op.itemsizes, op.out_bytes)
    most = LANES * lane_columns if column_stride > 1 else min(LANES * lane_columns, max(8, STRIP // max(sizes)))
    if columns <= most:
        return columns, 1, 0
    unit = max(lane_columns if column_stride == 1 else 1, 32 // min(sizes))
    lead = arrays.phases[0] // sizes[0] if not any(n % 16 for n in (steps[0], *(d.a for d in kept[:-1]))) else 0
    lead = lead if kept[-1].a > 0 and lead % lane_columns == 0 else 0
    count = -(-(columns + lead) // most)
    width = min(most, -(-(columns + lead) // (count * unit)) * unit)
    return width, -(-(columns + lead) // width), lead


def layout_of(
    arrays: Operands, operand: int, size: int, step: int, start: int, kept: tuple[Dim, ...], cut: tuple[int, int, int]
) -> _RowLayout:
    width, strips, lead = cut
    *others, column_step = (d.b if operand else d.a for d in kept)
    nbytes = (width - 1) * column_step + size
    strip = width * column_step if strips > 1 else 0
    phase = (arrays.phases[operand] - lead * column_step) % 16  # of the strips behind the first
    is_aligned = not any(n % 16 for n in (phase, step, strip, *others))
    low, high = arrays.span(operand, size)
    is_joined = (strips == 1 or not column_step) and nbytes <= abs(step) <= nbytes * 5 // 4
    pitch = -(-nbytes // 16) * 16 + (0 if is_aligned else 16)
    return _RowLayout(step, pitch, size, column_step, low - start, high - start, is_joined)


def _cut(
    op: Operator,
    layouts: list[_RowLayout],
    shape: tuple[int, int],
    strip: tuple[int, int, int, int],
    step_out: int,
    limit: int,
    table_bytes: int,
) -> Cut | None:
    """Rows of a tile: as many as shared memory holds, tiles of a line alike."""
    planes, length = shape
    lane_columns, column_stride, width, strips = strip
    whole, count = column_stride == 1 < lane_columns == width, planes * strips  # a lane takes whole rows; chains
    look_back_columns = 1 if whole else look_back_columns_of(op, lane_columns, column_stride, count < FEW_CHAINS)
    look_back_warps = 1 if whole else lane_columns // look_back_columns
    row_groups = LANES if whole else 1 if lane_columns > 1 else LANES // width
    written = width * op.out_bytes
    stages_results = (
        (lane_columns == 1 or whole or column_stride > 1)
        and strips == 1
        and abs(step_out) == written
        and (row_groups > 1 or written % 32 != 0)
    )
    copied = width * (sum(op.itemsizes) + op.out_bytes)
    shapes = WARPS_OF_MANY if lane_columns == 1 and count >= FEW_CHAINS else WARPS
    for all_warps in WARPS_OF_LARGE if op.state_bytes >= LARGE_STATE_BYTES else shapes:
        warps = all_warps - WRITE_DELAY * look_back_warps
        if warps < 2:
            break
        scratch = (
            STATE_SLOTS * warps * LANES * look_back_warps * look_back_columns * op.state_bytes + RING_SLOTS * 64 + 64
        )
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
        return Cut(
            warps,
            lane_columns,
            column_stride,
            width,
            strips,
            row_groups,
            rows,
            links,
            look_back_warps,
            look_back_columns,
            stages_results,
            nbytes,
        )
    return None
