"""Small chunks on the host, copied side by side into a block that stays in cache and is reduced as one: a call for each
costs more than its bytes do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..monoid import Array, Bound
from .place import Place

Chunks = tuple[Array, ...]
Axes = tuple[int, ...]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, 64 MiB of float32, 2026-11
SMALL = 1 << 18  # bytes of a chunk, all operands together, up to which the copy pays
BLOCK = 1 << 20  # bytes of a block


@dataclass(frozen=True)
class Stretch:
    """Neighbours that make one block: the axis that counts them there, and how far positions move along it."""

    start: int
    stop: int
    axis: int = 0
    step: int = 0

    @property
    def is_single(self) -> bool:
        return self.stop == self.start + 1

    def axes(self, axes: Axes) -> Axes:
        """The block's reduced axes, where those of a chunk are ``axes``."""
        return (*(a for a in axes if a < self.axis), self.axis, *(a + 1 for a in axes if a >= self.axis))

    def steps(self, axes: Axes, steps: Axes) -> Axes:
        """How far positions move along each of them."""
        before = sum(a < self.axis for a in axes)
        return (*steps[:before], self.step, *steps[before:])


class Stacker:
    """Finds stretches of neighbours that are small and alike, and makes blocks of them.

    C order over the reduced axes of a block is that of its chunks one after another; where states have positions and
    any order of chunks will do, it is the order of positions, which tell ties apart.
    """

    def __init__(self, chunks: Sequence[Chunks], bound: Bound, axes: Axes, places: Sequence[Place] | None):
        self.chunks, self.axes, self.dtypes = chunks, axes, bound.dtypes
        self.is_ordered = not bound.monoid.commutative
        self.steps: Axes = ()
        self.starts: list[int] = []
        if places and bound.indexed:
            self.steps = places[0].steps(axes)
            self.starts = [sum(p.offsets[a] * s for a, s in zip(axes, self.steps, strict=True)) for p in places]
        self._scratch: list[Array] = []

    def stretches(self) -> Iterator[Stretch]:
        """All chunks, in order; those that share their block with no other as stretches of one."""
        start, count = 0, len(self.chunks)
        while start < count:
            nbytes = sum(c.nbytes for c in self.chunks[start])
            most = BLOCK // nbytes if self.axes and 0 < nbytes <= SMALL else 1
            found = self._reach(start, min(count, start + most))
            yield found
            start = found.stop

    def _reach(self, start: int, most: int) -> Stretch:
        shape, stop = self.chunks[start][0].shape, start + 1
        axis, step = self.axes[0] if self.axes else 0, 0
        if self.starts and most > stop:
            step = self.starts[stop] - self.starts[start]
            axis, room = self._between(shape, step)
            most = min(most, start + room)
        while stop < most and self.chunks[stop][0].shape == shape:
            if self.starts and self.starts[stop] - self.starts[stop - 1] != step:
                break
            stop += 1
        return Stretch(start, stop, axis, step)

    def _between(self, shape: tuple[int, ...], step: int) -> tuple[int, int]:
        """Where an axis of this step stands for positions to stay in C order, and how long it may be."""
        live = [(a, s) for a, s in zip(self.axes, self.steps, strict=True) if shape[a] > 1]
        below = [(a, s) for a, s in live if s < step]
        above = [s for _, s in live if s >= step]
        if step <= 0 or sum((shape[a] - 1) * s for a, s in below) >= step or (above and self.is_ordered):
            return 0, 1
        axis = below[0][0] if below else self.axes[-1] + 1
        return axis, min(above) // step if above else len(self.chunks)

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
