"""``python -m gpureduce_dask doctor``: what is here for NumPy chunks, GPUs and clusters, and what is missing or broken.

The checks are grouped by what they are needed for. Where nothing of a group is installed, one line says so and how to
set it up; the last line of all is a verdict.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.metadata as metadata
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OLDEST = 7  # compute capability, major
ANYWHERE = "sm_90"  # what kernels are compiled for where there is no GPU


class Missing(Exception):
    """Something is not here, and NumPy chunks do without it."""


class Doubt(Exception):
    """Something works, but not as well as it could, or may not."""


@dataclass(frozen=True)
class Purpose:
    """What a group of checks is needed for, and what sets it up where nothing of it is here."""

    name: str
    remedy: str


CUDA_EXTRA = 'pip install "gpureduce-dask[cuda13]", or [cuda12] for CUDA 12'
CLUSTER_EXTRA = 'pip install "gpureduce-dask[cluster]", or [cluster12] for CUDA 12'
NUMPY = Purpose("NumPy chunks", 'this: pip install "dask[array]" distributed')
GPU = Purpose("One GPU", f"a GPU with NVIDIA's driver, and then: {CUDA_EXTRA}")
CLUSTER = Purpose("A cluster of GPUs", f"one GPU as above, and then: {CLUSTER_EXTRA}")
OF_HERE = Purpose("A cluster of this machine", "this: pip install distributed")


@dataclass(frozen=True)
class Check:
    """``look`` says what is there, or raises: Missing, Doubt, or any other error where what is installed is broken."""

    name: str
    look: Callable[[], str]
    remedy: str
    purpose: Purpose = NUMPY


@dataclass(frozen=True)
class Finding:
    check: Check
    state: str  # ok, warn, missing, broken
    text: str


def dask() -> str:
    ours, theirs = metadata.version("dask"), metadata.version("distributed")
    if ours != theirs:
        raise RuntimeError(f"dask {ours} with distributed {theirs}")
    return f"dask and distributed {ours}"


def host_loops() -> str:
    from ..operators import native

    if native.library() is None:
        is_older = any(any(folder.glob("loops-*")) for folder in native.FOLDERS)
        state = "compiled of texts that have changed since" if is_older else "not compiled"
        raise Missing(f"{state}; NumPy does their work, float32 sums at two thirds of the speed")
    return "compiled"


def driver() -> str:
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        raise Missing("no NVIDIA driver; reductions of NumPy chunks need none") from None
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    status = library.cuInit(0)
    if status == 100:
        raise Missing(f"a driver for {cuda(version.value)}, but no GPU")
    if status:
        raise RuntimeError(f"the driver for {cuda(version.value)} does not start (CUDA error {status})")
    return f"for {cuda(version.value)}"


def cupy() -> str:
    module = need("cupy")
    found = sorted(set(metadata.packages_distributions().get("cupy", [])))
    if len(found) > 1:
        raise RuntimeError(f"several distributions of CuPy overwrite one another: {', '.join(found)}")
    return f"{module.__version__}, for {cuda(module.cuda.runtime.runtimeGetVersion())}"


def gpus() -> str:
    runtime = need("cupy").cuda.runtime
    offered, wanted = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if 0 < offered // 1000 < wanted // 1000:
        raise RuntimeError(f"the driver is for {cuda(offered)}, CuPy for {cuda(wanted)}")
    every = visible(runtime)
    if not every:
        raise Missing("CuPy sees none")
    old = [gpu["name"].decode() for gpu in every if gpu["major"] < OLDEST]
    if old:
        raise Doubt(f"of compute capability below {OLDEST}.0, which the kernels need: {', '.join(old)}")
    return f"{len(every)}: " + ", ".join(gpu["name"].decode() for gpu in every)


def nvrtc() -> str:
    need("cupy")
    version = importlib.import_module("cupy_backends.cuda.libs.nvrtc").getVersion()
    return "CUDA's run-time compiler {}.{}".format(*version)


def kernels() -> str:
    runtime = need("cupy").cuda.runtime
    from .. import chunk
    from ..device.compile import cubin
    from ..device.layout import collapse
    from ..device.operator import cuda_operator
    from ..device.specialise import Plan
    from ..operators.table import get

    size = 1 << 16
    bound = get("sum").bind(np.dtype("f4"))
    if visible(runtime):
        got = float(chunk.results((need("cupy").ones(size, "f4"),), bound, (0,))[0])
        if got != size:
            raise RuntimeError(f"a sum of {size} ones gives {got}")
        return "a sum of float32 ran on GPU 0"
    layout = collapse((size,), ((4,),), (4,), (0,), (1,), True, False)
    for launch in Plan(cuda_operator(bound, True), layout, (0,)).launches():
        cubin(launch.kernel, ANYWHERE)
    return f"a sum of float32 compiles for {ANYWHERE}, which needs no GPU"


def scan_costs() -> str:
    """By which table scans are planned, and how good it is."""
    runtime = need("cupy").cuda.runtime
    from ..device import scan_cost_tables

    lines, found = [], {gpu["name"].decode(): gpu for gpu in visible(runtime)}
    for name, gpu in found.items():
        architecture = f"sm_{gpu['major']}{gpu['minor']}"
        table, why = scan_cost_tables.in_use(name, architecture)
        nearest = "" if table.architecture == architecture else f", the nearest to {architecture} that was measured"
        if why:
            raise Doubt(f"{why}; in use: {table}{nearest}")
        lines.append(f"{name}: {table}{nearest}")
    return "; ".join(lines) or str(scan_cost_tables.shipped())


def transfers() -> str:
    need("cupy")
    try:
        importlib.import_module("distributed.protocol.cupy")
    except ModuleNotFoundError as error:
        raise Missing(f"distributed cannot move CuPy arrays: {error}") from None
    return "distributed moves CuPy arrays between processes"


def dask_cuda() -> str:
    return str(need("dask_cuda").__version__)


def pin() -> str:
    """Also where dask-cuda itself does not import, so from its metadata alone."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in metadata.requires("dask-cuda") or []]
        if any(each.name == "rapids-dask-dependency" for each in wanted):
            wanted += [Requirement(text) for text in metadata.requires("rapids-dask-dependency") or []]
    except metadata.PackageNotFoundError as error:
        raise Missing(f"{error.name} is not installed") from None
    pins = [each for each in wanted if each.name in ("dask", "distributed") and each.marker is None]
    here = {each.name: metadata.version(each.name) for each in pins}
    off = [each for each in pins if not each.specifier.contains(here[each.name], prereleases=True)]
    if off:
        wrong = "; ".join(f"{each.name} {here[each.name]}, not {each.specifier}" for each in off)
        raise Doubt(f"dask-cuda {metadata.version('dask-cuda')} is made for another dask: {wrong}")
    return ", ".join(f"{each.name}{each.specifier}" for each in pins) or "dask-cuda asks for no version of dask"


