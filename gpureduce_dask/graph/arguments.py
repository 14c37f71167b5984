"""What a call and dask's configuration say about a reduction: arrays, operator, axes, fan-in, sizes of groups. Checked
when the graph is built."""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Iterable, Sequence
from numbers import Number, Real
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..chunk import is_device
from ..configuration import is_at_least, setting
from ..dtypes import require_native
from ..errors import ArgumentError, ArgumentTypeError, AxisError, EmptyError, message
from ..operators.monoid import Bound, Monoid
from ..public import is_labelled, xarray
from . import graph_arrays as da

Axes = tuple[int, ...]
Chunks = tuple[tuple[float, ...], ...]  # nan where a size is unknown


def key_prefix(name: str) -> str:
    """What the keys of a call's tasks begin with: words of letters, for dask's dashboard and its progress bars name a
    task by the first of these alone. They take a word of eight letters for a token where it begins as one may."""
    words = re.findall(r"[^\W\d_]+", name)
    return "-".join(["gr", *(w.capitalize() if len(w) == 8 and w[0] in "abcdef" else w for w in words)])


def normalise_axes(name: str, axis: Any, ndim: int) -> Axes:
    """``axis`` as a sorted tuple of axes in ``range(ndim)``; None means all of them."""
    return tuple(sorted(ordered_axes(name, axis, ndim)))


def ordered_axes(name: str, axis: Any, ndim: int) -> Axes:
    """As :func:`normalise_axes`, in the order given."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else (axis,)
    axes = tuple(_one_axis(name, a, ndim) for a in given)
    if len(set(axes)) < len(axes):
        raise AxisError(message(name, f"axis {axis!r} names one axis twice", "distinct axes", "Name each axis once."))
    return axes


def _one_axis(name: str, axis: Any, ndim: int) -> int:
    try:
        number = ndim if isinstance(axis, bool) else operator.index(axis)  # True is no axis in NumPy, either
    except TypeError:
        number = ndim
    if not -ndim <= number < ndim:
        expected = f"None or integers from {-ndim} to {ndim - 1}" if ndim else "None or () for a 0-d array"
        raise AxisError(message(name, f"axis {axis!r} of an array of {ndim} dimensions", expected, "Correct the axis."))
    return number % ndim


def tree_arguments(
    name: str, bound: Bound, x: Any, axis: Any, split_every: Any, group: Any
) -> tuple[Axes, int | dict[int, int], int | None]:
    """The axes of a reduction, how many partials one combine takes, and how many chunks one task, where the call or
    dask's configuration says that."""
    axes = normalise_axes(name, axis, x.ndim)
    empty = [a for a in axes if x.shape[a] == 0]
    if empty and bound.monoid.empty == "raise":
        raise empty_slice(name, f"shape {x.shape}, empty along axis {empty[0]}")
    split, size = _fan_in(name, bound, split_every, axes, x.chunks), group_size(name, group)
    if size is None and (split_every is not None or dask.config.get("split_every", None) is not None):
        size = planner.neighbours(split, axes, x.numblocks)
    return axes, split, size


def _fan_in(name: str, bound: Bound, split_every: Any, axes: Axes, chunks: Chunks) -> int | dict[int, int]:
    """How many partials one combine takes: one number for all axes together, or one for each reduced axis."""
    if split_every is None:
        split_every = dask.config.get("split_every", None)
    if split_every is None:
        first = planner.stages(bound.monoid.commutative, tuple(map(len, chunks)), axes)[0]
        return planner.fan_in(planner.bytes_of_largest(chunks, first, bound.cell_bytes))
    expected = "None, an integer of 2 or more, or a dict of axis to such integers"
    remedy = "A combine takes at least two partials, or it never ends."

    def number(n: Any) -> int:
        return _at_least(2, n, name, f"split_every {n!r}", expected, remedy)

    if not isinstance(split_every, dict):
        return number(split_every)
    given = {_one_axis(name, a, len(chunks)): number(n) for a, n in split_every.items()}
    split = {a: given.get(a, 2) for a in axes}
    return split[axes[0]] if len(axes) == 1 else split  # one tree, and one name, however it is said


def group_size(name: str, group: Any) -> int | None:
    """How many chunks one task takes, or None where nobody says: an argument, or dask's ``gpureduce.group``."""
    group = setting("group") if group is None else group
    expected, remedy = "None or an integer of 1 or more", "Pass how many chunks a task takes."
    return None if group is None else _at_least(1, group, name, f"group {group!r}", expected, remedy)


def _at_least(least: int, number: Any, name: str, received: str, expected: str, remedy: str) -> int:
    if not is_at_least(least, number):
        raise ArgumentError(message(name, received, expected, remedy))
    return int(number)


def empty_slice(name: str, received: str) -> EmptyError:
    """The error for a slice that has no element, hence no answer."""
    expected = "at least one element in each slice (it has no identity)"
    return EmptyError(message(name, received, expected, "Drop the empty axes first."))


# ---- arrays and operators


