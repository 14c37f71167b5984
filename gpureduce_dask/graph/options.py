"""What NumPy's and xarray's reductions take besides: masks, a value to start from, weights, and a least count.

Each is part of the reduction, which reads the array once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, TypedDict

import numpy as np

from ..distributed.private import write_to
from ..dtypes import kind
from ..errors import ArgumentError, message
from ..operators import table as operators
from ..operators.monoid import Monoid
from . import graph_arrays as da
from . import masks
from .apply import apply, as_dask
from .fallback import belongs_to_stock, call, foreign, require_native, require_plain
from .map_reduce import map_reduce
from .operands import same
from .statistics import SPREADS, reduce_together

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
# Whose results can be NaN.
COUNTED = frozenset(STARTS) | {"ptp", "sumsq", "norm1", "norm2", "norminf", "moment", "skew", "kurtosis"}
COUNTED |= {"mean", "nanmean", "var", "nanvar", "std", "nanstd"}
TAKERS = {"initial": frozenset(STARTS), "weights": frozenset(masks.WEIGHTED), "min_count": COUNTED}


class Options(TypedDict, total=False):
    """The keywords that every reduction takes; ``None`` is as good as none."""

    where: Any
    initial: Any
    weights: Any
    min_count: int | None
    dim: Any  # of a DataArray, in place of its axis


def reduce(op: str, a: Any, also: Mapping[str, Any], name: str | None = None, **arguments: Any) -> Any:
    """:func:`~gpureduce_dask.graph.apply.apply` with these as well; ``name`` is the public function's."""
    name = name or op
    _check(op, name, also)
    given = Options(**{k: v for k, v in also.items() if v is not None})  # type: ignore[typeddict-item]  # checked
    if not given:
        return apply(op, a, name=name, **arguments)
    x = as_dask(name, a)
    if belongs_to_stock(op, (x,), arguments.get("dtype")):
        keywords = "where=, initial=, weights= or min_count="
        raise foreign(name, (x,)) if x.dtype.kind == "O" else masks.unread(name, (x,), keywords)
    out = arguments.pop("out", None)
    result = _counted(op, x, given, arguments) if "min_count" in given else _reduced(op, x, given, arguments)
    return write_to(out, _begun(op, result, given["initial"]) if "initial" in given else result)


def _check(op: str, name: str, also: Mapping[str, Any]) -> None:
    """Raise for keywords that no reduction has, as Python does, and for those that this one has no meaning for."""
    for keyword, value in also.items():
        if keyword not in Options.__annotations__:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        takers = TAKERS.get(keyword)
        if value is not None and takers is not None and op not in takers:
            public = ", ".join(sorted({"norm" if n.startswith("norm") else n for n in takers}))
            remedy = "Leave it out, or pass where=."
            raise ArgumentError(message(name, f"{keyword}=", f"it with one of {public}", remedy))
    least = also.get("min_count")
    if least is not None and not (isinstance(least, int | np.integer) and least >= 0):
        raise ArgumentError(message(name, f"min_count={least!r}", "an integer of 0 or more", "Pass a count."))


def _reduced(op: str, x: Any, given: Options, arguments: dict[str, Any]) -> Any:
    """The reduction of the elements that count, times their weights."""
    monoid, where = operators.get(op), given.get("where")
    if "initial" in given:
        monoid = replace(monoid, empty="identity")
    elif where is not None and op in STARTS and monoid.empty == "raise":
        remedy = "Pass initial=, as inf or -inf."
        raise ArgumentError(message(op, "where= and no initial=", "both: nothing may be left", remedy))
    if where is None and "weights" not in given:
        return apply(monoid, x, **arguments)
    function, monoid, arrays = _weighted(monoid, x, given, arguments)
    return map_reduce(function, monoid, arrays, where=where, **arguments)


def _weighted(monoid: Monoid, x: Any, given: Options, arguments: dict[str, Any]) -> tuple[Any, Monoid, tuple[Any, ...]]:
    """A function, an operator and the arrays that a reduction is of, which may have weights."""
    if "weights" not in given:
        return same, monoid, (x,)
    require_plain(monoid.name, "weights", given["weights"])
    w = as_dask(monoid.name, given["weights"])
    function, found, dtype = masks.weighted(monoid, x.dtype, w.dtype)
    if arguments.get("dtype") is None and dtype is not None:
        arguments["dtype"] = dtype
    return function, found, (x, w)


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


def _counted(op: str, x: Any, given: Options, arguments: dict[str, Any]) -> Any:
    """The reduction where enough elements are no NaN, and NaN elsewhere. One read gives both, but for operators of
    two arrays."""
    where, least, monoid = given.get("where"), given["min_count"], operators.get(op)
    if least and monoid.empty == "raise":
        monoid = replace(monoid, empty="identity")
    dtype = arguments.get("dtype")
    function, monoid, arrays = _weighted(monoid, x if dtype is None else x.astype(dtype), given, arguments)
    places = {k: v for k, v in arguments.items() if k in ("axis", "keepdims", "split_every")}
    if monoid.arity == 2:
        total = map_reduce(function, monoid, arrays, where=where, **arguments)
        ((count,),) = reduce_together(op, same, ["nancount"], (x,), where=where, **places)
    else:
        options = {k: v for k, v in arguments.items() if k not in (*places, "dtype")}
        ddof = {"ddof": options.pop("ddof")} if op in SPREADS else {}
        ops = [monoid.with_options(**options) if options else monoid, "nancount"]
        ((total, count),) = reduce_together(op, function, ops, arrays, where=where, options=ddof, **places)
    result = np.dtype(arguments.get("dtype") or total.dtype)
    result = result if kind(result) in "fcmM" else np.dtype(np.float64)
    return da.map_blocks(enough, total, count, least, result, dtype=result, meta=total._meta.astype(result))


def enough(total: Any, count: Any, least: int, dtype: Any) -> Any:
    """Totals of at least so many elements; NaN, or NaT, for others."""
    nothing = np.nan if kind(dtype) in "fc" else np.asarray("NaT", dtype)
    return np.where(count >= least, total, nothing).astype(dtype)


HIGHEST = 4  # the state of the row has central sums up to this order


def central_moment(a: Any, order: Any, also: Mapping[str, Any], **arguments: Any) -> Any:
    """The central moment of this order; arguments as of the public function."""
    if not isinstance(order, Integral) or int(order) < 0:
        raise ArgumentError(message("moment", f"order {order!r}", "an integer of 0 or more", "Pass 2 for a variance."))
    if int(order) > HIGHEST and any(v is not None for v in also.values()):
        received = f"order {order} with {', '.join(f'{k}=' for k in also)}"
        raise ArgumentError(message("moment", received, f"order {HIGHEST} at most", "Leave that out."))
    if int(order) > HIGHEST:
        x = as_dask("moment", a)
        if not belongs_to_stock("moment", (x,), arguments["dtype"]):
            require_native("moment", x.dtype)
        return call("moment", (x,), order=int(order), **arguments)
    return reduce("moment", a, also, order=int(order), **arguments)
