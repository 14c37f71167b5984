"""Masked, sparse and long double arrays go to stock dask, unchanged; objects and strings where it has an answer."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
from test_bad_input import EVERY

import gpureduce_dask as gr
from gpureduce_dask import chunk
from gpureduce_dask.graph.meta import OBJECTS

stats = pytest.importorskip("dask.array.stats", reason="skew and kurtosis need SciPy")

NAMES = [
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "mean",
    "var",
    "std",
    "argmin",
    "argmax",
    "nansum",
    "nanmax",
    "nanvar",
    "nanargmin",
]


class SparseLike(np.lib.mixins.NDArrayOperatorsMixin):
    """A foreign chunk: the metadata of an array, and no data that NumPy can read."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)

    def __getitem__(self, key):
        return SparseLike((0,) * self.ndim, self.dtype)

    def astype(self, dtype):
        return SparseLike(self.shape, dtype)

    def __array__(self, *args, **kwargs):
        raise AssertionError("a sparse chunk was made dense")

    def __array_function__(self, func, types, args, kwargs):
        return NotImplemented

    def __array_ufunc__(self, *args, **kwargs):
        return NotImplemented


@pytest.fixture
def untouched(monkeypatch):
    """Fail where a chunk reaches our protocol."""

    def refuse(*args, **kwargs):
        raise AssertionError("a foreign chunk was reduced here")

    for name in ("reduce", "reduce_many", "combine", "finalise"):
        monkeypatch.setattr(chunk, name, refuse)


@pytest.mark.parametrize("name", NAMES)
def test_longdouble(name, untouched):
    if np.finfo(np.longdouble).nmant == np.finfo(np.float64).nmant:
        pytest.skip("longdouble is float64 here")
    x = da.from_array(np.arange(12, dtype=np.longdouble).reshape(3, 4) + 1, chunks=2)
    got, want = getattr(gr, name)(x, axis=0), getattr(da, name)(x, axis=0)
    assert got.name == want.name and got.dtype == want.dtype
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want.compute(scheduler="sync"))


def test_a_longdouble_result(untouched):
    x = da.ones(10, chunks=3)
    if np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant:
        assert gr.sum(x, dtype=np.longdouble).name == da.sum(x, dtype=np.longdouble).name


@pytest.mark.parametrize("name", NAMES[:9])
def test_masked(name, untouched):
    x = da.ma.masked_greater(da.from_array(np.arange(12.0).reshape(3, 4), chunks=2), 7)
    got, want = getattr(gr, name)(x, axis=1), getattr(da, name)(x, axis=1)
    assert got.name == want.name
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want.compute(scheduler="sync"))


def test_masked_numpy_arrays_and_functions_with_other_arguments(untouched):
    x = np.ma.masked_less(np.arange(12.0).reshape(3, 4), 2)
    assert gr.sum(x).compute(scheduler="sync") == x.sum()
    assert gr.average(x, axis=0, weights=[1, 2, 3]).compute(scheduler="sync").shape == (4,)
    d = da.ma.masked_less(da.from_array(np.arange(12.0), chunks=5), 2)
    assert gr.moment(d, 3, ddof=1).name == da.moment(d, 3, ddof=1).name


def test_sparse(untouched):
    x = da.ones((4, 6), chunks=2)
    x._meta = SparseLike((0, 0), "f8")
    assert gr.sum(x, axis=0).name == da.sum(x, axis=0).name
    with pytest.raises(gr.errors.DtypeError, match=r"sumsq.*SparseLike"):
        gr.sumsq(x)
    with pytest.raises(gr.errors.ArgumentError, match=r"ptp.*keepdims.*SparseLike"):
        gr.ptp(x, keepdims=True)
    with pytest.raises(gr.errors.DtypeError, match="SparseLike"):
        gr.reduction(x, gr.OPERATORS["sum"])


def test_a_masked_chunk_behind_a_numpy_meta_is_refused_by_scans_that_stock_dask_has_not():
    x = da.ones(4, chunks=2).map_blocks(lambda b: np.ma.masked_array(b, b > 0), meta=np.empty(0))
    for op in ("max", "last", "nanmax"):
        with pytest.raises(gr.errors.DtypeError, match="meta="):
            gr.scan(x, op, axis=0).compute(scheduler="sync")


