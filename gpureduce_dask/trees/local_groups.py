"""Groups that lie in few chunks each: only those of a chunk have states in it, and the result is cut as they lie.

The labels are one-dimensional, along the last axis, as those of calendars are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from ..binned import Bins, binned
from ..device import faults
from ..monoid import Bound, Monoid
from . import lazy, meta, tasks
from .apply import bind
from .bins_apply import grouped


def stretches(labels: Any, chunks: Sequence[int]) -> list[Any] | None:
    """The groups of each chunk, where each lies whole in one; None where one does not, or an element is of none."""
    if labels.ndim != 1 or not labels.size or labels.min() < 0 or not all(chunks):
        return None
    found = [np.unique(part) for part in _by_chunk(labels, chunks)]
    every = np.concatenate(found)
    return found if len(np.unique(every)) == len(every) else None


def _by_chunk(labels: Any, chunks: Sequence[int]) -> list[Any]:
    return np.split(labels, np.cumsum(chunks)[:-1])


def reduce_stretches(name: str, op: Monoid, x: Any, labels: Any, groups: Sequence[Any], **options: Any) -> Any:
    """Each chunk along the last axis to its own groups, in order."""
    bound, axis = bind(op, (x.dtype,), None, options, name), x.ndim - 1
    parts = _by_chunk(labels, x.chunks[-1])
    codes = np.concatenate([np.searchsorted(mine, part) for mine, part in zip(groups, parts, strict=True)])
    codes = da.from_array(codes.astype(np.min_scalar_type(-max(map(len, groups)))), chunks=(x.chunks[-1],))
    how = {} if lazy.fuses() else {"fuse": False}
    inds = tuple(range(x.ndim))
    return da.blockwise(
        partial(_reduce_stretch, name=name, bound=bound, device=meta.promises_device(x._meta), **how),
        inds,
        x,
        inds,
        codes,
        (axis,),
        name=f"gr-{name}-{tokenize(x.name, codes.name, bound, how)}",
        adjust_chunks={axis: tuple(map(len, groups))},
        dtype=bound.result,
        meta=meta.like(x._meta, x.ndim, bound.result),
        align_arrays=False,
    )


@lazy.reads
@faults.task
def _reduce_stretch(block: Any, codes: Any, name: str, bound: Bound, **how: Any) -> Any:
    axes = (len(block.shape) - 1,)
    bins = Bins(name, (int(codes.max()) + 1,), axes)
    return tasks.reduce_whole(block, codes, bound=binned(bound, bins), axes=axes, keepdims=False, **how)


def reduce_cohorts(
    name: str, op: Monoid, x: Any, labels: Any, cohorts: Mapping[Iterable[int], Sequence[int]], **options: Any
) -> Any:
    """The groups of each cohort, which lie in the same chunks along the last axis, from these alone."""
    parts, found = _by_chunk(labels, x.chunks[-1]), []
    for blocks, groups in cohorts.items():
        blocks = sorted(blocks)
        number = np.full(int(labels.max()) + 2, -1)
        number[list(groups)] = np.arange(len(groups))
        mine = number[np.concatenate([parts[b] for b in blocks])]
        few = x.blocks[(slice(None),) * (x.ndim - 1) + (blocks,)]
        found.append(grouped(name, op, few, mine, x.ndim - 1, len(groups), None, None, None, **options))
    return da.concatenate(found, axis=-1)
