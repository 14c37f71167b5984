"""The functions of this package as methods of xarray's arrays: ``import gpureduce_dask.xarray``.

The import registers the accessor ``gr`` of ``xarray.DataArray`` and ``xarray.Dataset``; without it nothing is
registered. A method is the function of its name, its array left out: ``x.gr.grouped(labels, "max", "time")`` is
``gpureduce_dask.grouped(x, labels, "max", dim="time")``. ``dim`` stands in the place of ``axis``, as in xarray's own
methods.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gpureduce_dask as gr

from .errors import ExtraError, message
from .public import bind

try:
    from xarray import register_dataarray_accessor, register_dataset_accessor
except ModuleNotFoundError as error:
    received = f"gpureduce_dask.xarray: {error}"
    raise ExtraError(message("import", received, "xarray", "Install it: pip install xarray.")) from error

if TYPE_CHECKING:
    from .xarray_methods import Methods
else:
    Methods = object


class Accessor(Methods):
    """The functions of ``gpureduce_dask`` that take an array, as methods of a DataArray or a Dataset.

    Parameters
    ----------
    array : xarray.DataArray or xarray.Dataset
        What the methods reduce or scan.

    Examples
    --------
    >>> import gpureduce_dask.xarray
    >>> import xarray as xr
    >>> x = xr.DataArray([[3.0, 1.0], [2.0, 8.0]], dims=("time", "place"))
    >>> x.gr.max("time").values
    array([3., 8.])
    >>> list(x.gr.stats(["min", "mean"], dim="time"))
    ['min', 'mean']
    """

    def __init__(self, array: Any) -> None:
        self._array = array


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as a method, which passes the accessor's array: the first one, of functions of several arrays."""
    signature = inspect.signature(function)
    parameters = dict(signature.parameters)
    parameters.pop("a", parameters.pop("x", None))
    if "axis" in parameters and "dim" in parameters:
        axis, dim = parameters["axis"], parameters["dim"]
        swapped = {"axis": dim.replace(kind=axis.kind), "dim": axis.replace(kind=dim.kind)}
        parameters = {p.name: p for p in (swapped.get(name, p) for name, p in parameters.items())}
    signature = signature.replace(parameters=list(parameters.values()))
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), "")

    @functools.wraps(function)
    def call(self: Accessor, *args: Any, **kwargs: Any) -> Any:
        given = dict(bind(function.__name__, signature, args, kwargs).arguments)
        given |= given.pop(rest, {})
        more = given.pop("arrays", ())
        first = [given.pop("f"), given.pop("op")] if "arrays" in parameters else []
        return function(*first, self._array, *more, **given)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(call)["__signature__"] = signature.replace(parameters=[own, *parameters.values()])
    return call


def takes_an_array(function: Any) -> bool:
    """True for functions of an array that is the first parameter, and of several."""
    names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
    return names[:1] in (["a"], ["x"]) or "arrays" in names


for _name in gr.__all__:
    if takes_an_array(getattr(gr, _name)):
        setattr(Accessor, _name, method(getattr(gr, _name)))

register_dataarray_accessor("gr")(Accessor)
register_dataset_accessor("gr")(Accessor)
