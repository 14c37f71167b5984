"""Chunks that are read from files: how many reads run at a time, by whom, and each stored chunk once."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.callbacks import Callback

import gpureduce_dask as gr

distributed = pytest.importorskip("distributed")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")
h5netcdf = pytest.importorskip("h5netcdf")
H5NetCDF = pytest.importorskip("xarray.backends.h5netcdf_").H5NetCDFArrayWrapper

SHAPE, CHUNKS, STORED = (64, 48), (2, 48), 32
VALUES = np.random.default_rng(0).normal(size=SHAPE).astype("f4")
THREADS = 4


class Reads:
    """How many run, how many ran at a time, and in which tasks of which workers. Each takes so long that others start
    meanwhile where they may."""

    def __init__(self):
        self.lock = threading.Lock()
        self.clear()

    def clear(self):
        self.count = self.now = self.most = 0
        self.threads, self.workers, self.tasks = set(), set(), set()

    @contextmanager
    def one(self):
        with self.lock:
            self.count += 1
            self.now += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
            try:
                worker = distributed.get_worker()
                self.workers.add(worker.address)
                self.tasks.add(str(worker.get_current_task()))
            except ValueError:  # a thread of no worker
                pass
        time.sleep(0.005)
        yield
        with self.lock:
            self.now -= 1


READS = Reads()


class Source:
    """What has a shape, a dtype and slices, as files have."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim

    def __getitem__(self, at):
        found = self.values[at]
        if not found.size:  # which dask reads to learn of what kind it is
            return found
        with READS.one():
            return found


def slow(values, *rest):
    with READS.one():
        return values


def from_delayed():
    parts = [da.from_delayed(dask.delayed(slow)(VALUES[i : i + 2], i), CHUNKS, "f4") for i in range(0, 64, 2)]
    return da.concatenate(parts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reads")
    zarr.create_array(str(folder / "x.zarr"), shape=SHAPE, chunks=CHUNKS, dtype="f4")[:] = VALUES
    field = xr.Dataset({"t": (("time", "x"), VALUES)}, {"time": np.arange(64)})
    field.to_zarr(folder / "t.zarr", encoding={"t": {"chunks": CHUNKS}}, consolidated=False)
    written = {"engine": "h5netcdf", "encoding": {"t": {"chunksizes": CHUNKS}}}
    field.to_netcdf(folder / "t.nc", **written)
    for i in range(4):
        field.isel(time=slice(16 * i, 16 * (i + 1))).to_netcdf(folder / f"part{i}.nc", **written)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS)
    return folder


def opened(path, several=False):
    how = {"engine": "h5netcdf", "chunks": {"time": 2}}
    return (xr.open_mfdataset(str(path), **how) if several else xr.open_dataset(path, **how)).t.data


WAYS = {
    "from_zarr": lambda folder: da.from_zarr(str(folder / "x.zarr")),
    "from_zarr, inline": lambda folder: da.from_zarr(str(folder / "x.zarr"), inline_array=True),
    "from_zarr, mapped": lambda folder: da.from_zarr(str(folder / "x.zarr")).map_blocks(np.array),
    "open_zarr": lambda folder: xr.open_zarr(folder / "t.zarr", consolidated=False).t.data,
    "open_dataset": lambda folder: opened(folder / "t.nc"),
    "open_mfdataset": lambda folder: opened(folder / "part?.nc", several=True),
    "h5py": lambda folder: da.from_array(h5py.File(folder / "x.h5")["x"], chunks=CHUNKS),
    "from_array": lambda folder: da.from_array(Source(VALUES), chunks=CHUNKS, name=False),
    "from_array, inline": lambda folder: da.from_array(Source(VALUES), chunks=CHUNKS, inline_array=True, name=False),
    "from_delayed": lambda folder: from_delayed(),
    "map_blocks": lambda folder: da.from_array(VALUES, chunks=CHUNKS, name=False).map_blocks(slow, dtype="f4"),
    "map_blocks of one": lambda folder: da.from_array(Source(VALUES), chunks=CHUNKS, name=False).map_blocks(np.array),
}
ON_A_CLUSTER = [way for way in WAYS if way != "h5py"]  # files of h5py do not travel


@pytest.fixture
def reads(monkeypatch):
    for kind, name in ((zarr.Array, "__getitem__"), (H5NetCDF, "_getitem"), (h5py.Dataset, "__getitem__")):
        monkeypatch.setattr(kind, name, recorded(getattr(kind, name)))
    READS.clear()
    return READS


_reading = threading.local()


def recorded(method):
    @functools.wraps(method)
    def read(*args):
        if getattr(_reading, "on", False):  # one way reads by another
            return method(*args)
        _reading.on = True
        try:
            with READS.one():
                return method(*args)
        finally:
            _reading.on = False

    return read


def calls(x):
    """One reduction, several of the same chunks, and several states at once."""
    return {
        "one": [gr.sum(x)],
        "along an axis": [gr.var(x, axis=0)],
        "two": [gr.mean(x), gr.max(x, axis=0)],
        "stats": list(gr.stats(x, ["mean", "std", "argmax"])),
        "of one chain": [gr.sum((x - 1) ** 2)],
    }


