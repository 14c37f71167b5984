"""NumPy arrays that several threads copy to a GPU: the pieces, and what moves them, with memory of this machine."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import in_turn

pytest.importorskip("cupy", reason="its calls are replaced one by one")

import cupy
from dask._task_spec import Task, TaskRef
from fake_driver import FakeDriver

from gpureduce_dask.device import launch, upload
from gpureduce_dask.graph import group_task, reduce_tasks
from gpureduce_dask.operators import native, table

pytestmark = pytest.mark.skipif(native.library() is None, reason="no C compiler")

SUM, MAX = (table.get(name).bind(np.dtype("f8")) for name in ("sum", "max"))
PIECE = 2 << 20  # as in kernels/host/upload.c

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


@pytest.fixture
def driver(monkeypatch):
    """Stands for CUDA's."""
    fake = FakeDriver()
    fake.install(monkeypatch)
    monkeypatch.setattr(cupy, "asarray", np.array)
    monkeypatch.setattr(upload, "LEAST", 4000)
    return fake


@pytest.mark.parametrize(("layout", "dtype"), in_turn(LAYOUTS, ["u1", "f4", "c16", "longdouble"]))
def test_arrays_of_any_layout_arrive(driver, layout, dtype):
    pieces = 0
    for shape in ((40, 61), (3, 2003), (300_000, 5), (7, 1, 900_001)):
        whole = np.random.default_rng(0).integers(0, 200, shape[-2:] if layout == "three axes" else shape).astype(dtype)
        array = LAYOUTS[layout](whole)
        np.testing.assert_array_equal(upload.Upload(array).finish(), array)
        pieces += -(-array.nbytes // PIECE)
    assert max(driver.sizes) <= PIECE and len(driver.sizes) == pieces


@pytest.mark.parametrize("nbytes", [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 3])
def test_bytes_of_any_number_arrive(driver, nbytes):
    array = np.random.default_rng(0).integers(0, 255, nbytes, "u1")
    np.testing.assert_array_equal(upload.Upload(array).finish(), array)
    assert sorted(driver.sizes) == sorted(min(PIECE, nbytes - begin) for begin in range(0, nbytes, PIECE))


def test_arrays_of_several_threads_arrive(driver):
    arrays = [np.random.default_rng(i).random(400_000 * (1 + i % 4)) for i in range(16)]
    with ThreadPoolExecutor(4) as pool:
        for found, array in zip(pool.map(lambda a: upload.Upload(a).finish(), arrays), arrays, strict=True):
            np.testing.assert_array_equal(found, array)


def touched(array) -> int:
    """Bytes of a mapping that the process's page tables have."""
    begin = array.ctypes.data - array.offset % mmap.ALLOCATIONGRANULARITY
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.startswith(f"{begin:x}-"):
            return 1024 * int(next(each for each in lines if each.startswith("Rss:")).split()[1])
    raise AssertionError("no such mapping")


PARTS = {
    "whole": lambda a: a,
    "its rows": lambda a: a[300:],
    "a plain array": lambda a: np.asarray(a)[1:][2:],
    "turned": lambda a: a.T,
    "rows with gaps": lambda a: a[:, 3:],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_a_mapped_file_arrives(driver, tmp_path, mode, part):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1000, 1250)))
    whole = np.load(tmp_path / "x.npy", mmap_mode=mode)
    assert upload.takes(whole)
    is_read = mode == "r" and part != "rows with gaps" and os.path.exists(f"/proc/self/map_files/{mapping_of(whole)}")
    if mode != "r":
        whole[500] = 3
    before = touched(whole) if sys.platform == "linux" else 0
    found = upload.Upload(PARTS[part](whole)).finish()
    assert not is_read or touched(whole) == before  # it came from the file
    np.testing.assert_array_equal(found, PARTS[part](whole))


def mapping_of(array) -> str:
    begin = array.ctypes.data - array.offset % mmap.ALLOCATIONGRANULARITY
    return f"{begin:x}-{begin + -(-len(array.base) // mmap.PAGESIZE) * mmap.PAGESIZE:x}"


@pytest.mark.parametrize("change", ["replaced", "removed", "moved"])
def test_a_mapped_file_is_not_another_of_its_name(driver, tmp_path, change):
    values = np.random.default_rng(0).random((1000, 1250))
    np.save(tmp_path / "x.npy", values)
    array = np.load(tmp_path / "x.npy", mmap_mode="r")
    if change == "replaced":
        np.save(tmp_path / "y.npy", 0 * values)
        os.replace(tmp_path / "y.npy", tmp_path / "x.npy")
    elif change == "removed":
        os.remove(tmp_path / "x.npy")
        np.save(tmp_path / "x.npy", 0 * values)
    else:
        os.rename(tmp_path / "x.npy", tmp_path / "y.npy")
    np.testing.assert_array_equal(upload.Upload(array).finish(), values)


