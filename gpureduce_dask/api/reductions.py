"""Public reductions, with dask.array's names and signatures.

Every reduction builds a lazy array: errors are raised when the graph is built unless only the data can tell, and name
the function that was called. Masked, sparse, long double, object and string arrays are handed unchanged to the dask
function of that name, where it has an answer for them.

Masks, weights and starting values are read together with the elements. None of them makes an array of their size.
"""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, message
from ..graph.reduce import apply_many
from ..integrations.chunk_functions import reduction_functions
from ..operators.monoid import Monoid
from ..parameters import Array, ArrayLike, Axis, Dims, DType, SplitEvery
from ..public import public, reduced
from ..steps.strategy import functions_for as strategy_functions
from ..steps.strategy import sum_by
from . import options
from .options import TAKERS, reduce

# Keywords that some reductions lack, and the public functions that take them.
KEYWORDS = {
    keyword: sorted({"norm" if name.startswith("norm") else name for name in names})
    for keyword, names in TAKERS.items()
}


@public(reduced, elsewhere=KEYWORDS)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    strategy: str | None = None,
    *,
    where: ArrayLike | None = None,
    initial: Any = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Sum of the elements.

    Parameters
    ----------
    strategy : str, optional
        For teaching: a textbook kernel such as ``"reduce-08"`` that sums each chunk, in the dtype of the result and in
        stock dask's tree. It sums over all axes, and takes no masks, weights or starting values. The command
        ``python -m gpureduce_dask ladder --list`` lists all of them.

    Returns
    -------
    dask.array.Array
        A sum for each index of the kept axes, in their chunks; 0 where there are no elements. The dtype is int64 for
        bool and signed integers, uint64 for unsigned integers, and that of the array for all others.

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
    nansum : The sum without NaN.
    sumsq : The sum of squares.
    cumsum : The running sum.

    Notes
    -----
    Integers are added in 64 bits and wrap, as in NumPy. float16, bfloat16 and float32 are added in float64, and rounded
    once. float64 is added in pairs of float64 by TwoSum [1]_: on GPUs element by element; on NumPy chunks stretches of
    bounded length are added plainly, and their sums in pairs. So the error does not grow with the number of elements.
    The parts of complex numbers are added in the same way. The sum of times with a NaT is NaT.

    References
    ----------
    .. [1] Knuth, D. E., The Art of Computer Programming, volume 2, section 4.2.2.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.arange(12, chunks=5).reshape(3, 4)
    >>> gr.sum(x, axis=0).compute()
    array([12, 15, 18, 21])
    >>> gr.sum(x, axis=1, where=x % 2 == 0, initial=100).compute()
    array([102, 110, 118])
    """
    also = {"where": where, "initial": initial, "weights": weights, "min_count": min_count}
    if strategy is not None and (given := [f"{key}=" for key, value in also.items() if value is not None]):
        received = f"strategy= with {', '.join(given)}"
        raise ArgumentError(message("sum", received, "one of them", "Leave out strategy=."))
    if strategy is not None:
        return sum_by(strategy, a, axis, dtype, keepdims, split_every, out)
    return reduce("sum", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def prod(
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
    """Product of the elements.

    Returns
    -------
    dask.array.Array
        A product for each index of the kept axes, in their chunks; 1 where there are no elements. The dtype is int64
        for bool and signed integers, uint64 for unsigned integers, and that of the array for all others.

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
    nanprod : The product without NaN.
    cumprod : The running product.

    Notes
    -----
    Integers are multiplied in 64 bits and wrap, as in NumPy. Floats and complex numbers are multiplied in float64, with
    an exponent of its own for each product, as LINPACK keeps determinants [1]_: it overflows and underflows only where
    the result does, whatever the partial products are.

    References
    ----------
    .. [1] Dongarra, J. J., Bunch, J. R., Moler, C. B., and Stewart, G. W., LINPACK Users' Guide, SIAM, 1979.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.prod(da.asarray([[1e300, 1e300], [1e-300, 1e-300]]), axis=0).compute()
    array([1., 1.])
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("prod", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def min(
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
    """Least element.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array, and needs `initial` or `min_count`, which say what the
        result is where no element counts. By default all count.

    Returns
    -------
    dask.array.Array
        The least element for each index of the kept axes, in their chunks, of the dtype of the array. NaN or NaT where
        there is one.

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
    nanmin : The least element that is not NaN.
    argmin : Its position.
    cummin : The least element so far.

    Notes
    -----
    Complex numbers are ordered by their real parts, then by their imaginary parts, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3, 1, 2], [0, 5, 4]])
    >>> gr.min(x, axis=1).compute()
    array([1, 0])
    >>> gr.min(x, axis=1, where=x > 2, initial=9).compute()
    array([3, 4])
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("min", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def max(
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
    """Greatest element.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array, and needs `initial` or `min_count`, which say what the
        result is where no element counts. By default all count.

    Returns
    -------
    dask.array.Array
        The greatest element for each index of the kept axes, in their chunks, of the dtype of the array. NaN or NaT
        where there is one.

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
    nanmax : The greatest element that is not NaN.
    argmax : Its position.
    cummax : The greatest element so far.

    Notes
    -----
    Complex numbers are ordered by their real parts, then by their imaginary parts, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3, 1, 2], [0, 5, 4]])
    >>> gr.max(x, axis=0, keepdims=True).compute()
    array([[3, 5, 4]])
    """
    also = {"where": where, "initial": initial, "min_count": min_count}
    return reduce("max", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def any(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Test whether any element is not zero.

    Returns
    -------
    dask.array.Array
        A bool for each index of the kept axes, in their chunks; False where there are no elements. NaN and NaT are not
        zero.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        `where` is not of bool.
    ArgumentError
        Another argument has a value that the test cannot take.

    See Also
    --------
    all : Whether all elements are not zero.
    count_nonzero : How many are not zero.

    Notes
    -----
    Each chunk gives one bool for each result, and these are joined by *or*. All chunks are read, those too that come
    after an element that is not zero. The result is the same whatever the chunks.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[0, 1], [0, 0]])
    >>> gr.any(x, axis=1).compute()
    array([ True, False])
    """
    also = {"where": where}
    return reduce("any", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def all(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Test whether no element is zero.

    Returns
    -------
    dask.array.Array
        A bool for each index of the kept axes, in their chunks; True where there are no elements. NaN and NaT are not
        zero.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        `where` is not of bool.
    ArgumentError
        Another argument has a value that the test cannot take.

    See Also
    --------
    any : Whether any element is not zero.
    count_nonzero : How many are not zero.

    Notes
    -----
    Each chunk gives one bool for each result, and these are joined by *and*. All chunks are read, those too that come
    after an element that is zero. The result is the same whatever the chunks.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[0, 1], [2, 3]])
    >>> gr.all(x, axis=1).compute()
    array([False,  True])
    """
    also = {"where": where}
    return reduce("all", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def count_nonzero(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Count the elements that are not zero.

    Returns
    -------
    dask.array.Array
        A number for each index of the kept axes, in their chunks, as int64. NaN and NaT are not zero.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        `where` is not of bool.
    ArgumentError
        Another argument has a value that the count cannot take.

    See Also
    --------
    any : Whether any element is not zero.
    bincount : How often each integer occurs.

    Notes
    -----
    Each chunk gives its number of elements that are not zero, as int64, and these numbers are added. The result is the
    same whatever the chunks.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[0, 1, 7], [0, 0, 2]])
    >>> gr.count_nonzero(x, axis=1).compute()
    array([2, 1])
    """
    also = {"where": where}
    return reduce("count_nonzero", a, also, axis=axis, keepdims=keepdims, split_every=split_every)


