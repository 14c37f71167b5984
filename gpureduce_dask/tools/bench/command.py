"""``python -m gpureduce_dask bench``: a subcommand a benchmark, its arguments, and what is written where."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, DeviceError, ExtraError, message
from .progress import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A subcommand for each benchmark, with its own options alone."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="benchmark")
    for name, bench in BENCHES.items():
        own = commands.add_parser(name, help=bench.help, description=f"{bench.help[0].upper()}{bench.help[1:]}.")
        own.set_defaults(suite="")
        bench.arguments(own)


def _kernel_arguments(parser: argparse.ArgumentParser) -> None:
    _suites(parser, scans="scans in place of reductions", one_read="what one read answers")
    parser.add_argument("--gib", type=float, default=4, help="size of a chunk (default: 4)")
    _only(parser, "the rows' labels")
    parser.add_argument("--no-peers", action="store_true", help="time ours alone (default: CuPy, torch and others too)")
    parser.add_argument(
        "--cupynumeric",
        nargs="?",
        const=sys.executable,
        metavar="PYTHON",
        help="in place of kernels, whole calls beside cuPyNumeric, which this Python has (default: the one that runs)",
    )
    _json(
        parser,
        "kernels.json, of the suites scan_kernels.json or one_read_kernels.json, of --cupynumeric "
        "beside_cupynumeric.json, beside which cupynumeric.json is written",
    )
    _made_of_results(parser, "shares of the ceiling")


def _tree_arguments(parser: argparse.ArgumentParser) -> None:
    _suites(
        parser,
        scans="scans in place of reductions",
        one_read="what one read answers",
        grids="daily calls on a grid of 16 x 16 chunks",
        mechanisms="each mechanism on and off in turn",
    )
    _workers(parser)
    parser.add_argument("--mib", type=float, help="data of one worker (default: 8192 on a GPU, 128 on NumPy)")
    parser.add_argument(
        "--chunks",
        type=int,
        nargs="+",
        metavar="N",
        help="numbers of chunks to try (default: 16 to 4096; of grids 256)",
    )
    _repeats(parser)
    parser.add_argument("--no-stock", action="store_true", help="time ours alone (default: stock dask too)")
    parser.add_argument("--protocol", help="how workers talk: tcp or ucx (default: as gr.cluster.start has it)")
    parser.add_argument("--budget", type=float, default=280, help="seconds for each number of GPUs (default: 280)")
    _json(parser, "trees.json, of the suites scan_trees.json, one_read_trees.json, grids.json or mechanisms.json")
    _made_of_results(parser, "time against chunks, not of grids and mechanisms")


def _host_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mib", type=float, help="size of a chunk (default: 64)")
    _repeats(parser)
    parser.add_argument("--numbagg", action="store_true", help="chunks with NaN beside numbagg (default: stock dask)")
    _json(parser, "host.json, of --numbagg numbagg.json")
    _made_of_results(parser)


def _soak_arguments(parser: argparse.ArgumentParser) -> None:
    _only(parser, "its parts, memory and faults")
    _workers(parser)
    parser.add_argument("--mib", type=float, help="data of one worker (default: 4)")
    parser.add_argument("--minutes", type=float, default=20, help="how long, each part (default: 20)")
    _seed(parser)
    _json(parser, "soak.json; what is found with faults goes to a second file, soak_faults.json")


def _workflow_arguments(parser: argparse.ArgumentParser) -> None:
    _only(parser, "the operations' names")
    parser.add_argument(
        "--scheduler",
        choices=["threads", "processes", "distributed"],
        default="threads",
        help="where dask's tasks run (default: threads)",
    )
    parser.add_argument("--data", type=Path, help="folder for files (default: one that is deleted after the run)")
    parser.add_argument("--small", action="store_true", help="a few MiB in place of a GiB, and no times")
    parser.add_argument("--persisted", action="store_true", help="of data in memory, not from files")
    parser.add_argument("--gpu", action="store_true", help="of CuPy chunks, read on the host")
    parser.add_argument(
        "--latency", type=float, default=0, help="milliseconds that a read of a chunk waits (default: 0)"
    )
    _json(parser, "workflows.json")
    _made_of_results(parser)


def _random_arguments(parser: argparse.ArgumentParser) -> None:
    _suites(
        parser,
        reductions="reductions alone (default: reductions and scans)",
        scans="scans alone",
        groups="groups",
        batch="24 chunks in one launch, as trees reduce them",
    )
    parser.add_argument("--numpy", action="store_true", help="calls on NumPy chunks, where there is a GPU too")
    _seed(parser)
    parser.add_argument("--count", type=int, default=200, help="how many cases (default: 200)")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="time after which no case begins (default: without end)"
    )
    parser.add_argument(
        "--mib",
        type=_sizes,
        default=[],
        help="sizes of chunks (default: 4,64,256,1024; of groups to 256, of batches to 64); on NumPy of arrays "
        "(default: 200)",
    )
    _only(parser, "the rows' labels, on a GPU")
    parser.add_argument("--no-peers", action="store_true", help="time ours alone (default: CuPy and torch too)")
    parser.add_argument(
        "--compilers",
        type=int,
        help="processes that compile ahead on a GPU (default: all processors but one, 12 at most; 0: none)",
    )
    _json(parser, "random.json")
    _made_of_results(parser, "how many cases are above each share, on a GPU")


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    _seed(parser)
    parser.add_argument(
        "--reductions",
        action="store_true",
        help="reductions, whose costs are the same on every GPU (default: scans, whose costs are kept for this one)",
    )
    parser.add_argument("--count", type=int, default=240, help="how many at most (default: 240)")
    parser.add_argument(
        "--mib", type=_sizes, default=[4.0, 64.0, 256.0], help="sizes of chunks, in turn (default: 4,64,256)"
    )
    parser.add_argument("--seconds", type=float, default=540, help="time after which none begins (default: 540)")
    parser.add_argument(
        "--compilers",
        type=int,
        help="processes that compile ahead (default: all processors but one, 12 at most; 0: none)",
    )
    parser.add_argument("--forget", action="store_true", help="only remove the tables that were written here")
    _json(parser, "tune.json")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    names = dict.fromkeys(("scans", "one_read", "grids", "mechanisms"), "the results of this suite")
    _suites(parser, **names)
    parser.add_argument(
        "--json",
        type=Path,
        help="results of any benchmark but soak (default: kernels.json, of the suites scan_kernels.json, "
        "one_read_kernels.json, grids.json or mechanisms.json)",
    )
    _made_of_results(parser, "what the benchmark itself plots")


def _suites(parser: argparse.ArgumentParser, **helps: str) -> None:
    """Options of which one at most is given, for what is measured."""
    group = parser.add_mutually_exclusive_group()
    for name, text in helps.items():
        group.add_argument(f"--{name.replace('_', '-')}", action="store_const", dest="suite", const=name, help=text)


def _only(parser: argparse.ArgumentParser, of: str) -> None:
    parser.add_argument("--only", default="", help=f"regular expression over {of} (default: all)")


def _workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpus",
        type=int,
        nargs="+",
        metavar="N",
        help="workers, one a GPU, one number after another; 0 for NumPy workers (default: all GPUs there are)",
    )
    parser.add_argument("--workers", type=int, default=4, help="NumPy workers where no GPU is used (default: 4)")


def _repeats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=7, help="of each of ours (default: 7)")


def _seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="of the draws (default: one from the clock, which is printed)")


def _json(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--json", type=Path, help=f"results, written as they come (default: {default})")


def _made_of_results(parser: argparse.ArgumentParser, plotted: str = "") -> None:
    if plotted:
        parser.add_argument("--plot", type=Path, help=f"PNG: {plotted} (default: none)")
    parser.add_argument("--page", type=Path, help="page of docs/benchmarks whose table is replaced (default: none)")


def _sizes(text: str) -> list[float]:
    return [float(size) for size in text.split(",")]


def run(args: argparse.Namespace) -> int:
    """Measure or only report; 1 where a result was wrong."""
    bench = BENCHES[args.what]
    if bench.results:
        progress(f"bench {args.what}: started; results go to {_path(args, bench.results)} as they come")
    return bench.run(args)


def _kernels(args: argparse.Namespace) -> int:
    need_gpu("bench kernels")
    if args.cupynumeric:
        from . import cupynumeric_peer

        path = _path(args, "beside_cupynumeric.json")
        cupynumeric_peer.run(args.cupynumeric, args.gib, args.only, path)
        return _report_cupynumeric(path)
    from . import kernels, one_read, scans

    suite = {"scans": scans.SCANS, "one_read": one_read.ONE_READ}.get(args.suite, kernels.REDUCTIONS)
    result = kernels.run(suite, args.gib, args.only, not args.no_peers, _path(args, "kernels.json"))
    return _report_kernels(args, result)


def _report_cupynumeric(path: Path) -> int:
    from . import cupynumeric_peer

    peer = cupynumeric_peer.peer_path(path)
    if peer == path or not peer.exists():
        expected = f"our times in one file and cuPyNumeric's beside it, in {peer.name}"
        raise ArgumentError(message("bench report", f"{path} alone", expected, "Name the file of ours with --json."))
    ours, theirs = (json.loads(each.read_text()) for each in (path, peer))
    print(cupynumeric_peer.summary(ours, theirs))
    return 0 if cupynumeric_peer.is_clean(ours) else 1


def _path(args: argparse.Namespace, name: str) -> Path:
    """The file of the results: ``name`` where none was given, with the suite's own name where it has one."""
    if args.what == "random":
        return args.json or Path(name)
    named = {"grids": "grids.json", "mechanisms": "mechanisms.json"}
    named |= {"scans": f"scan_{name}", "one_read": f"one_read_{name}"}
    return args.json or Path(named.get(args.suite, name))


