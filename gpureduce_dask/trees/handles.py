"""Handles: one small task result a worker that refers to all of an array's chunks there.

A graph over 4,096 chunks declares 4,096 dependencies, which costs the scheduler more than a GPU needs to read them. So
a worker looks for its chunks in its own memory, once, and reductions of the array depend on what it found: the handle,
for which :mod:`.keeper` keeps the chunks. A handle copies nothing, is small in the eyes of the memory manager, which
counts its chunks already, and leaves its chunks behind when it has to travel: elsewhere it fetches them one by one from
whoever holds them, or has them reduced at its home.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any, NoReturn

import numpy as np

from ..errors import ArgumentError, message

Coords = tuple[int, ...]

# States of a chunk that is made again, and that of one whose worker has left without a word.
COMING = frozenset({"waiting", "processing", "queued", "no-worker", "memory"})
AGAIN = 0.1  # seconds after which a task looks for it again


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
        """The handle with its chunks, where all are among what a worker has in memory."""
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
