"""Scans on the emulated machine: the plans and the bytes of a launch as on a GPU, over NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device import (
    scan_columns,
    scan_contiguous_columns,
    scan_costs,
    scan_plans,
    scan_small_lines,
    scan_task,
    sources,
)
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.monoid import Bound
from gpureduce_dask.place import Place

from . import Kernels, Unit

LIMIT = 12 * 1024  # of shared memory: tiles of a few hundred elements
PROCESSORS = 3
GROUPS = (((2, 2),), ((2, 1),), ((1, 2),), ((1, 1),))
# Kernels in the order in which they are tried, with the fewest lines of those that are for many, and the longest.
ORDER = {
    "LaneLineScan": (200, 1 << 60),
    "scan_thread_columns": (200, 32),
    "SmallLineScan": (2000, 1 << 60),
    "AnyAllScan": (0, 1 << 60),
    "SubwarpLineScan": (360, 1 << 60),
    "SubwarpLineScan, single": (360, 1 << 60),
    "RowScan": (0, 1 << 60),
    "ClusterColumnScan": (0, 1 << 60),
    "ContiguousColumnScan": (0, 1 << 60),
    "scan_serial_columns": (0, 1 << 60),
    "StripScan": (0, 1 << 60),
    "scan_lines": (0, 1 << 60),
    "scan_fold_parts": (0, 1 << 60),
}


def aligned(array: np.ndarray, phase: int) -> np.ndarray:
    """A copy whose memory, in the array's own order of axes, begins this many bytes behind a multiple of 16."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    begin = -raw.ctypes.data % 16 + phase
    order = sorted(range(array.ndim), key=lambda a: -abs(array.strides[a]))
    flat = raw[begin : begin + array.nbytes].view(array.dtype)
    copy = flat.reshape([array.shape[a] for a in order]).transpose(np.argsort(order))
    copy[...] = array
    return copy


def first(
    plans: Iterable[scan_task.Plan | None], op: scan_task.Operator, arrays: scan_task.Operands, gpu: Gpu
) -> scan_task.Plan:
    """In place of the plan that takes least time: the first in ``ORDER``, so that small arrays try every kernel."""
    found: dict[str, scan_task.Plan] = {}
    for plan in filter(None, plans):
        found.setdefault(plan.steps[0].scan, plan)
    length = arrays.shape[arrays.axis]
    few = (found.get(name) for name, (lines, longest) in ORDER.items() if arrays.lines >= lines and length <= longest)
    return next(filter(None, few))


BEHIND = 256  # lines that a defect may write to behind the last: of no array


@dataclass(frozen=True)
class Call:
    """One scan: its operator, chunks and options."""

    bound: Bound
    chunks: tuple[np.ndarray, ...]
    axis: int
    exclusive: bool = False
    reverse: bool = False
    carry: np.ndarray | None = None
    resets: np.ndarray | None = None
    phase: int = 0
    method: str = scan_task.SINGLE_PASS
    totals: bool = True
    processors: int = PROCESSORS
    begin: int = 0  # the position of the first element
    descends: bool | None = None  # positions do, as elements are scanned: as they are scanned in reverse, if not said

    def lying(self) -> tuple[Call, tuple[slice, ...]]:
        """The same of chunks as they lie in memory, and what turns them."""
        way = device_scan._Way.of(self.axis, self.reverse, self.exclusive)
        chunks, way, turn = device_scan._turned(self.chunks, way)
        if not turn:
            return self, (slice(None),) * chunks[0].ndim
        carry = None if self.carry is None else self.carry[turn]
        resets = None if self.resets is None else np.broadcast_to(self.resets, chunks[0].shape)[turn]
        way_of = {"reverse": way.reverse, "descends": way.index_step < 0}
        return replace(self, chunks=chunks, carry=carry, resets=resets, **way_of), turn

    @property
    def index_step(self) -> int:
        return -1 if (self.reverse if self.descends is None else self.descends) else 1

    def operands(self) -> list[np.ndarray]:
        if self.resets is None:
            return list(self.chunks)
        return [*self.chunks, np.broadcast_to(self.resets, self.chunks[0].shape)]

    def operator(self) -> scan_task.Operator:
        sizes = tuple(a.itemsize for a in self.operands())
        return device_scan._operator(self.bound, True, self.resets is not None, sizes)

    def plan(self) -> tuple[scan_task.Plan, list[np.ndarray], list[int]]:
        """The plan, the operands and the array for results, and the axes in the order of memory."""
        arrays = self.operands()
        order = device_scan._memory_order(arrays[0], self.axis)
        empty = np.empty([arrays[0].shape[a] for a in order], self.bound.result).transpose(np.argsort(order))
        are_neighbours = arrays[0].strides[order[-1]] == arrays[0].itemsize
        lead = arrays[0].ctypes.data % 16 // arrays[0].itemsize if are_neighbours else 0
        arrays.append(aligned(empty, lead * self.bound.result.itemsize % 16))
        operands = scan_task.Operands(
            tuple(arrays[0].shape[a] for a in order),
            order.index(self.axis),
            tuple(tuple(x.strides[a] for a in order) for x in arrays),
            tuple(x.ctypes.data % 16 for x in arrays),
            self.index_step,
        )
        with (
            mock.patch.multiple(
                scan_columns,
                FEW_CHAINS=3,
                TILES=8,
                WARPS=(16, 10, 8, 6, 4),
                MANY_IN_SEGMENTS=256,
                SHORTEST_ALONE=100,
                WARPS_ALONE={1: 1.0},
                PROCESSORS=1,
                FEWEST_ALONE=2,
            ),
            mock.patch.object(scan_costs, "least", first),
            mock.patch.multiple(
                scan_small_lines,
                RESIDENT=1,
                WARPS=(2, 1),
                ENOUGH=1,
                PLENTY=2,
                RUN=8,
                LEAST_SHARE=1,
                LEAST_SHARE_OF_NARROW=1,
                ENOUGH_PLANE_WARPS=1,
                SHORTEST_SUBWARP_LINE=0,
                LEAST_RUN=16,
            ),
            mock.patch.object(scan_plans, "SHAPES", ((1, 5), (2, 1)) if self.has_gaps(operands) else scan_plans.SHAPES),
            mock.patch.multiple(
                scan_contiguous_columns,
                SHORTEST=8,
                SHORTEST_OF_FEW=2,
                FEW_CHAINS=3,
                TILES=8,
                PLANE_TILES=2,
                GROUPS=GROUPS,
                FEWEST=3,
                LEAST_SHARED_BYTES=0,
                NARROWEST=43,
                LEAST_TILES=1,
                GROUPS_OF_SUMS=((1, 2), (1, 4)),
                GROUPS_OF_WORDS=((64, (1, 2)), (128, (1, 4))),
                GROUPS_OF_EIGHTS=((64, (1, 2)), (128, (1, 4))),
            ),
        ):
            gpu = Gpu(LIMIT, self.processors)
            plan = scan_plans.plan(self.operator(), operands, self.exclusive, self.reverse, gpu, self.method)
        return plan, arrays, order

    def has_gaps(self, operands: scan_task.Operands) -> bool:
        """True where lines do not lie one after another: they are tried in one warp's runs of several packs."""
        scan = scan_task.Scan(self.operator(), operands, self.exclusive, self.reverse, Gpu(LIMIT, self.processors))
        return not all(map(scan.is_contiguous, range(len(scan.sizes))))

    def place(self) -> Place:
        shape = self.chunks[0].shape
        offsets = tuple(self.begin if a == self.axis else 0 for a in range(len(shape)))
        return Place(offsets, tuple(n + o for n, o in zip(shape, offsets, strict=True)))

    def kernels(self) -> list[str]:
        return [step.kernel for step in self.lying()[0].plan()[0].steps]


