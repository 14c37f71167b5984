"""Variances of elements that count as often as their weights say. They are no rows of the table: two arrays go in.

A state is the sum of weights, the weighted mean and the weighted sum of squares about it, merged as counts are (Chan,
Golub and LeVeque 1979; West, CACM 22, 1979, for weights).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..monoid import Array, DType, Monoid, State
from . import exact, rules
from .exact import F8


def numbers(*dtypes: DType, dtype: DType | None = None) -> tuple[DType, ...]:
    """Both are computed in float64."""
    return F8, F8


def lift(x: Array, weight: Array, index: Array) -> State:
    """An element without weight does not count, whatever it is; one that is not finite has no spread."""
    counts = weight != 0
    return weight, np.where(counts, x, 0.0), np.where(counts, x - x, 0.0)


def fold(x: Array, weight: Array, index: Array | None) -> State:
    total = np.add.reduce(weight, axis=1)
    x = np.where(weight != 0, x, 0.0)
    mean = np.add.reduce(weight * x, axis=1) / np.where(total == 0, 1.0, total)
    x -= mean[:, None]
    return total, mean, np.add.reduce(weight * x * x, axis=1)


def combine(earlier: State, later: State) -> State:
    (weight, mean, spread), (more, other, apart) = earlier, later
    total = weight + more
    share = more / np.where(total == 0, 1.0, total)
    away = other - mean
    return total, mean + away * share, spread + apart + away * away * weight * share


def variance(state: State, dtype: DType, ddof: float = 0) -> Array:
    """NaN where no weight is left."""
    left = state[0] - ddof
    return exact.cast(np.where(left > 0, state[2] / np.where(left > 0, left, 1.0), np.nan), dtype)


def deviation(state: State, dtype: DType, ddof: float = 0) -> Array:
    return exact.cast(np.sqrt(variance(state, F8, ddof)), dtype)


def cuda_variance(x: DType, weight: DType) -> str:
    return "WeightedSpread<false>"


def cuda_deviation(x: DType, weight: DType) -> str:
    return "WeightedSpread<true>"


def _spread(name: str, **functions: Any) -> Monoid:
    fields = (("weight", F8), ("mean", F8), ("m2", F8))
    shared: dict[str, Any] = {
        "fields": fields,
        "identity": (0.0, 0.0, 0.0),
        "lift": lift,
        "fold": fold,
        "combine": combine,
    }
    return rules.row(name, rules.REAL, rules.averaged, arity=2, elements=numbers, **shared, **functions)


SPREADS = {
    "var": _spread("weighted_var", finalise=variance, cuda=cuda_variance),
    "std": _spread("weighted_std", finalise=deviation, cuda=cuda_deviation),
}
