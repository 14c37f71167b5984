"""Chunks of every layout as plans see them: shapes, strides and addresses, without memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpureduce_dask.device.layout import Dim, Layout, collapse
from gpureduce_dask.device.scan_launch import c_strides


class NotThere:
    """What plans of scans ask of an array, without its memory."""

    def __init__(self, view: np.ndarray, base: int) -> None:
        self.view, self.base = view, base
        self.shape, self.strides, self.ndim, self.itemsize = view.shape, view.strides, view.ndim, view.itemsize
        self.data = SimpleNamespace(ptr=view.__array_interface__["data"][0] - base)

    @classmethod
    def of(cls, shape: Sequence[int], dtype: Any, view: Callable[[np.ndarray], np.ndarray]) -> NotThere:
        """A view of an array in C order."""
        one = np.empty(1, dtype)
        whole = np.lib.stride_tricks.as_strided(one, shape, c_strides(tuple(shape), one.itemsize))
        return cls(view(whole), one.ctypes.data)

    def __getitem__(self, turn: tuple[slice, ...]) -> NotThere:
        return NotThere(self.view[turn], self.base)


Element = tuple[int, int, int, int]  # chunk, bytes from each operand's first element, index


@dataclass(frozen=True)
class Chunk:
    """One or two operands of one shape, and what is reduced: what :func:`collapse` and ``Plan`` are told."""

    shape: tuple[int, ...]
    itemsizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]
    indexed: bool = False
    commutative: bool = True
    starts: tuple[int, ...] = (0, 0)  # addresses of the first elements, modulo 16
    wider: int = 1  # how many times as long the whole array is along the last reduced axis

    @property
    def index_steps(self) -> tuple[int, ...]:
        """In C order in the whole array."""
        sizes = [self.shape[a] for a in self.axes[:-1]] + [self.wider * self.shape[a] for a in self.axes[-1:]]
        return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))

    def layout(self, order: Sequence[int] = ()) -> Layout:
        steps = self.index_steps if self.indexed else (0,) * len(self.axes)
        arguments = self.shape, self.strides, self.itemsizes, self.axes, steps, self.commutative, self.indexed
        return collapse(*arguments, order)

    def cells(self, chunks: int = 1) -> list[list[Element]]:
        """The elements of each cell, in C order; chunks stand one behind another."""
        if 0 in self.shape:
            return []
        kept = [x for x in range(len(self.shape)) if x not in self.axes]
        within = self._offsets(sorted(self.axes))
        return [
            [(chunk, a + p, b + q, index) for chunk in range(chunks) for p, q, index in within]
            for a, b, _ in self._offsets(kept)
        ]

    def _offsets(self, axes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Bytes of each operand and the index, from the first place along these axes to every one, in C order."""
        found = [(0, 0, 0)]
        indexed = dict(zip(self.axes, self.index_steps, strict=True)) if self.indexed else {}
        for x in axes:
            a, b = (steps[x] for steps in (*self.strides, (0,) * len(self.shape))[:2])
            c = indexed.get(x, 0)
            found = [(p + i * a, q + i * b, index + i * c) for p, q, index in found for i in range(self.shape[x])]
        return found

    def same(self, ours: Sequence[Element], wanted: Sequence[Element]) -> bool:
        return list(ours) == list(wanted) if not self.commutative else sorted(ours) == sorted(wanted)


def laid(
    shape: Sequence[int], itemsize: int, order: Sequence[int], steps: Sequence[int], pads: Sequence[int]
) -> tuple[int, ...]:
    """Byte strides: axes from the fastest in ``order``, each ``steps`` elements apart and with ``pads`` to its end."""
    found, size = [0] * len(shape), itemsize
    for axis in order:
        found[axis] = size * steps[axis]
        size = max(size, abs(found[axis]) * shape[axis]) + pads[axis] * itemsize
    return tuple(found)


def contiguous(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    return laid(shape, itemsize, range(len(shape))[::-1], [1] * len(shape), [0] * len(shape))


SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 100, 257, 400, 1000, 2000]


