"""Groups on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..binned import Binned
from .place import Place


def reduce_many(chunks: Sequence[Any], bound: Binned, axes: tuple[int, ...], places: Sequence[Place] | None) -> Any:
    from ..errors import ArgumentError, message

    raise ArgumentError(message(bound.bins.name, "CuPy chunks", "NumPy chunks", "Move the chunks to the host."))
