"""Expected results, by CuPy in float64 or integer arithmetic and by another method than the kernels'."""

from __future__ import annotations

from typing import Any

import numpy as np


def wide(x: Any) -> Any:
    """In the widest dtype of its kind."""
    return x.astype("c16" if x.dtype.kind == "c" else "f8")


def _var(x: Any, axis: Any) -> Any:
    import cupy

    away = wide(x)
    away -= away.mean(axis=axis, keepdims=True)
    if away.dtype.kind == "c":
        away = away.real**2 + away.imag**2
    else:
        cupy.multiply(away, away, out=away)
    return away.mean(axis=axis)


def expected(op: str, x: Any, axis: Any) -> Any:
    """The result of ``op`` as a CuPy array, in a dtype at least as wide as ours; None where there is no reference."""
    import cupy as cp

    base = op.removeprefix("nan") if op.startswith("nan") else op
    if op.startswith("nan") and base in ("sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax"):
        op = base  # the benchmark's data has no NaN; the tests have
    if x.dtype.kind in "biu" and op in ("sum", "prod"):
        return getattr(cp, op)(x, axis=axis, dtype="u8" if x.dtype.kind == "u" else "i8")
    if op in ("sum", "prod", "mean"):
        return getattr(wide(x), op)(axis=axis)
    if op in ("var", "std"):
        var = _var(x, axis)
        return cp.sqrt(var) if op == "std" else var
    if op in ("min", "max", "ptp", "any", "all", "argmin", "argmax"):
        return getattr(cp, op)(x.astype("f4") if x.dtype.name == "bfloat16" else x, axis=axis)
    if op == "count_nonzero":
        return (x != 0).sum(axis=axis)
    if op in ("sumsq", "norm1", "norm2", "norminf"):
        if x.dtype.kind in "biu" and op == "sumsq":
            long = x.astype("u8" if x.dtype.kind == "u" else "i8")
            return (long * long).sum(axis=axis)
        size = cp.abs(wide(x))
        if op == "norm1":
            return size.sum(axis=axis)
        if op == "norminf":
            return size.max(axis=axis)
        size *= size
        return size.sum(axis=axis) if op == "sumsq" else cp.sqrt(size.sum(axis=axis))
    return None


def agrees(ours: Any, wanted: Any) -> bool:
    """Equal for integers and bool; for floats within rounding to our dtype, plus a little for the reference's own."""
    import cupy as cp

    if ours.dtype.kind in "biu" or wanted.dtype.kind in "b":
        return bool((ours == wanted.astype(ours.dtype)).all())
    name = ours.dtype.name
    epsilon = 2.0**-8 if name == "bfloat16" else float(np.finfo(ours.dtype).eps)
    rounded = wide(wanted.astype(ours.dtype))
    error = cp.abs(wide(ours) - rounded)
    bound = cp.abs(rounded) * max(2 * epsilon, 1e-9)
    return bool(((error <= bound) | (wide(ours) == rounded)).all())
