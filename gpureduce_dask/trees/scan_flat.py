"""The scan tree over all axes, in C order, for any chunks: none is cut or joined before it is scanned.

Where each chunk is one stretch of the C order, so is each chunk of the result. Otherwise the rows of chunks that lie
side by side interleave. A band is all chunks with the same first rows: each gives the totals of its stretches of rows,
one task puts them in order, and a chunk of the result is some rows of the band, from as many chunks as lie abreast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
from dask._task_spec import GraphNode, List, Task, TaskRef
from dask.base import tokenize

from .. import chunk
from ..chunk import host_scan
from ..device import faults
from ..errors import ArgumentError, message
from ..monoid import Bound
from . import find, groups, meta, stream, workers
from .handles import Coords
from .layers import Tasks
from .scan import Chunks, ScanTree
from .scan_section import Scan
from .several import Several

Slices = tuple[slice, ...]

PARTS = 16  # of a band at most: each takes a piece of every chunk that lies abreast


def scan_flat(
    name: str, arrays: tuple[Any, ...], bound: Bound, exclusive: bool, reverse: bool, initial: bool, key: str
) -> Any:
    """Scan all elements of dask arrays of two axes or more, to an array of one."""
    x = arrays[0]
    scan = Scan(bound, 0, exclusive, reverse, initial, meta.promises_device(x._meta), flat=True)
    stream.install()
    rows = next((a for a, sizes in enumerate(x.chunks) if any(n != 1 for n in sizes)), x.ndim - 1)
    last = max((a for a, n in enumerate(x.numblocks) if n > 1), default=0)
    if last <= rows:
        tree = _Stretches(arrays, None, scan, f"gr-{key}")
        return tree.of_lines(find.source(tree.todo, is_trial=True))
    if any(math.isnan(n) for sizes in x.chunks for n in sizes):
        raise ArgumentError(
            message(name, "unknown chunk sizes and no axis", "known sizes", "Call x.compute_chunk_sizes() first.")
        )
    return _Bands(arrays, None, scan, f"gr-{key}").of_bands(rows, last)


class _Stretches(ScanTree):
    """Chunks that are one stretch of the C order each: a single line."""

    def _cells(self) -> float:
        return 1.0

    def _chunks(self) -> Chunks:
        sizes = [math.prod(s) for s in product(*self.x.chunks)]
        if self.scan.initial:
            sizes[-1 if self.scan.reverse else 0] += 1
        return (tuple(sizes),)


@dataclass(frozen=True)
class Stretch:
    """Where a chunk's stretches lie: in the totals of its band, and in the results of its rows."""

    totals: Any  # of the rows' axis and those up to the last chunked one, by number of the chunk there
    results: Slices  # of the same axes, the last one with all that are behind it as one


