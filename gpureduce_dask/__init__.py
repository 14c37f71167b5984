"""Reductions and scans of dask arrays in CUDA and NumPy: ``import gpureduce_dask as gr; gr.sum(x, axis=0)``.

Importing this package imports neither CuPy nor dask: each name is imported from its module when it is first used.

All names, each with a docstring of its own (``help(gr.sum)``)::

    reductions              sum prod sumsq min max ptp argmin argmax any all count_nonzero norm vector_norm vdot
    statistics              mean average var std moment skew kurtosis
    without NaN             nansum nanprod nanmin nanmax nanmean nanvar nanstd nanargmin nanargmax
    scans                   cumsum cumprod cummax cummin nancumsum nancumprod cumulative_sum cumulative_prod ffill bfill
    groups                  grouped bincount histogram
    several from one read   stats describe
    functions of arrays     map_reduce map_scan
    any operator            reduction scan, with a name in OPERATORS or a Monoid
    in stock dask           tree scan_tree
    plain dask code         accelerate explain
    tasks and memory        plan persist
    workers                 cluster.start warm
    without a GPU           device_meta
    exceptions              errors
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from . import cluster, errors
from .cluster import warm
from .integrations.accelerate import accelerate
from .operators.monoid import Monoid
from .operators.table import OPERATORS

if TYPE_CHECKING:
    from .api.arrays import device_meta, persist
    from .api.explain import explain
    from .api.groups import bincount, grouped, histogram
    from .api.maps import map_reduce, map_scan
    from .api.nanreductions import nanargmax, nanargmin, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar
    from .api.plan import plan
    from .api.reductions import (
        all,
        any,
        argmax,
        argmin,
        count_nonzero,
        max,
        min,
        norm,
        prod,
        ptp,
        reduction,
        sum,
        sumsq,
        tree,
        vdot,
        vector_norm,
    )
    from .api.scans import (
        bfill,
        cummax,
        cummin,
        cumprod,
        cumsum,
        cumulative_prod,
        cumulative_sum,
        ffill,
        nancumprod,
        nancumsum,
        scan,
        scan_tree,
    )
    from .api.statistics import average, kurtosis, mean, moment, skew, std, var
    from .api.summaries import describe, stats

__version__ = "0.1.0"

_LAZY = {
    "api.arrays": ("device_meta", "persist"),
    "api.groups": ("bincount", "grouped", "histogram"),
    "api.explain": ("explain",),
    "api.maps": ("map_reduce", "map_scan"),
    "api.nanreductions": (
        "nanargmax",
        "nanargmin",
        "nanmax",
        "nanmean",
        "nanmin",
        "nanprod",
        "nanstd",
        "nansum",
        "nanvar",
    ),
    "api.plan": ("plan",),
    "api.reductions": (
        "all",
        "any",
        "argmax",
        "argmin",
        "count_nonzero",
        "max",
        "min",
        "norm",
        "prod",
        "ptp",
        "reduction",
        "sum",
        "sumsq",
        "tree",
        "vdot",
        "vector_norm",
    ),
    "api.scans": (
        "bfill",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "cumulative_prod",
        "cumulative_sum",
        "ffill",
        "nancumprod",
        "nancumsum",
        "scan",
        "scan_tree",
    ),
    "api.statistics": (
        "average",
        "kurtosis",
        "mean",
        "moment",
        "skew",
        "std",
        "var",
    ),
    "api.summaries": ("describe", "stats"),
}
_MODULES = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "OPERATORS",
    "Monoid",
    "accelerate",
    "all",
    "any",
    "argmax",
    "argmin",
    "average",
    "bfill",
    "bincount",
    "cluster",
    "count_nonzero",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "describe",
    "device_meta",
    "errors",
    "explain",
    "ffill",
    "grouped",
    "histogram",
    "kurtosis",
    "map_reduce",
    "map_scan",
    "max",
    "mean",
    "min",
    "moment",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "norm",
    "persist",
    "plan",
    "prod",
    "ptp",
    "reduction",
    "scan",
    "scan_tree",
    "skew",
    "stats",
    "std",
    "sum",
    "sumsq",
    "tree",
    "var",
    "vdot",
    "vector_norm",
    "warm",
]


if not TYPE_CHECKING:  # a type checker would let this function answer for names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            # With these Python says which name was meant.
            error = {"name": name, "obj": sys.modules[__name__]}
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", **error)
        value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names. The modules that they come from are not part of the interface."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
