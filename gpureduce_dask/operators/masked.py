"""Folds of blocks of which only those elements count that a mask says: the folds of the table, each with a mask.

Where an element changes no result, it takes the place of those that do not count; else those are counted out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from ..dtypes import kind
from ..errors import EmptyError, message
from . import counts, extrema, first_last, higher_moments, logic, moments, norms, positions, prod, sums
from .limits import highest, lowest, void
from .monoid import Array, DType, Monoid, State
from .panels import along, panels
from .select import select
from .totals import F8, I8

Fold = Callable[..., State]
Finalise = Callable[..., Array]


def zero(dtype: DType) -> Any:
    return 0


def one(dtype: DType) -> Any:
    return 1


def void_or_highest(dtype: DType) -> Any:
    return void(dtype, highest(dtype))


def void_or_lowest(dtype: DType) -> Any:
    return void(dtype, lowest(dtype))


NEUTRAL: Mapping[Fold, Callable[[DType], Any]] = MappingProxyType(
    {
        **dict.fromkeys((sums.fold, sums.fold_present, logic.fold_any, logic.count_fold), zero),
        **dict.fromkeys((norms.square_fold, norms.norm1_fold, norms.norm2_fold, norms.largest_fold), zero),
        **dict.fromkeys((prod.fold, prod.fold_present, logic.fold_all), one),
        extrema.min_fold: highest,
        extrema.max_fold: lowest,
        extrema.nanmin_fold: void_or_highest,
        extrema.nanmax_fold: void_or_lowest,
    }
)


def is_known(fold: Fold | None) -> bool:
    """True for folds that have a form with a mask."""
    return fold in NEUTRAL or fold in COUNTING


def among(fold: Fold, block: Array, mask: Array, index: Any) -> State:
    """The states that a fold of the table gives of those elements of a block that a mask of its shape says."""
    counting = COUNTING.get(fold)
    if counting is not None:
        return counting(block, mask, index)
    return fold(select(mask, block, NEUTRAL[fold](block.dtype)), index)


def can_miss(dtype: DType) -> bool:
    """True for elements that may be NaN."""
    return kind(dtype) in "fc"


def count(block: Array, mask: Array, index: Any) -> State:
    return (np.add.reduce(mask, axis=1, dtype=I8),)


def count_present(block: Array, mask: Array, index: Any) -> State:
    return count(block, mask & ~sums.missing(block) if can_miss(block.dtype) else mask, index)


def mean(block: Array, mask: Array, index: Any) -> State:
    return (*sums.mean_fold(select(mask, block, 0), index)[:-1], *count(block, mask, index))


def mean_present(block: Array, mask: Array, index: Any) -> State:
    if not can_miss(block.dtype):
        return mean(block, mask, index)
    return mean(block, mask & ~sums.missing(block), index)


def spread_present(block: Array, mask: Array, index: Any) -> State:
    if block.dtype.kind == "c":
        return moments.fold_present(select(mask, block, np.nan), index)
    values = block if can_miss(block.dtype) else block.astype(F8)
    return moments.block_state(select(mask, values, np.nan), True, block.dtype)


def spread(block: Array, mask: Array, index: Any) -> State:
    return with_lost(block, mask, spread_present(block, mask, index), moments.lift, moments.combine)


def moments_of(block: Array, mask: Array, index: Any) -> State:
    values = block if can_miss(block.dtype) else block.astype(F8)
    state = higher_moments.state_of(select(mask, values, np.nan), True)
    return with_lost(block, mask, state, higher_moments.lift, higher_moments.combine)


def with_lost(block: Array, mask: Array, state: State, lift: Fold, combine: Fold) -> State:
    """States that left out every NaN, with those NaN that do count."""
    if not can_miss(block.dtype):
        return state
    each = zip(panels(block), panels(mask), strict=True)
    lost = reduce(np.logical_or, (np.any(np.isnan(part) & counts, axis=1) for part, counts in each))
    if not np.any(lost):
        return state
    nan = lift(np.full(lost.shape, np.nan, block.dtype), np.zeros((), I8))
    return tuple(np.where(lost, j, f) for f, j in zip(state, combine(state, nan), strict=True))


def peak_to_peak(block: Array, mask: Array, index: Any) -> State:
    low = along(np.minimum, select(mask, block, highest(block.dtype)))
    return low, along(np.maximum, select(mask, block, lowest(block.dtype)))


class _Places:
    """The index of a block in itself."""

    def __getitem__(self, at: Any) -> Any:
        return at


def position(fold: Fold, worst: Callable[[DType], Any], block: Array, mask: Array, index: Any) -> State:
    """The best among the chosen and its position, -1 for none."""
    values, at = fold(select(mask, block, worst(block.dtype)), _Places())
    found = np.take_along_axis(mask, at[:, None], axis=1)[:, 0]
    if not np.all(found):  # what was put in place has won: there is nothing else, or nothing better
        first, exists = positions.first(mask)
        at, found = np.where(found, at, first), found | exists
    return values, np.where(found, index[np.where(found, at, 0)], -1)


def present_position(fold: Fold, worst: Callable[[DType], Any], block: Array, mask: Array, index: Any) -> State:
    if can_miss(block.dtype):
        return fold(select(mask, block, np.nan), index)
    return position(fold, worst, block, mask, index)


def least(block: Array, mask: Array, index: Any) -> State:
    return position(positions.min_fold, highest, block, mask, index)


def greatest(block: Array, mask: Array, index: Any) -> State:
    return position(positions.max_fold, lowest, block, mask, index)


def least_present(block: Array, mask: Array, index: Any) -> State:
    return present_position(positions.nanmin_fold, highest, block, mask, index)


def greatest_present(block: Array, mask: Array, index: Any) -> State:
    return present_position(positions.nanmax_fold, lowest, block, mask, index)


def first(block: Array, mask: Array, index: Any) -> State:
    at, found = positions.first(mask & ~positions.isnan(block))
    return np.take_along_axis(block, np.where(found, at, 0)[:, None], 1)[:, 0], found


def last(block: Array, mask: Array, index: Any) -> State:
    return first(block[:, ::-1], mask[:, ::-1], index)


COUNTING: Mapping[Fold, Fold] = MappingProxyType(
    {
        counts.fold: count,
        counts.fold_present: count_present,
        sums.mean_fold: mean,
        sums.mean_fold_present: mean_present,
        moments.fold: spread,
        moments.fold_present: spread_present,
        higher_moments.fold: moments_of,
        extrema.ptp_fold: peak_to_peak,
        positions.min_fold: least,
        positions.max_fold: greatest,
        positions.nanmin_fold: least_present,
        positions.nanmax_fold: greatest_present,
        first_last.first_fold: first,
        first_last.last_fold: last,
    }
)


# ---- results: only the states tell that nothing was chosen


def refuse(name: str, nothing: Array) -> None:
    """Raise where a slice holds nothing that counts."""
    if np.any(nothing):
        slices = f"a mask that chooses nothing in {np.count_nonzero(nothing)} of {np.size(nothing)} slices"
        raise EmptyError(message(name, slices, "an element that counts in each", "Drop those slices, or choose more."))


def position_finalise(state: State, dtype: DType) -> Array:
    refuse("argmin/argmax", state[1] < 0)
    return positions.finalise(state, dtype)


def peak_to_peak_finalise(state: State, dtype: DType) -> Array:
    refuse("ptp", state[0] > state[1])
    return extrema.ptp_finalise(state, dtype)


def kept_finalise(state: State, dtype: DType) -> Array:
    if not can_miss(dtype):
        refuse("first/last", ~state[1])
    return first_last.finalise(state, dtype)


REFUSALS: Mapping[Finalise, Finalise] = MappingProxyType(
    {
        positions.finalise: position_finalise,
        extrema.ptp_finalise: peak_to_peak_finalise,
        first_last.finalise: kept_finalise,
    }
)


def refusing(monoid: Monoid) -> Monoid:
    """An operator of what may be nothing at all: one that has no answer to that then says so."""
    finalise = REFUSALS.get(monoid.finalise) if monoid.empty == "raise" else None
    return monoid if finalise is None else replace(monoid, finalise=finalise)
