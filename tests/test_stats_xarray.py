"""Several statistics of a DataArray are a Dataset, and ``describe`` is a table."""

from __future__ import annotations

import sys

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors

VALUES = np.random.default_rng(0).normal(280, 9, (12, 8, 6))
VALUES[3, 2, 1] = np.nan
NAMES = ["min", "max", "mean", "std", "nanmean", "argmax"]


@pytest.fixture
def field():
    xr = pytest.importorskip("xarray")
    coords = {
        "time": np.arange("2020-01", "2021-01", dtype="M8[M]").astype("M8[ns]"),
        "band": ("y", list("aabbccdd")),
        "height": (("time", "y"), np.arange(96).reshape(12, 8)),
        "level": 850,
    }
    data = da.from_array(VALUES, chunks=(3, 4, 6))
    return xr.DataArray(data, dims=("time", "y", "x"), coords=coords, attrs={"units": "K"}, name="warm")


@pytest.mark.parametrize("how", [{}, {"dim": "time"}, {"axis": 1}, {"dim": ("y", "x")}, {"dim": "x", "keepdims": True}])
@pytest.mark.parametrize("keep_attrs", [True, False])
def test_a_dataset_as_xarray_reduces(field, how, keep_attrs):
    import xarray as xr

    with xr.set_options(keep_attrs=keep_attrs):
        found = gr.stats(field, NAMES, **how)
        wanted = {"min": field.min(**how, skipna=False), "nanmean": field.mean(**how)}
    assert isinstance(found, xr.Dataset) and list(found) == NAMES
    assert all(dask.is_dask_collection(found[name]) for name in NAMES)
    for name, want in wanted.items():
        xr.testing.assert_allclose(found[name].compute(), want.rename(name).compute())
        assert found[name].attrs == want.attrs
    axes = {"dim": how.get("dim"), "axis": how.get("axis")}
    axis = field.get_axis_num(axes["dim"]) if axes["dim"] else axes["axis"]
    np.testing.assert_array_equal(found["argmax"], gr.argmax(field.data, axis=axis, keepdims="keepdims" in how))


def test_named_datasets_of_a_dataset(field):
    import xarray as xr

    data = xr.Dataset({"warm": field, "line": ("time", np.arange(12.0))}, attrs={"source": "here"})
    found = data.pipe(gr.stats, ["nanmean", "max"], dim="time")
    assert found._fields == ("nanmean", "max") and isinstance(found, gr.stats(field.data, ["nanmean", "max"]).__class__)
    xr.testing.assert_allclose(found.nanmean, data.mean("time"))
    xr.testing.assert_allclose(dask.compute(found)[0]["max"], data.max("time", skipna=False))
    assert found["max"] is found.max and found[1] is found.max and found.max.attrs == data.attrs
    for kind in (found, gr.stats(field, ["max"]), gr.stats(VALUES, ["max"])):
        with pytest.raises(KeyError, match="depth"):
            kind["depth"]
    with pytest.raises(errors.DtypeError, match="stats by max: dtype <U1") as caught:
        gr.stats(data.assign(word=("time", list("abcdefghijkl"))), ["max"], dim="time")
    assert caught.value.__notes__ == ["of the variable 'word'"]


def test_all_dimensions_and_those_that_are_not_there(field):
    assert gr.stats(field, ["count"], dim=...)["count"] == VALUES.size
    with pytest.raises(ValueError, match="depth"):
        gr.stats(field, ["mean"], dim="depth")
    with pytest.raises(errors.ArgumentError, match="one of them"):
        gr.stats(field, ["mean"], dim="x", axis=0)
    with pytest.raises(errors.ArgumentError, match="stats: dim='x' without a DataArray"):
        gr.stats(field.data, ["mean"], dim="x")


def test_xarray_is_never_imported(monkeypatch):
    """Whoever passes a DataArray has imported it; dask may do so as well."""
    x = da.ones((3, 4))
    monkeypatch.setitem(sys.modules, "xarray", None)  # an import raises
    assert gr.stats(x, ["min"]).min.compute() == gr.describe(x)["min"] == 1


def test_describe(field):
    description = gr.describe(field)
    assert description["count"] == VALUES.size - 1 and description["nan"] == 1
    for name, want in {"mean": np.nanmean(VALUES), "std": np.nanstd(VALUES, ddof=1), "min": np.nanmin(VALUES)}.items():
        assert description[name] == pytest.approx(want)
    assert gr.describe((field, field))["count"] == 2 * description["count"]
    lines = repr(description).splitlines()
    assert lines[0] == "float64 of shape (12, 8, 6), std with ddof=1"
    plain = gr.describe(field, ddof=0)
    assert plain["std"] == gr.stats(field, ["nanstd"]).nanstd == gr.nanstd(field) and "ddof=0" in repr(plain)
    assert [line.split()[0] for line in lines[1:]] == ["count", "mean", "std", "min", "max", "nan"]
    assert len({len(line) for line in lines[1:]}) == 1
    assert "<th style='text-align: left'>max</th>" in description._repr_html_()


def test_describe_a_dataset(field):
    import xarray as xr

    data = xr.Dataset({"warm": field, "when": field.time.variable})
    found = gr.describe(data, ddof=0)
    assert list(found) == ["warm", "when"] and repr(found["warm"]) == repr(gr.describe(field, ddof=0))
    assert found["warm"]["nan"] == 1 and "mean" not in found["when"].values
    title, heads, *lines = repr(found).splitlines()
    assert title == "2 variables, std with ddof=0" and heads.split() == ["count", "mean", "std", "min", "max", "nan"]
    assert [line.split()[0] for line in lines] == ["warm", "when"] and len({len(line) for line in (heads, *lines)}) == 1
    assert found._repr_html_().count("<td>") == 12
    assert repr(gr.describe(data[["warm"]])).startswith("1 variable, std with ddof=1")
    assert gr.describe(xr.Dataset()) == {} and repr(gr.describe(xr.Dataset())).startswith("0 variables\n")
    with pytest.raises(errors.DtypeError, match=r"^describe: dtype <U1") as caught:
        gr.describe(data.assign(word=("y", list("abcdefgh"))))
    assert caught.value.__notes__ == ["of the variable 'word'"]


def test_describe_of_other_elements():
    whole = gr.describe(np.arange(2000, dtype="i4"))
    assert whole.values == {
        "count": 2000,
        "mean": 999.5,
        "std": pytest.approx(np.arange(2000).std(ddof=1)),
        "min": 0,
        "max": 1999,
        "nan": 0,
    }
    assert "2,000" in repr(whole)
    times = gr.describe(np.array(["2020-01-01", "2021-01-01"], "M8[D]"))
    assert list(times.values) == ["count", "min", "max", "nan"] and times["max"] == np.datetime64("2021-01-01")
    with pytest.raises(errors.EmptyError):
        gr.describe(np.ones(0))
    with pytest.raises(errors.DtypeError):
        gr.describe(np.array(["a"]))


def test_describe_reads_once():
    reads = []

    def load(block):
        reads.append(block.shape)
        return block

    x = da.ones((40, 30), chunks=10).map_blocks(load, meta=np.empty((0, 0)))
    gr.describe(x)
    assert len(reads) == 12
