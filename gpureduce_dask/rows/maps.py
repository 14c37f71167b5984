"""Row affine: maps x -> a * x + b of two arrays, one applied after the other. Its scan is a linear recurrence.

``y[i] = a[i] * y[i - 1] + b[i]`` with ``y[-1] = 0`` (Blelloch 1990, section 1.4.1). The order of maps matters.
"""

from __future__ import annotations

import numpy as np

from .. import cuda_types as cuda
from ..monoid import Array, DType, Fields, State
from . import exact, rules


def number(factor: DType, term: DType) -> DType:
    """What both are computed in: int64, uint64 or float64."""
    return exact.wide(np.result_type(factor, term))


def fields(factor: DType, term: DType) -> Fields:
    return (("a", number(factor, term)), ("b", number(factor, term)))


def lift(factor: Array, term: Array, index: Array) -> State:
    dtype = number(factor.dtype, term.dtype)
    return exact.widen(factor, dtype), exact.widen(term, dtype)


def combine(earlier: State, later: State) -> State:
    (a, b), (factor, term) = earlier, later
    return factor * a, factor * b + term


def finalise(state: State, dtype: DType) -> Array:
    return exact.cast(state[1], dtype)


ROWS = (
    rules.row(
        "affine",
        rules.REAL,
        rules.summed,
        arity=2,
        commutative=False,
        fields=fields,
        identity=(1, 0),
        lift=lift,
        combine=combine,
        finalise=finalise,
        cuda=cuda.affine,
    ),
)
