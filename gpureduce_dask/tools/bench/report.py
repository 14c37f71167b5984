"""Tables and a plot from the kernel benchmark's JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .peers import COMPILERS, PEERS, version_list

Result = dict[str, Any]
Row = dict[str, Any]
LEVEL = 0.99  # what "level with a peer" means


@dataclass(frozen=True)
class Kind:
    """How rows of one kind are reported: between which marks of a page, and beside which ceiling."""

    mark: str
    ceiling: str
    fastest: str  # what the ceiling is
    floor: float  # a share of it that counts as reached
    counted: str  # of bytes
    bounded: str  # the sentence of rows that have a ceiling of their own
    is_headline: Callable[[Row], bool]  # rows of the open table; the others are folded away

    @property
    def begin(self) -> str:
        return f"<!-- bench:{self.mark} -->"

    @property
    def end(self) -> str:
        return f"<!-- /bench:{self.mark} -->"


def _reductions_headline(row: Row) -> bool:
    case = row["case"]
    ops = ("sum", "max", "var", "argmax", "mean", "nansum", "count_nonzero", "norm2")
    whole = case.endswith(") all") and row["op"] in ops and row["dtype"] == "float32"
    return whole or (row["op"] in ("sum", "var", "argmax") and row["dtype"] == "float32" and "axis" in case)


def _scans_headline(row: Row) -> bool:
    line = "x" not in row["case"].partition("(")[2].partition(")")[0]
    return (line and row["op"] in ("sum", "max", "any")) or (row["op"] == "sum" and row["dtype"] == "float32")


KINDS = {
    "reductions": Kind(
        "kernels",
        "R",
        "read",
        0.93,
        "those that must be read, and the results",
        "Rows that write more than an eighth of what they read, beside a kernel that only copies in that proportion:",
        _reductions_headline,
    ),
    "one_read": Kind(
        "one-read",
        "R",
        "read",
        0.93,
        "those that must be read once, and the states or results",
        "Rows that write more than an eighth of what they read, beside a kernel that only copies in that proportion:",
        lambda row: row["dtype"] == "float32",
    ),
    "scans": Kind(
        "scans",
        "C",
        "copy",
        0.90,
        "those that must be read, and the results; the larger of array and result is a chunk",
        "Rows that write more or less than they read, beside a kernel that only copies in that proportion:",
        _scans_headline,
    ),
}


def kind_of(result: Result) -> Kind:
    """How a result is reported."""
    return KINDS[result.get("what", "reductions")]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value >= 0.005 else f"{value:.4f}"


def _mixture(row: Row) -> str:
    """What a mere copy reaches that writes as much for what it reads."""
    return f", a copy in its proportions {row['mixed']:.3f}" if "mixed" in row else ""


def _rows(result: Result) -> list[Row]:
    return [row for row in result["rows"] if "ours" in row]


def is_clean(result: Result) -> bool:
    """True where no row failed and every checked result was right."""
    return all("error" not in row and row["checked"] is not False for row in result["rows"])


def behind(result: Result) -> list[Row]:
    """Rows more than 1 % below a peer."""
    return [row for row in _rows(result) if any((row.get(p) or 0) * LEVEL > row["ours"] for p in (*PEERS, *COMPILERS))]


def summary(result: Result) -> str:
    """A few lines: how many rows reach what, which are below a peer, wrong or failed."""
    rows, kind = _rows(result), kind_of(result)
    lines = [f"{result['gpu']}, {result['date']}: {len(rows)} rows, {result['gib']} GiB chunks"]
    reached = sum(r["ours"] >= kind.floor for r in rows)
    lines.append(f"at or above {kind.floor} {kind.ceiling}: {reached} of {len(rows)}")
    lines += [f"  {row['case']}: {row['ours']:.3f}{_mixture(row)}" for row in rows if row["ours"] < kind.floor]
    lines.append(f"more than 1 % below a peer: {len(behind(result))}")
    for row in behind(result):
        lines.append(f"  {row['case']}: {row['ours']:.3f}, " + ", ".join(f"{p} {_share(row.get(p))}" for p in PEERS))
    lines += [f"WRONG: {row['case']}" for row in rows if row["checked"] is False]
    lines += [f"FAILED: {row['case']}: {row['error'][:200]}" for row in result["rows"] if "error" in row]
    return "\n".join(lines)


def table(rows: list[Row]) -> str:
    """A Markdown table of shares."""
    names = [*PEERS, *(p for p in COMPILERS if any(row.get(p) for row in rows))]
    lines = ["| operation | ours | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for row in rows:
        best = max([row["ours"], *((row.get(p) or 0) for p in names)])
        ours = f"**{_share(row['ours'])}**" if row["ours"] >= best * LEVEL else _share(row["ours"])
        lines.append(f"| {row['case']} | {ours} | " + " | ".join(_share(row.get(p)) for p in names) + " |")
    return "\n".join(lines)


def into_page(text: str, result: Result) -> str:
    """A page with the table between its markers made anew."""
    rows, kind = _rows(result), kind_of(result)
    heading = (
        f"{result['gpu']}, {result['date']}, {version_list(result)}; chunks of {result['gib']:g} GiB; share of the "
        f"fastest {kind.fastest} of that GPU, {result[kind.ceiling] / 1e9:,.0f} GB/s, measured in the same run (1.00 "
        f"is the limit; bytes are {kind.counted})."
    )
    small = ["| one small call, microseconds on the host | ours | CuPy | torch |", "|---|---|---|---|"]
    for row in result["small"]:
        cells = [row["ours_us"], row.get("CuPy_us"), row.get("torch_us")]
        small.append(f"| {row['case']} | " + " | ".join("" if c is None else f"{c:.1f}" for c in cells) + " |")
    body = "\n\n".join(
        [
            heading,
            table([r for r in rows if kind.is_headline(r)]),
            *_notes(rows, kind),
            "\n".join(small),
            f"<details><summary>All {len(rows)} rows</summary>\n\n{table(rows)}\n\n</details>",
        ]
    )
    return between(kind.begin, kind.end, body, text)


def between(begin: str, end: str, body: str, text: str) -> str:
    """A text with what stands between two marks replaced."""
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{body}\n{end}", text, flags=re.DOTALL)


def _notes(rows: list[Row], kind: Kind) -> list[str]:
    """Rows of which the ceiling is not the limit."""
    found = [f"{row['case']} {row['ours']:.3f} (such a copy {row['mixed']:.3f})" for row in rows if "mixed" in row]
    return [f"{kind.bounded} {'; '.join(found)}."] if found else []


def plot(result: Result, path: Path) -> None:
    """Horizontal bars: our share of the ceiling, and the peers' as marks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kind = kind_of(result)
    rows = [r for r in _rows(result) if kind.is_headline(r)][::-1]
    figure, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 1.2))
    places = range(len(rows))
    axes.barh(places, [r["ours"] for r in rows], color="#76b900", label="gpureduce_dask")
    for peer, mark in zip(PEERS, "osd", strict=True):
        known = [(r[peer], i) for i, r in enumerate(rows) if r.get(peer) is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], mark, ms=5, mec="black", label=peer)
    axes.set_yticks(places, [r["case"] for r in rows], fontsize=7)
    axes.set_xlim(0, max(1.08, 1.02 * max(r["ours"] for r in rows)))
    axes.margins(y=0.01)
    axes.set_xlabel(f"share of the fastest {kind.fastest} ({result[kind.ceiling] / 1e9:,.0f} GB/s, {result['gpu']})")
    axes.legend(loc="lower right", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
