"""Launches that reduce groups: which kernel of ``kernels/bins``, on which grid. A grid depends on the
GPU it is for only where additions are exact, so that the answer has the same bits on any, and where its blocks have too
little shared memory for what others do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..operators import cuda_types
from . import launch
from .layout import MAX_DIMS, Dim, merged
from .plan_cache import Plans
from .plans import Launch, Operator
from .scan_launch import gpu
from .task import Work, base_bytes, flag

# H200, sums of 2^28 float32 with labels of int32, 2026-11-21, shares of 4,680 GB/s: 0.91 into 10 groups, 0.88 into
# 1,000, 0.84 into 6,000, 0.79 into 20,000, 0.41 into 50,000, 0.22 into 100,000; 0.15 into 10^6, where L2 takes 105 G
# atomics a second, of 32 bits as of 64, and of vectors of four: that allows 0.18. Blocks of a cluster reach each
# other's shared memory no faster: 82 G atomics a second in clusters of 8, 71 in those of 16, of which 7 find room, 124
# with half of them to L2; 1,500 stay within their block. Stores of 16 bytes: 132 G at random, 239 side by side
#
# Maxima of 2^28 float32, 2026-11-22, by calls one after another, as words that all raise and as before: into 10 groups
# 0.73 and 0.58, 1,000 0.73 and 0.16, 9,000 0.68 and 0.012, 50,000 0.59 and 0.012, of elements that rise as of those at
# random (sums into 1,000 in that measure 0.70). Their positions 0.62 and 0.12 into 1,000, 0.58 and 0.012 into 9,000 (of
# elements that rise 0.36).
PRIVATE_BYTES = 56 * 1024  # of a block's states, one a thread and group: four blocks an SM,
PRIVATE_MOST = 112 * 1024  # or two, where fewer threads take more groups
PRIVATE_FULL = 28 * 1024  # eight: as many as an SM has threads for. Where additions are exact, the most,
PRIVATE_SHARE = 0.75  # but for several exact sums of floats, which take as long as five of smaller blocks: var of 2^28
# float32 into 10 groups, H200, 801 us by states of 128 threads a block, 1,155 by exact sums
TILE_ITEMS = (64, 32, 16)  # bytes of elements, of 4 at least, that a thread has of a tile, the most that fit in
TILE_BYTES = 220 * 1024  # with the states of all groups
SM_BYTES = 228 * 1024  # of shared memory that blocks divide, a kilobyte of each its own
TILE_PIECE = 128  # of a tile's elements of a group, that a thread takes
TILE_BLOCKS = 132  # times as many as an SM has room for, three at most: each clears and folds the states of all groups
WINDOW_THREADS = 1024  # of a block that has an SM to itself, and its shared memory
WINDOW_BYTES = 144 * 1024  # what it takes where that is enough: loads on their way need L1, which has the rest
WINDOW_HEAD = 16  # bytes of it that are no group's
WINDOW_COLUMNS = (32, 16, 4)  # of words that most additions go to, where there is room beside the
WINDOW_MORE = (2, 14)  # limbs of a sum besides the middle one and those of lower chunks: no fewer then, never more
WINDOW_BATCH = 8  # elements a thread has at hand, at most, and as many on their way: it has 64 registers
WINDOW_SHARE = 2**21  # elements a block, at most: numbers.cuh counts on it
WINDOW_MOST = 2**30  # elements of a row: two squares each fit a word in memory, 32 bits from the next
# Ranges of groups, at most: as many blocks read an element. H200, 2026-11-30, us by ranges and by a sort, 2^26 labels
# at random: means of uint8 into 100,000 groups 620 and 3,575, sums of float64 1,303 and 3,988; var of float64 into
# 30,000, in 16 ranges, 6,141 and 3,749
WINDOW_RANGES = 4
WINDOW_READ = 100  # or as many as read no more bytes, of an element, its label and each sum
WINDOW_LEAST = 2  # elements of a group, at least, for each block that adds it to memory, and for each word it has there
WINDOW_SPLITS = 128  # blocks that are taken to share a row, whatever a GPU has: so the answer has the same bits on any
WINDOW_FLOOR = 8  # blocks or words that count at least
BEST_LEAST = 2**14  # elements of a row, at least, for blocks of so many threads that raise extremes
BLOCKS = 2112  # that share all rows, sixteen an SM
THREADS = 256
LOADS = 4  # of 16 bytes in flight a thread
LEAST_SLOTS = 4  # that a thread of a block takes
SPLIT_WAVES = 16  # of blocks, at most, that a row is shared among, where fewer leave more of a GPU idle; a block takes
SPLIT_BYTES, SPLIT_GROUP = 2**17, 64  # as long as to read so many bytes besides its own, and so many a group
PIECE = 4096  # elements of a group that one warp folds, and sub-warps of fewer lanes in proportion
DIGIT_BITS = 8  # of labels that a pass of their sort takes, at most
SORT_ITEMS = 16  # elements that a thread has of a tile
# Blocks that share them. H200, 2026-11-30, kurtosis of 2^25 float32 into 4,000 groups 1,212 us, with 528 blocks 1,320
SORT_BLOCKS = 1056
SORT_ROWS = 8  # from which on they share a sort of their labels, rather than that each element is added in memory
SORT_WORDS = 8  # times the bytes of a row and its labels that words of exact sums may take before labels are sorted
SORT_SHORT = 8192  # labels, and groups, that one block sorts in one launch
SUBWARPS = (1, 8, 32)  # lanes that fold a piece: the fewest of which there are
SUBWARP_THREADS = 1 << 18  # so many, and with which a lane has
SUBWARP_ELEMENTS = 64  # elements of a group, in the mean
# Elements that one thread folds, where columns lie side by side, of each of its columns: fewer where threads else were
# so few that processors idle (38 columns of 220,751 labels: 64 blocks, 334 us). A thread has those columns of
COLUMN_PIECE, COLUMN_LEAST_PIECE = 512, 64
COLUMN_BYTES = 8  # so many bytes, at most, of which
COLUMN_STATES = 64  # bytes of states are in registers, where there are
COLUMN_THREADS = 1 << 17  # so many threads; they have
COLUMN_LEAST = 32  # bytes of neighbours, at least, where columns are read as they lie, or are few
COLUMN_LOADS = 16  # bytes of elements on their way, and LOADS loads at least
MANY_ROWS = 64  # from which on a block takes rows in shared memory: fewer leave most of a GPU idle
SHORT_ROW = 4096  # elements of such rows, which it takes then whatever else fits
ROW_BLOCKS = ((4, 256), (3, 320), (2, 512), (1, 1024))  # an SM, and their threads: the most that have room for a row
ROW_TILES = 1056  # of rows at least, where they are so short that a block has room for several
ROW_SUBWARPS = ((1, 256), (8, 512), (32, 2048))  # lanes that fold a piece, and its elements: the fewest with which
ROW_LANES = 256  # lanes have a group each in the rows that fit in
ROW_BYTES = 56 * 1024  # bytes, whatever a GPU has: so the answer has the same bits on any
ROW_LOADS = 64  # bytes of elements that a thread has on their way
PIECES_BATCH = 16  # chunks of one launch, at most, as kernels/bins/pieces.cuh has it,
PARTS_BYTES = 2**27  # and bytes of what it leaves to be joined
JOIN_BLOCKS = 4224
ROUNDED = 1 << 15  # groups from which on a thread rounds each one's sums, in place of a warp
MANY_CELLS = 1 << 16  # from which on threads alone keep a GPU busy, one each
# Of kernels/bins/numbers.cuh: bits of a digit, at most, of floats and of integers; of one that is added to limbs of 64
# bits, not of 96; and those that such a limb has for a shifted digit
DIGIT_OF_FLOATS, DIGIT_OF_INTEGERS, NARROW_DIGIT, LIMB_BITS = 53, 64, 27, 41
DIGIT_IN_MEMORY = 32  # bits, at most, of a digit that is added to a word of 64 in memory
APART = 32  # bits from one word of an exact sum in memory to the next, where digits are cut at their border

# Operators that add integers which may wrap; and those that add numbers, or their squares, exactly: to a sum or several
_WHOLE = re.compile(r"Sum<.*, [iu]64>|CountNonzero<.*>|Tally<.*>|Mean<.*, i64>")
_SUMS = re.compile(r"(Sum|Mean|RootSum)<(Value|NonNan|Magnitude)<(\w+).*")
_SQUARES = re.compile(r"(Sum|RootSum)<(Square)<(\w+).*")
_MOMENTS = re.compile(r"(Var|Std|ComplexMoments|ComplexStd)<()(\w+), \w+>")
# Significant bits of a type, and the places its numbers may stand at
_NUMBERS = {"boolean": (1, 1), "f64": (53, 2046), "f32": (24, 254), "half": (11, 30), "bfloat16": (8, 254)}
_NUMBERS |= {f"{sign}{8 * n}": (8 * n, 1) for sign in "iu" for n in (1, 2, 4, 8)}

# Extremes, their positions, and first and last elements, beside a count that says whether there are any where labels do
# not; magnitudes; whether any element is nonzero, or all are.
_WORDS = re.compile(
    r"(?:Both<)?(MinMax|Arg|FirstLast|PeakToPeak)<(\w+)[\w, ]*>(?:, Tally<\2, false>>)?|(MaxMagnitude|Any|All)<\w+>"
)

PRIVATE, TILES, WINDOW, BEST, RAISED = "private", "tiles", "window", "best", "raised"
MERGED, ATOMIC, EXACT, PIECES, ROWS = "merged", "atomic", "exact", "pieces", "rows"
SORTED = PIECES, ROWS  # those that take elements in the order of their groups

_ready: Plans[launch.Ready] = Plans()

# Bytes of a load for each dimension behind the first that is divided by: else a copy takes no longer
LINE_BYTES = 4
LINE_STEP = 4  # elements from one to the next, at most: of those farther apart a copy makes neighbours
NO_LINES, PACKED, TURNED, STEPPED = range(4)  # Lines of kernels/bins/elements.cuh


@dataclass(frozen=True)
class Lines:
    """How rows lie that are read without a copy: walks of rows, and of a row's elements."""

    row: tuple[Dim, ...]
    run: tuple[Dim, ...]
    lie: int


