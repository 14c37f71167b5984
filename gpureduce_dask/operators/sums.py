"""Rows sum, nansum, mean and nanmean."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..dtypes import kind
from . import block_scans, native, rules, totals
from . import cuda_types as cuda
from .monoid import Array, Bound, DType, Fields, Monoid, State
from .panels import folded, panels
from .select import select
from .totals import F8, I8


def zeros(fields: Fields) -> tuple[Any, ...]:
    return (0,) * len(fields)


def fields(dtype: DType) -> Fields:
    return totals.sum_fields(dtype)


def identity(dtype: DType) -> tuple[Any, ...]:
    return zeros(fields(dtype))


def lift(x: Array, index: Array) -> State:
    return totals.lift(x)


def fold(block: Array, index: Array | None) -> State:
    return totals.fold(block)


def combine(earlier: State, later: State) -> State:
    return totals.add(earlier, later)


def finalise(state: State, dtype: DType) -> Array:
    return totals.cast(totals.total(state), dtype)


def has_nan(dtype: DType) -> bool:
    """True for elements that can be NaN."""
    return kind(dtype) in "fc"


def present(x: Array, fill: int) -> Array:
    """Elements with this value in place of NaN."""
    return select(~np.isnan(x), x, fill, np.empty(np.shape(x), x.dtype)) if has_nan(x.dtype) else x


def lift_present(x: Array, index: Array) -> State:
    return totals.lift(present(x, 0))


def compiled_present(block: Array) -> tuple[State, Array] | None:
    """The state of the sum of what is not NaN, and how many there are, where compiled loops find them."""
    found = native.present(block)
    if found is None:
        return None
    hi, lo, count = found
    return ((hi, lo) if block.dtype == F8 else (hi + lo,)), count


def fold_present(block: Array, index: Array | None) -> State:
    """By compiled loops; else the plain sum where it is finite, since no NaN was in it, or panel by panel without."""
    if not has_nan(block.dtype):
        return totals.fold(block)
    found = compiled_present(block)
    if found is not None:
        return found[0]
    state = totals.fold(block)
    if np.all(np.isfinite(state[0])) and np.all(np.isfinite(state[-1])):
        return state
    return folded(sum_panel, totals.add, block)


def sum_panel(panel: Array) -> State:
    return totals.fold(present(panel, 0))


def has_all(block: Array) -> bool:
    """True where no element is NaN."""
    return not has_nan(block.dtype) or (block.dtype.kind == "f" and not np.isnan(np.min(block)))


def sweep_present(block: Array, carry: State, out: Array) -> State:
    if len(carry) == 1 and (behind := native.scan("add_present", block, carry[0], out)) is not None:
        return (behind,)
    if has_all(block):
        return block_scans.total(block, carry, out)
    for panel, target in zip(panels(block), panels(out), strict=True):
        carry = block_scans.total(present(panel, 0), carry, target)
    return carry


# ---- means: the state of a sum, then a count


def summand(dtype: DType) -> DType:
    """What a mean adds up: narrow integers as int64, those of 64 bits as float64, where their sum cannot wrap."""
    if dtype.kind in "iu":
        return F8 if dtype.itemsize == 8 else I8
    return dtype


def mean_fields(dtype: DType) -> Fields:
    return (*totals.sum_fields(summand(dtype)), ("count", I8))


def mean_identity(dtype: DType) -> tuple[Any, ...]:
    return zeros(mean_fields(dtype))


def mean_lift(x: Array, index: Array) -> State:
    return (*totals.lift(x.astype(summand(x.dtype), copy=False)), np.ones(np.shape(x), I8))


def mean_fold(block: Array, index: Array | None) -> State:
    dtype = summand(block.dtype)
    state = totals.fold(block) if dtype == block.dtype else totals.split(totals.add_up(block, dtype), dtype)
    return (*state, np.full(state[0].shape, block.shape[1], I8))


def mean_combine(earlier: State, later: State) -> State:
    return (*totals.add(earlier[:-1], later[:-1]), earlier[-1] + later[-1])


def mean_halve(state: State, axis: int) -> State | None:
    """As :func:`.totals.halve`."""
    found = totals.halve(state[:-1], axis)
    return found and (*found, np.add.reduce(state[-1], axis, keepdims=True))


def mean_lift_present(x: Array, index: Array) -> State:
    return (*mean_lift(present(x, 0), index)[:-1], (~missing(x)).astype(I8))


def mean_fold_present(block: Array, index: Array | None) -> State:
    """As :func:`fold_present`, with a count of what is there."""
    if not has_nan(block.dtype):
        return mean_fold(block, index)
    found = compiled_present(block)
    if found is not None:
        return (*found[0], found[1])
    state = mean_fold(block, index)
    if np.all(np.isfinite(state[0])) and np.all(np.isfinite(state[-2])):
        return state
    return folded(mean_panel, mean_combine, block)


def mean_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    if block.dtype.kind not in "biuf":
        return None
    found = block_scans.running_total(block.astype(carry[0].dtype, copy=False), carry[:-1])
    if found is None:
        return None
    n = block.shape[1]
    counts = carry[-1][:, None] + np.arange(1, n + 1)[:, None]
    return (*found[0], counts), (*found[1], carry[-1] + n)


def mean_running_present(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    if block.dtype.kind != "f" or not np.any(gaps := missing(block)):
        return mean_running(block, index, carry)
    found = mean_running(np.where(gaps, np.zeros((), block.dtype), block), index, carry)
    if found is None:
        return None
    counts = np.empty(block.shape, I8)
    behind = block_scans.accumulate(np.add, ~gaps, carry[-1], counts)
    return (*found[0][:-1], counts), (*found[1][:-1], behind)


def mean_panel(panel: Array) -> State:
    state = mean_fold(present(panel, 0), None)
    return (*state[:-1], state[-1] - np.add.reduce(missing(panel), axis=1, dtype=I8))


def missing(x: Array) -> Array:
    """Where elements are NaN."""
    return np.isnan(x) if has_nan(x.dtype) else np.zeros(np.shape(x), bool)


def mean_finalise(state: State, dtype: DType) -> Array:
    """Sum by count; the mean of nothing is NaN (NaT for durations), with NumPy's warning."""
    total, count = totals.total(state[:-1]), state[-1]
    if not np.all(count):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
    if dtype.kind != "m":
        wide = np.asarray(total, np.result_type(total, F8))  # an array of its own, which takes the results
        return totals.cast(np.divide(wide, count, out=wide), dtype)
    empty = count == 0
    ticks = np.sign(total) * (np.abs(total) // np.maximum(count, 1))  # NumPy's durations round towards zero
    return totals.cast(np.where(empty | (total == totals.NAT), totals.NAT, ticks), dtype)


def _sum(name: str, kinds: str, **functions: Any) -> Monoid:
    shared = {"fields": fields, "identity": identity, "combine": combine, "finalise": finalise}
    return rules.row(name, kinds, rules.summed, free=rules.any_kind, **shared, **functions)


def _mean(name: str, kinds: str, **functions: Any) -> Monoid:
    shared = {"fields": mean_fields, "identity": mean_identity, "combine": mean_combine, "finalise": mean_finalise}
    free = rules.nanmean_kind if name == "nanmean" else rules.mean_kind
    return rules.row(name, kinds, rules.averaged, free=free, **shared, **functions)


ROWS = (
    _sum("sum", rules.ADDED, lift=lift, fold=fold, sweep=block_scans.total, cuda=cuda.total),
    _sum("nansum", rules.ADDED, lift=lift_present, fold=fold_present, sweep=sweep_present, cuda=cuda.nan_total),
    _mean("mean", rules.ADDED, lift=mean_lift, fold=mean_fold, running=mean_running, cuda=cuda.mean),
    _mean(
        "nanmean",
        rules.ADDED,
        lift=mean_lift_present,
        fold=mean_fold_present,
        running=mean_running_present,
        cuda=cuda.nan_mean,
    ),
)


def total_of(bound: Bound) -> Bound | None:
    """The sum whose state is a mean's but for the count, where that is of all elements; else None. Integers of 64 bits
    are added up as float64 by means alone."""
    total, _, mean, nanmean = ROWS
    dtype = bound.elements[0]
    if bound.monoid not in (mean, nanmean) or (bound.monoid == nanmean and has_nan(dtype)):
        return None
    return None if dtype.kind in "iu" and dtype.itemsize == 8 else total.bind(*bound.dtypes, dtype=bound.dtype)
