"""Groups on a cluster of processes: how many tasks run, what moves, and what is left when a worker dies."""

from __future__ import annotations

import gc
import os
import signal
import time
import weakref
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.graph_manipulation import bind, clone, wait_on
from test_trees import AFFINE, compose
from tiers import in_turn, one_in, only, slow

import gpureduce_dask as gr
from gpureduce_dask.distributed import handles, workers
from gpureduce_dask.graph import sources

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def install(dask_scheduler):
    class Finished(distributed.diagnostics.plugin.SchedulerPlugin):
        name = "finished"

        def __init__(self):
            self.keys, self.graphs = [], 0

        def update_graph(self, *args, **kwargs):
            self.graphs += 1

        def transition(self, key, start, finish, *args, **kwargs):
            if (start, finish) == ("processing", "memory"):
                self.keys.append(str(key))

    if "finished" not in dask_scheduler.plugins:
        dask_scheduler.add_plugin(Finished())


def graphs(dask_scheduler):
    return dask_scheduler.plugins["finished"].graphs


def taken(dask_scheduler):
    plugin = dask_scheduler.plugins["finished"]
    keys, plugin.keys = plugin.keys, []
    return keys


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        local_cluster(4, memory_limit="2GiB") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(4, timeout=30)
        client.run_on_scheduler(install)
        yield client


def run(client, array, compute=dask.array.Array.compute):
    """The result, and the tasks that ran for it, but for handles: these are made from when the graph is built, and may
    be done before."""
    client.run_on_scheduler(taken)
    value = compute(array)
    return value, [key for key in client.run_on_scheduler(taken) if "gr-handle" not in key]


def persisted(client, x):
    x = client.persist(x)
    distributed.wait(x)
    return x


def values(shape=(16, 16), chunks=(2, 2)):
    """Integers as floats: their sums are exact, in any order, and their products finite.

    Each call's chunks have keys of their own: a scheduler may still hold handles of chunks that an earlier test, whose
    client just left, persisted.
    """
    ref = np.random.default_rng(1).choice([-1.0, 1, 2, -3], shape)
    return ref, da.from_array(ref, chunks=chunks, name=False).map_blocks(np.copy)


def test_persisted_chunks_need_few_tasks(client):
    ones = persisted(client, da.ones(256 * 64, chunks=64))
    client.run_on_scheduler(taken)
    assert gr.sum(ones).compute() == 256 * 64
    first = client.run_on_scheduler(taken)
    assert len(first) == 4 + 4 + 1  # handles, groups, and the total
    for op, want in ((gr.max, 1), (gr.var, 0), (gr.argmax, 0), (gr.sum, 256 * 64)):
        got, later = run(client, op(ones))
        assert got == want
        assert len(later) == 4 + 1


def test_the_graph_of_a_later_reduction_does_not_grow(client):
    sizes = []
    for chunks in (16, 160):
        x = persisted(client, da.ones(chunks * 8, chunks=8))
        gr.sum(x).compute()
        sizes.append(len(dict(gr.max(x).dask)))
    assert sizes[0] == sizes[1] == 4 + 4 + 4 + 1  # handles, a chunk beside each, groups, and the total


def ours(dask_scheduler):
    """What a scheduler would not have without this package."""
    found = [
        *dask_scheduler.plugins,
        *dask_scheduler.stream_handlers,
        *dask_scheduler.handlers,
        *dask_scheduler.clients,
    ]
    return [name for name in map(str, found) if name.startswith("gr")]


def test_a_scheduler_is_left_as_it_was(client):
    """Nothing of ours is installed there, for a client that comes later or a scheduler that is started anew."""
    ref, x = values()
    p = persisted(client, x)
    for op in (gr.sum, gr.max):
        assert op(p).compute() == getattr(ref, op.__name__)()
    gr.warm(client, ops=())
    assert not client.run_on_scheduler(ours)


def test_a_client_that_is_closed_is_let_go(cluster):
    """What is known of its workers does not keep it."""
    client = distributed.Client(cluster)  # not in a block, whose context would keep it a while
    known = workers.of_client(client)
    assert known.client is workers.of_client(client).client is client and known.total == 4
    client.close()
    found = weakref.ref(client)
    del client, known
    gc.collect()
    assert found() is None


