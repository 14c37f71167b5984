"""The device side of the package on the emulated machine.

:class:`Emulator` stands in for the GPU under :mod:`gpureduce_dask.device.reduce`: plans, task bytes, scratch memory and
the order of launches are the package's own; only compiling, starting a kernel and asking CUDA for memory are replaced.
Arrays are CuPy arrays over host memory that ends at a page nobody may touch.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
import pytest

from gpureduce_dask import chunk
from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import launch, sources, tuning
from gpureduce_dask.device import reduce as device_reduce

from . import SCHEDULES, Guarded, Kernels, Unit

ALIGNMENT = 16  # the least that the kernels ask of memory they write; CuPy gives 512


_memory: weakref.WeakSet[Guarded] = weakref.WeakSet()  # all that kernels may touch


def _guarded(values: np.ndarray[Any, Any], front: bool = False) -> Guarded:
    guarded = Guarded(values, front)
    _memory.add(guarded)
    return guarded


def _cupy_array(view: np.ndarray[Any, Any], owner: Any) -> Any:
    """A CuPy array over the same memory: shape, strides and dtype are the view's."""
    memory = cupy.cuda.UnownedMemory(view.ctypes.data, max(view.nbytes, 1), owner, 0)
    return cupy.ndarray(view.shape, view.dtype, cupy.cuda.MemoryPointer(memory, 0), view.strides)


def put(array: np.ndarray[Any, Any], view: Callable[[Any], Any] | None = None, front: bool = False) -> Any:
    """A copy of an array in guarded memory, seen through ``view``."""
    guarded = _guarded(array, front)
    seen = guarded.array if view is None else view(guarded.array)
    return _cupy_array(seen, guarded)


def get(array: Any) -> np.ndarray[Any, Any]:
    """The elements of a CuPy array over host memory whose strides are none of them negative."""
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    last = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    raw = (ctypes.c_char * (last + array.dtype.itemsize)).from_address(array.data.ptr)
    return np.ndarray(array.shape, array.dtype, bytes(raw), 0, array.strides).copy()


def _allocate(nbytes: int) -> Any:
    """Noise that ends at a guard page, give or take the alignment."""
    guarded = _guarded(np.random.default_rng(nbytes).integers(0, 256, -(-nbytes // ALIGNMENT) * ALIGNMENT, np.uint8))
    memory = cupy.cuda.UnownedMemory(guarded.address, nbytes, guarded, 0)
    return cupy.cuda.MemoryPointer(memory, 0)


@dataclass(frozen=True)
class Function:
    """Stands in for a loaded kernel."""

    kernel: str
    text: str
    ptr: int = 0


def _function(kernel: str, device: int, text: str = "", constants: compiler.Constants = ()) -> Function:
    """A kernel whose constants are part of its text."""
    values = {name.removesuffix("constants") + "values": np.frombuffer(data, np.uint64) for name, data in constants}
    lines = [f"#define {name} {', '.join(f'{word}ull' for word in words)}" for name, words in values.items()]
    return Function(kernel, "\n".join([*lines, text]))


RUNTIME = SimpleNamespace(
    current_stream=lambda: SimpleNamespace(ptr=0),
    current_device=lambda: 0,
    ndarray=cupy.ndarray,
    alloc=_allocate,
    OutOfMemory=MemoryError,
)


class Emulator:
    """Runs what the package launches. First collects the kernels that some calls need, to compile them at once."""

    def __init__(self, text: str | None = None) -> None:
        self.text = sources.source() if text is None else text
        self.schedule, self.seed = "forward", 0
        self.collecting = False  # calls give noise: their results must not be looked at
        self._tickets = put(np.zeros(tuning.TICKETS, np.uint32))
        self._wanted: dict[str, dict[str, None]] = {}  # an operator's own text, and its kernels
        self._owners: list[str] = []
        self._kernels: dict[tuple[str, str], Kernels] = {}

    def collect(self, calls: Callable[[], object], parts: int = 1) -> list[Unit]:
        """The kernels that these calls launch, a text's dealt out to so many units."""
        self.collecting = True
        try:
            with self.installed():
                calls()
        finally:
            self.collecting = False
        shares = [
            (own, Unit(f"{self.text}\n{own}", tuple(names)[i::parts]))
            for own, names in self._wanted.items()
            for i in range(min(parts, len(names)))
        ]
        self._owners = [own for own, _ in shares]
        return [unit for _, unit in shares]

    def adopt(self, compiled: Sequence[Kernels]) -> None:
        """Takes the compiled units of :meth:`collect`, in its order."""
        for own, kernels in zip(self._owners, compiled, strict=True):
            self._kernels.update(((own, name), kernels) for name in kernels.names)

    def orders(self, seeds: int = 1) -> Iterator[None]:
        """Every schedule in turn, with so many seeds each."""
        for self.seed, self.schedule in itertools.product(range(seeds), SCHEDULES):
            yield

    @contextmanager
    def dispatched(self) -> Iterator[None]:
        """:mod:`gpureduce_dask.chunk` moves arrays without CUDA, until the end of the block."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunk, "to_host", lambda partial, bound: get(partial).view(bound.state)[..., 0])
            patch.setattr(chunk, "move", lambda array, device: array if chunk.is_device(array) else put(array))
            yield

    def start(self, step: Any, task: bytes, stream: int) -> None:
        name, own = step.function.kernel, step.function.text
        if self.collecting:
            self._wanted.setdefault(own, {})[name] = None
            return
        launch = step.launch
        run = self._kernels[own, name].launch
        memory = [(g.address, g.array.nbytes) for g in _memory]
        run(name, task, launch.blocks, launch.threads, launch.shared_bytes, self.schedule, self.seed, memory=memory)
        assert not get(self._tickets).any(), f"{name} leaves tickets behind"

    @contextmanager
    def installed(self) -> Iterator[Emulator]:
        """The package's device side runs here, until the end of the block."""
        with pytest.MonkeyPatch.context() as patch, cupy.cuda.using_allocator(_allocate):
            patch.setattr(compiler, "function", _function)
            patch.setattr(launch, "start", self.start)
            patch.setattr(launch.shared, "allow", lambda function, nbytes: None)
            patch.setattr(launch, "_tickets_of", lambda device, stream: self._tickets)
            patch.setattr(launch, "_runtime", lambda: RUNTIME)
            patch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
            patch.setattr(cupy, "stack", lambda arrays: put(np.stack([get(a) for a in arrays])))
            device_reduce.clear()
            try:
                yield self
            finally:
                device_reduce.clear()
