"""NumPy arrays to a GPU, through pinned memory that several threads fill.

A copy from memory that is not pinned goes through the driver's own buffers, by one thread: it moves as much as a core
copies, a fifth of what the link does, and less where a file is mapped and each page is met for the first time. Here
threads copy pieces into pinned buffers, two for each, and one buffer's bytes are on the link while its thread fills the
other. (CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation".)
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from typing import Any

import numpy as np

from . import launch

LEAST = 8 << 20  # bytes that are worth the threads' time
# H200 beside 16 cores, 2026-11-23, GB/s of mapped files of 16 and 64 MiB, where the link moves 55 from pinned memory:
# cupy.asarray 8 and 7; 8 threads with pieces of 1 MiB 9 and 11, of 2 MiB 10 and 19, of 4 MiB 11 to 14 and 26; 4 threads
# with pieces of 4 MiB 11 and 22, 16 threads 9 and 21
PIECE = 4 << 20  # bytes of a buffer
THREADS = 8  # that fill buffers, at most
TO_DEVICE = 1  # cudaMemcpyHostToDevice
NAME = "gpureduce-upload"  # of the threads

_own = threading.local()


def takes(array: Any) -> bool:
    """True for NumPy arrays of numbers, files that are mapped among them, that are worth it."""
    return (
        type(array) in (np.ndarray, np.memmap)
        and array.nbytes >= LEAST
        and array.dtype.kind in "biufc"
        and array.dtype.isnative
        and launch.current_stream() != launch.PER_THREAD_STREAM  # which is another stream in other threads
    )


class Upload:
    """A copy on the current GPU that threads have begun to make, in order with its stream. Until it is finished the
    array must not change, and nobody may read the copy."""

    def __init__(self, array: Any) -> None:
        self.nbytes = array.nbytes
        is_turned = array.flags.f_contiguous and not array.flags.c_contiguous
        array = array.T if is_turned else array
        out, address = launch.new_array(array.shape, array.dtype, array.nbytes)
        device, stream = launch.current_device(), launch.current_stream()
        self._copy = out.T if is_turned else out
        self._jobs = [_pool().submit(_send, piece, address + offset, device, stream) for offset, piece in pieces(array)]

    def finish(self) -> Any:
        """The copy, once all of it is on its way."""
        wait(self._jobs)  # those that still copy where another failed
        for job in self._jobs:
            job.result()
        return self._copy

    def __del__(self) -> None:
        """Keep the memory until nothing writes to it: an error elsewhere may drop an upload that nobody waits for.

        Python may collect it in one of the threads, which cannot wait for itself: there the jobs keep the memory.
        """
        jobs = getattr(self, "_jobs", ())
        if threading.current_thread().name.startswith(NAME):
            for job in jobs:
                job.add_done_callback(partial(_let_go, self._copy))
        else:
            wait(jobs)


def _let_go(copy: Any, job: Any) -> None:
    """Nothing: who is to call it keeps the copy until then."""


def pieces(array: Any) -> Iterator[tuple[int, Any]]:
    """The array in parts of ``PIECE`` bytes at most, and where each begins in a copy in C order, in bytes."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array
    row = flat.itemsize * math.prod(flat.shape[1:])
    if row > PIECE:
        for i, part in enumerate(flat):
            yield from ((i * row + offset, piece) for offset, piece in pieces(part))
        return
    step = PIECE // row
    for start in range(0, len(flat), step):
        yield start * row, flat[start : start + step]


@cache
def _pool() -> ThreadPoolExecutor:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(max(1, min(THREADS, cores // 2)), thread_name_prefix=NAME)


def _send(piece: Any, to: int, device: int, stream: int) -> None:
    import cupy

    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(device):
        buffer, sent = _next_buffer(device)
        sent.synchronize()
        np.copyto(np.frombuffer(buffer, piece.dtype, piece.size).reshape(piece.shape), piece)
        runtime.memcpyAsync(to, buffer.ptr, piece.nbytes, TO_DEVICE, stream)
        runtime.eventRecord(sent.ptr, stream)


def _next_buffer(device: int) -> tuple[Any, Any]:
    """One of this thread's two buffers in turn, and the event that its last bytes have left it."""
    import cupy

    mine = _own.__dict__.setdefault("buffers", {})
    if device not in mine:
        mine[device] = [(cupy.cuda.alloc_pinned_memory(PIECE), cupy.cuda.Event(disable_timing=True)) for _ in range(2)]
    mine[device].reverse()
    found: tuple[Any, Any] = mine[device][0]
    return found
