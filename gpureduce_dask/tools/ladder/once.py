"""``python -m gpureduce_dask.tools.ladder.once N STEP...``: each step launched once, for a profiler to watch."""

from __future__ import annotations

import sys

from ... import history
from .measure import TIMED, call_of, part_of


def main(n: int, labels: list[str]) -> None:
    import cupy as cp

    x = cp.random.default_rng(1).integers(-4, 5, n, dtype="i4").astype(TIMED)
    for label in labels:
        step = history.get(label)
        call_of(step, part_of(step, x))[0]()
        cp.cuda.get_current_stream().synchronize()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
