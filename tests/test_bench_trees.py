"""The benchmarks of trees: a small run on NumPy workers, what cases that fail leave behind, and what is made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import dask.array as da
import pytest

pytest.importorskip("distributed")

from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import local_cupy, memory, scan_trees, scan_trees_report, soak, trees, trees_report


def test_a_small_run(tmp_path, capsys):
    path, readme = tmp_path / "trees.json", tmp_path / "README.md"
    options = ["--gpus", "0", "--workers", "2", "--mib", "1", "--chunks", "8", "--repeats", "1", "--json", str(path)]
    assert cli.main(["bench", "trees", *options]) == 0
    (run,) = json.loads(path.read_text())["runs"]
    cases = {(row["kind"], row["case"]) for row in run["rows"]}
    assert cases == {("persisted", op) for op in (*trees.OPS, trees.FIRST)} | {("lazy", case) for case in trees.LAZY}
    assert all(row["later"] > 0 for row in run["rows"]) and run["nbytes"] == 2 * 2**20
    checked = [row["case"] for row in run["rows"] if row.get("checked")]
    assert checked == ["sum", *trees.LAZY]  # other operators at 128 chunks a worker
    text, said = capsys.readouterr()
    assert text.startswith("2 NumPy workers, 2 MiB") and len(text.splitlines()) == 2 + len(run["rows"])
    first, second, *ended = said.splitlines()[: 2 + len(run["rows"])]
    assert first.startswith("bench trees: started; results go to") and second.startswith("reductions: starting 2 NumPy")
    assert ended[0].startswith("persisted sum, 8 chunks: later ") and ", stock " in ended[0]
    failed = {"kind": "lazy", "case": "sum", "chunks": 8}
    assert trees.describe({**failed, "error": "no time left"}) == "lazy sum, 8 chunks: FAILED: no time left"
    assert trees.describe({**failed, "later": 0.5, "checked": False}) == "lazy sum, 8 chunks: later 500.0 ms  WRONG"
    readme.write_text(f"before {trees_report.BEGIN} old {trees_report.END} after")
    options = ["--json", str(path), "--page", str(readme)]
    assert cli.main(["bench", "report", *options]) == 0
    made = readme.read_text()
    assert (
        "| 8 | persisted sum |" in made and "old" not in made and made.startswith("before") and made.endswith("after")
    )


@pytest.mark.slow
def test_a_small_run_of_scans(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--scans", "--gpus", "0", "--workers", "2", "--mib", "1", "--chunks", "4", "--repeats", "1"]
    assert cli.main(["bench", "trees", *options]) == 0
    result = json.loads((tmp_path / "scan_trees.json").read_text())
    rows = {(row["kind"], row["case"]): row for row in result["runs"][0]["rows"]}
    kinds = [("persisted", case) for case in (*scan_trees.WHOLE, *scan_trees.REDUCED)] + [("lazy", "cumsum")]
    assert list(rows) == kinds and all(row["checked"] for row in rows.values())
    assert rows[kinds[0]]["sequential"] > 0 and rows[kinds[0]]["stock"] > 0 and "stock" not in rows[kinds[1]]
    assert capsys.readouterr().out.startswith("2 NumPy workers, 2 MiB")
    readme = tmp_path / "README.md"
    readme.write_text(f"before {scan_trees_report.BEGIN} old {scan_trees_report.END} after")
    options = ["--json", "scan_trees.json", "--page", str(readme)]
    assert cli.main(["bench", "report", *options]) == 0
    assert "| 4 | persisted cumsum |" in readme.read_text() and "old" not in readme.read_text()


def test_a_scan_that_is_wrong_is_told():
    x = trees.lazy_array(4, 4096, False)
    y = da.cumsum(x, axis=0)
    assert scan_trees.is_right("cumsum", x, y)
    one = da.where(da.arange(x.size, chunks=x.chunks) == 600, 1e9, y)
    assert not scan_trees.is_right("cumsum", x, one.astype("f4"))
    assert not scan_trees.is_right("cummax", x, y)


def test_peak_memory_of_scans():
    row = {
        "kind": "persisted",
        "case": "cumsum",
        "chunks": 4,
        "later": 0.1,
        "stock": 0.5,
        "sequential": 1.0,
        "peak": 1.03,
    }
    run = {**a_run(1), "C": 4e12, "rows": [row]}
    assert "| 4 | persisted cumsum | 100.0 | 500.0 | 5.0 | 1000.0 | 10.0 | 1.03 |" in scan_trees_report.table(run)
    assert "copying all bytes 4.3 ms" in scan_trees_report.summary(run)


def test_a_case_that_fails_leaves_the_others(monkeypatch):
    written = []
    bench = trees.Bench(None, 0, 2, 2**20, 1, True, float("inf"), lambda: written.append(1))
    calls = iter([ValueError("no such chunk"), 1.0, 1.0, 1.0])

    def compute(self, function, x):
        value = next(calls)
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(trees.Bench, "compute", compute)
    monkeypatch.setattr(trees.Bench, "persist", lambda self, chunks: self.array(chunks))
    monkeypatch.setattr(trees, "OPS", ("sum", "max"))
    monkeypatch.setattr(trees, "FIRST_REPEATS", 1)
    trees.persisted(bench, 4)
    assert len(written) == 3
    assert bench.rows[0]["error"] == "ValueError: no such chunk" and bench.rows[1]["later"] > 0
    assert not trees_report.is_clean({"rows": bench.rows})
    bench.until = 0.0
    trees.lazy(bench, 4)
    assert [row["error"] for row in bench.rows[3:]] == ["no time left"] * 2


def a_run(gpus, wrong=False):
    rows = [
        {"kind": kind, "case": case, "chunks": n, "tasks": 5, "later": 0.01, "stock": n / 100, "peak_chunks": 2.5}
        for kind, case in (("persisted", "sum"), ("persisted", trees.FIRST), ("lazy", trees.LAZY[1]))
        for n in (16, 128 * gpus)
    ]
    rows[0]["checked"] = not wrong
    rows.append({"kind": "lazy", "case": "sum", "chunks": 16, "error": "no time left"})
    both = {"case": "sum", "ours": 0.01, "stock": 0.2}
    return {
        "gpus": gpus,
        "workers": gpus,
        "device": "H200",
        "date": "today",
        "nbytes": 2**33 * gpus,
        "round_trip": 0.01,
        "R": 4e12,
        "rows": rows,
        "local_cupy": [both, {"case": "mean", "error": "no pandas"}],
    }


def test_reports():
    run = a_run(2, wrong=True)
    text = trees_report.summary(run)
    for part in (
        "2 H200s",
        "18.2 ms",
        "WRONG",
        "FAILED: no time left",
        "2.5",
        "local_cupy sum: 10.0 ms, stock 200.0 ms",
    ):
        assert part in text
    assert not trees_report.is_clean(run)
    result = {"runs": [a_run(1), run]}
    made = trees_report.into_page(f"{trees_report.BEGIN}{trees_report.END}", result, "trees.png")
    assert "](trees.png)" in made and made.count("<details>") == 2
    assert "| 256 | persisted sum | 10.0 | 2560.0 | 256.0 |" in made and "| 10.0 | 200.0 | 20.0 |" in made


def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    older = a_run(4) | {"date": "2020-01-01"}
    assert trees_report.newest([a_run(1), a_run(2), older]) == [a_run(1), a_run(2)]
    for number, runs in enumerate(([a_run(1)], [a_run(1), a_run(2), a_run(4)], [a_run(1), a_run(2), older])):
        path = tmp_path / f"{number}.png"
        trees_report.plot({"runs": runs}, path)
        assert path.stat().st_size > 1000


PRINTED = """Number of workers | 2
==========
Wall clock        | Throughput
----------
12.50 ms          | 3.2 GiB/s
1.20 s            | 1 GiB/s
900.00 us         | 5 GiB/s
==========
Throughput        | 3.1 GiB/s +/- 1 MiB/s
Wall clock        | 13 ms +/- 1 ms
"""


def test_what_local_cupy_prints():
    assert local_cupy.parse(PRINTED) == pytest.approx([0.0125, 1.2, 0.0009])


def test_local_cupy_runs_stock_and_accelerated(monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command)
        fast = "accelerate()" in command[2]
        text = "2.00 ms | 1 GiB/s\n" if fast else "40.00 ms | 1 MiB/s\n" if "sum" in command else ""
        return SimpleNamespace(stdout=text, stderr="no nvtx", returncode=1)

    monkeypatch.setattr(local_cupy, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    rows = local_cupy.run(4, until=1e12)
    assert rows[0] == {"case": "sum", "stock": 0.04, "ours": 0.002}
    assert "stock: RuntimeError: exit status 1: no nvtx" in rows[1]["error"] and rows[1]["ours"] == 0.002
    assert all("0,1,2,3" in command and "65536" in command for command in commands)
    monkeypatch.setattr(local_cupy, "find_spec", lambda name: None)
    assert all("not installed" in row["error"] for row in local_cupy.run(4, until=0))


def test_peak_memory(monkeypatch):
    """What is handed out and given back in between counts, and not what an earlier call has yet to give back."""
    used, leaving, allocators = [100], [300, 700], []
    monkeypatch.setattr(memory, "PAUSE", 0)
    pool = SimpleNamespace(
        used_bytes=lambda: leaving.pop() if leaving else used[0], malloc=lambda n: used.__setitem__(0, used[0] + n)
    )
    cuda = SimpleNamespace(set_allocator=allocators.append)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool))
    client, row = SimpleNamespace(run=lambda function: {"worker": function()}), {}
    with memory.peak(client, True, row, 100.0):
        allocators[-1](250)
        used[0] = 120
        allocators[-1](30)
    assert row == {"peak_chunks": 2.5} and allocators[-1] is pool.malloc


def samples(growth):
    return {
        "workers": 1,
        "samples": [
            {
                "seconds": 60 * i,
                "reductions": i,
                "wrong": 0,
                "tasks": 0,
                "client": 10**8,
                "workers": [10**8 + growth * i],
            }
            for i in range(1, 21)
        ],
    }


def test_memory_that_grows_is_told():
    assert soak.is_clean(samples(0)) and "GROWS" not in soak.summary(samples(0))
    assert not soak.is_clean(samples(10**7)) and soak.summary(samples(10**7)).count("GROWS") == 1
    late = samples(0)
    late["samples"][-1]["tasks"] = 1
    assert not soak.is_clean(late)


@pytest.mark.slow
def test_a_short_soak(tmp_path):
    result = soak.run(1, 0.25, 0.0, tmp_path / "soak.json")
    assert json.loads((tmp_path / "soak.json").read_text()) == result
    assert result["samples"][-1]["reductions"] == 13 and not result["samples"][-1]["wrong"]
