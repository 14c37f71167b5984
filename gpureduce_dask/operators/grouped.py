"""A monoid bound to elements that fall into groups: each group of a chunk has a state of its own.

A partial of it has the states of all groups along one more axis, behind those of the chunk, so that partials are
combined cell by cell as any others are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from . import counts, sums
from .monoid import Array, Bound, DType
from .product_monoid import product

COUNT = counts.ROWS[0]


class Labels:
    """Arrays of labels that travel in a graph: equal, and of one hash, where their elements are."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = tuple(np.ascontiguousarray(a) for a in arrays)
        digest = hashlib.sha256()
        for array in self.arrays:
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(array.data)
        self.digest = digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "gr-labels", self.digest

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.arrays,)


class Edges(Labels):
    """The edges of a histogram's bins, which label elements as they are read.

    Parameters
    ----------
    edges : array of shape (bins + 1,)
        As numpy.histogram_bin_edges gives them.
    span : tuple of two numbers or None
        The range that bins of one width divide; None for other bins.
    masks : bool
        True where elements that a chunk masks count too.
    """

    def __init__(self, edges: Array, span: tuple[Any, Any] | None = None, masks: bool = False) -> None:
        super().__init__([edges])
        self.edges, self.span, self.masks = self.arrays[0], span, masks
        self.digest += f"{span}{masks}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Edges, (self.edges, self.span, self.masks)


@dataclass(frozen=True)
class Bins:
    """Which group each element is of.

    Parameters
    ----------
    name : str
        The operation, for errors.
    sizes : tuple of int
        Numbers of groups: one, or one for each reduced axis. A group's number counts in C order.
    axes : tuple of int
        The reduced axes, all of them.
    known : Labels or None
        Labels of the whole array along the reduced axes: one array of their shape, or one for each of them. None where
        a chunk of labels comes with each chunk.
    is_own : bool
        True where the elements are their own labels.
    strict : bool
        True where negative labels are an error; otherwise they leave elements out.
    edges : Edges or None
        Those of a histogram's bins, where they label the elements.
    """

    name: str
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    known: Labels | None = None
    is_own: bool = False
    strict: bool = False
    edges: Edges | None = None

    @property
    def count(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Binned(Bound):
    """A monoid bound to dtypes and to groups. ``cells`` is what each group's state belongs to: the monoid itself, or
    its product with a count where it has no answer for an empty group.

    Labels that are known tell how many elements each group has, the same for all cells: then nothing is counted, and of
    a ``mean`` that leaves nothing out the cells are sums, which are divided in the end.
    """

    cells: Bound = None  # type: ignore[assignment]
    bins: Bins = None  # type: ignore[assignment]
    fill: Any = None
    mean: Bound | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.cells, self.bins))

    @property
    def parts(self) -> tuple[Bound, ...]:
        return self.cells.parts

    @cached_property
    def state(self) -> DType:
        return self.cells.state

    @property
    def result(self) -> DType:
        return (self.mean or self.inner).result

    @property
    def indexed(self) -> bool:
        """True where a chunk must know where it lies: for positions, or to find its labels."""
        return self.bins.known is not None or self.cells.indexed

    @property
    def inner(self) -> Bound:
        """The monoid whose results are asked for; its state lies at the beginning of a cell's."""
        return self.cells.parts[0]

    @property
    def is_counted(self) -> bool:
        return len(self.cells.parts) > 1

    @property
    def has_gaps(self) -> bool:
        """True where a group without elements has no result of its own."""
        return self.cells.monoid.empty == "raise"

    @cached_property
    def known_counts(self) -> Array:
        """How many elements each group has, by labels that are known."""
        assert self.bins.known is not None
        pairs = zip(self.bins.known.arrays, self.bins.sizes, strict=True)
        return reduce(np.multiply.outer, [np.bincount(line[line >= 0], minlength=n) for line, n in pairs]).reshape(-1)

    @property
    def extra(self) -> tuple[int, ...]:
        return (self.bins.count,)

    def __reduce__(self) -> tuple[Any, ...]:
        return Binned, (self.monoid, self.dtypes, self.dtype, self.cells, self.bins, self.fill, self.mean)


def binned(bound: Bound, bins: Bins, fill: Any = None) -> Binned:
    """This monoid for groups; ``fill`` is the result of a group without elements, where it has none of its own."""
    cells = bound
    if bins.known is not None and (total := sums.total_of(bound)) is not None:
        return Binned(replace(total.monoid, name=bound.name), bound.dtypes, bound.dtype, total, bins, fill, bound)
    if bound.monoid.empty == "raise":
        if bound.monoid.arity > 1:
            received = f"an operator of {bound.monoid.arity} arrays that has no answer for an empty group"
            raise ArgumentError(message(bins.name, received, "one with an identity", "Give it empty='identity'."))
        if bins.known is None:
            cells = product(bound.name, (bound, COUNT.bind(*bound.dtypes)))
    # A chunk without elements has the identity in every group.
    return Binned(replace(cells.monoid, empty="identity"), bound.dtypes, bound.dtype, cells, bins, fill)
