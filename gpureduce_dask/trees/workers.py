"""Who will run a graph, and where chunks in memory lie: asked of a client that is there already, none is made."""

from __future__ import annotations

import asyncio
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import dask
from dask.base import get_scheduler
from dask.system import CPU_COUNT

from ..errors import ArgumentError, ExtraError, message
from . import scheduler

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


_asked: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
_hurried: weakref.WeakSet[Any] = weakref.WeakSet()  # clients whose schedulers have been told
_heard: weakref.WeakSet[Any] = weakref.WeakSet()  # clients whose scheduler makes tasks for them
_answers: weakref.WeakKeyDictionary[Any, tuple[float, Workers]] = weakref.WeakKeyDictionary()


def current() -> Workers:
    """The workers that a graph computed now would run on."""
    client = _client()
    if client is not None:
        return of_client(client)
    name = dask.config.get("scheduler", None)
    if name in ("sync", "synchronous", "single-threaded"):
        return Workers({"": 1})
    return Workers({"": int(dask.config.get("num_workers", None) or CPU_COUNT)})


def of_client(client: Any) -> Workers:
    """A cluster's workers. A client of an event loop answers nothing here, for nobody here can wait for it."""
    when, workers = _answers.get(client, (-FRESH, None))
    if workers is not None and time.monotonic() - when < FRESH:
        return workers
    return _note(client, {} if client.asynchronous else client.scheduler_info(n_workers=-1)["workers"])


def heard_of(client: Any) -> Workers | None:
    """A cluster's workers as they were when somebody asked last."""
    _, workers = _answers.get(client, (0, None))
    return workers


def _note(client: Any, known: Mapping[str, Any]) -> Workers:
    """A cluster's workers, from what its scheduler says about each."""
    _require_package(client, known.keys())
    limits = {name: info["memory_limit"] for name, info in known.items() if info.get("memory_limit")}
    workers = Workers(
        {name: info["nthreads"] for name, info in known.items()} or {"": CPU_COUNT},
        limits,
        frozenset(name for name, limit in limits.items() if _is_crowded(known[name].get("metrics", {}), limit)),
        client,
    )
    if known:
        _answers[client] = (time.monotonic(), workers)
    return workers


def _require_package(client: Any, names: Set[str]) -> None:
    """Raise where some worker lacks this package: the first task that it cannot load would end it, and dask would wait
    for others. Asked of each worker once."""
    asked = _asked.setdefault(client, set())
    if not names <= asked:
        try:
            found = client.run(
                _has_package, workers=sorted(names - asked), on_error="ignore", callback_timeout=ANSWER_SECONDS
            )
        except TimeoutError:  # one of them died just now, which its scheduler has yet to learn: next time, then
            return
        missing = sorted(worker for worker, answer in found.items() if answer is False)
        if missing:
            raise ExtraError(
                message(
                    "reduce",
                    f"{len(missing)} of {len(names)} workers without gpureduce_dask, such as {missing[0]}",
                    "it on every worker, as on the client",
                    "Install it there, or call dask's own function.",
                )
            )
        asked.update(names)


def _has_package() -> bool:
    from importlib.util import find_spec

    return find_spec("gpureduce_dask") is not None


_has_package.__module__ = "__main__"  # what cloudpickle takes as: pickle the code, which the worker lacks


def survey(client: Any, arrays: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Workers, list[list[tuple[str, ...]]]]:
    """A cluster's workers, and those that hold each chunk, in C order, of arrays of these names and numbers of blocks;
    of no array where the scheduler cannot say."""
    try:
        known, found = client.run_on_scheduler(scheduler.survey, list(arrays))
    except ImportError:  # it lacks this package, as dask tells when it gets the graph
        return of_client(client), []
    return _note(client, known), [[sets[i] for i in which] for sets, which in found]


