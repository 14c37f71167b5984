"""Several statistics of elements with weights, of what functions of arrays give: a product of mapped monoids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import operators
from ..errors import ArgumentError, message
from ..expressions.program import Program
from ..monoid import DType
from . import masks
from .apply import as_dask, bind
from .mapped_product import NAME, grown
from .operands import Function, Operands, same
from .parts import SPREADS, UNNAMED, Part, arrange, field_names
from .stock import require_plain
from .weights import MEANING, TAKERS, Weighing, weighted

# Whose states hold the state of each, from the same field on; the first that is there serves.
HOLDERS = {
    "std": ("var", "skew", "kurtosis"),
    "var": ("skew", "kurtosis"),
    "kurtosis": ("skew",),
    "nanstd": ("nanvar",),
}


def reduce(
    function: Function,
    ops: Sequence[Any],
    given: Sequence[Any],
    weight: Any,
    axis: Any,
    keepdims: bool,
    split_every: Any,
    where: Any,
    dtype: Any,
    options: Mapping[str, Any],
    name: str = NAME,
) -> list[list[Any]]:
    """For each result of the function its statistics, in the order asked. ``ddof`` goes to those that it is for; other
    options and ``dtype`` are for one operator alone."""
    names = _names(name, ops, "order" in options)
    require_plain(name, "weights", weight)
    weight, masked = as_dask(name, weight), where is not None
    operands = Operands(name, [*given, weight, *((masks.checked(name, where),) if masked else ())])
    program = operands.trace(Weighing(function, names, masked))
    if program is None:
        if function is same:
            raise masks.unread(name, operands.arrays, "weights")
        rest = (weight, axis, keepdims, split_every, where, dtype, options, name)
        return [reduce(same, ops, [x], *rest)[0] for x in Operands(name, given).whole(function)]
    parts = [*_parts(program, names, weight.dtype, dtype, options)]
    return grown(operands.arrays, program, parts, False, axis, keepdims, split_every)


def _names(operation: str, asked: Sequence[Any], ordered: bool) -> tuple[str, ...]:
    """The names of operators that take weights; where ``ordered`` also of moments, which take an order."""
    takers = TAKERS if ordered else TAKERS - UNNAMED
    found = tuple(field_names(operation, asked))
    for name, each in zip(found, asked, strict=True):
        if name not in takers or operators.get(each) != operators.OPERATORS[name]:
            received, expected = f"weights= with {name!r}", f"them with one of {', '.join(sorted(takers))}"
            raise ArgumentError(message(operation, received, expected, "Ask for it in a call without weights."))
    return found


def _parts(
    program: Program, names: tuple[str, ...], weight: DType, dtype: Any, options: Mapping[str, Any]
) -> Iterator[Part]:
    """The statistics of each result, from what :class:`~gpureduce_dask.trees.weights.Weighing` gives."""
    arities = [MEANING[name][1].arity for name in names]
    step = 1 + sum(arities)
    for first in range(0, len(program.outputs), step):
        value, *rest = program.outputs[first : first + step]
        bounds, outputs = {}, {}
        for name, arity in zip(names, arities, strict=True):
            outputs[name], rest = tuple(rest[:arity]), rest[arity:]
            given = tuple(program.nodes[i].dtype for i in outputs[name])
            _, row, own = weighted(operators.OPERATORS[name], program.nodes[value].dtype, weight)
            mine = {k: v for k, v in options.items() if k != "ddof" or name in SPREADS | UNNAMED}
            bounds[name] = bind(replace(row, name=name), given, dtype or own, mine, NAME)
        yield Part(*arrange(NAME, bounds, lambda name: _holder(name, names)), outputs)


def _holder(name: str, names: tuple[str, ...]) -> tuple[str, None] | None:
    """Another statistic, of those asked for, whose state begins with this one's."""
    return next(((holder, None) for holder in HOLDERS.get(name, ()) if holder in names), None)
