"""Tasks that move into those which need them, in a graph that is about to run: elementwise steps into scans, and output
blocks into the task that joins them.

A scan whose lines are not scanned in turn reads each chunk twice: for its total, and for its results from the carry
before it. A chunk that elementwise steps make of chunks in memory would lie there in between, and with it all others
of its line, and take a task to make. Moved into both tasks, the steps are computed as these read, and nothing is kept.
On the host a second evaluation pays for steps that are no more than a pass over memory; on a GPU for all.

Where an array is computed whole, dask adds a task that joins its blocks. A task costs more than to finish a small
block. Blocks that are finished out of the same few partials, which go to all of them anyway, and that nothing but the
joining task needs, are finished in that task.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..distributed.private import Alias, DataNode, GraphNode, Task, TaskRef
from . import deferred, group_task, scan_tasks
from . import graph_arrays as da
from .group_task import Key
from .reduce_tasks import combine, finalise, pick
from .scan_tasks import Scan

Graph = Mapping[Key, GraphNode]

READERS = (scan_tasks.totals, scan_tasks.carries, scan_tasks.scan_first, scan_tasks.scan_chunk, scan_tasks.scan_line)
# Not ``clip``, ``maximum`` and ``where``, which take NumPy 4 to 30 times as long as a sum: a scan of chunks that a
# difference and a clip make took 404 ms with them, 307 without (Epyc, one thread, float32 (3652, 90, 180), 2026-11).
CHEAP = frozenset(
    {getattr(operator, name) for name in "add sub mul truediv neg pos invert and_ or_ xor lt le gt ge eq ne".split()}
    | {abs, deferred.CAST, np.abs, np.add, np.divide, np.isfinite, np.isnan, np.multiply, np.negative, np.square}
    | {np.subtract}
)


def users_of(graph: Graph) -> dict[Key, set[Key]]:
    """The tasks that need each key."""
    found: dict[Key, set[Key]] = {key: set() for key in graph}
    for key, node in graph.items():
        for need in node.dependencies:
            found.setdefault(need, set()).add(key)
    return found


def move_in_steps(graph: Graph, wanted: set[Key]) -> Graph:
    """The graph without the elementwise steps that only scans need, which their tasks do instead."""
    readers = {key: node for key, node in graph.items() if isinstance(node, Task) and node.func in READERS}
    needs = {key for node in readers.values() for key in node.dependencies if key in graph}
    steps = {key for key in needs - wanted if _are_steps(graph[key])}
    if not steps:
        return graph
    users = users_of(graph)
    movable = {
        key
        for key in steps
        if users[key] <= readers.keys() and _is_worth(graph[key], [_scan_of(readers[u], graph) for u in users[key]])
    }
    fused = {key: node for key, node in graph.items() if key not in movable}
    for key, node in readers.items():
        chains = [graph[need] for need in node.dependencies if need in movable]
        if chains:
            fused[key] = Task.fuse(*chains, node, key=key)
    return fused


def are_computed(arrays: Sequence[Any], scan: Scan) -> bool:
    """True for arrays whose chunks elementwise steps make of chunks in memory, by the first of each: steps that
    :func:`move_in_steps` moves where nothing else needs what they make."""
    for x in arrays:
        key = (x.name, *(0 for _ in x.numblocks))
        graph = da.optimize(x.dask, [key])
        node = graph.get(key)
        if not _is_worth(node, [scan, scan]) or not node.dependencies.isdisjoint(graph):
            return False
    return True


def _scan_of(node: Any, graph: Graph) -> Scan | None:
    """The scan that a task belongs to: its last argument, or that of the task which found what stands before it."""
    if not isinstance(node, Task):
        return None
    if node.func is scan_tasks.scan_chunk:
        return _scan_of(graph.get(node.args[0].key), graph)
    scan = node.kwargs.get("scan", node.args[-1])
    return scan if isinstance(scan, Scan) else None


def _is_worth(node: GraphNode | None, scans: list[Scan | None]) -> bool:
    """True for elementwise steps that scans may compute as they read, and that cost little to compute for each."""
    if not isinstance(node, Task) or not all(s is not None and s.fuse and not s.flat for s in scans):
        return False
    may_repeat = len(scans) == 1 or all(s is not None and s.device for s in scans) or CHEAP.issuperset(_functions(node))
    return may_repeat and _are_steps(node)


def _are_steps(node: GraphNode) -> bool:
    return isinstance(node, Task) and all(f in deferred.PLAIN for f in _functions(node))


def _functions(node: Task) -> Iterator[Any]:
    """What a task calls, and the tasks within it; of what is no call its type, which is in no table."""
    if not node.has_subgraph():
        yield deferred.function_of(node)
        return
    for each in node.args[0].values():
        if isinstance(each, Task):
            yield from _functions(each)
        elif not isinstance(each, Alias | DataNode):
            yield type(each)


# ---- output blocks


def finish_together(graph: Mapping[Key, GraphNode], wanted: set[Key], known: set[Key]) -> Mapping[Key, GraphNode]:
    """The graph with the tasks that finish small blocks moved into the one that joins them."""
    joining = [key for key in wanted & graph.keys() if any(_finishes(graph.get(k)) for k in graph[key].dependencies)]
    if not joining:
        return graph
    users, fused = users_of(graph), dict(graph)
    for key in joining:
        finished = {each: _without_barrier(graph[each]) for each in _finished_for(key, graph, wanted | known, users)}
        inside = finished.keys()
        partials = {need for node in finished.values() for need in node.dependencies} - inside
        if len(partials) >= len(inside):
            continue
        names = tuple(sorted((partials | graph[key].dependencies) - inside, key=str))
        inner = {**finished, key: graph[key]}
        fused[key] = Task(key, group_task.execute, inner, key, names, *map(TaskRef, names))
        for each in inside:
            del fused[each]
        for need in {need for each in inside for need in graph[each].dependencies} - partials - inside:
            if users[need] <= inside:
                fused.pop(need, None)
    return fused


def _without_barrier(node: GraphNode) -> Task:
    """A task that finishes a block, without what it awaits to be sent together with the others."""
    assert isinstance(node, Task)
    return Task(node.key, node.func, node.args[0]) if len(node.args) > 1 else node


def _finished_for(key: Key, graph: Mapping[Key, GraphNode], apart: set[Key], users: Mapping[Key, set[Key]]) -> set[Key]:
    """The tasks that only work on partials, and that this one alone needs."""
    inside: set[Key] = set()
    ahead = set(graph[key].dependencies)
    while ahead:
        found = {
            k for k in ahead if k in graph and k not in apart and users[k] <= inside | {key} and _finishes(graph[k])
        }
        inside |= found
        ahead = {need for k in found for need in graph[k].dependencies} - inside
    return inside


def _finishes(node: GraphNode | None) -> bool:
    return type(node) is Task and getattr(node.func, "func", None) in (combine, finalise, pick)
