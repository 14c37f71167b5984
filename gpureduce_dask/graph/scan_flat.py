"""The scan tree over all axes, in C order, for any chunks: none is cut or joined before it is scanned.

Where each chunk is one stretch of the C order, so is each chunk of the result. Otherwise the rows of chunks that lie
side by side interleave. A band is all chunks with the same first rows: each gives the totals of its stretches of rows,
one task puts them in order, and a chunk of the result is some rows of the band, from as many chunks as lie abreast.

So all chunks of a band must come together where its rows are scanned. One task gathers them, which gives no more than a
list, and those that scan depend on it alone: they run where it lies, and each chunk goes to one worker. To cut each
chunk for each of those that scan moves as many bytes, and takes tasks as the chunks of a band times the chunks. Where
there are fewer bands than workers can scan, large chunks are cut, once for each share of the rows: those that a worker
holds of a band, by one task.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import chunk, planner
from ..device import faults
from ..distributed import workers
from ..distributed.handles import Coords
from ..distributed.private import List, Task, TaskRef
from ..errors import ArgumentError, message
from ..host import scan as host_scan
from ..operators.monoid import INDEX
from ..operators.table import OPERATORS
from ..place import Place, whole
from .fusion import Tasks
from .scan import ScanTree, TaskWriter, columns_of
from .scan_tasks import PackedList, Scan
from .sources import PersistedSource

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
    """Some rows of a band, and where those of each chunk belong.

    ``first`` is the first of these rows, ``lead`` how many axes of size 1 stand before them in a chunk, and ``behind``
    the shape of a row in the result.
    """

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
    moved = partials.copy()
    index = moved[INDEX]
    index += np.where(index < 0, 0, by)
    return moved


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
def band_bases(
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


def gather(groups: Sequence[Columns], bases: tuple[Any, Any], rows: Rows) -> tuple[Columns, Any, Rows]:
    """Some rows of a band, with what stands before them, as one thing, that lies where all that scan them run: chunks
    or pieces, none copied.

    Chunks stand first, and in lists: so a GPU's travel as such, and the scheduler knows what they weigh.
    """
    return [[block for column in each for block in column] for each in zip(*groups, strict=True)], bases[0], rows


@faults.task
def scan_rows(gathered: tuple[Columns, Any, Rows], start: int, stop: int, is_first: bool, scan: Scan) -> Any:
    """Some rows of those, scanned where they belong in the result."""
    columns, bases, rows = gathered
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
        carry = bases[(slice(start, stop), *stretch.totals)][..., None]
        pieces = tuple(b[at].reshape(target.shape) for b in blocks)
        if hidden is not None:
            rows_of(hidden)[(slice(None), *stretch.results)] = np.ma.getmaskarray(pieces[0])
        if scan.shape is not None:
            corner = (*stretch.corner[: rows.lead], stretch.corner[rows.lead] + start, *stretch.corner[rows.lead + 1 :])
            _scan_in_place(pieces, target, carry, corner, rows.lead, scan)
            continue
        chunk.scan(
            pieces, scan.bound, target.ndim - 1, carry, exclusive=scan.exclusive, reverse=scan.reverse, out=target
        )
    return chunk.move(flat if hidden is None else np.ma.masked_array(flat, hidden), scan.device)


def _scan_in_place(
    pieces: tuple[Any, ...], target: Any, carry: Any, corner: tuple[int, ...], lead: int, scan: Scan
) -> None:
    """The results of a chunk's stretches where positions matter."""
    firsts = _firsts(corner, (1,) * lead + target.shape[:-1], scan.shape or ()).reshape(*target.shape[:-1], 1)
    run = partial(chunk.scan, exclusive=scan.exclusive, reverse=scan.reverse)
    if not _is_shifted(scan):
        for at in np.ndindex(target.shape[:-1]):
            line = tuple(p[at] for p in pieces)
            run(line, scan.bound, 0, carry[at], out=target[at], place=_place(firsts[at][0], scan))
        return
    behind = math.prod(scan.shape or ())  # so that no position of what stands before is below 0
    place = _place(behind, scan, target.ndim)
    run(pieces, scan.bound, target.ndim - 1, _shifted(carry, behind - firsts), out=target, place=place)
    if scan.bound.monoid.name.endswith(("argmin", "argmax")):  # whose results are positions
        target += chunk.move(firsts - behind, chunk.is_device(target))


