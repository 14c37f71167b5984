"""What a worker has imported when it starts, put out of reach of Python's garbage collector.

A full collection looks at every object of the process, 230,000 in a GPU's worker, and stops all threads for 110 to
140 ms, about once in twenty reductions of 256 chunks (one H200, 2026-11-29). Of what is made later it takes 4 to 7 ms.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from distributed import WorkerPlugin


class FrozenImports(WorkerPlugin):
    """Has a worker's process freeze what it has once everything is imported. Not for a process that others share."""

    name = "gr-frozen-imports"

    def setup(self, worker: Any) -> None:
        """Called by a worker that starts, before it takes tasks."""
        import_module("gpureduce_dask.api.reductions")
        gc.collect()
        gc.freeze()

    def teardown(self, worker: Any) -> None:
        """Called by a worker that ends, or that lets go of the plugin."""
        gc.unfreeze()
