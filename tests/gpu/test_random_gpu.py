"""On a GPU: random chunks of every kind are right, their check finds one wrong result, and a run is told."""

from __future__ import annotations

from itertools import islice

import pytest

from gpureduce_dask.tools.bench import random_chunks, random_report
from gpureduce_dask.tools.bench.random_draws import KINDS, draws

pytestmark = pytest.mark.gpu
cp = pytest.importorskip("cupy")


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_are_right(kind):
    for draw in islice(draws(2026, [0.5], [kind]), 12):
        job = random_chunks.prepare(draw, 1)
        assert job.is_right(job.calls[0]()), draw.label


def test_one_wrong_element_of_a_scan_is_found():
    draw = next(d for d in draws(1, [1], ["scans"]) if d.op == "sum" and d.dtype == "float32")
    job = random_chunks.prepare(draw, 1)
    found = job.calls[0]()
    at = tuple(n // 2 for n in found.shape)
    found[at] += 1
    assert not job.is_right(found)


def test_a_run(capsys):
    result = random_chunks.run(3, 4, [0.5, 4], KINDS, processes=0)
    assert len(result["cases"]) == 4 and random_report.is_clean(result), random_report.summary(result)
    assert all(case["ours"] > 0 and case["kernels"] for case in result["cases"])
