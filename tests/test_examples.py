"""Every example runs and checks its own answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import only

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

# script: (arguments, what it must print)
RUNS = {
    "drawdown.py": (["--steps", "2**22"], "right, and 0.93 of what is to be expected"),
    "ema.py": ([], "100,000 hours at 8 stations smoothed, right to"),
    "half_of_the_land.py": ([], "half of the land lies north of 23.83 degrees"),
    "land_share.py": ([], "33.18% of the cells are land, but 28.93% of the Earth"),
    "larger_than_memory.py": (["--gib", "0.2"], "step of the maximum"),
    "primes.py": (["--upto", "6"], "up to 10^6:     78,498 primes, M =   212"),
    "velocity_moments.py": ([], "48 chunks read once: <u> 0.700, <v> -0.200, stress 0.495201, right to"),
    "own_monoid.py": ([], "right for all 16 stations, over 15 chunks in time"),
    "zonal_statistics.py": ([], "28.93% of the Earth is land, box by box as row by row"),
}
LONG = ("half_of_the_land.py", "land_share.py", "larger_than_memory.py", "zonal_statistics.py")


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # scripts see their own folder, not the current one
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run():
    assert set(RUNS) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("script", only(lambda script: script not in LONG, sorted(RUNS)))
def test_example(script):
    arguments, expected = RUNS[script]
    assert expected in run(script, *arguments)


@pytest.mark.gpu
@pytest.mark.parametrize("script", sorted(RUNS))
def test_example_on_a_gpu(script):
    arguments, expected = RUNS[script]
    assert expected in run(script, "--cupy", *arguments)


def test_what_the_gallery_runs_in_place_of_a_cluster():
    assert "two threads reduced 205 MiB" in run("larger_than_memory.py", "--threads", "--gib", "0.2")


@pytest.mark.slow
def test_an_array_larger_than_its_workers():
    assert "two workers of 1024 MiB each reduced 2,2" in run("larger_than_memory.py", "--gib", "2.2")
