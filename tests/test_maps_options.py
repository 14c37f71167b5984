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


WORST = {"f4": (np.inf, -np.inf), "i4": (2**31 - 1, -(2**31)), "?": (True, False), "u1": (255, 0)}


@pytest.mark.parametrize("dtype", WORST)
@pytest.mark.parametrize("op", ["argmin", "argmax", "nanargmin", "nanargmax", "ptp"])
def test_positions_are_those_in_the_whole_array(op, dtype):
    """Also where the only chosen elements are those that no other is worse than, and where one chosen is NaN."""
    u, mask, _, _ = elements()
    mask[:, 7] = mask[:, 8]
    u = np.nan_to_num(u).astype(dtype)
    if op == "ptp" and dtype == "?":
        return
    u[:, 3], u[:, 4] = WORST[dtype]
    if dtype == "f4" and not op.startswith("nan"):
        u[11, 20], u[30, 21], mask[11, 20], mask[30, 21] = np.nan, np.nan, True, False
    x, m = da.from_array(u, chunks=(20, 30)), da.from_array(mask, chunks=(30, 40))

    def among(line, counts):
        found = getattr(np, op)(line[counts])
        return found if op == "ptp" else np.flatnonzero(counts)[found]

    close(getattr(gr, op)(x, axis=0, where=m), [among(u[:, j], mask[:, j]) for j in range(80)])
    close(getattr(gr, op)(x, axis=1, where=m), [among(*each) for each in zip(u, mask, strict=True)])
    close(getattr(gr, op)(x, where=m), among(u.ravel(), mask.ravel()))
    with pytest.raises(EmptyError, match=r"an element that counts|All-NaN"):
        getattr(gr, op)(x, axis=1, where=np.arange(60)[:, None] != 5).compute()


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_where_of_norms_and_moments(dtype):
    u, mask, _, m = elements()
    u = np.nan_to_num(u).astype(dtype)
    x, wide = da.from_array(u, chunks=(20, 30)), u.astype("f8")
    lines = [wide[:, j][mask[:, j]] for j in range(80)]
    kind = "f4" if dtype == "f4" else "f8"
    for order in (1, 2, np.inf):
        got = gr.norm(x, order, axis=0, where=m)
        close(got, np.array([np.linalg.norm(v, order) if v.size else 0 for v in lines], kind))
    centred = [v - v.mean() if v.size else v for v in lines]
    moments = {k: np.array([np.mean(v**k) if v.size else np.nan for v in centred]) for k in (2, 3, 4)}
    close(gr.moment(x, 3, axis=0, where=m), moments[3].astype(kind))
    close(gr.skew(x, where=m), (moments[3] / moments[2] ** 1.5).astype(kind))
    close(gr.kurtosis(x, where=m, min_count=1), (moments[4] / moments[2] ** 2 - 3).astype(kind))
    close(gr.sumsq(x, where=m, dtype="f8"), (wide**2).sum(where=mask))
    close(gr.count_nonzero(x, axis=1, where=m), np.count_nonzero(np.where(mask, u, 0), axis=1))
    u = u.astype("f4")
    u[10, 8], mask[10, 8] = np.nan, True  # one that counts is not left out
    assert np.isnan(gr.skew(da.from_array(u, chunks=20), where=mask).compute()[8])


def test_stats_of_some_elements():
    u, mask, x, m = elements("i4")
    found = gr.stats(x, ["max", "argmax", "mean", "std", "count", "skew"], axis=0, ddof=1, where=m | (x == 0))
    some = mask | (u == 0)
    close(found.mean, u.mean(axis=0, where=some))
    close(found.std, u.std(axis=0, ddof=1, where=some))
    close(found.count, some.sum(axis=0))
    close(found.argmax, [np.flatnonzero(some[:, j])[np.argmax(u[some[:, j], j])] for j in range(80)])
    xr = pytest.importorskip("xarray")
    named = xr.DataArray(x, dims=("a", "b"))
    assert gr.stats(named, ["sum"], dim="a", where=named > 0)["sum"].equals(named.where(named > 0, 0).sum("a"))


