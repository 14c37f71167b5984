"""dask-cuda's own ``local_cupy`` benchmark as it is, stock and under :func:`gpureduce_dask.accelerate`."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

from .progress import progress

OPERATIONS = ("sum", "mean")
SECONDS = 80.0  # that all runs together are worth
# 64 MiB chunks of float64, 8 GiB a GPU.
CHUNK, ROWS, RUNS = 2896, 32768, 5
ACCELERATED = "import gpureduce_dask; gpureduce_dask.accelerate(); "
START = "import runpy; runpy.run_module('dask_cuda.benchmarks.local_cupy', run_name='__main__', alter_sys=True)"
TIME = re.compile(r"^\s*([0-9.]+) (s|ms|us|μs)\s*\|", re.MULTILINE)
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "μs": 1e-6}

Row = dict[str, Any]


def run(gpus: int, until: float) -> list[Row]:
    """A row an operation: median seconds of stock dask and of ours, each in a process and on a cluster of its own."""
    if find_spec("dask_cuda") is None:
        return [{"case": op, "error": "dask-cuda is not installed"} for op in OPERATIONS]
    rows = []
    for op in OPERATIONS:
        row: Row = {"case": op}
        for name, code in (("stock", START), ("ours", ACCELERATED + START)):
            try:
                row[name] = once(code, op, gpus, until - time.monotonic())
            except Exception as error:  # what one lacks must not take the others along
                row["error"] = f"{name}: {type(error).__name__}: {error}"[-600:]
        rows.append(row)
        times = ", ".join(f"{name} {row[name]:.3f} s" for name in ("stock", "ours") if name in row)
        progress(f"dask-cuda local_cupy {op}: {row.get('error', times)}")
    return rows


def once(code: str, op: str, gpus: int, timeout: float) -> float:
    """Median seconds that the benchmark prints."""
    size = int(ROWS * gpus**0.5)
    devices = ",".join(map(str, range(gpus)))
    options = ["-d", devices, "-t", "gpu", "-o", op, "-s", str(size), "-c", str(CHUNK), "--runs", str(RUNS)]
    options += ["--warmup-runs", "2", "--no-show-p2p-bandwidth"]
    command = [sys.executable, "-c", code, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=max(timeout, 1), check=False)
    times = parse(done.stdout)
    if not times:
        raise RuntimeError(f"exit status {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    return statistics.median(times)


def parse(text: str) -> list[float]:
    """The wall-clock column of the benchmark's table, in seconds."""
    return [float(number) * UNITS[unit] for number, unit in TIME.findall(text)]
