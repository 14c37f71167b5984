"""One task for an array on several workers: it asks the others, and is right whatever becomes of them."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.graph_manipulation import bind, clone
from test_cluster_grouping import install, taken, wait_until
from test_faults import wait_for_all
from test_trees import AFFINE, compose

import gpureduce_dask as gr
from gpureduce_dask.distributed import handles, reduce_actor, worker_to_worker

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

WORKERS = 3
PATIENCE = 60  # seconds until a result counts as never coming


@pytest.fixture(scope="module")
def cluster():
    settings = {
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.allowed-failures": 10,
        "distributed.scheduler.active-memory-manager.start": False,  # the tests drop copies themselves
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="2GiB"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster, monkeypatch):
    """Its reductions ask workers of NumPy chunks too."""
    pays = worker_to_worker.pays
    monkeypatch.setattr(worker_to_worker, "pays", lambda homes, known, _: pays(homes, known, True))
    with distributed.Client(cluster) as client:
        wait_for_all(client)
        yield client


REF = np.random.default_rng(3).normal(size=(24, 15))


def held(client, ref=REF, chunks=(2, 4)):
    """Chunks on every worker."""
    x = client.persist(da.from_array(ref, chunks=chunks).map_blocks(np.copy))
    distributed.wait(x, timeout=PATIENCE)
    return x


def value(client, array):
    return client.compute(array).result(timeout=PATIENCE)


def tasks_of(client, make):
    """The result, and what of our tasks ran for it."""

    client.run_on_scheduler(install)
    client.run_on_scheduler(taken)
    found = value(client, make())
    return found, client.run_on_scheduler(taken)


def fetched(client):
    """How many chunks workers have sent to others so far."""

    def count(dask_worker):
        return sum("copy" in str(key) for entry in dask_worker.transfer_outgoing_log for key in entry["keys"])

    return sum(client.run(count).values())


def homes_of_handles(dask_scheduler):
    """Where each handle is."""
    tasks = {k: task for k, task in dask_scheduler.tasks.items() if str(k).startswith("gr-handle")}
    return {k: [w.address for w in task.who_has or ()] for k, task in tasks.items()}


def pinned(worker):
    """Tasks run there."""
    return dask.annotate(workers=[worker], allow_other_workers=False)


def on_request(client, worker, what):
    """Let a worker do something before it answers once."""

    def change(dask_worker):
        answer = dask_worker.handlers[reduce_actor.OPERATION]

        async def changed(request):
            dask_worker.handlers[reduce_actor.OPERATION] = answer
            await what()
            return await answer(request)

        changed.__self__ = answer.__self__
        dask_worker.handlers[reduce_actor.OPERATION] = changed

    client.run(change, workers=[worker])


async def die():
    os._exit(1)


async def doze():
    await asyncio.sleep(0.5)


def handled(client, ref=REF):
    """Chunks on every worker, their handles, a worker on which tasks are to run, and one that these ask."""
    x = held(client, ref)
    value(client, gr.sum(x))
    lead, asked, *_ = sorted(client.nthreads())
    return x, lead, asked


def test_one_task_and_the_same_bits(client, monkeypatch):
    x, ops = held(client), [gr.sum, gr.var, gr.argmax, gr.mean]
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert len(tasks) == WORKERS + 1  # handles and the total
    found, tasks = zip(*(tasks_of(client, lambda op=op: op(x)) for op in ops), strict=True)
    assert [len(each) for each in tasks] == [1] * len(ops)
    found = [*found, *dask.compute(*gr.stats(x, ["min", "std"]))]
    assert dask.compute(*(op(x) for op in ops)) == tuple(found[:4])
    integers = np.arange(24 * 15).reshape(24, 15) % 5
    p = held(client, integers)
    assert value(client, gr.reduction(p, AFFINE)) == compose(integers, (0, 1))
    assert value(client, gr.vdot(p, held(client, integers))) == (integers * integers).sum()
    np.testing.assert_array_equal(value(client, gr.max(x, axis=1)), REF.max(1))  # by groups, each where its chunks are
    monkeypatch.setattr(worker_to_worker, "MOST_BYTES", 0)
    want = [value(client, op(x)) for op in ops]
    want += dask.compute(*gr.stats(x, ["min", "std"]))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert fetched(client) == 0


def test_where_it_pays():
    known = gr.distributed.workers.Workers({"a": 1, "b": 1, "c": 2})
    assert worker_to_worker.pays(["a", "b"], known, True)
    for homes, is_device in ((["a"], True), (["a", "c"], True), (["a", "b"], False)):
        assert not worker_to_worker.pays(homes, known, is_device)


def test_a_plan_knows(client):
    x = held(client)
    for made, op in ((WORKERS, gr.sum), (0, gr.argmax)):
        plan = gr.plan(x, op.__name__)
        assert plan.handles == made and plan.moved_bytes > 0 and len(plan.shares) == WORKERS
        assert plan.tasks == made + 1 == len(tasks_of(client, lambda op=op: op(x))[1])


def test_copies_of_its_graph(client):
    x = held(client)
    y = gr.sum(x)
    copies = clone(y), bind(y, da.ones(8, chunks=4))
    for node in y.dask.layers[y.name].values():
        assert pickle.loads(pickle.dumps(node)).dependencies == node.dependencies
    del x, y
    gc.collect()
    time.sleep(0.2)
    for copy in copies:
        assert value(client, copy) == pytest.approx(REF.sum())


def test_workers_that_ask_each_other(client):
    """In their one thread each, they would wait for ever."""
    x, *_ = handled(client)
    for worker in client.nthreads():
        on_request(client, worker, doze)
    futures = [
        client.compute(op(x), workers=[worker], allow_other_workers=False)
        for worker, op in zip(client.nthreads(), (gr.max, gr.min, gr.argmax), strict=True)
    ]
    assert [f.result(timeout=PATIENCE) for f in futures] == [REF.max(), REF.min(), REF.argmax()]
    assert fetched(client) == 0


def test_threads_of_one_client(client):
    x = held(client)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda op: float(value(client, op(x))), [gr.sum, gr.max] * 6))) == 2


def left(dask_scheduler):
    """Handles and chunks."""
    return [str(key) for key in dask_scheduler.tasks if "copy" in str(key) or str(key).startswith("gr-")]


@pytest.mark.parametrize("how", ["deleted", "cancelled"])
def test_all_goes_with_the_array(client, how):
    wait_until(lambda: not client.run_on_scheduler(left))
    x, *_ = handled(client)
    assert client.run_on_scheduler(left)
    if how == "cancelled":
        client.cancel(x)
    else:
        del x
        gc.collect()
    wait_until(lambda: not client.run_on_scheduler(left))


def test_groups_on_another_worker(client):
    """As where a copy of a handle drew them there: their chunks stay where they are."""
    x, *_ = handled(client)
    value(client, gr.max(x, axis=0))
    before = fetched(client)
    for worker in client.nthreads():
        with pinned(worker):
            np.testing.assert_array_equal(gr.max(x, axis=0).compute(optimize_graph=False), REF.max(0))
    assert fetched(client) == before


def drop(key, worker, dask_scheduler):
    dask_scheduler.request_remove_replicas(worker, [key], stimulus_id="test")


def test_a_handle_that_is_dropped(client):
    """As dask's memory manager does with what is on two workers: its home finds the chunks again."""
    x, lead, asked = handled(client)
    with pinned(lead):
        assert value(client, gr.max(x)) == REF.max()  # which leaves copies there
    key = handles._held[id(x.dask.layers[x.name])].keys(for_one=True)[asked]
    client.run_on_scheduler(drop, key, asked)
    wait_until(lambda: asked not in client.run_on_scheduler(homes_of_handles)[key])
    sent = fetched(client)
    for worker in client.nthreads():
        with pinned(worker):
            assert value(client, gr.argmin(x)) == REF.argmin()
    assert fetched(client) == sent


