"""Lazy chunks of a scan are made a section at a time, once, where nothing else needs them."""

from __future__ import annotations

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.trees import stream

distributed = pytest.importorskip("distributed")

SECTION = 8
made: Counter[int] = Counter()


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def client(request):
    with (
        distributed.LocalCluster(
            n_workers=request.param, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def count(block):
    made[int(block.flat[0])] += 1
    return block.copy()


def turned(block):
    return -block


def lazy(numbers, chunks):
    """Chunks that count how often each is made; other numbers have other keys, which no earlier test has left."""
    made.clear()
    return da.from_array(numbers, chunks=chunks).map_blocks(count, dtype=numbers.dtype, meta=numbers[:0])


def optimized(y):
    return stream.OPTIMIZE(y.__dask_graph__(), y.__dask_keys__())


def makers(y):
    return sum("-made" in str(key[0]) for key in optimized(y))


CASES = {
    "sum": lambda x: (gr.cumsum(x, axis=0), np.cumsum(x, axis=0)),
    "from the end": lambda x: (gr.scan(x, "sum", axis=0, reverse=True), np.cumsum(x[::-1], axis=0)[::-1]),
    "exclusive": lambda x: (gr.scan(x, "sum", axis=0, exclusive=True), np.cumsum(x, axis=0) - x),
    "one line": lambda x: (gr.cumsum(x), np.cumsum(x)),
}


@pytest.mark.parametrize("case", CASES)
def test_each_chunk_is_made_once_with_others_of_its_section(client, case):
    numbers = np.arange(60 * 4).reshape(60, 4) + 1000 * [*CASES].index(case)
    x = lazy(numbers, (3, 4))
    y, want = CASES[case](x)[0], CASES[case](numbers)[1]
    assert makers(y) == -(-20 // SECTION)
    np.testing.assert_array_equal(y.compute(), want)
    assert set(made.values()) == {1} and len(made) == 20


def test_lines_side_by_side_and_operators_of_two_arrays(client):
    numbers = np.random.default_rng(0).normal(size=(40, 6))
    x = da.from_array(numbers, chunks=(2, 3)).map_blocks(turned)
    y = gr.cummax(x, axis=0)
    assert makers(y) == 2 * -(-20 // SECTION)
    np.testing.assert_array_equal(y.compute(), np.maximum.accumulate(-numbers, 0))
    decay = da.full((40, 6), 0.5, chunks=(2, 3))
    y, want = gr.scan((decay, x), "affine", axis=0), [-numbers[0]]
    for row in -numbers[1:]:
        want.append(0.5 * want[-1] + row)
    assert makers(y)
    np.testing.assert_allclose(y.compute(), want)


def test_random_chunks_come_along_whether_dask_has_fused_what_makes_them_or_not(client):
    x = da.random.default_rng(0).random(100, chunks=5) * 2
    for _ in range(5):  # which it does in an order of its own
        assert makers(gr.cumsum(x + 0, axis=0)) == -(-20 // SECTION)
    np.testing.assert_allclose(gr.cumsum(x, axis=0).compute(), np.cumsum(x.compute()))


def test_chunks_that_others_need_stay_tasks_and_are_made_once(client):
    numbers = np.arange(100)
    x = lazy(numbers, 5)
    y, top = dask.compute(gr.cumsum(x, axis=0), x.max())
    np.testing.assert_array_equal(y, np.cumsum(numbers))
    assert top == 99 and set(made.values()) == {1}
    numbers = np.arange(2000, 2100)
    x = lazy(numbers, 5)
    y, x = dask.persist(gr.cumsum(x, axis=0), x)
    np.testing.assert_array_equal(y.compute(), np.cumsum(numbers))
    np.testing.assert_array_equal(x.compute(), numbers)
    assert set(made.values()) == {1}


def test_chunks_made_of_some_on_workers_stay_where_these_are(client):
    x = da.from_array(np.arange(3000, 3020), chunks=5).map_blocks(turned).persist()
    distributed.wait(x, timeout=30)
    y = gr.cumsum(x.map_blocks(turned), axis=0)
    assert not makers(y)
    np.testing.assert_array_equal(y.compute(), np.cumsum(np.arange(3000, 3020)))


def test_some_of_the_results_alone(client):
    numbers = np.arange(1000, 1100)
    np.testing.assert_array_equal(gr.cumsum(lazy(numbers, 5), axis=0)[12:61].compute(), np.cumsum(numbers)[12:61])
    assert set(made.values()) == {1}
    assert gr.cumsum(lazy(numbers, 5), axis=0).sum().compute() == np.cumsum(numbers).sum()


def test_sections_that_do_not_fit_a_worker_are_made_one_by_one():
    x = da.ones(10**6, chunks=10**5).map_blocks(turned)  # 6.4 MB a section
    for limit, fits in (("60MB", True), ("20MB", False)):
        with (
            dask.config.set({"distributed.worker.memory.pause": False, "distributed.worker.memory.terminate": False}),
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, memory_limit=limit
            ) as cluster,
            distributed.Client(cluster),
        ):
            assert bool(makers(gr.cumsum(x, axis=0))) == fits


def test_without_a_cluster_chunks_are_tasks():
    with dask.config.set(scheduler="sync"):
        assert not makers(gr.cumsum(lazy(np.arange(100), 5), axis=0))
