"""What kernels know of a bound monoid: its CUDA type, the text behind it, and the options of its last step."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, CompileError, DtypeError, message
from ..expressions.cuda import struct
from ..expressions.mapped import map_of, mapped, unmapped
from ..expressions.program import unchanged
from ..operators import cuda_types
from ..operators.monoid import Bound
from .compile import Constants
from .plans import Operator
from .specialise import operator
from .task import flag
from .tuning import THREADS

LARGEST_STATE = 48 * 1024 // THREADS  # bytes: a block keeps one a thread in shared memory


def as_map(bound: Bound) -> Bound | None:
    """An operator as one of what a map gives, which knows operands that have one element for a line; None for users'
    own, whose text says what they are."""
    if all(map_of(part) is not None for part in bound.parts):
        return bound
    return None if bound.monoid.unsafe_cuda else mapped(unchanged(bound.dtypes), bound)


def cuda_operator(bound: Bound, final: bool = False, fixed: tuple[int, ...] = ()) -> Operator:
    """The CUDA type of a bound monoid, of maps with those operands ``fixed`` that have one element for a line. Raises
    where the monoid has none, or no GPU array holds its elements."""
    monoid, elements = bound.monoid, bound.elements
    names = [cuda_types.element(d) for d in (*bound.dtypes, *elements)]
    if None in names:
        raise DtypeError(
            message(bound.name, f"dtypes {bound.dtypes} on a GPU", "dtypes that CUDA has", "Convert the array first.")
        )
    if bound.state.itemsize > LARGEST_STATE:
        raise ArgumentError(
            message(
                bound.name,
                f"a state of {bound.state.itemsize} bytes on a GPU",
                f"at most {LARGEST_STATE}",
                "Use fewer or smaller fields, or keep the chunks on the host.",
            )
        )
    text = _struct(bound, fixed=fixed)
    sizes = [0 if i in fixed else d.itemsize for i, d in enumerate(bound.dtypes)]
    emit = cuda_types.element(bound.result) or "" if final else ""
    return operator(text, sizes, bound.state, monoid.commutative, emit)


def reducer(bound: Bound, count: int, final: bool, fixed: tuple[int, ...] = ()) -> tuple[Operator, tuple[float, float]]:
    """:func:`cuda_operator` for kernels that reduce ``count`` elements to each cell, and its options. A mean of all of
    them is their sum, which is divided where a cell is stored: a count that is known takes no part in what threads
    keep, exchange and publish. Extremes and products of booleans are whether any or all are true, word by word."""
    op = cuda_operator(bound, final, fixed)
    if logical := _OF_BOOLEANS.match(op.type):
        before, kind = logical.groups()
        core = "Any" if kind == "MinMax<boolean, true, false>" else "All"
        text = f"{before}{core}<boolean>{op.type[logical.end() :]}"
        emit = op.emit or ("i64" if kind.startswith("Prod") else "")
        return replace(op, type=text, state_bytes=1, emit=emit), options(bound)
    plain, of = _PLAIN_MEAN.match(op.type), map_of(bound.parts[0])
    if plain is None or (of is not None and of.masked):
        return op, options(bound)
    before, terms, accumulator = plain.groups()
    text = f"{before}Sum<{terms}, {accumulator}>{op.type[plain.end() :]}"
    size = op.state_bytes - np.dtype(np.int64).itemsize
    emit = op.emit or f"Averaged<{accumulator}>"
    return replace(op, type=text, state_bytes=size, emit=emit, emitted_by="MeanOfSum"), (float(count), 0.0)


_OF_BOOLEANS = re.compile(r"((?:Mapped<|Casting<)?)(Prod<Value<boolean, i64>>|MinMax<boolean, \w+, false>)")
_PLAIN_MEAN = re.compile(r"((?:Mapped<|Casting<)?)Mean<(Value<\w+, \w+>), (\w+|Parts<\w+>)>")


def _struct(bound: Bound, is_cast: bool = False, fixed: tuple[int, ...] = ()) -> str:
    """The CUDA type expression of a bound monoid, for elements as they are stored, or cast already."""
    first, *others = bound.parts
    if others:
        each = [_struct(part, fixed=fixed) for part in bound.parts]
        return ", ".join(f"Both<{text}" for text in each[:-1]) + f", {each[-1]}" + ">" * len(others)
    of = map_of(first)
    if of is not None:
        return f"Mapped<{_struct(of.inner, True)}, {struct(of, fixed).name}>"
    monoid, stored = first.monoid, [cuda_types.element(d) for d in first.dtypes]
    if monoid.unsafe_cuda:
        pair = stored[0] if monoid.arity == 1 else f"Pair<{stored[0]}, {stored[1]}>"
        return f"User<{monoid.name}, {pair}, {flag(monoid.commutative)}>"
    if monoid.cuda is None:
        raise CompileError(
            message(first.name, "a monoid without CUDA text met a CuPy chunk", "unsafe_cuda=...", "See gr.Monoid.")
        )
    text = monoid.cuda(*first.elements)
    return f"Casting<{text}, {stored[0]}>" if first.elements != first.dtypes and not is_cast else text


def own_text(bound: Bound, fixed: tuple[int, ...] = ()) -> tuple[str, Constants]:
    """Text that goes behind the kernels, and the constants that it reads.

    Users' own, and that their states are as large as the fields: kernels write what Python makes room for. Then maps.
    """
    users = [unmapped(part) for part in bound.parts if part.monoid.unsafe_cuda]
    texts = list(dict.fromkeys(f"{part.monoid.unsafe_cuda}\n{_size_check(part)}" for part in users))
    structs = [struct(of, fixed) for part in bound.parts if (of := map_of(part)) is not None]
    text = "\n".join([*texts, *(s.text for s in structs)])
    return text, tuple(constant for s in structs for constant in s.constants)


def _size_check(bound: Bound) -> str:
    name, size = bound.name, bound.state.itemsize
    return f'static_assert(sizeof({name}::State) == {size}, "the fields of {name} take {size} bytes");'


def options(bound: Bound) -> tuple[float, float]:
    """The keyword arguments of ``finalise`` as numbers, in the order of their names: what its CUDA form takes."""
    given = _defaults(bound.monoid.finalise) | dict(bound.monoid.options)
    values = [float(v) for _, v in sorted(given.items()) if isinstance(v, (bool, int, float, np.number))]
    first, second, *_ = [*values, 0.0, 0.0]
    return first, second


@lru_cache(maxsize=256)
def _defaults(finalise: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(finalise).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
