"""Shared memory of a block beyond what every kernel may have."""

from __future__ import annotations

from . import context

DEFAULT_SHARED_BYTES = 48 * 1024  # bytes
MOST = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def allow(function: int, nbytes: int) -> None:
    """Let a kernel have so much. Plans share kernels: what another plan was allowed is not taken back."""
    if nbytes <= DEFAULT_SHARED_BYTES:
        return
    from cupy_backends.cuda.api import driver

    context.enter()
    if driver.funcGetAttribute(MOST, function) < nbytes:
        driver.funcSetAttribute(function, MOST, nbytes)
