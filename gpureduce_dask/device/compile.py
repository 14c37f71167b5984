"""Compiles kernels by NVRTC directly: name expressions to functions, once a kernel and GPU, failures remembered.

CuPy's own compile path appends ``-ftz=true``, which would lose float32 subnormals; its binding of NVRTC does not.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import CompileError, DeviceError, message
from . import sources
from .plan_cache import Plans
from .tuning import THREADS

OPTIONS = ("-std=c++17", "-lineinfo", "--ptxas-options=-v")
REGISTERS = 65536  # of an SM, whichever GPU it is
# By how a kernel's name begins
TOPS = {"bins": "bins.cuh", "contiguous": "contiguous.cuh", "scan": "scan.cuh", "step": "history/steps.cuh"}
MAPS = "maps.cuh"  # of kernels that compute functions of elements
VARIANTS = 128  # kernels that stay loaded for the constants they were loaded with
CACHING = (12, 9)  # from this version on NVRTC keeps machine code on disk, but not what ptxas said of it,
REPORT = "ptxas info"  # which begins so; of what the front end said all is there
LOCAL_BYTES, USED = 3, 4  # the driver's numbers for a thread's bytes of memory for itself, and for its registers
OLDEST = 70  # compute capability 7.0: independent thread scheduling, which the kernels rely on

Compiled = tuple[bytes, str, str]  # machine code, the kernel's name in it and the compiler's log
Constants = tuple[tuple[str, bytes], ...]  # what a kernel reads from constant memory, by the memory's name

_cubins: Plans[Compiled | CompileError] = Plans()  # by kernel, architecture and text
_functions: Plans[Any] = Plans()  # by kernel, text and GPU
_variants: OrderedDict[tuple[str, str, int, Constants], Any] = OrderedDict()
_lock = threading.Lock()  # never held while a kernel is compiled or loaded
_makers: dict[tuple[Any, ...], list[Any]] = {}  # of what is being made: a lock, and how many threads want it


@contextmanager
def _alone(*key: Any) -> Iterator[None]:
    """One thread at a time makes what has this key; those that want something else go on."""
    with _lock:
        mine = _makers.setdefault(key, [threading.Lock(), 0])
        mine[1] += 1
    try:
        with mine[0]:
            yield
    finally:
        with _lock:
            mine[1] -= 1
            if mine[1] == 0:
                del _makers[key]


def clear() -> None:
    """Forget every compiled kernel and every remembered failure."""
    with _lock:
        _cubins.clear()
        _functions.clear()
        _variants.clear()


def cubin(kernel: str, arch: str, text: str = "") -> tuple[bytes, str]:
    """Machine code of one name expression for ``arch`` (``sm_90``), and the name it has in it. Needs no GPU.

    ``text`` is CUDA C++ put behind the shipped kernels: a user's operator.
    """
    return _compiled(kernel, arch, text)[:2]


def _compiled(kernel: str, arch: str, text: str) -> Compiled:
    """Machine code, its name in it and the compiler's log."""
    key = (kernel, arch, text)
    found = _cubins.get(key)
    if found is None:
        with _alone("cubin", *key):
            found = _cubins.get(key)
            if found is None:
                try:
                    found = _compile(kernel, arch, text)
                except CompileError as error:
                    found = error
                _cubins[key] = found
    if isinstance(found, CompileError):
        raise CompileError(str(found))
    return found


def blocks_by_log(found: Compiled) -> range:
    """After a kernel that spilled: how many blocks on an SM may be enough, in the order of trying.

    Left alone, ptxas spills a few registers where one more block then fits; told how many are enough, mostly not.
    """
    match = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", found[2], re.DOTALL)
    stores, loads, registers = map(int, match.groups()) if match else (0, 0, 1)
    return _blocks(registers) if stores or loads else range(0)


def _blocks_by_function(found: Compiled) -> range:
    """The same of what came from NVRTC's cache."""
    function = _function_of(*found[:2])
    return _blocks(_attribute(USED, function)) if _attribute(LOCAL_BYTES, function) else range(0)


