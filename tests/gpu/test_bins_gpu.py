"""On a GPU: groups of every size against the host's answers, bits, errors and counts."""

from __future__ import annotations

import itertools
import math

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")

OPS = ["sum", "mean", "var", "argmax", "min", "any", "nanmax", "first"]


@pytest.fixture(autouse=True)
def alone():
    with dask.config.set(scheduler="sync"):
        yield


def both(x, labels, op, axis, count, chunks, **options):
    """Our answer for CuPy and for NumPy chunks."""
    lazy = isinstance(labels, str)
    made = np.random.default_rng(1).integers(-1, count, [x.shape[a] for a in axis])
    host, found = da.from_array(x, chunks=chunks), []
    for d in (host.map_blocks(cp.asarray), host):
        mine = made
        if lazy:
            mine = da.from_array(made.astype(labels), chunks=[d.chunks[a] for a in axis])
            mine = mine.map_blocks(cp.asarray) if d is not host else mine
        result = gr.grouped(d, mine, op, axis, count, fill_value=1, **options).compute()
        found.append(result.get() if d is not host else result)
    return found


def close(got, expected):
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.kind in "fc":
        np.testing.assert_allclose(got, expected, rtol=1e-5 if got.itemsize > 2 else 1e-2, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("count", [3, 90, 900, 9000, 20_000, 300_000])
@pytest.mark.parametrize("op", OPS)
def test_one_row_of_any_number_of_groups(op, count):
    x = np.random.default_rng(2).normal(size=700_001).astype("f4")
    for labels in (None, "i4", "i8"):
        close(*both(x, labels or 0, op, (0,), count, 400_000))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["sum", "argmax", "var", "last"])
def test_axes(op, axis):
    x = np.random.default_rng(3).normal(size=(70, 50, 90)).astype("f4")
    close(*both(x, 0, op, axis, 7, (40, 30, 50)))
    close(*both(x, "i2", op, axis, 7, (40, 30, 50)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "?", "i2", "u4", "i8"])
def test_means_by_counts_that_labels_tell(dtype, axis):
    """In one chunk and in several, with a group that is empty."""
    x = (np.random.default_rng(4).normal(size=(70, 50, 90)) * 20).astype(dtype)
    for chunks in (-1, (40, 30, 50)):
        close(*both(x, 0, "mean", axis, 40, chunks))
        close(*both(x, "i2", "mean", axis, 40, chunks))