def _report(args: argparse.Namespace) -> int:
    path = _path(args, "kernels.json")
    if not path.exists():
        remedy = "Name one with --json, or run the benchmark first."
        raise ArgumentError(message("bench report", f"no file {path}", "results of a benchmark", remedy))
    result = json.loads(path.read_text())
    if "random" in result:
        return _report_random(args, result)
    if "host" in result or "numbagg" in result:
        return _report_host(args, result)
    if "workflows" in result:
        return _report_workflows(args, result)
    if isinstance(result.get("rows"), dict):
        return _report_cupynumeric(path)
    if "runs" in result:
        return _report_trees(args, result)
    if "gib" not in result:
        received, remedy = f"{path}, which holds none", "Results of the command ladder are what it prints."
        raise ArgumentError(message("bench report", received, "results of a benchmark", remedy))
    return _report_kernels(args, result)


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
    suites: dict[str, trees.Suite] = {
        "scans": scan_trees.SCANS,
        "one_read": one_read_trees.ONE_READ,
        "grids": grids.GRIDS,
        "mechanisms": mechanisms.SUITE,
    }
    suite = suites.get(args.suite, trees.REDUCTIONS)
    for gpus in [count_gpus()] if args.gpus is None else args.gpus:
        mib = args.mib or (8192 if gpus else 128)
        options = (args.repeats, not args.no_stock, path, args.budget, args.protocol)
        trees.run(suite, gpus, args.workers, mib, args.chunks, *options)
    return _report_trees(args, json.loads(path.read_text()))


