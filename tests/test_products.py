"""Products: they leave the range of floats only where the true product does, whatever comes on the way."""

from __future__ import annotations

import itertools
import math

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.host import reduce as host
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators import native
from gpureduce_dask.operators.table import get

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan)


def wide(rng, shape, dtype, special=0.0):
    """Numbers of all sizes that the dtype has, some of them special."""
    dtype = np.dtype(dtype)
    info = np.finfo(dtype)
    parts = []
    for _ in range(2 if dtype.kind == "c" else 1):
        x = np.ldexp(rng.uniform(0.5, 1, shape), rng.integers(info.minexp, info.maxexp, shape)) * rng.choice(
            [-1, 1], shape
        )
        chosen = rng.random(shape) < special
        x[chosen] = rng.choice(SPECIAL, np.count_nonzero(chosen))
        parts.append(x)
    return parts[0].astype(dtype) if len(parts) == 1 else (parts[0] + 1j * parts[1]).astype(dtype)


def exactly(line, dtype, with_all=False):
    """The products up to each element of a line, or of all, with an exponent as Python's integers are."""
    found, value, exponent, rest = [], 1.0, 0, np.float64(1)
    for x in map(float, line):
        if x == 0 or not math.isfinite(x):
            rest = rest * x
        else:
            value, more = math.frexp(value * math.frexp(x)[0])
            exponent += more + math.frexp(x)[1]
        if with_all:
            found.append((rest, value, exponent))
    rest, value, exponent = (np.array(f) for f in zip(*(found or [(rest, value, exponent)]), strict=True))
    with np.errstate(all="ignore"):
        return np.ldexp(rest * value, np.clip(exponent, -9999, 9999)).astype(dtype)


