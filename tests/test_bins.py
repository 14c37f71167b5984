"""Groups of elements beside a loop over the groups: operators, dtypes, axes, chunks, errors, and counts of reads."""

import itertools
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask import chunk, errors
from gpureduce_dask.host import groups as host_groups
from gpureduce_dask.operators.grouped import Binned, Bins, Labels, binned
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.place import Place
from tests import strategies
from tests.strategies import CASES, case_id, rows_of, values

AFFINE = OPERATORS["affine"]
FILL = 1


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore")
        yield


def by_loop(row, x, labels, axes, count, fill=FILL, **options):
    """Each group's elements brought together, and reduced alone."""
    arrays = x if isinstance(x, tuple) else (x,)
    rows = [rows_of(a, axes) for a in arrays]
    bound = row.with_options(**options).bind(*(a.dtype for a in arrays))
    found = []
    for group in range(count):
        (where,) = np.nonzero(labels.reshape(-1) == group)
        mine = tuple(r[..., where] for r in rows)
        cells = rows[0].shape[:-1]
        if not where.size and row.empty == "raise":
            found.append(np.full(cells, fill, bound.result))
            continue
        result = chunk.results(mine, bound, (mine[0].ndim - 1,))[..., 0]
        if row.name.startswith(("arg", "nanarg")):
            result = where[result]
        found.append(result)
    return np.stack(found, -1)


def alike(got, expected):
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.kind in "fc" or got.dtype.kind == "V":
        got, expected = (a.astype("c16" if a.dtype.kind == "c" else "f8") for a in (got, expected))
        digits = {1: 1e-1, 2: 2e-2}.get(expected.itemsize, 2e-3)
        np.testing.assert_allclose(got, expected, rtol=digits, atol=1e-2)
    else:
        np.testing.assert_array_equal(got, expected)


def answers(row, dtype):
    """nanarg operators refuse a group of nothing but NaN."""
    return values((6, 9), dtype, special=not row.name.startswith("nanarg"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].name}-{case_id(c[1])}")
def test_every_operator_and_dtype(case):
    row, dtype = case
    x = answers(row, dtype)
    labels = np.random.default_rng(1).integers(-1, 3, x.shape)
    got = gr.grouped(da.from_array(x, chunks=(4, 4)), labels, row, num_groups=4, fill_value=FILL).compute()
    alike(got, by_loop(row, x, labels, (0, 1), 4))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "min", "argmax", "first", "last", "any", "nanmax", "kurtosis"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_axes_and_kinds_of_labels(name, axes):
    x = values((5, 6, 7), "f4", 3, special=False)
    labels = np.random.default_rng(2).integers(-1, 4, [x.shape[a] for a in axes])
    expected = by_loop(OPERATORS[name], x, labels, axes, 5)
    for chunks, lazy in itertools.product([(2, 3, 3), (5, 6, 7)], [False, True]):
        mine = da.from_array(labels, chunks=3) if lazy else labels
        d = da.from_array(x, chunks=chunks)
        alike(gr.grouped(d, mine, name, axes, 5, fill_value=FILL).compute(), expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_layout_and_chunks(data):
    row = data.draw(st.sampled_from([r for r in strategies.SINGLE if not r.name.startswith("nanarg")]))
    dtype = data.draw(st.sampled_from([d for d in strategies.DTYPES if strategies.takes(row, d)]))
    x, axes = data.draw(strategies.layouts_of(dtype, least=1))
    count = data.draw(st.integers(1, 9))
    labels = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-1, count, [x.shape[a] for a in axes])
    chunks = tuple(data.draw(st.integers(1, n)) for n in x.shape)
    got = gr.grouped(da.from_array(x, chunks=chunks), labels, row, axes, count, fill_value=FILL).compute()
    expected = by_loop(row, x.astype(dtype), labels, axes, count)
    if row.name.endswith("prod") and got.dtype.kind == "c":
        # An infinite number times one with a part of zero has a part of NaN, times another none: chunks decide.
        vague = ~np.isfinite(expected)
        assert np.array_equal(vague, ~np.isfinite(got))
        got, expected = np.where(vague, 0, got), np.where(vague, 0, expected)
    alike(got, expected)


