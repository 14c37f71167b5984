"""The scan kernels on the CPU, against the host: every order of events gives the same answer, and defects show."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from simt import SCHEDULES, Kernels, SimtError, build
from simt.scans import Call, aligned, check, run, unit

from gpureduce_dask.chunk import host
from gpureduce_dask.device import sources
from gpureduce_dask.operators import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def make(shape: tuple[int, ...], dtype: str, seed: int = 0, phase: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, shape) if np.dtype(dtype).kind == "i" else rng.random(shape) - 0.25
    return aligned(x.astype(dtype), phase)


def call(name: str, dtype: str, shape: tuple[int, ...], axis: int = 0, phase: int = 0, view=None, **options) -> Call:
    bound = OPERATORS[name].bind(*[np.dtype(dtype)] * OPERATORS[name].arity)
    chunks = tuple(make(shape, dtype, i, phase) for i in range(bound.monoid.arity))
    if view is not None:
        chunks = tuple(view(x) for x in chunks)
    shape = chunks[0].shape
    if options.pop("carried", False):
        ends = tuple(1 if a == axis else n for a, n in enumerate(shape))
        first = tuple(make(ends, dtype, 5 + i) for i in range(bound.monoid.arity))
        options["carry"] = host.reduce(first, bound, (axis,))
    if options.pop("segmented", False):
        options["resets"] = aligned(np.random.default_rng(3).random(shape) < 0.1, phase // np.dtype(dtype).itemsize)
    return Call(bound, chunks, axis, **options)


def transposed(x: np.ndarray) -> np.ndarray:
    return x.T


CALLS = {
    "one tile": call("sum", "f4", (100,)),
    "one element": call("sum", "f4", (1,)),
    "tiles": call("sum", "f4", (5000,), carried=True),
    "more than a stretch": call("sum", "f4", (40_000,)),
    "unaligned": call("sum", "f4", (5003,), phase=12),
    "in pairs": call("sum", "f8", (3001,), phase=8),
    "wider results": call("sum", "i4", (5000,), carried=True),
    "narrow elements": call("sum", "i1", (9000,), phase=0),
    "maxima": call("max", "f4", (3000,)),
    "exclusive": call("sum", "i4", (5000,), exclusive=True),
    "reverse": call("sum", "i4", (5001,), reverse=True, phase=4, carried=True),
    "in order": call("affine", "f8", (2000,), carried=True),
    "in order, reverse": call("affine", "f8", (2000,), reverse=True),
    "short lines": call("sum", "i4", (300, 17), 1, carried=True),
    "lines of one": call("sum", "i4", (2000, 1), 1, carried=True),
    "lines of tiles": call("sum", "i4", (3, 3001), 1, carried=True, phase=4),
    "lines, reverse and exclusive": call("sum", "i4", (41, 130), 1, carried=True, reverse=True, exclusive=True),
    "lines along the first axis": call("sum", "i4", (130, 41), 0, view=transposed, carried=True),
    "segments": call("sum", "i4", (5000,), segmented=True, exclusive=True),
    "segments in lines": call("sum", "i4", (30, 400), 1, segmented=True, carried=True),
    "columns": call("sum", "f4", (200, 300), 0, carried=True),
    "columns, reverse": call("sum", "i4", (200, 30), 0, reverse=True, carried=True),
    "columns of segments": call("sum", "i4", (40, 30), 0, segmented=True, exclusive=True),
    "middle axis": call("sum", "f4", (3, 150, 5), 1, carried=True),
    "strided": call("sum", "f8", (2000,), view=lambda x: x[1::3], carried=True),
    "backwards": call("affine", "f8", (900,), view=lambda x: x[::-1]),
}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build([unit(list(CALLS.values()))])[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CALLS)
def test_scan(kernels, name, schedule):
    check(kernels, CALLS[name], schedule, seed=len(name))


def test_bits_do_not_depend_on_the_order_of_events(kernels):
    for name in ("more than a stretch", "in pairs"):
        first, _ = run(kernels, CALLS[name], "forward")
        for seed, schedule in enumerate(SCHEDULES):
            again, _ = run(kernels, CALLS[name], schedule, seed)
            np.testing.assert_array_equal(first, again)


# what is wrong: the text, what stands there instead, and calls that show it
DEFECTS = {
    "a barrier's number comes again too soon": (
        "return 1 + round % (2 * LAG);",
        "return 1 + round % (LAG + 1);",
        ("short lines",),
    ),
    "nobody waits for copies": ("wait_copies<1>();", "", ("tiles",)),
    "one copy too many is left under way": ("wait_copies<1>();", "wait_copies<2>();", ("tiles",)),
    "a state is read before it is posted": (
        "marks &= seen.y & seen.w;",
        "",
        ("tiles", "more than a stretch"),
    ),
    "bases are read before they are found": ("wait_at(found(round - LAG), meeting);", "__syncwarp();", ("tiles",)),
    "a tile looks back at itself": ("one >= begin && one < tile", "one >= begin && one <= tile", ("tiles",)),
    "a stretch leaves out its last tile": (
        "reach.breaks ? own : Op::combine(whole, own)",
        "reach.breaks ? own : whole",
        ("more than a stretch",),
    ),
    "operands swapped": (
        "state = Op::combine(earlier, state);",
        "state = Op::combine(state, earlier);",
        ("in order",),
    ),
    "a line begins one element late": (
        "if (!Ends || --at.left != 0) continue;",
        "if (!Ends || at.left-- != 0) continue;",
        ("short lines",),
    ),
    "lines in reverse take each other's carries": (
        "return Reverse ? task.lines - 1 - line : line;",
        "return line;",
        ("lines, reverse and exclusive",),
    ),
    "parts leave out a remainder": (
        "share = (task.length + task.tiles - 1) / task.tiles",
        "share = task.length / task.tiles",
        ("columns", "strided"),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_shows(name):
    right, wrong, shown = DEFECTS[name]
    text = sources.source("scan.cuh")
    assert text.count(right) >= 1, "the defect follows the kernel"
    calls = [CALLS[n] for n in shown]
    broken = build([unit(calls, text.replace(right, wrong))])[0]
    with pytest.raises((SimtError, AssertionError)):
        for one in calls:
            for seed in range(6):
                for schedule in SCHEDULES:
                    check(broken, one, schedule, seed)
