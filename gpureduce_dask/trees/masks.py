"""Masks: elements that count for nothing, as the map of an operator's elements.

Where an operator has an element that changes no result, a masked element becomes that one. Means and variances count
their elements: theirs keep the mask beside the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import operators
from ..dtypes import kind
from ..errors import DtypeError, message
from ..monoid import Bound, DType
from .apply import as_dask

ZERO = frozenset(
    "sum nansum any count_nonzero sumsq norm1 norm2 norminf vdot average weighted_var weighted_std".split()
)
ONE = frozenset({"prod", "nanprod", "all"})
HIGHEST, LOWEST = frozenset({"min", "nanmin"}), frozenset({"max", "nanmax"})
MISSING = frozenset({"nanmean", "nanvar", "nanstd"})
COUNTED = frozenset({"mean", "var", "std"})  # each has a form that skips NaN, with the same states


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
        if self.op in MISSING | COUNTED:
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
        elif kind(dtype) in "iu":
            value = np.iinfo(dtype).max if self.op in HIGHEST else np.iinfo(dtype).min
        elif kind(dtype) == "b":
            value = self.op in HIGHEST
        else:
            value = np.inf if self.op in HIGHEST else -np.inf
        return np.asarray(value, dtype)[()]


def checked(name: str, where: Any) -> Any:
    """A mask as a dask array of bool."""
    mask = as_dask(name, where)
    if mask.dtype != bool:
        raise DtypeError(message(name, f"where of {mask.dtype}", "bool", "Compare first, as in where=(x > 0)."))
    return mask


def skipping(inner: Bound) -> Bound | None:
    """The operator of the same states that leaves NaN out, for elements that may be NaN."""
    if inner.name not in COUNTED or kind(inner.elements[0]) not in "fc":
        return None
    return operators.get(f"nan{inner.name}").bind(*inner.dtypes, dtype=inner.dtype)
