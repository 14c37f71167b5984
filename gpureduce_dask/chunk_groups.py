"""Chunks whose elements fall into groups, to the states of all groups: on the host or on a GPU, chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import chunk as protocol
from .errors import ArgumentError, DtypeError, EmptyError, message
from .host import groups as host_groups
from .host import histogram as host_histogram
from .operators.grouped import Binned, Bins, Edges, binned
from .operators.monoid import Array
from .place import Place

Chunks = tuple[Any, ...]
Axes = tuple[int, ...]


def reduce_many(chunks: Sequence[Chunks], bound: Binned, axes: Axes, places: Sequence[Place] | None) -> Any:
    """The partial of several chunks of one kept shape, folded left to right: of size 1 along ``axes``, and behind all
    axes one of the groups.

    Where ``axes`` are the last of the reduced axes, the others keep their size until a later stage folds them.
    """
    if bound.bins.edges is not None:
        return _histogram([each[0] for each in chunks], bound, bound.bins.edges)
    split = [_split(each, bound) for each in chunks]
    device = any(protocol.is_device(a) for arrays, _ in split for a in arrays)
    if not device:
        near = [(arrays, None if labels is None else protocol.move(labels, False)) for arrays, labels in split]
        return host_groups.reduce_many(near, bound, axes, places)
    from .device.groups import reduce_many as on_device

    copied = [(tuple(protocol.move(a, True) for a in arrays), labels) for arrays, labels in split]
    return on_device(copied, bound, axes, places)


def _histogram(blocks: list[Any], bound: Binned, edges: Edges) -> Any:
    """The partial of chunks of one kept shape, all of whose axes are folded."""
    blocks = [_plain(each, edges.masks) for each in blocks]
    states = (*(1 for _ in np.shape(blocks[0])), bound.bins.count)
    if not any(map(protocol.is_device, blocks)):
        each = [host_histogram.counts_of(block, edges) for block in blocks]
        return bound.cells.pack((np.sum(each, axis=0),)).reshape(states)
    from .device import histogram as on_device

    blocks = [protocol.move(each, True) for each in blocks]
    found = on_device.counts_of(blocks, edges)
    if found is None:
        codes = [codes_of(each, edges) for each in blocks]
        own = binned(bound.inner.monoid.bind(codes[0].dtype), replace(bound.bins, edges=None, is_own=True))
        return reduce_many([(each,) for each in codes], own, bound.bins.axes, None)
    return found.view(np.uint8).reshape(*states, -1)


def codes_of(block: Any, edges: Edges) -> Any:
    """The bin of each element of a chunk, int32, -1 for none."""
    block = _plain(block, edges.masks)
    if not protocol.is_device(block):
        return host_histogram.codes_of(block, edges)
    from .device import histogram as on_device

    return on_device.codes_of(block, edges)


def _plain(block: Any, masks: bool) -> Any:
    """A chunk without its mask, where it has one and ``masks`` allows it."""
    block = np.ma.getdata(block) if masks and isinstance(block, np.ma.MaskedArray) else block
    protocol.require_plain_chunk("histogram", block)
    return block if protocol.is_device(block) else np.asarray(block)


def _split(chunk: Chunks, bound: Binned) -> tuple[Chunks, Any]:
    """A chunk's arrays, and its labels where they do not lie in the graph."""
    bins = bound.bins
    if bins.known is not None:
        return protocol.admit(chunk, bound), None
    if bins.is_own:
        return protocol.admit(chunk, bound), chunk[0]
    *arrays, labels = chunk
    protocol.require_plain_chunk(bins.name, labels)
    shape = tuple(arrays[0].shape[a] for a in bins.axes)
    if labels.shape != shape:
        remedy = "Call compute_chunk_sizes() on both, and rechunk."
        received = f"a chunk of labels of shape {labels.shape} for one of shape {arrays[0].shape}"
        raise ArgumentError(message(bins.name, received, f"{shape}", remedy))
    if labels.dtype.kind not in "biu":
        raise DtypeError(message(bins.name, f"labels of {labels.dtype}", "integers", "Convert them with astype."))
    return protocol.admit(tuple(arrays), bound), labels


def finalise(partial: Any, bound: Binned) -> Any:
    """The results of all groups. Those without elements get the fill value where the operator has no answer."""
    device = protocol.is_device(partial)
    if bound.mean is not None:
        if not device:
            return host_groups.means(partial, bound)
        from .device.groups import with_counts

        return protocol.finalise(with_counts(partial, bound.known_counts), bound.mean)
    if not bound.has_gaps:
        return protocol.finalise(partial, bound.cells)
    inner, found = bound.inner, partial
    if bound.is_counted:
        count, offset = bound.cells.parts[1], bound.cells.offsets[1]  # type: ignore[attr-defined]
        found = protocol.cut(partial, inner, 0)
        counts = protocol.to_host(protocol.cut(partial, count, offset), count)
        absent = counts[counts.dtype.names[0]] == 0
    else:
        absent = np.broadcast_to(bound.known_counts == 0, protocol.extents(partial))
    if not np.any(absent):
        return protocol.finalise(found, inner)
    if bound.fill is None:
        raise EmptyError(
            message(
                bound.bins.name,
                f"{inner.name} of {_groups(absent, bound.bins)} without elements",
                "at least one element in each group",
                "Pass fill_value=, or number the groups without gaps.",
            )
        )
    out = np.full(absent.shape, bound.fill, inner.result)
    present = protocol.to_host(found, inner)[~absent]
    if present.size:
        out[~absent] = protocol.finalise(present, inner)
    return protocol.move(out, device)


def _groups(absent: Array, bins: Bins) -> str:
    groups = np.flatnonzero(absent.reshape(-1, bins.count).any(axis=0))
    first = ", ".join(map(str, groups[:5])) + (", ..." if len(groups) > 5 else "")
    return f"{len(groups)} of {bins.count} groups ({first})"
