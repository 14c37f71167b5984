"""Markers: ``gpu`` tests are skipped where there is no CUDA GPU. One run of the demo serves every test of it."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest


@functools.cache
def has_gpu() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver or no device: CuPy raises a different error for each
        return False


# Files that take minutes: where processes take whole files (.ci/run), these must not be the last ones to begin.
LONG = ["kernels_compile", "scan_kernels_compile", "dasks_own", "cluster_grouping", "device_plans", "array_expressions"]
LONG += ["emulated", "emulated_scans", "mutants", "bins_compile", "workflows", "packaging", "scans_cluster", "scans"]
LONG += ["host", "bench_soak", "faults", "grouped_trees", "handles_cluster", "emulated_bins", "examples", "scans_host"]
LONG += ["typing", "bins", "lazy_reads", "demo", "result_names", "bench_grids", "upload", "private"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {f"test_{name}.py": number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONG)))
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory) -> tuple[str, str, Path]:
    """What the demo prints on the CPU, on its two streams, and the chart it writes."""
    chart = tmp_path_factory.mktemp("demo") / "land.png"
    command = [sys.executable, "-m", "gpureduce_dask", "demo", "--cpu", "--output", str(chart)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr, chart
