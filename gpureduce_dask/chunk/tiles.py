"""How a chunk on the host is cut: axes sorted by memory, neighbours merged, tiles that stay in cache.

Every tile is a block of shape (outer, n, inner): kept axes, the reduced ones, and those kept axes that lie closer
together in memory than any reduced one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..monoid import Array, DType

Slices = tuple[slice, ...]

# Xeon 2.6 GHz, NumPy 2.4, chunks of 64 MiB, 2026-11
ROWS = 64  # a column tile's least depth where the axis has it: what combining tiles costs is shared by these rows
ENOUGH = 1 << 13  # elements: a smaller tile that needs no copy is worth less than a larger one that does


@dataclass(frozen=True)
class Dim:
    """One axis, or several merged: its size, its stride in each array, and the step of an element's position."""

    size: int
    strides: tuple[int, ...]
    step: int = 0


@dataclass(frozen=True)
class Layout:
    """The axes of a chunk in the order they are walked, those of size 1 left out."""

    outer: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    kept: tuple[int, ...]  # the chunk's kept axes in the order of outer and inner

    @property
    def dims(self) -> tuple[Dim, ...]:
        return (*self.outer, *self.reduced, *self.inner)


def lay_out(arrays: tuple[Array, ...], axes: tuple[int, ...], steps: dict[int, int], c_order: bool) -> Layout:
    """Sort the axes by stride and merge what lies together; ``c_order`` leaves the reduced axes in their order."""
    shape = arrays[0].shape
    live = [a for a in range(len(shape)) if shape[a] > 1]
    stride = {a: abs(arrays[0].strides[a]) for a in live}
    by_stride = sorted(live, key=lambda a: -stride[a])
    reduced = [a for a in (live if c_order else by_stride) if a in axes]
    kept = [a for a in by_stride if a not in axes]
    least = min((stride[a] for a in reduced), default=0)
    inner = [a for a in kept if stride[a] < least]
    outer = [a for a in kept if stride[a] >= least]

    def dims(group: list[int]) -> tuple[Dim, ...]:
        return merge(Dim(shape[a], tuple(x.strides[a] for x in arrays), steps.get(a, 0)) for a in group)

    return Layout(dims(outer), dims(reduced), dims(inner), (*outer, *inner))


