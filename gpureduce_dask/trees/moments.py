"""Central moments of any order: up to the fourth from one state, above by stock dask."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..errors import ArgumentError, message
from .apply import apply, as_dask
from .stock import belongs_to_stock, call, given_arguments, require_native

HIGHEST = 4  # the state of the row has central sums up to this order


def central_moment(a: Any, order: Any, **arguments: Any) -> Any:
    """The central moment of this order; arguments as of the public function."""
    if not isinstance(order, Integral) or int(order) < 0:
        raise ArgumentError(message("moment", f"order {order!r}", "an integer of 0 or more", "Pass 2 for a variance."))
    if int(order) > HIGHEST:
        x = as_dask("moment", a)
        if not belongs_to_stock("moment", (x,), arguments["dtype"]):
            require_native("moment", x.dtype)
        return call("moment", (x,), order=int(order), **given_arguments(arguments))
    return apply("moment", a, order=int(order), **arguments)
