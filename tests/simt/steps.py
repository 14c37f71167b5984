"""Steps of the ladder on the emulated machine: their plans and task bytes as on a GPU, over guarded NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import cupy
import numpy as np
import pytest

from gpureduce_dask.device import sources
from gpureduce_dask.history import Step
from gpureduce_dask.steps import runs
from gpureduce_dask.steps.plans import IN, OUT, SCRATCH, TASK, Plan, plan
from gpureduce_dask.steps.runs import TYPES

from . import Guarded, Kernels, Unit, backend

# Blocks of steps that leave it open: resident together under every schedule, as a grid's barrier asks, and so few that
# their threads find eight elements at small sizes.
GRID = 2
STATIC = 34 * 1024  # bytes that a kernel's own arrays in shared memory fit in
DTYPES = ("f4", "f8", "i4")


def planned(step: Step, n: int, m: int = 1) -> Plan:
    return plan(step, n, GRID, m)


def kernels_of(steps: Iterable[Step], sizes: Iterable[tuple[int, int]], dtypes: Iterable[str] = DTYPES) -> list[str]:
    """Name expressions of all that these steps launch on arrays of these sizes."""
    names = {launch.kernel for step in steps for n, m in sizes for launch in planned(step, n, m).launches}
    return sorted(name.format(T=TYPES[np.dtype(dtype)]) for name in names for dtype in dtypes)


def unit(names: Iterable[str], text: str | None = None) -> Unit:
    return Unit(sources.source("history/steps.cuh") if text is None else text, tuple(names))


def run(
    kernels: Kernels, plan: Plan, x: np.ndarray, schedule: str = "forward", seed: int = 0, counter: int = 0
) -> np.ndarray:
    """What the launches of a plan write. Results and scratch begin as noise, and every array ends at a guard page."""
    noise = np.random.default_rng(seed)
    held = {
        IN: Guarded(x),
        OUT: Guarded(noise.integers(-99, 99, plan.out).astype(x.dtype)),
        SCRATCH: Guarded(noise.integers(-99, 99, plan.scratch).astype(x.dtype)),
    }
    count = Guarded(np.array([counter], np.uint32))
    if plan.overwrites:
        held[SCRATCH].array[: x.size] = x.ravel()
    memory = [(g.address, g.array.nbytes) for g in (*held.values(), count)]

    def at(buffer: tuple[str, int]) -> int:
        return held[buffer[0]].address + buffer[1] * x.itemsize

    for launch in plan.launches:
        task = TASK.pack(at(launch.reads), at(launch.writes), at(launch.more), count.address, launch.n, launch.m)
        name = launch.kernel.format(T=TYPES[x.dtype])
        shared = launch.shared * x.itemsize or STATIC
        kernels.launch(name, task, launch.blocks, launch.threads, shared, schedule, seed, memory=memory)
    np.testing.assert_array_equal(held[IN].array, x)  # nobody's input changes
    assert count.array[0] & 0x7FFFFFFF == 0, "the counter is left ready for the next launch"
    return held[OUT].array


@contextmanager
def as_gpu(kernels: dict[str, Kernels]) -> Iterator[None]:
    """CuPy arrays over host memory are taken through steps as on a GPU, until the end of the block."""

    def start(name: str, blocks: int, threads: int, shared: int, task: bytes, stream: int) -> None:
        held = next(each for each in kernels.values() if name in each.names)
        held.launch(name, task, blocks, threads, shared or STATIC, "random", len(name))

    def refill(ready: runs.Run) -> None:
        if ready._plan.overwrites:
            size = ready._x.nbytes
            ctypes.memmove(ready._scratch.data.ptr, ready._x.data.ptr, size)

    with pytest.MonkeyPatch.context() as patch, cupy.cuda.using_allocator(backend._allocate):
        patch.setattr(runs.compiler, "function", lambda kernel, device: SimpleNamespace(ptr=kernel))
        patch.setattr(runs.launch, "start_kernel", start)
        patch.setattr(runs, "start_cooperative", start)
        patch.setattr(runs, "default_grid", lambda device: GRID)
        patch.setattr(runs, "_resident", lambda step, dtype, device: GRID)
        patch.setattr(runs.Run, "refill", refill)
        patch.setattr(cupy, "zeros", lambda shape, dtype: backend.put(np.zeros(shape, dtype)))
        patch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
        patch.setattr(cupy.cuda, "get_current_stream", lambda: SimpleNamespace(ptr=0))
        yield
