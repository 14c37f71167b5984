"""Where a chunk lies in the whole array; positions of elements follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ArgumentError, message


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


class Places(list[Place]):
    """Places of chunks that are reduced together, often more than once: where each starts is found once."""

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__(places)
        self._starts: dict[tuple[int, ...], Any] = {}

    def starts(self, axes: tuple[int, ...]) -> Any:
        """The positions of the chunks' first elements, as int64."""
        if axes not in self._starts:
            steps = self[0].steps(axes)
            offsets = np.array([[p.offsets[a] for a in axes] for p in self], np.int64)
            self._starts[axes] = offsets.reshape(len(self), -1) @ np.array(steps, np.int64)
        return self._starts[axes]


def starts_of(places: Sequence[Place], axes: tuple[int, ...]) -> Any:
    """The positions of the first elements of chunks in one array."""
    return (places if isinstance(places, Places) else Places(places)).starts(axes)


def place_chunks(name: str, chunks: Sequence[Sequence[float]], axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Chunk sizes that give every chunk its position along the reduced axes; other axes count as nothing. A position
    needs the sizes of the chunks before it and, but for the first reduced axis, of the whole axis."""
    for axis in axes:
        sizes = chunks[axis][:-1] if axis == axes[0] else chunks[axis]
        if any(math.isnan(n) for n in sizes):
            received, expected = f"unknown chunk sizes along axis {axis}", "known sizes, because the result depends on"
            raise ArgumentError(message(name, received, f"{expected} positions", "Call x.compute_chunk_sizes() first."))
    return tuple(
        tuple(0 if a not in axes else 1 if math.isnan(n) else int(n) for n in sizes) for a, sizes in enumerate(chunks)
    )
