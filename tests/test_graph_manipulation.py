"""dask's ``clone``, ``bind``, ``checkpoint`` and ``wait_on`` of our trees: names are new, results and order stay."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from dask.graph_manipulation import bind, checkpoint, clone, wait_on

import gpureduce_dask as gr

REF = np.arange(96 * 8.0).reshape(96, 8)
log = []


def note(block, what):
    log.append(what)
    return block


def noted(what):
    return da.from_array(REF, chunks=(8, 4)).map_blocks(note, what, meta=np.empty((0, 0)))


TREES = {
    "sum": (gr.sum, REF.sum()),
    "in order": (lambda x: gr.argmax(x, axis=0), REF.argmax(0)),
    "narrow": (lambda x: gr.max(x, axis=0, split_every=2), REF.max(0)),
    "scan": (lambda x: gr.cumsum(x, axis=0), REF.cumsum(0)),
    "two": (lambda x: gr.sum((x - gr.mean(x)) ** 2), ((REF - REF.mean()) ** 2).sum()),
    "many": (lambda x: gr.stats(x, ["min", "max"])[1], REF.max()),
}


@pytest.fixture(autouse=True)
def here():
    log.clear()
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(params=["lazy", "in memory"])
def x(request):
    x = noted("chunk")
    return x if request.param == "lazy" else x.persist()


@pytest.mark.parametrize("name", TREES)
def test_copies(x, name):
    grow, want = TREES[name]
    y = grow(x)
    for copy in (clone(y), clone(y, omit=x), bind(y, checkpoint(noted("first"))), wait_on(y)):
        assert copy.name != y.name
        np.testing.assert_allclose(copy.compute(), want)
    assert checkpoint(y).compute() is None


@pytest.mark.parametrize("name", TREES)
def test_what_is_bound_comes_later(x, name):
    grow, _ = TREES[name]
    y = grow(x).map_blocks(note, "last", meta=np.empty(0))
    log.clear()
    bind(y, noted("first"), omit=x).compute()
    assert log.index("last") > max(i for i, what in enumerate(log) if what == "first")
    assert log.count("first") == x.npartitions
