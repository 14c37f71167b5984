"""flox's grouped reductions of dask arrays, which xarray's ``groupby`` and ``resample`` end in, as trees of ours.

flox has a fixed list of engines, which nobody can add to. But whatever the engine, a reduction of a
dask array comes to one function, with labels that are numbers from 0 on: it is wrapped, as functions of dask are.

Where every chunk holds most groups ("map-reduce") our tree keeps a state for every group, and gives one chunk of all
groups, as flox does. Where groups lie in few chunks each ("blockwise", "cohorts"), as those of ``resample`` do, a chunk
has states of its own groups alone, and the result has flox's chunks. There NumPy chunks are left to flox, which takes
no longer; it takes no CuPy chunks.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from dask.base import tokenize

from ..device import faults
from ..graph import deferred, reduce_tasks
from ..graph import graph_arrays as da
from ..graph.arguments import bind, key_prefix
from ..graph.groups import grouped
from ..graph.meta import blockwise, promises_device
from ..labels import by_chunk, stretches
from ..operators import table as operators
from ..operators.grouped import Bins, binned
from ..operators.monoid import Bound, Monoid
from ..operators.shared_states import COUNTS, SPREADS
from .decisions import Arguments, Fallback, Rule, check
from .match_stock import WithoutWarnings

# Operators by flox's names.
SAME = "sum prod mean var std min max nansum nanprod nanmean nanvar nanstd nanmin nanmax any all".split()
ROWS = {name: operators.get(name) for name in SAME}
ROWS |= {"nanfirst": operators.get("first"), "nanlast": operators.get("last"), "count": COUNTS["nancount"]}
ORDERED = frozenset({"nanfirst", "nanlast"})
OWN_NAN = ORDERED | {"nanmin", "nanmax"}  # which are NaN of nothing but NaN, without a count of what is there
COMPLEX = frozenset({"sum", "nansum", "mean", "nanmean"})
PLACES = {"flox.dask": "dask_groupby_agg", "flox.core": "dask_groupby_agg"}  # of newer versions, of older
NEEDED = frozenset({"array", "by", "agg", "expected_groups", "axis", "method"})  # of its arguments

# Elements of a group in a chunk, on average, from which on our tree takes no more time than flox, and states are small
# beside a chunk. Where labels are sorted, flox reduces each stretch where it lies.
DENSE, DENSE_SORTED = 4, 128  # Xeon, 2 cores, NumPy 2.4, flox 0.11, float32, 2026-11


def wrappers() -> dict[Callable[..., Any], Callable[[Arguments], Any]]:
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
    """The array of a call and its groups."""
    check(RULES, call)
    if not promises_device(call["array"]._meta):
        check(NUMPY_RULES, call)
    x, agg = call["array"], call["agg"]
    least, fill = agg.min_count, _fill(agg)
    run, groups, is_whole = _way(call)
    found = run(_without_warnings(ROWS[agg.name], x), **agg.finalize_kwargs).astype(agg.dtype["final"])
    if least > 1 or (least and not (is_whole and agg.name in OWN_NAN and _is_nan(fill))):
        if fill is None:
            raise Fallback("what takes the place of too few elements is flox's own")
        counts = run(_without_warnings(COUNTS["nancount"], x))
        found = da.map_blocks(_enough, found, counts, least, fill, dtype=found.dtype, meta=found._meta)
    return found, (groups,)


def _way(call: Arguments) -> tuple[Callable[..., Any], Any, bool]:
    """What makes an array of an operator, the groups in its order, and whether each of them has elements."""
    x, labels, groups = call["array"], call["by"], call["expected_groups"]
    local = _stretches(call)
    if local is not None:
        return partial(reduce_stretches, "groupby", x=x, labels=labels, groups=local), np.concatenate(local), True
    if cohorts := _cohorts(call):
        found = np.concatenate([np.asarray(each) for each in cohorts.values()])
        return partial(reduce_cohorts, "groupby", x=x, labels=labels, cohorts=cohorts), found, True
    count, is_whole, axes = len(groups), _is_whole(labels, len(groups)), tuple(call["axis"])
    fill = None if is_whole else 0

    def run(op: Monoid, **options: Any) -> Any:
        return grouped("groupby", op, x, labels, axes, count, None, fill, None, **options)

    return run, groups, is_whole


def _stretches(call: Arguments) -> list[Any] | None:
    """The groups of each chunk, where flox reduces each chunk to its own."""
    chunks = call["array"].chunks[-1]
    if call["method"] != "blockwise" or len(chunks) == 1 or call["axis"] != (call["array"].ndim - 1,):
        return None
    return stretches(call["by"], chunks)


def _cohorts(call: Arguments) -> Mapping[Any, Any]:
    """The groups of the chunks that hold them, where flox reduces these by themselves and each group has elements."""
    cohorts, labels = call.get("chunks_cohorts") or {}, call["by"]
    if call["method"] != "cohorts" or labels.ndim != 1:
        return {}
    groups = [group for each in cohorts.values() for group in each]
    return cohorts if np.isin(groups, labels).all() else {}


def _without_warnings(row: Monoid, x: Any) -> Monoid:
    """On the host, without NumPy's warnings, as the kernels are."""
    return row if promises_device(x._meta) else replace(row, finalise=WithoutWarnings(row.finalise))


def _are_labels_lazy(call: Arguments) -> bool:
    return not isinstance(call["by"], np.ndarray) or call["expected_groups"] is None


