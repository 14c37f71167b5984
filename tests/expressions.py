"""A family of expressions of two arrays, generated: what maps have to trace, evaluate and compile as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

REAL = ("f4", "f8", "i4", "u1", "i8", "bool", "f2")
UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: -x if x.dtype != bool else ~x,
    abs,
    np.square,
    np.sign,
    np.isnan,
    np.floor,
    lambda x: np.sqrt(abs(x)),
    lambda x: np.exp(-abs(x)),
    lambda x: np.log1p(abs(x)),
    lambda x: np.clip(x.astype("f4"), -1, 2.5),
    lambda x: x.astype("i4") * 3,
    lambda x: x**2,
    lambda x: np.tanh(x),
    lambda x: x > 1,
    lambda x: np.rint(x),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x % y if bool not in (x.dtype, y.dtype) else x ^ (y > 0),
    lambda x, y: x // y if bool not in (x.dtype, y.dtype) else x | (y > 0),
    lambda x, y: np.where(x > y, x, 2),
    lambda x, y: np.maximum(x, y),
    lambda x, y: np.fmin(x, y),
    lambda x, y: np.hypot(x, y),
    lambda x, y: (x <= y) & np.isfinite(x),
    lambda x, y: 2.5 * x - y * 1.0,
    lambda x, y: np.arctan2(x, y),
)

Tree = Any  # "x" or "y", (unary, tree) or (binary, tree, tree)

trees: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(["x", "y"]),
    lambda inner: st.one_of(st.tuples(st.sampled_from(UNARY), inner), st.tuples(st.sampled_from(BINARY), inner, inner)),
    max_leaves=6,
)


def call(tree: Tree, x: Any, y: Any) -> Any:
    """What the expression gives of two arrays, or of stand-ins for them."""
    if isinstance(tree, str):
        return x if tree == "x" else y
    function, *args = tree
    return function(*(call(a, x, y) for a in args))


def sample(dtype: str, seed: int, shape: tuple[int, ...] = (37, 50)) -> Any:
    """Elements of a dtype: small ones, and a few that are special."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.4
    if dtype[0] in "iu":
        return rng.integers(0 if dtype[0] == "u" else -9, 9, shape).astype(dtype)
    values = rng.normal(size=shape, scale=3).astype(dtype)
    for place, special in enumerate((0.0, -0.0, np.inf, np.nan, -np.inf)):
        values.flat[(seed + place * 3) % values.size] = special  # other seeds, other places
    return values
