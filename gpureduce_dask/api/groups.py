"""Public reductions of groups of elements: :func:`grouped`, :func:`bincount` and :func:`histogram`."""

from __future__ import annotations

from typing import Any

from ..graph import groups, histograms
from ..operators.monoid import Monoid
from ..public import grouped as grouped_labels
from ..public import public


@public(grouped_labels)
def grouped(
    x: Any,
    labels: Any,
    op: str | Monoid = "sum",
    axis: Any = None,
    num_groups: Any = None,
    dtype: Any = None,
    fill_value: Any = None,
    split_every: Any = None,
    *,
    dim: Any = None,
    **options: Any,
) -> Any:
    """Reduce the elements of each group, from one read of ``x``.

    Parameters
    ----------
    x : array
        Or a tuple of two, for an operator of two arrays such as ``"average"`` (values, weights).
    labels : array of integers, or tuple of arrays
        The group of each element, from 0 on, broadcast to the reduced axes. Elements with negative labels are left out.
        A tuple has a one-dimensional array for each reduced axis, and groups are all combinations, in C order.
    op : str or Monoid
        An operator of the table, or one of your own. One that does not commute meets a group's elements in C order.
    axis : None, int or tuple of int
        The axes to reduce; None is all of them.
    num_groups : int, or tuple of int for a tuple of labels
        By default one more than the largest label. Labels that are a dask array need it.
    dtype : dtype
        The result's, where the operator lets you choose.
    fill_value : scalar
        The result of groups without elements for operators that have none (``min``, ``argmax``, ...). By default such
        a group raises EmptyError. Others give what they give for no elements: 0, or NaN with ``mean``.
    split_every : int or dict
        As for the other reductions.
    **options
        The operator's, as ``ddof``.

    Returns
    -------
    dask array
        The kept axes, then one of ``num_groups``. Positions (``argmax``) count in C order over the reduced axes of all
        of ``x``, as :func:`gpureduce_dask.argmax` counts them.

    Raises
    ------
    ArgumentError
        A label of ``num_groups`` or more: now where labels are NumPy arrays, else when they are computed.
    """
    return groups.grouped("grouped", op, x, labels, axis, num_groups, dtype, fill_value, split_every, **options)


@public()
def bincount(x: Any, weights: Any = None, minlength: int = 0, split_every: Any = None) -> Any:
    """How often each integer of a one-dimensional array occurs (int64), or the sum of its weights (float64).

    A dask array needs ``minlength``, which is the length of the result: a greater element raises ArgumentError when it
    is met. Without it, when the length is known only by data, :func:`dask.array.bincount` answers. Negative elements
    raise ArgumentError.
    """
    return histograms.bincount(x, weights, minlength, split_every)


@public()
def histogram(
    a: Any, bins: Any = None, range: Any = None, normed: bool = False, weights: Any = None, density: bool | None = None
) -> Any:
    """Counts of elements by bins, as :func:`dask.array.histogram`: ``(counts, edges)``, by NumPy's rules.

    ``bins`` is a number, with ``range=(low, high)``, or increasing edges. The last bin holds its right edge too; NaN
    and what lies outside are not counted. Counts are int64, or sums of ``weights`` in their dtype; with ``density``
    they are divided by their total and the bins' widths. Where the bins or the range are known when they are computed,
    it is dask's own.
    """
    return histograms.histogram(a, bins, range, normed, weights, density)
