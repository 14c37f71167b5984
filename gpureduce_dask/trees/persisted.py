"""Arrays kept in memory, ready for many reductions."""

from __future__ import annotations

from typing import Any

from ..operators import OPERATORS
from . import find, sources, workers
from .apply import as_dask


def persist(x: Any, **kwargs: Any) -> Any:
    """``x.persist()``, done when this returns, and on a cluster with handles to the chunks of each worker.

    A handle is what the first reduction of a persisted array would make: later ones depend on one task a worker, not
    on each chunk. ``kwargs`` go to ``x.persist``. Waits until all chunks are in memory.
    """
    array = as_dask("persist", x).persist(**kwargs)
    futures = [v for v in getattr(array.dask.layers.get(array.name), "mapping", {}).values() if workers.is_future(v)]
    if futures:
        from distributed import wait

        wait(futures)
        bound = OPERATORS["count_nonzero"].bind(bool)
        found = find.source(sources.Reduction((array,), bound, tuple(range(array.ndim)), None))
        if found is not None:
            _ = found.futures  # which has them made
    return array
