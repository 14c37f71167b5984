"""The benchmark of trees: a small run on NumPy workers, and what it prints."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("distributed")

from gpureduce_dask.bench import trees


def test_a_small_run(tmp_path):
    path = tmp_path / "trees.json"
    result = trees.run(0, 2, 1, [8], 1, True, path)
    assert json.loads(path.read_text()) == result
    assert trees.is_clean(result)
    cases = {(row["kind"], row["case"]) for row in result["rows"]}
    assert cases == {("persisted", op) for op in trees.PERSISTED} | {("lazy", case) for case in trees.LAZY}
    assert all(row["later"] > 0 and row["stock"] > 0 and row["nbytes"] == 2 * 2**20 for row in result["rows"])
    text = trees.summary(result)
    assert text.startswith("2 NumPy workers, 2 MiB") and len(text.splitlines()) == 2 + len(result["rows"])
    result["rows"][0]["checked"] = False
    assert not trees.is_clean(result) and "WRONG" in trees.summary(result)


def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    rows = [
        {"kind": kind, "case": "sum", "chunks": n, "later": 0.01, "first": 0.02, "stock": n / 100}
        for kind in ("persisted", "lazy")
        for n in (16, 64)
    ]
    trees.plot({"rows": rows, "round_trip": 0.01}, tmp_path / "trees.png")
    assert (tmp_path / "trees.png").stat().st_size > 1000