@public(reduced, elsewhere=KEYWORDS)
def ptp(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Greatest element less the least one ("peak to peak").

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. By default all do. Where none counts, computing the result
        raises EmptyError.

    Returns
    -------
    dask.array.Array
        A difference for each index of the kept axes, in their chunks. The dtype is that of the array, but timedelta64
        for datetime64. NaN or NaT where there is one.

    Raises
    ------
    EmptyError
        There are no elements.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no differences of its own kind, as bool.
    ArgumentError
        Another argument has a value that the difference cannot take.

    See Also
    --------
    min : The least element.
    max : The greatest element.

    Notes
    -----
    Both ends are found in one read. A difference of integers wraps where it leaves their dtype, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3, 1, 2], [0, 5, 4]])
    >>> gr.ptp(x, axis=1).compute()
    array([2, 5])
    """
    also = {"where": where, "min_count": min_count}
    return reduce("ptp", a, also, axis=axis, keepdims=keepdims, split_every=split_every)


@public(reduced, elsewhere=KEYWORDS)
def argmin(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Position of the least element.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Positions are still those among all elements. By default all
        count. Where none does, computing the result raises EmptyError.

    Returns
    -------
    dask.array.Array
        A position for each index of the kept axes, in their chunks, as int64. Of equal elements it is that of the
        first, and where there is a NaN or NaT, that of the first of these.

    Raises
    ------
    EmptyError
        There are no elements.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Chunk sizes are unknown along a reduced axis of several chunks, or another argument has a value that the
        position cannot take.

    See Also
    --------
    argmax : Position of the greatest element.
    nanargmin : Position of the least element that is not NaN.
    min : The least element itself.

    Notes
    -----
    Positions count in C order over the reduced axes of the whole array, whatever its chunks: ``numpy.unravel_index``
    turns them into indices.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3, 1, 2], [0, 5, 4]])
    >>> gr.argmin(x, axis=1).compute()
    array([1, 0])
    >>> int(gr.argmin(x).compute())
    3
    """
    also = {"where": where}
    return reduce("argmin", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def argmax(
    a: ArrayLike,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    *,
    where: ArrayLike | None = None,
    dim: Dims = None,
) -> Array:
    """Position of the greatest element.

    Parameters
    ----------
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Positions are still those among all elements. By default all
        count. Where none does, computing the result raises EmptyError.

    Returns
    -------
    dask.array.Array
        A position for each index of the kept axes, in their chunks, as int64. Of equal elements it is that of the
        first, and where there is a NaN or NaT, that of the first of these.

    Raises
    ------
    EmptyError
        There are no elements.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no order, as that of records.
    ArgumentError
        Chunk sizes are unknown along a reduced axis of several chunks, or another argument has a value that the
        position cannot take.

    See Also
    --------
    argmin : Position of the least element.
    nanargmax : Position of the greatest element that is not NaN.
    max : The greatest element itself.

    Notes
    -----
    Positions count in C order over the reduced axes of the whole array, whatever its chunks: ``numpy.unravel_index``
    turns them into indices.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3, 1, 2], [0, 5, 4]])
    >>> np.unravel_index(gr.argmax(x).compute(), x.shape)
    (np.int64(1), np.int64(1))
    """
    also = {"where": where}
    return reduce("argmax", a, also, axis=axis, keepdims=keepdims, split_every=split_every, out=out)


@public(reduced, elsewhere=KEYWORDS)
def sumsq(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Sum of the squared magnitudes ``abs(a)**2``.

    Returns
    -------
    dask.array.Array
        A sum for each index of the kept axes, in their chunks; 0 where there are no elements. The dtype is int64 for
        bool and signed integers, uint64 for unsigned integers, the real dtype for complex numbers, and that of the
        array for other floats.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no squares, as that of times.
    ArgumentError
        Another argument has a value that the sum cannot take.

    See Also
    --------
    sum : The sum of the elements.
    norm : With ``ord=2``, the root of this sum.

    Notes
    -----
    Squares are added as :func:`sum` adds elements: integers in 64 bits, where squares may wrap too, and floats in
    float64 or in pairs of float64, by the method that :func:`sum` refers to. No array of squares is made.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.sumsq(da.asarray([[3 + 4j, 1], [0, 2j]]), axis=1).compute()
    array([26.,  4.])
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return reduce("sumsq", a, also, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every)


@public(reduced, elsewhere=KEYWORDS)
def norm(
    a: ArrayLike,
    ord: Any = None,
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Norm of vectors or matrices, as in ``numpy.options.norm``.

    Parameters
    ----------
    ord : float or {"fro", "nuc"}, optional
        Which norm. Of vectors 2 (Euclidean, the default), 1 (the sum of magnitudes), inf and -inf (the greatest and the
        least magnitude), 0 (how many elements are not zero), or another power. Of matrices ``"fro"`` (Frobenius, the
        default), 1 and -1 (the greatest and the least sum of the magnitudes of a column), inf and -inf (of a row). Of
        an array that is a single matrix also 2, -2 and ``"nuc"``, which dask makes of singular values.
    axis : int or tuple of int, optional
        One axis, for norms of vectors, or two, for norms of matrices, whose rows are numbered along the first. By
        default all elements are one vector, where `ord` is left out too; else an array of one dimension is a vector,
        and one of two dimensions a matrix.
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Not for `ord` of -inf, nor for matrices but ``"fro"``.
    weights : array_like, optional
        What the magnitudes are multiplied by, or the squared ones for the Euclidean and the Frobenius norm: numbers
        that are not negative, and broadcast with the array. For ``"fro"``, and `ord` 1, 2 and inf of vectors.
    min_count : int, optional
        How many elements that count and are not NaN a norm needs. Where there are fewer it is NaN. For ``"fro"``, and
        `ord` 1, 2 and inf of vectors.

    Returns
    -------
    dask.array.Array
        A norm for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, the real
        dtype for complex numbers, and that of the array for other floats.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no norm, as that of times.
    ArgumentError
        There is no such norm, there are more axes than those of a matrix, or the norm does not take `where`, `weights`
        or `min_count`.

    See Also
    --------
    vector_norm : The norm of all elements along any number of axes as one vector.
    sumsq : The square of the Euclidean norm.

    Notes
    -----
    Sums of magnitudes and squares are accumulated in float64, or in pairs of float64 where elements have 64 bits, as in
    :func:`sum`, whose References have the method. Other powers are computed in float64. Elements are not scaled: the
    Euclidean norm overflows where the sum of squares leaves the range of float64, as in NumPy.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3.0, 4.0], [6.0, 8.0]])
    >>> gr.norm(x, axis=1).compute()
    array([ 5., 10.])
    >>> float(gr.norm(x, ord=1).compute())
    12.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return options.norm(a, ord, axis, keepdims, split_every, also)


