"""Several statistics of an array from one read of it: ``stats`` and ``describe``."""

from __future__ import annotations

import html
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..graph.operands import same
from ..graph.statistics import build_statistics, reduce_together
from ..operators.monoid import Monoid
from ..public import public, reduced

TABLE = {"count": "nancount", "mean": "nanmean", "std": "nanstd", "min": "nanmin", "max": "nanmax"}


@public(reduced)
def stats(
    x: Any,
    names: Sequence[str | Monoid],
    axis: Any = None,
    keepdims: bool = False,
    split_every: Any = None,
    ddof: float = 0,
    *,
    dim: Any = None,
    where: Any = None,
    weights: Any = None,
) -> Any:
    """Several statistics of ``x`` from one read: ``stats(x, ["min", "max", "argmax", "mean", "std"], axis=0)``.

    Parameters
    ----------
    x : array_like, or xarray.DataArray
        A dask array, or anything that makes one (then it is one chunk). For a DataArray ``axis`` may be left out for
        ``dim``, one name or several.
    names : sequence of str or Monoid
        Which statistics: operators of the table that take one array (``OPERATORS``), by name; ``"count"``, how many
        elements there are, and ``"nancount"``, how many are not NaN; and any :class:`~gpureduce_dask.Monoid` of one
        array. ``ddof`` is for ``var``, ``std`` and their nan-forms.
    where : array_like of bool, optional
        Which elements count, for all statistics; it broadcasts with ``x``. Positions and ``ptp`` of none are an error.
    weights : array_like, optional
        How often each element counts, for all statistics; it broadcasts with ``x``. Those that have no meaning for
        weights, as ``min``, are refused: ask for them in a call of their own.
    axis, keepdims, split_every
        As in :func:`gpureduce_dask.sum`, for all statistics: None reduces all axes, for ``skew`` and ``kurtosis`` as
        well, whose own functions have SciPy's default, ``axis=0``. Positions count in C order over the reduced axes.

    Returns
    -------
    named tuple of dask arrays, or xarray.Dataset
        A field a statistic, in the order asked; of a DataArray a Dataset of variables with those names, with the
        coordinates and attributes that the DataArray's own reductions keep.

    Each result is what the function of that name gives, in dtype, accuracy and errors; the product of their monoids is
    one monoid, and statistics of the same state share it: ``mean``, ``sum`` and ``count``; ``var`` and ``std``; ``max``
    and ``argmax``. Each array may be computed by itself. Those that are computed together, ``dask.compute(result)``,
    read every chunk once.

    Raises ArgumentError for a name that is unknown or comes twice, and what the single functions raise: DtypeError for
    elements that one of the statistics has no meaning for, EmptyError for an empty slice where one has no answer.
    Masked, sparse, object and string arrays are refused, as are on GPUs more statistics than a thread keeps states of
    (192 bytes: some ten of float64).
    """
    if where is None and weights is None:
        return named(names, build_statistics("stats", x, names, axis, keepdims, split_every, ddof)[1])
    places = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    options = {"ddof": ddof}
    (found,) = reduce_together("stats", same, names, (x,), where=where, weights=weights, options=options, **places)
    return named(names, found)


@public()
def describe(x: Any, ddof: float = 1) -> Description:
    """The usual table of all elements of ``x``: count, mean, std, min and max without NaN, and how many are NaN.

    Computes at once, in one read. ``ddof`` is that of ``std``: 1 as in the tables of that name of pandas and SciPy,
    where :func:`gpureduce_dask.std` and :func:`stats` have NumPy's 0; the table says which. What the dtype has no
    meaning for is left out, as the mean of datetimes. There are no percentiles: they are not a reduction, since a state
    that knows them is as large as the data. Raises EmptyError for no elements, and as :func:`stats` does.
    """
    return Description(*_described(x, ddof))


@dataclass(frozen=True)
class Description:
    """What :func:`describe` found: prints as a table, in notebooks too."""

    values: dict[str, Any]
    shape: tuple[int, ...]
    dtype: Any
    ddof: float = 1

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, f"{value:,}" if name in ("count", "nan") else str(value)) for name, value in self.values.items()]

    def _title(self) -> str:
        about = f", std with ddof={self.ddof}" if "std" in self.values else ""
        return f"{self.dtype} of shape {self.shape}{about}"

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(text) for _, text in rows)
        return "\n".join([self._title(), *(f"{name:<6}{text:>{width + 2}}" for name, text in rows)])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align: left'>{name}</th><td>{html.escape(text)}</td></tr>"
            for name, text in self._rows()
        )
        return f"<table><caption>{html.escape(self._title())}</caption>{cells}</table>"


def named(names: Sequence[str | Monoid], results: Sequence[Any]) -> Any:
    """Results as a named tuple."""
    return _tuple_of(tuple(n.name if isinstance(n, Monoid) else n for n in names))(*results)


@cache
def _tuple_of(fields: tuple[str, ...]) -> Any:
    """A type of named tuples, which pickle as the names and what they hold."""
    plain: Any = namedtuple("Statistics", list(fields))  # type: ignore[misc]  # its fields are known at a call alone
    return type("Statistics", (plain,), {"__slots__": (), "__reduce__": _reduced, "__module__": __name__})


def _reduced(self: Any) -> tuple[Any, ...]:
    return named, (self._fields, tuple(self))


def _described(data: Any, ddof: float) -> tuple[dict[str, Any], tuple[int, ...], Any, float]:
    """What a :class:`Description` holds."""
    from dask.base import compute

    from ..chunk import move
    from ..graph.apply import as_dask
    from ..graph.statistics import has_meaning

    array = as_dask("describe", data)
    names = [name for name in TABLE.values() if has_meaning(name, array.dtype)]
    found = compute(stats(array, [*names, "count"], ddof=ddof))[0]
    values = {label: move(getattr(found, name), False) for label, name in TABLE.items() if name in names}
    total = int(move(found.count, False))
    values = {**values, "count": int(values["count"]), "nan": total - int(values["count"])}
    return {k: v[()] if hasattr(v, "ndim") else v for k, v in values.items()}, array.shape, array.dtype, ddof
