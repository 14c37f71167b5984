"""Chunks that the scheduler has already, because somebody persisted them or has them made just now.

A graph that comes later names them by the same keys. dask makes no task twice whose key it knows; but a task that was
moved into a group, or fused with others, has a key no more, so these stay tasks of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from . import workers

HAD = frozenset({"memory", "processing", "waiting", "queued", "no-worker"})


def known(graph: Any, wanted: set[Any]) -> set[Any]:
    """Those keys of a graph of layers that its outputs need and that the scheduler has; none where it is not of this
    process, which is where dask optimises graphs for a cluster."""
    found: set[Any] = set()
    for scheduler in _schedulers():
        if any(name in scheduler.task_groups and not is_of_futures(layer) for name, layer in graph.layers.items()):
            reached = _reached(graph, scheduler.tasks)
            needed = [layer for layer in graph.cull(wanted).layers.values() if not is_of_futures(layer)]
            keys = (key for layer in needed for key in layer.get_output_keys() if _name(key) in reached)
            found.update(key for key in keys if _is_had(scheduler.tasks.get(key)))
    return found


def _reached(graph: Any, tasks: Any) -> set[str]:
    """Layers that are run, or asked for what the scheduler has of them: not those below one that it has all of."""
    seen: set[str] = set()
    ahead = [name for name, above in graph.dependents.items() if not above]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            if not all(_is_had(tasks.get(key)) for key in graph.layers[name].get_output_keys()):
                ahead.extend(graph.dependencies[name])
    return seen


def _name(key: Any) -> Any:
    return key[0] if type(key) is tuple else key


def _schedulers() -> Iterable[Any]:
    """Schedulers of this process. Two of them are two clusters: what the wrong one has is a task more."""
    module = sys.modules.get("distributed.scheduler")
    every = list(module.Scheduler._instances) if module is not None else []
    return [each for each in every if each.status.name == "running"]


def _is_had(task: Any) -> bool:
    return task is not None and task.state in HAD


def is_of_futures(layer: Any) -> bool:
    """True for the layer of a persisted array, or of handles."""
    mapping = getattr(layer, "mapping", None)
    return mapping is not None and workers.is_future(next(iter(mapping.values()), None))