@public(reduced, elsewhere=KEYWORDS)
def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    ord: float = 2,
    split_every: SplitEvery = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_count: int | None = None,
    dim: Dims = None,
) -> Array:
    """Norm of all elements along the axes as one vector, as in the array API.

    Parameters
    ----------
    ord : float, default 2
        Which norm: 2 (Euclidean), 1 (the sum of magnitudes), inf and -inf (the greatest and the least magnitude), 0
        (how many elements are not zero), or another power.
    where : array_like of bool, optional
        Which elements count. It broadcasts with the array. Not for `ord` of -inf.
    weights : array_like, optional
        What the magnitudes, or the squared ones for `ord` 2, are multiplied by: numbers that are not negative, and
        broadcast with the array. For `ord` 1, 2 and inf.
    min_count : int, optional
        How many elements that count and are not NaN a norm needs. Where there are fewer it is NaN. For `ord` 1, 2 and
        inf.

    Returns
    -------
    dask.array.Array
        A norm for each index of the kept axes, in their chunks. The dtype is float64 for bool and integers, the real
        dtype for complex numbers, and that of the array for other floats.

    Raises
    ------
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        The dtype has no norm, as that of times.
    ArgumentError
        There is no such norm, or it does not take `where`, `weights` or `min_count`.

    See Also
    --------
    norm : Norms of matrices too.

    Notes
    -----
    Defined by the array API standard as ``options.vector_norm``. It is computed as :func:`norm` says.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3.0, 4.0], [6.0, 8.0]])
    >>> float(gr.vector_norm(x, ord=1).compute())
    21.0
    """
    also = {"where": where, "weights": weights, "min_count": min_count}
    return options.vector_norm("vector_norm", x, ord, axis, keepdims, split_every, also)


