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
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ... import chunk
from ...device import compile as compiler
from ...device import reduce as device_reduce
from ...errors import DtypeError
from ...operators import table as operators
from ...operators.grouped import Bins, binned
from ...place import Place, Places
from . import ceilings, peers, scan_peers
from .cases import dtype_of
from .random_report import describe
from .reference import is_near, reduced, scanned
from .scan_cases import widest
from .timing import Rotation, buffers, device_seconds

Case = dict[str, Any]
Result = dict[str, Any]
Cut = tuple[int | None, int | None, int | None]

REDUCTIONS, SCANS, GROUPS, BATCH = KINDS = ("reductions", "scans", "groups", "batch")
CEILING = {REDUCTIONS: "R", SCANS: "C", GROUPS: "R", BATCH: "R"}
SIZES = {REDUCTIONS: (4, 64, 256, 1024), SCANS: (4, 64, 256, 1024), GROUPS: (4, 64, 256), BATCH: (4, 64)}  # MiB
CHUNKS = 24  # of a batch: as many as a task of a tree reduces in one launch

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 complex64 complex128".split()
DTYPES += ["float32", "float64"] * 2
FREQUENT = "sum mean max var".split()  # drawn twice as often as others
REDUCED = [name for name, row in operators.OPERATORS.items() if row.arity == 1 and name != "moments"] + FREQUENT
SCANNED = "sum prod min max any all count_nonzero sumsq mean var std argmin argmax first last".split() + FREQUENT
SCANNED += "nansum nanprod nanmin nanmax nanmean nanvar".split()
STARTED = {"sum": 0, "nansum": 0, "prod": 1, "nanprod": 1, "count_nonzero": 0, "any": 0, "all": 1}
SYMMETRIC = {*SCANNED} - {"argmin", "argmax", "first", "last"}  # mean the same from either end
GAPPED = "nansum nanprod nanmin nanmax nanmean nanvar nanstd first last".split()  # answer where NaN stands
LOGIC, EXTREME = ("any", "all", "count_nonzero"), ("min", "max", "ptp", "norminf", "argmin", "argmax")
LABELS = ("random", "sorted", "in turn")

SLOW = 1.0  # a peer that takes longer is timed once,
PARTS = 32  # and one that would take PATIENCE is known by one part of so many
PATIENCE = 3.0
PROBED = 32 << 20  # bytes from which on a part is timed first
FEW_GROUPS = 16  # at each end of the labels that are checked, and somewhere between
BLOCK = 4  # draws that are compiled ahead of their measurement, for each process that compiles


