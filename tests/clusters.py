"""Clusters of this machine, for tests."""

from __future__ import annotations

from typing import Any


def local_cluster(workers: int, *, threads: int = 1, processes: bool = True, **options: Any) -> Any:
    """A cluster of so many workers of so many threads each. distributed gives its own thread 10 seconds to begin, which
    a machine that stands still for as long fails: it has a second try."""
    from distributed import LocalCluster

    given = {"n_workers": workers, "threads_per_worker": threads, "processes": processes, "dashboard_address": None}
    try:
        return LocalCluster(**given | options)
    except (AssertionError, RuntimeError, TimeoutError):
        return LocalCluster(**given | options)
