"""Where the chunks of a reduction are, and which of them one task reduces: a group.

A source parts the chunks of each slice into groups, and says what the task of each runs: on chunks in memory, by
handles on the workers of a cluster or one by one, and on chunks that have yet to be made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, product
from operator import getitem
from types import MappingProxyType
from typing import Any

import numpy as np
from dask.highlevelgraph import MaterializedLayer

from .. import planner
from ..chunk import is_device
from ..distributed import handles, workers
from ..distributed.handles import Coords, HandleSet
from ..distributed.private import List, Task, TaskRef
from ..operators.monoid import Bound
from ..operators.table import OPERATORS
from ..place import place_chunks
from . import deferred, meta, reduce_tasks
from .arguments import Axes, Chunks
from .layers import GroupNode, PlacedGroupNode

# Whose functions take about as long as it takes to read their chunks. One of others may take minutes.
KNOWN_PACKAGES = {"numpy", "cupy", "dask", "operator", "_operator", "builtins", "gpureduce_dask"}


@dataclass(frozen=True, eq=False)
class GroupTask:
    """One group: what its task runs, on what, and on which worker as far as that is known."""

    run: Callable[..., Any]
    takes: tuple[list[Any], ...]
    worker: str | None
    chunks: int
    kind: type[Task] = Task

    def node(self) -> Task:
        """The group's task, for another one to run."""
        return Task(None, self.run, *self.lists)

    @property
    def lists(self) -> Iterator[List]:
        """What the task takes, as nodes of a graph."""
        return (List(*each) for each in self.takes)


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
    def order(self) -> list[Axes]:
        """The sets of axes that are reduced one after another."""
        return planner.stages(self.bound.monoid.commutative, self.x.numblocks, self.axes)

    def counts(self, stage: Axes) -> tuple[int, int]:
        """How many chunks a slice has, and how many slices there are."""
        chunks = math.prod(self.x.numblocks[a] for a in stage)
        return chunks, math.prod(n for a, n in enumerate(self.x.numblocks) if a not in stage)

    @cached_property
    def chunk_bytes(self) -> float:
        """Bytes of the largest chunk, of all arrays together."""
        largest = math.prod(max(sizes, default=0) for sizes in self.x.chunks)
        return float(largest * sum(a.dtype.itemsize for a in self.arrays))

    @cached_property
    def partial_bytes(self) -> float:
        """Bytes of the largest partial of host chunks. GPUs make theirs too fast for more tasks to be worth it."""
        if meta.promises_device(self.x._meta):
            return math.inf
        return planner.bytes_of_largest(self.x.chunks, self.axes, self.bound.cell_bytes)

    @cached_property
    def sizes(self) -> tuple[tuple[int, ...], ...] | None:
        """Sizes of chunks along the reduced axes and 0 along others, where positions matter."""
        is_needed = self.bound.indexed and any(self.x.numblocks[a] > 1 for a in self.axes)
        return place_chunks(self.bound.name, self.x.chunks, self.axes) if is_needed else None

    @cached_property
    def shape(self) -> tuple[int, ...] | None:
        """The array's shape along the reduced axes and 0 along others, where positions matter."""
        return None if self.sizes is None else tuple(map(sum, self.sizes))

    def offsets_of(self, chunks: Sequence[Coords]) -> list[Coords]:
        """The coordinates of the first elements of chunks, where positions matter."""
        if not self.sizes:
            return [()] * len(chunks)
        starts = [[*accumulate(each, initial=0)] for each in self.sizes]
        return [tuple(map(getitem, starts, c)) for c in chunks]

    def layout_of(self, stage: Axes, members: Any) -> reduce_tasks.GroupLayout:
        runs = None if self.bound.monoid.commutative else tuple((r.start, len(r)) for r in planner.runs(members))
        return reduce_tasks.GroupLayout(stage, self.shape, runs)


def partials_travel(reduction: Reduction, stage: Axes, homes: int) -> bool:
    """True where each of so many workers may take the partials of all slices from every other. Those of slices of one
    chunk each are finished where they are, or go to one worker."""
    is_whole = reduction.counts(stage)[0] == 1
    kept = [sizes for a, sizes in enumerate(reduction.x.chunks) if a not in stage]
    nbytes = sum(math.prod(sizes) for sizes in product(*kept)) * reduction.bound.cell_bytes
    return planner.travel(nbytes, homes, is_whole)


