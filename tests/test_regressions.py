"""Answers that once were wrong, each with the data that showed it."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators import cuda_types
from gpureduce_dask.operators.table import OPERATORS


def computed(array):
    return array.compute(scheduler="sync")


@pytest.mark.parametrize("shape, axis", [((6400,), 0), ((6400, 5), 0), ((5, 6400), 1), ((640, 60), 0)])
@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_nanvar_of_data_that_begin_with_nan(name, shape, axis):
    """The pivot was zero where the first sixty-fourth of a block was NaN, and everything cancelled."""
    spread = np.random.default_rng(0).standard_normal(shape)
    spread[(slice(None),) * axis + (slice(0, 120),)] = np.nan
    x = da.from_array(spread + 1e8, chunks=-1)
    want = getattr(np, name)(spread + 1e8, axis=axis)
    np.testing.assert_allclose(computed(getattr(gr, name)(x, axis=axis)), want, rtol=1e-7)


def test_nanvar_of_one_huge_number_behind_nan():
    assert computed(gr.nanvar(da.from_array(np.array([np.nan, 1e200])))) == 0


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("name", ["var", "std", "nanvar"])
def test_variance_that_overflows_is_infinite(name, chunks):
    x = da.from_array(np.array([1e200, 3e200]), chunks=chunks)
    assert computed(getattr(gr, name)(x)) == np.inf
    assert np.isnan(computed(gr.var(da.from_array(np.array([1, np.inf]), chunks=chunks))))


@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "sumsq", "norm1", "norm2"])
def test_infinite_sums_that_a_gpu_left(name):
    """The kernels leave NaN for the error of an infinite sum; on the host it made the sum NaN."""
    bound = OPERATORS[name].bind("f8")
    partial = host_reduce.reduce((np.array([np.inf, 1.0]),), bound, (0,))
    partial["lo"] = np.nan
    other = host_reduce.reduce((np.array([2.0]),), bound, (0,))
    for state in (partial, host_reduce.combine([partial, other], bound), host_reduce.combine([other, partial], bound)):
        assert host_reduce.finalise(state, bound) == np.inf


def test_vdot_of_signed_and_unsigned_integers():
    """uint64 and signed integers meet in float64; their products wrapped in 64 bits."""
    for x, y in [([2**63 - 1, 1], [2, 3]), ([-3, 5], [2**63, 2**64 - 1])]:
        x, y = np.array(x, "i8"), np.array(y, "u8")
        for a, b in ((x, y), (y, x)):
            assert computed(gr.vdot(da.from_array(a, chunks=1), da.from_array(b, chunks=1))) == np.vdot(a, b)
    assert "f64" in cuda_types.dot(np.dtype("i1"), np.dtype("u8"))


def test_sums_of_durations_in_another_unit():
    x = da.from_array(np.array([1, 3], ">m8[s]"), chunks=1)
    for name, seconds in (("sum", 4), ("mean", 2)):
        result = computed(getattr(gr, name)(x, dtype="m8[ms]"))
        assert result == np.timedelta64(seconds, "s") and result.dtype == "m8[ms]"


def test_vdot_of_a_repeated_element():
    """einsum multiplies the sum by an element of stride 0; da.full makes chunks of those."""
    x = da.from_array(np.array([2.0, -3.0]))
    assert np.isnan(computed(gr.vdot(x, da.full(2, np.inf))))
    huge = da.from_array(np.array([1.5e308, 1.5e308]))
    assert computed(gr.vdot(huge, da.full(2, 1e-300))) == pytest.approx(3e8)
    assert computed(gr.vdot(da.full(2, 1e-300), huge.astype("c16"))) == pytest.approx(3e8)


def filtered(ref, chunks, keep):
    array = da.from_array(ref, chunks=chunks)
    return array[da.from_array(keep, chunks=chunks[0])]


def test_average_of_unknown_sizes():
    ref = np.random.default_rng(1).standard_normal((13, 11, 7))
    keep = ref[:, 0, 0] > 0
    x, weights = filtered(ref, (4, 5, 3), keep), filtered(np.arange(13.0), (4,), keep)
    want = np.average(ref[keep], axis=0, weights=np.arange(13.0)[keep])
    np.testing.assert_allclose(computed(gr.average(x, axis=0, weights=weights)), want)
    for keepdims in (False, True):
        mean, total = gr.average(x, axis=1, weights=np.arange(11), returned=True, keepdims=keepdims)
        want = np.average(ref[keep], axis=1, weights=np.arange(11), returned=True, keepdims=keepdims)
        np.testing.assert_allclose(computed(mean), want[0])
        np.testing.assert_allclose(computed(total), want[1])
    with pytest.raises(errors.ArgumentError, match=r"average: unknown chunk sizes.*compute_chunk_sizes"):
        gr.average(x, axis=0, weights=np.arange(6))


@pytest.mark.parametrize("sizes", [(6, 7), (7, 6)])
def test_weights_filtered_otherwise(sizes):
    """NumPy could not reshape a chunk of the weights, and said no more."""
    x = filtered(np.ones((13, 4)), (13, 4), np.arange(13) < sizes[0])
    weights = filtered(np.ones(13), (13,), np.arange(13) < sizes[1])
    with pytest.raises(errors.ArgumentError, match=rf"average: .*weights of shape \({sizes[1]},\).*Filter"):
        computed(gr.average(x, axis=0, weights=weights))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "name, dtype",
    [(name, "m8[s]") for name in ("nansum", "nanmean", "nanargmin", "nanargmax")]
    + [(name, "M8[us]") for name in ("nanargmin", "nanargmax")],
)
def test_times_where_numpy_answers(name, dtype, missing):
    """They were refused. NaT is no NaN to these functions of NumPy: it is the sum, and the position."""
    x = np.array([[5, 3, 9], [2, 8, 4]]).astype(dtype)
    if missing:
        x[0, 1] = "NaT"
    for axis in (0, 1, None):
        got = getattr(gr, name)(da.from_array(x, chunks=(1, 2)), axis=axis)
        want = getattr(np, name)(x, axis=axis)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(computed(got), want)


@pytest.mark.parametrize("weight", ["f2", "f4", "i4"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4"])
def test_dtype_of_an_average(dtype, weight):
    """The mean of small integers by float32 weights was of float32."""
    x, w = np.arange(6).astype(dtype), np.arange(1, 7).astype(weight)
    mean, total = gr.average(da.from_array(x, chunks=4), weights=w, returned=True)
    want = np.average(x, weights=w)
    assert mean.dtype == total.dtype == computed(mean).dtype == want.dtype
    np.testing.assert_allclose(computed(mean), want, rtol=np.finfo(want.dtype).eps)


@pytest.mark.parametrize("weight", ["u1", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8", "c8", "c16"])
def test_average_of_complex_numbers(dtype, weight):
    """They were refused."""
    rng = np.random.default_rng(5)
    parts = rng.integers(1, 99, (2, 30, 4)) + 1j * rng.integers(-99, 99, (2, 30, 4))
    x, w = ((p if d[0] == "c" else p.real).astype(d) for p, d in zip(parts, (dtype, weight), strict=True))
    for axis, weights in ((0, w), (None, w), (0, w[:, 0])):
        want = np.average(x, axis=axis, weights=weights, returned=True)
        got = gr.average(da.from_array(x, chunks=(7, 3)), axis=axis, weights=weights, returned=True)
        for g, n in zip(got, want, strict=True):
            assert g.dtype == computed(g).dtype == n.dtype
            np.testing.assert_allclose(computed(g), n, rtol=4 * np.finfo(n.dtype).eps)


@pytest.mark.parametrize("chunks", [6, 2])
@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "c16"])
def test_weights_that_sum_to_zero(dtype, chunks):
    """A bare ZeroDivisionError, which named no operation."""
    x, weights = np.arange(6).astype(dtype), np.array([1, -1, 2, -2, 3, -3])
    for each in (ZeroDivisionError, errors.WeightError):
        with pytest.raises(each, match=r"average: weights that sum to zero in 1 of 1 slices; expected .* Mask"):
            computed(gr.average(da.from_array(x, chunks=chunks), weights=weights))
    with pytest.raises(errors.WeightError):
        computed(gr.average(da.ones((0, 3)), axis=0, weights=np.ones(0)))


@pytest.mark.parametrize("name", ["var", "nanvar", "std"])
@pytest.mark.parametrize("dtype", ["f8", "i8", "u4"])
def test_variances_far_from_zero(dtype, name):
    """Means were merged as rounded to float64: of the spread, a merge saw the digits that were left."""
    far, unit = (2.0**42, 2.0**-10) if dtype == "f8" else (2.0**31, 1)
    steps = np.cumsum(np.random.default_rng(6).integers(-3, 4, (4000, 3)), axis=0)
    x = (far + steps * unit).astype(dtype)
    want = steps.var(axis=0) * unit**2
    for chunks in (7, 100, 1500):
        got = getattr(gr, name)(da.from_array(x, chunks=(chunks, 3)), axis=0)
        np.testing.assert_allclose(computed(got) ** (2 if name == "std" else 1), want, rtol=2e-14)


@pytest.mark.parametrize(
    "declared, actual, values",
    [("i4", "i8", [2**40, 5]), ("u1", "u2", [300, 5]), ("M8[s]", "M8[ms]", [1999, 1500])],
)
def test_chunks_that_do_not_fit_the_declared_dtype(declared, actual, values):
    """An int64 chunk of an array that says int32 wrapped, without a word."""
    x = da.from_array(np.array(values).astype(actual), chunks=1)
    x = da.Array(x.dask, x.name, x.chunks, dtype=declared)
    for function in (gr.max, gr.argmax, gr.count_nonzero):
        with pytest.raises(errors.DtypeError, match=f"a chunk of {np.dtype(actual)}".replace("[", r"\[")):
            computed(function(x))
    small = da.from_array(np.array([3, 4], "i8"), chunks=1)
    assert computed(gr.sum(da.Array(small.dask, small.name, small.chunks, dtype="f4"))) == 7


def both(x, index):
    return x.astype(np.float64), x.astype(np.float64)


def bare(x, index):
    return x.astype(np.float64)


def three(earlier, later):
    return (earlier[0], later[1], later[1])


def first(state, dtype):
    return state[0].astype(dtype)


def pick(earlier, later):
    return earlier[0], later[1]


@pytest.mark.parametrize(
    "lift, combine, given", [(bare, pick, "an array from"), (both, three, "3 arrays from")], ids=["lift", "combine"]
)
def test_states_of_another_number_of_fields(lift, combine, given):
    """A bare array whose first axis was as long as there are fields passed for a state."""
    fields = {"a": "f8", "b": "f8"}
    odd = gr.Monoid(name="odd", fields=fields, identity=(0, 0), lift=lift, combine=combine, finalise=first)
    with pytest.raises(errors.ArgumentError, match=rf"odd: {given} lift.*one array a field: a, b"):
        computed(gr.reduction(da.ones((2, 5), chunks=(2, 3)), odd, axis=1))


@pytest.mark.parametrize("dtype", ["i8", "u1"])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nancumsum", "nancumprod"])
def test_nan_that_is_skipped_into_integers(name, dtype):
    """NaN became the least integer before it could be skipped."""
    x = np.array([1, np.nan, 2.5, 2.5])
    got = getattr(gr, name)(da.from_array(x, chunks=2), axis=0, dtype=dtype)
    np.testing.assert_array_equal(computed(got), getattr(np, name)(x, dtype=dtype))
    with pytest.raises(errors.DtypeError):
        operator = OPERATORS["nansum"]
        (gr.scan if "cum" in name else gr.reduction)(da.from_array(x, chunks=2), operator, axis=0, dtype=dtype)


@pytest.mark.parametrize("name", ["argmin", "argmax", "nanargmin", "nanargmax"])
def test_positions_of_many_cells_in_chunks_that_are_stacked(name):
    x = np.random.default_rng(1).integers(0, 250, (509, 75, 2)).astype("u1")
    got = getattr(gr, name)(da.from_array(x, chunks=(509, 75, 1)), axis=2)
    np.testing.assert_array_equal(computed(got), getattr(np, name)(x, axis=2))


@pytest.mark.parametrize("name", ["sum", "mean", "count_nonzero"])
@pytest.mark.parametrize(
    "shape", [(300, 32), (300, 5), (255, 3), (4000, 3), (256, 16), (1000, 1), (5, 40, 600), (40, 2050)]
)
def test_flags_of_any_byte_count_once(name: str, shape: tuple[int, ...]) -> None:
    """A bool's byte may be any but 0 where it is true, as in a view of bytes."""
    ones = np.random.default_rng(5).integers(0, 4, shape).astype("u1")
    for axis in (None, *range(len(shape))):
        found = getattr(gr, name)(da.from_array(ones.view(bool), chunks=-1), axis=axis).compute()
        np.testing.assert_allclose(found, getattr(np, name)(ones != 0, axis=axis), rtol=1e-12)
