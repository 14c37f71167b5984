"""Chunks on the workers of a cluster, by handle: a graph whose size does not grow with the number of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from dask._task_spec import List, TaskRef
from dask.highlevelgraph import MaterializedLayer

from . import grouped, groups, workers
from .axes import Axes
from .handles import Coords
from .held import Held
from .sources import Part, Reduction, Spread, slices_of


class OnHandles:
    """The chunks of arrays that have handles on the same workers, for a task a group, or ``for_one`` that sees to all.
    A trial makes none."""

    def __init__(
        self, todo: Reduction, held: list[Held], known: workers.Workers, for_one: bool, is_trial: bool
    ) -> None:
        self.todo, self.held, self.known, self.for_one, self.is_trial = todo, held, known, for_one, is_trial
        self.dependencies: list[Any] = []
        self.names = [h.keys(for_one) for h in held]  # by worker
        self.mark = [sorted(names.values()) for names in self.names]

    @property
    def futures(self) -> list[Any]:
        made = [{} if self.is_trial else h.made(self.known.client, self.for_one) for h in self.held]
        return [MaterializedLayer(futures) for futures in made]

    @property
    def to_make(self) -> int:
        """How many handles are made before the reduction runs."""
        return sum(h.to_make(self.for_one) for h in self.held)

    def spread(self, stage: Axes, parts: list[Part]) -> Spread | None:
        """Where one task is to see to all, and a group is what a worker has."""
        if not self.for_one or any([*names] != [part.worker for part in parts] for names in self.names):
            return None
        takes = [List(*map(TaskRef, names.values())) for names in self.names]
        return Spread(takes, self.todo.run_of_all(stage))

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
                    (groups.Group(groups.as_range(share.numbers[part.start : part.stop]), worker), part)
                    for worker, share in held.shares.items()
                    for part in groups.shares(len(share.numbers), threads.get(worker, 1), nbytes)
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
        refs = List(*(TaskRef(names[str(group.worker)]) for names in self.names))
        run = partial(grouped.reduce_held, picks=picks, bound=todo.bound, where=todo.where(stage, group.members))
        return Part(run, refs, group.worker, len(picks))
