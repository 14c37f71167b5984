"""What the tasks of a scan of bands run: totals of stretches, what stands before each, and rows scanned from there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import chunk
from ..chunk import host_scan
from ..device import faults
from .scan_section import Scan
from .several import Several

Slices = tuple[slice, ...]
Columns = Sequence[Sequence[Any]]  # chunks, as one list for each array


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a chunk's stretches lie: in the totals of its band, and in the results of its rows."""

    totals: Any  # of the rows' axis and those up to the last chunked one, by number of the chunk there
    results: Slices  # of the same axes, the last one with all that are behind it as one


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
def band_totals(columns: Columns, last: int, scan: Scan) -> Several:
    """The totals of the stretches of some chunks, on the host: axes from ``last`` on are folded."""
    found = Several()
    for blocks in zip(*columns, strict=True):
        axes = tuple(range(last, blocks[0].ndim))
        if scan.reverse and not scan.bound.monoid.commutative:
            blocks = tuple(b[(..., *(slice(None, None, -1) for _ in axes))] for b in blocks)
        found.append(chunk.to_host(chunk.reduce(blocks, scan.bound, axes), scan.bound))
    return found


@faults.task
def band_bases(
    groups: Sequence[list[Any]], stretches: Sequence[Stretch], shape: tuple[int, ...], before: Any, scan: Scan
) -> tuple[Any, Any]:
    """What stands before each stretch of a band, and what stands behind the band. ``before`` is that of the last."""
    totals = np.empty(shape, scan.bound.state)
    for partial, stretch in zip((p for group in groups for p in group), stretches, strict=True):
        target = totals[(slice(None), *stretch.totals)]
        target[...] = partial.reshape(target.shape)
    carry = None if before is None else before[1]
    found, end = host_scan.before(totals.reshape(-1), scan.bound, carry, scan.reverse)
    return found.reshape(shape), end


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
    flat = scan.filled((math.prod(shape) + extra,), device)
    view = (flat[:-1] if extra and scan.reverse else flat[extra:]).reshape(shape)
    at = (*(0,) * rows.lead, slice(start - rows.first, stop - rows.first))
    for blocks, stretch in zip(zip(*columns, strict=True), rows.stretches, strict=True):
        target = view[(slice(None), *stretch.results)]
        carry = rows.bases[(slice(start, stop), *stretch.totals)][..., None]
        pieces = tuple(b[at].reshape(target.shape) for b in blocks)
        chunk.scan(
            pieces, scan.bound, target.ndim - 1, carry, exclusive=scan.exclusive, reverse=scan.reverse, out=target
        )
    return chunk.move(flat, scan.device)


def take(results: Any, start: int, stop: int) -> Any:
    """A part of results that were scanned together, without the rest of them."""
    return results[start:stop].copy()
