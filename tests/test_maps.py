"""Functions fused into reductions and scans on NumPy chunks: parity with NumPy, what cannot be traced, masks."""

from __future__ import annotations

import pickle
import random
import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from expressions import REAL, call, sample, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask.errors import ArgumentError, DtypeError
from gpureduce_dask.expressions import host, tracer
from gpureduce_dask.graph.map_reduce import Operands

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

F4 = np.dtype("f4")


def arrays(seed=0, shape=(60, 80)):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype("f4"), rng.normal(size=shape).astype("f4")


def chunked(u, v):
    return da.from_array(u, chunks=(20, 30)), da.from_array(v, chunks=(25, 80))


def close(lazy, expected):
    expected = np.asarray(expected)
    got = np.asarray(lazy.compute(scheduler="sync"))
    assert lazy.dtype == got.dtype == expected.dtype
    assert lazy.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5)


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees, st.sampled_from(REAL), st.sampled_from(REAL))
def test_a_program_gives_what_numpy_gives(tree, left, right):
    x, y = sample(left, 1), sample(right, 2)
    try:
        with np.errstate(all="ignore"):
            expected = call(tree, x, y)
    except TypeError:
        assert tracer.trace(lambda x, y: call(tree, x, y), (x.dtype, y.dtype)) is None
        return
    program = tracer.trace(lambda x, y: call(tree, x, y), (x.dtype, y.dtype))
    assert program is not None
    with np.errstate(all="ignore"):
        (got,) = host.evaluate(program, (x, y))
    assert got.dtype == expected.dtype == program.results[0]
    np.testing.assert_array_equal(got, expected)
    again = pickle.loads(pickle.dumps(program))
    assert again == program and hash(again) == hash(program)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("op", ["sum", "mean", "var", "max", "argmin", "any", "prod", "nansum"])
def test_map_reduce_is_the_reduction_of_the_function(op, axis):
    u, v = arrays()
    f = lambda u, v: np.where(u > v, u * v, u - 0.5)  # noqa: E731
    close(gr.map_reduce(f, op, *chunked(u, v), axis=axis), getattr(np, op)(f(u, v), axis=axis))


def test_options_keepdims_and_dtype_are_the_reductions():
    u, v = arrays()
    U, V = chunked(u, v)
    close(gr.map_reduce(lambda u, v: u * v, "std", U, V, axis=0, ddof=1), (u * v).std(axis=0, ddof=1))
    close(gr.map_reduce(np.multiply, "sum", U, V, axis=1, keepdims=True), (u * v).sum(axis=1, keepdims=True))
    close(gr.map_reduce(lambda u: u > 0, "sum", U, dtype="f4"), (u > 0).sum(dtype="f4"))
    assert gr.map_reduce(np.square, "sum", U, split_every=2).name.startswith("gr-map-sum-")
    with pytest.raises(ArgumentError, match="ddof"):
        gr.map_reduce(np.square, "sum", U, ddof=1)


def test_arrays_broadcast_and_numbers_are_weak():
    u, v = arrays()
    U, V = chunked(u, v)
    close(gr.map_reduce(lambda u, v: u - v, "sum", U, V[0], axis=1), (u - v[0]).sum(axis=1))
    close(gr.map_reduce(lambda v, u: u - v, "max", V[:, :1], U, axis=1), (u - v[:, :1]).max(axis=1))
    close(gr.map_reduce(lambda u, p: u * p, "sum", U, 2.5, axis=0), (u * 2.5).sum(axis=0))
    close(gr.map_reduce(lambda u, m: (u - m) ** 2, "sum", U, U.mean(), axis=0), ((u - u.mean()) ** 2).sum(axis=0))
    close(gr.map_reduce(lambda u: u * np.float64(2.5), "sum", U), (u * np.float64(2.5)).sum())
    with pytest.raises(ArgumentError, match="broadcast"):
        gr.map_reduce(np.add, "sum", U, V[:7])
    with pytest.raises(ArgumentError, match="no array"):
        gr.map_reduce(np.add, "sum", 1, 2)


def test_an_operator_of_two_arrays_takes_two_results():
    u, v = arrays()
    U, V = chunked(u, v)
    got = gr.map_reduce(lambda u, v: (u * u, abs(v)), "average", U, V, axis=0)
    close(got, np.average(u * u, weights=abs(v), axis=0))
    with pytest.raises(ArgumentError, match="1 result"):
        gr.map_reduce(lambda u: u, "average", U)


