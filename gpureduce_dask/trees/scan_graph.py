"""The tasks of a scan tree, from what they follow from: a line of text for thousands of them.

A graph is built by a client, sent to a scheduler, and written down there. Of a scan, which has a task for each chunk,
what the tasks follow from is sent: to pickle 512 tasks and read them again takes 13 ms, and they are written in 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from dask._task_spec import GraphNode, List, Task, TaskRef

from . import groups
from .handles import Coords
from .scan_section import Scan, Section
from .scan_tasks import TotalsTask, bases, only_section, scan_chunk, totals

Ref = tuple[str, tuple[int, ...]]  # an array's name, and its numbers of chunks


@dataclass(frozen=True)
class ScanGraph:
    """A scan of arrays of one chunking along an axis.

    ``starts`` is the array that says where segments start, of the same numbers of chunks or of one. ``name`` begins the
    keys of results, ``parts`` those of totals and of what stands before chunks. ``offsets`` are those of chunks along
    the axis, or in C order, where positions matter. ``dealt`` says for each line which chunks' totals one task finds,
    and ``section`` how many chunks' bases.
    """

    arrays: tuple[Ref, ...]
    starts: Ref | None
    scan: Scan
    name: str
    parts: str
    offsets: Sequence[int] | None
    dealt: Sequence[Sequence[Sequence[int]]]
    section: int

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""
        written = _Written(self)
        for line, dealt in zip(lines(self.arrays[0][1], self.scan), self.dealt, strict=True):
            written.line(line, dealt)
        return written.tasks


def lines(numblocks: tuple[int, ...], scan: Scan) -> Iterator[list[Coords]]:
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
        sections = groups.in_order(len(line), self.graph.section)
        offsets = [self._offset(c) for c in line]
        if len(line) == 1:
            self._results(line, Section([None], offsets, True, scan))
            return
        if len(dealt) == len(sections) == 1 and len(dealt[0]) + 1 == len(line):
            self._results(line, self._add(only_section, *self._columns(line[:-1]), offsets, scan))
            return
        where = {i: (g, at) for g, members in enumerate(dealt) for at, i in enumerate(members)}
        refs = [self._add(totals, *self._columns([line[i] for i in m]), [offsets[i] for i in m], scan) for m in dealt]
        before = None
        for section in sections:
            wanted = [i for i in section.members if i + 1 < len(line)]
            used = sorted({where[i][0] for i in wanted})
            number = {g: n for n, g in enumerate(used)}
            order = [(number[where[i][0]], where[i][1]) for i in wanted]
            mine = [offsets[i] for i in section.members]
            before = self._add(bases, List(*(refs[g] for g in used)), order, mine, before, scan)
            self._results([line[i] for i in section.members], before)

    def _results(self, members: Sequence[Coords], section: Any) -> None:
        """A task for each chunk: as short as can be, for there are many."""
        arrays = [name for name, _ in self.graph.arrays]
        for at, coords in enumerate(members):
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
