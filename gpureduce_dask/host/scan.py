"""Scans of chunks on the host, over blocks that stay in cache.

A chunk of any strides is walked along its axis, tile by tile, with the states of the lines so far. A tile reaches the
monoid as a block of shape (outer, n, inner) whose middle axis is scanned: by the row's sweep where it has one, else by
combining neighbours. Nothing of the chunk's size is made but the result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..operators import native
from ..operators.monoid import Array, Bound, State
from ..place import Place, whole
from ..strides import turning
from .reduce import COPIED_BYTES, SHORT, WORKED, Chunks, as_fields, results_of
from .tiles import Budget, Walk, tiling_of

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, chunks of 64 MiB, 2026-11
SWEPT = Budget(1 << 16, 1 << 17, 256, 1 << 16, short=SHORT, cells=1 << 13)
IN_C = Budget(1 << 18, 1 << 20, 256, 1 << 16, cells=1 << 13)  # where host loops are compiled, which make no temporaries
RUNNING = Budget(1 << 16, 1 << 16, 0, 1 << 16)  # running means and spreads 7 to 14 ns an element, by 2**15 9 to 20
FEWEST = 4  # elements of a line up to which it is combined as fast
# Lines of so few elements are whole in any tile; a larger one of them costs fewer calls: (2**21, 2) float64 takes 25 ms
# with 2**15 cells, 28 with 2**14, 39 with 2**13.
FEW, OF_FEW = 1 << 5, replace(IN_C, cells=1 << 15)
MANY = 1 << 9  # lines of a block from which on combining element by element costs less than by halves
PIECE = 1 << 6  # elements of a segment, on average, from which on each is swept alone


def scan(
    chunks: Chunks,
    bound: Bound,
    axis: int,
    carry: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    resets: Array | None = None,
    out: Array | None = None,
    place: Place | None = None,
) -> tuple[Array, Array]:
    """Running results along an axis, and the partial behind each line.

    ``carry`` is a partial of size 1 along the axis that stands before each line; ``reverse`` starts at a line's end.
    ``resets`` broadcast to the chunk's shape, and are true where what stands before an element is forgotten. ``out``
    takes the results, and may be the chunk; else they lie in memory as elements do, reversed axes too where neighbours
    are of several lines. ``place`` is where the chunk lies, for states with an index.
    """
    arrays = tuple(np.asarray(c) for c in chunks)
    shape = arrays[0].shape
    if turn := _turn(arrays if out is None else (*arrays, out), axis, bound.indexed):
        reverse ^= turn[axis].step is not None
        carry, into = (None if a is None else a[turn] for a in (carry, out))
        flags = None if resets is None else np.broadcast_to(resets, shape)[turn]
        turned = tuple(x[turn] for x in arrays)
        results, total = scan(turned, bound, axis, carry, exclusive, reverse, flags, into, place)
        return results[turn] if out is None else out, np.ascontiguousarray(total[turn])
    out = np.empty_like(arrays[0], bound.result, subok=False) if out is None else out  # in the same order in memory
    ends = tuple(1 if a == axis else n for a, n in enumerate(shape))
    total = bound.identities(ends) if carry is None else np.array(carry)
    if 0 in shape:
        return out, total
    if resets is not None:
        arrays = (*arrays, np.broadcast_to(np.asarray(resets, bool), shape))
    shared = any(np.may_share_memory(out, x) for x in arrays)
    inputs = [x if _is_same(x, out) else x.copy() for x in arrays] if shared else list(arrays)
    start, step = (place or whole(shape)).offsets[axis], 1
    target: Array = out
    if reverse:
        inputs, target = [np.flip(x, axis) for x in inputs], np.flip(out, axis)
        start, step = start + shape[axis] - 1, -1
    lines = _Lines(tuple(inputs), target, bound, axis, (start, step), shared, resets is not None)
    with np.errstate(all="ignore"):
        return out, lines.scan(total, exclusive)


def _turn(arrays: Chunks, axis: int, indexed: bool) -> tuple[slice, ...]:
    """What turns arrays whose neighbours in memory are of several lines and stand in reverse; nothing of others: lines
    are walked either way. Along the scanned axis positions count from one end, so that it stays as it is."""
    steps = [
        (abs(step), a) for a, (n, step) in enumerate(zip(arrays[0].shape, arrays[0].strides, strict=True)) if n > 1
    ]
    nearest = min(filter(lambda step: step[0], steps), default=(0, axis))[1]
    turn = turning(arrays, axis if indexed else None) if nearest != axis else ()
    return turn if turn and turn[nearest].step else ()


def before(partials: Array, bound: Bound, carry: Array | None = None, reverse: bool = False) -> tuple[Array, Array]:
    """What stands before each of the partials that lie along the first axis, and what stands behind them all, of size 1
    there."""
    cells = partials.shape[1:]
    ahead = bound.identities(cells) if carry is None else carry.reshape(cells)
    line = np.concatenate([ahead[None], partials[::-1] if reverse else partials])
    running = tuple(f[None] for f in bound.unpack(line.reshape(len(line), math.prod(cells))))
    with np.errstate(all="ignore"):
        _prefix(running, None, bound)
    return line[:-1][::-1] if reverse else line[:-1], line[-1:]


def _is_same(x: Array, out: Array) -> bool:
    """True where each element lies where its result goes, or no element does."""
    return not np.may_share_memory(x, out) or (x.ctypes.data, x.strides) == (out.ctypes.data, out.strides)


class _Lines:
    """The lines of one chunk, and where their results go."""

    def __init__(
        self,
        inputs: tuple[Array, ...],
        out: Array,
        bound: Bound,
        axis: int,
        index: tuple[int, int],
        shared: bool,
        segmented: bool,
    ) -> None:
        self.bound, self.segmented, self.start = bound, segmented, index[0]
        self.swept = bound.monoid.sweep is not None and not bound.indexed
        dtypes = (*bound.elements, *((np.dtype(bool),) if segmented else ()))
        pairs = zip((*inputs, out), (*dtypes, bound.result), strict=True)
        readable = not shared and all(x.dtype == d and x.flags.aligned for x, d in pairs)
        strides = tuple(x.strides for x in (*inputs, out))
        copied = COPIED_BYTES // max(bound.elements[0].itemsize, bound.result.itemsize)
        in_c = replace(OF_FEW if out.shape[axis] <= FEW else IN_C, copy=copied)
        runs = bound.monoid.running is not None and not segmented and out.shape[axis] > FEWEST
        is_compiled = bound.elements[0].kind in "biuf" and native.library() is not None
        worked = RUNNING if runs and is_compiled else WORKED
        budget = worked if not self.swept else SWEPT if native.library() is None else in_c
        self.layout = tiling_of(out.shape, strides, (axis,), (index[1],), budget, True, True, readable)
        self.walk = Walk(inputs, dtypes, self.layout)
        self.out = out.transpose(self.layout.order).reshape(tuple(d.size for d in self.layout.dims))
        self.scratch = np.empty(self.walk.scratch[0].size, bound.result)

    def scan(self, total: Array, exclusive: bool) -> Array:
        """The partial behind each line, from that before it; the results go to the array they belong in."""
        layout, bound = self.layout, self.bound
        kept = (*layout.kept, *(a for a in range(total.ndim) if a not in layout.kept))
        cells = total.transpose(kept).reshape(tuple(d.size for d in (*layout.outer, *layout.inner)))
        runs = self.walk.runs()
        for outer, inner in self.walk.cells():
            cell: Any = (*outer, *inner, ...)
            state = bound.unpack(cells[cell])
            for run in runs:
                state = self._tile((*outer, *run, *inner), state, exclusive, run)
            for (name, _), values in zip(bound.fields, state, strict=True):
                target = cells[name][cell]
                values = values.reshape(target.shape)
                if (values.ctypes.data, values.strides) != (target.ctypes.data, target.strides):
                    target[...] = values  # which a sweep may have done
        sizes = [total.shape[a] for a in kept]
        back = sorted(range(total.ndim), key=kept.__getitem__)
        return np.ascontiguousarray(cells.reshape(sizes).transpose(back)).reshape(total.shape)

    def _tile(self, tile: Any, state: State, exclusive: bool, run: Any) -> State:
        walk, bound = self.walk, self.bound
        views = zip(walk.views, walk.scratch, strict=True)
        blocks = [walk.block(v[tile], s) for v, s in views]
        target, shape = walk.shaped(self.out[(*tile, ...)])
        out = target if self.layout.direct else self.scratch[: target.size]
        state = tuple(f.reshape(shape[0], shape[2]) for f in state)
        flags = blocks.pop() if self.segmented else None
        out = out.reshape(shape)
        if self.swept and flags is None:
            state = _sweep(blocks, state, out, bound, exclusive)
        elif self.swept and (starts := _starts(flags)) is not None:
            state = _sweep_pieces(blocks, starts, state, out, bound, exclusive)
        else:
            index = walk.positions(run, self.start).all()[None, :, None]
            state = _by_states(blocks, index, flags, state, out, bound, exclusive)
        if self.layout.direct:
            return state
        np.copyto(target, out.reshape(target.shape), casting="unsafe")
        # A sweep may give a view of its last results, which the next tile overwrites.
        return tuple(f.copy() if np.may_share_memory(f, self.scratch) else f for f in state)


def _sweep(blocks: list[Array], state: State, out: Array, bound: Bound, exclusive: bool) -> State:
    """One block by the row's own sweep. An exclusive scan is an inclusive one whose results lie one further on."""
    monoid = bound.monoid
    assert monoid.sweep is not None
    if not exclusive:
        return as_fields(monoid.sweep(*blocks, state, out), bound, state[0].shape)
    out[:, 0] = results_of(state, bound)
    if out.shape[1] > 1:
        ahead = monoid.sweep(*(b[:, :-1] for b in blocks), state, out[:, 1:])
        state = as_fields(ahead, bound, state[0].shape)
    last = as_fields(monoid.lift(*(b[:, -1] for b in blocks), np.zeros((), np.int64)), bound, state[0].shape)
    return as_fields(monoid.combine(state, last), bound, state[0].shape)


