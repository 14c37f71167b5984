"""NumPy arrays to a GPU, through pinned memory that several threads fill.

A copy from memory that is not pinned goes through the driver's own buffers, by one thread: it moves as much as a core
copies, a fifth of what the link does, and less where a file is mapped and each page is met for the first time. Here
threads copy pieces into pinned buffers, two for each, and one buffer's bytes are on the link while its thread fills the
other. (CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation".) They do so in
``kernels/host/upload.c``, without Python's lock, which the thread that reduces the copies needs meanwhile.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import threading
from functools import cache
from typing import Any

import numpy as np

from ..operators import native
from . import context, launch

LEAST = 8 << 20  # bytes that are worth the threads' time
THREADS = 16  # that fill buffers, at most
DRIVER = "cuCtxSetCurrent cuMemAllocHost_v2 cuEventCreate cuEventSynchronize cuMemcpyHtoDAsync_v2 cuEventRecord".split()

_starting = threading.Lock()


def takes(array: Any) -> bool:
    """True for NumPy arrays of numbers, files that are mapped among them, that are worth it."""
    return (
        type(array) in (np.ndarray, np.memmap)
        and array.nbytes >= LEAST
        and array.dtype.kind in "biufc"
        and array.dtype.isnative
        and launch.current_stream() != launch.PER_THREAD_STREAM  # which is another stream in other threads
        and native.library() is not None
    )


class Upload:
    """A copy on the current GPU that threads have begun to make, in order with its stream. Until it is finished the
    array must not change, and nobody may read the copy."""

    def __init__(self, array: Any) -> None:
        self.nbytes = array.nbytes
        is_turned = array.flags.f_contiguous and not array.flags.c_contiguous
        array = array.T if is_turned else array
        out, address = launch.new_array(array.shape, array.dtype, array.nbytes)
        self._copy = out.T if is_turned else out
        self._loops = _loops()
        where = launch.current_context(), launch.current_stream(), address
        lies = array.ctypes
        what = lies.data, array.ndim, lies.shape, lies.strides, array.itemsize
        self._kept: Any = array, _file_of(array)
        self._job = self._loops.upload_begin(_driver(), *where, *what, self._kept[1])
        if not self._job:
            raise MemoryError

    def finish(self) -> Any:
        """The copy, once all of it is on its way."""
        launch.check(self._end())
        return self._copy

    def _end(self) -> int:
        """The status of what was begun, once threads are done with it."""
        job, self._job = self._job, None
        status: int = self._loops.upload_end(job) if job else 0
        self._kept = None
        return status

    def __del__(self) -> None:
        """Keep the memory until nothing writes to it: an error elsewhere may drop an upload that nobody waits for."""
        if getattr(self, "_job", None):
            self._end()


class _File(ctypes.Structure):
    """The file that an array is a mapping of, as the library takes it."""

    _fields_ = (("path", ctypes.c_char_p), ("mapping", ctypes.c_char_p), ("begin", ctypes.c_int64))


def _file_of(array: Any) -> _File | None:
    """The file that an array is a mapping of, or a part of one; None of others, and where what is written to the array
    is not written to the file."""
    whole: Any = array
    while isinstance(whole, np.ndarray) and not isinstance(whole.base, mmap.mmap):
        whole = whole.base
    if type(whole) is not np.memmap or whole.mode != "r" or whole.filename is None:
        return None
    mapped: Any = whole.base
    begin = whole.ctypes.data - whole.offset % mmap.ALLOCATIONGRANULARITY
    end = begin + -(-len(mapped) // mmap.PAGESIZE) * mmap.PAGESIZE
    mapping = b"/proc/self/map_files/%x-%x" % (begin, end)
    return _File(os.fsencode(whole.filename), mapping, whole.offset + array.ctypes.data - whole.ctypes.data)


def _loops() -> Any:
    """The library, whose threads serve."""
    with _starting:
        return _served()


@cache
def _served() -> Any:
    """The same, for who comes first."""
    loops = native.library()
    assert loops is not None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    loops.upload_begin.argtypes = (
        *(pointer, pointer, pointer, ctypes.c_uint64),
        *(pointer, number, pointer, pointer, number, ctypes.POINTER(_File)),
    )
    loops.upload_begin.restype = pointer
    loops.upload_end.argtypes = (pointer,)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for at in range(max(1, min(THREADS, cores // 2))):
        threading.Thread(target=loops.upload_serve, name=f"gpureduce-upload_{at}", daemon=True).start()
    atexit.register(loops.upload_settle)
    return loops


@cache
def _driver() -> Any:
    """The addresses of the driver's functions, as the library takes them."""
    found = context.driver()
    return (ctypes.c_void_p * len(DRIVER))(*(ctypes.cast(found[name], ctypes.c_void_p).value for name in DRIVER))
