"""Reductions and scans of functions of arrays: of a traced program where there is one, else of what the function
gives of the whole arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..distributed.private import write_to
from ..errors import ArgumentError, message
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..operators import table as operators
from ..operators.monoid import Bound, Monoid
from . import scan_apply
from .apply import apply, bind
from .operands import Function, Masked, Operands, checked_mask, refusing, traceable, unread
from .reduce import build_tree
from .statistics import reduce_together

NAME = "map_reduce"


def map_reduce(
    function: Function,
    op: str | Monoid | Sequence[str | Monoid],
    given: Sequence[Any],
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    out: Any = None,
    where: Any = None,
    weights: Any = None,
    **options: Any,
) -> Any:
    """A reduction of what a function gives of the elements of arrays; ``options`` are the operator's."""
    one = operators.get(op) if isinstance(op, str | Monoid) else None
    name = NAME if one is None else f"{NAME} by {one.name}"
    function, given = traceable(name, function, given)
    is_single = one is not None and (one.arity > 1 or Operands(name, given).results(function) == 1)
    if one is None or weights is not None or not is_single:
        ops: Any = op if one is None else [op]
        if weights is None or one is None:
            _require_ddof_alone(ops, dtype, out, options)
        each = reduce_together(NAME, function, ops, given, axis, keepdims, split_every, where, weights, dtype, options)
        return each if one is None else _one(out, [values[0] for values in each])
    monoid = one if where is None else refusing(one)
    traced = function if where is None else Masked(function, monoid.name)
    operands = Operands(name, given if where is None else (*given, checked_mask(name, where)))
    program = operands.trace(traced)
    if program is None and where is not None and not operands.is_ours:
        raise unread(name, operands.arrays)
    if program is None:
        places = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
        return apply(monoid, *operands.whole(traced), dtype=dtype, out=out, **places, **options)
    keeps_mask = isinstance(traced, Masked) and traced.keeps_mask
    bound = _of_program(program, monoid, dtype, options, name, keeps_mask)
    return write_to(out, build_tree(operands.arrays, bound, axis, keepdims, split_every, f"map-{monoid.name}").array)


def _require_ddof_alone(ops: Any, dtype: Any, out: Any, options: Mapping[str, Any]) -> None:
    """Raise for what several statistics do not have together."""
    others = [*(key for key in options if key != "ddof"), *(["dtype"] if dtype is not None else [])]
    others += ["out"] if out is not None else []
    if others or not ops:
        received = ", ".join(others) or "no operator"
        remedy = "Pass one operator, not in a list."
        raise ArgumentError(message(NAME, received, "a list of operators, and ddof", remedy))


def _one(out: Any, results: Sequence[Any]) -> Any:
    """What one operator makes of a function: an array, or a tuple of one for each of its results."""
    if len(results) == 1:
        return write_to(out, results[0])
    if out is not None:
        received = f"out= for {len(results)} results"
        raise ArgumentError(message(NAME, received, "no out=", "Reduce one result at a time."))
    return tuple(results)


def map_scan(
    function: Function, op: str | Monoid | Sequence[str | Monoid], given: Sequence[Any], out: Any, **arguments: Any
) -> Any:
    """Scans of what a function gives of the elements of arrays: for each of its results a list, one for each operator,
    where there are several; else as :func:`map_reduce`. ``arguments`` are those of a scan."""
    function, given = traceable("map_scan", function, given)
    if isinstance(op, str | Monoid):
        found = _scans(function, operators.get(op), given, out, **arguments)
        return tuple(found) if len(found) > 1 else found[0]
    if out is not None:
        received = "out= for several operators"
        raise ArgumentError(message("map_scan", received, "no out=", "Scan by one operator at a time."))
    by_operator = [_scans(function, operators.get(each), given, out, **arguments) for each in op]
    return [list(each) for each in zip(*by_operator, strict=True)]


def _scans(
    function: Function, monoid: Monoid, given: Sequence[Any], out: Any, dtype: Any, **arguments: Any
) -> list[Any]:
    """Scans by one operator: of each result for itself, or of as many as it takes arrays."""
    name = f"map_scan by {monoid.name}"
    operands = Operands(name, given)
    program = operands.trace(function)
    if program is None:
        values = operands.whole(function)
        each: Sequence[Any] = values if monoid.arity == 1 else (tuple(values),)
        found = [scan_apply.apply(monoid, x, dtype=dtype, **arguments) for x in each]
    else:
        outputs = [(output,) for output in program.outputs] if monoid.arity == 1 else [program.outputs]
        programs = [program.only(some) for some in outputs] if len(outputs) > 1 else [program]
        bounds = [_of_program(one, monoid, dtype, {}, name) for one in programs]
        key = f"map-scan-{monoid.name}"
        found = [scan_apply.scan_bound(name, key, operands.arrays, bound, **arguments) for bound in bounds]
    if out is not None and len(found) > 1:
        raise ArgumentError(message(name, f"out= for {len(found)} results", "no out=", "Scan one result at a time."))
    return [write_to(out, x) for x in found]


def _of_program(
    program: Program, monoid: Monoid, dtype: Any, options: Mapping[str, Any], name: str, masked: bool = False
) -> Bound:
    """The operator of a program's values; with ``masked`` the last one says which of them count."""
    values = program.results[:-1] if masked else program.results
    if len(values) != monoid.arity:
        received, remedy = f"a function with {len(values)} result(s)", "Return as many as the operator takes arrays."
        raise ArgumentError(message(name, received, f"{monoid.arity}", remedy))
    return mapped(program, bind(monoid, values, dtype, dict(options), name), masked)
