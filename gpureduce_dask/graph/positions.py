"""Positions in partials of a monoid that does not commute, some of whose axes wait for a later stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chunk import to_host
from ..host import masked
from ..operators.grouped import Binned
from ..operators.monoid import Bound
from ..place import Place

Axes = tuple[int, ...]


def shift_positions(partial: Any, bound: Bound, axes: Axes, place: Place | None) -> Any:
    """A partial, on the host where it changes, whose positions count over all reduced axes.

    A fold counts along ``axes`` alone, the last of them: here come the steps of those ahead, which have kept their size
    in the partial. The place has a size along reduced axes alone.
    """
    if place is None or not bound.positions or isinstance(bound, Binned):
        return partial
    reduced = tuple(a for a, n in enumerate(place.shape) if n)
    steps = {a: s for a, s in zip(reduced, place.steps(reduced), strict=True) if a not in axes}
    if not steps:
        return partial
    if isinstance(partial, masked.MaskedPartial):
        return masked.with_states(partial, shift_positions(partial.states, bound, axes, place))
    found = to_host(partial, bound).copy()
    for axis, step in steps.items():
        along = place.offsets[axis] + np.arange(found.shape[axis], dtype=np.int64)
        moved = (along * step).reshape([-1 if a == axis else 1 for a in range(found.ndim)])
        for name in bound.positions:
            found[name] += np.where(found[name] < 0, 0, moved)
    return found
