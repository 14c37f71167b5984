"""Chunks that nobody chose: operators, dtypes, extents, views and axes that a seed draws, and the data they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import chunk
from ...errors import DtypeError
from ...operators import table as operators
from .cases import dtype_of
from .scan_cases import widest

Cut = tuple[int | None, int | None, int | None]

REDUCTIONS, SCANS, GROUPS, BATCH = KINDS = ("reductions", "scans", "groups", "batch")
BOTH = (REDUCTIONS, SCANS)  # where no kind is asked for
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
SECTOR = 32  # bytes that memory gives at least
COUNTED = 1 << 18  # elements whose sectors are counted, at most


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
            x = module_of(x).broadcast_to(x, shape)
        return x.transpose(self.order)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the chunk."""
        found: tuple[int, ...] = self.view(np.broadcast_to(np.int8(0), self.base)).shape
        return found

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.base)) if a not in self.axes)

    def touched(self, itemsize: int) -> float:
        """Bytes of the memory sectors that the view's elements lie in, by their own bytes: 1, or more where steps and
        cuts leave out elements between them. Of a large view it counts those of a part that lies together."""
        if self.spread is not None:
            return 1.0
        extents = [range(n)[slice(*cut)] for n, cut in zip(self.base, self.cuts, strict=True)]
        places, step = np.zeros(1, np.int64), itemsize
        for length, taken in zip(reversed(self.base), reversed(extents), strict=True):
            count = min(len(taken), max(1, COUNTED // places.size))
            places = (np.arange(count)[:, None] * (abs(taken.step) * step) + places).reshape(-1)
            step *= length
            if count < len(taken):
                break
        sectors = np.union1d(places // SECTOR, (places + itemsize - 1) // SECTOR).size
        return max(1.0, sectors * SECTOR / (places.size * itemsize))

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


def draws(seed: int, sizes: Sequence[float] = (), kinds: Sequence[str] = BOTH) -> Iterator[Draw]:
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
    """One case; None where the operator does not take the dtype, or there is next to nothing to reduce."""
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
    cut, axis = str(rng.choice(("", "step", "reversed", "offset", "spread"), p=(0.5, 0.15, 0.15, 0.15, 0.05))), -1
    if cut:
        axis = int(rng.integers(ndim))
        count = int(rng.integers(2, 4))
        if cut == "step":
            base[axis] = shape[axis] * count
            cuts[axis] = (None, None, count)
        elif cut == "reversed":
            cuts[axis] = (None, None, -1)
        elif cut == "offset":
            base[axis] += 2
            cuts[axis] = (1, -1, None)
        elif shape[axis] < max(shape):  # the longest repeated would leave little to read
            base[axis], spread = 1, (axis, shape[axis])
    order = tuple(map(int, rng.permutation(ndim))) if rng.random() < 0.4 else tuple(range(ndim))
    many = 1 if kind == SCANS else int(rng.integers(1, ndim + 1))
    axes = tuple(sorted(map(int, rng.choice(ndim, many, replace=False))))
    if kind != SCANS and math.prod(shape[order[a]] for a in axes) == 1:
        return None
    found = Draw(kind, op, dtype, mib, tuple(base), tuple(cuts), order, axes, spread, seed=int(rng.integers(1 << 31)))
    is_float = dtype.startswith(("float", "bfloat")) or (dtype.startswith("complex") and op[3:] in ("sum", "mean"))
    chance = rng.random(4)
    gaps = is_float and op in GAPPED and bool(chance[0] < 0.5)
    found = replace(found, gaps=gaps, rare=bool(chance[1] < 0.5))
    if kind == SCANS:
        mode = "exclusive" if chance[2] < 0.1 else "reverse" if chance[2] < 0.2 else ""
        return replace(found, mode=mode if op in (STARTED if mode == "exclusive" else SYMMETRIC) else "")
    if kind == GROUPS:
        found = replace(found, groups=_group_count(rng, found), labels=str(rng.choice(LABELS)))
        return found if found.groups > 1 else None
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
    """A number of groups, whose states take no more than about half of what the chunk does; 0 where two do."""
    most = draw.mib * 2**19 // (32 * math.prod(draw.shape[a] for a in draw.kept))
    return int(max(2, min(10 ** rng.uniform(0.3, 6), most))) if most >= 2 else 0


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


def module_of(x: Any) -> Any:
    """NumPy or CuPy, whichever an array is of."""
    if not chunk.is_device(x):
        return np
    import cupy

    return cupy
