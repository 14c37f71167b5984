"""What the tests of ``gr.accelerate()`` share: arrays, and the comparison of an answer with stock dask's."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.integrations.accelerate import _blocks, _calls

RNG = np.random.default_rng(0)
X = RNG.normal(scale=4, size=(7, 6, 5))
HOLED = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
HOLED[:, 2] = np.nan

ROW = da.from_array(X, chunks=(3, 2, 5))

NAMES = "sum prod min max any all mean var std argmin argmax ptp count_nonzero".split()
SKIPPING = "nansum nanprod nanmin nanmax nanmean nanvar nanstd nanargmin nanargmax".split()


@pytest.fixture(autouse=True)
def switched_off():
    """Each test starts and ends with nothing on, on one thread."""
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # of slices of nothing but NaN
        yield
    _calls.clear()
    assert _blocks.get() == ()


def is_ours(array):
    return array.name.startswith("gr-")


def outcome(make):
    """A graph and its result, or the error that either raised."""
    try:
        array = make()
        return array, array.compute()
    except Exception as error:
        return None, error


def assert_same(make, tolerance=1e-12):
    """The same answer or error with and without, in the same form; True where the tree was ours."""
    want, answer = outcome(make)
    with gr.accelerate(numpy=True):
        got, result = outcome(make)
    if isinstance(answer, Exception):
        assert isinstance(result, type(answer)), result
        return False
    assert not isinstance(result, Exception), result
    assert (got.dtype, got.shape, got.chunks) == (want.dtype, want.shape, want.chunks)
    assert type(got._meta) is type(want._meta) and got._meta.dtype == want._meta.dtype
    assert got._meta.ndim == want._meta.ndim and type(result) is type(answer)
    np.testing.assert_allclose(result, answer, rtol=tolerance, atol=tolerance)
    return is_ours(got)
