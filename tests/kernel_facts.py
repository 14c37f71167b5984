"""What the compiler says of many kernels at once: which do not compile, what spills, how widely they load."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cupy_backends.cuda.libs import nvrtc
from plan_machine import STAGED, Chosen, chosen

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.errors import CompileError

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
MAIN = "sm_90"  # of which most machine code is made
LOAD = re.compile(r"\bld\.global(?:\.[a-z]\w*)*?(?:\.v([24]))?\.[busf](\d+)\b|\bcp\.async\.cg\.shared\b.*, (16);")


@dataclass(frozen=True)
class Facts:
    """Of one kernel for one architecture, as the launch layer compiles it."""

    spilled: int  # bytes, stores and loads
    local: bool  # it keeps an array in memory of its own
    registers: int
    blocks: int  # on an SM, asked for because it spilled when left alone; 0 where it did not
    widths: tuple[int, ...]  # bytes that its loads from memory take at once


def _program(names: Iterable[str], options: Sequence[str], text: str, top: str = "reduce.cuh") -> Any:
    """A compiled program of all these kernels: the text is parsed once for them."""
    program = nvrtc.createProgram(compiler._program(text, top), "gpureduce.cu", (), ())
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, ("-w", "-no-cache", *options))
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        nvrtc.destroyProgram(program)
        raise CompileError(log[:2000]) from None
    return program


def check(names: Sequence[str], architecture: str = ARCHITECTURES[0], text: str = "") -> bool:
    """Parses, checks and instantiates kernels and makes nothing of them: two thousandths of a second each."""
    program = _program(names, ("-std=c++17", "-fdevice-syntax-only", f"-arch={architecture}"), text)
    lowered = {nvrtc.getLoweredName(program, name) for name in names}
    nvrtc.destroyProgram(program)
    return len(lowered) == len(names)


def front_end(names: Sequence[str], architecture: str = ARCHITECTURES[0], text: str = "") -> str:
    """Intermediate code of kernels, which :func:`check` leaves out too: a hundredth of a second each.

    Gives a digest of what the compiler's next stage would get: it stays while nothing these kernels use changes.
    """
    program = _program(names, ("-std=c++17", "-dlto", f"-arch={architecture}"), text)
    assert len({nvrtc.getLoweredName(program, name) for name in names}) == len(names)
    digest = hashlib.sha256(nvrtc.getLTOIR(program)).hexdigest()[:12]
    nvrtc.destroyProgram(program)
    return digest


def facts_of(names: Sequence[str], architecture: str, text: str = "", top: str = "reduce.cuh") -> dict[str, Facts]:
    """Machine code for each kernel of a top file, as :mod:`gpureduce_dask.device.compile` makes it one by one.

    What spills is compiled again for fewer blocks on an SM, as many times as the launch layer would.
    """
    found, tries = {}, {}
    for name, (log, body) in _compiled(names, architecture, text, top, 0).items():
        found[name] = _facts(log, body, 0)
        tries[name] = list(compiler.blocks_by_log((b"", "", log)))
    while spilling := {n: blocks for n, blocks in tries.items() if blocks and found[n].spilled}:
        for blocks in {blocks[0] for blocks in spilling.values()}:
            again = [name for name in spilling if spilling[name][0] == blocks]
            for name, (log, body) in _compiled(again, architecture, text, top, blocks).items():
                found[name] = _facts(log, body, blocks)
                tries[name] = tries[name][1:]
    return found


def _compiled(names: Iterable[str], architecture: str, text: str, top: str, blocks: int) -> dict[str, tuple[str, str]]:
    """Each kernel's part of the assembler's log, and its PTX."""
    fewer = (f"-DGR_BLOCKS={blocks}",) if blocks else ()
    names = list(names)
    program = _program(names, (*compiler.OPTIONS, f"-arch={architecture}", *fewer), text, top)
    kernels = {nvrtc.getLoweredName(program, name): name for name in names}
    log, code = nvrtc.getProgramLog(program), nvrtc.getPTX(program).decode()
    nvrtc.destroyProgram(program)
    logs = {entry.partition("'")[0]: entry for entry in log.split("Compiling entry function '")[1:]}
    bodies = {body.split("(")[0].strip(): body for body in code.split(".entry ")[1:]}
    return {name: (logs[lowered], bodies[lowered]) for lowered, name in kernels.items()}


def _facts(log: str, body: str, blocks: int) -> Facts:
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", log)))
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    return Facts(spilled, ".local" in body, registers, blocks, tuple(sorted(widths(body))))


def widths(code: str) -> set[int]:
    return {int(copied or int(count or 1) * int(bits) // 8) for count, bits, copied in LOAD.findall(code)}


def planned_widths(what: Chosen, dtypes: Sequence[Any]) -> set[int]:
    """Bytes at once of each operand that the plan reads in vectors: 16, or less where a thread's columns are few, or
    lines that lie side by side keep to no more."""
    if what.kernel in STAGED:
        return {16}
    vector = int(what.arguments.get("V", 1))
    if vector == 1 or "Refold" in what.arguments["Op"]:
        return set()
    each = {min(16, vector * dtype.itemsize) for dtype in dtypes}
    assert 16 in each or "columns" in what.kernel or what.arguments.get("Lines") in ("EVEN_LINES", "SHORT_LINES")
    return each


def faults(name: str, dtypes: Sequence[Any], facts: Facts) -> list[str]:
    """What is wrong with a kernel's machine code."""
    found = []
    if facts.spilled or facts.local:
        found.append(f"{facts.spilled} bytes spilled{', an array in memory' * facts.local}")
    if missing := planned_widths(chosen(name), dtypes) - set(facts.widths):
        found.append(f"loads of {sorted(missing)} bytes planned, of {list(facts.widths)} found")
    return found


def in_flight(what: Chosen) -> int:
    """How much a thread holds at once: of kernels alike, those that hold most spill first."""
    return math.prod(int(what.arguments.get(n, 1)) for n in ("V", "Batch", "Items"))


def variant(what: Chosen) -> tuple[str, ...]:
    """The way a kernel goes for an operator, whatever the numbers: how it counts lines, and whether loads are wide."""
    ways = [what.arguments.get(name, "") for name in ("Op", "Lines", "Even")]
    return what.kernel, *ways, "one" if what.arguments.get("V") == "1" else "many"


def batched(items: Sequence[Any], most: int) -> Iterator[list[Any]]:
    yield from (list(items[i : i + most]) for i in range(0, len(items), most))
