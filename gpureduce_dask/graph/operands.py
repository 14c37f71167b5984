"""The arrays of a map: brought to one shape and chunking, and what a function gives of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import is_native
from ..errors import ArgumentError, message
from ..expressions import tracer
from ..expressions.program import Program
from ..expressions.tracer import Untraceable
from . import graph_arrays as da
from .apply import as_dask, broadcast
from .fallback import describe
from .meta import is_ours

Function = Callable[..., Any]


class Operands:
    """Arrays as the kernels read them: of one shape and one chunking, equal ones but once.

    Numbers among what is given are no arrays: as in NumPy, Python's take the dtype of what they meet.
    """

    def __init__(self, name: str, given: Sequence[Any]) -> None:
        self.numbers = {i: x for i, x in enumerate(given) if isinstance(x, (bool, int, float, complex, np.generic))}
        arrays = [as_dask(name, x) for i, x in enumerate(given) if i not in self.numbers]
        if not arrays:
            raise ArgumentError(message(name, "no array", "one or more", "Pass what the function is called with."))
        unlike: dict[str, int] = {}
        order = tuple(unlike.setdefault(a.name, len(unlike)) for a in arrays)
        single = tuple(arrays[order.index(i)] for i in range(len(unlike)))
        whole = broadcast(name, single)
        # A kernel goes by the first: of those that grow, one element stands for many.
        ranks = sorted(range(len(single)), key=lambda i: single[i].shape != whole[i].shape)
        self.order = tuple(ranks.index(i) for i in order)
        self.name = name
        self.given = tuple(given)
        self.arrays = tuple(whole[i] for i in ranks)
        self.dtypes = tuple(a.dtype.newbyteorder("=") for a in self.arrays)

    @property
    def is_ours(self) -> bool:
        return all(is_ours(a._meta) and is_native(a.dtype) for a in self.arrays)

    def trace(self, function: Function) -> Program | None:
        """What the function gives of the elements, or None where that cannot be known."""
        found = self._attempt(function)
        return found if isinstance(found, Program) else None

    def _attempt(self, function: Function) -> Program | Untraceable:
        if not self.is_ours:
            return Untraceable(describe(self.arrays))
        if self.numbers:
            function = Filled(function, tuple(self.numbers.items()))
        return tracer.attempt(function, self.dtypes, self.order)

    def results(self, function: Function) -> int:
        """How many results the function gives."""
        program = self.trace(function)
        return len(program.outputs) if program else len(self.whole(function))

    def whole(self, function: Function) -> list[Any]:
        """What the function gives of whole arrays, an array a result: of dask's as dask has it, and of NumPy's
        themselves where there are no others."""
        if function is same:
            return [self.arrays[i] for i in self.order]
        reason = self._attempt(function)
        is_lazy = not all(i in self.numbers or type(x) is np.ndarray for i, x in enumerate(self.given))
        if is_lazy and isinstance(reason, Untraceable) and reason.asks_values:
            raise self._refused(reason)
        try:
            with warnings.catch_warnings():  # of what dask has no function for, it would compute the arrays at once
                warnings.filterwarnings("error", ".*is not implemented by Dask array", FutureWarning)
                found = function(*(x if i in self.numbers else _own(x) for i, x in enumerate(self.given)))
        except Exception as error:
            said = str(error).partition(". ")[0]
            raise self._refused(reason, f", and raises {type(error).__name__}: {said}") from error
        many = found if isinstance(found, tuple | list) else (found,)
        wanted = self.arrays[0].shape
        for x in many:
            if not isinstance(x, da.Array) and (is_lazy or not isinstance(x, np.ndarray | np.generic)):
                raise self._refused(reason, f", and gives an object of type {type(x).__name__}")
            pairs = zip(x.shape, wanted, strict=False)
            if len(x.shape) != len(wanted) or any(m != n and (m == m or n == n) for m, n in pairs):
                raise self._refused(reason, f", and gives shape {x.shape} of arrays of shape {wanted}")
        if not many:
            raise self._refused(reason, ", and gives nothing")
        return [as_dask(self.name, x) for x in many]

    def _refused(self, reason: Program | Untraceable, more: str = "") -> ArgumentError:
        stop = f" ({reason})" if isinstance(reason, Untraceable) else ""
        received = f"a function that cannot be traced{stop}{more}"
        expected = "a function of elements, made of Python's operators and NumPy's functions"
        remedy = "Reduce what dask makes of it, or x.map_blocks(f) where f may be called on one chunk after another."
        return ArgumentError(message(self.name, received, expected, remedy))


def traceable(name: str, function: Function, given: Sequence[Any]) -> tuple[Function, Sequence[Any]]:
    """A function that can be traced, and its arrays: where it cannot, what it gives of the whole arrays."""
    operands = Operands(name, given)
    return (function, given) if operands.trace(function) else (same, operands.whole(function))


@dataclass(frozen=True)
class Filled:
    """A function whose arguments are numbers in some places."""

    function: Function
    numbers: tuple[tuple[int, Any], ...]

    def __call__(self, *arrays: Any) -> Any:
        given = list(arrays)
        for place, number in self.numbers:  # in order: each finds its place among those before it
            given.insert(place, number)
        return self.function(*given)


def same(*blocks: Any) -> Any:
    """What it is given."""
    return blocks if len(blocks) > 1 else blocks[0]


def _own(x: Any) -> Any:
    """An array that a function can do no harm to: a view of NumPy's to which writing is an error, and a dask array by
    itself, which assignments turn into another."""
    if type(x) is not np.ndarray:
        return as_dask("map", x).copy()
    view = x.view()
    view.flags.writeable = False
    return view
