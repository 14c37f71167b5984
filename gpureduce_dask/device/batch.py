"""Chunks that are reduced together, and what of that does not depend on the reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Batch(list[tuple[Any, ...]]):
    """Chunks (one array for each of a monoid's arity) on one side and of the right dtypes.

    ``layouts`` holds what a side finds out about all of them, for the next reduction of the same batch: to look at
    thousands of chunks takes longer than a GPU takes to read them.
    """

    def __init__(self, chunks: list[tuple[Any, ...]], device: bool) -> None:
        super().__init__(chunks)
        self.device = device
        self.layouts: Any = None

    def layout(self, find: Callable[[Batch], Any]) -> Any:
        """What ``find`` says of the chunks, found once. Chunks do not change, nor does the side."""
        if self.layouts is None:
            self.layouts = find(self)
        return self.layouts