def forget(dask_worker):
    del dask_worker.handlers[reduce_actor.OPERATION]


def test_a_worker_that_does_not_know_the_question(client):
    x, lead, asked = handled(client)
    client.run(forget, workers=[asked])
    with pinned(lead):
        assert value(client, gr.max(x)) == REF.max()
    assert fetched(client)
    assert value(client, gr.sum(held(client))) == pytest.approx(REF.sum())  # it knows again


def test_a_worker_that_takes_too_long(client):
    x, lead, asked = handled(client)
    on_request(client, asked, doze)

    def hasten(seconds):
        reduce_actor.PATIENCE = seconds

    client.run(hasten, 0.1)
    before = fetched(client)
    try:
        with pinned(lead):
            assert value(client, gr.max(x)) == REF.max()
    finally:
        client.run(hasten, reduce_actor.PATIENCE)
    assert fetched(client) > before


def narrow(block, block_info=None):
    return block.astype(complex) if block_info[0]["chunk-location"] == (5, 2) else block


def test_a_chunk_that_cannot_be_reduced_is_named(client):
    x = client.persist(held(client).map_blocks(narrow, dtype=float, meta=np.empty((0, 0)), name="tiles"))
    distributed.wait(x, timeout=PATIENCE)
    (home,) = client.who_has(x)["tiles", 5, 2]
    for worker in client.nthreads():
        with (
            pytest.raises(gr.errors.DtypeError, match="complex128") as caught,
            dask.annotate(workers=[worker], allow_other_workers=False),
        ):
            value(client, gr.sum(x))
        assert "while reducing ('tiles', 5, 2)" in caught.value.__notes__, worker == home


