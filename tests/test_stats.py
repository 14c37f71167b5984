"""Several statistics from one read: each is what the function of its name gives, and the chunks are read once."""

from __future__ import annotations

import pickle
import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster

import gpureduce_dask as gr
from gpureduce_dask import errors
from gpureduce_dask.chunk import cut
from gpureduce_dask.graph.statistics import plan_parts
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators import native
from gpureduce_dask.operators.product_monoid import Product, product
from gpureduce_dask.operators.shared_states import names as known_names

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ORDERED = ["min", "max", "argmin", "argmax", "count", "nancount", "nanmax", "any", "count_nonzero"]
REAL = [*ORDERED, "sum", "mean", "var", "std", "skew", "kurtosis", "ptp", "nanmean", "nansum", "nanstd", "nanvar"]
COMPLEX = ["min", "argmax", "sum", "mean", "std", "var", "nanmean", "nanstd", "nancount"]
SETS = {
    "?": [name for name in REAL if name != "ptp"],
    "M8[s]": ORDERED,
    "m8[s]": [*ORDERED, "sum", "mean"],
    "c8": COMPLEX,
    "c16": COMPLEX,
}
DTYPES = ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[s]"]
SHAPE, CHUNKS = (23, 31), [(5, 8), (23, 9), (4, 31), (23, 31)]
FIVE = ["min", "max", "mean", "std", "argmax"]


def make(dtype, seed=0, shape=SHAPE):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        values = rng.normal(3, 40, shape).round(1).astype(dtype)
        values.flat[:: values.size // 5] = np.nan
        values.flat[7] = np.inf
        return values
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def single(name, x, **arguments):
    """What the function of that name gives."""
    if name in ("count", "nancount"):
        is_float = x.dtype.kind in "fc"
        return gr.count_nonzero(~da.isnan(x) if name == "nancount" and is_float else da.ones_like(x, bool), **arguments)
    return getattr(gr, name)(x, **{"axis": None, **arguments})


def assert_same(got, want, name):
    """The same dtype, and values equal to the last bit but for moments of other orders."""
    assert np.shape(got) == np.shape(want) and np.asarray(got).dtype == np.asarray(want).dtype, name
    if name in ("var", "std"):
        np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype.itemsize < 8 else 1e-13)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_is_the_single_function(dtype):
    asked = SETS.get(dtype, REAL)
    for number, (chunks, axis) in enumerate(zip(CHUNKS, (None, 0, 1, (0, 1)), strict=True)):
        x = da.from_array(make(dtype, number), chunks=chunks)
        x = x.persist(scheduler="sync") if number % 2 else x
        keepdims = number > 1
        found = gr.stats(x, asked, axis=axis, keepdims=keepdims)
        wanted = {name: single(name, x, axis=axis, keepdims=keepdims) for name in asked}
        assert found._fields == tuple(asked)
        for name, want in wanted.items():
            array = getattr(found, name)
            assert (array.dtype, array.shape, array.chunks) == (want.dtype, want.shape, want.chunks), name
        got, want = dask.compute(found, wanted, scheduler="sync")
        for name in asked:
            assert_same(getattr(got, name), want[name], name)


@pytest.mark.parametrize("name", ["min", "std", "count"])
def test_each_may_be_computed_alone(name):
    x = da.from_array(make("f8"), chunks=(5, 8))
    np.testing.assert_array_equal(getattr(gr.stats(x, [*FIVE, "count"], axis=0), name), single(name, x, axis=0))


@pytest.mark.parametrize("dtype", ["f4", "c8", "i2", "M8[s]"])
def test_counts_without_a_mean_beside_them(dtype):
    x = da.from_array(make(dtype), chunks=(5, 8))
    for axis in (None, 0, 1):
        found = gr.stats(x, ["max", "count", "nancount"], axis=axis)
        np.testing.assert_array_equal(found.count, single("count", x, axis=axis))
        np.testing.assert_array_equal(found.nancount, single("nancount", x, axis=axis))


