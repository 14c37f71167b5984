"""One operation, plain and accelerated in turn: time, peak memory, tasks, reads, and whether the answer is the same."""

from __future__ import annotations

import ctypes
import gc
import itertools
import multiprocessing
import statistics
import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.base
from dask.base import is_dask_collection
from dask.callbacks import Callback
from distributed import wait

import gpureduce_dask as gr

from .. import tasks
from ..tolerances import RATIO, is_slower
from . import compare
from .data import Log
from .operations import Fields, Operation

Row = dict[str, Any]

LEAST_SECONDS = 0.010  # the difference in time below which nothing is made of it
LEAST_BYTES = 16 * 2**20  # as of memory: what allocators keep comes and goes
LEAST_LATENCY = 0.02  # seconds that a read waits, from which on reads overlap that can
REPEATS = (3, 9)  # at first, and where ours seems worse


@dataclass
class Run:
    """What one call took: seconds, the most memory that any process held, tasks, and reads of stored chunks."""

    seconds: list[float] = field(default_factory=list)
    peak: int = 0
    tasks: int = 0
    chunks: int = 0
    reads: int = 0
    at_a_time: int = 0
    processes: int = 0
    value: Any = None


class Local:
    """The scheduler that dask's configuration names, in this process or of it."""

    def compute(self, result: Any) -> Any:
        """The value of a lazy result."""
        found: Any = dask.base.compute(result)
        return found[0]

    def counted(self, result: Any) -> tuple[Any, int]:
        """The value, and how many tasks it took."""
        with _Counter() as counter:
            return self.compute(result), counter.tasks

    def persist(self, fields: Fields) -> Fields:
        """The fields in memory."""
        with dask.config.set(scheduler="threads"):
            return fields.persisted()

    def reset(self) -> None:
        """Forget what was the most memory so far."""
        reset_peak()

    def peak(self) -> int:
        """The most memory that a process held since."""
        return peak()


class _Counter(Callback):
    def __init__(self) -> None:
        self.tasks = 0
        super().__init__(posttask=self._count)  # type: ignore[no-untyped-call]

    def _count(self, *args: Any) -> None:
        self.tasks += 1


class Processes(Local):
    """dask's scheduler of processes: a pool that this process started and hands tasks to."""

    def reset(self) -> None:
        reset_peak()
        for child in multiprocessing.active_children():
            clear_peak(child.pid)

    def peak(self) -> int:
        return max(map(peak, (None, *(child.pid for child in multiprocessing.active_children()))))


class Cluster(Local):
    """A client's workers."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def counted(self, result: Any) -> tuple[Any, int]:
        return tasks.counted(self.client, partial(self.compute, result))

    def persist(self, fields: Fields) -> Fields:
        found = fields.persisted()
        wait([found.ds, found.m, found.h, found.nc, found.year, *found.ways.values()])
        return found

    def reset(self) -> None:
        reset_peak()
        self.client.run(reset_peak)

    def peak(self) -> int:
        by_worker: dict[str, int] = self.client.run(peak)
        return max(peak(), *by_worker.values())


def reset_peak() -> None:
    """Give freed memory back, and count this process's peak anew (Linux)."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    clear_peak()


def clear_peak(pid: int | None = None) -> None:
    """Count anew the peak of this process, or of another of this user's (Linux)."""
    with suppress(OSError):
        _proc(pid, "clear_refs").write_text("5")


