"""An expression of the elements of some arrays: nodes in order, each with a dtype, and what they give.

Constants stand apart from the structure: programs that differ in nothing else share one compiled kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..operators.monoid import DType
from . import functions

ARRAY, CONSTANT, CAST = "array", "constant", "cast"


@dataclass(frozen=True)
class Node:
    """One step: a function of the table, a cast, or a leaf.

    ``args`` are the numbers of earlier nodes, whose dtypes are exactly those the function computes in; of a leaf, the
    number of the array or of the constant.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType

    @property
    def is_leaf(self) -> bool:
        return self.op in (ARRAY, CONSTANT)


@dataclass(frozen=True)
class Constant:
    """A number by its bytes, so that NaN equals itself and -0.0 does not equal 0.0."""

    dtype: DType
    data: bytes

    @classmethod
    def of(cls, value: Any, dtype: DType) -> Constant:
        """Raises OverflowError for a Python integer that the dtype cannot hold."""
        return cls(dtype, np.asarray(value, dtype).tobytes())

    @property
    def value(self) -> Any:
        return np.frombuffer(self.data, self.dtype)[0]


def unchanged(dtypes: tuple[DType, ...]) -> Program:
    """The program that gives its arrays as they are."""
    leaves = tuple(Node(ARRAY, (i,), dtype) for i, dtype in enumerate(dtypes))
    return Program(dtypes, leaves, tuple(range(len(dtypes))))


@dataclass(frozen=True)
class Program:
    """``outputs`` are the numbers of the nodes whose values are asked for."""

    dtypes: tuple[DType, ...]  # of the arrays
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    constants: tuple[Constant, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.dtypes, self.nodes, self.outputs, self.constants))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.dtypes, self.nodes, self.outputs, self.constants)

    @property
    def results(self) -> tuple[DType, ...]:
        """The dtype of each output."""
        return tuple(self.nodes[i].dtype for i in self.outputs)

    def cast(self, dtypes: tuple[DType, ...]) -> Program:
        """The same with its outputs in these dtypes."""
        nodes, outputs = list(self.nodes), []
        for number, dtype in zip(self.outputs, dtypes, strict=True):
            if nodes[number].dtype != dtype:
                nodes.append(Node(CAST, (number,), dtype))
                number = len(nodes) - 1
            outputs.append(number)
        return replace(self, nodes=tuple(nodes), outputs=tuple(outputs))

    def present(self, number: int, filled: float) -> int | None:
        """The node whose values this one has but for NaN, in whose place it has ``filled``; None of other nodes."""
        node = self.nodes[number]
        if node.op != functions.WHERE:
            return None
        condition, instead, value = node.args
        tested, given = self.nodes[condition], self.nodes[instead]
        is_filled = given.op == CONSTANT and self.constants[given.args[0]] == Constant.of(filled, node.dtype)
        return value if tested.op == "isnan" and tested.args == (value,) and is_filled else None

    def only(self, outputs: tuple[int, ...]) -> Program:
        """The part of it that these nodes need. Arrays keep their numbers."""
        needed = set(outputs)
        for number in range(len(self.nodes) - 1, -1, -1):
            if number in needed and not self.nodes[number].is_leaf:
                needed.update(self.nodes[number].args)
        places: dict[int, int] = {}
        nodes: list[Node] = []
        constants: list[Constant] = []
        for number in sorted(needed):
            node = self.nodes[number]
            if node.op == CONSTANT:
                constants.append(self.constants[node.args[0]])
                node = replace(node, args=(len(constants) - 1,))
            elif not node.is_leaf:
                node = replace(node, args=tuple(places[a] for a in node.args))
            places[number] = len(nodes)
            nodes.append(node)
        return Program(self.dtypes, tuple(nodes), tuple(places[o] for o in outputs), tuple(constants))
