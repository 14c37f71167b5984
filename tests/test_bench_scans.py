"""The benchmark of scan kernels: its rows, how results are checked, and its report."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_bench import KERNELS, RESULT, row

from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.tools.bench import report, scans
from gpureduce_dask.tools.bench.cases import VIEWS


def test_scans_are_told_beside_copies():
    kind = report.KINDS["scans"]
    rows = [row("sum float32 (8) axis=0", 0.91, CuPy=0.5), row("var float32 (8x8) axis=1", 0.89)]
    result = {**RESULT, "what": "scans", "C": 4.2e12, "rows": rows}
    assert "at or above 0.9 C: 1 of 2\n  var float32" in report.summary(result)
    made = report.into_page(f"{KERNELS.begin}kept{KERNELS.end}{kind.begin}{kind.end}", result)
    assert made.startswith(f"{KERNELS.begin}kept{KERNELS.end}{kind.begin}") and "fastest copy" in made
    assert "4,200 GB/s" in made and made.count("| sum float32 (8) axis=0 |") == 2 and made.count("| var ") == 1


def test_labels_differ():
    labels = [case.label for case in scans.scan_cases(1)]
    assert len(set(labels)) == len(labels) > 60


def scanned(case, x):
    bound = OPERATORS[case.op].bind(x.dtype)
    options = {case.mode: True} if case.mode in ("exclusive", "reverse") else {}
    if case.mode == "segments":
        options["resets"] = scans.segment_starts(x, case.axis)
    return host_scan.scan((x,), bound, case.axis, **options)[0]


@pytest.mark.parametrize("case", [c for c in scans.scan_cases(2**-8) if c.dtype != "bfloat16"], ids=lambda c: c.label)
def test_scans_are_checked(case, monkeypatch):
    """As on a GPU, with NumPy in CuPy's place: the host's scans pass, and one wrong element does not."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    shape = tuple(scans.SEGMENT * 2 if case.mode and a == case.axis else min(n, 70) for a, n in enumerate(case.shape))
    x = np.random.default_rng(0).integers(1, 90, shape) / (100 if case.dtype[:2] in ("fl", "co") else 1)
    x = VIEWS[case.view](x.astype(case.dtype))
    ours = scanned(case, x)
    assert scans.is_right(case, x, ours)
    last = (-1,) * x.ndim
    ours[last] = -ours[last] if ours.dtype.kind in "fc" else ~ours[last]
    assert not scans.is_right(case, x, ours)