def close(got, want, rtol):
    """Equal up to so much, signs of zeros too."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    there = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[there]), np.signbit(want[there]))
    # At the edge of the range a last digit decides what is infinite.
    edge = np.finfo(got.dtype).max
    np.testing.assert_allclose(np.clip(got[there], -edge, edge), np.clip(want[there], -edge, edge), rtol, 1e-300)


@pytest.fixture(params=["compiled", "by NumPy"])
def loops(request, monkeypatch):
    if request.param == "compiled":
        if native.library() is None:
            pytest.skip("no host loops are compiled")
    else:
        monkeypatch.setattr(native, "library", lambda: None)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("special", [0.0, 0.002])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reductions_and_scans_stay_in_range(loops, monkeypatch, dtype, special):
    rng = np.random.default_rng(3)
    monkeypatch.setattr(native, "LEAST", 1)
    bound = get("prod").bind(np.dtype(dtype))
    rtol = 1e-2 if dtype == "f2" else 1e-5 if dtype == "f4" else 1e-11
    for shape, axis in (((1500,), 0), ((900, 6), 0), ((700, 2), 0), ((9, 600), 1), ((3, 500, 4), 1)):
        x = wide(rng, shape, dtype, special)
        lines = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
        want = np.array([exactly(line, dtype)[0] for line in lines])
        close(host.finalise(host.reduce((x,), bound, (axis,)), bound).ravel(), want, rtol)
        halves = np.array_split(x, [200], axis)
        states = [host.reduce((half,), bound, (axis,)) for half in halves]
        close(host.finalise(host.combine(states, bound), bound).ravel(), want, rtol)
        want = np.array([exactly(line, dtype, True) for line in lines])
        carry, found = None, []
        for half in halves:
            out, carry = host_scan.scan((half,), bound, axis, carry)
            found.append(np.moveaxis(out, axis, -1).reshape(len(lines), -1))
        close(np.concatenate(found, 1), want, rtol)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("op", ["prod", "nanprod"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_cells_side_by_side(loops, dtype, op):
    """Of many columns some hold nothing but numbers near one, and others what a few rows together take out of range."""
    rng = np.random.default_rng(6)
    small, large = (2.0**-140, 2.0**120) if dtype == "f4" else (2.0**-1070, 2.0**1000)
    bound = get(op).bind(np.dtype(dtype))
    for rows in (1, 2, 3, 4, 7, 64):
        x = rng.uniform(0.5, 1.5, (rows, 700))
        for value in (*SPECIAL, small, large, 1e30):
            cells = rng.integers(0, 700, 9)
            x[rng.integers(0, rows, 9), cells] = value
            x[:, cells[:2]] = value if math.isfinite(value) else -1
        x[:, 5] = np.resize([small, small, large, large], rows)
        x = x.astype(dtype)
        lines = x.T if op == "prod" else np.where(np.isnan(x), 1, x).T
        want = np.array([exactly(line, dtype)[0] for line in lines])
        for each, axis in ((x, 0), (x.T.copy(), 1)):
            got = host.finalise(host.reduce((each,), bound, (axis,)), bound)
            close(got.ravel(), want, 1e-5 if dtype == "f4" else 1e-11)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_short_lines(loops, monkeypatch, dtype):
    """Of fewer elements than are tried together, with a carry that has an exponent and without."""
    monkeypatch.setattr(native, "LEAST", 1)
    rng, bound = np.random.default_rng(7), get("prod").bind(np.dtype(dtype))
    for length in (1, 2, 3, 5, 15, 17):
        x = wide(rng, (70, 2 * length), dtype, 0.02)
        want = np.array([exactly(line, dtype, True) for line in x])
        for each, axis in ((x, 1), (x.T.copy(), 0)):
            first, second = np.split(each, 2, axis)
            out, carry = host_scan.scan((first,), bound, axis)
            rest, _ = host_scan.scan((second,), bound, axis, carry)
            found = np.concatenate([out, rest], axis)
            close(found if axis else found.T, want, 1e-5 if dtype == "f4" else 1e-11)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_products_stay_in_range(loops, dtype):
    rng = np.random.default_rng(4)
    sizes = np.ldexp(1.0, rng.integers(-100, 100, (4, 900)))
    z = (np.exp(2j * np.pi * rng.random((4, 900))) * sizes).astype(dtype)
    z = np.concatenate([z, (1 / z.astype("c16")).astype(dtype)], axis=1)
    bound = get("prod").bind(z.dtype)
    wanted = np.exp(1j * np.sum(np.angle(z.astype("c16")), axis=1, keepdims=True))
    wanted *= np.exp(np.sum(np.log(np.abs(z.astype("c16"))), axis=1, keepdims=True))
    for x, axis in ((z, 1), (z.T.copy(), 0)):
        got = host.finalise(host.reduce((x,), bound, (axis,)), bound)
        np.testing.assert_allclose(got.reshape(4, 1), wanted, 1e-3 if dtype == "c8" else 1e-9)
        last = host_scan.scan((x,), bound, axis)[0].take(-1, axis)
        np.testing.assert_allclose(last.reshape(4, 1), wanted, 1e-3 if dtype == "c8" else 1e-9)
    extreme = np.array([1e150 + 1e-150j, 1 + 0j])
    assert (
        host.finalise(host.reduce((extreme,), get("prod").bind("c16"), (0,)), get("prod").bind("c16"))[0] == extreme[0]
    )


def test_no_nan_that_numpy_does_not_give():
    tens = np.full((2000, 2), 10.0)
    tens[0] = 0
    for x in (tens, da.from_array(tens, chunks=(300, 1)), da.from_array(-tens, chunks=(301, 2))):
        got = gr.prod(x, axis=0).compute()
        assert not got.any() and not np.signbit(got).any()
    assert gr.cumprod(da.arange(1000.0, chunks=100)).compute()[-1] == 0
    assert gr.nanprod(np.where(tens == 0, np.nan, tens), axis=0).compute().tolist() == [np.inf, np.inf]
    x = np.concatenate([np.full(500, 10.0), np.full(500, 0.1)])
    lazy = da.from_array(x, chunks=130)
    for got in (
        gr.prod(lazy),
        gr.prod(lazy, where=x > 0),
        gr.prod(lazy, initial=1),
        gr.map_reduce(lambda x: x * 1.0, "prod", lazy),
        gr.stats(lazy, ["prod"]).prod,
        gr.nanprod(lazy),
        gr.grouped(lazy, np.arange(1000) % 1, "prod")[0],
        gr.cumprod(lazy)[-1],
        gr.scan(lazy, "prod", reverse=True)[0],
        gr.scan(lazy, "nanprod", exclusive=True)[-1] * 0.1,
        da.reduction(lazy, **gr.tree("prod", lazy.dtype)),
    ):
        np.testing.assert_allclose(got.compute(), 1, 1e-9)


@pytest.mark.parametrize("op", ["prod", "nanprod"])
def test_groups_have_exponents(op):
    rng = np.random.default_rng(5)
    x, labels = wide(rng, 3000, "f8", 0.001), rng.integers(0, 5, 3000)
    if op == "nanprod":
        x[labels == 2] = np.nan
    want = np.array(
        [
            exactly([v for v in x[labels == k] if op == "prod" or v == v], "f8")[0] if (labels == k).any() else 1
            for k in range(5)
        ]
    )
    if op == "nanprod":
        want[2] = 1
    for chunks, given in itertools.product((400, 3000), (labels, np.sort(labels))):
        if given is labels:
            close(gr.grouped(da.from_array(x, chunks=chunks), given, op).compute(), want, 1e-11)


def test_infinite_parts_of_complex_numbers_stay(loops, monkeypatch):
    """What stands before the first element of a scan is no factor."""
    monkeypatch.setattr(native, "LEAST", 1)
    z = np.array([complex(np.inf, np.inf)])
    x = da.concatenate([da.from_array(z[:0]), da.from_array(z)])
    assert gr.cumprod(x, axis=0).compute(scheduler="sync") == z == np.cumprod(z)
