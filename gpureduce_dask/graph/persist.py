"""Arrays kept in memory, ready for many reductions."""

from __future__ import annotations

from typing import Any

from ..distributed import workers
from ..operators.table import OPERATORS
from ..public import is_labelled, public
from . import graph_arrays as da
from . import sources
from .apply import as_dask
from .array_expressions import as_expression, as_graph, package_of


@public(keeps=True)
def persist(x: Any, **kwargs: Any) -> Any:
    """``x.persist()``, done when this returns, and on a cluster with handles to the chunks of each worker.

    A handle is what the first reduction of a persisted array would make: later ones depend on one task a worker, not
    on each chunk. ``kwargs`` go to ``x.persist``. Waits until all chunks are in memory. Of a DataArray or a Dataset it
    gives one, with all labels and each variable in memory.
    """
    is_lazy = is_labelled(x) or package_of(x) is not None
    kept = (x if is_lazy else as_expression(as_dask("persist", x))).persist(**kwargs)
    for array in map(as_graph, _data_of(kept)):
        if isinstance(array, da.Array):
            _make_handles(array)
    return kept


def _data_of(x: Any) -> list[Any]:
    """A dask array, or those of xarray's: of a DataArray, and of each variable of a Dataset."""
    if not is_labelled(x):
        return [x]
    return [each.data for each in x.data_vars.values()] if hasattr(x, "data_vars") else [x.data]


def _make_handles(array: Any) -> None:
    """Wait for the chunks of a persisted array, and for handles to them."""
    futures = [v for v in getattr(array.dask.layers.get(array.name), "mapping", {}).values() if workers.is_future(v)]
    if futures:
        from distributed import wait

        wait(futures)
        bound = OPERATORS["count_nonzero"].bind(bool)
        found = sources.select_source(sources.Reduction((array,), bound, tuple(range(array.ndim)), None))
        if found is not None:
            _ = found.futures  # which has them made
