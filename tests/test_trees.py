"""The reduction tree: order, fan-in, keys, positions, schedulers, and graphs built where there is no GPU."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from hypothesis import given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask.graph.meta import DeviceMeta


def affine_lift(x, index):
    """Elements as maps t -> a t + b, which compose but do not commute (modulo 2**64, exactly)."""
    a = x.astype(np.int64) * 2 + 1
    return a, x.astype(np.int64) + 7


@np.errstate(over="ignore")
def affine_combine(earlier, later):
    return earlier[0] * later[0], earlier[1] * later[0] + later[1]


def affine_finalise(state, dtype):
    return (state[0] * 31 + state[1]).astype(dtype)


AFFINE = gr.Monoid(
    name="affine",
    fields={"a": np.int64, "b": np.int64},
    identity=(1, 0),
    lift=affine_lift,
    combine=affine_combine,
    finalise=affine_finalise,
    commutative=False,
)


@np.errstate(over="ignore")
def compose(x, axes):
    """The affine maps of ``x`` composed in C order over ``axes``, one element at a time."""
    axes = sorted(a % x.ndim for a in axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.transpose(x, kept + axes).reshape(*(x.shape[a] for a in kept), -1)
    a, b = np.ones(rows.shape[:-1], np.int64), np.zeros(rows.shape[:-1], np.int64)
    for i in range(rows.shape[-1]):
        a, b = affine_combine((a, b), affine_lift(rows[..., i], None))
    return np.asarray(a * 31 + b)


def chunkings(shape):
    """Strategy: any way to cut a shape into chunks."""

    def cut(n):
        return st.lists(st.integers(1, max(n - 1, 1)), max_size=4, unique=True).map(
            lambda cuts: tuple(np.diff([0, *sorted(c for c in cuts if c < n), n]).tolist())
        )

    return st.tuples(*(cut(n) for n in shape))


@st.composite
def cut_arrays(draw, max_side=7, max_ndim=4):
    shape = tuple(draw(st.lists(st.integers(1, max_side), min_size=1, max_size=max_ndim)))
    seed = draw(st.integers(0, 2**16))
    x = np.random.default_rng(seed).integers(-50, 50, shape)
    axes = draw(st.sets(st.integers(0, len(shape) - 1)).map(lambda s: tuple(sorted(s))))
    return x, draw(chunkings(shape)), axes


@settings(max_examples=60, deadline=None)
@given(cut_arrays(), st.sampled_from([None, 2, 3, 16]), st.booleans())
def test_order_is_kept_over_any_chunks(case, split_every, keepdims):
    x, chunks, axes = case
    got = gr.reduction(
        da.from_array(x, chunks=chunks), AFFINE, axis=axes, dtype=np.int64, keepdims=keepdims, split_every=split_every
    )
    want = compose(x, axes)
    if keepdims:
        want = np.expand_dims(want, axes)
    result = got.compute(scheduler="sync")
    assert got.shape == result.shape == want.shape
    np.testing.assert_array_equal(result, want)


@settings(max_examples=60, deadline=None)
@given(cut_arrays(), st.sampled_from([None, 2, 3, {0: 2}, {-1: 3}]))
def test_positions_over_any_chunks(case, split_every):
    x, chunks, axes = case
    x = x // 20  # ties
    got = gr.argmax(da.from_array(x, chunks=chunks), axis=axes, split_every=split_every).compute(scheduler="sync")
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.transpose(x, kept + list(axes)).reshape(*(x.shape[a] for a in kept), -1)
    np.testing.assert_array_equal(got, rows.argmax(-1))


def test_one_axis_gives_one_name_however_its_fan_in_is_said():
    x = da.ones((40, 6), chunks=(2, 3))
    for axis in (0, -2, (0,)):
        names = {gr.sum(x, axis=axis, split_every=split).name for split in (3, {0: 3}, {-2: 3}, {0: 3, 1: 9})}
        assert len(names) == 1
    assert gr.sum(x, axis=0, split_every={0: 4}).name not in names


@pytest.mark.parametrize("split_every", [2, 3, 7, 100, {0: 2}, {0: 4, 1: 2}, {-1: 5}])
def test_fan_in_bounds_every_combine(split_every):
    x = da.ones((40, 12), chunks=(4, 3))
    total = gr.sum(x, split_every=split_every)
    sizes = [len(_inputs(task)) for key, task in total.dask.items() if _is_tree_task(key, total)]
    if isinstance(split_every, int):
        assert max(sizes) <= split_every
    else:
        assert max(sizes) <= split_every.get(0, 2) * split_every.get(1, split_every.get(-1, 2))
    assert total.compute(scheduler="sync") == 480


def _is_tree_task(key, array):
    return key[0] == array.name or key[0].startswith("gr-sum-combine")


def _inputs(task):
    return getattr(task, "dependencies", None) or task[1]


def test_few_tasks_by_default():
    """Tasks follow threads, four to 16 each; a slice that lies in one chunk needs no tree at all."""
    with dask.config.set(num_workers=2):
        for chunks, groups in ((64, 8), (256, 16), (640, 20), (6400, 32)):
            x = da.ones((chunks, 10), chunks=(1, 10))
            (optimised,) = dask.optimize(gr.sum(x, axis=0))
            assert len(optimised.dask) == groups + 1
    x = da.ones((64, 10), chunks=(2, 10))
    assert len(_ours(gr.sum(x, axis=1))) == 32
    assert len(_ours(gr.var(x, axis=1, keepdims=True))) == 32


def _ours(array):
    return [k for k in array.dask if k[0].startswith("gr-")]


def test_large_partials_are_combined_few_at_a_time():
    x = da.ones((32, 2**24), chunks=(1, 2**24))
    total = gr.sum(x, axis=0)
    sizes = [len(_inputs(task)) for key, task in total.dask.items() if _is_tree_task(key, total)]
    assert max(sizes) == 4


def test_config_sets_the_fan_in():
    x = da.ones(64, chunks=1)
    with dask.config.set(split_every=2):
        assert len(_ours(gr.sum(x))) == 64 + 63


def test_keys():
    x = da.ones((6, 6), chunks=2)
    a, b = gr.var(x, axis=0), gr.var(x, axis=0)
    assert a.name == b.name and a.name.startswith("gr-var-")
    assert {key_split(k) for k in _ours(a)} == {"gr-var", "gr-var-chunk", "gr-var-group"}
    others = [
        gr.var(x, axis=0, ddof=1),
        gr.var(x, axis=1),
        gr.var(x),
        gr.var(x, axis=0, keepdims=True),
        gr.var(x, axis=0, dtype="f4"),
        gr.var(x + 1, axis=0),
        gr.std(x, axis=0),
    ]
    assert len({a.name, *(o.name for o in others)}) == 1 + len(others)


def test_names_are_the_same_in_every_process():
    code = (
        "import dask.array as da, gpureduce_dask as gr; x = da.ones((6, 6), chunks=2); "
        "print(gr.var(x, axis=0).name, gr.argmax(x).name, gr.average(x, weights=x).name)"
    )
    runs = {subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout for _ in range(2)}
    assert len(runs) == 1


def test_a_layer_fuses_with_the_chain_before_it():
    x = da.ones((8, 8), chunks=4)
    (optimised,) = dask.optimize(gr.sum((x + 1) * 2))
    assert len(optimised.dask) == 4 + 1


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers(scheduler):
    x = da.from_array(np.arange(60.0).reshape(5, 12), chunks=(2, 5))
    got = dask.compute(gr.sum(x), gr.argmax(x, axis=1), gr.var(x, axis=0, ddof=1), scheduler=scheduler)
    ref = np.arange(60.0).reshape(5, 12)
    assert got[0] == ref.sum()
    np.testing.assert_array_equal(got[1], ref.argmax(1))
    np.testing.assert_allclose(got[2], ref.var(0, ddof=1), rtol=1e-15)


def test_distributed():
    distributed = pytest.importorskip("distributed")
    x = da.from_array(np.arange(60.0).reshape(5, 12), chunks=(2, 5))
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", set_as_default=True
    ):
        assert gr.sum(x).compute() == 1770
        assert gr.nanargmin(x.persist()).compute() == 0
        np.testing.assert_array_equal(
            gr.reduction(x, AFFINE, dtype=np.int64).compute(), compose(np.arange(60).reshape(5, 12), (0, 1))
        )


def test_graphs_pickle():
    x = da.ones((6, 6), chunks=2)
    for array in (gr.sum(x), gr.argmin(x), gr.reduction(x, AFFINE), gr.average(x, axis=0, weights=range(6))):
        again = pickle.loads(pickle.dumps(dict(array.dask)))
        assert again.keys() == dict(array.dask).keys()
        assert cloudpickle.loads(cloudpickle.dumps(array)).compute(scheduler="sync") is not None


def unknown(x, chunks):
    """The same array with chunk sizes that dask does not know along axis 0."""
    array = da.from_array(x, chunks=chunks)
    array._chunks = ((np.nan,) * array.numblocks[0], *array.chunks[1:])
    return array


def test_unknown_sizes():
    ref = np.arange(24.0).reshape(6, 4)
    x = unknown(ref, (2, 3))
    for axis in (None, 0, 1, (0, 1)):
        np.testing.assert_allclose(gr.sum(x, axis=axis).compute(scheduler="sync"), ref.sum(axis))
        np.testing.assert_allclose(gr.std(x, axis=axis).compute(scheduler="sync"), ref.std(axis))
        np.testing.assert_allclose(gr.max(x, axis=axis).compute(scheduler="sync"), ref.max(axis))
    assert np.isnan(gr.sum(x, axis=1).shape[0])
    np.testing.assert_array_equal(gr.argmax(x, axis=1).compute(scheduler="sync"), ref.argmax(1))
    np.testing.assert_array_equal(gr.argmax(unknown(ref, (6, 2)), axis=0).compute(scheduler="sync"), ref.argmax(0))
    with pytest.raises(gr.errors.ArgumentError, match=r"compute_chunk_sizes"):
        gr.argmax(x, axis=0)


def test_filtered_arrays():
    """A boolean filter leaves unknown sizes, and chunks with nothing in them."""
    ref = np.arange(20.0)
    x = da.from_array(ref, chunks=4)
    kept = x[x > 13]
    assert gr.min(kept).compute(scheduler="sync") == 14
    assert gr.mean(kept).compute(scheduler="sync") == ref[14:].mean()
    with pytest.raises(gr.errors.EmptyError, match="min"):
        gr.min(x[x > 99]).compute(scheduler="sync")
    assert gr.sum(x[x > 99]).compute(scheduler="sync") == 0
    assert gr.vdot(kept, kept).compute(scheduler="sync") == (ref[14:] ** 2).sum()
    weights = da.arange(20.0, chunks=4)[x > 13]
    np.testing.assert_allclose(
        gr.average(kept, weights=weights).compute(scheduler="sync"), np.average(ref[14:], weights=ref[14:])
    )


def test_empty_chunks():
    x = da.from_array(np.arange(6.0), chunks=((0, 2, 0, 4, 0),))
    assert gr.min(x).compute(scheduler="sync") == 0
    assert gr.argmax(x).compute(scheduler="sync") == 5
    assert gr.prod(x + 1).compute(scheduler="sync") == 720
    assert gr.reduction(x, AFFINE, dtype=np.int64).compute(scheduler="sync") == compose(np.arange(6), (0,))


def driverless_cupy_meta(ndim, dtype):
    """A real CuPy array of no elements, made without a driver."""
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, device_id=0), 0)
    return cupy.ndarray((0,) * ndim, dtype, memptr=memory)


def refuse(*args, **kwargs):
    raise AssertionError("CUDA was touched")


@pytest.mark.parametrize("make", [driverless_cupy_meta, gr.device_meta])
def test_device_graphs_build_without_a_gpu(make, monkeypatch):
    """A graph over CuPy chunks builds, optimises and pickles where nothing may call CUDA."""
    cupy = pytest.importorskip("cupy")
    for name in ("malloc", "getDevice", "memcpyAsync", "launchKernel"):
        if hasattr(cupy.cuda.runtime, name):
            monkeypatch.setattr(cupy.cuda.runtime, name, refuse)
    x = da.ones((6, 8), chunks=(2, 4), dtype="f4")
    x._meta = make(2, np.float32)
    for op in (gr.sum, gr.var, gr.argmax, gr.nanmin, gr.any, partial(gr.norm, ord=1)):
        for axis in (0, (0,), 1):
            got = op(x, axis=axis)
            assert type(got._meta) is type(x._meta)
            assert got._meta.dtype == op(da.ones((6, 8), dtype="f4"), axis=axis).dtype
            (optimised,) = dask.optimize(got)
            pickle.dumps(dict(optimised.dask))


def test_a_scalar_result_has_a_flagged_meta_where_there_is_no_gpu():
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.is_available():
        pytest.skip("this machine has a GPU")
    x = da.ones((6, 8), chunks=(2, 4))
    x._meta = driverless_cupy_meta(2, np.float64)
    assert isinstance(gr.sum(x)._meta, DeviceMeta)


def test_device_meta_stays_flagged():
    x = da.ones((6, 8), chunks=(2, 4)).map_blocks(np.asarray, meta=gr.device_meta(2, "f8"))
    assert isinstance(x._meta, DeviceMeta)
    assert isinstance(gr.sum(x * 2)._meta, DeviceMeta) and gr.sum(x).ndim == 0
    assert gr.sum(x, axis=0, keepdims=True)._meta.shape == (0, 0)
