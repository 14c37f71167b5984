"""The public functions against NumPy, over dtypes, shapes, chunks and axes."""

from __future__ import annotations

import inspect
import math
import warnings

import dask
import dask.array as da
import ml_dtypes
import numpy as np
import pytest
from dask.array.utils import assert_eq
from hypothesis import given, settings
from hypothesis import strategies as st
from test_trees import chunkings

import gpureduce_dask as gr

NUMERIC = ["?", "i1", "u1", "i4", "u8", "i8", "f2", "f4", "f8", ">f4", ">i2", "c8", "c16", ml_dtypes.bfloat16]
FLOATS = ["f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16]
REAL = [d for d in NUMERIC if d not in ("c8", "c16")]
TIMES = ["M8[s]", "m8[ms]"]

PLAIN = ["sum", "prod", "any", "all", "count_nonzero", "mean", "var", "std"]
SKIPPING = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd"]
ORDERED = ["min", "max", "argmin", "argmax"]
ARGS = ["argmin", "argmax", "nanargmin", "nanargmax"]


def elements(rng, dtype, shape, missing):
    """Small values with ties, and where a dtype has NaN or NaT and ``missing`` is set, some of those."""
    dtype = np.dtype(dtype)
    values = rng.integers(0, 2, shape) if dtype.kind == "b" else rng.integers(0 if dtype.kind == "u" else -4, 5, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.integers(-4, 5, shape)
    x = np.asarray(values).astype(dtype)
    if missing and (dtype.kind in "fc" or dtype.name == "bfloat16"):
        x[rng.random(shape) < 0.15] = np.nan
    if missing and dtype.kind in "mM":
        x[rng.random(shape) < 0.15] = "NaT"
    return x


def wide(x):
    """``x`` in a dtype that NumPy is exact in for these values."""
    if x.dtype.name == "bfloat16" or x.dtype.kind == "f":
        return x.astype(np.float64)
    return x.astype(np.complex128) if x.dtype.kind == "c" else x


def expected(name, x, axis, keepdims, **options):
    """NumPy's result, from wide elements, in the dtype that NumPy gives for the narrow ones."""
    options = {**options, "axis": axis, "keepdims": keepdims}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = np.asarray(getattr(np, name)(wide(x), **options))
        if x.dtype.name == "bfloat16":
            same = result.dtype == np.float64
            return result.astype(x.dtype) if same else result
        return result.astype(
            np.asarray(getattr(np, name)(np.zeros_like(x[..., :1]), **{**options, "axis": None})).dtype
        )


def agree(got, want, dtype):
    """Equal, but for the last place of inexact dtypes (and float64's own rounding in the reference)."""
    assert got.shape == want.shape
    if want.dtype.kind not in "fc" and want.dtype.name != "bfloat16":
        np.testing.assert_array_equal(got, want)
        return
    eps = ml_dtypes.finfo(want.dtype).eps if want.dtype.name == "bfloat16" else np.finfo(want.dtype).eps
    got, want = wide(np.asarray(got)), wide(want)
    np.testing.assert_allclose(got, want, rtol=float(max(eps, 1e-13)), atol=1e-12)


@st.composite
def cases(draw, dtypes, names, missing=True):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    x = elements(rng, draw(st.sampled_from(dtypes)), shape, missing and draw(st.booleans()))
    axis = st.integers(-len(shape), len(shape) - 1)
    several = st.sets(st.integers(0, len(shape) - 1), min_size=1).map(tuple)
    name = draw(st.sampled_from(names))
    axes = st.one_of(st.none(), axis) if name in ARGS else st.one_of(st.none(), axis, several)
    return name, x, draw(chunkings(shape)), draw(axes), draw(st.booleans()), draw(st.sampled_from([None, 2, 5]))


def check(name, x, chunks, axis, keepdims, split_every, **options):
    want = expected(name, x, axis, keepdims, **options)
    dask_x = da.from_array(x, chunks=chunks)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = getattr(gr, name)(dask_x, axis=axis, keepdims=keepdims, split_every=split_every, **options)
        result = got.compute(scheduler="sync")
    assert type(got) is da.Array
    assert got.dtype == got._meta.dtype == result.dtype == want.dtype
    assert got.shape == want.shape and got._meta.ndim == want.ndim
    agree(result, want, x.dtype)


@settings(max_examples=120, deadline=None)
@given(cases(NUMERIC, PLAIN + ORDERED))
def test_like_numpy(case):
    check(*case)


@settings(max_examples=80, deadline=None)
@given(cases(FLOATS, SKIPPING))
def test_like_numpy_without_nan(case):
    name, x, *_ = case
    if x.dtype.kind == "c" and name in ("nanvar", "nanstd"):
        x = x.real
    check(name, x, *case[2:])


@settings(max_examples=40, deadline=None)
@given(cases(REAL, ["nanmin", "nanmax", "nanargmin", "nanargmax"], missing=False))
def test_skipping_where_nothing_is_missing(case):
    check(*case)


@settings(max_examples=60, deadline=None)
@given(cases(["f2", "f4", "f8"], ["nanmin", "nanmax", "nanargmin", "nanargmax"]))
def test_extremes_without_nan(case):
    _, x, _, axis, *_ = case
    if np.isnan(x).all(axis=axis).any():
        x[np.isnan(x)] = 0
    check(*case)


@settings(max_examples=50, deadline=None)
@given(cases(TIMES, [*ORDERED, "nanmin", "nanmax", "nanargmin", "nanargmax", "ptp"]))
def test_times(case):
    check(*case)


@settings(max_examples=30, deadline=None)
@given(cases(["m8[ms]"], ["sum", "mean", "nansum", "nanmean"]))
def test_durations(case):
    check(*case)


@settings(max_examples=40, deadline=None)
@given(cases(["f4", "f8", "i4", "c16"], ["var", "std"]), st.sampled_from([0, 1, 0.5, 9]))
def test_ddof(case, ddof):
    check(*case, ddof=ddof)


@settings(max_examples=40, deadline=None)
@given(cases(["f4", "f8", "i4", "?"], ["ptp"], missing=False))
def test_ptp(case):
    if case[1].dtype.kind != "b":  # NumPy has no difference of booleans
        check(*case)


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16"])
@pytest.mark.parametrize("given_dtype", ["i4", "f4", "f8", "?"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "nansum"])
def test_a_result_dtype(name, given_dtype, dtype):
    x = np.arange(1, 9).reshape(2, 4).astype(given_dtype)
    if name == "var" and dtype == "i8":
        pytest.skip("refused: test_bad_input")
    got = getattr(gr, name)(da.from_array(x, chunks=3), dtype=dtype, axis=1)
    want = getattr(np, name)(x, dtype=dtype, axis=1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.compute(scheduler="sync"), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["i8", "i4", "i1", "u1", "u8", "?"])
@pytest.mark.parametrize("given_dtype", ["i4", "f4", "f8", "u1", "?"])
@pytest.mark.parametrize("name", ["mean", "nanmean"])
def test_integer_means(name, given_dtype, dtype):
    """As NumPy: elements and means are truncated towards zero. Errors where it refuses, or divides what wrapped."""
    x = np.array([[-7, 2.9, -4, -1], [1, 0.5, -2.7, 0]])
    x = (np.abs(x) if given_dtype in "u1?" else x).astype(given_dtype)
    unsigned, floats = dtype[0] == "u" and given_dtype not in "u1?", given_dtype[0] == "f"
    if unsigned or (name == "nanmean" and floats):
        with pytest.raises(gr.errors.DtypeError, match=rf"^{name}: dtype=.*; expected .* may be .*astype"):
            getattr(gr, name)(da.from_array(x, chunks=3), dtype=dtype, axis=1)
        return
    for axis in (0, 1, None):
        got = getattr(gr, name)(da.from_array(x, chunks=3), dtype=dtype, axis=axis)
        want = getattr(np, name)(x, dtype=dtype, axis=axis)
        assert got.dtype == got.compute(scheduler="sync").dtype == want.dtype
        np.testing.assert_array_equal(got.compute(scheduler="sync"), want)


@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_norms_and_sums_of_squares(axis):
    x = np.random.default_rng(1).standard_normal((4, 5, 6))
    for values in (x, x.astype("f4"), x + 1j, (x * 9).astype("i4")):
        d = da.from_array(values, chunks=(2, 5, 4))
        for ord in (1, 2, np.inf):
            got = gr.vector_norm(d, ord=ord, axis=axis).compute(scheduler="sync")
            np.testing.assert_allclose(got, np.linalg.vector_norm(values, ord=ord, axis=axis), rtol=1e-6)
        np.testing.assert_allclose(
            gr.sumsq(d, axis=axis).compute(scheduler="sync"), (np.abs(wide(values)) ** 2).sum(axis), rtol=1e-6
        )


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_moments_like_scipy(axis):
    stats = pytest.importorskip("scipy.stats")
    x = np.random.default_rng(2).gamma(2.0, size=(40, 30))
    d = da.from_array(x, chunks=(16, 7))
    for bias in (True, False):
        np.testing.assert_allclose(
            gr.skew(d, axis, bias=bias).compute(scheduler="sync"), stats.skew(x, axis, bias=bias)
        )
        for fisher in (True, False):
            np.testing.assert_allclose(
                gr.kurtosis(d, axis, fisher=fisher, bias=bias).compute(scheduler="sync"),
                stats.kurtosis(x, axis, fisher=fisher, bias=bias),
            )
    for order in range(6):
        got = gr.moment(d, order, axis=axis, ddof=1)
        want = da.moment(da.from_array(x), order, axis=axis, ddof=1)
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got.compute(scheduler="sync"), want.compute(scheduler="sync"), atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c8", "c16", "?"])
def test_vdot(dtype):
    rng = np.random.default_rng(3)
    x, y = elements(rng, dtype, (6, 7), False), elements(rng, dtype, (6, 7), False)
    got = gr.vdot(da.from_array(x, chunks=(4, 3)), da.from_array(y, chunks=5))
    assert got.shape == ()
    np.testing.assert_allclose(got.compute(scheduler="sync"), np.vdot(wide(x), wide(y)), rtol=1e-6)
    np.testing.assert_allclose(gr.vdot(x, y.ravel()).compute(scheduler="sync"), np.vdot(wide(x), wide(y)), rtol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
def test_average(keepdims):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 5, 6))
    d = da.from_array(x, chunks=(2, 3, 4))
    cases = [(None, None), (1, None), (1, rng.random(5)), (-1, rng.random(6)), (0, rng.random((4, 5, 6)))]
    cases += [(None, rng.random((4, 5, 6))), ((0, 2), rng.random((4, 5, 6)))]
    for axis, weights in cases:
        want = np.average(x, axis=axis, weights=weights, keepdims=keepdims, returned=True)
        got = gr.average(d, axis=axis, weights=weights, keepdims=keepdims, returned=True)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.compute(scheduler="sync"), w, rtol=1e-13)
            assert g.shape == np.shape(w)
        assert gr.average(d, axis=axis, weights=weights, keepdims=keepdims).name == got[0].name
    w = rng.random((6, 4))
    np.testing.assert_allclose(
        gr.average(d, axis=(2, 0), weights=da.from_array(w, chunks=2)).compute(scheduler="sync"),
        np.average(x, axis=(0, 2), weights=np.broadcast_to(w.T[:, None], x.shape)),
    )


