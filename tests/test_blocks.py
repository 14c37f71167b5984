"""Fused functions written out as tasks: those that dask writes, and run without being put in order again."""

from __future__ import annotations

import dask
import dask.array as da
import dask.order
import numpy as np
import pytest
from dask.blockwise import Blockwise, fuse_roots, optimize_blockwise
from dask.core import flatten

import gpureduce_dask as gr
from gpureduce_dask.graph import fusion

pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")


def at(block, block_info=None, block_id=None):
    return block * block_info[0]["chunk-location"][0] + block_id[-1]


def ones():
    return da.ones((12, 8), chunks=(2, 4))


GRAPHS = {
    "chain": lambda: gr.sum((ones() - 0.5) ** 2),
    "positions": lambda: gr.argmax(ones() * 3 + 1, axis=0),
    "information on blocks": lambda: gr.var(ones().map_blocks(at, dtype=float) + 1),
    "one block for all": lambda: gr.max(ones() + da.ones((1, 8), chunks=(1, 4)) * da.ones(8, chunks=4)),
    "transposed": lambda: gr.sum(ones().T * 2 + 1, axis=1),
    "random": lambda: gr.min(da.random.default_rng(0).random((12, 8), chunks=(2, 4)) * 2 - 1),
    "some blocks": lambda: gr.sum((ones() + 1)[2:4] * 2),
    "another chunk's shape": lambda: gr.sum(da.map_blocks(np.tile, ones(), (2, 1), chunks=(4, 4), dtype=float) + 1),
    "delayed": lambda: gr.sum(ones() * da.from_delayed(dask.delayed(np.float64)(2), (), float) + 1),
}


def layers(array):
    keys = list(flatten(array.__dask_keys__()))
    return fuse_roots(optimize_blockwise(array.dask, keys=keys), keys=keys).cull(set(keys)).layers.values()


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_the_tasks_are_those_of_dask(make):
    array, count = make(), 0
    for layer in layers(array):
        ours = fusion._write(layer)
        if ours is not None:
            theirs = dict(layer)
            assert ours == theirs
            assert [ours[key].dependencies for key in theirs] == [task.dependencies for task in theirs.values()]
            count += len(ours)
    assert count >= 2
    np.testing.assert_allclose(array.compute(), array.compute(optimize_graph=False))


def test_chunks_of_several_chunks_are_written_by_dask():
    x = da.ones((8, 8), chunks=4)
    contracted = [
        layer for layer in layers(gr.sum(da.einsum("ij,jk->ik", x + 1, x + 2))) if isinstance(layer, Blockwise)
    ]
    assert contracted and any(fusion._write(layer) is None for layer in contracted)
    assert gr.sum(da.einsum("ij,jk->ik", x + 1, x + 2)).compute() == 8 * 8 * 8 * 2 * 3


def test_nothing_is_put_in_order_for_each_chunk(monkeypatch):
    calls, order = [], dask.order.order
    monkeypatch.setattr(dask.order, "order", lambda *args, **kwargs: calls.append(args) or order(*args, **kwargs))
    x = (da.ones(8 * 64, chunks=8).map_blocks(np.copy) - 0.5) ** 2
    assert gr.sum(x).compute(scheduler="sync") == 8 * 64 / 4
    assert len(calls) < 4
