"""``python -m gpureduce_dask bench host --numbagg``: NumPy chunks with NaN for what is missing, beside numbagg.

Ours reduces chunks by dask's threads; numbagg takes one array of the same elements, by its own threads.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata as metadata
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from ...errors import ExtraError, message
from ...operators import native
from .host import SIDE, processor
from .report import between
from .timing import seconds

Row = dict[str, Any]
Result = dict[str, Any]

BEGIN, END = "<!-- bench:numbagg -->", "<!-- /bench:numbagg -->"
MISSING = 0.01  # of the elements are NaN
GROUPS = 100
GROUPED = f"nanmean in {GROUPS} groups"
CASES = tuple(
    (op, dtype, axis)
    for dtype in ("float32", "float64")
    for op, axes in (
        ("nansum", (None, 0, 1)),
        ("nanmean", (None, 0, 1)),
        ("nanmax", (None, 0, 1)),
        ("nanvar", (None, 0, 1)),
        ("nanargmax", (0, 1)),
        (GROUPED, (1,)),
        ("ffill", (0, 1)),
    )
    for axis in axes
)
ROUGH = {"float32": 1e-6, "float64": 1e-12}  # what ours may be off by, of sums in float64


def run(mib: float, chunks: int, repeats: int, path: Path) -> Result:
    """Time both in turn and write the medians."""
    peer = load()
    result: Result = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "numpy": np.__version__,
        "dask": metadata.version("dask"),
        "numba": metadata.version("numba"),
        "peer": metadata.version("numbagg"),
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,  # of what else the machine does
        "mib": mib,
        "chunks": chunks,
        "compiled": native.library() is not None,
        "numbagg": [],
    }
    data: dict[str, tuple[Any, Any]] = {}
    for op, dtype, axis in CASES:
        if dtype not in data:
            data = {dtype: make(dtype, mib, chunks)}
        array, x = data[dtype]
        result["numbagg"].append(measure(peer, op, dtype, axis, array, x, repeats))
        print(describe(result["numbagg"][-1]), flush=True)
        path.write_text(json.dumps(result, indent=1))
    return result


def load() -> Any:
    try:
        return importlib.import_module("numbagg")
    except ImportError as error:
        remedy = "Install it: pip install numbagg."
        raise ExtraError(message("bench host", f"--numbagg: {error}", "numbagg", remedy)) from error


def make(dtype: str, mib: float, chunks: int) -> tuple[Any, Any]:
    """Random elements, some of them NaN: an array, and its chunks in memory, which are parts of it."""
    rng: Any = np.random.default_rng(1)
    array = rng.random((chunks * SIDE, int(mib * 2**20) // SIDE // np.dtype(dtype).itemsize), dtype=dtype)
    array[rng.random(array.shape, dtype="f4") < MISSING] = np.nan
    parts = [da.from_array(part, chunks=-1) for part in np.split(array, chunks)]
    return array, da.concatenate(parts).persist(scheduler="sync")


def measure(peer: Any, op: str, dtype: str, axis: int | None, array: Any, x: Any, repeats: int) -> Row:
    """Medians of both in turn: what else the machine does strikes each. First calls, which compile, are not timed."""
    calls: dict[str, Callable[[], Any]] = {
        "ours_s": functools.partial(_ours, op, x, axis),
        "numbagg_s": functools.partial(_theirs, peer, op, array, axis),
    }
    ours, theirs = (call() for call in calls.values())
    # What is filled is not computed: both have to be the same.
    ours, want = (ours.compute(), theirs) if op == "ffill" else (ours, _truth(op, array, axis))
    row: Row = {"op": op, "dtype": dtype, "axis": axis}
    row["agrees"] = bool(np.allclose(ours, want, rtol=ROUGH[dtype], equal_nan=True))
    row["numbagg_error"] = 0.0 if op == "ffill" else _off(theirs, want)
    del ours, theirs, want
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call)[0])
    return row | {name: statistics.median(found) for name, found in times.items()}


def _labels(n: int) -> Any:
    return np.arange(n) % GROUPS


def _ours(op: str, x: Any, axis: int | None) -> Any:
    if op == GROUPED:
        return gr.grouped(x, _labels(x.shape[-1]), "nanmean", axis=axis).compute(scheduler="threads")
    result = getattr(gr, op)(x, axis=axis)
    # What is as large as the array stays in its chunks: compute would copy it.
    return result.persist(scheduler="threads") if op == "ffill" else result.compute(scheduler="threads")


def _theirs(peer: Any, op: str, array: Any, axis: int | None) -> Any:
    if op == GROUPED:
        return peer.group_nanmean(array, _labels(array.shape[-1]), axis=axis)
    return getattr(peer, op)(array, axis=axis, **({"ddof": 0} if op == "nanvar" else {}))


def _truth(op: str, array: Any, axis: int | None) -> Any:
    """NumPy's result, of sums in float64."""
    if op == GROUPED:
        groups = range(min(GROUPS, array.shape[-1]))
        return np.stack([np.nanmean(array[:, first::GROUPS], axis=axis, dtype="f8") for first in groups], -1)
    return getattr(np, op)(array, axis=axis, **({} if op in ("nanmax", "nanargmax") else {"dtype": "f8"}))


