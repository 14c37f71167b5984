"""The scan tree along an axis: totals of chunks in groups, what stands before each chunk, and each scanned from there.

No chunk waits for the scan of another: only totals are combined in order, a section at a time. Chunks that have yet to
be made are made once, and each is held until the totals before it are known; sections are short, so that few chunks
wait.

To hand a carry from chunk to chunk would read each but once, where one worker has them all. It would also need two
tasks a chunk, since a task gives one key: that costs a worker more than to read twice, and on a GPU, which reads
a chunk in a fiftieth of the time that a task takes, all of it. One process without workers gains a twentieth, and pays
for it where a reduction follows: dask runs such a chain to its end before the reduction frees any chunk. (16 to 128
float32 chunks of 0.5 to 32 MiB on one NumPy worker of one thread: 0.9 to 2.7 times as long; in one thread of this
process 0.91 to 1.0 times. 2026-11.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from ..operators.monoid import Bound
from . import deferred, fusion, meta, scan_fusion, sources
from . import graph_arrays as da
from .axes import needs_places, place_chunks
from .fusion import Deferred, Tasks
from .scan_tasks import Scan, Section, TotalsTask, bases, bases_of_lines, only_section, scan_chunk, scan_whole, totals
from .sources import HandleSource

Ref = tuple[str, tuple[int, ...]]  # an array's name, and its numbers of chunks


@dataclass(frozen=True)
class ScanGraph:
    """A scan of arrays of one chunking along an axis.

    ``starts`` is the array that says where segments start, of the same numbers of chunks or of one. ``name`` begins the
    keys of results, ``parts`` those of totals and of what stands before chunks. ``offsets`` are those of chunks along
    the axis, or in C order, where positions matter. ``dealt`` says which chunks' totals one task finds: for each line,
    or, where lines go ``together``, for all of them as one. ``section`` is how many chunks' bases one task finds.
    """

    arrays: tuple[Ref, ...]
    starts: Ref | None
    scan: Scan
    name: str
    parts: str
    offsets: Sequence[int] | None
    dealt: Sequence[Sequence[Sequence[int]]]
    section: int
    together: bool = False

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""
        written, lines = _Written(self), list(lines_of(self.arrays[0][1], self.scan))
        if self.together:
            written.lines(lines, *self.dealt)
        else:
            for line, dealt in zip(lines, self.dealt, strict=True):
                written.line(line, dealt)
        return written.tasks


def lines_of(numblocks: tuple[int, ...], scan: Scan) -> Iterator[list[Coords]]:
    """The chunks of each line, in the order of the scan: a single line where chunks are flat."""
    if scan.flat:
        line = list(product(*map(range, numblocks)))
        yield line[::-1] if scan.reverse else line
        return
    along = list(range(numblocks[scan.axis]))
    others = (range(1 if a == scan.axis else n) for a, n in enumerate(numblocks))
    for at in product(*others):
        line = [(*at[: scan.axis], i, *at[scan.axis + 1 :]) for i in along]
        yield line[::-1] if scan.reverse else line


@dataclass
class _Written:
    """The tasks as they come. Parts are numbered so."""

    graph: ScanGraph
    tasks: dict[Any, GraphNode] = field(default_factory=dict)

    def line(self, line: list[Coords], dealt: Sequence[Sequence[int]]) -> None:
        """Totals by group, bases by section, and a task for each chunk of the result."""
        scan = self.graph.scan
        sections = planner.in_order(len(line), self.graph.section)
        offsets = [self._offset(c) for c in line]
        if len(line) == 1:
            self._results(line, Section([None], offsets, True, scan))
            return
        if len(dealt) == len(sections) == 1 and len(dealt[0]) + 1 == len(line):
            self._results(line, self._add(only_section, *self._columns(line[:-1]), offsets, scan))
            return
        refs, where = self._totals(line, dealt)
        before = None
        for section in sections:
            wanted = [i for i in section.members if i + 1 < len(line)]
            used = sorted({where[i][0] for i in wanted})
            number = {g: n for n, g in enumerate(used)}
            order = [(number[where[i][0]], where[i][1]) for i in wanted]
            mine = [offsets[i] for i in section.members]
            before = self._add(bases, List(*(refs[g] for g in used)), order, mine, before, scan)
            self._results([line[i] for i in section.members], before)

    def lines(self, lines: Sequence[list[Coords]], dealt: Sequence[Sequence[int]]) -> None:
        """Totals by group of all lines, the bases of all in one task, and a task for each chunk of the result."""
        refs, where = self._totals([c for line in lines for c in line[:-1]], dealt)
        each = len(lines[0]) - 1
        orders = [[where[number * each + i] for i in range(each)] for number in range(len(lines))]
        offsets = [self._offset(c) for c in lines[0]]
        sections = self._add(bases_of_lines, List(*refs), orders, offsets, self.graph.scan)
        for number, line in enumerate(lines):
            self._results(line, sections, number)

    def _totals(
        self, chunks: Sequence[Coords], dealt: Sequence[Sequence[int]]
    ) -> tuple[list[TaskRef], dict[int, tuple[int, int]]]:
        """A task for each group of chunks, and for each chunk which of these has its total, and where."""
        where = {i: (g, at) for g, members in enumerate(dealt) for at, i in enumerate(members)}
        refs = []
        for members in dealt:
            mine = [chunks[i] for i in members]
            refs.append(self._add(totals, *self._columns(mine), [self._offset(c) for c in mine], self.graph.scan))
        return refs, where

    def _results(self, members: Sequence[Coords], section: Any, line: int | None = None) -> None:
        """A task for each chunk: as short as can be, for there are many."""
        arrays = [name for name, _ in self.graph.arrays]
        for number, coords in enumerate(members):
            at = number if line is None else (line, number)
            key = self._key(coords)
            blocks = [TaskRef((name, *coords)) for name in arrays]
            if self.graph.starts is not None:
                blocks.append(self._start(coords))
            self.tasks[key] = Task(key, scan_chunk, section, at, *blocks)

    def _add(self, run: Any, *arguments: Any) -> TaskRef:
        key = (self.graph.parts, len(self.tasks))
        self.tasks[key] = (TotalsTask if run is totals else Task)(key, run, *arguments)
        return TaskRef(key)

    def _columns(self, members: Sequence[Coords]) -> tuple[Any, Any]:
        """Chunks as one list for each array, and where their segments start."""
        columns = List(*(List(*(TaskRef((name, *c)) for c in members)) for name, _ in self.graph.arrays))
        starts = None if self.graph.starts is None else List(*(self._start(c) for c in members))
        return columns, starts

    def _key(self, coords: Coords) -> tuple[str | int, ...]:
        return (self.graph.name, self._number(coords)) if self.graph.scan.flat else (self.graph.name, *coords)

    def _number(self, coords: Coords) -> int:
        return int(np.ravel_multi_index(coords, self.graph.arrays[0][1]))

    def _start(self, coords: Coords) -> Any:
        assert self.graph.starts is not None
        name, numblocks = self.graph.starts
        return TaskRef((name, *(0 if n == 1 else c for n, c in zip(numblocks, coords, strict=True))))

    def _offset(self, coords: Coords) -> int:
        if self.graph.offsets is None:
            return 0
        return self.graph.offsets[self._number(coords) if self.graph.scan.flat else coords[self.graph.scan.axis]]


Chunks = tuple[tuple[float, ...], ...]

# Of partials that go together to all workers that need one: beyond, each chunk's totals take a task of their own.
BASES_BYTES = 2**24
LAZY = 8  # chunks of a section that have yet to be made: so many lie in memory, and as many as there are threads
# More of them where they are small: to put tasks in order, dask notes for each section all chunks before it, which for
# 100,000 chunks in sections of eight takes more than 14 GB.
SECTIONS = 64
LAZY_BYTES = 2**26  # of the chunks of such a section


def scan_array(
    arrays: tuple[Any, ...],
    bound: Bound,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
    initial: bool = False,
    starts: Any = None,
    name_prefix: str | None = None,
) -> Any:
    """Scan dask arrays of one chunking along an axis, by a bound monoid.

    ``starts`` is a dask array of bool in the same chunks, or of size 1 along other axes: true where a segment starts.
    With ``initial``, lines are longer by one.
    """
    x = arrays[0]
    shape = None
    if needs_places(bound, x.numblocks, (axis,)):
        shape = tuple(sum(s) for s in place_chunks(bound.name, x.chunks, (axis,)))
    on_device = meta.promises_device(x._meta)
    scan = Scan(bound, axis, exclusive, reverse, initial, on_device, shape, fuse=deferred.fuses())
    fusion.install()
    tree = ScanTree(arrays, starts, scan, f"gr-{name_prefix or bound.name}")
    if x.numblocks[axis] == 1:
        return tree.one_chunk_a_line()
    return tree.of_lines(sources.select_source(tree.todo, dry_run=True))


class ScanTree:
    """One scan of one graph."""

    def __init__(self, arrays: tuple[Any, ...], starts: Any, scan: Scan, prefix: str) -> None:
        self.arrays, self.starts, self.scan, self.axis = arrays, starts, scan, scan.axis
        self.x = arrays[0]
        self.todo = sources.Reduction(arrays, scan.bound, (scan.axis,), None)  # to the totals of lines
        chunks = [str(a.chunks) for a in arrays]
        token = tokenize([a.name for a in arrays], chunks, None if starts is None else starts.name, scan)
        self.prefix, self.token = prefix, token
        self._name_by(token)

    def _name_by(self, token: str) -> None:
        """Parts, which are totals, bases, and stretches scanned together, are numbered as they come. How many come
        depends on the workers: the token tells one way of dealing from another, of which a graph may still run."""
        self.name = f"{self.prefix}-{token}"
        self.parts = f"{self.prefix}-part-{token}"

    def one_chunk_a_line(self) -> Any:
        """A task a chunk, in a layer that fuses with its neighbours."""
        inds = tuple(range(self.x.ndim))
        inputs = [v for a in (*self.arrays, *self._flags()) for v in (a, inds)]
        return da.blockwise(
            partial(scan_whole, scan=self.scan, segmented=self.starts is not None),
            inds,
            *inputs,
            name=self.name,
            dtype=self.scan.bound.result,
            meta=meta.like(self.x._meta, self.x.ndim, self.scan.bound.result),
            adjust_chunks={self.axis: _longer} if self.scan.initial else None,
            align_arrays=False,
        )

    def of_lines(self, source: Any) -> Any:
        """Lines of several chunks each; ``source`` is None for chunks that have yet to be made."""
        known, holders, is_lazy = self._where(source)
        lines = list(lines_of(self.x.numblocks, self.scan))
        ends = [c for line in lines for c in line[:-1]]  # nothing stands behind the last of a line
        together = not is_lazy and len(lines) > 1 and len(ends) <= self._section(False)
        if together:
            dealt = [self._deal_in_memory(ends, 1, holders, known)]
        else:
            dealt = [self._deal(line, len(lines), is_lazy, holders, known) for line in lines]
        self._name_by(tokenize(self.token, str(dealt), is_lazy))
        graph = ScanGraph(
            tuple((a.name, a.numblocks) for a in self.arrays),
            None if self.starts is None else (self.starts.name, self.starts.numblocks),
            self.scan,
            self.name,
            self.parts,
            None if self.scan.shape is None else self._offsets(),
            dealt,
            self._section(is_lazy),
            together,
        )
        return self._array(Deferred(graph), [*self.arrays, *self._flags()], self._chunks())

    def _array(self, layer: Tasks, dependencies: Sequence[Any], chunks: Chunks) -> Any:
        graph = HighLevelGraph.from_collections(self.name, layer, dependencies=dependencies)
        return da.Array(graph, self.name, chunks, meta=meta.like(self.x._meta, len(chunks), self.scan.bound.result))

    def _where(self, source: Any) -> tuple[workers.Workers, Any, bool]:
        """Who computes, what workers hold of each chunk where that is known, and whether chunks have yet to be made:
        not those that tasks compute as they read what is in memory."""
        if source is not None:
            return source.known, holders_of(source), False
        found = handles.origins(self.x) if self.scan.fuse else None
        if found is None or not scan_fusion.are_computed(self.arrays, self.scan):
            return workers.current(), None, True
        return found[1], found[0], False

    def _flags(self) -> list[Any]:
        return [] if self.starts is None else [self.starts]

    def _deal(
        self, line: list[Coords], lines: int, is_lazy: bool, holders: Any, known: workers.Workers
    ) -> list[Sequence[int]]:
        """Which chunks' totals one task finds. A task of their own for those whose partials are large, or that have
        yet to be made by whichever of several workers is free."""
        if is_lazy and (known.client is None or len(known.threads) == 1):
            sections = planner.in_order(len(line), self._section(True))
            return [[i for i in g.members if i + 1 < len(line)] for g in sections]
        if is_lazy or self._section(False) < len(line):
            return [(i,) for i in range(len(line) - 1)]
        return self._deal_in_memory(line[:-1], lines, holders, known)

    def _deal_in_memory(
        self, chunks: Sequence[Coords], lines: int, holders: Any, known: workers.Workers
    ) -> list[Sequence[int]]:
        if holders is None:
            size = planner.in_memory(len(chunks), lines, known.total, self.todo.chunk_bytes)
            return [g.members for g in planner.in_order(len(chunks), size)]
        held = [holders[c] for c in chunks]
        return [g.members for g in planner.by_worker(held, known.threads, lines, self.todo.chunk_bytes, known.memory)]

    def _section(self, is_lazy: bool) -> int:
        """How many chunks' bases one task finds."""
        each = self._cells() * self.scan.bound.state.itemsize
        room = LAZY if math.isnan(each) else max(1, int(BASES_BYTES // max(each, 1)))
        if not is_lazy:
            return room
        many = math.prod(self.x.numblocks) if self.scan.flat else self.x.numblocks[self.axis]
        held = 0 if math.isnan(self.todo.chunk_bytes) else LAZY_BYTES // max(self.todo.chunk_bytes, 1)
        return min(room, max(LAZY, int(min(many // SECTIONS, held))))

    def _cells(self) -> float:
        """Lines of the largest chunk."""
        return float(math.prod(max(s, default=0) for a, s in enumerate(self.x.chunks) if a != self.axis))

    def _offsets(self) -> list[int]:
        """Of the chunks along the axis."""
        return [int(n) for n in accumulate(self.x.chunks[self.axis][:-1], initial=0)]

    def _chunks(self) -> Chunks:
        chunks = [list(sizes) for sizes in self.x.chunks]
        if self.scan.initial:
            chunks[self.axis][-1 if self.scan.reverse else 0] += 1
        return tuple(map(tuple, chunks))


def _longer(size: float) -> float:
    return size + 1


def holders_of(source: Any) -> Any:
    """The workers that hold each chunk in memory, where they are known."""
    if isinstance(source, HandleSource):
        return source.held[0].holders()
    return None if source is None else source.holders
