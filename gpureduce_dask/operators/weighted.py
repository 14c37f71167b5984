"""Variances and moments of elements that count as often as their weights say. No rows of the table: two arrays go in.

A state is the sum of weights, the weighted mean and the weighted sums of powers about it, merged as counts are (Chan,
Golub and LeVeque 1979; West, CACM 22, 1979, for weights; Pebay 2008 for the third and fourth power).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import higher_moments, rules, totals
from .monoid import Array, DType, Fields, Monoid, State
from .totals import F8


def numbers(*dtypes: DType, dtype: DType | None = None) -> tuple[DType, ...]:
    """Both are computed in float64."""
    return F8, F8


def lift(x: Array, weight: Array, index: Array) -> State:
    """An element without weight does not count, whatever it is; one that is not finite has no spread."""
    counts = weight != 0
    return weight, np.where(counts, x, 0.0), np.where(counts, x - x, 0.0)


def lift_four(x: Array, weight: Array, index: Array) -> State:
    total, mean, spread = lift(x, weight, index)
    return total, mean, spread, spread, spread


def fold(x: Array, weight: Array, index: Array | None) -> State:
    total, mean, _, square = _about_mean(x, weight)
    return total, mean, np.add.reduce(square, axis=1)


def fold_four(x: Array, weight: Array, index: Array | None) -> State:
    total, mean, away, power = _about_mean(x, weight)
    sums = [np.add.reduce(power, axis=1)]
    for _ in range(2):
        power *= away
        sums.append(np.add.reduce(power, axis=1))
    return total, mean, *sums


def _about_mean(x: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """Sums of weights and weighted means, and of each element how far it lies from there and its weighted square."""
    total = np.add.reduce(weight, axis=1)
    x = np.where(weight != 0, x, 0.0)
    mean = np.add.reduce(weight * x, axis=1) / np.where(total == 0, 1.0, total)
    x -= mean[:, None]
    return total, mean, x, weight * x * x


def combine(earlier: State, later: State) -> State:
    (weight, mean, spread), (more, other, apart) = earlier, later
    total = weight + more
    share = more / np.where(total == 0, 1.0, total)
    away = other - mean
    return total, mean + away * share, spread + apart + away * away * weight * share


def combine_four(earlier: State, later: State) -> State:
    """Pebay's merge, in shares of the weight: these have a square whatever unit the weights are in."""
    (weight, mean, a2, a3, a4), (more, other, b2, b3, b4) = earlier, later
    total = weight + more
    whole = np.where(total == 0, 1.0, total)
    pa, pb, d = weight / whole, more / whole, other - mean
    cross = d * d * weight * pb
    m3 = a3 + b3 + cross * d * (pa - pb) + 3 * d * (pa * b2 - pb * a2)
    m4 = a4 + b4 + cross * d * d * (pa * pa - pa * pb + pb * pb)
    m4 = m4 + 6 * d * d * (pa * pa * b2 + pb * pb * a2) + 4 * d * (pa * b3 - pb * a3)
    return total, mean + d * pb, a2 + b2 + cross, m3, m4


def variance(state: State, dtype: DType, ddof: float = 0) -> Array:
    """NaN where no weight is left."""
    left = state[0] - ddof
    return totals.cast(np.where(left > 0, state[2] / np.where(left > 0, left, 1.0), np.nan), dtype)


def deviation(state: State, dtype: DType, ddof: float = 0) -> Array:
    return totals.cast(np.sqrt(variance(state, F8, ddof)), dtype)


def cuda_variance(x: DType, weight: DType) -> str:
    return "WeightedSpread<false>"


def cuda_deviation(x: DType, weight: DType) -> str:
    return "WeightedSpread<true>"


def cuda_moment(x: DType, weight: DType) -> str:
    return "WeightedMoments<CentralMoment<f64>>"


def cuda_skewness(x: DType, weight: DType) -> str:
    return "WeightedMoments<Skewness<f64>>"


def cuda_kurtosis(x: DType, weight: DType) -> str:
    return "WeightedMoments<Kurtosis<f64>>"


def fields(count: int) -> Fields:
    return tuple((name, F8) for name in ("weight", "mean", "m2", "m3", "m4")[:count])


def _row(name: str, finalise: Callable[..., Array], cuda: Callable[..., str], four: bool) -> Monoid:
    return rules.row(
        name,
        rules.REAL,
        rules.averaged,
        arity=2,
        elements=numbers,
        fields=fields(5 if four else 3),
        identity=(0.0,) * (5 if four else 3),
        lift=lift_four if four else lift,
        fold=fold_four if four else fold,
        combine=combine_four if four else combine,
        finalise=finalise,
        cuda=cuda,
    )


SPREADS = {
    "var": _row("weighted_var", variance, cuda_variance, False),
    "std": _row("weighted_std", deviation, cuda_deviation, False),
    "moment": _row("weighted_moment", higher_moments.moment_finalise, cuda_moment, True),
    "skew": _row("weighted_skew", higher_moments.skew_finalise, cuda_skewness, True),
    "kurtosis": _row("weighted_kurtosis", higher_moments.kurtosis_finalise, cuda_kurtosis, True),
}
