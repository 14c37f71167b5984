"""flox's grouped reductions of dask arrays, which xarray's ``groupby`` and ``resample`` end in, as trees of ours.

flox's engines are names of a list of its own, to which none can be added. But whatever the engine, a reduction of a
dask array comes to one function, with labels that are numbers from 0 on: it is wrapped, as functions of dask are.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import dask.array as da
import numpy as np

from .. import operators
from ..errors import GpureduceError
from ..monoid import Monoid
from .bins_apply import grouped
from .meta import promises_device
from .parts import COUNTS, SPREADS
from .quiet import Quiet

Arguments = Mapping[str, Any]

# Operators by flox's names.
SAME = "sum prod mean var std min max nansum nanprod nanmean nanvar nanstd nanmin nanmax any all".split()
ROWS = {name: operators.get(name) for name in SAME}
ROWS |= {"nanfirst": operators.get("first"), "nanlast": operators.get("last"), "count": COUNTS["nancount"]}
ORDERED = frozenset({"nanfirst", "nanlast"})
PLACES = {"flox.dask": "dask_groupby_agg", "flox.core": "dask_groupby_agg"}  # of newer versions, of older
NEEDED = frozenset({"array", "by", "agg", "expected_groups", "axis"})  # of its arguments


def hooks() -> dict[Callable[..., Any], Callable[[Arguments], Any]]:
    """flox's function and what makes a tree of ours of a call, where flox is installed and has it as it is known."""
    if find_spec("flox") is None:
        return {}
    for place, name in PLACES.items():
        try:
            found = getattr(importlib.import_module(place), name, None)
        except Exception:  # an older version without this file, or one that does not go with what it imports
            continue
        if found is not None and set(inspect.signature(found).parameters) >= NEEDED:
            return {found: _reduce}
    return {}


def _reduce(call: Arguments) -> Any:
    """The array of a call and its groups, or None where it is flox's to answer."""
    x, labels, agg, groups = call["array"], call["by"], call["agg"], call["expected_groups"]
    axes = tuple(call["axis"])
    if not _is_known(agg, x) or not isinstance(labels, np.ndarray) or groups is None or len(axes) != labels.ndim:
        return None
    if agg.name in ORDERED and len(axes) > 1:
        return None
    least, fill, count = agg.min_count, _fill(agg), len(groups)
    present = np.bincount(labels[labels >= 0].ravel(), minlength=count) > 0
    is_whole = bool(present.all())
    if not is_whole and not least:
        return None  # what a group without elements gets is flox's own
    try:
        found = _grouped(ROWS[agg.name], x, labels, axes, count, None if is_whole else 0, agg)
        if least > 1 or (least and not (is_whole and agg.name in ("nanmin", "nanmax") and _is_nan(fill))):
            if fill is None:
                return None
            counts = _grouped(COUNTS["nancount"], x, labels, axes, count, None, None)
            found = da.map_blocks(_enough, found, counts, least, fill, dtype=found.dtype, meta=found._meta)
    except GpureduceError:
        return None
    return found, (groups,)


def _grouped(row: Monoid, x: Any, labels: Any, axes: tuple[int, ...], count: int, fill: Any, agg: Any) -> Any:
    if not promises_device(x._meta):  # the kernels do not warn
        row = replace(row, finalise=Quiet(row.finalise))
    options = dict(agg.finalize_kwargs) if agg is not None else {}
    found = grouped("groupby", row, x, labels, axes, count, None, fill, None, **options)
    return found if agg is None else found.astype(agg.dtype["final"])


def _is_known(agg: Any, x: Any) -> bool:
    """True for one of flox's own reductions that has no options but ours."""
    stock = sys.modules["flox.aggregations"].AGGREGATIONS.get(agg.name) if agg.name in ROWS else None
    if stock is None or x.dtype.kind not in "biufc" or (x.dtype.kind == "c" and agg.name not in ("sum", "nansum")):
        return False
    given = tuple(agg.chunk)[: len(tuple(stock.chunk))]
    options = {"ddof"} if agg.name in SPREADS else set()
    return (
        _plain(given) == _plain(stock.chunk) and agg.finalize == stock.finalize and set(agg.finalize_kwargs) <= options
    )


def _plain(functions: Any) -> list[Any]:
    """What partials are of: flox copies its reductions before it changes them."""
    return [getattr(f, "func", f) for f in functions]


def _fill(agg: Any) -> Any:
    """What takes the place of results of too few elements; None where flox has to say."""
    fill, dtype = agg.fill_value["user"], np.dtype(agg.dtype["final"])
    if np.isscalar(fill):
        return fill
    return np.nan if dtype.kind in "fc" else None


def _is_nan(fill: Any) -> bool:
    return isinstance(fill, float | np.floating) and bool(np.isnan(fill))


def _enough(found: Any, counts: Any, least: int, fill: Any) -> Any:
    """Results of at least so many elements; ``fill`` for others."""
    return np.where(counts >= least, found, np.asarray(fill, found.dtype)[()])
