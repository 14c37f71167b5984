"""The decorator of all public functions.

While a public function runs, errors name it, whichever module raises them. Its docstring gets the parameters that it
shares with others, from :mod:`gpureduce_dask.parameters`.

xarray's arrays keep their labels. The function gets the data of a DataArray, and its result gets the labels that
xarray's own reductions leave: dimensions, coordinates, the name, and attributes by xarray's option ``keep_attrs``.
``dim`` is one dimension or several, in place of ``axis``. Without either all dimensions are reduced; a scan of several
dimensions asks for ``dim``. Further DataArrays (masks, weights, the arrays of a map) are aligned by the names of their
dimensions, and coordinates that differ are an error. A Dataset is reduced, grouped or scanned variable by variable,
along those of the dimensions that each variable has. Where a function has several results, of a DataArray they are the
variables of one Dataset, and of a Dataset a Dataset each.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .errors import ArgumentError, ArgumentTypeError, AxisError, DtypeError, GpureduceError, calling, message
from .parameters import REDUCED, SCANNED, documented, shared_by

P = ParamSpec("P")
R = TypeVar("R")
NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})
BESIDE = ("where", "weights", "segments", "labels")  # arguments with a value for each element of the array
OPERATORS = ("monoid", "op", "names")  # arguments that say which operators are to run


@dataclass(frozen=True)
class Call:
    """What a result's labels are made from."""

    labels: Any  # a DataArray with the labels of all operands
    axis: Any
    keepdims: bool
    group: Any  # the name of the dimension of groups, where there are groups


Relabel = Callable[[Any, Call], Any]  # makes a DataArray of an array of the result


