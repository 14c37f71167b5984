"""How a scan of lines that lie side by side is cut where one row follows another in memory: their tiles."""

from __future__ import annotations

from dataclasses import dataclass

from .scan_task import LANES, PACK, Plan, Scan, Step, chain_tile_states, strip_words

FEWEST_STATES = 8  # that a tile publishes, so that those of neighbouring tiles lie apart
SCRATCH = 768  # bytes of SharedScratch but for states (kernels/scan/contiguous_tile.cuh)
LAYOUT_WORDS = 2 * 12  # of ``Strips``, used by strips of columns alone


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


def lead_of(scan: Scan) -> int | None:
    """Elements that lack before the first one, so that packs are aligned. None where rows do not lie one after another
    in both arrays, or packs are not aligned at the same elements."""
    if len(scan.sizes) != 2 or not scan.line_dims or not scan.lies_in_packs:
        return None
    (a, b), width = scan.sizes, scan.columns.size
    steps = tuple(strides[scan.arrays.axis] for strides in scan.arrays.strides)
    if width < 2 or scan.apart(scan.columns) != (a, b) or steps != (width * a, width * b):
        return None
    offsets = [scan.arrays.phases, *map(scan.apart, scan.planes)]
    if not all(any((n * a - p) % PACK == 0 and (n * b - q) % PACK == 0 for n in range(PACK)) for p, q in offsets):
        return None
    return scan.arrays.phases[0] // a if a <= b else scan.arrays.phases[1] // b


def launch(scan: Scan, lead: int, kernel: str, tiles: Tiles) -> Plan:
    """The plan, of one launch."""
    width, count = scan.columns.size, scan.plane_count
    chains = 1 if tiles.joined else count
    positions = scan.length * width * count // chains + (lead if chains == 1 else PACK - 1)
    clusters = -(-positions // (tiles.cluster_blocks * tiles.row_groups * tiles.rows * width))
    links = clusters * tiles.cluster_blocks
    each = tiles.published_bytes or max(FEWEST_STATES, width) * 16 * -(-tiles.lane_state_bytes // 8)
    tile_states = chains * chain_tile_states(clusters, tiles.anchored, tiles.radix) * each
    shape = (scan.length, width, 1, width, 0, count)
    numbers = (*shape, links, tiles.rows, tiles.row_groups, chains * links, width, -1 if scan.reverse else 1)
    members = strip_words(numbers, scan.op.option, [0] * LAYOUT_WORDS, scan.planes)
    blocks = min(chains * links, scan.gpu.processors // tiles.cluster_blocks * tiles.cluster_blocks)
    step = Step(kernel, blocks, LANES * tiles.warps, tiles.shared_bytes)
    return Plan((step,), members, tile_states + 16, True, (0, 0))
