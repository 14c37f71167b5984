"""Several bound monoids of the same elements as one, which reads them once: the product of monoids is a monoid.

Its state has the fields of all parts, each name behind its part's. In memory the parts' states lie nested as the CUDA
struct ``Both`` nests them: the first, and behind it the product of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .monoid import Bound, DType, Fields, Monoid, State

Parts = tuple[Bound, ...]


@dataclass(frozen=True)
class Lift:
    """Elements to the states of all parts."""

    parts: Parts

    def __call__(self, *arrays: Any) -> State:
        return tuple(f for part in self.parts for f in part.monoid.lift(*arrays))


@dataclass(frozen=True)
class Combine:
    """The states of all parts, each by its own ``combine``."""

    parts: Parts

    def __call__(self, earlier: State, later: State) -> State:
        pairs = zip(self.parts, split(self.parts, earlier), split(self.parts, later), strict=True)
        return tuple(f for part, a, b in pairs for f in part.monoid.combine(a, b))


def split(parts: Parts, state: State) -> Iterator[State]:
    """A state's fields, part by part."""
    start = 0
    for part in parts:
        yield state[start : start + len(part.fields)]
        start += len(part.fields)


def unfinished(state: State, dtype: DType) -> Any:
    """A product has no result of its own: each part's is made of that part's state."""
    raise NotImplementedError


class Product(Bound):
    """A product of bound monoids."""

    @property
    def parts(self) -> Parts:
        combine: Any = self.monoid.combine
        return tuple(combine.parts)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where in the state each part's begins, in bytes."""
        return self._layout[0]

    @cached_property
    def state(self) -> DType:
        offsets, nbytes = self._layout
        at = [begin + place for begin, part in zip(offsets, self.parts, strict=True) for place in places(part)]
        names, formats = zip(*self.fields, strict=True)
        layout: Any = {"names": names, "formats": formats, "offsets": at, "itemsize": nbytes}
        packed: DType = np.dtype(layout, align=True)
        return packed

    @cached_property
    def _layout(self) -> tuple[tuple[int, ...], int]:
        """The parts' offsets, and the size of all."""
        nbytes, align, gaps = 0, 1, []
        for part in reversed(self.parts):
            gap = -(-part.state.itemsize // align) * align  # from this part to those behind it
            gaps.append(gap)
            align = max(align, part.state.alignment)
            nbytes = -(-(gap + nbytes) // align) * align
        offsets = [0]
        for gap in gaps[:0:-1]:
            offsets.append(offsets[-1] + gap)
        return tuple(offsets), nbytes

    @cached_property
    def positions(self) -> tuple[str, ...]:
        return tuple(_behind(part, name) for part in self.parts for name in part.positions)

    @property
    def result(self) -> DType:
        return self.state


def places(part: Bound) -> Iterator[int]:
    """Where the fields of a state begin, in bytes."""
    fields: Any = part.state.fields
    return (fields[name][1] for name, _ in part.fields)


def product(name: str, parts: Parts) -> Product:
    """The product of monoids that are bound to the same dtype."""
    monoid = Monoid(
        name=name,
        fields=_fields(parts),
        identity=tuple(value for part in parts for value in part.identity),
        lift=Lift(parts),
        combine=Combine(parts),
        finalise=unfinished,
        arity=parts[0].monoid.arity,
        commutative=all(part.monoid.commutative for part in parts),
        empty="raise" if any(part.monoid.empty == "raise" for part in parts) else "identity",
    )
    return Product(monoid, parts[0].dtypes)


def _fields(parts: Parts) -> Fields:
    return tuple((_behind(part, name), dtype) for part in parts for name, dtype in part.fields)


def _behind(part: Bound, name: str) -> str:
    return f"{part.name}_{name}"
