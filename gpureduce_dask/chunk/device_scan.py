"""Scans of CuPy chunks: running results, and the partial behind each line."""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

import numpy as np

from ..device import compile as compiler
from ..device import launch, scan_plans
from ..errors import ArgumentError, message
from ..monoid import Bound
from . import device
from .device import Chunks

UNASKED_SHARED = 48 * 1024  # bytes of shared memory that every kernel may have
MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

_POINTERS = struct.Struct("7Q")  # out, both operands, carry, totals, states, ticket: the head of a Scan


def scan(
    chunks: Chunks,
    bound: Bound,
    axis: int,
    carry: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    resets: Any = None,
    out: Any = None,
) -> tuple[Any, Any]:
    """Running results along an axis, and the partial behind each line, as CuPy arrays.

    Parameters are those of :func:`gpureduce_dask.chunk.scan`. Nothing waits for the GPU, but where only the host can
    finalise states; no chunk is copied, but where ``out`` lies across it.
    """
    import cupy

    _check(chunks, bound, resets)
    with cupy.cuda.Device(chunks[0].data.device_id):
        return _scan(chunks, bound, axis, carry, exclusive, reverse, resets, out)


def _check(chunks: Chunks, bound: Bound, resets: Any) -> None:
    if bound.indexed:
        raise ArgumentError(
            message(
                "scan",
                f"{bound.name} of {bound.dtypes[0]} on a GPU",
                "an operator whose state has no positions",
                "Keep the chunks on the host: x.map_blocks(cupy.asnumpy).",
            )
        )
    if resets is not None and len(chunks) > 1:
        raise ArgumentError(
            message(
                "scan",
                f"segments and {len(chunks)} operands on a GPU",
                "segments with an operator of one operand",
                "Scan the segments one by one, or keep the chunks on the host.",
            )
        )


def _scan(
    chunks: Chunks, bound: Bound, axis: int, carry: Any, exclusive: bool, reverse: bool, resets: Any, out: Any
) -> tuple[Any, Any]:
    import cupy

    shape = chunks[0].shape
    ends = tuple(1 if a == axis else n for a, n in enumerate(shape))
    final = not bound.monoid.unsafe_cuda and device.cuda_operator(bound, True).emit != ""
    if 0 in shape:
        total = _identities(ends, bound) if carry is None else carry
        return cupy.empty(shape, bound.result) if out is None else out, total
    operands = [*chunks] if resets is None else [*chunks, cupy.broadcast_to(resets.astype(bool, copy=False), shape)]
    op = _operator(bound, final, resets is not None, tuple(a.itemsize for a in operands))
    order = _memory_order(chunks[0], axis)
    if final and out is not None and not _apart_or_same(out, operands):
        operands = [a.copy() for a in operands]
    target = out if final and out is not None else _new(operands, order, op, bound.result if final else None)
    total = cupy.empty((math.prod(ends), op.state_bytes), np.uint8)
    kept = [a for a in order if a != axis]
    ahead = None if carry is None else _lined_up(carry, kept, axis, op.state_bytes)
    _launch(operands, target, op, order, axis, ahead, total, exclusive, reverse, device._own_text(bound))
    totals = _restored(total, shape, kept, axis)[..., : bound.state.itemsize]
    if final:
        return target, cupy.ascontiguousarray(totals)
    values = device.finalise(cupy.ascontiguousarray(target[..., : bound.state.itemsize]), bound)
    if out is not None:
        out[...] = values
        values = out
    return values, cupy.ascontiguousarray(totals)


def _identities(shape: tuple[int, ...], bound: Bound) -> Any:
    import cupy

    states = np.ascontiguousarray(bound.identities(shape))
    return cupy.asarray(states.view(np.uint8).reshape(*shape, bound.state.itemsize))


@functools.lru_cache(maxsize=256)
def _operator(bound: Bound, final: bool, segmented: bool, itemsizes: tuple[int, ...]) -> scan_plans.Operator:
    op = device.cuda_operator(bound, final)
    state, align = bound.state.itemsize, bound.state.alignment
    kind = op.type
    if segmented:
        plain = scan_plans.Operator(kind, "", itemsizes, 0, state, align)
        kind, state, align = f"Segmented<{kind}>", plain.flow_bytes, max(4, align)
    emits = f"Final<{kind}, {op.emit}>" if final else f"Keep<{kind}>"
    out = bound.result.itemsize if final else state
    return scan_plans.Operator(kind, emits, itemsizes, out, state, align, device._options(bound))


def _memory_order(array: Any, axis: int) -> list[int]:
    """Axes from the longest stride to the shortest; the scanned one last among equals."""
    strides = [abs(s) if n > 1 else 0 for n, s in zip(array.shape, array.strides, strict=True)]
    if array.shape[axis] == 1:
        strides[axis] = 0
    order: list[int] = sorted(range(array.ndim), key=lambda a: (-strides[a], a == axis))
    if all(strides[a] == 0 or a == axis for a in order):
        order = [a for a in order if a != axis] + [axis]
    return order


