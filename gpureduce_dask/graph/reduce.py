"""The reduction tree: groups of chunks to partials, partials combined in order, the last to results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from operator import getitem
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..distributed import private, workers
from ..distributed.handles import Coords
from ..distributed.private import List, Task, TaskRef, write_to
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid
from ..operators.product_monoid import Product
from . import array_expressions as array_expressions  # by which public functions are called
from . import deferred, fusion, meta, reduce_tasks, sources, views
from . import graph_arrays as da
from .arguments import Axes, align, as_dask, bind, key_prefix, operands, tree_arguments
from .layers import Tasks, TaskWriter
from .meta import belongs_to_stock, call, foreign
from .sources import GroupTask, LazySource, Reduction, Source, bundles, by_worker, exchanges, join_groups

# Slices of one chunk each: from so many on, and so many a thread, tasks of many of them are worth it.
MANY, MANY_A_THREAD = 32, 4
# A scheduler takes many tasks with fewer dependencies than so many, in all, for ones that read files: it holds them
# back, and sends each when another ends (dask's worker-saturation), at a round trip a task.
DEPENDENCIES = 5


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
    """Reduce dask arrays of one chunking by a bound monoid; the result is the tree's ``array``. Keys start with ``gr-``
    and the words of ``name_prefix``, by default the monoid's name. The result has the chunk type that the first array's
    meta promises. ``group`` is how many chunks one task takes: by default what ``split_every`` says, or else as many as
    keep every thread busy. A dry run sends nothing to a cluster and is not to be computed."""
    x, name = arrays[0], name_prefix or bound.name
    axes, split, size = tree_arguments(name, bound, x, axis, split_every, group)
    fusion.install()
    reduction = Reduction(arrays, bound, axes, size)
    is_whole = all(x.numblocks[a] == 1 for a in axes)
    source: Source | None = None
    if not is_whole or x.npartitions >= MANY:
        source = sources.select_source(reduction, dry_run) or views.select_source(reduction, dry_run)
    if source is None:
        workers.current()  # raises where a worker lacks what the tasks need
    # Whole, a result of slices of one chunk each takes no task for each chunk, where workers reduce all of theirs
    # in a task a thread.
    is_shared = (
        source is not None
        and source.known.client is not None
        and x.npartitions >= MANY_A_THREAD * source.known.total
        and size is None
        and sources.partials_travel(reduction, reduction.order[0], 1)
    )
    if is_whole and not is_shared:
        return Tree(reduction, keepdims, key_prefix(name), split).one_chunk_a_slice()
    source = source or LazySource(reduction)
    return Tree(reduction, keepdims, key_prefix(name), split, (size, str(source.mark))).of_groups(source)


class Tree:
    """One reduction of one graph: what all of its layers have in common. ``split`` is how many partials one combine
    takes, and ``options`` tell ways of grouping chunks from one another."""

    def __init__(
        self, reduction: Reduction, keepdims: bool, prefix: str, split: int | dict[int, int], options: Any = ()
    ) -> None:
        self.reduction, self.keepdims, self.split = reduction, bool(keepdims), split
        self.arrays, self.bound, self.axes = reduction.arrays, reduction.bound, reduction.axes
        self.x, self.order = reduction.x, reduction.order
        self.inds = tuple(range(self.x.ndim))
        self.kept = self.inds if keepdims else tuple(a for a in self.inds if a not in self.axes)
        # As text, for NaN hashes by where it lies: to take thousands of sizes one by one costs more than the reduction.
        chunks = [str(a.chunks) for a in self.arrays]
        self.fuse_option = {} if deferred.fuses() else {"fuse": False}
        names = [a.name for a in self.arrays]
        token = tokenize(names, chunks, self.bound, self.axes, self.keepdims, split, options, *self.fuse_option)
        self.writer = TaskWriter(prefix, token)
        self.name, self.device = self.writer.name, meta.promises_device(self.x._meta)
        like = None if isinstance(self.bound, Product) else self.x._meta  # whose result is a partial, on either side
        self.meta = meta.like(like, len(self.kept) + len(self.bound.extra), self.bound.result)
        self.array: Any = None
        self.source: Source | None = None
        self.groups: list[tuple[str | None, int]] = []  # each group's worker, where it is known, and chunks
        self.bundles = 0  # tasks that make the partials of many slices
        self.awaited: list[TaskRef] = []  # by the tasks that finish blocks

    def one_chunk_a_slice(self) -> Tree:
        """Every slice lies in one chunk: one task a chunk, in a layer that fuses with its neighbours."""
        self.groups = [(None, 1)] * self.x.npartitions
        options = {"keepdims": self.keepdims, "device": self.device, **self.fuse_option}
        run = partial(reduce_tasks.reduce_whole, bound=self.bound, axes=self.axes, **options)
        extra = dict(enumerate(self.bound.extra, self.x.ndim))
        self.array = self._blockwise(run, (*self.kept, *extra), self._inputs(), self.meta, self.name, new_axes=extra)
        return self

    def of_groups(self, source: Source) -> Tree:
        """A task for each group of the source, then combines. Groups of chunks that have yet to be made take in the
        tasks that make them when the graph is optimised."""
        self.source = source
        size = planner.neighbours(self.split, self.order[0], self.x.numblocks)
        is_lazy = isinstance(source, LazySource)
        if isinstance(source, LazySource):
            source.takes(self._partials_of_chunks())
        in_runs = not (is_lazy or self.bound.monoid.commutative)  # groups by worker: their chunks are brought in order
        slices = list(source.slices(self.order[0]))
        may_join = not is_lazy or (source.holders is not None and size >= planner.FAN_IN)
        together = self._bundles(source, slices) if may_join else {}
        if not together and (sets := exchanges(source, slices, self.order[0])):
            return self._of_sets(source, [[slices[i] for i in each] for each in sets])
        level = {}
        for outer, groups in slices:
            self.groups += [(group.worker, group.chunks) for group in groups]
            kind: type[Task] = Task
            inputs: list[Any]
            # Large partials are folded few at a time, lest a task hold all of them.
            if is_lazy and size < planner.FAN_IN:
                groups = [replace(g, takes=(self._narrow(g.takes[0], size),)) for g in groups]
            if together:
                inputs = [together[group] for group in groups]
            elif len(groups) == 1:
                # The task that ends the stage does the group's work as well: no other has a part in its result.
                inputs, kind = [groups[0].node()] if groups[0].kind is Task else groups[0].takes[0], groups[0].kind
            else:
                inputs = [self._add(group) for group in groups]
            if not in_runs and kind is Task:
                inputs = self._narrow(inputs, size)
            level[outer] = self._close(inputs, outer, 0, kind, in_runs)
        return self._later_stages(level, source)

    def _add(self, group: GroupTask) -> TaskRef:
        return self.writer.add("group", group.run, *group.lists, kind=group.kind, count=group.chunks)

    def _bundles(self, source: Source, slices: list[tuple[Coords, list[GroupTask]]]) -> dict[GroupTask, Any]:
        """What takes each group's partial out of a task that makes those of many slices; nothing where there is none
        such."""
        found: dict[GroupTask, Any] = {}
        for groups in bundles(source, slices, self.order[0]):
            self.bundles += 1
            found |= self._add_joined(groups)
        if found:
            self._send_together(len(slices), source.known.threads, self.bundles)
        return found

    def _add_joined(self, groups: list[GroupTask]) -> dict[GroupTask, Any]:
        """A task of several groups: what takes the partial of each out of it."""
        if len(groups) == 1:
            return {groups[0]: self._add(groups[0])}
        ref = self._add(join_groups(groups))
        return {group: Task(None, getitem, ref, i) for i, group in enumerate(groups)}

    def _of_sets(self, source: Source, sets: list[list[tuple[Coords, list[GroupTask]]]]) -> Tree:
        """For each set of slices a task a worker, one that completes their results, and one for each block of these."""
        self._send_together(sum(map(len, sets)), source.known.threads, len(sets))
        finalise = partial(reduce_tasks.finalise, bound=self.bound, drop=self._dropped, device=self.device)
        for slices in sets:
            groups = [group for _, each in slices for group in each]
            self.groups += [(group.worker, group.chunks) for group in groups]
            found: dict[GroupTask, Any] = {}
            for mine in by_worker(groups).values():
                found |= self._add_joined(mine)
            partials, sizes = List(*(found[group] for group in groups)), [len(each) for _, each in slices]
            run = partial(reduce_tasks.each_slice, run=finalise, sizes=sizes)
            blocks = self.writer.add("blocks", run, partials)
            for number, (outer, _) in enumerate(slices):
                key, take = self._block_key(outer), partial(reduce_tasks.pick, number=number)
                self.writer.tasks[key] = Task(key, take, blocks, *self.awaited)
        return self._as_array(source)

    def _later_stages(self, level: dict[Coords, Any], source: Source) -> Tree:
        """Combine along the axes that are left."""
        blocks = [1 if a in self.order[0] else n for a, n in enumerate(self.x.numblocks)]
        for number, stage in enumerate(self.order[1:], 1):
            size = planner.neighbours(self.split, stage, blocks)
            level = {
                outer: self._close(self._narrow([level[c] for c in members], size), outer, number, Task)
                for outer, members in planner.slices_of(tuple(blocks), stage).items()
            }
            blocks = [1 if a in stage else n for a, n in enumerate(blocks)]
        return self._as_array(source)

    def _as_array(self, source: Source) -> Tree:
        """The array of the blocks that were written."""
        tasks = Tasks(self.writer.tasks, source.slices_per_task(self.order[0]))
        graph = HighLevelGraph.from_collections(self.name, tasks, dependencies=source.dependencies)
        if layers := source.futures:
            names = {f"{self.name}-handles-{i}": layer for i, layer in enumerate(layers)}
            above = {**graph.dependencies, **{name: set() for name in names}, self.name: set(names)}
            graph = HighLevelGraph({**graph.layers, **names}, above)
        self.array = da.Array(graph, self.name, self._chunks(), meta=self.meta)
        return self

    def _partials_of_chunks(self) -> Any:
        """The array of the partials of each chunk, with positions where the state has an index."""
        inputs = self._inputs()
        if (sizes := self.reduction.sizes) is not None:
            slices = private.slices_of_blocks(sizes)
            inputs += (_slices_as_array(sizes) if slices is None else slices, self.inds)
        options = {"shape": self.reduction.shape, **self.fuse_option}
        run = partial(reduce_tasks.reduce_chunk, bound=self.bound, axes=self.order[0], **options)
        state = np.empty((0,) * self.x.ndim, self.bound.state)
        return self._blockwise(run, self.inds, inputs, state, self.writer.step_name("chunk"))

    def _narrow(self, refs: Sequence[Any], size: int) -> list[Any]:
        """Combine neighbours, level by level, until few enough are left for one task."""
        run = partial(reduce_tasks.combine, bound=self.bound)
        while len(refs) > size:
            groups = [[refs[i] for i in g.members] for g in planner.even_stretches(len(refs), size)]
            refs = [each[0] if len(each) == 1 else self._combine(run, each) for each in groups]
        return list(refs)

    def _combine(self, run: Callable[..., Any], refs: Sequence[Any], *awaited: Any, kind: type[Task] = Task) -> TaskRef:
        """The task that brings partials together."""
        return self.writer.add("combine", run, List(*refs), *awaited, kind=kind, count=len(refs), of="partial")

    def _send_together(self, blocks: int, threads: Mapping[str, int], needs: int) -> None:
        """Give the tasks that finish blocks as many dependencies as it takes to be sent together, once there are few
        tasks, so many, whose results they need: tasks of nothing, each of a name of its own, for the scheduler counts
        by name."""
        if len(self.order) == 1 and blocks > 2 * sum(threads.values()):
            self.awaited = [self.writer.add(f"placeholder-{i}", int) for i in range(needs, DEPENDENCIES)]

    def _close(self, refs: list[Any], outer: Coords, stage: int, kind: type[Task], in_runs: bool = False) -> TaskRef:
        """The task that ends a stage and folds the next one's axes, or that ends the tree."""
        is_last = stage + 1 == len(self.order)
        if is_last:
            run = partial(reduce_tasks.finalise, bound=self.bound, drop=self._dropped, device=self.device)
        else:
            run = partial(reduce_tasks.combine, bound=self.bound, then=self.order[stage + 1])
        if in_runs:
            run = partial(reduce_tasks.in_order, close=run)
        if not is_last:
            return self._combine(run, refs, *self.awaited, kind=kind)
        key = self._block_key(outer)
        self.writer.tasks[key] = kind(key, run, List(*refs), *self.awaited)
        return TaskRef(key)

    @property
    def _dropped(self) -> Axes | None:
        """The axes that the result loses; None where it keeps all."""
        return None if self.keepdims else self.axes

    def _block_key(self, outer: Coords) -> Any:
        """The key of the block of a slice."""
        return (self.name, *(outer[a] for a in self.kept), *(0 for _ in self.bound.extra))

    def _inputs(self) -> tuple[Any, ...]:
        # What has fewer axes lies along the reduced ones.
        return tuple(v for a in self.arrays for v in (a, self.inds if a.ndim == self.x.ndim else self.axes))

    def _chunks(self) -> tuple[tuple[float, ...], ...]:
        kept = ((1,) if a in self.axes else self.x.chunks[a] for a in self.kept)
        return (*kept, *((n,) for n in self.bound.extra))

    def _blockwise(self, run: Any, out: Axes, inputs: Iterable[Any], like: Any, name: str, **options: Any) -> Any:
        """A task a chunk, which gives what is like a meta, of size 1 along the reduced axes."""
        options |= {"dtype": like.dtype, "name": name, "adjust_chunks": {a: 1 for a in self.axes if a in out}}
        return meta.blockwise(run, out, *inputs, template=like, **options)


