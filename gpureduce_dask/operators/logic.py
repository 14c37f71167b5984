"""Rows any, all and count_nonzero. NaN and NaT are true, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import block_scans, rules
from . import cuda_types as cuda
from .monoid import Array, DType, Fields, Monoid, State
from .totals import I8, count_true, numeric


def flag_fields(dtype: DType) -> Fields:
    return (("value", np.dtype(bool)),)


def false(dtype: DType) -> tuple[Any, ...]:
    return (False,)


def true(dtype: DType) -> tuple[Any, ...]:
    return (True,)


def nonzero(x: Array) -> Array:
    x = np.asarray(x)
    return x if x.dtype == bool else np.not_equal(x, np.zeros((), x.dtype))


def lift(x: Array, index: Array) -> State:
    return (nonzero(x),)


def either(earlier: State, later: State) -> State:
    return (earlier[0] | later[0],)


def both(earlier: State, later: State) -> State:
    return (earlier[0] & later[0],)


def fold_any(block: Array, index: Array | None) -> State:
    return (np.logical_or.reduce(numeric(block), axis=1),)


def fold_all(block: Array, index: Array | None) -> State:
    return (np.logical_and.reduce(numeric(block), axis=1),)


def sweep_any(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.logical_or, nonzero(block), carry[0], out),)


def sweep_all(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.logical_and, nonzero(block), carry[0], out),)


def finalise(state: State, dtype: DType) -> Array:
    return state[0].astype(dtype, copy=False)


def count_fields(dtype: DType) -> Fields:
    return (("value", I8),)


def zero(dtype: DType) -> tuple[Any, ...]:
    return (0,)


def count_lift(x: Array, index: Array) -> State:
    return (nonzero(x).astype(I8),)


def count_combine(earlier: State, later: State) -> State:
    return (earlier[0] + later[0],)


def count_fold(block: Array, index: Array | None) -> State:
    return (count_true(nonzero(block)),)


def count_sweep(block: Array, carry: State, out: Array) -> State:
    return (block_scans.accumulate(np.add, nonzero(block), carry[0], out),)


def _flag(name: str, **functions: Any) -> Monoid:
    shared: dict[str, Any] = {"fields": flag_fields, "lift": lift, "finalise": finalise}
    return rules.row(name, rules.ORDERED, rules.truth, **shared, **functions)


ROWS = (
    _flag("any", identity=false, combine=either, fold=fold_any, sweep=sweep_any, cuda=cuda.any_true),
    _flag("all", identity=true, combine=both, fold=fold_all, sweep=sweep_all, cuda=cuda.all_true),
    rules.row(
        "count_nonzero",
        rules.ORDERED,
        rules.position,
        fields=count_fields,
        identity=zero,
        lift=count_lift,
        combine=count_combine,
        finalise=finalise,
        fold=count_fold,
        sweep=count_sweep,
        cuda=cuda.count_nonzero,
    ),
)
