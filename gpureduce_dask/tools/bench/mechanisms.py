"""``python -m gpureduce_dask bench trees --mechanisms``: what each mechanism of the trees saves, on and off in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import gpureduce_dask as gr

from ... import chunk, planner
from ...distributed import handles
from ...graph import fusion, sources, views
from . import memory
from .grids import CLOSE, agree, grid_chunks, grouped_mean
from .scan_trees import for_stock
from .tasks import counted
from .timing import seconds
from .trees import Bench, Row, Suite, random_array


def _nothing(*args: Any) -> None:
    """As where nothing is known."""


def _no(*args: Any) -> bool:
    """As where it does not pay."""
    return False


def _as_it_is(given: Any, *args: Any) -> Any:
    """What was given: a graph, or partials."""
    return given


def _none(*args: Any) -> list[Any]:
    """As where there are none."""
    return []


# By name: what stands in for which function of which module while a mechanism is off, here and on the workers.
MECHANISMS: dict[str, tuple[tuple[Any, str, Callable[..., Any]], ...]] = {
    "handles": ((handles, "find_handles", _nothing), (sources, "fit", _no)),
    "views by handles": ((views, "select_source", _nothing),),
    "bundles of slices": ((sources, "partials_travel", _no),),
    "sets of slices": ((planner, "sets_of_slices", _none),),
    "partials that leave a GPU together": (
        (chunk, "small_to_host_together", _as_it_is),
        (chunk, "keep_on_device", nullcontext),
    ),
    "blocks finished in the joining task": ((fusion, "finish_together", _as_it_is),),
    "groups of lazy chunks fused": ((fusion, "move_in_chains", _as_it_is),),
}


def _squares(x: Any) -> Any:
    return gr.sum((x - np.float32(0.5)) ** 2, axis=0)


# What is computed, and whether of chunks in the workers' memory.
CASES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "max": (lambda x: gr.max(x), True),
    "sum, axis 0": (lambda x: gr.sum(x, axis=0), True),
    "argmax, axis 0": (lambda x: gr.argmax(x, axis=0), True),
    "mean of x[::3, 1:], axis 0": (lambda x: gr.mean(x[::3, 1:], axis=0), True),
    "sum of squares about 0.5, axis 0": (_squares, True),
    "mean of 365 groups, axis 0": (partial(grouped_mean, gr), True),
    "sum of squares about 0.5, axis 0, of lazy chunks": (_squares, False),
}


def cases(bench: Bench, chunks: int) -> None:
    """Every case with and without each mechanism."""
    cache: list[Any] = []  # the lazy array, and the same in memory, where they could be made
    for mechanism in MECHANISMS:
        for name in CASES:
            bench.case({"case": name, "kind": mechanism, "chunks": chunks}, partial(_measure, bench, cache))


SUITE = Suite("mechanisms", cases, counts=(256,), of_one_size=True)


_off = ExitStack()  # what is switched off in this process


@contextmanager
def without(mechanism: str, client: Any = None) -> Iterator[None]:
    """Switch a mechanism off, on the workers of a client too."""
    _switch(mechanism)
    if client is not None:
        client.run(_switch, mechanism)
    try:
        yield
    finally:
        _switch(None)
        if client is not None:
            client.run(_switch, None)


def _switch(mechanism: str | None) -> None:
    """Switch one off in this process, in place of what is off by now."""
    _off.close()
    for module, name, instead in MECHANISMS[mechanism] if mechanism else ():
        _off.enter_context(mock.patch.object(module, name, instead))


def _measure(bench: Bench, cache: list[Any], row: Row) -> None:
    if not cache:
        lazy = random_array(grid_chunks(bench.nbytes, row["chunks"]), bench.gpus > 0)
        cache += [for_stock(bench, lazy), for_stock(bench, bench.hold(lazy))]
    function, of_memory = CASES[row["case"]]
    call = partial(bench.compute, function, cache[of_memory])
    switches: tuple[Callable[[], Any], ...] = nullcontext, partial(without, row["kind"], bench.client)
    values, times = [], ([], [])  # type: tuple[list[Any], tuple[list[float], list[float]]]
    for switch, name in zip(switches, ("tasks", "tasks_off"), strict=True):
        _let_go(bench.client)
        with switch():
            call()  # handles are made, kernels compile
            value, row[name] = counted(bench.client, call)
        values.append(value)
    row["checked"] = agree(values[0], values[1], CLOSE)
    for i in range(2 * bench.repeats):
        is_off = i % 2 ^ i // 2 % 2  # on, off, off, on: neither is always behind the other
        _let_go(bench.client)
        with switches[is_off]():
            times[is_off].append(seconds(call)[0])
    row["later"], row["off"] = map(statistics.median, times)


def _let_go(client: Any) -> None:
    """Wait until nothing of an earlier call is left: with a mechanism and without it, tasks of one key may differ."""
    memory.settle(partial(client.run_on_scheduler, _known_tasks))
    client.run(int)  # workers have heard of it


def _known_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)
