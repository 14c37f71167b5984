"""Central moments of any order: up to the fourth from one state, above by stock dask."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from ..errors import ArgumentError, message
from .apply import as_dask
from .options import reduce
from .stock import belongs_to_stock, call, given_arguments, require_native

HIGHEST = 4  # the state of the row has central sums up to this order


def central_moment(a: Any, order: Any, also: Mapping[str, Any], **arguments: Any) -> Any:
    """The central moment of this order; arguments as of the public function."""
    if not isinstance(order, Integral) or int(order) < 0:
        raise ArgumentError(message("moment", f"order {order!r}", "an integer of 0 or more", "Pass 2 for a variance."))
    if int(order) > HIGHEST and any(v is not None for v in also.values()):
        received = f"order {order} with {', '.join(f'{k}=' for k in also)}"
        raise ArgumentError(message("moment", received, f"order {HIGHEST} at most", "Leave that out."))
    if int(order) > HIGHEST:
        x = as_dask("moment", a)
        if not belongs_to_stock("moment", (x,), arguments["dtype"]):
            require_native("moment", x.dtype)
        return call("moment", (x,), order=int(order), **given_arguments(arguments))
    return reduce("moment", a, also, order=int(order), **arguments)
