"""Histograms of NumPy chunks against NumPy's: layouts, single bytes, special values, and what memory they take."""

from __future__ import annotations

import tracemalloc

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.graph.histograms import counts_of

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
    counts_of(chunk, edges)
    tracemalloc.start()
    try:
        counts_of(chunk, edges)
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
