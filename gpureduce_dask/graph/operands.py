"""The arrays of a map: brought to one shape and chunking, what a function gives of them, and which elements count.

Where an operator has an element that changes no result, a masked element becomes that one. Means, variances and moments
count their elements, and positions are of elements that there are: theirs keep the mask as another array. Weights are
multiplied by, or go to operators of two arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import is_native, kind
from ..errors import ArgumentError, DtypeError, message
from ..expressions import tracer
from ..expressions.program import Program
from ..expressions.tracer import Untraceable
from ..operators import table as operators
from ..operators.limits import highest, lowest, void
from ..operators.masked import REFUSALS
from ..operators.monoid import DType, Monoid
from ..operators.pairs import present_finalise
from ..operators.weighted import SPREADS
from . import graph_arrays as da
from .apply import as_dask, broadcast
from .meta import describe, is_ours, require_plain

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
        if is_lazy and isinstance(reason, Untraceable) and reason.needs_values:
            raise self._refused(reason)
        try:
            with warnings.catch_warnings():  # of what dask has no function for, it would compute the arrays at once
                warnings.filterwarnings("error", ".*is not implemented by Dask array", FutureWarning)
                found = function(*(x if i in self.numbers else _own(x) for i, x in enumerate(self.given)))
        except Exception as error:
            detail = str(error).partition(". ")[0]
            raise self._refused(reason, f", and raises {type(error).__name__}: {detail}") from error
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


# ---- masks

ZERO = frozenset("sum nansum any count_nonzero sumsq norm1 norm2 norminf vdot average".split())
ZERO |= {row.name for row in SPREADS.values()}  # an element without weight does not count
ONE = frozenset({"prod", "nanprod", "all"})
HIGHEST, LOWEST = frozenset({"min", "nanmin"}), frozenset({"max", "nanmax"})
MISSING = frozenset({"nanmean", "nanvar", "nanstd"})


@dataclass(frozen=True)
class Masked:
    """A function and, as its last argument, which elements count for the operator of this name, or for several."""

    function: Function
    op: str = ""

    @property
    def keeps_mask(self) -> bool:
        return self.op not in ZERO | ONE | HIGHEST | LOWEST | MISSING

    def __call__(self, *arrays: Any) -> Any:
        *given, mask = arrays
        values = self.function(*given)
        many = list(values) if type(values) in (tuple, list) else [values]  # asks no stand-in for its class
        if self.op in MISSING:
            many = [v.astype(np.float64) if kind(v.dtype) in "biu" else v for v in many]
        if self.keeps_mask:
            return (*many, mask)
        found = tuple(np.where(mask, v, self._neutral(v.dtype)) for v in many)
        return found if len(found) > 1 else found[0]

    def _neutral(self, dtype: DType) -> Any:
        """The element that changes nothing."""
        if self.op in ZERO | ONE:
            value: Any = int(self.op in ONE)
        elif self.op in MISSING:
            value = np.nan
        else:
            worst = highest(dtype) if self.op in HIGHEST else lowest(dtype)
            value = void(dtype, worst) if self.op.startswith("nan") else worst
        return np.asarray(value, dtype)[()]


def checked_mask(name: str, where: Any) -> Any:
    """A mask as a dask array of bool."""
    require_plain(name, "where", where)
    mask = as_dask(name, where)
    if mask.dtype != bool:
        raise DtypeError(message(name, f"where of {mask.dtype}", "bool", "Compare first, as in where=(x > 0)."))
    return mask


def unread(name: str, arrays: tuple[Any, ...], keywords: str = "where=") -> DtypeError:
    """The error for chunks that are no plain numbers, with a mask or weights."""
    given = [a for a in arrays if a.dtype.kind != "b"] or arrays
    remedy = "Fill masked chunks first, and pass their mask as where=."
    received = f"{keywords} with {describe(given)}"
    return DtypeError(message(name, received, "NumPy or CuPy chunks of numbers", remedy))


def refusing(monoid: Monoid) -> Monoid:
    """An operator of what may be nothing at all: one that has no answer to that then says so."""
    finalise = REFUSALS.get(monoid.finalise) if monoid.empty == "raise" else None
    return monoid if finalise is None else replace(monoid, finalise=finalise)


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
