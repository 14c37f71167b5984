"""Whether the code that runs is part of a larger task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_group: ContextVar[bool] = ContextVar("gpureduce_group", default=False)


def is_group() -> bool:
    """True where a group's task makes and reduces its chunks."""
    return _group.get()


@contextmanager
def group() -> Iterator[None]:
    """What runs in the block is part of a group's task."""
    token = _group.set(True)
    try:
        yield
    finally:
        _group.reset(token)
