"""NumPy's and xarray's reductions, with what they also take: masks, a value to start from, weights, and a least count.

Each is part of the reduction, which reads the array once. Norms of vectors and matrices are chosen by axis and order as
NumPy chooses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, TypedDict

import numpy as np

from ..distributed.private import write_to
from ..dtypes import kind, require_native
from ..errors import ArgumentError, message
from ..expressions.elements import WEIGHTED, Power, magnitude, same, weighted
from ..graph import graph_arrays as da
from ..graph import meta, reduce_tasks
from ..graph.arguments import agree, as_dask, ordered_axes
from ..graph.map_reduce import map_reduce, reduce_together, unread
from ..graph.meta import belongs_to_stock, call, foreign, require_plain
from ..graph.reduce import apply
from ..operators import table as operators
from ..operators.higher_moments import HIGHEST
from ..operators.monoid import Monoid
from ..operators.shared_states import SPREADS

# How a reduction begins with a value.
STARTS: dict[str, Any] = {"sum": np.add, "nansum": np.add, "prod": np.multiply, "nanprod": np.multiply}
STARTS |= {"min": np.minimum, "nanmin": np.fmin, "max": np.maximum, "nanmax": np.fmax}
# Whose results can be NaN.
COUNTED = frozenset(STARTS) | {"ptp", "sumsq", "norm1", "norm2", "norminf", "moment", "skew", "kurtosis"}
COUNTED |= {"mean", "nanmean", "var", "nanvar", "std", "nanstd"}
TAKERS = {"initial": frozenset(STARTS), "weights": frozenset(WEIGHTED), "min_count": COUNTED}


class Options(TypedDict, total=False):
    """The keywords that every reduction takes; ``None`` is as good as none."""

    where: Any
    initial: Any
    weights: Any
    min_count: int | None
    dim: Any  # of a DataArray, in place of its axis


def reduce(op: str, a: Any, also: Mapping[str, Any], name: str | None = None, **arguments: Any) -> Any:
    """:func:`~gpureduce_dask.graph.reduce.apply` with these as well; ``name`` is the public function's."""
    name = name or op
    _check(op, name, also)
    given = Options(**{k: v for k, v in also.items() if v is not None})  # type: ignore[typeddict-item]  # checked
    if not given:
        return apply(op, a, name=name, **arguments)
    x = as_dask(name, a)
    if belongs_to_stock(op, (x,), arguments.get("dtype")):
        keywords = "where=, initial=, weights= or min_count="
        raise foreign(name, (x,)) if x.dtype.kind == "O" else unread(name, (x,), keywords)
    out = arguments.pop("out", None)
    result = _with_min_count(op, x, given, arguments) if "min_count" in given else _reduced(op, x, given, arguments)
    return write_to(out, _with_initial(op, result, given["initial"]) if "initial" in given else result)


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
    function, found, dtype = weighted(monoid, x.dtype, w.dtype)
    if arguments.get("dtype") is None and dtype is not None:
        arguments["dtype"] = dtype
    return function, found, (x, w)


def _with_initial(op: str, result: Any, initial: Any) -> Any:
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


def _with_min_count(op: str, x: Any, given: Options, arguments: dict[str, Any]) -> Any:
    """The reduction where enough elements are no NaN, and NaN elsewhere. One read gives both, but for operators of
    two arrays."""
    where, least, monoid = given.get("where"), given["min_count"], operators.get(op)
    if monoid.empty == "raise" and (least or where is not None):
        least, monoid = max(least or 0, 1), replace(monoid, empty="identity")
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
    return da.map_blocks(require_count, total, count, least, result, dtype=result, meta=total._meta.astype(result))


def require_count(total: Any, count: Any, least: int, dtype: Any) -> Any:
    """Totals of at least so many elements; NaN, or NaT, for others."""
    nothing = np.nan if kind(dtype) in "fc" else np.asarray("NaT", dtype)
    return np.where(count >= least, total, nothing).astype(dtype)