def affine_values():
    rng = np.random.default_rng(4)
    return rng.integers(-2, 3, (7, 8, 3)), rng.integers(-2, 3, (7, 8, 3))


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1,), (0, 1, 2)])
def test_order_is_that_of_c_whatever_the_chunks(axes):
    x = affine_values()
    labels = np.random.default_rng(5).integers(-1, 3, [x[0].shape[a] for a in axes])
    expected = by_loop(AFFINE, x, labels, axes, 3)
    for chunks, lazy in itertools.product([(2, 3, 2), (7, 2, 3)], [False, True]):
        d = tuple(da.from_array(a, chunks=chunks) for a in x)
        mine = da.from_array(labels, chunks=2) if lazy else labels
        np.testing.assert_array_equal(gr.grouped(d, mine, AFFINE, axes, 3).compute(), expected)


def test_boxes_are_numbered_in_c_order():
    x = values((4, 8, 9), "f8", special=False)
    rows, columns = np.array([0, 0, 1, -1, 2, 2, 2, 0]), np.array([1, 1, 0, 0, 0, 3, 3, -1, 2])
    flat = np.where((rows[:, None] < 0) | (columns < 0), -1, rows[:, None] * 4 + columns)
    expected = by_loop(OPERATORS["sum"], x, flat, (1, 2), 12)
    for lazy in (False, True):
        lines = (rows, da.from_array(columns, chunks=4)) if lazy else (rows, columns)
        got = gr.grouped(da.from_array(x, chunks=(2, 3, 5)), lines, "sum", (1, 2), (3, 4))
        assert got.chunks == ((2, 2), (12,))
        alike(got.compute(), expected)
    hottest = gr.grouped(da.from_array(x[0], chunks=(3, 5)), (rows, columns), "argmax", fill_value=-1).compute()
    np.testing.assert_array_equal(hottest, by_loop(OPERATORS["argmax"], x[0], flat, (0, 1), 12, -1))


@pytest.mark.parametrize("name", ["sum", "min", "var", "last", "affine"])
def test_boxes_and_runs_that_are_folded_where_they_lie(name, monkeypatch):
    monkeypatch.setattr(host_groups, "RUN", 64)
    row = OPERATORS[name]
    x = tuple(np.random.default_rng(16 + i).integers(-1, 2, (4, 3, 6, 400)) for i in range(row.arity))
    lines = np.array([1, 0, 0]), np.array([0, -1, 1, 1, 2, 0]), np.repeat([0, 1, -1, 2, 0], 80)
    flat, counts = np.zeros((3, 6, 400), int), (2, 3, 3)
    for axis, (line, count) in enumerate(zip(lines, counts, strict=True)):
        mine = np.expand_dims(line, [a for a in range(3) if a != axis])
        flat = np.where((flat < 0) | (mine < 0), -1, flat * count + mine)
    d = tuple(da.from_array(a, chunks=(2, 2, 4, 300)) for a in x)
    given = d if row.arity > 1 else d[0]
    if row.commutative:
        alike(gr.grouped(given, lines, row, (1, 2, 3)).compute(), by_loop(row, x, flat, (1, 2, 3), 18))
    got = gr.grouped(given, lines[2], row, 3).compute()
    alike(got, by_loop(row, x, lines[2], (3,), 3))
    whole = x if row.arity > 1 else x[0]
    alike(gr.grouped(whole, lines, row, (1, 2, 3)).compute(), by_loop(row, x, flat, (1, 2, 3), 18))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "ptp", "any", "count_nonzero", "argmax"])
def test_the_last_strip_of_wide_rows_may_be_narrow(name):
    x = np.random.default_rng(7).integers(-2, 3, (12, host_groups.STRIP + 3))
    labels = np.arange(12) % 4
    got = gr.grouped(da.from_array(x, chunks=(6, -1)), labels, name, axis=0).compute()
    alike(got, by_loop(OPERATORS[name], (x,), labels, (0,), 4))