def _starts(flags: Array | None) -> list[int] | None:
    """Where segments start in all lines of a block, where they do so in all alike and are long; else None."""
    assert flags is not None
    line = flags[0, :, 0]
    starts = np.flatnonzero(line)
    if starts.size * PIECE > line.size or not np.all(flags == line[:, None]):
        return None
    return [int(i) for i in starts]


def _sweep_pieces(
    blocks: list[Array], starts: list[int], state: State, out: Array, bound: Bound, exclusive: bool
) -> State:
    """A block whose segments start at the same places in every line."""
    fresh = tuple(np.full(state[0].shape, v, d) for v, (_, d) in zip(bound.identity, bound.fields, strict=True))
    cuts = [0, *(i for i in starts if i), out.shape[1]]
    for begin, end in pairwise(cuts):
        piece = slice(begin, end)
        before = fresh if begin in starts else state
        state = _sweep([b[:, piece] for b in blocks], before, out[:, piece], bound, exclusive)
    return state


def _by_states(
    blocks: list[Array], index: Array, flags: Array | None, state: State, out: Array, bound: Bound, exclusive: bool
) -> State:
    """One block by the states of all its elements, finalised."""
    running, behind = _running(blocks, index, flags, state, out.shape, bound)
    if not exclusive:
        out[...] = results_of(running, bound)
    else:
        out[:, 0] = results_of(state, bound)
        out[:, 1:] = results_of(tuple(f[:, :-1] for f in running), bound)
        if flags is not None:
            nothing = tuple(np.full((1, 1), v, d) for v, (_, d) in zip(bound.identity, bound.fields, strict=True))
            np.copyto(out, results_of(nothing, bound)[0, 0], where=flags)
    return behind


