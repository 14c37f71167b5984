"""Where the chunks of a reduction come from: yet to be made, in memory here, or in memory on the workers of a cluster.

Each source deals the chunks of a slice to groups, and writes the task of a group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, product
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from dask._task_spec import GraphNode, List, Task, TaskRef
from dask.highlevelgraph import MaterializedLayer

from ..chunk import is_device
from ..monoid import Bound
from . import grouped, groups, locate, meta, spread, workers
from . import held as handles
from .axes import Axes, needs_places, place_chunks
from .handles import Coords
from .held import Held
from .holds import Deal

BUNDLE_BYTES = 256 * 1024  # of the partials that one task gives for all slices: they may go to every worker


@dataclass(frozen=True, eq=False)
class Part:
    """One group: what its task runs, on what, and on which worker as far as that is known."""

    run: Callable[..., Any]
    takes: GraphNode
    worker: str | None
    chunks: int

    def task(self, key: Any = None) -> Task:
        """The group's task; without a key it is for another task to run."""
        return Task(key, self.run, self.takes)


@dataclass(frozen=True)
class Spread:
    """All groups of a slice for one task, that asks each worker for its own."""

    takes: list[Any]
    runs: list[Callable[..., Any]]


class Source(Protocol):
    """Chunks in memory, dealt to groups."""

    todo: Reduction
    known: workers.Workers
    mark: Any  # tells one way of dealing from another, in keys
    dependencies: list[Any]  # collections that groups depend on

    @property
    def futures(self) -> list[Any]:
        """Layers that they depend on."""

    def spread(self, parts: list[Part], nbytes: float) -> Spread | None:
        """What one task takes and runs for all groups of a slice, whose partials have so many bytes; None where each
        had better have its own."""

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        """The groups of each slice, in order; slices by their coordinates, which are 0 along the stage's axes."""


@dataclass(frozen=True)
class Reduction:
    """What sources need to know of a reduction."""

    arrays: tuple[Any, ...]
    bound: Bound
    axes: Axes
    size: int | None  # chunks a group, where the caller says so

    @property
    def x(self) -> Any:
        return self.arrays[0]

    @cached_property
    def chunk_bytes(self) -> float:
        """Bytes of the largest chunk, of all arrays together."""
        largest = math.prod(max(sizes, default=0) for sizes in self.x.chunks)
        return float(largest * sum(a.dtype.itemsize for a in self.arrays))

    @cached_property
    def shape(self) -> tuple[int, ...] | None:
        """The array's shape along the reduced axes and 0 along others, where positions matter."""
        if not needs_places(self.bound, self.x.numblocks, self.axes):
            return None
        return tuple(sum(s) for s in place_chunks(self.bound.name, self.x.chunks, self.axes))

    def where(self, stage: Axes, members: Any) -> grouped.Where:
        commutes = self.bound.monoid.commutative
        runs = None if commutes else tuple((r.start, len(r)) for r in groups.runs(members))
        return grouped.Where(stage, self.shape, runs)


def find(todo: Reduction, is_trial: bool = False) -> Source | None:
    """The source of chunks that are all in memory, or None. A trial makes no handles on workers."""
    if any(a.numblocks != todo.x.numblocks for a in todo.arrays):
        return None
    layers = [a.dask.layers.get(a.name) for a in todo.arrays]
    values = [_values(layer, a) for layer, a in zip(layers, todo.arrays, strict=True)]
    if any(v is None for v in values):
        return None
    first = [next(iter(v.values()), None) for v in values]
    if all(workers.is_future(v) for v in first):
        return _on_workers(todo, layers, is_trial)
    if all(_is_array(chunk) for v in values for chunk in v.values()):
        return InMemory(todo, None, workers.current())
    return None


def _values(layer: Any, array: Any) -> Any:
    """A layer's dictionary where it has the array's chunks and nothing else."""
    mapping = getattr(layer, "mapping", None)
    whole = mapping is not None and len(mapping) == array.npartitions > 0
    return mapping if whole and len(array.dask.layers) == 1 else None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_device(value)


