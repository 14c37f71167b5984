"""The same scans by CuPy, torch and cuda.compute, as calls to time; None where a peer has none."""

from __future__ import annotations

import functools
from typing import Any

from .peers import Call, tensor

CUPY = {"sum": "cumsum", "prod": "cumprod", "nansum": "nancumsum"}
TORCH = {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin"}
TORCH_FAILS = 1 << 31  # elements of a line: torch 2.11 then reads memory that is not its own, and ends the process
KINDS = {"sum": "PLUS", "prod": "MULTIPLIES", "max": "MAXIMUM", "min": "MINIMUM"}


def cupy_call(op: str, x: Any, axis: Any) -> Call:
    """CuPy's own scan; of one line without an axis, which is its faster way."""
    import cupy

    if op not in CUPY:
        return None
    return functools.partial(getattr(cupy, CUPY[op]), x, axis=None if x.ndim == 1 else axis)


def torch_call(op: str, x: Any, axis: Any) -> Call:
    """torch's scan over the same memory. Its cummax and cummin give positions as well."""
    given = tensor(x) if op in TORCH and max(x.shape) < TORCH_FAILS else None
    if given is None:
        return None
    import torch

    return functools.partial(getattr(torch, TORCH[op]), given, axis)


def compute_call(op: str, x: Any, axis: Any) -> Call:
    """cuda.compute's device-wide scan (CUB), of one contiguous line. It accumulates in the dtype of the result."""
    try:
        import cuda.compute as compute
    except ImportError:
        return None
    import cupy
    import numpy as np

    from ...operators import table as operators

    op, _, mode = op.partition(" ")
    if op not in KINDS or x.ndim != 1 or not x.flags.c_contiguous or x.dtype.kind not in "iuf":
        return None
    if mode not in ("", "exclusive"):
        return None
    result = operators.get(op).bind(x.dtype).result
    start = np.array([op == "prod"], result)
    init = None if result == x.dtype and not mode else start
    make = compute.make_exclusive_scan if mode else compute.make_inclusive_scan
    what = {"d_in": x, "d_out": cupy.empty(x.shape, result), "op": getattr(compute.OpKind, KINDS[op])}
    scanner = make(**what, init_value=init)
    size = scanner(temp_storage=None, num_items=x.size, init_value=init, **what)
    scratch = cupy.empty(max(1, size), "u1")
    return functools.partial(scanner, temp_storage=scratch, num_items=x.size, init_value=init, **what)


SCAN_PEERS = {"CuPy": cupy_call, "torch": torch_call, "cuda.compute": compute_call}
