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
from ..distributed.private import GraphNode, List, Task, TaskRef
from ..errors import ArgumentError, message
from ..host import scan as host_scan
from ..operators.monoid import INDEX, Bound
from ..operators.table import OPERATORS
from ..place import Place, whole
from . import fusion, meta, sources
from .axes import needs_places, place_chunks
from .fusion import Tasks
from .scan import Chunks, ScanTree, holders_of
from .scan_tasks import PackedList, Scan

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
    """Some rows of a band: where those of each chunk belong, and what stands before them.

    ``first`` is the first of these rows, ``lead`` how many axes of size 1 stand before them in a chunk, and ``behind``
    the shape of a row in the result.
    """

    stretches: Sequence[Stretch]
    bases: Any
    first: int
    lead: int
    behind: tuple[int, ...]


@faults.task
def band_totals(columns: Columns, corners: Sequence[tuple[int, ...]], last: int, scan: Scan) -> PackedList:
    """The totals of the stretches of some chunks, on the host: axes from ``last`` on are folded."""
    found = PackedList()
    for blocks, corner in zip(zip(*columns, strict=True), corners, strict=True):
        if scan.shape is not None:
            found.append(_totals_in_place(blocks, corner, last, scan))
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
    bound, shape = scan.bound, blocks[0].shape
    axes = tuple(range(last, len(shape)))
    ends = (*shape[:last], *(1,) * len(axes))
    firsts = _firsts(corner, shape[:last], scan.shape or ())
    if _is_shifted(scan):
        found = chunk.reduce(blocks, bound, axes, whole(shape), masks=False)
        return _shifted(chunk.to_host(found, bound), firsts.reshape(ends))
    totals = bound.identities((firsts.size,))
    stretches = [b.reshape(firsts.size, math.prod(shape[last:])) for b in blocks]
    for i, first in enumerate(firsts.flat if stretches[0].size else ()):
        line = tuple(s[i] for s in stretches)
        _, total = chunk.scan(line, bound, 0, reverse=scan.reverse, place=_place(first, scan))
        totals[i] = chunk.to_host(total, bound)[0]
    return totals.reshape(ends)


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


def gather(
    groups: Sequence[Columns],
    bases: tuple[Any, Any],
    stretches: Sequence[Stretch],
    first: int,
    lead: int,
    behind: tuple[int, ...],
) -> tuple[list[list[Any]], Rows]:
    """Some rows of a band as one thing, that lies where all that scan them run: chunks or pieces, none copied.

    Chunks stand first, and in lists: so a GPU's travel as such, and the scheduler knows what they weigh.
    """
    columns = [[block for column in each for block in column] for each in zip(*groups, strict=True)]
    return columns, Rows(stretches, bases[0], first, lead, behind)


@faults.task
def scan_rows(gathered: tuple[Columns, Rows], start: int, stop: int, is_first: bool, scan: Scan) -> Any:
    """Some rows of those, scanned where they belong in the result."""
    columns, rows = gathered
    device = chunk.is_device(columns[0][0])
    extra = int(scan.initial and is_first)
    shape = (stop - start, *rows.behind)
    flat = (scan.filled if extra else scan.empty)((math.prod(shape) + extra,), device)
    hidden = np.zeros(flat.shape, bool) if any(isinstance(b, np.ma.MaskedArray) for b in columns[0]) else None

    def rows_of(line: Any) -> Any:
        return (line[:-1] if extra and scan.reverse else line[extra:]).reshape(shape)

    view = rows_of(flat)
    at = (*(0,) * rows.lead, slice(start - rows.first, stop - rows.first))
    for blocks, stretch in zip(zip(*columns, strict=True), rows.stretches, strict=True):
        target = view[(slice(None), *stretch.results)]
        carry = rows.bases[(slice(start, stop), *stretch.totals)][..., None]
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


def scan_flat(
    name: str, arrays: tuple[Any, ...], bound: Bound, exclusive: bool, reverse: bool, initial: bool, key: str
) -> Any:
    """Scan all elements of dask arrays of two axes or more, to an array of one."""
    x = arrays[0]
    shape = None
    if needs_places(bound, x.numblocks, tuple(range(x.ndim))):
        shape = tuple(sum(s) for s in place_chunks(name, x.chunks, tuple(range(x.ndim))))
    scan = Scan(bound, 0, exclusive, reverse, initial, meta.promises_device(x._meta), shape, flat=True)
    fusion.install()
    rows = next((a for a, sizes in enumerate(x.chunks) if any(n != 1 for n in sizes)), x.ndim - 1)
    last = max((a for a, n in enumerate(x.numblocks) if n > 1), default=0)
    if last <= rows:
        tree = _Stretches(arrays, None, scan, f"gr-{key}")
        return tree.of_lines(sources.select_source(tree.todo, dry_run=True))
    if any(math.isnan(n) for sizes in x.chunks for n in sizes):
        raise ArgumentError(
            message(name, "unknown chunk sizes and no axis", "known sizes", "Call x.compute_chunk_sizes() first.")
        )
    bands = _Bands(arrays, None, scan, f"gr-{key}")
    return bands.of_bands(rows, last, sources.select_source(bands.todo, dry_run=True))