def _on_workers(todo: Reduction, layers: list[Any], is_trial: bool) -> Source | None:
    client = next(iter(layers[0].mapping.values())).client
    if client is None:
        return None
    held = [handles.find(layer, client) for layer in layers]
    good = [h for h in held if h is not None]
    if len(good) == len(held) and all(h.places == good[0].places for h in good[1:]):
        return OnHandles(todo, good, workers.of_client(client), is_trial)
    deals = [Deal.of(uuid4().hex, a.name, a.chunks) for a in todo.arrays]
    offered = handles.offer(client, deals[0]) if len(deals) == 1 and not is_trial else None
    arrays = [(a.name, a.numblocks, layer) for a, layer in zip(todo.arrays, layers, strict=True)]
    known, found = locate.survey(client, arrays, offered and offered[0])
    if not found:
        for layer in layers:
            workers.refuse_cancelled(todo.bound.name, layer.mapping.values())
        return None
    source = InMemory(todo, found[0], known)
    first = {c: min(h) for c, h in found[0].items()}
    if not _fit(todo, first, known) or any(w not in h[c] for h in found[1:] for c, w in first.items()):
        return source
    is_listed = spread.pays(set(first.values()), known, meta.promises_device(todo.x._meta))
    make = handles.plan if is_trial else partial(handles.make, offered=offered)
    made = [
        h if h is not None and h.places == first else make(layer, deal, first, client, is_listed)
        for h, layer, deal in zip(held, layers, deals, strict=True)
    ]
    return OnHandles(todo, made, known, is_trial)


def _fit(todo: Reduction, first: dict[Coords, str], known: workers.Workers) -> bool:
    """True where handles are worth their tasks, and the workers hold their chunks with ease: a handle keeps them from
    going to a disk. ``first`` is each chunk's worker."""
    share = Counter(first.values())
    if len(first) < 2 * len(share) or known.crowded & share.keys():
        return False
    each = 0 if math.isnan(todo.chunk_bytes) else todo.chunk_bytes
    if meta.promises_device(todo.x._meta):
        return True
    return all(n * each <= known.memory.get(w, math.inf) * workers.HALF_FULL for w, n in share.items())


def slices_of(numblocks: tuple[int, ...], stage: Axes) -> dict[Coords, list[Coords]]:
    """The chunks of each slice, in C order; slices by coordinates that are 0 along the stage's axes."""
    every = product(*map(range, numblocks))
    outers = product(*([0] * n if a in stage else range(n) for a, n in enumerate(numblocks)))
    found: dict[Coords, list[Coords]] = {}
    for outer, coords in zip(outers, every, strict=True):
        found.setdefault(outer, []).append(coords)
    return found


