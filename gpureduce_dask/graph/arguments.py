"""What a call and dask's configuration say about a reduction: axes, fan-in, sizes of groups, and the positions that an
array's shape must tell. Checked when the graph is built.

A key or a value of the configuration that means nothing here is an error: ignored, a misspelt key would be a program
that runs as if nothing had been set.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import dask
import numpy as np

from ..chunk import to_host
from ..errors import ArgumentError, AxisError, EmptyError, message
from ..host import masked
from ..operators.grouped import Binned
from ..operators.monoid import Bound
from ..place import Place

Axes = tuple[int, ...]
Chunks = tuple[tuple[float, ...], ...]  # nan where a size is unknown

FAN_IN = 32  # partials one combine takes: time follows tasks, not bytes,
FAN_IN_BYTES = 32 * 2**20  # until they are large: a combine holds its inputs at once, and dask keeps them till then.
FAN_IN_LEAST = 4
FAN_IN_UNKNOWN = 8  # where chunk sizes are unknown


def key_prefix(name: str) -> str:
    """What the keys of a call's tasks begin with: words of letters, for dask's dashboard and its progress bars name a
    task by the first of these alone. They take a word of eight letters for a token where it begins as one may."""
    words = re.findall(r"[^\W\d_]+", name)
    return "-".join(["gr", *(w.capitalize() if len(w) == 8 and w[0] in "abcdef" else w for w in words)])


def normalise_axes(name: str, axis: Any, ndim: int) -> Axes:
    """``axis`` as a sorted tuple of axes in ``range(ndim)``; None means all of them."""
    return tuple(sorted(ordered_axes(name, axis, ndim)))


def ordered_axes(name: str, axis: Any, ndim: int) -> Axes:
    """As :func:`normalise_axes`, in the order given."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else (axis,)
    axes = tuple(_one_axis(name, a, ndim) for a in given)
    if len(set(axes)) < len(axes):
        raise AxisError(message(name, f"axis {axis!r} names one axis twice", "distinct axes", "Name each axis once."))
    return axes


def _one_axis(name: str, axis: Any, ndim: int) -> int:
    try:
        number = ndim if isinstance(axis, bool) else operator.index(axis)  # True is no axis in NumPy, either
    except TypeError:
        number = ndim
    if not -ndim <= number < ndim:
        expected = f"None or integers from {-ndim} to {ndim - 1}" if ndim else "None or () for a 0-d array"
        raise AxisError(message(name, f"axis {axis!r} of an array of {ndim} dimensions", expected, "Correct the axis."))
    return number % ndim


def fan_in(name: str, bound: Bound, split_every: Any, axes: Axes, chunks: Chunks) -> int | dict[int, int]:
    """How many partials one combine takes: one number for all axes together, or one for each reduced axis."""
    if split_every is None:
        split_every = dask.config.get("split_every", None)
    if split_every is None:
        return _default_fan_in(bound, axes, chunks)
    expected = "None, an integer of 2 or more, or a dict of axis to such integers"
    remedy = "A combine takes at least two partials, or it never ends."

    def number(n: Any) -> int:
        return _at_least(2, n, name, f"split_every {n!r}", expected, remedy)

    if isinstance(split_every, dict):
        given = {_one_axis(name, a, len(chunks)): number(n) for a, n in split_every.items()}
        split = {a: given.get(a, 2) for a in axes}
        return split[axes[0]] if len(axes) == 1 else split  # one tree, and one name, however it is said
    return number(split_every)


def group_size(name: str, group: Any) -> int | None:
    """How many chunks one task takes, or None where nobody says: an argument, or dask's ``gpureduce.group``."""
    group = setting("group") if group is None else group
    expected, remedy = "None or an integer of 1 or more", "Pass how many chunks a task takes."
    return None if group is None else _at_least(1, group, name, f"group {group!r}", expected, remedy)


def _at_least(least: int, number: Any, name: str, received: str, expected: str, remedy: str) -> int:
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise ArgumentError(message(name, received, expected, remedy))
    return int(number)


def _default_fan_in(bound: Bound, axes: Axes, chunks: Chunks) -> int:
    kept = [sizes for a, sizes in enumerate(chunks) if a not in stages(bound, tuple(map(len, chunks)), axes)[0]]
    if any(math.isnan(n) for sizes in kept for n in sizes):
        return FAN_IN_UNKNOWN
    fits = FAN_IN_BYTES // max(int(bytes_of_largest(kept, bound)), 1)
    return min(max(fits, FAN_IN_LEAST), FAN_IN)


def bytes_of_largest(kept: Iterable[tuple[float, ...]], bound: Bound) -> float:
    """Bytes of the largest partial, of the chunks' sizes along the kept axes."""
    return float(math.prod(max(sizes, default=0) for sizes in kept) * bound.cell_bytes)


def refuse_empty(name: str, bound: Bound, shape: tuple[float, ...], axes: Axes) -> None:
    """Raise now where a reduction without identity is known to meet an empty slice."""
    empty = [a for a in axes if shape[a] == 0]
    if empty and bound.monoid.empty == "raise":
        raise empty_slice(name, f"shape {shape}, empty along axis {empty[0]}")


