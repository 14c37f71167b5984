"""Several statistics of one read: which states they need, and the tree of the product of these.

A state may hold what other statistics are made of as well, so the fewest are kept. The tree ends in the partial of
their product, out of which a task a statistic cuts its own: each result is an array of its own, and those that are
computed together read the chunks once. Statistics of what a function gives, of elements that a mask chooses, and with
weights are the product of mapped monoids.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dask.base import tokenize

from ..device.operator import LARGEST_STATE
from ..dtypes import kind
from ..errors import ArgumentError, DtypeError, message
from ..operators import counts
from ..operators import table as operators
from ..operators.moments import F4, centre
from ..operators.monoid import Bound, DType, Monoid
from ..operators.product_monoid import Product, product
from . import meta, reduce_tasks
from .arguments import as_dask, bind, key_prefix
from .meta import belongs_to_stock, describe
from .reduce import Tree, build_tree

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


@dataclass(frozen=True)
class Statistic:
    """An operator, and where in the product's state its own begins, in bytes."""

    bound: Bound
    offset: int


# ---- which statistics


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


def field_names(operation: str, ops: Sequence[str | Monoid]) -> list[str]:
    """The names of what is asked for, which become those of a tuple's fields."""
    if isinstance(ops, (str, Monoid)) or not isinstance(ops, Sequence) or not ops:
        remedy = "Pass a list, as ['min', 'mean']."
        raise ArgumentError(message(operation, repr(ops), "a list of one or more operators", remedy))
    found = [each.name if isinstance(each, Monoid) else str(each) for each in ops]
    for name in found:
        if found.count(name) > 1:
            raise ArgumentError(message(operation, f"{name!r} twice", "each operator once", "Name it once."))
        if keyword.iskeyword(name) or name.startswith("_"):
            received = f"an operator called {name!r}"
            raise ArgumentError(message(operation, received, "a name that a field can have", "Rename it."))
    return found


def _row(name: str) -> Monoid | None:
    return COUNTS.get(name) or operators.OPERATORS.get(name)


def _rows(operation: str, ops: Sequence[str | Monoid]) -> dict[str, Monoid]:
    """The operators asked for by name."""
    rows = {}
    for each, name in zip(ops, field_names(operation, ops), strict=True):
        row = each if isinstance(each, Monoid) else _row(name)
        if row is None or row.arity != 1 or (row is not each and name in UNNAMED):
            expected = f"a Monoid of one array, or one of {', '.join(names())}"
            received = f"no statistic {name!r} of one array"
            raise ArgumentError(message(operation, received, expected, "Correct the name."))
        rows[row.name] = row
    return rows


# ---- their states


def bind_all(operation: str, ops: Sequence[str | Monoid], dtype: DType, ddof: float) -> tuple[dict[str, Bound], Holder]:
    """The operators of elements of this dtype by name, and whose states hold others'."""
    rows = _rows(operation, ops)

    def holder(name: str) -> tuple[str, str | None] | None:
        if rows[name] is not _row(name):  # a user's own, of a name of the table
            return None
        is_there = (each for each in HOLDERS.get(name, ()) if rows.get(each[0]) is _row(each[0]))
        return next((each for each in is_there if _holds(each[0], name, dtype)), None)

    def options(name: str) -> dict[str, Any]:
        return {"ddof": ddof} if name in SPREADS else {}

    return {name: bind(row, (dtype,), None, options(name), name) for name, row in rows.items()}, holder


def _holds(holder: str, name: str, dtype: DType) -> bool:
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


def plan_parts(
    operation: str, ops: Sequence[str | Monoid], dtype: DType, ddof: float
) -> tuple[Product, list[Statistic]]:
    """The product that the statistics of elements of this dtype need, and each of them in it.

    Raises as the single functions do for elements that an operator has no meaning for.
    """
    bounds, holder = bind_all(operation, ops, dtype, ddof)
    states, places = share_states(bounds, holder)
    whole = product(operation, tuple(states))
    pairs = zip(bounds.values(), places, strict=True)
    return whole, [Statistic(b, whole.offsets[number] + offset) for b, (number, offset) in pairs]


# ---- of an array


def build_statistics(
    operation: str,
    x: Any,
    ops: Sequence[str | Monoid],
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    ddof: float = 0,
    group: Any = None,
    dry_run: bool = False,
) -> tuple[Tree, list[Any]]:
    """The tree of several statistics of an array-like, whose result is packed, and the array of each of them."""
    array = as_dask(operation, x)
    whole, statistics = plan_parts(operation, ops, array.dtype, ddof)
    if belongs_to_stock(operation, (array,), None):
        remedy = "Convert the chunks first."
        raise DtypeError(message(operation, describe([array]), "NumPy or CuPy chunks", remedy))
    size = whole.state.itemsize
    if meta.promises_device(array._meta) and size > LARGEST_STATE:
        received = f"statistics whose states take {size} bytes together"
        remedy = "Ask for some of them in a second call."
        raise ArgumentError(message(operation, received, f"at most {LARGEST_STATE} on a GPU", remedy))
    tree = build_tree((array,), whole, axis, True, split_every, operation, group, dry_run)
    return tree, [cut_statistic(tree, statistic, keepdims) for statistic in statistics]


def cut_statistic(tree: Tree, statistic: Statistic, keepdims: bool) -> Any:
    """One statistic of a tree's packed result."""
    packed, bound = tree.array, statistic.bound
    inds = tuple(range(packed.ndim))
    kept = inds if keepdims else tuple(a for a in inds if a not in tree.axes)
    drop, device = None if keepdims else tree.axes, meta.promises_device(tree.x._meta)
    run = partial(reduce_tasks.cut, bound=bound, offset=statistic.offset, drop=drop, device=device)
    name = f"{key_prefix(bound.name)}-{tokenize(packed.name, statistic, keepdims)}"
    return meta.blockwise(run, kept, packed, inds, template=tree.x._meta, dtype=bound.result, name=name)
