"""Small chunks on the host that are reduced side by side give what they give one by one."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from strategies import CASES, LAYOUTS, PAIRS, case_id, lay, values
from test_laws import assert_alike
from test_trees import AFFINE

from gpureduce_dask.chunk import Place
from gpureduce_dask.host import reduce as host
from gpureduce_dask.host import stack
from gpureduce_dask.operators.table import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

GRID, SHAPE = (3, 4), (4, 5)  # chunks, and elements of each
WHOLE = (GRID[0] * SHAPE[0], GRID[1] * SHAPE[1])
# Chunks of one slice by the axes reduced: in a row, at other steps, and scattered.
PICKS = {
    (): [[5]],
    (0,): [[0, 4, 8], [1, 9]],
    (1,): [[0, 1, 2, 3], [4, 6], [8, 9, 11]],
    (0, 1): [list(range(12)), [1, 4, 7, 10], [0, 1, 2, 5, 6, 11]],
}


@pytest.fixture
def folds(monkeypatch):
    """The shapes that are reduced, one a call."""
    shapes, plain = [], host.reduce

    def counted(arrays, *rest):
        shapes.append(arrays[0].shape)
        return plain(arrays, *rest)

    monkeypatch.setattr(host, "reduce", counted)
    return shapes


def chunks_of(dtypes, layouts=(np.ascontiguousarray,)):
    """The chunks of a grid in C order, and their places."""
    arrays = [values(WHOLE, d, k) for k, d in enumerate(dtypes)]
    corners = list(itertools.product(*(range(0, n, s) for n, s in zip(WHOLE, SHAPE, strict=True))))
    lays = itertools.cycle(layouts)
    cut = [
        tuple(lay(how, a[i : i + SHAPE[0], j : j + SHAPE[1]]) for a in arrays)
        for (i, j), how in zip(corners, lays, strict=False)
    ]
    return cut, [Place(corner, WHOLE) for corner in corners]


def one_by_one(chunks, bound, axes, places):
    return host.combine([host.reduce(c, bound, axes, p) for c, p in zip(chunks, places, strict=True)], bound)


SOME = [(r, (d,)) for r, d in CASES[::3]] + [(r, d) for r, *d in PAIRS[::7]]  # a row has more dtypes than that


@pytest.mark.parametrize(("row", "dtypes"), SOME, ids=case_id)
def test_every_operator(row, dtypes):
    bound = row.bind(*dtypes)
    chunks, places = chunks_of(dtypes)
    for axes, picks in [(axes, picks) for axes, choices in PICKS.items() for picks in choices]:
        mine, at = [chunks[i] for i in picks], [places[i] for i in picks]
        assert_alike(host.reduce_many(mine, bound, axes, at), one_by_one(mine, bound, axes, at), bound)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_order_and_layouts(axes):
    bound = AFFINE.bind(np.int64)
    chunks, places = chunks_of((np.dtype("i8"),), LAYOUTS)
    want = one_by_one(chunks, bound, axes, places)
    np.testing.assert_array_equal(host.reduce_many(chunks, bound, axes), want)
    backwards = host.reduce_many(chunks[::-1], bound, axes)
    assert (backwards != want).any()


def test_small_neighbours_take_one_call(folds):
    chunks = [(np.full(100, i, "f4"),) for i in range(50)]
    host.reduce_many(chunks, OPERATORS["sum"].bind("f4"), (0,))
    assert folds == [(50, 100)]
    folds.clear()
    bound = pickle.loads(pickle.dumps(OPERATORS["argmax"].bind("f4")))  # as a task has it
    starts = [100 * i for i in (*range(20), *range(30, 50), 3)]
    chunks = [(np.full(100, s, "f4"),) for s in starts]
    found = host.reduce_many(chunks, bound, (0,), [Place((s,), (5000,)) for s in starts])
    assert folds == [(40, 100), (100,)] and found["index"] == 4900


def test_chunks_whose_rows_lie_between_each_other(folds):
    chunks, places = chunks_of((np.dtype("f4"),))
    bound = OPERATORS["argmax"].bind("f4")
    host.reduce_many(chunks, bound, (0, 1), places)
    assert folds == [(4, 4, 5)] * 3
    equal = [(np.full(SHAPE, 7, "f4"),)] * 2
    assert host.reduce_many(equal, bound, (0, 1), [places[2], places[9]])["index"] == 10


def test_an_operator_of_ones_own_with_positions(folds):
    """What it does with them is not known."""
    bound = replace(OPERATORS["argmax"], name="mine").bind("f4")
    chunks, places = chunks_of((np.dtype("f4"),))
    host.reduce_many(chunks, bound, (0, 1), places)
    assert folds == [SHAPE] * 12


def test_large_chunks_are_not_copied(folds):
    bound, large = OPERATORS["sum"].bind("f4"), stack.SMALL // 4 + 1
    host.reduce_many([(np.ones(n, "f4"),) for n in (9, 9, large, large, 0, 0, 8)], bound, (0,))
    assert folds == [(2, 9), (large,), (large,), (0,), (0,), (8,)]
    folds.clear()
    many = 3 * stack.BLOCK // stack.SMALL
    host.reduce_many([(np.ones(large - 1, "f4"),)] * many, bound, (0,))
    assert {shape[0] for shape in folds} == {stack.BLOCK // stack.SMALL}