def test_states_are_shared():
    def parts(asked, dtype):
        return sorted(part.name for part in plan_parts("stats", asked, np.dtype(dtype), 0)[0].parts)

    assert parts(["mean", "sum", "count"], "f4") == ["mean"]
    assert parts(["mean", "sum"], "i8") == ["mean", "sum"]
    assert parts(["std", "var", "skew", "kurtosis"], "f4") == ["skew"]
    assert parts(["std", "var", "skew", "kurtosis"], "f8") == ["skew", "var"]
    assert parts(["min", "max", "argmin", "argmax"], "f8") == ["argmax", "argmin"]
    assert parts(["min", "max", "ptp"], "i4") == ["ptp"]
    assert parts(["nanmean", "nansum", "nancount", "nanstd", "nanvar"], "f4") == ["nanmean", "nanvar"]


def test_variance_far_from_zero_keeps_its_digits_beside_skewness():
    x = da.from_array(1e9 + np.random.default_rng(0).normal(size=(40, 50)), chunks=7)
    np.testing.assert_array_equal(gr.stats(x, ["skew", "var"]).var, gr.var(x))


def test_the_order_asked_does_not_change_the_product():
    a, b = (plan_parts("stats", asked, np.dtype("f4"), 0)[0] for asked in (FIVE, FIVE[::-1]))
    assert a == b and hash(a) == hash(b)


# ---- one read


READS: list[object] = []


class Source:
    """An array that counts how often it is read, in this process."""

    dtype, ndim, shape = np.dtype("f4"), 2, (40, 60)

    def __init__(self):
        self.values = np.random.default_rng(0).random(self.shape, "f4")

    def __getitem__(self, key):
        READS.append(key)
        return self.values[key]


def reads_of(call):
    """How many reads a call takes, and what it gives."""
    READS.clear()
    result = call()
    return len(READS), result


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("chunks", [(10, 60), (10, 20), (40, 60)])
def test_chunks_are_read_once(scheduler, axis, chunks):
    source = Source()
    x = da.from_array(source, chunks=chunks, asarray=False) * 2 + 1
    found = gr.stats(x, [*FIVE, "skew", "nanmean"], axis=axis)
    once = x.npartitions
    count, (got,) = reads_of(lambda: dask.compute(found, scheduler=scheduler))
    assert count == once
    np.testing.assert_allclose(got.mean, (source.values * 2 + 1).mean(axis), rtol=1e-6)
    assert reads_of(lambda: found.argmax.compute(scheduler=scheduler))[0] == once
    assert reads_of(lambda: (found.max - found.min).compute(scheduler=scheduler))[0] == once
    count, kept = reads_of(lambda: dask.persist(*found, scheduler=scheduler))
    assert count == once
    assert reads_of(lambda: dask.compute(*kept, [k + 1 for k in kept], scheduler=scheduler))[0] == 0


def test_chunks_are_read_once_on_a_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "dashboard_address": None, "local_directory": tmp_path}
    with (
        local_cluster(1, threads=2, **options) as cluster,
        distributed.Client(cluster),
    ):
        source = Source()
        lazy = da.from_array(source, chunks=(10, 20), asarray=False)
        count, (got,) = reads_of(lambda: dask.compute(gr.stats(lazy, FIVE)))
        assert count == lazy.npartitions
        kept = lazy.persist()
        distributed.wait(kept)
        count, (again,) = reads_of(lambda: dask.compute(gr.stats(kept, FIVE)))
        assert count == 0
        assert tuple(got) == tuple(again) == tuple(dask.compute(gr.stats(source.values, FIVE))[0])


@pytest.mark.parametrize("asked", [[*FIVE, "count"], ["nanmin", "nanargmax", "nanmean", "nanstd", "nancount"]])
def test_no_array_of_the_chunks_size_is_made(asked):
    x = np.random.default_rng(0).random((4096, 4096), "f4")
    whole, _ = plan_parts("stats", asked, x.dtype, 0)
    for axes in ((0, 1), (0,), (1,)):
        host_reduce.reduce((x,), whole, axes)
        tracemalloc.start()
        host_reduce.reduce((x,), whole, axes)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.05 * x.nbytes


# ---- rows of floats, by the loops in C

