"""What a worker reduces for another one: its own chunks of an array, asked for by a task that runs elsewhere.

Between tasks of dask, what one gives reaches another by way of the scheduler, in four messages; a worker that is asked
by another answers in two. It reduces in a thread of its own, one request after another: two tasks on two workers that
ask each other, each in the one thread of its worker, would wait for ever.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any
from weakref import WeakValueDictionary

from . import private, workers

OPERATION = "gr_reduce"  # by which a worker is asked
THREAD = "gr-reduce"  # the name of its executor, among those that end with the worker
CONNECT_SECONDS = 2.0  # until a worker that nobody has spoken to counts as gone
PATIENCE = 30.0  # seconds that a worker has to answer, in which it may have to compile a kernel

Run = Callable[..., Any]  # reduces the chunks that handles refer to


class ReduceActor:
    """A worker's: knows the handles that were made there, and answers for their chunks."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.handles: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._thread = worker.executors.setdefault(THREAD, ThreadPoolExecutor(1, THREAD))
        self._context = copy_context()  # of a task, which knows its worker

    async def answer(self, request: bytes) -> bytes:
        """The handler of requests; nothing of chunks that are not here."""
        try:
            run, asked = pickle.loads(request)
            handles = [self.handles.get(key) or await self.find(pickle.loads(packed)) for key, packed in asked]
            if not all(handle is not None for handle in handles):
                return pickle.dumps(None)
            in_thread = asyncio.get_running_loop().run_in_executor
            return await in_thread(self._thread, self._context.run, _answer, run, handles)
        except SystemExit as fault:  # what a task would end its worker with, for its nanny to start it anew
            close = self.worker.close
            self.worker.loop.add_callback(close, nanny=False, executor_wait=False, reason=str(fault))
            raise ConnectionError(str(fault)) from fault  # as where it is gone already

    async def find(self, handle: Any) -> Any:
        """A handle, with its chunks where it came without them and they are all here. On the worker's event loop, for
        it reads the worker's data."""
        return handle if handle.is_here else self.handles.get(handle.key) or handle.restored(self.worker.data)


def _answer(run: Run, handles: Sequence[Any]) -> bytes:
    import cloudpickle  # type: ignore[import-untyped]

    try:
        found = (True, run(handles))
    except Exception as error:
        found = (False, error)
    return bytes(cloudpickle.dumps(found))


def here() -> ReduceActor | None:
    """The actor of the worker that runs the calling task, set up at the first call."""
    worker = workers.mine()
    if worker is None:
        return None
    answer = private.answers_requests(worker, OPERATION, lambda: ReduceActor(worker).answer)
    return None if answer is None else answer.__self__


def ask(worker: Any, requests: Sequence[tuple[str, Run, Sequence[Any]]]) -> list[Future[bytes | None]]:
    """Send requests (to which worker, what to run, on which handles) from a task of ``worker``, which goes on when they
    have left: what it does next may keep other threads from sending them."""
    loop = worker.loop.asyncio_loop
    replies = [asyncio.run_coroutine_threadsafe(_send(worker, *each), loop) for each in requests]
    wait([asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)], CONNECT_SECONDS)
    return replies


async def _send(worker: Any, home: str, run: Run, handles: Sequence[Any]) -> bytes | None:
    import cloudpickle

    request = cloudpickle.dumps((run, [(h.key, h.packed()) for h in handles]))
    async with asyncio.timeout(PATIENCE):
        reply: bytes | None = await private.send_request(worker, home, OPERATION, CONNECT_SECONDS, request=request)
        return reply


async def is_known(worker: Any, home: str) -> bool:
    """Whether the scheduler knows of that worker."""
    return home in await worker.scheduler.ncores(workers=[home])
