"""The scan tree: totals of chunks in groups, the carry before each chunk, and each scanned from there.

No chunk waits for the scan of another: only totals are combined in order, a section at a time. Chunks that have yet to
be made are made once and held until the totals before them are known; sections are short, so that few chunks wait.

Where this process's threads are all busy with a line each, and all results are kept, a task scans several chunks of a
line in turn, after the task that scanned those before: each chunk is read but once, but several results come at a time.
On a cluster, where a task gives one key, that would take two tasks a chunk, and up to 2.7 times as long.

Over all axes, in C order, no chunk is cut or joined before it is scanned. Where each chunk is one stretch of the C
order, so is each chunk of the result. Otherwise the rows of chunks that lie side by side interleave. A band is all
chunks with the same first rows: each gives the totals of its stretches of rows, one task puts them in order, and a
chunk of the result is some rows of the band. So its chunks must come together where the rows are scanned. One task
gathers them, which gives no more than a list, and those that scan depend on it alone: they run where it lies, and each
chunk goes to one worker. To cut each chunk for each of those that scan moves as many bytes, by as many tasks as a band
has chunks, times the chunks. Where there are fewer bands than workers can scan, large chunks are cut, once for each
share of the rows: those that a worker holds of a band, by one task.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..distributed import handles, workers
from ..distributed.handles import Coords, SummaryTask
from ..distributed.private import GraphNode, List, Task, TaskRef
from ..errors import ArgumentError, message
from . import deferred, fusion, meta, scan_tasks, sources
from . import graph_arrays as da
from .arguments import key_prefix
from .layers import LazyTasks, Tasks, TaskWriter
from .scan_tasks import Rows, Scan, Stretch
from .sources import HandleSource, PersistedSource


def columns_of(columns: Iterable[Iterable[Any]]) -> List:
    """Chunks by key, as one list for each array."""
    return List(*(List(*map(TaskRef, column)) for column in columns))


@dataclass(frozen=True)
class ScanGraph:
    """A scan along an axis. ``arrays`` are the names and the numbers of chunks of those that are scanned, and of that
    which says where segments start, which may have one chunk for many. Keys begin with ``prefix`` and have ``token`` in
    them. ``offsets`` are those of chunks along the axis, or in C order. ``partition`` says which chunks' totals one
    task finds: for each line, or once for all of them as one; None where lines are scanned one chunk after another.
    ``section`` is how many chunks of a line get their carries from one task, or are scanned by it; ``kept_section`` how
    many the latter where all results are kept, 0 where none are. ``length`` is how many elements a chunk has along the
    axis, at most."""

    arrays: Sequence[tuple[str, tuple[int, ...]]]
    scan: Scan
    prefix: str
    token: str
    offsets: Sequence[int]
    partition: Sequence[Sequence[Sequence[int]]] | None
    section: int
    kept_section: int = 0
    length: float = math.inf

    @property
    def results(self) -> int:
        """How many chunks the result has."""
        return math.prod(self.arrays[0][1])

    def where_kept(self) -> ScanGraph:
        """The scan to run where all of its results are kept: in turn where lines keep all threads of this process busy,
        which all see what a task gives as a list of chunks."""
        known = workers.current()
        is_local = known.client is None and not workers.are_processes()
        lines = 1 if self.scan.flat else self.results // self.arrays[0][1][self.scan.axis]
        if not (self.kept_section and is_local and planner.are_threads_busy(lines, known.total, self.length)):
            return self
        return replace(self, partition=None, section=self.kept_section)

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""
        writer, lines = TaskWriter(self.prefix, self.token), lines_of(self.arrays[0][1], self.scan)
        if self.partition is None:
            for line in lines:
                self._write_in_turn(writer, line)
            return writer.tasks
        together = len(lines) // len(self.partition)
        for number, partition in enumerate(self.partition):
            self._write(writer, lines[number * together : (number + 1) * together], partition)
        return writer.tasks

    def _write_in_turn(self, writer: TaskWriter, line: Sequence[Coords]) -> None:
        """A task for each section of a line, after that of the section before, and one for each chunk of its results,
        which takes it out of them."""
        before = None
        for section in planner.even_stretches(len(line), self.section):
            members = [line[i] for i in section.members]
            columns = columns_of(zip(*map(self._blocks, members), strict=True))
            offsets = list(map(self._offset, members))
            done = writer.add("line", scan_tasks.scan_line, columns, offsets, before, self.scan, count=len(members))
            for at, coords in enumerate(members):
                key = self._key(writer.name, coords)
                writer.tasks[key] = Task(key, operator.getitem, done, at)
            if section.members[-1] + 1 < len(line):
                before = writer.add("behind", operator.getitem, done, -1)

    def _write(self, writer: TaskWriter, lines: Sequence[list[Coords]], partition: Sequence[Sequence[int]]) -> None:
        """Totals by group, carries by section, and a task for each chunk of the result."""
        scan, each = self.scan, len(lines[0]) - 1  # nothing stands behind the last of a line
        ends = [c for line in lines for c in line[:-1]]
        where = {i: (g, at) for g, members in enumerate(partition) for at, i in enumerate(members)}
        sections = planner.even_stretches(each + 1, self.section)
        is_one = len(partition) == len(sections) == 1
        groups = [self._totals(writer, [ends[i] for i in members], is_one) for members in partition]
        before = None
        for section in sections:
            orders = [[where[k * each + i] for i in section.members if i < each] for k in range(len(lines))]
            number = {g: n for n, g in enumerate(sorted({g for order in orders for g, _ in order}))}
            orders = [[(number[g], at) for g, at in order] for order in orders]
            offsets = [self._offset(lines[0][i]) for i in section.members]
            if each:
                found = List(*(groups[g] for g in number))
                before = writer.add("carry", scan_tasks.carries, found, orders, offsets, before, scan, kind=SummaryTask)
            for k, line in enumerate(lines):
                for at, i in enumerate(section.members):
                    key = self._key(writer.name, line[i])
                    blocks = map(TaskRef, self._blocks(line[i]))
                    if i:  # as short as can be, for there are many
                        writer.tasks[key] = Task(key, scan_tasks.scan_chunk, before, k, at, *blocks)
                    else:  # which waits for nothing
                        writer.tasks[key] = Task(key, scan_tasks.scan_first, *blocks, scan=scan, offset=offsets[0])

    def _totals(self, writer: TaskWriter, members: Sequence[Coords], is_one: bool) -> Task | TaskRef:
        """The totals of some chunks: those of only one group are found by the task that puts them in order."""
        columns = zip(*map(self._blocks, members), strict=True)
        given = (scan_tasks.totals, columns_of(columns), [self._offset(c) for c in members], self.scan)
        if is_one:
            return Task(None, *given)
        return writer.add("total", *given, kind=scan_tasks.TotalsTask, count=len(members))

    def _key(self, name: str, coords: Coords) -> Any:
        """A chunk of the result; the name is one text for all of them, which travels once."""
        return (name, self._along(coords)) if self.scan.flat else (name, *coords)

    def _along(self, coords: Coords) -> int:
        """A chunk's number along the axis, or in C order."""
        return int(np.ravel_multi_index(coords, self.arrays[0][1])) if self.scan.flat else coords[self.scan.axis]

    def _offset(self, coords: Coords) -> int:
        return self.offsets[self._along(coords)] if self.offsets else 0

    def _blocks(self, coords: Coords) -> list[Any]:
        """The keys of what a chunk's tasks take."""
        return [(name, *(c if n > 1 else 0 for n, c in zip(n_, coords, strict=True))) for name, n_ in self.arrays]


