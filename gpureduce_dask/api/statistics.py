"""Public means, variances and moments, with the names and signatures of dask.array and ``scipy.stats``."""

from __future__ import annotations

from ..parameters import Array, ArrayLike, Axis, Dims, DType, SplitEvery
from ..public import public, reduced
from .options import central_moment, reduce, weighted_mean
from .reductions import KEYWORDS


@public(reduced, elsewhere=KEYWORDS)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Arithmetic mean of the elements.

    Parameters
    ----------
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array. The mean is that of :func:`average`
        then.

    Returns
    -------
    dask.array.Array
        A mean for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, and that of
        the array for all others. Where there are no elements the result is NaN, with a RuntimeWarning.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no mean, as that of dates; or `dtype` is unsigned for what may be negative.
    WeightError
        Weights sum to zero, which is found when the result is computed.
    ArgumentError
        Another argument has a value that the mean cannot take, as a `dtype` together with `weights`.

    See Also
    --------
    nanmean : The mean without NaN.
    average : The weighted mean, with weights along an axis.

    Notes
    -----
    The sum is that of :func:`sum`, with its accuracy and the method of its References, but sums of 64-bit integers are
    accumulated in float64, where they cannot wrap. With a `dtype` of integers the mean is truncated towards zero.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.arange(6, chunks=2).reshape(2, 3)
    >>> gr.mean(x, axis=1).compute()
    array([1., 4.])
    >>> gr.mean(x, axis=1, weights=[0, 0, 1]).compute()
    array([2., 5.])
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce("mean", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Variance: the sum of ``abs(a - mean)**2`` over ``n - ddof``.

    Parameters
    ----------
    ddof : float, default 0
        Delta degrees of freedom: the divisor is the number of elements, or with `weights` their sum, less this.
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array, which has to be real then.

    Returns
    -------
    dask.array.Array
        A variance for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, the
        real dtype for complex numbers, and that of the array for other floats. Where ``n - ddof`` is not positive the
        result is NaN or infinite, with a RuntimeWarning, as in NumPy.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no variance, as that of times; or `dtype` is one of integers.
    ArgumentError
        Another argument has a value that the variance cannot take, as a `dtype` together with `weights`.

    See Also
    --------
    std : The square root.
    nanvar : The variance without NaN.
    moment : Higher central moments.

    Notes
    -----
    Each chunk is read once, in float64, and gives its number of elements, their mean, and the sum of their squared
    deviations; these are merged by the formula of Chan, Golub and LeVeque [1]_. The means of float64 and of integers of
    32 and 64 bits are merged as pairs of float64, so that the relative error is some 1e-14 however far from zero the
    elements lie. Merging those of other dtypes, complex ones too, has a relative error of about
    ``2**-53 * mean / std``. With weights the sum of weights stands for the number of elements, as West [2]_ has it.

    Where weights say how reliable elements are (``aweights`` of ``numpy.cov``), not how often they occur, the unbiased
    variance is the one with ``ddof=sumsq(weights) / sum(weights)``.

    References
    ----------
    .. [1] Chan, T. F., Golub, G. H., and LeVeque, R. J., Updating formulae and a pairwise algorithm for computing
       sample variances, report STAN-CS-79-773, Stanford University, 1979.
    .. [2] West, D. H. D., Updating mean and variance estimates: an improved method, Communications of the ACM 22, 1979.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([1.0, 2.0, 4.0, 5.0])
    >>> float(gr.var(x).compute()), float(gr.var(x + 1e9, ddof=1).compute())
    (2.5, 3.3333333333333335)
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce(
        "var", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced, elsewhere=KEYWORDS)
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Standard deviation: the square root of :func:`var`.

    Parameters
    ----------
    ddof : float, default 0
        Delta degrees of freedom: the divisor is the number of elements, or with `weights` their sum, less this.
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array, which has to be real then.

    Returns
    -------
    dask.array.Array
        A deviation for each index of the kept axes, in their chunks, of the dtype of :func:`var`. Where ``n - ddof`` is
        not positive the result is NaN or infinite, with a RuntimeWarning, as in NumPy.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no deviation, as that of times; or `dtype` is one of integers.
    ArgumentError
        Another argument has a value that the deviation cannot take, as a `dtype` together with `weights`.

    See Also
    --------
    var : The square, and its method.
    nanstd : The deviation without NaN.

    Notes
    -----
    The root of the variance that :func:`var` finds, whose Notes have the method and its error, and its
    References the source.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[1.0, 3.0], [2.0, 8.0]])
    >>> gr.std(x, axis=1).compute()
    array([1., 3.])
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce(
        "std", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced, elsewhere=KEYWORDS)
