"""Handles: one object for each worker that refers to the chunks of an array which that worker holds.

A graph of handles does not grow with the number of chunks. A client has one set of them made for each persisted array,
shared by all of its reductions.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, count, product
from operator import getitem
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..errors import ArgumentError, message
from ..planner import as_range
from . import workers
from .private import List, Task, TaskRef, as_tasks

Coords = tuple[int, ...]

PREFIX = "gr-handle-"  # of the keys of handles
VIEWS_KEPT = 64  # of an array
STALE = 10.0  # seconds after which a scheduler is asked again where chunks lie that have handles


@dataclass(frozen=True)
class Share:
    """Some chunks of an array: of its name, where its chunks start along each axis (-1 where that is unknown), and
    which of them in C order. It travels as these alone."""

    name: str
    starts: tuple[Sequence[int], ...]
    numbers: Sequence[int]

    def __reduce__(self) -> tuple[Any, ...]:
        return Share, (self.name, self.starts, self.numbers)

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """Of the chunks."""
        return tuple((self.name, *c) for c in self._coords())

    @cached_property
    def offsets(self) -> tuple[Coords, ...]:
        """The coordinates of their first elements."""
        return tuple(tuple(map(getitem, self.starts, c)) for c in self._coords())

    def _coords(self) -> Iterable[Coords]:
        shape = [len(each) for each in self.starts]
        return zip(*(axis.tolist() for axis in np.unravel_index(self.numbers, shape)), strict=True)


class Handle:
    """An array's chunks on one worker. A copy that travels leaves them there, and finds them again where they are. A
    memory manager that drops one of two copies may drop the one that had the chunks."""

    __slots__ = ("_chunks", "_found", "share")

    def __init__(self, share: Share, chunks: Sequence[Any] | None = None) -> None:
        self.share, self._chunks = share, chunks
        self._found: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self.share,)

    def is_here(self) -> bool:
        """True where this worker has all of the chunks; asked by the thread of a task."""
        if self._chunks is None:
            self._chunks = workers.from_memory(self.share.keys)
        return self._chunks is not None

    def take(self, picks: Iterable[int]) -> list[Any]:
        """Chunks by their number in the handle."""
        if self._chunks is None:
            return [_fetch(self.share.keys[i]) for i in picks]
        return [self._chunks[i] for i in picks]

    def get_or_compute(self, about: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` says about some of the chunks, kept from the first call on."""
        if about not in self._found:
            self._found[about] = find()
        return self._found[about]


def handle_task(key: str, share: Share) -> Task:
    """The task that makes a handle of chunks, where these are."""
    return Task(key, Handle, share, List(*map(TaskRef, share.keys)))


def _fetch(key: Any) -> Any:
    """A chunk from this worker's memory, or by a task that takes it, which dask brings it to. One that is nowhere is
    made again for that: an array that was let go by now has nobody else who asks for it."""
    from distributed import CancelledError, get_client

    if found := workers.from_memory([key]):
        return found[0]
    again = f"gr-fetch-{key}"
    try:
        (found,) = get_client().get({again: Task(again, tuple, List(TaskRef(key)))}, again)
        return found
    except CancelledError:
        received = f"chunk {key} was released while its worker left"
        expected = "chunks that stay in memory until the result is there"
        remedy = "Keep the array until then, and compute again."
        raise ArgumentError(message("reduce", received, expected, remedy)) from None


Chunks = tuple[tuple[float, ...], ...]  # nan where a size is unknown


