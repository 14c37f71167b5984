"""What it takes to reduce CuPy chunks of one layout: kernels, grids and parameters, found once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, message
from ..expressions.mapped import unmapped
from ..operators.monoid import Bound
from ..place import Place
from . import launch
from .layout import EMPTY, MAX_OPERANDS, Layout, collapse, order_of
from .operator import as_map, cuda_operator, options, own_text, reducer
from .plan_cache import Plans
from .plans import Launch, Operator, by_cells
from .reduce_costs import Effort, seconds
from .specialise import Plan, along_memory, first_of_repeated, first_or_last, invariant_operands

Chunks = tuple[Any, ...]
Array = np.ndarray[Any, np.dtype[Any]]
Addresses = Sequence[tuple[int, ...]] | Array  # of the operands' first elements: one chunk's, or many's


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about reducing chunks of one layout that does not change from call to call."""

    steps: tuple[launch.Ready, ...]
    layout: Layout
    shape: tuple[int, ...]  # of the array it writes, and its dtype and bytes
    dtype: Any
    nbytes: int
    state_bytes: int
    back: tuple[int, ...] = ()  # the axes of that array, in their own order; none where they are

    def in_order(self, out: Any) -> Any:
        """The array that was written, its axes in their own order."""
        return out.transpose(self.back) if self.back else out


def of_steps(
    steps: tuple[launch.Ready, ...],
    layout: Layout,
    cells: tuple[int, ...],
    bound: Bound,
    final: bool,
    order: tuple[int, ...] = (),
) -> Prepared:
    """A plan of launches that write so many cells: states, or results, along their axes in an order of their own."""
    state = bound.state.itemsize
    shape, dtype = (cells, bound.result) if final else ((*cells, state), np.dtype(np.uint8))
    nbytes = max(1, math.prod(shape) * dtype.itemsize)
    back = tuple(order.index(axis) for axis in range(len(order)))
    return Prepared(steps, layout, tuple(shape[axis] for axis in order) or shape, dtype, nbytes, state, back)


known: Plans[Prepared] = Plans()  # by what they depend on


def plan(
    chunk: Chunks,
    count: int,
    bound: Bound,
    axes: tuple[int, ...],
    place: Place | None,
    finish: str = "ticket",
    final: bool = False,
) -> Prepared:
    """How so many chunks as this one are reduced together. Their GPU is current."""
    key = key_of(chunk, count, bound, axes, place, finish, final)
    prepared = known.get(key)
    if prepared is None:
        prepared = known[key] = _prepare(chunk, count, bound, axes, place, finish, final)
    return prepared


def bases_of(
    addresses: Addresses, layout: Layout, starts: Sequence[int] | Array | None
) -> Sequence[launch.Base] | Array:
    """Of many chunks all at once: a GPU reads a small one in less time than a line of Python takes."""
    first, second = layout.offset_a, layout.offset_b
    if isinstance(addresses, np.ndarray):
        bases = np.zeros((len(addresses), 3), np.int64)
        bases[:, 0] = addresses[:, 0] + first
        if addresses.shape[1] > 1:
            bases[:, 1] = addresses[:, 1] + second
        bases[:, 2] = layout.index if starts is None else layout.index + np.asarray(starts)
        return bases
    a, *others = addresses[0]
    return [(a + first, others[0] + second if others else 0, layout.index + (starts[0] if starts is not None else 0))]


def more_of(addresses: Addresses, layout: Layout) -> Array | None:
    """The addresses of a third and fourth operand, a row a chunk; None where there is none."""
    if not layout.more:
        return None
    pointers = np.zeros((len(addresses), MAX_OPERANDS - 2), np.int64)
    for k, (offset, _, _) in enumerate(layout.more):
        pointers[:, k] = np.asarray(addresses)[:, 2 + k] + offset
    return pointers


def key_of(
    chunk: Chunks, count: int, bound: Bound, axes: tuple[int, ...], place: Place | None, finish: str, final: bool
) -> tuple[Any, ...]:
    """What a plan depends on."""
    steps = _index_steps(chunk, bound, axes, place)
    layouts = [(a.shape, a.strides, a.data.ptr % 16) for a in chunk]
    return (*layouts, count, bound, axes, steps, finish, final, chunk[0].data.device_id)


def _index_steps(chunk: Chunks, bound: Bound, axes: tuple[int, ...], place: Place | None) -> tuple[int, ...]:
    """The step of the index along each reduced axis: C order in the whole array; 0 where there are no positions."""
    if not bound.indexed:
        return (0,) * len(axes)
    whole = place.shape if place else chunk[0].shape
    return tuple(math.prod(whole[b] for b in axes[i + 1 :]) for i in range(len(axes)))


