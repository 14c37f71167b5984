"""Expected results, by CuPy in float64 or integer arithmetic and by another method than the kernels'.

:func:`expected` and :func:`agrees` serve the benchmark's fixed rows. :func:`reduced`, :func:`scanned` and
:func:`is_near` take any operator, axes and view: elements become states in the widest dtype of their kind, which are
folded by halves or scanned by doubled steps, element by element, so that nothing is shared with the kernels and a GPU
takes a few passes over the array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


# ---- any operator, axes and view

MOST_ELEMENTS = 1 << 27  # that are made into states at once: each takes 8 to 24 bytes, and a copy of them
UNIT = 2.0**-53
LATE = 1 << 62  # the position of an element that does not count, where the earliest does

States = tuple[Any, ...]
Join = Callable[[States, States], States]
ORDERED = ("argmin", "argmax", "first", "last")


@dataclass(frozen=True)
class Expected:
    """Expected results, and how far from them ours may be before they are rounded to their dtype: NaN where nothing but
    rounding is left of a result."""

    values: Any
    slack: Any


def reduced(op: str, x: Any, axes: tuple[int, ...], result: Any) -> Expected:
    """The reduction of ``x`` to results of a dtype, of the kept axes' shape in C order."""
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    length = math.prod(x.shape[a] for a in axes)
    split, join = _longest(x), _join(op)
    found: list[States] = []
    top = 0.0
    for start, piece in _pieces(x, split):
        lines = piece.transpose(*axes, *kept).reshape(math.prod(piece.shape[a] for a in axes), -1)
        states, highest = _lift(op, lines, _positions(x.shape, piece.shape, axes, split, start))
        found.append(tuple(s.reshape(tuple(piece.shape[a] for a in kept)) for s in halved(states, join)))
        top = max(top, highest)
    if split in axes:
        states = found[0]
        for more in found[1:]:
            states = join(states, more)
    else:
        states = tuple(_concatenate(parts, kept.index(split)) for parts in zip(*found, strict=True))
    return _finish(op, states, length, length, top, result, math.prod(x.shape[a] for a in axes if not x.strides[a]))


def scanned(op: str, x: Any, axis: int, result: Any) -> Expected:
    """The running results of ``x`` along an axis, of its shape."""
    import cupy

    length = x.shape[axis]
    counts = cupy.arange(1, length + 1).reshape(_along(x.ndim, axis))
    split, join = _longest(x, axis), _join(op)
    values, slacks = [], []
    for _, piece in _pieces(x, split) if x.ndim > 1 else [(0, x)]:  # a line stays whole, however long it is
        # Steps along the first axis of a contiguous array are blocks of memory, whatever the view looks like.
        first = piece.transpose(axis, *(a for a in range(x.ndim) if a != axis))
        back = [a + 1 for a in range(axis)] + [0] + list(range(axis + 1, x.ndim))
        states, top = _lift(op, cupy.ascontiguousarray(first), cupy.arange(length).reshape(_along(x.ndim, 0)))
        states = tuple(s.transpose(back) for s in doubled(states, join, 0))
        expected = _finish(op, states, counts, length, top, result)
        values.append(expected.values)
        slacks.append(cupy.broadcast_to(cupy.asarray(expected.slack), expected.values.shape))
    return Expected(_concatenate(values, split), _concatenate(slacks, split))


def is_near(ours: Any, expected: Expected) -> bool:
    """True for integers, bool and positions that are equal, and for floats within the reference's own error and the
    rounding to their dtype; NaN and what leaves the dtype's range where the other has it."""
    import cupy as cp

    if ours.shape != expected.values.shape:
        return False
    slack = cp.broadcast_to(cp.asarray(expected.slack), ours.shape)
    if ours.ndim == 0:
        return _all_near(ours, expected.values, slack)
    split = _longest(ours)
    for (_, mine), (_, there), (_, off) in zip(
        *(_pieces(each, split) for each in (ours, expected.values, slack)), strict=True
    ):
        if not _all_near(mine, there, off):
            return False
    return True


def _all_near(ours: Any, values: Any, slack: Any) -> bool:
    import cupy as cp

    if ours.dtype.kind in "biu":
        return bool((ours == values.astype(ours.dtype)).all())
    epsilon, least = _precision(ours.dtype)
    mine, there = wide(ours), wide(values)
    near = cp.abs(mine - there) <= epsilon * cp.abs(there) + slack + least
    near |= mine == wide(there.astype(ours.dtype))  # infinities among them
    near |= (cp.isnan(mine) & cp.isnan(there)) | cp.isnan(slack)
    return bool(near.all())


def halved(states: States, join: Join) -> States:
    """States of shape (n, cells) folded along the first axis, which keeps size 1: by halves, so that each step works on
    two blocks of memory, and sums are pairwise."""
    length = states[0].shape[0]
    while length > 1:
        half = length // 2
        folded = join(tuple(s[:half] for s in states), tuple(s[half : 2 * half] for s in states))
        if length % 2:
            last = join(tuple(s[:1] for s in folded), tuple(s[-1:] for s in states))
            folded = tuple(_with_first(s, one) for s, one in zip(folded, last, strict=True))
        states, length = folded, half
    return states


