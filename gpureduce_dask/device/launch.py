"""Runs a plan's launches on CuPy's current stream, with CuPy's memory, and without waiting for the GPU."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceMemoryError, message
from . import compile as compiler
from .specialise import CHUNK, FLAT, PARTIALS, Launch
from .task import base_bytes

TICKETS = 16896  # groups of blocks in a launch: never more than it has blocks
PER_THREAD_STREAM = 2  # one handle, another stream in each thread

Base = tuple[int, int, int]
_tickets: dict[tuple[int, int, int], Any] = {}


@dataclass(frozen=True)
class Ready:
    """A launch with its function loaded and everything but its pointers packed."""

    launch: Launch
    function: Any
    words: bytes


def ready(launches: Sequence[Launch], device: int, text: str = "") -> tuple[Ready, ...]:
    """Compile and load what these launches need. The device must be current."""
    return tuple(Ready(x, compiler.function(x.kernel, device, text), x.work.words()) for x in launches)


def allocate(nbytes: int) -> Any:
    """Device memory from CuPy's current allocator; frees its pool and tries once more before it gives up."""
    import cupy

    try:
        return cupy.cuda.alloc(nbytes)
    except cupy.cuda.memory.OutOfMemoryError:
        cupy.get_default_memory_pool().free_all_blocks()
    try:
        return cupy.cuda.alloc(nbytes)
    except cupy.cuda.memory.OutOfMemoryError as error:
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


def _tickets_of(device: int, stream: int) -> Any:
    """Counters of this stream: zero before and after every launch, so launches on one stream may share them."""
    import cupy

    owner = threading.get_ident() if stream == PER_THREAD_STREAM else 0
    key = (device, stream, owner)
    found = _tickets.get(key)
    if found is None:
        found = _tickets.setdefault(key, cupy.zeros(TICKETS, "u4"))
    return found


def run(steps: Sequence[Ready], bases: Sequence[Base], out: int, state_bytes: int, device: int) -> None:
    """Launch the steps one after another on the current stream.

    Parameters
    ----------
    steps : sequence of Ready
        A plan's launches.
    bases : sequence of (int, int, int)
        Addresses of both operands' first elements, and the first element's index, of each chunk.
    out : int
        Address of the result.
    """
    import cupy

    stream = cupy.cuda.get_current_stream().ptr
    partials: Any = None
    flat: Any = None
    for step in steps:
        launch = step.launch
        if launch.reads != CHUNK:
            bases = [((partials if launch.reads == PARTIALS else flat).ptr, 0, 0)]
        if launch.partial_states:
            partials = allocate(launch.partial_states * state_bytes)
        if launch.writes == FLAT and flat is None:
            flat = allocate(launch.work.cells * state_bytes)
        pointers = (
            flat.ptr if launch.writes == FLAT else out,
            partials.ptr if launch.partial_states else 0,
            _tickets_of(device, stream).data.ptr if launch.tickets else 0,
        )
        start(step, struct.pack("3Q", *pointers) + step.words + base_bytes(bases, launch.work.batch), stream)


def start(step: Ready, task: bytes, stream: int) -> None:
    """One launch: the Task travels by value, so its buffer is free again on return."""
    from cupy_backends.cuda.api import driver

    buffer = (ctypes.c_char * len(task)).from_buffer_copy(task)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
    launch = step.launch
    driver.launchKernel(
        step.function.ptr,
        launch.blocks,
        1,
        1,
        launch.threads,
        1,
        1,
        launch.shared_bytes,
        stream,
        ctypes.addressof(arguments),
        0,
    )
