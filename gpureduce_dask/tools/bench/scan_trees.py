"""``python -m gpureduce_dask bench trees --scans``: whole scans beside stock dask's two."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from . import memory
from .timing import median_seconds
from .trees import ENOUGH, MOST_LAZY, PATIENCE, Bench, Row, Suite

Scan = Callable[[Any], Any]

# Ours, and stock dask's by method; stock dask has no running maximum.
WHOLE: dict[str, tuple[Scan, Callable[..., Any] | None]] = {
    "cumsum": (lambda x: gr.cumsum(x, axis=0), lambda x, method: da.cumsum(x, axis=0, method=method)),
    "cummax": (lambda x: gr.cummax(x, axis=0), None),
}
# What reduces a running sum: ours, and stock dask's.
REDUCED: dict[str, tuple[Scan, Scan]] = {
    "cumsum(x)[-1]": (lambda y: y[-1], lambda y: y[-1]),
    "cumsum(x).max()": (gr.max, da.max),
}
CLOSE = 1e-3  # relative: stock dask adds float32 in float32


def cases(bench: Bench, chunks: int) -> None:
    """Whole scans of arrays that workers hold, and of chunks yet to be made; and reductions of scans."""
    cache: list[Any] = []  # the array, where it could be made
    for case in WHOLE:
        bench.case({"case": case, "kind": "persisted", "chunks": chunks}, partial(_whole, bench, cache))
    for case in REDUCED:
        bench.case({"case": case, "kind": "persisted", "chunks": chunks}, partial(_reduced, bench, cache))
    cache.clear()
    if chunks <= MOST_LAZY:
        bench.case({"case": "cumsum", "kind": "lazy", "chunks": chunks}, partial(_whole, bench, [bench.array(chunks)]))


SCANS = Suite("scans", cases)


def _array(bench: Bench, cache: list[Any], row: Row) -> Any:
    if not cache:
        cache.append(bench.persist(row["chunks"]))
    return cache[0]


def _whole(bench: Bench, cache: list[Any], row: Row) -> None:
    x = _array(bench, cache, row)
    ours, stock = WHOLE[row["case"]]
    y = scanned(bench, ours, x)  # kernels compile
    row["tasks"] = len(ours(x).__dask_graph__()) - x.npartitions
    if row["chunks"] <= bench.reference:
        row["checked"] = is_right(row["case"], x, y)
    del y
    _with_peak(bench, row, x, partial(scanned, bench, ours, x), x.nbytes)
    row["later"] = whole_seconds(bench, ours, x, 3 * ENOUGH)
    if stock is not None and bench.with_stock and row["chunks"] <= MOST_LAZY:
        x = for_stock(bench, x)
        row["stock"] = whole_seconds(bench, partial(stock, method="blelloch"), x)
        row["sequential"] = whole_seconds(bench, partial(stock, method="sequential"), x)


def _reduced(bench: Bench, cache: list[Any], row: Row) -> None:
    x, (end, stock_end) = _array(bench, cache, row), REDUCED[row["case"]]
    scan, stock = WHOLE["cumsum"]
    assert stock is not None
    ours = partial(bench.compute, lambda x: end(scan(x)), x)
    ours()
    _with_peak(bench, row, x, ours, 0)
    row["later"], value = median_seconds(ours, bench.repeats, ENOUGH)
    if bench.with_stock and row["chunks"] <= MOST_LAZY:
        call = partial(bench.compute, lambda x: stock_end(stock(x, "blelloch")), for_stock(bench, x))
        call()  # kernels compile
        row["stock"], other = median_seconds(call, bench.repeats, ENOUGH)
        row["checked"] = bool(np.isclose(float(value), float(other), rtol=CLOSE, atol=0))


def for_stock(bench: Bench, x: Any) -> Any:
    """The array with a meta that stock dask computes with: it makes its first sums from it."""
    if not bench.gpus:
        return x
    import cupy

    return da.Array(x.dask, x.name, x.chunks, meta=cupy.empty((0,) * x.ndim, x.dtype))


def _with_peak(bench: Bench, row: Row, x: Any, call: Callable[[], Any], written: int) -> None:
    """The most device memory in use, of what array and result take."""
    with memory.peak(bench.client, bench.gpus > 0, row, 1.0):
        call()
    if bench.gpus:
        above, array_bytes = row.pop("peak_chunks"), x.nbytes / bench.workers
        row["peak"] = (above + array_bytes * (row["kind"] == "persisted")) / (array_bytes + written / bench.workers)


def whole_seconds(bench: Bench, scan: Scan, x: Any, enough: float = ENOUGH) -> float:
    """The median of some whole scans, behind one in which kernels compile; each is let go before the next."""
    times: list[float] = []
    while len(times) <= bench.repeats and sum(times[1:]) < enough:
        begin = time.perf_counter()
        y = scanned(bench, scan, x)
        times.append(time.perf_counter() - begin)
        del y
        bench.client.run(int)  # workers have heard of it
    return statistics.median(times[1:])


def scanned(bench: Bench, scan: Scan, x: Any) -> Any:
    """A whole scan, in the workers' memory once this returns. Raises what a task raised."""
    from distributed import futures_of, wait

    y = bench.client.persist(scan(x))
    wait(y, timeout=PATIENCE)
    for failed in (f for f in futures_of(y) if f.status == "error"):
        failed.result()
    if bench.gpus:
        bench.client.run(synchronise)
    return y


def synchronise() -> None:
    """Wait for this process's GPU."""
    import cupy

    cupy.cuda.Device().synchronize()


def is_right(case: str, x: Any, y: Any) -> bool:
    """Whether each chunk ends where those up to it add up to, and one of them is right throughout."""
    total, join = (np.max, np.maximum) if case == "cummax" else (partial(np.sum, dtype="f8"), np.add)
    one = {"chunks": ((1,) * x.numblocks[0],), "meta": np.empty(0, "f8")}
    totals, ends = da.compute(
        x.map_blocks(_on_host, total, dtype="f8", **one), y.map_blocks(_on_host, _last, dtype="f8", **one)
    )
    sums = join.accumulate(totals)
    tolerance = 0 if case == "cummax" else 1e-6
    at = x.numblocks[0] // 2
    block, found = (
        a.map_blocks(_on_host, np.asarray, meta=np.empty(0, "f4")).compute() for a in (x.blocks[at], y.blocks[at])
    )
    wanted = join.accumulate(block, dtype="f8")
    wanted = join(wanted, sums[at - 1]) if at else wanted
    return np.allclose(ends, sums, rtol=tolerance, atol=0) and np.allclose(found, wanted, rtol=tolerance, atol=0)


def _on_host(block: Any, function: Callable[[Any], Any]) -> Any:
    values = block if isinstance(block, np.ndarray) else block.get()
    return np.atleast_1d(function(values))


def _last(values: Any) -> Any:
    return values[-1]
