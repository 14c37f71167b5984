"""What the wrappers of ``gr.accelerate()`` decided: which calls were taken, which were left to dask, and why."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import dask.array as da

from ..graph.array_expressions import package_of

Arguments = Mapping[str, Any]  # of a call, by the names of the stock function's parameters, defaults filled in

REMEMBERED = 10_000  # decisions, by the name of the array that the call gave; the oldest are forgotten first


@dataclass(frozen=True)
class Rule:
    """Calls that are dask's to answer, and the reason that users read."""

    reason: str
    holds: Callable[[Arguments], bool]


class Fallback(Exception):
    """A call that is dask's to answer; the message is the reason."""


@dataclass(frozen=True)
class Decision:
    """What a call was, and why it was left to dask; no reason where it was taken."""

    call: str
    reason: str | None = None


_decisions: OrderedDict[str, Decision] = OrderedDict()
_lock = Lock()


def is_lazy_array(x: Any) -> bool:
    """True for arrays of dask and of dask-array."""
    return isinstance(x, da.Array) or package_of(x) is not None


def check(rules: Iterable[Rule], call: Arguments) -> None:
    """Raise Fallback for the first rule that holds."""
    for rule in rules:
        if rule.holds(call):
            raise Fallback(rule.reason)


def record(found: Any, name: str, call: Arguments, reason: str | None) -> None:
    """Remember what was decided of a call that gave this array, or a tuple that begins with it."""
    array = found[0] if isinstance(found, tuple) and found else found
    if not is_lazy_array(array):
        return
    with _lock:
        _decisions[array.name] = Decision(_describe(name, call), reason)
        _decisions.move_to_end(array.name)
        while len(_decisions) > REMEMBERED:
            _decisions.popitem(last=False)


def recorded(names: Iterable[str]) -> list[Decision]:
    """The decisions of these arrays, in their order."""
    with _lock:
        return [_decisions[name] for name in names if name in _decisions]


def _describe(name: str, call: Arguments) -> str:
    """A call in words: ``mean of (365, 180, 360) float32 over axis 0``."""
    x = next(value for value in call.values() if is_lazy_array(value))
    axis, groups = call.get("axis"), call.get("expected_groups")
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    over = "all axes" if axis is None else f"ax{'is' if len(axes) == 1 else 'es'} {', '.join(map(str, axes))}"
    return f"{name} of {x.shape} {x.dtype} over {over}" + (f" in {len(groups)} groups" if groups is not None else "")
