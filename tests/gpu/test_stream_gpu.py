"""On a GPU: groups whose chunks come from the host. The GPU reduces one chunk while this thread makes the next."""

from __future__ import annotations

import functools
import time

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.graph import group_task
from gpureduce_dask.graph.reduce_tasks import LAUNCH_BYTES
from gpureduce_dask.tools.bench import memory

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")

COUNT, SIZE = 24, 2**22
SECONDS = 0.02  # that a chunk takes on the host, and about as much on the GPU


def slow_on_host(block_info=None):
    time.sleep(SECONDS)
    return np.full(SIZE, block_info[None]["chunk-location"][0], "f4")


@functools.cache
def spin():
    """A kernel that takes SECONDS, ready to launch: asking for the clock rate alone takes as long."""
    text = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'
    cycles = np.int64(cp.cuda.Device().attributes["ClockRate"] * 1e3 * SECONDS)
    return functools.partial(cp.RawKernel(text, "spin"), (1,), (1,), (cycles,))


def slow_on_device(chunk):
    spin()()
    return chunk


def chain(function=cp.asarray):
    x = da.map_blocks(slow_on_host, chunks=((SIZE,) * COUNT,), dtype="f4", meta=np.empty(0, "f4"))
    return x.map_blocks(function, dtype="f4", meta=gr.device_meta(1, "f4"))


def test_memory_of_a_few_chunks(monkeypatch):
    """Those that wait for one launch, and three more, where one copy is begun ahead."""
    monkeypatch.setattr(group_task, "AHEAD_BYTES", SIZE * 4)
    x = chain()
    want = SIZE * sum(range(COUNT))
    with dask.config.set({"gpureduce.group": COUNT}):
        assert float(gr.sum(x).compute(scheduler="sync")) == want
        memory.watch()
        try:
            assert float(gr.sum((x + 1) - 1).compute(scheduler="sync")) == want
        finally:
            most = memory.unwatch()
    assert most <= LAUNCH_BYTES + 3.1 * SIZE * 4 < COUNT * SIZE * 4 / 3


def fastest(x):
    """Seconds of the best of a few runs, since others may use the GPU; the first compiles."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        with dask.config.set({"gpureduce.group": COUNT}):  # one task, whatever the number of cores
            assert float(gr.sum(x).compute(scheduler="sync")) == SIZE * sum(range(COUNT))
        times.append(time.perf_counter() - begin)
    return min(times)


def test_the_gpu_works_while_the_host_makes_the_next_chunk():
    host = fastest(chain())
    both = fastest(chain(lambda chunk: slow_on_device(cp.asarray(chunk))))
    begin = time.perf_counter()
    for _ in range(COUNT):
        slow_on_device(None)
    cp.cuda.get_current_stream().synchronize()
    device = time.perf_counter() - begin
    assert device > 0.9 * COUNT * SECONDS
    assert both < 0.75 * (host + device)
