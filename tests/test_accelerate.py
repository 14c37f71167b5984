"""Plain dask code under ``gr.accelerate()``: what takes our trees, and what is left alone."""

from __future__ import annotations

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array import chunk, reductions
from plain_calls import NAMES, ROW, SKIPPING, X, assert_same, is_ours, switched_off  # noqa: F401

import gpureduce_dask as gr

bound_early = da.mean  # before anything is hooked, as by ``from dask.array import mean``


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(axis=0),
        lambda x: x.std(),
        lambda x: x.argmin(axis=1),
        lambda x: x.any(),
        lambda x: x.moment(3),
        lambda x: np.var(x, axis=0),
        lambda x: np.nanmax(x, axis=(0, 1)),
        lambda x: np.amin(x),
        lambda x: np.ptp(x, axis=0),
        lambda x: np.count_nonzero(x),
        lambda x: bound_early(x),
        lambda x: da.std(a=x, ddof=1),
        lambda x: da.reduction(x, chunk.sum, chunk.sum, dtype=x.dtype, axis=0),
        lambda x: da.reduction(x, np.max, np.max, dtype=x.dtype, axis=0, keepdims=True),
        lambda x: da.reduction(x=x, chunk=chunk.nansum, aggregate=chunk.sum, combine=chunk.sum, dtype=x.dtype),
        lambda x: da.reduction(
            x,
            reductions.mean_chunk,
            reductions.mean_agg,
            combine=reductions.mean_combine,
            concatenate=False,
            dtype=x.dtype,
            name="average",
        ),
        lambda x: da.reduction(
            x,
            partial(reductions.moment_chunk, order=2),
            partial(partial(reductions.moment_agg, order=2), ddof=1),
            combine=partial(reductions.moment_combine, order=2),
            concatenate=False,
            dtype=x.dtype,
        ),
    ],
)
def test_ways_in(call):
    assert assert_same(lambda: call(da.from_array(X, chunks=(3, 2, 5))))


def test_the_graph_is_that_of_the_public_function():
    x = da.from_array(X, chunks=(3, 2, 5))
    with gr.accelerate(numpy=True):
        assert x.sum(axis=0).name == gr.sum(x, axis=0).name
        assert x.prod(dtype="f4").name == gr.prod(x, dtype="f4").name
        assert np.nanargmin(x, axis=1).name == gr.nanargmin(x, axis=1).name


def first(x, axis, keepdims):
    return x[:1]


LONG = da.from_array(X.astype(np.longdouble), chunks=4)
UNTOUCHED = {
    "objects": lambda: da.from_array(X.astype(object), chunks=4).sum(),
    "strings": lambda: da.from_array(np.array(["a", ""]), chunks=1).any(),
    "long doubles": lambda: LONG.max(axis=0),
    "masked": lambda: da.ma.masked_greater(ROW, 1).mean(axis=0),
    "times": lambda: da.from_array(X.astype("m8[s]"), chunks=4).min(axis=0),
    "a result of objects": lambda: ROW.sum(dtype=object),
    "a mean in integers": lambda: da.mean(ROW.astype("i4"), dtype="i8"),
    "a sum of floats in integers": lambda: da.nansum(ROW, dtype="i8"),
    "a fifth moment": lambda: ROW.moment(5),
    "orders that differ": lambda: da.reduction(
        ROW,
        partial(reductions.moment_chunk, order=4),
        partial(reductions.moment_agg, order=3),
        combine=partial(reductions.moment_combine, order=4),
        concatenate=False,
        dtype="f8",
    ),
    "weights": lambda: da.reduction(ROW, chunk.sum, chunk.sum, dtype="f8", weights=np.ones(5)),
    "meta": lambda: da.reduction(ROW, chunk.sum, chunk.sum, dtype="f8", meta=np.empty(())),
    "output_size": lambda: da.reduction(ROW, chunk.sum, chunk.sum, dtype="f8", keepdims=True, output_size=2),
    "options that a mean has not": lambda: da.reduction(
        ROW,
        partial(reductions.mean_chunk, ddof=1),
        reductions.mean_agg,
        combine=reductions.mean_combine,
        concatenate=False,
        dtype="f8",
    ),
    "another dtype than a maximum has": lambda: da.reduction(ROW, chunk.max, chunk.max, dtype="f4"),
    "no concatenation": lambda: da.reduction(ROW, chunk.sum, chunk.sum, dtype="f8", concatenate=False),
    "other functions": lambda: da.reduction(ROW, chunk.sum, chunk.max, dtype="f8"),
    "arguments of functions": lambda: da.reduction(ROW, partial(chunk.sum, where=True), chunk.sum, dtype="f8"),
    "what cannot be hashed": lambda: da.reduction(ROW, partial(first, []), chunk.sum, dtype="f8"),
    "top k": lambda: da.topk(ROW, 2, axis=0),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_untouched(name):
    """The very graph of stock dask."""
    want = UNTOUCHED[name]()
    with gr.accelerate(numpy=True):
        got = UNTOUCHED[name]()
    assert got.name == want.name and got.dask.layers.keys() == want.dask.layers.keys()


def test_out_and_where_are_dasks():
    target = da.zeros(())
    with gr.accelerate(numpy=True):
        assert ROW.sum(out=target) is target and not is_ours(target)
        with pytest.raises(TypeError, match="where"):
            np.sum(ROW, where=X > 0)
        with pytest.raises(TypeError, match=r"reduction\(\) missing"):
            da.reduction(ROW)
        assert da.std(X).compute() == X.std()


def test_numpy_chunks_are_taken_where_asked_for():
    with gr.accelerate():
        assert not is_ours(ROW.sum())
    with gr.accelerate(numpy=True):
        assert is_ours(ROW.sum())


def driverless_cupy_meta(ndim, dtype):
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, device_id=0), 0)
    return cupy.ndarray((0,) * ndim, dtype, memptr=memory)


@pytest.mark.parametrize("make", [driverless_cupy_meta, gr.device_meta])
@pytest.mark.parametrize("name", NAMES + SKIPPING)
def test_device_chunks(name, make):
    x = da.ones((6, 8), chunks=(2, 4), dtype="f4")
    x._meta = make(2, np.float32)
    with gr.accelerate():
        got = getattr(da, name)(x, axis=0)
    assert got.name == getattr(gr, name)(x, axis=0).name
    assert type(got._meta) is type(x._meta)


def test_a_wrong_group_is_the_callers_to_hear_of():
    with gr.accelerate(numpy=True), dask.config.set({"gpureduce.group": 0}):
        with pytest.raises(gr.errors.ArgumentError, match="group"):
            ROW.sum()
        assert not is_ours(da.topk(ROW, 2, axis=0))
