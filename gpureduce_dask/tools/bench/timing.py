"""Device time by CUDA events, host time by the clock; medians."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

REPEATS = 15
PATIENCE = 1.0  # seconds a measurement may take before it settles for fewer repeats
FEWEST = 3
SPIN_CYCLES = 300_000  # about 0.15 ms on an H200: longer than any call takes on the host
SPIN = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'


PAST = 3  # times the size of the L2 cache that buffers take turns over, so that none is still in it


class Rotation:
    """Calls that do the same on buffers of their own, one after another. As many results stay, so that none is written
    where the one before it was."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls = itertools.cycle(calls)
        self.results: deque[Any] = deque(maxlen=max(1, len(calls) - 1))

    def __call__(self) -> None:
        self.results.append(next(self.calls)())


def buffers(nbytes: int) -> int:
    """How many buffers of this size it takes to get past the L2 cache of the GPU at hand."""
    import cupy

    return max(1, -(-PAST * int(cupy.cuda.Device().attributes["L2CacheSize"]) // max(nbytes, 1)))


@functools.cache
def _spin() -> Any:
    import cupy

    return cupy.RawKernel(SPIN, "spin")


def device_seconds(call: Callable[[], Any], repeats: int = REPEATS, patience: float = PATIENCE) -> float:
    """Median seconds of GPU time of ``call`` on the current stream, after two warm-up calls.

    A kernel that does nothing but wait keeps the GPU occupied while the call is prepared, so that host time does
    not count. Results are dropped as soon as the call returns, so memory comes from the pool, not from the driver.
    """
    import cupy
    import numpy as np

    stream = cupy.cuda.get_current_stream()
    call()
    stream.synchronize()
    begin = time.perf_counter()
    call()
    stream.synchronize()
    once = time.perf_counter() - begin
    if once > patience / FEWEST:
        return once  # so slow that host time does not count
    times: list[float] = []
    for _ in range(repeats):
        _spin()((1,), (1,), (np.int64(SPIN_CYCLES),))
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
        if sum(times) > patience and len(times) >= FEWEST:
            break
    return statistics.median(times)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes by the clock, and what it gives."""
    begin = time.perf_counter()
    value = call()
    return time.perf_counter() - begin, value


def median_seconds(call: Callable[[], Any], repeats: int, enough: float = float("inf")) -> tuple[float, Any]:
    """The median of so many calls, or of those that are made within ``enough`` seconds."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < enough:
        spent, value = seconds(call)
        times.append(spent)
    return statistics.median(times), value


def host_seconds(call: Callable[[], Any], calls: int = 300) -> float:
    """Median seconds of host time a call takes, while the GPU keeps up."""
    import cupy

    for _ in range(20):
        call()
    cupy.cuda.get_current_stream().synchronize()
    times = []
    for i in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
        if i % 20 == 19:
            cupy.cuda.get_current_stream().synchronize()
    return statistics.median(times)
