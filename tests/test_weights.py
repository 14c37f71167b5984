"""Weighted moments, alone and several from one read, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_maps import close

import gpureduce_dask as gr
from gpureduce_dask.errors import ArgumentError, DtypeError
from gpureduce_dask.expressions import tracer
from gpureduce_dask.expressions.elements import Weighing, same
from gpureduce_dask.graph import map_reduce
from gpureduce_dask.operators import higher_moments, shared_states
from gpureduce_dask.operators.weighted import SPREADS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def exact(values, weights):
    """The sum of the weights and the central sums of powers 2 to 4, in fractions rounded once."""
    pairs = [(Fraction(float(x)), Fraction(float(w))) for x, w in zip(values, weights, strict=True) if w]
    total = sum(w for _, w in pairs)
    mean = sum(w * x for x, w in pairs) / total
    return [float(total), *(float(sum(w * (x - mean) ** k for x, w in pairs)) for k in (2, 3, 4))]


def expected(op, values, weights, **options):
    total, m2, m3, m4 = exact(values, weights)
    if op in ("var", "std"):
        return (m2 / (total - options.get("ddof", 0))) ** (1 if op == "var" else 0.5)
    state = tuple(np.array([f]) for f in (total, 0.0, m2, m3, m4))
    finalise = {
        "skew": higher_moments.skew_finalise,
        "kurtosis": higher_moments.kurtosis_finalise,
        "moment": higher_moments.moment_finalise,
    }[op]
    return finalise(state, np.dtype("f8"), **options)[0]


CALLS = [
    ("var", {"ddof": 1}),
    ("std", {}),
    ("skew", {}),
    ("skew", {"bias": False}),
    ("kurtosis", {"fisher": False}),
    ("kurtosis", {"bias": False}),
    ("moment", {"order": 3, "ddof": 1}),
    ("moment", {"order": 4}),
]


@pytest.mark.parametrize("unit", [1.0, 1e-100, 1e30])
@pytest.mark.parametrize("op, options", CALLS)
def test_moments_are_those_of_exact_arithmetic(op, options, unit):
    """Whatever unit the weights are in, as far as a correction by a count of elements makes sense in it."""
    if unit != 1.0 and (options.get("ddof") or not options.get("bias", True)):
        return
    rng = np.random.default_rng(5)
    u = rng.gamma(2, size=(40, 7)) + 3
    w = np.where(rng.random(u.shape) < 0.3, 0, rng.random(u.shape) * 5)
    x, weights = da.from_array(u, chunks=(11, 3)), da.from_array(w * unit, chunks=(9, 7))
    got = getattr(gr, op)(x, axis=0, weights=weights, **options).compute()
    np.testing.assert_allclose(got, [expected(op, u[:, j], w[:, j], **options) for j in range(7)], rtol=1e-12)
    u[w == 0] = np.nan  # what does not count may be anything
    again = getattr(gr, op)(da.from_array(u, chunks=8), axis=None, weights=weights, **options).compute()
    np.testing.assert_allclose(again, expected(op, u.ravel(), w.ravel(), **options), rtol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 4)), min_size=2, max_size=30), st.integers(1, 7))
def test_states_merge_to_that_of_repeated_elements(pairs, piece):
    """Split anywhere, a whole number as a weight is as many elements, one by one or folded."""
    values, times = (np.array(each, "f8") for each in zip(*pairs, strict=True))
    plain = higher_moments.fold(np.repeat(values, times.astype(int)).reshape(1, -1, 1), None) if times.any() else None
    row = SPREADS["skew"]
    folded = None
    for start in range(0, values.size, piece):
        block = (a[None, start : start + piece, None] for a in (values, times))
        state = row.fold(*block, None)
        folded = state if folded is None else row.combine(folded, state)
    one = tuple(np.float64(i) for i in row.identity)
    for value, count in zip(values, times, strict=True):
        one = row.combine(one, row.lift(value, count, None))
    if plain is None:
        assert folded[0] == one[0] == 0
        return
    scale = np.array([1, 1, *(max(plain[0][0, 0], 1) * 100.0**k for k in (2, 3, 4))])
    for state in (folded, one):
        difference = [float(np.squeeze(a)) - float(np.squeeze(b)) for a, b in zip(state, plain, strict=True)]
        np.testing.assert_array_less(np.abs(difference) / scale, 1e-13)


def test_weights_of_reliability():
    """The unbiased variance of weights that say how much to trust an element, as ``numpy.cov`` has it."""
    rng = np.random.default_rng(1)
    u, w = rng.normal(size=200), rng.random(200)
    x, weights = da.from_array(u, chunks=30), da.from_array(w, chunks=30)
    lost = float(gr.sumsq(weights) / gr.sum(weights))
    np.testing.assert_allclose(gr.var(x, weights=weights, ddof=lost).compute(), np.cov(u, aweights=w), rtol=1e-13)
    np.testing.assert_allclose(gr.var(x, weights=weights).compute(), np.cov(u, aweights=w, ddof=0), rtol=1e-13)


NAMES = ["mean", "std", "skew", "var", "sum", "kurtosis", "nanstd", "nanvar", "nanmean", "sumsq", "norm2"]


@pytest.mark.parametrize("masked", [False, True])
def test_several_statistics_are_the_single_ones(masked):
    rng = np.random.default_rng(2)
    u, w = rng.normal(size=(60, 50), loc=9).astype("f4"), rng.integers(0, 4, (60, 1)).astype("f4")
    x, mask = da.from_array(u, chunks=(25, 20)), da.from_array(rng.random(u.shape) > 0.3, chunks=30)
    where = {"where": mask} if masked else {}
    found = gr.stats(x, NAMES, axis=0, weights=w, ddof=1, **where)
    values = dask.compute(found)[0]
    for name in NAMES:
        also = {"ddof": 1} if "var" in name or "std" in name else {}
        single = gr.norm if name == "norm2" else getattr(gr, name)
        close(getattr(found, name), single(x, axis=0, weights=w, **where, **also).compute())
        np.testing.assert_array_equal(getattr(values, name), getattr(found, name).compute())


def test_they_share_states_and_read_once():
    reads = []

    def chunk(block_id):
        reads.append(block_id)
        return np.full((10, 10), block_id[0] + 1.0)

    x = da.map_blocks(chunk, chunks=((10,) * 3, (10,)), dtype="f8", meta=np.empty((0, 0)))
    w = np.arange(30.0)[:, None]
    reads.clear()
    names = ("std", "kurtosis", "var", "mean", "skew")
    found = gr.stats(x, names, weights=w)
    values = dask.compute(found)[0]
    assert len(reads) == 3
    np.testing.assert_allclose(values.mean, np.average([1, 2, 3], weights=w.reshape(3, 10).sum(1)))
    program = tracer.trace(Weighing(same, names, False), (np.dtype("f8"), np.dtype("f8")))
    ((bounds, holder, _),) = map_reduce._weighted("stats", program, names, np.dtype("f8"), None, {})
    states, _ = shared_states.share_states(bounds, holder)
    assert {state.name for state in states} == {"mean", "skew"}  # whose state holds the others'


def test_functions_of_arrays():
    rng = np.random.default_rng(3)
    u, v, w = (rng.normal(size=(30, 40)), rng.normal(size=(30, 40)), rng.random((30, 40)))
    x, y = da.from_array(u, chunks=12), da.from_array(v, chunks=(30, 15))
    found = gr.map_reduce(lambda x, y: (x * y, x - y), ["mean", "skew"], x, y, axis=1, weights=w)
    for each, values in zip(found, (u * v, u - v), strict=True):
        close(each.mean, np.average(values, axis=1, weights=w))
        close(each.skew, [expected("skew", *pair) for pair in zip(values, w, strict=True)])
    close(
        gr.map_reduce(lambda x: x + 1, "moment", x, weights=w, order=3),
        expected("moment", (u + 1).ravel(), w.ravel(), order=3),
    )
    untraced = gr.map_reduce(lambda x: x.copy()[...] + 0, "var", x, weights=w, where=x > 0)
    close(untraced, gr.var(x, weights=w, where=x > 0).compute())
    out = da.zeros(40, chunks=40)
    gr.map_reduce(np.square, "sum", x, axis=0, weights=w, out=out)
    close(out, (u * u * w).sum(axis=0))


def test_dataarrays():
    xr = pytest.importorskip("xarray")
    x = xr.DataArray(da.from_array(np.random.default_rng(4).normal(size=(6, 8)), chunks=3), dims=("time", "lat"))
    area = xr.DataArray(np.cos(np.linspace(-1, 1, 8)), dims="lat")
    found = gr.stats(x, ["mean", "std"], dim="lat", weights=area)
    xr.testing.assert_allclose(found["mean"], x.weighted(area).mean("lat"))
    xr.testing.assert_allclose(found["std"], x.weighted(area).std("lat"))


def test_what_has_no_meaning_is_refused():
    x = da.ones((4, 4), chunks=2)
    own = gr.Monoid(name="own", fields=(("a", "f8"),), identity=(0.0,), lift=abs, combine=abs, finalise=abs)
    for call, text in (
        (lambda: gr.stats(x, ["mean", "min"], weights=x), "'min'.*kurtosis, mean, nanmean"),
        (lambda: gr.stats(x, ["moment"], weights=x), "'moment'.*skew"),
        (lambda: gr.map_reduce(abs, "argmax", x, weights=x), "argmax.*kurtosis"),
        (lambda: gr.map_reduce(abs, own, x, weights=x), "own.*kurtosis"),
        (lambda: gr.map_reduce(lambda x: (x, x), "sum", x, weights=x, out=x), "out= for 2"),
        (lambda: gr.map_reduce(abs, ["sum"], x, weights=x, dtype="f4"), "dtype"),
        (lambda: gr.moment(x, 5, weights=x), "order 4"),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()
    with pytest.raises(DtypeError):
        gr.skew(x + 1j, axis=0, weights=x)
    masked = da.from_array(np.ma.masked_less(np.ones((4, 4)), 0), chunks=2)
    with pytest.raises(DtypeError, match="weights= with"):
        gr.stats(masked, ["mean"], weights=x)
