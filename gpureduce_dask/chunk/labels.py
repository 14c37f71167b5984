"""The labels of a chunk's elements, as far as they are needed at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..binned import Bins
from ..errors import ArgumentError, message
from ..monoid import Array
from .place import Place


def labels_at(bins: Bins, labels: Any, sizes: tuple[int, ...], place: Place, stretch: slice) -> Array:
    """Labels of a stretch of the reduced axes, flattened in C order; -1 or less for none.

    ``sizes`` are the chunk's along these axes, ``labels`` its own, where they come with it.
    """
    if bins.known is None:
        found: Array = np.asarray(labels).reshape(-1)[stretch]
        return found
    offsets = [place.offsets[a] for a in bins.axes]
    parts = [slice(o, o + n) for o, n in zip(offsets, sizes, strict=True)]
    if len(bins.sizes) == 1:
        whole = bins.known.arrays[0][tuple(parts)]
        return whole.reshape(-1)[stretch]
    return boxes([a[p] for a, p in zip(bins.known.arrays, parts, strict=True)], bins.sizes, stretch)


def boxes(lines: list[Array], counts: tuple[int, ...], stretch: slice) -> Array:
    """Numbers of the boxes that labels along each axis make, in a stretch of their C order."""
    along = np.unravel_index(np.arange(stretch.start, stretch.stop), [len(line) for line in lines])
    number, outside = np.zeros(stretch.stop - stretch.start, np.int64), np.zeros(stretch.stop - stretch.start, bool)
    for line, at, count in zip(lines, along, counts, strict=True):
        mine = line[at]
        number = number * count + mine
        outside |= mine < 0
    number[outside] = -1
    return number


def check_range(bins: Bins, labels: Array) -> None:
    """Raise for labels that no group has."""
    if bins.known is None and labels.size:
        refuse(bins, int(labels.max()) if labels.max() >= bins.count else None, bool(bins.strict and labels.min() < 0))


def refuse(bins: Bins, large: int | str | None, is_negative: bool) -> None:
    """Raise for a label that is too large, or negative where that is an error."""
    if large is not None:
        remedy = "Pass a larger num_groups (minlength in bincount), or label what is left out -1."
        raise ArgumentError(message(bins.name, f"label {large}", f"labels below {bins.count}", remedy))
    if is_negative:
        raise ArgumentError(message(bins.name, "a negative label", "labels from 0 on", "Use gr.grouped to leave out."))
