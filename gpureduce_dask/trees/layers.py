"""Layers of our trees' tasks: those that ``dask.graph_manipulation`` copies under other keys, as it copies its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, Protocol

from dask._task_spec import GraphNode, Task, TaskRef
from dask.base import clone_key
from dask.graph_manipulation import chunks
from dask.highlevelgraph import Layer, MaterializedLayer


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


class Source(Protocol):
    """What the tasks of a layer follow from."""

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""


class Deferred(Tasks):
    """Tasks that are written down when somebody looks at them, and that travel as what they follow from."""

    def __init__(self, source: Source) -> None:
        Layer.__init__(self)
        self.source = source

    @cached_property
    def mapping(self) -> Mapping[Any, GraphNode]:  # type: ignore[override]
        return self.source.tasks()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "mapping"}
