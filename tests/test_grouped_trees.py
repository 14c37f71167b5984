"""Groups of lazy chunks and of chunks in memory: results, tasks, and how often and how long a chunk exists."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import tracemalloc
import weakref
from functools import partial

import dask
import dask.array as da
import dask.callbacks
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import key_split
from test_trees import AFFINE, compose
from tiers import one_in

import gpureduce_dask as gr
from gpureduce_dask.graph import fusion, group_task, reduce_tasks, sources
from gpureduce_dask.graph.reduce_tasks import PENDING, PENDING_BYTES, Folding
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class Alive(np.ndarray):
    """An array whose instances are counted while they exist."""

    now, most, made = 0, 0, 0
    lock = threading.Lock()

    @classmethod
    def reset(cls):
        gc.collect()
        cls.now = cls.most = cls.made = 0


def _gone():
    with Alive.lock:
        Alive.now -= 1


def make_chunk(block_info=None):
    """A chunk of 8 elements that says when it comes and goes."""
    start = block_info[None]["array-location"][0][0]
    chunk = np.arange(start, start + 8, dtype=float)
    with Alive.lock:
        Alive.made += 1
        Alive.now += 1
        Alive.most = max(Alive.most, Alive.now)
    weakref.finalize(chunk, _gone)
    return chunk


def counted(blocks=48):
    Alive.reset()
    return da.map_blocks(make_chunk, chunks=((8,) * blocks,), dtype=float, meta=np.empty(0))


def tasks_of(*arrays):
    """The graph that would run, as one computation."""
    graph = HighLevelGraph.merge(*(a.dask for a in arrays))
    return fusion.OPTIMIZE(graph, [a.__dask_keys__() for a in arrays])


@pytest.fixture(autouse=True)
def two_threads():
    with dask.config.set(num_workers=2):
        yield


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_lazy_chunks_are_made_once_and_freed(scheduler):
    x = counted()
    assert gr.sum(x).compute(scheduler=scheduler, num_workers=2) == sum(range(48 * 8))
    assert Alive.made == 48
    assert Alive.most <= (1 if scheduler == "sync" else 2)


def test_a_chain_holds_two_chunks_at_most():
    x = counted()
    assert gr.max((x + 1) * 2).compute(scheduler="sync") == 48 * 8 * 2
    assert (Alive.made, Alive.most) == (48, 1)


def test_a_chunk_that_is_asked_for_too_is_made_once():
    x = counted()
    total, values = dask.compute(gr.sum(x), x, scheduler="sync")
    assert Alive.made == 48
    assert total == values.sum()


def test_reductions_of_the_same_chunks_make_them_once_and_free_them():
    x = counted()
    got = dask.compute(gr.sum(x), gr.mean(x), gr.argmax(x), gr.std(x), gr.max(x), scheduler="sync")
    want = np.arange(48 * 8.0)
    np.testing.assert_allclose(got, [want.sum(), want.mean(), want.argmax(), want.std(), want.max()])
    assert (Alive.made, Alive.most) == (48, 1)


def test_reductions_of_the_same_chunks_share_tasks():
    x = counted()
    low = tasks_of(gr.sum(x), gr.mean(x))
    assert sum(key_split(k) == "gr-mean-sum-group" for k in low) == 8
    assert len(low) == 8 + 2 * 8 + 2


def test_a_chunk_that_another_tree_needs_is_made_once():
    x = counted()
    a, b = dask.compute(gr.sum(x), (x[::-1] * 2).sum(), scheduler="sync")
    assert Alive.made == 48
    assert b == 2 * a


def test_a_mean_that_all_chunks_need_is_waited_for():
    x = da.from_array(np.arange(64.0).reshape(16, 4), chunks=(1, 4))
    low = tasks_of(gr.sum((x - gr.mean(x)) ** 2))
    assert len([k for k in low if "-chunk-" in str(k)]) == 0
    np.testing.assert_allclose(gr.sum((x - gr.mean(x)) ** 2).compute(scheduler="sync"), 64 * np.var(np.arange(64)))


def test_chunks_that_neighbours_share_stay_tasks():
    x = counted()
    y = x.rechunk(12)  # every other boundary lies within a chunk of x
    assert gr.sum(y).compute(scheduler="sync") == sum(range(48 * 8))
    assert Alive.made == 48


def test_all_to_all_is_left_to_dask():
    """Moved into groups, every task would need all of the array at once."""
    x = da.ones((64, 64), chunks=(1, 64)).map_blocks(np.copy).rechunk((64, 1), method="tasks", threshold=10**6)
    low = tasks_of(gr.sum(x))
    most = max(len(task.dependencies) for key, task in low.items() if "group" in str(key))
    assert most <= fusion.SHARED + 8 + 8
    assert gr.sum(x).compute(scheduler="sync") == 64 * 64


def test_partials_of_chunks_that_stay_tasks_are_combined_many_at_a_time():
    """Groups of a few chunks for each of many threads, which take none of them in: no chunk in ten is worth a task."""
    x = counted(100)
    with dask.config.set(num_workers=16):
        results = gr.sum(x), gr.argmax(x), gr.reduction(x + 0, AFFINE, dtype=np.int64)
        low = tasks_of(x, *results)
    for result in results:
        name = result.name.rsplit("-", 1)[0]
        mine = [key for key in low if key[0].startswith(name) and "chunk" not in key[0]]
        assert 1 < len(mine) <= 10
    total, last, composed, values = dask.compute(*results, x, scheduler="sync")
    assert (total, last) == (values.sum(), 799)
    np.testing.assert_array_equal(composed, compose(values.astype(np.int64), (0,)))


def test_processes_get_small_groups():
    """What a task takes is pickled by the process that asked, which holds it until then."""
    x = counted()
    by_threads = len(tasks_of(gr.sum(x)))
    with dask.config.set(scheduler="processes"):
        assert by_threads < len(tasks_of(gr.sum(x))) <= 48 + 3


def test_unoptimised_graphs_are_right():
    x = counted()
    s = gr.var(x)
    assert s.compute(scheduler="sync", optimize_graph=False) == s.compute(scheduler="sync")
    with dask.config.set({"optimization.fuse.active": False}):
        assert s.compute(scheduler="sync") == np.arange(48 * 8.0).var()
    with dask.config.set(array_optimize=None):
        assert s.compute(scheduler="sync") == np.arange(48 * 8.0).var()


def test_other_arrays_optimise_as_dask_does():
    gr.sum(da.ones(8, chunks=1))
    x = (da.ones((8, 8), chunks=4) + 1).sum(axis=0)
    ours = fusion.OPTIMIZE(x.dask, x.__dask_keys__())
    assert ours.keys() == da.optimize(x.dask, x.__dask_keys__()).keys()


def test_a_delayed_task_takes_a_reduction():
    x = counted(8)
    assert dask.delayed(lambda v: v + 1)(gr.sum(x)).compute(scheduler="sync") == sum(range(64)) + 1


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_config_sets_the_group(size):
    x = counted()
    with dask.config.set({"gpureduce.group": size}):
        s = gr.sum(x)
    groups = {k for k in dict(s.dask) if "group" in k[0]}
    assert len(groups) == {1: 48, 5: 10, 1000: 0}[size]
    assert gr.reduction(x, "sum", group=size).name == s.name
    assert s.compute(scheduler="sync") == sum(range(48 * 8))
    with dask.config.set({"gpureduce.group": 0}), pytest.raises(gr.errors.ArgumentError, match=r"gpureduce\.group: 0"):
        gr.sum(x)


def test_a_chunk_that_raises_is_named():
    def bad(block):
        raise ValueError("no such tile")

    x = da.ones(16, chunks=2).map_blocks(bad, meta=np.empty(0), name="tiles")
    with pytest.raises(ValueError, match="no such tile") as caught:
        gr.sum(x).compute(scheduler="sync")
    assert any("while making" in note and "gr-sum-chunk" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("size, count", [(4, 10), (131072, 24)])
def test_a_wrong_label_among_chunks_that_wait_names_its_chunk(size, count):
    """They are reduced together: at the end, or when there are many bytes of them."""
    labels = np.zeros(size * count, "i8")
    labels[size + 1] = 9
    lazy = [da.from_array(a, chunks=size).map_blocks(np.negative) for a in (np.ones(size * count), -labels)]
    with dask.config.set(scheduler="sync"), pytest.raises(gr.errors.ArgumentError, match="label 9") as caught:
        gr.grouped(*lazy, "sum", num_groups=3).compute()
    (note,) = caught.value.__notes__
    assert "while making ('gr-grouped-chunk-" in note and ", 1)" in note


def table(dtype):
    """Every row that takes this dtype."""
    for name, row in gr.OPERATORS.items():
        try:
            row.bind(*(dtype,) * row.arity)
        except gr.errors.DtypeError:
            continue
        yield name, row.arity


X = np.random.default_rng(5).normal(size=(12, 10)).round(1)
X[3, 4] = X[7, 7] = np.nan
PATHS = {"lazy": lambda a: a, "in memory": lambda a: a.persist(scheduler="sync")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
def test_every_row(path, axis):
    one = da.from_array(X, chunks=(12, 10))
    many = PATHS[path](da.from_array(X, chunks=(2, 3)).map_blocks(np.copy))
    for name, arity in table(np.dtype(float)):
        given = many if arity == 1 else (many, many)
        want = gr.reduction(one if arity == 1 else (one, one), name, axis=axis)
        got = gr.reduction(given, name, axis=axis)
        np.testing.assert_allclose(
            got.compute(scheduler="sync"), want.compute(scheduler="sync"), rtol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("size", [None, 3])
def test_order_is_honoured(path, axis, size):
    x = np.random.default_rng(2).integers(-9, 9, (4, 6, 5))
    array = PATHS[path](da.from_array(x, chunks=(2, 2, 2)).map_blocks(np.copy))
    with dask.config.set({"gpureduce.group": size}):
        got = gr.reduction(array, AFFINE, axis=axis, dtype=np.int64)
    axes = tuple(range(3)) if axis is None else (axis,) if isinstance(axis, int) else axis
    np.testing.assert_array_equal(got.compute(scheduler="sync"), compose(x, axes))


def test_chunks_in_memory_need_no_task_each():
    x = da.ones(1024 * 64, chunks=64).persist(scheduler="sync")
    assert sum(str(k).startswith("('gr-") for k in dict(gr.sum(x).dask)) == 1
    big = da.ones((16, 2**20), chunks=(1, 2**20)).persist(scheduler="sync")
    assert sum(str(k).startswith("('gr-") for k in dict(gr.sum(big).dask)) == 2 + 1


@pytest.mark.parametrize("path", one_in(2, PATHS))
def test_processes(path):
    x = PATHS[path](da.from_array(X, chunks=(2, 3)).map_blocks(np.copy))
    total, where = dask.compute(gr.nansum(x), gr.nanargmax(x, axis=0), scheduler="processes", num_workers=2)
    np.testing.assert_allclose(total, np.nansum(X))
    np.testing.assert_array_equal(where, np.nanargmax(X, axis=0))


def test_unknown_sizes_and_empty_chunks_in_memory():
    x = da.from_array(np.arange(20.0), chunks=4).persist(scheduler="sync")
    kept = x[x > 13].persist(scheduler="sync")
    assert np.isnan(kept.shape[0])
    assert gr.sum(kept).compute(scheduler="sync") == sum(range(14, 20))
    assert gr.min(kept).compute(scheduler="sync") == 14
    none = x[x > 99].persist(scheduler="sync")
    assert gr.sum(none).compute(scheduler="sync") == 0
    with pytest.raises(gr.errors.EmptyError, match="min"):
        gr.min(none).compute(scheduler="sync")
    with pytest.raises(gr.errors.ArgumentError, match="compute_chunk_sizes"):
        gr.argmax(kept)


def test_graphs_pickle_before_and_after_they_are_optimised():
    x = da.from_array(X, chunks=(2, 3))
    s = gr.nanvar(x, axis=0)
    low = pickle.loads(pickle.dumps(tasks_of(s)))
    assert low.keys() == tasks_of(s).keys()
    assert pickle.loads(pickle.dumps(fusion.OPTIMIZE)) is fusion.OPTIMIZE
    assert b"__main__" not in pickle.dumps(fusion.OPTIMIZE)  # where distributed pickles all once more, by cloudpickle


def test_a_process_without_the_package_optimises_as_dask_does(tmp_path):
    (tmp_path / "hook").write_bytes(pickle.dumps(fusion.OPTIMIZE))
    code = (
        "import pickle, sys; sys.modules['gpureduce_dask'] = None; from dask.array.optimization import optimize; "
        "assert pickle.load(open(sys.argv[1], 'rb')) is optimize"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "hook")], check=True)


def test_keys_tell_groups_apart():
    x = counted()
    names = set()
    for size in (None, 3, 7):
        with dask.config.set({"gpureduce.group": size}):
            names.add(gr.sum(x).name)
    assert len(names) == 3
    assert all(k[0].startswith("gr-sum-") for k in dict(gr.sum(x).dask) if "gr-" in k[0])
    assert tokenize(gr.sum(x)) == tokenize(gr.sum(x))


def test_a_group_lets_go_of_what_it_folded():
    bound = gr.OPERATORS["sum"].bind(np.float64)
    made = [Task(("leaf", i), bound.identities, (2**17,)) for i in range(60)]
    tracemalloc.start()
    group_task.run((partial(reduce_tasks.combine, bound=bound),), [(0, task.key, (task,)) for task in made], ())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 2**17 * bound.state.itemsize / 3


def test_large_partials():
    """Those of 8 MB are combined few at a time, also within a group's task."""
    x = da.ones((24, 2**19), chunks=(1, 2**19)).map_blocks(np.copy)
    s = gr.sum(x, axis=0)
    assert len(tasks_of(s)) == 8 + 2 + 1  # groups, those of four each, and the result
    np.testing.assert_array_equal(s.compute(scheduler="sync")[:3], [24, 24, 24])


