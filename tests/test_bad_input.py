"""What bad input gets: an error when the graph is built, that names the operation and the remedy."""

from __future__ import annotations

import pickle
import subprocess
import sys

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask import errors

X = da.ones((4, 6), chunks=2)
EVERY = [
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "count_nonzero",
    "mean",
    "var",
    "std",
    "argmin",
    "argmax",
    "ptp",
    "sumsq",
    "norm",
    "vector_norm",
    "skew",
    "kurtosis",
    "nansum",
]
EVERY += ["nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd", "nanargmin", "nanargmax", "average"]


@pytest.mark.parametrize("axis", [2, -3, (0, 2), "x", 1.0, (0, None), True])
@pytest.mark.parametrize("name", EVERY)
def test_unknown_axis(name, axis):
    with pytest.raises(errors.AxisError, match=rf"^{name}: axis .* 2 dimensions; expected None or integers"):
        getattr(gr, name)(X, axis=axis)


@pytest.mark.parametrize("axis", [(0, 0), (1, -1), [0, 1, 0]])
def test_axis_named_twice(axis):
    with pytest.raises(np.exceptions.AxisError, match="twice"):
        gr.sum(X, axis=axis)


def test_axis_of_a_scalar():
    with pytest.raises(errors.AxisError, match="0-d"):
        gr.sum(da.asarray(3.0), axis=0)


@pytest.mark.parametrize("name", sorted({*EVERY} - {"any", "all", "count_nonzero"}))
@pytest.mark.parametrize("dtype, remedy", [("U3", "astype"), ("S3", "astype"), ([("a", "f4")], r"x\['field'\]")])
def test_dtypes_without_meaning(name, dtype, remedy):
    x = da.from_array(np.empty((2, 2), dtype), chunks=1)
    with pytest.raises(errors.DtypeError, match=rf"^{name}: dtype .*{remedy}"):
        getattr(gr, name)(x)


@pytest.mark.parametrize("name", ["sumsq", "norm", "nanmean", "nanvar", "nanstd"])
def test_objects_without_meaning(name):
    x = da.from_array(np.empty((2, 2), object), chunks=1)
    with pytest.raises(errors.DtypeError, match=rf"^{name}: dtype object; .*astype"):
        getattr(gr, name)(x)
    with pytest.raises(errors.DtypeError, match="own"):
        gr.reduction(x, gr.Monoid(name="own", fields={"a": "f8"}, identity=(0,), lift=len, combine=len, finalise=len))


@pytest.mark.parametrize("name, dtype", [("sum", "U5"), ("std", object), ("nanstd", object), ("sumsq", object)])
def test_result_dtypes_without_meaning(name, dtype):
    with pytest.raises(errors.DtypeError, match=f"{name}: dtype"):
        getattr(gr, name)(X, dtype=dtype)


def test_moments_of_strings():
    for order in (2, 5):  # the second one is stock dask's
        with pytest.raises(errors.DtypeError, match="moment: dtype <U3"):
            gr.moment(da.from_array(np.empty(3, "U3")), order)


@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_variances_in_integers(name, dtype):
    for x in (X, X.astype("i4")):
        with pytest.raises(errors.DtypeError, match=rf"^{name}: dtype=.*expected float or complex.*astype"):
            getattr(gr, name)(x, axis=0, dtype=dtype)


@pytest.mark.parametrize("name", ["skew", "kurtosis"])
def test_complex_without_meaning(name):
    with pytest.raises(errors.DtypeError, match=f"{name}.*complex"):
        getattr(gr, name)(X.astype("c8"))


@pytest.mark.parametrize("split_every", [1, 0, -4, 2.5, "4", True, {0: 1}, {0: 2, 1: 0}])
def test_split_every(split_every):
    with pytest.raises(errors.ArgumentError, match=r"^mean: split_every .*2 or more"):
        gr.mean(X, split_every=split_every)


def test_split_every_of_an_unknown_axis():
    with pytest.raises(errors.AxisError, match="axis 5"):
        gr.mean(X, split_every={5: 2})


