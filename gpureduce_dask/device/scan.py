"""Scans of CuPy chunks: running results, and the partial behind each line."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..expressions.cuda import MOST_SCANNED
from ..operators.monoid import Bound
from ..place import Place
from ..strides import turning
from . import contiguous, launch, scan_costs, scan_launch, scan_plans, scan_task
from . import operator as device_operator
from . import reduce as device_reduce
from .chunk_plans import Chunks, check_aligned
from .map_cut import fit_operands
from .plan_cache import Plans

# out, both operands, carry, totals, states, ticket, flags and the first element's index: the head of a Scan
_POINTERS = struct.Struct("8Qq")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about scanning chunks of one layout that does not change from call to call."""

    steps: tuple[scan_launch.Ready, ...]
    functions: tuple[Any, ...]  # of the steps: loaded as long as they are here
    plan: scan_task.Plan
    final: bool  # the kernels write results, not states
    out: scan_launch.Room
    total: scan_launch.Room
    kept: tuple[int, ...]  # the other axes, in the order of the lines in memory
    back: tuple[int, ...]  # the axes of totals in the order of a partial's; empty where they are in it
    state_bytes: int  # as large as the kernels have states
    restores_totals: bool  # which are not those of a partial yet
    counts: bool  # positions are counted from those of carries


_prepared: Plans[Prepared] = Plans()


def scan(
    chunks: Chunks,
    bound: Bound,
    axis: int,
    carry: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    resets: Any = None,
    out: Any = None,
    with_total: bool = True,
    place: Place | None = None,
    method: str = scan_task.SINGLE_PASS,
) -> tuple[Any, Any]:
    """Running results along an axis, and the partial behind each line, as CuPy arrays.

    Parameters are those of :func:`gpureduce_dask.chunk.scan`; ``method`` is one of
    ``scan_task.METHODS``, or a kernel that takes such a scan. Nothing waits for the GPU, but where only the host can
    finalise states; no chunk is copied, but where ``out`` lies across it. Results that kernels finalise lie in memory
    as elements do, axes that are reversed in all chunks too; where ``out`` has such axes the other way around, the more
    general kernels take them.
    """
    device = chunks[0].data.device_id
    if launch.current_device() != device:
        import cupy

        with cupy.cuda.Device(device):
            return scan(chunks, bound, axis, carry, exclusive, reverse, resets, out, with_total, place, method)
    chunks, bound = fit_operands(chunks, bound, MOST_SCANNED)
    index = place.offsets[axis] if place is not None else 0
    if reverse:
        index += chunks[0].shape[axis] - 1
    arrays = chunks if out is None else (*chunks, out)
    arrays, way, turn = _turned(arrays, _Way.of(axis, reverse, exclusive))
    if not turn:
        return _scan(chunks, bound, way, index, carry, resets, out, with_total, method)
    if resets is not None:
        import cupy

        resets = cupy.broadcast_to(resets.astype(bool, copy=False), chunks[0].shape)[turn]
    carry, target = None if carry is None else carry[turn], None if out is None else arrays[-1]
    results, total = _scan(arrays[: len(chunks)], bound, way, index, carry, resets, target, with_total, method)
    return results[turn] if out is None else out, None if total is None else contiguous.in_c_order(total[turn])


class _Way(NamedTuple):
    """Which way lines are scanned."""

    axis: int
    reverse: bool  # from their last elements on
    exclusive: bool
    index_step: int  # from one element's position to that of the next that is scanned

    @classmethod
    def of(cls, axis: int, reverse: bool, exclusive: bool) -> _Way:
        return cls(axis, reverse, exclusive, -1 if reverse else 1)


def _turned(arrays: Chunks, way: _Way) -> tuple[Chunks, _Way, tuple[slice, ...]]:
    """Arrays turned along the axes that all of them have in reverse, which way they are scanned then, and what turns
    them: nothing where there are no such axes."""
    turn = turning(arrays)
    if not turn:
        return arrays, way, ()
    reverse = way.reverse != (turn[way.axis].step is not None)
    return tuple(x[turn] for x in arrays), way._replace(reverse=reverse), turn


