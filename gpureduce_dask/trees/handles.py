"""Handles: one small task result a worker that refers to all of an array's chunks there.

A graph over 4,096 chunks declares 4,096 dependencies, which costs the scheduler more than a GPU needs to read them. So
each chunk is declared once, to a handle; later reductions of the array depend on the handles alone. A handle copies
nothing, is small in the eyes of the memory manager, which counts its chunks already, and leaves its chunks behind
when it has to travel: elsewhere it fetches them one by one from whoever holds them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any
from uuid import uuid4

from dask._task_spec import List, Task, TaskRef
from dask.highlevelgraph import MaterializedLayer

from ..errors import ArgumentError, message
from . import workers
from .axes import Chunks

Coords = tuple[int, ...]


class Handle:
    """Chunks on this worker, their keys, and the coordinates of their first elements (-1 where they are unknown)."""

    __slots__ = ("_chunks", "_found", "keys", "offsets")

    def __init__(self, keys: tuple[Any, ...], offsets: tuple[Coords, ...], chunks: Sequence[Any] | None = None) -> None:
        self.keys, self.offsets, self._chunks = keys, offsets, chunks
        self._found: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self.keys, self.offsets)

    @property
    def is_here(self) -> bool:
        """False in a copy that travelled: its chunks stayed where they were."""
        return self._chunks is not None

    def take(self, picks: Iterable[int]) -> list[Any]:
        """Chunks by their number in the handle."""
        if self._chunks is None:
            return [_fetch(self.keys[i]) for i in picks]
        return [self._chunks[i] for i in picks]

    def once(self, about: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` says about some of the chunks, found once."""
        if about not in self._found:
            self._found[about] = find()
        return self._found[about]


def hold(keys: tuple[Any, ...], offsets: tuple[Coords, ...], chunks: list[Any]) -> Handle:
    """The task that makes a handle."""
    return Handle(keys, offsets, chunks)


def _fetch(key: Any) -> Any:
    """A chunk from this worker's memory, or from another's."""
    from distributed.utils import sync
    from distributed.utils_comm import gather_from_workers
    from distributed.worker import get_worker

    worker = get_worker()
    if key in worker.data:
        return worker.data[key]

    async def ask() -> dict[Any, Any]:
        holders = await worker.scheduler.who_has(keys=[key])
        found, *_ = await gather_from_workers(holders, rpc=worker.rpc, who=worker.address)
        return found

    found = sync(worker.loop, ask)
    if key not in found:
        raise ArgumentError(
            message(
                "reduce",
                f"chunk {key} was released while its worker left",
                "chunks that stay in memory until the result is there",
                "Keep the array until then, and compute again.",
            )
        )
    return found[key]


@dataclass
class Held:
    """An array's handles: where each chunk is, and its number in the handle of its worker."""

    names: dict[str, str]
    futures: dict[str, Any]
    where: dict[Coords, tuple[str, int]]
    layouts: dict[Any, Any] = field(default_factory=dict)  # groups by the axes they lie along

    def is_good(self, known: Mapping[str, int]) -> bool:
        """True while every worker is there, and no handle came to grief."""
        return self.names.keys() <= known.keys() and all(
            f.status in ("pending", "finished") for f in self.futures.values()
        )


class Futures(MaterializedLayer):
    """Handles as a layer of a graph, which keeps the array's chunks wanted for as long as the graph may need them."""

    def __init__(self, futures: Mapping[str, Any], source: Any) -> None:
        super().__init__(futures)
        self.source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return MaterializedLayer, (self.mapping,)


_held: dict[int, Held] = {}  # by layer of futures; an entry goes with its layer


def find(layer: Any, known: workers.Workers) -> Held | None:
    """The handles of an array's layer of futures, if it has any that are still good."""
    held = _held.get(id(layer))
    return held if held is not None and held.is_good(known.threads) else None


def make(layer: Any, name: str, chunks: Chunks, holders: Mapping[Coords, str], client: Any) -> Held:
    """Handles for an array whose chunks lie where ``holders`` says; they are made while the caller goes on, or not at
    all where there is no client."""
    starts = tuple(tuple(accumulate(sizes[:-1], initial=0)) for sizes in chunks)
    members: dict[str, list[Coords]] = {}
    where = {}
    for coords in product(*(range(len(sizes)) for sizes in chunks)):
        mine = members.setdefault(holders[coords], [])
        where[coords] = (holders[coords], len(mine))
        mine.append(coords)
    mark = uuid4().hex
    names = {worker: f"gr-handle-{mark}-{i}" for i, worker in enumerate(members)}
    if client is None:
        return Held(names, {}, where)
    graph = {names[w]: _task(names[w], name, coords, starts) for w, coords in members.items()}
    futures = client.get(graph, list(graph), sync=False)
    held = Held(names, dict(zip(graph, futures, strict=True)), where)
    if id(layer) not in _held:
        weakref.finalize(layer, _held.pop, id(layer), None)
    _held[id(layer)] = held
    return held


def _task(key: str, name: str, members: list[Coords], starts: tuple[tuple[float, ...], ...]) -> Task:
    offsets = tuple(tuple(_whole(starts[a][i]) for a, i in enumerate(coords)) for coords in members)
    keys: tuple[tuple[str | int, ...], ...] = tuple((name, *coords) for coords in members)
    task = Task(key, hold, keys, offsets, List(*(TaskRef(k) for k in keys)))
    task._token = key  # dask would pickle thousands of keys and offsets for one
    return task


def _whole(start: float) -> int:
    return int(start) if start == start else -1


def all_futures(layer: Any) -> Iterator[Any]:
    """The futures of a layer."""
    yield from layer.mapping.values()
