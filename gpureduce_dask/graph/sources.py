"""What is known of the chunks of a reduction, and how they are dealt out: a group is what one task reduces.

Chunks in memory have a source, which deals those of a slice to groups and writes the task of each: by handles on the
workers of a cluster, or one by one. Chunks that have yet to be made are dealt by a partitioner.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, product
from typing import Any, Protocol

import numpy as np
from dask.highlevelgraph import MaterializedLayer

from .. import planner
from ..chunk import is_device
from ..distributed import handles, workers
from ..distributed.handles import Coords, HandleSet, origins
from ..distributed.private import GraphNode, List, Task, TaskRef
from ..operators.monoid import Bound
from . import meta, reduce_tasks
from .axes import Axes, needs_places, place_chunks, stages

TAKEN_BYTES = 2**24  # that a worker takes from all others of the partials that one task gives for all slices,
BUNDLE_BYTES = 256 * 1024  # and what one such task may give however many workers there are


@dataclass(frozen=True, eq=False)
class Part:
    """One group: what its task runs, on what, and on which worker as far as that is known."""

    run: Callable[..., Any]
    takes: tuple[GraphNode, ...]
    worker: str | None
    chunks: int

    def task(self, key: Any = None) -> Task:
        """The group's task; without a key it is for another task to run."""
        return Task(key, self.run, *self.takes)


class Source(Protocol):
    """Chunks in memory, dealt to groups."""

    todo: Reduction
    known: workers.Workers
    mark: Any  # tells one way of dealing from another, in keys
    dependencies: list[Any]  # collections that groups depend on

    @property
    def futures(self) -> list[Any]:
        """Layers that they depend on."""

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

    def offsets_of(self, chunks: Sequence[Coords]) -> list[Coords]:
        """The coordinates of the first elements of chunks, where positions matter."""
        return [self._offsets[c] for c in chunks] if self.shape else [()] * len(chunks)

    @cached_property
    def _offsets(self) -> dict[Coords, Coords]:
        sizes = place_chunks(self.bound.name, self.x.chunks, self.axes)
        starts = [list(accumulate(s, initial=0)) for s in sizes]
        return {c: tuple(starts[a][i] for a, i in enumerate(c)) for c in product(*(range(len(s)) for s in sizes))}

    def where(self, stage: Axes, members: Any) -> reduce_tasks.Where:
        return reduce_tasks.Where(stage, self.shape, reduce_tasks.runs_of(self.bound, members))


def slices_of(numblocks: tuple[int, ...], stage: Axes) -> dict[Coords, list[Coords]]:
    """The chunks of each slice, in C order; slices by coordinates that are 0 along the stage's axes."""
    every = product(*map(range, numblocks))
    outers = product(*([0] * n if a in stage else range(n) for a, n in enumerate(numblocks)))
    found: dict[Coords, list[Coords]] = {}
    for outer, coords in zip(outers, every, strict=True):
        found.setdefault(outer, []).append(coords)
    return found


