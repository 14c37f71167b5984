"""Wrappers in the place of dask's reductions, which take onto our trees what is asked for and known."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from threading import Lock
from typing import Any

import dask.array as da
import numpy as np
from dask.array import reductions, routines
from dask.utils import funcname

from .. import dtypes
from ..distributed import private
from ..errors import GpureduceError
from ..graph import deferred, groups
from ..graph.arguments import bind, group_size
from ..graph.array_expressions import call as call_on_graphs
from ..graph.meta import is_ours, promises_device
from ..graph.reduce import build_tree
from ..graph.scan_apply import apply as scan_array
from ..operators import table as operators
from ..operators.monoid import Bound
from . import flox, match_stock
from .decisions import Fallback, Rule, check, is_lazy_array, record
from .match_stock import Arguments, StockMatch, without_warnings

TYPED = frozenset("sum prod nansum nanprod mean nanmean var nanvar std nanstd moment".split())  # they take dtype=
MEANS = frozenset({"mean", "nanmean"})
WARNING = frozenset("mean nanmean var std nanvar nanstd nanmin nanmax".split())  # where a slice holds nothing to reduce


def _reduction(call: Arguments, find: Callable[[Arguments], StockMatch | None]) -> Any:
    """The array of a stock reduction by a tree of ours."""
    check(REDUCTIONS, call)
    x, found = _array(call), find(call)
    if found is None:
        raise Fallback(UNKNOWN)
    if _is_short(x, found.row, call["axis"]):
        raise Fallback(FEW)
    name = found.name or found.row
    bound = _bind(found, x.dtype, name)
    if found.row in WARNING and not promises_device(x._meta):  # the kernels do not warn
        bound = without_warnings(bound)
    return build_tree((x,), bound, call["axis"], call.get("keepdims", False), call.get("split_every"), name).array


def _array(call: Arguments) -> Any:
    """The array of a call, by any name that dask and flox have for it."""
    return next((call[name] for name in ("x", "a", "array") if name in call), None)


def _has_bool(axis: Any) -> bool:
    """True for axes that stock dask refuses, though they count as 0 and 1."""
    return any(isinstance(a, bool) for a in (axis if isinstance(axis, tuple | list) else (axis,)))


def _bind(found: StockMatch, dtype: Any, name: str) -> Bound:
    """The operator for elements of this dtype, with results of the dtype asked for."""
    monoid, options = operators.get(found.row), dict(found.options)
    bound = bind(monoid, (dtype,), None, options, name)
    wanted = bound.result if found.dtype is None else np.dtype(found.dtype)
    if bound.result != wanted and found.row in TYPED:
        if dtypes.kind(wanted) not in "fc" and (found.row in MEANS or dtypes.kind(dtype) in "fc"):
            raise Fallback(WRAPS)
        bound = bind(monoid, (dtype,), wanted, options, name)
    if bound.result != wanted:
        raise Fallback(f"its results are {bound.result} here, and {wanted} in dask")
    return bound


FILL = ("_dtype_push", "_fill_with_last_one")  # what xarray's ffill and bfill are made of


def _find_scan(call: Arguments) -> tuple[str, str] | None:
    """The row of a stock scan and a name for its keys, or None where it is not known."""
    func, binop = call["func"], call["binop"]
    names = tuple(getattr(f, "__name__", "") for f in (func, binop))
    if names == FILL and func.__module__.startswith("xarray."):
        return "last", "ffill"
    return match_stock.known_scans().get(func)


def _scan(call: Arguments) -> Any:
    """The array of a stock scan by a tree of ours."""
    check(SCAN_RULES, call)
    x, wanted = _array(call), call["dtype"]
    row, name = _find_scan(call) or ("", "")
    if row == "last":
        wanted = None if wanted == x.dtype else wanted
    return _scan_by(row, name, x, call["axis"], wanted)


def _named_scan(call: Arguments, name: str) -> Any:
    """The array of dask-array's scan of this name by a tree of ours."""
    check(REDUCTIONS, call)
    return _scan_by(match_stock.SCAN_ROWS[name], name, _array(call), call["axis"], call["dtype"])


def _scan_by(row: str, name: str, x: Any, axis: Any, wanted: Any) -> Any:
    if wanted is not None and dtypes.kind(np.dtype(wanted)) not in "fc" and dtypes.kind(x.dtype) in "fc":
        raise Fallback(WRAPS)
    return scan_array(row, x, axis, wanted, name=name)


