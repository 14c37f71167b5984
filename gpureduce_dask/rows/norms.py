"""Rows sumsq, norm1, norm2, norminf, vdot and average: sums of what is made of the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import kind, real
from ..monoid import Array, DType, Fields, State
from . import exact, sums
from .exact import C16, F8, I8, U8


def square_fields(dtype: DType) -> Fields:
    """The sum of |x|^2 is real: that of the real parts."""
    return exact.sum_fields(real(dtype))


def square_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(square_fields(dtype))


def squares(x: Array) -> Array:
    """|x|^2 in the wide dtype."""
    if x.dtype.kind == "c":
        re, im = x.real.astype(F8), x.imag.astype(F8)
        return np.asarray(re * re + im * im)
    wide = exact.widen(x)
    return np.asarray(wide * wide)


def square_lift(x: Array, index: Array) -> State:
    return exact.split(squares(x), real(x.dtype))


def square_fold(block: Array, index: Array | None) -> State:
    if block.dtype.kind == "c":
        total = exact.dot(block.real, block.real, F8) + exact.dot(block.imag, block.imag, F8)
    else:
        total = exact.dot(block, block, exact.wide(block.dtype))
    return exact.split(total, real(block.dtype))


def combine(earlier: State, later: State) -> State:
    return exact.add(earlier, later)


# ---- norms: integers are measured as float64



def norm2_fields(dtype: DType) -> Fields:
    return (("value", F8),) if kind(dtype) in "biu" else square_fields(dtype)


def norm2_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(norm2_fields(dtype))


def norm2_lift(x: Array, index: Array) -> State:
    return (squares(x.astype(F8)),) if kind(x.dtype) in "biu" else square_lift(x, index)


def norm2_fold(block: Array, index: Array | None) -> State:
    if kind(block.dtype) in "biu":
        return (exact.dot(block, block, F8),)
    return square_fold(block, index)


def norm2_finalise(state: State, dtype: DType) -> Array:
    return exact.cast(np.sqrt(exact.total(state)), dtype)


def norm1_fields(dtype: DType) -> Fields:
    """One float64 for elements below 64 bits, a pair for those of 64."""
    return exact.sum_fields(F8 if real(dtype).itemsize == 8 else np.dtype("f4"))


def norm1_identity(dtype: DType) -> tuple[Any, ...]:
    return sums.zeros(norm1_fields(dtype))


def magnitudes(x: Array) -> Array:
    """|x| as float64."""
    return np.abs(x.astype(C16 if x.dtype.kind == "c" else F8))


def norm1_lift(x: Array, index: Array) -> State:
    sizes = magnitudes(x)
    return exact.lift(sizes) if len(norm1_fields(x.dtype)) == 2 else (sizes,)


def norm1_fold(block: Array, index: Array | None) -> State:
    sizes = np.abs(block) if block.dtype.kind == "f" else magnitudes(block)
    total = exact.add_up(sizes, F8)
    return exact.lift(total) if len(norm1_fields(block.dtype)) == 2 else (total,)


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
        return (np.maximum.reduce(magnitudes(block), axis=1),)
    low, high = np.minimum.reduce(block, axis=1), np.maximum.reduce(block, axis=1)
    return (np.maximum(magnitudes(low), magnitudes(high)),)


# ---- two arrays read together


def product(dtype: DType, other: DType) -> DType:
    """The element dtype whose sums have the state of a sum of products of these."""
    kinds, size = kind(dtype) + kind(other), max(real(dtype).itemsize, real(other).itemsize)
    if "c" in kinds:
        return np.dtype("c16" if size == 8 else "c8")
    if "f" not in kinds:
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
    left = np.conj(block) if block.dtype.kind == "c" else block
    return exact.split(exact.dot(left, other, exact.wide(dtype)), dtype)


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
    with np.errstate(all="ignore"):
        return exact.cast(total / weight, dtype)
