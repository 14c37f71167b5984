"""Handles: one small task result a worker that refers to all of an array's chunks there.

A graph over 4,096 chunks declares 4,096 dependencies, which costs the scheduler more than a GPU needs to read them. So
one task a worker takes the chunks that lie there, once, and reductions of the array depend on what it gives: the
handle. To dask it is a task as any other: lost with its worker, it is made again of its chunks, which are made again
first where they are gone. It copies nothing, is small in the eyes of the memory manager, which counts its chunks
already, and leaves its chunks behind when it has to travel: elsewhere it has them reduced at its home, or fetches them
one by one from whoever holds them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any

import numpy as np
from dask._task_spec import List, Task, TaskRef

from ..chunk import is_device
from ..device import faults
from ..errors import ArgumentError, message
from . import desk, workers

Coords = tuple[int, ...]


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
    """An array's chunks on this worker. ``key`` is the handle's own, and ``home`` the worker where it was made."""

    __slots__ = ("__weakref__", "_chunks", "_found", "home", "key", "share")

    def __init__(
        self, share: Share, chunks: Sequence[Any] | None = None, key: str = "", home: str | None = None
    ) -> None:
        self.share, self._chunks, self.key, self.home = share, chunks, key, home
        self._found: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self.share, None, self.key, self.home)

    @property
    def is_here(self) -> bool:
        """False in a copy that travelled: its chunks stayed where they were."""
        return self._chunks is not None

    def take(self, picks: Iterable[int]) -> list[Any]:
        """Chunks by their number in the handle."""
        if self._chunks is None:
            return [_fetch(self.share.keys[i]) for i in picks]
        return [self._chunks[i] for i in picks]

    def restored(self, data: Mapping[Any, Any]) -> Handle | None:
        """The handle with its chunks, where all are among what a worker has. Called by the worker's event loop: no
        other thread may read its data, which may come from a disk."""
        keys = self.share.keys
        if not all(key in data for key in keys):
            return None
        return Handle(self.share, [data[key] for key in keys], self.key, self.home)

    def packed(self) -> bytes:
        """The handle as it travels."""
        packed: bytes = self.once("packed", lambda: pickle.dumps(self))
        return packed

    def once(self, about: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` says about some of the chunks, found once."""
        if about not in self._found:
            self._found[about] = find()
        return self._found[about]


def task(key: str, share: Share) -> Task:
    """The task that makes a handle of chunks, where these are."""
    return Task(key, hold, share, key, List(*map(TaskRef, share.keys)))


def hold(share: Share, key: str, chunks: list[Any]) -> Handle:
    """A handle, which others can ask this worker for as long as it is here."""
    mine = desk.here()
    handle = Handle(share, chunks, key, mine.worker.address if mine else None)
    if mine is not None:
        _wait_for(chunks[0])
        mine.handles[key] = handle
    return handle


@faults.task
def _wait_for(chunk: Any) -> None:
    """Until the GPU has made what its stream was asked for: the thread of a worker's desk, which reads the chunks too,
    may have another."""
    if is_device(chunk):
        import cupy

        with chunk.device:
            cupy.cuda.get_current_stream().synchronize()


def _fetch(key: Any) -> Any:
    """A chunk from this worker's memory, or from another's. One that is nowhere is made again, as dask would have it
    for a task that takes it: an array that was let go by now has nobody else who asks for that."""
    from distributed import get_client
    from distributed.client import FutureCancelledError
    from distributed.utils_comm import gather_from_workers

    worker = workers.mine()

    async def ask() -> Any:
        if key in worker.data:
            return [worker.data[key]]
        holders = await worker.scheduler.who_has(keys=[key])
        found, *_ = await gather_from_workers(holders, rpc=worker.rpc, who=worker.address)
        return [found[key]] if key in found else None

    found = workers.on_loop(worker, ask)
    if found:
        return found[0]
    again = f"gr-again-{key}"
    try:
        return get_client().get({again: Task(again, _same, TaskRef(key))}, again)
    except FutureCancelledError:
        raise ArgumentError(
            message(
                "reduce",
                f"chunk {key} was released while its worker left",
                "chunks that stay in memory until the result is there",
                "Keep the array until then, and compute again.",
            )
        ) from None


def _same(chunk: Any) -> Any:
    return chunk
