"""``python -m gpureduce_dask bench trees``: whole reductions on a cluster of this machine, beside stock dask."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

Result = dict[str, Any]
Row = dict[str, Any]

PERSISTED = ("sum", "mean", "max", "var", "argmax")
LAZY = ("sum", "sum of squares about 0.5")
STOCK_REPEATS = 3  # a tree of thousands of tasks takes seconds


@contextmanager
def cluster(gpus: int, workers: int) -> Iterator[Any]:
    """A client of so many workers on this machine: one a GPU, or NumPy workers; of one thread, kernels not compiled."""
    with gr.cluster.start(
        gpus or workers,
        gpu=gpus > 0,
        protocol="tcp",
        rmm_pool_size=None,
        dashboard_address="127.0.0.1:0",
        threads_per_worker=1,
    ) as client:
        gr.warm(client, ops=())
        yield client


def make_chunk(on_gpu: bool, block_info: Any = None) -> Any:
    """Random float32 in [0, 1), another for each chunk."""
    low, high = block_info[None]["array-location"][0]
    if on_gpu:
        import cupy

        return cupy.random.default_rng(low % 2**31).random(high - low, dtype="f4")
    return np.random.default_rng(low % 2**31).random(high - low, dtype="f4")


def lazy_array(chunks: int, nbytes: int, on_gpu: bool) -> Any:
    """An array of so many chunks and bytes, which is yet to be made."""
    size = max(1, nbytes // 4 // chunks)
    meta = gr.device_meta(1, "f4") if on_gpu else np.empty(0, "f4")
    return da.map_blocks(make_chunk, on_gpu, chunks=((size,) * chunks,), dtype="f4", meta=meta)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and what it gives."""
    begin = time.perf_counter()
    value = call()
    return time.perf_counter() - begin, value


def median_seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, value = zip(*(seconds(call) for _ in range(repeats)), strict=True)
    return statistics.median(times), value[-1]


def round_trip(client: Any, repeats: int = 15) -> float:
    """Median seconds of a task that does nothing, from the client and back."""
    return median_seconds(lambda: client.submit(int, pure=False).result(), repeats)[0]


def persisted_rows(client: Any, chunks: int, nbytes: int, on_gpu: bool, repeats: int, with_stock: bool) -> list[Row]:
    """Reductions of an array that the workers hold: the first of it, later ones, and stock dask's."""
    from distributed import wait

    x = client.persist(lazy_array(chunks, nbytes, on_gpu))
    wait(x)
    rows = []
    for op in PERSISTED:
        ours = partial(_compute, getattr(gr, op), x)
        row = {"case": op, "kind": "persisted", "chunks": chunks, "nbytes": x.nbytes, "tasks": gr.plan(x, op).tasks}
        row["first"], _ = seconds(ours)
        row["later"], value = median_seconds(ours, repeats)
        if with_stock:
            row |= _beside(partial(_compute, getattr(da, op), x), value)
        rows.append(row)
    return rows


def lazy_rows(chunks: int, nbytes: int, on_gpu: bool, repeats: int, with_stock: bool) -> list[Row]:
    """Reductions of chunks that are made for them."""
    x = lazy_array(chunks, nbytes, on_gpu)
    rows = []
    for name, chain in zip(LAZY, (x, (x - np.float32(0.5)) ** 2), strict=True):
        row = {"case": name, "kind": "lazy", "chunks": chunks, "nbytes": x.nbytes, "tasks": gr.plan(chain, "sum").tasks}
        row["later"], value = median_seconds(partial(_compute, gr.sum, chain), repeats)
        if with_stock:
            row |= _beside(partial(_compute, da.sum, chain), value)
        rows.append(row)
    return rows


def _compute(function: Callable[[Any], Any], x: Any) -> Any:
    return function(x).compute()


def _beside(stock: Callable[[], Any], ours: Any) -> Row:
    """Stock dask's time, and whether the results agree as float32 sums can."""
    time_of_stock, value = median_seconds(stock, STOCK_REPEATS)
    return {"stock": time_of_stock, "checked": bool(np.isclose(float(value), float(ours), rtol=1e-4))}


def run(
    gpus: int, workers: int, mib: float, counts: Sequence[int], repeats: int, with_stock: bool, path: Path
) -> Result:
    """Measure every case and write the JSON after each number of chunks; ``mib`` are of one worker's data."""
    nbytes = int(mib * 2**20) * (gpus or workers)
    with cluster(gpus, workers) as client:
        result: Result = {
            "date": time.strftime("%Y-%m-%d"),
            "gpus": gpus,
            "workers": gpus or workers,
            "nbytes": nbytes,
            "round_trip": round_trip(client),
            "rows": [],
        }
        for chunks in counts:
            result["rows"] += persisted_rows(client, chunks, nbytes, gpus > 0, repeats, with_stock)
            result["rows"] += lazy_rows(chunks, nbytes, gpus > 0, repeats, with_stock)
            path.write_text(json.dumps(result, indent=1))
    return result


def summary(result: Result) -> str:
    """One line a case: milliseconds of ours and of stock dask, and how many times faster."""
    kind = "GPU workers" if result["gpus"] else "NumPy workers"
    head = f"{result['workers']} {kind}, {result['nbytes'] / 2**20:.0f} MiB; an empty task's round trip "
    lines = [head + f"{result['round_trip'] * 1e3:.1f} ms; milliseconds"]
    lines.append(f"{'case':<36} {'chunks':>6} {'tasks':>5} {'first':>9} {'ours':>9} {'stock':>9} {'ratio':>6}")
    for row in result["rows"]:
        first = f"{row['first'] * 1e3:.1f}" if "first" in row else ""
        stock = f"{row['stock'] * 1e3:.1f}" if "stock" in row else ""
        ratio = f"{row['stock'] / row['later']:.1f}" if "stock" in row else ""
        wrong = "" if row.get("checked", True) else "  WRONG"
        lines.append(
            f"{row['kind'] + ' ' + row['case']:<36} {row['chunks']:>6} {row['tasks']:>5} {first:>9} "
            f"{row['later'] * 1e3:>9.1f} {stock:>9} {ratio:>6}{wrong}"
        )
    return "\n".join(lines)


def is_clean(result: Result) -> bool:
    """True where every result agrees with stock dask's."""
    return all(row.get("checked", True) for row in result["rows"])


def plot(result: Result, path: Path) -> None:
    """Time against the number of chunks, ours and stock, of the sum of persisted and of lazy chunks."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for panel, kind in zip(panels, ("persisted", "lazy"), strict=True):
        rows = [row for row in result["rows"] if row["kind"] == kind and row["case"] == "sum"]
        for key, label in (("stock", "stock dask"), ("first", "ours, the first time"), ("later", "ours")):
            points = [(row["chunks"], row[key] * 1e3) for row in rows if key in row]
            if points:
                panel.plot(*zip(*points, strict=True), "o-", label=label)
        panel.axhline(result["round_trip"] * 1e3, linestyle=":", color="gray", label="an empty task")
        panel.set(xscale="log", yscale="log", xlabel="chunks", title=f"sum of {kind} chunks")
        panel.legend()
    panels[0].set_ylabel("milliseconds")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
