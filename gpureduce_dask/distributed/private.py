"""The interfaces of dask and distributed that this package uses and their documentation does not have.

Each stands in a function of its own, with what is done where an upstream has it no longer: a few more tasks, or an
error that names what is missing, never another answer. ``NAMES`` lists them; tests take each away and compute. Two are
used where they are needed: ``Array._meta``, which says what chunks are, and ``arg_reduction``, which
:func:`gpureduce_dask.accelerate` wraps because somebody asked for it.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import dask
from dask._task_spec import Alias, DataNode, GraphNode, List, Task, TaskRef
from dask.array.core import Array

from ..errors import ArgumentError, message

# Of dask's graph specification, which its documentation has, but for where they can be imported from.
__all__ = ["Alias", "DataNode", "GraphNode", "List", "Task", "TaskRef"]

# What each is used for, by where an upstream has it.
NAMES: Mapping[str, str] = {
    "dask._task_spec.fuse_linear_task_spec": "a chain of tasks becomes one",
    "dask._task_spec.resolve_aliases": "names for other tasks do not run as tasks",
    "dask.array.core.Array.__dask_optimize__": "groups take in the tasks that make their chunks",
    "dask.array.core._enforce_dtype": "functions of elements that dask wraps are computed as a chunk is read",
    "dask.array.core.handle_out": "out=",
    "dask.layers.ArraySliceDep": "chunks of lazy arrays know where they lie",
    "dask.array.Array._meta": "the kind of an array's chunks",
    "dask.array.reductions.arg_reduction": "plain argmin and argmax under accelerate",
    "distributed.scheduler.Scheduler._instances": "tasks that a scheduler has already are not made again",
}

# What arrays that are expressions are made by: no documentation says yet how.
EXPRESSIONS: Mapping[str, str] = {
    "dask.array._array_expr._expr.ArrayExpr": "results are expressions, with query planning on",
    "dask_array._expr.ArrayExpr": "the same for arrays of dask-array",
    "dask._expr.Expr.__dask_graph__": "the tasks of expressions",
    "dask._task_spec.convert_legacy_graph": "the same, as one kind of task",
}


def _get(name: str) -> Any:
    """What dask or distributed has by this name of ``NAMES``, or None."""
    owner, _, attribute = name.rpartition(".")
    try:
        found: Any = importlib.import_module(owner)
    except ImportError:  # it is of a class
        module, _, kind = owner.rpartition(".")
        found = getattr(importlib.import_module(module), kind, None)
    return getattr(found, attribute, None)


def fuse_linear(graph: dict[Any, Any], wanted: set[Any]) -> dict[Any, Any]:
    """The graph with each chain of tasks as one, or as it is.

    dask gets each chain by itself, its last task first. Of a whole graph it begins at the tasks that come first there,
    and a chain that it meets from without stays apart from the task where it met it: a task would be fused with what it
    needs in one graph and not in another, and a scheduler would have it under one key twice.
    """
    fuse = _get("dask._task_spec.fuse_linear_task_spec")
    if fuse is None:
        return graph
    users = Counter(need for key, node in graph.items() for need in node.dependencies if need != key)
    before = {}  # what a task alone needs, and needs alone
    for key, node in graph.items():
        if len(node.dependencies) == 1 and not node.block_fusion:
            (need,) = node.dependencies
            if users[need] == 1 and need in graph and need not in wanted and not graph[need].block_fusion:
                before[key] = need
    found = dict(graph)
    for end in before.keys() - before.values():
        chain = [end]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        for key in chain:
            del found[key]
        found.update(fuse({key: graph[key] for key in chain}, wanted & {end}))
    return found


def resolve_aliases(graph: dict[Any, Any], wanted: set[Any], users: Mapping[Any, set[Any]]) -> dict[Any, Any]:
    """The graph without tasks that only stand for another, or as it is."""
    resolve = _get("dask._task_spec.resolve_aliases")
    found: dict[Any, Any] = graph if resolve is None else resolve(graph, wanted, users)
    return found


class _Optimizer:
    """What arrays are optimised by: what dask's configuration says, which goes first, or a function of ours."""

    def __init__(self, optimize: Callable[..., Any], stock: Any) -> None:
        self.optimize, self.stock = optimize, stock

    def __get__(self, array: Any, owner: Any) -> Any:
        is_set = dask.config.get("array_optimize", self) is not self
        return self.stock.__get__(array, owner) if is_set else self.optimize


def optimize_arrays(optimize: Callable[..., Any]) -> None:
    """Have dask's arrays of this process optimised by a function, from now on. Not by dask's configuration, which is
    sent as JSON to workers that start. Where arrays have no such hook, graphs run as they were built, with a task a
    chunk."""
    stock = vars(Array).get("__dask_optimize__")
    if _get("dask.array.core.Array.__dask_optimize__") is None or not hasattr(stock, "__get__"):
        return
    if not isinstance(stock, _Optimizer):
        Array.__dask_optimize__ = _Optimizer(optimize, stock)


def enforced_function(function: Any, options: Mapping[str, Any]) -> Any:
    """The function that dask wraps in one which casts its result, or the function itself."""
    inner = options.get("enforce_dtype_function")  # asked for first: of every task of every chunk
    return function if inner is None or function is not _get("dask.array.core._enforce_dtype") else inner


def write_to(out: Any, result: Any) -> Any:
    """The result; ``out``, an array of dask, becomes the same."""
    if out is None:
        return result
    handle = _get("dask.array.core.handle_out")
    if handle is None:
        received, remedy = "out= with a dask that has no handle_out", "Use the array that is returned."
        raise ArgumentError(message("reduce", received, "no out=", remedy))
    return handle(out, result)


def slices_of_blocks(chunks: tuple[tuple[int, ...], ...]) -> Any:
    """For ``blockwise``: an argument that gives each block its slices; None where dask has none such."""
    found = _get("dask.layers.ArraySliceDep")
    return None if found is None else found(chunks)


def arg_reduction() -> Any:
    """The function that dask's reductions to positions end in, or None, where these are left to dask."""
    return _get("dask.array.reductions.arg_reduction")


def schedulers_here() -> list[Any]:
    """The schedulers of this process, as far as they can be known."""
    if "distributed.scheduler" not in sys.modules:
        return []
    return list(_get("distributed.scheduler.Scheduler._instances") or ())


def expression_class(package: str) -> Any:
    """The class of the expressions of ``dask.array``, or of ``dask_array``."""
    name = "dask_array._expr.ArrayExpr" if package == "dask_array" else "dask.array._array_expr._expr.ArrayExpr"
    return _need(name, package)


def tasks_of_expression(lowered: Any) -> dict[Any, GraphNode]:
    """The tasks of an expression that is lowered completely."""
    return as_tasks(_need("dask._expr.Expr.__dask_graph__", "dask")(lowered))


def as_tasks(graph: Mapping[Any, Any]) -> dict[Any, GraphNode]:
    """A graph with tasks of one kind."""
    found: dict[Any, GraphNode] = _need("dask._task_spec.convert_legacy_graph", "dask")(dict(graph))
    return found


def _need(name: str, package: str) -> Any:
    found = _get(name)
    if found is None:
        received = f"arrays of {package} that are expressions, and no {name}"
        remedy = "Set array.query-planning to False before dask.array is first imported."
        raise ArgumentError(message("gpureduce_dask", received, "a version that has it, or graph-based arrays", remedy))
    return found