@dataclass(frozen=True)
class Draw:
    """One case: an array of shape ``base``, of which ``cuts`` take parts, spread along ``spread`` and transposed."""

    kind: str
    op: str
    dtype: str
    mib: float
    base: tuple[int, ...]
    cuts: tuple[Cut, ...]
    order: tuple[int, ...]
    axes: tuple[int, ...]
    spread: tuple[int, int] | None = None  # an axis of one element, and how often it is repeated
    mode: str = ""  # how a scan departs from the plain one
    gaps: bool = False  # some elements are NaN
    rare: bool = False  # the elements that decide are few
    groups: int = 0
    labels: str = ""
    seed: int = 0

    def view(self, base: Any) -> Any:
        """The chunk, of an array of shape ``base``."""
        x = base[tuple(slice(*cut) for cut in self.cuts)]
        if self.spread is not None:
            axis, count = self.spread
            shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
            x = _module_of(x).broadcast_to(x, shape)
        return x.transpose(self.order)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the chunk."""
        found: tuple[int, ...] = self.view(np.broadcast_to(np.int8(0), self.base)).shape
        return found

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.base)) if a not in self.axes)

    @property
    def label(self) -> str:
        parts = [":".join("" if e is None else str(e) for e in (cut if cut[2] else cut[:2])) for cut in self.cuts]
        view = "" if all(cut == (None, None, None) for cut in self.cuts) else f"[{', '.join(parts)}]"
        if self.spread is not None:
            view += f" axis {self.spread[0]} repeated {self.spread[1]} times"
        if self.order != tuple(sorted(self.order)):
            view += f" transposed {self.order}"
        axes = f"axis {self.axes[0]}" if len(self.axes) == 1 else f"axes {self.axes}"
        extra = [self.mode, f"into {self.groups} groups, {self.labels}" if self.groups else ""]
        extra += ["some NaN" if self.gaps else "", f"{CHUNKS} chunks" if self.kind == BATCH else ""]
        return " ".join(filter(None, [self.op, self.dtype, f"{self.base}{view}", axes, *extra]))


# ---- what is drawn


def draws(seed: int, sizes: Sequence[float] = (), kinds: Sequence[str] = (REDUCTIONS, SCANS)) -> Iterator[Draw]:
    """Cases without end, of kinds and sizes in turn."""
    rng, number = np.random.default_rng(seed), 0
    while True:
        kind = kinds[number % len(kinds)]
        given = tuple(sizes) or SIZES[kind]
        found = _draw(rng, kind, given[number // len(kinds) % len(given)])
        if found is not None:
            number += 1
            yield found


def _draw(rng: np.random.Generator, kind: str, mib: float) -> Draw | None:
    """One case; None where the operator does not take the dtype."""
    dtype, op = str(rng.choice(DTYPES)), str(rng.choice(SCANNED if kind == SCANS else REDUCED))
    try:
        width = widest(op, dtype)
    except DtypeError:
        return None
    width = width if kind == SCANS else dtype_of(dtype).itemsize
    ndim = int(rng.integers(1, 6))
    shape = _extents(rng, ndim, max(1, int(mib * 2**20) // width))
    base, spread = list(shape), None
    cuts: list[Cut] = [(None, None, None)] * ndim
    how, axis = str(rng.choice(("", "step", "reversed", "offset", "spread"), p=(0.5, 0.15, 0.15, 0.15, 0.05))), -1
    if how:
        axis = int(rng.integers(ndim))
        count = int(rng.integers(2, 4))
        if how == "step":
            base[axis] = shape[axis] * count
            cuts[axis] = (None, None, count)
        elif how == "reversed":
            cuts[axis] = (None, None, -1)
        elif how == "offset":
            base[axis] += 2
            cuts[axis] = (1, -1, None)
        elif shape[axis] < max(shape):  # the longest repeated would leave little to read
            base[axis], spread = 1, (axis, shape[axis])
    order = tuple(map(int, rng.permutation(ndim))) if rng.random() < 0.4 else tuple(range(ndim))
    many = 1 if kind == SCANS else int(rng.integers(1, ndim + 1))
    axes = tuple(sorted(map(int, rng.choice(ndim, many, replace=False))))
    found = Draw(kind, op, dtype, mib, tuple(base), tuple(cuts), order, axes, spread, seed=int(rng.integers(1 << 31)))
    is_float = dtype.startswith(("float", "bfloat")) or (dtype.startswith("complex") and op[3:] in ("sum", "mean"))
    chance = rng.random(4)
    gaps = is_float and op in GAPPED and bool(chance[0] < 0.5)
    found = replace(found, gaps=gaps, rare=bool(chance[1] < 0.5))
    if kind == SCANS:
        mode = "exclusive" if chance[2] < 0.1 else "reverse" if chance[2] < 0.2 else ""
        return replace(found, mode=mode if op in (STARTED if mode == "exclusive" else SYMMETRIC) else "")
    if kind == GROUPS:
        return replace(found, groups=_group_count(rng, found), labels=str(rng.choice(LABELS)))
    return found


def _extents(rng: np.random.Generator, ndim: int, elements: int) -> tuple[int, ...]:
    """Extents of about so many elements: even, odd, very small and very large ones."""
    while True:
        shape = [max(1, round(elements**share)) for share in rng.dirichlet(np.ones(ndim))]
        shape = [int(rng.integers(1, 40)) if rng.random() < 0.3 else n for n in shape]
        if rng.random() < 0.25:
            shape = [n // 32 * 32 if n > 64 else n for n in shape]
        last = int(rng.integers(ndim))
        rest = elements // max(1, math.prod(n for a, n in enumerate(shape) if a != last))
        shape[last] = rest - (rest > 16 and rng.random() < 0.5)
        if math.prod(shape) >= 0.8 * elements:
            return tuple(map(int, shape))


def _group_count(rng: np.random.Generator, draw: Draw) -> int:
    """A number of groups, whose states take no more than half of the chunk's elements do."""
    cells = math.prod(draw.shape[a] for a in draw.kept)
    most = max(2.0, draw.mib * 2**19 / (32 * cells))
    return max(2, int(min(10 ** rng.uniform(0.3, 6), most)))


