"""Plans of calls on a GPU, kept until there are many: a map's constants make a new one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

MOST = 1024

Plan = TypeVar("Plan")


class Plans(dict[tuple[Any, ...], Plan]):
    """Plans by what they depend on. The oldest goes where one too many comes."""

    def __setitem__(self, key: tuple[Any, ...], plan: Plan) -> None:
        super().__setitem__(key, plan)
        if len(self) > MOST:
            with suppress(KeyError, RuntimeError, StopIteration):  # another thread was first
                del self[next(iter(self))]
