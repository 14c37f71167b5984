"""The task that makes a handle: of the right chunks, and small where it goes."""

from __future__ import annotations

import pickle

import numpy as np

from gpureduce_dask.distributed import handles
from gpureduce_dask.distributed.handles import Share


def test_it_declares_its_chunks():
    task = handles.handle_task("h", Share("x", (tuple(range(0, 100)), tuple(range(0, 40, 4))), range(250, 750)))
    assert task.dependencies == {("x", i, j) for i in range(25, 75) for j in range(10)}
    assert pickle.loads(pickle.dumps(task)).dependencies == task.dependencies


def test_it_makes_a_handle_of_its_chunks():
    task = handles.handle_task("h", Share("x", ((0, 5, 7), (0, 10)), (1, 2, 5)))
    chunks = {key: np.full(2, i) for i, key in enumerate([("x", 0, 1), ("x", 1, 0), ("x", 2, 1)])}
    handle = task(chunks)
    assert handle.share.keys == tuple(chunks)
    assert handle.share.offsets == ((0, 10), (5, 0), (7, 10))
    assert [chunk is mine for chunk, mine in zip(handle.take(range(3)), chunks.values(), strict=True)] == [True] * 3
    assert handle.is_here()
    again = pickle.loads(pickle.dumps(handle))
    assert not again.is_here() and len(pickle.dumps(again)) < 1000


def test_keys_follow_from_the_array_and_where_it_lies():
    """Also where sizes are unknown: NaN is another in each process."""
    homes = ["a", "b", "a"]
    keys = (
        handles.plan_handles("x", ((2, 3), (4,)), homes[:2]).keys,
        handles.plan_handles("x", ((float("nan"),) * 3,), homes).keys,
    )
    for _ in range(2):
        assert handles.plan_handles("x", ((2, 3), (4,)), homes[:2]).keys == keys[0]
        assert handles.plan_handles("x", ((float("nan"),) * 3,), homes).keys == keys[1]
    assert handles.plan_handles("x", ((2, 3), (4,)), homes[1:]).keys != keys[0]
