"""Counts and histograms, as groups: elements that are their own labels, or that bins label as they are read."""

from __future__ import annotations

import math
import operator
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from dask.base import is_dask_collection, tokenize

from ..chunk import is_device
from ..chunk_groups import codes_of
from ..dtypes import refuse as refuse_dtype
from ..errors import ArgumentError, ArgumentTypeError, message
from ..host.histogram import CODES
from ..operators.grouped import COUNT, Bins, Edges, binned
from . import graph_arrays as da
from . import meta
from .apply import apply, as_dask
from .arguments import key_prefix
from .groups import grouped, own_groups
from .meta import require_plain
from .reduce import build_tree


def bincount(x: Any, weights: Any, minlength: Any, split_every: Any) -> Any:
    """:func:`gpureduce_dask.bincount`."""
    name = "bincount"
    array = as_dask(name, x)
    require_plain(name, "an array", array)
    if not isinstance(minlength, Integral):
        received = f"minlength {minlength!r}"
        raise ArgumentTypeError(message(name, received, "an integer of 0 or more", "Pass how many there are."))
    least = operator.index(minlength)
    if array.ndim != 1 or least < 0:
        received = f"an array of {array.ndim} dimensions and minlength {least}"
        raise ArgumentError(message(name, received, "one dimension and 0 or more", "Call x.ravel()."))
    if array.dtype.kind not in "biu":
        raise refuse_dtype(name, array.dtype, "integers", "Convert the array with astype, or use gr.histogram.")
    if not isinstance(x, da.Array) and not is_device(x) and array.size:
        least = max(least, int(np.max(x)) + 1)
    if not least:
        if isinstance(x, da.Array) or is_device(x):
            return da.bincount(array, weights, minlength, split_every)
        return da.zeros(0, dtype=np.int64 if weights is None else np.float64)
    if weights is None:
        return own_groups(name, COUNT.bind(array.dtype), array, least, split_every, strict=True)
    given = as_dask(name, weights)
    if given.dtype.kind not in "biuf":
        raise refuse_dtype(name, given.dtype, "real weights", "Sum the real and the imaginary parts.")
    return grouped(name, "sum", given, array, None, least, np.float64, None, split_every, strict=True)


def histogram(
    a: Any, bins: Any, range: Any, normed: Any, weights: Any, density: Any, masks: bool = False
) -> tuple[Any, Any]:
    """:func:`gpureduce_dask.histogram`. With ``masks`` what chunks mask is counted, as dask and NumPy count it, where
    the array's meta is silent about it."""
    name = "histogram"
    x = as_dask(name, a)
    require_plain(name, "an array", x)
    if normed is not False:
        raise ArgumentError(message(name, f"normed={normed!r}", "density=", "NumPy has removed normed."))
    if is_lazy(bins) or is_lazy(range):
        lazily: tuple[Any, Any] = da.histogram(x, bins, range, normed, weights, density)
        return lazily
    edges = _edges(name, bins, range, x.dtype)
    if x.dtype.kind not in "biuf" or not (x.dtype.kind != "f" or x.dtype.itemsize <= 8):
        raise refuse_dtype(name, x.dtype, "bool, integer or float", "Convert the array with astype.")
    bins_of = Edges(edges, tuple(range) if np.ndim(bins) == 0 else None, masks)
    if len(edges) < 2:
        found = da.zeros(0, dtype=np.int64 if weights is None else as_dask(name, weights).dtype)
    elif weights is None:
        found = _counts(name, x if x.ndim else x.reshape(1), bins_of)
    else:
        found = _weighted(name, x, bins_of, weights)
    if not density:
        return found, edges
    return found / np.diff(edges).astype(np.float64) / apply("sum", found), edges


def _counts(name: str, x: Any, edges: Edges) -> Any:
    """Counts of elements that bins label as they are read."""
    bins = Bins(name, (len(edges.edges) - 1,), tuple(range(x.ndim)), edges=edges)
    return build_tree((x,), binned(COUNT.bind(x.dtype), bins), None, False, None, name).array


def _weighted(name: str, x: Any, edges: Edges, weights: Any) -> Any:
    """Sums of weights of elements that their bins label."""
    codes = x.map_blocks(
        partial(codes_of, edges=edges),
        dtype=CODES,
        meta=meta.like(x._meta, x.ndim, CODES),
        name=f"{key_prefix(name)}-codes-{tokenize(x.name, edges)}",
    )
    heavy = as_dask(name, weights)
    if heavy.shape != x.shape and not any(map(math.isnan, (*heavy.shape, *x.shape))):
        expected = f"the array's shape {x.shape}"
        raise ArgumentError(message(name, f"weights of shape {heavy.shape}", expected, "Reshape the weights."))
    dtype = np.dtype(np.int64) if heavy.dtype.kind == "b" else heavy.dtype
    return grouped(name, "sum", heavy, codes, None, len(edges.edges) - 1, dtype, None, None)


def is_lazy(bins: Any) -> bool:
    """True for bins, or a range, of which some are known when they are computed."""
    return any(map(is_dask_collection, bins if isinstance(bins, list | tuple) else (bins,)))


def _edges(name: str, bins: Any, range: Any, dtype: Any) -> Any:
    """The edges of the bins, in NumPy's dtype."""
    if bins is None or isinstance(bins, str) or (np.ndim(bins) == 0 and range is None):
        received = f"bins={bins!r} and range={range!r}"
        raise ArgumentError(
            message(name, received, "edges, or a number of bins and a range", "Only data could tell: pass both.")
        )
    try:
        return np.histogram_bin_edges(np.empty(0, dtype), bins, range)
    except (ValueError, TypeError) as error:
        remedy = "Pass increasing edges, or a number and (low, high)."
        raise ArgumentError(message(name, str(error), "bins that NumPy takes", remedy)) from error
