"""``python -m gpureduce_dask bench``: arguments, and what is written where."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import DeviceError, message

CHUNKS = (16, 64, 256, 1024, 4096)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=["kernels", "report", "trees"], help="measure kernels or whole trees, or write tables again"
    )
    parser.add_argument("--json", type=Path, help="results, written and for report read (default: kernels.json)")
    parser.add_argument("--plot", type=Path, help="PNG: shares of the ceiling, or time against chunks")
    kernels = parser.add_argument_group("kernels and report")
    kernels.add_argument("--gib", type=float, default=4, help="size of a chunk (default: 4)")
    kernels.add_argument("--only", default="", help="regular expression over the rows' labels")
    kernels.add_argument("--no-peers", action="store_true", help="time ours alone")
    kernels.add_argument("--readme", type=Path, help="file whose benchmark table is replaced")
    trees = parser.add_argument_group("trees")
    trees.add_argument("--gpus", type=int, help="workers, one a GPU; 0 for NumPy workers (default: all GPUs there are)")
    trees.add_argument("--workers", type=int, default=4, help="NumPy workers where no GPU is used (default: 4)")
    trees.add_argument("--mib", type=float, help="data of one worker (default: 8192 on a GPU, 128 on NumPy)")
    trees.add_argument("--chunks", type=int, nargs="+", default=list(CHUNKS), help="numbers of chunks to try")
    trees.add_argument("--repeats", type=int, default=7, help="of each of ours (default: 7)")
    trees.add_argument("--no-stock", action="store_true", help="time ours alone")


def run(args: argparse.Namespace) -> int:
    """Measure or only report; 1 where a result was wrong."""
    return _trees(args) if args.what == "trees" else _kernels(args)


def _kernels(args: argparse.Namespace) -> int:
    from . import report

    path = args.json or Path("kernels.json")
    if args.what == "kernels":
        _need_gpu()
        from . import kernels

        result = kernels.run(args.gib, args.only, not args.no_peers, path)
    else:
        result = json.loads(path.read_text())
    print(report.summary(result))
    if args.plot:
        report.plot(result, args.plot)
    if args.readme:
        args.readme.write_text(report.into_readme(args.readme.read_text(), result))
    return 0 if report.is_clean(result) else 1


def _trees(args: argparse.Namespace) -> int:
    from ..cluster import count_gpus
    from . import trees

    gpus = count_gpus() if args.gpus is None else args.gpus
    mib = args.mib or (8192 if gpus else 128)
    path = args.json or Path("trees.json")
    result = trees.run(gpus, args.workers, mib, args.chunks, args.repeats, not args.no_stock, path)
    print(trees.summary(result))
    if args.plot:
        trees.plot(result, args.plot)
    return 0 if trees.is_clean(result) else 1


def _need_gpu() -> None:
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # as above
        raise DeviceError(
            message("bench kernels", f"no usable GPU ({error})", "CuPy and a CUDA GPU", "Install the cuda13 extra.")
        ) from error