def test_keys_are_those_of_the_input(client):
    """Who asks again, for the same array at the same place, gets the same result and the same handles."""
    _, x = values()
    p = persisted(client, x)
    names = gr.sum(p).name, gr.cumsum(p, axis=0).name
    gr.sum(p).compute()
    gr.max(p).compute()
    q = da.Array(dask.highlevelgraph.HighLevelGraph.from_collections(p.name, dict(p.dask)), p.name, p.chunks, p.dtype)
    assert names == (gr.sum(p).name, gr.cumsum(p, axis=0).name) == (gr.sum(q).name, gr.cumsum(q, axis=0).name)
    assert gr.sum(q).compute() == gr.sum(p).compute() and len(client.run_on_scheduler(handle_tasks)) == 4


def test_a_survey_tells_what_dask_does(client):
    _, x = values()
    p = persisted(client, x)
    client.amm.stop()  # it drops copies that nobody needs, every two seconds
    client.replicate([f for f in p.dask.values()][:5], n=3)
    known, found, nbytes = client.run_on_scheduler(workers.survey_scheduler, [(p.name, p.numblocks)] * 2)
    assert nbytes == 2 * max(
        client.run_on_scheduler(lambda dask_scheduler: [dask_scheduler.tasks[key].nbytes for key in p.__dask_graph__()])
    )
    theirs, known = client.scheduler_info(n_workers=-1), dict(known)
    assert known.pop("id") == theirs["id"]
    (known,) = known.values()
    for address, info in theirs["workers"].items():
        mine = known.pop(address)
        assert mine["nthreads"] == info["nthreads"] and mine["memory_limit"] == info["memory_limit"]
        assert mine["metrics"].keys() == {"memory", "spilled_bytes"} <= info["metrics"].keys()
    assert not known
    (sets, which), again = found
    assert again == (sets, which)
    holders = workers.survey(client, [(p.name, p.numblocks, p.dask.layers[p.name].mapping)])[1][0]
    assert [sets[i] for i in which] == holders
    assert {(p.name, *c): sorted(reduced) for c, reduced in handles.by_coords(p.numblocks, holders).items()} == {
        key: sorted(reduced) for key, reduced in client.who_has(p).items()
    }
    client.amm.start()


def test_lazy_chunks_need_few_tasks(client):
    x = da.random.default_rng(0).random((256, 64), chunks=(1, 64))
    total, tasks = run(client, gr.sum((x - 0.5) ** 2))
    assert len(tasks) == 32 + 1  # eight tasks a thread, of eight chunks
    np.testing.assert_allclose(total, ((x - 0.5) ** 2).sum().compute(scheduler="sync"))


def test_an_array_that_somebody_persisted_needs_no_more_tasks(client):
    """dask looks for none of its keys either: it fuses what makes a chunk with what reduces it."""
    x = da.random.default_rng(0).random((256, 64), chunks=(1, 64))
    p = persisted(client, x)
    total, tasks = run(client, gr.sum(x))
    assert len(tasks) == 32 + 1  # eight tasks a thread, of eight chunks
    assert total == pytest.approx(gr.sum(p).compute())


def user_function(chunk, block_info=None):
    return chunk + 1


@pytest.mark.parametrize("options", one_in(3, [{}, {"enforce_ndim": True}, {"meta": np.zeros((0, 0))}]))
def test_functions_of_persisted_chunks_end_in_several_tasks(client, options):
    """Nobody knows how long they take, and bars of progress move as tasks end."""
    p = persisted(client, da.random.default_rng(0).random((256, 64), chunks=(1, 64)))
    total, tasks = run(client, gr.sum(p.map_blocks(user_function, dtype=float, **options)))
    assert 32 < len(tasks) <= 40
    np.testing.assert_allclose(total, (p.compute() + 1).sum())
    _, few = run(client, gr.sum(np.sqrt(p.map_blocks(np.abs))))
    assert len(few) <= 5


def test_persisted_chunks_where_dask_is_told_to_use_processes(client):
    p = persisted(client, da.ones((64, 64), chunks=(8, 8)))
    with dask.config.set(scheduler="processes"):
        lazy = gr.sum(np.sqrt(p + 3))
    assert run(client, lazy)[0] == 2 * 64 * 64


def make_once(folder, block_info=None):
    (i,) = block_info[None]["chunk-location"]
    open(f"{folder}/{i}", "x").close()  # raises where it is there already
    return np.full(8, float(i))


