"""Result and element dtypes of the rows: which kinds an operator takes, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import is_native, kind, mean_result, real, refuse, sum_result
from ..errors import ArgumentError, DtypeError, message
from .monoid import DType, Monoid

REAL = "biuf"
NUMBERS = "biufc"
ADDED = "biufcm"  # durations have a sum
ORDERED = "biufcmM"
APART = "iufmM"  # what has differences of its own kind
WORDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "m": "timedelta64", "M": "datetime64"}


def check(operation: str, kinds: str, dtype: DType) -> DType:
    """The dtype itself, or an error that says which kinds the operation takes."""
    if not is_native(dtype) or kind(dtype) not in kinds:
        expected = ", ".join(WORDS[k] for k in kinds)
        raise refuse(operation, dtype, f"one of {expected}", "Convert the array with astype, or use another reduction.")
    return dtype


Choice = Callable[[tuple[DType, ...], DType], str]


def any_kind(dtypes: tuple[DType, ...], dtype: DType) -> str:
    """Sums and products come in whatever the caller asks for: "", or what was expected instead."""
    return ""


def mean_kind(dtypes: tuple[DType, ...], dtype: DType) -> str:
    """In unsigned integers a negative mean has no place: NumPy divides a sum that wrapped."""
    signed = kind(dtype) == "u" and kind(dtypes[0]) not in "bu"
    return "a dtype with negative numbers for what may be negative" if signed else ""


def nanmean_kind(dtypes: tuple[DType, ...], dtype: DType) -> str:
    """In integers the mean of nothing but NaN has no place: NumPy refuses them too."""
    if kind(dtypes[0]) in "fc" and kind(dtype) in "biu":
        return "float or complex for what may be NaN"
    return mean_kind(dtypes, dtype)


def spread_kind(dtypes: tuple[DType, ...], dtype: DType) -> str:
    """In integers NumPy measures from a mean that it has truncated, which gives no variance."""
    return "" if kind(dtype) in "fc" else "float or complex"


@dataclass(frozen=True)
class Rule:
    """The result dtype of an operator that takes some kinds: what ``of`` makes of the inputs' common dtype.

    ``free`` lets the caller ask for another. A class, since rows that went through a pickle must equal the table's.
    """

    operation: str
    kinds: str
    of: Callable[[DType], DType]
    free: Choice | None

    def __call__(self, *dtypes: DType, dtype: DType | None = None) -> DType:
        for each in dtypes:
            check(self.operation, self.kinds, each)
        if dtype is not None:
            return self.checked(dtypes, dtype)
        try:
            return self.of(np.result_type(*dtypes))
        except TypeError as error:
            received = f"dtypes {' and '.join(map(str, dtypes))}"
            raise DtypeError(
                message(self.operation, received, "dtypes with a common one", "Convert one with astype.")
            ) from error

    def checked(self, dtypes: tuple[DType, ...], dtype: DType) -> DType:
        """The dtype that the caller asks for, where it can hold results."""
        remedy = "Convert the result with astype."
        if self.free is None:
            raise ArgumentError(message(self.operation, f"dtype={dtype}", "no dtype", remedy))
        expected = self.free(dtypes, check(self.operation, self.kinds, dtype))
        if expected:
            raise DtypeError(message(self.operation, f"dtype={dtype} for elements of {dtypes[0]}", expected, remedy))
        return dtype


def native(*dtypes: DType, dtype: DType | None = None) -> tuple[DType, ...]:
    """Elements keep their dtype, in native byte order."""
    return tuple(same(d) for d in dtypes)


def recast(*dtypes: DType, dtype: DType | None = None) -> tuple[DType, ...]:
    """Elements change dtype only where the caller's has another kind, as from integers to floats, or another unit."""
    own = native(*dtypes)
    if dtype is None:
        return own
    return tuple(d if _sums_as(d, dtype) else same(dtype) for d in own)


def _sums_as(dtype: DType, wanted: DType) -> bool:
    """True where sums of elements of one dtype can be cast to another at the end."""
    if kind(wanted) == "m":
        return dtype == wanted
    return kind(dtype) == kind(wanted) or (kind(dtype) == "b" and kind(wanted) == "i")


def same(dtype: DType) -> DType:
    return dtype.newbyteorder("=") if dtype.kind != "V" else dtype


def summed(dtype: DType) -> DType:
    return sum_result(same(dtype))


def averaged(dtype: DType) -> DType:
    return mean_result(same(dtype))


def spread(dtype: DType) -> DType:
    """Variances and norms are real."""
    return real(averaged(dtype))


def squared(dtype: DType) -> DType:
    return real(summed(dtype))


def difference(dtype: DType) -> DType:
    """The dtype of the difference of two elements: dates give a duration."""
    return np.dtype(same(dtype).str.replace("M8", "m8")) if dtype.kind == "M" else same(dtype)


def truth(dtype: DType) -> DType:
    return np.dtype(bool)


def position(dtype: DType) -> DType:
    return np.dtype(np.int64)


def row(name: str, kinds: str, of: Callable[[DType], DType], *, free: Choice | None = None, **functions: Any) -> Monoid:
    """A row that takes these kinds and has ``of`` for its result dtype; ``free`` where the caller may choose it."""
    result = Rule(name, kinds, of, free)
    return Monoid(name=name, result=result, **{"elements": recast if free else native, **functions})
