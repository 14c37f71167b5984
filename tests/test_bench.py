"""The benchmark's report: what it prints, and the table it puts into the README."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.tools.bench import host, numbagg_peer, peers, report
from gpureduce_dask.tools.bench.cases import Case, cases


def row(case, ours, **more):
    return {"case": case, "op": case.split()[0], "dtype": "float32", "checked": True, "ours": ours, **more}


KERNELS = report.KINDS["reductions"]
RESULT = {
    "gpu": "a GPU",
    "date": "2026-11-21",
    "cupy": "14.2.0",
    "gib": 4,
    "R": 4.5e12,
    "rows": [
        row("sum float32 (8) all", 0.98, CuPy=0.97, torch=None),
        row("var float32 (8x8) axis=1", 0.92, torch=0.95),
    ],
    "small": [{"case": "sum float32 (1024) all", "ours_us": 7.5, "CuPy_us": 9.25, "torch_us": None}],
}


def test_a_table_shows_who_is_ahead():
    lines = report.table(RESULT["rows"]).splitlines()
    assert lines[2] == "| sum float32 (8) all | **0.98** | 0.97 |  |  |"
    assert lines[3] == "| var float32 (8x8) axis=1 | 0.92 |  | 0.95 |  |"


def test_the_summary_names_rows_that_fall_short():
    text = report.summary(RESULT)
    assert "at or above 0.93 R: 1 of 2\n  var float32 (8x8) axis=1: 0.920\n" in text
    assert [r["op"] for r in report.behind(RESULT)] == ["var"]


@pytest.mark.parametrize("bad", [{"checked": False}, {"error": "MemoryError: none left"}])
def test_a_wrong_or_failed_row_is_not_clean(bad):
    assert report.is_clean(RESULT)
    result = {**RESULT, "rows": [*RESULT["rows"], {**row("max float32 (8) all", 1.0), **bad}]}
    assert not report.is_clean(result)


def test_the_readme_keeps_what_stands_around_the_table():
    text = f"before\n{KERNELS.begin}\nold\n{KERNELS.end}\nafter"
    made = report.into_page(text, RESULT)
    assert made.startswith(f"before\n{KERNELS.begin}\na GPU, 2026-11-21, CuPy 14.2.0; chunks of 4 GiB;")
    assert made.endswith(f"{KERNELS.end}\nafter") and "old" not in made
    assert "| sum float32 (1024) all | 7.5 | 9.2 |  |" in made
    assert report.into_page(made, RESULT) == made


def test_versions_of_peers_are_told_where_results_have_them(monkeypatch):
    def version(name):
        if name == "jax":
            raise peers.metadata.PackageNotFoundError(name)
        return f"{len(name)}.0"

    monkeypatch.setattr(peers.metadata, "version", version)
    found = {"cupy": "14.2", "peers": peers.versions()}
    assert peers.version_list(found) == "CuPy 14.2, torch 5.0, cuda.compute 9.0"
    assert peers.version_list({"cupy": "14.2"}) == "CuPy 14.2"
    assert peers.version_list({"dask": "2026.7", "cupy": "14.2"}) == "dask 2026.7, CuPy 14.2"


def test_bytes_are_those_read_and_those_written():
    assert Case("sum", "float32", (6, 4), 1).touched(4) == 96
    assert Case("sum", "float32", (6, 4), 1).results == 6 and Case("sum", "float32", (6, 4)).results == 1
    labels = [case.label for case in cases(1)]
    assert len(set(labels)) == len(labels) > 200


def test_host_rows_are_measured_and_told(tmp_path, capsys):
    result = host.run(0.25, 2, 1, tmp_path / "host.json")
    assert json.loads((tmp_path / "host.json").read_text()) == result and host.is_clean(result)
    assert len(result["host"]) == len(host.CASES) == len(capsys.readouterr().out.splitlines())
    result["host"][0] |= {"ours_s": 1.0, "stock_s": 2.5, "agrees": False}
    assert not host.is_clean(result) and host.describe(result["host"][0]).endswith("2.50 times  WRONG")
    scans = [row for row in result["host"] if row["op"] == "cumsum"]
    scans[0] |= {"ours_s": 1.0, "numpy_s": 1.25}
    assert len(scans) == 4 and "NumPy  1250.0 ms" in host.describe(scans[0])
    text = host.into_page(f"before {host.BEGIN} old {host.END} after", result)
    assert text.startswith("before") and text.endswith("after") and "old" not in text
    assert "| sum | 2.50 |" in text and result["processor"] in text
    assert "| cumsum: NumPy's time by ours |  | 1.25 |" in text


def _filled(x, axis):
    """Each NaN by the element before it."""
    where = np.where(np.isnan(x), 0, np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in (0, 1)]))
    return np.take_along_axis(x, np.maximum.accumulate(where, axis), axis)


def _means_of_groups(x, labels, axis):
    return np.stack([np.nanmean(x[:, labels == g], axis) for g in range(labels.max() + 1)], -1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_beside_numbagg_are_measured_and_told(tmp_path, capsys, monkeypatch):
    functions = {name: getattr(np, name) for name in ("nansum", "nanmean", "nanmax", "nanvar", "nanargmax")}
    peer = SimpleNamespace(**functions, ffill=_filled, group_nanmean=_means_of_groups)
    monkeypatch.setattr(numbagg_peer, "load", lambda: peer)
    monkeypatch.setattr(numbagg_peer.metadata, "version", lambda name: f"{name}-1")
    monkeypatch.setattr(numbagg_peer, "SIDE", 40)
    result = numbagg_peer.run(0.05, 2, 1, tmp_path / "numbagg.json")
    assert json.loads((tmp_path / "numbagg.json").read_text()) == result and numbagg_peer.is_clean(result)
    assert len(result["numbagg"]) == len(numbagg_peer.CASES) == len(capsys.readouterr().out.splitlines())
    result["numbagg"][0] |= {"ours_s": 1.0, "numbagg_s": 2.5, "agrees": False}
    assert not numbagg_peer.is_clean(result)
    assert numbagg_peer.describe(result["numbagg"][0]).endswith("2.50 times  WRONG")
    text = numbagg_peer.into_page(f"before {numbagg_peer.BEGIN} old {numbagg_peer.END} after", result)
    assert "| nansum | 2.50 |" in text and "numbagg-1" in text and "old" not in text
    assert "off by, at most | " in text


def test_numbagg_that_is_not_here_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "numbagg", None)
    with pytest.raises(gr.errors.ExtraError, match="pip install numbagg"):
        numbagg_peer.load()
