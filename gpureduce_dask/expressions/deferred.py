"""What functions of elements would give, put off: written down as they are called, and traced when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tracer
from .program import Program


class DeferredArray:
    """What a function would give of its arguments: arrays, others like this, and numbers."""

    __slots__ = ("args", "device", "function", "leaves", "options", "shape", "value")

    def __init__(
        self, function: Any, args: tuple[Any, ...], options: dict[str, Any], leaves: dict[int, Any], device: bool
    ) -> None:
        self.function, self.args, self.options, self.leaves, self.device = function, args, options, leaves, device
        self.shape = np.broadcast_shapes(*(a.shape for a in args if isinstance(a, DeferredArray) or id(a) in leaves))
        self.value: Any = None

    def compute(self) -> Any:
        """The array, computed once."""
        if self.function is not None:
            args = (a.compute() if isinstance(a, DeferredArray) else a for a in self.args)
            self.value = self.function(*args, **self.options)
            self.function, self.args, self.leaves = None, (), {}
        return self.value


_programs: dict[Any, Program | None] = {}


def program_of(blocks: Sequence[Any], arrays: Sequence[Any]) -> Program | None:
    """The program of what was deferred: traced once for each structure and each set of numbers."""
    steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    places: dict[int, Any] = {id(a): ("array", i) for i, a in enumerate(arrays)}
    outputs = tuple(_write_down(b, steps, places) for b in blocks)
    key = (
        tuple((f, tuple(map(_known, args)), tuple(sorted(map(repr, options.items())))) for f, args, options in steps),
        outputs,
        tuple(a.dtype for a in arrays),
    )
    if key not in _programs:
        if len(_programs) >= 256:
            _programs.clear()
        _programs[key] = tracer.trace(_Replay(steps, outputs), tuple(a.dtype for a in arrays))
    return _programs[key]


def _write_down(x: Any, steps: list[Any], places: dict[int, Any]) -> Any:
    """Where a value is among arrays and steps, after writing down what it takes; a number itself."""
    if id(x) in places:
        return places[id(x)]
    if not isinstance(x, DeferredArray):
        return ("number", x)
    if x.function is None:
        return ("number", x.value)
    args = tuple(_write_down(a, steps, places) for a in x.args)
    steps.append((x.function, args, x.options))
    places[id(x)] = ("step", len(steps) - 1)
    return places[id(x)]


def _known(arg: Any) -> Any:
    """An argument as part of a key: numbers by type and bytes, since 0.0 equals -0.0, 0 and False."""
    kind, value = arg
    if kind != "number":
        return arg
    number = np.asarray(value)
    return kind, type(value), number.dtype, number.tobytes()


class _Replay:
    """Does the steps to other arrays, or to what stands in for them."""

    def __init__(self, steps: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.steps, self.outputs = steps, outputs

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        values: dict[str, list[Any]] = {"array": list(arrays), "step": []}
        take: Callable[[Any], Any] = lambda ref: ref[1] if ref[0] == "number" else values[ref[0]][ref[1]]  # noqa: E731
        for function, args, options in self.steps:
            values["step"].append(function(*map(take, args), **options))
        return tuple(map(take, self.outputs))
