"""``python -m gpureduce_dask ladder``: arguments, and what is written where."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from ... import history
from ..bench.command import need_gpu

REPORT = "report"
DEFAULT_N = 2**28


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=[*history.FAMILIES, REPORT],
        help="one family of steps (default: all), or report: write table and picture again from --json",
    )
    parser.add_argument("--list", action="store_true", help="name the steps; needs no GPU")
    parser.add_argument("--explain", metavar="STEP", help="a step's idea, text and what to look at; needs no GPU")
    parser.add_argument("--n", type=count, default=DEFAULT_N, help="elements to time, 1000000 or 2^20 (default: 2^28)")
    parser.add_argument("--ncu", action="store_true", help="count instructions, loads and bank conflicts as well")
    parser.add_argument("--json", type=Path, default=Path("ladder.json"), help="results (default: ladder.json)")
    parser.add_argument("--plot", type=Path, help="PNG: bars (default: beside the results, where matplotlib is there)")
    parser.add_argument("--page", type=Path, help="page whose table is replaced")


def count(text: str) -> int:
    """A number of elements: digits, or a power such as 2^28."""
    found = re.fullmatch(r"(\d+)(?:(?:\^|\*\*)(\d{1,2}))?", text)
    number = int(found[1]) ** int(found[2] or 1) if found else 0
    if not 0 < number < 2**36:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number such as 2^28, from 1 to 2^36 - 1")
    return number


def run(args: argparse.Namespace) -> int:
    """List, explain, report, or check and time; 1 where a step was wrong."""
    from . import explain

    if args.explain:
        print(explain.explain(history.get(args.explain)))
        return 0
    steps = [step for step in history.STEPS if args.what in (None, REPORT, step.family)]
    if args.list:
        print(explain.listing(steps))
        return 0
    if args.what == REPORT:
        return _report(args, json.loads(args.json.read_text()))
    need_gpu("ladder", "Install the cuda13 extra; --list, --explain and report need no GPU.")
    from . import measure

    result = measure.run(steps, args.n, args.json)
    if args.ncu:
        from . import counters

        result["counters"] = counters.count(steps, args.n)
        args.json.write_text(json.dumps(result, indent=1))
    return _report(args, result)


def _report(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import report

    print(report.summary(result))
    picture = args.plot or args.json.with_suffix(".png")
    drawn = report.plot(result, picture)
    print(f"picture: {picture}" if drawn else "no picture: matplotlib is not installed (extra: demo)")
    if args.page:
        shown = os.path.relpath(picture, args.page.parent)
        args.page.write_text(report.into_readme(args.page.read_text(), result, shown))
    return 0 if report.is_clean(result) else 1