def rmm() -> str:
    module = need("rmm")
    allocate = importlib.import_module("rmm.allocators.cupy").rmm_cupy_allocator
    if not visible(need("cupy").cuda.runtime):
        return f"{module.__version__}; it can serve CuPy, untried without a GPU"
    allocate(256)
    return f"{module.__version__}; it serves CuPy"


def ucxx() -> str:
    return f"distributed-ucxx {need('distributed_ucxx').__version__}"


def workers() -> str:
    """A cluster as :func:`gpureduce_dask.cluster.start` makes it: a GPU a worker, and what CuPy allocates from."""
    import gpureduce_dask as gr

    with gr.cluster.start(dashboard_address="127.0.0.1:0") as client:
        warmed = gr.warm(client, ops=("sum",))
        places = list(client.run(whereabouts).values())
    buses = [bus for bus, _ in places if bus]
    if len(set(buses)) < len(buses):
        raise RuntimeError(f"workers share GPUs: {', '.join(buses)}")
    if buses and module_is_here("rmm") and not all(allocator.startswith("rmm") for _, allocator in places):
        raise RuntimeError("RMM is installed, but a worker's CuPy does not allocate from it")
    kinds = sorted({str(each["gpu"] or "NumPy, without a GPU") for each in warmed.values()})
    return f"{len(warmed)}: {', '.join(kinds)}" + (", one each" if buses else "")


def whereabouts() -> tuple[str, str]:
    """On a worker: the bus of its GPU, and the module of the function that CuPy allocates with."""
    try:
        module = need("cupy")
        if not visible(module.cuda.runtime):
            return "", ""
        allocator = module.cuda.get_allocator()
        return module.cuda.runtime.deviceGetPCIBusId(0), str(getattr(allocator, "__module__", ""))
    except Missing:
        return "", ""


