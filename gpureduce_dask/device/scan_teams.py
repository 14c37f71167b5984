"""How a scan of lines of some hundred elements is cut: a team of a warp's lanes takes a whole line."""

from __future__ import annotations

import math

from .scan_short import table_bytes, warps_of
from .scan_task import Operands, Operator, Plan, Step, flag, words

LANES = 32
SHARES = 3  # of a warp in shared memory (kernels/scan/warp_share.cuh)
# H200, CUDA 13.0, 4 GiB, 2026-11, in tiles and by teams: sums of float32 (n, 200) 0.81 and 0.95, (n, 1000) 0.91 and
# 0.96, [:, 1:-1] of (n, 514) 0.62 and 0.89, of float64 (n, 100) 0.70 and 0.95, of float16 (n, 256) 0.57 and 0.87; but
# odd lines of float32, element by element, (n, 1023) 0.97 and 0.88, and lines of 8 KiB 0.96 and 0.75.
FEWEST = 1 << 12  # lines
TEAMS = (32, 16, 8, 4, 2)  # lanes of one
BUSY = 0.75  # of the lanes' runs that are elements, at least, where one team has that
SHORTEST, LONGEST = 256, 4096  # bytes of a line
LEAST = 64  # bytes of a lane's run, where a team of FEW would not do for packs of fewer than 16
FEW = 8


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int) -> Plan | None:
    """For lines along the last axis; None where they are few, long, or their elements lie apart."""
    length, lines, sizes = arrays.shape[-1], arrays.lines, (*op.itemsizes, op.out_bytes)
    steps = [s[-1] for s in arrays.strides]
    backwards = steps[0] == -sizes[0]
    if arrays.axis != len(arrays.shape) - 1 or lines < FEWEST or not SHORTEST <= length * max(sizes) <= LONGEST:
        return None
    if max(sizes) > 16 or any(n & (n - 1) for n in sizes) or steps[-1] != sizes[-1]:
        return None
    if any(step != (-n if backwards else n) for step, n in zip(steps[:-1], sizes[:-1], strict=True)):
        return None
    phases = [p + n if backwards else p for p, n in zip(arrays.phases[:-1], sizes[:-1], strict=True)]
    pack = _pack(arrays, (*phases, arrays.phases[-1]), sizes, length)
    together = not backwards and sizes[0] == sizes[-1] and _alike(arrays, 0, -1)
    if together and pack == 1 and (sizes[0] == 4 or (sizes[0] == 8 and op.state_bytes == 8)):
        return None  # one line after another, in tiles, by packs
    lanes, run = _team(length // pack, pack, sizes)
    pitches = [_pitch(length * n, lanes * run * n) for n in sizes]
    teams = LANES // lanes
    nbytes = teams * (SHARES * sum(pitches[:-1]) + (0 if together else pitches[-1]))
    table = table_bytes(op, lanes * run)
    warps = warps_of(op, nbytes, limit - table)
    if not warps:
        return None
    tiles = -(-lines // teams)
    flags = ", ".join(flag(x) for x in (exclusive, reverse != backwards, reverse))
    name = f"scan_subwarp_lines<{op.type}, {op.emits}, {warps}, {pack}, {lanes}, {flags}>"
    step = Step(name, min(-(-tiles // warps), processors), LANES * warps, warps * nbytes + table)
    second = pitches[1] if len(pitches) > 2 else 0
    members = words(
        lines=lines,
        length=length,
        tiles=tiles,
        parts=run,
        grains=(pitches[0], second, 0 if together else pitches[-1]),
        option=op.option,
        walk=arrays.kept(),
    )
    return Plan((step,), members, starts=(0,) * len(arrays.strides))


def _team(packs: int, pack: int, sizes: tuple[int, ...]) -> tuple[int, int]:
    """Lanes that share a line of so many packs, and the elements of each."""
    runs = {n: _run(-(-packs // n), pack, min(sizes)) for n in TEAMS}
    few = FEW if pack * max(sizes) < 16 else 0
    enough = [n for n, run in runs.items() if n == few or run * pack * max(sizes) >= LEAST] or [min(TEAMS)]
    busy = {n: packs / (n * runs[n]) for n in enough if n >= few}  # the part of the lanes' runs that are elements
    lanes = next((n for n in busy if busy[n] >= BUSY), max(busy, key=lambda n: (busy[n], n)))
    return lanes, runs[lanes] * pack


def _run(packs: int, pack: int, size: int) -> int:
    """No fewer packs, with which neighbouring lanes are in different banks: an odd number of packs, or of words."""
    nbytes = pack * size
    return packs | 1 if nbytes >= 2 else packs + (4 - packs) % 8


def _pack(arrays: Operands, phases: tuple[int, ...], sizes: tuple[int, ...], length: int) -> int:
    """Elements that can be taken at once: aligned in every array, wherever a line begins, no line ending among them."""
    pack = 16 // max(sizes)
    for n, phase, strides in zip(sizes, phases, arrays.strides, strict=True):
        begins = [s for s, many in zip(strides[:-1], arrays.shape, strict=False) if many > 1]
        aligned = math.gcd(16, phase, length * n, *begins)
        pack = min(pack, max(1, aligned // n))
    return math.gcd(pack, length)


def _alike(arrays: Operands, one: int, other: int) -> bool:
    """True where every line has one alignment in both arrays."""
    pairs = zip(arrays.shape[:-1], arrays.strides[one], arrays.strides[other], strict=False)
    return arrays.phases[one] == arrays.phases[other] and all(n == 1 or (a - b) % 16 == 0 for n, a, b in pairs)


def _pitch(nbytes: int, runs: int) -> int:
    """Bytes from line to line in shared memory: room for any alignment, and teams in different banks."""
    least = -(-(nbytes + 15) // 16) * 16
    return least + (runs // 16 * 16 - least) % 128
