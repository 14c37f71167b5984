"""Several statistics of an array from one read of it: ``stats`` and ``describe``."""

from __future__ import annotations

import html
from collections import namedtuple
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, overload

from ..expressions.elements import same
from ..graph.map_reduce import reduce_together
from ..graph.statistics import build_statistics
from ..operators.monoid import Monoid
from ..parameters import Array, ArrayLike, Axis, Dims, SplitEvery
from ..public import is_labelled, of_variable, public, reduced, xarray

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

TABLE = {"count": "nancount", "mean": "nanmean", "std": "nanstd", "min": "nanmin", "max": "nanmax"}


class Statistics(tuple[Any, ...]):
    """A named tuple of lazy arrays: a field for each operator that was asked for, in that order.

    :func:`stats`, :func:`scan`, :func:`map_reduce` and :func:`map_scan` return one for a list of operators. Each field
    may be computed by itself; ``dask.compute(found)`` computes all of them in one read. ``found["mean"]`` is
    ``found.mean``.

    The annotations are the fields that operators of the table can give, for editors and type checkers. An object has
    those that were asked for, among them any :class:`Monoid` by its name.
    """

    __slots__ = ()

    all: Array
    any: Array
    argmax: Array
    argmin: Array
    count: Array  # in place of a tuple's method
    count_nonzero: Array
    first: Array
    kurtosis: Array
    last: Array
    max: Array
    mean: Array
    min: Array
    nanargmax: Array
    nanargmin: Array
    nancount: Array
    nanmax: Array
    nanmean: Array
    nanmin: Array
    nanprod: Array
    nanstd: Array
    nansum: Array
    nanvar: Array
    norm1: Array
    norm2: Array
    norminf: Array
    prod: Array
    ptp: Array
    skew: Array
    std: Array
    sum: Array
    sumsq: Array
    var: Array

    def __getitem__(self, place: Any) -> Any:
        """A field by its name, as a Dataset has it, or by its number."""
        if not isinstance(place, str):
            return super().__getitem__(place)
        if place not in self._fields:
            raise KeyError(place)
        return super().__getitem__(self._fields.index(place))

    if TYPE_CHECKING:
        _fields: tuple[str, ...]

        def _asdict(self) -> dict[str, Array]: ...

        def __getattr__(self, name: str) -> Array:
            """The field of a monoid of one's own."""


