"""Every step of the ladder on the CPU: the text that a GPU runs, at awkward sizes, in every order of events."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("cupy", reason="the machine that kernels run on is beside one for CuPy arrays")

from simt import SCHEDULES, Kernels, SimtError, backend, build
from simt.steps import DTYPES, as_gpu, kernels_of, planned, run, unit

from gpureduce_dask import errors, history
from gpureduce_dask.device import sources
from gpureduce_dask.steps import runs

SIZES = (1, 31, 32, 33, 1023, 2**12 - 1, 2**12, 2**12 + 1)
SHAPES = ((1, 1), (1, 31), (32, 1), (65, 31), (128, 64), (100, 197))
WITH_KERNELS = [step for step in history.STEPS if step.kernel]
LINES = [step for step in WITH_KERNELS if step.family != "transpose"]
TURNS = [step for step in WITH_KERNELS if step.family == "transpose"]


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernels]:
    """By dtype, so that two compilers work side by side."""
    units = []
    for dtype in DTYPES:
        sizes = [(n, 1) for n in SIZES]
        units.append(unit([*kernels_of(LINES, sizes, [dtype]), *kernels_of(TURNS, SHAPES, [dtype])]))
    return dict(zip(DTYPES, build(units, libraries=2), strict=True))


def numbers(n: int, dtype: str, seed: int) -> np.ndarray:
    """Whole numbers whose sums are exact, in any order; integers that wrap."""
    most = 2**31 - 1 if dtype == "i4" else 9
    return np.random.default_rng(seed).integers(-most, most, n).astype(dtype)


def wanted(step: history.Step, x: np.ndarray) -> np.ndarray:
    if step.family == "transpose":
        return x.T.ravel()
    return np.atleast_1d(x.sum(dtype=x.dtype)) if step.family == "reduce" else np.cumsum(x, dtype=x.dtype)


@pytest.mark.parametrize("step", LINES, ids=lambda step: step.label)
def test_awkward_sizes(kernels, step):
    for turn, (n, dtype) in enumerate(itertools.product(SIZES, DTYPES)):
        x = numbers(n, dtype, turn)
        plan = planned(step, n)
        for seed in (turn, turn + 1):
            schedule = SCHEDULES[seed % len(SCHEDULES)]
            np.testing.assert_array_equal(run(kernels[dtype], plan, x, schedule, seed), wanted(step, x))


@pytest.mark.parametrize("step", TURNS, ids=lambda step: step.label)
def test_awkward_matrices(kernels, step):
    for turn, ((n, m), dtype) in enumerate(itertools.product(SHAPES, DTYPES)):
        x = numbers(n * m, dtype, turn).reshape(n, m)
        got = run(kernels[dtype], planned(step, n, m), x, SCHEDULES[turn % len(SCHEDULES)], turn)
        np.testing.assert_array_equal(got, wanted(step, x))


@pytest.mark.parametrize("step", WITH_KERNELS, ids=lambda step: step.label)
def test_on_cupy_arrays(kernels, step):
    """From arrays to launches, as on a GPU: compiled functions, launches and memory alone are stand-ins."""
    x = numbers(1023, "f8", 7)
    x = x.reshape(11, 93) if step.family == "transpose" else x
    with as_gpu(kernels):
        given = backend.put(x)
        got = runs.run(step, given)
        assert got.shape == {"reduce": (1,), "scan": x.shape, "transpose": x.T.shape}[step.family]
        np.testing.assert_array_equal(backend.get(got).ravel(), wanted(step, x))
        np.testing.assert_array_equal(backend.get(given), x)


def test_other_dtypes_are_refused(kernels):
    with as_gpu(kernels), pytest.raises(errors.DtypeError, match="reduce-08: float16 elements"):
        runs.run(history.get("reduce-08"), backend.put(np.ones(3, "f2")))


# what is wrong: a step that shows it, the text, what stands there instead
DEFECTS = {
    "the tail is added from past the end": ("reduce-01", "&& i + stride < count) data[i]", ") data[i]"),
    "contiguous threads run past the end": ("reduce-02", "if (i + stride < count)", "if (i + stride < Threads)"),
    "the tail is lost": ("reduce-03", "i + stride < count", "i + stride < count - 1"),
    "no barrier before the tree": (
        "reduce-04",
        "((const T*)step.in)[at] : T(0);\n    __syncthreads();",
        "((const T*)step.in)[at] : T(0);",
    ),
    "no barrier in the tree": ("reduce-05", "each[i + stride];\n        __syncthreads();", "each[i + stride];"),
    "the second half is loaded past the end": ("reduce-09", "at + Threads < step.n ?", "at < step.n ?"),
    "lanes are trusted to run in step": ("reduce-10", "__syncwarp();\n        sum +=", "sum +="),
    "an unrolled round has no barrier": ("reduce-11", "each[i + 128];\n        __syncthreads();", "each[i + 128];"),
    "eight loads where fewer are left": ("reduce-12", "i + 7 * grid < n", "i + 6 * grid < n"),
    "fewer warps than the last shuffle takes": ("reduce-13", "lane < warps ? each[lane] : T(0)", "each[lane]"),
    "what exceeds the power of two is left out": ("reduce-15", "if (i + floor < blockDim.x)", "if (false)"),
    "one atomic too few": ("reduce-17", "if (threadIdx.x == 0) atomicAdd", "if (blockIdx.x == 0) atomicAdd"),
    "no fence before the count": ("reduce-18", "__threadfence();  // the partial sum", ";//"),
    "no fence behind the count": ("reduce-18", "__threadfence();  // what other blocks", ";//"),
    "the grid's barrier has no fence": ("reduce-19", "__threadfence();  // what this block", ";//"),
    "the grid's barrier is left early": ("reduce-19", "top - (gridDim.x - 1) : 1u", "top : 1u"),
    "warps' totals are read before they are there": ("scan-02", "x);\n    __syncthreads();", "x);"),
    "a lane adds what was added already": ("scan-01", "__syncwarp();\n        *mine", "*mine"),
    "totals come from the tile itself": ("scan-03", "step.more)[blockIdx.x - 1];\n}", "step.more)[blockIdx.x];\n}"),
    "only the last tile is carried on": ("scan-05", "carry += places", "carry = places"),
    "an element is added twice": ("scan-06", "i >= step.m ?", "i + 1 >= step.m ?"),
    "no barrier on the way down": (
        "scan-07",
        "before the pair\n        __syncthreads();",
        "before the pair",
    ),
    "a tile is written before it is read": ("transpose-03", "__syncthreads();  // the tile", ";//"),
    "two elements in one place": ("transpose-04", "(x ^ y)", "(x | y)"),
}  # fmt: skip


HUNT = 60  # some defects need a rare order; the search ends at the first seed that shows them


def shows(kernels: Kernels, step: history.Step) -> None:
    shapes = SHAPES if step.family == "transpose" else [(n, 1) for n in SIZES]
    for seed, (n, m) in itertools.product(range(HUNT), shapes):
        x = numbers(n * m, "i4", seed).reshape((n, m) if step.family == "transpose" else n)
        for schedule in SCHEDULES:
            np.testing.assert_array_equal(run(kernels, planned(step, n, m), x, schedule, seed), wanted(step, x))


@pytest.fixture(scope="module")
def defects() -> dict[str, Kernels]:
    units = []
    for label, right, wrong in DEFECTS.values():
        step, text = history.get(label), sources.source("history/steps.cuh")
        begin = text.index(f'#line 1 "history/{step.file}"')
        place = text.index(right, begin if right in text[begin:] else 0)  # the defect follows the kernel
        text = text[:place] + wrong + text[place + len(right) :]
        sizes = SHAPES if step.family == "transpose" else [(n, 1) for n in SIZES]
        units.append(unit(kernels_of([step], sizes, ["i4"]), text))
    return dict(zip(DEFECTS, build(units, libraries=2), strict=True))


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_shows(defects, name):
    with pytest.raises((SimtError, AssertionError)):
        shows(defects[name], history.get(DEFECTS[name][0]))
