"""Scans of chunks on the host: every row against the reductions of its prefixes, NumPy, and exact arithmetic."""

from __future__ import annotations

import itertools
import math
import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BFLOAT16, CASES, LAYOUTS, SINGLE, case_id, lay, layouts_of, takes, values
from tiers import in_turn, one_in

import gpureduce_dask as gr
from gpureduce_dask import Monoid, errors
from gpureduce_dask.chunk import Place
from gpureduce_dask.host import reduce as host
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators import native
from gpureduce_dask.operators.table import OPERATORS, get
from gpureduce_dask.operators.totals import two_sum

RNG = np.random.default_rng(2)
UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "nanmax": np.fmax,
    "any": np.logical_or,
    "all": np.logical_and,
}


def scan(row, x, axis=0, **options):
    chunks = x if isinstance(x, tuple) else (x,)
    return host_scan.scan(chunks, get(row).bind(*(c.dtype for c in chunks)), axis, **options)[0]


def close(got, want, eps=None):
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind not in "fcV":
        np.testing.assert_array_equal(got, want)
        return
    size = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1)
    eps = eps or (1e-2 if got.dtype == BFLOAT16 else {2: 2e-3, 4: 1e-6, 8: 1e-12}[size])
    wide = "c16" if got.dtype.kind == "c" else "f8"
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=eps, atol=1e-9)


# ---- every row: a result is the reduction of all elements up to its own


def prefixes(bound, chunks, axis, exclusive, reverse):
    """Results one by one, from the chunk's own reductions, and the partial behind the last."""
    lines = [np.flip(c, axis) if reverse else c for c in chunks]
    shape = chunks[0].shape
    behind = bound.identities(tuple(1 if a == axis else n for a, n in enumerate(shape)))
    found = []
    for i in range(shape[axis]):
        at = (slice(None),) * axis + (slice(i, i + 1),)
        index = shape[axis] - 1 - i if reverse else i
        place = Place(tuple(index if a == axis else 0 for a in range(len(shape))), shape)
        one = host.reduce(tuple(c[at] for c in lines), bound, (axis,), place)
        before, behind = behind, host.combine([behind, one], bound)
        found.append(host.finalise(before if exclusive else behind, bound))
    joined = np.concatenate(found, axis)
    return (np.flip(joined, axis) if reverse else joined), behind


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("row", one_in(3, SINGLE), ids=case_id)
def test_every_row(row):
    for number, dtype in enumerate(d for r, d in CASES if r is row):
        bound = row.bind(dtype)
        plain = row.name in ("var", "std", "nanvar", "nanstd", "moments", "moment", "skew", "kurtosis", "nanargmin")
        plain |= row.name == "nanargmax" or ("prod" in row.name and dtype.kind == "c")
        exclusive = number % 2 == 1 and "arg" not in row.name
        for step, (shape, axis) in enumerate([((7,), 0), ((3, 33, 2), 1), ((40, 3), 0)]):
            x = lay(LAYOUTS[(number + 3 * step) % len(LAYOUTS)], values(shape, dtype, number, not plain))
            reverse = (number + step) % 3 == 0
            want, behind = prefixes(bound, (x,), axis, exclusive, reverse)
            got, total = host_scan.scan((x,), bound, axis, exclusive=exclusive, reverse=reverse)
            close(got, want, 1e-5 if "kurt" in row.name or "skew" in row.name else None)
            assert total.dtype == bound.state and total.shape == behind.shape
            close(host.finalise(total, bound), host.finalise(behind, bound))


@pytest.mark.parametrize("dtypes", [("i4", "i8"), ("u1", "u2"), ("f4", "f8"), ("?", "i2")], ids=str)
def test_maps_are_applied_in_order(dtypes):
    a, b = (values((60, 5), d, k, special=False) for k, d in enumerate(dtypes))
    a = (a % 3).astype(a.dtype) if a.dtype.kind != "b" else a
    bound = get("affine").bind(*dtypes)
    for axis, reverse in itertools.product((0, 1), (False, True)):
        want, _ = prefixes(bound, (a, b), axis, False, reverse)
        close(host_scan.scan((a, b), bound, axis, reverse=reverse)[0], want)


