"""The task that makes a handle: small on its way, and of the right chunks where it arrives."""

from __future__ import annotations

import pickle

import numpy as np

from gpureduce_dask.trees.handles import Share
from gpureduce_dask.trees.holds import Hold, Roster


def test_it_travels_as_few_numbers():
    task = Hold("h", Share("x", (tuple(range(0, 100)), tuple(range(0, 40, 4))), range(250, 750)))
    sent = pickle.dumps(task)
    assert len(sent) < 1000
    again = pickle.loads(sent)
    assert again.key == "h"
    assert again.dependencies == task.dependencies == {("x", i, j) for i in range(25, 75) for j in range(10)}


def test_at_its_home_it_waits_for_nothing():
    starts = (tuple(range(0, 100)), tuple(range(0, 40, 4)))
    holds = tuple(Hold(f"h{i}", Share("x", starts, range(500 * i, 500 * i + 500)), f"tcp://{i}") for i in range(2))
    roster = Roster("all", holds, "tcp://0")
    for task in (*holds, roster):
        assert pickle.loads(pickle.dumps(task)).dependencies == task.dependencies == frozenset()
    assert holds[0].anywhere().dependencies == holds[0].needs and len(holds[0].needs) == 500
    assert roster.anywhere().dependencies == {"h0", "h1"} and len(roster.needs) == 1000
    assert len(pickle.dumps(roster)) < 1500


def test_it_makes_a_handle_of_its_chunks():
    task = Hold("h", Share("x", ((0, 5, 7), (0, 10)), (1, 2, 5)))
    chunks = {key: np.full(2, i) for i, key in enumerate([("x", 0, 1), ("x", 1, 0), ("x", 2, 1)])}
    handle = task(chunks)
    assert handle.share.keys == tuple(chunks)
    assert handle.share.offsets == ((0, 10), (5, 0), (7, 10))
    assert [chunk is mine for chunk, mine in zip(handle.take(range(3)), chunks.values(), strict=True)] == [True] * 3
    assert task.dependencies == chunks.keys()