def test_chunks_that_dask_would_find_on_the_cluster_are_not_made_again(client, tmp_path):
    x = da.map_blocks(make_once, str(tmp_path), chunks=((8,) * 16,), dtype=float, meta=np.empty(0))
    p = client.persist(x)
    total = 8 * sum(range(16))
    assert dask.compute(gr.sum(x), gr.max(x * 2)) == (total, 30)
    assert gr.sum(p).compute() == total


def test_chains_over_persisted_chunks_stay_where_these_are(client):
    ref, x = values()
    p = persisted(client, x)
    total, tasks = run(client, gr.sum((p + 1) * 2))
    assert total == ((ref + 1) * 2).sum()
    assert len(tasks) == 4 + 1
    assert not copies(client, p)


def copies(client, array):
    """Chunks that are on more than one worker."""
    return [key for key, workers in client.who_has(array).items() if len(workers) > 1]


@pytest.mark.parametrize("axis", [slow(None), 0, slow(1)], ids=str)
def test_every_row_on_persisted_chunks(client, axis):
    ref, x = values()
    p, one = persisted(client, x), da.from_array(ref, chunks=ref.shape)
    names = [n for n, row in gr.OPERATORS.items() if row.arity == 1]
    got = dask.compute(*(gr.reduction(p, n, axis=axis) for n in names))
    want = dask.compute(*(gr.reduction(one, n, axis=axis) for n in names), scheduler="sync")
    for name, a, b in zip(names, got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)
    assert not copies(client, p)


def test_slices_share_the_tasks_of_their_worker(client):
    ref, x = values()
    p = persisted(client, x)
    gr.sum(p).compute()
    got, tasks = run(client, gr.max(p, axis=0))
    np.testing.assert_array_equal(got, ref.max(0))
    assert len(tasks) == 4 + 1  # a worker, and the one that joins all blocks of the result
    reduced, tasks = run(client, gr.mean(p, axis=0), lambda x: persisted(client, x))
    np.testing.assert_array_equal(reduced.compute(), ref.mean(0))
    assert len(tasks) == 4 + 8
    least = gr.min(p, axis=0)
    (whole, more), tasks = run(client, (least, least + 1), lambda each: dask.compute(*each))
    np.testing.assert_array_equal(whole, ref.min(0))
    np.testing.assert_array_equal(more, ref.min(0) + 1)
    assert len(tasks) == 4 + 8 + 8 + 2  # others need the blocks too
    assert least.compute(optimize_graph=False).tolist() == ref.min(0).tolist()
    with dask.config.set({"gpureduce.group": 100}):
        got, tasks = run(client, gr.ptp(p, axis=0))
    np.testing.assert_array_equal(got, np.ptp(ref, 0))
    assert len(tasks) > 8 + 8


def test_slices_of_one_chunk_share_the_tasks_of_their_worker(client):
    ref, x = values((128, 6), (2, 6))
    p = persisted(client, x)
    for op in (gr.sum, gr.argmax, gr.std):
        got, tasks = run(client, op(p, axis=1))
        np.testing.assert_allclose(got, getattr(np, op.__name__)(ref, axis=1), rtol=1e-12)
        assert len(tasks) == 4 + 1
    reduced, tasks = run(client, gr.mean(p, axis=1, keepdims=True), lambda x: persisted(client, x))
    assert reduced.chunks == ((2,) * 64, (1,)) and len([key for key in tasks if "-placeholder-" not in key]) == 4 + 64
    assert len(tasks) == 5 + 64  # a scheduler sends tasks of five dependencies without waiting for others to end
    np.testing.assert_array_equal(reduced.compute(), ref.mean(1, keepdims=True))
    assert not copies(client, p)
    np.testing.assert_allclose((p - gr.mean(p, axis=1, keepdims=True)).compute(), ref - ref.mean(1, keepdims=True))


def distributed_array(client, ref, chunk):
    """An array in the workers' memory, each row of whose chunks has one more on the next worker."""
    homes = list(client.scheduler_info()["workers"])
    shape = [n // c for n, c in zip(ref.shape, chunk, strict=True)]
    name, futures = f"distributed-{time.time_ns()}", {}
    for at in np.ndindex(*shape):
        block = ref[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk, strict=True))].copy()
        futures[(name, *at)] = client.scatter(block, workers=[homes[at[0] % len(homes)]], hash=False)
    chunks = tuple((c,) * n for n, c in zip(shape, chunk, strict=True))
    return persisted(client, da.Array(futures, name, chunks, dtype=ref.dtype))  # where its chunks are


