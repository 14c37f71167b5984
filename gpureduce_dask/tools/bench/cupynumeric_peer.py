"""``python -m gpureduce_dask bench kernels --cupynumeric``: whole calls on one array and one GPU, beside cuPyNumeric.

cuPyNumeric lives in an environment of its own. Its Python runs this file as a script, which there imports NumPy and
cuPyNumeric alone; then ours is timed here, when the GPU is free again. A call that ends cuPyNumeric's process is noted
as such, and the script goes on behind it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
Result = dict[str, Any]

PEER = "cupynumeric"
# What Legate takes of the machine, in MB, unless LEGATE_CONFIG is set: room for the temporaries of 4 GiB.
CONFIG = "--gpus 1 --cpus 1 --utility 2 --sysmem 4000 --zcmem 512 --fbmem 65000"
ENDED = "the process ended in this call"
REPEATS, BEHIND_ONE_FENCE = 9, 3
COLUMNS = 65536
BINS, COUNTS = 256, 1000  # of histograms; integers are below COUNTS
RANGES = {"float32": (-0.25, 0.75), "int32": (0, COUNTS)}
ROUGH = 1e-3  # what CuPy's sums of float32 may be off by, beside the largest result


@dataclass(frozen=True)
class Case:
    """A call on an array: the square one, all of its elements in one line, or a small one."""

    name: str
    op: str
    axis: int | None = None
    data: str = "square"
    dtypes: tuple[str, ...] = ("float32", "int32")


CASES = (
    Case("sum all (4 KiB)", "sum", data="4 KiB", dtypes=("float32",)),
    Case("sum axis 0 (4 KiB)", "sum", 0, "4 KiB", ("float32",)),
    Case("sum all (4 MiB)", "sum", data="4 MiB", dtypes=("float32",)),
    *(Case(f"{op} all", op) for op in ("sum", "mean", "var", "max", "argmax")),
    Case("sum axis 0", "sum", 0),
    Case("sum axis 1", "sum", 1),
    Case("max axis 0", "max", 0),
    Case("argmax axis 1", "argmax", 1),
    Case("var axis 0", "var", 0),
    Case("cumsum axis 0", "cumsum", 0),
    Case("cumsum axis 1", "cumsum", 1),
    Case("sum 1-d", "sum", data="line"),
    Case("cumsum 1-d", "cumsum", 0, "line"),
    Case(f"histogram 1-d {BINS} bins", "histogram", data="line"),
    Case(f"bincount 1-d {COUNTS}", "bincount", data="line", dtypes=("int32",)),
)


def shape_of(data: str, gib: float) -> tuple[int, ...]:
    rows = max(1, int(gib * 2**30) // 4 // COLUMNS)
    return {"square": (rows, COLUMNS), "line": (rows * COLUMNS,), "4 KiB": (32, 32), "4 MiB": (1024, 1024)}[data]


def make(xp: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Random elements: from -0.25 to 0.75, or integers below COUNTS."""
    xp.random.seed(1)
    if dtype == "int32":
        return xp.random.randint(0, COUNTS, size=shape).astype(dtype)
    return xp.random.rand(*shape).astype(dtype) - np.float32(0.25)


def call(module: Any, case: Case, x: Any) -> Any:
    """The case by NumPy's name of it, in any package that has NumPy's names."""
    if case.op == "histogram":
        return module.histogram(x, bins=BINS, range=RANGES[str(x.dtype)])[0]
    if case.op == "bincount":
        return module.bincount(x, minlength=COUNTS)
    return getattr(module, case.op)(x, axis=case.axis)


def measure_all(
    xp: Any, gib: float, only: str, path: Path, result: Result, measure: Callable[[Case, Any], Row]
) -> Result:
    """A row for each case that ``path`` has none of yet, written as it comes. Before its array is made a row says
    that the process ended in it, and remains so where it does."""
    rows = result["rows"] = json.loads(path.read_text())["rows"] if path.exists() else {}
    path.write_text(json.dumps(result, indent=1))
    made: dict[tuple[str, str], Any] = {}
    for dtype in RANGES:
        for case in CASES:
            key = f"{case.name} {dtype}"
            if dtype not in case.dtypes or key in rows or not re.search(only, key):
                continue
            rows[key] = {"error": ENDED}
            path.write_text(json.dumps(result, indent=1))
            if (case.data, dtype) not in made:
                made.clear()  # the array before it, whose memory the next one needs
                made[case.data, dtype] = make(xp, shape_of(case.data, gib), dtype)
            rows[key] = measure(case, made[case.data, dtype])
            path.write_text(json.dumps(result, indent=1))
            print(describe(key, rows[key]), flush=True)
    return result


