"""``gr.tree``: our chunk, combine and aggregate inside stock ``dask.array.reduction``."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from test_trees import AFFINE, compose

import gpureduce_dask as gr

X = np.random.default_rng(5).standard_normal((9, 10, 7)).astype(np.float32)
AXES = [None, 0, -1, (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "min", "any", "count_nonzero", "mean", "var", "std", "nanmax", "ptp"])
def test_same_as_numpy(name, axis):
    data = 1 + X / 8 if name == "prod" else X
    x = da.from_array(data, chunks=(4, 3, 2))
    got = da.reduction(x, **gr.tree(name, x.dtype), axis=axis)
    want = getattr(np, name)(data.astype(np.float64), axis=axis)
    assert got.name.startswith(f"gr-{name.replace('_', '-')}-aggregate-")
    assert got.dtype == got._meta.dtype == getattr(np, name)(X).dtype
    assert got.ndim == got._meta.ndim == want.ndim
    np.testing.assert_allclose(got.compute(scheduler="sync"), want, rtol=1e-5)


@pytest.mark.parametrize("split_every", [2, {0: 2, 1: 5}, 100])
def test_options_keepdims_and_split_every(split_every):
    x = da.from_array(X, chunks=(4, 3, 2))
    got = da.reduction(x, **gr.tree("var", x.dtype, ddof=1), axis=(0, 1), keepdims=True, split_every=split_every)
    assert got.chunks == ((1,), (1,), (2, 2, 2, 1))
    np.testing.assert_allclose(got.compute(scheduler="sync"), X.var((0, 1), ddof=1, keepdims=True), rtol=1e-5)


def test_options_are_in_the_keys():
    x = da.from_array(X, chunks=4)
    names = {da.reduction(x, **gr.tree("var", x.dtype, ddof=d)).name for d in (0, 1, 1)}
    assert len(names) == 2


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("split_every", [None, 2])
def test_order_is_kept(axis, split_every):
    x = np.random.default_rng(6).integers(-9, 9, (5, 6, 4))
    dask_x = da.from_array(x, chunks=(2, 4, 3))
    got = da.reduction(dask_x, **gr.tree(AFFINE, np.int64), axis=axis, split_every=split_every)
    axes = range(3) if axis is None else np.atleast_1d(axis).tolist()
    np.testing.assert_array_equal(got.compute(scheduler="sync"), compose(x, axes))


def test_weights_are_the_second_array():
    x = da.from_array(X, chunks=(4, 3, 2))
    w = np.arange(7.0)
    got = da.reduction(x, **gr.tree("average", (x.dtype, w.dtype)), axis=-1, weights=w)
    np.testing.assert_allclose(got.compute(scheduler="sync"), np.average(X, axis=-1, weights=w), rtol=1e-6)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler):
    x = da.from_array(X, chunks=5)
    got = da.reduction(x, **gr.tree("sum", x.dtype)).compute(scheduler=scheduler)
    np.testing.assert_allclose(got, X.sum(dtype=np.float64), rtol=1e-5)


def test_array_expressions():
    """The recipe runs in dask's array-expression mode too, in dask's own tree."""
    code = """
import dask
dask.config.set({"array.query-planning": True})
import dask.array as da, gpureduce_dask as gr
x = da.arange(12.0, chunks=5)
assert da.reduction(x, **gr.tree("var", x.dtype)).compute(scheduler="sync") == 143 / 12
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_positions_are_refused():
    with pytest.raises(gr.errors.ArgumentError, match=r"argmin.*gpureduce_dask\.reduction\(x, 'argmin'\)"):
        gr.tree("argmin", np.float32)
    with pytest.raises(gr.errors.ArgumentError, match="position"):
        gr.tree("max", np.complex64)


def test_bad_arguments():
    with pytest.raises(gr.errors.OperatorError, match="sum"):
        gr.tree("summ", np.float32)
    with pytest.raises(gr.errors.ArgumentError, match="ddof"):
        gr.tree("var", np.float32, dof=1)
    with pytest.raises(gr.errors.DtypeError, match="object"):
        gr.tree("sum", object)
    with pytest.raises(gr.errors.ArgumentError, match="array"):
        gr.tree("vdot", np.float32)


def test_empty():
    x = da.from_array(X, chunks=4)[:, :0]
    assert da.reduction(x, **gr.tree("sum", x.dtype)).compute(scheduler="sync") == 0
    with pytest.raises(gr.errors.EmptyError, match="min"):
        da.reduction(x, **gr.tree("min", x.dtype)).compute(scheduler="sync")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sum", "mean", "var", "max"])
def test_cupy_chunks(name):
    cupy = pytest.importorskip("cupy")
    x = da.from_array(X, chunks=(4, 3, 2)).map_blocks(cupy.asarray)
    for axis in AXES:
        got = da.reduction(x, **gr.tree(name, x.dtype), axis=axis).compute(scheduler="sync")
        assert isinstance(got, cupy.ndarray)
        np.testing.assert_allclose(got.get(), getattr(np, name)(X.astype(np.float64), axis=axis), rtol=1e-5)
