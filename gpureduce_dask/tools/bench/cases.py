"""What the kernel benchmark times: operators, dtypes, shapes, axes and views."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One row: an operator over an axis of an array. ``view`` names an entry of ``VIEWS``, ``mode`` is how a scan
    departs from the plain one."""

    op: str
    dtype: str
    shape: tuple[int, ...]
    axis: int | tuple[int, ...] | None = None
    view: str = ""
    mode: str = ""

    @property
    def label(self) -> str:
        shape = "x".join(map(str, self.shape))
        axis = "all" if self.axis is None else f"axis={self.axis}".replace(" ", "")
        return " ".join(filter(None, [self.op, self.dtype, f"({shape})", self.view, axis, self.mode]))

    @property
    def axes(self) -> tuple[int, ...]:
        if self.axis is None:
            return tuple(range(len(self.shape)))
        return self.axis if isinstance(self.axis, tuple) else (self.axis,)

    @property
    def results(self) -> int:
        """Of a reduction."""
        return math.prod(n for a, n in enumerate(self.shape) if a not in self.axes)

    def touched(self, itemsize: int) -> int:
        """Bytes that must be read: each once."""
        return math.prod(self.shape) * itemsize


VIEWS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "[:, ::2]": lambda x: x[:, ::2],
    "[::-1, ::-1]": lambda x: x[::-1, ::-1],
    "[:, 1:-1]": lambda x: x[:, 1:-1],
    ".T": lambda x: x.T,
}


def dtype_of(name: str) -> np.dtype[Any]:
    """A dtype by name, bfloat16 among them."""
    if name == "bfloat16":
        import ml_dtypes

        name = ml_dtypes.bfloat16
    return np.dtype(name)


EVERY = (
    "sum prod min max any all count_nonzero sumsq norm1 norm2 norminf mean var std moments argmin argmax ptp "
    "nansum nanprod nanmin nanmax nanmean nanvar nanstd nanargmin nanargmax"
).split()
WIDE = "float64 int64 complex64 complex128".split()
NARROW = "float16 bfloat16 int8 uint8 int16 bool".split()


def _line(dtype: str, gib: float) -> tuple[int, ...]:
    return (int(gib * 2**30) // dtype_of(dtype).itemsize,)


def cases(gib: float = 4) -> list[Case]:
    """The rows, for chunks of ``gib`` GiB."""
    rows = [Case(op, "float32", _line("float32", gib)) for op in EVERY]
    for dtype in ["int32", *WIDE, *NARROW]:
        ops = "sum mean max argmax var any all count_nonzero sumsq nansum".split()
        if dtype.startswith("complex"):
            ops = "sum mean var nansum sumsq".split()
        if dtype in ("bool", "int8", "uint8", "int16", "int32", "int64"):
            ops.remove("nansum")
        rows += [Case(op, dtype, _line(dtype, gib)) for op in ops]
    side = 1 << (round(math.log2(gib * 2**28)) // 2)
    square, cube = (int(gib * 2**28) // side, side), (1024, 1024, int(gib * 2**8))
    thin, odd = (int(gib * 2**23), 32), (int(gib * 2**28) // 3, 3)
    for op in "sum mean max argmax var std nansum nanmax nanmean nanvar nanargmax any ptp".split():
        rows += [Case(op, "float32", square, axis) for axis in (0, 1)]
    for op in "sum max argmax var".split():
        rows += [Case(op, "float32", thin, axis) for axis in (0, 1)]
        rows += [Case(op, "float32", cube, axis) for axis in (0, 1, 2, (0, 2), (0, 1), (1, 2))]
        rows += [Case(op, "float32", square, None, view) for view in VIEWS if view]
        rows += [Case(op, "float32", odd, axis) for axis in (0, 1)]
    rows += [Case("sum", "float32", square, axis, view) for axis in (0, 1) for view in VIEWS if view]
    rows += [Case("sum", "float32", (square[0], square[1] - 1), axis) for axis in (0, 1)]
    for dtype in ("float64", "float16", "uint8", "complex64"):
        shape = (square[0], int(gib * 2**30) // square[0] // np.dtype(dtype).itemsize)
        rows += [Case(op, dtype, shape, axis) for op in ("sum", "max", "var") for axis in (0, 1) if dtype[0] != "c"]
        rows += [Case("sum", dtype, shape, axis) for axis in (0, 1) if dtype[0] == "c"]
    rows += [Case("sum", "uint8", (square[0], square[1] * 4 - 1), axis) for axis in (0, 1)]
    return rows


SMALL = [Case(op, "float32", (1024,)) for op in "sum max argmax var".split()] + [Case("sum", "float32", (64, 64), 0)]
