"""Rows vdot and average: two arrays read together."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .. import cuda_types as cuda
from ..dtypes import kind, real
from ..monoid import Array, DType, Fields, State
from . import exact, rules, sums
from .exact import F8, I8, U8
from .panels import panels


def product(dtype: DType, other: DType) -> DType:
    """The element dtype whose sums have the state of a sum of products of these."""
    kinds, size = kind(dtype) + kind(other), max(real(dtype).itemsize, real(other).itemsize)
    if "c" in kinds:
        return np.dtype("c16" if size == 8 else "c8")
    if "f" not in kinds and np.result_type(dtype, other).kind != "f":  # uint64 and signed integers meet in float64
        return U8 if kinds == "uu" else I8
    return np.dtype("f4") if kinds == "ff" and size < 8 else F8


def dot_fields(dtype: DType, other: DType) -> Fields:
    return exact.sum_fields(product(dtype, other))


def dot_identity(dtype: DType, other: DType) -> tuple[Any, ...]:
    return sums.zeros(dot_fields(dtype, other))


def dot_lift(x: Array, y: Array, index: Array) -> State:
    dtype = product(x.dtype, y.dtype)
    wide = exact.wide(dtype)
    return exact.split(np.conj(x.astype(wide)) * y.astype(wide), dtype)


def dot_fold(block: Array, other: Array, index: Array | None) -> State:
    dtype = product(block.dtype, other.dtype)
    if block.dtype.kind != "c":
        return exact.split(exact.dot(block, other, exact.wide(dtype)), dtype)
    conjugates = ((np.conj(x), y) for x, y in zip(panels(block), panels(other), strict=True))
    return reduce(exact.add, (exact.split(exact.dot(x, y, exact.wide(dtype)), dtype) for x, y in conjugates))


def weighted(dtype: DType, weight: DType) -> DType:
    """As :func:`product`; integers are weighted as float64."""
    common = product(dtype, weight)
    return F8 if common.kind in "iu" else common


def average_fields(dtype: DType, weight: DType) -> Fields:
    common = weighted(dtype, weight)
    return (*exact.sum_fields(common, "total"), *exact.sum_fields(common, "weight"))


def average_identity(dtype: DType, weight: DType) -> tuple[Any, ...]:
    return sums.zeros(average_fields(dtype, weight))


def average_lift(x: Array, weight: Array, index: Array) -> State:
    common, w = weighted(x.dtype, weight.dtype), weight.astype(F8)
    return (*exact.split(x.astype(F8) * w, common), *exact.split(w, common))


def average_combine(earlier: State, later: State) -> State:
    half = len(earlier) // 2
    return (*exact.add(earlier[:half], later[:half]), *exact.add(earlier[half:], later[half:]))


def average_fold(block: Array, weight: Array, index: Array | None) -> State:
    common = weighted(block.dtype, weight.dtype)
    total, weights = exact.dot(block, weight, F8), exact.add_up(weight, F8)
    return (*exact.split(total, common), *exact.split(weights, common))


def average_finalise(state: State, dtype: DType) -> Array:
    """Weighted mean; weights that sum to zero are an error, as in NumPy."""
    half = len(state) // 2
    total, weight = exact.total(state[:half]), exact.total(state[half:])
    if np.any(weight == 0):
        raise ZeroDivisionError("average: weights sum to zero, can't be normalized; expected a sum other than 0.")
    return exact.cast(total / weight, dtype)


ROWS = (
    rules.row(
        "vdot",
        rules.NUMBERS,
        rules.same,
        arity=2,
        fields=dot_fields,
        identity=dot_identity,
        lift=dot_lift,
        combine=sums.combine,
        finalise=sums.finalise,
        fold=dot_fold,
        cuda=cuda.dot,
    ),
    rules.row(
        "average",
        rules.REAL,
        rules.averaged,
        arity=2,
        fields=average_fields,
        identity=average_identity,
        lift=average_lift,
        combine=average_combine,
        finalise=average_finalise,
        fold=average_fold,
        cuda=cuda.average,
    ),
)
