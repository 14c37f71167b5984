"""How a scan is cut for the textbook's methods, in passes over memory (kernels/scan/methods.cuh)."""

from __future__ import annotations

from ..errors import ArgumentError, message
from .scan_task import Operands, Operator, Plan, Step, flag, words

SINGLE_PASS = "look-back"
METHODS = (SINGLE_PASS, "reduce-then-scan", "two-level")

THREADS, ITEMS = 256, 8  # of a block; elements that a thread takes at once
FEW = 1024  # parts of a chunk with two levels
MOST_BLOCKS = (1 << 31) - 1  # of a launch: of more parts each takes several


def check(method: str) -> str:
    """The method, where there is one of that name."""
    if method not in METHODS:
        raise ArgumentError(message("scan", f"method {method!r}", " or ".join(map(repr, METHODS)), "Leave it out."))
    return method


def plan(op: Operator, arrays: Operands, exclusive: bool, reverse: bool, method: str) -> Plan:
    """The launches of one of ``METHODS`` but the single pass, for lines at any strides.

    With two levels a line has few parts, however long. Else a part is what a block takes at once, and states of parts
    are scanned as lines are, until one part holds those of a line.
    """
    length, lines, fan = arrays.shape[arrays.axis], arrays.lines, THREADS * ITEMS
    counts = [-(-length // fan)]
    if method == "two-level":
        counts = [min(counts[0], max(1, FEW // lines))]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // fan))
    steps = _steps(op, lines, counts, exclusive)
    strides = [s[arrays.axis] for s in arrays.strides]
    starts = tuple((length - 1) * s if reverse else 0 for s in strides)
    if reverse:
        strides = [-s for s in strides]
    members = words(
        lines=lines,
        length=length,
        tiles=counts[0],
        steps=(strides[0], strides[1] if len(strides) > 2 else 0, strides[-1]),
        flags=(strides[2] if len(strides) > 3 else 0, arrays.flags()),
        step_index=-1 if reverse else 1,
        option=op.option,
        walk=arrays.kept(),
    )
    return Plan(steps, members, lines * sum(counts) * op.state_bytes, False, starts, ITEMS)


def _steps(op: Operator, lines: int, counts: list[int], exclusive: bool) -> tuple[Step, ...]:
    shape, shared = f"{THREADS}, {ITEMS}", THREADS // 32 * op.state_bytes
    blocks = [min(lines * count, MOST_BLOCKS) for count in counts]
    top = len(counts) - 1  # the source of which a line has one part

    def scan(source: int, based: bool) -> Step:
        flags = f"{flag(based)}, {flag(exclusive and source == 0)}"
        name = f"scan_method_scan<{op.type}, {op.emits}, {shape}, {source}, {flags}>"
        return Step(name, blocks[source], THREADS, shared)

    up = [
        Step(f"scan_method_fold<{op.type}, {shape}, {source}>", blocks[source], THREADS, shared)
        for source in range(top)
    ]
    down = [scan(source, source < top) for source in range(top, -1, -1)]
    return (*up, *down)