def _with_first(array: Any, first: Any) -> Any:
    array[:1] = first
    return array


def doubled(states: States, join: Join, axis: int) -> States:
    """A scan in as many passes as the length has binary digits: each element with that 1, 2, 4, … before it."""
    ahead, step = (slice(None),) * axis, 1
    while step < states[0].shape[axis]:
        before, behind = (*ahead, slice(-step)), (*ahead, slice(step, None))
        joined = join(tuple(s[before] for s in states), tuple(s[behind] for s in states))
        states = tuple(_concatenate([s[(*ahead, slice(step))], j], axis) for s, j in zip(states, joined, strict=True))
        step *= 2
    return states


def _concatenate(parts: Any, axis: int) -> Any:
    import cupy

    return parts[0] if len(parts) == 1 else cupy.concatenate(list(parts), axis)


def _along(ndim: int, axis: int) -> list[int]:
    return [-1 if a == axis else 1 for a in range(ndim)]


def _longest(x: Any, but: int | None = None) -> int:
    """The axis along which an array is cut: another than a scan's, where there is one."""
    axes = [a for a in range(x.ndim) if a != but] or [0]
    return max(axes, key=lambda a: int(x.shape[a]))


def _pieces(x: Any, axis: int) -> Iterator[tuple[int, Any]]:
    """Parts of an array along an axis, small enough to be made into states, and where each begins."""
    step = max(1, min(x.shape[axis], MOST_ELEMENTS * x.shape[axis] // max(x.size, 1)))
    for start in range(0, x.shape[axis], step):
        yield start, x[(slice(None),) * axis + (slice(start, start + step),)]


def _positions(whole: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...], split: int, start: int) -> Any:
    """The positions of a piece's elements in C order over the reduced axes of the whole array, a column."""
    import cupy

    found = cupy.zeros((1,) * len(axes), "i8")
    for i, a in enumerate(axes):
        step = math.prod(whole[b] for b in axes[i + 1 :])
        line = cupy.arange(shape[a]) + (start if a == split else 0)
        found = found + (line * step).reshape(_along(len(axes), i))
    return found.reshape(-1, 1)


def _precision(dtype: Any) -> tuple[float, float]:
    """The distance from 1 to the next number, and the least number above 0."""
    if dtype.name == "bfloat16":
        return 2.0**-7, 2.0**-133
    found = np.finfo(dtype)
    return float(found.eps), float(found.smallest_subnormal)


def _join(op: str) -> Join:
    """How states of an operator meet; the first are the earlier."""
    import cupy as cp

    base = op.removeprefix("nan")
    if base in ORDERED:
        return lambda a, b: _ordered(base, a, b)
    if base == "prod":
        return _product
    names = {
        "min": ("fmin" if op != base else "minimum",),
        "max": ("fmax" if op != base else "maximum",),
        "ptp": ("minimum", "maximum"),
        "norminf": ("maximum",),
        "any": ("logical_or",),
        "all": ("logical_and",),
    }.get(base)
    if names is None:
        return lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True))
    ufuncs = [getattr(cp, name) for name in names]
    return lambda a, b: tuple(f(x, y) for f, x, y in zip(ufuncs, a, b, strict=True))


def _ordered(base: str, a: States, b: States) -> States:
    """Of an element and its position on either side: the one that is asked for."""
    import cupy as cp

    (x, i), (y, j) = a, b
    if base in ("first", "last"):
        takes = j < i if base == "first" else j > i
    else:
        takes = _is_less(y, x) if base == "argmin" else _is_less(x, y)
        takes |= (x == y) & (j < i)
    return cp.where(takes, y, x), cp.where(takes, j, i)


def _is_less(x: Any, y: Any) -> Any:
    if x.dtype.kind != "c":
        return x < y
    return (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))


def _product(a: States, b: States) -> States:
    """Of floats a significand and an exponent, so that nothing overflows on the way."""
    import cupy as cp

    if len(a) == 1:
        return (a[0] * b[0],)
    significand, exponent = cp.frexp(a[0] * b[0])
    return significand, a[1] + b[1] + exponent


