"""Arrays that are views of a persisted one: slices of it with axes in another order, and functions of elements.

A chunk of such an array is a part of one chunk of the other, where that lies. So it is reduced as the persisted array
is, by its handles, with what makes it of the chunk: no task has a part in it, and no graph to be optimised. What else a
graph may do to a chunk is made by tasks of dask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np

from .. import planner
from ..distributed import handles, workers
from ..distributed.handles import Coords, HandleSet
from ..distributed.private import Alias, DataNode, GraphNode, Task, TaskRef
from . import deferred, group_task, meta, sources
from .arguments import Axes
from .group_task import Chain, Piece
from .layers import sources_first
from .sources import GroupTask, Reduction

LAYERS = 16  # of a graph, at most
CUTS = (slice, int, type(None), type(...))  # what a view is indexed by
VALUES = (str, int, float, tuple, np.generic, np.dtype)  # that their text tells from others
Cut = tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """How an array is made of a persisted one. ``parts`` has by each chunk's coordinates those of the block that it is
    a part of, and the cuts that its chain makes."""

    parts: Mapping[Coords, tuple[Coords, tuple[Cut, ...]]]
    chain: Chain


@dataclass(frozen=True)
class Candidate:
    """An array whose first chunk is a part of one of a persisted array's, and how that chunk is made of it."""

    x: Any
    name: str
    chain: Chain
    form: Any
    functions: frozenset[Any]

    @property
    def layer(self) -> Any:
        """The futures of the persisted array."""
        return self.x.dask.layers[self.name]

    @property
    def key(self) -> Any:
        """What tells this array from others of the persisted one: the names of all its layers, since dask names slices
        by what they take, and how a chunk is made, since users may give one name to several functions."""
        return self.x.name, frozenset(self.x.dask.layers), self.form

    def view(self) -> View | None:
        """The view, where all chunks are made as the first is."""
        every = product(*map(range, self.x.numblocks))
        axes = _axes_of(self.x.dask.layers, self.x.name, self.name, self.x.numblocks)
        if axes is not None:
            return View({coords: (tuple(coords[a] for a in axes), ()) for coords in every}, self.chain)
        tasks, parts = _tasks_of(self.x.dask.to_dict(), self.name), {}
        for coords in every:
            each = _chain((self.x.name, *coords), self.name, tasks)
            if each is None or _form(each, self.functions) != self.form:
                return None
            cuts = tuple(node.args[1] for node in each.nodes if node.func is deferred.SLICE)
            parts[coords] = each.takes[1:], cuts
        return View(parts, self.chain)


def find_candidate(x: Any) -> Candidate | None:
    """An array that may be a view, by its first chunk, which tells of most arrays that they are none."""
    layers = x.dask.layers
    names = [name for name, layer in layers.items() if workers.are_of_futures(layer)]
    if len(names) != 1 or x.name in names or len(layers) > LAYERS or not all(x.numblocks):
        return None
    (name,), first = names, (x.name, *(0,) * x.ndim)
    functions = deferred.PLAIN if deferred.fuses() else frozenset()
    chain = _chain(first, name, _tasks_of(x.dask.cull({first}).to_dict(), name))
    form = chain and _form(chain, functions)
    return None if chain is None or form is None else Candidate(x, name, chain, form, functions)


def _axes_of(layers: Mapping[str, Any], key: str, name: str, numblocks: Coords) -> Axes | None:
    """The axis of an array that each axis of a persisted one has become, where only dask's blockwise stands between
    them, whose graph need not be written to see that; None where anything else does."""
    if key == name:
        return tuple(range(len(numblocks)))
    layer = layers.get(key)
    own: Any = getattr(layer, "output_indices", None)
    indices: Any = getattr(layer, "indices", None)
    blocks: Any = getattr(layer, "numblocks", None)
    if own is None or indices is None or blocks is None:
        return None
    if getattr(layer, "new_axes", True) or getattr(layer, "io_deps", True):
        return None
    found = set()
    for source, index in {(source, tuple(index)) for source, index in indices if index is not None}:
        moved = len(index) == len(own) and set(index) == set(own)
        if not moved or tuple(blocks[source]) != tuple(numblocks[own.index(i)] for i in index):
            return None
        below = _axes_of(layers, source, name, blocks[source])
        found.add(None if below is None else tuple(own.index(index[a]) for a in below))
    return found.pop() if len(found) == 1 else None