def _scan(
    chunks: Chunks,
    bound: Bound,
    way: _Way,
    index: int,
    carry: Any,
    resets: Any,
    out: Any,
    with_total: bool,
    method: str,
) -> tuple[Any, Any]:
    """The scan of chunks no axis of which is reversed in all arrays. ``index``: the position of a line's first element
    that is scanned."""
    device = chunks[0].data.device_id
    operands = chunks
    if resets is not None or out is not None:
        operands = _operands(chunks, bound, resets, out)
    target = out
    if out is not None and not _is_final(bound):
        target = None
    layouts = [(a.shape, a.strides, a.data.ptr % 16) for a in (*operands, *(() if target is None else (target,)))]
    key = (*layouts, bound, way, resets is None, target is None, device, method)
    prepared = _prepared.get(key)
    if prepared is None:
        if 0 in chunks[0].shape:
            return _nothing(chunks[0].shape, bound, way.axis, carry, out)
        prepared = _prepared[key] = _prepare(operands, target, bound, way, resets is not None, device, method)
    if target is None:
        target = prepared.out.new()
    total = prepared.total.new() if with_total else None
    if carry is None and index and prepared.counts:
        carry = _identities(_ends(chunks[0].shape, way.axis), bound)
    ahead = None if carry is None else _lined_up(carry, prepared.kept, way.axis, prepared.state_bytes)
    _run(prepared, (*operands, target), 0 if ahead is None else ahead.data.ptr, total, index, device)
    if total is not None and prepared.restores_totals:
        total = _restored(total, prepared, bound)
    return target if prepared.final else _finalised(target, bound, out), total


def clear() -> None:
    """Forget every plan. Compiled kernels stay."""
    _prepared.clear()


def _is_final(bound: Bound) -> bool:
    """True where the kernels finalise states."""
    return not bound.monoid.unsafe_cuda and device_operator.cuda_operator(bound, True).emit != ""


def _operands(chunks: Chunks, bound: Bound, resets: Any, out: Any) -> Chunks:
    """What the kernels read: chunks, and where segments start; copies where results would lie across them."""
    import cupy

    found = chunks
    if resets is not None:
        found = (*chunks, cupy.broadcast_to(resets.astype(bool, copy=False), chunks[0].shape))
    if out is not None and _is_final(bound) and not _apart_or_same(out, found):
        found = tuple(a.copy() for a in found)
    return found


def _nothing(shape: tuple[int, ...], bound: Bound, axis: int, carry: Any, out: Any) -> tuple[Any, Any]:
    """The scan of a chunk without elements."""
    import cupy

    total = _identities(_ends(shape, axis), bound) if carry is None else carry
    return cupy.empty(shape, bound.result) if out is None else out, total


