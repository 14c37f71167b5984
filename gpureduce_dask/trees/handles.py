"""Handles: one small task result a worker that refers to all of an array's chunks there.

A graph over 4,096 chunks declares 4,096 dependencies, which costs the scheduler more than a GPU needs to read them. So
each chunk is declared once, to a handle; later reductions of the array depend on the handles alone. A handle copies
nothing, is small in the eyes of the memory manager, which counts its chunks already, and leaves its chunks behind
when it has to travel: elsewhere it fetches them one by one from whoever holds them, or has them reduced at its home.
"""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from operator import getitem
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import uuid4

from dask._task_spec import List, Task, TaskRef

from ..chunk import is_device
from ..device import faults
from ..errors import ArgumentError, message
from . import desk, workers
from .axes import Chunks
from .groups import as_range

Coords = tuple[int, ...]

# States of a chunk that is made again, and that of one whose worker has left without a word.
COMING = frozenset({"waiting", "processing", "queued", "no-worker", "memory"})
AGAIN = 0.1  # seconds after which a task looks for it again


class Handle:
    """Chunks on this worker, their keys, and the coordinates of their first elements (-1 where they are unknown).

    ``key`` is the handle's own, and ``home`` the worker where it was made.
    """

    __slots__ = ("__weakref__", "_chunks", "_found", "home", "key", "keys", "offsets")

    def __init__(
        self,
        keys: tuple[Any, ...],
        offsets: tuple[Coords, ...],
        chunks: Sequence[Any] | None = None,
        key: str = "",
        home: str | None = None,
    ) -> None:
        self.keys, self.offsets, self._chunks, self.key, self.home = keys, offsets, chunks, key, home
        self._found: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self.keys, self.offsets, None, self.key, self.home)

    @property
    def is_here(self) -> bool:
        """False in a copy that travelled: its chunks stayed where they were."""
        return self._chunks is not None

    def take(self, picks: Iterable[int]) -> list[Any]:
        """Chunks by their number in the handle."""
        if self._chunks is None:
            return [_fetch(self.keys[i]) for i in picks]
        return [self._chunks[i] for i in picks]

    def restored(self, data: Mapping[Any, Any]) -> Handle | None:
        """The handle with its chunks, where all are among what a worker has in memory."""
        if not all(key in data for key in self.keys):
            return None
        return Handle(self.keys, self.offsets, [data[key] for key in self.keys], self.key, self.home)

    def packed(self) -> bytes:
        """The handle as it travels."""
        packed: bytes = self.once("packed", lambda: pickle.dumps(self))
        return packed

    def once(self, about: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` says about some of the chunks, found once."""
        if about not in self._found:
            self._found[about] = find()
        return self._found[about]


class Hold(Task):
    """The task that makes a handle: of an array's name, where its chunks start along each axis, and which of them in C
    order. It travels as these alone, and counts its keys where they are asked for."""

    __slots__ = ()

    def __init__(self, key: str, name: str, starts: tuple[Coords, ...], numbers: Sequence[int]) -> None:
        super().__init__(key, Handle, name, starts, numbers)
        self._token = key

    def __reduce__(self) -> tuple[Any, ...]:
        return Hold, (self.key, *self.args)

    @property
    def dependencies(self) -> frozenset[Any]:
        if not self._dependencies:
            self._dependencies = frozenset(self._keys(self._coords()))
        return self._dependencies

    def __call__(self, values: Mapping[Any, Any] = MappingProxyType({})) -> Handle:
        coords = self._coords()
        keys = self._keys(coords)
        offsets = tuple(tuple(map(getitem, self.args[1], c)) for c in coords)
        mine = desk.here()
        home = mine.worker.address if mine else None
        chunks = [values[key] for key in keys]
        handle = Handle(keys, offsets, chunks, str(self.key), home)
        if mine is not None:
            _wait_for(chunks[0])
            mine.handles[handle.key] = handle
        return handle

    def _coords(self) -> list[Coords]:
        _, starts, numbers = self.args
        every = list(product(*(range(len(each)) for each in starts)))
        return [every[i] for i in numbers]

    def _keys(self, coords: list[Coords]) -> tuple[Any, ...]:
        return tuple((self.args[0], *c) for c in coords)


@faults.task
def _wait_for(chunk: Any) -> None:
    """Until the GPU has made what its stream was asked for: the thread of a worker's desk, which reads the chunks too,
    may have another."""
    if is_device(chunk):
        import cupy

        with chunk.device:
            cupy.cuda.get_current_stream().synchronize()


def _fetch(key: Any) -> Any:
    """A chunk from this worker's memory, or from another's."""
    from distributed.utils import sync
    from distributed.utils_comm import gather_from_workers
    from distributed.worker import get_worker

    worker = get_worker()
    if key in worker.data:
        return worker.data[key]

    async def ask() -> tuple[dict[Any, Any], str | None]:
        holders = await worker.scheduler.who_has(keys=[key])
        found, *_ = await gather_from_workers(holders, rpc=worker.rpc, who=worker.address)
        state = await worker.scheduler.get_task_status(keys=[key]) if key not in found else {}
        return found, state.get(key)

    found, state = sync(worker.loop, ask)
    if key not in found:
        _refuse(key, state)
    return found[key]


def _refuse(key: Any, state: str | None) -> NoReturn:
    """Of a chunk that is nowhere: try again later where it is being made again. To wait here could be to wait for a
    task that waits for this thread."""
    from distributed import Reschedule

    if state in COMING:
        time.sleep(AGAIN)
        raise Reschedule
    raise ArgumentError(
        message(
            "reduce",
            f"chunk {key} was released while its worker left",
            "chunks that stay in memory until the result is there",
            "Keep the array until then, and compute again.",
        )
    )


@dataclass
class Held:
    """An array's handles: where each chunk is, and its number in the handle of its worker.

    ``roster`` is the key of a list of all of them, in the order of their workers, where one task asks these.
    """

    names: dict[str, str]
    futures: dict[str, Any]
    where: dict[Coords, tuple[str, int]]
    roster: str | None = None
    is_used: bool = False  # by a task that takes all
    layouts: dict[Any, Any] = field(default_factory=dict)  # groups by the axes they lie along

    def places(self) -> dict[Coords, str]:
        """The worker of each chunk."""
        return {coords: worker for coords, (worker, _) in self.where.items()}

    def holders(self) -> dict[Coords, tuple[str, ...]]:
        """The one worker of each chunk, as the scheduler would say it."""
        return {coords: (worker,) for coords, worker in self.places().items()}

    @property
    def to_make(self) -> int:
        """How many tasks run before one that takes all handles."""
        if not self.futures:
            return len(self.names)
        return int(self.is_used and self.roster not in self.futures)

    def every(self, client: Any) -> Any:
        """What a task takes for a list of all handles; no client where none will run.

        The first takes each, which costs less than to make a list first. The next has one made: where copies of handles
        stay, other tasks would follow them away from the chunks.
        """
        each = List(*map(TaskRef, self.names.values()))
        if client is None or not self.roster:
            return each
        with _making:
            if not self.is_used:
                self.is_used = True
                return each
            if self.roster not in self.futures:
                self.futures = self.futures | workers.start(client, {self.roster: Task(self.roster, list, each)})
        return TaskRef(self.roster)

    def is_good(self, known: Mapping[str, int]) -> bool:
        """True while every worker is there, and no handle came to grief."""
        return self.names.keys() <= known.keys() and all(
            f.status in ("pending", "finished") for f in self.futures.values()
        )


_making = threading.Lock()  # of a list, by two threads at once
_held: dict[int, Held] = {}  # by layer of futures; an entry goes with its layer


def find(layer: Any, client: Any) -> Held | None:
    """The handles of an array's layer of futures, if it has any that are still good."""
    held = _held.get(id(layer))
    return held if held is not None and held.is_good(workers.of_client(client).threads) else None


def make(
    layer: Any, name: str, chunks: Chunks, holders: Mapping[Coords, str], client: Any, is_listed: bool = False
) -> Held:
    """Handles for an array whose chunks, in C order, lie where ``holders`` says, with a list of them later on where
    ``is_listed``; they are made while the caller goes on, or not at all where there is no client."""
    members: dict[str, list[int]] = {}
    where = {}
    for number, (coords, worker) in enumerate(holders.items()):
        mine = members.setdefault(worker, [])
        where[coords] = (worker, len(mine))
        mine.append(number)
    mark = uuid4().hex
    names = {worker: f"gr-handle-{mark}-{i}" for i, worker in enumerate(sorted(members))}
    roster = f"gr-handle-{mark}-all" if is_listed else None
    if client is None:
        return Held(names, {}, where, roster)
    starts = tuple(tuple(map(_whole, accumulate(sizes[:-1], initial=0))) for sizes in chunks)
    graph = {names[w]: Hold(names[w], name, starts, as_range(numbers)) for w, numbers in members.items()}
    held = Held(names, workers.start(client, graph), where, roster)
    if id(layer) not in _held:
        weakref.finalize(layer, _held.pop, id(layer), None)
    _held[id(layer)] = held
    return held


def _whole(start: float) -> int:
    return int(start) if start == start else -1