def partials_travel(todo: Reduction, stage: Axes, homes: int) -> bool:
    """True where each of so many workers may take the partials of all slices from every other. Those of slices of one
    chunk each are finished where they are, or go to one worker."""
    is_whole = all(n == 1 for a, n in enumerate(todo.x.numblocks) if a in stage)
    kept = [sizes for a, sizes in enumerate(todo.x.chunks) if a not in stage]
    nbytes = sum(math.prod(sizes) for sizes in product(*kept)) * todo.bound.cell_bytes
    return bool(nbytes <= (TAKEN_BYTES if is_whole else max(BUNDLE_BYTES, TAKEN_BYTES // homes)))


def bundles(source: Source, slices: list[tuple[Coords, list[Part]]], stage: Axes) -> list[list[Part]]:
    """Groups of many slices that one task takes on, a task a thread of each worker; none where their partials are
    too large to go together to all that need one of them."""
    todo = source.todo
    mine: dict[str | None, list[Part]] = {}
    for _, parts in slices:
        for part in parts:
            mine.setdefault(part.worker, []).append(part)
    homes = max(1, len(source.known.threads)) if None in mine else len(mine)
    if len(slices) == 1 or todo.size or not partials_travel(todo, stage, homes):
        return []
    found = []
    for worker, parts in mine.items():
        threads = source.known.total if worker is None else source.known.threads.get(worker, 1)
        chunks = todo.x.npartitions * len(parts) // sum(len(each) for each in mine.values())
        each = planner.in_memory(max(chunks, 1), 1, threads, todo.chunk_bytes)
        count = min(len(parts), -(-max(chunks, 1) // each))
        found += [[parts[i] for i in g.members] for g in planner.in_order(len(parts), -(-len(parts) // count))]
    return found


def task_of_all(parts: list[Part], key: Any) -> Task:
    """The task of several groups, which gives a list of their partials."""
    return Task(key, list, List(*(part.task() for part in parts)))


class PersistedSource:
    """By worker where holders are known."""

    def __init__(self, todo: Reduction, held: list[tuple[str, ...]] | None, known: workers.Workers) -> None:
        """``held`` are the workers that hold each chunk, in C order."""
        self.todo, self.known, self.mark = todo, known, held
        self.dependencies: list[Any] = list(todo.arrays)
        self.futures: list[Any] = []
        self.holders = None if held is None else handles.by_coords(todo.x.numblocks, held)

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        found = slices_of(self.todo.x.numblocks, stage)
        for outer, members in found.items():
            yield outer, [self._part(stage, members, g) for g in self.deal(members, len(found))]

    def deal(self, members: Sequence[Coords], slices: int) -> list[planner.Group]:
        """The groups of one of so many slices, whose chunks these are in order."""
        todo, known = self.todo, self.known
        if todo.size:
            known = workers.Workers(dict.fromkeys(known.threads, 1), known.memory)
        if self.holders is None:
            size = todo.size or planner.in_memory(len(members), slices, known.total, todo.chunk_bytes)
            return planner.in_order(len(members), size)
        held = [self.holders[c] for c in members]
        dealt = planner.by_worker(held, known.threads, slices, todo.chunk_bytes, known.memory)
        return planner.smaller(dealt, todo.size) if todo.size else dealt

    def _part(self, stage: Axes, members: list[Coords], group: planner.Group) -> Part:
        todo, mine = self.todo, [members[i] for i in group.members]
        keys = [[(a.name, *c) for c in mine] for a in todo.arrays]
        columns = List(*(List(*map(TaskRef, column)) for column in keys))
        run = partial(
            reduce_tasks.reduce_chunks,
            bound=todo.bound,
            offsets=todo.offsets_of(mine),
            where=todo.where(stage, group.members),
            keys=keys[0],
        )
        return Part(run, (columns,), group.worker, len(mine))


class HandleSource:
    """The chunks of arrays that have handles on the same workers. ``layers`` are the chunks' own, of futures. A dry run
    makes no handles."""

    def __init__(
        self, todo: Reduction, held: list[HandleSet], layers: list[Any], known: workers.Workers, dry_run: bool
    ) -> None:
        self.todo, self.held, self.layers, self.known, self.dry_run = todo, held, layers, known, dry_run
        self.dependencies: list[Any] = []
        self.mark = [sorted(h.keys.values()) for h in held]

    @property
    def futures(self) -> list[Any]:
        if self.dry_run:
            return [MaterializedLayer({}) for _ in self.held]
        client, pairs = self.known.client, zip(self.held, self.layers, strict=True)
        return [handles.HandleLayer(held, layer, client) for held, layer in pairs]

    @property
    def to_make(self) -> int:
        """How many handles are made before the reduction runs."""
        return sum(h.to_make for h in self.held)

    def refs(self, worker: str) -> tuple[List, List]:
        """A worker's handles, and chunks that keep their task there."""
        keys, anchors = [h.keys[worker] for h in self.held], [h.anchors[worker] for h in self.held]
        return List(*map(TaskRef, keys)), List(*map(TaskRef, anchors))

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        layouts = self.held[0].layouts
        at = (stage, self.todo.size, str(self.todo.chunk_bytes))  # as text: no NaN is the same as another
        if at not in layouts:
            layouts[at] = list(self._deal(stage))
        for outer, dealt in layouts[at]:
            yield outer, [self._part(stage, *each) for each in dealt]

    def _deal(self, stage: Axes) -> Iterator[tuple[Coords, list[tuple[planner.Group, Any]]]]:
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
                    (planner.Group(planner.as_range(share.numbers[part.start : part.stop]), worker), part)
                    for worker, share in held.shares.items()
                    for part in planner.shares(len(share.numbers), threads.get(worker, 1), nbytes)
                ],
            )
            return
        slices = slices_of(numblocks, stage)
        for outer, members in slices.items():
            dealt = planner.by_worker([(held.places[c],) for c in members], threads, len(slices), nbytes, {})
            if self.todo.size:
                dealt = planner.smaller(dealt, self.todo.size)
            yield outer, [(g, planner.as_range([held.numbers[members[i]] for i in g.members])) for g in dealt]

    def _part(self, stage: Axes, group: planner.Group, picks: Any) -> Part:
        todo = self.todo
        run = partial(reduce_tasks.reduce_held, picks=picks, bound=todo.bound, where=todo.where(stage, group.members))
        return Part(run, self.refs(str(group.worker)), group.worker, len(picks))


def select_source(todo: Reduction, dry_run: bool = False) -> HandleSource | PersistedSource | None:
    """The source of chunks that are all in memory, or None. A dry run makes no handles on workers."""
    if any(a.numblocks != todo.x.numblocks for a in todo.arrays):
        return None
    layers = [a.dask.layers.get(a.name) for a in todo.arrays]
    values = [_values(layer, a) for layer, a in zip(layers, todo.arrays, strict=True)]
    if any(v is None for v in values):
        return None
    first = [next(iter(v.values()), None) for v in values]
    if all(workers.is_future(v) for v in first):
        return _on_workers(todo, layers, dry_run)
    if all(_is_array(chunk) for v in values for chunk in v.values()):
        return PersistedSource(todo, None, workers.current())
    return None


def _values(layer: Any, array: Any) -> Any:
    """A layer's dictionary where it has the array's chunks and nothing else."""
    mapping = getattr(layer, "mapping", None)
    whole = mapping is not None and len(mapping) == array.npartitions > 0
    return mapping if whole and len(array.dask.layers) == 1 else None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_device(value)


def _on_workers(todo: Reduction, layers: list[Any], dry_run: bool) -> HandleSource | PersistedSource | None:
    client = next(iter(layers[0].mapping.values())).client
    if client is None:
        return None
    held = [handles.find_handles(layer, client) for layer in layers]
    held = [h if h is None or h.is_placed or todo.shape is None else None for h in held]
    good = [h for h in held if h is not None]
    if len(good) == len(held) and all(h.homes == good[0].homes for h in good[1:]):
        known = workers.of_client(client)
    else:
        arrays = [(a.name, a.numblocks, layer) for a, layer in zip(todo.arrays, layers, strict=True)]
        known, found = handles.survey(client, arrays)
        if not found:
            for layer in layers:
                workers.refuse_cancelled(todo.bound.name, layer.mapping.values())
            return None
        homes = handles.homes_of(layers[0], found[0])
        apart = any(home not in each for holders in found[1:] for home, each in zip(homes, holders, strict=True))
        if apart or not fit(todo, homes, known):
            return PersistedSource(todo, found[0], known)
        is_placed = todo.shape is not None
        good = [
            handles.keep_handles(layer, a.name, a.chunks, homes, known, is_placed)
            for a, layer in zip(todo.arrays, layers, strict=True)
        ]
    return HandleSource(todo, good, layers, known, dry_run)


def fit(todo: Reduction, homes: list[str], known: workers.Workers) -> bool:
    """True where handles are worth their tasks, and the workers hold their chunks with ease: a handle keeps them from
    going to a disk. ``homes`` has each chunk's worker."""
    share = Counter(homes)
    if len(homes) < 2 * len(share) or known.crowded & share.keys():
        return False
    each = 0 if math.isnan(todo.chunk_bytes) else todo.chunk_bytes
    if meta.promises_device(todo.x._meta):
        return True
    return all(n * each <= known.memory.get(w, math.inf) * workers.HALF_FULL for w, n in share.items())


@dataclass(frozen=True)
class Partitioner:
    """So many chunks in a row, or by the workers that hold what they are made of. Its text tells one from another."""

    size: int | None
    slices: int
    chunk_bytes: float
    threads: Mapping[str, int] = field(default_factory=dict)
    holders: Mapping[Coords, tuple[str, ...]] = field(default_factory=dict)

    def groups(self, members: Sequence[Coords]) -> list[planner.Group]:
        """The groups of one slice, whose chunks these are in order."""
        if not self.holders:
            return planner.in_order(len(members), self.size or 1)
        held = [self.holders[c] for c in members]
        dealt = planner.by_worker(held, self.threads, self.slices, self.chunk_bytes, {}, least=0)
        return planner.smaller(dealt, self.size) if self.size else dealt


def partitioner(todo: Reduction) -> Partitioner:
    """How a reduction's chunks are dealt. Those of a monoid that does not commute stay in a row."""
    blocks, first = todo.x.numblocks, stages(todo.bound, todo.x.numblocks, todo.axes)[0]
    slices = math.prod(n for a, n in enumerate(blocks) if a not in first)
    chunks = math.prod(blocks[a] for a in first)
    found = origins(todo.x) if todo.bound.monoid.commutative else None
    holders, known = ({}, workers.current()) if found is None else found
    if holders:
        return Partitioner(todo.size, slices, todo.chunk_bytes, dict(sorted(known.threads.items())), holders)
    size = planner.to_make(chunks, slices, known.total, todo.chunk_bytes)
    if workers.are_processes():
        size = min(size, planner.BY_PROCESSES)
    return Partitioner(todo.size or size, slices, todo.chunk_bytes)
