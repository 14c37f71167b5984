"""Scan kernels compile for every generation of GPUs, most of them for sm_90, into registers alone."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("cupy", reason="its binding of NVRTC compiles")

import kernel_facts
from kernel_facts import ARCHITECTURES, MAIN, batched, facts_of
from test_emulated_scans import CALLS, METHODS
from tiers import slow

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import scan_task, sources

TOP = "scan.cuh"
TOGETHER = 6  # kernels whose text is parsed once
# Warps and packs a lane as they are on a GPU, where tests take fewer; large states have fewer warps.
SHAPES = (
    (re.compile(r", \d+, \d+, (?=\w+, \w+, \w+, \w+>$)"), ", 20, 5, "),
    (re.compile(r"^(RowScan<(?:Complex\w+|(?:Var|Std)<(?:f64|[iu]32|[iu]64))\b.*), 20, 5, "), r"\1, 12, 9, "),
    (re.compile(r", \d+, (?=1, 1, false, \w+, \w+, 1>$)"), ", 16, "),
    (re.compile(r", \d+, (?=1, 1, true, \w+, \w+, 1>$)"), ", 14, "),
    (re.compile(r", \d+, (?=1, 1, true, \w+, \w+, 2>$)"), ", 12, "),
    (re.compile(r", \d+, (?=[24], 1, \w+, \w+, \w+, \d>$)"), ", 14, "),
    (re.compile(r"((?:half|bfloat16)>), 14, (?=2, 1, true, \w+, \w+, \d>$)"), r"\1, 12, "),  # two look back for a tile
    (re.compile(r"(Segmented<.*), 14, (?=2, 1, \w+, \w+, \w+, \d>$)"), r"\1, 12, "),
    (re.compile(r", \d+, (?=2, 32, \w+, \w+, \w+, \d>$)"), ", 12, "),
    (re.compile(r", \d+, (?=4, 32, \w+, \w+, \w+, \d>$)"), ", 8, "),
    # of large states
    (re.compile(r"^(StripScan<(?:Complex\w+|(?:Var|Std)<(?:f64|[iu]32|[iu]64))\b.*), 1[246], (?=1, 1, )"), r"\1, 8, "),
    (re.compile(r"(?<=^LaneLineScan)(.*), \d+, (?=\d+, \w+, \w+>$)"), r"\1, 16, "),
    (re.compile(r"(?<=^SmallLineScan)(.*), \d+, (?=\d, \d, \w+>$)"), r"\1, 16, "),
    (re.compile(r"(?<=^SubwarpLineScan)(.*), \d+, (?=\d+, \d+, \w+, \w+>$)"), r"\1, 16, "),
)

IN_WARPS = ("RowScan", "StripScan", "SmallLineScan", "LaneLineScan", "SubwarpLineScan")
CONTIGUOUS = (  # warp groups and warps of each, by those that look back
    (re.compile(r", \d+, \d+, (?=\d, \w+, \w+, \d+, \d+>$)"), ", 2, 6, "),
    (re.compile(r", \d+, \d+, (?=[5-8], \w+, \w+, \d+, \d+>$)"), ", 1, 8, "),
)


# As many rows as sm_90 has registers for: others spill some words.
EIGHTS = re.compile(r"ClusterColumnScan<.*?<[fiu]64\b")


def as_on_a_gpu(kernel: str) -> str:
    found = re.fullmatch(r"(scan_\w+)<((\w+Scan)<.*)>", kernel)  # what is done with tiles, or shares
    return f"{found[1]}<{_as_on_a_gpu(found[2], found[3])}>" if found else kernel


def _as_on_a_gpu(kernel: str, name: str) -> str:
    if name == "AnyAllScan":
        return re.sub(r", \d+, \d+>$", ", 6, 37>", kernel)
    if name == "ClusterColumnScan":
        gangs, rows = ("1, 12", 24 if "Twofold" in kernel else 28) if EIGHTS.search(kernel) else ("2, 8", 34)
        return re.sub(r", \d+, \d+, \d+, (\w+), \d+>$", rf", {gangs}, 2, \1, {rows}>", kernel)
    if name == "ContiguousColumnScan":
        for pattern, shape in CONTIGUOUS:
            kernel = pattern.sub(shape, kernel)
        return kernel
    for pattern, shape in SHAPES[:2] if name == "RowScan" else SHAPES[2:]:
        if name in IN_WARPS:
            kernel = pattern.sub(shape, kernel)
    return kernel


# Some bytes are kept outside of registers by means of 16 bits along lines: more registers leave fewer warps and take
# longer; and on an A100 by the warps that look back for contiguous columns of halves and of large states.
SPILLED = re.compile(r"scan_tiles<(?:RowScan<Mean<Value<(?:half|bfloat16)|ContiguousColumnScan<(?:Sum<\w+<half|Var<))")
MOST_SPILLED = 64


def spills(facts: dict, arch: str) -> dict:
    few = {kernel for kernel in facts if SPILLED.match(kernel) and ("RowScan" in kernel or arch == "sm_80")}
    return {k: fact for k, fact in facts.items() if fact.spilled > (MOST_SPILLED if k in few else 0)}


# Some words: by the warps that look back for `last` of float64, and of products with an exponent.
SPILLS = ("contiguous columns of a warp in order", "products in columns", "products in lines")
TAKEN = [name for name in CALLS if (name not in METHODS or "in order" in name) and name not in SPILLS]
KERNELS = sorted({as_on_a_gpu(kernel) for name in TAKEN for kernel in CALLS[name].kernels()})


# Contiguous columns of the largest states for which lanes share what they poll.
LARGE_STATES = "ContiguousColumnScan<Counted<Arg<f32, false, true>>", "ContiguousColumnScan<Var<f32, true>"


def drawn(arch: str) -> list[str]:
    """A quarter of the kernels of each name for sm_90, drawn anew for each text; for the others one of each."""
    by_name: dict[str, list[str]] = {}
    draw = random.Random(sources.source(TOP))
    for kernel in draw.sample(KERNELS, len(KERNELS)):
        if arch != MAIN and EIGHTS.search(kernel):
            continue
        by_name.setdefault(scan_task.Step(kernel, 1, 1).scan, []).append(kernel)
    if arch == MAIN:
        return sorted(kernel for some in by_name.values() for kernel in some[: -(-len(some) // 4)])
    return [some[-1 - ARCHITECTURES.index(arch) % len(some)] for some in by_name.values()]


@pytest.mark.parametrize(("arch", "step"), [(MAIN, 25), *(slow(arch, 1) for arch in ARCHITECTURES)])
def test_kernels_compile_without_spills(arch, step):
    """By default of every so manieth for sm_90."""
    share = drawn(arch)[::step]
    assert {compiler._top(kernel) for kernel in share} == {TOP}
    with ThreadPoolExecutor(2) as pool:
        for facts in pool.map(lambda some: facts_of(some, arch, "", TOP), batched(share, TOGETHER)):
            assert not spills(facts, arch)


@pytest.mark.slow
def test_large_states_that_lanes_share_stay_in_registers():
    some = [kernel for kernel in KERNELS if any(name in kernel for name in LARGE_STATES)]
    assert len(some) >= len(LARGE_STATES)
    for arch in ARCHITECTURES:
        facts = facts_of(some, arch, "", TOP)
        assert not spills(facts, arch), arch


@pytest.mark.slow
def test_blocks_read_and_write_posts_by_relaxed_accesses_of_whole_words():
    """Others would race, and two halves of a word need not be seen together."""
    in_tiles = ("RowScan<Sum", "RowScan<Var", "StripScan<Sum", "ContiguousColumnScan<Sum", "AnyAllScan")
    some = [next(kernel for kernel in KERNELS if kernel.startswith(f"scan_tiles<{way}")) for way in in_tiles]
    for kernel, (_, code) in kernel_facts._compiled(some, MAIN, "", TOP, 0).items():
        assert "st.global.cg" not in code, kernel
        writes = set(re.findall(r"\bst\.relaxed\S*", code))
        reads = set(re.findall(r"\bld\.relaxed\S*", code)) - {"ld.relaxed.gpu.global.u32"}  # the ticket
        assert reads and reads <= {"ld.relaxed.gpu.global.u64", "ld.relaxed.gpu.global.v2.u64"}, kernel
        assert writes and writes <= {"st.relaxed.gpu.global.u64", "st.relaxed.gpu.global.v2.u64"}, kernel


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_compile_for_racecheck(arch):
    kernel = next(k for k in KERNELS if ("StripScan<AffineMap" if arch == "sm_90" else "RowScan<Any") in k)
    plain, checked = (compiler._compile(kernel, arch, "", more)[2] for more in ((), ("-DGR_CHECKED",)))
    barriers = [int(re.search(r"used (\d+) barriers", log)[1]) for log in (plain, checked)]
    assert barriers[0] > 1 and barriers[1] == 1  # of the hardware's own: numbered ones, and that of the whole block
