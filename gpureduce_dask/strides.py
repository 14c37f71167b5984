"""Which axes all of some arrays have in reverse, and the slices that turn them."""

from __future__ import annotations

from typing import Any


def turning(arrays: tuple[Any, ...], but: int | None = None) -> tuple[slice, ...]:
    """What turns the axes that all arrays, which have one shape, have in reverse, all or those but one; nothing where
    there are none."""
    if all(stride >= 0 for stride in arrays[0].strides):
        return ()
    steps = [
        -1 if n > 1 and a != but and all(x.strides[a] < 0 for x in arrays) else None
        for a, n in enumerate(arrays[0].shape)
    ]
    return tuple(slice(None, None, step) for step in steps) if any(steps) else ()
