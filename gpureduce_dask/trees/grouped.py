"""What the tasks of groups run: many chunks to one partial."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from .. import chunk
from ..chunk import Place, Places
from ..chunk.ahead import ahead
from ..device import faults
from ..monoid import Bound
from . import groups, lazy, spread
from .axes import Axes
from .handles import Coords, Handle
from .tasks import Partial, lacks_answer, merge

PENDING = 64  # partials of a group that wait to be folded together: one launch for many,
PENDING_BYTES = 8 * 2**20  # unless they are large


@dataclass(frozen=True)
class Where:
    """How a group's chunks lie in the array.

    ``shape`` is the array's along the reduced axes and 0 along others, where positions matter. ``runs`` are the start
    and length of each stretch of neighbours, where their order matters.
    """

    axes: Axes
    shape: tuple[int, ...] | None = None
    runs: tuple[tuple[int, int], ...] | None = None

    def places(self, offsets: Sequence[Coords]) -> Places | None:
        if self.shape is None:
            return None
        shape = self.shape
        return Places([Place(tuple(o if n else 0 for o, n in zip(at, shape, strict=True)), shape) for at in offsets])


@dataclass(frozen=True)
class Runs:
    """Partials of stretches of chunks, by where each starts."""

    starts: tuple[int, ...]
    partials: tuple[Partial, ...]


@dataclass
class Folding:
    """Partials and chunks that come one at a time, in order, folded before they pile up.

    Chunks of fewer bytes than their partial has wait until they have as many: a state costs what it is made of a few
    elements or of many.
    """

    bound: Bound
    partials: list[Partial] = field(default_factory=list)
    nbytes: int = 0
    chunks: list[lazy.Unreduced] = field(default_factory=list)  # behind the partials
    own: Partial = None  # the partial that was made of chunks here, and may be written to

    def add(self, found: Partial | lazy.Unreduced) -> None:
        if self.chunks and not (isinstance(found, lazy.Unreduced) and found.follows(self.chunks[0])):
            self._reduce()
        if isinstance(found, lazy.Unreduced):
            self.chunks.append(found)
            if found.place is not None or sum(c.nbytes for c in self.chunks) >= found.partial_bytes:
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
        first, blocks = self.chunks[0], [c.blocks for c in self.chunks]
        is_last = self.own is not None and bool(self.partials) and self.partials[-1] is self.own
        before = self.partials.pop() if is_last else None
        self.nbytes -= getattr(before, "nbytes", 0)
        self.chunks = []
        self.own = chunk.add(before, blocks, first.bound, first.axes, first.place)
        self.add(self.own)


@faults.task
def reduce_chunks(
    columns: list[list[Any]], bound: Bound, offsets: Sequence[Coords], where: Where, keys: Sequence[Any]
) -> Partial | Runs:
    """Chunks in memory, one list for each of the monoid's arity; ``keys`` are the first's."""
    blocks = list(zip(*columns, strict=True))
    with _named(lambda: keys, lambda: blocks, bound, where.axes):
        return _reduce(blocks, bound, offsets, where)


@faults.task
def reduce_held(
    handles: list[Handle], picks: Sequence[int], bound: Bound, where: Where, is_asked: bool = False
) -> Partial | Runs:
    """Chunks that handles refer to. Those of another worker are reduced there, unless it ``is_asked`` already."""
    if all(h.is_here for h in handles):
        first = handles[0]

        def blocks() -> list[tuple[Any, ...]]:
            return list(zip(*(h.take(picks) for h in handles), strict=True))

        with _named(lambda: [first.share.keys[i] for i in picks], blocks, bound, where.axes):
            if len(handles) == 1 and where.runs is None:
                return _reduce_again(first, picks, bound, where)
            return _reduce(blocks(), bound, [first.share.offsets[i] for i in picks], where)
    run = functools.partial(reduce_held, picks=picks, bound=bound, where=where)
    found = None if is_asked else spread.at_home(handles, run)
    return found[0] if found else _reduce_from_afar(handles, picks, bound, where)


def reduce_all(handles: list[Handle], bound: Bound, where: Where, is_asked: bool = False) -> Partial | Runs:
    """All chunks that handles refer to, of the only slice."""
    numbers = handles[0].share.numbers
    return reduce_held(handles, range(len(numbers)), bound, replace(where, runs=runs_of(bound, numbers)), is_asked)


def runs_of(bound: Bound, members: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """The start and length of each stretch of neighbours, where their order matters."""
    if bound.monoid.commutative:
        return None
    return tuple((run.start, len(run)) for run in groups.runs(members))


def _reduce_again(handle: Handle, picks: Sequence[int], bound: Bound, where: Where) -> Partial:
    """Chunks that were perhaps reduced before: what was found out about each is not asked again."""
    batch = handle.once((picks, bound.dtypes), lambda: chunk.gather([(c,) for c in handle.take(picks)], bound))
    if bound.monoid.empty == "raise" and not handle.once(picks, lambda: all(c.size for (c,) in batch)):
        return _reduce_run(batch, bound, [handle.share.offsets[i] for i in picks], where)
    places = handle.once((picks, where.shape), lambda: where.places([handle.share.offsets[i] for i in picks]))
    return chunk.leave(chunk.reduce_many(batch, bound, where.axes, places), bound)


@contextmanager
def _named(
    keys: Callable[[], Sequence[Any]], blocks: Callable[[], Sequence[tuple[Any, ...]]], bound: Bound, axes: Axes
) -> Iterator[None]:
    """An error of the block says which of these chunks it comes from."""
    try:
        yield
    except Exception as error:
        bad = None if isinstance(error, MemoryError) else _first_bad(blocks(), bound, axes)
        names = keys()
        which = f"{names[0]} to {names[-1]}, {len(names)} chunks together" if bad is None else str(names[bad])
        error.add_note(f"while reducing {which}")
        raise


def _first_bad(blocks: Sequence[tuple[Any, ...]], bound: Bound, axes: Axes) -> int | None:
    """The number of the first chunk that cannot be reduced alone."""
    for i, block in enumerate(blocks):
        try:
            if not lacks_answer(block[0], bound, axes):
                chunk.reduce(block, bound, axes)
        except Exception:  # whatever it is, it is the error that is to be named
            return i
    return None


def _reduce_from_afar(handles: list[Handle], picks: Sequence[int], bound: Bound, where: Where) -> Partial | Runs:
    """Chunks of a handle that travelled, which come one at a time."""
    folding, partials = Folding(bound), []
    for i in picks:
        partial = reduce_chunks(
            [h.take([i]) for h in handles],
            bound,
            [handles[0].share.offsets[i]],
            Where(where.axes, where.shape),
            [handles[0].share.keys[i]],
        )
        if where.runs is None:
            folding.add(partial)
        else:
            partials.append(partial)
    if where.runs is None:
        return merge(folding.pending(), bound)
    return Runs(tuple(start + i for start, length in where.runs for i in range(length)), tuple(partials))


def _reduce(blocks: list[tuple[Any, ...]], bound: Bound, offsets: Sequence[Coords], where: Where) -> Partial | Runs:
    if where.runs is None:
        return _reduce_run(blocks, bound, offsets, where)
    partials, i = [], 0
    for _, length in where.runs:
        partials.append(_reduce_run(blocks[i : i + length], bound, offsets[i : i + length], where))
        i += length
    return Runs(tuple(start for start, _ in where.runs), tuple(partials))


def _reduce_run(blocks: list[tuple[Any, ...]], bound: Bound, offsets: Sequence[Coords], where: Where) -> Partial:
    found = [(b, o) for b, o in zip(blocks, offsets, strict=True) if not lacks_answer(b[0], bound, where.axes)]
    if not found:
        return None
    places = where.places([o for _, o in found])
    partial = chunk.reduce_many([b for b, _ in found], bound, where.axes, places)
    # Chunks of a run lie side by side: along the axes that wait, all of them begin where the first does.
    return chunk.leave(ahead(partial, bound, where.axes, places[0] if places else None), bound)


def in_order(groups: list[Runs], close: Callable[[list[Partial]], Any]) -> Any:
    """Runs of several groups, brought in order, to what ``close`` makes of them."""
    pairs = [pair for group in groups for pair in zip(group.starts, group.partials, strict=True)]
    return close([partial for _, partial in sorted(pairs, key=lambda pair: pair[0])])
