"""The ladder's steps on a GPU: as strategies of sums, on strided input, and past 2^31 elements."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import history
from gpureduce_dask.steps.runs import run
from gpureduce_dask.tools.ladder.measure import answer, exact, numbers

pytestmark = pytest.mark.gpu
SUMS = [step for step in history.STEPS if step.family == "reduce" and step.kernel]
WITH_KERNELS = [step for step in history.STEPS if step.kernel]
SCANS = [step for step in history.STEPS if step.family == "scan" and step.kernel]
LARGE = 2**31 + 2**20 + 5


@pytest.mark.parametrize("step", WITH_KERNELS, ids=lambda step: step.label)
def test_awkward_sizes(step):
    for n in (1, 33, 1023, 2**17 + 1):
        x = numbers(n * 3, "float64", n).reshape(3, n) if step.family == "transpose" else numbers(n, "float64", n)
        np.testing.assert_array_equal(answer(step, x), exact(step.family, x))


@pytest.mark.parametrize("step", SUMS, ids=lambda step: step.label)
def test_as_a_strategy(step):
    import cupy

    x = np.random.default_rng(0).integers(-99, 99, (70, 301)).astype("i4")
    lazy = da.from_array(x, chunks=(33, 100)).map_blocks(cupy.asarray)
    kept = x.copy()
    with_strategy = gr.sum(lazy.T, strategy=step.label)
    stock = da.reduction(lazy, **gr.tree("sum", x.dtype, strategy=step.label))
    assert int(with_strategy.compute(scheduler="sync")) == int(stock.compute(scheduler="sync")) == x.sum()
    np.testing.assert_array_equal(cupy.asnumpy(lazy.compute(scheduler="sync")), kept)


@pytest.mark.parametrize("method", ["sequential", "blelloch"])
@pytest.mark.parametrize("step", SCANS, ids=lambda step: step.label)
def test_as_a_strategy_of_running_sums(step, method):
    import cupy

    x = np.random.default_rng(0).integers(-99, 99, 3001).astype("i4")
    lazy = da.from_array(x, chunks=700).map_blocks(cupy.asarray)
    got = gr.cumsum(lazy, method=method, strategy=step.label).compute(scheduler="sync")
    np.testing.assert_array_equal(cupy.asnumpy(got), x.cumsum(dtype="i8"))


@pytest.mark.parametrize("step", SUMS, ids=lambda step: step.label)
def test_the_input_stays_as_it_was(step):
    import cupy

    x = cupy.arange(5000, dtype="f4")
    run(step, x)
    assert bool((x == cupy.arange(5000, dtype="f4")).all())


@pytest.mark.large
@pytest.mark.parametrize("label", ["reduce-03", "reduce-12", "reduce-18", "scan-03", "scan-05-padded"])
def test_more_than_two_to_the_31(label):
    import cupy

    got = run(history.get(label), cupy.ones(LARGE, "i4"))
    assert int(got[-1]) == LARGE - 2**32
