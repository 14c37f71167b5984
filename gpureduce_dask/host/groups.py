"""Groups on the host, over panels that stay in cache.

Where an operator combines states field by field with a ufunc, the ufunc's own ``at`` adds each element to its group.
Otherwise the labels of a panel are sorted, and runs of equal labels are cut into stretches of powers of two: all
stretches of one length are a block, which the operator's fold reduces in one call. Panels meet the groups' states in
order, so that left stays earlier.

Labels of each axis apart make boxes: the last axis is reduced first, run by run where equals lie together, and what it
leaves is combined along the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, product
from typing import Any

import numpy as np

from ..labels import Panel, View, check_range, labels_at
from ..operators import counts, extrema, logic, moments, native, prod, sums
from ..operators.grouped import Binned, Bins, Labels
from ..operators.monoid import Array, Bound, State
from ..operators.product_monoid import split
from ..operators.scratch import Scratch
from ..operators.table import OPERATORS
from ..place import Place, whole
from .reduce import JOINED, as_fields, combine, combine_axis, halve, reduce, results_of

Axes = tuple[int, ...]
Chunk = tuple[tuple[Array, ...], Any]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, float32, 2026-11
PANEL = 1 << 16  # elements that are looked at together: their labels and positions are temporaries
LARGEST = 1 << 22  # and where there are more groups than that
LEAST = 1 << 10  # labels of a panel, where cells lie side by side
STRIP = 1 << 12  # cells side by side that are looked at together: narrower strips take more calls than they save
SIDE = 16  # cells side by side up to which a ufunc's at beats sorting
LINE = 1 << 20  # labels that are looked at for runs at once
RUN, LABELS = 1 << 13, 8  # elements of a run, and labels, from which on a call for each costs little
# EPYC, NumPy 2.4, float32, in a worker of dask's nanny, 2026-11: its malloc maps pages for arrays from 128 KiB on, and
# each costs 2.5 us. Hence states of some cells at a time, as many as are combined so (JOINED)
MANY = 32  # elements of each state, on average, up to which neighbours are reduced together,
TALL = 1 << 12  # and of each cell: blocks are then wide enough to read whole lines of cache
BLOCK = 1 << 19  # bytes of neighbours of which some cells are reduced together,
WAITING = 1 << 23  # bytes of chunks' partials that wait to be combined
BOX = 64  # elements of the last axis a group of it, on average: what it leaves is much less than the chunk

# Operators whose states combine field by field.
AT: dict[Any, tuple[np.ufunc, ...]] = {
    prod.combine: (np.multiply, np.add),
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
SPREADS = frozenset({moments.fold, moments.fold_present})
# Folds whose sums compiled loops add up, and whether they leave NaN out.
COMPILED: dict[Any, bool] = {
    sums.fold: False,
    sums.mean_fold: False,
    sums.fold_present: True,
    sums.mean_fold_present: True,
}
ADDED: dict[Any, int] = {sums.combine: 0, sums.mean_combine: 1}  # a sum, and how many counts behind it

_scratch = Scratch()


def reduce_many(chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> Array:
    """The partial of chunks of one kept shape: their elements meet the states of the groups in order.

    Of neighbours with few elements a state, some cells of all are copied into one block at a time: to combine the
    states of each takes longer than to reduce it, in memory that is fresh each time.
    """
    if _are_boxes(bound, axes, chunks):
        return _reduce_boxes([arrays for arrays, _ in chunks], bound, axes, places)
    chunks = [(tuple(map(np.asarray, arrays)), labels) for arrays, labels in chunks]
    stretches = _stretches(chunks, bound, axes, places)
    if len(stretches) == len(chunks):
        view, cells = _states(chunks, bound, axes, places)
        return view.partial(bound.cells.pack(cells), bound.bins.count)
    shape, (axis,) = chunks[0][0][0].shape, axes
    partial = np.empty((*(1 if a == axis else n for a, n in enumerate(shape)), bound.bins.count), bound.cells.state)
    cut = max((a for a in range(len(shape)) if a != axis), key=shape.__getitem__)
    most = max(sum(a.nbytes for i in stretch for a in chunks[i][0]) for stretch in stretches)
    states = math.prod(partial.shape) // max(1, shape[cut])
    step = max(1, min(BLOCK * shape[cut] // max(1, most), JOINED // max(1, states)))
    labels = [np.concatenate([_labels_of(chunks, i, bound, axis, places) for i in each]) for each in stretches]
    starts = [places[each[0]] for each in stretches] if places else None
    unlabelled = replace(bound, bins=replace(bound.bins, known=None))
    for start in range(0, shape[cut], step):
        at = (*(slice(None),) * cut, slice(start, start + step))
        blocks = (_side_by_side([chunks[i][0] for i in each], at, axis) for each in stretches)
        view, cells = _states(zip(blocks, labels, strict=True), unlabelled, axes, starts)
        for (name, _), values in zip(bound.cells.fields, cells, strict=True):
            partial[name][at] = view.partial(values, bound.bins.count)
    return partial


def _stretches(chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> list[list[int]]:
    """Neighbours that are reduced as one chunk, so that there are many elements a state: along the one reduced axis,
    beside others. Where positions matter, none is missing between them."""
    if axes != bound.bins.axes or len(axes) != 1 or chunks[0][0][0].ndim == 1:
        return [[i] for i in range(len(chunks))]
    is_placed = any(p.indexed or p.monoid.fold is None for p in bound.parts)
    sizes = [arrays[0].shape[axes[0]] for arrays, _ in chunks]
    starts = [place.offsets[axes[0]] for place in places] if places and is_placed else [*accumulate(sizes, initial=0)]
    most, length, found = min(MANY * bound.bins.count, TALL), 0, list[list[int]]()
    for i, size in enumerate(sizes):
        if found and length + size <= most and starts[i - 1] + sizes[i - 1] == starts[i]:
            found[-1].append(i)
            length += size
        else:
            found.append([i])
            length = size
    return found


def _labels_of(chunks: Sequence[Chunk], number: int, bound: Binned, axis: int, places: Sequence[Place] | None) -> Array:
    """A chunk's labels along its one reduced axis."""
    (array, *_), labels = chunks[number]
    place = places[number] if places else whole(array.shape)
    return labels_at(bound.bins, labels, (array.shape[axis],), place, slice(0, array.shape[axis]))


