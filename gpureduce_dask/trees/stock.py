"""What belongs to stock dask: chunk types and dtypes that no kernel reads are handed to it untouched."""

from __future__ import annotations

import inspect
from typing import Any

import dask.array as da
import numpy as np

from .. import dtypes
from ..errors import ArgumentError, DtypeError, message
from .meta import is_ours


def belongs_to_stock(arrays: tuple[Any, ...], dtype: Any) -> bool:
    """True for masked, sparse and other foreign chunks, and for long double elements or results."""
    given = [a.dtype for a in arrays] + ([] if dtype is None else [np.dtype(dtype)])
    return any(not is_ours(a._meta) for a in arrays) or any(_is_long(d) for d in given)


def _is_long(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fc" and dtype in dtypes.LONG_DOUBLES and not dtypes.is_native(dtype)


def require_native(name: str, dtype: np.dtype[Any]) -> None:
    """Raise for dtypes that no operator has a meaning for: object, strings, bytes, records."""
    if dtypes.is_native(dtype):
        return
    expected = "bool, integer, float, complex, datetime64 or timedelta64"
    if dtype.kind == "O":
        remedy = f"Convert with x.astype(float), or call dask.array.{name}, which works on objects."
    elif dtype.names:
        remedy = "Reduce one field of the record, x['field']."
    else:
        remedy = "Convert with x.astype(float), or compare first: (x == value)."
    raise dtypes.refuse(name, dtype, expected, remedy)


def call(name: str, arrays: tuple[Any, ...], **arguments: Any) -> Any:
    """The stock dask function of this name, with the arguments that were given."""
    stock = _stock(name)
    if stock is None:
        raise foreign(name, arrays)
    unknown = sorted(set(arguments) - set(inspect.signature(stock).parameters))
    if unknown:
        raise ArgumentError(
            message(
                name,
                f"{', '.join(unknown)} with {_describe(arrays)}",
                f"the arguments of dask.array.{name}, which these arrays are handed to",
                "Leave it out, or convert the chunks to NumPy arrays.",
            )
        )
    return stock(*arrays, **arguments)


def given_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that differ from every reduction's defaults: None, and False for keepdims."""
    return {k: v for k, v in arguments.items() if v is not None and not (k == "keepdims" and not v)}


def _stock(name: str) -> Any:
    """dask's function of this name, or None. Those of ``dask.array.stats`` need SciPy."""
    if name not in ("skew", "kurtosis"):
        return getattr(da, name, None)
    try:
        from dask.array import stats
    except ImportError:
        return None
    return getattr(stats, name)


def foreign(name: str, arrays: tuple[Any, ...]) -> DtypeError:
    """The error for chunks that neither this package nor a stock function of that name reads."""
    return DtypeError(
        message(
            name,
            _describe(arrays),
            "NumPy or CuPy chunks of at most 64-bit parts",
            "dask.array has no such function to hand them to; convert them first.",
        )
    )


def _describe(arrays: tuple[Any, ...]) -> str:
    return " and ".join(f"{type(a._meta).__name__} chunks of {a.dtype}" for a in arrays)
