"""``python -m gpureduce_dask bench``: arguments, and what is written where."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, DeviceError, ExtraError, message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=["kernels", "trees", "host", "soak", "workflows", "random", "report"],
        help="measure kernels, whole trees, NumPy chunks, memory over time and answers while workers die, daily work "
        "with files, random chunks of a GPU or random calls on NumPy, or write tables again",
    )
    suites = parser.add_mutually_exclusive_group()
    suites.add_argument("--scans", action="store_true", help="kernels, trees, random: of scans, not of reductions")
    suites.add_argument("--reductions", action="store_true", help="random: of reductions alone")
    suites.add_argument("--groups", action="store_true", help="random: of groups")
    suites.add_argument("--batch", action="store_true", help="random: of 24 chunks in one launch, as trees reduce them")
    suites.add_argument("--one-read", action="store_true", help="kernels, trees: of what one read answers")
    suites.add_argument("--grids", action="store_true", help="trees: of daily calls on a grid of 16 x 16 chunks")
    suites.add_argument("--mechanisms", action="store_true", help="trees: each mechanism on and off in turn")
    parser.add_argument(
        "--json",
        type=Path,
        help="results, written and for report read (default: kernels.json, trees.json or soak.json; of scans "
        "scan_kernels.json, scan_trees.json; of one read one_read_kernels.json, one_read_trees.json; of the others "
        "grids.json, mechanisms.json; random.json). What soak finds with faults goes to a second file, "
        "soak_faults.json",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        help="PNG: shares of the ceiling, or time against chunks (not of grids); "
        "random: how many cases are above each share",
    )
    parser.add_argument("--page", "--readme", type=Path, help="page of docs/benchmarks whose table is replaced")
    kernels = parser.add_argument_group("kernels")
    kernels.add_argument("--gib", type=float, default=4, help="size of a chunk (default: 4)")
    kernels.add_argument(
        "--only",
        default="",
        help="kernels, workflows, random on a GPU: regular expression over the rows' labels; soak: over its parts, "
        "memory and faults",
    )
    kernels.add_argument("--no-peers", action="store_true", help="time ours alone")
    trees = parser.add_argument_group("trees and soak")
    trees.add_argument(
        "--gpus",
        type=int,
        nargs="+",
        help="workers, one a GPU, one number after another; 0 for NumPy workers (default: all GPUs there are)",
    )
    trees.add_argument("--workers", type=int, default=4, help="NumPy workers where no GPU is used (default: 4)")
    trees.add_argument(
        "--mib",
        type=_sizes,
        default=[],
        help="data of one worker (default: 8192 on a GPU, 128 on NumPy, 4 to soak); random: sizes of chunks, as "
        "4,64,256,1024 (default: these; of groups to 256, of batches to 64), on NumPy of arrays (default: 200)",
    )
    trees.add_argument(
        "--chunks", type=int, nargs="+", help="numbers of chunks to try (default: 16 to 4096; of grids 256)"
    )
    trees.add_argument("--repeats", type=int, default=7, help="of each of ours (default: 7)")
    trees.add_argument("--no-stock", action="store_true", help="time ours alone")
    trees.add_argument("--budget", type=float, default=280, help="seconds for each number of GPUs (default: 280)")
    trees.add_argument("--minutes", type=float, default=20, help="how long to soak, each part (default: 20)")
    flows = parser.add_argument_group("workflows")
    flows.add_argument("--scheduler", choices=["threads", "processes", "distributed"], default="threads")
    flows.add_argument("--data", type=Path, help="folder for files (default: one that is deleted behind the run)")
    flows.add_argument("--small", action="store_true", help="a few MiB in place of a GiB, and no times")
    flows.add_argument("--persisted", action="store_true", help="of data in memory, not from files")
    flows.add_argument("--gpu", action="store_true", help="of CuPy chunks, read on the host")
    flows.add_argument("--latency", type=float, default=0, help="milliseconds that a read of a chunk waits")
    drawn = parser.add_argument_group("random and soak")
    drawn.add_argument("--seed", type=int, help="of the draws (default: one from the clock, which is printed)")
    drawn.add_argument("--count", type=int, default=200, help="random: cases (default: 200)")
    drawn.add_argument("--seconds", type=float, default=math.inf, help="random: of time, behind which no case begins")
    drawn.add_argument("--numpy", action="store_true", help="random: calls on NumPy chunks, where there is a GPU too")
    drawn.add_argument(
        "--compilers",
        type=int,
        help="random: processes that compile ahead on a GPU (default: all processors but one, 12 at most; 0: none)",
    )


def _sizes(text: str) -> list[float]:
    return [float(size) for size in text.split(",")]


def _one_size(args: argparse.Namespace, default: float) -> float:
    """The size that was given, or the default."""
    if len(args.mib) > 1:
        expected = "one size"
        raise ArgumentError(message(f"bench {args.what}", f"--mib of {len(args.mib)} sizes", expected, "Give one."))
    return args.mib[0] if args.mib else default


def run(args: argparse.Namespace) -> int:
    """Measure or only report; 1 where a result was wrong."""
    commands = {"kernels": _kernels, "trees": _trees, "host": _host, "soak": _soak, "workflows": _workflows}
    return {**commands, "random": _random, "report": _report}[args.what](args)


def _kernels(args: argparse.Namespace) -> int:
    need_gpu("bench kernels")
    from . import kernels, one_read, scans

    suite = scans.SCANS if args.scans else one_read.ONE_READ if args.one_read else kernels.REDUCTIONS
    result = kernels.run(suite, args.gib, args.only, not args.no_peers, _path(args, "kernels.json"))
    return _report_kernels(args, result)


def _path(args: argparse.Namespace, name: str) -> Path:
    if args.grids or args.mechanisms:
        return args.json or Path("grids.json" if args.grids else "mechanisms.json")
    return args.json or Path(f"scan_{name}" if args.scans else f"one_read_{name}" if args.one_read else name)


def _report(args: argparse.Namespace) -> int:
    result = json.loads(_path(args, "kernels.json").read_text())
    if "random" in result:
        return _report_random(args, result)
    if "host" in result:
        return _report_host(args, result)
    if "workflows" in result:
        return _report_workflows(args, result)
    return _report_trees(args, result) if "runs" in result else _report_kernels(args, result)


def _report_kernels(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import report

    print(report.summary(result))
    if args.plot:
        report.plot(result, args.plot)
    if args.page:
        args.page.write_text(report.into_page(args.page.read_text(), result))
    return 0 if report.is_clean(result) else 1


def _trees(args: argparse.Namespace) -> int:
    from ...cluster import count_gpus
    from . import grids, mechanisms, one_read_trees, scan_trees, trees

    path = _path(args, "trees.json")
    suite = scan_trees.SCANS if args.scans else one_read_trees.ONE_READ if args.one_read else trees.REDUCTIONS
    suite = grids.GRIDS if args.grids else mechanisms.SUITE if args.mechanisms else suite
    for gpus in [count_gpus()] if args.gpus is None else args.gpus:
        mib = _one_size(args, 8192 if gpus else 128)
        trees.run(suite, gpus, args.workers, mib, args.chunks, args.repeats, not args.no_stock, path, args.budget)
    return _report_trees(args, json.loads(path.read_text()))


def _report_trees(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import grids_report, scan_trees_report, trees_report

    of_suite: dict[str, Any] = {"scans": scan_trees_report, "grids": grids_report, "mechanisms": grids_report}
    told = of_suite.get(result.get("what", ""), trees_report)
    for run in result["runs"]:
        print(told.summary(run))
    if args.plot and told is not grids_report:
        told.plot(result, args.plot)
    if args.page:
        picture = args.plot and os.path.relpath(args.plot, args.page.parent)
        args.page.write_text(told.into_page(args.page.read_text(), result, picture))
    return 0 if all(map(trees_report.is_clean, result["runs"])) else 1


def _host(args: argparse.Namespace) -> int:
    from . import host

    return _report_host(args, host.run(_one_size(args, 64), 6, args.repeats, args.json or Path("host.json")))


def _report_host(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import host

    if args.page:
        args.page.write_text(host.into_page(args.page.read_text(), result))
    return 0 if host.is_clean(result) else 1


def _soak(args: argparse.Namespace) -> int:
    """Whether memory stays flat, then faults, each for so many minutes."""
    from . import soak, soak_rounds

    path, are_clean = args.json or Path("soak.json"), []
    if re.search(args.only, "memory"):
        result = soak.run(args.workers, _one_size(args, 4), args.minutes, path)
        print(soak.summary(result))
        are_clean.append(soak.is_clean(result))
    if re.search(args.only, "faults"):
        gpus = args.gpus[0] if args.gpus else 0
        with_faults = path.with_stem(f"{path.stem}_faults")
        result = soak_rounds.run(gpus, args.workers, args.minutes, _seed(args), with_faults)
        print(soak_rounds.summary(result))
        are_clean.append(soak_rounds.is_clean(result))
    return 0 if all(are_clean) else 1


def _seed(args: argparse.Namespace) -> int:
    return int(time.time()) if args.seed is None else args.seed


def _workflows(args: argparse.Namespace) -> int:
    try:
        from .workflows import data, measure, run
    except ImportError as error:
        remedy = 'Install the test extra: pip install "gpureduce-dask[test]".'
        raise ExtraError(message("bench workflows", str(error), "xarray, zarr, h5netcdf and flox", remedy)) from error
    size, repeats = (data.SMALL, (0, 0)) if args.small else (data.FULL, measure.REPEATS)
    path = args.json or Path("workflows.json")
    how = {"only": args.only, "persisted": args.persisted, "gpu": args.gpu, "latency": args.latency / 1e3}
    with tempfile.TemporaryDirectory() as folder:
        where = args.data or Path(folder)
        result = run.run(args.scheduler, where, path, size=size, repeats=repeats, **how)
    return _report_workflows(args, result)


def _report_workflows(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from .workflows import run

    print(run.summary(result))
    if args.page:
        args.page.write_text(run.into_page(args.page.read_text(), result))
    return 0 if run.is_clean(result) else 1


def _random(args: argparse.Namespace) -> int:
    path = args.json or Path("random.json")
    if args.numpy or not _has_gpu():
        from . import random_calls

        random_calls.run(_seed(args), args.count, _one_size(args, 200), path, args.seconds)
    else:
        from . import random_chunks, random_draws

        kinds = [kind for kind in random_draws.KINDS if getattr(args, kind)] or random_draws.BOTH
        how = {"only": args.only, "seconds": args.seconds, "with_peers": not args.no_peers, "processes": args.compilers}
        random_chunks.run(_seed(args), args.count, args.mib, kinds, path, **how)
    return _report_random(args, json.loads(path.read_text()))


def _report_random(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import random_calls, random_report

    told: Any = random_report if "gpu" in result else random_calls
    print(told.summary(result))
    if args.plot and told is random_report:
        random_report.plot(result, args.plot)
    if args.page and told is random_report:
        picture = args.plot and os.path.relpath(args.plot, args.page.parent)
        args.page.write_text(random_report.into_page(args.page.read_text(), result, picture))
    return 0 if told.is_clean(result) else 1


def _has_gpu() -> bool:
    try:
        need_gpu("bench random")
    except DeviceError:
        return False
    return True


def need_gpu(command: str, remedy: str = "Install the cuda13 extra.") -> None:
    """Raise DeviceError where there is none."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no CuPy, no driver or no device: CuPy raises a different error for each
        raise DeviceError(message(command, f"no usable GPU ({error})", "CuPy and a CUDA GPU", remedy)) from error
