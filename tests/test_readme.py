"""The README is true: its commands, its code and its list of functions. Of the demo's output see test_demo.py."""

import re
import subprocess
import sys
from pathlib import Path

import dask
import pytest

import gpureduce_dask as gr

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)


def between(name: str) -> str:
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README, re.S)[1]


def test_exactly_two_set_up_commands():
    commands = [line for line in README.splitlines() if line.startswith("pip install")]
    assert commands == [
        'pip install -e ".[demo]" && python -m gpureduce_dask demo',
        'pip install -e ".[test]" && pytest',
    ]


def test_code_runs():
    """All but the first block, whose data is the reader's, one after the other."""
    code = "\n".join(block for block in BLOCKS if "cupy" not in block)
    assert code.count("gr.") >= 9
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sum: axis 2")


def test_operator_of_the_readme_is_right():
    special = pytest.importorskip("scipy.special")
    names: dict[str, object] = {}
    with dask.config.set(scheduler="sync"):
        exec("\n".join(block for block in BLOCKS if "cupy" not in block), names)
    x = names["x"] * 300  # past the overflow of a plain exponential
    got = gr.reduction(x, names["logsumexp"], axis=1).compute(scheduler="sync")
    assert got == pytest.approx(special.logsumexp(x.compute(scheduler="sync"), axis=1), rel=1e-12)


def test_every_public_function_is_listed():
    listed = set(re.findall(r"`(?:gr\.|meta=gr\.)?(\w+)[`(]", README))
    assert set(gr.__all__) <= listed
