"""On a GPU: norms of every order, and labels around CuPy chunks."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")

VALUES = np.random.default_rng(3).normal(size=(40, 30))


def on_gpu(values, chunks):
    return da.from_array(values, chunks=chunks).map_blocks(cp.asarray)


@pytest.mark.parametrize("ord", [None, 2, 1, 0, np.inf, -np.inf, 3, 0.5, -1])
def test_norms(ord):
    for dtype in ("f4", "f8", "c8", "i2"):
        values = (VALUES * 9).astype(dtype)
        x = on_gpu(values, (16, 30))
        for axis in (0, 1, None) if ord in (None, 1, np.inf, -np.inf) else (0, 1):
            got = gr.norm(x, ord, axis).compute(scheduler="sync")
            assert isinstance(got, cp.ndarray)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(got.get(), np.linalg.norm(values, ord, axis), rtol=1e-5)


def test_labels():
    xr = pytest.importorskip("xarray")
    t = xr.DataArray(on_gpu(VALUES, 16), dims=("time", "x"), coords={"x": np.arange(30)}, attrs={"units": "K"})
    weights = xr.DataArray(on_gpu(np.arange(1.0, 41), 16), dims="time")
    mean, running = gr.mean(t, dim="time", weights=weights), gr.cumsum(t, dim="x")
    assert mean.dims == ("x",) and running.dims == t.dims and mean.attrs == t.attrs and "x" in mean.coords
    for got, want in (
        (mean, np.average(VALUES, axis=0, weights=np.arange(1.0, 41))),
        (running, VALUES.cumsum(axis=1)),
        (gr.stats(t, ["std"], dim="time")["std"], VALUES.std(axis=0)),
        (gr.map_reduce(lambda a, b: a * b, "sum", t, weights, dim="time"), (VALUES.T * np.arange(1.0, 41)).sum(axis=1)),
    ):
        chunk = got.data.compute(scheduler="sync")
        assert isinstance(chunk, cp.ndarray)
        np.testing.assert_allclose(chunk.get(), want, rtol=1e-12, atol=1e-12)
    assert gr.persist(t).dims == t.dims
