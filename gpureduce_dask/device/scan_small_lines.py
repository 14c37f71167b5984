"""How scans of short lines are cut, between which nothing passes: by threads, lanes, sub-warps, or planes a warp."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from .layout import Dim
from .scan_task import ENTRY, LANES, PACK, Operator, Scan, Tiling, power_of_two
from .task import div_words, packed, walk_words

LANE_SHARES = 2  # of a warp in shared memory (kernels/scan/small_lines.cuh)
# Lines one after another. H200, CUDA 13.0, 4 GiB, 2026-11, sums of float32, by whole lines and in tiles: (n, 3) 1.00
# and 0.59, (n, 32) 1.00 and 0.76, (n, 64) 0.97 and 0.76, (n, 100) 0.95 and 0.76; with 16 and with 32 warps at most,
# maxima of uint8 (n, 32) 0.84 and 0.99, sums of float16 (n, 17) 0.63 and 0.80.
WARPS = (32, 28, 24, 20, 16, 14, 12, 10, 8, 6)
ENOUGH_OF_WIDENED = 10  # of bytes to 64 bits, which sub-warps take better: sums of uint8 (n, 100) 0.76 and 0.87
MOST_OF_LARGE = 16  # where states, of more than 16 bytes, take registers
RUN = 36  # elements of a lane, or what comes next
PACKS = (16, 8, 4)  # bytes: the first that leaves PLENTY of warps, for as many lines a lane as packs divide
PLENTY = 14  # warps. Sums of float16 (n, 50) with 8, 16 and 32: 0.96, 0.99 and 0.96
ENOUGH = 8  # with 6, sums of float16 (n, 256) 0.66, by sub-warps 0.87
# Lines side by side. As above, by four columns and by one: (2, n) 1.04 and 0.43, (3, n) 0.91 and 0.64, (6, n) 0.90 and
# 0.84, (24, n) 0.82 and 0.70, (32, n) 0.98 and 0.97, (64, n) 0.95 and 0.96.
LONGEST_COLUMN = 64  # elements. (84, n) of float32 62 us and by a thread a line 44, (36, n) of complex64 70 and 60
THREADS = 256
RESIDENT = 1024  # threads of a processor, at least: fewer lines are better off with a thread each, at any strides
COLUMN_BYTES = 16  # bytes of a thread's columns
COLUMN_STATES, COLUMN_MOMENTS = 64, 96  # and of their states, of moments that have a table of 24 bytes each
BATCH = 64  # bytes that a thread loads at once
HEAVY = ("Mean<", "Var<", "Std<")  # whose code is long
HEAVY_ROWS, HEAVY_ROWS_OF_ROOTS = 8, 4  # of those, at most
WIDEST_OF_VECTORS, VECTORS = 2, (8, 4, 2)  # bytes of elements of which a load takes several, and how many


def lane_lines(scan: Scan) -> Tiling | None:
    """For dense lines; None where they are few, long or not aligned."""
    length, sizes = scan.length, scan.sizes
    if scan.lead != 0:
        return None
    table, cuts = _table_bytes(scan.op, 2 * length), []
    element = LANE_SHARES * sum(sizes[:-1]) + (0 if sizes[0] == sizes[-1] else sizes[-1])  # bytes of shared memory
    # Element by element lanes are in different banks where lines are odd.
    for pack in [n // scan.widest for n in PACKS if n >= scan.widest] + [1] * (length % 2):
        each = pack // math.gcd(length, pack)
        times = max(1, RUN // (each * length))
        each *= times - (times % 2 == 0)  # lines of a lane
        nbytes = LANES * each * length * element
        cuts.append((_warps_of(scan, nbytes, table), pack, each, nbytes))
    warps, pack, each, nbytes = next((cut for cut in cuts if cut[0] >= PLENTY), max(cuts, key=lambda cut: cut[0]))
    if warps < (ENOUGH_OF_WIDENED if (sizes[0], sizes[-1]) == (1, 8) else ENOUGH):
        return None
    tiles, arguments = -(-scan.arrays.lines // (LANES * each)), (warps, pack, scan.exclusive, scan.reverse)
    return Tiling(arguments, tiles, warps, scan.words(tiles, parts=each), warps * nbytes + table, chain=each * length)


def _table_bytes(op: Operator, numbers: int) -> int:
    """Bytes of shared memory for what variances take from a table (kernels/scan/moments_scan.cuh)."""
    return 8 * numbers if re.fullmatch(r"(Var|Std)<(half|bfloat16|f32|boolean|[iu](8|16)), false>", op.type) else 0


def _warps_of(scan: Scan, nbytes: int, table: int) -> int:
    """Warps that take shares of so many bytes of shared memory each, beside those of a table; 0 where too few could."""
    most = MOST_OF_LARGE if scan.op.state_bytes > 16 else max(WARPS)
    return next((w for w in WARPS if w <= most and w * nbytes <= scan.gpu.shared_bytes - table), 0)


def thread_columns(scan: Scan) -> Tiling | None:
    """For lines that lie side by side, in planes; None where results do not."""
    op, length, columns = scan.op, scan.length, scan.columns
    if columns.size < LANES or columns.c != op.out_bytes or length > LONGEST_COLUMN:
        return None
    most = scan.arrays.lines // (scan.gpu.processors * RESIDENT)  # columns of a thread
    has_table = op.type.startswith(HEAVY) and not op.type.endswith(", true>")
    states = (COLUMN_MOMENTS if has_table else COLUMN_STATES) // op.state_bytes
    is_narrow = len(scan.sizes) == 2 and scan.sizes[0] <= WIDEST_OF_VECTORS
    fitting = (n for n in VECTORS if is_narrow and n <= min(COLUMN_BYTES // scan.widest, states))
    vector = next(filter(scan.takes_columns, fitting), 1)  # neighbouring columns that one load takes
    nbytes = sum(max(4, vector * n) for n in op.itemsizes)
    groups = power_of_two(min(COLUMN_BYTES // nbytes, states // vector))
    while groups > 1 and columns.size % (LANES * vector * groups) > columns.size // 8:
        groups //= 2
    while vector > 1 and groups * vector > most:
        groups, vector = (groups // 2, vector) if groups > 1 else (1, vector // 2)
    each = groups * vector
    warps = min(THREADS // LANES, 1 << (-(-columns.size // (LANES * each)) - 1).bit_length())
    tiles = -(-columns.size // (LANES * warps * each))  # of a plane
    blocks = tiles * scan.plane_count
    if each > most or blocks >= 1 << 31:
        return None
    rows, apart = rows_per_batch(op, length, BATCH // (groups * nbytes)), scan.column_steps
    words = scan.words(tiles, parts=columns.size, units=apart, in_planes=True)
    arguments = (LANES * warps, groups, vector, rows, apart == scan.sizes, scan.exclusive)
    table = ENTRY * length if op.type.startswith(HEAVY) else 0  # of reciprocals (kernels/scan/reciprocal_table.cuh)
    return Tiling(arguments, blocks, warps, words, warps * table, chain=length * each)


def rows_per_batch(op: Operator, length: int, most: int) -> int:
    """A power of two, so many at most and no more than twice the elements of a line."""
    if op.type.startswith(HEAVY):
        most = min(most, HEAVY_ROWS_OF_ROOTS if op.type.startswith("Std<") else HEAVY_ROWS)
    return min(power_of_two(most), 1 << (length - 1).bit_length())


STAGED_SHARES = 3  # of a warp in shared memory (kernels/scan/warp_share.cuh)
# H200, CUDA 13.0, 4 GiB, 2026-11, in tiles and by sub-warps: sums of float32 (n, 200) 0.81 and 0.95, (n, 1000) 0.91 and
# 0.96, [:, 1:-1] of (n, 514) 0.62 and 0.89, of float64 (n, 100) 0.70 and 0.95, of float16 (n, 256) 0.57 and 0.87; but
# odd lines of float32, element by element, (n, 1023) 0.97 and 0.88, and lines of 8 KiB 0.96 and 0.75.
SUBWARPS = (32, 16, 8, 4, 2)  # lanes of one
BUSY_LANES = 0.75  # of the lanes' runs that are elements, at least, where one sub-warp has that
SHORTEST_SUBWARP_LINE, LONGEST_SUBWARP_LINE = 128, 8192  # bytes of a line
LEAST_RUN, FEW_LANES = 64, 8  # bytes of a lane's run, where so few lanes would not do for packs of fewer than 16


def subwarp_lines(scan: Scan) -> Tiling | None:
    """None where lines are few or long, or their elements lie apart."""
    op, arrays, length, sizes = scan.op, scan.arrays, scan.length, scan.sizes
    is_apart = any(strides[-1] != size for size, strides in zip(sizes, arrays.strides, strict=True))
    if is_apart or not SHORTEST_SUBWARP_LINE <= length * scan.widest <= LONGEST_SUBWARP_LINE:
        return None
    # Elements that can be taken at once: aligned in every array, wherever a line begins, no line ending among them.
    pack = max(1, min(PACK // scan.widest, *(scan.alignment(i) // size for i, size in enumerate(sizes))))
    in_place = sizes[0] == sizes[-1] and _aligned_alike(scan, scan.line_dims)  # results take the place of elements
    if in_place and pack == 1 and (sizes[0] == 4 or (sizes[0] == 8 and op.state_bytes == 8)):
        return None  # one line after another, in tiles, by packs
    lanes, run = _subwarp(length // pack, pack, sizes)
    subwarps, table = LANES // lanes, _table_bytes(op, lanes * run)
    # Bytes from line to line in shared memory: room for any alignment, and sub-warps in different banks.
    spans = ((-(-(length * n + 15) // 16) * 16, lanes * run * n // 16 * 16) for n in sizes)
    *pitches, pitch_out = (span + (lanes_span - span) % 128 for span, lanes_span in spans)
    pitch_out = 0 if in_place else pitch_out
    nbytes = subwarps * (STAGED_SHARES * sum(pitches) + pitch_out)
    if not (warps := _warps_of(scan, nbytes, table)):
        return None
    tiles = -(-arrays.lines // subwarps)
    words = scan.words(tiles, parts=run, units=(*pitches, pitch_out))
    arguments = (warps, pack, lanes, scan.exclusive, scan.reverse)
    cost = "SubwarpLineScan, single" if pack == 1 else ""
    return Tiling(arguments, tiles, warps, words, warps * nbytes + table, chain=run, cost=cost)


def _subwarp(packs: int, pack: int, sizes: tuple[int, ...]) -> tuple[int, int]:
    """Lanes that share a line of so many packs, and the elements of each."""
    # Runs with which neighbouring lanes are in different banks: of an odd number of packs, or of words.
    runs = {n: -(-packs // n) for n in SUBWARPS}
    runs = {n: run | 1 if pack * min(sizes) >= 2 else run + (4 - run) % 8 for n, run in runs.items()}
    few = FEW_LANES if pack * max(sizes) < 16 else 0
    busy = {n: packs / (n * run) for n, run in runs.items()}  # the part of the lanes' runs that are elements
    enough = [n for n in SUBWARPS if n == few or (n > few and runs[n] * pack * max(sizes) >= LEAST_RUN)]
    lanes = next((n for n in enough if busy[n] >= BUSY_LANES), max(enough, key=lambda n: (busy[n], n)))
    return lanes, runs[lanes] * pack


def _aligned_alike(scan: Scan, dims: Sequence[Dim]) -> bool:
    """True where the first operand and the results have one alignment wherever these dimensions lead."""
    return scan.arrays.phases[0] == scan.arrays.phases[-1] and all((dim.a - dim.c) % PACK == 0 for dim in dims)


# H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy by planes, and by threads or contiguous columns: sums of float32
# along the middle of (n, 7, 5) 0.98 and 0.46, (n, 12, 5) 0.96 and 0.54, (n, 100, 2) 0.89 and 0.61, (n, 20, 17) 0.95 and
# 0.79, of float64 (n, 7, 5) 0.99 and 0.68; maxima of uint8 0.76 and 0.25.
LONGEST_PLANE_LINE, LARGEST_PLANE = 512, 8192  # bytes of a line, and that a plane spans
MOST_WASTE = 10  # times the bytes of elements and results, that is worth the copies, at most
# Bytes of a share, read or written, and warps that are enough: with 2 and 4 KiB maxima of (n, 8, 4) 0.96 and 0.98, but
# of uint8 (n, 7, 5) 0.76 and 0.73; with 24 warps (n, 7, 5) of float64 0.90.
LEAST_SHARE, LEAST_SHARE_OF_NARROW, ENOUGH_PLANE_WARPS = 4096, 2048, 16
MISALIGNED = 0.9  # shares that begin anywhere: a guess
LANE_BATCH = 8  # elements that a lane reads at once, at most
Share = tuple[float, float, int, int]  # how well it uses lanes, processors and memory, the plan's waste, planes, warps


class PlaneLayout(NamedTuple):
    """How planes lie in one array: the members of ``PlaneLayout`` (kernels/core/scan_task.cuh), but for their share."""

    gap: int
    nbytes: int
    back: int
    pitch: int
    step: int
    row: int
    column: int
    in_place: bool = False  # no room of its own: results take the place of elements

    @classmethod
    def of(cls, scan: Scan, k: int, outer: Sequence[Dim], inner: Sequence[Dim]) -> PlaneLayout:
        """In the operand or among results: the innermost of the outer axes goes from one plane to the next."""
        size, step, gaps = scan.sizes[k], scan.steps[k], [scan.apart(dim)[k] for dim in outer]
        row, column = (scan.apart(dim)[k] for dim in inner)
        nbytes = size + (scan.length - 1) * abs(step) + (inner[0].size - 1) * row + (inner[1].size - 1) * column
        phase = PACK - size if any(n % PACK for n in gaps) else scan.arrays.phases[k]  # of the lowest byte, at most
        # Planes that lie nearly one after another, and not in the same banks, are copied as they lie.
        as_they_lie = 0 < gaps[-1] <= 2 * nbytes and gaps[-1] % (2 * PACK) != 0
        pitch = 0 if as_they_lie else (-(-(nbytes + phase) // PACK) | 1) * PACK
        return cls(gaps[-1], nbytes, scan.starts[k], pitch, step, row, column)

    def copied(self, count: int) -> int:
        """Bytes of so many planes that are copied."""
        return count * self.nbytes if self.pitch else (count - 1) * self.gap + self.nbytes

    def share(self, count: int) -> int:
        """Bytes of shared memory for as many."""
        return 0 if self.in_place else count * self.pitch or -(-(self.copied(count) + PACK - 1) // PACK) * PACK


def small_lines(scan: Scan) -> Tiling | None:
    """For short lines at any strides, whose results lie one after another; None where no planes of them are small."""
    arrays, sizes = scan.arrays, scan.sizes
    if len(sizes) != 2 or scan.length * scan.widest > LONGEST_PLANE_LINE or not scan.is_contiguous(1):
        return None
    offsets = zip(sizes, arrays.phases, arrays.strides, strict=True)
    goes_back = any(n > 1 and step < 0 for n, step in zip(arrays.shape, arrays.strides[0], strict=True))
    if goes_back or any(n % size for size, phase, strides in offsets for n in (phase, *strides)):
        return None
    ahead, behind = arrays.dims(range(arrays.axis)), arrays.dims(range(arrays.axis + 1, len(arrays.shape)))
    if scan.length == 1:  # the axis may lie anywhere
        ahead, behind = scan.line_dims, ()
    begins = range(len(ahead), max(0, len(ahead) + len(behind) - 3), -1)  # of planes' axes, two besides the scanned one
    found = (_planes(scan, ahead[:begin], (*ahead[begin:], *behind)) for begin in begins)
    return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def _planes(scan: Scan, outer: tuple[Dim, ...], inner: tuple[Dim, ...]) -> tuple[float, Tiling | None]:
    """How good planes of the scanned axis and inner ones are, that follow one another along the last outer one."""
    op, length = scan.op, scan.length
    *_, rows, columns = Dim(1, 0), Dim(1, 0), *inner
    one, other = (PlaneLayout.of(scan, k, outer, (rows, columns)) for k in range(2))
    if max(one.nbytes, other.nbytes) > LARGEST_PLANE:
        return 0.0, None
    layouts = one, other._replace(in_place=one == other and _aligned_alike(scan, outer))
    *runs, run = outer
    table = ENTRY * length if op.type.startswith(HEAVY) else 0  # of reciprocals
    use, waste, count, warps = _best_share(scan, rows.size * columns.size, run.size, layouts, table)
    if use * MOST_WASTE < 1:
        return 0.0, None
    shares, of_run = [layout.share(count) for layout in layouts], -(-run.size // count)
    tiles = of_run * math.prod(dim.size for dim in runs)
    members = [n for it, share in zip(layouts, shares, strict=True) for n in (*it[:4], share, *it[4:7])]
    words = packed(tiles, length, run.size, count, rows.size, columns.size, *members)
    words += struct.pack("2d", *op.option) + packed(*div_words(of_run), *walk_words(runs))
    nbytes = warps * (STAGED_SHARES * shares[0] + shares[1]) + table
    most = rows_per_batch(op, length, LANE_BATCH if op.state_bytes <= 8 else LANE_BATCH // 2)
    batch = next((n for n in range(most, most // 2, -1) if length % n == 0), most)  # of whole ones nothing is checked
    arguments = warps, batch, 2 if rows.size > 1 else int(columns.size > 1), scan.exclusive
    return use, Tiling(arguments, tiles, warps, words, nbytes, waste=waste)


def _best_share(scan: Scan, lines: int, planes: int, layouts: Sequence[PlaneLayout], table: int) -> Share:
    """Of planes of so many lines, of which so many follow one another."""
    least, elements = LEAST_SHARE if scan.widest >= 4 else LEAST_SHARE_OF_NARROW, lines * scan.length
    unit = max(PACK // math.gcd(PACK, layout.gap) for layout in layouts)
    best = 0.0, 1.0, 0, 0
    most = min(planes, unit + max(LANES, -(-least // (elements * scan.widest))))
    each = 1 if most <= 2 * LANES else unit
    for count in range(each, most + 1, each):
        one, other = (layout.share(count) for layout in layouts)
        if not (warps := _warps_of(scan, STAGED_SHARES * one + other, table)):
            break
        memory = count * elements * sum(scan.sizes) / (layouts[0].copied(count) + count * elements * scan.sizes[1])
        memory *= min(1, count * elements * scan.widest / least) * (MISALIGNED if count % unit else 1)
        busy = min(1, warps / ENOUGH_PLANE_WARPS)
        lanes = -(-count * lines // LANES) * LANES
        use = memory * busy * (count * lines) / lanes * planes / (-(-planes // count) * count)
        if use > best[0] * 1.02:
            best = use, 1 / (memory * math.sqrt(busy)), count, warps
    return best
