"""Groups on the host, over panels that stay in cache.

Where an operator combines states field by field with a ufunc, the ufunc's own ``at`` adds each element to its group.
Otherwise the labels of a panel are sorted, and runs of equal labels are cut into stretches of powers of two: all
stretches of one length are a block, which the operator's fold reduces in one call. Panels meet the groups' states in
order, so that left stays earlier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..binned import Binned, Bins
from ..monoid import Array, Bound, State
from ..operators import OPERATORS
from ..rows import counts, extrema, logic, sums
from ..rows.product import split
from . import box_bins
from .host import as_fields, halve, reduce
from .labels import check_range, labels_at
from .place import Place, whole

Axes = tuple[int, ...]
Chunk = tuple[tuple[Array, ...], Any]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, float32, 2026-11
PANEL = 1 << 16  # elements that are looked at together: their labels and positions are temporaries
LEAST = 1 << 10  # labels of a panel, where cells lie side by side
SIDE = 16  # cells side by side up to which a ufunc's at beats sorting
ROOM = 1 << 20  # elements of a part of a chunk that has to be copied
LINE = 1 << 20  # labels that are looked at for runs at once
RUN = 1 << 13  # elements of a run from which on a call for each costs little

# Operators whose states combine field by field.
AT: dict[Any, tuple[np.ufunc, ...]] = {
    sums.product_combine: (np.multiply,),
    counts.combine: (np.add,),
    logic.count_combine: (np.add,),
    logic.either: (np.logical_or,),
    logic.both: (np.logical_and,),
    extrema.min_combine: (np.minimum,),
    extrema.max_combine: (np.maximum,),
    extrema.nanmin_combine: (np.fmin,),
    extrema.nanmax_combine: (np.fmax,),
    extrema.ptp_combine: (np.minimum, np.maximum),
}
DECIDES = {np.logical_or: True, np.logical_and: False}  # one such element does; their at takes ten times as long
ADDED: dict[Any, int] = {sums.combine: 0, sums.mean_combine: 1}  # a sum, and how many counts behind it


def reduce_many(chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> Array:
    """The partial of chunks of one kept shape: their elements meet the states of the groups in order."""
    if box_bins.takes(bound, axes, chunks):
        return box_bins.reduce_many([arrays for arrays, _ in chunks], bound, axes, places)
    cells: State | None = None
    fields = bound.cells.fields
    for i, (arrays, labels) in enumerate(chunks):
        arrays = tuple(np.asarray(a) for a in arrays)
        shape = arrays[0].shape
        place = places[i] if places else whole(shape)
        view = View(shape, bound.bins.axes, axes)
        if cells is None:
            shape_of_cells = (view.outer, view.rows * bound.bins.count, view.inner)
            cells = tuple(np.full(shape_of_cells, v, d) for v, (_, d) in zip(bound.cells.identity, fields, strict=True))
        if 0 not in shape:
            with np.errstate(all="ignore"):
                _reduce(cells, arrays, labels, bound, view, place)
    assert cells is not None
    return view.partial(bound.cells.pack(cells))


@dataclass(frozen=True)
class View:
    """A chunk as (outer, n, inner): kept axes, all reduced ones, and the kept axes behind the last of these."""

    shape: tuple[int, ...]
    reduced: Axes
    now: Axes  # those that are folded now; the others, ahead of them, count rows of groups

    @property
    def pending(self) -> Axes:
        return tuple(a for a in self.reduced if a not in self.now)

    @property
    def before(self) -> Axes:
        last = max(self.reduced, default=len(self.shape))
        return tuple(a for a in range(last) if a not in self.reduced)

    @property
    def after(self) -> Axes:
        return tuple(range(max(self.reduced, default=len(self.shape)) + 1, len(self.shape)))

    def size(self, axes: Axes) -> int:
        return math.prod(self.shape[a] for a in axes)

    @property
    def outer(self) -> int:
        return self.size(self.before)

    @property
    def rows(self) -> int:
        return self.size(self.pending)

    @property
    def inner(self) -> int:
        return self.size(self.after)

    def partial(self, cells: Array) -> Array:
        """States of shape (outer, groups, inner) as a partial: the chunk's axes, then the groups."""
        shape, order, kept = self.turned(cells.shape[1])
        return np.ascontiguousarray(cells.reshape(shape).transpose(order)).reshape(kept)

    def turned(self, groups: int) -> tuple[Axes, Axes, Axes]:
        """For :meth:`partial`: axes of what is kept and the groups, their order in a partial, and its shape."""
        groups //= max(self.rows, 1)
        parts, ahead = (*self.before, *self.pending, *self.after), len(self.before) + len(self.pending)
        shape = (*(self.shape[a] for a in parts[:ahead]), groups, *(self.shape[a] for a in self.after))
        order = (*(parts.index(a) + (a in self.after) for a in sorted(parts)), ahead)
        return shape, order, (*(1 if a in self.now else n for a, n in enumerate(self.shape)), groups)

    def blocks(self, arrays: tuple[Array, ...]) -> Iterator[tuple[slice, slice, tuple[Array, ...]]]:
        """The chunk in blocks of (outer, n, inner), in C order, and where they lie along the first two."""
        order = (*self.before, *self.reduced, *self.after)
        laid = [a.transpose(order) for a in arrays]
        outer, n, inner = self.outer, self.size(self.reduced), self.inner
        views = all(_is_view(a, (outer, n, inner)) for a in laid)
        lead = laid[0].shape[0] if laid[0].ndim else 1
        step = lead if views else max(1, ROOM * lead // laid[0].size)
        each = (outer if self.before else n) // lead
        for start in range(0, lead, step):
            stop = min(lead, start + step)
            here, count = slice(start * each, stop * each), (stop - start) * each
            shape = (count, n, inner) if self.before else (1, count, inner)
            along = (here, slice(0, n)) if self.before else (slice(0, 1), here)
            yield *along, tuple((a[start:stop] if a.ndim else a).reshape(shape) for a in laid)


def _is_view(array: Array, shape: tuple[int, int, int]) -> bool:
    return np.shares_memory(array, array.reshape(shape)) if array.size > ROOM else True


def _reduce(cells: State, arrays: tuple[Array, ...], labels: Any, bound: Binned, view: View, place: Place) -> None:
    bins = bound.bins
    sizes = tuple(view.shape[a] for a in view.reduced)
    for outer, along, blocks in view.blocks(arrays):
        mine = tuple(f[outer] for f in cells)
        if runs := _long_runs(bins, labels, sizes, place, along, blocks[0].size, view, bound):
            _fold_slices(mine, blocks, runs, bound)
            continue
        inner = blocks[0].shape[2]
        step = max(1, PANEL // inner) if inner <= SIDE else max(LEAST, PANEL // inner)
        for start in range(along.start, along.stop, step):
            stretch = slice(start, min(along.stop, start + step))
            panel = Panel(labels_at(bins, labels, sizes, place, stretch), view, bins, place, stretch)
            if not panel.codes.size:
                continue
            at = slice(start - along.start, stretch.stop - along.start)
            _panel(mine, tuple(b[:, at] for b in blocks), panel, bound)


def _long_runs(
    bins: Bins, labels: Any, sizes: Axes, place: Place, along: slice, elements: int, view: View, bound: Binned
) -> list[tuple[int, int, int]]:
    """Where equal labels lie together and each run has many elements: start, stop and group of each run, else nothing.

    Positions within a run are not those of the array: operators that need them take the other way.
    """
    length = along.stop - along.start
    if length > LINE or view.rows > 1 or any(p.indexed or p.monoid.fold is None for p in bound.parts):
        return []
    mine = labels_at(bins, labels, sizes, place, along)
    check_range(bins, mine)
    starts = [0, *(np.flatnonzero(mine[1:] != mine[:-1]) + 1).tolist()]
    if elements < len(starts) * RUN:
        return []
    return list(zip(starts, [*starts[1:], length], mine[starts].tolist(), strict=True))


def _fold_slices(cells: State, blocks: tuple[Array, ...], runs: list[tuple[int, int, int]], bound: Binned) -> None:
    """Each run as a chunk of its own, where it is."""
    for start, stop, group in runs:
        if group < 0:
            continue
        for part, fields in zip(bound.parts, split(bound.parts, cells), strict=True):
            partial = reduce(tuple(b[:, start:stop] for b in blocks), part, (1,))
            mine = tuple(f[:, group] for f in fields)
            later = tuple(f[:, 0] for f in part.unpack(partial))
            for field, values in zip(
                mine, as_fields(part.monoid.combine(mine, later), part, mine[0].shape), strict=True
            ):
                field[...] = values


class Panel:
    """A stretch of the reduced axes: the group of each element, and its position."""

    def __init__(self, labels: Array, view: View, bins: Bins, place: Place, stretch: slice) -> None:
        check_range(bins, labels)
        self.view, self.place, self.stretch = view, place, stretch
        codes = labels.astype(np.intp, copy=False)
        self.kept = np.flatnonzero(codes >= 0) if codes.size and codes.min() < 0 else None
        if view.rows > 1:
            row = np.arange(stretch.start, stretch.stop) // view.size(view.now)
            codes = np.where(codes < 0, codes, row * bins.count + codes)
        self.codes = codes if self.kept is None else codes[self.kept]
        self._runs: Runs | None = None

    def take(self, block: Array) -> Array:
        """A block's elements that are in a group."""
        return block if self.kept is None else block[:, self.kept]

    @property
    def positions(self) -> Array:
        """Positions in the whole array, in C order over all reduced axes."""
        at = np.arange(self.stretch.start, self.stretch.stop)
        at = at if self.kept is None else at[self.kept]
        axes = self.view.reduced
        steps, start = self.place.steps(axes), self.place.start(axes)
        along = np.unravel_index(at, [self.view.shape[a] for a in axes]) if axes else ()
        return np.asarray(start + sum((i * s for i, s in zip(along, steps, strict=True)), np.zeros(at.shape, np.int64)))

    @property
    def runs(self) -> Runs:
        if self._runs is None:
            self._runs = Runs(self.codes)
        return self._runs


class Runs:
    """Equal labels brought together, each run in order of position."""

    def __init__(self, codes: Array) -> None:
        self.order = None
        if np.any(codes[1:] < codes[:-1]):
            self.order = _argsort(codes)
            codes = codes[self.order]
        self.starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self.lengths = np.diff(self.starts, append=len(codes))
        self.groups = codes[self.starts]


def _argsort(codes: Array) -> Array:
    """A stable order. NumPy sorts 16 bits by their digits: wider labels take two such sorts."""
    low = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    if (codes.max() >> 16) == 0:
        return low
    if (codes.max() >> 32) != 0:
        return np.argsort(codes, kind="stable")
    return low[np.argsort((codes >> 16).astype(np.uint16)[low], kind="stable")]


def _panel(cells: State, blocks: tuple[Array, ...], panel: Panel, bound: Binned) -> None:
    """The elements of a panel, into the states of their groups, fields of shape (outer, groups, inner)."""
    blocks = tuple(panel.take(b) for b in blocks)
    for part, mine in zip(bound.parts, split(bound.parts, cells), strict=True):
        given = tuple(b.astype(d, copy=False) for b, d in zip(blocks, part.elements, strict=True))
        ufuncs = _ufuncs(part) if given[0].shape[2] <= SIDE else None
        rows = max(1, PANEL // (given[0].shape[1] * given[0].shape[2]))
        for start in range(0, len(mine[0]), rows):
            some = slice(start, start + rows)
            tile, states = tuple(b[some] for b in given), tuple(f[some] for f in mine)
            if ufuncs is None:
                _fold_runs(states, tile, panel, part)
            elif not _is_pair(part):
                _at(states, ufuncs, tile, panel, part)
            elif math.prod(states[0].shape) <= tile[0].size:
                _at_apart(states, ufuncs, tile, panel, part)
            else:
                _fold_runs(states, tile, panel, part)


def _ufuncs(bound: Bound) -> tuple[np.ufunc, ...] | None:
    """What combines each field, where that is a ufunc."""
    if bound.monoid.combine in ADDED:
        return (np.add,) * len(bound.fields)
    found = AT.get(bound.monoid.combine)
    return found if found and len(found) == len(bound.fields) else None


def _is_pair(bound: Bound) -> bool:
    """True for sums whose rounding errors are kept: these are added up a panel at a time."""
    fields = len(bound.fields) - ADDED.get(bound.monoid.combine, 0)
    return bound.monoid.combine in ADDED and fields > 1 and bound.fields[0][1].kind == "f"


def _at(states: State, ufuncs: tuple[np.ufunc, ...], blocks: tuple[Array, ...], panel: Panel, bound: Bound) -> None:
    outer, groups, inner = states[0].shape
    where = panel.codes
    if inner > 1 or outer > 1:
        lines = np.arange(outer)[:, None, None] * groups + where[:, None]
        where = (lines * inner + np.arange(inner)).reshape(-1)
    lifted = as_fields(bound.monoid.lift(*blocks, np.zeros((), np.int64)), bound, blocks[0].shape)
    for ufunc, field, values in zip(ufuncs, states, lifted, strict=True):
        flat, given = _plain(field.reshape(-1)), _plain(values.reshape(-1))  # lines of a contiguous array: a view
        if ufunc in DECIDES:
            flat[where[given == DECIDES[ufunc]]] = DECIDES[ufunc]
        else:
            ufunc.at(flat, where, given)


def _plain(values: Array) -> Array:
    """The same elements with NumPy's own instance of their dtype: with an equal one, a ufunc's at takes 30 times as
    long."""
    return values.view(values.dtype.type) if values.dtype.kind in "biufc" else values


def _at_apart(
    states: State, ufuncs: tuple[np.ufunc, ...], blocks: tuple[Array, ...], panel: Panel, bound: Bound
) -> None:
    """The panel's own states first, which are then combined with those before."""
    shape = states[0].shape
    mine = tuple(np.full(shape, value, d) for value, (_, d) in zip(bound.identity, bound.fields, strict=True))
    _at(mine, ufuncs, blocks, panel, bound)
    for field, values in zip(states, bound.monoid.combine(states, mine), strict=True):
        field[...] = values


def _fold_runs(states: State, blocks: tuple[Array, ...], panel: Panel, bound: Bound) -> None:
    runs = panel.runs
    before = tuple(f[:, runs.groups] for f in states)
    mine = as_fields(bound.monoid.combine(before, _states_of(blocks, panel, bound)), bound, before[0].shape)
    for field, values in zip(states, mine, strict=True):
        field[:, runs.groups] = values


def _states_of(blocks: tuple[Array, ...], panel: Panel, bound: Bound) -> State:
    """The state of each run, of shape (outer, runs, inner)."""
    runs, (outer, _, inner) = panel.runs, blocks[0].shape
    begins, done = runs.starts.copy(), np.zeros(len(runs.starts), bool)
    found = tuple(np.empty((outer, len(begins), inner), d) for _, d in bound.fields)
    positions = panel.positions if bound.indexed or bound.monoid.fold is None else None
    for bit in reversed(range(int(runs.lengths.max()).bit_length())):
        size = 1 << bit
        (which,) = np.nonzero(runs.lengths & size)
        if not len(which):
            continue
        where = begins[which][:, None] + np.arange(size)
        begins[which] += size
        where = where if runs.order is None else runs.order[where]
        state = _fold(tuple(b[:, where] for b in blocks), where, positions, bound)
        is_later = done[which]
        earlier, fresh = which[is_later], which[~is_later]
        both = bound.monoid.combine(tuple(f[:, earlier] for f in found), tuple(f[:, is_later] for f in state))
        both = as_fields(both, bound, (outer, len(earlier), inner))
        for field, first, joined in zip(found, state, both, strict=True):
            field[:, fresh] = first[:, ~is_later]
            field[:, earlier] = joined
        done[which] = True
    return found


def _fold(blocks: tuple[Array, ...], where: Array, positions: Array | None, bound: Bound) -> State:
    """The states of stretches of one length: blocks of shape (outer, stretches, length, inner)."""
    outer, count, size, inner = blocks[0].shape
    monoid = bound.monoid
    if monoid.fold is None or (bound.indexed and OPERATORS.get(bound.name) != monoid):
        assert positions is not None
        lifted = as_fields(monoid.lift(*blocks, positions[where][None, :, :, None]), bound, blocks[0].shape)
        return tuple(f[:, :, 0] for f in halve(lifted, bound, 2))
    flat = tuple(b.reshape(outer * count, size, inner) for b in blocks)
    state = as_fields(monoid.fold(*flat, np.arange(size) if bound.indexed else None), bound, (outer * count, inner))
    state = tuple(f.reshape(outer, count, inner) for f in state)
    if positions is None:
        return state
    # A fold finds where in its stretch an element lies.
    lines = np.broadcast_to(np.arange(count)[:, None], state[-1].shape)
    at = positions[where[lines, np.maximum(state[-1], 0)]]
    return (*state[:-1], np.where(state[-1] < 0, -1, at))
