"""The chunk protocol on a GPU: CuPy arrays in, packed states (CuPy bytes) or finished CuPy arrays out."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import cuda_types
from ..device import launch
from ..device.layout import EMPTY, Layout, collapse
from ..device.specialise import Launch, Operator, Plan, operator, refold
from ..device.task import BATCH, Work
from ..device.tuning import GRID, THREADS
from ..errors import ArgumentError, CompileError, DtypeError, message
from ..monoid import Bound
from .place import Place

Chunks = tuple[Any, ...]

_plans: dict[tuple[Any, ...], Prepared] = {}


class Prepared:
    """Everything about reducing chunks of one layout that does not change from call to call."""

    def __init__(self, steps: tuple[launch.Ready, ...], layout: Layout, shape: tuple[int, ...], state_bytes: int):
        self.steps, self.layout, self.shape, self.state_bytes = steps, layout, shape, state_bytes


def clear() -> None:
    """Forget every plan. Compiled kernels stay."""
    _plans.clear()


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
    return _reduce([chunks], bound, axes, None if place is None else [place], finish, final)


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
    chunks = list(chunks)
    stretches = list(_stretches(chunks, BATCH))
    if len(stretches) == 1:
        return _reduce(chunks, bound, axes, places, finish, final)
    partials = [_reduce(chunks[i:j], bound, axes, places and places[i:j], finish, False) for i, j in stretches]
    partial = combine(partials, bound)
    return finalise(partial, bound) if final else partial


def _stretches(chunks: Sequence[Chunks], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring chunks that one launch can take: alike in layout and alignment."""

    def alike(chunk: Chunks) -> tuple[Any, ...]:
        return tuple((a.shape, a.strides, a.dtype, a.data.ptr % 16, a.data.device_id) for a in chunk)

    start = 0
    for i in range(1, len(chunks) + 1):
        if i == len(chunks) or i - start == most or alike(chunks[i]) != alike(chunks[start]):
            yield start, i
            start = i


def _reduce(
    chunks: Sequence[Chunks],
    bound: Bound,
    axes: tuple[int, ...],
    places: Sequence[Place] | None,
    finish: str,
    final: bool,
) -> Any:
    first = chunks[0]
    device = first[0].data.device_id
    with _on(device):
        steps = _index_steps(first[0].shape, axes, places[0] if places else None) if bound.indexed else ()
        key = (
            *((a.shape, a.strides, a.data.ptr % 16) for a in first),
            len(chunks),
            bound,
            axes,
            steps,
            finish,
            final,
            device,
        )
        prepared = _plans.get(key)
        if prepared is None:
            prepared = _plans[key] = _prepare(first, len(chunks), bound, axes, steps, finish, final, device)
        out, pointer = _output(prepared, bound, final)
        layout = prepared.layout
        bases = []
        for i, chunk in enumerate(chunks):
            index = layout.index
            if bound.indexed and places:
                index += sum(s * places[i].offsets[a] for s, a in zip(steps, axes, strict=True))
            elif bound.indexed and i:
                raise ArgumentError(message(bound.name, "several chunks without places", "one place a chunk", ""))
            second = chunk[1].data.ptr + layout.offset_b if len(chunk) > 1 else 0
            bases.append((chunk[0].data.ptr + layout.offset_a, second, index))
        launch.run(prepared.steps, bases, pointer, prepared.state_bytes, device)
        return out


def _output(prepared: Prepared, bound: Bound, final: bool) -> tuple[Any, int]:
    """The array a plan writes to, and its address."""
    import cupy

    if final:
        shape, dtype = prepared.shape, bound.result
    else:
        shape, dtype = (*prepared.shape, bound.state.itemsize), np.dtype(np.uint8)
    memory = launch.allocate(max(1, math.prod(shape) * dtype.itemsize))
    return cupy.ndarray(shape, dtype, memory), memory.ptr


