"""What a reduction will do, said before it is run."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dask.highlevelgraph import HighLevelGraph

from ..distributed import workers
from ..distributed.private import DataNode, GraphNode, List, Task, TaskRef
from ..errors import ArgumentError, message
from ..operators import table as operators
from ..operators.monoid import Monoid
from ..public import public
from . import fusion, meta
from .apply import align, bind, operands
from .meta import belongs_to_stock
from .reduce import Tree, build_tree
from .sources import HandleSource, LazySource
from .statistics import build_statistics

# What a plan reckons with. It is there to compare ways, not to time them: rates are those of one thread that reads
# float32 on a server's CPU, and of an H200; a task is what dask's scheduler needs for one.
HOST_RATE = 4e9  # bytes a second
DEVICE_RATE = 4.3e12
TASK_SECONDS = 1e-3
ROUND_TRIP_SECONDS = 10e-3


@dataclass(frozen=True)
class Share:
    """The part of one worker; the nameless one stands for all where it is not known who will do it."""

    worker: str
    groups: int
    chunks: int
    nbytes: float


@dataclass(frozen=True)
class Plan:
    """Tasks, bytes, memory and time of a reduction that is computed now; sizes that dask does not know are NaN.

    ``tasks`` are all that run, from the making of lazy chunks to the result. ``moved_bytes`` go between workers where
    chunks stay where they are, as partials do. ``peak_bytes`` is what one worker needs on top of what it holds.
    ``seconds`` leaves out the making of lazy chunks.
    """

    name: str
    tasks: int
    handles: int
    shares: tuple[Share, ...]
    read_bytes: float
    moved_bytes: float
    peak_bytes: float
    seconds: float

    @property
    def groups(self) -> int:
        return sum(share.groups for share in self.shares)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("tasks", f"{self.tasks}" + (f", {self.handles} of them handles, made once" if self.handles else "")),
            ("groups", f"{self.groups}"),
            ("bytes read", _size(self.read_bytes)),
            ("bytes moved between workers", _size(self.moved_bytes)),
            ("peak memory a worker", _size(self.peak_bytes)),
            ("time, roughly", "unknown" if math.isnan(self.seconds) else f"{self.seconds * 1e3:.3g} ms"),
        ]
        for share in self.shares:
            text = f"{share.groups} groups, {share.chunks} chunks, {_size(share.nbytes)}"
            rows.append((share.worker or "any worker", text))
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join([f"plan of {self.name}", *(f"  {label:<{width}}  {text}" for label, text in rows)])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align: left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
            for label, text in self._rows()
        )
        return f"<table><caption>plan of {html.escape(self.name)}</caption>{cells}</table>"


@public()
def plan(
    x: Any,
    monoid: str | Monoid | Sequence[str | Monoid],
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    group: Any = None,
    *,
    dim: Any = None,
) -> Plan:
    """What ``reduction(x, monoid, ...).compute()`` will do, as a table of tasks, bytes, memory and time.

    Arguments are those of :func:`gpureduce_dask.reduction`; of a list of operators, what ``stats(x, monoid, ...)`` will
    do, all of its results computed together. Nothing is computed. Raises as these functions would, and ArgumentError
    for arrays that are handed to stock dask.
    """
    if not isinstance(monoid, (str, Monoid)):
        tree, results = build_statistics("stats", x, monoid, axis, keepdims, split_every, group=group, dry_run=True)
        return _describe(tree, f"stats, axis={axis}", results)
    row = operators.get(monoid)
    arrays = operands(row.name, row, x)
    if belongs_to_stock(row.name, arrays, dtype):
        received, remedy = "chunks that stock dask reduces", "Convert the chunks first."
        raise ArgumentError(message("plan", received, "NumPy or CuPy chunks", remedy))
    bound = bind(row, tuple(a.dtype for a in arrays), dtype, {}, row.name)
    tree = build_tree(align(row.name, arrays), bound, axis, keepdims, split_every, row.name, group, dry_run=True)
    return _describe(tree, f"{row.name}, axis={axis}", [tree.array])


def _describe(tree: Tree, name: str, results: list[Any]) -> Plan:
    x = tree.x
    known = tree.source.known if tree.source is not None else workers.current()
    handles = tree.source.to_make if isinstance(tree.source, HandleSource) else 0
    tasks = handles + _tasks(results, is_local=known.client is None)
    cells = math.prod(max(sizes) for a, sizes in enumerate(x.chunks) if a not in tree.order[0])
    partial = float(cells * tree.bound.cell_bytes)
    each = sum(a.dtype.itemsize for a in tree.arrays) * math.prod(max(s, default=0) for s in x.chunks)
    read = float(sum(a.nbytes for a in tree.arrays))
    shares = _shares(tree, read)
    threads = max(known.threads.values(), default=1) if known.client is not None else known.total
    is_lazy = tree.source is None or isinstance(tree.source, LazySource)
    alive = 2 * each if is_lazy else 0
    is_device = meta.promises_device(x._meta)
    lanes, rate = (len(known.threads), DEVICE_RATE) if is_device else (known.total, HOST_RATE)
    round_trip = 0 if known.client is None else ROUND_TRIP_SECONDS
    seconds = read / (rate * min(lanes, len(tree.groups))) + tasks * TASK_SECONDS + round_trip
    peak = float(threads * (alive + 2 * partial))
    return Plan(name, tasks, handles, shares, read, _moved(tree, partial, known), peak, seconds)


def _tasks(results: list[Any], is_local: bool) -> int:
    """Tasks of ``compute(*results)``: those of the graph as it is optimised, in which a task joins the blocks of each
    result."""
    blocks = [List(*map(TaskRef, fusion.flat_keys(x.__dask_keys__()))) for x in results]
    joins: dict[Any, Task] = {f"join-{i}": Task(f"join-{i}", list, each) for i, each in enumerate(blocks)}
    joined = HighLevelGraph.from_collections("join", joins, dependencies=results)
    nodes = [x for x in dict(fusion.OPTIMIZE(joined, list(joins))).values() if not workers.is_future(x)]
    return len([x for x in nodes if not is_local or (isinstance(x, GraphNode) and not isinstance(x, DataNode))])


def _shares(tree: Tree, read: float) -> tuple[Share, ...]:
    found: dict[str, list[int]] = {}
    for worker, chunks in tree.groups:
        found.setdefault(worker or "", []).append(chunks)
    each = read / max(1, sum(chunks for _, chunks in tree.groups))
    return tuple(Share(worker, len(n), sum(n), sum(n) * each) for worker, n in sorted(found.items()))


def _moved(tree: Tree, partial: float, known: workers.Workers) -> float:
    """Bytes of partials that leave their worker: those of a slice meet on one of the workers that hold them."""
    workers_there = len(known.threads)
    if known.client is None or workers_there < 2:
        return 0.0
    slices = max(1, tree.array.npartitions)
    if tree.bundles:  # each has partials of many slices, which meet where all are finished
        return float((tree.bundles - tree.bundles // workers_there) * slices * partial)
    groups = len(tree.groups)
    if all(worker is None for worker, _ in tree.groups):
        return float(max(0, groups - max(slices, -(-groups // workers_there))) * partial)
    return float(max(0, groups - slices) * partial)


def _size(nbytes: float) -> str:
    if math.isnan(nbytes):
        return "unknown"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"
