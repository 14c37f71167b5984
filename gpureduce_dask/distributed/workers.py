"""Who will run a graph, where chunks in memory lie, and which tasks a scheduler has already: asked of a client that is
there, none is made."""

from __future__ import annotations

import asyncio
import math
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import dask
from dask.system import CPU_COUNT

from ..errors import ArgumentError, ExtraError, message
from . import private

FRESH = 2.0  # seconds that an answer of the scheduler is used again: what is stale costs a transfer, never a result
ANSWER_SECONDS = 3.0  # that workers have to say whether they have this package
HALF_FULL = 0.5  # of a worker's memory: above it, its chunks must stay free to go to its disk


@dataclass(frozen=True)
class Workers:
    """Threads by worker (one nameless worker where there is no cluster), and the memory of those that have a limit."""

    threads: Mapping[str, int]
    memory: Mapping[str, float] = field(default_factory=dict)
    crowded: frozenset[str] = frozenset()
    client: Any = None

    @property
    def total(self) -> int:
        return max(1, sum(self.threads.values()))

    @property
    def are_one(self) -> bool:
        """True where all tasks run in one place."""
        return self.client is None or len(self.threads) == 1


@dataclass
class _Answer:
    """What a scheduler said, under the name that it has until it is started anew, and which workers have this
    package. Without the client, which would keep itself."""

    scheduler: str
    checked: set[str] = field(default_factory=set)
    when: float = -math.inf
    workers: Workers | None = None


_answers: weakref.WeakKeyDictionary[Any, _Answer] = weakref.WeakKeyDictionary()  # by client


def current() -> Workers:
    """The workers that a graph computed now would run on."""
    client = _client()
    if client is not None:
        return of_client(client)
    name = dask.config.get("scheduler", None)
    if name in ("sync", "synchronous", "single-threaded"):
        return Workers({"": 1})
    return Workers({"": int(dask.config.get("num_workers", None) or CPU_COUNT)})


def are_processes() -> bool:
    """True where dask's own processes run a graph: what a task takes is pickled for it, by the process that asked."""
    return dask.config.get("scheduler", None) in ("processes", "multiprocessing")


def of_client(client: Any) -> Workers:
    """A cluster's workers. A client of an event loop answers nothing here, for nobody here can wait for it."""
    answer = _answers.get(client)
    if answer is not None and answer.workers is not None and time.monotonic() - answer.when < FRESH:
        return replace(answer.workers, client=client)
    return _remember(client, {"id": "", "workers": {}} if client.asynchronous else client.scheduler_info(n_workers=-1))


def _remember(client: Any, info: Mapping[str, Any]) -> Workers:
    """A cluster's workers, from what its scheduler says about itself and about each."""
    known = info["workers"]
    answer = _answers.get(client)
    if answer is None or answer.scheduler != info["id"]:
        answer = _answers[client] = _Answer(info["id"])
    _require_package(client, known.keys(), answer.checked)
    limits = {name: each["memory_limit"] for name, each in known.items() if each.get("memory_limit")}
    crowded = frozenset(name for name, limit in limits.items() if _is_crowded(known[name].get("metrics", {}), limit))
    workers = Workers({name: each["nthreads"] for name, each in known.items()} or {"": CPU_COUNT}, limits, crowded)
    if known:
        answer.when, answer.workers = time.monotonic(), workers
    return replace(workers, client=client)


def _require_package(client: Any, names: Set[str], checked: set[str]) -> None:
    """Raise where some worker lacks this package: the first task that it cannot load would end it, and dask would wait
    for others. Asked of each worker once."""
    if not names <= checked:
        asked = {"workers": sorted(names - checked), "on_error": "ignore", "callback_timeout": ANSWER_SECONDS}
        try:
            found = client.run(_has_package, **asked)
        except TimeoutError:  # one of them died just now, which its scheduler has yet to learn: next time, then
            return
        missing = sorted(worker for worker, answer in found.items() if answer is False)
        if missing:
            received = f"{len(missing)} of {len(names)} workers without gpureduce_dask, such as {missing[0]}"
            remedy = "Install it there, or call dask's own function."
            raise ExtraError(message("reduce", received, "it on every worker, as on the client", remedy))
        checked.update(names)


