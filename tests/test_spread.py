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
from test_cluster_grouping import install, stumble, taken, wait_until
from test_faults import wait_for_all
from test_trees import AFFINE, compose

import gpureduce_dask as gr
from gpureduce_dask.trees import desk, scheduler, spread
from gpureduce_dask.trees import held as held_handles

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
    pays = spread.pays
    monkeypatch.setattr(spread, "pays", lambda homes, known, _: pays(homes, known, True))
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


def handles(dask_scheduler):
    """Where each handle is."""
    tasks = {k: task for k, task in dask_scheduler.tasks.items() if str(k).startswith("gr-handle")}
    return {k: [w.address for w in task.who_has or ()] for k, task in tasks.items() if not k.endswith("-all")}


def list_of(x):
    """The key of the list of an array's handles."""
    known = held_handles._held[id(x.dask.layers[x.name])]
    return known.key if isinstance(known, held_handles.Ordered) else known.roster.key


def lead_and_asked(client, x):
    """The worker that the tasks of the last array run on, and another one."""
    roster = list_of(x)
    (lead,) = client.run_on_scheduler(lambda dask_scheduler: [w.address for w in dask_scheduler.tasks[roster].who_has])
    return lead, next(w for w in client.nthreads() if w != lead)


def on_request(client, worker, what):
    """Let a worker do something before it answers once."""

    def change(dask_worker):
        answer = dask_worker.handlers[desk.OPERATION]

        async def changed(request):
            dask_worker.handlers[desk.OPERATION] = answer
            await what()
            return await answer(request)

        changed.__self__ = answer.__self__
        dask_worker.handlers[desk.OPERATION] = changed

    client.run(change, workers=[worker])


async def die():
    os._exit(1)


async def doze():
    await asyncio.sleep(0.5)


def listed(client, ref=REF):
    """Chunks on every worker, with a list of their handles, as after two reductions."""
    x = held(client, ref)
    for op in (gr.sum, gr.min):
        value(client, op(x))
    wait_until(lambda: all(len(places) == 1 for places in client.run_on_scheduler(handles).values()))
    return x


@pytest.fixture
def unmade(client, monkeypatch):
    """Chunks on every worker, of whose handles there is a list alone, as until a moment after the first reduction."""
    listed(client)
    gc.collect()
    monkeypatch.setattr(held_handles, "SOON", PATIENCE)
    return held(client)


def test_the_first_reduction_of_the_next_array(client, unmade):
    found, tasks = tasks_of(client, lambda: gr.sum(unmade))
    assert found == pytest.approx(REF.sum()) and len(tasks) == 2  # the list and the total
    assert gr.plan(unmade, "max").tasks == len(tasks_of(client, lambda: gr.max(unmade))[1]) == 1
    assert not client.run_on_scheduler(handles)
    np.testing.assert_array_equal(value(client, gr.max(unmade, axis=1)), REF.max(1))
    assert len(client.run_on_scheduler(handles)) == WORKERS  # made for the groups
    x = held(client)
    assert gr.plan(x, "min").handles == 1
    np.testing.assert_array_equal(value(client, gr.min(x, axis=0)), REF.min(0))
    assert value(client, gr.vdot(x, unmade)) == pytest.approx((REF * REF).sum())
    assert fetched(client) == 0


def test_the_first_array_of_a_warm_client(client, monkeypatch):
    monkeypatch.setattr(held_handles, "SOON", PATIENCE)
    gr.warm(client, ops=())
    x = held(client)
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert found == pytest.approx(REF.sum()) and len(tasks) == 2


