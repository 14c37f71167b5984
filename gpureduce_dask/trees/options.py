"""What NumPy's and xarray's reductions take besides: masks, a value to start from, weights, and a least count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import handle_out

from .. import operators
from ..dtypes import kind
from ..errors import ArgumentError, DtypeError, message
from ..monoid import Monoid
from ..rows.weighted import SPREADS
from . import mapped, mapped_product
from .apply import apply, as_dask
from .operands import same
from .stock import belongs_to_stock, foreign

STARTS = {  # how a reduction begins with a value
    "sum": np.add,
    "nansum": np.add,
    "prod": np.multiply,
    "nanprod": np.multiply,
    "min": np.minimum,
    "nanmin": np.fmin,
    "max": np.maximum,
    "nanmax": np.fmax,
}


def reduce(
    op: str,
    a: Any,
    where: Any = None,
    initial: Any = None,
    weights: Any = None,
    min_count: int | None = None,
    **arguments: Any,
) -> Any:
    """:func:`~gpureduce_dask.trees.apply.apply` with these as well."""
    if where is None and initial is None and weights is None and min_count is None:
        return apply(op, a, **arguments)
    x = as_dask(op, a)
    if belongs_to_stock(op, (x,), arguments.get("dtype")):
        raise _refused(op, x)
    out = arguments.pop("out", None)
    if min_count is not None:
        result = _counted(op, x, where, min_count, arguments)
    else:
        result = _masked(op, x, where, initial, weights, arguments)
    if initial is not None:
        result = _begun(op, result, initial)
    return handle_out(out, result)


def _refused(op: str, x: Any) -> DtypeError:
    received = f"where=, initial=, weights= or min_count= with {type(x._meta).__name__} chunks of {x.dtype}"
    remedy = "Fill masked chunks first, and pass their mask as where=."
    return (
        DtypeError(message(op, received, "NumPy or CuPy chunks of numbers", remedy))
        if x.dtype.kind != "O"
        else foreign(op, (x,))
    )


def _masked(op: str, x: Any, where: Any, initial: Any, weights: Any, arguments: dict[str, Any]) -> Any:
    """The reduction of the elements that count, times their weights."""
    monoid = operators.get(op)
    if monoid.empty == "raise" or op in ("min", "max"):
        if where is not None and initial is None:
            raise ArgumentError(
                message(op, "where= and no initial=", "both: nothing may be left", "Pass initial=, as inf or -inf.")
            )
        monoid = replace(monoid, empty="identity") if initial is not None else monoid
    if weights is None:
        return _mapped(same, monoid, (x,), where, arguments) if where is not None else apply(monoid, x, **arguments)
    if op in SPREADS:
        return _mapped(same, SPREADS[op], (x, weights), where, arguments)
    if op == "mean":
        arguments = {k: v for k, v in arguments.items() if k != "dtype" or v is not None}
        return _mapped(same, operators.get("average"), (x, weights), where, arguments)
    return _mapped(np.multiply, monoid, (x, weights), where, arguments)


def _mapped(function: Any, monoid: Monoid, given: tuple[Any, ...], where: Any, arguments: dict[str, Any]) -> Any:
    options = dict(arguments)
    named = (options.pop(k, default) for k, default in (("axis", None), ("dtype", None), ("keepdims", False)))
    axis, dtype, keepdims = named
    split_every = options.pop("split_every", None)
    return mapped.map_reduce(function, monoid, given, axis, dtype, keepdims, split_every, None, where, options)


def _begun(op: str, result: Any, initial: Any) -> Any:
    """The result with a value that stands before the elements."""
    value = np.asarray(initial)
    if value.ndim or not _holds(result.dtype, value):
        expected = f"a number that {result.dtype} holds"
        raise ArgumentError(message(op, f"initial={initial!r}", expected, "Convert it, or pass dtype=."))
    return da.map_blocks(STARTS[op], result, value.astype(result.dtype)[()], dtype=result.dtype, meta=result._meta)


def _holds(dtype: Any, value: Any) -> bool:
    """True where a number is one of this dtype, whatever its own: casting rules know dtypes alone, and take 300 for
    int8 and no 0 for uint8."""
    if kind(dtype) == "b":
        return value.dtype.kind in "biuf"
    if kind(dtype) in "iu":
        limits, number = np.iinfo(dtype), value.item()
        return isinstance(number, int | float) and limits.min <= number <= limits.max and number == int(number)
    return bool(np.can_cast(value.dtype, dtype, "same_kind"))


def _counted(op: str, x: Any, where: Any, least: int, arguments: dict[str, Any]) -> Any:
    """The reduction where enough elements are no NaN, and NaN elsewhere. One read gives both."""
    dtype = arguments.pop("dtype", None)
    if dtype is not None:
        x = x.astype(dtype)
    names = [op, "nancount"]
    ((total, count),) = mapped_product.reduce(
        same, names, (x,), arguments["axis"], arguments["keepdims"], arguments["split_every"], where, None, None, {}
    )
    result = total.dtype if kind(total.dtype) in "fc" else np.dtype(np.float64)
    return da.map_blocks(enough, total, count, least, result, dtype=result, meta=total._meta.astype(result))


def enough(total: Any, count: Any, least: int, dtype: Any) -> Any:
    """Totals of at least so many elements; NaN for others."""
    return np.where(count >= least, total, np.nan).astype(dtype)
