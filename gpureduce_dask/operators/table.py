"""The table of operators: read-only rows, each made of module-level functions of :mod:`gpureduce_dask.operators`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import OperatorError, message
from . import (
    affine,
    counts,
    extrema,
    first_last,
    higher_moments,
    logic,
    moments,
    norms,
    pairs,
    positions,
    prod,
    sums,
    totals,
)
from . import masked as masked_rows
from .monoid import Monoid, State

OPERATORS: Mapping[str, Monoid] = MappingProxyType(
    {
        row.name: row
        for family in (sums, prod, norms, pairs, logic, extrema, positions, moments, higher_moments, first_last, affine)
        for row in family.ROWS
    }
)

# What a fold takes of the host's memory decides how large a block it is given: nothing for these,
STREAMING = frozenset(
    {
        sums.fold,
        sums.mean_fold,
        prod.fold,
        norms.square_fold,
        norms.norm2_fold,
        pairs.dot_fold,
        pairs.average_fold,
        extrema.min_fold,
        extrema.max_fold,
        extrema.nanmin_fold,
        extrema.nanmax_fold,
        extrema.ptp_fold,
        logic.fold_any,
        logic.fold_all,
        norms.largest_fold,
        counts.fold,
    }
)
# one panel at a time for these,
PANELLED = frozenset(
    {sums.fold_present, sums.mean_fold_present, moments.fold, moments.fold_present, higher_moments.fold}
)
PANELLED |= {counts.fold_present, prod.fold_present, first_last.first_fold, first_last.last_fold}
# Of these the compiled loops take elements of COMPILED_DTYPES, rows that are short side by side; states of ADDED take
# little time to combine.
ADDED = frozenset({sums.fold, sums.fold_present, sums.mean_fold, sums.mean_fold_present})
PRODUCTS = frozenset({prod.fold, prod.fold_present})
COMPILED = ADDED | PRODUCTS | {moments.fold, moments.fold_present}
COMPILED_DTYPES = ("f4", "f8")
WIDENING = frozenset({higher_moments.fold})  # of these, what makes temporaries of a panel as wide as float64
# and a byte or two an element for these, which compare elements with what they found.
SKIPPING = frozenset({positions.nanmin_fold, positions.nanmax_fold})
POSITIONS = SKIPPING | {positions.min_fold, positions.max_fold}
# NumPy compares along short rows element by element, but along columns many at a time.
ACROSS = POSITIONS | {f for f in STREAMING if f.__module__ == extrema.__name__}

# States of short rows of eight bytes are worth to be folded.
BY_SHORT_ROWS = (ACROSS | COMPILED) - PRODUCTS

# And of bools these count in bytes.
COUNTING = frozenset({sums.fold, sums.fold_present, sums.mean_fold, sums.mean_fold_present})

# Of long rows of views NumPy's own reductions are as fast as any: of which kinds and sizes of elements, and which only
# where kept axes lie between those that are reduced.
INTEGERS = frozenset({"b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))})
FLOATS, LARGEST = frozenset({"f4", "f8"}), frozenset({"i8", "u8"})
WHOLE: Mapping[Any, tuple[np.ufunc, frozenset[str], frozenset[str]]] = {
    extrema.min_fold: (np.minimum, INTEGERS, FLOATS),
    extrema.max_fold: (np.maximum, INTEGERS, FLOATS),
    extrema.nanmin_fold: (np.fmin, INTEGERS, FLOATS),
    extrema.nanmax_fold: (np.fmax, INTEGERS, FLOATS),
    logic.fold_any: (np.logical_or, INTEGERS | FLOATS, frozenset()),
    logic.fold_all: (np.logical_and, INTEGERS | FLOATS, frozenset()),
    sums.fold: (np.add, LARGEST, frozenset()),
    sums.fold_present: (np.add, LARGEST, frozenset()),
}

# How states are folded by halves at once, that these combine.
HALVED: Mapping[Any, Callable[[State, int], State | None]] = {
    sums.combine: totals.halve,
    sums.mean_combine: sums.mean_halve,
    extrema.min_combine: extrema.halving(np.minimum),
    extrema.max_combine: extrema.halving(np.maximum),
    extrema.nanmin_combine: extrema.halving(np.fmin),
    extrema.nanmax_combine: extrema.halving(np.fmax),
}

# The finalise of these refuses a state without an answer. On a GPU such a state gives a negative position, or a number
# that is not finite.
REFUSING = frozenset({positions.nan_finalise, masked_rows.position_finalise, pairs.average_finalise})
# And of these a result does not show it.
TELLING = frozenset({masked_rows.peak_to_peak_finalise, masked_rows.kept_finalise})


def get(op: str | Monoid) -> Monoid:
    """The row of this name, or the monoid itself."""
    if isinstance(op, Monoid):
        return op
    if isinstance(op, str) and op in OPERATORS:
        return OPERATORS[op]
    close = difflib.get_close_matches(str(op), OPERATORS, n=3)
    remedy = f"Did you mean {' or '.join(close)}?" if close else f"Choose from {', '.join(OPERATORS)}."
    raise OperatorError(message("operator", f"no operator {op!r}", "a name of the table or a Monoid", remedy))
