"""Counts and histograms, as groups: elements that are their own labels, or that bins label as they are read."""

from __future__ import annotations

import math
import operator
from functools import cache, partial
from numbers import Integral
from typing import Any

import numpy as np
from dask.base import is_dask_collection, tokenize

from ..chunk import is_device, require_plain_chunk
from ..dtypes import refuse as refuse_dtype
from ..errors import ArgumentError, ArgumentTypeError, message
from ..operators import native
from ..operators.grouped import COUNT
from . import graph_arrays as da
from . import meta
from .apply import apply, as_dask
from .fallback import require_plain
from .groups import grouped, own_groups

CODES = np.dtype(np.int32)  # of bins
LINE = 1 << 16  # elements that are sorted together
SORTED = 1 << 11  # bins up to which that costs less than a bin for each element: edges are looked up in every line
EVEN = 1 << 16  # bins of one width up to which the counts of a chunk are small beside it


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
    count, is_even = len(edges) - 1, np.ndim(bins) == 0
    if weights is None and count <= (EVEN if is_even else SORTED) and not meta.promises_device(x._meta):
        found = _counts(name, x if x.ndim else x.reshape(1), edges, tuple(range) if is_even else None, masks)
    else:
        found = _by_codes(name, x, edges, is_even, weights)
    if not density:
        return found, edges
    return found / np.diff(edges).astype(np.float64) / apply("sum", found), edges


def _counts(name: str, x: Any, edges: Any, span: Any, masks: bool) -> Any:
    """Counts of NumPy chunks: of each chunk first, then the sums of those."""
    inds = tuple(range(x.ndim))
    each = da.blockwise(
        partial(counts_of, edges=edges, span=span, masks=masks),
        (*inds, x.ndim),
        x,
        inds,
        name=f"gr-{name}-counts-{tokenize(x.name, edges, span, masks)}",
        dtype=np.int64,
        meta=np.empty((0,) * (x.ndim + 1), np.int64),
        adjust_chunks=dict.fromkeys(inds, 1),
        new_axes={x.ndim: len(edges) - 1},
        align_arrays=False,
    )
    return apply("sum", each, axis=inds)


def _by_codes(name: str, x: Any, edges: Any, even: bool, weights: Any) -> Any:
    """Counts, or sums of weights, of elements that their bins label."""
    codes = x.map_blocks(
        partial(codes_of, edges=edges, even=even),
        dtype=CODES,
        meta=meta.like(x._meta, x.ndim, CODES),
        name=f"gr-{name}-codes-{tokenize(x.name, edges, even)}",
    )
    count = len(edges) - 1
    if weights is None:
        return own_groups(name, COUNT.bind(CODES), codes, count, None, strict=False)
    heavy = as_dask(name, weights)
    if heavy.shape != x.shape and not any(map(math.isnan, (*heavy.shape, *x.shape))):
        expected = f"the array's shape {x.shape}"
        raise ArgumentError(message(name, f"weights of shape {heavy.shape}", expected, "Reshape the weights."))
    dtype = np.dtype(np.int64) if heavy.dtype.kind == "b" else heavy.dtype
    return grouped(name, "sum", heavy, codes, None, count, dtype, None, None)


def is_lazy(bins: Any) -> bool:
    """True for bins, or a range, of which some are known when they are computed."""
    return any(map(is_dask_collection, bins if isinstance(bins, list | tuple) else (bins,)))


def _edges(name: str, bins: Any, range: Any, dtype: Any) -> Any:
    """The edges of the bins, in NumPy's dtype."""
    if bins is None or (np.ndim(bins) == 0 and range is None):
        received = f"bins={bins!r} and range={range!r}"
        raise ArgumentError(
            message(name, received, "edges, or a number of bins and a range", "Only data could tell: pass both.")
        )
    try:
        return np.histogram_bin_edges(np.empty(0, dtype), bins, range)
    except (ValueError, TypeError) as error:
        remedy = "Pass increasing edges, or a number and (low, high)."
        raise ArgumentError(message(name, str(error), "bins that NumPy takes", remedy)) from error


