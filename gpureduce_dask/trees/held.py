"""The handles that a client has had made: one set for each array, shared by all of its reductions."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any

from dask._task_spec import List, TaskRef

from . import workers
from .handles import Coords
from .holds import Deal, Hold, Offer, Roster

SOON = 0.05  # seconds after which handles are made that the first task does without


@dataclass(eq=False)
class Held:
    """An array's handles, and where its chunks are.

    ``roster`` makes a list of all of them, in the order of their workers, where one task asks these.
    """

    holds: dict[str, Hold]  # what makes the handle of each worker
    homes: list[str]  # the worker of each chunk, in C order
    numblocks: Coords
    roster: Roster | None = None
    is_listed: bool = False  # for the first task already
    is_used: bool = False  # by a task that takes all
    futures: dict[str, Any] = field(default_factory=dict)
    layouts: dict[Any, Any] = field(default_factory=dict)  # groups by the axes they lie along

    @cached_property
    def names(self) -> dict[str, str]:
        """The key of each worker's handle."""
        return {worker: str(hold.key) for worker, hold in self.holds.items()}

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

    @property
    def to_make(self) -> int:
        """How many tasks run before one that takes all handles."""
        if not self.futures:
            return 1 if self.is_listed else len(self.holds)
        return int(self._wants_roster())

    def every(self, client: Any) -> Any:
        """What a task takes for a list of all handles; no client where none will run.

        Where a worker has yet to make its first handle, it could not be asked: then the task takes, and waits for,
        each of them. Otherwise it takes a list, of which there are no copies that would draw other tasks away from
        the chunks.
        """
        if self.roster is not None and client is not None:
            with _making:
                if self._wants_roster():
                    _met.setdefault(client, set()).update(self.holds)
                    self._start(client, [self.roster])
                self.is_used = True
            if self.roster.key in self.futures:
                return TaskRef(self.roster.key)
        return List(*(TaskRef(hold.key) for hold in self.holds.values()))

    def each(self, client: Any) -> None:
        """Have all handles made."""
        with _making:
            if not all(hold.key in self.futures for hold in self.holds.values()):
                self._start(client, [*self.holds.values()])

    def is_good(self, known: Mapping[str, int]) -> bool:
        """True while every worker is there, and no handle came to grief."""
        return self.holds.keys() <= known.keys() and all(
            f.status in ("pending", "finished") for f in self.futures.values()
        )

    def start(self, client: Any, roster: Any = None) -> None:
        """Have made what the first task takes, and the rest when there is time for it. ``roster`` is the future of a
        list that is being made."""
        if self.roster is None or not self.is_listed:
            return self.each(client)
        if roster is None:
            self._start(client, [self.roster])
        else:
            self.futures = {str(self.roster.key): roster}
        client.loop.add_callback(
            client.loop.call_later, SOON, partial(_make_rest, weakref.ref(self), weakref.ref(client))
        )

    def _start(self, client: Any, tasks: Sequence[Hold | Roster]) -> None:
        self.futures = self.futures | workers.start(client, {str(task.key): task for task in tasks})

    def _wants_roster(self) -> bool:
        """True where a task has taken all handles before, and no list of them is made."""
        if self.roster is None or self.roster.key in self.futures or not self.is_used:
            return False
        return all(future.status == "finished" for future in self.futures.values())


_making = threading.Lock()  # of a list, by two threads at once
_met: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()  # workers that a client's tasks can ask
_held: dict[int, Held] = {}  # by layer of futures; an entry goes with its layer


def find(layer: Any, client: Any) -> Held | None:
    """The handles of an array's layer of futures, if it has any that are still good."""
    held = _held.get(id(layer))
    return held if held is not None and held.is_good(workers.of_client(client).threads) else None


def meet(client: Any, names: Iterable[str]) -> None:
    """Workers that a client's tasks can ask: each has its desk."""
    workers.introduce(client)
    _met.setdefault(client, set()).update(names)


def offer(client: Any, deal: Deal) -> tuple[Offer, Any] | None:
    """What a client offers with its question where chunks lie, and the future of what that makes: of a list of
    handles, where it has had workers make some before."""
    met = _met.get(client)
    if not met or not workers.is_heard(client):
        return None
    from distributed import Future

    return Offer(deal, frozenset(met), client.id), Future(deal.roster, client)  # before anything can happen to it


def plan(deal: Deal, homes: list[str], client: Any, is_listed: bool) -> Held:
    """Handles of chunks that lie, in C order, on these workers, with a list of them where ``is_listed``; none is made
    yet."""
    held = Held(deal.holds(homes), homes, tuple(map(len, deal.starts)))
    if is_listed:
        held.roster = deal.listed(held.holds)
        held.is_listed = held.holds.keys() <= _met.get(client, set()) and workers.is_heard(client)
    return held


def make(held: Held, layer: Any, client: Any, offered: tuple[Offer, Any] | None) -> None:
    """Have the handles of a layer's chunks made while the caller goes on, for all reductions of these."""
    held.start(client, offered[1] if offered and offered[0].taken(held.holds) else None)
    if id(layer) not in _held:
        weakref.finalize(layer, _held.pop, id(layer), None)
    _held[id(layer)] = held


def _make_rest(held: weakref.ref[Held], client: weakref.ref[Any]) -> None:
    """By the client's loop."""
    each, mine = held(), client()
    if each is not None and mine is not None and mine.status == "running":
        each.each(mine)
