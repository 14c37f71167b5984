"""The host side of the chunk protocol against NumPy and exact arithmetic: values, layouts, positions, memory."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    BFLOAT16,
    CASES,
    PAIRS,
    SINGLE,
    case_id,
    fortran,
    keepdims,
    layouts_of,
    rows_of,
    swapped,
    takes,
    values,
)
from tiers import one_in

import gpureduce_dask as gr
from gpureduce_dask import chunk, errors
from gpureduce_dask.chunk import Place
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.host import stack, tiles
from gpureduce_dask.operators import native, prod, sums
from gpureduce_dask.operators.table import get

RNG = np.random.default_rng(1)


def run(row, x, axes, **options):
    chunks = x if isinstance(x, tuple) else (x,)
    bound = get(row).with_options(**options).bind(*(c.dtype for c in chunks))
    return host_reduce.finalise(host_reduce.reduce(chunks, bound, axes), bound)


# ---- every row against NumPy


def wide(x):
    """Elements that NumPy reduces without rounding of its own: float64 for narrower floats."""
    if x.dtype.kind in "fVc":
        return x.astype("c16" if x.dtype.kind == "c" else "f8")
    return x.astype(x.dtype.newbyteorder("="))


def norm(order):
    return lambda x, **k: np.linalg.norm(np.abs(x).astype("f8"), order, axis=-1)


def sumsq(x, **k):
    squares = (x.real.astype("f8") ** 2 + x.imag.astype("f8") ** 2) if x.dtype.kind in "fc" else None
    if squares is None:
        squares = x.astype("u8" if x.dtype.kind == "u" else "i8") ** 2
    return squares.sum(axis=-1)


def moment(order):
    return lambda x, **k: scipy.stats.moment(x.astype("f8"), order, axis=-1)


def nanarg(arg):
    """NumPy's own puts infinities in place of NaN, and may give the position of one. It skips no NaT."""

    def of_row(row):
        there = np.flatnonzero(~np.isnan(row))
        return there[arg(row[there])]

    def of_rows(x, **k):
        return np.apply_along_axis(of_row, -1, x) if x.dtype.kind in "fc" and np.isnan(x).any() else arg(x, **k)

    return of_rows


def kept(end):
    """The first or last element that is not NaN."""

    def of_row(row):
        there = row if row.dtype.kind in "biu" else row[~np.isnan(row)]
        if not row.size:
            raise ValueError("no element")
        return there[end] if there.size else row[0]

    def of_rows(x, **k):
        if x.size and (x.dtype.kind in "biu" or not np.isnan(x).any()):
            return x[..., end]
        return np.apply_along_axis(of_row, -1, x)

    return of_rows


REFERENCE = {
    "first": kept(0),
    "last": kept(-1),
    "nanargmin": nanarg(np.argmin),
    "nanargmax": nanarg(np.argmax),
    "norm1": norm(1),
    "norm2": norm(2),
    "norminf": norm(np.inf),
    "sumsq": sumsq,
    "moments": moment(2),
    "moment": moment(2),
    "skew": lambda x, **k: scipy.stats.skew(x.astype("f8"), axis=-1),
    "kurtosis": lambda x, **k: scipy.stats.kurtosis(x.astype("f8"), axis=-1),
}


def expected(name, x, axes):
    """NumPy's answer over the reduced axes as one, or the error it raises, and the warnings it gives."""
    line = wide(rows_of(x, axes))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = REFERENCE.get(name, getattr(np, name, None))(line, axis=-1)
        except ValueError as error:
            return error, caught
    return np.asarray(answer).reshape(keepdims(x, axes)), caught