def test_nobody_is_asked(client, unmade, monkeypatch):
    """Whatever is reduced to little, in order or not, again and again until it is heard of the handles."""
    wrapped = client.run_on_scheduler
    integers = np.arange(24 * 15).reshape(24, 15) % 5
    p, rows = held(client, integers, (2, 15)), held(client, REF, (2, 15))
    asked, before = [], fetched(client)
    monkeypatch.setattr(client, "run_on_scheduler", lambda *args: asked.append(args) or wrapped(*args))
    assert value(client, gr.sum(unmade)) == pytest.approx(REF.sum())
    assert value(client, gr.argmax(unmade)) == REF.argmax()
    assert value(client, gr.reduction(p, AFFINE)) == compose(integers, (0, 1))
    np.testing.assert_array_equal(value(client, gr.max(rows, axis=0)), REF.max(0))
    assert not asked
    assert not client.run_on_scheduler(handles) and fetched(client) == before
    asked.clear()
    np.testing.assert_array_equal(value(client, gr.max(unmade, axis=1)), REF.max(1))
    assert [function for function, *_ in asked] == [scheduler.listed]
    assert value(client, gr.max(unmade)) == REF.max() and len(asked) == 1


@pytest.mark.parametrize("where", ["one", "two"])
def test_chunks_that_lie_on_some_workers(client, unmade, where):
    some = sorted(client.nthreads())[-1:] if where == "one" else sorted(client.nthreads())[1:]
    with dask.annotate(workers=some, allow_other_workers=False):
        x = client.persist(da.from_array(REF * 2, chunks=(2, 4)).map_blocks(np.copy), optimize_graph=False)
    distributed.wait(x, timeout=PATIENCE)
    before = fetched(client)
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert found == pytest.approx(2 * REF.sum()) and len(tasks) == 2
    np.testing.assert_array_equal(value(client, gr.max(x, axis=1)), 2 * REF.max(1))
    assert len(client.run_on_scheduler(handles)) == len(some)
    assert fetched(client) == before


def test_a_worker_that_nobody_has_met(client, unmade, monkeypatch):
    """It could not be asked, so the list waits until its handle is made, and its desk with it."""
    new = sorted(client.nthreads())[1]
    client.run(forget, workers=[new])
    met = held_handles.met(client) - {new}
    monkeypatch.setitem(held_handles._met, client, set(met))
    x, before = held(client, REF + 1), fetched(client)
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert found == pytest.approx((REF + 1).sum()) and len(tasks) == WORKERS + 2
    assert value(client, gr.max(x)) == (REF + 1).max() and fetched(client) == before


def lose(key, dask_scheduler):
    """As when its worker has just died."""
    dask_scheduler.transitions({key: "released"}, "test")


def test_a_chunk_that_is_lost_just_then(client, unmade, monkeypatch):
    """It is made again, and the list waits for it."""
    x, begin = held(client, REF + 4), held_handles.workers.order
    key = next(f.key for f in distributed.futures_of(x))

    def late(*args):
        client.run_on_scheduler(lose, key)
        return begin(*args)

    monkeypatch.setattr(held_handles.workers, "order", late)
    assert value(client, gr.sum(x)) == pytest.approx((REF + 4).sum())
    np.testing.assert_array_equal(value(client, gr.max(x, axis=1)), (REF + 4).max(1))


def give_up(keys, client, dask_scheduler):
    dask_scheduler.stimulus_cancel(keys, client, force=True, reason="test", msg="")


def test_chunks_that_are_cancelled_just_then(client, unmade, monkeypatch):
    x, begin = held(client, REF + 3), held_handles.workers.order

    def late(*args):
        client.run_on_scheduler(give_up, [*x.dask], client.id)
        return begin(*args)

    monkeypatch.setattr(held_handles.workers, "order", late)
    with pytest.raises(distributed.client.FutureCancelledError):
        value(client, gr.sum(x))
    monkeypatch.setattr(held_handles.workers, "order", begin)
    assert value(client, gr.sum(held(client, REF + 2))) == pytest.approx((REF + 2).sum())


