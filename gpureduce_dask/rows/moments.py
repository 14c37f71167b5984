"""Rows var, std, nanvar, nanstd and moments: counts, means and central sums, merged pairwise.

Merging: Chan, Golub & LeVeque 1979 for the second moment, Pebay 2008 for the third and fourth. A block is
measured from its own mean, and what rounding leaves of the first moment is taken out again.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..monoid import Array, DType, Fields, State
from . import exact, sums
from .exact import F8


def fields(dtype: DType) -> Fields:
    means = ("mean_re", "mean_im") if dtype.kind == "c" else ("mean",)
    return tuple((name, F8) for name in ("count", *means, "m2"))


def identity(dtype: DType) -> tuple[float, ...]:
    return (0.0,) * len(fields(dtype))


def parts(x: Array) -> tuple[Array, ...]:
    """The real numbers that elements are made of."""
    return (x.real, x.imag) if x.dtype.kind == "c" else (x,)


def lift(x: Array, index: Array) -> State:
    """One element: its spread is 0, and NaN where the element is not finite."""
    means = tuple(p.astype(F8) for p in parts(x))
    return (np.ones(np.shape(x)), *means, sum((m - m for m in means), np.zeros(np.shape(x))))


def lift_present(x: Array, index: Array) -> State:
    count = (~sums.missing(x)).astype(F8)
    return (count, *lift(sums.present(x, 0), index)[1:])


def deviations(part: Array, gaps: Array | None, count: Array) -> tuple[Array, Array]:
    """Block mean and deviations from it as float64; deviations are 0 in the gaps."""
    if gaps is not None:
        part = np.where(gaps, np.zeros((), part.dtype), part)
    mean = exact.add_up(part, F8) / np.maximum(count, 1)
    away = np.subtract(part, mean[:, None], dtype=F8)
    if gaps is not None:
        away[gaps] = 0
    return mean, away


def block_state(block: Array, gaps: Array | None) -> State:
    """(count, mean..., m2) over the middle axis."""
    n = np.float64(block.shape[1])
    held = np.zeros((block.shape[0], block.shape[2])) if gaps is None else np.add.reduce(gaps, axis=1, dtype=F8)
    count = n - held
    divisor = np.maximum(count, 1)
    means, m2 = [], np.zeros_like(count)
    for part in parts(block):
        mean, away = deviations(part, gaps, count)
        slip = np.add.reduce(away, axis=1)
        m2 = m2 + np.maximum(exact.dot(away, away, F8) - slip * slip / divisor, 0)
        means.append(mean + slip / divisor)
    return (count, *means, m2)


def fold(block: Array, index: Array | None) -> State:
    return block_state(exact.widen(block, F8) if block.dtype.kind == "V" else block, None)


def fold_present(block: Array, index: Array | None) -> State:
    gaps = sums.missing(block)
    block = exact.widen(block, F8) if block.dtype.kind == "V" else block
    return block_state(block, gaps if np.any(gaps) else None)


def merged(earlier: State, later: State, state: State) -> State:
    """The merge of two states, or the other where one of them counts nothing."""
    left_empty, right_empty = earlier[0] == 0, later[0] == 0
    if not (np.any(left_empty) or np.any(right_empty)):
        return state
    return tuple(
        np.where(right_empty, a, np.where(left_empty, b, c)) for a, b, c in zip(earlier, later, state, strict=True)
    )


def combine(earlier: State, later: State) -> State:
    """Chan's merge, for real and complex means."""
    count = earlier[0] + later[0]
    share = later[0] / np.maximum(count, 1)
    m2 = earlier[-1] + later[-1]
    means = []
    for a, b in zip(earlier[1:-1], later[1:-1], strict=True):
        apart = b - a
        means.append(a + apart * share)
        m2 = m2 + apart * (apart * (earlier[0] * share))
    return merged(earlier, later, (count, *means, m2))


def spread(state: State, ddof: float, floor: bool) -> Array:
    """Variance with NumPy's warning where there are no degrees of freedom."""
    freedom = state[0] - ddof
    if np.any(freedom <= 0):
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
    with np.errstate(all="ignore"):
        return state[-1] / (np.maximum(freedom, 0) if floor else np.where(freedom <= 0, np.nan, freedom))


def var_finalise(state: State, dtype: DType, ddof: float = 0) -> Array:
    return exact.cast(spread(state, ddof, True), dtype)


def std_finalise(state: State, dtype: DType, ddof: float = 0) -> Array:
    return exact.cast(np.sqrt(spread(state, ddof, True)), dtype)


def nanvar_finalise(state: State, dtype: DType, ddof: float = 0) -> Array:
    return exact.cast(spread(state, ddof, False), dtype)


def nanstd_finalise(state: State, dtype: DType, ddof: float = 0) -> Array:
    return exact.cast(np.sqrt(spread(state, ddof, False)), dtype)
