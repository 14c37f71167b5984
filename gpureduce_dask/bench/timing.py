"""Device time by CUDA events, host time by the clock; medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

REPEATS = 15
PATIENCE = 1.0  # seconds a measurement may take before it settles for fewer repeats
FEWEST = 3


def device_seconds(call: Callable[[], Any], repeats: int = REPEATS, patience: float = PATIENCE) -> float:
    """Median seconds of GPU time of ``call`` on the current stream, after two warm-up calls.

    Results are dropped as soon as the call returns, so memory comes from the pool and not from the driver.
    """
    import cupy

    stream = cupy.cuda.get_current_stream()
    for _ in range(2):
        call()
    stream.synchronize()
    times: list[float] = []
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
        if sum(times) > patience and len(times) >= FEWEST:
            break
    return statistics.median(times)


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