@pytest.mark.parametrize("name", ["sum", "std", "argmax", "last"])
def test_short_runs_of_wide_rows_are_brought_together(name, monkeypatch):
    """Each row a run of its own: not one fold a row, and cells side by side in strips."""
    folded = []
    monkeypatch.setattr(host_groups, "reduce", lambda *given: folded.append(given))
    x = np.random.default_rng(6).integers(-9, 9, (24, 9_000)).astype("f4")
    x[5, ::3] = np.nan
    labels = np.arange(24) % 4
    got = gr.grouped(da.from_array(x, chunks=-1), labels, name, axis=0).compute(scheduler="sync")
    rows = [x[g::4] for g in range(4)]
    expected = {
        "sum": lambda r, g: r.sum(0),
        "std": lambda r, g: r.std(0),
        "argmax": lambda r, g: np.argmax(r, 0) * 4 + g,
        "last": lambda r, g: np.where(np.isnan(r[-1]), r[-2], r[-1]),
    }[name]
    np.testing.assert_allclose(
        got, np.stack([expected(r, g) for g, r in enumerate(rows)], axis=-1), rtol=1e-6, atol=1e-6
    )
    assert not folded


@pytest.mark.parametrize("name", ["sum", "nanmean", "var", "max", "argmax", "first", "any", "affine"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_neighbours_of_few_elements_a_state_are_reduced_as_one(name, axis, monkeypatch):
    """In blocks of some cells; where positions matter, up to the next gap."""
    panels, row = [], OPERATORS[name]
    panel = host_groups._panel
    monkeypatch.setattr(host_groups, "_panel", lambda *given: panels.append(given) or panel(*given))
    x = tuple(np.random.default_rng(8 + i).integers(-9, 9, (12, 12, 12)).astype("f4") for i in range(row.arity))
    labels = np.random.default_rng(9).integers(-1, 5, 12)
    expected = by_loop(row, x, labels, (axis,), 5)
    d = tuple(da.from_array(a, chunks=tuple(3 if a == axis else 12 for a in range(3))) for a in x)

    persisted, made = dask.persist(*d), tuple(a.map_blocks(np.copy) for a in d)

    def count(d=persisted, size=None):
        panels.clear()
        given = d if row.arity > 1 else d[0]
        got = gr.grouped(given, labels, row, axis, 5, fill_value=FILL, split_every=size)
        alike(got.compute(), expected)
        return len(panels)

    assert count() == 1
    assert count(made, 8) == (1 if row.commutative else 4)
    monkeypatch.setattr(host_groups, "TALL", 6)
    assert count() == 2
    monkeypatch.setattr(host_groups, "JOINED", 5 * 12 * 4)
    assert count() == 2 * 3
    monkeypatch.setattr(host_groups, "MANY", 0)
    assert count() == 4


@pytest.mark.parametrize(("name", "panels"), [("sum", 1), ("argmax", 2)])
def test_neighbours_with_a_gap_are_apart_where_positions_matter(name, panels, monkeypatch):
    folded, panel = [], host_groups._panel
    monkeypatch.setattr(host_groups, "_panel", lambda *given: folded.append(given) or panel(*given))
    x, labels = values((12, 5), "f4"), np.arange(12) % 3
    bound = binned(OPERATORS[name].bind(x.dtype), Bins("grouped", (3,), (0,), Labels([labels])), FILL)
    places = [Place((start, 0), x.shape) for start in (0, 3, 9)]
    partial = chunk.reduce_many([(x[p.offsets[0] :][:3],) for p in places], bound, (0,), places)
    labels[6:9] = -1
    alike(chunk.finalise(partial, bound)[0], by_loop(OPERATORS[name], x, labels, (0,), 3))
    assert len(folded) == panels


@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "last"])
def test_labels_along_one_of_several_axes_travel_as_they_are(name):
    """As months of a reduction over time and space: not as one label an element of space."""
    x, labels = values((20, 3, 4), "f8"), np.random.default_rng(3).integers(-1, 4, 20)
    whole = np.broadcast_to(labels[:, None, None], x.shape)
    got = gr.grouped(da.from_array(x, chunks=(7, 2, 4)), labels[:, None, None], name, num_groups=5, fill_value=FILL)
    alike(got.compute(), by_loop(OPERATORS[name], x, whole, (0, 1, 2), 5))
    known = next(a.bins.known for a in bounds_of(got) if isinstance(a, Binned))
    assert sum(line.size for line in known.arrays) == sum(x.shape)


