"""An operator as the functions that stock ``dask.array.reductions.cumreduction`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import chunk, operators
from ..device import faults
from ..errors import ArgumentError, message
from ..monoid import Bound, Monoid
from .apply import bind

# How running results of these join what stands before them.
JOINS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "nansum": np.add,
    "prod": np.multiply,
    "nanprod": np.multiply,
    "count_nonzero": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "nanmin": np.fmin,
    "nanmax": np.fmax,
    "any": np.logical_or,
    "all": np.logical_and,
}


def recipe(op: str | Monoid, dtype: Any) -> dict[str, Any]:
    """Keyword arguments for ``cumreduction``; ``dtype`` is the array's."""
    monoid = operators.get(op)
    if monoid.name not in JOINS or operators.OPERATORS.get(monoid.name) != monoid:
        raise ArgumentError(
            message(
                "scan_tree",
                f"{monoid.name}, whose results do not combine as its elements do",
                f"one of {', '.join(JOINS)}",
                f"Call gpureduce_dask.scan(x, {monoid.name!r}), which joins states.",
            )
        )
    bound = bind(monoid, (np.dtype(dtype),), None, {}, f"scan_tree by {monoid.name}")
    if bound.indexed:
        raise ArgumentError(
            message("scan_tree", f"{monoid.name} of {dtype}", "a real dtype", "Call gpureduce_dask.scan instead.")
        )
    return {
        "func": Running(bound),
        "preop": Whole(bound),
        "binop": JOINS[monoid.name],
        "ident": chunk.finalise(bound.identities(()), bound)[()],
        "dtype": bound.result,
    }


@dataclass(frozen=True)
class Running:
    """A chunk's running results along an axis."""

    bound: Bound

    @property
    def __name__(self) -> str:
        return f"gr-scan-{self.bound.name}"  # dask names keys after it

    @faults.task
    def __call__(self, block: Any, axis: int = 0, dtype: Any = None) -> Any:
        return chunk.scan((block,), self.bound, axis)[0]


@dataclass(frozen=True)
class Whole:
    """A chunk's result along an axis."""

    bound: Bound

    @faults.task
    def __call__(self, block: Any, axis: int, keepdims: bool = True) -> Any:
        return chunk.results((block,), self.bound, (axis,))
