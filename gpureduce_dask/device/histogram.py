"""Histograms on a GPU: elements of many chunks are counted by one launch, in shared memory, where the bins fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..host.histogram import CODES, bins_of
from ..operators import cuda_types
from ..operators.grouped import Edges
from . import chunk_plans, group_plans, launch
from .contiguous import in_c_order
from .groups import on_device
from .plans import Launch
from .scan_launch import gpu
from .task import BATCH, Work, flag

THREADS = 512
LOADS = 4  # of 16 bytes in flight a thread
RESIDENT = 4  # blocks that a processor has threads for


def counts_of(blocks: Sequence[Any], edges: Edges) -> Any:
    """How many elements of CuPy chunks of one dtype lie in each bin, as CuPy's int64; None where a block has no room
    for so many bins, or NumPy finds these another way."""
    import cupy

    with cupy.cuda.Device(blocks[0].data.device_id):
        return _counts_of(blocks, edges, compared_as(blocks[0].dtype, edges))


def _counts_of(blocks: Sequence[Any], edges: Edges, dtype: Any) -> Any:
    count = len(edges.edges) - 1
    limits = gpu(blocks[0].data.device_id)
    room, processors = limits.shared_bytes, limits.processors
    shared = (count + 1) * (8 if dtype is None else dtype.itemsize) + count * 4
    if dtype is None or shared > room:
        return None
    out, address = launch.new_array((count,), np.dtype(np.int64), count * 8)
    launch.fill_zeros(address, count * 8, launch.current_stream())
    flat = [_in_memory_order(b) for b in blocks if b.size]
    if not flat:
        return out
    vector = 16 // flat[0].itemsize if all(b.data.ptr % 16 == 0 for b in flat) else 1
    kernel = f"bins_histogram<{_types(flat[0], dtype)}, {vector}, {flag(_is_guessed(edges))}, {THREADS}, {LOADS}>"
    tile, most = THREADS * LOADS * vector, processors * max(1, min(RESIDENT, room // shared))
    for start in range(0, len(flat), BATCH):
        some = flat[start : start + BATCH]
        grid = min(most, sum(-(-b.size // tile) for b in some))
        step = Launch(kernel, grid, Work(cells=count, chunks=len(some), batch=BATCH), shared, threads=THREADS)
        _run(step, address, edges, dtype, [(b.data.ptr, 0, b.size) for b in some])
    return out


def codes_of(block: Any, edges: Edges) -> Any:
    """The bin of each element of a CuPy chunk, -1 for none."""
    import cupy

    with cupy.cuda.Device(block.data.device_id):
        dtype = compared_as(block.dtype, edges)
        if dtype is None:
            return bins_of(block, on_device(edges.edges), True, cupy)
        return _codes_of(block, edges, dtype)


def _codes_of(block: Any, edges: Edges, dtype: Any) -> Any:
    flat = in_c_order(block)
    out, address = launch.new_array(block.shape, CODES, block.size * CODES.itemsize)
    if block.size:
        kernel = f"bins_codes<{_types(flat, dtype)}, {flag(_is_guessed(edges))}, {THREADS}>"
        grid = min(-(-block.size // THREADS), gpu(block.data.device_id).processors * RESIDENT)
        step = Launch(kernel, grid, Work(cells=len(edges.edges) - 1, length=block.size, batch=2), threads=THREADS)
        _run(step, address, edges, dtype, [(flat.data.ptr, 0, 0)])
    return out


def _run(step: Launch, out: int, edges: Edges, dtype: Any, bases: list[launch.Base]) -> None:
    device = launch.current_device()
    ready = group_plans.ready(step, device, "")
    group_plans.start(ready, (out, _edges_on(device, edges, dtype).data.ptr, 0), bases)


def compared_as(dtype: Any, edges: Edges) -> Any:
    """The dtype in which a kernel compares elements and edges; None where NumPy guesses bins in one that it has not."""
    if _is_guessed(edges):
        return edges.edges.dtype if edges.edges.dtype in ("f4", "f8") else None
    found = np.result_type(dtype, edges.edges.dtype)
    if found in ("f4", "f8"):
        return found
    return np.dtype({"f": "f4", "u": "u8"}.get(found.kind, "i8"))


def _is_guessed(edges: Edges) -> bool:
    return edges.span is not None and edges.edges.dtype.kind == "f"


def _types(block: Any, dtype: Any) -> str:
    """The kernel's types of elements and edges."""
    chunk_plans.check_aligned(block, "histogram")
    return f"{cuda_types.element(block.dtype)}, {cuda_types.element(dtype)}"


def _in_memory_order(block: Any) -> Any:
    """The elements one after another, in whatever order: a copy only where they lie apart."""
    turned = block.transpose(sorted(range(block.ndim), key=lambda a: -block.strides[a]))
    return in_c_order(turned)


@lru_cache(maxsize=16)
def _edges_on(device: int, edges: Edges, dtype: Any) -> Any:
    return on_device(edges.edges.astype(dtype))
