"""Histograms of NumPy chunks, with the bins that numpy.histogram finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..operators import native
from ..operators.grouped import Edges
from ..operators.monoid import Array

CODES = np.dtype(np.int32)  # of bins
LINE = 1 << 16  # elements that are sorted together
SORTED = 1 << 11  # bins up to which that costs less than a bin for each element: edges are looked up in every line
EVEN = 1 << 16  # bins of one width up to which the counts of a chunk are small beside it
PART = 1 << 15  # elements whose temporaries stay in cache


def counts_of(block: Array, edges: Edges) -> Array:
    """How many elements of a chunk lie in each bin.

    Single bytes are counted by value. Where bins are of one width a loop in C counts, or numpy.histogram; else as it
    counts: blocks are sorted, and the edges looked up in them. Where there are too many bins for that, each element is
    given its own.
    """
    count = len(edges.edges) - 1
    if block.dtype.itemsize == 1:
        return _counts_of_bytes(block, edges)
    if edges.span is not None and count <= EVEN:
        found = None
        if block.dtype == edges.edges.dtype and block.flags.aligned:
            found = native.histogram(_flat_parts(block, LINE), edges.edges)
        return np.histogram(block.ravel(order="K"), count, edges.span)[0] if found is None else found
    if count <= SORTED:
        return _counts_of_lines(block, edges.edges)
    total = np.zeros(count, np.int64)
    for part in _flat_parts(block, max(LINE, 4 * count)):
        codes = codes_of(part, edges)
        total += np.bincount(codes[codes >= 0], minlength=count)
    return total


def _counts_of_lines(block: Array, edges: Array) -> Array:
    behind = np.zeros(len(edges), np.int64)  # the elements before each edge
    for part in _flat_parts(block, LINE):
        line = np.sort(part)
        behind[:-1] += line.searchsorted(edges[:-1], "left")
        behind[-1] += line.searchsorted(edges[-1], "right")
    return np.diff(behind)


def _counts_of_bytes(block: Array, edges: Edges) -> Array:
    by_byte = np.zeros(256, np.int64)
    for part in _flat_parts(block, LINE):
        by_byte += np.bincount(part.view(np.uint8), minlength=256)
    values = np.arange(256, dtype=np.uint8)
    values = values != 0 if block.dtype.kind == "b" else values.view(block.dtype)
    codes = bins_of(values, edges.edges, False, np)
    found = np.zeros(len(edges.edges) - 1, np.int64)
    np.add.at(found, codes[codes >= 0], by_byte[codes >= 0])
    return found


def _flat_parts(block: Array, size: int) -> Any:
    """The elements of a chunk in contiguous lines of so many, in the order of memory."""
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    contiguous: Any = [["readonly", "contig"]]
    return np.nditer(block, flags, contiguous, order="K", buffersize=size)


def codes_of(block: Array, edges: Edges) -> Array:
    """The bin of each element, -1 for none."""
    flat, out = block.reshape(-1), np.empty(block.size, CODES)
    for start in range(0, flat.size, PART):
        part = slice(start, start + PART)
        out[part] = bins_of(flat[part], edges.edges, edges.span is not None, np)
    return out.reshape(block.shape)


def bins_of(x: Any, edges: Any, is_even: bool, xp: Any) -> Any:
    """The bin of each element by these edges, -1 for none; each is closed at its left, and the last at its right too.

    ``xp`` is NumPy or CuPy, whose arrays these are; ``is_even`` says that bins are of one width.
    """
    last = len(edges) - 2
    inside = (x >= edges[0]) & (x <= edges[-1])
    if is_even and edges.dtype.kind == "f":
        # NumPy's own way (numpy.histogram): a guess by division, put right by the edges themselves.
        clipped = xp.where(inside, x, edges[0]).astype(edges.dtype)
        scaled = (clipped - edges[0]) / (edges[-1] - edges[0]) * (last + 1)
        found = xp.minimum(scaled.astype(np.intp), last)
        found -= clipped < edges[found]
        found += (clipped >= edges[found + 1]) & (found != last)
    else:
        found = xp.minimum(xp.searchsorted(edges, x, side="right") - 1, last)
    return xp.where(inside, found, -1).astype(CODES)


def edges_of(name: str, bins: Any, range: Any, dtype: Any) -> Any:
    """The edges of the bins, in NumPy's dtype."""
    if bins is None or isinstance(bins, str) or (np.ndim(bins) == 0 and range is None):
        received, remedy = f"bins={bins!r} and range={range!r}", "Only data could tell: pass both."
        raise ArgumentError(message(name, received, "edges, or a number of bins and a range", remedy))
    try:
        return np.histogram_bin_edges(np.empty(0, dtype), bins, range)
    except (ValueError, TypeError) as error:
        remedy = "Pass increasing edges, or a number and (low, high)."
        raise ArgumentError(message(name, str(error), "bins that NumPy takes", remedy)) from error
