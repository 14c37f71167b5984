"""Arrays that are views of a persisted one: slices of it with axes in another order, and on GPUs functions of elements.

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
from typing import Any

import numpy as np

from .. import planner
from ..distributed import handles, workers
from ..distributed.handles import Coords, HandleSet
from ..distributed.private import Alias, DataNode, Task, TaskRef
from . import deferred, group_task, meta, sources
from .arguments import Axes
from .group_task import Chain, Piece
from .sources import GroupTask, Reduction

LAYERS = 16  # of a graph, at most
CUTS = (slice, int, type(None), type(...))  # what a view is indexed by
VALUES = (str, int, float, tuple, np.generic, np.dtype)  # that their text tells from others
Cut = tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """How an array is made of a persisted one: of its name, whose futures are the layer. ``parts`` has by each chunk's
    coordinates those of the block that it is a part of, and the cuts that its chain makes."""

    name: str
    layer: Any
    parts: Mapping[Coords, tuple[Coords, tuple[Cut, ...]]]
    chain: Chain

    @property
    def numblocks(self) -> Coords:
        """Blocks of the persisted array along each axis."""
        return tuple(n + 1 for n in map(max, zip(*(key[1:] for key in self.layer.mapping), strict=True)))


def find_view(x: Any) -> View | None:
    """What a dask array is a view of; None where it is none, or its chunks are not all made alike."""
    layers = x.dask.layers
    names = [name for name, layer in layers.items() if workers.are_of_futures(layer)]
    if len(names) != 1 or x.name in names or len(layers) > LAYERS:
        return None
    (name,), first = names, (x.name, *(0,) * x.ndim)
    functions = deferred.PLAIN if meta.promises_device(x._meta) and deferred.fuses() else frozenset()
    chain = _chain(first, name, x.dask.cull({first}).to_dict()) if all(x.numblocks) else None
    form = chain and _form(chain, functions)
    if chain is None or form is None:
        return None  # as most arrays are: the graph of one chunk tells
    if all(_is_in_place(layer, x.numblocks) for key, layer in layers.items() if key != name):
        return View(name, layers[name], {c: (c, ()) for c in product(*map(range, x.numblocks))}, chain)
    graph, parts = x.dask.to_dict(), {}
    for coords in product(*map(range, x.numblocks)):
        each = _chain((x.name, *coords), name, graph)
        if each is None or _form(each, functions) != form:
            return None
        cuts = tuple(node.args[1] for node in each.nodes if node.func is deferred.SLICE)
        parts[coords] = each.takes[1:], cuts
    return View(name, layers[name], parts, chain)


def _is_in_place(layer: Any, numblocks: Coords) -> bool:
    """True for a layer of dask's blockwise whose blocks are all made alike, each of blocks of the same coordinates: its
    graph need not be written to see that."""
    own: Any = getattr(layer, "output_indices", None)
    indices: Any = getattr(layer, "indices", None)
    blocks: Any = getattr(layer, "numblocks", None)
    if own is None or indices is None or blocks is None:
        return False
    if getattr(layer, "new_axes", True) or getattr(layer, "io_deps", True):
        return False
    same = all(tuple(index) == tuple(own) for _, index in indices if index is not None)
    return same and all(tuple(each) == numblocks for each in blocks.values())


def _chain(key: Any, name: str, graph: Mapping[Any, Any]) -> Chain | None:
    """The tasks that make a chunk of one block of the array of this name; None where other blocks have a part in it."""
    nodes: dict[Any, Task] = {}
    sources = set()
    ahead = [(key, False)]
    while ahead:
        at, is_ready = ahead.pop()
        node = graph.get(at)  # none where a graph was made anew, as by clone, and layers do not say what they need
        if isinstance(node, Alias):  # of a block that a slice has whole
            node = Task(at, deferred.SLICE, TaskRef(node.target), (...,))
        if at in nodes:
            continue
        if at[0] == name:
            sources.add(at)
        elif type(node) is not Task:
            return None
        elif is_ready:
            nodes[at] = node
        else:
            ahead += [(at, True), *((need, False) for need in sorted(node.dependencies, key=str))]
    return Chain(sources.pop(), key, tuple(nodes.values())) if len(sources) == 1 else None


def _form(chain: Chain, functions: frozenset[Any]) -> Any:
    """What is the same in all chains of an array; None where a chain is more than slices, axes in another order, and
    then these functions."""
    places, views, form = {chain.takes: -1}, {chain.takes}, []
    for place, node in enumerate(chain.nodes):
        is_slice = node.func is deferred.SLICE and len(node.args) == 2
        args = node.args[:1] if is_slice else node.args
        if is_slice or node.func is np.transpose:
            if not (isinstance(args[0], TaskRef) and args[0].key in views):
                return None
            views.add(node.key)
        elif deferred.function_of(node) not in functions:
            return None
        if is_slice and not (isinstance(node.args[1], tuple) and all(isinstance(c, CUTS) for c in node.args[1])):
            return None
        keys = tuple(("node", places[a.key]) if isinstance(a, TaskRef) else _argument_key(a) for a in args)
        form.append((id(node.func), keys, tuple((k, _argument_key(v)) for k, v in sorted(node.kwargs.items()))))
        places[node.key] = place
    return tuple(form)


def _argument_key(value: Any) -> Any:
    """What tells a task's argument from others: objects are shared by all tasks of a layer."""
    value = value.value if isinstance(value, DataNode) else value
    return ("value", repr(value)) if isinstance(value, VALUES) else ("object", id(value))