def lines_of(numblocks: tuple[int, ...], scan: Scan) -> list[list[Coords]]:
    """The chunks of each line, in the order of the scan: a single line where chunks are flat."""
    axes = tuple(range(len(numblocks))) if scan.flat else (scan.axis,)
    lines = planner.slices_of(numblocks, axes).values()
    return [line[::-1] if scan.reverse else line for line in lines]


def scan_array(arrays: tuple[Any, ...], scan: Scan, starts: Any, key: str) -> Any:
    """Scan dask arrays of one chunking along an axis. ``starts`` is a dask array of bool in the same chunks, or of size
    1 along other axes: true where a segment starts. ``key`` is a part of the names of tasks."""
    tree = ScanTree(arrays, starts, scan, key)
    return tree.one_chunk_a_line() if tree.x.numblocks[scan.axis] == 1 else tree.of_lines()


class ScanTree:
    """One scan of one graph: along an axis, or of chunks that are one stretch of the C order each."""

    def __init__(self, arrays: tuple[Any, ...], starts: Any, scan: Scan, key: str) -> None:
        fusion.install()
        x = arrays[0]
        axes = tuple(range(x.ndim)) if scan.flat else (scan.axis,)
        self.reduction = sources.Reduction(arrays, scan.bound, axes, None)
        self.arrays, self.x, self.inputs = arrays, x, [*arrays, *([] if starts is None else [starts])]
        is_device, shape = meta.promises_device(x._meta), self.reduction.shape
        self.scan = replace(scan, device=is_device, shape=shape, fuse=deferred.fuses())
        chunks = [str(a.chunks) for a in arrays]
        self.prefix = key_prefix(key)
        self.token = tokenize([a.name for a in arrays], chunks, None if starts is None else starts.name, self.scan)

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.token}"

    def one_chunk_a_line(self) -> Any:
        """A task a chunk, in a layer that fuses with its neighbours."""
        scan, x, inds = self.scan, self.x, tuple(range(self.x.ndim))
        run, inputs = partial(scan_tasks.scan_first, scan=scan), [v for a in self.inputs for v in (a, inds)]
        sizes = {scan.axis: (x.chunks[scan.axis][0] + scan.initial,)}
        options = {"name": self.name, "dtype": scan.bound.result, "adjust_chunks": sizes}
        return meta.blockwise(run, inds, *inputs, template=x._meta, **options)

    def of_lines(self) -> Any:
        """Lines of several chunks each."""
        scan, x, source, lines = self.scan, self.x, self.source(), lines_of(self.x.numblocks, self.scan)
        sizes = [math.prod(s) for s in product(*x.chunks)] if scan.flat else x.chunks[scan.axis]
        others = () if scan.flat else (s for a, s in enumerate(x.chunks) if a != scan.axis)
        carry = math.prod(max(s, default=0) for s in others) * scan.bound.state.itemsize
        section = planner.section(len(sizes), carry, self.reduction.chunk_bytes, source is None)
        ends = [c for line in lines for c in line[:-1]]
        if source is None:
            size = section if workers.current().are_one else 1
            partition = [planner.ready_groups(len(line), size) for line in lines]
        elif len(lines) > 1 and len(ends) <= section:
            partition = [[g.members for g in source.partition(ends, 1)]]
        elif section < len(sizes):
            partition = [planner.ready_groups(len(line), 1) for line in lines]
        else:
            partition = [[g.members for g in source.partition(line[:-1], len(lines))] for line in lines]
        self.token = tokenize(self.token, str(partition), source is None)
        arrays = [(a.name, a.numblocks) for a in self.inputs]
        offsets = [int(n) for n in accumulate(sizes[:-1], initial=0)] if scan.shape else ()
        kept = 0 if scan.device else planner.scan_chunks_per_task(self.reduction.chunk_bytes)
        length = max(x.chunks[scan.axis]) if not scan.flat else math.inf
        graph = ScanGraph(arrays, scan, self.prefix, self.token, offsets, partition, section, kept, length)
        return self.array(LazyTasks(graph), [sizes] if scan.flat else x.chunks, 0 if scan.flat else scan.axis)

    def array(self, layer: Tasks, chunks: Sequence[Sequence[float]], axis: int = 0) -> Any:
        """The result, of these chunks, and one element more along the axis where it has an initial one."""
        sizes = [list(each) for each in chunks]
        sizes[axis][-1 if self.scan.reverse else 0] += self.scan.initial
        graph = HighLevelGraph.from_collections(self.name, layer, dependencies=self.inputs)
        like = meta.like(self.x._meta, len(sizes), self.scan.bound.result)
        return da.Array(graph, self.name, tuple(map(tuple, sizes)), meta=like)

    def source(self) -> PersistedSource | None:
        """The chunks where they are in memory, or where tasks compute them of what is as they read it; else None."""
        source = sources.select_source(self.reduction, dry_run=True)
        if isinstance(source, HandleSource):
            return PersistedSource(self.reduction, [*source.handle_sets[0].holders.values()], source.known)
        found = handles.origins(self.x) if source is None and self.scan.fuse else None
        if found is not None and fusion.are_computed(self.arrays, self.scan):
            return PersistedSource(self.reduction, [*found[0].values()], found[1])
        return source


