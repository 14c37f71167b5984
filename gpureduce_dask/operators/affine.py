"""Row affine: maps x -> a * x + b of two arrays, one applied after the other. Its scan is a linear recurrence.

``y[i] = a[i] * y[i - 1] + b[i]`` with ``y[-1] = 0`` (Blelloch 1990, section 1.4.1). The order of maps matters.

Of floats, a product of factors has an exponent, as products have: it may leave the range, and what it multiplies by a
term does so only where that product does. A result is finite where the results of each stretch are, begun from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cuda_types as cuda
from . import prod, rules, totals
from .monoid import Array, DType, Fields, State
from .totals import I8


def number(factor: DType, term: DType) -> DType:
    """What both are computed in: int64, uint64 or float64."""
    return totals.wide(np.result_type(factor, term))


def fields(factor: DType, term: DType) -> Fields:
    dtype = number(factor, term)
    maps = (("a", dtype), ("b", dtype))
    return (*maps, ("exponent", I8)) if dtype.kind == "f" else maps


def identity(factor: DType, term: DType) -> tuple[Any, ...]:
    return (1, 0, 0)[: len(fields(factor, term))]


def lift(factor: Array, term: Array, index: Array) -> State:
    dtype = number(factor.dtype, term.dtype)
    a, *exponent = prod.plain(totals.widen(factor, dtype))
    return a, totals.widen(term, dtype), *exponent


def combine(earlier: State, later: State) -> State:
    (a, b, *i), (factor, term, *j) = earlier, later
    a, *i = prod.combine((a, *i), (factor, *j))
    b = prod.number(prod.combine(prod.plain(b), (factor, *j)))
    return a, b + term, *i


def finalise(state: State, dtype: DType) -> Array:
    return totals.cast(state[1], dtype)


ROWS = (
    rules.row(
        "affine",
        rules.REAL,
        rules.summed,
        arity=2,
        commutative=False,
        fields=fields,
        identity=identity,
        lift=lift,
        combine=combine,
        finalise=finalise,
        cuda=cuda.affine,
    ),
)
