"""Tables and a picture from the JSON of ``bench trees --scans``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .report import between
from .trees_report import Result, Row, figure_of, head_of, line, ms, times, when, where, whole

BEGIN, END = "<!-- bench:scan-trees -->", "<!-- /bench:scan-trees -->"


def copying(run: Result) -> float | None:
    """Seconds in which the GPUs could copy all bytes."""
    return float(2 * run["nbytes"] / (run["C"] * run["gpus"])) if "C" in run else None


def summary(run: Result) -> str:
    """One line a case: milliseconds of ours and of stock dask's two, and how many times faster."""
    head = head_of(run)
    if copying(run):
        head += f"; copying all bytes {ms(copying(run))} ms"
    lines = [
        head,
        f"{'case':<26} {'chunks':>6} {'tasks':>5} {'ours':>9} {'blelloch':>9} {'times':>6} {'sequential':>10} "
        f"{'times':>6}  peak",
    ]
    return "\n".join(lines + [line(row, 26, _cells) for row in run["rows"]])


def _cells(row: Row) -> str:
    return (
        f"{row.get('tasks', ''):>5} {ms(row['later']):>9} {ms(row.get('stock')):>9} {times(row):>6} "
        f"{ms(row.get('sequential')):>10} {times(row, 'sequential'):>6}  {_peak(row)}"
    )


def table(run: Result) -> str:
    """A Markdown table of one run."""
    lines = [
        "| chunks | operation | ours, ms | blelloch, ms | times | sequential, ms | times | peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(whole(run["rows"]), key=lambda r: (r["kind"] != "persisted", r["chunks"])):
        cells = [f"{row['chunks']:,}", f"{row['kind']} {row['case']}", ms(row["later"])]
        cells += [ms(row.get("stock")), times(row)]
        cells += [ms(row.get("sequential")), times(row, "sequential"), _peak(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def into_page(text: str, result: Result, picture: str | None) -> str:
    """A page with what stands between its markers made anew: the picture, and a table a run."""
    parts = [f"![time of a running sum against number of chunks: stock dask and ours]({picture})"] if picture else []
    for run in result["runs"][::-1]:
        heading = (
            f"{where(run)}, {when(run)}: {run['nbytes'] / 2**30:g} GiB of float32 in all, medians, until all "
            f"results are in the workers' memory; an empty task's round trip takes {ms(run['round_trip'])} ms"
        )
        if copying(run):
            heading += f", and the GPUs could copy all bytes in {ms(copying(run))} ms"
        heading += (
            ". Peak memory is of what array and result take together, or the array alone where the scan is reduced"
        )
        parts.append(f"<details><summary>{heading}.</summary>\n\n{table(run)}\n\n</details>")
    return between(BEGIN, END, "\n\n".join(parts), text)


def plot(result: Result, path: Path) -> None:
    """Time against the number of chunks, a panel a run."""
    runs = result["runs"]
    with figure_of(len(runs), path) as panels:
        for panel, run in zip(panels, runs, strict=True):
            _against_chunks(panel, run)
        panels[0].set_ylabel("milliseconds")


def _against_chunks(panel: Any, run: Result) -> None:
    rows = [r for r in whole(run["rows"]) if (r["kind"], r["case"]) == ("persisted", "cumsum")]
    for key, label in (("sequential", "stock dask, sequential"), ("stock", "stock dask, blelloch"), ("later", "ours")):
        points = sorted((r["chunks"], 1e3 * r[key]) for r in rows if r.get(key) is not None)
        if points:
            panel.plot(*zip(*points, strict=True), "o-" if key == "later" else "s--", label=label)
    title = f"cumsum of {run['nbytes'] / 2**30:g} GiB in all\n{where(run)}"
    panel.set(xscale="log", yscale="log", xlabel="chunks", title=title)
    panel.legend(fontsize=8)


def _peak(row: Row) -> str:
    return f"{row['peak']:.2f}" if "peak" in row else ""
