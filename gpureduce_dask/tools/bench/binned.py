"""Rows of the one-read benchmark that reduce groups: labels at random, as many groups as the operator's name says."""

from __future__ import annotations

import functools
from typing import Any

from . import jax_peers
from .cases import Case
from .kernels import Measured
from .peers import Call, tensor
from .reference import agrees

MODE = "by groups"
GROUPS = (10, 1000, 10**6)
FEW = (("mean", 10), ("max", 10), ("var", 10), ("argmax", 10), ("mean", 1000), ("max", 1000), ("var", 1000))


def binned_cases(gib: float) -> list[Case]:
    """Sums into few, more and many groups, and other operators: 2^28 elements of 4 GiB, the labels another."""
    line = (int(gib * 2**26),)
    named = [("sum", count) for count in GROUPS] + list(FEW)
    return [Case(f"{op} {count}", "float32", line, None, mode=MODE) for op, count in named]


def binned(case: Case, x: Any) -> Measured:
    """One chunk and its labels, reduced to the states of all groups."""
    from ...chunk import finalise
    from ...device import groups as device_groups
    from ...operators import table as operators
    from ...operators.grouped import Bins
    from ...operators.grouped import binned as bind

    op, count = case.op.split()
    labels = _labels(x.shape, int(count))
    bound = bind(operators.get(op).bind(x.dtype), Bins("grouped", (int(count),), case.axes))

    def is_right(states: Any) -> bool | None:
        wanted = _expected(op, x, labels, int(count))
        return None if wanted is None else agrees(finalise(states, bound).reshape(-1), wanted)

    return Measured(
        lambda: device_groups.begin_many([((x,), labels)], bound, case.axes, None)[0],
        is_right,
        case.touched(x.itemsize + labels.itemsize),
        int(count) * bound.state.itemsize,
    )


@functools.lru_cache(maxsize=1)
def _labels(shape: tuple[int, ...], count: int) -> Any:
    import cupy

    return cupy.random.default_rng(9).integers(0, count, shape, dtype="i4")


def _expected(op: str, x: Any, labels: Any, count: int) -> Any:
    """By CuPy, in float64; None where it has no such call."""
    import cupy

    if op not in ("sum", "mean", "max"):
        return None
    if op == "max":
        found = cupy.full(count, -cupy.inf, x.dtype)
        cupy.maximum.at(found, labels, x)
        return found
    total = cupy.bincount(labels, x, count)
    return total if op == "sum" else total / cupy.bincount(labels, minlength=count)


def cupy_call(op: str, x: Any, axis: Any) -> Call:
    """CuPy's bincount, by atomics in the order of time."""
    import cupy

    name, count = op.split()
    return functools.partial(cupy.bincount, _labels(x.shape, int(count)), x, int(count)) if name == "sum" else None


def torch_call(op: str, x: Any, axis: Any) -> Call:
    """torch's bincount, likewise."""
    name, count = op.split()
    given = tensor(x)
    if name != "sum" or given is None:
        return None
    import torch

    return functools.partial(torch.bincount, tensor(_labels(x.shape, int(count))), given, int(count))


def jax_call(op: str, x: Any, axis: Any) -> Call:
    """JAX's sums by segments."""
    name, count = op.split()
    return jax_peers.group_sums(x, _labels(x.shape, int(count)), int(count)) if name == "sum" else None


PEERS = {"CuPy": cupy_call, "torch": torch_call, "JAX": jax_call}
