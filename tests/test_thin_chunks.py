"""Chunks of few elements for each cell that is kept, such as one day of a field: reduced several at a time in place."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.graph import reduce_tasks
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def chunks_of(values, rows):
    """A lazy array whose chunks have so many rows, and the last one less."""
    x = da.from_array(values, chunks=(rows, *values.shape[1:]), name=False)
    return x.map_blocks(np.array, dtype=values.dtype, meta=np.empty((0,) * values.ndim, values.dtype))


@pytest.fixture(scope="module")
def values():
    u = np.random.default_rng(0).integers(-9, 9, size=(23, 40, 30)).astype("f4")
    u[np.random.default_rng(1).random(u.shape) < 0.1] = np.nan
    u[:, 0, 0] = 1
    return u


@pytest.mark.parametrize("name", sorted(n for n, row in OPERATORS.items() if row.arity == 1))
def test_every_operator(name, values):
    values = values if "nan" in name else np.nan_to_num(values)
    x = chunks_of(values if "arg" not in name or "nan" not in name else np.nan_to_num(values), 2)
    got = gr.reduction(x, name, axis=0).compute(scheduler="sync")
    whole = gr.reduction(x.rechunk(-1), name, axis=0).compute(scheduler="sync")
    np.testing.assert_allclose(got, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2)])
def test_any_axis_and_chain(axis, values):
    u = np.nan_to_num(values)
    x = chunks_of(u, 3).rechunk((3, 20, 30))
    found = dask.compute(gr.mean((x - 1) ** 2, axis=axis), gr.std(x, axis=axis), gr.max(x, axis=axis))
    for got, expected in zip(found, (((u - 1) ** 2).mean(axis), u.std(axis), u.max(axis)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_what_another_task_holds_is_not_written_to(values):
    x = chunks_of(np.nan_to_num(values), 2)
    tree = gr.sum(x, axis=0, split_every=2)
    kept = dask.persist(x, scheduler="sync")[0]
    for lazy in (tree, gr.sum(kept, axis=0), gr.sum(kept, axis=0)):
        np.testing.assert_array_equal(lazy.compute(scheduler="sync"), np.nan_to_num(values).sum(axis=0))
    np.testing.assert_array_equal(kept.compute(scheduler="sync"), np.nan_to_num(values))


@pytest.mark.parametrize("name", ["mean", "std"])
def test_a_group_holds_one_partial_and_few_chunks(name):
    days, cells = 64, 2**18
    x = da.map_blocks(
        lambda block_info=None: np.full((1, cells), float(block_info[None]["chunk-location"][0]), "f4"),
        chunks=((1,) * days, (cells,)),
        dtype="f4",
        meta=np.empty((0, 0), "f4"),
    )
    with dask.config.set(scheduler="sync"):
        lazy = gr.reduction(x, name, axis=0, group=days)
        lazy.compute()
        tracemalloc.start()
        lazy.compute()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20 * 4 * cells  # a partial of 24 bytes a cell, as many of chunks, and the result


@pytest.mark.parametrize(
    ("nbytes", "held", "waits"), [(1 << 20, 1 << 20, True), (1 << 20, 1 << 30, False), (0, 0, False)]
)
def test_a_gpus_chunk_waits_unless_it_holds_more_memory_than_it_has(nbytes, held, waits, monkeypatch):
    monkeypatch.setattr(reduce_tasks.chunk, "is_device", lambda block: True)
    block = SimpleNamespace(nbytes=nbytes, data=SimpleNamespace(mem=SimpleNamespace(size=held)))
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    assert bool(reduce_tasks._bytes_together([block], bound, (0,), None)) == waits