def _walks(
    row: Sequence[Dim], run: Sequence[Dim], itemsize: int, address: int
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]] | None:
    """Rows and runs with the fewest dimensions; None where these are too many for a walk, a run is one element, or some
    element lies at no multiple of its size."""
    row = merged([d for d in row if d.size > 1], False)
    run = merged([d for d in run if d.size > 1], any(d.c for d in run))
    is_aligned = not any(n % min(16, itemsize) for n in (address, *(d.a for d in (*row, *run))))
    return (row, run) if run and max(len(row), len(run)) <= MAX_DIMS and is_aligned else None


def lines(
    row: Sequence[Dim], run: Sequence[Dim], itemsize: int, label_bytes: int, addresses: tuple[int, int]
) -> tuple[int, Lines] | None:
    """Elements of a load, and how rows lie; None where a copy takes no longer. ``addresses``: of elements and labels,
    modulo 16."""
    walks = _walks(row, run, itemsize, addresses[0])
    if walks is None:
        return None
    row, run = walks
    *outer, last = run
    if abs(last.a) > LINE_STEP * itemsize:
        return None
    vector = _widest(itemsize, label_bytes)
    while vector > 1 and (addresses[1] % min(16, vector * label_bytes) or (outer and last.size % vector)):
        vector //= 2
    if itemsize * vector < LINE_BYTES * len(outer):
        return None
    first = addresses[0] if last.a > 0 else addresses[0] - (vector - 1) * itemsize
    starts = (first, *(d.a for d in (*row, *outer)))
    is_aligned = abs(last.a) == itemsize and not any(n % min(16, vector * itemsize) for n in starts)
    return vector, Lines(row, run, STEPPED if not is_aligned else PACKED if last.a > 0 else TURNED)