def test_a_chunk_of_another_dtype():
    """A chunk may be narrower than its array says, never of another kind."""
    x = da.ones(4, chunks=2).map_blocks(lambda b: b.astype("f4"), meta=np.empty(0))
    assert gr.sum(x).compute(scheduler="sync") == 4
    x = da.ones(4, chunks=2).map_blocks(lambda b: b * 1j, meta=np.empty(0))
    with pytest.raises(gr.errors.DtypeError, match=r"complex128.*float64"):
        gr.sum(x).compute(scheduler="sync")


OTHERS = {
    "objects": np.array([[3, 1, 2], [5, 4, 7]], object),
    "unicode": np.array([["b", "a", ""], ["d", "c", "b"]]),
    "bytes": np.array([[b"b", b"a", b""], [b"d", b"c", b"b"]]),
    "strings": np.array([["b", "a", ""], ["d", "c", "b"]], np.dtypes.StringDType()),
    "records": np.array([[(1.0,), (0.0,), (2.0,)], [(0.0,), (0.0,), (0.0,)]], [("a", "f4")]),
}


def stock_answer(name, x):
    """The graph of stock dask, or None where it or its tasks fail, or its answer is not NumPy's."""
    module = stats if name in ("skew", "kurtosis") else da
    numbers = x.astype(int) if x.dtype == object else x
    try:
        graph = getattr(module, name)(da.from_array(x, chunks=2), axis=0)
        answer = graph.compute(scheduler="sync")
        wanted = answer if module is stats else getattr(np, name)(numbers, axis=0)
    except Exception:
        return None
    return graph if np.all(answer == wanted) else None


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", [n for n in EVERY if n not in ("sumsq", "norm", "vector_norm")])
def test_objects_and_strings_where_stock_dask_answers(name, kind):
    """And where it does not, an error when the graph is built."""
    x = OTHERS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = stock_answer(name, x)
    if name in ("nanargmin", "nanargmax") and kind == "objects":  # over all axes, and not along one: see below
        return
    if want is None:
        with pytest.raises(gr.errors.DtypeError, match=rf"^{name}: dtype"):
            getattr(gr, name)(da.from_array(x, chunks=2), axis=0)
        return
    got = getattr(gr, name)(da.from_array(x, chunks=2), axis=0)
    assert got.name == want.name and got.dtype == want.dtype
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want.compute(scheduler="sync"))


def test_objects_in_two_arrays(untouched):
    x, weights = da.from_array(OTHERS["objects"], chunks=2), np.array([[1, 2, 3], [3, 2, 1]])
    assert gr.vdot(x, weights).compute(scheduler="sync") == np.vdot(OTHERS["objects"], weights)
    with pytest.raises(gr.errors.DtypeError, match="average: dtype object"):  # stock dask cannot divide what it adds up
        gr.average(x, axis=0, weights=weights)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "nansum", "nanprod", "nanmean", "nanvar"])
def test_object_results(name, untouched):
    """Python's integers do not wrap."""
    x = np.array([2**62, 2**62, 2**62])
    got = getattr(gr, name)(da.from_array(x, chunks=1), dtype=object)
    assert got.dtype == object and got.name == getattr(da, name)(da.from_array(x, chunks=1), dtype=object).name
    assert got.compute(scheduler="sync") == getattr(np, name)(x.astype(object))


class Unread:
    """Building a graph runs no code of the elements."""

    def __getattribute__(self, name):
        raise AssertionError(f"{name} of an element was asked for")


def test_building_a_graph_leaves_objects_alone(untouched):
    elements = np.frompyfunc(lambda _: Unread(), 1, 1)(np.arange(2))
    x = da.Array({("x", 0): elements}, "x", ((2,),), dtype=object)
    for name in sorted(OBJECTS - {"vdot"}):
        assert getattr(gr, name)(x, *[5] * (name == "moment")).dtype is not None


@pytest.mark.parametrize("name", ["nanargmin", "nanargmax"])
def test_positions_of_objects(name):
    x = da.from_array(np.array([3, 1, 2, 5, 0, 7], object), chunks=2)
    assert getattr(gr, name)(x).compute(scheduler="sync") == getattr(da, name)(x).compute(scheduler="sync")
    with pytest.raises(TypeError):  # from dask's tasks
        getattr(gr, name)(x.reshape(2, 3), axis=0).compute(scheduler="sync")


def test_peak_to_peak_of_complex_elements():
    z = np.random.default_rng(0).integers(0, 3, (6, 8)) + 1j * np.arange(8)
    for options in ({}, {"axis": 0}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}):
        np.testing.assert_array_equal(gr.ptp(da.from_array(z, chunks=(2, 3)), **options), np.ptp(z, **options))