@pytest.mark.parametrize("hide", [lambda x: x, lambda x: x[...]])
def test_several_results_and_several_operators_take_one_read(hide):
    u, v = arrays()
    reads = []
    U = da.from_array(u, chunks=(20, 80)).map_blocks(lambda b: (reads.append(1), b)[1], meta=np.empty((0, 0), "f4"))
    V = da.from_array(v, chunks=(20, 80))
    reads.clear()
    means = gr.map_reduce(lambda u, v: (hide(u), v, u * v), "mean", U, V, axis=0)
    for got, expected in zip(dask.compute(*means, scheduler="sync"), (u, v, u * v), strict=True):
        np.testing.assert_allclose(got, expected.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert len(reads) == 3
    first, second = gr.map_reduce(lambda u, v: (hide(u), u * v), ["std", "argmax", "sum"], U, V, axis=1, ddof=1)
    assert first._fields == ("std", "argmax", "sum")
    close(first.std, u.std(axis=1, ddof=1))
    close(second.argmax, (u * v).argmax(axis=1))
    close(second.sum, (u * v).sum(axis=1))
    one = gr.map_reduce(lambda u: hide(u) * 2, ["min", "count"], U)
    close(one.min, (u * 2).min())
    close(one.count, np.int64(u.size))


def test_several_operators_with_a_mask():
    u, v = arrays()
    got = gr.map_reduce(
        lambda u: u + 1, ["mean", "sum", "max", "std"], da.from_array(u, chunks=25), axis=0, where=v > 0
    )
    close(got.mean, np.mean(u + 1, axis=0, where=v > 0))
    close(got.std, np.std(u + 1, axis=0, where=v > 0))
    close(got.sum, np.sum(u + 1, axis=0, where=v > 0))
    close(got.max, np.max(u + 1, axis=0, where=v > 0, initial=-np.inf))
    with pytest.raises(ArgumentError, match="dtype"):
        gr.map_reduce(lambda u: u, ["mean"], da.from_array(u), dtype="f8")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_map_scan_is_the_scan_of_the_function(axis):
    u, v = arrays()
    U, V = chunked(u, v)
    close(gr.map_scan(lambda u, v: u * v, "sum", U, V, axis=axis), np.cumsum((u * v).astype("f8"), axis).astype("f4"))
    flat = abs(u).reshape(-1) if axis is None else abs(u)
    close(gr.map_scan(abs, "max", U, axis=axis), np.maximum.accumulate(flat, axis=axis or 0))
    untraced = gr.map_scan(lambda u: u[...] + 1, "max", U, axis=axis)
    close(untraced, np.maximum.accumulate((u + 1).reshape(-1) if axis is None else u + 1, axis=axis or 0))


def test_scans_backwards_and_of_maps_of_two():
    u, v = arrays()
    U, V = chunked(u, v)
    close(gr.map_scan(np.square, "sum", U, axis=0, reverse=True), np.cumsum((u * u)[::-1], axis=0)[::-1])
    expected = np.zeros_like(u)
    for i in range(len(u)):
        expected[i] = 0.5 * (expected[i - 1] if i else 0) + v[i]
    close(gr.map_scan(lambda v: (0.5 * np.isfinite(v).astype("f4"), v), "affine", V, axis=0), expected)


def test_integers_are_clipped_and_squared_as_arrays_are():
    """Also where the number stands first, and where nothing lies between the bounds."""
    for dtype in ("u1", "i2", "i8", "f2"):
        u = np.arange(-120, 130).astype(dtype).reshape(10, 25)
        x = da.from_array(u, chunks=(4, 25))
        for f in (
            lambda x: np.clip(x, 3, 90),
            lambda x: np.clip(x, 90, 3),
            lambda x: x.clip(min=7),
            lambda x: x.clip(max=7),
            lambda x: np.maximum(5, x),
            lambda x: np.minimum(x, 5),
            lambda x: x**2,
        ):
            assert tracer.trace(f, (u.dtype,)) is not None
            got = gr.map_scan(f, "max", x, axis=0).compute(scheduler="sync")
            np.testing.assert_array_equal(got, np.maximum.accumulate(f(u), axis=0))


def test_several_scans_of_several_results_make_each_chunk_once():
    u, v = arrays()
    made = []
    U, V = (x.map_blocks(lambda b: made.append(1) or b, dtype="f4", meta=np.empty((0, 0), "f4")) for x in chunked(u, v))
    products, sums = gr.map_scan(lambda u, v: (u * v, u + v), ["sum", "max"], U, V, axis=0)
    found = dask.compute(*products, *sums, scheduler="sync")
    assert len(made) == U.npartitions + V.npartitions
    expected = [f(each, axis=0) for each in (u * v, u + v) for f in (np.cumsum, np.maximum.accumulate)]
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5)
    _, lows = gr.map_scan(lambda u: (u[...] + 1, u[...] * 2), ["sum", "min"], U, axis=1)  # not traced
    close(lows.min, np.minimum.accumulate(u * 2, axis=1))
    close(gr.map_scan(lambda u: (u, -u), "max", U)[1], np.maximum.accumulate(-u.ravel()))
    for op, f, out in ((["sum", "sum"], abs, None), (["sum"], abs, U), ("sum", lambda u: (u, u), U)):
        with pytest.raises(ArgumentError, match=r"once|no out="):
            gr.map_scan(f, op, U, axis=0, out=out)


