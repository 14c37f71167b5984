"""How a scan of short lines is cut: whole lines a thread, so that nothing passes between threads."""

from __future__ import annotations

import math

from .scan_task import Operands, Operator, Plan, Step, flag, words

LANES = 32
SHARES = 2  # of a warp in shared memory (kernels/scan/small_lines.cuh)
# Lines one after another. H200, CUDA 13.0, 4 GiB, 2026-11, sums of float32, by whole lines and in tiles: (n, 3) 1.00
# and 0.59, (n, 32) 1.00 and 0.76, (n, 64) 0.97 and 0.76, (n, 100) 0.95 and 0.76; with 16 and with 32 warps at most,
# maxima of uint8 (n, 32) 0.84 and 0.99, sums of float16 (n, 17) 0.63 and 0.80.
WARPS = (32, 28, 24, 20, 16, 14, 12, 10, 8, 6)
ENOUGH_OF_WIDENED = 10  # of bytes to 64 bits, which teams take better than fewer: sums of uint8 (n, 100) 0.76 and 0.87
MOST_OF_LARGE = 16  # where states, of more than 16 bytes, take registers
FEWEST = 1 << 14  # lines
RUN = 36  # elements of a lane, or what comes next
PACKS = (16, 8, 4)  # bytes: the first that leaves PLENTY of warps, for as many lines a lane as packs divide
PLENTY = 14  # warps. Sums of float16 (n, 50) with 8, 16 and 32: 0.96, 0.99 and 0.96
ENOUGH = 8  # with 6, sums of float16 (n, 256) 0.66, by teams 0.87
# Lines side by side. As above, by four columns and by one: (2, n) 1.04 and 0.43, (3, n) 0.91 and 0.64, (6, n) 0.90 and
# 0.84, (24, n) 0.82 and 0.70, (32, n) 0.98 and 0.97, (64, n) 0.95 and 0.96.
DEEPEST = 32  # elements of a line
THREADS = 256
WIDTH = 16  # bytes of a thread's columns
BATCH = 128  # bytes that a thread loads at once
FEWEST_ABREAST = 1 << 16  # lines


def along(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """For dense lines along the last axis; None where they are few, long or not aligned."""
    length, lines, sizes = arrays.shape[-1], arrays.lines, (*op.itemsizes, op.out_bytes)
    widest = max(sizes)
    if arrays.axis != len(arrays.shape) - 1 or lines < FEWEST or any(arrays.phases):
        return None
    if widest > 16 or any(n & (n - 1) for n in sizes):
        return None
    table = table_bytes(op, 2 * length)
    limit -= table
    cuts = [_cut(op, length, pack, sizes, limit) for pack in (n // widest for n in PACKS) if pack]
    if length % 2:  # element by element lanes are in different banks
        cuts.append(_cut(op, length, 1, sizes, limit))
    warps, pack, each, nbytes = next((cut for cut in cuts if cut[0] >= PLENTY), max(cuts, key=lambda cut: cut[0]))
    if warps < (ENOUGH_OF_WIDENED if sizes[0] == 1 and op.out_bytes == 8 else ENOUGH):
        return None
    tiles = -(-lines // (LANES * each))
    name = f"scan_lane_lines<{op.type}, {op.emits}, {warps}, {pack}, {flag(exclusive)}, {flag(reverse)}>"
    step = Step(name, min(-(-tiles // warps), processors), LANES * warps, warps * nbytes + table)
    members = words(lines=lines, length=length, tiles=tiles, parts=each, option=op.option)
    return Plan((step,), members, starts=(0,) * len(arrays.strides))


def _cut(op: Operator, length: int, pack: int, sizes: tuple[int, ...], limit: int) -> tuple[int, int, int, int]:
    """Warps, elements of a pack, lines of a lane, and bytes of shared memory for a warp's."""
    each = pack // math.gcd(length, pack)
    times = max(1, RUN // (each * length))
    each *= times - (times % 2 == 0)
    nbytes = _shared_bytes(each * length, sizes)
    return warps_of(op, nbytes, limit), pack, each, nbytes


def table_bytes(op: Operator, numbers: int) -> int:
    """Bytes of shared memory for what variances of few digits take from a table (kernels/scan/moments_scan.cuh)."""
    is_spread = op.type.startswith(("Var<", "Std<")) and op.type.endswith(", false>")
    return 8 * numbers if is_spread and op.out_bytes <= 4 else 0


def warps_of(op: Operator, nbytes: int, limit: int) -> int:
    """Warps that take shares by themselves, of so many bytes of shared memory each; 0 where they would be too few."""
    most = MOST_OF_LARGE if op.state_bytes > 16 else max(WARPS)
    return next((w for w in WARPS if w <= most and w * nbytes <= limit), 0)


def _shared_bytes(elements: int, sizes: tuple[int, ...]) -> int:
    """Of a warp, with so many elements a lane."""
    runs = [LANES * elements * n for n in sizes]
    return SHARES * sum(runs[:-1]) + (0 if sizes[0] == sizes[-1] else runs[-1])


def across(op: Operator, arrays: Operands, exclusive: bool, reverse: bool) -> Plan | None:
    """For lines that lie side by side in every array; None where they are few or long."""
    kept, length = arrays.kept(), arrays.shape[arrays.axis]
    if len(kept) != 1 or kept[0].size < FEWEST_ABREAST or length > DEEPEST:
        return None
    if (kept[0].a, kept[0].c) != (op.itemsizes[0], op.out_bytes) or kept[0].b != sum(op.itemsizes[1:]):
        return None
    steps = [s[arrays.axis] for s in arrays.strides]
    starts = [(length - 1) * s if reverse else 0 for s in steps]
    if reverse:
        steps = [-s for s in steps]
    nbytes = sum(max(4, n) for n in op.itemsizes)
    columns = max(1, WIDTH // nbytes)
    rows = min(max(1, BATCH // (columns * nbytes)), 1 << (length - 1).bit_length())
    name = f"scan_thread_columns<{op.type}, {op.emits}, {THREADS}, {columns}, {rows}, {flag(exclusive)}>"
    second = steps[1] if len(steps) > 2 else 0
    members = words(lines=kept[0].size, length=length, tiles=1, steps=(steps[0], second, steps[-1]), option=op.option)
    return Plan((Step(name, -(-kept[0].size // (THREADS * columns)), THREADS),), members, starts=tuple(starts))
