"""Masked chunks: those that stock dask answers for are its own; all others are refused, never read without the mask."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.errors import DtypeError

PLAIN = da.from_array(np.arange(24.0).reshape(4, 6), chunks=(2, 3))
MASKED = da.from_array(np.ma.masked_less(np.arange(24.0).reshape(4, 6), 5), chunks=(2, 3))
SILENT = PLAIN.map_blocks(lambda b: np.ma.masked_less(b, 5), meta=np.empty((0, 0)), dtype="f8")  # its meta says NumPy

CALLS = {
    "where": lambda m: gr.sum(PLAIN, where=m > 3),
    "elements with where": lambda m: gr.map_reduce(lambda x: x * 2, "sum", m, where=PLAIN > 3),
    "positions with where": lambda m: gr.argmax(m, where=PLAIN > 3),
    "several with where": lambda m: gr.stats(m, ["sum", "argmax"], where=PLAIN > 3).sum,
    "stats": lambda m: gr.stats(m, ["mean", "max"]).mean,
    "weights": lambda m: gr.var(PLAIN, weights=m),
    "weights of sums": lambda m: gr.nansum(PLAIN, weights=m),
    "min_count": lambda m: gr.max(m, min_count=2),
    "map_reduce": lambda m: gr.map_reduce(lambda x, y: x * y, "sum", PLAIN, m),
    "not traced": lambda m: gr.map_reduce(lambda x, y: x[:] * y, "sum", PLAIN, m),
    "map_scan": lambda m: gr.map_scan(lambda x, y: x * y, ["sum"], PLAIN, m, axis=0).sum,
    "scan": lambda m: gr.scan(m, "max", axis=0),
    "two arrays": lambda m: gr.scan((PLAIN, m), "affine", axis=0),
    "segments": lambda m: gr.scan(PLAIN, "sum", axis=1, segments=m > 9),
    "segments by label": lambda m: gr.scan(PLAIN, "sum", axis=0, segments=m // 7),
    "grouped": lambda m: gr.grouped(m, np.arange(6) % 2, "sum", axis=1),
    "labels": lambda m: gr.grouped(PLAIN, (m // 7).astype(int), "sum", num_groups=5),
    "lines of labels": lambda m: gr.grouped(PLAIN, (m[:, 5].astype(int) % 2, np.arange(6)), "sum", num_groups=(2, 6)),
    "bincount": lambda m: gr.bincount(m.astype(int).ravel(), minlength=30),
    "histogram": lambda m: gr.histogram(m, bins=3, range=(0, 24))[0],
    "weights of counts": lambda m: gr.histogram(PLAIN, bins=3, range=(0, 24), weights=m)[0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_refused_where_the_meta_says_so(call):
    with pytest.raises(DtypeError, match="Masked"):
        call(MASKED)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_refused_where_only_a_chunk_tells(call):
    with pytest.raises(DtypeError, match="Masked"):
        call(SILENT).compute(scheduler="sync")


def test_arrays_that_are_no_dask_arrays():
    few = np.ma.masked_less(np.arange(6), 2)
    for call in (
        lambda: gr.sum(PLAIN, where=few > 3),
        lambda: gr.mean(PLAIN, weights=few),
        lambda: gr.grouped(PLAIN, few % 2, "sum", axis=1),
        lambda: gr.grouped(PLAIN, (np.arange(4), few), "sum"),
        lambda: gr.scan(PLAIN, "sum", axis=1, segments=few),
        lambda: gr.stats(few, ["sum"]),
    ):
        with pytest.raises(DtypeError, match="Masked"):
            call()


def test_what_stock_dask_answers_for():
    wanted = np.ma.masked_less(np.arange(24.0).reshape(4, 6), 5)
    for op in ("sum", "mean", "max", "argmax", "std"):
        assert getattr(gr, op)(MASKED).compute(scheduler="sync") == getattr(wanted, op)()
    assert gr.sum((MASKED - PLAIN) ** 2 + 1).compute(scheduler="sync") == wanted.count()


MIXED = da.concatenate([PLAIN.rechunk((2, 6))[:2], MASKED.rechunk((2, 6))[:2], PLAIN[2:]]).map_blocks(
    lambda b: b if b.sum() > 100 else np.ma.masked_less(b, 15), meta=np.empty((0, 0)), dtype="f8"
)
ANSWERED = "sum prod mean std min all argmax nanvar nanmax ptp count_nonzero".split()


@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.parametrize("x", [SILENT, MIXED, PLAIN.dot(MASKED.T)], ids="abc")
def test_chunks_of_which_the_meta_is_silent_are_reduced_as_stock_dask_does(name, x):
    for axis in (0, None):
        with np.errstate(all="ignore"):
            want = getattr(da, name)(x, axis).compute(scheduler="sync")
            got = getattr(gr, name)(x, axis).compute(scheduler="sync")
            with gr.accelerate(numpy=True):
                lazy = getattr(da, name)(x, axis)
            for found in (got, lazy.compute(scheduler="sync"), lazy.persist(scheduler="sync").compute()):
                assert type(found) is type(want)
                np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(want))
                np.testing.assert_allclose(np.ma.filled(found, 0), np.ma.filled(want, 0))
    persisted = x.persist(scheduler="sync")
    want, got = (getattr(lib, name)(persisted, axis=0).compute(scheduler="threads") for lib in (da, gr))
    assert type(got) is type(want)
    np.testing.assert_allclose(np.ma.filled(got, 0), np.ma.filled(want, 0))


def assert_same(got, want):
    """The same kind of array, of the same mask and elements."""
    assert type(got) is type(want) and got.dtype == want.dtype
    np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
    np.testing.assert_allclose(np.ma.filled(got, 0), np.ma.filled(want, 0))


def drawn(shape, chunks, dtype="f8"):
    """An array of which some chunks are masked without a word in its meta, and what NumPy has of it."""
    rng = np.random.default_rng(7)
    whole = np.ma.masked_array(rng.integers(1, 4, shape).astype(dtype), rng.random(shape) < 0.4)
    whole[(slice(0, chunks[0]),) * len(shape)] = 3
    silent = da.from_array(whole, chunks=chunks).map_blocks(
        lambda b: b if np.ma.is_masked(b) else np.asarray(b), meta=np.empty((0,) * len(shape), dtype), dtype=dtype
    )
    return silent, whole


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape, chunks", [((20,), (3,)), ((7, 9), (2, 4)), ((3, 4, 5), (1, 4, 2))], ids=str)
def test_scans_mask_what_is_masked_and_count_it_for_nothing(name, shape, chunks):
    silent, whole = drawn(shape, chunks)
    for axis in (None, *range(len(shape))):
        want = getattr(da, name)(silent, axis=axis).compute(scheduler="sync")
        np.testing.assert_allclose(want, getattr(np.ma, name)(whole, axis=axis))
        for x in (silent, silent.persist(scheduler="sync")):
            with gr.accelerate(numpy=True):
                lazy = getattr(da, name)(x, axis=axis)
            assert lazy.name.startswith("gr-")
            assert_same(lazy.compute(scheduler="sync"), want)
            assert_same(getattr(gr, name)(x, axis=axis).compute(scheduler="sync"), want)


def no_twos(block):
    return block * np.where(np.ma.getdata(block) == 2, np.nan, 1)


def test_scans_that_go_backwards_leave_their_own_out_or_skip_nan():
    silent, whole = drawn((20,), (3,))
    none, own = np.ma.getmaskarray(whole), np.ma.filled(whole, 0)
    run = {
        "reverse": (gr.scan(silent, "sum", axis=0, reverse=True), own[::-1].cumsum()[::-1]),
        "exclusive": (gr.scan(silent, "sum", axis=0, exclusive=True), own.cumsum() - own),
        "nansum": (gr.nancumsum(silent.map_blocks(no_twos, meta=np.empty(0))), np.where(own == 2, 0, own).cumsum()),
    }
    for lazy, want in run.values():
        assert_same(lazy.compute(scheduler="sync"), np.ma.masked_array(want, none))
    first = gr.cumulative_sum(silent, include_initial=True).compute(scheduler="sync")
    assert_same(first, np.ma.masked_array([0, *own.cumsum()], [False, *none]))


@pytest.mark.parametrize("name", ["sum", "max", "mean", "nanstd", "argmax"])
def test_results_of_many_cells(name):
    """Whose partials are added to where they are, if no chunk is masked."""
    silent, _ = drawn((8, 1400), (2, 700))
    want = getattr(da, name)(silent, axis=0).compute(scheduler="sync")
    for x in (silent, silent.persist(scheduler="sync")):
        assert_same(getattr(gr, name)(x, axis=0).compute(scheduler="sync"), want)


@pytest.mark.parametrize("dtype", ["f8", "i4", "?"])
@pytest.mark.parametrize("name", ["argmin", "argmax", "nanargmin", "nanargmax"])
def test_positions_are_those_among_what_numpy_fills_masks_with(name, dtype):
    silent, whole = drawn((6, 5), (2, 5), dtype)
    for axis in (0, 1):
        want = getattr(da, name)(silent, axis=axis).compute(scheduler="sync")
        np.testing.assert_array_equal(want, getattr(np.ma, name.removeprefix("nan"))(whole, axis=axis))
        assert_same(getattr(gr, name)(silent, axis=axis).compute(scheduler="sync"), want)


@pytest.mark.parametrize("bins", [4, [0, 1.5, 2, 4]], ids=["even", "edges"])
@pytest.mark.parametrize("density", [False, True])
def test_plain_histograms_count_what_is_masked_as_stock_dask_does(bins, density):
    silent, _ = drawn((7, 9), (2, 4))
    want = da.histogram(silent, bins, (0, 4), density=density)[0].compute(scheduler="sync")
    with gr.accelerate(numpy=True):
        counts, _ = da.histogram(silent, bins, (0, 4), density=density)
    assert any(str(key).startswith("gr-histogram") for key in counts.dask.layers)
    assert_same(counts.compute(scheduler="sync"), want)
