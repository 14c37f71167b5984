"""What kernels of scans cost on a GPU, for ``bench tune``: kept for that GPU, in the user's cache folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from ...device import scan as device_scan
from ...device import scan_cost_tables, scan_launch
from ...device.scan_cost_tables import Cost, Costs, Quality, Table
from ...device.scan_costs import Features, seconds
from ...device.scan_task import Gpu
from ...operators import table as operators
from .random_chunks import Job, Result
from .random_draws import SCANS, Draw
from .tune_fit import Array, Key, Values, as_rows, drawn, far, scaled

NEW = 2.5  # what a cost that was zero weighs in a fit, beside its distance from the one below
# Where costs begin that were zero.
FIRST = {"short": 20.0, "element": 1e-12, "along_memory": 20e-12, "block": 6e-10, "step": 5e-8}
SMALL = 32 << 20  # bytes moved, below which a scan's time says something of how a kernel starts


class Scans:
    """Every kernel that takes a scan."""

    kinds: Sequence[str] = (SCANS,)
    named: str = "kernel"

    def __init__(self, number: int) -> None:
        """Of one GPU."""
        self.number = number

    def plans(self, draw: Draw, job: Job) -> Iterator[tuple[dict[str, Any], list[Callable[[], Any]]]]:
        xs = [x for (x,) in job.arrays]
        (axis,), bound = draw.axes, operators.get(draw.op).bind(xs[0].dtype)
        exclusive, reverse = (draw.mode == mode for mode in ("exclusive", "reverse"))
        gpu = scan_launch.gpu(self.number)

        def call(x: Any, kernel: str) -> Any:
            return device_scan.scan((x,), bound, axis, None, exclusive, reverse, with_total=False, method=kernel)[0]

        for features in device_scan.features((xs[0],), bound, axis, exclusive, reverse, gpu):
            yield asdict(features), [partial(call, x, features.kernel) for x in xs]

    def model(self, cases: Sequence[Sequence[dict[str, Any]]]) -> Model:
        return Model(cases, scan_launch.gpu(self.number))

    def values(self) -> Values:
        return values_of(self._shipped().costs)

    def keep(self, values: Values, quality: Quality, result: Result) -> str:
        said = f"{drawn(result, 'scans')}, each by every kernel that takes it"
        named = result["gpu"], self._architecture(), result["date"], _nvrtc(), said
        table = Table(costs_of(values, self._shipped().costs), *named, quality, text=scan_cost_tables.version())
        result["table"] = asdict(table)
        return f"written to {scan_cost_tables.write(table)}; processes that begin from now on plan by it"

    def _shipped(self) -> Table:
        return scan_cost_tables.shipped(self._architecture())

    def _architecture(self) -> str:
        import cupy

        return f"sm_{cupy.cuda.Device(self.number).compute_capability}"


def _nvrtc() -> str:
    from cupy_backends.cuda.libs import nvrtc

    return "{}.{}".format(*nvrtc.getVersion())


class Model:
    """Times of every plan of some scans, and how costs predict them."""

    def __init__(self, cases: Sequence[Sequence[dict[str, Any]]], gpu: Gpu) -> None:
        self.measured, self.gpu = as_rows([[plan["seconds"] for plan in case] for case in cases]), gpu
        self.plans: dict[str, list[tuple[int, int, Features]]] = {}
        for i, case in enumerate(cases):
            for j, plan in enumerate(case):
                features = Features(**{name: plan[name] for name in Features.__dataclass_fields__})
                self.plans.setdefault(features.kernel, []).append((i, j, features))

    def predict(self, values: Values, of: str, into: Array) -> None:
        for kernel in [of] if of else self.plans:
            cost = _cost(values, kernel)
            for i, j, features in self.plans[kernel]:
                into[i, j] = math.log(seconds(features, cost, self.gpu))

    def tried(self, key: Key, value: float) -> Sequence[float]:
        kernel, name = key
        plans = self.plans.get(kernel, ())
        is_told = name != "start" or any(features.nbytes < SMALL for *_, features in plans)
        if not plans or not is_told or not math.isfinite(value) or (value == 0 and name not in FIRST):
            return []
        return scaled(value) + [0.0] * (name in FIRST) if value else [FIRST[name]]

    def penalty(self, key: Key, now: float, before: float) -> float:
        """The same as of every cost, and more where one was not there before."""
        is_new = NEW * ((now == 0) != (before == 0))
        return is_new + (far(now, before or FIRST[key[1]]) if now and now != before else 0.0)


def _cost(values: Values, kernel: str) -> Cost:
    return Cost(**{name: values[kernel, name] for name in Cost.__dataclass_fields__})


def values_of(costs: Costs) -> Values:
    """Costs by what they are of."""
    return {(kernel, name): value for kernel, cost in costs.items() for name, value in asdict(cost).items()}


def costs_of(values: Values, before: Costs) -> dict[str, Cost]:
    """The costs of each kernel."""
    return {kernel: _cost(values, kernel) for kernel in before}