def counts_of(block: Any, edges: Any, span: Any = None, masks: bool = False) -> Any:
    """How many elements of a NumPy chunk lie in each bin, behind as many axes of size 1 as it has.

    Single bytes are counted by value. Where bins are of one width, from ``span[0]`` to ``span[1]``, a loop in C counts,
    or numpy.histogram; else as it counts: blocks are sorted, and the edges looked up in them. With ``masks`` masks are
    ignored.
    """
    block = np.ma.getdata(block) if masks and isinstance(block, np.ma.MaskedArray) else block
    require_plain_chunk("histogram", block)
    block = np.asarray(block) if isinstance(block, list) else block
    count = len(edges) - 1
    if block.dtype.itemsize == 1:
        found = _counts_of_bytes(block, edges)
    elif span is not None:
        found = None
        if block.dtype == edges.dtype and block.flags.aligned:
            found = native.histogram(_flat_parts(block), edges)
        if found is None:
            found, _ = np.histogram(block.ravel(order="K"), count, span)
    else:
        behind = np.zeros(count + 1, np.int64)  # the elements before each edge
        for part in _flat_parts(block):
            line = np.sort(part)
            behind[:-1] += line.searchsorted(edges[:-1], "left")
            behind[-1] += line.searchsorted(edges[-1], "right")
        found = np.diff(behind)
    return found.reshape((1,) * block.ndim + (count,))


def _counts_of_bytes(block: Any, edges: Any) -> Any:
    by_byte = np.zeros(256, np.int64)
    for part in _flat_parts(block):
        by_byte += np.bincount(part.view(np.uint8), minlength=256)
    values = np.arange(256, dtype=np.uint8)
    values = values != 0 if block.dtype.kind == "b" else values.view(block.dtype)
    codes = _codes(values, edges, False, np, edges)
    found = np.zeros(len(edges) - 1, np.int64)
    np.add.at(found, codes[codes >= 0], by_byte[codes >= 0])
    return found


def _flat_parts(block: Any) -> Any:
    """The elements of a chunk in contiguous lines of so many, in the order of memory."""
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    contiguous: Any = [["readonly", "contig"]]
    return np.nditer(block, flags, contiguous, order="K", buffersize=LINE)


def codes_of(block: Any, edges: Any, even: bool) -> Any:
    """The bin of each element, -1 for none; ``even`` where all are of one width."""
    require_plain_chunk("histogram", block)
    block = np.asarray(block) if isinstance(block, list) else block
    if is_device(block):
        import cupy

        if even and edges.dtype in ("f4", "f8"):
            return _even_codes()(block, cupy.asarray(edges), len(edges) - 2)
        return _codes(block, edges, even, cupy, cupy.asarray(edges))
    flat, out = block.reshape(-1), np.empty(block.size, CODES)
    for start in _range(0, flat.size, 1 << 15):  # temporaries stay in cache
        part = slice(start, start + (1 << 15))
        out[part] = _codes(flat[part], edges, even, np, edges)
    return out.reshape(block.shape)


_range = range


@cache
def _even_codes() -> Any:
    """As :func:`_codes` of bins of one width, in one kernel: on small chunks each launch of many costs more than its
    work."""
    import cupy

    return cupy.ElementwiseKernel(
        "T x, raw E edges, int64 last",
        f"{CODES.name} code",
        """
        const E low = edges[0], high = edges[last + 1], value = (E)x;
        code = -1;
        if (value == value && order(value) >= order(low) && order(value) <= order(high)) {
            const E guess = (value - low) / (high - low) * (E)(last + 1);
            long long at = (long long)guess;
            at = at < last ? at : last;
            if (order(value) < order(edges[at])) at--;
            if (at != last && order(value) >= order(edges[at + 1])) at++;
            code = at;
        }
        """,
        "gpureduce_bins_of_one_width",
        # CuPy compiles so that subnormal float32 equal zero: they are compared by their bits.
        preamble="""
        __device__ int order(float x) { return (__float_as_int(x) < 0 ? -1 : 1) * (__float_as_int(x) & 0x7fffffff); }
        __device__ double order(double x) { return x; }
        """,
    )


def _codes(x: Any, edges: Any, even: bool, xp: Any, own: Any) -> Any:
    """Bins by the edges, each closed at its left and the last one at its right too."""
    last = len(edges) - 2
    inside = (x >= own[0]) & (x <= own[-1])
    if even and edges.dtype.kind == "f":
        # NumPy's own way (numpy.histogram): a guess by division, put right by the edges themselves.
        kept = xp.where(inside, x, own[0]).astype(edges.dtype)
        scaled = (kept - own[0]) / (own[-1] - own[0]) * (last + 1)
        found = xp.minimum(scaled.astype(np.intp), last)
        found -= kept < own[found]
        found += (kept >= own[found + 1]) & (found != last)
    else:
        found = xp.minimum(xp.searchsorted(own, x, side="right") - 1, last)
    return xp.where(inside, found, -1).astype(CODES)