def _running(
    blocks: list[Array], index: Array, flags: Array | None, state: State, shape: tuple[int, ...], bound: Bound
) -> tuple[State, State]:
    """The states of all elements with those before them, and behind the block: as the monoid makes them, or else lifted
    and combined."""
    make = bound.monoid.running if flags is None and shape[1] > FEWEST else None
    found = make(*blocks, index[0, :, 0], state) if make is not None else None
    if found is not None:
        return as_fields(found[0], bound, shape), as_fields(found[1], bound, state[0].shape)
    lifted = as_fields(bound.monoid.lift(*blocks, index), bound, shape)
    running = tuple(np.array(f) for f in lifted)
    same = None if flags is None else ~flags
    before, first = (tuple(f[:, None] for f in state), tuple(f[:, :1] for f in running))
    _join(first, before, None if same is None else same[:, :1], bound)
    _prefix(running, same, bound)
    return running, tuple(f[:, -1].copy() for f in running)


def _prefix(running: State, same: Array | None, bound: Bound) -> None:
    """Running states along the middle axis, in place: neighbours first, then those between (Ladner and Fischer 1980).

    ``same`` is true where an element belongs to the segment of the one before; it is used up.
    """
    outer, n, inner = running[0].shape
    if n == 1:
        return
    if outer * inner >= MANY:
        for i in range(1, n):
            _step(running, same, slice(i - 1, i), slice(i, i + 1), bound)
        return
    _step(running, same, slice(0, n - 1, 2), slice(1, n, 2), bound)
    if same is not None:
        same[:, 1::2] &= same[:, 0 : n - 1 : 2]
    _prefix(tuple(f[:, 1::2] for f in running), None if same is None else same[:, 1::2], bound)
    if n > 2:
        _step(running, same, slice(1, n - 1, 2), slice(2, n, 2), bound)


def _step(running: State, same: Array | None, earlier: slice, later: slice, bound: Bound) -> None:
    before, after = (tuple(f[:, s] for f in running) for s in (earlier, later))
    _join(after, before, None if same is None else same[:, later], bound)


def _join(after: State, before: State, same: Array | None, bound: Bound) -> None:
    """States with those before them, in place, where they are of one segment."""
    joined = as_fields(bound.monoid.combine(before, after), bound, after[0].shape)
    for target, values in zip(after, joined, strict=True):
        np.copyto(target, values, where=True if same is None else same)