def test_large_partials_go_to_one_worker_each(client, monkeypatch):
    """Each of four sets of columns is completed by one task, of one task of each worker."""
    monkeypatch.setattr(sources, "partials_travel", lambda *_: False)
    ref, _ = values((16, 32))
    p = distributed_array(client, ref, (2, 2))
    labels = np.arange(16) % 3
    calls = {
        "mean": (lambda: gr.mean(p, axis=0), ref.mean(0)),
        "position": (lambda: gr.argmax(p, axis=0, keepdims=True), ref.argmax(0)[None]),
        "groups": (
            lambda: gr.grouped(p, labels, "sum", axis=0, num_groups=3),
            np.stack([ref[labels == i].sum(0) for i in range(3)], 1),
        ),
    }
    for name, (call, want) in calls.items():
        got, tasks = run(client, call())
        np.testing.assert_array_equal(got, want)
        assert len(tasks) == 4 * 4 + 4 + 1, (name, tasks)
        reduced, tasks = run(client, call(), lambda x: persisted(client, x))
        np.testing.assert_array_equal(reduced.compute(), want)
        assert len([key for key in tasks if "-placeholder-" not in key]) == 4 * 4 + 4 + 16, (name, tasks)
        np.testing.assert_array_equal((call() + 1).compute(), want + 1)
    found = gr.stats(p, ["mean", "max"], axis=0)
    for got, want in zip(dask.compute(*found), (ref.mean(0), ref.max(0)), strict=True):
        np.testing.assert_array_equal(got, want)
    dropped = gr.sum(p, axis=0)
    assert dropped.compute(optimize_graph=False).tolist() == ref.sum(0).tolist()
    assert not copies(client, p)


@pytest.mark.slow
def test_groups_together_are_one_task_whatever_the_order_of_the_calls(client):
    def slow(block):
        time.sleep(0.1)
        return block + 1.0

    x = da.ones((16, 16), chunks=(1, 8)).map_blocks(slow, dtype="f8")
    for n in range(4):
        pending = dask.persist(gr.sum(x, axis=1) + n, gr.max(x, axis=1) + n)
        time.sleep(0.2)  # the scheduler knows the tasks by now
        total, most = dask.compute(gr.sum(x, axis=1) * (n + 2), gr.max(x, axis=1) * (n + 2))
        assert (total == 32 * (n + 2)).all() and (most == 2 * (n + 2)).all()
        dask.compute(*pending)


def test_a_result_and_what_is_made_of_it_leave_no_task_behind(client):
    _, x = values((160, 200), (16, 20))
    x = persisted(client, x)
    spread = gr.stats(x, ["mean", "std"], axis=0)[1]
    alone, more = client.compute(spread), client.compute(spread + 1)
    np.testing.assert_allclose(alone.result() + 1, more.result())
    del alone, more
    assert left(client) == []


def left(client, seconds=5.0):
    """Our tasks that the scheduler still knows, once it has had the time to forget them; not handles to chunks."""
    end = time.monotonic() + seconds
    while True:
        gc.collect()
        found = [key for key in map(str, client.run_on_scheduler(task_keys)) if "gr-" in key and "handle" not in key]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


def task_keys(dask_scheduler):
    return list(dask_scheduler.tasks)


def test_an_array_of_no_axes_made_wider(client):
    x = persisted(client, da.from_array(np.array(3.0)))
    wide = da.broadcast_to(x, (1, 2))
    assert gr.cumsum(wide).compute().tolist() == [3, 6] and gr.sum(x[None]).compute() == 3


def test_two_results_of_a_slice_that_leaves_chunks_out(client):
    x = persisted(client, da.arange(18, chunks=3))
    assert dask.compute(gr.sum(x[:7]), gr.max(x[:7])) == (21, 6)


VIEWS = {
    "mapped": lambda x: (x + 1) * 2,
    "sliced": lambda x: x[::2, 1:],
    "transposed": lambda x: x.T,
    "turned": lambda x: x[::-1].T[:, ::-1] + 1,
    "where": lambda x: (np if isinstance(x, np.ndarray) else da).where(x > 0, x, np.nan),
    "with an axis more": lambda x: x[:, None, :, None] * 2,
}


