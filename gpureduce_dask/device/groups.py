"""Groups on a GPU: states in shared memory where they fit, atomics where these are exact, sorted labels otherwise."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..labels import View, refuse
from ..operators.grouped import Binned, Bins
from ..operators.monoid import Bound
from ..place import Place, whole
from . import chunk_plans, contiguous, launch
from . import group_plans as plans
from . import operator as device_operator
from . import reduce as device_reduce
from .layout import MAX_DIMS, Dim
from .plan_cache import Plans

Axes = tuple[int, ...]
Chunks = tuple[Any, ...]
Chunk = tuple[Chunks, Any]

SIDE = 32  # columns that lie side by side from which on a thread folds one
LABEL = 8  # bytes of one, at most
KEPT = 256 * 2**20  # bytes of labels that stay on GPUs, with their order
MOST = (1 << 32) - (1 << 16)  # elements of a row: positions have 32 bits, and so has the end of a tile behind them

_codes: OrderedDict[Any, Codes] = OrderedDict()
_prepared: Plans[_Prepared] = Plans()
_methods: Plans[_Method] = Plans()
_lock = threading.Lock()


@dataclass(eq=False)
class Codes:
    """The groups of a row's elements, on a GPU."""

    array: Any
    groups: int
    stretches: tuple[Any, Any] | None = None  # positions in the order of their groups, and where groups begin there
    ranks: dict[str, Any] = field(default_factory=dict)  # where each lies in shared memory, as a kernel's name finds it

    @property
    def nbytes(self) -> int:
        """On the GPU, with the order that may come, and ranks."""
        return int(self.array.nbytes + 8 * self.array.size)


