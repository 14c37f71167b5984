"""xarray's arrays go into every public function and come out with the labels that xarray's own reductions leave."""

from __future__ import annotations

import inspect

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors
from gpureduce_dask.public import is_labelled

xr = pytest.importorskip("xarray")
VALUES = np.random.default_rng(0).normal(280, 9, (6, 4, 5))
VALUES[3, 2, 1] = np.nan
LINE = np.arange(6.0)
SKIPPED = {"tree", "scan_tree", "device_meta", "warm", "stats", "describe", "persist", "plan"}  # tested below
SKIPPED |= {"explain", "grouped", "bincount", "histogram", "map_reduce", "map_scan", "vdot", "average"}
EXTRA = {"reduction": ["sum"], "scan": ["max"], "moment": [2]}
FUNCTIONS = [name for name in gr.__all__ if inspect.isfunction(getattr(gr, name)) and name not in SKIPPED]
SCANS = {name for name in FUNCTIONS if name.startswith(("cum", "nancum")) or name in ("ffill", "bfill", "scan")}


@pytest.fixture
def field():
    coords = {
        "time": np.arange("2020-01", "2020-07", dtype="M8[M]").astype("M8[ns]"),
        "band": ("y", list("aabb")),
        "height": (("time", "y"), np.arange(24).reshape(6, 4)),
        "level": 850,
    }
    data = da.from_array(VALUES, chunks=(3, 4, 2))
    return xr.DataArray(data, dims=("time", "y", "x"), coords=coords, attrs={"units": "K"}, name="warm")


