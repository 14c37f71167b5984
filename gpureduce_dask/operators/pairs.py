"""Rows vdot and average: two arrays read together."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..dtypes import kind, real
from ..errors import WeightError, message
from . import cuda_types as cuda
from . import rules, sums, totals
from .monoid import Array, DType, Fields, Monoid, State
from .panels import panels
from .totals import F8, I8, U8


def product(dtype: DType, other: DType) -> DType:
    """The element dtype whose sums have the state of a sum of products of these."""
    kinds, size = kind(dtype) + kind(other), max(real(dtype).itemsize, real(other).itemsize)
    if "c" in kinds:
        return np.dtype("c16" if size == 8 else "c8")
    if "f" not in kinds and np.result_type(dtype, other).kind != "f":  # uint64 and signed integers meet in float64
        return U8 if kinds == "uu" else I8
    return np.dtype("f4") if kinds == "ff" and size < 8 else F8


def dot_fields(dtype: DType, other: DType) -> Fields:
    return totals.sum_fields(product(dtype, other))


def dot_identity(dtype: DType, other: DType) -> tuple[Any, ...]:
    return sums.zeros(dot_fields(dtype, other))


def dot_lift(x: Array, y: Array, index: Array) -> State:
    dtype = product(x.dtype, y.dtype)
    wide = totals.wide(dtype)
    return totals.split(np.conj(x.astype(wide)) * y.astype(wide), dtype)


def dot_fold(block: Array, other: Array, index: Array | None) -> State:
    dtype = product(block.dtype, other.dtype)
    if block.dtype.kind != "c":
        return totals.split(totals.dot(block, other, totals.wide(dtype)), dtype)
    conjugates = ((np.conj(x), y) for x, y in zip(panels(block), panels(other), strict=True))
    return reduce(
        totals.add,
        (totals.split(totals.dot(x, y, totals.wide(dtype)), dtype) for x, y in conjugates),
    )


# ---- weighted means: the sum of weight * x, then that of the weights, each with the precision of both


def summand(dtype: DType) -> DType:
    """What is weighted, and what weighs: integers as float64."""
    return F8 if kind(dtype) in "biu" else dtype


def weighted(dtype: DType, weight: DType) -> tuple[DType, DType]:
    """The element dtypes whose sums have the states of both sums. Real weights of complex elements stay real."""
    terms = product(summand(dtype), summand(weight))
    if kind(weight) == "c" or terms.kind != "c":
        return terms, terms
    return terms, F8 if terms.itemsize == 16 else np.dtype("f4")


def average_fields(dtype: DType, weight: DType) -> Fields:
    terms, weights = weighted(dtype, weight)
    return (*totals.sum_fields(terms, "total"), *totals.sum_fields(weights, "weight"))


def average_identity(dtype: DType, weight: DType) -> tuple[Any, ...]:
    return sums.zeros(average_fields(dtype, weight))


def average_lift(x: Array, weight: Array, index: Array) -> State:
    terms, weights = weighted(x.dtype, weight.dtype)
    wide = totals.wide(terms)
    products = x.astype(wide) * weight.astype(wide)
    return (
        *totals.split(products, terms),
        *totals.split(weight.astype(totals.wide(weights)), weights),
    )


def average_fold(block: Array, weight: Array, index: Array | None) -> State:
    terms, weights = weighted(block.dtype, weight.dtype)
    total, sum_of_weights = (
        totals.dot(block, weight, totals.wide(terms)),
        totals.add_up(weight, totals.wide(weights)),
    )
    return (*totals.split(total, terms), *totals.split(sum_of_weights, weights))


def parted(state: State) -> tuple[State, State]:
    """The fields of both sums: only pairs of complex elements and real weights differ in number, four and two."""
    place = 4 if len(state) > 4 else len(state) // 2
    return state[:place], state[place:]


def average_combine(earlier: State, later: State) -> State:
    total, weight = (totals.add(*states) for states in zip(parted(earlier), parted(later), strict=True))
    return (*total, *weight)


def average_finalise(state: State, dtype: DType) -> Array:
    """Weighted mean; weights that sum to zero are an error, as in NumPy."""
    total, weight = (totals.total(part) for part in parted(state))
    if np.any(weight == 0):
        cells = f"weights that sum to zero in {np.count_nonzero(weight == 0)} of {np.size(weight)} slices"
        raise WeightError(
            message("average", cells, "a sum other than zero", "Mask those slices, or give them a weight.")
        )
    return totals.cast(total / weight, dtype)


def present_finalise(state: State, dtype: DType) -> Array:
    """As :func:`average_finalise`; NaN where no weight is left, as in nanmean."""
    total, weight = (totals.total(part) for part in parted(state))
    return totals.cast(total / weight, dtype)


class Weighted(rules.Rule):
    """As NumPy: integers are weighted as float64, whatever the weights."""

    def __call__(self, *dtypes: DType, dtype: DType | None = None) -> DType:
        super().__call__(*dtypes, dtype=dtype)
        x, weight = dtypes
        return super().__call__(summand(x), weight, dtype=dtype)


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
    Monoid(
        name="average",
        result=Weighted("average", rules.NUMBERS, rules.averaged, None),
        elements=rules.native,
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
