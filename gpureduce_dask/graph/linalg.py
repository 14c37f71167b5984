"""Norms of vectors and matrices, chosen by axis and order as NumPy chooses, and dot products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..dtypes import kind
from ..errors import ArgumentError, message
from . import graph_arrays as da
from .apply import apply, as_dask
from .arguments import ordered_axes
from .map_reduce import map_reduce
from .meta import belongs_to_stock
from .options import reduce

ROWS = {1.0: "norm1", 2.0: "norm2", np.inf: "norminf", 0.0: "count_nonzero"}  # vector norms that are operators
FROBENIUS = (None, "fro", "f")
SINGULAR = ("nuc", 2, -2)  # matrix norms of singular values
VECTORS = "None or a number"
MATRICES = "None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"


def norm(a: Any, ord: Any, axis: Any, keepdims: Any, split_every: Any, also: Mapping[str, Any]) -> Any:
    """A vector's norm along one axis, a matrix's along two; along all axes what NumPy takes an array for."""
    x = as_dask("norm", a)
    if belongs_to_stock("norm", (x,), None) and not any(v is not None for v in also.values()):
        return da.linalg.norm(x, ord, axis, keepdims)
    axes = ordered_axes("norm", axis, x.ndim)  # a matrix's rows come first
    if (axis is None and ord is None) or len(axes) == 1:
        return vector_norm("norm", x, 2 if ord is None else ord, axes, keepdims, split_every, also)
    if len(axes) != 2:
        received = f"ord={ord!r} for {len(axes)} axes"
        remedy = "Call vector_norm for all elements as one vector."
        raise ArgumentError(message("norm", received, "one axis, or the two of matrices", remedy))
    return _matrix_norm(x, ord, axes, keepdims, split_every, also)


def vector_norm(
    name: str, a: Any, ord: Any, axis: Any, keepdims: Any, split_every: Any, also: Mapping[str, Any]
) -> Any:
    """The norm of all elements along the axes as one vector."""
    x = as_dask(name, a)
    if not isinstance(ord, Real) or isinstance(ord, bool):
        raise ArgumentError(message(name, f"ord {ord!r} of a vector", VECTORS, "Pass 2 for the length of a vector."))
    shape = {"axis": axis, "keepdims": keepdims, "split_every": split_every}
    row = ROWS.get(float(ord))
    if row is not None:
        found = reduce(row, x, also, name, **shape)
        return found.astype(_result(x)) if ord == 0 else found
    _take(name, f"ord={ord!r}", also, ("where",) if ord != -np.inf else ())
    if ord == -np.inf:
        found = map_reduce(magnitude, "min", (x,), **shape)
    else:
        found = map_reduce(Power(float(ord)), "sum", (x,), where=also.get("where"), **shape) ** (1 / float(ord))
    return found.astype(_result(x))


def magnitude(x: Any) -> Any:
    """|x| in float64: neither the least integer nor a power of float16 leaves the range there."""
    return np.abs(x.astype(np.float64) if kind(x.dtype) != "c" else x).astype(np.float64)


@dataclass(frozen=True)
class Power:
    """A power of |x|."""

    ord: float

    def __call__(self, x: Any) -> Any:
        return magnitude(x) ** self.ord


def _matrix_norm(
    x: Any, ord: Any, axes: tuple[int, ...], keepdims: Any, split_every: Any, also: Mapping[str, Any]
) -> Any:
    """The norm of matrices of rows along the first axis and columns along the second."""
    shape = {"keepdims": keepdims, "split_every": split_every}
    if ord in FROBENIUS:
        return reduce("norm2", x, also, "norm", axis=axes, **shape)
    _take("norm", f"ord={ord!r} of matrices", also, ())
    if ord in SINGULAR:
        if x.ndim != 2:
            received, remedy = f"ord={ord!r} for {x.ndim} dimensions", "Singular values are dask.array.linalg's."
            raise ArgumentError(message("norm", received, "a single matrix", remedy))
        return da.linalg.norm(x.astype(np.float64) if kind(x.dtype) in "biu" else x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(message("norm", f"ord {ord!r} of a matrix", MATRICES, "Or call vector_norm."))
    sums = apply("norm1", x, axis=axes[0] if abs(ord) == 1 else axes[1], keepdims=True, split_every=split_every)
    return apply("max" if ord > 0 else "min", sums, axis=axes, name="norm", **shape)


def _take(name: str, what: str, also: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise for keywords that this norm has no meaning for."""
    others = [f"{k}=" for k, v in also.items() if v is not None and k not in known]
    if others:
        expected = " or ".join(f"{k}= alone" for k in known) or "no such keyword"
        raise ArgumentError(message(name, f"{', '.join(others)} with {what}", expected, "Leave it out."))


def _result(x: Any) -> Any:
    """The dtype of an array's norms."""
    return np.dtype(np.float64) if kind(x.dtype) in "biu" else np.empty(0, x.dtype).real.dtype


def dot(a: Any, b: Any) -> Any:
    """``sum(conj(a) * b)`` over all elements; arrays of two shapes and one size are flattened, as NumPy does."""
    x, y = as_dask("vdot", a), as_dask("vdot", b)
    if x.ndim != y.ndim or (x.shape != y.shape and x.size == y.size):
        x, y = x.ravel(), y.ravel()
    return apply("vdot", x, y)
