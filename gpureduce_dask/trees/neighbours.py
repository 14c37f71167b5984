"""A task that takes less time than dask spends on it runs the next few of its kind too.

A worker hands each of its threads one task at a time. From the end of one to the start of the next lie two trips
between thread and event loop, and a message: 0.5 ms, where the host is busy with a GPU's chunk for a fraction of that.
So a task looks for others that wait on its worker with all they need, runs them, and has the event loop end them as it
ends what a thread has run: each is a task of its own as ever, which its scheduler hears of, and which is run again
where its result is lost.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

from dask._task_spec import Task, TaskRef
from dask.sizeof import sizeof

# Tasks together: on an H200 128 chunks of 64 MiB take 84 ms by 8, 74 by 16, and 75 by 32. Where each result is let go
# when another task has read it, so many are there instead of one.
MOST = 16
MOST_BYTES = 2**30  # of their results
ENOUGH = 4e-3  # seconds that a task may have taken already: beyond it, what dask costs is little

Key = Any

# A worker's task, the number of its run, its result and the bytes of it, and when it began and ended.
Done = tuple[Any, int, Any, int, float, float]

_taken: dict[tuple[str, Key, int], int] = {}  # the threads that run a worker's tasks beside their own


def own_key(function: Callable[..., Any]) -> Key | None:
    """The key of the worker's task that this thread runs, None where it runs elsewhere or is another than a call of
    ``function`` alone."""
    module: Any = sys.modules.get("distributed.worker")
    key = None if module is None else getattr(module.thread_state, "key", None)
    if key is None:
        return None
    task = module.get_worker().state.tasks.get(key)
    return key if task is not None and _runs(task.run_spec, function) else None


def run(function: Callable[..., Any], inner: Callable[..., Any], keys: Iterable[Key], begin: float) -> None:
    """Run tasks of these keys that are calls of ``function``, for which ``inner`` does the work, and that are ready.

    For a task of a worker, when it is done with its own work, which it began at ``begin`` by ``time.perf_counter``.
    What raises is left to a run of its own; where some later version of dask is made otherwise, all are.
    """
    from distributed.worker import get_worker

    if not _is_as_known():
        return
    worker = get_worker()
    done: list[Done] = []
    with suppress(AttributeError):
        for key in keys:
            if len(done) + 1 == MOST or sum(each[3] for each in done) > MOST_BYTES:
                break
            if time.perf_counter() - begin > ENOUGH or not worker.state.running:
                break
            task = worker.state.tasks.get(key)
            if task is None or task.state != "ready" or task.resource_restrictions:
                continue
            if not _runs(task.run_spec, function) or not _takes(worker, task):
                continue
            try:
                done.append(_run(worker, task, inner))
            except Exception:
                _taken.pop(_run_of(worker, task), None)
                break
    if done:
        # Before this thread's own task ends, after which the worker would look for the next.
        worker.loop.add_callback(_end, worker, done, threading.get_ident())


@functools.cache
def _is_as_known() -> bool:
    """True where dask ends a thread's tasks as it did when this was written (2026.7 and 2026.8)."""
    from distributed.worker_state_machine import ExecuteSuccessEvent, TaskState, WorkerState

    event = {each.name for each in fields(ExecuteSuccessEvent)}
    return (
        event == {"stimulus_id", "key", "run_id", "value", "start", "stop", "nbytes", "type"}
        and {"ready", "executing", "tasks"} <= set(WorkerState.__slots__)
        and {"run_id", "run_spec", "state", "resource_restrictions"} <= set(TaskState.__slots__)
        and hasattr(WorkerState, "_transitions")
    )


def _runs(task: Any, function: Callable[..., Any]) -> bool:
    return type(task) is Task and task.func is function and not task.kwargs


def _run_of(worker: Any, task: Any) -> tuple[str, Key, int]:
    return worker.address, task.key, task.run_id


def _takes(worker: Any, task: Any) -> bool:
    """True for the one thread that may run a task."""
    me = threading.get_ident()
    return _taken.setdefault(_run_of(worker, task), me) == me


def _run(worker: Any, task: Any, inner: Callable[..., Any]) -> Done:
    from distributed.metrics import time as now

    run_id, start = task.run_id, now() + worker.scheduler_delay
    value = inner(*(_value(worker.data, a) for a in task.run_spec.args))
    return task, run_id, value, sizeof(value), start, now() + worker.scheduler_delay


def _value(data: Any, argument: Any) -> Any:
    """An argument, of the worker's memory where it is another task's result. Raises where that went to a disk."""
    if not isinstance(argument, TaskRef):
        return argument
    if not isinstance(data, dict) and not any(argument.key in getattr(data, at, ()) for at in ("device", "fast")):
        raise KeyError(argument.key)
    return data[argument.key]


def _end(worker: Any, done: list[Done], thread: int) -> None:
    """On the worker's event loop: what its scheduler took back meanwhile, or another thread began, stays as it is."""
    from distributed.worker_state_machine import ExecuteSuccessEvent

    state = worker.state
    stimulus = f"task-finished-{time.time()}"
    taken: dict[Any, str] = {}
    ended = []
    for task, run_id, value, nbytes, start, stop in done:
        _taken.pop((worker.address, task.key, run_id), None)
        if state.tasks.get(task.key) is not task or (task.state, task.run_id) != ("ready", run_id):
            continue
        state.ready.discard(task)
        state.executing.add(task)
        worker.threads[task.key] = thread
        taken[task] = "executing"
        event = ExecuteSuccessEvent(
            stimulus_id=stimulus,
            key=task.key,
            run_id=run_id,
            value=value,
            start=start,
            stop=stop,
            nbytes=nbytes,
            type=type(value),
        )
        ended.append(event)
    if ended:
        state._transitions(taken, stimulus_id=stimulus)  # and no thread is told to
        worker.handle_stimulus(*ended)
