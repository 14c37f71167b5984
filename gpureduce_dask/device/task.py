"""The bytes of ``Task`` (kernels/core/task.cuh): every member is eight bytes wide."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .layout import MAX_DIMS, MAX_OPERANDS, Dim

BATCH = 120  # chunks a launch: a kernel's parameters end at 4096 bytes
BATCH4 = 64  # of more operands than two
_MASK = (1 << 64) - 1


def flag(value: bool) -> str:
    """As CUDA spells it."""
    return str(value).lower()


def packed(*numbers: int) -> bytes:
    """Eight bytes each; of negative ones their two's complement."""
    return struct.pack(f"{len(numbers)}Q", *(n & _MASK for n in numbers))


def div_words(size: int) -> list[int]:
    """A ``Div``: size, magic, shift. Sizes below 2 are never divided by."""
    if size < 2:
        return [max(size, 1), 0, 0]
    bits = (size - 1).bit_length()
    return [size, -(-(1 << (63 + bits)) // size), bits - 1]


def walk_words(dims: Sequence[Dim]) -> list[int]:
    """A ``Walk``: the number of dimensions, and the divisor and strides of each. No dimensions: one of stride 0."""
    dims = list(dims) or [Dim(1, 0)]
    words = [len(dims)]
    for dim in dims:
        words += [*div_words(dim.size), dim.a, dim.b, dim.c]
    return words + [0] * (6 * (MAX_DIMS - len(dims)))


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a launch does, apart from its pointers; the members are those of ``Task``."""

    rows: int = 1
    runs: int = 1
    length: int = 1
    slots: int = 1
    splits: int = 1
    tiles: int = 1
    chunks: int = 1
    cells: int = 1
    tail: int = 0
    step_a: int = 0
    step_b: int = 0
    step_c: int = 0
    first_cell: int = 0
    low_a: int = 0
    high_a: int = 0
    low_b: int = 0
    high_b: int = 0
    option: tuple[float, float] = (0.0, 0.0)
    width: int = 1
    row: tuple[Dim, ...] = ()
    run: tuple[Dim, ...] = ()
    batch: int = field(default=1)  # Bases the Task has room for
    more: tuple[tuple[int, int, int], ...] = ()  # step, low and high of a third and fourth operand

    def but(self, **members: Any) -> Work:
        """The same but for these. Planners make many: ``dataclasses.replace`` takes ten times as long."""
        work = object.__new__(Work)
        work.__dict__.update(self.__dict__, **members)
        return work

    def words(self) -> bytes:
        """The members after the bases."""
        numbers = [self.rows, self.runs, self.length, self.slots, self.splits, self.tiles, self.chunks, self.cells]
        numbers += [self.tail, self.step_a, self.step_b, self.step_c, self.first_cell]
        numbers += [self.low_a, self.high_a, self.low_b, self.high_b]
        divisors = (self.slots, self.tiles, self.runs, self.width, self.splits)
        rest = [word for n in divisors for word in div_words(n)] + walk_words(self.row) + walk_words(self.run)
        return packed(*numbers) + struct.pack("2d", *self.option) + packed(*rest)

    def more_words(self) -> bytes:
        """The members of a ``Task4`` behind those of a ``Task``, but for its pointers; none of a ``Task``."""
        if not self.more:
            return b""
        pad = [(0, 0, 0)] * (MAX_OPERANDS - 2 - len(self.more))
        numbers = [n for each in zip(*self.more, *pad, strict=True) for n in each]
        for dims in (self.row, self.run):
            for k in range(MAX_OPERANDS - 2):
                strides = [dim.more[k] if k < len(dim.more) else 0 for dim in dims]
                numbers += strides + [0] * (MAX_DIMS - len(strides))
        return packed(*numbers)


_BASE = struct.Struct("QQq")


def base_bytes(bases: Sequence[tuple[int, int, int]] | Any, batch: int) -> bytes:
    """The ``Base`` table: (pointer a, pointer b, index) a chunk, as tuples or as rows of an array of int64, padded to
    the Task's room, or cut to that of a kernel which fills cells and reads no chunk."""
    if isinstance(bases, np.ndarray):
        return bases[:batch].tobytes().ljust(_BASE.size * batch, b"\0")
    if batch == 1:
        return _BASE.pack(*bases[0])
    return b"".join(_BASE.pack(*base) for base in bases).ljust(_BASE.size * batch, b"\0")


def more_bytes(pointers: np.ndarray[Any, np.dtype[np.int64]], batch: int) -> bytes:
    """The pointers of a ``Task4``: rows of a third and fourth operand's first elements, padded to the Task's room."""
    return pointers.tobytes().ljust(16 * batch, b"\0")
