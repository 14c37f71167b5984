"""One tree for several statistics: it ends in the partial of their product, out of which a task a statistic cuts its
own. So each result is an array of its own, and those that are computed together read the chunks once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
from dask.base import tokenize

from ..chunk.device_operator import LARGEST_STATE
from ..errors import ArgumentError, DtypeError, message
from ..monoid import Monoid
from . import meta, tasks
from .apply import as_dask
from .parts import Statistic, plan_parts
from .reduction import Tree, grow
from .stock import belongs_to_stock


def reduce_together(
    operation: str,
    x: Any,
    asked: Sequence[str | Monoid],
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    ddof: float = 0,
) -> list[Any]:
    """The statistics of an array-like, in the order asked."""
    return grow_together(operation, x, asked, axis, keepdims, split_every, ddof)[1]


def grow_together(
    operation: str,
    x: Any,
    asked: Sequence[str | Monoid],
    axis: Any,
    keepdims: bool,
    split_every: Any,
    ddof: float = 0,
    group: Any = None,
    is_trial: bool = False,
) -> tuple[Tree, list[Any]]:
    """The tree of several statistics, whose result is packed, and the array of each of them."""
    array = as_dask(operation, x)
    whole, statistics = plan_parts(operation, asked, array.dtype, ddof)
    if belongs_to_stock(operation, (array,), None):
        received = f"{type(array._meta).__name__} chunks of {array.dtype}"
        raise DtypeError(message(operation, received, "NumPy or CuPy chunks", "Convert the chunks first."))
    size = whole.state.itemsize
    if meta.promises_device(array._meta) and size > LARGEST_STATE:
        received = f"statistics whose states take {size} bytes together"
        raise ArgumentError(
            message(operation, received, f"at most {LARGEST_STATE} on a GPU", "Ask for some of them in a second call.")
        )
    tree = grow((array,), whole, axis, True, split_every, operation, group, is_trial)
    return tree, [cut(tree, statistic, keepdims) for statistic in statistics]


def cut(tree: Tree, statistic: Statistic, keepdims: bool) -> Any:
    """One statistic of a tree's packed result."""
    packed, bound = tree.array, statistic.bound
    inds = tuple(range(packed.ndim))
    kept = inds if keepdims else tuple(a for a in inds if a not in tree.axes)
    device = meta.promises_device(tree.x._meta)
    run = partial(
        tasks.cut,
        bound=bound,
        offset=statistic.offset,
        drop=None if keepdims else tree.axes,
        device=device,
    )
    return da.blockwise(
        run,
        kept,
        packed,
        inds,
        name=f"gr-{bound.name}-{tokenize(packed.name, statistic, keepdims)}",
        dtype=bound.result,
        meta=meta.like(tree.x._meta, len(kept), bound.result),
        align_arrays=False,
    )
