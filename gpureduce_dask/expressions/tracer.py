"""Calls a function on stand-ins for arrays and writes down what it does to them.

A stand-in answers NumPy's protocols and Python's operators, and nothing else: what asks it for anything more, a truth
value, a length or an element, is not elementwise and cannot be traced. Dtypes are found by NumPy's own rules. Nothing
here evaluates text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..operators.monoid import DType
from . import functions
from .program import ARRAY, CAST, CONSTANT, Constant, Node, Program

MOST_NODES = 4096  # a longer expression is a loop that ran away

WEAK = (int, float, complex)  # Python's numbers take the dtype of what they meet


class Untraceable(Exception):
    """The function does to its arguments what no expression says.

    ``needs_values``: it asks for what an array that has yet to be computed cannot tell, elements or its own type.
    """

    def __init__(self, what: str, needs_values: bool = False) -> None:
        super().__init__(what)
        self.needs_values = needs_values


class Tape:
    """The nodes of a program as they come, each but once."""

    def __init__(self, dtypes: tuple[DType, ...]) -> None:
        self.dtypes = dtypes
        self.nodes: dict[Node, int] = {}
        self.constants: dict[Constant, int] = {}
        self.stopped: Untraceable | None = None  # the first reason, also where the function caught the error

    def spoil(self, what: str, needs_values: bool = False) -> NoReturn:
        reason = Untraceable(what + _place(sys._getframe(1)), needs_values)
        self.stopped = self.stopped or reason
        raise reason

    def array(self, number: int) -> Proxy:
        """The stand-in for an array."""
        return self._proxy(ARRAY, (number,), self.dtypes[number])

    def constant(self, value: Any, dtype: DType) -> Proxy:
        """A number of this dtype."""
        try:
            with np.errstate(all="ignore"):
                given = Constant.of(value, dtype)
        except (OverflowError, TypeError, ValueError) as error:
            self.spoil(str(error))
        return self._proxy(CONSTANT, (self.constants.setdefault(given, len(self.constants)),), dtype)

    def function(self, name: str, args: tuple[Proxy, ...], dtype: DType) -> Proxy:
        """A function of the table, of arguments in the dtypes that it computes in."""
        if not functions.takes(name, (*(a.dtype for a in args), dtype)):
            self.spoil(f"{name} of {', '.join(str(a.dtype) for a in args)}")
        return self._proxy(name, tuple(a._number for a in args), dtype)

    def cast(self, x: Any, dtype: DType) -> Proxy:
        """A stand-in or a number in another dtype."""
        if type(x) is not Proxy:
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        if not functions.takes(functions.REAL, (x.dtype, dtype)):
            self.spoil(f"a cast of {x.dtype} to {dtype}")
        if x.dtype.kind == "c" and dtype.kind not in "bc":
            return self.cast(x.real, dtype)
        return self._proxy(CAST, (x._number,), dtype)

    def _proxy(self, op: str, args: tuple[int, ...], dtype: DType) -> Proxy:
        if len(self.nodes) >= MOST_NODES:
            self.spoil(f"more than {MOST_NODES} steps")
        return Proxy(self, self.nodes.setdefault(Node(op, args, dtype), len(self.nodes)), dtype)

    def program(self, outputs: tuple[Proxy, ...]) -> Program:
        whole = Program(self.dtypes, tuple(self.nodes), tuple(o._number for o in outputs), tuple(self.constants))
        return whole.only(whole.outputs)

    def ufunc(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Proxy:
        """A NumPy function of stand-ins and numbers, in the dtypes that NumPy computes it in."""
        name = functions.NAMES.get(ufunc)
        if name is None:
            self.spoil(f"numpy.{ufunc.__name__}")
        given = [self._kind(x) for x in inputs]
        samples = [x if isinstance(g, type) else np.empty(0, g) for x, g in zip(inputs, given, strict=True)]
        try:
            *dtypes, result = ufunc.resolve_dtypes((*given, None))
            with np.errstate(all="ignore"):
                same = ufunc(*samples).dtype == result
        except (TypeError, ValueError, OverflowError) as error:
            self.spoil(str(error))
        if not same:
            self.spoil(f"numpy.{name} of {given}")
        if name == "power" and dtypes[1].kind in "iu":
            self._check_exponent(inputs[1])
        return self.function(name, tuple(self.cast(x, d) for x, d in zip(inputs, dtypes, strict=True)), result)

    def _check_exponent(self, exponent: Any) -> None:
        """NumPy refuses integers to negative powers: only data can tell unless it is a number."""
        if type(exponent) is Proxy or exponent < 0:
            self.spoil("a power of integers")

    def _kind(self, x: Any) -> Any:
        """What NumPy's rules ask of an argument: a dtype, or the type of a Python number."""
        if type(x) is Proxy:
            if x._tape is not self:
                self.spoil("a stand-in of another call")
            return x.dtype
        if type(x) is bool:
            return np.dtype(bool)
        if type(x) in WEAK:
            return type(x)
        if isinstance(x, np.generic) or (type(x) is np.ndarray and x.ndim == 0):
            return x.dtype
        self.spoil(f"an argument of type {type(x).__name__}")

    def common(self, *values: Any) -> DType:
        """The dtype of all together, by NumPy's rules."""
        kinds = [self._kind(v) for v in values]
        try:
            return np.result_type(*(v if isinstance(k, type) else k for v, k in zip(values, kinds, strict=True)))
        except TypeError as error:
            self.spoil(str(error))


