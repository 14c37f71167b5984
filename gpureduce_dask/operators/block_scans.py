"""Scans of blocks on the host, for the rows whose scan is that of a NumPy ufunc.

A sweep takes a block of shape (outer, n, inner) and the states before it, of shape (outer, inner). It writes the
results of the middle axis to ``out``, which is other memory, and returns the states behind it, which may take the
place of those before. Where lines lie side by side it goes row by row, which NumPy's own accumulate never does. Lines
of few neighbours are cut into stretches that are scanned apart: NumPy adds one element after another, each of which
waits for the last. Where host loops were compiled, they do all of it.
"""

from __future__ import annotations

import math

import numpy as np

from . import native, totals
from .monoid import Array, DType, State
from .totals import C16, F8, I8, NAT, two_sum

# Xeon 2.6 GHz (2 MiB of L2 a core), NumPy 2.4, 2026-11
WIDE = 1 << 10  # lines side by side from which on a call a row costs less than two copies
NARROW = 8  # lines side by side up to which NumPy's accumulate reads them well
LONG = 256  # elements from which on a line of floats is better cut into stretches side by side
STRETCH = 16  # elements of those
APART = 8  # elements between rows of stretches, which else would share the same few lines of the cache
PLAIN = 512  # float64 that are added plainly; then comes a pair
HALF_ROUNDS_UP = 65520.0  # from here on float16 is infinite, which NumPy takes fifty times as long to find out


def accumulate(ufunc: np.ufunc, block: Array, carry: Array, out: Array, regroups: bool = True) -> Array:
    """The sweep of a ufunc whose state is one number, of the carry's dtype.

    ``regroups`` is False where what stands before an element must meet it alone.
    """
    behind = native.scan(ufunc.__name__, block, carry, out)
    if behind is not None:
        return behind
    n, inner = block.shape[1:]
    if inner >= WIDE or n < STRETCH:
        return _rows(ufunc, block, carry, out)
    if not regroups:
        return _lines(ufunc, block, carry, out)
    in_place = inner < NARROW and (carry.dtype.kind in "biuc" or n < LONG)
    stretches = _Stretches(ufunc, block, out, carry.dtype, n if in_place else 0)
    tops = np.concatenate([carry[:, None], stretches.ends], axis=1)
    ufunc.accumulate(tops, axis=1, out=tops)
    stretches.finish(tops[:, :-1])
    rest = slice(stretches.length, None)
    return _rows(ufunc, block[:, rest], tops[:, -1], out[:, rest])


def _rows(ufunc: np.ufunc, block: Array, carry: Array, out: Array) -> Array:
    """Row by row: each is one call for all lines."""
    last = carry.copy()
    for i in range(block.shape[1]):
        row = block[:, i].astype(last.dtype, copy=False)
        if out.dtype == last.dtype:
            last = ufunc(last, row, out=out[:, i])
        else:
            put(out[:, i], ufunc(last, row, out=last))
    return last.copy()


def _lines(ufunc: np.ufunc, block: Array, carry: Array, out: Array) -> Array:
    """Line by line, as NumPy does."""
    work = out if out.dtype == carry.dtype else np.empty(block.shape, carry.dtype)
    np.copyto(work, block, casting="unsafe")
    work[:, 0] = ufunc(carry, work[:, 0])
    ufunc.accumulate(work, axis=1, out=work)
    if work is not out:
        put(out, work)
    return work[:, -1].copy()


def put(out: Array, values: Array) -> None:
    """Results in the dtype of ``out``."""
    if out.dtype == np.float16 and values.dtype == F8:
        large = np.abs(values) >= HALF_ROUNDS_UP
        if np.any(large):
            values = np.where(large, np.copysign(np.inf, values), values)
    np.copyto(out, values, casting="unsafe")


class _Stretches:
    """The lines of a block in stretches of equal length, each scanned alone.

    Stretches of ``step`` elements are scanned where their results go. With ``step`` 0 they are short ones, which lie
    side by side in a copy and are scanned row by row.
    """

    def __init__(self, ufunc: np.ufunc, block: Array, out: Array, dtype: DType, step: int) -> None:
        outer, n, inner = block.shape
        self.ufunc = ufunc
        self.length = n - n % (step or STRETCH)
        shape = (outer, -1, step or STRETCH, inner)
        cut, self.target = (a[:, : self.length].reshape(shape) for a in (block, out))
        if step:
            self.scanned = self.target if out.dtype == dtype else np.empty(cut.shape, dtype)
            ufunc.accumulate(cut, axis=2, dtype=None if cut.dtype == dtype else dtype, out=self.scanned)
        else:
            self.scanned = np.moveaxis(_side_by_side(ufunc, np.moveaxis(cut, 2, 0), dtype), 0, 2)
        self.ends = self.scanned[:, :, -1]

    def finish(self, bases: Array) -> None:
        """Results from the states before each stretch."""
        self.ufunc(bases[:, :, None], self.scanned, out=self.scanned)
        if self.scanned is not self.target:
            put(self.target, self.scanned)


