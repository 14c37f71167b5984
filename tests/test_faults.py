"""What happens to reductions on a cluster of processes when workers die, join or restart, and when a chunk raises.

The result is right or one error names the chunk, and nothing hangs: every wait here has an end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from tiers import only

import gpureduce_dask as gr
from gpureduce_dask.distributed import handles

distributed = pytest.importorskip("distributed")

WORKERS = 3
ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))  # how often each fault comes
PATIENCE = 60  # seconds until a result counts as never coming
OPS = (gr.sum, gr.max, gr.argmin, gr.var)


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        local_cluster(WORKERS, memory_limit="2GiB") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(WORKERS, timeout=PATIENCE)
        yield client


def make(delay=0.0, block_info=None):
    """Chunk i holds 32 elements from 32 i on."""
    time.sleep(delay)
    start = block_info[None]["array-location"][0][0]
    return np.arange(start, start + 32, dtype=float)


def made(chunks=48, delay=0.0):
    return da.map_blocks(make, delay, chunks=((32,) * chunks,), dtype=float, meta=np.empty(0))


def on_workers(client, chunks=48):
    x = client.persist(made(chunks))
    distributed.wait(x, timeout=PATIENCE)
    return x


def check(client, x, ops=OPS):
    """Several reductions at once, each right."""
    futures = client.compute([op(x) for op in ops])
    ref = np.arange(float(x.shape[0]))
    for op, future in zip(ops, futures, strict=True):
        np.testing.assert_allclose(future.result(timeout=PATIENCE), getattr(np, op.__name__)(ref), rtol=1e-12)


def kill(client, count=1):
    """End workers as the kernel does when memory runs out; nannies start others in their place."""
    for pid in list(client.run(os.getpid).values())[:count]:
        os.kill(pid, signal.SIGKILL)


def wait_for_all(client):
    """Until as many workers as ever answer. A nanny whose worker dies in its first moments starts no other."""
    end, patience = time.monotonic() + PATIENCE, time.monotonic() + 10
    while True:
        try:
            if len(client.run(os.getpid, on_error="ignore")) >= WORKERS:
                return
        except OSError:  # one of them went just now
            pass
        assert time.monotonic() < end
        if time.monotonic() > patience:
            client.cluster.scale(len(client.cluster.worker_spec) + 1)
            patience = end
        time.sleep(0.1)


def killed_while_groups_run(client):
    x = made(delay=0.01)
    future = client.compute(gr.sum(x))
    time.sleep(0.1)
    kill(client)
    assert future.result(timeout=PATIENCE) == x.shape[0] * (x.shape[0] - 1) / 2


def killed_with_chunks_that_handles_refer_to(client):
    x = on_workers(client)
    check(client, x, OPS[:1])
    kill(client)
    check(client, x)


def killed_before_the_first_reduction(client):
    x = on_workers(client)
    kill(client)
    check(client, x)


def killed_while_handles_are_read(client):
    x = gr.persist(made())
    futures = client.compute([gr.sum(x + i) for i in range(8)])
    kill(client)
    total = x.shape[0] * (x.shape[0] - 1) / 2
    for i, future in enumerate(futures):
        assert future.result(timeout=PATIENCE) == total + i * x.shape[0]


def two_killed_at_once(client):
    x = on_workers(client)
    check(client, x, OPS[:1])
    kill(client, 2)
    check(client, x)


def killed_between_the_survey_and_the_handles(client):
    """What the scheduler said of the chunks no longer holds."""
    x, start = on_workers(client), handles.HandleSet.submit

    def late(*args):
        kill(client)
        return start(*args)

    with mock.patch.object(handles.HandleSet, "submit", late):
        check(client, x, OPS[:1])
    check(client, x)


def killed_after_the_array_is_gone(client):
    """While groups run, and chunks are kept by the handles alone."""
    x = on_workers(client)
    future = client.compute(gr.sum(x.map_blocks(pause, meta=np.empty(0))) + gr.max(x))
    del x
    time.sleep(0.1)
    kill(client)
    assert future.result(timeout=PATIENCE) == sum(range(48 * 32)) + 48 * 32 - 1


def killed_with_chunks_that_copies_of_handles_refer_to(client):
    """A copy is as good as its chunks, which are made again meanwhile."""
    x = client.persist(made(delay=0.02))
    distributed.wait(x, timeout=PATIENCE)
    total = gr.sum(x)
    client.replicate([*handles._handle_sets[id(x.dask.layers[x.name])].futures.values()])
    kill(client)
    assert client.compute(total).result(timeout=PATIENCE) == sum(range(48 * 32))


def pause(block):
    time.sleep(0.02)
    return block


def moved_between_the_survey_and_the_handles(client):
    x, start = on_workers(client), handles.HandleSet.submit

    def late(*args):
        client.replicate(x, n=2)
        client.rebalance()
        return start(*args)

    with mock.patch.object(handles.HandleSet, "submit", late):
        check(client, x, OPS[:1])
    check(client, x)


FAULTS = (
    killed_while_groups_run,
    killed_with_chunks_that_handles_refer_to,
    killed_before_the_first_reduction,
    killed_while_handles_are_read,
    two_killed_at_once,
    killed_between_the_survey_and_the_handles,
    killed_after_the_array_is_gone,
    killed_with_chunks_that_copies_of_handles_refer_to,
    moved_between_the_survey_and_the_handles,
)


QUICK = (killed_while_groups_run, killed_with_chunks_that_handles_refer_to, moved_between_the_survey_and_the_handles)


@pytest.mark.slow
def test_workers_that_are_restarted(client):
    """Chunks are gone, and with them the array: an error that says so, and the next array is as good as ever.

    The first test, for a scheduler waits in vain for nannies whose workers were killed shortly before.
    """
    x = on_workers(client)
    check(client, x, OPS[:1])
    client.restart(timeout=PATIENCE, wait_for_workers=True)
    with pytest.raises(gr.errors.ArgumentError, match=r"chunk .'make-.*given up"):
        gr.max(x)
    check(client, on_workers(client))


@pytest.mark.parametrize("fault", only(lambda fault: fault in QUICK, FAULTS), ids=lambda f: f.__name__)
def test_a_worker_that_is_killed(client, fault, capsys):
    for _ in range(ROUNDS):
        fault(client)
        wait_for_all(client)
    with capsys.disabled():
        print(f"\n{fault.__name__}: {ROUNDS} times, every result right")


@pytest.mark.slow
def test_a_worker_that_joins_late(client, cluster):
    x = on_workers(client)
    check(client, x, OPS[:1])
    slow = client.compute(gr.sum(made(96, 0.01)))
    there = len(client.nthreads())
    cluster.scale(len(cluster.worker_spec) + 1)  # where a nanny has given up before, it counts among these
    check(client, x)
    client.wait_for_workers(there + 1, timeout=PATIENCE)
    assert slow.result(timeout=PATIENCE) == sum(range(96 * 32))
    check(client, x)
    time.sleep(2.1)  # until the answer of the scheduler is no longer fresh
    y = on_workers(client)
    shares = {share.worker for share in gr.plan(y, "sum").shares}
    assert shares == {w for workers in client.who_has(y).values() for w in workers}
    check(client, y)
    cluster.scale(WORKERS)
    check(client, y)


def refuse(block, error, block_info=None):
    if block_info[0]["chunk-location"] == (5,):
        raise error
    return block


@pytest.mark.parametrize("error", [ValueError("no such tile"), MemoryError("out of memory")], ids=repr)
def test_a_chunk_that_raises_is_named(client, error):
    x = made(16).map_blocks(refuse, error, meta=np.empty(0), name="tiles")
    with pytest.raises(type(error), match=str(error)) as caught:
        client.compute(gr.sum(x)).result(timeout=PATIENCE)
    assert any("while making ('gr-sum-chunk" in note and "5)" in note for note in caught.value.__notes__)
    check(client, made())


def narrow(block, block_info=None):
    """One chunk is of another dtype than the array's."""
    return block.astype(complex) if block_info[0]["chunk-location"] == (5,) else block


