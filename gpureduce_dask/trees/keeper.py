"""Chunks that handles refer to stay in memory for as long as their handle does, also where the array is gone.

To dask a task that has run needs its inputs no more: once handles are made, the chunks of an array that was deleted
meanwhile would be forgotten. The handles would keep their memory, but where a worker leaves nobody could move these
chunks or make them again, and a copy of a handle on another worker would have nowhere to fetch them from. So it is
with handles and a list of them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
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
        """A handle comes or goes, or a task took some: called for every task."""
        if (start, finish) == ("processing", "memory"):
            needs = self.scheduler.tasks[key].dependencies
            if _is_first_handle(needs):
                self.scheduler.loop.add_callback(self._drop_copies, [need.key for need in needs])
        if not _is_handle(key):
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
        """Handles whose chunks are lost are made again where these are, and lists of handles with them: a copy
        elsewhere would hide the loss."""
        tasks = scheduler.tasks
        lost = [key for key, home in self._homes.items() if home == worker]
        for keys in (lost, [key for key in self._homes if _is_first_handle(tasks[key].dependencies)]):
            held = [tasks[key] for key in keys if tasks[key].state == "memory"]
            stale = [task.key for task in held if any(need.state != "memory" for need in task.dependencies)]
            scheduler.transitions(dict.fromkeys(stale, "released"), stimulus_id)

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

    def _drop_copies(self, keys: Collection[Any]) -> None:
        """Of handles that some task has taken, which tasks would follow to where their chunks are not."""
        for key in keys:
            task, home = self.scheduler.tasks.get(key), self.scheduler.workers.get(self._homes.get(key))
            places = set(task.who_has or ()) if task else set()
            if home in places:
                used = {waiter.processing_on for waiter in task.waiters or ()}
                for place in places - used - {home}:
                    self.scheduler.request_remove_replicas(place.address, [key], stimulus_id=f"gr-drop-{time()}")

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
        return task is not None and any(_is_handle(each.key) and each.state in WANTED for each in task.dependents)


def _is_handle(key: Any) -> bool:
    return type(key) is str and key.startswith(PREFIX)


def _is_first_handle(tasks: Collection[Any]) -> bool:
    """True for what a list of handles depends on, or a task that takes them."""
    return any(_is_handle(task.key) for task in islice(tasks, 1))
