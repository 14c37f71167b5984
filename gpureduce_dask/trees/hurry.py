"""Messages about our tasks leave at once.

dask collects what it has to say: a client speaks every 10 ms at most, a scheduler to each worker every 5 ms. That saves
messages where tasks are many. A reduction of chunks in memory has a few, one after another, and would wait for the end
of such a pause at every step: after what was released just before, after its own last task.
"""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from .workers import end_pause


class Hurry(SchedulerPlugin):
    """Ends the pause towards the worker that gets a task of ours, or one that takes what such a task gave."""

    name = "gr-hurry"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A task goes to a worker: called for every task, before the message is written."""
        if finish == "processing":
            task = self.scheduler.tasks[key]
            first = next(iter(task.dependencies), task)
            if _is_ours(key) or _is_ours(first.key):
                end_pause(self.scheduler.stream_comms[task.processing_on.address])


def _is_ours(key: Any) -> bool:
    return str(key[0] if type(key) is tuple else key).startswith("gr-")
