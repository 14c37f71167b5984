"""Rows min, max, nanmin, nanmax and ptp. The first NaN wins; the nan-rows have NaN for their identity.

The extremum of complex elements needs positions to break ties, so its state is that of argmin.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import kind
from . import block_scans, positions, rules
from . import cuda_types as cuda
from .limits import highest, lowest, void
from .monoid import Array, DType, Fields, Monoid, State
from .panels import PANEL, along
from .totals import I8


def fields(dtype: DType) -> Fields:
    return positions.fields(dtype) if dtype.kind == "c" else (("value", dtype),)


def min_identity(dtype: DType) -> tuple[Any, ...]:
    return positions.min_identity(dtype)[: len(fields(dtype))]


def max_identity(dtype: DType) -> tuple[Any, ...]:
    return positions.max_identity(dtype)[: len(fields(dtype))]


def nanmin_identity(dtype: DType) -> tuple[Any, ...]:
    return positions.nanmin_identity(dtype)[: len(fields(dtype))]


def nanmax_identity(dtype: DType) -> tuple[Any, ...]:
    return positions.nanmax_identity(dtype)[: len(fields(dtype))]


def lift(x: Array, index: Array) -> State:
    return positions.lift(x, index) if x.dtype.kind == "c" else (x,)


def nan_lift(x: Array, index: Array) -> State:
    return positions.nan_lift(x, index) if x.dtype.kind == "c" else (x,)


def min_combine(earlier: State, later: State) -> State:
    return positions.min_combine(earlier, later) if len(earlier) == 2 else (np.minimum(earlier[0], later[0]),)


def max_combine(earlier: State, later: State) -> State:
    return positions.max_combine(earlier, later) if len(earlier) == 2 else (np.maximum(earlier[0], later[0]),)


def nanmin_combine(earlier: State, later: State) -> State:
    return positions.min_combine(earlier, later) if len(earlier) == 2 else (np.fmin(earlier[0], later[0]),)


def nanmax_combine(earlier: State, later: State) -> State:
    return positions.max_combine(earlier, later) if len(earlier) == 2 else (np.fmax(earlier[0], later[0]),)


def halving(best: np.ufunc) -> Callable[[State, int], State | None]:
    """What folds the states of extrema that have no positions along an axis."""

    def halve(state: State, axis: int) -> State | None:
        return (best.reduce(state[0], axis, keepdims=True),) if len(state) == 1 else None

    return halve


def fold(best: np.ufunc, locate: Callable[[Array, Any], State], block: Array, index: Any) -> State:
    """The state of a block, whose extrema NumPy's reduction finds.

    A position breaks ties of complex elements that are equal and yet differ: those with a zero part, which has a sign,
    and NaN. Only of cells with such an extremum it is looked up. In others any position of the block will do.
    """
    values = along(best, block)
    if block.dtype.kind != "c":
        return (values,)
    missing, at = np.isnan(values), np.full(values.shape, index[np.zeros(1, I8)])
    unsure = (values.real == 0) | (values.imag == 0)
    if best in (np.fmin, np.fmax):
        at[missing] = -1
        unsure &= ~missing
    else:
        unsure |= missing
    if np.all(unsure):
        return locate(block, index)
    outer, inner = np.nonzero(unsure)
    step = max(PANEL // block.shape[1], 1)
    for start in range(0, len(outer), step):
        cells = outer[start : start + step], inner[start : start + step]
        found = locate(block[cells[0], :, cells[1]][:, :, None], index)
        values[cells], at[cells] = (field[:, 0] for field in found)
    return values, at


def min_fold(block: Array, index: Any) -> State:
    return fold(np.minimum, positions.min_fold, block, index)


def max_fold(block: Array, index: Any) -> State:
    return fold(np.maximum, positions.max_fold, block, index)


def nanmin_fold(block: Array, index: Any) -> State:
    return fold(np.fmin, positions.nanmin_fold, block, index)


def nanmax_fold(block: Array, index: Any) -> State:
    return fold(np.fmax, positions.nanmax_fold, block, index)


def min_sweep(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.minimum, block, carry[0], out),)


def max_sweep(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.maximum, block, carry[0], out),)


def nanmin_sweep(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.fmin, block, carry[0], out),)


def nanmax_sweep(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.fmax, block, carry[0], out),)


def finalise(state: State, dtype: DType) -> Array:
    return state[0].astype(dtype, copy=False)


def nan_finalise(state: State, dtype: DType) -> Array:
    """A slice of nothing but NaN gives NaN, with NumPy's warning. Of complex numbers the position says so: a GPU's
    state has no NaN there."""
    values = finalise(state, dtype)
    if len(state) == 2:
        values = np.where(state[1] < 0, np.asarray(void(dtype, 0), dtype), values)
    if kind(dtype) in "fcmM" and np.any(np.isnan(values)):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return values


# ---- ptp


def ptp_fields(dtype: DType) -> Fields:
    return (("low", dtype), ("high", dtype))


def ptp_identity(dtype: DType) -> tuple[Any, ...]:
    return highest(dtype), lowest(dtype)


def ptp_lift(x: Array, index: Array) -> State:
    return x, x


def ptp_combine(earlier: State, later: State) -> State:
    return np.minimum(earlier[0], later[0]), np.maximum(earlier[1], later[1])


def ptp_fold(block: Array, index: Any) -> State:
    return along(np.minimum, block), along(np.maximum, block)


def ptp_running(block: Array, index: Array, carry: State) -> tuple[State, State]:
    low, high = np.empty(block.shape, block.dtype), np.empty(block.shape, block.dtype)
    least = block_scans.accumulate(np.minimum, block, carry[0], low)
    return (low, high), (least, block_scans.accumulate(np.maximum, block, carry[1], high))


def ptp_finalise(state: State, dtype: DType) -> Array:
    return (state[1] - state[0]).astype(dtype, copy=False)


def _extreme(name: str, **functions: Any) -> Monoid:
    return rules.row(name, rules.ORDERED, rules.same, empty="raise", fields=fields, **functions)


ROWS = (
    _extreme(
        "min",
        identity=min_identity,
        lift=lift,
        combine=min_combine,
        finalise=finalise,
        fold=min_fold,
        sweep=min_sweep,
        cuda=cuda.minimum,
    ),
    _extreme(
        "max",
        identity=max_identity,
        lift=lift,
        combine=max_combine,
        finalise=finalise,
        fold=max_fold,
        sweep=max_sweep,
        cuda=cuda.maximum,
    ),
    _extreme(
        "nanmin",
        identity=nanmin_identity,
        lift=nan_lift,
        combine=nanmin_combine,
        finalise=nan_finalise,
        fold=nanmin_fold,
        sweep=nanmin_sweep,
        cuda=cuda.nan_minimum,
    ),
    _extreme(
        "nanmax",
        identity=nanmax_identity,
        lift=nan_lift,
        combine=nanmax_combine,
        finalise=nan_finalise,
        fold=nanmax_fold,
        sweep=nanmax_sweep,
        cuda=cuda.nan_maximum,
    ),
    rules.row(
        "ptp",
        rules.APART,
        rules.difference,
        empty="raise",
        fields=ptp_fields,
        identity=ptp_identity,
        lift=ptp_lift,
        combine=ptp_combine,
        finalise=ptp_finalise,
        fold=ptp_fold,
        running=ptp_running,
        cuda=cuda.peak_to_peak,
    ),
)
