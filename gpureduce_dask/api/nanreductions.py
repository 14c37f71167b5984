"""Public reductions that skip NaN, with the names and signatures of NumPy's.

NaT is as in NumPy: ``nanmin`` and ``nanmax`` skip it. For the others it is not a NaN, and those that take times give
the same as ``sum``, ``mean``, ``argmin`` and ``argmax``.
"""

from __future__ import annotations

from typing import Any

from ..parameters import Array, ArrayLike, Axis, Dims, DType, SplitEvery
from ..public import public, reduced
from .options import reduce
from .reductions import KEYWORDS


@public(reduced, elsewhere=KEYWORDS)
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    initial: Any = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Sum of the elements that are not NaN.

    Returns
    -------
    dask.array.Array
        A sum for each index of the kept axes, in their chunks; 0 where there are no elements but NaN. The dtype is that
        of :func:`sum`.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no sum, as that of dates and strings.
    ArgumentError
        Another argument has a value that the sum cannot take.

    See Also
    --------
    sum : The sum that NaN makes NaN.
    nanmean : The mean without NaN.

    Notes
    -----
    Elements are added as in :func:`sum`, whose References have the method, from one read. A complex number is NaN where
    one of its parts is. NaT is not skipped: a sum of times with a NaT is NaT, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[1.0, np.nan], [np.nan, np.nan]])
    >>> gr.nansum(x, axis=1).compute()
    array([1., 0.])
    >>> gr.nansum(x, axis=1, min_count=1).compute()
    array([ 1., nan])
    """
    also = {"where": where, "initial": initial, "weights": weights, "min_count": min_count}
    return reduce("nansum", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    initial: Any = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Product of the elements that are not NaN.

    Returns
    -------
    dask.array.Array
        A product for each index of the kept axes, in their chunks; 1 where there are no elements but NaN. The dtype is
        that of :func:`prod`.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no product, as that of times and strings.
    ArgumentError
        Another argument has a value that the product cannot take.

    See Also
    --------
    prod : The product that NaN makes NaN.

    Notes
    -----
    Elements are multiplied as in :func:`prod`, whose References have the method, from one read.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanprod(da.asarray([2.0, np.nan, 4.0])).compute())
    8.0
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("nanprod", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    initial: Any = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Least element that is neither NaN nor NaT.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array, and needs `initial` or `min_count`, which say what the
        result is where no element counts. By default all count.

    Returns
    -------
    dask.array.Array
        The least element for each index of the kept axes, in their chunks, of the dtype of the array. Where all are
        NaN the result is NaN, with a RuntimeWarning.

    Raises
    ------
    EmptyError
        There are no elements, and no `initial`.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Another argument has a value that the minimum cannot take.

    See Also
    --------
    min : The least element; NaN where there is one.
    nanargmin : Its position.

    Notes
    -----
    Each chunk gives its least element that is not NaN, or NaN where there is none, and these are joined as by
    ``numpy.fmin``: the result is the same whatever the chunks. Complex numbers are ordered by their real parts, then by
    their imaginary parts, as in NumPy, and one is NaN where one of its parts is.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanmin(da.asarray([2.0, np.nan, 4.0])).compute())
    2.0
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("nanmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    initial: Any = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Greatest element that is neither NaN nor NaT.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array, and needs `initial` or `min_count`, which say what the
        result is where no element counts. By default all count.

    Returns
    -------
    dask.array.Array
        The greatest element for each index of the kept axes, in their chunks, of the dtype of the array. Where all are
        NaN the result is NaN, with a RuntimeWarning.

    Raises
    ------
    EmptyError
        There are no elements, and no `initial`.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Another argument has a value that the maximum cannot take.

    See Also
    --------
    max : The greatest element; NaN where there is one.
    nanargmax : Its position.

    Notes
    -----
    Each chunk gives its greatest element that is not NaN, or NaN where there is none, and these are joined as by
    ``numpy.fmax``: the result is the same whatever the chunks. Complex numbers are ordered by their real parts, then by
    their imaginary parts, as in NumPy, and one is NaN where one of its parts is.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanmax(da.asarray([2.0, np.nan, 4.0])).compute())
    4.0
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("nanmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanmean(
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
    """Mean of the elements that are not NaN.

    Returns
    -------
    dask.array.Array
        A mean for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, and that of
        the array for all others. Where there are no elements but NaN the result is NaN, with a RuntimeWarning.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no mean, as that of dates; or `dtype` is one of integers for what may be NaN.
    ArgumentError
        Another argument has a value that the mean cannot take, as a `dtype` together with `weights`.

    See Also
    --------
    mean : The mean that NaN makes NaN.

    Notes
    -----
    The sum and the number of elements are found in one read, and the sum as in :func:`sum`, whose References have
    the method. NaT is not skipped, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanmean(da.asarray([2.0, np.nan, 4.0])).compute())
    3.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce("nanmean", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanvar(
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
    """Variance of the elements that are not NaN.

    Parameters
    ----------
    ddof : float, default 0
        Delta degrees of freedom: the divisor is the number of elements that are not NaN (or, with `weights`, the sum of
        their weights) less this.

    Returns
    -------
    dask.array.Array
        A variance for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, the
        real dtype for complex numbers, and that of the array for other floats. Where the divisor is not positive the
        result is NaN, with a RuntimeWarning.

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
    var : The variance that NaN makes NaN, and its method.
    nanstd : The square root.

    Notes
    -----
    The method is that of :func:`var`, whose Notes have its error, and its References the source. NaN is left out as a
    chunk is read, and no array without it is made.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanvar(da.asarray([2.0, np.nan, 4.0])).compute())
    1.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce(
        "nanvar", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced, elsewhere=KEYWORDS)
def nanstd(
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
    """Standard deviation of the elements that are not NaN: the square root of :func:`nanvar`.

    Parameters
    ----------
    ddof : float, default 0
        Delta degrees of freedom: the divisor is the number of elements that are not NaN (or, with `weights`, the sum of
        their weights) less this.

    Returns
    -------
    dask.array.Array
        A deviation for each index of the kept axes, in their chunks, of the dtype of :func:`nanvar`. Where the divisor
        is not positive the result is NaN, with a RuntimeWarning.

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
    std : The deviation that NaN makes NaN.
    nanvar : The square.

    Notes
    -----
    The root of the variance that :func:`nanvar` finds, by the method that :func:`var` refers to.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> float(gr.nanstd(da.asarray([2.0, np.nan, 6.0])).compute())
    2.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce(
        "nanstd", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, ddof=ddof
    )


@public(reduced, elsewhere=KEYWORDS)
def nanargmin(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Position of the least element that is not NaN.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Positions are still those among all elements. By default all
        count.

    Returns
    -------
    dask.array.Array
        A position for each index of the kept axes, in their chunks, as int64. Of equal elements it is that of the
        first.

    Raises
    ------
    EmptyError
        There are no elements; or, when the result is computed, none that counts and is not NaN.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Chunk sizes are unknown along a reduced axis of several chunks, or another argument has a value that the
        position cannot take.

    See Also
    --------
    argmin : The position of the first NaN, where there is one.
    nanmin : The least element itself.

    Notes
    -----
    Positions count in C order over the reduced axes of the whole array, whatever its chunks. Only the data can tell
    that all elements are NaN, so the task that finds the result on a GPU waits for it in order to look. NaT is not
    skipped, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> int(gr.nanargmin(da.asarray([np.nan, 4.0, 2.0])).compute())
    2
    """
    also = {"where": where}
    return reduce("nanargmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def nanargmax(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Position of the greatest element that is not NaN.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Positions are still those among all elements. By default all
        count.

    Returns
    -------
    dask.array.Array
        A position for each index of the kept axes, in their chunks, as int64. Of equal elements it is that of the
        first.

    Raises
    ------
    EmptyError
        There are no elements; or, when the result is computed, none that counts and is not NaN.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Chunk sizes are unknown along a reduced axis of several chunks, or another argument has a value that the
        position cannot take.

    See Also
    --------
    argmax : The position of the first NaN, where there is one.
    nanmax : The greatest element itself.

    Notes
    -----
    Positions count in C order over the reduced axes of the whole array, whatever its chunks. Only the data can tell
    that all elements are NaN, so the task that finds the result on a GPU waits for it in order to look. NaT is not
    skipped, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> int(gr.nanargmax(da.asarray([np.nan, 4.0, 2.0])).compute())
    1
    """
    also = {"where": where}
    return reduce("nanargmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)
