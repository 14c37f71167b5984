"""The benchmark of what one read answers: its rows, how they are checked, and what peers are asked."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_bench import KERNELS, RESULT, row

from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.tools.bench import one_read, one_read_trees, report, trees, trees_report
from gpureduce_dask.tools.bench.cases import Case
from gpureduce_dask.tools.bench.peers import PEERS


def test_labels_differ_and_every_shape_has_a_sum_beside_it():
    cases = one_read.one_read_cases(1)
    assert len({case.label for case in cases}) == len(cases)
    together = {(c.dtype, c.shape, c.axis) for c in cases if c.op == one_read.FIVE}
    assert together <= {(c.dtype, c.shape, c.axis) for c in cases if c.op == "sum"}


@pytest.mark.parametrize("case", one_read.together_cases(2**-8), ids=lambda c: c.label)
def test_statistics_are_checked(case, monkeypatch):
    """As on a GPU, with NumPy in CuPy's place: the host's states pass, and a wrong one does not."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.setattr(device_reduce, "reduce", lambda chunks, bound, axes: host_reduce.reduce(chunks, bound, axes))
    shape = tuple(min(n, 70) for n in case.shape)
    x = (np.random.default_rng(0).random(shape) * 90).astype(case.dtype)
    measured = one_read.measured(case, x)
    states = measured.call()
    assert measured.is_right(states) and measured.read == case.touched(x.itemsize)
    used = [name for name in states.dtype.names if name.endswith(("_index", "_m2", "_count", "_value"))]
    assert used
    for name in used:
        wrong = states.copy()
        wrong[name] = wrong[name] * 2 + 1
        assert not measured.is_right(wrong), name


def test_peers_are_asked_one_statistic_after_another(monkeypatch):
    asked = []
    peer = one_read.each_by(lambda op, x, axis: asked.append(op) or (lambda: op))
    assert peer("min max count", None, None)() == ["min", "max"] and asked == ["min", "max"]
    assert one_read.each_by(lambda op, x, axis: None)("min max", None, None) is None
    calls = one_read.ONE_READ.peers
    assert calls.keys() >= PEERS.keys()
    assert calls["cuda.compute"](f"{one_read.FIVE} {one_read.TOGETHER}", np.ones(3), None) is None


def test_one_read_is_told_between_marks_of_its_own():
    kind = report.KINDS["one_read"]
    case = Case(one_read.FIVE, "float32", (8,), mode=one_read.TOGETHER)
    result = {**RESULT, "what": "one_read", "rows": [row(case.label, 0.95, CuPy=0.1)]}
    made = report.into_page(f"{KERNELS.begin}kept{KERNELS.end}{kind.begin}{kind.end}", result)
    assert made.startswith(f"{KERNELS.begin}kept{KERNELS.end}{kind.begin}")
    assert f"| {case.label} | **0.95** | 0.10 |" in made


def test_trees_are_told_between_marks_of_their_own():
    trees = trees_report.BEGIN + "kept" + trees_report.END
    rows = [{"case": one_read_trees.CASE, "kind": "persisted", "chunks": 128, "later": 0.01, "stock": 0.4}]
    run = {"gpus": 0, "workers": 2, "date": "", "nbytes": 2**30, "round_trip": 0.01, "rows": rows}
    made = trees_report.into_page(trees + "".join(trees_report.ONE_READ), {"what": "one_read", "runs": [run]}, None)
    assert made.startswith(trees + trees_report.ONE_READ[0]) and "| 40.0 |" in made


def test_trees_are_measured_and_checked(monkeypatch):
    """On this process's threads in place of a cluster's."""
    written = []
    bench = trees.Bench(None, 0, 1, 1 << 16, 1, True, float("inf"), lambda: written.append(1))
    monkeypatch.setattr(trees.Bench, "persist", lambda self, chunks: self.array(chunks).persist())
    one_read_trees.cases(bench, 4)
    assert [row["kind"] for row in bench.rows] == ["persisted", "lazy"] and len(written) == 2
    assert all(row["checked"] and row["later"] > 0 and row["stock"] > 0 for row in bench.rows), bench.rows
    monkeypatch.setattr(one_read_trees, "stock", lambda x: [a + 1 for a in one_read_trees.together(x)])
    one_read_trees.cases(bench, 4)
    assert [row["checked"] for row in bench.rows[2:]] == [False, False]
