"""What weights of elements mean to a reduction: a function of an element and its weight, and an operator of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import operators
from ..dtypes import kind
from ..monoid import DType, Monoid
from ..rows.pairs import present_finalise
from ..rows.weighted import SPREADS
from .masks import Masked

Function = Callable[..., Any]


def paired(x: Any, weight: Any) -> Any:
    """Elements and weights, for an operator of two arrays."""
    return x, weight


def present(x: Any, weight: Any) -> Any:
    """As :func:`paired`, with no weight for NaN."""
    if kind(x.dtype) not in "fc":
        return x, weight
    gaps = np.isnan(x)
    return np.where(gaps, 0, x), np.where(gaps, 0, weight)


def squares(x: Any, weight: Any) -> Any:
    """Squares of magnitudes times weights: of floats in float64, as :func:`~gpureduce_dask.sumsq` adds them up."""
    if kind(x.dtype) == "c":
        return (np.square(x.real.astype(np.float64)) + np.square(x.imag.astype(np.float64))) * weight
    wide = {"f": np.float64, "u": np.uint64}.get(kind(x.dtype), np.int64)
    return np.square(x.astype(wide)) * weight


def rooted(x: Any, weight: Any) -> Any:
    """Elements times the roots of their weights: the squares of these are weighted."""
    return x * np.sqrt(weight)


AVERAGE = operators.get("average")
MEANING: dict[str, tuple[Function, Monoid]] = {
    **{name: (np.multiply, operators.get(name)) for name in ("sum", "nansum", "norm1", "norminf")},
    "norm2": (rooted, operators.get("norm2")),
    "sumsq": (squares, operators.get("sum")),
    "mean": (paired, AVERAGE),
    "nanmean": (present, replace(AVERAGE, finalise=present_finalise)),
    **{name: (paired, row) for name, row in SPREADS.items()},
    "nanvar": (present, SPREADS["var"]),
    "nanstd": (present, SPREADS["std"]),
}
TAKERS = frozenset(MEANING)


@dataclass(frozen=True)
class Weighing:
    """A function, and what operators of these names take of each of its results and of weights, the last argument, or,
    with ``masked``, the last before a mask: the result itself, and then what each operator takes."""

    function: Function
    names: tuple[str, ...]
    masked: bool

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        place = len(arrays) - self.masked - 1
        values = self.function(*arrays[:place])
        many = values if type(values) in (tuple, list) else [values]  # asks no stand-in for its class
        return tuple(x for value in many for x in self._taken(value, *arrays[place:]))

    def _taken(self, value: Any, *beside: Any) -> Iterator[Any]:
        yield value
        for name in self.names:
            function = MEANING[name][0]
            # What does not count is as good as zero to all that take weights.
            found = (Masked(function, "sum") if self.masked else function)(value, *beside)
            yield from found if type(found) is tuple else (found,)


def weighted(monoid: Monoid, dtype: DType, weight: DType) -> tuple[Function, Monoid, DType | None]:
    """What a reduction with weights is: a function, an operator, and a dtype of results where it is not theirs."""
    function, found = MEANING[monoid.name]
    if monoid.name == "sumsq":
        return function, found, monoid.bind(np.result_type(dtype, weight)).result
    return function, found, None
