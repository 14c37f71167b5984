"""The scan kernels on the CPU, against the host: every order of events gives the same answer, and defects show."""

from __future__ import annotations

import struct
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from tiers import in_turn

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from gpu.test_scan_gpu import FAMILIES, as_planned, launches
from simt import SCHEDULES, Kernels, SimtError, Unit, build, scans
from simt.scans import Call, aligned, check, run, unit

from gpureduce_dask.device import scan_plans, scan_task, sources
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def make(shape: tuple[int, ...], dtype: str, seed: int = 0, phase: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, shape) if np.dtype(dtype).kind == "i" else rng.random(shape) - 0.25
    return aligned(x.astype(dtype), phase)


def call(name: str, dtype: str, shape: tuple[int, ...], axis: int = 0, phase: int = 0, view=None, **options) -> Call:
    monoid = OPERATORS[name]
    if "ddof" in options:
        monoid = monoid.with_options(ddof=options.pop("ddof"))
    bound = monoid.bind(*[dtype] * monoid.arity, dtype=options.pop("result", None))
    chunks = tuple(make(shape, dtype, i, phase) for i in range(bound.monoid.arity))
    if view is not None:
        chunks = tuple(view(x) for x in chunks)
    shape = chunks[0].shape
    if options.pop("carried", False):
        ends = tuple(1 if a == axis else n for a, n in enumerate(shape))
        first = tuple(make(ends, dtype, 5 + i) for i in range(bound.monoid.arity))
        options["carry"] = host_reduce.reduce(first, bound, (axis,))
    if segmented := options.pop("segmented", False):  # or the shape of what broadcasts
        resets = np.random.default_rng(3).random(shape if segmented is True else segmented) < 0.1
        options["resets"] = aligned(resets, phase // np.dtype(dtype).itemsize)
    return Call(bound, chunks, axis, **options)


def counted(name: str, dtype: str, shape: tuple[int, ...], axis: int, method: str, **options) -> Call:
    """By a kernel that tells no positions, behind elements whose positions come before."""
    return replace(call(name, dtype, shape, axis, carried=True, **options), method=method, begin=7)


def planes(name: str, dtype: str, shape: tuple[int, ...], axis: int, view, **options) -> Call:
    """Short lines at any strides, by whole planes."""
    return replace(call(name, dtype, shape, axis, view=view, **options), method="SmallLineScan")


def along(method: str, name: str, dtype: str, shape: tuple[int, ...], **options) -> Call:
    """Lines along memory by a kernel."""
    return replace(call(name, dtype, shape, 1, **options), method=method)


def threads(name: str, dtype: str, shape: tuple[int, ...], axis: int = 0, **options) -> Call:
    """Columns, each by a thread alone."""
    return replace(call(name, dtype, shape, axis, carried=True, **options), method="scan_thread_columns")


def missing(x: np.ndarray, *at: object) -> np.ndarray:
    y = x.copy()
    for part in at:
        y[part] = np.nan
    return aligned(y, x.ctypes.data % 16)


def rising(x: np.ndarray) -> np.ndarray:
    """As many bytes up to 127 as there is room for: running maxima that change all the time, and do not stay."""
    climb = np.arange(x.size).reshape(x.shape) * 100 // x.size
    return aligned((climb + np.random.default_rng(1).integers(0, 27, x.shape)).astype(x.dtype), 0)


def falling(x: np.ndarray) -> np.ndarray:
    return aligned(rising(x)[..., ::-1], 0)


def broken(x: np.ndarray, by: float, at: int) -> np.ndarray:
    """Numbers of both signs and all sizes that cancel, one of them ``by``."""
    sizes = np.exp2(np.random.default_rng(2).integers(-12, 9, x.shape))
    y = ((x.astype("f8") - 0.25) * sizes).astype(x.dtype)
    y[at] = by
    return aligned(y, 0)


def spiked(x: np.ndarray, by: float, at: int) -> np.ndarray:
    y = x.copy()
    y[at] = by
    return aligned(y, 0)


def swinging(x: np.ndarray, by: float) -> np.ndarray:
    """Every third element as large, and behind it, where it is very large, one that takes it away."""
    y = np.full(x.shape, 1e36)
    y[..., ::3], y[..., 1::3] = by, -by if by > 1e38 else by
    return aligned(y.astype(x.dtype), 0)


def spared(x: np.ndarray, at: tuple[int, int]) -> np.ndarray:
    """With the one NaN that posts have another meaning for (kernels/scan/tile_state.cuh)."""
    y = x.copy()
    y[at] = np.array(0x7FF9A5A5C3C35A5B, "u8").view("f8")
    return aligned(y, x.ctypes.data % 16)


def all_sizes(x: np.ndarray) -> np.ndarray:
    """Numbers whose running products leave the range and come back."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(-500, 500, x.shape)
    return aligned(np.exp2(sizes - np.roll(sizes, 1, 0)).astype(x.dtype), 0)


def waves(x: np.ndarray) -> np.ndarray:
    """Powers of two whose running products leave even the range of binary64 and come back, by few bits each."""
    sizes = np.round(12 * np.cos(np.arange(len(x)) / 150))
    return aligned(np.broadcast_to(np.exp2(sizes).reshape(-1, *[1] * (x.ndim - 1)), x.shape).astype(x.dtype), 0)


def late(x: np.ndarray, found: bool, *at: int) -> np.ndarray:
    y = np.full(x.shape, not found, x.dtype)
    y[list(at)] = found
    return aligned(y, x.ctypes.data % 16)


def transposed(x: np.ndarray) -> np.ndarray:
    return x.T


def apart(one: Call) -> Call:
    """Of two operands, the second one of which is reversed."""
    x, y = one.chunks
    return replace(one, chunks=(x, y[::-1, ::-1]))


def unlike_counts(one: Call) -> Call:
    """Behind more elements in some columns than in others."""
    lines = one.chunks[0].shape[1]
    few, many = (host_reduce.reduce((make((n, lines), str(one.chunks[0].dtype), 7),), one.bound, (0,)) for n in (2, 5))
    few[:, ::3] = many[:, ::3]
    return replace(one, carry=few)


CALLS = {
    "one tile": call("sum", "f4", (100,)),
    "one element": call("sum", "f4", (1,)),
    "tiles": call("sum", "f4", (5000,), carried=True),
    "more than a stretch": call("sum", "f4", (40_000,)),
    "unaligned": call("sum", "f4", (5003,), phase=12),
    "in pairs": call("sum", "f8", (3001,), phase=8),
    "wider results": call("sum", "i4", (5000,), carried=True),
    "narrow elements": call("sum", "i1", (9000,), phase=0),
    "maxima": call("max", "f4", (3000,)),
    "maxima of bytes": call("max", "u1", (9000,), view=rising),
    "minima of signed bytes in lines": call("min", "i1", (3, 5000), 1, view=falling),
    "minima of halves": call("nanmin", "f2", (5000,), view=falling),
    "complex maxima before each": call("nanmax", "c8", (3, 40), 1, exclusive=True),
    "any": call("any", "f4", (5003,), phase=12, view=lambda x: late(x, True, 5002, 3210)),
    "all": call("all", "?", (20000,), view=lambda x: late(x, False, 11_111), carried=True),
    "any at once": call("any", "f2", (9000,), phase=2, view=lambda x: late(x, True, 0), carried=True),
    "exclusive": call("sum", "i4", (5000,), exclusive=True),
    "reverse": call("sum", "i4", (5001,), reverse=True, phase=4, carried=True),
    "products": call("prod", "f8", (3001,), view=all_sizes, carried=True),
    "products in columns": call("prod", "f8", (300, 35), 0, view=all_sizes, reverse=True),
    "products of float32": call("prod", "f4", (3001,), view=waves, carried=True),
    "products of halves in columns": call("nanprod", "f2", (1200, 5), 0, view=waves),
    "products of float32 in columns": call("prod", "f4", (900, 40), 0, view=waves, reverse=True),
    "complex products": call("prod", "c8", (1500,), view=waves),
    "means of bytes in columns": call("mean", "u1", (300, 38), 0, carried=True),
    "complex means in columns": call("mean", "c8", (300, 7), 0),
    "positions": call("argmax", "i2", (5000,), view=rising),
    "positions of ties": call("argmin", "u1", (5000,)),
    "products in lines": call("prod", "c16", (5, 301), 1, view=all_sizes, exclusive=True),
    "in order": call("affine", "f8", (2000,), carried=True),
    "in order, reverse": call("affine", "f8", (2000,), reverse=True),
    "short lines": call("sum", "i4", (300, 17), 1, carried=True, phase=4),
    "lines of one": call("sum", "i4", (350, 1), 1, carried=True, phase=4),
    "lines shorter than a run": call("max", "i1", (350, 5), 1, carried=True, phase=3),
    "lines of tiles": call("sum", "i4", (3, 3001), 1, carried=True, phase=4),
    "lines, reverse and exclusive": call("sum", "i4", (41, 130), 1, carried=True, reverse=True, exclusive=True),
    "lines along the first axis": call("sum", "i4", (130, 41), 0, view=transposed, carried=True),
    "lines with gaps": call("sum", "f4", (60, 131), 1, view=lambda x: x[:, 1:-2], carried=True),
    "short lines with gaps": call("sum", "i4", (200, 12), 1, view=lambda x: x[:, 4:], carried=True, reverse=True),
    "narrow lines with gaps": call("sum", "f2", (70, 67), 1, view=lambda x: x[:, 1:], exclusive=True),
    "every other line": call("sum", "f8", (9, 4, 50), 2, view=lambda x: x[::2, ::-1], carried=True),
    "longer lines in planes": call("sum", "f8", (9, 4, 150), 2, view=lambda x: x[::2, ::-1], carried=True),
    "lines at another alignment": call("affine", "f8", (5, 201), 1, view=lambda x: x[:, 1:], carried=True),
    "segments at another alignment": call("sum", "i4", (3001,), view=lambda x: x[1:], segmented=True),
    "segments": call("sum", "i4", (5000,), segmented=True, exclusive=True),
    "segments in lines": call("sum", "i4", (30, 400), 1, segmented=True, carried=True),
    "columns": call("sum", "f4", (200, 300), 0, carried=True),
    "columns of segments alike": call("sum", "f4", (200, 70), 0, segmented=(200, 1), reverse=True, carried=True),
    "columns of segments": call("sum", "f4", (60, 258), 0, segmented=True, carried=True),
    "columns of segments from the end": call("sum", "f4", (60, 256), 0, segmented=True, reverse=True, exclusive=True),
    "columns of many tiles": call("sum", "f4", (2500, 40), 0, view=lambda x: x[:, :32], carried=True),
    "columns of many tiles, in order": call("affine", "f8", (600, 31), 0, carried=True, reverse=True),
    "columns in pairs": call("sum", "f8", (150, 70), 0, phase=8),
    "columns inside": call("sum", "f4", (150, 70), 0, view=lambda x: x[:, 1:-2], carried=True, exclusive=True),
    "narrow columns": call("sum", "f2", (300, 130), 0, view=lambda x: x[:, 2:], carried=True),
    "narrow columns of odd stride": call("max", "i1", (300, 131), 0, view=lambda x: x[:, 3:], reverse=True),
    "columns of few chains": call("sum", "f4", (600, 72), 0, view=lambda x: x[:, :64], carried=True),
    "halves apart": call("sum", "f2", (120, 403), 0, carried=True, phase=6),
    "rows of odd pitch": call("max", "f4", (120, 509), 0, carried=True, phase=4, reverse=True, exclusive=True),
    "strips of wider results": call("sum", "u1", (130, 1507), 0, carried=True, phase=3),
    "strips of wider results, in reverse": call(
        "sum", "i4", (130, 707), 0, carried=True, phase=4, reverse=True, exclusive=True
    ),
    "strips of wider results, of planes": call("sum", "i2", (3, 90, 77), 1, carried=True, phase=2),
    "strips of bytes apart": call("max", "u1", (130, 2010), 0, view=lambda x: rising(x)[:, 3:], carried=True),
    "maxima of halves apart": call("max", "f2", (90, 793), 0, phase=2, carried=True, reverse=True, exclusive=True),
    "few rows of odd pitch in one batch": call(
        "sum", "f4", (3000, 101), 0, view=lambda x: x[:, 3:], carried=True, reverse=True
    ),
    "sums of odd pitch": call("sum", "f4", (130, 509), 0, carried=True, phase=4),
    "sums of three columns a lane in one batch": call(
        "sum", "f4", (300, 165), 0, view=lambda x: x[:, 3:], carried=True, reverse=True
    ),
    "maxima of odd pitch in one batch": call(
        "max", "f4", (700, 140), 0, view=lambda x: x[:, 3:], carried=True, exclusive=True
    ),
    "rows of odd pitch in halves": call("nanmin", "f2", (130, 507), 0, carried=True, phase=6),
    "rows of odd pitch inside": call("max", "u1", (130, 520), 0, view=lambda x: x[:, 3:513], carried=True),
    "bytes apart, in reverse": call("max", "u1", (120, 501), 0, carried=True, reverse=True),
    "few columns": call("sum", "f4", (1700, 3), 0, carried=True, phase=4, reverse=True),
    "columns whole misaligned": call("sum", "i4", (61, 44), 0, carried=True, phase=4),
    "bytes in columns": call("max", "u1", (200, 256), 0, view=rising),
    "lines misaligned, in reverse": call(
        "sum", "f4", (2, 1301), 1, view=lambda x: x[:, 4:1284], reverse=True, carried=True
    ),
    "halves whose ends differ": call("sum", "f2", (2, 4, 2, 2101), 3, view=lambda x: x[:, ::3, :, 1:], carried=True),
    "halves whose ends differ, backwards": call(
        "nansum",
        "f2",
        (2, 4, 2, 703),
        3,
        view=lambda x: broken(x, np.nan, np.s_[..., ::90])[:, ::3, :, ::-1],
        reverse=True,
    ),
    "bytes whose ends differ": call(
        "max", "u1", (2, 5, 2, 3901), 3, view=lambda x: rising(x)[:, ::2, :, 3:], reverse=True, carried=True
    ),
    "bytes apart whose ends differ": call(
        "sum", "i1", (2, 4, 2, 1301), 3, view=lambda x: x[:, ::3, :, ::2], exclusive=True, carried=True
    ),
    "positions of halves whose ends differ": call("argmin", "i2", (2, 4, 3, 703), 3, view=lambda x: x[:, ::3]),
    "segments of halves whose ends differ": call(
        "sum", "i2", (2, 4, 2, 703), 3, view=lambda x: x[:, ::3], segmented=True, carried=True
    ),
    "short halves whose ends differ": call(
        "max", "i2", (3, 5, 3, 67), 3, view=lambda x: x[:, ::2, ::2, 1:], carried=True
    ),
    "lines whose ends differ": call("sum", "f4", (4, 1502), 1, view=lambda x: x[::-1, ::-3], carried=True),
    "few columns with gaps": call("sum", "i4", (700, 7), 0, view=lambda x: x[:, 1:], reverse=True, carried=True),
    "few columns in order": call("affine", "f8", (600, 5), 0, exclusive=True),
    "middle axis": call("sum", "f4", (3, 150, 5), 1, carried=True),
    "contiguous columns": call("sum", "f4", (701, 7), 0, carried=True, phase=4),
    "contiguous columns in order": call("last", "f4", (700, 4), 0, carried=True, phase=8, reverse=True, exclusive=True),
    "contiguous columns of a warp in order": call(
        "last", "f8", (300, 5), 0, carried=True, reverse=True, exclusive=True
    ),
    "contiguous columns of a warp": call("sum", "f8", (400, 3), 0, carried=True, phase=8),
    "more than a span of contiguous columns": call("sum", "i8", (44000, 6), 0, carried=True),
    "more than a span polled in one batch": call("sum", "f4", (13000, 12), 0, carried=True),
    "many contiguous columns": call("sum", "i4", (300, 37), 0, carried=True),
    "contiguous columns polled in one batch": call("sum", "f4", (700, 37), 0, carried=True, phase=4, reverse=True),
    "contiguous columns in pairs in one batch": call(
        "sum", "f8", (4000, 12), 0, carried=True, view=lambda x: spared(x, (1234, 5))
    ),
    "sums without end in contiguous columns": call(
        "sum", "f8", (700, 12), 0, view=lambda x: spiked(spiked(x, np.inf, 300), -np.inf, 500)
    ),
    "means polled in one batch": call("mean", "f4", (4000, 12), 0, carried=True, phase=4),
    "means in contiguous columns from the end": call("mean", "f4", (4100, 37), 0, carried=True, phase=8, reverse=True),
    "variances polled in one batch": call("var", "f4", (4000, 12), 0, carried=True, phase=4, reverse=True),
    "deviations polled in one batch": call("std", "f4", (4000, 14), 0, carried=True, phase=12),
    "variances near what comes before": call("var", "f4", (9000, 9), 0, carried=True),
    "integers polled in one batch": call("sum", "i8", (900, 20), 0, carried=True, exclusive=True),
    "maxima polled in one batch": call("max", "f4", (900, 41), 0, carried=True),
    "contiguous columns of rows wider than others": call(
        "max", "f4", (90, 132), 0, carried=True, phase=8, reverse=True
    ),
    "contiguous columns of bytes": call("max", "u1", (900, 12), 0, carried=True, phase=4, view=rising),
    "clusters": call("sum", "f4", (1500, 50), 0, carried=True, phase=4, reverse=True, processors=6),
    "clusters of a NaN": call(
        "sum", "f4", (1500, 50), 0, carried=True, view=lambda x: broken(x, np.nan, (700, 3)), processors=6
    ),
    "clusters before each": call("max", "f4", (1100, 44), 0, carried=True, exclusive=True, processors=4),
    "clusters of many columns": call("nansum", "f4", (170, 70), 0, carried=True, phase=8, processors=4),
    "clusters leave a NaN out": call(
        "nansum", "f4", (900, 50), 0, view=lambda x: broken(x, np.nan, (slice(300, 500), 3)), processors=4
    ),
    "clusters of pairs": call("sum", "f8", (600, 45), 0, carried=True, phase=8, reverse=True, processors=6),
    "clusters of eight bytes": call("sum", "i8", (500, 44), 0, carried=True, exclusive=True, processors=4),
    "clusters of eight bytes in order": call("max", "f8", (300, 70), 0, carried=True, processors=4),
    "clusters of few tiles": call("sum", "f4", (31, 47), 0, carried=True, phase=12, processors=4),
    "planes of contiguous columns": call("sum", "f4", (200, 7, 5), 1, carried=True, phase=4, reverse=True),
    "planes of contiguous columns in order": call("last", "i4", (70, 30, 3), 1, carried=True, phase=8, exclusive=True),
    "planes of two tiles of columns": along("ContiguousColumnScan", "sum", "i4", (20, 150, 3), carried=True, phase=4),
    "planes of two tiles of columns from the end": along(
        "ContiguousColumnScan", "last", "i4", (20, 150, 3), reverse=True, exclusive=True
    ),
    "variances of float64 in columns, some missing": call(
        "nanvar", "f8", (1200, 3), carried=True, view=lambda x: missing(x, np.s_[::3, ::2], np.s_[400:420])
    ),
    "few planes of contiguous columns": call("sum", "f8", (2, 150, 5), 1, carried=True, reverse=True),
    "halves in small planes": call(
        "sum", "f2", (450, 7, 5), 1, view=lambda x: broken(x, np.inf, (44, 3, 2)), carried=True
    ),
    "small planes": call("sum", "f4", (450, 7, 5), 1, carried=True),
    "small planes in order": call("last", "i4", (1001, 12, 2), 1, carried=True, reverse=True, exclusive=True),
    "small planes of wider results": call("sum", "i4", (701, 4, 3), 1, carried=True),
    "small planes of bytes": call("max", "i1", (801, 9, 3), 1, reverse=True),
    "short lines backwards": planes("sum", "f4", (301, 11), 1, lambda x: x[:, ::-1], carried=True),
    "short lines backwards from the end": planes("sum", "f8", (150, 9), 1, lambda x: x[::-1, ::-1], reverse=True),
    "short lines with gaps by planes": planes(
        "max", "f4", (203, 13), 1, lambda x: x[:, 1:-1], carried=True, reverse=True
    ),
    "every other of short lines": planes("min", "i1", (210, 28), 1, lambda x: x[:, ::2], carried=True),
    "every third plane from the last": planes("sum", "i2", (300, 7, 5), 1, lambda x: x[::-3], exclusive=True),
    "distant planes": planes("sum", "f4", (96, 8, 9), 1, lambda x: x[::2, ::-1, 2:], carried=True),
    "planes begin anywhere": planes(
        "max", "i1", (90, 50, 5), 2, lambda x: x[::-1, 3:8, 1:], carried=True, reverse=True
    ),
    "planes in runs": planes("sum", "f4", (4, 40, 3, 7), 3, lambda x: x[::-1, 3:, ::-1], carried=True),
    "planes alike in other runs": planes("max", "i2", (5, 45, 22), 2, lambda x: x[:, 1:-1]),
    "planes of rows and columns": planes("sum", "u1", (60, 3, 5, 4), 2, lambda x: x[:, :, ::-1, 1:], carried=True),
    "short lines in turned planes": planes("first", "f2", (90, 6, 5), 1, lambda x: x[:, ::-1].transpose(2, 1, 0)),
    "lines of one element": planes("sum", "f4", (1, 120, 9, 4), 0, lambda x: x[:, :, ::3], carried=True),
    "one short line for many": planes(
        "sum", "f4", (150, 1, 5), 1, lambda x: np.broadcast_to(x, (150, 6, 5)), carried=True
    ),
    "short lines of wide elements": planes("sum", "c16", (140, 5, 3), 1, lambda x: x[:, ::-1], carried=True),
    "short lines of truth": planes("all", "f8", (200, 20), 1, lambda x: x[:, ::2], reverse=True),
    "planes": call("sum", "f4", (2, 3, 90, 40), 2, carried=True, view=lambda x: x[:, ::-1]),
    "one row for all": call("sum", "f4", (40, 100), 0, view=lambda x: np.broadcast_to(x[:1], x.shape), carried=True),
    "one column for all": call("sum", "f8", (300, 40), 0, view=lambda x: np.broadcast_to(x[:, :1], x.shape)),
    "few rows": call("sum", "f4", (7, 1300), 0, carried=True),
    "few rows of odd pitch": call("max", "i1", (5, 3001), 0, carried=True, exclusive=True),
    "few rows apart": call("sum", "f4", (7, 300), 0, view=lambda x: x[:, ::6], carried=True),
    "columns apart": call("sum", "f4", (1000, 24), 0, view=lambda x: x[:, ::6], reverse=True, carried=True),
    "lines misaligned": call("sum", "f4", (3, 1501), 1, view=lambda x: x[:, 1:-2], carried=True),
    "lines misaligned and backwards": call("sum", "f4", (3, 1502), 1, view=lambda x: x[::-1, ::-1], carried=True),
    "narrow lines misaligned": call("sum", "f2", (2, 3001), 1, view=lambda x: x[:, 5:], exclusive=True),
    "bytes misaligned and backwards": call("max", "i1", (2, 6003), 1, view=lambda x: x[:, ::-1]),
    "short lines by lanes": call("sum", "f4", (1003, 3), 1, carried=True),
    "lines of 8 by lanes": call("sum", "f4", (700, 8), 1, reverse=True, carried=True, exclusive=True),
    "lines by lanes in smaller packs": call("sum", "f4", (700, 26), 1, carried=True),
    "halves in lines by lanes": call("sum", "f2", (700, 50), 1, view=lambda x: broken(x, np.inf, (3, 7)), carried=True),
    "pairs in lines by lanes": call("affine", "f8", (901, 3), 1, carried=True, reverse=True),
    "columns from the right": call("sum", "f4", (50, 198), 0, view=lambda x: x[::-1, ::-1], carried=True),
    "every other column": call("sum", "f4", (50, 140), 0, view=lambda x: x[:, ::2], carried=True),
    "columns misaligned": call("sum", "f4", (50, 293), 0, carried=True, exclusive=True),
    "lines by sub-warps": call("sum", "f4", (400, 52), 1, carried=True),
    "lines by large sub-warps": call("max", "f4", (401, 204), 1, reverse=True),
    "odd lines by sub-warps": call("sum", "f4", (400, 43), 1, view=lambda x: x[:, 3:-3], carried=True, exclusive=True),
    "lines by sub-warps backwards": call("sum", "f2", (400, 37), 1, view=lambda x: x[::-1, ::-1], carried=True),
    "narrow lines by sub-warps": call("max", "i1", (370, 91), 1, view=lambda x: x[:, 5:], reverse=True, carried=True),
    "pairs in lines by sub-warps": call("affine", "f8", (370, 35), 1, carried=True),
    "lines by sub-warps in planes": call("sum", "i4", (20, 22, 66), 2, view=lambda x: x[:, 1:-1, 1:-1], carried=True),
    "strided": call("sum", "f8", (2000,), view=lambda x: x[1::3], carried=True),
    "every other byte": call("max", "i1", (12_000,), view=lambda x: rising(x)[1::2], carried=True),
    "every third byte": call("sum", "i1", (18_000,), view=lambda x: x[2::3], reverse=True),
    "every third byte backwards": call("sum", "i1", (18_000,), view=lambda x: x[::-3], carried=True),
    "every other half backwards": call("sum", "f2", (9000,), view=lambda x: x[::-2], carried=True),
    "bytes whose lines go on": call("sum", "i1", (90, 74), 1, view=lambda x: x[:, ::2], carried=True),
    "bytes whose lines do not": call("sum", "i1", (90, 80), 1, view=lambda x: x[:, :74:2], reverse=True),
    "every third half": call("sum", "f2", (15_000,), view=lambda x: x[1::3], exclusive=True),
    "every other float": call("sum", "f4", (4000,), view=lambda x: x[::2], carried=True, reverse=True),
    "every third float backwards": call("sum", "f4", (6000,), view=lambda x: x[::-3], carried=True),
    "every other float of lines": call("max", "f4", (3, 4000), 1, view=lambda x: x[:, 1::2], carried=True),
    "every third half of lines backwards": call("sum", "i2", (3, 9000), 1, view=lambda x: x[:, ::-3], carried=True),
    "any of every other byte": call("any", "?", (40_000,), view=lambda x: late(x, True, 18_003)[1::2]),
    "all backwards": call("all", "i2", (20_000,), view=lambda x: late(x, False, 5)[::-1], carried=True),
    "all from the end": call("all", "?", (20_000,), view=lambda x: late(x, False, 5000), reverse=True, carried=True),
    "any in lines from the end": call("any", "i4", (3, 7001), 1, view=lambda x: late(x, True, 1), reverse=True),
    "backwards": call("affine", "f8", (900,), view=lambda x: x[::-1]),
    "pairs that lie the other way around": apart(call("affine", "f8", (3, 900), 1, carried=True)),
    "pairs in columns that lie the other way around": apart(call("affine", "f4", (900, 40), 0, carried=True)),
}
CALLS |= {
    "segments alone": call("sum", "f4", (131, 256), 0, segmented=True, carried=True),
    "segments alone from the end": call("sum", "f2", (130, 256), 0, segmented=True, reverse=True, exclusive=True),
    "variances alone": call("var", "f4", (261, 192), 0, view=lambda x: broken(x, np.nan, (70, 7)), carried=True),
    "variances past the range alone": call("var", "f8", (301, 36), 0, view=lambda x: spiked(x, 1e160, (150, 3))),
    "variances of doubles alone": call("var", "f8", (301, 36), 0, view=lambda x: broken(x, 4e152, (150, 3))),
    "variances of columns in planes": call(
        "var", "f4", (3, 150, 80), 1, carried=True, view=lambda x: x[::-1], reverse=True
    ),
    "deviations alone": call("std", "f2", (200, 256), 0, view=lambda x: x[:, ::1], carried=True),
    "means alone": call("mean", "f4", (200, 192), 0, view=lambda x: broken(x, np.inf, (20, 7)), carried=True),
    "means in strips": call("mean", "f4", (900, 40), 0, view=lambda x: x[:, :12], carried=True, reverse=True),
    "means of numbers alone": call("nanmean", "f4", (200, 128), 0, view=lambda x: broken(x, np.nan, 20), carried=True),
}
CALLS["variances behind unlike counts"] = unlike_counts(CALLS["variances of doubles alone"])
CALLS["means behind unlike counts"] = unlike_counts(CALLS["means alone"])
CALLS["means in strips behind unlike counts"] = unlike_counts(CALLS["means in strips"])
CALLS |= {
    "positions in lines": call("argmax", "i4", (7, 300), 1, carried=True),
    "positions in reversed lines": call("argmax", "i1", (7, 3000), 1, view=lambda x: rising(x)[:, ::-1], carried=True),
    "positions in a reversed line": call("argmin", "f4", (9000,), view=lambda x: rising(x)[::-1], carried=True),
    "positions in reversed lines from the end": call(
        "nanargmin", "i2", (3, 5000), 1, view=lambda x: rising(x)[:, ::-1], reverse=True, carried=True
    ),
    "positions in reversed columns": call("argmax", "i4", (300, 7), 0, view=lambda x: x[::-1, ::-1], carried=True),
    "counted in reversed lines by sub-warps": counted(
        "argmin", "f4", (400, 43), 1, "SubwarpLineScan, single", view=lambda x: x[:, ::-1]
    ),
    "positions in columns": call("argmin", "i4", (300, 7), 0, reverse=True, carried=True),
    "complex maxima": call("max", "c8", (3, 200), 1, reverse=True),
    "bytes by threads": threads("max", "i1", (7, 1104), view=rising),
    "halves by threads": threads("sum", "f2", (9, 650), view=lambda x: broken(x, np.inf, (4, 33))),
    "variances of halves by threads": threads("var", "f2", (21, 260), reverse=True),
    "variances by threads": threads("nanvar", "f4", (37, 131), view=lambda x: broken(x, np.nan, (5, 7))),
    "deviations of integers by threads": threads("std", "i4", (13, 99)),
    "variances of halves by threads from the first": replace(threads("var", "f2", (21, 260)), carry=None),
    "deviations of floats by threads from the first": replace(
        threads("std", "f4", (37, 131), view=lambda x: broken(x, np.inf, (5, 7))), carry=None
    ),
    "variances of integers by threads from the first": replace(
        threads("var", "u1", (9, 200), reverse=True), carry=None
    ),
    "deviations of pairs of halves by threads": replace(threads("std", "f2", (2, 1300)), carry=None),
    "variances by threads behind others": unlike_counts(threads("var", "f4", (37, 131))),
    "means of halves by threads behind others": unlike_counts(threads("mean", "f2", (10, 260))),
    "deviations by threads of fewer degrees of freedom": replace(threads("std", "f4", (9, 131), ddof=1), carry=None),
    "variances of numbers by threads of fewer degrees of freedom": threads(
        "nanvar", "f4", (9, 131), view=lambda x: broken(x, np.nan, (0, 7)), ddof=1
    ),
    "variances of numbers by threads without degrees of freedom": threads(
        "nanvar", "f4", (9, 131), view=lambda x: broken(x, np.nan, (0, 7)), ddof=3
    ),
    "deviations by threads without degrees of freedom": replace(threads("std", "f4", (9, 131), ddof=4), carry=None),
    "variances of numbers in rows without degrees of freedom": call("nanvar", "f4", (5, 3001), 1, ddof=5),
    "deviations of numbers in a line without degrees of freedom": call("nanstd", "f8", (9001,), ddof=2.5),
    "variances of complex numbers without degrees of freedom": call("nanvar", "c8", (300, 40), 0, ddof=4),
    "variances of integers in strips without degrees of freedom": call("nanvar", "i4", (700, 40), 0, ddof=3),
    "variances of integers in planes without degrees of freedom": call("nanvar", "i4", (300, 20, 5), 1, ddof=3),
    "variances of integers in short lines without degrees of freedom": along(
        "LaneLineScan", "nanvar", "i2", (301, 9), ddof=3
    ),
    "deviations of integers in short lines": along("LaneLineScan", "std", "i2", (301, 8), reverse=True),
    "variances of integers in lines by sub-warps": along("SubwarpLineScan", "var", "i2", (90, 150), reverse=True),
    "deviations of integers in lines without degrees of freedom": along(
        "SubwarpLineScan, single", "nanstd", "i1", (90, 77), ddof=3
    ),
    "deviations in columns without degrees of freedom": call("nanstd", "f2", (700, 70), 0, ddof=3),
    "variances in planes without degrees of freedom": planes("nanvar", "f4", (301, 7, 5), 1, lambda x: x, ddof=3),
    "means in planes of halves": planes("mean", "f2", (301, 7, 5), 1, lambda x: broken(x, np.nan, (9, 3, 2))),
    "deviations in planes": planes("std", "f4", (301, 7, 5), 1, lambda x: x[:, ::-1], reverse=True),
    "variances in planes behind others": planes("var", "f4", (201, 9, 3), 1, lambda x: x, carried=True),
    "variances of integers in planes": planes("var", "i2", (301, 6, 4), 1, lambda x: x[::-1]),
    "variances of numbers in planes": planes("nanvar", "f4", (301, 7, 5), 1, lambda x: broken(x, np.nan, (9, 0, 2))),
    "deviations of numbers in columns": call(
        "nanstd", "f2", (700, 70), 0, view=lambda x: missing(x[:, 1:], np.s_[:90, :9], np.s_[300, ::3]), carried=True
    ),
    "variances of numbers in columns": call(
        "nanvar", "f4", (700, 12), 0, view=lambda x: missing(x, np.s_[:, 3], np.s_[5:600, 5], 0, 7), reverse=True
    ),
    "means of doubles by threads": threads("mean", "f8", (11, 130), exclusive=True),
    "firsts of bytes in planes by threads": threads("first", "i1", (3, 9, 144), 1, view=lambda x: x[:, :, :80]),
    "positions by threads": threads("argmax", "i1", (9, 208), view=rising, reverse=True),
    "counted by threads": counted("argmin", "f4", (9, 132), 0, "scan_thread_columns"),
    "variances in binary32 in strips": call("var", "f4", (2600, 131), view=lambda x: spiked(x, 1e3, (1900, 7))),
    "deviations in binary32 in strips, backwards": call("std", "f2", (1500, 33), reverse=True, carried=True),
    "variances in binary32, some missing": call(
        "nanvar", "bfloat16", (1500, 40), view=lambda x: missing(x, np.s_[900:905, ::7], np.s_[1300, 3]), carried=True
    ),
    "variances in binary32 in contiguous columns": call(
        "var", "f4", (5000, 10), view=lambda x: spiked(x, 1e20, (2900, 7))
    ),
    "variances in binary32 in contiguous columns, some missing": call(
        "nanvar", "f4", (5000, 10), view=lambda x: missing(x, np.s_[4000:4005, ::7], np.s_[2900, 3])
    ),
    "variances past the range in strips": call("var", "f8", (300, 131), view=lambda x: spiked(x, 1e160, (190, 7))),
    "deviations of integers in strips": call("std", "u2", (900, 131), reverse=True, carried=True),
    "variances of bools in strips": call("var", "?", (700, 40), carried=True),
    "deviations of complex numbers in lines": call("std", "c8", (9, 700), 1, carried=True),
    "deviations of a line of complex numbers": call("std", "c16", (3000,), view=lambda x: spiked(x, np.nan, 2500)),
    "deviations in binary32 in contiguous columns, backwards": call(
        "std", "bfloat16", (3000, 7), reverse=True, phase=2
    ),
    "a last row of 12 bytes": call("sum", "f4", (1001, 3), carried=True, segmented=True),
    "counted in columns": counted("argmin", "f4", (300, 70), 0, "StripScan", exclusive=True),
    "counted in few columns": counted("argmax", "i4", (1700, 3), 0, "StripScan"),
    "counted in contiguous columns": counted("argmax", "u1", (700, 7), 0, "ContiguousColumnScan", view=rising),
    "counted in planes of columns": counted("nanargmin", "f4", (40, 70, 3), 1, "ContiguousColumnScan"),
    "counted in small planes": counted("argmax", "f8", (450, 7, 5), 1, "SmallLineScan"),
    "counted in lines by lanes": counted("argmin", "i2", (701, 9), 1, "LaneLineScan", exclusive=True),
    "counted in lines by sub-warps": counted("argmax", "f4", (400, 43), 1, "SubwarpLineScan, single"),
    "complex maxima in columns": counted("max", "c8", (200, 40), 0, "StripScan"),
    "complex minima by sub-warps": counted("nanmin", "c16", (90, 37), 1, "SubwarpLineScan, single"),
    "two operands in segments": call("affine", "f8", (5, 170), 1, segmented=True, carried=True),
    "two operands in segments of columns": call(
        "affine", "f8", (170, 5), 0, segmented=True, exclusive=True, reverse=True
    ),
}
CALLS |= {
    "firsts of flags": call("first", "?", (20_000,), view=lambda x: late(x, True, 0), phase=3),
    "firsts behind others": call("first", "i2", (9000,), carried=True, phase=2),
    "firsts": call("first", "f4", (9000,), view=lambda x: missing(x, np.s_[:5003]), phase=4),
    "firsts from the end": call("first", "f4", (9000,), view=lambda x: missing(x, np.s_[4003:]), reverse=True),
    "firsts of halves from the end": call("first", "f2", (9000,), view=lambda x: missing(x, 8999), reverse=True),
    "firsts before each": call("first", "f4", (9000,), view=lambda x: missing(x, np.s_[:5003]), exclusive=True),
    "firsts in lines": call(
        "first", "f4", (4, 3001), 1, view=lambda x: missing(x, np.s_[:, :700], np.s_[1, :2950], 2), carried=True
    ),
    "firsts in short lines": call(
        "first", "f2", (70, 67), 1, view=lambda x: missing(x, np.s_[::3, :30], np.s_[5:9])[:, 1:], reverse=True
    ),
    "firsts in long lines": call(
        "first", "f4", (2, 4000), 1, view=lambda x: missing(x, np.s_[:, :2100], np.s_[1, 2200:]), phase=8
    ),
    "firsts in lines by lanes": call("first", "i1", (700, 26), 1, carried=True, reverse=True),
    "firsts by sub-warps": call("first", "f4", (400, 52), 1, view=lambda x: missing(x, np.s_[:, :31], np.s_[::9])),
    "firsts in lines misaligned": call(
        "first", "f4", (3, 2402), 1, view=lambda x: missing(x, np.s_[:, :1300])[::-1, 1:-2], carried=True
    ),
    "firsts in segments": call("first", "f4", (5000,), view=lambda x: missing(x, np.s_[::2]), segmented=True),
    "firsts in segments from the end": call(
        "first", "f4", (3, 700), 1, view=lambda x: missing(x, np.s_[::2]), segmented=True, reverse=True, carried=True
    ),
    "lasts of flags": call("last", "?", (20_000,), view=lambda x: late(x, True, 5, 9000)),
    "lasts in lines": call("last", "i2", (3, 3001), 1, carried=True, reverse=True, exclusive=True),
}
PACKS = {
    "sums of halves": call("sum", "f2", (9000,), view=lambda x: broken(x, np.inf, 7000)),
    "sums of bfloat16": call("nansum", "bfloat16", (9000,), view=lambda x: broken(x, np.nan, 4000), carried=True),
    "sums of halves backwards": call("sum", "f2", (9000,), view=lambda x: broken(x, np.inf, 2000), reverse=True),
    "sums of halves in lines": call(
        "sum", "f2", (3, 3001), 1, view=lambda x: broken(x, np.inf, (1, 2000)), carried=True
    ),
    "sums of halves in lines backwards": call(
        "nansum", "f2", (4, 3000), 1, view=lambda x: broken(x, -np.inf, (2, 700)), reverse=True, carried=True
    ),
    "sums of bfloat16 in lines": call(
        "nansum", "bfloat16", (3, 3001), 1, view=lambda x: broken(x, np.nan, np.s_[:, ::7]), carried=True
    ),
    "sums of bfloat16 in long lines": call(
        "sum", "bfloat16", (2, 9000), 1, view=lambda x: broken(x, np.nan, (0, 8000))
    ),
    "sums of halves before them": call(
        "nansum", "f2", (2, 9000), 1, view=lambda x: broken(x, np.nan, np.s_[:, ::5]), exclusive=True
    ),
    "sums of floats as doubles": call("sum", "f4", (100, 512), view=lambda x: broken(x, np.nan, (70, 7)), result="f8"),
    "sums of floats apart as doubles": call("nansum", "f4", (120, 203), carried=True, result="f8"),
    "sums of floats as halves": call("nansum", "f4", (100, 512), reverse=True, carried=True, result="f2"),
    "sums of floats in lines as halves": call("sum", "f4", (3, 3001), 1, carried=True, result="f2"),
    "sums misaligned as doubles": call("sum", "f4", (5, 1503), 1, view=lambda x: x[:, 1:-1], carried=True, result="f8"),
    "sums of halves as floats": call("sum", "f2", (3, 3001), 1, view=lambda x: broken(x, np.inf, 2), result="f4"),
    "sums of halves in columns as doubles": call("sum", "f2", (100, 512), carried=True, result="f8"),
    "means of floats as halves": call("mean", "f4", (5000,), carried=True, result="f2"),
    "means of floats in columns as halves": call("nanmean", "f4", (900, 40), carried=True, result="f2"),
    "means of halves as floats": call("mean", "f2", (3, 3001), 1, carried=True, result="f4"),
    "variances of floats as doubles": call("var", "f4", (200, 192), carried=True, result="f8"),
    "sums misaligned": call(
        "sum", "f4", (5, 1503), 1, view=lambda x: broken(x, np.inf, (3, 800))[:, 1:-1], carried=True
    ),
    "sums from the end misaligned": call(
        "nansum", "f4", (5, 1503), 1, view=lambda x: broken(x, np.nan, np.s_[:, ::70])[::-1, ::-1], carried=True
    ),
    "sums backwards misaligned": call(
        "sum", "f4", (4, 1602), 1, view=lambda x: broken(x, np.nan, (1, 300))[:, 1:-1], reverse=True, carried=True
    ),
    "sums of halves misaligned": call("sum", "f2", (5, 2403), 1, view=lambda x: broken(x, np.inf, (3, 800))[:, 1:-1]),
    "sums of squares": call("sumsq", "f4", (5000,), carried=True),
    "sums of squares of halves": call("sumsq", "f2", (3, 3001), 1, reverse=True),
    "sums of magnitudes in lines": call("norm1", "f4", (30, 300), 1, carried=True),
    "means": call("mean", "f4", (5000,), carried=True),
    "means in lines": call("mean", "f4", (3, 3001), 1, carried=True, phase=4),
    "means in lines, reverse": call("mean", "i4", (2, 3500), 1, carried=True, reverse=True, exclusive=True, phase=4),
    "means of halves": call("mean", "f2", (6000,), view=lambda x: broken(x, 0, 0) + np.float16(9)),
    "means of halves behind an infinity": call("mean", "f2", (6000,), view=lambda x: broken(x, np.inf, 100)),
    "means of halves late behind an infinity": call("nanmean", "f2", (6000,), view=lambda x: broken(x, -np.inf, 3100)),
    "means past the range of binary32": call("mean", "bfloat16", (40, 300), 1, view=lambda x: swinging(x, 1e37)),
    "means of a pack past the range": call("mean", "bfloat16", (40, 300), 1, view=lambda x: swinging(x, 3e38)),
    "means of integers": call("mean", "i4", (4000,)),
    "means of complex numbers": call("mean", "c8", (600,)),
    "means of numbers": call("nanmean", "f4", (3000,), view=lambda x: broken(x, np.nan, 0)),
    "variances": call("var", "f4", (5000,), carried=True),
    "variances past the range": call("var", "f8", (2000,), view=lambda x: broken(x, 4e152, 1500)),
    "variances in lines": call("var", "f4", (3, 6001), 1, carried=True),
    "variances in lines of many": call("var", "f4", (41, 401), 1, carried=True, phase=4),
    "variances in lines of many backwards": call("var", "f8", (41, 259), 1, reverse=True, carried=True),
    "deviations of lines that begin with shares": call("std", "f8", (7, 384), 1, phase=8),
    "variances of integers in lines": call("var", "i4", (41, 259), 1, carried=True, phase=4),
    "deviations of integers in lines backwards": call("std", "i4", (9, 700), 1, reverse=True),
    "deviations of halves in lines": call("std", "f2", (9, 1900), 1, totals=False, phase=2),
    "variances in lines of unlike size": call(
        "var", "f8", (9, 500), 1, view=lambda x: x * np.array([[1e6], [1e-6], [1]]).repeat(3, 0)
    ),
    "deviations of lines behind an infinity": call(
        "std", "f4", (9, 700), 1, view=lambda x: spiked(x, np.inf, (2, 650))
    ),
    "deviations with an outlier": call("std", "f4", (9000,), view=lambda x: spiked(x, 1e20, 7038)),  # in a last lane
    "variances behind an infinity": call("var", "f4", (3000,), view=lambda x: spiked(x, np.inf, 1999), reverse=True),
    "deviations behind an infinity": call("std", "f4", (3000,), view=lambda x: spiked(x, np.inf, 1999)),
    "variances in reverse": call("var", "f4", (9000,), view=lambda x: spiked(x, 30, 1000), reverse=True, carried=True),
    "variances of doubles in reverse": call("var", "f8", (3, 3001), 1, reverse=True, carried=True, phase=8),
    "deviations of halves in reverse": call("std", "f2", (9000,), reverse=True),
    "variances of numbers": call("nanvar", "f4", (9000,), view=lambda x: broken(x, np.nan, 7000), carried=True),
    "deviations of numbers in lines": call("nanstd", "f8", (3, 3001), 1, view=lambda x: broken(x, np.nan, (1, 7))),
    "variances of short lines": call("var", "f4", (2100, 3), 1, totals=False, view=lambda x: broken(x, np.inf, (7, 0))),
    "variances of short lines in reverse": call("var", "f4", (700, 26), 1, totals=False, reverse=True),
    "deviations of short lines": call(
        "std", "f2", (700, 50), 1, totals=False, view=lambda x: broken(x, np.nan, (3, 7))
    ),
    "variances of short lines behind others": call("var", "f4", (1003, 8), 1, carried=True),
    "variances by sub-warps": call("var", "f4", (400, 52), 1, totals=False),
    "variances of odd lines by sub-warps": call("var", "f4", (400, 43), 1, view=lambda x: x[:, 3:-3]),
    "variances of odd lines": call(
        "var", "f4", (400, 43), 1, totals=False, view=lambda x: broken(x[:, 3:-3], 1e20, (9, 0))
    ),
    "deviations by sub-warps backwards": call("std", "f2", (400, 37), 1, totals=False, view=lambda x: x[::-1, ::-1]),
    "variances by sub-warps behind others": call("var", "f4", (400, 52), 1, reverse=True, carried=True),
    "variances of many digits": call("var", "f8", (9000,), view=lambda x: x + 7),
    "deviations in lines": call("std", "f8", (3, 1500), 1),
    "means in columns": call("mean", "f4", (60, 300), 0, view=lambda x: broken(x, np.nan, (20, 7)), carried=True),
    "variances in columns": call("var", "f4", (900, 70), 0, view=lambda x: x[:, 1:]),
    "halves in columns": call("sum", "f2", (100, 512), 0, view=lambda x: broken(x, np.inf, (70, 7)), carried=True),
    "halves in contiguous columns": call(
        "sum", "f2", (700, 33), 0, view=lambda x: broken(x, -np.inf, (400, 7)), carried=True
    ),
    "a NaN in columns": call("sum", "f4", (100, 512), 0, view=lambda x: broken(x, np.nan, (70, 7)), carried=True),
    "a NaN in columns apart": call("sum", "f4", (120, 203), 0, view=lambda x: broken(x, np.nan, (70, 7)), reverse=True),
    "a NaN in columns before each": call(
        "sum", "f4", (100, 512), 0, view=lambda x: broken(x, np.nan, (70, 7)), exclusive=True
    ),
    "halves in pairs of contiguous columns": call(
        "nansum", "f2", (700, 34), 0, view=lambda x: broken(x, np.nan, (400, 7))
    ),
    "halves in planes of lines": call(
        "sum", "bfloat16", (9, 30, 6), 1, view=lambda x: broken(x, np.nan, (4, 29, 5)), carried=True
    ),
    "halves in columns, before each": call(
        "sum", "f2", (100, 512), 0, view=lambda x: broken(x, np.inf, (70, 7)), exclusive=True, reverse=True
    ),
    "any in lines": call("any", "?", (2, 9000), 1, view=lambda x: late(x, True, 1)),
    "all in reverse": call("all", "?", (20000,), view=lambda x: late(x, False, 11_111), reverse=True),
    "any of none": call("any", "f8", (3001,), phase=8, view=lambda x: late(x, True)),
    "all of pairs": call("all", "c16", (700,), view=lambda x: late(x, False, 399, 12)),
}
CALLS |= PACKS
METHODS = {
    f"reduce-then-scan, {name}": replace(call(*arguments, **options), method="reduce-then-scan")
    for name, arguments, options in (
        ("long", ("sum", "i4", (90_001,)), {"carried": True}),
        ("in order", ("affine", "f8", (3, 7000), 1), {"reverse": True, "carried": True}),
        ("positions", ("argmax", "f4", (3, 700), 1), {"reverse": True, "carried": True}),
        ("segments", ("affine", "f4", (3, 700), 1), {"segmented": True, "exclusive": True}),
        ("in columns", ("sum", "i4", (700, 3)), {"segmented": True, "exclusive": True}),
    )
}
CALLS |= METHODS
AGREED = {  # integers, of which all methods give the same bits
    name: [replace(call(name, "i4", (3, 700), 1, carried=True, reverse=True), method=m) for m in scan_task.METHODS]
    for name in ("sum", "max", "last")
}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build([unit([*CALLS.values(), *(one for several in AGREED.values() for one in several)])])[0]


@pytest.mark.parametrize(
    ("name", "schedule"), in_turn([name for name in CALLS if name not in METHODS | PACKS], SCHEDULES)
)
def test_scan(kernels, name, schedule):
    check(kernels, CALLS[name], schedule, seed=len(name))


@pytest.mark.parametrize("name", METHODS | PACKS)
def test_without_other_orders(kernels, name):  # their warps tell each other nothing, packs are a thread's
    check(kernels, CALLS[name], "starved", seed=len(name))


@pytest.mark.parametrize("name", AGREED)
def test_methods_agree(kernels, name):
    found = [run(kernels, one, "random", seed=i) for i, one in enumerate(AGREED[name])]
    for got, total in found:
        assert (got.tobytes(), total.tobytes()) == (found[0][0].tobytes(), found[0][1].tobytes())
    check(kernels, AGREED[name][0], "random")


@pytest.mark.parametrize("name", FAMILIES)
def test_families_beyond_two_to_the_32_have_their_kernels(name):
    """Of more elements than are scanned here: those that a GPU tries."""
    plan = as_planned(FAMILIES[name]).plan
    assert launches(plan, FAMILIES[name]), [step.kernel for step in plan.steps]


def test_anchors():
    """With anchors eight times as close as they are: as it is they are far more tiles apart than there is time for."""
    text = sources.source("scan.cuh")
    post = "anchors[group].publish(range.contains_head ? own : Op::combine(before, own))"
    assert "GROUP = 8;" in text and post in text
    near, one = text.replace("GROUP = 8;", "GROUP = 1;"), CALLS["more than a stretch"]
    with mock.patch.object(scan_plans, "tile_states", lambda tiles: 2 * tiles):
        right, wrong = build([unit([one], near), unit([one], near.replace(post, "anchors[group].publish(before)"))])
        for schedule in SCHEDULES:
            check(right, one, schedule, seed=3)
        with pytest.raises((SimtError, AssertionError)):
            check(wrong, one, "forward", seed=3)


def test_variances_have_all_their_digits(kernels):
    one = CALLS["variances of many digits"]
    wanted, _ = host_scan.scan(one.chunks, one.bound, 0)
    np.testing.assert_allclose(run(kernels, one, "forward")[0], wanted, rtol=1e-13)


@pytest.mark.parametrize("name", ["sum", "affine"])
def test_rows_of_one_operand_lie_alike_and_of_the_other_do_not(name):
    """All rows of one at one address modulo 16, not a multiple of it; those of the other at addresses that vary."""
    rng = np.random.default_rng(0)
    alike = scans.aligned(rng.random((200, 112)).astype("f4"), 0)[:, 1:101]
    vary = scans.aligned(rng.random((200, 101)).astype("f4"), 0)[:, :100]
    if name == "sum":
        one = scans.Call(OPERATORS["sum"].bind(np.dtype("f4")), (alike,), 0, resets=scans.aligned(vary < 0.1, 0))
    else:
        one = scans.Call(OPERATORS["affine"].bind(np.dtype("f4"), np.dtype("f4")), (vary, alike), 0)
    assert "StripScan" in one.kernels()[0]
    kernels = build([unit([one])])[0]
    for seed, schedule in enumerate(SCHEDULES):
        check(kernels, one, schedule, seed)


def test_runs_of_some_packs():
    """Variances of a lane's packs one after another, and some together; with an outlier they take more digits."""
    outlier = call("var", "f4", (9000,), view=lambda x: spiked(x, 1e20, 7 * 384 + 377), carried=True)
    calls = [
        outlier,
        call("var", "f8", (9000,), view=lambda x: x + 7, carried=True),
        call("std", "f8", (3, 5000), 1, reverse=True),
        call("nanstd", "f4", (9000,), view=lambda x: broken(x, np.nan, 5000), reverse=True),
        call("var", "f2", (20_000,), view=lambda x: x + np.float16(2)),
    ]
    text, asks = sources.source("scan.cuh"), "delta.is_small(squares)"
    assert asks in text
    with mock.patch.object(scans, "LIMIT", 32 << 10):
        assert all(", 3, " in one.kernels()[0] for one in calls)  # packs of a lane
        right, wrong = build([unit(calls, text), unit([outlier], text.replace(asks, "delta.is_small(0)"))])
        for one in calls:
            check(right, one, "forward", seed=3)
        with pytest.raises(AssertionError):
            check(wrong, outlier, "forward", seed=3)


def test_bits_do_not_depend_on_the_order_of_events(kernels):
    for name in ("more than a stretch", "in pairs"):
        first, _ = run(kernels, CALLS[name], "forward")
        for seed, schedule in enumerate(SCHEDULES):
            again, _ = run(kernels, CALLS[name], schedule, seed)
            np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("name", ["a line of variances", "columns of variances", "few columns far from zero"])
def test_digits_of_variances(name):
    """Behind thousands of elements a reciprocal is not near enough to that of the next but one."""
    shape = {"a": (5000,), "c": (5000, 32), "f": (5000, 5)}[name[0]]
    one = call("var", "f8", shape, 0, view=lambda x: x + (1e8 if len(shape) > 1 else 3))
    if len(shape) > 1:
        one = replace(one, method="StripScan")
    got, _ = run(build([unit([one])])[0], one, "forward")
    x = (one.chunks[0] - one.chunks[0][0]).astype(np.longdouble)
    count = np.arange(1, 5001).reshape(-1, *[1] * (x.ndim - 1))
    wanted = np.cumsum(x * x, axis=0) / count - (np.cumsum(x, axis=0) / count) ** 2
    np.testing.assert_allclose(got[1:], wanted[1:].astype("f8"), rtol=4e-15)


def test_digits_of_variances_of_lines_by_a_thread_each():
    """Far from the first elements, and in binary64 though elements have few digits."""
    one = call(
        "var", "f4", (2, 5000), 1, view=lambda x: np.where(np.arange(5000) < 4, 0, x + 1e4).astype("f4"), result="f8"
    )
    one = replace(one, method="scan_lines")
    with mock.patch.object(scan_plans, "ENOUGH", 1):
        got, _ = run(build([unit([one])])[0], one, "forward")
    x, count = one.chunks[0].astype(np.longdouble), np.arange(1, 5001)
    wanted = np.cumsum(x * x, axis=1) / count - (np.cumsum(x, axis=1) / count) ** 2
    np.testing.assert_allclose(got[:, 4:], wanted[:, 4:].astype("f8"), rtol=1e-12)


# what is wrong: the text, what stands there instead, and calls that show it
DEFECTS = {
    "lanes of a warp all begin where it does": (
        "State state = Op::combine(before, lane_before<Op, 32>(through));",
        "State state = before;",
        ("reduce-then-scan, in order",),
    ),
    "all parts of a line begin where the last ones of a warp do": (
        "if (split < task.tiles) states[split * task.lines] = Op::combine(before, own);",
        "if (split < task.tiles) states[split * task.lines] = before;",
        ("reduce-then-scan, long",),
    ),
    "a barrier's number comes again too soon": (
        "return 1 + round % (2 * WRITE_DELAY);",
        "return 1 + round % WRITE_DELAY;",
        ("wider results", "maxima"),
    ),
    "bytes of two lanes change places": (
        "Lane::better(before, even), odd, 0x7351",
        "Lane::better(before, even), odd, 0x5173",
        ("maxima of bytes",),
    ),
    "a product's exponent stays": (
        "if (normalise(state)) find_scales();",
        "normalise(state);",
        ("products of float32 in columns", "products of halves in columns"),
    ),
    "no element leaves the range": (
        "exponent_bits(x) - (1023 - STATE_BITS) <= 2 * STATE_BITS",
        "true",
        ("products", "products in columns"),
    ),
    "positions stay behind other elements": (
        "stays &= !Op::beats(",
        "stays |= !Op::beats(",
        ("positions",),
    ),
    "packs behind a first element look for another": (
        "const typename Emit::Out result = Emit::of(this->state, this->option);",
        "const typename Emit::Out result = Emit::of(Op::lift(from.at[0], 0), this->option);",
        ("firsts", "firsts in lines", "firsts in short lines"),
    ),
    "all packs are behind a first element": (
        "if (Op::is_decided(acc)) return;",
        "return;",
        ("firsts", "firsts from the end"),
    ),
    "firsts from the end are those of memory": (
        "reduce.take(in_scan_order(from));",
        "reduce.take(from);",
        ("firsts from the end",),
    ),
    "a narrow share ends before its last batch": (
        "if (units.has(round + i)) *(W*)(target",
        "if (units.has(round + 10)) *(W*)(target",
        ("halves whose ends differ", "bytes whose ends differ"),
    ),
    "lanes forget those of the word before": ("carry = __byte_perm(odd, 0, 0x3232);", "", ("maxima of bytes",)),
    "a share passes for finite": (
        "return __all_sync(0xffffffffu, all.was_finite());",
        "return true;",
        ("sums of halves", "sums of halves in lines"),
    ),
    "packs misaligned are taken for straight": (
        "if (first) SteppedSpan<Share::elements, Share::size_a>::realign(share_a(stage), first);",
        "",
        ("sums misaligned", "sums from the end misaligned"),
    ),
    "infinities are left out as NaN are": (
        "(0x7fff7fffu - infinity)",
        "(0x80008000u - infinity)",
        ("sums of halves in lines backwards",),
    ),
    "no line ends where a share is written": (
        "const bool even = Lines ? pending.even : is_inner(first);",
        "const bool even = true;",
        ("sums of halves in lines", "means in lines"),
    ),
    "an assumption is taken for right": (
        "return check == 0;",
        "return true;",
        ("halves in columns", "halves in contiguous columns"),
    ),
    "an assumption is forgotten where a line begins": (
        "return is_finite && fold.was_finite();",
        "return fold.was_finite();",
        ("halves in planes of lines",),
    ),
    "rows of a run are those of one column": (
        "column.at[i] = rows[i].at[j];",
        "column.at[i] = rows[0].at[j];",
        ("means in columns", "variances in columns"),
    ),
    "a lane's moments are those of fewer": (
        "fold.unpacked(own), lane * Share::run)",
        "fold.unpacked(own), lane * (Share::run - 1))",
        ("variances",),
    ),
    "a large change passes for a small one": (
        "none ? -1.0f : (f32)before.m2 * 0.03125f;",
        "none ? -1.0f : bit_cast<f32>(0x7f800000u);",
        ("deviations with an outlier",),
    ),
    "what is left out counts": ("__all_sync(0xffffffffu, fold.is_whole())", "true", ("variances of numbers",)),
    "lanes divide by the first one's counts": ("parts() + place);", "parts());", ("variances by sub-warps",)),
    "counts of a line go on in the next": (
        "if (Ends && ++number == (u32)task.length) number = 0;",
        "if (Ends) number = (number + 1) % 2;",
        ("variances of short lines",),
    ),
    "moments of the line before count": ("if (lane >= first + up)", "if (lane >= up)", ("variances in lines",)),
    "a cut is behind what is missing": (
        "missing &= 0xfffffffeu << (31 - __clz((i32)cuts));",
        "missing = 0;",
        ("segments",),
    ),
    "prefixes are awaited a round too early": (
        "await(&work.ring().found, (round - WRITE_DELAY + 1) * LookBackWarps);",
        "await(&work.ring().found, (round - WRITE_DELAY) * LookBackWarps);",
        ("tiles", "more than a stretch"),
    ),
    "a tile is taken after it is shown": (
        "location(round + 2) = taken_location(round + 2, taken);",
        "",
        ("tiles",),
    ),
    "nobody waits for copies": ("wait_copies<1>();", "", ("tiles",)),
    "one copy too many is left under way": ("wait_copies<1>();", "wait_copies<2>();", ("tiles",)),
    "a state is read before it is published": (
        "there = there && seen[i] >> 32 == mark;",
        "",
        ("tiles", "more than a stretch"),
    ),
    "half of a number is seen before the other": ("sizeof words[0]);", "4);", ("in pairs", "variances")),
    "a state is seen before its mark, or behind it": ("sizeof words[0]);", "4);", ("tiles", "more than a stretch")),
    "a warp's lanes do not come to a barrier together": (
        "GR_HD void wait_at(u32 barrier, u32 threads) {\n    __syncwarp();",
        "GR_HD void wait_at(u32 barrier, u32 threads) {",
        ("many contiguous columns", "clusters"),
    ),
    "half of a state is read before it is published": (
        "there = there && seen[i] >> 32 == mark;",
        "there = there && (i % 2 == 1 || seen[i] >> 32 == mark);",
        ("tiles", "more than a stretch"),
    ),
    "the other half is read before it is published": (
        "there = there && seen[i] >> 32 == mark;",
        "there = there && (i % 2 == 0 || seen[i] >> 32 == mark);",
        ("wider results",),
    ),
    "half of a tile state is taken that is polled in one batch": (
        "return polled[0] != 0 && polled[all - 1] != 0;",
        "return polled[0] != 0;",
        ("contiguous columns in pairs in one batch",),
    ),
    "half of a tile state is taken": (
        "there = there && seen[i] >> 32 == mark;",
        "there = there && (i % 2 == 1 || seen[i] >> 32 == mark);",
        ("variances", "in pairs"),
    ),
    "tiles are numbered in the order of blocks": (
        "GR_HD u64 tile_of(u32, u32 taken) const { return taken; }",
        "GR_HD u64 tile_of(u32 round, u32) const { return blockIdx.x + (u64)round * gridDim.x; }",
        ("tiles", "more than a stretch"),
    ),
    "a flag is raised without a release": ("    simt::release();\n", "", ("columns",)),
    "a tile is fetched before it is taken": (
        "if (represents_warp(lane)) await(&work.ring().taken, round + 3);",
        "",
        ("short lines", "columns"),
    ),
    "tiles are taken out of turn": (
        "await(&work.ring().taken, round + STAGES);",
        "",
        ("short lines", "columns"),
    ),
    "prefixes are read before they are found": (
        "if (represents_warp(lane)) await(&work.ring().found, (round - WRITE_DELAY + 1) * LookBackWarps);",
        "",
        ("maxima", "short lines"),
    ),
    "a warp does not ask those before it": (
        "(decided & ((1u << lane) - 1)) != 0",
        "false",
        ("any", "all"),
    ),
    "what decides is sought one pack too late": ("pack += __ffs(lanes) - 1;", "pack += __ffs(lanes);", ("any", "all")),
    "a tile looks back at itself": ("one >= begin && one < tile", "one >= begin && one <= tile", ("tiles",)),
    "a stretch leaves out its last tile": (
        "range.contains_head ? own : Op::combine(whole, own)",
        "range.contains_head ? own : whole",
        ("more than a stretch",),
    ),
    "operands swapped": (
        "state = Op::combine(earlier, state);",
        "state = Op::combine(state, earlier);",
        ("in order",),
    ),
    "the tile where a line begins is not waited for": (
        "in_line) + each - 1) / each;",
        "in_line)) / each;",
        ("planes of two tiles of columns", "planes of two tiles of columns from the end"),
    ),
    "a line begins one element late": (
        "if (--at.left == 0) end_line(",
        "if (at.left-- == 0) end_line(",
        ("short lines",),
    ),
    "lines in reverse take each other's carries": (
        "return Reverse ? task.lines - 1 - line : line;",
        "return line;",
        ("lines, reverse and exclusive",),
    ),
    "parts leave out a remainder": (
        "share = (task.length + task.tiles - 1) / task.tiles",
        "share = task.length / task.tiles",
        ("columns apart",),
    ),
    "a strip's tile takes whatever stands there": (
        "if (!there && tile_state->read(seen, (u32)link)) state = seen, there = true;",
        "tile_state->read(seen, (u32)link), state = seen, there = true;",
        ("middle axis", "halves apart"),
    ),
    "a tile takes whatever stands there": (
        "if (polled[i].is_published()) wanted &= ~(1u << i);",
        "wanted &= ~(1u << i);",
        ("contiguous columns polled in one batch", "contiguous columns in pairs in one batch"),
    ),
    "row groups of lanes swapped": (
        "state[0] = Op::combine(earlier, state[0]);",
        "state[0] = Op::combine(state[0], earlier);",
        ("few columns in order",),
    ),
    "rows keep the first one's phase": (
        "phase = (phase + phase_step) & 15;",
        "",
        ("few columns with gaps", "narrow columns of odd stride"),
    ),
    "results leave before all lanes have theirs": (
        "if (!StagesResults || rows == 0) return;\n        __syncwarp();",
        "if (!StagesResults || rows == 0) return;",
        ("few columns in order",),
    ),
    "short lines are read before they are there": ("wait_copies<Work::ahead>();", "", ("short lines by lanes",)),
    "packs of an even run stay where they meet in a bank": (
        "            move(at ^ swizzle(number), at);",
        "            move(at, at);",
        ("lines of 8 by lanes",),
    ),
    "lanes of a sub-warp begin with their own elements": (
        "State state = lane_before<Op, Lanes>(warp_scan<Op, Lanes>(reduce.state()));",
        "State state = warp_scan<Op, Lanes>(reduce.state());",
        ("lines by sub-warps", "lines by large sub-warps"),
    ),
    "a line's pack is written with another's end": (
        "            if (at >= lead) __stcs(",
        "            __stcs(",
        ("odd lines by sub-warps", "narrow lines by sub-warps"),
    ),
    "rows of a strip stay as they are in binary32": (
        "if (scan.is_small((u32)task.rows)) return;",
        "return;",
        ("variances in binary32 in strips", "variances in binary32, some missing"),
    ),
    "rows of contiguous columns are taken to be small in binary32": (
        "is_small(squares < 0 ? 0 : squares)",
        "is_small(0)",
        ("variances in binary32 in contiguous columns",),
    ),
    "rows of contiguous columns are taken to be all there": (
        "if (pending.through.count - ahead.count != rows)",
        "if (false)",
        ("variances in binary32 in contiguous columns, some missing",),
    ),
    "a line shorter than a pack stays behind": (
        "if (lead || end == 0)",
        "if (lead)",
        ("a last row of 12 bytes",),
    ),
    "only a line's first end in a run is seen": (
        "elements.begin = elements.end - (behind - more * length);",
        "elements.begin = elements.end - behind;",
        ("lines shorter than a run",),
    ),
    "a line that ends goes on": (
        "value = start_or_none(++at.line);",
        "++at.line;",
        ("lines of tiles", "short lines"),
    ),
    "packs are shifted before the next ones are read": (
        "});\n            __syncwarp();\n            unrolled<batch>([&](int i) {",
        "});\n            unrolled<batch>([&](int i) {",
        ("narrow lines misaligned",),
    ),
    "a second line begins where the first one goes on": (
        "pitch = {next.a - here.a, next.b - here.b, next.c - here.c};",
        "",
        ("lines whose ends differ", "halves whose ends differ", "bytes apart whose ends differ"),
    ),
    "a span leaves out its last tile": (
        "anchor[(RADIX + 1) * wide].publish(Part::of(Op::combine(state, own)));",
        "anchor[(RADIX + 1) * wide].publish(Part::of(state));",
        ("more than a span of contiguous columns",),
    ),
    "tile states are taken before they are there": (
        "return polled[0] != 0 && polled[all - 1] != 0;",
        "return true;",
        ("contiguous columns polled in one batch", "contiguous columns in pairs in one batch"),
    ),
    "a state looks like none": (
        "(word == ZERO_ENCODED ? SUBSTITUTE_NAN : word) ^ ZERO_ENCODED",
        "word ^ ZERO_ENCODED",
        ("contiguous columns in pairs in one batch",),
    ),
    "a stretch polled in one batch leaves out its last tile": (
        "anchor[(1 + far) * wide].publish(Part::of(Op::combine(behind, own)));",
        "anchor[(1 + far) * wide].publish(Part::of(behind));",
        ("contiguous columns in pairs in one batch",),
    ),
    "all chains poll tile states of the first one": (
        "(Published*)task.states + chain * each * wide + column",
        "(Published*)task.states + column",
        ("few rows of odd pitch in one batch",),
    ),
    "a span polled in one batch leaves out its last tile": (
        "anchor[(RADIX + 1) * wide].publish(Part::of(Op::combine(state, own)));",
        "anchor[(RADIX + 1) * wide].publish(Part::of(state));",
        ("contiguous columns in pairs in one batch",),
    ),
    "a span's elements are those since the first tile": (
        "counts.before(first) + Part::count(start)",
        "counts.before(first)",
        ("means in contiguous columns from the end", "variances polled in one batch"),
    ),
    "all columns have as many elements in the first tile": (
        "(i64)task.links * each : -less};",
        "(i64)task.links * each : 0};",
        ("means polled in one batch", "deviations polled in one batch"),
    ),
    "columns begin with the first position": (
        "return position + rows_ahead(location, position) * width - location.lead;",
        "return position;",
        ("contiguous columns",),
    ),
    "a warp group goes on before all have their copies": (
        "sync_group();  // all have their copies",
        "",
        ("many contiguous columns",),
    ),
    "results leave before a warp group has them": (
        "sync_group();\n        drain(location, stage);",
        "drain(location, stage);",
        ("many contiguous columns",),
    ),
    "row groups come in the order of memory": (
        "[(is_reverse() ? parts() - 1 - t : t) * width",
        "[t * width",
        ("contiguous columns in order",),
    ),
    "row groups of a warp swapped": (
        "state = Running::combine(earlier, state);",
        "state = Running::combine(state, earlier);",
        ("contiguous columns of a warp in order",),
    ),
    "what blocks of a cluster send is taken before it is there": (
        "to.words[i] = await_remote_word(&from.words[i], number);",
        "to.words[i] = (u32)from.words[i];",
        ("clusters", "clusters of many columns"),
    ),
    "one word of a state is awaited for both": (
        "to.words[i] = await_remote_word(&from.words[i], number);",
        "to.words[i] = i ? (u32)from.words[i] : await_remote_word(&from.words[i], number);",
        ("clusters", "clusters of many columns"),
    ),
    "what blocks of a cluster send of one tile counts for others": (
        "number = (u32)(location.link / CLUSTER_BLOCKS) + 1;",
        "number = 1;",
        ("clusters", "clusters of many columns"),
    ),
    "bits are shifted of what is not added itself": (
        "if constexpr (AddsElements<Map>::yes && V",
        "if constexpr (ExponentShiftedBits<T>::exists && V",
        ("sums of squares",),
    ),
    "a NaN passes for a number in registers": (
        "is_inner(next) && folded.is_finite)",
        "is_inner(next))",
        ("clusters of a NaN",),
    ),
    "a cluster begins before all blocks are there": (
        "[i] = 0;\n        sync_cluster<CLUSTER_BLOCKS>();\n",
        "[i] = 0;\n        __syncthreads();\n",
        ("clusters of few tiles", "clusters"),
    ),
    "a block's tile counts for nothing": (
        "const State between = Op::combine(before, first);",
        "const State between = before;",
        ("clusters",),
    ),
    "rows are overtaken before all lanes hold theirs": (
        "sync_group();  // all have their rows, and have left results",
        "",
        ("clusters", "clusters before each"),
    ),
    "a lane stays in its plane": (
        "from.move(ends_row, ends_plane);",
        "from.move(ends_row, false);",
        ("small planes",),
    ),
    "every step is two": (
        "return apart == 2 ? fetch_picked<2, 0>(to) :",
        "return true ? fetch_picked<2, 0>(to) :",
        ("every third half",),
    ),
    "elements are picked from the first byte on": (
        "if (phase != Offset) return",
        "if (false) return",
        ("every other byte", "every third half"),
    ),
    "what changes once is taken not to change": (
        "return state.byte == 0 && acc != 0;",
        "return false;",
        ("any of every other byte",),
    ),
    "a lane stays in its row": ("row += hop.row + ends_row;", "row += hop.row;", ("planes of rows and columns",)),
    "planes lie as in memory": (
        "hop((u32)(planes.pitch ? planes.pitch : planes.gap))",
        "hop((u32)planes.gap)",
        ("distant planes", "small planes in order"),
    ),
    "lines go on behind gaps": ("start.among && length * step == pitch", "start.among", ("bytes whose lines do not",)),
    "planes begin at packs": ("(u32)planes.gap % 16 : 0", "0 : 0", ("planes begin anywhere",)),
    "each run begins with the first line": ("{run * task.planes + plane,", "{plane,", ("planes in runs",)),
    "a line goes on in the next plane": (
        "if constexpr (Lines) if (until == 0) {",
        "if (Lines && until == 0) until = (u32)task.length;\n            if (false) {",
        ("planes of contiguous columns",),
    ),
    "a lane's last columns are always there": (
        "const bool active = groups.is_one() && at < location.columns,",
        "const bool active = groups.is_one(),",
        ("halves apart",),
    ),
    "nobody waits for a strip's rows": ("wait_copies<SERIAL_STAGES - 2>();", "", ("variances alone", "segments alone")),
    "a strip's rows are overtaken": (
        "link + SERIAL_STAGES - 1, (stage + SERIAL_STAGES - 1) % SERIAL_STAGES);",
        "link + SERIAL_STAGES - 1, stage);",
        ("variances alone", "segments alone"),
    ),
    "a row's reciprocal is the next one's": (
        "one_over(number), freedom",
        "one_over(number + 1), freedom",
        ("means alone",),
    ),
    "row groups have the first one's reciprocals": ("scan.pass((int)first);", "", ("means in strips",)),
    "counts are taken to agree": (
        "__all_sync(0xffffffffu, alike || !has)",
        "__all_sync(0xffffffffu, true)",
        ("variances behind unlike counts", "means behind unlike counts"),
    ),
    "a strip's columns take each other's results": (
        "state[j] = scratch().state[slot][warp][column + j * ColumnStride];",
        "state[j] = scratch().state[slot][warp][column + j];",
        ("columns from the right",),
    ),
    "lines of two planes lie evenly apart": (
        "evenly = last_dim.div.of(line) == last_dim.div.of(last);",
        "",
        ("every other line",),
    ),
    "copy units stay in their share's first line": (
        "element = {start.line + lines,",
        "element = {start.line,",
        ("every other line",),
    ),
}


WAITS = """
struct Wait { u32* ticket; u64 *post, draws, each; };
__global__ void wait_for_a_tile(const __grid_constant__ Wait task) {
    TileState<u32, 16>* const post = (TileState<u32, 16>*)task.post;
    if (blockIdx.x == 0) {
        for (u64 drawn = 0; drawn < task.draws; drawn++) {
            for (u64 work = 0; work < task.each; work++) tiles_taken_until_now(task.ticket);
            if (threadIdx.x == 0) atomicAdd(task.ticket, 1u);
        }
        if (threadIdx.x == 0 && task.draws > 0) post->publish(7);
        return;
    }
    PolledTileState<TileState<u32, 16>> seen[1];
    seen[0].clear();
    await_polled(task.ticket, seen, 1u, [&](u32) { return post; });
    if (threadIdx.x == 0) task.post[2] = seen[0].state();
}
"""


def test_who_waits_gives_up_where_no_tile_is_drawn_and_not_before():
    """As long as blocks draw tiles, they go on: on a slow GPU one tile may take more polls than any number."""
    text, sees = sources.source("scan.cuh"), "if (tiles_taken_until_now(ticket) != drawn) return 0;"
    assert "SPINS = 1u << 25;" in text and sees in text
    quick = text.replace("SPINS = 1u << 25;", "SPINS = 1u << 5;") + WAITS
    right, blind = build([Unit(each, ("wait_for_a_tile",)) for each in (quick, quick.replace(sees, ""))])

    def wait(kernels: Kernels, draws: int) -> int:
        ticket, post = np.zeros(1, "u4"), aligned(np.zeros(4, "u8"), 0)
        task = struct.pack("4Q", ticket.ctypes.data, post.ctypes.data, draws, 20)
        kernels.launch("wait_for_a_tile", task, 2, 32, 16, "round_robin")
        return int(post[2])

    assert wait(right, 30) == 7
    for kernels, draws in ((right, 0), (blind, 30)):
        with pytest.raises(SimtError, match="trap"):
            wait(kernels, draws)


@pytest.fixture(scope="module")
def defective() -> dict[str, Kernels]:
    """The kernels with each defect whose place is in the text, compiled together."""
    text = sources.source("scan.cuh")
    found = {name: [CALLS[n] for n in shown] for name, (right, _, shown) in DEFECTS.items() if right in text}
    units = [unit(calls, text.replace(*DEFECTS[name][:2])) for name, calls in found.items()]
    return dict(zip(found, build(units, libraries=2), strict=True))


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_shows(defective, name):
    assert name in defective, "the defect follows the kernel"
    with pytest.raises((SimtError, AssertionError)):
        for one in DEFECTS[name][2]:
            for seed in range(6):
                for schedule in SCHEDULES:
                    check(defective[name], CALLS[one], schedule, seed)
