"""Rows var, std, nanvar and nanstd: counts, means and central sums of squares, merged pairwise.

Merging: Chan, Golub & LeVeque 1979. A block is measured from a pivot near its elements. Third and fourth moments are
in higher_moments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from . import cuda_types as cuda
from . import native, rules, sums, totals
from .monoid import Array, DType, Fields, Monoid, State
from .panels import PANEL, folded, panels, patches
from .select import select
from .totals import C16, F8

SHARE = 64
F4, C8 = np.dtype("f4"), np.dtype("c8")


def centre(dtype: DType) -> DType:
    """The dtype whose sums have the fields of these elements' mean.

    That is a pair for real elements with more digits than float32: a merge squares the distance of two means, and of
    means rounded to float64 it has but the digits that elements far from zero leave.
    """
    if dtype.kind == "c":
        return C8
    return F8 if dtype == F8 or (dtype.kind in "iu" and dtype.itemsize >= 4) else F4


def fields(dtype: DType) -> Fields:
    return (("count", F8), *totals.sum_fields(centre(dtype), "mean"), ("m2", F8))


def identity(dtype: DType) -> tuple[float, ...]:
    return (0.0,) * len(fields(dtype))


def parts(x: Array) -> tuple[Array, ...]:
    """The real numbers that elements are made of."""
    return (x.real, x.imag) if x.dtype.kind == "c" else (x,)


def lift(x: Array, index: Array) -> State:
    """One element: its spread is 0, and NaN where the element is not finite."""
    mean = x.astype(totals.wide(centre(x.dtype)))
    spread = sum((p - p for p in parts(mean)), np.zeros(np.shape(x)))
    return (np.ones(np.shape(x)), *totals.split(mean, centre(x.dtype)), spread)


def lift_present(x: Array, index: Array) -> State:
    count = (~sums.missing(x)).astype(F8)
    return (count, *lift(sums.present(x, 0), index)[1:])


def choose_pivots(block: Array, skip: bool) -> Array:
    """A number near each cell's elements: the mean of its first sixty-fourth, or of all where that is but NaN.

    It is that of a part of the block, so its square distance to the block's mean is at most 64 variances, and that
    bounds what cancellation costs.
    """
    head = block[:, : -(-block.shape[1] // SHARE)]
    mean: Array = totals.add_up(head, F8) / head.shape[1]
    if not skip or np.all(np.isfinite(mean)):
        return mean
    count, total = present_sums(head)
    if np.any(count == 0):
        count, total = present_sums(block)
    return np.asarray(total / np.maximum(count, 1))


def present_sums(block: Array) -> tuple[Array, Array]:
    """Each cell's count of elements that are not NaN, and their sum."""
    found = native.present(block)
    if found is not None:
        return found[2].astype(F8), found[0]
    counts = (np.add.reduce(~np.isnan(panel), axis=1, dtype=F8) for panel in panels(block))
    added = (totals.add_up(sums.present(panel, 0), F8) for panel in panels(block))
    return reduce(np.add, counts), reduce(np.add, added)


def about_pivot(power_sums: Callable[..., State], block: Array, skip: bool) -> tuple[Array, State]:
    """A pivot, and counts and power sums of the deviations from it.

    One pivot for all cells where it lies as near to each cell's mean as :func:`choose_pivots` would: NumPy subtracts
    one number twice as fast as one for each cell.
    """
    each = choose_pivots(block, skip)
    one = np.asarray(np.mean(each))
    if each.size > 1 and np.isfinite(one):
        count, first, second, *higher = power_sums(block, one, skip)
        slip = first / np.maximum(count, 1)
        if not np.any(slip * first > SHARE * (second - slip * first)):
            return one, (count, first, second, *higher)
    return each, power_sums(block, each[:, None], skip)


def two_sums(block: Array, pivot: Array, skip: bool) -> State:
    """Counts, and sums of the deviations and of their squares; ``skip`` leaves NaN out."""
    cells = (block.shape[0], block.shape[2])
    count = np.full(cells, float(block.shape[1]))
    first, second = np.zeros(cells), np.zeros(cells)
    scratch = np.empty(min(block.size, max(PANEL, block.shape[2])))
    for rows, panel in patches(block):
        middle = pivot if pivot.size == 1 else pivot[rows]
        away = scratch[: panel.size].reshape(panel.shape)
        if panel.dtype == F8:
            np.subtract(panel, middle, out=away)
        else:
            np.copyto(away, panel)  # a copy casts faster than an operation does
            away -= middle
        total = totals.add_up(away, F8)
        if skip and not np.all(np.isfinite(total)):
            gaps = np.isnan(panel)
            select(~gaps, away, 0, away)
            count[rows] -= np.add.reduce(gaps, axis=1, dtype=F8)
            total = totals.add_up(away, F8)
        first[rows] += total
        second[rows] += totals.dot(away, away, F8)
    return count, first, second


def block_state(block: Array, skip: bool, dtype: DType | None = None) -> State:
    """(count, mean, m2) of real elements over the middle axis, as of elements of this dtype."""
    dtype = dtype or block.dtype
    found = native.spread(block, skip, centre(dtype) == F8)
    return from_sums(*about_pivot(two_sums, totals.numeric(block), skip), dtype) if found is None else found


def from_sums(pivot: Array, sums_about: State, dtype: DType) -> State:
    """The state of elements of this dtype, of which there are so many, with such sums of deviations and of squares."""
    count, first, second = sums_about
    slip = first / np.maximum(count, 1)
    spread = np.maximum(second - first * slip, 0)
    overflown = np.isinf(second) & np.isfinite(first)
    return (count, *shifted(pivot, slip, dtype), np.where(overflown, second, spread))


