"""The command: writes the data, runs every operation plain and accelerated, and tells where ours is worse."""

from __future__ import annotations

import json
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask

from ..host import processor
from ..peers import cupy_version, version_list, versions
from ..progress import progress
from ..report import between
from . import data, measure
from .operations import Fields, operations

Result = dict[str, Any]

WORKERS = 2  # of processes and distributed
THREADS = 4  # beside one GPU: each compiles what CuPy has not compiled yet
DISTRIBUTIONS = {name: name for name in ("numpy", "xarray", "flox", "zarr", "h5netcdf", "h5py")}
NOT_OURS = "no reduction, scan or group that this package has"


def run(
    scheduler: str,
    folder: Path,
    path: Path,
    only: str = "",
    size: data.Size = data.FULL,
    persisted: bool = False,
    gpu: bool = False,
    latency: float = 0,
    repeats: tuple[int, int] = measure.REPEATS,
) -> Result:
    """Measure the operations whose names match ``only``, and write the rows as JSON as they come.

    ``latency`` is for how many seconds a read of a stored chunk waits, as where the store is far away.
    """
    progress(f"writing files to {folder}, where they are not there yet")
    data.write(folder, size)
    result: Result = {
        "scheduler": scheduler,
        "processor": processor(),
        "date": time.strftime("%Y-%m-%d"),
        "dask": version("dask"),
        "peers": versions(DISTRIBUTIONS),
        "persisted": persisted,
        "gpu": gpu_name() if gpu else None,
        "cupy": cupy_version() if gpu else None,
        "size": repr(size),
        "workflows": [],
    }
    chosen = {name: each for name, each in operations().items() if re.search(only, name)}
    with tempfile.TemporaryDirectory() as logs, place(scheduler, THREADS if gpu else None) as where:
        log = data.Log(Path(logs), latency)
        lazy, on_host = Fields.opened(data.Opener(folder, log, size)), None
        if gpu:
            lazy, on_host = lazy.on_gpu(), lazy
        if persisted:
            lazy = where.persist(lazy)
        for name, operation in chosen.items():
            row = {"operation": name} | measure.measure(operation, lazy, where, log, repeats, on_host)
            result["workflows"].append(row)
            print(describe(row), flush=True)
            path.write_text(json.dumps(result, indent=1))
    return result


@contextmanager
def place(scheduler: str, threads: int | None = None) -> Iterator[measure.Local]:
    """Where a run's graphs are built and their tasks run: ``threads`` is of that scheduler, one a processor where it is
    None.

    Processes and workers start anew: none is forked from one that has threads.
    """
    if scheduler == "threads":
        with dask.config.set(scheduler="threads", num_workers=threads):
            yield measure.Local()
    elif scheduler == "processes":
        with (
            ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool,
            dask.config.set(scheduler="processes", pool=pool),
        ):
            yield measure.Processes()
    else:
        from distributed import Client, LocalCluster

        options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            yield measure.Cluster(client)


def gpu_name() -> str:
    """Of the first GPU."""
    import cupy

    name: bytes = cupy.cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode()


def describe(row: Result) -> str:
    """One line of an operation."""
    name = f"{row['operation']:32s}"
    if "error" in row:
        return f"{name} {row['error']}"
    plain, ours = row["plain"], row["ours"]
    cells = [f"tasks {plain['tasks']:5d} {ours['tasks']:5d}"]
    if plain["seconds"]:
        cells += [f"{plain['seconds']:7.3f} {ours['seconds']:7.3f} s", f"{_mib(plain)} {_mib(ours)} MiB"]
    if plain["reads"]:
        cells.append(f"reads {plain['reads']} {ours['reads']}, at a time {plain['at_a_time']} {ours['at_a_time']}")
    taken = [f"taken: {', '.join(row['taken'])}"] if row["taken"] else []
    wrong = (f"WRONG {each}" for each in row["wrong"])
    return "  ".join([name, *cells, *taken, *_left(row, row["left"]), *wrong, *row["worse"]])


def _left(row: Result, why: Iterable[str]) -> list[str]:
    """What was left to dask, and why: this package was not asked of what it does not have."""
    reasons = "; ".join(why) or ("" if row["taken"] else NOT_OURS)
    return [f"left to dask: {reasons}"] if reasons else []


