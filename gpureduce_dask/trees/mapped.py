"""Reductions and scans of functions of arrays: of a traced program where there is one, else of a lazy array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import handle_out

from .. import operators
from ..dtypes import is_native
from ..errors import ArgumentError, message
from ..expressions import tracer
from ..expressions.mapped import mapped
from ..expressions.program import Program
from ..monoid import Bound, Monoid
from . import masks, scan_apply
from .apply import apply, as_dask, bind
from .meta import is_ours
from .reduction import reduce_array

Function = Callable[..., Any]


class Operands:
    """Arrays as the kernels read them: of one shape and one chunking, equal ones but once.

    Numbers among what is given are no arrays: as in NumPy, Python's take the dtype of what they meet.
    """

    def __init__(self, name: str, given: Sequence[Any]) -> None:
        self.numbers = {i: x for i, x in enumerate(given) if isinstance(x, (bool, int, float, complex, np.generic))}
        arrays = [as_dask(name, x) for i, x in enumerate(given) if i not in self.numbers]
        if not arrays:
            raise ArgumentError(message(name, "no array", "one or more", "Pass what the function is called with."))
        unlike: dict[str, int] = {}
        self.order = tuple(unlike.setdefault(a.name, len(unlike)) for a in arrays)
        self.name = name
        self.arrays = spread(name, tuple(arrays[self.order.index(i)] for i in range(len(unlike))))
        self.dtypes = tuple(a.dtype.newbyteorder("=") for a in self.arrays)

    @property
    def is_ours(self) -> bool:
        return all(is_ours(a._meta) and is_native(a.dtype) for a in self.arrays)

    def trace(self, function: Function) -> Program | None:
        """What the function gives of the elements, or None where that cannot be known."""
        return tracer.trace(self._of_arrays(function), self.dtypes, self.order) if self.is_ours else None

    def _of_arrays(self, function: Function) -> Function:
        return Filled(function, tuple(self.numbers.items())) if self.numbers else function

    def lazy(self, function: Function, count: int) -> Iterator[Any]:
        """Lazy arrays of what the function gives of whole chunks, one a result."""
        inds = tuple(range(self.arrays[0].ndim))
        pairs = [v for i in self.order for v in (self.arrays[i], inds)]
        function = self._of_arrays(function)
        for which in range(count):
            run = function if count == 1 else partial(pick, function=function, which=which)
            yield da.blockwise(run, inds, *pairs, token="gr-map", dtype=self._dtype(run), align_arrays=False)

    def _dtype(self, function: Function) -> Any:
        """The dtype of what the function gives, of a single element."""
        ones = [np.ones((1,) * self.arrays[i].ndim, self.arrays[i].dtype) for i in self.order]
        with np.errstate(all="ignore"):
            return np.asarray(function(*ones)).dtype


@dataclass(frozen=True)
class Filled:
    """A function whose arguments are numbers in some places."""

    function: Function
    numbers: tuple[tuple[int, Any], ...]

    def __call__(self, *arrays: Any) -> Any:
        given = list(arrays)
        for place, number in self.numbers:  # in order: each finds its place among those before it
            given.insert(place, number)
        return self.function(*given)


def same(*blocks: Any) -> Any:
    """What it is given."""
    return blocks if len(blocks) > 1 else blocks[0]


def pick(*blocks: Any, function: Function, which: int) -> Any:
    """One of the results of a function that gives several."""
    return function(*blocks)[which]


def spread(name: str, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays broadcast to one shape, in chunks of one size. Those that grow are views, chunk by chunk."""
    if len({a.chunks for a in arrays}) == 1:
        return arrays
    unknown = any(np.isnan(a.shape).any() for a in arrays)
    if unknown:
        if len({a.numblocks for a in arrays}) > 1 or len({a.ndim for a in arrays}) > 1:
            raise ArgumentError(
                message(name, "unknown chunk sizes", "the same chunks in all", "Call compute_chunk_sizes() first.")
            )
        return arrays
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ArgumentError(
            message(name, f"arrays of shapes {shapes}", "shapes that broadcast", "Reshape one of them.")
        ) from None
    inds = [tuple(range(len(shape) - a.ndim, len(shape))) for a in arrays]
    _, unified = da.core.unify_chunks(*(v for pair in zip(arrays, inds, strict=True) for v in pair))
    chunks = tuple(_chunks_along(axis, size, unified, inds) for axis, size in enumerate(shape))
    return tuple(a if a.chunks == chunks else da.broadcast_to(a, shape, chunks=chunks) for a in unified)


def _chunks_along(axis: int, size: int, arrays: Sequence[Any], inds: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The chunks of the first array that is of full size along an axis."""
    for a, where in zip(arrays, inds, strict=True):
        if axis in where and a.shape[where.index(axis)] == size:
            found: tuple[int, ...] = a.chunks[where.index(axis)]
            return found
    raise AssertionError("a broadcast shape has each size from some array")


def map_reduce(
    function: Function,
    op: str | Monoid,
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
    monoid = operators.get(op)
    name = f"map_reduce by {monoid.name}"
    todo = masks.Masked(function, monoid.name) if where is not None else function
    operands = Operands(name, given if where is None else (*given, masks.checked(name, where)))
    bound = _bound(operands, todo, monoid, dtype, options, name)
    if bound is None:
        if where is not None:
            values = Operands(name, given).lazy(function, monoid.arity)
            return map_reduce(same, monoid, [*values], axis, dtype, keepdims, split_every, out, where, options)
        arrays = tuple(operands.lazy(function, monoid.arity))
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
    return mapped(program, inner, masked, masks.skipping(inner) if masked else None)