def _histogram(call: Arguments) -> Any:
    """The counts and edges of a stock histogram, by a tree of ours; edges are dask's."""
    check(HISTOGRAM_RULES, call)
    bins, span = call["bins"], call["range"]
    found, _ = groups.histogram(call["a"], bins, span, call["normed"], call["weights"], call["density"], masks=True)
    return found, np.linspace(span[0], span[1], num=bins + 1) if np.ndim(bins) == 0 else np.asarray(bins)


def _has_lazy_bins(call: Arguments) -> bool:
    return groups.is_lazy(call["bins"]) or groups.is_lazy(call["range"])


def _has_odd_bins(call: Arguments) -> bool:
    return np.ndim(call["bins"]) == 0 and not isinstance(call["bins"], Integral)


def _has_weights(call: Arguments) -> bool:
    x, weights = call["a"], call["weights"]
    return weights is not None and not (promises_device(x._meta) and getattr(weights, "chunks", None) == x.chunks)


def _is_short(x: Any, row: str, axis: Any) -> bool:
    """True for sums, means and the like of a few elements each, of large NumPy chunks: windows of ``rolling``, blocks
    of ``coarsen``. The states are then nearly as many as the elements. Along rows all but sums are faster here."""
    if axis is None or promises_device(x._meta) or x.dtype == np.float16 or not x.size >= LARGE:
        return False
    axes = {a % x.ndim for a in (axis if isinstance(axis, tuple | list) else (axis,)) if isinstance(a, int)}
    rows = SUMS if axes == {x.ndim - 1} else SUMS | OTHERS
    return row in rows and math.prod(x.shape[a] for a in axes) < SHORT


def _has_out(call: Arguments) -> bool:
    return call.get("out") is not None


def _has_bool_axis(call: Arguments) -> bool:
    return _has_bool(call["axis"])


def _is_unknown_scan(call: Arguments) -> bool:
    return _find_scan(call) is None


def _is_foreign(call: Arguments) -> bool:
    return not is_ours(_array(call)._meta)


def _is_numpy(call: Arguments) -> bool:
    return not promises_device(_array(call)._meta)


def _is_other(call: Arguments) -> bool:
    return not dtypes.is_native(_array(call).dtype)


def _is_time(call: Arguments) -> bool:
    return bool(_array(call).dtype.kind in "mM")


SUMS = frozenset("sum nansum mean nanmean".split())
OTHERS = frozenset("prod nanprod min max nanmin nanmax any all".split())
SHORT, LARGE = 32, 1 << 20  # elements of a result, and of an array. Xeon, 2 cores, NumPy 2.4, float32, 2026-11

FEW = f"each result is of fewer than {SHORT} elements, of which dask's takes no longer"
UNKNOWN = "its chunk functions are not dask's own, or it has weights=, meta= or output_size="
WRAPS = "floats become integers: what NaN, infinities and large values become is dask's own"

# What is left to dask, and why, by what a call is of. Those of groups stand in flox.py.
NUMPY = Rule("NumPy chunks are taken with gr.accelerate(numpy=True) alone", _is_numpy)
ARRAYS = (
    Rule("its elements are objects, strings, records or long doubles", _is_other),
    Rule("its elements are times, which dask answers some of otherwise than NumPy", _is_time),
    Rule("its chunks are masked, sparse or of another kind that is not NumPy's or CuPy's", _is_foreign),
)
REDUCTIONS = (
    Rule("out= was given", _has_out),
    Rule("its axis is True or False, which dask refuses", _has_bool_axis),
)
HISTOGRAM_RULES = (
    Rule("its bins are known when they are computed", _has_lazy_bins),
    Rule("its bins are neither edges nor a number", _has_odd_bins),
    Rule("with weights, NumPy's histogram of a chunk takes no longer", _has_weights),
)
SCAN_RULES = (
    *REDUCTIONS,
    Rule("its scan function is not dask's own cumsum, cumprod or xarray's fill", _is_unknown_scan),
)


def _named(row: str) -> Callable[[Arguments], Any]:
    """What makes a tree of ours of a call of the public function of this name."""
    return partial(_reduction, find=partial(match_stock.find_named, row))


Wrapped = Mapping[Any, Callable[[Arguments], Any]]