COUNTED = [
    *(("mean", t, None) for t in ("f4", "f8", "c8", "c16", "?", "i1", "u4", "i8", "u8", "m8[s]", "f2")),
    *(("mean", "i4", t) for t in ("f4", "i2", "c16")),
    *(("mean", "f4", t) for t in ("f2", "f8", "i8")),
    *(("nanmean", t, None) for t in ("i2", "f4")),
    *((name, "f4", None) for name in ("max", "argmin", "first", "ptp", "nanmin")),
]


@pytest.mark.parametrize("lines", [False, True], ids=["an element", "an axis"])
@pytest.mark.parametrize(("name", "dtype", "result"), COUNTED, ids=str)
def test_what_labels_tell_is_not_counted(name, dtype, result, lines):
    """The same answers as where labels come with the chunks; a group is empty, and some elements are in none."""
    x, rng = values((14, 5, 6), dtype, special=name == "mean"), np.random.default_rng(11)
    labels, count = rng.integers(-1, 4, (14, 6)), 5
    if lines:
        labels, count = (rng.integers(-1, 4, 14), rng.integers(-1, 2, 6)), (5, 3)
    array = da.from_array(x, chunks=(5, 2, 4))
    lazy = tuple(map(da.from_array, labels)) if lines else da.from_array(labels, chunks=5)
    options = {"axis": (0, 2), "num_groups": count, "fill_value": FILL, "dtype": result}
    known, counted = (gr.grouped(array, each, name, **options) for each in (labels, lazy))
    got, wanted = known.compute(), counted.compute()
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    mine, theirs = (next(b for b in bounds_of(a) if isinstance(b, Binned)) for a in (known, counted))
    as_floats = dtype in ("i8", "u8") or result == "i8" or (name, dtype) == ("nanmean", "f4")
    assert mine.state.itemsize <= theirs.state.itemsize - 8 * (not as_floats)


def test_a_mean_is_no_sum():
    """Though its partials are: their keys differ, and so do those of results of other dtypes."""
    calls = [("sum", None), ("mean", None), ("mean", "f8")]
    array, labels = da.ones((6, 4), chunks=3, dtype="f4"), np.arange(6) % 2
    assert len({gr.grouped(array, labels, op, 0, dtype=dtype).name for op, dtype in calls}) == 3
    both = dask.compute(*(gr.grouped(array, labels, op, 0) for op in ("sum", "mean")))
    assert [each.tolist() for each in both] == [[[3.0] * 2] * 4, [[1.0] * 2] * 4]


@pytest.mark.parametrize("groups", [3, 700])
def test_means_are_divided_some_cells_at_a_time(groups, monkeypatch):
    monkeypatch.setattr(host_groups, "JOINED", 100)
    x, labels = values((900, 7), "f4", special=False), np.arange(900) % groups
    got = gr.grouped(da.from_array(x, chunks=(300, 4)), labels, "mean", 0, groups).compute()
    alike(got, by_loop(OPERATORS["mean"], x, labels, (0,), groups))


def bounds_of(array):
    """What the partials of a graph are bound to."""
    for task in dict(array.dask).values():
        yield from getattr(getattr(task, "func", None), "keywords", {}).values()


def test_labels_broadcast_to_the_reduced_axes():
    x = values((5, 6), "i4")
    labels = np.array([0, 1, 1, 2, 0, -1])
    alike(gr.grouped(x, labels, "sum").compute(), by_loop(OPERATORS["sum"], x, np.tile(labels, (5, 1)), (0, 1), 3))
    lazy = da.from_array(labels, chunks=4)
    alike(gr.grouped(x, lazy, "sum", num_groups=3).compute(), gr.grouped(x, labels, "sum").compute())


def test_weights_and_options():
    x, w = values((5, 6), "f4", special=False), np.abs(values((5, 6), "f4", 7, special=False)) + 1
    labels = np.random.default_rng(8).integers(0, 3, (5, 6))
    expected = [np.average(x[labels == k], weights=w[labels == k]) for k in range(3)]
    np.testing.assert_allclose(gr.grouped((x, w), labels, "average").compute(), expected, rtol=1e-6)
    expected = [x[labels == k].var(ddof=1) for k in range(3)]
    np.testing.assert_allclose(gr.grouped(x, labels, "var", ddof=1).compute(), expected, rtol=1e-6)
    assert gr.grouped(x, labels, "sum", dtype="f8").dtype == "f8"


