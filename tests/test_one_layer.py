"""Graphs of chunks in memory and one layer of ours: optimised in one look at each task, as dask optimises them."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.array.optimization import optimize

import gpureduce_dask as gr
from gpureduce_dask.graph import fusion

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def x():
    with (
        local_cluster(2, processes=False) as cluster,
        distributed.Client(cluster) as client,
    ):
        x = client.persist(da.from_array(np.arange(96.0).reshape(24, 4), chunks=(2, 2)).map_blocks(np.copy))
        distributed.wait(x, timeout=30)
        yield x


MADE = {
    "sum": lambda x: gr.sum(x),
    "sum along rows": lambda x: gr.sum(x, axis=1),
    "cumsum": lambda x: gr.cumsum(x, axis=0),
    "cummax of all": lambda x: gr.cummax(x[:, :2].persist()),
}


def needs(graph):
    return {key: set(node.dependencies) for key, node in graph.items()}


@pytest.mark.parametrize("case", MADE)
def test_as_dask_does_it(x, case):
    y = MADE[case](x)
    every = set(da.core.flatten(y.__dask_keys__()))
    for wanted in (every, {min(every)}):
        found = fusion._of_one_layer(y.dask, wanted)
        assert needs(found) == needs(optimize(y.dask, wanted))


def test_others_are_left_to_dask(x):
    y = gr.cumsum(x, axis=0)
    for z in (y + 1, gr.cumsum(x + 1, axis=0), x):
        assert fusion._of_one_layer(z.dask, set(da.core.flatten(z.__dask_keys__()))) is None
    both = set(da.core.flatten([x.__dask_keys__(), y.__dask_keys__()]))
    assert fusion._of_one_layer(y.dask, both) is None
    np.testing.assert_array_equal(*(a.compute() for a in (y, da.cumsum(x, axis=0))))


def test_a_scan_travels_as_what_its_tasks_follow_from():
    """Not as its tasks, whether or not they are written down already; with the annotations it was made with."""
    x = da.ones(4000, chunks=4)
    with dask.annotate(priority=5):
        y = gr.cumsum(x, axis=0)
    layer = y.dask.layers[y.name]
    sent = pickle.dumps(layer)
    tasks = dict(layer)
    assert len(tasks) > y.npartitions and len(pickle.dumps(tasks)) > 20 * len(sent)
    assert len(pickle.dumps(layer)) == len(sent)
    found = pickle.loads(sent)
    assert found.annotations == {"priority": 5}
    assert needs(found) == needs(tasks)
    assert [found[key] for key in tasks] == list(tasks.values())
