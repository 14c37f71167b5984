"""The shim, proven on small kernels: right under every schedule, and each defect put into them is noticed."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable

import numpy as np
import pytest

from . import SCHEDULES, SHIM, CompileFailure, Guarded, Kernels, SimtError, Unit, build

TEXT = '#line 1 "selftest.cu"\n' + (SHIM / "selftest.cu").read_text()
NAMES = ("tree_blocks", "shuffle_blocks", "ticket_sum", "joint_publish", "look_back", "lanes", "staged_sum")
SEEDS = range(8)
HUNT = range(60)  # some defects need a rare order; the search ends at the first seed that shows them


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build([Unit(TEXT, NAMES)])[0]


class Sums:
    """Buffers of the kernels that add ints, and what they must hold."""

    def __init__(self, size: int = 3000, blocks: int = 6, threads: int = 128) -> None:
        self.blocks, self.threads = blocks, threads
        self.values = Guarded(np.random.default_rng(5).integers(-99, 99, size, dtype=np.int32))
        self.out = np.zeros(blocks, np.int32)
        self.partials = np.full(blocks * threads, 12345, np.int32)
        self.ticket = np.zeros(1, np.uint32)

    def run(self, kernels: Kernels, name: str, schedule: str, seed: int, shared: int = 0) -> np.ndarray:
        buffers = (self.out.ctypes.data, self.partials.ctypes.data, self.ticket.ctypes.data)
        task = struct.pack("<5Q", self.values.address, *buffers, self.values.array.size)
        kernels.launch(name, task, self.blocks, self.threads, max(shared, 4 * self.threads + 8), schedule, seed)
        return self.out

    def by_block(self) -> np.ndarray:
        padded = np.zeros(-(-self.values.array.size // (self.blocks * self.threads)) * self.blocks * self.threads, int)
        padded[: self.values.array.size] = self.values.array
        return padded.reshape(-1, self.blocks, self.threads).sum((0, 2))


def check_blocks(kernels: Kernels, name: str, schedule: str, seed: int) -> None:
    sums = Sums()
    np.testing.assert_array_equal(sums.run(kernels, name, schedule, seed), sums.by_block())


def check_total(kernels: Kernels, name: str, schedule: str, seed: int) -> None:
    sums = Sums()
    for _ in range(2):  # the second launch finds what the first left in the ticket
        sums.out[:] = 0
        sums.partials[:] = 12345
        assert sums.run(kernels, name, schedule, seed)[0] == sums.values.array.sum()


def check_staged(kernels: Kernels, name: str, schedule: str, seed: int) -> None:
    sums = Sums(size=6 * 512 * 5)
    ours = sums.run(kernels, name, schedule, seed, shared=8 * 512)
    np.testing.assert_array_equal(ours, sums.values.array.reshape(5, 6, 512).sum((0, 2)))


def check_scan(kernels: Kernels, name: str, schedule: str, seed: int) -> None:
    blocks, threads = 40, 32
    values = np.random.default_rng(6).integers(0, 99, blocks * threads, dtype=np.int32)
    out, counter = np.zeros(values.size, np.uint64), np.zeros(1, np.uint32)
    room = np.zeros(16 * blocks + 16, np.uint8)
    tiles = room[-room.ctypes.data % 16 :]
    for launch in range(2):
        counter[:] = 0
        task = struct.pack("<5Q", values.ctypes.data, out.ctypes.data, tiles.ctypes.data, counter.ctypes.data, launch)
        kernels.launch(name, task, blocks, threads, 8 * threads + 16, schedule, seed, budget=200_000)
        np.testing.assert_array_equal(out, np.cumsum(values))


def check_lanes(kernels: Kernels, name: str, schedule: str, seed: int) -> None:
    values, doubles, ints = np.random.default_rng(7).random(32), np.zeros(160), np.zeros(64, np.int32)
    task = struct.pack("<3Q", values.ctypes.data, doubles.ctypes.data, ints.ctypes.data)
    kernels.launch(name, task, 1, 32, 40, schedule, seed)
    lane = np.arange(32)
    first = lane // 8 * 8
    np.testing.assert_array_equal(doubles[:32], values[np.where(lane % 8 < 5, lane + 3, lane) % 32])
    np.testing.assert_array_equal(doubles[32:64], values[np.where(lane % 8 >= 3, lane - 3, lane)])
    np.testing.assert_array_equal(doubles[64:96], values[lane ^ 5])
    np.testing.assert_array_equal(doubles[96:128], values[first + (lane + 3) % 8])
    np.testing.assert_array_equal(doubles[128:133], values[4::-1])
    assert set(ints[:32]) == {sum(1 << i for i in range(0, 32, 3))}
    assert set(ints[32:]) == {1}


CHECKS: dict[str, Callable[[Kernels, str, str, int], None]] = {
    "tree_blocks": check_blocks,
    "shuffle_blocks": check_blocks,
    "ticket_sum": check_total,
    "joint_publish": check_total,
    "look_back": check_scan,
    "lanes": check_lanes,
    "staged_sum": check_staged,
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", NAMES)
def test_right_under_every_schedule(kernels: Kernels, name: str, schedule: str) -> None:
    for seed in SEEDS:
        CHECKS[name](kernels, name, schedule, seed)


# kernel that must fail, text, what stands in its place
MUTANTS = {
    "barrier dropped in the tree": ("tree_blocks", "__syncthreads();  // tree", ""),
    "barrier dropped before the warps' sums are read": ("shuffle_blocks", "__syncthreads();  // publish", ""),
    "barrier dropped before shared memory is used again": ("shuffle_blocks", "__syncthreads();  // reuse", ""),
    "barrier reached by half of the block": (
        "tree_blocks",
        "__syncthreads();  // tree",
        "if (threadIdx.x < half) __syncthreads();",
    ),
    "two barriers meet": (
        "shuffle_blocks",
        "__syncthreads();  // publish",
        "if (threadIdx.x < 32) {\n __syncthreads();\n } else __syncthreads();",
    ),
    "shuffle width halved": ("shuffle_blocks", "sum, down, 32)", "sum, down, 16)"),
    "shuffle width no power of two": ("shuffle_blocks", "sum, down, 32)", "sum, down, 31)"),
    "shuffle by half of the warp": (
        "shuffle_blocks",
        "sum += __shfl_down_sync",
        "if (threadIdx.x % 32 < 16) sum += __shfl_down_sync",
    ),
    "shuffle mask without the source": ("shuffle_blocks", "0xffffffffu, sum", "1u << (threadIdx.x % 32), sum"),
    "lane leaves before a shuffle": (
        "shuffle_blocks",
        "int sum = own_sum(task);",
        "if (threadIdx.x == 9) return;\nint sum = own_sum(task);",
    ),
    "fence dropped before the ticket": ("ticket_sum", "__threadfence();  // release", ""),
    "fence dropped after the ticket": ("ticket_sum", "__threadfence();  // acquire", ""),
    "ticket off by one": ("ticket_sum", "== gridDim.x - 1;", "== gridDim.x - 2;"),
    "ticket never full": ("ticket_sum", "== gridDim.x - 1;", "== gridDim.x;"),
    "ticket not reset": ("ticket_sum", "*task.ticket = 0;", ""),
    "barrier dropped before the decision": ("ticket_sum", "__syncthreads();  // decide", ""),
    "barrier dropped before one thread fences for all": ("joint_publish", "__syncthreads();  // all stored", ""),
    "fence by another thread than the one that counts": (
        "joint_publish",
        "__threadfence();  // joint release",
        "} if (threadIdx.x == 1) __threadfence(); if (threadIdx.x == 0) {",
    ),
    "tiles numbered by block": ("look_back", "*number = atomicAdd(task.counter, 1u)", "*number = blockIdx.x"),
    "half of a tile is taken for all of it": ("look_back", "before.mark != mark || ", ""),
    "tile published by a plain store": (
        "look_back",
        "simt::store_relaxed(task.tiles + tile, &mine, 16);",
        "simt::store(task.tiles + tile, &mine, 16);",
    ),
    "warp barrier dropped": ("lanes", "__syncwarp(31u);  // part", ""),
    "warp barrier of others": ("lanes", "__syncwarp(31u);  // part", "__syncwarp(63u);"),
    "tile used before it is copied": ("staged_sum", "simt::wait_copies(1);", "simt::wait_copies(2);"),
    "barrier dropped after copies": ("staged_sum", "__syncthreads();  // tile copied", ""),
    "barrier dropped before a tile is copied over": ("staged_sum", "__syncthreads();  // tile used", ""),
    "group not closed": ("staged_sum", "        simt::commit_copies();\n        simt::wait", "        simt::wait"),
    "one element too many": ("tree_blocks", "i < task.size", "i <= task.size"),
    "shared memory overrun": ("tree_blocks", "each[threadIdx.x] = sum;", "each[threadIdx.x + 3] = sum;"),
}


def mutate(kernel: str, old: str, new: str) -> str:
    """The text with one place changed: in the kernel, or else in what kernels share."""
    begin = TEXT.index(f"void {kernel}(")
    end = TEXT.find("__global__", begin) % (len(TEXT) + 1)
    if old not in TEXT[begin:end]:
        begin, end = 0, len(TEXT)
    assert TEXT.count(old, begin, end) == 1, f"{old!r} does not stand once in the text"
    return TEXT[:begin] + TEXT[begin:end].replace(old, new) + TEXT[end:]


@pytest.fixture(scope="module")
def mutants() -> dict[str, Kernels]:
    """Every mutant's kernel, all compiled at once."""
    units = [Unit(mutate(name, old, new), (name,)) for name, old, new in MUTANTS.values()]
    return dict(zip(MUTANTS, build(units, libraries=2), strict=True))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_defect_is_noticed(mutants: dict[str, Kernels], mutant: str) -> None:
    name = MUTANTS[mutant][0]
    with pytest.raises((SimtError, AssertionError)):
        for seed, schedule in itertools.product(HUNT, SCHEDULES):
            CHECKS[name](mutants[mutant], name, schedule, seed)


