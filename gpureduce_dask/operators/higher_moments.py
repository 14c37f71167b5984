"""Row moments: count, mean and the second to fourth central sums of real elements; skewness and kurtosis from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import cuda_types as cuda
from . import rules, totals
from .moments import about_pivot, merged
from .monoid import Array, DType, Fields, Monoid, State
from .panels import patches
from .select import select
from .totals import F8

HIGHEST = 4  # the state has central sums up to this order


def fields(dtype: DType) -> Fields:
    return tuple((name, F8) for name in ("count", "mean", "m2", "m3", "m4"))


def identity(dtype: DType) -> tuple[float, ...]:
    return (0.0,) * 5


def lift(x: Array, index: Array) -> State:
    """One element: its spread is 0, and NaN where the element is not finite."""
    mean = x.astype(F8)
    return np.ones(np.shape(x)), mean, mean - mean, mean - mean, mean - mean


def four_sums(block: Array, pivot: Array, skip: bool) -> State:
    """Counts, and sums of the first four powers of the deviations; ``skip`` leaves NaN out."""
    cells = (block.shape[0], block.shape[2])
    n, (s1, s2, s3, s4) = np.full(cells, float(block.shape[1])), (np.zeros(cells) for _ in range(4))
    for rows, panel in patches(block):
        away = np.subtract(panel, pivot if pivot.size == 1 else pivot[rows], dtype=F8)
        if skip and np.any(gaps := np.isnan(panel)):
            select(~gaps, away, 0, away)
            n[rows] -= np.add.reduce(gaps, axis=1, dtype=F8)
        square = away * away
        s1[rows] += np.add.reduce(away, axis=1)
        s2[rows] += np.add.reduce(square, axis=1)
        s3[rows] += totals.dot(square, away, F8)
        s4[rows] += totals.dot(square, square, F8)
    return n, s1, s2, s3, s4


def fold(block: Array, index: Array | None) -> State:
    return state_of(block, False)


def state_of(block: Array, skip: bool) -> State:
    """Power sums about a pivot, moved to the mean (Pebay 2008, eq. 2.1); ``skip`` leaves NaN out."""
    pivot, (n, s1, s2, s3, s4) = about_pivot(four_sums, totals.numeric(block), skip)
    slip = s1 / np.maximum(n, 1)
    m3 = s3 - slip * (3 * s2 - 2 * n * slip**2)
    m4 = s4 - slip * (4 * s3 - slip * (6 * s2 - 3 * n * slip**2))
    return n, pivot + slip, np.maximum(s2 - s1 * slip, 0), m3, m4


def combine(earlier: State, later: State) -> State:
    """Pebay's merge of the first four moments."""
    (na, mean_a, a2, a3, a4), (nb, mean_b, b2, b3, b4) = earlier, later
    n = na + nb
    pa, pb = na / np.maximum(n, 1), nb / np.maximum(n, 1)  # the share of each side
    d = mean_b - mean_a
    cross = d * d * na * pb
    m3 = a3 + b3 + cross * d * (pa - pb) + 3 * d * (pa * b2 - pb * a2)
    m4 = a4 + b4 + cross * d * d * (pa * pa - pa * pb + pb * pb)
    m4 = m4 + 6 * d * d * (pa * pa * b2 + pb * pb * a2) + 4 * d * (pa * b3 - pb * a3)
    return merged(earlier, later, (n, mean_a + d * pb, a2 + b2 + cross, m3, m4))


def degenerate(state: State) -> Array:
    """Where all elements are the same number up to rounding, so that a standardised moment has no meaning."""
    n, mean, m2 = state[:3]
    return np.asarray(m2 <= n * (np.finfo(F8).eps * mean) ** 2)


def moment_finalise(state: State, dtype: DType, order: int = 2, ddof: float = 0) -> Array:
    """The central moment of this order, 0 to 4; ``ddof`` is taken from the count: NaN where it is the larger."""
    n = state[0]
    if order < 2:
        return totals.cast(np.where(n > 0, 1.0 - order, np.nan), dtype)
    return totals.cast(np.where(n < ddof, np.nan, state[order] / (n - ddof)), dtype)


def skew_finalise(state: State, dtype: DType, bias: bool = True) -> Array:
    """Fisher's skewness m3 / m2^(3/2), as ``scipy.stats.skew``; NaN where all elements are equal."""
    n, _, m2, m3, _ = state
    skew = np.sqrt(n) * m3 / m2**1.5
    if not bias:
        skew = np.where(n > 2, skew * np.sqrt((n - 1) * n) / (n - 2), skew)
    return totals.cast(np.where(degenerate(state), np.nan, skew), dtype)


def kurtosis_finalise(state: State, dtype: DType, fisher: bool = True, bias: bool = True) -> Array:
    """Kurtosis m4 / m2^2, less 3 for Fisher's, as ``scipy.stats.kurtosis``; NaN where all elements are equal."""
    n, _, m2, _, m4 = state
    kurtosis = n * m4 / m2**2
    if not bias:
        corrected = ((n**2 - 1) * kurtosis - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
        kurtosis = np.where(n > 3, corrected, kurtosis)
    return totals.cast(np.where(degenerate(state), np.nan, kurtosis - 3 * fisher), dtype)


def _shape(name: str, finalise: Callable[..., Array], struct: Callable[..., str], **options: Any) -> Monoid:
    return rules.row(
        name,
        rules.REAL,
        rules.averaged,
        free=rules.spread_kind,
        elements=rules.native,
        fields=fields,
        identity=identity,
        lift=lift,
        combine=combine,
        finalise=finalise,
        fold=fold,
        cuda=struct,
        options=tuple(options.items()),
    )


ROWS = (
    _shape("moments", moment_finalise, cuda.moment, ddof=0, order=2),
    _shape("moment", moment_finalise, cuda.moment, ddof=0, order=2),
    _shape("skew", skew_finalise, cuda.skewness, bias=True),
    _shape("kurtosis", kurtosis_finalise, cuda.kurtosis, bias=True, fisher=True),
)
