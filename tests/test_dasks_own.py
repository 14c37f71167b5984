"""dask's own tests of arrays, as its package holds them, pass under ``gr.accelerate(numpy=True)``."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from tiers import slow

import gpureduce_dask as gr

DASK = Path(dask.__file__).parent
HERE = Path(__file__).parent
REDUCTIONS = "array/tests/test_reductions.py"
OTHERS = [f"array/tests/test_{name}.py" for name in "array_core masked percentiles routines stats".split()]

if not (DASK / REDUCTIONS).exists():
    pytest.skip("this dask comes without its tests", allow_module_level=True)

# What is left out, and why: most of it looks at the graph.
FAN_IN = "a fan-in of 4 over two axes is four neighbours in C order here, and two along each axis in dask"
RANGE = f"{FAN_IN}; and a product that is too large for complex64 is infinite, where NumPy's way to it ends in NaN"
NAMES = "dask's keys start with the reduction's name, ours with gr-"
COUNT = "dask has four tasks, we have three"
# dask multiplies each block by the product of all before it, which overflows in these tests: 0 times infinity.
OVERFLOW = "dask warns of what it multiplies on its way; no number of the result overflows, and we do not warn"

REASONS = {
    **{f"{REDUCTIONS}::test_reductions_2D[{dtype}]": FAN_IN for dtype in ("f4", "i4")},
    f"{REDUCTIONS}::test_reductions_2D[c8]": RANGE,
    f"{REDUCTIONS}::test_reductions_2D_nans": FAN_IN,
    f"{REDUCTIONS}::test_reduction_names": NAMES,
    **{
        f"{REDUCTIONS}::test_array_cumreduction_axis[blelloch-None-{use_nan}-{name}]": OVERFLOW
        for use_nan in (False, True)
        for name in ("cumprod", "nancumprod")
    },
}
OTHER_REASONS = {"array/tests/test_array_core.py::test_blockwise_fusion": COUNT}

# What fails as much without this package, where there is no GPU or pytest-mock.
NOT_OURS = "not (cupy or mocker or test_binary_operator_delegation)"


def run(*arguments: str) -> str:
    """What pytest prints of dask's tests with every reduction accelerated, its exit status last."""
    options = ["-p", "accelerated", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(DASK), "-q"]
    given = [str(DASK / each) if each.startswith("array/") else each for each in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--tb=short", *given],
        cwd=HERE,  # where the plugin is
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    return f"{done.stdout[-8000:]}{done.stderr[-2000:]}\nexit status {done.returncode}"


def without(reasons: dict[str, str]) -> list[str]:
    return [f"--deselect={name}" for name in reasons]


@pytest.mark.parametrize("chosen", ["not structure", slow("structure")])
def test_reductions(chosen):
    """Of the structure of chunks there are hundreds of tests."""
    said = run(REDUCTIONS, "-k", f"not quantile and not percentile and {chosen}", *without(REASONS))
    assert said.endswith("exit status 0"), said


@pytest.mark.slow
def test_quantiles():
    said = run(REDUCTIONS, "-k", "quantile or percentile")
    assert said.endswith("exit status 0"), said


@pytest.mark.slow
@pytest.mark.parametrize("path", OTHERS)
def test_other_tests_of_arrays(path):
    said = run(path, "-k", NOT_OURS, *without(OTHER_REASONS))
    assert said.endswith("exit status 0"), said


@pytest.mark.slow
def test_each_test_that_is_left_out_fails():
    """Else it had better be run."""
    reasons = {**REASONS, **OTHER_REASONS}
    said = run(*reasons)
    assert f"{len(reasons)} failed in" in said or f"{len(reasons)} failed, " in said, said
    assert " passed" not in said and " error" not in said, said


@pytest.mark.slow
def test_answers_of_those_that_compare_keys_too():
    named = [name for name, reason in REASONS.items() if reason is FAN_IN]
    said = run("--answers-alone", *named)
    assert f"{len(named)} passed" in said and said.endswith("exit status 0"), said


@pytest.mark.parametrize("name", ["cumprod", "nancumprod"])
@pytest.mark.parametrize("use_nan", [False, True])
def test_products_of_which_dask_warns(name, use_nan):
    """The arrays of dask's test, with NumPy's answer and without a warning."""
    a = np.arange(10 * 11 * 12, dtype=float).reshape(10, 11, 12)
    if use_nan:
        a[1] = np.nan
    x = da.from_array(a, chunks=(4, 5, 6))
    with warnings.catch_warnings(), gr.accelerate(numpy=True):
        warnings.simplefilter("error")
        found = getattr(da, name)(x, axis=None, method="blelloch").compute(scheduler="sync")
        np.testing.assert_array_equal(found, getattr(np, name)(a, axis=None))


def test_the_product_that_is_too_large():
    """The array of dask's test: the answer is that of wider numbers, made narrow."""
    z = (np.arange(1, 122) * (1 + 1j)).reshape(11, 11).astype("c8")
    x = da.from_array(z, chunks=(4, 4))
    with gr.accelerate(numpy=True):
        every, columns = da.prod(x), da.prod(x, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(every, np.prod(z, dtype="c16").astype("c8"))
    assert np.isinf(every.compute(scheduler="sync").real)
    np.testing.assert_allclose(columns, np.prod(z, axis=0), rtol=1e-6)