def _ends(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Of totals."""
    return tuple(1 if a == axis else n for a, n in enumerate(shape))


def _prepare(
    operands: Chunks,
    out: Any,
    bound: Bound,
    way: _Way,
    segmented: bool,
    number: int,
    method: str,
) -> Prepared:
    for array in operands if out is None else (*operands, out):
        check_aligned(array, bound.name)
    first, final, axis = operands[0], _is_final(bound), way.axis
    op, arrays, made, order = _task(operands, out, bound, way, segmented)
    kept = tuple(a for a in order if a != axis)
    plan = scan_plans.plan(op, arrays, way.exclusive, way.reverse, scan_launch.gpu(number), method)
    total = (*(first.shape[a] for a in kept), 1, op.state_bytes)
    back = [0] * (first.ndim + 1)
    for place, a in enumerate([*kept, axis, first.ndim]):
        back[a] = place
    is_transposed = [a for a in kept if first.shape[a] > 1] != sorted(a for a in kept if first.shape[a] > 1)
    if not is_transposed:
        total = (*(1 if a == axis else n for a, n in enumerate(first.shape)), op.state_bytes)
    return Prepared(
        *scan_launch.load(plan, number, *device_operator.own_text(bound)),
        plan,
        final,
        made,
        scan_launch.Room(total, np.dtype(np.uint8), max(1, math.prod(total))),
        kept,
        tuple(back) if is_transposed else (),
        op.state_bytes,
        is_transposed or op.state_bytes > bound.state.itemsize,
        any(f"<{scan_task.COUNTED}<" in step.kernel for step in plan.steps),
    )


def _task(
    operands: Chunks, out: Any, bound: Bound, way: _Way, segmented: bool
) -> tuple[scan_task.Operator, scan_task.Operands, scan_launch.Room, list[int]]:
    """What is planned for: the operator, the arrays, what is made for results, and the axes in the order of memory."""
    first, final = operands[0], _is_final(bound)
    op = _operator(bound, final, segmented, tuple(a.itemsize for a in operands))
    order = _memory_order(first, way.axis)
    made = scan_launch.of_results(first, order, op.out_bytes, bound.result if final else None)
    if out is None:
        strides, phase = made.strides or scan_launch.c_strides(made.shape, op.out_bytes), made.lead % 16
    else:
        strides, phase = out.strides, out.data.ptr % 16
    arrays = scan_task.Operands(
        tuple(first.shape[a] for a in order),
        order.index(way.axis),
        tuple(tuple(s[a] for a in order) for s in (*(x.strides for x in operands), strides)),
        (*(x.data.ptr % 16 for x in operands), phase),
        way.index_step,
    )
    return op, arrays, made, order


def features(
    chunks: Chunks, bound: Bound, axis: int, exclusive: bool, reverse: bool, gpu: scan_task.Gpu
) -> list[scan_costs.Features]:
    """What the times of all plans of a scan depend on. By each kernel of those it can be asked for as a ``method``."""
    chunks, way, _ = _turned(chunks, _Way.of(axis, reverse, exclusive))
    op, arrays, *_ = _task(chunks, None, bound, way, False)
    plans = scan_plans.every(op, arrays, exclusive, way.reverse, gpu)
    return [scan_costs.features(plan, op, arrays) for plan in plans]


def _finalised(states: Any, bound: Bound, out: Any) -> Any:
    """The results of states that only the host can finalise."""
    values = device_reduce.finalise(contiguous.in_c_order(states[..., : bound.state.itemsize]), bound)
    if out is None:
        return values
    out[...] = values
    return out


def _identities(shape: tuple[int, ...], bound: Bound) -> Any:
    import cupy

    states = np.ascontiguousarray(bound.identities(shape))
    return cupy.asarray(states.view(np.uint8).reshape(*shape, bound.state.itemsize))


@functools.lru_cache(maxsize=256)
def _operator(bound: Bound, final: bool, segmented: bool, itemsizes: tuple[int, ...]) -> scan_task.Operator:
    op = device_operator.cuda_operator(bound, final)
    state, align = bound.state.itemsize, bound.state.alignment
    kind = f"Indexed<{op.type}>" if bound.indexed else op.type
    if segmented:
        plain = scan_task.Operator(kind, "", itemsizes, 0, state, align)
        kind, state, align = f"Segmented<{kind}>", plain.running_bytes, max(4, align)
    emits = f"Final<{kind}, {op.emit}>" if final else f"Keep<{kind}>"
    out = bound.result.itemsize if final else state
    return scan_task.Operator(kind, emits, itemsizes, out, state, align, device_operator.options(bound), bound.indexed)


def _memory_order(array: Any, axis: int) -> list[int]:
    """Axes of one element, then from the longest stride to the shortest; the scanned one last among equals, and last of
    all where it has one element, so that lines of one lie behind each other."""
    strides = [abs(s) if n > 1 else 0 for n, s in zip(array.shape, array.strides, strict=True)]
    order: list[int] = sorted(range(array.ndim), key=lambda a: (array.shape[a] > 1, -strides[a], a == axis))
    if array.shape[axis] == 1 or all(strides[a] == 0 or a == axis for a in order):
        order = [a for a in order if a != axis] + [axis]
    return order


def _apart_or_same(out: Any, operands: Sequence[Any]) -> bool:
    """True where each element lies where its result goes, or nowhere near it."""
    import cupy

    return all(
        not cupy.may_share_memory(out, x) or (out.data.ptr == x.data.ptr and out.strides == x.strides) for x in operands
    )


def _lined_up(carry: Any, kept: Sequence[int], axis: int, state: int) -> Any:
    """A partial's states in the order of the lines in memory, and as large as the kernel has them."""
    if carry.size == state:  # of one line
        return carry
    import cupy

    lines = contiguous.in_c_order(carry.transpose(*kept, axis, carry.ndim - 1))
    if carry.shape[-1] == state:
        return lines
    lines = lines.reshape(-1, carry.shape[-1])
    wider = cupy.zeros((len(lines), state), np.uint8)  # no line has begun in what stands before it
    wider[:, : lines.shape[1]] = lines
    return wider


def _restored(total: Any, prepared: Prepared, bound: Bound) -> Any:
    """States in the order of the lines in memory as a partial."""
    if prepared.back:
        total = total.transpose(prepared.back)
    if prepared.state_bytes > bound.state.itemsize:
        total = total[..., : bound.state.itemsize]
    return contiguous.in_c_order(total)


def _run(prepared: Prepared, arrays: Chunks, carry: int, total: Any, index: int, device: int) -> None:
    """Launch the steps one after another. Scratch goes back to the pool at once: its next use is behind them."""
    stream, plan = launch.current_stream(), prepared.plan
    scratch, states, ticket = None, 0, 0  # scratch is kept until the launches are on the stream
    if plan.zeroes_scratch:
        scratch, states = launch.zeros(plan.scratch_bytes, device, stream)
        ticket = states + plan.scratch_bytes - 16
    elif plan.scratch_bytes:
        scratch = launch.allocate(plan.scratch_bytes)
        states = scratch.ptr
    firsts = [a.data.ptr + start for a, start in zip(arrays, plan.starts, strict=True)]
    second = firsts[1] if len(firsts) > 2 else 0
    totals = 0 if total is None else total.data.ptr
    flags = firsts[2] if len(firsts) > 3 else 0
    head = _POINTERS.pack(firsts[-1], firsts[0], second, carry, totals, states, ticket, flags, index)
    task = head + plan.words
    for entry, blocks, threads, shared_bytes in prepared.steps:
        launch.start_kernel(entry, blocks, threads, shared_bytes, task, stream)
