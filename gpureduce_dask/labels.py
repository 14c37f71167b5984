"""Labels of groups: what those say that are known now, and those of a chunk's elements, as far as they are needed at
once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from . import dtypes
from .errors import ArgumentError, EmptyError, message
from .operators.grouped import Bins
from .operators.monoid import Array, Bound
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


# ---- labels as they are given

MOST = 2**31  # kernels count groups in 32 bits
CARRIED_BYTES = 1 << 20  # of labels that go along with every task; more are cut as the array is


def one_axis(labels: Any, shape: tuple[float, ...]) -> int | None:
    """The one of several axes along which labels differ, where their shape says so: an array an axis is then enough."""
    along = [i for i, n in enumerate(labels.shape) if n > 1]
    fits = labels.ndim == len(shape) > 1 and len(along) == 1 and labels.shape[along[0]] == shape[along[0]]
    is_light = 8 * sum(shape) <= CARRIED_BYTES  # False too where a size is unknown
    return along[0] if fits and is_light and labels.shape != shape else None


def require_integers(name: str, labels: Any) -> None:
    if labels.dtype.kind not in "biu" and not (labels.size == 0 and isinstance(labels, np.ndarray)):
        raise dtypes.refuse(name, labels.dtype, "labels that are integers", "Number the groups, as np.unique does.")


def count_groups(name: str, labels: Any, num_groups: Any, strict: bool) -> int:
    """How many groups there are: those asked for, or up to the largest label of ones that are known now, not None."""
    if labels is None:
        return _check_count(name, num_groups)
    found = int(labels.max()) + 1 if labels.size else 0
    count = found if num_groups is None else _check_count(name, num_groups)
    check_range(Bins(name, (count,), (), strict=strict), labels)
    if count >= MOST:
        _check_count(name, count)
    if not count:
        raise ArgumentError(message(name, "no label of 0 or more", "at least one group", "Pass num_groups=."))
    return count


def _check_count(name: str, num_groups: Any) -> int:
    if num_groups is None:
        received = "labels that are not known yet"
        raise ArgumentError(message(name, received, "num_groups=", "Say how many groups there are."))
    if not isinstance(num_groups, Integral) or isinstance(num_groups, bool) or not 1 <= int(num_groups) < MOST:
        received = f"num_groups {num_groups!r}"
        raise ArgumentError(message(name, received, "an integer of 1 or more, below 2^31", "Number them without gaps."))
    return int(num_groups)


def narrow(labels: Any, count: int) -> Any:
    """Labels in the fewest bytes; all that leave an element out are -1."""
    if labels.dtype.kind == "i":
        labels = np.maximum(labels, -1)
    return labels.astype(np.min_scalar_type(-count))


def refuse_gaps(bins: Bins, bound: Bound, fill_value: Any) -> None:
    """Raise now where labels are known and leave a group empty that has no answer then."""
    if bound.monoid.empty != "raise" or fill_value is not None or bins.known is None:
        return
    lines, sizes = bins.known.arrays, bins.sizes
    for line, count in zip(lines, sizes, strict=True):
        present = np.zeros(count, bool)
        present[line[line >= 0]] = True
        if not present.all():
            gaps = f"{count - np.count_nonzero(present)} of {count} groups without elements"
            what = f"{bound.name} of {gaps}, the first of them {int(np.argmin(present))}"
            remedy = "Say what the others get: fill_value=."
            raise EmptyError(message(bins.name, what, "elements in every group", remedy))


def refuse_fill(name: str, value: Any, bound: Bound) -> None:
    """Raise for a fill value that would become another number, as NaN among integers."""
    if value is None or bound.monoid.empty != "raise" or bound.result.kind not in "biu":
        return
    with suppress(OverflowError, TypeError, ValueError), np.errstate(invalid="ignore"):
        if np.asarray(value).astype(bound.result) == value:
            return
    received = f"fill_value {value!r} among results of {bound.result}"
    remedy = "Pass one that fits, or convert the array with astype."
    raise ArgumentError(message(name, received, f"a value that {bound.result} holds", remedy))


def stretches(labels: Any, chunks: Sequence[int]) -> list[Any] | None:
    """The groups of each chunk, where each lies whole in one; None where one does not, or an element is of none."""
    if labels.ndim != 1 or not labels.size or labels.min() < 0 or not all(chunks):
        return None
    found = [np.unique(part) for part in by_chunk(labels, chunks)]
    every = np.concatenate(found)
    return found if len(np.unique(every)) == len(every) else None


def by_chunk(labels: Any, chunks: Sequence[int]) -> list[Any]:
    return np.split(labels, np.cumsum(chunks)[:-1])


# ---- labels of a chunk, and how it is laid for them

Axes = tuple[int, ...]

ROOM = 1 << 20  # elements of a part of a chunk that has to be copied


@dataclass(frozen=True)
class View:
    """A chunk as (outer, n, inner): kept axes, all reduced ones, and the kept axes behind the last of these."""

    shape: tuple[int, ...]
    reduced: Axes
    now: Axes  # those that are folded now; the others, ahead of them, count rows of groups

    @property
    def pending(self) -> Axes:
        return tuple(a for a in self.reduced if a not in self.now)

    @property
    def outer_axes(self) -> Axes:
        last = max(self.reduced, default=len(self.shape))
        return tuple(a for a in range(last) if a not in self.reduced)

    @property
    def inner_axes(self) -> Axes:
        return tuple(range(max(self.reduced, default=len(self.shape)) + 1, len(self.shape)))

    def size(self, axes: Axes) -> int:
        return math.prod(self.shape[a] for a in axes)

    @property
    def outer(self) -> int:
        return self.size(self.outer_axes)

    @property
    def rows(self) -> int:
        return self.size(self.pending)

    @property
    def inner(self) -> int:
        return self.size(self.inner_axes)

    def partial(self, cells: Array, groups: int) -> Array:
        """States of shape (outer, groups, inner) as a partial: the chunk's axes, then the groups."""
        shape, order, kept = self.partial_layout(groups)
        return np.ascontiguousarray(cells.reshape(shape).transpose(order)).reshape(kept)

    def partial_layout(self, groups: int) -> tuple[Axes, Axes, Axes]:
        """For :meth:`partial`: axes of what is kept and the groups, their order in a partial, and its shape."""
        parts, ahead = (*self.outer_axes, *self.pending, *self.inner_axes), len(self.outer_axes) + len(self.pending)
        shape = (*(self.shape[a] for a in parts[:ahead]), groups, *(self.shape[a] for a in self.inner_axes))
        order = (*(parts.index(a) + (a in self.inner_axes) for a in sorted(parts)), ahead)
        return shape, order, (*(1 if a in self.now else n for a, n in enumerate(self.shape)), groups)

    def blocks(self, arrays: tuple[Array, ...]) -> Iterator[tuple[slice, slice, tuple[Array, ...]]]:
        """The chunk in blocks of (outer, n, inner), in C order, and where they lie along the first two."""
        order = (*self.outer_axes, *self.reduced, *self.inner_axes)
        laid = [a.transpose(order) for a in arrays]
        outer, n, inner = self.outer, self.size(self.reduced), self.inner
        views = all(_is_view(a, (outer, n, inner)) for a in laid)
        lead = laid[0].shape[0] if laid[0].ndim else 1
        step = lead if views else max(1, ROOM * lead // laid[0].size)
        each = (outer if self.outer_axes else n) // lead
        for start in range(0, lead, step):
            stop = min(lead, start + step)
            here, count = slice(start * each, stop * each), (stop - start) * each
            shape = (count, n, inner) if self.outer_axes else (1, count, inner)
            along = (here, slice(0, n)) if self.outer_axes else (slice(0, 1), here)
            yield *along, tuple((a[start:stop] if a.ndim else a).reshape(shape) for a in laid)


def _is_view(array: Array, shape: tuple[int, int, int]) -> bool:
    return np.shares_memory(array, array.reshape(shape)) if array.size > ROOM else True


class Panel:
    """A stretch of the reduced axes: the group of each element, and its position."""

    def __init__(self, labels: Array, view: View, bins: Bins, place: Place, stretch: slice) -> None:
        check_range(bins, labels)
        self.view, self.place, self.stretch = view, place, stretch
        codes = labels.astype(np.intp, copy=False)
        self.kept = np.flatnonzero(codes >= 0) if codes.size and codes.min() < 0 else None
        if view.rows > 1:
            row = np.arange(stretch.start, stretch.stop) // view.size(view.now)
            codes = np.where(codes < 0, codes, row * bins.count + codes)
        self.codes = codes if self.kept is None else codes[self.kept]
        self._runs: Runs | None = None

    def take(self, block: Array) -> Array:
        """A block's elements that are in a group."""
        return block if self.kept is None else block[:, self.kept]

    @property
    def positions(self) -> Array:
        """Positions in the whole array, in C order over all reduced axes."""
        at = np.arange(self.stretch.start, self.stretch.stop)
        at = at if self.kept is None else at[self.kept]
        axes = self.view.reduced
        steps, start = self.place.steps(axes), self.place.start(axes)
        along = np.unravel_index(at, [self.view.shape[a] for a in axes]) if axes else ()
        return np.asarray(start + sum((i * s for i, s in zip(along, steps, strict=True)), np.zeros(at.shape, np.int64)))

    @property
    def runs(self) -> Runs:
        if self._runs is None:
            self._runs = Runs(self.codes)
        return self._runs


class Runs:
    """Equal labels brought together, each run in order of position."""

    def __init__(self, codes: Array) -> None:
        self.order = None
        if np.any(codes[1:] < codes[:-1]):
            self.order = _argsort(codes)
            codes = codes[self.order]
        self.starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self.lengths = np.diff(self.starts, append=len(codes))
        self.groups = codes[self.starts]


def _argsort(codes: Array) -> Array:
    """A stable order. NumPy sorts 16 bits by their digits: wider labels take two such sorts."""
    low = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    if (codes.max() >> 16) == 0:
        return low
    if (codes.max() >> 32) != 0:
        return np.argsort(codes, kind="stable")
    return low[np.argsort((codes >> 16).astype(np.uint16)[low], kind="stable")]
