"""What a scan needs of the GPU it runs on: shared memory, kernels loaded, and arrays for its results."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import compile as compiler
from . import launch, scan_cost_tables, shared
from .scan_task import Gpu, Plan

CLUSTERS = 90  # compute capability from which on GPUs have them

Ready = tuple[int, int, int, int]  # a function's handle, blocks, threads, bytes of shared memory


@functools.cache
def gpu(number: int) -> Gpu:
    """What plans ask of this GPU."""
    import cupy

    device = cupy.cuda.Device(number)
    attributes = device.attributes
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
    clock, bits = (attributes.get(name, 0) for name in ("MemoryClockRate", "GlobalMemoryBusWidth"))  # kHz
    return Gpu(
        attributes["MaxSharedMemoryPerBlockOptin"],
        attributes["MultiProcessorCount"],
        int(device.compute_capability) >= CLUSTERS,
        2e3 * clock * bits / 8 or Gpu.bandwidth,
        scan_cost_tables.in_use(name, f"sm_{device.compute_capability}")[0].costs,
    )


def load(
    plan: Plan, number: int, text: str, constants: compiler.Constants = ()
) -> tuple[tuple[Ready, ...], tuple[Any, ...]]:
    """The plan's kernels, compiled and loaded, and what keeps them so. The GPU must be current."""
    found, kept = [], []
    for step in plan.steps:
        function = compiler.function(step.kernel, number, text, constants)
        kept.append(function)
        shared.allow(function.ptr, step.shared_bytes)
        found.append((function.ptr, step.blocks, step.threads, step.shared_bytes))
    return tuple(found), tuple(kept)


@dataclass(frozen=True, slots=True)
class Room:
    """An array to be made: bytes in all, and where in them it begins. Without strides it has C order, and begins at
    once."""

    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    strides: tuple[int, ...] = ()
    lead: int = 0

    def new(self) -> Any:
        """The array, not initialised."""
        if not self.strides:
            return launch.new_array(self.shape, self.dtype, self.nbytes)[0]
        return launch.array_at(self.shape, self.dtype, launch.allocate(self.nbytes) + self.lead, self.strides)


def of_results(first: Any, order: list[int], size: int, dtype: Any) -> Room:
    """For results of so many bytes, laid out as the first operand, and aligned alike where its elements are neighbours.
    Without a dtype, for states."""
    shape = first.shape
    are_neighbours = not order or first.strides[order[-1]] == first.itemsize
    lead = first.data.ptr % 16 // first.itemsize * size if are_neighbours else 0
    strides, step = [0] * len(shape), size
    for a in reversed(order):
        strides[a] = step
        step *= shape[a]
    if dtype is None:
        return Room((*shape, size), np.dtype(np.uint8), step + lead, (*strides, 1), lead)
    if lead == 0 and tuple(strides) == c_strides(shape, size):
        return Room(shape, dtype, step)
    return Room(shape, dtype, step + lead, tuple(strides), lead)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Bytes from one element to the next, along each axis of an array in C order."""
    return tuple(itemsize * math.prod(shape[a + 1 :]) for a in range(len(shape)))
