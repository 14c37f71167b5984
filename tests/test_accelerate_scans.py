"""Plain dask, NumPy and xarray scans on our trees."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

CALLS = {
    "method": lambda x: x.cumsum(axis=0),
    "product": lambda x: x.cumprod(axis=1),
    "function": lambda x: da.cumsum(x, axis=1, method="blelloch"),
    "NumPy": lambda x: np.cumsum(x, axis=0),
    "flat": lambda x: da.cumsum(x, axis=None),
    "without NaN": lambda x: da.nancumsum(x, axis=0),
    "products without NaN": lambda x: da.nancumprod(x, axis=-1),
    "dtype": lambda x: x.cumsum(axis=1, dtype="float64"),
}
NUMPY = {
    "method": lambda x: x.cumsum(axis=0),
    "product": lambda x: x.cumprod(axis=1),
    "function": lambda x: x.cumsum(axis=1),
    "NumPy": lambda x: x.cumsum(axis=0),
    "flat": lambda x: x.cumsum(),
    "without NaN": lambda x: np.nancumsum(x, axis=0),
    "products without NaN": lambda x: np.nancumprod(x, axis=-1),
    "dtype": lambda x: x.cumsum(axis=1, dtype="float64"),
}


def arrays(dtype: str) -> tuple[np.ndarray, da.Array]:
    x = (np.random.default_rng(0).random((9, 14)) * 3).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[3, 4] = np.nan
    return x, da.from_array(x, chunks=(4, 5))


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("name", CALLS)
def test_scans_take_our_trees(name, dtype):
    x, d = arrays(dtype)
    stock = CALLS[name](d)
    with gr.accelerate(numpy=True):
        ours = CALLS[name](d)
    assert ours.name.startswith("gr-") and not stock.name.startswith("gr-")
    assert ours.dtype == stock.dtype and ours.shape == stock.shape
    if name != "flat":
        assert ours.chunks == stock.chunks
    np.testing.assert_allclose(ours.compute(scheduler="sync"), NUMPY[name](x), rtol=1e-5)


def test_what_is_left_to_dask():
    _, d = arrays("float32")
    with gr.accelerate(numpy=True):
        calls = (
            lambda: da.nancumsum(d, 0, dtype="int64"),
            lambda: da.reductions.cumreduction(np.maximum.accumulate, np.maximum, -np.inf, d, axis=0),
            lambda: da.cumsum(d.astype("M8[s]") - np.datetime64(0, "s"), axis=0),
        )
        for call in calls:
            assert not call().name.startswith("gr-")
    with pytest.raises((ValueError, TypeError)), gr.accelerate(numpy=True):
        d.cumsum(axis=5)
    with gr.accelerate():  # for CuPy chunks alone
        assert not d.cumsum(axis=0).name.startswith("gr-")


def test_xarray():
    xr = pytest.importorskip("xarray")
    x, d = arrays("float64")
    data = xr.DataArray(d, dims=("time", "place"))
    with gr.accelerate(numpy=True):
        running = data.cumsum("time")
    assert running.data.name.startswith("gr-") or any(k[0].startswith("gr-") for k in running.data.dask if k[0])
    np.testing.assert_allclose(running.values, np.nancumsum(x, axis=0))
