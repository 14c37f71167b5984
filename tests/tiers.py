"""Which of many tests alike run by default: others are ``slow``, and run with ``-m ""`` (``.ci/run --all``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A parameter, or one of each name, whose test is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def only(quick: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Parameters of one name. Those that are quick run by default."""
    return [value if quick(value) else slow(value) for value in values]


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of one name. The first runs by default, and every so manieth behind it."""
    return [slow(value) if number % step else value for number, value in enumerate(values)]


def in_turn(first: Iterable[Any], *others: Iterable[Any]) -> list[Any]:
    """All combinations of parameters. Each of the first name runs by default with one of every other name in turn."""
    names = [[*each] for each in (first, *others)]
    found = []
    for numbers in itertools.product(*(range(len(each)) for each in names)):
        values = [each[number] for each, number in zip(names, numbers, strict=True)]
        is_quick = all(number == numbers[0] % len(each) for each, number in zip(names[1:], numbers[1:], strict=True))
        found.append(pytest.param(*values) if is_quick else slow(*values))
    return found
