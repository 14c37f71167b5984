"""Messages about our tasks leave at once.

dask collects what it has to say: a client speaks every 10 ms at most, a scheduler to each worker every 5 ms, a worker
to its scheduler and that to each client every 2 ms. That saves messages where tasks are many. A reduction of chunks in
memory has a few, one after another, and would wait for the end of such a pause at every step: after what was released
just before, after its own last task.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from .workers import end_pause


class Hurry(SchedulerPlugin):
    """Ends the pause towards the worker that gets a task of ours, or one that takes what such a task gave or gives what
    it takes, and towards the clients who wait for its result."""

    name = "gr-hurry"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A task goes to a worker, or its worker says that it is done: called for every task, before the message is
        written. Where more of its worker's tasks are to come, clients hear of several at once, as ever."""
        if finish == "processing" or (start, finish) == ("processing", "memory"):
            task = self.scheduler.tasks[key]
            near = chain(islice(task.dependencies, 1), islice(task.dependents, 1))
            if not (_is_ours(key) or any(_is_ours(each.key) for each in near)):
                return
            if finish == "processing":
                end_pause(self.scheduler.stream_comms[task.processing_on.address])
            elif not any(worker.processing for worker in task.who_has):
                for client in task.who_wants or ():
                    if client.client_key in self.scheduler.client_comms:  # not where it is fired and forgotten
                        end_pause(self.scheduler.client_comms[client.client_key])


def install(dask_scheduler: Any) -> None:
    """From now on this scheduler does not pause before it says what concerns our tasks."""
    dask_scheduler.add_plugin(Hurry(dask_scheduler), idempotent=True)


def _is_ours(key: Any) -> bool:
    name = key[0] if type(key) is tuple else key
    return type(name) is str and name.startswith("gr-")
