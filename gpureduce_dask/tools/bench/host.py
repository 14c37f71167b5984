"""``python -m gpureduce_dask bench host``: NumPy chunks beside stock dask and NumPy, on the processor at hand.

Reductions are those of all chunks, running sums those of one, which NumPy computes too.
"""

from __future__ import annotations

import functools
import importlib.metadata as metadata
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.base
import numpy as np

import gpureduce_dask as gr

from ...operators import native
from .report import between
from .timing import seconds

Row = dict[str, Any]
Result = dict[str, Any]

BEGIN, END = "<!-- bench:host -->", "<!-- /bench:host -->"
SIDE = 4096  # rows of a chunk
FIVE = "min, max, mean, std and argmax together"
CASES = tuple(
    (op, dtype, axis)
    for dtype in ("float32", "float64")
    for op, axes in (
        ("sum", (None, 0, 1)),
        ("mean", (None, 0, 1)),
        ("min", (None, 0, 1)),
        ("max", (None, 0, 1)),
        ("var", (0, 1)),
        ("std", (0, 1)),
        ("nanvar", (0, 1)),
        ("argmin", (0, 1)),
        ("argmax", (0, 1)),
        (FIVE, (None, 0, 1)),
        ("cumsum", (0, 1)),  # of all axes stock dask makes a chunk of each element
    )
    for axis in axes
)
ROUGH = {"float32": 1e-5, "float64": 1e-12}  # what stock dask's rounding may come to


def run(mib: float, chunks: int, repeats: int, path: Path) -> Result:
    """Time ours and stock dask's in turn, by dask's own threads, and write the medians."""
    result: Result = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "numpy": np.__version__,
        "dask": metadata.version("dask"),
        "date": time.strftime("%Y-%m-%d"),
        "mib": mib,
        "chunks": chunks,
        "compiled": native.library() is not None,
        "host": [],
    }
    data: dict[str, Any] = {}
    for op, dtype, axis in CASES:
        if dtype not in data:
            data = {dtype: make(dtype, mib, chunks)}
        result["host"].append(measure(op, dtype, axis, data[dtype], repeats))
        print(describe(result["host"][-1]), flush=True)
        path.write_text(json.dumps(result, indent=1))
    return result


def make(dtype: str, mib: float, chunks: int) -> Any:
    """Random chunks in memory, side by side along the first axis."""
    rng: Any = np.random.default_rng(1)
    shape = (SIDE, int(mib * 2**20) // SIDE // np.dtype(dtype).itemsize)
    parts = [da.from_array(rng.random(shape, dtype=dtype), chunks=-1) for _ in range(chunks)]
    return da.concatenate(parts).persist(scheduler="sync")


def measure(op: str, dtype: str, axis: int | None, x: Any, repeats: int) -> Row:
    """Medians of all in turn: what else the machine does strikes each."""
    x = x.blocks[0].persist(scheduler="sync") if op == "cumsum" else x
    calls: dict[str, Callable[[], Any]] = {
        name: functools.partial(_compute, module, op, x, axis) for name, module in (("ours_s", gr), ("stock_s", da))
    }
    ours, want = (call() for call in calls.values())
    if op == "cumsum":
        chunk = x.compute(scheduler="sync")
        calls["numpy_s"] = functools.partial(np.cumsum, chunk, axis)
        ours, want = ours.compute(), np.cumsum(chunk, axis, "f8")  # in float32 stock dask's sums drift
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call)[0])
    row: Row = {"op": op, "dtype": dtype, "axis": axis, "agrees": _agree(ours, want, dtype)}
    return row | {name: statistics.median(found) for name, found in times.items()}


def _compute(module: Any, op: str, x: Any, axis: int | None) -> Any:
    if op == FIVE:
        names = ["min", "max", "mean", "std", "argmax"]
        several = gr.stats(x, names, axis) if module is gr else [getattr(module, name)(x, axis=axis) for name in names]
        compute: Any = dask.base.compute
        return compute(*several, scheduler="threads")
    result = getattr(module, op)(x, axis=axis)
    # What is as large as a chunk stays where it is: compute would copy it.
    return result.persist(scheduler="threads") if op == "cumsum" else result.compute(scheduler="threads")


def _agree(ours: Any, want: Any, dtype: str) -> bool:
    if isinstance(ours, tuple):
        return all(_agree(*each, dtype) for each in zip(ours, want, strict=True))
    if np.asarray(ours).dtype.kind in "iu":
        return bool(np.array_equal(ours, want))
    return bool(np.allclose(ours, want, rtol=ROUGH[dtype]))


def processor() -> str:
    """The name of this machine's processor."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def describe(row: Row) -> str:
    """One line: all times and how many times faster than stock dask's ours is."""
    what = f"{row['op']} {row['dtype']} {'all' if row['axis'] is None else 'axis=' + str(row['axis'])}"
    flag = "" if row["agrees"] else "  WRONG"
    ours, stock = row["ours_s"], row["stock_s"]
    numpy = f"  NumPy {row['numpy_s'] * 1e3:7.1f} ms" if "numpy_s" in row else ""
    return f"{what:24s} ours {ours * 1e3:7.1f} ms  stock {stock * 1e3:7.1f} ms{numpy}  {stock / ours:5.2f} times{flag}"


def is_clean(result: Result) -> bool:
    """True where every result was stock dask's."""
    return all(row["agrees"] for row in result["host"])


def table(result: Result) -> str:
    """How many times faster than stock dask, an operation a line; running sums of one chunk beside NumPy's as well."""
    found = {(r["op"], r["dtype"], r["axis"]): r["stock_s"] / r["ours_s"] for r in result["host"]}
    found |= {
        (f"{r['op']}: NumPy's time by ours", r["dtype"], r["axis"]): r["numpy_s"] / r["ours_s"]
        for r in result["host"]
        if "numpy_s" in r
    }
    columns = [(dtype, axis) for dtype in ("float32", "float64") for axis in (None, 0, 1)]
    heads = [f"{dtype} {'all' if axis is None else f'axis {axis}'}" for dtype, axis in columns]
    lines = ["| stock dask's time by ours | " + " | ".join(heads) + " |", "|---|" + "---|" * len(columns)]
    for op in dict.fromkeys(key[0] for key in found):
        cells = [f"{found[op, *c]:.2f}" if (op, *c) in found else "" for c in columns]
        lines.append(f"| {op} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def into_page(text: str, result: Result) -> str:
    """A page with the table between its markers made anew."""
    heading = (
        f"{result['processor']}, {result['cores']} cores, {result['date']}, NumPy {result['numpy']}"
        f"{', dask ' + result['dask'] if 'dask' in result else ''}, "
        f"{'with' if result['compiled'] else 'without'} the loops in C: {result['chunks']} NumPy chunks of "
        f"{result['mib']:g} MiB, of cumsum one, by dask's threads, medians taken in turn."
    )
    return between(BEGIN, END, f"{heading}\n\n{table(result)}", text)
