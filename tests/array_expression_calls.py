"""Calls on arrays that are expressions, with NumPy's answers: ``python array_expression_calls.py dask.array calls``.

A program of its own, for dask decides about query planning when ``dask.array`` is first imported. It prints a JSON
object of each call's name and what is wrong with its result, which is nothing. Each part has a process to itself, which
on Linux begins with what has been imported already: that takes longer than most parts.
"""

import importlib
import json
import multiprocessing
import sys
import traceback
from types import SimpleNamespace

import numpy as np
from clusters import local_cluster

# Chunks that divide neither size, a lazy array above NumPy data, and NaN in a third of another one.
A = np.random.default_rng(7).normal(1, 2, (23, 17))
B = np.random.default_rng(8).normal(0, 1, (23, 17))
N = np.where(A > 2, np.nan, A)
Y = A * 2 + 1
MASK = A > 0
LABELS = np.arange(23) % 4
INTS = np.arange(40) ** 2 % 7
AXES = {"all": None, "rows": 0, "columns": 1, "both": (0, 1)}


def by_group(values, labels, count):
    return np.stack([values[labels == k].sum(axis=0) for k in range(count)], axis=-1)


def weighted(values, weights):
    return (values * weights).sum(0) / weights.sum(0)


# By name: what is called with (gr, arrays), and NumPy's answer. Arrays: x, w lazy; n with NaN; i of integers.
CALLS = {
    **{f"sum of {k}": (lambda gr, v, a=a: gr.sum(v.y, axis=a), Y.sum(axis=a)) for k, a in AXES.items()},
    **{
        f"{f} of {k}": (lambda gr, v, f=f, a=a: getattr(gr, f)(v.y, axis=a), getattr(np, f)(Y, axis=a))
        for f in ("prod", "min", "max", "mean", "var", "std", "any", "all", "count_nonzero", "ptp")
        for k, a in AXES.items()
    },
    **{
        f"{f} of {k}": (lambda gr, v, f=f, a=a: getattr(gr, f)(v.y, axis=a), getattr(np, f)(Y, axis=a))
        for f in ("argmin", "argmax")
        for k, a in AXES.items()
        if k != "both"
    },
    **{
        f: (lambda gr, v, f=f: getattr(gr, f)(v.n, axis=0), getattr(np, f)(N, axis=0))
        for f in ("nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd", "nanargmin", "nanargmax")
    },
    "keepdims": (lambda gr, v: gr.sum(v.y, axis=1, keepdims=True), Y.sum(axis=1, keepdims=True)),
    "split_every": (lambda gr, v: gr.mean(v.y, axis=0, split_every=2), Y.mean(0)),
    "dtype": (lambda gr, v: gr.sum(v.y, axis=0, dtype="f4"), Y.sum(axis=0, dtype="f4")),
    "ddof": (lambda gr, v: gr.var(v.y, axis=0, ddof=1), Y.var(axis=0, ddof=1)),
    "moment": (lambda gr, v: gr.moment(v.y, 3, axis=0), ((Y - Y.mean(0)) ** 3).mean(0)),
    "skew": (lambda gr, v: gr.skew(v.y, axis=0), ((Y - Y.mean(0)) ** 3).mean(0) / Y.std(0) ** 3),
    "kurtosis": (lambda gr, v: gr.kurtosis(v.y, axis=0), ((Y - Y.mean(0)) ** 4).mean(0) / Y.var(0) ** 2 - 3),
    "average": (lambda gr, v: gr.average(v.y, axis=0, weights=v.w**2), weighted(Y, B**2)),
    "weights of another kind": (lambda gr, v: gr.average(v.y, axis=0, weights=B**2), weighted(Y, B**2)),
    "vdot": (lambda gr, v: gr.vdot(v.y, v.w), np.vdot(Y, B)),
    "sumsq": (lambda gr, v: gr.sumsq(v.y, axis=0), (Y**2).sum(0)),
    "norm": (lambda gr, v: gr.norm(v.y), np.linalg.norm(Y)),
    "norm of rows": (lambda gr, v: gr.norm(v.y, ord=3, axis=1), np.linalg.norm(Y, 3, axis=1)),
    "vector_norm": (lambda gr, v: gr.vector_norm(v.y, axis=0), np.linalg.norm(Y, axis=0)),
    "reduction by name": (lambda gr, v: gr.reduction(v.y, "max", axis=0), Y.max(0)),
    "group": (lambda gr, v: gr.reduction(v.y, "sum", axis=0, group=2), Y.sum(0)),
    "stats": (
        lambda gr, v: gr.stats(v.y, ["min", "mean", "std", "argmax"], axis=0),
        (Y.min(0), Y.mean(0), Y.std(0), Y.argmax(0)),
    ),
    "where": (lambda gr, v: gr.sum(v.y, axis=0, where=v.m), Y.sum(axis=0, where=MASK)),
    "where of NumPy": (lambda gr, v: gr.mean(v.y, axis=0, where=MASK), Y.mean(axis=0, where=MASK)),
    "map_reduce": (lambda gr, v: gr.map_reduce(lambda p, q: p * q + 1, "sum", v.y, v.w, axis=0), (Y * B + 1).sum(0)),
    "map_reduce of many": (
        lambda gr, v: gr.map_reduce(lambda p, q: p - q, ["mean", "max"], v.y, v.w, axis=1),
        ((Y - B).mean(1), (Y - B).max(1)),
    ),
    "map_reduce untraced": (lambda gr, v: gr.map_reduce(lambda p: p[:, ::-1], "max", v.y, axis=0), Y[:, ::-1].max(0)),
    "map_scan": (lambda gr, v: gr.map_scan(np.abs, "sum", v.y, axis=0), np.abs(Y).cumsum(0)),
    "product": (lambda gr, v: gr.reduction((v.y, v.w**2), "average", axis=0), weighted(Y, B**2)),
    **{
        f"{f} along {a}": (lambda gr, v, f=f, a=a: getattr(gr, f)(v.y, axis=a), getattr(np, f)(Y, axis=a))
        for f in ("cumsum", "cumprod")
        for a in (0, 1, None)
    },
    "nancumsum": (lambda gr, v: gr.nancumsum(v.n, axis=1), np.nancumsum(N, axis=1)),
    "nancumprod": (lambda gr, v: gr.nancumprod(v.n, axis=0), np.nancumprod(N, axis=0)),
    "cummax": (lambda gr, v: gr.cummax(v.y, axis=0), np.maximum.accumulate(Y, axis=0)),
    "cummin": (lambda gr, v: gr.cummin(v.y, axis=1), np.minimum.accumulate(Y, axis=1)),
    "cumulative_sum": (
        lambda gr, v: gr.cumulative_sum(v.y, axis=0, include_initial=True),
        np.concatenate([np.zeros((1, 17)), Y.cumsum(0)]),
    ),
    "cumulative_prod": (lambda gr, v: gr.cumulative_prod(v.y, axis=1), Y.cumprod(1)),
    "scan in reverse": (lambda gr, v: gr.scan(v.y, "sum", axis=0, reverse=True), Y[::-1].cumsum(0)[::-1]),
    "segments": (
        lambda gr, v: gr.scan(v.y, "sum", axis=0, segments=v.labels // 2),
        np.concatenate([Y[k : k + 2].cumsum(0) for k in range(0, 22, 2)] + [Y[22:]]),
    ),
    "scans": (
        lambda gr, v: gr.scan(v.y, ["sum", "max"], axis=0),
        (Y.cumsum(0), np.maximum.accumulate(Y, axis=0)),
    ),
    "ffill": (lambda gr, v: gr.ffill(v.f, axis=0), [np.nan, 1, 1, 1, 4, 4]),
    "bfill": (lambda gr, v: gr.bfill(v.f, axis=0), [1, 1, 4, 4, 4, np.nan]),
    "grouped": (lambda gr, v: gr.grouped(v.y, LABELS, "sum", axis=0), by_group(Y, LABELS, 4)),
    "grouped by an array": (
        lambda gr, v: gr.grouped(v.y, v.labels % 4, "sum", axis=0, num_groups=4),
        by_group(Y, LABELS, 4),
    ),
    "grouped by a line of each": (
        lambda gr, v: gr.grouped(v.y, (v.labels % 4, np.zeros(17, int)), "sum", num_groups=(4, 1)),
        by_group(Y, LABELS, 4).sum(0),
    ),
    "bincount": (lambda gr, v: gr.bincount(v.i, minlength=7), np.bincount(INTS, minlength=7)),
    "bincount by weights": (
        lambda gr, v: gr.bincount(v.i, weights=v.i * 0.5, minlength=9),
        np.bincount(INTS, INTS * 0.5, minlength=9),
    ),
    "histogram": (lambda gr, v: gr.histogram(v.y, 5, (-4, 8))[0], np.histogram(Y, 5, (-4, 8))[0]),
    "histogram by edges": (lambda gr, v: gr.histogram(v.y, [-4, 0, 1, 9])[0], np.histogram(Y, [-4, 0, 1, 9])[0]),
    "histogram with weights": (
        lambda gr, v: gr.histogram(v.y, 5, (-4, 8), weights=v.w**2)[0],
        np.histogram(Y, 5, (-4, 8), weights=B**2)[0],
    ),
    "density": (
        lambda gr, v: gr.histogram(v.y, 5, (-4, 8), density=True)[0],
        np.histogram(Y, 5, (-4, 8), density=True)[0],
    ),
    "persist": (lambda gr, v: gr.persist(v.y), Y),
    "sum of what is persisted": (lambda gr, v: gr.sum(gr.persist(v.y), axis=0), Y.sum(0)),
    "chunks in memory": (lambda gr, v: gr.sum(v.x, axis=1), A.sum(1)),
    "what is made of a result": (lambda gr, v: (v.y - gr.mean(v.y, axis=0)).sum(axis=1), (Y - Y.mean(0)).sum(1)),
    "a result of a result": (lambda gr, v: gr.max(gr.cumsum(v.y, axis=0) + 1, axis=0), (Y.cumsum(0) + 1).max(0)),
    "an operand in other chunks": (
        lambda gr, v: gr.map_reduce(lambda p, q: p * q, "sum", v.y, v.w.rechunk((5, 17)), axis=0),
        (Y * B).sum(0),
    ),
    "a slice of a scan": (lambda gr, v: gr.cumsum(v.y, axis=0)[3:20:2, 1:], Y.cumsum(0)[3:20:2, 1:]),
    "rechunked": (lambda gr, v: gr.cumsum(v.y, axis=0).rechunk((23, 5)) + 1, Y.cumsum(0) + 1),
    "transposed": (lambda gr, v: gr.cumsum(v.y.T, axis=1).T, Y.cumsum(0)),
    "out": (lambda gr, v: gr.sum(v.y, axis=0, out=v.w[0]), Y.sum(0)),
    "0-d": (lambda gr, v: gr.sum(gr.sum(v.y)), Y.sum()),
    "empty": (lambda gr, v: gr.sum(v.y[:0], axis=0), np.zeros(17)),
}

# Calls without an expression among the arguments: with query planning on their results are expressions none the less.
OF_NUMPY = {
    "sum of NumPy's": (lambda gr: gr.sum(A, axis=0), A.sum(0)),
    "cumsum of NumPy's": (lambda gr: gr.cumsum(A, axis=None), A.cumsum()),
    "histogram of NumPy's": (lambda gr: gr.histogram(A, 5, (-4, 8))[0], np.histogram(A, 5, (-4, 8))[0]),
    "persist of NumPy's": (lambda gr: gr.persist(A), A),
}


def arrays(xp):
    x, w = xp.from_array(A, chunks=(5, 7)), xp.from_array(B, chunks=(5, 7))
    return SimpleNamespace(
        x=x,
        y=x * 2 + 1,
        w=w + 0,
        n=xp.from_array(N, chunks=(5, 7)) + 0,
        m=x > 0,
        i=xp.from_array(INTS, chunks=9) + 0,
        labels=xp.from_array(np.arange(23), chunks=5) + 0,
        f=xp.from_array(np.array([np.nan, 1, np.nan, np.nan, 4, np.nan]), chunks=2),
    )


def fault(found, wanted, kind):
    """What is wrong with a result, or nothing."""
    if isinstance(wanted, tuple):
        if len(found) != len(wanted):
            return f"{len(found)} results"
        return next(filter(None, (fault(*each, kind) for each in zip(found, wanted, strict=True))), "")
    if not isinstance(found, kind):
        return f"an object of {type(found)}"
    if found.shape != np.shape(wanted):
        return f"shape {found.shape}"
    values = found.compute()
    if values.dtype != found.dtype:
        return f"dtype {values.dtype}, said to be {found.dtype}"
    tolerance = 1e-5 if values.dtype == np.float32 else 1e-10
    if not np.allclose(values, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
        return f"values {values!r} in place of {wanted!r}"
    return ""


def attempt(call, wanted, kind):
    try:
        return fault(call(), wanted, kind)
    except Exception:
        return traceback.format_exc()


# ---- what else holds of results; each check raises AssertionError, or returns


def check_lazy(gr, xp):
    """Nothing is computed when a result is built, and each chunk is made once for all that are computed together."""
    import dask

    made = []

    def note(block):
        made.append(block.shape)
        return block + 1

    x = xp.from_array(A, chunks=(5, 7)).map_blocks(note, dtype=A.dtype, meta=A[:0, :0])
    made.clear()
    results = [gr.sum(x, axis=0), gr.mean(x), gr.cumsum(x, axis=1), x]
    assert not made
    total, mean, running, values = dask.compute(*results, scheduler="sync")
    assert len(made) == 15, made
    assert np.allclose(total, (A + 1).sum(0)) and np.allclose(mean, (A + 1).mean())
    assert np.allclose(running, (A + 1).cumsum(1)) and np.array_equal(values, A + 1)


def tasks_run(*results):
    """Values of results that are computed together, and how many tasks that takes."""
    import dask
    from dask.callbacks import Callback

    run = []
    with Callback(pretask=lambda key, *_: run.append(key)):
        values = dask.compute(*results, scheduler="sync")
    return values, len(run)


def check_groups(gr, xp):
    """Groups make the chunks that results alone need: fewer tasks than chunks, for one result and for several."""
    many = np.arange(2000.0)
    x = xp.from_array(many, chunks=10) + 1  # 200 chunks, each a task at least where groups do not make them
    (total,), count = tasks_run(gr.sum(x))
    assert total == (many + 1).sum() and count < 60, count
    (total, largest), count = tasks_run(gr.sum(x), gr.max(x * 2))
    assert total == (many + 1).sum() and largest == 4000 and count < 60, count
    found, count = tasks_run(*gr.stats(x, ["mean", "std"]))
    assert np.allclose(found, ((many + 1).mean(), many.std())) and count < 60, count
    (total, values), count = tasks_run(gr.sum(x), x)  # which somebody else needs
    assert total == (many + 1).sum() and np.array_equal(values, many + 1) and count >= 200, count


def check_memory(gr, xp):
    """What results held goes with them, without a pass of the garbage collector."""
    import gc
    import weakref

    x = (xp.from_array(A, chunks=(5, 7)) + 1).persist()
    gc.collect()
    gc.disable()
    kept = weakref.ref(x.expr)
    results = [gr.sum(x), gr.max(x * 2, axis=0), gr.cumsum(x, axis=0)]
    for each in results:
        each.compute()
    assert kept() is not None
    del x, results, each
    assert kept() is None


def check_names(gr, xp):
    """Keys follow from the input, and say whose they are."""
    v, again = arrays(xp), arrays(xp)
    first, second = gr.mean(v.y, axis=0), gr.mean(again.y, axis=0)
    assert first.name == second.name and first.name.startswith("gr-mean-")
    assert first.name != gr.mean(v.y, axis=1).name
    assert any(str(key[0]).startswith("gr-mean-") for key in first.dask)


def check_pickle(gr, xp):
    """A pickled result is itself, also as an operand."""
    import pickle

    v = arrays(xp)
    copy = pickle.loads(pickle.dumps(gr.cumsum(v.y, axis=0)))
    assert isinstance(copy, xp.Array) and np.allclose(copy.compute(), Y.cumsum(0))
    assert np.allclose((copy[2:9] + 1).sum(axis=0).compute(), (Y.cumsum(0)[2:9] + 1).sum(0))
    assert np.allclose(gr.max(copy, axis=0).compute(), Y.cumsum(0).max(0))


def check_dask_functions(gr, xp):
    """dask.optimize and dask.persist give arrays of the same kind and values."""
    import dask

    found = gr.cumsum(arrays(xp).y, axis=0)
    for same in (*dask.optimize(found), *dask.persist(found), found.persist()):
        assert isinstance(same, xp.Array) and np.allclose(same.compute(), Y.cumsum(0))
        assert np.allclose(gr.max(same, axis=0).compute(), Y.cumsum(0).max(0))


def check_at_once(gr, xp):
    """Functions that compute, or say what will be computed."""
    v = arrays(xp)
    found = gr.describe(v.y)
    assert np.allclose([found["mean"], found["max"]], [Y.mean(), Y.max()]) and found["count"] == Y.size
    assert "plan of sum" in repr(gr.plan(v.y, "sum", axis=0))
    assert gr.explain(gr.sum(v.y)).taken[0].startswith("gr-sum-")


def check_tree(gr, xp):
    """The package's own reduction takes our recipe."""
    v = arrays(xp)
    assert np.allclose(xp.reduction(v.y, **gr.tree("sum", v.y.dtype), axis=0).compute(), Y.sum(0))


def check_stock(gr, xp):
    """What belongs to dask goes there, or its absence is said."""
    x = xp.from_array(A.astype(object), chunks=(5, 7))
    assert np.allclose(gr.sum(x, axis=0).compute().astype(float), A.sum(0))
    low = xp.from_array(A, chunks=(5, 7)).map_blocks(
        np.ma.masked_less, 0, dtype=A.dtype, meta=np.ma.masked_array(A[:0, :0])
    )
    assert np.allclose(gr.sum(low, axis=0).compute(), np.ma.masked_less(A, 0).sum(0))
    if xp.__name__ == "dask_array":
        assert np.array_equal(gr.argmax(x, axis=0).compute(), A.argmax(0))
        return
    for call in (
        lambda: gr.argmax(x, axis=0),
        lambda: gr.norm(arrays(xp).x, ord="nuc"),
        lambda: gr.bincount(arrays(xp).i),
        lambda: gr.cumsum(xp.from_array(A.astype(np.longdouble), chunks=5), axis=0),
    ):
        assert "query planning does not offer yet" in raised(call, gr.errors.ArgumentError)


def check_errors(gr, xp):
    """Errors name the function, and are raised when a result is built."""
    v = arrays(xp)
    assert raised(lambda: gr.sum(v.y, axis=5), gr.errors.AxisError).startswith("sum: axis 5")
    words = xp.from_array(np.array(["a", "b"]), chunks=1)
    assert raised(lambda: gr.sum(words), gr.errors.DtypeError).startswith("sum: dtype")
    assert "out= of shape" in raised(lambda: gr.sum(v.y, axis=0, out=v.w), gr.errors.ArgumentError)


def check_other_arrays(gr, xp):
    """Graph-based arrays go with expressions of dask-array; on their own they are what they were."""
    import dask.array as da

    if xp.__name__ == "dask.array":
        import dask_array

        other = dask_array.from_array(B, chunks=(5, 7))
        call = lambda: gr.vdot(arrays(xp).y, other)  # noqa: E731
        assert "arrays of dask.array and of dask_array" in raised(call, gr.errors.ArgumentError)
        return
    b = da.from_array(B, chunks=(5, 7))
    both = gr.vdot(arrays(xp).y, b)
    assert isinstance(both, xp.Array) and np.allclose(both.compute(), np.vdot(Y, B))
    assert type(gr.sum(b, axis=0)) is da.Array and type(gr.sum(B)) is da.Array


def check_unknown_sizes(gr, xp):
    """Chunks of unknown sizes, where the package has any."""
    x = arrays(xp).y
    if xp.__name__ == "dask.array":
        assert raised(lambda: x[x > 0], NotImplementedError) == ""  # dask's own answer to the mask
        return
    assert np.allclose(gr.sum(x[x > 0]).compute(), Y[Y > 0].sum())
    rows = Y[:, 0] > 0
    assert np.allclose(gr.cumsum(x[x[:, 0] > 0], axis=0).compute(), Y[rows].cumsum(0))


def check_xarray(gr, xp):
    """Labels go and come as with graph-based arrays."""
    import xarray as xr

    if xp.__name__ == "dask_array":
        from dask_array.xarray import register

        register()
    v = arrays(xp)
    x = xr.DataArray(v.y, dims=("t", "p"), coords={"p": np.arange(17)}, name="v")
    w = xr.DataArray(v.w, dims=("t", "p"), coords={"p": np.arange(17)})
    for found, wanted in (
        (gr.mean(x, dim="t"), Y.mean(0)),
        (gr.cumsum(x, dim="p"), Y.cumsum(1)),
        (gr.max(x.to_dataset(), dim="t")["v"], Y.max(0)),
        (gr.stats(x, ["mean", "std"], dim="t")["std"], Y.std(0)),
        (gr.vdot(x, w), np.vdot(Y, B)),
        (gr.map_reduce(lambda p, q: p * q, "sum", x, w, dim="t"), (Y * B).sum(0)),
        (gr.persist(x), Y),
    ):
        assert isinstance(found.data, xp.Array) and np.allclose(found.data.compute(), wanted)
    assert gr.mean(x, dim="t").dims == ("p",)


def check_accelerate(gr, xp):
    """dask's reductions of expressions are taken, with NumPy's answers, and only inside of the block."""
    v = arrays(xp)
    with gr.accelerate(numpy=True):
        for name in ("sum", "prod", "min", "max", "mean", "var", "std", "any", "all"):
            for axis in (0, 1, None):
                found = getattr(v.y, name)(axis=axis)
                assert found.name.startswith("gr-"), (name, axis, found.name)
                assert isinstance(found, xp.Array) and np.allclose(found.compute(), getattr(Y, name)(axis=axis)), name
        for name in ("nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"):
            found = getattr(xp, name)(v.n, axis=0)
            assert found.name.startswith("gr-") and np.allclose(found.compute(), getattr(np, name)(N, axis=0)), name
        kept = v.y.sum(axis=0, keepdims=True, split_every=2, dtype="f4")
        assert kept.shape == (1, 17) and kept.dtype == np.float32
        assert gr.explain(v.y.sum()).taken == ("sum of (23, 17) float64 over all axes",)
        left = xp.from_array(A.astype(object), chunks=(5, 7)).sum(axis=0)
        assert gr.explain(left).left and np.allclose(left.compute().astype(float), A.sum(0))
        if xp.__name__ == "dask_array":
            names_of_dask_array(gr, xp, v)
    assert not v.y.sum().name.startswith("gr-")


def names_of_dask_array(gr, xp, v):
    """What dask has no expression for yet, taken by name, also through NumPy's functions."""
    for name in ("argmin", "argmax", "cumsum", "cumprod"):
        found = getattr(v.y, name)(axis=0)
        assert found.name.startswith("gr-") and np.allclose(found.compute(), getattr(np, name)(Y, axis=0)), name
    for name in ("nanargmin", "nanargmax", "nancumsum", "nancumprod"):
        found = getattr(xp, name)(v.n, axis=0)
        assert found.name.startswith("gr-") and np.allclose(found.compute(), getattr(np, name)(N, axis=0)), name
    for order, ddof in ((2, 1), (3, 0), (4, 0)):
        wanted = ((Y - Y.mean(0)) ** order).sum(0) / (23 - ddof)
        found = v.y.moment(order, axis=0, ddof=ddof)
        assert found.name.startswith("gr-") and np.allclose(found.compute(), wanted), order
    for found, wanted in (
        (np.sum(v.y), Y.sum()),
        (np.ptp(v.y, axis=0), np.ptp(Y, axis=0)),
        (xp.count_nonzero(v.y > 0), np.count_nonzero(Y > 0)),
        (xp.var(v.y, axis=1, ddof=1, keepdims=True), Y.var(axis=1, ddof=1, keepdims=True)),
        (v.y.cumsum(axis=None), Y.cumsum()),
    ):
        assert found.name.startswith("gr-") and np.allclose(found.compute(), wanted)
    assert gr.explain(v.y.cumsum(axis=0)).taken == ("cumsum of (23, 17) float64 over axis 0",)
    assert np.allclose((v.y * v.y.mean(axis=0)).std().compute(), (Y * Y.mean(0)).std())
    for left in (v.y.moment(5, axis=0), xp.var(v.y + 1j, dtype="c8"), v.i.mean(dtype="i4")):
        assert not left.name.startswith("gr-") and gr.explain(left).left
        left.compute()
    with gr.accelerate():  # CuPy chunks alone
        assert not v.y.sum().name.startswith("gr-")


def check_cluster(gr, xp):
    """On workers: lazy chunks, and persisted ones where they lie, behind one handle a worker."""
    import dask
    from dask._task_spec import convert_legacy_graph
    from distributed import Client

    v = arrays(xp)
    cluster = local_cluster(2)
    with cluster, Client(cluster) as client:
        assert np.allclose(gr.mean(v.y, axis=0).compute(), Y.mean(0))
        assert np.allclose(client.compute(gr.cumsum(v.y, axis=0)).result(), Y.cumsum(0))
        kept = gr.persist(v.y)
        found = gr.sum(kept, axis=0)
        assert isinstance(kept, xp.Array)
        needs = {need for node in convert_legacy_graph(found.dask).values() for need in node.dependencies}
        assert any(str(key).startswith("gr-handle-") for key in needs)
        assert np.allclose(found.compute(), Y.sum(0))
        for each in (v.w.persist(), *dask.persist(v.w)):
            total, running = dask.compute(gr.max(each), gr.cumsum(each, axis=None))
            assert np.allclose(total, B.max()) and np.allclose(running, B.cumsum())
        assert np.allclose(gr.mean(kept * 3, axis=1).compute(), (Y * 3).mean(1))
        assert np.allclose(gr.sum(gr.cumsum(kept, axis=1).persist(), axis=0).compute(), Y.cumsum(1).sum(0))
        assert np.allclose(dask.compute(gr.stats(kept, ["mean", "max"]))[0], (Y.mean(), Y.max()))


CHECKS = {name.removeprefix("check_"): f for name, f in list(globals().items()) if name.startswith("check_")}


def raised(call, kind):
    """The text of the error that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def attempt_check(check, gr, xp):
    try:
        check(gr, xp)
    except Exception:
        return traceback.format_exc()
    return ""


def prepared(package):
    """The package, with query planning on, and ours."""
    if package == "dask.array":
        import dask

        dask.config.set({"array.query-planning": True})
    xp = importlib.import_module(package)
    import gpureduce_dask as gr

    return gr, xp


def found_by(package, part):
    gr, xp = prepared(package)
    if part != "calls":
        return {part: attempt_check(CHECKS[part], gr, xp)}
    given = arrays(xp)
    found = {k: attempt(lambda f=f: f(gr, given), wanted, xp.Array) for k, (f, wanted) in CALLS.items()}
    if package == "dask.array":
        found |= {k: attempt(lambda f=f: f(gr), wanted, xp.Array) for k, (f, wanted) in OF_NUMPY.items()}
    return found


def send(connection, package, part):
    connection.send(found_by(package, part))


def main(package, *parts):
    gr, xp = prepared(package)
    gr.sum(arrays(xp).y, axis=0).compute(scheduler="sync")  # imports for all parts; threads would not outlive a fork
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    found = {}
    for part in parts:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=send, args=(sender, package, part))
        process.start()
        sender.close()
        found |= receiver.recv()  # an EOFError where the process died
        process.join()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