def test_what_is_left_to_cupy(driver, monkeypatch):
    assert upload.takes(np.zeros(1000))
    others = (np.zeros(10), np.zeros(1000, ">f8"), np.zeros(1000, "U3"), np.ma.zeros(1000), [0] * 5000)
    assert not any(map(upload.takes, others))
    with monkeypatch.context() as patch:
        patch.setattr(native, "library", lambda: None)
        assert not upload.takes(np.zeros(1000))
    monkeypatch.setattr(launch, "current_stream", lambda: launch.PER_THREAD_STREAM)
    assert not upload.takes(np.zeros(1000))


@pytest.mark.parametrize("name", ["cuCtxSetCurrent", "cuEventSynchronize", "cuMemcpyHtoDAsync_v2", "cuEventRecord"])
def test_an_error_is_raised_once_all_threads_are_done(driver, name):
    well = driver.calls[name]
    driver.calls[name] = lambda *given: 700
    with pytest.raises(RuntimeError, match="status 700"):
        upload.Upload(np.zeros(3 * PIECE, "u1")).finish()
    driver.calls[name] = well
    np.testing.assert_array_equal(upload.Upload(np.arange(1000)).finish(), np.arange(1000))


def test_a_process_ends_when_its_uploads_have(tmp_path):
    done = subprocess.run([sys.executable, "-c", UNFINISHED], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent 1\nsent 2\nsent 3\n", "")


UNFINISHED = """
import os, time
import numpy as np, pytest
from gpureduce_dask.device import upload
from fake_driver import FakeDriver

driver = FakeDriver()
driver.install(pytest.MonkeyPatch())
sent = []

def slow(*given):
    time.sleep(0.1)
    sent.append(1)
    os.write(1, b"sent %d\\n" % len(sent))
    return 0

driver.calls["cuMemcpyHtoDAsync_v2"] = slow
kept = [upload.Upload(np.zeros(3 << 21, "u1"))]
kept.append(kept)  # what Python does not collect
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_waits_for_no_threads(driver):
    goes_on = threading.Event()
    copy = driver.calls["cuMemcpyHtoDAsync_v2"]
    driver.calls["cuMemcpyHtoDAsync_v2"] = lambda *given: goes_on.wait(60) and copy(*given)
    begun = upload.Upload(np.arange(1000.0))
    child = os.fork()
    if not child:
        begun._end()
        os._exit(0)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    goes_on.set()
    np.testing.assert_array_equal(begun.finish(), np.arange(1000.0))
    assert (ended, status) == (child, 0)


def test_tasks_of_a_group_move_their_chunks_so(driver):
    large, small = np.arange(1000.0), np.arange(10.0)
    node = Task("k", cupy.asarray, TaskRef("a"))
    found = group_task.execute({"k": node}, "k", ["a"], large)
    np.testing.assert_array_equal(found, large)
    assert found is not large and driver.sizes
    driver.sizes.clear()
    for other, array in ((node, small), (Task("k", np.asarray, TaskRef("a")), large)):
        np.testing.assert_array_equal(group_task.execute({"k": other}, "k", ["a"], array), array)
    assert not driver.sizes


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


def test_chunks_are_begun_ahead_and_folded_in_order(driver, monkeypatch):
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


def test_reductions_of_the_same_chunks_begin_them_ahead(driver, monkeypatch):
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


def test_an_error_waits_for_what_is_under_way(driver, monkeypatch):
    """Else its memory would be another's while threads still write to it."""
    done: list[int] = []
    copy = driver.calls["cuMemcpyHtoDAsync_v2"]

    def slow(*given: Any) -> int:
        time.sleep(0.1)
        done.append(1)
        return copy(*given)

    def load(i):
        if i == 2:
            raise OSError("no such file")
        return np.full(1000, float(i))

    driver.calls["cuMemcpyHtoDAsync_v2"] = slow
    close = partial(reduce_tasks.finalise, bound=SUM, drop=(0,), device=False)
    with pytest.raises(OSError, match="no such file") as caught:
        group_task.run([close], steps_of(load, 4), [])
    assert any("load" in note for note in caught.value.__notes__)
    del caught
    gc.collect()
    assert len(done) == 2  # pieces of two chunks
