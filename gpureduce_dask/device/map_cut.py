"""Maps of more arrays than a kernel reads together: CuPy first computes as little as leaves so many, each an array of
the chunk's size."""

from __future__ import annotations

from typing import Any

from ..expressions import whole
from ..expressions.cut import cut
from ..expressions.mapped import map_of, mapped
from ..expressions.program import ARRAY, Node, Program, unchanged
from ..operators.monoid import Bound

Chunks = tuple[Any, ...]


def fit_operands(chunks: Chunks, bound: Bound, most: int) -> tuple[Chunks, Bound]:
    """Chunks, so many at most, and a monoid with the same states that a kernel takes."""
    of = map_of(bound)
    if len(chunks) <= most or of is None:
        return chunks, bound
    used = sorted({node.args[0] for node in of.program.nodes if node.op == ARRAY})
    if len(used) <= most:
        program = _of_arrays(of.program, used)
        return tuple(chunks[i] for i in used), mapped(program, of.inner, of.masked, of.number)
    if (found := cut(of.program, most)) is not None:
        return _computed(of.program, chunks, found[0]), mapped(found[1], of.inner, of.masked, of.number)
    values = tuple(whole.evaluate(of.program, chunks))
    if not of.masked:
        return values, of.inner.monoid.bind(*of.inner.elements, dtype=of.inner.dtype)
    return values, mapped(unchanged(of.program.results), of.inner, True, of.number)


def _computed(program: Program, chunks: Chunks, wanted: tuple[int, ...]) -> Chunks:
    """The values of these nodes, which may be chunks themselves."""
    nodes = [program.nodes[number] for number in wanted]
    steps = tuple(number for number, node in zip(wanted, nodes, strict=True) if node.op != ARRAY)
    made = iter(whole.evaluate(program.only(steps), chunks))
    return tuple(chunks[node.args[0]] if node.op == ARRAY else next(made) for node in nodes)


def _of_arrays(program: Program, used: list[int]) -> Program:
    """The program of some of its arrays, numbered anew."""
    places = {old: new for new, old in enumerate(used)}
    nodes = tuple(Node(ARRAY, (places[n.args[0]],), n.dtype) if n.op == ARRAY else n for n in program.nodes)
    return Program(tuple(program.dtypes[i] for i in used), nodes, program.outputs, program.constants)
