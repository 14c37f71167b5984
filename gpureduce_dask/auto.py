"""Importing this module makes dask's reductions ask the configuration key ``gpureduce.accelerate`` at every call.

It is for programs that are not to be changed: in distributed's preloads, it needs no line in them.
"""

from __future__ import annotations

import warnings

from .accelerate import install
from .errors import ArgumentError

try:
    install()
except ArgumentError as error:  # a preload must not keep a client from starting
    warnings.warn(str(error), stacklevel=2)