def reduce_many(chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> Any:
    """The partial of chunks of one kept shape, folded left to right, as CuPy bytes. Where labels come with the chunks
    it waits for the GPU, to hear of those that no group has."""
    partial, flags = begin_many(chunks, bound, axes, places)
    if flags is not None:
        _check(bound.bins, read_flags(flags))
    return partial


def begin_many(chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> tuple[Any, Any]:
    """The partial, and a word on the GPU that will say whether a label is wrong; None where labels are known."""
    import cupy

    with cupy.cuda.Device(chunks[0][0][0].data.device_id):
        flags = None if bound.bins.known is not None else _zeros(4)
        word = 0 if flags is None else flags.ptr
        waiting: list[_Chunk] = []
        first = method = states = None
        for arrays, labels, place in _parts(chunks, bound, axes, places):
            prepared = _prepare(arrays, bound, axes, place, first.order if first else None)
            first = first or prepared
            if prepared.is_empty:
                continue
            each = prepared.read(arrays, labels, bound.bins, place)
            if method is not None and (method is not each.method or len(waiting) == method.batch):
                states, waiting = method.fold(waiting, states, word), []
            method = each.method
            waiting.append(each)
        assert first is not None
        states = _identities(first.cells, bound.cells) if method is None else method.fold(waiting, states, word)
        return first.as_partial(states), flags


def _parts(
    chunks: Sequence[Chunk], bound: Binned, axes: Axes, places: Sequence[Place] | None
) -> Iterator[tuple[Chunks, Any, Place]]:
    """Chunks and where they lie, those cut that have more elements a row than positions of 32 bits count."""
    for i, (arrays, labels) in enumerate(chunks):
        place = places[i] if places else whole(arrays[0].shape)
        view = None if arrays[0].size <= MOST else View(arrays[0].shape, bound.bins.axes, axes)
        if view is None or view.size(view.reduced) <= MOST:
            yield arrays, labels, place
            continue
        axis = next(a for a in view.now if view.shape[a] > 1)  # the slowest: parts follow one another
        middle = view.shape[axis] // 2
        if bound.bins.known is None:
            labels = labels.reshape(tuple(view.shape[a] for a in view.reduced))
        for part in (slice(middle), slice(middle, None)):
            mine = (*(slice(None) for _ in range(axis)), part)
            along = (*(slice(None) for _ in view.reduced[: view.reduced.index(axis)]), part)
            offsets = tuple(n + (part.start or 0) * (a == axis) for a, n in enumerate(place.offsets))
            some = None if bound.bins.known is not None else labels[along]
            chunk = (tuple(a[mine] for a in arrays), some)
            yield from _parts([chunk], bound, axes, [Place(offsets, place.shape)])


@dataclass(frozen=True)
class _Order:
    """The order in which the axes of all chunks are laid: kept ones, the reduced ones, and kept ones that lie side by
    side."""

    ahead: Axes
    reduced: Axes
    behind: Axes

    @property
    def axes(self) -> Axes:
        return (*self.ahead, *self.reduced, *self.behind)


def _order(array: Any, view: View, bound: Binned) -> _Order:
    """As the array lies in memory, where its kept axes are ahead of the reduced ones or behind them and that makes a
    copy needless; else as axes are numbered. Few columns become rows."""
    by_stride = sorted(range(array.ndim), key=lambda a: (view.shape[a] > 1, -abs(array.strides[a])))
    innermost = max((i for i, a in enumerate(by_stride) if a in view.reduced), default=-1)
    if innermost < 0:  # each element is a group's only one
        return _Order(view.outer_axes, (), ())
    ahead = tuple(a for a in by_stride[:innermost] if a not in view.reduced)
    reduced, behind = tuple(a for a in by_stride if a in view.reduced), tuple(by_stride[innermost + 1 :])
    if reduced != view.reduced and not _may_be_turned(view, bound, array.itemsize):
        reduced = view.reduced
    found = _Order(ahead, reduced, behind)
    is_laid = array.transpose(found.axes).flags.c_contiguous
    if _are_short(array, view, bound, found) and (is_laid or _in_columns(array, found)):
        return found
    if not is_laid:
        found = _Order(view.outer_axes, view.reduced, view.inner_axes)
    if 1 < view.size(found.behind) < SIDE:
        found = _Order((*found.ahead, *found.behind), found.reduced, ())
    return found


def _are_short(array: Any, view: View, bound: Binned, order: _Order) -> bool:
    """Whether neighbouring columns, whose labels are soon sorted, are worth a thread each in place of a copy."""
    columns = view.size(order.behind)
    are_many = view.size(order.ahead) * bound.bins.count * columns >= plans.COLUMN_THREADS
    is_short = 1 < view.size(order.reduced) <= plans.SORT_SHORT
    return are_many and is_short and columns * array.itemsize >= plans.COLUMN_LEAST and columns > 1


def _in_columns(array: Any, order: _Order) -> Any:
    """How columns lie that are read without a copy; None where one is worth it."""
    cells, run = (
        [Dim(array.shape[a], array.strides[a]) for a in axes] for axes in ((*order.ahead, *order.behind), order.reduced)
    )
    return plans.column_lines(cells, run, array.itemsize, array.data.ptr % 16)


def _may_be_turned(view: View, bound: Binned, itemsize: int) -> bool:
    """Whether elements may be taken in another order than that of the reduced axes: labels, which have to be in the
    same, are in the graph, or no larger copy than the chunk's. Of equal elements the first one's position is wanted."""
    if not bound.inner.monoid.commutative or _needs_positions(bound) or view.pending:
        return False
    return bound.bins.known is not None or view.outer * view.inner * itemsize >= LABEL


def _contiguous(array: Any, order: Axes) -> Any:
    return contiguous.in_c_order(array.transpose(order) if order else array)


@dataclass(frozen=True)
class _Chunk:
    """A chunk whose rows lie one after another, or side by side, and the groups of their elements."""

    method: _Method
    laid: list[Any]
    codes: Codes
    start: int  # the position of its first element

    @property
    def operands(self) -> launch.Base:
        return self.laid[0].data.ptr, self.laid[-1].data.ptr if len(self.laid) > 1 else 0, self.start


class _Prepared:
    """What of a chunk's part in a reduction follows from how it lies in memory, and not from where."""

    def __init__(self, arrays: Chunks, bound: Binned, axes: Axes, place: Place, order: _Order | None) -> None:
        shape, bins = arrays[0].shape, bound.bins
        self.view = view = View(shape, bins.axes, axes)
        self.is_empty = 0 in shape
        self.order = order = order or _order(arrays[0], view, bound)
        self.bound, self.device = bound.cells, arrays[0].data.device_id
        self.groups, self.strict, self.name = view.rows * bins.count, bins.strict, bins.name
        self.turns = [None if a.transpose(order.axes).flags.c_contiguous else order.axes for a in arrays]
        self.itemsizes = [a.itemsize for a in arrays]
        self.addresses = [0 if turn else a.data.ptr % 16 for a, turn in zip(arrays, self.turns, strict=True)]
        for a, turn in zip(arrays, self.turns, strict=True):
            if turn is None:
                chunk_plans.check_aligned(a, bins.name)
        self.sizes = view.size(order.ahead), view.size(order.reduced), view.size(order.behind)
        self.cells = self.sizes[0] * self.groups * self.sizes[2]
        self.positions = _positions(bound, order.reduced, view, place)
        self.walks = self._walks(arrays)
        self._methods: dict[Any, _Method] = {}
        # Of states of (ahead, pending, groups, behind), to a partial: the chunk's axes, then the groups
        number, size = len(shape), bound.cells.state.itemsize
        apart = (*order.ahead, *view.pending, number, *order.behind)
        self.apart = (*((*shape, bins.count)[a] for a in apart), size)
        self.back = (*(apart.index(a) for a in sorted(apart)), len(apart))
        self.partial = (*(1 if a in view.now else n for a, n in enumerate(shape)), bins.count, size)

    def read(self, arrays: Chunks, labels: Any, bins: Bins, place: Place) -> _Chunk:
        """The chunk, copied where it does not lie as it is taken."""
        codes = _codes_of(labels, bins, self.view, self.order.reduced, place)
        key = (codes.array.dtype, codes.array.data.ptr % 16)
        method = self._methods.get(key)
        if method is None:
            method = self._methods[key] = self._method(codes.array)
        turns = self.turns if method.rows.lines is None else [None]
        pairs = zip(arrays, turns, strict=True)
        laid = [a if turn is None else contiguous.copied(a.transpose(turn)) for a, turn in pairs]
        return _Chunk(method, laid, codes, place.start(self.view.reduced) if self.positions else 0)

    def _method(self, codes: Any) -> _Method:
        label = plans.label_type(codes.dtype)
        assert label is not None
        chunk_plans.check_aligned(codes, self.name)
        outer, length, inner = self.sizes
        lines = (outer, length) if inner == 1 else (outer * length, inner)
        vector = plans.vector_of(self.itemsizes, codes.itemsize, [*self.addresses, codes.data.ptr], *lines)
        nbytes = sum(self.itemsizes) + codes.itemsize
        rows = plans.Rows(outer, length, inner, self.groups, label, vector, self.positions, self.strict, nbytes)
        if self.walks is not None and (way := self._in_lines(codes, rows)) is not None:
            return way
        return self._known_method(rows)

    def _known_method(self, rows: plans.Rows) -> _Method:
        key = (rows, self.bound, self.device)
        found = _methods.get(key)
        if found is None:
            found = _methods[key] = _Method(rows, self.bound, self.device)
        return found

    def _walks(self, arrays: Chunks) -> tuple[list[Dim], list[Dim], int] | None:
        """Rows and their elements as they lie, and where, of a chunk that would be copied."""
        order = self.order
        if len(arrays) > 1 or self.turns[0] is None:
            return None
        (a,) = arrays
        row = [Dim(a.shape[axis], a.strides[axis]) for axis in (*order.ahead, *order.behind)]
        indices = [dim.c for dim in self.positions] or [0] * len(order.reduced)
        run = [Dim(a.shape[axis], a.strides[axis], 0, c) for axis, c in zip(order.reduced, indices, strict=True)]
        return row, run, a.data.ptr % 16

    def _in_lines(self, codes: Any, rows: plans.Rows) -> _Method | None:
        """What takes rows as they lie, without a copy; None where that copy is worth it."""
        assert self.walks is not None
        row, run, address = self.walks
        if rows.inner > 1:
            found = plans.column_lines(row, run, self.itemsizes[0], address)
        else:
            found = plans.lines(row, run, self.itemsizes[0], codes.itemsize, (address, codes.data.ptr))
        if found is None:
            return None
        rows = replace(rows, vector=found[0], lines=found[1])
        is_gathered = rows.inner == 1 and _way(rows, self.bound, self.device) == plans.PIECES
        return None if is_gathered else self._known_method(rows)

    def as_partial(self, states: Any) -> Any:
        """States of all chunks as a partial."""
        if self.back == tuple(range(len(self.back))):
            return states.reshape(self.partial)
        return _contiguous(states.reshape(self.apart), self.back).reshape(self.partial)


def _positions(bound: Binned, reduced: Axes, view: View, place: Place) -> tuple[Dim, ...]:
    """How an element's position follows from its place in a row, for operators that ask; else nothing."""
    if not _needs_positions(bound):
        return ()
    steps = dict(zip(view.reduced, place.steps(view.reduced), strict=True))
    found = tuple(Dim(view.shape[a], 0, 0, steps[a]) for a in reduced) or (Dim(1, 0),)
    if len(found) > MAX_DIMS:
        received = f"positions along {len(found)} reduced axes on a GPU"
        raise ArgumentError(message(bound.bins.name, received, f"at most {MAX_DIMS}", "Reshape the array."))
    return found


def _needs_positions(bound: Binned) -> bool:
    return bound.cells.indexed or bool(bound.inner.monoid.unsafe_cuda)


def _prepare(arrays: Chunks, bound: Binned, axes: Axes, place: Place, order: _Order | None) -> _Prepared:
    layouts = tuple((a.shape, a.strides, a.data.ptr % 16) for a in arrays)
    bins = bound.bins
    binning = (bound.cells, bins.count, bins.axes, bins.strict, bins.name, bins.known is None)
    key = (layouts, binning, axes, place.shape if _needs_positions(bound) else None, order, arrays[0].data.device_id)
    found = _prepared.get(key)
    if found is None:
        found = _prepared[key] = _Prepared(arrays, bound, axes, place, order)
    return found


def _adds_words(cells: Bound) -> bool:
    """Whether atomics add an element to its state, with the same answer in any order."""
    if plans.adds_whole(device_operator.cuda_operator(cells)):
        return True
    inner = cells.parts[0]
    is_product = inner.name in ("prod", "nanprod") and inner.elements[0].kind in "biu" and inner.state.itemsize == 8
    return len(cells.parts) == 1 and (is_product or inner.name in ("any", "all"))


def _way(rows: plans.Rows, cells: Bound, device: int) -> str:
    return plans.method(device_operator.cuda_operator(cells), rows, _adds_words(cells), device)


class _Method:
    """How rows that are alike are reduced to the states of their groups, with what of that does not depend on where
    they lie."""

    def __init__(self, rows: plans.Rows, cells: Bound, device: int) -> None:
        self.rows, self.bound = rows, cells
        op, (text, _) = device_operator.cuda_operator(cells), device_operator.own_text(cells)
        self.size = cells.state.itemsize
        self.way = _way(rows, cells, device)
        self.op, self.device, self.text = op, device, text
        self.steps = [plans.ready(step, device, text) for step in plans.steps(self.way, op, rows, device)]
        self.batch = plans.batch(op, rows) if self.way == plans.PIECES else 1  # chunks of a launch, at most

    def fold(self, chunks: Sequence[_Chunk], before: Any, flags: int) -> Any:
        """The states of some chunks, as many as :attr:`batch` at most, behind what is there of those before them: CuPy
        bytes, those of (rows, groups, inner) one after another. ``flags``: the word for wrong labels, or 0."""
        if self.way == plans.PIECES:
            return self._pieces(chunks, before, flags)
        (each,) = chunks
        bases = [each.operands, (each.codes.array.data.ptr, 0, 0)]
        if self.way == plans.ROWS:
            mine = self._rows(each, flags)
        elif self.way in (plans.PRIVATE, plans.TILES, plans.BEST, plans.MERGED):
            mine = self._blocks(bases, flags)
        elif self.way == plans.RAISED:
            mine = self._raised(bases, flags)
        else:
            mine = self._whole(bases, flags) if len(self.steps) == 1 else self._exact(bases, flags)
        return mine if before is None else device_reduce.combine([before, mine.reshape(before.shape)], self.bound)

    def _new(self, states: int) -> tuple[Any, int]:
        nbytes = max(1, states * self.size)
        return launch.new_array((states, self.size), np.dtype(np.uint8), nbytes)

    def _blocks(self, bases: list[launch.Base], flags: int) -> Any:
        """A partial a block, which are folded in order."""
        (step,), rows = self.steps, self.rows
        work = step.launch.work
        states, out = self._new(step.launch.blocks * rows.groups)
        plans.start(step, (out, 0, flags), bases)
        if work.splits == 1:
            return states
        shape = (rows.rows, work.splits, rows.groups, self.size)
        return device_reduce.combine_axis(states.reshape(shape), self.bound, 1)

    def _raised(self, bases: list[launch.Base], flags: int) -> Any:
        """Words that all blocks raise, of which states are made."""
        words = _zeros(plans.word_bytes(self.op, self.rows))
        states, out = self._new(self.rows.rows * self.rows.groups)
        for step in self.steps:
            plans.start(step, (out, words.ptr, flags), bases)
        return states

    def _whole(self, bases: list[launch.Base], flags: int) -> Any:
        """Integers, added to states."""
        states, out = self._new(self.rows.rows * self.rows.groups)
        launch.run(self._filling, [(0, 0, 0)], out, self.size, self.device)
        plans.start(self.steps[0], (out, 0, flags), bases)
        return states

    @cached_property
    def _filling(self) -> Any:
        return _filling(self.rows.rows * self.rows.groups, self.bound, self.device)

    def _exact(self, bases: list[launch.Base], flags: int) -> Any:
        """Numbers, added to words, which are rounded to states."""
        adding, rounding = self.steps
        cells = self.rows.rows * self.rows.groups
        nbytes = plans.words_bytes(self.op, self.rows, adding.launch)
        words = _zeros(nbytes + cells * 4)
        seen = words.ptr + nbytes
        plans.start(adding, (words.ptr, seen, flags), bases)
        states, out = self._new(cells)
        plans.start(rounding, (out, 0, 0), [(words.ptr, seen, 0), (0, 0, 0)])
        return states

    def _pieces(self, chunks: Sequence[_Chunk], before: Any, flags: int) -> Any:
        """Elements in the order of their groups; what was there of chunks before is written over."""
        rows = self.rows
        first, last = (plans.ready(step, self.device, self.text) for step in plans.pieces(self.op, rows, len(chunks)))
        bases: list[launch.Base] = []
        for each in chunks:
            bases += [each.operands, (*(a.data.ptr for a in self._stretches(each.codes, flags)), 0)]
        parts, at = self._new(len(chunks) * rows.rows * first.launch.work.chunks * rows.inner)
        plans.start(first, (at, 0, 0), bases)
        if before is None and len(chunks) == 1 and first.launch.work.chunks == rows.groups:
            return parts  # no group may have more than one
        states, out = self._new(rows.rows * rows.groups * rows.inner) if before is None else (before, before.data.ptr)
        plans.start(last, (out, at, 0 if before is None else out), bases)
        del parts
        return states

    def _rows(self, chunk: _Chunk, flags: int) -> Any:
        """Rows in shared memory, in the order of their groups."""
        rows, codes = self.rows, chunk.codes
        places, starts = self._stretches(codes, flags)
        ranking, folding = (plans.ready(s, self.device, self.text) for s in plans.in_rows(self.op, rows, self.device))
        name = ranking.launch.kernel
        if name not in codes.ranks:
            ranks = np.dtype(np.uint16 if plans.rank_type(rows) == "u16" else np.uint32)
            codes.ranks[name], out = launch.new_array((rows.length,), ranks, ranks.itemsize * rows.length)
            plans.start(ranking, (out, 0, 0), [(places.data.ptr, 0, 0), (0, 0, 0)])
        states, out = self._new(rows.rows * rows.groups)
        bases = [chunk.operands, (codes.ranks[name].data.ptr, starts.data.ptr, 0)]
        plans.start(folding, (out, places.data.ptr, 0), bases)
        return states

    def _stretches(self, codes: Codes, flags: int) -> tuple[Any, Any]:
        """What :meth:`_sorted` finds, once."""
        if codes.stretches is None:
            codes.stretches = self._sorted(codes, flags)
        return codes.stretches

    def _sorted(self, codes: Codes, flags: int) -> tuple[Any, Any]:
        """Positions in the order of their groups, and where each group begins among them."""
        *sorting, starting = self.steps
        n = codes.array.size
        starts, at = launch.new_array((codes.groups + 1,), np.dtype(np.uint32), 4 * (codes.groups + 1))
        if not sorting:  # few labels, one launch
            places, out = launch.new_array((n,), np.dtype(np.uint32), 4 * n)
            scratch = launch.allocate(12 * n)
            plans.start(starting, (out, scratch.ptr, flags), [(codes.array.data.ptr, 0, 0), (at, 0, 0)])
            return places, starts
        digits, splits = sorting[0].launch.work.chunks, sorting[0].launch.work.splits
        counts = launch.allocate(4 * digits * (splits + 1))
        sums = counts.ptr + 4 * digits * splits
        keys, places = codes.array, None
        for i in range(0, len(sorting), 3):
            launch.fill_zeros(sums, 4 * digits, launch.current_stream())
            bases = [(keys.data.ptr, 0 if places is None else places.data.ptr, 0), (counts.ptr, sums, 0)]
            next_keys, next_places = (launch.new_array((n,), np.dtype(np.uint32), 4 * n)[0] for _ in range(2))
            for step in sorting[i : i + 3]:
                plans.start(step, (next_keys.data.ptr, next_places.data.ptr, flags if i == 0 else 0), bases)
            keys, places = next_keys, next_places
        plans.start(starting, (at, 0, 0), [(keys.data.ptr, 0, 0), (0, 0, 0)])
        return places, starts


def _identities(cells: int, bound: Bound) -> Any:
    size = bound.state.itemsize
    states, out = launch.new_array((cells, size), np.dtype(np.uint8), max(1, cells * size))
    if cells:
        device = states.data.device_id
        launch.run(_filling(cells, bound, device), [(0, 0, 0)], out, size, device)
    return states


def _filling(cells: int, bound: Bound, device: int) -> Any:
    text, _ = device_operator.own_text(bound)
    return launch.ready([chunk_plans.fill(device_operator.cuda_operator(bound), cells, bound)], device, text)


def _codes_of(labels: Any, bins: Bins, view: View, order: Axes, place: Place) -> Codes:
    """Labels of all elements of a row, whose axes are in this order; those that lie in the graph stay on the GPU for
    other chunks."""
    groups = view.rows * bins.count
    if bins.known is None:
        return Codes(_labels_in_order(on_device(labels), bins, view, order), groups)
    sizes = tuple(view.shape[a] for a in bins.axes)
    offsets = tuple(place.offsets[a] for a in bins.axes)
    key = (bins.known, bins.sizes, sizes, offsets, view.rows, order, launch.current_device())
    with _lock:
        found = _codes.get(key)
        if found is not None:
            _codes.move_to_end(key)
            return found
    found = Codes(_labels_in_order(_known_labels(bins, sizes, offsets), bins, view, order), groups)
    with _lock:
        _codes[key] = found
        while len(_codes) > 1 and sum(c.nbytes for c in _codes.values()) > KEPT:
            _codes.popitem(last=False)
    return found


def _labels_in_order(labels: Any, bins: Bins, view: View, order: Axes) -> Any:
    """Labels along the reduced axes, as these are laid, one after another."""
    if order == view.reduced and view.rows == 1 and labels.flags.c_contiguous:
        return labels if labels.ndim == 1 else labels.reshape(-1)
    apart = labels.reshape(tuple(view.shape[a] for a in view.reduced))
    laid = _contiguous(apart, tuple(view.reduced.index(a) for a in order)).reshape(-1)
    return laid if view.rows == 1 else paired(laid, view, bins)


def _known_labels(bins: Bins, sizes: Axes, offsets: Axes) -> Any:
    """The labels of a chunk, from those that lie in the graph."""
    assert bins.known is not None
    parts = [slice(o, o + n) for o, n in zip(offsets, sizes, strict=True)]
    if len(bins.sizes) == 1:
        return on_device(np.ascontiguousarray(bins.known.arrays[0][tuple(parts)]).reshape(-1))
    return boxed([a[p] for a, p in zip(bins.known.arrays, parts, strict=True)], bins.sizes)


def _zeros(nbytes: int) -> Any:
    return launch.new_zeros(max(1, nbytes), launch.current_stream())


def _check(bins: Bins, flags: int) -> None:
    """Raise for labels that kernels met and no group has."""
    large = f"{bins.count} or more" if flags & 1 else None
    refuse(bins, large, bool(flags & 2 and bins.strict))


# ---- what CuPy does: replaced where the kernels run on a CPU


def on_device(array: Any) -> Any:
    import cupy

    return cupy.asarray(array)


def read_flags(memory: Any) -> int:
    """Waits for the GPU."""
    return int(launch.array_at((1,), np.dtype(np.uint32), memory, (4,)).get()[0])


def with_counts(states: Any, counts: Any) -> Any:
    """The states of means, from those of sums: behind each the count of its group."""
    import cupy

    with cupy.cuda.Device(states.data.device_id):
        words = states.shape[-1] // 8
        found = cupy.empty((*states.shape[:-1], words + 1), np.int64)
        found[..., :words] = (states if states.flags.c_contiguous else states.copy()).view(np.int64)
        found[..., words] = cupy.asarray(counts)
        return found.view(np.uint8)


def boxed(lines: list[Any], counts: tuple[int, ...]) -> Any:
    """Numbers of the boxes that labels along each axis make, in C order."""
    import cupy

    number, outside = cupy.zeros((), np.int64), cupy.zeros((), bool)
    for axis, (line, count) in enumerate(zip(lines, counts, strict=True)):
        mine = cupy.asarray(line).reshape([-1 if a == axis else 1 for a in range(len(lines))]).astype(np.int64)
        number, outside = number * count + mine, (mine < 0) | outside
    total = int(np.prod(counts, dtype=np.int64))
    return cupy.where(outside, -1, number).astype(np.min_scalar_type(-total)).reshape(-1)


def paired(labels: Any, view: View, bins: Bins) -> Any:
    """Numbers of groups that are counted in rows. Waits for the GPU, to look for labels that no group has."""
    import cupy

    greatest, least = int(labels.max()), int(labels.min())  # of uint64 too, of which int64 does not hold all
    _check(bins, int(greatest >= bins.count) + 2 * int(least < 0))
    wide = labels.astype(np.int64)
    row = cupy.arange(wide.size) // view.size(view.now)
    return cupy.where(wide < 0, -1, row * bins.count + wide)
