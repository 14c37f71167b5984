"""What a plan of a scan needs of the GPU it runs on: how much shared memory there is, and its kernels loaded."""

from __future__ import annotations

import functools
from typing import Any

from . import compile as compiler
from . import shared
from .scan_task import Plan

CLUSTERS = 90  # compute capability from which on GPUs have them

Ready = tuple[int, int, int, int]  # a function's handle, blocks, threads, bytes of shared memory


@functools.cache
def limits(number: int) -> tuple[int, int]:
    """Bytes of shared memory that a block of this GPU may have, and its processors."""
    import cupy

    attributes = cupy.cuda.Device(number).attributes
    return attributes["MaxSharedMemoryPerBlockOptin"], attributes["MultiProcessorCount"]


@functools.cache
def has_clusters(number: int) -> bool:
    """True of a GPU whose blocks may reach into each other's shared memory."""
    import cupy

    return int(cupy.cuda.Device(number).compute_capability) >= CLUSTERS


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
