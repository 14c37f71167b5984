"""What dask's configuration says under ``gpureduce``. A key or a value that means nothing here is an error: left alone,
a slip of the pen would be a program that runs as if nothing had been set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import dask

from ..errors import ArgumentError, message

ROOT = "gpureduce"
WORDS = {"true": True, "false": False, "none": None}  # as text, which some ways of configuring leave them


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Integral) and value in (0, 1))


# The keys that there are: what a value may be, in words and as a test of it.
KNOWN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "accelerate": ("True, False or 'numpy'", lambda value: _is_switch(value) or value == "numpy"),
    "fuse": ("True or False", _is_switch),
    "group": (
        "an integer of 1 or more",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1,
    ),
}


def setting(key: str) -> Any:
    """The value of ``gpureduce.<key>``, or None where nothing is set."""
    given = dask.config.get(ROOT, None)
    if given is None:
        return None
    known = ", ".join(f"{ROOT}.{name}" for name in KNOWN)
    if not isinstance(given, Mapping):
        remedy = f"Set one of them, as dask.config.set({{'{ROOT}.accelerate': True}})."
        raise ArgumentError(message(ROOT, f"{given!r} in dask's configuration", known, remedy))
    values = {str(name).replace("-", "_"): value for name, value in given.items()}
    for name, value in values.items():
        if name not in KNOWN:
            close = get_close_matches(name, KNOWN, 1)
            remedy = f"Did you mean {ROOT}.{close[0]}?" if close else "Correct dask's configuration."
            raise ArgumentError(message(f"{ROOT}.{name}", "no such key in dask's configuration", known, remedy))
        values[name] = _checked(name, value)
    return values.get(key)


def _checked(key: str, given: Any) -> Any:
    """A value, out of text where it was left as text."""
    value = given
    if isinstance(given, str):
        value = WORDS.get(given.strip().lower(), given.strip().lower())
    expected, is_right = KNOWN[key]
    if value is None or is_right(value):
        return value
    remedy = f"Correct dask's configuration, or DASK_{ROOT.upper()}__{key.upper()} in the environment."
    raise ArgumentError(message(f"{ROOT}.{key}", repr(given), expected, remedy))
