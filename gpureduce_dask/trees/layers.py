"""Layers of our trees' tasks: those that ``dask.graph_manipulation`` copies under other keys, as it copies its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dask._task_spec import GraphNode, Task, TaskRef
from dask.base import clone_key
from dask.graph_manipulation import chunks
from dask.highlevelgraph import MaterializedLayer


class Tasks(MaterializedLayer):
    """Tasks by key. dask's own layer, which it is otherwise, would copy them with references to the old keys."""

    def clone(self, keys: set[Any], seed: Hashable, bind_to: Any = None) -> tuple[Tasks, bool]:
        """The layer with these keys replaced, and whether some task waits for ``bind_to`` now: those that refer to no
        other replaced key do."""
        made: dict[Any, GraphNode] = {}
        is_bound = False
        for key, node in self.items():
            if key not in keys:
                made[key] = node
                continue
            subs = {need: clone_key(need, seed) for need in node.dependencies & keys}
            name = clone_key(key, seed)
            copy = node.substitute(subs, key=name)
            if bind_to is not None and not subs:
                copy = Task(name, chunks.bind, copy, TaskRef(bind_to))
                is_bound = True
            made[name] = copy
        return Tasks(made), is_bound
