"""Scans of many columns by a warp a strip: what is taken, and that a GPU has room for as many warps as it should."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device import scan_columns, scan_launch, scan_plans, scan_task
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.operators.table import OPERATORS

LIMIT = 227 << 10  # bytes of shared memory of a block; an SM has 1 KiB more
SHAPE = (32768, 32768)


def plan(name: str, dtype: str, shape=SHAPE, axis=0, segmented=False, exclusive=False, processors=132, pitch=None):
    """Of arrays in C order, of whose last axis there may be more in memory."""
    bound = OPERATORS[name].bind(np.dtype(dtype))
    sizes = (np.dtype(dtype).itemsize, *([1] if segmented else []))
    op = device_scan._operator(bound, True, segmented, sizes)
    whole = (*shape[:-1], pitch or shape[-1])
    strides = tuple(tuple(scan_launch.c_strides(whole, n)) for n in (*sizes, bound.result.itemsize))
    arrays = scan_task.Operands(shape, axis, strides, (0,) * len(strides))
    return scan_plans.plan(op, arrays, exclusive, False, Gpu(LIMIT, processors))


def warps_of(found: scan_task.Plan) -> int:
    """Blocks of one warp that an SM has room for; 0 of a kernel of another kind."""
    (step,) = found.steps
    return (LIMIT + 1024) // (step.shared_bytes + 1024) if step.kernel.startswith("scan_serial_columns<") else 0


@pytest.mark.parametrize(
    ("call", "lane_columns"),
    [
        ({"name": "var", "dtype": "float32"}, 2),
        ({"name": "var", "dtype": "float64", "shape": (32768, 16384)}, 1),
        ({"name": "mean", "dtype": "float16", "shape": (32768, 65536)}, 4),
        ({"name": "var", "dtype": "float16", "shape": (32768, 65536)}, 2),
        ({"name": "nanmean", "dtype": "float32"}, 2),
        ({"name": "var", "dtype": "int32"}, 1),
        ({"name": "sum", "dtype": "float32", "segmented": True, "exclusive": True}, 2),
        ({"name": "var", "dtype": "float32", "shape": (65536, 16384)}, 1),  # two columns a lane would be too few strips
        ({"name": "var", "dtype": "float32", "shape": (64, 1024, 1024), "axis": 1}, 2),
    ],
)
def test_a_warp_takes_a_strip(call, lane_columns):
    found = plan(**call)
    assert warps_of(found) in scan_columns.WARPS_ALONE
    assert re.search(rf", {lane_columns}, \w+>$", found.steps[0].kernel)
    assert found == plan(**call, processors=7)  # bits do not depend on the GPU at hand


@pytest.mark.parametrize(
    "call",
    [
        {"name": "sum", "dtype": "float32"},
        {"name": "var", "dtype": "float32", "exclusive": True},
        {"name": "nanvar", "dtype": "float32"},
        {"name": "var", "dtype": "uint8"},
        {"name": "std", "dtype": "float64", "shape": (32768, 16384)},
        {"name": "mean", "dtype": "complex64"},
        {"name": "mean", "dtype": "int32"},
        {"name": "max", "dtype": "float32", "segmented": True},
        {"name": "var", "dtype": "float32", "shape": (131072, 8192)},  # too few strips
        {"name": "var", "dtype": "float32", "shape": (32768, 32767)},
        {"name": "var", "dtype": "float32", "pitch": 32770},
        {"name": "var", "dtype": "float32", "shape": (255, 1 << 20)},
        {"name": "var", "dtype": "float32", "axis": 1},
    ],
)
def test_left_to_tiles(call):
    assert warps_of(plan(**call)) == 0


def test_warps_of_a_processor():
    """Strips keep all processors busy, in as many waves as that takes."""
    each = scan_columns.PROCESSORS
    assert [scan_columns._warps_of(n * each) for n in (1, 2, 3, 4, 5, 6, 8, 100)] == [0, 0, 3, 4, 5, 3, 8, 8]
