"""The handles that a client has had made: one set for each array, shared by all of its reductions."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any

from dask._task_spec import List, TaskRef

from . import scheduler, workers
from .handles import Coords
from .holds import Deal, Hold, Roster

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

    def start(self, client: Any) -> None:
        """Have made what the first task takes, and the rest when there is time for it."""
        if self.roster is None or not self.is_listed:
            return self.each(client)
        self._start(client, [self.roster])
        _soon(client, partial(_make_rest, weakref.ref(self), weakref.ref(client)))

    def _start(self, client: Any, tasks: Sequence[Hold | Roster]) -> None:
        self.futures = self.futures | workers.start(client, {str(task.key): task for task in tasks})

    def _wants_roster(self) -> bool:
        """True where a task has taken all handles before, and no list of them is made."""
        if self.roster is None or self.roster.key in self.futures or not self.is_used:
            return False
        return all(future.status == "finished" for future in self.futures.values())


class Ordered:
    """A list of an array's handles that the scheduler makes of what it knows: the client has yet to hear of them."""

    def __init__(self, deal: Deal, layer: Any, client: Any) -> None:
        from distributed import Future

        self.deal, self.key = deal, deal.roster
        self.future: Any = Future(self.key, client)  # before anything can happen to it
        self._layer = weakref.ref(layer)

    def is_good(self) -> bool:
        return self.future.status in ("pending", "finished")

    def hear(self, shares: Mapping[str, Sequence[int]]) -> Held | None:
        """The handles, given which chunks each worker's has."""
        layer = self._layer()
        with _making:
            held = _held.get(id(layer))
            if held is self:
                del _held[id(layer)]
                held = None
                if shares and all(shares):
                    held = _held[id(layer)] = self._held(shares)
        return held if isinstance(held, Held) else None

    def _held(self, shares: Mapping[str, Sequence[int]]) -> Held:
        homes = dict(sorted((number, home) for home, numbers in shares.items() for number in numbers))
        held = plan(self.deal, [*homes.values()])
        held.roster, held.is_listed = self.deal.listed(held.holds), True
        held.futures = {self.key: self.future}
        return held


_making = threading.Lock()  # of a list, by two threads at once
_met: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()  # workers that a client's tasks can ask
_held: dict[int, Held | Ordered] = {}  # by layer of futures; an entry goes with its layer


def is_known(layer: Any) -> bool:
    """True where it has been heard of the handles of an array's layer of futures."""
    return isinstance(_held.get(id(layer)), Held)


def find(layer: Any, client: Any) -> Held | None:
    """The handles of an array's layer of futures, if it has any that are still good."""
    held = _held.get(id(layer))
    if isinstance(held, Ordered):
        if client.asynchronous or not held.is_good():
            return None
        held = held.hear(client.run_on_scheduler(scheduler.listed, held.key))
    return held if held is not None and held.is_good(workers.of_client(client).threads) else None


def order(deal: Deal, layer: Any, client: Any) -> Ordered | None:
    """A list that the scheduler makes of an array's handles, the same for all who ask; none where it has been heard of
    them already."""
    with _making:
        held = _held.get(id(layer))
        if isinstance(held, Held) or (held is not None and held.is_good()):
            return held if isinstance(held, Ordered) else None
        held = Ordered(deal, layer, client)
        workers.order(client, deal, met(client))
        _keep(held, layer)
    workers.wait_until_sent(client)
    _soon(client, partial(_hear, weakref.ref(held), weakref.ref(client)))
    return held


def met(client: Any) -> frozenset[str]:
    """The workers that a client's tasks can ask."""
    return frozenset(_met.get(client, ()))


def meet(client: Any, names: Iterable[str]) -> None:
    """Workers that a client's tasks can ask: each has its desk."""
    workers.introduce(client)
    _met.setdefault(client, set()).update(names)


def plan(deal: Deal, homes: list[str]) -> Held:
    """Handles of chunks that lie, in C order, on these workers; none is made yet."""
    return Held(deal.holds(homes), homes, tuple(map(len, deal.starts)))


def list_all(held: Held, deal: Deal, client: Any) -> None:
    """Let handles that are planned have a list, which the first task takes where their workers can be asked."""
    held.roster = deal.listed(held.holds)
    held.is_listed = held.holds.keys() <= met(client) and workers.is_heard(client)


def make(held: Held, layer: Any, client: Any) -> None:
    """Have the handles of a layer's chunks made while the caller goes on, for all reductions of these."""
    held.start(client)
    _keep(held, layer)


def _keep(held: Held | Ordered, layer: Any) -> None:
    if id(layer) not in _held:
        weakref.finalize(layer, _held.pop, id(layer), None)
    _held[id(layer)] = held


def _soon(client: Any, run: Callable[[], Any]) -> None:
    """By the client's loop."""
    client.loop.add_callback(client.loop.call_later, SOON, run)


def _make_rest(held: weakref.ref[Held], client: weakref.ref[Any]) -> None:
    each, mine = held(), client()
    if each is not None and mine is not None and mine.status == "running":
        each.each(mine)


async def _hear(ordered: weakref.ref[Ordered], client: weakref.ref[Any]) -> None:
    """Hear of handles that were ordered, and have all of them made."""
    mine, each = client(), ordered()
    if each is None or mine is None or mine.status != "running" or not each.is_good():
        return
    with suppress(OSError):  # the connection is closed
        held = each.hear(await mine.run_on_scheduler(scheduler.listed, each.key))
        if held is not None and mine.status == "running":
            held.each(mine)