@pytest.mark.parametrize("view", only(lambda view: view in ("mapped", "turned"), VIEWS))
def test_slices_of_views_share_the_tasks_of_their_worker(client, view):
    """Where each of their chunks is made of one, that stays where it is, and the tasks are as many as of the array."""
    ref, x = values((16, 24), (2, 3))
    p, want = persisted(client, x), VIEWS[view](ref)
    y = VIEWS[view](p)
    ops = (gr.nansum, gr.nanargmax, gr.nanstd)
    for axis in (0, want.ndim - 1):
        if want.shape[axis] == 1:
            continue
        got, tasks = run(client, gr.nanmax(y, axis=axis))
        np.testing.assert_array_equal(got, np.nanmax(want, axis))
        assert len(tasks) == 4 + 1
        several = dask.compute(*(op(y, axis=axis) for op in ops))
        for op, found in zip(ops, several, strict=True):
            np.testing.assert_allclose(found, getattr(np, op.__name__)(want, axis), rtol=1e-12, err_msg=op.__name__)
        unoptimised = gr.nanmin(y, axis=axis).compute(optimize_graph=False)
        np.testing.assert_array_equal(unoptimised, np.nanmin(want, axis))
    assert not copies(client, p)


def test_a_key_has_one_value_whatever_else_is_computed(client):
    """Groups combine more partials each where their chunks stay tasks, and others know the groups by their keys."""
    for x, want in ((da.arange(120.0, chunks=5) + 1, 7260), (persisted(client, da.arange(60.0, chunks=5)) + 1, 1830)):
        total = gr.sum(x)
        kept = persisted(client, total + 1)
        found = dask.compute(total, total + 3, x)
        assert found[:2] == (want, want + 3) and kept.compute() == want + 1
        assert found[2].sum() == want


def test_a_view_of_several_chunks_each_is_made_somewhere(client):
    ref, x = values()
    p = persisted(client, x)
    swapped = np.r_[0:2, 8:10, 2:8, 10:16]
    for y, want in (
        (p[swapped], ref[swapped]),
        (p.rechunk((4, 1)), ref),
        (da.roll(p, 1, 0), np.roll(ref, 1, 0)),
        (p[[3, 0, 9]], ref[[3, 0, 9]]),
    ):
        np.testing.assert_array_equal(gr.max(y, axis=0).compute(), want.max(0))


def test_histograms_of_chunks_in_memory_need_a_task_a_worker(client):
    ref, x = values()
    p = persisted(client, x)
    (found, _), want = gr.histogram(p, 5, (-3, 3)), np.histogram(ref, 5, (-3, 3))[0]
    got, tasks = run(client, found)
    np.testing.assert_array_equal(got, want)
    assert len(tasks) == 4 + 1
    made = client.run_on_scheduler(handle_tasks)
    got, tasks = run(client, gr.histogram(p, [-3, 0, 3])[0])
    np.testing.assert_array_equal(got, np.histogram(ref, [-3, 0, 3])[0])
    assert len(tasks) == 4 + 1
    with gr.accelerate(numpy=True):
        got, tasks = run(client, da.histogram(p * 2, 5, (-6, 6))[0])
    np.testing.assert_array_equal(got, want)
    assert len(tasks) == 4 + 1 and set(client.run_on_scheduler(handle_tasks)) <= {*made}
    assert not copies(client, p)


def test_two_arrays(client):
    ref, x = values()
    p, q = persisted(client, x), persisted(client, x + 1)
    assert gr.vdot(p, q).compute() == (ref * (ref + 1)).sum()
    np.testing.assert_allclose(gr.average(p, weights=q + 200).compute(), np.average(ref, weights=ref + 201))


@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
def test_order_is_honoured(client, axis):
    ref, x = values((12, 9), (2, 2))
    p = persisted(client, x)
    axes = (0, 1) if axis is None else (axis,)
    got = gr.reduction(p, AFFINE, axis=axis, dtype=np.int64)
    np.testing.assert_array_equal(got.compute(), compose(ref.astype(np.int64), axes))


def test_chunks_that_are_still_made(client):
    ref, x = values()
    slow = client.persist(x.map_blocks(lambda block: time.sleep(0.01) or block, meta=np.empty((0, 0))))
    assert gr.sum(slow).compute() == ref.sum()