def every(
    chunk: Chunks, count: int, bound: Bound, axes: tuple[int, ...], place: Place | None, final: bool = False
) -> Iterator[tuple[str, tuple[Effort, ...], float, Callable[[], Prepared]]]:
    """Every way to reduce so many chunks, which have elements: its name, what its predicted seconds depend on, these,
    and what compiles it."""
    cut = _cut(chunk, count, bound, axes, place, "ticket", final)
    for name, efforts, launches in cut.plan.every():
        yield name, efforts, sum(map(seconds, efforts)), partial(cut.prepared, launches, final)


def _prepare(
    chunk: Chunks, count: int, bound: Bound, axes: tuple[int, ...], place: Place | None, finish: str, final: bool
) -> Prepared:
    if finish not in ("ticket", "atomic", "two-pass"):
        raise ArgumentError(
            message(bound.name, f"finish={finish!r}", "'ticket', 'atomic' or 'two-pass'", "Leave it out for the best.")
        )
    op = cuda_operator(bound, final)
    if finish == "atomic":
        _check_atomic(bound, final)
    if math.prod(chunk[0].shape) == 0:
        cells = _cells(chunk, axes)
        launches = [fill(op, math.prod(cells), bound)] if math.prod(cells) else []
        ready = launch.ready(launches, chunk[0].data.device_id, *own_text(bound))
        return of_steps(ready, EMPTY, cells, bound, final)
    cut = _cut(chunk, count, bound, axes, place, finish, final)
    return cut.prepared(cut.plan.launches(), final)


def _cells(chunk: Chunks, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(chunk[0].shape))


class _Cut(NamedTuple):
    """A layout of elements, and how it may be taken."""

    plan: Plan
    layout: Layout
    bound: Bound
    text: tuple[Any, ...]  # behind the kernels, and their constants
    order: tuple[int, ...]  # of the axes along which results are written
    cells: tuple[int, ...]
    device: int

    def prepared(self, launches: list[Launch], final: bool) -> Prepared:
        """Launches of one way, compiled."""
        ready = launch.ready(launches, self.device, *self.text)
        return of_steps(ready, self.layout, self.cells, self.bound, final, self.order)


def _cut(
    chunk: Chunks, count: int, bound: Bound, axes: tuple[int, ...], place: Place | None, finish: str, final: bool
) -> _Cut:
    reduced = count * math.prod(chunk[0].shape[a] for a in axes)
    op, option = reducer(bound, reduced, final)
    fixed: tuple[int, ...] = ()
    strides = tuple(a.strides for a in chunk)
    sizes = tuple(a.itemsize for a in chunk)
    index = _index_steps(chunk, bound, axes, place)
    # Results lie as the elements do: threads that read together write together. States are combined in C order.
    order = order_of(chunk[0].shape, strides, axes) if final else ()
    layout = collapse(chunk[0].shape, strides, sizes, axes, index, op.commutative, bound.indexed, order)
    of = as_map(bound) if len(chunk) > 1 else None
    if of is not None and (fixed := invariant_operands(layout)):
        bound = of
        op, option = reducer(bound, reduced, final, fixed)
    for a in chunk:
        check_aligned(a, bound.name)
    op, layout = along_memory(op, first_or_last(op, first_of_repeated(op, layout)))
    phases = tuple((a.data.ptr + offset) % 16 for a, offset in zip(chunk, layout.offsets, strict=False))
    plan, text = Plan(op, layout, phases, count, finish, option), own_text(bound, fixed)
    return _Cut(plan, layout, bound, text, order, _cells(chunk, axes), chunk[0].data.device_id)


def check_aligned(array: Any, name: str) -> None:
    """A GPU faults on an element at no multiple of its size: of 16 for the largest."""
    size = min(16, array.itemsize)
    steps = [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    if array.data.ptr % size or any(s % size for s in steps):
        where = f"{array.dtype} data at address ...{array.data.ptr % 16:x} with strides {array.strides}"
        raise ArgumentError(message(name, where, f"multiples of {size}", "Copy the array."))


def fill(op: Operator, cells: int, bound: Bound) -> Launch:
    """States or results of nothing, so many."""
    return by_cells("fill_cells", op, cells, options(bound))


def _check_atomic(bound: Bound, final: bool) -> None:
    order_free = ("any", "all", "count_nonzero", "min", "max", "sum")
    (element, *_) = unmapped(bound).elements  # of a map what it gives, whatever it takes
    exact = element.kind in "biu" or bound.name in ("any", "all", "count_nonzero")
    narrow = bound.name in ("min", "max") and element.itemsize < 4
    if final or bound.name not in order_free or not exact or narrow:
        raise ArgumentError(
            message(
                bound.name,
                f"finish='atomic' for {element}",
                "an operator that is exact in any order",
                "Use finish='ticket'.",
            )
        )
