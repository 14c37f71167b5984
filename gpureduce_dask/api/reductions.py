"""Public reductions, by dask.array's names and signatures.

Common to all: ``a`` is a dask array, or anything that makes one (then it is one chunk). ``axis`` is None for all axes,
an integer or a tuple. ``keepdims`` leaves reduced axes at size 1. ``split_every`` (an integer, or a dict of axis to
integer, 2 or more) bounds how many partials one task combines. ``out`` is a dask array to overwrite. The result is a
dask array whose chunks are of the type of ``a``'s. Masked, sparse, long double, object and string arrays are handed to
the dask function of that name, unchanged, where it has an answer. Errors are those of :mod:`gpureduce_dask.errors`,
raised when the graph is built unless only the data can tell, and name the function that was called. xarray's arrays
keep their labels: see :mod:`gpureduce_dask.public`.

``also`` are keywords. They are read with the elements: none makes an array of their size.

where : array of bool
    Which elements count; it broadcasts with ``a``. Positions are still those in the whole array. Where nothing counts
    the result is that of nothing; ``min`` and ``max`` need ``initial`` (or ``min_count``), and positions and ``ptp``
    raise EmptyError.
initial : number
    What stands before the elements of sums, products and extrema; the result's dtype has to hold it.
weights : array
    Broadcasts with ``a``. The elements of ``sum``, ``nansum`` and vector norms of order 1 and inf, and the squares of
    ``sumsq`` and of order 2, are multiplied by them (those of norms are not negative). To means, ``var``, ``std`` and
    their nan-forms they say how often each element counts.
dim : name, or several
    The dimensions to reduce of a DataArray or a Dataset, in place of ``axis``. None is all of them.
min_count : int
    NaN where fewer elements that count are not NaN, as in pandas and xarray; of integers the result is float64. For all
    but ``any``, ``all``, ``count_nonzero`` and positions, which have no NaN.
"""

from __future__ import annotations

from typing import Any, Unpack

from ..errors import ArgumentError, message
from ..graph import linalg
from ..graph.apply import apply_many
from ..graph.chunk_functions import reduction_functions
from ..graph.options import Options, reduce
from ..operators.monoid import Monoid
from ..public import public, reduced
from ..steps.strategy import recipe as strategy_recipe
from ..steps.strategy import sum_by


