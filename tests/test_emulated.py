"""The kernels on the CPU: the same text, plans and task bytes as on a GPU, against the host's answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tiers import one_in, slow

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from gpu.samples import make
from simt import SCHEDULES, build
from simt.backend import Emulator, put
from simt.cases import (
    DEEP,
    DEEP_CASES,
    FINISHES,
    INTEGERS,
    LAYOUTS,
    LOGIC,
    PARTIAL,
    TABLE,
    Case,
    check_backward,
    check_batch,
    check_empty,
    check_exact,
    check_far,
    check_fold,
    check_freedom,
    check_gaps,
    check_integers,
    check_nothing,
    check_outlier,
    check_products,
    check_refused,
    check_rows_apart,
    check_scales,
    check_ties,
    check_zeros,
    small_grids,
    unpacked,
)

from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.operators.monoid import Bound

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def calls(machine: Emulator) -> None:
    """Everything that the tests below launch."""
    for case in itertools.chain(*TABLE.values(), FINISHES):
        case.check(machine)
    for (name, layout), seed in itertools.product(DEEP_CASES, (0, 1)):  # at either end of its memory
        Case(DEEP[name], layout, seed, forms=PARTIAL).check(machine)
    for name in DEEP:
        check_batch(machine, name)
        check_fold(machine, name)
    for bound in LOGIC:
        check_zeros(machine, bound)
    check_exact(machine)
    check_products(machine)
    check_far(machine)
    check_outlier(machine)
    check_scales(machine)
    check_rows_apart(machine)
    check_freedom(machine)
    check_gaps(machine)
    for integer in INTEGERS:
        check_integers(machine, integer)
    check_ties(machine)
    check_backward(machine)
    check_nothing(machine)
    check_empty(machine)
    check_refused(machine)


@pytest.fixture(scope="module")
def machine() -> Iterator[Emulator]:
    emulator = Emulator()
    with small_grids():
        emulator.adopt(build(emulator.collect(lambda: calls(emulator), parts=4), libraries=4))
        with emulator.installed():
            yield emulator


@pytest.mark.parametrize("dtype", one_in(3, TABLE))
def test_every_row(machine: Emulator, dtype: str) -> None:
    for number, case in enumerate(TABLE[dtype]):
        machine.schedule, machine.seed = SCHEDULES[number % len(SCHEDULES)], number
        case.check(machine)


@pytest.mark.parametrize(("name", "layout"), [slow(*case) if i % 5 else case for i, case in enumerate(DEEP_CASES)])
def test_every_layout_and_schedule(machine: Emulator, name: str, layout: str) -> None:
    for number, _ in enumerate(machine.orders()):
        Case(DEEP[name], layout, number, forms=PARTIAL).check(machine)


@pytest.mark.parametrize("case", FINISHES, ids=lambda c: f"{c.bound.name}-{c.layout}-{c.finish}")
def test_finishes_agree(machine: Emulator, case: Case) -> None:
    for _ in machine.orders():
        case.check(machine)


@pytest.mark.parametrize("bound", LOGIC, ids=lambda b: f"{b.name}-{b.dtypes[0]}")
def test_zeros(machine: Emulator, bound: Bound) -> None:
    check_zeros(machine, bound)


def test_bytes_between_columns_of_booleans(machine: Emulator) -> None:
    check_gaps(machine)


def test_zeros_in_every_block(machine: Emulator) -> None:
    for _ in machine.orders(seeds=3):
        check_nothing(machine)


def test_float64_sums_are_exact(machine: Emulator) -> None:
    check_exact(machine)


def test_products_of_all_sizes(machine: Emulator) -> None:
    check_products(machine)


def test_variances_far_from_zero(machine: Emulator) -> None:
    for _ in machine.orders():
        check_far(machine)


def test_variances_of_lanes_far_apart(machine: Emulator) -> None:
    check_outlier(machine)


def test_standardised_moments_of_any_size(machine: Emulator) -> None:
    check_scales(machine)


def test_rows_do_not_depend_on_each_other(machine: Emulator) -> None:
    check_rows_apart(machine)


def test_variances_without_degrees_of_freedom(machine: Emulator) -> None:
    for _ in machine.orders():
        check_freedom(machine)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_moments_of_narrow_integers_are_exact(machine: Emulator, dtype: np.dtype[Any]) -> None:
    for _ in machine.orders():
        check_integers(machine, dtype)


def test_the_first_of_equal_elements(machine: Emulator) -> None:
    for _ in machine.orders(seeds=2):
        check_ties(machine)


def test_batches_of_lines_that_lie_backwards(machine: Emulator) -> None:
    for _ in machine.orders():
        check_backward(machine)


@pytest.mark.parametrize("name", DEEP)
def test_batches(machine: Emulator, name: str) -> None:
    for _ in machine.orders():
        check_batch(machine, name)


@pytest.mark.parametrize("name", DEEP)
def test_folds(machine: Emulator, name: str) -> None:
    for _ in machine.orders():
        check_fold(machine, name)


def test_empty(machine: Emulator) -> None:
    check_empty(machine)


def test_slices_without_an_answer(machine: Emulator) -> None:
    check_refused(machine)


@pytest.mark.parametrize("name", DEEP)
def test_bits_do_not_depend_on_the_schedule(machine: Emulator, name: str) -> None:
    layout, bound = LAYOUTS["line inside"], DEEP[name]
    chunk = put(make(layout.shape, bound.dtypes[0]), layout.view)
    seen = set()
    for _ in machine.orders(seeds=3):
        state = unpacked(device_reduce.reduce((chunk,), bound, layout.axes), bound)
        seen.add(tuple(field.tobytes() for field in bound.unpack(state)))  # padding between fields is nobody's
    assert len(seen) == 1