def test_many_elements_panels_and_pieces():
    """More than a panel, groups of one element and of many, labels sorted and not."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=200_000)
    for labels in (rng.integers(0, 3, x.size), rng.integers(0, 150_000, x.size), np.sort(rng.integers(-2, 50, x.size))):
        count = labels.max() + 1
        d = da.from_array(x, chunks=130_000)
        expected = np.bincount(labels[labels >= 0], x[labels >= 0], count)
        np.testing.assert_allclose(gr.grouped(d, labels, "sum", num_groups=count).compute(), expected, atol=1e-10)
        sizes = np.bincount(labels[labels >= 0], minlength=count)
        spread = np.bincount(labels[labels >= 0], x[labels >= 0] ** 2, count) / sizes - (expected / sizes) ** 2
        np.testing.assert_allclose(gr.grouped(d, labels, "var", num_groups=count).compute(), spread, atol=1e-10)
    wide = rng.normal(size=(300, 1000))
    month = np.arange(300) % 12
    expected = np.stack([wide[month == m].max(0) for m in range(12)], -1)
    np.testing.assert_array_equal(
        gr.grouped(da.from_array(wide, chunks=(100, 400)), month, "max", 0).compute(), expected
    )


def test_sums_of_float64_keep_their_rounding_errors():
    x = np.ones(200_000)
    x[0], x[1:100_000] = 2.0**53, 0  # a plain sum loses each of the ones behind it
    got = gr.grouped(x, np.zeros(x.size, int), "sum").compute()
    assert got[0] == 2.0**53 + 100_000


def test_the_same_bits_on_every_run():
    rng = np.random.default_rng(11)
    x, labels = rng.normal(size=100_000).astype("f4"), rng.integers(0, 40, 100_000)
    d = da.from_array(x, chunks=9_000)
    with dask.config.set(scheduler="threads"):
        runs = {gr.grouped(d, labels, op).compute().tobytes() for op in ["var"] * 5}
    assert len(runs) == 1


def test_x_is_read_once():
    read = []

    def make(block_info=None):
        read.append(block_info[None]["chunk-location"])
        return np.ones(block_info[None]["chunk-shape"], "f4")

    x = da.map_blocks(make, chunks=((3,) * 5, (4,) * 2), dtype="f4", meta=np.empty((0, 0), "f4"))
    for op, labels in (("max", np.arange(15) % 4), ("var", da.arange(15, chunks=15) % 4)):
        read.clear()
        gr.grouped(x, labels, op, 0, 4).compute()
        assert sorted(read) == list(itertools.product(range(5), range(2)))


def test_few_tasks_for_persisted_chunks():
    x = da.ones((64, 50), chunks=(1, 50), dtype="f4").persist()
    total = gr.grouped(x, np.arange(64) % 3, "sum", 0)
    assert len(total.__dask_graph__().layers[total.name]) < 16
    np.testing.assert_array_equal(total.compute()[0], [22, 21, 21])


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: gr.grouped(x, np.arange(6), "sum", 1, 4), errors.ArgumentError, "label 5; expected labels below 4"),
        (lambda x: gr.grouped(x, np.ones(6), "sum", 1), errors.DtypeError, "integers"),
        (lambda x: gr.grouped(x, np.arange(5), "sum", 1), errors.ArgumentError, "broadcast"),
        (lambda x: gr.grouped(x, da.arange(6), "sum", 1), errors.ArgumentError, "num_groups="),
        (lambda x: gr.grouped(x, np.arange(6), "sum", 1, 0), errors.ArgumentError, "1 or more"),
        (lambda x: gr.grouped(x, np.arange(6), "sum", 1, True), errors.ArgumentError, "num_groups True"),
        (lambda x: gr.grouped(x, -np.ones(6, int), "sum", 1), errors.ArgumentError, "at least one group"),
        (lambda x: gr.grouped(x, (np.arange(6),), "sum"), errors.ArgumentError, "one a reduced axis"),
        (lambda x: gr.grouped(x, (np.arange(6), np.arange(6)), "sum"), errors.ArgumentError, r"shape \(5,\)"),
        (lambda x: gr.grouped(x, np.arange(6) * 2, "max", 1), errors.EmptyError, "5 of 11 groups"),
        (lambda x: gr.grouped(x, np.arange(6), "median", 1), errors.OperatorError, "median"),
        (lambda x: gr.grouped(x, np.arange(6), "average", 1), errors.ArgumentError, "a tuple of 2 arrays"),
        (lambda x: gr.bincount(x), errors.ArgumentError, "one dimension"),
        (lambda x: gr.bincount(x[0] / 2, minlength=9), errors.DtypeError, "integers"),
        (lambda x: gr.histogram(x), errors.ArgumentError, "a number of bins and a range"),
        (lambda x: gr.histogram(x, 3, (5, 1)), errors.ArgumentError, "max must be larger"),
        (lambda x: gr.histogram(x, [3, 1]), errors.ArgumentError, "increase"),
        (lambda x: gr.histogram(x, 3, (0, 1), normed=True), errors.ArgumentError, "density="),
        (lambda x: gr.histogram(x, 3, (0, 1), weights=x[0]), errors.ArgumentError, "weights of shape"),
    ],
)
def test_errors_when_the_graph_is_built(call, error, text):
    with pytest.raises(error, match=text):
        call(da.ones((5, 6), chunks=3, dtype="i4"))


@pytest.mark.parametrize(
    "result, error, text",
    [
        (lambda x: gr.grouped(x, x, "sum", num_groups=9), errors.ArgumentError, "label 9; expected labels below 9"),
        (lambda x: gr.grouped(x, x * 2, "min", num_groups=20), errors.EmptyError, "10 of 20 groups"),
        (lambda x: gr.bincount(x, minlength=9), errors.ArgumentError, "label 9"),
        (lambda x: gr.bincount(x - 1, minlength=9), errors.ArgumentError, "negative"),
        (
            lambda x: gr.grouped(x, (da.where(x < 9, x, 12),), "sum", None, (10,)),
            errors.ArgumentError,
            "label 12",
        ),
    ],
)
def test_errors_when_labels_are_computed(result, error, text):
    found = result(da.arange(10, chunks=4))
    with pytest.raises(error, match=text):
        found.compute()


def test_groups_without_elements():
    x = da.from_array(np.array([3.0, 1.0, 2.0]), chunks=2)
    for labels in (np.array([0, 2, 2]), da.from_array(np.array([0, 2, 2]), chunks=2)):
        sums, means = gr.grouped(x, labels, "sum", num_groups=4), gr.grouped(x, labels, "mean", num_groups=4)
        np.testing.assert_array_equal(sums.compute(), [3, 0, 3, 0])
        np.testing.assert_array_equal(means.compute(), [3, np.nan, 1.5, np.nan])
        least = gr.grouped(x, labels, "argmin", num_groups=4, fill_value=-1)
        np.testing.assert_array_equal(least.compute(), [0, -1, 1, -1])
    empty = gr.grouped(da.ones((0, 3), chunks=2), np.empty(0, int), "sum", 0, num_groups=2)
    np.testing.assert_array_equal(empty.compute(), np.zeros((3, 2)))


def test_unknown_chunk_sizes():
    x = da.arange(20, chunks=6)
    some, labels = x[x % 2 == 0], (x % 3)[x % 2 == 0]
    expected = np.bincount(np.arange(0, 20, 2) % 3, np.arange(0, 20, 2))
    np.testing.assert_array_equal(gr.grouped(some, labels, "sum", num_groups=3).compute(), expected)
    with pytest.raises(errors.ArgumentError, match="unknown chunk sizes"):
        gr.grouped(some, np.arange(10) % 3, "sum")


# ---- counts and histograms


@pytest.mark.parametrize("dtype", ["u1", "i8", "?"])
def test_bincount(dtype):
    x = values(1000, dtype, 12) if dtype != "i8" else np.abs(values(1000, dtype, 12))
    d, w = da.from_array(x, chunks=170), values(1000, "f4", 13, special=False)
    got = gr.bincount(d, minlength=300)
    assert got.chunks == ((300,),)
    alike(got.compute(), np.bincount(x, minlength=300))
    alike(gr.bincount(x).compute(), np.bincount(x))
    alike(gr.bincount(d).compute(), np.bincount(x))  # its length is known by data alone
    alike(gr.bincount(d, da.from_array(w, chunks=99), 300).compute(), np.bincount(x, w, 300))
    assert gr.bincount(np.array([], int)).compute().shape == (0,)


EDGES = [(10, (0, 10)), (7, (1.1, 9.3)), ([0, 1, 2.5, 5, 9], None), (np.linspace(0, 10, 23), None), ([0, 3, 9], (2, 5))]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i4"])
def test_histogram_is_that_of_numpy(dtype):
    x = (np.random.default_rng(14).normal(size=(90, 70)) * 3 + 5).round(1).astype(dtype)
    if x.dtype.kind == "f":
        x[0, :3] = np.nan, np.inf, -np.inf
    d, w = da.from_array(x, chunks=(40, 31)), np.random.default_rng(15).random(x.shape)
    for bins, span in EDGES:
        for density in (False, True):
            got, edges = gr.histogram(d, bins, span, density=density)
            expected, expected_edges = np.histogram(x, bins, span, density=density)
            np.testing.assert_array_equal(edges, expected_edges)
            alike(got.compute(), expected)
        got, _ = gr.histogram(d, bins, span, weights=da.from_array(w, chunks=d.chunks))
        alike(got.compute(), np.histogram(x, bins, span, weights=w)[0])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_edges_decide(data):
    """Elements at the edges themselves, and one rounding beside them."""
    bins, low = data.draw(st.integers(1, 40)), data.draw(st.floats(-5, 5, width=32))
    high = low + data.draw(st.floats(0.0078125, 9, width=32))
    dtype = data.draw(st.sampled_from(["f4", "f8"]))
    edges = np.histogram_bin_edges(np.empty(0, dtype), bins, (low, high)).astype(dtype)
    x = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]).astype(dtype)
    np.testing.assert_array_equal(
        gr.histogram(x, bins, (low, high))[0].compute(), np.histogram(x, bins, (low, high))[0]
    )


def test_a_histogram_reads_once_and_takes_one_task_a_group():
    x = da.random.default_rng(0).normal(size=4000, chunks=500)
    counts, _ = gr.histogram(x, 20, (-3, 3))
    graph = counts.__dask_optimize__(counts.__dask_graph__(), counts.__dask_keys__())
    assert not any("codes" in str(key) for key in graph)


@pytest.mark.parametrize("kind", ["?", "u1", "u2", "u4", "u8", "i1", "i8"])
def test_labels_of_every_integer_dtype(kind):
    labels = (np.arange(12) % 2).astype(kind)
    for each in (labels, da.from_array(labels, chunks=5), (labels,)):
        found = gr.grouped(da.arange(12, chunks=4), each, "max", num_groups=2)
        np.testing.assert_array_equal(found, [10, 11])


@pytest.mark.parametrize("op", ["first", "last"])
def test_chunks_without_elements_of_operators_that_keep_order(op):
    a = np.arange(36).reshape(6, 6)
    x = da.from_array(a, chunks=((3, 2, 0, 1), (0, 4, 2)))
    half = np.arange(6) // 3
    found = gr.grouped(x, half[:, None] * 2 + half, op)
    np.testing.assert_array_equal(found, a[::3, ::3].ravel() + (14 if op == "last" else 0))


def test_densities_of_float32_by_weights_of_float32_are_numpys():
    a = np.linspace(0, 1, 9, dtype="f4")
    found, _ = gr.histogram(da.from_array(a, chunks=4), 3, (0, 1), weights=da.from_array(a, chunks=4), density=True)
    want, _ = np.histogram(a, 3, (0, 1), weights=a, density=True)
    assert found.dtype == want.dtype == np.float64
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize(("op", "dtype", "value"), [("max", "i8", np.nan), ("argmax", "f8", 0.5), ("min", "u1", 300)])
def test_fill_values_that_results_do_not_hold_are_refused(op, dtype, value):
    with pytest.raises(errors.ArgumentError, match="fill_value"):
        gr.grouped(np.arange(4).astype(dtype), [0, 1, 0, 1], op, num_groups=3, fill_value=value)