def test_partials_are_folded_before_they_pile_up():
    bound = gr.OPERATORS["sum"].bind(np.float64)
    small, large = Folding(bound), Folding(bound)
    for _ in range(200):
        small.add(bound.identities((1,)))
        large.add(bound.identities((2**18,)))
        assert len(small.partials) <= PENDING
        assert sum(p.nbytes for p in large.partials) <= PENDING_BYTES + 2**18 * bound.state.itemsize


def test_a_plan_tells_the_tasks_that_run():
    x = counted()
    for array, want in ((x, 8 + 1), (x.persist(scheduler="sync"), 1)):
        assert gr.plan(array, "sum").tasks == len(ran(gr.sum(array))) == want
    grid = da.ones((8, 8), chunks=2).map_blocks(np.copy)
    for axis, split_every in ((None, None), (0, None), (1, 2), (None, 3)):
        plan = gr.plan(grid, "var", axis=axis, split_every=split_every)
        assert plan.tasks == len(ran(gr.var(grid, axis=axis, split_every=split_every)))
        assert sum(share.chunks for share in plan.shares) == 16
        assert plan.read_bytes == 8 * 8 * 8


def ran(array):
    """The keys of the tasks that ``array.compute()`` runs."""
    keys = []
    with dask.callbacks.Callback(pretask=lambda key, *rest: keys.append(key)):
        array.compute(scheduler="sync")
    return keys


