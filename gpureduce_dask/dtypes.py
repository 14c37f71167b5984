"""Result and element dtypes: NumPy's rules, with bfloat16 as one more floating type."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError, message

KINDS = "?biufcmM"  # kinds the table's rows speak of; bfloat16 counts as "f"
LONG_DOUBLES = (np.dtype(np.longdouble), np.dtype(np.clongdouble))


def kind(dtype: np.dtype[Any]) -> str:
    """NumPy's kind letter, with bfloat16 (kind ``V`` in NumPy) as ``f``."""
    return "f" if dtype.name == "bfloat16" else dtype.kind


def is_native(dtype: np.dtype[Any]) -> bool:
    """True for the dtypes the operators take: bool, integers, floats up to 64 bits, complex up to 128, times."""
    if dtype in LONG_DOUBLES and dtype not in (np.dtype(np.float64), np.dtype(np.complex128)):
        return False
    return kind(dtype) in "biufcmM"


def is_nan_capable(dtype: np.dtype[Any]) -> bool:
    """True where an element can be missing: NaN in floats and complex, NaT in times."""
    return kind(dtype) in "fcmM"


def accumulates_exactly(dtype: np.dtype[Any]) -> bool:
    """True for floats whose sum in float64 is rounded far below their own precision (16 and 32 bits)."""
    return kind(dtype) == "f" and dtype.itemsize < 8


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype; any other dtype itself."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def sum_result(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of ``np.sum`` and ``np.prod``: bool and small integers widen to 64 bits."""
    if kind(dtype) in "bi":
        return np.dtype(np.int64)
    if kind(dtype) == "u":
        return np.dtype(np.uint64)
    return dtype


def mean_result(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of ``np.mean``: integers and bool give float64."""
    return np.dtype(np.float64) if kind(dtype) in "biu" else dtype


def refuse(operation: str, dtype: np.dtype[Any], expected: str, remedy: str) -> DtypeError:
    """The error for a dtype that an operation has no meaning for."""
    return DtypeError(message(operation, f"dtype {dtype}", expected, remedy))


def require_native(name: str, dtype: np.dtype[Any]) -> None:
    """Raise for dtypes that neither an operator nor stock dask has a meaning for: most objects, strings, records."""
    if is_native(dtype):
        return
    expected = "bool, integer, float, complex, datetime64 or timedelta64"
    if dtype.kind == "O":
        remedy = "Convert with x.astype(float), or to the dtype that the objects have in common."
    elif dtype.names:
        remedy = "Reduce one field of the record, x['field']."
    else:
        remedy = "Convert with x.astype(float), or compare first: (x == value)."
    raise refuse(name, dtype, expected, remedy)
