"""On a GPU: several statistics from one read, against each one alone and the host's answers."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import chunk
from gpureduce_dask.chunk import Place
from gpureduce_dask.graph.statistics import plan_parts
from gpureduce_dask.host import reduce as host_reduce

from .samples import DTYPES, LAYOUTS, close, make, view_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
cp = pytest.importorskip("cupy")

FIVE = ["min", "max", "mean", "std", "argmax"]
REAL = ["min", "max", "argmin", "argmax", "mean", "sum", "var", "skew", "count", "nanmean", "nanmax", "nancount"]
ASKED = {"b": ["min", "argmax", "sum", "mean", "any", "count_nonzero"], "c": ["max", "mean", "std", "nancount"]}


@pytest.fixture(scope="module")
def gpu():
    from gpureduce_dask.device import reduce as device_reduce

    return device_reduce


def check(partial, x, axes, whole, statistics):
    """Each statistic of a product's partial, finished on the GPU and on the host."""
    packed = chunk.to_host(partial, whole)
    for statistic in statistics:
        bound = statistic.bound
        wanted = host_reduce.reduce((x,), bound, axes)
        terms = max(1, x.size // max(1, wanted.size)) * (10000 if bound.name == "skew" else 1)
        mine = chunk.cut(packed, bound, statistic.offset)
        if "arg" in bound.name:  # of complex extremes that are equal to the bit any position is right
            np.testing.assert_array_equal(mine["index"], wanted["index"], err_msg=bound.name)
        close(host_reduce.finalise(mine, bound), host_reduce.finalise(wanted, bound), bound, terms)
        finished = chunk.finalise(chunk.cut(partial, bound, statistic.offset), bound)
        close(finished.get(), host_reduce.finalise(wanted, bound), bound, terms)


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_every_layout(gpu, number):
    shape, axes, view = LAYOUTS[number]
    for dtype in ("float32", DTYPES[number % len(DTYPES)].name):
        array = make(shape, dtype, number)
        x, there = view_of(array, view), view_of(cp.asarray(array), view)
        if 0 in [x.shape[a] for a in axes]:
            continue
        asked = FIVE if dtype == "float32" else ASKED.get(np.dtype(dtype).kind, REAL)
        whole, statistics = plan_parts("stats", asked, x.dtype, 0)
        check(gpu.reduce((there,), whole, axes), x, axes, whole, statistics)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_nan(gpu, dtype, axes):
    x = make((301, 77), dtype, 3, with_nan=True)
    whole, statistics = plan_parts("stats", ["max", "argmin", "nanmin", "nanmean", "nanstd", "nancount"], x.dtype, 0)
    check(gpu.reduce((cp.asarray(x),), whole, axes), x, axes, whole, statistics)


def test_batches_keep_positions(gpu):
    x = make((96, 64), "float32", 1)
    whole, statistics = plan_parts("stats", ["argmin", "argmax", "mean"], x.dtype, 0)
    places = [Place((i, j), x.shape) for i in range(0, 96, 16) for j in (0, 32)]
    parts = [(cp.asarray(x[p.offsets[0] :][:16, p.offsets[1] :][:, :32]),) for p in places]
    check(gpu.reduce_many(parts, whole, (0, 1), places), x, (0, 1), whole, statistics)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_trees(axis):
    array = make((400, 300), "float32", 5)
    x = da.from_array(cp.asarray(array), chunks=(80, 300 if axis == 1 else 100), asarray=False)
    for given in (x, x.persist(scheduler="sync"), x + 1):
        found = gr.stats(given, [*FIVE, "nancount"], axis=axis)
        got = dask.compute(found, scheduler="sync")[0]
        alone = dask.compute([getattr(gr, name)(given, axis=axis) for name in FIVE], scheduler="sync")[0]
        for name, mine, theirs in zip(FIVE, got, alone, strict=False):
            assert isinstance(mine, cp.ndarray) and mine.dtype == theirs.dtype and mine.shape == theirs.shape
            bound = plan_parts("stats", [name], np.dtype("f4"), 0)[1][0].bound
            close(mine.get(), theirs.get(), bound, array.size)
        assert (got.nancount == array.size // max(1, got.nancount.size)).all()
        assert isinstance(found.mean._meta, cp.ndarray)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_weights(axis):
    array, weight = make((400, 300), "float32", 5), np.random.default_rng(0).integers(0, 4, (400, 300)).astype("f4")
    names = ["mean", "std", "skew", "kurtosis", "sum", "nanvar"]
    both = [(a, da.from_array(a, chunks=(80, 100))) for a in (array, weight)]
    there = [da.from_array(cp.asarray(a), chunks=(80, 100), asarray=False) for a, _ in both]
    for where in ({}, {"where": array > 0}):
        found = gr.stats(there[0], names, axis=axis, weights=there[1], **where)
        got = dask.compute(found, scheduler="sync")[0]
        expected = dask.compute(gr.stats(both[0][1], names, axis=axis, weights=both[1][1], **where))[0]
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine.get(), theirs, rtol=1e-5, atol=1e-5)
    alone = gr.moment(there[0], 3, axis=axis, weights=there[1]).compute(scheduler="sync")
    np.testing.assert_allclose(
        alone.get(), gr.moment(both[0][1], 3, axis=axis, weights=both[1][1]), rtol=1e-5, atol=1e-5
    )


def test_large_partials_stay_on_the_gpu():
    x = da.from_array(cp.random.default_rng(0).random((64, 50000), dtype="f4"), chunks=(16, -1), asarray=False)
    weighted = gr.stats(x, ["mean", "std", "skew"], axis=0, weights=cp.arange(1.0, 65)[:, None])
    host = gr.stats(x.compute().get(), ["mean", "std", "skew"], axis=0, weights=np.arange(1.0, 65)[:, None])
    for mine, theirs in zip(dask.compute(weighted, scheduler="sync")[0], dask.compute(host)[0], strict=True):
        np.testing.assert_allclose(mine.get(), theirs, rtol=1e-5, atol=1e-6)
    found = gr.stats(x, FIVE, axis=0)
    np.testing.assert_allclose(found.mean.compute().get(), x.compute().mean(0, dtype="f8").get(), rtol=1e-6)
    np.testing.assert_array_equal(found.argmax.compute().get(), x.compute().argmax(0).get())


def test_no_temporary_is_made(gpu):
    x = cp.random.default_rng(0).random(1 << 26, dtype="f4")
    whole, _ = plan_parts("stats", FIVE, x.dtype, 0)
    gpu.reduce((x,), whole, (0,))
    pool = cp.get_default_memory_pool()
    before = pool.total_bytes()
    gpu.reduce((x,), whole, (0,))
    assert pool.total_bytes() - before < 0.05 * x.nbytes


def test_describe():
    x = cp.asarray(make((300, 200), "float32", 2, with_nan=True))
    on_gpu, on_host = gr.describe(x), gr.describe(x.get())
    for name, value in on_host.values.items():
        assert not isinstance(on_gpu[name], cp.ndarray)
        np.testing.assert_allclose(on_gpu[name], value, rtol=1e-6)


def test_scans_by_several_operators():
    x = da.from_array(cp.arange(24.0).reshape(4, 6), chunks=(2, 3), asarray=False)
    found = dask.compute(gr.scan(x, ["sum", "max"], axis=1), scheduler="sync")[0]
    np.testing.assert_array_equal(found.sum.get(), np.arange(24.0).reshape(4, 6).cumsum(1))