PLANTED = {
    "nothing": lambda x: None,
    "NaN": lambda x: x.__setitem__((slice(2, 4), slice(20000, None, 3000)), np.nan),
    "infinities": lambda x: x.__setitem__((slice(1, 5), slice(0, 30000, 9000)), [np.inf, -np.inf, np.inf, 1]),
    "ties": lambda x: np.round(x, out=x),
    "far": lambda x: np.add(x, 1e6, out=x),
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("with_loops", [True, False])
def test_long_rows(dtype, planted, with_loops, monkeypatch):
    if with_loops and native.library() is None:
        pytest.skip("no loops were compiled with this installation")
    x = np.random.default_rng(0).normal(size=(6, 40000)).astype(dtype)
    PLANTED[planted](x)
    calls = []
    loops = native.row_summary if with_loops else lambda *_: None
    monkeypatch.setattr(native, "row_summary", lambda *given: calls.append(given) or loops(*given))
    whole, statistics = plan_parts("stats", [*FIVE, "argmin", "sum", "count"], x.dtype, 0)
    for axes, view in (((1,), x), ((0, 1), x), ((1,), x[:, 3:]), ((1,), x[:, ::2])):
        partial = host_reduce.reduce((view,), whole, axes)
        for statistic in statistics:
            bound = statistic.bound
            ours = host_reduce.finalise(cut(partial, bound, statistic.offset), bound)
            alone = host_reduce.finalise(host_reduce.reduce((view,), bound, axes), bound)
            loose = {"mean": 1e-12, "sum": 1e-12, "std": 1e-12}.get(bound.name, 0) * (1e6 if dtype == "f4" else 1)
            np.testing.assert_allclose(ours, alone, rtol=loose, atol=loose, err_msg=bound.name)
    assert calls


# ---- what is asked


def test_a_monoid_of_ones_own_may_stand_among_the_names():
    x = da.from_array(make("f8"), chunks=(5, 31))
    found = gr.stats(x, ["mean", SPAN, LAST], axis=0)
    values = np.asarray(x)
    np.testing.assert_array_equal(found.span, values.max(0) - values.min(0))
    np.testing.assert_array_equal(found.final, values[-1])
    np.testing.assert_array_equal(found.mean, gr.mean(x, axis=0))


def span_lift(x, index):
    return x, x


def span_combine(a, b):
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def span_finalise(state, dtype):
    return state[1] - state[0]


def last_lift(x, index):
    return (x, np.ones(np.shape(x), bool))


def last_combine(a, b):
    return np.where(b[1], b[0], a[0]), a[1] | b[1]


def last_finalise(state, dtype):
    return state[0]


SPAN = gr.Monoid(
    name="span",
    fields={"low": "f8", "high": "f8"},
    identity=(np.inf, -np.inf),
    lift=span_lift,
    combine=span_combine,
    finalise=span_finalise,
)
LAST = gr.Monoid(
    name="final",
    fields={"value": "f8", "seen": "?"},
    identity=(0.0, False),
    lift=last_lift,
    combine=last_combine,
    finalise=last_finalise,
    commutative=False,
)
PAIR = gr.OPERATORS["vdot"]


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (["min", "median"], "'median'.*nancount"),
        (["moment"], "'moment'"),
        (["min", "mean", "min"], "'min' twice"),
        ([], "list of one or more operators"),
        ("min", "list of one or more operators"),
        ([PAIR], "'vdot'"),
        ([gr.Monoid(**{**vars(SPAN), "name": "lambda"})], "name that a field can have"),
        ([3], "no statistic '3'"),
    ],
)
def test_what_cannot_be_asked(asked, what):
    with pytest.raises(errors.ArgumentError, match=what):
        gr.stats(da.ones((4, 4)), asked)


def test_each_of_the_names_listed_may_be_asked_for():
    x = da.from_array(np.abs(make("f8")), chunks=9)
    assert len(gr.stats(x, known_names())) == len(known_names())


def test_elements_without_a_meaning_are_refused_by_the_statistic():
    with pytest.raises(errors.DtypeError, match=r"^stats by skew: dtype complex128"):
        gr.stats(da.ones(3, dtype="c16"), ["mean", "skew"])
    with pytest.raises(errors.DtypeError, match=r"^stats by min: dtype object"):
        gr.stats(da.from_array(np.array([1, "a"], object), chunks=1), ["min"])
    with pytest.raises(errors.DtypeError, match="MaskedArray"):
        gr.stats(da.ma.masked_array(da.ones(3), [0, 1, 0]), ["min"])