# ---- their data


def make_base(draw: Draw) -> Any:
    """The array of a draw, with elements such that a result depends on all of a line, and no product leaves its range
    soon."""
    import cupy as cp

    rng, dtype = cp.random.default_rng(draw.seed), dtype_of(draw.dtype)
    size = math.prod(draw.base)
    lines = math.prod(draw.shape[a] for a in draw.kept)  # a few elements for each, where few decide
    base = draw.op.removeprefix("nan")
    if dtype.kind == "b" or base in LOGIC:
        is_rare = base != "all"
        flat = cp.full(size, not is_rare)
        many = lines if base in ("any", "all") else size // 3
        flat[_places(rng, size, many)] = is_rare
        return flat.astype("f4" if dtype.name == "bfloat16" else dtype).astype(dtype, copy=False).reshape(draw.base)
    if dtype.kind in "iu":
        return _integers(draw, base, dtype, rng, lines).reshape(draw.base)
    part = "f8" if dtype.itemsize == 16 or dtype.name == "float64" else "f4"
    real = rng.random(size * (2 if dtype.kind == "c" else 1), dtype=part)
    real -= real.dtype.type(0.5)
    if base == "prod":
        return _factors(draw, real, rng, size, lines).astype(dtype).reshape(draw.base)
    flat = real.view(f"c{2 * real.itemsize}") if dtype.kind == "c" else real
    if base in EXTREME and draw.rare:
        flat *= flat.dtype.type(0.5)
        low = base in ("min", "argmin")
        flat[_places(rng, size, lines)] = -1 if low else 1
    if draw.gaps:
        flat[_places(rng, size, max(1, size // 50))] = np.nan
    return flat.astype(dtype, copy=False).reshape(draw.base)


def _places(rng: Any, size: int, count: int) -> Any:
    return rng.integers(0, size, max(1, min(count, size // 2)), dtype="i8")


def _integers(draw: Draw, base: str, dtype: Any, rng: Any, lines: int) -> Any:
    size = math.prod(draw.base)
    words = rng.integers(0, 1 << 62, size * dtype.itemsize // 8 + 1, dtype="i8")
    if dtype.itemsize == 8:
        words >>= 22  # so that means and powers stay within what float64 counts
        if dtype.kind == "i":
            words -= 1 << 39
    flat = words.view(dtype)[:size]
    if base == "prod":
        flat |= flat.dtype.type(1)
    if base in EXTREME and draw.rare:
        flat //= flat.dtype.type(2)
        top = min(int(np.iinfo(dtype).max), 1 << 41)
        low = base in ("min", "argmin")
        flat[_places(rng, size, lines)] = (0 if dtype.kind == "u" else -top) if low else top
    return flat


def _factors(draw: Draw, real: Any, rng: Any, size: int, lines: int) -> Any:
    """Numbers about 1 and -1, of complex ones about i and -i too, and few about 2 and a half."""
    import cupy as cp

    length = max(1, math.prod(draw.shape) // max(1, lines))
    real *= real.dtype.type(min(0.5, length**-0.5))
    flat = real[:size] + real.dtype.type(1)
    flat[_places(rng, size, 8 * lines)] *= real.dtype.type(2)
    flat[_places(rng, size, 8 * lines)] *= real.dtype.type(0.5)
    turns = rng.integers(0, 256, size, dtype="u1")
    flat = cp.where(turns & 1, -flat, flat)
    if draw.gaps:
        flat[_places(rng, size, max(1, size // 50))] = np.nan
    if not draw.dtype.startswith("complex"):
        return flat
    found = cp.zeros(size, f"c{2 * flat.itemsize}")
    found.real = cp.where(turns & 2, flat, 0)
    found.imag = cp.where(turns & 2, 0, flat)
    return found


def make_labels(draw: Draw) -> Any:
    """The group of each place along the reduced axes, int32."""
    import cupy as cp

    shape = tuple(draw.shape[a] for a in draw.axes)
    size = math.prod(shape)
    if draw.labels == "in turn":
        return (cp.arange(size) % draw.groups).astype("i4").reshape(shape)
    flat = cp.random.default_rng(draw.seed + 1).integers(0, draw.groups, size, dtype="i4")
    return (cp.sort(flat) if draw.labels == "sorted" else flat).reshape(shape)


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
        {name: _asked(peers.PEERS[name], draw) for name in ("CuPy", "torch")},
        [[x] for x in xs],
    )


def _drop(x: Any, draw: Draw) -> Any:
    """Results without the axes that are reduced."""
    return x.reshape(tuple(x.shape[a] for a in draw.kept))


def _asked(peer: Any, draw: Draw) -> Callable[[Any], list[Callable[[], Any] | None]]:
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

    others = {} if draw.mode else {name: _asked(scan_peers.SCAN_PEERS[name], draw) for name in ("CuPy", "torch")}
    return Job(
        [call(x) for x in xs], is_right, xs[0].nbytes, xs[0].size * bound.result.itemsize, others, [[x] for x in xs]
    )


def _batch(draw: Draw, xs: list[Any], bound: Any) -> Job:
    """Chunks that follow one another along the first reduced axis, folded in one launch as a task of a tree does."""
    first = draw.axes[0]
    extent = xs[0].shape[first]
    whole = tuple(n * CHUNKS if a == first else n for a, n in enumerate(xs[0].shape))
    places = Places(
        [Place(tuple(i * extent if a == first else 0 for a in range(len(whole))), whole) for i in range(CHUNKS)]
    )
    parts = [xs[i : i + CHUNKS] for i in range(0, len(xs), CHUNKS)]

    def call(part: list[Any]) -> Callable[[], Any]:
        batch = chunk.gather([(x,) for x in part], bound)
        return lambda: chunk.reduce_many(batch, bound, draw.axes, places)

    def is_right(ours: Any) -> bool:
        joined = _module_of(xs[0]).concatenate(parts[0], first)
        return is_near(_drop(chunk.finalise(ours, bound), draw), reduced(draw.op, joined, draw.axes, bound.result))

    return Job(
        [call(part) for part in parts],
        is_right,
        CHUNKS * xs[0].nbytes,
        _results(draw, xs[0]) * bound.state.itemsize,
        {name: _asked(peers.PEERS[name], draw) for name in ("CuPy", "torch")},
        parts,
    )


def _groups(draw: Draw, xs: list[Any], bound: Any) -> Job:
    labels = make_labels(draw)
    of_groups = binned(bound, Bins("grouped", (draw.groups,), draw.axes), fill=0)

    def call(x: Any) -> Callable[[], Any]:
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
        [call(x) for x in xs],
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

    def asked(arrays: Any) -> list[Callable[[], Any] | None]:
        if module == "cupy":
            import cupy

            return [partial(lambda x: cupy.bincount(labels.ravel()[: x.size], x.ravel(), count), x) for x in arrays]
        given, mine = [peers.tensor(x) for x in arrays], peers.tensor(labels)
        if mine is None or any(each is None for each in given):
            return [None]
        import torch

        flat = mine.reshape(-1)
        return [partial(lambda x: torch.bincount(flat[: x.numel()], x.reshape(-1), count), x) for x in given]

    return asked


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


def _module_of(x: Any) -> Any:
    if not chunk.is_device(x):
        return np
    import cupy

    return cupy


# ---- one case


def measure(draw: Draw, with_peers: bool = True) -> Case:
    """Check a draw, then time it, its ceiling and its peers."""
    import cupy as cp

    case: Case = {"case": draw.label, **asdict(draw)}
    job = prepare(draw)
    begin = time.perf_counter()
    with _noted() as kernels:
        ours = job.calls[0]()
        cp.cuda.get_current_stream().synchronize()
    case["first_call_s"], case["kernels"] = time.perf_counter() - begin, kernels
    begin = time.perf_counter()
    case["right"] = job.is_right(ours)
    case["check_s"] = time.perf_counter() - begin
    del ours
    case["read"], case["written"] = job.read, job.written
    nbytes = job.read + job.written
    case["ceiling"] = ceiling(CEILING[draw.kind], nbytes)
    case["ours_s"] = device_seconds(Rotation(job.calls))
    case["ours"] = nbytes / case["ours_s"] / case["ceiling"]
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
def _noted() -> Iterator[list[str]]:
    """The kernels that are asked for meanwhile: those of a plan that is made, none of one that is known."""
    names: list[str] = []
    function = compiler.function

    def noted(kernel: str, *rest: Any, **more: Any) -> Any:
        names.append(kernel)
        return function(kernel, *rest, **more)

    setattr(compiler, "function", noted)  # noqa: B010
    try:
        yield names
    finally:
        setattr(compiler, "function", function)  # noqa: B010


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
        asked = peer(parts)
        if None in asked:
            return None
        each = device_seconds(partial(_all, asked), 3, 0.1)
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
        for peer in [job.peers["CuPy"]] if with_peers and "CuPy" in job.peers else []:
            _all([call for call in peer([_part(job.arrays[0][0], max(draw.shape))]) if call])
        small = _small(draw)
        x, result = small.view(make_base(small)), operators.get(draw.op).bind(dtype_of(draw.dtype)).result
        if draw.kind == SCANS:
            wanted = scanned(draw.op, x, draw.axes[0], result)
        else:
            wanted = reduced(draw.op, x, draw.axes, result)
        is_near(cp.zeros(wanted.values.shape, result), wanted)
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
def _compilers(processes: int) -> Iterator[Callable[[Sequence[Draw], bool, float], None]]:
    """What compiles for draws side by side; it ends where its time does. Without processes it does nothing."""
    if not processes:
        yield lambda chosen, with_peers, until: None
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))

    def ahead(chosen: Sequence[Draw], with_peers: bool, until: float) -> None:
        pending = [pool.submit(compile_ahead, draw, with_peers) for draw in chosen]
        wait(pending, max(0.0, until - time.monotonic()))
        for each in pending:
            each.cancel()
        wait(pending)  # those that run: nothing else may run while a kernel is timed

    try:
        yield ahead
    finally:
        pool.shutdown(cancel_futures=True)


def run(
    seed: int,
    count: int,
    sizes: Sequence[float] = (),
    kinds: Sequence[str] = (REDUCTIONS, SCANS),
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
    result: Result = {"random": seed, "gpu": name, **versions, "kinds": [*kinds], "cases": []}
    chosen = [draw for draw in islice(draws(seed, sizes, kinds), count) if re.search(only, draw.label)]
    if processes is None:
        processes = min(12, (os.cpu_count() or 1) - 1)
    block = max(1, BLOCK * processes)
    print(f"{name}, seed {seed}: {processes} processes compile ahead", flush=True)
    _write(result, path)
    with _compilers(processes) as ahead:
        for start in range(0, len(chosen), block):
            ahead(chosen[start : start + block], with_peers, until)
            for draw in chosen[start : start + block]:
                if time.monotonic() > until:
                    return result
                result["cases"].append(_safely(draw, with_peers))
                print(describe(result["cases"][-1]), flush=True)
                _write(result, path)
    return result


def _write(result: Result, path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(result, indent=1))


def _safely(draw: Draw, with_peers: bool) -> Case:
    import cupy as cp

    begin = time.perf_counter()
    try:
        case = measure(draw, with_peers)
    except Exception as error:
        case = {"case": draw.label, **asdict(draw), "error": f"{type(error).__name__}: {error}"[:2000]}
    cp.get_default_memory_pool().free_all_blocks()
    return {**case, "wall_s": time.perf_counter() - begin}
