"""An operator as the functions that stock ``dask.array.reduction`` and ``cumreduction`` take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import chunk
from ..device import faults
from ..errors import ArgumentError, message
from ..graph import meta, reduce_tasks
from ..graph.arguments import Axes, bind, key_prefix
from ..graph.graph_arrays import core
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid


def reduction_functions(op: str | Monoid, dtype: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for ``dask.array.reduction``; ``dtype`` is the array's, or one for each of two arrays."""
    monoid = operators.get(op)
    given = tuple(map(np.dtype, dtype)) if isinstance(dtype, tuple) else (np.dtype(dtype),)
    bound = bind(monoid, given, None, options, f"tree by {monoid.name}")
    if bound.indexed:
        received = f"{monoid.name} of {given[0]}, which needs the position of every chunk"
        remedy = f"dask.array.reduction tells a chunk no position; call gpureduce_dask.reduction(x, {monoid.name!r})."
        raise ArgumentError(message("tree", received, "an operator without positions", remedy))
    return {
        "chunk": partial(reduce_chunk, bound=bound),
        "combine": partial(combine, bound=bound),
        "aggregate": partial(aggregate, bound=bound),
        "concatenate": False,
        "dtype": bound.result,
        "name": key_prefix(monoid.name),
    }


@faults.task
def reduce_chunk(*blocks: Any, bound: Bound, axis: Axes, keepdims: bool, computing_meta: bool = False) -> Any:
    """A chunk's partial. A monoid that does not commute takes the last axis alone: see ``_merge``."""
    if computing_meta:
        return blocks[0]
    axes = tuple(sorted(axis))
    axes = axes if bound.monoid.commutative else axes[-1:]
    return None if reduce_tasks.lacks_answer(blocks[0], bound, axes) else chunk.reduce(blocks, bound, axes)


@faults.task
def combine(partials: Any, bound: Bound, axis: Axes, keepdims: bool, computing_meta: bool = False) -> Any:
    """The partials of neighbouring chunks, lists nested by axis, to one."""
    return partials if computing_meta else _merge(partials, bound, tuple(sorted(axis)))


@faults.task
def aggregate(partials: Any, bound: Bound, axis: Axes, keepdims: bool, computing_meta: bool = False) -> Any:
    """The last partials to results."""
    if computing_meta:
        return meta.reduced(partials, axis, keepdims, bound.result)
    axes = tuple(sorted(axis))
    merged = _merge(partials, bound, axes)
    if not bound.monoid.commutative:
        merged = reduce_tasks.fold(merged, bound, axes[:-1])
    return reduce_tasks.result(merged, bound, None if keepdims else axes, chunk.is_device(merged))


def _merge(partials: Any, bound: Bound, axes: Axes) -> Any:
    """Nested lists of partials to one partial.

    A monoid that does not commute combines along the last axis; along the others its partials are joined end to
    end, because their rows stay apart until each is complete.
    """
    if bound.monoid.commutative:
        return reduce_tasks.merge([*core.flatten([partials])], bound)  # type: ignore[attr-defined, no-untyped-call]
    if not isinstance(partials, list):
        return partials
    if len(axes) == 1:
        return reduce_tasks.merge(partials, bound)
    rows = [row for row in (_merge(p, bound, axes[1:]) for p in partials) if row is not None]
    if not rows:
        return None
    joined = np.concatenate([chunk.to_host(r, bound) for r in rows], axis=axes[0])
    return chunk.to_device(joined, bound) if chunk.is_device(rows[0]) else joined


# How running results of these join what stands before them.
JOINS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "nansum": np.add,
    "prod": np.multiply,
    "nanprod": np.multiply,
    "count_nonzero": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "nanmin": np.fmin,
    "nanmax": np.fmax,
    "any": np.logical_or,
    "all": np.logical_and,
}


def scan_functions(op: str | Monoid, dtype: Any) -> dict[str, Any]:
    """Keyword arguments for ``cumreduction``; ``dtype`` is the array's."""
    monoid = operators.get(op)
    if monoid.name not in JOINS or operators.OPERATORS.get(monoid.name) != monoid:
        received = f"{monoid.name}, whose results do not combine as its elements do"
        remedy = f"Call gpureduce_dask.scan(x, {monoid.name!r}), which joins states."
        raise ArgumentError(message("scan_tree", received, f"one of {', '.join(JOINS)}", remedy))
    bound = bind(monoid, (np.dtype(dtype),), None, {}, f"scan_tree by {monoid.name}")
    if bound.indexed:
        remedy = "Call gpureduce_dask.scan instead."
        raise ArgumentError(message("scan_tree", f"{monoid.name} of {dtype}", "a real dtype", remedy))
    return {
        "func": Running(bound),
        "preop": ChunkResult(bound),
        "binop": JOINS[monoid.name],
        "ident": chunk.finalise(bound.identities(()), bound)[()],
        "dtype": bound.result,
    }


@dataclass(frozen=True)
class Running:
    """A chunk's running results along an axis."""

    bound: Bound

    @property
    def __name__(self) -> str:
        return key_prefix(f"scan-{self.bound.name}")  # dask names keys after it

    @faults.task
    def __call__(self, block: Any, axis: int = 0, dtype: Any = None) -> Any:
        return chunk.scan((block,), self.bound, axis)[0]


@dataclass(frozen=True)
class ChunkResult:
    """A chunk's result along an axis. Equal where the operators are, as partial functions are not."""

    bound: Bound

    @faults.task
    def __call__(self, block: Any, axis: int, keepdims: bool = True) -> Any:
        return chunk.results((block,), self.bound, (axis,))
