"""The calls that a soak draws, each with NumPy's answer: ours, and those of stock dask, accelerated and plain.

Arrays are few and small, and their keys follow from their numbers: two clients ask for the same chunks, often at once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from ...chunk import is_device
from ...graph.meta import promises_device
from .tolerances import are_close

Rng = np.random.Generator
Array = Any  # of NumPy
Lazy = Any  # of dask

GRIDS = 8
DTYPES = ("f8", "f4", "i4")
SLOW = 3  # every so many grids one whose chunks take time, for faults to come upon
SECONDS = 0.01  # of such a chunk
ROUGH = 1e-5  # of the largest result: stock dask sums float32 in float32
REDUCTIONS = (
    "sum mean max min var std any all ptp argmax argmin count_nonzero nansum nanmean nanmax nanmin nanstd".split()
)
STOCK = "sum mean max min var std any all argmax argmin cumsum".split()
FEW = 3  # above it are few elements: gaps
ONE_AXIS = ("argmax", "argmin", "cumsum")
SCANS: dict[str, Callable[..., Array]] = {
    "cumsum": np.cumsum,
    "nancumsum": np.nancumsum,
    "cummax": np.maximum.accumulate,
}
# Of dask's arrays and of NumPy's alike.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x,
    "slice": lambda x: x[1:-1, 2:],
    "every other": lambda x: x[:, ::2],
    "transpose": lambda x: x.T,
    "where": lambda x: np.where(x > 0, x, 1),
    "gaps": lambda x: np.where(x > FEW, np.nan, x),
    "elements": lambda x: abs(x) + 1,
    "mapped": lambda x: x.map_blocks(double) if hasattr(x, "map_blocks") else double(x),
}

BY_WHERE = ("where", "gaps")  # of CuPy chunks, whose meta is NumPy's then, stock dask's running sums raise


@dataclass
class Call:
    """Lazy results, what NumPy says they are, and which call it is."""

    about: str
    results: list[Lazy]
    wanted: list[Array]


def double(chunk: Array) -> Array:
    return chunk + chunk


def values(number: int) -> Array:
    """The array of this number: small integers, of which sums are exact."""
    rng = np.random.default_rng(number)
    shape = (40, 60) if number % 2 else (14, 12, 18)
    some = np.where(rng.random(shape) < 0.01, FEW + 1, rng.integers(-FEW, FEW + 1, shape))
    return some.astype(DTYPES[number % len(DTYPES)])


def grid(number: int, on_gpu: bool) -> Lazy:
    """The same as a dask array that is yet to be made, in a grid of uneven chunks."""
    rng, whole = np.random.default_rng(number), values(number)
    cuts = [np.sort(rng.choice(np.arange(1, n), int(rng.integers(1, 4)), replace=False)) for n in whole.shape]
    chunks = tuple(tuple(np.diff([0, *cut, n]).tolist()) for cut, n in zip(cuts, whole.shape, strict=True))
    meta = gr.device_meta(whole.ndim, whole.dtype) if on_gpu else np.empty((0,) * whole.ndim, whole.dtype)
    return da.map_blocks(make_chunk, number, on_gpu, chunks=chunks, dtype=whole.dtype, meta=meta)


def make_chunk(number: int, on_gpu: bool, block_info: Any = None) -> Any:
    if number % SLOW == 0:
        time.sleep(SECONDS)
    where = tuple(slice(*each) for each in block_info[None]["array-location"])
    chunk = values(number)[where].copy()
    if not on_gpu:
        return chunk
    import cupy

    return cupy.asarray(chunk)


def draw(rng: Rng, x: Lazy, whole: Array, kind: str) -> Call:
    """A call of this kind of a view of an array, which NumPy has as ``whole``."""
    view = str(rng.choice(list(VIEWS)))
    if kind == "stock" and view in BY_WHERE and promises_device(x._meta):
        view = "all"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nothing but NaN
        call = CALLS[kind](rng, VIEWS[view](x), VIEWS[view](whole))
    return Call(f"{call.about} of {view}", call.results, call.wanted)


def _axis(rng: Rng, ndim: int, one: bool = False) -> Any:
    if one or rng.random() < 0.3:
        return int(rng.integers(ndim))
    some = rng.choice(ndim, int(rng.integers(1, ndim + 1)), replace=False)
    return None if rng.random() < 0.2 else tuple(sorted(some.tolist()))


def _reduce(rng: Rng, x: Lazy, whole: Array) -> Call:
    name = str(rng.choice(REDUCTIONS))
    axis = _axis(rng, x.ndim, name in ONE_AXIS)
    return Call(f"{name} over {axis}", [getattr(gr, name)(x, axis=axis)], [getattr(np, name)(whole, axis=axis)])


def _together(rng: Rng, x: Lazy, whole: Array) -> Call:
    """Two results of one array, of which one may be a scan."""
    calls = [_reduce(rng, x, whole), (_reduce if rng.random() < 0.5 else _scan)(rng, x, whole)]
    about, results, wanted = zip(*((c.about, c.results[0], c.wanted[0]) for c in calls), strict=True)
    return Call(" and ".join(about), [*results], [*wanted])


def _scan(rng: Rng, x: Lazy, whole: Array) -> Call:
    name, axis = str(rng.choice(list(SCANS))), int(rng.integers(x.ndim))
    return Call(f"{name} over {axis}", [getattr(gr, name)(x, axis=axis)], [SCANS[name](whole, axis=axis)])


def _flat_scan(rng: Rng, x: Lazy, whole: Array) -> Call:
    return Call("cumsum over all", [gr.cumsum(x)], [np.cumsum(whole)])


def _groups(rng: Rng, x: Lazy, whole: Array) -> Call:
    name, axis = str(rng.choice(["sum", "mean", "max"])), int(rng.integers(x.ndim))
    labels = np.arange(x.shape[axis]) % 3
    members = [np.compress(labels == label, whole, axis) for label in range(3)]
    wanted = np.stack([getattr(np, name)(each, axis=axis) for each in members], -1)
    return Call(f"grouped {name} over {axis}", [gr.grouped(x, labels, name, axis=axis)], [wanted])


def _histogram(rng: Rng, x: Lazy, whole: Array) -> Call:
    bins, span = int(rng.integers(3, 9)), (-4.0, 4.0)
    counts, _ = gr.histogram(x, bins=bins, range=span)
    return Call(f"histogram of {bins} bins", [counts], [np.histogram(whole, bins=bins, range=span)[0]])


def _stats(rng: Rng, x: Lazy, whole: Array) -> Call:
    names = ["min", "mean", "std", "sum"]
    axis = _axis(rng, x.ndim)
    results = list(gr.stats(x, names, axis=axis))
    return Call(f"stats over {axis}", results, [getattr(np, name)(whole, axis=axis) for name in names])


def _map_reduce(rng: Rng, x: Lazy, whole: Array) -> Call:
    axis = _axis(rng, x.ndim)
    result = gr.map_reduce(lambda x, y: x * y + 1, "sum", x, x, axis=axis)
    return Call(f"map_reduce over {axis}", [result], [np.sum(whole * whole + 1, axis=axis)])


def _accelerated(rng: Rng, x: Lazy, whole: Array) -> Call:
    with gr.accelerate(numpy=True):
        return _stock(rng, x, whole)


def _stock(rng: Rng, x: Lazy, whole: Array) -> Call:
    name = str(rng.choice(STOCK))
    axis = _axis(rng, x.ndim, name in ONE_AXIS)
    return Call(f"stock {name} over {axis}", [getattr(x, name)(axis=axis)], [getattr(np, name)(whole, axis=axis)])


CALLS: dict[str, Callable[[Rng, Lazy, Array], Call]] = {
    "reduction": _reduce,
    "two results": _together,
    "scan": _scan,
    "scan of all axes": _flat_scan,
    "groups": _groups,
    "histogram": _histogram,
    "stats": _stats,
    "map_reduce": _map_reduce,
    "stock, accelerated": _accelerated,
    "stock": _stock,
}


def is_right(got: Any, wanted: Array) -> bool:
    """True for NumPy's answer, floats up to the rounding of stock dask's sums."""
    found = np.asarray(got.get() if is_device(got) else got)
    if found.shape != np.shape(wanted) or found.dtype != np.asarray(wanted).dtype:
        return False
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return are_close(found, np.asarray(wanted), ROUGH)
