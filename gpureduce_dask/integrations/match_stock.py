"""Plain dask reductions, known by the functions that they are made of.

dask's public functions and methods, the NumPy protocol and xarray all end in ``dask.array.reductions.reduction`` or
``arg_reduction``, with chunk, combine and aggregate functions that tell one reduction from another. A few public
functions that make several passes are known by their names, as are all of dask-array, whose inner functions are its
own. Some callers stock dask spares NumPy's warnings.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from numbers import Integral
from threading import Lock
from typing import Any

import dask.array as da
import numpy as np
from dask.array import reductions

from ..distributed import private
from ..operators.higher_moments import HIGHEST
from ..operators.monoid import Array, Bound, DType, State

Arguments = Mapping[str, Any]  # of a call, by the names of the stock function's parameters, defaults filled in
Function = tuple[Any, ...]  # a function, and the arguments that partials of it hold
OPTIONS = frozenset({"ddof", "order", "implicit_complex_dtype"})  # of a stock function: not what tells it from another


@dataclass(frozen=True)
class StockMatch:
    """What a call asks for, as an operator of ours."""

    row: str
    dtype: Any = None  # of the result; None for what the operator gives
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None  # for keys, where it is not the operator's


class _Captured(Exception):
    """The arguments of a call that was only looked at."""

    def __init__(self, call: Arguments) -> None:
        self.call = call


_looking = Lock()  # one thread at a time


def calls_of(hooked: str, names: Sequence[str]) -> dict[str, Arguments]:
    """What dask's public functions of these names pass to one of ``dask.array.reductions``, which all of them end in.

    Each is called once with an array of ours, in place of a list of dask's inner functions.
    """
    with _looking:
        return _calls_of(hooked, names)


def _calls_of(hooked: str, names: Sequence[str]) -> dict[str, Arguments]:
    stock = getattr(reductions, hooked)
    probe, signature = da.zeros(2, chunks=1), inspect.signature(stock)
    found: dict[str, Arguments] = {}

    def look(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        if call.arguments["x"] is not probe:  # of another thread
            return stock(*args, **kwargs)
        raise _Captured(call.arguments)

    setattr(reductions, hooked, look)
    try:
        for name in names:
            try:
                getattr(da, name)(probe, axis=0)
            except _Captured as captured:
                found[name] = captured.call
            except NotImplementedError:  # of arrays that are expressions
                continue
    finally:
        setattr(reductions, hooked, stock)
    return found


def _function(f: Any) -> Function:
    """A function and what its partials hold, but for options."""
    if not isinstance(f, partial):
        return f, (), frozenset()
    inner, args, kwargs = _function(f.func)
    options = dict(kwargs) | {k: v for k, v in f.keywords.items() if k not in OPTIONS}
    return inner, (*args, *f.args), frozenset(options.items())


def _options(f: Any) -> dict[str, Any]:
    if not isinstance(f, partial):
        return {}
    return _options(f.func) | {k: v for k, v in f.keywords.items() if k in OPTIONS}


def _key(call: Arguments) -> tuple[Any, ...]:
    """What tells one reduction from another."""
    functions = call["chunk"], call["aggregate"], call["combine"] or call["aggregate"]
    return (*map(_function, functions), bool(call["concatenate"]))


def _arg_key(call: Arguments) -> tuple[Any, ...]:
    return tuple(_function(call[name]) for name in ("chunk", "combine", "agg"))


ROWS = "sum prod any all min max nansum nanprod nanmin nanmax mean nanmean var nanvar".split()
ARG_ROWS = "argmin argmax nanargmin nanargmax".split()
SCAN_ROWS = {"cumsum": "sum", "cumprod": "prod", "nancumsum": "nansum", "nancumprod": "nanprod"}


@cache
def known_reductions() -> dict[Any, str]:
    """Rows by what tells dask's reductions from others; with those that people make of NumPy's functions."""
    calls = [(f.__name__, {"chunk": f, "aggregate": f, "combine": None, "concatenate": True}) for f in (np.min, np.max)]
    return {_key(call): name for name, call in (*calls, *calls_of("reduction", ROWS).items())}


@cache
def known_arg_reductions() -> dict[Any, str]:
    """As :func:`known_reductions`, of positions."""
    if private.arg_reduction() is None:
        return {}
    return {_arg_key(call): name for name, call in calls_of("arg_reduction", ARG_ROWS).items()}


@cache
def known_scans() -> dict[Any, tuple[str, str]]:
    """Rows, and names for keys, by the functions that dask's scans are made of."""
    return {call["func"]: (SCAN_ROWS[name], name) for name, call in calls_of("cumreduction", [*SCAN_ROWS]).items()}


