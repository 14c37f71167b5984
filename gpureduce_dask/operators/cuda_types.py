"""The CUDA type of each row for its element dtypes: the structs of ``kernels/monoid`` and their arguments."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..dtypes import accumulates_exactly, is_nan_capable, kind
from .monoid import DType

_NAMES = {
    "bool": "boolean",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "half",
    "bfloat16": "bfloat16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}


@cache  # a dtype finds out its name anew each time
def element(dtype: DType) -> str | None:
    """The CUDA element type of a dtype, or None where a GPU array cannot hold it."""
    return _NAMES.get(dtype.name) if dtype.isnative else None


def _real_sum(dtype: DType) -> str:
    """The accumulator for the real parts of a float dtype: exact enough in binary64, else a pair."""
    if kind(dtype) == "c":
        return "Twofold" if dtype.itemsize == 16 else "f64"
    return "f64" if accumulates_exactly(dtype) else "Twofold"


def _accumulator(dtype: DType) -> tuple[str, str]:
    """What an element is cast to, and what it is added to."""
    if kind(dtype) in "bi":
        return "i64", "i64"
    if kind(dtype) == "u":
        return "u64", "u64"
    if kind(dtype) == "c":
        return "c128", f"Parts<{_real_sum(dtype)}>"
    return "f64", _real_sum(dtype)


def _map(dtype: DType, to: str, skip_nan: bool) -> str:
    return f"{'NonNan' if skip_nan and is_nan_capable(dtype) else 'Value'}<{element(dtype)}, {to}>"


def _total(dtype: DType, skip_nan: bool) -> str:
    term, accumulator = _accumulator(dtype)
    return f"Sum<{_map(dtype, term, skip_nan)}, {accumulator}>"


def total(dtype: DType) -> str:
    return _total(dtype, False)


def nan_total(dtype: DType) -> str:
    return _total(dtype, True)


def _product(dtype: DType, skip_nan: bool) -> str:
    return f"Prod<{_map(dtype, _accumulator(dtype)[0], skip_nan)}>"


def product(dtype: DType) -> str:
    return _product(dtype, False)


def nan_product(dtype: DType) -> str:
    return _product(dtype, True)


def _mean(dtype: DType, skip_nan: bool) -> str:
    if kind(dtype) in "biu":
        wide = dtype.itemsize == 8
        return f"Mean<Value<{element(dtype)}, {'f64' if wide else 'i64'}>, {'Twofold' if wide else 'i64'}>"
    term, accumulator = _accumulator(dtype)
    return f"Mean<{_map(dtype, term, skip_nan)}, {accumulator}>"


def mean(dtype: DType) -> str:
    return _mean(dtype, False)


def nan_mean(dtype: DType) -> str:
    return _mean(dtype, True)


def _squares(dtype: DType, floating: bool) -> str:
    integers = kind(dtype) in "biu"
    number = _accumulator(dtype)[0] if integers and not floating else "f64"
    if kind(dtype) == "b":  # 0 and 1 are their own squares
        return f"<Value<{element(dtype)}, {number}>, {number}>"
    term = number if integers else _real_sum(dtype)
    return f"<Square<{element(dtype)}, {number}, {term}>, {term}>"


def sum_of_squares(dtype: DType) -> str:
    return "Sum" + _squares(dtype, False)


def norm_two(dtype: DType) -> str:
    return "RootSum" + _squares(dtype, True)


def norm_one(dtype: DType) -> str:
    wide = (dtype.itemsize == 8 and kind(dtype) in "fiu") or dtype.itemsize == 16
    return f"Sum<Magnitude<{element(dtype)}>, {'Twofold' if wide else 'f64'}>"


def norm_inf(dtype: DType) -> str:
    return f"MaxMagnitude<{element(dtype)}>"


def any_true(dtype: DType) -> str:
    return f"Any<{element(dtype)}>"


def all_true(dtype: DType) -> str:
    return f"All<{element(dtype)}>"


def count_nonzero(dtype: DType) -> str:
    return f"CountNonzero<{element(dtype)}>"


def tally(dtype: DType) -> str:
    return f"Tally<{element(dtype)}, false>"


def nan_tally(dtype: DType) -> str:
    return f"Tally<{element(dtype)}, {str(is_nan_capable(dtype)).lower()}>"


def _extreme(dtype: DType, largest: bool, skip_nan: bool) -> str:
    struct = "ArgValue" if kind(dtype) == "c" else "MinMax"
    skips = skip_nan and is_nan_capable(dtype)
    return f"{struct}<{element(dtype)}, {str(largest).lower()}, {str(skips).lower()}>"


def minimum(dtype: DType) -> str:
    return _extreme(dtype, False, False)


def maximum(dtype: DType) -> str:
    return _extreme(dtype, True, False)


def nan_minimum(dtype: DType) -> str:
    return _extreme(dtype, False, True)


def nan_maximum(dtype: DType) -> str:
    return _extreme(dtype, True, True)


def _position(dtype: DType, largest: bool, skip_nan: bool) -> str:
    skips = skip_nan and is_nan_capable(dtype)
    return f"Arg<{element(dtype)}, {str(largest).lower()}, {str(skips).lower()}>"


def arg_minimum(dtype: DType) -> str:
    return _position(dtype, False, False)


def arg_maximum(dtype: DType) -> str:
    return _position(dtype, True, False)


def nan_arg_minimum(dtype: DType) -> str:
    return _position(dtype, False, True)


def nan_arg_maximum(dtype: DType) -> str:
    return _position(dtype, True, True)


def peak_to_peak(dtype: DType) -> str:
    return f"PeakToPeak<{element(dtype)}>"


def _spread(dtype: DType, root: bool, skip_nan: bool) -> str:
    skips = str(skip_nan and is_nan_capable(dtype)).lower()
    if kind(dtype) == "c":
        part = "f32" if dtype.itemsize == 8 else "f64"
        return f"{'ComplexStd' if root else 'ComplexMoments'}<{part}, {skips}>"
    return f"{'Std' if root else 'Var'}<{element(dtype)}, {skips}>"


def variance(dtype: DType) -> str:
    return _spread(dtype, False, False)


def deviation(dtype: DType) -> str:
    return _spread(dtype, True, False)


def nan_variance(dtype: DType) -> str:
    return _spread(dtype, False, True)


def nan_deviation(dtype: DType) -> str:
    return _spread(dtype, True, True)


def moment(dtype: DType) -> str:
    return f"CentralMoment<{element(dtype)}>"


def skewness(dtype: DType) -> str:
    return f"Skewness<{element(dtype)}>"


def kurtosis(dtype: DType) -> str:
    return f"Kurtosis<{element(dtype)}>"


def dot(x: DType, y: DType) -> str:
    pair = f"{element(x)}, {element(y)}"
    if kind(x) == "c" or kind(y) == "c":
        part = "Twofold" if max(_parts(x), _parts(y)) > 4 else "f64"
        return f"Sum<Product<{pair}, c128, Parts<{part}>>, Parts<{part}>>"
    if kind(x) in "biu" and kind(y) in "biu" and np.result_type(x, y).kind != "f":
        number = "u64" if kind(x) == kind(y) == "u" else "i64"
        return f"Sum<Product<{pair}, {number}, {number}>, {number}>"
    part = "f64" if accumulates_exactly(x) and accumulates_exactly(y) else "Twofold"
    return f"Sum<Product<{pair}, f64, {part}>, {part}>"


def _parts(dtype: DType) -> int:
    """Bytes of a number's real part."""
    return dtype.itemsize // 2 if kind(dtype) == "c" else dtype.itemsize


def average(x: DType, weight: DType) -> str:
    narrow = all(kind(d) in "fc" and _parts(d) <= 4 for d in (x, weight))
    part = "f64" if narrow else "Twofold"
    total, weights = (f"Parts<{part}>" if "c" in kinds else part for kinds in (kind(x) + kind(weight), kind(weight)))
    return f"Average<{element(x)}, {element(weight)}, {total}, {weights}>"


def first(dtype: DType) -> str:
    return f"FirstLast<{element(dtype)}, false>"


def last(dtype: DType) -> str:
    return f"FirstLast<{element(dtype)}, true>"


def affine(factor: DType, term: DType) -> str:
    return f"AffineMap<{element(factor)}, {element(term)}, {_accumulator(np.result_type(factor, term))[0]}>"