def moment(
    a: ArrayLike,
    order: int,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    ddof: float = 0,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Central moment: the sum of ``(a - mean)**order`` over ``n - ddof``, of real elements.

    Parameters
    ----------
    order : int
        Which moment, 0 or more. Order 0 is 1 and order 1 is 0. dask computes orders above 4, without `where`,
        `weights` and `min_count`.
    ddof : float, default 0
        Delta degrees of freedom: the divisor is the number of elements, or with `weights` their sum, less this.
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array.

    Returns
    -------
    dask.array.Array
        A moment for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, and that
        of the array for floats.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype is not real.
    ArgumentError
        `order` is no integer of 0 or more, or another argument has a value that the moment cannot take.

    See Also
    --------
    var : The moment of order 2, with a smaller error.
    skew : The third moment, standardised.
    kurtosis : The fourth moment, standardised.

    Notes
    -----
    Each chunk is read once and gives central sums of orders 2 to 4; these are merged by Pebay's formulas [1]_. Means
    are rounded to float64, so that the relative error of a merge is about ``2**-53 * mean / std``.

    References
    ----------
    .. [1] Pebay, P., Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
       moments, report SAND2008-6212, Sandia National Laboratories, 2008.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([0.0, 0.0, 3.0])
    >>> float(gr.moment(x, 3).compute())
    2.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return central_moment(
        a, order, also, axis=axis, dtype=dtype, keepdims=keepdims, ddof=ddof, split_every=split_every, out=out
    )


@public(reduced, elsewhere=KEYWORDS)
def skew(
    a: ArrayLike,
    axis: Axis = 0,
    bias: bool = True,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Standardised third moment ``m3 / m2**1.5`` of real elements, the skewness, as in ``scipy.stats``.

    Parameters
    ----------
    axis : int or tuple of int, default 0
        The axes to reduce; None is all of them. The default is that of ``scipy.stats``. A DataArray or a Dataset
        without `dim` is reduced over all dimensions all the same.
    bias : bool, default True
        False gives the unbiased estimate.
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array. The unbiased estimate makes
        sense for weights that are whole numbers.

    Returns
    -------
    dask.array.Array
        A skewness for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, and
        that of the array for floats. NaN where there are no elements, or where all are equal.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype is not real.
    ArgumentError
        Another argument has a value that the skewness cannot take.

    See Also
    --------
    kurtosis : The fourth moment, standardised.
    moment : Central moments, and their method.

    Notes
    -----
    From the central sums that :func:`moment` finds, whose Notes have the method and its error, and its
    References the source.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> round(float(gr.skew(da.asarray([0.0, 0.0, 3.0])).compute()), 6)
    0.707107
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce("skew", a, also, axis=axis, keepdims=keepdims, split_every=split_every, bias=bias)


@public(reduced, elsewhere=KEYWORDS)
def kurtosis(
    a: ArrayLike,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Standardised fourth moment ``m4 / m2**2`` of real elements, the kurtosis, as in ``scipy.stats``.

    Parameters
    ----------
    axis : int or tuple of int, default 0
        The axes to reduce; None is all of them. The default is that of ``scipy.stats``. A DataArray or a Dataset
        without `dim` is reduced over all dimensions all the same.
    fisher : bool, default True
        Subtract 3, so that the normal distribution has 0.
    bias : bool, default True
        False gives the unbiased estimate.
    weights : array_like, optional
        How often each element counts: real numbers that broadcast with the array. The unbiased estimate makes
        sense for weights that are whole numbers.

    Returns
    -------
    dask.array.Array
        A kurtosis for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, and
        that of the array for floats. NaN where there are no elements, or where all are equal.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype is not real.
    ArgumentError
        Another argument has a value that the kurtosis cannot take.

    See Also
    --------
    skew : The third moment, standardised.
    moment : Central moments, and their method.

    Notes
    -----
    From the central sums that :func:`moment` finds, whose Notes have the method and its error, and its
    References the source.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([-1.0, 1.0, -1.0, 1.0])
    >>> float(gr.kurtosis(x).compute()), float(gr.kurtosis(x, fisher=False).compute())
    (-2.0, 1.0)
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce("kurtosis", a, also, axis=axis, keepdims=keepdims, split_every=split_every, fisher=fisher, bias=bias)


@public(reduced)
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
    *,
    dim: Dims = None,
) -> Array:
    """Weighted mean ``sum(weights * a) / sum(weights)``.

    Parameters
    ----------
    weights : array_like, optional
        Of the shape of the array, where an axis of size 1 holds one weight for all elements along it; or of the sizes
        along `axis`, in that order. By default all weights are 1.
    returned : bool, default False
        Return the sums of the weights as well.

    Returns
    -------
    dask.array.Array or tuple of two dask.array.Array
        A mean for each index of the kept axes, in their chunks. The dtype is the one that the array and the weights
        have in common; where the array is of bool or integers, the one that both have in common with float64. With
        `returned` a pair: the means, and the sums of the weights in the same shape and dtype.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no mean, as that of dates.
    WeightError
        Weights sum to zero, which is found when the result is computed.
    ArgumentError
        The weights have neither the shape of the array nor its sizes along the axes.

    See Also
    --------
    mean : Its `weights` broadcast with the array, and it takes masks.

    Notes
    -----
    Products and weights are added as :func:`sum` adds elements, by the method of its References, from one read. Only
    the data can tell that weights sum to zero, so the task that finds the result on a GPU waits for it in order to
    look.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[1.0, 2.0, 6.0], [0.0, 1.0, 2.0]])
    >>> gr.average(x, axis=1, weights=[1, 1, 2]).compute()
    array([3.75, 1.25])
    """
    return weighted_mean(a, axis, weights, returned, keepdims)
