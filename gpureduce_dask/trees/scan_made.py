"""Chunks that only a scan needs, made by one task for each section of its lines.

A worker gets tasks without inputs two at a time: dask's scheduler keeps the others back. Chunk by chunk, the scheduler
is asked for each two chunks, and told of them, and so it is for their totals: 7 ms a chunk, where making one took a
GPU 0.3. Here one task makes the chunks of a section and finds their totals. They lie in its worker's memory until they
are scanned, as they do where each is a task.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef
from dask.core import reverse_dict

from . import scan_tasks
from .chains import Key

Graph = Mapping[Key, GraphNode]

SHARED = 4  # results of other tasks that those of a section may take, such as the array that all are cut from


def move_in(graph: Graph, wanted: set[Key]) -> Graph:
    """The graph with the tasks that make chunks moved into one for each section, where nothing else needs these."""
    gathers = [n for n in graph.values() if isinstance(n, scan_tasks.Gather) and n.args[-1].together]
    if not gathers:
        return graph
    users = reverse_dict({key: node.dependencies for key, node in graph.items()})
    moved = dict(graph)
    for gather in gathers:
        section = _Section.of(gather, graph, users)
        if section is not None and section.is_private(users, wanted):
            for key in section.inside:
                del moved[key]
            moved.update((node.key, node) for node in section.nodes())
    return moved


@dataclass
class _Section:
    """The task that finds what stands before some chunks, those that scan them, and those that it replaces."""

    gather: scan_tasks.Gather
    scans: list[Task]
    chunks: list[list[Task]]  # of each array
    finders: list[Task]
    data: dict[Key, DataNode]  # that only these chunks are made of

    @classmethod
    def of(cls, gather: scan_tasks.Gather, graph: Graph, users: Mapping[Key, set[Key]]) -> _Section | None:
        """None where some are elsewhere, or not as a scan of lazy chunks without segments has them."""
        groups, order, offsets, _, scan = gather.args
        near: list[Any] = [graph[key] for key in users[gather.key]]
        scans = [n for n in near if isinstance(n, Task) and n.func is scan_tasks.scan_chunk]
        scans.sort(key=lambda node: node.args[1])
        finders: list[Any] = [graph.get(ref.key) for ref in groups.args]
        columns: list[list[Any]] = [
            [graph.get(ref.key) for ref in column] for column in zip(*(s.args[2:] for s in scans), strict=True)
        ]
        if len(scans) != len(offsets) or len(columns) != scan.bound.monoid.arity:
            return None
        if not all(type(node) is Task for node in [*finders, *(c for column in columns for c in column)]):
            return None
        found = [[c.args[place] for c in finders[group].args[0].args] for group, place in order]
        asked = [[TaskRef(column[i].key) for column in columns] for i in range(len(order))]
        if found != asked:
            return None
        makers = {node.key for column in columns for node in column}
        needs = {key for column in columns for node in column for key in node.dependencies}
        data = {key: graph[key] for key in needs if users[key] <= makers and isinstance(graph.get(key), DataNode)}
        return cls(gather, scans, columns, finders, cast(dict[Key, DataNode], data))

    @property
    def makers(self) -> dict[Key, Task]:
        return {node.key: node for column in self.chunks for node in column}

    @property
    def inside(self) -> set[Key]:
        """The tasks that are replaced by one."""
        return {*self.makers, *self.data, *(node.key for node in self.finders)}

    def is_private(self, users: Mapping[Key, set[Key]], wanted: set[Key]) -> bool:
        """True where nothing but this section needs its chunks, and these need little."""
        makers, inside = self.makers, self.inside
        near = {*inside, self.gather.key, *(node.key for node in self.scans)}
        needs = {key for node in makers.values() for key in node.dependencies} - self.data.keys()
        if inside & wanted or needs & inside or len(needs) > SHARED:
            return False
        return all(users[key] <= near for key in inside) and not any(node.block_fusion for node in makers.values())

    def nodes(self) -> Iterator[Task]:
        """What stands for them."""
        name, number = cast(tuple[str, int], self.gather.key)
        made, found = (f"{name}-made", number), (f"{name}-found", number)
        _, order, offsets, before, scan = self.gather.args
        columns = List(*(List(*map(self._with_data, column)) for column in self.chunks))
        yield Task(made, scan_tasks.make, columns, len(order), offsets, scan)
        yield Task(found, operator.itemgetter(1), TaskRef(made))
        ranks = [(0, i) for i in range(len(order))]
        yield scan_tasks.Gather(self.gather.key, scan_tasks.bases, List(TaskRef(found)), ranks, offsets, before, scan)
        for node in self.scans:
            yield Task(node.key, scan_tasks.scan_made, node.args[0], node.args[1], TaskRef(made))

    def _with_data(self, node: Task) -> Task:
        data = [self.data[key] for key in node.dependencies if key in self.data]
        return cast(Task, Task.fuse(*data, node, key=node.key)) if data else node