def assert_close(got, want, dtype, line):
    """Equal but for rounding of the result dtype, and of float64 sums where terms cancel."""
    if dtype.kind not in "fcV":
        np.testing.assert_array_equal(got, want)
        return
    complex_ = dtype.kind == "c"
    kind = "c16" if complex_ else "f8"
    with np.errstate(over="ignore", invalid="ignore"):
        want = want.astype(dtype).astype(kind)  # overflows as the result does
    got = got.astype(kind)
    eps = {2: 1e-3, 4: 1e-6}.get(dtype.itemsize // (2 if complex_ else 1), 1e-12)
    eps = 8e-3 if dtype == BFLOAT16 else eps
    if complex_:  # products of infinities differ in which part is NaN
        got, want = (np.where(np.isfinite(v), v, np.nan) for v in (got, want))
    np.testing.assert_allclose(got, want, rtol=eps, atol=1e-12, equal_nan=True)


@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("row", SINGLE, ids=case_id)
@given(data=st.data())
def test_numpy_says_the_same(row, data):
    dtype = data.draw(st.sampled_from([d for r, d in CASES if r is row]))
    shaped = row.name in ("skew", "kurtosis", "moment", "moments")
    x, axes = data.draw(layouts_of(dtype, special=not shaped))
    want, numpy_warnings = expected(row.name, x, axes)
    bound = row.bind(x.dtype)
    if isinstance(want, Exception) or (0 in x.shape and row.empty == "raise"):
        return  # empty and all-NaN slices have tests of their own
    before = x.tobytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        partial = host_reduce.reduce((x,), bound, axes)
        assert not caught
        got = host_reduce.finalise(partial, bound)
    assert type(got) is np.ndarray
    assert partial.dtype == bound.state
    assert got.dtype == bound.result
    assert got.shape == partial.shape == keepdims(x, axes)
    assert got.dtype.isnative
    assert_close(got, want, bound.result, x)
    assert x.tobytes() == before
    ours, theirs = ({str(w.message).strip(".") for w in each} for each in (caught, numpy_warnings))
    assert ours <= theirs


@pytest.mark.parametrize("shape", [(70_001,), (501, 401), (3, 40_000), (40_000, 3), (33, 7, 301), (5, 20, 11, 40)])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, fortran, swapped, np.flip], ids=lambda f: f.__name__)
def test_many_tiles(shape, layout):
    for dtype in ("f4", "f8") if len(shape) > 1 else ("u1", "f4", "f8", "c8"):
        x = layout(values(shape, dtype, special=False))
        for axes in {(0,), (x.ndim - 1,), tuple(range(0, x.ndim, 2)), tuple(range(x.ndim))}:
            rows = {r.fold: r for r, d in CASES if d == dtype and r.name not in ("prod", "nanprod")}
            for row in rows.values():
                want, _ = expected(row.name, x, axes)
                assert_close(run(row.name, x, axes), want, row.bind(dtype).result, x)


@pytest.mark.parametrize("row", SINGLE, ids=case_id)
def test_repeated_elements(row, monkeypatch):
    """As ``dask.array.ones`` and ``numpy.broadcast_to`` make them: along reduced axes, kept ones and all."""
    monkeypatch.setattr(host_reduce, "REPEATED", 0)
    for dtype in [d for r, d in CASES if r is row]:
        for shape, axes in (((1, 5), (0,)), ((1, 5), (1,)), ((4, 1), (0, 1)), ((4, 1), (1,)), ((1, 1), (0, 1))):
            x = np.broadcast_to(values(shape, dtype, special=False), tuple(7 if n == 1 else n for n in shape))
            want, _ = expected(row.name, x, axes)
            if not isinstance(want, Exception):
                assert_close(run(row.name, x, axes), want, row.bind(x.dtype).result, x)


def test_repeated_elements_are_read_once():
    x = np.broadcast_to(np.float32(0.1), (1 << 13, 1 << 20))  # 32 GiB of them, the same one
    assert float(run("sum", x, (0, 1))[0, 0]) == np.float32(np.float64(np.float32(0.1)) * 2**33)
    assert run("count_nonzero", x, (1,)).tolist() == [[1 << 20]] * (1 << 13)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanvar", "nanmin", "nanargmax", "argmin", "max", "any"])
def test_many_tiles_with_nan(name):
    for shape in [(70_001,), (501, 401), (40_000, 3), (3, 40_000)]:
        x = np.where(RNG.random(shape) < 1e-3, np.nan, RNG.integers(0, 9, shape)).astype("f4")
        for axes in {(0,), (x.ndim - 1,), tuple(range(x.ndim))}:
            want, _ = expected(name, x, axes)
            assert_close(run(name, x, axes), want, get(name).bind("f4").result, x)


@pytest.mark.parametrize(("shape", "axes"), [((90, 10_000), (0, 1)), ((90, 120, 90), (0, 2)), ((146, 80, 99), (0,))])
def test_tiles_of_rows_with_gaps(shape, axes, monkeypatch):
    """A tile a row, of a chunk that is a part of wider rows, takes longer than to copy many rows together."""
    taken, blocks = [], tiles.Walk.blocks
    monkeypatch.setattr(tiles.Walk, "blocks", lambda *args: taken.append(args) or blocks(*args))
    x = np.random.default_rng(2).normal(size=(*shape[:-1], 2 * shape[-1]))[..., : shape[-1]]
    assert_close(run("max", x, axes), x.max(axis=axes, keepdims=True), np.dtype("f8"), x)
    assert len(taken) <= x.size / 20_000


APART = {  # reduced axes with others between them, or gaps: by what is folded afterwards
    "columns": ((900, 14, 6), (0, 2), np.asarray, (2,)),
    "columns of planes": ((3, 700, 11, 9), (1, 3), np.asarray, (3,)),
    "turned": ((6, 14, 900), (0, 2), lambda x: x.transpose(2, 1, 0).copy().transpose(2, 1, 0), (0,)),
    "backwards": ((900, 14, 6), (0, 2), lambda x: x[::-1, :, ::-1], (2,)),
    "a line with gaps": ((5000, 80), (0, 1), lambda x: x[:, 1:-1], (1,)),
}


