"""On a GPU: functions of elements within the kernels, against NumPy."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from expressions import call, sample, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask.device import compile as compiler
from gpureduce_dask.expressions import whole
from gpureduce_dask.graph import deferred, fusion
from gpureduce_dask.operators import native
from gpureduce_dask.tools.bench import memory

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
cp = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")


def device(x, chunks=(20, 50)):
    return da.from_array(x, chunks=chunks).map_blocks(cp.asarray)


def close(lazy, expected, rtol=2e-5):
    expected = np.asarray(expected)
    got = lazy.compute(scheduler="sync")
    assert isinstance(got, cp.ndarray)
    assert got.dtype == lazy.dtype == expected.dtype
    np.testing.assert_allclose(got.get(), expected, rtol=rtol, atol=1e-5)


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees, st.sampled_from(["f4", "f8", "i4", "u1", "bool", "f2"]), st.sampled_from(["f4", "i8", "f2"]))
def test_expressions(tree, left, right):
    x, y = sample(left, 1), sample(right, 2)
    try:
        with np.errstate(all="ignore"):
            expected = call(tree, x, y)
    except TypeError:
        return
    got = gr.map_reduce(lambda x, y: call(tree, x, y), "max", device(x), device(y), axis=0)
    host = gr.map_reduce(lambda x, y: call(tree, x, y), "max", x, y, axis=0)
    assert got.dtype == host.dtype == expected.dtype
    rough = 5e-3 if "f2" in (left, right) else 1e-4
    np.testing.assert_allclose(
        got.compute(scheduler="sync").get(), host.compute(scheduler="sync"), rtol=rough, atol=1e-5
    )


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(300, 1000), (70001, 3), (3, 70001), (517, 1029)])
def test_layouts(shape, axis):
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=shape).astype("f4"), rng.normal(size=shape).astype("f4")
    U, V = device(u, -1), device(v, -1)
    close(
        gr.map_reduce(lambda u: (u - 0.5) ** 2, "sum", U, axis=axis),
        ((u - 0.5) ** 2).astype("f8").sum(axis).astype("f4"),
    )
    close(gr.map_reduce(lambda u: u > 2, "any", U, axis=axis), (u > 2).any(axis))
    close(gr.map_reduce(lambda u, v: u * v, "argmax", U, V, axis=axis), (u * v).argmax(axis))
    close(gr.map_reduce(lambda u, v: u * v, "var", U, V, axis=axis), (u * v).astype("f8").var(axis).astype("f4"))
    close(gr.map_reduce(lambda u: u + 1, "var", U, axis=axis, where=v > 0), (u + 1).var(axis, where=v > 0), 1e-4)
    means = gr.map_reduce(lambda u, v: (u, v, u * v), "mean", U, V, axis=axis)
    for mean, values in zip(means, (u, v, u * v), strict=True):
        close(mean, values.astype("f8").mean(axis).astype("f4"))


@pytest.mark.parametrize("axis", [0, 1])
def test_scans(axis):
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(300, 1000)).astype("f4"), rng.normal(size=(300, 1000)).astype("f4")
    expected = np.cumsum((u * v).astype("f8"), axis).astype("f4")
    close(gr.map_scan(lambda u, v: u * v, "sum", device(u, -1), device(v, -1), axis=axis), expected, 1e-4)
    close(gr.map_scan(np.abs, "max", device(u, (100, 300)), axis=axis), np.maximum.accumulate(abs(u), axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_steps_before_a_scan_of_several_chunks(axis):
    """Of chunks in memory: totals and results are of the same steps, which no task makes, logarithms neither."""
    u = np.random.default_rng(7).normal(size=(300, 400)).astype("f4")
    x = device(u, (110, 150)).persist(scheduler="sync")
    with gr.accelerate():
        for steps, host in ((np.log1p(x * x), np.log1p(u * u)), ((x - 0.5) ** 2, (u - np.float32(0.5)) ** 2)):
            lazy_scan = da.cumsum(steps, axis)
            names = {key[0].rpartition("-")[0] for key in fusion.OPTIMIZE(lazy_scan.dask, lazy_scan.__dask_keys__())}
            assert not {"log1p", "pow"} & names
            close(lazy_scan, np.cumsum(host.astype("f8"), axis).astype("f4"), 1e-4)
        close(da.cumsum(x > 0.2, axis), np.cumsum(u > 0.2, axis))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(400, 1000), (37, 4099), (3000, 7)])
def test_four_arrays_in_a_kernel(shape, axis, monkeypatch):
    rng = np.random.default_rng(1)
    u, v, w = (rng.normal(size=shape).astype("f4") for _ in range(3))
    q, m = rng.normal(size=(shape[0], 1)), rng.random((1, shape[1])) > 0.4
    monkeypatch.setattr(whole, "evaluate", None)  # CuPy makes nothing of them
    arrays = [device(x, -1) for x in (u, v, w, q)]
    expected = u.astype("f8") * v + w * q
    got = gr.map_reduce(lambda u, v, w, q: u * v.astype("f8") + w * q, "sum", *arrays, axis=axis)
    close(got, expected.sum(axis), 1e-5)
    got = gr.map_reduce(lambda u, v, w: u * v + w, "var", *arrays[:3], axis=axis, where=device(m, -1))
    close(got, (u * v + w).astype("f8").var(axis, where=m).astype("f4"), 1e-4)
    largest = gr.map_reduce(lambda u, v, w: np.where(u > v, v, w), "argmax", *arrays[:3], axis=axis)
    close(largest, np.where(u > v, v, w).argmax(axis))
    found = gr.stats(arrays[0], ["mean", "skew"], axis=axis, weights=device(np.abs(v), -1), where=arrays[2] > -1)
    weights = np.where(w > -1, np.abs(v), 0)
    close(found.mean, np.average(u, weights=weights, axis=axis).astype("f4"), 1e-5)
    with gr.accelerate():
        close(((arrays[0] - arrays[1]) ** 2 * arrays[2]).sum(axis), ((u - v) ** 2 * w).sum(axis), 1e-3)


def test_many_chunks_of_four_arrays():
    rng = np.random.default_rng(2)
    host = [rng.integers(-9, 9, (640, 50)).astype("i4") for _ in range(4)]
    chunked = [da.from_array(cp.asarray(x), chunks=(5, 50), asarray=False).persist(scheduler="sync") for x in host]
    a, b, c, d = host
    got = gr.map_reduce(lambda a, b, c, d: a * b + c * d, "argmin", *chunked, axis=0)
    close(got, (a * b + c * d).argmin(axis=0))
    close(gr.map_reduce(lambda a, b, c: a * b - c, "sum", *chunked[:3]), (a * b - c).sum())


def test_more_arrays_than_a_kernel_reads():
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(40, 500)).astype("f4") for _ in range(3))
    arrays = [device(x) for x in (u, v, w)]
    close(gr.map_reduce(lambda u, v, w: u * v + w, "sum", *arrays, axis=0), (u * v + w).sum(axis=0))
    close(gr.map_reduce(lambda u, v: u * v, "mean", *arrays[:2], axis=1, where=w > 0), (u * v).mean(1, where=w > 0))
    pairs = gr.map_reduce(lambda u, v, w: (u * v, v * w, w * u), "mean", *arrays, axis=0)
    for got, expected in zip(pairs, (u * v, v * w, w * u), strict=True):
        close(got, expected.mean(axis=0))


def test_broadcasting_weights_and_counts():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(40, 500)).astype("f4")
    w = rng.random((40, 1), "f4") + 0.5
    u[3, :100] = np.nan
    x = device(u)
    close(gr.map_reduce(lambda u, w: np.fmax(u, 0) * w, "sum", x, w, axis=1), (np.fmax(u, 0) * w).sum(axis=1), 1e-4)
    close(gr.nanmean(x, axis=0, where=u > 0), np.nanmean(u, axis=0, where=u > 0))
    close(gr.sum(x, axis=0, where=u > 0, initial=2), np.sum(u, axis=0, where=u > 0, initial=2))
    assert np.isnan(gr.nansum(x, axis=0, min_count=40).compute(scheduler="sync").get()[:100]).all()


def test_constants_that_differ_on_streams_that_do():
    """One kernel, loaded once a constant: launches on two streams read each their own."""
    x = cp.ones(1 << 20, "f4")
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    found = []
    for i in range(20):
        with streams[i % 2]:
            lazy = gr.map_reduce(lambda x, i=i: x * np.float32(i), "sum", x)
            found.append(lazy.compute(scheduler="sync"))
    cp.cuda.Device().synchronize()
    assert [float(f) for f in found] == [i * 2.0**20 for i in range(20)]


def test_other_constants_take_the_compiled_kernel():
    x = device(np.ones((64, 64), "f4"), -1)

    def run(c):
        return float(gr.map_reduce(lambda x: np.tanh(x * np.float32(c)) - x, "sum", x).compute(scheduler="sync"))

    run(0.5)
    before = len(compiler._cubins)
    values = {run(c) for c in (0.25, 0.75, 1.25)}
    assert len(values) == 3 and len(compiler._cubins) == before


def test_no_temporary_of_a_chunks_size():
    u = cp.random.default_rng(0).random((4096, 4096), dtype="f4")
    x = da.from_array(np.zeros((1, 1)), chunks=1)
    x = da.map_blocks(lambda: u, chunks=u.shape, dtype="f4", meta=gr.device_meta(2, "f4"))
    lazy = [
        gr.map_reduce(lambda x: (x - 0.5) ** 2, "sum", x),
        gr.map_reduce(lambda x: np.log1p(x), "var", x, axis=0),
        gr.map_reduce(lambda x: x > 0.5, "any", x, axis=1),
    ]
    dask.compute(*lazy, scheduler="sync")
    for each in lazy:
        memory.watch()
        try:
            each.compute(scheduler="sync")
        finally:
            most = memory.unwatch()
        assert most < 0.05 * u.nbytes


CHAINS = [
    lambda x: ((x - 0.5) ** 2).sum(axis=0),
    lambda x: ((x - x.mean()) ** 2).sum(axis=0),
    lambda x: (x > 1).any(axis=1),
    lambda x: da.where(x > 0, da.log1p(abs(x)), x).std(axis=0),
    lambda x: ((x - x.mean(axis=0)) * 2).max(axis=1),
]


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_of_plain_dask(chain, monkeypatch):
    """What stands between a chunk and its reduction goes into the kernel."""
    counts = []
    original = deferred._traced
    monkeypatch.setattr(deferred, "_traced", lambda *given: (counts.append(original(*given)), counts[-1])[1])
    u = np.random.default_rng(0).normal(size=(4000, 500)).astype("f4")
    with gr.accelerate():
        ours = chain(device(u, (500, 500)))
    close(ours, chain(da.from_array(u, chunks=500)).compute(scheduler="sync"), 1e-4)
    assert len(counts) >= 8 and None not in counts


def test_a_chain_takes_no_memory_of_a_chunks_size():
    u = [cp.random.default_rng(i).random(1 << 24, dtype="f4") for i in range(4)]
    x = da.concatenate([da.from_array(c, asarray=False, name=False) for c in u])
    with gr.accelerate():
        lazy = ((x - 0.25) ** 2).sum()
    lazy.compute(scheduler="sync")
    memory.watch()
    try:
        lazy.compute(scheduler="sync")
    finally:
        most = memory.unwatch()
    assert most < 0.05 * u[0].nbytes


IN_MEMORY = {
    "view": lambda x: x[::3, 1:],
    "transpose": lambda x: x.T,
    "mapped": lambda x: (x - x.dtype.type(0.5)) ** 2,
    "where": lambda x: da.where(x > 0, x, np.nan),
}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def together(monkeypatch):
    """How many chunks each launch reduces."""
    counts, reduce_many = [], deferred.chunk.reduce_many

    def counted(chunks, *more):
        counts.append(len(chunks))
        return reduce_many(chunks, *more)

    monkeypatch.setattr(deferred.chunk, "reduce_many", counted)
    return counts


@pytest.mark.parametrize("name", ["sum", "nanmean", "var", "argmax", "nanmax"])
@pytest.mark.parametrize("form", IN_MEMORY)
def test_chunks_in_memory_are_reduced_in_one_launch_a_slice(client, together, form, name):
    x = np.random.default_rng(5).normal(size=(400, 600)).astype("f4")
    make = IN_MEMORY[form]
    name = "nanargmax" if (form, name) == ("where", "argmax") else name
    held = client.persist(device(x, (100, 150)))
    distributed.wait(held)
    for axis in (0, 1, None):
        got = getattr(gr, name)(make(held), axis=axis).compute().get()
        expected = getattr(np, name)(make(da.from_array(x)).compute(), axis=axis)
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-3)
        assert together == [16 if axis is None else 4] * len(together) and sum(together) == 16
        together.clear()


@pytest.mark.parametrize("name", ["sum", "nanmean", "var", "argmax", "nanmax"])
@pytest.mark.parametrize("form", IN_MEMORY)
def test_chunks_that_are_made_are_reduced_several_in_a_launch(monkeypatch, together, form, name):
    from gpureduce_dask.graph import reduce_tasks

    x = np.random.default_rng(6).normal(size=(400, 600)).astype("f4")
    make = IN_MEMORY[form]
    name = "nanargmax" if (form, name) == ("where", "argmax") else name
    lazy = da.from_array(x, chunks=(100, 150)).map_blocks(cp.asarray)
    monkeypatch.setattr(reduce_tasks, "LAUNCH_BYTES", 3 * 100 * 150 * 4)
    for axis in (0, 1, None):
        with dask.config.set(scheduler="sync"):
            got = getattr(gr, name)(make(lazy), axis=axis, split_every=16).compute().get()
        expected = getattr(np, name)(make(da.from_array(x)).compute(), axis=axis)
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-3)
    is_placed = name.endswith("argmax")  # by itself, for each tells where it lies
    assert (not together) if is_placed else max(together) >= 3


@pytest.mark.skipif(native.library() is None, reason="the compiled library copies them")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_large_chunks_of_the_host_are_moved_by_threads(dtype, tmp_path, monkeypatch):
    """Mapped files and views of every layout, in turn on one stream: the sums are those of the host."""
    from gpureduce_dask.device import upload

    sent, begin = [], upload.Upload.__init__
    monkeypatch.setattr(upload.Upload, "__init__", lambda self, a: sent.append(a.shape) or begin(self, a))
    x = np.random.default_rng(4).integers(-50, 50, (6000, 4500)).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for source in (x, mapped, x.T, x[::-1, 1:], np.asfortranarray(x)):
        lazy = da.from_array(source, chunks=(2000, 2250)).map_blocks(cp.asarray)
        for axis in (None, 0, 1):
            got = gr.sum(lazy, axis=axis).compute(scheduler="threads", num_workers=2)
            np.testing.assert_array_equal(cp.asnumpy(got), np.sum(np.asarray(source), axis=axis))
    assert sent
