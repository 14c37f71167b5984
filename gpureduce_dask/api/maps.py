"""Reductions and scans of functions of arrays, with no array of what the functions give.

The function is traced: called twice on stand-ins that write down what NumPy's functions and Python's operators do to
them. What it gives is computed where it is reduced: on NumPy chunks a block at a time, in cache, and in registers on a
GPU, rounded to the dtypes that NumPy rounds to. A reduction's kernel reads up to four arrays, a scan's two; of more,
CuPy first makes as little as leaves so many, a chunk at a time.

A function that cannot be traced (it looks at the shape, calls a reduction or what else is no NumPy function of
elements) is called on the whole arrays, dask's as they are, and what it gives is reduced. It has to give arrays of the
shape that its arguments have together, and may not look at values, which are not there yet: the error says what stopped
the trace. It cannot write to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph import map_reduce as trees
from ..graph.statistics import field_names
from ..operators.monoid import Monoid
from ..public import public, reduced, scanned
from .summaries import named


@public(reduced)
def map_reduce(
    f: Callable[..., Any],
    op: str | Monoid | Sequence[str | Monoid],
    *arrays: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    where: Any = None,
    weights: Any = None,
    dim: Any = None,
    **options: Any,
) -> Any:
    """Reduce ``f(*arrays)`` by an operator, reading each array once: ``map_reduce(lambda u, v: u * v, "sum", u, v)``.

    Parameters
    ----------
    f : callable
        A function of elements, as many as there are arrays. Python's operators, NumPy's ufuncs, ``np.where``,
        ``np.clip``, ``np.real``, ``astype`` and the like. For an operator of two arrays it returns two results; for
        any other, several results in a tuple are reduced each for itself, from one read.
    op : str or Monoid, or a list of them
        A name of the table, or a monoid of one's own. A list gives several statistics from one read, as ``stats``.
    arrays
        Dask arrays, or what makes them, of shapes that broadcast and of any chunks. One that is passed twice is read
        once.
    where : array of bool, optional
        Which elements count; it broadcasts with the arrays. Where none does, the result is that of nothing, which is
        the dtype's greatest and least number for ``min`` and ``max``; positions and ``ptp`` raise EmptyError.
    weights : array, optional
        How often each element counts, or what it is multiplied by: as for the reductions of those names, with which
        ``op`` is by name. It broadcasts with the arrays.
    axis, dtype, keepdims, split_every, out
        As for every reduction. ``options`` are the operator's, as ``ddof``.

    Returns
    -------
    dask array, or tuples of them
        What ``op`` gives of ``f(*arrays)``, of NumPy's dtypes, within the accuracy of the reduction. With a list of
        operators, a named tuple with a field each. Where ``f`` returns several results, a tuple of that for each.

    Raises
    ------
    ArgumentError
        Shapes that do not broadcast, unknown chunk sizes that differ, more or fewer results than ``op`` takes,
        weights with an operator that has no meaning for them, or a function that can neither be traced nor called on
        the whole arrays: for one of chunks, reduce ``x.map_blocks(f)``.
    DtypeError
        A dtype that ``op`` does not take, or a mask that is not of bool.
    """
    places = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    beside = {"where": where, "weights": weights}
    found = trees.map_reduce(f, op, arrays, dtype=dtype, out=out, **places, **beside, **options)
    return found if isinstance(op, str | Monoid) else _each(op, found)


@public(scanned)
def map_scan(
    f: Callable[..., Any],
    op: str | Monoid | Sequence[str | Monoid],
    *arrays: Any,
    axis: Any = None,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    segments: Any = None,
    include_initial: bool = False,
    out: Any = None,
    dim: Any = None,
) -> Any:
    """Running results of ``f(*arrays)``: :func:`map_reduce`'s function and arrays, and the arguments of ``scan``.

    A list of operators gives a named tuple of scans, and a function of several results a tuple with one for each.
    Chunks that have yet to be made are made once for all that are computed together.
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
