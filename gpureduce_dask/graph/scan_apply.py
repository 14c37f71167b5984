"""From what a caller passes to a scan tree: coerce, check, bind, and hand to stock dask what belongs there."""

from __future__ import annotations

import math
import operator
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .. import chunk, dtypes
from ..distributed.private import write_to
from ..dtypes import refuse
from ..errors import ArgumentError, AxisError, EmptyError, message
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid
from . import graph_arrays as da
from . import meta
from .arguments import align, as_dask, bind, normalise_axes, operands
from .meta import foreign, loses_nan, require_plain
from .scan import scan_array, scan_flat
from .scan_tasks import Scan

METHODS = ("sequential", "blelloch")  # dask's
STOCK = ("cumsum", "cumprod", "nancumsum", "nancumprod")  # what stock dask has for elements that no row takes

SKIPPING = ("nancumsum", "nancumprod", "scan by nansum", "scan by nanprod")


def apply(
    op: str | Monoid,
    x: Any,
    axis: Any,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    segments: Any = None,
    initial: bool = False,
    out: Any = None,
    name: str | None = None,
    method: str = METHODS[0],
) -> Any:
    """Scan array-likes by an operator; ``name`` is the public function's. ``x`` is a tuple for a monoid of arity 2."""
    monoid = operators.get(op)
    key = name or f"scan-{monoid.name}"
    name = name or f"scan by {monoid.name}"
    if method not in METHODS:
        raise ArgumentError(message(name, f"method {method!r}", " or ".join(METHODS), "Leave it out."))
    arrays = operands(name, monoid, x)
    if _is_foreign(arrays, dtype, name):
        return getattr(da, name)(arrays[0], axis=axis, dtype=dtype, out=out, method=method)
    bound = bind(monoid, tuple(a.dtype for a in arrays), dtype, {}, name)
    result = scan_bound(name, key, align(name, arrays), bound, axis, exclusive, reverse, segments, initial)
    return write_to(out, result)


def scan_bound(
    name: str,
    key: str,
    arrays: tuple[Any, ...],
    bound: Bound,
    axis: Any,
    exclusive: bool = False,
    reverse: bool = False,
    segments: Any = None,
    initial: bool = False,
) -> Any:
    """Scan dask arrays of one chunking by a bound monoid; ``key`` names the graph's keys."""
    if exclusive and initial:
        remedy = "Both begin with the initial value."
        raise ArgumentError(message(name, "exclusive=True and include_initial=True", "one of them", remedy))
    if exclusive or initial:
        _require_answer_for_nothing(name, bound)
    scan = Scan(bound, 0, exclusive, reverse, initial)
    if axis is None and arrays[0].ndim > 1:
        if segments is not None:
            raise ArgumentError(message(name, "segments and no axis", "segments along an axis", "Pass axis=."))
        return scan_flat(name, arrays, replace(scan, flat=True), key)
    if axis is None:
        arrays, axis = tuple(a.reshape(1) if a.ndim == 0 else a for a in arrays), 0
    try:
        number = axis if isinstance(axis, bool) else operator.index(axis)
    except TypeError:
        raise AxisError(message(name, f"axis {axis!r}", "None or one integer", "Scan one axis at a time.")) from None
    scan = replace(scan, axis=normalise_axes(name, number, arrays[0].ndim)[0])
    starts = None if segments is None else segment_starts(name, segments, arrays[0], scan.axis, reverse)
    return scan_array(arrays, scan, starts, key)


def _is_foreign(arrays: tuple[Any, ...], dtype: Any, name: str) -> bool:
    """True for what goes to stock dask: foreign chunks, and elements that no row takes."""
    given = [a.dtype for a in arrays] + ([] if dtype is None else [np.dtype(dtype)])
    ours = all(meta.is_ours(a._meta) for a in arrays)
    if name in SKIPPING and loses_nan(arrays, dtype):
        if name in STOCK:
            return True
        raise refuse(name, arrays[0].dtype, f"no dtype={dtype} for what may be NaN", "Convert the result with astype.")
    if ours and all(map(dtypes.is_native, given)):
        return False
    if not ours and name not in STOCK:
        raise foreign(name, arrays)
    return name in STOCK and (not ours or any(d.kind in "Ofc" for d in given if not dtypes.is_native(d)))


def _require_answer_for_nothing(name: str, bound: Bound) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chunk.finalise(bound.identities((1,)), bound)
    except EmptyError as error:
        expected = "neither, for an operator that has no answer for nothing"
        remedy = "Scan inclusively, and drop or shift the results."
        raise ArgumentError(message(name, "exclusive=True or include_initial=True", expected, remedy)) from error


def segment_starts(name: str, segments: Any, x: Any, axis: int, reverse: bool) -> Any:
    """A dask array that is true where a segment starts, in the chunks of ``x`` or of size 1 along other axes. Booleans
    say so themselves; any other labels start a segment wherever they differ from the one before."""
    require_plain(name, "segments", segments)
    flags = as_dask(name, segments)
    if flags.ndim == 1 and x.ndim > 1:
        flags = flags[tuple(slice(None) if a == axis else None for a in range(x.ndim))]
    pairs = enumerate(zip(flags.shape, x.shape, strict=False))
    fits = (m == n or math.isnan(m) or math.isnan(n) or (m == 1 and a != axis) for a, (m, n) in pairs)
    if flags.ndim != x.ndim or not all(fits):
        expected = f"the array's shape {x.shape}, or its size along the axis"
        received = f"segments of shape {np.shape(segments)}"
        raise ArgumentError(message(name, received, expected, "Broadcast or slice them."))
    unknown = any(math.isnan(n) for a in (flags, x) for n in a.shape)
    is_cut_alike = all(f in (1, n) for f, n in zip(flags.numblocks, x.numblocks, strict=True))
    if unknown and (flags.dtype != bool or not is_cut_alike):
        remedy = "Call compute_chunk_sizes() first."
        raise ArgumentError(message(name, "unknown chunk sizes", "booleans in the same chunks", remedy))
    if flags.dtype != bool:
        flags = _changes(flags, axis, reverse)
    chunks = {a: c for a, c in enumerate(x.chunks) if flags.shape[a] != 1 or a == axis}
    return flags if unknown else flags.rechunk(chunks)


def _changes(labels: Any, axis: int, reverse: bool) -> Any:
    """Where labels differ from those before them, in the order of the scan. The first starts a segment or not: nothing
    stands before it."""

    def along(*at: int | None) -> Any:
        return labels[(slice(None),) * axis + (slice(*at),)]

    differ = along(1, None) != along(None, -1)
    edge = along(None, 1) != along(None, 1)
    return da.concatenate([differ, edge] if reverse else [edge, differ], axis=axis)
