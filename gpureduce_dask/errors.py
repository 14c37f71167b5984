"""Errors. The text of each names the operation, what it received, what it expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "AxisError",
    "CompileError",
    "DeviceError",
    "DeviceMemoryError",
    "DtypeError",
    "EmptyError",
    "ExtraError",
    "GpureduceError",
    "OperatorError",
    "WeightError",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


class GpureduceError(Exception):
    """Base of all errors of this package.

    Each is of a built-in class as well: that of NumPy's error, where NumPy has one. The text says
    ``operation: received; expected something. What to do.``

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> try:
    ...     gr.sum([1, 2, 3], axis=1)
    ... except gr.errors.GpureduceError as error:
    ...     print(error)
    sum: axis 1 of an array of 1 dimensions; expected None or integers from -1 to 0. Correct the axis.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By default a pickle is made from what built-in classes keep of their arguments. Some keep no text, and some
        # cannot be made again without more than a text. The notes of an error are in its __dict__.
        return type(self), (str(self),), self.__dict__ or None


class DtypeError(GpureduceError, TypeError):
    """A dtype for which the operation has no meaning. A ``TypeError``."""


class ArgumentError(GpureduceError, ValueError):
    """An argument of a value that the operation cannot take. A ``ValueError``."""


class ArgumentTypeError(GpureduceError, TypeError):
    """An argument of a type that the operation cannot take. A ``TypeError``."""


class AxisError(GpureduceError, np.exceptions.AxisError):
    """An axis that does not exist, or is named twice. A ``numpy.exceptions.AxisError``."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class EmptyError(GpureduceError, ValueError):
    """A slice with no elements, or none but NaN, where the reduction has no answer for that. A ``ValueError``."""


class WeightError(GpureduceError, ZeroDivisionError):
    """Weights of a mean that sum to zero. A ``ZeroDivisionError``."""


class OperatorError(GpureduceError, KeyError):
    """A name that no operator of the table has. A ``KeyError``."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class CompileError(GpureduceError, RuntimeError):
    """CUDA text that does not compile; the message has the compiler's log. A ``RuntimeError``."""


class DeviceError(GpureduceError, RuntimeError):
    """No usable GPU: there is none, it is too old or has failed, or there is no driver. A ``RuntimeError``."""


class DeviceMemoryError(GpureduceError, MemoryError):
    """Too little memory on a GPU, also after its memory pool was freed. A ``MemoryError``."""


class ExtraError(GpureduceError, ImportError):
    """An optional package that does not import. An ``ImportError``."""


# The name of the public function that is running, if one is, and whether its caller chooses an operator.
_called: ContextVar[tuple[str, bool] | None] = ContextVar("gpureduce_called", default=None)
ENGINES = frozenset({"map_reduce", "operator", "reduce", "compile"})  # operations that are shared by all operators
OWN_NAMES = ("gpureduce", "reduce-", "scan-")  # of configuration keys, and of the textbook kernels


@contextmanager
def calling(name: str, has_operators: bool) -> Iterator[None]:
    """Within the block, messages of errors name this function. Of nested blocks the outermost counts."""
    token = _called.set(_called.get() or (name, has_operators))
    try:
        yield
    finally:
        _called.reset(token)


def message(operation: str, received: str, expected: str, remedy: str) -> str:
    """The text of an error: ``operation: received; expected ... remedy``."""
    return f"{_public(operation)}: {received}; expected {expected}. {remedy}"


def _public(operation: str) -> str:
    """The name that a message gives to an operation: that of the public function which is running, where one is, with
    the operator's where its caller chose one."""
    called = _called.get()
    if called is None or operation.startswith(OWN_NAMES):
        return operation
    name, has_operators = called
    which = operation.rpartition(" by ")[2].removeprefix("map-")
    return f"{name} by {which}" if has_operators and which not in {name, *ENGINES} else name
