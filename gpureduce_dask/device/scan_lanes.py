"""Which columns a lane takes of a strip of columns."""

from __future__ import annotations

import math

from .layout import Dim
from .scan_task import Operands, Operator

LANES = 32
# Bytes of states that one lane looks back for, where columns lie side by side: warps that need not look back scan.
# Maxima of bytes down (65536, 65536) 0.69 and 0.98 of a copy, sums of float16 0.79 and 0.86 (both by the word as
# well, kernels/scan/column_ops.cuh); but sums of uint8 in 64 bits, of which four are 32 bytes, 0.74 and 0.71. Of
# columns apart it is two at a time where elements are narrow and chains many: sums of float16 down (32768, 32767)
# 0.65 and 0.73; but of float32 down (n, 513), whose chains are few, 0.69 and 0.58.
POSTED = 16
# Columns of a lane: as many warps look back. Sums of float32 take fewer where lanes were idle and strips are as few:
# down (n, 257), in strips of 88, with four and three 0.73 and 0.77.
MOST_APART = 4
# Strips of extremes of one or two bytes from which on a lane takes more, of which one warp looks back. H200, CUDA 13.0,
# 4 GiB, 2026-11, maxima of float16 down (32768, 65535) 0.76 and 0.81, of uint8 down (65536, 65535) 0.50 and 0.57; but
# sums of float16 0.74 and 0.57.
CHAINS_OF_NARROW = 128
# Bytes of a row where no alignment suits all rows, so that a strip's ends, of whose sectors the neighbours have a part,
# are few among them: down (32768, 32767) 0.53 of a copy with 128, 0.72 with 256, 0.93 with 512.
STRIP_ASKEW = 512
# Bytes that a lane takes at once of an aligned row of narrow elements; of those of four bytes down (32768, 32768) 0.97,
# 1.02 and 0.71 with 4, 8 and 16.
WORD, WORD_OF_NARROW = 8, 4
# Strips that several columns a lane must leave: down (n, 1024) 0.85 and 0.90 with one and two, (n, 128) 0.85 and 0.84.
STRIPS = 4
MANY_IN_SEGMENTS = 4224  # columns, whose chains are many (scan_columns.FEW_CHAINS)
# Columns of which a lane takes whole rows, where they are no braid (scan_braid.py): down (n, 3) 0.65 of a copy and 0.53
# with one column a lane, (n, 5) 0.61 and 0.57; (n, 4), where lanes meet in their banks, 0.56 and 0.68.
WHOLE = (3, 5)


def columns_of_lane(
    op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]
) -> tuple[int, int]:
    """How many columns a lane takes, and how far they are apart."""
    if (together := _together(op, arrays, columns, planes, steps)) > 1:
        return together, 1
    if (together := _apart(op, arrays, columns, planes, steps)) > 1:
        return together, LANES
    return columns.size if _takes_rows(op, arrays, columns, steps) else 1, 1


