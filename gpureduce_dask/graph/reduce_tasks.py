"""What the tasks of a reduction run: one chunk or many to a partial, partials to one, the last to results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .. import chunk
from ..chunk import Place, Places
from ..device import faults
from ..distributed.handles import Coords, Handle
from ..errors import ArgumentError, message
from ..host.packed import PackedList
from ..operators.grouped import Binned
from ..operators.monoid import Bound
from ..operators.product_monoid import Product
from . import deferred
from .arguments import Axes, empty_slice

# None stands for the partial of a chunk that is empty, where a monoid has no answer for nothing: its identity
# would pass for a value.
Partial = Any
# Of stretches of chunks, by where each starts, where their order matters.
Runs = dict[int, Partial]


@deferred.reads
@faults.task
def reduce_chunk(
    *blocks: Any, bound: Bound, axes: Axes, shape: tuple[int, ...] | None = None, fuse: bool = True
) -> Partial:
    """One chunk to its partial. With ``shape``, that of the whole array, the last block is the chunk's slices. The
    deferred steps of a block are computed as it is read, with ``fuse``, and else before."""
    place = None
    if shape is not None:
        *blocks, slices = blocks  # type: ignore[assignment]
        slices = slices.item() if isinstance(slices, np.ndarray) else slices
        place = Place(tuple(s.start for s in slices), shape)
    read, of = deferred.read_with(blocks, bound, fuse)
    if lacks_answer(read[0], bound, axes):
        return None
    if deferred.is_group_task() and bound.monoid.commutative:
        together = math.inf if deferred.are_inputs(read) else _bytes_together(read, of, axes, place)
        if together:
            return deferred.UnreducedChunk(read, of, axes, place, together)
    partial = chunk.shift_positions(chunk.reduce(read, of, axes, place), of, axes, place)
    # Within a group it stays on its GPU, where the next one follows.
    return partial if deferred.is_group_task() else chunk.small_to_host(partial, bound)


def _bytes_together(blocks: Sequence[Any], bound: Bound, axes: Axes, place: Place | None) -> int:
    """Of how many bytes chunks are reduced together, lest there be a partial of each, or a launch; 0 where they are
    not."""
    if all(map(chunk.is_device, blocks)):
        is_small = all(b.nbytes for b in blocks) and 2 * sum(map(deferred.kept_bytes, blocks)) <= LAUNCH_BYTES
        return LAUNCH_BYTES if is_small and place is None and not isinstance(bound, Binned) else 0
    if not isinstance(bound, Binned):
        return chunk.partial_bytes(tuple(blocks), bound, axes)
    if not all(isinstance(b, np.ndarray) and not isinstance(b, np.ma.MaskedArray) for b in blocks):
        return 0
    cells: int = math.prod(n for a, n in enumerate(blocks[0].shape) if a not in axes)
    return max(cells * bound.cell_bytes, PENDING_BYTES)


def lacks_answer(block: Any, bound: Bound, axes: Axes) -> bool:
    """True for a chunk that is empty along ``axes`` where the monoid has no answer for nothing."""
    return bound.monoid.empty == "raise" and any(np.shape(block)[a] == 0 for a in axes)


@faults.task
def cut(packed: Any, bound: Bound, offset: int, drop: Axes | None, device: bool) -> Any:
    """The results of one of several statistics, from the packed states of all of them."""
    return _leave_axes(chunk.finalise(chunk.cut(_only(packed), bound, offset), bound), drop, device)


@deferred.reads
@faults.task
def reduce_whole(*blocks: Any, bound: Bound, axes: Axes, keepdims: bool, device: bool, fuse: bool = True) -> Any:
    """One chunk that holds all of its slices, to its results, of a product to its partial."""
    blocks = tuple(_only(b) for b in blocks)
    blocks, bound = deferred.read_with(blocks, bound, fuse)
    if lacks_answer(blocks[0], bound, axes):
        raise empty_slice(bound.name, f"a chunk of shape {np.shape(blocks[0])}")
    if isinstance(bound, Product):
        return chunk.small_to_host(chunk.reduce(blocks, bound, axes), bound)
    return _leave_axes(chunk.results(blocks, bound, axes), None if keepdims else axes, device)


@faults.task
def combine(partials: list[Partial], bound: Bound, then: Axes = ()) -> Partial:
    """Partials in order to one, then folded along the axes whose turn is next."""
    folded = fold(merge(partials, bound), bound, then)
    return None if folded is None else chunk.small_to_host(folded, bound)


@faults.task
def each_slice(partials: list[Partial], run: Callable[[list[Partial]], Any], sizes: Sequence[int]) -> list[Any]:
    """What a task's function makes of the partials of each of several slices, so many of each."""
    return [run(partials[a:b]) for a, b in pairwise(accumulate(sizes, initial=0))]


