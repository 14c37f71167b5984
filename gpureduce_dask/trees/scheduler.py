"""What runs on the scheduler: one question where a client would ask several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

# The sets of workers that hold some chunk, and which of them holds each chunk, in C order.
Holders = tuple[list[tuple[str, ...]], list[int]]


def survey(arrays: Sequence[tuple[str, tuple[int, ...]]], dask_scheduler: Any) -> tuple[dict[str, Any], list[Holders]]:
    """The scheduler and its workers, as ``Client.scheduler_info`` has them, and who holds arrays of these names and
    numbers of blocks."""
    workers = {
        worker.address: {
            "nthreads": worker.nthreads,
            "memory_limit": worker.memory_limit,
            "metrics": {name: worker.metrics[name] for name in ("memory", "spilled_bytes") if name in worker.metrics},
        }
        for worker in dask_scheduler.workers.values()
    }
    tasks = dask_scheduler.tasks
    chunks = [[tasks.get((name, *c)) for c in product(*map(range, numblocks))] for name, numblocks in arrays]
    return {"id": dask_scheduler.id, "workers": workers}, [*map(_holders, chunks)]


def _holders(chunks: Sequence[Any]) -> Holders:
    """Of the tasks of chunks, or None for those that are not known."""
    sets: dict[Any, int] = {}
    held = (frozenset(task.who_has or ()) if task is not None else frozenset() for task in chunks)
    which = [sets.setdefault(each, len(sets)) for each in held]
    return [tuple(sorted(worker.address for worker in each)) for each in sets], which
