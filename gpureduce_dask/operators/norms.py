"""Rows sumsq, norm1, norm2 and norminf: sums of squares and magnitudes, and the largest magnitude."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..dtypes import kind, real
from . import block_scans, rules, sums, totals
from . import cuda_types as cuda
from .monoid import Array, DType, Fields, Monoid, State
from .panels import along, panels
from .totals import C16, F8


def square_fields(dtype: DType) -> Fields:
    """The sum of |x|^2 is real: that of the real parts."""
    return totals.sum_fields(real(dtype))


def square_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(square_fields(dtype))


def squares(x: Array) -> Array:
    """|x|^2 in the wide dtype."""
    if x.dtype.kind == "c":
        re, im = x.real.astype(F8), x.imag.astype(F8)
        return np.asarray(re * re + im * im)
    wide = totals.widen(x)
    return np.asarray(wide * wide)


def square_lift(x: Array, index: Array) -> State:
    return totals.split(squares(x), real(x.dtype))


def square_fold(block: Array, index: Array | None) -> State:
    if block.dtype.kind == "c":
        total = totals.dot(block.real, block.real, F8) + totals.dot(block.imag, block.imag, F8)
    else:
        total = totals.dot(block, block, totals.wide(block.dtype))
    return totals.split(total, real(block.dtype))


def square_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return block_scans.running_total(squares(block), carry)


# ---- norms: integers are measured as float64


def norm2_fields(dtype: DType) -> Fields:
    return (("value", F8),) if kind(dtype) in "biu" else square_fields(dtype)


def norm2_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(norm2_fields(dtype))


def norm2_lift(x: Array, index: Array) -> State:
    return (squares(x.astype(F8)),) if kind(x.dtype) in "biu" else square_lift(x, index)


def norm2_fold(block: Array, index: Array | None) -> State:
    if kind(block.dtype) in "biu":
        return (totals.dot(block, block, F8),)
    return square_fold(block, index)


def norm2_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return square_running(block.astype(F8) if kind(block.dtype) in "biu" else block, index, carry)


def norm2_finalise(state: State, dtype: DType) -> Array:
    return totals.cast(np.sqrt(totals.total(state)), dtype)


def norm1_fields(dtype: DType) -> Fields:
    """One float64 for elements below 64 bits, a pair for those of 64."""
    return totals.sum_fields(F8 if real(dtype).itemsize == 8 else np.dtype("f4"))


def norm1_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(norm1_fields(dtype))


def magnitudes(x: Array) -> Array:
    """|x| as float64."""
    return np.asarray(np.abs(x.astype(C16 if x.dtype.kind == "c" else F8)))


def norm1_lift(x: Array, index: Array) -> State:
    sizes = magnitudes(x)
    return totals.lift(sizes) if len(norm1_fields(x.dtype)) == 2 else (sizes,)


def norm1_fold(block: Array, index: Array | None) -> State:
    sizes = np.abs(block) if block.dtype.kind == "f" else magnitudes(block)
    total = totals.add_up(sizes, F8)
    return totals.lift(total) if len(norm1_fields(block.dtype)) == 2 else (total,)


def norm1_running(block: Array, index: Array, carry: State) -> tuple[State, State] | None:
    return block_scans.running_total(magnitudes(block), carry)


def largest_fields(dtype: DType) -> Fields:
    return (("value", F8),)


def largest_identity(dtype: DType) -> tuple[Any, ...]:
    return (0.0,)


def largest_lift(x: Array, index: Array) -> State:
    return (magnitudes(x),)


def largest_combine(earlier: State, later: State) -> State:
    return (np.maximum(earlier[0], later[0]),)


def largest_fold(block: Array, index: Array | None) -> State:
    if block.dtype.kind == "c":
        return (reduce(np.maximum, (np.maximum.reduce(magnitudes(p), axis=1) for p in panels(block))),)
    low, high = along(np.minimum, block), along(np.maximum, block)
    return (np.maximum(magnitudes(low), magnitudes(high)),)


def largest_running(block: Array, index: Array, carry: State) -> tuple[State, State]:
    out = np.empty(block.shape)
    behind = block_scans.accumulate(np.maximum, magnitudes(block), carry[0], out)
    return (out,), (behind,)


def _norm(name: str, **functions: Any) -> Monoid:
    shared = {"combine": sums.combine, "finalise": sums.finalise}
    return rules.row(name, rules.NUMBERS, rules.spread, **{**shared, **functions})


ROWS = (
    rules.row(
        "sumsq",
        rules.NUMBERS,
        rules.squared,
        free=rules.any_kind,
        fields=square_fields,
        identity=square_identity,
        lift=square_lift,
        combine=sums.combine,
        finalise=sums.finalise,
        fold=square_fold,
        running=square_running,
        cuda=cuda.sum_of_squares,
    ),
    _norm(
        "norm1",
        fields=norm1_fields,
        identity=norm1_identity,
        lift=norm1_lift,
        fold=norm1_fold,
        running=norm1_running,
        cuda=cuda.norm_one,
    ),
    _norm(
        "norm2",
        fields=norm2_fields,
        identity=norm2_identity,
        lift=norm2_lift,
        finalise=norm2_finalise,
        fold=norm2_fold,
        running=norm2_running,
        cuda=cuda.norm_two,
    ),
    _norm(
        "norminf",
        fields=largest_fields,
        identity=largest_identity,
        lift=largest_lift,
        combine=largest_combine,
        fold=largest_fold,
        running=largest_running,
        cuda=cuda.norm_inf,
    ),
)
