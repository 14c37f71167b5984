"""``python -m gpureduce_dask bench kernels --scans``: scans as rows of the kernel benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...operators import table as operators
from .cases import Case
from .kernels import Measured, Suite
from .reference import agrees, doubled, wide
from .scan_cases import SEGMENT, SMALL_SCANS, scan_cases
from .scan_peers import SCAN_PEERS

PIECES = 16  # of an array, that are compared one after another: the comparison makes temporaries
JOINS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def scan(case: Case, x: Any) -> Measured:
    """One chunk scanned, by the chunk protocol's device side."""
    from ...device import scan as device_scan

    bound = operators.get(case.op).bind(x.dtype)
    (axis,) = case.axes
    resets = segment_starts(x, axis) if case.mode == "segments" else None
    options: dict[str, Any] = {"with_total": False, "resets": resets}
    if case.mode in ("exclusive", "reverse"):
        options[case.mode] = True
    return Measured(
        lambda: device_scan.scan((x,), bound, axis, **options)[0],
        lambda ours: is_right(case, x, ours),
        case.touched(x.itemsize) + (x.size if case.mode == "segments" else 0),
        x.size * bound.result.itemsize,
    )


SCANS = Suite("scans", "C", scan_cases, SMALL_SCANS, scan, SCAN_PEERS, lambda read, written: read != written)


def segment_starts(x: Any, axis: int) -> Any:
    """True for every SEGMENT-th element along an axis."""
    import cupy

    starts = cupy.zeros(x.shape, bool)
    starts[(slice(None),) * axis + (slice(None, None, SEGMENT),)] = True
    return starts


def is_right(case: Case, x: Any, ours: Any) -> bool:
    """Whether a scan agrees with one by doubling steps, in at least the accumulator's precision."""
    wanted = expected_scan(case, x)
    step = -(-x.shape[0] // PIECES)
    return all(agrees(ours[i : i + step], wanted[i : i + step]) for i in range(0, x.shape[0], step))


def expected_scan(case: Case, x: Any) -> Any:
    """The running results by another method than the kernels'."""
    (axis,) = case.axes
    if case.mode == "reverse":
        ahead = (slice(None),) * axis + (slice(None, None, -1),)
        return expected_scan(Case(case.op, case.dtype, case.shape, axis), x[ahead])[ahead]
    if case.mode == "segments":
        shape = (*x.shape[:axis], x.shape[axis] // SEGMENT, SEGMENT, *x.shape[axis + 1 :])
        return doubling("add", wide(x).reshape(shape), axis + 1).reshape(x.shape)
    found = _inclusive(case.op, x, axis)
    if case.mode == "exclusive":
        shifted = found.copy()
        shifted[(slice(None),) * axis + (slice(1, None),)] = found[(slice(None),) * axis + (slice(-1),)]
        shifted[(slice(None),) * axis + (slice(1),)] = 0
        return shifted
    return found


def _inclusive(op: str, x: Any, axis: int) -> Any:
    op = op.removeprefix("nan")  # the benchmark's data has no NaN; the tests have
    if op == "last":
        return x
    if op in ("mean", "var"):
        return _moments(op, x, axis)
    if op in ("sum", "prod"):
        result = operators.get(op).bind(x.dtype).result
        return doubling(JOINS[op], x.astype(result) if x.dtype.kind in "biu" else wide(x), axis)
    return doubling(JOINS[op], x.astype("f4") if x.dtype.name == "bfloat16" else x, axis)


def _moments(op: str, x: Any, axis: int) -> Any:
    """Running means or variances from running sums of the distances to each line's first element."""
    import cupy

    first = wide(x[(slice(None),) * axis + (slice(1),)])
    away = wide(x) - first
    counts = cupy.arange(1, x.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    means = doubling("add", away, axis) / counts
    if op == "mean":
        return means + first
    return doubling("add", away * away, axis) / counts - means * means


def doubling(join: str, values: Any, axis: int) -> Any:
    """A scan by one of CuPy's functions of two arrays."""
    import cupy

    ufunc: Callable[..., Any] = getattr(cupy, join)
    (found,) = doubled((values,), lambda a, b: (ufunc(a[0], b[0]),), axis)
    return found
