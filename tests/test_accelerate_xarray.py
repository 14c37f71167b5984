"""xarray's reductions of dask arrays under ``gr.accelerate()``: all but medians take our trees."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
from plain_calls import switched_off  # noqa: F401

import gpureduce_dask as gr

xr = pytest.importorskip("xarray")

VALUES = np.random.default_rng(0).normal(size=(12, 8, 6))
VALUES[3, 2, 1] = np.nan
MONTHS = np.arange("2020-01", "2021-01", dtype="M8[M]").astype("M8[ns]")


def dataset(wrap=lambda x: x):
    warm = wrap(da.from_array(VALUES, chunks=(3, 4, 6)))
    count = wrap(da.from_array((np.nan_to_num(VALUES[:, :, 0]) * 10).astype("i4"), chunks=4))
    coords = {"time": MONTHS, "band": ("y", list("aabbccdd"))}
    return xr.Dataset({"warm": (("time", "y", "x"), warm), "count": (("time", "y"), count)}, coords)


CALLS = {
    "mean": lambda ds: ds.mean("time"),
    "std": lambda ds: ds.std("time"),
    "var of a sample": lambda ds: ds.var(("time", "y"), ddof=1),
    "sum": lambda ds: ds.sum("time"),
    "sum of two or more": lambda ds: ds.sum("time", min_count=2),
    "sum with NaN": lambda ds: ds.sum("time", skipna=False),
    "prod": lambda ds: ds.prod("y"),
    "min": lambda ds: ds.min("time"),
    "max of all": lambda ds: ds.max(),
    "mean with NaN": lambda ds: ds.mean(skipna=False),
    "count": lambda ds: ds.count("time"),
    "any": lambda ds: (ds > 3).any("time"),
    "argmax": lambda ds: ds.argmax("time"),
    "argmin with NaN": lambda ds: ds.warm.argmin("time", skipna=False),
    "groups": lambda ds: ds.warm.groupby("time.season").mean(),
    "groups of a coordinate": lambda ds: ds.warm.groupby("band").std(),
    "seasons": lambda ds: ds.warm.resample(time="QS").max(),
    "coarse": lambda ds: ds.warm.coarsen(time=3).mean(),
    "weights": lambda ds: ds.warm.weighted(xr.DataArray(np.arange(1.0, 9), dims="y")).mean("y"),
    "a mask": lambda ds: ds.warm.where(ds.warm > 0).mean(),
    "correlation": lambda ds: xr.corr(ds.warm, ds.warm.isel(x=0), dim="time"),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_tree_is_ours(name):
    """The same answer, and no tree of stock dask, which is an ``aggregate`` layer."""
    with xr.set_options(use_flox=False):  # groups of flox are trees of its own
        want = CALLS[name](dataset())
        with gr.accelerate(numpy=True):
            got = CALLS[name](dataset())
        layers = list(got.__dask_graph__().layers)
        assert any(key.startswith("gr-") for key in layers)
        assert not [key for key in layers if "aggregate" in key]
        assert any("aggregate" in key for key in want.__dask_graph__().layers)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # ours warns of nothing that dask is silent about
            xr.testing.assert_allclose(got.compute(), want.compute())
    assert got.dtypes == want.dtypes if isinstance(got, xr.Dataset) else got.dtype == want.dtype


def test_medians_are_dasks():
    with gr.accelerate(numpy=True):
        got = dataset().warm.median("time")
    assert got.data.name == dataset().warm.median("time").data.name


def test_device_chunks():
    """Graphs of CuPy chunks, built where there is no GPU."""
    ds = dataset(lambda x: x.map_blocks(np.asarray, meta=gr.device_meta(x.ndim, x.dtype)))
    with gr.accelerate():
        got = ds.mean("time")
    assert all(v.data.name.startswith("gr-") for v in got.values())
