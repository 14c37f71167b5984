"""How a chunk on the host is cut: axes sorted by memory, neighbours merged, tiles that stay in cache.

Every tile is a block of shape (outer, n, inner): kept axes, the reduced ones, and those kept axes that lie closer
together in memory than any reduced one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from ..operators.monoid import Array, DType

Slices = tuple[slice, ...]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, chunks of 64 MiB, 2026-11
DEPTH = 32  # rows of a column tile at least, where the axis has them, and up to twice as many: wide rows are read at
# full speed, but states of many cells take as long to combine as some rows to add
CELLS = 1 << 14  # kept elements of a tile: its states are temporaries
# Elements of a state at least where those of several axes are folded: else a copy takes less time, of large chunks but
# that of short rows. Extrema of float64 of (60, 200, 150) along its first and last axis take 0.4 of the time so, and
# sums of (20, 20, 597) 1.3 times as long (EPYC, one thread, 2026-11).
FEW, FEW_OF_LARGE, LARGE = 1 << 10, 1 << 7, 1 << 19
ENOUGH = 1 << 13  # elements of a chunk from which on turning pays
# Elements: a smaller tile that needs no copy takes longer than a larger one that does, for a tile costs 20-50 us and a
# copied element 0.2 ns (EPYC, 2 cores, too).
VIEWED = 1 << 17
# Elements side by side, or of a row, below which NumPy's loops take longer than to copy more of them together: of int8
# in rows of 13 with gaps between them, 12 of which make a row of the copy, a fifth of the time (EPYC).
RUN = 1 << 6
DEEP = 1 << 6  # elements of a cell, at least, of columns that are made more than there are, to be folded afterwards


@dataclass(frozen=True)
class Budget:
    """Elements of a tile: one of rows or of columns that is a view, and one that is copied.

    A view that holds a part of the reduced axis is made longer along it, to at most ``depth``.
    """

    rows: int
    columns: int
    depth: int
    copy: int
    unit: int = 0  # bytes from one element of a row to the next that a view must have; 0 for any
    short: int = 0  # up to this length, rows are copied into columns
    narrow: int = 0  # up to this width, columns are copied into rows
    cells: int = CELLS  # at most
    is_computed: bool = False  # tiles are computed of elements as they lie: one that is no view takes no copy


@dataclass(frozen=True)
class Dim:
    """One axis, or several merged: its size, its stride in each array, and the step of an element's position."""

    size: int
    strides: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class Tiling:
    """The axes of a chunk in the order they are walked, and the extents of a tile. Axes of size 1 are left out."""

    outer: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    order: tuple[int, ...]  # the chunk's axes: outer, reduced, inner, and those left out
    kept: tuple[int, ...]  # the chunk's kept axes: outer and inner
    extents: tuple[int, ...] = ()
    direct: bool = False
    turned: bool = False  # a copy holds rows as columns, or columns as rows

    def separate_axes(self, shape: tuple[int, ...], by_short_rows: bool) -> tuple[int, ...]:
        """The chunk's reduced axes whose elements' states are folded afterwards; none where these would not be few.

        Axes that do not lie together would be copied; states of the others take less time to fold. Those axes are the
        ones of the shortest stride, taken as rows, or all others, of which each place along these is a column.
        """
        if len(self.reduced) < 2:
            return ()
        reduced = [a for a in self.order if a not in self.kept and shape[a] > 1]
        line, count, size = self.reduced[-1], 0, 1
        while size < line.size:
            count += 1
            size *= shape[reduced[-count]]
        total, apart = math.prod(shape), abs(self.reduced[-2].strides[0])
        cells = math.prod(shape[a] for a in self.kept)
        width = size * math.prod(d.size for d in (*self.outer, *self.inner) if abs(d.strides[0]) < apart)
        few = FEW_OF_LARGE if by_short_rows and total >= LARGE else FEW
        of_rows = total // size if size >= few else total
        of_columns = cells * size if width >= RUN and total >= DEEP * cells * size else total
        if of_columns < of_rows:
            return tuple(reduced[-count:])
        return tuple(reduced[:-count]) if of_rows < total else ()

    @property
    def keeps_between(self) -> bool:
        """Whether kept axes lie between those that are reduced."""
        longest = max((abs(d.strides[0]) for d in self.reduced), default=0)
        return any(abs(d.strides[0]) < longest for d in self.outer)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return (*self.outer, *self.reduced, *self.inner)


