"""Layers of our tasks, their nodes, and walks of graphs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from dask.base import clone_key
from dask.highlevelgraph import Layer, MaterializedLayer

from ..distributed.private import GraphNode, Task, TaskRef
from .reduce_tasks import each_slice

Key = Any


class Tasks(MaterializedLayer):
    """Tasks by key. dask's own layer, which it is otherwise, would copy them with references to the old keys.
    ``groups_per_task`` is how many of the groups that give its results one task makes, one after another."""

    groups_per_task = 1

    def __init__(self, mapping: Mapping[Any, GraphNode], groups_per_task: int = 1) -> None:
        super().__init__(mapping)
        self.groups_per_task = groups_per_task

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
                copy = Task(name, _wait_for, copy, TaskRef(bind_to))
                is_bound = True
            made[name] = copy
        return Tasks(made, self.groups_per_task), is_bound


def _wait_for(result: Any, awaited: Any) -> Any:
    """A result that waited for another."""
    return result


class TaskWriter:
    """Tasks as they come. Keys of the result's blocks begin with ``name``; those of others say their step, are
    numbered, and say how many chunks or partials a task takes.

    Steps of reductions are "chunk", one to its partial, "group", several to one, "combine", partials to one, "blocks",
    those of several slices to results; of scans "total", of chunks, "carry", what stands before each, "line", chunks
    scanned in turn, "behind", what stands behind, "cut" and "gather", rows of chunks, "rows", some of these scanned.
    """

    def __init__(self, prefix: str, token: str) -> None:
        self.prefix, self.token, self.name = prefix, token, f"{prefix}-{token}"
        self.tasks: dict[Any, GraphNode] = {}
        self._texts: dict[str, str] = {}  # one object each: it travels once

    def step_name(self, step: str) -> str:
        """What the keys of a step's tasks begin with."""
        if step not in self._texts:
            self._texts[step] = f"{self.prefix}-{step}-{self.token}"
        return self._texts[step]

    def add(
        self, step: str, run: Any, *arguments: Any, kind: type[Task] = Task, count: int | None = None, of: str = "chunk"
    ) -> TaskRef:
        """A task of this step, which takes so many chunks, or whatever else."""
        key: Any = (self.step_name(step), len(self.tasks))
        if count is not None:
            text = f"{count} {of}{'s' * (count != 1)}"
            key += (self._texts.setdefault(text, text),)
        self.tasks[key] = kind(key, run, *arguments)
        return TaskRef(key)


class LazyTasks(Tasks):
    """Tasks that are written down when somebody looks at them, and that travel as what they follow from: the factory
    tells them, how many chunks they give, and what gives the same where all of these are kept and none is let go."""

    def __init__(self, factory: Any) -> None:
        Layer.__init__(self)
        self.factory = factory

    @cached_property
    def mapping(self) -> Mapping[Any, GraphNode]:  # type: ignore[override]
        tasks: dict[Any, GraphNode] = self.factory.tasks()
        return tasks

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "mapping"}


class GroupNode(Task):
    """A task that folds its inputs in order, and may make them too: dask fuses it with nothing. It folds them to one
    result, or to one for each of several slices, so many inputs of each."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        return True

    @property
    def members(self) -> list[Key]:
        return [ref.key for ref in self.args[0].args]

    @property
    def is_of_slices(self) -> bool:
        """True where it gives a list of results."""
        return getattr(self.func, "func", None) is each_slice

    @property
    def closes(self) -> list[tuple[Callable[..., Any], int]]:
        """What makes a result of members that are folded together, and how many, for each such set of them."""
        if not self.is_of_slices:
            return [(self.func, len(self.members))]
        options = self.func.keywords  # type: ignore[attr-defined]
        return [(options["run"], size) for size in options["sizes"]]


class PlacedGroupNode(GroupNode):
    """A group made of chunks that one worker can make of what it holds."""

    __slots__ = ()


# ---- walks


def users_of(graph: Mapping[Key, GraphNode]) -> dict[Key, set[Key]]:
    """The tasks that need each key."""
    found: dict[Key, set[Key]] = {key: set() for key in graph}
    for key, node in graph.items():
        for need in node.dependencies:
            found.setdefault(need, set()).add(key)
    return found


def needs_of(graph: Mapping[Key, GraphNode]) -> set[Key]:
    """What the tasks of a graph need that others make."""
    return {need for node in graph.values() for need in node.dependencies} - graph.keys()


def sources_first(key: Key, graph: Mapping[Key, GraphNode]) -> Iterator[GraphNode]:
    """The tasks of a graph that one result needs, each after those that it needs itself."""
    ahead, done = [(key, False)], set()
    while ahead:
        key, is_ready = ahead.pop()
        if is_ready:
            yield graph[key]
        elif key in graph and key not in done:
            done.add(key)
            ahead.append((key, True))
            ahead.extend((need, False) for need in sorted(graph[key].dependencies, key=str, reverse=True))


def needed_alone(
    needs: Iterable[Key], graph: Mapping[Key, GraphNode], users: Mapping[Key, set[Key]], may_be: Callable[[Key], bool]
) -> set[Key]:
    """The tasks that some alone need, through others of the kind or not, and that may be among them. ``needs`` are what
    each of those some needs."""
    found: set[Key] = set()
    seen: Counter[Key] = Counter()
    ahead = list(needs)
    while ahead:
        key = ahead.pop()
        seen[key] += 1
        if key in graph and seen[key] == len(users[key]) and may_be(key):
            found.add(key)
            ahead.extend(graph[key].dependencies)
    return found
