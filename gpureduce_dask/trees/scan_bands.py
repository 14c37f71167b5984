"""What the tasks of a scan of bands run: totals of stretches, what stands before each, and rows scanned from there."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import chunk
from ..chunk import host_scan
from ..chunk.place import Place, whole
from ..device import faults
from ..monoid import INDEX
from ..operators import OPERATORS
from .scan_section import Scan
from .several import Several

Slices = tuple[slice, ...]
Columns = Sequence[Sequence[Any]]  # chunks, as one list for each array


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a chunk's stretches lie: in the totals of its band, in the results of its rows, and its first element."""

    totals: Any  # of the rows' axis and those up to the last chunked one, by number of the chunk there
    results: Slices  # of the same axes, the last one with all that are behind it as one
    corner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a band: where those of each chunk belong, and what stands before them.

    ``first`` is the first of these rows, ``lead`` how many axes of size 1 stand before them in a chunk, and ``behind``
    the shape of a row in the result.
    """

    stretches: Sequence[Stretch]
    bases: Any
    first: int
    lead: int
    behind: tuple[int, ...]


@faults.task
def band_totals(columns: Columns, corners: Sequence[tuple[int, ...]], last: int, scan: Scan) -> Several:
    """The totals of the stretches of some chunks, on the host: axes from ``last`` on are folded."""
    found = Several()
    for blocks, corner in zip(zip(*columns, strict=True), corners, strict=True):
        if scan.shape is not None:
            found.append(_totals_in_place(blocks, corner, last, scan))
            continue
        axes = tuple(range(last, blocks[0].ndim))
        if scan.reverse and not scan.bound.monoid.commutative:
            blocks = tuple(b[(..., *(slice(None, None, -1) for _ in axes))] for b in blocks)
        found.append(chunk.to_host(chunk.reduce(blocks, scan.bound, axes, masks=False), scan.bound))
    return found


def _firsts(corner: tuple[int, ...], kept: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The positions in C order of the first elements of a chunk's stretches; ``kept`` are its sizes along the axes that
    do not count to a stretch."""
    steps = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    along = np.ix_(*(step * np.arange(n) for step, n in zip(steps, kept, strict=False)))
    return sum(map(operator.mul, corner, steps)) + sum(along, np.zeros(kept, np.int64))


def _is_shifted(scan: Scan) -> bool:
    """True where positions within stretches become those in C order by an addition: of our own operators, to which
    numbers below 0 are of no element. To others each stretch is told its place, in a call of its own."""
    return OPERATORS.get(scan.bound.monoid.name) == scan.bound.monoid


def _shifted(partials: Any, by: Any) -> Any:
    moved = partials.copy()
    index = moved[INDEX]
    index += np.where(index < 0, 0, by)
    return moved


def _totals_in_place(blocks: tuple[Any, ...], corner: tuple[int, ...], last: int, scan: Scan) -> Any:
    """The totals of a chunk's stretches where positions matter."""
    bound, shape = scan.bound, blocks[0].shape
    axes = tuple(range(last, len(shape)))
    ends = (*shape[:last], *(1,) * len(axes))
    firsts = _firsts(corner, shape[:last], scan.shape or ())
    if _is_shifted(scan):
        found = chunk.reduce(blocks, bound, axes, whole(shape), masks=False)
        return _shifted(chunk.to_host(found, bound), firsts.reshape(ends))
    totals = bound.identities((firsts.size,))
    stretches = [b.reshape(firsts.size, math.prod(shape[last:])) for b in blocks]
    for i, first in enumerate(firsts.flat if stretches[0].size else ()):
        line = tuple(s[i] for s in stretches)
        _, total = chunk.scan(line, bound, 0, reverse=scan.reverse, place=_place(first, scan))
        totals[i] = chunk.to_host(total, bound)[0]
    return totals.reshape(ends)


def _place(first: int, scan: Scan, ndim: int = 1) -> Place:
    return Place((*(0,) * (ndim - 1), int(first)), (*(0,) * (ndim - 1), math.prod(scan.shape or ())))


