"""Chunks in memory, here or on workers, that a group's task depends on one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import accumulate, product
from typing import Any

from dask._task_spec import List, TaskRef

from . import grouped, groups, locate, workers
from .axes import Axes, place_chunks
from .handles import Coords
from .sources import Part, Reduction, Spread, slices_of


class InMemory:
    """By worker where holders are known."""

    def __init__(self, todo: Reduction, held: list[tuple[str, ...]] | None, known: workers.Workers) -> None:
        """``held`` are the workers that hold each chunk, in C order."""
        self.todo, self.known, self.mark = todo, known, held
        self.dependencies: list[Any] = list(todo.arrays)
        self.futures: list[Any] = []
        self.holders = None if held is None else locate.by_coords(todo.x.numblocks, held)

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        found = slices_of(self.todo.x.numblocks, stage)
        for outer, members in found.items():
            yield outer, [self._part(stage, members, g) for g in self._deal(members, len(found))]

    def spread(self, stage: Axes, parts: list[Part]) -> Spread | None:
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
