"""Public scans, by dask.array's, NumPy's and the array API's names and signatures.

Common to all: ``x`` is a dask array, or anything that makes one (then it is one chunk). The result has the chunks of
``x`` along an axis. With ``axis=None`` it has one axis, and holds the elements of ``x`` in C order whatever its chunks,
which are neither cut nor joined for it. Unknown chunk sizes work along an axis. ``out`` is a dask array to overwrite.
Result dtypes and accuracy are those of the reduction of the same name, so that running sums of float32 are rounded
once, and those of float64 do not drift; a sum of zeros is +0.0. Masked, sparse, long double and object arrays are
handed to the dask function of that name, where it has one. ``dim`` stands for the axis of a DataArray or a Dataset,
which keep their labels. Errors are those of :mod:`gpureduce_dask.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, message
from ..graph import chunk_functions
from ..graph.apply import as_dask
from ..graph.scan_apply import apply
from ..graph.statistics import field_names
from ..operators.monoid import Monoid
from ..public import public, scanned
from ..steps.scan_strategy import cumsum_by
from ..steps.scan_strategy import recipe as strategy_recipe
from .summaries import named


@public(scanned)
def cumsum(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    method: str = "sequential",
    strategy: str | None = None,
    *,
    dim: Any = None,
) -> Any:
    """Running sum along an axis. ``method`` is dask's, and changes nothing: there is one tree.

    ``strategy`` is for teaching, as that of ``sum``: a step of the textbook ladder, ``"scan-03"`` say, scans each CuPy
    chunk of an array of one dimension, in stock dask's tree (there ``method`` counts).
    """
    if strategy is not None:
        return cumsum_by(strategy, x, axis, dtype, out, method)
    return apply("sum", x, axis, dtype, out=out, name="cumsum", method=method)


@public(scanned)
def cumprod(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, method: str = "sequential", *, dim: Any = None
) -> Any:
    """Running product along an axis."""
    return apply("prod", x, axis, dtype, out=out, name="cumprod", method=method)


@public(scanned)
def nancumsum(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, method: str = "sequential", *, dim: Any = None
) -> Any:
    """Running sum of the elements that are not NaN."""
    return apply("nansum", x, axis, dtype, out=out, name="nancumsum", method=method)


@public(scanned)
def nancumprod(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, method: str = "sequential", *, dim: Any = None
) -> Any:
    """Running product of the elements that are not NaN."""
    return apply("nanprod", x, axis, dtype, out=out, name="nancumprod", method=method)


@public(scanned)
def cummax(x: Any, axis: Any = None, out: Any = None, *, dim: Any = None) -> Any:
    """Greatest element so far; NaN or NaT from the first one on."""
    return apply("max", x, axis, out=out, name="cummax")


@public(scanned)
def cummin(x: Any, axis: Any = None, out: Any = None, *, dim: Any = None) -> Any:
    """Least element so far; NaN or NaT from the first one on."""
    return apply("min", x, axis, out=out, name="cummin")


@public(scanned)
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False, dim: Any = None
) -> Any:
    """Running sum as the array API has it: ``axis`` may be left out for one axis alone.

    With ``include_initial`` a 0 goes before: the first chunk is longer by one.
    """
    return _api("sum", "cumulative_sum", x, axis, dtype, out, include_initial)


@public(scanned)
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False, dim: Any = None
) -> Any:
    """Running product as the array API has it; the initial value is 1."""
    return _api("prod", "cumulative_prod", x, axis, dtype, out, include_initial)


@public(scanned)
def ffill(x: Any, axis: Any = -1, *, dim: Any = None) -> Any:
    """NaN and NaT replaced by the last element before them that is neither; those before the first stay."""
    return apply("last", x, axis, name="ffill")


@public(scanned)
def bfill(x: Any, axis: Any = -1, *, dim: Any = None) -> Any:
    """NaN and NaT replaced by the next element after them that is neither; those after the last stay."""
    return apply("last", x, axis, reverse=True, name="bfill")


@public(scanned)
def scan(
    x: Any,
    monoid: str | Monoid | Sequence[str | Monoid],
    axis: Any = None,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    segments: Any = None,
    include_initial: bool = False,
    out: Any = None,
    *,
    dim: Any = None,
) -> Any:
    """Running results of an operator of the table, or of a :class:`~gpureduce_dask.Monoid` of one's own.

    For a monoid of arity 2, ``x`` is a tuple of two arrays of one shape; ``scan((a, b), "affine")`` solves
    ``y[i] = a[i] * y[i - 1] + b[i]``. ``exclusive`` leaves each element out of its own result, and ``include_initial``
    puts the result for no element before the others. ``reverse`` starts at the end: "before" is then behind.
    ``segments``, of the array's shape or its size along the axis, starts anew where it is true, or, if it is not of
    booleans, where it differs from the one before. Operators without an identity, as max, begin with what is below
    (above) all elements, and with NaN or 0 for first and last; those with a position refuse.

    A list of operators gives a named tuple of scans in that order. Those that are computed together make each chunk of
    a lazy array once.
    """
    if not isinstance(monoid, (str, Monoid)):
        return _several(x, monoid, (axis, dtype, exclusive, reverse, segments, include_initial), out)
    return apply(monoid, x, axis, dtype, exclusive, reverse, segments, include_initial, out)


def _several(x: Any, several: Sequence[str | Monoid], arguments: tuple[Any, ...], out: Any) -> Any:
    fields = field_names("scan", several)
    if out is not None:
        raise ArgumentError(message("scan", "out= for several operators", "no out=", "Scan by one operator at a time."))
    array = x if isinstance(x, tuple) else as_dask("scan", x)
    return named(fields, [apply(each, array, *arguments) for each in several])


@public()
def scan_tree(op: str | Monoid, dtype: Any, strategy: str | None = None) -> dict[str, Any]:
    """Keyword arguments that make stock dask scan by an operator.

    ``dask.array.reductions.cumreduction(x=x, axis=0, **scan_tree("sum", x.dtype))``, with either ``method``. Stock dask
    joins results, not states: for operators whose running results combine as the elements do, of the elements' dtype.
    ``strategy`` is that of :func:`cumsum`, for sums of one dimension.
    """
    if strategy is not None:
        return strategy_recipe(op, dtype, strategy)
    return chunk_functions.scan_functions(op, dtype)


def _api(op: str, name: str, x: Any, axis: Any, dtype: Any, out: Any, initial: bool) -> Any:
    if axis is None and getattr(x, "ndim", 1) > 1:
        raise ArgumentError(
            message(
                name, f"axis None for {x.ndim} dimensions", "an axis", "Pass axis=, or call cumsum for all elements."
            )
        )
    return apply(op, x, axis, dtype, initial=initial, out=out, name=name)
