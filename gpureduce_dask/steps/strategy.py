"""A step of the ladder as the chunk function of a sum: of ``gr.sum(x, strategy=...)`` and of stock ``da.reduction``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from .. import chunk
from ..device import faults
from ..errors import ArgumentError, DtypeError, message
from ..graph import meta
from ..graph.arguments import as_dask, bind, normalise_axes
from ..graph.reduce import apply
from ..history import Step, get
from ..integrations.chunk_functions import reduction_functions as stock_recipe
from ..operators import table as operators
from . import runs
from .host import pairwise

Axes = tuple[int, ...]
HOST = "reduce-00"
LIBRARY = "reduce-20"
NOTHING: Mapping[str, Any] = MappingProxyType({})


def sum_by(strategy: str, a: Any, axis: Any, dtype: Any, keepdims: bool, split_every: Any, out: Any) -> Any:
    """The sum of all elements, each chunk's by a step of the ladder, in stock dask's tree."""
    import dask.array as da

    step = _sum_step(strategy)
    if step.label == LIBRARY:
        return apply("sum", a, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out)
    a = as_dask("sum", a)
    if len(normalise_axes("sum", axis, a.ndim)) < a.ndim:
        raise ArgumentError(
            message("sum", f"axis {axis!r} with strategy={strategy!r}", "all axes together", "Leave out axis=.")
        )
    check_side(step, meta.is_ours(a._meta), meta.promises_device(a._meta))
    arguments = functions_for("sum", a.dtype, strategy, dtype)
    return da.reduction(a, keepdims=keepdims, split_every=split_every, out=out, **arguments)


def functions_for(
    op: Any, dtype: Any, strategy: str, result: Any = None, options: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Keyword arguments for ``dask.array.reduction`` over all axes; ``result`` is the dtype to sum in."""
    step, monoid = _sum_step(strategy), operators.get(op)
    if monoid.name != "sum":
        raise ArgumentError(message("tree", f"{monoid.name} with strategy={strategy!r}", "sum", "Leave out strategy=."))
    if step.label == LIBRARY:
        return stock_recipe(op, dtype, dict(options))
    target = summed_in(step, dtype, result, options)
    return {
        "chunk": partial(sum_chunk, label=step.label, target=target),
        "aggregate": partial(sum_partials, target=target),
        "dtype": target,
        "name": f"gr-sum-{step.label}",
    }


def summed_in(step: Step, dtype: Any, result: Any, options: Mapping[str, Any] = NOTHING) -> Any:
    """The dtype that a step sums in: NumPy's for the array's dtype, or the one asked for."""
    target = bind(operators.get("sum"), (np.dtype(dtype),), result, dict(options), "sum").result
    if target not in runs.TYPES:
        known = "sums in float32, float64 or integers of 32 or 64 bits"
        raise DtypeError(message(step.label, f"a sum in {target}", known, "Pass dtype=, or leave out strategy=."))
    return target


@faults.task
def sum_chunk(block: Any, label: str, target: Any, axis: Axes, keepdims: bool, computing_meta: bool = False) -> Any:
    """The sum of a chunk, of size 1 along every axis."""
    if computing_meta:
        return block
    if len(axis) != block.ndim:
        raise ArgumentError(message(label, f"axis {axis} of {block.ndim}", "all axes together", "Leave out axis=."))
    step = get(label)
    check_side(step, True, chunk.is_device(block))
    # A step sums in the dtype that it reads: NumPy's rule is that integers are summed in 64 bits.
    block = block.astype(target, copy=False)
    if block.size == 0:
        return block.sum(keepdims=True, dtype=target)
    total = runs.run(step, block) if step.kernel else pairwise(block)
    return total.reshape((1,) * block.ndim)


@faults.task
def sum_partials(partials: Any, target: Any, axis: Axes, keepdims: bool, computing_meta: bool = False) -> Any:
    """Sums of chunks, joined to one array, to the sum of all."""
    if computing_meta:
        return meta.reduced(partials, axis, keepdims, target)
    return partials.sum(axis=axis, keepdims=keepdims, dtype=target)


def _sum_step(strategy: str) -> Step:
    step = get(strategy)
    if step.family != "reduce":
        raise ArgumentError(
            message("sum", f"strategy={strategy!r}", f"a step from {HOST} to {LIBRARY}", "Leave it out for the best.")
        )
    return step


def check_side(step: Step, ours: bool, device: bool) -> None:
    """Steps with a kernel take CuPy chunks, the one without takes NumPy chunks. Nothing is copied from side to side."""
    if ours and device == bool(step.kernel):
        return
    received = f"{'CuPy' if device else 'NumPy'} chunks" if ours else "chunks of another kind"
    expected, side = ("CuPy chunks", "asarray") if step.kernel else ("NumPy chunks", "asnumpy")
    remedy = f"Call x.map_blocks(cupy.{side}), or leave out strategy=."
    raise ArgumentError(message(step.label, received, expected, remedy))