def timed(run: Callable[[], Any], nbytes: int) -> tuple[Row, Any]:
    """The first call, which compiles, and the median, the least and the most of later ones."""
    begin = time.perf_counter()
    found = run()
    row: Row = {"first_s": time.perf_counter() - begin, "dtype": str(getattr(found, "dtype", ""))}
    if getattr(found, "shape", ()) == ():
        row["value"] = float(found) if row["dtype"].startswith("float") else int(found)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    row |= {"seconds": statistics.median(times), "least": min(times), "most": max(times)}
    return row | {"read_GBps": nbytes / row["seconds"] / 1e9}, found


def theirs(xp: Any, fence: Callable[[], Any], case: Case, x: Any) -> Row:
    """cuPyNumeric's call and a fence behind it, and a call of several behind one fence."""

    def run(calls: int = 1) -> Any:
        found = [call(xp, case, x) for _ in range(calls)]
        fence()
        return found[0]

    try:
        row, _ = timed(run, x.nbytes)
        begin = time.perf_counter()
        run(BEHIND_ONE_FENCE)
    except Exception as error:  # of whatever class: the other cases are to be timed all the same
        return {"error": f"{type(error).__name__}: {error}"}
    return row | {"pipelined": (time.perf_counter() - begin) / BEHIND_ONE_FENCE}


def run_theirs(gib: float, only: str, path: Path) -> None:
    """In cuPyNumeric's own Python."""
    os.environ.setdefault("LEGATE_CONFIG", CONFIG)  # read when Legate is first imported
    xp = importlib.import_module(PEER)
    fence, machine = _legate()
    gpu, driver = _gpu()
    result = {
        "gpu": gpu,
        "driver": driver,
        "date": time.strftime("%Y-%m-%d"),
        "timed": "seconds: wall time of a call and of an execution fence behind it, the median of nine; pipelined: "
        "seconds a call of three behind one fence; first_s: the first call",
        "machine": machine,
        "config": os.environ["LEGATE_CONFIG"],
        "cupynumeric": xp.__version__,
        "numpy": np.__version__,
        "shape": shape_of("square", gib),
        "bytes": _bytes(gib),
    }
    measure_all(xp, gib, only, path, result, functools.partial(theirs, xp, fence))


def _legate() -> tuple[Callable[[], Any], str]:
    """What waits until all calls are done, and the machine as Legate has it; of NumPy, for tests, nothing."""
    try:
        core = importlib.import_module("legate.core")
    except ImportError:
        return lambda: None, ""
    runtime = core.get_legate_runtime()
    return functools.partial(runtime.issue_execution_fence, block=True), str(core.get_machine())


def _gpu() -> tuple[str, str]:
    """Names of the first GPU and of its driver, as the driver's own tool says them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        listing = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "", ""
    name, _, driver = listing.partition("\n")[0].partition(", ")
    return name, driver


def _bytes(gib: float) -> int:
    return int(np.prod(shape_of("square", gib))) * 4


def run_peer(python: str, gib: float, only: str, path: Path) -> Result:
    """This file by another Python, as often as it gets further: a call may end its process."""
    from ...errors import ExtraError, message

    path.unlink(missing_ok=True)
    command = [python, __file__, "--gib", str(gib), "--only", only, "--json", str(path)]
    known, ended = -1, 1
    while ended and len(_rows(path)) > known:
        known = len(_rows(path))
        try:
            ended = subprocess.run(command).returncode
        except OSError as error:
            received = f"--cupynumeric {python}: {error}"
            raise ExtraError(message("bench kernels", received, "a Python that has cuPyNumeric", "Name it.")) from error
    if ended:
        remedy = "Make an environment for it, pip install nvidia-cupynumeric, and name its Python."
        received = f"--cupynumeric {python}, which ended with {ended}"
        raise ExtraError(message("bench kernels", received, "a Python that has cuPyNumeric", remedy))
    found: Result = json.loads(path.read_text())
    return found


def _rows(path: Path) -> Result:
    return dict(json.loads(path.read_text())["rows"]) if path.exists() else {}


def run(python: str, gib: float, only: str, path: Path) -> None:
    """Time theirs, then ours, when the GPU is free again."""
    run_peer(python, gib, only, peer_path(path))
    run_ours(gib, only, path)


def peer_path(path: Path) -> Path:
    """The file of cuPyNumeric's times."""
    return path.with_name("cupynumeric.json")