@pytest.mark.parametrize("layout", APART)
@pytest.mark.parametrize(
    "name", ["sum", "mean", "var", "max", "any", "prod", "nanmean", "nanmin", "norm2", "ptp", "skew"]
)
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_axes_apart_are_folded_one_after_another(layout, name, dtype, monkeypatch):
    shape, axes, view, later = APART[layout]
    given = np.random.default_rng(3).integers(-3, 4, shape)
    given = np.where(given == 0, 1, given) if name == "prod" else given
    x = view(given.astype(dtype))
    folded = []
    known = host_reduce.combine_axis
    monkeypatch.setattr(host_reduce, "combine_axis", lambda p, b, a: [folded.append(a), known(p, b, a)][1])
    found = run(name, x, axes)
    assert tuple(folded) == later
    np.testing.assert_allclose(found, expected(name, x, axes)[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("layout", APART)
@pytest.mark.parametrize("name", ["sum", "all", "max", "mean"])
def test_functions_of_elements_along_axes_apart(layout, name):
    shape, axes, view, _ = APART[layout]
    x = view(np.random.default_rng(4).normal(size=shape).astype("f4"))
    lazy = da.from_array(x, chunks=-1)
    with gr.accelerate(numpy=True):
        found = getattr(lazy * 2 > 1 if name == "all" else abs(lazy) + 1, name)(axis=axes).compute()
    wanted = getattr(x * 2 > 1 if name == "all" else abs(x).astype("f8") + 1, name)(axis=axes)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(("row", "x", "y"), PAIRS, ids=case_id)
def test_two_arrays(row, x, y):
    for axes in [(0,), (1,), (0, 1)]:
        a, b = values((5, 7), x, 1, False), np.asfortranarray(values((5, 7), y, 2, False) * np.asarray(1, y))
        bound = row.bind(x, y)
        left, right = (rows_of(v, axes) for v in (a, b))
        common = np.result_type(x, y)
        if row.name == "vdot":
            numbers = common if common.kind in "biuc" else np.dtype("f8")
            product = np.conj(left.astype(numbers)) * right.astype(numbers)
            want = product.any(axis=-1) if common.kind == "b" else product.sum(axis=-1).astype(common)
        else:
            left, right, far = (v.astype("c16" if v.dtype.kind == "c" else "f8") for v in (left, right, b))
            right, b = right + 20, (far + 20).astype(y)
            want = (left * right).sum(axis=-1) / right.sum(axis=-1)
        assert_close(run(row, (a, b), axes), want.reshape(keepdims(a, axes)), bound.result, a)


def test_weights_of_zero_sum_are_an_error():
    with pytest.raises(ZeroDivisionError, match="average"):
        run("average", (np.ones(3), np.array([1.0, -1, 0])), (0,))


# ---- exact arithmetic


@pytest.mark.parametrize("shape", [(1_000_003,), (1003, 997), (10_007, 100), (100_003, 10), (10, 100_003)])
@pytest.mark.parametrize("order", "CF")
def test_float64_sums_do_not_lose_with_size(shape, order):
    """The bound is that of a tile's rounding, not of the number of elements."""
    x = np.asarray(RNG.standard_normal(shape) * 10 ** RNG.uniform(-3, 3, shape), order=order)
    for axes in {(0,), (x.ndim - 1,), tuple(range(x.ndim))}:
        lines = rows_of(x, axes)
        for got, line in zip(run("sum", x, axes).ravel()[:9], lines.reshape(-1, lines.shape[-1]), strict=False):
            assert abs(got - math.fsum(line)) <= 2 * np.finfo("f8").eps * math.fsum(np.abs(line))


@pytest.mark.parametrize("shape", [(1_000_003,), (3, 300_001), (1000, 1001)])
def test_float64_sums_of_equal_terms(shape):
    """Equal terms are rounded one way, so that errors of a plain sum add up."""
    x = np.full(shape, 0.1)
    for got, power in [
        (run("sum", x, (x.ndim - 1,)), 1),
        (run("sumsq", x, (x.ndim - 1,)), 2),
        (run("vdot", (x, x.copy()), (x.ndim - 1,)), 2),
    ]:
        exact = float(Fraction(0.1) ** power * shape[-1])
        assert np.max(np.abs(got - exact)) <= 8 * np.finfo("f8").eps * exact


def test_float64_columns_of_equal_terms():
    """A column's terms are added plainly, so that only so many are added at once. Rows overlap to save memory."""
    deep, wide = 40_000, 4100
    x = np.lib.stride_tricks.as_strided(np.full(2 * deep + wide, 0.1), (deep, wide), (16, 8))
    for columns in (x, x[:, :8]):
        for name, power in [("sum", 1), ("sumsq", 2)]:
            exact = float(Fraction(0.1) ** power * deep)
            assert np.max(np.abs(run(name, columns, (0,)) - exact)) <= 64 * np.finfo("f8").eps * exact


def test_pairs_keep_what_float64_drops():
    """Partials are added without error: a large one does not swallow the small ones."""
    bound = get("sum").bind("f8")
    terms = [1e16, *[1.0] * 1000, -1e16]
    partials = [host_reduce.reduce((np.array([t]),), bound, (0,)) for t in terms]
    assert host_reduce.finalise(host_reduce.combine(partials, bound), bound)[0] == 1000.0
    assert host_reduce.finalise(host_reduce.combine_axis(np.stack(partials), bound, 0), bound)[0, 0] == 1000.0


@pytest.mark.parametrize("name", ["sum", "mean", "norm1"])
@pytest.mark.parametrize("dtype", ["f2", BFLOAT16, "f4"], ids=str)
def test_narrow_floats_are_rounded_once(name, dtype):
    x = (RNG.standard_normal((300_001,)) + 1).astype(dtype)
    terms = np.abs(x) if name == "norm1" else x
    exact = math.fsum(terms.astype("f8")) / (len(x) if name == "mean" else 1)
    with np.errstate(over="ignore"):
        assert run(name, x, (0,))[0] == np.float64(exact).astype(dtype)


@pytest.mark.parametrize("offset", [0, 1e4, 1e8])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_variance_against_fractions(offset, axes):
    x = RNG.standard_normal((200, 300)) + offset
    line = rows_of(x, axes).reshape(-1, rows_of(x, axes).shape[-1])[0]
    terms = [Fraction(v) for v in line]
    mean = sum(terms) / len(terms)
    exact = float(sum((t - mean) ** 2 for t in terms) / len(terms))
    rel = 1e-12 + offset * np.finfo("f8").eps  # a merge sees means rounded to float64
    assert run("var", x, axes).ravel()[0] == pytest.approx(exact, rel=rel)
    assert run("std", x, axes).ravel()[0] == pytest.approx(math.sqrt(exact), rel=rel)


def test_variance_of_outliers_and_of_equal_elements():
    x = np.r_[np.full(10, 1e9), RNG.standard_normal(200_000)]
    assert run("var", x, (0,))[0] == pytest.approx(np.var(x.astype(np.longdouble)), rel=1e-10)
    x = np.r_[RNG.standard_normal(200_000), np.full(10, 1e9)]
    assert run("var", x, (0,))[0] == pytest.approx(np.var(x.astype(np.longdouble)), rel=1e-10)
    assert run("var", np.full(100_000, 0.1), (0,))[0] < 1e-30
    assert run("var", np.full(100_000, 3, "f4"), (0,))[0] == 0


@pytest.mark.parametrize("name", ["sum", "prod", "sumsq"])
@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u4", "u8"])
def test_integers_wrap(name, dtype):
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, 4001, dtype, endpoint=True)
    terms = [int(v) ** (2 if name == "sumsq" else 1) for v in x]
    exact = (math.prod(terms) if name == "prod" else sum(terms)) % 2**64
    got = run(name, x, (0,))
    assert got.dtype == np.sum(x).dtype
    assert int(got[0]) % 2**64 == exact


def test_means_of_large_integers_do_not_wrap():
    assert run("mean", np.full(10, 2**62), (0,))[0] == 2.0**62
    assert run("mean", np.full(10, 2**64 - 1, "u8"), (0,))[0] == 2.0**64
    assert run("mean", np.full(10, 2**32 - 1, "u4"), (0,))[0] == 2**32 - 1


def test_durations():
    x = np.array([[-7, 2], [-3, 4]], "m8[s]")
    np.testing.assert_array_equal(run("mean", x, (0, 1)), np.mean(x, keepdims=True))
    np.testing.assert_array_equal(run("mean", x, (0,)), np.mean(x, axis=0, keepdims=True))
    huge = np.full(4, 2**60 + 1, "m8[ns]")
    assert run("mean", huge, (0,))[0] == huge[0]
    x[0, 1] = "NaT"
    np.testing.assert_array_equal(run("sum", x, (0,)), np.sum(x, axis=0, keepdims=True))
    np.testing.assert_array_equal(run("ptp", x.view("M8[s]"), (1,)), np.ptp(x.view("M8[s]"), axis=1, keepdims=True))


# ---- positions


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_positions_in_the_whole_array(data):
    name = data.draw(st.sampled_from(["argmin", "argmax", "nanargmin", "nanargmax", "max"]))
    x, axes = data.draw(layouts_of(data.draw(st.sampled_from(["i1", "f4", "c8"])), least=1))
    bound = get(name).bind(x.dtype)
    cuts = [data.draw(st.integers(0, n)) for n in x.shape]
    partials = {}
    for corner in np.ndindex(*(2,) * x.ndim):
        at = tuple(slice(c, None) if k else slice(0, c) for k, c in zip(corner, cuts, strict=True))
        place = Place(tuple(s.start for s in at), x.shape)
        cell = tuple(k for a, k in enumerate(corner) if a not in axes)
        partials.setdefault(cell, []).append(host_reduce.reduce((x[at],), bound, axes, place))
    whole = host_reduce.reduce((x,), bound, axes)
    for cell, parts in partials.items():
        kept = iter(cell)
        at = tuple(
            slice(None) if a in axes else (slice(c, None) if next(kept) else slice(0, c)) for a, c in enumerate(cuts)
        )
        joined = host_reduce.combine(data.draw(st.permutations(parts)), bound)
        for field in bound.state.names:
            if name == "max" and field == "index":
                continue  # of complex numbers that are equal to the bit any position is right
            np.testing.assert_array_equal(joined[field], whole[at][field])


def test_first_of_equals_and_first_nan():
    x = np.zeros((50, 2000), "f4")
    assert run("argmax", x, (0, 1)).ravel() == 0
    x[3, 7] = x[30, 1] = np.nan
    assert run("argmax", x, (0, 1)).ravel() == 3 * 2000 + 7
    assert run("argmin", np.asfortranarray(x), (0, 1)).ravel() == 3 * 2000 + 7
    assert run("argmax", x[::-1, ::-1], (0, 1)).ravel() == 19 * 2000 + 1998
    assert run("nanargmin", x, (0, 1)).ravel() == 0
    assert run("nanargmin", np.array([np.nan, np.inf]), (0,))[0] == 1


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "M8[s]", "?"])
def test_first_in_long_rows(name, dtype):
    """Rows that are read stretch by stretch: equals and NaN in several stretches, and the last one short."""
    n = 150_001
    base, best = (True, False) if name == "argmin" else (False, True)
    x = np.full((5, n), base).astype(dtype)
    for row, places in enumerate(([90_000, 90_001, 149_000], [n - 1], [70_000, 20_000], [0, 140_000])):
        x[row, places] = np.asarray(best).astype(dtype)
    if np.dtype(dtype).kind in "fM":
        x[2, [60_000, 140_000]] = "NaT" if dtype == "M8[s]" else np.nan
    if np.dtype(dtype).kind == "f":
        x[3, [50_000, 149_999]] = [-np.inf, np.inf]
    for layout in (x, x[:, ::-1], x[:, 1:], x.T.copy().T):
        np.testing.assert_array_equal(run(name, layout, (1,)), getattr(np, name)(layout, axis=1, keepdims=True))
    assert run(name, x, (0, 1)).ravel() == getattr(np, name)(x)


