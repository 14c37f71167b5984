"""Reductions and scans of functions of arrays, without an array of the functions' values.

The function is traced: it is called twice on stand-ins that record what NumPy's functions and Python's operators do to
them. Its values are then computed where they are reduced: on NumPy chunks a block at a time, in cache, and on a GPU in
registers, rounded to the dtypes that NumPy rounds to. The kernel of a reduction reads up to four arrays, and that of a
scan two. Where there are more, CuPy first combines some of them, a chunk at a time, until so many are left.

A function that cannot be traced (because it looks at the shape, or calls a reduction or anything else that is no NumPy
function of elements) is called on the whole dask arrays, and the array that it returns is reduced. That array has to
have the shape to which the arguments broadcast. Such a function cannot look at values, which are not computed yet: the
error says what stopped the trace. It cannot write to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph import map_reduce as trees
from ..graph.statistics import field_names
from ..operators.monoid import Monoid
from ..parameters import Array, ArrayLike, Axis, Dims, DType, OneAxis, OneDim, SplitEvery
from ..public import public, reduced, scanned
from .summaries import named


@public(reduced)
def map_reduce(
    f: Callable[..., Any],
    op: str | Monoid | Sequence[str | Monoid],
    *arrays: ArrayLike,
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    out: Array | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    dim: Dims = None,
    **options: Any,
) -> Any:
    """Reduce ``f(*arrays)`` by an operator, reading each array once.

    Parameters
    ----------
    f : callable
        A function of the elements of all arrays, made of Python's operators, NumPy's ufuncs, ``np.where``, ``np.clip``,
        ``np.real``, ``astype`` and the like. For an operator of two arrays it returns two results. For any other,
        each of several results in a tuple is reduced by itself, all from one read.
    op : str, Monoid, or sequence of these
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`. A list gives several statistics from one read, as
        in :func:`stats`.
    *arrays : array_like
        Dask arrays, or what makes them, of any chunks and of shapes that broadcast. An array that is passed twice is
        read once.
    where : array_like of bool, optional
        Which elements count. It broadcasts with the arrays. By default all do. Where none counts, the result is the one
        of an empty array: the dtype's greatest or least number for ``"min"`` and ``"max"``, and an EmptyError for
        positions and ``"ptp"``.
    weights : array_like, optional
        The weight of each element: real numbers that broadcast with the arrays. Sums multiply by it; means, variances
        and moments count an element as often as its weight says. A monoid of your own takes none.
    **options
        Arguments of the operator, such as ``ddof=1`` for ``"std"``. A list of operators takes `ddof` alone.

    Returns
    -------
    dask.array.Array, or tuple of these
        What the operator gives of an array of the values of `f`, of the dtype that it has in NumPy. For a list of
        operators a named tuple, :class:`~gpureduce_dask.api.summaries.Statistics`, with a field for each. Where `f`
        returns several results, a tuple with one of these for each.

    Raises
    ------
    OperatorError
        No operator has that name.
    ArgumentError
        Shapes do not broadcast, or chunk sizes are unknown and differ; `f` returns more or fewer results than the
        operator takes; the operator takes no `weights`; or `f` can neither be traced nor be called on the whole arrays.
        A function of chunks goes into ``x.map_blocks(f)``, which can be reduced.
    ArgumentTypeError
        `f` is not callable.
    DtypeError
        The operator does not take the dtype of the values, or `where` is not of bool.

    See Also
    --------
    map_scan : Running results of a function.
    stats : Several statistics of an array itself.

    Notes
    -----
    The function is traced, that is called on stand-ins that record what is done to them, and its values are computed
    where they are reduced: no array of them exists.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> u, v = da.asarray([3.0, 0.0]), da.asarray([4.0, 2.0])
    >>> float(gr.map_reduce(lambda u, v: np.sqrt(u * u + v * v), "mean", u, v).compute())
    3.5
    >>> found = gr.map_reduce(lambda u: u**2, ["min", "max"], u)
    >>> float(found.min.compute()), float(found.max.compute())
    (0.0, 9.0)
    """
    found = trees.map_reduce(
        f,
        op,
        arrays,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        split_every=split_every,
        out=out,
        where=where,
        weights=weights,
        **options,
    )
    return found if isinstance(op, str | Monoid) else _each(op, found)


@public(scanned)
def map_scan(
    f: Callable[..., Any],
    op: str | Monoid | Sequence[str | Monoid],
    *arrays: ArrayLike,
    axis: OneAxis = None,
    dtype: DType = None,
    exclusive: bool = False,
    reverse: bool = False,
    segments: ArrayLike | None = None,
    include_initial: bool = False,
    out: Array | None = None,
    dim: OneDim = None,
) -> Any:
    """Running results of ``f(*arrays)`` by an operator, without an array of its values.

    Parameters
    ----------
    f : callable
        A function of the elements of all arrays, as in :func:`map_reduce`.
    op : str, Monoid, or sequence of these
        A name in ``gpureduce_dask.OPERATORS``, or a :class:`Monoid`. A list gives several scans.
    *arrays : array_like
        Dask arrays, or what makes them, of any chunks and of shapes that broadcast.

    Returns
    -------
    dask.array.Array, or tuple of these
        Arrays of the shape to which the arrays broadcast. For a list of operators a named tuple,
        :class:`~gpureduce_dask.api.summaries.Statistics`, with a field for each. Where `f` returns several results, a
        tuple with one of these for each.

    Raises
    ------
    OperatorError
        No operator has that name.
    AxisError
        The axis does not exist.
    ArgumentError
        As in :func:`map_reduce` and :func:`scan`.
    ArgumentTypeError
        `f` is not callable.
    DtypeError
        The operator does not take the dtype of the values.

    See Also
    --------
    map_reduce : Results of all elements.
    scan : Running results of an array itself.

    Notes
    -----
    Chunks that have yet to be made are made once for all scans that are computed together.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([1, 2, 3])
    >>> gr.map_scan(lambda x: x * x, "sum", x).compute()
    array([ 1,  5, 14])
    """
    if not isinstance(op, str | Monoid):
        field_names("map_scan", op)
    places = {"axis": axis, "exclusive": exclusive, "reverse": reverse, "segments": segments}
    found = trees.map_scan(f, op, arrays, out, dtype=dtype, initial=include_initial, **places)
    return found if isinstance(op, str | Monoid) else _each(op, found)


def _each(op: Sequence[str | Monoid], found: Sequence[Sequence[Any]]) -> Any:
    """A named tuple for each result of a function."""
    each = [named(op, values) for values in found]
    return tuple(each) if len(each) > 1 else each[0]