def test_unknown_operator():
    with pytest.raises(errors.OperatorError, match=r"argmx.*argmax"):
        gr.reduction(X, "argmx")
    with pytest.raises(KeyError, match="frobnicate"):
        gr.reduction(X, "frobnicate")


@pytest.mark.parametrize(
    "name", ["min", "max", "argmin", "argmax", "ptp", "nanmin", "nanmax", "nanargmin", "nanargmax"]
)
def test_empty_without_identity(name):
    function = getattr(gr, name)
    for x in (X[:0], X[:, :0], X[:0, :0]):
        with pytest.raises(errors.EmptyError, match=rf"^{name}: shape \({x.shape[0]}, {x.shape[1]}\)"):
            function(x)
    assert function(X[:0], axis=1).compute(scheduler="sync").shape == (0,)
    with pytest.raises(ValueError, match=name):
        function(X[:0, :0], axis=0)


@pytest.mark.parametrize("name", ["nanargmin", "nanargmax"])
def test_all_nan(name):
    x = da.full((2, 3), np.nan, chunks=1)
    with pytest.raises(errors.EmptyError, match="NaN"):
        getattr(gr, name)(x, axis=1).compute(scheduler="sync")


@pytest.mark.parametrize("name", ["nanmin", "nanmax"])
def test_all_nan_warns(name):
    x = da.full((2, 3), np.nan, chunks=1)
    with pytest.warns(RuntimeWarning, match="NaN"):
        result = getattr(gr, name)(x, axis=1).compute(scheduler="sync")
    assert np.isnan(result).all()


def test_unknown_keyword():
    with pytest.raises(TypeError, match=r"^sum: got an unexpected keyword argument 'nowhere'; .*Did you mean where=\?"):
        gr.sum(X, nowhere=True)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gr.sum(), "sum: missing a required argument: 'a'; expected the arguments a, axis, dtype"),
        (lambda: gr.stats(X), "stats: missing a required argument: 'names'; .*See help"),
        (lambda: gr.grouped(X), "grouped: missing a required argument: 'labels'"),
        (lambda: gr.mean(X, axsi=0), "mean: got an unexpected keyword argument 'axsi'; .*Did you mean axis="),
        (lambda: gr.mean(X, keepdim=True), "mean: .*Did you mean keepdims="),
        (lambda: gr.mean(X, skipna=True), "mean: .*mean never skips NaN; functions whose names begin with nan do"),
        (lambda: gr.cumsum(X, 0, None, None, "sequential", None, 1), "cumsum: too many positional arguments"),
        (lambda: gr.sum(X, a=X), "sum: multiple values for argument 'a'"),
    ],
)
def test_arguments_that_do_not_fit(call, says):
    with pytest.raises(errors.ArgumentTypeError, match=f"^{says}"):
        call()


class Tensor:
    """As torch has it: a dtype that NumPy does not know."""

    __module__ = "torch"
    dtype, shape = "torch.float32", (3,)


class DataFrameGroupBy:
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("x", "says"),
    [
        ("warm", "the string 'warm'; expected an array, a list or a number. Pass the array itself"),
        (b"warm", "the string b'warm'"),
        (Tensor(), r"torch's Tensor; .* x\.numpy\(\), or of one on a GPU cupy\.from_dlpack"),
        (DataFrameGroupBy(), "type DataFrameGroupBy; .*a label for each element, to grouped"),
        ({"a": 1}, r"type dict; .*list\(x\.values\(\)\)"),
        (None, "type NoneType; expected an array"),
    ],
)
def test_what_is_no_array(x, says):
    calls = [gr.sum, gr.argmax, gr.cumsum, gr.describe, gr.persist, lambda x: gr.grouped(x, [0]), gr.bincount]
    calls += [lambda x: gr.stats(x, ["min"]), lambda x: gr.histogram(x, 3, (0, 1)), lambda x: gr.reduction(x, "sum")]
    if x is not None:  # as good as no mask
        calls += [lambda x: gr.sum(X, where=x), lambda x: gr.mean(X, weights=x)]
    for call in calls:
        with pytest.raises(errors.ArgumentTypeError, match=rf"^\w+( by \w+)?: {says}"):
            call(x)


