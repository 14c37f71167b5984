"""What launches mean, without threads: states are the elements that they were made of, so a plan can be checked."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pytest
from plan_chunks import Chunk, Element, walked

from gpureduce_dask.device import launch, sources, tuning
from gpureduce_dask.device.plans import FLAT, PARTIALS, Launch, Operator, Planner, Steps
from gpureduce_dask.device.specialise import Plan
from gpureduce_dask.device.task import Work

STAGED = ("reduce_staged_rows", "reduce_subwarp_rows", "reduce_subwarp_runs", "reduce_plane_columns")
State = tuple[Element, ...]  # of a monoid that remembers its elements in order


def joined(states: Sequence[State]) -> State:
    return tuple(itertools.chain.from_iterable(states))


@cache
def parameters() -> dict[str, list[str]]:
    """The names of each kernel's template parameters."""
    found = re.findall(r"template <([^>]*)>\s*__global__[^(]*\([^)]*\) (\w+)\(", sources.source())
    return {kernel: re.findall(r"(?:class|int|bool) (\w+)", names) for names, kernel in found}


@dataclass(frozen=True)
class Chosen:
    """A kernel, and the template arguments the plan gave it."""

    kernel: str
    arguments: dict[str, str]

    def __getitem__(self, name: str) -> int:
        return int(self.arguments[name])


def chosen(name: str) -> Chosen:
    kernel, _, rest = name.partition("<")
    given_, depth, start = [], 0, 0
    for i, letter in enumerate(rest):
        depth += (letter == "<") - (letter == ">")
        if depth < 0 or (depth == 0 and letter == ","):
            given_.append(rest[start:i].strip())
            start = i + 1
    return Chosen(kernel, dict(zip(parameters()[kernel], given_, strict=True)))


def _beyond(work: Work) -> tuple[int, int, int]:
    """The run behind the last: that of the lines which fill no long line."""
    (run,) = work.run
    return run.a * work.runs, run.b * work.runs, run.c * work.runs


