"""Chunks that handles refer to stay in memory for as long as their handle does, also where the array is gone.

To dask a task that has run needs its inputs no more: once handles are made, the chunks of an array that was deleted
meanwhile would be forgotten. The handles would keep their memory, but where a worker leaves nobody could move these
chunks or make them again, and a copy of a handle on another worker would have nowhere to fetch them from.
"""

from __future__ import annotations

from collections.abc import Collection
from time import time
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import ClientState

PREFIX = "gr-handle-"
WANTED = frozenset({"waiting", "processing", "queued", "no-worker", "memory"})  # states of a handle that has a use


class Keeper(SchedulerPlugin):
    """Wants each chunk in the name of a client of its own, as dask does what its queues hold."""

    name = client = "gr-handles"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self._homes: dict[str, str] = {}  # where each handle was made

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A handle comes or goes: called for every task."""
        if type(key) is not str or not key.startswith(PREFIX):
            return
        if finish == "memory":
            self._homes[key] = next(iter(self.scheduler.tasks[key].who_has)).address
        if (start in WANTED) == (finish in WANTED):
            return
        chunks = self.scheduler.tasks[key].dependencies
        if finish in WANTED:
            self._want(chunks)
        else:  # not before the transition is over
            self._homes.pop(key, None)
            self.scheduler.loop.add_callback(self._release, [task.key for task in chunks])

    def remove_worker(self, scheduler: Any, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:
        """Handles whose chunks are lost are made again where these are: a copy elsewhere would hide the loss."""
        handles = [scheduler.tasks[key] for key, home in self._homes.items() if home == worker]
        lost = [task for task in handles if any(chunk.state != "memory" for chunk in task.dependencies)]
        scheduler.transitions({task.key: "released" for task in lost if task.state == "memory"}, stimulus_id)

    def log_event(self, topic: str, msg: Any) -> None:
        """Chunks that their client cancels go: dask cancels only what nobody else wants."""
        if isinstance(msg, dict) and msg.get("action") == "cancel" and self._state is not None:
            chunks = [*self._state.wants_what]
            for task in [task for task in self._state.wants_what if len(task.who_wants) > 1]:
                task.who_wants.remove(self._state)
                self._state.wants_what.remove(task)
            self.scheduler.loop.add_callback(self._want_again, chunks)

    def restart(self, scheduler: Any) -> None:
        """All tasks are gone."""
        scheduler.clients.pop(self.client, None)
        self._homes.clear()

    @property
    def _state(self) -> Any:
        return self.scheduler.clients.get(self.client)

    def _want(self, chunks: Collection[Any]) -> None:
        """``Scheduler.client_desires_keys`` would tell every client that these are in memory."""
        state = self.scheduler.clients.setdefault(self.client, ClientState(self.client))
        state.wants_what.update(chunks)
        for task in chunks:
            if task.who_wants is None:
                task.who_wants = set()
            task.who_wants.add(state)

    def _want_again(self, chunks: Collection[Any]) -> None:
        held = [task for task in chunks if self._is_held(task.key)]
        self._want(held)
        gone = [task.key for task in held if task.state == "released"]
        self.scheduler.transitions(dict.fromkeys(gone, "waiting"), f"gr-want-{time()}")
        self._release([])

    def _release(self, chunks: Collection[Any]) -> None:
        """Let go of chunks that no other handle refers to, and of the client with the last of them."""
        if self._state is not None:
            self.scheduler.client_releases_keys([key for key in chunks if not self._is_held(key)], self.client)
            if not self._state.wants_what:
                del self.scheduler.clients[self.client]

    def _is_held(self, key: Any) -> bool:
        task = self.scheduler.tasks.get(key)
        return task is not None and any(
            type(each.key) is str and each.key.startswith(PREFIX) and each.state in WANTED for each in task.dependents
        )
