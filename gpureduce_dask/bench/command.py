"""``python -m gpureduce_dask bench kernels``: arguments, and what is written where."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import DeviceError, message
from . import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["kernels", "report"], help="measure on this GPU, or write tables again")
    parser.add_argument("--gib", type=float, default=4, help="size of a chunk (default: 4)")
    parser.add_argument("--only", default="", help="regular expression over the rows' labels")
    parser.add_argument("--no-peers", action="store_true", help="time ours alone")
    parser.add_argument("--json", type=Path, default=Path("kernels.json"), help="results, written and for report read")
    parser.add_argument("--plot", type=Path, help="PNG of our share of the ceiling beside the peers'")
    parser.add_argument("--readme", type=Path, help="file whose benchmark table is replaced")


def run(args: argparse.Namespace) -> int:
    """Measure (``kernels``) or only report; 1 where a result was wrong."""
    if args.what == "kernels":
        _need_gpu()
        from . import kernels

        result = kernels.run(args.gib, args.only, not args.no_peers, args.json)
    else:
        result = json.loads(args.json.read_text())
    print(report.summary(result))
    if args.plot:
        report.plot(result, args.plot)
    if args.readme:
        args.readme.write_text(report.into_readme(args.readme.read_text(), result))
    return 0 if report.is_clean(result) else 1


def _need_gpu() -> None:
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises another error for each of: not installed, no driver, no device
        raise DeviceError(
            message("bench kernels", f"no usable GPU ({error})", "CuPy and a CUDA GPU", "Install the cuda13 extra.")
        ) from error