# ---- all axes, in C order


def scan_flat(name: str, arrays: tuple[Any, ...], scan: Scan, key: str) -> Any:
    """Scan all elements of dask arrays of two axes or more, to an array of one."""
    x = arrays[0]
    rows = next((a for a, sizes in enumerate(x.chunks) if any(n != 1 for n in sizes)), x.ndim - 1)
    last = max((a for a, n in enumerate(x.numblocks) if n > 1), default=0)
    if last <= rows:
        return ScanTree(arrays, None, scan, key).of_lines()
    if any(math.isnan(n) for sizes in x.chunks for n in sizes):
        remedy = "Call x.compute_chunk_sizes() first."
        raise ArgumentError(message(name, "unknown chunk sizes and no axis", "known sizes", remedy))
    return _InterleavedRows(arrays, None, scan, key).of_interleaved_rows(rows, last)


class _InterleavedRows(ScanTree):
    """Chunks whose rows interleave."""

    def of_interleaved_rows(self, rows: int, last: int) -> Any:
        """``rows`` is the axis of rows, ``last`` the last that is chunked."""
        x, self.rows, self.last = self.x, rows, last
        self.width = math.prod(x.shape[rows + 1 :])  # of a row
        self.behind = math.prod(x.shape[last + 1 :])
        self.starts_along = [[int(n) for n in accumulate(sizes, initial=0)] for sizes in x.chunks]
        source = self.source()
        known = workers.current() if source is None else source.known
        band_chunks = list(product(*map(range, x.numblocks[rows + 1 :])))
        bands = list(product(*map(range, x.numblocks[: rows + 1])))
        members = [[(*band, *rest) for rest in band_chunks] for band in bands]
        partition = [self._groups(each, len(bands), source, known) for each in members]
        band_bytes, tasks = len(band_chunks) * self.reduction.chunk_bytes, max(map(len, partition))
        shares = planner.shares_of_band(band_bytes, len(bands), tasks, known.threads, known.memory)
        shares = 1 if known.are_one else shares
        self.token = tokenize(self.token, str(partition), shares)
        self.writer = TaskWriter(self.prefix, self.token)
        sizes = len(band_chunks), self.width * self.scan.bound.result.itemsize, self.reduction.chunk_bytes
        cuts = [planner.cuts_of_band(x.chunks[rows][band[-1]], *sizes) for band in bands]
        firsts = list(accumulate((len(each) - 1 for each in cuts), initial=0))
        before: TaskRef | None = None
        for i in reversed(range(len(bands))) if self.scan.reverse else range(len(bands)):
            before = self._band(partition[i], cuts[i], firsts[i], before, shares)
        lengths = [(b - a) * self.width for each in cuts for a, b in pairwise(each)]
        return self.array(Tasks(self.writer.tasks), [lengths])

    def _groups(
        self, members: list[Coords], bands: int, source: PersistedSource | None, known: workers.Workers
    ) -> list[list[Coords]]:
        """A band's chunks as one task takes them. Where they are yet to be made, on a cluster each for itself, so that
        the task runs where its chunk is made."""
        if source is not None:
            partition = source.partition(members, bands)
        else:
            size = planner.to_make(len(members), bands, known.total, self.reduction.chunk_bytes) if known.are_one else 1
            partition = planner.even_stretches(len(members), size)
        return [[members[i] for i in g.members] for g in partition]

    def _band(
        self, partition: list[list[Coords]], cuts: list[int], first: int, before: TaskRef | None, shares: int
    ) -> TaskRef:
        """The tasks of a band, of which ``first`` is the first chunk of the result; gives what stands behind it."""
        x, rows, last, add = self.x, self.rows, self.last, self.writer.add
        stretches = [[self._stretch(c) for c in members] for members in partition]
        columns: list[Any] = [columns_of([(a.name, *c) for c in members] for a in self.arrays) for members in partition]
        given = zip(columns, stretches, strict=True)
        found = List(*(add("total", scan_tasks.band_totals, *each, last, self.scan) for each in given))
        where = [stretch for each in stretches for stretch in each]
        shape = (cuts[-1], *x.shape[rows + 1 : last], x.numblocks[last])
        carries = add("carry", scan_tasks.band_carries, found, where, shape, before, self.scan)
        parts = range(len(cuts) - 1)
        begin = None if before is not None else parts[-1] if self.scan.reverse else 0
        behind = (*x.shape[rows + 1 : last], x.shape[last] * self.behind)
        for share in planner.even_stretches(len(parts), -(-len(parts) // shares)):
            mine = parts[share.members[0] : share.members[-1] + 1]
            start, stop = cuts[mine[0]], cuts[mine[-1] + 1]
            at = (*(slice(0, 1),) * rows, slice(start, stop))
            is_whole = len(mine) == len(parts)
            pieces = columns if is_whole else [add("cut", scan_tasks.cut, each, at) for each in columns]
            gathered = (scan_tasks.gather, List(*pieces), carries, Rows(where, start, rows, behind))
            largest = -(-(stop - start) // len(mine)) * self.width * self.scan.bound.result.itemsize
            runs = planner.even_stretches(len(mine), planner.parts_together(largest))
            source = add("gather", *gathered) if len(runs) > 1 else Task(None, *gathered)
            for run in runs:
                self._scan(mine[run.members[0] : run.members[-1] + 1], cuts, source, first, begin)
        return carries

    def _scan(self, parts: range, cuts: list[int], source: Any, first: int, begin: int | None) -> None:
        """The tasks of parts that one task scans; the whole scan begins with part ``begin``."""
        arguments = (source, cuts[parts[0]], cuts[parts[-1] + 1], begin in parts, self.scan)
        if len(parts) == 1:
            self._add_block(first + parts[0], scan_tasks.scan_rows, *arguments)
            return
        scanned = self.writer.add("rows", scan_tasks.scan_rows, *arguments)
        sizes = [(cuts[n + 1] - cuts[n]) * self.width + (self.scan.initial and n == begin) for n in parts]
        for n, ends in zip(parts, pairwise(accumulate(sizes, initial=0)), strict=True):
            self._add_block(first + n, scan_tasks.take, scanned, *ends)

    def _add_block(self, number: int, run: Any, *arguments: Any) -> None:
        key = (self.name, number)
        self.writer.tasks[key] = Task(key, run, *arguments)

    def _stretch(self, coords: Coords) -> Stretch:
        spans = [slice(*starts[c : c + 2]) for starts, c in zip(self.starts_along, coords, strict=True)]
        leads, along = tuple(spans[self.rows + 1 : self.last]), spans[self.last]
        results = (*leads, slice(along.start * self.behind, along.stop * self.behind))
        return Stretch((*leads, coords[self.last]), results, tuple(span.start for span in spans))
