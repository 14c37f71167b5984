"""Public means, variances and moments; arguments as in :mod:`gpureduce_dask.api.reductions`."""

from __future__ import annotations

from typing import Any, Unpack

from ..graph.options import Options, central_moment, reduce, weighted_mean
from ..public import public, reduced


@public(reduced)
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Mean; float64 for integers and bool, else the dtype of ``a``; NaN for none. Accuracy as in ``sum``.

    An integer ``dtype`` gets the mean truncated towards zero, as in NumPy but for sums that wrap there. Unsigned ones
    are refused for what may be negative. With ``weights``, which broadcast with ``a``, the mean is that of
    :func:`average`.
    """
    return reduce("mean", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Variance: the mean of ``|x - mean|**2``, over ``n - ddof``; real for complex ``a``.

    One pass in float64, chunks merged by Chan, Golub and LeVeque (1979). The means of float64 and of integers of 32
    and 64 bits are merged as pairs of float64: right to some 1e-14 of the variance however far from zero the elements
    lie. Other dtypes, complex ones too, lose about ``2**-53 * mean / std`` of it in a merge. NaN where ``n - ddof`` is
    zero. ``dtype`` is of floats or complex numbers: in integers NumPy measures from a truncated mean. With ``weights``
    an element counts as often as its own says, ``n`` is their sum, and ``a`` is real; there is no ``dtype`` then. Where
    they say how far to trust an element (``aweights`` of ``numpy.cov``) the unbiased variance is that with
    ``ddof=sumsq(weights) / sum(weights)``.
    """
    return reduce(
        "var",
        a,
        also,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        split_every=split_every,
        out=out,
        ddof=ddof,
    )


@public(reduced)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Standard deviation, the square root of :func:`var`."""
    return reduce(
        "std",
        a,
        also,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        split_every=split_every,
        out=out,
        ddof=ddof,
    )


@public(reduced)
def moment(
    a: Any,
    order: int,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: Any = None,
    out: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Central moment: the sum of ``(x - mean)**order`` over ``n - ddof``, for real ``a``.

    Merged by Pebay's formulas (Sandia report SAND2008-6212) with means rounded to float64, so that a merge loses about
    ``2**-53 * mean / std`` of a moment; :func:`var` does not. Order 0 is 1 and order 1 is 0, as in dask, which computes
    the orders above 4. With ``weights`` an element counts as often as its own says, and ``n`` is their sum.
    """
    return central_moment(
        a, order, also, axis=axis, dtype=dtype, keepdims=keepdims, ddof=ddof, split_every=split_every, out=out
    )


@public(reduced)
def skew(
    a: Any, axis: Any = 0, bias: bool = True, keepdims: bool = False, split_every: Any = None, **also: Unpack[Options]
) -> Any:
    """Skewness ``m3 / m2**1.5`` as in ``scipy.stats``; with ``bias=False`` the unbiased estimate. Real ``a``.

    ``axis`` is 0 by default, as in ``scipy.stats`` and ``dask.array.stats``; None is all axes, and so is a DataArray's
    call without ``dim``, as for every reduction.

    With ``weights`` an element counts as often as its own says: an unbiased estimate makes sense for whole numbers.
    """
    return reduce("skew", a, also, axis=axis, keepdims=keepdims, split_every=split_every, bias=bias)


@public(reduced)
def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    keepdims: bool = False,
    split_every: Any = None,
    **also: Unpack[Options],
) -> Any:
    """Kurtosis ``m4 / m2**2``, with ``fisher`` less 3, as in ``scipy.stats``. Real ``a``.

    ``axis`` and ``weights`` are as in :func:`skew`.
    """
    return reduce("kurtosis", a, also, axis=axis, keepdims=keepdims, split_every=split_every, fisher=fisher, bias=bias)


@public(reduced)
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
    *,
    dim: Any = None,
) -> Any:
    """Weighted mean ``sum(w * a) / sum(w)``; the plain mean without weights.

    ``weights`` have the shape of ``a``, with 1 where all elements along an axis have one weight, or its sizes along
    ``axis``. With ``returned``, a pair: the means and, in their shape, the sums of the weights. Weights that sum to
    zero in a slice raise WeightError, a ZeroDivisionError as in NumPy; only the data can tell, so a task on a GPU waits
    for its results to look.
    """
    return weighted_mean(a, axis, weights, returned, keepdims)
