"""Host loops in C give what NumPy gives, and NumPy stands in where there are none."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpureduce_dask as gr
from gpureduce_dask.rows import compiled

ROOT = Path(__file__).parent.parent
HAS_COMPILER = shutil.which(os.environ.get("CC", "cc")) is not None
needs_loops = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")

# How rows lie: one behind another, with gaps, upside down, the same row again
LAYOUTS = {
    "packed": lambda x: x,
    "gaps": lambda x: x[:, 3:-2],
    "reversed rows": lambda x: x[::-1],
    "every other row": lambda x: x[::2],
    "one row": lambda x: np.broadcast_to(x[:1], x.shape),
}


def numbers(shape, dtype, seed=0):
    """Few distinct values, so that the best of a row stands in several places."""
    return np.random.default_rng(seed).integers(-40, 40, shape).astype(dtype)


@pytest.fixture(params=["compiled", "NumPy"])
def loops(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(compiled, "library", lambda: None)
    elif not HAS_COMPILER:
        pytest.skip("no C compiler")
    return request.param


@needs_loops
def test_what_was_compiled_is_the_text_that_is_here():
    assert compiled.library() is not None, "kernels/host/loops.c has changed: install the package again"


@needs_loops
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [128, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_positions_are_numpys(dtype, n, layout):
    x = numbers((90, n + 5), dtype)
    y = x.copy()
    y[0, n // 2] = y[2, -3] = y[2, -5] = y[4, 3] = y[4, n // 3] = np.nan
    y[6], y[8], y[10, ::2], y[10, 1::2] = -np.inf, np.inf, 0.0, -0.0
    for name in ("argmax", "argmin"):
        for rows in (LAYOUTS[layout](x), LAYOUTS[layout](y)):
            found = compiled.positions(name, rows)
            assert found is not None
            np.testing.assert_array_equal(found, getattr(rows, name)(axis=1))


@needs_loops
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [128, 191, 192, 4000])
def test_sums_are_exact_where_float64_is(n, layout):
    x = LAYOUTS[layout](numbers((90, n + 5), "float32"))
    for block in (x[:, :, None], x[None]):  # rows and columns
        found = compiled.sums(block)
        assert found is not None and found.dtype == "f8"
        np.testing.assert_array_equal(found, block.sum(axis=1, dtype="f8"))


@needs_loops
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [128, 191, 9001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deviations_are_exact_where_float64_is(dtype, n, layout):
    x = LAYOUTS[layout](numbers((90, n + 5), dtype))
    for block in (x[:, :, None], x[None]):  # rows and columns
        each = np.arange(float(block[:, :1].size)).reshape(block[:, :1].shape)
        for pivot in (np.asarray(2.5), each):
            away = block.astype("f8") - pivot
            first, second = compiled.deviations(block, pivot)
            np.testing.assert_array_equal(first, away.sum(axis=1))
            np.testing.assert_array_equal(second, (away * away).sum(axis=1))


@needs_loops
def test_what_the_loops_do_not_take():
    x = numbers((64, 256), "float32")
    swapped, crooked = x.astype(">f4"), np.frombuffer(b"0" + x.tobytes(), "f4", offset=1).reshape(x.shape)
    for rows in (x[:, ::2], x.T, x[:, :100], x[:4], swapped, crooked, x.astype("i4"), x.astype("f2")):
        assert compiled.positions("argmax", rows) is None
        assert compiled.sums(rows[:, :, None]) is None
        assert compiled.deviations(rows[:, :, None], np.asarray(0.0)) is None
    assert compiled.sums(x.astype("f8")[:, :, None]) is None


@given(st.integers(1, 70), st.integers(1, 1500), st.integers(0, 10), st.sampled_from([0, 1, None]))
@settings(max_examples=40, deadline=None)
def test_reductions_are_right_with_and_without(rows, columns, seed, axis):
    library = compiled.library
    try:
        for found in (library, lambda: None):
            compiled.library = found
            x = np.random.default_rng(seed).standard_normal((rows, columns)).astype("f4")
            np.testing.assert_array_equal(gr.argmin(x, axis=axis).compute(), x.argmin(axis=axis))
            total = gr.sum(x, axis=axis, dtype="f8").compute()
            np.testing.assert_allclose(total, x.sum(axis=axis, dtype="f8"), rtol=1e-13, atol=1e-12)
            spread = gr.var(x, axis=axis, dtype="f8").compute()
            np.testing.assert_allclose(spread, x.astype("f8").var(axis=axis), rtol=1e-12, atol=1e-15)
            x[rows // 2, columns // 3] = np.nan
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of slices that are all NaN
                present = gr.nanvar(x, axis=axis, dtype="f8").compute()
                np.testing.assert_allclose(present, np.nanvar(x.astype("f8"), axis=axis), rtol=1e-12, atol=1e-15)
    finally:
        compiled.library = library


def test_a_sum_is_as_good_as_float64(loops):
    x = np.random.default_rng(1).standard_normal(3_000_017).astype("f4") * np.float32(1e3)
    exact = math.fsum(x.astype("f8"))
    assert abs(float(gr.sum(x, dtype="f8").compute()) - exact) <= 1e-15 * float(np.abs(x).sum(dtype="f8"))
    assert np.isinf(gr.sum(np.full(5000, 3e38, "f4")).compute()) and gr.sum(
        np.full(5000, 3e38, "f4"), dtype="f8"
    ).compute() == pytest.approx(1.5e42, rel=1e-6)


def test_without_a_compiler_the_build_goes_on(tmp_path):
    """The hook says so and makes nothing."""
    folder = tmp_path / "kernels" / "host"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "kernels" / "host" / "loops.c", folder)
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    code = "import hatch_build; print(hatch_build.compiled())"
    environment = os.environ | {"CC": "no-such-compiler"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "None\n" and "NumPy stands in" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("*.so"))
