"""Reductions and scans of functions of arrays: of a traced program where there is one, else of a lazy array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.array.core import handle_out

from .. import operators
from ..errors import ArgumentError, message
from ..expressions.mapped import mapped
from ..monoid import Bound, Monoid
from . import mapped_product, masks, scan_apply
from .apply import apply, bind
from .operands import Function, Operands, same
from .reduction import reduce_array


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
) -> Any:
    """A reduction of what a function gives of the elements of arrays."""
    if not isinstance(op, str | Monoid):
        return mapped_product.reduce(function, op, given, axis, keepdims, split_every, where, dtype, out, options)
    monoid = operators.get(op) if where is None else masks.refusing(operators.get(op))
    name = f"map_reduce by {monoid.name}"
    if monoid.arity == 1 and Operands(name, given).has_many(function):
        each = mapped_product.reduce(function, [op], given, axis, keepdims, split_every, where, dtype, out, options)
        return tuple(values[0] for values in each)
    todo = masks.Masked(function, monoid.name) if where is not None else function
    operands = Operands(name, given if where is None else (*given, masks.checked(name, where)))
    bound = _bound(operands, todo, monoid, dtype, options, name)
    if bound is None:
        if where is not None and function is not same:
            values = Operands(name, given).lazy(function, monoid.arity)
            return map_reduce(same, monoid, [*values], axis, dtype, keepdims, split_every, out, where, options)
        if isinstance(todo, masks.Masked) and todo.keeps_mask:
            raise masks.unread(name, operands.arrays)
        arrays = tuple(operands.lazy(todo, monoid.arity))
        return apply(
            monoid, *arrays, axis=axis, dtype=dtype, keepdims=keepdims, split_every=split_every, out=out, **options
        )
    result = reduce_array(operands.arrays, bound, axis, keepdims, split_every, f"map-{monoid.name}")
    return handle_out(out, result)


def map_scan(
    function: Function,
    op: str | Monoid,
    given: Sequence[Any],
    axis: Any,
    dtype: Any,
    exclusive: bool,
    reverse: bool,
    segments: Any,
    initial: bool,
    out: Any,
) -> Any:
    """A scan of what a function gives of the elements of arrays."""
    monoid = operators.get(op)
    name = f"map_scan by {monoid.name}"
    operands = Operands(name, given)
    bound = _bound(operands, function, monoid, dtype, {}, name)
    if bound is None:
        arrays = tuple(operands.lazy(function, monoid.arity))
        x = arrays[0] if monoid.arity == 1 else arrays
        return scan_apply.apply(monoid, x, axis, dtype, exclusive, reverse, segments, initial, out)
    key = f"map-scan-{monoid.name}"
    result = scan_apply.scan_bound(name, key, operands.arrays, bound, axis, exclusive, reverse, segments, initial)
    return handle_out(out, result)


def _bound(
    operands: Operands, function: Function, monoid: Monoid, dtype: Any, options: dict[str, Any], name: str
) -> Bound | None:
    """The operator of what a function gives, where the function can be traced and masks can be folded in."""
    program = operands.trace(function)
    if program is None:
        return None
    masked = isinstance(function, masks.Masked) and function.keeps_mask
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
