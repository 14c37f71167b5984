"""The chunk protocol on a GPU: CuPy arrays in, packed states (CuPy bytes) or finished CuPy arrays out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..expressions.cuda import MOST_ARRAYS
from ..expressions.mapped import unmapped
from ..operators import cuda_types
from ..operators.monoid import Bound
from ..place import Place, starts_of
from . import chunk_plans, launch
from .batch import Batch
from .chunk_plans import Addresses, Array, Chunks, Prepared, bases_of, fill, key_of, known, more_of, of_steps, plan
from .layout import EMPTY, collapse
from .map_cut import fit_operands
from .operator import cuda_operator, options, own_text
from .plan_cache import Plans
from .plans import by_cells
from .specialise import Plan, refold
from .task import BATCH, BATCH4

_quick: Plans[Prepared] = Plans()  # plans of one launch on one array: found with half the host time


def clear() -> None:
    """Forget every plan. Compiled kernels stay."""
    known.clear()
    _quick.clear()


def reduce(
    chunks: Chunks,
    bound: Bound,
    axes: tuple[int, ...],
    place: Place | None = None,
    *,
    finish: str = "ticket",
    final: bool = False,
) -> Any:
    """The partial of one chunk, or with ``final`` its results.

    ``finish`` says how blocks that share a cell bring their states together: ``"ticket"`` (the last block folds
    them, in one launch), ``"two-pass"`` (a second launch does), or ``"atomic"`` (where that is exact and order-free).
    """
    if place is not None or len(chunks) > 1:
        return _reduce_one(chunks, bound, axes, place, finish, final)
    array = chunks[0]
    memory = array.data
    device = memory.device_id
    key = (array.shape, array.strides, memory.ptr % 16, bound, axes, finish, final, device)
    found = _quick.get(key)
    if found is None or launch.current_device() != device:
        out = _reduce_one(chunks, bound, axes, None, finish, final)
        prepared = known[key_of(chunks, 1, bound, axes, None, finish, final)]
        if len(prepared.steps) == 1 and prepared.steps[0].is_plain and not prepared.layout.index:
            _quick[key] = prepared
        return out
    out, pointer = launch.new_array(found.shape, found.dtype, found.nbytes)
    launch.run_plain(found.steps[0], memory.ptr + found.layout.offset_a, pointer)
    return found.in_order(out)


def reduce_many(
    chunks: Sequence[Chunks],
    bound: Bound,
    axes: tuple[int, ...],
    places: Sequence[Place] | None = None,
    *,
    finish: str = "ticket",
    final: bool = False,
) -> Any:
    """The partial of several chunks, folded left to right: a launch for each stretch of chunks of one layout."""
    batch = chunks if isinstance(chunks, Batch) else Batch(list(chunks), True)
    if len(batch[0]) > MOST_ARRAYS:
        each: Sequence[Place | None] = places or [None] * len(batch)
        partial = combine(
            [_reduce_one(c, bound, axes, p, finish, False) for c, p in zip(batch, each, strict=True)], bound
        )
        return finalise(partial, bound) if final else partial
    found = batch.layout(stretches)
    starts = None
    if bound.indexed and places:
        starts = starts_of(places, axes)
    elif bound.indexed and len(batch) > 1:
        raise ArgumentError(message(bound.name, "several chunks without places", "one place a chunk", "Pass places=."))
    place = places[0] if places else None
    if len(found) == 1:
        return _reduce(batch, bound, axes, place, finish, final, found[0][2], starts)
    partials = [
        _reduce(batch[i:j], bound, axes, place, finish, False, at, starts if starts is None else starts[i:j])
        for i, j, at in found
    ]
    partial = combine(partials, bound)
    return finalise(partial, bound) if final else partial


def stretches(chunks: Sequence[Chunks]) -> list[tuple[int, int, Array]]:
    """Ranges of neighbouring chunks that one launch can take, alike in layout and alignment, and their addresses."""
    most = BATCH if len(chunks[0]) <= 2 else BATCH4
    layouts, addresses = [], []
    for chunk in chunks:
        memories = [a.data for a in chunk]
        pointers = [m.ptr for m in memories]
        layouts.append(
            [
                (a.shape, a.strides, a.dtype, p % 16, m.device_id)
                for a, m, p in zip(chunk, memories, pointers, strict=True)
            ]
        )
        addresses.append(pointers)
    found, start = [], 0
    for i in range(1, len(layouts) + 1):
        if i == len(layouts) or i - start == most or layouts[i] != layouts[start]:
            found.append((start, i, np.array(addresses[start:i], np.int64)))
            start = i
    return found


def _reduce_one(
    chunk: Chunks, bound: Bound, axes: tuple[int, ...], place: Place | None, finish: str, final: bool
) -> Any:
    if len(chunk) > MOST_ARRAYS and len(bound.parts) > 1:
        return _side_by_side([_reduce_one(chunk, part, axes, place, finish, False) for part in bound.parts], bound)
    chunk, bound = fit_operands(chunk, bound, MOST_ARRAYS)
    starts = [place.start(axes)] if place and bound.indexed else None
    return _reduce([chunk], bound, axes, place, finish, final, [tuple(a.data.ptr for a in chunk)], starts)


def _side_by_side(partials: Sequence[Any], bound: Any) -> Any:
    """The partial of a product from those of its parts."""
    import cupy

    found = cupy.zeros((*partials[0].shape[:-1], bound.state.itemsize), np.uint8)
    for partial, start in zip(partials, bound.offsets, strict=True):
        found[..., start : start + partial.shape[-1]] = partial
    return found


def _reduce(
    chunks: Sequence[Chunks],
    bound: Bound,
    axes: tuple[int, ...],
    place: Place | None,
    finish: str,
    final: bool,
    addresses: Addresses,
    starts: Sequence[int] | Array | None,
) -> Any:
    """One launch; ``starts`` are the positions of the chunks' first elements, ``place`` is that of any of them."""
    device = chunks[0][0].data.device_id
    if launch.current_device() != device:
        import cupy

        with cupy.cuda.Device(device):
            return _reduce(chunks, bound, axes, place, finish, final, addresses, starts)
    return run(plan(chunks[0], len(chunks), bound, axes, place, finish, final), addresses, starts, device)


