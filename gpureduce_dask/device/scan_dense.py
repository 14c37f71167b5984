"""What scans have in common of lines that lie side by side where one row follows another in memory."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from .layout import Dim
from .scan_task import LAG, STAGES, Operands, Operator, Plan, Step, posts_of
from .task import div_words, walk_words

LANES, SLOTS = 32, LAG + 1
FEWEST_POSTS = 8  # of a tile, so that those of neighbours lie apart
NOTES = 768  # bytes of what the warps of a block tell each other, but for states (kernels/scan/contiguous_tile.cuh)
PACK = 16  # bytes that are copied together
BANDS_WORDS = 2 * 14  # of ``Strips``, which only strips of columns have a use for


@dataclass(frozen=True)
class Dense:
    """Planes of rows, the same in both arrays."""

    width: int  # columns
    length: int  # rows of a plane
    planes: tuple[Dim, ...]
    sizes: tuple[int, int]  # bytes of an element and of a result
    lead: int  # elements that lack before the first one, so that packs are aligned

    @property
    def count(self) -> int:
        """Planes."""
        return math.prod(dim.size for dim in self.planes)

    @property
    def follows(self) -> bool:
        """True where one plane follows another in memory."""
        each = [self.length * self.width * n for n in self.sizes]
        return len(self.planes) <= 1 and all([dim.a, dim.c] == each for dim in self.planes)

    @property
    def bytes_each(self) -> int:
        """Of shared memory, for an element of a tile."""
        return STAGES * self.sizes[0] + (0 if self.sizes[0] == self.sizes[1] else self.sizes[1])


@dataclass(frozen=True)
class Tiles:
    """How they are cut, and who scans them."""

    teams: int
    rows: int  # of a team
    warps: int  # of a block
    shared_bytes: int
    joined: bool = False  # planes are one chain
    posted: int = 8  # bytes of states that one of their lanes does so for
    anchored: bool = True
    stretch: int = 0  # tiles of one, where posts are looked for at once
    posts_bytes: int = 0  # of a tile, where they are
    allies: int = 1  # tiles that are posted as one


def found(op: Operator, arrays: Operands) -> Dense | None:
    """The arrays, where rows lie one after another in both and packs are aligned at the same elements."""
    kept, sizes = arrays.kept(), (*op.itemsizes, op.out_bytes)
    if len(sizes) != 2 or not kept or any(n > PACK or n & (n - 1) for n in sizes):
        return None
    *planes, columns = kept
    (a, b), steps = sizes, [s[arrays.axis] for s in arrays.strides]
    if columns.size < 2 or [columns.a, columns.c, *steps] != [a, b, columns.size * a, columns.size * b]:
        return None
    begins = [arrays.phases, *((dim.a, dim.c) for dim in planes)]
    if not all(any((n * a - p) % PACK == 0 and (n * b - q) % PACK == 0 for n in range(PACK)) for p, q in begins):
        return None
    lead = arrays.phases[0] // a if a <= b else arrays.phases[1] // b
    return Dense(columns.size, arrays.shape[arrays.axis], tuple(planes), (a, b), lead)


def launch(op: Operator, dense: Dense, kernel: str, tiles: Tiles, reverse: bool, processors: int) -> Plan:
    """The plan, of one launch."""
    planes = 1 if tiles.joined else dense.count
    positions = dense.length * dense.width * dense.count // planes + (dense.lead if planes == 1 else PACK - 1)
    links = -(-positions // (tiles.allies * tiles.teams * tiles.rows * dense.width)) * tiles.allies
    each = tiles.posts_bytes or max(FEWEST_POSTS, dense.width) * 16 * -(-tiles.posted // 8)
    posts = planes * posts_of(links // tiles.allies, tiles.anchored, tiles.stretch) * each
    shape = (dense.length, dense.width, 1, dense.width, 0, dense.count)
    divisors = (dense.count, 1, dense.width, dense.length)
    members = (
        struct.pack("11Qq", *shape, links, tiles.rows, tiles.teams, planes * links, dense.width, -1 if reverse else 1)
        + struct.pack("2d", *op.option)
        + struct.pack("12Q", *(word for n in divisors for word in div_words(n)))
        + bytes(8 * BANDS_WORDS)
        + struct.pack("49Q", *(n & ((1 << 64) - 1) for n in walk_words(dense.planes)))
    )
    blocks = min(planes * links, processors // tiles.allies * tiles.allies)
    step = Step(kernel, blocks, LANES * tiles.warps, tiles.shared_bytes)
    return Plan((step,), members, posts + 16, True, (0, 0))
