"""The chunk protocol on the host, over blocks that stay in cache.

A chunk of any strides is walked tile by tile. Each tile reaches the monoid as a block of shape (outer, n, inner),
whose middle axis is reduced to the states of (outer, inner) cells; the states of one cell's tiles are combined as
they come. Nothing of the chunk's size is made but the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..expressions.mapped import Map, map_of, unmapped
from ..operators import native, one_read_folds
from ..operators.monoid import Array, Bound, DType, State
from ..operators.table import (
    ACROSS,
    ADDED,
    BY_SHORT_ROWS,
    COMPILED,
    COMPILED_DTYPES,
    COUNTING,
    HALVED,
    PANELLED,
    POSITIONS,
    SKIPPING,
    STREAMING,
    WHOLE,
    WIDENING,
)
from ..place import Place, whole
from .stack import Stacker
from .tiles import DEEP, LARGE, Budget, Positions, Slices, Walk, tiling_of

Chunks = tuple[Array, ...]

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, chunks of 64 MiB, 2026-11
WORKED = Budget(1 << 15, 1 << 15, 0, 1 << 15)  # folds that make temporaries: they stay in L2
PANELS = Budget(1 << 22, 1 << 20, 1 << 20, 1 << 16)  # folds that cut their block themselves,
PANEL_STATES = 1 << 19  # and bytes of the states of their tiles
LOCATED = Budget(1 << 24, 1 << 17, 0, 1 << 16)  # folds that make a byte or two an element, of columns alone, in NumPy
FLAGGED = Budget(1 << 21, 1 << 17, 0, 1 << 16)  # and of rows too
STREAMED = Budget(1 << 24, 1 << 20, 1 << 20, 1 << 16, cells=1 << 16)  # folds that are NumPy reductions: fewer calls
SHARED = Budget(0, 1 << 19, 0, 1 << 16, cells=1 << 12)  # several folds in turn: where each takes more, and of rows less
SHARED_WORKED, SHARED_LIFTED = 1 << 17, 1 << 15  # where one makes temporaries; where it lifts each element
MAPPED = Budget(1 << 19, 1 << 19, 0, 1 << 19, is_computed=True)  # functions of elements: at least, and as many as
MAPPED_BYTES = 1 << 23  # give values of so many bytes: fewer are computed faster than a tile costs. Sums of squares and
# of casts of 33 chunks of 1 to 17 MB, times NumPy's speed (Xeon, one thread, 2026-11): by 1 MiB 0.96, by 2 1.17, by 4
# 1.39, by 8 1.46. Threads wait for Python's lock at each tile: with two of them few tiles count more. What they read
# passes once: a comparison, which gives a byte an element, takes as many elements as NumPy does in this time
COPIED_BYTES = 1 << 20  # of a tile that is copied: smaller ones take more calls, larger ones more memory
SHORT = 32  # elements of a row, or cells of a column, up to which turning pays
COMPARED = 128  # bytes of such a row, for folds that compare, and that count what is true
LOOKED_UP = 224  # and for those that look up positions,
COUNTED = 8  # and that count in compiled loops
PENDING = 32  # states that wait to be combined together, by halves, where they are
PENDING_CELLS = 1 << 9  # of so few cells that a call costs more than its work
BLOCK = 1 << 22  # bytes of chunks of which some cells are reduced together: by 1 MiB, calls cost as much as the sums
THIN = 2  # times the bytes of its partial, up to which a chunk is copied beside others: a state is written once for all
TOGETHER = 8  # times these bytes of such chunks, at least, are reduced together
JOINED = 12_000  # cells whose partials are combined at a time: what combine makes of them stays in cache, and is less
# than the 128 KiB from which on malloc maps pages for each array in a worker of dask's nanny
REPEATED = 1 << 18  # elements of a chunk from which on those that are repeated are read once: combining costs calls
LONG_ROW = 128  # elements of a reduced row of a view from which on NumPy's own reductions of WHOLE are no slower
WIDE = 1 << 10  # cells along inner up to which stretches of n become cells: short inner loops cost a call each, and
# more states than these leave no room for elements in the first level of cache


@dataclass(frozen=True)
class Way:
    """How chunks are read for an operator, whatever their shapes.

    ``maps`` are those of all parts, or none where one of them takes elements as they are. ``are_sums`` says that states
    are added, ``are_compiled`` that loops do all, and ``by_short_rows`` that states of short rows may be folded.
    """

    budget: Budget
    maps: tuple[Map, ...]
    is_placed: bool
    is_ordered: bool
    are_sums: bool
    are_compiled: bool
    by_short_rows: bool


def way_of(bound: Bound) -> Way:
    """How chunks are read for this operator: found once, for it takes as long as a small chunk."""
    known, asked = bound.known, (Way, native.library() is not None)
    found: Way = known.get(asked) or known.setdefault(asked, _way(bound, asked[1]))
    return found


def _way(bound: Bound, has_loops: bool) -> Way:
    parts = bound.parts
    maps = tuple(of for part in parts if (of := map_of(part)) is not None)
    are_added = all(part.monoid.fold in ADDED for part in parts)
    compiled = [has_loops and _has_loops(part, part.elements[0]) for part in parts]
    are_sums = are_added and all(c or native.adds(p.elements[0]) for p, c in zip(parts, compiled, strict=True))
    return Way(
        _budget(bound),
        maps if len(maps) == len(parts) else (),
        any(part.indexed or part.monoid.fold is None for part in parts),
        not bound.monoid.commutative,
        are_sums,
        are_added and all(compiled),
        are_sums or (bound.elements[0].itemsize == 8 and len(parts) == 1 and bound.monoid.fold in BY_SHORT_ROWS),
    )


def reduce(
    chunks: Chunks,
    bound: Bound,
    axes: tuple[int, ...],
    place: Place | None = None,
    before: Array | None = None,
    final: bool = False,
    out: Array | None = None,
) -> Array:
    """The partial of one chunk, of size 1 along every axis in ``axes``, or with ``final`` its results. It is ``out``
    where it can be written there as it is made.

    ``before`` is the partial of what comes before, to which the chunk is added where it is: a chunk of few elements a
    cell makes a partial larger than itself, which costs more to write and to read again than the chunk to reduce.
    Results are made of each tile's states while these are in cache, for the same reason.
    """
    arrays = tuple(np.asarray(c) for c in chunks)
    shape = arrays[0].shape
    keepdims = tuple(1 if a in axes else n for a, n in enumerate(shape))
    if 0 in shape:
        return _closed(bound.identities(keepdims), bound, before, final)
    place, way = place or whole(shape), way_of(bound)
    placed, ordered = way.is_placed, way.is_ordered
    if 0 in arrays[0].strides and arrays[0].size >= REPEATED and not (placed or ordered):
        repeated = tuple(a for a, n in enumerate(shape) if n > 1 and not any(x.strides[a] for x in arrays))
        if repeated:
            return _closed(_of_repeated(arrays, bound, axes, repeated), bound, before, final)
    # Where order and positions mean nothing, what lies upside down is read from its lowest address on.
    given = arrays
    turn = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in arrays[0].strides)
    turned = not (placed or ordered) and any(stride < 0 for stride in arrays[0].strides)
    if turned:
        arrays = tuple(x[turn] for x in arrays)
    is_mapped = bool(way.maps)
    layout = tiling_of(
        shape,
        tuple(x.strides for x in arrays),
        axes,
        place.steps(axes) if placed else (0,) * len(axes),
        way.budget,
        placed or ordered,
        ordered,
        is_mapped or all(x.dtype == d and x.flags.aligned for x, d in zip(arrays, bound.elements, strict=True)),
    )
    if at_once := _at_once(arrays, bound, axes, layout.keeps_between):
        with np.errstate(all="ignore"):
            return _closed(bound.pack((at_once.reduce(given[0], axes, keepdims=True),)), bound, before, final)
    is_whole = layout.direct and (not way.are_sums or math.prod(layout.extents) >= LARGE)
    is_whole = is_whole or (is_mapped and not layout.keeps_between)  # a tile's values lie as it does, but without gaps
    separate = () if is_whole or placed or ordered else layout.separate_axes(shape, way.by_short_rows)
    if separate:
        folded = reduce(given, bound, tuple(a for a in axes if a not in separate), place)
        for axis in separate:
            folded = combine_axis(folded, bound, axis)
        return _closed(folded, bound, before, final)
    sizes = tuple(d.size for d in (*layout.outer, *layout.inner))
    back = sorted(range(len(layout.kept)), key=layout.kept.__getitem__)
    walk, start = Walk(arrays, bound.elements, layout), place.start(axes) if placed else 0
    with np.errstate(all="ignore"):
        into = out if before is None else before
        if into is not None and not turned and into.flags.c_contiguous and back == [*range(len(back))]:
            _fill(into.reshape(sizes), walk, bound, start, is_added=before is not None)
            return into
        writes_results = final and before is None and math.prod(sizes) > JOINED
        cells = np.empty(sizes, bound.result) if writes_results else np.zeros(sizes, bound.state)
        _fill(cells, walk, bound, start, final=writes_results)
    partial = cells.reshape([keepdims[a] for a in layout.kept]).transpose(back).reshape(keepdims)
    found: Array = np.ascontiguousarray(partial[turn] if turned else partial).reshape(keepdims)
    return found if writes_results else _closed(found, bound, before, final)


def _at_once(arrays: Chunks, bound: Bound, axes: tuple[int, ...], keeps_between: bool) -> np.ufunc | None:
    """NumPy's own reduction, where part of an array has long rows that it takes as they lie and is no slower at."""
    x = arrays[0]
    found, dtypes, between = WHOLE.get(bound.monoid.fold, (None, (), ()))
    kind = f"{x.dtype.kind}{x.dtype.itemsize}"
    is_known = kind in dtypes or (keeps_between and kind in between)
    if not is_known or x.flags.c_contiguous or x.dtype != bound.elements[0]:
        return None
    return found if any(x.strides[a] == x.itemsize and x.shape[a] >= LONG_ROW for a in axes) else None


