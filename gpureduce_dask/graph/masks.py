"""Masks: elements that count for nothing, as the map of an operator's elements.

Where an operator has an element that changes no result, a masked element becomes that one. Means, variances and moments
count their elements, and positions are of elements that there are: theirs keep the mask beside the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import kind
from ..errors import DtypeError, message
from ..operators.limits import highest, lowest, void
from ..operators.masked import REFUSALS
from ..operators.monoid import DType, Monoid
from ..operators.weighted import SPREADS
from .apply import as_dask
from .fallback import require_plain

ZERO = frozenset("sum nansum any count_nonzero sumsq norm1 norm2 norminf vdot average".split())
ZERO |= {row.name for row in SPREADS.values()}  # an element without weight does not count
ONE = frozenset({"prod", "nanprod", "all"})
HIGHEST, LOWEST = frozenset({"min", "nanmin"}), frozenset({"max", "nanmax"})
MISSING = frozenset({"nanmean", "nanvar", "nanstd"})


@dataclass(frozen=True)
class Masked:
    """A function and, as its last argument, which elements count for the operator of this name, or for several."""

    function: Callable[..., Any]
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


def checked(name: str, where: Any) -> Any:
    """A mask as a dask array of bool."""
    require_plain(name, "where", where)
    mask = as_dask(name, where)
    if mask.dtype != bool:
        raise DtypeError(message(name, f"where of {mask.dtype}", "bool", "Compare first, as in where=(x > 0)."))
    return mask


def unread(name: str, arrays: tuple[Any, ...], keyword: str = "where") -> DtypeError:
    """The error for chunks that are no plain numbers, with a mask or weights beside them."""
    given = " and ".join(f"{type(a._meta).__name__} chunks of {a.dtype}" for a in arrays if a.dtype.kind != "b")
    remedy = "Fill masked chunks first, and pass their mask as where=."
    return DtypeError(message(name, f"{keyword}= with {given}", "NumPy or CuPy chunks of numbers", remedy))


def refusing(monoid: Monoid) -> Monoid:
    """An operator of what may be nothing at all: one that has no answer to that then says so."""
    finalise = REFUSALS.get(monoid.finalise) if monoid.empty == "raise" else None
    return monoid if finalise is None else replace(monoid, finalise=finalise)