def _lift(op: str, x: Any, at: Any) -> tuple[States, float]:
    """The states of elements, contiguous, and the largest of them by size where that bounds an error.

    Moments are made of power sums about 0: the judge's data lie about it, or on one side of it.
    """
    import cupy as cp

    base = op.removeprefix("nan")
    plain = cp.ascontiguousarray(x.astype("f4") if x.dtype.name == "bfloat16" else x)
    missing = cp.isnan(plain) if plain.dtype.kind in "fc" else None
    if base in ("any", "all", "count_nonzero"):
        found = plain != 0
        return (found.astype("i8") if base == "count_nonzero" else found,), 0.0
    if base in ORDERED:
        at = cp.ascontiguousarray(cp.broadcast_to(at, x.shape))
        if missing is not None and base in ("first", "last"):
            at = cp.where(missing, LATE if base == "first" else -1, at)
        elif missing is not None and op != base:
            plain = cp.where(missing, plain.dtype.type(np.inf if base == "argmin" else -np.inf), plain)
        return (plain, at), 0.0
    if base in ("min", "max"):
        return (plain,), 0.0
    if base == "ptp":
        return (plain, plain), 0.0
    y = _numbers(base, plain)
    if missing is not None and op != base:
        y = cp.where(missing, y.dtype.type(base == "prod"), y)
    if base == "prod":
        return (cp.frexp(y) if y.dtype.kind == "f" else (y,)), 0.0
    size = cp.abs(y)
    top = 0.0 if size.dtype.kind in "iu" else float(size.max())
    powers = _powers(base, y, size)
    if op != base and base != "sum":
        present = cp.ones(y.shape, "f8") if missing is None else cp.where(missing, 0.0, 1.0)
        powers = (*powers, present)
    return powers, top


def _powers(base: str, y: Any, size: Any) -> States:
    """What is added of each element and of its absolute value; of ``norminf`` the largest is taken."""
    if base in ("norm1", "norminf"):
        return (size,)
    if base in ("sumsq", "norm2"):
        return (y * y if y.dtype.kind in "iu" else size * size,)
    if base in ("var", "std", "moment"):
        return y, size * size
    if base in ("skew", "kurtosis"):
        square = y * y
        return (y, square, square * y) if base == "skew" else (y, square, square * y, square * square)
    return (y,)


def _numbers(base: str, x: Any) -> Any:
    """Elements in the widest dtype of what an operator adds."""
    if x.dtype.kind in "biu" and base in ("sum", "prod", "sumsq"):
        return x.astype("u8" if x.dtype.kind == "u" else "i8")
    return wide(x)


def _finish(op: str, states: States, counts: Any, length: int, top: float, result: Any, repeats: int = 1) -> Expected:
    """Results of states, and how far off sums may be: by rounding at random, of as many terms as a line has, of which
    the largest is ``top``. Variances and moments of 16 bits are made in float32."""
    import cupy as cp

    base = op.removeprefix("nan")
    error = (64 + math.sqrt(length)) * UNIT
    first = states[0]
    if base in ("any", "all", "count_nonzero", "min", "max"):
        return Expected(first, 0.0)
    if base == "ptp":
        kind = wide if first.dtype.kind == "f" else lambda a: a.astype(result)
        return Expected(kind(states[1]) - kind(first), 0.0)
    if base in ("argmin", "argmax"):
        return Expected(states[1], 0.0)
    if base in ("first", "last"):
        seen = (states[1] >= 0) & (states[1] < LATE)
        return Expected(first if first.dtype.kind in "biu" else cp.where(seen, first, first.dtype.type(np.nan)), 0.0)
    if base == "prod":
        found = first if len(states) == 1 else cp.ldexp(*states)
        # Every rounding of a product stays in it, whatever the order: two orders of 2^18 float64 differ by 0.6 of the
        # root of their number on average, which is no error of either. Those of repeated lines are the same.
        off = (64 + 4 * math.sqrt(length * repeats)) * UNIT
        return Expected(found, 0.0 if found.dtype.kind in "iu" else off * cp.abs(found))
    if base in ("sum", "sumsq", "norm1", "norminf"):
        return Expected(first, error * length * top ** (2 if base == "sumsq" else 1))
    if base == "norm2":
        return _root(first, error * length * top**2)
    if op != base:
        counts = states[-1]
    if base == "mean":
        return Expected(first / counts, error * top)
    if result.itemsize == 2:
        error = error + 2.0**-20
    return _moment(base, first / counts, [s / counts for s in states[1:]], error, top)


def _root(square: Any, slack: float) -> Expected:
    """The root of a sum that may be off by so much."""
    import cupy as cp

    root = cp.sqrt(square)
    return Expected(root, slack / cp.maximum(root, math.sqrt(slack) or 1.0))


def _moment(base: str, mean: Any, powers: list[Any], error: float, top: float) -> Expected:
    """Central moments of mean powers about 0."""
    import cupy as cp

    square = cp.maximum(powers[0] - cp.abs(mean) ** 2, 0)
    if base in ("var", "moment"):
        return Expected(square, 4 * error * top**2)
    if base == "std":
        return _root(square, 4 * error * top**2)
    order = 3 if base == "skew" else 4
    central = powers[1] - 3 * mean * powers[0] + 2 * mean**3
    if order == 4:
        central = powers[2] - 4 * mean * powers[1] + 6 * mean**2 * powers[0] - 3 * mean**4
    known = cp.where(square > 64 * error * top**2, square, np.nan)
    found = central / known ** (order / 2) - (3 if order == 4 else 0)
    return Expected(found, 64 * error * (top / cp.sqrt(known)) ** order)