def test_the_array_may_go_before_the_result_is_there(client):
    ref, x = values()
    p = persisted(client, x)
    future = client.compute(gr.sum(p))
    del p
    gc.collect()
    assert future.result(timeout=30) == ref.sum()
    p = persisted(client, x)
    gr.max(p).compute()
    total = gr.sum(p)
    del p
    gc.collect()
    time.sleep(0.2)
    assert total.compute() == ref.sum()


def test_copies_of_a_graph_keep_its_chunks(client):
    ref, x = values()
    p = persisted(client, x)
    y = gr.sum(p)
    copies = clone(y), bind(y, da.ones(8, chunks=4)), wait_on(y)
    del p, y
    gc.collect()
    time.sleep(0.2)
    assert [copy.compute() for copy in copies] == [ref.sum()] * 3


def handle_tasks(dask_scheduler):
    return sorted(str(k) for k in dask_scheduler.tasks if str(k).startswith("gr-handle"))


def wait_until(check, timeout=10):
    end = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_handles_are_small_shared_and_go_with_the_array(client):
    wait_until(lambda: not client.run_on_scheduler(handle_tasks))
    p = persisted(client, da.ones((64, 2**14), chunks=(1, 2**14)))
    gr.sum(p).compute()
    made = client.run_on_scheduler(handle_tasks)
    assert len(made) == 4
    gr.mean(p, axis=0).compute()
    assert client.run_on_scheduler(handle_tasks) == made
    sizes = client.run_on_scheduler(
        lambda dask_scheduler: [ts.nbytes for k, ts in dask_scheduler.tasks.items() if str(k).startswith("gr-handle")]
    )
    assert max(sizes) < 10_000
    del p
    gc.collect()
    wait_until(lambda: not client.run_on_scheduler(handle_tasks))
    assert not handles._handle_sets


def keys_and_clients(dask_scheduler):
    return sorted(map(str, dask_scheduler.tasks)), sorted(dask_scheduler.clients)


def in_memory(name, dask_scheduler):
    return sum(key[0] == name and task.state == "memory" for key, task in dask_scheduler.tasks.items())


def data(client):
    """How many results workers have."""
    return sum(client.run(lambda dask_worker: len(dask_worker.data)).values())


def test_chunks_go_with_the_array(client):
    """Handles do not keep them, and what a last result was made of goes with it."""
    wait_until(lambda: not client.run_on_scheduler(handle_tasks) and not data(client))
    _, before = client.run_on_scheduler(keys_and_clients)
    p = persisted(client, values()[1])
    gr.sum(p).compute()
    last = client.compute(gr.max(p))
    last.result()
    del p
    gc.collect()
    wait_until(lambda: data(client) == 1)
    del last
    gc.collect()
    wait_until(lambda: client.run_on_scheduler(keys_and_clients) == ([], before))


@pytest.mark.parametrize("force", [False, True])
def test_an_array_that_is_cancelled_goes_with_its_handles(client, force):
    p = persisted(client, values()[1])
    assert not handles._handle_sets
    gr.sum(p).compute()
    client.cancel(p, force=force)
    wait_until(lambda: not client.run_on_scheduler(in_memory, p.name))
    assert not client.run_on_scheduler(handle_tasks)
    with pytest.raises(gr.errors.ArgumentError, match="given up"):
        gr.max(p)


def test_a_group_on_another_worker_fetches_its_chunks(client):
    """As when the scheduler moves a task: the handle travels without its chunks."""
    ref, x = values()
    p = persisted(client, x)
    gr.sum(p).compute()
    other = list(client.nthreads())[1]
    client.run_on_scheduler(taken)
    for op, want in ((gr.max, ref.max()), (gr.argmax, ref.argmax())):
        with dask.annotate(workers=[other], allow_other_workers=False):
            assert op(p).compute(optimize_graph=False) == want
    with dask.annotate(workers=[other], allow_other_workers=False):
        got = gr.reduction(p, AFFINE, dtype=np.int64).compute(optimize_graph=False)
    assert got == compose(ref.astype(np.int64), (0, 1))


@pytest.mark.slow
def test_chunks_that_moved(client):
    ref, x = values()
    p = persisted(client, x)
    gr.sum(p).compute()
    client.replicate(p, n=2)
    assert gr.max(p).compute() == ref.max()
    q = persisted(client, x + 1)
    client.rebalance()
    assert gr.sum(q).compute() == (ref + 1).sum()