class ViewSource(sources.HandleSource):
    """The chunks of a view, where the handles of a persisted array refer to the blocks that they are parts of."""

    def __init__(
        self, reduction: Reduction, view: View, handle_set: HandleSet, known: workers.Workers, dry_run: bool
    ) -> None:
        super().__init__(reduction, [handle_set], [view.layer], known, dry_run)
        self.view = view

    slices = sources.Source.slices

    def homes(self, members: Sequence[Coords]) -> list[tuple[str, ...]]:
        return super().homes([self.view.parts[c][0] for c in members])

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        numbers, reduction, mine = self.handle_sets[0].numbers, self.reduction, [members[i] for i in group.members]
        parts = [self.view.parts[c] for c in mine]
        run = partial(
            group_task.reduce_pieces,
            pieces=[
                Piece(numbers[at], cuts, o) for (at, cuts), o in zip(parts, reduction.offsets_of(mine), strict=True)
            ],
            chain=self.view.chain,
            bound=reduction.bound,
            layout=reduction.layout_of(stage, ()),
        )
        return GroupTask(run, self.refs(str(group.worker)), group.worker, len(mine))


def select_source(reduction: Reduction, dry_run: bool = False) -> ViewSource | None:
    """The source of a view's chunks, where they are worth handles; or None. A dry run makes none."""
    if len(reduction.arrays) > 1 or not reduction.bound.monoid.commutative or not meta.is_ours(reduction.x._meta):
        return None
    view = find_view(reduction.x)
    client = view and next(iter(view.layer.mapping.values())).client
    if view is None or client is None:
        return None
    handle_set, known = handles.find_handles(view.layer, client), workers.of_client(client)
    if handle_set is None:
        known, found = handles.survey(client, [(view.name, view.numblocks, view.layer)])
        homes = handles.homes_of(view.layer, found[0]) if found else []
        is_cut = any(cuts for _, cuts in view.parts.values())
        is_known = meta.promises_device(reduction.x._meta) or not is_cut  # how much a handle would keep in memory
        if not homes or not is_known or not sources.fit(reduction, homes, known):
            return None
        unknown = tuple((math.nan,) * n for n in view.numblocks)
        handle_set = handles.keep_handles(view.layer, view.name, unknown, homes, known, is_placed=False)
    return ViewSource(reduction, view, handle_set, known, dry_run)
