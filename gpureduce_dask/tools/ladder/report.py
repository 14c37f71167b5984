"""Tables and a picture from the ladder's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import history
from ..bench.report import between
from .findings import findings

Result = dict[str, Any]
Row = dict[str, Any]

REFERENCE = "reduce-00"  # on the CPU: no step of the GPU is compared with it
COLOURS = {"reduce": "#76b900", "scan": "#1f77b4", "transpose": "#9467bd"}
CEILING = {"reduce": "R", "scan": "C", "transpose": "C"}
COUNTERS = (  # column, counters that it adds up, divisor, format
    ("instructions a warp", ("instructions a warp",), 1, ",.0f"),
    ("loads, GB/s", ("global loads, bytes/s",), 1e9, ",.0f"),
    ("from DRAM, GB/s", ("DRAM reads, bytes/s",), 1e9, ",.0f"),
    ("bank conflicts", ("bank conflicts of loads", "bank conflicts of stores"), 1, ",.0f"),
)


def is_clean(result: Result) -> bool:
    """True where every step was right and was timed."""
    return all(not row["wrong"] and "seconds" in row for row in result["rows"])


def ratios(rows: list[Row]) -> dict[str, tuple[float | None, float | None]]:
    """How many times faster than the step before, and than the first; by bytes a second, as slow steps get fewer."""
    found: dict[str, tuple[float | None, float | None]] = {}
    first: dict[str, float] = {}
    before: dict[str, float] = {}
    for row in rows:
        family, rate = row["family"], row.get("rate")
        if rate is None or row["step"] == REFERENCE:
            found[row["step"]] = (None, None)
            continue
        found[row["step"]] = (
            rate / before[family] if family in before else None,
            rate / first.setdefault(family, rate),
        )
        before[family] = rate
    return found


def summary(result: Result) -> str:
    """The ladder as plain text: a line a step."""
    heading = f"{result['gpu']}, {result['date']}: {result['n']:,} elements of {result['dtype']}"
    lines = [heading, f"{'':<34}{'ms':>10}{'GB/s':>9}{'share':>8}{'before':>8}{'first':>8}"]
    times = ratios(result["rows"])
    for row in result["rows"]:
        cells = _cells(row, times[row["step"]])
        widths = (10, 9, 8, 8, 8)
        cells_text = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        wrong = f"  WRONG: {'; '.join(row['wrong'][:3])}" if row["wrong"] else ""
        lines.append(f"{row['step']:<16} {row['name']:<17}{cells_text}{wrong}")
    right = sum(not row["wrong"] for row in result["rows"])
    lines.append(f"right at every size: {right} of {len(result['rows'])}; share is of R for sums, of C for the others")
    if "note" in result.get("counters", {}):
        lines.append(result["counters"]["note"])
    elif "counters" in result:
        lines += ["", _counted(result)]
    return "\n".join(lines)


def _cells(row: Row, times: tuple[float | None, float | None]) -> list[str]:
    """Milliseconds, GB/s, share of the ceiling, times the step before, times the first."""
    if "seconds" not in row:
        return [""] * 5
    timed = [f"{row['seconds'] * 1e3:.3f}", f"{row['rate'] / 1e9:,.0f}", f"{row['share']:.3f}"]
    return [*timed, *("" if t is None else f"{t:.2f}" if t < 100 else f"{t:,.0f}" for t in times)]


def _counter_cells(counters: dict[str, float]) -> list[str]:
    found = []
    for _, names, divisor, style in COUNTERS:
        known = [counters[name] for name in names if name in counters]
        found.append(format(sum(known) / divisor, style) if known else "")
    return found


def _counted(result: Result) -> str:
    """The counters as plain text."""
    counters = result["counters"]
    lines = [f"{counters['n']:,} elements, one launch: " + ", ".join(column for column, *_ in COUNTERS)]
    for label, values in counters["rows"].items():
        lines.append(f"{label:<16}" + "".join(f"{cell:>16}" for cell in _counter_cells(values)))
    return "\n".join(lines)


def table(result: Result, family: str) -> str:
    """A Markdown table of one family; counters stand in it where there are any."""
    counted = result.get("counters", {}).get("rows", {})
    columns = ["step", "", "ms", "GB/s", f"share of {CEILING[family]}", "times the one before", "times the first"]
    columns += [column for column, *_ in COUNTERS] if counted else []
    lines = ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * (len(columns) - 2)]
    rows = [row for row in result["rows"] if row["family"] == family]
    times = ratios(rows)
    for row in rows:
        step = history.get(row["step"])
        label = f"{step.number}{', ' + step.variant if step.variant else ''}"
        cells = [label, step.name, *_cells(row, times[step.label])]
        cells += _counter_cells(counted.get(step.label, {})) if counted else []
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def into_readme(text: str, result: Result, picture: str) -> str:
    """The text with what stands between its markers made anew: the steps, what was measured, and what follows."""
    blocks = {f"steps:{family}": lesson(family) for family in history.FAMILIES}
    blocks |= {"ladder": measured(result, picture), "findings": findings(result)}
    for name, body in blocks.items():
        text = between(f"<!-- {name} -->", f"<!-- /{name} -->", body, text)
    return text


def lesson(family: str) -> str:
    """A Markdown table of a family's steps: the idea, and what was mended."""
    lines = ["| step | what is new | the texts' version, and what mends it | look at |", "|---|---|---|---|"]
    for step in history.STEPS:
        if step.family == family and not step.variant:
            where = f"[{step.number}, {step.name}]({_link(step)})"
            lines.append(f"| {where} | {step.idea} | {step.mended} | {step.look} |")
    return "\n".join(lines)


