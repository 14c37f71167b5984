"""The reduction tree: chunks to partials, partials combined in order, the last to results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArraySliceDep

from ..monoid import Bound
from . import meta, tasks
from .axes import Axes, fan_in, needs_places, normalise_axes, place_chunks, refuse_empty, stages

Key = tuple[Any, ...]  # a name, and where the chunk lies
Coords = tuple[int, ...]


def reduce_array(
    arrays: tuple[Any, ...],
    bound: Bound,
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    name_prefix: str | None = None,
) -> Any:
    """Reduce dask arrays of one chunking by a bound monoid.

    Keys start with ``gr-<name_prefix>-``, by default the monoid's name. The result has the chunk type that the
    first array's meta promises.
    """
    x, name = arrays[0], name_prefix or bound.name
    axes = normalise_axes(name, axis, x.ndim)
    refuse_empty(name, bound, x.shape, axes)
    split = fan_in(name, bound, split_every, axes, x.chunks)
    token = tokenize([a.name for a in arrays], [a.chunks for a in arrays], bound, axes, keepdims, split)
    tree = _Tree(arrays, bound, axes, bool(keepdims), f"gr-{name}", token)
    if all(x.numblocks[a] == 1 for a in axes):
        return tree.one_chunk_a_slice()
    return tree.build(split)


class _Tree:
    """One reduction of one graph: what all of its layers have in common."""

    def __init__(
        self, arrays: tuple[Any, ...], bound: Bound, axes: Axes, keepdims: bool, prefix: str, token: str
    ) -> None:
        self.arrays, self.bound, self.axes, self.keepdims = arrays, bound, axes, keepdims
        self.x = arrays[0]
        self.inds = tuple(range(self.x.ndim))
        self.kept = self.inds if keepdims else tuple(a for a in self.inds if a not in axes)
        self.name = f"{prefix}-{token}"
        self.chunk_name = f"{prefix}-chunk-{token}"
        self.combine_name = f"{prefix}-combine-{token}"
        self.device = meta.promises_device(self.x._meta)
        self.meta = meta.like(self.x._meta, len(self.kept), bound.result)

    def one_chunk_a_slice(self) -> Any:
        """Every slice lies in one chunk: one task a chunk, in a layer that fuses with its neighbours."""
        run = partial(tasks.reduce_whole, bound=self.bound, axes=self.axes, keepdims=self.keepdims, device=self.device)
        return self._blockwise(run, self.name, self.kept, self.bound.result, self.meta, self._inputs())

    def build(self, split: int | dict[int, int]) -> Any:
        """Chunk tasks, then combines of at most ``split`` partials, then one task for each chunk of the result."""
        bound, x = self.bound, self.x
        order = stages(bound, x.numblocks, self.axes)
        leaves = self._leaves(order[0])
        graph: dict[Any, Any] = {}
        level: dict[Coords, Key] = {c: (self.chunk_name, *c) for c in product(*map(range, x.numblocks))}
        for stage, then in zip(order, [*order[1:], None], strict=True):
            level = {
                outer: self._close(graph, self._narrow(graph, members, stage, split), outer, then)
                for outer, members in _slices(level, stage)
            }
        layers = HighLevelGraph.from_collections(self.name, graph, dependencies=[leaves])
        return da.Array(layers, self.name, self._chunks(), meta=self.meta)

    def _leaves(self, stage: Axes) -> Any:
        """The chunk tasks, with positions where the state has an index."""
        inputs, shape = self._inputs(), None
        if needs_places(self.bound, self.x.numblocks, self.axes):
            sizes = place_chunks(self.bound.name, self.x.chunks, self.axes)
            inputs += (ArraySliceDep(sizes), self.inds)
            shape = tuple(sum(s) for s in sizes)
        run = partial(tasks.reduce_chunk, bound=self.bound, axes=stage, shape=shape)
        state = np.empty((0,) * self.x.ndim, self.bound.state)
        return self._blockwise(run, self.chunk_name, self.inds, self.bound.state, state, inputs)

    def _narrow(
        self, graph: dict[Key, Any], members: dict[Coords, Key], stage: Axes, split: int | dict[int, int]
    ) -> list[Key]:
        """Combine neighbours, level by level, until few enough are left for one task."""
        if isinstance(split, int):
            members = {(i,): key for i, key in enumerate(members.values())}
            steps: Coords = (split,)
        else:
            steps = tuple(split[a] for a in stage)
        run = partial(tasks.combine, bound=self.bound)
        while True:
            groups: dict[Coords, list[Key]] = {}
            for place, key in members.items():
                groups.setdefault(tuple(p // n for p, n in zip(place, steps, strict=True)), []).append(key)
            if len(groups) == 1:
                return list(members.values())
            members = {}
            for place, keys in groups.items():
                members[place] = keys[0] if len(keys) == 1 else (self.combine_name, len(graph))
                if len(keys) > 1:
                    graph[members[place]] = (run, keys)

    def _close(self, graph: dict[Key, Any], keys: list[Key], outer: Coords, then: Axes | None) -> Key:
        """The task that ends a stage and folds the next one's axes, or that ends the tree."""
        if then is None:
            drop = None if self.keepdims else self.axes
            run = partial(tasks.finish, bound=self.bound, drop=drop, device=self.device)
            key = (self.name, *(outer[a] for a in self.kept))
        else:
            run = partial(tasks.combine, bound=self.bound, then=then)
            key = (self.combine_name, len(graph))
        graph[key] = (run, keys)
        return key

    def _inputs(self) -> tuple[Any, ...]:
        return tuple(v for a in self.arrays for v in (a, self.inds))

    def _chunks(self) -> tuple[tuple[float, ...], ...]:
        return tuple((1,) if a in self.axes else self.x.chunks[a] for a in self.kept)

    def _blockwise(
        self, run: Callable[..., Any], name: str, out: Axes, dtype: Any, meta: Any, inputs: Iterable[Any]
    ) -> Any:
        return da.blockwise(
            run,
            out,
            *inputs,
            name=name,
            dtype=dtype,
            meta=meta,
            adjust_chunks={a: 1 for a in self.axes if a in out},
            align_arrays=False,
        )


def _slices(level: dict[Coords, Key], stage: Axes) -> list[tuple[Coords, dict[Coords, Key]]]:
    """The keys of a level by where they lie outside of the stage's axes, each slice in C order along them."""
    slices: dict[Coords, dict[Coords, Key]] = {}
    for coords, key in level.items():
        outer = tuple(0 if a in stage else c for a, c in enumerate(coords))
        slices.setdefault(outer, {})[tuple(coords[a] for a in stage)] = key
    return list(slices.items())