def run_each(*given: Any, runs: Sequence[Callable[..., Partial]]) -> list[Partial]:
    """The partials of several slices, of the same handles. Those that leave a GPU do so together: each alone would wait
    for its kernel before the next one is launched."""
    with chunk.keep_on_device():
        found = [run(*given) for run in runs]
    bound = runs[0].keywords["bound"]  # type: ignore[attr-defined]
    kept = [each if isinstance(each, dict) else {None: each} for each in found]
    on_host = chunk.small_to_host_together([partial for each in kept for partial in each.values()], bound)
    left = iter(on_host)
    partials = [near.get(None, near) for near in ({start: next(left) for start in each} for each in kept)]
    return partials if any(map(chunk.is_device, on_host)) else PackedList(partials)  # between GPUs one by one


@faults.task
def finalise(partials: list[Partial], *_awaited: Any, bound: Bound, drop: Axes | None, device: bool) -> Any:
    """The last partials of a tree to results, of a product to one; ``drop`` are the axes to lose, None keeps all."""
    return result(merge(partials, bound), bound, drop, device)


def pick(results: Sequence[Any], *_awaited: Any, number: int | slice) -> Any:
    """The results of one of several slices, or of some."""
    return results[number]


def broadcast_weights(block: Any, weights: Any, axes: Axes) -> Any:
    """Weights along ``axes``, in that order, as a view of the shape of their chunk and on its side."""
    if weights.shape != tuple(block.shape[a] for a in axes):
        received = f"a chunk of weights of shape {weights.shape} for one of shape {block.shape} and axes {axes}"
        remedy = "Filter array and weights alike, or call compute_chunk_sizes() on both."
        raise ArgumentError(message("average", received, "the chunk's sizes along the axes", remedy))
    shape = tuple(n if a in axes else 1 for a, n in enumerate(block.shape))
    weights = chunk.like(weights, block).transpose(np.argsort(axes).tolist()).reshape(shape)
    return np.broadcast_to(weights, block.shape)  # which CuPy answers for its own