@st.composite
def chunks(draw: st.DrawFn, most: int = 300) -> Chunk:
    """Any shape, any order of axes in memory, gaps, repeats and backwards, or none of it; up to two operands."""
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        shape.append(draw(st.sampled_from([n for n in SIZES if n <= most // math.prod(shape)])))
    ndim = len(shape)
    itemsizes = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=2))
    strides = []
    for size in itemsizes:
        order, steps, pads = list(range(ndim))[::-1], [1] * ndim, [0] * ndim
        if ndim and draw(st.booleans()):
            order = draw(st.permutations(order))
            steps[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([1, -1, 2, -3, 0]))
            pads[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 3, 8]))
        strides.append(laid(shape, size, order, steps, pads))
    axes = draw(st.sets(st.integers(0, ndim - 1), min_size=1)) if ndim else set()
    start = draw(st.sampled_from([0, 0, 8, 1]))
    return Chunk(
        shape=tuple(shape),
        itemsizes=tuple(itemsizes),
        strides=tuple(strides),
        axes=tuple(sorted(axes)) if draw(st.integers(0, 9)) else (),
        indexed=draw(st.booleans()),
        wider=draw(st.sampled_from([1, 3])),
        commutative=draw(st.integers(0, 3)) > 0,
        starts=tuple(start * size % 16 for size in itemsizes),
    )


def walked(dims: Sequence[Dim]) -> list[tuple[int, int, int]]:
    """The offsets of a walk, in its order."""
    return [
        tuple(sum(i * getattr(d, s) for i, d in zip(place, dims, strict=True)) for s in "abc")
        for place in itertools.product(*(range(d.size) for d in dims))
    ]


@st.composite
def plain_chunks(draw: st.DrawFn, sizes: Sequence[int] = (1, 2, 4, 8, 16)) -> Chunk:
    """Contiguous ones of one operand: short rows, and few columns."""
    width = draw(st.one_of(st.integers(2, 40), st.sampled_from([64, 257, 1001])))
    shape = (*draw(st.sampled_from([(), (), (2,), (3,)])), draw(st.integers(2, max(17, 3000 // width))), width)
    size, axis = draw(st.sampled_from(sizes)), len(shape) - draw(st.integers(1, 2))
    return Chunk(shape, (size,), (contiguous(shape, size),), (axis,), indexed=draw(st.booleans()))


def plain(shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int = 4, **options: Any) -> Chunk:
    return Chunk(shape, (itemsize,), (contiguous(shape, itemsize),), axes, **options)


def inside(shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int = 4) -> Chunk:
    """A view whose last axis starts one element late and ends one early."""
    pads = [0] * (len(shape) - 1) + [2]
    strides = laid(shape, itemsize, range(len(shape))[::-1], [1] * len(shape), pads)
    return Chunk(shape, (itemsize,), (strides,), axes, starts=(itemsize,))


def in_planes(shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int = 4) -> Chunk:
    """A view that lacks the last element of the last axis, and the last one of the axis before it."""
    pads = [0] * (len(shape) - 2) + [1, 1]
    strides = laid(shape, itemsize, range(len(shape))[::-1], [1] * len(shape), pads)
    return Chunk(shape, (itemsize,), (strides,), axes)


def turned(shape: tuple[int, ...], axes: tuple[int, ...], order: Sequence[int], steps: Sequence[int]) -> Chunk:
    """Axes in memory from the fastest in ``order``; a step below 0 is backwards."""
    return Chunk(shape, (4,), (laid(shape, 4, order, steps, [0] * len(shape)),), axes, indexed=True)


def paired(shape: tuple[int, ...], axes: tuple[int, ...], pads: tuple[int, int], starts: tuple[int, int]) -> Chunk:
    """Two operands of eight and four bytes, with more or fewer elements to the end of a row."""
    order, steps = range(len(shape))[::-1], [1] * len(shape)
    strides = [
        laid(shape, n, order, steps, [0] * (len(shape) - 1) + [pad]) for n, pad in zip((8, 4), pads, strict=True)
    ]
    return Chunk(shape, (8, 4), tuple(strides), axes, starts=starts)


def gapped(shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int = 4) -> Chunk:
    """Every other element of the last axis."""
    steps = [1] * (len(shape) - 1) + [2]
    return Chunk(shape, (itemsize,), (laid(shape, itemsize, range(len(shape))[::-1], steps, [0] * len(shape)),), axes)
