"""What runs on the scheduler: one question where a client would ask several, and tasks that need no graph.

A graph of four tasks that depend on 512 chunks costs 41 ms: dask puts it in order, reports each chunk to the client,
and sends the client's next graph 10 ms later at the earliest. One task that names no chunk, made here while the client
hears where the chunks are, costs it nothing: a first reduction took 30 ms with four such tasks, and takes 21 (2026-11).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

START = "gr-start"  # the message that asks for what start() does

# The sets of workers that hold some chunk, and which of them holds each chunk, in C order.
Holders = tuple[list[tuple[str, ...]], list[int]]


def survey(
    arrays: Sequence[tuple[str, tuple[int, ...]]], offer: Any, dask_scheduler: Any
) -> tuple[dict[str, dict[str, Any]], list[Holders]]:
    """The workers, as ``Client.scheduler_info`` has them, and who holds arrays of these names and numbers of blocks.
    An offer for the first of them is taken up after the answer."""
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
    found = [*map(_holders, chunks)]
    if offer is not None:
        dask_scheduler.loop.add_callback(_take, dask_scheduler, offer, chunks[0], found[0])
    return workers, found


def _holders(chunks: Sequence[Any]) -> Holders:
    """Of the tasks of chunks, or None for those that are not known."""
    sets: dict[Any, int] = {}
    held = (frozenset(task.who_has or ()) if task is not None else frozenset() for task in chunks)
    which = [sets.setdefault(each, len(sets)) for each in held]
    return [tuple(sorted(worker.address for worker in each)) for each in sets], which


def start(graph: Mapping[str, Any], client: str, dask_scheduler: Any) -> None:
    """Run tasks that a client wants, of handles and of lists of them, each on the worker that it names. What fails
    leaves nothing."""
    from . import hurry, keeper  # which need distributed

    stimulus = f"gr-start-{time.time()}"
    dask_scheduler.add_plugin(keeper.Keeper(dask_scheduler), idempotent=True)
    hurry.install(dask_scheduler)
    new = [task for key, task in graph.items() if key not in dask_scheduler.tasks]
    if not all(need in dask_scheduler.tasks for task in new for need in task.needs):
        raise KeyError("a chunk that this scheduler does not know")
    made = []
    try:
        for task in new:
            made += [*keeper.add_task(dask_scheduler, task)]
        spans = dask_scheduler.extensions.get("spans")
        if spans is not None:
            spans.observe_tasks(made, code=(), span_metadata={})
    except Exception:
        dask_scheduler.transitions({state.key: "forgotten" for state in made}, stimulus)
        raise
    dask_scheduler.client_desires_keys(keys=list(graph), client=client)
    dask_scheduler.transitions({state.key: "waiting" for state in made}, stimulus)
    dask_scheduler.stream_handlers.setdefault(START, partial(_hear, dask_scheduler))


def _take(dask_scheduler: Any, offer: Any, chunks: Sequence[Any], holders: Holders) -> None:
    """List the handles of chunks, each in the memory of its first holder, where the offer says so."""
    sets, which = holders
    homes = [min(held, default="") for held in sets]
    if offer.taken(homes):
        needs = frozenset(task.key for task in chunks)  # not made anew, which costs more than all else here
        roster = offer.deal.listed(offer.deal.holds([homes[i] for i in which]), needs)
        _try_start(dask_scheduler, {str(roster.key): roster}, offer.client)


def _hear(dask_scheduler: Any, graph: bytes, client: str) -> None:
    """As :func:`start`, for one who does not wait."""
    from distributed.protocol.pickle import loads

    _try_start(dask_scheduler, loads(graph), client)


def _try_start(dask_scheduler: Any, graph: Mapping[str, Any], client: str) -> None:
    """What fails is cancelled: an error would end the client's connection."""
    try:
        start(graph, client, dask_scheduler)
    except Exception as error:
        why = {"reason": "gr-start", "msg": f"handles of chunks could not be made: {error!r}"}
        dask_scheduler.report({"op": "cancelled-keys", "keys": list(graph), **why}, client=client)