CHECKS = (
    Check("dask", dask, 'pip install --upgrade "dask[array]" distributed, which go together'),
    Check(
        "host loops",
        host_loops,
        "with a C compiler (cc, or the one that CC names) build the package again: pip install --no-cache-dir "
        "--force-reinstall --no-deps --no-binary gpureduce-dask gpureduce-dask, or with a folder or file of its source "
        "as the last word",
    ),
    Check("driver", driver, "for GPUs, install NVIDIA's driver and restart; in a container, pass the GPUs in", GPU),
    Check("CuPy", cupy, f"uninstall every cupy distribution, then {CUDA_EXTRA}", GPU),
    Check(
        "GPUs", gpus, "see the driver; then CUDA_VISIBLE_DEVICES, and a CuPy of the driver's CUDA version or older", GPU
    ),
    Check("NVRTC", nvrtc, CUDA_EXTRA, GPU),
    Check("kernels", kernels, f"{CUDA_EXTRA}; keep CuPy and NVRTC to one CUDA version", GPU),
    Check("scan costs", scan_costs, "python -m gpureduce_dask bench tune, or bench tune --forget", GPU),
    Check("transfers", transfers, f"numba-cuda: {CUDA_EXTRA}", CLUSTER),
    Check("dask-cuda", dask_cuda, f"for a worker a GPU, with its extra [cu13] or [cu12]: {CLUSTER_EXTRA}", CLUSTER),
    Check("its dask", pin, f"install together, so that pip finds versions that agree: {CLUSTER_EXTRA}", CLUSTER),
    Check("RMM", rmm, f"for one memory pool a GPU: {CLUSTER_EXTRA}", CLUSTER),
    Check("UCXX", ucxx, f"for NVLink between GPUs (TCP is used without): {CLUSTER_EXTRA}", CLUSTER),
)
WORKERS = Check(
    "workers", workers, "mend what is above first; then try start(rmm_pool_size=None, protocol='tcp')", OF_HERE
)


def need(name: str) -> Any:
    """The module; Missing if it is not installed, its own error if it is and does not import."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Missing(f"{name} is not installed") from None


def module_is_here(name: str) -> bool:
    try:
        need(name)
    except Missing:
        return False
    return True


def visible(runtime: Any) -> list[Any]:
    """Properties of the GPUs that CuPy sees, none where CUDA does not start."""
    try:
        return [runtime.getDeviceProperties(number) for number in range(runtime.getDeviceCount())]
    except runtime.CUDARuntimeError:
        return []


def cuda(version: int) -> str:
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def examine(checks: Sequence[Check]) -> list[Finding]:
    """Look at each; an error is a finding, not an end."""
    return [Finding(check, *_state(check.look)) for check in checks]


def _state(look: Callable[[], str]) -> tuple[str, str]:
    try:
        return "ok", look()
    except Missing as error:
        return "missing", str(error)
    except Doubt as error:
        return "warn", str(error)
    except Exception as error:  # whatever a package that is broken raises
        return "broken", f"{type(error).__name__}: {error}"


def report(findings: Sequence[Finding], everything: bool = False) -> str:
    """The findings by purpose: a line each, and under each that is not ok how to mend it.

    Of a purpose of which nothing is here there is one line, unless ``everything`` is asked for.
    """
    lines = []
    for purpose in dict.fromkeys(each.check.purpose for each in findings):
        own = [each for each in findings if each.check.purpose == purpose]
        lines.append(purpose.name)
        if all(each.state == "missing" for each in own) and not everything:
            lines.append(f"  not set up here; it needs {purpose.remedy}")
            continue
        for each in own:
            lines.append(f"  {each.state:<8} {each.check.name:<10} {each.text}")
            if each.state != "ok":
                lines.append(f"{'':<21} mend: {each.check.remedy}")
    return "\n".join(lines)


def verdict(findings: Sequence[Finding]) -> str:
    """One line: what this machine is ready for."""
    state = {each.check.name: each.state for each in findings}
    text = {each.check.name: each.text for each in findings}
    broken = [name for name, each in state.items() if each == "broken"]
    if state.get("dask") != "ok":
        return "Not ready: mend dask and distributed first."
    loops = "compiled loops" if state.get("host loops") == "ok" else "without compiled loops"
    sentences = [f"Ready for NumPy chunks on this machine: {count(processors(), 'processor')}, {loops}."]
    if state.get("GPUs") == state.get("kernels") == "ok":
        lacking = [each.check.name for each in findings if each.check.purpose == CLUSTER and each.state != "ok"]
        cluster = f"; a cluster of them is without {', '.join(lacking)}" if lacking else ", and for a cluster of them"
        sentences.append(f"Ready for GPUs, {text['GPUs']}{cluster}.")
    elif state.get("driver") == "ok" or broken:
        sentences.append("GPUs: not ready, see above.")
    else:
        sentences.append("GPUs: none found; NumPy chunks need none.")
    if broken:
        sentences.append(f"Broken: {', '.join(broken)}.")
    return " ".join(sentences)


def processors() -> int:
    """Those that dask's threads may use: of a container its share, not the machine's."""
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


def count(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", action="store_true", help="start a cluster too, and ask each worker for its GPU")
    parser.add_argument(
        "--all", action="store_true", help="a line and a remedy for each check, also of what is not set up at all"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings and a verdict; 1 where something that is installed is broken."""
    findings = examine([*CHECKS, WORKERS] if arguments.workers else CHECKS)
    print(report(findings, arguments.all), verdict(findings), sep="\n\n")
    return int(any(each.state == "broken" for each in findings))
