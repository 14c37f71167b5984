"""``python -m gpureduce_dask bench random --numpy``, and without a GPU: calls of ``dask.array`` that nobody chose.

They run plain and accelerated in turn.
A seed draws shapes, chunks, dtypes, axes and calls, of NumPy chunks that are views of one array, as ``da.from_array``
makes them, or lie by themselves. Tables show what was tuned; this shows what was not.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import dask.base
import numpy as np

import gpureduce_dask as gr

from .host import processor
from .progress import progress
from .tolerances import are_close, is_slower

Case = dict[str, Any]
Result = dict[str, Any]

ROUNDS = 3  # of both in turn, behind one that is not timed
LEAST_SECONDS = 0.003  # the difference in time below which nothing is made of it
MOST_CHUNKS = 512
ROUGH = 1e-3  # of the largest result: plain dask sums float32 in float32
DTYPES = ("f4", "f4", "f8", "f8", "i4", "i2", "u1")
ONE_AXIS = ("argmax", "nanargmin", "cumsum")
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, axis: x.sum(axis=axis),
    "mean": lambda x, axis: x.mean(axis=axis),
    "nansum": lambda x, axis: da.nansum(x, axis=axis),
    "nanmean": lambda x, axis: da.nanmean(x, axis=axis),
    "std": lambda x, axis: x.std(axis=axis),
    "nanstd": lambda x, axis: da.nanstd(x, axis=axis),
    "max": lambda x, axis: x.max(axis=axis),
    "nanmin": lambda x, axis: da.nanmin(x, axis=axis),
    "prod": lambda x, axis: x.prod(axis=axis),
    "any": lambda x, axis: (x > 2).any(axis=axis),
    "all": lambda x, axis: (x > -9).all(axis=axis),
    "count": lambda x, axis: (x > 1).sum(axis=axis),
    "squares": lambda x, axis: ((x - 1) ** 2).sum(axis=axis),
    "power": lambda x, axis: (x * x).mean(axis=axis),
    "in float64": lambda x, axis: x.astype("f8").sum(axis=axis),
    "abs, max": lambda x, axis: abs(x).max(axis=axis),
    "where, mean": lambda x, axis: da.where(x > 0, x, 0).mean(axis=axis),
    "transposed": lambda x, axis: x.T.mean(axis=axis),
    "slice": lambda x, axis: x[1:].sum(axis=axis),
    "mean and std": lambda x, axis: (x.mean(axis=axis), x.std(axis=axis)),
    "anomaly": lambda x, axis: (x - x.mean(axis=axis, keepdims=True)).std(axis=axis),
    "argmax": lambda x, axis: da.nan_to_num(x).argmax(axis=axis),
    "nanargmin": lambda x, axis: da.nanargmin(da.nan_to_num(x), axis=axis),
    "cumsum": lambda x, axis: x.cumsum(axis=axis),
}


@dataclass(frozen=True)
class Draw:
    """One call: ``views`` is True where chunks are parts of one array, ``gaps`` where some elements are NaN."""

    call: str
    axis: Any
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    views: bool
    gaps: bool


def draws(seed: int, most_bytes: float) -> Iterator[Draw]:
    """Calls without end, of arrays of a twentieth of ``most_bytes`` and more."""
    rng = np.random.default_rng(seed)
    while True:
        ndim, dtype = int(rng.integers(1, 5)), str(rng.choice(DTYPES))
        size = most_bytes * 20 ** rng.uniform(-1, 0) / np.dtype(dtype).itemsize
        shape = tuple(max(2, round(size**share)) for share in rng.dirichlet(np.full(ndim, 2.0)))
        chunks = tuple(n if rng.random() < 0.3 else -(-n // int(rng.integers(1, 6))) for n in shape)
        call = str(rng.choice(list(CALLS)))
        axis: Any = None
        if call in ONE_AXIS:
            axis = int(rng.integers(ndim))
        elif rng.random() < 0.8:
            some = rng.choice(ndim, int(rng.integers(1, ndim + 1)), replace=False)
            axis = tuple(sorted(some.tolist()))
        views, gaps = bool(rng.random() < 0.5), dtype[0] == "f" and bool(rng.random() < 0.5)
        if math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True)) <= MOST_CHUNKS:
            yield Draw(call, axis, dtype, shape, chunks, views, gaps)


def array(draw: Draw) -> Any:
    """The dask array of a draw, its chunks in memory."""
    rng = np.random.default_rng(0)
    some = rng.standard_normal(min(math.prod(draw.shape), 1 << 20))
    x = np.resize(some if draw.dtype[0] == "f" else np.abs(some * 3), draw.shape).astype(draw.dtype)
    if draw.gaps:
        x.reshape(-1)[rng.integers(0, x.size, max(1, x.size // 50))] = np.nan
    lazy = da.from_array(x, chunks=draw.chunks)
    return lazy if draw.views else lazy.map_blocks(np.array).persist()


def measure(draw: Draw) -> Case:
    """Both in turn: the seconds of each, how many times faster ours was, and whether the answers agree."""
    x, call = array(draw), CALLS[draw.call]
    seconds: dict[bool, list[float]] = {False: [], True: []}
    values: dict[bool, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1 + ROUNDS):
            for is_ours, taken in seconds.items():
                begin = time.perf_counter()
                with gr.accelerate(is_ours, numpy=True):
                    lazy = call(x, draw.axis)
                found: Any = dask.base.compute(lazy)
                values[is_ours] = found[0]
                taken.append(time.perf_counter() - begin)
        right = all(map(agree, _flat(values[False]), _flat(values[True])))
    plain, ours = (seconds[is_ours][1:] for is_ours in (False, True))
    times = {"plain": plain, "ours": ours, "times": min(plain) / min(ours)}
    return {**asdict(draw), **times, "right": right, "worse": is_slower(plain, ours, LEAST_SECONDS)}


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def agree(plain: Any, ours: Any) -> bool:
    """True for answers that are equal, floats up to the rounding of plain dask's sums."""
    a, b = np.asarray(plain), np.asarray(ours)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    return are_close(a, b, ROUGH)


