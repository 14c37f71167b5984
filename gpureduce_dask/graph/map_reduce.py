"""Reductions and scans of functions of arrays: of a traced program where there is one, else of what the function gives
of the whole arrays. Several statistics are the product of mapped monoids.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..distributed.private import write_to
from ..dtypes import is_native
from ..errors import ArgumentError, DtypeError, message
from ..expressions import tracer
from ..expressions.elements import WEIGHTED, Filled, Function, Masked, Weighing, same, weighted
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..expressions.tracer import Untraceable
from ..operators import table as operators
from ..operators.masked import refusing
from ..operators.monoid import Bound, DType, Monoid
from ..operators.shared_states import HOLDERS, SPREADS, UNNAMED, Holder
from . import graph_arrays as da
from . import scan_apply, statistics
from .arguments import as_dask, bind, broadcast
from .meta import describe, is_ours, require_plain
from .reduce import apply, build_tree
from .statistics import build_statistics, cut_statistic, field_names

NAME = "map_reduce"


class Operands:
    """Arrays as the kernels read them: of one shape and one chunking, equal ones but once. Numbers among what is given
    are no arrays: as in NumPy, Python's take the dtype of what they meet."""

    def __init__(self, name: str, given: Sequence[Any]) -> None:
        self.numbers = {i: x for i, x in enumerate(given) if isinstance(x, (bool, int, float, complex, np.generic))}
        arrays = [as_dask(name, x) for i, x in enumerate(given) if i not in self.numbers]
        if not arrays:
            raise ArgumentError(message(name, "no array", "one or more", "Pass what the function is called with."))
        unlike: dict[str, int] = {}
        order = tuple(unlike.setdefault(a.name, len(unlike)) for a in arrays)
        single = tuple(arrays[order.index(i)] for i in range(len(unlike)))
        whole = broadcast(name, single)
        # A kernel goes by the first: of those that grow, one element stands for many.
        ranks = sorted(range(len(single)), key=lambda i: single[i].shape != whole[i].shape)
        self.name, self.given, self.order = name, tuple(given), tuple(ranks.index(i) for i in order)
        self.arrays = tuple(whole[i] for i in ranks)
        self.dtypes = tuple(a.dtype.newbyteorder("=") for a in self.arrays)

    @property
    def is_ours(self) -> bool:
        return all(is_ours(a._meta) and is_native(a.dtype) for a in self.arrays)

    def trace(self, function: Function) -> Program | None:
        """What the function gives of the elements, or None where that cannot be known."""
        found = self._attempt(function)
        return found if isinstance(found, Program) else None

    def _attempt(self, function: Function) -> Program | Untraceable:
        if not self.is_ours:
            return Untraceable(describe(self.arrays))
        if self.numbers:
            function = Filled(function, tuple(self.numbers.items()))
        return tracer.attempt(function, self.dtypes, self.order)

    def whole(self, function: Function) -> list[Any]:
        """What the function gives of whole arrays, an array a result: of dask's as dask has it, and of NumPy's
        themselves where there are no others."""
        if function is same:
            return [self.arrays[i] for i in self.order]
        reason = self._attempt(function)
        is_lazy = not all(i in self.numbers or type(x) is np.ndarray for i, x in enumerate(self.given))
        if is_lazy and isinstance(reason, Untraceable) and reason.needs_values:
            raise self._refused(reason)
        try:
            with warnings.catch_warnings():  # of what dask has no function for, it would compute the arrays at once
                warnings.filterwarnings("error", ".*is not implemented by Dask array", FutureWarning)
                found = function(*(x if i in self.numbers else _own(x) for i, x in enumerate(self.given)))
        except Exception as error:
            detail = str(error).partition(". ")[0]
            raise self._refused(reason, f", and raises {type(error).__name__}: {detail}") from error
        many, wanted = found if isinstance(found, tuple | list) else (found,), self.arrays[0].shape
        for x in many:
            if not isinstance(x, da.Array) and (is_lazy or not isinstance(x, np.ndarray | np.generic)):
                raise self._refused(reason, f", and gives an object of type {type(x).__name__}")
            pairs = zip(x.shape, wanted, strict=False)
            if len(x.shape) != len(wanted) or any(m != n and (m == m or n == n) for m, n in pairs):
                raise self._refused(reason, f", and gives shape {x.shape} of arrays of shape {wanted}")
        if not many:
            raise self._refused(reason, ", and gives nothing")
        return [as_dask(self.name, x) for x in many]

    def _refused(self, reason: Program | Untraceable, more: str = "") -> ArgumentError:
        stop = f" ({reason})" if isinstance(reason, Untraceable) else ""
        received = f"a function that cannot be traced{stop}{more}"
        expected = "a function of elements, made of Python's operators and NumPy's functions"
        remedy = "Reduce what dask makes of it, or x.map_blocks(f) where f may be called on one chunk after another."
        return ArgumentError(message(self.name, received, expected, remedy))