def central_moment(a: Any, order: Any, also: Mapping[str, Any], **arguments: Any) -> Any:
    """The central moment of this order; arguments as of the public function."""
    if not isinstance(order, Integral) or int(order) < 0:
        raise ArgumentError(message("moment", f"order {order!r}", "an integer of 0 or more", "Pass 2 for a variance."))
    if int(order) <= HIGHEST:
        return reduce("moment", a, also, order=int(order), **arguments)
    if any(v is not None for v in also.values()):
        received = f"order {order} with {', '.join(f'{k}=' for k in also)}"
        raise ArgumentError(message("moment", received, f"order {HIGHEST} at most", "Leave that out."))
    x = as_dask("moment", a)
    if not belongs_to_stock("moment", (x,), arguments["dtype"]):
        require_native("moment", x.dtype)
    return call("moment", (x,), order=int(order), **arguments)


# ---- average


def weighted_mean(a: Any, axis: Any, weights: Any, returned: bool, keepdims: bool) -> Any:
    """The mean by weights of ``a``'s shape or along ``axis``, and with ``returned`` the sum of the weights."""
    x = as_dask("average", a)
    if weights is None:
        mean = apply("mean", x, axis=axis, keepdims=keepdims, name="average")
        return (mean, _counts(x, mean, axis)) if returned else mean
    w = as_dask("average", weights)
    if w.ndim == x.ndim and all(m in (1, n) for m, n in zip(w.shape, x.shape, strict=True)):
        cuts = zip(w.shape, w.chunks, x.chunks, strict=True)
        w = da.broadcast_to(w, x.shape, chunks=tuple(theirs if m == 1 else own for m, own, theirs in cuts))
    if belongs_to_stock("average", (x, w), None):
        return da.average(x, axis=axis, weights=w, returned=returned, keepdims=keepdims)
    axes = ordered_axes("average", axis, x.ndim)
    whole = agree(w.shape, x.shape)
    spread = w if whole else _spread(x, w, axes)
    mean = apply("average", x, spread, axis=axis, keepdims=keepdims)
    if not returned:
        return mean
    if whole or any(map(math.isnan, mean.shape)):
        return mean, apply("sum", spread, axis=axes, dtype=mean.dtype, keepdims=keepdims)
    total = apply("sum", w, dtype=mean.dtype)
    return mean, da.broadcast_to(total, mean.shape, chunks=mean.chunks)


def _spread(x: Any, weights: Any, axes: tuple[int, ...]) -> Any:
    """Weights along ``axes`` as an array of ``x``'s shape and chunks whose chunks are views."""
    sizes = tuple(x.shape[a] for a in axes)
    unknown = any(map(math.isnan, (*sizes, *weights.shape)))
    if not agree(weights.shape, sizes):
        received = f"weights of shape {weights.shape} for an array of shape {x.shape} and axes {axes}"
        expected = "the array's shape, or its sizes along the axes"
        raise ArgumentError(message("average", received, expected, "Reshape or broadcast the weights."))
    if unknown and weights.numblocks != tuple(x.numblocks[a] for a in axes):
        remedy = "Call compute_chunk_sizes() first."
        raise ArgumentError(message("average", "unknown chunk sizes", "the same chunks in both", remedy))
    inds, run = tuple(range(x.ndim)), partial(reduce_tasks.broadcast_weights, axes=axes)
    cut = weights if unknown else weights.rechunk(tuple(x.chunks[a] for a in axes))
    token = "gr-average-weights"
    return meta.blockwise(run, inds, x, inds, cut, axes, template=x._meta, dtype=weights.dtype, token=token)


def _counts(x: Any, mean: Any, axis: Any) -> Any:
    """How many elements each mean is of, in the mean's dtype and shape."""
    count = math.prod(x.shape[a] for a in ordered_axes("average", axis, x.ndim))
    if math.isnan(count):
        remedy = "Call x.compute_chunk_sizes() first."
        raise ArgumentError(message("average", "returned=True and unknown sizes", "known sizes", remedy))
    return da.full_like(mean, count)


# ---- norms and dot products

ROWS = {1.0: "norm1", 2.0: "norm2", np.inf: "norminf", 0.0: "count_nonzero"}  # vector norms that are operators
FROBENIUS = (None, "fro", "f")
SINGULAR = ("nuc", 2, -2)  # matrix norms of singular values
VECTORS = "None or a number"
MATRICES = "None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"


