"""A cluster of ``gr.cluster.start()`` whose workers are killed: answers are right, and workers come back."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import gpureduce_dask as gr

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")
pytest.importorskip("dask_cuda")
distributed = pytest.importorskip("distributed")

KILLS = int(os.environ.get("FAULT_ROUNDS", "2"))
BACK = 30  # seconds until a worker's successor takes tasks


def pool_of(dask_worker):
    """What CuPy allocates with, and the bytes of the pool."""
    import rmm

    rmm_pool = rmm.mr.get_current_device_resource()
    size = rmm_pool.pool_size() if hasattr(rmm_pool, "pool_size") else 0
    return getattr(cupy.cuda.get_allocator(), "__name__", ""), size


@pytest.mark.parametrize("pool", ["0.5", "0.9"])
def test_workers_that_are_killed(pool):
    """While they reduce. The pool of the one that dies is more than half of the memory in the second case: there is no
    room for two."""
    import dask
    import dask.array as da

    pytest.importorskip("rmm")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        # dask's cluster looks for a lost worker after 15 s, and closes its nanny if it is just then starting again.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        gr.cluster.start(dashboard_address="127.0.0.1:0", rmm_pool_size=float(pool)) as client,
    ):
        count = len(client.nthreads())
        ref = np.arange(256 * 1024, dtype="f4").reshape(256, -1) % 1000
        for number in range(KILLS):
            made = da.from_array(ref + number, chunks=(4, -1)).map_blocks(cupy.asarray)
            x = client.persist(made)
            distributed.wait(x, timeout=60)
            assert float(client.compute(gr.max(x)).result(timeout=60)) == 999 + number
            running = client.compute([gr.sum(x + i, dtype="f8") for i in range(8)])
            os.kill([*client.run(os.getpid).values()][number % count], signal.SIGKILL)
            begin = time.monotonic()
            want = float(ref.sum(dtype="f8")) + number * ref.size
            for i, future in enumerate(running):
                assert float(future.result(timeout=120)) == want + i * ref.size
            while len(client.nthreads()) < count or len(client.run(os.getpid, on_error="ignore")) < count:
                assert time.monotonic() - begin < BACK
                time.sleep(0.1)
            print(f"kill {number}: {count} workers again after {time.monotonic() - begin:.1f} s")
            pools = client.run(pool_of)
            assert len(pools) == count and all("rmm" in name for name, _ in pools.values()), pools