@pytest.mark.parametrize("threads", [1, 2])
def test_a_plan_bounds_the_memory(threads):
    x = da.ones((32, 2**19), chunks=(1, 2**19)).map_blocks(np.copy)
    with dask.config.set(num_workers=threads):
        predicted = gr.plan(x + 1, "sum").peak_bytes
        gr.sum(x + 1).compute(scheduler="threads")
        tracemalloc.start()
        gr.sum(x + 1).compute(scheduler="threads")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert predicted / 4 < peak < predicted * 1.1
    assert peak < 32 * 2**22 / 4


def test_a_plan_prints_as_a_table():
    plan = gr.plan(counted(), "argmax")
    assert "argmax, axis=None" in repr(plan) and "bytes read" in repr(plan) and "3 KiB" in repr(plan)
    assert "<table>" in plan._repr_html_() and "8 groups, 48 chunks" in plan._repr_html_()
    unknown = da.from_array(np.arange(8.0), chunks=2)
    text = repr(gr.plan(unknown[unknown > 3], "sum"))
    assert "unknown" in text and "nan" not in text
    with pytest.raises(gr.errors.ArgumentError, match="stock dask"):
        gr.plan(da.ones(4).astype(object), "sum")


def test_persist_on_one_machine():
    x = gr.persist(counted(), scheduler="sync")
    assert all(isinstance(v, np.ndarray) for v in dict(x.dask).values())
    assert gr.sum(x).compute() == sum(range(48 * 8))
    assert Alive.made == 48


def test_slices_of_the_same_handles_are_one_node_of_a_task():
    """A node for each, within the task, takes longer to write and to send than to run."""
    takes, bound = ([TaskRef("handle")], [TaskRef("anchor")]), OPERATORS["sum"].bind(np.dtype("f8"))

    def divided(number, by, bound):
        return divmod(number, by)

    groups = [sources.GroupTask(partial(divided, i, bound=bound), takes, "worker", 3) for i in (7, 9)]
    found = sources.join_groups(groups)
    assert (found.takes, found.worker, found.chunks) == (takes, "worker", 6)
    assert found.run(2) == [(3, 1), (4, 1)]
    other = sources.GroupTask(partial(divided, 8, bound=bound), ([TaskRef("other")],), "worker", 1)
    assert sources.join_groups([*groups, other]).run is list
