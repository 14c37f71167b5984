"""Small work for every kernel, family and finish, to run under compute-sanitizer.

usage: python -m tests.gpu.walk [I/N] [checked | raced]     the I-th of N parts, to run beside the others

checked: kernels are compiled for racecheck, which does not follow all that warps say (kernels/block/checked.cuh).
raced: so, and without blocks that reach into each other's shared memory, whose order racecheck does not see at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any
from unittest import mock

import numpy as np

import gpureduce_dask as gr
from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device import scan_contiguous_columns, scan_launch
from gpureduce_dask.device.scan_task import METHODS
from gpureduce_dask.history import STEPS, Step
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.tools.ladder.measure import answer

from .samples import LAYOUTS, make, rows, view_of

Work = Callable[[], None]

# What groups are reduced by, each with dtypes that take different kernels.
GROUPED = {
    "sum": "float32 float64 int16 complex64",
    "var": "float32 float64 int16 int32 complex64 complex128",
    "norm2": "float32 int8",
    "max": "float32 int8",
    "nanmin": "float64",
    "argmax": "float32 int64",
    "last": "int32",
    "prod": "float32",
}


def main(part: str = "1/1", how: str = "") -> None:
    import cupy as cp

    if how:
        compiler.OPTIONS = (*compiler.OPTIONS, "-DGR_CHECKED")
        whole, barriers = scan_launch.gpu(0), 1024  # bytes of them, beside what a plan asks for
        scan_launch.gpu = lambda _: replace(whole, shared_bytes=whole.shared_bytes - barriers)
        scan_contiguous_columns.LEAST_SHARED_BYTES -= barriers

    cp.cuda.set_allocator(None)  # memory from a pool has no end that a tool could see
    first, parts = map(int, part.split("/"))
    works = list(islice(walk(with_clusters=how != "raced"), first - 1, None, parts))
    for work in works:
        work()
    cp.cuda.Device().synchronize()
    print(f"walked {len(works)} works, part {part}")


def walk(with_clusters: bool = True) -> Iterator[Work]:
    yield from walk_scans(with_clusters)
    yield from walk_one_read()
    yield from walk_groups()
    yield from walk_reductions()
    yield from walk_ladder()


def walk_reductions() -> Iterator[Work]:
    for number in range(len(LAYOUTS)):
        if number not in (5,):  # large: nothing new
            yield partial(_layout, number)
    yield _many_chunks


def _layout(number: int) -> None:
    """Sums and another operator of chunks laid out in one way, and the other finishes of some."""
    import cupy as cp

    shape, axes, view = LAYOUTS[number]
    for dtype in ("uint8", "float32", "float64"):
        x = make(shape, dtype, number)
        chunk = view_of(cp.asarray(x), view)
        names = rows(dtype)
        for name in ("sum", names[number % len(names)]):
            monoid = OPERATORS[name]
            if monoid.empty == "raise" and 0 in shape:
                continue
            bound = monoid.bind(x.dtype)
            folded = device_reduce.reduce((chunk,), bound, axes)
            device_reduce.finalise(folded, bound).get()
            if name == "sum" and dtype == "uint8" and number % 3 == 0:
                for finish in ("atomic", "two-pass"):
                    device_reduce.reduce((chunk,), bound, axes, finish=finish).get()


def _many_chunks() -> None:
    """Several chunks in one launch."""
    import cupy as cp

    chunks = [(cp.asarray(make((60, 90), "float32", i)),) for i in range(5)]
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    for axes in ((0,), (1,), (0, 1)):
        device_reduce.finalise(device_reduce.reduce_many(chunks, bound, axes), bound).get()


SCANS = [  # shape, axis, and a view of the array: a kernel each, or an edge of one
    ((100_003,), 0, None),
    ((100_003,), 0, lambda x: x[1:]),
    ((5001,), 0, lambda x: x[::-3]),
    ((70, 131), 1, None),
    ((70, 131), 1, lambda x: x[:, 1:-2]),
    ((300, 32), 1, lambda x: x[:, 4:]),
    ((5001, 32), 0, None),
    ((5001, 3), 0, None),
    ((5001, 4), 0, None),
    ((70, 1131), 1, lambda x: x[:, ::-1]),
    ((70, 131), 0, None),
    ((5001, 7), 0, lambda x: x[:, 1:]),
    ((3, 700, 130), 1, lambda x: x[::-1, :, 2:]),
    ((20, 130), 0, None),
    ((900, 8), 0, lambda x: x[:, ::2]),
    ((30_001, 11), 1, lambda x: x[1:, ::-1]),
    ((300, 41, 10), 2, lambda x: x[::-1, 1:-1]),
    ((100_003,), 0, lambda x: x[1::2]),
]
OTHERS = [  # operator, dtype, shape and axis of kernels that those do not meet
    ("any", "float32", (100_003,), 0),  # any_all.cuh
    ("sum", "float32", (16_390, 8), 1),  # small_lines.cuh
    ("sum", "float32", (2, 200_001), 0),  # thread_lines.cuh
    ("sum", "float32", (5003, 200), 1),  # subwarp_lines.cuh
    ("sum", "float32", (100_003, 7, 5), 1),  # small_lines.cuh
    ("mean", "float32", (300, 33_792), 0),  # columns.cuh
    ("var", "float32", (300, 33_792), 0),
    ("sum", "float16", (100_003,), 0),  # lane_run.cuh
    ("nansum", "float16", (7, 30_001), 1),
]


CLUSTER_COLUMNS = ("sum", "float32", 100), ("max", "float32", 70), ("sum", "float64", 33), ("max", "int64", 20)


def walk_scans(with_clusters: bool) -> Iterator[Work]:
    for what in OTHERS:
        yield partial(_scan_by, *what)
    for what in CLUSTER_COLUMNS if with_clusters else ():
        yield partial(_allies, *what)
    for number in range(len(SCANS)):
        for dtype in ("uint8", "float32", "float64"):
            yield partial(_scan, number, dtype)
        yield partial(_scan_methods, number)


def _scan(number: int, dtype: str) -> None:
    """A small scan, forward, in reverse and by segments."""
    chunk, axis, resets = _scanned(number, dtype)
    bound = OPERATORS["sum"].bind(chunk.dtype)
    _, carry = device_scan.scan((chunk,), bound, axis)
    device_scan.scan((chunk,), bound, axis, carry, exclusive=True, reverse=True)
    device_scan.scan((chunk,), bound, axis, carry, resets=resets)


def _scan_by(op: str, dtype: str, shape: tuple[int, ...], axis: int) -> None:
    """A scan, and one from what that has come to."""
    import cupy as cp

    chunk = cp.asarray(make(shape, dtype))
    bound = OPERATORS[op].bind(chunk.dtype)
    _, carry = device_scan.scan((chunk,), bound, axis)
    device_scan.scan((chunk,), bound, axis, carry)


def _allies(op: str, dtype: str, width: int) -> None:
    """By pairs of blocks, which take arrays of many tiles (cluster_columns.cuh)."""
    import cupy as cp

    with mock.patch.object(scan_contiguous_columns, "LEAST_TILES", 1):
        chunk = cp.asarray(make((20_011, width), dtype))
        bound = OPERATORS[op].bind(chunk.dtype)
        _, carry = device_scan.scan((chunk,), bound, 0)
        device_scan.scan((chunk,), bound, 0, carry, exclusive=True, reverse=True)


def _scan_methods(number: int) -> None:
    """By every method, and operators of two arrays, of positions and of moments."""
    chunk, axis, resets = _scanned(number, "float64")
    bound = OPERATORS["sum"].bind(chunk.dtype)
    for method in METHODS:
        device_scan.scan((chunk,), bound, axis, method=method)
    device_scan.scan((chunk, chunk), OPERATORS["affine"].bind(chunk.dtype, chunk.dtype), axis, resets=resets)
    for name in ("argmax", "var"):
        device_scan.scan((chunk,), OPERATORS[name].bind(chunk.dtype), axis)


def _scanned(number: int, dtype: str) -> tuple[Any, int, Any]:
    import cupy as cp

    shape, axis, view = SCANS[number]
    chunk = view_of(cp.asarray(make(shape, dtype, number)), view)
    return chunk, axis, chunk > chunk.dtype.type(90)


def walk_one_read() -> Iterator[Work]:
    for shape, axis in (((5003,), 0), ((70, 131), 0), ((70, 131), 1)):
        yield partial(_one_read, shape, axis)
    yield _histogram


def walk_groups() -> Iterator[Work]:
    """Groups of a line, of lines with labels in common, and of columns; few, and so many that labels are sorted."""
    for shape, axis in (((50_000,), 0), ((96, 700), 1), ((5, 9001), 1), ((901, 40), 0)):
        for groups in (3, 1000, 40_000):
            for op, dtypes in GROUPED.items():
                yield partial(_groups, shape, axis, groups, op, dtypes)


def _one_read(shape: tuple[int, ...], axis: int) -> None:
    """Several statistics, mapped elements and a few groups."""
    import cupy as cp

    x = cp.asarray(np.random.default_rng(0).normal(size=shape).astype("f4"))
    found = [*gr.stats(x, ["min", "argmax", "mean", "std", "sum"], axis=axis)]
    found.append(gr.map_reduce(lambda u, v: (u - 0.5) * v, "var", x, x[::-1], axis=axis))
    found.append(gr.map_scan(lambda u: u > 0.5, "sum", x, axis=axis))
    labels = cp.arange(shape[axis], dtype="i4") % 40
    found += [gr.grouped(x, labels, op, axis=axis, num_groups=40) for op in ("sum", "max", "argmin", "var")]
    for lazy in found:
        lazy.compute(scheduler="sync")


def _groups(shape: tuple[int, ...], axis: int, groups: int, op: str, dtypes: str) -> None:
    import cupy as cp

    labels = cp.asarray(np.random.default_rng(groups).integers(0, groups, shape[axis]))
    for dtype in dtypes.split():
        values = cp.asarray(make(shape, dtype, groups))
        gr.grouped(values, labels, op, axis=axis, num_groups=groups, fill_value=0).compute(scheduler="sync")


def _histogram() -> None:
    import cupy as cp

    x = cp.asarray(np.random.default_rng(0).normal(size=50_000))
    gr.histogram(x, 30, range=(-3, 3))[0].compute(scheduler="sync")


def walk_ladder() -> Iterator[Work]:
    for step in STEPS:
        if step.number:
            yield partial(_step, step)


def _step(step: Step) -> None:
    """One step of the textbook ladder, at sizes with a tail."""
    for n in (33, 5001, 100_002):
        x = make((n,), "float32", n)
        answer(step, x.reshape(3, -1) if step.family == "transpose" else x)


if __name__ == "__main__":
    main(*sys.argv[1:])