def test_handles_follow_the_list(client, unmade, monkeypatch):
    monkeypatch.setattr(held_handles, "SOON", 0.01)
    x = held(client)
    assert value(client, gr.sum(x)) == pytest.approx(REF.sum())
    wait_until(lambda: len(client.run_on_scheduler(handles)) == WORKERS)
    assert value(client, gr.max(x)) == REF.max()
    assert fetched(client) == 0


def test_an_array_that_goes_before_its_handles_are_made(client, unmade):
    x = held(client)
    total = gr.sum(x)
    for worker in client.nthreads():
        on_request(client, worker, doze)
    future = client.compute(total)
    del total, x
    gc.collect()
    assert future.result(timeout=PATIENCE) == pytest.approx(REF.sum())


def test_one_task_and_the_same_bits(client, monkeypatch):
    x, ops = held(client), [gr.sum, gr.var, gr.argmax, gr.mean]
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert len(tasks) == WORKERS + 1  # handles and the total
    found, tasks = tasks_of(client, lambda: gr.min(x))
    assert len(tasks) == 2  # and a list of the handles
    found, tasks = zip(*(tasks_of(client, lambda op=op: op(x)) for op in ops), strict=True)
    assert [len(each) for each in tasks] == [1] * len(ops)
    found = [*found, *dask.compute(*gr.stats(x, ["min", "std"]))]
    assert dask.compute(*(op(x) for op in ops)) == tuple(found[:4])
    integers = np.arange(24 * 15).reshape(24, 15) % 5
    p = held(client, integers)
    assert value(client, gr.reduction(p, AFFINE)) == compose(integers, (0, 1))
    assert value(client, gr.vdot(p, held(client, integers))) == (integers * integers).sum()
    wait_until(lambda: all(len(places) == 1 for places in client.run_on_scheduler(handles).values()))
    monkeypatch.setattr(spread, "MOST_BYTES", 0)
    want = [value(client, op(x)) for op in ops]
    want += dask.compute(*gr.stats(x, ["min", "std"]))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert fetched(client) == 0


def test_where_it_pays():
    known = gr.trees.workers.Workers({"a": 1, "b": 1, "c": 2})
    assert spread.pays(["a", "b"], known, True)
    for homes, is_device in ((["a"], True), (["a", "c"], True), (["a", "b"], False)):
        assert not spread.pays(homes, known, is_device)


def test_a_plan_knows(client):
    x = held(client)
    for handles, op in ((WORKERS, gr.sum), (1, gr.max), (0, gr.argmax)):
        plan = gr.plan(x, op.__name__)
        assert plan.handles == handles and plan.moved_bytes > 0 and len(plan.shares) == WORKERS
        assert plan.tasks == handles + 1 == len(tasks_of(client, lambda op=op: op(x))[1])


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
    x = listed(client)
    for worker in client.nthreads():
        on_request(client, worker, doze)
    futures = [
        client.compute(op(x), workers=[worker], allow_other_workers=False)
        for worker, op in zip(client.nthreads(), (gr.max, gr.min, gr.argmax), strict=True)
    ]
    assert [f.result(timeout=PATIENCE) for f in futures] == [REF.max(), REF.min(), REF.argmax()]
    assert fetched(client) == 0


def test_first_reductions_in_several_threads(client, monkeypatch):
    """While it is heard of the handles of others."""
    gr.warm(client, ops=())
    monkeypatch.setattr(held_handles, "SOON", 0.001)
    arrays = [held(client, REF + i) for i in range(12)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda x: value(client, gr.max(x)), arrays * 2)]
    assert found == [REF.max() + i for i in range(12)] * 2
    assert time.perf_counter() - begin < gr.trees.workers.ANSWER_SECONDS  # nobody waited for a lock


def test_threads_of_one_client(client):
    x = held(client)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda op: float(value(client, op(x))), [gr.sum, gr.max] * 6))) == 2


def left(dask_scheduler):
    """Handles, lists of them and chunks, and who wants them."""
    keys = [str(key) for key in dask_scheduler.tasks if "copy" in str(key) or str(key).startswith("gr-")]
    return keys + [name for name in dask_scheduler.clients if name == "gr-handles"]