def _index_steps(shape: tuple[int, ...], axes: tuple[int, ...], place: Place | None) -> tuple[int, ...]:
    """The step of the index along each reduced axis: C order in the whole array."""
    whole = place.shape if place else shape
    return tuple(math.prod(whole[b] for b in axes[i + 1 :]) for i in range(len(axes)))


def _prepare(
    chunk: Chunks,
    count: int,
    bound: Bound,
    axes: tuple[int, ...],
    steps: tuple[int, ...],
    finish: str,
    final: bool,
    device: int,
) -> Prepared:
    op = cuda_operator(bound, final)
    if finish not in ("ticket", "atomic", "two-pass"):
        raise ArgumentError(
            message(bound.name, f"finish={finish!r}", "'ticket', 'atomic' or 'two-pass'", "Leave it out for the best.")
        )
    if finish == "atomic":
        _check_atomic(bound, op, final)
    shape = chunk[0].shape
    keepdims = tuple(1 if a in axes else n for a, n in enumerate(shape))
    if math.prod(shape) == 0:
        layout = EMPTY
        launches = [_fill(op, math.prod(keepdims), bound)] if math.prod(keepdims) else []
    else:
        strides = tuple(a.strides for a in chunk)
        sizes = tuple(a.itemsize for a in chunk)
        index = steps or (0,) * len(axes)
        layout = collapse(shape, strides, sizes, axes, index, op.commutative, bound.indexed)
        phases = tuple(
            (a.data.ptr + offset) % 16 for a, offset in zip(chunk, (layout.offset_a, layout.offset_b), strict=False)
        )
        for phase, a in zip(phases, chunk, strict=True):
            if phase % min(16, a.itemsize):
                raise ArgumentError(
                    message(bound.name, f"{a.dtype} data at address ...{phase:x}", "aligned data", "Copy the array.")
                )
        launches = Plan(op, layout, phases, count, finish, _options(bound)).launches()
    ready = launch.ready(launches, device, bound.monoid.unsafe_cuda)
    return Prepared(ready, layout, keepdims, bound.state.itemsize)


