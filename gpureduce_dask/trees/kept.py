"""Tasks that the scheduler has already, because somebody persisted them or has them made just now.

A graph that comes later names them by the same keys, and dask makes no task twice whose key it knows: those that it
leaves in a graph. Those that it fuses with others are made again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

HAD = frozenset({"memory", "processing", "waiting", "queued", "no-worker"})


def known(keys: Iterable[Any]) -> set[Any]:
    """Those keys that the scheduler has; none where it is not of this process, which is where dask optimises graphs for
    a cluster. Two schedulers are two clusters: what the wrong one has is a task more."""
    module = sys.modules.get("distributed.scheduler")
    every = list(module.Scheduler._instances) if module is not None else []
    held = [each.tasks for each in every if each.status.name == "running" and each.tasks]
    return {key for key in keys if any(key in tasks and tasks[key].state in HAD for tasks in held)} if held else set()