def run_ours(gib: float, only: str, path: Path) -> Result:
    import cupy

    from ... import __version__
    from . import ceilings
    from .timing import device_seconds

    path.unlink(missing_ok=True)
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    result = {
        "gpu": properties["name"].decode(),
        "date": time.strftime("%Y-%m-%d"),
        "timed": "seconds: wall time to build and compute a dask array of one CuPy chunk until the GPU is idle, the "
        "median of nine; device_s: GPU time of the call of the chunk; first_s: the first call",
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "shape": shape_of("square", gib),
        "bytes": _bytes(gib),
        "gpureduce_dask": __version__,
        "ceilings_Bps": ceilings.measure(_bytes(gib)),
    }
    measure = functools.partial(ours, cupy, cupy.cuda.Device().synchronize, device_seconds)
    return measure_all(cupy, gib, only, path, result, measure)


def ours(xp: Any, idle: Callable[[], Any], device_seconds: Callable[..., float], case: Case, x: Any) -> Row:
    """A dask array of one chunk, built and computed; the chunk's own call; and whether CuPy's result is the same."""
    import dask.array as da

    import gpureduce_dask as gr

    def run() -> Any:
        found = call(gr, case, da.from_array(x, chunks=-1, name=False, asarray=False)).compute()
        idle()
        return found

    row, found = timed(run, x.nbytes)
    row["agrees"] = agrees(found, call(xp, case, x))
    del found
    row["device_s"] = device_seconds(chunk_call(case, x))
    return row | {"device_read_GBps": x.nbytes / row["device_s"] / 1e9}


def agrees(found: Any, want: Any) -> bool:
    if want.dtype.kind != "f":
        return bool((found == want).all())
    return bool(abs(found - want).max() <= ROUGH * abs(want).max())


def chunk_call(case: Case, x: Any) -> Callable[[], Any]:
    """The call of a chunk that a task of the case makes."""
    from ... import chunk
    from ...operators import table
    from ...operators.grouped import COUNT, Bins, Edges, binned

    axes = tuple(range(x.ndim)) if case.axis is None else (case.axis,)
    if case.op == "cumsum":
        return lambda: chunk.scan((x,), table.get("sum").bind(x.dtype), axes[0], with_total=False)[0]
    if case.op == "histogram":
        edges = np.histogram_bin_edges(np.empty(0, x.dtype), BINS, RANGES[str(x.dtype)])
        bins = Bins(case.op, (BINS,), axes, edges=Edges(edges, RANGES[str(x.dtype)]))
        return lambda: chunk.reduce_many([(x,)], binned(COUNT.bind(x.dtype), bins), axes)
    if case.op == "bincount":
        bins = Bins(case.op, (COUNTS,), axes, is_own=True, strict=True)
        return lambda: chunk.reduce_many([(x,)], binned(COUNT.bind(x.dtype), bins), axes)
    return lambda: chunk.results((x,), table.get(case.op).bind(x.dtype), axes)


def describe(key: str, row: Row) -> str:
    if "seconds" not in row:
        return f"{key:34s} {row['error']}"
    device = f"  on the GPU {row['device_s'] * 1e3:7.2f} ms" if "device_s" in row else ""
    flag = "" if row.get("agrees", True) else "  WRONG"
    return f"{key:34s} {row['seconds'] * 1e3:8.2f} ms{device}{flag}"


def is_clean(result: Result) -> bool:
    """True where every result of ours was right."""
    return all(row.get("agrees", True) for row in result["rows"].values())


def summary(result: Result, peer: Result) -> str:
    """A line for each row that both have: how many times as long cuPyNumeric takes."""
    lines = []
    for key, row in result["rows"].items():
        other = peer["rows"].get(key, {})
        if "seconds" in other and "seconds" in row:
            times = f"{other['seconds'] * 1e3:8.2f} ms, ours {row['seconds'] * 1e3:8.2f} ms"
            lines.append(f"{key:34s} cuPyNumeric {times}, {other['seconds'] / row['seconds']:6.2f} times")
        elif other:
            lines.append(f"{key:34s} cuPyNumeric: {other['error']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]  # its names are of this package
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float)
    parser.add_argument("--only")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    run_theirs(given.gib, given.only, given.json)