def traceable(name: str, function: Function, given: Sequence[Any]) -> tuple[Function, Sequence[Any], int]:
    """A function that can be traced, its arrays, and how many results it has: where it cannot, what it gives of the
    whole arrays."""
    operands = Operands(name, given)
    if program := operands.trace(function):
        return function, given, len(program.outputs)
    whole = operands.whole(function)
    return same, whole, len(whole)


def _own(x: Any) -> Any:
    """An array that a function can do no harm to: a view of NumPy's to which writing is an error, and a dask array by
    itself, which assignments turn into another."""
    if type(x) is not np.ndarray:
        return as_dask("map", x).copy()
    view = x.view()
    view.flags.writeable = False
    return view


# ---- masks


def checked_mask(name: str, where: Any) -> Any:
    """A mask as a dask array of bool."""
    require_plain(name, "where", where)
    mask = as_dask(name, where)
    if mask.dtype != bool:
        raise DtypeError(message(name, f"where of {mask.dtype}", "bool", "Compare first, as in where=(x > 0)."))
    return mask


def unread(name: str, arrays: tuple[Any, ...], keywords: str = "where=") -> DtypeError:
    """The error for chunks that are no plain numbers, with a mask or weights."""
    received = f"{keywords} with {describe([a for a in arrays if a.dtype.kind != 'b'] or arrays)}"
    remedy = "Fill masked chunks first, and pass their mask as where=."
    return DtypeError(message(name, received, "NumPy or CuPy chunks of numbers", remedy))


# ---- several statistics

# Of one result of a function: operators by name, whose states hold others', and the numbers of the outputs that each
# takes.
Request = tuple[Mapping[str, Bound], Holder, Mapping[str, tuple[int, ...]]]


def reduce_together(
    operation: str,
    function: Function,
    ops: Sequence[Any],
    given: Sequence[Any],
    where: Any = None,
    weights: Any = None,
    dtype: Any = None,
    options: Mapping[str, Any] | None = None,
    keepdims: bool = False,
    **places: Any,
) -> list[list[Any]]:
    """For each result of the function its statistics, in the order asked. ``ddof`` goes to those that it is for; other
    options and ``dtype`` are for one operator alone, with weights. ``places`` are axes and ``split_every``."""
    options, is_masked = options or {}, where is not None
    extra: list[Any] = []
    traced: Function = Masked(function) if is_masked else function
    if weights is not None:
        rows = _weighted_rows(operation, ops, "order" in options)
        require_plain(operation, "weights", weights)
        extra, traced = [as_dask(operation, weights)], Weighing(function, rows, is_masked)
    if is_masked:
        extra.append(checked_mask(operation, where))
    operands = Operands(operation, [*given, *extra])
    program = operands.trace(traced)
    ddof = options.get("ddof", 0)
    if program is None and extra:
        raise unread(operation, operands.arrays, "where=" if weights is None else "weights=")
    if program is None:
        values = operands.whole(function)
        return [build_statistics(operation, x, ops, keepdims, ddof, **places)[1] for x in values]
    keeps_mask = is_masked and weights is None
    if weights is None:
        requests = _mapped(operation, program, ops, ddof, keeps_mask)
    else:
        requests = _weighted(operation, program, rows, extra[0].dtype, dtype, options)
    part = partial(_part, program, keeps_mask)
    whole, found = statistics.join(NAME, ((bounds, holder, partial(part, each)) for bounds, holder, each in requests))
    if keeps_mask:  # nothing may count
        found = [[replace(s, bound=replace(s.bound, monoid=refusing(s.bound.monoid))) for s in each] for each in found]
    tree = build_tree(operands.arrays, whole, keepdims=True, name_prefix=whole.name, **places)
    return [[cut_statistic(tree, statistic, keepdims) for statistic in each] for each in found]


def _part(
    program: Program, keeps_mask: bool, outputs: Mapping[str, tuple[int, ...]], state: Bound, number: int
) -> Bound:
    """The state of an operator as part of a product: of the outputs that are told for it."""
    part = mapped(program.only(outputs[state.name]), state, keeps_mask, number)
    return Bound(replace(part.monoid, name=f"{state.name}_{number}"), part.dtypes)


def _mapped(
    operation: str, program: Program, ops: Sequence[str | Monoid], ddof: float, keeps_mask: bool
) -> Iterator[Request]:
    """The statistics of each result; with a mask the last output says which elements count."""
    last = len(program.outputs) - keeps_mask
    for k in range(last):
        bounds, holder = statistics.bind_all(operation, ops, program.results[k], ddof)
        yield bounds, holder, dict.fromkeys(bounds, program.outputs[k : k + 1] + program.outputs[last:])


