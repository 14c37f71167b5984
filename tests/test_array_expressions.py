"""Arrays that are expressions: of dask.array with query planning on, and of the package dask-array.

Calls run in a program by themselves, for dask decides about query planning when it is first imported.
"""

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from array_expression_calls import CALLS, CHECKS, OF_NUMPY

PROGRAM = Path(__file__).parent / "array_expression_calls.py"
PACKAGES = ("dask.array", "dask_array")
needs_dask_array = pytest.mark.skipif(importlib.util.find_spec("dask_array") is None, reason="needs dask-array")
EACH = [pytest.param(name, marks=needs_dask_array if name == "dask_array" else ()) for name in PACKAGES]


@functools.cache
def faults(package: str) -> dict[str, str]:
    """What is wrong with each call, and with each part of the program."""
    parts = ["calls", *(part for part in CHECKS if can_run(part))]
    done = subprocess.run([sys.executable, PROGRAM, package, *parts], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def can_run(part: str) -> bool:
    needed = {"xarray": "xarray", "cluster": "distributed", "other_arrays": "dask_array"}.get(part)
    return needed is None or importlib.util.find_spec(needed) is not None


@pytest.mark.parametrize("package", EACH)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_answers_as_numpy_does(package: str, name: str) -> None:
    assert faults(package)[name] == ""


@pytest.mark.parametrize("name", OF_NUMPY)
def test_results_are_expressions_whatever_is_given(name: str) -> None:
    assert faults("dask.array")[name] == ""


@pytest.mark.parametrize("package", EACH)
@pytest.mark.parametrize("part", CHECKS)
def test_what_else_holds_of_results(package: str, part: str) -> None:
    if not can_run(part):
        pytest.skip(f"{part} needs what is not installed")
    assert faults(package)[part] == ""
