"""The scan tree along an axis: totals of chunks in groups, what stands before each chunk, and each scanned from there.

No chunk waits for the scan of another: only totals are combined in order, a section at a time. Chunks that have yet to
be made are made once, and each is held until the totals before it are known; sections are short, so that few chunks
wait.

To hand a carry from chunk to chunk would read each but once, and takes two tasks a chunk, since a task gives one key:
0.9 to 2.7 times as long on a worker (16 to 128 float32 chunks of 0.5 to 32 MiB, NumPy, one thread, 2026-11).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, product
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..distributed import handles, workers
from ..distributed.handles import Coords
from ..distributed.private import GraphNode, List, Task, TaskRef
from . import deferred, fusion, meta, scan_fusion, sources
from . import graph_arrays as da
from .fusion import Deferred, Tasks
from .scan_tasks import Scan, TotalsTask, bases, scan_chunk, scan_first, totals
from .sources import HandleSource, PersistedSource


def columns_of(columns: Iterable[Iterable[Any]]) -> List:
    """Chunks by key, as one list for each array."""
    return List(*(List(*map(TaskRef, column)) for column in columns))


@dataclass
class TaskWriter:
    """Tasks as they come. Those that make no chunk of the result are numbered so."""

    parts: str
    tasks: dict[Any, GraphNode] = field(default_factory=dict)

    def add(self, run: Any, *arguments: Any, kind: type[Task] = Task) -> TaskRef:
        key = (self.parts, len(self.tasks))
        self.tasks[key] = kind(key, run, *arguments)
        return TaskRef(key)


@dataclass(frozen=True)
class ScanGraph:
    """A scan along an axis.

    ``arrays`` are the names and the numbers of chunks of those that are scanned, and of the one that says where
    segments start, which may have one chunk for many. ``name`` begins the keys of results, ``parts`` those of totals
    and of what stands before chunks. ``offsets`` are those of chunks along the axis, or in C order. ``dealt`` says
    which chunks' totals one task finds: for each line, or once for all of them as one. ``section`` is how many chunks
    of a line start from what one task finds.
    """

    arrays: Sequence[tuple[str, tuple[int, ...]]]
    scan: Scan
    name: str
    parts: str
    offsets: Sequence[int]
    dealt: Sequence[Sequence[Sequence[int]]]
    section: int

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""
        writer, lines = TaskWriter(self.parts), lines_of(self.arrays[0][1], self.scan)
        together = len(lines) // len(self.dealt)
        for number, dealt in enumerate(self.dealt):
            self._write(writer, lines[number * together : (number + 1) * together], dealt)
        return writer.tasks

    def _write(self, writer: TaskWriter, lines: Sequence[list[Coords]], dealt: Sequence[Sequence[int]]) -> None:
        """Totals by group, what stands before chunks by section, and a task for each chunk of the result."""
        scan, each = self.scan, len(lines[0]) - 1  # nothing stands behind the last of a line
        ends = [c for line in lines for c in line[:-1]]
        where = {i: (g, at) for g, members in enumerate(dealt) for at, i in enumerate(members)}
        sections = planner.in_order(each + 1, self.section)
        is_one = len(dealt) == len(sections) == 1
        groups = [self._totals(writer, [ends[i] for i in members], is_one) for members in dealt]
        before = None
        for section in sections:
            orders = [[where[k * each + i] for i in section.members if i < each] for k in range(len(lines))]
            number = {g: n for n, g in enumerate(sorted({g for order in orders for g, _ in order}))}
            orders = [[(number[g], at) for g, at in order] for order in orders]
            offsets = [self._offset(lines[0][i]) for i in section.members]
            if each:
                before = writer.add(bases, List(*(groups[g] for g in number)), orders, offsets, before, scan)
            for k, line in enumerate(lines):
                for at, i in enumerate(section.members):
                    key = (self.name, self._along(line[i])) if scan.flat else (self.name, *line[i])
                    blocks = map(TaskRef, self._blocks(line[i]))
                    if i:  # as short as can be, for there are many
                        writer.tasks[key] = Task(key, scan_chunk, before, k, at, *blocks)
                    else:  # which waits for nothing
                        writer.tasks[key] = Task(key, scan_first, *blocks, scan=scan, offset=offsets[0])

    def _totals(self, writer: TaskWriter, members: Sequence[Coords], is_one: bool) -> Task | TaskRef:
        """The totals of some chunks: those of only one group are found by the task that puts them in order."""
        columns = zip(*map(self._blocks, members), strict=True)
        arguments = (columns_of(columns), [self._offset(c) for c in members], self.scan)
        return Task(None, totals, *arguments) if is_one else writer.add(totals, *arguments, kind=TotalsTask)

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
    lines = sources.slices_of(numblocks, axes).values()
    return [line[::-1] if scan.reverse else line for line in lines]


# Of partials that go together to all workers that need one: beyond, each chunk's totals take a task of their own.
BASES_BYTES = 2**24
LAZY = 8  # chunks of a section that have yet to be made: so many lie in memory, and as many as there are threads
# More of them where they are small: to put tasks in order, dask notes for each section all chunks before it, which for
# 100,000 chunks in sections of eight takes more than 14 GB.
SECTIONS = 64
LAZY_BYTES = 2**26  # of the chunks of such a section


def scan_array(arrays: tuple[Any, ...], scan: Scan, starts: Any, key: str) -> Any:
    """Scan dask arrays of one chunking along an axis.

    ``starts`` is a dask array of bool in the same chunks, or of size 1 along other axes: true where a segment starts.
    ``key`` is a part of the names of tasks.
    """
    tree = ScanTree(arrays, starts, scan, key)
    return tree.one_chunk_a_line() if tree.x.numblocks[scan.axis] == 1 else tree.of_lines()


class ScanTree:
    """One scan of one graph: along an axis, or of chunks that are one stretch of the C order each."""

    def __init__(self, arrays: tuple[Any, ...], starts: Any, scan: Scan, key: str) -> None:
        fusion.install()
        x = arrays[0]
        self.todo = sources.Reduction(arrays, scan.bound, tuple(range(x.ndim)) if scan.flat else (scan.axis,), None)
        self.arrays, self.x, self.inputs = arrays, x, [*arrays, *([] if starts is None else [starts])]
        self.scan = replace(scan, device=meta.promises_device(x._meta), shape=self.todo.shape, fuse=deferred.fuses())
        chunks = [str(a.chunks) for a in arrays]
        self.prefix = f"gr-{key}"
        self.token = tokenize([a.name for a in arrays], chunks, None if starts is None else starts.name, self.scan)
        self._name_by(self.token)

    def _name_by(self, token: str) -> None:
        """Parts, which are totals, bases, and stretches scanned together, are numbered as they come. How many come
        depends on the workers: the token tells one way of dealing from another, of which a graph may still run."""
        self.name, self.parts = f"{self.prefix}-{token}", f"{self.prefix}-part-{token}"

    def one_chunk_a_line(self) -> Any:
        """A task a chunk, in a layer that fuses with its neighbours."""
        inds = tuple(range(self.x.ndim))
        return da.blockwise(
            partial(scan_first, scan=self.scan),
            inds,
            *(v for a in self.inputs for v in (a, inds)),
            name=self.name,
            dtype=self.scan.bound.result,
            meta=meta.like(self.x._meta, self.x.ndim, self.scan.bound.result),
            adjust_chunks={self.scan.axis: _longer} if self.scan.initial else None,
            align_arrays=False,
        )

    def of_lines(self) -> Any:
        """Lines of several chunks each."""
        scan, x, source, lines = self.scan, self.x, self.source(), lines_of(self.x.numblocks, self.scan)
        sizes = [math.prod(s) for s in product(*x.chunks)] if scan.flat else x.chunks[scan.axis]
        section = self._section(source is None, len(sizes))
        ends = [c for line in lines for c in line[:-1]]
        if source is None:
            size = section if workers.current().are_one else 1
            dealt = [_apart(len(line), size) for line in lines]
        elif len(lines) > 1 and len(ends) <= section:
            dealt = [[g.members for g in source.deal(ends, 1)]]
        elif section < len(sizes):
            dealt = [_apart(len(line), 1) for line in lines]
        else:
            dealt = [[g.members for g in source.deal(line[:-1], len(lines))] for line in lines]
        self._name_by(tokenize(self.token, str(dealt), source is None))
        graph = ScanGraph(
            [(a.name, a.numblocks) for a in self.inputs],
            scan,
            self.name,
            self.parts,
            [int(n) for n in accumulate(sizes[:-1], initial=0)] if scan.shape else (),
            dealt,
            section,
        )
        return self.array(Deferred(graph), [sizes] if scan.flat else x.chunks, 0 if scan.flat else scan.axis)

    def array(self, layer: Tasks, chunks: Sequence[Sequence[float]], axis: int = 0) -> Any:
        """The result, of these chunks, and one element more along the axis where it has an initial one."""
        sizes = [list(each) for each in chunks]
        sizes[axis][-1 if self.scan.reverse else 0] += self.scan.initial
        graph = HighLevelGraph.from_collections(self.name, layer, dependencies=self.inputs)
        like = meta.like(self.x._meta, len(sizes), self.scan.bound.result)
        return da.Array(graph, self.name, tuple(map(tuple, sizes)), meta=like)

    def source(self) -> PersistedSource | None:
        """The chunks where they are in memory, or where tasks compute them of what is as they read it; else None."""
        source = sources.select_source(self.todo, dry_run=True)
        if isinstance(source, HandleSource):
            return PersistedSource(self.todo, [*source.held[0].holders().values()], source.known)
        found = handles.origins(self.x) if source is None and self.scan.fuse else None
        if found is not None and scan_fusion.are_computed(self.arrays, self.scan):
            return PersistedSource(self.todo, [*found[0].values()], found[1])
        return source

    def _section(self, is_lazy: bool, many: int) -> int:
        """How many of so many chunks' bases one task finds."""
        others = () if self.scan.flat else (s for a, s in enumerate(self.x.chunks) if a != self.scan.axis)
        each = math.prod(max(sizes, default=0) for sizes in others) * self.scan.bound.state.itemsize
        room = LAZY if math.isnan(each) else max(1, int(BASES_BYTES // max(each, 1)))
        if not is_lazy:
            return room
        held = 0 if math.isnan(self.todo.chunk_bytes) else LAZY_BYTES // max(self.todo.chunk_bytes, 1)
        return min(room, max(LAZY, int(min(many // SECTIONS, held))))


def _apart(chunks: int, size: int) -> list[Sequence[int]]:
    """A line's chunks in groups that are ready together, but for the last: nothing stands behind it."""
    groups = ([i for i in group.members if i + 1 < chunks] for group in planner.in_order(chunks, size))
    return [members for members in groups if members]


def _longer(size: float) -> float:
    return size + 1
