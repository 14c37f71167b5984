"""Rows of the one-read benchmark whose elements are computed as they are read: maps, masks and weights.

A row's operator names the function; the second array, where there is one, is made of the first one's shape.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import jax_peers
from .cases import Case
from .kernels import Measured
from .peers import COMPILERS, Call, tensor
from .reference import agrees, wide

MODE = "fused"
FUSE, JAX = COMPILERS
MIDDLE = np.float32(0.25)


@dataclass(frozen=True)
class Row:
    """What is reduced: our function and operator, the same by an array library, and the second array's dtype."""

    function: Callable[..., Any]
    op: str
    same: Callable[..., Any]  # of the library, the arrays and the axis
    second: str = ""
    masked: bool = False


ROWS = {
    "x*x sum": Row(lambda x: x * x, "sum", lambda xp, x, axis: xp.sum(x * x, axis)),
    "(x-mu)**2 sum": Row(
        lambda x: (x - MIDDLE) ** 2, "sum", lambda xp, x, axis: xp.sum((x - float(MIDDLE)) ** 2, axis)
    ),
    "x>2 any": Row(lambda x: x > 2, "any", lambda xp, x, axis: xp.any(x > 2, axis)),
    "log1p(x*x) mean": Row(lambda x: np.log1p(x * x), "mean", lambda xp, x, axis: xp.mean(xp.log1p(x * x), axis)),
    "x*y sum": Row(np.multiply, "sum", lambda xp, x, y, axis: xp.sum(x * y, axis), "float32"),
    "weighted mean": Row(
        lambda x, w: (x, w), "average", lambda xp, x, w, axis: xp.sum(x * w, axis) / xp.sum(w, axis), "float32"
    ),
    "where sum": Row(
        lambda x, m: np.where(m, x, np.float32(0)),
        "sum",
        lambda xp, x, m, axis: xp.sum(xp.where(m, x, xp.zeros_like(x[:1])), axis),
        "bool",
    ),
    "where var": Row(lambda x, m: (x, m), "var", lambda xp, x, m, axis: _var(xp, x, m, axis), "bool", True),
}


def _var(xp: Any, x: Any, m: Any, axis: Any) -> Any:
    count = xp.sum(m, axis)
    mean = xp.sum(x * m, axis) / count
    return xp.sum((x - mean) ** 2 * m, axis) / count


def fused_cases(gib: float) -> list[Case]:
    """All functions over all elements, and the first few by rows and by columns."""
    side = 1 << (round(math.log2(gib * 2**28)) // 2)
    line, square = int(gib * 2**28), (int(gib * 2**28) // side, side)
    rows = [Case(name, "float32", (line,), None, mode=MODE) for name in ROWS]
    few = ("x*x sum", "x>2 any", "x*y sum", "where sum")
    return rows + [Case(name, "float32", square, axis, mode=MODE) for name in few for axis in (0, 1)]


def fused(case: Case, x: Any) -> Measured:
    """One chunk, or two, reduced to results by the chunk protocol's device side."""
    from ...device import reduce as device_reduce
    from ...expressions import tracer
    from ...expressions.mapped import mapped
    from ...operators import table as operators

    row = ROWS[case.op]
    chunks = _arrays(row, x)
    program = tracer.trace(row.function, tuple(c.dtype for c in chunks))
    assert program is not None
    values = program.results[:-1] if row.masked else program.results
    bound = mapped(program, operators.get(row.op).bind(*values), row.masked)

    def is_right(ours: Any) -> bool:
        import cupy

        given = (wide(c) if c.dtype == np.float32 and row.second else c for c in chunks)
        wanted = row.same(_Wide(cupy), *given, case.axis)
        return agrees(ours.reshape(wanted.shape), wanted)

    read = sum(case.touched(c.itemsize) for c in chunks)
    written = case.results * bound.result.itemsize
    return Measured(lambda: device_reduce.reduce(chunks, bound, case.axes, final=True), is_right, read, written)


class _Wide:
    """CuPy, whose sums of narrow floats are wide."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy, name)

    def sum(self, x: Any, axis: Any) -> Any:
        return self._cupy.sum(x, axis, dtype="f8" if x.dtype.kind == "f" else None)

    def mean(self, x: Any, axis: Any) -> Any:
        return self._cupy.mean(x, axis, dtype="f8")


def _arrays(row: Row, x: Any) -> tuple[Any, ...]:
    return (x, _second(row.second, x.shape)) if row.second else (x,)


@functools.lru_cache(maxsize=2)
def _second(dtype: str, shape: tuple[int, ...]) -> Any:
    """Weights that are not zero, or a mask that is true for three elements in four."""
    import cupy

    given = cupy.random.default_rng(8).random(shape, dtype="f4")
    return given < 0.75 if dtype == "bool" else given + np.float32(0.5)


def cupy_call(op: str, x: Any, axis: Any) -> Call:
    """CuPy, an operation at a time."""
    import cupy

    row = ROWS[op]
    return functools.partial(row.same, cupy, *_arrays(row, x), axis)


def fuse_call(op: str, x: Any, axis: Any) -> Call:
    """CuPy's fusion of the whole function."""
    import cupy

    row = ROWS[op]
    arrays, fuse = _arrays(row, x), cupy.fuse(kernel_name="fused")
    if len(arrays) == 1:
        return functools.partial(fuse(lambda x: row.same(cupy, x, axis)), *arrays)
    return functools.partial(fuse(lambda x, y: row.same(cupy, x, y, axis)), *arrays)


def torch_call(op: str, x: Any, axis: Any) -> Call:
    """torch, an operation at a time."""
    row = ROWS[op]
    arrays = [tensor(a) for a in _arrays(row, x)]
    if any(a is None for a in arrays):
        return None
    import torch

    return functools.partial(row.same, torch, *arrays, axis)


def jax_call(op: str, x: Any, axis: Any) -> Call:
    """The whole function by XLA."""
    row = ROWS[op]
    return jax_peers.compiled(lambda jnp, *arrays: row.same(jnp, *arrays, axis), *_arrays(row, x))


PEERS = {"CuPy": cupy_call, "torch": torch_call, FUSE: fuse_call, JAX: jax_call}