def _closed(partial: Array, bound: Bound, before: Array | None, final: bool) -> Array:
    """A chunk's partial with what comes before it, or the results of both."""
    partial = partial if before is None else combine([before, partial], bound)
    return finalise(partial, bound) if final else partial


def _of_repeated(chunks: Chunks, bound: Bound, axes: tuple[int, ...], repeated: tuple[int, ...]) -> Array:
    """The partial of a chunk that has the same elements along some axes, as :func:`numpy.broadcast_to` and
    ``dask.array.ones`` make them: of these elements once, combined with itself as often."""
    shape = chunks[0].shape
    once = tuple(slice(1) if a in repeated else slice(None) for a in range(len(shape)))
    power = reduce(tuple(x[once] for x in chunks), bound, axes)
    count, found = math.prod(shape[a] for a in repeated if a in axes), None
    while count:
        if count & 1:
            found = power if found is None else combine([found, power], bound)
        count >>= 1
        power = combine([power, power], bound) if count else power
    assert found is not None
    return np.ascontiguousarray(np.broadcast_to(found, tuple(1 if a in axes else n for a, n in enumerate(shape))))


def reduce_side_by_side(
    chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], before: Array | None = None
) -> Array:
    """The partial of chunks of one kept shape and of what comes before, as :func:`reduce`.

    Some cells of all chunks are copied into one block at a time: a state is made of as many elements as these have for
    a cell together.
    """
    shape = np.shape(chunks[0][0])
    kept = [a for a in range(len(shape)) if a not in axes]
    if len(chunks) == 1 or not kept:
        return _one_by_one(chunks, bound, axes, before)
    cut = kept[0]  # those ahead of it have size 1 in partials, of which a part is so a stretch of memory
    most = max(1, BLOCK * shape[cut] // max(1, sum(c.nbytes for each in chunks for c in each)))
    is_first = before is None
    partial = np.zeros([1 if a in axes else n for a, n in enumerate(shape)], bound.state) if before is None else before
    for start in range(0, shape[cut], most):
        at = (*(slice(None),) * cut, slice(start, start + most))
        block = tuple(np.concatenate([c[at] for c in column], axes[0]) for column in zip(*chunks, strict=True))
        part = partial[at]
        found = reduce(block, bound, axes, before=None if is_first else part, out=part)
        if found is not part:
            part[...] = found
    return partial


def _one_by_one(chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], before: Array | None) -> Array:
    for each in chunks:
        before = reduce(each, bound, axes, before=before)
    assert before is not None
    return before