@pytest.mark.parametrize("where", ["cluster", "here"])
def test_a_chunk_in_memory_that_cannot_be_reduced_is_named(client, where):
    x = made(16).map_blocks(narrow, dtype=float, meta=np.empty(0), name="tiles")
    x = client.persist(x) if where == "cluster" else x.persist(scheduler="sync")
    if where == "cluster":
        distributed.wait(x, timeout=PATIENCE)
    with pytest.raises(gr.errors.DtypeError, match="complex128") as caught:
        client.compute(gr.sum(x)).result(timeout=PATIENCE)
    assert "while reducing ('tiles', 5)" in caught.value.__notes__


def run_out_once(block, mark, block_info=None):
    """As an allocation that fails until the pool has given back what it keeps."""
    if block_info[0]["chunk-location"] == (5,) and not os.path.exists(mark):
        open(mark, "w").close()
        raise MemoryError("out of memory")
    return block


def test_memory_that_suffices_the_second_time(client, tmp_path):
    x = made(16).map_blocks(run_out_once, str(tmp_path / "mark"), meta=np.empty(0))
    wanted = client.compute(gr.sum(made(16))).result(timeout=PATIENCE)
    assert client.compute(gr.sum(x)).result(timeout=PATIENCE) == wanted
    assert (tmp_path / "mark").exists()


