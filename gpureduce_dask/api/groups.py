"""Public reductions of groups of elements: :func:`grouped`, :func:`bincount` and :func:`histogram`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DtypeError, message
from ..graph import groups
from ..graph.arguments import as_dask
from ..operators.monoid import Monoid
from ..parameters import Array, ArrayLike, Axis, Dims, DType, SplitEvery
from ..public import grouped as grouped_labels
from ..public import public


@public(grouped_labels)
def grouped(
    x: ArrayLike,
    labels: ArrayLike,
    op: str | Monoid = "sum",
    axis: Axis = None,
    num_groups: int | Sequence[int] | None = None,
    dtype: DType = None,
    fill_value: Any = None,
    split_every: SplitEvery = None,
    *,
    dim: Dims = None,
    **options: Any,
) -> Array:
    """Reduce the elements of each group, from one read of the array.

    Parameters
    ----------
    x : array_like, xarray.DataArray, xarray.Dataset or tuple of two array_like
        A dask array, or what makes one, of any number of dimensions and of a dtype that the operator takes. For an
        operator of two arrays, such as ``"average"``, a tuple of two of one shape (values and weights).
    labels : array_like of int, or tuple of array_like of int
        The group of each element, from 0 on; it broadcasts to the reduced axes. Elements with a negative label are left
        out. A tuple has an array of one dimension for each reduced axis; then all combinations of their labels are
        groups, numbered in C order.
    op : str or Monoid, default "sum"
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`.
    num_groups : int, or tuple of int for a tuple of labels, optional
        How many groups there are. By default one more than the largest label. Labels that are a dask array need it.
    fill_value : scalar, optional
        The result of groups without elements, for operators that have no answer for these, such as ``"min"``. By
        default such a group raises EmptyError. Other operators give what they give for no elements, such as 0 or NaN.
    dim : str or iterable of str, optional
        The dimensions of a DataArray to reduce, in place of `axis`. By default all of them.
    **options
        Arguments of the operator, such as ``ddof=1`` for ``"std"``.

    Returns
    -------
    dask.array.Array
        An array of the kept axes, in their chunks, and of one more axis behind them, with a result for each group. The
        dtype is the one of the operator's results. Of a DataArray the last dimension has the name of `labels`, where
        these are a DataArray with a name, else ``"group"``. Of a Dataset a Dataset of such arrays; variables with none
        of the reduced dimensions stay as they are.

    Raises
    ------
    OperatorError
        No operator has that name.
    EmptyError
        A group has no elements, the operator has no answer for that, and there is no `fill_value`.
    AxisError
        An axis does not exist, or is named twice.
    DtypeError
        Labels are not integers, or the operator does not take the dtype of the array.
    ArgumentError
        A label is `num_groups` or more. It is raised at once where labels are NumPy arrays, else when they are
        computed. Or another argument has a value that the reduction cannot take.

    See Also
    --------
    reduction : One result of all elements.
    bincount : How often each label occurs.
    scan : With `segments`, running results that start anew.

    Notes
    -----
    Positions (``"argmax"``) count in C order over the reduced axes of the whole array, as in :func:`argmax`. An
    operator that does not commute combines the elements of a group in C order. ``numpy.unique(keys,
    return_inverse=True)`` makes labels of any keys.

    On a GPU, where there are a dozen groups or more, most sums, means, norms and variances are exact: numbers are added
    as integers in the accumulators that Kulisch [1]_ describes, in any order, and are rounded once. Where groups are
    very many, or the operator keeps an order, positions are first sorted by label, by a radix sort [2]_. All else is
    reduced by the method of the operator's own function.

    References
    ----------
    .. [1] Kulisch, U., Computer Arithmetic and Validity: Theory, Implementation, and Applications, de Gruyter, 2008.
    .. [2] Satish, N., Harris, M., and Garland, M., Designing efficient sorting algorithms for manycore GPUs, IEEE
       International Symposium on Parallel and Distributed Processing, 2009.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[1, 2, 3], [10, 20, 30]])
    >>> gr.grouped(x, [0, 1, 0], axis=1).compute()
    array([[ 4,  2],
           [40, 20]])
    >>> gr.grouped(x, [0, -1, 2], "max", axis=1, fill_value=-1).compute()
    array([[ 1, -1,  3],
           [10, -1, 30]])
    """
    return groups.grouped("grouped", op, x, labels, axis, num_groups, dtype, fill_value, split_every, **options)


@public()
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, split_every: SplitEvery = None
) -> Array:
    """Count how often each integer from 0 on occurs.

    Parameters
    ----------
    x : array_like of int, or xarray.DataArray
        Integers of 0 or more, along one dimension. The result has no labels.
    weights : array_like, optional
        A real number for each element, to be added in place of 1.
    minlength : int, default 0
        The length of the result of a dask array, which has to be greater than all elements. The result of other arrays
        is as long as their greatest element needs, if that is more.

    Returns
    -------
    dask.array.Array
        Counts (int64), or sums of weights (float64), of one dimension and in one chunk.

    Raises
    ------
    ArgumentError
        An element is negative, or is `minlength` or more: raised when it is met. Or `x` has not one dimension.
    DtypeError
        The elements are not integers, or the weights are not real.
    ArgumentTypeError
        `minlength` is not an integer.

    See Also
    --------
    histogram : Counts of elements in intervals.
    grouped : Other reductions of groups.

    Notes
    -----
    Counts are integers, and exact. Sums of weights are those of :func:`grouped`, whose References have the method.
    Where `minlength` is 0 only the data could tell the length of the result of a dask array:
    ``dask.array.bincount`` answers then, and the result has an unknown shape.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([0, 3, 3, 1])
    >>> gr.bincount(x, minlength=5).compute()
    array([1, 1, 0, 2, 0])
    >>> gr.bincount(x, weights=[0.5, 1, 1, 1], minlength=4).compute()
    array([0.5, 1. , 0. , 2. ])
    """
    return groups.bincount(x, weights, minlength, split_every)


@public()
def histogram(
    a: ArrayLike,
    bins: Any = None,
    range: Any = None,
    normed: bool = False,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Any]:
    """Count the elements in each of several bins, by the rules of NumPy.

    Parameters
    ----------
    a : array_like or xarray.DataArray
        A dask array, or what ``dask.array.asanyarray`` turns into one, of any number of dimensions; bool, integers, or
        floats of at most 64 bits. The result has no labels.
    bins : int or array_like
        How many bins of equal width there are in `range`, or their edges, in increasing order.
    range : tuple of two float, optional
        The first and the last edge, which a number of bins needs.
    normed : bool, default False
        An argument of dask's function. Only False is possible: NumPy has `density` in its place.
    weights : array_like, optional
        A number for each element, of the shape of the array, to be added in place of 1.
    density : bool, optional
        Divide by the total and by the bins' widths, so that the integral is 1.

    Returns
    -------
    counts : dask.array.Array
        A count for each bin, of int64; sums of weights have the dtype of these, and densities that of a quotient.
    edges : numpy.ndarray
        The edges of the bins, one more than there are bins. A dask array, where `bins` or `range` is one.

    Raises
    ------
    ArgumentError
        Edges do not increase, a number of bins has no `range`, or the weights are of another shape.
    DtypeError
        The elements are not real numbers of at most 64 bits.

    See Also
    --------
    bincount : Counts of integers.
    grouped : Other reductions of groups.

    Notes
    -----
    The rules are those of ``numpy.histogram``. Of bins of one width that of an element is found by a division, and put
    right by the edges on either side; other edges are searched by halves, or elements are sorted first. Weights are
    added as in :func:`grouped`, whose References have the method.

    A bin holds its left edge, and the last one its right edge too. NaN and elements outside all bins are not counted.
    Where `bins` or `range` are known only when they are computed, ``dask.array.histogram`` answers.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> counts, edges = gr.histogram(da.asarray([0.5, 1.0, 2.5, 3.0]), bins=3, range=(0, 3))
    >>> counts.compute(), edges
    (array([1, 1, 2]), array([0., 1., 2., 3.]))
    """
    x = as_dask("histogram", a)
    if x.dtype.kind in "SUmM":  # of which NumPy makes no edges, and says so of its own types
        expected, remedy = "bool, integer or float", "Convert the array with astype."
        raise DtypeError(message("histogram", f"dtype {x.dtype}", expected, remedy))
    return groups.histogram(x, bins, range, normed, weights, density)
