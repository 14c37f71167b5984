"""What the benchmark of scan kernels times: operators, dtypes, shapes, axes, views and modes."""

from __future__ import annotations

import math

from ...operators import table as operators
from .cases import VIEWS, Case, dtype_of

LINE = {
    "float32": "sum prod max min mean var nansum last any",
    "float64": "sum prod max var",
    "int32": "sum max",
    "int64": "sum max",
    "complex64": "sum prod",
    "float16": "sum max",
    "bfloat16": "sum max",
    "int16": "sum max",
    "uint8": "sum max",
    "bool": "any all",
}
MODES = ("exclusive", "reverse", "segments")
SEGMENT = 1024  # elements of each, where there are segments


def widest(op: str, dtype: str) -> int:
    """Bytes of an element or of a result, whichever has more."""
    bound = operators.get(op).bind(dtype_of(dtype))
    return max(bound.dtypes[0].itemsize, bound.result.itemsize)


def scan_cases(gib: float = 4) -> list[Case]:
    """The rows: the larger of array and result takes ``gib`` GiB."""
    nbytes = int(gib * 2**30)
    rows = [Case(op, d, (nbytes // widest(op, d),), 0) for d, ops in LINE.items() for op in ops.split()]
    side = 1 << (round(math.log2(gib * 2**28)) // 2)
    square, cube = (nbytes // 4 // side, side), (1024, 1024, nbytes >> 22)
    for op in ("sum", "max", "var"):
        rows += [Case(op, "float32", square, axis) for axis in (0, 1)]
    for op in ("sum", "max"):
        for shape in ((nbytes >> 7, 32), (32, nbytes >> 7), cube):
            rows += [Case(op, "float32", shape, axis) for axis in range(len(shape))]
    for shape in ((nbytes // 12, 3), (3, nbytes // 12), (nbytes // 400, 100), (square[0], square[1] - 1)):
        rows += [Case("sum", "float32", shape, axis) for axis in (0, 1)]
    for op, dtype in (("sum", "float64"), ("sum", "float16"), ("sum", "complex64"), ("sum", "int32"), ("max", "uint8")):
        rows += [Case(op, dtype, (square[0], nbytes // square[0] // widest(op, dtype)), axis) for axis in (0, 1)]
    rows += [Case("sum", "float32", square, axis, view) for view in VIEWS if view for axis in (0, 1)]
    for mode in MODES:
        rows += [Case("sum", "float32", (nbytes // 4,), 0, mode=mode)]
        rows += [Case("sum", "float32", square, axis, mode=mode) for axis in (0, 1)]
    return rows


SMALL_SCANS = [Case(op, "float32", (1024,), 0) for op in ("sum", "max")] + [Case("sum", "float32", (64, 64), 0)]
