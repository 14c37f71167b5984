"""Runs CUDA kernels on the CPU, threads as fibres, under adversarial schedules. Tests only.

A :class:`Unit` is CUDA text and the kernels to take from it, by name expression. :func:`build` compiles units with
g++, several at once, and remembers the libraries by all that went in; where there is no g++ it skips the test.
:meth:`Kernels.launch` runs one kernel under one schedule and raises :class:`SimtError` for what a GPU would hang on or
corrupt: divergent barriers, endless spins, accesses out of bounds.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHIM = Path(__file__).parent
SCHEDULES = ("forward", "reverse", "random", "starved", "round_robin")
BUDGET = 500_000  # fences, atomics and hooked accesses without progress; a kernel's own waits take thousands
FLAGS = (  # -O1 takes half as long again to compile, and what is compiled runs for a tenth less
    *("-std=c++17", "-Og", "-fPIC", "-shared", "-fvisibility=hidden", "-w"),
    *("-ffp-contract=off", "-fno-strict-aliasing"),
    *("-fsanitize=alignment,bounds,shift-exponent", "-fsanitize-undefined-trap-on-error"),
    *("-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables"),  # nothing throws, and nobody unwinds
    *("--param", "ggc-min-expand=400", "--param", "ggc-min-heapsize=1000000"),  # g++ looks for garbage from 1 GB on
)


class SimtError(Exception):
    """A launch did what would hang, fault or race on a GPU."""


class CompileFailure(Exception):
    """g++ refused the text."""


@dataclass(frozen=True)
class Unit:
    """CUDA text without includes, and name expressions of its kernels, as NVRTC takes them.

    Each unit has a namespace to itself, so variants of one text can be compiled into one library: most of the time
    goes into the standard headers that the shim needs, and is spent once.
    """

    text: str
    names: tuple[str, ...]


class Kernels:
    """The compiled kernels of a unit."""

    def __init__(self, unit: Unit, library: Path, place: int) -> None:
        self.names = unit.names
        self._place = place
        self._launch = ctypes.CDLL(str(library)).simt_launch
        self._launch.restype = ctypes.c_char_p
        self._launch.argtypes = [
            *(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(ctypes.c_uint)),
            *(ctypes.c_uint, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong, ctypes.c_void_p, ctypes.c_uint),
        ]

    def launch(
        self,
        name: str,
        task: bytes,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared: int = 0,
        schedule: str = "forward",
        seed: int = 0,
        budget: int = BUDGET,
        memory: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Runs one kernel to its end.

        Parameters
        ----------
        name : str
            One of the unit's name expressions.
        task : bytes
            The kernel's argument, byte for byte. Pointers in it are addresses of this process.
        grid, block : int or sequence of up to three ints
        shared : int
            Bytes of dynamic shared memory.
        schedule : str
            One of ``SCHEDULES``; with ``seed`` it fixes the order of everything.
        budget : int
            Fences, atomics and hooked accesses without progress after which a spin counts as endless.
        memory : iterable of (int, int)
            Address and size of every array the kernel may touch; unchecked if there is none.
        """
        shape = (ctypes.c_uint * 6)(*_three(grid), *_three(block))
        which, order = self.names.index(name), SCHEDULES.index(schedule)
        ranges = np.array(sorted((begin, begin + size) for begin, size in memory), np.uint64)
        where = ranges.ctypes.data if ranges.size else None
        message = self._launch(
            *(self._place, which, task, len(task), shape, shared, order, seed, budget, where, len(ranges))
        )
        if message:
            raise SimtError(f"{name} under {schedule}, seed {seed}: {message.decode(errors='replace')}")


def _three(shape: int | Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*((shape,) if isinstance(shape, int) else shape), 1, 1)[:3]
    return x, y, z


def build(units: Iterable[Unit], libraries: int = 1, flags: tuple[str, ...] = ()) -> list[Kernels]:
    """Compiles units, dealt out to this many libraries; as many at once as there are processors."""
    units = list(units)
    hands = [units[i::libraries] for i in range(min(libraries, len(units)))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(pool.map(lambda hand: _compile(_source(hand), flags), hands))
    return [Kernels(unit, paths[i % libraries], i // libraries) for i, unit in enumerate(units)]


def _source(units: Sequence[Unit]) -> str:
    parts = ['#include "cuda.hpp"']
    for i, unit in enumerate(units):
        entries = ",\n    ".join(f"simt::Entry<&{name}>::kernel" for name in unit.names)
        table = f"static const simt::Kernel kernels[] = {{\n    {entries}}};"
        parts += [f"namespace unit_{i} {{", unit.text, table, "}"]
    tables = ", ".join(f"unit_{i}::kernels" for i in range(len(units)))
    parts += [
        f"static const simt::Kernel* const units[] = {{{tables}}};",
        'extern "C" __attribute__((visibility("default"))) const char* simt_launch(int unit, int which,',
        "    const void* task, unsigned task_bytes, const unsigned* shape, unsigned shared_bytes, int schedule,",
        "    unsigned long long seed, unsigned long long budget, const void* ranges, unsigned range_count) {",
        "    return simt::launch(units[unit][which], task, task_bytes, shape, shared_bytes, schedule, seed, budget,",
        "                        ranges, range_count);",
        "}\n",
    ]
    return "\n".join(parts)


@cache
def _compiler() -> tuple[str, str]:
    path = shutil.which(os.environ.get("CXX", "g++"))
    if path is None or sys.platform != "linux":
        pytest.skip("kernels are emulated on Linux, with g++: install one that knows C++17, or point CXX to it")
    return path, subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout


@cache
def _folder() -> Path:
    """A folder that nobody else can put a library in."""
    folder = Path(tempfile.gettempdir()) / f"gpureduce-simt-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid == os.getuid() and not status.st_mode & 0o022 and not folder.is_symlink():
        return folder
    return Path(tempfile.mkdtemp(prefix="gpureduce-simt-"))


def _compile(source: str, flags: tuple[str, ...]) -> Path:
    digest = hashlib.sha256(repr((_compiler(), FLAGS, flags, source)).encode())
    for header in sorted(SHIM.glob("*.hpp")):
        digest.update(header.read_bytes())
    library = _folder() / f"{digest.hexdigest()[:32]}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        output = Path(scratch, "kernels.so")
        command = [_compiler()[0], *FLAGS, *flags, f"-I{SHIM}", "-o", str(output), "-xc++", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileFailure(f"g++ refused the kernels:\n{done.stderr[:4000]}")
        output.rename(library)
    return library


class Guarded:
    """A copy of an array that ends (or, with ``front``, begins) at a page nobody may touch."""

    def __init__(self, values: np.ndarray[Any, np.dtype[Any]], front: bool = False) -> None:
        page = mmap.PAGESIZE
        inside = -(-max(values.nbytes, 1) // page) * page
        self._memory = mmap.mmap(-1, inside + 2 * page)
        start = np.frombuffer(self._memory, np.uint8).ctypes.data
        libc = ctypes.CDLL(None, use_errno=True)
        for edge in (start, start + page + inside):
            if libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        offset = page if front else page + inside - values.nbytes
        self.array = np.frombuffer(self._memory, values.dtype, values.size, offset).reshape(values.shape)
        self.array[...] = values
        self.address = start + offset
