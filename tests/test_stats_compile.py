"""Kernels of products compile for three generations of GPU, keep to registers, and lay states out as Python does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tiers import slow

pytest.importorskip("cupy", reason="it brings the binding of NVRTC")

from cupy_backends.cuda.libs import nvrtc

try:
    nvrtc.getVersion()
except RuntimeError as error:
    pytest.skip(f"NVRTC does not load: {error}", allow_module_level=True)

from kernel_calls import FAMILIES, Call, launched
from kernel_facts import ARCHITECTURES, check, facts_of, faults

from gpureduce_dask.device import tuning
from gpureduce_dask.device.operator import cuda_operator
from gpureduce_dask.errors import CompileError
from gpureduce_dask.graph.statistics import plan_parts
from gpureduce_dask.operators.monoid import Bound

FIVE = "min max mean std argmax"
PRODUCTS = [
    (FIVE, "f4"),
    (FIVE, "f8"),
    ("argmin argmax sum std", "u1"),
    ("min max argmin argmax mean skew nancount", "f2"),
    ("max mean std nancount", "c8"),
    ("nanmin nanmax nanmean nanvar any", "f4"),
    ("min first last", "i2"),
]
CODED = ("line", "columns", "many in a row")  # families whose machine code is made here


@dataclass(frozen=True)
class Asked:
    """Stands in for a row of the table: binds to a product."""

    names: str
    unsafe_cuda: str = ""

    def bind(self, *dtypes: Any, dtype: Any = None) -> Bound:
        return plan_parts("stats", self.names.split(), np.dtype(dtypes[0]), 0)[0]


def kernels(names: str, dtype: str, families: Any = FAMILIES) -> dict[str, Call]:
    row: Any = Asked(names)
    return launched([Call(row, (np.dtype(dtype),), family, False) for family in families])


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_every_family_passes_the_front_end(number: int) -> None:
    names, dtype = PRODUCTS[number]
    found = kernels(names, dtype)
    assert len(found) > 9
    assert check([*found], ARCHITECTURES[number % 3])


@pytest.mark.parametrize(("number", "architecture"), [slow(0, "sm_80"), (1, "sm_90"), slow(2, "sm_100")])
def test_machine_code_does_not_spill(number: int, architecture: str) -> None:
    found = kernels(FIVE, "f4", CODED[number:][:1]) | kernels(*PRODUCTS[1 + number], CODED[number - 1 :][:1])
    facts = facts_of([*found], architecture)
    wrong = [f"{fault}: {name}" for name, call in found.items() for fault in faults(name, call.dtypes, facts[name])]
    assert not wrong, "\n".join(wrong)


PROBE = "template <int N> __global__ void probe(int* x) { x[0] = N; }"


def tells_offsets() -> bool:
    """Whether this NVRTC knows where a struct's members begin: 13.0 does not."""
    try:
        return check(["probe<1>"], text=f'static_assert(__builtin_offsetof(Twofold, lo) == 8, "layout");\n{PROBE}')
    except CompileError:
        return False


def test_states_are_laid_out_as_structs() -> None:
    """Sizes, and where each part's state begins: the compiler is asked."""
    checks, with_offsets = [], tells_offsets()
    for names, dtype in PRODUCTS:
        whole = Asked(names).bind(dtype)
        at = f"{cuda_operator(whole).type}::State"
        checks.append(f"sizeof({at}) == {whole.state.itemsize}")
        for depth, offset in enumerate(whole.offsets[1:] if with_offsets else (), 1):
            checks.append(f"__builtin_offsetof({at}, {('.tail' * depth)[1:]}) == {offset}")
        op = cuda_operator(whole)
        for vector, blocks in tuning.CROWDED_BLOCKS.items() if op.crowded else ():
            items = tuning.CROWDED_ITEMS[vector]
            checks.append(f"Resident<{op.type}, {vector}, {items}, true>::blocks == {blocks}")
    text = "\n".join(f'static_assert(({one}), "layout");' for one in checks)
    assert check(["probe<1>"], text=f"{text}\n{PROBE}")
    with pytest.raises(CompileError, match="layout"):
        check(["probe<1>"], text=f"{text.replace(' == ', ' != ', 1)}\n{PROBE}")