def shifted(pivot: Array, slip: Array, dtype: DType) -> State:
    """The mean of elements that lies so far from a pivot."""
    return totals.two_sum(pivot, slip) if centre(dtype) == F8 else (pivot + slip,)


def complex_state(block: Array, skip: bool) -> State:
    """(count, mean_re, mean_im, m2) of complex elements; NaN in one part leaves both out."""
    if skip and np.any(gaps := np.isnan(block)):
        block = np.where(gaps, np.asarray(complex(np.nan, np.nan), block.dtype), block)
    if block.shape[2] > 1 and block.strides[2] != block.itemsize:
        block = np.ascontiguousarray(block)
    # As real columns, parts side by side, they are read once.
    count, mean, *_, m2 = block_state(block.view(block.real.dtype), skip)
    return count[:, ::2], np.ascontiguousarray(mean).view(C16), m2[:, ::2] + m2[:, 1::2]


def fold(block: Array, index: Array | None) -> State:
    return complex_state(block, False) if block.dtype.kind == "c" else block_state(block, False)


def fold_present(block: Array, index: Array | None) -> State:
    if block.dtype.kind == "c":
        return folded(partial(complex_state, skip=True), combine, block)
    return block_state(block, True)


def running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running_states(block, carry, False)


def running_present(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return running_states(block, carry, True)


def running_states(block: Array, carry: State, skip: bool) -> tuple[State, State] | None:
    """Running states of real elements, by compiled loops; ``skip`` leaves NaN out."""
    if block.dtype.kind not in "biuf":
        return None
    count, mean, *rest, squares = carry
    values = block.astype(F8, copy=False)
    found = native.running_moments(values, (count, mean, *(rest or [np.zeros(mean.shape)]), squares), skip)
    if found is None:
        return None
    (counts, means, sums_of_squares), (count, mean, low, squares) = found
    if not rest:
        return (counts, means, sums_of_squares), (count, mean + low, squares)
    return (counts, means, np.broadcast_to(0.0, means.shape), sums_of_squares), (count, mean, low, squares)


def distance(here: State, there: State) -> Array:
    """How far one mean lies from another, with all digits of pairs."""
    apart = there[0] - here[0]
    return apart if len(here) == 1 else apart + (there[1] - here[1])


def offset_mean(mean: State, by: Array) -> State:
    return (mean[0] + by,) if len(mean) == 1 else totals.two_sum(mean[0], by + mean[1])


def merged(earlier: State, later: State, state: State) -> State:
    """The merge of two states, or the other where one of them counts nothing."""
    left_empty, right_empty = earlier[0] == 0, later[0] == 0
    if not (np.any(left_empty) or np.any(right_empty)):
        return state
    return tuple(
        np.where(right_empty, a, np.where(left_empty, b, c)) for a, b, c in zip(earlier, later, state, strict=True)
    )


def combine(earlier: State, later: State) -> State:
    """Chan's merge, for real and complex means."""
    count = earlier[0] + later[0]
    share = later[0] / np.maximum(count, 1)
    m2 = earlier[-1] + later[-1]
    apart = distance(earlier[1:-1], later[1:-1])
    m2 = m2 + sum(p * (p * (earlier[0] * share)) for p in parts(apart))
    return merged(earlier, later, (count, *offset_mean(earlier[1:-1], apart * share), m2))


def spread(state: State, ddof: float, without: float) -> Array:
    """Variance; with NumPy's warning, and the squares times ``without``, where there are no degrees of freedom."""
    freedom, squares = state[0] - ddof, state[-1]
    if not np.any(freedom <= 0):
        return np.asarray(squares / freedom)
    warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(freedom > 0, squares / freedom, squares * without)


# What variances are without degrees of freedom, in NumPy: infinite, or NaN where all elements are one number; NaN where
# NaN is left out. It is a default so that kernels are told it as well (device/operator.py).
def var_finalise(state: State, dtype: DType, ddof: float = 0, without: float = np.inf) -> Array:
    return totals.cast(spread(state, ddof, without), dtype)


def std_finalise(state: State, dtype: DType, ddof: float = 0, without: float = np.inf) -> Array:
    return totals.cast(np.sqrt(spread(state, ddof, without)), dtype)


def nanvar_finalise(state: State, dtype: DType, ddof: float = 0, without: float = np.nan) -> Array:
    return var_finalise(state, dtype, ddof, without)


def nanstd_finalise(state: State, dtype: DType, ddof: float = 0, without: float = np.nan) -> Array:
    return std_finalise(state, dtype, ddof, without)


def _spread(name: str, **functions: Any) -> Monoid:
    shared = {"elements": rules.native, "fields": fields, "identity": identity, "combine": combine}
    options = (("ddof", 0),)
    return rules.row(
        name,
        rules.NUMBERS,
        rules.spread,
        free=rules.spread_kind,
        options=options,
        **shared,
        **functions,
    )


_ALL = {"lift": lift, "fold": fold, "running": running}
_PRESENT = {"lift": lift_present, "fold": fold_present, "running": running_present}
ROWS = (
    _spread("var", **_ALL, finalise=var_finalise, cuda=cuda.variance),
    _spread("std", **_ALL, finalise=std_finalise, cuda=cuda.deviation),
    _spread("nanvar", **_PRESENT, finalise=nanvar_finalise, cuda=cuda.nan_variance),
    _spread("nanstd", **_PRESENT, finalise=nanstd_finalise, cuda=cuda.nan_deviation),
)
