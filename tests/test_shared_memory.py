"""Kernels are shared by plans, and so is what a kernel is allowed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("cupy", reason="its binding of the driver is replaced")

from gpureduce_dask.device import context, shared


def test_a_plan_takes_nothing_back(monkeypatch):
    allowed = {1: shared.DEFAULT_SHARED_BYTES, 2: shared.DEFAULT_SHARED_BYTES}
    driver = SimpleNamespace(
        funcGetAttribute=lambda attribute, function: allowed[function],
        funcSetAttribute=lambda function, attribute, nbytes: allowed.update({function: nbytes}),
    )
    monkeypatch.setattr("cupy_backends.cuda.api.driver", driver)
    monkeypatch.setattr(context, "enter", lambda: None)
    for function, nbytes in ((1, 200_000), (1, 100_000), (2, 60_000), (1, 1000), (2, 70_000)):
        shared.allow(function, nbytes)
    assert allowed == {1: 200_000, 2: 70_000}
