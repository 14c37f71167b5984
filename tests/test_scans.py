"""Scans of dask arrays: every way through the tree against NumPy and the host's scan of the whole, and its cost."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
import warnings
from collections import Counter
from dataclasses import replace
from unittest import mock

import dask
import dask.array as da
import ml_dtypes
import numpy as np
import pytest
import xarray as xr
from dask._task_spec import DataNode, convert_legacy_graph
from dask.array.reductions import cumreduction
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import in_turn, slow

import gpureduce_dask as gr
from gpureduce_dask import errors, planner
from gpureduce_dask.distributed import workers
from gpureduce_dask.graph import fusion, sources
from gpureduce_dask.graph.meta import promises_device
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RNG = np.random.default_rng(3)
NUMPY = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "nancumsum": np.nancumsum,
    "nancumprod": np.nancumprod,
}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(params=["sync", "threads"])
def scheduler(request, one_thread):
    with dask.config.set(scheduler=request.param, num_workers=2):
        yield request.param


def small(shape, dtype="f8", missing=False):
    """Small integers, whose sums are exact in any order."""
    x = RNG.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape).astype(dtype)
    if missing:
        x[RNG.random(shape) < 0.2] = np.nan
    return x


def lazy(x, chunks):
    return da.from_array(x, chunks=chunks).map_blocks(np.copy)


def whole(name, x, axis, initial=False, **options):
    """The host's scan of the whole array as one chunk, of which the tests of chunks speak."""
    row = gr.OPERATORS[name] if isinstance(name, str) else name
    bound = row.bind(*((x.dtype,) if isinstance(x, np.ndarray) else (v.dtype for v in x)))
    chunks = (x,) if isinstance(x, np.ndarray) else x
    want, _ = host_scan.scan(chunks, bound, axis, **options)
    if initial:
        shape = tuple(1 if a == axis else n for a, n in enumerate(want.shape))
        pad = host_reduce.finalise(bound.identities(shape), bound)
        want = np.concatenate([want, pad] if options.get("reverse") else [pad, want], axis)
    return want


def check(got, want):
    """Of lines in turn, where there are as many as threads, and with the totals of chunks first."""
    with totals_first():
        values = [got.compute()]
    for value in (*values, got.compute()):
        assert got.shape == value.shape == want.shape and got.dtype == value.dtype == want.dtype
        if want.dtype.kind in "mM":
            np.testing.assert_array_equal(value, want)
        else:
            np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-12)


def totals_first():
    return mock.patch.object(fusion, "_as_kept", lambda graph, wanted: graph)


GRIDS = [((30,), (7,)), ((9, 10), (4, 5)), ((9, 4, 6), (9, 3, 2)), ((12, 3), (1, 3)), ((6, 6), (6, 6))]
OPTIONS = [
    {},
    {"exclusive": True},
    {"reverse": True},
    {"exclusive": True, "reverse": True},
    {"initial": True},
    {"initial": True, "reverse": True},
]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("in_memory", [False, True])
def test_along_an_axis(grid, in_memory, scheduler):
    shape, chunks = grid
    for number, (axis, options) in enumerate(itertools.product(range(len(shape)), OPTIONS)):
        name = ["sum", "last", "var", "max"][number % 4]
        x = small(shape, missing=name == "last")
        given = lazy(x, chunks)
        given = given.persist() if in_memory else given
        asked = {("include_initial" if k == "initial" else k): v for k, v in options.items()}
        got = gr.scan(given, name, axis=axis - len(shape), **asked)
        assert "initial" in options or got.chunks == given.chunks
        check(got, whole(name, x, axis, **options))


GRIDS_OF_ALL_AXES = [
    *GRIDS,
    ((9, 6), (4, 2)),
    ((7, 5, 6), (3, 2, 2)),
    ((7, 4, 3), (1, 3, 2)),
    ((2, 3, 4, 5), (1, 2, 2, 5)),
    ((0, 4), (1, 2)),
    ((20, 18), (20, 1)),
]


