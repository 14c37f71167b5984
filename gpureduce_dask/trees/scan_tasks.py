"""What the tasks of a scan run: totals of chunks, what stands before each, and the scan of each from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import chunk
from ..chunk import Place
from ..device import faults
from ..monoid import Bound
from . import lazy
from .tasks import Partial, merge

# A partial, None for that of nothing; and where a segment starts in the line, None where there are no segments.
Total = tuple[Partial, Any]


@dataclass(frozen=True)
class Scan:
    """One scan along an axis, as every task of it knows it.

    ``shape`` is the array's along the axis and 0 along others, where positions matter. ``device`` is whether results
    are CuPy arrays. With ``initial`` the first result of a line stands for none of its elements. ``flat`` chunks are
    read in C order as one line. With ``fuse`` tasks compute what the chains of their chunks put off.
    """

    bound: Bound
    axis: int
    exclusive: bool = False
    reverse: bool = False
    initial: bool = False
    device: bool = False
    shape: tuple[int, ...] | None = None
    flat: bool = False
    fuse: bool = True

    def place(self, offset: int) -> Place | None:
        if self.shape is None:
            return None
        return Place(tuple(offset if a == self.axis else 0 for a in range(len(self.shape))), self.shape)

    def run(self, blocks: Sequence[Any], starts: Any, carry: Partial, offset: int, is_first: bool) -> Any:
        """One chunk's results."""
        read, bound = self._read(blocks)
        out, inner = None, None
        if self.initial and is_first:
            shape = tuple(n + (a == self.axis) for a, n in enumerate(read[0].shape))
            out = self.filled(shape, chunk.is_device(read[0]))
            at = slice(None, -1) if self.reverse else slice(1, None)
            inner = out[(slice(None),) * self.axis + (at,)]
        array, _ = chunk.scan(
            read,
            bound,
            self.axis,
            carry,
            exclusive=self.exclusive,
            reverse=self.reverse,
            resets=lazy.made(starts),
            out=inner,
            place=self.place(offset),
            with_total=False,
        )
        return chunk.move(array if out is None else out, self.device)

    def _read(self, blocks: Sequence[Any]) -> tuple[tuple[Any, ...], Bound]:
        """The arrays to read, and the operator of what their chains put off."""
        if self.flat:
            return tuple(lazy.made(b).reshape(-1) for b in blocks), self.bound
        return lazy.read_with(blocks, self.bound, self.fuse)

    def filled(self, shape: tuple[int, ...], device: bool) -> Any:
        """An array of what stands for no element, for results."""
        nothing = chunk.finalise(self.bound.identities(()), self.bound)[()]
        if not device:
            return np.full(shape, nothing, self.bound.result)
        import cupy

        return cupy.full(shape, nothing, self.bound.result)

    def total(self, blocks: Sequence[Any], starts: Any, offset: int) -> Total:
        """What a chunk adds to a line."""
        (read, bound), starts = self._read(blocks), lazy.made(starts)
        if read[0].shape[self.axis] == 0:
            return None, None
        kept = bound.monoid.commutative or not self.reverse
        if starts is None and (kept or not bound.indexed):
            lines = read if kept else tuple(_flip(b, self.axis) for b in read)
            partial = chunk.reduce(lines, bound, (self.axis,), self.place(offset))
            return chunk.leave(partial, self.bound), None
        _, partial = chunk.scan(read, bound, self.axis, reverse=self.reverse, resets=starts, place=self.place(offset))
        reset = None if starts is None else chunk.move(starts.any(axis=self.axis, keepdims=True), False)
        return chunk.leave(partial, self.bound), reset


def _flip(block: Any, axis: int) -> Any:
    return block[(slice(None),) * axis + (slice(None, None, -1),)]


# What some chunks of a line need: the partial before each, and last the one behind them all; their offsets along the
# axis; whether the first is the line's; and the scan, which so travels once and not with each chunk's task.
Section = tuple[list[Partial], Sequence[int], bool, Scan]


@lazy.reads
@faults.task
def totals(
    columns: Sequence[Sequence[Any]], starts: Sequence[Any] | None, offsets: Sequence[int], scan: Scan
) -> list[Total]:
    """The totals of some chunks; one column for each of the monoid's arity."""
    every = list(zip(*columns, strict=True))
    return [scan.total(b, None if starts is None else starts[i], offsets[i]) for i, b in enumerate(every)]


@faults.task
def bases(
    groups: Sequence[list[Total]], order: Sequence[tuple[int, int]], offsets: Sequence[int], before: Any, scan: Scan
) -> Section:
    """What the chunks of a section need. ``order`` says where each total is among the groups, ``offsets`` are those of
    the chunks along the axis, and ``before`` is the section before, if there is one."""
    carry = None if before is None else before[0][-1]
    found = [carry]
    for group, place in order:
        carry = _after(carry, *groups[group][place], scan.bound)
        found.append(carry)
    return found, offsets, before is None, scan


@lazy.reads
@faults.task
def only_section(
    columns: Sequence[Sequence[Any]], starts: Sequence[Any] | None, offsets: Sequence[int], scan: Scan
) -> Section:
    """What the chunks of a line need, where one task finds the totals of all but the last."""
    found = totals(columns, starts, offsets[:-1], scan)
    return bases([found], [(0, i) for i in range(len(found))], offsets, None, scan)


def _after(carry: Partial, total: Partial, reset: Any, bound: Bound) -> Partial:
    if total is None or carry is None:
        return carry if total is None else total
    joined = merge([carry, total], bound)
    if reset is None:
        return joined
    if not chunk.is_device(joined):
        return np.where(reset, chunk.to_host(total, bound), joined)
    import cupy

    return cupy.where(cupy.asarray(reset)[..., None], chunk.to_device(total, bound), joined)


@lazy.reads
@faults.task
def scan_chunk(section: Section, at: int, *blocks: Any) -> Any:
    """Chunk number ``at`` of a section, scanned from what stands before it. Behind the blocks is where segments start,
    where they do."""
    found, offsets, is_first, scan = section
    arity = scan.bound.monoid.arity
    starts = blocks[arity] if len(blocks) > arity else None
    return scan.run(blocks[:arity], starts, found[at], offsets[at], is_first and at == 0)


@lazy.reads
@faults.task
def scan_whole(*blocks: Any, scan: Scan, segmented: bool) -> Any:
    """A chunk that holds all of its lines."""
    return scan.run(blocks[: len(blocks) - segmented], blocks[-1] if segmented else None, None, 0, True)