@public(reduced)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    strategy: str | None = None,
    **also: Unpack[Options],
) -> Any:
    """Sum of elements; 0 for none.

    bool and integers sum in 64 bits and wrap as in NumPy. float16, bfloat16 and float32 are added in float64 and
    rounded once. float64 is added in pairs of float64 (Knuth's TwoSum): by the kernels each element, on the host the
    totals of tiles of bounded size, which NumPy sums. The error does not grow with the number of elements.

    ``strategy`` is for teaching: a step of the textbook ladder, ``"reduce-08"`` say, sums each chunk in the result's
    dtype (float32 in float32), over all axes, in stock dask's tree. ``python -m gpureduce_dask ladder --list`` has all.
    """
    if strategy is not None and also:
        received = f"strategy= with {', '.join(f'{k}=' for k in also)}"
        raise ArgumentError(message("sum", received, "one of them", "Leave out strategy=."))
    if strategy is not None:
        return sum_by(strategy, a, axis, dtype, keepdims, split_every, out)
    return reduce("sum", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Product of elements; 1 for none. Result dtypes are those of :func:`sum`."""
    return reduce("prod", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def min(
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Least element; NaN or NaT where there is one. An empty slice raises EmptyError without ``initial``."""
    return reduce("min", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def max(
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Greatest element; NaN or NaT where there is one. An empty slice raises EmptyError without ``initial``."""
    return reduce("max", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def any(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """True where an element is not zero (NaN is not); False for none."""
    return reduce("any", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def all(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """True where no element is zero; True for none."""
    return reduce("all", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def count_nonzero(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, **also: Unpack[Options]
) -> Any:
    """How many elements are not zero, as int64."""
    return reduce("count_nonzero", a, also, axis=axis, keepdims=keepdims, split_every=split_every)


@public(reduced)
def ptp(a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, **also: Unpack[Options]) -> Any:
    """Greatest less least element, in the dtype of ``a`` (timedelta64 for times); NaN where there is one.

    An empty slice raises EmptyError; complex numbers raise DtypeError.
    """
    return reduce("ptp", a, also, axis=axis, keepdims=keepdims, split_every=split_every)


@public(reduced)
def argmin(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """Position of the least element (int64), the first of equals, the first NaN where there is one.

    With several axes, positions count in C order over the reduced axes. An empty slice raises EmptyError; unknown
    chunk sizes along chunked reduced axes raise ArgumentError.
    """
    return reduce("argmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def argmax(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """Position of the greatest element (int64); ties, NaN and errors as in :func:`argmin`."""
    return reduce("argmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def sumsq(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Sum of squares ``|x|**2``; accumulators are those of :func:`sum`, and complex numbers give a real result."""
    return reduce("sumsq", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every)


@public(reduced)
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, split_every: Any = None, **also: Unpack[Options]
) -> Any:
    """Norm of a vector or a matrix, as ``numpy.linalg.norm`` has it.

    Along one ``axis`` it is that of vectors, along two that of matrices (rows along the first). Without ``axis`` and
    ``ord`` all elements are one vector; with ``ord`` alone an array of two dimensions is a matrix.

    ``ord`` of vectors is a number, 2 by default: 1 (sum of ``|x|``), 2 (Euclidean), inf and -inf (greatest and least
    ``|x|``), 0 (how many are not zero), or a power. ``ord`` of matrices is 'fro' (the default), 1 and -1 (greatest and
    least sum of a column), inf and -inf (of a row), and of a single matrix 2, -2 and 'nuc', which dask makes of
    singular values.
    """
    return linalg.norm(a, ord, axis, keepdims, split_every, also)


@public(reduced)
def vector_norm(
    x: Any,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    ord: Any = 2,
    split_every: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Norm of all elements along ``axis``, one or several, as one vector, as the array API has it.

    ``ord`` is that of vectors in :func:`norm`.
    """
    return linalg.vector_norm("vector_norm", x, ord, axis, keepdims, split_every, also)


@public(reduced)
def vdot(a: Any, b: Any) -> Any:
    """``sum(conj(a) * b)`` over all elements, 0-d, without an array of products. Sizes must be equal."""
    return linalg.dot(a, b)


@public(reduced)
def reduction(
    x: Any,
    monoid: str | Monoid,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    group: int | None = None,
    *,
    dim: Any = None,
) -> Any:
    """Reduce by an operator of the table or a :class:`~gpureduce_dask.Monoid` of one's own.

    For a monoid of arity 2, ``x`` is a tuple of two arrays of one shape. A monoid that does not commute meets the
    elements in C order, whatever the chunks. ``group`` is how many chunks one task takes: by default what
    ``split_every`` or dask's configuration ``gpureduce.group`` says, or else as many as keep every thread busy.
    """
    return apply_many(
        monoid, x, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, group=group
    )


@public()
def tree(op: str | Monoid, dtype: Any, strategy: str | None = None, **options: Any) -> dict[str, Any]:
    """Keyword arguments that make stock dask run an operator: ``da.reduction(x, **tree("sum", x.dtype), axis=0)``.

    ``dtype`` is that of the array (for an operator of two arrays a tuple; the second goes in as ``weights=``).
    ``options`` are the operator's, as ``ddof``. An operator that needs positions, such as argmin, raises
    ArgumentError: stock dask tells a chunk no position. ``strategy`` is that of :func:`sum`, for sums over all axes.
    """
    if strategy is not None:
        return strategy_recipe(op, dtype, strategy, options=options)
    return reduction_functions(op, dtype, options)
