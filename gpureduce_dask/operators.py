"""The table of operators: read-only rows, each made of module-level functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from . import cuda_types as cuda
from .errors import OperatorError, message
from .monoid import DType, Monoid
from .rows import extrema, logic, moments, norms, positions, rules, shape, sums

REAL = "biuf"
NUMBERS = "biufc"
ADDED = "biufcm"  # durations have a sum
ORDERED = "biufcmM"
APART = "iufmM"  # what has differences of its own kind


def _row(
    name: str,
    kinds: str,
    rule: Callable[[DType], DType],
    *,
    free: bool = False,
    **functions: Any,
) -> Monoid:
    """A row that takes these kinds and has ``rule`` for its result dtype; ``free`` where the caller may choose it."""
    check = rules.result if free else rules.fixed
    return Monoid(name=name, result=partial(check, name, kinds, rule), **{"elements": rules.native, **functions})


def _sum_row(name: str, kinds: str, lift: Any, fold: Any, struct: Any) -> Monoid:
    return _row(
        name,
        kinds,
        rules.summed,
        free=True,
        elements=rules.recast,
        fields=sums.fields,
        identity=sums.identity,
        lift=lift,
        combine=sums.combine,
        finalise=sums.finalise,
        fold=fold,
        cuda=struct,
    )


def _product_row(name: str, lift: Any, fold: Any, struct: Any) -> Monoid:
    return _row(
        name,
        NUMBERS,
        rules.summed,
        free=True,
        elements=rules.recast,
        fields=sums.product_fields,
        identity=sums.product_identity,
        lift=lift,
        combine=sums.product_combine,
        finalise=sums.product_finalise,
        fold=fold,
        cuda=struct,
    )


def _mean_row(name: str, kinds: str, lift: Any, fold: Any, struct: Any) -> Monoid:
    return _row(
        name,
        kinds,
        rules.averaged,
        free=True,
        elements=rules.recast,
        fields=sums.mean_fields,
        identity=sums.mean_identity,
        lift=lift,
        combine=sums.mean_combine,
        finalise=sums.mean_finalise,
        fold=fold,
        cuda=struct,
    )


def _norm_row(name: str, **functions: Any) -> Monoid:
    return _row(name, NUMBERS, rules.spread, **{"combine": norms.combine, "finalise": sums.finalise, **functions})


def _extreme_row(name: str, **functions: Any) -> Monoid:
    return _row(name, ORDERED, rules.same, fields=extrema.fields, empty="raise", **functions)


def _position_row(name: str, kinds: str, **functions: Any) -> Monoid:
    return _row(name, kinds, rules.position, fields=positions.fields, empty="raise", **functions)


def _spread_row(name: str, finalise: Any, lift: Any, fold: Any, struct: Any) -> Monoid:
    return _row(
        name,
        NUMBERS,
        rules.spread,
        free=True,
        fields=moments.fields,
        identity=moments.identity,
        lift=lift,
        combine=moments.combine,
        finalise=finalise,
        fold=fold,
        cuda=struct,
        options=(("ddof", 0),),
    )


def _shape_row(name: str, finalise: Any, struct: Any, **options: Any) -> Monoid:
    return _row(
        name,
        REAL,
        rules.averaged,
        free=True,
        fields=shape.fields,
        identity=shape.identity,
        lift=shape.lift,
        combine=shape.combine,
        finalise=finalise,
        fold=shape.fold,
        cuda=struct,
        options=tuple(options.items()),
    )


_ROWS = (
    _sum_row("sum", ADDED, sums.lift, sums.fold, cuda.total),
    _sum_row("nansum", NUMBERS, sums.lift_present, sums.fold_present, cuda.nan_total),
    _product_row("prod", sums.product_lift, sums.product_fold, cuda.product),
    _product_row("nanprod", sums.product_lift_present, sums.product_fold_present, cuda.nan_product),
    _mean_row("mean", ADDED, sums.mean_lift, sums.mean_fold, cuda.mean),
    _mean_row("nanmean", NUMBERS, sums.mean_lift_present, sums.mean_fold_present, cuda.nan_mean),
    _norm_row(
        "norm1",
        fields=norms.norm1_fields,
        identity=norms.norm1_identity,
        lift=norms.norm1_lift,
        fold=norms.norm1_fold,
        cuda=cuda.norm_one,
    ),
    _norm_row(
        "norm2",
        fields=norms.norm2_fields,
        identity=norms.norm2_identity,
        lift=norms.norm2_lift,
        finalise=norms.norm2_finalise,
        fold=norms.norm2_fold,
        cuda=cuda.norm_two,
    ),
    _norm_row(
        "norminf",
        fields=norms.largest_fields,
        identity=norms.largest_identity,
        lift=norms.largest_lift,
        combine=norms.largest_combine,
        fold=norms.largest_fold,
        cuda=cuda.norm_inf,
    ),
    _row(
        "sumsq",
        NUMBERS,
        rules.squared,
        free=True,
        elements=rules.recast,
        fields=norms.square_fields,
        identity=norms.square_identity,
        lift=norms.square_lift,
        combine=norms.combine,
        finalise=sums.finalise,
        fold=norms.square_fold,
        cuda=cuda.sum_of_squares,
    ),
    _row(
        "any",
        ORDERED,
        rules.truth,
        fields=logic.flag_fields,
        identity=logic.false,
        lift=logic.lift,
        combine=logic.either,
        finalise=logic.finalise,
        fold=logic.fold_any,
        cuda=cuda.any_true,
    ),
    _row(
        "all",
        ORDERED,
        rules.truth,
        fields=logic.flag_fields,
        identity=logic.true,
        lift=logic.lift,
        combine=logic.both,
        finalise=logic.finalise,
        fold=logic.fold_all,
        cuda=cuda.all_true,
    ),
    _row(
        "count_nonzero",
        ORDERED,
        rules.position,
        fields=logic.count_fields,
        identity=logic.zero,
        lift=logic.count_lift,
        combine=logic.count_combine,
        finalise=logic.finalise,
        fold=logic.count_fold,
        cuda=cuda.count_nonzero,
    ),
    _extreme_row(
        "min",
        identity=extrema.min_identity,
        lift=extrema.lift,
        combine=extrema.min_combine,
        finalise=extrema.finalise,
        fold=extrema.min_fold,
        cuda=cuda.minimum,
    ),
    _extreme_row(
        "max",
        identity=extrema.max_identity,
        lift=extrema.lift,
        combine=extrema.max_combine,
        finalise=extrema.finalise,
        fold=extrema.max_fold,
        cuda=cuda.maximum,
    ),
    _extreme_row(
        "nanmin",
        identity=extrema.nanmin_identity,
        lift=extrema.nan_lift,
        combine=extrema.nanmin_combine,
        finalise=extrema.nan_finalise,
        fold=extrema.nanmin_fold,
        cuda=cuda.nan_minimum,
    ),
    _extreme_row(
        "nanmax",
        identity=extrema.nanmax_identity,
        lift=extrema.nan_lift,
        combine=extrema.nanmax_combine,
        finalise=extrema.nan_finalise,
        fold=extrema.nanmax_fold,
        cuda=cuda.nan_maximum,
    ),
    _row(
        "ptp",
        APART,
        rules.difference,
        empty="raise",
        fields=extrema.ptp_fields,
        identity=extrema.ptp_identity,
        lift=extrema.ptp_lift,
        combine=extrema.ptp_combine,
        finalise=extrema.ptp_finalise,
        fold=extrema.ptp_fold,
        cuda=cuda.peak_to_peak,
    ),
    _position_row(
        "argmin",
        ORDERED,
        identity=positions.min_identity,
        lift=positions.lift,
        combine=positions.min_combine,
        finalise=positions.finalise,
        fold=positions.min_fold,
        cuda=cuda.arg_minimum,
    ),
    _position_row(
        "argmax",
        ORDERED,
        identity=positions.max_identity,
        lift=positions.lift,
        combine=positions.max_combine,
        finalise=positions.finalise,
        fold=positions.max_fold,
        cuda=cuda.arg_maximum,
    ),
    _position_row(
        "nanargmin",
        NUMBERS,
        identity=positions.nanmin_identity,
        lift=positions.nan_lift,
        combine=positions.min_combine,
        finalise=positions.nan_finalise,
        fold=positions.nanmin_fold,
        cuda=cuda.nan_arg_minimum,
    ),
    _position_row(
        "nanargmax",
        NUMBERS,
        identity=positions.nanmax_identity,
        lift=positions.nan_lift,
        combine=positions.max_combine,
        finalise=positions.nan_finalise,
        fold=positions.nanmax_fold,
        cuda=cuda.nan_arg_maximum,
    ),
    _spread_row("var", moments.var_finalise, moments.lift, moments.fold, cuda.variance),
    _spread_row("std", moments.std_finalise, moments.lift, moments.fold, cuda.deviation),
    _spread_row("nanvar", moments.nanvar_finalise, moments.lift_present, moments.fold_present, cuda.nan_variance),
    _spread_row("nanstd", moments.nanstd_finalise, moments.lift_present, moments.fold_present, cuda.nan_deviation),
    _shape_row("moments", shape.moment_finalise, cuda.moment, ddof=0, order=2),
    _shape_row("moment", shape.moment_finalise, cuda.moment, ddof=0, order=2),
    _shape_row("skew", shape.skew_finalise, cuda.skewness, bias=True),
    _shape_row("kurtosis", shape.kurtosis_finalise, cuda.kurtosis, bias=True, fisher=True),
    _row(
        "vdot",
        NUMBERS,
        rules.same,
        arity=2,
        fields=norms.dot_fields,
        identity=norms.dot_identity,
        lift=norms.dot_lift,
        combine=norms.combine,
        finalise=sums.finalise,
        fold=norms.dot_fold,
        cuda=cuda.dot,
    ),
    _row(
        "average",
        REAL,
        rules.averaged,
        arity=2,
        fields=norms.average_fields,
        identity=norms.average_identity,
        lift=norms.average_lift,
        combine=norms.average_combine,
        finalise=norms.average_finalise,
        fold=norms.average_fold,
        cuda=cuda.average,
    ),
)

OPERATORS: Mapping[str, Monoid] = MappingProxyType({row.name: row for row in _ROWS})

# What a fold takes of the host's memory decides how large a block it is given: nothing for these,
STREAMING = frozenset(
    {
        sums.fold,
        sums.mean_fold,
        sums.product_fold,
        norms.square_fold,
        norms.norm2_fold,
        norms.dot_fold,
        norms.average_fold,
        extrema.min_fold,
        extrema.max_fold,
        extrema.nanmin_fold,
        extrema.nanmax_fold,
        extrema.ptp_fold,
        logic.fold_any,
        logic.fold_all,
        norms.largest_fold,
    }
)
# one panel at a time for these,
PANELLED = frozenset({sums.fold_present, sums.mean_fold_present, moments.fold, moments.fold_present, shape.fold})
# and a byte or two an element for these.
POSITIONS = frozenset({positions.min_fold, positions.max_fold, positions.nanmin_fold, positions.nanmax_fold})


# NumPy compares along short rows element by element, but along columns many at a time.
ACROSS = POSITIONS | {f for f in STREAMING if f.__module__ == extrema.__name__}


def get(op: str | Monoid) -> Monoid:
    """The row of this name, or the monoid itself."""
    if isinstance(op, Monoid):
        return op
    if op in OPERATORS:
        return OPERATORS[op]
    close = difflib.get_close_matches(str(op), OPERATORS, n=3)
    remedy = f"Did you mean {' or '.join(close)}?" if close else f"Choose from {', '.join(OPERATORS)}."
    raise OperatorError(message("operator", f"no operator {op!r}", "a name of the table or a Monoid", remedy))
