"""What the tasks of a tree run. Every function is of this module, so that a task pickles as its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import chunk
from ..chunk import Place
from ..chunk.ahead import ahead
from ..device import faults
from ..errors import ArgumentError, message
from ..monoid import Bound
from ..rows.product import Product
from . import lazy, within
from .axes import Axes, empty_slice

# None stands for the partial of a chunk that is empty, where a monoid has no answer for nothing: its identity
# would pass for a value.
Partial = Any


@lazy.reads
@faults.task
def reduce_chunk(
    *blocks: Any, bound: Bound, axes: Axes, shape: tuple[int, ...] | None = None, fuse: bool = True
) -> Partial:
    """One chunk to its partial. With ``shape``, that of the whole array, the last block is the chunk's slices.

    What a block's chain put off is computed as it is read, with ``fuse``, and else made first.
    """
    place = None
    if shape is not None:
        *blocks, where = blocks  # type: ignore[assignment]
        place = Place(tuple(s.start for s in where), shape)
    read, of = lazy.read_with(blocks, bound, fuse)
    if lacks_answer(read[0], bound, axes):
        return None
    if within.is_group() and bound.monoid.commutative and (size := chunk.partial_bytes(read, of, axes)):
        return lazy.Unreduced(read, of, axes, place, size)
    partial = ahead(chunk.reduce(read, of, axes, place), of, axes, place)
    # Within a group it stays on its GPU, where the next one follows.
    return partial if within.is_group() else chunk.leave(partial, bound)


def lacks_answer(block: Any, bound: Bound, axes: Axes) -> bool:
    """True for a chunk that is empty along ``axes`` where the monoid has no answer for nothing."""
    return bound.monoid.empty == "raise" and any(np.shape(block)[a] == 0 for a in axes)


@faults.task
def cut(packed: Any, bound: Bound, offset: int, drop: Axes | None, device: bool) -> Any:
    """The results of one of several statistics, from the packed states of all of them."""
    return _leave_axes(chunk.finalise(chunk.cut(_only(packed), bound, offset), bound), drop, device)


@lazy.reads
@faults.task
def reduce_whole(*blocks: Any, bound: Bound, axes: Axes, keepdims: bool, device: bool, fuse: bool = True) -> Any:
    """One chunk that holds all of its slices, to its results, of a product to its partial."""
    blocks = tuple(_only(b) for b in blocks)
    blocks, bound = lazy.read_with(blocks, bound, fuse)
    if lacks_answer(blocks[0], bound, axes):
        raise empty_slice(bound.name, f"a chunk of shape {np.shape(blocks[0])}")
    if isinstance(bound, Product):
        return chunk.leave(chunk.reduce(blocks, bound, axes), bound)
    return _leave_axes(chunk.results(blocks, bound, axes), None if keepdims else axes, device)


@faults.task
def combine(partials: list[Partial], bound: Bound, then: Axes = ()) -> Partial:
    """Partials in order to one, then folded along the axes whose turn is next."""
    folded = fold(merge(partials, bound), bound, then)
    return None if folded is None else chunk.leave(folded, bound)


@faults.task
def finish(partials: list[Partial], bound: Bound, drop: Axes | None, device: bool) -> Any:
    """The last partials of a tree to results, of a product to one; ``drop`` are the axes to lose, None keeps all."""
    return result(merge(partials, bound), bound, drop, device)


def broadcast_weights(block: Any, weights: Any, axes: Axes) -> Any:
    """Weights along ``axes``, in that order, as a view of the shape of their chunk and on its side."""
    if weights.shape != tuple(block.shape[a] for a in axes):
        raise ArgumentError(
            message(
                "average",
                f"a chunk of weights of shape {weights.shape} for one of shape {block.shape} and axes {axes}",
                "the chunk's sizes along the axes",
                "Filter array and weights alike, or call compute_chunk_sizes() on both.",
            )
        )
    weights = chunk.like(weights, block).transpose(np.argsort(axes).tolist())
    shape = tuple(n if a in axes else 1 for a, n in enumerate(block.shape))
    weights = weights.reshape(shape)
    if chunk.is_device(weights):
        import cupy

        return cupy.broadcast_to(weights, block.shape)
    return np.broadcast_to(weights, block.shape)


def merge(partials: list[Partial], bound: Bound) -> Partial:
    """Partials of one shape to one, the first the earliest."""
    present = [p for p in partials if p is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else chunk.combine(present, bound)


def fold(partial: Partial, bound: Bound, axes: Axes) -> Partial:
    """A partial folded along its own axes, the last first."""
    for axis in reversed(axes):
        if partial is None:
            return None
        size = chunk.extents(partial)[axis]
        if size == 0 and bound.monoid.empty == "raise":
            return None
        if size != 1:
            partial = chunk.combine_axis(partial, bound, axis)
    return partial


def result(partial: Partial, bound: Bound, drop: Axes | None, device: bool) -> Any:
    """A partial's results without the axes to drop (None keeps all), as CuPy or NumPy arrays; a product's as it is."""
    if partial is None:
        raise empty_slice(bound.name, "an empty slice")
    if isinstance(bound, Product):
        return chunk.leave(partial, bound)
    return _leave_axes(chunk.finalise(partial, bound), drop, device)


def _leave_axes(values: Any, drop: Axes | None, device: bool) -> Any:
    values = chunk.move(values, device)
    if drop is not None:
        values = values.reshape(tuple(n for a, n in enumerate(values.shape) if a not in drop))
    return values[()] if isinstance(values, np.ndarray) and values.ndim == 0 else values


def _only(block: Any) -> Any:
    """The one chunk in the nested lists that dask hands over for axes which end here."""
    while isinstance(block, list):
        (block,) = block
    return block
