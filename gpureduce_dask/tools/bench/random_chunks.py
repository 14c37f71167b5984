"""``python -m gpureduce_dask bench random`` on a GPU: chunks that nobody chose, beside the ceilings and the peers.

A seed draws operators, dtypes, extents, views and axes. Each result is checked before it is timed, over buffers that
take turns so that none is still in the L2 cache, as a share of the fastest read (or copy, for scans) of the same number
of bytes in the same run. Tables show what was tuned; this shows what was not.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from ... import chunk
from ...device import compile as compiler
from ...device import reduce as device_reduce
from ...device import scan_launch
from ...device.scan_task import Plan as ScanPlan
from ...device.specialise import Plan as ReducePlan
from ...operators import table as operators
from ...operators.grouped import Bins, binned
from ...place import Place, Places
from . import ceilings, peers, scan_peers
from .cases import dtype_of
from .kernels import SCRUB_SECONDS
from .random_draws import (
    BATCH,
    BOTH,
    CHUNKS,
    GROUPS,
    REDUCTIONS,
    SCANS,
    STARTED,
    Draw,
    draws,
    make_base,
    make_labels,
    module_of,
)
from .random_report import describe
from .reference import is_near, reduced, scanned
from .timing import Rotation, buffers, device_seconds

Case = dict[str, Any]
Result = dict[str, Any]

CEILING = {REDUCTIONS: "R", SCANS: "C", GROUPS: "R", BATCH: "R"}
SLOW = 1.0  # a peer that takes longer is timed once,
PARTS = 32  # and one that would take PATIENCE is known by one part of so many
PATIENCE = 3.0
PROBED = 32 << 20  # bytes from which on a part is timed first
FEW_GROUPS = 16  # at each end of the labels that are checked, and somewhere between
BLOCK = 4  # draws that are compiled ahead of their measurement, for each process that compiles


# ---- what is done with them


@dataclass(frozen=True)
class Job:
    """A draw made ready: a call for each of the buffers, what a result should be, and the bytes that must move."""

    calls: list[Callable[[], Any]]
    is_right: Callable[[Any], bool]
    read: int
    written: int
    peers: dict[str, Callable[[Any], list[Callable[[], Any] | None]]] = field(default_factory=dict)
    arrays: list[Any] = field(default_factory=list)  # what peers are given, for each of the buffers


def prepare(draw: Draw, count: int = 0) -> Job:
    """A draw over ``count`` buffers; 0 for as many as it takes to get past the L2 cache."""
    first = make_base(draw)
    count = count or buffers(first.nbytes * (CHUNKS if draw.kind == BATCH else 1))
    many = count * (CHUNKS if draw.kind == BATCH else 1)
    bases = [first, *(_shifted(first, i % CHUNKS if draw.kind == BATCH else 0) for i in range(1, many))]
    xs = [draw.view(base) for base in bases]
    bound = operators.get(draw.op).bind(xs[0].dtype)
    return {REDUCTIONS: _reduction, SCANS: _scan, GROUPS: _groups, BATCH: _batch}[draw.kind](draw, xs, bound)


def _shifted(base: Any, places: int) -> Any:
    """A copy with the same elements in other places."""
    flat, places = base.reshape(-1), places % base.size
    copy = flat.copy()
    copy[places:], copy[:places] = flat[: base.size - places], flat[base.size - places :]
    return copy.reshape(base.shape)


def _results(draw: Draw, x: Any, groups: int = 1) -> int:
    cells: int = math.prod(x.shape[a] for a in draw.kept)
    return cells * groups


def _reduction(draw: Draw, xs: list[Any], bound: Any) -> Job:
    def call(x: Any) -> Callable[[], Any]:
        if chunk.is_device(x):
            return lambda: device_reduce.reduce((x,), bound, draw.axes, final=True)
        return lambda: chunk.results((x,), bound, draw.axes)

    return Job(
        [call(x) for x in xs],
        lambda ours: is_near(_drop(ours, draw), reduced(draw.op, xs[0], draw.axes, bound.result)),
        xs[0].nbytes,
        _results(draw, xs[0]) * bound.result.itemsize,
        {name: _peer_calls(peers.PEERS[name], draw) for name in ("CuPy", "torch")},
        [[x] for x in xs],
    )


def _drop(x: Any, draw: Draw) -> Any:
    """Results without the axes that are reduced."""
    return x.reshape(tuple(x.shape[a] for a in draw.kept))


def _peer_calls(peer: Any, draw: Draw) -> Callable[[Any], list[Callable[[], Any] | None]]:
    """What a peer is asked for each of several arrays."""
    axis: Any = draw.axes[0] if len(draw.axes) == 1 else draw.axes
    if len(draw.axes) == len(draw.base) and draw.kind != SCANS:
        axis = None
    return lambda arrays: [peer(draw.op, x, axis) for x in arrays]


def _scan(draw: Draw, xs: list[Any], bound: Any) -> Job:
    (axis,) = draw.axes
    options = {draw.mode: True} if draw.mode else {}

    def call(x: Any) -> Callable[[], Any]:
        return lambda: chunk.scan((x,), bound, axis, with_total=False, **options)[0]  # type: ignore[arg-type]

    def is_right(ours: Any) -> bool:
        back = (slice(None),) * axis + (slice(None, None, -1 if draw.mode == "reverse" else None),)
        x = xs[0][back]
        if draw.mode != "exclusive":
            return is_near(ours[back], scanned(draw.op, x, axis, bound.result))
        ahead = (slice(None),) * axis
        starts = bool((ours[(*ahead, slice(1))] == STARTED[draw.op]).all())
        wanted = scanned(draw.op, x[(*ahead, slice(-1))], axis, bound.result) if x.shape[axis] > 1 else None
        return starts and (wanted is None or is_near(ours[(*ahead, slice(1, None))], wanted))

    others = {} if draw.mode else {name: _peer_calls(scan_peers.SCAN_PEERS[name], draw) for name in ("CuPy", "torch")}
    return Job(
        [call(x) for x in xs], is_right, xs[0].nbytes, xs[0].size * bound.result.itemsize, others, [[x] for x in xs]
    )


def places_of(draw: Draw, shape: tuple[int, ...]) -> Places:
    """Where chunks of one shape lie that follow one another along the first reduced axis."""
    first = draw.axes[0]
    whole = tuple(n * CHUNKS if a == first else n for a, n in enumerate(shape))
    return Places(
        [Place(tuple(i * shape[first] if a == first else 0 for a in range(len(shape))), whole) for i in range(CHUNKS)]
    )


def _batch(draw: Draw, xs: list[Any], bound: Any) -> Job:
    """Chunks that are folded in one launch, as a task of a tree does."""
    places = places_of(draw, xs[0].shape)
    parts = [xs[i : i + CHUNKS] for i in range(0, len(xs), CHUNKS)]

    def call(part: list[Any]) -> Callable[[], Any]:
        batch = chunk.gather([(x,) for x in part], bound)
        return lambda: chunk.reduce_many(batch, bound, draw.axes, places)

    def is_right(ours: Any) -> bool:
        joined = module_of(xs[0]).concatenate(parts[0], draw.axes[0])
        return is_near(_drop(chunk.finalise(ours, bound), draw), reduced(draw.op, joined, draw.axes, bound.result))

    return Job(
        [call(part) for part in parts],
        is_right,
        CHUNKS * xs[0].nbytes,
        _results(draw, xs[0]) * bound.state.itemsize,
        {name: _peer_calls(peers.PEERS[name], draw) for name in ("CuPy", "torch")},
        parts,
    )


def _groups(draw: Draw, xs: list[Any], bound: Any) -> Job:
    labels = make_labels(draw)
    of_groups = binned(bound, Bins("grouped", (draw.groups,), draw.axes), fill=0)

    def call(x: Any, labels: Any) -> Callable[[], Any]:
        if chunk.is_device(x):
            from ...device import groups as device_groups  # which says of labels without a group later

            return lambda: device_groups.begin_many([((x,), labels)], of_groups, draw.axes, None)[0]
        return lambda: chunk.reduce_many([(x, labels)], of_groups, draw.axes)

    def is_right(ours: Any) -> bool:
        found = chunk.finalise(ours, of_groups)
        found = found.reshape(*(xs[0].shape[a] for a in draw.kept), draw.groups)
        return _are_groups_right(draw, xs[0], labels.reshape(-1), found, bound.result)

    is_line = draw.op == "sum" and not draw.kept and xs[0].dtype.kind in "biuf"
    return Job(
        [call(x, labels if x is xs[0] else labels.copy()) for x in xs],
        is_right,
        xs[0].nbytes + labels.nbytes,
        _results(draw, xs[0], draw.groups) * of_groups.cells.state.itemsize,
        {"CuPy": _bincount(labels, draw.groups, "cupy"), "torch": _bincount(labels, draw.groups, "torch")}
        if is_line
        else {},
        [[x] for x in xs],
    )


def _bincount(labels: Any, count: int, module: str) -> Callable[[Any], list[Callable[[], Any] | None]]:
    """Sums by labels as CuPy and torch have them: of one line, which a view is copied to."""

    def calls(arrays: Any) -> list[Callable[[], Any] | None]:
        if module == "cupy":
            import cupy

            return [partial(lambda x: cupy.bincount(labels.ravel()[: x.size], x.ravel(), count), x) for x in arrays]
        given, mine = [peers.tensor(x) for x in arrays], peers.tensor(labels)
        if mine is None or any(each is None for each in given):
            return [None]
        import torch

        flat = mine.reshape(-1)
        return [partial(lambda x: torch.bincount(flat[: x.numel()], x.reshape(-1), count), x) for x in given]

    return calls


def _are_groups_right(draw: Draw, x: Any, labels: Any, found: Any, result: Any) -> bool:
    """Whether some groups are right: the first, the last and some between, each by itself."""
    import cupy as cp

    lines = x.transpose(*draw.axes, *draw.kept)
    lines = lines.reshape(labels.size, *lines.shape[len(draw.axes) :])
    middle = draw.seed % draw.groups
    picked = cp.zeros(labels.shape, bool)
    for start in (0, middle, draw.groups - FEW_GROUPS):
        picked |= (labels >= start) & (labels < start + FEW_GROUPS)
    (at,) = cp.nonzero(picked)
    lines, labels = lines[at], labels[at]
    for group in {
        *range(FEW_GROUPS),
        *range(middle, middle + FEW_GROUPS),
        *range(draw.groups - FEW_GROUPS, draw.groups),
    }:
        if not 0 <= group < draw.groups:
            continue
        (mine,) = cp.nonzero(labels == group)
        if mine.size == 0:
            continue
        wanted = reduced(draw.op, lines[mine], (0,), result)
        if draw.op.removeprefix("nan") in ("argmin", "argmax"):
            wanted = replace(wanted, values=at[mine][wanted.values])  # a position among all
        if not is_near(found[..., group], wanted):
            return False
    return True


# ---- one case


def measure(draw: Draw, with_peers: bool = True) -> Case:
    """Check a draw, then time it, its ceiling and its peers."""
    import cupy as cp

    case: Case = {"case": draw.label, **asdict(draw)}
    job = prepare(draw)
    begin = time.perf_counter()
    with _noted() as (kernels, plans):
        ours = job.calls[0]()
        cp.cuda.get_current_stream().synchronize()
    case["first_call_s"], case["kernels"] = time.perf_counter() - begin, kernels
    if plans and draw.kind != GROUPS:  # of which only what folds blocks' states has a prediction
        case["predicted_s"] = plans[-1].seconds
    begin = time.perf_counter()
    case["right"] = job.is_right(ours)
    case["check_s"] = time.perf_counter() - begin
    del ours
    case["read"], case["written"] = job.read, job.written
    nbytes = job.read + job.written
    case["ceiling"] = ceiling(CEILING[draw.kind], nbytes)
    turns = Rotation(job.calls)
    # Memory for a result comes from the driver the first time, which takes longer than a small scan.
    for _ in job.calls:
        turns()
    case["ours_s"] = device_seconds(turns)
    case["ours"] = nbytes / case["ours_s"] / case["ceiling"]
    itemsize = dtype_of(draw.dtype).itemsize
    chunks = CHUNKS if draw.kind == BATCH else 1
    case["touched"] = 1 + (draw.touched(itemsize) - 1) * chunks * math.prod(draw.shape) * itemsize / nbytes
    for name, peer in job.peers.items() if with_peers else ():
        try:
            seconds = _peer_seconds(peer, job.arrays, max(draw.shape))
        except Exception as error:  # what a peer does not take, or has no memory for
            case[f"{name}_error"] = f"{type(error).__name__}: {str(error)[:120]}"
            continue
        if seconds is not None:
            case[f"{name}_s"], case[name] = seconds, nbytes / seconds / case["ceiling"]
    return case


@contextmanager
def _noted() -> Iterator[tuple[list[str], list[ScanPlan | ReducePlan]]]:
    """The kernels that are asked for meanwhile, and the plans: of those that are made, none of known ones."""
    names: list[str] = []
    plans: list[ScanPlan | ReducePlan] = []

    def noted(kernel: str, *rest: Any, **more: Any) -> Any:
        names.append(kernel)
        return function(kernel, *rest, **more)

    def loaded(plan: ScanPlan, *rest: Any, **more: Any) -> Any:
        plans.append(plan)
        return load(plan, *rest, **more)

    def planned(plan: ReducePlan) -> Any:
        found = launches(plan)
        plans.append(plan)  # behind those of the folds in it
        return found

    function, load, launches = compiler.function, scan_launch.load, ReducePlan.launches
    with (
        mock.patch.object(compiler, "function", noted),
        mock.patch.object(scan_launch, "load", loaded),
        mock.patch.object(ReducePlan, "launches", planned),
    ):
        yield names, plans


def ceiling(kind: str, nbytes: int) -> float:
    """Bytes a second of the fastest read or copy of so many bytes: between two sizes that are measured once, seconds
    grow with the bytes."""
    step = math.floor(2 * math.log2(max(nbytes, 256)))
    (few, fast), (many, slow) = ((size, size / _ceiling(kind, size)) for size in (_size(step), _size(step + 1)))
    return nbytes / (fast + (slow - fast) * (nbytes - few) / (many - few))


def _size(step: int) -> int:
    return round(2 ** (step / 2) / 64) * 64


@cache
def _ceiling(kind: str, nbytes: int) -> float:
    return ceilings.rate(kind, nbytes, buffers(nbytes))


def _peer_seconds(peer: Any, arrays: list[list[Any]], longest: int) -> float | None:
    """Seconds a peer takes for the arrays of one call, those of each buffer in turn.

    Of much data a part is timed first: what would take very long is scaled up from it, and what takes long timed once.
    """
    import cupy as cp

    once = 0.0
    if sum(x.nbytes for x in arrays[0]) > PROBED:
        parts = [_part(x, longest) for x in arrays[0]]
        calls = peer(parts)
        if None in calls:
            return None
        each = device_seconds(partial(_all, calls), 3, 0.1)
        once = each * float(arrays[0][0].size / parts[0].size)
        if once > PATIENCE:
            return once
    calls = [peer(each) for each in arrays]
    if any(None in each for each in calls):
        return None
    if once > SLOW:
        begin = time.perf_counter()
        _all(calls[0])
        cp.cuda.get_current_stream().synchronize()
        return time.perf_counter() - begin
    return device_seconds(Rotation([partial(_all, each) for each in calls]), patience=0.3)


def _all(calls: Sequence[Any]) -> list[Any]:
    return [call() for call in calls]


def _part(x: Any, longest: int) -> Any:
    axis = x.shape.index(longest)
    return x[(slice(None),) * axis + (slice(-(-longest // PARTS)),)]


# ---- all of them


def compile_ahead(draw: Draw, with_peers: bool) -> None:
    """Run a draw once, and its check on a small part: the machine code stays in NVRTC's and CuPy's caches on disk."""
    import cupy as cp

    try:
        job = prepare(draw, 1)
        job.calls[0]()
        small = _small(draw)
        x, result = small.view(make_base(small)), operators.get(draw.op).bind(dtype_of(draw.dtype)).result
        if draw.kind == SCANS:
            wanted = scanned(draw.op, x, draw.axes[0], result)
        else:
            wanted = reduced(draw.op, x, draw.axes, result)
        is_near(cp.zeros(wanted.values.shape, result), wanted)
        if with_peers and "CuPy" in job.peers:
            _all([call for call in job.peers["CuPy"]([_part(job.arrays[0][0], max(draw.shape))]) if call])
        cp.cuda.get_current_stream().synchronize()
        del job
    except Exception:  # the measurement meets it too, and tells
        pass
    finally:
        cp.get_default_memory_pool().free_all_blocks()


def _small(draw: Draw) -> Draw:
    """The same with short extents, for the kernels of the check."""
    spread = draw.spread and (draw.spread[0], min(draw.spread[1], 7))
    return replace(draw, base=tuple(min(n, 8) for n in draw.base), spread=spread, groups=min(draw.groups, 7))


@contextmanager
def _compilers(processes: int, ahead: Callable[[Draw], None]) -> Iterator[Callable[[Sequence[Draw], float], None]]:
    """What compiles for draws side by side, each by ``ahead``; it ends where its time does. Without processes it does
    nothing."""
    if not processes:
        yield lambda chosen, until: None
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))

    def together(chosen: Sequence[Draw], until: float) -> None:
        try:
            pending = [pool.submit(ahead, draw) for draw in chosen]
        except BrokenProcessPool:  # a process died: what it had to do is compiled where it is measured
            return
        wait(pending, None if math.isinf(until) else max(0.0, until - time.monotonic()))
        for each in pending:
            each.cancel()
        wait(pending)  # those that run: nothing else may run while a kernel is timed

    try:
        yield together
    finally:
        pool.shutdown(cancel_futures=True)


def run(
    seed: int,
    count: int,
    sizes: Sequence[float] = (),
    kinds: Sequence[str] = BOTH,
    path: Path | None = None,
    seconds: float = math.inf,
    with_peers: bool = True,
    processes: int | None = None,
    only: str = "",
) -> Result:
    """Measure so many draws, or those of them whose label matches ``only``, as far as there is time; prints and writes
    as it goes."""
    import cupy as cp

    until = time.monotonic() + seconds
    name = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["name"].decode()
    versions = {"cupy": cp.__version__, "numpy": np.__version__, "date": time.strftime("%Y-%m-%d")}
    mine = {"peers": peers.versions()} if with_peers else {}
    result: Result = {"random": seed, "gpu": name, **versions, **mine, "kinds": [*kinds], "cases": []}
    chosen = [draw for draw in islice(draws(seed, sizes, kinds), count) if re.search(only, draw.label)]
    processes = compiling(processes)
    print(f"{name}, seed {seed}: {processes} processes compile ahead", flush=True)
    write(result, path)
    ahead, one = partial(compile_ahead, with_peers=with_peers), partial(measure, with_peers=with_peers)
    for case in measured(chosen, ahead, one, processes, until):
        result["cases"].append(case)
        print(describe(case), flush=True)
        write(result, path)
    return result


def compiling(processes: int | None) -> int:
    """How many processes compile ahead where nobody said."""
    return min(12, (os.cpu_count() or 1) - 1) if processes is None else processes


def measured(
    chosen: Sequence[Draw],
    ahead: Callable[[Draw], None],
    measure: Callable[[Draw], Case],
    processes: int,
    until: float,
) -> Iterator[Case]:
    """What is measured of each draw, as far as there is time: some are compiled by so many processes, then timed."""
    block = max(1, BLOCK * processes)
    with _compilers(processes, ahead) as together:
        for start in range(0, len(chosen), block):
            together(chosen[start : start + block], until)
            time.sleep(SCRUB_SECONDS if processes else 0)
            for draw in chosen[start : start + block]:
                if time.monotonic() > until:
                    return
                case = _safely(draw, measure)
                yield case
                if case.get("is_lost"):
                    return


def write(result: Result, path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(result, indent=1))


def _safely(draw: Draw, measure: Callable[[Draw], Case]) -> Case:
    """What was measured, or why it failed; ``is_lost`` where nothing runs on the GPU behind such an error."""
    import cupy as cp

    begin = time.perf_counter()
    try:
        case = measure(draw)
    except Exception as error:
        case = {"case": draw.label, **asdict(draw), "error": f"{type(error).__name__}: {error}"[:2000]}
    try:
        cp.cuda.get_current_stream().synchronize()
        pool = cp.get_default_memory_pool()
        if pool.total_bytes() > cp.cuda.Device().mem_info[1] // 2:
            pool.free_all_blocks()
            time.sleep(SCRUB_SECONDS)
    except Exception:
        case["is_lost"] = True
    return {**case, "wall_s": time.perf_counter() - begin}
