"""Public reductions that skip NaN; arguments as in :mod:`gpureduce_dask.api.reductions`.

NaT is as in NumPy: nanmin and nanmax skip it; to the others it is no NaN, so that they are sum, mean, argmin and argmax
where they take times.
"""

from __future__ import annotations

from typing import Any, Unpack

from ..graph.options import Options, reduce
from ..public import public, reduced


@public(reduced)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Sum of the elements that are not NaN; 0 for none. Dtypes and accuracy as in ``sum``.

    With ``min_count``, NaN where fewer elements are no NaN; integers then give float64.
    """
    arguments = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "split_every": split_every, "out": out}
    return reduce("nansum", a, also, **arguments)


@public(reduced)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Product of the elements that are not NaN; 1 for none. ``min_count`` as in :func:`nansum`."""
    arguments = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "split_every": split_every, "out": out}
    return reduce("nanprod", a, also, **arguments)


@public(reduced)
def nanmin(
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Least of the elements that are not NaN; NaN and a RuntimeWarning where all are. Empty: EmptyError."""
    return reduce("nanmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def nanmax(
    a: Any,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Greatest of the elements that are not NaN; NaN and a RuntimeWarning where all are. Empty: EmptyError."""
    return reduce("nanmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Mean of the elements that are not NaN; NaN for none."""
    return reduce("nanmean", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Variance of the elements that are not NaN, over their count less ``ddof``; NaN where that is not positive."""
    return reduce(
        "nanvar", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Square root of :func:`nanvar`."""
    return reduce(
        "nanstd", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced)
def nanargmin(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """Position of the least element that is not NaN, the first of equals. All NaN, or empty: EmptyError.

    Only the data can tell that all are NaN, so a task on a GPU waits for its results to look.
    """
    return reduce("nanargmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def nanargmax(
    a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None, out: Any = None, **also: Unpack[Options]
) -> Any:
    """Position of the greatest element that is not NaN, the first of equals; errors as in :func:`nanargmin`."""
    return reduce("nanargmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)
