"""``python -m gpureduce_dask bench soak``: reductions of all kinds for minutes: does memory stay flat?

Its other part, in which workers die while calls are asked, is ``soak_rounds``.
"""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.utils
import numpy as np

import gpureduce_dask as gr

from . import trees
from .progress import progress

Row = dict[str, Any]
Result = dict[str, Any]

CHUNKS = (16, 100, 300)
OPS = ("sum", "mean", "max", "var", "argmax", "nansum", "std", "count_nonzero")
# What dask remembers of messages, events and samples has an end too, but not within an hour.
SHORT_LOGS = {
    "distributed.scheduler.events-cleanup-delay": "1s",  # of workers and clients that are gone
    "distributed.admin.log-length": 100,
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.system-monitor.log-length": 100,
    "distributed.worker.profile.enabled": False,
}
EVERY = 30  # seconds between two lines that say how far it is
SPANS = 200  # computations that a scheduler remembers
SETTLED = 0.2  # of the time, in which pools fill and modules load
ALLOWED = 24 * 2**20  # bytes that a process may grow by afterwards: what allocators keep comes and goes


def run(workers: int, mib: float, minutes: float, path: Path) -> Result:
    """Reduce arrays that come and go until the time is up; sample memory after each, and write the JSON as it grows."""
    with dask.config.set(SHORT_LOGS), trees.cluster(0, workers) as client:
        result: Result = {"date": time.strftime("%Y-%m-%d"), "workers": workers, "minutes": minutes, "samples": []}
        begin, reported = time.monotonic(), -float(EVERY)
        for reductions, wrong in _rounds(client, int(mib * 2**20) * workers):
            spent = time.monotonic() - begin
            result["samples"].append({"seconds": spent, "reductions": reductions, "wrong": wrong, **_sample(client)})
            path.write_text(json.dumps(result))
            if spent >= reported + EVERY:
                reported = spent
                progress(f"{spent / 60:.1f} of {minutes:g} minutes: {reductions} reductions, {wrong} wrong")
            if spent > 60 * minutes:
                return result
    raise AssertionError("rounds never end")


def _rounds(client: Any, nbytes: int) -> Iterator[tuple[int, int]]:
    """After each array, how many reductions there were, and how many gave another result than NumPy on the chunks."""
    done = wrong = 0
    for chunks in itertools.cycle(CHUNKS):
        lazy = trees.lazy_array(chunks, nbytes, on_gpu=False)
        persisted = gr.persist(lazy)
        wanted = float(da.sum(persisted, dtype="f8").compute())
        for op in OPS:
            getattr(gr, op)(persisted).compute()
        rows = persisted.reshape(chunks, -1)
        gr.max(rows, axis=0).sum().compute()
        found = [gr.sum(persisted), gr.sum(lazy), gr.sum(rows, axis=1).sum(), gr.mean(lazy**2)]
        got = client.gather(client.compute(found))
        done += len(OPS) + 1 + len(found)
        wrong += sum(not np.isclose(float(value), wanted, rtol=1e-4) for value in got[:3])
        del lazy, persisted, rows, found, got
        yield done, wrong


def _sample(client: Any) -> Row:
    gc.collect()
    by_worker = client.run(resident)
    tasks = client.run_on_scheduler(tidy)
    return {"client": resident(), "workers": [by_worker[w] for w in sorted(by_worker)], "tasks": tasks}


def tidy(dask_scheduler: Any) -> int:
    """How many tasks a scheduler has. It forgets old spans: one for each computation, kept for good, 10 KiB each.

    Not those of tasks that are left: a scheduler that does not know their span fails, and their worker then ends.
    """
    spans = dask_scheduler.extensions["spans"]
    used = {group.span_id for group in dask_scheduler.task_groups.values()}
    for old in list(spans.spans)[:-SPANS]:
        if old not in used:
            del spans.spans[old]
    for kept in (spans.root_spans, *spans.spans_search_by_name.values(), *spans.spans_search_by_tag.values()):
        del kept[:-SPANS]
    return len(dask_scheduler.tasks)


def resident() -> int:
    """Bytes of this process's memory that are resident, without the last 100,000 keys that dask splits: 27 MiB."""
    import psutil  # type: ignore[import-untyped]

    dask.utils.key_split.cache_clear()
    return int(psutil.Process().memory_info().rss)


def growth(result: Result) -> dict[str, float]:
    """By process, by how many bytes its memory grew from the first to the last quarter of the time since it settled."""
    samples = settled(result["samples"])
    found = {"client and scheduler": grown([s["client"] for s in samples])}
    for i in range(result["workers"]):
        found[f"worker {i}"] = grown([s["workers"][i] for s in samples])
    return found


def settled(samples: Sequence[Row]) -> list[Row]:
    """Those since memory settled."""
    return [s for s in samples if s["seconds"] >= SETTLED * samples[-1]["seconds"]]


def grown(series: Sequence[float]) -> float:
    """From the median of the first quarter to that of the last."""
    quarter = max(1, len(series) // 4)
    return statistics.median(series[-quarter:]) - statistics.median(series[:quarter])


def is_clean(result: Result) -> bool:
    """True where memory is flat, every result was right, and no task was left on the scheduler."""
    last = result["samples"][-1]
    return max(growth(result).values()) <= ALLOWED and not last["wrong"] and not last["tasks"]


def summary(result: Result) -> str:
    """How many reductions, and each process's memory at the end and its growth, in MiB."""
    last = result["samples"][-1]
    lines = [
        f"{result['workers']} NumPy workers, {last['seconds'] / 60:.1f} minutes: {last['reductions']} reductions of "
        f"{len(result['samples'])} arrays, {last['wrong']} wrong; {last['tasks']} tasks left on the scheduler"
    ]
    ends = [last["client"], *last["workers"]]
    for (name, grown), end in zip(growth(result).items(), ends, strict=True):
        mark = "" if grown <= ALLOWED else "  GROWS"
        lines.append(f"  {name}: {end / 2**20:.0f} MiB at the end, {grown / 2**20:+.1f} MiB since it settled{mark}")
    return "\n".join(lines)
