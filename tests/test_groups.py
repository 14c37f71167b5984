"""How chunks are dealt to groups."""

from __future__ import annotations

import math
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from hypothesis import given
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask import planner

MIB = 2**20
WORKERS = ("a", "b", "c")

holders = st.lists(st.lists(st.sampled_from(WORKERS), max_size=3, unique=True), min_size=1, max_size=40)
threads = st.fixed_dictionaries({w: st.integers(1, 4) for w in WORKERS})
sizes = st.sampled_from([0, 8, MIB, 100 * MIB, math.nan])


@given(st.integers(1, 200), st.integers(1, 50))
def test_in_order_is_a_partition_of_even_stretches(chunks, size):
    groups = planner.even_stretches(chunks, size)
    assert [i for g in groups for i in g.members] == list(range(chunks))
    lengths = [len(g.members) for g in groups]
    assert max(lengths) <= size and max(lengths) - min(lengths) <= 1


@given(holders, threads, st.integers(1, 9), sizes)
def test_by_worker_is_a_partition_that_keeps_order(held, threads, slices, chunk_bytes):
    groups = planner.by_worker(held, threads, slices, chunk_bytes, {})
    assert sorted(i for g in groups for i in g.members) == list(range(len(held)))
    for g in groups:
        assert list(g.members) == sorted(g.members)
        assert all(g.worker in held[i] for i in g.members if held[i])
    for worker in WORKERS:
        assert sum(g.worker == worker for g in groups) <= threads[worker]


@given(holders, threads, st.integers(1, 7))
def test_smaller_cuts_and_loses_nothing(held, threads, size):
    groups = planner.smaller(planner.by_worker(held, threads, 1, MIB, {}), size)
    assert sorted(i for g in groups for i in g.members) == list(range(len(held)))
    assert max(len(g.members) for g in groups) <= size


def test_groups_follow_threads_not_chunks():
    for chunks in (64, 1024, 65536):
        size = planner.to_make(chunks, 1, 4, 1.0)
        assert len(planner.even_stretches(chunks, size)) == 4 * planner.GROUPS_PER_THREAD
    assert planner.to_make(3, 1, 4, 1.0) == 1
    assert planner.to_make(64, 1000, 4, 1.0) == 64  # slices alone keep the threads busy


def test_slices_of_large_partials_are_dealt_to_threads():
    assert planner.sets_of_slices(16, 2, 2, 24 * MIB) == [range(8), range(8, 16)]
    assert [len(each) for each in planner.sets_of_slices(16, 4, 2, MIB)] == [4] * 4
    most = planner.EXCHANGED_BYTES / MIB
    assert [len(each) for each in planner.sets_of_slices(16, 2, 2, most / 8 * MIB)] == [4] * 4  # so much fits
    few = [(16, 2, 1, MIB), (16, 16, 4, MIB), (1, 1, 2, MIB), (16, 2, 2, most * MIB), (16, 2, 2, math.nan)]
    assert not any(planner.sets_of_slices(*each) for each in few)
    assert planner.sets_of_slices(9, 2, 2, 0.0) == [range(4), range(4, 9)]


def test_groups_of_processes_are_stretches_of_a_power_of_two():
    assert [planner.by_processes(size) for size in (1, 2, 3, 4, 9)] == [1, 2, 2, 4, 4]
    assert [each.members for each in planner.fixed_stretches(9, 4)] == [range(4), range(4, 8), range(8, 9)]


def test_bytes_that_a_group_makes_are_bounded():
    chunk = planner.MAX_MADE_BYTES // 10
    assert planner.to_make(10**6, 1, 1, chunk) == 10
    assert planner.in_memory(10**6, 1, 1, chunk) == 10**6  # they are made already, and read again in no time
    assert planner.to_make(100, 1, 1, math.nan) == 25


BARS = {
    "sum": gr.sum,
    "argmax": gr.argmax,
    "histogram": lambda x: gr.histogram(x, 10, (0, 1))[0],
    "stats": lambda x: gr.stats(x, ["mean", "max"]),
}


@pytest.mark.parametrize("name", BARS)
def test_bars_of_progress_follow_the_chunks(name):
    """A bar shows the share of tasks that have ended: that of the chunks that were made, but for less than a third."""
    made, shown = [], []

    def make(block):
        made.append(block.shape)
        return block

    class Bar(Callback):
        def _posttask(self, key, result, dsk, state, worker_id):
            left = sum(len(state[name]) for name in ("ready", "waiting", "running"))
            shown.append((len(state["finished"]) / (len(state["finished"]) + left), len(made) / 128))

    x = da.zeros(128 * 100, chunks=100).map_blocks(make, dtype="f8", meta=np.zeros(0))
    with Bar():
        dask.compute(BARS[name](x), scheduler="sync")
    assert len(made) == 128 and len(shown) >= 5 and shown[-1] == (1, 1)
    assert all(abs(bar - chunks) < 1 / 3 for bar, chunks in shown), shown


def test_bars_of_progress_move_where_partials_are_small():
    chunk = planner.STEP_BYTES // 4
    assert planner.to_make(128, 1, 2, chunk, 8.0) == 4  # 32 tasks, where four for each thread were of 16 chunks
    assert planner.to_make(128, 1, 2, chunk, planner.STEP_PARTIALS_BYTES) == 16  # partials that had to wait together
    assert planner.to_make(128, 1, 2, chunk) == 16
    assert planner.to_make(128, 1, 2, math.nan, 8.0) == 8  # of unknown size: eight tasks a thread
    assert planner.to_make(128, 1, 2, 100, 8.0) == 8
    assert planner.to_make(60, 1, 2, 100, 8.0) == 8  # four a thread are of eight chunks: no more tasks
    assert planner.to_make(256, 1, 2, 100, 8.0) == 16
    assert planner.to_make(1024, 1, 2, MIB, 8.0) == 32  # small chunks may take long
    assert planner.to_make(10**5, 1, 32, 8192, 8.0) == 196  # 16 tasks a thread
    assert planner.to_make(1024, 1, 2, MIB) == 128
    assert planner.to_make(1000, 4, 2, MIB, 8.0) == 125


