"""Clusters of this machine: what dask-cuda is asked for, a real cluster of processes, and its warming."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("distributed")

import gpureduce_dask as gr
from gpureduce_dask import chunk
from gpureduce_dask.distributed import worker_plugins
from gpureduce_dask.errors import ArgumentError, DeviceError, DtypeError, ExtraError


class Stop(Exception):
    """Raised instead of a cluster being made."""


def module(name: str, **names: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    return made


@pytest.fixture
def asked(monkeypatch):
    """Three GPUs and a dask-cuda that says what it was asked for; ``asked(installed, ...)`` calls start."""
    got = {}

    def local_cuda_cluster(**arguments):
        got.update(arguments)
        raise Stop

    monkeypatch.setattr(gr.cluster, "count_gpus", lambda: 3)
    monkeypatch.setitem(sys.modules, "dask_cuda", module("dask_cuda", LocalCUDACluster=local_cuda_cluster))

    def call(installed=("distributed_ucxx", "rmm"), **arguments):
        monkeypatch.setattr(gr.cluster, "find_spec", lambda name: name if name in installed else None)
        with pytest.raises(Stop):
            gr.cluster.start(**arguments)
        return got

    return call


def test_gpus_get_a_worker_each_and_nvlink(asked):
    assert asked() == {
        "n_workers": 3,
        "protocol": "ucx",
        "dashboard_address": "127.0.0.1:8787",
        "worker_dashboard_address": "127.0.0.1:0",
    }


def test_without_ucxx_and_rmm_it_is_dask_s_protocol_and_cupy_s_pool(asked):
    got = asked(installed=(), rmm_async=True)
    assert got["protocol"] is None and "rmm_pool_size" not in got and "rmm_allocator_external_lib_list" not in got


def test_one_worker_has_nobody_to_talk_ucx_to(asked):
    assert asked(n_workers=1)["protocol"] is None


def test_what_is_asked_for_reaches_dask_cuda(asked):
    got = asked(n_workers=2, protocol="tcp", dashboard_address="localhost:0", memory_limit=0)
    assert (got["n_workers"], got["protocol"], got["memory_limit"]) == (2, "tcp", 0)
    assert got["dashboard_address"] == "localhost:0"


def test_another_argument_of_rmm_leaves_the_pool_to_dask_cuda(asked):
    got = asked(rmm_pool_size="60GB", rmm_track_allocations=True)
    assert (got["rmm_pool_size"], got["rmm_allocator_external_lib_list"]) == ("60GB", ["cupy"])
    assert got["rmm_track_allocations"]


def test_no_pool_where_none_is_asked_for(asked):
    assert "rmm_allocator_external_lib_list" not in asked(rmm_pool_size=None, rmm_track_allocations=True)


@pytest.mark.parametrize(
    ("size", "taken", "made"),
    [(0.5, 0, 500 << 20), (0.5, 3, 500 << 20), ("300MiB", 0, 300 << 20), (0.5, 10**6, 200 << 20)],
)
def test_a_worker_s_pool_waits_for_the_memory_of_the_one_before(monkeypatch, size, taken, made):
    """Attempts fail while that is taken; it starts with half of what is free in the end, and grows."""
    asked, used = [], {}

    def pool(upstream, initial_pool_size):
        asked.append(initial_pool_size)
        if initial_pool_size > 400 << 20 and len(asked) <= taken:
            raise MemoryError("std::bad_alloc: out_of_memory: maximum pool size exceeded")
        return "pool"

    mr = module(
        "mr",
        PoolMemoryResource=pool,
        CudaMemoryResource=str,
        set_current_device_resource=lambda resource: used.update(rmm=resource),
    )
    monkeypatch.setitem(sys.modules, "rmm", module("rmm", mr=mr))
    monkeypatch.setitem(sys.modules, "rmm.allocators", module("rmm.allocators"))
    monkeypatch.setitem(sys.modules, "rmm.allocators.cupy", module("rmm.allocators.cupy", rmm_cupy_allocator="ours"))
    runtime = module("runtime", memGetInfo=lambda: (400 << 20, 1000 << 20))
    cuda = module("cuda", runtime=runtime, set_allocator=lambda allocator: used.update(cupy=allocator))
    monkeypatch.setitem(sys.modules, "cupy", module("cupy", cuda=cuda))
    monkeypatch.setattr(worker_plugins, "AGAIN", 0.01)
    monkeypatch.setattr(worker_plugins, "PATIENCE", 0.05)
    asyncio.run(pickle.loads(pickle.dumps(worker_plugins.DevicePool(size))).setup(None))
    assert used == {"rmm": "pool", "cupy": "ours"} and asked[-1] == made


@pytest.mark.parametrize("number", [0, 4])
def test_more_workers_than_gpus_are_refused(monkeypatch, number):
    monkeypatch.setattr(gr.cluster, "count_gpus", lambda: 3)
    with pytest.raises(ArgumentError, match=f"n_workers={number}; expected 1 to 3"):
        gr.cluster.start(number)


def test_gpus_without_dask_cuda(monkeypatch):
    monkeypatch.setattr(gr.cluster, "count_gpus", lambda: 1)
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with pytest.raises(ExtraError, match=r"gpureduce-dask\[cluster\]"):
        gr.cluster.start()


def test_gpus_that_are_asked_for_and_not_there(monkeypatch):
    monkeypatch.setattr(gr.cluster, "count_gpus", lambda: 0)
    with pytest.raises(DeviceError, match="doctor"):
        gr.cluster.start(gpu=True)


@pytest.mark.parametrize("address", [":8787", "0.0.0.0:8787", "8787", "192.168.0.2:8787", "127.0.0.1:x", ""])
def test_a_dashboard_for_others_is_refused(address):
    with pytest.raises(ArgumentError, match="loopback"):
        gr.cluster.start(1, gpu=False, dashboard_address=address)


def test_the_workers_pages_stay_on_loopback():
    with pytest.raises(TypeError, match="worker_dashboard_address"):
        gr.cluster.start(1, gpu=False, worker_dashboard_address=":0")


def test_gpus_are_counted_without_starting_cuda_here(monkeypatch):
    monkeypatch.setattr(gr.cluster, "find_spec", lambda name: name)
    monkeypatch.setattr(gr.cluster, "COUNT_GPUS", "print(5)")
    assert gr.cluster.count_gpus() == 5
    monkeypatch.setattr(gr.cluster, "COUNT_GPUS", "raise RuntimeError('no driver')")
    assert gr.cluster.count_gpus() == 0


def listening(process) -> set[str]:
    return {c.laddr.ip for c in process.net_connections("tcp") if c.status == "LISTEN"}


def test_a_cluster_of_processes():
    """Its sockets, its warming, a reduction on it, and its end."""
    psutil = pytest.importorskip("psutil")
    import dask.array as da
    from distributed import Client

    with gr.cluster.start(2, gpu=False, dashboard_address="127.0.0.1:0", threads_per_worker=1) as client:
        cluster = client.cluster
        assert cluster.scheduler.http_server.port and listening(psutil.Process()) == {"127.0.0.1"}
        workers = client.scheduler_info()["workers"]
        processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        assert len(processes) == len(workers) == 2
        assert all(listening(process) == {"127.0.0.1"} for process in processes)

        warmed = gr.warm(client, ops=("sum", "argmax"), dtypes=("f4", "i8"))
        assert set(warmed) == set(workers)
        assert all(each["seconds"] > 0 for each in warmed.values())
        with pytest.raises(DtypeError):
            gr.warm(client, ops=("ptp",), dtypes=("c8",))

        assert int(gr.sum(da.arange(100, chunks=10)).compute()) == 4950

        async def warm():
            async with Client(cluster.scheduler_address, asynchronous=True) as other:
                return await gr.warm(other, ops=())

        assert set(client.sync(warm)) == set(workers)

        # The collector leaves alone what workers have imported, also those that come later, and nothing of ours.
        client.restart()
        assert min(client.run(gc.get_freeze_count).values()) > 50_000
        assert gc.get_freeze_count() == 0
    assert client.status == "closed" and cluster.status.name == "closed"
    assert not any(process.is_running() for process in processes)


def test_workers_of_this_process_freeze_nothing():
    with gr.cluster.start(1, gpu=False, processes=False, dashboard_address="127.0.0.1:0") as client:
        assert [*client.run(gc.get_freeze_count).values()] == [0]


def test_a_closed_client_leaves_its_cluster_alone(monkeypatch):
    """The collector closes clients once more, wherever it runs: a lock of distributed's may be held there."""
    with gr.cluster.start(1, gpu=False, processes=False, dashboard_address="127.0.0.1:0") as client:
        cluster = client.cluster
    assert cluster.status.name == "closed"
    monkeypatch.setattr(cluster, "close", lambda: pytest.fail("closed again"))
    client.close()
    client.__del__()


def test_warming_reduces_in_each_of_the_ways_that_trees_do(monkeypatch):
    """On NumPy, which has nothing to compile, for what is called."""
    calls = []
    for name in ("results", "reduce", "reduce_many", "combine", "finalise"):
        original = getattr(chunk, name)
        monkeypatch.setattr(
            chunk, name, lambda *args, _name=name, _original=original: (calls.append(_name), _original(*args))[1]
        )
    for op in ("argmax", "var", "average"):
        row = gr.OPERATORS[op]
        gr.cluster._compile(row.bind(*[np.dtype("f4")] * row.arity), np)
    assert {calls.count(name) for name in ("results", "reduce", "reduce_many", "combine")} == {9}


@pytest.mark.gpu
def test_a_cluster_of_gpus():
    pytest.importorskip("dask_cuda")
    import cupy
    import dask.array as da

    with gr.cluster.start(dashboard_address="127.0.0.1:0") as client:
        warmed = gr.warm(client)
        assert len(warmed) == gr.cluster.count_gpus() and all(each["gpu"] for each in warmed.values())
        x = da.ones(1 << 20, dtype="f4", chunks=1 << 18).map_blocks(cupy.asarray)
        assert float(gr.sum(x).compute()) == 1 << 20
