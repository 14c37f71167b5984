"""What the kernels of scans would take, predicted: the plan that takes least is used.

A kernel takes some time to start, and then as long as the slowest of three: memory, for the bytes that are read and
written; the processors, for the elements; and the chain of what one thread does, one element or tile after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .scan_task import SECTOR, Operands, Operator, Plan
from .tuning import PROCESSORS

HEAVY_STATE_BYTES = 24  # of moments, of which an element costs more than of others


@dataclass(frozen=True)
class Gpu:
    """What plans depend on, as a GPU's properties say it."""

    shared_bytes: int  # of a block, at most
    processors: int
    clusters: bool = True  # blocks may reach into each other's shared memory
    bandwidth: float = 4.9e12  # bytes a second, of its memory's clock and width


@dataclass(frozen=True)
class Cost:
    """Of one kernel.

    Attributes
    ----------
    start : float
        Seconds until the first results, and behind the last.
    memory : float
        Times what the memory would take for the same bytes.
    short, long : float
        Bytes of a line: shorter ones than the first take more than twice as long, longer ones than the second as much
        longer as they are more than it by ``LONGER``.
    misaligned : float
        In place of ``memory`` where rows do not begin where sectors of memory do.
    element : float
        Seconds that an element takes of the whole GPU, by ``PROCESSORS`` processors.
    heavy : float
        How many times that is where states are large.
    block : float
        Seconds that a block takes of the whole GPU to start and to end.
    step : float
        Seconds from one step to the next: of a thread's elements, or of a block's tiles.
    """

    start: float
    memory: float
    short: float = 0.0
    long: float = math.inf
    misaligned: float = 0.0
    element: float = 0.0
    heavy: float = 1.6
    block: float = 0.0
    step: float = 0.0


LONGER = 12288
COPY = 0.82  # of the memory's bandwidth, that a copy has
# Fitted to 130 random scans of 4, 64 and 256 MiB, each by every kernel that takes it, and to what is said beside the
# kernels of shares at 4 GiB: H200, CUDA 13.0, 2026-11-26.
COSTS = {
    "scan_any_all": Cost(8e-6, 1.0),
    "scan_lane_lines": Cost(4e-6, 1.05, step=1e-7),
    "scan_small_planes": Cost(4e-6, 1.1),
    "scan_subwarp_lines": Cost(4e-6, 1.04, short=40, long=4096, step=5e-8),
    "scan_rows": Cost(8e-6, 1.03, short=170),
    "scan_rows, strided": Cost(8e-6, 1.2, short=170, element=3e-12),
    "scan_cluster_columns": Cost(8e-6, 1.03),
    "scan_contiguous_columns": Cost(8e-6, 1.1),
    "scan_serial_columns": Cost(8e-6, 1.05),
    "scan_columns": Cost(14e-6, 1.12, element=1.5e-12, heavy=2.0, step=2e-6),
    "scan_columns, several a lane": Cost(14e-6, 1.06, element=0.5e-12, heavy=2.0, step=2e-6),
    "scan_thread_columns": Cost(3e-6, 1.12, element=1.2e-12, block=6e-10, step=12e-8),
    "scan_lines": Cost(3e-6, 1.17, misaligned=1.5, element=2.0e-12, heavy=1.2, block=6e-10, step=12e-8),
    "scan_method_fold": Cost(15e-6, 6.0, element=20e-12),
    "scan_method_scan": Cost(5e-6, 3.0, block=5e-9),
    "scan_fold_parts": Cost(18e-6, 1.6, element=4.8e-12, step=7e-8),  # lines in parts
}
ALONG_MEMORY = 23e-12  # seconds that an element takes of a thread that takes a line along memory


def seconds(plan: Plan, op: Operator, arrays: Operands, gpu: Gpu) -> float:
    """Predicted for a plan."""
    kernel = plan.cost or plan.steps[0].kernel.partition("<")[0]
    cost, sizes = COSTS[kernel], (*op.itemsizes, op.out_bytes)
    elements, length = math.prod(arrays.shape), arrays.shape[arrays.axis]
    line = length * max(sizes)
    is_misaligned = any(strides[arrays.axis] % SECTOR for strides in arrays.strides)
    memory = elements * sum(sizes) / (COPY * gpu.bandwidth)
    memory *= cost.misaligned if cost.misaligned and is_misaligned else cost.memory
    memory *= 1 + cost.short / line + max(0, line - cost.long) / LONGER
    weight = cost.heavy if op.state_bytes >= HEAVY_STATE_BYTES else 1.0
    element = cost.element
    if kernel in ("scan_lines", "scan_fold_parts") and arrays.is_along_memory and line > SECTOR:
        element = ALONG_MEMORY
    blocks = sum(step.blocks for step in plan.steps)
    work = (elements * element * weight + blocks * cost.block) * PROCESSORS / gpu.processors
    return cost.start + max(memory, work, plan.chain * cost.step * weight)


def least(plans: Iterable[Plan | None], op: Operator, arrays: Operands, gpu: Gpu) -> Plan:
    """The plan that is predicted to take least time."""
    timed = [(seconds(plan, op, arrays, gpu), plan) for plan in plans if plan]
    predicted, plan = min(timed, key=lambda pair: pair[0])
    return replace(plan, seconds=predicted)
