"""NumPy arrays that several threads copy to a GPU: the pieces, and what moves them, with memory of this machine."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref
from concurrent.futures import wait
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="its calls are replaced one by one")

import cupy
from dask._task_spec import Task, TaskRef

from gpureduce_dask.device import launch, upload
from gpureduce_dask.graph import group_task, reduce_tasks
from gpureduce_dask.operators import table

SUM, MAX = (table.get(name).bind(np.dtype("f8")) for name in ("sum", "max"))

LAYOUTS = {
    "in C order": lambda a: a,
    "in Fortran's order": lambda a: np.asfortranarray(a),
    "rows with gaps": lambda a: a[:, 1:-2],
    "reversed": lambda a: a[::-1, ::2],
    "transposed": lambda a: a.T,
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
    "one axis": lambda a: a.reshape(-1)[3:-5:2],
    "three axes": lambda a: np.stack([a, a + 1, a + 2]).transpose(1, 0, 2),
}


class Pinned(np.ndarray):
    """Memory of the host that stands for a pinned buffer."""

    @property
    def ptr(self) -> int:
        return self.ctypes.data


@pytest.fixture
def moved(monkeypatch):
    """Stands for CUDA: what is sent arrives at once. Gives the pieces' sizes."""
    sizes: list[int] = []

    def copy(to: int, at: int, nbytes: int, kind: int, stream: int) -> None:
        sizes.append(nbytes)
        ctypes.memmove(to, at, nbytes)

    def new_array(shape: Any, dtype: Any, nbytes: int) -> Any:
        out = np.full(shape, 77, dtype)
        return out, out.ctypes.data

    runtime = SimpleNamespace(memcpyAsync=copy, eventRecord=lambda event, stream: None)
    monkeypatch.setattr(cupy.cuda, "runtime", runtime)
    monkeypatch.setattr(cupy, "asarray", np.array)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
    monkeypatch.setattr(cupy.cuda, "Event", lambda **how: SimpleNamespace(ptr=0, synchronize=lambda: None))
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", lambda n: np.zeros(n, "u1").view(Pinned))
    monkeypatch.setattr(launch, "new_array", new_array)
    monkeypatch.setattr(launch, "current_device", lambda: 0)
    monkeypatch.setattr(launch, "current_stream", lambda: 0)
    monkeypatch.setattr(upload, "PIECE", 1000)
    monkeypatch.setattr(upload, "LEAST", 4000)
    upload._pool.cache_clear()
    yield sizes
    upload._pool().shutdown()
    upload._pool.cache_clear()


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout_arrive(moved, layout, dtype):
    for shape in ((40, 61), (3, 2003), (1999, 2)):
        array = LAYOUTS[layout](np.random.default_rng(0).integers(0, 200, shape).astype(dtype))
        np.testing.assert_array_equal(upload.Upload(array).finish(), array)
    assert max(moved) <= 1000 and len(moved) > 5


def test_a_mapped_file_arrives(moved, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(9000, dtype="f8").reshape(90, 100))
    array = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert upload.takes(array)
    np.testing.assert_array_equal(upload.Upload(array).finish(), array)


def test_what_is_left_to_cupy(moved, monkeypatch):
    assert upload.takes(np.zeros(1000))
    others = (np.zeros(10), np.zeros(1000, ">f8"), np.zeros(1000, "U3"), np.ma.zeros(1000), [0] * 5000)
    assert not any(map(upload.takes, others))
    monkeypatch.setattr(launch, "current_stream", lambda: launch.PER_THREAD_STREAM)
    assert not upload.takes(np.zeros(1000))


def test_an_error_is_raised_once_all_threads_are_done(moved, monkeypatch):
    def fail(*_: Any) -> None:
        raise RuntimeError("no such address")

    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", fail)
    with pytest.raises(RuntimeError, match="no such address"):
        upload.Upload(np.zeros(1000)).finish()


def test_one_of_its_threads_may_collect_it(moved, monkeypatch):
    """Python collects garbage wherever it is: a thread that waited for itself would never end."""
    only: list[Any] = []
    is_there, is_gone = threading.Event(), threading.Event()
    copy = cupy.cuda.runtime.memcpyAsync

    def collect(*args: Any) -> None:
        is_there.wait(10)
        only.clear()
        is_gone.set()
        copy(*args)

    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", collect)
    only.append(upload.Upload(np.arange(1000.0)))
    jobs, kept = only[0]._jobs, weakref.ref(only[0]._copy)
    is_there.set()
    assert is_gone.wait(10)
    wait(jobs, timeout=10)
    assert all(job.done() for job in jobs) and len(moved) == len(jobs) == 8
    assert kept() is not None  # as long as jobs are
    jobs.clear()
    assert kept() is None