@pytest.mark.parametrize(("grid", "together"), in_turn(GRIDS_OF_ALL_AXES, [0, planner.TOGETHER_BYTES]), ids=str)
def test_over_all_axes_in_c_order(grid, together, scheduler, monkeypatch):
    monkeypatch.setattr(planner, "TOGETHER_BYTES", together)
    shape, chunks = grid
    for number, options in enumerate(OPTIONS):
        name = ["sum", "last", "first"][number % 3]
        x = small(shape, missing=name != "sum")
        given = lazy(x, chunks)
        given = given if number % 2 else given.persist()
        asked = {("include_initial" if k == "initial" else k): v for k, v in options.items()}
        got = gr.scan(given, name, **asked)
        check(got, whole(name, x.ravel(), 0, **options))
        blocks = dask.compute(*(got.blocks[i] for i in range(got.npartitions)))
        assert [block.size for block in blocks] == list(got.chunks[0])
        alone = (len(blocks) - 1) * number // (len(OPTIONS) - 1)  # one by itself: the first, others, the last
        np.testing.assert_array_equal(got.blocks[alone].compute(), blocks[alone])


@pytest.mark.parametrize("in_memory", [False, True])
def test_large_partials_go_one_by_one(in_memory, monkeypatch):
    """A section of bases is as short as their bytes allow, and totals are then found apart."""
    monkeypatch.setattr(planner, "CARRIED_BYTES", 200)
    x = small((30, 12))
    given = lazy(x, (4, 5))
    given = given.persist() if in_memory else given
    check(gr.cumsum(given, axis=0), np.cumsum(x, 0))
    segments = np.arange(30) // 4
    starts = np.append(False, segments[1:] != segments[:-1])[:, None]
    check(gr.scan(given, "sum", 0, segments=segments), whole("sum", x, 0, resets=starts))


def test_empty_chunks():
    x = small((7, 4))
    given = lazy(x, ((0, 3, 0, 4, 0), (2, 2)))
    for reverse in (False, True):
        check(gr.scan(given, "max", axis=0, reverse=reverse), whole("max", x, 0, reverse=reverse))
        check(gr.scan(given, "sum", reverse=reverse), whole("sum", x.ravel(), 0, reverse=reverse))


def test_over_all_axes_nothing_is_rechunked():
    x = da.ones((64, 64), chunks=(16, 16))
    keys = {str(k[0] if isinstance(k, tuple) else k) for k in dict(gr.cumsum(x).dask)}
    assert not [k for k in keys if "rechunk" in k or "reshape" in k]
    got = gr.cumsum(x)
    assert got.npartitions == x.npartitions
    with dask.config.set(scheduler="sync"):
        assert len(dask.optimize(got)[0].dask) <= 4 * x.npartitions  # stock: some 250 tasks a chunk
        np.testing.assert_array_equal(got.compute(), np.arange(1, 64 * 64 + 1))


@pytest.mark.parametrize(("in_memory", "reverse"), in_turn([False, True], [False, True]))
def test_segments(reverse, in_memory, scheduler):
    x = small((23, 6))
    for axis, chunks in ((0, (4, 3)), (1, (9, 2)), (0, (23, 3))):
        given = lazy(x, chunks)
        given = given.persist() if in_memory else given
        labels = np.sort(RNG.integers(0, 5, x.shape[axis]))
        differ = labels[1:] != labels[:-1]
        starts = np.append(differ, False) if reverse else np.append(False, differ)
        column = starts.reshape(-1, 1) if axis == 0 else starts
        want = whole("sum", x, axis, resets=column, reverse=reverse)
        check(
            gr.scan(given, "sum", axis=axis, segments=labels, reverse=reverse, exclusive=True),
            whole("sum", x, axis, resets=column, reverse=reverse, exclusive=True),
        )
        for segments in (labels, starts, da.from_array(labels, chunks=3), da.from_array(starts, chunks=5)):
            check(gr.scan(given, "sum", axis=axis, segments=segments, reverse=reverse), want)
        full = RNG.random(x.shape) < 0.2
        check(
            gr.scan(given, "last", axis=axis, segments=full, reverse=reverse),
            whole("last", x, axis, resets=full, reverse=reverse),
        )
        letters = np.where(full, "a", "b")
        changed = np.zeros(x.shape, bool)
        ahead = (slice(None),) * axis
        changed[(*ahead, slice(None, -1) if reverse else slice(1, None))] = np.take(
            letters, range(1, x.shape[axis]), axis
        ) != np.take(letters, range(x.shape[axis] - 1), axis)
        check(
            gr.scan(given, "sum", axis=axis, segments=letters, reverse=reverse),
            whole("sum", x, axis, resets=changed, reverse=reverse),
        )


