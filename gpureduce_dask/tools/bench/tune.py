"""``python -m gpureduce_dask bench tune``: what the kernels of scans cost on the GPU at hand.

Random scans are each done by every kernel that takes them, checked and timed. Costs are fitted to these times
(tune_fit.py). They are kept for this GPU where a fit to half the cases predicts the other half better than what is
shipped does, and picks plans there that are no slower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...device import scan as device_scan
from ...device import scan_cost_tables, scan_launch
from ...device.scan_cost_tables import Table
from ...device.scan_costs import Features, Gpu
from ...operators import table as operators
from .random_chunks import Case, Result, compile_ahead, compiling, measured, prepare, write
from .random_draws import SCANS, Draw, draws
from .timing import Rotation, device_seconds
from .tune_fit import Timed, fit, loss, quality

FEWEST = 60  # cases to fit to
APART = 16  # times the smallest size that the largest has, to tell apart how kernels start and what bytes cost
WORTH = 0.9  # of the loss with what is shipped, that a table may have at most, whose picks are no slower: bits change
PATIENCE = 0.2  # seconds for the time of one plan


def run(
    seed: int, count: int, sizes: Sequence[float], seconds: float, processes: int | None, path: Path | None = None
) -> int:
    """Measure, fit, and keep what is better; 1 where a plan gave wrong results."""
    import cupy as cp

    number, until = cp.cuda.Device().id, time.monotonic() + seconds
    name = cp.cuda.runtime.getDeviceProperties(number)["name"].decode()
    result: Result = {"tune": seed, "gpu": name, "sizes": [*sizes], "date": time.strftime("%Y-%m-%d"), "cases": []}
    processes = compiling(processes)
    print(f"{name}, seed {seed}: {processes} processes compile ahead", flush=True)
    chosen = [*islice(draws(seed, sizes, [SCANS]), count)]
    for case in measured(chosen, compile_plans, measure, processes, until):
        result["cases"].append(case)
        print(described(case), flush=True)
        write(result, path)
    table = fitted(result, scan_launch.gpu(number), f"sm_{cp.cuda.Device(number).compute_capability}", _nvrtc())
    if table is not None:
        result["table"] = asdict(table)
        write(result, path)
        print(f"written to {scan_cost_tables.write(table)}; processes that begin from now on plan by it")
    return int(any(not plan["right"] for case in result["cases"] for plan in case.get("plans", ())))


def forget() -> int:
    """Remove what was kept, of every GPU."""
    for path in scan_cost_tables.forget():
        print(f"removed {path}")
    print(f"scans are planned by what is shipped: {scan_cost_tables.shipped()}")
    return 0


def _nvrtc() -> str:
    from cupy_backends.cuda.libs import nvrtc

    return "{}.{}".format(*nvrtc.getVersion())


# ---- measured


def _plans(draw: Draw, xs: Sequence[Any]) -> list[tuple[Features, list[Callable[[], Any]]]]:
    """Of a scan of several chunks that are alike, every plan: what its time depends on, and a call for each chunk."""
    (axis,), bound = draw.axes, operators.get(draw.op).bind(xs[0].dtype)
    exclusive, reverse = (draw.mode == mode for mode in ("exclusive", "reverse"))
    gpu = scan_launch.gpu(xs[0].data.device_id)

    def call(x: Any, kernel: str) -> Any:
        return device_scan.scan((x,), bound, axis, None, exclusive, reverse, with_total=False, method=kernel)[0]

    return [
        (features, [partial(call, x, features.kernel) for x in xs])
        for features in device_scan.features((xs[0],), bound, axis, exclusive, reverse, gpu)
    ]


def measure(draw: Draw) -> Case:
    """Check every plan of a draw, and time it."""
    job, found = prepare(draw), []
    for features, calls in _plans(draw, [x for (x,) in job.arrays]):
        is_right = bool(job.is_right(calls[0]()))
        took = device_seconds(Rotation(calls), patience=PATIENCE)
        found.append({**asdict(features), "seconds": took, "right": is_right})
    return {"case": draw.label, "mib": draw.mib, "plans": found}


def compile_plans(draw: Draw) -> None:
    """Run every plan of a draw once, for NVRTC's cache on disk."""
    import cupy as cp

    compile_ahead(draw, with_peers=False)
    try:
        for _, (call,) in _plans(draw, [x for (x,) in prepare(draw, 1).arrays]):
            call()
        cp.cuda.get_current_stream().synchronize()
    except Exception:  # the measurement meets it too, and tells
        pass
    finally:
        cp.get_default_memory_pool().free_all_blocks()


def described(case: Case) -> str:
    """One line: the fastest plans first, wrong ones named."""
    if "error" in case:
        return f"ERROR {case['case']}: {case['error'][:200]}"
    plans = sorted(case["plans"], key=lambda plan: float(plan["seconds"]))
    told = [f"{plan['kernel']} {plan['seconds'] * 1e6:.0f}{'' if plan['right'] else ' WRONG'}" for plan in plans]
    return f"{case['mib']:g} MiB {case['case']}: us {', '.join(told)}"


# ---- fitted


def fitted(result: Result, gpu: Gpu, architecture: str, nvrtc: str) -> Table | None:
    """The table of what was measured, None where that is too little, or no better than what is shipped."""
    cases = [case for case in map(timed, result["cases"]) if case]
    if len(cases) < FEWEST:
        print(f"{len(cases)} cases are too few to fit to: give {FEWEST} or more")
        return None
    if max(result["sizes"]) < APART * min(result["sizes"]):
        print(f"sizes are too much alike to fit to: give some {APART} times as large as others")
        return None
    before = scan_cost_tables.shipped(architecture)
    order = np.random.default_rng(result["tune"]).permutation(len(cases))
    known, held = [[cases[i] for i in half] for half in (order[::2], order[1::2])]
    half = fit(known, before.costs, gpu)
    then, now = quality(held, before.costs, gpu), quality(held, half, gpu)
    print(f"of the half that was not fitted to\n  as shipped: {then}\n  fitted:     {now}")
    if now.mean_slower > then.mean_slower or loss(held, half, gpu) > WORTH * loss(held, before.costs, gpu):
        print("hardly better than what is shipped, which stays in use")
        return None
    sizes = ", ".join(f"{size:g}" for size in result["sizes"])
    said = f"{len(cases)} random scans of {sizes} MiB (seed {result['tune']}), each by every kernel that takes it"
    costs = fit(cases, before.costs, gpu)
    return Table(costs, result["gpu"], architecture, result["date"], nvrtc, said, now, text=scan_cost_tables.version())


def timed(case: dict[str, Any]) -> list[Timed]:
    """The plans of a case that were right, as it stands in a file."""
    found = []
    for plan in case.get("plans", ()):
        features = Features(**{name: plan[name] for name in Features.__dataclass_fields__})
        if plan["right"] and math.isfinite(plan["seconds"]):
            found.append(Timed(features, plan["seconds"]))
    return found