def _mib(run: Result) -> int:
    return int(run["peak"]) >> 20


def is_clean(result: Result) -> bool:
    """True where every answer was plain dask's, and ours was worse in no column."""
    return not any(row.get("wrong") or row.get("worse") or _fails_alone(row) for row in result["workflows"])


def _fails_alone(row: Result) -> bool:
    return str(row.get("error", "")).startswith("ours")


def summary(result: Result) -> str:
    """How many operations there were, how many times faster ours was, and those in which it was worse."""
    bad = [row for row in result["workflows"] if row.get("wrong") or row.get("worse") or _fails_alone(row)]
    return "\n".join([*_totals(result), *(f"  {describe(row)}" for row in bad)])


def _totals(result: Result) -> list[str]:
    rows = [row for row in result["workflows"] if "plain" in row]
    lines = [
        f"{len(result['workflows'])} operations by {result['scheduler']}, "
        f"{'in memory' if result['persisted'] else 'from files'}: "
        f"{sum(bool(row['wrong']) for row in rows)} wrong, {sum(bool(row['worse']) for row in rows)} worse than plain, "
        f"{sum(bool(row['taken']) for row in rows)} taken"
    ]
    if alone := sum("plain_fails" in row for row in rows):
        lines.append(f"{alone} to which plain has no answer are compared with plain of NumPy chunks")
    if unlike := [row["operation"] for row in rows if "plain_differs" in row]:
        lines.append(f"of {', '.join(unlike)} plain differs from NumPy, ours does not")
    if neither := sum("error" in row for row in result["workflows"]):
        lines.append(f"to {neither} neither has an answer")
    timed = [row for row in rows if row["plain"]["seconds"] and "plain_fails" not in row]
    if timed:
        ratios = sorted(row["plain"]["seconds"] / row["ours"]["seconds"] for row in timed)
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        middle = statistics.median(ratios)
        lines.append(f"plain time by ours: median {middle:.2f}, tenth percentile {low:.2f}, ninetieth {high:.2f}")
    return lines


def into_page(text: str, result: Result) -> str:
    """A page with the table between the markers of its scheduler made anew."""
    where = f"{result['scheduler']}{'-persisted' if result['persisted'] else ''}{'-gpu' if result['gpu'] else ''}"
    device = result["gpu"] or result["processor"]
    heading = f"{device}, {result['date']}, {version_list(result)}: medians, taken in turn."
    marks = f"<!-- bench:workflows-{where} -->", f"<!-- /bench:workflows-{where} -->"
    totals = ". ".join(line[0].upper() + line[1:] for line in _totals(result))
    return between(*marks, f"{heading}\n\n{totals}.\n\n{table(result)}", text)


def table(result: Result) -> str:
    """All operations as a Markdown table."""
    heads = "operation, plain s, ours s, times, plain MiB, ours MiB, plain tasks, ours tasks, reads at a time, taken"
    columns = heads.split(", ")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in result["workflows"]:
        if "plain" not in row:
            lines.append(f"| {row['operation']} | {_cell(row['error'])} | | | | | | | | |")
            continue
        plain, ours = row["plain"], row["ours"]
        times = plain["seconds"] / ours["seconds"] if plain["seconds"] else float("nan")
        cells = [
            f"{plain['seconds'] or 0:.3f}{' (NumPy)' if 'plain_fails' in row else ''}",
            f"{ours['seconds'] or 0:.3f}",
            f"{times:.2f}",
            *map(str, (_mib(plain), _mib(ours), plain["tasks"], ours["tasks"])),
            f"{plain['at_a_time']}, {ours['at_a_time']}" if plain["reads"] else "",
            "; ".join(filter(None, [", ".join(row["taken"]), *_left(row, _reasons(row))])),
        ]
        lines.append(f"| {row['operation']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _reasons(row: Result) -> list[str]:
    """Why calls were left, without the calls: ``mean of (3, 2) float32 over axis 0: each result ...``."""
    return list(dict.fromkeys(each.split(": ", 1)[-1] for each in row["left"]))


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")[:80]