class _Bands(ScanTree):
    """Chunks whose rows interleave."""

    def of_bands(self, rows: int, last: int) -> Any:
        x = self.x
        self.graph: dict[Any, GraphNode] = {}
        self.rows, self.last = rows, last
        self.behind = math.prod(x.shape[last + 1 :])
        self.starts_along = [[int(n) for n in accumulate(sizes, initial=0)] for sizes in x.chunks]
        abreast = list(product(*(range(x.numblocks[a]) for a in range(rows + 1, x.ndim))))
        bands = list(product(*(range(x.numblocks[a]) for a in range(rows + 1))))
        known = workers.current()
        each = self.todo.chunk_bytes
        size = 1 if known.client is not None else groups.to_make(len(abreast), len(bands), known.total, each)
        self._name_by(tokenize(self.token, size, known.client is None))
        parts = [self._parts(band, len(abreast)) for band in bands]
        sizes = [[(b - a) * math.prod(x.shape[rows + 1 :]) for a, b in pairwise(cuts)] for cuts in parts]
        firsts = list(accumulate((len(s) for s in sizes), initial=0))
        before: Any = None
        for i in reversed(range(len(bands))) if self.scan.reverse else range(len(bands)):
            before = self._band(bands[i], abreast, parts[i], firsts[i], before, size, known)
        chunks = [n for band in sizes for n in band]
        if self.scan.initial:
            chunks[-1 if self.scan.reverse else 0] += 1
        return self._array(Tasks(self.graph), self.arrays, (tuple(chunks),))

    def _parts(self, band: Coords, abreast: int) -> list[int]:
        """Where the rows of a band are cut: into as many parts as it has chunks, if there are rows for it."""
        height = self.x.chunks[self.rows][band[-1]]
        count = max(1, min(height, abreast, PARTS))
        return [height * i // count for i in range(count + 1)]

    def _band(
        self,
        band: Coords,
        abreast: list[Coords],
        cuts: list[int],
        first: int,
        before: Any,
        size: int,
        known: workers.Workers,
    ) -> TaskRef:
        members = [(*band, *rest) for rest in abreast]
        stretches = [self._stretch(c) for c in members]
        found = []
        for group in groups.in_order(len(members), size):
            mine = [members[i] for i in group.members]
            columns = List(*(List(*(TaskRef((a.name, *c)) for c in mine)) for a in self.arrays))
            found.append(self._add(band_totals, columns, self.last, self.scan))
        shape = (cuts[-1], *self.x.shape[self.rows + 1 : self.last], self.x.numblocks[self.last])
        bases = self._add(band_bases, List(*found), stretches, shape, before, self.scan)
        behind = (*self.x.shape[self.rows + 1 : self.last], self.x.shape[self.last] * self.behind)
        is_edge = before is None
        for n, (a, b) in enumerate(pairwise(cuts)):
            key = (self.name, first + n)
            at = (*(slice(0, 1),) * self.rows, slice(a, b))
            pieces = List(*(List(*(self._piece(x.name, c, at, known) for c in members)) for x in self.arrays))
            is_first = is_edge and n == (len(cuts) - 2 if self.scan.reverse else 0)
            cut = at if known.client is None else ()
            arguments = (pieces, cut, stretches, bases, (b - a, *behind), slice(a, b), is_first, self.scan)
            self.graph[key] = Task(key, scan_rows, *arguments)
        return bases

    def _add(self, run: Any, *arguments: Any) -> TaskRef:
        key = (self.parts, len(self.graph))
        self.graph[key] = Task(key, run, *arguments)
        return TaskRef(key)

    def _stretch(self, coords: Coords) -> Stretch:
        starts = self.starts_along
        leads = tuple(slice(starts[a][coords[a]], starts[a][coords[a] + 1]) for a in range(self.rows + 1, self.last))
        edge = starts[self.last][coords[self.last] : coords[self.last] + 2]
        return Stretch((*leads, coords[self.last]), (*leads, slice(edge[0] * self.behind, edge[1] * self.behind)))

    def _piece(self, name: str, coords: Coords, at: Slices, known: workers.Workers) -> TaskRef:
        """Some rows of a chunk. On a cluster a task cuts them where the chunk is, so that no more travels."""
        ref = TaskRef((name, *coords))
        return ref if known.client is None else self._add(_cut, ref, at)


def _cut(block: Any, at: Slices) -> Any:
    """Some rows, without the rest of the chunk they are of."""
    return block[at].copy()


@faults.task
def band_totals(columns: Sequence[Sequence[Any]], last: int, scan: Scan) -> Several:
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
def scan_rows(
    columns: Sequence[Sequence[Any]],
    cut: Slices,
    stretches: Sequence[Stretch],
    bases: tuple[Any, Any],
    shape: tuple[int, ...],
    rows: slice,
    is_first: bool,
    scan: Scan,
) -> Any:
    """Some rows of a band, scanned where they belong in the result. ``cut`` takes them out of whole chunks."""
    device = chunk.is_device(columns[0][0])
    extra = int(scan.initial and is_first)
    flat = scan.filled((math.prod(shape) + extra,), device)
    view = (flat[:-1] if extra and scan.reverse else flat[extra:]).reshape(shape)
    for blocks, stretch in zip(zip(*columns, strict=True), stretches, strict=True):
        target = view[(slice(None), *stretch.results)]
        carry = bases[0][(rows, *stretch.totals)][..., None]
        pieces = tuple(b[cut].reshape(target.shape) for b in blocks)
        chunk.scan(
            pieces, scan.bound, target.ndim - 1, carry, exclusive=scan.exclusive, reverse=scan.reverse, out=target
        )
    return chunk.move(flat, scan.device)