# Operators, a dtype, elements of a row, groups, and how labels are distributed: sub-warps of each size, groups that are
# cut, more groups than elements, rows too short for a pack, and as long as fit; one a block, or several.
ROWS = [
    (("var", "last"), "f4", 2, 3, "random"),
    (("argmin", "prod"), "i1", 41, 5, "in turn"),
    (("argmax", "any"), "?", 627, 9, "random"),
    (("nanmax", "first"), "f2", 1000, 2000, "random"),
    (("std", "norminf"), "u2", 4097, 300, "sorted"),
    (("nanmean", "argmin"), "f8", 9001, 40, "one"),
    (("kurtosis", "nanargmax"), "f4", 16_384, 1000, "in turn"),
    (("var", "first"), "c8", 3000, 250, "random"),
    (("sum", "last"), "c16", 9000, 700, "sorted"),
    (("count_nonzero", "last"), "u1", 70_001, 500, "random"),
    (("mean", "ptp"), "i4", 30_011, 7000, "random"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("ops", "dtype", "length", "count", "way"), ROWS, ids=str)
def test_many_rows_with_labels_in_common(ops, dtype, length, count, way):
    """At several alignments, with labels in the graph and those that come with the chunks."""
    rng = np.random.default_rng(14)
    at = np.arange(length)
    labels = {
        "random": rng.integers(-1, count, length),
        "in turn": at % count,
        "sorted": np.sort(rng.integers(-1, count, length)),
        "one": np.where(at % 50, count - 1, rng.integers(-1, count, length)),
    }[way]
    x = (rng.integers(0, 2, (70, length)) if dtype == "?" else rng.normal(size=(70, length)) * 20).astype(dtype)
    if x.dtype.kind == "f":
        x[::3, ::7] = np.nan
    for offset, op in itertools.product((0, 1), ops):
        memory = cp.empty(x.size + offset, dtype)
        device = memory[offset:].reshape(x.shape)
        device[...] = cp.asarray(x)
        wanted = gr.grouped(x, labels, op, (1,), count, fill_value=1).compute()
        for given in (labels, da.from_array(cp.asarray(labels), chunks=-1, asarray=False)):
            close(gr.grouped(device, given, op, (1,), count, fill_value=1).compute().get(), wanted)


def test_maps_one_after_another_in_many_rows():
    """Two operands, in order."""
    rng = np.random.default_rng(15)
    x = [rng.integers(-2, 3, (90, 1501)).astype(t) for t in ("i1", "i8")]
    labels = rng.integers(-1, 30, 1501)
    row = OPERATORS["affine"]
    device = tuple(da.from_array(a, chunks=(80, 700)).map_blocks(cp.asarray) for a in x)
    got = gr.grouped(device, labels, row, (1,), 30).compute().get()
    np.testing.assert_array_equal(got, gr.grouped(tuple(x), labels, row, (1,), 30).compute())


VIEWS = {
    "transposed": lambda a: a.transpose(2, 0, 1),
    "last two axes": lambda a: a.transpose(0, 2, 1),
    "stepped": lambda a: a[::2],
    "reversed": lambda a: a[:, ::-1],
    "inside": lambda a: a[1:-1],
    "inside the last axis": lambda a: a[:, :, 1:-1],
}
# Few groups and many, and the axes along which they are reduced
LAID = [(3, (0, 1, 2)), (3, (1,)), (3, (0, 2)), (3000, (0, 1, 2)), (3000, (0, 2))]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rising", [False, True], ids=["random", "sorted"])
@pytest.mark.parametrize(("count", "axis"), LAID, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_chunks_that_lie_in_any_order_and_in_steps(view, count, axis, rising):
    """Labels in the graph, and labels that come with the chunks."""
    x = np.random.default_rng(12).normal(size=(60, 50, 90)).astype("f4")
    whole = da.from_array(x, chunks=(40, 30, 50))
    host, device = (VIEWS[view](d) for d in (whole, whole.map_blocks(cp.asarray).persist()))
    known = np.random.default_rng(13).integers(-1, count, [host.shape[a] for a in axis])
    if rising:
        known = np.sort(known, axis=None).reshape(known.shape)
    own = da.from_array(known.astype("i4"), chunks=[host.chunks[a] for a in axis])
    for op in ("sum", "var", "argmax", "first"):
        expected = gr.grouped(host, known, op, axis, count, fill_value=1).compute()
        for labels in (known, own.map_blocks(cp.asarray)):
            close(gr.grouped(device, labels, op, axis, count, fill_value=1).compute().get(), expected)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("op", ["sum", "max", "count_nonzero"])
def test_dtypes(op, dtype):
    x = np.random.default_rng(4).integers(0, 100, 50_000).astype(dtype)
    for count in (5, 700, 40_000):
        got, expected = both(x, "i4", op, (0,), count, 30_000)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ["sum", "mean", "argmax", "first", "count_nonzero"])
def test_chunks_without_elements(op):
    x = np.random.default_rng(10).normal(size=70_000).astype("f4")
    for labels in (0, "i4"):
        for count in (5, 700):
            close(*both(x, labels, op, (0,), count, ((0, 30_000, 0, 40_000, 0),)))


@pytest.mark.parametrize("count", [4, 300, 9000, 30_000, 90_000])
def test_exact_sums_of_all_magnitudes(count):
    """To the last bit, with labels at random and in order, some of them of no group."""
    rng = np.random.default_rng(11)
    n = 8_000_000
    x = np.ldexp(rng.normal(size=n), rng.integers(-149, 90, n)).astype("f4")
    x[::3] = rng.normal(size=x[::3].size)
    drawn = rng.integers(-count // 3, count, n)
    for labels in (drawn, np.sort(drawn)):
        got = gr.grouped(cp.asarray(x), labels, "sum", num_groups=count).compute().get()
        means = gr.grouped(cp.asarray(x), labels, "mean", num_groups=count).compute().get()
        for k in range(0, count, 1 + count // 10):
            mine = x[labels == k].astype("f8")
            assert got[k] == np.float32(math.fsum(mine))
            assert means[k] == np.float32(math.fsum(mine) / mine.size)


@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_the_same_bits_on_every_run(count):
    x = cp.random.default_rng(5).standard_normal(8_000_000).astype("f4")
    labels = cp.random.default_rng(6).integers(0, count, x.size).astype("i4")
    found = {
        gr.grouped(x, da.from_array(labels, chunks=-1, asarray=False), "sum", num_groups=count)
        .compute()
        .get()
        .tobytes()
        for _ in range(10)
    }
    assert len(found) == 1


@pytest.mark.parametrize("count", [10, 1000, 100_000])
@pytest.mark.parametrize("op", ["sum", "first"])
def test_labels_without_a_group(op, count):
    x = da.ones(300_000, chunks=100_000, dtype="f4").map_blocks(cp.asarray)
    labels = (da.arange(300_000, chunks=100_000) % (count + 1)).map_blocks(cp.asarray)
    with pytest.raises(errors.ArgumentError, match="expected labels below"):
        gr.grouped(x, labels, op, num_groups=count, fill_value=0).compute()
    with pytest.raises(errors.ArgumentError, match="negative"):
        gr.bincount(labels - 1, minlength=count + 5).compute()


def test_sorted_and_equal_labels():
    x = np.random.default_rng(7).normal(size=2_000_000)
    for labels in (np.zeros(x.size, int), np.arange(x.size) // 5000, np.arange(x.size) // 7):
        got = gr.grouped(cp.asarray(x), labels, "sum").compute().get()
        np.testing.assert_allclose(got, np.bincount(labels, x), atol=1e-10)
        least = gr.grouped(cp.asarray(x), labels, "argmin").compute().get()
        np.testing.assert_array_equal(least, gr.grouped(x, labels, "argmin").compute())


def test_boxes():
    x = np.random.default_rng(8).normal(size=(600, 900)).astype("f4")
    lines = np.arange(600) // 50, np.arange(900) // 45
    d = da.from_array(x, chunks=(250, 900))
    got = gr.grouped(d.map_blocks(cp.asarray), lines, "mean").compute().get()
    np.testing.assert_allclose(got, x.reshape(12, 50, 20, 45).mean((1, 3)).reshape(-1), atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_counts_and_histograms(dtype):
    x = (np.random.default_rng(9).normal(size=300_000) * 20 + 50).astype(dtype)
    d = da.from_array(x, chunks=110_000).map_blocks(cp.asarray)
    for bins, span in ((100, (0, 100)), (3000, (0, 90)), ([0, 10, 50, 80], None)):
        counts, _ = gr.histogram(d, bins, span)
        np.testing.assert_array_equal(counts.compute().get(), np.histogram(x, bins, span)[0])
    whole = np.abs(x).astype("i4")
    got = gr.bincount(da.from_array(whole, chunks=110_000).map_blocks(cp.asarray), minlength=400).compute().get()
    np.testing.assert_array_equal(got, np.bincount(whole, minlength=400))


@pytest.mark.parametrize("dtype", "? i1 u1 i2 i4 i8 u8 f4 f8".split())
def test_bins_are_numpys_at_their_edges(dtype):
    """Numbers beside edges, subnormal ones among them."""
    from gpureduce_dask.chunk_groups import codes_of
    from gpureduce_dask.operators.grouped import Edges

    for span, bins in (((-3, 3), 40), ((0.1, 0.7), 7), ((-100, 100), 3000), ((220.0, 330.0), 40), ((0, 1), 10)):
        x = (np.random.default_rng(0).standard_normal(100_003) * span[1]).astype(dtype)
        edges = np.histogram_bin_edges(x[:0].astype("u1") if dtype == "?" else x[:0], bins, span)
        if x.dtype.kind == "f":
            beside = np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)
            some = np.concatenate([edges, *beside, [np.nan, np.inf, -np.inf, -0.0]])
            x[: some.size] = some
        known = Edges(edges, span)
        np.testing.assert_array_equal(codes_of(cp.asarray(x), known).get(), codes_of(x, known))
        counts, _ = gr.histogram(cp.asarray(x), bins, span)
        np.testing.assert_array_equal(counts.compute().get(), np.histogram(x, bins, span)[0])


@pytest.mark.parametrize("dtype", "? u1 i4 f4 f8".split())
def test_histograms_of_many_chunks_of_any_layout(dtype):
    x = (np.random.default_rng(2).standard_normal((300, 70, 41)) * 40 + 50).astype(dtype)
    host = da.from_array(x, chunks=(30, 20, 41))
    d = host.map_blocks(cp.asarray).persist()
    for view in (lambda a: a, lambda a: a.T, lambda a: a[:, ::2, 1:], lambda a: a[::-1], lambda a: a * 2):
        for bins, span in ((64, (0, 100)), (30_000, (0, 100)), ([0, 10, 50, 80], None), (1, (0, 1e9))):
            counts, _ = gr.histogram(view(d), bins, span)
            np.testing.assert_array_equal(counts.compute().get(), np.histogram(view(x), bins, span)[0])


@pytest.mark.large
@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_many_elements(count):
    """2^31 and some, in one chunk."""
    n = 2**31 + 12_345
    labels = cp.arange(n, dtype=cp.int64) % count
    codes = labels.astype(cp.int32)
    del labels
    x = cp.ones(n, cp.int8)
    got = gr.grouped(x, da.from_array(codes, chunks=-1, asarray=False), "sum", num_groups=count).compute().get()
    np.testing.assert_array_equal(got, n // count + (np.arange(count) < n % count))
