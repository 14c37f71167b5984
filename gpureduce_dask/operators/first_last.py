"""Rows first and last: the first or last element that is not missing. A scan of last fills gaps forward.

NaN and NaT are missing; integers and bool never are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cuda_types as cuda
from . import native, positions, rules
from .limits import void
from .monoid import Array, DType, Fields, Monoid, State
from .panels import PANEL, panels


def fields(dtype: DType) -> Fields:
    return (("value", dtype), ("seen", np.dtype(bool)))


def identity(dtype: DType) -> tuple[Any, ...]:
    return void(dtype, 0), False


def lift(x: Array, index: Array) -> State:
    return x, ~positions.isnan(x)


def first_combine(earlier: State, later: State) -> State:
    return np.where(earlier[1], earlier[0], later[0]), earlier[1] | later[1]


def last_combine(earlier: State, later: State) -> State:
    return np.where(later[1], later[0], earlier[0]), earlier[1] | later[1]


def finalise(state: State, dtype: DType) -> Array:
    return np.where(state[1], state[0], np.asarray(void(dtype, 0), dtype))


def first_fold(block: Array, index: Array | None) -> State:
    """Stretch by stretch, each longer than the last one, until all cells have an element: most have one early."""
    outer, n, inner = block.shape
    longest = max(PANEL // (outer * inner), 1)
    state, start, length = _first(block[:, :1]), 1, 4
    while start < n and not np.all(state[1]):
        state = first_combine(state, _first(block[:, start : start + length]))
        start, length = start + length, min(4 * length, longest)
    return state


def _first(block: Array) -> State:
    seen = ~positions.isnan(block)
    at, found = positions.first(seen)
    at = np.where(found, at, 0)
    return np.take_along_axis(block, at[:, None], 1)[:, 0], found


def first_running(block: Array, index: Array, carry: State) -> tuple[State, State]:
    seen = ~positions.isnan(block)
    at, found = positions.first(seen)
    values = np.take_along_axis(block, np.where(found, at, 0)[:, None], 1)[:, 0]
    behind = np.where(carry[1], carry[0], values), carry[1] | found
    begun = carry[1][:, None] | (found[:, None] & (np.arange(block.shape[1])[:, None] >= at[:, None]))
    return (np.broadcast_to(behind[0][:, None], block.shape), begun), behind


def last_fold(block: Array, index: Array | None) -> State:
    return first_fold(block[:, ::-1], index)


def last_sweep(block: Array, carry: State, out: Array) -> State:
    """Gaps filled with what stands before them."""
    if block.dtype.kind in "biu":  # which has none
        np.copyto(out, block)
        return block[:, -1], np.ones(carry[1].shape, bool)
    behind = native.scan("last", block, carry[0], out)
    if behind is not None:
        return behind, carry[1] | ~np.isnan(behind)
    for panel, target in zip(panels(block), panels(out), strict=True):
        carry = _fill(panel, carry, target)
    return carry


def _fill(panel: Array, carry: State, out: Array) -> State:
    at = np.where(positions.isnan(panel), -1, np.arange(panel.shape[1])[:, None])
    np.maximum.accumulate(at, axis=1, out=at)
    filled = np.where(at < 0, carry[0][:, None], np.take_along_axis(panel, np.maximum(at, 0), 1))
    out[...] = filled
    return filled[:, -1].copy(), carry[1] | (at[:, -1] >= 0)


def _kept(name: str, **functions: Any) -> Monoid:
    shared: dict[str, Any] = {"fields": fields, "identity": identity, "lift": lift, "finalise": finalise}
    return rules.row(name, rules.ORDERED, rules.same, empty="raise", commutative=False, **shared, **functions)


ROWS = (
    _kept("first", combine=first_combine, fold=first_fold, running=first_running, cuda=cuda.first),
    _kept("last", combine=last_combine, fold=last_fold, sweep=last_sweep, cuda=cuda.last),
)