@pytest.mark.parametrize("how", ["deleted", "cancelled"])
def test_all_goes_with_the_array(client, how):
    wait_until(lambda: not client.run_on_scheduler(left))
    x = listed(client)
    assert client.run_on_scheduler(left)
    if how == "cancelled":
        client.cancel(x)
    else:
        del x
        gc.collect()
    wait_until(lambda: not client.run_on_scheduler(left))


def test_groups_on_another_worker(client):
    """As where a copy of a handle drew them there: their chunks stay where they are."""
    x = listed(client)
    before = fetched(client)
    for worker in client.nthreads():
        with dask.annotate(workers=[worker], allow_other_workers=False):
            np.testing.assert_array_equal(gr.max(x, axis=0).compute(optimize_graph=False), REF.max(0))
    assert fetched(client) == before


def drop(key, worker, dask_scheduler):
    dask_scheduler.request_remove_replicas(worker, [key], stimulus_id="test")


def test_a_handle_that_is_dropped(client):
    """As dask's memory manager does with what is on two workers: its home finds the chunks again."""
    x = listed(client)
    lead, asked = lead_and_asked(client, x)
    (key,) = [key for key, where in client.run_on_scheduler(handles).items() if where == [asked]]
    client.replicate([held_handles._held[id(x.dask.layers[x.name])].futures[key]], workers=[lead])
    client.run_on_scheduler(drop, key, asked)
    sent = fetched(client)
    for worker in client.nthreads():
        with dask.annotate(workers=[worker], allow_other_workers=False):
            assert value(client, gr.argmin(x)) == REF.argmin()
    assert fetched(client) == sent


def forget(dask_worker):
    del dask_worker.handlers[desk.OPERATION]


def test_a_worker_that_does_not_know_the_question(client):
    x = listed(client)
    _, asked = lead_and_asked(client, x)
    client.run(forget, workers=[asked])
    assert value(client, gr.max(x)) == REF.max()
    assert fetched(client)
    assert value(client, gr.sum(held(client))) == pytest.approx(REF.sum())  # it knows again


def test_a_worker_that_takes_too_long(client):
    x = listed(client)
    _, asked = lead_and_asked(client, x)
    on_request(client, asked, doze)

    def hasten(seconds):
        desk.PATIENCE = seconds

    client.run(hasten, 0.1)
    before = fetched(client)
    try:
        assert value(client, gr.max(x)) == REF.max()
    finally:
        client.run(hasten, desk.PATIENCE)
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
    x = listed(client)
    for worker in client.nthreads():
        on_request(client, worker, doze)
    future = client.compute(gr.max(x))
    del x
    gc.collect()
    assert future.result(timeout=PATIENCE) == REF.max()


def check_again(client, x, total):
    """After a loss: right, and soon as quick as before, for a graph of before and for new ones."""
    assert value(client, total) == pytest.approx(REF.sum())
    assert value(client, gr.max(x)) == REF.max()
    client.wait_for_workers(WORKERS, timeout=PATIENCE)
    before = fetched(client)
    assert value(client, total + 0) == pytest.approx(REF.sum())
    assert fetched(client) == before


def test_the_asked_worker_dies(client):
    x = listed(client)
    total = gr.sum(x)
    _, asked = lead_and_asked(client, x)
    on_request(client, asked, die)
    assert value(client, gr.argmax(x)) == REF.argmax()
    check_again(client, x, total)


def test_the_asking_worker_dies(client):
    x = listed(client)
    total = gr.sum(x)
    lead, asked = lead_and_asked(client, x)
    on_request(client, asked, doze)
    pid = client.run(os.getpid, workers=[lead])[lead]
    with dask.annotate(workers=[lead], allow_other_workers=True):
        future = client.compute(gr.argmax(x))
    time.sleep(0.2)
    os.kill(pid, 9)
    assert future.result(timeout=PATIENCE) == REF.argmax()
    check_again(client, x, total)


