"""Sums and their states: 64-bit integers, float64 totals of narrower floats, TwoSum pairs of float64.

Which one a state is follows from its fields alone:

=====================  ==========================================  =====================================
elements               fields                                      meaning
=====================  ==========================================  =====================================
bool, signed           value int64                                 wraps as NumPy does
unsigned               value uint64                                wraps as NumPy does
floats below 64 bits   value float64
float64                hi, lo float64                              hi + lo, hi the nearest float64
complex64              value complex128                            two float64, real first
complex128             re_hi, re_lo, im_hi, im_lo float64          a pair for each part
timedelta64            value, nat int64                            ticks, and how many NaT there were
=====================  ==========================================  =====================================
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..dtypes import kind
from . import native
from .monoid import Array, DType, Fields, State
from .panels import panels

F8, C16, I8, U8 = (np.dtype(t) for t in ("f8", "c16", "i8", "u8"))
NAT = np.iinfo(np.int64).min
PAIRWISE = 128  # elements of a row: up to them NumPy adds plainly, and einsum up to four times as fast
PLAIN = 512  # elements or products of a column that are added plainly; then come sums of sums
TERMS = 256  # products of a row, which cost a tenth more than if all were added plainly
FEW = 128  # cells: below this einsum's inner loop beats add.reduce (Xeon 2.6 GHz, NumPy 2.4, float32 columns, 2026-11)
BYTE = 255  # the most that a byte counts
SIDE = 256  # bytes that are added side by side, where there are so many: 200 rows of 4,050 bools in 0.12 ms, in 64 bits
# 0.28; rows of three columns 0.29 and 4.9
LEAST = 4  # rows that are added so, at least


def wide(dtype: DType) -> DType:
    """The dtype that arithmetic on these elements is done in: int64, uint64, float64 or complex128."""
    return {"b": I8, "i": I8, "u": U8, "c": C16, "m": I8, "M": I8}.get(kind(dtype), F8)


def widen(x: Array, dtype: DType | None = None) -> Array:
    """Elements in the dtype that arithmetic is done in."""
    return np.asarray(x).astype(wide(x.dtype) if dtype is None else dtype, copy=False)


def numeric(x: Array) -> Array:
    """Elements in a dtype that NumPy's own loops take: bfloat16 as float64."""
    return widen(x) if x.dtype.kind == "V" else x