def test_labels_by_name():
    with pytest.raises(
        errors.ArgumentTypeError, match=r"^grouped: labels='month'; expected an integer .*np\.unique\(x\['"
    ):
        gr.grouped(X, "month", axis=0)


def test_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [4, 8]})
    assert gr.sum(frame).compute() == 15 and gr.sum(frame, axis=0).compute().tolist() == [3, 12]
    assert gr.describe(frame.a)["mean"] == 1.5
    with pytest.raises(errors.AxisError, match=r"^sum: axis 'a' of an array of 2 dimensions"):
        gr.sum(frame, axis="a")
    with pytest.raises(errors.DtypeError, match=r"^describe: dtype object; .*x\.astype\(float\)"):
        gr.describe(pd.Series(["a", "b"]))


class Frame:
    """As dask's data frames: a collection that can be made an array of, with rows that nobody has counted."""

    def __dask_graph__(self):
        return {}

    def to_dask_array(self):
        x = da.arange(6.0, chunks=3)
        return x[x > 1]


def test_a_frame_of_unknown_length():
    with pytest.raises(errors.ArgumentError, match=r"^argmax: unknown chunk sizes along axis 0") as caught:
        gr.argmax(Frame())
    assert "x.to_dask_array(lengths=True)" in caught.value.__notes__[0]
    assert gr.sum(Frame()).compute() == 14


@pytest.mark.parametrize("x", [np.array(["a"]), np.array(["2020"], "M8[D]"), ["a", "b"]])
def test_histograms_of_what_has_no_bins(x):
    with pytest.raises(errors.DtypeError, match=r"^histogram: dtype \S+; expected bool, integer or float\. .*astype"):
        gr.histogram(x, 3, (0, 1))


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'meen'") as caught:
        _ = gr.meen
    assert caught.value.name == "meen" and caught.value.obj is gr  # of which Python makes "Did you mean: 'mean'?"


def test_warm_without_a_client():
    with pytest.raises(errors.ArgumentTypeError, match=r"^warm: type int; expected a distributed\.Client"):
        gr.warm(3)


def test_unknown_chunk_sizes():
    x = da.arange(6.0, chunks=3)
    x = x[x > 1]
    assert gr.sum(x).compute() == 14
    for call in (gr.argmax, lambda x: gr.grouped(x, [0, 1, 0, 1]), lambda x: gr.cumsum(X[X[:, 0] > 0])):
        with pytest.raises(
            errors.ArgumentError, match=r"^\w+: unknown chunk sizes.*; expected .*compute_chunk_sizes\(\)"
        ):
            call(x)


def test_arity():
    with pytest.raises(errors.ArgumentError, match="vdot"):
        gr.reduction(X, "vdot")
    with pytest.raises(errors.ArgumentError, match="tuple of 3"):
        gr.reduction((X, X, X), "vdot")


def test_two_arrays_of_two_shapes():
    with pytest.raises(errors.ArgumentError, match=r"vdot.*shapes"):
        gr.vdot(X, da.ones(7))
    with pytest.raises(errors.ArgumentError, match=r"average.*weights of shape \(3,\)"):
        gr.average(X, axis=0, weights=[1, 2, 3])


def test_two_arrays_whose_chunks_turn_out_to_differ():
    x, y = da.ones(6, chunks=3), da.ones(8, chunks=4)
    x._chunks = y._chunks = ((np.nan, np.nan),)
    with pytest.raises(errors.ArgumentError, match=r"vdot: chunks of shapes \(3,\) and \(4,\)"):
        gr.vdot(x, y).compute(scheduler="sync")


