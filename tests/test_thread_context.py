"""The driver launches in a thread's context, which a new thread does not have yet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("cupy", reason="its runtime's calls are counted")

from gpureduce_dask.device import context


def test_a_thread_enters_its_device_once(monkeypatch):
    entered = []
    monkeypatch.setattr(context, "_thread", context._Thread())
    monkeypatch.setattr("cupy.cuda.runtime.getDevice", lambda: 3)
    monkeypatch.setattr("cupy.cuda.runtime.setDevice", entered.append)
    for _ in range(2):
        with ThreadPoolExecutor(1) as thread:
            for _ in range(3):
                thread.submit(context.enter).result()
    assert entered == [3, 3]