def _budget(bound: Bound) -> Budget:
    """How much of a chunk this monoid's fold takes at once; of several, what all of them find in cache."""
    budgets = [_budget_of(part) for part in bound.parts]
    if len(budgets) == 1:
        return budgets[0]
    unit, short, narrow = (max(getattr(b, name) for b in budgets) for name in ("unit", "short", "narrow"))
    most = SHARED_LIFTED if any(p.monoid.fold is None for p in bound.parts) else SHARED_WORKED
    rows = min(max(b.rows, most) for b in budgets)
    columns = SHARED.columns if rows > most else most
    copy = min(b.copy for b in budgets)
    return replace(SHARED, rows=rows, columns=columns, copy=copy, unit=unit, short=short, narrow=narrow)


def _budget_of(bound: Bound) -> Budget:
    fold = bound.monoid.fold
    budget = WORKED if fold is None or (of := map_of(bound)) is None else _mapped_budget(of)
    if all(d.kind in "biufc" for d in bound.elements):
        if fold in POSITIONS:
            budget = FLAGGED if fold in SKIPPING else LOCATED
            if native.finds_extrema(bound.elements[0]):
                budget = replace(budget, columns=STREAMED.columns, cells=STREAMED.cells)
        elif fold in PANELLED:
            budget = replace(PANELS, cells=PANEL_STATES // bound.state.itemsize)
        elif fold in STREAMING:
            budget = STREAMED
    if budget is not WORKED and not budget.is_computed:
        size = COPIED_BYTES // 2 if fold in WIDENING else COPIED_BYTES
        budget = replace(budget, copy=size // bound.elements[0].itemsize)
    return replace(
        budget,
        unit=bound.elements[0].itemsize if fold in POSITIONS or fold in PANELLED else 0,
        short=_short(bound),
        narrow=SHORT if fold is None or fold in POSITIONS else 0,
    )


@lru_cache(maxsize=256)
def _mapped_budget(of: Map) -> Budget:
    widest = max((node.dtype.itemsize for node in of.computed.nodes if not node.is_leaf), default=1)
    size = max(MAPPED_BYTES // widest, MAPPED.rows)
    return replace(MAPPED, rows=size, columns=size, copy=size)


def _short(bound: Bound) -> int:
    """Elements of a row up to which it is copied into a column."""
    fold = bound.monoid.fold
    if fold is None:
        return SHORT
    size = LOOKED_UP if fold in POSITIONS else COMPARED if fold in ACROSS else 0
    if fold in COUNTING and bound.elements[0].kind == "b":
        size = COMPARED if native.library() is None else COUNTED
    return min(SHORT, size // bound.elements[0].itemsize)


def _fill(cells: Array, walk: Walk, bound: Bound, start: int, is_added: bool = False, final: bool = False) -> None:
    """Every cell's state, from its tiles in order, or its result; where these ``is_added``, from what it is as well."""
    runs = walk.runs()
    are_sums = not final and len(bound.parts) == 1 and way_of(bound).are_compiled
    for outer, inner in walk.cells():
        cell: Any = (*outer, *inner, ...)
        if are_sums and _may_put(part := cells[cell]):
            for number, run in enumerate(runs):
                native.put_sums(part, _state(walk, (outer, run, inner), bound, start), is_added or number > 0)
            continue
        pending: list[State] = []
        for run in runs:
            state = _state(walk, (outer, run, inner), bound, start)
            if is_added and run is runs[0]:
                pending = [tuple(f[cell].reshape(state[0].shape) for f in bound.unpack(cells))]
            pending.append(state)
            if len(pending) == (PENDING if state[0].size <= PENDING_CELLS else 2):
                pending = [_together(pending, bound)]
        found = _together(pending, bound)
        targets = (cells,) if final else bound.unpack(cells)
        for target, values in zip(targets, (results_of(found, bound),) if final else found, strict=True):
            target = target[cell]
            target[...] = values.reshape(target.shape)


def _may_put(cells: Array) -> bool:
    """Whether compiled loops add a tile's sums to the states of its cells, where these are: many of them, for few are
    combined by halves."""
    return cells.size > PENDING_CELLS and cells.flags.c_contiguous


def _together(states: list[State], bound: Bound) -> State:
    """States of the same cells to one, in order."""
    if len(states) == 1:
        return states[0]
    if len(states) == 2:
        return as_fields(bound.monoid.combine(*states), bound, states[0][0].shape)
    stacked = tuple(np.stack(f) for f in zip(*states, strict=True))
    return tuple(f[0] for f in halve(stacked, bound, 0))


def _state(walk: Walk, tile: tuple[Slices, Slices, Slices], bound: Bound, start: int) -> State:
    """The states of one tile's cells, of shape (outer, inner)."""
    where = walk.positions(tile[1], start)
    state: list[Array] = []
    if maps := way_of(bound).maps:  # computed of tiles as they lie: only what is reduced has to lie as a block
        views = walk.views_of(*tile)
        for of in maps:
            values = [walk.as_block(value) for value in of.values(views)]
            state += map(_own, _state_of(values, where, of.taker))
        return tuple(state)
    blocks = walk.blocks(*tile)
    found = one_read_folds.states(bound.parts, blocks[0], where) if len(bound.parts) > 1 else {}
    for part in bound.parts:
        state += map(_own, found.get(part.name) or _state_of(blocks, where, part))
    return tuple(state)


def _has_loops(bound: Bound, dtype: DType) -> bool:
    """Whether compiled loops, where there are any, make the states of elements of this dtype."""
    return bound.monoid.fold in COMPILED and dtype in COMPILED_DTYPES


def _own(field: Array) -> Array:
    """A field that shows no scratch, which what is computed next overwrites."""
    return field if field.base is None else field.copy()


def _state_of(blocks: list[Array], where: Positions, bound: Bound) -> State:
    monoid = bound.monoid
    blocks = [b.astype(d, copy=False) for b, d in zip(blocks, bound.elements, strict=True)]
    outer, _, inner = blocks[0].shape
    if monoid.fold is None:
        index = where.all()[None, :, None]
        lifted = as_fields(monoid.lift(*blocks, index), bound, blocks[0].shape)
        state = tuple(f[:, 0] for f in halve(lifted, bound, 1))
    elif bound.indexed:
        state = monoid.fold(*blocks, where if unmapped(bound).monoid.fold in ACROSS else where.all())
    else:
        state = _fold(blocks, bound)
    return as_fields(state, bound, (outer, inner))


def _fold(blocks: list[Array], bound: Bound) -> State:
    """A block's states. Where a few cells lie side by side, stretches of n become cells of their own first, unless
    compiled loops see to that."""
    fold, commutes = bound.monoid.fold, bound.monoid.commutative
    assert fold is not None
    outer, n, inner = blocks[0].shape
    times = min(WIDE // inner, n // DEEP)
    is_compiled = _has_loops(bound, blocks[0].dtype) and native.library() is not None
    if not commutes or inner == 1 or times < 2 or is_compiled or any(not _packed(b) for b in blocks):
        return fold(*blocks, None)
    even = n - n % times
    wide = (outer, even // times, times * inner)
    state = as_fields(fold(*(b[:, :even].reshape(wide) for b in blocks), None), bound, (outer, times * inner))
    state = tuple(f[:, 0] for f in halve(tuple(f.reshape(outer, times, inner) for f in state), bound, 1))
    if even == n:
        return state
    rest = as_fields(fold(*(b[:, even:] for b in blocks), None), bound, (outer, inner))
    return _together([state, rest], bound)


def _packed(block: Array) -> bool:
    """True where the last two axes lie together in memory."""
    return block.strides[1:] == (block.shape[2] * block.itemsize, block.itemsize)


def as_fields(state: State, bound: Bound, shape: tuple[int, ...]) -> State:
    """What a monoid's function gave, in the dtypes of the fields and of this shape."""
    if isinstance(state, np.ndarray) or len(state) != len(bound.fields):
        given = "an array" if isinstance(state, np.ndarray) else f"{len(state)} arrays"
        names = ", ".join(name for name, _ in bound.fields)
        raise ArgumentError(
            message(
                bound.name, f"{given} from lift, combine or fold", f"a tuple, one array a field: {names}", "See Monoid."
            )
        )
    return tuple(
        f
        if isinstance(f, np.ndarray) and f.dtype == dtype and f.shape == shape
        else np.broadcast_to(np.asarray(f).astype(dtype, copy=False), shape)
        for f, (_, dtype) in zip(state, bound.fields, strict=True)
    )


def halve(state: State, bound: Bound, axis: int) -> State:
    """Fold an axis by combining neighbours until one is left; left stays earlier."""
    at_once = HALVED.get(bound.monoid.combine) if state[0].shape[axis] > 2 else None
    if at_once is not None and (found := at_once(state, axis)) is not None:
        return found
    ahead: Any = (slice(None),) * axis
    while (n := state[0].shape[axis]) > 1:
        even = tuple(f[(*ahead, slice(0, n - 1, 2))] for f in state)
        odd = tuple(f[(*ahead, slice(1, n, 2))] for f in state)
        folded = as_fields(bound.monoid.combine(even, odd), bound, even[0].shape)
        if n % 2:
            last = tuple(f[(*ahead, slice(n - 1, n))] for f in state)
            folded = tuple(np.concatenate(pair, axis) for pair in zip(folded, last, strict=True))
        state = folded
    return state


def reduce_many(
    chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None = None
) -> Array:
    """The partial of several chunks of one kept shape, folded left to right. Small ones are reduced side by side, and
    those of few bytes for their partial."""
    stacker = Stacker(chunks, bound, axes, places)
    pending: list[Array] = []
    done = 0
    for stretch in stacker.stretches():
        if stretch.start < done:
            continue
        if stretch.is_single:
            before = pending.pop() if pending and pending[-1].size > PENDING_CELLS else None
            thin = 1 if places else _thin(chunks[stretch.start :], bound, axes)
            if thin > 1:
                done = stretch.start + thin
                pending.append(reduce_side_by_side(chunks[stretch.start : done], bound, axes, before))
                continue
            place = places[stretch.start] if places else None
            pending.append(reduce(chunks[stretch.start], bound, axes, place, before))
        else:
            block = reduce(stacker.block(stretch), bound, stretch.axes(axes))
            pending.append(stacker.locate(block, stretch))
        if len(pending) == (PENDING if pending[0].size <= PENDING_CELLS else 2):
            pending = [combine(pending, bound)]
    return combine(pending, bound)


def _thin(chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...]) -> int:
    """How many chunks, from the first on, have few bytes for their partial, and one shape but along the first axis
    that is reduced."""
    alike = np.shape(chunks[0][0])
    cells = math.prod(n for a, n in enumerate(alike) if a not in axes)
    size, nbytes, count = cells * bound.state.itemsize, 0, 0
    if cells <= PENDING_CELLS or not axes:
        return 0
    for each in chunks:
        shape, own = np.shape(each[0]), sum(c.nbytes for c in each)
        is_alike = all(n == m or a == axes[0] for a, (n, m) in enumerate(zip(shape, alike, strict=True)))
        if not is_alike or not 0 < own <= THIN * size or nbytes >= TOGETHER * size:
            break
        nbytes += own
        count += 1
    return count


def combine(partials: Sequence[Array], bound: Bound) -> Array:
    """Partials of one shape to one, cell by cell; the first is the earliest."""
    if len(partials) == 1:
        return partials[0]
    if len(partials) > 2 and partials[0].size <= PENDING_CELLS:
        folded: Array = combine_axis(np.stack(partials), bound, 0)[0]
        return folded
    flat = [p.reshape(-1) for p in partials]
    joined = np.zeros(flat[0].size, bound.state)
    with np.errstate(all="ignore"):
        for start in range(0, joined.size, JOINED):
            cells = slice(start, start + JOINED)
            state, *rest = (bound.unpack(p[cells]) for p in flat)
            for later in rest:
                state = as_fields(bound.monoid.combine(state, later), bound, state[0].shape)
            for target, values in zip(bound.unpack(joined[cells]), state, strict=True):
                target[...] = values
    return joined.reshape(partials[0].shape)


def combine_axis(partial: Array, bound: Bound, axis: int) -> Array:
    """A partial folded in order along one of its own axes, which keeps size 1."""
    axis %= partial.ndim
    shape = tuple(1 if a == axis else n for a, n in enumerate(partial.shape))
    if partial.shape[axis] == 0:
        return bound.identities(shape)
    with np.errstate(all="ignore"):
        return bound.pack(halve(bound.unpack(partial), bound, axis))


def finalise(partial: Array, bound: Bound) -> Array:
    """A partial's results, of the same shape: some cells at a time, unless they lie in the partial."""
    cells = partial.reshape(-1)
    with np.errstate(all="ignore"):
        results = _finalised(cells[:JOINED], bound)
        if len(results) < len(cells):
            if np.may_share_memory(results, cells):
                results = _finalised(cells, bound)
            else:
                first, results = results, np.empty(cells.shape, bound.result)
                results[:JOINED] = first
                for start in range(JOINED, len(cells), JOINED):
                    results[start : start + JOINED] = _finalised(cells[start : start + JOINED], bound)
    return results.reshape(partial.shape)


def _finalised(cells: Array, bound: Bound) -> Array:
    return results_of(bound.unpack(cells), bound).reshape(cells.shape)


def results_of(state: State, bound: Bound) -> Array:
    """What the states of some cells stand for."""
    values = bound.monoid.finalise(state, bound.result, **dict(bound.monoid.options))
    return np.asarray(values).astype(bound.result, copy=False)
