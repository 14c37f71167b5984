"""The cost of a reduction, found from its graph without running it."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dask.highlevelgraph import HighLevelGraph

from .. import planner
from ..distributed import workers
from ..distributed.private import DataNode, GraphNode, List, Task, TaskRef
from ..errors import ArgumentError, message
from ..graph import fusion, meta
from ..graph.arguments import align, bind, operands
from ..graph.meta import belongs_to_stock
from ..graph.reduce import Tree, build_tree
from ..graph.sources import HandleSource, LazySource
from ..graph.statistics import build_statistics
from ..operators import table as operators
from ..operators.monoid import Monoid
from ..parameters import ArrayLike, Axis, Dims, DType, SplitEvery
from ..public import public

# Rough rates, which serve to compare ways to reduce: those at which one thread of a server's CPU, and an H200, read
# float32, and the time that dask's scheduler needs for a task.
HOST_RATE = 4e9  # bytes a second
DEVICE_RATE = 4.3e12
TASK_SECONDS = 1e-3
ROUND_TRIP_SECONDS = 10e-3


@dataclass(frozen=True)
class Share:
    """The part of a reduction that one worker does.

    Attributes
    ----------
    worker : str
        The worker's address; empty where it is not known who will do it, and one share stands for all workers.
    groups : int
        How many tasks reduce chunks.
    chunks : int
        How many chunks they reduce.
    nbytes : float
        How many bytes they read.
    """

    worker: str
    groups: int
    chunks: int
    nbytes: float


@dataclass(frozen=True)
class Plan:
    """What a reduction would need if it were computed now; :func:`plan` makes one. It prints as a table.

    Numbers are NaN that follow from chunk sizes which dask does not know.

    Attributes
    ----------
    name : str
        The operator, and the axes.
    tasks : int
        How many tasks run, from those that make lazy chunks to those of the result.
    handles : int
        How many of the tasks make handles to the chunks that a worker holds. They run for the first reduction of a
        persisted array alone.
    shares : tuple of Share
        What each worker does.
    read_bytes : float
        How many bytes are read.
    moved_bytes : float
        How many bytes of partial results go from worker to worker.
    peak_bytes : float
        How many bytes one worker needs in addition to the chunks that it holds.
    seconds : float
        A rough time, without that of making lazy chunks. It is there to compare ways to reduce, not to predict.
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
        """How many tasks reduce chunks."""
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
    x: ArrayLike,
    monoid: str | Monoid | Sequence[str | Monoid],
    axis: Axis = None,
    dtype: DType = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    group: int | None = None,
    *,
    dim: Dims = None,
) -> Plan:
    """Say what a reduction needs, as a table of tasks, bytes, memory and time, without computing it.

    Parameters
    ----------
    x : array_like or tuple of two array_like
        A dask array, or what makes one, of any number of dimensions and of a dtype that the operator takes. For an
        operator of two arrays a tuple of two of one shape.
    monoid : str, Monoid, or sequence of these
        An operator, for what ``reduction(x, monoid, ...).compute()`` does; or a list of operators, for what
        ``stats(x, monoid, ...)`` does where all of its results are computed together.
    dtype : dtype, optional
        The dtype of the result, as in :func:`reduction`. For a list of operators it is not used.
    group : int, optional
        How many chunks one task reduces, as in :func:`reduction`.

    Returns
    -------
    Plan
        The numbers of tasks and bytes. It prints as a table, in notebooks too.

    Raises
    ------
    ArgumentError
        The array is one that stock dask reduces, as one of masked chunks is; or :func:`reduction` would raise it.
    OperatorError
        No operator has that name.
    DtypeError
        An operator does not take the dtype.
    EmptyError
        There are no elements, and an operator has no answer for none.
    AxisError
        An axis does not exist, or is named twice.

    See Also
    --------
    explain : Which calls were taken by this package, and which were left to dask.
    persist : Keep an array in memory for many reductions.

    Notes
    -----
    The graph is built as :func:`reduction` builds it and optimised as dask does before it runs, and its tasks are
    counted. The bytes read are those of the array. The bytes moved are those of partial results whose worker is not the
    one that combines them. A worker's memory is, for each of its threads, two partial results and, where chunks have
    yet to be made, two chunks.

    The time is a rough one: bytes at 4 GB/s for each thread on a CPU and 4.3 TB/s for each GPU, 1 ms for each task, and
    10 ms for the way to a cluster and back.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> found = gr.plan(da.ones((1000, 100), chunks=100), "sum", axis=0)
    >>> found.read_bytes, found.moved_bytes
    (800000.0, 0.0)
    """
    if not isinstance(monoid, (str, Monoid)):
        places: dict[str, Any] = {"axis": axis, "split_every": split_every, "group": group, "dry_run": True}
        tree, results = build_statistics("stats", x, monoid, keepdims, **places)
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
    partial = planner.bytes_of_largest(x.chunks, tree.order[0], tree.bound.cell_bytes)
    each = sum(a.dtype.itemsize for a in tree.arrays) * math.prod(max(s, default=0) for s in x.chunks)
    read = float(sum(a.nbytes for a in tree.arrays))
    chunks: dict[str, list[int]] = {}
    for worker, n in tree.groups:
        chunks.setdefault(worker or "", []).append(n)
    of_one = read / max(1, sum(n for _, n in tree.groups))
    shares = tuple(Share(worker, len(n), sum(n), sum(n) * of_one) for worker, n in sorted(chunks.items()))
    threads = max(known.threads.values(), default=1) if known.client is not None else known.total
    is_lazy = tree.source is None or isinstance(tree.source, LazySource)
    alive = 2 * each if is_lazy else 0
    is_device = meta.promises_device(x._meta)
    lanes, rate = (len(known.threads), DEVICE_RATE) if is_device else (known.total, HOST_RATE)
    round_trip = 0 if known.client is None else ROUND_TRIP_SECONDS
    seconds = read / (rate * min(lanes, len(tree.groups))) + tasks * TASK_SECONDS + round_trip
    peak = float(threads * (alive + 2 * partial))
    return Plan(name, tasks, handles, shares, read, _moved_bytes(tree, partial, known), peak, seconds)


def _tasks(results: list[Any], is_local: bool) -> int:
    """How many tasks ``compute(*results)`` runs: those of the optimised graph, in which one more task joins the blocks
    of each result."""
    blocks = [List(*map(TaskRef, fusion.flat_keys(x.__dask_keys__()))) for x in results]
    joins: dict[Any, Task] = {f"join-{i}": Task(f"join-{i}", list, each) for i, each in enumerate(blocks)}
    joined = HighLevelGraph.from_collections("join", joins, dependencies=results)
    nodes = [x for x in dict(fusion.OPTIMIZE(joined, list(joins))).values() if not workers.is_future(x)]
    return len([x for x in nodes if not is_local or (isinstance(x, GraphNode) and not isinstance(x, DataNode))])


def _moved_bytes(tree: Tree, partial: float, known: workers.Workers) -> float:
    """Bytes of partials that go to another worker: all those of a slice are combined on one of the workers that have
    some of them."""
    workers_there = len(known.threads)
    if known.client is None or workers_there < 2:
        return 0.0
    slices = max(1, tree.array.npartitions)
    if tree.bundles:  # each has partials of many slices, and all are sent to where these are finished
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
