"""What the measured ladder says where the texts say something else, in sentences made from its figures."""

from __future__ import annotations

import itertools
from typing import Any

Result = dict[str, Any]

LOADS, DRAM = "global loads, bytes/s", "DRAM reads, bytes/s"
CONFLICTS = ("bank conflicts of loads", "bank conflicts of stores")


def findings(result: Result) -> str:
    """Markdown bullets, each left out where its figures are missing."""
    rates = {row["step"]: row["rate"] for row in result["rows"] if "rate" in row}
    counted = result.get("counters", {}).get("rows", {})
    sentences = [
        _seven_steps(rates),
        _neighbours(rates, counted),
        _divergence(rates, counted),
        _padded_scans(rates),
        _scans(rates),
        _banks(rates, counted),
    ]
    return "\n".join(f"- {text}" for text in sentences if text)


def _has(rates: dict[str, float], *steps: str) -> bool:
    return all(step in rates for step in steps)


def _times(rates: dict[str, float], step: str, before: str) -> str:
    return f"{rates[step] / rates[before]:.2f}"


def _seven_steps(rates: dict[str, float]) -> str:
    steps = [f"reduce-{number:02}" for number in range(6, 13)]
    if not _has(rates, *steps):
        return ""
    parts = [f"{b[-2:].lstrip('0')} {_times(rates, b, a)}" for a, b in itertools.pairwise(steps)]
    return (
        f"**Seven steps, 6 to 12: {_times(rates, 'reduce-12', 'reduce-06')} times in all** (the texts: 4.4), shared "
        f"out otherwise. Each step over the one before: {', '.join(parts)}."
    )


def _neighbours(rates: dict[str, float], counted: dict[str, dict[str, float]]) -> str:
    steps = ("reduce-01", "reduce-02", "reduce-03")
    if not _has(rates, *steps) or not all(LOADS in counted.get(s, {}) and DRAM in counted[s] for s in steps):
        return ""
    loads, dram = (" / ".join(f"{counted[s][what] / 1e9:,.0f}" for s in steps) for what in (LOADS, DRAM))
    return (
        f"**Interleaved pairs have the lowest load throughput and are the fastest of the first three.** Steps 1 / 2 / "
        f"3 load {loads} GB/s through the first-level cache, while DRAM gives {dram} GB/s; step 3 is "
        f"{_times(rates, 'reduce-03', 'reduce-02')} times as fast as step 2, and step 2 "
        f"{_times(rates, 'reduce-02', 'reduce-01')} times as fast as step 1."
    )


def _divergence(rates: dict[str, float], counted: dict[str, dict[str, float]]) -> str:
    steps = ("reduce-06", "reduce-07", "reduce-08")
    if not _has(rates, *steps):
        return ""
    text = (
        "**Divergence costs little, bank conflicts cost more.** Step 8 is "
        f"{_times(rates, steps[2], steps[0])} times as fast as step 6, "
        f"which diverges, and {_times(rates, steps[2], steps[1])} times as fast as step 7"
    )
    if not all(_conflicts(counted.get(step, {})) for step in steps):
        return f"{text}."
    six, seven, eight = (_conflicts(counted[step]) / 1e6 for step in steps)
    return f"{text}, which has {seven:,.1f} million bank conflicts where they have {six:,.1f} and {eight:,.1f}."


def _conflicts(values: dict[str, float]) -> float:
    return sum(values.get(name, 0.0) for name in CONFLICTS)


def _padded_scans(rates: dict[str, float]) -> str:
    pairs = [(f"scan-{number:02}", f"scan-{number:02}-padded") for number in range(1, 6)]
    if not _has(rates, *(step for pair in pairs for step in pair)):
        return ""
    gains = ", ".join(_times(rates, padded, plain) for plain, padded in pairs)
    return f"**Zeros before each warp's places save a test, and little time**: steps 1 to 5 gain {gains} times."


def _scans(rates: dict[str, float]) -> str:
    if not _has(rates, "scan-03-padded", "scan-04-padded", "scan-05-padded", "scan-08"):
        return ""
    four, five, eight = (_times(rates, s, "scan-03-padded") for s in ("scan-04-padded", "scan-05-padded", "scan-08"))
    return (
        f"**Fewer bytes alone do not make a scan faster.** Reduce-then-scan (3n bytes) runs at {four} times the rate "
        f"of scan-then-fan (4n), both in tiles of 256 elements; in two levels it runs at {five} times, and the "
        f"library's single pass (2n) at {eight} times."
    )


def _banks(rates: dict[str, float], counted: dict[str, dict[str, float]]) -> str:
    if not _has(rates, "transpose-01", "transpose-02", "transpose-03", "transpose-04"):
        return ""
    shared, padded, swizzled = (_times(rates, f"transpose-{n:02}", f"transpose-{n - 1:02}") for n in (2, 3, 4))
    text = (
        f"**A transpose needs whole lines, then free banks.** Shared memory alone makes it {shared} times as fast, "
        f"padding that {padded} times, and the swizzle does the same without room ({swizzled} times padding)"
    )
    two, four = (_conflicts(counted.get(f"transpose-{n:02}", {})) / 1e6 for n in (2, 4))
    return f"{text}: {two:,.1f} million bank conflicts become {four:,.1f}." if two and four else f"{text}."
