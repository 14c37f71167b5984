"""dask's configuration, under ``gpureduce``.

A key or a value that means nothing here is an error: ignored, a misspelt key would be a program that runs as if nothing
had been set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import dask

from .errors import ArgumentError, message

ROOT = "gpureduce"
WORDS = {"true": True, "false": False, "none": None}  # as text, which some ways of configuring leave them


def is_at_least(least: int, number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Integral) and value in (0, 1))


# The keys that there are: what a value may be, in words and as a test of it.
KNOWN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "accelerate": ("True, False or 'numpy'", lambda value: _is_switch(value) or value == "numpy"),
    "fuse": ("True or False", _is_switch),
    "group": ("an integer of 1 or more", lambda value: is_at_least(1, value)),
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
        expected, is_right = KNOWN[name]
        found = WORDS.get(value.strip().lower(), value.strip().lower()) if isinstance(value, str) else value
        if found is not None and not is_right(found):
            remedy = f"Correct dask's configuration, or DASK_{ROOT.upper()}__{name.upper()} in the environment."
            raise ArgumentError(message(f"{ROOT}.{name}", repr(value), expected, remedy))
        values[name] = found
    return values.get(key)
