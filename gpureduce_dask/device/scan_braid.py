"""How a scan of few lines that lie side by side and fill memory is cut: as one line, whose states are those of all."""

from __future__ import annotations

from .scan_task import LAG, SPOTS, STAGES, Operands, Operator, Plan, Step, flag, posted_bytes, posts, words

LANES = 32
# H200, CUDA 13.0, 2 to 4 GiB, 2026-11, sums of float32 as a braid and by columns: down (n, 2) 0.92 and 0.69 of a copy,
# (n, 3) 0.80 and 0.66, (n, 4) 0.76 and 0.69, maxima down (n, 3) 0.90 and 0.79; but (n, 5), whose runs are short, 0.29
# and 0.56, and (n, 3) of float64, whose states are pairs, 0.50 and 0.65.
MOST = 4  # columns
SHORTEST = 256  # rows: lines of fewer are taken by a thread each
STATE_BYTES = 8
TOGETHER = 24  # bytes of states that are looked back for at once (kernels/scan/braid.cuh)
# (warps, packs a lane): the first whose runs are whole rows, and that fits; states of more bytes take registers.
SHAPES = ((12, 9), (8, 9), (4, 9), (1, 3), (1, 1))
OF_MANY = ((10, 11), *SHAPES)


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """The launch, where rows lie one after another in every array; None where they do not, or columns are many."""
    kept, sizes = arrays.kept(), (*op.itemsizes, op.out_bytes)
    if reverse or len(kept) != 1 or len(sizes) != 2 or any(n > 16 or n & (n - 1) for n in sizes):
        return None
    width, steps = kept[0].size, [s[arrays.axis] for s in arrays.strides]
    if [kept[0].a, kept[0].c, *steps] != [*sizes, *(width * n for n in sizes)]:
        return None
    pairs = list(zip(sizes, arrays.phases, strict=True))
    lead = next((n for n in range(16) if all(n * size % 16 == phase for size, phase in pairs)), None)
    if not 2 <= width <= MOST or arrays.shape[arrays.axis] < SHORTEST or op.state_bytes > STATE_BYTES or lead is None:
        return None
    states, pack = width * op.state_bytes, 16 // max(sizes)
    for warps, run in OF_MANY if states > TOGETHER else SHAPES:
        share = LANES * run * pack
        results = 0 if sizes[0] == sizes[1] else share * sizes[1]
        nbytes = warps * (STAGES * share * sizes[0] + results + 2 * (LAG + 1) * states) + 8 * SPOTS + 48
        if run * pack % width or nbytes > limit:
            continue
        tiles = -(-(width * arrays.shape[arrays.axis] + lead) // (warps * share))
        name = f"scan_braid<{op.type}, {op.emits}, {warps}, {run}, {width}, {flag(exclusive)}>"
        step = Step(name, min(tiles, processors), LANES * (warps + LAG), nbytes)
        members = words(lines=width, length=arrays.shape[arrays.axis], tiles=tiles, lead=lead, option=op.option)
        return Plan((step,), members, posts(tiles) * _posted(states, op.state_bytes) + 16, True, (0, 0))
    return None


def _posted(states: int, each: int) -> int:
    """Bytes that a tile posts: states together, or where they are many some and then the others."""
    if states <= TOGETHER:
        return posted_bytes(states)
    some = 16 // each * each
    return states // some * posted_bytes(some) + (posted_bytes(rest) if (rest := states % some) else 0)
