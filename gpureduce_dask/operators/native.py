"""Host loops in C, ``kernels/host``, where they were compiled with the installation; elsewhere there are none.

They do what NumPy does not do at the speed of memory, or not for all shapes: sum float32 in float64 and float64 in
pairs, sum squares of deviations without an array of them, multiply with exponents, leave NaN out of all these, find
positions along rows, do several of these from one read, scan lines with a carry, and count in bins of one width.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import math
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import numpy as np

from .monoid import Array, DType, State

PACKAGE = Path(__file__).parent.parent
FOLDERS = (PACKAGE / "_kernels" / "host", PACKAGE.parent / "kernels" / "host")
LEAST = 1 << 12  # elements of a block below which a call costs more than it saves
# What is scanned: a ufunc, or last, and elements, and the dtypes that are accumulated and written.
INTEGERS = tuple(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))
SCANNED = {
    ("add", "b1"): ("i8", "i8"),
    ("add", "f4"): ("f8", "f4"),
    ("add", "f8"): ("f8", "f8"),
    ("add_present", "f4"): ("f8", "f4"),
    ("add", "c8"): ("c16", "c8"),
    ("products", "f4"): ("f8", "f4"),
    ("products", "f8"): ("f8", "f8"),
    ("products", "c8"): ("c16", "c8"),
    ("products", "c16"): ("c16", "c16"),
    **{(name, kind): (f"{kind[0]}8",) * 2 for name in ("add", "multiply") for kind in INTEGERS},
    **{(name, kind): (kind, kind) for name in ("maximum", "minimum") for kind in (*INTEGERS, "f2", "f4", "f8")},
    **{("last", kind): (kind, kind) for kind in ("f4", "f8")},
    ("logical_or", "b1"): ("b1", "b1"),
    ("logical_and", "b1"): ("b1", "b1"),
}
SUMS = {"f": ("sum_float32", 1), "d": ("sum_float64", 1), "F": ("sum_float32", 2), "D": ("sum_float64", 2)}
SPREAD = ("f4", "f8", *INTEGERS)  # of whose elements there are variances, and extrema of columns
SUM, DEVIATIONS, LOW, HIGH = 1, 2, 4, 8  # of several reductions at once
TABLES = 4  # of counts, as in histogram.c
EXTREMA = frozenset(["minimum", "maximum", "fmin", "fmax"])
FEW_BOOLS = 8  # of a column, below which NumPy finds extrema as fast
WIDE, DEEP = 64, 10  # columns, and rows of them, from which on compiled loops find extrema
ROW = 128  # elements of a row below which several reductions, one after another, take no longer
F8 = np.dtype(np.float64)


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled loops, if what was compiled are the texts that are here."""
    for folder in FOLDERS:
        texts = sorted(folder.glob("*.[ch]"))
        if texts:
            digest = hashlib.sha256(b"".join(text.read_bytes() for text in texts)).hexdigest()[:12]
            return _load(folder / f"loops-{digest}-{sysconfig.get_platform()}.so")
    return None


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def sums(block: Array) -> State | None:
    """The state of the sum over the middle axis of a block of shape (outer, n, inner); None if not done here.

    Of float32 and complex64 a float64 for each part, of float64 and complex128 a pair for each part.
    """
    name, parts = SUMS.get(block.dtype.char, ("", 0))  # which lie side by side as columns do
    loops = _loops_for(block) if parts else None
    if loops is None:
        return None
    outer, n, inner = block.shape
    hi, lo = np.empty((outer, inner * parts)), np.empty((outer, inner * parts)) if name == "sum_float64" else None
    _reduce(loops[name], block, (outer, n, inner * parts), hi, lo)
    if lo is None:
        return (hi if parts == 1 else hi.view("c16"),)
    return (hi, lo) if parts == 1 else (hi[:, ::2], lo[:, ::2], hi[:, 1::2], lo[:, 1::2])


def adds(dtype: DType) -> bool:
    """Whether there are loops that add up integers of this dtype."""
    return dtype.kind in "iu" and dtype.itemsize < 8 and library() is not None