def test_states_that_no_kernel_keeps_are_refused_when_the_graph_is_built():
    x = da.ones((4, 4), chunks=2).map_blocks(np.asarray, meta=gr.device_meta(2, "f8"))
    assert len(gr.stats(x, [*FIVE, "skew", "nanmean", "nanstd"])) == 8
    with pytest.raises(errors.ArgumentError, match=r"states take \d+ bytes.*at most 192 on a GPU.*second call"):
        gr.stats(x, known_names())


def test_empty_slices():
    with pytest.raises(errors.EmptyError):
        gr.stats(da.ones((0, 3)), ["mean", "min"], axis=0)
    found = dask.compute(gr.stats(da.ones((0, 3)), ["sum", "count", "mean"], axis=0))[0]
    np.testing.assert_array_equal(found.sum, [0, 0, 0])
    np.testing.assert_array_equal(found.count, [0, 0, 0])
    assert np.isnan(found.mean).all()
    x = da.from_array(np.full((4, 6), np.nan), chunks=3)
    found = gr.stats(x, ["nanargmin", "max"], axis=0)
    assert np.isnan(found.max.compute()).all()
    with pytest.raises(errors.EmptyError, match="All-NaN"):
        found.nanargmin.compute()


def test_unknown_chunks():
    x = da.from_array(make("f8"), chunks=(5, 31))
    some = x[da.from_array(np.arange(23) % 2 == 0, chunks=5)]
    np.testing.assert_array_equal(gr.stats(some, ["mean", "max"], axis=0).max, np.asarray(x)[::2].max(0))
    with pytest.raises(errors.ArgumentError, match="compute_chunk_sizes"):
        gr.stats(some, ["mean", "argmax"], axis=1 if some.numblocks[1] > 1 else None)


def test_ddof_and_split_every():
    x = da.from_array(make("i4"), chunks=(3, 4))
    found = gr.stats(x, ["std", "nanvar", "mean"], axis=1, ddof=1, split_every=2)
    np.testing.assert_array_equal(found.std, gr.std(x, axis=1, ddof=1, split_every=2))
    np.testing.assert_array_equal(found.nanvar, gr.nanvar(x, axis=1, ddof=1, split_every=2))
    with pytest.raises(errors.ArgumentError, match="split_every"):
        gr.stats(x, ["mean"], split_every=1)