def sum_fields(dtype: DType, prefix: str = "") -> Fields:
    """The fields of a sum of these elements, each name behind a prefix."""
    if prefix:
        return tuple((prefix if n == "value" else f"{prefix}_{n}", d) for n, d in sum_fields(dtype))
    if dtype == F8:
        return (("hi", F8), ("lo", F8))
    if dtype == C16:
        return tuple((n, F8) for n in ("re_hi", "re_lo", "im_hi", "im_lo"))
    if dtype.kind == "m":
        return (("value", I8), ("nat", I8))
    return (("value", wide(dtype)),)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum of two floats and its rounding error (Knuth 1969); no error where the sum is not finite."""
    total = np.asarray(a + b)
    shadow = np.asarray(total - a)
    error = np.asarray(total - shadow)
    # (a - (total - shadow)) + (b - shadow), in place: memory for one more array costs more than the arithmetic
    np.subtract(a, error, out=error)
    np.subtract(b, shadow, out=shadow)
    error += shadow
    return total, settled(total, error)


def settled(total: Array, error: Array) -> Array:
    """The error of a sum where the sum is finite, else 0."""
    finite = np.isfinite(total)
    return error if np.all(finite) else np.where(finite, error, 0.0)


def add_pairs(hi: Array, lo: Array, other_hi: Array, other_lo: Array) -> tuple[Array, Array]:
    """The sum of two pairs, renormalised so that ``hi`` is the nearest float64.

    Where ``hi`` is not finite, ``lo`` means nothing: a GPU leaves NaN there.
    """
    if (found := native.add_pairs(hi, lo, other_hi, other_lo)) is not None:
        return found
    total, error = two_sum(hi, other_hi)
    return two_sum(total, settled(total, error + (lo + other_lo)))


def add(earlier: State, later: State) -> State:
    """Combine of every sum; a row of four float64 fields is two pairs."""
    if len(earlier) == 1 or earlier[0].dtype == I8:
        return tuple(a + b for a, b in zip(earlier, later, strict=True))
    if len(earlier) == 2:
        return add_pairs(*earlier, *later)
    return (*add_pairs(*earlier[:2], *later[:2]), *add_pairs(*earlier[2:], *later[2:]))


def halve(state: State, axis: int) -> State | None:
    """The states of sums of integers or of pairs folded along an axis, to what :func:`add` makes of them by halves;
    None if not done here."""
    if state[0].dtype.kind in "iu":
        return tuple(np.add.reduce(field, axis, keepdims=True) for field in state)
    if len(state) == 1:
        return None
    found: list[Array] = []
    for hi, lo in zip(state[::2], state[1::2], strict=True):
        if (pair := native.halve_pairs(hi, lo, axis)) is None:
            return None
        found += pair
    return tuple(found)


def lift(x: Array) -> State:
    """Elements to the state of a sum."""
    x = np.asarray(x)
    if x.dtype == F8:
        return x, np.zeros_like(x)
    if x.dtype == C16:
        return x.real, np.zeros_like(x.real), x.imag, np.zeros_like(x.real)
    if x.dtype.kind == "m":
        ticks = x.view(I8)
        missing = ticks == NAT
        return np.where(missing, 0, ticks), missing.astype(I8)
    return (widen(x),)


def split(total: Array, dtype: DType) -> State:
    """Totals of one block, computed in the wide dtype, as the state of a sum of ``dtype`` elements."""
    return lift(total) if dtype in (F8, C16) else (total,)


def add_up(block: Array, dtype: DType) -> Array:
    """The sum over the middle axis of a block of shape (outer, n, inner), in this dtype."""
    outer, n, inner = block.shape
    if dtype == F8 and block.dtype.kind == "f" and (sums := native.sums(block)) is not None:
        return reduce(np.add, sums)
    if block.dtype == bool and dtype == I8:
        return count_true(block)
    if dtype in (I8, U8) and (found := native.integer_sums(block)) is not None:
        return found.astype(dtype, copy=False)
    same = block.dtype == dtype
    if same and dtype in (F8, C16) and inner > 1 and n > PLAIN:
        even = n - n % PLAIN
        sums = np.add.reduce(block[:, :even].reshape(outer, -1, PLAIN, inner), axis=2)
        return np.asarray(add_up(sums, dtype) + np.add.reduce(block[:, even:], axis=1))
    narrow = not same and dtype in (F8, C16) and inner < FEW
    if narrow or (same and dtype == F8 and inner == 1 and n <= PAIRWISE):
        return np.asarray(np.einsum("oni->oi", numeric(block), dtype=dtype, casting="unsafe"))
    return np.asarray(np.add.reduce(block, axis=1, dtype=dtype))


def count_true(block: Array) -> Array:
    """How many are true along the middle axis of a block of bools. They are added in bytes, of as many rows at a time
    as a byte can count, with rows side by side where one is short."""
    outer, n, inner = block.shape
    if outer * inner == 1:
        return np.full((1, 1), np.count_nonzero(block), I8)
    if inner == 1 and (found := native.integer_sums(block)) is not None:
        return found
    ones = native.ones(block)
    side_rows = max(1, min(-(-SIDE // inner), n // LEAST))
    rows = min(BYTE, n // side_rows)
    if rows < LEAST:
        return _count_bytes(ones)
    even = n - n % (rows * side_rows)
    head = ones[:, :even].reshape(outer, -1, rows, side_rows * inner)
    counts = _count_bytes(np.add.reduce(head, axis=2, dtype=np.uint8).reshape(outer, -1, inner))
    return counts + _count_bytes(ones[:, even:]) if even < n else counts


def _count_bytes(counts: Array) -> Array:
    if counts.shape[2] < FEW:
        return np.asarray(np.einsum("oni->oi", counts, dtype=I8, casting="unsafe"))
    return np.asarray(np.add.reduce(counts, axis=1, dtype=I8))


def fold(block: Array) -> State:
    """The state of the sum over the middle axis of a block of shape (outer, n, inner)."""
    if block.dtype.kind == "m":
        ticks, missing = lift(block)
        return add_up(ticks, I8), add_up(missing, I8)
    if (sums := native.sums(block)) is not None:
        return sums
    return split(add_up(block, wide(block.dtype)), block.dtype)


def dot(x: Array, y: Array, dtype: DType) -> Array:
    """The sum of products over the middle axis of two blocks, in this dtype."""
    if x.shape[1] > 1 and (x.strides[1] == 0) != (y.strides[1] == 0):
        # einsum would multiply the sum by the one element that is repeated: infinities and overflow come out otherwise.
        pairs = zip(panels(numeric(x)), panels(numeric(y)), strict=True)
        return reduce(np.add, (np.add.reduce(np.multiply(*p, dtype=dtype, casting="unsafe"), axis=1) for p in pairs))
    _, n, inner = x.shape
    step = TERMS if inner == 1 else PLAIN
    if x.dtype == y.dtype == F8 and n > step:
        even = n - n % step
        head = (v[:, :even].reshape(len(v), -1, step, inner) for v in (x, y))
        rest = np.einsum("oni,oni->oi", x[:, even:], y[:, even:])
        return np.asarray(add_up(np.einsum("okni,okni->oki", *head), F8) + rest)
    return np.asarray(np.einsum("oni,oni->oi", numeric(x), numeric(y), dtype=dtype, casting="unsafe"))


def total(state: State) -> Array:
    """The number that the state of a sum stands for; a sum of zeros is +0.0, as NumPy's is."""
    if len(state) == 1:
        return state[0] + np.zeros((), state[0].dtype)
    if state[0].dtype == I8:
        return np.where(state[1] > 0, NAT, state[0])
    if len(state) == 2:
        hi, lo = state
        found = np.asarray(hi + lo)
        found += 0.0
        finite = np.isfinite(hi)
        return found if np.all(finite) else np.where(finite, found, hi)
    out = np.empty(np.shape(state[0]), C16)
    out.real, out.imag = total(state[:2]), total(state[2:])
    return out


def cast(values: Any, dtype: DType) -> Array:
    """Results in the dtype asked for; int64 ticks become times."""
    numbers: Array = np.asarray(values)
    if dtype.kind in "mM":
        numbers = numbers.astype(I8, copy=False).view(dtype)
    return numbers.astype(dtype, copy=False)
