"""Costs of scan kernels from measured times: what predicts them well, and ranks plans as they are ranked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ...device.scan_cost_tables import Cost, Costs, Quality
from ...device.scan_costs import Features, Gpu, seconds

# Of 217 scans on an H200 and half as many on an H100, halves fitted and the others predicted, eight times: times missed
# by 1.18 so, by 1.20 with PICKING 10 and SOFT 0.1, by 1.18 with KEPT 0.02 and SOFT 0.05, by 1.35 with the costs before;
# picked plans slower by 1.017, 1.017, 1.021 and 1.014.
PICKING = 3.0  # how much a factor of e between the plan that is picked and the fastest one weighs, by a missed time's
SOFT = 0.03  # plans whose predicted times differ by so much (logarithms) may either be picked
KEPT = 1.0  # what a factor of e from the cost before weighs, by a measured time's: little data changes little
NEW = 2.5  # what a cost that was zero weighs in the same way, beside its distance from the one below
# Where costs begin that were zero.
FIRST = {"short": 20.0, "element": 1e-12, "along_memory": 20e-12, "block": 6e-10, "step": 5e-8}
SMALL = 32 << 20  # bytes moved, below which a scan's time says something of how a kernel starts
FACTORS = (0.5, 0.8, 0.93, 0.98, 1.02, 1.07, 1.25, 2.0)
SWEEPS = 30
ENOUGH = 1e-4  # of the loss, that a sweep must gain


@dataclass(frozen=True)
class Timed:
    """A plan and how long it took."""

    features: Features
    seconds: float


Case = Sequence[Timed]  # of one scan, every plan


def quality(cases: Sequence[Case], costs: Costs, gpu: Gpu) -> Quality:
    """How well costs predict measured times."""
    missed, slower = [], []
    for case in cases:
        told = [seconds(plan.features, costs[plan.features.kernel], gpu) for plan in case]
        missed += [math.exp(abs(math.log(mine / plan.seconds))) for mine, plan in zip(told, case, strict=True)]
        slower.append(case[int(np.argmin(told))].seconds / min(plan.seconds for plan in case))
    mean = math.exp(float(np.mean(np.log(slower))))
    return Quality(len(cases), _percentiles(missed), _percentiles(slower), round(mean, 4))


def _percentiles(values: Iterable[float]) -> tuple[float, float]:
    median, most = np.percentile(list(values), (50, 90))
    return round(float(median), 3), round(float(most), 3)


class _Fit:
    """Times as a matrix, a row a case, and the loss of what is predicted for them; what one kernel adds to it is found
    anew where its costs change."""

    def __init__(self, cases: Sequence[Case], costs: Costs, gpu: Gpu) -> None:
        self.before, self.costs, self.gpu = costs, dict(costs), gpu
        self.plans: dict[str, list[tuple[int, int, Features]]] = {kernel: [] for kernel in costs}
        self.measured = np.full((len(cases), max(map(len, cases))), np.inf)
        for i, case in enumerate(cases):
            for j, plan in enumerate(case):
                self.plans[plan.features.kernel].append((i, j, plan.features))
                self.measured[i, j] = math.log(plan.seconds)
        self.is_one = np.isfinite(self.measured)
        self.behind = np.where(self.is_one, self.measured - self.measured.min(1, keepdims=True), 0.0)
        self.weights = np.where(self.is_one, np.exp(-self.behind), 0.0)  # a plan that nobody wants may be missed
        self.predicted = np.full(self.measured.shape, np.inf)
        for kernel in costs:
            self.predict(kernel)

    def predict(self, kernel: str) -> None:
        for i, j, features in self.plans[kernel]:
            self.predicted[i, j] = math.log(seconds(features, self.costs[kernel], self.gpu))

    def loss(self) -> float:
        off = np.where(self.is_one, self.predicted, 0) - np.where(self.is_one, self.measured, 0)
        chances = np.exp((self.predicted.min(1, keepdims=True) - self.predicted) / SOFT)
        picked = (chances * self.behind).sum(1) / chances.sum(1)
        moved = sum(_moved(self.costs[kernel], cost) for kernel, cost in self.before.items())
        return float((self.weights * off**2).sum() + PICKING * picked.sum() + moved)

    def descend(self, kernel: str, name: str, best: float) -> float:
        """Move one cost while that lowers the loss."""
        start = getattr(self.costs[kernel], name)
        is_told = name != "start" or any(features.nbytes < SMALL for *_, features in self.plans[kernel])
        if not is_told or not math.isfinite(start) or (start == 0 and name not in FIRST):
            return best
        tried = [start * factor for factor in FACTORS] + [0.0] * (name in FIRST) if start else [FIRST[name]]
        for value in tried:
            kept = self.costs[kernel]
            self.costs[kernel] = replace(kept, **{name: value})
            self.predict(kernel)
            loss = self.loss()
            if loss < best:
                best = loss
            else:
                self.costs[kernel] = kept
        self.predict(kernel)
        return best


def _moved(now: Cost, before: Cost) -> float:
    """How far costs are from those before."""
    new, old = asdict(now), asdict(before)
    total = 0.0
    for name, value in new.items():
        reference = old[name] or FIRST.get(name, 0)
        if value == old[name]:
            continue
        total += NEW * ((value == 0) != (old[name] == 0)) + (KEPT * math.log(value / reference) ** 2 if value else 0)
    return total


def loss(cases: Sequence[Case], costs: Costs, gpu: Gpu) -> float:
    """What a fit lowers: squared logarithms of missed times, and how much slower a plan is than the fastest one."""
    return _Fit(cases, costs, gpu).loss()


def fit(cases: Sequence[Case], costs: Costs, gpu: Gpu) -> dict[str, Cost]:
    """The costs of least loss, from those before on: coordinate by coordinate, since each kernel has few."""
    state = _Fit(cases, costs, gpu)
    least = state.loss()
    for _ in range(SWEEPS):
        begin = least
        for kernel in costs:
            for name in asdict(costs[kernel]) if state.plans[kernel] else ():
                least = state.descend(kernel, name, least)
        if begin - least < ENOUGH * begin:
            break
    return {kernel: _rounded(cost, costs[kernel]) for kernel, cost in state.costs.items()}


def _rounded(cost: Cost, before: Cost) -> Cost:
    """What has moved to three digits, which is more than is known."""
    moved = {name: value for name, value in asdict(cost).items() if value != getattr(before, name)}
    return replace(cost, **{name: float(f"{value:.3g}") for name, value in moved.items()})
