"""Workers that are short of memory, or near the limit of what they may fetch at a time: nothing raises, nothing waits
for ever, ours or dask's own."""

from __future__ import annotations

import threading

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster

import gpureduce_dask as gr

distributed = pytest.importorskip("distributed")

PATIENCE = 60


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.worker.memory.target": 0.03,  # of 400 MiB: 12 MiB, beyond which chunks go to a disk
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.transfer": 0.0024,  # 1 MB at a time
        "distributed.scheduler.work-stealing": False,
    }
    with (
        dask.config.set(settings),
        local_cluster(4, memory_limit="400MiB") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def persisted(client, x, workers):
    with dask.annotate(workers=workers):
        x = client.persist(x, optimize_graph=False)
    distributed.wait(x, timeout=PATIENCE)
    return x


def total(chunk):
    return float(chunk.sum())


def spilled(dask_worker):
    return len(dask_worker.data.slow)


@pytest.mark.slow
def test_nothing_but_the_event_loop_reads_a_worker_s_data(client):
    """Where a handle came without its chunks, and finds them."""
    ref = np.arange(4000.0).reshape(40, -1)
    x = client.persist(da.from_array(ref, chunks=(1, -1)).map_blocks(np.copy))
    distributed.wait(x, timeout=PATIENCE)

    def watch(dask_worker):
        data, readers = dask_worker.data, []
        kind = type(data)

        class Watched(kind):
            def __getitem__(self, key):
                readers.append(threading.current_thread().name)
                return super().__getitem__(key)

        data.__class__ = Watched
        dask_worker.readers = readers
        return threading.current_thread().name

    loops = client.run(watch)
    for worker in loops:
        with dask.annotate(workers=[worker], allow_other_workers=False):
            for op, want in ((gr.sum, ref.sum()), (gr.max, 3999)):
                assert client.compute(op(x), optimize_graph=False).result(timeout=PATIENCE) == want
    readers = client.run(lambda dask_worker: dask_worker.readers)
    assert all(readers.values()) and {w: set(names) for w, names in readers.items()} == {w: {loops[w]} for w in loops}


def rows(first, count=40):
    """Chunks of 256 KiB that hold their number, from ``first`` on."""
    return da.map_blocks(row, first, chunks=((1,) * count, (32 * 1024,)), dtype=float, meta=np.empty((0, 0)))


def row(first, block_info=None):
    return np.full((1, 32 * 1024), first + block_info[None]["chunk-location"][0], float)


@pytest.mark.parametrize("reader", [0, 1], ids=["where they lie", "on another worker"])
def test_chunks_that_went_to_a_disk(client, reader):
    """While our tasks and dask's own read them, from several threads. A disk's dictionary is safe for one thread."""
    first, *others = sorted(client.scheduler_info(n_workers=-1)["workers"])
    x = persisted(client, rows(100 * reader), [first])
    want = 32 * 1024 * sum(range(100 * reader, 100 * reader + 40))
    assert client.compute(gr.sum(x)).result(timeout=PATIENCE) == want
    y = persisted(client, rows(1000 * reader + 1000, 80), [first])
    assert sum(client.run(spilled, workers=[first]).values()) > 60
    stock = client.map(total, client.futures_of(x), pure=False, workers=[[first, *others][reader]])
    ours = client.compute([gr.mean(x), gr.max(x, axis=0).sum(), gr.min(y)])
    assert sum(client.gather(stock, errors="raise")) == want
    found = [future.result(timeout=PATIENCE) for future in ours]
    top, low = 100 * reader + 39, 1000 * reader + 1000
    np.testing.assert_allclose(found, [want / x.size, 32 * 1024 * top, low])


def blob(nbytes, number):
    return np.full(nbytes, number % 250, np.uint8)


def use(*arrays):
    return sum(int(a[0]) for a in arrays)


@pytest.mark.slow
def test_short_tasks_beside_large_transfers(client):
    """A task that ends another one must not lose what the worker was about to ask for: it would never be asked for, nor
    anything else of the worker that has it."""
    client.wait_for_workers(4, timeout=PATIENCE)  # a test before may have ended some
    first, *others = sorted(client.scheduler_info(n_workers=-1)["workers"])
    sizes = zip((600_000, 600_000, 300_000), others, strict=True)
    sent = [client.map(blob, [n] * 60, range(60), workers=[worker], pure=False) for n, worker in sizes]
    distributed.wait([future for futures in sent for future in futures], timeout=PATIENCE)
    x = persisted(client, da.ones(400_000, chunks=1000, dtype="i8").map_blocks(np.copy), [first])
    scans = [gr.scan(x, op, 0) for op in ("sum", "max", "min", "prod")]
    used = client.map(use, *sent, workers=[first], pure=False)
    scans = client.persist(scans)
    distributed.wait([*used, *scans], timeout=PATIENCE)
