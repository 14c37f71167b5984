"""The benchmark beside cuPyNumeric: NumPy in the place of cuPyNumeric, and NumPy chunks in the place of a GPU's."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import command
from gpureduce_dask.tools.bench import cupynumeric_peer as bench
from gpureduce_dask.tools.bench.timing import median_seconds

STORED = Path(__file__).parent.parent / ".ci" / "h200"
GIB = 2 * bench.COLUMNS / 2**28  # two rows
KEYS = [f"{case.name} {dtype}" for dtype in bench.RANGES for case in bench.CASES if dtype in case.dtypes]
# NumPy under another name, which ends its process in one call and refuses another.
PEER = """
import os, sys, numpy
__version__ = "1"
def __getattr__(name): return getattr(numpy, name)
def var(x, axis=None):
    if x.dtype.kind == "i" and axis is None: os._exit(134)
    return numpy.var(x, axis=axis)
def bincount(x, minlength):
    assert not {"dask", "gpureduce_dask"} & sys.modules.keys()
    raise NotImplementedError("no bincount")
"""


def measured_here(path, only=""):
    """Ours, on NumPy chunks and by the clock."""
    measure = functools.partial(bench.ours, np, lambda: None, lambda run: median_seconds(run, 1)[0])
    return bench.measure_all(np, GIB, only, path, {}, measure)


@pytest.fixture
def peer(tmp_path, monkeypatch):
    (tmp_path / "cupynumeric.py").write_text(PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # and not this package
    return sys.executable


def test_ours_has_the_rows_and_keys_of_the_stored_results(tmp_path, capsys):
    result = measured_here(tmp_path / "ours.json")
    stored = json.loads((STORED / "beside_cupynumeric.json").read_text())["rows"]
    assert list(result["rows"]) == KEYS and stored.keys() <= result["rows"].keys()
    assert {key: row.keys() - {"agrees"} for key, row in result["rows"].items() if key in stored} == {
        key: row.keys() for key, row in stored.items()
    }
    assert {key: row["dtype"] for key, row in result["rows"].items() if key in stored} == {
        key: row["dtype"] for key, row in stored.items()
    }
    assert bench.is_clean(result) and len(capsys.readouterr().out.splitlines()) == len(KEYS)
    assert json.loads((tmp_path / "ours.json").read_text()) == result


@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: case.name)
def test_the_call_of_a_chunk_makes_the_case(case):
    for dtype in case.dtypes:
        x = bench.make(np, (6, 50) if case.data != "line" else (300,), dtype)
        found, want = bench.chunk_call(case, x)(), bench.call(np, case, x)
        if case.op in ("histogram", "bincount"):  # the states of groups are counts
            found = found.view(np.int64)
        np.testing.assert_allclose(found.reshape(want.shape), want, rtol=1e-5)


def test_a_wrong_result_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(gr, "max", lambda x, axis: gr.min(x, axis=axis))
    result = measured_here(tmp_path / "ours.json", "^max all float32")
    assert not bench.is_clean(result)
    assert bench.describe(*next(iter(result["rows"].items()))).endswith("WRONG")


def test_cupynumeric_is_timed_by_its_own_python_past_a_call_that_ends_it(tmp_path, peer):
    found = bench.run_peer(peer, GIB, "", tmp_path / "cupynumeric.json")
    stored = json.loads((STORED / "cupynumeric.json").read_text())
    assert found.keys() == stored.keys() - {"cumsum"} and found["config"] == stored["config"] == bench.CONFIG
    assert list(found["rows"]) == KEYS and found["rows"].keys() == stored["rows"].keys()
    refused = {"error": "NotImplementedError: no bincount"}
    bad = {"var all int32": {"error": bench.ENDED}, "bincount 1-d 1000 int32": refused}
    assert {key: row for key, row in found["rows"].items() if "error" in row} == bad
    for key in stored["rows"].keys() - bad.keys():
        assert found["rows"][key].keys() == stored["rows"][key].keys()
    assert stored["rows"]["var all int32"] == bad["var all int32"]


def test_the_command_times_both_and_tells_how_many_times_as_long(tmp_path, peer, monkeypatch, capsys):
    monkeypatch.setattr(command, "need_gpu", lambda name: None)
    monkeypatch.setattr(bench, "run_ours", lambda gib, only, path: measured_here(path, only))
    path = tmp_path / "beside_cupynumeric.json"
    asked = ["bench", "kernels", "--cupynumeric", peer, "--gib", str(GIB), "--only", "^(sum|var) all int32"]
    assert cli.main([*asked, "--json", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()[-2:]
    assert said[0].startswith("sum all int32") and said[0].endswith(" times")
    assert said[1].endswith(f"cuPyNumeric: {bench.ENDED}")
    rows = [json.loads((tmp_path / name).read_text())["rows"] for name in (path.name, "cupynumeric.json")]
    assert [list(each) for each in rows] == [["sum all int32", "var all int32"]] * 2
    assert cli.main(["bench", "report", "--json", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == said


def test_a_python_without_cupynumeric_is_an_error(tmp_path):
    for python in (sys.executable, str(tmp_path / "none")):
        with pytest.raises(gr.errors.ExtraError, match="expected a Python that has cuPyNumeric"):
            bench.run_peer(python, GIB, "", tmp_path / "cupynumeric.json")
