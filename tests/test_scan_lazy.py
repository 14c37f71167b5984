"""Lazy chunks of a scan on a cluster: each is made once, and nothing of them is left behind."""

from __future__ import annotations

import gc
import time
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster

import gpureduce_dask as gr

distributed = pytest.importorskip("distributed")

made: Counter[int] = Counter()


@pytest.fixture(scope="module")
def client():
    with (
        local_cluster(2, processes=False) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def make(first, step, block_info=None):
    """A chunk that counts how often it is made. Others of other numbers have other keys, which no test has left."""
    start = first + block_info[None]["array-location"][0][0]
    made[int(start)] += 1
    return np.arange(start, start + step)


def lazy(first, chunks=20, step=5):
    made.clear()
    return da.map_blocks(make, first, step, chunks=((step,) * chunks,), dtype=int, meta=np.empty(0, int))


CASES = {
    "sum": lambda x: (gr.cumsum(x, axis=0), np.cumsum),
    "from the end": lambda x: (gr.scan(x, "sum", axis=0, reverse=True), lambda x: np.cumsum(x[::-1])[::-1]),
    "exclusive": lambda x: (gr.scan(x, "sum", axis=0, exclusive=True), lambda x: np.cumsum(x) - x),
    "some": lambda x: (gr.cumsum(x, axis=0)[12:61], lambda x: np.cumsum(x)[12:61]),
}


@pytest.mark.parametrize("case", CASES)
def test_each_chunk_is_made_once(client, case):
    first = 1000 * [*CASES].index(case)
    y, wanted = CASES[case](lazy(first))
    np.testing.assert_array_equal(y.compute(), wanted(np.arange(first, first + 100)))
    assert set(made.values()) == {1} and len(made) >= 13


def test_chunks_that_others_need_are_made_once(client):
    x = lazy(5000)
    y, top = dask.compute(gr.cumsum(x, axis=0), x.max())
    np.testing.assert_array_equal(y, np.cumsum(np.arange(5000, 5100)))
    assert top == 5099 and set(made.values()) == {1}
    x = lazy(6000)
    y, x = dask.persist(gr.cumsum(x, axis=0), x)
    np.testing.assert_array_equal(y.compute(), np.cumsum(np.arange(6000, 6100)))
    np.testing.assert_array_equal(x.compute(), np.arange(6000, 6100))
    assert set(made.values()) == {1}


def slow_copy(block):
    time.sleep(0.02)
    return block.copy()


def left(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks]


@pytest.mark.parametrize("first", ["alone", "with a reduction"])
def test_one_scan_in_two_graphs_leaves_no_tasks(client, first):
    """Were the tasks of a scan others where something else needs its chunks, under the same keys, those that the second
    graph brings would be there for good, and ``client.restart()`` would fail from then on."""
    numbers = np.arange(7000, 7100) + 1000 * (first != "alone")
    x = da.arange(numbers[0], numbers[-1] + 1, chunks=5).map_blocks(slow_copy)
    y = gr.cumsum(x, axis=0)
    graphs = [[y], [y, gr.max(x)]]
    futures = [client.compute(each) for each in (graphs if first == "alone" else graphs[::-1])]
    for each in futures:
        np.testing.assert_array_equal(each[0].result(timeout=30), np.cumsum(numbers))
    del futures, each, graphs, x, y
    gc.collect()
    end = time.monotonic() + 10
    while client.run_on_scheduler(left):
        assert time.monotonic() < end, client.run_on_scheduler(left)
        time.sleep(0.05)
