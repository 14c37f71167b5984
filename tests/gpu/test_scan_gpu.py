"""On a GPU: scans of every row that has them, dtype and layout against the host's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from plan_chunks import NotThere

from gpureduce_dask.device.scan_task import METHODS, Gpu
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.monoid import Bound
from gpureduce_dask.operators.table import OPERATORS

from .samples import DTYPES, close, make, rows, view_of

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")
H200 = Gpu(232448, 132)

# shape, axis, and a view of the array
LAYOUTS = [
    ((1,), 0, None),
    ((37,), 0, None),
    ((100003,), 0, None),
    ((3000001,), 0, None),
    ((100003,), 0, lambda x: x[3:-1]),
    ((100003,), 0, lambda x: x[::-1]),
    ((100003,), 0, lambda x: x[3::7]),
    ((3, 70001), 1, None),
    ((9001, 32), 1, None),
    ((9001, 33), 1, lambda x: x[1:]),
    ((70001, 3), 0, None),
    ((70001, 3), 1, None),
    ((40000, 1), 1, None),
    ((517, 1029), 0, None),
    ((517, 1029), 0, lambda x: x.T[:517]),
    ((517, 1029), 1, lambda x: x[:, ::3]),
    ((517, 1029), 1, lambda x: x[:, 1:-1]),
    ((70001, 33), 0, None),
    ((9001, 33), 0, lambda x: x[:, 1:]),
    ((3001, 1099), 0, lambda x: x[:, 2:-3]),
    ((3, 1000, 130), 1, None),
    ((300, 20, 40), 0, lambda x: x[:, ::-1]),
    ((9001, 40), 1, lambda x: x[:, :32]),
    ((9001, 7), 1, lambda x: x[:, 1:-1]),
    ((4999, 301), 1, lambda x: x[:, 1:]),
    ((9001, 100), 0, None),
    ((20, 30, 40), 1, None),
    ((20, 30, 40), 0, lambda x: x.transpose(2, 0, 1)),
    ((6, 5, 4, 3, 2, 3), 2, lambda x: x[:, ::-1, :, ::2]),
    ((40, 1000), 0, "broadcast"),
    ((40, 0), 0, None),
    ((0, 40), 0, None),
]
BEST = ("min", "max", "argmin", "argmax")  # of nothing there is none
SCANNED = (
    "argmax",
    "argmin",
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "nansum",
    "nanmax",
    "mean",
    "var",
    "count_nonzero",
    "last",
    "first",
)


def device_scan(*arguments, **options):
    from gpureduce_dask.device import scan as gpu

    return gpu.scan(*arguments, **options)


def near(got, wanted, bound, n):
    """As close, but where sums pass zero: there the rounding of larger ones before them stays, and half-way between two
    numbers of 16 bits either is right."""
    if got.dtype.kind in "fc" and got.size and np.all(np.isfinite(wanted)):
        wide, info = got.astype(np.result_type(got, "f8")), np.finfo(got.dtype)
        least = info.smallest_subnormal if got.dtype.itemsize == 2 else 0
        np.testing.assert_allclose(wide, wanted, rtol=4 * info.eps, atol=max(1e-13 * np.abs(wanted).max(), least))
    else:
        close(got, wanted, bound, n)


def compare(chunk, x, bound, axis, **options):
    device_options = dict(options)
    if options.get("carry") is not None:
        states = np.ascontiguousarray(options["carry"])
        device_options["carry"] = cp.asarray(states.view(np.uint8).reshape(*states.shape, bound.state.itemsize))
    if options.get("resets") is not None:
        device_options["resets"] = cp.asarray(options["resets"])
    options.pop("method", None)  # the host has one
    wanted, total = host_scan.scan((x,), bound, axis, **options)
    got, got_total = device_scan((chunk,), bound, axis, **device_options)
    n = x.shape[axis]
    near(got.get(), wanted, bound, n)
    packed = got_total.get().view(bound.state)[..., 0]
    near(host_reduce.finalise(packed, bound), host_reduce.finalise(total, bound), bound, n)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", range(len(LAYOUTS)))
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_every_row_and_layout(dtype, number):
    shape, axis, view = LAYOUTS[number]
    array = make(shape, dtype, number)
    x, chunk = view_of(array, view), view_of(cp.asarray(array), view)
    names = [n for n in rows(dtype) if n in SCANNED]
    for i, name in enumerate(dict.fromkeys(("sum", names[number % len(names)], names[(number * 5 + 3) % len(names)]))):
        bound = OPERATORS[name].bind(x.dtype)
        if name == "prod":
            continue
        exclusive, reverse = bool((number + i) & 1) and name not in BEST, bool((number + i) & 2)
        compare(chunk, x, bound, axis, exclusive=exclusive, reverse=reverse)
        ends = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        if 0 not in x.shape:
            carry = host_reduce.reduce((make(ends, dtype, 7),), bound, (axis,))
            compare(chunk, x, bound, axis, carry=carry, reverse=reverse)
            compare(chunk, x, bound, axis, carry=carry, resets=np.random.default_rng(1).random(x.shape) < 0.02)


@pytest.mark.parametrize(
    ("name", "dtype", "columns"),
    [("var", "float32", 33792), ("std", "float16", 67584), ("mean", "float32", 33720), ("var", "float64", 16896)],
)
def test_columns_enough_for_all_of_the_gpu(name, dtype, columns):
    array, bound = make((301, columns), dtype), OPERATORS[name].bind(np.dtype(dtype))
    carry = host_reduce.reduce((make((1, columns), dtype, 7),), bound, (0,))
    compare(cp.asarray(array), array, bound, 0, carry=carry)
    compare(cp.asarray(array), array, bound, 0, reverse=True)
    array = array[:, : columns // 2].reshape(301, 2, -1).transpose(1, 0, 2).copy()
    compare(cp.asarray(array), array, bound, 1)


@pytest.mark.parametrize(
    ("name", "dtype", "columns"),
    [
        ("sum", "float32", 64),
        ("sum", "float32", 100),
        ("nansum", "float32", 127),
        ("max", "float32", 65),
        ("min", "int32", 96),
        ("sum", "float32", 12),
        ("sum", "float64", 33),
        ("sum", "int64", 64),
        ("max", "float64", 16),
    ],
)
def test_columns_of_many_tiles(name, dtype, columns, monkeypatch):
    """Those that pairs of blocks take, in a smaller array."""
    from gpureduce_dask.device import scan_contiguous_columns

    monkeypatch.setattr(scan_contiguous_columns, "LEAST_TILES", 1)
    x = make((30_011, columns), dtype, 3)
    bound = OPERATORS[name].bind(x.dtype)
    carry = host_reduce.reduce((make((1, columns), dtype, 7),), bound, (0,))
    for exclusive, reverse in ((False, False), (True, False), (False, True)):
        if not (exclusive and name in BEST):
            compare(cp.asarray(x), x, bound, 0, carry=carry, exclusive=exclusive, reverse=reverse)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["sum", "nansum"])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "view"),
    [
        ((30_011, 100), 0, "float32", None),  # by pairs of blocks
        ((30_011, 33), 0, "float64", None),
        ((3000, 4096), 0, "float32", None),  # in strips
        ((3000, 4095), 0, "float32", None),
        ((20_000, 7, 5), 1, "float16", None),  # small planes
        ((3000, 4096), 0, "float16", None),  # in strips
        ((30_011, 100), 0, "float16", None),
        ((33, 70_001), 1, "float16", None),  # lines, one after another
        ((33, 70_003), 1, "float16", lambda x: x[:, 1:-1]),
        ((33, 70_003), 1, "float32", lambda x: x[:, 1:-1]),
        ((33, 70_001), 1, "float32", lambda x: x[::-1, ::-1]),
    ],
)
def test_elements_that_are_no_numbers(name, shape, axis, dtype, view, monkeypatch):
    """Sums take elements for finite at first."""
    from gpureduce_dask.device import scan_contiguous_columns

    monkeypatch.setattr(scan_contiguous_columns, "LEAST_TILES", 1)
    x = make(shape, dtype, 3)
    lines = np.moveaxis(x, axis, 0).reshape(shape[axis], -1)
    last = shape[axis] - 1
    for column, values in enumerate(([np.nan], [np.inf], [-np.inf], [np.inf, np.nan], [np.inf, -np.inf])):
        for i, value in enumerate(values):
            lines[last * (i + 1) // 3, column] = value
    x = np.moveaxis(lines.reshape(shape[axis], *np.delete(shape, axis)), 0, axis).copy()
    bound, chunk = OPERATORS[name].bind(x.dtype), view_of(cp.asarray(x), view)
    x = view_of(x, view)
    for exclusive, reverse in ((False, False), (True, False), (False, True)):
        wanted, _ = host_scan.scan((x,), bound, axis, exclusive=exclusive, reverse=reverse)
        got, _ = device_scan((chunk,), bound, axis, exclusive=exclusive, reverse=reverse)
        assert not np.isfinite(wanted).all()
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(got.get().astype("f8"), wanted.astype("f8"), rtol=4 * eps, atol=1e-9 + eps)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("shape", "axis"), [((3000, 4096), 0), ((30_011, 100), 0), ((33, 70_001), 1), ((900_001,), 0)])
@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [
        ("sum", "float32", "float64"),
        ("nansum", "float32", "float16"),
        ("mean", "float32", "float16"),
        ("sum", "float16", "float32"),
        ("var", "float32", "float64"),
    ],
)
def test_results_of_another_type(name, dtype, result, shape, axis):
    x = make(shape, dtype, 3)
    compare(cp.asarray(x), x, OPERATORS[name].bind(x.dtype, dtype=result), axis)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_segments_of_columns_enough_for_all_of_the_gpu(dtype):
    array = make((301, 33792 * 4 // np.dtype(dtype).itemsize), dtype)
    bound = OPERATORS["sum"].bind(array.dtype)
    resets = np.random.default_rng(1).random(array.shape) < 0.02
    compare(cp.asarray(array), array, bound, 0, resets=resets)
    compare(cp.asarray(array), array, bound, 0, resets=resets, exclusive=True, reverse=True)


@pytest.mark.parametrize("shape", [(300001,), (20000, 70), (9000, 16896)])
def test_digits_of_variances(shape):
    x = cp.random.default_rng(5).random(shape) + 3
    got = device_scan((x,), OPERATORS["var"].bind(x.dtype), 0)[0].reshape(shape[0], -1)[:, :4].get()
    near_zero = (x - x[0]).reshape(shape[0], -1)[:, :4].get().astype(np.longdouble)
    count = np.arange(1, shape[0] + 1)[:, None]
    wanted = np.cumsum(near_zero**2, axis=0) / count - (np.cumsum(near_zero, axis=0) / count) ** 2
    np.testing.assert_allclose(got[1:], wanted[1:].astype("f8"), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_in_place(dtype, axis):
    array = make((700, 900), dtype)
    bound = OPERATORS["sum"].bind(array.dtype)
    chunk = cp.asarray(array)
    wanted, _ = host_scan.scan((array,), bound, axis)
    got, _ = device_scan((chunk,), bound, axis, out=chunk)
    assert got is chunk
    near(chunk.get(), wanted, bound, 900)


@pytest.mark.parametrize("axis", [0, 1])
def test_affine_maps_in_order(axis):
    a, b = make((300, 200), "float64", 1) / 4, make((300, 200), "float64", 2)
    bound = OPERATORS["affine"].bind(a.dtype, b.dtype)
    wanted, _ = host_scan.scan((a, b), bound, axis)
    got, _ = device_scan((cp.asarray(a), cp.asarray(b)), bound, axis)
    np.testing.assert_allclose(got.get(), wanted, rtol=1e-12, atol=1e-13)
    resets = np.random.default_rng(4).random(a.shape) < 0.05
    wanted, _ = host_scan.scan((a, b), bound, axis, resets=resets, reverse=True)
    got, _ = device_scan((cp.asarray(a), cp.asarray(b)), bound, axis, resets=cp.asarray(resets), reverse=True)
    np.testing.assert_allclose(got.get(), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_the_same_every_time(dtype):
    x = cp.random.default_rng(0).random(1 << 24, dtype=dtype)
    bound = OPERATORS["sum"].bind(x.dtype)
    first, _ = device_scan((x,), bound, 0)
    for _ in range(5):
        again, _ = device_scan((x,), bound, 0)
        assert bool((again == first).all())


SUMMED = [((1 << 20,), 0), ((4096, 513), 0), ((9001, 33), 0)]  # by rows, strips, contiguous columns: tiles look back


def test_streams_and_many_scans_of_each():
    """More than share zeros, on streams that come and go, whose handles come again."""
    bound = OPERATORS["sum"].bind(np.dtype("i8"))
    xs = [cp.random.default_rng(0).integers(0, 9, shape, dtype="i8") for shape, _ in SUMMED]
    wanted = [cp.cumsum(x, axis) for x, (_, axis) in zip(xs, SUMMED, strict=True)]
    cp.cuda.Device().synchronize()
    right = []
    for i in range(120):
        stream = cp.cuda.Stream(non_blocking=True) if i % 3 == 0 else cp.cuda.Stream.null
        with stream:
            for x, want, (_, axis) in zip(xs, wanted, SUMMED, strict=True):
                right.append((device_scan((x,), bound, axis)[0] == want).all())
    cp.cuda.Device().synchronize()
    assert all(map(bool, right)) and len(right) == 360


@pytest.mark.parametrize(("shape", "axis"), SUMMED)
def test_a_captured_scan_runs_again(shape, axis):
    bound, x, out = OPERATORS["sum"].bind(np.dtype("i8")), cp.ones(shape, "i8"), cp.empty(shape, "i8")
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(3):  # what is allocated while the stream captures is there
            device_scan((x,), bound, axis, out=out, with_total=False)
        stream.synchronize()
        stream.begin_capture()
        device_scan((x,), bound, axis, out=out, with_total=False)
        graph = stream.end_capture()
        for factor in (2, 3, 5):
            x *= factor
            graph.launch(stream)
            device_scan((x,), bound, axis, with_total=False)  # between two runs of the graph
            stream.synchronize()
            assert bool((out == cp.cumsum(x, axis)).all())


def rounded(sums, dtype):
    """Sums in binary64 rounded once: by NumPy, or to the upper half of a binary32 that knows what was cut off."""
    if dtype.name == "float16":
        return sums.astype(dtype)
    near = sums.astype("f4")
    bits = near.view("u4") - (np.abs(near.astype("f8")) > np.abs(sums))
    bits |= bits.view("f4").astype("f8") != sums
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2").view(dtype)


@pytest.mark.parametrize("name", ["sum", "nansum"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves_are_rounded_once(dtype, name):
    bound = OPERATORS[name].bind(np.dtype(dtype))
    rng, n = np.random.default_rng(1), 400_009
    signed = rng.integers(-255, 256, n)
    sizes = {
        "cancel": np.exp2(rng.integers(-14, 3, n)),
        "tie": 0.5,
        "tiny": 2.0 ** (-24 if dtype == "float16" else -133),
    }
    for case, size in sizes.items():
        x = (signed * size).astype(np.dtype(dtype))
        for broken in (None, np.inf, np.nan):
            if broken is not None:
                x[300_000] = broken
            for lines, reverse in ((1, False), (1, True), (2, False), (7, False), (7, True)):
                chunk = x[: n // lines * lines].reshape(lines, -1)
                wide = chunk.astype("f8")[:, :: -1 if reverse else 1]
                with np.errstate(over="ignore"):
                    sums = np.cumsum(np.nan_to_num(wide, posinf=np.inf) if name == "nansum" else wide, axis=1)
                    wanted = rounded(sums, x.dtype)[:, :: -1 if reverse else 1]
                got = device_scan((cp.asarray(chunk),), bound, 1, reverse=reverse)[0].get()
                both_nan = np.isnan(got.astype("f4")) & np.isnan(wanted.astype("f4"))
                same = (got.view("u2") == np.ascontiguousarray(wanted).view("u2")) | both_nan
                assert same.all(), (case, broken, lines, reverse, np.argwhere(~same)[:5])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_methods_agree(dtype, method):
    for shape, axis in (((300001,), 0), ((70, 5003), 1), ((5003, 70), 0)):
        array = make(shape, dtype)
        bound = OPERATORS["sum"].bind(array.dtype)
        ends = tuple(1 if a == axis else n for a, n in enumerate(shape))
        carry = host_reduce.reduce((make(ends, dtype, 7),), bound, (axis,))
        compare(cp.asarray(array), array, bound, axis, carry=carry, method=method)
        compare(cp.asarray(array), array, bound, axis, reverse=True, exclusive=True, method=method)


@pytest.mark.parametrize("name", ["sum", "max", "last", "affine"])
def test_methods_agree_bit_for_bit(name):
    """Of integers: those of affine maps are floats that hold them exactly, however they are joined."""
    for shape, axis in (((300001,), 0), ((70, 5003), 1), ((5003, 70), 0)):
        arrays = (make(shape, "int32", 1),)
        if name == "affine":
            arrays = ((arrays[0] % 3 - 1).astype("f8"), make(shape, "int32", 2).astype("f8"))
        bound = OPERATORS[name].bind(*(x.dtype for x in arrays))
        chunks = tuple(map(cp.asarray, arrays))
        for options in ({}, {"reverse": True}, {"exclusive": name not in BEST, "reverse": True}):
            wanted, _ = host_scan.scan(arrays, bound, axis, **options)
            found = [device_scan(chunks, bound, axis, method=method, **options) for method in METHODS]
            for got, total in found:
                np.testing.assert_array_equal(got.get(), wanted)
                assert (got + 0).tobytes() == (found[0][0] + 0).tobytes()  # zeros have one sign
                np.testing.assert_array_equal(
                    *(host_reduce.finalise(t.get().view(bound.state)[..., 0], bound) for t in (total, found[0][1]))
                )


MANY = (1 << 32) + (1 << 20)
SEGMENT = 100  # rows of one, where a family has segments
PIECE = 1 << 28  # elements that are compared at once


class Family(NamedTuple):
    """A scan of more than 2^32 elements, and what the kernel is called that is to be tried by it."""

    kernel: str  # as fnmatch has it; one of those that an H200 launches
    shape: tuple[int, ...]
    axis: int = 0
    view: Callable[[Any], Any] | None = None
    op: str = "sum"
    dtype: str = "uint8"
    segmented: bool = False
    reverse: bool = False
    method: str = METHODS[0]

    def bound(self) -> Bound:
        dtype = np.dtype(self.dtype)
        return OPERATORS[self.op].bind(dtype, **{"dtype": dtype.name} if self.op == "sum" else {})


FAMILIES = {
    "columns": Family("scan_tiles<StripScan<*, 1, true, *", (MANY // 128, 128)),
    "columns apart": Family("scan_tiles<StripScan<*, 32, true, *", (MANY // 513, 513)),
    "many strips": Family("scan_tiles<StripScan<*, 1, false, *", (1 << 15, MANY >> 15)),
    "many strips apart": Family("scan_tiles<StripScan<*, 32, false, *", (1 << 15, (MANY >> 15) - 1), dtype="int16"),
    "planes": Family("scan_tiles<StripScan<*", (2, MANY // 512, 256), 1),
    "few columns": Family("scan_tiles<ContiguousColumnScan<*", (MANY // 3, 3)),
    "contiguous columns": Family("scan_tiles<ContiguousColumnScan<*, false, false, 8, 4>>", (MANY // 100, 100)),
    "contiguous columns from their end": Family(
        "scan_tiles<ContiguousColumnScan<*, false, false, 8, 2>>", (MANY // 5, 5), reverse=True
    ),
    "contiguous columns of words": Family("scan_tiles<ContiguousColumnScan<*, 16, 8>>", (MANY // 12, 12), op="max"),
    "planes of contiguous columns": Family(
        "scan_tiles<ContiguousColumnScan<*, true, false, *>>", (MANY // 4200, 600, 7), 1
    ),
    "clusters": Family("scan_cluster_tiles<ClusterColumnScan<Sum<*", (MANY // 64, 64), dtype="float32"),
    "clusters of eight bytes": Family(
        "scan_cluster_tiles<ClusterColumnScan<MinMax<*", (MANY // 64, 64), op="max", dtype="int64"
    ),
    "means alone": Family("scan_serial_columns<Mean<*", (MANY >> 16, 1 << 16), op="mean", dtype="float16"),
    "segments alone": Family("scan_serial_columns<Segmented<*", (MANY >> 16, 1 << 16), segmented=True),
    "lines side by side": Family("scan_thread_columns<*", (2, MANY // 2)),
    "short lines": Family("scan_shares<LaneLineScan<*", (MANY // 16, 16), 1),
    "short lines of odd length": Family("scan_shares<LaneLineScan<*", (MANY // 3, 3), 1),
    "short lines apart": Family(
        "scan_lines<*, 1, false, false>",
        (MANY // 64 + (1 << 18), 8, 8),
        1,
        lambda x: x[:, :, ::-1],
        method="scan_lines",
    ),
    "small planes apart": Family(
        "scan_shares<SmallLineScan<*", (MANY // 64 + (1 << 18), 8, 8), 1, lambda x: x[::-1, :, ::-1]
    ),
    "small planes": Family("scan_shares<SmallLineScan<*", (MANY // 35, 7, 5), 1),
    "lines by sub-warps": Family(
        "scan_shares<SubwarpLineScan<*", (MANY // 4096 + (1 << 14), 4096), 1, lambda x: x[:, 16:-16]
    ),
    "odd lines by sub-warps": Family(
        "scan_shares<SubwarpLineScan<*",
        (MANY // 4096 + (1 << 10), 4096),
        1,
        lambda x: x[:, 1:-1],
        method="SubwarpLineScan, single",
    ),
    "lines": Family("scan_tiles<RowScan<*, true, false, false, false, false>>", (1 << 15, MANY >> 15), 1),
    "long lines": Family(
        "scan_tiles<RowScan<*, true, false, false, false, false>>", (1 << 5, MANY >> 5), 1, dtype="int16"
    ),
    "long lines in step": Family(
        "scan_tiles<RowScan<*, true, false, false, false, true>>", (1 << 5, MANY >> 5), 1, op="max", dtype="int16"
    ),
    "one line": Family("scan_tiles<RowScan<*, false, false, false, true, false>>", (MANY,), reverse=True),
    "one line with gaps": Family(
        "scan_tiles<RowScan<*, false, true, false, false, false>>", (2 * MANY,), 0, lambda x: x[::2]
    ),
    "any of one line": Family("scan_tiles<AnyAllScan<*", (MANY,), op="any", dtype="bool"),
    "positions in one line": Family("scan_tiles<RowScan<Indexed<*", (MANY,), op="argmax"),
    "reduce-then-scan": Family("scan_lines<*, 32, true, false>", (MANY,), method="reduce-then-scan"),
    "reduce-then-scan of columns": Family(
        "scan_fold_parts<*, 1>", (MANY // 128, 128), op="max", method="reduce-then-scan"
    ),
}


def as_planned(family: Family) -> Any:
    """What an H200 prepares, without one: of arrays that are not there."""
    from gpureduce_dask.device import scan as gpu

    operands = tuple(
        NotThere.of(family.shape, dtype, lambda x: view_of(x, family.view))
        for dtype in (family.dtype, *(("bool",) if family.segmented else ()))
    )
    operands, way, _ = gpu._turned(operands, gpu._Way.of(family.axis, family.reverse, False))
    with (
        mock.patch.object(gpu.scan_launch, "gpu", return_value=H200),
        mock.patch.object(gpu.scan_launch, "load", return_value=((), ())),
    ):
        return gpu._prepare(operands, None, family.bound(), way, family.segmented, 0, family.method)


def launches(plan: Any, family: Family) -> bool:
    """True where the kernel that is to be tried is among the plan's."""
    return any(fnmatchcase(step.kernel, family.kernel) for step in plan.steps)