def kill_one(client):
    """End a worker's process, as the kernel does when memory runs out; its nanny starts another."""
    victim, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return victim


@pytest.mark.parametrize("handled", [True, slow(False)])
def test_a_worker_that_dies(client, handled):
    ref, x = values()
    p = persisted(client, x)
    before = gr.sum(p) if handled else None
    victim = kill_one(client)
    if before is not None:
        assert before.compute() == ref.sum()
    assert gr.max(p).compute() == ref.max()
    wait_until(lambda: victim not in client.nthreads(), 20)
    for op in (gr.min, gr.sum, gr.argmax):
        assert op(p).compute() == getattr(ref, op.__name__)()


@pytest.mark.slow
def test_two_clients_share_an_array(client, cluster):
    ref, x = values()
    p = persisted(client, x)
    client.publish_dataset(shared=p)
    with distributed.Client(cluster, set_as_default=False) as other:
        q = other.get_dataset("shared")
        client.unpublish_dataset("shared")
        assert gr.sum(p).compute() == ref.sum()
        del p
        gc.collect()
        for op in (gr.max, gr.argmin):
            assert op(q).compute(scheduler=other) == getattr(ref, op.__name__)()
        wait_until(lambda: len(client.run_on_scheduler(handle_tasks)) == 4)  # the other client's


def test_what_went_to_a_disk_is_held_by_no_handle(client, monkeypatch):
    """It must stay free to go there: its groups depend on each chunk."""
    ref, x = values()
    p, survey = persisted(client, x), workers.survey_scheduler

    def spilled(arrays, dask_scheduler):
        known, *found = survey(arrays, dask_scheduler)
        next(iter(known["workers"].values()))["metrics"]["spilled_bytes"] = {"memory": 0, "disk": 100}
        return known, *found

    monkeypatch.setattr(workers, "survey_scheduler", spilled)
    assert gr.sum(p).compute() == ref.sum()
    assert not client.run_on_scheduler(handle_tasks)


def test_a_worker_is_asked_once_for_the_package(client, monkeypatch):
    p = persisted(client, values()[1])
    gr.sum(p).compute()
    workers._answers[client].when = -workers.FRESH
    workers._answers[client].workers = None
    monkeypatch.setattr(client, "run", None)
    gr.max(p).compute()
    gr.sum(persisted(client, values()[1] + 1)).compute()


def test_a_worker_that_does_not_answer(client, monkeypatch):
    """As one that died just now, to which its scheduler would try to connect for half a minute."""
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.2)
    workers._answers.pop(client, None)
    ref, x = values()
    p = persisted(client, x)
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        total = gr.sum(p)
        assert time.monotonic() - begin < 5
    finally:
        os.kill(pid, signal.SIGCONT)
    assert total.compute() == ref.sum()


def slow_chunk(block_info=None):
    time.sleep(0.02)
    return np.full(8, block_info[None]["chunk-location"][0], float)


def test_a_worker_that_dies_while_groups_run(client):
    x = da.map_blocks(slow_chunk, chunks=((8,) * 64,), dtype=float, meta=np.empty(0))
    future = client.compute(gr.sum(x))
    time.sleep(0.15)
    kill_one(client)
    assert future.result(timeout=60) == 8 * sum(range(64))


def moved(client):
    """Bytes of partials that workers received so far."""

    def count(dask_worker):
        entries = [entry["keys"] for entry in dask_worker.transfer_incoming_log]
        return sum(n for keys in entries for key, n in keys.items() if "group" in str(key))

    return sum(client.run(count).values())


@pytest.mark.parametrize(("kind", "axis"), in_turn(["lazy", "persisted"], [None, 0]))
def test_a_plan_is_what_happens(client, kind, axis):
    _, x = values((32, 4096), (2, 512))
    x = persisted(client, x) if kind == "persisted" else x
    plan = gr.plan(x, "sum", axis=axis)
    before = moved(client)
    _, tasks = run(client, gr.sum(x, axis=axis))
    groups = [key for key in tasks if "handle" not in key]  # handles are made with the graph, maybe before it runs
    assert len(groups) == plan.tasks - plan.handles
    assert moved(client) - before <= 1.05 * plan.moved_bytes  # messages have heads
    if kind == "persisted":
        assert plan.handles == 4 and gr.plan(x, "sum").handles == 0
        assert [share.worker for share in plan.shares] == sorted(client.nthreads())
        assert (moved(client) - before) >= plan.moved_bytes / 4


