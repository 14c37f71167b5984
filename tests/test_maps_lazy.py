"""Elementwise steps before a reduction: computed as they are read where they can be, and as dask does elsewhere."""

from __future__ import annotations

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.graph import deferred

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def make(seed=0, chunks=(64, 256)):
    u = np.random.default_rng(seed).normal(size=(512, 256)).astype("f4")
    return da.from_array(u, chunks=chunks)


CHAINS = {
    "squares": lambda x: ((x - 0.5) ** 2).sum(),
    "about the mean": lambda x: ((x - x.mean()) ** 2).sum(axis=0),
    "about means": lambda x: ((x - x.mean(axis=0)) / 2).var(axis=0),
    "truth": lambda x: (x > 2).any(axis=0),
    "rows": lambda x: (x * x).mean(axis=1),
    "positions": lambda x: abs(x).argmax(axis=0),
    "where": lambda x: da.where(x > 0, da.log(abs(x)), da.clip(x, 0, 1).astype("f8")).std(axis=0),
    "shared": lambda x: ((x + 1) * (x - 1) + (x + 1)).max(),
    "integers": lambda x: ((x * 100).astype("i4") // 7 % -5).sum(axis=0),
    "nan": lambda x: da.nanmean(da.where(x < 0, np.nan, x), axis=0),
    "two arrays": lambda x: (x * make(1)).sum(axis=0),
    "after a function of its own": lambda x: (x.map_blocks(np.sort) * 2 + 1).max(axis=0),
    "xarray": lambda x: pytest.importorskip("xarray").DataArray(x * 2 + 1, dims=("a", "b")).std("a").data,
}
HALF = {
    "before a function of its own": lambda x: (x * 2).map_blocks(np.sort).sum(axis=0),
    "five arrays": lambda x: (x + make(1) + make(2) + make(3) + make(4)).sum(axis=0),
    "a power of integers": lambda x: ((x * 3).astype("i4") ** abs(x).astype("i4")).sum(axis=0),
}


@pytest.fixture
def fused(monkeypatch):
    """How many chunks' steps went into their reductions."""
    counts = []
    original = deferred._traced

    def counted(blocks, bound):
        found = original(blocks, bound)
        counts.append(found is not None)
        return found

    monkeypatch.setattr(deferred, "_traced", counted)
    return counts


def both(chain, **options):
    with gr.accelerate(numpy=True, **options):
        ours = chain(make())
    return ours, chain(make())


@pytest.mark.parametrize("name", [*CHAINS, *HALF])
def test_chains_give_what_dask_gives(name, fused):
    ours, stock = both({**CHAINS, **HALF}[name])
    got, expected = ours.compute(scheduler="sync"), stock.compute(scheduler="sync")
    assert ours.dtype == got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5)
    if name in CHAINS:
        assert fused.count(True) >= 8, "no chunk's steps went into its reduction"
    else:
        assert True not in fused


@pytest.mark.parametrize("off", ["option", "key"])
def test_an_option_turns_it_off(off, fused):
    chain = CHAINS["squares"]
    on, _ = both(chain)
    with dask.config.set({"gpureduce.fuse": off != "key"}):
        ours, stock = both(chain, fuse=off != "option")
    np.testing.assert_allclose(ours.compute(scheduler="sync"), stock.compute(scheduler="sync"), rtol=1e-5)
    assert not fused
    assert ours.name != on.name
    on.compute(scheduler="sync")
    assert fused == [True] * 8


def test_no_temporary_of_a_chunks_size():
    u = np.random.default_rng(0).normal(size=(4096, 4096)).astype("f4")
    x = da.from_array(u, chunks=(2048, 4096), name=False)
    for chain in (CHAINS["squares"], CHAINS["rows"], lambda x: np.log1p(x * x).max(axis=0)):
        with gr.accelerate(numpy=True):
            lazy = chain(x)
        lazy.compute(scheduler="sync")
        tracemalloc.start()
        lazy.compute(scheduler="sync")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.05 * u.nbytes / 2


