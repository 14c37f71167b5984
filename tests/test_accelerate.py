"""Plain dask code under ``gr.accelerate()``: what takes our trees, what is left alone, and how it is switched."""

from __future__ import annotations

import contextvars
import inspect
import os
import pickle
import subprocess
import sys
import threading
from functools import partial

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.array import chunk, reductions
from plain_calls import NAMES, SKIPPING, X, assert_same, is_ours, switched_off  # noqa: F401

import gpureduce_dask as gr
from gpureduce_dask.accelerate import _calls
from gpureduce_dask.trees.hooks import HOOKED

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


ROW = da.from_array(X, chunks=(3, 2, 5))
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


def test_a_call_holds_until_the_next():
    gr.accelerate(numpy=True)
    assert is_ours(ROW.sum())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(is_ours(ROW.sum())))
    thread.start()
    thread.join()
    assert seen == [True]
    for _ in range(1000):
        gr.accelerate(False)
    assert not is_ours(ROW.sum()) and len(_calls) <= 100


def test_blocks_nest():
    with gr.accelerate(numpy=True) as switch:
        with gr.accelerate(False):
            assert not is_ours(ROW.sum())
            with switch, switch:
                assert is_ours(ROW.sum())
            assert not is_ours(ROW.sum())
        assert is_ours(ROW.sum())
    assert not is_ours(ROW.sum())
    with pytest.raises(KeyError), gr.accelerate(numpy=True):
        raise KeyError
    assert not is_ours(ROW.sum()) and not _calls


def test_blocks_are_a_threads_own():
    """Sixteen threads, each in and out of the same switch at its own pace, beside others that never asked."""
    switch, wrong = gr.accelerate(numpy=True), []
    with switch:
        pass
    start = threading.Barrier(16)

    def work(number):
        start.wait()
        for _ in range(5):
            if number % 2 and is_ours(ROW.sum()):
                wrong.append("on")
            with switch if number % 2 == 0 else gr.accelerate(False):
                if is_ours(ROW.sum()) != (number % 2 == 0):
                    wrong.append("off")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not _calls


def test_a_context_keeps_its_block():
    with gr.accelerate(numpy=True):
        context = contextvars.copy_context()
    assert context.run(lambda: is_ours(ROW.sum()))


def test_the_configuration_key():
    import gpureduce_dask.auto  # noqa: F401

    with dask.config.set({"gpureduce.accelerate": "numpy"}):
        assert is_ours(ROW.sum())
        with gr.accelerate(False):
            assert not is_ours(ROW.sum())
    for off in (True, False, None):  # True is for CuPy chunks alone
        with dask.config.set({"gpureduce.accelerate": off}):
            assert not is_ours(ROW.sum())
    x = ROW.map_blocks(np.asarray, meta=gr.device_meta(3, "f8"))
    with dask.config.set({"gpureduce.accelerate": True}):
        assert is_ours(x.sum())
    with (
        dask.config.set({"gpureduce.accelerate": "yes"}),
        pytest.raises(gr.errors.ArgumentError, match=r"gpureduce\.accelerate: 'yes'"),
    ):
        ROW.sum()


def test_graphs_outlive_the_switch():
    with gr.accelerate(numpy=True):
        total, lazy = ROW.sum(), (ROW - ROW.mean()).std(axis=0)
    assert is_ours(total) and is_ours(lazy)
    travelled = cloudpickle.loads(cloudpickle.dumps(lazy))
    np.testing.assert_allclose(total.compute(), X.sum(), rtol=1e-12)
    np.testing.assert_allclose(travelled.compute(), (X - X.mean()).std(axis=0), rtol=1e-12)


def test_hooks_look_like_what_they_stand_for():
    gr.accelerate()
    for stock in HOOKED:
        hook = getattr(reductions, stock.__name__, None) or getattr(da, stock.__name__)
        assert hook is not stock and inspect.unwrap(hook) is stock
        assert inspect.signature(hook) == inspect.signature(stock) and hook.__doc__ == stock.__doc__
        assert pickle.loads(pickle.dumps(hook)) is hook
    assert da.std is reductions.std and da.reduction is reductions.reduction
    gr.accelerate()
    assert inspect.unwrap(da.std, stop=lambda f: f in HOOKED) is da.std.__wrapped__


CLUSTER = """
import sys
import dask.array as da
from dask.distributed import Client

if __name__ == "__main__":
    with Client(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        x = da.random.RandomState(0).random((40, 40), chunks=10).persist()
        total, mean = x.sum(), x.mean(axis=0)
        print(total.name[:3], mean.name[:3], abs(float(total.compute()) - 1600 * float(mean.mean().compute())) < 1e-6)
        print(client.run(lambda: "gpureduce_dask.trees.hooks" in sys.modules).popitem()[1])
"""

EXPRESSIONS = """
import warnings
import dask
dask.config.set({"array.query-planning": True, "gpureduce.accelerate": "numpy"})
import dask.array as da
import gpureduce_dask as gr
try:
    gr.accelerate(numpy=True)
except gr.errors.ArgumentError as error:
    print("query-planning" in str(error))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import gpureduce_dask.auto
print(len(caught), float(da.ones(8, chunks=3).sum().compute()))
x = da.ones((8, 4), chunks=3)
print(da.reduction(x, **gr.tree("var", x.dtype), axis=0).compute().tolist())
"""


def run(tmp_path, text, **environment):
    script = tmp_path / "script.py"
    script.write_text(text)
    path = os.pathsep.join([str(p) for p in sys.path if p])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_a_program_that_is_not_changed(tmp_path):
    """Two environment variables, and only dask is imported; the worker has nothing switched on."""
    on = {"DASK_GPUREDUCE__ACCELERATE": "numpy", "DASK_DISTRIBUTED__CLIENT__PRELOAD": "gpureduce_dask.auto"}
    assert run(tmp_path, CLUSTER, **on) == ["gr- gr- True", "False"]


def test_array_expressions_are_refused(tmp_path):
    """A call raises, the key does nothing but warn, and dask's reductions stay as they are."""
    assert run(tmp_path, EXPRESSIONS) == ["True", "1 8.0", "[0.0, 0.0, 0.0, 0.0]"]