def letters_lift(x, index):
    return x.astype("i8"), np.ones(x.shape, "i8")


def letters_combine(earlier, later):
    """Numbers written one behind the other, modulo a prime: value and 10**length."""
    (a, n), (b, m) = earlier, later
    return (a * 10**3 * m + b) % 1_000_003, n * 10**3 * m % 1_000_003


def letters_value(state, dtype):
    return state[0]


def test_an_operator_of_ones_own_that_does_not_commute():
    row = Monoid(
        name="letters",
        fields={"value": "i8", "power": "i8"},
        identity=(0, pow(1000, -1, 1_000_003)),
        lift=letters_lift,
        combine=letters_combine,
        finalise=letters_value,
        commutative=False,
    )
    x = RNG.integers(0, 999, (3, 40, 700), "i8")
    bound = row.bind("i8")
    for axis in range(3):
        want, _ = prefixes(bound, (x,), axis, False, False)
        np.testing.assert_array_equal(host_scan.scan((x,), bound, axis)[0], want)


def test_a_sweep_may_give_a_view_of_its_results():
    """Elements of another byte order are copied in tiles, whose results lie where those of the tile before lay."""

    def sweep(block, carry, out):
        np.cumsum(block, axis=1, out=out)
        out += carry[0][:, None]
        return (out[:, -1],)

    row = replace(get("sum"), name="total", fields=[("x", "f8")], identity=(0.0,), sweep=sweep, fold=None)
    row = replace(row, lift=lambda x, i: (x,), combine=lambda a, b: (a[0] + b[0],), finalise=lambda s, d: s[0])
    x = RNG.integers(-9, 9, (3, 600_003)).astype(">f8")
    np.testing.assert_array_equal(scan(row, x, axis=1), np.cumsum(x, axis=1))
    np.testing.assert_array_equal(scan(row, x, axis=1, exclusive=True)[:, 1:], np.cumsum(x, axis=1)[:, :-1])


# ---- NumPy


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", UFUNCS)
@given(data=st.data())
def test_numpy_says_the_same(name, data):
    dtype = data.draw(st.sampled_from([d for d in {d for _, d in CASES} if takes(get(name), d)]))
    complex_ = dtype.kind == "c"
    x, _ = data.draw(layouts_of(dtype, special=not (complex_ and name == "prod")))
    if not x.ndim or (complex_ and name in ("max", "min", "nanmax")):
        return
    axis = data.draw(st.integers(0, x.ndim - 1))
    bound = get(name).bind(x.dtype.newbyteorder("="))
    wide = x.astype("c16" if complex_ else "f8" if dtype.kind in "fV" else x.dtype.newbyteorder("="))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in ("sum", "prod") and dtype.kind in "biu":
            want = UFUNCS[name].accumulate(wide, axis=axis, dtype=bound.result)
        elif name in ("any", "all"):
            want = UFUNCS[name].accumulate(wide != np.zeros((), wide.dtype), axis=axis)
        else:
            want = UFUNCS[name].accumulate(wide, axis=axis)
        want = want.astype(bound.result)
    got, total = host_scan.scan((x,), bound, axis)
    if complex_:  # an infinite part makes the other one NaN or not by the order of additions
        got, want = (np.where(np.isfinite(v), v, np.nan) for v in (got, want))
    close(got, want)
    assert total.shape == tuple(1 if a == axis else n for a, n in enumerate(x.shape))


