"""Kernels compile for three generations of GPU, keep to registers and load as widely as planned. NVRTC needs no GPU.

A specialisation is a name expression that a plan gives for a row of the table on dtypes that it takes, as a partial or
as results, on one of the families of layouts of :mod:`kernel_calls`: some 34,000. What proves what:

- By default those of one call in 400 are looked at, and one generation of GPU by most tests; what is slow looks at all.
- All of them go through the compiler's front end here: parsed, checked and instantiated, but for those that differ only
  in what they write from others that do. The answer is one for sm_80, sm_90 and sm_100: the text does not tell them
  apart.
- Machine code is made here for sm_90 of a sixth of the rows in every kernel, which are drawn anew for each text of the
  kernels, on a dtype and a layout, and for the other architectures of one row in every kernel. It must keep to
  registers, as the launch layer compiles it, and load as widely as its plan says.
- Machine code of every operator type in every kernel, each way it goes and on every architecture, takes an hour or two:
  ``python tests/sweep_kernels.py``, which keeps what it has found out about kernels that do not change.
- Plans of layouts beyond the list choose kernels that go no other way than those of the list.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="it brings the binding of NVRTC")

from cupy_backends.cuda.libs import nvrtc

try:
    nvrtc.getVersion()
except RuntimeError as error:
    pytest.skip(f"NVRTC does not load: {error}", allow_module_level=True)

from kernel_calls import ELEMENTS, FAMILIES, ROWS, Call, dtypes_of, launched, listing
from kernel_calls import calls as every_call
from kernel_facts import ARCHITECTURES, MAIN, Facts, batched, check, facts_of, faults, front_end, variant
from plan_chunks import Chunk, laid
from plan_machine import chosen, parameters, planned
from sweep_kernels import text_digest
from tiers import slow

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import histogram, sources
from gpureduce_dask.device.operator import cuda_operator
from gpureduce_dask.errors import CompileError
from gpureduce_dask.operators.monoid import Bound
from gpureduce_dask.operators.table import OPERATORS


@cache
def some(share: int) -> dict[str, Call]:
    """Specialisations of one call in so many, drawn anew for each text of the kernels; of all calls where it is 1."""
    asked = [*every_call()] if share > 1 else []
    return launched(random.Random(text_digest()).sample(asked, len(asked) // share)) if asked else listing()


def kernels_of(share: int) -> set[str]:
    """What the specialisations have to be of: all kernels, where all calls were asked for."""
    return {*parameters()} if share == 1 else {chosen(name).kernel for name in some(share)}


SHARES = [400, slow(1)]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as workers:
        yield workers


# ---- every specialisation, in the front end


def unlike(calls: dict[str, Call]) -> list[str]:
    """All that dtype= asks for; of others that differ only in what they write, a partial or results, one, in turn."""
    alike: dict[Any, list[str]] = {}
    for name in sorted(calls):
        what = chosen(name)
        how = [value for parameter, value in what.arguments.items() if parameter != "Emit"]
        alike.setdefault(name if calls[name].dtype is not None else (what.kernel, *how), []).append(name)
    return [some[turn % len(some)] for turn, some in enumerate(alike.values())]


def written(names: Iterable[str]) -> set[tuple[str, str]]:
    return {(what.arguments["Op"], what.arguments["Emit"]) for what in map(chosen, names)}


@pytest.mark.parametrize("share", SHARES)
def test_every_specialisation_passes_the_front_end(pool: ProcessPoolExecutor, share: int) -> None:
    calls = some(share)
    names = unlike(calls)
    assert {chosen(name).kernel for name in names} == kernels_of(share)
    assert share > 1 or {calls[name].family for name in calls} == {*FAMILIES}
    assert share > 1 or written(names) == written(calls)
    by_text: dict[str, list[str]] = {}
    for name in names:
        by_text.setdefault(calls[name].row.unsafe_cuda, []).append(name)
    jobs = [(part, text) for text, some in by_text.items() for part in batched(some, 600)]
    turns = [ARCHITECTURES[i % 3] for i in range(len(jobs))]
    for done in [pool.submit(check, part, arch, text) for (part, text), arch in zip(jobs, turns, strict=True)]:
        assert done.result()


def test_the_text_is_one_for_the_three_architectures() -> None:
    """So what the front end checks for one of them holds for all."""
    asked = re.findall(r"__CUDA_ARCH__([^&|/\n]*)", sources.source())
    assert asked and {limit.strip() for limit in asked} == {">= 800"}


# ---- machine code


def drawn(calls: dict[str, Call]) -> list[tuple[str, str]]:
    """A sixth of the rows in every kernel for sm_90, at least one, and another one for each of the others."""
    draw = random.Random(text_digest())
    by_kernel: dict[str, dict[str, str]] = {}  # and row
    for name in draw.sample(sorted(calls), len(calls)):
        by_kernel.setdefault(chosen(name).kernel, {})[calls[name].row.name] = name
    sample = []
    for _, by_row in sorted(by_kernel.items()):
        for architecture in sorted(ARCHITECTURES, key=lambda a: a != MAIN):  # which a kernel of one row is drawn for
            share = -(-len(by_row) // 6) if architecture == MAIN else min(1, len(by_row))
            sample += [(architecture, by_row.pop(row)) for row in draw.sample(sorted(by_row), share)]
    return sample


@pytest.mark.parametrize(("share", "architectures"), [(SHARES[0], [MAIN]), slow(1, ARCHITECTURES)])
def test_rows_in_each_kernel_are_machine_code_without_spills(
    pool: ProcessPoolExecutor, share: int, architectures: Sequence[str]
) -> None:
    calls = some(share)
    alike: dict[tuple[str, str], list[str]] = {}
    for architecture, name in drawn(calls):
        if architecture in architectures:
            alike.setdefault((architecture, calls[name].row.unsafe_cuda), []).append(name)
    jobs = [(part, arch, text) for (arch, text), names in alike.items() for part in batched(names, 10)]
    found = [(job[1], done.result()) for job, done in [(job, pool.submit(facts_of, *job)) for job in jobs]]
    wrong = [
        f"{architecture}: {fault}: {name} ({calls[name]})"
        for architecture, facts in found
        for name in facts
        for fault in faults(name, calls[name].dtypes, facts[name])
    ]
    assert not wrong, "\n".join(wrong)
    assert {(a, chosen(name).kernel) for a, facts in found for name in facts} >= {
        (a, kernel) for a in architectures for kernel in kernels_of(share) if kernel != "reduce_ordered"
    }


# All that NVRTC may be asked for, of those that the package knows.
GENERATIONS = [f"sm_{a}" for a in (75, 80, 86, 89, 90, 100, 120) if a in nvrtc.getSupportedArchs()]
# Float extremes take another way before sm_80; NVRTC 13 starts with sm_75, NVRTC 12 with older ones.
BEFORE_SM_80 = [a for a in nvrtc.getSupportedArchs() if compiler.OLDEST <= a < 80][:1]


@pytest.mark.parametrize("architecture", BEFORE_SM_80)
@pytest.mark.parametrize(
    ("row", "family"), [("min", "line"), slow("argmin", "line"), slow("sum", "three in a row"), slow("any", "line")]
)
def test_the_oldest_gpu(architecture: int, row: str, family: str) -> None:
    """The rows whose text is another for GPUs that lack some instructions."""
    asked = [Call(OPERATORS[row], (np.dtype(dtype),), family, False) for dtype in ("f2", ELEMENTS[-1], "f4")]
    names = [*launched(asked)]
    assert facts_of(names, f"sm_{architecture}").keys() == {*names}


def a_reduction() -> str:
    (kernel,) = launched([Call(OPERATORS["sum"], (np.dtype("f4"),), "line", False)])
    return kernel


def a_scan() -> str:
    from test_scan_kernels_compile import KERNELS

    return next(kernel for kernel in KERNELS if kernel.startswith("scan_tiles<RowScan<Sum"))


def counts_of_bins() -> str:
    return f"bins_histogram<f32, f32, 4, true, {histogram.THREADS}, {histogram.LOADS}>"


@pytest.mark.parametrize("architecture", GENERATIONS)
@pytest.mark.parametrize("kernel_of", [a_reduction, a_scan, counts_of_bins])
def test_cubin_is_machine_code_with_the_kernel(architecture: str, kernel_of: Callable[[], str]) -> None:
    """The function that the launches use: an ELF file that holds the name it gives."""
    kernel = kernel_of()
    code, name = compiler.cubin(kernel, architecture)
    assert code.startswith(b"\x7fELF") and name.encode() in code
    assert compiler.cubin(kernel, architecture)[0] is code


# ---- the checks themselves

GREEDY = """
template <int Live> __global__ void __launch_bounds__(256, GR_BLOCKS) greedy(f64* x) {
    f64 live[Live];
#pragma unroll
    for (int i = 0; i < Live; i++) live[i] = x[i * 256 + threadIdx.x];
#pragma unroll 1
    for (int turn = 0; turn < 9; turn++) {
#pragma unroll
        for (int i = 0; i < Live; i++) live[i] = live[i] * live[(i + 1) % Live] + live[(i + 7) % Live];
    }
#pragma unroll
    for (int i = 0; i < Live; i++) x[i * 256 + threadIdx.x] = live[i];
}
"""


def test_spills_and_narrow_loads_are_found() -> None:
    facts = facts_of(["greedy<16>", "greedy<200>"], "sm_90", GREEDY)
    modest, greedy = facts["greedy<16>"], facts["greedy<200>"]
    assert (modest.spilled, modest.local, modest.blocks, modest.widths) == (0, False, 0, (8,))
    assert greedy.spilled > 0 and greedy.registers > 250 and greedy.blocks == 1
    (name,), dtypes = launched([Call(OPERATORS["sum"], (np.dtype("f4"),), "line", False)]), [np.dtype("f4")]
    assert not faults(name, dtypes, Facts(0, False, 64, 0, (4, 16)))
    for bad in (Facts(8, False, 64, 0, (4, 16)), Facts(0, True, 64, 0, (4, 16)), Facts(0, False, 64, 0, (4, 8))):
        assert faults(name, dtypes, bad)


def test_what_does_not_compile_shows_the_log() -> None:
    text = "template <int N> __global__ void broken(int* x) { x[N] = nothing; }"
    for compile_all in (check, front_end, facts_of):
        with pytest.raises(CompileError, match=r'operator.cu\(1\): error: identifier "nothing" is undefined'):
            compile_all(["broken<1>"], "sm_90", text)


# ---- other layouts


@pytest.mark.slow
def test_plans_of_other_layouts_choose_kernels_that_are_met() -> None:
    """With all their ways to count lines, to share and to fold, and with all their numbers that are few."""
    calls = some(1)
    met = {ways(chosen(name)) for name in calls}
    numbers = set[tuple[str, str, str]]().union(*(few(chosen(name)) for name in calls))
    draw = random.Random(0)
    bounds = [row.bind(*dtypes) for row in ROWS.values() for dtypes in dtypes_of(row)]
    for _ in range(5000):
        bound, finish, count = draw.choice(bounds), draw.choice(["ticket", "two-pass"]), draw.choice([1, 5])
        chunk = any_chunk(draw, bound)
        for step in planned(chunk, cuda_operator(bound), count, finish):
            assert ways(chosen(step.kernel)) in met, (step.kernel, chunk)
            assert few(chosen(step.kernel)) <= numbers, (step.kernel, chunk)


def any_chunk(draw: random.Random, bound: Bound) -> Chunk:
    """Of up to three axes and millions of elements; contiguous, turned, with gaps, or part of a wider one."""
    most = [draw.choice([4, 8, 14, 22]) for _ in range(draw.randint(1, 3))]
    shape = tuple(int(2 ** draw.uniform(0, power)) for power in most)
    axes = range(len(shape))
    order, steps, pads = [*axes][::-1], [1] * len(shape), [0] * len(shape)
    match draw.randrange(4):
        case 0:
            draw.shuffle(order)
        case 1:
            pads[draw.choice(axes)] = draw.randint(1, 8)
        case 2:
            steps[draw.choice(axes)] = draw.choice([2, 3, -1])
    sizes = tuple(d.itemsize for d in bound.dtypes)
    start = draw.choice([0, 0, 1, 8])
    return Chunk(
        shape,
        sizes,
        tuple(laid(shape, size, order, steps, pads) for size in sizes),
        tuple(sorted({draw.choice(axes), draw.choice(axes)})),
        indexed=bound.indexed,
        commutative=bound.monoid.commutative,
        starts=tuple(start * size % 16 for size in sizes),
    )


def ways(what: Any) -> tuple[str, ...]:
    kernel, _, *how = variant(what)
    return kernel, *how, *(what.arguments.get(name, "") for name in ("Finish", "Chunks"))


def few(what: Any) -> set[tuple[str, str, str]]:
    """Template arguments that are few; Items and Length may be any number."""
    names = ("V", "Wide", "Lanes", "Batch")
    return {(what.kernel, name, what.arguments[name]) for name in names if name in what.arguments}