def test_chunks_that_nobody_can_make_again(client):
    """Their worker takes them along: dask says which, and nothing waits for them."""
    futures = client.scatter([np.ones(8)] * 6, broadcast=False)
    parts = [da.from_delayed(dask.delayed(f), (8,), float) for f in futures]
    x = client.persist(da.concatenate(parts))
    distributed.wait(x, timeout=PATIENCE)
    assert client.compute(gr.sum(x)).result(timeout=PATIENCE) == 48
    kill(client)
    try:
        assert client.compute(gr.max(x)).result(timeout=PATIENCE) == 1  # where the worker that is killed has none
    except (distributed.client.FutureCancelledError, RuntimeError) as error:
        assert "hlgfinalize" in str(error) or "ndarray" in str(error)
    wait_for_all(client)


@pytest.mark.slow
def test_threads_of_one_client(client):
    """All at the first reduction of the same arrays, so that they make handles at once too."""
    x, begin = on_workers(client), threading.Barrier(6)

    def work(number):
        begin.wait(PATIENCE)
        for op in OPS[number % 2 :] * 3:
            check(client, x, (op,))
            check(client, made(8), (op,))

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(work, i) for i in range(6)]:
            done.result(timeout=PATIENCE)


@pytest.mark.slow
def test_two_clusters_at_once(client):
    with (
        local_cluster(2, dashboard_address="127.0.0.1:0") as other_cluster,
        distributed.Client(other_cluster, set_as_default=False) as other,
    ):
        x, y = on_workers(client), on_workers(other)
        check(client, x)
        check(other, y)
        assert {s.worker for s in gr.plan(x, "sum").shares} <= set(client.nthreads())
        assert {s.worker for s in gr.plan(y, "sum").shares} <= set(other.nthreads())
        for each in (other, client):  # while it is made
            check(each, each.persist(made(12, 0.005)) + 0)


def graphs(client):
    """Graphs of lazy chunks, of chunks here, on workers, and by handle; before and after dask optimises them."""
    lazy, here = made(12), made(12).persist(scheduler="sync")
    there = on_workers(client, 12)
    for x in (lazy, here, there, there + 1):
        for op in OPS:
            array = op(x)
            yield dict(array.dask)
            yield dict(array.__dask_optimize__(array.dask, array.__dask_keys__()))


def test_all_that_goes_into_graphs_pickles(client):
    nodes = [node for graph in graphs(client) for node in graph.values()]
    assert len(nodes) > 100
    for node in nodes:
        if not isinstance(node, (distributed.Future, np.ndarray)):
            again = cloudpickle.loads(cloudpickle.dumps(node))
            assert again.dependencies == node.dependencies


HIDDEN = "import sys; sys.modules['gpureduce_dask'] = None; "
SCHEDULER = (
    "from distributed.cli.dask_scheduler import main; main(['--host', '127.0.0.1', '--port', '0', '--no-dashboard'"
)
WORKER = "from distributed.cli.dask_worker import main; main(['--no-nanny', '--nthreads', '1', '--no-dashboard'"


@pytest.fixture
def start():
    """Starts a scheduler or a worker in a process of its own, without this package where it is hidden."""
    processes = []

    def run(code, *options, hidden=True):
        code = (HIDDEN if hidden else "") + code + "".join(f", {option!r}" for option in options) + "])"
        processes.append(subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL))

    yield run
    for process in processes[::-1]:
        process.terminate()
        process.wait(PATIENCE)


def test_a_worker_without_the_package(client, start):
    """It would end at the first task, and dask would wait for another."""
    check(client, made(8), OPS[:1])
    count = len(client.nthreads())
    start(WORKER, client.scheduler.address)
    client.wait_for_workers(count + 1, timeout=PATIENCE)
    time.sleep(2.1)  # until the answer of the scheduler is no longer fresh
    with pytest.raises(gr.errors.ExtraError, match=rf"1 of {count + 1} workers without gpureduce_dask"):
        gr.sum(made(8))
    assert client.compute(da.ones(64, chunks=8).sum()).result(timeout=PATIENCE) == 64


@pytest.mark.slow
def test_a_scheduler_without_the_package(start, tmp_path):
    file, x = tmp_path / "scheduler.json", da.ones(64, chunks=8)
    for code, hidden in ((SCHEDULER, True), (WORKER, False)):
        start(code, "--scheduler-file", str(file), hidden=hidden)
    end = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    with distributed.Client(scheduler_file=str(file), timeout=PATIENCE) as client:
        client.wait_for_workers(1, timeout=PATIENCE)
        on_workers = client.persist(x)
        distributed.wait(on_workers, timeout=PATIENCE)
        for each in (x, on_workers):
            with pytest.raises(RuntimeError, match="Scheduler and Client have different environments") as caught:
                client.compute(gr.sum(each)).result(timeout=PATIENCE)
            assert "gpureduce_dask" in str(caught.value.__cause__)
        assert client.compute(x.max()).result(timeout=PATIENCE) == 1
