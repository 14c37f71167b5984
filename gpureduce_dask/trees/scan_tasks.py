"""What the tasks of a scan run: totals of chunks, what stands before each, and the scan of each from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dask._task_spec import Task

from .. import chunk
from ..device import faults
from ..monoid import Bound
from . import lazy
from .scan_section import HostTotals, Scan, Section, Totals
from .several import Several, through
from .tasks import Partial, merge


class TotalsTask(Task):
    """The task of :func:`totals`. dask fuses that of one chunk with nothing: whether it then fuses the chunk with what
    makes it would depend on which of them it comes to first, and be another in another graph of the same keys."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        return len(self.dependencies) == 1


@lazy.reads
@faults.task
def totals(
    columns: Sequence[Sequence[Any]], starts: Sequence[Any] | None, offsets: Sequence[int], scan: Scan
) -> Totals:
    """The totals of some chunks; one column for each of the monoid's arity."""
    every = list(zip(*columns, strict=True))
    found = scan.totals(every, starts, offsets)
    partials = _left([p for p, _ in found], scan.bound)
    resets = [reset for _, reset in found]
    if any(p is not None and chunk.is_device(p) for p in partials):  # which go from GPU to GPU
        return list(zip(partials, resets, strict=True))
    return HostTotals(Several(partials), Several(resets))


def _left(partials: list[Partial], bound: Bound) -> list[Partial]:
    """Small partials of a GPU as partials of the host: those of one GPU and shape leave it together."""
    alike: dict[Any, list[int]] = {}
    for i, p in enumerate(partials):
        if p is not None and chunk.is_device(p) and p.nbytes <= chunk.SMALL:
            alike.setdefault((p.data.device_id, p.shape), []).append(i)
    for (device, _), members in alike.items():
        import cupy

        with cupy.cuda.Device(device):
            together = cupy.stack([partials[i] for i in members])
            for i, host in zip(members, chunk.to_host(together, bound), strict=True):
                partials[i] = host
    return partials


@faults.task
def bases(
    groups: Sequence[Totals], order: Sequence[tuple[int, int]], offsets: Sequence[int], before: Any, scan: Scan
) -> Section:
    """What the chunks of a section need. ``order`` says where each total is among the groups, ``offsets`` are those of
    the chunks along the axis, and ``before`` is the section before, if there is one."""
    carry = None if before is None else before.found[-1]
    each = [groups[group][place] for group, place in order]
    ends = through(carry, [p for p, _ in each], scan.bound) if all(reset is None for _, reset in each) else None
    found = [carry, *(ends or ())]
    for total, reset in each if ends is None else ():
        found.append(_after(found[-1], total, reset, scan.bound))
    return Section(found, offsets, before is None, scan)


@lazy.reads
@faults.task
def only_section(
    columns: Sequence[Sequence[Any]], starts: Sequence[Any] | None, offsets: Sequence[int], scan: Scan
) -> Section:
    """What the chunks of a line need, where one task finds the totals of all but the last."""
    found = totals(columns, starts, offsets[:-1], scan)
    return bases([found], [(0, i) for i in range(len(offsets) - 1)], offsets, None, scan)


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
    """One chunk of a section."""
    return section.run(at, *blocks)


@lazy.reads
@faults.task
def scan_whole(*blocks: Any, scan: Scan, segmented: bool) -> Any:
    """A chunk that holds all of its lines."""
    starts = blocks[-1] if segmented else None
    return scan.run(*scan.read(blocks[: len(blocks) - segmented]), starts, None, 0, True)
