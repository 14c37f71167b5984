"""``python -m gpureduce_dask bench trees --one-read``: what one read of chunks answers, beside stock dask's many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import dask.base
import numpy as np

import gpureduce_dask as gr

from .timing import median_seconds
from .trees import ENOUGH, MOST_LAZY, Bench, Row, Suite

FIVE = ("min", "max", "mean", "std", "argmax")
CASE = ", ".join(FIVE)
CLOSE = 1e-4  # relative: stock dask adds float32 in float32


def together(x: Any) -> list[Any]:
    """Five statistics from one read."""
    return list(gr.stats(x, FIVE))


def stock(x: Any) -> list[Any]:
    """Stock dask's five, which share the chunks and nothing else."""
    return [getattr(da, name)(x) for name in FIVE]


def cases(bench: Bench, chunks: int) -> None:
    """Five statistics of chunks that workers hold, and of chunks yet to be made."""
    cache: list[Any] = []  # the array, where it could be made
    bench.case({"case": CASE, "kind": "persisted", "chunks": chunks}, partial(_persisted, bench, cache))
    cache.clear()
    if chunks <= MOST_LAZY:
        bench.case({"case": CASE, "kind": "lazy", "chunks": chunks}, partial(_lazy, bench))


ONE_READ = Suite("one_read", cases)


def _persisted(bench: Bench, cache: list[Any], row: Row) -> None:
    cache.append(bench.persist(row["chunks"]))
    computed(together, cache[0])  # handles are made, kernels compile
    _measure(bench, cache[0], row, bench.repeats)


def _lazy(bench: Bench, row: Row) -> None:
    x = bench.array(row["chunks"])
    computed(together, x)
    _measure(bench, x, row, bench.repeats, 3 * ENOUGH)


def _measure(bench: Bench, x: Any, row: Row, repeats: int, enough: float = float("inf")) -> None:
    row["tasks"] = gr.plan(x, FIVE).tasks
    row["later"], ours = median_seconds(partial(computed, together, x), repeats, enough)
    if bench.with_stock:
        computed(stock, x)  # kernels compile, as they have for ours
        row["stock"], theirs = median_seconds(partial(computed, stock, x), repeats, ENOUGH)
        row["checked"] = all(map(_agree, FIVE, ours, theirs))


def computed(make: Callable[[Any], list[Any]], x: Any) -> Any:
    """What a user pays, from the call to the numbers."""
    compute: Any = dask.base.compute
    return compute(*make(x))


def _agree(name: str, ours: Any, theirs: Any) -> bool:
    return bool(np.isclose(float(ours), float(theirs), rtol=CLOSE if name in ("mean", "std") else 0, atol=0))
