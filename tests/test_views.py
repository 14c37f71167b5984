"""Arrays that are views of a persisted one: which are, what their chunks are made of, and their reductions."""

from __future__ import annotations

import gc
import itertools
import weakref

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.graph_manipulation import clone

import gpureduce_dask as gr
from gpureduce_dask.graph import deferred, group_task, meta, views
from gpureduce_dask.operators.table import OPERATORS

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHAPE, CHUNKS = (300, 420), (100, 140)
VIEWS = {
    "slices": lambda x: x[::3, 1:],
    "whole blocks and parts": lambda x: x[20:, :-1],
    "some blocks": lambda x: x[:150],
    "reversed": lambda x: x[::-1, ::-2],
    "slices of slices": lambda x: x[1:-1][:, ::-1],
    "transposed": lambda x: x.T,
    "slices, transposed": lambda x: x[::2].T,
    "transposed, slices": lambda x: x.T[5:, ::3],
    "one row of each block": lambda x: x[::100],
    "one row": lambda x: x[150],
    "transposed twice": lambda x: x.T.T,
    "one column": lambda x: x[::-1, 7],
    "an axis more": lambda x: x[:, None, 3:],
}
FUNCTIONS = {
    "mapped": lambda x: (x - np.float32(0.5)) ** 2,
    "where": lambda x: da.where(x > 0.5, x, np.nan),
    "of slices": lambda x: da.where(x[1:] > 0.5, abs(x[1:]), np.nan),
    "cast": lambda x: x.astype("f8") + 1,
    "turned": lambda x: da.sqrt(x[::-1].T[:, ::-1] + 1),
}
OTHERS = {
    "itself": lambda x: x,
    "of two blocks": lambda x: x[:280, :280] + x[:280, :280].T,
    "neighbours": lambda x: x[1:] - x[:-1],
    "of a result": lambda x: x - x.mean(),
    "of an array of the host": lambda x: x * np.arange(420, dtype="f4"),
    "that knows its place": lambda x: x.map_blocks(lambda b, block_info=None: b, dtype="f4"),
    "of any function": lambda x: x.map_blocks(np.sort),
    "other chunks": lambda x: x.rechunk((150, 420)),
    "two of them": lambda x: da.concatenate([x, x]),
    "chosen rows": lambda x: x[[0, 150, 299]],
    "slices of what is made": lambda x: (x * 2)[::2],
    "a transpose of what is made": lambda x: (x.T + 1).T * 2,
    "with overlap": lambda x: x.map_overlap(lambda b: b, depth=1),
}


@pytest.fixture(scope="module")
def ref():
    return np.random.default_rng(0).random(SHAPE, dtype="f4")


@pytest.fixture(scope="module")
def x(ref):
    one = local_cluster(1, threads=2, processes=False)
    with one as cluster, distributed.Client(cluster):
        found = da.from_array(ref, chunks=CHUNKS).persist()
        distributed.wait(found)
        yield found


@pytest.fixture
def on_gpu(monkeypatch):
    """Arrays pass for those of a GPU where graphs are built."""
    monkeypatch.setattr(meta, "promises_device", lambda _: True)


def find_view(x):
    candidate = views.find_candidate(x)
    return candidate and candidate.view()


def made(view, coords, ref):
    """A chunk, as the task of a group makes it."""
    at, cuts = view.parts[coords]
    part = tuple(slice(n * i, n * (i + 1)) for n, i in zip(CHUNKS, at, strict=True))
    have, cuts = {view.chain.takes: ref[part]}, iter(cuts)
    for node in view.chain.nodes:
        is_slice = node.func is deferred.SLICE
        have[node.key] = have[node.args[0].key][next(cuts)] if is_slice else node(have)
    return have[view.chain.gives]


@pytest.mark.parametrize("form", [*VIEWS, *FUNCTIONS])
def test_each_chunk_is_made_as_dask_makes_it(x, ref, on_gpu, form):
    y = {**VIEWS, **FUNCTIONS}[form](x)
    candidate = views.find_candidate(y)
    assert candidate is not None and candidate.name == x.name
    assert views.handles.numblocks_of(candidate.layer.mapping) == x.numblocks
    view = candidate.view()
    for coords in itertools.product(*map(range, y.numblocks)):
        np.testing.assert_array_equal(made(view, coords, ref), y.blocks[coords].compute(), err_msg=f"{form} {coords}")


