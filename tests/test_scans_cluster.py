"""Scans on a cluster of processes: results, how many tasks run, and a worker that dies on the way."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from test_cluster_grouping import install, persisted, run, taken
from test_scans import OPTIONS, small, whole
from tiers import in_turn

import gpureduce_dask as gr
from gpureduce_dask import planner
from gpureduce_dask.distributed import handles
from gpureduce_dask.graph import scan_tasks

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        local_cluster(3, memory_limit="2GiB") as cluster,
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


def test_results_that_are_reduced_are_made_where_their_chunks_are(client):
    """One task a worker scans its chunks and reduces what it finds: none a chunk, and no result of a scan is kept."""
    ref = np.random.default_rng(2).integers(-9, 9, 48)
    x = persisted(client, da.from_array(ref, chunks=2).map_blocks(np.copy))
    got, tasks = run(client, gr.max(gr.cumsum(x)))
    assert got == np.cumsum(ref).max()
    assert len(tasks) == 3 + 1 + 3 + 1  # totals a worker, what stands before each chunk, a group a worker, their result


def test_chunks_that_take_others_of_the_array_follow_no_worker(client):
    """One task a worker would take all of these at once."""
    x = persisted(client, da.random.random((48, 4), chunks=(2, 4)))
    smooth = da.map_overlap(np.copy, x, depth={0: 1}, boundary="none")
    assert all(handles.origins(y) is None for y in (x - smooth, x - x[::-1], x - x.mean()))
    assert all(handles.origins(y) for y in (gr.cumsum(x, axis=0), x - gr.mean(x), x[::-1] * 2, x.T + 1))


def test_lazy_chunks(client):
    ref = np.random.default_rng(1).normal(size=(60, 6))
    x = da.from_array(ref, chunks=(4, 3)).map_blocks(np.negative)
    np.testing.assert_allclose(gr.cumsum(x, axis=0).compute(), np.cumsum(-ref, 0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gr.cumsum(x).compute(), np.cumsum(-ref), rtol=1e-12, atol=1e-12)
    segments = np.arange(60) // 7
    got = gr.scan(x, "sum", axis=0, segments=segments).compute()
    want = np.concatenate([np.cumsum(-ref[i : i + 7], 0) for i in range(0, 60, 7)])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("side", "per_axis"), in_turn([4, 512], [12, 6]))
def test_how_many_tasks_over_all_axes(client, per_axis, side):
    """One a chunk of the result. A row of chunks that lie side by side takes five more at most: its totals by worker,
    what stands before them, and what scans or gathers it. Where chunks have yet to be made, each has its own totals."""
    x = da.ones((side * per_axis, side * per_axis), chunks=side).map_blocks(np.copy)
    chunks = per_axis**2
    x_persisted = persisted(client, x)
    array = gr.cumsum(x_persisted)
    assert array.npartitions == (chunks if side > 4 else min(side, per_axis) * per_axis)
    client.run_on_scheduler(taken)
    sent = sum(client.run(outgoing).values())
    result = client.persist(array)
    distributed.wait(result)
    assert len(client.run_on_scheduler(taken)) <= result.npartitions + 5 * per_axis
    if side > 4:  # each chunk goes to one worker
        assert sum(client.run(outgoing).values()) - sent < 1.2 * x_persisted.nbytes
    assert result[-1].compute() == x.size
    _, tasks = run(client, gr.cumsum(x)[-1:])
    assert sum("cumsum" in key for key in tasks) <= chunks + array.npartitions + 3 * per_axis


def outgoing(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


GRIDS = [
    ((9, 10), (4, 5)),
    ((7, 9), (3, 1)),
    ((7, 5, 6), (3, 2, 2)),
    ((5, 4, 3), (1, 3, 2)),
    ((2, 3, 4, 5), (1, 2, 2, 5)),
    ((9, 6), ((4, 0, 5), (2, 0, 4))),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("grid", "how"), in_turn(GRIDS, ["together", "apart", "cut"]), ids=str)
def test_over_all_axes(client, monkeypatch, grid, how):
    """Parts that are scanned as one, or each for itself, from whole chunks or from what is cut of them."""
    monkeypatch.setattr(planner, "TOGETHER_BYTES", 2**20 if how == "together" else 0)
    monkeypatch.setattr(planner, "CUT_BYTES", 1 if how == "cut" else 2**22)
    shape, chunks = grid
    for number, options in enumerate(OPTIONS):
        name = ["sum", "last", "first", "var"][number % 4]
        ref = small(shape, missing=name in ("last", "first"))
        x = da.from_array(ref, chunks=chunks).map_blocks(np.copy)
        x = x if number % 2 else persisted(client, x)
        asked = {("include_initial" if k == "initial" else k): v for k, v in options.items()}
        got = gr.scan(x, name, **asked)
        functions = {getattr(node, "func", None) for node in got.dask.layers[got.name].values()}
        assert (scan_tasks.cut in functions, scan_tasks.take in functions) == (how == "cut", how == "together")
        np.testing.assert_allclose(got.compute(), whole(name, ref.ravel(), 0, **options), rtol=1e-12, atol=1e-12)


def test_rows_are_shared_where_a_worker_has_no_room_for_a_band(client, monkeypatch):
    ref = np.random.default_rng(2).normal(size=(30, 90))
    x = persisted(client, da.from_array(ref, chunks=(30, 10)).map_blocks(np.copy))
    monkeypatch.setattr(planner, "MEMORY_SHARE", 12_000 / 2**31)
    got = gr.cumsum(x)
    assert any(getattr(node, "func", None) is scan_tasks.cut for node in got.dask.layers[got.name].values())
    np.testing.assert_allclose(got.compute(), np.cumsum(ref), rtol=1e-12, atol=1e-12)


def kill_a_worker_amid(client, future):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done = sum("cumsum" in key for key in map(str, sum(client.has_what().values(), ())))
        if done > 5:
            break
        time.sleep(0.02)
    assert done > 5 and not future.done()
    pid = client.run(os.getpid)
    os.kill(pid[sorted(pid)[0]], signal.SIGKILL)


def test_pairs_over_all_axes(client, monkeypatch):
    """Both arrays' rows are cut, and gathered apart."""
    a, b = small((9, 10)), small((9, 10))
    pair = [persisted(client, da.from_array(each, chunks=(4, 5)).map_blocks(np.copy)) for each in (a, b)]
    monkeypatch.setattr(planner, "CUT_BYTES", 1)
    for reverse in (False, True):
        got = gr.scan(tuple(pair), "affine", reverse=reverse)
        assert any(getattr(node, "func", None) is scan_tasks.cut for node in got.dask.layers[got.name].values())
        np.testing.assert_array_equal(got.compute(), whole("affine", (a.ravel(), b.ravel()), 0, reverse=reverse))


def test_a_worker_that_dies(client):
    """Its chunks and totals are made again, and the result is right."""
    x = da.zeros((40, 1000), chunks=(1, 1000)).map_blocks(slow_ones)
    kill_a_worker_amid(client, future := client.compute(gr.cumsum(x, axis=0)))
    np.testing.assert_array_equal(future.result(timeout=60), np.arange(1, 41)[:, None] * np.ones(1000))


@pytest.mark.slow
def test_a_worker_that_dies_with_rows_of_chunks(client):
    """What it gathered for a scan over all axes is gathered again."""
    x = da.zeros((40, 10_000), chunks=(4, 1000)).map_blocks(slow_ones)
    kill_a_worker_amid(client, future := client.compute(gr.cumsum(x)))
    np.testing.assert_array_equal(future.result(timeout=60), np.arange(1, x.size + 1))
