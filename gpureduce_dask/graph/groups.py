"""Reductions by group: states for every group in each chunk, or for a chunk's own where groups lie in few chunks.

Counts and histograms are groups too: of elements that are their own labels, or that bins label as they are read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from dask.base import is_dask_collection, tokenize

from .. import labels as known_labels
from ..chunk import is_device, require_plain_chunk
from ..chunk_groups import codes_of
from ..dtypes import refuse as refuse_dtype
from ..errors import ArgumentError, ArgumentTypeError, message
from ..host.histogram import CODES, edges_of
from ..operators import table as operators
from ..operators.grouped import COUNT, Bins, Edges, Labels, binned
from ..operators.monoid import Monoid
from . import graph_arrays as da
from . import meta
from .arguments import Axes, align, as_dask, bind, key_prefix, normalise_axes, operands
from .meta import belongs_to_stock, foreign, require_plain
from .reduce import apply, build_tree


def grouped(
    name: str,
    op: str | Monoid,
    x: Any,
    labels: Any,
    axis: Any,
    num_groups: Any,
    dtype: Any,
    fill_value: Any,
    split_every: Any,
    strict: bool = False,
    **options: Any,
) -> Any:
    """Reduce each group of elements: kept axes, then one of groups."""
    monoid = operators.get(op)
    arrays = operands(name, monoid, x)
    if belongs_to_stock(monoid.name, arrays, dtype):
        raise foreign(name, arrays)
    bound = bind(monoid, tuple(a.dtype for a in arrays), dtype, options, name)
    arrays = align(name, arrays)
    axes = normalise_axes(name, axis, arrays[0].ndim)
    given, sizes = _labels(name, labels, arrays[0], axes, num_groups, strict)
    known = isinstance(given, Labels)
    bins = Bins(name, sizes, axes, given if known else None, strict=strict)
    known_labels.refuse_fill(name, fill_value, bound)
    known_labels.refuse_gaps(bins, bound, fill_value)
    whole = binned(bound, bins, fill_value)
    return build_tree(arrays if known else (*arrays, given), whole, axes, False, split_every, name).array


def _labels(name: str, labels: Any, x: Any, axes: Axes, num_groups: Any, strict: bool) -> tuple[Any, tuple[int, ...]]:
    """Labels along the reduced axes (those that travel with the tasks, or a dask array), and numbers of groups."""
    shape = tuple(x.shape[a] for a in axes)
    if isinstance(labels, tuple):
        return _lines(name, labels, x, axes, num_groups, strict)
    require_plain(name, "labels", labels)
    given: Any = labels.get() if is_device(labels) else labels
    is_known = not isinstance(given, da.Array)
    given = np.asarray(given) if is_known else given
    known_labels.require_integers(name, given)
    if is_known and (along := known_labels.one_axis(given, shape)) is not None:
        lines = tuple(given.reshape(-1) if i == along else np.zeros(int(n), np.int8) for i, n in enumerate(shape))
        counts = tuple(num_groups if i == along else 1 for i in range(len(shape)))
        return _lines(name, lines, x, axes, counts, strict)
    count = known_labels.count_groups(name, given if is_known else None, num_groups, strict)
    if is_known:
        if math.isnan(sum(shape)):
            raise _unknown(name)
        whole = _broadcast(name, np.broadcast_to, given, shape)
        if whole.size * np.min_scalar_type(count).itemsize <= known_labels.CARRIED_BYTES:
            return Labels([known_labels.narrow(whole, count)]), (count,)
        small = known_labels.narrow(given, count)
        given = da.from_array(small, chunks=small.shape if small.shape != shape else tuple(x.chunks[a] for a in axes))
    return _cut(name, given, x, axes, shape), (count,)


def _lines(
    name: str, labels: tuple[Any, ...], x: Any, axes: Axes, num_groups: Any, strict: bool
) -> tuple[Any, tuple[int, ...]]:
    """One array of labels for each reduced axis."""
    shape = tuple(x.shape[a] for a in axes)
    counts = num_groups if isinstance(num_groups, Sequence) else (num_groups,) * len(labels)
    if len(labels) != len(axes) or len(counts) != len(axes):
        expected = f"{len(axes)} arrays of labels and numbers of groups, one a reduced axis"
        raise ArgumentError(message(name, f"{len(labels)} and {len(counts)}", expected, "Pass axis=, or one array."))
    for each in labels:
        require_plain(name, "labels", each)
    lines = [each if isinstance(each, da.Array) else np.asarray(each) for each in labels]
    for line, size in zip(lines, shape, strict=True):
        known_labels.require_integers(name, line)
        if line.shape != (size,) and not (line.ndim == 1 and math.isnan(line.shape[0] + size)):
            expected = f"one of shape ({size},)"
            raise ArgumentError(message(name, f"labels of shape {line.shape}", expected, "Pass a label an element."))
    is_known = not any(isinstance(line, da.Array) for line in lines)
    if is_known and math.isnan(sum(shape)):
        raise _unknown(name)
    now = [None if isinstance(line, da.Array) else line for line in lines]
    sizes = tuple(known_labels.count_groups(name, line, n, strict) for line, n in zip(now, counts, strict=True))
    if is_known:
        return Labels([known_labels.narrow(line, n) for line, n in zip(lines, sizes, strict=True)]), sizes
    inputs = []
    for i, (line, axis) in enumerate(zip(lines, axes, strict=True)):
        inputs += [_cut(name, da.asanyarray(line), x, (axis,), (shape[i],)), (i,)]
    options = {"sizes": sizes, "operation": name, "strict": strict}
    along, dtype = tuple(range(len(axes))), np.dtype(np.int64)
    return meta.blockwise(_boxes, along, *inputs, template=None, dtype=dtype, **options), (math.prod(sizes),)


def _boxes(*lines: Any, sizes: tuple[int, ...], operation: str, strict: bool) -> Any:
    """A chunk's boxes, from the labels along each of its axes."""
    for line in lines:
        require_plain_chunk(operation, line)
    host = [line.get() if is_device(line) else np.asarray(line) for line in lines]
    for line, count in zip(host, sizes, strict=True):
        known_labels.check_range(Bins(operation, (count,), (), strict=strict), line)
    shape = tuple(map(len, host))
    return known_labels.boxes(host, sizes, slice(0, math.prod(shape))).reshape(shape)


