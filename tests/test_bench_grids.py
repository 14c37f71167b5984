"""The benchmarks of grids and of mechanisms: small runs on NumPy workers, and what is made of them."""

from __future__ import annotations

import json
from importlib.util import find_spec

import dask.array as da
import numpy as np
import pytest

pytest.importorskip("distributed")

import gpureduce_dask as gr
from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import grids, mechanisms

SMALL = ["--gpus", "0", "--workers", "2", "--mib", "0.5", "--chunks", "9", "--repeats", "1"]


@pytest.mark.slow
def test_a_small_run_of_grids(tmp_path, capsys, monkeypatch):
    """One of its cases is wrong, and told."""
    monkeypatch.chdir(tmp_path)
    wrong = grids.Case(lambda m, x: m.sum(x, axis=0) * (1.001 if m is gr else 1))
    monkeypatch.setitem(grids.CASES, "wrong sum", wrong)
    page = tmp_path / "grids.md"
    page.write_text("before <!-- bench:grids --> former <!-- /bench:grids --> after")
    assert cli.main(["bench", "trees", "--grids", *SMALL, "--page", "grids.md"]) == 1
    (run,) = json.loads((tmp_path / "grids.json").read_text())["runs"]
    rows = {row["case"]: row for row in run["rows"]}
    assert rows.keys() == grids.CASES.keys() - {"mean, axis 0, of large files"}  # which are a GPU's
    has_flox = find_spec("flox") is not None
    for name, row in rows.items():
        assert "error" not in row and "stock_error" not in row, row
        assert row["cold"] > 0 and row["later"] > 0 and row["tasks"] > 0, row
        assert (row.get("first", 0) > 0) == (row["kind"] != "files"), row
        assert ("blocks" in row) != grids.CASES[name].is_scan
        if has_flox or "groups" not in name:
            assert row["stock"] > 0 and row["stock_tasks"] > 0 and row["checked"] == (name != "wrong sum"), row
    assert rows["mean, axis 0"]["link"] is rows["mean, axis 0"]["link_share"] is None
    assert rows["max"]["tasks"] < rows["max"]["stock_tasks"]
    printed = capsys.readouterr().out
    assert printed.startswith("2 NumPy workers, 1 MiB") and printed.count("WRONG") == 1
    made = page.read_text()
    assert made.startswith("before") and made.endswith("after") and "former" not in made
    assert "| grid | wrong sum (WRONG) |" in made and "`python -m gpureduce_dask bench trees --grids --gpus 0" in made
    assert run["processor"] in made and run["date"] in made


@pytest.mark.slow
def test_a_small_run_of_mechanisms(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "grids.md"
    page.write_text("<!-- bench:mechanisms --><!-- /bench:mechanisms -->")
    assert cli.main(["bench", "trees", "--mechanisms", *SMALL, "--page", "grids.md"]) == 0
    (run,) = json.loads((tmp_path / "mechanisms.json").read_text())["runs"]
    rows = {(row["kind"], row["case"]): row for row in run["rows"]}
    assert [*rows] == [(mechanism, case) for mechanism in mechanisms.MECHANISMS for case in mechanisms.CASES]
    for row in rows.values():
        assert "error" not in row and row["checked"], row
        assert min(row[name] for name in ("later", "off", "tasks", "tasks_off")) > 0, row
    for mechanism, case in (
        ("bundles of slices", "sum, axis 0"),
        ("groups of lazy chunks fused", "sum of squares about 0.5, axis 0, of lazy chunks"),
    ):
        assert rows[mechanism, case]["tasks"] < rows[mechanism, case]["tasks_off"]
    assert capsys.readouterr().out.count("views by handles") == len(mechanisms.CASES)
    assert page.read_text().count("| bundles of slices |") == len(mechanisms.CASES)


@pytest.mark.parametrize("mechanism", mechanisms.MECHANISMS)
def test_a_mechanism_is_there_again(mechanism):
    before = [getattr(module, name) for module, name, _ in mechanisms.MECHANISMS[mechanism]]
    with mechanisms.without(mechanism):
        assert all(getattr(module, name) is f for module, name, f in mechanisms.MECHANISMS[mechanism])
    assert [getattr(module, name) for module, name, _ in mechanisms.MECHANISMS[mechanism]] == before


def test_what_agrees():
    x = np.array([1.0, np.nan, 0.0])
    assert grids.agree(x, x * (1 + 1e-6), 1e-4) and not grids.agree(x, x * 1.001, 1e-4)
    assert not grids.agree(x, x[:2], 1e-4) and not grids.agree(x, np.nan_to_num(x), 1e-4)
    assert not grids.agree(np.int64(3), np.int64(4), 0) and grids.agree(np.int64(3), np.int64(3), 0)


def test_files_that_are_mapped(tmp_path):
    x = grids.in_files(tmp_path, ((2, 2), (3, 3)), False)
    assert len([*tmp_path.iterdir()]) == 4
    np.testing.assert_array_equal(x.blocks[1, 0].compute(), np.load(tmp_path / "1-0.npy"))
    assert isinstance(x, da.Array) and x.shape == (4, 6)