def run(prepared: Prepared, addresses: Addresses, starts: Sequence[int] | Array | None, device: int) -> Any:
    """What a plan finds of chunks whose first elements have these addresses and positions, on a GPU that is current."""
    out, pointer = launch.new_array(prepared.shape, prepared.dtype, prepared.nbytes)
    bases = bases_of(addresses, prepared.layout, starts)
    launch.run(prepared.steps, bases, pointer, prepared.state_bytes, device, more_of(addresses, prepared.layout))
    return prepared.in_order(out)


def combine(partials: Sequence[Any], bound: Bound) -> Any:
    """Partials of one shape to one, cell by cell, left to right."""
    if len(partials) == 1:
        return partials[0]
    import cupy

    with cupy.cuda.Device(partials[0].data.device_id):
        return combine_axis(cupy.stack(list(partials)), bound, 0)[0]


def combine_axis(partial: Any, bound: Bound, axis: int) -> Any:
    """A partial folded along one of its own axes, which keeps size 1."""
    import cupy

    bound = unmapped(bound)
    device = partial.data.device_id
    with cupy.cuda.Device(device):
        states = partial if partial.flags.c_contiguous else partial.copy()
        shape, size = states.shape[:-1], bound.state.itemsize
        keepdims = tuple(1 if a == axis % len(shape) else n for a, n in enumerate(shape))
        key = ("fold", shape, axis, bound, device)
        prepared = known.get(key)
        if prepared is None:
            prepared = known[key] = _prepare_fold(shape, keepdims, axis % len(shape), bound, device)
        out, pointer = launch.new_array(prepared.shape, prepared.dtype, prepared.nbytes)
        launch.run(prepared.steps, [(states.data.ptr, 0, 0)], pointer, size, device)
        return out


