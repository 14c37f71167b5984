"""The table of functions that expressions are made of: a NumPy ufunc each, and what CUDA calls it.

Only names of this table ever reach a kernel's text. ``kernels/monoid/functions.cuh`` has a function of each name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..dtypes import kind
from ..operators.monoid import DType

UFUNCS: tuple[np.ufunc, ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.true_divide,
    np.floor_divide,
    np.remainder,
    np.fmod,
    np.power,
    np.negative,
    np.positive,
    np.absolute,
    np.fabs,
    np.sign,
    np.square,
    np.reciprocal,
    np.sqrt,
    np.cbrt,
    np.exp,
    np.exp2,
    np.expm1,
    np.log,
    np.log2,
    np.log10,
    np.log1p,
    np.sin,
    np.cos,
    np.tan,
    np.arcsin,
    np.arccos,
    np.arctan,
    np.arctan2,
    np.sinh,
    np.cosh,
    np.tanh,
    np.arcsinh,
    np.arccosh,
    np.arctanh,
    np.hypot,
    np.copysign,
    np.floor,
    np.ceil,
    np.trunc,
    np.rint,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.logical_not,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.invert,
    np.left_shift,
    np.right_shift,
    np.isnan,
    np.isinf,
    np.isfinite,
    np.signbit,
    np.conjugate,
)
NAMES: Mapping[Any, str] = MappingProxyType({u: u.__name__ for u in UFUNCS})
BY_NAME: Mapping[str, np.ufunc] = MappingProxyType({u.__name__: u for u in UFUNCS})
WHERE, REAL, IMAG, CLIP = "where", "real", "imag", "clip"  # functions that are not ufuncs

# What kernels compute of complex numbers; of times they compute nothing.
OF_COMPLEX = frozenset(
    "add subtract multiply divide negative positive absolute square conjugate equal not_equal isnan isinf isfinite "
    "where real imag".split()
)
PLAIN = "biuf"


def takes(name: str, dtypes: tuple[DType, ...]) -> bool:
    """True where the table has this function for elements of these dtypes."""
    kinds = {kind(d) for d in dtypes}
    if name == "reciprocal" and kinds & set("iu"):
        return False  # C leaves 1 / 0 open
    return kinds <= set(PLAIN) or (kinds <= {*PLAIN, "c"} and name in OF_COMPLEX)
