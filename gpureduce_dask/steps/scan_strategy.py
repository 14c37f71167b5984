"""A step of the ladder as the chunk function of a running sum, of ``gr.cumsum`` and of stock ``cumreduction``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import chunk
from ..device import faults
from ..errors import ArgumentError, message
from ..graph import meta, scan_apply
from ..graph.arguments import as_dask
from ..history import Step, get
from ..integrations import chunk_functions
from ..operators import table as operators
from . import runs
from .strategy import check_side, summed_in

LIBRARY = "scan-08"


def cumsum_by(strategy: str, x: Any, axis: Any, dtype: Any, out: Any, method: str) -> Any:
    """The running sum of an array of one dimension, each chunk's by a step of the ladder, in stock dask's tree."""
    from dask.array.reductions import cumreduction

    step = _scan_step(strategy)
    if step.label == LIBRARY:
        return scan_apply.apply("sum", x, axis, dtype, out=out, name="cumsum", method=method)
    x = as_dask("cumsum", x)
    if x.ndim != 1 or axis not in (None, 0, -1):
        received = f"{x.ndim} dimensions and axis {axis!r} with strategy={strategy!r}"
        raise ArgumentError(message("cumsum", received, "one dimension", "Call x.ravel(), or leave out strategy=."))
    check_side(step, meta.is_ours(x._meta), meta.promises_device(x._meta))
    return cumreduction(x=x, axis=0, out=out, method=method, **functions_for("sum", x.dtype, strategy, dtype))


def functions_for(op: Any, dtype: Any, strategy: str, result: Any = None) -> dict[str, Any]:
    """Keyword arguments for ``cumreduction`` of one dimension; ``result`` is the dtype to sum in."""
    step, name = _scan_step(strategy), operators.get(op).name
    if name != "sum":
        raise ArgumentError(message("scan_tree", f"{name} with strategy={strategy!r}", "sum", "Leave out strategy=."))
    if step.label == LIBRARY:
        return chunk_functions.scan_functions(op, dtype)
    target = summed_in(step, dtype, result)
    return {
        "func": Running(step.label, target),
        "preop": ChunkSum(target),
        "binop": np.add,
        "ident": target.type(0),
        "dtype": target,
    }


@dataclass(frozen=True)
class Running:
    """A chunk's running sum."""

    label: str
    target: Any

    @property
    def __name__(self) -> str:
        return f"gr-cumsum-{self.label}"  # dask names keys after it

    @faults.task
    def __call__(self, block: Any, axis: int = 0, dtype: Any = None) -> Any:
        if block.ndim != 1:
            raise ArgumentError(message(self.label, f"a chunk of {block.ndim} dimensions", "one", "Call x.ravel()."))
        step = get(self.label)
        check_side(step, True, chunk.is_device(block))
        block = block.astype(self.target, copy=False)
        return runs.run(step, block) if block.size else block


@dataclass(frozen=True)
class ChunkSum:
    """A chunk's sum."""

    target: Any

    @faults.task
    def __call__(self, block: Any, axis: int, keepdims: bool = True) -> Any:
        return block.sum(axis=axis, keepdims=keepdims, dtype=self.target)


def _scan_step(strategy: str) -> Step:
    step = get(strategy)
    if step.family != "scan":
        raise ArgumentError(
            message(
                "cumsum", f"strategy={strategy!r}", f"a step from scan-01 to {LIBRARY}", "Leave it out for the best."
            )
        )
    return step