@pytest.mark.parametrize(
    ("mutant", "part"),
    [
        ("barrier reached by half of the block", r"selftest.cu:\d+ after 64 threads of the block have left"),
        ("two barriers meet", "__syncthreads at"),
        ("lane leaves before a shuffle", "lane"),
        ("warp barrier of others", "names lanes 00000020"),
        ("tiles numbered by block", "a spin waits for what cannot come"),
        ("one element too many", "Segmentation fault"),
        ("shared memory overrun", "past the end of its"),
        ("shuffle width no power of two", "power of two"),
    ],
)
def test_errors_say_what_happened(mutants: dict[str, Kernels], mutant: str, part: str) -> None:
    name = MUTANTS[mutant][0]
    with pytest.raises(SimtError, match=part):
        CHECKS[name](mutants[mutant], name, "reverse", 0)


def test_launches_go_on_after_an_error(mutants: dict[str, Kernels]) -> None:
    broken = mutants["barrier reached by half of the block"]
    for _ in range(3):
        with pytest.raises(SimtError):
            check_blocks(broken, "tree_blocks", "random", 0)


def test_the_same_seed_gives_the_same_order(mutants: dict[str, Kernels]) -> None:
    racy = mutants["barrier dropped in the tree"]
    first, second = (Sums().run(racy, "tree_blocks", "random", 11).copy() for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_without_the_assembly_switch() -> None:
    portable = build([Unit(TEXT, NAMES)], flags=("-DSIMT_UCONTEXT",))[0]
    for name in ("ticket_sum", "look_back", "lanes", "staged_sum"):
        CHECKS[name](portable, name, "random", 0)


def test_speed(kernels: Kernels) -> None:
    """256 threads in 8 blocks take milliseconds; the bound leaves room for a busy machine."""
    sums = Sums(size=8 * 256 * 4, blocks=8, threads=256)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        sums.run(kernels, "ticket_sum", "random", 0)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.05


def test_refused_text_is_reported() -> None:
    with pytest.raises(CompileFailure, match="no_such_name"):
        build([Unit(TEXT, ("no_such_name",))])


def test_task_of_the_wrong_size(kernels: Kernels) -> None:
    with pytest.raises(SimtError, match="task of 3 bytes; the kernel takes 40"):
        kernels.launch("tree_blocks", b"abc", 1, 32)