@pytest.mark.parametrize("who", ["lead", "asked"])
def test_a_worker_dies_before_handles_are_made(client, unmade, who):
    total = gr.sum(unmade)
    roster = list_of(unmade)
    wait_until(lambda: client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[roster].state == "memory"))
    lead, asked = lead_and_asked(client, unmade)
    on_request(client, asked, die if who == "asked" else doze)
    pid = client.run(os.getpid, workers=[lead])[lead]
    future = client.compute(gr.argmax(unmade))
    if who == "lead":
        time.sleep(0.2)
        os.kill(pid, 9)
    assert future.result(timeout=PATIENCE) == REF.argmax()
    check_again(client, unmade, total)


@pytest.mark.parametrize("count", [2, None])
def test_chunks_that_move_before_a_handle_is_made(client, unmade, monkeypatch, count):
    """It waits for them, and is whole, elsewhere if need be: reductions find it so ever after."""
    x, begin = held(client), held_handles.workers.start

    def late(*args):
        monkeypatch.setattr(held_handles.workers, "start", begin)
        mine, other = sorted(client.nthreads())[1:]  # the first makes the list
        some = [key for key, places in client.who_has(x).items() if mine in map(str, places)][:count]
        client.replicate([f for f in distributed.futures_of(x) if f.key in some], workers=[mine, other])
        for key in some:
            client.run_on_scheduler(drop, key, mine)
        wait_until(lambda: not any(mine in places for key, places in client.who_has(x).items() if key in some))
        return begin(*args)

    monkeypatch.setattr(held_handles.workers, "start", late)
    np.testing.assert_array_equal(value(client, gr.max(x, axis=1)), REF.max(1))
    sent = fetched(client)
    assert value(client, gr.sum(x)) == pytest.approx(REF.sum())
    np.testing.assert_array_equal(value(client, gr.min(x, axis=1)), REF.min(1))
    assert fetched(client) == sent


def test_handles_that_nobody_waits_for(client, monkeypatch):
    """From the second array on: they are asked for ahead of the graph that needs them, in the same stream."""
    assert value(client, gr.sum(held(client))) == pytest.approx(REF.sum())
    monkeypatch.setattr(client, "run_on_scheduler", only_survey(client.run_on_scheduler))
    for _ in range(3):
        assert value(client, gr.max(held(client))) == REF.max()


def only_survey(run):
    def only(function, *args):
        assert function is scheduler.survey
        return run(function, *args)

    return only


def test_handles_that_cannot_be_made(client):
    """They are cancelled, and with them what needs them, but not the connection: the next reduction makes others."""
    x = held(client)
    assert value(client, gr.sum(held(client, REF + 1))) == pytest.approx(REF.sum() + REF.size)
    client.run_on_scheduler(stumble)
    with pytest.raises(distributed.client.FutureCancelledError):
        value(client, gr.max(x))
    assert value(client, gr.max(x)) == REF.max()


def end(handles):
    raise SystemExit("CUDA is lost")


def test_a_fault_that_ends_the_asked_worker():
    """It is not answered, and its nanny starts the worker anew."""
    worker = mock.Mock()
    request = pickle.dumps((end, []))
    with pytest.raises(distributed.comm.core.CommClosedError, match="CUDA is lost"):
        asyncio.run(desk.Desk(worker).answer(request))
    (close,), how = worker.loop.add_callback.call_args
    assert close is worker.close and how["nanny"] is how["executor_wait"] is False


def test_a_worker_that_retires(client):
    """The last test: it leaves a worker less. Chunks that have moved are fetched, for a graph of before."""
    x = listed(client)
    total = gr.sum(x)
    _, asked = lead_and_asked(client, x)
    client.retire_workers([asked])
    assert value(client, total + 2) == pytest.approx(REF.sum() + 2)
    assert value(client, gr.max(x)) == REF.max()