def _apart_or_same(out: Any, operands: list[Any]) -> bool:
    """True where each element lies where its result goes, or nowhere near it."""
    import cupy

    return all(
        not cupy.may_share_memory(out, x) or (out.data.ptr == x.data.ptr and out.strides == x.strides) for x in operands
    )


def _new(operands: list[Any], order: list[int], op: scan_plans.Operator, dtype: Any) -> Any:
    """An array for results, laid out as the first operand, and aligned as it is. Without a dtype, bytes of states."""
    import cupy

    shape = operands[0].shape
    size = op.out_bytes
    lead = operands[0].data.ptr % 16 // operands[0].itemsize
    buffer, _ = launch.new_array((max(1, math.prod(shape) + lead) * size,), np.dtype(np.uint8), 0)
    strides, step = [0] * len(shape), size
    for a in reversed(order):
        strides[a] = step
        step *= shape[a]
    memory = buffer.data + lead * size
    if dtype is not None:
        return cupy.ndarray(shape, dtype, memory, tuple(strides))
    return cupy.ndarray((*shape, size), np.uint8, memory, (*strides, 1))


def _lined_up(carry: Any, kept: list[int], axis: int, state: int) -> Any:
    """A partial's states in the order of the lines in memory, and as large as the kernel has them."""
    import cupy

    lines = carry.transpose(*kept, axis, carry.ndim - 1).reshape(-1, carry.shape[-1])
    if lines.shape[1] < state:  # no line has begun in what stands before it
        wider = cupy.zeros((len(lines), state), np.uint8)
        wider[:, : lines.shape[1]] = lines
        lines = wider
    return cupy.ascontiguousarray(lines)


def _restored(total: Any, shape: tuple[int, ...], kept: list[int], axis: int) -> Any:
    """States in the order of the lines in memory as a partial."""
    lines = total.reshape(*(shape[a] for a in kept), 1, total.shape[-1])
    back = [0] * (len(shape) + 1)
    for place, a in enumerate([*kept, axis, len(shape)]):
        back[a] = place
    return lines.transpose(back)


def _launch(
    operands: list[Any],
    out: Any,
    op: scan_plans.Operator,
    order: list[int],
    axis: int,
    carry: Any,
    total: Any,
    exclusive: bool,
    reverse: bool,
    text: str,
) -> None:
    arrays = [*operands, out]
    pointers = [a.data.ptr for a in arrays]
    plan = _plan(
        op,
        scan_plans.Operands(
            tuple(operands[0].shape[a] for a in order),
            order.index(axis),
            tuple(tuple(x.strides[a] for a in order) for x in arrays),
            tuple(p % 16 for p in pointers),
        ),
        exclusive,
        reverse,
        launch.current_device(),
    )
    firsts = [p + start for p, start in zip(pointers, plan.starts, strict=True)]
    _run(plan, firsts, 0 if carry is None else carry.data.ptr, total.data.ptr, text)


@functools.lru_cache(maxsize=1024)
def _plan(
    op: scan_plans.Operator, arrays: scan_plans.Operands, exclusive: bool, reverse: bool, number: int
) -> scan_plans.Plan:
    import cupy

    attributes = cupy.cuda.Device(number).attributes
    limit, processors = attributes["MaxSharedMemoryPerBlockOptin"], attributes["MultiProcessorCount"]
    return scan_plans.plan(op, arrays, exclusive, reverse, limit, processors)


def _run(plan: scan_plans.Plan, firsts: list[int], carry: int, totals: int, text: str) -> None:
    import cupy
    from cupy_backends.cuda.api import driver

    stream = cupy.cuda.get_current_stream().ptr
    scratch = launch.allocate(plan.scratch_bytes) if plan.scratch_bytes else None
    states = scratch.ptr if scratch else 0
    if plan.is_posted:
        cupy.cuda.runtime.memsetAsync(states, 0, plan.scratch_bytes, stream)
    ticket = states + plan.scratch_bytes - 16 if plan.is_posted else 0
    second = firsts[1] if len(firsts) > 2 else 0
    head = _POINTERS.pack(firsts[-1], firsts[0], second, carry, totals, states, ticket)
    for step in plan.steps:
        function = compiler.function(step.kernel, launch.current_device(), text)
        if step.shared_bytes > UNASKED_SHARED:
            driver.funcSetAttribute(function.ptr, MOST_SHARED, step.shared_bytes)
        launch.start_kernel(function.ptr, step.blocks, step.threads, step.shared_bytes, head + plan.words, stream)