def _side_by_side(chunks: list[tuple[Array, ...]], at: Any, axis: int) -> tuple[Array, ...]:
    """Some cells of neighbours, in memory that the next block takes again."""
    found = []
    for n, column in enumerate(zip(*chunks, strict=True)):
        parts = [a[at] for a in column]
        shape = tuple(sum(p.shape[axis] for p in parts) if a == axis else size for a, size in enumerate(parts[0].shape))
        block = _scratch.block(n, parts[0].dtype, shape, math.prod(shape))
        found.append(np.concatenate(parts, axis, out=block))
    return tuple(found)


def _states(chunks: Iterable[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> tuple[View, State]:
    """The states of the groups, fields of shape (outer, groups, inner), and how a chunk is seen as that."""
    cells: State | None = None
    fields = bound.cells.fields
    for i, (arrays, labels) in enumerate(chunks):
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
    return view, cells


def _reduce(cells: State, arrays: tuple[Array, ...], labels: Any, bound: Binned, view: View, place: Place) -> None:
    bins = bound.bins
    sizes = tuple(view.shape[a] for a in view.reduced)
    for outer, along, blocks in view.blocks(arrays):
        mine = tuple(f[outer] for f in cells)
        if runs := _long_runs(bins, labels, sizes, place, along, blocks[0].size, view, bound):
            _fold_slices(mine, blocks, runs, bound)
            continue
        inner = blocks[0].shape[2]
        # Its temporaries are then as large as the states.
        panel_of_many = max(PANEL, min(4 * view.rows * bins.count, LARGEST))
        least = max(LEAST, min(MANY * view.rows * bins.count, LARGEST // inner))
        step = max(1, panel_of_many // inner) if inner <= SIDE else max(least, PANEL // inner)
        for start in range(along.start, along.stop, step):
            stretch = slice(start, min(along.stop, start + step))
            panel = Panel(labels_at(bins, labels, sizes, place, stretch), view, bins, place, stretch)
            if not panel.codes.size:
                continue
            at = slice(start - along.start, stretch.stop - along.start)
            for first in range(0, inner, STRIP):
                strip = (..., slice(first, first + STRIP))
                _panel(tuple(f[strip] for f in mine), tuple(b[:, at][strip] for b in blocks), panel, bound)


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
    changes = mine[1:] != mine[:-1]
    runs = np.count_nonzero(changes) + 1
    if elements < runs * RUN or length < runs * LABELS:
        return []
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return list(zip(starts, [*starts[1:], length], mine[starts].tolist(), strict=True))


def _fold_slices(cells: State, blocks: tuple[Array, ...], runs: list[tuple[int, int, int]], bound: Binned) -> None:
    """Each run as a chunk of its own, where it is; those of one length that follow one another as one chunk."""
    for start, stop, groups in _of_one_length(runs):
        for part, fields in zip(bound.parts, split(bound.parts, cells), strict=True):
            together = (b[:, start:stop] for b in blocks)
            shape = blocks[0].shape[0], len(groups), -1, blocks[0].shape[2]
            partial = reduce(tuple(b.reshape(shape) for b in together), part, (2,))
            mine = tuple(f[:, groups] for f in fields)
            later = tuple(f[:, :, 0] for f in part.unpack(partial))
            both = as_fields(part.monoid.combine(mine, later), part, mine[0].shape)
            for field, values in zip(fields, both, strict=True):
                field[:, groups] = values


def _of_one_length(runs: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Neighbours of one length, each of another group: where they start and stop, and their groups."""
    begin, end, groups = 0, 0, list[int]()
    for start, stop, group in runs:
        if group < 0:
            continue
        if groups and end == start and start - begin == len(groups) * (stop - start) and group > groups[-1]:
            groups.append(group)
        else:
            if groups:
                yield begin, end, groups
            begin, groups = start, [group]
        end = stop
    if groups:
        yield begin, end, groups


def _panel(cells: State, blocks: tuple[Array, ...], panel: Panel, bound: Binned) -> None:
    """The elements of a panel, into the states of their groups, fields of shape (outer, groups, inner)."""
    blocks = tuple(panel.take(b) for b in blocks)
    for part, mine in zip(bound.parts, split(bound.parts, cells), strict=True):
        given = tuple(b.astype(d, copy=False) for b, d in zip(blocks, part.elements, strict=True))
        if (sums_of := _sums(mine[0].shape, given[0], panel, part)) is not None:
            _combine(mine, sums_of, part)
            continue
        ufuncs = _ufuncs(part) if given[0].shape[2] <= SIDE else None
        rows = max(1, PANEL // (given[0].shape[1] * given[0].shape[2]))
        for start in range(0, len(mine[0]), rows):
            some = slice(start, start + rows)
            tile, states = tuple(b[some] for b in given), tuple(f[some] for f in mine)
            fits = math.prod(states[0].shape) <= tile[0].size
            if fits and part.monoid.fold in SPREADS and tile[0].shape[2] <= SIDE and tile[0].dtype.kind in "biuf":
                _combine(states, _spreads(states[0].shape, tile[0], panel, part), part)
            elif ufuncs is None:
                _fold_runs(states, tile, panel, part)
            elif part.monoid.combine is prod.combine and len(states) > 1:
                _multiply(states, ufuncs, tile, panel, part, fits)
            elif not _is_pair(part):
                _at(states, ufuncs, tile, panel, part)
            elif fits:
                _combine(states, _at_apart(states[0].shape, ufuncs, tile, panel, part), part)
            else:
                _fold_runs(states, tile, panel, part)


def _sums(shape: tuple[int, ...], block: Array, panel: Panel, bound: Bound) -> State | None:
    """The panel's own sums, and counts, by compiled loops; None of other operators, and where there are too many."""
    skips = COMPILED.get(bound.monoid.fold)
    narrow = block.shape[2] <= SIDE or block.dtype.itemsize < 8  # else stretches of float64 are added up in pairs
    if skips is None or not narrow or math.prod(shape) > block.size:
        return None
    found = native.grouped(block, panel.codes, shape[1], skips)
    if found is None:
        return None
    total, count = found
    state = [total]
    if _is_pair(bound):
        state.append(np.zeros(shape))
    if bound.monoid.combine is sums.mean_combine:
        each = np.bincount(panel.codes, minlength=shape[1])[:, None] if count is None else count
        state.append(np.broadcast_to(each, shape))
    return as_fields(tuple(state), bound, shape)


def _ufuncs(bound: Bound) -> tuple[np.ufunc, ...] | None:
    """What combines each field, where that is a ufunc."""
    if bound.monoid.combine in ADDED:
        return (np.add,) * len(bound.fields)
    found = AT.get(bound.monoid.combine)
    if bound.monoid.combine is prod.combine:  # of integers there are no exponents
        return None if found is None else found[: len(bound.fields)]
    return found if found and len(found) == len(bound.fields) else None


def _is_pair(bound: Bound) -> bool:
    """True for sums whose rounding errors are kept: these are added up a panel at a time."""
    fields = len(bound.fields) - ADDED.get(bound.monoid.combine, 0)
    return bound.monoid.combine in ADDED and fields > 1 and bound.fields[0][1].kind == "f"


def _at(states: State, ufuncs: tuple[np.ufunc, ...], blocks: tuple[Array, ...], panel: Panel, bound: Bound) -> None:
    where = _cells(panel, states[0].shape)
    lifted = as_fields(bound.monoid.lift(*blocks, np.zeros((), np.int64)), bound, blocks[0].shape)
    for ufunc, field, values in zip(ufuncs, states, lifted, strict=False):
        together = np.ascontiguousarray(field)  # itself, but for the last strip of wide states
        flat, given = _plain(together.reshape(-1)), _plain(values.reshape(-1))
        if ufunc in DECIDES:
            flat[where[given == DECIDES[ufunc]]] = DECIDES[ufunc]
        else:
            ufunc.at(flat, where, given)
        if together is not field:
            field[...] = together


def _multiply(
    states: State, ufuncs: tuple[np.ufunc, ...], blocks: tuple[Array, ...], panel: Panel, bound: Bound, fits: bool
) -> None:
    """Products of floats: plainly where that stays in range, else by runs, which look at the exponents."""
    if fits:
        tried = np.array(states[0], order="C")
        try:
            with np.errstate(over="raise", under="raise"):
                _at((tried,), ufuncs[:1], blocks, panel, bound)
            states[0][...] = tried
            return
        except FloatingPointError:
            pass
    _fold_runs(states, blocks, panel, bound)


def _cells(panel: Panel, shape: tuple[int, ...]) -> Array:
    """The cell of each element of a block, of states of shape (outer, groups, inner) one after another."""
    outer, groups, inner = shape
    if inner == outer == 1:
        return panel.codes
    lines = np.arange(outer)[:, None, None] * groups + panel.codes[:, None]
    return np.asarray((lines * inner + np.arange(inner)).reshape(-1))


def _plain(values: Array) -> Array:
    """The same elements with NumPy's own instance of their dtype: with an equal one, a ufunc's at takes 30 times as
    long."""
    return values.view(values.dtype.type) if values.dtype.kind in "biufc" else values


def _at_apart(
    shape: tuple[int, ...], ufuncs: tuple[np.ufunc, ...], blocks: tuple[Array, ...], panel: Panel, bound: Bound
) -> State:
    """The panel's own states."""
    mine = tuple(np.full(shape, value, d) for value, (_, d) in zip(bound.identity, bound.fields, strict=True))
    _at(mine, ufuncs, blocks, panel, bound)
    return mine


def _spreads(shape: tuple[int, ...], block: Array, panel: Panel, bound: Bound) -> State:
    """The panel's own counts, means and central sums: deviations from each group's mean, put right by their own."""
    where, x, size = _cells(panel, shape), block.reshape(-1), math.prod(shape)
    if bound.monoid.fold is moments.fold_present and x.dtype.kind == "f":
        there = ~np.isnan(x)
        where, x = where[there], x[there]
    count = np.bincount(where, minlength=size).astype(np.float64)
    mean = _added(where, x.astype(np.float64), size) / np.maximum(count, 1)
    away = x - mean[where]
    slip = _added(where, away, size) / np.maximum(count, 1)
    spread = np.maximum(_added(where, away * away, size) - slip * slip * count, 0)
    state = (count, *moments.shifted(mean, slip, block.dtype), spread)
    return tuple(f.reshape(shape) for f in as_fields(state, bound, count.shape))


def _added(where: Array, values: Array, size: int) -> Array:
    total = np.zeros(size)
    np.add.at(total, where, _plain(values))
    return total


def _combine(states: State, later: State, bound: Bound) -> None:
    """The later states into those that are there."""
    both = as_fields(bound.monoid.combine(states, later), bound, states[0].shape)
    for field, values in zip(states, both, strict=True):
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
    starts, done = runs.starts.copy(), np.zeros(len(runs.starts), bool)
    found = tuple(np.empty((outer, len(starts), inner), d) for _, d in bound.fields)
    positions = panel.positions if bound.indexed or bound.monoid.fold is None else None
    for bit in reversed(range(int(runs.lengths.max()).bit_length())):
        size = 1 << bit
        (which,) = np.nonzero(runs.lengths & size)
        if not len(which):
            continue
        where = starts[which][:, None] + np.arange(size)
        starts[which] += size
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


def means(partial: Array, bound: Binned) -> Array:
    """Results of means whose partials are sums of known numbers of elements: some cells at a time."""
    assert bound.mean is not None
    counts, lines = bound.known_counts, partial.reshape(-1, bound.bins.count)
    found, step = np.empty(lines.shape, bound.result), max(1, JOINED // len(counts))
    with np.errstate(all="ignore"):
        for line, group in product(range(0, len(lines), step), range(0, len(counts), JOINED)):
            cells = slice(line, line + step), slice(group, group + JOINED)
            found[cells] = results_of((*bound.cells.unpack(lines[cells]), counts[cells[1]]), bound.mean)
    return found.reshape(partial.shape)


# ---- boxes


def _are_boxes(bound: Binned, axes: Axes, chunks: Sequence[Any]) -> bool:
    """True where labels are known of each axis apart, the last axis first is the faster way, and states have no
    positions."""
    bins = bound.bins
    if bins.known is None or len(bins.sizes) == 1 or axes != bins.axes:
        return False
    if any(p.indexed or p.monoid.fold is None for p in bound.parts):
        return False
    return all(bins.sizes[-1] * BOX <= arrays[0].shape[axes[-1]] for arrays, _ in chunks)


def _reduce_boxes(
    chunks: Sequence[tuple[Array, ...]], bound: Binned, axes: Axes, places: Sequence[Place] | None
) -> Array:
    """The partial of chunks of one kept shape."""
    partials: list[Array] = []
    for i, arrays in enumerate(chunks):
        place = places[i] if places else whole(arrays[0].shape)
        partials.append(_reduce_box(arrays, bound, axes, place))
        if len(partials) * partials[-1].nbytes > WAITING:
            partials = [combine(partials, bound.cells)]
    return combine(partials, bound.cells)


def _reduce_box(arrays: tuple[Array, ...], bound: Binned, axes: Axes, place: Place) -> Array:
    bins = bound.bins
    assert bins.known is not None
    *lines, last = bins.known.arrays
    row = replace(bins, sizes=bins.sizes[-1:], axes=axes[-1:], known=Labels([last]))
    partial = reduce_many([(arrays, None)], replace(bound, bins=row), axes[-1:], [place])
    for axis, line, count in reversed(list(zip(axes[:-1], lines, bins.sizes[:-1], strict=True))):
        mine = line[place.offsets[axis] : place.offsets[axis] + arrays[0].shape[axis]]
        partial = _fold_lines(partial, bound, axis, mine, count)
    return partial.reshape(*partial.shape[:-1], math.prod(bins.sizes)) if partial.ndim else partial


def _fold_lines(partial: Array, bound: Binned, axis: int, labels: Array, count: int) -> Array:
    """A partial combined along an axis, group by group: the groups come before those of the axes behind it."""
    shape = tuple(1 if a == axis else n for a, n in enumerate(partial.shape))
    states = bound.cells.identities((*shape[:-1], count, shape[-1]))
    for group in np.unique(labels[labels >= 0]):
        (where,) = np.nonzero(labels == group)
        states[..., group, :] = combine_axis(partial.take(where, axis), bound.cells, axis)
    return states.reshape(*shape[:-1], count * shape[-1])