def _link(step: history.Step) -> str:
    return step.file if step.kernel else f"../../gpureduce_dask/{step.file}"


def measured(result: Result, picture: str) -> str:
    """The picture, a table a family, and the sweep of the grid."""
    counters = result.get("counters", {})
    sentences = [
        f"{result['gpu']}, {result['date']}, CuPy {result['cupy']}; {result['n']:,} elements of {result['dtype']} "
        f"(matrices almost square; a single warp or block gets fewer). R, the fastest read, is "
        f"{result['R'] / 1e9:,.0f} GB/s, C, the fastest copy, {result['C'] / 1e9:,.0f} GB/s, in the same run. GB/s "
        "count the bytes that must be moved, however many are."
    ]
    if "rows" in counters:
        sentences.append(
            f"Counters are those of a step's longest launch on {counters['n']:,} elements, by Nsight Compute."
        )
    elif "note" in counters:
        sentences.append(counters["note"])
    parts = [" ".join(sentences), f"![shares of the ceilings, step by step]({picture})"]
    for family in history.FAMILIES:
        if any(row["family"] == family for row in result["rows"]):
            parts.append(table(result, family))
    parts += [_sweep(row, result) for row in result["rows"] if "sweep" in row]
    return "\n\n".join(parts)


def _sweep(row: Row, result: Result) -> str:
    grids = [
        f"{blocks:,} blocks {row['bytes'] / seconds / result['R']:.3f}" for blocks, seconds in sorted(row["sweep"])
    ]
    return f"The grid of step {row['step']} swept, as shares of R: " + ", ".join(grids) + "."


def plot(result: Result, path: Path) -> bool:
    """A bar a step: its share of the ceiling. False where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in result["rows"] if "share" in row and row["step"] != REFERENCE][::-1]
    figure, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 1.2))
    places = range(len(rows))
    bars = axes.barh(places, [row["share"] for row in rows], color=[COLOURS[row["family"]] for row in rows])
    axes.bar_label(bars, [f"{row['share']:.2f}" for row in rows], padding=3, fontsize=7)
    axes.set_yticks(places, [f"{row['step']}  {row['name']}" for row in rows], fontsize=7)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(0, 1.08)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xlabel(
        f"share of the fastest read (sums: {result['R'] / 1e9:,.0f} GB/s) or copy "
        f"(others: {result['C'] / 1e9:,.0f} GB/s), {result['gpu']}"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return True
