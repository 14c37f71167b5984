"""``python -m gpureduce_dask bench trees --grids``: daily calls on a square grid of chunks, beside stock dask."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from .scan_trees import for_stock, scanned, whole_seconds
from .tasks import counted
from .timing import device_seconds, median_seconds, seconds
from .trees import ENOUGH, PATIENCE, Bench, Row, Suite, random_array

GROUPS = 365
CLOSE = 1e-4  # relative: stock dask adds float32 in float32
FILE_BYTES = 4 << 30  # in files, at most, for each worker
LARGE_FILE_BYTES = 16 << 30  # in large ones for each GPU, so that what a call costs besides is little
FIRSTS = 3  # arrays of which a first call is timed
WRITERS = 8  # threads that write files
LINK_BYTES = 1 << 28  # of the copy that says how fast the link is


LARGE_FILES = "large files"


@dataclass(frozen=True)
class Case:
    """One call: ``make(module, x)`` builds it of the functions of ``gpureduce_dask`` or ``dask.array``."""

    make: Callable[[Any, Any], Any]
    close: float = CLOSE
    data: str = "grid"
    is_scan: bool = False  # its result stays in the workers' memory, and is never in one place


def grouped_mean(module: Any, x: Any) -> Any:
    """The mean of each of 365 groups of rows, as of days of a year; flox's where the module is dask's."""
    labels = np.arange(x.shape[0]) % GROUPS
    if module is gr:
        return gr.grouped(x, labels, "mean", axis=0, num_groups=GROUPS)
    from flox import groupby_reduce

    return groupby_reduce(x.T, labels, func="mean", expected_groups=np.arange(GROUPS))[0]


CASES: dict[str, Case] = {
    "max": Case(lambda m, x: m.max(x), close=0),
    "sum, axis 0": Case(lambda m, x: m.sum(x, axis=0)),
    "var, axis 1": Case(lambda m, x: m.var(x, axis=1)),
    "argmax, axis 0": Case(lambda m, x: m.argmax(x, axis=0), close=0),
    "mean of x[::3, 1:], axis 0": Case(lambda m, x: m.mean(x[::3, 1:], axis=0)),
    "std of x.T, axis 0": Case(lambda m, x: m.std(x.T, axis=0)),
    "nanmean of where(x > 0.5, x, nan), axis 0": Case(lambda m, x: m.nanmean(da.where(x > 0.5, x, np.nan), axis=0)),
    "histogram of 100 bins": Case(lambda m, x: m.histogram(x, bins=100, range=(0, 1))[0], close=0),
    # A float32 sum of thousands of numbers in a row is as far from the truth as this.
    "cumsum, axis 0": Case(lambda m, x: m.cumsum(x, axis=0), close=10 * CLOSE, is_scan=True),
    "cumsum, axis 1": Case(lambda m, x: m.cumsum(x, axis=1), close=10 * CLOSE, is_scan=True),
    # Last of the grid: NumPy workers have more of their memory than half behind it, and keep chunks ready for a disk.
    "mean of 365 groups, axis 0": Case(grouped_mean),
    "sum, axis 1": Case(lambda m, x: m.sum(x, axis=1), data="column"),
    "mean, axis 0": Case(lambda m, x: m.mean(x, axis=0), data="files"),
    "mean, axis 0, of large files": Case(lambda m, x: m.mean(x, axis=0), data=LARGE_FILES),
}


def cases(bench: Bench, chunks: int) -> None:
    """Every case on the grid, the column and the files, each of which is there while it is needed."""
    for data in dict.fromkeys(case.data for case in CASES.values() if bench.gpus or case.data != LARGE_FILES):
        with tempfile.TemporaryDirectory() as folder:
            cache: list[Any] = []  # the array, where it could be made
            for name, case in CASES.items():
                if case.data == data:
                    row = {"case": name, "kind": data, "chunks": chunks}
                    bench.case(row, partial(_measure, bench, case, cache, Path(folder)))


GRIDS = Suite("grids", cases, counts=(256,), of_one_size=True, peers={"flox": "flox"})


def grid_chunks(nbytes: int, chunks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of as many square chunks of float32, as many along either axis."""
    along = ((max(1, math.isqrt(nbytes // 4 // chunks)),) * math.isqrt(chunks),)
    return (*along, *along)


def _array(bench: Bench, data: str, chunks: int, folder: Path) -> Any:
    on_gpu, sizes = bench.gpus > 0, grid_chunks(bench.nbytes, chunks)
    if data == LARGE_FILES:
        return in_files(folder, grid_chunks(LARGE_FILE_BYTES * bench.workers, chunks), on_gpu)
    if data == "files":
        return in_files(folder, grid_chunks(min(bench.nbytes, FILE_BYTES * bench.workers), chunks), on_gpu)
    if data == "column":
        sizes = (sizes[0][:1] * chunks, sizes[1][:1])
    return bench.hold(random_array(sizes, on_gpu))


def in_files(folder: Path, chunks: tuple[tuple[int, ...], ...], on_gpu: bool) -> Any:
    """An array of memory-mapped files, one a chunk, which are written here; moved to the GPU where there is one."""
    places = [*np.ndindex(*map(len, chunks))]

    def write(number: int) -> None:
        shape = [sizes[i] for sizes, i in zip(chunks, places[number], strict=True)]
        np.save(_path(folder, places[number]), np.random.default_rng(number).random(shape, dtype="f4"))

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(len(places))))
    x = da.map_blocks(_opened, folder, chunks=chunks, dtype="f4", meta=np.empty((0, 0), "f4"))
    if not on_gpu:
        return x
    import cupy

    return x.map_blocks(cupy.asarray, dtype="f4", meta=gr.device_meta(2, "f4"))


def _path(folder: Path, place: tuple[int, ...]) -> Path:
    return folder / f"{'-'.join(map(str, place))}.npy"


def _opened(folder: Path, block_id: Any = None) -> Any:
    return np.load(_path(folder, block_id), mmap_mode="r")


def _on_host(block: Any) -> Any:
    return block.get() if hasattr(block, "get") else np.asarray(block)


def _measure(bench: Bench, case: Case, cache: list[Any], folder: Path, row: Row) -> None:
    if not cache:
        # With a meta that works: dask finds out by it what where() gives.
        cache.append(for_stock(bench, _array(bench, case.data, row["chunks"], folder)))
    (x,) = cache
    ours, stock = partial(case.make, gr), partial(case.make, da)
    row["cold"], value = seconds(partial(_call, bench, case, ours, x))
    if bench.with_stock:
        _check(bench, case, stock, x, value, row)
    del value
    row["tasks"] = _tasks(bench, case, ours, x)
    row["later"] = _median(bench, case, ours, x, 3 * ENOUGH)
    if not case.is_scan:
        row["blocks"] = whole_seconds(bench, ours, x)
    if "files" not in case.data:  # which nobody holds: each call is as the first
        row["first"] = statistics.median(_first(bench, case, ours, row["chunks"], folder) for _ in range(FIRSTS))
    if "stock_tasks" in row:
        row["stock"] = _median(bench, case, stock, x, ENOUGH)
    if "files" in case.data:
        row["link"] = bench.client.submit(link_rate, pure=False).result(timeout=PATIENCE) if bench.gpus else None
        row["link_share"] = x.nbytes / row["later"] / (row["link"] * bench.gpus) if bench.gpus else None


def _first(bench: Bench, case: Case, make: Callable[[Any], Any], chunks: int, folder: Path) -> float:
    """Seconds of the first call on an array that is made here."""
    return seconds(partial(_call, bench, case, make, _array(bench, case.data, chunks, folder)))[0]


def _call(bench: Bench, case: Case, make: Callable[[Any], Any], x: Any) -> Any:
    return scanned(bench, make, x) if case.is_scan else bench.compute(make, x)


def _tasks(bench: Bench, case: Case, make: Callable[[Any], Any], x: Any) -> int:
    bench.client.run(int)  # workers have heard that nobody holds an earlier result
    return counted(bench.client, partial(_call, bench, case, make, x))[1]


def _median(bench: Bench, case: Case, make: Callable[[Any], Any], x: Any, enough: float) -> float:
    if case.is_scan:
        return whole_seconds(bench, make, x, enough)
    return median_seconds(partial(bench.compute, make, x), bench.repeats, enough)[0]


def _check(bench: Bench, case: Case, stock: Callable[[Any], Any], x: Any, ours: Any, row: Row) -> None:
    """Whether stock dask gives the same, how many tasks it takes, or why it cannot.

    Where it has no answer for CuPy chunks, ours of a corner of the array is compared with its answer for NumPy chunks.
    """
    try:
        theirs, row["stock_tasks"] = counted(bench.client, partial(_call, bench, case, stock, x))
    except ImportError:  # a peer that is not installed
        return
    except Exception as error:
        row["stock_error"] = f"{type(error).__name__}: {error}"[:300]
        if not bench.gpus:
            return
        corner = x.blocks[:2, :2]
        ours = _call(bench, case, partial(case.make, gr), corner)
        on_host = corner.map_blocks(_on_host, dtype=x.dtype, meta=np.empty((0, 0), x.dtype))
        theirs = _call(bench, case, stock, on_host)
    if not case.is_scan:
        row["checked"] = agree(ours, theirs, case.close)
    else:
        sizes = tuple((1,) * n for n in ours.numblocks)
        same = da.map_blocks(_block_agrees, ours, theirs, case.close, chunks=sizes, meta=np.empty((0, 0), bool))
        row["checked"] = bool(same.compute().all())


def agree(ours: Any, theirs: Any, close: float) -> bool:
    """Whether two arrays have one shape and the same values, up to this part of them; NaN where the other has it."""
    if not (hasattr(ours, "get") and hasattr(theirs, "get")):
        ours, theirs = _on_host(ours), _on_host(theirs)
    if ours.shape != theirs.shape:
        return False
    is_same = (ours == theirs) | (abs(ours - theirs) <= close * abs(theirs)) | ((ours != ours) & (theirs != theirs))
    return bool(is_same.all())


def _block_agrees(ours: Any, theirs: Any, close: float) -> Any:
    return np.array([[agree(ours, theirs, close)]])


def link_rate() -> float:
    """Bytes a second of a copy from pinned memory to this process's GPU."""
    import cupy

    source, target = cupy.cuda.alloc_pinned_memory(LINK_BYTES), cupy.empty(LINK_BYTES, "u1")
    return LINK_BYTES / device_seconds(partial(target.data.copy_from_host_async, source.ptr, LINK_BYTES))