SEEN = []


def catches(x):
    try:
        return x + 0 * len(x)
    except TypeError:
        return x
    except Exception:
        return x - 1


def doubles(x):
    x *= 2
    return x


def cuts(x):
    x[x < 0] = 0
    return x


UNTRACED = [
    lambda x: x / x.shape[0],
    lambda x: x - len(x) * x.ndim,
    lambda x: np.cumsum(x, axis=0),
    lambda x: x - x.mean(axis=0),
    lambda x: x / np.max(abs(x)),
    lambda x: x.T.T[::-1],
    lambda x: x[:, ::-1] + np.roll(x, 1, axis=1),
    lambda x: x * np.linspace(-1, 1, x.shape[1], dtype="f4"),
    lambda x: np.add(x, 1, dtype="f8"),
    lambda x: np.modf(x)[0],
    lambda x: x + np.ones(x.shape, x.dtype),
    lambda x: x * 2 if hasattr(x, "nbytes") else x,
    lambda x: np.add.outer(x, 1.0),
    catches,
]


@pytest.mark.parametrize("function", UNTRACED)
def test_what_cannot_be_traced_is_called_on_the_whole_array(function):
    u, _ = arrays()
    assert tracer.trace(function, (F4,)) is None
    expected = np.asarray(function(u))
    for x in (da.from_array(u, chunks=(20, 30)), u):
        close(gr.map_reduce(function, "sum", x, axis=1), expected.sum(axis=1))
        close(gr.map_reduce(function, ["max"], x, axis=0)[0], expected.max(axis=0))
        close(gr.map_scan(function, "max", x, axis=1), np.maximum.accumulate(expected, axis=1))


def test_functions_of_several_arrays_that_cannot_be_traced():
    """Random ones, of arrays that broadcast, against what they make of NumPy's."""
    rng = random.Random(7)
    u, v = arrays()
    for _ in range(8):
        steps = [rng.choice(UNTRACED) for _ in range(2)]
        wide = rng.choice([lambda a, b: (a, b), lambda a, b: (a, b[:1]), lambda a, b: (a[:, 3:4], b)])

        def f(x, y, steps=steps):
            return steps[0](x) + np.where(y > 0, steps[1](y), 1)

        a, b = wide(u, v)
        expected = f(a, b)
        for x, y in ((da.from_array(a, chunks=(20, 30)), da.from_array(b, chunks=(25, 80))), (a, b)):
            close(gr.map_reduce(f, "mean", x, y, axis=0), expected.mean(axis=0, dtype="f8").astype(expected.dtype))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x[:2], r"an index, line \d+ of .*test_maps.py.*shape \(2, 80\)"),
        (lambda x: x.sum(), "attribute sum"),
        (lambda x: x.T, r"shape \(80, 60\)"),
        (lambda x: np.vectorize(float)(x), "conversion to a NumPy array"),
        (lambda x: np.asarray(x) + 1, "conversion to a NumPy array"),
        (lambda x: np.sort(x), "numpy.sort"),
        (lambda x: [v + 1 for v in x], "loop"),
        (lambda x: x + 1 if isinstance(x, np.ndarray) else x, "its type"),
        (lambda x: x if x > 0 else -x, "truth"),
        (lambda x: x + x.nothing, "attribute nothing"),
        (lambda x, y: x, "required positional argument"),
    ],
)
def test_what_dask_does_not_answer_says_what_stopped_the_trace(function, reason):
    computed = []
    x = da.from_array(arrays()[0], chunks=20).map_blocks(
        lambda b: (computed.append(1), b)[1], meta=np.empty((0, 0), "f4")
    )
    for run in (gr.map_reduce, gr.map_scan):
        with pytest.raises(ArgumentError, match=rf"(?s)cannot be traced .*{reason}.*map_blocks"):
            run(function, "sum", x)
    assert not computed


