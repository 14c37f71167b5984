"""Whether an accelerated result is the plain one: in values, dtype, dimensions, coordinates, attributes and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from ..tolerances import are_close

ROUGH = {"f": 2e-5, "c": 2e-5}  # of the largest value: what sums of float32 in float32 may be off by


def flat(result: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a result, which may be of several, by name."""
    if isinstance(result, xr.Dataset):
        yield from ((f"{name}{key}", each) for key, each in result.data_vars.items())
    elif isinstance(result, Mapping):
        for key, each in result.items():
            yield from flat(each, f"{name}{key}.")
    elif isinstance(result, tuple | list):
        for i, each in enumerate(result):
            yield from flat(each, f"{name}{i}.")
    else:
        yield name, result


def by_name(plain: Any, ours: Any) -> tuple[list[str], list[tuple[str, Any, Any]]]:
    """What differs in the names of two results' arrays, and the arrays that both have."""
    a, b = dict(flat(plain)), dict(flat(ours))
    apart = [] if a.keys() == b.keys() else [f"arrays {list(b)} for {list(a)}"]
    return apart, [(name, a[name], b[name]) for name in a if name in b]


def lazy_differences(plain: Any, ours: Any) -> Iterator[str]:
    """In what lazy results differ that nobody has to compute."""
    if type(plain) is not type(ours):
        yield f"type {type(ours).__name__} for {type(plain).__name__}"
        return
    if isinstance(plain, xr.Dataset | xr.DataArray):
        yield from _labels(plain, ours)
    apart, pairs = by_name(plain, ours)
    yield from apart
    for name, a, b in pairs:
        has = "dtype shape chunks" if isinstance(a, da.Array) else ""
        if isinstance(a, xr.DataArray):
            has = "dtype shape chunks dims name"
            yield from _labels(a, b)
        for what in has.split():
            left, right = getattr(a, what), getattr(b, what)
            if left != right:
                yield f"{name} {what} {right} for {left}"[:200]


def _labels(a: Any, b: Any) -> Iterator[str]:
    if list(a.coords) != list(b.coords):
        yield f"coordinates {list(b.coords)} for {list(a.coords)}"
    for name in a.coords:
        if name in b.coords and not a.coords[name].identical(b.coords[name]):
            yield f"coordinate {name}"
    if a.attrs != b.attrs:
        yield f"attributes {b.attrs} for {a.attrs}"


def differences(plain: Any, ours: Any, kinds: bool = True) -> Iterator[str]:
    """In what computed results differ: what was read back from a folder may come in another order.

    ``kinds`` is False where one may be of CuPy and the other of NumPy.
    """
    apart, pairs = by_name(plain, ours)
    yield from apart
    for name, a, b in pairs:
        if kinds and type(a) is not type(b):
            yield f"{name} type {type(b).__name__} for {type(a).__name__}"
        x, y = _host(a), _host(b)
        if x.dtype != y.dtype or x.shape != y.shape:
            yield f"{name} {y.dtype} {y.shape} for {x.dtype} {x.shape}"
        elif not _close(x, y):
            yield f"{name} values, by {_distance(x, y)}"


def _host(x: Any) -> np.ndarray:
    x = x.data if isinstance(x, xr.DataArray) else x
    return np.asarray(x.get() if hasattr(x, "get") else x)


def _close(x: np.ndarray, y: np.ndarray) -> bool:
    if x.dtype.kind not in ROUGH:
        return x.tobytes() == y.tobytes()  # NaT too
    return are_close(x, y, 2e-3 if x.dtype == np.float16 else ROUGH[x.dtype.kind])


def _distance(x: np.ndarray, y: np.ndarray) -> str:
    if x.dtype.kind not in ROUGH:
        return f"{int((x != y).sum())} of {x.size} elements"
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.subtract(x, y, dtype="c16" if x.dtype.kind == "c" else "f8"))
    return f"{np.nanmax(apart, initial=0):.3g}, {int((np.isnan(x) != np.isnan(y)).sum())} NaN"