def _is_subset(call: Arguments) -> bool:
    return bool(len(call["axis"]) != call["by"].ndim)


def _is_unknown(call: Arguments) -> bool:
    return call["agg"].name not in ROWS


def _is_changed(call: Arguments) -> bool:
    """True for one of flox's reductions that was changed, or that has options but ours."""
    agg = call["agg"]
    stock = sys.modules["flox.aggregations"].AGGREGATIONS.get(agg.name)
    if stock is None:
        return True
    given = tuple(agg.chunk)[: len(tuple(stock.chunk))]
    options = {"ddof"} if agg.name in SPREADS else set()
    same = _plain(given) == _plain(stock.chunk) and agg.finalize == stock.finalize
    return not same or not set(agg.finalize_kwargs) <= options


def _is_complex(call: Arguments) -> bool:
    return bool(call["array"].dtype.kind == "c" and call["agg"].name not in COMPLEX)


def _is_ordered(call: Arguments) -> bool:
    return call["agg"].name in ORDERED and len(call["axis"]) > 1


def _has_gaps(call: Arguments) -> bool:
    if call["agg"].min_count or _is_whole(call["by"], len(call["expected_groups"])):
        return False
    return not _cohorts(call) and _stretches(call) is None


def _is_local(call: Arguments) -> bool:
    """True where flox does not keep a state for every group of every chunk; of one chunk with all groups both do."""
    is_one = all(call["array"].numblocks[a] == 1 for a in call["axis"])
    return call["method"] != "map-reduce" and not (is_one and _is_whole(call["by"], len(call["expected_groups"])))


def _is_counted(call: Arguments) -> bool:
    return bool(call["agg"].min_count > 1)


def _is_thin(call: Arguments) -> bool:
    labels = call["by"].ravel()
    least = DENSE_SORTED if bool(np.all(labels[1:] >= labels[:-1])) else DENSE
    elements = math.prod(max(call["array"].chunks[a]) for a in call["axis"])
    return bool(elements < least * len(call["expected_groups"]))


# What is left to flox, and why. The second table is of NumPy chunks alone: flox takes no CuPy chunks.
RULES = (
    Rule("its labels are a dask array, or not known yet", _are_labels_lazy),
    Rule("it reduces some of the axes of its labels", _is_subset),
    Rule("flox has it, and gr.grouped has not", _is_unknown),
    Rule("it is not as flox has it, or has options of its own", _is_changed),
    Rule("of complex elements sums, means and counts are taken", _is_complex),
    Rule("first and last are taken along one axis", _is_ordered),
    Rule("what a group without elements gets is flox's own", _has_gaps),
)
NUMPY_RULES = (
    Rule("each group lies in few chunks, and flox reduces these by themselves as fast", _is_local),
    Rule("a chunk holds few elements of each group: flox takes less time and memory", _is_thin),
    Rule("flox counts the elements of each group in the same tasks, for min_count=", _is_counted),
)


def _is_whole(labels: Any, count: int) -> bool:
    """True where every group has elements."""
    return bool((np.bincount(labels[labels >= 0].ravel(), minlength=count) > 0).all())


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


# ---- groups that lie in few chunks each


def reduce_stretches(name: str, op: Monoid, x: Any, labels: Any, groups: Sequence[Any], **options: Any) -> Any:
    """Each chunk along the last axis to its own groups, in order."""
    bound, axis = bind(op, (x.dtype,), None, options, name), x.ndim - 1
    parts = by_chunk(labels, x.chunks[-1])
    codes = np.concatenate([np.searchsorted(mine, part) for mine, part in zip(groups, parts, strict=True)])
    codes = da.from_array(codes.astype(np.min_scalar_type(-max(map(len, groups)))), chunks=(x.chunks[-1],))
    options = {} if deferred.fuses() else {"fuse": False}
    inds, key = tuple(range(x.ndim)), f"{key_prefix(name)}-{tokenize(x.name, codes.name, bound, options)}"
    run = partial(_reduce_stretch, name=name, bound=bound, device=promises_device(x._meta), **options)
    sizes = {axis: tuple(map(len, groups))}
    given = {"template": x._meta, "dtype": bound.result, "name": key, "adjust_chunks": sizes}
    return blockwise(run, inds, x, inds, codes, (axis,), **given)


@deferred.reads
@faults.task
def _reduce_stretch(block: Any, codes: Any, name: str, bound: Bound, **options: Any) -> Any:
    axes = (len(block.shape) - 1,)
    bins = Bins(name, (int(codes.max()) + 1,), axes)
    return reduce_tasks.reduce_whole(block, codes, bound=binned(bound, bins), axes=axes, keepdims=False, **options)


def reduce_cohorts(
    name: str, op: Monoid, x: Any, labels: Any, cohorts: Mapping[Iterable[int], Sequence[int]], **options: Any
) -> Any:
    """The groups of each cohort, which lie in the same chunks along the last axis, from these alone."""
    parts, found = by_chunk(labels, x.chunks[-1]), []
    for blocks, groups in cohorts.items():
        blocks = sorted(blocks)
        number = np.full(int(labels.max()) + 2, -1)
        number[list(groups)] = np.arange(len(groups))
        mine = number[np.concatenate([parts[b] for b in blocks])]
        few = x.blocks[(slice(None),) * (x.ndim - 1) + (blocks,)]
        found.append(grouped(name, op, few, mine, x.ndim - 1, len(groups), None, None, None, **options))
    return da.concatenate(found, axis=-1)
