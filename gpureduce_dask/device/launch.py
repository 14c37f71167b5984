"""Runs a plan's launches on CuPy's current stream, with CuPy's memory, and without waiting for the GPU."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

from ..errors import DeviceMemoryError, message
from . import compile as compiler
from . import context, faults, shared, tuning
from .plans import CHUNK, FLAT, PARTIALS, Launch
from .task import base_bytes, more_bytes

MOST_BYTES = 4096  # of a kernel's parameters
STREAMS = 64  # whose tickets are kept, and zeros
ZEROS = 4 << 20  # bytes that are zeroed at once, for the next launches of a stream
MOST_ZEROS = ZEROS // 8  # of a launch that has some of them
ZEROS_ALIGNMENT = 512
PER_THREAD_STREAM = 2  # one handle, another stream in each thread; those below are the device's own, for good

POINTERS = struct.Struct("3Q")  # out, partials, tickets: the head of a Task
_PLAIN = struct.Struct("6Q")  # and its only Base

Base = tuple[int, int, int]
_Stream = tuple[int, int, int]  # a device, a stream's handle there, and what tells it from others that had the handle
_tickets: dict[_Stream, Any] = {}
_zeros: dict[_Stream, tuple[Any, int]] = {}  # memory, and how much of it launches have had
_lock = threading.Lock()


@dataclass(frozen=True)
class Ready:
    """A launch with its function loaded and everything but its pointers packed."""

    launch: Launch
    function: Any
    entry: int  # the function's handle
    words: bytes
    more: bytes  # what a Task4 has besides, but for pointers
    is_plain: bool  # needs no scratch


def ready(
    launches: Sequence[Launch], device: int, text: str = "", constants: compiler.Constants = ()
) -> tuple[Ready, ...]:
    """Compile and load what these launches need. The device must be current."""
    functions = [compiler.function(x.kernel, device, text, constants) for x in launches]
    for step, function in zip(launches, functions, strict=True):
        shared.allow(function.ptr, step.shared_bytes)
    return tuple(
        Ready(x, f, f.ptr, x.work.words(), x.work.more_words(), _is_plain(x))
        for x, f in zip(launches, functions, strict=True)
    )


def _is_plain(launch: Launch) -> bool:
    return not (launch.partial_states or launch.tickets) and launch.reads == CHUNK and launch.writes != FLAT


def current_device() -> int:
    """The GPU that CuPy works on in this thread."""
    device: int = _runtime().current_device()
    return device


def new_array(shape: tuple[int, ...], dtype: Any, nbytes: int) -> tuple[Any, int]:
    """An uninitialised CuPy array, and its address."""
    cuda = _runtime()
    try:
        array = cuda.ndarray(shape, dtype)  # allocates by itself: half the host time of two calls
    except MemoryError:
        array = cuda.ndarray(shape, dtype, _allocate_again(nbytes))
    return array, array.data.ptr


def allocate(nbytes: int) -> Any:
    """Device memory from CuPy's current allocator; frees its pool and tries once more before it gives up.

    CuPy's own error is a ``MemoryError``, and so is that of RMM.
    """
    try:
        return _runtime().alloc(nbytes)
    except MemoryError:
        return _allocate_again(nbytes)


def array_at(shape: tuple[int, ...], dtype: Any, memory: Any, strides: tuple[int, ...]) -> Any:
    """A CuPy array over memory that is there."""
    return _runtime().ndarray(shape, dtype, memory, strides)


def current_stream() -> int:
    """The handle of CuPy's current stream."""
    stream: int = _runtime().current_stream().ptr
    return stream


def current_context() -> int:
    """The handle of the current device's context."""
    context.enter()
    found: int = _runtime().current_context()
    return found


def check(status: int) -> None:
    """Raise what a status of the driver says, unless all is well."""
    _runtime().check(status)


def fill_zeros(address: int, nbytes: int, stream: int) -> None:
    """Zeros, once the stream gets there."""
    _runtime().memset(address, 0, nbytes, stream)


