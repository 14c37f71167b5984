"""What share of the Earth is land? 933 million cells reduced through the public functions."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from ..errors import ExtraError
from .earth import Array, band_areas, mask_file, read_mask

PUBLISHED_LAND, PUBLISHED_TOTAL = 148.94, 510.072  # million km2; CIA, The World Factbook, "World": Area
BAR = 40
# Dashboards listen on every interface unless they are told not to.
LOOPBACK = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}


@dataclass(frozen=True)
class Shares:
    """How much is land."""

    cells: int  # land cells
    area: float  # share of the whole area
    hemispheres: dict[str, float]  # share of the area of each
    rows: Array  # share of each row, from north to south
    weights: Array  # area of each row, square metres

    @property
    def edges(self) -> Array:
        """Latitudes between the rows, from 90 to -90."""
        return np.linspace(90.0, -90.0, self.rows.size + 1)

    @property
    def halving_latitude(self) -> float:
        """The parallel with as much land north of it as south of it."""
        north_of = np.concatenate([[0.0], np.cumsum(self.rows * self.weights)])
        return float(np.interp(north_of[-1] / 2, north_of, self.edges))


def land_shares(land: da.Array, compute: Callable[[list[da.Array]], list[Any]], xp: ModuleType = np) -> Shares:
    """Reduce a mask of the globe (rows from north to south, columns from 180 W) with this package's functions."""
    height, width = land.shape
    weights = band_areas(np.linspace(90.0, -90.0, height + 1))
    bands = da.from_array(weights, chunks=(land.chunks[0],)).map_blocks(xp.asarray)
    west = gr.mean(land[:, : width // 2], axis=1)
    east = gr.mean(land[:, width // 2 :], axis=1)
    rows = (west + east) / 2
    equator = height // 2
    hemispheres = {
        "northern": gr.average(rows[:equator], weights=bands[:equator]),
        "southern": gr.average(rows[equator:], weights=bands[equator:]),
        "eastern": gr.average(east, weights=bands),
        "western": gr.average(west, weights=bands),
    }
    answers = compute([gr.sum(land), gr.average(rows, weights=bands), rows, *hemispheres.values()])
    cells, area, profile, *parts = map(to_numpy, answers)
    return Shares(int(cells), float(area), dict(zip(hemispheres, map(float, parts), strict=True)), profile, weights)


def to_numpy(array: Any) -> Array:
    """A CuPy or NumPy array, or a scalar, as a NumPy array."""
    values: Array = np.asarray(array.get() if hasattr(array, "get") else array)
    return values


def report(shares: Shares, cells: int) -> str:
    """The answer in words, for a mask of so many cells; areas in million square kilometres."""
    total = shares.weights.sum() / 1e12
    latitude = shares.halving_latitude
    published = PUBLISHED_LAND / PUBLISHED_TOTAL
    return "\n".join(
        [
            f"land, share of cells    {shares.cells / cells:8.2%}   the trap: cells shrink towards the poles",
            f"land, share of area     {shares.area:8.2%}   {shares.area * total:.2f} of {total:.3f} million km2",
            f"  published             {published:8.2%}   {PUBLISHED_LAND:.2f} of {PUBLISHED_TOTAL:.3f} million km2"
            " (CIA, The World Factbook)",
            *(f"{name} hemisphere     {share:8.2%}" for name, share in shares.hemispheres.items()),
            f"half of all land lies north of {abs(latitude):.2f} degrees {'north' if latitude >= 0 else 'south'}",
        ]
    )


def plot(shares: Shares, path: str) -> None:
    """Write a PNG of land share by latitude."""
    from matplotlib.figure import Figure

    middle = (shares.edges[1:] + shares.edges[:-1]) / 2
    figure = Figure(figsize=(6, 7), layout="constrained")
    axes = figure.subplots()
    axes.fill_betweenx(middle, 100 * shares.rows, color="tab:brown", alpha=0.6, linewidth=0)
    axes.axvline(100 * shares.area, color="black", linewidth=1, label=f"all latitudes: {shares.area:.1%}")
    axes.axhline(shares.halving_latitude, color="tab:blue", linestyle="--", label="half of all land on either side")
    axes.set(xlim=(0, 100), ylim=(-90, 90), xlabel="land, % of the parallel", ylabel="latitude, degrees north")
    axes.set(title="Land by latitude", yticks=range(-90, 91, 30))
    axes.legend(loc="center right")
    figure.savefig(path, dpi=120)


def show_progress(label: str, done: float, seconds: float) -> None:
    """Draw a bar over the last one on a terminal; elsewhere only the finished one."""
    if sys.stdout.isatty() or done >= 1:
        end = "\n" if done >= 1 else "\r"
        print(f"{label:9} [{'#' * int(BAR * done):{BAR}}] {done:4.0%} {seconds:6.2f} s", end=end, flush=True)


def unfinished(dask_scheduler: Any) -> int:
    """Runs on the scheduler: how many tasks are still to do."""
    return sum(task.state in ("waiting", "queued", "processing", "no-worker") for task in dask_scheduler.tasks.values())


def run_with_progress(client: Any, label: str, work: list[da.Array]) -> tuple[list[Any], float]:
    """Compute the arrays on the cluster behind a progress bar; the results and the seconds it took."""
    from distributed import wait

    start = time.perf_counter()
    futures = client.compute(work)
    most = 1
    while True:
        try:
            wait(futures, timeout=0.1)
            break
        except TimeoutError:
            left = client.run_on_scheduler(unfinished)
            most = max(most, left)
            show_progress(label, min(1 - left / most, 0.99), time.perf_counter() - start)
    results = client.gather(futures)
    seconds = time.perf_counter() - start
    show_progress(label, 1, seconds)
    return results, seconds


def load(client: Any, xp: ModuleType) -> Any:
    """The mask of land, a dask array whose chunks are in the workers' memory, on the GPU if ``xp`` is CuPy."""
    from distributed import wait

    start = time.perf_counter()
    blocks = [
        da.from_delayed(client.scatter(~block, hash=False), block.shape, block.dtype)
        for block in read_mask(progress=lambda done: show_progress("reading", done, time.perf_counter() - start))
    ]
    land = da.concatenate(blocks).map_blocks(xp.asarray).persist()
    wait(land)
    return land


def array_module(cpu: bool) -> tuple[ModuleType, str]:
    """CuPy and the GPU's name where there is a GPU to use, else NumPy."""
    if not cpu and find_spec("cupy"):
        import cupy

        try:
            name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
            return cupy, f"CuPy chunks on one {name}"
        except cupy.cuda.runtime.CUDARuntimeError:
            pass
    return np, "NumPy chunks on the CPU (no GPU in use)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default="land_share.png", metavar="PNG", help="the chart (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="stay on NumPy even where there is a GPU")


def run(arguments: argparse.Namespace) -> int:
    mask_file()
    if not find_spec("matplotlib"):
        raise ExtraError('demo: matplotlib is not installed. Run: pip install "gpureduce-dask[demo]"')
    from distributed import Client, LocalCluster

    xp, where = array_module(arguments.cpu)
    with LocalCluster(processes=False, **LOOPBACK) as cluster, Client(cluster) as client:
        land = load(client, xp)
        print(f"{land.size:,} cells of 30 arc-seconds, {land.npartitions} chunks: {where}")
        seconds: dict[str, float] = {}

        def compute(work: list[da.Array]) -> list[Any]:
            label = "again" if seconds else "reducing"
            results, seconds[label] = run_with_progress(client, label, work)
            return results

        shares = land_shares(land, compute, xp)
        land_shares(land, compute, xp)  # the first time includes start-up, and compiling for a GPU
    first, again = seconds.values()
    print(f"\n{report(shares, land.size)}\n")
    gigabytes = land.nbytes / 1e9
    print(
        f"{gigabytes:.2f} GB in {first:.2f} s ({gigabytes / first:.2f} GB/s), again in {again:.2f} s "
        f"({gigabytes / again:.2f} GB/s)"
    )
    plot(shares, arguments.output)
    print(f"chart: {arguments.output}")
    return 0
