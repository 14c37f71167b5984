"""Arrays of the host that are alike as one array: for a list that travels, and to combine them all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operators.monoid import Bound
from . import scan


class PackedList(list[Any]):
    """Arrays in order, with None among them. Those of the host that are alike travel as one array."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        present = [item for item in self if item is not None]
        one = stacked(present)
        if one is None:
            return PackedList, (list(self),)
        return _unpacked, (one, [i for i, item in enumerate(self) if item is None])


def _unpacked(one: Any, gaps: Sequence[int]) -> PackedList:
    found = PackedList(one)
    for gap in gaps:
        found.insert(gap, None)
    return found


def stacked(arrays: Sequence[Any]) -> Any:
    """Arrays of the host, of one shape and dtype, as one; None of others."""
    if not arrays or type(arrays[0]) is not np.ndarray:
        return None
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if any(type(a) is not np.ndarray or a.shape != shape or a.dtype != dtype for a in arrays):
        return None
    # np.stack would look for a dtype that all fit, field by field.
    return np.frombuffer(bytearray().join(a.tobytes() for a in arrays), dtype).reshape(len(arrays), *shape)


def running_partials(carry: Any, partials: Sequence[Any], bound: Bound) -> list[Any] | None:
    """What stands behind each of some partials and the carry before them all; None where they are not all alike."""
    one = stacked(partials)
    if one is None or not (carry is None or type(carry) is np.ndarray):
        return None
    found, end = scan.before(one, bound, carry)
    return [*found, *end][1:]