def _has_package() -> bool:
    from importlib.util import find_spec

    return find_spec("gpureduce_dask") is not None


_has_package.__module__ = "__main__"  # what cloudpickle takes as: pickle the code, which the worker lacks


def survey(
    client: Any, arrays: Sequence[tuple[str, tuple[int, ...], Mapping[Any, Any]]]
) -> tuple[Workers, list[list[tuple[str, ...]]], int]:
    """A cluster's workers, those that hold each chunk, in C order, of arrays of these names, numbers of blocks and
    futures by key, and how many bytes a chunk of each takes together, at most; of no array where not all chunks are in
    memory, or where the scheduler cannot say."""
    if client.asynchronous or not all(_are_finished(futures) for _, _, futures in arrays):
        return of_client(client), [], 0
    try:
        known, holders, nbytes = client.run_on_scheduler(survey_scheduler, [(name, n) for name, n, _ in arrays])
    except ImportError:  # it lacks this package, as dask tells when it gets the graph
        return of_client(client), [], 0
    found = [[sets[i] for i in which] for sets, which in holders]
    return _remember(client, known), found if all(map(all, found)) else [], nbytes


def _are_finished(futures: Mapping[Any, Any]) -> bool:
    """True for futures of just these keys that are all in memory."""
    values = futures.values()
    if not are_futures(values) or [future.key for future in values] != [*futures]:
        return False
    return all(future.status == "finished" for future in values)


def mine() -> Any:
    """The worker that runs the calling task, or None."""
    module = sys.modules.get("distributed")
    if module is None:
        return None
    try:
        return module.get_worker()
    except ValueError:  # a thread of no worker
        return None


def from_memory(keys: Sequence[Any]) -> list[Any] | None:
    """What the worker that runs the calling task has under these keys, where it has all of them. Its event loop reads
    them, which never waits for a thread: the worker's data may come from a disk, and no other thread may read it."""
    worker = mine()

    async def read() -> list[Any] | None:
        return [worker.data[key] for key in keys] if all(key in worker.data for key in keys) else None

    return None if worker is None else asyncio.run_coroutine_threadsafe(read(), worker.loop.asyncio_loop).result()


def refuse_cancelled(name: str, futures: Iterable[Any]) -> None:
    """Raise where a chunk will never be there: dask's own error, much later, tells neither which nor why."""
    key = next((f.key for f in futures if is_future(f) and f.status == "cancelled"), None)
    if key is not None:
        received, expected = f"chunk {key}, which its cluster has given up", "chunks that are in memory or can be made"
        remedy = "Persist the array again, after the restart of workers or the release that lost it."
        raise ArgumentError(message(name, received, expected, remedy))


def is_future(value: Any) -> bool:
    """True for distributed's futures, without importing distributed for it."""
    return are_futures((value,))


def are_futures(values: Iterable[Any]) -> bool:
    """True where all values are distributed's futures."""
    module = sys.modules.get("distributed")
    return module is not None and all(issubclass(kind, module.Future) for kind in set(map(type, values)))


def are_of_futures(layer: Any) -> bool:
    """True for the layer of a persisted array, or of handles."""
    mapping = getattr(layer, "mapping", None)
    return mapping is not None and is_future(next(iter(mapping.values()), None))


def _client() -> Any:
    """The client that ``compute`` would use, or None: one that dask's configuration has, or else the current one. A
    client of an event loop, which cannot compute, is none."""
    module, chosen = sys.modules.get("distributed"), dask.config.get("scheduler", None)
    if module is None:
        return None
    client = chosen if isinstance(chosen, module.Client) else getattr(chosen, "__self__", None)
    if chosen in (None, "distributed", "dask.distributed"):
        try:
            client = module.get_client()
        except ValueError:
            return None
    return client if isinstance(client, module.Client) and not client.asynchronous else None


