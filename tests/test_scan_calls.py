"""What a scan of a CuPy chunk hands to its kernels, and makes of what they leave: the host's scan in their place."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

import cupy
from simt.backend import RUNTIME, put

from gpureduce_dask.device import contiguous, launch, scan_launch, scan_plans, scan_task
from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.host import reduce as host
from gpureduce_dask.host import scan as host_scan
from gpureduce_dask.operators.table import OPERATORS

SCRATCH = 160


def seen(array):
    """A CuPy array over host memory as NumPy sees it."""
    low = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s < 0)
    memory = (ctypes.c_char * (1 << 20)).from_address(array.data.ptr + low)
    return np.ndarray(array.shape, array.dtype, memory, -low, array.strides)


class Player:
    """Plans nothing, and plays the kernels of one scan: lines lie in memory in the order of the plan's axes."""

    def __init__(self, bound, axis, resets=None):
        self.bound, self.axis, self.resets = bound, axis, resets
        self.plans, self.zeros, self.states = [], [], []

    def plan(self, op, arrays, exclusive, reverse, gpu, method):
        self.op, self.arrays = op, arrays
        self.plans.append((exclusive, reverse))
        self.options = {"exclusive": exclusive, "reverse": reverse}
        return scan_task.Plan((scan_task.Step("k", 7, 64),), b"words", SCRATCH, True, (0,) * len(arrays.strides))

    def start(self, entry, blocks, threads, shared_bytes, task, stream):
        assert (entry, blocks, threads, task[72:]) == (3, 7, 64, b"words")
        out, a, b, carry, totals, states, ticket, _, _ = device_scan._POINTERS.unpack(task[:72])
        assert any(at <= states <= at + n - SCRATCH for at, n in self.zeros) and ticket == states + SCRATCH - 16
        assert all(abs(states - other) >= SCRATCH for other in self.states), "zeros are used once"
        self.states.append(states)
        arrays, bound = self.arrays, self.bound
        chunk = self.at(a, bound.dtypes[0], arrays.strides[0])
        lines = [n for i, n in enumerate(arrays.shape) if i != arrays.axis]
        size = self.op.state_bytes
        before = None
        if carry:
            given = np.frombuffer((ctypes.c_char * (arrays.lines * size)).from_address(carry), np.uint8)
            packed = np.ascontiguousarray(given.reshape(-1, size)[:, : bound.state.itemsize]).view(bound.state)
            before = np.expand_dims(packed.reshape(lines), arrays.axis)
        flags = None if self.resets is None else self.at(b, np.dtype(bool), arrays.strides[1])
        target = self.at(out, bound.result, arrays.strides[-1])
        results, total = host_scan.scan((chunk,), bound, arrays.axis, before, resets=flags, **self.options)
        target[...] = results
        if totals:
            left = np.zeros((arrays.lines, size), np.uint8)
            left[:, : bound.state.itemsize] = np.ascontiguousarray(total).reshape(-1, 1).view(np.uint8)
            ctypes.memmove(totals, left.ctypes.data, left.nbytes)

    def at(self, pointer, dtype, strides):
        return seen(
            SimpleNamespace(data=SimpleNamespace(ptr=pointer), shape=self.arrays.shape, dtype=dtype, strides=strides)
        )


@pytest.fixture
def played(monkeypatch):
    def install(*arguments, **options):
        player = Player(*arguments, **options)
        runtime = SimpleNamespace(
            **vars(RUNTIME), memset=lambda at, value, nbytes, stream: player.zeros.append((at, nbytes))
        )
        monkeypatch.setattr(launch, "_runtime", lambda: runtime)
        monkeypatch.setattr(launch, "_zeros", {})
        monkeypatch.setattr(launch, "start_kernel", player.start)
        monkeypatch.setattr(scan_plans, "plan", player.plan)
        monkeypatch.setattr(contiguous, "copied", lambda array: put(np.ascontiguousarray(seen(array))))
        monkeypatch.setattr(scan_launch, "gpu", lambda number: Gpu(48 << 10, 3, False))
        monkeypatch.setattr(
            scan_launch, "load", lambda plan, *_: ([(3, s.blocks, s.threads, s.shared_bytes) for s in plan.steps], ())
        )
        device_scan.clear()
        return player

    with cupy.cuda.using_allocator(RUNTIME.alloc):
        yield install
    device_scan.clear()


