"""Short tasks of a scan run one another, and end as tasks of their own."""

from __future__ import annotations

import pickle
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.trees import neighbours, scan_section, scan_tasks

distributed = pytest.importorskip("distributed")
machine = pytest.importorskip("distributed.worker_state_machine")

SIZE, CHUNKS = 4, 40


@pytest.fixture
def ended(monkeypatch):
    """The keys of tasks that another one ran, as they are ended."""
    found = []

    def end(worker, done, thread):
        before = {task.key: task.state for task, *_ in done}
        real(worker, done, thread)
        found.extend(task.key for task, *_ in done if before[task.key] == "ready" and task.state == "memory")

    real = neighbours._end
    monkeypatch.setattr(neighbours, "_end", end)
    monkeypatch.setattr(neighbours, "ENOUGH", 60.0)
    return found


def in_memory(client, numbers):
    x = client.persist(da.from_array(numbers, chunks=SIZE).map_blocks(np.copy))
    distributed.wait(x, timeout=30)
    return x


@pytest.mark.parametrize(("workers", "threads"), [(1, 1), (2, 2)])
def test_most_tasks_are_run_by_others(ended, workers, threads):
    numbers = np.random.default_rng(0).integers(-9, 9, SIZE * CHUNKS)
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        x = in_memory(client, numbers)
        for how in ({}, {"reverse": True}):
            del ended[:]
            y = client.persist(gr.scan(x, "sum", axis=0, **how))
            distributed.wait(y, timeout=30)
            assert len(ended) == len(set(ended)) >= CHUNKS // 4
            assert client.run_on_scheduler(known, y.name) == {("memory", 1)}
            want = np.cumsum(numbers[::-1])[::-1] if how else np.cumsum(numbers)
            np.testing.assert_array_equal(y.compute(), want)
        assert not neighbours._taken


def known(name, dask_scheduler):
    """The states of a scan's tasks, and how many workers hold each."""
    return {(t.state, len(t.who_has)) for t in dask_scheduler.tasks.values() if t.key[0] == name}


@pytest.mark.parametrize("limit", ["MOST", "MOST_BYTES", "ENOUGH", "_is_as_known"])
def test_few_at_a_time(ended, monkeypatch, limit):
    """And none with a dask that ends tasks otherwise than this one."""
    assert neighbours._is_as_known()
    limits = {"MOST": 1, "MOST_BYTES": 0, "ENOUGH": 0.0, "_is_as_known": lambda: False}
    monkeypatch.setattr(neighbours, limit, limits[limit])
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        y = client.persist(gr.cumsum(in_memory(client, np.arange(SIZE * CHUNKS)), axis=0))
        distributed.wait(y, timeout=30)
        assert len(ended) <= CHUNKS // 2 if limit == "MOST_BYTES" else not ended


def test_a_worker_that_leaves_takes_no_result_along(ended):
    numbers = np.arange(SIZE * CHUNKS)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        x = in_memory(client, numbers)
        y = client.persist(gr.cumsum(x, axis=0))
        distributed.wait(y, timeout=30)
        cluster.sync(cluster.workers[0].close, nanny=False)
        np.testing.assert_array_equal(y.compute(), np.cumsum(numbers))
        assert ended


def test_what_raises_is_left_to_a_run_of_its_own(ended, monkeypatch):
    real = scan_section.Section.run

    def run(self, at, *blocks):
        if at == 5:
            raise ValueError("five")
        return real(self, at, *blocks)

    monkeypatch.setattr(scan_section.Section, "run", run)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        y = client.persist(gr.cumsum(in_memory(client, np.arange(SIZE * CHUNKS)), axis=0))
        distributed.wait(y, timeout=30)
        status = [future.status for future in sorted(distributed.futures_of(y), key=lambda f: f.key)]
        assert [i for i, each in enumerate(status) if each == "error"] == [5]
        assert set(status) == {"error", "finished"}


def test_what_stands_before_each_chunk_goes_to_a_gpu_together(monkeypatch):
    """The last of a line finds nothing behind it, the last of another section does."""
    moves = []
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=nullcontext)))
    monkeypatch.setattr(scan_section.chunk, "is_device", lambda x: isinstance(x, SimpleNamespace))
    monkeypatch.setattr(scan_section.chunk, "to_device", lambda partials, bound: moves.append(partials) or partials)
    scan = scan_section.Scan(gr.OPERATORS["sum"].bind(np.dtype("f4")), 0)
    totals = [(pickle.loads(pickle.dumps(np.full(1, n, scan.bound.state))), None) for n in (1, 2, 4, 8)]
    block = SimpleNamespace(data=SimpleNamespace(device_id=0))
    for count in (3, 4):
        section = scan_tasks.bases([totals[:count]], [(0, i) for i in range(count)], [0] * 4, None, scan)
        carries = [section._carries(block)[i] for i in range(4)]
        assert carries[0] is None and [c["value"][0] for c in carries[1:]] == [1, 3, 7]
    assert len(moves) == 2 and {each.dtype for each in moves} == {scan.bound.state}


def a_worker():
    """One thread that runs a task, and two that wait; checked by dask's own rules as they change state."""
    state = machine.WorkerState(nthreads=1, validate=True)
    worker = SimpleNamespace(state=state, address="a", threads=state.threads, said=[])
    worker.handle_stimulus = lambda *events: worker.said.extend(state.handle_stimulus(*events))
    for number, key in enumerate("abc"):
        worker.handle_stimulus(
            machine.ComputeTaskEvent.dummy(key, run_id=number, priority=(number,), stimulus_id=f"compute-{key}")
        )
    assert [state.tasks[key].state for key in "abc"] == ["executing", "ready", "ready"]
    del worker.said[:]
    return worker


def done(worker, key, run_id):
    return worker.state.tasks[key], run_id, key.upper(), 1, 0.0, 1.0


def test_the_worker_ends_them_as_what_a_thread_has_run():
    worker = a_worker()
    neighbours._end(worker, [done(worker, "b", 1), done(worker, "c", 2)], 7)
    assert dict(worker.state.data) == {"b": "B", "c": "C"}
    assert [(type(said), said.key, said.run_id, said.thread) for said in worker.said] == [
        (machine.TaskFinishedMsg, "b", 1, 7),
        (machine.TaskFinishedMsg, "c", 2, 7),
    ]
    assert worker.state.executing == {worker.state.tasks["a"]} and not worker.state.ready


def test_a_task_that_was_taken_back_or_is_of_another_run_stays_as_it_is():
    worker = a_worker()
    late = [done(worker, "b", 1), done(worker, "c", 9)]
    worker.handle_stimulus(machine.FreeKeysEvent(keys=["b"], stimulus_id="free-b"))
    del worker.said[:]
    neighbours._end(worker, late, 7)
    assert not worker.state.data and not worker.said
    assert [task.key for task in worker.state.ready] == ["c"]
    assert not any(isinstance(said, machine.Execute) for said in worker.said)
