"""Plain dask under ``gr.accelerate()`` answers as stock dask does: every reduction, dtype, axis and error."""

from __future__ import annotations

import warnings
from functools import partial

import dask.array as da
import numpy as np
import pytest
from dask.array import reductions
from plain_calls import HOLED, NAMES, SKIPPING, X, assert_same, outcome, switched_off  # noqa: F401

import gpureduce_dask as gr

ONE_AXIS = ("argmin", "argmax", "nanargmin", "nanargmax")  # or all


def call(name, x, **arguments):
    """A function of dask, looked up when it is called."""
    return getattr(reductions if name == "moment" else da, name)(x, **arguments)


CALLS = {name: partial(call, name) for name in NAMES + SKIPPING} | {
    "var of a sample": partial(call, "var", ddof=1),
    "nanstd of a sample": partial(call, "nanstd", ddof=1),
    "moment of order 2": partial(call, "moment", order=2),
    "moment of order 3": partial(call, "moment", order=3),
    "moment of order 4": partial(call, "moment", order=4, ddof=1),
    "sum in f4": partial(call, "sum", dtype="f4"),
    "sum in c8": partial(call, "sum", dtype="c8"),
    "product in c16": partial(call, "prod", dtype="c16"),
    "mean in f4": partial(call, "mean", dtype="f4"),
    "variance in f4": partial(call, "var", dtype="f4"),
    "std in f4": partial(call, "std", dtype="f4"),
}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"axis": 0},
        {"axis": -1, "keepdims": True},
        {"axis": np.int64(1), "split_every": 2},
        {"axis": (0, 2)},
        {"axis": (0, 1), "split_every": {0: 3}},
        {"keepdims": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", CALLS)
def test_the_answers_of_stock_dask(name, arguments):
    x = da.from_array(HOLED if "nan" in name else X, chunks=(3, 2, 5))
    if name in ("ptp", "count_nonzero"):
        arguments = {k: v for k, v in arguments.items() if k == "axis"}
    is_refused = (name in ONE_AXIS and isinstance(arguments.get("axis"), tuple)) or (
        name.startswith("nanarg")
        and "axis" in arguments  # the second row of each plane has nothing but NaN
        and arguments["axis"] != 1
    )
    tolerance = 1e-5 if name.endswith((" f4", " c8")) else 1e-12
    assert assert_same(lambda: CALLS[name](x, **arguments), tolerance) != is_refused


@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f2", "f4", "c8", ">f8"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes(name, dtype):
    """Where a minimum keeps the byte order of its array, and complex numbers have no third moment, dask answers."""
    x = np.abs(X) if dtype == "u1" else X + 1j * X[::-1] if "c" in dtype else X
    x = da.from_array(x.astype(dtype), chunks=(3, 3, 5))
    tolerance = {"f2": 1e-2, "f4": 1e-5, "c8": 1e-5}.get(dtype, 1e-5 if name.endswith((" f4", " c8")) else 1e-12)
    taken = assert_same(lambda: CALLS[name](x, axis=0), tolerance)
    theirs = (dtype == ">f8" and name in ("min", "max", "nanmin", "nanmax")) or (dtype == "?" and name == "ptp")
    theirs |= dtype[0] == "c" and name in (
        "ptp",
        "moment of order 3",
        "moment of order 4",
        "variance in f4",
        "std in f4",
    )
    assert taken != theirs


AXES = [None, (), 1, -3, (2, 0), [1, 2], (1, 1), 3, -4, 1.0, True, (0, True), "0", np.array([0, 1])]


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "nanvar", "argmax", "std", "min"])
def test_axes_and_errors_are_those_of_stock_dask(name, axis):
    x = da.from_array(X, chunks=(3, 2, 5))
    assert_same(lambda: getattr(da, name)(x, axis=axis))


@pytest.mark.parametrize("split", [0, 1, 2, "2", {0: 2}, {7: 2}, 2.5, None], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "argmax"])
def test_split_every(name, split):
    x = da.from_array(X, chunks=2)
    assert_same(lambda: getattr(da, name)(x, axis=0, split_every=split))


ODD = {
    "a scalar": da.from_array(np.float64(3.0)),
    "no rows": da.from_array(np.empty((0, 4)), chunks=2),
    "unknown sizes": (lambda x: x[x > 0])(da.from_array(X.ravel(), chunks=50)),
    "nothing but NaN": da.from_array(np.full((4, 5), np.nan), chunks=2),
    "infinities": da.from_array(np.array([[np.inf, 1, -np.inf], [2, 3, np.nan]]), chunks=2),
    "one element": da.from_array(X[0, :1, :1], chunks=1),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", NAMES + SKIPPING)
def test_odd_arrays(name, kind):
    x = ODD[kind]
    assert_same(lambda: getattr(da, name)(x))
    if x.ndim:
        assert_same(lambda: getattr(da, name)(x, axis=0))


@pytest.mark.parametrize("kind", ["nothing but NaN", "no rows", "one element"])
@pytest.mark.parametrize("name", [*NAMES, *SKIPPING, "var of a sample", "nanstd of a sample"])
def test_no_warning_that_stock_dask_spares(name, kind):
    with gr.accelerate(numpy=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome(lambda: CALLS[name](ODD[kind], axis=0))
    assert not caught


def test_where_stock_dask_is_not_numpy():
    """Of chunks without elements its argmax raises and its variance is NaN; of equals it takes an early chunk's."""
    holed = da.from_array(np.arange(6.0), chunks=((0, 2, 0, 4, 0),))
    equals = np.array([[0, 0, 1], [1, 0, 0]])
    with gr.accelerate(numpy=True):
        assert holed.argmax().compute() == 5
        assert holed.var().compute() == np.var(np.arange(6.0))
        assert da.from_array(equals, chunks=2).argmax().compute() == equals.argmax() == 2
    assert da.from_array(equals, chunks=2).argmax().compute() == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda x: da.average(x, axis=0, weights=np.arange(7.0)),
        lambda x: da.linalg.norm(x.reshape(7, 30)),
        lambda x: da.cov(x[:, :, 0]),
        lambda x: da.tensordot(x, x, axes=((0, 1), (0, 1))),
        lambda x: x[:, :, 0].dot(x[:, :, 1].T),
        lambda x: (x - x.mean(axis=0)).std(axis=0),
        lambda x: da.cumsum(x, axis=0),
        lambda x: da.median(x, axis=0),
        lambda x: da.topk(x, 3, axis=0),
        lambda x: da.percentile(x.ravel(), [20, 50]),
    ],
)
def test_what_dask_makes_of_reductions(call):
    assert_same(lambda: call(da.from_array(X, chunks=(3, 2, 5))), 1e-10)