@pytest.mark.parametrize("shape", [(70_001,), (3, 3001), (5000, 9), (40, 9001), (700, 5, 33)], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8", "c8", "c16"])
def test_many_tiles(shape, dtype):
    x = values(shape, dtype, special=False)
    for axis, layout in itertools.product(range(len(shape)), (np.ascontiguousarray, np.asfortranarray)):
        close(scan("sum", layout(x), axis), np.cumsum(x, axis))
        if x.dtype.kind in "iuf":
            np.testing.assert_array_equal(scan("max", layout(x), axis), np.maximum.accumulate(x, axis))


@pytest.mark.parametrize(
    ("dtype", "shape", "name"),
    in_turn(
        ["i4", "f4", "f8", "c16"],
        [(40, 1500), (300, 40), (9001,)],
        ["prod", "sum", "last", "mean", "any"],
    ),
    ids=str,
)
def test_splits_carries_and_segments(name, dtype, shape):
    """A scan cut anywhere goes on from its carry; in place it gives the same; and segments are scans of their own."""
    if not takes(get(name), dtype) or (name == "prod" and dtype != "i4"):
        return
    bound = get(name).bind(dtype)
    x = values(shape, dtype, special=False)
    for axis, exclusive, reverse in itertools.product(range(len(shape)), (False, True), (False, True)):
        n = shape[axis]
        options = {"exclusive": exclusive, "reverse": reverse}

        def at(start, stop, axis=axis):
            return (slice(None),) * axis + (slice(start, stop),)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            whole, total = host_scan.scan((x,), bound, axis, **options)
            cuts = [0, n // 3, n // 2, n // 2, n]
            parts, carry = np.empty(shape, bound.result), None
            pieces = list(itertools.pairwise(cuts))
            for start, stop in pieces[::-1] if reverse else pieces:
                out = parts[at(start, stop)]
                _, carry = host_scan.scan((x[at(start, stop)],), bound, axis, carry, out=out, **options)
            close(parts, whole)
            close(host.finalise(carry, bound), host.finalise(total, bound))
            if bound.result == x.dtype:
                y = x.copy()
                host_scan.scan((y,), bound, axis, out=y, **options)
                close(y, whole)
            for share in (0.002, 0.03):
                starts = RNG.random(n) < share
                shaped = starts.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
                got, _ = host_scan.scan((x,), bound, axis, resets=shaped, **options)
                where = np.flatnonzero(starts)
                cuts = sorted({0, *(where + 1 if reverse else where).tolist(), n})
                want = [host_scan.scan((x[at(*c)],), bound, axis, **options)[0] for c in itertools.pairwise(cuts)]
                close(got, np.concatenate(want, axis))


def test_segments_of_each_line_alone():
    x = values((30, 50), "f8", special=False)
    starts = RNG.random(x.shape) < 0.1
    got = scan("sum", x, 1, resets=starts)
    for row, flags, line in zip(x, starts, got, strict=True):
        cuts = sorted({0, *np.flatnonzero(flags).tolist(), 50})
        np.testing.assert_allclose(
            line, np.concatenate([np.cumsum(row[a:b]) for a, b in itertools.pairwise(cuts)]), atol=1e-12
        )


def test_results_may_lie_over_the_segments_starts():
    """Each result takes the place of the next element's start, which the next tile still has to read."""
    x, memory = np.zeros(600_000, bool), np.zeros(600_001, bool)
    x[0] = True
    assert scan("any", x, resets=memory[:-1], out=memory[1:]).all()


def test_a_place_moves_positions():
    x = RNG.integers(0, 9, (4, 20))
    bound = get("argmax").bind(x.dtype)
    first, carry = host_scan.scan((x[:, :8],), bound, 1, place=Place((0, 0), x.shape))
    second, _ = host_scan.scan((x[:, 8:],), bound, 1, carry, place=Place((0, 8), x.shape))
    want = [[np.argmax(line[: i + 1]) for i in range(20)] for line in x]
    np.testing.assert_array_equal(np.concatenate([first, second], 1), want)


# ---- accuracy


@pytest.mark.parametrize("shape", [(1 << 18,), (1 << 17, 2), (1 << 13, 1100)], ids=str)
def test_running_sums_of_float64_do_not_drift(shape):
    """Every thousandth of them against exact sums: within one rounding of itself and those of a stretch."""
    x = np.random.default_rng(7).random(shape)
    got = scan("sum", x, 0).reshape(shape[0], -1)[:, 0]
    column = x.reshape(shape[0], -1)[:, 0]
    plain = np.cumsum(column)
    ours = theirs = 0.0
    exact, last = Fraction(0), 0
    for i in range(999, len(column), len(column) // 60):
        exact += Fraction(math.fsum(column[last : i + 1]))
        last = i + 1
        ours = max(ours, abs(float(Fraction(got[i]) - exact)) / float(exact))
        theirs = max(theirs, abs(float(Fraction(plain[i]) - exact)) / float(exact))
    assert ours <= 4 * np.finfo("f8").eps
    assert shape[0] < 1 << 17 or theirs > 2 * ours


def test_narrow_floats_are_rounded_once():
    x = np.full(1 << 17, 0.1, "f4")
    want = np.arange(1, x.size + 1) * float(np.float32(0.1))
    np.testing.assert_array_equal(scan("sum", x), want.astype("f4"))
    ones = np.full(70_000, 1, "f2")
    with np.errstate(over="ignore"):
        want = np.arange(1, 70_001).astype("f8").astype("f2")
    np.testing.assert_array_equal(scan("sum", ones), want)


@pytest.mark.parametrize("shape", [(1 << 18,), (1 << 17, 9), (1 << 12, 1030)], ids=str)
def test_what_rounding_takes_from_a_large_sum_comes_back(shape):
    """Behind 1e16 each stretch would lose a part of its sum, and always in the same direction."""
    bound, each = get("sum").bind("f8"), 1 + 0.9 / 512
    ahead = host.reduce((np.full((1, *shape[1:]), 1e16),), bound, (0,))
    got, _ = host_scan.scan((np.full(shape, each),), bound, 0, ahead)
    for at in (0, shape[0] // 2, shape[0] - 1):
        assert abs(Fraction(got[at].ravel()[0]) - 10**16 - (at + 1) * Fraction(each)) <= 2


def running_pairs(x, axis, hi, lo):
    """Running sums beside what rounding took from each, added up; and the pair behind, of which hi is the nearest."""
    lines, results = np.moveaxis(x, axis, 0), []
    for each in lines:
        hi, error = two_sum(hi, each)
        lo = lo + error
        results.append(hi + lo)
    return np.stack(results, axis), two_sum(hi, lo)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("axis, shape", [(1, (70_001, 0)), (0, (0, 70_001)), (1, (4001, 0, 4)), (2, (3, 5003, 0))])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 17, 32, 33])
def test_short_lines_are_running_pairs_to_the_bit(n, axis, shape, dtype):
    """As lines on their own are, with a carry that stays as it is; and the partials behind them are rounded once."""
    if native.library() is None:
        pytest.skip("no C compiler")
    shape = tuple(k or n for k in shape)
    rng, bound = np.random.default_rng(n), get("sum").bind(dtype)
    drawn = rng.standard_normal((2, *shape)) * 10.0 ** rng.integers(-12, 12, (2, *shape))
    x = drawn[0] + 1j * drawn[1] if dtype == "c16" else drawn[0]
    cells = tuple(k for a, k in enumerate(shape) if a != axis)
    carry, parts = np.empty(cells, bound.state), []
    for name in bound.state.names:
        carry[name] = rng.standard_normal(cells) * (1e9 if name.endswith("hi") else 1e-9)
    for part in [("hi", "lo")] if dtype == "f8" else [("re_hi", "re_lo"), ("im_hi", "im_lo")]:
        of = x if dtype == "f8" else x.real if part[0] == "re_hi" else x.imag
        parts.append((part, running_pairs(of, axis, *(carry[name] for name in part))))
    ahead = np.expand_dims(carry, axis)
    before = ahead.tobytes()
    got, total = host_scan.scan((x,), bound, axis, ahead)
    assert ahead.tobytes() == before
    for (part, (wanted, behind)), of in zip(parts, (got.real, got.imag), strict=False):
        np.testing.assert_array_equal(of, wanted)
        for name, state in zip(part, behind, strict=True):
            np.testing.assert_array_equal(np.squeeze(total[name], axis), state)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(5000,), (700, 9), (1500, 1100)], ids=str)
