"""Rows prod and nanprod. Products of floats have an exponent of their own, which neither overflows nor underflows.

A state of floats is ``value * 2**exponent``: what a product leaves on the way does not lose it. On the way a value is
that of plain multiplication for as long as that stays in range, which the floating-point flags tell; where it does not,
and in every state that is passed on, it is brought close to one, by powers of two, which round nothing. Zeros,
infinities and NaN multiply as IEEE 754 says.
Of a complex number both parts have one exponent. Integers wrap.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from . import block_scans, native, rules, totals
from . import cuda_types as cuda
from .monoid import Array, DType, Fields, Monoid, State
from .panels import folded, panels
from .sums import has_all, has_nan, present
from .totals import I8

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, 2026-11
FEW = 1 << 9  # numbers that are multiplied before anything is looked at;
MOST, LEAST = 1 << 6, 1 << 4  # of more so many, and fewer where one leaves the range
CALL_WIDTH = 1 << 6  # neighbours that a call should have to multiply at a time
MANTISSAS = 1 << 9  # and of values from a half up to one
LOOKED_AT = 1 << 15  # products at a time, which stay in cache
FARTHEST = 1 << 14  # exponents beyond which every result has left the range
TINY = np.finfo(np.float64).tiny
NEAR = 2.0**499  # what values of states are less than, and their inverses: the kernels multiply two without a look


def fields(dtype: DType) -> Fields:
    wide = totals.wide(dtype)
    return (("value", wide),) if wide.kind in "iu" else (("value", wide), ("exponent", I8))


def identity(dtype: DType) -> tuple[Any, ...]:
    return (1, 0)[: len(fields(dtype))]


def plain(value: Array) -> State:
    """Numbers as states."""
    return (value,) if value.dtype.kind in "iu" else (value, np.zeros(np.shape(value), I8))


def normalise(state: State) -> State:
    """A state whose values, but for zeros, infinities and NaN, are neither large nor small."""
    if len(state) == 1:
        return state
    value, exponent = state
    size = np.abs(value) if value.dtype.kind != "c" else np.maximum(np.abs(value.real), np.abs(value.imag))
    far = ((size >= NEAR) | ((size <= 1 / NEAR) & (size > 0))) & np.isfinite(size)
    if not np.any(far):
        return state
    values, exponents = scaled(value, exponent)
    return np.where(far, values, value), np.where(far, exponents, exponent)


def lift(x: Array, index: Array) -> State:
    return normalise(plain(totals.widen(x)))


def combine(earlier: State, later: State) -> State:
    if len(earlier) == 1:
        return (earlier[0] * later[0],)
    return normalise(_combine(earlier, later))


def _combine(earlier: State, later: State) -> State:
    try:
        with np.errstate(over="raise", under="raise"):
            return _times(earlier[0], later[0]), earlier[1] + later[1]
    except FloatingPointError:
        (a, i), (b, j) = scaled(*earlier), scaled(*later)
        return _times(a, b), i + j


def _times(a: Array, b: Array) -> Array:
    """Products, of which those with one are the other number: infinite parts of a complex one would become NaN."""
    product = a * b
    if product.dtype.kind != "c" or not np.any(np.isnan(product)):
        return product
    return np.where(a == 1, b, np.where(b == 1, a, product))


def scaled(value: Array, exponent: Any = 0) -> tuple[Array, Array]:
    """The same numbers with values from a half up to one, but for zeros, infinities and NaN."""
    if value.dtype.kind != "c":
        mantissa, more = np.frexp(value)
        return mantissa, exponent + np.where(np.isfinite(value), more, 0).astype(I8)
    size = np.maximum(np.abs(value.real), np.abs(value.imag))
    more = np.where(np.isfinite(size), np.frexp(size)[1], 0)
    return ldexp(value, -more), exponent + more.astype(I8)


def ldexp(value: Array, exponent: Array) -> Array:
    """Values times powers of two."""
    if value.dtype.kind != "c":
        return np.asarray(np.ldexp(value, exponent))
    out = np.empty(np.shape(value), value.dtype)
    out.real, out.imag = np.ldexp(value.real, exponent), np.ldexp(value.imag, exponent)
    return out


def fold(block: Array, index: Array | None) -> State:
    if totals.wide(block.dtype).kind in "iu":
        return (np.multiply.reduce(block, axis=1, dtype=totals.wide(block.dtype)),)
    return native.product(block, skip=False) or _fold_all(block)


def _fold_all(block: Array) -> State:
    outer, n, inner = block.shape
    size = MOST * LOOKED_AT
    rows, span = max(size // (n * inner), 1), max(size // inner, 1)
    states = [
        reduce(_combine, (_fold(block[row : row + rows, at : at + span]) for at in range(0, n, span)))
        for row in range(0, outer, rows)
    ]
    return normalise(states[0] if len(states) == 1 else tuple(np.concatenate(f) for f in zip(*states, strict=True)))


def _fold(block: Array) -> State:
    """A few numbers multiplied as they are, and what comes of those with exponents; where one leaves the range, fewer
    and at last none."""
    _, n, inner = block.shape
    few = n if n <= FEW else min(max(n * inner // CALL_WIDTH, LEAST), MOST)
    for length in (few, LEAST):
        try:
            with np.errstate(over="raise", under="raise"):
                return _by_lengths(totals.numeric(block), length)
        except FloatingPointError:
            pass
    return reduce(_combine, (_each(totals.widen(panel)) for panel in panels(block)))


def _by_lengths(block: Array, length: int) -> State:
    # Those that lie apart are multiplied: neighbours then take their turn together, many at a time.
    outer, n, inner = block.shape
    dtype, even = totals.wide(block.dtype), n - n % length
    if n <= length:
        return plain(np.multiply.reduce(block, axis=1, dtype=dtype))
    apart = block[:, :even].reshape(outer, length, even // length, inner)
    state = _each(np.multiply.reduce(apart, axis=1, dtype=dtype))
    if even == n:
        return state
    return _combine(state, plain(np.multiply.reduce(block[:, even:], axis=1, dtype=dtype)))


def _each(values: Array) -> State:
    """The product over the middle axis of numbers that have each an exponent of their own."""
    value, more = scaled(values)
    exponent = np.add.reduce(more, axis=1)
    while value.shape[1] > 1:
        value = np.multiply.reduceat(value, np.arange(0, value.shape[1], MANTISSAS), axis=1)
        value, more = scaled(value)
        exponent += np.add.reduce(more, axis=1)
    return value[:, 0], exponent


def number(state: State) -> Array:
    """What a state stands for."""
    if len(state) == 1 or not np.any(state[1]):
        return state[0]
    return ldexp(state[0], np.clip(state[1], -FARTHEST, FARTHEST))


def finalise(state: State, dtype: DType) -> Array:
    return totals.cast(number(state), dtype)


def lift_present(x: Array, index: Array) -> State:
    return lift(present(x, 1), index)


def fold_present(block: Array, index: Array | None) -> State:
    if not has_nan(block.dtype):
        return fold(block, index)
    return native.product(block, skip=True) or folded(_fold_panel, combine, block)


def _fold_panel(panel: Array) -> State:
    return fold(present(panel, 1), None)


# ---- scans


def sweep(block: Array, carry: State, out: Array) -> State:
    if len(carry) == 1:
        return (block_scans.accumulate(np.multiply, block, carry[0], out),)
    value, exponent = carry
    behind = native.products(block, value, exponent, out)
    if behind is not None:
        return normalise(behind)
    last = block_scans.accumulate(np.multiply, block, value, out, regroups=False)
    stays = (value == 0) | ~np.isfinite(value)  # and what comes of it is the same with any exponent
    if not np.any(exponent[~stays]) and np.all(stays | _in_range(last, out)):
        return normalise((last, exponent))
    for panel, target in zip(panels(block), panels(out), strict=True):
        carry = _sweep_each(panel, carry, target)
    return normalise(carry)


def _in_range(behind: Array, out: Array) -> Array:
    """Where running products have not left the range: beyond it they are zero or no numbers, or have lost digits."""
    found = np.isfinite(behind) & (np.abs(behind) >= TINY)
    if out.dtype == behind.dtype and np.any(found):
        found &= np.abs(out).min(axis=1) >= TINY
    return found


def _sweep_each(block: Array, carry: State, out: Array) -> State:
    """Running products of numbers that have each an exponent of their own, some at a time between which values are
    brought close to one."""
    for start in range(0, block.shape[1], MANTISSAS):
        some = slice(start, start + MANTISSAS)
        values, more = scaled(totals.widen(block[:, some]))
        values[:, 0], more[:, 0] = scaled(*combine(carry, (values[:, 0], more[:, 0])))
        np.multiply.accumulate(values, axis=1, out=values)
        exponents = np.add.accumulate(more, axis=1)
        block_scans.put(out[:, some], number((values, exponents)))
        carry = values[:, -1].copy(), exponents[:, -1]
    return carry


def sweep_present(block: Array, carry: State, out: Array) -> State:
    if has_all(block):
        return sweep(block, carry, out)
    for panel, target in zip(panels(block), panels(out), strict=True):
        carry = sweep(present(panel, 1), carry, target)
    return carry


def _product(name: str, **functions: Any) -> Monoid:
    shared = {"fields": fields, "identity": identity, "combine": combine, "finalise": finalise}
    return rules.row(name, rules.NUMBERS, rules.summed, free=rules.any_kind, **shared, **functions)


ROWS = (
    _product("prod", lift=lift, fold=fold, sweep=sweep, cuda=cuda.product),
    _product("nanprod", lift=lift_present, fold=fold_present, sweep=sweep_present, cuda=cuda.nan_product),
)
