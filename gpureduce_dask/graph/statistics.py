"""Several statistics of one read: which states they need, and the tree of the product of these.

A state may hold what other statistics are made of as well, so the fewest are kept. The tree ends in the partial of
their product, out of which a task a statistic cuts its own: each result is an array of its own, and those that are
computed together read the chunks once.
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
from . import graph_arrays as da
from . import meta, reduce_tasks
from .apply import as_dask, bind
from .fallback import belongs_to_stock
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


def reduce_together(
    operation: str,
    x: Any,
    asked: Sequence[str | Monoid],
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    ddof: float = 0,
) -> list[Any]:
    """The statistics of an array-like, in the order asked."""
    return build_statistics(operation, x, asked, axis, keepdims, split_every, ddof)[1]


def build_statistics(
    operation: str,
    x: Any,
    asked: Sequence[str | Monoid],
    axis: Any,
    keepdims: bool,
    split_every: Any,
    ddof: float = 0,
    group: Any = None,
    dry_run: bool = False,
) -> tuple[Tree, list[Any]]:
    """The tree of several statistics, whose result is packed, and the array of each of them."""
    array = as_dask(operation, x)
    whole, statistics = plan_parts(operation, asked, array.dtype, ddof)
    if belongs_to_stock(operation, (array,), None):
        received = f"{type(array._meta).__name__} chunks of {array.dtype}"
        raise DtypeError(message(operation, received, "NumPy or CuPy chunks", "Convert the chunks first."))
    size = whole.state.itemsize
    if meta.promises_device(array._meta) and size > LARGEST_STATE:
        received = f"statistics whose states take {size} bytes together"
        raise ArgumentError(
            message(operation, received, f"at most {LARGEST_STATE} on a GPU", "Ask for some of them in a second call.")
        )
    tree = build_tree((array,), whole, axis, True, split_every, operation, group, dry_run)
    return tree, [cut_statistic(tree, statistic, keepdims) for statistic in statistics]


def cut_statistic(tree: Tree, statistic: Statistic, keepdims: bool) -> Any:
    """One statistic of a tree's packed result."""
    packed, bound = tree.array, statistic.bound
    inds = tuple(range(packed.ndim))
    kept = inds if keepdims else tuple(a for a in inds if a not in tree.axes)
    device = meta.promises_device(tree.x._meta)
    run = partial(
        reduce_tasks.cut,
        bound=bound,
        offset=statistic.offset,
        drop=None if keepdims else tree.axes,
        device=device,
    )
    return da.blockwise(
        run,
        kept,
        packed,
        inds,
        name=f"gr-{bound.name}-{tokenize(packed.name, statistic, keepdims)}",
        dtype=bound.result,
        meta=meta.like(tree.x._meta, len(kept), bound.result),
        align_arrays=False,
    )