def unit(calls: Sequence[Call], text: str | None = None) -> Unit:
    """Everything that these calls launch."""
    names = dict.fromkeys(name for call in calls for name in call.kernels())
    return Unit(sources.source("scan.cuh") if text is None else text, tuple(names))


def run(kernels: Kernels, call: Call, schedule: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Results, and the total of each line as a partial."""
    call, turn = call.lying()
    plan, arrays, order = call.plan()
    op, shape = call.operator(), call.chunks[0].shape
    kept = [a for a in order if a != call.axis]
    ends = [shape[a] for a in kept]
    lines = int(np.prod(ends))
    total = np.zeros((lines + BEHIND, op.state_bytes), np.uint8)[:lines]
    carry = None
    if call.carry is not None:
        carry = np.zeros((lines + BEHIND, op.state_bytes), np.uint8)[:lines]
        states = np.ascontiguousarray(call.carry.transpose(*kept, call.axis).reshape(-1))
        carry[:, : call.bound.state.itemsize] = states.view(np.uint8).reshape(lines, -1)
    arrays[-1][...] = np.frombuffer(b"\xa7" * arrays[-1].itemsize, arrays[-1].dtype)[0]  # who writes nothing is wrong
    scratch = np.zeros(plan.scratch_bytes + 128, np.uint8)
    scratch = scratch[-scratch.ctypes.data % 128 :]
    first = [x.ctypes.data + start for x, start in zip(arrays, plan.starts, strict=True)]
    states = scratch.ctypes.data
    head = device_scan._POINTERS.pack(
        *(first[-1], first[0], first[1] if len(first) > 2 else 0),
        *(
            0 if carry is None else carry.ctypes.data,
            total.ctypes.data if call.totals else 0,
            states,
            states + plan.scratch_bytes - 16,
        ),
        *(first[2] if len(first) > 3 else 0, call.begin + (shape[call.axis] - 1 if call.index_step < 0 else 0)),
    )
    for step in plan.steps:
        kernels.launch(
            step.kernel, head + plan.words, step.blocks, step.threads, step.shared_bytes + 16, schedule, seed
        )
    states = np.ascontiguousarray(total[:, : call.bound.state.itemsize]).view(call.bound.state)
    back = np.argsort([*kept, call.axis])
    return arrays[-1][turn], states.reshape(*ends, 1).transpose(back)[turn]


def check(kernels: Kernels, call: Call, schedule: str, seed: int = 0) -> None:
    """The same as the host, results and totals."""
    wanted, behind = host_scan.scan(
        call.chunks, call.bound, call.axis, call.carry, call.exclusive, call.reverse, call.resets, place=call.place()
    )
    got, total = run(kernels, call, schedule, seed)
    few_digits = wanted.dtype == np.float16 and call.bound.monoid.name.endswith(("var", "std"))  # by sums of binary32
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-3 if few_digits else 1e-6, atol=1e-12)
    if not call.totals:
        return
    pairs = [host_reduce.finalise(partial, call.bound) for partial in (total, behind)]
    np.testing.assert_allclose(*pairs, rtol=1e-6, atol=1e-12)
