"""Which kernel scans lines, in few columns above all, and what its plan has room for."""

from __future__ import annotations

import math
import struct
from itertools import cycle, islice
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from plan_chunks import NotThere

from gpureduce_dask import errors
from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device import scan_costs, scan_launch, scan_plans, scan_task
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.tools.bench.random_draws import SCANS, Draw, draws, dtype_of

LIMIT, PROCESSORS = 232448, 132  # of an H200
KINDS = tuple(
    kind.split() for kind in ("sum f4", "sum f8", "sum i4", "sum f2", "max f4", "max f8", "max u1", "mean f4", "var f4")
)


def planned(
    name: str, dtype: str, shape: tuple[int, ...], axis: int = 0, clusters: bool = True, step: int = 1
) -> scan_task.Plan:
    """Of elements ``step`` places apart."""
    size = np.dtype(dtype).itemsize
    op = device_scan._operator(OPERATORS[name].bind(np.dtype(dtype)), True, False, (size,))
    strides = tuple(
        tuple(n * int(np.prod(shape[i + 1 :], dtype="i8")) for i in range(len(shape)))
        for n in (step * size, op.out_bytes)
    )
    arrays = scan_task.Operands(shape, axis, strides, (0, 0))
    return scan_plans.plan(op, arrays, False, False, Gpu(LIMIT, PROCESSORS, clusters))


def numbers(plan: scan_task.Plan) -> list[str]:
    """The template arguments behind the types."""
    return plan.steps[0].kernel.rstrip(">").rsplit(">, ", 1)[1].split(", ")


def by_clusters(plan: scan_task.Plan) -> bool:
    return plan.steps[0].scan == "ClusterColumnScan"