VIEWS = {
    "C order": lambda x: x,
    "Fortran order": lambda x: x.T,
    "turned": lambda x: x.transpose(1, 2, 0),
    "gaps": lambda x: x[:, 1:-1, ::2],
    "backwards": lambda x: x[::-1, :, ::-1],
    "unaligned": lambda x: x.reshape(-1)[1:-23].reshape(-1, 4, 6),
    "one line": lambda x: x[:1, :, :1],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("options", [{}, {"exclusive": True}, {"carried": True}, {"segmented": True}])
def test_results_and_totals(played, view, options):
    x = np.random.default_rng(0).random((5, 4, 6)).astype("f4")
    bound = OPERATORS["sum"].bind(x.dtype)
    options = dict(options)
    carried, segmented = options.pop("carried", False), options.pop("segmented", False)
    chunk = put(x, VIEWS[view])
    x = VIEWS[view](x)
    for axis in range(3):
        ends = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        carry = host.reduce((np.random.default_rng(1).random(ends).astype("f4"),), bound, (axis,)) if carried else None
        flags = np.random.default_rng(2).random(x.shape) < 0.3 if segmented else None
        played(bound, axis, flags)
        wanted, total = host_scan.scan((x,), bound, axis, carry, resets=flags, **options)
        given = {"resets": None if flags is None else put(flags)}
        if carried:
            given["carry"] = put(np.ascontiguousarray(carry).view(np.uint8).reshape(*ends, -1))
        got, got_total = device_scan.scan((chunk,), bound, axis, **given, **options)
        np.testing.assert_array_equal(seen(got), wanted)
        assert got_total.shape == (*ends, bound.state.itemsize) and got_total.flags.c_contiguous
        np.testing.assert_array_equal(seen(got_total).view(bound.state)[..., 0], total)


def test_plans_are_made_once_a_layout(played):
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    x = put(np.ones((12, 8), "f4"))
    player = played(bound, 1)
    for _ in range(3):
        device_scan.scan((x,), bound, 1)
    assert len(player.plans) == 1
    got, total = device_scan.scan((x,), bound, 1, with_total=False)
    assert total is None and len(player.plans) == 1 and seen(got)[0, -1] == 8
    device_scan.scan((x[:, :7],), bound, 1)
    device_scan.scan((x[:, 1:],), bound, 1)  # of the same shape and strides, and begins elsewhere
    assert len(player.plans) == 3
    device_scan.scan((x,), bound, 1, reverse=True)
    assert player.plans[-1] == (False, True)


def test_reversed_axes_are_scanned_as_they_lie(played):
    x = np.arange(60, dtype="f4").reshape(3, 4, 5)
    chunk, back = put(x)[:, ::-1, ::-1], x[:, ::-1, ::-1]
    bound = OPERATORS["sum"].bind(x.dtype)
    player = played(bound, 2)
    got, _ = device_scan.scan((chunk,), bound, 2)
    assert player.plans == [(False, True)] and player.arrays.strides == ((80, 20, 4),) * 2
    assert got.strides == chunk.strides
    np.testing.assert_array_equal(seen(got), back.cumsum(2))
    assert player.arrays.index_step == 1
    out = put(np.zeros(x.shape, "f4"))
    player = played(bound, 1)
    assert device_scan.scan((chunk,), bound, 1, out=out)[0] is out
    assert player.plans == [(False, False)] and player.arrays.strides == ((80, -20, -4), (80, 20, 4))
    np.testing.assert_array_equal(seen(out), back.cumsum(1))


def test_results_go_where_they_are_wanted(played):
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    x = np.arange(48, dtype="f4").reshape(6, 8)
    player = played(bound, 0)
    chunk, out = put(x), put(np.zeros((8, 6), "f4")).T
    got, _ = device_scan.scan((chunk,), bound, 0, out=out)
    assert got is out and player.arrays.strides[-1] == out.strides
    np.testing.assert_array_equal(seen(out), x.cumsum(0))
    np.testing.assert_array_equal(seen(device_scan.scan((chunk,), bound, 0, out=chunk)[0]), x.cumsum(0))