def _prepare_fold(shape: tuple[int, ...], keepdims: tuple[int, ...], axis: int, bound: Bound, device: int) -> Prepared:
    op, size = refold(cuda_operator(bound)), bound.state.itemsize
    if math.prod(shape) == 0:
        layout = EMPTY
        launches = [fill(op, math.prod(keepdims), bound)] if math.prod(keepdims) else []
    else:
        strides = tuple(size * math.prod(shape[a + 1 :]) for a in range(len(shape)))
        layout = collapse(shape, (strides,), (size,), (axis,), (0,), op.commutative, False)
        launches = Plan(op, layout, (0,)).launches()
    return of_steps(launch.ready(launches, device, *own_text(bound)), layout, keepdims, bound, False)


def finalise(partial: Any, bound: Bound) -> Any:
    """A device partial's results, as a CuPy array. A monoid without a CUDA ``finalise`` goes through the host."""
    import cupy

    from ..host import reduce as host_reduce

    bound = unmapped(bound)
    device = partial.data.device_id
    with cupy.cuda.Device(device):
        states = partial if partial.flags.c_contiguous else partial.copy()
        if bound.monoid.unsafe_cuda or not cuda_types.element(bound.result):
            packed = states.get().view(bound.state)[..., 0]
            return cupy.asarray(host_reduce.finalise(packed, bound))
        shape = states.shape[:-1]
        key = ("finalise", shape, bound, device)
        prepared = known.get(key)
        if prepared is None:
            op = cuda_operator(bound, True)
            cells = math.prod(shape)
            step = by_cells("finalise_cells", op, cells, options(bound))
            ready = launch.ready([step] if cells else [], device, *own_text(bound))
            prepared = known[key] = of_steps(ready, EMPTY, shape, bound, True)
        out, pointer = launch.new_array(prepared.shape, prepared.dtype, prepared.nbytes)
        launch.run(prepared.steps, [(states.data.ptr, 0, 0)], pointer, bound.state.itemsize, device)
        return out


def reduce_each(batch: Batch, bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None) -> list[Any]:
    """An array of partials for each stretch of chunks of one layout, along its first axis.

    A chunk is a launch, as where it is reduced alone, and gives the same bits; what a launch takes is found once.
    """
    if len(batch[0]) > MOST_ARRAYS:
        each: Sequence[Place | None] = places or [None] * len(batch)
        return [reduce(c, bound, axes, p)[None] for c, p in zip(batch, each, strict=True)]
    starts = starts_of(places, axes) if bound.indexed and places else None
    found = []
    for i, j, at in batch.layout(stretches):
        found.append(_stretch(batch[i], at, bound, axes, places, None if starts is None else starts[i:j]))
    return found


def _stretch(
    first: Any, addresses: Any, bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None, starts: Any
) -> Any:
    """The partials of chunks that are laid out as the first of them is."""
    number = first[0].data.device_id
    if launch.current_device() != number:
        import cupy

        with cupy.cuda.Device(number):
            return _stretch(first, addresses, bound, axes, places, starts)
    prepared = chunk_plans.plan(first, 1, bound, axes, places[0] if places else None)
    out, pointer = launch.new_array((len(addresses), *prepared.shape), prepared.dtype, len(addresses) * prepared.nbytes)
    bases = chunk_plans.bases_of(addresses, prepared.layout, starts)
    more = chunk_plans.more_of(addresses, prepared.layout)
    for i in range(len(addresses)):
        rest = None if more is None else more[i : i + 1]
        launch.run(prepared.steps, bases[i : i + 1], pointer, prepared.state_bytes, number, rest)
        pointer += out.strides[0]
    return out
