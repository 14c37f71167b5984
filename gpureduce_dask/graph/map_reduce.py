"""Reductions and scans of functions of arrays: of a traced program where there is one, else of what the function
gives of the whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..distributed.private import write_to
from ..errors import ArgumentError, message
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid
from . import map_statistics, masks, scan_apply
from .apply import apply, bind
from .operands import Function, Operands, same, traceable
from .reduce import reduce_array


def map_reduce(
    function: Function,
    op: str | Monoid | Sequence[str | Monoid],
    given: Sequence[Any],
    axis: Any,
    dtype: Any,
    keepdims: bool,
    split_every: Any,
    out: Any,
    where: Any,
    options: dict[str, Any],
    weights: Any = None,
) -> Any:
    """A reduction of what a function gives of the elements of arrays."""
    named = f" by {operators.get(op).name}" if isinstance(op, str | Monoid) else ""
    function, given = traceable(f"map_reduce{named}", function, given)
    if weights is not None:
        rest = (given, weights, axis, keepdims, split_every, where, dtype, options)
        if isinstance(op, str | Monoid):
            return _one(out, [values[0] for values in map_statistics.reduce_weighted(function, [op], *rest)])
        map_statistics.check_options_of_many(op, dtype, out, options)
        return map_statistics.reduce_weighted(function, op, *rest)
    if not isinstance(op, str | Monoid):
        return map_statistics.reduce_mapped(
            function, op, given, axis, keepdims, split_every, where, dtype, out, options
        )
    monoid = operators.get(op) if where is None else masks.refusing(operators.get(op))
    name = f"map_reduce by {monoid.name}"
    if monoid.arity == 1 and Operands(name, given).results(function) > 1:
        each = map_statistics.reduce_mapped(
            function, [op], given, axis, keepdims, split_every, where, dtype, out, options
        )
        return _one(out, [values[0] for values in each])
    todo = masks.Masked(function, monoid.name) if where is not None else function
    operands = Operands(name, given if where is None else (*given, masks.checked(name, where)))
    bound = _bound(operands, todo, monoid, dtype, options, name)
    if bound is None:
        if where is not None and function is not same:
            values = Operands(name, given).whole(function)
            return map_reduce(same, monoid, values, axis, dtype, keepdims, split_every, out, where, options)
        if where is not None and not operands.is_ours:
            raise masks.unread(name, operands.arrays)
        arrays = operands.whole(todo)
        return apply(
            monoid, *arrays, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, **options
        )
    result = reduce_array(operands.arrays, bound, axis, keepdims, split_every, f"map-{monoid.name}")
    return write_to(out, result)


def _one(out: Any, results: Sequence[Any]) -> Any:
    """What one operator makes of a function: an array, or a tuple of one for each of its results."""
    if len(results) == 1:
        return write_to(out, results[0])
    if out is not None:
        received = f"out= for {len(results)} results"
        raise ArgumentError(message("map_reduce", received, "no out=", "Reduce one result at a time."))
    return tuple(results)


def map_scan(
    function: Function,
    op: str | Monoid | Sequence[str | Monoid],
    given: Sequence[Any],
    axis: Any,
    dtype: Any,
    exclusive: bool,
    reverse: bool,
    segments: Any,
    initial: bool,
    out: Any,
) -> Any:
    """Scans of what a function gives of the elements of arrays: for each of its results a list, one for each operator,
    where there are several; else as :func:`map_reduce`."""
    function, given = traceable("map_scan", function, given)
    ops = [op] if (is_one := isinstance(op, str | Monoid)) else list(op)
    if not is_one and out is not None:
        received = "out= for several operators"
        raise ArgumentError(message("map_scan", received, "no out=", "Scan by one operator at a time."))
    todo = (axis, dtype, exclusive, reverse, segments, initial, out)
    by_operator = [_scans(function, operators.get(each), given, *todo) for each in ops]
    if not is_one:
        return [list(each) for each in zip(*by_operator, strict=True)]
    return tuple(by_operator[0]) if len(by_operator[0]) > 1 else by_operator[0][0]


def _scans(
    function: Function,
    monoid: Monoid,
    given: Sequence[Any],
    axis: Any,
    dtype: Any,
    exclusive: bool,
    reverse: bool,
    segments: Any,
    initial: bool,
    out: Any,
) -> list[Any]:
    """Scans by one operator: of each result for itself, or of as many as it takes arrays."""
    name = f"map_scan by {monoid.name}"
    operands = Operands(name, given)
    program = operands.trace(function)
    found = []
    if program is None:
        values = operands.whole(function)
        for x in values if monoid.arity == 1 else (tuple(values),):
            found.append(scan_apply.apply(monoid, x, axis, dtype, exclusive, reverse, segments, initial, None))
    else:
        count = len(program.outputs) if monoid.arity == 1 else 1
        for k in range(count):
            one = program.only(program.outputs[k : k + 1]) if count > 1 else program
            bound = _of_program(one, monoid, dtype, {}, name)
            key, arrays = f"map-scan-{monoid.name}", operands.arrays
            found.append(scan_apply.scan_bound(name, key, arrays, bound, axis, exclusive, reverse, segments, initial))
    if out is not None and len(found) > 1:
        raise ArgumentError(message(name, f"out= for {len(found)} results", "no out=", "Scan one result at a time."))
    return [write_to(out, each) for each in found]


def _bound(
    operands: Operands, function: Function, monoid: Monoid, dtype: Any, options: dict[str, Any], name: str
) -> Bound | None:
    """The operator of what a function gives, where the function can be traced and masks can be folded in."""
    program = operands.trace(function)
    if program is None:
        return None
    return _of_program(
        program, monoid, dtype, options, name, isinstance(function, masks.Masked) and function.keeps_mask
    )


def _of_program(
    program: Program, monoid: Monoid, dtype: Any, options: dict[str, Any], name: str, masked: bool = False
) -> Bound:
    """The operator of a program's values; with ``masked`` the last one says which of them count."""
    values = program.results[:-1] if masked else program.results
    if len(values) != monoid.arity:
        raise ArgumentError(
            message(
                name,
                f"a function with {len(values)} result(s)",
                f"{monoid.arity}",
                "Return as many as the operator takes arrays.",
            )
        )
    inner = bind(monoid, values, dtype, options, name)
    return mapped(program, inner, masked)