def test_a_function_that_changes_its_mind_is_not_traced():
    calls = iter(range(10))
    assert tracer.trace(lambda x: x + next(calls), (F4,)) is None
    assert tracer.trace(lambda x: x + random.random(), (F4,)) is None
    assert tracer.trace(lambda x: SEEN.append(x) or x + 1, (F4,)) is not None
    assert tracer.trace(lambda x: x + SEEN[0], (F4,)) is None  # a stand-in of another call


def test_integers_keep_numpys_rules():
    x = np.arange(-10, 11, dtype="i1")
    for f in (
        lambda x: x * 100,
        lambda x: x // 3,
        lambda x: x % -3,
        lambda x: x // 0,
        lambda x: x << 9,
        lambda x: x**3,
    ):
        with np.errstate(all="ignore"):
            close(gr.map_reduce(f, "sum", da.from_array(x, chunks=5)), f(x).sum())
    assert tracer.trace(lambda x: x**-1, (np.dtype("i4"),)) is None  # NumPy refuses it, where there is an element
    assert tracer.trace(lambda x: x + 300, (np.dtype("u1"),)) is None
    assert tracer.trace(lambda x, y: x**y, (np.dtype("i4"),) * 2) is None


def test_complex_and_narrow_elements():
    z = (np.arange(50) + 1j * np.arange(50)[::-1]).astype("c8")
    Z = da.from_array(z, chunks=20)
    close(gr.map_reduce(lambda z: (z * z.conj()).real + z.imag, "sum", Z), ((z * z.conj()).real + z.imag).sum())
    close(gr.map_reduce(lambda z: abs(z) > 20, "sum", Z), (abs(z) > 20).sum())
    h = np.linspace(0, 3, 50).astype("f2")
    close(gr.map_reduce(lambda h: h * h + 1, "max", da.from_array(h, chunks=20)), (h * h + 1).max())


def test_equal_arrays_are_read_once():
    u, _ = arrays()
    reads = []
    x = da.from_array(u, chunks=(20, 80)).map_blocks(lambda b: (reads.append(1), b)[1], meta=np.empty((0, 0), "f4"))
    reads.clear()
    got = gr.map_reduce(lambda a, b: a * b, "sum", x, x.copy())
    close(got, (u * u).sum())
    assert len(reads) == 3
    assert {bound.monoid.arity for bound in _bounds(got)} == {1}


def test_no_temporary_of_a_chunks_size():
    u = np.random.default_rng(0).normal(size=(4096, 4096)).astype("f4")
    x = da.from_array(u, chunks=-1, name=False).persist()
    for op, axis in (("sum", None), ("sum", 0), ("var", 1), ("max", 0)):
        lazy = gr.map_reduce(lambda u: (u - 0.5) ** 2 + np.exp(-u), op, x, axis=axis)
        lazy.compute(scheduler="sync")
        tracemalloc.start()
        lazy.compute(scheduler="sync")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.05 * u.nbytes, f"{op} along {axis} takes {peak / u.nbytes:.1%} of a chunk"


def test_keys_follow_function_and_constants():
    u, _ = arrays()
    x = da.from_array(u, chunks=20)

    def power(p):
        return gr.map_reduce(lambda u: (u - p) ** 2, "sum", x).name

    assert power(0.5) == power(0.5) != power(0.25)


# ---- masks


@pytest.mark.parametrize("op", ["sum", "mean", "var", "std", "prod", "any", "all"])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_where_is_numpys(op, dtype):
    u, v = arrays()
    u, mask = (u * 3).astype(dtype), v > 0.3
    mask[:, 3] = False
    if dtype == "f4":
        u[4, 5:9] = np.nan
    x = da.from_array(u, chunks=(20, 30))
    for axis in (None, 0, 1):
        expected = getattr(np, op)(u + 1, axis=axis, where=mask)
        close(gr.map_reduce(lambda u: u + 1, op, x, axis=axis, where=mask), expected)