def find_reduction(call: Arguments) -> StockMatch | None:
    """The operator of a call of ``dask.array.reduction``."""
    if call["weights"] is not None or call["meta"] is not None or call["output_size"] != 1 or call["dtype"] is None:
        return None
    try:
        row = known_reductions().get(_key(call))
    except TypeError:  # a function, or what a partial holds, that cannot be looked up
        return None
    options = [_options(f) for f in (call["chunk"], call["aggregate"], call["combine"] or call["aggregate"])]
    if row in ("var", "nanvar"):
        return _find_moment(row, options, call)
    return None if row is None or any(options) else StockMatch(row, call["dtype"], name=call["name"])


def _find_moment(row: str, options: list[dict[str, Any]], call: Arguments) -> StockMatch | None:
    """Variances and central moments, whose order and ``ddof`` stock dask binds to its functions."""
    first, last, _ = options
    orders = {o.get("order", 2) for o in options}
    if call["x"].dtype.kind == "c" and not first.get("implicit_complex_dtype"):
        return None  # what it does to complex elements under another dtype is its own
    order, given = orders.pop(), {"ddof": last.get("ddof", 0)}
    if order == 2 and not orders:
        return StockMatch(row, call["dtype"], given, call["name"])
    if orders or row != "var" or not 2 < order <= HIGHEST:
        return None
    return StockMatch("moment", call["dtype"], {**given, "order": order}, call["name"])


def find_arg_reduction(call: Arguments) -> StockMatch | None:
    """The operator of a call of ``dask.array.reductions.arg_reduction``."""
    row = known_arg_reductions().get(_arg_key(call))
    is_one_or_all = call["axis"] is None or isinstance(call["axis"], Integral)
    return StockMatch(row, np.intp) if row is not None and is_one_or_all else None


def find_named(row: str, call: Arguments) -> StockMatch | None:
    """The operator of a public function that is known by its name: of dask those that make several passes, as ``std``
    of a variance and a task a chunk for its root; of dask-array all."""
    options = {key: call[key] for key in ("ddof", "order") if key in call}
    if "ddof" in options and call["a"].dtype.kind == "c" and call["dtype"] is not None:
        return None
    order = options.get("order", 2)
    if order == 2 and row == "moment":
        return StockMatch("var", call["dtype"], {"ddof": options["ddof"]}, row)
    is_known = isinstance(order, Integral) and 2 <= int(order) <= HIGHEST
    return StockMatch(row, call.get("dtype"), options) if is_known else None


SPARED = "All-NaN slice encountered|Mean of empty slice|Degrees of freedom <= 0"


@dataclass(frozen=True)
class WithoutWarnings:
    """A ``finalise`` that does not warn of slices without elements, or with nothing but NaN."""

    finalise: Callable[..., Array]

    def __call__(self, state: State, dtype: DType, **options: Any) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", SPARED, RuntimeWarning)
            return self.finalise(state, dtype, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.finalise)


def without_warnings(bound: Bound) -> Bound:
    """The same operator, in silence."""
    return Bound(replace(bound.monoid, finalise=WithoutWarnings(bound.monoid.finalise)), bound.dtypes, bound.dtype)
