"""A monoid of functions of elements: what a program gives is what another monoid takes.

Its states, results and options are the other monoid's, so partials of both are one and the same. Where a mask is
false, an element counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..operators import masked as masked_rows
from ..operators import prod, sums
from ..operators.monoid import Array, Bound, DType, State, same_elements
from ..operators.product_monoid import product
from . import host
from .program import Program, unchanged

# Folds that skip NaN, by those that take its neutral element in the place of NaN.
PRESENT: dict[Any, Any] = {sums.fold: sums.fold_present, prod.fold: prod.fold_present}


@dataclass(frozen=True)
class Map:
    """``inner`` takes the first outputs of ``program``; with ``masked``, the last one says which elements count.

    ``number`` tells maps apart that one kernel computes together.
    """

    program: Program
    inner: Bound
    masked: bool = False
    number: int = 0

    def __post_init__(self) -> None:
        wanted = self.inner.monoid.arity + self.masked
        if len(self.program.outputs) != wanted:
            raise ArgumentError(
                message(
                    self.inner.name,
                    f"a map with {len(self.program.outputs) - self.masked} result(s)",
                    f"{self.inner.monoid.arity}",
                    "Return as many results as the operator takes arrays.",
                )
            )
        given = self.program.cast((*self.inner.elements, *((np.dtype(bool),) if self.masked else ())))
        given = given.only(given.outputs)
        object.__setattr__(self, "program", given)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.program, self.inner, self.masked, self.number))

    def __reduce__(self) -> tuple[Any, ...]:
        return Map, (self.program, self.inner, self.masked, self.number)

    def result(self, *dtypes: DType, dtype: DType | None = None) -> DType:
        return self.inner.result

    def lift(self, *blocks: Any) -> State:
        """The states of elements; ``blocks`` are the arrays', and the index."""
        *arrays, index = blocks
        values = self._values(arrays)
        if not self.masked:
            return self.inner.monoid.lift(*values, index)
        *values, mask = values
        lifted = self.inner.monoid.lift(*values, index)
        return tuple(
            np.where(mask, np.asarray(f).astype(d, copy=False), i)
            for f, i, (_, d) in zip(lifted, self.inner.identity, self.inner.fields, strict=True)
        )

    def fold(self, *blocks: Any) -> State:
        """The states of blocks, by the operator's fold or by its form with a mask."""
        *arrays, index = blocks
        values, fold = self._values(arrays), self.inner.monoid.fold
        assert fold is not None
        if not self.masked:
            return fold(*values, index)
        value, mask = values
        return masked_rows.among(fold, value, mask, index)

    def sweep(self, *blocks: Any) -> State:
        *arrays, carry, out = blocks
        assert self.inner.monoid.sweep is not None
        return self.inner.monoid.sweep(*self._values(arrays), carry, out)

    def running(self, *blocks: Any) -> tuple[State, State] | None:
        *arrays, index, carry = blocks
        assert self.inner.monoid.running is not None
        return self.inner.monoid.running(*self._values(arrays), index, carry)

    def values(self, blocks: list[Array]) -> list[Array]:
        """What :attr:`taker` takes, of blocks of one shape, in scratch until this thread's next call."""
        blocks = [b.astype(d, copy=False) for b, d in zip(blocks, self.program.dtypes, strict=True)]
        return host.evaluate(self.computed, blocks)

    @cached_property
    def taker(self) -> Bound:
        """The monoid of the values: of those that are no NaN alone, where a sum or product has numbers in their place
        that change nothing, as xarray's ``skipna`` does."""
        if self.masked:
            return mapped(unchanged(self.program.results), self.inner, True)
        if self.computed is self.program:
            return self.inner
        return replace(self.inner, monoid=replace(self.inner.monoid, fold=PRESENT[self.inner.monoid.fold]))

    @cached_property
    def computed(self) -> Program:
        """What gives the values."""
        fold = self.inner.monoid.fold
        if self.masked or fold is None or fold not in PRESENT:
            return self.program
        neutral = masked_rows.NEUTRAL[fold](self.program.results[0])
        present = self.program.present(self.program.outputs[0], neutral)
        return self.program if present is None else self.program.only((present,))

    def _values(self, blocks: list[Array]) -> list[Array]:
        shape = blocks[0].shape
        if any(b.shape != shape for b in blocks):
            blocks = list(np.broadcast_arrays(*blocks))
        return host.evaluate(self.program, blocks)


@dataclass(frozen=True)
class Part:
    """One of a map's functions: equal to another of an equal map, as no bound method is."""

    of: Map
    name: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self.of, self.name)(*args, **options)


def mapped(program: Program, inner: Bound, masked: bool = False, number: int = 0) -> Bound:
    """The monoid of a program's outputs, bound to its arrays' dtypes."""
    of, monoid = Map(program, inner, masked, number), inner.monoid
    folds = masked_rows.is_known(monoid.fold) and monoid.arity == 1 if masked else monoid.fold is not None
    found = replace(
        monoid,
        fields=inner.fields,
        identity=inner.identity,
        elements=same_elements,
        lift=Part(of, "lift"),
        fold=Part(of, "fold") if folds else None,
        sweep=Part(of, "sweep") if monoid.sweep is not None and not masked else None,
        running=Part(of, "running") if monoid.running is not None and not masked else None,
        result=Part(of, "result"),
        arity=len(program.dtypes),
    )
    return Bound(found, program.dtypes)


def map_of(bound: Bound) -> Map | None:
    """The map of a mapped monoid, or None."""
    lift = bound.monoid.lift
    return lift.of if isinstance(lift, Part) else None


def unmapped(bound: Bound) -> Bound:
    """The operator of a mapped monoid, which combines and finalises its states; any other itself."""
    if len(bound.parts) > 1:
        parts = tuple(map(unmapped, bound.parts))
        return bound if parts == bound.parts else product(bound.name, parts)
    of = map_of(bound)
    return bound if of is None else of.inner


@lru_cache(maxsize=256)
def mapped_parts(program: Program, bound: Bound) -> Bound:
    """The same of a product: each part takes one output."""
    if len(bound.parts) == 1:
        return mapped(program, bound)
    return product(bound.name, tuple(mapped(program, part, number=i) for i, part in enumerate(bound.parts)))
