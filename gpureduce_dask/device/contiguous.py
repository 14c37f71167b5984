"""Copies of CuPy arrays in C order (kernels/contiguous.cuh)."""

from __future__ import annotations

import math
from typing import Any

from . import launch
from .layout import MAX_DIMS, Dim, merged
from .plan_cache import Plans
from .plans import Launch
from .task import Work, flag
from .tuning import SECTOR

# H200, 2026-11-27, 64 MiB, by CuPy and by these kernels, us, of 36 that a copy takes: uint8 [::2] 319 and 83, [:, 1:-1]
# of rows of 1000 319 and 135, (n, 153).T 1012 and 87, (n, 5, 7) to (n, 7, 5) 320 and 243; float32 83 and 54, 83 and 44,
# 130 and 65, 84 and 81; float64 49 and 53, 44 and 41, 74 and 49, 44 and 40. 2026-11-30, by lines and in tiles: columns
# in steps, [:, ::2].T of (n, 34) uint8 312 and 135, float16 219 and 79, float32 163 and 59, [:, ::3].T of (n, 36)
# float64 82 and 34; of few elements behind each other [:, :, ::8] of (n, 66, 1017) uint8 29 and 39.
THREADS = 256
LOADS = 2  # of 16 bytes that a thread has in flight; one of narrow units, which take more registers
BLOCKS = 4224  # that go round
TILE = {1: 4096, 2: 4096, 4: 1024, 8: 1024, 16: 256}  # units of a tile, by their bytes
WIDTHS = (8, 16, 32, 64)  # of it, along the axis that is read: the first with room for it, or that makes a square
FULL = 0.3  # of a tile, at least, or it is not worth its barriers
UNITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "uint4"}

_plans: Plans[launch.Ready] = Plans()


def in_c_order(array: Any) -> Any:
    """The array itself, where its elements are in C order already; else a copy."""
    return array if array.flags.c_contiguous else copied(array)


def copied(array: Any) -> Any:
    """The elements in C order, in memory of their own: a CuPy array of the same shape and dtype.

    Runs on the current stream of the array's device, which is current; does not wait.
    """
    target, out = launch.new_array(array.shape, array.dtype, max(1, array.nbytes))
    if not array.size:
        return target
    device, address = launch.current_device(), array.data.ptr
    key = (array.shape, array.strides, array.itemsize, address % 16, device)
    step = _plans.get(key)
    if step is None:
        dims, unit = cut(array.shape, array.strides, array.itemsize, address)
        if len(dims) > MAX_DIMS:
            import cupy

            return cupy.ascontiguousarray(array)
        (step,) = launch.ready([plan(dims, unit)], device)
        _plans[key] = step
    launch.run((step,), [(address, 0, 0)], out, 1, device)
    return target


def cut(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, address: int) -> tuple[tuple[Dim, ...], int]:
    """Dimensions in C order, with bytes from one unit to the next as they lie and in the copy, and bytes of a unit."""
    strides = tuple(s for s, n in zip(strides, shape, strict=True) if n > 1)
    shape = tuple(n for n in shape if n > 1)
    unit = math.gcd(16, itemsize, address, *strides)
    steps = [itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    dims = [Dim(n, s, 0, c) for n, s, c in zip(shape, strides, steps, strict=True)]
    *outer, last = merged([*dims, Dim(itemsize // unit, unit, 0, unit)], True)
    if not outer and last.size == 1:
        return (last,), unit
    if last.size == 1:
        *outer, last = outer
    if last.a == unit:  # a run of bytes: by the largest units that it is made of
        wider = math.gcd(16, address, last.size * unit, *(dim.a for dim in outer))
        last, unit = Dim(last.size * unit // wider, wider, 0, wider), wider
    return (*outer, last), unit


def plan(dims: tuple[Dim, ...], unit: int) -> Launch:
    """In tiles where neighbours in memory, those of one sector, are not to be neighbours in the copy, else line by
    line."""
    last = dims[-1]
    at, nearest = min(enumerate(dims), key=lambda dim: (dim[1].a == 0, abs(dim[1].a), -dim[0]))
    behind = dims[at + 1 :]
    slots = math.prod(dim.size for dim in behind)
    width = next(n for n in WIDTHS if n >= nearest.size or n * n >= TILE[unit])
    height = TILE[unit] // width
    across, down = -(-nearest.size // width), -(-slots // height)
    full = nearest.size * slots / (across * width * down * height)
    blocks = across * down * math.prod(dim.size for dim in dims[:at])
    if abs(nearest.a) <= SECTOR and behind and full >= FULL and blocks < 1 << 31:
        work = Work(
            runs=across * down,
            length=nearest.size,
            slots=slots,
            step_a=nearest.a,
            step_c=nearest.c,
            row=dims[:at],
            run=behind,
        )
        nbytes = height * (8 + width * unit + max(4, unit))
        name = f"contiguous_turned<{UNITS[unit]}, {width}, {height}, {THREADS}>"
        return Launch(name, blocks, work, nbytes, threads=THREADS)
    count = math.prod(dim.size for dim in dims)
    loads = 1 if unit < 4 else LOADS
    blocks = min(BLOCKS, max(1, -(-count * unit // (16 * THREADS * loads))))
    spans = [dim.a * (dim.size - 1) for dim in dims]
    low, high = sum(n for n in spans if n < 0), sum(n for n in spans if n > 0) + unit
    work = Work(runs=count, length=last.size, slots=last.size, row=dims[:-1], step_a=last.a, low_a=low, high_a=high)
    shape = f"{max(1, len(dims) - 1)}, {flag(last.a == unit)}, {THREADS}, {loads}"
    name = f"contiguous_lines<{UNITS[unit]}, {shape}>"
    return Launch(name, blocks, work, threads=THREADS)
