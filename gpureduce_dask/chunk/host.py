"""The chunk protocol on the host, over blocks that stay in cache.

A chunk of any strides is walked tile by tile. Each tile reaches the monoid as a block of shape (outer, n, inner),
whose middle axis is reduced to the states of (outer, inner) cells; the states of one cell's tiles are combined as
they come. Nothing of the chunk's size is made but the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..monoid import INDEX, Array, Bound, State
from ..operators import POSITIONS, STREAMING
from .place import Place, whole
from .tiles import Walk, lay_out, walk

Chunks = tuple[Array, ...]

# Elements of a tile. Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, chunks of 64 MiB, 2026-11.
WORKED = 1 << 15  # where a fold or a conversion makes temporaries: they stay in L2
FLAGGED = 1 << 17  # where those are a byte or two an element
STREAMED = 1 << 20  # where a fold is one NumPy reduction without a scratch: fewer calls


def reduce(chunks: Chunks, bound: Bound, axes: tuple[int, ...], place: Place | None = None) -> Array:
    """The partial of one chunk, of size 1 along every axis in ``axes``."""
    arrays = tuple(np.asarray(c) for c in chunks)
    shape = arrays[0].shape
    keepdims = tuple(1 if a in axes else n for a, n in enumerate(shape))
    if 0 in shape:
        return bound.identities(keepdims)
    place = place or whole(shape)
    monoid = bound.monoid
    ordered = not monoid.commutative
    c_order = ordered or bound.indexed or monoid.fold is None
    layout = lay_out(arrays, axes, place.steps(axes), c_order)
    tiles = walk(arrays, bound.elements, layout, _budgets(bound), ordered)
    kept = tuple(d.size for d in (*layout.outer, *layout.inner))
    cells = np.zeros(kept, bound.state)
    with np.errstate(all="ignore"):
        _fill(cells, tiles, bound, place.start(axes))
    return _in_order(cells, layout.kept, keepdims)


def _budgets(bound: Bound) -> tuple[int, int]:
    """Elements of a tile that is a view, and of one that is copied."""
    fold = bound.monoid.fold
    plain = all(d.kind in "biufM" for d in bound.elements)
    if plain and fold in STREAMING:
        return STREAMED, WORKED
    return (FLAGGED if plain and fold in POSITIONS else WORKED), WORKED


def _fill(cells: Array, tiles: Walk, bound: Bound, start: int) -> None:
    """Every cell's state, from its tiles in order."""
    runs = tiles.runs()
    for outer, inner in tiles.cells():
        state: State = ()
        for run in runs:
            new = _state(tiles, (outer, run, inner), bound, start)
            state = bound.monoid.combine(state, new) if state else new
        for (name, _), values in zip(bound.fields, state, strict=True):
            target = cells[name][(*outer, *inner, ...)]
            target[...] = values.reshape(target.shape)


def _state(tiles: Walk, tile: tuple[tuple[slice, ...], ...], bound: Bound, start: int) -> State:
    """The states of one tile's cells, of shape (outer, inner)."""
    monoid = bound.monoid
    blocks = tiles.blocks(*tile)
    if monoid.fold is None:
        local, base = tiles.positions(tile[1])
        lifted = monoid.lift(*blocks, (local + (base + start))[None, :, None])
        return tuple(f[:, 0].copy() for f in halve(as_fields(lifted, bound, blocks[0].shape), bound, 1))
    if not bound.indexed:
        return as_fields(monoid.fold(*blocks, None), bound, _cells(blocks[0]))
    local, base = tiles.positions(tile[1])
    state = as_fields(monoid.fold(*blocks, local), bound, _cells(blocks[0]))
    return tuple(
        np.where(f < 0, f, f + (base + start)) if name == INDEX else f
        for (name, _), f in zip(bound.fields, state, strict=True)
    )


def _cells(block: Array) -> tuple[int, int]:
    return block.shape[0], block.shape[2]


def as_fields(state: State, bound: Bound, shape: tuple[int, ...]) -> State:
    """What a monoid's function gave, in the dtypes of the fields and of this shape."""
    return tuple(
        np.broadcast_to(np.asarray(f).astype(dtype, copy=False), shape)
        for f, (_, dtype) in zip(state, bound.fields, strict=True)
    )


def halve(state: State, bound: Bound, axis: int) -> State:
    """Fold an axis by combining neighbours until one is left; left stays earlier."""
    ahead = (slice(None),) * axis
    while (n := state[0].shape[axis]) > 1:
        even = tuple(f[(*ahead, slice(0, n - 1, 2))] for f in state)
        odd = tuple(f[(*ahead, slice(1, n, 2))] for f in state)
        folded = as_fields(bound.monoid.combine(even, odd), bound, even[0].shape)
        if n % 2:
            last = tuple(f[(*ahead, slice(n - 1, n))] for f in state)
            folded = tuple(np.concatenate(pair, axis) for pair in zip(folded, last, strict=True))
        state = folded
    return state


def _in_order(cells: Array, kept: tuple[int, ...], keepdims: tuple[int, ...]) -> Array:
    """Cells in the order they were walked, as a partial in the order of the chunk's axes."""
    order = sorted(kept)
    unmerged = cells.reshape([keepdims[a] for a in kept])
    return np.ascontiguousarray(unmerged.transpose([kept.index(a) for a in order])).reshape(keepdims)


def reduce_many(
    chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None = None
) -> Array:
    """The partial of several chunks of one kept shape, folded left to right."""
    state: State = ()
    for i, each in enumerate(chunks):
        new = bound.unpack(reduce(each, bound, axes, places[i] if places else None))
        state = _combined(state, new, bound) if state else new
    return bound.pack(state)


def _combined(earlier: State, later: State, bound: Bound) -> State:
    with np.errstate(all="ignore"):
        return as_fields(bound.monoid.combine(earlier, later), bound, earlier[0].shape)


def combine(partials: Sequence[Array], bound: Bound) -> Array:
    """Partials of one shape to one, cell by cell; the first is the earliest."""
    state = bound.unpack(partials[0])
    for partial in partials[1:]:
        state = _combined(state, bound.unpack(partial), bound)
    return bound.pack(state) if len(partials) > 1 else partials[0]


def combine_axis(partial: Array, bound: Bound, axis: int) -> Array:
    """A partial folded in order along one of its own axes, which keeps size 1."""
    shape = tuple(1 if a == axis % partial.ndim else n for a, n in enumerate(partial.shape))
    if partial.shape[axis] == 0:
        return bound.identities(shape)
    with np.errstate(all="ignore"):
        return bound.pack(halve(bound.unpack(partial), bound, axis % partial.ndim))


def finalise(partial: Array, bound: Bound) -> Array:
    """A partial's results, of the same shape."""
    monoid = bound.monoid
    with np.errstate(all="ignore"):
        values = monoid.finalise(bound.unpack(partial), bound.result, **dict(monoid.options))
    return np.asarray(values).astype(bound.result, copy=False).reshape(partial.shape)