def new_zeros(nbytes: int, stream: int) -> Any:
    """Device memory of its own that is zero once the stream gets there."""
    memory = allocate(nbytes)
    fill_zeros(memory.ptr, nbytes, stream)
    return memory


def zeros(nbytes: int, device: int, stream: int) -> tuple[Any, int]:
    """Device memory that is zero once the stream gets there, and its address. The memory is to be kept until what
    uses it is on the stream, and is used once.

    Launches that need little have parts of memory that is zeroed for many of them, which saves each a launch. A graph
    that a stream captures runs more than once: it has memory of its own, and zeroes it each time.
    """
    if nbytes > MOST_ZEROS or (stream >= PER_THREAD_STREAM and _runtime().is_capturing(stream)):
        memory = new_zeros(nbytes, stream)
        return memory, memory.ptr
    key = _key(device, stream)
    with _lock:
        memory, used = _zeros.pop(key, (None, ZEROS))
        if used + nbytes <= ZEROS:
            _zeros[key] = memory, _aligned(used + nbytes)
            return memory, memory.ptr + used
    memory = new_zeros(ZEROS, stream)
    with _lock:
        _zeros[key] = memory, _aligned(nbytes)
        _drop_old(_zeros)
    return memory, memory.ptr


def to_host(arrays: Sequence[Any]) -> list[Any]:
    """NumPy copies of contiguous arrays of bytes on one GPU, with one wait for all."""
    import cupy
    import numpy as np

    ends = [0, *accumulate(array.nbytes for array in arrays)]
    pinned = cupy.cuda.alloc_pinned_memory(max(1, ends[-1]))
    with cupy.cuda.Device(arrays[0].data.device_id):
        stream = cupy.cuda.get_current_stream()
        for array, at in zip(arrays, ends, strict=False):
            array.data.copy_to_host_async(ctypes.c_void_p(pinned.ptr + at), array.nbytes, stream)
        stream.synchronize()
    copied = np.frombuffer(pinned, np.uint8, ends[-1]).copy()
    return [copied[a:b].reshape(array.shape) for (a, b), array in zip(pairwise(ends), arrays, strict=True)]


def free_pool() -> None:
    """Give back to the driver what CuPy's pool keeps for later, where CuPy is in use."""
    if "cupy" in sys.modules:
        with suppress(RuntimeError):  # CuPy is there, and no driver
            sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def _allocate_again(nbytes: int) -> Any:
    import cupy

    free_pool()
    try:
        return cupy.cuda.alloc(nbytes)
    except MemoryError as error:
        free, total = cupy.cuda.runtime.memGetInfo()
        device = cupy.cuda.runtime.getDevice()
        raise DeviceMemoryError(
            message(
                "reduce",
                f"GPU {device} has {free:,} of {total:,} bytes free",
                f"{nbytes:,} bytes for results and partials",
                "Free arrays, use smaller chunks, or reduce more axes.",
            )
        ) from error


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ZEROS_ALIGNMENT) * ZEROS_ALIGNMENT


def _key(device: int, stream: int) -> _Stream:
    """A handle does not name a stream for good: the next one may get that of a stream whose launches still run."""
    return device, stream, _runtime().stream_id(stream) if stream >= PER_THREAD_STREAM else 0


def _drop_old(kept: dict[_Stream, Any]) -> None:
    if len(kept) > STREAMS:
        del kept[next(iter(kept))]  # who launches with it still holds it


def _tickets_of(device: int, stream: int) -> Any:
    """This stream's counters: zero before and after every launch, so its launches may share them."""
    key = _key(device, stream)
    found = _tickets.get(key)
    if found is None:
        import cupy

        counters = cupy.zeros(tuning.TICKETS, "u4")
        with _lock:
            found = _tickets.setdefault(key, counters)
            _drop_old(_tickets)
    return found


