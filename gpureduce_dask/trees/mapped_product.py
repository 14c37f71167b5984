"""Several statistics of what functions of arrays give, from one read: a product of mapped monoids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..errors import ArgumentError, message
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..monoid import Bound, Monoid
from ..rows.product import Product, product
from . import masks
from .operands import Function, Operands, same
from .parts import Part, Statistic, plan_parts
from .product import cut, reduce_together
from .reduction import grow

NAME = "map_reduce"
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def reduce(
    function: Function,
    ops: Sequence[str | Monoid],
    given: Sequence[Any],
    axis: Any,
    keepdims: bool,
    split_every: Any,
    where: Any = None,
    dtype: Any = None,
    out: Any = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> list[list[Any]]:
    """For each result of the function its statistics, in the order asked."""
    ddof = check(ops, dtype, out, options)
    todo = function if where is None else masks.Masked(function)
    operands = Operands(NAME, given if where is None else (*given, masks.checked(NAME, where)))
    program = operands.trace(todo)
    if program is None:
        if where is not None and function is same:
            raise masks.unread(NAME, operands.arrays)
        values = Operands(NAME, given).whole(function)
        if where is None:
            return [reduce_together(NAME, x, ops, axis, keepdims, split_every, ddof) for x in values]
        return [reduce(same, ops, [x], axis, keepdims, split_every, where, dtype, out, options)[0] for x in values]
    parts = [*_parts(program, ops, ddof, where is not None)]
    return grown(operands.arrays, program, parts, where is not None, axis, keepdims, split_every)


def grown(
    arrays: Sequence[Any],
    program: Program,
    parts: Sequence[Part],
    masked: bool,
    axis: Any,
    keepdims: bool,
    split_every: Any,
) -> list[list[Any]]:
    """The statistics of each result of a program, by one tree of the product of all states."""
    whole, statistics = _join(program, parts, masked)
    tree = grow(tuple(arrays), whole, axis, True, split_every, NAME)
    return [[cut(tree, statistic, keepdims) for statistic in each] for each in statistics]


def check(ops: Sequence[str | Monoid], dtype: Any, out: Any, options: Mapping[str, Any]) -> float:
    """The one option that statistics have together."""
    others = {**options, **({} if dtype is None else {"dtype": dtype}), **({} if out is None else {"out": out})}
    ddof: float = others.pop("ddof", 0)
    if others or not ops:
        received = ", ".join(others) or "no operator"
        raise ArgumentError(
            message(NAME, received, "a list of operators, and ddof", "Pass one operator, not in a list.")
        )
    return ddof


def _parts(program: Program, ops: Sequence[str | Monoid], ddof: float, masked: bool) -> Iterator[Part]:
    """The statistics of each result; with ``masked`` the last output says which elements count."""
    count = len(program.outputs) - masked
    for k in range(count):
        each, statistics = plan_parts(NAME, ops, program.results[k], ddof)
        chosen = program.outputs[k : k + 1] + program.outputs[count:]
        yield Part(each, statistics, {part.name: chosen for part in each.parts})


def _join(program: Program, each: Sequence[Part], masked: bool) -> tuple[Product, list[list[Statistic]]]:
    """The product of all states, and where in it each statistic of each result is."""
    parts: list[Bound] = []
    for one in each:
        for part in one.whole.parts:
            parts.append(_part(program.only(one.outputs[part.name]), part, masked, len(parts)))
    whole = product(NAME, tuple(parts))
    statistics, first = [], 0
    for one in each:
        begins = whole.offsets[first : first + len(one.whole.parts)]
        statistics.append([_statistic(s, masked, _moved(s.offset, one.whole.offsets, begins)) for s in one.statistics])
        first += len(one.whole.parts)
    return whole, statistics


def _part(program: Program, inner: Bound, masked: bool, number: int) -> Bound:
    """One state of the product, of a name of its own."""
    found = mapped(program, inner, masked, number)
    return Bound(replace(found.monoid, name=f"{inner.name}_{number}"), found.dtypes)


def _statistic(found: Statistic, masked: bool, offset: int) -> Statistic:
    """A statistic of elements of which nothing may count, from this place on."""
    bound = found.bound
    if masked:
        bound = Bound(masks.refusing(bound.monoid), bound.dtypes, bound.dtype)
    return Statistic(bound, offset)


def _moved(offset: int, olds: Sequence[int], news: Sequence[int]) -> int:
    """Where a place in one product is in another, which lays the same parts elsewhere."""
    which = max(i for i, begin in enumerate(olds) if begin <= offset)
    return news[which] + offset - olds[which]