def bundles(source: Source, slices: list[tuple[Coords, list[GroupTask]]], stage: Axes) -> list[list[GroupTask]]:
    """Groups of many slices that one task takes on, a task a thread of each worker; none where their partials are
    too large to go together to all that need one of them."""
    reduction = source.reduction
    mine = by_worker([group for _, groups in slices for group in groups])
    homes = max(1, len(source.known.threads)) if None in mine else len(mine)
    if len(slices) == 1 or reduction.size or not partials_travel(reduction, stage, homes):
        return []
    found = []
    for worker, groups in mine.items():
        threads = source.known.total if worker is None else source.known.threads.get(worker, 1)
        chunks = reduction.x.npartitions * len(groups) // sum(len(each) for each in mine.values())
        each = planner.in_memory(max(chunks, 1), 1, threads, reduction.chunk_bytes, source.least_bytes)
        count = min(len(groups), -(-max(chunks, 1) // each))
        found += [[groups[i] for i in g.members] for g in planner.even_stretches(len(groups), -(-len(groups) // count))]
    return found


def by_worker(groups: list[GroupTask]) -> dict[str | None, list[GroupTask]]:
    """Groups of each worker, in order."""
    found: dict[str | None, list[GroupTask]] = {}
    for group in groups:
        found.setdefault(group.worker, []).append(group)
    return found


def exchanges(source: Source, slices: list[tuple[Coords, list[GroupTask]]], stage: Axes) -> list[Sequence[int]]:
    """Slices in sets, where every worker has chunks of each slice: it makes the partials of a set's slices in one task,
    and one task completes them. So each partial goes to one worker, as large ones should."""
    reduction = source.reduction
    homes = {group.worker for _, groups in slices for group in groups}
    is_lazy = isinstance(source, LazySource)  # as one whose groups are large, and are folded a few at a time
    if is_lazy or source.memory or reduction.size or None in homes or not reduction.bound.monoid.commutative:
        return []
    if any(len({group.worker for group in groups}) < len(homes) for _, groups in slices):
        return []
    largest = planner.bytes_of_largest(reduction.x.chunks, stage, reduction.bound.cell_bytes)
    return planner.sets_of_slices(len(slices), source.known.total, len(homes), largest)


def join_groups(groups: list[GroupTask]) -> GroupTask:
    """Groups of several slices as one, which gives a list of their partials."""
    first, chunks = groups[0], [group.chunks for group in groups]
    if all(group.takes == first.takes for group in groups):  # as those of handles, which tell their chunks by number
        run = partial(reduce_tasks.run_each, runs=[group.run for group in groups])
        return GroupTask(run, first.takes, first.worker, sum(chunks))
    if first.kind is Task:
        return GroupTask(list, ([group.node() for group in groups],), first.worker, sum(chunks))
    run = partial(reduce_tasks.each_slice, run=first.run, sizes=chunks)
    refs = [ref for group in groups for ref in group.takes[0]]
    return GroupTask(run, (refs,), first.worker, sum(chunks), PlacedGroupNode)


class Source:
    """The chunks of a reduction in groups: by the workers that hold them where these are known, else in order.
    ``holders`` has the workers of each chunk, and ``memory`` bounds the bytes of a task's chunks on some of them."""

    least_bytes: float = planner.MIN_READ_BYTES  # of a group, where its worker has more threads
    mark: Any  # tells one partition from another, in keys
    size = 0  # chunks of a group at most, where nobody knows how long they take to make; 0 where that is known
    holders: handles.Holders | None = None
    memory: Mapping[str, float] = MappingProxyType({})

    def __init__(self, reduction: Reduction, known: workers.Workers) -> None:
        self.reduction, self.known = reduction, known
        self.dependencies = list(reduction.arrays)  # collections that groups depend on

    @property
    def futures(self) -> list[Any]:
        """Layers that they depend on."""
        return []

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[GroupTask]]]:
        """The groups of each slice, in order; slices by their coordinates, which are 0 along the stage's axes."""
        found = planner.slices_of(self.reduction.x.numblocks, stage)
        for outer, members in found.items():
            yield outer, [self._group_task(stage, members, g) for g in self.partition(members, len(found))]

    def partition(self, members: Sequence[Coords], slices: int) -> list[planner.Group]:
        """The groups of one of so many slices, whose chunks these are in order."""
        reduction = self.reduction
        size = reduction.size or self.size
        if self.holders is None:
            size = size or planner.in_memory(len(members), slices, self.known.total, reduction.chunk_bytes)
            return planner.fixed_stretches(len(members), size)
        homes = [self.holders[c] for c in members]
        threads = dict.fromkeys(self.known.threads, 1) if reduction.size else self.known.threads
        groups = planner.by_worker(homes, threads, slices, reduction.chunk_bytes, self.memory, self.least_bytes)
        return planner.smaller(groups, size) if size else groups

    def slices_per_task(self, stage: Axes) -> int:
        """How many slices one task may make, one after another, where it makes all chunks of each."""
        return 1

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        """The group of some chunks of a slice, which are ``members``."""
        raise NotImplementedError


class PersistedSource(Source):
    """Chunks in memory, by the futures of each."""

    def __init__(self, reduction: Reduction, homes: list[tuple[str, ...]] | None, known: workers.Workers) -> None:
        """``homes`` are the workers that hold each chunk, in C order."""
        super().__init__(reduction, known)
        self.mark, self.memory = homes, known.memory
        self.holders = None if homes is None else handles.by_coords(reduction.x.numblocks, homes)

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        reduction, mine = self.reduction, [members[i] for i in group.members]
        keys = [[(a.name, *c) for c in mine] for a in reduction.arrays]
        columns, layout = [List(*map(TaskRef, column)) for column in keys], reduction.layout_of(stage, group.members)
        options: dict[str, Any] = {"bound": reduction.bound, "offsets": reduction.offsets_of(mine), "layout": layout}
        run = partial(reduce_tasks.reduce_chunks, keys=keys[0], **options)
        return GroupTask(run, (columns,), group.worker, len(mine))


class LazySource(Source):
    """Chunks that have yet to be made, by the tasks that reduce each of them: groups take these in when the graph is
    optimised. Those of a monoid that does not commute stay in a row."""

    least_bytes = 0

    def __init__(self, reduction: Reduction) -> None:
        found = handles.origins(reduction.x) if reduction.bound.monoid.commutative else None
        self.holders, known = (None, workers.current()) if found is None else found
        super().__init__(reduction, known)
        if self.holders is None or any(map(_is_made_by_others, reduction.arrays)):
            nbytes = reduction.chunk_bytes, reduction.partial_bytes
            self.size = planner.to_make(*reduction.counts(reduction.order[0]), known.total, *nbytes)
            if workers.are_processes():
                self.size = planner.by_processes(self.size)
        self.mark = reduction.size or self.size
        if self.holders is not None:
            self.mark = reduction.size or self.size, sorted(known.threads.items()), [*self.holders.values()]

    def takes(self, partials: Any) -> None:
        """The array of the partials of each chunk is what groups fold."""
        self.dependencies = [partials]

    def slices_per_task(self, stage: Axes) -> int:
        reduction = self.reduction
        chunks, slices = reduction.counts(stage)
        if self.holders is not None or reduction.size or self.size < chunks or workers.are_processes():
            return 1
        results = planner.bytes_of_largest(reduction.x.chunks, stage, reduction.bound.cell_bytes)
        nbytes = reduction.chunk_bytes, reduction.partial_bytes, results
        return planner.slices_per_task(chunks, slices, self.known.total, *nbytes)

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        name = self.dependencies[0].name
        refs = [TaskRef((name, *members[i])) for i in group.members]
        kind = GroupNode if self.holders is None else PlacedGroupNode
        run = partial(reduce_tasks.combine, bound=self.reduction.bound)
        return GroupTask(run, (refs,), group.worker, len(group.members), kind)


class HandleSource(Source):
    """The chunks of arrays that have handles on the same workers. ``layers`` are the chunks' own, of futures. A dry run
    makes no handles."""

    def __init__(
        self,
        reduction: Reduction,
        handle_sets: list[HandleSet],
        layers: list[Any],
        known: workers.Workers,
        dry_run: bool,
    ) -> None:
        super().__init__(reduction, known)
        self.handle_sets, self.layers, self.dry_run = handle_sets, layers, dry_run
        self.mark, self.holders = [sorted(h.keys.values()) for h in handle_sets], handle_sets[0].holders
        self.dependencies = []

    @property
    def futures(self) -> list[Any]:
        if self.dry_run:
            return [MaterializedLayer({}) for _ in self.handle_sets]
        client, pairs = self.known.client, zip(self.handle_sets, self.layers, strict=True)
        return [handles.HandleLayer(handle_set, layer, client) for handle_set, layer in pairs]

    @property
    def to_make(self) -> int:
        """How many handles are made before the reduction runs."""
        return sum(h.to_make for h in self.handle_sets)

    def refs(self, worker: str) -> tuple[list[Any], list[Any]]:
        """A worker's handles, and chunks that keep their task there."""
        keys, anchors = [h.keys[worker] for h in self.handle_sets], [h.anchors[worker] for h in self.handle_sets]
        return [*map(TaskRef, keys)], [*map(TaskRef, anchors)]

    def _group_task(self, stage: Axes, members: Sequence[Coords], group: planner.Group) -> GroupTask:
        reduction, numbers = self.reduction, self.handle_sets[0].numbers
        picks = planner.as_range([numbers[members[i]] for i in group.members])
        layout = reduction.layout_of(stage, group.members)
        run = partial(reduce_tasks.reduce_handles, picks=picks, bound=reduction.bound, layout=layout)
        return GroupTask(run, self.refs(str(group.worker)), group.worker, len(group.members))


def _is_made_by_others(x: Any) -> bool:
    """True where functions of no package that is known make a chunk: nobody knows how long they take."""
    graph = x.dask.cull({(x.name, *(0,) * x.ndim)}).to_dict() if all(x.numblocks) else {}
    tasks = [node for node in graph.values() if isinstance(node, Task)]
    values = [getattr(value, "value", value) for node in tasks for value in (*node.args, *node.kwargs.values())]
    for function in (*map(deferred.function_of, tasks), *filter(callable, values)):
        while isinstance(function, partial):
            function = function.func
        module = getattr(function, "__module__", None) or "numpy"  # whose ufuncs had none
        if str(module).partition(".")[0] not in KNOWN_PACKAGES:
            return True
    return False


def select_source(reduction: Reduction, dry_run: bool = False) -> HandleSource | PersistedSource | None:
    """The source of chunks that are all in memory, or None. A dry run makes no handles on workers."""
    arrays = reduction.arrays
    if any(a.numblocks != reduction.x.numblocks or len(a.dask.layers) > 1 for a in arrays):
        return None
    layers = [a.dask.layers.get(a.name) for a in arrays]
    chunks: list[Mapping[Any, Any]] = [getattr(layer, "mapping", {}) for layer in layers]
    if any(not mine or len(mine) != a.npartitions for mine, a in zip(chunks, arrays, strict=True)):
        return None
    first = [next(iter(mine.values())) for mine in chunks]
    if not all(map(workers.is_future, first)):
        is_here = all(isinstance(each, np.ndarray) or is_device(each) for mine in chunks for each in mine.values())
        return PersistedSource(reduction, None, workers.current()) if is_here else None
    if first[0].client is None:
        return None
    named = [(a.name, a.chunks, layer) for a, layer in zip(arrays, layers, strict=True)]
    found, holders, known = find_handles(reduction, named, first[0].client, reduction.shape is not None)
    if found:
        return HandleSource(reduction, found, layers, known, dry_run)
    if holders:
        return PersistedSource(reduction, holders, known)
    for mine in chunks:
        workers.refuse_cancelled(reduction.bound.name, mine.values())
    return None


def make_handles(array: Any) -> None:
    """Wait for the chunks of a persisted array, and for handles to them."""
    futures = [v for v in getattr(array.dask.layers.get(array.name), "mapping", {}).values() if workers.is_future(v)]
    if futures:
        from distributed import wait

        wait(futures)
        bound = OPERATORS["count_nonzero"].bind(bool)
        found = select_source(Reduction((array,), bound, tuple(range(array.ndim)), None))
        _ = found and found.futures  # asking for the handles' futures makes the handles


def find_handles(
    reduction: Reduction, arrays: list[tuple[str, Chunks, Any]], client: Any, is_placed: bool
) -> tuple[list[HandleSet], list[tuple[str, ...]], workers.Workers]:
    """Handles of arrays of these names, chunks and layers of futures on the same workers; none where they are not worth
    it: then the workers that hold each chunk, as far as that is known. With ``is_placed`` handles know where in the
    array the chunks lie."""
    there = [handles.find_handles(layer, client) for _, _, layer in arrays]
    good = [h for h in there if h is not None and (h.is_placed or not is_placed)]
    if len(good) == len(arrays) and all(h.homes == good[0].homes for h in good):
        return good, [], workers.of_client(client)
    asked = [(name, tuple(map(len, chunks)), layer.mapping) for name, chunks, layer in arrays]
    known, found, nbytes = workers.survey(client, asked)
    if not found:
        return [], [], known
    homes = handles.homes_of(arrays[0][2], found[0])
    apart = any(home not in each for holders in found[1:] for home, each in zip(homes, holders, strict=True))
    if apart or not fit(reduction, homes, known, nbytes):
        return [], found[0], known
    return [handles.keep_handles(layer, n, c, homes, known, is_placed) for n, c, layer in arrays], found[0], known


def fit(reduction: Reduction, homes: list[str], known: workers.Workers, nbytes: int) -> bool:
    """True where handles are worth their tasks, and the workers hold their chunks with ease: a handle keeps them from
    going to a disk. ``homes`` has each chunk's worker, and ``nbytes`` bounds what each takes."""
    share = Counter(homes)
    if len(homes) < 2 * len(share) or known.crowded & share.keys():
        return False
    if meta.promises_device(reduction.x._meta):
        return True
    return all(n * nbytes <= known.memory.get(w, math.inf) * workers.HALF_FULL for w, n in share.items())