def integer_sums(block: Array) -> Array | None:
    """The sums over the middle axis of a block of integers of up to 32 bits or of bools; None if not done here."""
    loops = _loops_for(block) if block.dtype.kind == "b" or adds(block.dtype) else None
    if loops is None:
        return None
    outer, _, inner = block.shape
    found = np.empty((outer, inner), np.uint64 if block.dtype.kind == "u" else np.int64)
    _reduce(loops[f"isum_{block.dtype.name}"], block, block.shape, found)
    return found


def add_pairs(hi: Array, lo: Array, more_hi: Array, more_lo: Array) -> tuple[Array, Array] | None:
    """The sums of pairs of float64, of one shape, each renormalised; None if not done here."""
    pairs = hi, lo, more_hi, more_lo
    if (loops := library()) is None or not all(a.shape == hi.shape for a in pairs):
        return None
    steps = [_one_step(array) for array in pairs]
    if 0 in steps:
        return None
    total, rest = np.empty(hi.shape), np.empty(hi.shape)
    arrays = *pairs, np.array(steps, np.int64), total, rest
    loops.add_pairs(ctypes.c_int64(hi.size), *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    return total, rest


def halve_pairs(hi: Array, lo: Array, axis: int) -> tuple[Array, Array] | None:
    """The sums of pairs of float64 along an axis, which keeps size 1, neighbours first; None if not done here."""
    if (loops := library()) is None:
        return None
    *outer, n = hi.shape[: axis + 1]
    pair = np.array(hi, order="C"), np.array(lo, order="C")
    sizes = _sizes(math.prod(outer), n, math.prod(hi.shape[axis + 1 :]))
    loops.halve_pairs(*sizes, *(ctypes.c_void_p(a.ctypes.data) for a in pair))
    total, rest = (a[(slice(None),) * axis + (slice(1),)] for a in pair)
    return total, rest


def put_sums(cells: Array, state: State, is_added: bool) -> None:
    """The states of sums or means of floats written to contiguous cells, or added to these. Fields of float64 are one
    sum or a pair, and a field of int64 is a count."""
    loops = library()
    assert loops is not None
    fields = [np.ascontiguousarray(field) for field in state]
    counts = fields.pop() if fields[-1].dtype.kind == "i" else None
    hi, *rest = fields
    _call(loops.put_sums, cells, *_sizes(hi.size), hi, rest[0] if rest else None, counts, *_sizes(is_added))


def _one_step(array: Array) -> int:
    """Bytes from one element to the next of a float64 array, in C order; 0 where there is no one such step."""
    if array.dtype != F8 or not array.flags.aligned:
        return 0
    if array.flags.c_contiguous:
        return array.itemsize
    dims = [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    is_one = all(step == inner * n for (_, step), (n, inner) in itertools.pairwise(dims))
    return dims[-1][1] if is_one else 0


def present(block: Array) -> tuple[Array, Array, Array] | None:
    """The sums over the middle axis of what is not NaN, as pairs, and how many there are; None if not done here.

    Of float32 and float64 blocks of shape (outer, n, inner).
    """
    loops = _loops_for(block) if block.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    hi, lo, count = (np.empty((block.shape[0], block.shape[2]), kind) for kind in "ddq")
    _reduce(loops[f"present_{block.dtype.name}"], block, block.shape, hi, lo, count)
    return hi, lo, count


def product(block: Array, skip: bool) -> tuple[Array, Array] | None:
    """The product over the middle axis as a value and an exponent of two; None if not done here.

    Of float32 and float64 blocks of shape (outer, n, inner). ``skip`` leaves NaN out.
    """
    loops = _loops_for(block) if block.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    cells = (block.shape[0], block.shape[2])
    value, exponent = np.empty(cells), np.zeros(cells, np.int64)  # of which only those that are not 0 are written
    _reduce(loops[f"product{'_present' if skip else ''}_{block.dtype.name}"], block, block.shape, value, exponent)
    return value, exponent


def spread(block: Array, skip: bool, paired: bool) -> State | None:
    """Counts, means and sums of squared deviations from them over the middle axis; None if not done here.

    Of blocks of shape (outer, n, inner), floats or integers. ``skip`` leaves NaN out; ``paired`` means are pairs.
    """
    loops = _loops_for(block) if _kind(block) in SPREAD else None
    if loops is None:
        return None
    fields = [np.empty((block.shape[0], block.shape[2])) if wanted else None for wanted in (True, True, paired, True)]
    name = "spread_present" if skip and block.dtype.kind == "f" else "spread"
    _reduce(loops[f"{name}_{block.dtype.name}"], block, block.shape, *fields)
    return tuple(field for field in fields if field is not None)


def histogram(parts: Iterable[Array], edges: Array) -> Array | None:
    """How many elements of contiguous parts lie in each bin, as numpy.histogram counts them; None if not done here.

    Of float32 and float64, with edges of the same dtype for bins of one width.
    """
    loops = library()
    with np.errstate(over="ignore"):
        width = edges[-1] - edges[0]
        is_wide = np.isfinite(width) and np.isfinite((len(edges) - 1) / width) and (edges[1:] > edges[:-1]).all()
    if loops is None or edges.dtype not in ("f4", "f8") or not is_wide:
        return None
    bins = len(edges) - 1
    counts = np.zeros((TABLES, bins + 1), np.int64)
    for part in parts:
        _call(loops[f"histogram_{edges.dtype.name}"], part, *_sizes(part.size), edges, *_sizes(bins), counts)
    found: Array = counts.sum(0)[:-1]
    return found


def grouped(block: Array, codes: Array, groups: int, skip: bool) -> tuple[Array, Array | None] | None:
    """The sums by groups over the middle axis, of shape (outer, groups, inner), and with ``skip``, which leaves NaN
    out, how many elements they have; None if not done here.

    Of float32 and float64 blocks of shape (outer, n, inner); ``codes`` are the groups of n elements.
    """
    lie = block.shape[2] == 1 or block.strides[2] == block.itemsize
    loops = _loops_of(block) if lie and block.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    shape = block.shape[0], groups, block.shape[2]
    total, count = np.zeros(shape), np.zeros(shape, np.int64) if skip else None
    labels = np.ascontiguousarray(codes, np.int64)
    name, several = f"grouped{'_present' if skip else ''}_{block.dtype.name}", ctypes.c_int64(groups)
    _reduce(loops[name], block, block.shape, labels, several, total, *(() if count is None else (count,)))
    if count is not None and shape[2] > 1:  # the loops have counted gaps
        count = np.bincount(labels, minlength=groups)[:, None] - count
    return total, count


@dataclass(frozen=True)
class RowSummary:
    """What was asked for of each row, of shape (outer, 1); the rest holds nothing of meaning."""

    total: Array
    first: Array  # the sum of deviations from the pivot,
    second: Array  # and of their squares
    low: Array
    low_at: Array
    high: Array
    high_at: Array


def row_summary(block: Array, what: int, pivot: Array | None) -> RowSummary | None:
    """Several reductions of float rows from one read, of shape (outer, n, 1); None if not done here.

    ``what`` adds up SUM, DEVIATIONS from one pivot a row, LOW and HIGH: the least and the greatest element, or NaN, and
    where the first of them is.
    """
    outer, n, _ = block.shape
    loops = _loops_for(block) if n >= ROW and block.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    kinds = ("f8", "f8", "f8", block.dtype, "i8", block.dtype, "i8")
    found = RowSummary(*(np.empty((outer, 1), kind) for kind in kinds))
    pivots = np.zeros(outer) if pivot is None else np.ascontiguousarray(pivot, "f8")
    fields = (getattr(found, f.name) for f in dataclass_fields(found))
    statistics = np.array([what], np.int64)
    _call(
        loops[f"row_summary_{block.dtype.name}"],
        block,
        *_sizes(outer, block.strides[0], n),
        statistics,
        pivots,
        *fields,
    )
    return found


def ones(block: Array) -> Array:
    """Bools as bytes of 0 and 1: their own may be any."""
    found: Array = (block.view(np.uint8) != 0).view(np.uint8)
    return found


def finds_extrema(dtype: DType) -> bool:
    """True where :func:`extrema` takes elements of this dtype."""
    return (dtype.kind == "b" or f"{dtype.kind}{dtype.itemsize}" in SPREAD) and library() is not None


def extrema(name: str, block: Array) -> State | None:
    """The extrema over the middle axis that ``argmin``, ``argmax``, ``nanargmin`` or ``nanargmax`` finds, and where the
    first of each is, -1 where there is nothing but NaN to leave out; None if not done here.

    Of blocks of shape (outer, n, inner), floats, integers or bools, columns alone.
    """
    if block.dtype.kind != "f":
        name = name.removeprefix("nan")
    least = FEW_BOOLS if block.dtype.kind == "b" else 2
    is_done = finds_extrema(block.dtype) and least <= block.shape[1] < 2**31 and block.shape[2] > 1
    loops = _loops_for(block) if is_done else None
    if loops is None:
        return None
    shape, dtype = (block.shape[0], block.shape[2]), block.dtype
    if dtype.kind == "b":
        block = ones(block)
    best, at = np.empty(shape, block.dtype), np.empty(shape, np.int64)
    _reduce(loops[f"{name}_columns_{block.dtype.name}"], block, block.shape, best, at)
    return best.view(dtype), at


def best(name: str, block: Array) -> Array | None:
    """The extrema over the middle axis by a ufunc of this name; None if not done here.

    Of wide columns of floats, which NumPy reads from memory at half the speed.
    """
    is_done = name in EXTREMA and block.dtype in ("f4", "f8") and block.shape[2] >= WIDE and block.shape[1] >= DEEP
    loops = _loops_for(block) if is_done else None
    if loops is None:
        return None
    found = np.empty((block.shape[0], block.shape[2]), block.dtype)
    _reduce(loops[f"{name}_columns_{block.dtype.name}"], block, block.shape, found)
    return found


def scan(name: str, block: Array, carry: Array, out: Array) -> Array | None:
    """Running results of a ufunc, of last, or of sums without NaN, over the middle axis into ``out``, and the states
    behind; else None.

    ``block`` and ``out`` have shape (outer, n, inner), ``carry`` (outer, inner) and the dtype that is accumulated in.
    """
    kind, state, result = (_kind(a) for a in (block, carry, out))
    loops = _scans_for(block, out) if SCANNED.get((name, kind)) == (state, result) else None
    if loops is None:
        return None
    behind = np.array(carry != 0 if state == "b1" else carry, order="C")
    _scan(loops[f"{name}_{block.dtype.name}"], block, out, behind)
    return behind


def products(block: Array, value: Array, exponent: Array, out: Array) -> tuple[Array, Array] | None:
    """Running products of floats, of values with exponents, as :func:`scan` gives them."""
    kind, state, result = (_kind(a) for a in (block, value, out))
    loops = _scans_for(block, out) if SCANNED.get(("products", kind)) == (state, result) else None
    if loops is None:
        return None
    behind = np.array(value, order="C"), np.array(exponent, order="C")
    _scan(loops[f"products_{block.dtype.name}"], block, out, *behind)
    return behind


def pairs(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array] | None:
    """Running sums of float64 or complex128 in pairs, as :func:`scan` gives them."""
    same = {_kind(a) for a in (block, hi, lo, out)}
    loops = _scans_for(block, out) if same in ({"f8"}, {"c16"}) else None
    if loops is None:
        return None
    behind = np.empty((*hi.shape, 2), hi.dtype)
    behind[..., 0], behind[..., 1] = hi, lo
    _scan(loops[f"pairs_{block.dtype.name}"], block, out, behind)
    return behind[..., 0], behind[..., 1]


def packed_pairs(block: Array, carry: State, out: Array) -> State | None:
    """As :func:`pairs`, of states that lie as in a partial, hi and lo of each part: those behind take their place.

    Of lines of two elements the states are as large as the lines. Taken apart and put together again they cost more
    than the sums: of 2**22 lines of float64, 60 ms of 110.
    """
    kind = {2: "f8", 4: "c16"}[len(carry)]
    loops = _scans_for(block, out) if {_kind(block), _kind(out)} == {kind} and _are_packed(carry) else None
    if loops is None:
        return None
    _scan(loops[f"packed_pairs_{block.dtype.name}"], block, out, carry[0])
    return carry


def running_moments(block: Array, before: State, skip: bool) -> tuple[State, State] | None:
    """Running counts, means and sums of squared deviations of float64, and behind them a count, a pair of a mean and
    such a sum for each line; else None. ``before`` are the latter before the block; ``skip`` leaves NaN out."""
    loops = _scans_for(block, block) if _kind(block) == "f8" else None
    if loops is None:
        return None
    behind = tuple(np.array(field, F8, order="C") for field in before)
    running = tuple(np.empty(block.shape) for _ in range(3))
    function = loops["running_moments_present" if skip else "running_moments"]
    _call(function, block, *_sizes(*block.shape), np.array(block.strides[:2], np.int64), *behind, *running)
    return running, behind


def running_positions(name: str, block: Array, index: Array, before: State) -> tuple[State, State] | None:
    """Running extrema and their positions, and those behind the block, as argmin, argmax, nanargmin and nanargmax find
    them; else None. ``index`` are the positions along the middle axis."""
    known = _kind(block) in SPREAD and before[0].dtype == block.dtype
    loops = _scans_for(block, block) if known else None
    if loops is None:
        return None
    behind = np.array(before[0], order="C"), np.array(before[1], np.int64, order="C")
    running = np.empty(block.shape, block.dtype), np.empty(block.shape, np.int64)
    function = loops[f"running_{name}_{block.dtype.name}"]
    steps, places = np.array(block.strides[:2], np.int64), np.ascontiguousarray(index, np.int64)
    _call(function, block, *_sizes(*block.shape), steps, places, *behind, *running)
    return running, behind


def _are_packed(fields: State) -> bool:
    """True for float64 fields of states that lie one after another without a gap."""
    first, nbytes = fields[0], 8 * len(fields)
    gapless = (nbytes * first.shape[1], nbytes)
    return all(
        _kind(field) == "f8"
        and field.ctypes.data == first.ctypes.data + 8 * number
        and all(n == 1 or step == wanted for n, step, wanted in zip(field.shape, field.strides, gapless, strict=True))
        for number, field in enumerate(fields)
    )


def _kind(array: Array) -> str:
    """Kind and bytes of the elements; nothing where they are swapped."""
    return f"{array.dtype.kind}{array.dtype.itemsize}" if array.dtype.isnative else ""


def _scan(function: Callable[..., Any], block: Array, out: Array, *behind: Array) -> None:
    steps = np.array([*block.strides[:2], *out.strides[:2]], np.int64)
    _call(function, block, *_sizes(*block.shape), steps, out, *behind)


def _scans_for(block: Array, out: Array) -> ctypes.CDLL | None:
    """The loops, if it is worth a call and lines side by side are neighbours in memory."""
    if block.size < LEAST or not (block.flags.aligned and out.flags.aligned):
        return None
    lie = all(a.shape[2] == 1 or a.strides[2] == a.itemsize for a in (block, out))
    return library() if lie else None


def _reduce(function: Callable[..., Any], block: Array, shape: tuple[int, ...], *results: Any) -> None:
    steps = np.array(block.strides[:2], np.int64)
    _call(function, block, *_sizes(*shape), steps, *results)


def _sizes(*numbers: int) -> Iterator[ctypes.c_int64]:
    return map(ctypes.c_int64, numbers)


def _loops_for(block: Array) -> ctypes.CDLL | None:
    """The loops, if it is worth a call and cells side by side, or else elements, are neighbours in memory."""
    step = block.strides[2] if block.shape[2] > 1 else block.strides[1]
    return _loops_of(block) if step == block.itemsize or block.shape[1:] == (1, 1) else None


def _loops_of(block: Array) -> ctypes.CDLL | None:
    """The loops, if it is worth a call."""
    return library() if block.size >= LEAST and block.flags.aligned and block.dtype.isnative else None


def _call(function: Callable[..., Any], array: Array, *others: Any) -> None:
    pointers = (ctypes.c_void_p(o.ctypes.data) if isinstance(o, np.ndarray) else o for o in others)
    function(ctypes.c_void_p(array.ctypes.data), *pointers)
