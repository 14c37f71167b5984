"""Tables and a plot from the kernel benchmark's JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .peers import PEERS

Result = dict[str, Any]
BEGIN, END = "<!-- bench:kernels -->", "<!-- /bench:kernels -->"
FLOOR, LEVEL = 0.93, 0.99  # a share of R that counts as reached; what "level with a peer" means


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value >= 0.005 else f"{value:.4f}"


def _mixture(row: dict[str, Any]) -> str:
    """What a mere copy reaches that writes as much for what it reads."""
    return f", a copy in its proportions {row['mixed']:.3f}" if "mixed" in row else ""


def _rows(result: Result) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if "ours" in row]


def is_clean(result: Result) -> bool:
    """True where no row failed and every checked result was right."""
    return all("error" not in row and row["checked"] is not False for row in result["rows"])


def behind(result: Result) -> list[dict[str, Any]]:
    """Rows more than 1 % below a peer."""
    return [row for row in _rows(result) if any((row.get(p) or 0) * LEVEL > row["ours"] for p in PEERS)]


def summary(result: Result) -> str:
    """A few lines: how many rows reach what, which are below a peer, wrong or failed."""
    rows = _rows(result)
    lines = [f"{result['gpu']}, {result['date']}: {len(rows)} rows, {result['gib']} GiB chunks"]
    lines.append(f"at or above {FLOOR} R: {sum(r['ours'] >= FLOOR for r in rows)} of {len(rows)}")
    lines += [f"  {row['case']}: {row['ours']:.3f}{_mixture(row)}" for row in rows if row["ours"] < FLOOR]
    lines.append(f"more than 1 % below a peer: {len(behind(result))}")
    for row in behind(result):
        lines.append(f"  {row['case']}: {row['ours']:.3f}, " + ", ".join(f"{p} {_share(row.get(p))}" for p in PEERS))
    lines += [f"WRONG: {row['case']}" for row in rows if row["checked"] is False]
    lines += [f"FAILED: {row['case']}: {row['error'][:200]}" for row in result["rows"] if "error" in row]
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of shares."""
    lines = ["| operation | ours | " + " | ".join(PEERS) + " |", "|---|---|" + "---|" * len(PEERS)]
    for row in rows:
        best = max([row["ours"], *((row.get(p) or 0) for p in PEERS)])
        ours = f"**{_share(row['ours'])}**" if row["ours"] >= best * LEVEL else _share(row["ours"])
        lines.append(f"| {row['case']} | {ours} | " + " | ".join(_share(row.get(p)) for p in PEERS) + " |")
    return "\n".join(lines)


def _headline(row: dict[str, Any]) -> bool:
    """Rows that stand in the README's open table; the others are folded away."""
    case = row["case"]
    ops = ("sum", "max", "var", "argmax", "mean", "nansum", "count_nonzero", "norm2")
    whole = case.endswith(") all") and row["op"] in ops and row["dtype"] == "float32"
    return whole or (row["op"] in ("sum", "var", "argmax") and row["dtype"] == "float32" and "axis" in case)


def into_readme(text: str, result: Result) -> str:
    """The README with the table between its markers made anew."""
    rows = _rows(result)
    heading = (
        f"{result['gpu']}, {result['date']}, CuPy {result['cupy']}; chunks of {result['gib']:g} GiB; share of the "
        f"fastest read of that GPU, {result['R'] / 1e9:,.0f} GB/s, measured in the same run (1.00 is the limit; bytes "
        "are those that must be read, and the results)."
    )
    small = ["| one small call, microseconds on the host | ours | CuPy | torch |", "|---|---|---|---|"]
    for row in result["small"]:
        cells = [row["ours_us"], row.get("CuPy_us"), row.get("torch_us")]
        small.append(f"| {row['case']} | " + " | ".join("" if c is None else f"{c:.1f}" for c in cells) + " |")
    body = "\n\n".join(
        [
            heading,
            table([r for r in rows if _headline(r)]),
            *_notes(rows),
            "\n".join(small),
            f"<details><summary>All {len(rows)} rows</summary>\n\n{table(rows)}\n\n</details>",
        ]
    )
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{body}\n{END}", text, flags=re.DOTALL)


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that write too much for reads alone to be their limit."""
    found = [f"{row['case']} {row['ours']:.3f} (such a copy {row['mixed']:.3f})" for row in rows if "mixed" in row]
    told = "Rows that write more than an eighth of what they read, beside a kernel that only copies in that proportion:"
    return [f"{told} {'; '.join(found)}."] if found else []


def plot(result: Result, path: Path) -> None:
    """Horizontal bars: our share of the ceiling, and the peers' as marks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in _rows(result) if _headline(r)][::-1]
    figure, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 1.2))
    places = range(len(rows))
    axes.barh(places, [r["ours"] for r in rows], color="#76b900", label="gpureduce_dask")
    for peer, mark in zip(PEERS, "osd", strict=True):
        known = [(r[peer], i) for i, r in enumerate(rows) if r.get(peer) is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], mark, ms=5, mec="black", label=peer)
    axes.set_yticks(places, [r["case"] for r in rows], fontsize=7)
    axes.set_xlim(0, 1.08)
    axes.set_xlabel(f"share of the fastest read ({result['R'] / 1e9:,.0f} GB/s, {result['gpu']})")
    axes.legend(loc="lower right", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
