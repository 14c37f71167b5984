"""The elements that no other is below or above, and those that stand for a missing one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import kind
from .monoid import DType
from .totals import NAT


def lowest(dtype: DType) -> Any:
    """The element that no other is less than, NaN and NaT aside."""
    match kind(dtype):
        case "b":
            return np.False_
        case "i" | "u":
            return np.iinfo(dtype).min
        case "m" | "M":
            return np.asarray(NAT + 1).view(dtype)[()]
        case "c":
            return complex(-np.inf, -np.inf)
        case _:
            return -np.inf


def highest(dtype: DType) -> Any:
    """The element that no other is greater than."""
    match kind(dtype):
        case "b":
            return np.True_
        case "i" | "u":
            return np.iinfo(dtype).max
        case "m" | "M":
            return np.asarray(np.iinfo(np.int64).max).view(dtype)[()]
        case "c":
            return complex(np.inf, np.inf)
        case _:
            return np.inf


def void(dtype: DType, otherwise: Any) -> Any:
    """NaN or NaT where the dtype has one, else this."""
    match kind(dtype):
        case "f":
            return np.nan
        case "c":
            return complex(np.nan, np.nan)
        case "m" | "M":
            return np.asarray(NAT).view(dtype)[()]
        case _:
            return otherwise