def test_persist_makes_handles(client):
    ref, x = values()
    p = gr.persist(x)
    wait_until(lambda: len(client.run_on_scheduler(handle_tasks)) == 4)
    made = set(client.run_on_scheduler(handle_tasks))
    total, tasks = run(client, gr.sum(p))
    assert total == ref.sum()
    assert made == set(client.run_on_scheduler(handle_tasks))
    assert len(set(tasks) - made) == 4 + 1


def test_a_worker_that_retires(client):
    """The last test: it leaves a worker less. Chunks move, and a graph of before finds them."""
    ref, x = values()
    p = persisted(client, x)
    total = gr.sum(p)
    total.compute()
    client.retire_workers([next(iter(client.nthreads()))])
    assert gr.max(p).compute() == ref.max()
    assert (total + 1).compute() == ref.sum() + 1
    assert gr.argmin(p).compute() == ref.argmin()


@pytest.mark.slow
def test_a_scheduler_that_is_started_anew():
    """At its old address, where its client finds it again: what was believed of the first one is not asked of the
    second."""
    ref, x = values()
    port, client = 0, None
    for number in range(2):
        with local_cluster(2, processes=False, protocol="tcp", scheduler_port=port) as cluster:
            port = int(cluster.scheduler_address.rpartition(":")[2])
            client = client or distributed.Client(cluster.scheduler_address)
            client.wait_for_workers(2, timeout=30)
            for op in (gr.sum, gr.max):
                p = persisted(client, x + number)
                future = client.compute(op(p))
                assert future.result(timeout=30) == getattr(ref + number, op.__name__)()
            assert client.submit(int, pure=False).result(timeout=30) == 0
            del p, future
    client.close()


def block_of_places(block_info=None):
    about = block_info[None]
    return np.full(about["chunk-shape"], about["chunk-location"][0] + 0.5)


def unneeded(scheduler):
    return [key for key, task in scheduler.tasks.items() if not task.dependents and not task.who_wants]


def test_a_result_in_memory_is_asked_again_of_another_number_of_workers(monkeypatch):
    """A scheduler keeps how it made a result: what another plan for it needs would stay there for good."""
    monkeypatch.setattr(workers, "FRESH", 0.0)
    x = da.map_blocks(block_of_places, chunks=((50,) * 16, (40,) * 4), dtype="f8", meta=np.empty((0, 0)))
    with local_cluster(3, processes=False) as cluster, distributed.Client(cluster) as client:
        held = client.persist(gr.mean(x, axis=1))
        distributed.wait(held)
        for count in (2, 5):
            cluster.scale(count)
            while len(cluster.scheduler.workers) != count:
                time.sleep(0.05)
            assert np.array_equal(gr.mean(x, axis=1).compute(), held.compute())
        deadline = time.monotonic() + 5
        while (left := unneeded(cluster.scheduler)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


class GrowingKey(tuple):
    """A key that a scheduler learns another task beside, as soon as it is looked at."""

    def __getitem__(self, i):
        self.tasks[len(self.tasks)] = None
        return super().__getitem__(i)


class Forgetful(dict):
    """Tasks that a scheduler forgets as soon as somebody asks whether it has them."""

    def __contains__(self, key):
        return self.pop(key, None) is not None


def test_tasks_that_a_scheduler_learns_and_forgets_meanwhile(monkeypatch):
    """A graph is optimised in a thread beside that of its scheduler."""
    total = gr.sum(da.ones((40, 40), chunks=10), axis=0)
    graph, wanted = total.__dask_graph__(), {(total.name, i) for i in range(4)}
    spec = SimpleNamespace(dependencies=frozenset())
    known = SimpleNamespace(state="memory", run_spec=spec, dependencies=[SimpleNamespace(key="another")])
    GrowingKey.tasks = tasks = Forgetful({**dict.fromkeys(graph, known), GrowingKey(("another", 0)): known})
    scheduler = SimpleNamespace(tasks=tasks, status=SimpleNamespace(name="running"))
    monkeypatch.setattr(workers.private, "schedulers_here", lambda: [scheduler])
    assert workers.known_keys(graph, wanted) >= wanted
    assert workers.as_scheduled(dict(graph), wanted) == dict.fromkeys(wanted, spec)
