"""A reduction of chunks on workers that its client has not asked for: it goes ahead, and so does the list of handles.

To ask the scheduler where the chunks of an array lie takes 3 of the 20 ms of its first reduction (two H200s, 2026-11).
The one task that asks each worker for its share does not depend on the answer, and the scheduler, which knows, lists
the handles that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from dask._task_spec import List, TaskRef
from dask.highlevelgraph import MaterializedLayer

from . import held, locate, meta, spread, workers
from .axes import FAN_IN, Axes, stages
from .handles import Coords
from .holds import Deal
from .sources import Part, Reduction, Spread


class Early:
    """The chunks of an array, by a list of handles that its scheduler makes."""

    def __init__(self, todo: Reduction, ordered: held.Ordered, known: workers.Workers) -> None:
        self.todo, self.ordered, self.known = todo, ordered, known
        self.dependencies: list[Any] = []
        self.mark = ordered.key
        self.futures: list[Any] = [MaterializedLayer({ordered.key: ordered.future})]

    def slices(self, stage: Axes) -> Iterator[tuple[Coords, list[Part]]]:
        takes, run = List(TaskRef(self.ordered.key)), self.todo.run_of_all(stage)
        yield (0,) * self.todo.x.ndim, [Part(run, takes, None, self.todo.x.npartitions)]

    def spread(self, stage: Axes, parts: list[Part]) -> Spread:
        return Spread([TaskRef(self.ordered.key)], self.todo.run_of_all(stage))


def source(todo: Reduction, layer: Any, client: Any) -> Early | None:
    """The source of a reduction to one small partial a worker, where all workers are as they were when they were heard
    of, and one task is to ask them."""
    met, known = held.met(client), workers.heard_of(client)
    if known is None or held.is_known(layer) or not _is_one_task(todo, met, known):
        return None
    if client.asynchronous or not workers.is_heard(client) or not locate.is_whole(layer.mapping):
        return None
    ordered = held.order(Deal.of(uuid4().hex, todo.x.name, todo.x.chunks), layer, client)
    return Early(todo, ordered, known) if ordered else None


def _is_one_task(todo: Reduction, met: frozenset[str], known: workers.Workers) -> bool:
    stage = stages(todo.bound, todo.x.numblocks, todo.axes)[0]
    if todo.size or math.prod(n for a, n in enumerate(todo.x.numblocks) if a not in stage) > 1:
        return False
    if not todo.partial_bytes(stage) <= spread.MOST_BYTES:
        return False
    few = 2 * len(met) <= todo.x.npartitions and len(met) <= FAN_IN
    ready = met <= known.threads.keys() and not known.crowded & met
    return few and ready and spread.pays(met, known, meta.promises_device(todo.x._meta))
