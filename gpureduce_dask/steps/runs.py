"""Steps of the ladder on CuPy arrays: compiled, given memory, and launched on the current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..device import compile as compiler
from ..device import context, launch
from ..errors import DeviceError, DtypeError, message
from ..history import Step
from .plans import BLOCKS_AN_SM, IN, OUT, SCRATCH, TASK, Buffer, Launch, Plan, plan

# Integers are added without a sign: the bits are the same, and they wrap.
TYPES = {
    np.dtype(name): cuda
    for name, cuda in {"f4": "f32", "f8": "f64", "i4": "u32", "i8": "u64", "u4": "u32", "u8": "u64"}.items()
}


class Run:
    """A step made ready for one CuPy array: :meth:`start` launches it, as often as asked, into the same ``out``.

    Steps that overwrite what they read work in a copy: call :meth:`refill` before each start whose result counts.
    """

    def __init__(self, step: Step, x: Any, grid: int = 0) -> None:
        import cupy

        self._x = cupy.ascontiguousarray(x)
        rows, columns = x.shape if step.family == "transpose" else (x.size, 1)
        device = self._x.data.device_id
        grid = grid or default_grid(device)
        if step.way == "cooperative":
            grid = min(grid, _resident(step, x.dtype, device))
        self._plan: Plan = plan(step, rows, grid, columns)
        self._scratch = cupy.empty(self._plan.scratch, x.dtype)
        self._counter = cupy.zeros(1, "u4")
        shape = {"reduce": (1,), "scan": x.shape, "transpose": (columns, rows)}[step.family]
        self.out = cupy.empty(shape, x.dtype)
        starts = {IN: self._x.data.ptr, OUT: self.out.data.ptr, SCRATCH: self._scratch.data.ptr}

        def at(buffer: Buffer) -> int:
            return int(starts[buffer[0]]) + buffer[1] * int(x.dtype.itemsize)

        self._starts = [self._ready(each, at, x.dtype, device) for each in self._plan.launches]
        self.refill()

    def _ready(self, planned: Launch, at: Callable[[Buffer], int], dtype: Any, device: int) -> Callable[[], None]:
        function = compiler.function(planned.kernel.format(T=TYPES[dtype]), device)
        task = TASK.pack(
            at(planned.reads), at(planned.writes), at(planned.more), self._counter.data.ptr, planned.n, planned.m
        )
        start_grid = start_cooperative if planned.cooperative else launch.start_kernel
        shared = planned.shared * dtype.itemsize

        def start() -> None:
            import cupy

            stream = cupy.cuda.get_current_stream().ptr
            start_grid(function.ptr, planned.blocks, planned.threads, shared, task, stream)

        return start

    def refill(self) -> None:
        """Copy the input to where it is overwritten, for the steps that do so."""
        if self._plan.overwrites:
            self._scratch[: self._x.size] = self._x.ravel()

    def start(self) -> None:
        """Launch on the current stream; nothing waits."""
        for each in self._starts:
            each()


def run(step: Step, x: Any) -> Any:
    """The result of a step that has a kernel: one element, running sums, or a turned matrix.

    ``x`` is a CuPy array of float32, float64 or integers of 32 or 64 bits, with at least one element; of a transpose of
    two dimensions. Sums are of its own dtype, and integers wrap. Raises DtypeError for other dtypes.
    """
    import cupy

    if x.dtype not in TYPES:
        known = "float32, float64 or integers of 32 or 64 bits"
        raise DtypeError(message(step.label, f"{x.dtype} elements", known, "Convert the array with astype."))
    with cupy.cuda.Device(x.data.device_id):
        ready = Run(step, x)
        ready.start()
        return ready.out


def default_grid(device: int) -> int:
    """Blocks of 256 threads that fill a GPU once."""
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"]) * BLOCKS_AN_SM


def _resident(step: Step, dtype: Any, device: int) -> int:
    """Blocks of a step that the GPU holds together: what a cooperative launch may have."""
    import cupy
    from cupy_backends.cuda.api import driver

    attributes = cupy.cuda.Device(device).attributes
    if not attributes["CooperativeLaunch"]:
        raise DeviceError(
            message(step.label, f"GPU {device} launches no cooperative grids", "one that does", "Use reduce-18.")
        )
    function = compiler.function(step.kernel.format(T=TYPES[dtype]), device)
    each = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, step.threads, 0)
    return int(each * attributes["MultiProcessorCount"])


def start_cooperative(entry: int, blocks: int, threads: int, shared_bytes: int, task: bytes, stream: int) -> None:
    """As :func:`gpureduce_dask.device.launch.start_kernel`, for blocks that wait for one another.

    The driver refuses a grid whose blocks do not fit on the GPU together.
    """
    from cupy_backends.cuda.api import driver

    context.enter()
    buffer = ctypes.create_string_buffer(task, len(task))
    pointer = ctypes.c_void_p(ctypes.addressof(buffer))
    driver.launchCooperativeKernel(entry, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(pointer))