@pytest.mark.parametrize("form", OTHERS)
def test_what_is_no_view(x, on_gpu, form):
    assert find_view(OTHERS[form](x)) is None


def test_functions_stay_tasks_without_fusion(x, on_gpu):
    with dask.config.set({"gpureduce.fuse": False}):
        assert find_view(FUNCTIONS["mapped"](x)) is None
        assert find_view(VIEWS["slices"](x)) is not None


@pytest.mark.parametrize("form", [*VIEWS, *FUNCTIONS])
def test_reductions(x, ref, form):
    gr.argmax(x).compute()  # makes handles
    make = {**VIEWS, **FUNCTIONS}[form]
    y, want = make(x), make(da.from_array(ref, chunks=-1)).compute()
    for name in ("sum", "argmax", "var", "nanmin"):
        for axis in {0, y.ndim - 1, None}:
            got = getattr(gr, name)(y, axis=axis)
            np.testing.assert_allclose(got.compute(), getattr(np, name)(want, axis=axis), rtol=1e-4, err_msg=name)
            assert len(got.__dask_graph__().layers) == 2  # of tasks and of handles
    counts, edges = gr.histogram(y, 9, (0, 1))
    np.testing.assert_array_equal(counts.compute(), np.histogram(want, edges)[0])
    labels = np.arange(want.shape[0]) % 2
    got = gr.grouped(y, labels, "mean", axis=0).compute()
    np.testing.assert_allclose(got[..., 1], want[labels == 1].mean(axis=0), rtol=1e-5)


def test_graphs_whose_layers_do_not_say_what_they_need(x, ref):
    """As dask's clone makes them, of which its own optimisation makes nothing."""
    y = clone(x[::2])
    assert find_view(y) is None
    got = gr.sum(y, axis=0).compute(optimize_graph=False)
    np.testing.assert_allclose(got, ref[::2].sum(axis=0), rtol=1e-4)


def test_the_same_view_is_found_once(x, ref, monkeypatch):
    gr.argmax(x).compute()  # makes handles
    for want in (ref[::3, 1:], ref[::3, 1:], ref[::3, 2:]):
        np.testing.assert_allclose(gr.sum(x[::3, 420 - want.shape[1] :], axis=0).compute(), want.sum(axis=0), rtol=1e-4)
    with monkeypatch.context() as patch:
        patch.setattr(views.Candidate, "view", lambda _: pytest.fail("looked for again"))
        np.testing.assert_allclose(gr.sum(x[::3, 1:], axis=0).compute(), ref[::3, 1:].sum(axis=0), rtol=1e-4)


def test_a_name_for_two_functions(x, on_gpu):
    """As dask computes each of two arrays that a user gave one name."""
    found = {}
    for function in (np.sqrt, np.negative):
        y = x.map_blocks(function, name="mine", dtype="f4")
        found[function] = views.select_source(reduction(y, "sum")).view.chain.nodes[-1].func
    assert found == {np.sqrt: np.sqrt, np.negative: np.negative}


def test_a_name_for_functions_of_two_slices(x, ref):
    gr.argmax(x).compute()  # makes handles
    for start in (2, 3, 50):
        y = da.map_blocks(np.negative, x[start:], name="of a slice", dtype="f4")
        np.testing.assert_allclose(gr.sum(y).compute(), -ref[start:].sum(dtype="f8"), rtol=1e-5)


def test_the_number_of_a_constant_chunk_is_no_other_chunk_s(x, ref):
    """A chunk of ones lies in memory as one element, which functions take as a number."""
    columns = x[:, : CHUNKS[1]].rechunk(CHUNKS)
    p = da.concatenate([da.ones(CHUNKS, chunks=CHUNKS, dtype="f4"), columns]).persist()
    distributed.wait(p)
    q = np.concatenate([np.ones(CHUNKS, "f4"), ref[:, : CHUNKS[1]]])
    for make in (lambda x, m: m.where(x > 0.5, x, 0), lambda x, m: abs(x) * x, lambda x, m: (1 - x[::2]) * x[::2]):
        for axis in (None, 0):
            want = make(q, np).sum(axis=axis, dtype="f8")
            np.testing.assert_allclose(gr.sum(make(p, da), axis=axis).compute(), want, rtol=1e-4)


