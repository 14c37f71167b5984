"""Several statistics of one read: which states they need, and the tree of the product of these.

A state may hold what other statistics are made of as well, so the fewest are kept. The tree ends in the partial of
their product, out of which a task a statistic cuts its own: each result is an array of its own, and those that are
computed together read the chunks once. Statistics of what a function gives, of elements that a mask chooses, and with
weights are the product of mapped monoids.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dask.base import tokenize

from ..device.operator import LARGEST_STATE
from ..errors import ArgumentError, DtypeError, message
from ..operators.monoid import Bound, DType, Monoid
from ..operators.product_monoid import Product, product
from ..operators.shared_states import HOLDERS, SPREADS, UNNAMED, Holder, holds, names, row_of, share_states
from . import meta, reduce_tasks
from .arguments import as_dask, bind, key_prefix
from .meta import belongs_to_stock, describe
from .reduce import Tree, build_tree


@dataclass(frozen=True)
class Statistic:
    """An operator, and where in the product's state its own begins, in bytes."""

    bound: Bound
    offset: int


# ---- which statistics


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


def _rows(operation: str, ops: Sequence[str | Monoid]) -> dict[str, Monoid]:
    """The operators asked for by name."""
    rows = {}
    for each, name in zip(ops, field_names(operation, ops), strict=True):
        row = each if isinstance(each, Monoid) else row_of(name)
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
        if rows[name] is not row_of(name):  # a user's own, of a name of the table
            return None
        is_there = (each for each in HOLDERS.get(name, ()) if rows.get(each[0]) is row_of(each[0]))
        return next((each for each in is_there if holds(each[0], name, dtype)), None)

    options = {name: {"ddof": ddof} if name in SPREADS else {} for name in rows}
    return {name: bind(row, (dtype,), None, options[name], name) for name, row in rows.items()}, holder


def plan_parts(
    operation: str, ops: Sequence[str | Monoid], dtype: DType, ddof: float
) -> tuple[Product, list[Statistic]]:
    """The product that the statistics of elements of this dtype need, and each of them in it. Raises as the single
    functions do for elements that an operator has no meaning for."""
    whole, (found,) = join(operation, [(*bind_all(operation, ops, dtype, ddof), lambda state, _: state)])
    return whole, found


# What several statistics are of: operators by name, whose states hold others', and the part of the product that a state
# is, by its number there.
Request = tuple[Mapping[str, Bound], Holder, Callable[[Bound, int], Bound]]


def join(name: str, requests: Iterable[Request]) -> tuple[Product, list[list[Statistic]]]:
    """The product of all states, and where in it each statistic of each request is."""
    parts: list[Bound] = []
    found: list[list[tuple[Bound, int, int]]] = []
    for bounds, holder, part in requests:
        states, places = share_states(bounds, holder)
        found.append([(b, len(parts) + at, offset) for b, (at, offset) in zip(bounds.values(), places, strict=True)])
        parts += [part(state, number) for number, state in enumerate(states, len(parts))]
    whole = product(name, tuple(parts))
    return whole, [[Statistic(b, whole.offsets[at] + offset) for b, at, offset in each] for each in found]


# ---- of an array


def build_statistics(
    operation: str, x: Any, ops: Sequence[str | Monoid], keepdims: bool = False, ddof: float = 0, **options: Any
) -> tuple[Tree, list[Any]]:
    """The tree of several statistics of an array-like, whose result is packed, and the array of each of them. The
    ``options`` are those of :func:`build_tree`, such as axes."""
    array = as_dask(operation, x)
    whole, statistics = plan_parts(operation, ops, array.dtype, ddof)
    if belongs_to_stock(operation, (array,), None):
        raise DtypeError(message(operation, describe([array]), "NumPy or CuPy chunks", "Convert the chunks first."))
    size = whole.state.itemsize
    if meta.promises_device(array._meta) and size > LARGEST_STATE:
        received = f"statistics whose states take {size} bytes together"
        remedy = "Ask for some of them in a second call."
        raise ArgumentError(message(operation, received, f"at most {LARGEST_STATE} on a GPU", remedy))
    tree = build_tree((array,), whole, keepdims=True, name_prefix=operation, **options)
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
