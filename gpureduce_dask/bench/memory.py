"""The most device memory that workers had in use at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_most = {"bytes": 0, "base": 0}


@contextmanager
def peak(client: Any, on_gpu: bool, row: dict[str, Any], chunk_bytes: float) -> Iterator[None]:
    """While the block runs, watch what CuPy's pool hands out on each worker; ``peak_chunks`` is the most, in chunks."""
    if on_gpu:
        client.run(watch)
    yield
    if on_gpu:
        row["peak_chunks"] = max(client.run(unwatch).values()) / chunk_bytes


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