def _tasks_of(graph: Mapping[Any, Any], name: str) -> dict[Any, GraphNode]:
    """The tasks of a graph but for the chunks of the array of this name. What stands for a block that a slice has whole
    is a slice of it."""
    found: dict[Any, GraphNode] = {}
    for key, node in graph.items():
        if isinstance(node, Alias):
            node = Task(key, deferred.SLICE, TaskRef(node.target), (...,))
        if type(node) is Task and key[0] != name:
            found[key] = node
    return found


def _chain(key: Any, name: str, tasks: Mapping[Any, GraphNode]) -> Chain | None:
    """The tasks that make a chunk of one block of the array of this name; None where others have a part in it. Layers
    do not say what they need where a graph was made anew, as by clone."""
    nodes = cast(tuple[Task, ...], tuple(sources_first(key, tasks)))
    sources = [*{need for node in nodes for need in node.dependencies if need not in tasks}]
    return Chain(sources[0], key, nodes) if len(sources) == 1 and sources[0][0] == name else None


def _form(chain: Chain, functions: frozenset[Any]) -> Any:
    """What is the same in all chains of an array; None where a chain is more than slices, axes in another order, and
    then these functions."""
    places, views, form = {chain.takes: -1}, {chain.takes}, []
    for place, node in enumerate(chain.nodes):
        is_slice = node.func is deferred.SLICE
        args = node.args[:1] if is_slice else node.args
        if node.func in group_task.VIEWS:
            if not (isinstance(args[0], TaskRef) and args[0].key in views):
                return None
            views.add(node.key)
        elif deferred.function_of(node) not in functions:
            return None
        if is_slice and not _is_plain(node.args[1:]):
            return None
        keys = tuple(("node", places[a.key]) if isinstance(a, TaskRef) else _argument_key(a) for a in args)
        form.append((id(node.func), keys, tuple((k, _argument_key(v)) for k, v in sorted(node.kwargs.items()))))
        places[node.key] = place
    return tuple(form)


def _is_plain(index: Sequence[Any]) -> bool:
    """True for the arguments of a slice that are one tuple of slices, numbers and new axes."""
    return len(index) == 1 and isinstance(index[0], tuple) and all(isinstance(each, CUTS) for each in index[0])


def _argument_key(value: Any) -> Any:
    """What tells a task's argument from others: objects are shared by all tasks of a layer."""
    value = value.value if isinstance(value, DataNode) else value
    return ("value", repr(value)) if isinstance(value, VALUES) else ("object", id(value))


class ViewSource(sources.HandleSource):
    """The chunks of a view, where the handles of a persisted array refer to the blocks that they are parts of."""

    def __init__(
        self, reduction: Reduction, view: View, layer: Any, handle_set: HandleSet, known: workers.Workers, dry_run: bool
    ) -> None:
        super().__init__(reduction, [handle_set], [layer], known, dry_run)
        self.view = view
        self.holders = {coords: handle_set.holders[block] for coords, (block, _) in view.parts.items()}

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        numbers, reduction, mine = self.handle_sets[0].numbers, self.reduction, [members[i] for i in group.members]
        each = zip((self.view.parts[c] for c in mine), reduction.offsets_of(mine), strict=True)
        pieces = [Piece(numbers[block], cuts, offset) for (block, cuts), offset in each]
        options: dict[str, Any] = {"bound": reduction.bound, "layout": reduction.layout_of(stage, ())}
        run = partial(group_task.reduce_pieces, pieces=pieces, chain=self.view.chain, **options)
        return GroupTask(run, self.refs(str(group.worker)), group.worker, len(mine))


def select_source(reduction: Reduction, dry_run: bool = False) -> ViewSource | None:
    """The source of a view's chunks, where they are worth handles; or None. A dry run makes none."""
    if len(reduction.arrays) > 1 or not reduction.bound.monoid.commutative or not meta.is_ours(reduction.x._meta):
        return None
    candidate = find_candidate(reduction.x)
    client = candidate and next(iter(candidate.layer.mapping.values())).client
    if candidate is None or client is None:
        return None
    unknown = tuple((math.nan,) * n for n in handles.numblocks_of(candidate.layer.mapping))
    found, _, known = sources.find_handles(reduction, [(candidate.name, unknown, candidate.layer)], client, False)
    view = (found[0].views.get(candidate.key) or candidate.view()) if found else None
    if view is None:
        return None
    found[0].keep_view(candidate.key, view)
    return ViewSource(reduction, view, candidate.layer, found[0], known, dry_run)
