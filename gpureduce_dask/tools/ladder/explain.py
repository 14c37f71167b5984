"""What the ladder says of its steps without a GPU: the list, and one step with its text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...device.sources import kernels_folder
from ...history import Step

PACKAGE = Path(__file__).parents[2]


def listing(steps: Iterable[Step]) -> str:
    """A line a step: what ``--explain`` and ``strategy=`` call it, and its idea."""
    return "\n".join(f"{step.label:<16} {step.name:<17} {step.idea}" for step in steps)


def explain(step: Step) -> str:
    """The idea of a step, where it comes from, what to look at, and its text."""
    path = source_of(step)
    facts = {
        "idea": step.idea,
        "source": step.source,
        "mended": step.mended,
        "takes": step.takes,
        "look at": step.look,
        "kernel": step.kernel.format(T="float") if step.kernel else "",
    }
    lines = [f"{step.label}: {step.name}", *(f"{name + ':':<9}{text}" for name, text in facts.items() if text)]
    shared = sorted(set(included(path)) - {"step.cuh"})
    if shared:
        lines.append(f"{'with:':<9}{', '.join(shared)}")
    return "\n".join([*lines, "", f"---- {path.name}", path.read_text().rstrip()])


def source_of(step: Step) -> Path:
    """The file that holds a step: a kernel, or a module of this package."""
    return (kernels_folder() / "history" if step.kernel else PACKAGE) / step.file


def included(path: Path) -> list[str]:
    """Names of the files that a kernel's text is built on, next door."""
    lines = path.read_text().splitlines()
    return [line.split('"')[1] for line in lines if line.startswith('#include "') and "/" not in line]