@lru_cache(maxsize=256)
def tiling_of(
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
    budget: Budget,
    c_order: bool,
    ordered: bool,
    readable: bool,
) -> Tiling:
    """Axes sorted and merged, and tiles that are views where they can be, else copies in a scratch.

    ``steps`` are those of the positions along ``axes``. With ``c_order`` the reduced axes stay in their order, with
    ``ordered`` a tile is one stretch of them. ``readable`` elements need no cast.
    """
    laid = _lay_out(shape, strides, axes, dict(zip(axes, steps, strict=True)), c_order)
    total, length, width = (math.prod(d.size for d in dims) for dims in (laid.dims, laid.reduced, laid.inner))
    few = width <= budget.narrow < length if laid.inner else 1 < length <= budget.short
    turned = few and total >= ENOUGH
    spread = budget.unit and not laid.inner and laid.reduced and laid.reduced[-1].strides[0] != budget.unit
    copied = _grow(laid, budget.copy, budget.cells, ordered, False)
    if readable and not turned and not spread:
        size = budget.columns if laid.inner else budget.rows
        extents = _deepen(laid, _grow(laid, size, budget.cells, ordered, True), budget.depth)
        least = math.prod(copied) if budget.is_computed else min(VIEWED, size // 2, math.prod(copied))
        is_large = math.prod(extents) >= least
        if is_large and _run(laid, extents) >= min(RUN, _run(laid, copied)):
            return replace(laid, extents=extents, direct=True)
    return replace(laid, extents=copied, turned=turned)


def _lay_out(
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    axes: tuple[int, ...],
    steps: dict[int, int],
    c_order: bool,
) -> Tiling:
    live = [a for a in range(len(shape)) if shape[a] > 1]
    by_stride = sorted(live, key=lambda a: -abs(strides[0][a]))
    reduced = [a for a in (live if c_order else by_stride) if a in axes]
    kept = [a for a in by_stride if a not in axes]
    least = min((abs(strides[0][a]) for a in reduced), default=0)
    inner = [a for a in kept if abs(strides[0][a]) < least]
    outer = [a for a in kept if abs(strides[0][a]) >= least]

    def dims(group: list[int]) -> tuple[Dim, ...]:
        return _merge(Dim(shape[a], tuple(s[a] for s in strides), steps.get(a, 0)) for a in group)

    rest = (a for a in range(len(shape)) if shape[a] == 1)
    order = (*outer, *reduced, *inner, *rest)
    unit = tuple(a for a in range(len(shape)) if shape[a] == 1 and a not in axes)
    return Tiling(dims(outer), dims(reduced), dims(inner), order, (*outer, *inner, *unit))


def _merge(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """Neighbours that one stride (and one step of the position) walks through become one."""
    merged: list[Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if last and (*last.strides, last.step) == tuple(s * dim.size for s in (*dim.strides, dim.step)):
            merged[-1] = Dim(last.size * dim.size, dim.strides, dim.step)
        else:
            merged.append(dim)
    return tuple(merged)


def _grow(laid: Tiling, budget: int, most: int, ordered: bool, apart: bool) -> tuple[int, ...]:
    """The extents of a tile of at most ``budget`` elements and ``most`` cells, grown from the shortest stride on.

    With ``apart`` a group grows along one axis, or along those that lie in memory as one: the tile is then a view of
    three axes.
    """
    dims = laid.dims
    first, last = len(laid.outer), len(laid.outer) + len(laid.reduced)
    depth = math.prod(d.size for d in laid.reduced)
    extents = [1] * len(dims)
    deep = depth if depth <= 2 * DEPTH else DEPTH
    room = min(max(budget // deep, 1), most)
    for i in range(len(dims) - 1, last - 1, -1):
        extents[i] = min(dims[i].size, room)
        room //= extents[i]
        if apart or extents[i] < dims[i].size:
            break
    cells = most // math.prod(extents)
    room = budget // math.prod(extents)
    rest = list(range(last - 1, -1, -1))
    if not ordered:
        rest.sort(key=lambda i: abs(dims[i].strides[0]))
    closed = [False, False]  # the outer axes, the reduced ones
    for i in rest:
        group = first <= i < last
        if closed[group]:
            continue
        # Reduced axes in C order may lie across memory: a square tile uses all of each cache line it touches.
        square = not apart and group and not ordered and i > first and _is_crossed(laid)
        extent = math.isqrt(room) if square else room if group else min(room, cells)
        extents[i] = min(dims[i].size, extent)
        room //= extents[i]
        cells //= 1 if group else extents[i]
        stops = extents[i] < dims[i].size
        parts = extents[i] > 1 and (stops or not _continues(dims, i))
        closed[group] = (apart and parts) or (ordered and group and stops)
    return tuple(extents)


def _run(laid: Tiling, extents: tuple[int, ...]) -> int:
    """Elements of a tile that one loop takes: cells side by side, or else those of a row."""
    last = len(laid.outer) + len(laid.reduced)
    return math.prod(extents[last:] if laid.inner else extents[len(laid.outer) : last])


def _continues(dims: Sequence[Dim], i: int) -> bool:
    """True where the axis before this one goes on where this one ends: a stretch of both is one stretch of memory."""
    return i > 0 and dims[i - 1].strides == tuple(s * dims[i].size for s in dims[i].strides)


def _is_crossed(laid: Tiling) -> bool:
    """True where the reduced axes do not lie in memory in the order they are walked."""
    strides = [abs(d.strides[0]) for d in laid.reduced]
    return strides != sorted(strides, reverse=True)


def _deepen(laid: Tiling, extents: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """A tile made longer along the reduced axis that has grown, if one has."""
    first, last = len(laid.outer), len(laid.outer) + len(laid.reduced)
    longer = (
        min(d.size, max(e, depth)) if first <= i < last and e > 1 else e
        for i, (d, e) in enumerate(zip(laid.dims, extents, strict=True))
    )
    return tuple(longer)


@dataclass(frozen=True)
class Positions:
    """Where the elements of a tile stand along the reduced axes, by their number within the tile."""

    extents: tuple[int, ...]
    steps: tuple[int, ...]
    start: int

    def __getitem__(self, at: Array) -> Array:
        where = np.full(np.shape(at), self.start, np.int64)
        for extent, step in zip(self.extents[:0:-1], self.steps[:0:-1], strict=True):
            at, along = np.divmod(at, extent)
            where += along * step
        if self.steps:
            where += at * self.steps[0]
        return where

    def all(self) -> Array:
        """The positions of all elements of the tile, in order."""
        return self[np.arange(math.prod(self.extents))]


class Walk:
    """The tiles of one chunk: which there are, and the block of elements of each."""

    def __init__(self, arrays: tuple[Array, ...], dtypes: tuple[DType, ...], tiling: Tiling):
        self.tiling = tiling
        shape = tuple(d.size for d in tiling.dims)
        self.views = [x.transpose(tiling.order).reshape(shape) for x in arrays]  # never a copy: strides have merged
        self.first = len(tiling.outer)
        self.last = self.first + len(tiling.reduced)
        self.dtypes = dtypes

    @cached_property
    def scratch(self) -> list[Array]:
        """Where tiles are copied to, if they are."""
        size = 0 if self.tiling.direct else math.prod(self.tiling.extents)
        return [np.empty(size, dtype) for dtype in self.dtypes]

    def _ranges(self, start: int, stop: int) -> list[list[slice]]:
        dims = zip(self.tiling.dims[start:stop], self.tiling.extents[start:stop], strict=True)
        return [[slice(i, min(i + e, d.size)) for i in range(0, d.size, e)] for d, e in dims]

    def cells(self) -> Iterator[tuple[Slices, Slices]]:
        """The kept part of every tile: slices of the outer and of the inner axes."""
        n = self.first
        for kept in itertools.product(*self._ranges(0, n), *self._ranges(self.last, len(self.tiling.dims))):
            yield kept[:n], kept[n:]

    def runs(self) -> list[Slices]:
        """The reduced part of every tile, in C order where the tiling is."""
        return list(itertools.product(*self._ranges(self.first, self.last)))

    def blocks(self, outer: Slices, run: Slices, inner: Slices) -> list[Array]:
        """The elements of one tile, of shape (outer, n, inner) each; valid until the next call."""
        views = self.views_of(outer, run, inner)
        return [self.block(v, s) for v, s in zip(views, self.scratch, strict=True)]

    def views_of(self, outer: Slices, run: Slices, inner: Slices) -> list[Array]:
        """The elements of one tile as they lie, with an axis for each dimension of the tiling."""
        return [v[(*outer, *run, *inner)] for v in self.views]

    def as_block(self, tile: Array) -> Array:
        """A tile, or what was computed of one, of shape (outer, n, inner): a view where it is contiguous enough."""
        tile, shape = self.shaped(tile)
        return tile.reshape(shape)

    def block(self, tile: Array, scratch: Array) -> Array:
        if self.tiling.direct:
            return self.as_block(tile)
        tile, shape = self.shaped(tile)
        copy = scratch[: tile.size]
        np.copyto(copy.reshape(tile.shape), tile, casting="unsafe")
        return copy.reshape(shape)

    def shaped(self, tile: Array) -> tuple[Array, tuple[int, int, int]]:
        """A tile with its axes in the order of the block's, and the block's shape (outer, n, inner)."""
        rows, n = math.prod(tile.shape[: self.first]), math.prod(tile.shape[self.first : self.last])
        inner = math.prod(tile.shape[self.last :])
        if not self.tiling.turned:
            return tile, (rows, n, inner)
        outer, middle, last = range(self.first), range(self.first, self.last), range(self.last, tile.ndim)
        if inner > 1:
            return tile.transpose(*outer, *last, *middle), (rows * inner, n, 1)
        return tile.transpose(*middle, *outer), (1, n, rows)

    def positions(self, run: Slices, start: int) -> Positions:
        """The positions of a run's elements, where the chunk's first element has position ``start``."""
        steps = tuple(d.step for d in self.tiling.reduced)
        first = start + sum(s.start * step for s, step in zip(run, steps, strict=True))
        return Positions(tuple(s.stop - s.start for s in run), steps, first)