def test_weights_are_spread_as_views():
    x = da.ones((4, 6), chunks=(2, 3))
    mean = gr.average(x, axis=1, weights=np.arange(6.0))
    spread = next(k for k in mean.dask.layers if k.startswith("gr-average-weights"))
    block = dask.get(mean.dask, (spread, 0, 0))
    assert block.shape == (2, 3) and block.strides[0] == 0


@pytest.mark.parametrize("name", ["sum", "max", "argmin", "var", "any"])
def test_scalars_and_lists(name):
    for x in (3, 2.5, [1, 2, 3], [[1.0, 2.0], [3.0, 4.0]], np.float32(4), np.array(5.0), (1, 2)):
        got = getattr(gr, name)(x)
        assert type(got) is da.Array
        assert got.compute(scheduler="sync") == getattr(np, name)(x)
    zero_d = da.from_array(np.array(2.0))
    assert getattr(gr, name)(zero_d, axis=()).compute(scheduler="sync") == getattr(np, name)(2.0)
    assert np.ndim(getattr(gr, name)(zero_d, keepdims=True).compute(scheduler="sync")) == 0


def test_no_axes_reduces_nothing():
    x = np.arange(6.0).reshape(2, 3)
    d = da.from_array(x, chunks=2)
    np.testing.assert_array_equal(gr.sum(d, axis=()).compute(scheduler="sync"), x)
    np.testing.assert_array_equal(gr.var(d, axis=()).compute(scheduler="sync"), 0 * x)
    assert gr.sum(d, axis=()).chunks == d.chunks