def column_lines(cells: Sequence[Dim], run: Sequence[Dim], itemsize: int, address: int) -> tuple[int, Lines] | None:
    """Columns of a load, and how they lie whose cells are those of all rows; None where a copy takes no longer."""
    walks = _walks(cells, run, itemsize, address)
    if walks is None or not walks[0]:
        return None
    cells, run = walks
    starts = (address, *(d.a for d in (*cells[:-1], *run)))
    step, nbytes = abs(cells[-1].a), cells[-1].size * itemsize
    if not 0 < step <= LINE_STEP * itemsize or nbytes < COLUMN_LEAST:
        return None
    vector = max(1, COLUMN_BYTES // itemsize) if cells[-1].a == itemsize else 1
    while vector > 1 and any(n % (vector * itemsize) for n in (*starts, nbytes)):
        vector //= 2
    if itemsize * vector < LINE_BYTES * (len(run) - 1):
        return None
    return vector, Lines(cells, run, PACKED)


@dataclass(frozen=True)
class Rows:
    """What is reduced: rows of elements, ``inner`` of which lie side by side, all with the same labels."""

    rows: int
    length: int
    inner: int
    groups: int
    label: str  # CUDA type of the labels
    vector: int  # elements of one load
    steps: tuple[Dim, ...]  # of positions along a row, where the state has one
    strict: bool = False
    nbytes: int = 8  # of an element and its label
    lines: Lines | None = None  # where rows do not lie one after another

    @property
    def indexed(self) -> str:
        return flag(bool(self.steps))

    @property
    def label_bytes(self) -> int:
        return int(self.label[1:]) // 8 if self.label[1:].isdigit() else 1

    def work(self, **more: Any) -> Work:
        given: dict[str, Any] = {"rows": self.rows, "length": self.length, "cells": self.groups, "tiles": self.inner}
        if self.lines is not None:
            given |= {"row": self.lines.row, "step_a": self.lines.run[-1].a}
        run = self.steps if self.lines is None else self.lines.run
        return Work(**{**given, "run": run, "tail": int(self.strict), "batch": 2, **more})

    @property
    def lie(self) -> str:
        """What names of kernels have at their end."""
        return "" if self.lines is None else f", {self.lines.lie}"


@dataclass(frozen=True)
class Field:
    """A sum of numbers, or of their squares: a Field of kernels/bins/numbers.cuh."""

    bits: int  # of a magnitude
    places: int  # that one may stand at
    power: int

    @property
    def is_float(self) -> bool:
        return self.places > 1

    @property
    def digits(self) -> int:
        return -(-self.bits // (DIGIT_OF_FLOATS if self.is_float else DIGIT_OF_INTEGERS))

    @property
    def digit(self) -> int:
        """Bits of one."""
        return -(-self.bits // self.digits)

    @property
    def limb_words(self) -> int:
        """Words of 32 bits that a limb has in shared memory."""
        most = LIMB_BITS if not self.is_float else NARROW_DIGIT if self.power == 1 else 0
        return 3 if self.digit > most else 2

    @property
    def span(self) -> int:
        """Bits from one limb to the next."""
        if not self.is_float:
            return DIGIT_OF_INTEGERS
        return 65 - self.digit if self.limb_words == 3 else LIMB_BITS - self.digit

    def limbs(self, more: int) -> int:
        """Limbs in shared memory where there may be so many besides the one in the middle and those of digits below."""
        if not self.is_float:
            return self.digits
        lower = self.digit * (self.digits - 1)
        return min(-(-lower // self.span) + 1 + more, -(-(self.places + lower) // self.span))

    def words(self, apart: int) -> int:
        """Words in memory, so many bits from one to the next."""
        return (self.places + self.bits + 33) // apart + 1


def fields(op: Operator) -> tuple[Field, ...]:
    """The sums whose additions are exact that the operator's states are made of; none where there are others."""
    return _fields(op.type)


@lru_cache(maxsize=1024)
def _fields(text: str) -> tuple[Field, ...]:
    found = _SUMS.fullmatch(text) or _SQUARES.fullmatch(text) or _MOMENTS.fullmatch(text)
    if found is None or _WHOLE.fullmatch(text):
        return ()
    kind, term, element = found.groups()
    is_complex = element in ("c64", "c128") or kind.startswith("Complex")
    if term == "Magnitude" and is_complex:
        return ()
    bits, places = _NUMBERS[{"c64": "f32", "c128": "f64"}.get(element, element)]
    number, square = Field(bits, places, 1), Field(2 * bits, 2 * places - 1, 2)
    sums = () if term == "Square" else (number,) * (2 if is_complex else 1)
    return (*sums, square) if term in ("", "Square") else sums


def adds_whole(op: Operator) -> bool:
    """Whether elements add integers that may wrap."""
    return bool(_WHOLE.fullmatch(op.type))


def adds_digits(op: Operator) -> bool:
    """Whether elements add a narrow chunk each, to one exact sum: so little that it may be done in memory."""
    return len(fields(op)) == 1 and fields(op)[0].bits <= DIGIT_IN_MEMORY


def adds_several_floats(op: Operator) -> bool:
    """Whether elements add floats to several exact sums, which takes as long as states of few groups a thread do."""
    return len(fields(op)) > 1 and fields(op)[0].is_float


def is_counted(op: Operator) -> bool:
    """Whether states of such operators count their elements, too."""
    return op.type.startswith("Mean<") or bool(_MOMENTS.fullmatch(op.type))


def method(op: Operator, rows: Rows, is_exact: bool, device: int) -> str:
    """How groups are reduced: ``is_exact`` where one atomic adds an element, with the same answer in any order."""
    word, room = word_of(op), gpu(device).shared_bytes
    tile = row_tile(op, rows, room)
    in_tiles = tile is not None
    if in_tiles and rows.length < SHORT_ROW:
        return ROWS
    if rows.inner > 1 or not (op.commutative or word or in_tiles):
        return PIECES
    fits = best_columns(op, rows.groups, room)
    each = (rows.groups + 1) * op.state_bytes
    is_slow_to_raise = word is not None and word.count * word.nbytes > 8 and each * 256 <= PRIVATE_FULL
    if fits and not is_slow_to_raise and rows.length >= max(BEST_LEAST, in_tiles * fits * rows.groups):
        return BEST
    if op.commutative and (
        each * 256 <= PRIVATE_FULL or (adds_several_floats(op) and each * 128 <= PRIVATE_SHARE * PRIVATE_BYTES)
    ):
        return PRIVATE
    if word and not ((op.commutative and fits) or in_tiles):
        return RAISED
    if tile is not None and tile.threads < WINDOW_THREADS:  # several blocks an SM
        return ROWS
    if (
        (adds_whole(op) or fields(op))
        and window_least(op, rows) <= rows.length <= WINDOW_MOST
        and window_ranges(op, rows, room)
    ):
        return WINDOW
    if in_tiles:
        return ROWS
    columns = merged_columns(op, rows.groups, room) if is_exact and not adds_whole(op) else 0
    if columns and rows.length >= max(BEST_LEAST, columns * rows.groups):
        return MERGED
    if each * 128 <= min(PRIVATE_MOST, room):
        return PRIVATE
    if (items := tile_items(op, rows, room)) and not (is_exact and 2 * rows.groups > THREADS * items):
        return TILES
    return ATOMIC if is_exact else EXACT if _adds_in_memory(op, rows) else PIECES


def _adds_in_memory(op: Operator, rows: Rows) -> bool:
    """Whether elements are added to words in memory one by one: a word has room for all, words are not many times the
    elements, and no sort of labels serves many rows."""
    if not adds_digits(op) or rows.rows >= SORT_ROWS or (bits := word_spacing(op, rows.length)) <= 0:
        return False
    return 8 * rows.groups * words(op, bits) <= SORT_WORDS * rows.length * rows.nbytes


def steps(way: str, op: Operator, rows: Rows, device: int) -> tuple[Launch, ...]:
    """The launches of one of these ways, two where sums are made of what the first leaves; of PIECES and ROWS those
    that come before those of :func:`pieces` and :func:`in_rows`: one that sorts few labels, or the passes of a sort,
    one after another, and what finds where groups start."""
    if way in SORTED and max(rows.length, rows.groups) <= SORT_SHORT:
        return (sorting_block(rows),)
    if way in SORTED:
        return (*sorting(rows), starts(rows))
    if way == PRIVATE:
        return (private(op, rows),)
    if way == TILES:
        return (tiles(op, rows, device),)
    if way == BEST:
        return (best(op, rows, device),)
    if way == MERGED:
        return (merged_states(op, rows, device),)
    if way == RAISED:
        return raised(op, rows)
    first = window(op, rows, device) if way == WINDOW else scattered(way, op, rows)
    has_limbs = way == EXACT or (way == WINDOW and not adds_whole(op))
    return (first, rounding(op, rows, first)) if has_limbs else (first,)


def _shared_rows(name: str, rows: Rows, splits: int, threads: int, nbytes: int = 0, **work: int) -> Launch:
    """A kernel of which so many blocks share a row."""
    return Launch(name, rows.rows * splits, rows.work(splits=splits, **work), nbytes, threads=threads)


def private(op: Operator, rows: Rows) -> Launch:
    """A state a thread and group."""
    each = (rows.groups + 1) * op.state_bytes  # one for what is in no group
    threads = next((t for t in (256, 128) if each * t <= PRIVATE_BYTES), 128)
    splits = _many_splits(rows, threads, BLOCKS)
    name = (
        f"bins_private<{op.type}, {rows.label}, {rows.vector}, {rows.indexed}, {threads}, {_loads(rows, op)}{rows.lie}>"
    )
    return _shared_rows(name, rows, splits, threads, max(16, each * threads))


def tiles(op: Operator, rows: Rows, device: int) -> Launch:
    """Elements split by group, tile by tile."""
    items = tile_items(op, rows, gpu(device).shared_bytes)
    vector = min(rows.vector, items)
    nbytes = _tile_bytes(op, rows, items)
    splits = _splits(replace(rows, vector=items), THREADS, TILE_BLOCKS * min(3, SM_BYTES // (nbytes + 1024)))
    numbers = f"{rows.indexed}, {THREADS}, {items // vector}, {TILE_PIECE}{rows.lie}"
    return _shared_rows(f"bins_tiles<{op.type}, {rows.label}, {vector}, {numbers}>", rows, splits, THREADS, nbytes)


def tile_items(op: Operator, rows: Rows, room: int) -> int:
    """Elements of a thread's tile; 0 where the states of all groups leave no room in a block's shared memory."""
    counts = (nbytes // max(4, *op.itemsizes) for nbytes in TILE_ITEMS)
    fits = (n for n in counts if n and _tile_bytes(op, rows, n) <= min(TILE_BYTES, room))
    return next(fits, 0) if rows.groups < 1 << 16 else 0


def _tile_bytes(op: Operator, rows: Rows, items: int) -> int:
    """Of shared memory: a Split of kernels/bins/tiles.cuh."""
    tile, warps_a_block = THREADS * items, THREADS // 32
    states = (rows.groups + tile // TILE_PIECE + warps_a_block * items) * op.state_bytes
    places, runs = 2 * tile * bool(rows.steps), 4 * (warps_a_block * (items + 1) + 1)
    return states + tile * _in_bytes(op) + places + runs + _rank_bytes(rows.groups) + 2 * 16


def _rank_bytes(groups: int) -> int:
    """Of shared memory: Ranks of kernels/bins/rank.cuh."""
    warps_a_block = THREADS // 32
    return 8 * (warps_a_block + 1) * (groups // 4 + 1) + 4 * warps_a_block * (groups + 2) + 2 * 16


def _loads(rows: Rows, op: Operator) -> int:
    """Fewer loads where one has many elements, or labels take more bytes than they."""
    return max(1, LOADS * 4 // max(rows.vector, 4) // max(1, op.state_bytes // 16))


def _many_splits(rows: Rows, threads: int, blocks: int) -> int:
    """So many small blocks, at least, that share all rows: more than run at once."""
    slots = -(-rows.length // rows.vector)
    return max(1, min(-(-slots // (threads * LEAST_SLOTS)), -(-blocks // rows.rows)))


def _splits(rows: Rows, threads: int, blocks: int, least: int = 1) -> int:
    """Blocks that share a row, at least so many. So many run at once, and a few behind them take as long as all do."""
    most = max(least, -(-rows.length // (rows.vector * threads * LEAST_SLOTS)))
    first = -(-rows.rows // blocks)
    waves = {max(least, min(most, n * blocks // rows.rows)) for n in range(first, first + SPLIT_WAVES)}

    def nbytes(splits: int) -> float:
        each = rows.length * rows.nbytes / splits + SPLIT_BYTES + SPLIT_GROUP * rows.groups
        return -(-rows.rows * splits // blocks) * each

    return min(sorted(waves), key=nbytes)


def window_shape(op: Operator, groups: int, room: int) -> tuple[int, int] | None:
    """Columns of groups that share so many bytes, and limbs besides those that are needed; None: there are too many."""
    least, most = WINDOW_MORE
    for nbytes in (min(room, WINDOW_BYTES), room):
        words = (nbytes - WINDOW_HEAD) // (4 * groups)  # a group
        for columns in (*WINDOW_COLUMNS, 1):
            fits = range(most, (least if columns > 1 else 0) - 1, -1)
            more = next((n for n in fits if _window_words(op, columns, n) <= words), None)
            if more is not None:
                return columns, more
    return None


def _window_words(op: Operator, columns: int, more: int) -> int:
    """Of 32 bits, that a group has in shared memory."""
    apart = columns if columns > 1 else 0
    sums = [(field.limbs(more), field.limb_words) for field in fields(op)] or [(1, 2)]
    return sum(apart * (words - 1) + words * limbs for limbs, words in sums) + columns * is_counted(op)


def window_least(op: Operator, rows: Rows) -> int:
    """Elements of a row from which on its groups are worth adding up in shared memory, and then in memory."""
    return WINDOW_LEAST * rows.groups * max(WINDOW_SPLITS // rows.rows, words(op, APART), WINDOW_FLOOR)


def window_ranges(op: Operator, rows: Rows, room: int) -> int:
    """Into how many ranges groups are cut, each for blocks of its own; 0 where there are too many."""
    most = max(WINDOW_RANGES, WINDOW_READ // (rows.nbytes * max(1, len(fields(op)))))
    return next((n for n in range(1, most + 1) if window_shape(op, -(-rows.groups // n), room)), 0)


def window(op: Operator, rows: Rows, device: int) -> Launch:
    """Groups in shared memory that all threads of a block add to."""
    room = gpu(device).shared_bytes
    ranges = window_ranges(op, rows, room)
    each = -(-rows.groups // ranges)
    shape = window_shape(op, each, room)
    assert shape is not None
    columns, more = shape
    sharing, least = replace(rows, rows=rows.rows * ranges), -(-rows.length // WINDOW_SHARE)
    splits = _splits(sharing, WINDOW_THREADS, gpu(device).processors, least)
    vector, loads = _at_hand(rows, WINDOW_BATCH // (1 if adds_whole(op) else 2))
    name = f"bins_window<{op.type}, {rows.label}, {vector}, {columns}, {WINDOW_THREADS}, {loads}{rows.lie}>"
    work = rows.work(splits=splits, runs=more, tiles=ranges, slots=APART)
    nbytes = WINDOW_HEAD + 4 * each * _window_words(op, columns, more)
    return Launch(name, rows.rows * splits * ranges, work, nbytes, threads=WINDOW_THREADS)


def _at_hand(rows: Rows, most: int = WINDOW_BATCH) -> tuple[int, int]:
    """Elements of a pack, and packs that a thread of a block of 1024 has at hand."""
    vector = min(rows.vector, most)
    return vector, max(1, min(64 // rows.nbytes, most) // vector)


@dataclass(frozen=True)
class Word:
    """What stands for a group's best elements (kernels/bins/order.cuh)."""

    nbytes: int
    zeros: bool  # whether another word says that an element is as small as zero
    in_two: bool  # whether it leaves no room for a position, which is found in a second read
    count: int = 1  # of them, that a group has


def word_of(op: Operator) -> Word | None:
    """The word that orders as elements do; None where there is none."""
    found = _WORDS.fullmatch(op.type)
    if found is None:
        return None
    kind, element = found[1] or found[3], found[2]
    if kind == "MinMax":
        is_float = element in ("f32", "f64", "half", "bfloat16")
        return Word(8 if element.endswith("64") else 4, not is_float, False)
    if kind == "PeakToPeak":
        return Word(8 if element.endswith("64") else 4, False, False, 2)
    if kind in ("Any", "All"):
        return Word(4, False, False)
    if kind == "FirstLast":
        return Word(4, True, False)
    if kind == "Arg" and element in ("c64", "c128"):
        return None
    is_wide = kind == "Arg" and element.endswith("64")
    return Word(8, is_wide and element != "f64", is_wide)


def best_columns(op: Operator, groups: int, room: int) -> int:
    """Words of a group in shared memory; 0 where there is no room, or they do not say all."""
    word = word_of(op)
    if word is None or word.in_two:
        return 0
    several = min(WINDOW_BYTES, room)
    nbytes = {n: groups * (n * word.count + word.zeros) * word.nbytes for n in (*WINDOW_COLUMNS, 1)}
    return next((n for n in nbytes if nbytes[n] <= (several if n > 1 else room)), 0)


def best(op: Operator, rows: Rows, device: int) -> Launch:
    """Groups in shared memory whose words all threads of a block raise."""
    columns, word = best_columns(op, rows.groups, gpu(device).shared_bytes), word_of(op)
    assert word is not None
    splits = _splits(rows, WINDOW_THREADS, gpu(device).processors)
    vector, loads = _at_hand(rows)
    name = f"bins_best<{op.type}, {rows.label}, {vector}, {columns}, {WINDOW_THREADS}, {loads}{rows.lie}>"
    nbytes = max(16, rows.groups * (columns * word.count + word.zeros) * word.nbytes)
    return _shared_rows(name, rows, splits, WINDOW_THREADS, nbytes)


def merged_columns(op: Operator, groups: int, room: int) -> int:
    """States of a group in shared memory, which atomics merge elements into; 0 where there is no room."""
    fits = (
        n for n in (*WINDOW_COLUMNS, 1) if groups * n * op.state_bytes <= (min(WINDOW_BYTES, room) if n > 1 else room)
    )
    return next(fits, 0)


def merged_states(op: Operator, rows: Rows, device: int) -> Launch:
    """Groups in shared memory whose states all threads of a block merge elements into."""
    columns = merged_columns(op, rows.groups, gpu(device).shared_bytes)
    splits = _splits(rows, WINDOW_THREADS, gpu(device).processors)
    vector, loads = _at_hand(rows)
    name = f"bins_atomic<{op.type}, {rows.label}, {vector}, {columns}, {WINDOW_THREADS}, {loads}{rows.lie}>"
    return _shared_rows(name, rows, splits, WINDOW_THREADS, max(16, rows.groups * columns * op.state_bytes))


def raised(op: Operator, rows: Rows) -> tuple[Launch, ...]:
    """Groups in memory whose words all threads raise, one read or two; and what makes states of them."""
    word, splits, (vector, loads) = word_of(op), _many_splits(rows, THREADS, 2 * BLOCKS), _at_hand(rows)
    assert word is not None
    names = (
        f"bins_raise<{op.type}, {rows.label}, {vector}, {places}, {THREADS}, {loads}{rows.lie}>"
        for places in ("false", "true")[: 1 + word.in_two]
    )
    reading = (_shared_rows(name, rows, splits, THREADS) for name in names)
    blocks = -(-rows.rows * rows.groups // THREADS)
    return (*reading, Launch(f"bins_raised<{op.type}, {THREADS}{rows.lie}>", blocks, rows.work(), threads=THREADS))


def word_bytes(op: Operator, rows: Rows) -> int:
    """Of memory that words take which all threads raise."""
    word = word_of(op)
    assert word is not None
    return rows.rows * rows.groups * ((word.count + word.zeros) * word.nbytes + 4 * word.in_two)


def scattered(kind: str, op: Operator, rows: Rows) -> Launch:
    """Every element to its group in memory: ``kind`` is ATOMIC or EXACT."""
    splits = _many_splits(rows, THREADS, 2 * BLOCKS)
    columns = "0" if kind == ATOMIC else rows.indexed
    name = f"bins_{kind}<{op.type}, {rows.label}, {rows.vector}, {columns}, {THREADS}, 1{rows.lie}>"
    more = {"slots": word_spacing(op, rows.length)} if kind == EXACT else {}
    return _shared_rows(name, rows, splits, THREADS, **more)


def word_spacing(op: Operator, length: int) -> int:
    """Bits from one word of an exact sum in memory to the next, so that a chunk of each of so many elements, shifted by
    less than that, fits in 63 bits; 0 or less where it does not. Integers are not shifted."""
    adds = fields(op)
    room = 64 - max(field.digit for field in adds) - max(length, 2).bit_length()
    return room if room < 1 or any(field.is_float for field in adds) else APART


def words(op: Operator, bits: int) -> int:
    """Words of 64 bits that a group's exact sums and its count take in memory, so many bits from one to the next."""
    return sum(field.words(bits) for field in fields(op)) + is_counted(op)


def words_bytes(op: Operator, rows: Rows, adding: Launch) -> int:
    """Of memory that exact sums take."""
    return 8 * rows.rows * rows.groups * words(op, adding.work.slots)


def rounding(op: Operator, rows: Rows, adding: Launch) -> Launch:
    """Words that ``adding`` added to, to states."""
    cells = rows.rows * rows.groups
    lanes = 32 if cells < ROUNDED else 1
    blocks = max(1, min(-(-cells * lanes // THREADS), JOIN_BLOCKS))
    name = f"bins_round<{op.type}, {lanes}, {THREADS}>"
    return Launch(name, blocks, rows.work(slots=adding.work.slots), threads=THREADS)


def sorting(rows: Rows) -> Iterator[Launch]:
    """Of each pass of a sort by label: what counts digits, sums them up, and splits elements by them."""
    passes, bits = _digits(rows)
    tiles, digits = -(-rows.length // (THREADS * SORT_ITEMS)), 1 << bits
    splits = min(tiles, SORT_BLOCKS)
    for shift in range(0, passes * bits, bits):
        work = rows.work(tiles=tiles, splits=splits, chunks=digits, slots=shift)
        numbers = f"<{rows.label}, {flag(shift == 0)}, {THREADS}, {SORT_ITEMS}>"
        yield Launch(f"bins_sort_count{numbers}", splits, work, 4 * (digits + 1), threads=THREADS)
        yield Launch(f"bins_sort_offsets<{THREADS}>", digits, work, 4 * (THREADS // 32 + 1), threads=THREADS)
        yield Launch(f"bins_sort_split{numbers}", splits, work, _sort_bytes(digits, SORT_ITEMS), threads=THREADS)


def _digits(rows: Rows) -> tuple[int, int]:
    """Passes of a sort, and bits of each."""
    bits = rows.groups.bit_length()
    passes = -(-bits // DIGIT_BITS)
    return passes, -(-bits // passes)


def _sort_bytes(digits: int, items: int) -> int:
    """Of shared memory: a TileMemory of kernels/bins/sort.cuh."""
    return 8 * THREADS * items + 4 * digits + _rank_bytes(digits)


def sorting_block(rows: Rows) -> Launch:
    """Few labels, all passes of their sort."""
    passes, bits = _digits(rows)
    items = 2 if rows.length <= 2 * THREADS else SORT_ITEMS
    work = rows.work(runs=passes, chunks=1 << bits, slots=bits)
    nbytes = _sort_bytes(1 << bits, items) + 4 * ((1 << bits) + 1)
    return Launch(f"bins_sort_block<{rows.label}, {THREADS}, {items}>", 1, work, nbytes, threads=THREADS)


def starts(rows: Rows) -> Launch:
    """Where groups start among sorted keys."""
    return Launch(f"bins_sort_starts<{THREADS}>", rows.groups // THREADS + 1, rows.work(), threads=THREADS)


def batch(op: Operator, rows: Rows) -> int:
    """How many chunks one launch takes by pieces: as many as their parts' memory allows."""
    most, _ = _parts(rows)
    return max(1, min(PIECES_BATCH, PARTS_BYTES // (rows.rows * most * rows.inner * op.state_bytes)))


def _lanes(rows: Rows) -> int:
    """Lanes that fold a piece."""
    fits = (
        n
        for n in SUBWARPS
        if rows.rows * rows.groups * n >= SUBWARP_THREADS and rows.length <= SUBWARP_ELEMENTS * rows.groups * n
    )
    return next(fits, SUBWARPS[-1])


def _parts(rows: Rows) -> tuple[int, int]:
    """The most pieces that a row of a chunk has, and elements of one at most."""
    if rows.inner == 1:
        size = max(2, PIECE * _lanes(rows) // SUBWARPS[-1])
    else:
        elements = rows.rows * rows.length * rows.inner
        size = min(COLUMN_PIECE, max(COLUMN_LEAST_PIECE, elements // COLUMN_THREADS))
    return rows.groups + rows.length // size, size


def pieces(op: Operator, rows: Rows, count: int) -> tuple[Launch, Launch]:
    """Sorted positions of so many chunks, piece by piece, and the pieces of each group."""
    most, size = _parts(rows)
    warps_a_block, lanes = THREADS // 32, _lanes(rows)
    work = rows.work(batch=2 * PIECES_BATCH, chunks=most, slots=size)
    if rows.inner == 1:
        subwarps = count * rows.rows * most
        kernel = f"bins_pieces<{op.type}, {rows.indexed}, {lanes}, {THREADS}>"
        blocks, first = -(-subwarps // (THREADS // lanes)), replace(work, runs=subwarps, width=most)
    else:
        vector = _columns_a_thread(op, rows)
        loads = LOADS if rows.steps else max(LOADS, COLUMN_LOADS // (vector * _in_bytes(op)))
        kernel = f"bins_columns<{op.type}, {rows.indexed}, {vector}, {loads}, {THREADS}{rows.lie}>"
        width = rows.inner // vector
        threads = count * rows.rows * most * width
        blocks, first = -(-threads // THREADS), replace(work, runs=threads, width=width)
    cells = rows.rows * rows.groups * rows.inner
    side = cells >= MANY_CELLS and (rows.inner > 1 or lanes < SUBWARPS[-1])
    joining = max(1, min(-(-cells // (THREADS if side else warps_a_block)), JOIN_BLOCKS))
    join = f"bins_join<{op.type}, {flag(side)}, {THREADS}>"
    return (
        Launch(kernel, blocks, first, threads=THREADS),
        Launch(join, joining, replace(work, splits=count), threads=THREADS),
    )


def _columns_a_thread(op: Operator, rows: Rows) -> int:
    """As many as a load takes, where its states have registers and threads are enough; one where positions count."""
    if rows.steps:  # argmax of int8 of (20, 506, 6612), so: 142 us, by two 197
        return 1
    fits = (
        n
        for n in (8, 4, 2)
        if n <= rows.vector
        and rows.inner % n == 0
        and rows.inner > n
        and n * _in_bytes(op) <= COLUMN_BYTES
        and n * op.state_bytes <= COLUMN_STATES
        and rows.rows * rows.groups * rows.inner >= n * COLUMN_THREADS
    )
    return next(fits, 1)


@dataclass(frozen=True)
class RowTile:
    """Rows that a block has in shared memory (kernels/bins/rows.cuh)."""

    rows: int
    nbytes: int
    threads: int
    lanes: int  # that fold a piece
    size: int  # of a piece
    more: int  # pieces of a row behind the first ones of its groups, at most


def row_tile(op: Operator, rows: Rows, room: int) -> RowTile | None:
    """None where rows are few, or one does not fit."""
    if rows.inner > 1 or rows.rows < MANY_ROWS:
        return None
    element = _in_bytes(op)
    groups = rows.groups * max(1, min(ROW_BYTES // (rows.length * element), rows.rows // ROW_TILES))
    lanes, size = next((shape for shape in ROW_SUBWARPS if shape[0] * groups >= ROW_LANES), ROW_SUBWARPS[-1])
    more = rows.length // size
    each = -(-rows.length * element // 128) * 128 + more * op.state_bytes
    for blocks, threads in ROW_BLOCKS:
        most = (min(room, SM_BYTES // blocks - 1024) - 48) // each
        count = min(most, -(-rows.rows // ROW_TILES), (1 << 31) // rows.groups)
        if count > 0:
            return RowTile(count, count * each + 48, threads, lanes, size, more)
    return None


def _in_bytes(op: Operator) -> int:
    """Of an element, or of two side by side."""
    return max(op.itemsizes) * len(op.itemsizes)


def rank_type(rows: Rows) -> str:
    """Of places in a row."""
    return "u16" if rows.length <= 1 << 16 else "u32"


def in_rows(op: Operator, rows: Rows, device: int) -> tuple[Launch, Launch]:
    """What finds where elements go in shared memory, and what folds them there."""
    tile, rank, element = row_tile(op, rows, gpu(device).shared_bytes), rank_type(rows), _in_bytes(op)
    assert tile is not None
    is_wide = rows.vector == _widest(element, rows.label_bytes)
    unaligned = not is_wide and len(op.itemsizes) == 1 and rows.lines is None
    vector = min(16 // element if unaligned else rows.vector, 8)
    # threads of the largest blocks have 64 registers
    room = ROW_LOADS if tile.threads < WINDOW_THREADS else ROW_LOADS // 2
    loads = max(1, min(LOADS, room // (vector * element)))
    kinds = f"{vector}, {flag(unaligned)}, {rows.indexed}, {tile.lanes}, {loads}, {tile.threads}"
    work = rows.work(tiles=tile.rows, chunks=tile.more, slots=tile.size)
    blocks = -(-rows.rows // tile.rows)
    return (
        Launch(f"bins_ranks<{rank}, {element}, {THREADS}>", -(-rows.length // THREADS), rows.work(), threads=THREADS),
        Launch(f"bins_rows<{op.type}, {rank}, {kinds}{rows.lie}>", blocks, work, tile.nbytes, threads=tile.threads),
    )


def vector_of(itemsizes: Sequence[int], label_bytes: int, addresses: Sequence[int], rows: int, length: int) -> int:
    """How many elements one load may take: 16 bytes of them, or as many as every row and the labels begin at a multiple
    of. ``addresses``: of the operands, and of labels."""
    vector, sizes = _widest(max(itemsizes), label_bytes), (*itemsizes, label_bytes)

    def are_aligned() -> bool:
        starts = all(a % min(16, vector * size) == 0 for a, size in zip(addresses, sizes, strict=True))
        return starts and (rows == 1 or length % vector == 0)

    while vector > 1 and not are_aligned():
        vector //= 2
    return vector


def _widest(itemsize: int, label_bytes: int) -> int:
    """Elements of a load, at most: 16 bytes, and 32 of labels."""
    return max(1, min(16 // itemsize, 32 // label_bytes))


def label_type(dtype: Any) -> str | None:
    """The CUDA type of labels."""
    return cuda_types.element(np.dtype(dtype))


def ready(step: Launch, device: int, text: str) -> launch.Ready:
    """A launch that is compiled and loaded. The device must be current."""
    key = (step, device, text)
    found = _ready.get(key)
    if found is None:
        (found,) = launch.ready([step], device, text)
        _ready[key] = found
    return found


def start(step: launch.Ready, pointers: tuple[int, int, int], bases: list[launch.Base]) -> None:
    """Launch on the current stream of the device, which is current; ``pointers`` are the first members of a Task."""
    task = launch.POINTERS.pack(*pointers) + base_bytes(bases, step.launch.work.batch) + step.words
    launch.start(step, task, launch.current_stream())
