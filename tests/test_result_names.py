"""Names of results: the same in every process, however Python hashes, and whatever has been computed before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster
from dask.utils import key_split

import gpureduce_dask as gr
from gpureduce_dask.graph.arguments import key_prefix

ROWS = "sum prod min max mean var any argmax nanmean nanargmin".split()
STEPS = ("", "-chunk", "-group", "-combine", "-total", "-carry")


def arrays():
    """An array, one of the same chunks, and one of unknown chunk sizes."""
    x = da.from_array(np.arange(240.0).reshape(20, 12), chunks=(4, 3), name="an-array")
    y = da.from_array(np.arange(240.0).reshape(20, 12) + 1, chunks=(4, 3), name="another")
    return x, y, x[x[:, 0] > 30]


def names(x, y, unknown):
    results = {f"{row} {axis}": getattr(gr, row)(x, axis=axis) for row in ROWS for axis in (0, None)}
    results |= {f"{row} of unknown sizes": getattr(gr, row)(unknown, axis=1) for row in ROWS}
    results |= {f"stats {k}": v for k, v in gr.stats(x, ["max", "argmax", "std"], axis=0)._asdict().items()}
    results |= {f"where {k}": v for k, v in gr.stats(x, ["max", "std"], where=x > 3)._asdict().items()}
    results |= {f"weights {k}": v for k, v in gr.stats(x, ["mean", "std"], weights=y)._asdict().items()}
    results["min_count"] = gr.sum(x, axis=0, min_count=3, initial=2)
    results["map"] = gr.map_reduce(lambda p, q: p * q + 1, "sum", x, y, axis=0)
    results["map of many"] = gr.map_reduce(lambda p, q: (p * q, p - q), ["sum", "max"], x, y, axis=0)[1].max
    results["scan"], results["scan of all"] = gr.cumsum(x, axis=0), gr.cumsum(x, axis=None)
    results["scan of unknown sizes"] = gr.cumsum(unknown, axis=0)
    results["norm"], results["average"] = gr.norm(x, ord=3, axis=0), gr.average(x, axis=0, weights=y)
    return {key: result.name for key, result in results.items()}


def test_dask_shows_the_names_of_tasks_whole():
    x, ids = da.ones((60, 8), chunks=(5, 4)), da.arange(60, chunks=5) % 7
    results = {name: gr.reduction(x, name, axis=0) for name in ROWS}
    results |= {"count-nonzero": gr.count_nonzero(x, axis=0), "vector-norm": gr.vector_norm(x, axis=0)}
    results |= {"norm": gr.reduction(x, "norm2", axis=0), "Bincount": gr.bincount(ids, minlength=9)}
    results |= {"cumulative-sum": gr.cumulative_sum(x, axis=0), "map-norm": gr.map_reduce(np.square, "norm2", x)}
    for name, result in results.items():
        keys = [key for key in dict(result.dask) if str(key).startswith("('gr-")]
        assert {key_split(key) for key in keys} <= {f"gr-{name}{step}" for step in STEPS}
    words = [key_prefix(name) for name in (*gr.OPERATORS, *gr.__all__)]
    assert all(key_split(f"{word}-group-{'0f' * 16}") == f"{word}-group" for word in words)


def test_keys_of_groups_say_how_many_chunks_they_reduce():
    x = da.ones((400, 4), chunks=(10, 2))
    plan = gr.plan(x, "sum", axis=0, group=15)
    groups = [key for key in dict(gr.reduction(x, "sum", axis=0, group=15).dask) if "-group-" in key[0]]
    assert [key[2] for key in groups] == ["15 chunks", "15 chunks", "10 chunks"] * 2 and plan.groups == 6


def test_names_are_the_same_in_every_process():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    # Which changes what dask makes of functions and tuples for names, its own ones too, as soon as it is imported.
    also = "dask_array, " if "dask_array" in sys.modules else ""
    program = f"import {also}json, test_result_names as t; print(json.dumps(t.names(*t.arrays())))"
    ran = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (json.loads(each.stdout.splitlines()[-1]) for each in ran)
    assert first == second
    here = names(*arrays())
    functions = {"map", "map of many"}  # a lambda of another module is another function
    assert {k: v for k, v in here.items() if k not in functions} == {
        k: v for k, v in first.items() if k not in functions
    }


def test_names_are_the_same_before_and_after_computing():
    given = arrays()
    before = names(*given)
    gr.sum(given[0]).compute(), gr.mean(given[2], axis=1).compute()
    assert names(*given) == before == names(*arrays())


def slow(block):
    time.sleep(0.2)
    return block + 1


def test_names_on_a_cluster():
    """Of chunks in memory they say where these lie, and of chunks that are still made that it is not known: a result
    that has other tasks below it has another name, for a scheduler that has a key keeps what is new below it for good.
    """
    distributed = pytest.importorskip("distributed")
    cluster = local_cluster(2)
    with cluster, distributed.Client(cluster) as client:
        lazy = names(*arrays())
        x, y, _ = arrays()
        x = x.map_blocks(slow, name="slow").persist()
        pending = gr.sum(x)
        first = pending.persist()
        distributed.wait([x, first])
        finished = gr.sum(x)
        assert (pending.name == finished.name) == (needs(pending) == needs(finished))
        assert finished.compute() == first.compute() == x.compute().sum()
        y = y.persist()
        distributed.wait(y)
        before = names(y, y, y[y[:, 0] > 30])
        gr.mean(y, axis=0).compute()
        assert names(y, y, y[y[:, 0] > 30]) == before and names(*arrays()) == lazy
        client.publish_dataset(shared=y)
        with distributed.Client(cluster, set_as_default=False) as other:
            same = other.get_dataset("shared")
            distributed.wait([*same.dask.layers[same.name].values()], timeout=30)
            assert gr.sum(same, axis=0).name == before["sum 0"]
        client.unpublish_dataset("shared")
        del first, pending, finished
        until = time.monotonic() + 10
        while time.monotonic() < until and client.run_on_scheduler(left):
            time.sleep(0.1)
        assert not client.run_on_scheduler(left)


def left(dask_scheduler):
    """Our tasks that a scheduler still has, but for handles, which stay as long as their arrays."""
    return [key for key in map(str, dask_scheduler.tasks) if "gr-" in key and "gr-handle" not in key]


def needs(array):
    """What the task of a result depends on."""
    return set(array.dask.layers[array.name][(array.name,)].dependencies)


def test_keys_of_combining_tasks_say_how_many_partials_they_take():
    x = da.ones((60, 60), chunks=(2, 60))
    combined = [key for key in gr.sum(x, split_every=2).__dask_graph__() if str(key[0]).startswith("gr-sum-combine")]
    assert combined and all(key[-1] in ("1 partial", "2 partials") for key in combined)
