"""Where the chunks of a reduction are: in memory here, in memory on the workers of a cluster, or yet to be made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from ..chunk import is_device
from . import held as handles
from . import locate, meta, spread, workers
from .axes import FAN_IN, stages
from .in_memory import InMemory
from .on_handles import OnHandles
from .sources import Reduction, Source


def source(todo: Reduction, is_trial: bool = False) -> Source | None:
    """The source of chunks that are all in memory, or None. A trial makes no handles on workers."""
    if any(a.numblocks != todo.x.numblocks for a in todo.arrays):
        return None
    layers = [a.dask.layers.get(a.name) for a in todo.arrays]
    values = [_values(layer, a) for layer, a in zip(layers, todo.arrays, strict=True)]
    if any(v is None for v in values):
        return None
    first = [next(iter(v.values()), None) for v in values]
    if all(workers.is_future(v) for v in first):
        return _on_workers(todo, layers, is_trial)
    if all(_is_array(chunk) for v in values for chunk in v.values()):
        return InMemory(todo, None, workers.current())
    return None


def _values(layer: Any, array: Any) -> Any:
    """A layer's dictionary where it has the array's chunks and nothing else."""
    mapping = getattr(layer, "mapping", None)
    whole = mapping is not None and len(mapping) == array.npartitions > 0
    return mapping if whole and len(array.dask.layers) == 1 else None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_device(value)


def _on_workers(todo: Reduction, layers: list[Any], is_trial: bool) -> Source | None:
    client = next(iter(layers[0].mapping.values())).client
    if client is None:
        return None
    held = [handles.find(layer, client) for layer in layers]
    good = [h for h in held if h is not None]
    if len(good) == len(held) and all(h.homes == good[0].homes for h in good[1:]):
        known = workers.of_client(client)
    else:
        arrays = [(a.name, a.numblocks, layer) for a, layer in zip(todo.arrays, layers, strict=True)]
        known, found = locate.survey(client, arrays)
        if not found:
            for layer in layers:
                workers.refuse_cancelled(todo.bound.name, layer.mapping.values())
            return None
        homes = [*map(min, found[0])]
        apart = any(home not in each for holders in found[1:] for home, each in zip(homes, holders, strict=True))
        if apart or not _fit(todo, homes, known):
            return InMemory(todo, found[0], known)
        good = []
        for h, a, layer in zip(held, todo.arrays, layers, strict=True):
            good.append(h if h is not None and h.homes == homes else handles.plan(a.name, a.chunks, homes))
            handles.keep(good[-1], layer)
    return OnHandles(todo, good, known, _is_for_one(todo, good[0].shares.keys(), known), is_trial)


def _is_for_one(todo: Reduction, homes: Collection[str], known: workers.Workers) -> bool:
    """True where one task had better ask each worker for its small partial of the only slice."""
    stage = stages(todo.bound, todo.x.numblocks, todo.axes)[0]
    is_only = all(n == 1 for a, n in enumerate(todo.x.numblocks) if a not in stage)
    is_small = todo.partial_bytes(stage) <= spread.MOST_BYTES and len(homes) <= FAN_IN
    return not todo.size and is_only and is_small and spread.pays(homes, known, meta.promises_device(todo.x._meta))


def _fit(todo: Reduction, homes: list[str], known: workers.Workers) -> bool:
    """True where handles are worth their tasks, and the workers hold their chunks with ease: a handle keeps them from
    going to a disk. ``homes`` has each chunk's worker."""
    share = Counter(homes)
    if len(homes) < 2 * len(share) or known.crowded & share.keys():
        return False
    each = 0 if math.isnan(todo.chunk_bytes) else todo.chunk_bytes
    if meta.promises_device(todo.x._meta):
        return True
    return all(n * each <= known.memory.get(w, math.inf) * workers.HALF_FULL for w, n in share.items())
