"""Which calls behind a lazy result this package computes, and which are left to dask: ``gr.explain(x.mean())``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import ArgumentError, message

MOST = 20  # lines of each kind that are printed
OURS = "gr-"  # the names of this package's arrays begin with it
ARRAY = re.compile(r"(.+?)(?:-(?:chunk|group|combine))?(-[0-9a-f]{32})")  # an array's name, in that of one of its tasks


class Explanation(NamedTuple):
    """The calls that :func:`explain` found; printed with a line for each.

    Parameters
    ----------
    taken : tuple of str
        Calls that this package computes.
    left : tuple of str
        Calls that dask, or flox, computes, each with the reason.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> found = gr.explain(gr.sum(da.ones(4)))
    >>> len(found.taken), found.left
    (1, ())
    """

    taken: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        lines = [*_lines("taken", self.taken), *_lines("left to dask", self.left)]
        return "\n".join(lines) or (
            "nothing is computed by this package: gr.accelerate() was off when the result was built, or the result has "
            "no reduction, scan or group that the package knows, or dask-array was imported after gr.accelerate()"
        )

    def __repr__(self) -> str:
        return str(self)


def explain(x: Any) -> Explanation:
    """Say which calls behind a lazy result this package computes, and which dask does and why.

    Parameters
    ----------
    x : dask.array.Array, xarray.DataArray, xarray.Dataset or any other dask collection
        A result that was built under :class:`accelerate`, and is not yet computed. Reasons are known for what was built
        in this process. Of other results only the names of the graph's layers are known: those of this package begin
        with ``gr-``.

    Returns
    -------
    Explanation
        A named tuple of ``taken`` and ``left``, each a tuple of str in the order of the graph. It prints with a line
        for each call.

    Raises
    ------
    ArgumentError
        `x` is not a dask collection, as NumPy arrays and computed results are not.

    See Also
    --------
    accelerate : Take plain dask reductions onto this package.
    plan : What a reduction needs.

    Notes
    -----
    Each call that is taken or left under :class:`accelerate` is noted with the name of the array that it gave. This
    function looks for these names among the layers of the graph, and where no layer tells, among its tasks. The last
    10,000 calls of a process are kept.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.ones((100, 20), chunks=(10, 20))
    >>> with gr.accelerate(numpy=True):
    ...     gr.explain(x.mean(axis=0))
    taken: mean of (100, 20) float64 over axis 0
    """
    from dask.base import is_dask_collection

    from ..integrations import decisions

    if not is_dask_collection(x):
        remedy = "Explain the lazy result, before compute()."
        raise ArgumentError(message("explain", type(x).__name__, "a dask array, a DataArray or a Dataset", remedy))
    graph = x.__dask_graph__()
    layers = list(graph.layers) if hasattr(graph, "layers") else _names(x)
    found = decisions.recorded(layers)
    if not found and not any(str(name).startswith(OURS) for name in layers):
        layers = _of_tasks(graph)
        found = decisions.recorded(layers)
    taken = [d.call for d in found if d.reason is None]
    left = [f"{d.call}: {d.reason}" for d in found if d.reason is not None]
    if not found:
        taken = [name for name in layers if name.startswith(OURS)]
    return Explanation(tuple(taken), tuple(left))


def _names(x: Any) -> list[str]:
    """The names of the arrays of a collection whose graph has no layers."""
    from ..graph.fusion import flat_keys

    if hasattr(x, "expr"):
        return [each._name for each in x.expr.walk()][::-1]
    return list(dict.fromkeys(key[0] if isinstance(key, tuple) else key for key in flat_keys(x.__dask_keys__())))


def _of_tasks(graph: Mapping[Any, Any]) -> list[str]:
    """The names of the arrays that the tasks of a graph make. A Delayed, such as ``to_zarr(compute=False)`` returns,
    has no layer for each array."""
    keys = (key[0] if isinstance(key, tuple) else key for key in _keys(graph))
    found = (ARRAY.match(key) for key in keys if isinstance(key, str))
    return list(dict.fromkeys("".join(match.groups()) for match in found if match))


def _keys(graph: Mapping[Any, Any]) -> Iterator[Any]:
    """The keys of all tasks, and of the tasks that dask has fused into them."""
    for key, task in graph.items():
        yield key
        for arg in getattr(task, "args", ()):
            if isinstance(arg, dict):
                yield from arg


def _lines(what: str, calls: tuple[str, ...]) -> list[str]:
    """A line for each call; equal calls share one, with their number."""
    counts: dict[str, int] = {}
    for call in calls:
        counts[call] = counts.get(call, 0) + 1
    lines = [f"{what}: {call}" + (f" ({n} times)" if n > 1 else "") for call, n in counts.items()]
    return lines if len(lines) <= MOST else [*lines[:MOST], f"{what}: {len(lines) - MOST} more"]
