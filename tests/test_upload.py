"""NumPy arrays that several threads copy to a GPU: the pieces, and what moves them, with memory of this machine."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="its calls are replaced one by one")

import cupy
from dask._task_spec import Task, TaskRef

from gpureduce_dask.device import launch, upload
from gpureduce_dask.graph import fused_task

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
        np.testing.assert_array_equal(upload.upload(array), array)
    assert max(moved) <= 1000 and len(moved) > 5


def test_a_mapped_file_arrives(moved, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(9000, dtype="f8").reshape(90, 100))
    array = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert upload.takes(array)
    np.testing.assert_array_equal(upload.upload(array), array)


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
        upload.upload(np.zeros(1000))


def test_tasks_of_a_group_move_their_chunks_so(moved):
    large, small = np.arange(1000.0), np.arange(10.0)
    node = Task("k", cupy.asarray, TaskRef("a"))
    found = fused_task._uploaded(node, {"a": large})
    np.testing.assert_array_equal(found, large)
    assert found is not large and moved
    assert fused_task._uploaded(node, {"a": small}) is None
    assert fused_task._uploaded(Task("k", np.asarray, TaskRef("a")), {"a": large}) is None
