"""The partials of several CuPy chunks, one each, in an array that leaves their GPU at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device import launch
from ..expressions.cuda import MOST_ARRAYS
from ..monoid import Bound
from . import device, device_plans
from .batch import Batch
from .place import Place, starts_of


def reduce_each(batch: Batch, bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None) -> list[Any]:
    """An array of partials for each stretch of chunks of one layout, along its first axis.

    A chunk is a launch, as where it is reduced alone, and gives the same bits; what a launch takes is found once.
    """
    if len(batch[0]) > MOST_ARRAYS:
        each: Sequence[Place | None] = places or [None] * len(batch)
        return [device.reduce(c, bound, axes, p)[None] for c, p in zip(batch, each, strict=True)]
    starts = starts_of(places, axes) if bound.indexed and places else None
    found = []
    for i, j, at in batch.layout(device.stretches):
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
    prepared = device_plans.plan(first, 1, bound, axes, places[0] if places else None)
    out, pointer = launch.new_array((len(addresses), *prepared.shape), prepared.dtype, len(addresses) * prepared.nbytes)
    bases = device_plans.bases_of(addresses, prepared.layout, starts)
    more = device_plans.more_of(addresses, prepared.layout)
    for i in range(len(addresses)):
        rest = None if more is None else more[i : i + 1]
        launch.run(prepared.steps, bases[i : i + 1], pointer, prepared.state_bytes, number, rest)
        pointer += out.strides[0]
    return out
