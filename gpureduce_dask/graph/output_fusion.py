"""Output blocks that are wanted only together: where an array is computed whole, dask adds a task that joins its
blocks.

A task costs more than to finish a small block. Blocks that are finished out of the same few partials, which go to all
of them anyway, and that nothing but the joining task needs, are finished in that task.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..distributed.private import GraphNode, Task, TaskRef
from . import fused_task
from .fused_task import Key
from .reduce_tasks import combine, finish
from .scan_fusion import users_of

Graph = dict[Key, GraphNode]


def finish_together(graph: Mapping[Key, GraphNode], wanted: set[Key], known: set[Key]) -> Mapping[Key, GraphNode]:
    """The graph with the tasks that finish small blocks moved into the one that joins them."""
    joining = [key for key in wanted & graph.keys() if any(_finishes(graph.get(k)) for k in graph[key].dependencies)]
    if not joining:
        return graph
    users, moved = users_of(graph), dict(graph)
    for key in joining:
        finished = {each: _at_once(graph[each]) for each in _finished_for(key, graph, wanted | known, users)}
        inside = finished.keys()
        partials = {need for node in finished.values() for need in node.dependencies} - inside
        if len(partials) >= len(inside):
            continue
        names = tuple(sorted((partials | graph[key].dependencies) - inside, key=str))
        moved[key] = Task(key, fused_task.execute, {**finished, key: graph[key]}, key, names, *map(TaskRef, names))
        for each in inside:
            del moved[each]
        for need in {need for each in inside for need in graph[each].dependencies} - partials - inside:
            if users[need] <= inside:
                moved.pop(need, None)
    return moved


def _at_once(node: GraphNode) -> GraphNode:
    """A task that finishes a block, without what it awaits to be sent together with the others."""
    return Task(node.key, node.func, node.args[0]) if isinstance(node, Task) and len(node.args) > 1 else node


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
    return type(node) is Task and getattr(node.func, "func", None) in (combine, finish)
