"""How many tasks a call takes on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin


class TaskCounter(SchedulerPlugin):
    """Counts the tasks that workers are done with."""

    name = "count-tasks"

    def __init__(self) -> None:
        self.tasks = 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        self.tasks += (start, finish) == ("processing", "memory")


def counted(client: Any, call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call gives, and how many tasks the workers ran until then."""
    client.run_on_scheduler(_count_tasks)
    try:
        return call(), int(client.run_on_scheduler(_count_of_tasks))
    finally:
        client.unregister_scheduler_plugin(TaskCounter.name)


def _count_tasks(dask_scheduler: Any) -> None:
    dask_scheduler.add_plugin(TaskCounter())


def _count_of_tasks(dask_scheduler: Any) -> int:
    counter: TaskCounter = dask_scheduler.plugins[TaskCounter.name]
    return counter.tasks