def test_positions_count_in_the_whole_array():
    x = RNG.integers(0, 30, (12, 10))
    given = lazy(x, (5, 4))
    check(gr.scan(given, "argmax", axis=0), whole("argmax", x, 0))
    check(gr.scan(given.persist(), "argmin", axis=1, reverse=True), whole("argmin", x, 1, reverse=True))
    check(gr.scan(given, "argmax"), whole("argmax", x.ravel(), 0))
    z = small((12, 10)) + 1j * small((12, 10))
    check(gr.cummax(lazy(z, (5, 4)), axis=1), np.maximum.accumulate(z, 1))


FIRST_LEAST = replace(OPERATORS["argmin"], name="first_least", cuda=None)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((6, 8), (2, 3)),
        ((7, 9), ((3, 4), (4, 5))),
        ((5, 4), (2, 4)),
        ((6, 8), ((2, 0, 4), (3, 5))),
        ((6, 8), ((6,), (3, 0, 5))),
        ((4, 5, 6), (2, 2, 3)),
        ((4, 5, 6), (1, 5, 2)),
        ((3, 4, 5), (1, 2, 5)),
        ((2, 3, 4, 5), (1, 2, 2, 3)),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_positions_count_in_c_order(shape, chunks, reverse):
    x = RNG.integers(0, 6, shape)
    z = RNG.integers(0, 6, shape) + 1j * RNG.integers(0, 3, shape)
    for op, name, array in ((FIRST_LEAST, "argmin", x), ("argmax", "argmax", x), ("max", "max", z)):
        found = gr.scan(lazy(array, chunks), op, reverse=reverse)
        assert not any("rechunk" in layer or "reshape" in layer for layer in found.dask.layers)
        check(found, whole(name, array.ravel(), 0, reverse=reverse))
    gaps = np.where(x > 3, np.nan, x)
    gaps.flat[[0, -1]] = 3
    check(
        gr.scan(lazy(gaps, chunks), "nanargmin", reverse=reverse), whole("nanargmin", gaps.ravel(), 0, reverse=reverse)
    )


def test_maps_and_an_operator_of_ones_own():
    from test_trees import AFFINE

    a, b = small((40, 6)), small((40, 6))
    pair = lazy(a, (7, 4)), lazy(b, (9, 4))
    want, y = np.empty_like(b), np.zeros(6)
    for i in range(40):
        y = a[i] * y + b[i]
        want[i] = y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(gr.scan(pair, "affine", axis=0).compute(), want)
        np.testing.assert_array_equal(
            gr.scan(pair, "affine", axis=0, reverse=True).compute(), whole("affine", (a, b), 0, reverse=True)
        )
        x = small((30, 8), "i8")
        for axis in (0, 1):
            np.testing.assert_array_equal(gr.scan(lazy(x, (7, 3)), AFFINE, axis=axis).compute(), whole(AFFINE, x, axis))
        np.testing.assert_array_equal(gr.scan(lazy(x, (7, 3)), AFFINE).compute(), whole(AFFINE, x.ravel(), 0))


