"""Boxes on the host: labels along each axis apart. The last axis is reduced first, run by run where equals lie
together, and what it leaves is combined along the others; C order stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..operators.grouped import Binned, Labels
from ..operators.monoid import Array
from ..place import Place, whole
from . import groups as host_groups
from . import reduce as host_reduce

Axes = tuple[int, ...]

SHARE = 64  # elements of the last axis a group of it, on average: what it leaves is much less than the chunk


def takes(bound: Binned, axes: Axes, chunks: Sequence[Any]) -> bool:
    """True where that is the faster way, and states have no positions."""
    bins = bound.bins
    if bins.known is None or len(bins.sizes) == 1 or axes != bins.axes:
        return False
    if any(p.indexed or p.monoid.fold is None for p in bound.parts):
        return False
    return all(bins.sizes[-1] * SHARE <= arrays[0].shape[axes[-1]] for arrays, _ in chunks)


def reduce_many(
    chunks: Sequence[tuple[Array, ...]], bound: Binned, axes: Axes, places: Sequence[Place] | None
) -> Array:
    """The partial of chunks of one kept shape."""
    partials = []
    for i, arrays in enumerate(chunks):
        place = places[i] if places else whole(arrays[0].shape)
        partials.append(_reduce(arrays, bound, axes, place))
    return host_reduce.combine(partials, bound.cells)


def _reduce(arrays: tuple[Array, ...], bound: Binned, axes: Axes, place: Place) -> Array:
    bins = bound.bins
    assert bins.known is not None
    *lines, last = bins.known.arrays
    row = replace(bins, sizes=bins.sizes[-1:], axes=axes[-1:], known=Labels([last]))
    partial = host_groups.reduce_many([(arrays, None)], replace(bound, bins=row), axes[-1:], [place])
    for axis, line, count in reversed(list(zip(axes[:-1], lines, bins.sizes[:-1], strict=True))):
        mine = line[place.offsets[axis] : place.offsets[axis] + arrays[0].shape[axis]]
        partial = _fold_lines(partial, bound, axis, mine, count)
    return partial.reshape(*partial.shape[:-1], math.prod(bins.sizes)) if partial.ndim else partial


def _fold_lines(partial: Array, bound: Binned, axis: int, labels: Array, count: int) -> Array:
    """A partial combined along an axis, group by group: the groups come before those of the axes behind it."""
    shape = tuple(1 if a == axis else n for a, n in enumerate(partial.shape))
    states = bound.cells.identities((*shape[:-1], count, shape[-1]))
    for group in range(count):
        (where,) = np.nonzero(labels == group)
        if len(where):
            states[..., group, :] = host_reduce.combine_axis(partial.take(where, axis), bound.cells, axis)
    return states.reshape(*shape[:-1], count * shape[-1])
