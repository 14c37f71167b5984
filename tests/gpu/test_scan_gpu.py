"""On a GPU: scans of every row that has them, dtype and layout against the host's."""

from __future__ import annotations

import numpy as np
import pytest

from gpureduce_dask.chunk import host, host_scan
from gpureduce_dask.device.scan_methods import METHODS
from gpureduce_dask.operators import OPERATORS

from .samples import DTYPES, close, make, rows, view_of

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")

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
    from gpureduce_dask.chunk import device_scan as gpu

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
    close(host.finalise(packed, bound), host.finalise(total, bound), bound, n)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", range(len(LAYOUTS)))
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_every_row_and_layout(dtype, number):
    shape, axis, view = LAYOUTS[number]
    array = make(shape, dtype, number)
    x, chunk = view_of(array, view), view_of(cp.asarray(array), view)
    names = [n for n in rows(dtype) if n in SCANNED]
    for i, name in enumerate({"sum", names[number % len(names)], names[(number * 5 + 3) % len(names)]}):
        bound = OPERATORS[name].bind(x.dtype)
        if name == "prod":
            continue
        exclusive, reverse = bool((number + i) & 1) and name not in BEST, bool((number + i) & 2)
        compare(chunk, x, bound, axis, exclusive=exclusive, reverse=reverse)
        ends = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        if 0 not in x.shape:
            carry = host.reduce((make(ends, dtype, 7),), bound, (axis,))
            compare(chunk, x, bound, axis, carry=carry, reverse=reverse)
            compare(chunk, x, bound, axis, carry=carry, resets=np.random.default_rng(1).random(x.shape) < 0.02)


@pytest.mark.parametrize(
    ("name", "dtype", "columns"),
    [("var", "float32", 33792), ("std", "float16", 67584), ("mean", "float32", 33720), ("var", "float64", 16896)],
)
def test_columns_enough_for_all_of_the_gpu(name, dtype, columns):
    array, bound = make((301, columns), dtype), OPERATORS[name].bind(np.dtype(dtype))
    carry = host.reduce((make((1, columns), dtype, 7),), bound, (0,))
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
    from gpureduce_dask.device import scan_allies

    monkeypatch.setattr(scan_allies, "TILES", 1)
    x = make((30_011, columns), dtype, 3)
    bound = OPERATORS[name].bind(x.dtype)
    carry = host.reduce((make((1, columns), dtype, 7),), bound, (0,))
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
    from gpureduce_dask.device import scan_allies

    monkeypatch.setattr(scan_allies, "TILES", 1)
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
        carry = host.reduce((make(ends, dtype, 7),), bound, (axis,))
        compare(cp.asarray(array), array, bound, axis, carry=carry, method=method)
        compare(cp.asarray(array), array, bound, axis, reverse=True, exclusive=True, method=method)


MANY = (1 << 32) + (1 << 20)
FAMILIES = {  # shape, axis, and a view of it, of more than 2^32 elements
    "columns": ((MANY // 128, 128), 0, None),
    "few columns": ((MANY // 3, 3), 0, None),
    "many strips": ((1 << 15, MANY >> 15), 0, None),
    "planes": ((2, MANY // 512, 256), 1, None),
    "lines with gaps": ((MANY // 4096 + (1 << 10), 4096), 1, lambda x: x[:, 1:-1]),
    "one line with gaps": ((2 * MANY,), 0, lambda x: x[::2]),
    "short lines apart": ((MANY // 64 + (1 << 18), 8, 8), 1, lambda x: x[:, :, ::-1]),
}


def test_plans_that_share_a_kernel_have_the_shared_memory_they_ask_for():
    bound = OPERATORS["sum"].bind(np.float32)
    chunks = [cp.ones(shape, "f4") for shape in ((40_000, 4096), (300, 4096), (40_000, 2080))]
    for chunk in chunks + chunks:
        assert float(device_scan((chunk,), bound, 0)[0][-1].min()) == chunk.shape[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_families_beyond_two_to_the_32(family):
    shape, axis, view = FAMILIES[family]
    if cp.cuda.Device().mem_info[0] < 3 * np.prod(shape, dtype="i8") + (4 << 30):
        pytest.skip("needs more memory")
    x = view_of(cp.ones(shape, "u1"), view)
    assert x.size > 1 << 32
    bound = OPERATORS["sum"].bind(x.dtype, dtype="uint8")
    got, total = device_scan((x,), bound, axis)
    n = x.shape[axis]
    assert bool((total.view("u8")[..., 0] == n).all())
    along = cp.moveaxis(got, axis, -1)
    for line in (0, -1):
        last = (
            along.reshape(-1, n)[line]
            if along.flags.c_contiguous or along.ndim == 1
            else along[(line,) * (along.ndim - 1)]
        )
        assert bool((last == cp.arange(1, n + 1, dtype="u4").astype("u1")).all())
    cp.get_default_memory_pool().free_all_blocks()


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
