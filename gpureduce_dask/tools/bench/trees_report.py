"""Tables and a picture from the JSON of ``bench trees``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .peers import version_list
from .report import between

Result = dict[str, Any]
Row = dict[str, Any]

BEGIN, END = "<!-- bench:trees -->", "<!-- /bench:trees -->"
ONE_READ = "<!-- bench:one-read-trees -->", "<!-- /bench:one-read-trees -->"
ALLOWED = 1.5  # times (a task's round trip and the reading of all bytes), that a later reduction may take


def is_clean(run: Result) -> bool:
    """True where no case failed, and every result agrees with stock dask's."""
    return all("error" not in row and row.get("checked", True) for row in run["rows"])


def where(run: Result) -> str:
    """The workers of a run, in words."""
    if not run["gpus"]:
        return f"{run['workers']} NumPy workers"
    if run["gpus"] == 1:
        return f"1 {run.get('device', 'GPU')}"
    return f"{run['gpus']} {run.get('device', 'GPU')}s by {run.get('protocol', 'tcp').upper()}"


def when(run: Result) -> str:
    """The date of a run, and the versions that it was with."""
    return ", ".join(filter(None, (run["date"], version_list(run))))


def target(run: Result) -> float | None:
    """Seconds that a later reduction may take, where it is known how fast its bytes can be read."""
    if "R" not in run:
        return None
    return float(ALLOWED * (run["round_trip"] + run["nbytes"] / (run["R"] * run["gpus"])))


def summary(run: Result) -> str:
    """One line a case: milliseconds of ours and of stock dask, and how many times faster."""
    head, allowed = head_of(run), target(run)
    if allowed is not None:
        head += f"; {ALLOWED} x (round trip + bytes / R): {ms(allowed)} ms"
    lines = [head, f"{'case':<40} {'chunks':>6} {'tasks':>5} {'ours':>9} {'stock':>9} {'ratio':>6}  peak, in chunks"]
    lines += [line(row, 40, _cells) for row in run["rows"]]
    for row in run.get("local_cupy", []):
        text = f"FAILED: {row['error']}" if "error" in row else f"{ms(row['ours'])} ms, stock {ms(row['stock'])} ms"
        lines.append(f"dask-cuda local_cupy {row['case']}: {text}")
    return "\n".join(lines)


def head_of(run: Result) -> str:
    """What was measured where."""
    return f"{where(run)}, {run['nbytes'] / 2**20:.0f} MiB; an empty task's round trip {ms(run['round_trip'])} ms"


def line(row: Row, width: int, cells: Callable[[Row], str]) -> str:
    """A case in words: what failed or is wrong says so."""
    name = f"{row['kind'] + ' ' + row['case']:<{width}} {row['chunks']:>6}"
    if "error" in row:
        return f"{name} FAILED: {row['error']}"
    return f"{name} {cells(row)}{'' if row.get('checked', True) else '  WRONG'}"


def _cells(row: Row) -> str:
    peak = f"{row['peak_chunks']:.1f}" if "peak_chunks" in row else ""
    return f"{row.get('tasks', ''):>5} {ms(row['later']):>9} {ms(row.get('stock')):>9} {times(row):>6}  {peak}"


def table(run: Result) -> str:
    """A Markdown table of one run."""
    lines = ["| chunks | operation | ours, ms | stock dask, ms | times |", "|---|---|---|---|---|"]
    for row in sorted(whole(run["rows"]), key=lambda r: (r["kind"] != "persisted", r["chunks"])):
        text = f"{row['kind']} {row['case']}"
        lines.append(f"| {row['chunks']:,} | {text} | {ms(row['later'])} | {ms(row.get('stock'))} | {times(row)} |")
    for row in run.get("local_cupy", []):
        if "ours" in row and "stock" in row:
            ratio = f"{row['stock'] / row['ours']:.1f}"
            lines.append(
                f"| | dask-cuda's `local_cupy`, {row['case']} | {ms(row['ours'])} | {ms(row['stock'])} | {ratio} |"
            )
    return "\n".join(lines)


