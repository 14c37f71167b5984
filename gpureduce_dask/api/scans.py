"""Public scans, with the names and signatures of dask.array, of NumPy and of the array API.

A scan keeps the shape of its array, and along an axis its chunks too, also where chunk sizes are unknown. With
``axis=None`` the result has one axis and holds the elements in C order, whatever the chunks: the array is neither
rechunked nor reshaped for that. Masked, sparse, long double and object arrays are handed to the dask function of that
name, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, message
from ..graph.arguments import as_dask
from ..graph.scan_apply import apply
from ..graph.statistics import field_names
from ..integrations import chunk_functions
from ..operators.monoid import Monoid
from ..parameters import Array, ArrayLike, DType, OneAxis, OneDim
from ..public import public, scanned
from ..steps.scan_strategy import cumsum_by
from ..steps.scan_strategy import functions_for as strategy_functions
from .summaries import named


@public(scanned)
def cumsum(
    x: ArrayLike,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    method: str = "sequential",
    strategy: str | None = None,
    *,
    dim: OneDim = None,
) -> Array:
    """Running sum of the elements.

    Parameters
    ----------
    strategy : str, optional
        For teaching: a textbook kernel such as ``"scan-03"`` that scans each CuPy chunk of an array of one dimension,
        in stock dask's tree. The command ``python -m gpureduce_dask ladder --list`` lists all of them.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`; without an axis, of one axis. The dtype is that of :func:`sum`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no sum, as that of dates and strings.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    sum : The sum of all elements.
    nancumsum : The running sum without NaN.
    cumulative_sum : The same by the array API.
    scan : Running results of any operator.

    Notes
    -----
    A prefix sum as Blelloch [1]_ describes them: sums of chunks come first, in groups; then the sum before each chunk;
    then each chunk is scanned from there, so that no chunk waits for the scan of another. On a GPU a chunk is scanned
    in a single pass over its memory: with the look-back of Merrill and Garland [2]_, or where lines lie side by side
    with threads that each scan some of them. Running sums have the accuracy of :func:`sum`: those of float32 are
    rounded once each, and those of float64, kept as pairs, do not drift. A sum of zeros is +0.0.

    Masked, sparse, long double and object arrays are handed to ``dask.array.cumsum``.

    References
    ----------
    .. [1] Blelloch, G. E., Prefix sums and their applications, report CMU-CS-90-190, Carnegie Mellon University, 1990.
    .. [2] Merrill, D., and Garland, M., Single-pass parallel prefix scan with decoupled look-back, report NVR-2016-002,
       NVIDIA, 2016.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[1, 2, 3], [4, 5, 6]])
    >>> gr.cumsum(x, axis=1).compute()
    array([[ 1,  3,  6],
           [ 4,  9, 15]])
    >>> gr.cumsum(x).compute()
    array([ 1,  3,  6, 10, 15, 21])
    """
    if strategy is not None:
        return cumsum_by(strategy, x, axis, dtype, out, method)
    return apply("sum", x, axis, dtype, out=out, name="cumsum", method=method)


@public(scanned)
def cumprod(
    x: ArrayLike,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    method: str = "sequential",
    *,
    dim: OneDim = None,
) -> Array:
    """Running product of the elements.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`; without an axis, of one axis. The dtype is that of :func:`prod`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no product, as that of times and strings.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    prod : The product of all elements.
    nancumprod : The running product without NaN.
    cumulative_prod : The same by the array API.

    Notes
    -----
    The graph is that of :func:`cumsum`, and the product that of :func:`prod`, with an exponent of its own. Their
    References have the methods.
    Masked, sparse, long double and object arrays are handed to ``dask.array.cumprod``.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.cumprod(da.asarray([1, 2, 3, 4])).compute()
    array([ 1,  2,  6, 24])
    """
    return apply("prod", x, axis, dtype, out=out, name="cumprod", method=method)


@public(scanned)
def nancumsum(
    x: ArrayLike,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    method: str = "sequential",
    *,
    dim: OneDim = None,
) -> Array:
    """Running sum of the elements that are not NaN.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`; without an axis, of one axis. The dtype is that of :func:`sum`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no sum, as that of dates and strings.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    cumsum : The running sum that NaN makes NaN from there on.
    nansum : The sum of all elements that are not NaN.

    Notes
    -----
    The graph and the accuracy are those of :func:`cumsum`, whose References have the method.
    Masked, sparse, long double and object arrays are handed to ``dask.array.nancumsum``.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> gr.nancumsum(da.asarray([1.0, np.nan, 3.0])).compute()
    array([1., 1., 4.])
    """
    return apply("nansum", x, axis, dtype, out=out, name="nancumsum", method=method)


@public(scanned)
def nancumprod(
    x: ArrayLike,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    method: str = "sequential",
    *,
    dim: OneDim = None,
) -> Array:
    """Running product of the elements that are not NaN.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`; without an axis, of one axis. The dtype is that of :func:`prod`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no product, as that of times and strings.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    cumprod : The running product that NaN makes NaN from there on.
    nanprod : The product of all elements that are not NaN.

    Notes
    -----
    The graph is that of :func:`cumsum`, and the product that of :func:`prod`. Their References have the methods.
    Masked, sparse, long double and object arrays are handed to ``dask.array.nancumprod``.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> gr.nancumprod(da.asarray([2.0, np.nan, 3.0])).compute()
    array([2., 2., 6.])
    """
    return apply("nanprod", x, axis, dtype, out=out, name="nancumprod", method=method)


@public(scanned)
def cummax(x: ArrayLike, axis: OneAxis = None, out: Array | None = None, *, dim: OneDim = None) -> Array:
    """Greatest element so far.

    Returns
    -------
    dask.array.Array
        An array of the shape, the chunks and the dtype of `x`; without an axis, of one axis. NaN or NaT from the first
        one on.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no order, as that of records and objects.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    cummin : The least element so far.
    max : The greatest of all elements.

    Notes
    -----
    As ``numpy.maximum.accumulate``, in the graph of :func:`cumsum`.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.cummax(da.asarray([3, 1, 4, 1, 5])).compute()
    array([3, 3, 4, 4, 5])
    """
    return apply("max", x, axis, out=out, name="cummax")


@public(scanned)
def cummin(x: ArrayLike, axis: OneAxis = None, out: Array | None = None, *, dim: OneDim = None) -> Array:
    """Least element so far.

    Returns
    -------
    dask.array.Array
        An array of the shape, the chunks and the dtype of `x`; without an axis, of one axis. NaN or NaT from the first
        one on.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no order, as that of records and objects.
    ArgumentError
        Another argument has a value that the scan cannot take.

    See Also
    --------
    cummax : The greatest element so far.
    min : The least of all elements.

    Notes
    -----
    As ``numpy.minimum.accumulate``, in the graph of :func:`cumsum`.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.cummin(da.asarray([3, 1, 4, 1, 5])).compute()
    array([3, 1, 1, 1, 1])
    """
    return apply("min", x, axis, out=out, name="cummin")


@public(scanned)
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    include_initial: bool = False,
    dim: OneDim = None,
) -> Array:
    """Running sum of the elements, as in the array API.

    Parameters
    ----------
    axis : int, optional
        The axis to scan along. It may be left out for an array of one dimension alone.
    include_initial : bool, default False
        Put a 0 before the sums. The first chunk is longer by one then.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`, but for the initial value. The dtype is that of :func:`sum`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no sum, as that of dates and strings.
    ArgumentError
        There is no axis and more than one dimension, or another argument has a value that the scan cannot take.

    See Also
    --------
    cumsum : The same by NumPy's older name, and its method.

    Notes
    -----
    Defined by the array API standard as ``cumulative_sum``. It is computed as :func:`cumsum` is.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.cumulative_sum(da.asarray([1, 2, 3]), include_initial=True).compute()
    array([0, 1, 3, 6])
    """
    return _api("sum", "cumulative_sum", x, axis, dtype, out, include_initial)


@public(scanned)
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: OneAxis = None,
    dtype: DType = None,
    out: Array | None = None,
    include_initial: bool = False,
    dim: OneDim = None,
) -> Array:
    """Running product of the elements, as in the array API.

    Parameters
    ----------
    axis : int, optional
        The axis to scan along. It may be left out for an array of one dimension alone.
    include_initial : bool, default False
        Put a 1 before the products. The first chunk is longer by one then.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`, but for the initial value. The dtype is that of :func:`prod`.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype has no product, as that of times and strings.
    ArgumentError
        There is no axis and more than one dimension, or another argument has a value that the scan cannot take.

    See Also
    --------
    cumprod : The same by NumPy's older name.

    Notes
    -----
    Defined by the array API standard as ``cumulative_prod``. It is computed as :func:`cumprod` is.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> gr.cumulative_prod(da.asarray([1, 2, 3]), include_initial=True).compute()
    array([1, 1, 2, 6])
    """
    return _api("prod", "cumulative_prod", x, axis, dtype, out, include_initial)


@public(scanned)
def ffill(x: ArrayLike, axis: OneAxis = -1, *, dim: OneDim = None) -> Array:
    """Replace NaN and NaT by the last element before them that is neither.

    Parameters
    ----------
    axis : int, default -1
        The axis to fill along. None is all elements in C order, and gives a result of one axis.

    Returns
    -------
    dask.array.Array
        An array of the shape, the chunks and the dtype of `x`. What has nothing before it stays NaN or NaT.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype is that of objects, strings or records.

    See Also
    --------
    bfill : The next element in place of the last.

    Notes
    -----
    A scan by the operator ``"last"``, in the graph of :func:`cumsum`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> gr.ffill(da.asarray([np.nan, 1.0, np.nan, 2.0])).compute()
    array([nan,  1.,  1.,  2.])
    """
    return apply("last", x, axis, name="ffill")


@public(scanned)
def bfill(x: ArrayLike, axis: OneAxis = -1, *, dim: OneDim = None) -> Array:
    """Replace NaN and NaT by the next element behind them that is neither.

    Parameters
    ----------
    axis : int, default -1
        The axis to fill along. None is all elements in C order, and gives a result of one axis.

    Returns
    -------
    dask.array.Array
        An array of the shape, the chunks and the dtype of `x`. What has nothing behind it stays NaN or NaT.

    Raises
    ------
    AxisError
        The axis does not exist.
    DtypeError
        The dtype is that of objects, strings or records.

    See Also
    --------
    ffill : The last element in place of the next.

    Notes
    -----
    A scan from the end by the operator ``"last"``, in the graph of :func:`cumsum`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> gr.bfill(da.asarray([1.0, np.nan, 2.0, np.nan])).compute()
    array([ 1.,  2.,  2., nan])
    """
    return apply("last", x, axis, reverse=True, name="bfill")


@public(scanned)
def scan(
    x: ArrayLike,
    monoid: str | Monoid | Sequence[str | Monoid],
    axis: OneAxis = None,
    dtype: DType = None,
    exclusive: bool = False,
    reverse: bool = False,
    segments: ArrayLike | None = None,
    include_initial: bool = False,
    out: Array | None = None,
    *,
    dim: OneDim = None,
) -> Any:
    """Running results of any operator: one of the table, or a monoid of your own.

    Parameters
    ----------
    x : array_like or tuple of two array_like
        A dask array, or what makes one, of any number of dimensions and of a dtype that the operator takes. For an
        operator of two arrays a tuple of two of one shape.
    monoid : str, Monoid, or sequence of these
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`. A list gives several scans.

    Returns
    -------
    dask.array.Array
        An array of the shape and the chunks of `x`, but for the initial value; without an axis, of one axis. The dtype
        is the one of the operator's results. For a list of operators a named tuple,
        :class:`~gpureduce_dask.api.summaries.Statistics`, with a field for each.

    Raises
    ------
    OperatorError
        No operator has that name.
    AxisError
        The axis does not exist.
    DtypeError
        The operator does not take the dtype.
    ArgumentError
        The operator has no result for no elements, as those of positions, and `exclusive` or `include_initial` asks for
        it; both of these are given; `segments` have no axis; or another argument has a value that the scan cannot take.

    See Also
    --------
    reduction : The result of all elements.
    cumsum : The running sum, and the method.
    grouped : Results of groups that need not lie side by side.

    Notes
    -----
    With `exclusive` or `include_initial` the first result is that of no elements. For ``"max"`` and ``"min"`` that is
    the least and the greatest number of the dtype, and for ``"first"`` and ``"last"`` NaN or NaT, or 0 of integers and
    bool.

    ``scan((a, b), "affine")`` solves the linear recurrence ``y[i] = a[i] * y[i - 1] + b[i]`` from ``y[-1] = 0``
    (Blelloch, Prefix sums and their applications, 1990, section 1.4.1).

    Scans that are computed together make each chunk of a lazy array once.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([1, 5, 2, 8])
    >>> gr.scan(x, "max", reverse=True).compute()
    array([8, 8, 8, 8])
    >>> gr.scan(x, "sum", exclusive=True).compute()
    array([0, 1, 6, 8])
    >>> gr.scan(x, "sum", axis=0, segments=[0, 0, 1, 1]).compute()
    array([ 1,  6,  2, 10])
    >>> gr.scan((da.full(3, 0.5), da.ones(3)), "affine").compute()
    array([1.  , 1.5 , 1.75])
    """
    if not isinstance(monoid, (str, Monoid)):
        return _scan_each(x, monoid, (axis, dtype, exclusive, reverse, segments, include_initial), out)
    return apply(monoid, x, axis, dtype, exclusive, reverse, segments, include_initial, out)


def _scan_each(x: Any, several: Sequence[str | Monoid], arguments: tuple[Any, ...], out: Any) -> Any:
    fields = field_names("scan", several)
    if out is not None:
        raise ArgumentError(message("scan", "out= for several operators", "no out=", "Scan by one operator at a time."))
    array = x if isinstance(x, tuple) else as_dask("scan", x)
    return named(fields, [apply(each, array, *arguments) for each in several])


@public()
def scan_tree(op: str | Monoid, dtype: Any, strategy: str | None = None) -> dict[str, Any]:
    """Keyword arguments that make stock dask's ``cumreduction`` run an operator.

    Parameters
    ----------
    op : str or Monoid
        ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, ``"any"``, ``"all"``, ``"count_nonzero"``, or one of the first four
        with ``"nan"`` before it. Stock dask combines results, not states, so these are the operators whose results
        combine as the elements do.
    dtype : dtype
        The dtype of the array that is to be scanned.
    strategy : str, optional
        For teaching: a textbook kernel that scans each chunk, as in :func:`cumsum`. For sums of one dimension alone.

    Returns
    -------
    dict
        The arguments ``func``, ``preop``, ``binop``, ``ident`` and ``dtype``.

    Raises
    ------
    OperatorError
        No operator has that name.
    ArgumentError
        The results of the operator do not combine as the elements do.
    DtypeError
        The operator does not take the dtype.

    See Also
    --------
    scan : Running results in this package's own graphs, by any operator.
    tree : The same for reductions.

    Notes
    -----
    Stock dask makes the graph. ``func`` scans a chunk, ``preop`` reduces one, and ``binop`` joins what stands before a
    chunk with its results. What goes from chunk to chunk are results, rounded to their dtype, and not states: the error
    of a running sum grows with the number of chunks, as it does in stock dask. That of :func:`cumsum` does not.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.array.reductions import cumreduction
    >>> import gpureduce_dask as gr
    >>> x = da.arange(5, chunks=2)
    >>> cumreduction(x=x, axis=0, method="blelloch", **gr.scan_tree("sum", x.dtype)).compute()
    array([ 0,  1,  3,  6, 10])
    """
    if strategy is not None:
        return strategy_functions(op, dtype, strategy)
    return chunk_functions.scan_functions(op, dtype)


def _api(op: str, name: str, x: Any, axis: Any, dtype: Any, out: Any, initial: bool) -> Any:
    if axis is None and getattr(x, "ndim", 1) > 1:
        remedy = f"Pass axis=, or call cum{op} for all elements in C order."
        raise ArgumentError(message(name, f"axis None for {x.ndim} dimensions", "an axis", remedy))
    return apply(op, x, axis, dtype, initial=initial, out=out, name=name)
