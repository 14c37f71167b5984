"""The handles that a client has had made: one set for each array, shared by all of its reductions."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, product
from typing import Any

from dask.base import annotate, tokenize

from . import handles, workers
from .axes import Chunks
from .groups import as_range
from .handles import Coords, Share


@dataclass(eq=False)
class Held:
    """An array's handles, and where its chunks are.

    There are two of each: copies of those that one task takes lie where that task ran, and would draw the tasks of
    groups there, away from the chunks. Keys tell which chunks, and where, so that who asks again gets the same.
    """

    shares: dict[str, Share]  # the chunks of each worker
    homes: list[str]  # the worker of each chunk, in C order
    numblocks: Coords
    token: str
    futures: dict[str, Any] = field(default_factory=dict)
    layouts: dict[Any, Any] = field(default_factory=dict)  # groups by the axes they lie along

    def keys(self, for_one: bool) -> dict[str, str]:
        """The key of each worker's handle, for one task that takes all of them or for a task a group."""
        kind = "all" if for_one else "each"
        return {worker: f"gr-handle-{kind}-{self.token}-{i}" for i, worker in enumerate(self.shares)}

    @cached_property
    def places(self) -> dict[Coords, str]:
        """The worker of each chunk."""
        return dict(zip(product(*map(range, self.numblocks)), self.homes, strict=True))

    @cached_property
    def numbers(self) -> dict[Coords, int]:
        """The number of each chunk in its worker's handle."""
        counts: Counter[str] = Counter()
        found = {}
        for coords, worker in self.places.items():
            found[coords] = counts[worker]
            counts[worker] += 1
        return found

    def holders(self) -> dict[Coords, tuple[str, ...]]:
        """The one worker of each chunk, as the scheduler would say it."""
        return {coords: (worker,) for coords, worker in self.places.items()}

    def to_make(self, for_one: bool) -> int:
        """How many handles are yet to be made."""
        return sum(key not in self.futures for key in self.keys(for_one).values())

    def made(self, client: Any, for_one: bool) -> dict[str, Any]:
        """The futures of handles by key, which are made while the caller goes on, for all reductions of the array."""
        with _making:
            missing = {key: w for w, key in self.keys(for_one).items() if key not in self.futures}
            if missing:
                graph = {key: handles.task(key, self.shares[worker]) for key, worker in missing.items()}
                with annotate(workers=missing.get, allow_other_workers=True):
                    futures = client.get(graph, [*graph], sync=False)
                self.futures = self.futures | dict(zip(graph, futures, strict=True))
        return {key: self.futures[key] for key in self.keys(for_one).values()}

    def is_good(self, known: Mapping[str, int]) -> bool:
        """True while every worker is there, and no handle came to grief."""
        return self.shares.keys() <= known.keys() and all(
            f.status in ("pending", "finished") for f in self.futures.values()
        )


_making = threading.Lock()  # of the same handles, by two threads at once
_held: dict[int, Held] = {}  # by layer of futures; an entry goes with its layer


def find(layer: Any, client: Any) -> Held | None:
    """The handles of an array's layer of futures, if it has any that are still good."""
    held = _held.get(id(layer))
    return held if held is not None and held.is_good(workers.of_client(client).threads) else None


def plan(name: str, chunks: Chunks, homes: list[str]) -> Held:
    """Handles of chunks that lie, in C order, on these workers; none is made yet."""
    starts = tuple(tuple(map(_whole, accumulate(sizes[:-1], initial=0))) for sizes in chunks)
    members: dict[str, list[int]] = {}
    for number, worker in enumerate(homes):
        members.setdefault(worker, []).append(number)
    shares = {worker: Share(name, starts, as_range(members[worker])) for worker in sorted(members)}
    # As text: to take thousands of numbers one by one costs more than a reduction.
    return Held(shares, homes, tuple(map(len, chunks)), tokenize(name, str(starts), " ".join(homes)))


def keep(held: Held, layer: Any) -> None:
    """For all reductions of a layer's chunks."""
    if id(layer) not in _held:
        weakref.finalize(layer, _held.pop, id(layer), None)
    _held[id(layer)] = held


def _whole(start: float) -> int:
    return int(start) if start == start else -1
