"""Wrappers in the place of dask's reductions, which take onto our trees what is asked for and known."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any

import dask.array as da
import numpy as np
from dask.array import chunk, reductions, routines

from .. import dtypes, operators
from ..errors import GpureduceError
from ..monoid import Bound
from . import flox, lazy, plain
from .apply import bind, refuse_expressions
from .axes import group_size
from .meta import is_ours, promises_device
from .plain import Arguments, Found
from .quiet import quiet
from .reduction import reduce_array
from .scan_apply import apply as scan_array

TYPED = frozenset("sum prod nansum nanprod mean nanmean var nanvar std nanstd moment".split())  # they take dtype=
MEANS = frozenset({"mean", "nanmean"})
WARNING = frozenset("mean nanmean var std nanvar nanstd nanmin nanmax".split())  # where a slice holds nothing to reduce


def _reduction(call: Arguments, find: Callable[[Arguments], Found | None]) -> Any:
    """The array of a stock reduction by a tree of ours, or None where it is dask's to answer."""
    x, found = _array(call), find(call)
    if found is None or call.get("out") is not None or _has_bool(call["axis"]):
        return None
    name = found.name or found.row
    group_size(name, None)  # its error is the caller's to see; those below are dask's to raise, or to answer
    try:
        bound = _bind(found, x.dtype, name)
        if bound is None:
            return None
        if found.row in WARNING and not promises_device(x._meta):  # the kernels do not warn
            bound = quiet(bound)
        return reduce_array((x,), bound, call["axis"], call.get("keepdims", False), call.get("split_every"), name)
    except GpureduceError:
        return None


def _array(call: Arguments) -> Any:
    """The array of a call, by any name that dask and flox have for it."""
    return next((call[name] for name in ("x", "a", "array") if name in call), None)


def _has_bool(axis: Any) -> bool:
    """True for axes that stock dask refuses, though they count as 0 and 1."""
    return any(isinstance(a, bool) for a in (axis if isinstance(axis, tuple | list) else (axis,)))


def _bind(found: Found, dtype: Any, name: str) -> Bound | None:
    """The operator for elements of this dtype, or None where its results are not of the dtype asked for."""
    monoid, options = operators.get(found.row), dict(found.options)
    bound = bind(monoid, (dtype,), None, options, name)
    wanted = bound.result if found.dtype is None else np.dtype(found.dtype)
    if bound.result != wanted and found.row in TYPED:
        if dtypes.kind(wanted) not in "fc" and (found.row in MEANS or dtypes.kind(dtype) in "fc"):
            return None  # what it makes of NaN, of infinities and of what wrapped is stock dask's own
        bound = bind(monoid, (dtype,), wanted, options, name)
    return bound if bound.result == wanted else None


# Functions that stock scans are made of, rows, and names for keys.
SCANS: Mapping[Any, tuple[str, str]] = {
    np.cumsum: ("sum", "cumsum"),
    np.cumprod: ("prod", "cumprod"),
    chunk.nancumsum: ("nansum", "nancumsum"),
    chunk.nancumprod: ("nanprod", "nancumprod"),
}
FILL = ("_dtype_push", "_fill_with_last_one")  # what xarray's ffill and bfill are made of


def _find_scan(call: Arguments) -> tuple[str, str] | None:
    """The row of a stock scan and a name for its keys, or None where it is not known."""
    func, binop = call["func"], call["binop"]
    names = tuple(getattr(f, "__name__", "") for f in (func, binop))
    if names == FILL and func.__module__.startswith("xarray."):
        return "last", "ffill"
    return SCANS.get(func)


def _scan(call: Arguments) -> Any:
    """The array of a stock scan by a tree of ours, or None where it is dask's to answer."""
    x, wanted, found = _array(call), call["dtype"], _find_scan(call)
    if found is None or call["out"] is not None or _has_bool(call["axis"]):
        return None
    row, name = found
    if row == "last":
        wanted = None if wanted == x.dtype else wanted
    if wanted is not None and dtypes.kind(np.dtype(wanted)) not in "fc" and dtypes.kind(x.dtype) in "fc":
        return None  # what it makes of NaN, and of what wraps, is stock dask's own
    try:
        return scan_array(row, x, call["axis"], wanted, name=name)
    except GpureduceError:
        return None


# dask's functions that are wrapped, and what makes a tree of ours of the arguments of a call, or None.
HOOKED: Mapping[Callable[..., Any], Callable[[Arguments], Any]] = {
    da.reduction: partial(_reduction, find=plain.find_reduction),
    reductions.cumreduction: _scan,
    reductions.arg_reduction: partial(_reduction, find=plain.find_arg_reduction),
    reductions.std: partial(_reduction, find=partial(plain.find_deviation, "std")),
    reductions.nanstd: partial(_reduction, find=partial(plain.find_deviation, "nanstd")),
    routines.ptp: partial(_reduction, find=plain.find_ptp),
    routines.count_nonzero: partial(_reduction, find=plain.find_count),
}

_installed: list[Callable[..., Any]] = []
_lock = Lock()


def install(wanted: Callable[[], bool | str], fuses: Callable[[], bool]) -> None:
    """Put wrappers in the place of functions of dask and flox, which ask ``wanted`` at every call. Later calls do
    nothing.

    They stay: taking them out could take out what others have put over them.
    """
    refuse_expressions("accelerate")
    with _lock:
        if _installed:
            return
        todo = {**HOOKED, **flox.hooks()}
        modules = [m for name, m in list(sys.modules.items()) if name.startswith(("dask.array", "flox."))]
        for stock, grow in todo.items():
            hook = _hook(stock, grow, wanted, fuses)
            _installed.append(hook)
            for module in modules:
                if vars(module).get(stock.__name__) is stock:
                    setattr(module, stock.__name__, hook)


def _hook(
    stock: Callable[..., Any],
    grow: Callable[[Arguments], Any],
    wanted: Callable[[], bool | str],
    fuses: Callable[[], bool],
) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def hook(*args: Any, **kwargs: Any) -> Any:
        taken = None
        setting = wanted()
        if setting:
            try:
                call = signature.bind(*args, **kwargs)
            except TypeError:
                return stock(*args, **kwargs)  # which says what is wrong with them
            call.apply_defaults()
            if _is_ours(_array(call.arguments), setting == "numpy"):
                with lazy.allowed(fuses()):
                    taken = grow(call.arguments)
        return stock(*args, **kwargs) if taken is None else taken

    return hook


def _is_ours(x: Any, numpy: bool) -> bool:
    """True for arrays of chunks and elements that are ours. Times are dask's: it answers some otherwise than NumPy."""
    if not isinstance(x, da.Array) or not dtypes.is_native(x.dtype) or x.dtype.kind in "mM":
        return False
    return promises_device(x._meta) or (numpy and is_ours(x._meta))