def norm(a: Any, ord: Any, axis: Any, keepdims: Any, split_every: Any, also: Mapping[str, Any]) -> Any:
    """A vector's norm along one axis, a matrix's along two; along all axes what NumPy takes an array for."""
    x = as_dask("norm", a)
    if belongs_to_stock("norm", (x,), None) and not any(v is not None for v in also.values()):
        return da.linalg.norm(x, ord, axis, keepdims)
    axes = ordered_axes("norm", axis, x.ndim)  # a matrix's rows come first
    if (axis is None and ord is None) or len(axes) == 1:
        return vector_norm("norm", x, 2 if ord is None else ord, axes, keepdims, split_every, also)
    if len(axes) != 2:
        received = f"ord={ord!r} for {len(axes)} axes"
        remedy = "Call vector_norm for all elements as one vector."
        raise ArgumentError(message("norm", received, "one axis, or the two of matrices", remedy))
    return _matrix_norm(x, ord, axes, keepdims, split_every, also)


def vector_norm(
    name: str, a: Any, ord: Any, axis: Any, keepdims: Any, split_every: Any, also: Mapping[str, Any]
) -> Any:
    """The norm of all elements along the axes as one vector."""
    x = as_dask(name, a)
    if not isinstance(ord, Real) or isinstance(ord, bool):
        raise ArgumentError(message(name, f"ord {ord!r} of a vector", VECTORS, "Pass 2 for the length of a vector."))
    shape = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    row = ROWS.get(float(ord))
    if row is not None:
        found = reduce(row, x, also, name, **shape)
        return found.astype(_result(x)) if ord == 0 else found
    _take(name, f"ord={ord!r}", also, ("where",) if ord != -np.inf else ())
    if ord == -np.inf:
        found = map_reduce(magnitude, "min", (x,), **shape)
    else:
        found = map_reduce(Power(float(ord)), "sum", (x,), where=also.get("where"), **shape) ** (1 / float(ord))
    return found.astype(_result(x))


def _matrix_norm(
    x: Any, ord: Any, axes: tuple[int, ...], keepdims: Any, split_every: Any, also: Mapping[str, Any]
) -> Any:
    """The norm of matrices of rows along the first axis and columns along the second."""
    shape = {"keepdims": keepdims, "split_every": split_every}
    if ord in FROBENIUS:
        return reduce("norm2", x, also, "norm", axis=axes, **shape)
    _take("norm", f"ord={ord!r} of matrices", also, ())
    if ord in SINGULAR:
        if x.ndim != 2:
            received, remedy = f"ord={ord!r} for {x.ndim} dimensions", "Singular values are dask.array.linalg's."
            raise ArgumentError(message("norm", received, "a single matrix", remedy))
        return da.linalg.norm(x.astype(np.float64) if kind(x.dtype) in "biu" else x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(message("norm", f"ord {ord!r} of a matrix", MATRICES, "Or call vector_norm."))
    sums = apply("norm1", x, axis=axes[0] if abs(ord) == 1 else axes[1], keepdims=True, split_every=split_every)
    return apply("max" if ord > 0 else "min", sums, axis=axes, name="norm", **shape)


def _take(name: str, what: str, also: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise for keywords that this norm has no meaning for."""
    others = [f"{k}=" for k, v in also.items() if v is not None and k not in known]
    if others:
        expected = " or ".join(f"{k}= alone" for k in known) or "no such keyword"
        raise ArgumentError(message(name, f"{', '.join(others)} with {what}", expected, "Leave it out."))


def _result(x: Any) -> Any:
    """The dtype of an array's norms."""
    return np.dtype(np.float64) if kind(x.dtype) in "biu" else np.empty(0, x.dtype).real.dtype


def dot(a: Any, b: Any) -> Any:
    """``sum(conj(a) * b)`` over all elements; arrays of two shapes and one size are flattened, as NumPy does."""
    x, y = as_dask("vdot", a), as_dask("vdot", b)
    if x.ndim != y.ndim or (x.shape != y.shape and x.size == y.size):
        x, y = x.ravel(), y.ravel()
    return apply("vdot", x, y)
