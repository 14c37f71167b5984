"""Host loops in C, ``kernels/host/loops.c``, where they were compiled with the installation; elsewhere there are none.

They do what NumPy does not do at the speed of memory: sum float32 in float64, sum squares of
deviations without an array of them, and find positions along rows.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..monoid import Array

PACKAGE = Path(__file__).parent.parent
FOLDERS = (PACKAGE / "_kernels" / "host", PACKAGE.parent / "kernels" / "host")
LEAST = 1 << 12  # elements of a block below which a call costs more than it saves
ROW = 128  # elements of a row, or columns, below which NumPy's loops are as fast


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled loops, if what was compiled is the text that is here."""
    for folder in FOLDERS:
        text = folder / "loops.c"
        if text.is_file():
            digest = hashlib.sha256(text.read_bytes()).hexdigest()[:12]
            return _load(folder / f"loops-{digest}-{sysconfig.get_platform()}.so")
    return None


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def sums(block: Array) -> Array | None:
    """The float64 sums over the middle axis of a float32 block of shape (outer, n, inner); None if not done here."""
    outer, n, inner = block.shape
    loops = _loops_for(block, n if inner == 1 else inner) if block.dtype == "f4" else None
    if loops is None:
        return None
    out = np.empty((outer, inner))
    if inner == 1:
        _call(loops.sum_rows, block, outer, block.strides[0], n, out)
    else:
        for rows, totals in zip(block, out, strict=True):
            _call(loops.sum_columns, rows, n, rows.strides[0], inner, totals)
    return out


def deviations(block: Array, pivot: Array) -> tuple[Array, Array] | None:
    """The sums over the middle axis of deviations from a pivot, and of their squares; None if not done here.

    ``block`` has shape (outer, n, inner), ``pivot`` is a number or one for each cell, of shape (outer, 1, inner).
    """
    outer, n, inner = block.shape
    loops = _loops_for(block, n if inner == 1 else inner) if block.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    pivots = np.ascontiguousarray(np.broadcast_to(pivot, (outer, 1, inner)), "f8")[:, 0]
    first, second = np.empty((outer, inner)), np.empty((outer, inner))
    name = f"deviations_{block.dtype.name}"
    if inner == 1:
        _call(loops[f"{name}_rows"], block, outer, block.strides[0], n, pivots, first, second)
    else:
        for rows, *cells in zip(block, pivots, first, second, strict=True):
            _call(loops[f"{name}_columns"], rows, n, rows.strides[0], inner, *cells)
    return first, second


def positions(name: str, rows: Array) -> Array | None:
    """Where along each row ``argmax`` or ``argmin`` finds the first extremum or NaN; None if not done here."""
    outer, n = rows.shape
    loops = _loops_for(rows, n) if rows.dtype in ("f4", "f8") else None
    if loops is None:
        return None
    out = np.empty(outer, np.int64)
    _call(loops[f"{name}_{rows.dtype.name}"], rows, outer, rows.strides[0], n, out)
    return out


def _loops_for(array: Array, row: int) -> ctypes.CDLL | None:
    """The loops, if it is worth a call and neighbours in a row are neighbours in memory."""
    if array.size < LEAST or row < ROW or not array.flags.aligned:
        return None
    last = array.ndim - 1 if array.shape[-1] > 1 else array.ndim - 2
    return library() if array.strides[last] == array.itemsize else None


def _call(function: Callable[..., Any], array: Array, count: int, stride: int, n: int, *others: Array) -> None:
    sizes = (ctypes.c_int64(number) for number in (count, stride, n))
    function(ctypes.c_void_p(array.ctypes.data), *sizes, *(ctypes.c_void_p(other.ctypes.data) for other in others))
