"""Many small arrays of the host as one: where they travel, and where partials are put in order.

Of a scan of 512 chunks there are as many totals, and as many partials before chunks. One by one they are two frames of
a message each, which take 16 ms to write and as long to read, for every worker that needs them; and 15 ms to fold. As
one array of all they take a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chunk import host_scan
from ..monoid import Bound
from .tasks import Partial


class Several(list[Any]):
    """Arrays in order, with None among them. Those of the host that are alike travel as one array."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        present = [item for item in self if item is not None]
        one = together(present)
        if one is None:
            return Several, (list(self),)
        return _apart, (one, [i for i, item in enumerate(self) if item is None])


def _apart(one: Any, gaps: Sequence[int]) -> Several:
    found = Several(one)
    for gap in gaps:
        found.insert(gap, None)
    return found


def together(arrays: Sequence[Any]) -> Any:
    """Arrays of the host, of one shape and dtype, as one; None of others."""
    if not arrays or type(arrays[0]) is not np.ndarray:
        return None
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if any(type(a) is not np.ndarray or a.shape != shape or a.dtype != dtype for a in arrays):
        return None
    # np.stack would look for a dtype that all fit, field by field.
    return np.frombuffer(bytearray().join(a.tobytes() for a in arrays), dtype).reshape(len(arrays), *shape)


def through(carry: Partial, partials: Sequence[Partial], bound: Bound) -> list[Partial] | None:
    """What stands behind each of some partials and the carry before them all; None where they are not all alike."""
    one = together(partials)
    if one is None or not (carry is None or type(carry) is np.ndarray):
        return None
    found, end = host_scan.before(one, bound, carry)
    return [*found, *end][1:]
