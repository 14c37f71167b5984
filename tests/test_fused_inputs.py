"""Views of a group's inputs on a GPU, and functions of them, are reduced together: what the task asks of the GPU, with
CuPy arrays over memory of the host."""

from __future__ import annotations

import itertools

import dask
import dask.array as da
import numpy as np
import pytest

pytest.importorskip("cupy", reason="its arrays lie over memory of the host")
pytest.importorskip("distributed")

import distributed
from clusters import local_cluster
from simt.backend import put

import gpureduce_dask as gr
from gpureduce_dask.graph import deferred, sources, views

FORMS = {
    "as they are": lambda x: x.map_blocks(lambda b: b, meta=x._meta),
    "slices": lambda x: x[::3, 1:],
    "one element of each row": lambda x: x[:, ::50],
    "slices of slices": lambda x: x[1:-1][:, ::-1],
    "cast": lambda x: x.astype("f8") + 1,
    "mapped": lambda x: (x - np.float32(0.5)) ** 2,
    "mapped slices": lambda x: da.where(x[1:] > 0.5, x[1:], np.nan),
}


@pytest.fixture(scope="module")
def x():
    one = local_cluster(1, processes=False)
    with one as cluster, distributed.Client(cluster):
        found = da.ones((300, 400), chunks=(100, 100), dtype="f4").persist()
        distributed.wait(found)
        yield found


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("form", FORMS)
def test_a_slice_is_reduced_at_once(x, monkeypatch, form, axis):
    monkeypatch.setattr(sources, "KNOWN_PACKAGES", {*sources.KNOWN_PACKAGES, __name__})  # functions that take no time
    monkeypatch.setattr(views, "select_source", lambda *_: None)  # handles are another way
    (optimised,) = dask.optimize(gr.nanmax(FORMS[form](x), axis=axis))
    together: list[list[tuple[int, ...]]] = []

    def reduce_many(chunks, bound, axes, places=None):
        together.append([each[0].shape for each in chunks])
        return np.zeros([1 if a in axes else n for a, n in enumerate(chunks[0][0].shape)], bound.state)

    monkeypatch.setattr(deferred.chunk, "reduce_many", reduce_many)
    monkeypatch.setattr(deferred.chunk, "reduce", lambda *given: pytest.fail("a chunk is reduced alone"))
    tasks = [node for node in dict(optimised.dask).values() if len(getattr(node, "dependencies", ())) == x.npartitions]
    assert len(tasks) == 1
    tasks[0]({key: put(np.ones((100, 100), "f4")) for key in tasks[0].dependencies})
    assert sum(map(len, together)) == x.npartitions
    assert len(together) == (1 if axis is None else x.numblocks[1 - axis if "transposed" not in form else axis])
    for shapes in together:  # those of one shape next to each other, for one launch
        changes = sum(a != b for a, b in itertools.pairwise(shapes))
        assert changes == len(set(shapes)) - 1