def merge(partials: list[Partial], bound: Bound) -> Partial:
    """Partials of one shape to one, the first the earliest."""
    present = [p for p in partials if p is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else chunk.combine(present, bound)


def fold(partial: Partial, bound: Bound, axes: Axes) -> Partial:
    """A partial folded along its own axes, the last first."""
    for axis in reversed(axes):
        if partial is None:
            return None
        size = chunk.extents(partial)[axis]
        if size == 0 and bound.monoid.empty == "raise":
            return None
        if size != 1:
            partial = chunk.combine_axis(partial, bound, axis)
    return partial


def result(partial: Partial, bound: Bound, drop: Axes | None, device: bool) -> Any:
    """A partial's results without the axes to drop (None keeps all), as CuPy or NumPy arrays; a product's as it is."""
    if partial is None:
        raise empty_slice(bound.name, "an empty slice")
    if isinstance(bound, Product):
        return chunk.small_to_host(partial, bound)
    return _leave_axes(chunk.finalise(partial, bound), drop, device)


def _leave_axes(values: Any, drop: Axes | None, device: bool) -> Any:
    values = chunk.move(values, device)
    if drop is not None:
        values = values.reshape(tuple(n for a, n in enumerate(values.shape) if a not in drop))
    return values[()] if isinstance(values, np.ndarray) and values.ndim == 0 else values


def _only(block: Any) -> Any:
    """The one chunk in the nested lists that dask hands over for axes which end here."""
    while isinstance(block, list):
        (block,) = block
    return block


PENDING = 64  # partials of a group that wait to be folded together: one launch for many,
PENDING_BYTES = 8 * 2**20  # unless they are large
# Of a GPU's chunks that one launch reduces: it takes Python 0.1 ms, and the GPU a third of that to read so much (H100).
LAUNCH_BYTES = 64 * 2**20


@dataclass(frozen=True)
class GroupLayout:
    """How a group's chunks lie in the array. ``shape`` is the array's along the reduced axes and 0 along others, where
    positions matter. ``runs`` are the start and length of each stretch of neighbours, where their order matters."""

    axes: Axes
    shape: tuple[int, ...] | None = None
    runs: tuple[tuple[int, int], ...] | None = None

    def places(self, offsets: Sequence[Coords]) -> Places | None:
        if (shape := self.shape) is None:
            return None
        return Places([Place(tuple(o if n else 0 for o, n in zip(at, shape, strict=True)), shape) for at in offsets])


@dataclass
class Folding:
    """Partials and chunks that come one at a time, in order, folded before they pile up.

    Chunks of a host of fewer bytes than their partial has wait until they have as many, and those that fall into groups
    until there are ``PENDING_BYTES`` at least: a state costs what it is made of a few elements or of many. Those of a
    GPU wait until there are ``LAUNCH_BYTES``. Those that take no memory wait to the end, or for one of another kind:
    a launch reduces all of one shape.
    """

    bound: Bound
    partials: list[Partial] = field(default_factory=list)
    nbytes: int = 0
    chunks: list[deferred.UnreducedChunk] = field(default_factory=list)  # behind the partials
    keys: list[Any] = field(default_factory=list)  # of these chunks
    waiting: int = 0  # bytes of them
    own: Partial = None  # the partial that was made of chunks here, and may be written to

    def add(self, found: Partial | deferred.UnreducedChunk, key: Any = None) -> None:
        if self.chunks and not (isinstance(found, deferred.UnreducedChunk) and found.follows(self.chunks[0])):
            self._reduce()
        if isinstance(found, deferred.UnreducedChunk):
            self.chunks.append(found)
            self.keys.append(key)
            self.waiting += found.nbytes
            if found.is_alone or self.waiting >= found.together_bytes:
                self._reduce()
            return
        self.partials.append(found)
        self.nbytes += getattr(found, "nbytes", 0)
        if len(self.partials) > 1 and (len(self.partials) >= PENDING or self.nbytes > PENDING_BYTES):
            self.partials = [merge(self.partials, self.bound)]
            self.nbytes = getattr(self.partials[0], "nbytes", 0)

    def pending(self) -> list[Partial]:
        """What is left to combine."""
        self._reduce()
        return self.partials

    def _reduce(self) -> None:
        if not self.chunks:
            return
        chunks, self.chunks, keys, self.keys, self.waiting = self.chunks, [], self.keys, [], 0
        is_last = self.own is not None and bool(self.partials) and self.partials[-1] is self.own
        is_last = is_last and not chunk.is_device(self.own)  # whose partials are folded many at a time
        before = self.partials.pop() if is_last else None
        self.nbytes -= getattr(before, "nbytes", 0)
        try:
            self.own = deferred.reduce_deferred(chunks, before)
        except Exception as error:
            bad = _first_bad(error, lambda each: deferred.reduce_deferred([each]), chunks)
            with made(None if bad is None else keys[bad]):
                raise
        self.add(self.own)


@contextmanager
def made(key: Any) -> Iterator[None]:
    """An error of the block says which of a task's chunks it comes from, where that is known."""
    try:
        yield
    except Exception as error:
        if key is not None:
            error.add_note(f"while making {key} within a larger task")
        raise


@faults.task
def reduce_chunks(
    columns: list[list[Any]], bound: Bound, offsets: Sequence[Coords], layout: GroupLayout, keys: Sequence[Any]
) -> Partial | Runs:
    """Chunks in memory, one list for each of the monoid's arity; ``keys`` are the first's."""
    blocks = list(zip(*columns, strict=True))
    with _named(lambda: keys, lambda: blocks, bound, layout.axes):
        return _reduce(blocks, bound, offsets, layout)


@faults.task
def reduce_handles(
    handles: list[Handle], _anchors: list[Any], picks: Sequence[int], bound: Bound, layout: GroupLayout
) -> Partial | Runs:
    """Chunks that handles refer to; where they have moved since, they are fetched one by one."""
    if all(h.is_here() for h in handles):
        first = handles[0]

        def blocks() -> list[tuple[Any, ...]]:
            return list(zip(*(h.take(picks) for h in handles), strict=True))

        with _named(lambda: [first.share.keys[i] for i in picks], blocks, bound, layout.axes):
            if len(handles) == 1 and layout.runs is None:
                return _reduce_again(first, picks, bound, layout)
            return _reduce(blocks(), bound, [first.share.offsets[i] for i in picks], layout)
    return _reduce_from_afar(handles, picks, bound, layout)


def _reduce_again(handle: Handle, picks: Sequence[int], bound: Bound, layout: GroupLayout) -> Partial:
    """Chunks that were perhaps reduced before: what was found out about each is not asked again."""

    def offsets() -> list[Coords]:
        return [handle.share.offsets[i] for i in picks]

    find = handle.get_or_compute
    batch = find((picks, bound.dtypes), lambda: chunk.gather([(c,) for c in handle.take(picks)], bound))
    if bound.monoid.empty == "raise" and not find(picks, lambda: all(c.size for (c,) in batch)):
        return _reduce_run(batch, bound, offsets(), layout)
    places = find((picks, layout.shape), lambda: layout.places(offsets()))
    return chunk.small_to_host(chunk.reduce_many(batch, bound, layout.axes, places), bound)


@contextmanager
def _named(
    keys: Callable[[], Sequence[Any]], blocks: Callable[[], Sequence[tuple[Any, ...]]], bound: Bound, axes: Axes
) -> Iterator[None]:
    """An error of the block says which of these chunks it comes from."""
    try:
        yield
    except Exception as error:
        bad = _first_bad(error, lambda b: lacks_answer(b[0], bound, axes) or chunk.reduce(b, bound, axes), blocks())
        names = keys()
        which = f"{names[0]} to {names[-1]}, {len(names)} chunks together" if bad is None else str(names[bad])
        error.add_note(f"while reducing {which}")
        raise


def _first_bad(error: Exception, reduce: Callable[[Any], Any], chunks: Iterable[Any]) -> int | None:
    """After an error of chunks together, the number of the first that cannot be reduced alone. Where memory is
    short, nothing is tried."""
    for i, each in enumerate(() if isinstance(error, MemoryError) else chunks):
        try:
            reduce(each)
        except Exception:  # whatever it is, it is the error that is to be named
            return i
    return None


def _reduce_from_afar(handles: list[Handle], picks: Sequence[int], bound: Bound, layout: GroupLayout) -> Partial | Runs:
    """Chunks of a handle that travelled, which come one at a time."""
    folding, runs = Folding(bound), Runs()
    numbers = [start + i for start, length in layout.runs or () for i in range(length)]
    for at, i in enumerate(picks):
        columns, share, alone = [h.take([i]) for h in handles], handles[0].share, GroupLayout(layout.axes, layout.shape)
        partial = reduce_chunks(columns, bound, [share.offsets[i]], alone, [share.keys[i]])
        if layout.runs is None:
            folding.add(partial)
        else:
            runs[numbers[at]] = partial
    return runs if layout.runs is not None else merge(folding.pending(), bound)


def _reduce(
    blocks: list[tuple[Any, ...]], bound: Bound, offsets: Sequence[Coords], layout: GroupLayout
) -> Partial | Runs:
    if layout.runs is None:
        return _reduce_run(blocks, bound, offsets, layout)
    ends = list(accumulate((length for _, length in layout.runs), initial=0))
    parts = zip(layout.runs, pairwise(ends), strict=True)
    return {start: _reduce_run(blocks[a:b], bound, offsets[a:b], layout) for (start, _), (a, b) in parts}


def _reduce_run(blocks: list[tuple[Any, ...]], bound: Bound, offsets: Sequence[Coords], layout: GroupLayout) -> Partial:
    found = [(b, o) for b, o in zip(blocks, offsets, strict=True) if not lacks_answer(b[0], bound, layout.axes)]
    if not found:
        return None
    places = layout.places([o for _, o in found])
    partial = chunk.reduce_many([b for b, _ in found], bound, layout.axes, places)
    # Chunks of a run lie side by side: along the axes that wait, all of them begin where the first does.
    partial = chunk.shift_positions(partial, bound, layout.axes, places[0] if places else None)
    return chunk.small_to_host(partial, bound)


def in_order(groups: list[Runs], *_awaited: Any, close: Callable[[list[Partial]], Any]) -> Any:
    """Runs of several groups, brought in order, to what ``close`` makes of them."""
    runs = {start: partial for group in groups for start, partial in group.items()}
    return close([runs[start] for start in sorted(runs)])