@pytest.mark.parametrize("loops", [True, False], ids=["compiled", "NumPy"])
def test_what_overflows_or_is_not_finite(loops, shape, dtype, monkeypatch):
    """Sums in pairs hold the ones that 1.5e308 swallows; NumPy, which adds again what overflows, has lost them."""
    if not loops:
        monkeypatch.setattr(native, "library", lambda: None)
    elif native.library() is None:
        pytest.skip("no C compiler")
    x = np.ones(shape, dtype)
    x[3], x[-99:-97] = 1.5e308, -1.5e308  # a stretch that overflows after a sum that is large the other way
    with np.errstate(all="ignore"):
        large = np.abs(x) > 1
        exact = np.cumsum(np.where(large, x, 0), 0) + np.cumsum(np.where(large, 0, x), 0)  # neither sum is rounded
        np.testing.assert_array_equal(exact[-99].ravel()[0], shape[0] - 100)
        got = scan("sum", x)
        if loops:
            np.testing.assert_array_equal(got, exact)
        else:
            np.testing.assert_allclose(got, np.cumsum(x, 0), rtol=1e-12)
        x[-30] = np.inf
        x[-20] = np.nan
        got, want = scan("sum", x), np.cumsum(x, 0)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("name", ["first", "last"])
def test_columns_of_nothing_but_nan(name):
    x = np.full((3, 40), np.nan)
    x[1, 7] = 2
    bound = get(name).bind("f8")
    got = host.finalise(host.reduce((x,), bound, (0,)), bound)[0]
    assert got[7] == 2 and np.isnan(np.delete(got, 7)).all()


