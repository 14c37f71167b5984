"""What the launches of reductions cost, for ``bench tune --reductions``.

One table holds for every GPU, so that results have the same bits everywhere: what is fitted is for the package to take
over, and is not kept for the GPU at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...device import chunk_plans, reduce_costs
from ...device import reduce as device_reduce
from ...device.reduce_costs import RESIDENT, Cost, Effort, Table
from ...device.scan_cost_tables import Quality
from ...operators import table as operators
from ...place import starts_of
from .random_chunks import Job, Result, places_of
from .random_draws import BATCH, REDUCTIONS, Draw
from .tune_fit import Array, Key, Values, as_rows, drawn, far, scaled

HOPELESS = 8.0  # times the least that is predicted: what nobody would pick, and what would take long to time
# What costs may be: starts and rounds that no case tells of would else lead tiny arrays astray.
BOUNDS = {
    "start": (4e-6, 7.5e-6),
    "load": (1e-14, 1e-11),
    "element": (1e-14, 1e-12),
    "round": (5e-7, 2e-6),
    "end": (3e-13, 3e-11),
}
SHARED = ("memory", "line", "lookup", "state", "joined", "chain", "weight")  # costs that are the same of every kind


class Reductions:
    """Every way to take a reduction, but for hopeless ones."""

    kinds: Sequence[str] = (REDUCTIONS, REDUCTIONS, REDUCTIONS, REDUCTIONS, BATCH)
    named: str = "way"

    def plans(self, draw: Draw, job: Job) -> Iterator[tuple[dict[str, Any], list[Callable[[], Any]]]]:
        parts, is_batch = job.arrays, draw.kind == BATCH
        first = parts[0][0]
        device, bound = first.data.device_id, operators.get(draw.op).bind(first.dtype)
        places = places_of(draw, first.shape) if is_batch else None
        starts = starts_of(places, draw.axes) if places and bound.indexed else None
        place = places[0] if places else None
        found = [*chunk_plans.every((first,), len(parts[0]), bound, draw.axes, place, not is_batch)]
        addresses = [np.array([[x.data.ptr] for x in part], np.int64) for part in parts]
        least = min(seconds for _, _, seconds, _ in found)
        for name, efforts, seconds, compiled in found:
            if seconds < HOPELESS * least:
                prepared, plan = compiled(), {"way": name, "efforts": [effort._asdict() for effort in efforts]}
                yield plan, [partial(device_reduce.run, prepared, each, starts, device) for each in addresses]

    def model(self, cases: Sequence[Sequence[dict[str, Any]]]) -> Model:
        return Model(cases)

    def values(self) -> Values:
        return values_of(reduce_costs.table())

    def keep(self, values: Values, quality: Quality, result: Result) -> str:
        said = f"{drawn(result, 'reductions and batches of chunks')}, each by every way that takes it"
        measured = f"{said}. Fitted to half of them, of the others: {quality}"
        result["table"] = as_json(reduce_costs.table(), values, result["gpu"], result["date"], measured)
        return f"the package plans by {reduce_costs.TABLE}, on every GPU"


class Model:
    """Times of every way to do some reductions, and how costs predict them."""

    def __init__(self, cases: Sequence[Sequence[dict[str, Any]]]) -> None:
        self.measured = as_rows([[plan["seconds"] for plan in case] for case in cases])
        width = self.measured.shape[1]
        launches = [
            (row * width + column, Effort(**effort))
            for row, case in enumerate(cases)
            for column, plan in enumerate(case)
            for effort in plan["efforts"]
        ]
        self.ways = np.array([way for way, _ in launches])
        self.kinds = np.array([effort.kind for _, effort in launches])
        self.of = np.array([effort[1:] for _, effort in launches], float).T  # a row each member of Effort but its kind
        self.seconds = np.zeros(len(launches))
        self.known: frozenset[str] = frozenset(self.kinds)

    def predict(self, values: Values, of: str, into: Array) -> None:
        """As ``reduce_costs.seconds`` does it, of all launches at a time."""
        for kind in [of] if of else self.known:
            at = self.kinds == kind
            self.seconds[at] = _seconds(Effort(kind, *self.of[:, at]), values)
        with np.errstate(divide="ignore"):
            seconds = np.log(np.bincount(self.ways, self.seconds, minlength=into.size).reshape(into.shape))
        into[:] = np.where(np.isfinite(self.measured), seconds, np.inf)

    def tried(self, key: Key, value: float) -> Sequence[float]:
        kind, name = key
        if not value or (kind and kind not in self.known):
            return []
        low, high = BOUNDS[name] if kind else (0.0, math.inf)
        return [each for each in scaled(value) if low <= each <= high]

    def penalty(self, key: Key, now: float, before: float) -> float:
        return far(now, before)


def _seconds(of: Any, values: Values) -> Array:
    cost = Cost(*(values[of.kind, name] for name in Cost._fields))
    shared: Any = {name: values["", name] for name in SHARED}
    costs = replace(reduce_costs.table(), **shared)
    together, behind = reduce_costs.parts(of, cost, costs, np.maximum(1, of.threads / RESIDENT))
    return np.asarray(cost.start + np.sqrt(sum(each**2 for each in together)) + behind)


def values_of(table: Table) -> Values:
    """Costs by what they are of."""
    kinds = {(kind, name): value for kind, cost in table.kinds.items() for name, value in cost._asdict().items()}
    return {**kinds, **{("", name): getattr(table, name) for name in SHARED}}


def as_json(before: Table, values: Values, gpu: str, date: str, measured: str) -> dict[str, Any]:
    """A table as it stands in the package."""
    kinds = {kind: {name: values[kind, name] for name in Cost._fields} for kind in before.kinds}
    return {
        "kinds": kinds,
        **{name: values["", name] for name in SHARED},
        "gpu": gpu,
        "date": date,
        "measured": measured,
    }