def _off(found: Any, want: Any) -> float:
    """The largest relative difference, of what is a number."""
    return float(np.nan_to_num(np.abs(found - want) / np.where(want == 0, 1, np.abs(want))).max())


def describe(row: Row) -> str:
    """One line: both times, how many times faster ours is, and what numbagg's result is off by."""
    what = f"{row['op']} {row['dtype']} {'all' if row['axis'] is None else 'axis=' + str(row['axis'])}"
    flag = "" if row["agrees"] else "  WRONG"
    ours, theirs, off = row["ours_s"], row["numbagg_s"], row["numbagg_error"]
    times = f"ours {ours * 1e3:7.1f} ms  numbagg {theirs * 1e3:7.1f} ms (off by {off:.0e})"
    return f"{what:32s} {times}  {theirs / ours:5.2f} times{flag}"


def is_clean(result: Result) -> bool:
    """True where every result of ours was right."""
    return all(row["agrees"] for row in result["numbagg"])


def table(result: Result) -> str:
    """How many times faster than numbagg, an operation a line; last how far numbagg's are from results in float64."""
    found = {(r["op"], r["dtype"], r["axis"]): r["numbagg_s"] / r["ours_s"] for r in result["numbagg"]}
    columns = [(dtype, axis) for dtype in ("float32", "float64") for axis in (None, 0, 1)]
    heads = [f"{dtype} {'all' if axis is None else f'axis {axis}'}" for dtype, axis in columns]
    lines = ["| numbagg's time by ours | " + " | ".join(heads) + " |", "|---|" + "---|" * len(columns)]
    worst = {c: max(r["numbagg_error"] for r in result["numbagg"] if (r["dtype"], r["axis"]) == c) for c in columns}
    for op in dict.fromkeys(key[0] for key in found):
        cells = [f"{found[op, *c]:.2f}" if (op, *c) in found else "" for c in columns]
        lines.append(f"| {op} | " + " | ".join(cells) + " |")
    lines.append("| what numbagg's are off by, at most | " + " | ".join(f"{worst[c]:.0e}" for c in columns) + " |")
    return "\n".join(lines)


def into_page(text: str, result: Result) -> str:
    """A page with the table between its markers made anew."""
    heading = (
        f"{result['processor']}, {result['cores']} cores, {result['date']}, numbagg {result['peer']}, numba "
        f"{result['numba']}, NumPy {result['numpy']}, {'with' if result['compiled'] else 'without'} the loops in C: "
        f"{result['chunks']} NumPy chunks of {result['mib']:g} MiB, one element of a hundred NaN; numbagg has them as "
        "one array. Medians taken in turn."
    )
    return between(BEGIN, END, f"{heading}\n\n{table(result)}", text)
