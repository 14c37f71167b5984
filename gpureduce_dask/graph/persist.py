"""Arrays kept in memory, ready for many reductions."""

from __future__ import annotations

from typing import Any

from ..distributed import workers
from ..operators.table import OPERATORS
from ..parameters import Array, ArrayLike
from ..public import is_labelled, public
from . import graph_arrays as da
from . import sources
from .arguments import as_dask
from .array_expressions import as_expression, as_graph, package_of


@public(keeps=True)
def persist(x: ArrayLike, **kwargs: Any) -> Array:
    """Compute an array into memory, and wait for it: ``x.persist()`` made ready for many reductions.

    Parameters
    ----------
    x : array_like, xarray.DataArray or xarray.Dataset
        A dask array, or what makes one.
    **kwargs
        Arguments of ``x.persist``.

    Returns
    -------
    dask.array.Array
        The array with all its chunks in memory. Of a DataArray or a Dataset one with all labels and each variable in
        memory.

    Raises
    ------
    ArgumentTypeError
        `x` is nothing that an array can be made of.

    See Also
    --------
    plan : What a reduction of the array needs.

    Notes
    -----
    On a cluster, a handle to the chunks of each worker is made as well: a small object through which later reductions
    depend on one task for each worker, in place of each chunk. Without it the first reduction of a persisted array
    makes the handles.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = gr.persist(da.arange(6, chunks=2) * 2)
    >>> int(gr.max(x).compute()), int(gr.sum(x).compute())
    (10, 30)
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
            _ = found.futures  # asking for the handles' futures makes the handles
