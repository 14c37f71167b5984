"""Arrays and layouts that the GPU tests walk, and how results are compared with the host's."""

from __future__ import annotations

import numpy as np

from gpureduce_dask.errors import DtypeError
from gpureduce_dask.operators import cuda_types
from gpureduce_dask.operators.table import OPERATORS

DTYPES = [np.dtype(d) for d in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split()]

# shape, axes, and a view of the array; each meets another kernel, or another edge of one
LAYOUTS = [
    ((0,), (0,), None),
    ((1,), (0,), None),
    ((5,), (0,), None),
    ((33,), (0,), None),
    ((100003,), (0,), None),
    ((1 << 21,), (0,), None),
    ((100003,), (0,), lambda x: x[1:-1]),
    ((100003,), (0,), lambda x: x[::-1]),
    ((100003,), (0,), lambda x: x[3::7]),
    ((300, 1000), (0, 1), lambda x: x[:, ::2]),
    ((300, 1000), (0, 1), lambda x: x[5:-5, 3:-4]),
    ((300, 1000), (0, 1), lambda x: x.T),
    ((3, 70001), (1,), None),
    ((70001, 3), (1,), None),
    ((70001, 3), (0,), None),
    ((5000, 7), (0,), lambda x: x[::-1]),
    ((9001, 32), (1,), None),
    ((9001, 32), (0,), None),
    ((9001, 33), (1,), None),
    ((9001, 100), (1,), lambda x: x[:, 1:]),
    ((517, 1029), (0,), None),
    ((517, 1029), (1,), None),
    ((517, 1029), (0,), lambda x: x[::-1, ::-1]),
    ((517, 1029), (1,), lambda x: x[::-1, ::-1]),
    ((517, 1029), (0,), lambda x: x.T[:517]),
    ((517, 1029), (1,), lambda x: x[:, ::3]),
    ((900, 6), (0,), lambda x: x[:, :5]),
    ((4000, 1), (1,), None),
    ((1, 4000), (0,), None),
    ((20, 30, 40), (1,), None),
    ((20, 30, 40), (0, 2), None),
    ((20, 30, 40), (0, 1), None),
    ((20, 30, 40), (1, 2), lambda x: x.transpose(2, 0, 1)),
    ((6, 5, 4, 3, 2, 3), (0, 2, 5), lambda x: x[:, ::-1, :, ::2]),
    ((40, 1000), (0,), "broadcast"),
    ((40, 0), (0,), None),
    ((0, 40), (0,), None),
    ((2, 3, 2, 2, 2, 2, 2, 3), (0, 2, 4, 7), lambda x: x[::-1]),
    ((9001, 7), (1,), lambda x: x[1:]),
    ((5, 900, 7), (2,), lambda x: x[:, 1:-2]),
    ((70, 45, 33), (2,), lambda x: x[:, 1:-1, 1:-2]),
    ((900, 3, 65), (2,), lambda x: x[:, 1:2]),
    ((5, 4, 291, 33), (1, 3), lambda x: x[:, :, 1:-1, 1:]),
    ((9001, 40), (1,), None),
    ((9001, 101), (1,), lambda x: x[1:]),
    ((3001, 501), (1,), None),
    ((9001, 48), (1,), lambda x: x[:, :32]),
    ((140, 66001), (0,), None),
    (((1 << 22) + 5,), (0,), lambda x: x[1:]),  # a long row, loaded a tile ahead
    ((2, (1 << 22) + 3), (1,), None),
    ((100003, 38), (0, 1), lambda x: x.T),  # contiguous memory, indices in another order
    ((3, 40009, 7, 8), (1, 2, 3), lambda x: x.transpose(0, 3, 1, 2)),
    ((70001, 24), (1,), lambda x: x[:, ::2]),  # of operators that keep an order a row a thread
    ((9001, 90), (1,), lambda x: x[:, ::-3]),
    ((70, 5, 9), (1,), None),  # small planes, copied to shared memory
    ((15, 200_031), (0,), lambda x: x[:, ::-1]),  # a few lines, of bytes so too
    ((3, 1001, 39), (0, 2), None),  # lines in runs, by sub-warps
]


def make(shape, dtype, seed=0, with_nan=False):
    """Random elements: few distinct integers (so that ties occur), floats of both signs."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -100
        return rng.integers(low, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = np.asarray(x.astype(dtype))
    if with_nan and x.size:
        x[rng.random(shape) < 0.1] = np.nan
    return x


def view_of(array, view):
    if view is None:
        return array
    if view == "broadcast":
        return (np if isinstance(array, np.ndarray) else __import__("cupy")).broadcast_to(array[:1], array.shape)
    return view(array)


def rows(dtype):
    """Names of the one-array operators that take this dtype and have CUDA text."""
    names = []
    for name, monoid in OPERATORS.items():
        if monoid.arity != 1 or monoid.cuda is None:
            continue
        try:
            monoid.bind(dtype)
        except DtypeError:
            continue
        names.append(name)
    assert names
    assert cuda_types.element(np.dtype(dtype))
    return names


def close(ours, wanted, bound, n):
    """Equal where the operator is exact; else within rounding of the result dtype and of sums of n terms."""
    ours, wanted = np.asarray(ours), np.asarray(wanted)
    assert ours.shape == wanted.shape and ours.dtype == wanted.dtype, (
        ours.dtype,
        wanted.dtype,
        ours.shape,
        wanted.shape,
    )
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(ours, wanted)
        return
    eps = float(np.finfo(wanted.dtype).eps)
    exact = bound.name in ("min", "max", "nanmin", "nanmax", "ptp")
    wide = "c16" if wanted.dtype.kind == "c" else "f8"
    # kurtosis is what is left of numbers around 3, each a quotient of sums that were themselves left over
    scale = 3e-13 if bound.name == "kurtosis" else np.sqrt(n + 1) * 1e-15
    rtol = 0 if exact else max(2 * eps, 1e-12)
    np.testing.assert_allclose(ours.astype(wide), wanted.astype(wide), rtol=rtol, atol=0 if exact else scale)