def as_dask(name: str, x: Any) -> Any:
    """A dask array as it is; NumPy and CuPy arrays, lists, numbers and what pandas has as a dask array of one chunk."""
    if isinstance(x, da.Array):
        return x
    if is_device(x):
        # ``da.from_array`` would copy it, and its token would copy it to the host: hence a name at random.
        key = f"gr-array-{uuid4().hex}"
        graph = HighLevelGraph.from_collections(key, {(key, *(0 for _ in x.shape)): x}, dependencies=[])
        return da.Array(graph, key, chunks=tuple((n,) for n in x.shape), meta=x)
    if is_labelled(x) or isinstance(x, xarray("Variable") or ()):
        return as_dask(name, x.data)
    _require_array(name, x)
    if type(x).__module__.partition(".")[0] == "pandas" or isinstance(x, np.matrix):
        x = np.asarray(x)  # dask would keep these as they are, and they have axes of their own
    try:
        return da.asanyarray(x)
    except ValueError as error:
        received = str(error).rstrip(".")
        raise ArgumentError(message(name, received, "rows of one length", "Make an array of it first.")) from error


def _require_array(name: str, x: Any) -> None:
    """Raise for what NumPy would take for a single object, and for what is lazy in another way than dask's arrays."""
    kind = type(x)
    if hasattr(kind, "__dask_graph__") and not hasattr(kind, "to_dask_array"):
        received = f"{kind.__module__.partition('.')[0]}'s {kind.__name__}"
        remedy = "Make one of it, as dask.array.from_delayed does."
        raise ArgumentTypeError(message(name, received, "an array of dask.array", remedy))
    is_array = any(hasattr(kind, each) for each in ("dtype", "__array__", "__array_interface__", "to_dask_array"))
    if is_array or isinstance(x, Sequence | Number | np.generic):
        return
    try:
        is_one = np.asarray(x).dtype == object
    except ValueError:  # not even that, as what iterates over arrays
        is_one = True
    if is_one:
        remedy = "Pass list(...) of it." if isinstance(x, Iterable) else "Make an array of it."
        raise ArgumentTypeError(message(name, f"type {kind.__name__}", "an array, a list or a number", remedy))


def operands(name: str, monoid: Monoid, x: Any) -> tuple[Any, ...]:
    """What a monoid reads, as dask arrays: one array, or a tuple of as many as its arity."""
    if monoid.arity == 1:
        return (as_dask(name, x),)
    if not isinstance(x, tuple) or len(x) != monoid.arity:
        received = f"a tuple of {len(x)}" if isinstance(x, tuple) else type(x).__name__
        remedy = "Pass as many arrays as the arity."
        raise ArgumentError(message(name, received, f"a tuple of {monoid.arity} arrays", remedy))
    return tuple(as_dask(name, each) for each in x)


def bind(monoid: Monoid, given: tuple[Any, ...], dtype: Any, options: dict[str, Any], name: str) -> Bound:
    """A monoid bound to the arrays' dtypes in native byte order, its options checked."""
    for each in (*given, *(() if dtype is None else (np.dtype(dtype),))):
        require_native(name, each)
    check_options(monoid, options, name)
    if options:
        monoid = monoid.with_options(**options)
    return monoid.bind(*(d.newbyteorder("=") for d in given), dtype=dtype)


def check_options(monoid: Monoid, options: dict[str, Any], name: str) -> None:
    """Raise for options that the monoid's ``finalise`` does not take."""
    if not options:
        return
    if not isinstance(options.get("ddof", 0), Real):
        raise ArgumentError(message(name, f"ddof {options['ddof']!r}", "a real number", "Pass 0 or 1, as a rule."))
    parameters = list(inspect.signature(monoid.finalise).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters[2:]]
    unknown = sorted(set(options) - set(known))
    if unknown:
        expected = " or ".join(known) or "no option"
        raise ArgumentError(message(name, f"option {', '.join(unknown)}", expected, "Leave it out."))


def align(name: str, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays of one shape, cut into the same chunks."""
    for other in arrays[1:]:
        if not agree(arrays[0].shape, other.shape):
            received = f"arrays of shapes {arrays[0].shape} and {other.shape}"
            raise ArgumentError(message(name, received, "one shape", "Broadcast or reshape one of them."))
    return broadcast(name, arrays)


def agree(shape: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True where two shapes are one, as far as their sizes are known."""
    return len(shape) == len(other) and all(m == n or math.isnan(m + n) for m, n in zip(shape, other, strict=True))


def broadcast(name: str, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays broadcast to one shape, in chunks of one size. Those that grow are views, chunk by chunk."""
    if len({a.chunks for a in arrays}) == 1:
        return arrays
    if any(np.isnan(a.shape).any() for a in arrays):
        if len({a.numblocks for a in arrays}) > 1:
            remedy = "Call compute_chunk_sizes() first."
            raise ArgumentError(message(name, "unknown chunk sizes", "the same chunks in all", remedy))
        return arrays
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        received = f"arrays of shapes {' and '.join(str(a.shape) for a in arrays)}"
        raise ArgumentError(message(name, received, "shapes that broadcast", "Reshape one of them.")) from None
    inds = [tuple(range(len(shape) - a.ndim, len(shape))) for a in arrays]
    _, unified = da.core.unify_chunks(*(v for pair in zip(arrays, inds, strict=True) for v in pair))
    # Along each axis, counted from the last, those of the first array that is of full size there.
    along = [(axis - len(shape), size) for axis, size in enumerate(shape)]
    chunks = tuple(next(a.chunks[i] for a in unified if a.ndim >= -i and a.shape[i] == n) for i, n in along)
    return tuple(a if a.chunks == chunks else da.broadcast_to(a, shape, chunks=chunks) for a in unified)
