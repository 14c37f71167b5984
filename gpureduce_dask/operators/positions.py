"""Rows argmin, argmax, nanargmin and nanargmax: a value and its position, -1 for none.

Ties go to the lowest position and the first NaN wins, whatever order states are combined in. The folds look up
positions only of what they find, so ``index`` need not be an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..dtypes import kind
from ..errors import EmptyError, message
from . import cuda_types as cuda
from . import native, rules
from .limits import highest, lowest, void
from .monoid import INDEX, Array, DType, Fields, Monoid, State
from .panels import PANEL
from .totals import I8

# Xeon 2.6 GHz, NumPy 2.4, argmax of float32 and float64, chunks of 64 MiB, 2026-11
LONG = 1 << 15  # bytes of a row from which on it is read stretch by stretch
STRETCH = 8  # elements of a stretch, by the square root of the row's: few stretches, and each of them short
COPIED = 3 << 15  # bytes of stretches to look positions up in at once: more would be fresh memory each time
EVEN = 128  # elements that NumPy's loops take at once: those behind the first, in a stretch, are a multiple
MANY = 512  # elements of a row up to which a chunk has so many rows that reading their extrema takes long
QUICK = frozenset(["f4", "f8", *(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8))])  # memory sets the pace


def fields(dtype: DType) -> Fields:
    return (("value", dtype), (INDEX, I8))


def min_identity(dtype: DType) -> tuple[Any, ...]:
    return highest(dtype), -1


def max_identity(dtype: DType) -> tuple[Any, ...]:
    return lowest(dtype), -1


def nanmin_identity(dtype: DType) -> tuple[Any, ...]:
    return void(dtype, highest(dtype)), -1


def nanmax_identity(dtype: DType) -> tuple[Any, ...]:
    return void(dtype, lowest(dtype)), -1


def isnan(x: Array) -> Array:
    return np.isnan(x) if kind(x.dtype) in "fcmM" else np.zeros(np.shape(x), bool)


def lift(x: Array, index: Array) -> State:
    return x, np.broadcast_to(index, np.shape(x))


def has_no_nan(x: Array) -> bool:
    """True for integers, and for times, whose NaT NumPy's nanargmin does not skip: to it, it is no NaN."""
    return x.dtype.kind in "biumM"


def nan_lift(x: Array, index: Array) -> State:
    return lift(x, index) if has_no_nan(x) else (x, np.where(isnan(x), -1, index))


def combine(better: Callable[[Array, Array], Array], earlier: State, later: State) -> State:
    """The better of two elements that exist; NaN is better than any number, and of equals the lower position."""
    (x, i), (y, j) = earlier, later
    x_nan, y_nan = isnan(x), isnan(y)
    equal = (x == y) | (x_nan & y_nan)
    wins = better(y, x) & ~x_nan | (y_nan & ~x_nan) | (equal & (j < i))
    take = (j >= 0) & ((i < 0) | wins)
    return np.where(take, y, x), np.where(take, j, i)


def min_combine(earlier: State, later: State) -> State:
    return combine(np.less, earlier, later)


def max_combine(earlier: State, later: State) -> State:
    return combine(np.greater, earlier, later)


# ---- folds


def first(flags: Array) -> tuple[Array, Array]:
    """Where along the middle axis the first true flag is, and whether there is one.

    For columns the flags are weighted with how far they stand from the end and their largest is taken: both
    passes run on small integers along memory, where argmax would walk across it.
    """
    _, n, inner = flags.shape
    if inner == 1:
        rows = flags[:, :, 0]
        at = np.argmax(rows, axis=1)
        return at[:, None], rows[np.arange(len(rows)), at][:, None]
    small = np.uint8 if n < 256 else np.uint16 if n < 65536 else np.int64
    left = np.maximum.reduce(flags * np.arange(n, 0, -1, dtype=small)[:, None], axis=1)
    return n - left.astype(I8), left > 0


def locate(block: Array, values: Array, index: Array) -> State:
    """The state of these extrema of a block: the first element equal to each, or the first NaN."""
    at, found = first(block == values[:, None])
    if not np.all(found):
        nan_at, _ = first(isnan(block))
        at = np.where(found, at, nan_at)
    return values, index[at]


