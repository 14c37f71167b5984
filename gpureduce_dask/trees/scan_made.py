"""Chunks that only a scan needs, made by one task for each section of its lines.

A worker gets tasks without inputs two at a time: dask's scheduler keeps the others back. Chunk by chunk, the scheduler
is asked for each two chunks, and told of them, and so it is for their totals: 7 ms a chunk, where making one took a
GPU 0.3. Here one task makes the chunks of a section and finds their totals. They lie in its worker's memory until they
are scanned, as they do where each is a task.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
        if section is not None and section.is_private(graph, users, wanted):
            for key in section.inside:
                del moved[key]
            moved.update((node.key, node) for node in section.nodes())
    return moved


@dataclass
class _Section:
    """The task that finds what stands before some chunks, those that scan them, and those that it replaces."""

    gather: scan_tasks.Gather
    scans: list[Task]
    finders: list[Task]
    chunks: list[list[Key]]  # of each array
    chains: dict[Key, list[GraphNode]] = field(default_factory=dict)  # what makes each chunk and nothing else

    @classmethod
    def of(cls, gather: scan_tasks.Gather, graph: Graph, users: Mapping[Key, set[Key]]) -> _Section | None:
        """None where some are elsewhere, or not as a scan of lazy chunks without segments has them."""
        groups, order, offsets, _, scan = gather.args
        near: list[Any] = [graph[key] for key in users[gather.key]]
        scans = [n for n in near if isinstance(n, Task) and n.func is scan_tasks.scan_chunk]
        scans.sort(key=lambda node: node.args[1])
        finders: list[Any] = [graph.get(ref.key) for ref in groups.args]
        chunks = [[ref.key for ref in column] for column in zip(*(s.args[2:] for s in scans), strict=True)]
        if len(scans) != len(offsets) or len(chunks) != scan.bound.monoid.arity:
            return None
        if not all(type(node) is Task for node in [*finders, *(graph.get(c) for column in chunks for c in column)]):
            return None
        found = [[c.args[place].key for c in finders[group].args[0].args] for group, place in order]
        asked = [list(keys) for keys in zip(*chunks, strict=True)]
        return cls(gather, scans, finders, chunks) if found == asked[: len(order)] else None

    @property
    def inside(self) -> set[Key]:
        """The tasks that are replaced by one."""
        return {*(n.key for chain in self.chains.values() for n in chain), *(node.key for node in self.finders)}

    def is_private(self, graph: Graph, users: Mapping[Key, set[Key]], wanted: set[Key]) -> bool:
        """True where nothing but this section needs its chunks, and these need little from elsewhere."""
        near = {self.gather.key, *(node.key for node in self.scans), *(node.key for node in self.finders)}
        makers = {key: graph[key] for column in self.chunks for key in column}
        if makers.keys() & wanted or any(n.block_fusion or not users[n.key] <= near for n in makers.values()):
            return False
        self.chains = {key: _chain(node, graph, users, wanted | near) for key, node in makers.items()}
        inside = self.inside
        needs = Counter(key for chain in self.chains.values() for n in chain for key in n.dependencies - inside)
        is_shared = len(needs) <= SHARED and all(n > 1 for n in needs.values())  # none is a chunk on some worker
        return is_shared and all(users[n.key] == {self.gather.key} for n in self.finders)

    def nodes(self) -> Iterator[Task]:
        """What stands for them."""
        name, number = cast(tuple[str, int], self.gather.key)
        made, found = (f"{name}-made", number), (f"{name}-found", number)
        _, order, offsets, before, scan = self.gather.args
        columns = tuple(tuple(map(self._maker, column)) for column in self.chunks)
        needs = list(dict.fromkeys(key for column in columns for node in column for key in node.dependencies))
        refs = map(TaskRef, needs)
        yield Task(made, scan_tasks.make, columns, len(order), offsets, scan, needs, *refs)
        yield Task(found, operator.itemgetter(1), TaskRef(made))
        ranks = [(0, i) for i in range(len(order))]
        yield scan_tasks.Gather(self.gather.key, scan_tasks.bases, List(TaskRef(found)), ranks, offsets, before, scan)
        for node in self.scans:
            yield Task(node.key, scan_tasks.scan_made, node.args[0], node.args[1], TaskRef(made))

    def _maker(self, key: Key) -> GraphNode:
        chain = self.chains[key]
        return chain[0] if len(chain) == 1 else Task.fuse(*chain, key=key)


def _chain(node: GraphNode, graph: Graph, users: Mapping[Key, set[Key]], kept: set[Key]) -> list[GraphNode]:
    """A task and those that only it needs, and those that only they need."""
    chain = [node]
    for each in chain:  # which grows
        for key in each.dependencies - kept:
            if key in graph and users[key] == {each.key} and (isinstance(graph[key], DataNode) or _moves(graph[key])):
                chain.append(graph[key])
    return chain


def _moves(node: GraphNode) -> bool:
    return type(node) is Task and not node.block_fusion