@public(reduced)
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Dot product ``sum(conj(a) * b)`` over all elements.

    Parameters
    ----------
    a : array_like or xarray.DataArray
        A dask array, or what ``dask.array.asanyarray`` turns into one, of any number of dimensions; bool, integers,
        floats or complex numbers. For a DataArray the result is one too.
    b : array_like or xarray.DataArray
        An array of the same shape; or of another shape and as many elements, which are then taken in C order.

    Returns
    -------
    dask.array.Array
        The product, of no dimensions. The dtype is that of :func:`sum` for the dtype that the arrays have in common.

    Raises
    ------
    ArgumentError
        The arrays have not as many elements.
    DtypeError
        One of the dtypes has no product, as that of times.

    See Also
    --------
    norm : The root of the dot product of an array with itself.
    map_reduce : Sums of other functions of two arrays, along axes.

    Notes
    -----
    Both arrays are read once, and no array of products is made. Products are added as :func:`sum` adds elements,
    by the method of its References.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> complex(gr.vdot(da.asarray([1j, 2]), da.asarray([1j, 3])).compute())
    (7+0j)
    """
    return options.dot(a, b)


@public(reduced)
def reduction(
    x: ArrayLike,
    monoid: str | Monoid,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    group: int | None = None,
    *,
    dim: Dims = None,
) -> Array:
    """Reduce by any operator: one of the table, or a monoid of your own.

    Parameters
    ----------
    x : array_like or tuple of two array_like
        A dask array, or what makes one, of any number of dimensions and of a dtype that the operator takes. For an
        operator of two arrays a tuple of two of one shape.
    monoid : str or Monoid
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`.
    group : int, optional
        How many chunks one task reduces. By default what dask's configuration key ``gpureduce.group`` or else
        `split_every` says; where neither does, as many as keep all threads busy.

    Returns
    -------
    dask.array.Array
        A result for each index of the kept axes, in their chunks, of the operator's result dtype.

    Raises
    ------
    OperatorError
        No operator has that name.
    EmptyError
        There are no elements, and the operator has no answer for none.
    DtypeError
        The operator does not take the dtype.
    AxisError
        An axis does not exist, or is named twice.
    ArgumentError
        Another argument has a value that the reduction cannot take.

    See Also
    --------
    scan : Running results of an operator.
    stats : Several operators from one read.
    grouped : An operator for each group of elements.

    Notes
    -----
    An operator that does not commute combines the elements in C order, whatever the chunks.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3.0, float("nan")], [float("nan"), 4.0]])
    >>> gr.reduction(x, "first", axis=0).compute()
    array([3., 4.])
    >>> grades, credits = da.asarray([1.0, 2.0]), da.asarray([3, 1])
    >>> float(gr.reduction((grades, credits), "average").compute())
    1.25
    """
    return apply_many(
        monoid, x, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, group=group
    )


@public()
def tree(op: str | Monoid, dtype: Any, strategy: str | None = None, **options: Any) -> dict[str, Any]:
    """Keyword arguments that make stock ``dask.array.reduction`` run an operator.

    Parameters
    ----------
    op : str or Monoid
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`.
    dtype : dtype or tuple of dtype
        The dtype of the array that is to be reduced. For an operator of two arrays a tuple of two; the second array
        then goes to ``dask.array.reduction`` as ``weights=``.
    strategy : str, optional
        For teaching: a textbook kernel that sums each chunk, as in :func:`sum`. Over all axes, and for sums alone.
    **options
        Arguments of the operator, such as ``ddof=1`` for ``"std"``.

    Returns
    -------
    dict
        Among others the functions ``chunk``, ``combine`` and ``aggregate``, and the ``dtype`` of the result. A textbook
        kernel has no ``combine``.

    Raises
    ------
    OperatorError
        No operator has that name.
    ArgumentError
        The operator needs positions, as ``"argmin"`` does: ``dask.array.reduction`` does not tell a chunk its own.
        Or it does not take one of the options.
    DtypeError
        The operator does not take the dtype.

    See Also
    --------
    reduction : Reduce by an operator in this package's own graphs, which need fewer tasks.
    scan_tree : The same for scans.

    Notes
    -----
    Stock dask makes the graph: a task for each chunk, then a tree whose tasks combine as many partial results as
    ``split_every`` says. ``chunk`` gives a chunk's states, ``combine`` joins states, and ``aggregate`` joins the last
    of them and makes results. So values have the accuracy of this package's own function for the operator. An operator
    that does not commute is reduced along the last of the axes first, so that elements meet in C order.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.arange(6.0, chunks=2).reshape(2, 3)
    >>> da.reduction(x, **gr.tree("std", x.dtype, ddof=1), axis=1).compute()
    array([1., 1.])
    """
    if strategy is not None:
        return strategy_functions(op, dtype, strategy, options=options)
    return reduction_functions(op, dtype, options)
