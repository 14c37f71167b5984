"""``python -m gpureduce_dask bench tune``: what kernels cost on the GPU at hand, measured and fitted.

Random scans, or reductions, are each done in every way that takes them, checked and timed. Costs are fitted to these
times (tune_fit.py). They replace those before where a fit to half the cases predicts the other half better than these
do, and picks ways there that are no slower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...device import scan_cost_tables
from ...device.scan_cost_tables import Quality
from .random_chunks import Case, Job, Result, compile_ahead, compiling, measured, prepare, write
from .random_draws import Draw, draws
from .timing import Rotation, device_seconds
from .tune_fit import Model, Values, fit, loss, quality
from .tune_reductions import Reductions
from .tune_scans import Scans

FEWEST = 60  # cases to fit to
APART = 16  # times the smallest size that the largest has, to tell apart how kernels start and what bytes cost
WORTH = 0.9  # of the loss before, that costs may have at most, whose picks are no slower: bits change
ALIKE = 1.002  # times as long, that picks by a table may take, where it predicts times better: noise
PATIENCE = 0.2  # seconds for the time of one plan


class Tuned(Protocol):
    """What is tuned.

    Attributes
    ----------
    kinds : sequence of str
        Which draws, in turn.
    named : str
        What a plan is called by, of what stands in a file of it.
    """

    kinds: Sequence[str]
    named: str

    def plans(self, draw: Draw, job: Job) -> Iterator[tuple[dict[str, Any], list[Callable[[], Any]]]]:
        """Every plan of a draw: what its predicted time depends on, and a call for each buffer."""

    def model(self, cases: Sequence[Sequence[dict[str, Any]]]) -> Model:
        """What predicts the times of plans, as they stand in a file."""

    def values(self) -> Values:
        """The costs before."""

    def keep(self, values: Values, quality: Quality, result: Result) -> str:
        """Make a table of them, which goes into the result, and say where else it is."""


def run(
    seed: int,
    count: int,
    sizes: Sequence[float],
    seconds: float,
    processes: int | None,
    path: Path,
    reductions: bool = False,
) -> int:
    """Measure, fit, and keep what is better; 1 where a plan gave wrong results."""
    import cupy as cp

    number, until = cp.cuda.Device().id, time.monotonic() + seconds
    name = cp.cuda.runtime.getDeviceProperties(number)["name"].decode()
    result: Result = {"tune": seed, "gpu": name, "sizes": [*sizes], "date": time.strftime("%Y-%m-%d"), "cases": []}
    tuned: Tuned = Reductions() if reductions else Scans(number)
    processes = compiling(processes)
    print(f"{name}, seed {seed}: {processes} processes compile ahead", flush=True)
    chosen = [*islice(draws(seed, sizes, tuned.kinds), count)]
    for case in measured(chosen, partial(compile_plans, tuned), partial(measure, tuned), processes, until):
        result["cases"].append(case)
        print(describe(case, tuned.named), flush=True)
        write(result, path)
    found = fitted(result, tuned)
    if found is not None:
        summary = tuned.keep(*found, result)
        write(result, path)
        print(f"{path} has the table; {summary}")
    return int(any(not plan["right"] for case in result["cases"] for plan in case.get("plans", ())))


def forget() -> int:
    """Remove what was kept, of every GPU."""
    for path in scan_cost_tables.forget():
        print(f"removed {path}")
    print(f"scans are planned by what is shipped: {scan_cost_tables.shipped()}")
    return 0


# ---- measured


def measure(tuned: Tuned, draw: Draw) -> Case:
    """Check every plan of a draw, and time it."""
    job, found = prepare(draw), []
    for plan, calls in tuned.plans(draw, job):
        is_right = bool(job.is_right(calls[0]()))
        found.append({**plan, "seconds": device_seconds(Rotation(calls), patience=PATIENCE), "right": is_right})
    return {"case": draw.label, "mib": draw.mib, "plans": found}


def compile_plans(tuned: Tuned, draw: Draw) -> None:
    """Run every plan of a draw once, for NVRTC's cache on disk."""
    import cupy as cp

    compile_ahead(draw, with_peers=False)
    try:
        for _, (call, *_) in tuned.plans(draw, prepare(draw, 1)):
            call()
        cp.cuda.get_current_stream().synchronize()
    except Exception:  # the measurement meets it too, and tells
        pass
    finally:
        cp.get_default_memory_pool().free_all_blocks()


def describe(case: Case, named: str) -> str:
    """One line: the fastest plans first, wrong ones named."""
    if "error" in case:
        return f"ERROR {case['case']}: {case['error'][:200]}"
    plans = sorted(case["plans"], key=lambda plan: float(plan["seconds"]))
    times = [f"{plan[named]} {plan['seconds'] * 1e6:.0f}{'' if plan['right'] else ' WRONG'}" for plan in plans]
    return f"{case['mib']:g} MiB {case['case']}: us {', '.join(times)}"


# ---- fitted


def fitted(result: Result, tuned: Tuned) -> tuple[Values, Quality] | None:
    """Costs of what was measured, and how well those of half the cases predict the others; None where that is too
    little, or no better than what is shipped."""
    cases = [case for case in map(timed, result["cases"]) if case]
    if len(cases) < FEWEST:
        print(f"{len(cases)} cases are too few to fit to: give {FEWEST} or more")
        return None
    if max(result["sizes"]) < APART * min(result["sizes"]):
        print(f"sizes are too much alike to fit to: give some {APART} times as large as others")
        return None
    before = tuned.values()
    order = np.random.default_rng(result["tune"]).permutation(len(cases))
    training, validation = (tuned.model([cases[i] for i in half]) for half in (order[::2], order[1::2]))
    half = fit(training, before)
    then, now = quality(validation, before), quality(validation, half)
    print(f"of the half that was not fitted to\n  as shipped: {then}\n  fitted:     {now}")
    if now.mean_slower > ALIKE * then.mean_slower or loss(validation, half) > WORTH * loss(validation, before):
        print("hardly better than what is shipped, which stays in use")
        return None
    return fit(tuned.model(cases), before), now


def timed(case: Case) -> list[dict[str, Any]]:
    """The plans of a case that were right, as they stand in a file."""
    return [plan for plan in case.get("plans", ()) if plan["right"] and math.isfinite(plan["seconds"])]
