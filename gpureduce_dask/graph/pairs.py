"""Reductions of two arrays: how the second one is brought to the shape of the first."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ..errors import ArgumentError, message
from . import graph_arrays as da
from . import meta, reduce_tasks
from .apply import agree, apply, as_dask
from .axes import ordered_axes
from .fallback import belongs_to_stock


def dot(a: Any, b: Any) -> Any:
    """``sum(conj(a) * b)`` over all elements; arrays of two shapes and one size are flattened, as NumPy does."""
    x, y = as_dask("vdot", a), as_dask("vdot", b)
    if x.ndim != y.ndim or (x.shape != y.shape and x.size == y.size):
        x, y = x.ravel(), y.ravel()
    return apply("vdot", x, y)


def weighted_mean(a: Any, axis: Any, weights: Any, returned: bool, keepdims: bool) -> Any:
    """The mean by weights of ``a``'s shape or along ``axis``, and with ``returned`` the sum of the weights."""
    x = as_dask("average", a)
    if weights is None:
        mean = apply("mean", x, axis=axis, keepdims=keepdims, name="average")
        return (mean, _counts(x, mean, axis)) if returned else mean
    w = _grown(as_dask("average", weights), x)
    if belongs_to_stock("average", (x, w), None):
        return da.average(x, axis=axis, weights=w, returned=returned, keepdims=keepdims)
    axes = ordered_axes("average", axis, x.ndim)
    whole = agree(w.shape, x.shape)
    spread = w if whole else _spread(x, w, axes)
    mean = apply("average", x, spread, axis=axis, keepdims=keepdims)
    if not returned:
        return mean
    if whole or any(map(math.isnan, mean.shape)):
        return mean, apply("sum", spread, axis=axes, dtype=mean.dtype, keepdims=keepdims)
    total = apply("sum", w, dtype=mean.dtype)
    return mean, da.broadcast_to(total, mean.shape, chunks=mean.chunks)


def _grown(weights: Any, x: Any) -> Any:
    """Weights of as many axes as ``x``, where these are of size 1 broadcast to its shape."""
    if weights.ndim != x.ndim or not all(m in (1, n) for m, n in zip(weights.shape, x.shape, strict=True)):
        return weights
    pairs = zip(weights.shape, weights.chunks, x.chunks, strict=True)
    return da.broadcast_to(weights, x.shape, chunks=tuple(theirs if m == 1 else own for m, own, theirs in pairs))


def _spread(x: Any, weights: Any, axes: tuple[int, ...]) -> Any:
    """Weights along ``axes`` as an array of ``x``'s shape and chunks whose chunks are views."""
    sizes = tuple(x.shape[a] for a in axes)
    unknown = any(map(math.isnan, (*sizes, *weights.shape)))
    if not agree(weights.shape, sizes):
        received = f"weights of shape {weights.shape} for an array of shape {x.shape} and axes {axes}"
        expected = "the array's shape, or its sizes along the axes"
        raise ArgumentError(message("average", received, expected, "Reshape or broadcast the weights."))
    if unknown and weights.numblocks != tuple(x.numblocks[a] for a in axes):
        remedy = "Call compute_chunk_sizes() first."
        raise ArgumentError(message("average", "unknown chunk sizes", "the same chunks in both", remedy))
    inds = tuple(range(x.ndim))
    return da.blockwise(
        partial(reduce_tasks.broadcast_weights, axes=axes),
        inds,
        x,
        inds,
        weights if unknown else weights.rechunk(tuple(x.chunks[a] for a in axes)),
        axes,
        token="gr-average-weights",
        dtype=weights.dtype,
        meta=meta.like(x._meta, x.ndim, weights.dtype),
        align_arrays=False,
    )


def _counts(x: Any, mean: Any, axis: Any) -> Any:
    """How many elements each mean is of, in the mean's dtype and shape."""
    count = math.prod(x.shape[a] for a in ordered_axes("average", axis, x.ndim))
    if math.isnan(count):
        remedy = "Call x.compute_chunk_sizes() first."
        raise ArgumentError(message("average", "returned=True and unknown sizes", "known sizes", remedy))
    return da.full_like(mean, count)
