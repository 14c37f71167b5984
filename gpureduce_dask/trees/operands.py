"""The arrays of a map: brought to one shape and chunking, and what a function gives of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import is_device
from ..dtypes import is_native
from ..errors import ArgumentError, message
from ..expressions import tracer
from ..expressions.program import Program
from .apply import as_dask
from .meta import is_ours

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
        order = tuple(unlike.setdefault(a.name, len(unlike)) for a in arrays)
        single = tuple(arrays[order.index(i)] for i in range(len(unlike)))
        whole = spread(name, single)
        # A kernel goes by the first: of those that grow, one element stands for many.
        ranks = sorted(range(len(single)), key=lambda i: single[i].shape != whole[i].shape)
        self.order = tuple(ranks.index(i) for i in order)
        self.name = name
        self.arrays = tuple(whole[i] for i in ranks)
        self.dtypes = tuple(a.dtype.newbyteorder("=") for a in self.arrays)

    @property
    def is_ours(self) -> bool:
        return all(is_ours(a._meta) and is_native(a.dtype) for a in self.arrays)

    def trace(self, function: Function) -> Program | None:
        """What the function gives of the elements, or None where that cannot be known."""
        return tracer.trace(self._of_arrays(function), self.dtypes, self.order) if self.is_ours else None

    def _of_arrays(self, function: Function) -> Function:
        return Filled(function, tuple(self.numbers.items())) if self.numbers else function

    def lazy(self, function: Function, count: int, is_many: bool = False) -> Iterator[Any]:
        """Lazy arrays of what the function gives of whole chunks, one a result; ``is_many``: in a tuple."""
        inds = tuple(range(self.arrays[0].ndim))
        pairs = [v for i in self.order for v in (self.arrays[i], inds)]
        function = self._of_arrays(function)
        for which in range(count):
            run = partial(called, function=function, which=None if count == 1 and not is_many else which)
            yield da.blockwise(run, inds, *pairs, token="gr-map", dtype=self._dtype(run), align_arrays=False)

    def untraced(self, function: Function) -> Iterator[Any]:
        """Lazy arrays of all results of a function."""
        count = self.results(function)
        return self.lazy(function, count or 1, count is not None)

    def results(self, function: Function) -> int | None:
        """How many results the function gives, in a tuple or a list; None where it gives an array."""
        given = self._of_one(self._of_arrays(function))
        return len(given) if isinstance(given, tuple | list) else None

    def has_many(self, function: Function) -> bool:
        """True for a function of more results than one."""
        program = self.trace(function)
        return len(program.outputs) > 1 if program else (self.results(function) or 1) > 1

    def _dtype(self, function: Function) -> Any:
        return np.asarray(self._of_one(function)).dtype

    def _of_one(self, function: Function) -> Any:
        """What the function gives of single elements."""
        ones = [np.ones((1,) * self.arrays[i].ndim, self.arrays[i].dtype) for i in self.order]
        with np.errstate(all="ignore"):
            return function(*ones)


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


def called(*blocks: Any, function: Function, which: int | None) -> Any:
    """What a function gives of chunks that others read too, or one of its results: it must not write to them."""
    given = function(*map(_own, blocks))
    return given if which is None else given[which]


def _own(block: Any) -> Any:
    """What a function can do no harm to: a view of a NumPy chunk to which writing is an error, and a copy of CuPy's,
    which has no such views."""
    if is_device(block):
        return block.copy(order="K")
    if not isinstance(block, np.ndarray):
        return block
    view = block.view()
    view.flags.writeable = False
    return view


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
