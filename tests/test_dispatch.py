"""Host and device chunks through one protocol and one tree; a stand-in for CuPy runs where there is no GPU."""

from __future__ import annotations

import sys
import types

import dask
import dask.array as da
import numpy as np
import pytest
from test_trees import AFFINE, compose

import gpureduce_dask as gr
from gpureduce_dask import chunk
from gpureduce_dask import device as device_package
from gpureduce_dask.host import reduce as host_reduce


class DeviceArray(np.ndarray):
    """A NumPy array that passes for a CuPy array."""

    def get(self):
        return np.array(self)

    def __getitem__(self, key):
        return np.asarray(super().__getitem__(key)).view(DeviceArray)


DeviceArray.__module__ = "cupy"


def on_device(array):
    return np.array(array).view(DeviceArray)


def packed(states):
    return on_device(np.frombuffer(states.tobytes(), np.uint8).reshape(*states.shape, states.dtype.itemsize))


class Device(types.SimpleNamespace):
    """The protocol over device arrays, and a record of which of its functions ran."""

    def __init__(self):
        self.ran = []

    def reduce(self, chunks, bound, axes, place=None, *, final=False):
        self.ran.append("final" if final else "reduce")
        partial = host_reduce.reduce(tuple(c.get() for c in chunks), bound, axes, place)
        return on_device(host_reduce.finalise(partial, bound)) if final else packed(partial)

    def reduce_many(self, chunks, bound, axes, places=None):
        self.ran.append("reduce_many")
        return packed(host_reduce.reduce_many([tuple(c.get() for c in each) for each in chunks], bound, axes, places))

    def combine(self, partials, bound):
        self.ran.append("combine")
        return packed(host_reduce.combine([chunk.to_host(p, bound) for p in partials], bound))

    def combine_axis(self, partial, bound, axis):
        self.ran.append("combine_axis")
        return packed(host_reduce.combine_axis(chunk.to_host(partial, bound), bound, axis))

    def finalise(self, partial, bound):
        self.ran.append("finalise")
        return on_device(host_reduce.finalise(chunk.to_host(partial, bound), bound))


@pytest.fixture
def device(monkeypatch):
    stand_in = Device()
    monkeypatch.setattr(device_package, "reduce", stand_in, raising=False)
    monkeypatch.setitem(
        sys.modules,
        "cupy",
        types.SimpleNamespace(asarray=on_device, broadcast_to=lambda x, s: on_device(x + np.zeros(s))),
    )
    return stand_in


def device_array(x, chunks):
    return da.from_array(x, chunks=chunks).map_blocks(on_device, meta=gr.device_meta(x.ndim, x.dtype))


def gather(array):
    """All chunks of a result, each a device array, as one NumPy array."""

    def fetch(keys):
        if isinstance(keys, list):
            return [fetch(k) for k in keys]
        block = dask.get(dict(dask.optimize(array)[0].dask), keys)
        assert type(block) is DeviceArray
        return block.get()

    blocks = fetch(array.__dask_keys__())
    return np.block(blocks) if array.ndim else blocks[0]


X = np.random.default_rng(0).standard_normal((6, 7, 5))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "min", "var", "argmax", "any"])
def test_results_stay_on_the_device(name, axis, device):
    if name == "argmax" and isinstance(axis, tuple):
        pytest.skip("NumPy takes one axis")
    got = gather(getattr(gr, name)(device_array(X, (4, 3, 2)), axis=axis))
    np.testing.assert_allclose(got, getattr(np, name)(X, axis=axis), rtol=1e-12)


def test_small_partials_leave_the_device(device):
    gather(gr.sum(device_array(X, (2, 7, 5)), axis=0))
    assert device.ran == ["reduce_many"] * 3


def test_large_partials_stay_on_the_device(device):
    x = np.ones((4, 20_000))
    got = gather(gr.sum(device_array(x, (1, 20_000)), axis=0))
    assert device.ran == ["reduce_many"] * 4 + ["combine", "finalise"]
    np.testing.assert_array_equal(got, 4)


def test_one_launch_where_a_chunk_holds_its_slices(device):
    gather(gr.mean(device_array(X, (2, 7, 5)), axis=(1, 2)))
    assert device.ran == ["final"] * 3


def test_a_monoid_without_a_cuda_finalise_ends_on_the_host(device):
    own = gr.OPERATORS["sum"].__class__(
        **{f: getattr(gr.OPERATORS["sum"], f) for f in ("fields", "identity", "lift", "combine", "finalise", "result")},
        name="own_sum",
        unsafe_cuda="struct own_sum {};",
    )
    got = gather(gr.reduction(device_array(X, (2, 7, 5)), own, axis=(1, 2)))
    assert device.ran == ["reduce"] * 3
    np.testing.assert_allclose(got, X.sum((1, 2)))


