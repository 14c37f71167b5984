"""Hardware counters of each step, by Nsight Compute (``ncu``) where it is installed and may read them."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from ...history import Step

MOST = 2**26  # elements: each launch is repeated for every group of counters
SECONDS = 400
METRICS = {
    "instructions a warp": "smsp__average_inst_executed_per_warp.ratio",
    "global loads, bytes/s": "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second",
    "DRAM reads, bytes/s": "dram__bytes_read.sum.per_second",
    "bank conflicts of loads": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "bank conflicts of stores": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "seconds": "gpu__time_duration.sum",
}
REFUSED = "ERR_NVGPUCTRPERM"


def count(steps: Iterable[Step], n: int) -> dict[str, Any]:
    """``{"n": ..., "rows": {step: {counter: value}}}`` of each step's main launch, or ``{"note": why not}``."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return {"note": "Nsight Compute (ncu) is not on the PATH: nothing was counted."}
    n = min(n, MOST)
    watched = [step for step in steps if step.number]
    command = [
        *(ncu, "--csv", "--print-units", "base", "--clock-control", "none"),
        *("--kernel-name", "regex:^(step|reduce|scan)_", "--metrics", ",".join(METRICS.values())),
        *(sys.executable, "-m", "gpureduce_dask.tools.ladder.once", str(n), *(step.label for step in watched)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"note": f"Nsight Compute took more than {SECONDS} s: nothing was counted."}
    output = done.stdout + done.stderr
    if REFUSED in output:
        return {"note": f"Nsight Compute may not read the GPU's counters here ({REFUSED}): nothing was counted."}
    rows = parse(done.stdout, watched)
    if not rows:
        return {"note": f"Nsight Compute counted nothing; it ended with {done.returncode} and said: {output[-600:]}"}
    return {"n": n, "rows": rows}


def parse(text: str, steps: Iterable[Step]) -> dict[str, dict[str, float]]:
    """From ncu's CSV, a line a launch and metric, the counters of the longest launch of each step's own kernel."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: dict[str, dict[str, Any]] = {}
    names = {metric: name for name, metric in METRICS.items()}
    for line in csv.DictReader(lines):
        launch = launches.setdefault(line["ID"], {"kernel": line["Kernel Name"]})
        value = line["Metric Value"].replace(",", "")
        if line["Metric Name"] in names and re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value):
            launch[names[line["Metric Name"]]] = float(value)
    found = {}
    for step in steps:
        own = [launch for launch in launches.values() if belongs(launch["kernel"], step)]
        if own:
            longest = max(own, key=lambda launch: launch.get("seconds", 0.0))
            found[step.label] = {k: v for k, v in longest.items() if k != "kernel"}
    return found


def belongs(kernel: str, step: Step) -> bool:
    """True where a demangled name, ``void step_scan_01<float, 1>(Step)``, is a step's main kernel."""
    if not step.kernel:
        return re.search(rf"\b{step.family}_", kernel) is not None
    name = step.kernel.partition("<")[0]
    if not re.search(rf"\b{name}\b", kernel):
        return False
    padded = re.search(r"<\w+, (\(bool\))?(1|true)[,>]", kernel) is not None
    return padded == bool(step.variant)
