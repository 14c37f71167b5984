"""How a scan of lines that lie side by side is cut: into strips of columns, and those into tiles of rows."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from . import scan_lanes
from .layout import Dim
from .scan_lanes import LANES
from .scan_task import LAG, SECTOR, SPOTS, STAGES, Operands, Operator, Plan, Step, flag, posts_of
from .task import div_words, walk_words
from .tuning import PROCESSORS

SLOTS = LAG + 1
# Warps of a block, those that look back among them: the most that leave lanes some rows. H200, CUDA 13.0, 4 GiB,
# 2026-11, sums of float32: 0.92 of a copy with 18 and 0.90 with 16 down (32768, 32768), 0.82 and 0.86 down (2^25, 32).
WARPS = (16, 10, 6, 4)
WARPS_OF_MANY = (18, *WARPS)  # where chains are many, and a column wide
FEWEST = 4  # rows of a lane
# Elements of a line: shorter ones are taken by a thread each, and so are short ones where they are many in one plane
# and a lane takes one column. As above, by threads and in strips: down (1024, 2^20) 0.92 and 0.96, one column a lane
# 0.89; rows of odd pitch, down (24, n) 0.82 and 0.27, (48, n) 0.68 and 0.70, (200, n) 0.56 and 0.75.
SHORTEST, SHORTEST_ASKEW = 256, 48
SHORT, MANY = 2048, 1 << 18
STRIP = 256  # bytes of a row, at most, that a warp takes at once
SPARSEST = 4  # places of an element from one column to the next, at most: all that lies between is read
MOST = 128 << 10  # bytes of a tile, read and written: more makes the last round of tiles too long
TILES = 512  # as many at least, if that leaves lanes some rows
# H200: chains, half as many as processors, whose tiles look back further than to the one before them. Tiles are drawn
# early there, but for sums of floats in one column a lane, and of narrow ones: early and late, down (n, 64), (n, 96),
# (n, 128), (n, 200) of float32 0.86 and 0.88, 0.87 and 0.90, 0.87 and 0.91, 0.79 and 0.86 of a copy; of float16 down
# (n, 256), (n, 512), (n, 1024), (n, 2048) 0.79 and 0.83 to 0.85. But two columns of float32 a lane, down (n, 256),
# (n, 512), (n, 1000), 0.89 and 0.83, 0.91 and 0.88, 0.88 and 0.84; float64 down (n, 128) 0.86 and 0.82.
FEW_CHAINS = PROCESSORS // 2
# Means of which a warp finds the reciprocals of its rows once for all columns (kernels/scan/reciprocal_table.cuh).
# H200, 4 GiB, 2026-11, down (n, 64), (n, 1024), (n, 8192) of float32 0.77, 0.79, 0.91 and 0.83, 0.83, 0.96, of float16
# down (n, 1024), (n, 8192) 0.51, 0.57 and 0.58, 0.65.
COUNTED = re.compile(r"Mean<Value<(half|bfloat16|f32), f64>, f64>")
PART = 16  # bytes of a row's reciprocals
FEW_STRIPS = 16  # all alike; of more the last one has fewer columns
STRETCH = 8  # tiles of one, where posts are looked for at once (kernels/scan/chained_look_back.cuh)


@dataclass(frozen=True)
class _Band:
    """How an operand's rows lie in shared memory (``Bands``)."""

    step: int
    pitch: int
    size: int  # of an element
    wide: int
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

    def words(self, rows: int) -> bytes:
        packs = self.pitch // 16
        inverse = -(-(1 << 16) // packs) if packs else 0
        each, back = abs(self.wide), max(0, -self.wide)
        return struct.pack(
            "14q",
            *(self.step, self.pitch, self.step % 16, self.wide, self.low, self.high, self.joined, self.share(rows)),
            *(packs, LANES // max(1, packs), inverse, each, self.size - each, back),
        )


@dataclass(frozen=True)
class Cut:
    """Strips and tiles."""

    warps: int
    together: int  # columns of a lane
    apart: int  # from one of them to the next
    width: int
    strips: int
    teams: int
    rows: int
    links: int
    lookers: int
    taken: int  # columns that a lane of theirs looks back for
    drained: bool
    shared_bytes: int


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where lines lie side by side in every array; None where they do not, or are short."""
    kept, length = arrays.kept(), arrays.shape[arrays.axis]
    sizes = (*op.itemsizes, op.out_bytes)
    if not kept or kept[-1].size < 2 or any(n > 16 or n & (n - 1) for n in sizes):
        return None
    *planes, columns = kept
    wide = (columns.a, columns.b)[: len(op.itemsizes)]
    if columns.c != op.out_bytes or any(abs(w) > SPARSEST * n for w, n in zip(wide, op.itemsizes, strict=True)):
        return None
    steps = [s[arrays.axis] for s in arrays.strides]
    starts = [(length - 1) * s if reverse else 0 for s in steps]
    if reverse:
        steps = [-s for s in steps]
    count = math.prod(dim.size for dim in planes)
    together, apart = scan_lanes.columns_of_lane(op, arrays, columns, planes, steps)
    if length < (SHORTEST_ASKEW if apart > 1 else SHORTEST):
        return None
    if together == 1 and length <= SHORT and arrays.lines >= MANY and min(sizes) >= 4 and not planes:
        return None
    width, strips, lead = strips_of(op, arrays, kept, steps, together, apart)
    own = width
    if strips > 1 and _may_overlap(op, together, apart, exclusive):
        overlapping = _overlapping(op, columns.size, together)
        if count * overlapping[1] >= FEW_CHAINS:
            (width, strips, own), lead = overlapping, 0
    bands = [
        band_of(arrays, i, n, steps[i], starts[i], kept, (width, strips, lead)) for i, n in enumerate(op.itemsizes)
    ]
    parts = PART if together == 1 and not exclusive and COUNTED.fullmatch(op.type) else 0
    cut = _cut(op, bands, (count, length), (together, apart, width, strips), steps[-1], limit, parts)
    if cut is None:
        return None
    chains, tiles = count * strips, count * strips * cut.links
    anchored = chains < FEW_CHAINS
    shape = (str(cut.warps), str(together), str(apart))
    early = anchored and len(op.itemsizes) == 1 and not _draws_late(op, cut, chains)
    template = (op.type, op.emits, *shape, *map(flag, (anchored, early, cut.drained, exclusive)))
    step = Step(
        f"scan_columns<{', '.join(template)}>",
        min(tiles, processors),
        LANES * (cut.warps + LAG * cut.lookers),
        cut.shared_bytes,
    )
    members = words(cut, (length, columns.size, lead, chains), (own, steps[-1]), op.option, bands, planes)
    stretch = STRETCH if _looks_at_once(op, cut, chains) else 0
    each = 8 if stretch else 16 * -(-cut.taken * op.state_bytes // 8)
    posts = chains * posts_of(cut.links, anchored, stretch) * LANES * cut.lookers * each
    return Plan((step,), members, posts + 16, True, tuple(starts))


def _draws_late(op: Operator, cut: Cut, chains: int) -> bool:
    """True where few chains had better draw tiles as many do: not early. (n, 32) is one chain."""
    if _looks_at_once(op, cut, chains):
        return True
    narrow_or_single = op.itemsizes[0] <= 2 or cut.together == 1
    return chains > 1 and cut.apart == 1 and narrow_or_single and scan_lanes.adds_floats(op)


def _looks_at_once(op: Operator, cut: Cut, chains: int) -> bool:
    """True where few chains look for short posts at once (kernels/scan/columns.cuh)."""
    words_apart = cut.apart > 1 and cut.taken == 1 and (*op.itemsizes, op.out_bytes) == (4, 4)
    return chains < FEW_CHAINS and words_apart and (scan_lanes.adds_floats(op) or op.state_bytes <= 4)


def words(
    cut: Cut,
    sizes: tuple[int, int, int, int],
    steps: tuple[int, int],
    option: tuple[float, float],
    bands: list[_Band],
    planes: list[Dim],
) -> bytes:
    """The members of ``Strips`` behind its pointers (kernels/core/scan_task.cuh).

    ``steps``: columns from one strip to the next, and bytes from one row of results to the next.
    """
    length, columns, lead, chains = sizes
    tiles, rows = chains * cut.links, cut.teams * cut.rows
    numbers = (length, columns, cut.strips, cut.width, lead, chains, cut.links, cut.rows, cut.teams, tiles, *steps)
    return (
        struct.pack("11Qq", *numbers)
        + struct.pack("2d", *option)
        + struct.pack("12Q", *div_words(chains), *div_words(cut.strips), *div_words(cut.width), *div_words(length))
        + b"".join(band.words(rows) for band in (*bands, _NONE)[:2])
        + struct.pack("49Q", *(n & ((1 << 64) - 1) for n in walk_words(planes)))
    )


def _may_overlap(op: Operator, together: int, apart: int, exclusive: bool) -> bool:
    """True where strips of many chains do (kernels/scan/columns.cuh).

    Of a scan in place one strip may read what another has written there. To extremes so far that makes no difference,
    but to those of all before it would.
    """
    extremes_of_bytes = op.out_bytes == 1 and together == 16 and not exclusive
    return apart > 1 and (op.out_bytes > op.itemsizes[0] or extremes_of_bytes)


def _overlapping(op: Operator, columns: int, together: int) -> tuple[int, int, int]:
    """Columns of a strip, strips, and columns from one to the next: a sector less one, that each writes it whole."""
    most, over = LANES * together, SECTOR // op.out_bytes - 1
    strips = -(-(columns - most) // (most - over)) + 1
    own = most - over if strips > FEW_STRIPS else -(-(columns - over) // strips)
    return own + over, -(-(columns - own - over) // own) + 1, own


_NONE = _Band(0, 0, 0, 0, 0, 0, False)


def strips_of(
    op: Operator, arrays: Operands, kept: tuple[Dim, ...], steps: list[int], together: int, apart: int
) -> tuple[int, int, int]:
    """Columns of a strip, strips, and columns that the first one lacks: of whole sectors of memory all but the ends."""
    columns, sizes = kept[-1].size, (*op.itemsizes, op.out_bytes)
    most = LANES * together if apart > 1 else min(LANES * together, max(8, STRIP // max(sizes)))
    if columns <= most:
        return columns, 1, 0
    unit = max(together if apart == 1 else 1, 32 // min(sizes))
    lead = arrays.phases[0] // sizes[0] if not any(n % 16 for n in (steps[0], *(d.a for d in kept[:-1]))) else 0
    lead = lead if kept[-1].a > 0 and lead % together == 0 else 0
    count = -(-(columns + lead) // most)
    width = min(most, -(-(columns + lead) // (count * unit)) * unit)
    return width, -(-(columns + lead) // width), lead


def band_of(
    arrays: Operands, operand: int, size: int, step: int, start: int, kept: tuple[Dim, ...], cut: tuple[int, int, int]
) -> _Band:
    width, strips, lead = cut
    *others, wide = (d.b if operand else d.a for d in kept)
    nbytes = (width - 1) * abs(wide) + size
    strip = width * wide if strips > 1 else 0
    phase = (arrays.phases[operand] - lead * wide) % 16  # of the strips behind the first
    is_aligned = wide >= 0 and not any(n % 16 for n in (phase, step, strip, *others))
    low, high = arrays.span(operand, size)
    is_joined = (strips == 1 or not wide) and nbytes <= abs(step) <= nbytes * 5 // 4
    pitch = -(-nbytes // 16) * 16 + (0 if is_aligned else 16)
    return _Band(step, pitch, size, wide, low - start, high - start, is_joined)


def _cut(
    op: Operator,
    bands: list[_Band],
    shape: tuple[int, int],
    strip: tuple[int, int, int, int],
    step_out: int,
    limit: int,
    parts: int,
) -> Cut | None:
    """Rows of a tile: as many as shared memory holds, tiles of a line alike."""
    planes, length = shape
    together, apart, width, strips = strip
    whole, count = apart == 1 < together == width, planes * strips  # a lane takes whole rows; chains
    taken = 1 if whole else scan_lanes.taken(op, together, apart, count < FEW_CHAINS)
    lookers = 1 if whole else together // taken
    teams = LANES if whole else 1 if together > 1 else LANES // width
    written = width * op.out_bytes
    drained = (
        (together == 1 or whole or apart > 1)
        and strips == 1
        and abs(step_out) == written
        and (teams > 1 or written % 32 != 0)
    )
    moved = width * (sum(op.itemsizes) + op.out_bytes)
    for all_warps in WARPS_OF_MANY if together == 1 and count >= FEW_CHAINS else WARPS:
        warps = all_warps - LAG * lookers
        if warps < 2:
            break
        notes = SLOTS * warps * LANES * lookers * taken * op.state_bytes + SPOTS * 64 + 64
        free = (limit - notes) // warps - STAGES * 48 * len(bands) - 48
        each = STAGES * sum(b.row for b in bands) + (written if drained else 0) + parts
        most = min(free // (each * teams), MOST // (moved * warps * teams))
        most = min(most, max(2 * FEWEST, count * length // (TILES * warps * teams)))
        if teams > 1:
            most = scan_lanes.spread(most, teams, width, op)
        if most < (FEWEST if warps > 2 else 1):
            continue
        links = -(-length // (warps * teams * most))
        rows = -(-length // (links * warps * teams))
        if teams > 1:
            rows = scan_lanes.spread(min(most, rows + 8), teams, width, op) if links > 1 else rows + (rows % 2 == 0)
        links = -(-length // (warps * teams * rows))
        results = (teams * rows * written + 31) // 16 * 16 if drained else 0
        shares = STAGES * sum(b.share(teams * rows) for b in bands)
        nbytes = warps * (shares + results + teams * rows * parts) + notes
        return Cut(warps, together, apart, width, strips, teams, rows, links, lookers, taken, drained, nbytes)
    return None