@dataclass(eq=False)
class HandleSet:
    """An array's handles, and where its chunks are. Keys tell which chunks, and where, so that who asks again gets the
    same."""

    shares: dict[str, Share]  # the chunks of each worker
    homes: list[str]  # the worker of each chunk, in C order
    numblocks: Coords
    token: str
    when: float = -math.inf  # the scheduler said last that the chunks are there
    futures: dict[str, Any] = field(default_factory=dict)
    views: dict[Any, Any] = field(default_factory=dict)  # of the array, by what tells one from another

    def keep_view(self, key: Any, view: Any) -> None:
        """Keep what was found out about a view of the array, for the next reduction of it."""
        if key not in self.views and len(self.views) >= VIEWS_KEPT:
            self.views.clear()
        self.views[key] = view

    @property
    def is_placed(self) -> bool:
        """True where it is known where in the array the chunks lie."""
        return not any(-1 in axis for share in self.shares.values() for axis in share.starts)

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key of each worker's handle."""
        return {worker: f"{PREFIX}{self.token}-{i}" for i, worker in enumerate(self.shares)}

    @cached_property
    def anchors(self) -> dict[str, Any]:
        """The key of one chunk of each worker's. Tasks that take a handle take this chunk too: a handle is small, and a
        scheduler would send its tasks to wherever a copy of it lies, away from the chunks."""
        return {worker: share.keys[0] for worker, share in self.shares.items()}

    @cached_property
    def holders(self) -> Holders:
        """The one worker of each chunk, as the scheduler would say it."""
        return by_coords(self.numblocks, [(worker,) for worker in self.homes])

    @cached_property
    def numbers(self) -> dict[Coords, int]:
        """The number of each chunk in its worker's handle."""
        counts = {worker: count() for worker in self.shares}
        return {coords: next(counts[worker]) for coords, (worker,) in self.holders.items()}

    @property
    def to_make(self) -> int:
        """How many handles are yet to be made."""
        return sum(key not in self.futures for key in self.keys.values())

    def submit(self, client: Any) -> dict[str, Any]:
        """The futures of handles by key, which are made while the caller goes on, for all reductions of the array."""
        with _making:
            missing = {key: w for w, key in self.keys.items() if key not in self.futures}
            if missing:
                graph = {key: handle_task(key, self.shares[worker]) for key, worker in missing.items()}
                # A layer, for of a mere dictionary dask makes a token of every chunk's key.
                layer = MaterializedLayer(graph, annotations={"workers": missing.get, "allow_other_workers": True})
                futures = client.get(HighLevelGraph({PREFIX: layer}, {PREFIX: set()}), [*graph], sync=False)
                self.futures = self.futures | dict(zip(graph, futures, strict=True))
        return self.futures

    def is_good(self, known: Mapping[str, int]) -> bool:
        """True while every worker is there, and no handle failed."""
        return self.shares.keys() <= known.keys() and all(
            f.status in ("pending", "finished") for f in self.futures.values()
        )


class HandleLayer(MaterializedLayer):
    """Handles and the chunks that keep their tasks in place, for a graph. It keeps all futures of the array, as a graph
    of its chunks would: a worker that finds a handle without them can fetch them for as long as the graph is there.
    They do not travel with it."""

    def __init__(self, handle_set: HandleSet, layer: Any, client: Any) -> None:
        super().__init__(handle_set.submit(client) | {key: layer.mapping[key] for key in handle_set.anchors.values()})
        self.layer = layer

    def __reduce__(self) -> tuple[Any, ...]:
        return MaterializedLayer, (self.mapping, self.annotations)


_making = threading.Lock()  # of the same handles, by two threads at once
_handle_sets: dict[int, HandleSet] = {}  # by layer of futures; an entry goes with its layer


def find_handles(layer: Any, client: Any) -> HandleSet | None:
    """The handles of a layer of futures, if it has any that are still good, whose chunks were there lately."""
    handle_set = _handle_sets.get(id(layer))
    if handle_set is None or time.monotonic() - handle_set.when > STALE:
        return None
    return handle_set if handle_set.is_good(workers.of_client(client).threads) else None


def homes_of(layer: Any, holders: Sequence[tuple[str, ...]]) -> list[str]:
    """One of the workers that hold each chunk of an array's layer of futures: the one of its handles, if it can be."""
    before = _handle_sets[id(layer)].homes if id(layer) in _handle_sets else [""] * len(holders)
    return [home if home in each else min(each) for home, each in zip(before, holders, strict=True)]


def plan_handles(name: str, chunks: Chunks, homes: list[str]) -> HandleSet:
    """Handles of chunks that lie, in C order, on these workers; none is made yet."""
    at = (accumulate(sizes[:-1], initial=0) for sizes in chunks)
    starts = tuple(tuple(-1 if math.isnan(start) else int(start) for start in each) for each in at)
    members: dict[str, list[int]] = {}
    for number, worker in enumerate(homes):
        members.setdefault(worker, []).append(number)
    shares = {worker: Share(name, starts, as_range(members[worker])) for worker in sorted(members)}
    # As text: to take thousands of numbers one by one costs more than a reduction.
    return HandleSet(shares, homes, tuple(map(len, chunks)), tokenize(name, str(starts), " ".join(homes)))


def keep_handles(
    layer: Any, name: str, chunks: Chunks, homes: list[str], known: workers.Workers, is_placed: bool
) -> HandleSet:
    """The handles of an array's layer of futures, for all of its reductions: those that there are, where the chunks lie
    where they did, or ones that have yet to be made. With ``is_placed`` they know where in the array the chunks lie."""
    handle_set = _handle_sets.get(id(layer))
    if handle_set is None:
        weakref.finalize(layer, _handle_sets.pop, id(layer), None)
    is_same = handle_set is not None and handle_set.homes == homes and (handle_set.is_placed or not is_placed)
    if handle_set is None or not is_same or not handle_set.is_good(known.threads):
        handle_set = _handle_sets[id(layer)] = plan_handles(name, chunks, homes)
    handle_set.when = time.monotonic()
    return handle_set


