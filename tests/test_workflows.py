"""Daily work with files and calendars gives plain dask's answers under ``gr.accelerate(numpy=True)``, and takes no more
tasks, reads or processes: each operation of ``bench workflows`` at a small size."""

from __future__ import annotations

import dask
import numpy as np
import pytest
from tiers import one_in

from gpureduce_dask.tools.bench.workflows import data, measure, run
from gpureduce_dask.tools.bench.workflows.operations import Fields, operations

OPERATIONS = operations()
LATENCY = 0.002  # seconds that a stored chunk takes to come, so that reads overlap where they can
ELSEWHERE = [
    name for name in OPERATIONS if name.startswith(("t.mean(time", "da.from_", "open_zarr", "t.resample(MS).mean"))
]


@pytest.fixture(scope="module")
def opener(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workflows")
    data.write(folder, data.SMALL)
    return data.Opener(folder, data.Log(folder / "log", LATENCY), data.SMALL)


@pytest.fixture(scope="module")
def lazy(opener):
    return Fields.opened(opener)


@pytest.fixture(scope="module")
def in_memory(lazy):
    return lazy.persisted()


def check(name, fields, opener, where=None):
    row = measure.measure(OPERATIONS[name], fields, where or measure.Local(), opener.log, repeats=(0, 0))
    assert "error" not in row, row["error"]
    assert not row["wrong"]
    assert not row["worse"]
    return row


@pytest.mark.parametrize("name", one_in(4, OPERATIONS))
def test_from_files(name, lazy, opener):
    with dask.config.set(scheduler="threads", num_workers=4):
        check(name, lazy, opener)


@pytest.mark.parametrize("name", one_in(2, [name for name in OPERATIONS if not name.startswith(data.WAYS)]))
def test_in_memory(name, in_memory, opener):
    with dask.config.set(scheduler="sync"):
        check(name, in_memory, opener)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["processes", "distributed"])
def test_on_other_schedulers(scheduler, lazy, opener):
    with run.place(scheduler) as where:
        for name in ELSEWHERE:
            check(name, lazy, opener, where)


@pytest.mark.skipif(not measure.peak(), reason="nothing tells of a process's memory")
def test_memory_of_processes_that_run_tasks_counts():
    more = 100 * 2**20
    with run.place("processes") as where:
        where.compute(dask.delayed(abs)(-1))  # starts one
        where.reset()
        before = where.peak()  # of the largest process, which is this one
        total = before + more
        assert where.compute(dask.delayed(fill)(total)) == total
        assert where.peak() > before + more // 2
        where.reset()
        assert where.peak() < before + more // 2


def fill(size):
    return int(np.ones(size, "u1").sum())


def test_fewer_reads_at_a_time_are_worse_where_reads_wait():
    runs = {"plain": measure.Run(at_a_time=4), "ours": measure.Run(at_a_time=3)}
    assert not measure.worse(runs, latency=0.05)
    runs["ours"].at_a_time = 2
    assert measure.worse(runs, latency=0.05) == ["2 reads at a time for 4"]
    assert not measure.worse(runs)


def test_a_row_says_why_calls_were_left(lazy, opener):
    names = ["t.resample(MS).mean", "t.median(time)", "t.mean(time)", "to_zarr of results"]
    rows = [{"operation": name} | check(name, lazy, opener) for name in names]
    lines = [run.describe(row) for row in rows]
    assert "left to dask: nanmean of (6, 8, 730) float32 over axis 2 in 24 groups: each group lies in few" in lines[0]
    assert lines[1].endswith("left to dask: no reduction, scan or group that this package has")
    assert lines[2].endswith("taken: nanmean")
    assert "taken: nanmax, nanmean, nanstd" in lines[3]
    table = run.table({"workflows": rows}).splitlines()
    assert table[2].endswith(
        "| left to dask: each group lies in few chunks, and flox reduces these by themselves as fast |"
    )
    assert table[4].endswith("| nanmean |")
