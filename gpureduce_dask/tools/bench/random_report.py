"""What is made of random chunks: quantiles of the share of a ceiling, the worst, those behind a peer, and a plot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .peers import version_list
from .report import between

Case = dict[str, Any]
Result = dict[str, Any]

PEERS = ("CuPy", "torch")
SLOWER = 1.05  # times a peer's time from which on a case is slower than it
SHOWN = 120  # letters of a kernel's name
WORST = 10  # cases that a page shows
MISSED = 1.3  # times as long, or as short, as predicted: from there on a plan's time was missed


def is_clean(result: Result) -> bool:
    """True where every case ran and was right."""
    return all("error" not in case and case["right"] for case in result["cases"])


def shares(cases: Iterable[Case], who: str = "ours") -> list[float]:
    """In ascending order, of the cases that have one."""
    return sorted(case[who] for case in cases if case.get(who) is not None)


def touched_shares(cases: Iterable[Case]) -> list[float]:
    """Ours in ascending order, where all bytes of the sectors count that a view's elements lie in."""
    return sorted(case["ours"] * case.get("touched", 1.0) for case in cases)


def quantiles(values: list[float]) -> tuple[float, float, float]:
    """The median, the tenth percentile and the least of ascending values."""
    return values[len(values) // 2], values[len(values) // 10], values[0]


def slower(cases: Iterable[Case]) -> list[Case]:
    """Those that take longer than a peer, the furthest behind first."""
    found = [case for case in cases if _behind(case) > SLOWER]
    return sorted(found, key=_behind, reverse=True)


def _behind(case: Case) -> float:
    """Our time by that of the fastest peer."""
    return max((case["ours_s"] / case[f"{p}_s"] for p in PEERS if f"{p}_s" in case), default=0.0)


def missed(cases: Iterable[Case]) -> list[Case]:
    """Those whose plan was predicted to take much longer or shorter than it did, the furthest first."""
    return sorted((case for case in cases if _off(case) > MISSED), key=_off, reverse=True)


def _off(case: Case) -> float:
    predicted = case.get("predicted_s")
    return max(case["ours_s"] / predicted, predicted / case["ours_s"]) if predicted else 0.0


def families(result: Result) -> dict[tuple[str, float], list[Case]]:
    """Cases that ran, by kind and size."""
    found: dict[tuple[str, float], list[Case]] = {}
    for case in result["cases"]:
        if "ours" in case:
            found.setdefault((case["kind"], case["mib"]), []).append(case)
    return dict(sorted(found.items()))


def summary(result: Result, worst: int = WORST) -> str:
    """Quantiles for each kind and size, the worst, those behind a peer, wrong or failed."""
    ran = [case for case in result["cases"] if "ours" in case]
    behind = slower(ran)
    wrong = [case for case in ran if not case["right"]]
    failed = [case for case in result["cases"] if "error" in case]
    lines = [
        f"{result['gpu']}, {result['date']}, seed {result['random']}: {len(result['cases'])} cases, "
        f"{len(wrong)} wrong, {len(failed)} failed, {len(behind)} slower than a peer",
        table(result),
    ]
    if ran:
        lines.append(
            f"seconds: {sum(case['wall_s'] for case in ran):.0f}, of them first calls "
            f"{sum(case['first_call_s'] for case in ran):.0f} and checks {sum(case['check_s'] for case in ran):.0f}"
        )
        lines.append(f"the worst {min(worst, len(ran))}:")
    for case in sorted(ran, key=lambda case: float(case["ours"]))[:worst]:
        kernels = "; ".join(name[:SHOWN] for name in case["kernels"])
        lines.append(f"  {describe(case)}" + (f"\n      {kernels}" if kernels else ""))
    off = missed(ran)
    lines.append(f"times missed by more than {MISSED}: {len(off)} of {sum('predicted_s' in case for case in ran)}")
    lines += [f"  {case['predicted_s'] / case['ours_s']:.2f} predicted: {describe(case)}" for case in off[:worst]]
    lines += [f"  {_behind(case):.2f} times a peer's time: {describe(case)}" for case in behind]
    lines += [f"WRONG: {case['case']}" for case in wrong]
    lines += [f"FAILED: {case['case']}: {case['error'][:300]}" for case in failed]
    return "\n".join(lines)


def table(result: Result) -> str:
    """A Markdown table of quantiles: ours, and the peers' over the cases that they take."""
    lines = [
        "| kind, MiB | cases | median | tenth percentile | least | of the sectors touched | CuPy: cases, median "
        "| torch: cases, median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (kind, mib), cases in families(result).items():
        cells = [f"{value:.2f}" for value in quantiles(shares(cases))]
        cells.append(", ".join(f"{value:.2f}" for value in quantiles(touched_shares(cases))))
        for peer in PEERS:
            known = shares(cases, peer)
            cells.append(f"{len(known)}, {quantiles(known)[0]:.2f}" if known else "")
        lines.append(f"| {kind}, {mib:g} | {len(cases)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def into_page(text: str, result: Result, picture: str | None = None) -> str:
    """A page with what stands between its marks made anew: the plot, quantiles, and the worst cases."""
    ran = sorted((case for case in result["cases"] if "ours" in case), key=lambda case: float(case["ours"]))
    wrong = sum(not case["right"] for case in ran)
    head = (
        f"{result['gpu']}, {result['date']}, {version_list(result)}, seed {result['random']}: {len(result['cases'])} "
        f"cases, {wrong} called wrong, {len(result['cases']) - len(ran)} failed, {len(slower(ran))} slower than a peer."
    )
    shown = [f"![share of cases above each share of the ceiling]({picture})"] if picture else []
    worst = "\n".join(f"- {describe(case)}" for case in ran[:WORST])
    planned = sum("predicted_s" in case for case in ran)
    misses = f"Of {planned} cases the plan missed the time of {len(missed(ran))} by more than {MISSED} times."
    body = "\n\n".join([head, *shown, table(result), misses, f"The {WORST} least:", worst])
    return between("<!-- bench:random -->", "<!-- /bench:random -->", body, text)


def describe(case: Case) -> str:
    """One line: our share of the ceiling, the peers', the size and the case."""
    if "error" in case:
        return f"ERROR {case['case']}: {case['error'][:200]}"
    others = "".join(f"  {peer} {case[peer]:.3f}" for peer in PEERS if case.get(peer) is not None)
    wrong = "" if case["right"] else "  WRONG"
    return f"{case['ours']:.3f}{others}  {case['mib']:g} MiB {case['kind']}: {case['case']}{wrong}"


def plot(result: Result, path: Path) -> None:
    """The share of cases above each share of the ceiling: a curve for each kind and size, and one for each peer."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = families(result)
    kinds = sorted({kind for kind, _ in found})
    figure, grid = plt.subplots(1, max(1, len(kinds)), figsize=(5 * max(1, len(kinds)), 4), squeeze=False, sharey=True)
    for axes, kind in zip(grid[0], kinds, strict=False):
        cases = [case for (mine, _), some in found.items() if mine == kind for case in some]
        curves = {f"{mib:g} MiB": shares(some) for (mine, mib), some in found.items() if mine == kind}
        for label, values in curves.items():
            axes.step([0, *values, values[-1]], above(values), where="pre", label=label)
        for peer, style in zip(PEERS, ("--", ":"), strict=True):
            if values := shares(cases, peer):
                axes.step([0, *values, values[-1]], above(values), style, where="pre", color="gray", label=peer)
        axes.set_xlim(0, max(1.05, math.ceil(10 * max(shares(cases))) / 10 if cases else 0))
        axes.set_ylim(0, 1.02)
        axes.set_title(kind)
        axes.set_xlabel("share of the fastest " + ("copy" if kind == "scans" else "read"))
        axes.legend(loc="lower left", fontsize=7)
    grid[0][0].set_ylabel("share of cases at or above it")
    figure.suptitle(f"{result['gpu']}, {result['date']}, seed {result['random']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def above(values: list[float]) -> list[float]:
    """What part of ascending values is at or above 0 and each of them, and 0 behind the last."""
    return [1.0, *(1 - i / len(values) for i in range(len(values))), 0.0]