# ---- public functions


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("name", NUMPY)
@given(data=st.data())
def test_numpy_says_the_same(name, data):
    dtype = data.draw(st.sampled_from(["?", "i1", "u2", "i8", "f4", "f8"]))
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, max(n, 1))) for n in shape)
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    if name.startswith("cumm") and axis is None:
        axis = 0
    x = small(shape, dtype, missing=name.startswith("nan") and dtype[0] == "f")
    got = getattr(gr, name)(da.from_array(x, chunks=chunks), axis=axis)
    want = NUMPY[name](x, axis=axis) if axis is not None or x.ndim > 1 else NUMPY[name](x)
    check(got, want)


def test_signatures_and_small_inputs():
    x = small((4, 5), "i4")
    for method in ("sequential", "blelloch"):
        check(gr.cumsum(lazy(x, 2), 1, np.float32, method=method), np.cumsum(x, 1, np.float32))
    check(
        gr.cumulative_sum(lazy(x, 2), axis=1, include_initial=True), np.cumulative_sum(x, axis=1, include_initial=True)
    )
    check(gr.cumulative_prod(lazy(x[0], 2)), np.cumulative_prod(x[0]))
    check(gr.cumsum(5.0), np.cumsum(5.0))
    check(gr.cumsum([1, 2, 3]), np.cumsum([1, 2, 3]))
    check(gr.cummax(lazy(np.array([1, "NaT", 5, 3], "M8[s]"), 2), axis=0), np.array([1, "NaT", "NaT", "NaT"], "M8[s]"))
    out = da.zeros((4, 5), chunks=2, dtype="i8")
    assert gr.cumsum(lazy(x, 2), axis=0, out=out) is out
    np.testing.assert_array_equal(out.compute(), np.cumsum(x, 0))
    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = x.astype(dtype)
        got = gr.cumsum(lazy(narrow, 2), axis=0).compute()
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype("f8"), np.cumsum(x, 0))


def test_gaps_are_filled():
    x = np.array([[np.nan, 1, np.nan, 2], [3, np.nan, np.nan, np.nan]])
    forward = [[np.nan, 1, 1, 2], [3, 3, 3, 3]]
    backward = [[1, 1, 2, 2], [3, np.nan, np.nan, np.nan]]
    np.testing.assert_array_equal(gr.ffill(lazy(x, (1, 2))).compute(), forward)
    np.testing.assert_array_equal(gr.bfill(lazy(x, (1, 2)), axis=1).compute(), backward)


def test_unknown_chunk_sizes():
    x = small(40)
    some = lazy(x, 7)
    some, kept = some[some > -1], x[x > -1]
    got = gr.cumsum(some, axis=0)
    assert np.isnan(got.shape[0])
    np.testing.assert_array_equal(got.compute(), np.cumsum(kept))
    np.testing.assert_array_equal(gr.cumsum(some).compute(), np.cumsum(kept))
    flags = lazy(RNG.random(40) < 0.2, 7)[lazy(x, 7) > -1]
    want = whole("sum", kept, 0, resets=flags.compute())
    np.testing.assert_array_equal(gr.scan(some, "sum", axis=0, segments=flags).compute(), want)
    with pytest.raises(errors.ArgumentError, match="unknown chunk sizes"):
        gr.scan(some, "sum", axis=0, segments=flags.astype(int))
    with pytest.raises(errors.ArgumentError, match="unknown chunk sizes along axis 0"):
        gr.scan(some, "argmax", axis=0)
    square = lazy(small((8, 8)), (3, 3))
    with pytest.raises(errors.ArgumentError, match="unknown chunk sizes and no axis"):
        gr.cumsum(square[square[:, 0] > -1])


