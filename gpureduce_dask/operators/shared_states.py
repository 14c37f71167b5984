"""Statistics of one read: which there are by name, and whose states hold what others are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..dtypes import kind
from . import counts
from . import table as operators
from .moments import F4, centre
from .monoid import Bound, DType, Monoid

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

# Another statistic whose state holds a statistic's, and from which field on (None: from its beginning).
Holder = Callable[[str], tuple[str, str | None] | None]


def names() -> list[str]:
    """The statistics that can be asked for by name."""
    return [*(n for n, row in operators.OPERATORS.items() if row.arity == 1 and n not in UNNAMED), *COUNTS]


def row_of(name: str) -> Monoid | None:
    return COUNTS.get(name) or operators.OPERATORS.get(name)


def holds(holder: str, name: str, dtype: DType) -> bool:
    """True where the holder's state of such elements has all digits that the statistic's own has."""
    if name in ("sum", "nansum"):
        return not (kind(dtype) in "iu" and dtype.itemsize == 8)  # of these a mean adds up float64
    if holder in ("skew", "kurtosis") and name in ("var", "std"):
        return centre(dtype) == F4  # of others a variance keeps its mean as a pair
    return True


def share_states(bounds: Mapping[str, Bound], holder: Holder) -> tuple[list[Bound], list[tuple[int, int]]]:
    """The states of operators, by their names, that lie in no other's; and the number of the one that each operator's
    own lies in, with the bytes before it."""
    # The widest first: fewer gaps between states, and one kernel whatever the order they were asked for in.
    states = sorted(
        (b for name, b in bounds.items() if holder(name) is None), key=lambda b: (-b.state.alignment, b.name)
    )
    numbers = {state.name: number for number, state in enumerate(states)}

    def place(name: str) -> tuple[int, int]:
        found = holder(name)
        if found is None:
            return numbers[name], 0
        (number, offset), fields = place(found[0]), bounds[found[0]].state.fields
        return number, offset + (0 if found[1] is None else int(fields[found[1]][1]))  # type: ignore[index]

    return states, [place(name) for name in bounds]
