"""Evaluates programs on whole arrays, one array after another: what kernels cannot read together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functions
from .program import ARRAY, CAST, CONSTANT, Program


def evaluate(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """The outputs for arrays of one shape, NumPy's or CuPy's. An intermediate result is gone once nothing needs it."""
    last = {a: i for i, node in enumerate(program.nodes) if not node.is_leaf for a in node.args}
    values: dict[int, Any] = {}
    for number, node in enumerate(program.nodes):
        if node.op == ARRAY:
            values[number] = arrays[node.args[0]]
            continue
        if node.op == CONSTANT:
            values[number] = program.constants[node.args[0]].value
            continue
        values[number] = _value(node.op, [values[a] for a in node.args], node.dtype)
        for a in set(node.args):
            if last[a] == number and a not in program.outputs:
                del values[a]
    return [_spread(values[o], arrays[0]) for o in program.outputs]


def _value(op: str, args: list[Any], dtype: Any) -> Any:
    if op == CAST:
        return args[0].astype(dtype)
    if op == functions.WHERE:
        return np.where(*args)
    if op in (functions.REAL, functions.IMAG):
        return getattr(args[0], op)
    return np.clip(*args) if op == functions.CLIP else functions.BY_NAME[op](*args)


def _spread(value: Any, array: Any) -> Any:
    """A constant as an array."""
    return value if np.ndim(value) == array.ndim and np.ndim(value) else np.full_like(array, value, dtype=value.dtype)
