"""What the kernels of scans would take, predicted: the plan that takes least is used.

A kernel takes some time to start, and then as long as the slowest of three: memory, for the bytes that are read and
written; the processors, for the elements; and the chain of what one thread does, one element or tile after another.
What each kernel costs is data of a GPU (scan_cost_tables.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .scan_cost_tables import Cost
from .scan_task import Gpu, Operands, Operator, Plan
from .tuning import PROCESSORS, SECTOR

HEAVY_STATE_BYTES = 24  # of moments, of which an element costs more than of others
LONGER = 12288
COPY = 0.82  # of the memory's bandwidth, that a copy has
BY_THREADS = ("scan_lines", "scan_fold_parts")  # kernels in which a thread takes a line, or a part of one


@dataclass(frozen=True)
class Features:
    """What a plan's time depends on."""

    kernel: str  # whose costs are those of the plan
    nbytes: int  # read and written
    elements: int
    line: int  # bytes of a line
    blocks: int
    chain: float  # as a plan has it
    is_misaligned: bool  # rows do not begin where sectors of memory do
    is_along_memory: bool  # a thread takes a line along memory, alone or beside few others
    is_heavy: bool  # states are large


def kernel_of(plan: Plan) -> str:
    """Whose costs are those of a plan."""
    return plan.cost or plan.steps[0].scan


def features(plan: Plan, op: Operator, arrays: Operands) -> Features:
    """Of a plan of a scan."""
    kernel, sizes = kernel_of(plan), (*op.itemsizes, op.out_bytes)
    elements, line = math.prod(arrays.shape), arrays.shape[arrays.axis] * max(sizes)
    beside = math.prod(arrays.shape[arrays.axis + 1 :]) * max(sizes)  # bytes of lines that are neighbours
    spanned = max(line, *(abs(strides[arrays.axis]) * arrays.shape[arrays.axis] for strides in arrays.strides))
    return Features(
        kernel,
        round(elements * sum(sizes) * plan.waste),
        elements,
        line,
        sum(step.blocks for step in plan.steps),
        plan.chain,
        any(strides[arrays.axis] % SECTOR for strides in arrays.strides),
        kernel in BY_THREADS and 2 * beside <= SECTOR < spanned,
        op.state_bytes >= HEAVY_STATE_BYTES,
    )


def seconds(of: Features, cost: Cost, gpu: Gpu) -> float:
    """Predicted for a plan."""
    memory = of.nbytes / (COPY * gpu.bandwidth)
    memory *= cost.misaligned if cost.misaligned and of.is_misaligned else cost.memory
    memory *= 1 + cost.short / of.line + max(0, of.line - cost.long) / LONGER
    weight = cost.heavy if of.is_heavy else 1.0
    element = cost.along_memory if of.is_along_memory else cost.element
    work = (of.elements * element * weight + of.blocks * cost.block) * PROCESSORS / gpu.processors
    return cost.start + max(memory, work, of.chain * cost.step * weight)


def least(plans: Iterable[Plan], op: Operator, arrays: Operands, gpu: Gpu) -> Plan:
    """The plan that is predicted to take least time."""
    timed = [(seconds(features(plan, op, arrays), gpu.costs[kernel_of(plan)], gpu), plan) for plan in plans]
    predicted, plan = min(timed, key=lambda pair: pair[0])
    return replace(plan, seconds=predicted)