def marks_of(family: Family, shape: tuple[int, ...]) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """The few elements unlike the others: by lines, at which position and how large. One lies where an index of 32 bits
    finds another."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    values = {"any": (0, 1, 1), "mean": (60_000,) * 3}.get(family.op, (7, 11, 13))
    for flat, value in zip((1000, (1 << 32) + 1000, math.prod(shape) - 2), values, strict=True):
        line = list(map(int, np.unravel_index(flat, shape)))
        at = line.pop(family.axis)
        found.setdefault(tuple(line), []).append((at, value))
    return found


def behind(family: Family, length: int, begin: int, end: int, marks: list[tuple[int, int]]) -> Any:
    """Results of a line of ones (zeros, for any) from one position to another, some of its elements others."""
    at = cp.arange(begin, end)
    if family.reverse:
        at = length - 1 - at
        marks = [(length - 1 - p, value) for p, value in marks]
    sums = at % SEGMENT + 1 if family.segmented else at + 1
    largest, place, some = cp.ones_like(at), cp.zeros_like(at), at < 0
    for p, value in sorted(marks):
        counts = (at >= p) & (at // SEGMENT == p // SEGMENT) if family.segmented else at >= p
        sums += counts * (value - 1)
        place[counts & (largest < value)] = p
        largest[counts & (largest < value)] = value
        some |= counts & (value > 0)
    if family.op == "mean":  # rounded once, by NumPy
        return cp.asarray((sums.get() / (at.get() + 1)).astype(family.dtype))
    return {"sum": sums, "max": largest, "argmax": place, "any": some}[family.op].astype(family.bound().result)


def assert_same(family: Family, got: Any) -> None:
    """All results are the right ones. Writes over some."""
    marks, along = marks_of(family, got.shape), cp.moveaxis(got, family.axis, -1)
    length = along.shape[-1]
    for line, marked in marks.items():
        for begin in range(0, length, PIECE):
            part = along[line][begin : begin + PIECE]
            assert bool((part == behind(family, length, begin, begin + len(part), marked)).all()), (line, begin)
            part[...] = behind(family, length, begin, begin + len(part), [])
    lines = along if along.ndim > 1 else along[None]
    wide = math.prod(lines.shape[1:-1])
    step = max(1, PIECE // wide)
    for begin in range(0, length, step):
        end = min(length, begin + step)
        wanted, few = behind(family, length, begin, end, []), max(1, PIECE // (wide * (end - begin)))
        for first in range(0, len(lines), few):
            assert bool((lines[first : first + few, ..., begin:end] == wanted).all()), (first, begin)


def test_plans_that_share_a_kernel_have_the_shared_memory_they_ask_for():
    bound = OPERATORS["sum"].bind(np.float32)
    chunks = [cp.ones(shape, "f4") for shape in ((40_000, 4096), (300, 4096), (40_000, 2080))]
    for chunk in chunks + chunks:
        assert float(device_scan((chunk,), bound, 0)[0][-1].min()) == chunk.shape[0]


@pytest.mark.large
@pytest.mark.parametrize("name", FAMILIES)
def test_families_beyond_two_to_the_32(name):
    from gpureduce_dask.device import scan as gpu

    family = FAMILIES[name]
    bound, size, sizes = family.bound(), np.dtype(family.dtype).itemsize, as_planned(family)
    needed = math.prod(family.shape) * (size + family.segmented) + sizes.plan.scratch_bytes
    cp.get_default_memory_pool().free_all_blocks()
    if cp.cuda.Device().mem_info[0] < needed + sizes.out.nbytes + sizes.total.nbytes + (16 << 30):
        pytest.skip("needs more memory")
    x = view_of(cp.full(family.shape, family.op != "any", family.dtype), family.view)
    assert x.size > 1 << 32
    for line, marks in marks_of(family, x.shape).items():
        for at, value in marks:
            cp.moveaxis(x, family.axis, -1)[(*line, at)] = value
    resets = None
    if family.segmented:
        resets = cp.zeros(x.shape, bool)
        cp.moveaxis(resets, family.axis, -1)[..., ::SEGMENT] = True
    gpu.clear()
    with mock.patch.object(gpu.scan_launch, "load", wraps=gpu.scan_launch.load) as load:
        got, total = device_scan((x,), bound, family.axis, reverse=family.reverse, resets=resets, method=family.method)
    if replace(gpu.scan_launch.gpu(0), bandwidth=H200.bandwidth) == H200:
        assert launches(load.call_args.args[0], family)
    if family.op == "sum" and got.dtype.kind in "iu" and not family.segmented:
        unmarked = x.size // x.shape[family.axis] - len(marks_of(family, x.shape))
        assert int((total.view("u8")[..., 0] == x.shape[family.axis]).sum()) == unmarked
    del x, resets, total
    assert_same(family, got)
    del got
    cp.get_default_memory_pool().free_all_blocks()


@pytest.mark.large
def test_beyond_two_to_the_32():
    n = (1 << 32) + 12345
    x = cp.ones(n, "u1")
    bound = OPERATORS["sum"].bind(x.dtype, dtype="uint8")
    got, total = device_scan((x,), bound, 0)
    assert int(total.get().view(bound.state)[0, 0]["value"]) == n
    for at in (0, 255, 256, (1 << 32) - 1, 1 << 32, n - 1):
        assert int(got[at]) == (at + 1) % 256
    wide = x[: 1 << 32].reshape(1 << 16, 1 << 16)
    down, _ = device_scan((wide,), bound, 0)
    assert int(down[65535, 65535]) == 65536 % 256 and int(down[254, 7]) == 255