def run(seed: int, count: int, mib: float, path: Path, seconds: float = math.inf) -> Result:
    """Measure so many calls, or as many as there is time for, and write them as JSON."""
    until = time.monotonic() + seconds
    chosen = draws(seed, mib * 2**20)
    result: Result = {"random": seed, "processor": processor(), "date": time.strftime("%Y-%m-%d"), "cases": []}
    while len(result["cases"]) < count and (time.monotonic() < until or not result["cases"]):
        result["cases"].append(measure(next(chosen)))
        path.write_text(json.dumps(result, indent=1))
        progress(f"{len(result['cases'])} of {count}:{_describe(result['cases'][-1])}")
    return result


def summary(result: Result, worst: int = 10) -> str:
    """Quantiles of plain dask's time by ours, and the cases in which ours was wrong or slowest."""
    cases = sorted(result["cases"], key=lambda case: (case["right"], case["times"]))
    ratios = sorted(case["times"] for case in cases)
    at = {share: ratios[min(int(share * len(ratios)), len(ratios) - 1)] for share in (0.05, 0.1, 0.5, 0.9)}
    lines = [
        f"seed {result['random']}, {result['processor']}: {len(cases)} calls, "
        f"{sum(not case['right'] for case in cases)} wrong, {sum(case['worse'] for case in cases)} slower than plain",
        "plain time by ours: " + ", ".join(f"{times:.2f} at {share:.0%}" for share, times in at.items()),
    ]
    return "\n".join([*lines, *map(_describe, cases[:worst])])


def _describe(case: Case) -> str:
    plain, ours = min(case["plain"]), min(case["ours"])
    kind = "views" if case["views"] else "chunks of their own"
    wrong = "" if case["right"] else "  WRONG"
    return (
        f"  {case['times']:.2f}  {plain * 1e3:.1f} ms by {ours * 1e3:.1f}: {case['call']} over {case['axis']} of "
        f"{case['dtype']} {case['shape']} in {case['chunks']}, {kind}{wrong}"
    )


def is_clean(result: Result) -> bool:
    """True where every answer was right."""
    return all(case["right"] for case in result["cases"])