def test_lazy_host_chunks_are_made_in_small_steps():
    x = da.ones((1 << 16, 1 << 14), chunks=(1 << 12, 1 << 12))  # 64 of 128 MiB
    with dask.config.set(scheduler="threads", num_workers=1):
        tasks = {key for key in gr.mean(x).__dask_graph__() if key[0].startswith("gr-mean-group")}
        assert len(tasks) == 32
        wide = {key for key in gr.mean(x, axis=0).__dask_graph__() if key[0].startswith("gr-mean-group")}
        assert len(wide) == 32


def test_many_slices_are_made_several_a_task():
    assert planner.slices_per_task(16, 16, 2, 32 * MIB, math.inf, MIB) == 2  # eight tasks for two threads
    assert planner.slices_per_task(16, 15, 2, 32 * MIB, math.inf, MIB) == 1
    assert planner.slices_per_task(2, 1000, 4, MIB, 8.0, 8.0) == 62
    chunk = planner.STEP_BYTES // 4
    assert planner.slices_per_task(2, 1000, 1, chunk, 8.0, 8.0) == 2  # so that bars of progress move
    assert planner.slices_per_task(2, 1000, 1, chunk, math.inf, 8.0) == 16  # what one task makes at most
    assert planner.slices_per_task(2, 1000, 1, MIB, 8.0, planner.RESULTS_BYTES / 3) == 3  # which leave it together


def _tasks(*arrays):
    (graph, *_) = dask.optimize(*arrays)
    return [key for key in graph.__dask_graph__() if "group" in str(key)]


@pytest.mark.parametrize("name", ["mean", "argmax", "prod"])
def test_slices_in_turn_give_what_each_gives_alone(name):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(6, 120)).astype("f4")
    data[2, ::7] = data[4, ::7]
    reads = Counter()

    def read(block, block_id=None):
        reads[block_id] += 1
        return block

    x = da.from_array(data, chunks=(2, 3)).map_blocks(read, dtype="f4", meta=data[:0, :0])
    with dask.config.set(scheduler="threads", num_workers=2):
        result = getattr(gr, name)(x, axis=0)
        found = result.compute()
        assert found.tobytes() == getattr(gr, name)(da.from_array(data, chunks=(2, 120)), axis=0).compute().tobytes()
        assert len(_tasks(result)) == 8 and set(reads.values()) == {1}
        reads.clear()
        part = result[3:9].compute()  # of two slices, of which nothing else is read
        assert part.tobytes() == found[3:9].tobytes()
        assert sum(reads.values()) == 6
        blocks = result.persist()
        assert blocks.compute().tobytes() == found.tobytes()


def test_slices_in_turn_of_several_reductions():
    data = np.arange(6 * 120.0).reshape(6, 120)
    reads = Counter()

    def read(block, block_id=None):
        reads[block_id] += 1
        return block

    x = da.from_array(data, chunks=(2, 3)).map_blocks(read, dtype="f8", meta=data[:0, :0])
    with dask.config.set(scheduler="threads", num_workers=2):
        mean, largest = dask.compute(gr.mean(x, axis=0), gr.max(x, axis=0))
        assert set(reads.values()) == {1}
        np.testing.assert_array_equal(mean, data.mean(0))
        np.testing.assert_array_equal(largest, data.max(0))
        many = gr.stats(x, ["mean", "max", "var"], axis=0)
        np.testing.assert_array_equal(many["max"].compute(), data.max(0))
        total = gr.sum(gr.mean(x, axis=0) - x, axis=1)  # the mean is another reduction's operand
        np.testing.assert_allclose(total.compute(), (data.mean(0) - data).sum(1))


def test_small_chunks_in_memory_are_one_task():
    assert planner.in_memory(100, 1, 8, 8.0) == 100
    assert planner.in_memory(100, 1, 8, 100 * MIB) == 13
    assert planner.in_memory(100, 1, 8, math.nan) == 100


def test_memory_bounds_what_a_task_reads():
    groups = planner.by_worker([("a",)] * 16, {"a": 1}, 1, 100.0, {"a": 1600.0})
    assert max(len(g.members) for g in groups) == 4
    groups = planner.by_worker([("a",)] * 16, {"a": 2}, 1, 100.0, {"a": 1600.0})
    assert max(len(g.members) for g in groups) == 2


def test_copies_are_shared_out():
    groups = planner.by_worker([("a", "b")] * 8, {"a": 1, "b": 1}, 1, MIB, {})
    assert [len(g.members) for g in groups] == [4, 4]


def test_a_chunk_that_nobody_holds_follows_its_neighbour():
    groups = planner.by_worker([(), ("b",), (), ("a",), ()], {"a": 1, "b": 1}, 1, 1.0, {})
    assert {g.worker: list(g.members) for g in groups} == {"b": [0, 1, 2], "a": [3, 4]}
    assert len(planner.by_worker([(), ()], {}, 1, 1.0, {})) == 1


@pytest.mark.parametrize(
    ("members", "want"),
    [([0, 1, 2], [range(3)]), ([0, 2, 3, 7], [range(1), range(2, 4), range(7, 8)]), ([], [])],
)
def test_runs(members, want):
    assert planner.runs(members) == want


def test_neighbours_are_a_range():
    assert planner.as_range([3, 4, 5]) == range(3, 6)
    assert planner.as_range([3, 5]) == (3, 5)