def test_many_small_chunks_keep_their_positions():
    x = da.from_array(make("f4", shape=(64, 48)), chunks=(8, 8)).persist(scheduler="sync")
    for axis in (None, 0, 1):
        found = gr.stats(x, ["argmin", "argmax", "nanargmax", "mean"], axis=axis)
        got, want = dask.compute(found, [single(n, x, axis=axis) for n in found._fields])
        for name, mine, theirs in zip(found._fields, got, want, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_pickles_and_keys():
    x = da.from_array(make("i4"), chunks=9)
    found = gr.stats(x, FIVE)
    whole, statistics = plan_parts("stats", FIVE, np.dtype("f4"), 0)
    again = pickle.loads(pickle.dumps(whole))
    assert isinstance(again, Product) and again == whole and again.state == whole.state
    assert pickle.loads(pickle.dumps(statistics)) == statistics
    got = dask.compute(found)[0]
    assert pickle.loads(pickle.dumps(got)) == got and type(got).__name__ == "Statistics"
    assert [a.name for a in found] == [a.name for a in gr.stats(x, FIVE)]
    assert found.mean.name.startswith("gr-mean-") and found.mean.name != gr.mean(x).name
    assert found.std.name != gr.stats(x, FIVE, ddof=1).std.name
    assert tuple(dask.compute(pickle.loads(pickle.dumps(found)))[0]) == tuple(got)


def test_states_lie_as_structs_nest():
    """One after another behind gaps that the compiler leaves too: (f4, i8), (f4), (f8, i8)."""
    whole, statistics = plan_parts("stats", ["argmax", "min", "mean"], np.dtype("f4"), 0)
    assert [part.name for part in whole.parts] == ["argmax", "mean", "min"]
    assert whole.offsets == (0, 16, 32) and whole.state.itemsize == 40 and whole.state.isalignedstruct
    unsorted = product("p", (gr.OPERATORS["min"].bind("f4"), gr.OPERATORS["any"].bind("f4"), whole.parts[1]))
    assert (
        unsorted.offsets == (0, 8, 16) and unsorted.state.itemsize == 32
    )  # the flag begins the rest, which is aligned
    x = np.random.default_rng(0).random((3, 50), "f4")
    partial = host_reduce.reduce((x,), whole, (1,))
    for statistic in statistics:
        alone = host_reduce.reduce((x,), statistic.bound, (1,))
        np.testing.assert_array_equal(cut(partial, statistic.bound, statistic.offset), alone)


def test_the_laws_of_a_product():
    whole, _ = plan_parts("stats", ["sum", "argmin", "std", "nancount"], np.dtype("f8"), 0)
    x = np.random.default_rng(0).integers(0, 9, (3, 40)).astype("f8")
    a, b, c = (whole.pack(whole.monoid.lift(row, np.arange(40) + 40 * i)) for i, row in enumerate(x))
    left = host_reduce.combine([host_reduce.combine([a, b], whole), c], whole)
    right = host_reduce.combine([a, host_reduce.combine([b, c], whole)], whole)
    for name, _ in whole.fields:
        np.testing.assert_allclose(left[name], right[name], rtol=1e-14, atol=1e-14, err_msg=name)
    np.testing.assert_array_equal(host_reduce.combine([whole.identities((40,)), a], whole), a)
    np.testing.assert_array_equal(host_reduce.combine([a, whole.identities((40,))], whole), a)


def test_a_plan_of_several():
    x = da.from_array(make("f4", shape=(60, 60)), chunks=10)
    one, several = gr.plan(x, "mean"), gr.plan(x, ["mean", "std", "max"])
    assert several.tasks == one.tasks + 3 and several.read_bytes == one.read_bytes == x.nbytes
    assert repr(several).startswith("plan of stats, axis=None")
    with pytest.raises(errors.ArgumentError, match="'median'"):
        gr.plan(x, ["median"])


# ---- scans


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_scans_by_several_operators(axis):
    x = da.from_array(Source(), chunks=(10, 20), asarray=False) * 2
    found = gr.scan(x, ["sum", "max", SPAN], axis=axis, reverse=True)
    assert found._fields == ("sum", "max", "span")
    count, (got,) = reads_of(lambda: dask.compute(found))
    assert count == x.npartitions
    for name, operator in zip(found._fields, ["sum", "max", SPAN], strict=True):
        np.testing.assert_array_equal(getattr(got, name), gr.scan(x, operator, axis=axis, reverse=True))


def test_scans_that_cannot_be_asked():
    x = da.ones(4, chunks=2)
    with pytest.raises(errors.ArgumentError, match="'sum' twice"):
        gr.scan(x, ["sum", "sum"])
    with pytest.raises(errors.ArgumentError, match="out= for several"):
        gr.scan(x, ["sum", "max"], out=x)
    with pytest.raises(errors.OperatorError, match="'median'"):
        gr.scan(x, ["sum", "median"])


@pytest.mark.parametrize("group", [None, 3])
@pytest.mark.parametrize("known", [True, False])
def test_positions_beside_operators_that_keep_order_count_in_the_whole_array(group, known):
    a = np.random.default_rng(5).integers(0, 9, (6, 5, 4))
    x = da.from_array(a, chunks=((6,), (2, 3), (1, 3)))
    if not known:
        x._chunks = ((np.nan,), *x.chunks[1:])
    want = gr.stats(a, ["argmin", "argmax", "last"], axis=(0, 1))
    flat = a.transpose(2, 0, 1).reshape(4, -1)
    with dask.config.set({"gpureduce.group": group}):
        for ops in (["last", "argmin", "argmax"], ["argmax", "first", "argmin"]):
            found = gr.stats(x, ops, axis=(0, 1))
            for name in ("argmin", "argmax"):
                np.testing.assert_array_equal(getattr(found, name), getattr(flat, name)(1))
        all_axes = gr.stats(x, ["last", "nanargmax"])
        assert dask.compute(*all_axes) == (a[-1, -1, -1], a.argmax())
    np.testing.assert_array_equal(want.last, a[-1, -1])
