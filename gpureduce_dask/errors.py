"""Errors: each names the operation, what came, what was expected and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np


class GpureduceError(Exception):
    """Base of every error raised by this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Built-in classes keep their text where pickles between processes lose it, or refuse to be made without it.
        return type(self), (str(self),), self.__dict__ or None  # which has notes


class DtypeError(GpureduceError, TypeError):
    """An operation was asked for a dtype it has no meaning for."""


class ArgumentError(GpureduceError, ValueError):
    """An argument has a value the operation cannot take."""


class ArgumentTypeError(GpureduceError, TypeError):
    """An argument is of a type that the operation cannot take."""


class AxisError(GpureduceError, np.exceptions.AxisError):
    """An axis does not exist, or is named twice."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class EmptyError(GpureduceError, ValueError):
    """A reduction without identity met an empty slice, or one with nothing but NaN."""


class WeightError(GpureduceError, ZeroDivisionError):
    """The weights of a mean sum to zero."""


class OperatorError(GpureduceError, KeyError):
    """No operator of that name is in the table."""

    def __str__(self) -> str:
        return str(self.args[0])


class CompileError(GpureduceError, RuntimeError):
    """CUDA text did not compile; the message carries the compiler's log."""


class DeviceError(GpureduceError, RuntimeError):
    """There is no usable GPU: none, too old, or no driver."""


class DeviceMemoryError(GpureduceError, MemoryError):
    """A GPU ran out of memory, also after its pool was freed."""


class ExtraError(GpureduceError, ImportError):
    """An optional package is not installed."""


def message(operation: str, received: str, expected: str, remedy: str) -> str:
    """One sentence an error carries: ``operation: received; expected ... remedy``."""
    return f"{operation}: {received}; expected {expected}. {remedy}"
