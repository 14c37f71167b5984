"""Verifies each step against exact answers at awkward sizes, then times all of them in one run."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ... import chunk
from ... import history as table
from ...history import Step
from ...operators.table import OPERATORS
from ...steps.host import pairwise
from ...steps.runs import Run, default_grid
from ..bench.ceilings import measure as measure_ceilings
from ..bench.timing import device_seconds, median_seconds

Row = dict[str, Any]

DTYPES = ("float32", "float64", "int32")
SIZES = (1, 31, 32, 33, 1023, 2**20 - 1, 2**20, 2**20 + 1)
SHAPES = ((1, 1), (1, 31), (32, 1), (33, 31), (1023, 65), (1024, 1025))
TIMED = "float32"
SLOW = 64  # steps that use a single warp or block are timed on so many times fewer elements
POISON = 2**25 + 4  # memory from the pool may hold the answer of the step before
SWEPT = "reduce-12"
WAVES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)  # grids of the sweep, as parts of the one that fills the GPU once


def numbers(n: int, dtype: str, seed: int = 0) -> Any:
    """Whole numbers on the host whose sums are exact in any order; integers that wrap."""
    most = 2**31 - 1 if dtype == "int32" else 9
    return np.random.default_rng(seed).integers(-most, most, n).astype(dtype)


def exact(family: str, x: Any) -> Any:
    """The answer, by NumPy."""
    if family == "transpose":
        return x.T
    return np.atleast_1d(x.sum(dtype=x.dtype)) if family == "reduce" else np.cumsum(x, dtype=x.dtype)


def answer(step: Step, x: Any) -> Any:
    """What a step makes of a NumPy array, in its dtype; by its kernel, on the host, or by the public functions."""
    import cupy

    if step.kernel:
        return call_of(step, cupy.asarray(x))[1]().get()
    if step.number == 0:
        return pairwise(x)
    import gpureduce_dask as gr

    function = gr.sum if step.family == "reduce" else gr.cumsum
    lazy = function(cupy.asarray(x), dtype=x.dtype)
    return np.atleast_1d(cupy.asnumpy(lazy.compute(scheduler="sync")))


def failures(steps: Iterable[Step]) -> dict[str, list[str]]:
    """Where each step is wrong: dtypes and sizes, or the error it raised."""
    wrong: dict[str, list[str]] = {step.label: [] for step in steps}
    for family in table.FAMILIES:
        shapes: Iterable[Any] = SHAPES if family == "transpose" else SIZES
        for dtype in DTYPES:
            for seed, shape in enumerate(shapes):
                x = numbers(math.prod(np.atleast_1d(shape).tolist()), dtype, seed).reshape(shape)
                wanted = exact(family, x)
                for step in steps:
                    if step.family == family and not _agrees(step, x, wanted, wrong[step.label]):
                        wrong[step.label].append(f"{dtype} {shape}")
    return wrong


def _agrees(step: Step, x: Any, wanted: Any, messages: list[str]) -> bool:
    try:
        return bool(np.array_equal(answer(step, x), wanted))
    except Exception as error:  # one step that cannot run here must not hide the others
        messages.append(f"{type(error).__name__}: {str(error)[:300]}")
        return False


def run(steps: list[Step], n: int, out: Path) -> dict[str, Any]:
    """Check, then time; prints as it goes, returns the whole and writes it as JSON."""
    import cupy as cp

    gpu = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["name"].decode()
    ceilings = measure_ceilings()
    cp.get_default_memory_pool().free_all_blocks()
    date = time.strftime("%Y-%m-%d")
    result: dict[str, Any] = {"gpu": gpu, "date": date, "cupy": cp.__version__, "n": n, "dtype": TIMED, **ceilings}
    print(f"{gpu}: R {ceilings['R'] / 1e9:,.0f} GB/s, C {ceilings['C'] / 1e9:,.0f} GB/s", flush=True)
    wrong = failures(steps)
    result["rows"] = rows = []
    x = cp.random.default_rng(1).integers(-4, 5, n, dtype="i4").astype(TIMED)
    for step in steps:
        row = _timed(step, x, wrong[step.label])
        ceiling = ceilings["R" if step.family == "reduce" else "C"]
        if "seconds" in row:
            row["share"] = row["rate"] / ceiling
        rows.append(row)
        print(describe(row), flush=True)
        out.write_text(json.dumps(result, indent=1))
    return result


def _timed(step: Step, x: Any, wrong: list[str]) -> Row:
    """One step: its checks, and on an array of the size that counts its answer and its time."""
    row: Row = {"step": step.label, "family": step.family, "name": step.name}
    part = part_of(step, x)
    try:
        call, result = call_of(step, part)
        if step.label == SWEPT:
            row["sweep"] = _sweep(step, part)
            call, result = call_of(step, part, min(row["sweep"], key=lambda each: each[1])[0])
        if not _exact_at_size(step.family, part, result()):
            wrong = [*wrong, f"{TIMED} {part.shape}"]
        seconds = device_seconds(call) if step.number else median_seconds(call, 3)[0]
        nbytes = part.nbytes + (part.dtype.itemsize if step.family == "reduce" else part.nbytes)
        row.update(n=part.size, seconds=seconds, bytes=nbytes, rate=nbytes / seconds)
    except Exception as error:
        wrong = [*wrong, f"{type(error).__name__}: {str(error)[:300]}"]
    return {**row, "wrong": wrong}


def part_of(step: Step, x: Any) -> Any:
    """What a step is timed on: all elements, the first of them for a slow step, or a matrix that is almost square."""
    part = x[: max(1, x.size // SLOW)] if step.slow else x
    if step.family != "transpose":
        return part
    rows = math.isqrt(part.size)
    return part[: rows * (part.size // rows)].reshape(rows, -1)


def call_of(step: Step, x: Any, grid: int = 0) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What is timed, and what gives the answer that is checked."""
    import cupy

    if step.kernel:
        ready = Run(step, x, grid)

        def once() -> Any:
            ready.out.fill(POISON)
            ready.refill()
            ready.start()
            return ready.out

        return ready.start, once
    if step.number == 0:
        host = x.get()
        return lambda: pairwise(host), lambda: cupy.asarray(pairwise(host))
    bound = OPERATORS["sum"].bind(x.dtype)
    if step.family == "reduce":  # what the trees' tasks call for a chunk that holds all of its elements
        return (lambda: chunk.results((x,), bound, (0,)),) * 2
    out = cupy.full_like(x, POISON)
    return (lambda: chunk.scan((x,), bound, 0, out=out)[0],) * 2


def _sweep(step: Step, x: Any) -> list[tuple[int, float]]:
    """Blocks of a grid, and the seconds that it takes."""
    whole = default_grid(x.data.device_id)
    grids = sorted({max(1, int(whole * part)) for part in WAVES})
    return [(grid, device_seconds(Run(step, x, grid).start)) for grid in grids]


def _exact_at_size(family: str, x: Any, got: Any) -> bool:
    """The same as CuPy's answer in float64, which is exact for these numbers."""
    import cupy as cp

    if family == "transpose":
        return bool((got == x.T).all())
    if family == "reduce":
        return float(got.reshape(-1)[0]) == float(x.sum(dtype="f8"))
    return bool((got == cp.cumsum(x, dtype="f8")).all())


def describe(row: Row) -> str:
    """One line a row."""
    flag = f"  WRONG: {'; '.join(row['wrong'][:3])}" if row["wrong"] else ""
    if "seconds" not in row:
        return f"{row['step']:<16} {row['name']:<17} not timed{flag}"
    figures = f"{row['seconds'] * 1e3:10.3f} ms {row['rate'] / 1e9:8.1f} GB/s {row['share']:6.3f}"
    return f"{row['step']:<16} {row['name']:<17} {figures}{flag}"