@pytest.mark.parametrize(
    ("name", "dtype", "state", "published"),
    [
        ("sum", "f4", 8, 8),
        ("max", "f4", 4, 8),
        ("nansum", "f4", 8, 8),
        ("sum", "f8", 16, 16),
        ("sum", "i8", 8, 16),
        ("max", "f8", 8, 16),
    ],
)
def test_there_is_room_for_what_clusters_do(name, dtype, state, published):
    found, size = 0, np.dtype(dtype).itemsize
    for columns in range(8, 132):
        for length in (300_000, 3_333_333):
            plan = planned(name, dtype, (length, columns))
            if not by_clusters(plan):
                continue
            found += 1
            members = struct.unpack_from("11Q", plan.words)
            links, rows, row_groups = members[6:9]
            groups, each, warps, held = (int(n) for n in numbers(plan) if n != "false")
            radix, blocks = 8, 2  # CLUSTER_RADIX, CLUSTER_BLOCKS (kernels/scan/cluster_columns.cuh)
            step = plan.steps[0]
            assert held == rows
            assert links % blocks == step.blocks % blocks == 0
            assert links * row_groups * rows >= length
            assert row_groups // groups * columns <= 32 * each
            assert row_groups // groups * rows * columns * size % 16 == 0
            assert blocks * warps * 32 >= columns
            scratch = 584 + 3 * 32 * groups * each * max(8, state)
            messages = 64 + 3 * (blocks - 1) * warps * 32 * 2 * 8 * (state // 4)
            assert 3 * row_groups * rows * columns * size + scratch + messages <= step.shared_bytes <= LIMIT
            clusters = links // blocks
            spans, left = divmod(clusters, radix**2)
            states = clusters + spans * (radix + 1) + left // radix + 1
            assert states * blocks * warps * 32 * published <= plan.scratch_bytes - 16
    assert found


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_there_is_room_for_all_tile_states(name, dtype):
    published = {("sum", "f4"): 8, ("sum", "f2"): 8, ("max", "f4"): 8, ("max", "u1"): 8, ("mean", "f4"): 8}
    published |= {("sum", "f8"): 16, ("sum", "i4"): 16, ("max", "f8"): 16, ("var", "f4"): 16}
    for columns in range(2, 130):
        for length in (300, 7001, 450_000, 3_333_333):
            plan = planned(name, dtype, (length, columns))
            if plan.steps[0].scan != "ContiguousColumnScan":
                continue
            links = struct.unpack_from("7Q", plan.words)[6]
            _, each, warps, *_, radix, slots = numbers(plan)
            nbytes = published[name, dtype]
            line = {8: 16, 16: 8, 32: 4}.get(nbytes, 2)  # columns whose tile states fill a line
            per = -(-columns // (int(warps) * line)) * line
            lanes = 32 // per  # that share a column's tile states
            assert int(warps) * per >= columns
            assert int(slots) * lanes >= int(radix) or int(slots) * nbytes >= 64
            assert int(each) * 32 >= columns
            tile, each_span = int(radix), int(radix) ** 2
            spans, left = divmod(links, each_span)
            rows = links + spans * (tile + 1) + left // tile + 1
            wide = int(warps) * per * nbytes
            assert rows * wide <= plan.scratch_bytes - 16, (columns, length)
            assert (links + (spans + 1) * (tile + 1)) * wide <= plan.scratch_bytes - 16  # the whole stride


@pytest.mark.parametrize("radix", [8, 16])
def test_chains_have_room_for_their_tile_states(radix):
    """As TwoLevelLookBack counts them (kernels/scan/chained_look_back.cuh)."""
    for links in range(1, 3000):
        tiles, groups, anchors = links, -(-links // radix), links // radix**2
        assert tiles + groups + anchors <= scan_task.chain_tile_states(links, radix)
        assert scan_task.chain_tile_states(links, radix) == links + (links // radix**2 + 1) * (radix + 1)


def test_gpus_without_clusters_take_none():
    """However much shared memory a block of theirs may have."""
    assert by_clusters(planned("sum", "f4", (10**7, 100)))
    assert not by_clusters(planned("sum", "f4", (10**7, 100), clusters=False))


@pytest.mark.parametrize(("lines", "length"), [((1 << 31) + 5, 2), ((1 << 31) + 5, 40), (1 << 33, 33), (7000, 3)])
def test_positions_of_any_number_of_lines_can_be_launched(lines, length):
    plan = planned("argmax", "u1", (lines, length), 1)
    assert all(0 < step.blocks < 1 << 31 for step in plan.steps)


@pytest.mark.parametrize(
    ("name", "dtype", "columns", "anchored", "radix", "nbytes"),
    [
        ("sum", "f4", 513, True, 8, 8),
        ("max", "i4", 1001, True, 8, 8),
        ("mean", "f4", 513, True, 8, 8),  # how many elements it is of follows from the tile
        ("var", "f4", 520, True, 8, 16),
        ("sum", "i4", 513, True, 8, 16),
        ("mean", "f8", 520, True, 16, 48),
        ("sum", "f4", 32767, False, 0, 16),  # many chains
    ],
)
def test_strips_have_room_for_what_their_tiles_publish(name, dtype, columns, anchored, radix, nbytes):
    plan = planned(name, dtype, (10**6, columns))
    chains, links = struct.unpack_from("7Q", plan.words)[5:7]
    warps = int(numbers(plan)[1])  # that look back for a tile: one for each of a lane's columns
    states = links + (links // radix**2 + 1) * (radix + 1) if anchored else 1
    assert numbers(plan)[3] == ("true" if anchored else "false")
    assert plan.scratch_bytes == chains * states * 32 * warps * nbytes + 16


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "expected"),
    [
        ("max", "f4", (1 << 30,), ["16", "7", "false"]),  # many rounds along long lines
        ("max", "f4", (32, 1 << 25), ["16", "7", "true"]),
        ("sum", "f4", (1 << 30,), ["10", "11", "false"]),
        ("sum", "f4", (1 << 24,), ["20", "5", "false"]),
        ("sum", "f4", (8192, 1 << 17), ["20", "5", "true"]),
        ("max", "f2", (1 << 20,), ["20", "5", "false"]),
        ("sum", "u1", (1 << 30,), ["24", "11", "false"]),  # narrow elements take little shared memory
        ("std", "f8", (1 << 15, 1 << 14), ["12", "9", "true"]),  # a large state
    ],
)
def test_tiles_of_rows_fit_into_shared_memory(name, dtype, shape, expected):
    plan = planned(name, dtype, shape, len(shape) - 1)
    assert plan.steps[0].scan == "RowScan"
    assert numbers(plan)[:3] == expected
    assert plan.steps[0].shared_bytes <= LIMIT


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "step", "expected"),
    [
        ("max", "f4", (1 << 24,), 1, "true"),
        ("max", "f4", (1 << 24,), 2, "false"),  # copied unit by unit
        ("max", "f4", (1 << 12, 1 << 12), 1, "false"),  # many shares have ends of lines
        ("sum", "i4", (4, 1 << 24), 1, "true"),
        ("sum", "i2", (1 << 24,), 1, "false"),  # much to write for each element that is read
        ("sum", "f4", (1 << 24,), 1, "false"),
        ("argmax", "f4", (1 << 24,), 1, "false"),
    ],
)
def test_warps_keep_step_along_long_lines(name, dtype, shape, step, expected):
    plan = planned(name, dtype, shape, len(shape) - 1, step=step)
    assert plan.steps[0].scan == "RowScan"
    assert numbers(plan)[-1] == expected


@pytest.mark.parametrize(
    ("shape", "axis", "lanes", "splits"),
    [
        ((1 << 23,), 0, 32, 4096),
        ((64, 1 << 18), 1, 32, 64),
        ((64, 3000), 1, 32, 1),  # of fewer elements than a part has
        ((4096, 1 << 14), 1, 32, 1),
        ((1 << 20, 8), 0, 1, 1 << 14),
        ((300, 1 << 14), 0, 1, 1),
    ],
)
def test_three_operands_are_scanned_by_warps_along_memory_and_by_threads_across_it(shape, axis, lanes, splits):
    bound = OPERATORS["affine"].bind(np.dtype("f4"), np.dtype("f4"))
    op = device_scan._operator(bound, True, True, (4, 4, 1))
    strides = tuple(tuple(scan_launch.c_strides(shape, n)) for n in (4, 4, 1, op.out_bytes))
    plan = scan_plans.plan(op, scan_task.Operands(shape, axis, strides, (0,) * 4), False, False, Gpu(LIMIT, PROCESSORS))
    steps = [step.scan for step in plan.steps]
    assert steps == (["scan_fold_parts", "scan_parts", "scan_lines"] if splits > 1 else ["scan_lines"])
    assert numbers(plan)[2] == str(lanes)
    assert plan.scratch_bytes == (0 if splits == 1 else math.prod(shape) // shape[axis] * splits * op.state_bytes)
    assert plan.steps[0].blocks * plan.steps[0].threads >= math.prod(shape) // shape[axis] * splits * lanes


# ---- the plan that is predicted to take least

GPUS = (
    Gpu(LIMIT, PROCESSORS),
    Gpu(166912, 108, False, 1.9e12),
    Gpu(101376, 84, False, 9e11),
    Gpu(49152, 20, False, 3e11),
)


def not_there(draw: Draw) -> NotThere:
    return NotThere.of(draw.base, dtype_of(draw.dtype), draw.view)


def drawn(draw: Draw, gpu: Gpu, method: str = "look-back") -> scan_task.Plan:
    with (
        mock.patch.object(scan_launch, "gpu", return_value=gpu),
        mock.patch.object(scan_launch, "load", return_value=((), ())),
    ):
        bound, (axis,) = OPERATORS[draw.op].bind(dtype_of(draw.dtype)), draw.axes
        way = device_scan._Way.of(axis, draw.mode == "reverse", draw.mode == "exclusive")
        chunks, way, _ = device_scan._turned((not_there(draw),), way)
        return device_scan._prepare(chunks, None, bound, way, False, 0, method).plan


def test_plans_of_random_scans_are_within_the_limits_of_any_gpu():
    kernels = set()
    for draw, gpu in zip(islice(draws(5, (1e-4, 0.01, 1, 64, 5000), (SCANS,)), 1200), cycle(GPUS), strict=False):
        plan = drawn(draw, gpu)
        kernels.add(plan.steps[0].scan)
        assert plan.seconds > 0
        for step in plan.steps:
            assert 0 < step.blocks < 1 << 31 and 0 < step.threads <= 1024 and step.threads % 32 == 0, draw.label
            assert step.shared_bytes <= gpu.shared_bytes, draw.label
    assert kernels > {"RowScan", "scan_lines", "StripScan", "scan_thread_columns", "SubwarpLineScan"}


def test_one_tile_of_few_columns_fits_into_shared_memory():
    """Where a row more than fits would put lanes into different banks."""
    some = Draw(SCANS, "nanmax", "float64", 0.01, (870, 3), ((None, None, 2), (None, None, None)), (0, 1), (0,))
    assert all(step.shared_bytes <= GPUS[2].shared_bytes for step in drawn(some, GPUS[2]).steps)


def test_what_takes_longer_is_predicted_to():
    """More bytes, fewer processors, less bandwidth; positions and axes of one element change no kernel's reach."""

    def seconds(shape: tuple[int, ...], axis: int = 0, gpu: Gpu = GPUS[0]) -> float:
        draw = Draw(
            SCANS, "sum", "float32", 1, shape, ((None, None, None),) * len(shape), (*range(len(shape)),), (axis,)
        )
        return drawn(draw, gpu).seconds

    assert seconds((1 << 20,)) < seconds((1 << 24,)) < seconds((1 << 28,))
    assert seconds((1 << 24, 16), 1) < seconds((1 << 24, 16), 1, GPUS[1]) < seconds((1 << 24, 16), 1, GPUS[3])
    assert seconds((1, 46, 2917776), 2) == seconds((46, 2917776), 1)


def test_each_kernel_has_one_plan_which_it_can_be_asked_for():
    found = set()
    for draw in islice(draws(6, (0.01, 1, 64), (SCANS,)), 120):
        chunk, bound = not_there(draw), OPERATORS[draw.op].bind(dtype_of(draw.dtype))
        modes = (draw.mode == "exclusive", draw.mode == "reverse")
        every = [each.kernel for each in device_scan.features((chunk,), bound, draw.axes[0], *modes, GPUS[0])]
        assert len(set(every)) == len(every) > 0
        assert scan_costs.kernel_of(drawn(draw, GPUS[0])) in every
        for kernel in every:
            assert scan_costs.kernel_of(drawn(draw, GPUS[0], kernel)) == kernel
        found.update(every)
    assert found <= GPUS[0].costs.keys()
    with pytest.raises(errors.ArgumentError, match=r"'scan_unknown'.*'reduce-then-scan' or '\w+"):
        drawn(draw, GPUS[0], "scan_unknown")


def test_a_stride_that_leads_nowhere_does_not_matter():
    """NumPy turns that of an axis of one element around."""
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    chunks = [NotThere.of((1, 50_000, 7, 5), "f4", view) for view in (lambda x: x, lambda x: x[::-1])]
    assert chunks[1].strides[0] < 0
    kernels, same = ([f.kernel for f in device_scan.features((x,), bound, 2, False, False, GPUS[0])] for x in chunks)
    assert kernels == same and "SmallLineScan" in kernels