def public(
    relabel: Relabel | None = None, keeps: bool = False, elsewhere: Mapping[str, Sequence[str]] = NOTHING
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function.

    ``relabel`` gives results their labels; None is for results that have no axes. With ``keeps`` the function takes
    xarray's arrays as they are. ``elsewhere`` has keywords of other functions, and which functions these are: passing
    one to a function that lacks it is an error that says so.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        run = function if keeps else _on_graphs(function)
        several = any(name in signature.parameters for name in OPERATORS)
        lacking = {key: names for key, names in elsewhere.items() if key not in signature.parameters}

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with calling(function.__name__, several):
                for key in lacking.keys() & kwargs.keys():
                    _require_none(function.__name__, key, kwargs.pop(key), lacking[key])
                bound = bind(function.__name__, signature, args, kwargs)
                for key, value in bound.arguments.items():
                    if key in CHECKS and value is not None:
                        CHECKS[key](function.__name__, value)
                if any(map(is_labelled, (*args, *kwargs.values()))) and not keeps:
                    found: R = _labelled(run, signature, relabel, bound)
                    return found
                if "dim" in signature.parameters:
                    _require_no_dim(function.__name__, kwargs.get("dim"))
                try:
                    return run(*args, **kwargs)
                except ArgumentError as error:
                    _note_for_frames(error, bound.arguments.values())
                    raise

        shared = shared_by(function.__name__, SCANNED if relabel is scanned else REDUCED)
        wrapper.__doc__ = documented(function.__doc__, signature.parameters, shared)
        return wrapper

    return decorate


# The function that calls public functions whose arrays may be array expressions. The package ``graph``, which knows
# of those, sets it when it is imported.
_callers: list[Callable[..., Any]] = []


def call_by(caller: Callable[..., Any]) -> None:
    """Have public functions called as ``caller(function, args, kwargs)``."""
    _callers[:] = [caller]


def _on_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """A function of dask's own arrays, made a function of array expressions too."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        found: R = _callers[0](function, args, kwargs) if _callers else function(*args, **kwargs)
        return found

    return run


def bind(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments by their names; an ArgumentTypeError where they do not fit the signature."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        known = [p.name for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        expected = f"the arguments {', '.join(known)}"
        unknown = [key for key in kwargs if key not in known]
        near = dict.fromkeys(match for key in unknown for match in difflib.get_close_matches(key, known))
        remedy = f"See help(gpureduce_dask.{name})."
        if "skipna" in unknown and not name.startswith("nan"):
            remedy = f"{name} never skips NaN; functions whose names begin with nan do, as in nansum."
        elif near:
            remedy = f"Did you mean {' or '.join(f'{match}=' for match in near)}?"
        raise ArgumentTypeError(message(name, str(error), expected, remedy)) from None


def _note_for_frames(error: ArgumentError, values: Iterable[Any]) -> None:
    """Say what to do about unknown sizes to callers with a dask DataFrame, which has no ``compute_chunk_sizes``."""
    if "compute_chunk_sizes" in str(error) and any(hasattr(type(value), "to_dask_array") for value in values):
        error.add_note("In place of a dask DataFrame or Series pass its array: x.to_dask_array(lengths=True).")


def _require_none(name: str, keyword: str, value: Any, takers: Sequence[str]) -> None:
    """Raise for a value of a keyword that only these functions take."""
    if value is not None:
        expected = f"it with one of {', '.join(takers)}"
        raise ArgumentError(message(name, f"{keyword}=", expected, "Leave it out, or pass where=."))


def _require_no_dim(name: str, dim: Any) -> None:
    if dim is not None:
        received = f"dim={dim!r} without a DataArray"
        raise ArgumentError(message(name, received, "axis=", "Pass axis=, or a DataArray."))


def _require_dtype(name: str, dtype: Any) -> None:
    try:
        for each in dtype if type(dtype) is tuple else (dtype,):  # of each array, in the dict of a tree
            np.dtype(each)
    except TypeError as error:
        expected = "a dtype that NumPy knows"
        raise DtypeError(message(name, f"dtype={dtype!r}", expected, "Pass one, as 'float32' or int.")) from error


def _require_out(name: str, out: Any) -> None:
    each = out[0] if type(out) is tuple and len(out) == 1 else out
    if each is not None and (is_labelled(each) or not hasattr(type(each), "__dask_graph__")):
        received = f"out= of type {type(each).__name__}"
        remedy = "Leave it out, and store what compute() gives."
        raise ArgumentTypeError(message(name, received, "a dask array", remedy))


def _require_callable(name: str, f: Any) -> None:
    if not callable(f):
        received = f"f of type {type(f).__name__}"
        raise ArgumentTypeError(message(name, received, "a function", "The function goes first, then the operator."))


def _require_elements(name: str, x: Any) -> None:
    """Raise for what is no array and would be taken for one, or whose own remedy is not that of other objects."""
    kind, expected = type(x), "an array, a list or a number"
    if isinstance(x, str | bytes):
        received, remedy = f"the string {x!r:.60}", "Pass the array itself, not its name."
    elif kind.__module__.partition(".")[0] == "torch":
        received = f"torch's {kind.__name__}"
        remedy = "Pass x.numpy(), or of one on a GPU cupy.from_dlpack(x): both are views."
    elif kind.__name__.endswith("GroupBy"):
        received, remedy = f"type {kind.__name__}", "Pass the array, and a label for each element, to grouped."
    elif isinstance(x, Mapping) and not is_labelled(x):
        received, remedy = f"type {kind.__name__}", "Pass one of its values, or list(x.values())."
    else:
        return
    raise ArgumentTypeError(message(name, received, expected, remedy))


def _require_labels(name: str, labels: Any) -> None:
    if isinstance(labels, str):
        received = f"labels={labels!r}"
        expected = "an integer for each element"
        remedy = f"Pass the labels themselves, as np.unique(x[{labels!r}], return_inverse=True)[1]."
        raise ArgumentTypeError(message(name, received, expected, remedy))
    _require_elements(name, labels)


# Arguments that every function has the same rule for.
CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("a", "b", "x", "where", "weights", "segments"), _require_elements),
    "labels": _require_labels,
    "dtype": _require_dtype,
    "out": _require_out,
    "f": _require_callable,
}


# ---- xarray, which is never imported here: a caller who passes its arrays has imported it


def xarray(name: str) -> Any:
    """A class or function of xarray, or None where the program never imported it."""
    return getattr(sys.modules.get("xarray"), name, None)


def is_labelled(x: Any) -> bool:
    """True for a DataArray, a Dataset, and a tuple that holds one."""
    kinds = xarray("DataArray"), xarray("Dataset")
    return kinds[0] is not None and (isinstance(x, kinds) or (type(x) is tuple and any(map(is_labelled, x))))


def reduced(value: Any, call: Call) -> Any:
    """A reduction's result, with the labels of the dimensions that are not reduced."""
    return _left(call).copy(deep=False, data=value)


def grouped(value: Any, call: Call) -> Any:
    """The result of groups, with the labels of the dimensions that are not reduced, and a dimension of groups."""
    left = _left(call)
    return xarray("DataArray")(value, left.coords, (*left.dims, call.group), left.name, left.attrs)


def scanned(value: Any, call: Call) -> Any:
    """A scan's result, with all labels; but no coordinates along an axis that an initial value has made longer."""
    kept = call.labels.reduce(lambda data, **_: data)
    if not kept.ndim:
        value = value[-1]
    if value.shape == kept.shape:
        return kept.copy(deep=False, data=value)
    along = kept.dims[operator.index(call.axis)]
    coords = {name: each for name, each in kept.coords.items() if along not in each.dims}
    return xarray("DataArray")(value, coords, kept.dims, kept.name, kept.attrs)


def _left(call: Call) -> Any:
    """A DataArray with the labels that xarray's own reductions leave; its values mean nothing."""
    return call.labels.reduce(_nothing, axis=call.axis, keepdims=call.keepdims)


def _nothing(data: Any, axis: Any = None) -> Any:
    """Zeros of the shape of a reduction's result: a view, which takes no memory."""
    gone = range(data.ndim) if axis is None else _list(axis, data.ndim)
    return np.broadcast_to(np.float64(0), [n for a, n in enumerate(data.shape) if a not in gone])


def _labelled(
    function: Callable[..., Any], signature: inspect.Signature, relabel: Relabel | None, bound: inspect.BoundArguments
) -> Any:
    """Call a function with the data of its arguments, and give its result their labels."""
    dim = bound.arguments.pop("dim", None)
    if any(isinstance(x, xarray("Dataset")) for x in _arrays(bound.arguments.values())):
        return _each_variable(function, signature, relabel, bound, dim)
    return _one_dataset(_of_arrays(function, signature, relabel, bound, dim))


def _of_arrays(
    function: Callable[..., Any],
    signature: inspect.Signature,
    relabel: Relabel | None,
    bound: inspect.BoundArguments,
    dim: Any,
) -> Any:
    """Call a function with the data of DataArrays; each of its results is a DataArray."""
    given, name = bound.arguments, function.__name__
    arrays = _arrays(given.values())
    _require_alignment(name, arrays)
    labels = _joined([x for key, value in given.items() if key not in BESIDE for x in _arrays([value])])
    if labels is None:  # only masks, weights or the like have labels
        _require_no_dim(name, dim)
        given.update({key: _without_labels(name, value, arrays[0].dims) for key, value in given.items()})
        return function(*bound.args, **bound.kwargs)
    _require_no_more_axes(name, given.values(), labels)
    if "axis" in signature.parameters:
        given["axis"] = _axis(name, labels, dim, given.get("axis"), relabel is scanned)
    axis, groups = given.get("axis"), given.get("labels")
    for key, value in given.items():
        if key == "labels" and axis is not None:
            given[key] = _labels_along(name, value, [labels.dims[a] for a in sorted(_list(axis, labels.ndim))])
        else:
            given[key] = _without_labels(name, value, labels.dims)
    found = function(*bound.args, **bound.kwargs)
    keepdims = bool(given.get("keepdims", False))
    call = Call(labels, axis, keepdims, getattr(groups, "name", None) or "group")
    return found if relabel is None else _relabelled(found, relabel, call)


def _each_variable(
    function: Callable[..., Any],
    signature: inspect.Signature,
    relabel: Relabel | None,
    bound: inspect.BoundArguments,
    dim: Any,
) -> Any:
    """Call a function for each variable of its array, a Dataset: the first argument, or that of a function's."""
    given, name, kind = bound.arguments, function.__name__, xarray("Dataset")
    place = "arrays" if given.get("arrays") else next(iter(signature.parameters))
    dataset, *more = given[place] if place == "arrays" else (given[place],)
    others = [*more, *_arrays(value for key, value in given.items() if key != place)]
    if relabel is None or not isinstance(dataset, kind) or any(isinstance(x, kind) for x in others):
        raise _no_dataset(name)
    if given.get("axis") is not None:
        raise ArgumentError(message(name, f"axis={given['axis']!r} with a Dataset", "dim=", "Name the dimensions."))
    dims = tuple(dataset.dims) if dim is None or dim is ... else _names(name, dim, tuple(dataset.dims))
    values = {}
    for variable, each in dataset.data_vars.items():
        own = tuple(d for d in dims if d in each.dims)
        if relabel is not reduced and not own:
            values[variable] = each
            continue
        along = own[0] if relabel is scanned and len(own) == 1 else None if relabel is scanned else own
        arguments = {**given, place: (each, *more) if place == "arrays" else each}
        with of_variable(variable):
            one = inspect.BoundArguments(signature, arguments)
            values[variable] = _of_arrays(function, signature, relabel, one, along)

    def joined(found: Mapping[Any, Any]) -> Any:
        if relabel is scanned:
            return dataset.assign(found).assign_attrs(dataset.reduce(lambda data, **_: data).attrs)
        left = dataset.reduce(_nothing, dim=dims, keepdims=bool(given.get("keepdims", False)))
        return left.assign({variable: each.variable for variable, each in found.items()})

    return _datasets(values, joined)


@contextmanager
def of_variable(name: Any) -> Iterator[None]:
    """Within the block, errors say which variable of a Dataset they are of."""
    try:
        yield
    except GpureduceError as error:
        error.add_note(f"of the variable {name!r}")
        raise


def _datasets(values: Mapping[Any, Any], joined: Callable[[Mapping[Any, Any]], Any]) -> Any:
    """A Dataset of the results of all variables; where each has several, a tuple of Datasets, named as theirs are."""
    several = next((each for each in values.values() if isinstance(each, tuple)), None)
    if several is None:
        return joined(values)
    parts = [
        _datasets({variable: each[i] if isinstance(each, tuple) else each for variable, each in values.items()}, joined)
        for i in range(len(several))
    ]
    return type(several)(*parts) if hasattr(several, "_fields") else tuple(parts)


def _no_dataset(name: str) -> ArgumentTypeError:
    return ArgumentTypeError(message(name, "a Dataset", "a DataArray", "Call it with one variable, dataset['name']."))


def _list(axis: Any, ndim: int) -> list[int]:
    return [int(a) % ndim for a in np.atleast_1d(axis)]


def _arrays(values: Iterable[Any]) -> list[Any]:
    """All of xarray's arrays among the values, and in tuples among them."""
    found = []
    for value in values:
        if is_labelled(value):
            found += _arrays(value) if type(value) is tuple else [value]
    return found


def _require_alignment(name: str, arrays: Sequence[Any]) -> None:
    try:
        xarray("align")(*arrays, join="exact", copy=False)
    except ValueError as error:
        remedy = "Align them first, as xarray.align does."
        raise ArgumentError(message(name, str(error), "arrays with the same coordinates", remedy)) from error


def _require_no_more_axes(name: str, values: Iterable[Any], labels: Any) -> None:
    """Raise for arrays without labels that have more axes than there are dimensions: broadcasting would add axes."""
    for value in values:
        for each in value if type(value) is tuple else (value,):
            if not is_labelled(each) and getattr(each, "ndim", 0) > labels.ndim:
                received = f"an array of {each.ndim} axes without names together with dimensions {labels.dims}"
                raise ArgumentError(message(name, received, f"at most {labels.ndim} axes", "Make it a DataArray."))


def _joined(arrays: Sequence[Any]) -> Any:
    """A DataArray with the labels that arithmetic of all the arrays would leave; its values mean nothing."""
    if len(arrays) < 2:
        return arrays[0] if arrays else None
    import dask.array as da

    blank = [x.copy(deep=False, data=da.zeros(x.shape, chunks=x.shape)) for x in arrays]
    return functools.reduce(operator.add, blank)


def _axis(name: str, labels: Any, dim: Any, axis: Any, is_scan: bool) -> Any:
    """The axis of a dimension, or the axes of several."""
    if dim is not None and axis is not None:
        raise ArgumentError(message(name, f"axis={axis!r} and dim={dim!r}", "one of them", "Leave one out."))
    if dim is not None and dim is not ...:
        axes = [labels.dims.index(d) for d in _names(name, dim, labels.dims)]
        axis = axes[0] if isinstance(dim, str) else tuple(axes)
    elif any(isinstance(a, str) for a in (axis if isinstance(axis, tuple | list) else (axis,))):
        raise AxisError(message(name, f"axis={axis!r}", "numbers of axes", f"Write dim={axis!r}."))
    if is_scan and axis is None and labels.ndim > 1:
        expected = f"dim=, one of {labels.dims}"
        raise ArgumentError(message(name, "a DataArray and no dim=", expected, "For all in C order pass its .data."))
    return 0 if is_scan and axis is None and labels.ndim == 1 else axis


def _names(name: str, dim: Any, dims: tuple[Any, ...]) -> list[Any]:
    """The names of one dimension or of several, as a list."""
    names = [dim] if isinstance(dim, str) or not isinstance(dim, Iterable) or dim in dims else list(dim)
    for each in names:
        if each not in dims:
            received = f"dim {each!r} of dimensions {dims}"
            raise AxisError(message(name, received, "one or several of these", "Correct the name."))
    return names


def _labels_along(name: str, labels: Any, dims: Sequence[Any]) -> Any:
    """The data of groups' labels, an array along the reduced dimensions, or a tuple of an array for each of them."""
    if type(labels) is not tuple:
        return _without_labels(name, labels, dims)
    return tuple(_without_labels(name, each, [d]) for each, d in zip(labels, dims, strict=False)) + labels[len(dims) :]


def _without_labels(name: str, value: Any, dims: Sequence[Any]) -> Any:
    """The data of a DataArray, with an axis for each of ``dims``, of size 1 where it has no such dimension."""
    if type(value) is tuple:
        return tuple(_without_labels(name, each, dims) for each in value) if is_labelled(value) else value
    if not is_labelled(value):
        return value
    if unknown := [d for d in value.dims if d not in dims]:
        received = f"an array of dimension {unknown[0]!r}"
        raise ArgumentError(message(name, received, f"dimensions among {tuple(dims)}", "Reduce or rename it."))
    order = tuple(d for d in dims if d in value.dims)
    data = value.data if order == value.dims else value.variable.transpose(*order).data
    inserted = tuple(slice(None) if d in order else None for d in dims)
    return data[inserted] if None in inserted else data


def _relabelled(found: Any, relabel: Relabel, call: Call) -> Any:
    """A result with labels, each of several by itself."""
    if not isinstance(found, tuple):
        return relabel(found, call)
    parts = [_relabelled(each, relabel, call) for each in found]
    return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)


def _one_dataset(found: Any) -> Any:
    """DataArrays in a named tuple as the variables of a Dataset."""
    if hasattr(found, "_fields"):
        return xarray("Dataset")({name: _one_dataset(each) for name, each in found._asdict().items()})
    return tuple(map(_one_dataset, found)) if isinstance(found, tuple) else found
