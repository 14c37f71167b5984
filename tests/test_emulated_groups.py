"""The tasks of groups on chunks of the emulated GPU: held, in memory, and streamed, against the host's answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from dask._task_spec import Task, TaskRef
from gpu.samples import close, make
from simt import build
from simt.backend import Emulator, get, put
from simt.cases import small_grids

from gpureduce_dask import chunk
from gpureduce_dask.chunk import Place
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device.task import BATCH
from gpureduce_dask.distributed.handles import Handle, Share
from gpureduce_dask.graph import group_task, reduce_tasks, scan_tasks
from gpureduce_dask.graph.scan_tasks import Scan
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators.monoid import Bound
from gpureduce_dask.operators.table import OPERATORS

BOUNDS = [OPERATORS[name].bind(np.float32) for name in ("sum", "argmax", "var")]
COUNT = 130  # more than one launch takes
AXES = (0,)
CHUNKS = [make((3, 40), np.dtype("f4"), i) for i in range(COUNT)]
OFFSETS = tuple((3 * i, 0) for i in range(COUNT))
SHARE = Share("x", (range(0, 3 * COUNT, 3), (0,)), range(COUNT))


def layout_of(bound: Bound) -> reduce_tasks.GroupLayout:
    return reduce_tasks.GroupLayout(AXES, (3 * COUNT, 0) if bound.indexed else None)


def by_handles(bound: Bound) -> list[Any]:
    """The same handle twice: the second time it knows its chunks."""
    handle = Handle(SHARE, [put(c) for c in CHUNKS])
    return [reduce_tasks.reduce_handles([handle], [], range(COUNT), bound, layout_of(bound)) for _ in range(2)]


def in_memory(bound: Bound) -> list[Any]:
    return [reduce_tasks.reduce_chunks([[put(c) for c in CHUNKS]], bound, OFFSETS, layout_of(bound), range(COUNT))]


def streamed(bound: Bound) -> list[Any]:
    """Chunks made one by one, whose partials must not leave the GPU until the last."""
    shape = layout_of(bound).shape
    run = partial(reduce_tasks.reduce_chunk, bound=bound, axes=AXES, shape=shape)
    steps = []
    for i, array in enumerate(CHUNKS):
        place = () if shape is None else ((slice(3 * i, 3 * i + 3), slice(0, 0)),)
        made = Task(("x", i), put, array)
        steps.append((0, ("leaf", i), (made, Task(("leaf", i), run, TaskRef(("x", i)), *place))))
    return [group_task.run((partial(reduce_tasks.combine, bound=bound),), steps, ())]


def each(bound: Bound) -> list[Any]:
    """The partial of every chunk, as totals of a scan are found."""
    places = [Place((3 * i, 0), (3 * COUNT, 40)) for i in range(COUNT)] if bound.indexed else None
    return chunk.reduce_each([(put(c),) for c in CHUNKS], bound, AXES, places)


WAYS = (by_handles, in_memory, streamed)


@pytest.fixture(scope="module")
def left() -> list[int]:
    """Sizes of the partials that left the GPU."""
    return []


@pytest.fixture(scope="module")
def machine(left: list[int]) -> Iterator[Emulator]:
    emulator = Emulator()

    def to_host(states: Any, bound: Bound) -> Any:
        if not chunk.is_device(states):
            return states
        left.append(states.nbytes)
        return get(states).view(bound.state)[..., 0]

    with small_grids(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk, "to_host", to_host)
        units = emulator.collect(lambda: [way(bound) for way in (*WAYS, each) for bound in BOUNDS], parts=2)
        emulator.adopt(build(units, libraries=2))
        with emulator.installed():
            yield emulator


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
def test_groups(machine: Emulator, left: list[int], way: Any, bound: Bound) -> None:
    whole = np.concatenate(CHUNKS)
    wanted = host_reduce.finalise(host_reduce.reduce((whole,), bound, AXES), bound)
    left.clear()
    results = way(bound)
    assert left == [40 * bound.state.itemsize] * len(results)
    for partial_ in results:
        close(host_reduce.finalise(partial_, bound), wanted, bound, whole.size)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
def test_partials_of_each_chunk_leave_together(machine: Emulator, left: list[int], bound: Bound) -> None:
    left.clear()
    found = each(bound)
    cell = 40 * bound.state.itemsize
    assert left == [cell * BATCH, cell * (COUNT - BATCH)]
    for i, partial_ in enumerate(found):
        place = Place((3 * i, 0), (3 * COUNT, 40)) if bound.indexed else None
        wanted = host_reduce.finalise(host_reduce.reduce((CHUNKS[i],), bound, AXES, place), bound)
        close(host_reduce.finalise(partial_, bound), wanted, bound, CHUNKS[i].size)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
def test_totals_of_a_scan_leave_together(machine: Emulator, left: list[int], bound: Bound) -> None:
    scan = Scan(bound, 0, shape=(3 * COUNT, 0) if bound.indexed else None)
    offsets = [3 * i for i in range(COUNT)]
    wanted = scan_tasks.totals([CHUNKS], offsets, scan)
    left.clear()
    found = scan_tasks.totals([[put(c) for c in CHUNKS]], offsets, scan)
    assert len(left) == 2
    assert found[1] == [None] * COUNT
    for i, (ours, theirs) in enumerate(zip(found[0], wanted[0], strict=True)):
        close(host_reduce.finalise(ours, bound), host_reduce.finalise(theirs, bound), bound, CHUNKS[i].size)


def test_a_handle_looks_at_its_chunks_once(machine: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    found = device_reduce.stretches
    monkeypatch.setattr(device_reduce, "stretches", lambda chunks: looks.append(len(chunks)) or found(chunks))
    by_handles(BOUNDS[0])
    assert looks == [COUNT]
