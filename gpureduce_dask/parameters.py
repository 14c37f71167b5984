"""The parameters that many public functions have: their types, and what their docstrings say of them.

A public function writes out its signature, and describes in its docstring the parameters that are its own. Those that
it leaves out are described here, once for all functions, and :func:`documented` inserts them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import DTypeLike

# What every function takes for an array, and what it gives: dask arrays of NumPy or CuPy chunks; for xarray's arrays
# arrays of xarray, and for those of the package dask-array arrays of that package. A checker is told no more.
ArrayLike: TypeAlias = Any
Array: TypeAlias = Any

Axis: TypeAlias = int | Sequence[int] | None
OneAxis: TypeAlias = int | None
DType: TypeAlias = DTypeLike | None
SplitEvery: TypeAlias = int | dict[int, int] | None
Dims: TypeAlias = Hashable | Iterable[Hashable] | None
OneDim: TypeAlias = Hashable | None

ARRAY = """array_like
    A dask array, or anything that ``dask.array.asanyarray`` turns into one, as one chunk: a NumPy, CuPy or pandas
    array, a list, a number.
    It has any number of dimensions.{elements}
    For an ``xarray.DataArray`` or ``xarray.Dataset`` the result is one too, with the labels that xarray's own
    reductions leave."""
_NUMBERS = "bool, integers, floats or complex numbers"
_REAL = "bool, integers or floats"
_WITH_DURATIONS = "bool, integers, floats, complex numbers or timedelta64"
_WITH_TIMES = "bool, integers, floats, complex numbers, datetime64 or timedelta64"
# What the elements of an array that ARRAY describes may be, by the functions that reduce or scan it.
ELEMENTS: Mapping[str, str] = {
    **dict.fromkeys("prod nanprod cumprod nancumprod cumulative_prod".split(), _NUMBERS),
    **dict.fromkeys("sumsq norm vector_norm var std nanvar nanstd".split(), _NUMBERS),
    **dict.fromkeys("moment skew kurtosis".split(), _REAL),
    **dict.fromkeys("sum nansum mean nanmean average cumsum nancumsum cumulative_sum".split(), _WITH_DURATIONS),
    **dict.fromkeys("min max nanmin nanmax argmin argmax nanargmin nanargmax".split(), _WITH_TIMES),
    **dict.fromkeys("cummin cummax ffill bfill".split(), _WITH_TIMES),
    **dict.fromkeys(
        "any all count_nonzero".split(), "bool, integers, floats, complex numbers, times, strings or objects"
    ),
    "ptp": "integers, floats, complex numbers, datetime64 or timedelta64",
}
OUT = """dask.array.Array, optional
    An array of the result's shape. It becomes the result, and is returned."""

# By the parameter's name: its type, and indented below that the description.
REDUCED: Mapping[str, str] = {
    "a": ARRAY,
    "x": ARRAY,
    "axis": """int or tuple of int, optional
    The axes to reduce. By default all of them.""",
    "dtype": """dtype, optional
    The dtype of the result. By default the one given under Returns.""",
    "keepdims": """bool, default False
    Keep the reduced axes, with size 1.""",
    "split_every": """int or dict of int to int, optional
    How many chunks one task reduces, and how many of the partial results a later task combines: 2 or more, together or
    for each axis. By default dask's configuration key ``split_every``; where that is not set, tasks reduce as many
    chunks as keep all threads busy, and combine at most 32 partial results.""",
    "out": OUT,
    "where": """array_like of bool, optional
    Which elements count. It broadcasts with the array. By default all do. Where none counts, the result is the one of
    an empty array.""",
    "initial": """scalar, optional
    A number that is reduced together with the elements of each result. It has to fit into the result's dtype.""",
    "weights": """array_like, optional
    The weight of each element: real numbers that broadcast with the array. Sums and norms multiply by it (a sum of
    squares each square). Means, variances and moments count an element as often as its weight says.""",
    "min_count": """int, optional
    How many elements that count and are not NaN a result needs. Where there are fewer it is NaN (NaT for times). With
    it, results that would be integers are float64. By default there is no such limit.""",
    "dim": """str or iterable of str, optional
    The dimensions of a DataArray or a Dataset to reduce, in place of `axis`. By default all of them.""",
}
SCANNED: Mapping[str, str] = {
    "x": ARRAY,
    "axis": """int, optional
    The axis to scan along. By default all elements are scanned in C order, and the result has one axis.""",
    "dtype": REDUCED["dtype"],
    "out": OUT,
    "exclusive": """bool, default False
    Leave each element out of its own result.""",
    "reverse": """bool, default False
    Start at the end: each result is of its own element and those behind it.""",
    "segments": """array_like, optional
    Where the scan starts anew: bools that are true there, or labels that differ there from the one before. Of the shape
    of the array, or of its size along the axis.""",
    "method": """{"sequential", "blelloch"}, default "sequential"
    How stock dask scans, where it does: see Notes. All other arrays are scanned in one way.""",
    "include_initial": """bool, default False
    Put the result for no elements before the others. The chunk that it goes to becomes longer by one: the first, or
    with `reverse` the last.""",
    "dim": """str, optional
    The dimension of a DataArray or a Dataset to scan along, in place of `axis`.""",
}

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+)", re.MULTILINE)  # descriptions are indented


def shared_by(name: str, shared: Mapping[str, str]) -> Mapping[str, str]:
    """The shared descriptions as a function of this name has them: those of arrays say what elements may be."""
    elements = f" Elements are {ELEMENTS[name]}." if name in ELEMENTS else ""
    return {key: text.format(elements=elements) if text is ARRAY else text for key, text in shared.items()}


def documented(text: str | None, names: Iterable[str], shared: Mapping[str, str]) -> str | None:
    """A docstring whose Parameters section describes all parameters of these names, in their order.

    Those that the docstring itself does not describe get the shared description, where there is one.
    """
    if text is None:  # Python runs with -OO
        return None
    text = inspect.cleandoc(text)
    headings = list(HEADING.finditer(text))
    if not headings:
        return text
    first = headings[0]
    own: dict[str, str] = {}
    rest = text[first.start() :]
    if first.group(1) == "Parameters":
        end = headings[1].start() if len(headings) > 1 else len(text)
        section, rest = text[first.end() : end].strip(), text[end:]
        starts = [*ENTRY.finditer(section)]
        ends = [*(entry.start() for entry in starts[1:]), len(section)]
        own = {s.group(1).strip("*"): section[s.start() : e].rstrip() for s, e in zip(starts, ends, strict=True)}
    given = [own.get(name) or f"{name} : {shared[name]}" for name in names if name in own or name in shared]
    if not given:
        return text
    return "\n".join([text[: first.start()] + "Parameters\n----------", *given, "", rest]).rstrip() + "\n"