def _together(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """Columns side by side that a lane takes at once: as many as fill a word, where all rows are aligned to that."""
    nbytes, strips = (WORD_OF_NARROW, 1) if op.itemsizes[0] < 4 else (WORD, STRIPS)
    count = nbytes // op.itemsizes[0] if op.itemsizes[0] < nbytes else 1
    if len(op.itemsizes) > 1:
        return _together_in_segments(op, arrays, columns, planes, steps)
    if columns.a != op.itemsizes[0]:
        return 1
    if columns.size < LANES * count * strips or columns.size % count:
        return 1
    written = count * op.out_bytes
    read_at = [arrays.phases[0], steps[0], *(d.a for d in planes)]
    write_at = [arrays.phases[-1], steps[-1], *(d.c for d in planes)]
    aligned = all(n % nbytes == 0 for n in read_at) and all(n % written == 0 for n in write_at)
    return count if aligned and written <= 16 and op.state_bytes <= 8 else 1


def _together_in_segments(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """The same of sums with a flag each: of many columns of float32 two, down (32768, 32768) 0.78 and 0.86."""
    count, sizes = 2, (*op.itemsizes, op.out_bytes)
    if not op.type.startswith("Segmented<Sum<") or sizes != (4, 1, 4) or columns.size % count:
        return 1
    if (columns.a, columns.b) != op.itemsizes or math.prod(d.size for d in (*planes, columns)) < MANY_IN_SEGMENTS:
        return 1
    begins = [arrays.phases, steps, *((d.a, d.b, d.c) for d in planes)]
    aligned = all(at % (count * n) == 0 for place in begins for at, n in zip(place, sizes, strict=True))
    return count if aligned and columns.size >= LANES * count * STRIPS else 1


def _takes_rows(op: Operator, arrays: Operands, columns: Dim, steps: list[int]) -> bool:
    """True where a lane takes whole rows: few columns, one row after another in memory."""
    return columns.size in WHOLE and len(op.itemsizes) == 1 and op.state_bytes <= 8 and _dense(op, columns, steps)


def _dense(op: Operator, columns: Dim, steps: list[int]) -> bool:
    """True where one row lies after another in memory."""
    sizes = (*op.itemsizes, op.out_bytes)
    return columns.a == sizes[0] and all(abs(s) == columns.size * n for s, n in zip(steps, sizes, strict=True))


def _apart(op: Operator, arrays: Operands, columns: Dim, planes: list[Dim], steps: list[int]) -> int:
    """Columns a warp's width apart, where rows are not aligned: as many as fill a strip."""
    if len(op.itemsizes) > 1 or op.state_bytes > 8:
        return 1
    if LANES < columns.size < 2 * LANES and _dense(op, columns, steps):
        return 2  # whole rows leave no sector to another strip: (n, 33) 0.49 and 0.57, (n, 48) 0.78 and 0.84
    read_at = [steps[0], *(d.a for d in planes)]
    write_at = [arrays.phases[-1], steps[-1], *(d.c for d in planes)]
    if not any(n % 32 for n in (*read_at, *write_at)):
        return 1
    size, most = op.itemsizes[0], MOST_APART
    of_narrow = op.type.startswith("MinMax<") and size <= 2
    if of_narrow and math.prod(d.size for d in planes) * -(-columns.size // (STRIP_ASKEW // size)) >= CHAINS_OF_NARROW:
        most = STRIP_ASKEW // size // LANES
    count = min(most, STRIP_ASKEW // max(size, op.out_bytes) // LANES)
    while columns.size < LANES * count:
        count //= 2
    if count == MOST_APART and not planes and adds_floats(op) and (size, op.out_bytes) == (4, 4):
        strips = -(-columns.size // (LANES * count))
        count = min(count, -(-columns.size // (strips * LANES)))
    return max(1, count)


def taken(op: Operator, together: int, apart: int, anchored: bool) -> int:
    """Of a lane's columns those that one of a warp that looks back does so for (kernels/scan/columns.cuh)."""
    if apart > 1 and (anchored or op.itemsizes[0] > 2):
        return 1
    posted = POSTED // 2 if anchored and op.itemsizes[0] < 4 else POSTED
    if together * op.state_bytes <= posted:
        return together
    return 2 if apart > 1 and 2 * op.state_bytes <= posted else 1


def adds_floats(op: Operator) -> bool:
    """True of sums of floats in one binary64."""
    return op.type.startswith("Sum<") and op.type.endswith("f64>")


def adds_pairs(op: Operator) -> bool:
    """True of sums of float64, whose states are pairs."""
    return op.type.startswith("Sum<") and op.type.endswith("Twofold>")


def spread(most: int, teams: int, width: int, op: Operator) -> int:
    """Rows of a lane, at most so many, with which the lanes of a warp are in different banks."""

    def clashes(rows: int) -> int:
        banks: dict[int, set[int]] = {}
        for lane in range(teams * width):
            word = (lane // width * rows * width + lane % width) * op.itemsizes[0] // 4
            banks.setdefault(word % 32, set()).add(word)
        return max(map(len, banks.values()))

    return min(range(most, most * 3 // 4, -1), key=clashes) if most > 1 else most
