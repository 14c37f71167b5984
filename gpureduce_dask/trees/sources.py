"""What is known of the chunks of a reduction, and how they are dealt out: a group is what one task reduces.

Where chunks are in memory, a source deals those of a slice to groups, and writes the task of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Protocol

from dask._task_spec import GraphNode, List, Task

from ..monoid import Bound
from . import grouped, groups, workers
from .axes import Axes, needs_places, place_chunks
from .handles import Coords

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
    """The only slice for one task, that asks each worker for its share: lists of handles, and what runs on each."""

    takes: list[Any]
    run: Callable[..., Any]


class Source(Protocol):
    """Chunks in memory, dealt to groups."""

    todo: Reduction
    known: workers.Workers
    mark: Any  # tells one way of dealing from another, in keys
    dependencies: list[Any]  # collections that groups depend on

    @property
    def futures(self) -> list[Any]:
        """Layers that they depend on."""

    def spread(self, stage: Axes, parts: list[Part]) -> Spread | None:
        """What one task takes and runs for all groups of the only slice; None where each had better have its own."""

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
        return grouped.Where(stage, self.shape, grouped.runs_of(self.bound, members))

    def run_of_all(self, stage: Axes) -> Callable[..., Any]:
        """What reduces all chunks that a worker's handles refer to, of the only slice."""
        return partial(grouped.reduce_all, bound=self.bound, where=grouped.Where(stage, self.shape))

    def partial_bytes(self, stage: Axes) -> float:
        """Bytes of the largest chunk's partial."""
        kept = (max(sizes, default=0) for a, sizes in enumerate(self.x.chunks) if a not in stage)
        return float(math.prod(kept) * self.bound.cell_bytes)


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