def _slices_as_array(chunks: tuple[tuple[int, ...], ...]) -> Any:
    """The slices of each block, as an array of blocks of one object each."""
    found = np.empty(tuple(map(len, chunks)), object)
    ends = [list(accumulate(sizes, initial=0)) for sizes in chunks]
    for coords in np.ndindex(*found.shape):
        found[coords] = tuple(slice(*at[i : i + 2]) for at, i in zip(ends, coords, strict=True))
    return da.from_array(found, chunks=1)


# ---- from what a caller passes


def apply(
    op: str | Monoid,
    *inputs: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    name: str | None = None,
    group: int | None = None,
    **options: Any,
) -> Any:
    """Reduce array-likes by an operator; ``name`` is the public function's where it is not the operator's. ``group`` is
    how many chunks one task takes; stock dask knows no such thing. ``options`` go to the operator's ``finalise``."""
    monoid = operators.get(op)
    name = name or monoid.name
    arrays = tuple(as_dask(name, x) for x in inputs)
    places = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    if belongs_to_stock(monoid.name, arrays, dtype):
        if isinstance(op, Monoid):
            raise foreign(name, arrays)
        return call(name, arrays, dtype=dtype, out=out, **places, **options)
    if op == "ptp" and arrays[0].dtype.kind == "c":  # whose ends are found by position: two states, not one
        high, low = (apply(end, *arrays, **places, group=group, name=name) for end in ("max", "min"))
        return write_to(out, high - low)
    bound = bind(monoid, tuple(a.dtype for a in arrays), dtype, options, name)
    result = build_tree(align(name, arrays), bound, axis, keepdims, split_every, name, group).array
    return write_to(out, result)


def apply_many(op: str | Monoid, x: Any, **arguments: Any) -> Any:
    """:func:`apply` with all inputs in one argument: an array, or a tuple of them for a monoid of arity 2."""
    monoid = operators.get(op)
    return apply(op, *operands(monoid.name, monoid, x), **arguments)
