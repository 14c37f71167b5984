"""Steps of the ladder as ``strategy=`` of sums and running sums, and as functions for stock dask."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.steps import scan_strategy
from gpureduce_dask.steps.host import pairwise


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "?", "u1", ">i4"])
@pytest.mark.parametrize("shape", [(1,), (7, 5), (), (3, 0)])
def test_on_numpy_chunks(shape, dtype):
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    lazy = da.from_array(x, chunks=tuple(max(1, n // 2) for n in shape))
    got = gr.sum(lazy, strategy="reduce-00")
    assert got.dtype == x.sum().dtype and got.compute() == x.sum()
    assert gr.sum(lazy, strategy="reduce-00", keepdims=True).compute().shape == x.sum(keepdims=True).shape


def test_sums_in_the_dtype_asked_for():
    x = da.full(5, 2**31 - 1, dtype="i4", chunks=2)
    got = gr.sum(x, dtype="i4", strategy="reduce-00")
    assert got.dtype == "i4" and got.compute() == np.full(5, 2**31 - 1, "i4").sum(dtype="i4")


def test_in_stock_reduction():
    x = da.arange(1000, chunks=77, dtype="f8")
    total = da.reduction(x, **gr.tree("sum", x.dtype, strategy="reduce-00"))
    assert total.name.startswith("gr-sum-reduce-00") and total.compute() == 499500
    function = gr.tree("sum", x.dtype, strategy="reduce-07")["chunk"]
    assert pickle.loads(pickle.dumps(function)).keywords == function.keywords


@pytest.mark.parametrize("n", [1, 2, 3, 31, 33, 1023, 1024, 1025])
def test_pairwise_loses_no_odd_element(n):
    x = np.random.default_rng(n).integers(-99, 99, n).astype("f4")
    before = x.copy()
    assert pairwise(x).tolist() == [x.sum()]
    np.testing.assert_array_equal(x, before)


def test_pairwise_error_grows_with_the_logarithm():
    x = np.full(2**20, 0.1, "f4")
    assert abs(float(pairwise(x)[0]) / (0.1 * 2**20) - 1) < 1e-6 < abs(float(np.cumsum(x)[-1]) / (0.1 * 2**20) - 1)


LAZY = da.ones((4, 4), chunks=2, dtype="f4")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: gr.sum(LAZY, strategy="reduce-8"), gr.errors.OperatorError, "reduce-08"),
        (lambda: gr.sum(LAZY, strategy="reduce-08"), gr.errors.ArgumentError, "NumPy chunks; expected CuPy chunks"),
        (lambda: gr.sum(LAZY, strategy="scan-03"), gr.errors.ArgumentError, "reduce-00 to reduce-20"),
        (lambda: gr.sum(LAZY, axis=0, strategy="reduce-00"), gr.errors.ArgumentError, "all axes together"),
        (lambda: gr.sum(LAZY, axis=5, strategy="reduce-00"), gr.errors.AxisError, "axis 5"),
        (lambda: gr.sum(LAZY.astype("f2"), strategy="reduce-00"), gr.errors.DtypeError, "a sum in float16"),
        (lambda: gr.tree("max", "f4", strategy="reduce-00"), gr.errors.ArgumentError, "max with strategy"),
        (lambda: gr.tree("sum", "f4", strategy="reduce-00", ddof=1), gr.errors.ArgumentError, "option ddof"),
        (
            lambda: gr.sum(LAZY.map_blocks(np.ma.masked_array), strategy="reduce-00"),
            gr.errors.ArgumentError,
            "another kind",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


LINE = da.ones(9, chunks=4, dtype="f4")
PROMISED = LINE.map_blocks(lambda block: block, meta=gr.device_meta(1, "f4"))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: gr.cumsum(LINE, strategy="scan-3"), gr.errors.OperatorError, "scan-03"),
        (lambda: gr.cumsum(LINE, strategy="scan-03"), gr.errors.ArgumentError, "NumPy chunks; expected CuPy chunks"),
        (lambda: gr.cumsum(LAZY, axis=0, strategy="scan-03"), gr.errors.ArgumentError, "expected one dimension"),
        (lambda: gr.cumsum(LINE, strategy="reduce-03"), gr.errors.ArgumentError, "scan-01 to scan-08"),
        (lambda: gr.cumsum(PROMISED, dtype="f2", strategy="scan-03"), gr.errors.DtypeError, "a sum in float16"),
        (lambda: gr.scan_tree("max", "f4", strategy="scan-03"), gr.errors.ArgumentError, "max with strategy"),
    ],
)
def test_refusals_of_scans(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_running_sums_by_a_step():
    got = gr.cumsum(PROMISED, strategy="scan-05-padded")
    assert got.dtype == "f4" and got.chunks == LINE.chunks and got.name.startswith("gr-cumsum-scan-05-padded")
    assert gr.cumsum(PROMISED.astype("i4"), strategy="scan-01").dtype == "i8"
    given = gr.scan_tree("sum", "i4", strategy="scan-01")
    assert pickle.loads(pickle.dumps(given["func"])) == given["func"] and given["dtype"] == "i8"
    assert gr.cumsum(LINE, strategy="scan-08").name == gr.cumsum(LINE).name
    assert gr.scan_tree("sum", "f4", strategy="scan-08") == gr.scan_tree("sum", "f4")


@pytest.mark.parametrize("method", ["sequential", "blelloch"])
def test_running_sums_join_across_chunks(monkeypatch, method):
    """What a kernel gives is NumPy's running sum; the rest is the tree's."""
    monkeypatch.setattr(scan_strategy.runs, "run", lambda step, block: np.cumsum(block, dtype=block.dtype))
    monkeypatch.setattr(scan_strategy, "check_side", lambda *args: None)
    x = np.random.default_rng(0).integers(-9, 9, 50).astype("i4")
    got = gr.cumsum(da.from_array(x, chunks=(7, 20, 23)), method=method, strategy="scan-03")
    np.testing.assert_array_equal(got.compute(), x.cumsum(dtype="i8"))


def test_the_last_step_is_the_library():
    assert gr.sum(LAZY, axis=0, strategy="reduce-20").name == gr.sum(LAZY, axis=0).name
    assert da.reduction(LAZY, axis=0, **gr.tree("sum", "f4", strategy="reduce-20")).compute().tolist() == [4] * 4


def test_a_device_promise_is_kept():
    x = LAZY.map_blocks(lambda block: block, meta=gr.device_meta(2, "f4"))
    assert gr.sum(x, strategy="reduce-12").dtype == "f4"
    with pytest.raises(gr.errors.ArgumentError, match="CuPy chunks; expected NumPy"):
        gr.sum(x, strategy="reduce-00")
    with pytest.raises(gr.errors.ArgumentError, match="reduce-12: NumPy chunks"):
        gr.sum(x, strategy="reduce-12").compute()
