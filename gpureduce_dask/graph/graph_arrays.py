"""dask's graph-based arrays under the names of ``dask.array``: what the trees are made of.

With ``array.query-planning`` on, ``dask.array`` itself has expressions under these names, and what it has no expression
for it answers with NotImplementedError. Its graph-based arrays are still there, in the modules that define them; its
reductions are not, since those of both kinds share one module.
"""

from __future__ import annotations

import inspect
from functools import partial
from types import SimpleNamespace
from typing import Any

import dask.array
from dask.array import core as core
from dask.array import creation, reductions, routines, wrap
from dask.array.optimization import optimize as optimize

from ..errors import ArgumentError, message

IS_PLANNED: bool = dask.array.array_expr_enabled()  # which dask decides once, when it is imported
MODULES = (core, wrap, creation)  # which define arrays of graphs alone


def __getattr__(name: str) -> Any:
    if name.startswith("__") or not IS_PLANNED:
        return getattr(dask.array, name)
    if name == "linalg":  # of whose functions one is called
        return SimpleNamespace(norm=partial(_unavailable, "linalg.norm"))
    for module in MODULES:
        if hasattr(module, name):
            return getattr(module, name)
    return _by_expressions(name)


def _by_expressions(name: str) -> Any:
    """dask's function of this name for arrays of graphs, which it takes as expressions."""
    stock = getattr(dask.array, name)  # raises for what dask has in neither way

    def function(*args: Any, **kwargs: Any) -> Any:
        from .array_expressions import as_expression, as_graph, substitute

        given = substitute((args, kwargs), core.Array, as_expression)
        try:
            found = stock(*given[0], **given[1])
        except NotImplementedError:
            return _unavailable(name)
        return substitute(found, dask.array.Array, as_graph)

    # Of what is not offered yet, the module that has it for graphs still tells the arguments.
    known = next((getattr(m, name) for m in (reductions, routines) if hasattr(m, name)), stock)
    function.__signature__ = inspect.signature(known)  # type: ignore[attr-defined]
    return function


def _unavailable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Raise the error of a call that nobody answers."""
    received = f"a call for dask.array.{name}, which dask's query planning does not offer yet"
    expected = "one that this package answers by itself, as it does for NumPy and CuPy chunks of numbers"
    remedy = "Convert the chunks, or set array.query-planning to False before dask.array is first imported."
    raise ArgumentError(message(name, received, expected, remedy))