@pytest.mark.parametrize(
    "axis, ord, says",
    [
        (0, "fro", "ord 'fro' of a vector; expected None or a number"),
        (0, "nuc", "ord 'nuc' of a vector"),
        (None, 3, "ord 3 of a matrix; expected None, 'fro', 'nuc', 1"),
        ((0, 1), 0, "ord 0 of a matrix"),
    ],
)
def test_norm(axis, ord, says):
    with pytest.raises(errors.ArgumentError, match=f"^norm: {says}"):
        gr.norm(X, ord=ord, axis=axis)
    with pytest.raises((ValueError, TypeError)):
        np.linalg.norm(X.compute(), ord=ord, axis=axis)


def test_norm_of_more_than_matrices():
    cube = da.ones((2, 3, 4), chunks=2)
    with pytest.raises(errors.ArgumentError, match=r"^norm: ord=2 for 3 axes; .*vector_norm"):
        gr.norm(cube, ord=2)
    with pytest.raises(errors.ArgumentError, match=r"^norm: ord='nuc' for 3 dimensions"):
        gr.norm(cube, ord="nuc", axis=(0, 1))
    with pytest.raises(errors.ArgumentError, match=r"^norm: weights= with ord=1 of matrices"):
        gr.norm(X, ord=1, weights=X)
    with pytest.raises(errors.ArgumentError, match=r"^vector_norm: where= with ord=-inf"):
        gr.vector_norm(X, ord=-np.inf, where=X > 0)


@pytest.mark.parametrize("order", [-1, 2.5, "2"])
def test_moment_order(order):
    with pytest.raises(errors.ArgumentError, match=r"moment: order"):
        gr.moment(X, order)


@pytest.mark.parametrize("ddof", ["1", None, 1j])
def test_ddof(ddof):
    with pytest.raises(errors.ArgumentError, match=r"var: ddof"):
        gr.var(X, ddof=ddof)


def test_out_of_another_shape():
    with pytest.raises(ValueError, match="shape"):
        gr.sum(X, axis=0, out=da.empty(3))


def test_returned_needs_sizes():
    x = da.ones(6, chunks=3)
    x._chunks = ((np.nan, np.nan),)
    with pytest.raises(errors.ArgumentError, match="compute_chunk_sizes"):
        gr.average(x, returned=True)


def test_errors_pickle():
    pytest.importorskip("distributed")  # it changes how errors pickle
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.GpureduceError)]
    assert errors.DeviceMemoryError in classes and errors.AxisError in classes
    for error in (each("m") for each in classes):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) == "m"


def test_the_import_is_light():
    code = """
import sys, gpureduce_dask
loaded = {m.partition(".")[0] for m in sys.modules} & {"cupy", "dask", "distributed", "matplotlib", "scipy"}
assert not loaded, loaded
gpureduce_dask.sum
assert "dask" in sys.modules
loaded = {m.partition(".")[0] for m in sys.modules} & {"distributed", "matplotlib"}
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_lazy_in_another_way():
    """Delayed objects, bags and arrays of other packages, whose chunks are not to be had."""

    class Array:  # as the package dask-array has them
        dtype, shape = np.dtype("f8"), (3,)

        def __dask_graph__(self):
            return {}

    for x in (dask.delayed([1, 2]), dask.bag.from_sequence([1, 2]), Array()):
        for call in (gr.sum, gr.cumsum, gr.describe, gr.persist, lambda x: gr.sum(np.ones(3), where=x)):
            with pytest.raises(errors.ArgumentTypeError, match=r"^\w+: \w+'s \w+; expected an array of dask\.array"):
                call(x)


def test_sequences_numbers_and_chunks_that_are_lists():
    for x in ([1, 2.5], (1, 2), range(3), 4, np.float32(2), [da.ones(2), da.zeros(2)]):
        want = np.asarray(x)
        np.testing.assert_array_equal(gr.sum(x), want.sum())
        np.testing.assert_array_equal(gr.cumsum(x), want.cumsum())
    lists = da.arange(6.0, chunks=3).map_blocks(np.ndarray.tolist, meta=np.empty(0))
    assert gr.cumsum(lists)[-1] == gr.sum(lists) == 15
    assert gr.histogram(lists, bins=2, range=(0, 6))[0].compute().tolist() == [3, 3]
