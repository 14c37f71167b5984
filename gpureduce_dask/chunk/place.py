"""Where a chunk lies in the whole array; positions of elements follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The coordinates of a chunk's first element, and the shape of the whole array."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def steps(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """How far an element's position moves with one step along each reduced axis: C order over those axes."""
        return tuple(math.prod(self.shape[b] for b in axes[i + 1 :]) for i in range(len(axes)))

    def start(self, axes: tuple[int, ...]) -> int:
        """The position of the chunk's first element."""
        return sum(self.offsets[a] * step for a, step in zip(axes, self.steps(axes), strict=True))


def whole(shape: tuple[int, ...]) -> Place:
    """The place of a chunk that is the whole array."""
    return Place((0,) * len(shape), shape)
