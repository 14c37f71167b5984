"""Tables from the JSON of ``bench trees --grids`` and ``bench trees --mechanisms``."""

from __future__ import annotations

from .report import between
from .trees_report import Result, Row, head_of, line, ms, times, when, where

HEADS = {
    "grids": "data|call|cold, ms|first, ms|ours, ms|by blocks, ms|tasks|stock dask, ms|its tasks|times",
    "mechanisms": "mechanism|call|on, ms|off, ms|gain, ms|gain, %|tasks on|tasks off",
}


def summary(run: Result) -> str:
    """One line a case, with the cells of the table."""
    what = _what(run)
    names = HEADS[what].split("|")[2:]
    lines = [head_of(run), f"{'':<86} {'chunks':>6} " + " ".join(f"{name:>12}" for name in names)]
    return "\n".join(lines + [line(row, 86, lambda r: " ".join(f"{c:>12}" for c in cells(r))) for row in run["rows"]])


def _what(run: Result) -> str:
    return "mechanisms" if any("off" in row for row in run["rows"]) else "grids"


def cells(row: Row) -> list[str]:
    """Behind what was called on what."""
    if "off" in row:
        gain = row["off"] - row["later"]
        counts = [str(row["tasks"]), str(row["tasks_off"])]
        return [ms(row["later"]), ms(row["off"]), ms(gain), f"{100 * gain / row['off']:.0f}", *counts]
    stock = "no answer" if "stock_error" in row else ms(row.get("stock"))
    cold, first = (row["cold"], row.get("first")) if "cold" in row else (row["first"], None)  # as older results have it
    middle = [ms(cold), ms(first), ms(row["later"]), ms(row.get("blocks")), str(row["tasks"])]
    return [*middle, stock, str(row.get("stock_tasks", "")), times(row)]


def table(run: Result) -> str:
    """A Markdown table of one run; what failed or is wrong says so."""
    heads = HEADS[_what(run)].split("|")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in run["rows"]:
        found = cells(row) if "error" not in row else [f"failed: {row['error'][:80]}".replace("|", "/")]
        call = row["case"] + ("" if row.get("checked", True) else " (WRONG)")
        lines.append(f"| {' | '.join([row['kind'], call, *found])} |")
    return "\n".join(lines)


def command(run: Result, what: str) -> str:
    """What was run, as it can be run again."""
    size = f"--mib {run['nbytes'] / 2**20 / run['workers']:g} --repeats {run['repeats']}"
    cluster = f"--gpus {run['gpus']}"
    if run["gpus"] != 1:
        cluster += f" --protocol {run.get('protocol', 'tcp')}" if run["gpus"] else f" --workers {run['workers']}"
    return f"python -m gpureduce_dask bench trees --{what} {cluster} {size}"


def into_page(text: str, result: Result, picture: str | None = None) -> str:
    """A page with what stands between the suite's markers made anew: a table a run."""
    what, parts = result["what"], []
    for run in result["runs"][::-1]:
        heading = (
            f"{where(run)} ({run['processor']}), {when(run)}: {run['nbytes'] / 2**20:g} MiB of "
            f"float32 in {run['rows'][0]['chunks']} chunks, medians; an empty task's round trip takes "
            f"{ms(run['round_trip'])} ms.\n\n`{command(run, what)}`"
        )
        shares = [f"{row['kind']} at {row['link_share']:.2f}" for row in run["rows"] if row.get("link_share")]
        if shares:
            heading += f"\n\nOf what links move from pinned memory: {', '.join(shares)}."
        parts.append(f"{heading}\n\n{table(run)}")
    return between(f"<!-- bench:{what} -->", f"<!-- /bench:{what} -->", "\n\n".join(parts), text)
