"""Metas: the empty arrays that tell dask what the chunks of an array are, here without touching a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chunk import is_device
from ..operators.monoid import DType


class DeviceMeta(np.ndarray[Any, DType]):
    """A NumPy meta that stands for CuPy chunks, for a client or scheduler that has no GPU."""

    def __getitem__(self, key: Any) -> Any:
        # dask slices every meta, and a 0-d array would come back as a scalar without the flag.
        return np.asarray(super().__getitem__(key)).view(DeviceMeta)


def device_meta(ndim: int, dtype: Any) -> DeviceMeta:
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

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> gr.device_meta(2, "float32").shape
    (0, 0)
    """
    return np.empty((0,) * ndim, dtype).view(DeviceMeta)


def promises_device(meta: Any) -> bool:
    """True where the chunks behind a meta are CuPy arrays."""
    return is_device(meta) or isinstance(meta, DeviceMeta)


def is_ours(meta: Any) -> bool:
    """True for the chunk types the kernels and the host side read; any other belongs to stock dask."""
    return promises_device(meta) or type(meta) in (np.ndarray, np.memmap)


def like(meta: Any, ndim: int, dtype: DType) -> Any:
    """A meta of the same kind of chunk, with other dimensions and dtype."""
    if not promises_device(meta):
        return np.empty((0,) * ndim, dtype)
    if isinstance(meta, DeviceMeta):
        return device_meta(ndim, dtype)
    if ndim:
        # The memory of the old meta serves: an array of no elements reads none of it.
        return type(meta)((0,) * ndim, dtype, memptr=meta.data)
    return _scalar_meta(dtype)


def _scalar_meta(dtype: DType) -> Any:
    """A 0-d CuPy meta; it has an element, so it needs memory, and without a GPU a flagged NumPy array stands in."""
    import cupy

    try:
        return cupy.empty((), dtype)
    except cupy.cuda.runtime.CUDARuntimeError:
        return device_meta(0, dtype)


def reduced(meta: Any, axis: Any, keepdims: bool, dtype: DType) -> Any:
    """What a reduction answers when dask probes it with a meta (``computing_meta=True``)."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return like(meta, meta.ndim if keepdims else meta.ndim - len(axes), dtype)
