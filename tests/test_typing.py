"""What type checkers see of the package: typed functions, results with fields, and errors for names that are none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("xarray")
ROOT = Path(__file__).parent.parent

# A line, and what mypy has to say of it.
LINES = {
    "gr.sum(x, axis=0, where=[True], initial=1, weights=x, min_count=2, dim=None)": "",
    "gr.sum(x, axes=0)": r'Unexpected keyword argument "axes" for "sum"',
    "gr.argmax(x, weights=x)": r'Unexpected keyword argument "weights" for "argmax"',
    "gr.sum(x, keepdims='yes')": r'incompatible type "str"; expected "bool"',
    "gr.nonsense": r'Module has no attribute "nonsense"',
    "reveal_type(gr.sum)": r'"def \(a: Any, axis: int \| typing.Sequence\[int\] \| None =',
    "reveal_type(gr.stats(x, ['mean']))": r"gpureduce_dask.api.summaries.Statistics",
    "reveal_type(gr.stats(t, ['mean']))": r"xarray.core.dataset.Dataset",
    "gr.stats(x, ['mean', 'count']).count.compute()": "",
    "reveal_type(gr.describe(x).values)": r"dict\[str, Any\]",
    "reveal_type(gr.plan(x, 'sum').tasks)": r"int",
    "reveal_type(gr.explain(x).taken)": r"tuple\[str, ...\]",
    "reveal_type(gr.cluster.start)": r"distributed.client.Client",
    "reveal_type(gr.OPERATORS['sum'])": r"gpureduce_dask.operators.monoid.Monoid",
    "reveal_type(gr.errors.AxisError('text'))": r"gpureduce_dask.errors.AxisError",
    "reveal_type(gr.__version__)": r"str",
    "own.max('time', where=t > 0)": "",
    "own.grouped([0], 'mean', 'time')": "",
    "own.max(axes=0)": r'Unexpected keyword argument "axes" for "max" of "Methods"',
    "own.nonsense": r'"Accessor" has no attribute "nonsense"',
    "reveal_type(own.stats(['mean'])['mean'])": r'Revealed type is "Any \| .*DataArray"',
    "reveal_type(own.plan('sum').tasks)": r"int",
}
HEADER = """
import numpy as np
import xarray as xr

import gpureduce_dask as gr
import gpureduce_dask.xarray

x, t = np.ones(3), xr.DataArray([1.0])
own: gpureduce_dask.xarray.Accessor = t.gr
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Run mypy on files, with the defaults of a user who has no configuration."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={cache}", *arguments]
        environment = {**os.environ, "MYPYPATH": str(ROOT)}
        return subprocess.run(command, capture_output=True, text=True, cwd=cache, env=environment).stdout

    return run


@pytest.mark.slow
def test_what_mypy_says_of_calls(mypy, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEADER + "".join(f"{line}\n" for line in LINES))
    said: dict[int, str] = {}
    for number, text in re.findall(r"script\.py:(\d+): (?:note|error): (.*)", mypy("--strict", str(script))):
        said[int(number)] = said.get(int(number), "") + text
    first = HEADER.count("\n") + 1
    for number, (line, expected) in enumerate(LINES.items(), first):
        assert re.search(expected, said.get(number, "")) if expected else number not in said, (line, said.get(number))


@pytest.mark.slow
def test_mypy_takes_the_examples(mypy):
    """Not as strictly as the package: they are scripts without annotations, whose arrays are NumPy's or CuPy's."""
    flags = ["--check-untyped-defs", "--ignore-missing-imports"]
    assert mypy(*flags, str(ROOT / "examples")).startswith("Success")