def test_a_product_that_ends_finite_although_a_part_of_it_does_not():
    x = np.ones(200_000)
    x[0], x[150_000:150_004] = 1e-300, 1e150
    np.testing.assert_allclose(scan("prod", x), np.cumprod(x))


def test_zeros_have_no_sign_and_empty_lines_no_results():
    assert not np.signbit(scan("sum", np.full(3, -0.0))).any()
    assert np.signbit(scan("max", np.full(3, -0.0))).all()
    for shape, axis in [((0,), 0), ((3, 0), 1), ((0, 3), 0), ((0, 3), 1)]:
        got, total = host_scan.scan((np.ones(shape, "i2"),), get("sum").bind("i2"), axis)
        assert got.shape == shape and got.dtype == np.int64
        assert total.shape == tuple(1 if a == axis else n for a, n in enumerate(shape)) and not total["value"].any()


@pytest.mark.parametrize("n", [40, 9000])
def test_bools_of_other_bytes_and_swapped_elements(n):
    two, swapped = np.full(n, 2, "u1").view(bool), values((n,), ">f4", special=False)
    for name in ("any", "all"):
        assert set(scan(name, two).view("u1")) == {1}
    np.testing.assert_array_equal(scan("sum", two), np.arange(1, n + 1))
    counts = get("count_nonzero").bind("?")
    np.testing.assert_array_equal(host.finalise(host.reduce((two.reshape(-1, 4),), counts, (0,)), counts), n // 4)
    close(scan("sum", swapped), np.cumsum(swapped.astype("f8")).astype("f4"))


@pytest.mark.parametrize("shape", [(1 << 21,), (1 << 14, 128), (128, 1 << 14), (1 << 18, 8)], ids=str)
@pytest.mark.parametrize("name", ["sum", "nansum", "max", "last", "mean"])
def test_no_temporary_of_the_chunk_s_size(name, shape):
    x = np.ones(shape, "f4")
    out = np.empty(shape, get(name).bind("f4").result)
    for axis in range(x.ndim):
        tracemalloc.start()
        scan(name, x, axis, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 7 << 20 < x.nbytes


@pytest.mark.parametrize("axis, shape", [(1, (1 << 19, 2)), (0, (2, 1 << 19)), (1, (1 << 17, 2, 4))], ids=str)
def test_short_lines_need_no_temporary_but_their_partials(axis, shape):
    for name, dtype in (("sum", "f8"), ("sum", "c16"), ("max", "f8")):
        x = np.ones(shape, dtype)
        out = np.empty_like(x)
        tracemalloc.start()
        _, total = host_scan.scan((x,), get(name).bind(dtype), axis, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < total.nbytes + (3 << 20) < total.nbytes + x.nbytes


RUNNING = [name for name, row in OPERATORS.items() if row.running is not None]
SHAPES = {
    "lines": ((9, 1100), 1),
    "columns": ((800, 12), 0),
    "many columns": ((40, 700), 0),
    "planes": ((5, 300, 3), 1),
    "one line": ((6000,), 0),
    "apart": ((7, 900, 2), 1),
}


def spread_out(shape, dtype, seed):
    """Numbers with equal ones among them; floats with NaN, zeros of both signs and, some of them, an infinity."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, shape).astype(dtype)
    if x.dtype.kind == "f":
        x = np.asarray(x * 0.37 - 5, dtype)
        x[rng.random(shape) < 0.02] = np.nan
        x[rng.random(shape) < 0.02] = -0.0
        if seed % 2:
            x[rng.random(shape) < 2 / x.size] = np.inf
    return x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u8", "u1", "?", "c16"])
def test_running_states_are_those_of_states_combined(name, dtype):
    """As monoids make them, and element by element."""
    row = get(name)
    try:
        bound = row.bind(dtype)
    except errors.DtypeError:
        pytest.skip("has no meaning")
    plain = replace(row, running=None).bind(dtype)
    for seed, (shape, axis) in enumerate(SHAPES.values()):
        x = spread_out(shape, dtype, seed)
        ahead = spread_out(tuple(3 if a == axis else n for a, n in enumerate(shape)), dtype, 7)
        if len(shape) == 3 and seed == 5:
            x, ahead = np.asfortranarray(x), np.asfortranarray(ahead)
        if "arg" in name:  # every line begins with a number
            x[(slice(None),) * axis + ([0, -1],)] = 7
        for options in ({}, {"reverse": True}, {"carried": True}, {"carried": True, "exclusive": True}):
            carried = options.pop("carried", False)
            if carried:
                options["carry"] = host.reduce((ahead,), bound, (axis,))
                if "arg" in name and np.any(options["carry"]["index"] < 0):
                    continue
            got, total = host_scan.scan((x,), bound, axis, **options)
            wanted, behind = host_scan.scan((x,), plain, axis, **options)
            if got.dtype.kind in "iub" or name in ("first", "ptp"):
                np.testing.assert_array_equal(got, wanted)
            else:
                digits = {2: 2e-3, 4: 3e-7, 8: 1e-12}[got.real.itemsize]
                np.testing.assert_allclose(got, wanted, rtol=digits, atol=digits)
            ends = [host.finalise(each, bound) for each in (total, behind)]
            np.testing.assert_allclose(*ends, rtol=1e-3 if dtype == "f2" else 1e-6, atol=1e-12)


@pytest.mark.parametrize("times", [1, 200, 3000])
def test_running_means_do_not_lose_what_large_numbers_hide(times):
    line = np.tile([1e16, 1.0, -1e16], times)
    assert scan("mean", line)[-1] == pytest.approx(1 / 3, rel=1e-15)
    assert scan("nanmean", np.append(line, np.nan))[-1] == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize("shape", [(20_000,), (5000, 6)])
def test_running_variances_keep_their_digits(shape):
    """Far from zero, and behind few elements that lie close together far away from all others."""
    rng = np.random.default_rng(0)
    x = 1e9 + rng.normal(size=shape)
    x[:3] = -1e5 + 1e-3 * rng.normal(size=(3, *shape[1:]))
    got, _ = host_scan.scan((x,), get("var").bind("f8"), 0)
    for n in (2, 3, 4, 100, shape[0]):
        exact = [Fraction(each) for each in x[:n].reshape(n, -1)[:, 0]]
        mean = sum(exact) / n
        wanted = float(sum((each - mean) ** 2 for each in exact) / n)
        assert got.reshape(len(got), -1)[n - 1, 0] == pytest.approx(wanted, rel=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", RUNNING)
def test_running_states_are_those_of_mapped_elements(name):
    """Of functions of one array and of two, in blocks that compiled loops take."""
    x, y = RNG.normal(size=(2, 40, 3000))
    a, b = (da.from_array(each, chunks=(20, 1500)) for each in (x, y))
    mapped = [
        (x * 2 + 1, gr.scan(a * 2 + 1, name, axis=1)),
        (x * 2 + 1, gr.map_scan(lambda u: u * 2 + 1, name, a, axis=1)),
        (x * y - 1, gr.map_scan(lambda u, v: u * v - 1, name, a, b, axis=1)),
        (x * y - 1, gr.map_scan(lambda u, v: u * v - 1, [name, "sum"], a, b, axis=1)[0]),
    ]
    for values_of, got in mapped:
        np.testing.assert_allclose(got.compute(), scan(name, values_of, 1), rtol=1e-12)