def peak(pid: int | None = None) -> int:
    """The most bytes of a process's memory that were resident since :func:`clear_peak`; 0 where nothing tells."""
    with suppress(OSError):
        for line in _proc(pid, "status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def _proc(pid: int | None, name: str) -> Path:
    return Path("/proc", "self" if pid is None else str(pid), name)


def measure(
    operation: Operation,
    fields: Fields,
    where: Local,
    log: Log,
    repeats: tuple[int, int] = REPEATS,
    on_host: Fields | None = None,
) -> Row:
    """The row of one operation.

    Where plain dask has no answer, or another than ours, ours is compared with plain's of ``on_host``: the same fields
    in NumPy chunks.
    """
    sources = {"plain": fields, "ours": fields}
    runs, lazy, row = {"plain": Run(), "ours": Run()}, {}, Row(wrong=[], worse=[])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in runs.items():
            try:
                lazy[name] = _count(operation, sources[name], where, log, run, name == "ours")
            except Exception as error:
                reason = f"{name}: {type(error).__name__}: {error}"[:300]
                if name == "ours" or on_host is None:
                    return row | {"error": f"{row['plain_fails']}; {reason}" if "plain_fails" in row else reason}
                row["plain_fails"], sources[name] = reason, on_host
                lazy[name] = _count(operation, on_host, where, log, run, False)
        wrong = [*compare.differences(runs["plain"].value, runs["ours"].value, kinds="plain_fails" not in row)]
        if wrong and on_host is not None and "plain_fails" not in row:
            host = where.compute(operation(on_host))
            if not any(compare.differences(host, runs["ours"].value, kinds=False)):
                row["plain_differs"], wrong = wrong, []  # and ours is as NumPy has it
        row["wrong"] = [*compare.lazy_differences(lazy["plain"], lazy["ours"]), *wrong]
        row["taken"], row["left"] = taken(lazy["ours"]), left(lazy["ours"])
        lazy.clear()
        for run in runs.values():
            run.value = None
        if repeats[0]:
            _time(operation, sources, where, runs, repeats[0])
            if worse(runs, log.latency):
                _time(operation, sources, where, runs, repeats[1])
    if "plain_fails" not in row:
        row["worse"] = worse(runs, log.latency)
    return row | {name: _timing(run) for name, run in runs.items()}


def _count(operation: Operation, fields: Fields, where: Local, log: Log, run: Run, is_ours: bool) -> Any:
    """The lazy result, computed once: its value, tasks and reads are noted."""
    with gr.accelerate(is_ours, numpy=True):
        lazy = operation(fields)
    log.clear()
    run.value, run.tasks = where.counted(lazy)
    for name, value in asdict(log.read()).items():
        setattr(run, name, value)
    return lazy


def _time(operation: Operation, sources: dict[str, Fields], where: Local, runs: dict[str, Run], repeats: int) -> None:
    """Time both in turn, from the first call to the last value: what else the machine does strikes each."""
    peaks: dict[str, list[int]] = {name: [run.peak] if run.peak else [] for name, run in runs.items()}
    for _ in range(repeats):
        for name, run in runs.items():
            where.reset()
            begin = time.perf_counter()
            with gr.accelerate(name == "ours", numpy=True):
                lazy = operation(sources[name])
            where.compute(lazy)
            run.seconds.append(time.perf_counter() - begin)
            del lazy
            peaks[name].append(where.peak())
    for name, run in runs.items():
        run.peak = int(statistics.median(peaks[name]))


def worse(runs: dict[str, Run], latency: float = 0) -> list[str]:
    """In which of its columns ours is worse than plain. How many reads run at a time says little of those that take no
    time: it counts where each waits."""
    plain, ours = runs["plain"], runs["ours"]
    found = []
    if plain.seconds and is_slower(plain.seconds, ours.seconds, LEAST_SECONDS):
        a, b = statistics.median(plain.seconds), statistics.median(ours.seconds)
        found.append(f"time {b:.3f} for {a:.3f} s")
    if ours.peak > RATIO * plain.peak and ours.peak - plain.peak > LEAST_BYTES:
        found.append(f"memory {ours.peak / 2**20:.0f} for {plain.peak / 2**20:.0f} MiB")
    if ours.reads > plain.reads:
        found.append(f"{ours.reads} reads for {plain.reads}")
    if latency >= LEAST_LATENCY and 2 * ours.at_a_time <= plain.at_a_time:
        found.append(f"{ours.at_a_time} reads at a time for {plain.at_a_time}")
    if ours.tasks > RATIO * plain.tasks:
        found.append(f"{ours.tasks} tasks for {plain.tasks}")
    return found


def _timing(run: Run) -> Row:
    row = asdict(run)
    del row["value"]
    return row | {"seconds": statistics.median(run.seconds) if run.seconds else None}


def taken(result: Any) -> list[str]:
    """The operators of the reductions and scans of this package that a lazy result takes."""
    names: set[str] = set()
    for _, each in compare.flat(result):
        graph = each.__dask_graph__() if hasattr(each, "__dask_graph__") else None
        for name in getattr(graph, "layers", ()):
            if str(name).startswith("gr-"):
                names.add("-".join(part for part in str(name).split("-")[1:-1] if part not in ("chunk", "group")))
        if is_dask_collection(each) and not names:  # what is delayed has no layer an array
            names.update(call.split(" ")[0] for call in gr.explain(each).taken)
    return sorted(names)


def left(result: Any) -> list[str]:
    """The calls of a lazy result that were left to dask or flox, each with the reason."""
    found = (gr.explain(each).left for _, each in compare.flat(result) if is_dask_collection(each))
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))