EXPECTED = dask.compute(calls(da.from_array(VALUES, chunks=CHUNKS)), scheduler="sync")[0]


@pytest.mark.parametrize("way", WAYS)
def test_threads_read_at_the_same_time(way, folder, reads):
    x = WAYS[way](folder)
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        for name, lazy in calls(x).items():
            reads.clear()
            for got, expected in zip(dask.compute(*lazy), EXPECTED[name], strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-6)
            assert reads.count == STORED, name
            assert min(reads.most, len(reads.threads)) > 2, name  # of 4, of which one may come late


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_of_reads_is_what_happens(way, folder):
    x = WAYS[way](folder)
    started = []
    with dask.config.set(scheduler="threads", num_workers=2):
        plan = gr.plan(x, "mean", axis=0)
        with Callback(pretask=lambda key, dsk, state: started.append(str(key))):
            gr.mean(x, axis=0).compute()
    assert plan.groups == 8 == sum("-group-" in key for key in started)
    assert plan.tasks == len(started)


class Ran(distributed.diagnostics.plugin.SchedulerPlugin):
    """How many tasks ran."""

    count = 0

    def transition(self, key, start, finish, *args, **kwargs):
        self.count += (start, finish) == ("processing", "memory")


@pytest.fixture(scope="module")
def client():
    with (
        local_cluster(4, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scheduler.add_plugin(Ran(), name="ran")
        yield client


@pytest.mark.parametrize("way", ON_A_CLUSTER)
def test_workers_read_at_the_same_time_as_planned(way, folder, reads, client):
    x = WAYS[way](folder)
    ran = client.cluster.scheduler.plugins["ran"]
    total = gr.sum(x)
    reads.clear()  # dask reads a file to learn of what kind it is
    ran.count = 0
    assert total.compute() == pytest.approx(EXPECTED["one"][0])
    assert reads.count == STORED
    assert len(reads.workers) > 2
    plan = gr.plan(x, "sum")
    assert (plan.groups, plan.tasks) == (len(reads.tasks), ran.count)
    for name in ("along an axis", "two"):
        lazy = calls(x)[name]
        reads.clear()
        for got, expected in zip(dask.compute(*lazy), EXPECTED[name], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert reads.count == STORED, name
        assert len(reads.workers) > 2, name


def run(*results):
    """The values of results that are computed together, and the tasks, by key."""
    graph = {}

    def get(dsk, keys, **options):
        graph.update(dsk.__dask_graph__() if hasattr(dsk, "__dask_graph__") else dsk)
        return dask.get(dsk, keys, **options)

    return dask.compute(*results, scheduler=get), graph


def made(block):
    return block + 1


def test_a_mask_that_two_reductions_share_is_made_with_them():
    x = da.from_array(VALUES, CHUNKS).map_blocks(made)
    with gr.accelerate(numpy=True):
        missing = da.isnan(x)
        results = da.where(missing, 0, x).sum(axis=0), missing.sum(axis=0)
    values, graph = run(*results)
    names = {key[0] for key in graph if isinstance(key, tuple)}
    assert not any("isnan" in name or "made" in name for name in names), names
    for got, want in zip(values, (VALUES + 1, np.isnan(VALUES)), strict=True):
        np.testing.assert_allclose(got, want.sum(axis=0), rtol=1e-5)


def test_a_chunk_that_two_groups_need_is_held_by_neither():
    """A group that waited for all of its chunks would hold them."""
    x = da.from_array(VALUES, (8, 12)).map_blocks(made)
    with gr.accelerate(numpy=True):
        results = x.sum(axis=0), x.max(axis=1)
    values, graph = run(*results)
    chunks = {key for key in graph if isinstance(key, tuple) and "made" in key[0]}
    assert len(chunks) == x.npartitions
    most = max(len(chunks & node.dependencies) for node in graph.values())
    assert most == 1
    for got, want in zip(values, (VALUES.sum(0), VALUES.max(1)), strict=True):
        np.testing.assert_allclose(got, want + (64 if want.size == 48 else 1), rtol=1e-4, atol=1e-4)


def test_a_chunk_of_which_small_slices_are_needed_is_gone_once_they_are_cut():
    made_ones, most = [], 0

    def make(block_info=None):
        nonlocal most
        x = np.ones(block_info[None]["chunk-shape"])
        made_ones.append(weakref.ref(x))
        most = max(most, sum(one() is not None for one in made_ones))
        return x

    x = da.map_blocks(make, chunks=((80,) * 16, (25,) * 4), dtype="f8", meta=np.empty((0, 0)))
    rows = da.map_blocks(np.sort, x.rechunk(((20,) * 64, (100,))), dtype="f8")  # each of four chunks' slices
    with dask.config.set(scheduler="threads", num_workers=1):
        assert gr.sum(rows).compute() == x.size
    assert len(made_ones) == x.npartitions
    assert most == 1
