"""Host loops in C give what NumPy gives, and NumPy stands in where there are none."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask import chunk
from gpureduce_dask.host import reduce
from gpureduce_dask.operators import native, positions, totals
from gpureduce_dask.operators import table as operators

ROOT = Path(__file__).parent.parent
HAS_COMPILER = shutil.which(os.environ.get("CC", "cc")) is not None
needs_loops = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")

# How rows lie: one behind another, with gaps, upside down, the same row again
LAYOUTS = {
    "packed": lambda x: x,
    "gaps": lambda x: x[:, 3:-2],
    "reversed rows": lambda x: x[::-1],
    "every other row": lambda x: x[::2],
    "one row": lambda x: np.broadcast_to(x[:1], x.shape),
}


def numbers(shape, dtype, seed=0):
    """Few distinct values, so that the best of a row stands in several places."""
    return np.random.default_rng(seed).integers(-40, 40, shape).astype(dtype)


@pytest.fixture(params=["compiled", "NumPy"])
def loops(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(native, "library", lambda: None)
    elif not HAS_COMPILER:
        pytest.skip("no C compiler")
    return request.param


@needs_loops
def test_what_was_compiled_is_the_text_that_is_here():
    assert native.library() is not None, "kernels/host has changed: install the package again"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [128, 4091, 8192, 20_001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_positions_are_numpys(dtype, n, layout):
    x = numbers((20, n + 5), dtype)
    y = x.copy()
    y[0, n // 2] = y[2, -3] = y[2, -5] = y[4, 3] = y[4, n // 3] = np.nan
    y[6], y[8], y[10, ::2], y[10, 1::2] = -np.inf, np.inf, 0.0, -0.0
    for name, best in (("argmax", np.maximum), ("argmin", np.minimum)):
        for rows in (LAYOUTS[layout](x), LAYOUTS[layout](y)):
            found = positions.search(getattr(np.ndarray, name), best, rows)
            np.testing.assert_array_equal(found, getattr(rows, name)(axis=1))


@needs_loops
@pytest.mark.parametrize("layout", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_columns_are_numpys(dtype, layout):
    for shape in (shape for shape in BLOCKS if shape[2] > 1):
        x = numbers(shape, dtype).round(1)  # with ties
        y = x.copy()
        y[np.random.default_rng(0).random(shape) < 0.3] = np.nan
        y[0, :, 0], y[0, :, 1] = np.nan, -np.inf
        y[-1, :, -1] = np.inf
        for block in (blocks(x, shape)[layout], blocks(y, shape)[layout]):
            is_nan = np.isnan(block)
            for name, void in (("argmin", np.inf), ("argmax", -np.inf)):
                values, at = native.extrema(name, block)
                np.testing.assert_array_equal(at, getattr(block, name)(axis=1))
                np.testing.assert_array_equal(values, np.take_along_axis(block, at[:, None], 1)[:, 0])
                values, at = native.extrema(f"nan{name}", block)
                there = np.where(is_nan, void, block)  # NumPy would look for the void among NaN that came before it
                first = (~is_nan & (block == getattr(there, name[3:])(axis=1, keepdims=True))).argmax(axis=1)
                np.testing.assert_array_equal(at, np.where(is_nan.all(axis=1), -1, first))
                wanted = np.where(at < 0, np.nan, np.take_along_axis(block, np.maximum(at, 0)[:, None], 1)[:, 0])
                np.testing.assert_array_equal(values, wanted)


@needs_loops
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_extrema_of_columns_of_integers_are_numpys(dtype):
    rng, limits = np.random.default_rng(1), np.iinfo(dtype)
    for shape in (shape for shape in BLOCKS if shape[2] > 1):
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        x[:, ::3] = x[:, :1]  # ties
        for name in ("argmin", "argmax", "nanargmin", "nanargmax"):
            values, at = native.extrema(name, x)
            np.testing.assert_array_equal(at, getattr(x, name.removeprefix("nan"))(axis=1))
            np.testing.assert_array_equal(values, np.take_along_axis(x, at[:, None], 1)[:, 0])


# Rows and columns, long and short, wide and narrow, of which many or one are side by side: (outer, n, inner)
BLOCKS = [(1, 9001, 1), (90, 128, 1), (50, 90, 1), (600, 45, 1), (2500, 2, 1), (5000, 1, 1), (1, 700, 7), (3, 100, 33)]
BLOCKS += [(2000, 2, 3), (200, 27, 10), (20, 45, 90), (1, 3, 2100), (2, 600, 30)]


def blocks(x, shape):
    """As they lie packed, with gaps between rows, every other one of the first axis, and upside down."""
    n = shape[1]
    return (x, np.pad(x, ((0, 0), (0, 3), (0, 0)))[:, :n], np.repeat(x, 2, axis=0)[::2], x[::-1])


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_sums_are_exact_where_float64_is(dtype, shape):
    for block in blocks(numbers(shape, dtype) * (1 + 2j if dtype[0] == "c" else 1), shape):
        block = block.astype(dtype, copy=False)
        found = native.sums(block)
        assert found is not None and all(f.dtype in ("f8", "c16") for f in found)
        total = totals.total(found)
        np.testing.assert_array_equal(total, block.sum(axis=1, dtype=total.dtype))


@needs_loops
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "nanmean"])
def test_sums_are_added_where_their_states_are_bit_by_bit(name, dtype, monkeypatch):
    bound = operators.OPERATORS[name].bind(np.dtype(dtype))
    rng = np.random.default_rng(0)
    chunks = [(rng.normal(size=(3, 5, 1201)) * 10.0 ** rng.integers(0, 30, (3, 5, 1201))).astype(dtype) for _ in "abc"]
    chunks[1][1, :, ::7], chunks[2][0, 3, 5], chunks[2][1, 4, :9] = np.nan, np.inf, -np.inf
    found = []
    for may in (reduce._may_put, lambda cells: False):
        monkeypatch.setattr(reduce, "_may_put", may)
        for axes in ((0,), (1,), (0, 1)):
            partial = None
            for each in chunks:
                partial = reduce.reduce((each,), bound, axes, before=partial)
            found.append(partial)
    for put, combined in zip(found[:3], found[3:], strict=True):
        for field in put.dtype.names:
            np.testing.assert_array_equal(put[field], combined[field])


@needs_loops
@pytest.mark.parametrize("n", [16, 17, 31, 32, 61, 300, 511, 512, 1023, 1024, 1541, 4099])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_rows_are_exact_where_float64_is(dtype, n):
    for block in blocks(numbers((300, n, 1), dtype), (300, n, 1)):
        found = totals.total(native.sums(block))
        np.testing.assert_array_equal(found, block.sum(axis=1, dtype="f8"))
    block = numbers((300, n, 1), dtype)
    block[0, n // 2], block[1, -1], block[2, 0] = np.inf, np.nan, -np.inf
    np.testing.assert_array_equal(totals.total(native.sums(block)), block.sum(axis=1, dtype="f8"))


@needs_loops
@pytest.mark.parametrize("shape", [(1, 1 << 18, 1), (70, 5000, 1), (1, 40_000, 3)], ids=str)
def test_long_sums_are_pairs(shape):
    x = np.random.default_rng(1).normal(size=shape) * 10.0 ** np.random.default_rng(2).integers(0, 12, shape)
    hi, lo = native.sums(x)
    for row, cell in ((0, 0), (shape[0] - 1, shape[2] - 1)):
        true, sizes = math.fsum(x[row, :, cell]), math.fsum(abs(x[row, :, cell]))
        error = abs((hi[row, cell] - true) + lo[row, cell])
        assert error <= 2.0**-50 * sizes  # stretches round by themselves


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_sums_of_integers_are_exact(dtype, shape):
    limits = np.iinfo(dtype)
    for block in blocks(np.random.default_rng(3).integers(limits.min, limits.max, shape, dtype, True), shape):
        found = native.integer_sums(block)
        assert found.dtype == dtype[0] + "8"
        np.testing.assert_array_equal(found, block.sum(axis=1, dtype=found.dtype))


@needs_loops
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_sums_of_the_largest_integers_leave_no_word(dtype):
    """Of so many that 32 bits hold no sum of theirs, along rows and down columns."""
    limits, count = np.iinfo(dtype), (9 << 20) + 5 if dtype[1] == "1" else (1 << 17) + 5
    for value in (limits.min, limits.max):
        x = np.full(3 * count, value, dtype)
        for shape in ((1, 3 * count, 1), (3, count, 1), (1, count, 3)):
            assert np.all(native.integer_sums(x.reshape(shape)) == shape[1] * int(value))
    wide = np.full((1, 70_000, 90), limits.max, dtype)
    assert np.all(native.integer_sums(wide) == 70_000 * int(limits.max))


@needs_loops
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 6, 149), (3, 5, 7), (2000,)], ids=str)
def test_sums_of_pairs_are_numpys_bit_by_bit(shape, monkeypatch):
    rng = np.random.default_rng(0)
    pairs = [rng.standard_normal(shape) * scale for scale in (1e10, 1e-8, 1e9, 1e-8)]
    with np.errstate(all="ignore"):
        for value in (0.0, -0.0, np.inf, -np.inf, np.nan, 1.7e308):  # in each of the four, beside numbers
            for k in range(4):
                given = [np.array(each) for each in pairs]
                given[k].reshape(-1)[::2] = value
                packed = np.zeros(shape, [("hi", "f8"), ("lo", "f8")])
                packed["hi"], packed["lo"] = given[:2]
                apart = [np.repeat(each[..., None], 2, axis=-1)[..., 0] for each in given]
                found = [totals.add_pairs(*each) for each in (given, apart, [packed["hi"], packed["lo"], *given[2:]])]
                with monkeypatch.context() as patch:
                    patch.setattr(native, "library", lambda: None)
                    want = totals.add_pairs(*given)
                for each in found:
                    np.testing.assert_array_equal(each, want)
                    np.testing.assert_array_equal(np.signbit(each), np.signbit(want))


@needs_loops
@pytest.mark.parametrize("name", ["sum", "mean", "nanmean", "min", "nanmax"])
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", "i2", "u8"])
@pytest.mark.parametrize("shape", [(1, 7), (2, 83), (3, 5, 149), (4, 2, 64), (2, 1, 3), (0, 5), (5, 0)], ids=str)
def test_halves_are_numpys_bit_by_bit(name, dtype, shape, monkeypatch):
    bound = operators.get(name).bind(np.dtype(dtype))
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, *shape)) * 10.0 ** rng.integers(-9, 9, (2, *shape))).astype(dtype)
    if x.dtype.kind in "fc":
        x.reshape(-1)[::31] = np.inf
        x.reshape(-1)[5::37] = np.nan
    partial = reduce.reduce((x,), bound, (0,))
    for axis in range(1, partial.ndim):
        for each in (partial, partial[:, ::-1], np.asfortranarray(partial)):
            found = reduce.combine_axis(each, bound, axis)
            with monkeypatch.context() as patch:
                patch.setattr(native, "library", lambda: None)
                patch.setattr(reduce, "HALVED", {})
                want = reduce.combine_axis(each, bound, axis)
            assert found.shape == want.shape
            assert found.tobytes() == want.tobytes()


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64"])
def test_spreads_are_those_of_float64(dtype, shape):
    for block in blocks(numbers(shape, dtype), shape):
        wide = block.astype("f8")
        count, mean, m2 = native.spread(block, False, False)
        assert np.all(count == shape[1])
        np.testing.assert_allclose(mean, wide.mean(axis=1), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(m2, wide.var(axis=1) * shape[1], rtol=1e-12, atol=1e-12)


def with_gaps(x, seed=0):
    """One in three elements NaN, a row and a column of nothing else, infinities in two rows."""
    x = x.copy()
    x[np.random.default_rng(seed).random(x.shape) < 1 / 3] = np.nan
    x[1], x[:, 2], x[4, 7], x[6, 8:10] = np.nan, np.nan, np.inf, (np.inf, -np.inf)
    return x


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_what_is_present_are_exact_where_float64_is(dtype, shape):
    x = numbers(shape, dtype)
    x[np.random.default_rng(1).random(shape) < 1 / 3], x[0, : shape[1] // 2] = np.nan, np.nan
    x.reshape(-1)[-1] = np.inf
    for block in blocks(x, shape):
        there = ~np.isnan(block)
        number = there.sum(axis=1)
        with np.errstate(invalid="ignore"):
            total = np.where(there, block, 0).sum(axis=1, dtype="f8")
            hi, lo, count = native.present(block)
            np.testing.assert_array_equal(hi + lo, total)
            np.testing.assert_array_equal(count, number)
            count, mean, lost, m2 = native.spread(block, True, True)
            np.testing.assert_array_equal(count, number)
            finite = np.isfinite(total)
            assert np.all(np.isnan((mean + m2)[~finite]))
            wanted = total / np.maximum(number, 1)
            np.testing.assert_allclose((mean + lost)[finite], wanted[finite], rtol=1e-13, atol=1e-13)
            squares = (np.where(there, block - wanted[:, None], 0) ** 2).sum(axis=1)
            np.testing.assert_allclose(m2[finite], squares[finite], rtol=1e-12, atol=1e-11)


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_by_groups_are_those_of_each_group(dtype, shape):
    x = numbers(shape, dtype)
    x[np.random.default_rng(1).random(shape) < 1 / 3] = np.nan
    codes = np.random.default_rng(2).integers(0, 5, shape[1])
    for block in blocks(x, shape):
        there = ~np.isnan(block)
        total, count = native.grouped(block, codes, 6, True)  # one group has no element
        plain, nothing = native.grouped(np.where(there, block, 0), codes, 6, False)
        assert nothing is None
        for group in range(6):
            mine = codes == group
            wanted = np.where(there, block, 0)[:, mine].sum(axis=1, dtype="f8")
            np.testing.assert_array_equal(total[:, group], wanted)
            np.testing.assert_array_equal(plain[:, group], wanted)
            np.testing.assert_array_equal(count[:, group], there[:, mine].sum(axis=1))


@needs_loops
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_have_an_exponent(dtype, shape):
    x = np.ldexp(np.random.default_rng(1).uniform(0.5, 1, shape), numbers(shape, int)).astype(dtype)
    x[np.random.default_rng(2).random(shape) < 1 / 3] = np.nan
    x.reshape(-1)[[0, -1]] = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    for block in blocks(x, shape):
        mantissas, powers = np.frexp(np.where(np.isnan(block), 1, block).astype("f8"))
        wanted = np.log2(mantissas).sum(axis=1) + powers.sum(axis=1)
        value, exponent = native.product(block, True)
        np.testing.assert_allclose(np.log2(value) + exponent, wanted, rtol=1e-12, atol=1e-9)
        again = native.product(np.where(np.isnan(block), 1, block).astype(dtype), False)
        np.testing.assert_array_equal(value, again[0])
        np.testing.assert_array_equal(exponent, again[1])


@needs_loops
def test_pairs_of_what_is_present_keep_what_rounding_loses():
    x = np.tile([1e16, 1.0, np.nan, -1e16], (1 << 14, 1))
    x[:, 1] = 2.0**-40
    for block in (x.reshape(1, -1, 1), np.repeat(x.reshape(1, -1, 1), 200, axis=2)):
        hi, lo, count = native.present(block)
        true = math.fsum(x[~np.isnan(x)])
        assert np.all(count == 3 << 14) and np.all(np.abs(hi + lo - true) <= 4096 * 2.0)  # of a stretch's own rounding
    far = np.full((1, 1 << 18, 1), 0.1)
    hi, lo, _ = native.present(far)
    assert float(hi[0, 0]) + float(lo[0, 0]) == pytest.approx(math.fsum(far.ravel()), rel=1e-14)


@needs_loops
@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanvar"])
def test_what_is_missing_costs_no_second_read(name, monkeypatch):
    x, isnan = with_gaps(numbers((64, 4096), "float32")), np.isnan

    def of_few(values):  # of the first elements, near which deviations are measured
        assert np.size(values) <= x.size // 64, "an array of what is missing"
        return isnan(values)

    monkeypatch.setattr(np, "isnan", of_few)
    b = operators.get(name).bind(x.dtype)
    for axis in (0, 1):
        chunk.reduce((x,), b, (axis,))


@needs_loops
def test_what_the_loops_do_not_take():
    x = numbers((64, 256), "float32")
    swapped, crooked = x.astype(">f4"), np.frombuffer(b"0" + x.tobytes(), "f4", offset=1).reshape(x.shape)
    for rows in (x[:, ::2], x.T, x[:4], swapped, crooked, x.astype("f2")):
        assert native.sums(rows[:, :, None]) is None
        assert native.present(rows[:, :, None]) is None
        assert native.spread(rows[:, :, None], True, False) is None
    assert native.integer_sums(x.astype("i8")[:, :, None]) is None
    assert native.integer_sums(x.astype("i2").T[:, :, None]) is None
    assert native.row_summary(x[:, :100, None], 1, None) is None
    assert native.extrema("argmax", x[:, :, None]) is None and native.extrema("argmax", x[None].astype("f2")) is None
    assert native.sums(x.astype("i4")[:, :, None]) is None and native.present(x.astype("i4")[:, :, None]) is None
    assert native.spread(x.astype("c8")[:, :, None], True, False) is None


SHAPES = [(5, 2000, 1), (1, 9000, 1), (7, 700, 2), (3, 1000, 3), (2, 900, 4), (2, 300, 33)]


def scanned(name, block, dtype, out_dtype, carry):
    """What NumPy accumulates from a carry, and the states behind."""
    line = np.concatenate([carry[:, None], block.astype(dtype)], axis=1)
    if name == "last":
        places = np.where(np.isnan(line), 0, np.arange(line.shape[1])[:, None])
        running = np.take_along_axis(line, np.maximum.accumulate(places, axis=1), 1)[:, 1:]
    else:
        ufunc = np.multiply if name == "products" else getattr(np, name.removesuffix("_present"))
        if name.endswith("_present"):
            line = np.where(np.isnan(line), 0, line)
        running = ufunc.accumulate(line, axis=1, dtype=dtype)[:, 1:]
    return running.astype(out_dtype), running[:, -1]


def scannable(name, kind, shape):
    """Sums and products that are exact or wrap, flags that turn over late, and NaN among extrema."""
    x = numbers(shape, kind)
    if name in ("multiply", "products"):
        x = np.where(numbers(shape, "i8") > 0, 1, -1).astype(kind)
    elif kind in ("i8", "u8"):
        x = (x.astype("u8") << np.uint64(58)).astype(kind)
    elif name == "logical_or":
        x = ~x
    elif name in ("last", "add_present"):
        x[x < 20] = np.nan
    elif name != "add" and kind[0] == "f":
        x[0, 200:202] = np.array([np.nan, np.inf])[:, None]
    return x


@needs_loops
@pytest.mark.parametrize("which", native.SCANNED, ids=" ".join)
def test_scans_are_numpys(which):
    name, kind = which
    state, result = native.SCANNED[which]
    for outer, n, inner in SHAPES:
        x = scannable(name, kind, (outer, n + 3, inner))
        with np.errstate(over="ignore"):
            for block in (x[:, 1:-2], x[::-1, 2:-1], x[:, ::2]):
                if block.size < native.LEAST:
                    continue
                carry = np.asfortranarray(numbers((outer, inner), state, 1))
                out = np.empty(block.shape, result)
                if name == "products":
                    behind, exponent = native.products(block, carry, np.zeros(carry.shape, "i8"), out)
                    assert not exponent.any()
                else:
                    behind = native.scan(name, block, carry, out)
                wanted, ends = scanned(name, block, state, result, carry)
                assert behind is not None
                np.testing.assert_array_equal(out, wanted)
                np.testing.assert_array_equal(behind, ends)


@needs_loops
def test_any_byte_of_a_bool_but_0_is_true():
    """NumPy makes such bools by views; a carry may be one too."""
    two, out = np.full((1, 9000, 1), 2, "u1").view(bool), np.empty((1, 9000, 1), bool)
    for name, before in (("logical_and", two[:, 0]), ("logical_or", np.zeros((1, 1), bool))):
        behind = native.scan(name, two, before, out)
        assert set(out.view("u1").ravel()) == {1} and behind.view("u1") == 1
    sums = np.empty(two.shape, "i8")
    native.scan("add", two, np.zeros((1, 1), "i8"), sums)
    np.testing.assert_array_equal(sums.ravel(), np.arange(1, 9001))


@needs_loops
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_pairs_keep_what_rounding_takes(kind, shape):
    block = np.full(shape, 1 + 0.9 / 512, kind)
    carry, out = np.full((shape[0], shape[2]), 1e16, kind), np.empty(shape, kind)
    hi, lo = native.pairs(block, carry, np.zeros_like(carry), out)
    wanted = np.arange(1, shape[1] + 1)[:, None] * (1 + 0.9 / 512)
    np.testing.assert_array_less(np.abs(out - 1e16 - wanted), 2.01)
    np.testing.assert_allclose((hi - 1e16) + lo, np.broadcast_to(wanted[-1], hi.shape), rtol=1e-12)
    block[:, 7] = np.inf
    hi, lo = native.pairs(block, carry, np.zeros_like(carry), out)
    assert np.all(np.isinf(out[:, 7:].real)) and np.all(np.isfinite(lo))


@needs_loops
@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_pairs_take_a_carry_in_any_order(kind):
    block = numbers((3, 200, 9), kind)
    hi, lo = (np.asfortranarray(numbers((3, 9), kind, seed)) for seed in (1, 2))
    out = np.empty(block.shape, kind)
    native.pairs(block, hi, lo, out)
    np.testing.assert_array_equal(out, np.cumsum(block, axis=1) + (hi + lo)[:, None])


@needs_loops
def test_scans_that_the_loops_do_not_take():
    x, carry = numbers((4, 2000, 3), "float32"), np.zeros((4, 3))
    out = np.empty(x.shape, "f4")
    crooked = np.frombuffer(b"0" + x.tobytes(), "f4", offset=1).reshape(x.shape)
    for block in (x.astype(">f4"), crooked, x.astype("f2"), x[:, :8], np.repeat(x, 2, axis=2)[:, :, ::2]):
        assert native.scan("add", block, carry, out[:, : block.shape[1]]) is None
    assert native.scan("add", x, carry.astype("f4"), out) is None
    assert native.scan("add", x, carry.astype(">f8"), out) is None
    assert native.scan("add", x, carry, out.astype(">f4")) is None
    assert native.scan("fmax", x, carry.astype("f4"), out) is None
    assert native.pairs(x, carry, carry, out) is None
    assert native.pairs(x, carry.astype("f4"), carry.astype("f4"), out) is None
    assert native.pairs(x.astype(">f8"), carry, carry, x.astype("f8")) is None


@given(st.integers(1, 70), st.integers(1, 1500), st.integers(0, 10), st.sampled_from([0, 1, None]))
@settings(max_examples=40, deadline=None)
def test_reductions_are_right_with_and_without(rows, columns, seed, axis):
    library = native.library
    try:
        for found in (library, lambda: None):
            native.library = found
            x = np.random.default_rng(seed).standard_normal((rows, columns)).astype("f4")
            np.testing.assert_array_equal(gr.argmin(x, axis=axis).compute(), x.argmin(axis=axis))
            total = gr.sum(x, axis=axis, dtype="f8").compute()
            np.testing.assert_allclose(total, x.sum(axis=axis, dtype="f8"), rtol=1e-13, atol=1e-12)
            spread = gr.var(x, axis=axis, dtype="f8").compute()
            np.testing.assert_allclose(spread, x.astype("f8").var(axis=axis), rtol=1e-12, atol=1e-15)
            x[rows // 2, columns // 3] = np.nan
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of slices that are all NaN
                present = gr.nanvar(x, axis=axis, dtype="f8").compute()
                np.testing.assert_allclose(present, np.nanvar(x.astype("f8"), axis=axis), rtol=1e-12, atol=1e-15)
    finally:
        native.library = library


def test_a_sum_is_as_good_as_float64(loops):
    x = np.random.default_rng(1).standard_normal(3_000_017).astype("f4") * np.float32(1e3)
    true = math.fsum(x.astype("f8"))
    assert abs(float(gr.sum(x, dtype="f8").compute()) - true) <= 1e-15 * float(np.abs(x).sum(dtype="f8"))
    assert np.isinf(gr.sum(np.full(5000, 3e38, "f4")).compute()) and gr.sum(
        np.full(5000, 3e38, "f4"), dtype="f8"
    ).compute() == pytest.approx(1.5e42, rel=1e-6)


def test_without_a_compiler_the_build_goes_on(tmp_path):
    """The hook says so and makes nothing."""
    folder = tmp_path / "kernels" / "host"
    shutil.copytree(ROOT / "kernels" / "host", folder, ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    code = "import hatch_build; print(hatch_build.compiled())"
    environment = os.environ | {"CC": "no-such-compiler"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "None\n" and "NumPy stands in" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("*.so"))


@needs_loops
@pytest.mark.parametrize("shape", [(1, 50, 300), (40, 70, 6), (3, 300, 1), (1, 9000, 1), (200, 33, 1)])
def test_bools_are_counted_and_found_by_their_truth(shape):
    """A byte may be any but 0, as where a mask was read from a file."""
    x = np.random.default_rng(1).integers(0, 4, shape).astype("u1")
    bools, truth = x.view(bool), x != 0
    assert np.array_equal(totals.fold(bools)[0], truth.sum(1))
    for name in ("argmax", "nanargmin"):
        found = native.extrema(name, bools)
        assert (found is None) == (shape[2] == 1)
        if found is not None:
            at = getattr(truth, name.removeprefix("nan"))(1)
            assert np.array_equal(found[1], at) and np.array_equal(
                found[0], np.take_along_axis(truth, at[:, None], 1)[:, 0]
            )


@needs_loops
@pytest.mark.parametrize("name", ["minimum", "maximum", "fmin", "fmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_wide_columns_are_numpys(dtype, name):
    for shape in [(10, 11, 64), (2, 14, 300), (1, 70, 5000), (4, 10, 257)]:
        x = numbers(shape, dtype).round(1)
        y = x.copy()
        y[np.random.default_rng(0).random(shape) < 0.3] = np.nan
        y[0, :, 0], y[0, :, 1], y[0, 0, 2], y[-1, -1, -1] = np.nan, -np.inf, np.inf, np.nan
        for block in (*blocks(x, shape), *blocks(y, shape)):
            found = native.best(name, block)
            assert found is not None
            np.testing.assert_array_equal(found, getattr(np, name).reduce(block, axis=1))
        # Of equals the last stays, as NumPy's vectors have it.
        zeros = np.copysign(np.zeros(shape, dtype), numbers(shape, dtype))
        np.testing.assert_array_equal(np.signbit(native.best(name, zeros)), np.signbit(zeros[:, -1]))
    assert native.best("add", x) is None and native.best(name, x[..., :63]) is None
    assert native.best(name, x.astype("i8")) is None


@needs_loops
@pytest.mark.parametrize(
    ("shape", "axis"), [((6400, 20), 0), ((1000, 2000), 0), ((300, 64), 1), ((200, 40), 1), ((90, 700), 1)]
)
def test_gaps_where_a_cell_begins_do_no_harm_to_others(shape, axis):
    """Deviations are measured from the mean of what a cell begins with: of all, where that is but NaN."""
    x = 1e6 + np.random.default_rng(0).normal(size=shape) * 1e-3
    gap = [3, 3]
    gap[axis] = slice(0, -(-shape[axis] // 64) + 20)
    x[tuple(gap)] = np.nan
    found = chunk.results((x,), operators.get("nanvar").bind(x.dtype), (axis,))
    wide = x.astype(np.longdouble) - 1_000_000
    np.testing.assert_allclose(found, np.nanvar(wide, axis=axis, keepdims=True).astype("f8"), rtol=1e-10)
