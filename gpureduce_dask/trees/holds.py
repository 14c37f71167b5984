"""The tasks that make handles, and lists of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from dask._task_spec import Task

from ..chunk import is_device
from ..device import faults
from . import desk
from .axes import Chunks
from .groups import as_range
from .handles import Handle, Share

PREFIX = "gr-handle-"


@dataclass(frozen=True)
class Deal:
    """Handles to be: by what their keys start with, of an array's name, and where its chunks start along each axis."""

    mark: str
    name: str
    starts: tuple[Sequence[int], ...]

    @classmethod
    def of(cls, mark: str, name: str, chunks: Chunks) -> Deal:
        """Of an array of these chunks."""
        return cls(mark, name, tuple(tuple(map(_whole, accumulate(sizes[:-1], initial=0))) for sizes in chunks))

    @property
    def roster(self) -> str:
        """The key of a list of all handles."""
        return f"{PREFIX}{self.mark}-all"

    def holds(self, homes: Sequence[str]) -> dict[str, Hold]:
        """What makes the handle of each worker, given the worker of each chunk, in C order."""
        members: dict[str, list[int]] = {}
        for number, worker in enumerate(homes):
            members.setdefault(worker, []).append(number)
        return {
            worker: Hold(f"{PREFIX}{self.mark}-{i}", Share(self.name, self.starts, as_range(members[worker])), worker)
            for i, worker in enumerate(sorted(members))
        }

    def listed(self, holds: Mapping[str, Hold], needs: frozenset[Any] | None = None) -> Roster:
        """What makes a list of them, on the first worker: where tasks that take it run, and have warmed up. ``needs``
        are the keys of all chunks, where somebody has them."""
        return Roster(self.roster, tuple(holds.values()), next(iter(holds)), needs)


def _whole(start: float) -> int:
    return int(start) if start == start else -1


class Hold(Task):
    """The task that makes a handle: of a share of an array, and the worker whose memory has it. It travels as these
    alone.

    There it depends on nothing: to declare each chunk costs more than to look for it. Without a worker, as where that
    was lost, it depends on the chunks, and is made where they are.
    """

    __slots__ = ("_needs",)

    def __init__(self, key: str, share: Share, home: str | None = None) -> None:
        super().__init__(key, Handle, share, home)
        self._token = key
        self._needs: frozenset[Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Hold, (self.key, *self.args)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The handles that it needs to have made first."""
        return ()

    @property
    def share(self) -> Share:
        share: Share = self.args[0]
        return share

    @property
    def home(self) -> str | None:
        home: str | None = self.args[1]
        return home

    @property
    def needs(self) -> frozenset[Any]:
        """The keys of its chunks, counted where they are asked for."""
        if self._needs is None:
            self._needs = frozenset(self.share.keys)
        return self._needs

    @property
    def dependencies(self) -> frozenset[Any]:
        return frozenset() if self.home else self.needs

    def anywhere(self) -> Hold:
        """The same, made where its chunks will be."""
        return Hold(str(self.key), self.share)

    def __call__(self, values: Mapping[Any, Any] = MappingProxyType({})) -> Handle:
        mine = desk.here()
        if mine is None:
            return self.of(values, None)
        handle = mine.handles.get(str(self.key))
        if handle is None:
            handle = self.of(mine.worker.data if self.home else values, mine.worker.address)
            if not handle.is_here:
                from distributed import Reschedule

                raise Reschedule  # a chunk has moved: what runs again waits for all, see keeper
            _wait_for(handle.take([0])[0])
            mine.handles[handle.key] = handle
        return handle

    def of(self, data: Mapping[Any, Any], here: str | None) -> Handle:
        """The handle of chunks in a worker's memory, or else one whose chunks are at its home."""
        keys = self.share.keys
        if all(key in data for key in keys):
            return Handle(self.share, [data[key] for key in keys], str(self.key), here)
        return self.afar()

    def afar(self) -> Handle:
        """The handle as it would come from its home, without its chunks."""
        return Handle(self.share, None, str(self.key), self.home)


class Roster(Task):
    """The task that lists an array's handles, on one of their workers: from what makes each, without waiting for it.
    Without a worker, as where one was lost, it waits."""

    __slots__ = ("_needs",)

    def __init__(
        self, key: str, holds: tuple[Hold, ...], home: str | None = None, needs: frozenset[Any] | None = None
    ) -> None:
        super().__init__(key, list, holds, home)
        self._token = key
        self._needs = needs

    def __reduce__(self) -> tuple[Any, ...]:
        return Roster, (self.key, *self.args)

    @property
    def holds(self) -> tuple[Hold, ...]:
        found: tuple[Hold, ...] = self.args[0]
        return found

    @property
    def home(self) -> str | None:
        home: str | None = self.args[1]
        return home

    @property
    def needs(self) -> frozenset[Any]:
        """The keys of the chunks that its handles refer to."""
        if self._needs is None:
            self._needs = frozenset().union(*(hold.needs for hold in self.holds))
        return self._needs

    @property
    def dependencies(self) -> frozenset[Any]:
        return frozenset() if self.home else frozenset(hold.key for hold in self.holds)

    def anywhere(self) -> Roster:
        """The same, made when its handles are."""
        return Roster(str(self.key), self.holds, needs=self._needs)

    def __call__(self, values: Mapping[Any, Any] = MappingProxyType({})) -> list[Handle]:
        if not self.home:
            return [values[hold.key] for hold in self.holds]
        mine = desk.here()
        here = mine.worker.address if mine else None
        return [hold() if hold.home == here else hold.afar() for hold in self.holds]


@faults.task
def _wait_for(chunk: Any) -> None:
    """Until the GPU has made what its stream was asked for: the thread of a worker's desk, which reads the chunks too,
    may have another."""
    if is_device(chunk):
        import cupy

        with chunk.device:
            cupy.cuda.get_current_stream().synchronize()
