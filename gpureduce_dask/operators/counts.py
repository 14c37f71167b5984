"""Rows count and nancount: how many elements there are, and how many that are no NaN. Statistics of several at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import kind
from . import cuda_types as cuda
from . import rules
from .monoid import Array, DType, Fields, Monoid, State
from .panels import panels
from .sums import missing
from .totals import I8

KINDS = "biufcmM"


def fields(dtype: DType) -> Fields:
    return (("count", I8),)


def identity(dtype: DType) -> tuple[Any, ...]:
    return (0,)


def lift(x: Array, index: Array) -> State:
    return (np.ones(np.shape(x), I8),)


def lift_present(x: Array, index: Array) -> State:
    return ((~missing(x)).astype(I8),)


def combine(earlier: State, later: State) -> State:
    return (earlier[0] + later[0],)


def fold(block: Array, index: Array | None) -> State:
    return (np.full((block.shape[0], block.shape[2]), block.shape[1], I8),)


def fold_present(block: Array, index: Array | None) -> State:
    (total,) = fold(block, index)
    if kind(block.dtype) not in "fc":
        return (total,)
    return (total - sum(np.add.reduce(missing(panel), axis=1, dtype=I8) for panel in panels(block)),)


def finalise(state: State, dtype: DType) -> Array:
    return state[0].astype(dtype, copy=False)


def _tally(name: str, **functions: Any) -> Monoid:
    shared: dict[str, Any] = {"fields": fields, "identity": identity, "combine": combine, "finalise": finalise}
    return rules.row(name, KINDS, rules.position, **shared, **functions)


ROWS = (
    _tally("count", lift=lift, fold=fold, cuda=cuda.tally),
    _tally("nancount", lift=lift_present, fold=fold_present, cuda=cuda.nan_tally),
)
