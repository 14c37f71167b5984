"""Plain dask reductions, known by the functions that they are made of.

dask's public functions and methods, the NumPy protocol and xarray all end in ``dask.array.reductions.reduction`` or
``arg_reduction``, with chunk, combine and aggregate functions that tell one reduction from another. A few public
functions that make several passes are known by themselves. Some callers stock dask spares NumPy's warnings.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from dask.array import chunk, reductions

from ..graph.options import HIGHEST
from ..monoid import Array, Bound, DType, State

Arguments = Mapping[str, Any]  # of a call, by the names of the stock function's parameters, defaults filled in
Function = tuple[Any, ...]  # a function, and the arguments that partials of it hold
OPTIONS = frozenset({"ddof", "order", "implicit_complex_dtype"})  # of a stock function: not what tells it from another


@dataclass(frozen=True)
class Found:
    """What a call asks for, as an operator of ours."""

    row: str
    dtype: Any = None  # of the result; None for what the operator gives
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None  # for keys, where it is not the operator's


def _stock_reductions() -> Iterator[tuple[str, Any, Any, Any, bool]]:
    """Rows and what stands for them in dask: chunk, aggregate and combine functions, and whether dask concatenates
    what the latter two get."""
    r = reductions
    for name in ("sum", "prod", "any", "all", "min", "max"):
        f = getattr(chunk, name)
        yield name, f, f, f, True
    yield "min", r.chunk_min, chunk.min, r.chunk_min, True
    yield "max", r.chunk_max, chunk.max, r.chunk_max, True
    yield "nansum", chunk.nansum, chunk.sum, chunk.sum, True
    yield "nanprod", chunk.nanprod, chunk.prod, chunk.prod, True
    yield "nanmin", r._nanmin_skip, r._nanmin_skip, r._nanmin_skip, True
    yield "nanmax", r._nanmax_skip, r._nanmax_skip, r._nanmax_skip, True
    nan = {"sum": chunk.nansum, "numel": r.nannumel}
    yield "mean", r.mean_chunk, r.mean_agg, r.mean_combine, False
    yield "nanmean", partial(r.mean_chunk, **nan), r.mean_agg, partial(r.mean_combine, **nan), False
    yield "var", r.moment_chunk, r.moment_agg, r.moment_combine, False
    aggregate, combine = partial(r.moment_agg, sum=np.sum), partial(r.moment_combine, sum=np.nansum)
    yield "nanvar", partial(r.moment_chunk, **nan), aggregate, combine, False


def _stock_arg_reductions() -> Iterator[tuple[str, Any, Any, Any]]:
    """Rows and what stands for them in dask: chunk, combine and aggregate functions."""
    r = reductions
    for name, extreme, position, aggregate in (
        ("argmin", chunk.min, chunk.argmin, r.arg_agg),
        ("argmax", chunk.max, chunk.argmax, r.arg_agg),
        ("nanargmin", chunk.nanmin, r._nanargmin, r.nanarg_agg),
        ("nanargmax", chunk.nanmax, r._nanargmax, r.nanarg_agg),
    ):
        first = partial(r.arg_chunk, extreme, position)
        yield name, first, partial(r.arg_combine, position), partial(aggregate, position)


def _function(f: Any) -> Function:
    """A function and what its partials hold, but for options."""
    if not isinstance(f, partial):
        return f, (), frozenset()
    inner, args, kwargs = _function(f.func)
    held = dict(kwargs) | {k: v for k, v in f.keywords.items() if k not in OPTIONS}
    return inner, (*args, *f.args), frozenset(held.items())


def _options(f: Any) -> dict[str, Any]:
    if not isinstance(f, partial):
        return {}
    return _options(f.func) | {k: v for k, v in f.keywords.items() if k in OPTIONS}


REDUCTIONS = {(*map(_function, fs), whole): name for name, *fs, whole in _stock_reductions()}
ARG_REDUCTIONS = {tuple(map(_function, fs)): name for name, *fs in _stock_arg_reductions()}


def find_reduction(call: Arguments) -> Found | None:
    """The operator of a call of ``dask.array.reduction``."""
    if call["weights"] is not None or call["meta"] is not None or call["output_size"] != 1 or call["dtype"] is None:
        return None
    functions = call["chunk"], call["aggregate"], call["combine"] or call["aggregate"]
    try:
        row = REDUCTIONS.get((*map(_function, functions), bool(call["concatenate"])))
    except TypeError:  # a function, or what a partial holds, that cannot be looked up
        return None
    options = [_options(f) for f in functions]
    if row in ("var", "nanvar"):
        return _find_moment(row, options, call)
    return None if row is None or any(options) else Found(row, call["dtype"], name=call["name"])


def _find_moment(row: str, options: list[dict[str, Any]], call: Arguments) -> Found | None:
    """Variances and central moments, whose order and ``ddof`` stock dask binds to its functions."""
    first, last, _ = options
    orders = {o.get("order", 2) for o in options}
    if call["x"].dtype.kind == "c" and not first.get("implicit_complex_dtype"):
        return None  # what it does to complex elements under another dtype is its own
    order, given = orders.pop(), {"ddof": last.get("ddof", 0)}
    if order == 2 and not orders:
        return Found(row, call["dtype"], given, call["name"])
    if orders or row != "var" or not 2 < order <= HIGHEST:
        return None
    return Found("moment", call["dtype"], {**given, "order": order}, call["name"])


def find_arg_reduction(call: Arguments) -> Found | None:
    """The operator of a call of ``dask.array.reductions.arg_reduction``."""
    row = ARG_REDUCTIONS.get(tuple(_function(call[name]) for name in ("chunk", "combine", "agg")))
    is_one_or_all = call["axis"] is None or isinstance(call["axis"], Integral)
    return Found(row, np.intp) if row is not None and is_one_or_all else None


def find_deviation(row: str, call: Arguments) -> Found | None:
    """``std`` and ``nanstd``, which stock dask makes of a variance and a task a chunk for its root."""
    if call["a"].dtype.kind == "c" and call["dtype"] is not None:
        return None
    return Found(row, call["dtype"], {"ddof": call["ddof"]})


def find_ptp(call: Arguments) -> Found | None:
    """``ptp``, which stock dask makes of two reductions."""
    return Found("ptp")


def find_count(call: Arguments) -> Found | None:
    """``count_nonzero``, which stock dask makes of an array of the chunks' size."""
    return Found("count_nonzero")


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