def _fill(op: Operator, cells: int, bound: Bound) -> Launch:
    blocks = min(-(-cells // THREADS), GRID)
    name = f"fill_cells<{op.type}, {op.emits}, {THREADS}, 1>"
    return Launch(name, blocks, Work(rows=cells, cells=cells, option=_options(bound)))


def _check_atomic(bound: Bound, op: Operator, final: bool) -> None:
    order_free = ("any", "all", "count_nonzero", "min", "max", "sum")
    exact = bound.elements[0].kind in "biu" or bound.name in ("any", "all", "count_nonzero")
    narrow = bound.name in ("min", "max") and bound.elements[0].itemsize < 4
    if final or bound.name not in order_free or not exact or narrow:
        raise ArgumentError(
            message(
                bound.name,
                f"finish='atomic' for {bound.elements[0]}",
                "an operator that is exact in any order",
                "Use finish='ticket'.",
            )
        )


def cuda_operator(bound: Bound, final: bool = False) -> Operator:
    """The CUDA type of a bound monoid. Raises where the monoid has none, or no GPU array holds its elements."""
    monoid, elements = bound.monoid, bound.elements
    names = [cuda_types.element(d) for d in (*bound.dtypes, *elements)]
    if None in names:
        raise DtypeError(
            message(bound.name, f"dtypes {bound.dtypes} on a GPU", "dtypes that CUDA has", "Convert the array first.")
        )
    if monoid.unsafe_cuda:
        pair = names[0] if monoid.arity == 1 else f"Pair<{names[0]}, {names[1]}>"
        text = f"User<{monoid.name}, {pair}, {str(monoid.commutative).lower()}>"
    elif monoid.cuda is not None:
        text = monoid.cuda(*elements)
        if elements != bound.dtypes:
            text = f"Casting<{text}, {names[0]}>"
    else:
        raise CompileError(
            message(bound.name, "a monoid without CUDA text met a CuPy chunk", "unsafe_cuda=...", "See gr.Monoid.")
        )
    emit = cuda_types.element(bound.result) or "" if final else ""
    return operator(text, bound.dtypes, bound.state, monoid.commutative, emit)


def _options(bound: Bound) -> tuple[float, float]:
    """The keyword arguments of ``finalise`` as numbers, in the order of their names: what its CUDA form takes."""
    parameters = inspect.signature(bound.monoid.finalise).parameters.values()
    given = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    given.update(bound.monoid.options)
    values = [float(v) for _, v in sorted(given.items()) if isinstance(v, (bool, int, float, np.number))]
    return (values + [0.0, 0.0])[0], (values + [0.0, 0.0])[1]


def combine(partials: Sequence[Any], bound: Bound) -> Any:
    """Partials of one shape to one, cell by cell, left to right."""
    if len(partials) == 1:
        return partials[0]
    import cupy

    with _on(partials[0].data.device_id):
        return combine_axis(cupy.stack(list(partials)), bound, 0)[0]


def combine_axis(partial: Any, bound: Bound, axis: int) -> Any:
    """A partial folded along one of its own axes, which keeps size 1."""
    device = partial.data.device_id
    with _on(device):
        states = partial if partial.flags.c_contiguous else partial.copy()
        shape, size = states.shape[:-1], bound.state.itemsize
        keepdims = tuple(1 if a == axis % len(shape) else n for a, n in enumerate(shape))
        key = ("fold", shape, axis, bound, device)
        prepared = _plans.get(key)
        if prepared is None:
            prepared = _plans[key] = _prepare_fold(shape, keepdims, axis % len(shape), bound, device)
        out, pointer = _output(prepared, bound, False)
        launch.run(prepared.steps, [(states.data.ptr, 0, 0)], pointer, size, device)
        return out


def _prepare_fold(shape: tuple[int, ...], keepdims: tuple[int, ...], axis: int, bound: Bound, device: int) -> Prepared:
    op, size = refold(cuda_operator(bound)), bound.state.itemsize
    if math.prod(shape) == 0:
        layout = EMPTY
        launches = [_fill(op, math.prod(keepdims), bound)] if math.prod(keepdims) else []
    else:
        strides = tuple(size * math.prod(shape[a + 1 :]) for a in range(len(shape)))
        layout = collapse(shape, (strides,), (size,), (axis,), (0,), op.commutative, False)
        launches = Plan(op, layout, (0,)).launches()
    return Prepared(launch.ready(launches, device, bound.monoid.unsafe_cuda), layout, keepdims, size)


def finalise(partial: Any, bound: Bound) -> Any:
    """A device partial's results, as a CuPy array. A monoid without a CUDA ``finalise`` goes through the host."""
    import cupy

    from . import host

    device = partial.data.device_id
    with _on(device):
        states = partial if partial.flags.c_contiguous else partial.copy()
        if bound.monoid.unsafe_cuda or not cuda_types.element(bound.result):
            packed = states.get().view(bound.state)[..., 0]
            return cupy.asarray(host.finalise(packed, bound))
        shape = states.shape[:-1]
        cells = math.prod(shape)
        out = cupy.empty(shape, bound.result)
        if cells:
            key = ("finalise", cells, bound, device)
            prepared = _plans.get(key)
            if prepared is None:
                op = cuda_operator(bound, True)
                name = f"finalise_cells<{op.type}, {op.emits}, {THREADS}, 1>"
                work = Work(rows=cells, cells=cells, option=_options(bound))
                step = Launch(name, min(-(-cells // THREADS), GRID), work)
                layout = EMPTY
                ready = launch.ready([step], device, bound.monoid.unsafe_cuda)
                prepared = _plans[key] = Prepared(ready, layout, shape, bound.state.itemsize)
            launch.run(prepared.steps, [(states.data.ptr, 0, 0)], out.data.ptr, bound.state.itemsize, device)
        return out


@contextlib.contextmanager
def _on(device: int) -> Iterator[None]:
    """Work on the GPU that holds the data; free where it is the current one already."""
    import cupy

    if cupy.cuda.runtime.getDevice() == device:
        yield
    else:
        with cupy.cuda.Device(device):
            yield
