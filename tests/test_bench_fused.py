"""The functions of the fused rows of the benchmark: ours and an array library's are the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gpureduce_dask import chunk
from gpureduce_dask.expressions import tracer
from gpureduce_dask.expressions.mapped import mapped
from gpureduce_dask.operators import table as operators
from gpureduce_dask.tools.bench import fused, kernels
from gpureduce_dask.tools.bench.one_read import FAMILIES


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", fused.ROWS)
def test_ours_is_the_librarys(name, axis):
    row, rng = fused.ROWS[name], np.random.default_rng(0)
    x = rng.normal(size=(30, 40), scale=3).astype("f4")
    second = rng.random(x.shape) < 0.7 if row.second == "bool" else rng.random(x.shape, "f4") + 0.5
    chunks = (x, second.astype(row.second)) if row.second else (x,)
    program = tracer.trace(row.function, tuple(c.dtype for c in chunks))
    values = program.results[:-1] if row.masked else program.results
    bound = mapped(program, operators.get(row.op).bind(*values), row.masked)
    got = chunk.results(chunks, bound, (0, 1) if axis is None else (axis,)).reshape(-1)
    if row.masked and axis == 1:
        return  # a library keeps no dimensions here, and its means would not broadcast
    wanted = np.asarray(row.same(np, *(c.astype("f8") if c.dtype == "f4" else c for c in chunks), axis))
    np.testing.assert_allclose(got, wanted.reshape(-1), rtol=1e-4)


def test_the_rows_are_a_family():
    family = FAMILIES[fused.MODE]
    cases = family.cases(0.001)
    assert {case.op for case in cases} == set(fused.ROWS)
    assert all(case.mode == fused.MODE and case.label.endswith("fused") for case in cases)
    assert len({case.label for case in cases}) == len(cases)


def test_a_peer_that_calls_several_times_is_timed_once(monkeypatch):
    """JAX, whose calls go out ahead of the GPU."""
    case, x = fused.fused_cases(0.001)[0], np.zeros(kernels.PARTS, "f4")
    call = SimpleNamespace(times=10)
    monkeypatch.setattr(kernels, "device_seconds", lambda call, *_, **__: 0.02)
    assert kernels._peer_seconds(lambda *_: call, case, x) == 0.002
    assert kernels._peer_seconds(lambda *_: SimpleNamespace(), case, x) == 0.02
    assert set(FAMILIES[fused.MODE].peers) == {"CuPy", "torch", "cupy.fuse", "JAX"}
