"""Functions of elements about a caller's, for tracing: with numbers among its arguments, with a mask, with weights.

Where an operator has an element that changes no result, a masked element becomes that one. Means, variances and moments
count their elements, and positions are of elements that there are: theirs keep the mask as another array. Weights are
multiplied by, or go to operators of two arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import kind
from ..operators import masked
from ..operators import table as operators
from ..operators.monoid import DType, Monoid
from ..operators.pairs import present_finalise
from ..operators.weighted import SPREADS

Function = Callable[..., Any]


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


def magnitude(x: Any) -> Any:
    """|x| in float64: neither the least integer nor a power of float16 leaves the range there."""
    return np.abs(x.astype(np.float64) if kind(x.dtype) != "c" else x).astype(np.float64)


@dataclass(frozen=True)
class Power:
    """A power of |x|."""

    ord: float

    def __call__(self, x: Any) -> Any:
        return magnitude(x) ** self.ord


# ---- masks

PAIRS = frozenset({"vdot", "average", *(row.name for row in SPREADS.values())})  # of elements and weights, or others
MISSING = frozenset({"nanmean", "nanvar", "nanstd"})  # to which NaN is no element


@dataclass(frozen=True)
class Masked:
    """A function and, as its last argument, which elements count for the operator of this name, or for several."""

    function: Function
    op: str = ""

    @property
    def neutral(self) -> Callable[[DType], Any] | None:
        """The element of each dtype that changes no result of the operator; None where there is none such."""
        if self.op in PAIRS | MISSING:
            return masked.zero if self.op in PAIRS else _nan
        row = operators.OPERATORS.get(self.op)
        return None if row is None or row.fold is None else masked.NEUTRAL.get(row.fold)

    @property
    def keeps_mask(self) -> bool:
        return self.neutral is None

    def __call__(self, *arrays: Any) -> Any:
        *given, mask = arrays
        values, neutral = self.function(*given), self.neutral
        many = list(values) if type(values) in (tuple, list) else [values]  # asks no stand-in for its class
        if neutral is None:
            return (*many, mask)
        if self.op in MISSING:
            many = [v.astype(np.float64) if kind(v.dtype) in "biu" else v for v in many]
        found = tuple(np.where(mask, v, np.asarray(neutral(v.dtype), v.dtype)[()]) for v in many)
        return found if len(found) > 1 else found[0]


def _nan(dtype: DType) -> Any:
    return np.nan


# ---- weights


def present(x: Any, weight: Any) -> Any:
    """Elements and weights, for an operator of two arrays, with no weight for NaN."""
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
# What takes weights: a function of elements and these, and the operator of what it gives.
WEIGHTED: dict[str, tuple[Function, Monoid]] = {
    **{name: (np.multiply, operators.get(name)) for name in ("sum", "nansum", "norm1", "norminf")},
    "norm2": (rooted, operators.get("norm2")),
    "sumsq": (squares, operators.get("sum")),
    "mean": (same, AVERAGE),
    "nanmean": (present, replace(AVERAGE, finalise=present_finalise)),
    **{name: (same, row) for name, row in SPREADS.items()},
    "nanvar": (present, SPREADS["var"]),
    "nanstd": (present, SPREADS["std"]),
}


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

    def _taken(self, value: Any, *others: Any) -> Iterator[Any]:
        yield value
        for name in self.names:
            function = WEIGHTED[name][0]
            # What does not count is as good as zero to all that take weights.
            found = (Masked(function, "sum") if self.masked else function)(value, *others)
            yield from found if type(found) is tuple else (found,)


def weighted(monoid: Monoid, dtype: DType, weight: DType) -> tuple[Function, Monoid, DType | None]:
    """What a reduction with weights is: a function, an operator, and a dtype of results where it is not theirs."""
    function, found = WEIGHTED[monoid.name]
    if monoid.name == "sumsq":
        return function, found, monoid.bind(np.result_type(dtype, weight)).result
    return function, found, None