def run(
    steps: Sequence[Ready], bases: Sequence[Base] | Any, out: int, state_bytes: int, device: int, more: Any = None
) -> None:
    """Launch the steps one after another on the current stream of ``device``, which is current.

    Parameters
    ----------
    steps : sequence of Ready
        A plan's launches.
    bases : sequence of (int, int, int), or array of int64 of as many rows
        Addresses of both operands' first elements, and the first element's index, of each chunk.
    out : int
        Address of the result.
    more : array of int64, optional
        Addresses of a third and fourth operand's first elements, a row a chunk.
    """
    stream = _runtime().current_stream().ptr
    partials: Any = None
    flat: Any = None
    tickets: Any = None  # kept until the launch is on the stream
    for step in steps:
        launch = step.launch
        read = partials if launch.reads == PARTIALS else flat  # kept until the launch that reads it is on the stream
        if launch.reads != CHUNK:
            bases = [(read.ptr, 0, 0)]
        if launch.partial_states:
            partials = allocate(launch.partial_states * state_bytes)
        if launch.writes == FLAT and (flat is None or launch.reads == FLAT):
            flat = allocate(launch.work.cells * state_bytes)
        if launch.tickets and tickets is None:
            tickets = _tickets_of(device, stream)
        pointers = POINTERS.pack(
            flat.ptr if launch.writes == FLAT else out,
            partials.ptr if launch.partial_states else 0,
            tickets.data.ptr if launch.tickets else 0,
        )
        behind = step.more + more_bytes(more, launch.work.batch) if step.more else b""
        start(step, pointers + base_bytes(bases, launch.work.batch) + step.words + behind, stream)
        del read


class _Parameters(threading.local):
    """A launch's parameters, where the driver copies them from before it returns: one place a thread."""

    def __init__(self) -> None:
        self.task = ctypes.create_string_buffer(MOST_BYTES)
        self.address = ctypes.addressof(self.task)
        self.pointer = ctypes.c_void_p(self.address)
        self.arguments = ctypes.addressof(self.pointer)


_parameters = _Parameters()


def run_plain(step: Ready, operand: int, out: int) -> None:
    """Launch one step that needs no scratch, on one operand and without an index: what a small chunk takes."""
    task = _PLAIN.pack(out, 0, 0, operand, 0, 0) + step.words
    start(step, task, _runtime().current_stream().ptr)


def start(step: Ready, task: bytes, stream: int) -> None:
    """One launch: the Task travels by value."""
    launch = step.launch
    start_kernel(step.entry, launch.blocks, launch.threads, launch.shared_bytes, task, stream)


def start_kernel(entry: int, blocks: int, threads: int, shared_bytes: int, task: bytes, stream: int) -> None:
    """Launch a function with these bytes as its one parameter."""
    context.enter()
    parameters = _parameters
    ctypes.memmove(parameters.address, task, len(task))
    _runtime().launch(entry, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, parameters.arguments, 0)


@functools.cache
def _runtime() -> Any:
    """CuPy's bindings for what happens at every call: found once, on first use."""
    import cupy
    from cupy_backends.cuda.api import driver

    faults.begin(_runtime.cache_clear)
    return SimpleNamespace(
        launch=driver.launchKernel,
        current_stream=cupy.cuda.get_current_stream,
        current_device=cupy.cuda.runtime.getDevice,
        current_context=driver.ctxGetCurrent,
        check=driver.check_status,
        ndarray=cupy.ndarray,
        alloc=cupy.cuda.alloc,
        memset=cupy.cuda.runtime.memsetAsync,
        is_capturing=cupy.cuda.runtime.streamIsCapturing,
        stream_id=_stream_ids(),
    )


def _stream_ids() -> Callable[[int], int]:
    """What tells streams apart as long as the process lives; that of a thread by the thread where the driver is older
    than CUDA 12 and does not say."""
    try:
        ask = context.driver().cuStreamGetId
    except (OSError, AttributeError):
        return lambda stream: threading.get_ident() if stream == PER_THREAD_STREAM else 0
    ask.argtypes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_ulonglong)

    def number(stream: int) -> int:
        context.enter()
        found = ctypes.c_ulonglong()
        ask(stream, ctypes.byref(found))  # where that fails, so does the launch, which says why
        return found.value

    return number
