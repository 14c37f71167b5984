"""Plain dask, NumPy and xarray scans on our trees."""

from __future__ import annotations

import itertools

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


def filled(x, axis):
    """Each NaN replaced by what stands before it."""
    x = np.moveaxis(x.copy(), axis, 0)
    for before, row in itertools.pairwise(x):
        row[...] = np.where(np.isnan(row), before, row)
    return np.moveaxis(x, 0, axis)


XARRAY = {
    "running sum": (lambda x: x.cumsum("time"), lambda x: np.nancumsum(x, axis=0)),
    "running sum with NaN": (lambda x: x.cumsum("time", skipna=False), lambda x: np.cumsum(x, axis=0)),
    "over both": (lambda x: x.cumsum(), lambda x: np.nancumsum(np.nancumsum(x, axis=0), axis=1)),
    "running product": (lambda x: x.cumprod("place"), lambda x: np.nancumprod(x, axis=1)),
    "filled": (lambda x: x.ffill("time"), lambda x: filled(x, 0)),
    "filled from behind": (lambda x: x.bfill("place"), lambda x: filled(x[:, ::-1], 1)[:, ::-1]),
    "in groups": (
        lambda x: x.assign_coords(place=list("aaabbbbbbbbbbb")).groupby("place").cumsum(),
        lambda x: np.hstack([np.nancumsum(x[:, :3], axis=1), np.nancumsum(x[:, 3:], axis=1)]),
    ),
}


@pytest.mark.parametrize("name", XARRAY)
def test_xarray(name):
    """No scan of stock dask is left, whose layers are named after the functions of chunks."""
    xr = pytest.importorskip("xarray")
    x, _ = arrays("float64")
    x[0, 1:5] = x[4:7, 2] = np.nan
    call, wanted = XARRAY[name]
    data = xr.DataArray(da.from_array(x, chunks=(4, 5)), dims=("time", "place"))
    with gr.accelerate(numpy=True), xr.set_options(use_flox=False):  # flox scans groups by a tree of its own
        got = call(data)
    layers = list(got.data.dask.layers)
    assert any(key.startswith("gr-") for key in layers)
    assert not [key for key in layers if key.startswith(("cumsum", "cumprod", "nancum", "_dtype_push", "nanlast"))]
    np.testing.assert_allclose(got.values, wanted(x))


def test_xarray_fills_chunks_on_a_gpu():
    """Their graph, built where there is no GPU; of NumPy chunks only where those are wanted."""
    xr = pytest.importorskip("xarray")
    _, d = arrays("float32")
    host = xr.DataArray(d, dims=("time", "place"))
    device = xr.DataArray(d.map_blocks(np.asarray, meta=gr.device_meta(2, "f4")), dims=("time", "place"))
    with gr.accelerate():
        assert device.ffill("time").data.name.startswith("gr-ffill-")
        assert not host.ffill("time").data.name.startswith("gr-")
