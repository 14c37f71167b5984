"""Several states of rows of floats from one read of them, by the host loops in C: stretch by stretch, in cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import extrema, moments, native, positions, sums, totals
from .monoid import Array, Bound, State
from .native import DEVIATIONS, HIGH, LOW, SUM

# What each fold needs of a row.
NEEDS: dict[Any, int] = {
    sums.fold: SUM,
    sums.mean_fold: SUM,
    moments.fold: DEVIATIONS,
    extrema.min_fold: LOW,
    positions.min_fold: LOW,
    extrema.max_fold: HIGH,
    positions.max_fold: HIGH,
}


def states(parts: tuple[Bound, ...], block: Array, index: Any) -> dict[str, State]:
    """The states of a block's rows by the names of those parts whose folds the loops know; of others nothing.

    ``block`` has shape (outer, n, inner), ``index[n]`` are positions of elements.
    """
    folds = {part.name: part.monoid.fold for part in parts if part.monoid.fold in NEEDS}
    wanted = {NEEDS[fold] for fold in folds.values()}
    if len(wanted) < 2 or block.shape[2] != 1:
        return {}
    pivot = moments.choose_pivots(block, False) if DEVIATIONS in wanted else None
    found = native.row_summary(block, sum(wanted), pivot)
    return {} if found is None else {name: _state(fold, found, block, pivot, index) for name, fold in folds.items()}


def _state(fold: Any, found: native.RowSummary, block: Array, pivot: Any, index: Any) -> State:
    need = NEEDS[fold]
    if need == SUM:
        total = totals.split(found.total, block.dtype)
        return (*total, np.full(found.total.shape, block.shape[1], totals.I8)) if fold is sums.mean_fold else total
    if need == DEVIATIONS:
        count = np.full(found.first.shape, float(block.shape[1]))
        return moments.from_sums(pivot, (count, found.first, found.second), block.dtype)
    value, at = (found.low, found.low_at) if need == LOW else (found.high, found.high_at)
    return (value, index[at]) if fold in (positions.min_fold, positions.max_fold) else (value,)
