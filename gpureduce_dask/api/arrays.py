"""Arrays made ready: kept in memory for many reductions, or of CuPy chunks where there is no GPU."""

from __future__ import annotations

from typing import Any

from ..graph import graph_arrays as da
from ..graph import meta, sources
from ..graph.arguments import as_dask
from ..graph.array_expressions import as_expression, as_graph, package_of
from ..parameters import Array, ArrayLike
from ..public import is_labelled, public


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
            sources.make_handles(array)
    return kept


def _data_of(x: Any) -> list[Any]:
    """A dask array, or those of xarray's: of a DataArray, and of each variable of a Dataset."""
    if not is_labelled(x):
        return [x]
    return [each.data for each in x.data_vars.values()] if hasattr(x, "data_vars") else [x.data]


def device_meta(ndim: int, dtype: Any) -> meta.DeviceMeta:
    """Return the meta of an array of CuPy chunks, without CuPy or a GPU.

    A client or a scheduler without a GPU can build the graphs of arrays whose chunks will be CuPy arrays on workers:
    ``x.map_blocks(cupy_function, meta=gr.device_meta(2, "float32"))``. Their reductions give CuPy chunks.

    Parameters
    ----------
    ndim : int
        The number of dimensions of the array.
    dtype : dtype
        Its dtype.

    Returns
    -------
    numpy.ndarray
        An empty array of that many dimensions, of a class of its own that stands for CuPy.

    Raises
    ------
    TypeError
        `dtype` is none that NumPy knows, or `ndim` is not an integer.

    See Also
    --------
    reduction : Reduce an array by any operator; the chunks of the result are of the array's kind.

    Notes
    -----
    dask asks the meta of an array what its chunks are. This one is a NumPy array of a subclass: slices of it and
    NumPy's functions of elements keep the subclass, and the functions of this package give their results a meta of the
    same kind. Chunks themselves are not looked at before they are reduced.

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> gr.device_meta(2, "float32").shape
    (0, 0)
    """
    return meta.device_meta(ndim, dtype)