# dask's functions that are wrapped, and what makes a tree of ours of the arguments of a call, or raises.
WRAPPED: Wrapped = {
    da.reduction: partial(_reduction, find=match_stock.find_reduction),
    reductions.cumreduction: _scan,
    private.arg_reduction(): partial(_reduction, find=match_stock.find_arg_reduction),
    reductions.std: _named("std"),
    reductions.nanstd: _named("nanstd"),
    routines.ptp: _named("ptp"),
    routines.count_nonzero: _named("count_nonzero"),
    routines.histogram: _histogram,
}
if da.array_expr_enabled():  # whose own variances raise NotImplementedError: an expression has no np.iscomplexobj yet
    WRAPPED = {**WRAPPED, reductions.var: _named("var"), reductions.nanvar: _named("nanvar")}


def _of_dask_array() -> Wrapped:
    """The same of the package dask-array, whose reductions are classes of its own: by the names of its functions."""
    rows = (*match_stock.ROWS, *match_stock.ARG_ROWS, "std", "nanstd", "moment", "ptp", "count_nonzero")
    builders = {row: _named(row) for row in rows}
    builders |= {name: partial(_named_scan, name=name) for name in match_stock.SCAN_ROWS}
    package = sys.modules["dask_array"]
    return {getattr(package, name): build for name, build in builders.items() if hasattr(package, name)}


_installed: dict[str, list[Callable[..., Any]]] = {}  # wrappers by package
_lock = Lock()


def install(wanted: Callable[[], bool | str], fuses: Callable[[], bool]) -> None:
    """Put wrappers in the place of functions of dask and flox, and of dask-array where the program has imported it,
    which ask ``wanted`` at every call. Later calls do nothing.

    They stay: taking them out could take out what others have put over them.
    """
    with _lock:
        if "dask" not in _installed:
            for learn in (match_stock.known_reductions, match_stock.known_arg_reductions, match_stock.known_scans):
                learn()
            wrapped = {**WRAPPED, **flox.wrappers()}  # which imports flox
            _installed["dask"] = _replace(wrapped, ("dask.array", "flox."), wanted, fuses)
        if "dask_array" not in _installed and hasattr(sys.modules.get("dask_array"), "Array"):
            _installed["dask_array"] = _replace(_of_dask_array(), ("dask_array",), wanted, fuses)


def _replace(
    wrapped: Wrapped, prefixes: tuple[str, ...], wanted: Callable[[], bool | str], fuses: Callable[[], bool]
) -> list[Callable[..., Any]]:
    """Wrappers of functions, in the place of these in all modules whose names begin so."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith(prefixes)]
    made = []
    for stock, build in wrapped.items():
        if stock is None:  # which this dask does not have
            continue
        name, wrapper = stock.__name__, _wrapper(stock, build, wanted, fuses)
        made.append(wrapper)
        for module in modules:
            if vars(module).get(name) is stock:
                setattr(module, name, wrapper)
    return made


def _wrapper(
    stock: Callable[..., Any],
    build: Callable[[Arguments], Any],
    wanted: Callable[[], bool | str],
    fuses: Callable[[], bool],
) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        setting = wanted()
        if not setting:
            return stock(*args, **kwargs)
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:
            return stock(*args, **kwargs)  # which says what is wrong with them
        call.apply_defaults()
        if not is_lazy_array(_array(call.arguments)):
            return stock(*args, **kwargs)
        name = _name(stock, build, call.arguments)
        found, reason = _take(name, call.arguments, build, setting, fuses)
        if reason is not None:
            found = stock(*args, **kwargs)
        record(found, name, call.arguments, reason)
        return found

    return wrapper


def _take(
    name: str, call: Arguments, build: Callable[[Arguments], Any], setting: bool | str, fuses: Callable[[], bool]
) -> tuple[Any, str | None]:
    """A call's array by a tree of ours and None; or None and why it is dask's to answer."""
    try:
        check(ARRAYS if setting == "numpy" else (*ARRAYS, NUMPY), call)
        with deferred.allowed(fuses()):
            return call_on_graphs(build, (call,), {}), None
    except Fallback as fallback:
        return None, str(fallback)
    except GpureduceError as error:
        group_size(name, None)  # its error is the caller's to see; others are dask's to raise, or to answer
        return None, str(error)


def _name(stock: Callable[..., Any], build: Callable[[Arguments], Any], call: Arguments) -> str:
    """What a call is of: its operator or, where that is not known, its function."""
    if "expected_groups" in call:
        return str(call["agg"].name)
    if "func" in call:
        return (_find_scan(call) or (None, funcname(call["func"])))[1]
    if "chunk" not in call:
        return funcname(stock)
    found = build.keywords["find"](call) if isinstance(build, partial) else None
    return funcname(call["chunk"]) if found is None else str(found.name or found.row)
