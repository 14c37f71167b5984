"""Chunks that handles refer to stay in memory for as long as their handle does, also where the array is gone.

Handles declare no chunks: dask would forget those of an array that was deleted meanwhile. The handles would keep their
memory, but where a worker leaves nobody could move these chunks or make them again, and a copy of a handle on another
worker would have nowhere to fetch them from. Once a handle is lost, or let go by those who may need it again, it
declares them, to be made where they are by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from time import time
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import ClientState

from .holds import PREFIX, Hold, Roster

WANTED = frozenset({"waiting", "processing", "queued", "no-worker", "memory"})  # states of a handle that has a use


class Keeper(SchedulerPlugin):
    """Wants each chunk in the name of a client of its own, as dask does what its queues hold."""

    name = client = "gr-handles"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self._homes: dict[str, str] = {}  # where each handle was made
        self._needs: dict[str, frozenset[Any]] = {}  # the chunks that each handle, or list of them, wants
        self._users: dict[str, set[str]] = {}  # the handles of each array, by its name

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A handle comes or goes, or a task took some: called for every task."""
        if (start, finish) == ("processing", "memory"):
            needs = self.scheduler.tasks[key].dependencies
            if _is_first_handle(needs):
                self.scheduler.loop.add_callback(self._drop_copies, [need.key for need in needs])
        if not _is_handle(key) or not (key in self._needs or _is_ours(self.scheduler.tasks[key])):
            return
        if finish == "memory":
            self._homes[key] = next(iter(self.scheduler.tasks[key].who_has)).address
        if finish == "released" and self.scheduler.tasks[key].run_spec.home:
            _let_wait(self.scheduler, self.scheduler.tasks[key])  # it is lost, or others may need it again
            if start == "processing":  # a chunk has moved
                self.scheduler.loop.add_callback(self._renew_lists, key)
        if (start in WANTED) == (finish in WANTED):
            return
        if finish in WANTED:
            needs = self._needs[key] = self.scheduler.tasks[key].run_spec.needs
            self._users.setdefault(_name(needs), set()).add(key)
            self._want([self.scheduler.tasks[need] for need in needs if need in self.scheduler.tasks])
        else:  # not before the transition is over
            self._homes.pop(key, None)
            needs = self._needs.pop(key, frozenset())
            self._users.get(_name(needs), set()).discard(key)
            self.scheduler.loop.add_callback(self._release, needs)

    def remove_worker(self, scheduler: Any, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:
        """Handles whose chunks are lost are made again where these are, and lists of handles with them: a copy
        elsewhere would hide the loss."""
        tasks = scheduler.tasks
        lost = [key for key, home in self._homes.items() if home == worker]
        for keys in (lost, [key for key in self._homes if tasks[key].run_spec.holds]):
            held = [key for key in keys if tasks[key].state == "memory"]
            stale = [key for key in held if not all(_is_in_memory(tasks.get(need)) for need in self._needs[key])]
            scheduler.transitions(dict.fromkeys(stale, "released"), stimulus_id)

    def log_event(self, topic: str, msg: Any) -> None:
        """Chunks that their client cancels go: dask cancels only what nobody else wants."""
        if isinstance(msg, dict) and msg.get("action") == "cancel" and self._state is not None:
            chunks = [*self._state.wants_what]
            for task in [task for task in self._state.wants_what if len(task.who_wants) > 1]:
                task.who_wants.remove(self._state)
                self._state.wants_what.remove(task)
            self.scheduler.loop.add_callback(self._want_again, chunks, topic)

    def restart(self, scheduler: Any) -> None:
        """All tasks are gone."""
        scheduler.clients.pop(self.client, None)
        self._homes.clear()
        self._needs.clear()
        self._users.clear()

    def _renew_lists(self, handle: str) -> None:
        """Of handles, one of which may be made elsewhere now."""
        tasks = self.scheduler.tasks
        made = [key for key in self._needs if tasks[key].state in ("processing", "memory")]
        stale = [key for key in made if any(hold.key == handle for hold in tasks[key].run_spec.holds)]
        self.scheduler.transitions(dict.fromkeys(stale, "released"), f"gr-renew-{time()}")

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

    def _want_again(self, chunks: Collection[Any], client: str) -> None:
        """What a client has left, and not the handles of what it has cancelled."""
        gone = [task.key for task in chunks if self.scheduler.tasks.get(task.key) is not task]
        users = {user for key in gone for user in self._users_of(key)}
        stale = [key for key in users if key in self.scheduler.tasks and self.scheduler.tasks[key].who_wants]
        if stale:
            why = {"reason": "gr-handles", "msg": "chunks that they refer to were cancelled"}
            self.scheduler.stimulus_cancel(stale, client, force=False, **why)
        held = [task for task in chunks if self._is_held(task.key)]
        self._want(held)
        gone = [task.key for task in held if task.state == "released"]
        self.scheduler.transitions(dict.fromkeys(gone, "waiting"), f"gr-want-{time()}")
        self._release([])

    def _release(self, chunks: Collection[Any]) -> None:
        """Let go of chunks that no other handle refers to, and of the client with the last of them."""
        free = [key for key in chunks if not self._is_held(key)]
        for name in {_name([key]) for key in free}:
            if not self._users.get(name):
                self._users.pop(name, None)
        if self._state is not None:
            self.scheduler.client_releases_keys(free, self.client)
            if not self._state.wants_what:
                del self.scheduler.clients[self.client]

    def _is_held(self, key: Any) -> bool:
        return any(True for _ in self._users_of(key))

    def _users_of(self, key: Any) -> Iterator[str]:
        """The handles that want a chunk."""
        return (user for user in self._users.get(_name([key]), ()) if key in self._needs[user])


def add_task(scheduler: Any, task: Any) -> Iterator[Any]:
    """The new states of a handle's task, or of a list's, on the worker that it names, and of what it waits for where
    that is not there."""
    state = scheduler.new_task(task.key, task, "released")
    state.priority = (0, scheduler.generation, 0)
    yield state
    moved = any(hold.key in scheduler.tasks and not scheduler.tasks[hold.key].run_spec.home for hold in task.holds)
    if scheduler.workers.get(task.home) in scheduler.running and not moved:
        state.worker_restrictions = {task.home}
    else:
        yield from _let_wait(scheduler, state)


def _let_wait(scheduler: Any, state: Any) -> list[Any]:
    """A handle waits for its chunks, and is made where these are then; a list waits for its handles."""
    state.run_spec, state.worker_restrictions = state.run_spec.anywhere(), None
    new = [hold.anywhere() for hold in state.run_spec.holds if hold.key not in scheduler.tasks]
    made = [each for task in new for each in add_task(scheduler, task)]
    for need in state.run_spec.dependencies:
        if need in scheduler.tasks:
            state.add_dependency(scheduler.tasks[need])
        else:
            state.has_lost_dependencies = True
    return made


def _name(chunks: Iterable[Any]) -> str:
    """The array that chunks are of."""
    return next((str(key[0]) for key in chunks), "")


def _is_in_memory(task: Any) -> bool:
    return task is not None and task.state == "memory"


def _is_ours(task: Any) -> bool:
    """False for a copy of a handle that another graph has under a key of its own."""
    return isinstance(task.run_spec, Hold | Roster)


def _is_handle(key: Any) -> bool:
    return type(key) is str and key.startswith(PREFIX)


def _is_first_handle(tasks: Collection[Any]) -> bool:
    """True for what a list of handles depends on, or a task that takes them."""
    return any(_is_handle(task.key) for task in islice(tasks, 1))
