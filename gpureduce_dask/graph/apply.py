"""From what a caller passes to a tree: coerce, check, bind, and hand to stock dask what belongs there."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from numbers import Number, Real
from typing import Any
from uuid import uuid4

import numpy as np
from dask.highlevelgraph import HighLevelGraph

from ..chunk import is_device
from ..distributed.private import write_to
from ..errors import ArgumentError, ArgumentTypeError, message
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid
from ..public import is_labelled, xarray
from . import array_expressions  # noqa: F401  # by which public functions are called
from . import graph_arrays as da
from .meta import belongs_to_stock, call, foreign, require_native
from .reduce import build_tree


def apply(
    op: str | Monoid,
    *inputs: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    name: str | None = None,
    group: int | None = None,
    **options: Any,
) -> Any:
    """Reduce array-likes by an operator; ``name`` is the public function's where it is not the operator's.

    ``group`` is how many chunks one task takes; stock dask knows no such thing. ``options`` go to the operator's
    ``finalise``.
    """
    monoid = operators.get(op)
    name = name or monoid.name
    arrays = tuple(as_dask(name, x) for x in inputs)
    places = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    if belongs_to_stock(monoid.name, arrays, dtype):
        if isinstance(op, Monoid):
            raise foreign(name, arrays)
        return call(name, arrays, dtype=dtype, out=out, **places, **options)
    if op == "ptp" and arrays[0].dtype.kind == "c":  # whose ends are found by position: two states, not one
        high, low = (apply(end, *arrays, **places, group=group, name=name) for end in ("max", "min"))
        return write_to(out, high - low)
    bound = bind(monoid, tuple(a.dtype for a in arrays), dtype, options, name)
    result = build_tree(align(name, arrays), bound, axis, keepdims, split_every, name, group).array
    return write_to(out, result)


def apply_many(op: str | Monoid, x: Any, **arguments: Any) -> Any:
    """:func:`apply` with all inputs in one argument: an array, or a tuple of them for a monoid of arity 2."""
    monoid = operators.get(op)
    return apply(op, *operands(monoid.name, monoid, x), **arguments)


def as_dask(name: str, x: Any) -> Any:
    """A dask array as it is; NumPy and CuPy arrays, lists, numbers and what pandas has as a dask array of one chunk."""
    if isinstance(x, da.Array):
        return x
    if is_device(x):
        return _one_chunk(x)
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


def _one_chunk(x: Any) -> Any:
    """A device array as the only chunk of a dask array. ``da.from_array`` would copy it, and its token would copy it
    to the host: hence a name at random."""
    key = f"gr-array-{uuid4().hex}"
    graph = HighLevelGraph.from_collections(key, {(key, *(0 for _ in x.shape)): x}, dependencies=[])
    return da.Array(graph, key, chunks=tuple((n,) for n in x.shape), meta=x)


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
    chunks = tuple(_chunks_along(axis - len(shape), size, unified) for axis, size in enumerate(shape))
    return tuple(a if a.chunks == chunks else da.broadcast_to(a, shape, chunks=chunks) for a in unified)


def _chunks_along(axis: int, size: int, arrays: Sequence[Any]) -> tuple[int, ...]:
    """The chunks of the first array that is of full size along an axis, counted from the last."""
    found: tuple[int, ...] = next(a.chunks[axis] for a in arrays if a.ndim >= -axis and a.shape[axis] == size)
    return found