@pytest.mark.parametrize("op", ["nansum", "nanmean", "nanvar", "nanstd", "sumsq"])
def test_weights_without_nan(op):
    rng = np.random.default_rng(4)
    u, times = rng.normal(size=(40, 30)) + 3, rng.integers(0, 4, (40, 30))
    u[rng.random(u.shape) < 0.2] = np.nan
    u[:, 5] = np.nan
    stock = (lambda v, axis: np.nansum(v * v)) if op == "sumsq" else getattr(np, op)
    if op == "sumsq":
        u = np.nan_to_num(u)
    x = da.from_array(u, chunks=(15, 12))
    expected = [stock(np.repeat(u[:, j], times[:, j]), axis=0) for j in range(30)]
    close(getattr(gr, op)(x, axis=0, weights=times), expected)


def test_weighted_norms():
    u, w = np.array([[3.0, -4.0], [1.0, 2.0]]), np.array([4.0, 0.25])
    for order, expected in ((1, [13, 4.5]), (2, [40**0.5, 5**0.5]), (np.inf, [12, 4])):
        close(gr.norm(da.from_array(u, chunks=1), order, axis=1, weights=w), np.array(expected, "f8"))


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "nanmin", "mean", "nanstd", "ptp", "kurtosis", "norm"])
def test_min_count_of_any_float_result(op):
    _, mask, x, m = elements("i4")
    plain = np.asarray(getattr(gr, op)(x, axis=0).compute()).astype("f8")
    close(getattr(gr, op)(x, axis=0, min_count=60), plain)
    close(getattr(gr, op)(x, axis=0, min_count=61), np.full(80, np.nan))
    got = getattr(gr, op)(x, axis=0, min_count=20, where=m).compute()
    np.testing.assert_array_equal(np.isnan(got), mask.sum(axis=0) < 20)


@pytest.mark.parametrize("kind", ["f4", "i8"])
def test_no_minimum_of_nothing(kind):
    x = da.arange(6, chunks=2, dtype=kind)
    for op in (gr.min, gr.max, gr.nanmin, gr.ptp):
        assert np.isnan(op(x, where=x > 10, min_count=0).compute())
        assert op(x, where=x > 4, min_count=0).compute() == {gr.ptp: 0}.get(op, 5)


def test_min_count_of_weighted_means_counts_elements():
    u, _, x, _ = elements()
    got = gr.mean(x, axis=0, weights=np.full(u.shape, 0.5), min_count=60)
    close(got, np.where(np.isnan(u).any(axis=0), np.nan, u.mean(axis=0, dtype="f8")))


def test_what_has_no_meaning_is_refused_by_one_error():
    _, _, x, m = elements()
    for call, takers in (
        (lambda: gr.argmax(x, weights=x), "sumsq"),
        (lambda: gr.prod(x, weights=x), "nanvar"),
        (lambda: gr.any(x, min_count=2), "kurtosis"),
        (lambda: gr.mean(x, initial=2), "nanprod"),
        (lambda: gr.moment(x, 5, where=m), "order 4"),
        (lambda: gr.sum(x, min_count=-1), "integer of 0"),
        (lambda: gr.sum(x, strategy="reduce-00", where=m), "one of them"),
    ):
        with pytest.raises(ArgumentError, match=takers):
            call()
    with pytest.raises(TypeError, match=r"argmax: got an unexpected keyword argument 'wear'.*Did you mean where="):
        gr.argmax(x, wear=m)


def test_times_are_summed_and_ordered_with_masks():
    u = np.arange(12).astype("m8[s]").reshape(3, 4)
    x, m = da.from_array(u, chunks=2), np.arange(4) < 2
    for op, expected in (("sum", u[:, :2].sum(1)), ("mean", u[:, :2].mean(1)), ("argmax", [1, 1, 1])):
        np.testing.assert_array_equal(getattr(gr, op)(x, axis=1, where=m).compute(), expected)
    np.testing.assert_array_equal(gr.max(x, axis=1, where=m, min_count=3).compute(), np.full(3, "NaT", "m8[s]"))


def test_masked_chunks_are_refused():
    x = da.from_array(np.ma.masked_less(np.arange(6.0), 2), chunks=3)
    with pytest.raises(DtypeError, match="Fill masked"):
        gr.sum(x, where=np.ones(6, bool))


def test_out_and_dtype():
    u, mask, x, m = elements("i4")
    out = da.zeros(u.shape[1], chunks=30, dtype="f4")
    gr.sum(x, axis=0, where=m, dtype="f4", out=out)
    close(out, u.sum(axis=0, where=mask, dtype="f4"))