def merge(dims: Iterator[Dim]) -> tuple[Dim, ...]:
    """Neighbours that one stride (and one step of the position) walks through become one."""
    merged: list[Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if last and (*last.strides, last.step) == tuple(s * dim.size for s in (*dim.strides, dim.step)):
            merged[-1] = Dim(last.size * dim.size, dim.strides, dim.step)
        else:
            merged.append(dim)
    return tuple(merged)


def grow(layout: Layout, budget: int, ordered: bool, apart: bool) -> tuple[int, ...]:
    """The extents of a tile of at most ``budget`` elements, grown from the shortest stride on.

    With ``apart`` at most one axis of a group grows, so that the tile is a view of three axes. With ``ordered`` the
    reduced part stays one stretch in C order.
    """
    dims = layout.dims
    first, last = len(layout.outer), len(layout.outer) + len(layout.reduced)
    depth = math.prod(d.size for d in layout.reduced)
    extents = [1] * len(dims)
    room = budget if depth == 1 else max(budget // min(depth, ROWS), 1)
    for i in range(len(dims) - 1, last - 1, -1):
        extents[i] = min(dims[i].size, room)
        room //= extents[i]
        if extents[i] < dims[i].size or apart:
            break
    room = budget // math.prod(extents)
    rest = list(range(last - 1, -1, -1))
    if not ordered:
        rest.sort(key=lambda i: abs(dims[i].strides[0]))
    blocked = [False, False]
    for i in rest:
        group = first <= i < last
        if not blocked[group]:
            square = not ordered and not apart and i != rest[-1] and _crossed(layout)
            extents[i] = min(dims[i].size, math.isqrt(room) if square else room)
            room //= extents[i]
            blocked[group] = extents[i] > 1 if apart else False
            blocked[group] |= ordered and group and extents[i] < dims[i].size
    return tuple(extents)


def _crossed(layout: Layout) -> bool:
    """True where the reduced axes, in C order, do not lie in that order in memory."""
    strides = [abs(d.strides[0]) for d in layout.reduced]
    return strides != sorted(strides, reverse=True)


@lru_cache(maxsize=8)
def positions(extents: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Positions of a tile's elements along its reduced axes, from that of its first."""
    at = np.zeros((), np.int64)
    for extent, step in zip(extents, steps, strict=True):
        at = at[..., None] + np.arange(extent, dtype=np.int64) * step
    at = at.reshape(-1)
    at.flags.writeable = False
    return at


class Walk:
    """The tiles of one chunk: which there are, and the block of elements of each."""

    def __init__(self, arrays: tuple[Array, ...], dtypes: tuple[DType, ...], layout: Layout, extents: tuple[int, ...]):
        self.layout, self.extents, self.dtypes = layout, extents, dtypes
        shape = tuple(d.size for d in layout.dims)
        self.views = [
            as_strided(x, shape, tuple(d.strides[k] for d in layout.dims), writeable=False)
            for k, x in enumerate(arrays)
        ]
        self.first = len(layout.outer)
        self.last = self.first + len(layout.reduced)
        size = 0 if self.is_direct() else math.prod(extents)
        self.scratch = [np.empty(size, dtype) for dtype in dtypes]

    def is_direct(self) -> bool:
        """True where every tile is a view of three axes of the right dtype, so that nothing is copied."""
        groups = (self.extents[: self.first], self.extents[self.first : self.last], self.extents[self.last :])
        plain = all(v.dtype == d and v.flags.aligned for v, d in zip(self.views, self.dtypes, strict=True))
        return plain and all(sum(e > 1 for e in group) <= 1 for group in groups)

    def _ranges(self, start: int, stop: int) -> list[list[slice]]:
        dims = zip(self.layout.dims[start:stop], self.extents[start:stop], strict=True)
        return [[slice(i, min(i + e, d.size)) for i in range(0, d.size, e)] for d, e in dims]

    def cells(self) -> Iterator[tuple[Slices, Slices]]:
        """The kept part of every tile: slices of the outer and of the inner axes."""
        n = self.first
        for kept in itertools.product(*self._ranges(0, n), *self._ranges(self.last, len(self.extents))):
            yield kept[:n], kept[n:]

    def runs(self) -> list[Slices]:
        """The reduced part of every tile, in C order where the layout is."""
        return list(itertools.product(*self._ranges(self.first, self.last)))

    def blocks(self, outer: Slices, run: Slices, inner: Slices) -> list[Array]:
        """The elements of one tile, of shape (outer, n, inner) each; valid until the next call."""
        out = []
        for view, scratch in zip(self.views, self.scratch, strict=True):
            tile = view[(*outer, *run, *inner)]
            sizes = tile.shape
            if scratch.size:
                copy = scratch[: tile.size].reshape(sizes)
                np.copyto(copy, tile, casting="unsafe")
                tile = copy
            out.append(
                tile.reshape(
                    math.prod(sizes[: self.first]),
                    math.prod(sizes[self.first : self.last]),
                    math.prod(sizes[self.last :]),
                )
            )
        return out

    def positions(self, run: Slices) -> tuple[Array, int]:
        """Positions of a run's elements from that of its first, and the first's from the chunk's."""
        steps = tuple(d.step for d in self.layout.reduced)
        start = sum(s.start * step for s, step in zip(run, steps, strict=True))
        return positions(tuple(s.stop - s.start for s in run), steps), start


def walk(
    arrays: tuple[Array, ...],
    dtypes: tuple[DType, ...],
    layout: Layout,
    budgets: tuple[int, int],
    ordered: bool,
) -> Walk:
    """Tiles that are views where they can be (of the first budget), else copies in a scratch (of the second)."""
    direct = Walk(arrays, dtypes, layout, grow(layout, budgets[0], ordered, True))
    total = math.prod(d.size for d in layout.dims)
    if direct.is_direct() and math.prod(direct.extents) >= min(ENOUGH, total):
        return direct
    return Walk(arrays, dtypes, layout, grow(layout, budgets[1], ordered, False))