def test_where_of_what_cannot_be_traced_and_of_ones_own_monoid():
    u, v = arrays()
    x = da.from_array(u, chunks=(20, 80))
    close(gr.map_reduce(lambda u: u[...] + 1, "var", x, axis=1, where=v > 0), np.var(u + 1, axis=1, where=v > 0))
    close(gr.map_reduce(lambda u: abs(u), "argmax", x, axis=0, where=v > 0), np.where(v > 0, abs(u), -1).argmax(axis=0))
    with pytest.raises(DtypeError, match="bool"):
        gr.map_reduce(lambda u: u, "sum", x, where=v)


# ---- on workers


def test_maps_travel_to_workers():
    distributed = pytest.importorskip("distributed")
    u, v = arrays()
    with (
        local_cluster(2) as cluster,
        distributed.Client(cluster) as client,
    ):
        U, V = (client.persist(x) for x in chunked(u, v))
        totals = gr.map_reduce(lambda u, v: u * v, "sum", U, V, axis=0), gr.map_reduce(lambda u: u[...] + 1, "max", U)
        scanned = gr.map_scan(lambda u: abs(u) + 0.5, "sum", U, axis=1)
        with gr.accelerate(numpy=True):  # elementwise steps before a reduction, in groups and in tasks a chunk
            steps = ((U - U.mean()) ** 2).sum(axis=0), (V * V).mean(axis=1)
        total, largest, running, *found = client.compute([*totals, scanned, *steps], sync=True)
    for got, expected in zip(found, (((u - u.mean()) ** 2).sum(axis=0), (v * v).mean(axis=1)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5)
    np.testing.assert_allclose(total, (u * v).sum(axis=0), rtol=1e-4, atol=1e-5)
    assert largest == (u + 1).max()
    np.testing.assert_allclose(running, np.cumsum((abs(u) + 0.5).astype("f8"), axis=1), rtol=1e-5)


def test_few_tasks_and_the_same_keys_for_the_same_map():
    u, _ = arrays(shape=(640, 64))
    x = da.from_array(u, chunks=(10, 64))
    first, second = (gr.map_reduce(lambda u: (u - 0.5) ** 2, "sum", x) for _ in range(2))
    assert first.name == second.name
    graph = dict(dask.optimize(first)[0].__dask_graph__())
    assert sum(type(node).__name__ != "DataNode" for node in graph.values()) < 16
    bound = next(iter(_bounds(first)))
    again = pickle.loads(pickle.dumps(bound))
    assert again == bound and hash(again) == hash(bound) and dask.base.tokenize(again) == dask.base.tokenize(bound)


def _bounds(lazy):
    for layer in lazy.dask.layers.values():
        for node in dict(layer).values():
            keywords = getattr(getattr(node, "func", None), "keywords", None) or {}
            if "bound" in keywords:
                yield keywords["bound"]


@pytest.mark.parametrize("function", [doubles, cuts])
def test_functions_that_write_to_their_arguments_harm_nobody(function):
    u = arrays()[0]
    kept = u.copy()
    x = da.from_array(u, chunks=20).persist(scheduler="sync")
    for run, expected in ((gr.map_reduce, np.sum), (gr.map_scan, np.cumsum)):
        close(run(function, "sum", x, axis=0), expected(function(u.copy()), axis=0))
        with pytest.raises(ArgumentError, match="read-only"):
            run(function, "sum", u, axis=0)
    np.testing.assert_array_equal(x.compute(scheduler="sync"), kept)
    np.testing.assert_array_equal(u, kept)


def test_an_array_that_grows_is_not_the_first_that_is_read():
    """A kernel goes by the first: an array of one number a row has it read no vectors."""
    u, v = arrays()
    x, row = da.from_array(u, chunks=(20, 30)), da.from_array(v[:, :1], chunks=(20, 1))
    found = Operands("map", [row, x, 2, row])
    assert found.arrays[0].name == x.name
    assert found.order == (1, 0, 1)
    close(
        gr.map_reduce(lambda r, x, n, s: (r - x) * n + s, "sum", row, x, 2, row, axis=0), (v[:, :1] * 3 - u * 2).sum(0)
    )
