"""``python -m gpureduce_dask bench kernels --one-read``: what one read of an array can answer, in families of rows.

A case's ``mode`` names its family; rows without one are plain reductions, to compare with.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import binned, fused, jax_peers
from .cases import Case
from .kernels import Measured, Suite, reduction
from .peers import COMPILERS, PEERS, Call
from .reference import agrees, expected

FIVE = "min max mean std argmax"
TOGETHER = "together"


@dataclass(frozen=True)
class Family:
    """Rows of one kind: which there are, how they are measured, and what others call the same."""

    cases: Callable[[float], list[Case]]
    measured: Callable[[Case, Any], Measured]
    peers: Mapping[str, Callable[[str, Any, Any], Call]]


def plain_cases(gib: float) -> list[Case]:
    """One sum of each shape: what five statistics are compared with."""
    return [Case("sum", case.dtype, case.shape, case.axis) for case in together_cases(gib) if case.op == FIVE]


def together_cases(gib: float) -> list[Case]:
    """Several statistics of one array, with ``gib`` GiB of it."""
    nbytes = int(gib * 2**30)
    side = 1 << (round(math.log2(gib * 2**28)) // 2)
    square = (nbytes // 4 // side, side)
    rows = [Case(FIVE, "float32", (nbytes // 4,), None, mode=TOGETHER)]
    rows += [Case(FIVE, "float32", square, axis, mode=TOGETHER) for axis in (0, 1)]
    rows += [Case(FIVE, d, (nbytes // size,), None, mode=TOGETHER) for d, size in (("float64", 8), ("int32", 4))]
    more = ("min max", "mean std", "min max argmax mean std skew sum count", "nanmin nanmax nanmean nanstd nancount")
    return rows + [Case(ops, "float32", (nbytes // 4,), None, mode=TOGETHER) for ops in more]


def together(case: Case, x: Any) -> Measured:
    """One chunk reduced to the states of several statistics, by the chunk protocol's device side."""
    from ...chunk import cut, finalise
    from ...device import reduce as device_reduce
    from ...graph.statistics import plan_parts

    whole, statistics = plan_parts("stats", case.op.split(), x.dtype, 0)

    def is_right(states: Any) -> bool:
        found = (finalise(cut(states, s.bound, s.offset), s.bound) for s in statistics)
        wanted = (expected_of(s.bound.name, x, case.axis) for s in statistics)
        return all(agrees(_drop(ours, case.axes), there) for ours, there in zip(found, wanted, strict=True))

    return Measured(
        lambda: device_reduce.reduce((x,), whole, case.axes),
        is_right,
        case.touched(x.itemsize),
        case.results * whole.state.itemsize,
    )


def _drop(x: Any, axes: tuple[int, ...]) -> Any:
    return x.reshape(tuple(n for a, n in enumerate(x.shape) if a not in axes))


def expected_of(name: str, x: Any, axis: Any) -> Any:
    """The result of one statistic by another method than the kernels'; the benchmark's data has no NaN."""
    import cupy

    if name in ("count", "nancount"):
        return cupy.ones(x.shape, bool).sum(axis=axis)
    if name != "skew":
        return expected(name, x, axis)
    away = x.astype("f8")
    away -= away.mean(axis=axis, keepdims=True)
    spread = (away * away).mean(axis=axis)
    return (away * away * away).mean(axis=axis) / spread**1.5


def each_by(peer: Callable[[str, Any, Any], Call]) -> Callable[[str, Any, Any], Call]:
    """The same statistics by a peer, one call after another; None where it lacks one of them."""
    return functools.partial(_one_by_one, peer)


def _one_by_one(peer: Callable[[str, Any, Any], Call], ops: str, x: Any, axis: Any) -> Call:
    calls = [peer(op, x, axis) for op in ops.split() if op not in ("count", TOGETHER)]
    return None if None in calls else lambda: [call() for call in calls if call]


FAMILIES: dict[str, Family] = {
    "": Family(plain_cases, reduction, {**PEERS, "JAX": jax_peers.reductions}),
    TOGETHER: Family(
        together_cases,
        together,
        {**{name: each_by(PEERS[name]) for name in ("CuPy", "torch")}, "JAX": jax_peers.reductions},
    ),
    fused.MODE: Family(fused.fused_cases, fused.fused, fused.PEERS),
    binned.MODE: Family(binned.binned_cases, binned.binned, binned.PEERS),
}


def one_read_cases(gib: float = 4) -> list[Case]:
    """The rows of all families."""
    return [case for family in FAMILIES.values() for case in family.cases(gib)]


def measured(case: Case, x: Any) -> Measured:
    return FAMILIES[case.mode].measured(case, x)


def _peer_of(name: str) -> Callable[[str, Any, Any], Call]:
    """A peer of whatever family a row has: its operator comes with the mode behind it."""

    def call(op: str, x: Any, axis: Any) -> Call:
        mode = next((mode for mode in FAMILIES if mode and op.endswith(f" {mode}")), "")
        peer = FAMILIES[mode].peers.get(name)
        return peer(op.removesuffix(f" {mode}") if mode else op, x, axis) if peer else None

    return call


SMALL_ONE_READ = [Case("sum", "float32", (1024,)), Case(FIVE, "float32", (1024,), mode=TOGETHER)]
ONE_READ = Suite(
    "one_read",
    "R",
    one_read_cases,
    SMALL_ONE_READ,
    measured,
    {name: _peer_of(name) for name in (*PEERS, *COMPILERS)},
    lambda read, written: written * 8 > read,
)
