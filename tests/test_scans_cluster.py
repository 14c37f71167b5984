"""Scans on a cluster of processes: results, how many tasks run, and a worker that dies on the way."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
from test_cluster_grouping import install, persisted, run

import gpureduce_dask as gr

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="2GiB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(3, timeout=30)
        client.run_on_scheduler(install)
        yield client


def slow_ones(block):
    time.sleep(0.05)
    return np.ones_like(block)


def test_persisted_chunks(client):
    ref = np.random.default_rng(0).integers(-9, 9, (48, 12))
    x = persisted(client, da.from_array(ref, chunks=(2, 12)).map_blocks(np.copy))
    got, tasks = run(client, gr.cumsum(x, axis=0))
    np.testing.assert_array_equal(got, np.cumsum(ref, 0))
    assert len(tasks) == 24 + 3 + 1 + 1  # chunks, a group a worker, the bases, and what joins the result
    grid = persisted(client, da.from_array(ref, chunks=(8, 5)).map_blocks(np.copy))
    np.testing.assert_array_equal(gr.cumsum(grid).compute(), np.cumsum(ref))
    np.testing.assert_array_equal(gr.cummax(grid, axis=1).compute(), np.maximum.accumulate(ref, 1))
    assert gr.max(gr.scan(x, "sum", axis=0, reverse=True)).compute() == np.cumsum(ref[::-1], 0).max()


def test_lazy_chunks(client):
    ref = np.random.default_rng(1).normal(size=(60, 6))
    x = da.from_array(ref, chunks=(4, 3)).map_blocks(np.negative)
    np.testing.assert_allclose(gr.cumsum(x, axis=0).compute(), np.cumsum(-ref, 0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gr.cumsum(x).compute(), np.cumsum(-ref), rtol=1e-12, atol=1e-12)
    segments = np.arange(60) // 7
    got = gr.scan(x, "sum", axis=0, segments=segments).compute()
    want = np.concatenate([np.cumsum(-ref[i : i + 7], 0) for i in range(0, 60, 7)])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_worker_that_dies(client):
    """Its chunks and totals are made again, and the result is right."""
    x = da.zeros((40, 1000), chunks=(1, 1000)).map_blocks(slow_ones)
    future = client.compute(gr.cumsum(x, axis=0))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done = sum("cumsum" in key for key in map(str, sum(client.has_what().values(), ())))
        if done > 5:
            break
        time.sleep(0.02)
    assert done > 5 and not future.done()
    pid = client.run(os.getpid)
    os.kill(pid[sorted(pid)[0]], signal.SIGKILL)
    np.testing.assert_array_equal(future.result(timeout=60), np.arange(1, 41)[:, None] * np.ones(1000))
