"""Elementwise steps before a scan are computed by the scan's own tasks, and not held as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask._task_spec import Task

import gpureduce_dask as gr
from gpureduce_dask.graph import fusion
from gpureduce_dask.graph.scan_tasks import Scan

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        local_cluster(2, processes=False) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def x(client: Any) -> Any:
    values = np.random.default_rng(3).normal(size=(90, 300)).astype("f4")
    array = da.from_array(values, chunks=(20, 110)).persist()
    distributed.wait(array)
    return array


def tasks_of(array: Any) -> list[str]:
    """What a graph runs, by the names of keys, as it would be sent."""
    graph = fusion.OPTIMIZE(array.dask, array.__dask_keys__())
    keys = [key for key, node in graph.items() if isinstance(node, Task)]
    return sorted(str(key[0] if isinstance(key, tuple) else key).rpartition("-")[0] for key in keys)


SCANS = {
    "down": lambda a: gr.cumsum(a, 0),
    "along": lambda a: gr.cumsum(a, 1),
    "backwards, exclusive": lambda a: gr.scan(a, "sum", axis=1, exclusive=True, reverse=True),
    "with an initial one": lambda a: gr.cumulative_sum(a, axis=0, include_initial=True),
    "maxima": lambda a: gr.cummax(a, 1),
    "positions": lambda a: gr.scan(a, "argmax", axis=0),
    "segments": lambda a: gr.scan(a, "sum", axis=1, segments=np.arange(300) // 37),
    "of another dtype": lambda a: gr.cumsum(a > 0.5, 0),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_of_steps(x, name):
    scan, steps = SCANS[name], (x * 2 - 1) * x
    got = scan(steps)
    assert not {"mul", "sub", "gt"} & set(tasks_of(got))
    wanted = scan(da.from_array(steps.compute(), chunks=x.chunks)).compute(scheduler="sync")
    np.testing.assert_array_equal(got.compute(), wanted)


def test_totals_are_found_where_chunks_lie(x):
    """Not by a task for each of the twelve chunks that have another behind them."""
    assert sum(name in ("gr-cumsum-total", "gr-cumsum-carry") for name in tasks_of(gr.cumsum(x * 2, 0))) <= 3 * (2 + 1)


def test_one_worker_finds_totals_and_puts_them_in_order_in_one_task():
    """Steps are computed there too."""
    with (
        local_cluster(1, processes=False) as cluster,
        distributed.Client(cluster),
    ):
        values = np.random.default_rng(5).random((90, 300))
        array = da.from_array(values, chunks=(20, 110)).map_blocks(np.copy).persist()
        distributed.wait(array)
        got = gr.cumsum((array - 0.5) * 2, 0)
        assert tasks_of(got) == ["gr-cumsum"] * array.npartitions + ["gr-cumsum-carry"]
        np.testing.assert_allclose(got.compute(), np.cumsum((values - 0.5) * 2, 0), atol=1e-12)


def test_two_arrays(x):
    got = gr.scan((x * 0.5, x + 1), "affine", axis=1)
    wanted = gr.scan(tuple(da.from_array(a.compute(), chunks=x.chunks) for a in (x * 0.5, x + 1)), "affine", axis=1)
    assert all(name.startswith("gr-") for name in tasks_of(got))
    np.testing.assert_array_equal(got.compute(), wanted.compute(scheduler="sync"))


@pytest.mark.parametrize(
    "array",
    [
        lambda x: np.log(np.abs(x) + 1),  # would be computed twice, which takes longer than to hold it
        lambda x: x.map_blocks(np.sort),
        lambda x: da.random.default_rng(0).random(x.shape, chunks=x.chunks) * 2,
    ],
)
def test_costly_steps_are_done_once(x, array):
    steps = array(x)
    low = fusion.OPTIMIZE(*_together(gr.cumsum(steps, 0)))
    names = [key for key in low if not str(key[0]).startswith("gr-")]
    assert len(names) >= steps.npartitions - steps.numblocks[1]  # nothing but a line's last chunk is read once
    np.testing.assert_allclose(gr.cumsum(steps, 0)[-1].compute(), steps.sum(0).compute(), rtol=1e-4)


def test_a_gpu_computes_any_step_twice(x):
    steps = np.log(x)
    (log,) = da.optimize(steps.dask, [(steps.name, 0, 0)]).values()
    hows = ({}, {"device": True}, {"device": True, "flat": True}, {"device": True, "fuse": False})
    scan, on_device, flat, plain = (Scan(None, 0, **how) for how in hows)
    assert fusion._is_worth(log, [on_device, on_device])
    assert fusion._is_worth(log, [scan])  # the last chunk's, which has no total
    for scans in ([scan, scan], [on_device, flat], [plain, plain], [None]):
        assert not fusion._is_worth(log, scans)


def test_steps_that_something_else_needs_are_done_once(x):
    steps = x * 2
    low = fusion.OPTIMIZE(*_together(gr.cumsum(steps, 0), steps.map_blocks(np.sort)))
    assert sum(str(key[0]).startswith("mul") for key in low) == x.npartitions
    got, other = dask.compute(gr.cumsum(steps, 0), steps.sum())
    np.testing.assert_allclose(got[-1].sum(), other, rtol=1e-4)


def _together(*arrays: Any) -> tuple[Any, list[Any]]:
    graph = dask.highlevelgraph.HighLevelGraph.merge(*(a.dask for a in arrays))
    return graph, [a.__dask_keys__() for a in arrays]


def test_without_a_cluster():
    values = np.random.default_rng(4).random((90, 300))
    x = da.from_array(values, chunks=(20, 110)).map_blocks(np.copy).persist(scheduler="sync")
    for threads, step in ((1, "gr-cumsum-line"), (16, "gr-cumsum-carry")):
        with dask.config.set(scheduler="threads", num_workers=threads):
            got = gr.cumsum((x - 0.5) * 2, 0)
            assert set(tasks_of(got)) == {"gr-cumsum", step}
            np.testing.assert_allclose(got.compute(), np.cumsum((values - 0.5) * 2, 0), atol=1e-12)


def test_off(x):
    with dask.config.set({"gpureduce.fuse": False}):
        got = gr.cumsum(x * 2, 0)
    assert sum(name.startswith("mul") for name in tasks_of(got)) == x.npartitions
    np.testing.assert_array_equal(got.compute(), gr.cumsum(x * 2, 0).compute())