@pytest.mark.parametrize("shape", [(20_000, 40), (3, 40_000)])
def test_extrema_beside_their_positions(shape):
    x = RNG.standard_normal(shape)
    partial = host_reduce.reduce((x,), get("argmax").bind("f8"), (1,))
    np.testing.assert_array_equal(partial["value"], x.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(partial["index"], x.argmax(axis=1, keepdims=True))


def test_any_place_in_a_long_row():
    x = np.zeros(40_000)
    for place in (*range(2000), *range(38_000, 40_000)):
        x[place] = 1
        assert run("argmax", x, (0,))[0] == place
        x[place] = 0


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_zeros_of_either_sign_are_equal(name):
    x = np.where(np.arange(100_000) % 3, 0.0, -0.0)
    assert run(name, x, (0,))[0] == 0
    x[0] = 1 if name == "argmin" else -1
    assert run(name, x, (0,))[0] == 1


def test_more_elements_than_32_bits_count():
    x = np.broadcast_to(np.ones((), "u1"), (2**16 + 1, 2**16))
    assert run("sum", x, (0, 1)).ravel() == x.size


def test_positions_above_two_to_the_32():
    x = np.broadcast_to(np.zeros((), "u1"), (2, 2))
    place = Place((2**20, 2**20), (2**21, 2**21))
    bound = get("argmax").bind("u1")
    got = host_reduce.finalise(host_reduce.reduce((x,), bound, (0, 1), place), bound)
    assert got[0, 0] == 2**20 * 2**21 + 2**20


# ---- empty slices


@pytest.mark.parametrize("row", SINGLE, ids=case_id)
def test_empty_chunks_are_identities(row):
    bound = row.bind("f8")
    for shape, axes in [((0,), (0,)), ((3, 0), (1,)), ((0, 3), (1,)), ((3, 0, 2), (1, 2))]:
        x = np.empty(shape)
        partial = host_reduce.reduce((x,), bound, axes)
        assert partial.shape == keepdims(x, axes)
        assert partial.tobytes() == bound.identities(partial.shape).tobytes()


def test_results_of_nothing():
    nothing = np.empty((2, 0))
    assert run("sum", nothing, (1,)).tolist() == [[0.0], [0.0]]
    assert not np.signbit(run("sum", np.full(3, -0.0), (0,)))[0]
    assert run("prod", nothing, (1,)).tolist() == [[1.0], [1.0]]
    assert run("all", nothing, (1,)).tolist() == [[True], [True]]
    assert run("norminf", nothing, (1,)).tolist() == [[0.0], [0.0]]
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(run("mean", nothing, (1,))).all()
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(run("var", nothing, (1,))).all()
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnat(run("mean", np.empty(0, "m8[s]"), (0,))).all()
    with pytest.raises(errors.EmptyError):
        run("argmax", nothing, (1,))


def test_slices_of_nothing_but_nan():
    x = np.array([[np.nan, np.nan], [1, np.nan]])
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        np.testing.assert_array_equal(run("nanmin", x, (1,)), [[np.nan], [1]])
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        np.testing.assert_array_equal(run("nanmean", x, (1,)), [[np.nan], [1]])
    with pytest.raises(errors.EmptyError, match="All-NaN"):
        run("nanargmin", x, (1,))
    assert run("nansum", x, (1,)).tolist() == [[0.0], [1.0]]


# ---- options


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("ddof", [0, 1, 1.5, 3, 4])
@pytest.mark.filterwarnings("ignore")
def test_ddof(name, ddof):
    x = np.array([[1.0, 2, 4], [5, 5, 5]])
    np.testing.assert_allclose(
        run(name, x, (1,), ddof=ddof), getattr(np, name)(x, axis=1, ddof=ddof, keepdims=True), rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_standardised_moments(bias):
    for x in (RNG.gamma(2.0, size=(50, 40)), np.ones((3, 3)), RNG.random((3, 2)), RNG.random((2, 3)) + 1e6):
        for fisher in (True, False):
            got = run("kurtosis", x, (1,), bias=bias, fisher=fisher)
            want = scipy.stats.kurtosis(x, axis=1, bias=bias, fisher=fisher, keepdims=True)
            np.testing.assert_allclose(got, want, rtol=1e-6)
        got = run("skew", x, (1,), bias=bias)
        np.testing.assert_allclose(got, scipy.stats.skew(x, axis=1, bias=bias, keepdims=True), rtol=1e-6, atol=1e-9)
    for order in (2, 3, 4):
        got = run("moment", x, (0,), order=order)
        np.testing.assert_allclose(got, scipy.stats.moment(x, order, axis=0, keepdims=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "given", "asked"),
    [
        ("sum", "f8", "i4"),
        ("sum", "i4", "f4"),
        ("sum", "f4", "f8"),
        ("sum", "i8", "i1"),
        ("sum", "i4", "c8"),
        ("sum", "f4", "?"),
        ("sum", "u1", "i8"),
        ("sum", "i1", "u2"),
        ("prod", "i2", "f8"),
        ("mean", "i4", "f4"),
        ("mean", "f4", "f8"),
        ("mean", "f8", "c16"),
        ("var", "f4", "f8"),
        ("nansum", "f4", "f8"),
    ],
)
def test_result_dtypes_of_ones_choice(name, given, asked):
    x = (RNG.random((4, 5)) * 9).astype(given)
    bound = get(name).bind(given, dtype=asked)
    got = host_reduce.finalise(host_reduce.reduce((x,), bound, (0,)), bound)
    assert got.dtype == asked
    np.testing.assert_allclose(got, getattr(np, name)(x, axis=0, dtype=asked, keepdims=True), rtol=1e-5)


# ---- memory


@pytest.fixture(scope="module")
def large():
    return RNG.standard_normal((4096, 4096), np.float32)  # 64 MiB


def peak_of(chunks, bound, axes):
    """The most bytes that a reduction held beside its result."""
    tracemalloc.start()
    try:
        kept = host_reduce.reduce(chunks, bound, axes)
        return tracemalloc.get_traced_memory()[1] - kept.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("row", one_in(3, SINGLE), ids=case_id)
def test_no_temporary_of_the_chunks_size(row, large):
    bound = row.bind(large.dtype)
    narrow = large.reshape(-1, 16)
    for x, axes in [
        (large, (0,)),
        (large, (1,)),
        (large.ravel(), (0,)),
        (narrow, (0,)),
        (narrow, (1,)),
        (large.T[::2], (0,)),
    ]:
        assert peak_of((x,), bound, axes) < 0.05 * large.nbytes, (x.shape, axes)


@pytest.mark.parametrize("name", one_in(4, ["sum", "max", "argmax", "nanmean", "nanvar", "norminf", "moment", "any"]))
def test_no_temporary_of_the_chunks_size_in_any_dtype(name, large):
    missing = large.copy()
    missing[::7, ::5] = np.nan
    swapped_bytes = large.view(large.dtype.newbyteorder())
    for x in (missing, swapped_bytes, *map(large.view, ("f8", "i2", "f2", "c8"))):
        if not takes(get(name), x.dtype):
            continue
        bound = get(name).bind(x.dtype)
        for axes in ((0,), (1,), (0, 1)):
            assert peak_of((x,), bound, axes) < 0.05 * large.nbytes, (x.dtype, axes)


@pytest.mark.parametrize("name", ["sum", "var", "argmax"])
def test_partials_of_many_cells(name):
    """They are combined as they would be cell by cell, without temporaries of their size."""
    bound = get(name).bind("f8")
    x = RNG.standard_normal((3, 2, 7, 60_011))
    x[1, 0, 3, 17_000:17_010] = np.inf
    partials = [host_reduce.reduce((each,), bound, (0,)) for each in x]
    tracemalloc.start()
    try:
        joined = host_reduce.combine(partials, bound)
        assert tracemalloc.get_traced_memory()[1] < joined.nbytes + (2 << 20)
    finally:
        tracemalloc.stop()
    assert joined.shape == partials[0].shape
    for cells in np.ndindex(7):
        at = (slice(None), *cells, slice(cells[0], None, 997))
        assert host_reduce.combine([p[at] for p in partials], bound).tobytes() == joined[at].tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_no_temporary_of_two_chunks(dtype, large):
    x = large.view(dtype)
    for name in ("vdot", "average") if dtype != "c8" else ("vdot",):
        for axes in ((0,), (1,), (0, 1)):
            assert peak_of((x, x), get(name).bind(dtype, dtype), axes) < 0.05 * large.nbytes, (name, axes)


@pytest.mark.parametrize("row", one_in(3, SINGLE), ids=case_id)
def test_results_are_made_tile_by_tile(row, monkeypatch):
    """They are those of the partial, bit by bit, in whatever layout."""
    monkeypatch.setattr(host_reduce, "JOINED", 10)
    for dtype in [d for r, d in CASES if r is row][::4]:
        for shape, axes in (
            ((3, 20_000), (0,)),
            ((5, 7, 301), (1,)),
            ((5, 7, 301), (0, 2)),
            ((40, 1), (1,)),
        ):
            x = values(shape, dtype, special=False)
            for each in (x, fortran(x), np.flip(x), np.broadcast_to(x[:1], shape)):
                bound = row.bind(each.dtype)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = host_reduce.finalise(host_reduce.reduce((each,), bound, axes), bound)
                    got = host_reduce.reduce((each,), bound, axes, final=True)
                assert (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


def test_results_take_no_array_of_states():
    x, bound = RNG.standard_normal((3, 500_000)), get("mean").bind("f8")
    tracemalloc.start()
    try:
        host_reduce.reduce((x,), bound, (0,), final=True)
        assert tracemalloc.get_traced_memory()[1] < 8 * 500_000 + (6 << 20)
    finally:
        tracemalloc.stop()


def test_a_copy_that_makes_no_larger_tile_is_none():
    x = np.ones((3, 250_000), "f4")
    bound = get("nansum").bind(x.dtype)
    laid = tiles.tiling_of(x.shape, (x.strides,), (0,), (0,), host_reduce._budget(bound), False, False, True)
    assert laid.direct


@pytest.mark.parametrize(("name", "axes"), [("sum", (1,)), ("prod", (1,)), ("max", (2, 3)), ("any", (0, 3))])
def test_short_stretches_with_gaps_are_copied_together(name, axes):
    """As columns, and as rows: loops over a few elements take longer than to copy them beside others."""
    x = RNG.integers(0, 3, (60, 34, 12, 25)).astype("i1")[..., :13]
    bound = get(name).bind(x.dtype)
    laid = tiles.tiling_of(
        x.shape, (x.strides,), axes, (0,) * len(axes), host_reduce._budget(bound), False, False, True
    )
    assert not laid.direct
    assert_close(run(name, x, axes), expected(name, x, axes)[0], bound.result, x)


def test_short_rows_of_bools_are_counted_as_columns_without_loops(monkeypatch):
    x = RNG.random((20_000, 24)) < 0.5
    for name in ("sum", "mean"):
        assert_close(run(name, x, (1,)), expected(name, x, (1,))[0], get(name).bind(x.dtype).result, x)
    monkeypatch.setattr(native, "library", lambda: None)
    for each in (x, x[:, :12]):
        for name in ("sum", "mean"):
            bound = get(name).bind(x.dtype)
            budget = host_reduce._budget(bound)
            assert tiles.tiling_of(each.shape, (each.strides,), (1,), (0,), budget, False, False, True).turned
            assert_close(run(name, each, (1,)), expected(name, each, (1,))[0], bound.result, each)


def test_integers_have_no_nan_to_look_for(monkeypatch):
    x = RNG.integers(0, 3, (7, 500))
    monkeypatch.setattr(np, "isfinite", None)
    for module, name in ((sums, "nansum"), (prod, "nanprod")):
        monkeypatch.setattr(module, "folded", None)
        np.testing.assert_array_equal(run(name, x, (0,)), getattr(np, name)(x, axis=0, keepdims=True))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "argmax", "all"])
def test_many_results_are_found_some_at_a_time(name, monkeypatch):
    """And those that lie in the partial are left there."""
    bound = get(name).bind(np.dtype("f4"))
    x = np.random.default_rng(5).integers(0, 9, (3, 5, 7)).astype("f4")
    partial = host_reduce.reduce((x,), bound, (0,))
    whole, asked, finalised = host_reduce.finalise(partial, bound), [], host_reduce._finalised
    monkeypatch.setattr(host_reduce, "JOINED", 10)
    monkeypatch.setattr(host_reduce, "_finalised", lambda cells, _: asked.append(len(cells)) or finalised(cells, bound))
    np.testing.assert_array_equal(host_reduce.finalise(partial, bound), whole)
    assert asked in ([10, 10, 10, 5], [10, 35])
    assert (len(asked) == 2) == np.may_share_memory(whole, partial)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", ["min", "max", "nanmin", "nanmax"])
def test_of_equal_complex_extrema_the_first_wins(name, axes):
    """Signs of zero parts tell equals apart, and what the other part of a NaN is."""
    rng = np.random.default_rng(7)
    for parts in ([-0.0, 0.0], [-0.0, 0.0, np.nan], [-1.0, -0.0, 0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [1.0, np.nan]):
        x = np.empty((5, 40, 6), "c16")
        x.real, x.imag = rng.choice(parts, x.shape), rng.choice(parts, x.shape)
        for each in (x, x[::-1, :, ::-1], fortran(x), x[:, ::2], x.astype("c8")):
            rows = rows_of(each, axes)
            skips = name.startswith("nan") & ~np.all(np.isnan(rows), axis=-1, keepdims=True)
            worst = complex(np.inf, np.inf) if "min" in name else complex(-np.inf, -np.inf)
            at = getattr(np, "arg" + name[-3:])(np.where(skips & np.isnan(rows), worst, rows), axis=-1)
            first = np.take_along_axis(rows, at[..., None], axis=-1)[..., 0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                found = run(name, each, axes).reshape(first.shape)
            missing = np.isnan(first) if name.startswith("nan") else np.zeros(first.shape, bool)  # of these, any
            assert np.all(np.isnan(found[missing]))
            assert found[~missing].tobytes() == first[~missing].tobytes(), (parts, each.strides)


@pytest.mark.parametrize("name", ["sum", "nanmean", "var", "max", "first"])
def test_chunks_of_few_bytes_for_their_partial_are_reduced_together(name, monkeypatch):
    """By parts of the cells, some chunks at a time, each state written once for them."""
    monkeypatch.setattr(stack, "SMALL", 0)
    monkeypatch.setattr(host_reduce, "BLOCK", 1 << 14)
    x = RNG.normal(size=(9, 3, 700))
    x[RNG.random(x.shape) < 0.2] = np.nan
    bound, written = get(name).bind(x.dtype), []
    fill = host_reduce._fill
    monkeypatch.setattr(
        host_reduce, "_fill", lambda cells, *rest, **k: written.append(cells.size) or fill(cells, *rest, **k)
    )
    for cuts in (range(10), [0, 1, 4, 5, 6, 9]):
        chunks = [(x[a:b],) for a, b in pairwise(cuts)]
        written.clear()
        partial = host_reduce.reduce_many(chunks, bound, (0,))
        assert sum(written) < 3 * 700 * len(chunks)
        whole = host_reduce.finalise(host_reduce.reduce((x,), bound, (0,)), bound)
        np.testing.assert_allclose(host_reduce.finalise(partial, bound), whole, rtol=1e-13)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_both_parts_of_complex_numbers_are_read_at_once(name, dtype):
    """Without one that is missing in either part; those that do not lie together are copied."""
    rng = np.random.default_rng(11)
    x = (rng.normal(3, 1, (4, 900, 6)) + 1j * rng.normal(-200, 2, (4, 900, 6))).astype(dtype)
    gaps = x.copy()
    gaps.real[rng.random(x.shape) < 0.1] = np.nan
    gaps.imag[rng.random(x.shape) < 0.1] = np.nan
    for each in (x, gaps, gaps[..., ::2], gaps[:, ::-1], fortran(gaps)):
        for axes in ((1,), (0, 2), (0, 1, 2)):
            want = getattr(np, name)(each.astype("c16"), axis=axes, keepdims=True)
            np.testing.assert_allclose(run(name, each, axes), want, rtol=1e-6 if dtype == "c8" else 1e-9)


def test_operators_without_a_hash_are_reduced():
    """Lists among what a row is made of."""
    row = get("sum")
    for monoid in (replace(row, identity=[0, 0]), replace(row, options=(("table", [1, 2]),), finalise=of_options)):
        bound = monoid.bind("f8")
        with pytest.raises(TypeError):
            hash(bound)
        assert chunk.results((np.ones((3, 4)),), bound, (1,)).tolist() == [[4.0]] * 3


def of_options(state, dtype, table):
    return get("sum").finalise(state, dtype)


def test_positions_of_rows_with_gaps_take_no_copy_of_the_chunk():
    x = RNG.random((600, 4003))[:, :-3]
    bound = get("argmax").bind(x.dtype)
    chunk.results((x,), bound, (1,))
    tracemalloc.start()
    found = chunk.results((x,), bound, (1,))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found[:, 0], x.argmax(1))
    assert most < x.nbytes / 8
