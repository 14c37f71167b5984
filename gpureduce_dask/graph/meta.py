"""What the chunks of an array are: ours to reduce, or stock dask's, to which they are handed untouched.

A meta is an empty array that tells dask so; here one is made without touching a GPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..chunk import is_device
from ..errors import ArgumentError, DtypeError, message
from ..operators.monoid import DType
from . import graph_arrays as da


class DeviceMeta(np.ndarray[Any, DType]):
    """A NumPy meta that stands for CuPy chunks, for a client or scheduler that has no GPU."""

    def __getitem__(self, key: Any) -> Any:
        # dask slices every meta, and a 0-d array would come back as a scalar without the flag.
        return np.asarray(super().__getitem__(key)).view(DeviceMeta)


def device_meta(ndim: int, dtype: Any) -> DeviceMeta:
    """The meta of an array of CuPy chunks, without CuPy or a GPU."""
    return np.empty((0,) * ndim, dtype).view(DeviceMeta)


def promises_device(meta: Any) -> bool:
    """True where the chunks behind a meta are CuPy arrays."""
    return is_device(meta) or isinstance(meta, DeviceMeta)


def is_ours(meta: Any) -> bool:
    """True for the chunk types the kernels and the host side read; any other belongs to stock dask."""
    return promises_device(meta) or type(meta) in (np.ndarray, np.memmap)


def like(meta: Any, ndim: int, dtype: DType) -> Any:
    """A meta of the same kind of chunk, with other dimensions and dtype."""
    if not promises_device(meta):
        return np.empty((0,) * ndim, dtype)
    if isinstance(meta, DeviceMeta):
        return device_meta(ndim, dtype)
    if ndim:
        # The memory of the old meta serves: an array of no elements reads none of it.
        return type(meta)((0,) * ndim, dtype, memptr=meta.data)
    import cupy

    try:
        return cupy.empty((), dtype)
    except cupy.cuda.runtime.CUDARuntimeError:  # without a GPU there is no memory for its one element
        return device_meta(0, dtype)


def blockwise(run: Callable[..., Any], out: tuple[int, ...], *inputs: Any, template: Any, **options: Any) -> Any:
    """dask's function of chunks as they lie, to ones of the kind that a meta promises."""
    found = like(template, len(out), options["dtype"])
    return da.blockwise(run, out, *inputs, meta=found, align_arrays=False, **options)


def reduced(meta: Any, axis: Any, keepdims: bool, dtype: DType) -> Any:
    """What a reduction answers when dask probes it with a meta (``computing_meta=True``)."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return like(meta, meta.ndim if keepdims else meta.ndim - len(axes), dtype)


# ---- what belongs to stock dask

FLAGS = frozenset({"any", "all", "count_nonzero"})
OBJECTS = FLAGS | {"sum", "prod", "min", "max", "argmin", "argmax", "ptp", "mean", "var", "std", "moment", "skew"}
OBJECTS |= {"kurtosis", "nansum", "nanprod", "nanmin", "nanmax", "nanargmin", "nanargmax", "vdot"}

# Operators that stock dask has for elements which no row takes, by their kind. Of objects, what its tasks do where they
# are numbers; of strings, bytes and records NumPy knows the truth alone, of variable-width strings the order as well.
ANSWERED = {"O": OBJECTS, "U": FLAGS, "S": FLAGS, "V": FLAGS, "T": FLAGS | {"min", "max", "argmin", "argmax"}}
# The same by the kind of the result asked for: Python's integers, as objects, do not wrap.
AS_OBJECTS = {"O": frozenset({"sum", "prod", "mean", "var", "moment", "nansum", "nanprod", "nanmean", "nanvar"})}


def belongs_to_stock(name: str, arrays: tuple[Any, ...], dtype: Any) -> bool:
    """True for masked, sparse and other foreign chunks, and for long doubles, objects, strings and records where stock
    dask has the operator of this name for them."""
    tables = [(a.dtype, ANSWERED) for a in arrays] + ([] if dtype is None else [(np.dtype(dtype), AS_OBJECTS)])
    others = [
        (d.kind in "fc" and d in dtypes.LONG_DOUBLES) or name in table.get(d.kind, ())
        for d, table in tables
        if not dtypes.is_native(d)
    ]
    foreign = any(not is_ours(a._meta) for a in arrays) or (bool(others) and all(others))
    return foreign or (name in ("nansum", "nanprod") and loses_nan(arrays, dtype))


def loses_nan(arrays: tuple[Any, ...], dtype: Any) -> bool:
    """True where NaN would be cast to an integer before it can be skipped."""
    is_whole = dtype is not None and dtypes.kind(np.dtype(dtype)) in "biu"
    return is_whole and any(dtypes.kind(a.dtype) in "fc" for a in arrays)


def call(name: str, arrays: tuple[Any, ...], **arguments: Any) -> Any:
    """The stock dask function of this name, with the arguments that differ from every reduction's defaults: None, and
    False for keepdims."""
    functions: Any = da
    if name in ("skew", "kurtosis"):  # which need SciPy
        try:
            from dask.array import stats as functions
        except ImportError:
            functions = None
    stock = getattr(functions, name, None)
    if stock is None:
        raise foreign(name, arrays)
    given = {k: v for k, v in arguments.items() if v is not None and not (k == "keepdims" and not v)}
    unknown = sorted(set(given) - set(inspect.signature(stock).parameters))
    if unknown:
        received = f"{', '.join(unknown)} with {describe(arrays)}"
        expected = f"the arguments of dask.array.{name}, which these arrays are handed to"
        raise ArgumentError(message(name, received, expected, "Leave it out, or convert the chunks to NumPy arrays."))
    return stock(*arrays, **given)


def foreign(name: str, arrays: tuple[Any, ...]) -> DtypeError:
    """The error for chunks that neither this package nor a stock function of that name reads."""
    remedy = "dask.array has no such function to hand them to; convert them first."
    return DtypeError(message(name, describe(arrays), "NumPy or CuPy chunks of at most 64-bit parts", remedy))


def require_plain(name: str, what: str, x: Any) -> None:
    """Raise for what goes with the elements (a mask, labels, weights) where it is masked, sparse or the like: what
    is missing there says nothing of the elements."""
    meta = x._meta if isinstance(x, da.Array) else x
    if isinstance(meta, np.ma.MaskedArray) or (isinstance(x, da.Array) and not is_ours(meta)):
        received = f"{what} of {type(meta).__name__} chunks"
        raise DtypeError(message(name, received, "NumPy or CuPy arrays", "Fill or convert them first."))


def describe(arrays: Sequence[Any]) -> str:
    """The kinds of chunks that arrays have, in an error's words."""
    return " and ".join(f"{type(a._meta).__name__} chunks of {a.dtype}" for a in arrays)
