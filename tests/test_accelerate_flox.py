"""Groups of xarray, which flox reduces, on our trees under ``gr.accelerate()``."""

from __future__ import annotations

import copy
import warnings

import dask.array as da
import numpy as np
import pytest
from plain_calls import switched_off  # noqa: F401

import gpureduce_dask as gr

xr = pytest.importorskip("xarray")
flox = pytest.importorskip("flox")

VALUES = np.random.default_rng(0).normal(size=(24, 8, 6))
VALUES[3, 2, 1] = VALUES[:2, 5] = np.nan
MONTHS = np.arange("2020-01", "2022-01", dtype="M8[M]").astype("M8[ns]")


def dataset(wrap=lambda x: x):
    warm = wrap(da.from_array(VALUES, chunks=(5, 4, 6)))
    count = wrap(da.from_array((np.nan_to_num(VALUES[:, :, 0]) * 10).astype("i4"), chunks=4))
    coords = {"time": MONTHS, "band": ("y", list("aabbccdd")), "zone": ("x", [0, 0, 1, 1, 2, 2])}
    return xr.Dataset({"warm": (("time", "y", "x"), warm), "count": (("time", "y"), count)}, coords)


def grouped_by_two(ds):
    groupers = {"zone": xr.groupers.UniqueGrouper(), "band": xr.groupers.UniqueGrouper()}
    return ds.warm.groupby(groupers).mean()


OPS = ("mean", "sum", "std", "var", "min", "max", "count", "prod")
CALLS = {
    **{f"{op} by month": lambda ds, op=op: getattr(ds.groupby("time.month"), op)() for op in OPS},
    **{f"{op} of quarters": lambda ds, op=op: getattr(ds.warm.resample(time="QS"), op)() for op in OPS},
    "std by a coordinate": lambda ds: ds.groupby("band").std(ddof=1),
    "any": lambda ds: (ds > 0.5).groupby("time.season").any(),
    "all": lambda ds: (ds > -2).groupby("time.season").all(),
    "with NaN": lambda ds: ds.groupby("time.year").mean(skipna=False),
    "of two or more": lambda ds: ds.groupby("time.month").sum(min_count=2),
    "over all axes": lambda ds: ds.warm.groupby("time.year").mean(...),
    "bins, one of them empty": lambda ds: ds.warm.groupby_bins("zone", [-1, 0, 1, 2, 9]).mean(),
    "gaps": lambda ds: ds.resample(time="10D").mean(),
    "by two": grouped_by_two,
    "first": lambda ds: ds.warm.groupby("band").first(),
    "last": lambda ds: ds.warm.resample(time="QS").last(),
}


def flox_layers(found):
    return [key for key in found.__dask_graph__().layers if key.startswith("groupby_")]


@pytest.mark.parametrize("name", CALLS)
def test_every_group_is_ours(name):
    want = CALLS[name](dataset())
    with gr.accelerate(numpy=True):
        got = CALLS[name](dataset())
    assert any(key.startswith("gr-groupby") for key in got.__dask_graph__().layers)
    assert not flox_layers(got)
    assert flox_layers(want) or "QS" in name or name in ("first", "last")  # those of one chunk a group are blockwise
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.testing.assert_allclose(got.compute(), want.compute())
    assert got.dtypes == want.dtypes if isinstance(got, xr.Dataset) else got.dtype == want.dtype


def test_what_stays_floxs():
    from flox import groupby_reduce
    from flox.aggregations import AGGREGATIONS

    own = copy.deepcopy(AGGREGATIONS["mean"])
    own.finalize = np.add
    labels = np.arange(24) % 3
    x = da.from_array(VALUES.T, chunks=(6, 4, 5))
    with gr.accelerate(numpy=True):
        for found in (
            groupby_reduce(x, labels, func=own)[0],
            groupby_reduce(x, da.from_array(labels, chunks=5), func="sum", expected_groups=[0, 1, 2])[0],
            groupby_reduce(x, labels, func="argmax", expected_groups=[0, 1, 2])[0],
            groupby_reduce(x, labels, func="sum", expected_groups=[0, 1, 2, 3])[0],
            groupby_reduce(da.from_array(VALUES.T.astype(object), chunks=5), labels, func="sum")[0],
        ):
            assert not [key for key in found.dask.layers if key.startswith("gr-groupby")]
        ours = groupby_reduce(x, labels, func="mean")[0]
    assert [key for key in ours.dask.layers if key.startswith("gr-groupby")]
    with gr.accelerate():  # of CuPy chunks alone
        assert groupby_reduce(x, labels, func="mean")[0].name != ours.name


def test_device_chunks():
    """Graphs of CuPy chunks, built where there is no GPU."""
    ds = dataset(lambda x: x.map_blocks(np.asarray, meta=gr.device_meta(x.ndim, x.dtype)))
    with gr.accelerate():
        for call in (lambda ds: ds.groupby("time.month").mean(), lambda ds: ds.resample(time="QS").sum(min_count=1)):
            got = call(ds)
            assert all(any(k.startswith("gr-groupby") for k in v.data.dask.layers) for v in got.values())
            assert not flox_layers(got)
