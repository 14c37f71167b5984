"""Several statistics of what functions of arrays give, with weights or without: a product of mapped monoids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..dtypes import kind
from ..errors import ArgumentError, message
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..operators import table as operators
from ..operators.monoid import Bound, DType, Monoid
from ..operators.pairs import present_finalise
from ..operators.product_monoid import Product, product
from ..operators.weighted import SPREADS as WEIGHTED_SPREADS
from . import masks
from .apply import as_dask, bind
from .fallback import require_plain
from .masks import Masked
from .operands import Function, Operands, same
from .reduce import build_tree
from .statistics import (
    SPREADS,
    UNNAMED,
    Part,
    Statistic,
    arrange,
    cut_statistic,
    field_names,
    plan_parts,
    reduce_together,
)

NAME = "map_reduce"
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def reduce_mapped(
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
    ddof = check_options_of_many(ops, dtype, out, options)
    todo = function if where is None else masks.Masked(function)
    operands = Operands(NAME, given if where is None else (*given, masks.checked(NAME, where)))
    program = operands.trace(todo)
    if program is None:
        if where is not None and function is same:
            raise masks.unread(NAME, operands.arrays)
        values = Operands(NAME, given).whole(function)
        if where is None:
            return [reduce_together(NAME, x, ops, axis, keepdims, split_every, ddof) for x in values]
        return [
            reduce_mapped(same, ops, [x], axis, keepdims, split_every, where, dtype, out, options)[0] for x in values
        ]
    parts = [*_mapped_parts(program, ops, ddof, where is not None)]
    return build_product(operands.arrays, program, parts, where is not None, axis, keepdims, split_every)


def build_product(
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
    tree = build_tree(tuple(arrays), whole, axis, True, split_every, NAME)
    return [[cut_statistic(tree, statistic, keepdims) for statistic in each] for each in statistics]


def check_options_of_many(ops: Sequence[str | Monoid], dtype: Any, out: Any, options: Mapping[str, Any]) -> float:
    """The one option that statistics have together."""
    others = {**options, **({} if dtype is None else {"dtype": dtype}), **({} if out is None else {"out": out})}
    ddof: float = others.pop("ddof", 0)
    if others or not ops:
        received = ", ".join(others) or "no operator"
        raise ArgumentError(
            message(NAME, received, "a list of operators, and ddof", "Pass one operator, not in a list.")
        )
    return ddof


def _mapped_parts(program: Program, ops: Sequence[str | Monoid], ddof: float, masked: bool) -> Iterator[Part]:
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


def paired(x: Any, weight: Any) -> Any:
    """Elements and weights, for an operator of two arrays."""
    return x, weight


def present(x: Any, weight: Any) -> Any:
    """As :func:`paired`, with no weight for NaN."""
    if kind(x.dtype) not in "fc":
        return x, weight
    gaps = np.isnan(x)
    return np.where(gaps, 0, x), np.where(gaps, 0, weight)


def squares(x: Any, weight: Any) -> Any:
    """Squares of magnitudes times weights: of floats in float64, as :func:`~gpureduce_dask.sumsq` adds them up."""
    if kind(x.dtype) == "c":
        return (np.square(x.real.astype(np.float64)) + np.square(x.imag.astype(np.float64))) * weight
    wide = {"f": np.float64, "u": np.uint64}.get(kind(x.dtype), np.int64)
    return np.square(x.astype(wide)) * weight


def rooted(x: Any, weight: Any) -> Any:
    """Elements times the roots of their weights: the squares of these are weighted."""
    return x * np.sqrt(weight)


AVERAGE = operators.get("average")
MEANING: dict[str, tuple[Function, Monoid]] = {
    **{name: (np.multiply, operators.get(name)) for name in ("sum", "nansum", "norm1", "norminf")},
    "norm2": (rooted, operators.get("norm2")),
    "sumsq": (squares, operators.get("sum")),
    "mean": (paired, AVERAGE),
    "nanmean": (present, replace(AVERAGE, finalise=present_finalise)),
    **{name: (paired, row) for name, row in WEIGHTED_SPREADS.items()},
    "nanvar": (present, WEIGHTED_SPREADS["var"]),
    "nanstd": (present, WEIGHTED_SPREADS["std"]),
}
TAKERS = frozenset(MEANING)


@dataclass(frozen=True)
class Weighing:
    """A function, and what operators of these names take of each of its results and of weights, the last argument, or,
    with ``masked``, the last before a mask: the result itself, and then what each operator takes."""

    function: Function
    names: tuple[str, ...]
    masked: bool

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        place = len(arrays) - self.masked - 1
        values = self.function(*arrays[:place])
        many = values if type(values) in (tuple, list) else [values]  # asks no stand-in for its class
        return tuple(x for value in many for x in self._taken(value, *arrays[place:]))

    def _taken(self, value: Any, *beside: Any) -> Iterator[Any]:
        yield value
        for name in self.names:
            function = MEANING[name][0]
            # What does not count is as good as zero to all that take weights.
            found = (Masked(function, "sum") if self.masked else function)(value, *beside)
            yield from found if type(found) is tuple else (found,)


def weighted(monoid: Monoid, dtype: DType, weight: DType) -> tuple[Function, Monoid, DType | None]:
    """What a reduction with weights is: a function, an operator, and a dtype of results where it is not theirs."""
    function, found = MEANING[monoid.name]
    if monoid.name == "sumsq":
        return function, found, monoid.bind(np.result_type(dtype, weight)).result
    return function, found, None


# Whose states hold the state of each, from the same field on; the first that is there serves.
WEIGHTED_HOLDERS = {
    "std": ("var", "skew", "kurtosis"),
    "var": ("skew", "kurtosis"),
    "kurtosis": ("skew",),
    "nanstd": ("nanvar",),
}


def reduce_weighted(
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
    names = _weighted_names(name, ops, "order" in options)
    require_plain(name, "weights", weight)
    weight, masked = as_dask(name, weight), where is not None
    operands = Operands(name, [*given, weight, *((masks.checked(name, where),) if masked else ())])
    program = operands.trace(Weighing(function, names, masked))
    if program is None:
        if function is same:
            raise masks.unread(name, operands.arrays, "weights")
        rest = (weight, axis, keepdims, split_every, where, dtype, options, name)
        return [reduce_weighted(same, ops, [x], *rest)[0] for x in Operands(name, given).whole(function)]
    parts = [*_weighted_parts(program, names, weight.dtype, dtype, options)]
    return build_product(operands.arrays, program, parts, False, axis, keepdims, split_every)


def _weighted_names(operation: str, asked: Sequence[Any], ordered: bool) -> tuple[str, ...]:
    """The names of operators that take weights; where ``ordered`` also of moments, which take an order."""
    takers = TAKERS if ordered else TAKERS - UNNAMED
    found = tuple(field_names(operation, asked))
    for name, each in zip(found, asked, strict=True):
        if name not in takers or operators.get(each) != operators.OPERATORS[name]:
            received, expected = f"weights= with {name!r}", f"them with one of {', '.join(sorted(takers))}"
            raise ArgumentError(message(operation, received, expected, "Ask for it in a call without weights."))
    return found


def _weighted_parts(
    program: Program, names: tuple[str, ...], weight: DType, dtype: Any, options: Mapping[str, Any]
) -> Iterator[Part]:
    """The statistics of each result, from what :class:`Weighing` gives."""
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
        yield Part(*arrange(NAME, bounds, lambda name: _weighted_holder(name, names)), outputs)


def _weighted_holder(name: str, names: tuple[str, ...]) -> tuple[str, None] | None:
    """Another statistic, of those asked for, whose state begins with this one's."""
    return next(((holder, None) for holder in WEIGHTED_HOLDERS.get(name, ()) if holder in names), None)