def empty_slice(name: str, received: str) -> EmptyError:
    """The error for a slice that has no element, hence no answer."""
    expected = "at least one element in each slice (it has no identity)"
    return EmptyError(message(name, received, expected, "Drop the empty axes first."))


def needs_places(bound: Bound, numblocks: tuple[int, ...], axes: Axes) -> bool:
    """True where a chunk must know where in the whole array it lies."""
    return bound.indexed and any(numblocks[a] > 1 for a in axes)


def place_chunks(name: str, chunks: Chunks, axes: Axes) -> tuple[tuple[int, ...], ...]:
    """Chunk sizes that give every chunk its position along the reduced axes; other axes count as nothing.

    A position needs the sizes of the chunks before it and, but for the first reduced axis, of the whole axis.
    """
    for axis in axes:
        sizes = chunks[axis][:-1] if axis == axes[0] else chunks[axis]
        if any(math.isnan(n) for n in sizes):
            received, expected = f"unknown chunk sizes along axis {axis}", "known sizes, because the result depends on"
            raise ArgumentError(message(name, received, f"{expected} positions", "Call x.compute_chunk_sizes() first."))
    return tuple(
        tuple(0 if a not in axes else 1 if math.isnan(n) else int(n) for n in sizes) for a, sizes in enumerate(chunks)
    )


def stages(bound: Bound, numblocks: tuple[int, ...], axes: Axes) -> list[Axes]:
    """The sets of axes to reduce one after another, first to last.

    A commutative monoid takes all at once. Otherwise the elements keep their C order: the last axes go first, and
    a stage ends at an axis of several chunks, because the rows of chunks that lie side by side interleave.
    """
    if bound.monoid.commutative:
        return [axes]
    done: list[Axes] = []
    run: Axes = ()
    for axis in reversed(axes):
        run = (axis, *run)
        if numblocks[axis] > 1:
            done.append(run)
            run = ()
    return [*done, run] if run or not done else done


def shift_positions(partial: Any, bound: Bound, axes: Axes, place: Place | None) -> Any:
    """A partial of a monoid that does not commute, on the host where it changes, whose positions count over all reduced
    axes.

    A fold counts along ``axes`` alone, the last of them: here come the steps of those ahead, which wait for a later
    stage and have kept their size in the partial. The place has a size along reduced axes alone.
    """
    if place is None or not bound.positions or isinstance(bound, Binned):
        return partial
    reduced = tuple(a for a, n in enumerate(place.shape) if n)
    steps = {a: s for a, s in zip(reduced, place.steps(reduced), strict=True) if a not in axes}
    if not steps:
        return partial
    if isinstance(partial, masked.MaskedPartial):
        return masked.with_states(partial, shift_positions(partial.states, bound, axes, place))
    found = to_host(partial, bound).copy()
    for axis, step in steps.items():
        along = place.offsets[axis] + np.arange(found.shape[axis], dtype=np.int64)
        shift = (along * step).reshape([-1 if a == axis else 1 for a in range(found.ndim)])
        for name in bound.positions:
            found[name] += np.where(found[name] < 0, 0, shift)
    return found


# ---- dask's configuration, under ``gpureduce``

ROOT = "gpureduce"
WORDS = {"true": True, "false": False, "none": None}  # as text, which some ways of configuring leave them


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Integral) and value in (0, 1))


# The keys that there are: what a value may be, in words and as a test of it.
KNOWN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "accelerate": ("True, False or 'numpy'", lambda value: _is_switch(value) or value == "numpy"),
    "fuse": ("True or False", _is_switch),
    "group": (
        "an integer of 1 or more",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1,
    ),
}


def setting(key: str) -> Any:
    """The value of ``gpureduce.<key>``, or None where nothing is set."""
    given = dask.config.get(ROOT, None)
    if given is None:
        return None
    known = ", ".join(f"{ROOT}.{name}" for name in KNOWN)
    if not isinstance(given, Mapping):
        remedy = f"Set one of them, as dask.config.set({{'{ROOT}.accelerate': True}})."
        raise ArgumentError(message(ROOT, f"{given!r} in dask's configuration", known, remedy))
    values = {str(name).replace("-", "_"): value for name, value in given.items()}
    for name, value in values.items():
        if name not in KNOWN:
            close = get_close_matches(name, KNOWN, 1)
            remedy = f"Did you mean {ROOT}.{close[0]}?" if close else "Correct dask's configuration."
            raise ArgumentError(message(f"{ROOT}.{name}", "no such key in dask's configuration", known, remedy))
        values[name] = _checked(name, value)
    return values.get(key)


def _checked(key: str, given: Any) -> Any:
    """A value, out of text where it was left as text."""
    value = given
    if isinstance(given, str):
        value = WORDS.get(given.strip().lower(), given.strip().lower())
    expected, is_right = KNOWN[key]
    if value is None or is_right(value):
        return value
    remedy = f"Correct dask's configuration, or DASK_{ROOT.upper()}__{key.upper()} in the environment."
    raise ArgumentError(message(f"{ROOT}.{key}", repr(given), expected, remedy))