def bundles(source: Source, slices: list[tuple[Coords, list[Part]]], stage: Axes) -> list[list[Part]]:
    """Groups of many slices that one task takes on, a task a thread of each worker; none where their partials are
    too large to go together to all that need one of them."""
    todo = source.todo
    mine: dict[str | None, list[Part]] = {}
    for _, parts in slices:
        for part in parts:
            mine.setdefault(part.worker, []).append(part)
    kept = [sizes for a, sizes in enumerate(todo.x.chunks) if a not in stage]
    nbytes = sum(math.prod(sizes) for sizes in product(*kept)) * todo.bound.cell_bytes
    if len(slices) == 1 or todo.size or not nbytes <= BUNDLE_BYTES:
        return []
    found = []
    for worker, parts in mine.items():
        threads = source.known.total if worker is None else source.known.threads.get(worker, 1)
        chunks = todo.x.npartitions * len(parts) // sum(len(each) for each in mine.values())
        each = groups.in_memory(max(chunks, 1), 1, threads, todo.chunk_bytes)
        count = min(len(parts), -(-max(chunks, 1) // each))
        found += [[parts[i] for i in g.members] for g in groups.in_order(len(parts), -(-len(parts) // count))]
    return found


def task_of_all(parts: list[Part], key: Any) -> Task:
    """The task of several groups, which gives a list of their partials."""
    return Task(key, list, List(*(part.task() for part in parts)))


class InMemory:
    """Chunks in memory that a group's task depends on one by one; by worker where holders are known."""

    def __init__(self, todo: Reduction, holders: dict[Coords, tuple[str, ...]] | None, known: workers.Workers) -> None:
        self.todo, self.holders, self.known = todo, holders, known
        self.dependencies: list[Any] = list(todo.arrays)
        self.futures: list[Any] = []
        self.mark: Any = None if holders is None else sorted(holders.items())

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        found = slices_of(self.todo.x.numblocks, stage)
        for outer, members in found.items():
            yield outer, [self._part(stage, members, g) for g in self._deal(members, len(found))]

    def spread(self, parts: list[Part], nbytes: float) -> Spread | None:
        return None

    def _deal(self, members: list[Coords], slices: int) -> list[groups.Group]:
        todo, known = self.todo, self.known
        if todo.size:
            known = workers.Workers(dict.fromkeys(known.threads, 1), known.memory)
        if self.holders is None:
            size = todo.size or groups.in_memory(len(members), slices, known.total, todo.chunk_bytes)
            return groups.in_order(len(members), size)
        held = [self.holders[c] for c in members]
        dealt = groups.by_worker(held, known.threads, slices, todo.chunk_bytes, known.memory)
        return groups.smaller(dealt, todo.size) if todo.size else dealt

    def _part(self, stage: Axes, members: list[Coords], group: groups.Group) -> Part:
        todo, mine = self.todo, [members[i] for i in group.members]
        keys = [[(a.name, *c) for c in mine] for a in todo.arrays]
        columns = List(*(List(*map(TaskRef, column)) for column in keys))
        run = partial(
            grouped.reduce_chunks,
            bound=todo.bound,
            offsets=[self._offsets[c] for c in mine] if todo.shape else [()] * len(mine),
            where=todo.where(stage, group.members),
            keys=keys[0],
        )
        return Part(run, columns, group.worker, len(mine))

    @cached_property
    def _offsets(self) -> dict[Coords, Coords]:
        sizes = place_chunks(self.todo.bound.name, self.todo.x.chunks, self.todo.axes)
        starts = [list(accumulate(s, initial=0)) for s in sizes]
        return {c: tuple(starts[a][i] for a, i in enumerate(c)) for c in product(*(range(len(s)) for s in sizes))}


class OnHandles:
    """Chunks on the workers of a cluster, by handle: a graph whose size does not grow with the number of chunks."""

    def __init__(self, todo: Reduction, held: list[Held], known: workers.Workers, is_trial: bool) -> None:
        self.todo, self.held, self.known, self.is_trial = todo, held, known, is_trial
        self.dependencies: list[Any] = []
        self.mark = [sorted(h.names.values()) for h in held]
        self.is_listed = False

    @property
    def futures(self) -> list[Any]:
        if not (self.is_listed or self.is_trial):
            for held in self.held:
                held.each(self.known.client)
        return [MaterializedLayer(h.futures) for h in self.held]

    def spread(self, parts: list[Part], nbytes: float) -> Spread | None:
        """What one task runs on each worker, and on what, where it asks them for partials of so few bytes."""
        if nbytes <= spread.MOST_BYTES and all(
            h.roster and [*h.names] == [part.worker for part in parts] for h in self.held
        ):
            client = None if self.is_trial else self.known.client
            self.is_listed = True
            return Spread([h.every(client) for h in self.held], [part.run for part in parts])
        return None

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        layouts = self.held[0].layouts
        at = (stage, self.todo.size, self.todo.chunk_bytes)
        if at not in layouts:
            layouts[at] = list(self._deal(stage))
        for outer, dealt in layouts[at]:
            yield outer, [self._part(stage, *each) for each in dealt]

    def _deal(self, stage: Axes) -> Iterator[tuple[Coords, list[tuple[groups.Group, Any]]]]:
        """Groups of each slice, and the numbers of their chunks in the handle."""
        numblocks, held, threads, nbytes = (
            self.todo.x.numblocks,
            self.held[0],
            self.known.threads,
            self.todo.chunk_bytes,
        )
        if len(stage) == len(numblocks) and not self.todo.size:  # a slice of all that each handle has
            yield (
                (0,) * len(stage),
                [
                    (groups.Group(groups.as_range(hold.numbers[part.start : part.stop]), worker), part)
                    for worker, hold in held.holds.items()
                    for part in groups.shares(len(hold.numbers), threads.get(worker, 1), nbytes)
                ],
            )
            return
        slices = slices_of(numblocks, stage)
        for outer, members in slices.items():
            dealt = groups.by_worker([(held.places[c],) for c in members], threads, len(slices), nbytes, {})
            if self.todo.size:
                dealt = groups.smaller(dealt, self.todo.size)
            yield outer, [(g, groups.as_range([held.numbers[members[i]] for i in g.members])) for g in dealt]

    def _part(self, stage: Axes, group: groups.Group, picks: Any) -> Part:
        todo = self.todo
        refs = List(*(TaskRef(h.names[str(group.worker)]) for h in self.held))
        run = partial(grouped.reduce_held, picks=picks, bound=todo.bound, where=todo.where(stage, group.members))
        return Part(run, refs, group.worker, len(picks))