class Machine:
    """Runs launches by what their tasks mean, not by what threads do: states are the elements they were made of."""

    def __init__(self, chunk: Chunk, op: Operator, count: int) -> None:
        self.chunk, self.op, self.count = chunk, op, count
        self.offsets = chunk.layout().offset_a, chunk.layout().offset_b
        self.out: dict[int, State] = {}
        self.flat: dict[int, State] = {}
        self.read = self.flat
        self.partials: dict[int, State] = {}

    def run(self, launches: Sequence[Launch]) -> dict[int, State]:
        for step in launches:
            work, what = step.work, chosen(step.kernel)
            check_launch(step, what, self.op)
            self.read = self.flat
            if step.reads == step.writes == FLAT:
                self.flat = {}  # what is read is not written over
            target = self.flat if step.writes == FLAT else self.out
            if what.kernel == "fill_cells":
                target.update(dict.fromkeys(range(work.rows), ()))
                continue
            published: dict[int, State] = {}
            for row, cell, states in self._groups(step, what):
                share = -(-len(states) // work.splits)
                parts = [joined(states[s * share : (s + 1) * share]) for s in range(work.splits)]
                finish = what.arguments.get("Finish", "TICKET")
                if work.splits == 1 or finish in ("TICKET", "POLLED"):
                    assert cell not in target
                    target[cell] = joined(parts)
                elif finish == "ATOMIC":
                    target[cell] += joined(parts)
                for split, part in enumerate(parts) if finish == "TWO_PASS" and work.splits > 1 else ():
                    by_cell = "columns" not in what.kernel
                    published[row * work.splits + split if by_cell else split * work.cells + cell] = part
            self.partials = published or self.partials
            assert len(published) in (0, step.partial_states)
        return self.out

    def _groups(self, step: Launch, what: Chosen) -> Iterator[tuple[int, int, list[State]]]:
        """The row, the cell and the states of every cell that a launch folds."""
        work = step.work
        runs = walked(work.run)
        assert len(runs) == work.runs and (self.count if step.reads == "chunk" else 1) == work.chunks
        taken = list(itertools.product(range(work.chunks), runs))
        flat = what.kernel == "reduce_flat_columns"
        for row, at in enumerate(walked(work.row)):
            if not flat and "columns" not in what.kernel:
                yield (
                    row,
                    work.first_cell + at[2],
                    [
                        self._read(step, chunk, at, run, k, run[2] + k * work.step_c)
                        for chunk, run in taken
                        for k in range(work.length)
                    ],
                )
                continue
            columns: dict[int, list[State]] = {}
            for k in range(work.length):
                q, within = k, 0
                if flat:
                    line, past = divmod(k, work.tiles)
                    q, rest = divmod(past * self.op.itemsizes[0], work.step_a)
                    if rest or q >= work.width:
                        continue
                    within = line * work.step_b
                beyond = _beyond(work) if k < work.tail else None
                read = [self._read(step, chunk, at, run, k, run[2] + within, flat) for chunk, run in taken]
                read += [
                    self._read(step, chunk, at, beyond, k, beyond[2] + within, flat)
                    for chunk in range(work.chunks if beyond else 0)
                ]
                columns.setdefault(work.first_cell + at[2] + q * work.step_c, []).extend(read)
            for cell, states in columns.items():
                yield row, cell, states

    def _read(
        self, step: Launch, chunk: int, at: Sequence[int], run: Sequence[int], k: int, index: int, flat: bool = False
    ) -> State:
        work = step.work
        a = at[0] + run[0] + k * (self.op.itemsizes[0] if flat else work.step_a)
        if step.reads == "chunk":
            b = at[1] + run[1] + k * (work.step_b if len(self.chunk.itemsizes) > 1 else 0)
            return ((chunk, self.offsets[0] + a, self.offsets[1] + b, index * self.chunk.indexed),)
        number, rest = divmod(a, self.op.state_bytes)
        assert rest == 0
        state = (self.partials if step.reads == PARTIALS else self.read)[number]
        return tuple((*rest, place + index * self.chunk.indexed) for *rest, place in state)


def check_launch(step: Launch, what: Chosen, op: Operator) -> None:
    """The grid, shared memory and scratch are what the kernel's comment asks for."""
    work, threads = step.work, step.threads
    assert what["Threads"] == threads and what["Chunks"] == work.batch >= work.chunks
    assert 1 <= step.blocks < 2**31 and step.shared_bytes <= 64 * 1024
    assert 24 + len(work.words()) + 24 * work.batch <= launch.MOST_BYTES
    assert 0 <= step.tickets <= tuning.TICKETS
    if what.kernel in ("fill_cells", "finalise_cells"):
        return
    groups, states, shared = work.rows, 1, threads // 32
    if what.kernel == "reduce_columns":
        groups, states = -(-work.rows * work.slots // what["Wide"]), what["Wide"] * what["V"]
        gap = 1 if what["V"] > 1 and what["V"] * op.state_bytes <= tuning.APART_BYTES else 0
        shared = threads * (what["V"] + gap)
        assert step.blocks == groups * work.splits
        assert work.tail == 0 or (what["V"] > 1 and what.arguments["Even"] == "true" and work.tail < work.length)
    elif what.kernel == "reduce_flat_columns":
        states, shared = work.width, threads * what["V"]
        assert step.blocks == groups * work.splits
        spanned = (work.width - 1) * work.step_a // op.itemsizes[0] + 1
        lines = -(-work.length // work.tiles)
        assert work.slots <= threads and work.tail < work.length and spanned <= work.tiles
        assert all(n % work.tiles == spanned % work.tiles for n in (work.length, work.tail or work.length))
        assert work.width * lines <= threads * what["V"]
        assert all(run.a == lines * work.tiles * op.itemsizes[0] for run in work.run)
    elif what.kernel == "reduce_staged_columns":
        slot = what["V"] * op.itemsizes[0]
        wide = threads - 16 // slot
        groups, states = work.rows * work.slots // wide, wide * what["V"]
        gap = 1 if what["V"] * op.state_bytes <= tuning.APART_BYTES else 0
        shared = threads * (what["V"] + gap)
        assert step.blocks == groups * work.splits and work.slots % wide == 0
        assert slot in (4, 8) and work.slots * what["V"] - work.length < states
        assert step.shared_bytes >= max(2 * what["Items"] * (threads * slot + 16), 8 * shared)
    elif what.kernel in ("reduce_rows", "reduce_ordered"):
        assert step.blocks <= work.rows * work.splits
    else:
        assert work.splits == 1
        shared = 0
    if what.kernel in STAGED:  # up to 127 bytes of other rows before the tile, and 15 behind it
        tile = work.slots * work.step_b
        assert (tile >= 128 or work.tiles == 1) and step.shared_bytes >= tile + 142
        if what.kernel == "reduce_subwarp_runs":  # two tiles, a row a sub-warp
            assert work.tail >= tile + 142 and work.tail % 16 == 0 and step.shared_bytes >= 2 * work.tail
            assert work.slots <= step.threads // int(what.arguments["Lanes"])
        assert work.tiles == -(-work.width // work.slots) and work.rows % work.width == 0
        assert step.blocks == work.rows // work.width * work.tiles
    assert step.shared_bytes >= shared * op.state_bytes
    if work.splits > 1:
        finish = what.arguments["Finish"]
        posts = groups * states * work.splits
        pairs = math.ceil(math.ceil(op.state_bytes / 4) / 2)  # of a state's words, as kernels/core/published.cuh has it
        words = 4 * posts * pairs
        assert step.tickets == {"TICKET": groups, "POLLED": words}.get(finish, 0)
        assert finish != "POLLED" or (groups <= tuning.POLLED_GROUPS and step.blocks == groups * work.splits)
        cells = work.rows if states == 1 else work.cells
        wanted = {"TICKET": groups * states, "TWO_PASS": cells}.get(finish, 0) * work.splits
        assert step.partial_states == wanted


def check_reads(step: Launch, chunk: Chunk, bases: Sequence[Sequence[int]]) -> None:
    """Every vector load is aligned, and slots and tiles cover every line whatever its alignment."""
    work, what = step.work, chosen(step.kernel)
    if step.reads != "chunk" or what.kernel == "fill_cells":
        return
    vector = 16 // chunk.itemsizes[0] if what.kernel in STAGED else int(what.arguments.get("V", 1))
    steps = (work.step_a, work.step_b)
    flat = what.kernel == "reduce_flat_columns"
    if vector > 1 and not flat:
        one = what.kernel in STAGED  # operand: the other's step says something else
        assert all(n == size for n, size in zip(steps, chunk.itemsizes[: 1 if one else 2], strict=False))
    if what.kernel in STAGED:
        rows = [a for a, _, _ in walked(work.row)]
        assert all(a == rows[i - i % work.width] + i % work.width * work.step_b for i, a in enumerate(rows))
    layout = chunk.layout()
    # slots begin with lines
    unaligned = what.arguments.get("Partial") == "true" or what.kernel in (
        "reduce_staged_columns",
        "reduce_plane_columns",
    )
    assert not unaligned or vector * chunk.itemsizes[0] in (4, 8, 16)
    for base, at in itertools.product(bases, walked(work.row)):
        phases = set()
        for run in walked(work.run):
            for i, size in enumerate(chunk.itemsizes):
                start = base[i] + (layout.offset_a, layout.offset_b)[i] + at[i] + run[i]
                assert start % (size & -size) == 0  # a state of 24 bytes lies at a multiple of 8
                phase = 0 if unaligned else start // size % vector
                phases.add(phase)
                assert vector == 1 or unaligned or (start - phase * size) % min(16, vector * size) == 0
                if i == 0:
                    check_line(work, what, vector, phase)
            if "columns" not in what.kernel:
                assert len(phases) == 1
                phases.clear()
        assert len(phases) <= 1  # the columns kernels take the first run's for all


def check_line(work: Work, what: Chosen, vector: int, phase: int) -> None:
    """The line whose first element lies ``phase`` elements behind a vector's start."""
    if what.kernel == "reduce_ordered":
        assert work.slots * vector >= phase + work.length
        return
    if what.kernel in STAGED:
        assert what.kernel == "reduce_subwarp_runs" or work.chunks == 1
        assert what.kernel in ("reduce_subwarp_runs", "reduce_plane_columns") or work.runs == 1
        return
    assert phase + work.length <= work.slots * vector
    if what.kernel in ("reduce_rows", "reduce_short_rows"):
        if what.arguments["Lines"] == "ONE_LINE":
            assert work.runs * work.chunks == 1
        lanes = int(what.arguments.get("Lanes", 32))
        whole = (phase + work.length) // vector - (phase > 0)
        if what.arguments["Lines"] in ("SHORT_LINES", "EVEN_LINES"):
            assert phase == 0 and work.length == work.slots * vector
            assert work.slots <= int(what.arguments.get("Lanes", tuning.THREADS))
        elif what.arguments["Lines"] != "SHORT_LINE" and not (what["Items"] == 1 and "Batch" in what.arguments):
            assert whole <= work.tiles * lanes * what["Items"]
        elif what.arguments["Lines"] == "ONE_LINE":
            assert work.slots <= lanes  # a slot a lane


def plan_of(chunk: Chunk, op: Operator, count: int, finish: str) -> tuple[Plan, list[tuple[int, ...]]]:
    """The plan for ``count`` chunks alike, and where those lie."""
    layout = chunk.layout()
    bases = [tuple((i + 1) * 2**30 + start for start in chunk.starts) for i in range(count)]
    offsets = (layout.offset_a, layout.offset_b)
    phases = tuple((base + offset) % 16 for base, offset in zip(bases[0], offsets, strict=False))
    return Plan(op, layout, phases[: len(chunk.itemsizes)], count, finish), bases


def planned(chunk: Chunk, op: Operator, count: int, finish: str) -> list[Launch]:
    """The launches for ``count`` chunks alike."""
    return plan_of(chunk, op, count, finish)[0].launches()


def check_plan(
    chunk: Chunk, state_bytes: int, count: int, finish: str, refold: bool = False
) -> dict[str, list[Launch]]:
    """Every cell is finished once, from its elements alone, each once, whatever way is taken. The launches of each."""
    core = "Arg<Op>" if chunk.indexed else "Op"
    op = Operator(f"Refold<{core}>" if refold else core, chunk.itemsizes, state_bytes, chunk.commutative)
    plan, bases = plan_of(chunk, op, count, finish)
    wanted = chunk.cells(count)
    ways = {name: launches for name, _, launches in plan.every()}
    launches = plan.launches()
    assert launches == ways[plan.way]
    for launches in ways.values():
        for step in launches:
            check_reads(step, chunk, bases)
        found = Machine(chunk, op, count).run(launches)
        assert sorted(found) == list(range(len(wanted)))
        assert all(chunk.same(found[cell], wanted[cell]) for cell in found)
    return ways


@contextmanager
def taken(way: str) -> Iterator[None]:
    """Plans made meanwhile take a layout in this way where they can, whatever is predicted."""

    def least(planner: Planner) -> tuple[float, str, Steps]:
        ways = {name: found for name, _, found in planner.ways()}
        return (0.0, way, ways[way]()) if way in ways else known(planner)

    known = Planner.least
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Planner, "least", least)
        yield


@contextmanager
def short_chains() -> Iterator[None]:
    """Small grids, and partials that one block may not fold: a second launch does."""
    with small_grids(), pytest.MonkeyPatch.context() as patch:
        for name in ("CHAIN", "HEAVY_CHAIN"):
            patch.setattr(tuning, name, 0)
        yield


@contextmanager
def small_grids() -> Iterator[None]:
    """Few blocks to a grid, so that those of small arrays go round and share cells."""
    grids = dict(BLOCKS=12, HEAVY_BLOCKS=12, ROW_BLOCKS=12, GRID=6, ONE_WAVE=6, FEW_BLOCKS=6, COLUMN_BLOCKS=6)
    grids |= dict(POLLED_GROUPS=1)  # others have tickets
    small = dict(**grids, FLAT_BLOCKS=5, MOST_TAKEN=64)
    with pytest.MonkeyPatch.context() as patch:
        for name, number in small.items():
            patch.setattr(tuning, name, number)
        yield