def test_tasks_of_a_group_move_their_chunks_so(moved):
    large, small = np.arange(1000.0), np.arange(10.0)
    node = Task("k", cupy.asarray, TaskRef("a"))
    found = group_task.execute({"k": node}, "k", ["a"], large)
    np.testing.assert_array_equal(found, large)
    assert found is not large and moved
    moved.clear()
    for other, array in ((node, small), (Task("k", np.asarray, TaskRef("a")), large)):
        np.testing.assert_array_equal(group_task.execute({"k": other}, "k", ["a"], array), array)
    assert not moved


def steps_of(load, chunks):
    """What a group folds: chunks that are made on the host, copied, and reduced there."""
    run = partial(reduce_tasks.reduce_chunk, bound=SUM, axes=(0,))
    return [
        (
            0,
            ("part", i),
            (
                Task(("load", i), load, i),
                Task(("copy", i), cupy.asarray, TaskRef(("load", i))),
                Task(("part", i), run, TaskRef(("copy", i))),
            ),
        )
        for i in range(chunks)
    ]


def test_chunks_are_begun_ahead_and_folded_in_order(moved, monkeypatch):
    """As many as the bytes under way allow, however late they arrive."""
    events: list[Any] = []
    finish, reduce = upload.Upload.finish, reduce_tasks.chunk.reduce

    def late(self):
        time.sleep(0.01)
        return finish(self)

    def load(i):
        events.append(("load", i))
        return np.full(1000, float(i))

    def note(blocks, *how):
        events.append(("reduce", int(blocks[0][0])))
        return reduce(blocks, *how)

    monkeypatch.setattr(upload.Upload, "finish", late)
    monkeypatch.setattr(reduce_tasks.chunk, "reduce", note)
    monkeypatch.setattr(reduce_tasks.chunk, "partial_bytes", lambda *how: 0)  # each is reduced when it is there
    close = partial(reduce_tasks.finalise, bound=SUM, drop=(0,), device=False)
    for limit, ahead in ((0, 1), (8000, 1), (8001, 2), (10**9, 6)):
        monkeypatch.setattr(group_task, "AHEAD_BYTES", limit)
        events.clear()
        assert group_task.run([close], steps_of(load, 6), []) == 15_000
        assert [i for what, i in events if what == "reduce"] == [*range(6)]
        assert events.index(("reduce", 0)) == ahead


def test_reductions_of_the_same_chunks_begin_them_ahead(moved, monkeypatch):
    """What reads a chunk that another reduction's step has made holds back nothing behind it."""
    loaded: list[int] = []
    finish, ahead = upload.Upload.finish, []

    def note(self):
        ahead.append(len(loaded))
        return finish(self)

    def load(i):
        loaded.append(i)
        return np.full(1000, float(i))

    monkeypatch.setattr(upload.Upload, "finish", note)
    monkeypatch.setattr(group_task, "AHEAD_BYTES", 10**9)
    closes = [partial(reduce_tasks.finalise, bound=bound, drop=(0,), device=False) for bound in (SUM, MAX)]
    run = partial(reduce_tasks.reduce_chunk, bound=MAX, axes=(0,))
    steps: list[Any] = []
    for i, step in enumerate(steps_of(load, 6)):
        steps += [step, (1, ("max", i), (Task(("max", i), run, TaskRef(("copy", i))),))]
    assert group_task.run(closes, steps, []) == (15_000, 5)
    assert set(ahead) == {6}


def test_an_error_waits_for_what_is_under_way(moved, monkeypatch):
    """Else its memory would be another's while threads still write to it."""
    done: list[int] = []
    copy = cupy.cuda.runtime.memcpyAsync

    def slow(*args: Any) -> None:
        time.sleep(0.02)
        copy(*args)
        done.append(1)

    def load(i):
        if i == 2:
            raise OSError("no such file")
        return np.full(1000, float(i))

    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", slow)
    close = partial(reduce_tasks.finalise, bound=SUM, drop=(0,), device=False)
    with pytest.raises(OSError, match="no such file") as caught:
        group_task.run([close], steps_of(load, 4), [])
    assert any("load" in note for note in caught.value.__notes__)
    del caught
    gc.collect()
    assert len(done) == 2 * 8  # pieces of two chunks
