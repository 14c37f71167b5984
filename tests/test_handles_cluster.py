"""Handles of an array on several workers: tasks go where the chunks are, and are right whatever becomes of either."""

from __future__ import annotations

import gc
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.graph_manipulation import bind, clone
from test_cluster_grouping import install, taken, wait_until
from test_faults import wait_for_all
from test_trees import AFFINE, compose

import gpureduce_dask as gr
from gpureduce_dask.distributed import handles

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
        local_cluster(WORKERS, memory_limit="2GiB") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        wait_for_all(client)
        yield client


REF = np.random.default_rng(3).normal(size=(24, 15))


def on_workers(client, ref=REF, chunks=(2, 4)):
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


def handled(client, ref=REF, chunks=(2, 4)):
    """Chunks on every worker, their handles by worker, and the futures of these."""
    x = on_workers(client, ref, chunks)
    value(client, gr.sum(x))
    found = handles._handle_sets[id(x.dask.layers[x.name])]
    return x, found.keys, found.futures


def ask_again(x):
    """As after some seconds."""
    handles._handle_sets[id(x.dask.layers[x.name])].when = 0


def test_a_task_a_worker_where_the_chunks_are(client):
    x, ops = on_workers(client), [gr.sum, gr.var, gr.argmax, gr.mean]
    found, tasks = tasks_of(client, lambda: gr.sum(x))
    assert len(tasks) == WORKERS + WORKERS + 1  # handles, groups and the total
    found, tasks = zip(*(tasks_of(client, lambda op=op: op(x)) for op in ops), strict=True)
    assert [len(each) for each in tasks] == [WORKERS + 1] * len(ops)
    assert found[2] == REF.argmax() and found[1] == pytest.approx(REF.var())
    integers = np.arange(24 * 15).reshape(24, 15) % 5
    p = on_workers(client, integers)
    assert value(client, gr.reduction(p, AFFINE)) == compose(integers, (0, 1))
    assert value(client, gr.vdot(p, on_workers(client, integers))) == (integers * integers).sum()
    np.testing.assert_array_equal(value(client, gr.max(x, axis=1)), REF.max(1))  # by groups, each where its chunks are
    assert fetched(client) == 0


def test_a_plan_knows(client):
    x = on_workers(client)
    for made, op in ((WORKERS, gr.sum), (0, gr.argmax)):
        plan = gr.plan(x, op.__name__)
        assert plan.handles == made and plan.moved_bytes > 0 and len(plan.shares) == WORKERS
        assert plan.tasks == made + WORKERS + 1 == len(tasks_of(client, lambda op=op: op(x))[1])


def test_copies_of_its_graph(client):
    x = on_workers(client)
    y = gr.sum(x)
    copies = clone(y), bind(y, da.ones(8, chunks=4))
    for node in y.dask.layers[y.name].values():
        assert pickle.loads(pickle.dumps(node)).dependencies == node.dependencies
    del x, y
    gc.collect()
    time.sleep(0.2)
    for copy in copies:
        assert value(client, copy) == pytest.approx(REF.sum())


def test_threads_of_one_client(client):
    x = on_workers(client)
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
    del _
    if how == "cancelled":
        client.cancel(x)
    else:
        del x
        gc.collect()
    wait_until(lambda: not client.run_on_scheduler(left))


def test_groups_on_another_worker(client):
    """They fetch the chunks, and leave copies behind that others might follow, until the memory manager drops them: it
    may drop those that were there first. Where the scheduler is asked again, groups follow the chunks."""
    x, *_ = handled(client)
    before = fetched(client)
    for worker in client.nthreads():
        with pinned(worker):
            np.testing.assert_array_equal(gr.max(x, axis=0).compute(optimize_graph=False), REF.max(0))
    assert fetched(client) > before
    client.amm.run_once()
    wait_until(lambda: all(len(each) == 1 for each in client.who_has(x).values()))
    ask_again(x)
    value(client, gr.argmin(x))
    before = fetched(client)
    assert value(client, gr.argmin(x)) == REF.argmin()
    assert fetched(client) == before


def drop(key, worker, dask_scheduler):
    dask_scheduler.request_remove_replicas(worker, [key], stimulus_id="test")


@pytest.mark.parametrize("how", ["by hand", "by the memory manager"])
def test_a_handle_that_is_dropped(client, how):
    """As dask's memory manager does with what is on two workers, where the chunks may be on neither. Tasks go to the
    chunks, and a copy that comes there finds them again."""
    ref = np.random.default_rng(4).normal(size=(480, 600))
    x, keys, futures = handled(client, ref, (40, 150))  # of more bytes than a handle
    client.replicate([*futures.values()])
    assert all(len(each) == WORKERS for each in client.run_on_scheduler(homes_of_handles).values())
    if how == "by hand":
        for home, key in keys.items():
            client.run_on_scheduler(drop, key, home)
    else:
        client.amm.run_once()
    gone = WORKERS if how == "by hand" else (WORKERS - 1) * WORKERS  # of WORKERS copies of as many handles
    wait_until(lambda: sum(map(len, client.run_on_scheduler(homes_of_handles).values())) == WORKERS**2 - gone)
    before = fetched(client)
    for op in (gr.argmin, gr.max):
        found, tasks = tasks_of(client, lambda op=op: op(x))
        assert found == getattr(ref, op.__name__)()
        assert not any("again" in str(key) for key in tasks)
    np.testing.assert_array_equal(value(client, gr.max(x[1::2], axis=0)), ref[1::2].max(0))
    assert fetched(client) == before


