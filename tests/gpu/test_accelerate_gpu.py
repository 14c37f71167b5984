"""On a GPU: plain dask and xarray code over CuPy chunks under ``gr.accelerate()``."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")

X = np.random.default_rng(0).normal(scale=4, size=(40, 60, 50))
HOLED = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
NAMES = "sum prod min max any all mean var std argmin argmax ptp count_nonzero".split()
SKIPPING = "nansum nanprod nanmin nanmax nanmean nanvar nanstd nanargmin nanargmax".split()


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


def on_gpu(x, chunks=(15, 30, 50)):
    return da.from_array(x, chunks=chunks).map_blocks(cp.asarray)


@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("name", NAMES + SKIPPING)
def test_every_reduction(name, axis):
    host = (HOLED if name in SKIPPING else X) / (100 if "prod" in name else 1)
    with gr.accelerate():
        got = getattr(da, name)(on_gpu(host), axis=axis)
    assert got.name.startswith("gr-") and isinstance(got._meta, cp.ndarray)
    result = got.compute()
    assert isinstance(result, cp.ndarray)
    np.testing.assert_allclose(result.get(), getattr(np, name)(host, axis=axis), rtol=1e-10, atol=1e-300)


def test_numpy_functions_methods_and_chains():
    x = on_gpu(X.astype("f4"))
    with gr.accelerate():
        results = x.sum(), np.var(x, axis=0), ((x - 0.5) ** 2).mean(), (x > 0).sum(axis=(0, 1))
    single = X.astype("f4")
    wanted = single.sum(dtype="f8"), single.var(axis=0), ((single - 0.5) ** 2).mean(), (single > 0).sum(axis=(0, 1))
    for got, want in zip(results, wanted, strict=True):
        assert got.name.startswith("gr-")
        np.testing.assert_allclose(got.compute().get(), want, rtol=1e-4)


def test_numpy_chunks_and_others_are_left_alone():
    with gr.accelerate():
        assert not da.from_array(X, chunks=20).sum().name.startswith("gr-")
        assert not da.topk(on_gpu(X), 3, axis=0).name.startswith("gr-")


def test_as_dask_cuda_measures_cupy():
    """The calls of its benchmark of CuPy chunks, persisted on the workers of a cluster of one process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        gr.accelerate(),
    ):
        rs = da.random.RandomState(RandomState=cp.random.RandomState)
        x = rs.random((400, 400), chunks=100).persist()
        distributed.wait(x)
        for got, want in ((x.sum(), 80_000), (x.mean(), 0.5), ((x + x.T).sum(), 160_000)):
            assert got.name.startswith("gr-")
            result = client.compute(got).result()
            np.testing.assert_allclose(float(result), want, rtol=0.02)


@pytest.mark.parametrize(
    "reduce",
    [
        lambda a: a.mean("t"),
        lambda a: a.std("t"),
        lambda a: a.sum(("t", "x")),
        lambda a: a.count("y"),
        lambda a: a.max(),
        lambda a: a.argmax("t"),
        lambda a: a.groupby("half").mean(),
    ],
)
def test_xarray(reduce):
    xr = pytest.importorskip("xarray")
    coords = {"half": ("t", np.arange(40) // 20)}
    with xr.set_options(use_flox=False):
        want = reduce(xr.DataArray(HOLED, dims=("t", "y", "x"), coords=coords))
        with gr.accelerate():
            got = reduce(xr.DataArray(on_gpu(HOLED), dims=("t", "y", "x"), coords=coords))
    assert any(key.startswith("gr-") for key in got.data.dask.layers)
    np.testing.assert_allclose(got.data.compute().get(), want.values, rtol=1e-10)


@pytest.mark.parametrize("by", ["month", "year", "quarter"])
@pytest.mark.parametrize("op", ["mean", "std", "max", "count", "first"])
def test_groups_of_flox(op, by):
    """What flox reduces on the host stays on the GPU, in flox's chunks."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("flox")
    values = np.random.default_rng(0).normal(size=(48, 9, 6)).astype("f4")
    values[3, 2, 1] = np.nan
    months = np.arange("2020-01", "2024-01", dtype="M8[M]").astype("M8[ns]")

    def grouped(x):
        named = xr.DataArray(x, dims=("time", "y", "x"), coords={"time": months})
        groups = named.resample(time="QS") if by == "quarter" else named.groupby(f"time.{by}")
        return getattr(groups, op)()

    want = grouped(da.from_array(values.astype("f8"), chunks=(10, 9, 4)))  # flox adds float32 up in float32
    with gr.accelerate():
        got = grouped(da.from_array(cp.asarray(values), chunks=(10, 9, 4), asarray=False))
    assert got.chunks == want.chunks
    found = got.data.compute(scheduler="sync")
    assert isinstance(found, cp.ndarray)
    np.testing.assert_allclose(found.get(), want.values, rtol=1e-5)
