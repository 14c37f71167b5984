"""What the launches of reductions would take, predicted: of all ways to take a layout, that of least time is used.

A launch takes some time to start. Then four things happen at a time, of which the longest counts most: memory moves
the sectors that elements lie in; the processors issue loads, take in what these bring, and bring together what threads
have found; warps wait for the cache lines that their loads touch; and a thread waits for its loads, one round after
another. Where several blocks share a row or a tile, one of them folds what all of them leave.

What that costs is one table for every GPU, costs/reductions.json, and nothing of the GPU at hand enters. Which way is
taken says how elements are assigned to partials, and so which bits a float result has: these are the same everywhere.
For the same reason a user's own tables of ``bench tune``, which are about scans, are not looked at here.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .layout import Dim
from .tuning import CACHE_LINE, PROCESSORS, SECTOR

TABLE = Path(__file__).parent / "costs" / "reductions.json"
RESIDENT = 1024 * PROCESSORS  # threads that go on at a time
CACHED = 32e6  # bytes that are still in the L2 cache when a neighbouring row comes to their sectors
FOLD = "states"  # the kind of a fold of states that other launches leave


class Cost(NamedTuple):
    """Of one kind of launch, in seconds of the whole GPU where not said otherwise."""

    start: float  # until the first results, and behind the last
    load: float  # of a load that a thread issues, and of a lane that has none to issue beside it
    element: float  # of each element of it, times how heavy the operator is
    round: float  # until what a thread loads at a time is there
    end: float  # of each state that threads bring together, times how heavy the operator is


@dataclass(frozen=True)
class Table:
    """Costs, and where they are from."""

    kinds: dict[str, Cost]
    memory: float  # seconds a byte
    line: float  # of a cache line that a warp's load touches
    lookup: float  # of a line whose place a thread looks up, where lines are not one stride apart
    state: float  # a byte of states that blocks leave
    joined: float  # of a block that waits for others
    chain: float  # of each state that a thread of it folds, one after another, times how heavy the operator is
    weight: float  # by how much an operator is heavier for each byte of its state
    gpu: str
    date: str
    measured: str  # which cases, how they were fitted, and how well they predict


@functools.cache
def table() -> Table:
    """The package's."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    kinds = {kind: Cost(**numbers) for kind, numbers in found.pop("kinds").items()}
    return Table(kinds, **found)


class Effort(NamedTuple):
    """What the time of a launch depends on."""

    kind: str  # whose costs are its own
    state_bytes: int
    nbytes: float  # of memory that it moves
    threads: float = 1  # of all blocks
    loads: float = 0  # that they issue, with those of lanes that have nothing to load beside others
    elements: float = 0  # in these
    rounds: float = 0  # of loads that a thread waits for, one after another
    lines: float = 0  # cache lines that warps' loads touch
    ends: float = 0  # states that threads bring together
    lookups: float = 0  # lines whose place is looked up
    left: float = 0  # states that blocks leave
    chain: float = 0  # of those, what a thread of the block that waits for them folds, one after another


def seconds(of: Effort) -> float:
    """Predicted for a launch."""
    costs = table()
    cost = costs.kinds[of.kind]
    together, behind = parts(of, cost, costs, max(1.0, of.threads / RESIDENT))
    return cost.start + math.hypot(*together) + float(behind)


def parts(of: Any, cost: Cost, costs: Table, waves: Any) -> tuple[tuple[Any, ...], Any]:
    """Seconds of what a launch does at a time, and of what comes behind, by so many times the threads that go on at a
    time: of an Effort, or of one whose members are arrays."""
    heavy = 1 + costs.weight * of.state_bytes
    work = of.loads * cost.load + (of.elements * cost.element + of.ends * cost.end) * heavy + of.lookups * costs.lookup
    folded = (of.chain > 0) * costs.joined + of.chain * costs.chain * heavy
    together = of.nbytes * costs.memory, work, of.lines * costs.line, of.rounds * cost.round * waves
    return together, of.left * of.state_bytes * costs.state + folded


@functools.cache
def least_start() -> float:
    """Seconds that any launch takes at least."""
    return min(cost.start for cost in table().kinds.values())


def folding(states: int, written: float, state_bytes: int) -> Effort:
    """Of launches that fold so many states, and write so many bytes."""
    return Effort(FOLD, state_bytes, states * state_bytes + written, loads=states)


def chain_of(splits: int, columns: int, threads: int) -> float:
    """States that a thread folds one after another, of so many columns that each split leaves: four are on their way
    at a time, and what threads of one column have is folded by halves in the end."""
    halves = (threads // columns).bit_length() - 1 if 1 < columns < threads else 0
    return -(-splits * columns // threads) / 4 + halves / 6


def touched(dims: Sequence[Dim], operand: int, size: int) -> float:
    """Bytes of the sectors of memory that an operand's elements lie in, each once."""
    span, pieces, shift, apart = size, 1, SECTOR, 0
    for stride, count in sorted((abs(dim.strides[operand]), dim.size) for dim in dims):
        if stride == 0:
            continue
        if pieces == 1 and stride <= span:
            span += (count - 1) * stride
            continue
        apart = apart or stride
        pieces *= count
        shift = math.gcd(shift, stride)
    if pieces == 1:
        return span
    return pieces * min(in_sectors(span, shift), apart)


def in_sectors(nbytes: int, shift: int) -> int:
    """Bytes of the sectors that so many together lie in, on average, where they begin at any multiple of ``shift``."""
    return -(-nbytes // SECTOR) * SECTOR if shift == SECTOR else nbytes + SECTOR - shift


def shared_lines(step: int) -> float:
    """Cache lines a load, of those of a warp that are so many bytes apart."""
    return min(1.0, abs(step) / CACHE_LINE) if step else 1 / 32


def rounds_of(loads: int, items: int) -> float:
    """Rounds in which a thread issues so many loads: ``items`` at a time, and the rest together."""
    return -(-loads // items)