def _side_by_side(ufunc: np.ufunc, stretches: Array, dtype: DType) -> Array:
    cells = math.prod(stretches.shape[1:])
    side = np.empty((STRETCH, cells + APART), dtype)[:, :cells].reshape(stretches.shape)
    np.copyto(side, stretches, casting="unsafe")
    for i in range(1, STRETCH):
        ufunc(side[i - 1], side[i], out=side[i])
    return side


# ---- sums


def total(block: Array, carry: State, out: Array) -> State:
    """Running sums, with the states of :mod:`exact`."""
    if len(carry) == 1:
        return (accumulate(np.add, block, carry[0], out),)
    if carry[0].dtype == I8:
        return _ticks(block, carry, out)
    behind = native.packed_pairs(block, carry, out)
    if behind is not None:
        return behind
    if len(carry) == 2:
        return pairs(block, *carry, out)
    hi, lo = np.empty(carry[0].shape, C16), np.empty(carry[0].shape, C16)
    hi.real, lo.real, hi.imag, lo.imag = carry
    hi, lo = pairs(block, hi, lo, out)
    return hi.real, lo.real, hi.imag, lo.imag


def running_total(values: Array, carry: State) -> tuple[State, State] | None:
    """The states of running sums of numbers in the wide dtype, and those behind them. Pairs are those that compiled
    loops make, rounded: stretches that NumPy adds have not all of their digits. None of others, of complex numbers and
    of durations."""
    if values.dtype.kind not in "iuf" or len(carry) > 2:
        return None
    out = np.empty(values.shape, carry[0].dtype)
    if len(carry) == 1:
        return (out,), (accumulate(np.add, values, carry[0], out),)
    found = native.pairs(values, carry[0], carry[1], out)
    return None if found is None else ((out, np.broadcast_to(0.0, out.shape)), two_sum(*found))


def _ticks(block: Array, carry: State, out: Array) -> State:
    """Durations: behind a NaT all is NaT."""
    ticks, missing = totals.lift(block)
    sums, gaps = np.empty(block.shape, I8), np.empty(block.shape, I8)
    behind = accumulate(np.add, ticks, carry[0], sums), accumulate(np.add, missing, carry[1], gaps)
    np.copyto(out, totals.cast(np.where(gaps > 0, NAT, sums), out.dtype))
    return behind


def pairs(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array]:
    """Running sums of float64 or complex128 in pairs: a stretch is added plainly, and its total to a pair.

    Each result is rounded once more than its stretch is, so that the error does not grow with the line.
    """
    behind = native.pairs(block, hi, lo, out)
    if behind is not None:
        return two_sum(*behind)
    n, inner = block.shape[1:]
    done = 0
    if inner < WIDE and n >= STRETCH:
        step = 0 if inner >= NARROW else PLAIN if n >= 2 * PLAIN else n
        stretches = _Stretches(np.add, block, out, hi.dtype, step)
        done = stretches.length
        tops, slips = _tops(stretches.ends, hi, lo)
        stretches.finish((tops + slips)[:, :-1])
        hi, lo = _checked(block[:, :done], hi, *two_sum(tops[:, -1], slips[:, -1]), out[:, :done])
    for start in range(done, n, PLAIN):
        hi, lo = _pair_of_rows(block[:, start : start + PLAIN], hi, lo, out[:, start : start + PLAIN])
    return hi, lo


def _pair_of_rows(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array]:
    last = lo.copy()
    for i in range(block.shape[1]):
        np.add(last, block[:, i], out=last)
        np.add(hi, last, out=out[:, i], casting="unsafe")
    return _checked(block, hi, *two_sum(hi, last), out)


def _checked(block: Array, hi: Array, top: Array, slip: Array, out: Array) -> tuple[Array, Array]:
    """The states behind a block. Lines whose sum has ceased to be finite are added again as NumPy does: a stretch may
    overflow where the line does not."""
    lost = np.isfinite(hi) & ~np.isfinite(top)
    if np.any(lost):
        plain = block.astype(hi.dtype)
        plain[:, 0] += hi
        np.add.accumulate(plain, axis=1, out=plain)
        np.copyto(out, plain, where=lost[:, None], casting="unsafe")
        top, slip = np.where(lost, plain[:, -1], top), np.where(lost, 0, slip)
    return top, slip


def _tops(sums: Array, hi: Array, lo: Array) -> tuple[Array, Array]:
    """Running sums of a few totals from a pair, and what rounding took from each (Ogita, Rump and Oishi 2005)."""
    tops, slips = (np.concatenate([first[:, None], sums], axis=1) for first in (hi, lo))
    np.add.accumulate(tops, axis=1, out=tops)
    before, after = tops[:, :-1], tops[:, 1:]
    shadow = after - before
    slips[:, 1:] = totals.settled(after, (before - (after - shadow)) + (sums - shadow))
    return tops, np.add.accumulate(slips, axis=1, out=slips)