def test_a_chunk_that_moves_from_its_worker(client):
    """It is fetched, and the others are read where they are."""
    x, keys, _ = handled(client)
    home, other = list(keys)[:2]
    chunk = next(f for f in distributed.futures_of(x) if home in client.who_has([f])[f.key])
    client.replicate([chunk, *_.values()], workers=[home, other])
    client.run_on_scheduler(drop, chunk.key, home)
    client.run_on_scheduler(drop, keys[home], home)
    wait_until(lambda: home not in client.who_has([chunk])[chunk.key])
    for op in (gr.argmin, gr.max):
        assert value(client, op(x)) == getattr(REF, op.__name__)()
    ask_again(x)
    for op in (gr.argmin, gr.max):
        before = fetched(client)
        assert value(client, op(x)) == getattr(REF, op.__name__)()
    assert fetched(client) == before


def narrow(block, block_info=None):
    return block.astype(complex) if block_info[0]["chunk-location"] == (5, 2) else block


def test_a_chunk_that_cannot_be_reduced_is_named(client):
    x = client.persist(on_workers(client).map_blocks(narrow, dtype=float, meta=np.empty((0, 0)), name="tiles"))
    distributed.wait(x, timeout=PATIENCE)
    (home,) = client.who_has(x)["tiles", 5, 2]
    for worker in client.nthreads():
        with (
            pytest.raises(gr.errors.DtypeError, match="complex128") as caught,
            dask.annotate(workers=[worker], allow_other_workers=False),
        ):
            value(client, gr.sum(x))
        assert "while reducing ('tiles', 5, 2)" in caught.value.__notes__, worker == home


def late(block):
    time.sleep(0.5)
    return block


def test_an_array_that_goes_while_it_is_reduced(client):
    """Workers are busy when its tasks come, and the array is gone before they run."""
    x, *_ = handled(client)
    del _
    slow = [client.submit(late, i, workers=[w], pure=False) for i, w in enumerate(client.nthreads())]
    future = client.compute(gr.max(x))
    del x
    gc.collect()
    assert future.result(timeout=PATIENCE) == REF.max()
    client.gather(slow)


def scattered(client, each):
    """So many chunks on each worker, that nobody could make again."""
    futures = {}
    for worker in client.nthreads():
        keys = [("tiles", len(futures) + i) for i in range(each)]
        futures |= client.scatter({key: np.arange(5.0) + key[1] for key in keys}, workers=[worker])
    return da.Array(futures, "tiles", ((5,) * len(futures),), float)


@pytest.mark.parametrize("chunks", [(8, 8), (2, 4)])
def test_functions_of_an_array_and_its_results(client, chunks):
    """A graph that has handles and chunks beside them, here once as many as the array has chunks, says still which
    worker has what a chunk is made of."""
    x = on_workers(client, REF, chunks)
    mean = gr.mean(x)
    z = x - mean
    if chunks == (8, 8):
        assert len(mean.dask.layers[f"{mean.name}-handles-0"]) == x.npartitions
    found, _ = handles.origins(z)
    assert found == handles._handle_sets[id(x.dask.layers[x.name])].holders
    assert value(client, gr.sum(z * z)) == pytest.approx(REF.var() * REF.size)
    np.testing.assert_allclose(value(client, gr.cumsum(z, axis=0))[-1], REF.sum(0) - 24 * REF.mean(), atol=1e-9)


def test_a_graph_keeps_the_chunks(client):
    """As dask's own does: copies of handles find those that nobody could make again."""
    x = scattered(client, 4)
    value(client, gr.sum(x))
    found = handles._handle_sets[id(x.dask.layers[x.name])]
    keys, largest = found.keys, gr.max(x)
    client.replicate([*found.futures.values()])
    for home, key in keys.items():
        client.run_on_scheduler(drop, key, home)
    wait_until(lambda: not any(home in places for home, places in homes(client, keys)))
    del x, found
    gc.collect()
    time.sleep(0.2)
    assert value(client, largest) == 4 * WORKERS + 3


def homes(client, keys):
    """For each worker those that have its handle."""
    places = client.run_on_scheduler(homes_of_handles)
    return [(home, places[key]) for home, key in keys.items()]


def test_handles_of_unknown_sizes_are_made_once(client):
    x = on_workers(client, REF.ravel(), 12)
    x = client.persist(x[x > 0])
    distributed.wait(x, timeout=PATIENCE)
    found = []
    for op in (gr.sum, gr.max, gr.min):
        assert value(client, op(x)) == pytest.approx(getattr(REF[REF > 0], op.__name__)())
        found.append(handles._handle_sets[id(x.dask.layers[x.name])])
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize("count", [2, None])
def test_chunks_that_move_before_a_handle_is_made(client, monkeypatch, count):
    """It takes them from where they are."""
    x, submit = on_workers(client), handles.HandleSet.submit

    def late(*args):
        monkeypatch.setattr(handles.HandleSet, "submit", submit)
        mine, other = sorted(client.nthreads())[1:]
        some = [key for key, places in client.who_has(x).items() if mine in map(str, places)][:count]
        client.replicate([f for f in distributed.futures_of(x) if f.key in some], workers=[mine, other])
        for key in some:
            client.run_on_scheduler(drop, key, mine)
        wait_until(lambda: not any(mine in places for key, places in client.who_has(x).items() if key in some))
        return submit(*args)

    monkeypatch.setattr(handles.HandleSet, "submit", late)
    assert value(client, gr.sum(x)) == pytest.approx(REF.sum())
    np.testing.assert_array_equal(value(client, gr.min(x, axis=1)), REF.min(1))


def test_a_worker_that_retires(client):
    """The last test: it leaves a worker less. Chunks that have moved are fetched, for a graph of before."""
    x, keys, _ = handled(client)
    total = gr.sum(x)
    client.retire_workers([list(keys)[1]])
    assert value(client, total + 2) == pytest.approx(REF.sum() + 2)
    assert value(client, gr.max(x)) == REF.max()
