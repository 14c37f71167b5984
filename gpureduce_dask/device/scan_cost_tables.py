"""What the kernels of scans cost, by GPU: tables that the package ships, and those that ``bench tune`` wrote here.

A table says of which GPU its numbers are, when and with which compiler they were measured, and how well they predict.
Only architectures that were measured have one in ``costs/``; others take the one whose compute capability is nearest. A
table of the user's own, in the user's cache folder, comes first. It is left aside where kernels or the formula have
changed since (scan_costs.py), or where it cannot be read.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from . import sources

SHIPPED = Path(__file__).parent / "costs"


@dataclass(frozen=True)
class Cost:
    """Of one kernel.

    Attributes
    ----------
    start : float
        Seconds until the first results, and behind the last.
    memory : float
        Times what the memory would take for the same bytes.
    short, long : float
        Bytes of a line: shorter ones than the first take more than twice as long, longer ones than the second as much
        longer as they are more than it by ``scan_costs.LONGER``.
    misaligned : float
        In place of ``memory`` where rows do not begin where sectors of memory do.
    element : float
        Seconds that an element takes of the whole GPU, by ``tuning.PROCESSORS`` processors.
    along_memory : float
        In place of ``element`` where a thread takes a line along memory.
    heavy : float
        How many times that is where states are large.
    block : float
        Seconds that a block takes of the whole GPU to start and to end.
    step : float
        Seconds from one step to the next: of a thread's elements, or of a block's tiles.
    """

    start: float
    memory: float
    short: float = 0.0
    long: float = math.inf
    misaligned: float = 0.0
    element: float = 0.0
    along_memory: float = 0.0
    heavy: float = 1.6
    block: float = 0.0
    step: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int | float) or not value >= 0 or (math.isinf(value) and name != "long"):
                raise ValueError(f"{name} is {value!r}")


Costs = Mapping[str, Cost]


@dataclass(frozen=True)
class Quality:
    """How well costs predict cases of which every plan was timed."""

    cases: int
    missed: tuple[float, float]  # a plan's predicted and measured time, the larger by the smaller: median, 90 %
    slower: tuple[float, float]  # the time of the plan that is picked by that of the fastest one: median, 90 %
    mean_slower: float  # the same, geometric mean

    def __str__(self) -> str:
        (missed, far), (slower, slowest) = self.missed, self.slower
        return (
            f"{self.cases} cases, times missed by {missed:.2f} (90 %: {far:.2f}), picked plans slower than the best "
            f"by {self.mean_slower:.3f} (median {slower:.3f}, 90 %: {slowest:.3f})"
        )


@dataclass(frozen=True)
class Table:
    """Costs of all kernels, and where they are from."""

    costs: Costs
    gpu: str
    architecture: str
    date: str
    nvrtc: str
    measured: str  # which cases
    quality: Quality
    text: str = ""  # of the kernels and the formula: ``version()`` when they were measured

    def __str__(self) -> str:
        kind = "as shipped" if not self.text else "by bench tune"
        return f"{kind}, of {self.gpu}, {self.date}: {self.quality}"

    def as_json(self) -> str:
        defaults = {field.name: field.default for field in fields(Cost)}
        costs = {
            kernel: {name: value for name, value in asdict(cost).items() if value != defaults[name]}
            for kernel, cost in self.costs.items()
        }
        return json.dumps({**asdict(self), "costs": costs}, indent=1) + "\n"


def from_json(text: str) -> Table:
    """The table; ValueError, KeyError or TypeError where a text holds none."""
    found: dict[str, Any] = json.loads(text)
    quality = found.pop("quality")
    return Table(
        {kernel: Cost(**numbers) for kernel, numbers in found.pop("costs").items()},
        quality=Quality(
            int(quality["cases"]), _two(quality["missed"]), _two(quality["slower"]), float(quality["mean_slower"])
        ),
        **found,
    )


def _two(values: Any) -> tuple[float, float]:
    median, most = map(float, values)
    return median, most


@functools.cache
def shipped(architecture: str = "sm_90") -> Table:
    """The package's table for an architecture, or that of the nearest one."""
    tables = {path.stem: path for path in sorted(SHIPPED.glob("sm_*.json"))}
    nearest = min(tables, key=lambda name: abs(_capability(name) - _capability(architecture)))
    return from_json(tables[nearest].read_text())


def _capability(architecture: str) -> int:
    return int(architecture.removeprefix("sm_"))


def in_use(gpu: str, architecture: str) -> tuple[Table, str]:
    """The table for a GPU, and why the user's own is left aside, if there is one and it is."""
    found = shipped(architecture)
    try:
        path = path_of(gpu)
    except RuntimeError:  # a user without a home
        return found, ""
    try:
        own = from_json(path.read_text())
    except FileNotFoundError:
        return found, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return found, f"{path} cannot be read ({type(error).__name__}: {error})"
    if (own.gpu, own.architecture) != (gpu, architecture):
        return found, f"{path} is of another GPU"
    if own.text != version() or own.costs.keys() != found.costs.keys():
        return found, f"{path} is of {own.date}, before the kernels changed"
    return own, ""


@functools.cache
def version() -> str:
    """Of what costs are about: the kernels' text, and the formula that the costs go into."""
    formula = Path(__file__).with_name("scan_costs.py").read_text()
    return hashlib.sha256((sources.source("scan.cuh") + formula).encode()).hexdigest()[:16]


def folder() -> Path:
    """Where tables of the user's own are: of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "gpureduce_dask" / "scan_costs"


def path_of(gpu: str) -> Path:
    """The file of a GPU's own table."""
    return folder() / f"{re.sub(r'[^A-Za-z0-9]+', '-', gpu)}.json"


def write(table: Table) -> Path:
    """Keep a table for its GPU; processes that have planned already go on as they did."""
    path = path_of(table.gpu)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")  # moved into place whole
    new.write_text(table.as_json())
    new.replace(path)
    return path


def forget() -> list[Path]:
    """Remove all tables of the user's own: those that were there."""
    found = sorted(folder().glob("*.json"))
    for path in found:
        path.unlink()
    return found