def _is_crowded(metrics: Mapping[str, Any], limit: float) -> bool:
    spilled = metrics.get("spilled_bytes", {})
    return bool(spilled.get("disk", 0)) or metrics.get("memory", 0) > HALF_FULL * limit


# The sets of workers that hold some chunk, and which of them holds each chunk, in C order.
Holders = tuple[list[tuple[str, ...]], list[int]]


def survey_scheduler(
    arrays: Sequence[tuple[str, tuple[int, ...]]], dask_scheduler: Any
) -> tuple[dict[str, Any], list[Holders], int]:
    """The scheduler and its workers, as ``Client.scheduler_info`` has them, who holds arrays of these names and numbers
    of blocks, and how many bytes a chunk of each takes together, at most."""
    workers = {}
    for each in dask_scheduler.workers.values():
        metrics = {name: each.metrics[name] for name in ("memory", "spilled_bytes") if name in each.metrics}
        workers[each.address] = {"nthreads": each.nthreads, "memory_limit": each.memory_limit, "metrics": metrics}
    tasks = dask_scheduler.tasks
    chunks = [[tasks.get((name, *c)) for c in product(*map(range, numblocks))] for name, numblocks in arrays]
    nbytes = sum(max((task.get_nbytes() for task in each if task is not None), default=0) for each in chunks)
    return {"id": dask_scheduler.id, "workers": workers}, [*map(_holders, chunks)], nbytes


def _holders(chunks: Sequence[Any]) -> Holders:
    """Of the tasks of chunks, or None for those that are not known."""
    sets: dict[Any, int] = {}
    holders = (frozenset(task.who_has or ()) if task is not None else frozenset() for task in chunks)
    which = [sets.setdefault(each, len(sets)) for each in holders]
    return [tuple(sorted(worker.address for worker in each)) for each in sets], which


KNOWN_STATES = frozenset({"memory", "processing", "waiting", "queued", "no-worker"})


def known_keys(graph: Any, wanted: set[Any]) -> set[Any]:
    """The keys that a graph's results need and that the scheduler has already, because somebody persisted them or has
    them made just now: dask makes no task twice whose key it knows. None where the scheduler is not of this process,
    which is where dask optimises graphs for a cluster. Two schedulers are two clusters: what the wrong one has is a
    task more."""
    known = _tasks_here()
    names = {key[0] if isinstance(key, tuple) else key for tasks in known for key in [*tasks]}
    if not any(name in names and not are_of_futures(layer) for name, layer in graph.layers.items()):
        return set()
    keys = (key for layer in graph.cull(wanted).layers.values() for key in layer.get_output_keys())
    return {key for key in keys if any(getattr(tasks.get(key), "state", "") in KNOWN_STATES for tasks in known)}


def as_scheduled(graph: dict[Any, Any], wanted: set[Any]) -> dict[Any, Any]:
    """The graph, in which what a scheduler of this process makes of other tasks than the graph does is made as the
    scheduler has it. It keeps the tasks that it knows, of workers that were there then, and would keep for good what
    those of the graph alone need. The graph has all that it needs still, whichever scheduler it is for."""
    for tasks in _tasks_here():
        others = {key for key, node in graph.items() if _needs(tasks.get(key)) not in (None, node.dependencies)}
        if others:
            break
    else:
        return graph
    outside = {need for node in graph.values() for need in node.dependencies if need not in graph}
    found: dict[Any, Any] = {}
    ahead = [*wanted]
    while ahead:
        key = ahead.pop()
        if key in found or key in outside:
            continue
        node = graph.get(key) if key not in others else None
        if node is None and (node := getattr(tasks.get(key), "run_spec", None)) is None:
            return graph
        found[key] = node
        ahead.extend(node.dependencies)
    return found


def _needs(task: Any) -> set[Any] | None:
    """The keys that a scheduler's task needs; None where it does not know the task, or how it is made."""
    return None if getattr(task, "run_spec", None) is None else {each.key for each in [*task.dependencies]}


def _tasks_here() -> list[Any]:
    """The tasks of each scheduler of this process by key, which its own thread changes meanwhile."""
    return [each.tasks for each in private.schedulers_here() if each.status.name == "running"]