def search(arg: Callable[..., Array], best: np.ufunc, rows: Array) -> Array:
    """Where along each row NumPy's own arg-reduction finds the extremum.

    A reduction reads memory a third faster than an arg-reduction: a long row is reduced stretch by stretch, and
    positions are looked up among the extrema of the stretches and in the first stretch that holds the row's.
    """
    outer, n = rows.shape
    if n * rows.itemsize < LONG or rows.dtype.str[1:] not in QUICK or not rows.flags.c_contiguous:
        return arg(rows, axis=1)
    step = STRETCH * math.isqrt(n) // EVEN * EVEN + 1
    flat, lines = rows.reshape(-1), np.arange(0, outer * n, n)
    starts = lines[:, None] + np.arange(0, n, step)
    extrema = best.reduceat(flat, starts.reshape(-1)).reshape(starts.shape)
    at: Array = np.minimum(arg(extrema, axis=1) * step, n - step)  # a last stretch is lengthened by what is no extremum
    firsts, stretches = lines + at, sliding_window_view(flat, step)
    few = max(COPIED // (step * rows.itemsize), 1)
    for start in range(0, outer, few):
        some = slice(start, start + few)
        at[some] += arg(stretches[firsts[some]], axis=1)
    return at


def pick(arg: Callable[..., Array], best: np.ufunc, rows: Array) -> tuple[Array, Array]:
    """Each row's extremum and where it is. Of short rows a few at a time: their extrema are read while in cache. So are
    rows with gaps, of which NumPy copies what it is given."""
    outer, n = rows.shape
    values, at = np.empty(outer, rows.dtype), np.empty(outer, I8)
    step = max(PANEL // n, 1) if n < MANY or not rows.flags.c_contiguous else outer
    lines = np.arange(step)
    for start in range(0, outer, step):
        part, here = rows[start : start + step], slice(start, start + step)
        at[here] = search(arg, best, part)
        values[here] = part[lines[: len(part)], at[here]]
    return values, at


def choose(arg: Callable[..., Array], best: np.ufunc, block: Array, index: Array) -> State:
    """The state of a block whose extremum NumPy's own arg-reduction finds."""
    if block.shape[2] == 1:
        values, at = pick(arg, best, block[:, :, 0])
        return values[:, None], index[at][:, None]
    at = arg(block, axis=1)
    return np.take_along_axis(block, at[:, None], axis=1)[:, 0], index[at]


def fold(arg: Callable[..., Array], best: np.ufunc, block: Array, index: Array) -> State:
    if block.shape[2] == 1 or block.dtype.kind == "c":
        return choose(arg, best, block, index)
    if (found := native.extrema(arg.__name__, block)) is not None:
        return found[0], index[found[1]]
    return locate(block, best.reduce(block, axis=1), index)


def nan_fold(name: str, reduce: Callable[..., Array], block: Array, index: Array) -> State:
    """As :func:`locate`, with position -1 where there is nothing but NaN."""
    if (state := native.extrema(name, block)) is not None:
        values, at = state
        found = at >= 0
    else:
        values = reduce(block, axis=1)
        at, found = first(block == values[:, None])
    return values, np.where(found, index[np.where(found, at, 0)], -1)


def min_fold(block: Array, index: Array) -> State:
    return fold(np.ndarray.argmin, np.minimum, block, index)


def max_fold(block: Array, index: Array) -> State:
    return fold(np.ndarray.argmax, np.maximum, block, index)


def nanmin_fold(block: Array, index: Array) -> State:
    return min_fold(block, index) if has_no_nan(block) else nan_fold("nanargmin", np.fmin.reduce, block, index)


def nanmax_fold(block: Array, index: Array) -> State:
    return max_fold(block, index) if has_no_nan(block) else nan_fold("nanargmax", np.fmax.reduce, block, index)


def running(name: str, block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    """Running states by compiled loops; float16 as float32, which has all of it."""
    if block.dtype == np.float16:
        wide = np.dtype(np.float32)
        found = running(name, block.astype(wide), index, (carry[0].astype(wide), carry[1]))
        if found is None:
            return None
        (values, places), (best, place) = found
        return (values.astype(block.dtype), places), (best.astype(block.dtype), place)
    name = name.removeprefix("nan") if has_no_nan(block) else name
    return native.running_positions(name, block, index, carry)


def min_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running("argmin", block, index, carry)


def max_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running("argmax", block, index, carry)


def nanmin_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running("nanargmin", block, index, carry)


def nanmax_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running("nanargmax", block, index, carry)


# ---- results


def finalise(state: State, dtype: DType) -> Array:
    if np.any(state[1] < 0):
        raise EmptyError(
            message("argmin/argmax", "an empty slice", "at least one element", "Drop empty slices, or mask the result.")
        )
    return state[1].astype(dtype, copy=False)


def nan_finalise(state: State, dtype: DType) -> Array:
    if np.any(state[1] < 0):
        raise EmptyError("All-NaN slice encountered: nanargmin and nanargmax need one element that is not NaN.")
    return state[1].astype(dtype, copy=False)


def _position(name: str, kinds: str, **functions: Any) -> Monoid:
    return rules.row(name, kinds, rules.position, empty="raise", fields=fields, **functions)


ROWS = (
    _position(
        "argmin",
        rules.ORDERED,
        identity=min_identity,
        lift=lift,
        combine=min_combine,
        finalise=finalise,
        fold=min_fold,
        running=min_running,
        cuda=cuda.arg_minimum,
    ),
    _position(
        "argmax",
        rules.ORDERED,
        identity=max_identity,
        lift=lift,
        combine=max_combine,
        finalise=finalise,
        fold=max_fold,
        running=max_running,
        cuda=cuda.arg_maximum,
    ),
    _position(
        "nanargmin",
        rules.ORDERED,
        identity=nanmin_identity,
        lift=nan_lift,
        combine=min_combine,
        finalise=nan_finalise,
        fold=nanmin_fold,
        running=nanmin_running,
        cuda=cuda.nan_arg_minimum,
    ),
    _position(
        "nanargmax",
        rules.ORDERED,
        identity=nanmax_identity,
        lift=nan_lift,
        combine=max_combine,
        finalise=nan_finalise,
        fold=nanmax_fold,
        running=nanmax_running,
        cuda=cuda.nan_arg_maximum,
    ),
)
