"""A chunk of any rank and strides, collapsed to what the kernels walk: kept and reduced dimensions, few and merged.

Nothing is copied: a negative stride is walked from its other end (unless positions count: then a plan may turn a line,
and has a kernel that knows), dimensions are taken in memory order where the operator commutes, and neighbours that
continue each other become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import ArgumentError, message

MAX_DIMS = 8  # of a Walk in kernels/core/walk.cuh
MAX_OPERANDS = 4  # of a Task4 in kernels/core/task.cuh


@dataclass(frozen=True)
class Dim:
    """One dimension: its size, the byte strides of two operands, the step of the output cell (kept) or of the
    element's index (reduced), and the strides of a third and fourth operand."""

    size: int
    a: int
    b: int = 0
    c: int = 0
    more: tuple[int, ...] = ()

    @property
    def strides(self) -> tuple[int, ...]:
        """The byte strides of all operands, of two at least."""
        return (self.a, self.b, *self.more)

    def flipped(self) -> Dim:
        return Dim(self.size, -self.a, -self.b, -self.c, tuple(-n for n in self.more))

    def continues(self, inner: Dim, indexed: bool) -> bool:
        """True where this dimension goes on exactly where ``inner`` ends."""
        same = all(m == inner.size * n for m, n in zip(self.strides, inner.strides, strict=True))
        return same and (not indexed or self.c == inner.size * inner.c)


@dataclass(frozen=True)
class Layout:
    """Kept and reduced dimensions, slowest first, and where the walk starts."""

    kept: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    offset_a: int  # bytes from the operand's first element to the walk's first
    offset_b: int
    cell: int  # output cell of the walk's first row
    low_a: int  # bytes the operands own, relative to the walk's first element
    high_a: int
    low_b: int
    high_b: int
    more: tuple[tuple[int, int, int], ...] = ()  # offset, low and high of a third and fourth operand
    index: int = 0  # of the walk's first element, from that of the chunk's

    def line_flipped(self) -> Layout:
        """Of one operand, whose last reduced dimension is walked from its other end."""
        *others, line = self.reduced
        by, index = (line.size - 1) * line.a, (line.size - 1) * line.c
        return replace(
            self,
            reduced=(*others, line.flipped()),
            offset_a=self.offset_a + by,
            low_a=self.low_a - by,
            high_a=self.high_a - by,
            index=self.index + index,
        )

    def ends(self, last: bool) -> Layout:
        """Of one operand: of all elements that are reduced to a cell the first alone, or the last."""
        by = sum((dim.size - 1) * dim.a for dim in self.reduced) if last else 0
        return replace(self, reduced=(), offset_a=self.offset_a + by, low_a=self.low_a - by, high_a=self.high_a - by)

    @property
    def offsets(self) -> tuple[int, ...]:
        return (self.offset_a, self.offset_b, *(offset for offset, _, _ in self.more))


EMPTY = Layout((), (), 0, 0, 0, 0, 0, 0, 0)  # of a chunk without elements


def merged(dims: Sequence[Dim], indexed: bool) -> tuple[Dim, ...]:
    """Neighbours that continue each other as one dimension; with ``indexed`` their steps ``c`` have to as well."""
    out: list[Dim] = []
    for dim in dims:
        if out and out[-1].continues(dim, indexed):
            dim = replace(dim, size=out.pop().size * dim.size)
        out.append(dim)
    return tuple(out)


def span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes that an array owns, relative to its first element."""
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    return low, high + itemsize


def _outermost_first(strides: Sequence[int]) -> tuple[bool, tuple[int, ...]]:
    """Where a dimension stands by memory: what repeats elements first, then the longest steps."""
    return strides[0] != 0, tuple(-abs(n) for n in strides)


def order_of(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], axes: tuple[int, ...]) -> tuple[int, ...]:
    """All axes, of which those that are kept stand as their elements lie in memory; none where they do already."""
    kept = [axis for axis, n in enumerate(shape) if axis not in axes and n > 1]
    by_memory = sorted(kept, key=lambda axis: _outermost_first([each[axis] for each in strides]))
    if by_memory == kept:
        return ()
    order = [*range(len(shape))]
    for place, axis in zip(kept, by_memory, strict=True):
        order[place] = axis
    return tuple(order)


def collapse(
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    itemsizes: tuple[int, ...],
    axes: tuple[int, ...],
    index_strides: tuple[int, ...],
    commutative: bool,
    indexed: bool,
    order: Sequence[int] = (),
) -> Layout:
    """The layout of a chunk with no empty axis.

    Parameters
    ----------
    shape, axes : tuple of int
        The chunk's shape and its reduced axes.
    strides : one to four tuples of int
        Byte strides of each operand.
    index_strides : tuple of int
        Step of the element index along each of ``axes``.
    order : sequence of int
        All axes as cells lie along them in the output, slowest first; C order by default.
    """
    spans = [span(shape, s, n) for s, n in zip(strides, itemsizes, strict=True)]
    if len(strides) == 1:
        strides, spans = (*strides, (0,) * len(shape)), [*spans, (0, 0)]
    kept: list[Dim] = []
    reduced: list[Dim] = []
    offsets = [0] * len(strides)
    cell = 0
    cell_step = 1
    cells = {}
    for axis in reversed(order or range(len(shape))):
        if axis not in axes:
            cells[axis] = cell_step
            cell_step *= shape[axis]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        is_kept = axis not in axes
        c = cells[axis] if is_kept else index_strides[axes.index(axis)]
        dim = Dim(size, strides[0][axis], strides[1][axis], c, tuple(s[axis] for s in strides[2:]))
        if dim.a < 0 and (is_kept or (commutative and not indexed)):
            offsets = [offset + (size - 1) * step for offset, step in zip(offsets, dim.strides, strict=True)]
            if is_kept:
                cell += (size - 1) * dim.c
            dim = dim.flipped()
        (kept if is_kept else reduced).append(dim)
    kept.sort(key=lambda dim: _outermost_first(dim.strides))
    if commutative:
        reduced.sort(key=lambda dim: _outermost_first(dim.strides))
    owned = [(offset, low - offset, high - offset) for offset, (low, high) in zip(offsets, spans, strict=True)]
    (offset_a, low_a, high_a), (offset_b, low_b, high_b), *more = owned
    layout = Layout(
        merged(kept, True),
        merged(reduced, indexed),
        offset_a,
        offset_b,
        cell,
        low_a,
        high_a,
        low_b,
        high_b,
        tuple(more),
    )
    if max(len(layout.kept), len(layout.reduced)) > MAX_DIMS:
        raise ArgumentError(
            message(
                "reduce",
                f"strides {strides} that leave {max(len(layout.kept), len(layout.reduced))} dimensions",
                f"at most {MAX_DIMS} after merging",
                "Make the chunk contiguous, or reduce fewer axes at a time.",
            )
        )
    return layout
