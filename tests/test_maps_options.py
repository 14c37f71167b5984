"""``where=``, ``initial=``, ``weights=`` and ``min_count=`` of the reductions, against NumPy and xarray."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from test_maps import arrays, close

import gpureduce_dask as gr
from gpureduce_dask.errors import ArgumentError, DtypeError, EmptyError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PLAIN = ("sum", "prod", "any", "all", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd")
STARTED = ("sum", "prod", "nansum", "nanprod", "min", "max", "nanmin", "nanmax")


def elements(dtype="f4"):
    u, v = arrays()
    u, mask = (u * 3).astype(dtype), v > 0.2
    mask[:, 7] = False
    if dtype == "f4":
        u[4, 5:9] = np.nan
    return u, mask, da.from_array(u, chunks=(20, 30)), da.from_array(mask, chunks=(30, 40))


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("op", PLAIN)
def test_where(op, dtype):
    u, mask, x, m = elements(dtype)
    for axis in (None, 0):
        close(getattr(gr, op)(x, axis=axis, where=m), getattr(np, op)(u, axis=axis, where=mask))
    close(getattr(gr, op)(x, axis=1, where=mask[0]), getattr(np, op)(u, axis=1, where=mask[0]))


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("op", STARTED)
def test_initial_with_and_without_where(op, dtype):
    u, mask, x, m = elements(dtype)
    close(getattr(gr, op)(x, axis=0, initial=2), getattr(np, op)(u, axis=0, initial=2))
    close(getattr(gr, op)(x, axis=0, initial=2, where=m), getattr(np, op)(u, axis=0, initial=2, where=mask))


@pytest.mark.parametrize("dtype", ["u1", "u8", "i1", "?"])
@pytest.mark.parametrize("initial", [0, 5, True, np.int64(5), 2.0])
def test_initial_is_any_number_that_the_result_holds(dtype, initial):
    u = np.ones((6, 2), dtype)
    for op in ("sum", "max", "min"):
        close(
            getattr(gr, op)(da.from_array(u, chunks=3), axis=0, initial=initial), getattr(np, op)(u, 0, initial=initial)
        )


@pytest.mark.parametrize(("dtype", "initial"), [("i1", 300), ("i1", -129), ("u1", -1), ("i8", 2**63), ("u1", np.inf)])
def test_initial_does_not_wrap_round(dtype, initial):
    with pytest.raises(ArgumentError, match=f"a number that {np.dtype(dtype)} holds"):
        gr.max(da.ones(6, dtype=dtype, chunks=3), initial=initial)


def test_extrema_need_an_initial_value_for_what_may_be_empty():
    _, _, x, m = elements()
    with pytest.raises(ArgumentError, match="initial"):
        gr.max(x, where=m)
    empty = da.zeros((0, 3), chunks=3)
    with pytest.raises(EmptyError):
        gr.min(empty, axis=0)
    close(gr.min(empty, axis=0, initial=5.0), np.min(np.zeros((0, 3)), axis=0, initial=5.0))
    with pytest.raises(ArgumentError, match="initial"):
        gr.sum(x.astype("i4"), initial=0.5)


def test_weights():
    u, mask, _, m = elements("f8")
    w = np.abs(arrays(1)[1])
    x, weights = da.from_array(u, chunks=(20, 30)), da.from_array(w, chunks=40)
    close(gr.sum(x, axis=0, weights=weights), (u * w).sum(axis=0))
    close(gr.mean(x, axis=1, weights=weights), np.average(u, axis=1, weights=w))
    close(gr.mean(x, weights=w[0]), np.average(u, weights=np.broadcast_to(w[0], u.shape)))
    close(gr.sum(x, weights=w[:, :1], where=m), (u * w[:, :1]).sum(where=mask))
    close(gr.mean(x, axis=1, weights=weights, where=m), (u * w).sum(axis=1, where=mask) / w.sum(axis=1, where=mask))


@pytest.mark.parametrize("op", ["var", "std"])
def test_weights_of_spreads_count_elements_so_often(op):
    rng = np.random.default_rng(3)
    u = rng.normal(size=(60, 80), loc=100).astype("f4")
    times, mask = rng.integers(0, 4, u.shape), rng.random(u.shape) > 0.4
    x, weights = da.from_array(u, chunks=(20, 30)), da.from_array(times, chunks=25)

    def expected(line, count, ddof):
        return getattr(np.repeat(line.astype("f8"), count), op)(ddof=ddof)

    close(getattr(gr, op)(x, weights=weights, ddof=1), expected(u.ravel(), times.ravel(), 1))
    lines = [expected(u[:, j], times[:, j] * mask[:, j], 0) for j in range(80)]
    close(getattr(gr, op)(x, axis=0, weights=weights, where=mask), lines)
    u[3, 4] = np.nan
    got = getattr(gr, op)(da.from_array(u, chunks=20), axis=1, weights=np.where(np.isnan(u), 0, times))
    assert np.isfinite(got.compute()).all()  # what does not count may be anything
    assert np.isnan(getattr(gr, op)(da.from_array(u, chunks=20), weights=times + 1).compute())
    assert np.isnan(getattr(gr, op)(x, weights=times * 0).compute())


def test_min_count_is_xarrays():
    xr = pytest.importorskip("xarray")
    u, mask, _, m = elements()
    u = np.where(mask, u, np.nan).astype("f4")
    x, named = da.from_array(u, chunks=(20, 30)), xr.DataArray(u, dims=("a", "b"))
    for least in (1, 25, 40):
        close(gr.nansum(x, axis=0, min_count=least), named.sum("a", skipna=True, min_count=least).values)
        close(gr.nanprod(x, axis=1, min_count=least), named.prod("b", skipna=True, min_count=least).values)
    close(gr.nansum(x, min_count=u.size), np.float32(np.nan))
    close(
        gr.nansum(x, axis=0, keepdims=True, min_count=2, where=m),
        np.nansum(u, axis=0, keepdims=True) + np.where(mask.sum(axis=0) < 2, np.nan, 0).astype("f4"),
    )


def test_masked_chunks_are_refused():
    x = da.from_array(np.ma.masked_less(np.arange(6.0), 2), chunks=3)
    with pytest.raises(DtypeError, match="Fill masked"):
        gr.sum(x, where=np.ones(6, bool))


def test_out_and_dtype():
    u, mask, x, m = elements("i4")
    out = da.zeros(u.shape[1], chunks=30, dtype="f4")
    gr.sum(x, axis=0, where=m, dtype="f4", out=out)
    close(out, u.sum(axis=0, where=mask, dtype="f4"))