@overload
def stats(
    x: DataArray,
    names: Sequence[str | Monoid],
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    ddof: float = 0,
    *,
    dim: Dims = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Dataset: ...
@overload
def stats(
    x: ArrayLike,
    names: Sequence[str | Monoid],
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    ddof: float = 0,
    *,
    dim: Dims = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Statistics: ...
@public(reduced)
def stats(
    x: ArrayLike,
    names: Sequence[str | Monoid],
    axis: Axis = None,
    keepdims: bool = False,
    split_every: SplitEvery = None,
    ddof: float = 0,
    *,
    dim: Dims = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Statistics | Dataset:
    """Several statistics of an array from one read of it.

    Parameters
    ----------
    x : array_like, xarray.DataArray or xarray.Dataset
        A dask array, or what ``dask.array.asanyarray`` turns into one, as one chunk. It has any number of dimensions
        and a dtype that each of the statistics takes.
    names : sequence of str or Monoid
        Which statistics: names in ``gpureduce_dask.OPERATORS`` of operators of one array; ``"count"``, the number of
        elements, and ``"nancount"``, the number of those that are not NaN; and any :class:`Monoid` of one array.
    ddof : float, default 0
        Delta degrees of freedom of ``"var"``, ``"std"``, ``"nanvar"`` and ``"nanstd"``: their divisor is the number of
        elements less this.
    where : array_like of bool, optional
        Which elements count, for all statistics. It broadcasts with the array. By default all do. Where none counts, a
        result is the one of an empty array: the dtype's greatest or least number for ``"min"`` and ``"max"``, and an
        EmptyError for positions and ``"ptp"``.
    weights : array_like, optional
        The weight of each element, for all statistics: real numbers that broadcast with the array. Sums and norms
        multiply by it; means, variances, skewness and kurtosis count an element as often as its weight says.

    Returns
    -------
    Statistics or xarray.Dataset
        A named tuple of dask arrays, with a field for each of `names`, in that order. Of a DataArray a Dataset with a
        variable for each, and with the coordinates and attributes that the DataArray's own reductions keep. Of a
        Dataset a named tuple of Datasets. ``found["mean"]`` is the mean of each of these.

    Raises
    ------
    ArgumentError
        A name is unknown or comes twice, or a statistic has no meaning for `weights`, as ``"min"``. Or another argument
        has a value that a statistic cannot take.
    DtypeError
        A statistic does not take the dtype. Masked, sparse, object and string arrays are not taken at all.
    EmptyError
        There are no elements, and a statistic has no answer for none.
    AxisError
        An axis does not exist, or is named twice.

    See Also
    --------
    describe : The usual statistics of all elements, as a table.
    map_reduce : Several statistics of a function of several arrays.

    Notes
    -----
    A result has the dtype, the method, the accuracy and the errors of the function of its name, also of ``"skew"`` and
    ``"kurtosis"``, which here reduce all axes by default. Any monoids have a product, a monoid whose state is that of
    all of them, and it is this one that the array is reduced by. Statistics share states where one holds another's:
    ``"mean"``, ``"sum"`` and ``"count"``; ``"var"`` and ``"std"``; ``"max"`` and ``"argmax"``.

    On a GPU the states of all statistics together have to fit into 192 bytes, which some ten of float64 do.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.asarray([[3.0, 1.0], [2.0, 8.0]])
    >>> found = gr.stats(x, ["min", "argmin", "mean"], axis=1)
    >>> found.mean.compute()
    array([2., 5.])
    >>> dask.compute(found)[0].argmin
    array([1, 0])
    """
    places: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    if where is None and weights is None:
        return named(names, build_statistics("stats", x, names, ddof=ddof, **places)[1])
    (found,) = reduce_together("stats", same, names, (x,), where, weights, options={"ddof": ddof}, **places)
    return named(names, found)


@overload
def describe(x: Dataset, ddof: float = 1) -> Descriptions: ...
@overload
def describe(x: ArrayLike, ddof: float = 1) -> Description: ...
@public(keeps=True)
def describe(x: ArrayLike, ddof: float = 1) -> Description | Descriptions:
    """Compute the usual statistics of all elements, as a table.

    Parameters
    ----------
    x : array_like, xarray.DataArray or xarray.Dataset
        A dask array, or what ``dask.array.asanyarray`` turns into one, of any number of dimensions; bool, integers,
        floats, complex numbers or times.
    ddof : float, default 1
        Delta degrees of freedom of the standard deviation. The default is that of the tables of this name of pandas and
        SciPy; that of :func:`std` and :func:`stats` is NumPy's 0.

    Returns
    -------
    Description or Descriptions
        A table of ``count``, ``mean``, ``std``, ``min`` and ``max`` of the elements that are not NaN, and ``nan``, the
        number of those that are. What the dtype has no meaning for is left out, as the mean of dates. It prints as a
        table, in notebooks too, and ``found["mean"]`` is a single entry. Of a Dataset a table with a line for each
        variable, whose entries are ``found["variable"]["mean"]``.

    Raises
    ------
    EmptyError
        There are no elements.
    DtypeError
        Masked, sparse, object and string arrays are not taken.
    ArgumentTypeError
        `x` is nothing that an array can be made of.

    See Also
    --------
    stats : Any statistics, lazily and along axes.

    Notes
    -----
    All statistics are computed at once, from one read, by the methods of :func:`nanmean` and :func:`nanstd`. There are
    no percentiles: they are not a reduction, since a state that knows them is as large as the data.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> gr.describe(da.asarray([1.0, 2.0, np.nan, 3.0]))
    float64 of shape (4,), std with ddof=1
    count     3
    mean    2.0
    std     1.0
    min     1.0
    max     3.0
    nan       1
    """
    if xarray("Dataset") is None or not isinstance(x, xarray("Dataset")):
        return _compute_requests({None: _request(x, ddof)}, ddof)[None]
    requests = {}
    for name, each in x.data_vars.items():
        with of_variable(name):
            requests[name] = _request(each, ddof)
    return Descriptions(_compute_requests(requests, ddof))


@dataclass(frozen=True)
class Description:
    """The statistics that :func:`describe` found; printed as a table, in notebooks too.

    Attributes
    ----------
    values : dict of str to scalar
        The statistics by their names. Those that the dtype has no meaning for are left out.
    shape : tuple of int
        The shape of the array.
    dtype : numpy.dtype
        The dtype of the array.
    ddof : float
        Delta degrees of freedom of the standard deviation.

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> found = gr.describe([1, 2, 3])
    >>> found["count"], float(found["mean"]), found.shape
    (3, 2.0, (3,))
    """

    values: dict[str, Any]
    shape: tuple[int, ...]
    dtype: Any
    ddof: float = 1

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def _title(self) -> str:
        about = f", std with ddof={self.ddof}" if "std" in self.values else ""
        return f"{self.dtype} of shape {self.shape}{about}"

    def __repr__(self) -> str:
        rows = _rows(self)
        width = max(len(text) for _, text in rows)
        return "\n".join([self._title(), *(f"{name:<6}{text:>{width + 2}}" for name, text in rows)])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align: left'>{name}</th><td>{html.escape(text)}</td></tr>"
            for name, text in _rows(self)
        )
        return f"<table><caption>{html.escape(self._title())}</caption>{cells}</table>"


def _rows(found: Description) -> list[tuple[str, str]]:
    """The statistics by their names, as text."""
    return [(name, f"{value:,}" if name in ("count", "nan") else str(value)) for name, value in found.values.items()]


class Descriptions(dict[Hashable, Description]):
    """What :func:`describe` found of each variable of a Dataset, by its name; printed as one table, in notebooks too.

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> import xarray as xr
    >>> gr.describe(xr.Dataset({"warm": ("time", [1.0, 2.0, 3.0]), "wet": ("time", [0, 2, 4])}))
    2 variables, std with ddof=1
          count  mean  std  min  max  nan
    warm      3   2.0  1.0  1.0  3.0    0
    wet       3   2.0  2.0    0    4    0
    """

    def _title(self) -> str:
        ddof = {f", std with ddof={each.ddof}" for each in self.values()}
        return f"{len(self)} variable{'s' * (len(self) != 1)}{''.join(ddof)}"

    def _lines(self) -> list[list[str]]:
        """Cells of a line for each variable, below a line of headings."""
        heads = [*TABLE, "nan"]
        cells = [[str(name), *(dict(_rows(each)).get(head, "") for head in heads)] for name, each in self.items()]
        return [["", *heads], *cells]

    def __repr__(self) -> str:
        lines = self._lines()
        first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
        rows = (
            "  ".join([line[0].ljust(first), *(c.rjust(n) for c, n in zip(line[1:], widths, strict=True))])
            for line in lines
        )
        return "\n".join([self._title(), *rows])

    def _repr_html_(self) -> str:
        heads, *lines = self._lines()
        head = "".join(f"<th>{text}</th>" for text in heads)
        body = "".join(
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            + "".join(f"<td>{html.escape(text)}</td>" for text in cells)
            + "</tr>"
            for name, *cells in lines
        )
        return f"<table><caption>{html.escape(self._title())}</caption><tr>{head}</tr>{body}</table>"


def named(names: Sequence[str | Monoid], results: Sequence[Any]) -> Statistics:
    """Results as a named tuple."""
    found: Statistics = _tuple_of(tuple(n.name if isinstance(n, Monoid) else n for n in names))(*results)
    return found


@cache
def _tuple_of(fields: tuple[str, ...]) -> Any:
    """A type of named tuples. They pickle as their names and values, since the type itself is in no module."""
    plain: Any = namedtuple("Statistics", list(fields))  # type: ignore[misc]  # its fields are known at a call alone
    members = {"__slots__": (), "__reduce__": _reduced, "__module__": __name__, "__doc__": Statistics.__doc__}
    return type("Statistics", (Statistics, plain), members)


def _reduced(self: Any) -> tuple[Any, ...]:
    return named, (self._fields, tuple(self))


def _request(x: Any, ddof: float) -> tuple[Any, list[str], Statistics]:
    """An array, the statistics that have a meaning for it, and these and the number of elements, lazily."""
    from ..graph.arguments import as_dask
    from ..graph.array_expressions import package_of
    from ..graph.statistics import has_meaning

    data: Any = list(x) if type(x) is tuple else x.data if is_labelled(x) else x
    array = data if package_of(data) else as_dask("describe", data)
    names = [name for name in TABLE.values() if has_meaning(name, array.dtype)]
    return array, names, stats(array, [*names, "count"], ddof=ddof)


def _compute_requests(requests: Mapping[Any, tuple[Any, list[str], Statistics]], ddof: float) -> dict[Any, Description]:
    """What :func:`_request` asks for, computed together."""
    from dask.base import compute

    from ..chunk import move

    answers: Any = compute([lazy for _, _, lazy in requests.values()])[0]
    tables = {}
    for (key, (array, names, _)), found in zip(requests.items(), answers, strict=True):
        values = {label: move(getattr(found, name), False) for label, name in TABLE.items() if name in names}
        total = int(move(found.count, False))
        values = {**values, "count": int(values["count"]), "nan": total - int(values["count"])}
        values = {k: v[()] if hasattr(v, "ndim") else v for k, v in values.items()}
        tables[key] = Description(values, array.shape, array.dtype, ddof)
    return tables