def take(results: Any, start: int, stop: int) -> Any:
    """A part of results that were scanned together, without the rest of them."""
    return results[start:stop].copy()


PARTS = 16  # of a band to be scanned apart: each takes a piece of every chunk that lies abreast
PIECE_BYTES = 2**20  # of a chunk: to scan these takes longer than to call for it
CUT_BYTES = 2**22  # of pieces: to copy these takes longer than a task does
TOGETHER_BYTES = 2**20  # of results that are scanned as one: to cut them into parts takes less than to scan each apart


def scan_flat(name: str, arrays: tuple[Any, ...], scan: Scan, key: str) -> Any:
    """Scan all elements of dask arrays of two axes or more, to an array of one."""
    x = arrays[0]
    rows = next((a for a, sizes in enumerate(x.chunks) if any(n != 1 for n in sizes)), x.ndim - 1)
    last = max((a for a, n in enumerate(x.numblocks) if n > 1), default=0)
    if last <= rows:
        return ScanTree(arrays, None, scan, key).of_lines()
    if any(math.isnan(n) for sizes in x.chunks for n in sizes):
        raise ArgumentError(
            message(name, "unknown chunk sizes and no axis", "known sizes", "Call x.compute_chunk_sizes() first.")
        )
    return _Bands(arrays, None, scan, key).of_bands(rows, last)


