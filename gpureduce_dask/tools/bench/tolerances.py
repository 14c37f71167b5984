"""When an accelerated run counts as slower than a plain one, and when their answers are the same."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from ...operators.monoid import Array

RATIO = 1.1  # of plain dask's time, up to which ours is not slower


def is_slower(plain: Sequence[float], ours: Sequence[float], least: float) -> bool:
    """True where ours takes longer than plain, in seconds of runs in turn, by ``least`` and more.

    In medians and in the fastest runs: the medians of one graph that runs twice differ by as much.
    """
    a, b = statistics.median(plain), statistics.median(ours)
    return b > RATIO * a and b - a > least and min(ours) > RATIO * min(plain)


def are_close(x: Array, y: Array, rough: float) -> bool:
    """True for floats that are equal up to this part of themselves or of the largest; NaN where the other has it."""
    finite = np.abs(x[np.isfinite(x)])
    return bool(np.allclose(x, y, rtol=rough, atol=rough * float(finite.max(initial=0)), equal_nan=True))
