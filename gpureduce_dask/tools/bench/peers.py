"""The same reductions by CuPy, torch and cuda.compute, as calls to time; None where a peer has none."""

from __future__ import annotations

import functools
import importlib.metadata as metadata
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any] | None
DISTRIBUTIONS = {"torch": "torch", "cuda.compute": "cuda-cccl", "JAX": "jax"}  # by which peers are installed


def versions(distributions: Mapping[str, str] = DISTRIBUTIONS) -> dict[str, str]:
    """Those of the peers that are installed here; CuPy's is the result's own."""
    found = {}
    for peer, name in distributions.items():
        try:
            found[peer] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cupy_version() -> str:
    """Of the process that calls this."""
    import cupy

    return str(cupy.__version__)


def version_list(result: Mapping[str, Any]) -> str:
    """The versions of dask, of CuPy and of the peers, of results that have them."""
    own = {"dask": result.get("dask"), "CuPy": result.get("cupy")}
    return ", ".join(f"{name} {version}" for name, version in {**own, **result.get("peers", {})}.items() if version)


CUPY = {
    "count_nonzero": lambda cp, x, axis: cp.count_nonzero(x, axis=axis),
    "sumsq": lambda cp, x, axis: (x * x).sum(axis=axis),
    "norm1": lambda cp, x, axis: cp.abs(x).sum(axis=axis),
    "norm2": lambda cp, x, axis: cp.linalg.norm(x.ravel()) if axis is None else cp.linalg.norm(x, axis=axis),
    "norminf": lambda cp, x, axis: cp.abs(x).max(axis=axis),
}
TORCH = {
    "sum": lambda t, x, axis: t.sum(x) if axis is None else t.sum(x, axis),
    "prod": lambda t, x, axis: t.prod(x) if axis is None else t.prod(x, axis),
    "max": lambda t, x, axis: t.amax(x, () if axis is None else axis),
    "min": lambda t, x, axis: t.amin(x, () if axis is None else axis),
    "mean": lambda t, x, axis: t.mean(x) if axis is None else t.mean(x, axis),
    "var": lambda t, x, axis: t.var(x, dim=axis, correction=0),
    "std": lambda t, x, axis: t.std(x, dim=axis, correction=0),
    "argmax": lambda t, x, axis: t.argmax(x, dim=axis),
    "argmin": lambda t, x, axis: t.argmin(x, dim=axis),
    "any": lambda t, x, axis: t.any(x) if axis is None else t.any(x, axis),
    "all": lambda t, x, axis: t.all(x) if axis is None else t.all(x, axis),
    "nansum": lambda t, x, axis: t.nansum(x) if axis is None else t.nansum(x, axis),
    "nanmean": lambda t, x, axis: t.nanmean(x) if axis is None else t.nanmean(x, axis),
    "count_nonzero": lambda t, x, axis: t.count_nonzero(x) if axis is None else t.count_nonzero(x, axis),
    "norm2": lambda t, x, axis: t.linalg.vector_norm(x, 2, axis),
    "norm1": lambda t, x, axis: t.linalg.vector_norm(x, 1, axis),
    "norminf": lambda t, x, axis: t.linalg.vector_norm(x, float("inf"), axis),
}
ONE_AXIS = ("argmax", "argmin", "prod", "nansum", "nanmean", "count_nonzero")


def cupy_call(op: str, x: Any, axis: Any) -> Call:
    """CuPy's own reduction (with CUB where CuPy uses it)."""
    import cupy

    if op in CUPY:
        return functools.partial(CUPY[op], cupy, x, axis)
    if not hasattr(cupy, op) or (op.startswith(("arg", "nanarg")) and isinstance(axis, tuple)):
        return None
    return functools.partial(getattr(cupy, op), x, axis=axis)


def torch_call(op: str, x: Any, axis: Any) -> Call:
    """torch's reduction over the same memory; the caller runs both on one stream."""
    if op not in TORCH or (op in ONE_AXIS and isinstance(axis, tuple)):
        return None
    given = tensor(x)
    if given is None:
        return None
    import torch

    return functools.partial(TORCH[op], torch, given, axis)


def tensor(x: Any) -> Any:
    """A CuPy array as a torch tensor over the same memory; None where torch is not installed, or has no such arrays."""
    try:
        import torch

        return None if min(x.strides) < 0 else torch.from_dlpack(x)
    except (ImportError, RuntimeError, BufferError, TypeError):
        return None


def compute_call(op: str, x: Any, axis: Any) -> Call:
    """cuda.compute's device-wide reduction (CUB), for contiguous arrays reduced whole."""
    try:
        import cuda.compute as compute
    except ImportError:
        return None
    import cupy
    import numpy as np

    kinds = {"sum": ("PLUS", 0), "max": ("MAXIMUM", None), "min": ("MINIMUM", None)}
    if op not in kinds or axis is not None or not x.flags.c_contiguous or x.dtype.kind not in "iuf":
        return None
    if x.dtype.itemsize < 4:
        return None  # its sums stay in the element's type there
    kind, start = kinds[op]
    flat, out = x.ravel(), cupy.empty(1, x.dtype)
    first = np.array([0 if start is not None else flat[0].get()], x.dtype)
    what = {"d_in": flat, "d_out": out, "op": getattr(compute.OpKind, kind), "h_init": first}
    reducer = compute.make_reduce_into(**what)
    size = reducer(temp_storage=None, num_items=flat.size, **what)
    scratch = cupy.empty(max(1, size), "u1")
    return functools.partial(reducer, temp_storage=scratch, num_items=flat.size, **what)


PEERS = {"CuPy": cupy_call, "torch": torch_call, "cuda.compute": compute_call}
COMPILERS = ("cupy.fuse", "JAX")  # peers of rows whose elements are computed