def _weighted(
    operation: str, program: Program, rows: Sequence[str], weight: DType, dtype: Any, options: Mapping[str, Any]
) -> Iterator[Request]:
    """The statistics of each result, from what :class:`Weighing` gives."""
    arities = [WEIGHTED[name][1].arity for name in rows]
    step = 1 + sum(arities)

    def holder(name: str) -> tuple[str, None] | None:  # with weights, those that begin as others' states do
        found = (each for each, field in HOLDERS.get(name, ()) if field == "count" and each in rows)
        return next(((each, None) for each in found), None)

    for first in range(0, len(program.outputs), step):
        value, *rest = program.outputs[first : first + step]
        bounds, outputs = {}, {}
        for name, arity in zip(rows, arities, strict=True):
            outputs[name], rest = tuple(rest[:arity]), rest[arity:]
            given = tuple(program.nodes[i].dtype for i in outputs[name])
            _, row, own = weighted(operators.OPERATORS[name], program.nodes[value].dtype, weight)
            mine = {k: v for k, v in options.items() if k != "ddof" or name in SPREADS | UNNAMED}
            bounds[name] = bind(replace(row, name=name), given, dtype or own, mine, operation)
        yield bounds, holder, outputs


def _weighted_rows(operation: str, ops: Sequence[Any], has_order: bool) -> tuple[str, ...]:
    """The names of operators that take weights, of moments too where there is an order."""
    takers = WEIGHTED.keys() if has_order else WEIGHTED.keys() - UNNAMED
    found = tuple(field_names(operation, ops))
    for name, each in zip(found, ops, strict=True):
        if name not in takers or operators.get(each) != operators.OPERATORS[name]:
            received, expected = f"weights= with {name!r}", f"them with one of {', '.join(sorted(takers))}"
            raise ArgumentError(message(operation, received, expected, "Ask for it in a call without weights."))
    return found


# ---- calls


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
    function, given, results = traceable(name, function, given)
    places: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    if one is None or weights is not None or (one.arity == 1 and results > 1):
        ops: Any = op if one is None else [op]
        if weights is None or one is None:
            _require_ddof_alone(ops, dtype, out, options)
        each = reduce_together(NAME, function, ops, given, where, weights, dtype, options, **places)
        return each if one is None else _one(out, [values[0] for values in each])
    monoid = one if where is None else refusing(one)
    traced = function if where is None else Masked(function, monoid.name)
    operands = Operands(name, given if where is None else (*given, checked_mask(name, where)))
    program = operands.trace(traced)
    if program is None and where is not None and not operands.is_ours:
        raise unread(name, operands.arrays)
    if program is None:
        return apply(monoid, *operands.whole(traced), dtype=dtype, out=out, **places, **options)
    keeps_mask = isinstance(traced, Masked) and traced.keeps_mask
    bound = _of_program(program, monoid, dtype, options, name, keeps_mask)
    return write_to(out, build_tree(operands.arrays, bound, name_prefix=f"map-{monoid.name}", **places).array)


def _require_ddof_alone(ops: Any, dtype: Any, out: Any, options: Mapping[str, Any]) -> None:
    """Raise for what several statistics do not have together."""
    others = [key for key in options if key != "ddof"]
    others += [key for key, value in {"dtype": dtype, "out": out}.items() if value is not None]
    if others or not ops:
        received, remedy = ", ".join(others) or "no operator", "Pass one operator, not in a list."
        raise ArgumentError(message(NAME, received, "a list of operators, and ddof", remedy))


def _one(out: Any, results: Sequence[Any]) -> Any:
    """What one operator makes of a function: an array, or a tuple of one for each of its results."""
    if len(results) == 1:
        return write_to(out, results[0])
    if out is not None:
        remedy = "Reduce one result at a time."
        raise ArgumentError(message(NAME, f"out= for {len(results)} results", "no out=", remedy))
    return tuple(results)


def map_scan(
    function: Function, op: str | Monoid | Sequence[str | Monoid], given: Sequence[Any], out: Any, **arguments: Any
) -> Any:
    """Scans of what a function gives of the elements of arrays: for each of its results a list, one for each operator,
    where there are several; else as :func:`map_reduce`. ``arguments`` are those of a scan."""
    function, given, _ = traceable("map_scan", function, given)
    if isinstance(op, str | Monoid):
        found = _scans(function, operators.get(op), given, out, **arguments)
        return tuple(found) if len(found) > 1 else found[0]
    if out is not None:
        remedy = "Scan by one operator at a time."
        raise ArgumentError(message("map_scan", "out= for several operators", "no out=", remedy))
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
