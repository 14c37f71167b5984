"""Arrays to reduce: every dtype of the table, every layout in memory, and the values that tell operators apart."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from gpureduce_dask import errors
from gpureduce_dask.operators.table import OPERATORS

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [
    BFLOAT16 if name == "bfloat16" else np.dtype(name)
    for name in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 bfloat16 f4 f8 c8 c16 m8[s] M8[us]".split()
]
SINGLE = [row for row in OPERATORS.values() if row.arity == 1]
DOUBLE = [row for row in OPERATORS.values() if row.arity == 2 and row.commutative]  # sums of products


def takes(row, *dtypes):
    """True where an operator has a meaning for these dtypes."""
    try:
        row.bind(*dtypes)
    except errors.DtypeError:
        return False
    return True


CASES = [(row, dtype) for row in SINGLE for dtype in DTYPES if takes(row, dtype)]
PAIRS = [(row, x, y) for row in DOUBLE for x, y in itertools.product(DTYPES, DTYPES) if takes(row, x, y)]


def case_id(case):
    """A test's name for an operator or a dtype."""
    return case.name if hasattr(case, "name") else str(case)


def values(shape, dtype, seed=0, special=True):
    """Small numbers with ties; and with ``special`` some NaN, infinities, zeros of both signs or NaT."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    number = rng.integers(0 if dtype.kind == "u" else -6, 7, shape)
    if dtype.kind in "biu":
        return number.astype(dtype)
    if dtype.kind in "mM":
        missing = rng.random(shape) < 0.1 * special
        return np.where(missing, np.iinfo("i8").min, number * 1000).view(dtype).reshape(shape)
    wide = (number / 2).astype("f8")
    if special:
        wide = np.choose(rng.integers(0, 12, shape), [np.nan, np.inf, -np.inf, -0.0, *[wide] * 8])
    if dtype.kind == "c":
        wide = wide + 1j * np.where(rng.random(shape) < 0.3, number, 1)
    return np.asarray(wide.astype(dtype))


def fortran(x):
    return np.asfortranarray(x)


def backwards(x):
    return np.ascontiguousarray(x[(slice(None, None, -1),) * x.ndim])[(slice(None, None, -1),) * x.ndim]


def stepped(x):
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    wide[(slice(1, None, 2),) * x.ndim] = x
    return wide[(slice(1, None, 2),) * x.ndim]


def rolled(x):
    """The last axis first in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1) if x.ndim else x


def swapped(x):
    return x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder())


def misaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)[1:]
    out = np.ndarray(x.shape, x.dtype, raw)
    out[...] = x
    return out


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS = [np.ascontiguousarray, fortran, backwards, stepped, rolled, swapped, misaligned, frozen]


def lay(layout, x):
    """The same elements in another layout; the shape of a 0-d array stays."""
    return layout(x).reshape(x.shape) if x.ndim == 0 else layout(x)


@st.composite
def shapes(draw, least=0, most=6):
    return tuple(draw(st.lists(st.integers(least, most), max_size=4)))


@st.composite
def layouts_of(draw, dtype, least=0, most=6, special=True):
    """An array of one dtype in some layout, and sorted axes of it."""
    shape = draw(shapes(least, most))
    x = lay(draw(st.sampled_from(LAYOUTS)), values(shape, dtype, draw(st.integers(0, 2**16)), special))
    if draw(st.booleans()):
        x = np.broadcast_to(x, (3, *x.shape))  # stride 0
    axes = draw(st.sets(st.integers(0, x.ndim - 1))) if x.ndim else ()
    return x, tuple(sorted(axes))


def rows_of(x, axes):
    """The slices that are reduced, in C order, as the last axis; kept axes first."""
    kept = [a for a in range(x.ndim) if a not in axes]
    sizes = [x.shape[a] for a in kept]
    return np.transpose(x, [*kept, *axes]).reshape(*sizes, int(np.prod([x.shape[a] for a in axes], dtype=int)))


def keepdims(x, axes):
    return tuple(1 if a in axes else n for a, n in enumerate(x.shape))
