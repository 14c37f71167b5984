"""Importing this module makes dask's reductions look up the configuration key ``gpureduce.accelerate`` at every call.

It accelerates programs that stay as they are: distributed imports it where it is named among the preloads of a client,
as by ``DASK_DISTRIBUTED__CLIENT__PRELOAD=gpureduce_dask.auto``.
"""

from __future__ import annotations

from .integrations.accelerate import install

install()