def _blocks(registers: int) -> range:
    return range(REGISTERS // (THREADS * registers), 0, -1)


def _compile(kernel: str, arch: str, text: str, more: tuple[str, ...] = ()) -> Compiled:
    program, options = _program_and_options(kernel, arch, text, more)
    return _for_fewer_blocks(kernel, program, options, compile_text(program, kernel, options), blocks_by_log)


def _program_and_options(kernel: str, arch: str, text: str, more: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
    """The program with a kernel, and NVRTC's options."""
    return _program(text, _top(kernel)), (*OPTIONS, f"-arch={arch}", *more)


def _for_fewer_blocks(
    kernel: str,
    program: str,
    options: tuple[str, ...],
    found: Compiled,
    blocks_without_spill: Callable[[Compiled], range],
) -> Compiled:
    """The first kernel that does not spill, of what was found and of those for fewer blocks on an SM; else the last."""
    for blocks in blocks_without_spill(found):
        found = compile_text(program, kernel, (*options, f"-DGR_BLOCKS={blocks}"))
        if not blocks_without_spill(found):
            break
    return found


def _top(kernel: str) -> str:
    """The top file of the kernels that this one is among."""
    of_maps = "Mapped<" in kernel or "Weighted" in kernel  # operators with weights are of maps alone
    return MAPS if of_maps else TOPS.get(kernel.partition("_")[0], "reduce.cuh")


def _program(text: str, top: str = "reduce.cuh") -> str:
    return sources.source(top) + (f'#line 1 "operator.cu"\n{text}\n' if text else "")


def compile_text(program: str, kernel: str, options: tuple[str, ...]) -> Compiled:
    """Compile a program to machine code: the code, the kernel's lowered name, the compiler's log."""
    from cupy_backends.cuda.libs import nvrtc

    handle = nvrtc.createProgram(program, "gpureduce.cu", (), ())
    try:
        nvrtc.addNameExpression(handle, kernel)
        nvrtc.compileProgram(handle, options)
        return nvrtc.getCUBIN(handle), nvrtc.getLoweredName(handle, kernel), nvrtc.getProgramLog(handle)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(handle) or str(error)
        raise CompileError(
            message("compile", f"{kernel} does not compile", "CUDA C++17 without headers", f"NVRTC says:\n{log}")
        ) from None
    finally:
        nvrtc.destroyProgram(handle)


@functools.cache
def architecture(device: int) -> str:
    """The target of a GPU, ``sm_90`` say."""
    import cupy

    capability = cupy.cuda.Device(device).compute_capability
    if int(capability) < OLDEST:
        raise DeviceError(
            message(
                "compile",
                f"GPU {device} has compute capability {capability[:-1]}.{capability[-1]}",
                "7.0 or newer",
                "Keep the arrays on the host, or use a newer GPU.",
            )
        )
    targets = _targets()
    if int(capability) not in targets:
        raise DeviceError(
            message(
                "compile",
                f"GPU {device} has compute capability {capability[:-1]}.{capability[-1]}",
                f"one of those that this NVRTC compiles for, {', '.join(f'{t // 10}.{t % 10}' for t in targets)}",
                "Install CuPy and NVRTC of the CUDA version that the GPU needs.",
            )
        )
    return f"sm_{capability}"


def _targets() -> tuple[int, ...]:
    """Compute capabilities that NVRTC compiles for, 90 for 9.0 say."""
    from cupy_backends.cuda.libs import nvrtc

    try:
        return tuple(nvrtc.getSupportedArchs())
    except (RuntimeError, ImportError, OSError) as error:
        raise DeviceError(
            message(
                "compile",
                f"NVRTC does not load ({error})",
                "CUDA's run-time compiler",
                'Run: pip install "gpureduce-dask[cuda13]", or [cuda12] for CUDA 12.',
            )
        ) from error


def function(kernel: str, device: int, text: str = "", constants: Constants = ()) -> Any:
    """The kernel loaded on a GPU, which must be current.

    One that reads constants is loaded for each: they are written once, before it is launched on any stream.
    """
    if constants:
        return _variant(kernel, device, text, constants)
    key = (kernel, text, device)
    found = _functions.get(key)
    if found is None:
        with _alone("function", *key):
            found = _functions.get(key)
            if found is None:
                found = _functions[key] = _load(kernel, architecture(device), text)
    return found


def _variant(kernel: str, device: int, text: str, constants: Constants) -> Any:
    key = (kernel, text, device, constants)
    with _alone("variant", *key):
        found = _variants.get(key)
        if found is None:
            found = _load(kernel, architecture(device), text)
            _write(found.module, constants)
        with _lock:
            _variants[key] = found
            _variants.move_to_end(key)
            if len(_variants) > VARIANTS:
                _variants.popitem(last=False)  # a plan that uses it holds it
    return found


def _write(module: Any, constants: Constants) -> None:
    """Write to a module's constant memory, and wait for no more than that."""
    import cupy

    runtime, stream = cupy.cuda.runtime, cupy.cuda.Stream(non_blocking=True)
    for name, data in constants:
        buffer = ctypes.create_string_buffer(data, len(data))
        address, kind = ctypes.addressof(buffer), runtime.memcpyHostToDevice
        runtime.memcpyAsync(module.get_global_var(name), address, len(data), kind, stream.ptr)
        stream.synchronize()


def _load(kernel: str, arch: str, text: str) -> Any:
    code, name, log = _compiled(kernel, arch, text)
    found = _function_of(code, name)
    if REPORT in log or not _may_spill(found):
        return found
    again = _for_fewer_blocks(kernel, *_program_and_options(kernel, arch, text), (code, name, log), _blocks_by_function)
    found = _function_of(*again[:2])
    if _may_spill(found):
        again = _compile(kernel, arch, text, ("-no-cache",))
        found = _function_of(*again[:2])
    _cubins[kernel, arch, text] = again
    return found


def _function_of(code: bytes, name: str) -> Any:
    from cupy.cuda.function import Module

    module = Module()
    module.load(code)
    return module.get_function(name)


def _may_spill(function: Any) -> bool:
    """True of a function from NVRTC's cache that may be one of those that are compiled again because they spill."""
    from cupy_backends.cuda.libs import nvrtc

    return bool(nvrtc.getVersion() >= CACHING and _attribute(LOCAL_BYTES, function) > 0)


def _attribute(number: int, function: Any) -> int:
    from cupy_backends.cuda.api import driver

    return int(driver.funcGetAttribute(number, function.ptr))
