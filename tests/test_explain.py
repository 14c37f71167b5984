"""``gr.explain``: what was taken under ``gr.accelerate()``, what was left to dask, and why."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from plain_calls import switched_off  # noqa: F401

import gpureduce_dask as gr
from gpureduce_dask.integrations import decisions

X = da.from_array(np.arange(240.0).reshape(12, 20), chunks=(5, 20))


def explained(make, **options):
    with gr.accelerate(numpy=True, **options):
        return gr.explain(make())


def test_what_is_taken():
    assert explained(lambda: X.mean(axis=0)) == (("mean of (12, 20) float64 over axis 0",), ())
    assert str(explained(lambda: np.nanstd(X))) == "taken: nanstd of (12, 20) float64 over all axes"
    both = explained(lambda: X - X.sum(axis=(0, 1)) + da.cumsum(X, axis=1).max())
    assert set(both.taken) == {
        "sum of (12, 20) float64 over axes 0, 1",
        "cumsum of (12, 20) float64 over axis 1",
        "max of (12, 20) float64 over all axes",
    }


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: X.astype("M8[s]").max(), "times"),
        (lambda: X.astype(object).sum(), "objects"),
        (lambda: da.ma.masked_greater(X, 3).sum(), "masked"),
        (lambda: da.reduction(X, lambda b, axis, keepdims: b.sum(axis, keepdims=keepdims), np.sum, dtype=float), "own"),
        (lambda: X.sum(dtype="i4"), "NaN"),
        (lambda: da.histogram(X, bins=3, range=(0, 9), weights=X)[0], "weights"),
        (lambda: da.ones((1 << 18, 4), chunks=-1).T.sum(axis=0), "fewer than 32"),
    ],
)
def test_what_is_left_to_dask(make, reason):
    left = explained(make).left
    assert len(left) >= 1 and reason in left[0]


def test_numpy_chunks_are_asked_for():
    with gr.accelerate():
        assert "numpy=True" in gr.explain(X.sum()).left[0]


def test_what_is_delayed():
    def delayed():
        return dask.delayed(max)(X.mean(axis=0).to_delayed()[0], X.astype(object).sum().to_delayed().item())

    found = explained(delayed)
    assert found.taken == ("mean of (12, 20) float64 over axis 0",)
    assert len(found.left) == 1 and "objects" in found.left[0]


def test_what_is_written_later(tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    field = xr.DataArray(X, dims=("t", "x")).to_dataset(name="a")
    how = {"compute": False, "consolidated": False}
    found = explained(lambda: field.mean("t").to_zarr(tmp_path / "mean.zarr", **how))
    assert found.taken == ("nanmean of (12, 20) float64 over axis 0",)


def test_what_nobody_asked_about():
    assert "nothing" in str(gr.explain(X + 1)) and "nothing" in str(explained(lambda: X.T))
    assert all(name.startswith("gr-sum") for name in gr.explain(gr.sum(X + 2)).taken)
    with pytest.raises(gr.errors.ArgumentError, match="before compute"):
        gr.explain(np.ones(3))


def test_decisions_are_forgotten(monkeypatch):
    monkeypatch.setattr(decisions, "REMEMBERED", 2)
    with gr.accelerate(numpy=True):
        made = [(X + i).sum() for i in range(5)]
    assert len(decisions._decisions) == 2 and not gr.explain(made[0]).left
    assert gr.explain(made[-1]).taken == ("sum of (12, 20) float64 over all axes",)


def test_histograms_are_those_of_dask():
    for y in (X, X.astype("f4"), X.astype("i1"), (X > 3)[:, :7]):
        for arguments in (
            {"bins": 7, "range": (0, 200)},
            {"bins": [0, 3, 100]},
            {"bins": 4, "range": [1, 9], "density": 1},
        ):
            want, edges = da.histogram(y, **arguments)
            with gr.accelerate(numpy=True):
                got, own = da.histogram(y, **arguments)
            assert (got.dtype, got.chunks, own.dtype) == (want.dtype, want.chunks, edges.dtype)
            assert gr.explain(got).taken
            np.testing.assert_array_equal(own, edges)
            np.testing.assert_allclose(got.compute(), want.compute())
    with gr.accelerate(numpy=True):
        for call in (
            {"bins": 3},
            {"bins": 3, "range": (0, 1, 2)},
            {"bins": [[1]]},
            {"bins": 3, "range": (0, 1), "normed": 1},
        ):
            with pytest.raises((ValueError, TypeError)):
                da.histogram(X, **call)
        lazy = da.histogram(X, bins=da.from_array(np.arange(5), chunks=5))[0]
    assert "when they are computed" in gr.explain(lazy).left[0]