@pytest.mark.parametrize("keep_attrs", ["default", False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_labels_are_those_that_xarray_leaves(field, name, keep_attrs):
    function, extra = getattr(gr, name), EXTRA.get(name, [])
    shaped = (lambda x, **_: x) if name in SCANS else (lambda x, **_: x[0])
    with xr.set_options(keep_attrs=keep_attrs):
        want = field.reduce(shaped, "time")
        got = function(field, *extra, dim="time")
    assert (
        got.dims == want.dims and got.name == "warm" and got.attrs == want.attrs and set(got.coords) == set(want.coords)
    )
    xr.testing.assert_identical(got.coords.to_dataset(), want.coords.to_dataset())
    plain = function(field.data, *extra, axis=0)
    assert isinstance(got.data, da.Array) and got.data.name == plain.name  # the same graph
    np.testing.assert_array_equal(function(field, *extra, axis=0), plain)


def test_against_xarray(field):
    same = xr.testing.assert_allclose
    same(gr.nanmean(field), field.mean())
    same(gr.nansum(field, dim=("x", "time")), field.sum(("x", "time")))
    same(gr.max(field, dim=...), field.max(skipna=False))
    same(gr.nanstd(field, dim=["y"], keepdims=True, ddof=1), field.std("y", keepdims=True, ddof=1))
    same(gr.argmax(field, dim="y"), field.argmax("y", skipna=False))
    same(gr.cumsum(field, dim="x"), field.cumsum("x", skipna=False).assign_coords(field.coords))
    same(gr.nansum(field, dim=[]), field.fillna(0))
    assert gr.skew(field).ndim == 0 and gr.skew(field.data).ndim == 2  # of a DataArray no dim= is all
    line = xr.DataArray(LINE, dims="t", coords={"t": LINE}, attrs={"a": 1})
    same(gr.cumsum(line), line.cumsum().assign_coords(line.coords))
    same(gr.sum(xr.DataArray(3.0)), xr.DataArray(3.0))
    longer = gr.cumulative_sum(line, include_initial=True)
    assert longer.dims == ("t",) and longer.shape == (7,) and not longer.coords and longer.attrs == {"a": 1}


def test_masks_and_weights_go_by_name(field):
    area = xr.DataArray(np.arange(1.0, 5), dims="y")
    weighted = field.weighted(area)
    xr.testing.assert_allclose(gr.nanmean(field, dim=("y", "x"), weights=area), weighted.mean(("y", "x")))
    filled = field.fillna(280.0)
    for dim in ("y", ("y", "x"), "x", None):
        xr.testing.assert_allclose(gr.average(filled, weights=area, dim=dim), filled.weighted(area).mean(dim))
    mask = (filled > 280).transpose("x", "time", "y")
    np.testing.assert_allclose(gr.sum(filled, dim="x", where=mask), filled.where(filled > 280, 0).sum("x"))
    np.testing.assert_allclose(gr.sum(filled.data, where=filled > 280), filled.where(filled > 280, 0).sum())
    means, weights = gr.average(filled, weights=area, dim="y", returned=True)
    assert means.dims == weights.dims == ("time", "x") and (weights == 10).all()
    with pytest.raises(errors.ArgumentError, match=r"^sum: an array of dimension 'z'; expected dimensions among"):
        gr.sum(field, where=xr.DataArray([True], dims="z"))
    moved = field.assign_coords(time=field.time + np.timedelta64(1, "D"))
    with pytest.raises(errors.ArgumentError, match=r"^sum: .*time.*xarray\.align"):
        gr.sum(field, where=moved > 0)


def test_several_arrays(field):
    other = (field.isel(time=0, drop=True) + 1).transpose("x", "y").rename("other")
    got = gr.map_reduce(lambda x, y: x * y, "nansum", field, other, dim="y")
    xr.testing.assert_allclose(got, (field * other).sum("y"))
    many = gr.map_reduce(lambda x, y: (x, x * y), ["nanmin", "nanmax"], field, other, dim="time")
    xr.testing.assert_allclose(many[1].nanmax, (field * other).max("time").rename("nanmax"))
    lines = gr.map_scan(lambda x, y: x - y, "sum", field, other, dim="x")
    np.testing.assert_allclose(lines, np.cumsum((field - other).values, axis=2))
    assert lines.dims == field.dims and "time" in lines.coords
    product = gr.vdot(field.fillna(0), field.fillna(0).transpose())
    assert product.dims == () and product == pytest.approx(np.nansum(VALUES**2)) and product.level == 850
    solved = gr.scan((xr.full_like(field, 0.5), field.fillna(0)), "affine", dim="time")
    assert solved.dims == field.dims and solved.attrs == field.attrs
    several = gr.scan(field, ["max", "min"], dim="time", segments=xr.DataArray([0, 0, 1, 1, 1, 2], dims="time"))
    assert isinstance(several, xr.Dataset) and several["max"].dims == field.dims
    np.testing.assert_array_equal(several["max"][2], VALUES[2])


def test_groups_plans_and_memory(field):
    season = xr.DataArray([0, 0, 1, 1, 2, 2], dims="time", name="season")
    got = gr.grouped(field, season, "max", dim="time")
    assert got.dims == ("y", "x", "season") and set(got.coords) == {"band", "level"} and got.attrs == field.attrs
    np.testing.assert_array_equal(got[..., 0], VALUES[:2].max(axis=0))
    both = gr.grouped(field, (season, xr.DataArray([0, 0, 1, 1], dims="y")), "nansum", dim=("y", "time"))
    assert both.dims == ("x", "group") and both.shape == (5, 6)
    with pytest.raises(errors.ArgumentError, match=r"^grouped: an array of dimension 'y'"):
        gr.grouped(field, (xr.DataArray([0, 0, 1, 1], dims="y"), season), dim=("y", "time"))
    assert gr.plan(field, "sum", dim="time") == gr.plan(field.data, "sum", axis=0)
    kept = gr.persist(field + 1)
    xr.testing.assert_identical(kept, field + 1)
    assert len(kept.data.dask) == kept.data.npartitions  # nothing is left to make
    assert gr.persist(xr.Dataset({"a": field, "b": ("t", LINE)})).identical(xr.Dataset({"a": field, "b": ("t", LINE)}))
    counts, edges = gr.histogram(field, bins=3, range=(200, 300))
    assert counts.shape == (3,) and edges.shape == (4,)
    assert gr.bincount(season, minlength=3).compute().tolist() == [2, 2, 2]


def test_datasets(field):
    data = xr.Dataset({"warm": field, "when": ("time", LINE), "flat": ("y", np.arange(4))}, attrs={"source": "here"})
    xr.testing.assert_allclose(gr.nansum(data, dim="time"), data.sum("time"))
    assert gr.nansum(data, dim="time").attrs == data.attrs
    xr.testing.assert_allclose(
        gr.nanmean(data, dim=("time", "x"), keepdims=True), data.mean(("time", "x"), keepdims=True)
    )
    xr.testing.assert_allclose(gr.nanstd(data), data.std())
    xr.testing.assert_allclose(gr.nancumsum(data, dim="time"), data.cumsum("time").assign_coords(data.coords))
    filled = gr.ffill(data, dim="time")
    np.testing.assert_array_equal(filled.warm, gr.ffill(VALUES, axis=0))
    assert filled.flat.identical(data.flat) and filled.attrs == data.attrs and set(filled.coords) == set(data.coords)
    with xr.set_options(keep_attrs=False):
        found = gr.nanmax(data, dim="time")
    assert not found.attrs and not found.warm.attrs
    area = xr.DataArray(np.arange(1.0, 7), dims="time")
    xr.testing.assert_allclose(
        gr.nanmean(data[["warm", "when"]], dim="time", weights=area), data[["warm", "when"]].weighted(area).mean("time")
    )
    for call in (
        lambda: gr.plan(data, "sum"),
        lambda: gr.histogram(data, 3, (0, 1)),
        lambda: gr.average(LINE, 0, data),
    ):
        with pytest.raises(errors.ArgumentTypeError, match=r"^\w+: a Dataset; expected a DataArray"):
            call()
    with pytest.raises(errors.DtypeError, match=r"^sum: dtype <U1") as caught:
        gr.sum(data.assign(word=("time", list("abcdef"))), dim="time")
    assert caught.value.__notes__ == ["of the variable 'word'"]
    with pytest.raises(errors.ArgumentTypeError, match=r"^sum: type DataArrayGroupBy; expected an array"):
        gr.sum(field.groupby("band"))
    with pytest.raises(errors.ArgumentError, match=r"^sum: axis=0 with a Dataset; expected dim="):
        gr.sum(data, axis=0)
    with pytest.raises(errors.AxisError, match=r"^sum: dim 'depth' of dimensions"):
        gr.sum(data, dim="depth")


def test_several_results_of_a_dataset(field):
    data = xr.Dataset({"warm": field.fillna(0), "flat": ("y", np.arange(4))}, attrs={"source": "here"})
    both = gr.scan(data, ["max", "min"], dim="time")
    assert both._fields == ("max", "min") and both.max.flat.identical(data.flat) and both.min.attrs == data.attrs
    np.testing.assert_array_equal(both["min"].warm, np.minimum.accumulate(data.warm.values))
    area = xr.DataArray(np.arange(1.0, 5), dims="y")
    means, weights = gr.average(data, weights=area, dim="y", returned=True)
    xr.testing.assert_allclose(means, data.weighted(area).mean("y"))
    assert set(weights) == {"warm", "flat"} and (weights.warm == 10).all() and weights.flat == 10
    xr.testing.assert_allclose(gr.map_reduce(np.square, "sum", data, dim="y"), (data**2).sum("y"))
    scaled = gr.map_reduce(lambda x, y: x * y, ["min", "max"], data, area, dim="y")
    xr.testing.assert_allclose(scaled.max, (data * area).max("y"))
    with pytest.raises(errors.ArgumentTypeError, match=r"^map_reduce: a Dataset; expected a DataArray"):
        gr.map_reduce(lambda x, y: x * y, "sum", area, data, dim="y")


def test_groups_of_a_dataset(field):
    data = xr.Dataset({"warm": field, "when": ("time", LINE), "flat": ("y", np.arange(4))}, attrs={"source": "here"})
    season = xr.DataArray([0, 0, 1, 1, 2, 2], dims="time", name="season")
    found = gr.grouped(data, season, "max", dim="time")
    assert found.attrs == data.attrs and found.flat.identical(data.flat)
    for name in ("warm", "when"):
        xr.testing.assert_identical(found[name].compute(), gr.grouped(data[name], season, "max", dim="time").compute())
    with pytest.raises(errors.ArgumentError, match=r"^grouped: an array of dimension 'time'") as caught:
        gr.grouped(data, season, dim=("time", "y"))
    assert caught.value.__notes__ == ["of the variable 'warm'"] or "flat" in caught.value.__notes__[0]


def test_what_labels_cannot_say(field):
    with pytest.raises(errors.ArgumentError, match=r"^cumsum: a DataArray and no dim=; expected dim=, one of \('time'"):
        gr.cumsum(field)
    with pytest.raises(errors.ArgumentError, match=r"^ffill: a DataArray and no dim="):
        gr.ffill(field)
    with pytest.raises(errors.ArgumentError, match=r"^max: axis=0 and dim='x'"):
        gr.max(field, axis=0, dim="x")
    with pytest.raises(errors.AxisError, match=r"^max: axis='x'; .* Write dim='x'"):
        gr.max(field, "x")
    assert gr.nansum(field.variable) == pytest.approx(np.nansum(VALUES))  # a Variable is an array like any other
    with pytest.raises(errors.ArgumentError, match=r"^max: dim='x' without a DataArray"):
        gr.max(field.data, dim="x")
    with pytest.raises(errors.ArgumentError, match=r"^sum: dim='x' without a DataArray"):
        gr.sum(field.data, dim="x", where=field > 0)
    with pytest.raises(errors.ArgumentError, match=r"^map_reduce: an array of 2 axes without names"):
        gr.map_reduce(lambda x, y: x * y, "sum", field[0, 0], np.ones((3, 5)), dim="x")
    with pytest.raises(
        TypeError, match=r"^vdot: got an unexpected keyword argument 'dim'; expected the arguments a, b\."
    ):
        gr.vdot(field, field, dim="x")
    with pytest.raises(TypeError, match=r"^sum: got an unexpected keyword argument 'skipna'; .* as in nansum"):
        gr.sum(field, skipna=True)


def test_signatures_tell_all():
    names = list(inspect.signature(gr.sum).parameters)
    assert names == [*"a axis dtype keepdims split_every out strategy where initial weights min_count dim".split()]
    assert all("dim" in inspect.signature(getattr(gr, name)).parameters for name in FUNCTIONS)
    assert not is_labelled(VALUES) and not is_labelled(([xr.DataArray(1)],))
