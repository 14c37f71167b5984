"""Chunks that have yet to be made, dealt to groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import groups, workers
from .axes import stages
from .handles import Coords
from .locate import origins
from .sources import Reduction


@dataclass(frozen=True)
class Dealer:
    """So many chunks in a row, or by the workers that hold what they are made of. Its text tells one from another."""

    size: int | None
    slices: int
    chunk_bytes: float
    threads: Mapping[str, int] = field(default_factory=dict)
    holders: Mapping[Coords, tuple[str, ...]] = field(default_factory=dict)

    def groups(self, members: Sequence[Coords]) -> list[groups.Group]:
        """The groups of one slice, whose chunks these are in order."""
        if not self.holders:
            return groups.in_order(len(members), self.size or 1)
        held = [self.holders[c] for c in members]
        dealt = groups.by_worker(held, self.threads, self.slices, self.chunk_bytes, {}, least=0)
        return groups.smaller(dealt, self.size) if self.size else dealt


def dealer(todo: Reduction) -> Dealer:
    """How a reduction's chunks are dealt. Those of a monoid that does not commute stay in a row."""
    blocks, first = todo.x.numblocks, stages(todo.bound, todo.x.numblocks, todo.axes)[0]
    slices = math.prod(n for a, n in enumerate(blocks) if a not in first)
    chunks = math.prod(blocks[a] for a in first)
    found = origins(todo.x) if todo.bound.monoid.commutative else None
    holders, known = ({}, workers.current()) if found is None else found
    if holders:
        return Dealer(todo.size, slices, todo.chunk_bytes, dict(sorted(known.threads.items())), holders)
    each = groups.A_PROCESS if workers.are_processes() else groups.A_THREAD
    size = todo.size or groups.to_make(chunks, slices, known.total, todo.chunk_bytes, each)
    return Dealer(size, slices, todo.chunk_bytes)
