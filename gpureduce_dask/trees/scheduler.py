"""What runs on the scheduler: one question where a client would ask several, and tasks that need no graph.

A graph of four tasks that depend on 512 chunks costs 41 ms: dask puts it in order, reports each chunk to the client,
and sends the client's next graph 10 ms later at the earliest. One task that names no chunk, made here of what the
scheduler knows while the client writes its graph, costs nothing that anybody waits for: a first reduction on two H200s
took 30 ms with four such tasks (2026-11).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

START = "gr-start"  # the message that asks for what start() does
LIST = "gr-list"  # and for a list of an array's handles

# The sets of workers that hold some chunk, and which of them holds each chunk, in C order.
Holders = tuple[list[tuple[str, ...]], list[int]]


def survey(
    arrays: Sequence[tuple[str, tuple[int, ...]]], dask_scheduler: Any
) -> tuple[dict[str, dict[str, Any]], list[Holders]]:
    """The workers, as ``Client.scheduler_info`` has them, and who holds arrays of these names and numbers of blocks."""
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
    return workers, [*map(_holders, chunks)]


def _holders(chunks: Sequence[Any]) -> Holders:
    """Of the tasks of chunks, or None for those that are not known."""
    sets: dict[Any, int] = {}
    held = (frozenset(task.who_has or ()) if task is not None else frozenset() for task in chunks)
    which = [sets.setdefault(each, len(sets)) for each in held]
    return [tuple(sorted(worker.address for worker in each)) for each in sets], which


def listed(key: str, dask_scheduler: Any) -> dict[str, Sequence[int]]:
    """The chunks, in C order, of each worker's handle in the list of this key."""
    task = dask_scheduler.tasks.get(key)
    return {hold.home: hold.share.numbers for hold in task.run_spec.holds} if task is not None else {}


def start(graph: Mapping[str, Any], client: str, dask_scheduler: Any, wanted: Sequence[str] | None = None) -> None:
    """Run tasks of handles and of lists of them, each on the worker that it names. A client wants all, or these. What
    fails leaves nothing."""
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
    dask_scheduler.client_desires_keys(keys=list(graph) if wanted is None else wanted, client=client)
    dask_scheduler.transitions({state.key: "waiting" for state in made}, stimulus)
    dask_scheduler.stream_handlers.setdefault(START, partial(_hear, dask_scheduler))
    dask_scheduler.stream_handlers.setdefault(LIST, partial(_list, dask_scheduler))


def _hear(dask_scheduler: Any, graph: bytes, client: str) -> None:
    """As :func:`start`, for one who does not wait."""
    from distributed.protocol.pickle import loads

    todo = loads(graph)
    with _or_cancelled(dask_scheduler, [*todo], client):
        start(todo, client, dask_scheduler)


def _list(dask_scheduler: Any, deal: bytes, met: Collection[str], client: str) -> None:
    """Make a list of an array's handles, each in the memory of its chunks' first holder. A task that takes the list can
    ask the workers of ``met``; if there are others, the list waits for all handles."""
    from distributed.protocol.pickle import loads

    todo = loads(deal)
    with _or_cancelled(dask_scheduler, [todo.roster], client):
        chunks = [dask_scheduler.tasks[(todo.name, *c)] for c in product(*(range(len(each)) for each in todo.starts))]
        sets, which = _holders(chunks)
        homes = [min(held, default="") for held in sets]
        holds = todo.holds([homes[i] for i in which])
        needs = frozenset(task.key for task in chunks)  # not made anew, which costs more than all else here
        roster = todo.listed(holds, needs)
        graph = {roster.key: roster}
        if not holds.keys() <= set(met):
            graph = {**{hold.key: hold for hold in holds.values()}, roster.key: roster.anywhere()}
        start(graph, client, dask_scheduler, [roster.key])


@contextmanager
def _or_cancelled(dask_scheduler: Any, keys: Sequence[str], client: str) -> Iterator[None]:
    """What fails is cancelled: an error would end the client's connection."""
    try:
        yield
    except Exception as error:
        why = {"reason": "gr-start", "msg": f"handles of chunks could not be made: {error!r}"}
        dask_scheduler.report({"op": "cancelled-keys", "keys": list(keys), **why}, client=client)
