"""The kernels of products on the CPU: the same text, plans and task bytes as on a GPU, against the host's answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from gpu.samples import close, make, view_of
from plan_machine import taken
from simt import SCHEDULES, build
from simt.backend import Emulator, put
from simt.cases import LAYOUTS, small_grids, unpacked

from gpureduce_dask import chunk
from gpureduce_dask.chunk import Place
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.graph.statistics import Statistic, plan_parts
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators.monoid import Bound

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FIVE = "min max mean std argmax"
# What is asked of which elements, and the layouts that it meets.
CASES = [
    *[(FIVE, "float32", layout) for layout in ("line inside", "rows with edges", "short rows", "even rows", "columns")],
    *[(FIVE, "float32", layout) for layout in ("staged rows", "subwarp rows", "short lines", "columns of odd stride")],
    ("argmin argmax mean", "float32", "line inside"),
    ("argmin argmax min max sum", "uint8", "columns"),
    ("argmin var count", "uint8", "columns with gaps end to end"),
    ("argmax nanmean nanstd nancount", "float16", "planes"),
    ("nanmin nanargmax nanmean nanvar nancount", "float32", "few columns"),
    ("sum skew std argmin", "float64", "long lines"),
    ("mean std max nancount", "complex64", "columns"),
    ("max count nancount", "float32", "rows with edges"),
    ("min first last", "int32", "rows with edges"),
    ("min first last", "int32", "columns"),
]


def asked(names: str, dtype: str) -> tuple[Bound, list[Statistic]]:
    return plan_parts("stats", names.split(), np.dtype(dtype), 0)


def check(machine: Emulator, case: tuple[str, str, str], seed: int) -> None:
    """Each statistic of one chunk, from the product's partial."""
    names, dtype, at = case
    whole, statistics = asked(names, dtype)
    layout, array = LAYOUTS[at], make(LAYOUTS[at].shape, dtype, seed, "nan" in names)
    x = view_of(array, layout.view)
    with taken(layout.way):
        ours = device_reduce.reduce((put(array, lambda a: view_of(a, layout.view), seed % 2 == 1),), whole, layout.axes)
    if machine.collecting:
        return
    for statistic in statistics:
        compare(chunk.cut(unpacked(ours, whole), statistic.bound, statistic.offset), x, statistic.bound, layout.axes)


def compare(partial: np.ndarray, x: np.ndarray, bound: Bound, axes: tuple[int, ...]) -> None:
    wanted = host_reduce.reduce((x,), bound, axes)
    if bound.indexed:
        np.testing.assert_array_equal(partial["index"], wanted["index"], err_msg=bound.name)
    if bound.name.startswith("nanarg"):
        return
    terms = x.size // max(1, wanted.size) * (10000 if bound.name == "skew" else 1)
    close(host_reduce.finalise(partial, bound), host_reduce.finalise(wanted, bound), bound, terms)


def check_batch(machine: Emulator) -> None:
    """Chunks of one array in one launch: all positions are moved, those of argmin and those of argmax."""
    whole, statistics = asked("argmin mean argmax", "float32")
    x = make((24, 50), "float32", 3)
    parts = [(slice(i, i + 8), slice(j, j + 25)) for i in (0, 8, 16) for j in (0, 25)]
    places = [Place((rows.start, columns.start), x.shape) for rows, columns in parts]
    for axes in ((0, 1), (0,)):
        some = [i for i, (_, columns) in enumerate(parts) if axes == (0, 1) or columns.start == 0]
        chunks = [(put(np.ascontiguousarray(x[parts[i]])),) for i in some]
        ours = device_reduce.reduce_many(chunks, whole, axes, [places[i] for i in some])
        there = x if axes == (0, 1) else x[:, :25]
        if not machine.collecting:
            for statistic in statistics:
                partial = chunk.cut(unpacked(ours, whole), statistic.bound, statistic.offset)
                compare(partial, there, statistic.bound, axes)


def check_fold(machine: Emulator) -> None:
    """Partials to one, as a combine does."""
    whole, statistics = asked(FIVE, "float32")
    x = make((12, 5, 7), "float32", 4)
    partials = [
        host_reduce.reduce((part,), whole, (0,), Place((4 * i, 0, 0), x.shape)) for i, part in enumerate(np.split(x, 3))
    ]
    stacked = np.stack([p.view("u1").reshape(*p.shape, whole.state.itemsize) for p in partials])
    ours = device_reduce.combine_axis(put(stacked), whole, 0)
    if not machine.collecting:
        for statistic in statistics:
            partial = chunk.cut(unpacked(ours, whole)[0], statistic.bound, statistic.offset)
            compare(partial, x, statistic.bound, (0,))


def check_first(machine: Emulator) -> None:
    """Down columns of few values: of equals the first is kept, with the sign of its zero; so is the first NaN."""
    whole, statistics = asked("argmin argmax mean std", "float32")
    values = np.array([-0.0, 0.0, -1, 1, np.nan, -np.inf], "f4")
    kinds = [[0, 1], [1, 0], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3], [0, 1, 4], [5], [2, 4], [5, 0, 1]]
    rng = np.random.default_rng(5)
    x = np.stack([values[rng.choice(kinds[i % len(kinds)], 600)] for i in range(64)], axis=1)
    ours = device_reduce.reduce((put(x),), whole, (0,))
    if not machine.collecting:
        for statistic in statistics:
            partial = chunk.cut(unpacked(ours, whole), statistic.bound, statistic.offset)
            compare(partial, x, statistic.bound, (0,))
            if statistic.bound.indexed:
                found = x[partial["index"].ravel(), np.arange(64)]
                np.testing.assert_array_equal(partial["value"].ravel().view("u4"), found.view("u4"))


def calls(machine: Emulator) -> None:
    for number, case in enumerate(CASES):
        for seed in (number, number + 1):
            check(machine, case, seed)
    check_batch(machine)
    check_fold(machine)
    check_first(machine)


@pytest.fixture(scope="module")
def machine() -> Iterator[Emulator]:
    emulator = Emulator()
    with small_grids():
        emulator.adopt(build(emulator.collect(lambda: calls(emulator), parts=2), libraries=2))
        with emulator.installed():
            yield emulator


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(case) for case in CASES])
def test_each_statistic(machine: Emulator, number: int) -> None:
    for turn in range(2):
        machine.schedule, machine.seed = SCHEDULES[(number + turn) % len(SCHEDULES)], number
        check(machine, CASES[number], number + turn)


def test_batches(machine: Emulator) -> None:
    check_batch(machine)


def test_folds(machine: Emulator) -> None:
    check_fold(machine)


def test_the_first_of_equals(machine: Emulator) -> None:
    for _ in machine.orders():
        check_first(machine)
