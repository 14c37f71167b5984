"""On a GPU: every row, dtype and layout against the host's answer; finishes, batches, streams and bits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpureduce_dask.chunk import Place
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators.table import OPERATORS

from .samples import DTYPES, LAYOUTS, close, make, rows, view_of

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def gpu():
    from gpureduce_dask.device import reduce as device_reduce

    return device_reduce


def _empty_has_no_answer(monoid, x, axes):
    return monoid.empty == "raise" and 0 in [x.shape[a] for a in axes]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", range(len(LAYOUTS)))
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_every_row_and_layout(gpu, dtype, number):
    shape, axes, view = LAYOUTS[number]
    host_array = make(shape, dtype, number)
    x, chunk = view_of(host_array, view), view_of(cp.asarray(host_array), view)
    assert chunk.strides == x.strides or x.size == 0
    every = rows(dtype)
    names = {every[(5 * number + 11 * i) % len(every)] for i in range(3)} | {
        ("sum", "max", "argmin", "var")[number % 4]
    }
    n = max(1, int(np.prod([x.shape[a] for a in axes])))
    for name in sorted(names):
        if name not in every or _empty_has_no_answer(OPERATORS[name], x, axes):
            continue
        bound = OPERATORS[name].bind(x.dtype)
        wanted = host_reduce.finalise(host_reduce.reduce((x,), bound, axes), bound)
        partial = gpu.reduce((chunk,), bound, axes)
        close(gpu.finalise(partial, bound).get(), wanted, bound, n)
        close(gpu.reduce((chunk,), bound, axes, final=True).get(), wanted, bound, n)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_nan(gpu, dtype, axes):
    x = make((301, 77), dtype, 3, with_nan=True)
    x[:, 5] = np.nan
    x[7, :] = 1
    for name in rows(dtype):
        bound = OPERATORS[name].bind(x.dtype)
        wanted = host_reduce.reduce((x,), bound, axes)
        partial = gpu.reduce((cp.asarray(x),), bound, axes)
        packed = partial.get().view(bound.state)[..., 0]
        if "arg" in name:  # of complex extremes that are equal to the bit any position is right
            np.testing.assert_array_equal(packed["index"], wanted["index"])
        else:
            close(gpu.finalise(partial, bound).get(), host_reduce.finalise(wanted, bound), bound, 301)


@pytest.mark.parametrize("finish", ["ticket", "two-pass", "atomic"])
@pytest.mark.parametrize("number", [5, 12, 14, 20, 29])
def test_finishes_agree(gpu, finish, number):
    shape, axes, _ = LAYOUTS[number]
    x = make(shape, "int32", number)
    for name in ("sum", "max", "any", "count_nonzero"):
        bound = OPERATORS[name].bind(x.dtype)
        wanted = host_reduce.finalise(host_reduce.reduce((x,), bound, axes), bound)
        partial = gpu.reduce((cp.asarray(x),), bound, axes, finish=finish)
        np.testing.assert_array_equal(gpu.finalise(partial, bound).get(), wanted)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("count", [2, 7, 130])
def test_batches(gpu, axes, count):
    chunks = [make((60, 90), "float32", i) for i in range(count)]
    chunks[-1] = make((60, 90), "float32", count)
    axis = axes[0]
    whole = np.concatenate(chunks, axis)
    offsets = [tuple(i * 60 if a == axis == 0 else i * 90 if a == axis else 0 for a in (0, 1)) for i in range(count)]
    places = [Place(o, whole.shape) for o in offsets]
    for name in ("sum", "argmax", "argmin", "var", "max"):
        bound = OPERATORS[name].bind(whole.dtype)
        wanted = host_reduce.finalise(host_reduce.reduce((whole,), bound, axes), bound)
        partial = gpu.reduce_many([(cp.asarray(c),) for c in chunks], bound, axes, places)
        close(gpu.finalise(partial, bound).get(), wanted, bound, whole.size)


def test_combine_and_fold(gpu):
    x = make((64, 500), "float64", 1)
    bound = OPERATORS["var"].bind(x.dtype)
    partials = [gpu.reduce((cp.asarray(x[i : i + 16]),), bound, (0,)) for i in range(0, 64, 16)]
    wanted = host_reduce.finalise(host_reduce.reduce((x,), bound, (0,)), bound)
    close(gpu.finalise(gpu.combine(partials, bound), bound).get(), wanted, bound, 64)
    stacked = cp.concatenate(partials, axis=0)
    close(gpu.finalise(gpu.combine_axis(stacked, bound, 0), bound).get(), wanted, bound, 64)


def test_dot_and_average(gpu):
    for a, b in [("f4", "f4"), ("f8", "f8"), ("c8", "c16"), ("i4", "i8"), ("f4", "f8"), ("c8", "f4"), ("i2", "c8")]:
        x, y = make((301, 100), a, 1), make((301, 100), b, 2)
        for name, axes in (("vdot", (0, 1)), ("average", (0,)), ("average", (1,))):
            if name == "average":
                y = y + 3 if y.dtype.kind == "c" else np.abs(y) + 1
            bound = OPERATORS[name].bind(x.dtype, y.dtype)
            wanted = host_reduce.finalise(host_reduce.reduce((x, y), bound, axes), bound)
            for cx, cy in [(x, y), (x[:, 1:], y[:, :-1]), (x.T, y.T), (x, y[::-1])]:
                wanted = host_reduce.finalise(host_reduce.reduce((cx, cy), bound, axes), bound)
                base_x, base_y = cp.asarray(x), cp.asarray(y)
                gx = base_x[:, 1:] if cx.shape != x.shape and cx.shape[1] == 99 else base_x
                gy = base_y[:, :-1] if cx.shape != x.shape and cx.shape[1] == 99 else base_y
                if cx.shape == (100, 301):
                    gx, gy = base_x.T, base_y.T
                elif cy.strides[0] < 0:
                    gy = base_y[::-1]
                close(gpu.finalise(gpu.reduce((gx, gy), bound, axes), bound).get(), wanted, bound, x.size)


def test_same_bits_every_run(gpu):
    x = cp.random.default_rng(0).random(10_000_019, dtype="f4")
    for name in ("sum", "var", "norm2"):
        bound = OPERATORS[name].bind(np.dtype("f4"))
        first = gpu.reduce((x,), bound, (0,)).get().tobytes()
        assert all(gpu.reduce((x,), bound, (0,)).get().tobytes() == first for _ in range(20))


def test_float32_subnormals_survive(gpu):
    tiny = np.float32(1e-45)
    x = cp.full(100_000, tiny)
    for name in ("sum", "max", "min", "nansum"):
        bound = OPERATORS[name].bind(np.dtype("f4"))
        wanted = host_reduce.finalise(host_reduce.reduce((x.get(),), bound, (0,)), bound)
        assert gpu.finalise(gpu.reduce((x,), bound, (0,)), bound).get() == wanted
        assert wanted > 0


def test_a_new_thread_launches_first_thing(gpu):
    """Its memory comes from the pool and its kernel is loaded: the launch is the first thing that it asks for."""
    bound, x = OPERATORS["sum"].bind(np.dtype("f4")), cp.ones((300, 400), "f4")
    for axes in ((0, 1), (0,)):
        here = gpu.finalise(gpu.reduce((x,), bound, axes), bound).get()
        with ThreadPoolExecutor(1) as thread:
            there = thread.submit(gpu.reduce, (x,), bound, axes).result()
        np.testing.assert_array_equal(gpu.finalise(there, bound).get(), here)


def test_streams_do_not_share_tickets(gpu):
    x = cp.arange(3_000_000, dtype="i8")
    bound = OPERATORS["sum"].bind(x.dtype)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    cp.cuda.Device().synchronize()
    results = []
    for i in range(200):
        with streams[i % 4]:
            results.append(gpu.reduce((x,), bound, (0,), final=True))
    cp.cuda.Device().synchronize()
    assert {int(r[0]) for r in results} == {3_000_000 * 2_999_999 // 2}


def test_streams_that_come_and_go_do_not_share_tickets(gpu):
    """Neither do those of threads that do, of which all have one handle."""
    x = cp.arange(3_000_000, dtype="i8")
    bound = OPERATORS["sum"].bind(x.dtype)
    cp.cuda.Device().synchronize()

    def total(stream):
        with stream:
            return gpu.reduce((x,), bound, (0,), final=True)

    results = [total(cp.cuda.Stream(non_blocking=True)) for _ in range(200)]
    for _ in range(20):
        with ThreadPoolExecutor(1) as thread:
            results.append(thread.submit(total, cp.cuda.Stream.ptds).result())
    cp.cuda.Device().synchronize()
    assert {int(r[0]) for r in results} == {3_000_000 * 2_999_999 // 2}


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_beyond_two_to_the_32(gpu, dtype):
    n = (1 << 32) + 12345
    x = cp.ones(n, dtype)
    x[-1] = 0
    flat = [("sum", n - 1), ("count_nonzero", n - 1), ("argmin", n - 1), ("mean", (n - 1) / n)]
    for name, wanted in flat:
        bound = OPERATORS[name].bind(x.dtype)
        assert gpu.reduce((x,), bound, (0,), final=True).get()[0] == pytest.approx(wanted, rel=1e-15)
    del x
    cp.get_default_memory_pool().free_all_blocks()


@pytest.mark.large
@pytest.mark.parametrize("shape, axis", [((2, (1 << 31) + 77), 1), (((1 << 31) + 77, 2), 0), (((1 << 31) + 77, 2), 1),
                                         ((3, (1 << 29) + 5, 3), 1), (((1 << 30) + 3, 5), 1)])  # fmt: skip
def test_beyond_two_to_the_32_by_axis(gpu, shape, axis):
    x = cp.ones(shape, "int8")
    for name in ("sum", "argmax", "max"):
        bound = OPERATORS[name].bind(x.dtype)
        result = gpu.reduce((x,), bound, (axis,), final=True)
        wanted = {"sum": shape[axis], "argmax": 0, "max": 1}[name]
        assert bool((result == wanted).all())
        del result
    last = tuple(n - 1 for n in shape)
    x[last] = 2
    bound = OPERATORS["argmax"].bind(x.dtype)
    result = gpu.reduce((x,), bound, (axis,), final=True)
    assert int(result.ravel()[-1]) == shape[axis] - 1
    del x, result
    cp.get_default_memory_pool().free_all_blocks()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "most"), [("f8", 1000), ("f4", 120), ("f2", 14), ("c16", 400)])
def test_products_leave_the_range_only_where_the_result_does(gpu, dtype, most):
    """Powers of two and their inverses in random order, a zero, an infinity and NaN: running products too."""
    from gpureduce_dask.device import scan as device_scan
    from gpureduce_dask.host import scan as host_scan

    rng = np.random.default_rng(10)
    half = np.exp2(rng.integers(-most, most, (20_000, 40)))
    x = np.concatenate([half, 1 / half]).astype(dtype)
    rng.shuffle(x)
    x[0], x[5, 1] = 3, 0
    if x.dtype.kind == "f":  # what infinite complex numbers give is a matter of order
        x[7, 2], x[8:10, 3] = np.inf, (-0.0, np.nan)
    bound = OPERATORS["prod"].bind(dtype)
    for given in (x, np.ascontiguousarray(x.T), x[:, 4:5], x[:, 4]):
        for axis in range(given.ndim):
            wanted = host_reduce.finalise(host_reduce.reduce((given,), bound, (axis,)), bound)
            np.testing.assert_array_equal(gpu.reduce((cp.asarray(given),), bound, (axis,), final=True).get(), wanted)
            running = device_scan.scan((cp.asarray(given),), bound, axis)[0].get()
            np.testing.assert_array_equal(running, host_scan.scan((given,), bound, axis)[0])
