"""Masked chunks behind a meta that says NumPy: dot products, ``map_blocks`` and the like make them without a word.

What is masked counts for nothing, and a cell of which all is masked has a masked result, as stock dask has it. A
partial says which cells hold an element, beside the states that they would have otherwise, so that it folds with the
partials of chunks without masks. Scans read a neutral number in the place of what is masked, and mask it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..expressions.mapped import map_of, mapped
from ..expressions.program import unchanged
from ..operators.grouped import Binned
from ..operators.monoid import Array, Bound
from ..place import Place
from . import reduce as host_reduce

NEUTRAL = {"sum": 0, "nansum": 0, "prod": 1, "nanprod": 1}  # of the scans that stock dask has
# NumPy finds positions among what it fills masks with: the last that it would choose, which others may equal.
FILLS = {"argmin": np.ma.minimum_fill_value, "argmax": np.ma.maximum_fill_value}
QUOTIENTS = frozenset({"mean", "nanmean", "var", "nanvar", "std", "nanstd", "moment"})


@dataclass(frozen=True)
class MaskedPartial:
    """States, and where there is an element that counts."""

    states: Array
    present: Array

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.states.shape
        return shape

    @property
    def size(self) -> int:
        return self.states.size

    @property
    def nbytes(self) -> int:
        return self.states.nbytes + self.present.nbytes


def takes(bound: Bound) -> bool:
    """True for one reduction of one array, of the elements themselves."""
    is_one = len(bound.parts) == 1 and bound.monoid.arity == 1
    return is_one and not isinstance(bound, Binned) and map_of(bound) is None and not bound.monoid.unsafe_cuda


def reduce(chunk: Any, bound: Bound, axes: tuple[int, ...], place: Place | None = None) -> Any:
    """The partial of one chunk; of positions, one that knows no mask."""
    name = bound.name if bound.dtypes[0].kind in "fc" else bound.name.removeprefix("nan")
    if name in FILLS and bound.result.kind == "i":
        return host_reduce.reduce((np.ma.filled(chunk, FILLS[name](chunk)),), bound, axes, place)
    there = ~np.ma.getmaskarray(chunk)
    states = host_reduce.reduce((np.ma.getdata(chunk), there), _with_mask(bound), axes, place)
    return MaskedPartial(states, np.logical_or.reduce(there, axis=axes, keepdims=True))


@lru_cache(maxsize=256)
def _with_mask(bound: Bound) -> Bound:
    return mapped(unchanged((*bound.dtypes, np.dtype(bool))), bound, masked=True)


def filled(chunks: tuple[Any, ...], bound: Bound) -> tuple[Any, ...]:
    """Chunks for a scan, without masks where it has a neutral number for what they cover; all others as they are."""
    if not (isinstance(chunks[0], np.ma.MaskedArray) and takes(bound) and bound.name in NEUTRAL):
        return chunks
    return (np.ma.filled(chunks[0], chunks[0].dtype.type(NEUTRAL[bound.name])),)


def combine(partials: Sequence[Any], bound: Bound) -> MaskedPartial:
    """Partials of the host, some of them of masked chunks, to one."""
    each = [p if isinstance(p, MaskedPartial) else MaskedPartial(p, np.ones(p.shape, bool)) for p in partials]
    present = np.logical_or.reduce([p.present for p in each])
    return MaskedPartial(host_reduce.combine([p.states for p in each], bound), present)


def combine_axis(partial: MaskedPartial, bound: Bound, axis: int) -> MaskedPartial:
    present = np.logical_or.reduce(partial.present, axis=axis, keepdims=True)
    return MaskedPartial(host_reduce.combine_axis(partial.states, bound, axis), present)


def finalise(partial: MaskedPartial, bound: Bound) -> Array:
    """Results, masked where nothing counts; positions, which NumPy never masks, are 0 there. NumPy masks as well what
    a division makes that is no number."""
    states, absent = partial.states, ~partial.present
    if np.any(absent):  # whose states may have no answer
        states = states.copy()
        states[absent] = host_reduce.reduce((np.ones(1, bound.dtypes[0]),), bound, (0,))[0]
    values = host_reduce.finalise(states, bound)
    if bound.indexed and bound.result.kind == "i":
        return values
    if bound.name in QUOTIENTS and values.size > 1:  # of a single number dask takes the mask off first
        absent |= ~np.isfinite(values)
    return np.ma.masked_array(values, absent)


def with_states(partial: MaskedPartial, states: Array) -> MaskedPartial:
    return replace(partial, states=states)
