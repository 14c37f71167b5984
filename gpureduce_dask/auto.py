"""Importing this module makes dask's reductions ask the configuration key ``gpureduce.accelerate`` at every call.

It is for programs that are not to be changed: in distributed's preloads, it needs no line in them.
"""

from __future__ import annotations

from .integrations.accelerate import install

install()