def into_page(text: str, result: Result, picture: str | None) -> str:
    """A page with what stands between its markers made anew: the picture, and a table a run."""
    parts = [f"![time against number of chunks: stock dask and ours]({picture})"] if picture else []
    for run in result["runs"][::-1]:
        allowed = target(run)
        heading = (
            f"{where(run)}, {when(run)}: {run['nbytes'] / 2**30:g} GiB of float32 in all, medians, from the call to "
            f"the number; an empty task's round trip takes {ms(run['round_trip'])} ms"
        )
        if allowed is not None:
            read = run["nbytes"] / (run["R"] * run["gpus"])
            heading += f", and the GPUs could read all bytes in {ms(read)} ms"
        parts.append(f"<details><summary>{heading}.</summary>\n\n{table(run)}\n\n</details>")
    marks = ONE_READ if result.get("what") == "one_read" else (BEGIN, END)
    return between(*marks, "\n\n".join(parts), text)


def plot(result: Result, path: Path) -> None:
    """Time against the number of chunks, ours and stock, persisted and lazy, of the last of the newest runs; and
    against GPUs where there are runs."""
    runs = result["runs"]
    shown = newest(runs)[-1]
    with figure_of(3 if len(runs) > 1 else 2, path) as panels:
        _against_chunks(panels[0], shown, "persisted", {"sum": "sum", "sum, the first of an array": "first sum"})
        _against_chunks(panels[1], shown, "lazy", {"sum of squares about 0.5": "((x - .5)**2).sum()"})
        if len(runs) > 1:
            _against_workers(panels[2], runs)
        panels[0].set_ylabel("milliseconds")


def newest(runs: list[Result]) -> list[Result]:
    """The runs of the last date: of one code, which those of other dates are not."""
    last = max(run["date"] for run in runs)
    return [run for run in runs if run["date"] == last]


def legend_below(panel: Any) -> None:
    """A legend that covers no line."""
    panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))


@contextmanager
def figure_of(count: int, path: Path) -> Iterator[Any]:
    """Panels side by side to draw in, written to a file after it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, count, figsize=(4.5 * count, 4.8), squeeze=False)
    yield panels[0]
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _against_chunks(panel: Any, run: Result, kind: str, cases: dict[str, str]) -> None:
    for case, label in cases.items():
        rows = [r for r in whole(run["rows"]) if (r["kind"], r["case"]) == (kind, case)]
        for key, of, style in (("stock", "stock dask", "s--"), ("later", "ours", "o-")):
            points = sorted((r["chunks"], 1e3 * r[key]) for r in rows if r.get(key) is not None)
            if points and not (key == "stock" and case.endswith("first of an array")):
                panel.plot(*zip(*points, strict=True), style, label=f"{label}, {of}")
    panel.axhline(1e3 * run["round_trip"], linestyle=":", color="gray", label="an empty task")
    title = f"{kind} chunks, {run['nbytes'] / 2**30:g} GiB in all\n{where(run)}"
    panel.set(xscale="log", yscale="log", xlabel="chunks", title=title)
    legend_below(panel)


def _against_workers(panel: Any, runs: list[Result]) -> None:
    """128 chunks a worker, so that each has the same bytes. Lines join runs of the last date; others stand alone."""
    new = newest(runs)
    old = [run for run in runs if run not in new]
    for kind, case in (("persisted", "sum"), ("lazy", "sum of squares about 0.5")):
        for key, of, style in (("stock", "stock dask", "s--"), ("later", "ours", "o-")):
            points, apart = (
                [
                    (run["workers"], 1e3 * row[key])
                    for run in some
                    for row in whole(run["rows"])
                    if (row["kind"], row["case"], row["chunks"]) == (kind, case, 128 * run["workers"]) and row.get(key)
                ]
                for some in (new, old)
            )
            colour = None
            if points:
                colour = panel.plot(*zip(*points, strict=True), style, label=f"{kind} {case}, {of}")[0].get_color()
            if apart:
                panel.plot(*zip(*apart, strict=True), style[0], markerfacecolor="none", color=colour)
    for date in sorted({run["date"] for run in old}):
        panel.plot([], [], "o", markerfacecolor="none", color="gray", label=f"open: older code, {date}")
    panel.set(yscale="log", xlabel="GPUs" if runs[-1]["gpus"] else "workers", title="the same bytes for each")
    panel.set_xticks([run["workers"] for run in runs])
    legend_below(panel)


def whole(rows: list[Row]) -> list[Row]:
    """Those that did not fail."""
    return [row for row in rows if "error" not in row]


def times(row: Row, other: str = "stock") -> str:
    """How many times faster ours is."""
    return f"{row[other] / row['later']:.1f}" if row.get(other) else ""


def ms(seconds: float | None) -> str:
    """As tables have them."""
    return "" if seconds is None else f"{seconds * 1e3:.1f}"
