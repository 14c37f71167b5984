"""The reduction tree: groups of chunks to partials, partials combined in order, the last to results."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, product
from typing import Any

import dask
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..distributed import private, workers
from ..distributed.handles import Coords
from ..distributed.private import GraphNode, List, Task, TaskRef
from ..operators.monoid import Bound
from ..operators.product_monoid import Product
from . import deferred, fusion, meta, reduce_tasks, sources, views
from . import graph_arrays as da
from .axes import FAN_IN, Axes, fan_in, group_size, needs_places, normalise_axes, place_chunks, refuse_empty, stages
from .fusion import Tasks
from .sources import Part, Reduction, Source, bundles, slices_of, task_of_all

Key = tuple[str | int, ...]  # a name, and where the chunk lies
# Slices of one chunk each: from so many on, and so many a thread, tasks of many of them are worth it.
MANY, MANY_A_THREAD = 32, 4
# A scheduler takes many tasks with fewer dependencies than so many, in all, for ones that read files: it holds them
# back, and sends each when another ends (dask's worker-saturation), at a round trip a task.
DEPENDENCIES = 5


def reduce_array(
    arrays: tuple[Any, ...],
    bound: Bound,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    name_prefix: str | None = None,
    group: Any = None,
) -> Any:
    """Reduce dask arrays of one chunking by a bound monoid.

    Keys start with ``gr-<name_prefix>-``, by default the monoid's name. The result has the chunk type that the
    first array's meta promises. ``group`` is how many chunks one task takes: by default what ``split_every`` says,
    or else as many as keep every thread busy.
    """
    return build_tree(arrays, bound, axis, keepdims, split_every, name_prefix, group).array


def build_tree(
    arrays: tuple[Any, ...],
    bound: Bound,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    name_prefix: str | None = None,
    group: Any = None,
    dry_run: bool = False,
) -> Tree:
    """The tree of :func:`reduce_array`; a dry run sends nothing to a cluster and is not to be computed."""
    x, name = arrays[0], name_prefix or bound.name
    axes = normalise_axes(name, axis, x.ndim)
    refuse_empty(name, bound, x.shape, axes)
    split = fan_in(name, bound, split_every, axes, x.chunks)
    is_given = split_every is not None or dask.config.get("split_every", None) is not None
    size = group_size(name, group)
    by_fan_in = size is None and is_given
    if by_fan_in:
        size = split if isinstance(split, int) else math.prod(split.values())
    fusion.install()
    todo = Reduction(arrays, bound, axes, size)
    is_whole = all(x.numblocks[a] == 1 for a in axes)
    source: Source | None = None
    if not is_whole or x.npartitions >= MANY:
        source = sources.select_source(todo, dry_run) or views.select_source(todo, dry_run)
    if source is None:
        workers.current()  # raises where a worker lacks what the tasks need
    if is_whole and (source is None or not _is_worth_sharing(source)):
        return Tree(todo, bool(keepdims), f"gr-{name}", split).one_chunk_a_slice()
    if source is not None:
        return Tree(todo, bool(keepdims), f"gr-{name}", (split, size, str(source.mark))).of_memory(source, split)
    if by_fan_in:
        return Tree(todo, bool(keepdims), f"gr-{name}", split).by_fan_in(split)
    dealer = sources.partitioner(todo)
    return Tree(todo, bool(keepdims), f"gr-{name}", (split, str(dealer))).of_chains(dealer, split)


def _is_worth_sharing(source: Source) -> bool:
    """True for slices of one chunk each where workers had better reduce all of theirs in a task a thread: whole, such
    a result then takes no task for each of its chunks."""
    todo, known = source.todo, source.known
    stage = stages(todo.bound, todo.x.numblocks, todo.axes)[0]
    is_spread = known.client is not None and todo.x.npartitions >= MANY_A_THREAD * known.total
    return is_spread and not todo.size and sources.partials_travel(todo, stage, 1)


class Tree:
    """One reduction of one graph: what all of its layers have in common."""

    def __init__(self, todo: Reduction, keepdims: bool, prefix: str, options: Any) -> None:
        self.todo, self.keepdims = todo, keepdims
        self.arrays, self.bound, self.axes = todo.arrays, todo.bound, todo.axes
        self.x = todo.x
        self.inds = tuple(range(self.x.ndim))
        self.kept = self.inds if keepdims else tuple(a for a in self.inds if a not in self.axes)
        # As text, for NaN hashes by where it lies: to take thousands of sizes one by one costs more than the reduction.
        chunks = [str(a.chunks) for a in self.arrays]
        self.how = {} if deferred.fuses() else {"fuse": False}
        token = tokenize([a.name for a in self.arrays], chunks, self.bound, self.axes, keepdims, options, *self.how)
        self.name = f"{prefix}-{token}"
        self.chunk_name = f"{prefix}-chunk-{token}"
        self.group_name = f"{prefix}-group-{token}"
        self.combine_name = f"{prefix}-combine-{token}"
        self.device = meta.promises_device(self.x._meta)
        packed = isinstance(self.bound, Product)  # its result is a partial, on either side
        ndim = len(self.kept) + len(self.bound.extra)
        self.meta = meta.like(None if packed else self.x._meta, ndim, self.bound.result)
        self.order = stages(self.bound, self.x.numblocks, self.axes)
        self.graph: dict[Any, GraphNode] = {}
        self.array: Any = None
        self.source: Source | None = None
        self.dealt: list[tuple[str | None, int]] = []  # each group's worker, where it is known, and chunks
        self.bundles = 0  # tasks that make the partials of many slices
        self.awaited: list[TaskRef] = []  # by the tasks that finish blocks

    def one_chunk_a_slice(self) -> Tree:
        """Every slice lies in one chunk: one task a chunk, in a layer that fuses with its neighbours."""
        self.dealt = [(None, 1)] * self.x.npartitions
        how = {"keepdims": self.keepdims, "device": self.device, **self.how}
        run = partial(reduce_tasks.reduce_whole, bound=self.bound, axes=self.axes, **how)
        extra = dict(enumerate(self.bound.extra, self.x.ndim))
        out = (*self.kept, *extra)
        self.array = self._blockwise(run, self.name, out, self.bound.result, self.meta, self._inputs(), extra)
        return self

    def of_memory(self, source: Source, split: int | dict[int, int]) -> Tree:
        """Chunks in memory: a task for each group of the source, then combines."""
        self.source = source
        most = split if isinstance(split, int) else math.prod(split.values())
        slices = list(source.slices(self.order[0]))
        together = self._bundles(source, slices)
        if together:
            self._send_at_once(len(slices), source.known.threads)
        level = {}
        inputs: list[Any]
        for outer, parts in slices:
            self.dealt += [(part.worker, part.chunks) for part in parts]
            if together:
                inputs = [together[part] for part in parts]
            elif len(parts) == 1:
                inputs = [parts[0].task()]
            else:
                inputs = [self._add(part.task, self.group_name) for part in parts]
            if self.bound.monoid.commutative:
                inputs = self._narrow({(i,): each for i, each in enumerate(inputs)}, (most,), Task)
            level[outer] = self._close(inputs, outer, 0, Task, not self.bound.monoid.commutative)
        return self._later_stages(level, split, source.dependencies, source.futures)

    def _bundles(self, source: Source, slices: list[tuple[Coords, list[Part]]]) -> dict[Part, GraphNode]:
        """What takes each group's partial out of a task that makes those of many slices; nothing where there is none
        such."""
        found: dict[Part, GraphNode] = {}
        for parts in bundles(source, slices, self.order[0]):
            ref = self._add(partial(task_of_all, parts), self.group_name)
            self.bundles += 1
            found.update((part, Task(None, operator.getitem, ref, i)) for i, part in enumerate(parts))
        return found

    def of_chains(self, dealer: sources.Partitioner, split: int | dict[int, int]) -> Tree:
        """Chunks that have yet to be made: a task a chunk, in groups that are made one task each when the graph is
        optimised."""
        leaves, slices = self._leaves(), slices_of(self.x.numblocks, self.order[0])
        kind = fusion.PlacedGroup if dealer.holders else fusion.Group
        refs = {outer: [TaskRef((self.chunk_name, *c)) for c in members] for outer, members in slices.items()}
        dealt = {outer: dealer.groups(members) for outer, members in slices.items()}
        together = self._placed_groups(dealer, dealt, refs, split)
        if together:
            self._send_at_once(len(slices), dealer.threads)
        level = {}
        for outer, found in dealt.items():
            self.dealt += [(g.worker, len(g.members)) for g in found]
            if together:
                inputs = together[outer]
            elif len(found) == 1:
                level[outer] = self._close(self._group(refs[outer], found[0].members, split), outer, 0, kind)
                continue
            else:
                parts = [self._group(refs[outer], g.members, split) for g in found]
                inputs = [self._combine(part, self.group_name, kind) for part in parts]
            inputs = self._narrow({(i,): each for i, each in enumerate(inputs)}, _steps(split, (0,)), Task)
            level[outer] = self._close(inputs, outer, 0, Task)
        return self._later_stages(level, split, [leaves], [])

    def _placed_groups(
        self,
        dealer: sources.Partitioner,
        dealt: Mapping[Coords, list[planner.Group]],
        refs: Mapping[Coords, list[TaskRef]],
        split: int | dict[int, int],
    ) -> dict[Coords, list[Any]]:
        """What takes each slice's partials out of tasks that make those of many slices, a task a thread of the workers
        that hold what the chunks are made of; nothing where these partials are too large to go together."""
        is_plain = dealer.holders and not dealer.size and isinstance(split, int) and split >= FAN_IN
        homes = len({group.worker for found in dealt.values() for group in found})
        if not is_plain or len(dealt) == 1 or not sources.partials_travel(self.todo, self.order[0], homes):
            return {}
        mine: dict[str | None, list[tuple[Coords, planner.Group]]] = {}
        for outer, found in dealt.items():
            for group in found:
                mine.setdefault(group.worker, []).append((outer, group))
        inputs: dict[Coords, list[Any]] = {outer: [] for outer in dealt}
        for worker, parts in mine.items():
            size = -(-len(parts) // dealer.threads.get(str(worker), 1))
            for some in planner.in_order(len(parts), size):
                self._take_together([parts[i] for i in some.members], refs, inputs)
        return inputs

    def _take_together(
        self,
        parts: list[tuple[Coords, planner.Group]],
        refs: Mapping[Coords, list[TaskRef]],
        inputs: dict[Coords, list[Any]],
    ) -> None:
        """One task for groups of several slices."""
        members = List(*(refs[outer][i] for outer, group in parts for i in group.members))
        self.bundles += 1
        if len(parts) == 1:
            run = partial(reduce_tasks.combine, bound=self.bound)
            inputs[parts[0][0]].append(self._add(lambda key: fusion.PlacedGroup(key, run, members), self.group_name))
            return
        sizes = tuple(len(group.members) for _, group in parts)
        run = partial(reduce_tasks.combine_each, bound=self.bound, sizes=sizes)
        ref = self._add(lambda key: fusion.PlacedGroups(key, run, members), self.group_name)
        for i, (outer, _) in enumerate(parts):
            inputs[outer].append(Task(None, operator.getitem, ref, i))

    def by_fan_in(self, split: int | dict[int, int]) -> Tree:
        """Chunks that have yet to be made, where the caller says how many partials go together."""
        leaves = self._leaves()
        refs = {c: TaskRef((self.chunk_name, *c)) for c in product(*map(range, self.x.numblocks))}
        level = {}
        for outer, members in _slices_by_stage(refs, self.order[0]):
            inputs = self._narrow(members, _steps(split, self.order[0]), fusion.Group)
            level[outer] = self._close(inputs, outer, 0, fusion.Group)
        chunks = {ref.key for ref in refs.values()}
        taken = [len(chunks & node.dependencies) for node in self.graph.values()]
        self.dealt = [(None, count) for count in taken if count]
        return self._later_stages(level, split, [leaves], [])

    def _group(self, refs: list[Any], members: Sequence[int], split: int | dict[int, int]) -> list[Any]:
        """What a group's task folds. Large partials are folded few at a time, lest it hold all of them at once."""
        mine = [refs[i] for i in members]
        if isinstance(split, int) and split < FAN_IN:
            return self._narrow({(i,): ref for i, ref in enumerate(mine)}, (split,), Task)
        return mine

    def _later_stages(
        self, level: dict[Coords, Any], split: int | dict[int, int], dependencies: list[Any], layers: Sequence[Any]
    ) -> Tree:
        for number, stage in enumerate(self.order[1:], 1):
            level = {
                outer: self._close(self._narrow(members, _steps(split, stage), Task), outer, number, Task)
                for outer, members in _slices_by_stage(level, stage)
            }
        graph = HighLevelGraph.from_collections(self.name, Tasks(self.graph), dependencies=dependencies)
        if layers:
            names = {f"{self.name}-handles-{i}": layer for i, layer in enumerate(layers)}
            above = {**graph.dependencies, **{name: set() for name in names}, self.name: set(names)}
            graph = HighLevelGraph({**graph.layers, **names}, above)
        self.array = da.Array(graph, self.name, self._chunks(), meta=self.meta)
        return self

    def _leaves(self) -> Any:
        """The chunk tasks, with positions where the state has an index."""
        inputs, shape = self._inputs(), None
        if needs_places(self.bound, self.x.numblocks, self.axes):
            sizes = place_chunks(self.bound.name, self.x.chunks, self.axes)
            slices = private.slices_of_blocks(sizes)
            inputs += (_as_array(sizes) if slices is None else slices, self.inds)
            shape = tuple(sum(s) for s in sizes)
        run = partial(reduce_tasks.reduce_chunk, bound=self.bound, axes=self.order[0], shape=shape, **self.how)
        state = np.empty((0,) * self.x.ndim, self.bound.state)
        return self._blockwise(run, self.chunk_name, self.inds, self.bound.state, state, inputs)

    def _narrow(self, members: Mapping[Coords, Any], steps: Coords, kind: type[Task]) -> list[Any]:
        """Combine neighbours, level by level, until few enough are left for one task."""
        if len(steps) == 1:
            members = {(i,): ref for i, ref in enumerate(members.values())}
        while True:
            found: dict[Coords, list[Any]] = {}
            for place, ref in members.items():
                found.setdefault(tuple(p // n for p, n in zip(place, steps, strict=True)), []).append(ref)
            if len(found) == 1:
                return list(members.values())
            members = {
                place: refs[0] if len(refs) == 1 else self._combine(refs, self.combine_name, kind)
                for place, refs in found.items()
            }

    def _combine(self, refs: list[Any], name: str, kind: type[Task]) -> TaskRef:
        run = partial(reduce_tasks.combine, bound=self.bound)
        return self._add(lambda key: kind(key, run, List(*refs)), name)

    def _add(self, make: Callable[[Key], GraphNode], name: str) -> TaskRef:
        key = (name, len(self.graph))
        self.graph[key] = make(key)
        return TaskRef(key)

    def _send_at_once(self, blocks: int, threads: Mapping[str, int]) -> None:
        """Give the tasks that finish blocks as many dependencies as it takes to be sent together, once there are few
        tasks whose partials they all need: tasks of nothing, each of a name of its own, for the scheduler counts by
        name."""
        if len(self.order) == 1 and blocks > 2 * sum(threads.values()):
            for i in range(self.bundles, DEPENDENCIES):
                key = (f"{self.name}-at-once-{i}", 0)
                self.graph[key] = Task(key, int)
                self.awaited.append(TaskRef(key))

    def _close(self, refs: list[Any], outer: Coords, stage: int, kind: type[Task], in_runs: bool = False) -> TaskRef:
        """The task that ends a stage and folds the next one's axes, or that ends the tree."""
        is_last = stage + 1 == len(self.order)
        if is_last:
            drop = None if self.keepdims else self.axes
            run = partial(reduce_tasks.finish, bound=self.bound, drop=drop, device=self.device)
        else:
            run = partial(reduce_tasks.combine, bound=self.bound, then=self.order[stage + 1])
        if in_runs:
            run = partial(reduce_tasks.in_order, close=run)
        at = (*(outer[a] for a in self.kept), *(0 for _ in self.bound.extra))
        key: Key = (self.name, *at) if is_last else (self.combine_name, len(self.graph))
        self.graph[key] = kind(key, run, List(*refs), *self.awaited)
        return TaskRef(key)

    def _inputs(self) -> tuple[Any, ...]:
        # What has fewer axes lies along the reduced ones.
        return tuple(v for a in self.arrays for v in (a, self.inds if a.ndim == self.x.ndim else self.axes))

    def _chunks(self) -> tuple[tuple[float, ...], ...]:
        kept = ((1,) if a in self.axes else self.x.chunks[a] for a in self.kept)
        return (*kept, *((n,) for n in self.bound.extra))

    def _blockwise(
        self,
        run: Callable[..., Any],
        name: str,
        out: Axes,
        dtype: Any,
        meta: Any,
        inputs: Iterable[Any],
        new_axes: dict[int, int] | None = None,
    ) -> Any:
        return da.blockwise(
            run,
            out,
            *inputs,
            name=name,
            dtype=dtype,
            meta=meta,
            adjust_chunks={a: 1 for a in self.axes if a in out},
            new_axes=new_axes,
            align_arrays=False,
        )


def _steps(split: int | dict[int, int], stage: Axes) -> Coords:
    """How many neighbours go together: of all in C order, or along each axis of a stage."""
    return (split,) if isinstance(split, int) else tuple(split[a] for a in stage)


def _slices_by_stage(level: Mapping[Coords, Any], stage: Axes) -> list[tuple[Coords, dict[Coords, Any]]]:
    """What a level holds by where it lies outside of the stage's axes, each slice in C order along them."""
    slices: dict[Coords, dict[Coords, Any]] = {}
    for coords, ref in level.items():
        outer = tuple(0 if a in stage else c for a, c in enumerate(coords))
        slices.setdefault(outer, {})[tuple(coords[a] for a in stage)] = ref
    return list(slices.items())


def _as_array(chunks: tuple[tuple[int, ...], ...]) -> Any:
    """The slices of each block, as an array of blocks of one object each."""
    found = np.empty(tuple(map(len, chunks)), object)
    ends = [list(accumulate(sizes, initial=0)) for sizes in chunks]
    for coords in np.ndindex(*found.shape):
        found[coords] = tuple(slice(*at[i : i + 2]) for at, i in zip(ends, coords, strict=True))
    return da.from_array(found, chunks=1)
