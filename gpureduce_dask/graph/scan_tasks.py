"""What the tasks of a scan run: totals of chunks, what stands before each, and the scan of each from there."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .. import chunk
from ..device import faults
from ..distributed.handles import SummaryTask
from ..host import scan as host_scan
from ..host.packed import PackedList, running_partials, stacked
from ..operators.monoid import INDEX, Bound
from ..operators.table import OPERATORS
from ..place import Place, whole
from . import deferred
from .reduce_tasks import Partial, merge

# The arrays to read of a chunk, the operator with their deferred steps, and where segments start.
Read = tuple[tuple[Any, ...], Bound, Any]
# The partials of some chunks, None for that of nothing; and where a segment starts in their lines, None for each where
# there are no segments.
Totals = tuple[list[Partial], list[Any]]
# Where the totals of a line's chunks are: in which of some groups, and at which place.
Order = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Scan:
    """One scan along an axis, as every task of it knows it. ``shape`` is, where positions matter, the array's along the
    axis and 0 along others, or of flat chunks all of it. ``device`` is whether results are CuPy arrays. With
    ``initial`` the first result of a line stands for none of its elements. ``flat`` chunks are read in C order as one
    line. With ``fuse`` tasks compute the deferred steps of their chunks."""

    bound: Bound
    axis: int
    exclusive: bool = False
    reverse: bool = False
    initial: bool = False
    device: bool = False
    shape: tuple[int, ...] | None = None
    flat: bool = False
    fuse: bool = True

    def place(self, offset: int) -> Place | None:
        offsets = (offset if a == self.axis else 0 for a in range(len(self.shape or ())))
        return None if self.shape is None else Place(tuple(offsets), self.shape)

    def run(
        self, found: Read, carry: Partial, offset: int, is_first: bool = False, with_total: bool = False
    ) -> tuple[Any, Partial]:
        """One chunk's results, of what :meth:`read` gave, and what stands behind it, if asked for."""
        read, bound, starts = found
        out, inner, inside = None, None, ()
        if self.initial and is_first:
            shape = tuple(n + (a == self.axis) for a, n in enumerate(read[0].shape))
            out = self.results(shape, chunk.is_device(read[0]), True)
            at = slice(None, -1) if self.reverse else slice(1, None)
            inside = (slice(None),) * self.axis + (at,)
            inner = out[inside]
        options: dict[str, Any] = {"exclusive": self.exclusive, "reverse": self.reverse, "resets": starts, "out": inner}
        options |= {"place": self.place(offset), "with_total": with_total}
        array, total = chunk.scan(read, bound, self.axis, carry, **options)
        if out is not None and isinstance(array, np.ma.MaskedArray):
            hidden = np.zeros(out.shape, bool)
            hidden[inside] = np.ma.getmaskarray(array)
            out = np.ma.masked_array(out, hidden)
        return chunk.move(array if out is None else out, self.device), total

    def read(self, blocks: Sequence[Any]) -> Read:
        """What the tasks of a chunk read; the last of its blocks says where segments start, where they do."""
        arity = self.bound.monoid.arity
        starts = deferred.materialise(blocks[arity]) if len(blocks) > arity else None
        blocks = [np.asarray(b) if isinstance(b, list) else b for b in blocks[:arity]]
        if self.flat:
            return tuple(deferred.materialise(b).reshape(-1) for b in blocks), self.bound, starts
        return *deferred.read_with(blocks, self.bound, self.fuse), starts

    def results(self, shape: tuple[int, ...], device: bool, is_filled: bool) -> Any:
        """An array for results, filled with what stands for no element or empty."""
        library: Any = np
        if device:
            import cupy

            library = cupy
        out = library.empty(shape, self.bound.result)
        if is_filled:
            out[...] = chunk.finalise(self.bound.identities(()), self.bound)[()]
        return out

    def totals(self, every: Sequence[Sequence[Any]], offsets: Sequence[int]) -> Totals:
        """What each of some chunks adds to a line."""
        if self._in_order and all(map(self._is_as_read, every)):
            read = [self.read(blocks)[0] for blocks in every]
            places = None if self.shape is None else [cast(Place, self.place(offset)) for offset in offsets]
            return chunk.reduce_each(read, self.bound, (self.axis,), places), [None] * len(every)
        found = list(map(self.total, every, offsets))
        return [partial for partial, _ in found], [reset for _, reset in found]

    def total(self, blocks: Sequence[Any], offset: int) -> tuple[Partial, Any]:
        """What a chunk adds to a line, and where a segment starts in it."""
        read, bound, starts = self.read(blocks)
        if read[0].shape[self.axis] == 0:
            return None, None
        if starts is None and (self._in_order or not bound.indexed):
            back = (slice(None),) * self.axis + (slice(None, None, -1),)
            lines = read if self._in_order else tuple(b[back] for b in read)
            partial = chunk.reduce(lines, bound, (self.axis,), self.place(offset), masks=False)
            return partial, None
        _, partial = chunk.scan(read, bound, self.axis, reverse=self.reverse, resets=starts, place=self.place(offset))
        reset = None if starts is None else chunk.move(starts.any(axis=self.axis, keepdims=True), False)
        return partial, reset

    @property
    def _in_order(self) -> bool:
        """True where chunks are folded as they are, first to last."""
        return self.bound.monoid.commutative or not self.reverse

    def _is_as_read(self, blocks: Sequence[Any]) -> bool:
        """True for what is an array of a GPU, with elements, that nothing is made of to read it."""
        return len(blocks) == len(self.bound.dtypes) and all(
            chunk.is_device(b) and b.size and b.dtype == dtype and (not self.flat or b.flags.c_contiguous)
            for b, dtype in zip(blocks, self.bound.dtypes, strict=True)
        )