def _broadcast(name: str, broadcast: Any, labels: Any, shape: tuple[float, ...]) -> Any:
    try:
        return broadcast(labels, shape)
    except ValueError:
        expected = f"labels that broadcast to the reduced axes, {shape}"
        remedy = "Pass axis=, or labels along the reduced axes alone."
        raise ArgumentError(message(name, f"labels of shape {labels.shape}", expected, remedy)) from None


def _cut(name: str, labels: Any, x: Any, axes: Axes, shape: tuple[float, ...]) -> Any:
    """A dask array of labels in the array's chunks along the reduced axes."""
    chunks = tuple(x.chunks[a] for a in axes)
    if math.isnan(sum((*shape, *labels.shape))):
        if labels.ndim != len(axes) or labels.numblocks != tuple(map(len, chunks)):
            raise _unknown(name)
        return labels
    if labels.shape != shape:
        labels = _broadcast(name, da.broadcast_to, labels, shape)
    return labels if labels.chunks == chunks else labels.rechunk(chunks)


def _unknown(name: str) -> ArgumentError:
    remedy = "Call compute_chunk_sizes() first."
    return ArgumentError(message(name, "unknown chunk sizes", "labels in the array's own chunks", remedy))


# ---- counts and histograms


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
    is_known = not isinstance(x, da.Array) and not is_device(x)
    if is_known and array.size:
        least = max(least, int(np.max(x)) + 1)
    if not least and is_known:
        return da.zeros(0, dtype=np.int64 if weights is None else np.float64)
    if not least:
        return da.bincount(array, weights, minlength, split_every)
    if weights is None:
        return _counts(name, array, least, split_every, is_own=True, strict=True)
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
    edges = edges_of(name, bins, range, x.dtype)
    if x.dtype.kind not in "biuf" or not (x.dtype.kind != "f" or x.dtype.itemsize <= 8):
        raise refuse_dtype(name, x.dtype, "bool, integer or float", "Convert the array with astype.")
    bins_of = Edges(edges, tuple(range) if np.ndim(bins) == 0 else None, masks)
    if len(edges) < 2:
        found = da.zeros(0, dtype=np.int64 if weights is None else as_dask(name, weights).dtype)
    elif weights is None:
        found = _counts(name, x if x.ndim else x.reshape(1), len(edges) - 1, edges=bins_of)
    else:
        found = _weighted(name, x, bins_of, weights)
    if not density:
        return found, edges
    return found / np.diff(edges).astype(np.float64) / apply("sum", found), edges


def _counts(name: str, x: Any, count: int, split_every: Any = None, **options: Any) -> Any:
    """Counts of elements that are labels themselves, or that bins label as they are read."""
    bins = Bins(name, (count,), tuple(range(x.ndim)), **options)
    return build_tree((x,), binned(COUNT.bind(x.dtype), bins), None, False, split_every, name).array


def _weighted(name: str, x: Any, edges: Edges, weights: Any) -> Any:
    """Sums of weights of elements that their bins label."""
    key, like = f"{key_prefix(name)}-codes-{tokenize(x.name, edges)}", meta.like(x._meta, x.ndim, CODES)
    codes = x.map_blocks(partial(codes_of, edges=edges), dtype=CODES, meta=like, name=key)
    heavy = as_dask(name, weights)
    if heavy.shape != x.shape and not any(map(math.isnan, (*heavy.shape, *x.shape))):
        expected = f"the array's shape {x.shape}"
        raise ArgumentError(message(name, f"weights of shape {heavy.shape}", expected, "Reshape the weights."))
    dtype = np.dtype(np.int64) if heavy.dtype.kind == "b" else heavy.dtype
    return grouped(name, "sum", heavy, codes, None, len(edges.edges) - 1, dtype, None, None)


def is_lazy(bins: Any) -> bool:
    """True for bins, or a range, of which some are known when they are computed."""
    return any(map(is_dask_collection, bins if isinstance(bins, list | tuple) else (bins,)))
