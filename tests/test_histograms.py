"""Histograms of NumPy chunks against NumPy's: layouts, single bytes, special values, and what memory they take."""

from __future__ import annotations

import tracemalloc

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors
from gpureduce_dask.host.histogram import counts_of
from gpureduce_dask.operators import native
from gpureduce_dask.operators.grouped import Edges

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, which counts bool as bytes

LAYOUTS = (lambda u: u, lambda u: u.T, lambda u: u[::-1, ::2], lambda u: np.asfortranarray(u)[:, 3])


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "f2", "f4", ">f8", "i8"])
def test_histogram_of_any_layout(dtype):
    rng = np.random.default_rng(5)
    base = rng.integers(0, 2 if dtype == "?" else 120, (120, 100)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        base[::7, ::5], base[3], base[4] = np.nan, np.inf, -np.inf
    if dtype == "i1":
        base -= 60
    for layout in LAYOUTS:
        u = layout(base)
        x = da.from_array(u, chunks=60)
        for bins in (np.array([-30, 0, 1, 5, 5, 70]), np.geomspace(0.5, 119, 40), np.array([1.0, 2.0], "f4")):
            counts, edges = gr.histogram(x, bins)
            np.testing.assert_array_equal(counts.compute(scheduler="sync"), np.histogram(u, bins)[0])
            np.testing.assert_array_equal(edges, bins)
    density = gr.histogram(da.from_array(base, chunks=60), 9, range=(0, 119), density=True)[0]
    np.testing.assert_allclose(density.compute(scheduler="sync"), np.histogram(base, 9, (0, 119), density=True)[0])


def test_nothing_of_a_chunks_size_is_made():
    chunk, edges = np.random.default_rng(0).normal(size=1 << 20), np.array([-3, -1, 0, 0.5, 4])
    counts_of(chunk, Edges(edges))
    tracemalloc.start()
    try:
        counts_of(chunk, Edges(edges))
        assert tracemalloc.get_traced_memory()[1] < 0.15 * chunk.nbytes
    finally:
        tracemalloc.stop()


def test_empty_chunks_and_many_bins():
    empty = da.from_array(np.empty((0, 3)), chunks=2)
    np.testing.assert_array_equal(gr.histogram(empty, [0, 1, 2])[0].compute(), [0, 0])
    u = np.random.default_rng(1).random(5000)
    edges = np.linspace(0, 1, 4000)  # labels then, not sorted lines
    np.testing.assert_array_equal(gr.histogram(da.from_array(u, chunks=999), edges)[0], np.histogram(u, edges)[0])
    assert gr.histogram(da.from_array(np.float64(0.5)), [0, 1])[0].compute() == [1]


def test_no_bins_and_bins_that_only_data_could_tell():
    u = np.arange(5.0)
    x = da.from_array(u, chunks=2)
    for bins in ([], [1]):
        for weights in (None, x):
            counts, edges = gr.histogram(x, bins, weights=weights)
            want = np.histogram(u, bins, weights=None if weights is None else u)
            np.testing.assert_array_equal(counts.compute(), want[0])
            np.testing.assert_array_equal(edges, want[1])
    with pytest.raises(errors.ArgumentError, match="Only data could tell"):
        gr.histogram(x, "auto", (0, 5))


def test_bins_and_ranges_that_are_known_when_they_are_computed():
    u = np.random.default_rng(3).random(90)
    x = da.from_array(u, chunks=20)
    spans = {"both": [x.min(), x.max()], "one": (0, x.max()), "neither": (0, 1)}
    for span in spans.values():
        for bins in (5, da.array(5)):
            want = da.histogram(x, bins, span)[0].compute(scheduler="sync")
            with gr.accelerate(numpy=True):
                counts, _ = da.histogram(x, bins, span)
            for found in (counts, gr.histogram(x, bins, span)[0]):
                np.testing.assert_array_equal(found.compute(scheduler="sync"), want)
    edges = x[:3].cumsum(axis=0)
    np.testing.assert_array_equal(gr.histogram(x, edges)[0], np.histogram(u, edges.compute(scheduler="sync"))[0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bins_of_one_width_at_their_edges(dtype):
    """Elements on edges and beside them, outside, infinite and NaN; ranges that are wide, narrow or far from zero."""
    rng = np.random.default_rng(7)
    far = 2.0 ** (20 if dtype == "f4" else 49)
    huge = float(np.finfo(dtype).max)
    spans = [(0, 1), (-1, 3), (0.1, 0.7), (far, far + 100), (-huge / 4, huge / 2), (0, 1e-38), (0, 1e-44)]
    for span in spans:
        for bins in (1, 7, 10, 1000, 65536):
            try:
                edges = np.histogram_bin_edges(np.empty(0, dtype), bins, span)
            except ValueError:  # too many for this range
                continue
            with np.errstate(all="ignore"):
                inner = (rng.random(5000) * (span[1] - span[0]) + span[0]).astype(dtype)
            near = [np.nextafter(edges, sign * np.inf, dtype=edges.dtype) for sign in (-1, 1)]
            x = np.concatenate([edges, *near, inner, [np.nan, np.inf, -np.inf, -0.0, 0.0]]).astype(dtype)
            x = rng.permutation(x)[: x.size // 6 * 6].reshape(2, -1, 3)
            with np.errstate(all="ignore"):
                for layout in (x, x.T, x[:, ::-1, ::2], x[:1, :2, 1:], x[..., :1]):
                    want = np.histogram(layout, bins, span)[0]
                    got = counts_of(layout, Edges(edges, span))
                    np.testing.assert_array_equal(got.ravel(), want, err_msg=f"{span} {bins}")


def test_bins_of_one_width_without_loops(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    u = np.random.default_rng(2).normal(size=(70, 90))
    x = da.from_array(u, chunks=40)
    np.testing.assert_array_equal(gr.histogram(x, 50, (-2, 2))[0], np.histogram(u, 50, (-2, 2))[0])
