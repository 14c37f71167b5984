"""Programs of more arrays than a kernel reads, cut in two: what is made first, and what a kernel computes of that and
of the arrays that are left.

What is made first costs an array a step: the cut with the fewest bytes of those is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from .program import ARRAY, Node, Program

MOST_NODES = 64  # of a program that is looked at: every pair of its steps is tried


@lru_cache(maxsize=256)
def cut(program: Program, most: int) -> tuple[tuple[int, ...], Program] | None:
    """So many nodes at most out of which all outputs follow, one or two of them steps and the others arrays, and the
    program of those as arrays; None where there are none, or where nothing would be left for a kernel to compute."""
    nodes = program.nodes
    if len(nodes) > MOST_NODES:
        return None
    ancestors = _ancestors(nodes)
    steps = [i for i, node in enumerate(nodes) if not node.is_leaf]

    def cost(few: tuple[int, ...]) -> tuple[int, int]:
        needed = frozenset().union(*(ancestors[i] for i in few))
        return sum(nodes[i].dtype.itemsize for i in needed), sum(nodes[i].dtype.itemsize for i in few)

    for few in sorted((*((i,) for i in steps), *combinations(steps, 2)), key=cost):
        left = {i for i in _nodes_to_outputs(program, few) if nodes[i].op == ARRAY}
        leaves = tuple(sorted({*few, *left}))
        if len(leaves) <= most:
            return None if set(program.outputs) <= set(leaves) else (leaves, _of(program, leaves))
    return None


def _ancestors(nodes: tuple[Node, ...]) -> list[frozenset[int]]:
    """The steps that lead to each node, itself among them."""
    found: list[frozenset[int]] = []
    for number, node in enumerate(nodes):
        own = frozenset() if node.is_leaf else frozenset([number])
        found.append(own.union(*(found[a] for a in node.args)) if own else own)
    return found


def _nodes_to_outputs(program: Program, leaves: tuple[int, ...]) -> Iterator[int]:
    """The nodes between these and the outputs."""
    pending, seen = [i for i in program.outputs if i not in leaves], set(leaves)
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        node = program.nodes[number]
        yield number
        pending += () if node.is_leaf else node.args


def _of(program: Program, leaves: tuple[int, ...]) -> Program:
    """The same outputs, of these nodes as arrays."""
    nodes = list(program.nodes)
    for place, number in enumerate(leaves):
        nodes[number] = Node(ARRAY, (place,), nodes[number].dtype)
    dtypes = tuple(nodes[number].dtype for number in leaves)
    whole = Program(dtypes, tuple(nodes), program.outputs, program.constants)
    return whole.only(whole.outputs)