def test_what_is_refused():
    x = da.ones((4, 6), chunks=2)
    for call, error, text in [
        (lambda: gr.cumsum(x, axis=2), errors.AxisError, "cumsum: axis 2"),
        (lambda: gr.cumsum(x, axis=(0, 1)), errors.AxisError, "one integer"),
        (lambda: gr.cumsum(x, axis=0, method="quick"), errors.ArgumentError, "sequential or blelloch"),
        (lambda: gr.cumulative_sum(x), errors.ArgumentError, "an axis"),
        (lambda: gr.cumulative_prod(x), errors.ArgumentError, "call cumprod for all"),
        (lambda: gr.scan(x, "summ", axis=0), errors.OperatorError, "Did you mean sum"),
        (lambda: gr.scan(x, "affine", axis=0), errors.ArgumentError, "a tuple of 2 arrays"),
        (lambda: gr.scan(x, "argmax", axis=0, exclusive=True), errors.ArgumentError, "no answer for nothing"),
        (lambda: gr.scan(x, "sum", 0, exclusive=True, include_initial=True), errors.ArgumentError, "one of them"),
        (lambda: gr.scan(x, "sum", axis=0, segments=np.ones(5)), errors.ArgumentError, "its size along the axis"),
        (lambda: gr.scan(x, "sum", segments=np.ones(24)), errors.ArgumentError, "Pass axis="),
        (lambda: gr.cummax(x.astype(object), axis=0), errors.DtypeError, "cummax"),
        (lambda: gr.scan_tree("mean", "f4"), errors.ArgumentError, "do not combine"),
        (lambda: gr.scan_tree("max", "c8"), errors.ArgumentError, "a real dtype"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_what_belongs_to_stock_dask():
    x = np.array([1, 2, 3, 4])
    assert gr.cumsum(da.from_array(x.astype(object), chunks=2), axis=0).compute().tolist() == [1, 3, 6, 10]
    masked = da.from_array(np.ma.masked_equal(x, 2), chunks=2, asarray=False)
    got = gr.cumsum(masked, axis=0).compute()
    assert isinstance(got, np.ma.MaskedArray)
    long = gr.cumprod(da.from_array(x.astype(np.longdouble), chunks=2), axis=0)
    assert long.dtype == np.longdouble and long.compute().tolist() == [1, 2, 6, 24]
    with pytest.raises(errors.DtypeError, match="no such function"):
        gr.cummax(masked, axis=0)


@pytest.mark.parametrize("method", ["sequential", "blelloch"])
def test_in_stock_cumreduction(method):
    x = small((23, 6), "i4")
    given = lazy(x, (5, 4))
    for op, want in (("sum", np.cumsum), ("max", np.maximum.accumulate), ("any", np.logical_or.accumulate)):
        got = cumreduction(x=given, axis=0, method=method, **gr.scan_tree(op, x.dtype))
        check(got, want(x, axis=0))
        assert got.name.startswith(f"gr-scan-{op}")


# ---- graphs


def test_keys_follow_from_what_is_scanned():
    x = da.ones((6, 6), chunks=2)
    names = [
        gr.cumsum(x, axis=0).name,
        gr.cumsum(x, axis=1).name,
        gr.cumsum(x).name,
        gr.cumsum(x, axis=0, dtype="f4").name,
        gr.scan(x, "sum", axis=0).name,
        gr.scan(x, "sum", axis=0, reverse=True).name,
        gr.scan(x, "sum", axis=0, exclusive=True).name,
        gr.scan(x, "sum", axis=0, include_initial=True).name,
        gr.scan(x, "sum", axis=0, segments=np.arange(6)).name,
    ]
    assert len(set(names)) == len(names)
    assert gr.cumsum(x, axis=0).name == names[0] and names[0].startswith("gr-cumsum-")
    pickle.loads(pickle.dumps(gr.cumsum(x).dask))


def test_device_chunks_are_promised_without_a_gpu():
    x = da.ones((8, 8), chunks=(2, 4)).map_blocks(lambda b: b, meta=gr.device_meta(2, "f4"), dtype="f4")
    for got in (gr.cumsum(x, axis=0), gr.cumsum(x, axis=1), gr.cumsum(x), gr.ffill(x), gr.cummax(x, axis=0)):
        assert promises_device(got._meta) and got.dtype == np.float32


def tasks_of(array):
    """Tasks of a graph that is about to run, but for chunks that are there already."""
    with totals_first():
        graph = dask.optimize(array)[0].dask
    return sum(type(node) is not DataNode for node in convert_legacy_graph(dict(graph)).values())


def test_how_many_tasks():
    """One a chunk of the result, and one that totals them and puts the totals in order. Where chunks have yet to be
    made, one more makes each, and each eight have their own totals and bases."""
    x = da.ones(640, chunks=10)
    assert tasks_of(gr.cumsum(x.persist(), axis=0)) == 64 + 1
    assert tasks_of(gr.cumsum(x, axis=0)) == 2 * 64 + 2 * 8 - 1
    assert tasks_of(gr.cumsum(da.ones((64, 640), chunks=(8, 640)), axis=1)) == 8
    assert tasks_of(gr.cumsum(da.ones((640, 4), chunks=(10, 4)).persist())) == 64 + 1


def names_of(*arrays):
    """Tasks of arrays that are computed together, by the first word of their keys that is not the call's."""
    graph = dask.base.collections_to_expr(arrays).optimize().__dask_graph__()
    nodes = convert_legacy_graph(dict(graph)).items()
    return Counter(str(key[0]).rsplit("-", 1)[0] for key, node in nodes if type(node) is not DataNode)


@pytest.mark.parametrize("in_memory", [False, True])
def test_lines_are_scanned_in_turn_where_all_results_are_kept(in_memory, monkeypatch):
    """A task a section of a line, one for what is behind it but for the last, and one for each chunk of the results."""
    monkeypatch.setattr(planner, "MOST_SCAN_CHUNKS", 6)
    values = small((64, 40))
    x = lazy(values, (4, 10))
    x = x.persist() if in_memory else x
    with dask.config.set(scheduler="threads", num_workers=2):
        y = gr.cumsum(x, axis=0)
        found = names_of(y)
        assert found["gr-cumsum-line"] == 4 * 3 and found["gr-cumsum-behind"] == 4 * 2 and found["gr-cumsum"] == 64
        assert "gr-cumsum-carry" not in found
        for value in (y.compute(), y.persist().compute(), xr.DataArray(y).compute().values):
            np.testing.assert_array_equal(value, np.cumsum(values, 0))


def test_lines_are_not_scanned_in_turn_where_results_are_let_go_or_threads_would_wait():
    x = lazy(small((64, 40)), (4, 10)).persist()
    with dask.config.set(scheduler="threads", num_workers=2):
        y = gr.cumsum(x, axis=0)
        few = gr.cumsum(x[:, :10], axis=0)
        for arrays in ((gr.max(y),), (y, y.max()), (y[1:],), (few,), (gr.cumsum(x),)):
            assert not [name for name in names_of(*arrays) if "line" in name]
    with dask.config.set(scheduler="threads", num_workers=3):  # of which one would scan two
        assert "gr-cumsum-line" not in names_of(gr.cumsum(x, axis=0))


def test_thin_chunks_are_scanned_in_turn_by_half_of_all_threads():
    """Their totals are as large as they are."""
    values = small((9, 40))
    x = lazy(values, (1, 20)).persist()
    for threads, line in ((1, True), (3, True), (4, True), (5, False)):  # two lines
        with dask.config.set(scheduler="threads", num_workers=threads):
            y = gr.cumsum(x, axis=0)
            assert ("gr-cumsum-line" in names_of(y)) == line
            np.testing.assert_array_equal(y.compute(), np.cumsum(values, 0))


def test_lines_are_not_scanned_in_turn_by_a_cluster_that_came_later(monkeypatch):
    with dask.config.set(scheduler="threads", num_workers=2):
        y = gr.cumsum(lazy(small((64, 40)), (4, 10)).persist(), axis=0)
        assert "gr-cumsum-line" in names_of(y)
        monkeypatch.setattr(workers, "current", lambda: workers.Workers({"tcp://a": 1}, client=object()))
        assert "gr-cumsum-line" not in names_of(y)


def test_steps_before_lines_in_turn_are_computed_once():
    """Where each chunk is read but once, steps of any cost move into the task that reads it."""
    x = lazy(small((64, 40)), (4, 10)).persist()
    with dask.config.set(scheduler="threads", num_workers=2):
        y = gr.cumsum(da.maximum(x, 0), axis=0)
        assert {*names_of(y)} == {"gr-cumsum-line", "gr-cumsum"}
        np.testing.assert_array_equal(y.compute(), np.cumsum(np.maximum(x.compute(), 0), 0))


def made(counts, block_info=None):
    counts.append(1)
    return np.ones(block_info[None]["chunk-shape"])


def test_lazy_chunks_are_made_once():
    counts: list[int] = []
    x = da.map_blocks(made, counts, chunks=((10,) * 40,), dtype=float, meta=np.empty(0))
    got = gr.cumsum(x, axis=0).compute()
    assert len(counts) == 40 and got[-1] == 400


@pytest.mark.parametrize("in_memory", [False, slow(True)])
def test_what_a_scan_feeds_lets_go_of_it(in_memory, scheduler):
    """Chunks of 1 MiB, traced by NumPy's allocations: of 96 no more are in memory than two sections and threads."""
    size, chunks = 1 << 17, 96
    x = da.map_blocks(
        lambda block_info=None: np.ones(block_info[None]["chunk-shape"]),
        chunks=((size,) * chunks,),
        dtype=float,
        meta=np.empty(0),
    )
    x = x.persist() if in_memory else x
    for call, want in [
        (lambda: gr.max(gr.cumsum(x, axis=0)), size * chunks),
        (lambda: gr.cumsum(x, axis=0)[-1], size * chunks),
        (lambda: gr.cumsum(x, axis=0).max(), size * chunks),
    ]:
        lazy_result = call()
        tracemalloc.start()
        assert lazy_result.compute() == want
        peak = tracemalloc.get_traced_memory()[1] >> 20
        tracemalloc.stop()
        assert peak < (12 if in_memory else 36)


@pytest.mark.parametrize("flat", [False, True])
def test_graphs_dealt_otherwise_share_no_key(monkeypatch, flat):
    """Their parts are numbered as they come: one's totals would be taken for what the other's chunks start from."""
    x = da.from_array(np.arange(2.0**18).reshape(256, 1024), chunks=(8, 64))
    graphs = []
    for count in (16, 1):
        with dask.config.set(scheduler="threads", num_workers=count):
            array = gr.cumsum(x) if flat else gr.cumsum(x, axis=0)
        graphs.append({k: v.dependencies for k, v in dict(array.dask).items() if str(k[0]).startswith("gr-")})
        monkeypatch.setattr(
            sources.PersistedSource, "partition", lambda self, chunks, _: planner.even_stretches(len(chunks), 1)
        )
    assert [len(needs) for needs in graphs[0].values()] != [len(needs) for needs in graphs[1].values()]
    assert not graphs[0].keys() & graphs[1].keys()


def test_many_small_chunks_are_few_sections():
    """For each, dask notes all chunks before it to put tasks in order."""
    x = da.ones(4096, chunks=1)
    y = gr.cumsum(x)
    parts = [key for key in y.dask.layers[y.name] if key[0] != y.name]
    assert len(parts) <= 2 * 64
    large = gr.cumsum(da.ones((4096, 2**20), chunks=(1, 2**20)), axis=0)
    assert len([key for key in large.dask.layers[large.name] if key[0] != large.name]) > 2 * 256
    some = gr.cumsum(da.ones(1000, chunks=1)).compute(scheduler="sync")
    np.testing.assert_array_equal(some, np.arange(1, 1001))
