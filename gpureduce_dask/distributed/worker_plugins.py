"""What workers do before they take tasks: a GPU's makes its memory pool, and a process freezes what it has imported."""

from __future__ import annotations

import asyncio
import gc
import time
from importlib import import_module
from typing import Any

from dask.utils import parse_bytes
from distributed import WorkerPlugin

PATIENCE = 15.0  # seconds in which the memory of a killed process comes back
AGAIN = 0.25
ALIGNMENT = 256  # bytes, of a pool's size


class DevicePool(WorkerPlugin):
    """A worker's RMM pool, of which CuPy takes what it allocates. It grows when it is full. A worker that follows a
    killed one finds that one's memory still taken: it waits, for its first task too, and after ``PATIENCE`` starts with
    half of what is free."""

    name = "gr-device-pool"

    def __init__(self, size: int | float | str) -> None:
        self.size = size

    async def setup(self, worker: Any) -> None:
        """Called by a worker that starts, before it takes tasks."""
        import cupy
        import rmm  # type: ignore[import-not-found]
        from rmm.allocators.cupy import rmm_cupy_allocator  # type: ignore[import-not-found]

        end = time.monotonic() + PATIENCE
        while True:
            free, total = cupy.cuda.runtime.memGetInfo()
            is_late = time.monotonic() > end
            size = min(self._bytes(total), free // 2) if is_late else self._bytes(total)
            try:
                pool = rmm.mr.PoolMemoryResource(
                    rmm.mr.CudaMemoryResource(), initial_pool_size=size // ALIGNMENT * ALIGNMENT
                )
            except (MemoryError, RuntimeError):
                if is_late:
                    raise
                await asyncio.sleep(AGAIN)
            else:
                break
        rmm.mr.set_current_device_resource(pool)
        cupy.cuda.set_allocator(rmm_cupy_allocator)

    def _bytes(self, total: int) -> int:
        if isinstance(self.size, float) and self.size <= 1:
            return int(self.size * total)
        return int(parse_bytes(self.size))


class FrozenImports(WorkerPlugin):
    """Has a worker's process put what it has imported out of reach of Python's garbage collector. Not for a process
    that others share. A full collection looks at every object of the process, 230,000 in a GPU's worker, and stops all
    threads for 110 to 140 ms, with those frozen for 4 to 7 (one H200, 2026-11-29)."""

    name = "gr-frozen-imports"

    def setup(self, worker: Any) -> None:
        """Called by a worker that starts, before it takes tasks."""
        import_module("gpureduce_dask.api.reductions")
        gc.collect()
        gc.freeze()

    def teardown(self, worker: Any) -> None:
        """Called by a worker that ends, or that lets go of the plugin."""
        gc.unfreeze()
