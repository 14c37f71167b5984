"""Scans of blocks on the host, for the rows whose scan is that of a NumPy ufunc.

A sweep takes a block of shape (outer, n, inner) and the states before it, of shape (outer, inner). It writes the
results of the middle axis to ``out``, which is other memory, and returns the states behind it. Where lines lie side by
side it goes row by row, which NumPy's own accumulate never does.
"""

from __future__ import annotations

import numpy as np

from ..monoid import Array, State
from . import exact
from .exact import C16, I8, NAT, two_sum

ABREAST = 32  # lines side by side from which on a row at a time costs less than a line at a time
PLAIN = 512  # float64 that are added plainly; then comes a pair


def is_abreast(block: Array) -> bool:
    """True where many lines of a block lie side by side."""
    return bool(block.shape[2] >= ABREAST)


def accumulate(ufunc: np.ufunc, block: Array, carry: Array, out: Array) -> Array:
    """The sweep of a ufunc whose state is one number, of the carry's dtype."""
    if is_abreast(block):
        return _rows(ufunc, block, carry, out)
    work = out if out.dtype == carry.dtype else np.empty(block.shape, carry.dtype)
    np.copyto(work, block, casting="unsafe")
    work[:, 0] = ufunc(carry, work[:, 0])
    ufunc.accumulate(work, axis=1, out=work)
    if work is not out:
        np.copyto(out, work, casting="unsafe")
    return work[:, -1].copy()


def _rows(ufunc: np.ufunc, block: Array, carry: Array, out: Array) -> Array:
    last = carry.copy()
    for i in range(block.shape[1]):
        row = block[:, i].astype(last.dtype, copy=False)
        if out.dtype == last.dtype:
            last = ufunc(last, row, out=out[:, i])
        else:
            out[:, i] = ufunc(last, row, out=last)
    return last.copy()


# ---- sums


def total(block: Array, carry: State, out: Array) -> State:
    """Running sums, with the states of :mod:`exact`."""
    if len(carry) == 1:
        return (accumulate(np.add, block, carry[0], out),)
    if carry[0].dtype == I8:
        return _ticks(block, carry, out)
    if len(carry) == 2:
        return pairs(block, *carry, out)
    hi, lo = np.empty(carry[0].shape, C16), np.empty(carry[0].shape, C16)
    hi.real, lo.real, hi.imag, lo.imag = carry
    hi, lo = pairs(block, hi, lo, out)
    return hi.real, lo.real, hi.imag, lo.imag


def _ticks(block: Array, carry: State, out: Array) -> State:
    """Durations: behind a NaT all is NaT."""
    ticks, missing = exact.lift(block)
    sums, gaps = np.empty(block.shape, I8), np.empty(block.shape, I8)
    behind = accumulate(np.add, ticks, carry[0], sums), accumulate(np.add, missing, carry[1], gaps)
    np.copyto(out, exact.cast(np.where(gaps > 0, NAT, sums), out.dtype))
    return behind


def pairs(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array]:
    """Running sums of float64 or complex128 in pairs: a stretch is added plainly, and its total to a pair.

    Each result is rounded once more than its stretch is, so that the error does not grow with the line.
    """
    outer, n, inner = block.shape
    if is_abreast(block):
        for start in range(0, n, PLAIN):
            hi, lo = _pair_of_rows(block[:, start : start + PLAIN], hi, lo, out[:, start : start + PLAIN])
        return hi, lo
    even = n - n % PLAIN
    for part, step in (slice(0, even), PLAIN), (slice(even, n), n - even):
        if part.stop > part.start:
            shape = (outer, -1, step, inner)
            hi, lo = _pair_of_lines(block[:, part].reshape(shape), hi, lo, out[:, part].reshape(shape))
    return hi, lo


def _pair_of_rows(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array]:
    last = lo.copy()
    for i in range(block.shape[1]):
        np.add(last, block[:, i], out=last)
        np.add(hi, last, out=out[:, i], casting="unsafe")
    lost = ~np.isfinite(last)
    top, slip = two_sum(hi, last)
    if not np.any(lost):
        return top, slip
    last = hi.copy()
    for i in range(block.shape[1]):
        np.add(last, block[:, i], out=last)
        np.copyto(out[:, i], last, where=lost, casting="unsafe")
    return np.where(lost, last, top), np.where(lost, 0, slip)


def _pair_of_lines(block: Array, hi: Array, lo: Array, out: Array) -> tuple[Array, Array]:
    """As :func:`_pair_of_rows`, of blocks (outer, stretches, n, inner) whose stretches are added at once."""
    work = out if out.dtype == hi.dtype else np.empty(block.shape, hi.dtype)
    np.add.accumulate(block, axis=2, out=work)
    tops, slips = _tops(work[:, :, -1], hi, lo)
    np.add(work, (tops + slips)[:, :-1, None], out=out, casting="unsafe")
    lost = ~np.isfinite(tops[:, -1])
    top, slip = two_sum(tops[:, -1], slips[:, -1])
    if not np.any(lost):
        return top, slip
    plain = block.reshape(block.shape[0], -1, block.shape[3]).astype(hi.dtype)
    plain[:, 0] += hi
    np.add.accumulate(plain, axis=1, out=plain)
    np.copyto(out, plain.reshape(block.shape), where=lost[:, None, None], casting="unsafe")
    return np.where(lost, plain[:, -1], top), np.where(lost, 0, slip)


def _tops(sums: Array, hi: Array, lo: Array) -> tuple[Array, Array]:
    """Running sums of a few totals from a pair, and what rounding took from each (Ogita, Rump and Oishi 2005)."""
    tops, slips = (np.concatenate([first[:, None], sums], axis=1) for first in (hi, lo))
    np.add.accumulate(tops, axis=1, out=tops)
    before, after = tops[:, :-1], tops[:, 1:]
    shadow = after - before
    slips[:, 1:] = exact.settled(after, (before - (after - shadow)) + (sums - shadow))
    return tops, np.add.accumulate(slips, axis=1, out=slips)