@pytest.mark.parametrize("row", range(6))
def test_a_row_that_repeats_a_number_of_its_chunk(x, row):
    """Of chunks that repeat a column, beside a slice that does not: whichever is last in the order of their names."""
    columns = [np.random.default_rng(i).random((200, 1)) for i in range(3)]
    p = da.concatenate([da.broadcast_to(da.from_array(c, chunks=-1), (200, 80)) for c in columns], axis=1).persist()
    distributed.wait(p)
    q = np.concatenate([np.broadcast_to(c, (200, 80)) for c in columns], axis=1)
    for make in (lambda x, m: x[::2] - x[row], lambda x, m: m.where(x[::2] > x[row], x[::2], 0)):
        for name in ("sum", "var", "argmax"):
            got = getattr(gr, name)(make(p, da)).compute()
            np.testing.assert_allclose(got, getattr(np, name)(make(q, np)), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("function", ["sqrt", "exp", "negative", "abs", "square", "tanh"])
def test_functions_beside_slices(x, function):
    """Whichever comes first in the order of their names."""
    gr.argmax(x).compute()  # makes handles
    p = x.rechunk((100, -1)).persist()
    distributed.wait(p)
    of_dask, of_numpy, q = getattr(da, function), getattr(np, function), p.compute()
    for side in (lambda x: x[:, :1], lambda x: x[:, ::-1], lambda x: x[:, 0][:, None]):
        want = of_numpy(q) - side(q)
        for axis in (None, 0, 1):
            got = gr.sum(of_dask(p) - side(p), axis=axis).compute()
            np.testing.assert_allclose(got, want.sum(axis=axis, dtype="f8"), rtol=1e-4, atol=1e-2)


def test_views_that_are_kept_hold_no_chunks(x):
    p = (x + 1).persist()
    distributed.wait(p)
    gr.argmax(p).compute()
    gr.sum(p[::2], axis=0).compute()
    layer = weakref.ref(p.dask.layers[p.name])
    del p
    gc.collect()
    assert layer() is None


def test_handles_of_slices_do_not_say_where_chunks_lie(x, ref, monkeypatch):
    p = (x + 1).persist()
    distributed.wait(p)
    with monkeypatch.context() as patch:
        patch.setattr(meta, "promises_device", lambda _: True)
        source = views.select_source(reduction(p[::2], "sum"))
    assert source is not None and not source.handle_sets[0].is_placed
    np.testing.assert_array_equal(gr.argmax(p, axis=0).compute(), ref.argmax(axis=0))
    np.testing.assert_array_equal(gr.argmax(p[::2], axis=0).compute(), ref[::2].argmax(axis=0))


def reduction(y, name):
    return views.Reduction((y,), OPERATORS[name].bind(y.dtype), (0,), None)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("form", [*VIEWS, *FUNCTIONS])
def test_chunks_on_a_gpu_are_reduced_together(x, on_gpu, monkeypatch, form, axis):
    """With CuPy arrays over memory of the host: a call for each slice, in which chunks of one shape are neighbours."""
    pytest.importorskip("cupy")
    from simt.backend import put

    y = {**VIEWS, **FUNCTIONS}[form](x)
    if y.ndim != 2:
        return
    together = []

    def reduce_many(chunks, bound, axes, places=None):
        together.append([each[0].shape for each in chunks])
        return np.zeros([1 if a in axes else n for a, n in enumerate(chunks[0][0].shape)], bound.state)

    monkeypatch.setattr(deferred.chunk, "reduce_many", reduce_many)
    monkeypatch.setattr(deferred.chunk, "reduce", lambda *given: pytest.fail("a chunk is reduced alone"))
    source = views.select_source(reduction(y, "nanmax"))
    handle = group_task.Handle(
        source.handle_sets[0].shares[source.handle_sets[0].homes[0]], [put(np.ones(CHUNKS, "f4"))] * 9
    )
    parts = [part for _, each in source.slices((0, 1) if axis is None else (axis,)) for part in each]
    for part in parts:
        part.run([handle], [])
    assert sum(map(len, together)) == y.npartitions and len(together) == len(parts)
    for shapes in together:
        assert sum(a != b for a, b in itertools.pairwise(shapes)) == len(set(shapes)) - 1