class Proxy(NDArrayOperatorsMixin):
    """Stands in for an array of which nothing but the dtype is known."""

    _tape: Tape
    _number: int
    dtype: DType

    def __init__(self, tape: Tape, number: int, dtype: DType) -> None:
        self.__dict__.update(_tape=tape, _number=number, dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            self._tape.spoil(f"numpy.{ufunc.__name__} with {method} {', '.join(options)}")
        return self._tape.ufunc(ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(function)
        if known is None:
            self._tape.spoil(f"numpy.{getattr(function, '__name__', function)}")
        try:
            return known(self._tape, *args, **kwargs)
        except TypeError as error:  # an argument that the table's form has no place for
            self._tape.spoil(str(error))

    def __pow__(self, exponent: Any) -> Any:
        """As arrays have it: squares, roots and reciprocals for the powers that have such."""
        if type(exponent) in (int, float) and self.dtype.kind in "fc":
            quick = _POWERS.get(exponent)
            if quick is not None and (self.dtype.kind == "f" or exponent in (1, 2)):
                return quick(self)
        if type(exponent) is int and exponent == 2 and self.dtype.kind in "iu":
            return np.square(self)
        return np.power(self, exponent)

    @property
    def real(self) -> Any:
        return self._part(functions.REAL) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        return self._part(functions.IMAG) if self.dtype.kind == "c" else self._tape.constant(0, self.dtype)

    def _part(self, name: str) -> Proxy:
        return self._tape.function(name, (self,), np.empty(0, self.dtype).real.dtype)

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: Any = True
    ) -> Any:
        if not np.can_cast(self.dtype, np.dtype(dtype), casting):
            self._tape.spoil(f"a cast of {self.dtype} to {dtype}")
        return self._tape.cast(self, np.dtype(dtype))

    def conj(self) -> Any:
        return np.conjugate(self)

    conjugate = conj

    def copy(self, order: str = "C") -> Any:
        return self

    def clip(self, min: Any = None, max: Any = None) -> Any:
        return _clip(self._tape, self, min, max)

    def round(self, decimals: int = 0) -> Any:
        return _round(self._tape, self, decimals)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_") and name not in ("__array_interface__", "__array_struct__"):
            raise AttributeError(name)  # NumPy and dask look for protocols that arrays may lack
        tape: Tape = self.__dict__["_tape"]
        if name in ("__array_interface__", "__array_struct__"):
            self.__array__()
        tape.spoil(f"attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._tape.spoil(f"attribute {name} set")

    def __len__(self) -> int:
        self._tape.spoil("len()")

    def __getitem__(self, key: Any) -> Any:
        self._tape.spoil("an index")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tape.spoil("an assignment to elements")

    def __array__(self, *given: Any, **options: Any) -> Any:
        self._tape.spoil("a conversion to a NumPy array", True)

    def __iter__(self) -> Any:
        self._tape.spoil("a loop over its elements", True)

    def __bool__(self) -> bool:
        self._tape.spoil("the truth of its elements", True)

    def _refuse(self, *given: Any, **options: Any) -> Any:
        self._tape.spoil("the value of an element", True)

    def _type(self) -> Any:
        self._tape.spoil("its type", True)

    __int__ = __float__ = __complex__ = __index__ = __delitem__ = __contains__ = __reduce_ex__ = _refuse
    __class__ = property(_type)  # a function that asks for the type may do otherwise


def trace(function: Callable[..., Any], dtypes: tuple[DType, ...], order: tuple[int, ...] = ()) -> Program | None:
    """The program of a function of arrays of these dtypes; None where there is none.

    The function is called twice, and has to do the same both times. ``order`` are the numbers of the arrays that it
    is given, where one is given more than once. A tuple or list of results gives as many outputs.
    """
    found = attempt(function, dtypes, order)
    return found if isinstance(found, Program) else None


def attempt(
    function: Callable[..., Any], dtypes: tuple[DType, ...], order: tuple[int, ...] = ()
) -> Program | Untraceable:
    """As :func:`trace`; where there is no program, the reason."""
    first = _once(function, dtypes, order)
    if isinstance(first, Untraceable) or _once(function, dtypes, order) == first:
        return first
    return Untraceable("it did otherwise when it was called again")


def _once(function: Callable[..., Any], dtypes: tuple[DType, ...], order: tuple[int, ...]) -> Program | Untraceable:
    tape = Tape(dtypes)
    try:
        given = function(*(tape.array(i) for i in order or range(len(dtypes))))
        many = given if type(given) in (tuple, list) else (given,)
        outputs = tuple(x if type(x) is Proxy else tape.cast(x, tape.common(x)) for x in many)
        if not outputs or any(o._tape is not tape for o in outputs):
            return Untraceable("what it returns is not made of its arguments")
        return tape.stopped or tape.program(outputs)
    except Exception as error:  # of the function: that it raises here does not say that it does so for arrays
        return tape.stopped or Untraceable(f"{type(error).__name__}: {error}")


def _place(frame: FrameType | None) -> str:
    """Where in the function the trace stopped: the innermost line that is neither ours nor NumPy's."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("gpureduce_dask", "numpy"):
        frame = frame.f_back
    return f", line {frame.f_lineno} of {frame.f_code.co_filename}" if frame is not None else ""


def _where(tape: Tape, condition: Any, x: Any, y: Any) -> Proxy:
    dtype = tape.common(x, y)
    args = (tape.cast(condition, np.dtype(bool)), tape.cast(x, dtype), tape.cast(y, dtype))
    return tape.function(functions.WHERE, args, dtype)


def _clip(tape: Tape, a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if min is None else min, a_max if max is None else max
    bounds = [b for b in (low, high) if b is not None]
    if not bounds or np.dtype(bool) in (a.dtype, tape.common(a, *bounds)):
        tape.spoil("clip without bounds, or of bool")
    x: Any = tape.cast(a, tape.common(a, *bounds))
    if low is not None and high is not None:
        return tape.function(functions.CLIP, (x, tape.cast(low, x.dtype), tape.cast(high, x.dtype)), x.dtype)
    if low is not None:
        x = np.maximum(x, tape.cast(low, x.dtype))
    return x if high is None else np.minimum(x, tape.cast(high, x.dtype))


def _round(tape: Tape, a: Any, decimals: int = 0) -> Any:
    if decimals != 0 or a.dtype.kind == "c" or a.dtype == bool:
        tape.spoil("round to decimals")
    return np.rint(a) if a.dtype.kind not in "iu" else a


def _angle(tape: Tape, z: Any) -> Any:
    if z.dtype.kind not in "fc":
        tape.spoil("angle of integers")
    return np.arctan2(z.imag, z.real)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.angle: _angle,
    np.real: lambda tape, val: val.real,
    np.imag: lambda tape, val: val.imag,
    np.copy: lambda tape, a: a,
    np.astype: lambda tape, x, dtype, copy=True: x.astype(dtype),
}
_POWERS: dict[float, Callable[..., Any]] = {2: np.square, 1: np.positive, -1: np.reciprocal, 0.5: np.sqrt}