def start(client: Any, graph: Mapping[str, Any]) -> dict[str, Any]:
    """The futures of tasks that depend on what is in memory, by key. The first call waits for the scheduler to say that
    it makes such tasks; later ones go ahead of the graph that needs them, as messages that nobody waits for."""
    from distributed import Future
    from distributed.protocol.pickle import dumps

    futures: dict[str, Any] = {key: Future(key, client) for key in graph}  # before anything can happen to them
    if client in _heard:
        hurry(client)
        client._send_to_scheduler({"op": scheduler.START, "graph": dumps(dict(graph))})
        return futures
    try:
        client.run_on_scheduler(scheduler.start, dict(graph), client.id)
        _heard.add(client)
    except Exception:  # the scheduler of some later version is made otherwise: a graph does the same, and costs more
        client.get({key: task.anywhere() for key, task in graph.items()}, list(graph), sync=False)
    return futures


def order(client: Any, deal: Any, met: Set[str]) -> None:
    """Have the scheduler make a list of an array's handles, where it :func:`is_heard`: see :mod:`.scheduler`."""
    from distributed.protocol.pickle import dumps

    hurry(client)
    client._send_to_scheduler({"op": scheduler.LIST, "deal": dumps(deal), "met": [*met]})


def wait_until_sent(client: Any) -> None:
    """Until a message has left: to go on and write a graph would keep the thread that sends it. Not with a lock that
    this thread wants."""

    async def turns() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(turns(), client.loop.asyncio_loop).result(ANSWER_SECONDS)


def introduce(client: Any) -> None:
    """Let :func:`start` wait for nobody, the first time either."""
    with suppress(Exception):  # as there, where the scheduler is made otherwise
        client.run_on_scheduler(scheduler.start, {}, client.id)
        _heard.add(client)


def is_heard(client: Any) -> bool:
    """True where :func:`start` waits for nobody."""
    return client in _heard


def hurry(client: Any) -> None:
    """Let a graph that is sent next leave at once, and what its scheduler says about it: see :mod:`.hurry`. By the
    client's loop, for it reads this too."""
    if client is None or client.scheduler_comm is None:
        return
    if client not in _hurried and not client.asynchronous:
        from .hurry import install  # which needs distributed

        _hurried.add(client)
        with suppress(ImportError):  # it lacks this package, as dask tells when it gets the graph
            client.run_on_scheduler(install)
    client.loop.add_callback(end_pause, client.scheduler_comm)


def answer_at_once() -> None:
    """A task calls, before it ends: its worker says so without a pause where no other task waits there."""
    worker = mine()
    if worker is not None and not worker.state.ready:
        end_pause(worker.batched_stream)


def mine() -> Any:
    """The worker that runs the calling task, or None."""
    module = sys.modules.get("distributed")
    if module is None:
        return None
    try:
        return module.get_worker()
    except ValueError:  # a thread of no worker
        return None


def end_pause(stream: Any) -> None:
    """What a ``BatchedSend`` is given next it sends at once."""
    stream.next_deadline = None


def refuse_cancelled(name: str, futures: Iterable[Any]) -> None:
    """Raise where a chunk will never be there: dask's own error, much later, tells neither which nor why."""
    key = next((f.key for f in futures if is_future(f) and f.status == "cancelled"), None)
    if key is not None:
        raise ArgumentError(
            message(
                name,
                f"chunk {key}, which its cluster has given up",
                "chunks that are in memory or can be made",
                "Persist the array again, after the restart of workers or the release that lost it.",
            )
        )


def is_future(value: Any) -> bool:
    """True for distributed's futures, without importing distributed for it."""
    return are_futures((value,))


def are_futures(values: Iterable[Any]) -> bool:
    """True where all values are distributed's futures."""
    module = sys.modules.get("distributed")
    return module is not None and all(issubclass(kind, module.Future) for kind in set(map(type, values)))


def _client() -> Any:
    """The client that ``compute`` would use, or None."""
    if "distributed" not in sys.modules:
        return None
    try:
        owner = getattr(get_scheduler(), "__self__", None)
    except RuntimeError:  # a client is asked for by the configuration, and there is none
        return None
    return owner if hasattr(owner, "scheduler_info") else None


def _is_crowded(metrics: Mapping[str, Any], limit: float) -> bool:
    spilled = metrics.get("spilled_bytes", {})
    return bool(spilled.get("disk", 0)) or metrics.get("memory", 0) > HALF_FULL * limit
