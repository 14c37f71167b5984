"""Evaluates programs on blocks of NumPy arrays, in memory that is used again from block to block.

A block should be small enough for its few intermediate results to stay in cache; nothing else is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..operators.monoid import Array, DType
from ..operators.scratch import Scratch
from ..operators.select import select
from . import functions
from .program import ARRAY, CAST, CONSTANT, Node, Program


@dataclass(frozen=True)
class Step:
    """One function: where its arguments lie among the values so far, and which scratch takes what it gives."""

    run: Callable[..., Any]
    args: tuple[int, ...]
    place: int  # among the values
    scratch: int
    dtype: DType


@dataclass(frozen=True)
class Schedule:
    """The steps of a program. Values are the arrays' blocks, then constants, then one a step."""

    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


_scratch = Scratch()


def evaluate(program: Program, blocks: Sequence[Array]) -> list[Array]:
    """The outputs for blocks of one shape. What is no block itself lies in scratch until this thread's next call."""
    schedule = schedule_of(program)
    values: list[Any] = [*blocks, *schedule.constants]
    shape, size = blocks[0].shape, blocks[0].size
    for step in schedule.steps:
        out = _scratch.block(step.scratch, step.dtype, shape, size)
        step.run(*(values[a] for a in step.args), out=out)
        values.append(out)
    return [values[o] for o in schedule.outputs]


@lru_cache(maxsize=256)
def schedule_of(program: Program) -> Schedule:
    """Steps in order, with scratch given out anew once nothing more reads it."""
    nodes, count = program.nodes, len(program.dtypes)
    last = {a: i for i, node in enumerate(nodes) if not node.is_leaf for a in node.args}
    last.update(dict.fromkeys(program.outputs, len(nodes)))
    constants = tuple(c.value for c in program.constants)
    places: dict[int, int] = {}
    scratch_of: dict[int, int] = {}  # scratch by node
    free: list[int] = []
    used = 0
    steps: list[Step] = []
    outputs: list[int] = []

    def add(run: Callable[..., Any], args: tuple[int, ...], dtype: DType) -> tuple[int, int]:
        nonlocal used
        if not free:
            free.append(used)
            used += 1
        place, scratch = count + len(constants) + len(steps), free.pop()
        steps.append(Step(run, args, place, scratch, dtype))
        return place, scratch

    for number, node in enumerate(nodes):
        if node.op == ARRAY:
            places[number] = node.args[0]
        elif node.op == CONSTANT:
            places[number] = count + node.args[0]
        else:
            read = [a for a in set(node.args) if last[a] == number and a in scratch_of]  # for the last time
            if node.op in functions.BY_NAME:  # these write over what they read: less memory stays in cache
                free += [scratch_of.pop(a) for a in read if nodes[a].dtype == node.dtype]
            places[number], scratch = add(_runner(node, nodes), tuple(places[a] for a in node.args), node.dtype)
            free += [scratch_of.pop(a) for a in read if a in scratch_of]
            scratch_of[number] = scratch
    for number in program.outputs:
        if nodes[number].op == CONSTANT:
            outputs.append(add(_copy, (places[number],), nodes[number].dtype)[0])
        else:
            outputs.append(places[number])
    return Schedule(constants, tuple(steps), tuple(outputs))


def _copy(x: Any, out: Array) -> None:
    np.copyto(out, x, casting="unsafe")


def _real(x: Array, out: Array) -> None:
    np.copyto(out, x.real)


def _imag(x: Array, out: Array) -> None:
    np.copyto(out, x.imag)


def _where(condition: Array, x: Array, y: Array, out: Array) -> None:
    select(condition, x, y, out)


def _clip(x: Any, low: Any, high: Any, out: Array) -> None:
    np.clip(x, low, high, out=out)


def _at_least(x: Any, low: Any, out: Array) -> None:
    """The maximum of integers and of a number: NumPy's own loop takes one element at a time there, its clip many."""
    x, low = (x, low) if np.ndim(x) else (low, x)
    np.clip(x, low, np.iinfo(out.dtype).max, out=out)


def _at_most(x: Any, high: Any, out: Array) -> None:
    x, high = (x, high) if np.ndim(x) else (high, x)
    np.clip(x, np.iinfo(out.dtype).min, high, out=out)


_BOUNDED = {"maximum": _at_least, "minimum": _at_most}
_RUNNERS: dict[str, Callable[..., Any]] = {
    CAST: _copy,
    functions.REAL: _real,
    functions.IMAG: _imag,
    functions.WHERE: _where,
    functions.CLIP: _clip,
}


def _runner(node: Node, nodes: Sequence[Node]) -> Callable[..., Any]:
    if node.op in _BOUNDED and node.dtype.kind in "iu" and CONSTANT in (nodes[a].op for a in node.args):
        return _BOUNDED[node.op]
    return _RUNNERS.get(node.op) or functions.BY_NAME[node.op]
