"""``norm`` is NumPy's and dask's of that name, ``vector_norm`` the array API's."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

RNG = np.random.default_rng(4)
CUBE = RNG.integers(-5, 6, (4, 5, 6))
ORDERS = [None, 2, 1, 0, np.inf, -np.inf, 3, 0.5, -1, -2, "fro", "nuc"]
DTYPES = ["f8", "f4", "i1", "c8"]


def outcome(make):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(make())
        except (ValueError, TypeError):
            return None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ord", ORDERS)
def test_like_numpy(ord, dtype):
    """Every order of every axis, and an error where NumPy has one, but for singular values of many matrices."""
    values = CUBE.astype(dtype) if dtype[0] != "c" else (CUBE + 2j).astype(dtype)
    cases = [(values[0, 0], a) for a in (None, 0, (0,), -1)]
    cases += [(values[0], a) for a in (None, 0, (1,), (0, 1), (1, 0), (-1, -2), (0, 0))]
    cases += [(values, a) for a in (None, 1, (0, 2), (2, 0), (0, 1, 2))]
    for x, axis in cases:
        for keepdims in (False, True):
            want = outcome(lambda x=x, axis=axis, keep=keepdims: np.linalg.norm(x, ord, axis, keep))
            singular = ord in ("nuc", 2, -2) and x.ndim == 3 and isinstance(axis, tuple)
            d = da.from_array(x, chunks=(2, -1, 3)[-x.ndim :])
            got = outcome(lambda d=d, axis=axis, keep=keepdims: gr.norm(d, ord, axis, keep).compute(scheduler="sync"))
            if want is None or singular:
                assert got is None, (axis, got)
                continue
            assert got is not None and got.shape == want.shape, (axis, x.shape)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("ord", [2, 1, 0, np.inf, -np.inf, 3, 0.5, -1])
def test_vector_norm(ord):
    for values in (CUBE, CUBE.astype("f4"), CUBE + 2j):
        for axis in (None, 1, (0, 2), (2, 0, 1)):
            for keepdims in (False, True):
                with np.errstate(all="ignore"):
                    want = np.linalg.vector_norm(values, axis=axis, keepdims=keepdims, ord=ord)
                    got = gr.vector_norm(da.from_array(values, chunks=3), axis=axis, keepdims=keepdims, ord=ord)
                    assert got.dtype == want.dtype
                    np.testing.assert_allclose(got.compute(scheduler="sync"), want, rtol=1e-6)


def test_the_identity():
    assert gr.norm(np.eye(3), ord=2) == np.linalg.norm(np.eye(3), ord=2) == 1
    assert gr.norm(np.eye(4)) == gr.vector_norm(np.eye(4)) == 2


def test_where_and_ranges():
    x = CUBE.astype("f8")
    d = da.from_array(x, chunks=3)
    for ord in (0, 1, 2, 3, np.inf):
        got = gr.norm(d, ord, axis=1, where=d > 0)
        np.testing.assert_allclose(got, np.linalg.norm(np.where(x > 0, x, 0), ord, axis=1))
    assert gr.norm(np.full(9, -128, "i1"), 3) == np.linalg.norm(np.full(9, -128.0), 3)
    assert gr.vector_norm(np.full(9, 2e4, "f2"), ord=3) == np.float16(np.linalg.norm(np.full(9, 2e4), 3))
    masked = da.ma.masked_greater(d, 3)
    assert gr.norm(masked, axis=1).name == da.linalg.norm(masked, axis=1).name  # what is not ours is dask's
