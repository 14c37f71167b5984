"""JAX as a peer: each function compiled by XLA as a whole, over CuPy's memory; None where JAX is not installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .peers import Call

TIMES = 10  # calls that go out before the clock stops: each takes some 50 us on the host, while the GPU works


@dataclass(frozen=True)
class Several:
    """A function called ``times`` times, and waited for. JAX has a stream of its own, so CuPy's must be idle first."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    times: int = TIMES

    def __call__(self) -> Any:
        import cupy
        import jax

        cupy.cuda.get_current_stream().synchronize()
        found = [self.function(*self.arrays) for _ in range(self.times)]
        return jax.block_until_ready(found[-1])


def compiled(function: Callable[..., Any], *arrays: Any) -> Call:
    """A function of ``jax.numpy`` and of arrays, compiled."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # CuPy has most of the memory
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    if any(min(a.strides, default=1) < 0 for a in arrays):
        return None
    jax.config.update("jax_enable_x64", True)
    return Several(jax.jit(lambda *given: function(jnp, *given)), tuple(jax.dlpack.from_dlpack(a) for a in arrays))


def reductions(ops: str, x: Any, axis: Any) -> Call:
    """Reductions of one array by ``jax.numpy``, which XLA may do in one read."""
    names = [op for op in ops.split() if op != "count"]
    return compiled(lambda jnp, given: [getattr(jnp, op)(given, axis=axis) for op in names], x)


def group_sums(values: Any, labels: Any, count: int) -> Call:
    """Sums by labels."""

    def sums(jnp: Any, values: Any, labels: Any) -> Any:
        import jax

        return jax.ops.segment_sum(values, labels, num_segments=count)

    return compiled(sums, values, labels)
