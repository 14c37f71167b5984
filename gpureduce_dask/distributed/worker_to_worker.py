"""One task for chunks in memory on several workers: it asks the others to reduce theirs, and combines what they say.

A task for each worker and one that combines cost a scheduler five tasks where there are four workers, and the last one
starts when three small partials have been fetched: 19 ms, where one task takes 15, and one worker needs 14 (four H200s,
2026-11). Its inputs are the handles: dask brings those of other workers without their chunks, once.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

from . import reduce_actor, workers
from .handles import Handle

AGAIN = 0.1  # seconds after which a task that asked a worker in vain runs again
MOST_BYTES = 64 * 1024  # of a partial: a larger one stays on its GPU, for dask to move


def pays(homes: Collection[str], known: workers.Workers, is_device: bool) -> bool:
    """True for chunks on GPUs of several workers of one thread each. Where reading takes longer than its task, dask
    had better know who reads."""
    return len(homes) > 1 and is_device and all(known.threads.get(home) == 1 for home in homes)


def reduce_spread(every: list[list[Handle]], run: reduce_actor.Run, close: Callable[[list[Any]], Any]) -> Any:
    """What ``close`` makes of the partials that ``run`` makes of each worker's handles, where their chunks are.

    ``every`` are all handles of one or more arrays, in the order of their workers.
    """
    shares = [list(handles) for handles in zip(*every, strict=True)]
    mine = reduce_actor.here()
    if mine is None:
        return close([run(handles) for handles in shares])
    homes = [_home(handles, mine.worker.address) for handles in shares]
    asked = [(home, run, handles) for home, handles in zip(homes, shares, strict=True) if home]
    replies = iter(reduce_actor.ask(mine.worker, asked))
    partials = [home or run(handles) for home, handles in zip(homes, shares, strict=True)]
    for i, home in enumerate(homes):
        if home:
            found = _settle(mine.worker, home, next(replies))
            partials[i] = found[0] if found else run(shares[i], is_asked=True)
    return close(partials)


def at_home(handles: list[Handle], run: reduce_actor.Run) -> tuple[Any] | None:
    """What ``run`` makes of handles that came without their chunks, where these are: here, or on another worker. None
    where they have moved."""
    mine = reduce_actor.here()
    if mine is None:
        return None
    found = [workers.on_loop(mine.worker, mine.find, handle) for handle in handles]
    if all(handle is not None for handle in found):
        return (run(found),)
    home = _home(handles, mine.worker.address)
    return _settle(mine.worker, home, *reduce_actor.ask(mine.worker, [(home, run, handles)])) if home else None


def _home(handles: Sequence[Handle], here: str) -> str | None:
    """The other worker that has the chunks of all these handles, if there is one."""
    homes = {handle.home for handle in handles}
    return homes.pop() if len(homes) == 1 and here not in homes else None


def _settle(worker: Any, home: str, reply: Future[bytes | None]) -> tuple[Any] | None:
    """The partial that another worker has found, or nothing where it cannot say: chunks that have moved are fetched.
    Its errors are raised here."""
    from distributed import Reschedule

    try:
        packed = reply.result(2 * reduce_actor.PATIENCE)  # for a loop that ends leaves it open
    except Exception as error:
        left = isinstance(error, OSError) and not isinstance(error, TimeoutError)
        if left and workers.on_loop(worker, reduce_actor.is_known, worker, home):
            time.sleep(AGAIN)  # it left; as soon as the scheduler knows too, chunks are made again or moved
            raise Reschedule from None
        return None
    answer = packed and pickle.loads(packed)
    if not answer:
        return None
    is_found, found = answer
    if not is_found:
        raise found
    return (found,)