class _Bands(ScanTree):
    """Chunks whose rows interleave."""

    def of_bands(self, rows: int, last: int) -> Any:
        """``rows`` is the axis of rows, ``last`` the last that is chunked."""
        x, self.rows, self.last = self.x, rows, last
        self.width = math.prod(x.shape[rows + 1 :])  # of a row
        self.behind = math.prod(x.shape[last + 1 :])
        self.starts_along = [[int(n) for n in accumulate(sizes, initial=0)] for sizes in x.chunks]
        source = self.source()
        known = workers.current() if source is None else source.known
        abreast = list(product(*map(range, x.numblocks[rows + 1 :])))
        bands = list(product(*map(range, x.numblocks[: rows + 1])))
        dealt = [self._groups([(*band, *rest) for rest in abreast], len(bands), source, known) for band in bands]
        shares = self._shares(dealt, len(abreast), known)
        self._name_by(tokenize(self.token, str(dealt), shares))
        self.writer = TaskWriter(self.parts)
        cuts = [self._cuts(x.chunks[rows][band[-1]], len(abreast)) for band in bands]
        firsts = list(accumulate((len(each) - 1 for each in cuts), initial=0))
        before: TaskRef | None = None
        for i in reversed(range(len(bands))) if self.scan.reverse else range(len(bands)):
            before = self._band(dealt[i], cuts[i], firsts[i], before, shares)
        sizes = [(b - a) * self.width for each in cuts for a, b in pairwise(each)]
        return self.array(Tasks(self.writer.tasks), [sizes])

    def _groups(
        self, members: list[Coords], bands: int, source: PersistedSource | None, known: workers.Workers
    ) -> list[list[Coords]]:
        """A band's chunks as one task takes them. Where they are yet to be made, on a cluster each for itself, so that
        the task runs where its chunk is made."""
        if source is not None:
            dealt = source.deal(members, bands)
        else:
            size = planner.to_make(len(members), bands, known.total, self.todo.chunk_bytes) if known.are_one else 1
            dealt = planner.in_order(len(members), size)
        return [[members[i] for i in g.members] for g in dealt]

    def _shares(self, dealt: list[list[list[Coords]]], abreast: int, known: workers.Workers) -> int:
        """How many tasks gather the rows of a band, each for a worker to scan: enough to keep all busy, as long as what
        is cut for them is worth the tasks, and so many that each has room for them."""
        if known.are_one:
            return 1
        nbytes = abreast * self.todo.chunk_bytes
        room = min((limit / known.threads[w] for w, limit in known.memory.items()), default=math.inf)
        useful = -(-planner.A_THREAD * known.total // len(dealt))
        worth = nbytes // (CUT_BYTES * max(map(len, dealt)))
        return max(1, int(min(useful, worth)), math.ceil(nbytes / (room * planner.MEMORY_SHARE)))

    def _cuts(self, height: int, abreast: int) -> list[int]:
        """Where the rows of a band are cut: into as many parts as it has chunks, if there are rows for it, and unless
        more than a few would be scanned apart, each in small pieces."""
        count = min(height, abreast)
        if height * self.width * self.scan.bound.result.itemsize > PARTS * TOGETHER_BYTES:
            count = min(count, max(PARTS, int(self.todo.chunk_bytes // PIECE_BYTES)))
        count = max(1, count)
        return [height * i // count for i in range(count + 1)]

    def _band(
        self, dealt: list[list[Coords]], cuts: list[int], first: int, before: TaskRef | None, shares: int
    ) -> TaskRef:
        """The tasks of a band, of which ``first`` is the first chunk of the result; gives what stands behind it."""
        x, rows, last, add = self.x, self.rows, self.last, self.writer.add
        stretches = [[self._stretch(c) for c in members] for members in dealt]
        columns = [columns_of([(a.name, *c) for c in members] for a in self.arrays) for members in dealt]
        found = List(*(add(band_totals, *each, last, self.scan) for each in zip(columns, stretches, strict=True)))
        where = [stretch for each in stretches for stretch in each]
        shape = (cuts[-1], *x.shape[rows + 1 : last], x.numblocks[last])
        bases = add(band_bases, found, where, shape, before, self.scan)
        parts = range(len(cuts) - 1)
        begin = None if before is not None else parts[-1] if self.scan.reverse else 0
        behind = (*x.shape[rows + 1 : last], x.shape[last] * self.behind)
        for share in planner.in_order(len(parts), -(-len(parts) // shares)):
            mine = parts[share.members[0] : share.members[-1] + 1]
            start, stop = cuts[mine[0]], cuts[mine[-1] + 1]
            at = (*(slice(0, 1),) * rows, slice(start, stop))
            pieces: Any = columns if len(mine) == len(parts) else [add(cut, each, at) for each in columns]
            gathered = (gather, List(*pieces), bases, Rows(where, start, rows, behind))
            largest = -(-(stop - start) // len(mine)) * self.width * self.scan.bound.result.itemsize
            runs = planner.in_order(len(mine), max(1, TOGETHER_BYTES // max(largest, 1)))
            source = add(*gathered) if len(runs) > 1 else Task(None, *gathered)
            for run in runs:
                self._scan(mine[run.members[0] : run.members[-1] + 1], cuts, source, first, begin)
        return bases

    def _scan(self, parts: range, cuts: list[int], source: Any, first: int, begin: int | None) -> None:
        """The tasks of parts that one task scans; the whole scan begins with part ``begin``."""
        arguments = (source, cuts[parts[0]], cuts[parts[-1] + 1], begin in parts, self.scan)
        keys = [(self.name, first + n) for n in parts]
        if len(parts) == 1:
            self.writer.tasks[keys[0]] = Task(keys[0], scan_rows, *arguments)
            return
        scanned = self.writer.add(scan_rows, *arguments)
        sizes = [(cuts[n + 1] - cuts[n]) * self.width + (self.scan.initial and n == begin) for n in parts]
        for key, (a, b) in zip(keys, pairwise(accumulate(sizes, initial=0)), strict=True):
            self.writer.tasks[key] = Task(key, take, scanned, a, b)

    def _stretch(self, coords: Coords) -> Stretch:
        spans = [slice(*starts[c : c + 2]) for starts, c in zip(self.starts_along, coords, strict=True)]
        leads, along = tuple(spans[self.rows + 1 : self.last]), spans[self.last]
        results = (*leads, slice(along.start * self.behind, along.stop * self.behind))
        return Stretch((*leads, coords[self.last]), results, tuple(span.start for span in spans))
