"""Small chunks on the host, copied side by side into a block that stays in cache and is reduced as one: a call for each
costs more than its bytes do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..operators.monoid import Array, Bound
from ..operators.table import OPERATORS
from ..place import Place, starts_of

Chunks = tuple[Array, ...]
Axes = tuple[int, ...]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, 64 MiB of float32, 2026-11
SMALL = 1 << 18  # bytes of a chunk, all operands together, up to which the copy pays
BLOCK = 1 << 20  # bytes of a block


@dataclass(frozen=True)
class Stretch:
    """Neighbours that make one block, and the axis that counts them there."""

    start: int
    stop: int
    axis: int = 0

    @property
    def is_single(self) -> bool:
        return self.stop == self.start + 1

    def axes(self, axes: Axes) -> Axes:
        """The block's reduced axes, where those of a chunk are ``axes``."""
        return (*(a for a in axes if a < self.axis), self.axis, *(a + 1 for a in axes if a >= self.axis))


class Stacker:
    """Finds stretches of neighbours that are small and alike, and makes blocks of them.

    C order over the reduced axes of a block is that of its chunks one after another; where states have positions it is
    the order of these, which tell ties apart.
    """

    def __init__(self, chunks: Sequence[Chunks], bound: Bound, axes: Axes, places: Sequence[Place] | None):
        self.chunks, self.axes, self.dtypes = chunks, axes, bound.dtypes
        self.steps: Axes = ()
        self.starts: list[int] = []
        if bound.indexed and places:
            self.steps = places[0].steps(axes)
            self.starts = starts_of(places, axes).tolist()
        # A user's lift may do more with a position than to carry it.
        self.positions = bound.positions
        is_carried = bool(self.starts) and all(OPERATORS.get(p.name) == p.monoid for p in bound.parts if p.indexed)
        self.is_able = bool(axes) and (is_carried or not bound.indexed)
        self._scratch: list[Array] = []

    def stretches(self) -> Iterator[Stretch]:
        """All chunks, in order; those that share their block with no other as stretches of one."""
        start, count = 0, len(self.chunks)
        while start < count:
            nbytes = sum(c.nbytes for c in self.chunks[start])
            most = BLOCK // nbytes if self.is_able and 0 < nbytes <= SMALL else 1
            found = self._reach(start, min(count, start + most))
            yield found
            start = found.stop

    def _reach(self, start: int, most: int) -> Stretch:
        shape, stop = self.chunks[start][0].shape, start + 1
        axis, spans, room = self._between(shape, start) if most > stop else (0, 0, 0)
        while stop < most and self.chunks[stop][0].shape == shape:
            if self.starts:
                last, here = self.starts[stop - 1], self.starts[stop]
                if here - last < spans or here - self.starts[start] + spans > room:
                    break
            stop += 1
        return Stretch(start, stop, axis)

    def _between(self, shape: tuple[int, ...], start: int) -> tuple[int, int, int]:
        """The axis before which chunks are counted, how far positions reach along the axes from there on, and how far
        they may go before they meet the next step of an axis ahead."""
        if not self.starts:
            return self.axes[0], 0, 0
        step = self.starts[start + 1] - self.starts[start]
        live = [(a, s) for a, s in zip(self.axes, self.steps, strict=True) if shape[a] > 1]
        below = [(a, s) for a, s in live if s < step]
        axis = below[0][0] if below else self.axes[-1] + 1
        room = min((s for _, s in live if s >= step), default=sys.maxsize)
        return axis, 1 + sum((shape[a] - 1) * s for a, s in below), room

    def block(self, stretch: Stretch) -> Chunks:
        """The chunks of a stretch side by side, valid until the next call."""
        shape, axis = self.chunks[stretch.start][0].shape, stretch.axis
        stacked = (*shape[:axis], stretch.stop - stretch.start, *shape[axis:])
        if not self._scratch or self._scratch[0].shape != stacked:
            self._scratch = [np.empty(stacked, dtype) for dtype in self.dtypes]
        columns = zip(*self.chunks[stretch.start : stretch.stop], strict=True)
        for column, out in zip(columns, self._scratch, strict=True):
            np.stack(column, axis, out=out)
        return tuple(self._scratch)

    def locate(self, partial: Array, stretch: Stretch) -> Array:
        """A block's partial without the axis of chunks, its positions moved from the block to the array."""
        partial = partial.squeeze(stretch.axis)
        if self.starts:
            for name in self.positions:
                partial[name] = self._shift_positions(partial[name], stretch)
        return partial

    def _shift_positions(self, index: Array, stretch: Stretch) -> Array:
        shape = self._scratch[0].shape
        # Flat: of more than 8,192 elements in several dimensions NumPy 2.4's unravel_index is wrong.
        flat = np.unravel_index(np.maximum(index, 0).reshape(-1), [shape[a] for a in stretch.axes(self.axes)])
        along = tuple(places.reshape(index.shape) for places in flat)
        at = sum(a < stretch.axis for a in self.axes)  # the axis of chunks among the reduced ones
        found = np.asarray(self.starts[stretch.start : stretch.stop])[along[at]]
        for number, step in zip((*along[:at], *along[at + 1 :]), self.steps, strict=True):
            found = found + number * step
        return np.where(index < 0, index, found)