class _Stretches(ScanTree):
    """Chunks that are one stretch of the C order each: a single line."""

    def _cells(self) -> float:
        return 1.0

    def _offsets(self) -> list[int]:
        sizes = [math.prod(s) for s in product(*self.x.chunks)]
        return [int(n) for n in accumulate(sizes[:-1], initial=0)]

    def _chunks(self) -> Chunks:
        sizes = [math.prod(s) for s in product(*self.x.chunks)]
        if self.scan.initial:
            sizes[-1 if self.scan.reverse else 0] += 1
        return (tuple(sizes),)


@dataclass(frozen=True)
class _Band:
    """What the tasks of a band's parts are written from: its chunks as one task takes them, where their stretches lie,
    the rows of each part, the number of the first in the result, and which of them begins the whole scan."""

    columns: list[Any]
    stretches: list[Stretch]
    bases: TaskRef
    parts: list[tuple[int, int]]
    first: int
    edge: int | None

    def of(self, members: Sequence[int]) -> tuple[int, int]:
        """The rows of some parts that follow each other."""
        return self.parts[members[0]][0], self.parts[members[-1]][1]


class _Bands(ScanTree):
    """Chunks whose rows interleave."""

    def of_bands(self, rows: int, last: int, source: Any) -> Any:
        """``rows`` is the axis of rows, ``last`` the last that is chunked; ``source`` as for :meth:`of_lines`."""
        x = self.x
        self.graph: dict[Any, GraphNode] = {}
        self.rows, self.last = rows, last
        self.behind = math.prod(x.shape[last + 1 :])
        self.starts_along = [[int(n) for n in accumulate(sizes, initial=0)] for sizes in x.chunks]
        known = workers.current() if source is None else source.known
        abreast = list(product(*(range(x.numblocks[a]) for a in range(rows + 1, x.ndim))))
        bands = list(product(*(range(x.numblocks[a]) for a in range(rows + 1))))
        holders = holders_of(source)
        dealt = [self._groups([(*band, *rest) for rest in abreast], len(bands), holders, known) for band in bands]
        shares = self._shares(dealt, len(abreast), known)
        self._name_by(tokenize(self.token, str(dealt), shares))
        parts = [self._parts(band, len(abreast)) for band in bands]
        sizes = [[(b - a) * math.prod(x.shape[rows + 1 :]) for a, b in pairwise(cuts)] for cuts in parts]
        firsts = list(accumulate((len(s) for s in sizes), initial=0))
        before: Any = None
        for i in reversed(range(len(bands))) if self.scan.reverse else range(len(bands)):
            before = self._band(dealt[i], parts[i], firsts[i], before, shares)
        chunks = [n for band in sizes for n in band]
        if self.scan.initial:
            chunks[-1 if self.scan.reverse else 0] += 1
        return self._array(Tasks(self.graph), self.arrays, (tuple(chunks),))

    def _groups(self, members: list[Coords], bands: int, holders: Any, known: workers.Workers) -> list[list[Coords]]:
        """A band's chunks as one task takes them: those that a worker holds. Where that is not known yet, on a cluster
        each for itself, so that the task runs where its chunk is made."""
        each = self.todo.chunk_bytes
        if holders is not None:
            held = [holders[c] for c in members]
            dealt = planner.by_worker(held, known.threads, bands, each, known.memory)
        else:
            is_apart = known.client is not None and len(known.threads) > 1
            size = 1 if is_apart else planner.to_make(len(members), bands, known.total, each)
            dealt = planner.in_order(len(members), size)
        return [[members[i] for i in g.members] for g in dealt]

    def _shares(self, dealt: list[list[list[Coords]]], abreast: int, known: workers.Workers) -> int:
        """How many tasks gather the rows of a band, each for a worker to scan: enough to keep all busy, as long as what
        is cut for them is worth the tasks, and so many that each has room for them."""
        if known.client is None or len(known.threads) == 1:
            return 1
        nbytes = abreast * self.todo.chunk_bytes
        room = min((limit / known.threads[w] for w, limit in known.memory.items()), default=math.inf)
        useful = -(-planner.A_THREAD * known.total // len(dealt))
        worth = nbytes // (CUT_BYTES * max(map(len, dealt)))
        return max(1, int(min(useful, worth)), math.ceil(nbytes / (room * planner.MEMORY_SHARE)))

    def _parts(self, band: Coords, abreast: int) -> list[int]:
        """Where the rows of a band are cut: into as many parts as it has chunks, if there are rows for it, and unless
        more than a few would be scanned apart, each in small pieces."""
        height = self.x.chunks[self.rows][band[-1]]
        nbytes = height * math.prod(self.x.shape[self.rows + 1 :]) * self.scan.bound.result.itemsize
        count = min(height, abreast)
        if nbytes > PARTS * TOGETHER_BYTES:
            count = min(count, max(PARTS, int(self.todo.chunk_bytes // PIECE_BYTES)))
        count = max(1, count)
        return [height * i // count for i in range(count + 1)]

    def _band(self, dealt: list[list[Coords]], cuts: list[int], first: int, before: Any, shares: int) -> TaskRef:
        stretches = [self._stretch(c) for members in dealt for c in members]
        columns = [self._columns(members) for members in dealt]
        corners = [[self._corner(c) for c in members] for members in dealt]
        found = List(
            *(self._add(band_totals, *each, self.last, self.scan) for each in zip(columns, corners, strict=True))
        )
        shape = (cuts[-1], *self.x.shape[self.rows + 1 : self.last], self.x.numblocks[self.last])
        bases = self._add(band_bases, found, stretches, shape, before, self.scan)
        parts = list(pairwise(cuts))
        edge = None if before is not None else len(parts) - 1 if self.scan.reverse else 0
        band = _Band(columns, stretches, bases, parts, first, edge)
        for share in planner.in_order(len(parts), -(-len(parts) // shares)):
            self._share(band, share.members)
        return bases

    def _share(self, band: _Band, members: Sequence[int]) -> None:
        """The tasks of some parts, which run where one task gathers what they need."""
        start, stop = band.of(members)
        pieces: list[Any] = band.columns
        if len(members) < len(band.parts):
            at = (*(slice(0, 1),) * self.rows, slice(start, stop))
            pieces = [self._add(cut, each, at) for each in band.columns]
        behind = (*self.x.shape[self.rows + 1 : self.last], self.x.shape[self.last] * self.behind)
        gathered = (gather, List(*pieces), band.bases, band.stretches, start, self.rows, behind)
        largest = -(-(stop - start) // len(members)) * math.prod(behind) * self.scan.bound.result.itemsize
        runs = planner.in_order(len(members), max(1, TOGETHER_BYTES // max(largest, 1)))
        rows = self._add(*gathered) if len(runs) > 1 else Task(None, *gathered)
        for run in runs:
            self._scan(band, [members[i] for i in run.members], rows, math.prod(behind))

    def _scan(self, band: _Band, members: Sequence[int], rows: Any, width: int) -> None:
        """The tasks of parts that one task scans."""
        arguments = (rows, *band.of(members), band.edge in members, self.scan)
        keys = [(self.name, band.first + n) for n in members]
        if len(members) == 1:
            self.graph[keys[0]] = Task(keys[0], scan_rows, *arguments)
            return
        scanned = self._add(scan_rows, *arguments)
        extra = [int(self.scan.initial and n == band.edge) for n in members]
        sizes = [(b - a) * width + more for (a, b), more in zip((band.parts[n] for n in members), extra, strict=True)]
        for key, (a, b) in zip(keys, pairwise(accumulate(sizes, initial=0)), strict=True):
            self.graph[key] = Task(key, take, scanned, a, b)

    def _columns(self, members: Sequence[Coords]) -> List:
        return List(*(List(*(TaskRef((a.name, *c)) for c in members)) for a in self.arrays))

    def _add(self, run: Any, *arguments: Any) -> TaskRef:
        key = (self.parts, len(self.graph))
        self.graph[key] = Task(key, run, *arguments)
        return TaskRef(key)

    def _stretch(self, coords: Coords) -> Stretch:
        starts = self.starts_along
        leads = tuple(slice(starts[a][coords[a]], starts[a][coords[a] + 1]) for a in range(self.rows + 1, self.last))
        edge = starts[self.last][coords[self.last] : coords[self.last] + 2]
        results = (*leads, slice(edge[0] * self.behind, edge[1] * self.behind))
        return Stretch((*leads, coords[self.last]), results, self._corner(coords))

    def _corner(self, coords: Coords) -> tuple[int, ...]:
        return tuple(starts[c] for starts, c in zip(self.starts_along, coords, strict=True))
