"""Which states a set of statistics needs: the fewest, since a state holds what others are made of as well.

A statistic is what its own operator makes of its own state; that state is a part of the product, or lies within one. So
its value is that of the single function, from the same fields.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import operators
from ..dtypes import kind
from ..errors import ArgumentError, DtypeError, message
from ..monoid import Bound, DType, Monoid
from ..rows import counts
from ..rows.moments import F4, centre
from ..rows.product import Product, product
from .apply import bind

COUNTS = {row.name: row for row in counts.ROWS}
SPREADS = frozenset({"var", "std", "nanvar", "nanstd"})  # those that ``ddof`` is for
UNNAMED = frozenset({"moments", "moment"})  # these want an order as well

# Whose states hold the state of each, and from which field on; the first that is there serves.
HOLDERS = {
    "min": (("argmin", "value"), ("ptp", "low")),
    "max": (("argmax", "value"), ("ptp", "high")),
    "sum": (("mean", None),),
    "nansum": (("nanmean", None),),
    "count": (("mean", "count"),),
    "nancount": (("nanmean", "count"),),
    "var": (("skew", "count"), ("kurtosis", "count")),
    "std": (("var", "count"), ("skew", "count"), ("kurtosis", "count")),
    "nanstd": (("nanvar", "count"),),
    "kurtosis": (("skew", "count"),),
}


@dataclass(frozen=True)
class Statistic:
    """An operator, and where in the product's state its own begins, in bytes."""

    bound: Bound
    offset: int


@dataclass(frozen=True)
class Part:
    """Statistics of one function: the product of the states that they need, each of them in it, and the numbers of the
    outputs that each state is of, by its name."""

    whole: Product
    statistics: list[Statistic]
    outputs: Mapping[str, tuple[int, ...]]


# Another statistic whose state holds a statistic's, and from which field on (None: from its beginning).
Holder = Callable[[str], tuple[str, str | None] | None]


def names() -> list[str]:
    """The statistics that can be asked for by name."""
    return [*(n for n, row in operators.OPERATORS.items() if row.arity == 1 and n not in UNNAMED), *COUNTS]


def has_meaning(name: str, dtype: DType) -> bool:
    """True where a statistic takes such elements."""
    try:
        bind(_rows("stats", [name])[name], (dtype,), None, {}, name)
    except DtypeError:
        return False
    return True


def plan_parts(
    operation: str, asked: Sequence[str | Monoid], dtype: DType, ddof: float
) -> tuple[Product, list[Statistic]]:
    """The product that the statistics of elements of this dtype need, and each of them in it.

    Raises as the single functions do for elements that an operator has no meaning for.
    """
    rows = _rows(operation, asked)
    bounds = {
        name: bind(row, (dtype,), None, {"ddof": ddof} if name in SPREADS else {}, name) for name, row in rows.items()
    }
    return arrange(operation, bounds, lambda name: _holder(name, rows, dtype))


def arrange(operation: str, bounds: Mapping[str, Bound], holder: Holder) -> tuple[Product, list[Statistic]]:
    """The product of those states that lie in no other's, and each statistic in it. ``bounds`` are by their names."""
    # The widest first: fewer gaps between states, and one kernel whatever the order they were asked for in.
    parts = [b for name, b in bounds.items() if holder(name) is None]
    parts.sort(key=lambda b: (-b.state.alignment, b.name))
    whole = product(operation, tuple(parts))
    begins = dict(zip((part.name for part in parts), whole.offsets, strict=True))

    def offset(name: str) -> int:
        found = holder(name)
        if found is None:
            return begins[name]
        fields: Any = bounds[found[0]].state.fields
        return offset(found[0]) + (0 if found[1] is None else int(fields[found[1]][1]))

    return whole, [Statistic(b, offset(name)) for name, b in bounds.items()]


def _holder(name: str, rows: dict[str, Monoid], dtype: DType) -> tuple[str, str | None] | None:
    """Another statistic whose state holds this one's, and from which field on."""
    if name not in rows or rows[name] is not _row(name):  # a user's own, of a name of the table
        return None
    for holder, field in HOLDERS.get(name, ()):
        if rows.get(holder) is _row(holder) and _holds(holder, name, dtype):
            return holder, field
    return None


def _holds(holder: str, name: str, dtype: DType) -> bool:
    """True where the holder's state of such elements has all digits that the statistic's own has."""
    if name in ("sum", "nansum"):
        return not (kind(dtype) in "iu" and dtype.itemsize == 8)  # of these a mean adds up float64
    if holder in ("skew", "kurtosis") and name in ("var", "std"):
        return centre(dtype) == F4  # of others a variance keeps its mean as a pair
    return True


def _row(name: str) -> Monoid | None:
    return COUNTS.get(name) or operators.OPERATORS.get(name)


def _rows(operation: str, asked: Sequence[str | Monoid]) -> dict[str, Monoid]:
    """The operators asked for by name."""
    called = field_names(operation, asked)
    rows = [each if isinstance(each, Monoid) else _row(name) for each, name in zip(asked, called, strict=True)]
    for each, name, row in zip(asked, called, rows, strict=True):
        if row is None or row.arity != 1 or (row is not each and name in UNNAMED):
            expected = f"a Monoid of one array, or one of {', '.join(names())}"
            raise ArgumentError(
                message(operation, f"no statistic {name!r} of one array", expected, "Correct the name.")
            )
    return {row.name: row for row in rows if row is not None}


def field_names(operation: str, asked: Sequence[str | Monoid]) -> list[str]:
    """The names of what is asked for, which become those of a tuple's fields."""
    if isinstance(asked, (str, Monoid)) or not isinstance(asked, Sequence) or not asked:
        raise ArgumentError(
            message(operation, repr(asked), "a list of one or more operators", "Pass a list, as ['min', 'mean'].")
        )
    found = [each.name if isinstance(each, Monoid) else str(each) for each in asked]
    for name in found:
        if found.count(name) > 1:
            raise ArgumentError(message(operation, f"{name!r} twice", "each operator once", "Name it once."))
        if keyword.iskeyword(name) or name.startswith("_"):
            raise ArgumentError(
                message(operation, f"an operator called {name!r}", "a name that a field can have", "Rename it.")
            )
    return found