def test_order_is_kept_on_the_device(device):
    x = np.random.default_rng(1).integers(-9, 9, (5, 6, 4))
    got = gather(gr.reduction(device_array(x, (2, 4, 3)), AFFINE, axis=(0, 2), dtype=np.int64))
    np.testing.assert_array_equal(got, compose(x, (0, 2)))
    recipe = gr.tree(AFFINE, np.int64)
    got = gather(da.reduction(device_array(x, (2, 4, 3)), **recipe, axis=(0, 2)))
    np.testing.assert_array_equal(got, compose(x, (0, 2)))


def test_host_weights_of_a_device_array(device):
    w = np.arange(1.0, 8.0)
    got = gather(gr.average(device_array(X, (4, 3, 2)), axis=1, weights=w))
    np.testing.assert_allclose(got, np.average(X, axis=1, weights=w))


@pytest.mark.parametrize("cells", [10, 20_000])
def test_partials_of_both_sides_combine(cells, device):
    bound = gr.OPERATORS["sum"].bind("f8")
    one, two = (chunk.reduce((np.full((3, cells), v),), bound, (0,)) for v in (1.0, 2.0))
    total = chunk.combine([one, chunk.to_device(two, bound)], bound)
    assert chunk.is_device(total) == (cells > 10)
    assert chunk.extents(total) == (1, cells)
    np.testing.assert_array_equal(chunk.to_host(chunk.small_to_host(total, bound), bound), chunk.to_host(total, bound))
    np.testing.assert_array_equal(np.asarray(chunk.finalise(total, bound)), 9)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (0, 3)])
def test_partials_move_as_they_are(shape, device):
    bound = gr.OPERATORS["var"].bind("f4")
    states = bound.identities(shape)
    states["mean"] = 7
    moved = chunk.to_device(states, bound)
    assert moved.shape == (*shape, bound.state.itemsize) and moved.dtype == np.uint8
    back = chunk.to_host(moved, bound)
    assert back.dtype == bound.state and back.shape == shape
    np.testing.assert_array_equal(back, states)


@pytest.mark.parametrize("name", ["sum", "argmax", "var"])
def test_each_chunk_of_the_host_has_its_own_partial(name):
    arrays = [np.random.default_rng(i).normal(size=(4, 3)) for i in range(5)]
    bound = gr.OPERATORS[name].bind(np.dtype("f8"))
    places = [chunk.Place((4 * i, 0), (20, 3)) for i in range(5)]
    found = chunk.reduce_each([(a,) for a in arrays], bound, (0,), places)
    assert len(found) == 5
    for partial, array, place in zip(found, arrays, places, strict=True):
        np.testing.assert_array_equal(partial, chunk.reduce((array,), bound, (0,), place))


def test_many_chunks_of_both_sides(device):
    bound = gr.OPERATORS["sum"].bind("f8")
    total = chunk.reduce_many([(X[:2],), (on_device(X[2:]),)], bound, (0, 1, 2))
    assert device.ran == ["reduce_many"]
    np.testing.assert_allclose(chunk.finalise(total, bound).get().item(), X.sum())


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "min", "var", "argmax", "any", "nanmean", "ptp", "skew"])
def test_cupy(name, axis):
    """The same tree over CuPy chunks, with metas of CuPy and of its stand-in, and over a CuPy array."""
    import cupy

    function = getattr(gr, name)
    want = function(X, axis=axis).compute(scheduler="sync")
    flagged = da.from_array(X, chunks=(4, 3, 2)).map_blocks(cupy.asarray, meta=gr.device_meta(3, "f8"))
    for x in (flagged, da.from_array(X, chunks=(4, 3, 2)).map_blocks(cupy.asarray), cupy.asarray(X)):
        got = function(x, axis=axis)
        assert got.dtype == want.dtype and isinstance(got.compute(scheduler="threads"), cupy.ndarray)
        np.testing.assert_allclose(got.compute(scheduler="sync").get(), want, rtol=1e-12)


@pytest.mark.gpu
def test_cupy_weights_and_order():
    import cupy

    x = da.from_array(X, chunks=(4, 3, 2)).map_blocks(cupy.asarray)
    w = np.arange(1.0, 8.0)
    np.testing.assert_allclose(
        gr.average(x, axis=1, weights=w).compute(scheduler="sync").get(), np.average(X, axis=1, weights=w)
    )
    np.testing.assert_allclose(gr.vdot(x, x).compute(scheduler="sync").get(), (X * X).sum())


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [6, 2])
def test_cupy_slices_without_an_answer(chunks):
    """Errors, as on the host, whether or not a slice lies in one chunk."""
    import cupy

    x = da.full((3, 6), np.nan, chunks=(1, chunks)).map_blocks(cupy.asarray)
    with pytest.raises(gr.errors.EmptyError, match="All-NaN"):
        gr.nanargmin(x, axis=1).compute(scheduler="sync")
    with pytest.raises(gr.errors.WeightError, match="average"):
        gr.average(x, axis=1, weights=np.array([1, -1, 2, -2, 3, -3])).compute(scheduler="sync")
    assert bool(cupy.isnan(gr.average(x, axis=1, weights=np.arange(6)).compute(scheduler="sync")).all())
