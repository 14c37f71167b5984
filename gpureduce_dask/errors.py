"""Errors: each names the operation, what came, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


# The public function that is being called, if any, and whether its callers say which operator it is to run.
_called: ContextVar[tuple[str, bool] | None] = ContextVar("gpureduce_called", default=None)
ENGINES = frozenset({"map_reduce", "operator", "reduce", "compile"})  # parts of ours that speak for every operator
OWN_NAMES = ("gpureduce", "reduce-", "scan-")  # keys of the configuration and steps of the ladder


@contextmanager
def calling(name: str, has_operators: bool) -> Iterator[None]:
    """Errors that are made in the block name this function, whatever made them; the outermost block counts."""
    token = _called.set(_called.get() or (name, has_operators))
    try:
        yield
    finally:
        _called.reset(token)


def message(operation: str, received: str, expected: str, remedy: str) -> str:
    """One sentence an error carries: ``operation: received; expected ... remedy``."""
    return f"{_public(operation)}: {received}; expected {expected}. {remedy}"


def _public(operation: str) -> str:
    """An operation by the name of the function that was called, and by the operator where that function has several."""
    called = _called.get()
    if called is None or operation.startswith(OWN_NAMES):
        return operation
    name, has_operators = called
    which = operation.rpartition(" by ")[2].removeprefix("map-")
    return f"{name} by {which}" if has_operators and which not in {name, *ENGINES} else name