Holders = dict[Coords, tuple[str, ...]]  # the workers that hold each chunk


def numblocks_of(futures: Iterable[Any]) -> Coords:
    """How many blocks along each axis an array has, whose keys these are."""
    return tuple(n + 1 for n in map(max, zip(*(key[1:] for key in futures), strict=True)))


def by_coords(numblocks: Coords, found: Sequence[tuple[str, ...]]) -> Holders:
    """What is found of each chunk in C order."""
    return dict(zip(product(*map(range, numblocks)), found, strict=True))


def origins(x: Any) -> tuple[Holders, workers.Workers] | None:
    """Which workers hold what the chunks are made of: a persisted array of as many blocks, each of which makes one."""
    for name, layer in x.dask.layers.items():
        mapping = getattr(layer, "mapping", {})
        first: Any = next(iter(mapping.values()), None)
        if len(mapping) != x.npartitions or not workers.is_future(first):
            continue
        if not all(type(key) is tuple and key[0] == name for key in mapping):  # as handles and their chunks
            continue
        numblocks = numblocks_of(mapping)
        order = _order(x, name, numblocks) if first.client is not None else None
        if order is None:
            continue
        handle_set = find_handles(layer, first.client)
        if handle_set is not None:
            homes, known = list(handle_set.holders.values()), workers.of_client(first.client)
        else:
            known, found, _ = workers.survey(first.client, [(name, numblocks, mapping)])
            homes = [*found[0]] if found else []
        if homes:
            return by_coords(x.numblocks, [homes[i] for i in order]), known
    return None


def _order(x: Any, name: str, numblocks: Coords) -> list[int] | None:
    """The number of the block, in C order, that each chunk of ``x`` is made of; None where that cannot be told. Axes
    may have changed places, or run backwards: the first chunk, the last along each axis and one between show that. Of
    what they do not show, as blocks that others have changed places with, the answer is wrong by some transfers."""
    begin = _source(x, name, (0,) * x.ndim)
    if begin is None or math.prod(numblocks) != x.npartitions:
        return None
    steps = np.cumprod([1, *numblocks[:0:-1]])[::-1][: len(numblocks)]
    found = np.full(x.numblocks, int(np.dot(steps, begin)))
    for axis, n in enumerate(x.numblocks):
        if n == 1:
            continue
        end = _source(x, name, tuple(n - 1 if a == axis else 0 for a in range(x.ndim)))
        shifts = [] if end is None else [(a, q - p) for a, (p, q) in enumerate(zip(begin, end, strict=True)) if q != p]
        if len(shifts) != 1 or abs(shifts[0][1]) != n - 1 or numblocks[shifts[0][0]] != n:
            return None
        ((along, way),) = shifts
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        found += (np.arange(n) * (steps[along] if way > 0 else -steps[along])).reshape(shape)
    order: list[int] = found.ravel().tolist()
    middle = tuple(n // 2 for n in x.numblocks)
    between = _source(x, name, middle)
    is_so = between is not None and int(np.dot(steps, between)) == found[middle] and len(set(order)) == len(order)
    return order if is_so else None


class SummaryTask(Task):
    """A task that gives little of many chunks, as their totals. What is made with it is not made of these chunks."""

    __slots__ = ()


def _source(x: Any, name: str, coords: Coords) -> Coords | None:
    """The one block of an array of this name that a chunk is made of, but for what summaries of the array tell."""
    graph = as_tasks(x.dask.cull({(x.name, *coords)}))
    ahead: set[Any] = {(x.name, *coords)}
    seen: set[Any] = set()
    found: set[Coords] = set()
    while ahead and len(found) < 2:
        seen |= ahead
        found |= {key[1:] for key in ahead if isinstance(key, tuple) and key[0] == name}
        nodes = [node for key in ahead if not isinstance(node := graph.get(key), SummaryTask)]
        needs: list[frozenset[Any]] = [getattr(node, "dependencies", frozenset()) for node in nodes]
        # Of a task that takes handles, its other chunks are there to keep it on their worker.
        ahead = {key for each in needs if not any(str(k).startswith(PREFIX) for k in each) for key in each} - seen
    return found.pop() if len(found) == 1 else None