def _report_trees(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import grids_report, scan_trees_report, trees_report

    of_suite: dict[str, Any] = {"scans": scan_trees_report, "grids": grids_report, "mechanisms": grids_report}
    report = of_suite.get(result.get("what", ""), trees_report)
    for run in result["runs"]:
        print(report.summary(run))
    if args.plot and report is not grids_report:
        report.plot(result, args.plot)
    if args.page:
        picture = args.plot and os.path.relpath(args.plot, args.page.parent)
        args.page.write_text(report.into_page(args.page.read_text(), result, picture))
    return 0 if all(map(trees_report.is_clean, result["runs"])) else 1


def _host(args: argparse.Namespace) -> int:
    from . import host, numbagg_peer

    run = numbagg_peer.run if args.numbagg else host.run
    path = _path(args, "numbagg.json" if args.numbagg else "host.json")
    return _report_host(args, run(args.mib or 64, 6, args.repeats, path))


def _report_host(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import host, numbagg_peer

    report: Any = numbagg_peer if "numbagg" in result else host
    if args.page:
        args.page.write_text(report.into_page(args.page.read_text(), result))
    return 0 if report.is_clean(result) else 1


def _soak(args: argparse.Namespace) -> int:
    """Whether memory stays flat, then faults, each for so many minutes."""
    from . import soak, soak_rounds

    path, are_clean = _path(args, "soak.json"), []
    if re.search(args.only, "memory"):
        result = soak.run(args.workers, args.mib or 4, args.minutes, path)
        print(soak.summary(result))
        are_clean.append(soak.is_clean(result))
    if re.search(args.only, "faults"):
        gpus = args.gpus[0] if args.gpus else 0
        with_faults = path.with_stem(f"{path.stem}_faults")
        result = soak_rounds.run(gpus, args.workers, args.minutes, _seed_of(args), with_faults)
        print(soak_rounds.summary(result))
        are_clean.append(soak_rounds.is_clean(result))
    return 0 if all(are_clean) else 1


def _seed_of(args: argparse.Namespace) -> int:
    return int(time.time()) if args.seed is None else args.seed


def _workflows(args: argparse.Namespace) -> int:
    try:
        from .workflows import data, measure, run
    except ImportError as error:
        remedy = 'Install the test extra: pip install "gpureduce-dask[test]".'
        raise ExtraError(message("bench workflows", str(error), "xarray, zarr, h5netcdf and flox", remedy)) from error
    size, repeats = (data.SMALL, (0, 0)) if args.small else (data.FULL, measure.REPEATS)
    path = _path(args, "workflows.json")
    options = {"only": args.only, "persisted": args.persisted, "gpu": args.gpu, "latency": args.latency / 1e3}
    with tempfile.TemporaryDirectory() as folder:
        where = args.data or Path(folder)
        result = run.run(args.scheduler, where, path, size=size, repeats=repeats, **options)
    return _report_workflows(args, result)


def _report_workflows(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from .workflows import run

    print(run.summary(result))
    if args.page:
        args.page.write_text(run.into_page(args.page.read_text(), result))
    return 0 if run.is_clean(result) else 1


def _random(args: argparse.Namespace) -> int:
    path = _path(args, "random.json")
    if args.numpy or not _has_gpu():
        from . import random_calls

        if len(args.mib) > 1:
            received, expected = f"--mib of {len(args.mib)} sizes", "one size for arrays of NumPy chunks"
            raise ArgumentError(message("bench random", received, expected, "Give one."))
        random_calls.run(_seed_of(args), args.count, args.mib[0] if args.mib else 200, path, args.seconds)
    else:
        from . import random_chunks, random_draws

        kinds = [args.suite] if args.suite else random_draws.BOTH
        options = {
            "only": args.only,
            "seconds": args.seconds,
            "with_peers": not args.no_peers,
            "processes": args.compilers,
        }
        random_chunks.run(_seed_of(args), args.count, args.mib, kinds, path, **options)
    return _report_random(args, json.loads(path.read_text()))


def _tune(args: argparse.Namespace) -> int:
    from . import tune

    if args.forget:
        return tune.forget()
    need_gpu("bench tune")
    path = args.json or Path("tune.json")
    progress(f"bench tune: started; results go to {path} as they come")
    return tune.run(_seed_of(args), args.count, args.mib, args.seconds, args.compilers, path, args.reductions)


def _report_random(args: argparse.Namespace, result: dict[str, Any]) -> int:
    from . import random_calls, random_report

    report: Any = random_report if "gpu" in result else random_calls
    print(report.summary(result))
    if args.plot and report is random_report:
        random_report.plot(result, args.plot)
    if args.page and report is random_report:
        picture = args.plot and os.path.relpath(args.plot, args.page.parent)
        args.page.write_text(random_report.into_page(args.page.read_text(), result, picture))
    return 0 if report.is_clean(result) else 1


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


@dataclass(frozen=True)
class Command:
    """One benchmark: its help, its options, what runs it, and the file that its results go to by default."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    results: str = ""


BENCHES = {
    "kernels": Command("kernels of a GPU beside CuPy, torch and others", _kernel_arguments, _kernels, "kernels.json"),
    "trees": Command("whole trees on workers beside stock dask", _tree_arguments, _trees, "trees.json"),
    "host": Command("NumPy chunks on threads beside stock dask", _host_arguments, _host, "host.json"),
    "soak": Command("memory over time, and answers while workers die", _soak_arguments, _soak, "soak.json"),
    "workflows": Command("daily work with files beside plain dask", _workflow_arguments, _workflows, "workflows.json"),
    "random": Command("random chunks of a GPU, or random calls on NumPy", _random_arguments, _random, "random.json"),
    "tune": Command("what kernels cost on this GPU, by which scans are planned from then on", _tune_arguments, _tune),
    "report": Command("tables and pictures again, from results in a file", _report_arguments, _report),
}
