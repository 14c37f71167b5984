"""How a scan of few lines that lie side by side and fill memory is cut: as one line, whose states are those of all."""

from __future__ import annotations

from . import scan_dense
from .scan_dense import LANES, NOTES, SLOTS, Tiles
from .scan_task import LAG, Operands, Operator, Plan, flag

# H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy as a braid, as strands and by columns: sums of float32 down (n, 2)
# 0.94, 0.90 and 0.69, (n, 3) 0.95, 0.81 and 0.66, (n, 4) 0.92, 0.91 and 0.69; but (n, 5), whose runs are short, 0.29
# as a braid and 0.56 by columns, and (n, 3) of float64, whose states are pairs, 0.50 and 0.65.
MOST = 4  # columns
SHORTEST = 256  # rows: lines of fewer are taken by a thread each
STATE_BYTES = 8
# (warps, packs a lane): the first whose runs are whole rows, and that fits; states of more bytes take registers.
SHAPES = ((12, 9), (10, 11), (8, 9), (4, 9), (1, 3), (1, 1))


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where rows lie one after another in both arrays; None where they do not, or columns are many."""
    dense = scan_dense.found(op, arrays)
    if dense is None or reverse or dense.planes or dense.width > MOST or dense.length < SHORTEST:
        return None
    if op.state_bytes > STATE_BYTES:
        return None
    pack = 16 // max(dense.sizes)
    for warps, run in SHAPES:
        share = LANES * run * pack
        nbytes = warps * (share * dense.bytes_each + SLOTS * dense.width * op.state_bytes) + NOTES
        if run * pack % dense.width or nbytes > limit:
            continue
        kernel = f"scan_interleaved_rows<{op.type}, {op.emits}, {warps}, {run}, {dense.width}, {flag(exclusive)}>"
        tiles = Tiles(warps, share // dense.width, warps + LAG, nbytes, posted=op.state_bytes)
        return scan_dense.launch(op, dense, kernel, tiles, False, processors)
    return None
