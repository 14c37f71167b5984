"""How any and all along one line are cut: a share is one position there, and its elements need not wait in shared
memory until what comes before them is known."""

from __future__ import annotations

from .scan_task import LAG, SPOTS, Operands, Operator, Plan, Step, dense, posted_bytes, posts, words

# (warps, packs a lane), the first that fits. H200, CUDA 13.0, 4 GiB, 2026-11, any of float32 with 4 and 56, 6 and 37, 8
# and 28, 16 and 14, 24 and 9: 1.06, 1.08, 1.06, 1.05 and 1.04 of a copy (1.11 is what such a copy has); as other
# scans 0.85.
SHAPES = ((6, 37), (8, 16), (8, 8), (4, 4), (2, 3), (2, 1))
THERE = 2  # tiles in shared memory (kernels/scan/any_all.cuh)
PACK = 16


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """For one dense line, taken from its begin; None for several, or where no alignment suits both arrays."""
    if not op.type.startswith(("Any<", "All<")) or arrays.lines > 1 or exclusive or reverse or len(op.itemsizes) > 1:
        return None
    if arrays.axis != len(arrays.shape) - 1 or not all(dense(op, arrays, i) for i in range(2)):
        return None
    (size,), (phase, phase_out) = op.itemsizes, arrays.phases
    lead = phase_out
    if size > PACK or size & (size - 1) or op.out_bytes != 1 or lead * size % PACK != phase:
        return None
    for warps, run in SHAPES:
        nbytes = THERE * 32 * warps * run * PACK + 8 * (LAG + 1) * warps + 8 * SPOTS + 16
        if nbytes <= limit:
            break
    else:
        return None
    length = arrays.shape[-1]
    tiles = -(-(length + lead) // (32 * warps * run * PACK // size))
    step = Step(f"scan_any_all<{op.type}, {warps}, {run}>", min(tiles, processors), 32 * (warps + LAG), nbytes)
    members = words(lines=1, length=length, tiles=tiles, lead=lead, option=op.option)
    return Plan((step,), members, posts(tiles) * posted_bytes(op.state_bytes) + 16, True, (0, 0))
