"""How a scan of lines that lie side by side is cut where one row follows another in memory: their tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .layout import Dim
from .scan_task import STAGES, WRITE_DELAY, Operands, Operator, Plan, Step, chain_tile_states, strip_words

LANES, STATE_SLOTS = 32, WRITE_DELAY + 1
FEWEST_STATES = 8  # that a tile publishes, so that those of neighbouring tiles lie apart
SCRATCH = 768  # bytes of SharedScratch but for states (kernels/scan/contiguous_tile.cuh)
PACK = 16  # bytes that are copied together
LAYOUT_WORDS = 2 * 12  # of ``Strips``, used by strips of columns alone


@dataclass(frozen=True)
class ContiguousRows:
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
    """How rows are cut into tiles, and the warps that scan them."""

    row_groups: int
    rows: int  # of a row group
    warps: int  # of a block
    shared_bytes: int
    joined: bool = False  # planes are one chain
    lane_state_bytes: int = 8  # that a lane publishes
    anchored: bool = True
    radix: int = 0  # of the look-back, where tile states are polled in one batch
    published_bytes: int = 0  # of a tile, where they are
    cluster_blocks: int = 1  # tiles that are published as one


def contiguous_rows(op: Operator, arrays: Operands) -> ContiguousRows | None:
    """The arrays, where rows lie one after another in both and packs are aligned at the same elements."""
    kept, sizes = arrays.line_dims(), (*op.itemsizes, op.out_bytes)
    if len(sizes) != 2 or not kept or any(n > PACK or n & (n - 1) for n in sizes):
        return None
    *planes, columns = kept
    (a, b), steps = sizes, [s[arrays.axis] for s in arrays.strides]
    if columns.size < 2 or [columns.a, columns.c, *steps] != [a, b, columns.size * a, columns.size * b]:
        return None
    offsets = [arrays.phases, *((dim.a, dim.c) for dim in planes)]
    if not all(any((n * a - p) % PACK == 0 and (n * b - q) % PACK == 0 for n in range(PACK)) for p, q in offsets):
        return None
    lead = arrays.phases[0] // a if a <= b else arrays.phases[1] // b
    return ContiguousRows(columns.size, arrays.shape[arrays.axis], tuple(planes), (a, b), lead)


def launch(op: Operator, contiguous: ContiguousRows, kernel: str, tiles: Tiles, reverse: bool, processors: int) -> Plan:
    """The plan, of one launch."""
    planes = 1 if tiles.joined else contiguous.count
    positions = contiguous.length * contiguous.width * contiguous.count // planes + (
        contiguous.lead if planes == 1 else PACK - 1
    )
    links = (
        -(-positions // (tiles.cluster_blocks * tiles.row_groups * tiles.rows * contiguous.width))
        * tiles.cluster_blocks
    )
    each = tiles.published_bytes or max(FEWEST_STATES, contiguous.width) * 16 * -(-tiles.lane_state_bytes // 8)
    tile_states = planes * chain_tile_states(links // tiles.cluster_blocks, tiles.anchored, tiles.radix) * each
    shape = (contiguous.length, contiguous.width, 1, contiguous.width, 0, contiguous.count)
    numbers = (*shape, links, tiles.rows, tiles.row_groups, planes * links, contiguous.width, -1 if reverse else 1)
    members = strip_words(numbers, op.option, [0] * LAYOUT_WORDS, contiguous.planes)
    blocks = min(planes * links, processors // tiles.cluster_blocks * tiles.cluster_blocks)
    step = Step(kernel, blocks, LANES * tiles.warps, tiles.shared_bytes)
    return Plan((step,), members, tile_states + 16, True, (0, 0))