def test_a_scalar_result_is_a_scalar():
    """As with stock dask: a NumPy scalar, not a 0-d array."""
    assert type(gr.sum(da.ones(5, chunks=2)).compute(scheduler="sync")) is np.float64
    assert type(gr.sum(da.ones(5)).compute(scheduler="sync")) is np.float64


def test_empty_arrays():
    for shape, axis in [((0,), None), ((0, 3), 0), ((3, 0), 0), ((2, 0, 3), (1, 2)), ((0, 0), 0)]:
        x = np.empty(shape)
        for name in ("sum", "prod", "any", "all", "nansum", "count_nonzero", "mean", "var"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = getattr(gr, name)(da.from_array(x, chunks=2), axis=axis).compute(scheduler="sync")
                np.testing.assert_array_equal(got, getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", [*PLAIN, *SKIPPING, *ORDERED, "nanmin", "nanargmax", "ptp"])
def test_arrays_pass_dasks_own_checks(name, keepdims):
    """Graph, chunks, meta and dtype, by the function that dask's tests use."""
    x = np.random.default_rng(9).random((5, 6, 4))
    d = da.from_array(x, chunks=(2, 6, 3))
    for axis in (None, 0, 1, -1):
        got = getattr(gr, name)(d, axis=axis, keepdims=keepdims)
        want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        assert_eq(got, want)
        assert_eq(got * 2, want * 2)


def test_xarray_and_dask_lists():
    xarray = pytest.importorskip("xarray")
    x = np.arange(6.0).reshape(2, 3)
    assert gr.sum(xarray.DataArray(da.from_array(x, chunks=2))).compute(scheduler="sync") == 15
    np.testing.assert_array_equal(gr.sum([da.ones(3), da.zeros(3)], axis=1).compute(scheduler="sync"), [3, 0])


def test_pandas():
    pandas = pytest.importorskip("pandas")
    months = pandas.Index([1, 1, 2, 2, 2])
    for x in (pandas.Series([3.0, 1.0, 2.0]), pandas.Index([3, 1, 2]), pandas.DataFrame({"a": [1.0], "b": [2.0]})):
        for name in ("sum", "argmax", "var"):
            assert getattr(gr, name)(x).compute(scheduler="sync") == getattr(np, name)(np.asarray(x))
    scanned = gr.scan(da.ones((5, 2), chunks=2), "sum", axis=0, segments=months)
    np.testing.assert_array_equal(scanned[:, 0].compute(scheduler="sync"), [1, 2, 1, 2, 3])


def test_out():
    x = da.ones((4, 6), chunks=2)
    out = da.zeros(6)
    assert gr.sum(x, axis=0, out=out) is out
    np.testing.assert_array_equal(out.compute(scheduler="sync"), 4)


def test_sums_are_rounded_once():
    """float32 as if exact; float64 within two roundings of the largest sum that the data could have."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal(20_000) * 10.0 ** rng.integers(-12, 12, 20_000)
    got = gr.sum(da.from_array(x, chunks=777)).compute(scheduler="sync")
    assert abs(got - math.fsum(x)) <= 2 * np.finfo(np.float64).eps * math.fsum(np.abs(x))
    narrow = rng.standard_normal(20_000).astype("f4")
    got = gr.sum(da.from_array(narrow, chunks=777)).compute(scheduler="sync")
    assert got == np.float32(math.fsum(narrow.tolist()))


@pytest.mark.parametrize("name", sorted(set(gr.__all__) - {"norm", "skew", "kurtosis", "reduction", "vdot"}))
def test_signatures_are_dasks(name):
    """Every argument of the dask function of that name exists, in that order and with that default."""
    stock, ours = getattr(da, name, None), getattr(gr, name)
    if not callable(stock) or not inspect.isfunction(ours):  # da.stats is a module
        return
    mine = inspect.signature(ours).parameters
    theirs = inspect.signature(stock).parameters
    assert list(mine)[: len(theirs)] == list(theirs) or set(theirs) <= set(mine)
    assert all(mine[k].default == p.default or p.default is inspect._empty for k, p in theirs.items())


def test_the_namespace():
    assert set(gr.__all__) <= set(dir(gr))
    assert all(getattr(gr, name) is not None for name in gr.__all__)
    assert {name for name in dir(gr) if not name.startswith("__")} == set(gr.__all__)  # no module of the package
    assert gr.__version__.count(".") == 2 and "__version__" in dir(gr)
    with pytest.raises(AttributeError, match="cumfoo"):
        _ = gr.cumfoo
    with pytest.raises(TypeError):
        gr.OPERATORS["sum"] = None