@faults.task
def band_bases(
    groups: Sequence[list[Any]], stretches: Sequence[Stretch], shape: tuple[int, ...], before: Any, scan: Scan
) -> tuple[Any, Any]:
    """What stands before each stretch of a band, and what stands behind the band. ``before`` is that of the last."""
    totals = np.empty(shape, scan.bound.state)
    for found, stretch in zip((p for group in groups for p in group), stretches, strict=True):
        target = totals[(slice(None), *stretch.totals)]
        target[...] = found.reshape(target.shape)
    carry = None if before is None else before[1]
    ahead, end = host_scan.before(totals.reshape(-1), scan.bound, carry, scan.reverse)
    return ahead.reshape(shape), end


@faults.task
def cut(columns: Columns, at: Slices) -> list[list[Any]]:
    """Some rows of some chunks, without the rest of the chunks they are of."""
    return [[block[at].copy() for block in column] for column in columns]


def gather(
    groups: Sequence[Columns],
    bases: tuple[Any, Any],
    stretches: Sequence[Stretch],
    first: int,
    lead: int,
    behind: tuple[int, ...],
) -> tuple[list[list[Any]], Rows]:
    """Some rows of a band as one thing, that lies where all that scan them run: chunks or pieces, none copied.

    Chunks stand first, and in lists: so a GPU's travel as such, and the scheduler knows what they weigh.
    """
    columns = [[block for column in each for block in column] for each in zip(*groups, strict=True)]
    return columns, Rows(stretches, bases[0], first, lead, behind)


@faults.task
def scan_rows(gathered: tuple[Columns, Rows], start: int, stop: int, is_first: bool, scan: Scan) -> Any:
    """Some rows of those, scanned where they belong in the result."""
    columns, rows = gathered
    device = chunk.is_device(columns[0][0])
    extra = int(scan.initial and is_first)
    shape = (stop - start, *rows.behind)
    flat = (scan.filled if extra else scan.empty)((math.prod(shape) + extra,), device)
    view = (flat[:-1] if extra and scan.reverse else flat[extra:]).reshape(shape)
    at = (*(0,) * rows.lead, slice(start - rows.first, stop - rows.first))
    for blocks, stretch in zip(zip(*columns, strict=True), rows.stretches, strict=True):
        target = view[(slice(None), *stretch.results)]
        carry = rows.bases[(slice(start, stop), *stretch.totals)][..., None]
        pieces = tuple(b[at].reshape(target.shape) for b in blocks)
        if scan.shape is not None:
            corner = (*stretch.corner[: rows.lead], stretch.corner[rows.lead] + start, *stretch.corner[rows.lead + 1 :])
            _scan_in_place(pieces, target, carry, corner, rows.lead, scan)
            continue
        chunk.scan(
            pieces, scan.bound, target.ndim - 1, carry, exclusive=scan.exclusive, reverse=scan.reverse, out=target
        )
    return chunk.move(flat, scan.device)


def _scan_in_place(
    pieces: tuple[Any, ...], target: Any, carry: Any, corner: tuple[int, ...], lead: int, scan: Scan
) -> None:
    """The results of a chunk's stretches where positions matter."""
    firsts = _firsts(corner, (1,) * lead + target.shape[:-1], scan.shape or ()).reshape(*target.shape[:-1], 1)
    run = partial(chunk.scan, exclusive=scan.exclusive, reverse=scan.reverse)
    if not _is_shifted(scan):
        for at in np.ndindex(target.shape[:-1]):
            line = tuple(p[at] for p in pieces)
            run(line, scan.bound, 0, carry[at], out=target[at], place=_place(firsts[at][0], scan))
        return
    behind = math.prod(scan.shape or ())  # so that no position of what stands before is below 0
    place = _place(behind, scan, target.ndim)
    run(pieces, scan.bound, target.ndim - 1, _shifted(carry, behind - firsts), out=target, place=place)
    if scan.bound.monoid.name.endswith(("argmin", "argmax")):  # whose results are positions
        target += chunk.move(firsts - behind, chunk.is_device(target))


def take(results: Any, start: int, stop: int) -> Any:
    """A part of results that were scanned together, without the rest of them."""
    return results[start:stop].copy()