class Section:
    """What some chunks of one or several lines need: for each line the partial before each chunk, and last the one
    behind them all; the chunks' offsets along the axis; and the scan, which so travels once and not with each chunk's
    task."""

    __slots__ = ("_there", "found", "offsets", "scan")

    def __init__(self, found: Sequence[PackedList], offsets: Sequence[int], scan: Scan) -> None:
        self.found, self.offsets, self.scan = found, offsets, scan
        self._there: dict[tuple[int, int], Sequence[Partial]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Section, (self.found, self.offsets, self.scan)

    def __sizeof__(self) -> int:
        return sum(getattr(partial, "nbytes", 0) for line in self.found for partial in line)

    def run(self, line: int, at: int, *blocks: Any) -> Any:
        """Chunk number ``at`` of a line scanned from what stands before it."""
        read = self.scan.read(blocks)
        return self.scan.run(read, self._carries(line, read[0][0])[at], self.offsets[at])[0]

    def _carries(self, line: int, block: Any) -> Sequence[Partial]:
        """The partials before each chunk of a line; for a GPU's block there, where all arrive together, once."""
        found = self.found[line]
        if not chunk.is_device(block):
            return found
        where = (block.data.device_id, line)
        if where not in self._there:
            one = stacked([p for p in found if p is not None])
            if one is None:
                return found
            import cupy

            with cupy.cuda.Device(block.data.device_id):
                there = iter(chunk.to_device(one, self.scan.bound))
            self._there[where] = [None if p is None else next(there) for p in found]
        return self._there[where]


class TotalsTask(SummaryTask):
    """The task of :func:`totals`. dask fuses that of one chunk with nothing: whether it then fuses the chunk with what
    makes it would depend on which of them it comes to first, and be another in another graph of the same keys."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        return len(self.dependencies) == 1


@deferred.reads
@faults.task
def totals(columns: Sequence[Sequence[Any]], offsets: Sequence[int], scan: Scan) -> Totals:
    """The totals of some chunks; one column for each of the monoid's arity, and one for where segments start."""
    partials, resets = scan.totals(list(zip(*columns, strict=True)), offsets)
    partials = chunk.small_to_host_together(partials, scan.bound)
    if any(p is not None and chunk.is_device(p) for p in partials):  # which go from GPU to GPU
        return partials, resets
    return PackedList(partials), PackedList(resets)


@deferred.reads
@faults.task
def carries(
    groups: Sequence[Totals], orders: Sequence[Order], offsets: Sequence[int], before: Section | None, scan: Scan
) -> Section:
    """What the chunks of a section need. ``orders`` say for each line where its totals are among the groups,
    ``offsets`` are those of the chunks along the axis, and ``before`` is the section before, if there is one."""
    found = []
    for line, order in enumerate(orders):
        carries = [None if before is None else before.found[line][-1]]
        partials, resets = ([groups[group][kind][place] for group, place in order] for kind in (0, 1))
        ends = running_partials(carries[0], partials, scan.bound) if all(r is None for r in resets) else None
        for total, reset in zip(partials, resets, strict=True) if ends is None else ():
            carries.append(_after(carries[-1], total, reset, scan.bound))
        found.append(PackedList([*carries, *(ends or ())]))
    return Section(found, offsets, scan)


def _after(carry: Partial, total: Partial, reset: Any, bound: Bound) -> Partial:
    if total is None or carry is None:
        return carry if total is None else total
    joined = merge([carry, total], bound)
    if reset is None:
        return joined
    if not chunk.is_device(joined):
        return np.where(reset, chunk.to_host(total, bound), joined)
    return np.where(chunk.move(reset, True)[..., None], chunk.to_device(total, bound), joined)  # by CuPy


@deferred.reads
@faults.task
def scan_chunk(section: Section, line: int, at: int, *blocks: Any) -> Any:
    """One chunk of a section."""
    return section.run(line, at, *blocks)


@deferred.reads
@faults.task
def scan_first(*blocks: Any, scan: Scan, offset: int = 0) -> Any:
    """The first chunk of a line."""
    return scan.run(scan.read(blocks), None, offset, True)[0]


@deferred.reads
@faults.task
def scan_line(columns: Sequence[Sequence[Any]], offsets: Sequence[int], before: Partial, scan: Scan) -> list[Any]:
    """Some chunks of a line in turn, each from what stands behind the one before it, and last what stands behind them
    all. ``before`` is what stands before them, None at the start of the line."""
    found: list[Any] = []
    is_first = before is None
    for blocks, offset in zip(zip(*columns, strict=True), offsets, strict=True):
        results, before = scan.run(scan.read(blocks), before, offset, is_first and not found, True)
        found.append(results)
    return [*found, before]


# ---- all axes, in C order

Slices = tuple[slice, ...]
Columns = Sequence[Sequence[Any]]  # chunks, as one list for each array


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a chunk's stretches lie: in the totals of its band, in the results of its rows, and its first element."""

    totals: Any  # of the rows' axis and those up to the last chunked one, by number of the chunk there
    results: Slices  # of the same axes, the last one with all that are behind it as one
    corner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a band, and where those of each chunk belong. ``first`` is the first of these rows, ``lead`` how
    many axes of size 1 stand before them in a chunk, and ``behind`` the shape of a row in the result."""

    stretches: Sequence[Stretch]
    first: int
    lead: int
    behind: tuple[int, ...]


@faults.task
def band_totals(columns: Columns, stretches: Sequence[Stretch], last: int, scan: Scan) -> PackedList:
    """The totals of the stretches of some chunks, on the host: axes from ``last`` on are folded."""
    found = PackedList()
    for blocks, stretch in zip(zip(*columns, strict=True), stretches, strict=True):
        if scan.shape is not None:
            found.append(_totals_in_place(blocks, stretch.corner, last, scan))
            continue
        axes = tuple(range(last, blocks[0].ndim))
        if scan.reverse and not scan.bound.monoid.commutative:
            blocks = tuple(b[(..., *(slice(None, None, -1) for _ in axes))] for b in blocks)
        found.append(chunk.to_host(chunk.reduce(blocks, scan.bound, axes, masks=False), scan.bound))
    return found


def _firsts(corner: tuple[int, ...], kept: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The positions in C order of the first elements of a chunk's stretches; ``kept`` are its sizes along the axes that
    do not count to a stretch."""
    steps = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    along = np.ix_(*(step * np.arange(n) for step, n in zip(steps, kept, strict=False)))
    return sum(map(operator.mul, corner, steps)) + sum(along, np.zeros(kept, np.int64))


def _is_shifted(scan: Scan) -> bool:
    """True where positions within stretches become those in C order by an addition: of our own operators, to which
    numbers below 0 are of no element. To others each stretch is told its place, in a call of its own."""
    return OPERATORS.get(scan.bound.monoid.name) == scan.bound.monoid


def _shifted(partials: Any, by: Any) -> Any:
    shifted = partials.copy()
    index = shifted[INDEX]
    index += np.where(index < 0, 0, by)
    return shifted


def _totals_in_place(blocks: tuple[Any, ...], corner: tuple[int, ...], last: int, scan: Scan) -> Any:
    """The totals of a chunk's stretches where positions matter."""
    kept, axes = blocks[0].shape[:last], tuple(range(last, blocks[0].ndim))
    firsts = _firsts(corner, kept, scan.shape or ())
    if _is_shifted(scan):
        found = chunk.reduce(blocks, scan.bound, axes, whole(blocks[0].shape), masks=False)
        return _shifted(chunk.to_host(found, scan.bound), firsts.reshape(*kept, *(1 for _ in axes)))
    totals = scan.bound.identities(kept)
    pieces = [b.reshape(*kept, math.prod(b.shape[last:])) for b in blocks]
    for at in np.ndindex(kept if pieces[0].size else (0,)):
        line = tuple(p[at] for p in pieces)
        _, total = chunk.scan(line, scan.bound, 0, reverse=scan.reverse, place=_place(firsts[at], scan))
        totals[at] = chunk.to_host(total, scan.bound)[0]
    return totals


def _place(first: int, scan: Scan, ndim: int = 1) -> Place:
    return Place((*(0,) * (ndim - 1), int(first)), (*(0,) * (ndim - 1), math.prod(scan.shape or ())))


@faults.task
def band_carries(
    groups: Sequence[list[Any]], stretches: Sequence[Stretch], shape: tuple[int, ...], before: Any, scan: Scan
) -> tuple[Any, Any]:
    """What stands before each stretch of a band, and what stands behind the band. ``before`` is that of the last."""
    totals = np.empty(shape, scan.bound.state)
    for found, stretch in zip((p for group in groups for p in group), stretches, strict=True):
        target = totals[(slice(None), *stretch.totals)]
        target[...] = found.reshape(target.shape)
    carry = None if before is None else before[1]
    ahead, end = host_scan.before(totals.reshape(-1), scan.bound, carry, scan.reverse)
    return ahead.reshape(shape), end


@faults.task
def cut(columns: Columns, at: Slices) -> list[list[Any]]:
    """Some rows of some chunks, without the rest of the chunks they are of."""
    return [[block[at].copy() for block in column] for column in columns]


def gather(groups: Sequence[Columns], carries: tuple[Any, Any], rows: Rows) -> tuple[Columns, Any, Rows]:
    """The chunks, or cut pieces of them, that have some rows of a band, and what stands before these rows, as the
    result of one task. All tasks that scan the rows run where that result lies. Nothing is copied. Chunks stand first,
    and in lists: so a GPU's travel as such, and the scheduler knows what they weigh."""
    return [[block for column in each for block in column] for each in zip(*groups, strict=True)], carries[0], rows


@faults.task
def scan_rows(gathered: tuple[Columns, Any, Rows], start: int, stop: int, is_first: bool, scan: Scan) -> Any:
    """Some rows of those, scanned where they belong in the result."""
    columns, before, rows = gathered
    extra = scan.initial and is_first
    shape = (stop - start, *rows.behind)
    flat = scan.results((math.prod(shape) + extra,), chunk.is_device(columns[0][0]), extra)
    hidden = np.zeros(flat.shape, bool) if any(isinstance(b, np.ma.MaskedArray) for b in columns[0]) else None

    def rows_of(line: Any) -> Any:
        return (line[:-1] if extra and scan.reverse else line[int(extra) :]).reshape(shape)

    view = rows_of(flat)
    at = (*(0,) * rows.lead, slice(start - rows.first, stop - rows.first))
    for blocks, stretch in zip(zip(*columns, strict=True), rows.stretches, strict=True):
        target = view[(slice(None), *stretch.results)]
        carry = before[(slice(start, stop), *stretch.totals)][..., None]
        pieces = tuple(b[at].reshape(target.shape) for b in blocks)
        if hidden is not None:
            rows_of(hidden)[(slice(None), *stretch.results)] = np.ma.getmaskarray(pieces[0])
        if scan.shape is not None:
            corner = (*stretch.corner[: rows.lead], stretch.corner[rows.lead] + start, *stretch.corner[rows.lead + 1 :])
            _scan_in_place(pieces, target, carry, corner, rows.lead, scan)
            continue
        _run(scan, pieces, target.ndim - 1, carry, target)
    return chunk.move(flat if hidden is None else np.ma.masked_array(flat, hidden), scan.device)


def _run(scan: Scan, pieces: tuple[Any, ...], axis: int, carry: Any, out: Any, place: Place | None = None) -> None:
    chunk.scan(pieces, scan.bound, axis, carry, exclusive=scan.exclusive, reverse=scan.reverse, out=out, place=place)


def _scan_in_place(
    pieces: tuple[Any, ...], target: Any, carry: Any, corner: tuple[int, ...], lead: int, scan: Scan
) -> None:
    """The results of a chunk's stretches where positions matter."""
    firsts = _firsts(corner, (1,) * lead + target.shape[:-1], scan.shape or ()).reshape(*target.shape[:-1], 1)
    if not _is_shifted(scan):
        for at in np.ndindex(target.shape[:-1]):
            _run(scan, tuple(p[at] for p in pieces), 0, carry[at], target[at], _place(firsts[at][0], scan))
        return
    behind = math.prod(scan.shape or ())  # so that no position of what stands before is below 0
    place = _place(behind, scan, target.ndim)
    _run(scan, pieces, target.ndim - 1, _shifted(carry, behind - firsts), target, place)
    if scan.bound.monoid.name.endswith(("argmin", "argmax")):  # whose results are positions
        target += chunk.move(firsts - behind, chunk.is_device(target))


def take(results: Any, start: int, stop: int) -> Any:
    """A part of results that were scanned together, without the rest of them."""
    return results[start:stop].copy()