def test_an_array_that_goes_while_it_is_reduced(client):
    x, *_ = handled(client)
    for worker in client.nthreads():
        on_request(client, worker, doze)
    future = client.compute(gr.max(x))
    del x
    gc.collect()
    assert future.result(timeout=PATIENCE) == REF.max()


def test_an_array_that_goes_and_then_a_worker_of_it(client):
    """Its handle is a copy on the worker that asks, from which dask cannot tell that chunks are gone: they are made
    again."""
    x, lead, asked = handled(client)
    on_request(client, asked, die)
    with pinned(lead):
        future = client.compute(gr.max(x))
    del x
    gc.collect()
    assert future.result(timeout=PATIENCE) == REF.max()


def check_again(client, x, total):
    """After a loss: right, for a graph of before too, and new ones soon as quick as before."""
    assert value(client, total) == pytest.approx(REF.sum())
    assert value(client, gr.max(x)) == REF.max()
    wait_for_all(client)
    gr.distributed.workers._heard[client].workers = None  # as after some seconds
    before = fetched(client)
    assert value(client, gr.min(x)) == REF.min()
    assert fetched(client) == before


def test_the_asked_worker_dies(client):
    x, lead, asked = handled(client)
    total = gr.sum(x)
    on_request(client, asked, die)
    with pinned(lead):
        assert value(client, gr.argmax(x)) == REF.argmax()
    check_again(client, x, total)


def test_the_asking_worker_dies(client):
    x, lead, asked = handled(client)
    total = gr.sum(x)
    on_request(client, asked, doze)
    pid = client.run(os.getpid, workers=[lead])[lead]
    with dask.annotate(workers=[lead], allow_other_workers=True):
        future = client.compute(gr.argmax(x))
    time.sleep(0.2)
    os.kill(pid, 9)
    assert future.result(timeout=PATIENCE) == REF.argmax()
    check_again(client, x, total)


@pytest.mark.parametrize("count", [2, None])
def test_chunks_that_move_before_a_handle_is_made(client, monkeypatch, count):
    """It takes them from where they are."""
    x, made = held(client), handles.HandleSet.made

    def late(*args):
        monkeypatch.setattr(handles.HandleSet, "made", made)
        mine, other = sorted(client.nthreads())[1:]
        some = [key for key, places in client.who_has(x).items() if mine in map(str, places)][:count]
        client.replicate([f for f in distributed.futures_of(x) if f.key in some], workers=[mine, other])
        for key in some:
            client.run_on_scheduler(drop, key, mine)
        wait_until(lambda: not any(mine in places for key, places in client.who_has(x).items() if key in some))
        return made(*args)

    monkeypatch.setattr(handles.HandleSet, "made", late)
    assert value(client, gr.sum(x)) == pytest.approx(REF.sum())
    np.testing.assert_array_equal(value(client, gr.min(x, axis=1)), REF.min(1))


def end(handles):
    raise SystemExit("CUDA is lost")


def test_a_fault_that_ends_the_asked_worker():
    """It is not answered, and its nanny starts the worker anew."""
    worker = mock.Mock(executors={})
    request = pickle.dumps((end, []))
    with pytest.raises(ConnectionError, match="CUDA is lost"):
        asyncio.run(reduce_actor.ReduceActor(worker).answer(request))
    (close,), how = worker.loop.add_callback.call_args
    assert close is worker.close and how["nanny"] is how["executor_wait"] is False


def test_a_worker_that_retires(client):
    """The last test: it leaves a worker less. Chunks that have moved are fetched, for a graph of before."""
    x, _, asked = handled(client)
    total = gr.sum(x)
    client.retire_workers([asked])
    assert value(client, total + 2) == pytest.approx(REF.sum() + 2)
    assert value(client, gr.max(x)) == REF.max()
