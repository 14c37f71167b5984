"""Costs of kernels from measured times: what predicts them well, and ranks ways to do a thing as they are ranked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ...device.scan_cost_tables import Quality

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[str, str]  # a kernel, or a kind of launch, and which of its costs; no kernel where the cost is of all
Values = dict[Key, float]

# Of 217 scans on an H200 and half as many on an H100, halves fitted and the others predicted, eight times: times missed
# by 1.18 so, by 1.20 with PICKING 10 and SOFT 0.1, by 1.18 with KEPT 0.02 and SOFT 0.05, by 1.35 with the costs before;
# picked plans slower by 1.017, 1.017, 1.021 and 1.014.
PICKING = 3.0  # how much a factor of e between the way that is picked and the fastest one weighs, by a missed time's
SOFT = 0.03  # ways whose predicted times differ by so much (logarithms) may either be picked
KEPT = 1.0  # what a factor of e from the cost before weighs, by a measured time's: little data changes little
FACTORS = (0.5, 0.8, 0.93, 0.98, 1.02, 1.07, 1.25, 2.0)
SWEEPS = 30
ENOUGH = 1e-4  # of the loss, that a sweep must gain


class Model(Protocol):
    """Times of all ways to do some cases, and how costs predict them.

    Attributes
    ----------
    measured : array of float64
        Logarithms of seconds, a row a case; infinite where a case has fewer ways than others.
    """

    measured: Array

    def predict(self, values: Values, of: str, into: Array) -> None:
        """Write logarithms of predicted seconds for the ways in which costs of one kernel count, or of all where no
        kernel is named."""

    def tried(self, key: Key, value: float) -> Sequence[float]:
        """Other values that a cost may have; none where the cases say nothing of it."""

    def penalty(self, key: Key, now: float, before: float) -> float:
        """What it weighs that a cost is no longer what it was."""


def drawn(result: dict[str, Any], what: str) -> str:
    """What was measured, in words."""
    count, sizes = sum("plans" in case for case in result["cases"]), ", ".join(f"{n:g}" for n in result["sizes"])
    return f"{count} random {what} of {sizes} MiB (seed {result['tune']})"


def scaled(value: float) -> list[float]:
    """Values that a cost may have in place of this one."""
    return [value * factor for factor in FACTORS]


def far(now: float, before: float) -> float:
    """What it weighs that a cost above zero is no longer what it was."""
    return 0.0 if now == before else KEPT * math.log(now / before) ** 2


def as_rows(cases: Sequence[Sequence[float]]) -> Array:
    """Logarithms of seconds, a row a case, filled up with infinities."""
    found = np.full((len(cases), max(map(len, cases))), np.inf)
    for row, case in zip(found, cases, strict=True):
        row[: len(case)] = np.log(case)
    return found


def predicted(model: Model, values: Values) -> Array:
    """Logarithms of predicted seconds, as they are measured."""
    found = np.full(model.measured.shape, np.inf)
    model.predict(values, "", found)
    return found


def quality(model: Model, values: Values) -> Quality:
    """How well costs predict measured times."""
    seconds, is_one = predicted(model, values), np.isfinite(model.measured)
    missed = np.exp(np.abs(seconds[is_one] - model.measured[is_one]))
    picked = np.take_along_axis(model.measured, seconds.argmin(1)[:, None], 1)[:, 0]
    slower = picked - model.measured.min(1)
    mean = round(math.exp(float(slower.mean())), 4)
    return Quality(len(slower), _percentiles(missed), _percentiles(np.exp(slower)), mean)


def _percentiles(values: Iterable[float]) -> tuple[float, float]:
    median, most = np.percentile([*values], (50, 90))
    return round(float(median), 3), round(float(most), 3)


class _Fit:
    """Costs on their way to the least loss; what one kernel adds to it is found anew where its costs change."""

    def __init__(self, model: Model, values: Values) -> None:
        self.model, self.before, self.values = model, values, dict(values)
        self.is_one = np.isfinite(model.measured)
        self.measured = np.where(self.is_one, model.measured, 0.0)
        self.behind = np.where(self.is_one, model.measured - model.measured.min(1, keepdims=True), 0.0)
        self.weights = np.where(self.is_one, np.exp(-self.behind), 0.0)  # a way that nobody wants may be missed
        self.predicted = predicted(model, values)
        self.penalty = 0.0

    def loss(self) -> float:
        off = np.where(self.is_one, self.predicted, 0) - self.measured
        chances = np.exp((self.predicted.min(1, keepdims=True) - self.predicted) / SOFT)
        picked = (chances * self.behind).sum(1) / chances.sum(1)
        return float((self.weights * off**2).sum() + PICKING * picked.sum()) + self.penalty

    def descend(self, key: Key, best: float) -> float:
        """Move one cost while that lowers the loss."""
        for value in self.model.tried(key, self.values[key]):
            value_before, penalty, predictions = self.values[key], self.penalty, self.predicted.copy()
            weighs = [self.model.penalty(key, each, self.before[key]) for each in (value, value_before)]
            self.values[key], self.penalty = value, penalty + weighs[0] - weighs[1]
            self.model.predict(self.values, key[0], self.predicted)
            loss = self.loss()
            if loss < best:
                best = loss
            else:
                self.values[key], self.penalty, self.predicted = value_before, penalty, predictions
        return best


def loss(model: Model, values: Values) -> float:
    """What a fit lowers: squared logarithms of missed times, and how much slower a way is than the fastest one."""
    return _Fit(model, values).loss()


def fit(model: Model, values: Values) -> Values:
    """The costs of least loss, from those before on, one after another; what has moved has three digits, which is more
    than is known."""
    state = _Fit(model, values)
    least = state.loss()
    for _ in range(SWEEPS):
        begin = least
        for key in values:
            least = state.descend(key, least)
        if begin - least < ENOUGH * begin:
            break
    return {key: value if value == values[key] else float(f"{value:.3g}") for key, value in state.values.items()}
