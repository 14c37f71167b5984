"""The most device memory that workers had in use at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

PAUSE = 0.02  # seconds between two readings of memory
STILL = 5  # equal readings in a row: memory that nobody holds has been given back
TRIES = 100

_most = {"bytes": 0, "base": 0}


@contextmanager
def peak(client: Any, on_gpu: bool, row: dict[str, Any], chunk_bytes: float) -> Iterator[None]:
    """While the block runs, watch what CuPy's pool hands out on each worker; ``peak_chunks`` is the most, in chunks."""
    if on_gpu:
        settle(partial(client.run, in_use))
        client.run(watch)
    yield
    if on_gpu:
        row["peak_chunks"] = max(client.run(unwatch).values()) / chunk_bytes


def settle(read: Callable[[], Any]) -> None:
    """Wait until what is read stays as it is: workers hear of what nobody holds any more after a pause of dask's."""
    still, before = 0, None
    for _ in range(TRIES):
        now = read()
        still = still + 1 if now == before else 0
        if still == STILL:
            return
        before = now
        time.sleep(PAUSE)


def in_use() -> int:
    """Bytes that CuPy's pool has handed out on this worker."""
    import cupy

    return int(cupy.get_default_memory_pool().used_bytes())


def watch() -> None:
    """From now on, remember the most that is in use: it is reached right after an allocation."""
    import cupy

    pool = cupy.get_default_memory_pool()
    _most["bytes"] = _most["base"] = pool.used_bytes()

    def allocate(nbytes: int) -> Any:
        found = pool.malloc(nbytes)
        _most["bytes"] = max(_most["bytes"], pool.used_bytes())
        return found

    cupy.cuda.set_allocator(allocate)


def unwatch() -> int:
    """Bytes at the peak above those in use before."""
    import cupy

    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    return _most["bytes"] - _most["base"]
