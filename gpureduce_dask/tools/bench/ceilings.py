"""Ceilings of the GPU at hand, in bytes a second: R, the best rate of reads alone; C, of copies; and of mixtures."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...device import compile as compiler
from ...device import sources
from .timing import device_seconds

READS = ((264, 1024, 4), (528, 512, 4), (1056, 256, 4), (4224, 256, 4), (4224, 256, 8))
MIX_THREADS = 256
COPIES = ((264, 1024, 4), (1056, 256, 4), (4224, 256, 4), (16896, 256, 2))


def _kernel(name: str, device: int) -> Any:
    from cupy.cuda.function import Module

    program = sources.source("bench/ceilings.cuh")
    options = (*compiler.OPTIONS, f"-arch={compiler.architecture(device)}")
    code, lowered, _ = compiler.compile_text(program, name, options)
    module = Module()
    module.load(code)
    return module, module.get_function(lowered)


def _best(kind: str, shapes: tuple[tuple[int, int, int], ...], source: Any, target: Any) -> float:
    import numpy as np

    best = float("inf")
    words = source.nbytes // 16
    for blocks, threads, items in shapes:
        _, function = _kernel(f"{kind}<{threads}, {items}>", source.data.device_id)
        arguments = (source.data.ptr, np.uint64(words), target.data.ptr)
        best = min(best, device_seconds(partial(function, (blocks,), (threads,), arguments)))
    return best


def measure(nbytes: int = 4 << 30) -> dict[str, float]:
    """``{"R": bytes/s, "C": bytes/s}`` over ``nbytes`` of random data; a copy counts what it reads and writes."""
    import cupy

    source = cupy.random.default_rng(1).integers(0, 1 << 62, nbytes // 8, dtype="i8")
    out = cupy.empty(1 << 16, "u4")
    read = nbytes / _best("read_all", READS, source, out)
    target = cupy.empty_like(source)
    copy = 2 * nbytes / _best("copy_all", COPIES, source, target)
    return {"R": read, "C": copy}


def mixed(source: Any, reads: int, writes: int) -> float:
    """Bytes a second, read and written, of a kernel that writes ``writes`` words for each ``reads`` of ``source``."""
    import cupy

    tiles = source.nbytes // (16 * MIX_THREADS * reads)
    target = cupy.empty(tiles * MIX_THREADS * writes * 16, "u1")
    _, function = _kernel(f"mix_all<{MIX_THREADS}, {reads}, {writes}>", source.data.device_id)
    call = partial(function, (tiles,), (MIX_THREADS,), (source.data.ptr, target.data.ptr))
    moved: int = tiles * MIX_THREADS * 16 * (reads + writes)
    return moved / device_seconds(call)