def test_each_chunk_is_made_once_and_used_by_whoever_asks():
    calls = []
    x = make().map_blocks(lambda b: (calls.append(1), b)[1], meta=np.empty((0, 0), "f4"))
    calls.clear()
    with gr.accelerate(numpy=True):
        y = (x - 1) ** 2
        total, largest = y.sum(), y.max(axis=0)
    first, second, whole = dask.compute(total, largest, y, scheduler="sync")
    assert len(calls) == 8
    np.testing.assert_allclose(first, whole.sum(), rtol=1e-5)
    np.testing.assert_array_equal(second, whole.max(axis=0))


def test_groups_and_several_statistics():
    x, labels = make(), np.arange(512) % 3
    u = x.compute(scheduler="sync")
    sums = gr.grouped(x * 2, labels, "sum", axis=0, num_groups=3).compute(scheduler="sync")
    np.testing.assert_allclose(sums[:, 1], (u * 2)[1::3].sum(axis=0), rtol=1e-3, atol=1e-4)
    found = dask.compute(*gr.stats((x - 0.5) ** 2, ["mean", "std", "argmax"], axis=0), scheduler="sync")
    squares = (u - np.float32(0.5)) ** 2
    for got, expected in zip(found, (squares.mean(0), squares.std(0), squares.argmax(0)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    dot = gr.vdot(x * 2, x + 1).compute(scheduler="sync")
    np.testing.assert_allclose(dot, np.vdot((u * 2).astype("f8"), u + 1), rtol=1e-5)


SCANS = {
    "cumsum": lambda x: da.log1p(x * x).cumsum(axis=1),
    "cumprod": lambda x: (1 + x / 100).cumprod(axis=1),
    "two arrays": lambda x: (x * make(1) + 1).cumsum(axis=1),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_of_chunks_that_hold_their_lines(name, fused):
    ours, stock = both(SCANS[name])
    got, expected = ours.compute(scheduler="sync"), stock.compute(scheduler="sync")
    assert ours.dtype == got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert fused == [True] * 8
    fused.clear()
    off, _ = both(SCANS[name], fuse=False)
    assert off.name != ours.name
    off.compute(scheduler="sync")
    assert not fused


def test_scans_with_segments_and_backwards():
    x, starts = make(), np.arange(256) % 7 == 0
    u = x.compute(scheduler="sync")
    got = gr.scan(x * 2, "sum", axis=1, segments=starts, reverse=True).compute(scheduler="sync")
    expected = gr.scan(u * 2, "sum", axis=1, segments=starts, reverse=True).compute(scheduler="sync")
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_errors_are_those_of_the_function():
    with gr.accelerate(numpy=True):
        lazy = ((make() * 3).astype("i4") ** (make().astype("i4") - 10)).sum()
    with pytest.raises(ValueError, match="negative integer powers"):
        lazy.compute(scheduler="sync")


def test_numbers_that_look_alike_are_told_apart():
    x = make()
    for value in (0.0, -0.0, 0, False):
        got = gr.reduction(da.copysign(abs(x), value) if value is not False else x * value, "sum").compute(
            scheduler="sync"
        )
        expected = (np.copysign(abs(x), value) if value is not False else x * value).sum().compute(scheduler="sync")
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_positions_of_steps_are_not_made_for_every_element(monkeypatch):
    monkeypatch.setattr("gpureduce_dask.host.tiles.Positions.all", lambda where: pytest.fail("positions of all"))
    x = make()
    assert gr.argmax(x * -2 + 1).compute(scheduler="sync") == np.argmax(x.compute() * -2 + 1)


def test_chunks_that_are_lists_of_arrays():
    """As dask's histogramdd makes them: their states are many, and they have no bytes of their own."""
    u = np.random.default_rng(3).random((6, 50, 400))
    rows = da.from_array(u, chunks=(1, 50, 400)).map_blocks(lambda b: (b[0],), dtype=u.dtype)
    with dask.config.set(scheduler="threads", num_workers=1):
        np.testing.assert_allclose(gr.sum(rows, axis=0).compute(), u.sum(axis=0))
