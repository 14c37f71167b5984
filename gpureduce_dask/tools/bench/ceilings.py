"""Ceilings of the GPU at hand, in bytes a second: R, the best rate of reads alone; C, of copies; and of mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from ...device import compile as compiler
from ...device import sources
from .timing import Rotation, device_seconds

READS = ((264, 1024, 4), (528, 512, 4), (1056, 256, 4), (4224, 256, 4), (4224, 256, 8))
MIX_THREADS = 256
COPIES = ((264, 1024, 4), (1056, 256, 4), (4224, 256, 4), (16896, 256, 2))


@cache
def _kernel(name: str, device: int) -> Any:
    from cupy.cuda.function import Module

    program = sources.source("bench/ceilings.cuh")
    options = (*compiler.OPTIONS, f"-arch={compiler.architecture(device)}")
    code, lowered, _ = compiler.compile_text(program, name, options)
    module = Module()
    module.load(code)
    return module, module.get_function(lowered)


def _best(kind: str, shapes: tuple[tuple[int, int, int], ...], pairs: Sequence[tuple[Any, Any]]) -> float:
    """The least seconds of these shapes, over pairs of a source and a target in turn."""
    import numpy as np

    best = float("inf")
    for blocks, threads, items in shapes:
        calls = []
        for source, target in pairs:
            _, function = _kernel(f"{kind}<{threads}, {items}>", source.data.device_id)
            arguments = (source.data.ptr, np.uint64(source.nbytes // 16), target.data.ptr)
            calls.append(partial(function, (blocks,), (threads,), arguments))
        best = min(best, device_seconds(Rotation(calls)))
    return best


def measure(nbytes: int = 4 << 30) -> dict[str, float]:
    """``{"R": bytes/s, "C": bytes/s}`` over ``nbytes`` of random data; a copy counts what it reads and writes."""
    source = _random(nbytes)
    return {"R": read_rate([source]), "C": copy_rate([source])}


def _random(nbytes: int) -> Any:
    import cupy

    return cupy.random.default_rng(1).integers(0, 1 << 62, max(2, nbytes // 8), dtype="i8")


def rate(kind: str, nbytes: int, count: int) -> float:
    """R or C of so many bytes in all, read or read and written, over ``count`` buffers in turn."""
    first = _random(nbytes if kind == "R" else nbytes // 2)
    sources = [first, *(first.copy() for _ in range(count - 1))]
    return read_rate(sources) if kind == "R" else copy_rate(sources)


def read_rate(sources: Sequence[Any]) -> float:
    """Bytes a second of reads of arrays of one size in turn."""
    import cupy

    out = cupy.empty(1 << 16, "u4")
    return float(sources[0].nbytes / _best("read_all", READS, [(source, out) for source in sources]))


def copy_rate(sources: Sequence[Any]) -> float:
    """Bytes a second, read and written, of copies of arrays of one size in turn."""
    import cupy

    return float(2 * sources[0].nbytes / _best("copy_all", COPIES, [(s, cupy.empty_like(s)) for s in sources]))


def mixed(source: Any, reads: int, writes: int) -> float:
    """Bytes a second, read and written, of a kernel that writes ``writes`` words for each ``reads`` of ``source``."""
    import cupy

    tiles = source.nbytes // (16 * MIX_THREADS * reads)
    target = cupy.empty(tiles * MIX_THREADS * writes * 16, "u1")
    _, function = _kernel(f"mix_all<{MIX_THREADS}, {reads}, {writes}>", source.data.device_id)
    call = partial(function, (tiles,), (MIX_THREADS,), (source.data.ptr, target.data.ptr))
    nbytes: int = tiles * MIX_THREADS * 16 * (reads + writes)
    return nbytes / device_seconds(call)
