"""Groups of xarray, which flox reduces, on our trees under ``gr.accelerate()``."""

from __future__ import annotations

import copy
import warnings

import dask.array as da
import numpy as np
import pytest
from plain_calls import switched_off  # noqa: F401

import gpureduce_dask as gr
from gpureduce_dask.integrations import flox as integration

xr = pytest.importorskip("xarray")
flox = pytest.importorskip("flox")

VALUES = np.random.default_rng(0).normal(size=(120, 16, 24))
VALUES[3, 2, 1] = VALUES[:2, 5] = VALUES[::12, 6] = np.nan
MONTHS = np.arange("2012-01", "2022-01", dtype="M8[M]").astype("M8[ns]")


def dataset(wrap=lambda x: x):
    warm = wrap(da.from_array(VALUES, chunks=(60, 8, 12)))
    count = wrap(da.from_array((np.nan_to_num(VALUES[:, :, 0]) * 10).astype("i4"), chunks=(60, 8)))
    coords = {"time": MONTHS, "band": ("y", list("abab" * 4)), "zone": ("x", [0, 1] * 12)}
    return xr.Dataset({"warm": (("time", "y", "x"), warm), "count": (("time", "y"), count)}, coords)


def grouped_by_two(ds):
    groupers = {"zone": xr.groupers.UniqueGrouper(), "band": xr.groupers.UniqueGrouper()}
    return ds.warm.groupby(groupers).mean()


OPS = ("mean", "sum", "std", "var", "min", "max", "count", "prod")
TAKEN = {
    **{f"{op} by month": lambda ds, op=op: getattr(ds.groupby("time.month"), op)() for op in OPS},
    "std by a coordinate": lambda ds: ds.groupby("band").std(ddof=1),
    "any": lambda ds: (ds > 0.5).groupby("time.season").any(),
    "all": lambda ds: (ds > -2).groupby("time.season").all(),
    "with NaN": lambda ds: ds.groupby("time.month").mean(skipna=False),
    "over all axes": lambda ds: ds.warm.groupby("time.month").mean(...),
    "bins": lambda ds: ds.warm.groupby_bins("zone", [-1, 0, 1]).mean(),
    "bins, one of them empty": lambda ds: ds.warm.groupby_bins("zone", [-1, 0, 1, 9]).mean(),
    "by two": grouped_by_two,
    "first": lambda ds: ds.warm.groupby("time.month").first(),
    "last": lambda ds: ds.warm.groupby("time.month").last(),
    "complex sum": lambda ds: (ds.warm + 1j * ds.warm).groupby("time.month").sum(),
    "complex mean": lambda ds: (ds.warm + 1j * ds.warm).groupby("time.month").mean(),
}
LEFT = {
    **{f"{op} of quarters": (lambda ds, op=op: getattr(ds.warm.resample(time="QS"), op)(), "few chunks") for op in OPS},
    "gaps": (lambda ds: ds.resample(time="10D").mean(), "few chunks"),
    "by year": (lambda ds: ds.groupby("time.year").mean(), "few chunks"),
    "last": (lambda ds: ds.warm.resample(time="QS").last(), "few chunks"),
    "bins, one of them empty": (lambda ds: ds.warm[..., :12].groupby_bins("zone", [-1, 0, 1, 9]).mean(), "few chunks"),
    "of ten or more": (lambda ds: ds.warm.groupby("time.month").sum(min_count=10), "counts"),
    "few of each": (lambda ds: ds.warm.chunk(time=-1).groupby("time").mean(), "few elements"),
    "median": (lambda ds: ds.warm.chunk(time=-1).groupby("time.month").median(), "gr.grouped has not"),
    "sorted": (lambda ds: ds.warm.assign_coords(half=("y", [0] * 8 + [1] * 8)).groupby("half").mean(), "few"),
    "complex variance": (lambda ds: (ds.warm + 1j * ds.warm).groupby("time.month").var(), "complex"),
    "cumsum": (lambda ds: ds.warm.groupby("time.month").cumsum(), "scan function"),
}


def parts(found):
    """The variables of a result that are dask's: values, dtypes, chunks and attributes of each are compared."""
    return found.variables if isinstance(found, xr.Dataset) else {"": found}


def assert_alike(got, want):
    for name, expected in parts(want).items():
        mine = parts(got)[name]
        assert (mine.dtype, mine.dims, mine.chunks, mine.attrs) == (
            expected.dtype,
            expected.dims,
            expected.chunks,
            expected.attrs,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.testing.assert_allclose(got.compute(), want.compute())


def layers(found, start):
    return [key for key in found.__dask_graph__().layers if key.startswith(start)]


@pytest.mark.parametrize("name", TAKEN)
def test_groups_that_chunks_share_are_taken(name):
    want = TAKEN[name](dataset())
    with gr.accelerate(numpy=True):
        got = TAKEN[name](dataset())
    assert layers(got, "gr-groupby") and not layers(got, "groupby_")
    assert gr.explain(got).taken and not gr.explain(got).left
    assert_alike(got, want)


@pytest.mark.parametrize("name", LEFT)
def test_what_flox_does_as_well_is_left_to_it(name):
    call, reason = LEFT[name]
    want = call(dataset())
    with gr.accelerate(numpy=True):
        got = call(dataset())
    assert not layers(got, "gr-") and set(layers(got, "groupby_")) == set(layers(want, "groupby_"))
    explained = gr.explain(got)
    assert not explained.taken and all(reason in line for line in explained.left), explained
    if name != "complex variance":  # flox's own is wrong in its imaginary part
        assert_alike(got, want)


LOCAL = {name: LEFT[name][0] for name in [*(f"{op} of quarters" for op in OPS), "by year", "last"]}
LOCAL |= {
    f"{op} of years that share chunks": lambda ds, op=op: getattr(ds.warm.chunk(time=7).groupby("time.year"), op)()
    for op in ("mean", "count", "first", "last")
}


@pytest.mark.parametrize("name", LOCAL)
def test_groups_that_lie_in_few_chunks_have_states_there_alone(name, monkeypatch):
    """What is done of CuPy chunks, which flox does not take."""
    monkeypatch.setattr(integration, "NUMPY_RULES", ())
    want = LOCAL[name](dataset())
    with gr.accelerate(numpy=True):
        got = LOCAL[name](dataset())
    assert layers(got, "gr-groupby") and not layers(got, "groupby_")
    assert_alike(got, want)


def test_cohorts_of_groups_without_elements(monkeypatch):
    monkeypatch.setattr(integration, "NUMPY_RULES", ())
    values = np.sort(np.random.default_rng(0).normal(size=60))
    x = xr.DataArray(
        da.from_array(VALUES[:60], chunks=(60, 8, 12)), dims=("time", "y", "x"), coords={"q": ("time", values)}
    )
    for bins in ([-1, -0.3, 0, 0.2, 9, 10], [-1, 0, 9, 10, 11]):
        for op in ("mean", "count", "min"):

            def binned(x, bins=bins, op=op):
                return getattr(x.groupby_bins("q", bins), op)(method="cohorts")

            want = binned(x)
            with gr.accelerate(numpy=True):
                got = binned(x)
            xr.testing.assert_allclose(got.compute(), want.compute())


def test_what_stays_floxs():
    from flox import groupby_reduce
    from flox.aggregations import AGGREGATIONS

    own = copy.deepcopy(AGGREGATIONS["mean"])
    own.finalize = np.add
    labels = np.arange(120) % 3
    x = da.from_array(VALUES.T, chunks=(12, 8, 60))
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
            assert not layers(got, "groupby_")
