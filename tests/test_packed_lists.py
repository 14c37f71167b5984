"""Small partials of the host, many as one array: the same arrays in the same order, and the same results."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

from gpureduce_dask.graph import reduce_tasks
from gpureduce_dask.graph.reduce_tasks import merge
from gpureduce_dask.host import packed
from gpureduce_dask.operators import table as operators

serialize = pytest.importorskip("distributed.protocol").serialize_bytelist


def partials_of(bound, count, shape):
    rng = np.random.default_rng(count)
    found = [np.zeros(shape, bound.state) for _ in range(count)]
    for partial in found:
        for name, dtype in bound.fields:
            partial[name] = rng.integers(-3, 4, shape).astype(dtype)
    return found


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
@pytest.mark.parametrize("count", [*range(1, 12), 64, 65])
def test_what_stands_behind_each(count, shape):
    """Of an operator whose order matters, with integers, which are added and multiplied exactly."""
    bound = operators.get("affine").bind(np.dtype("f8"), np.dtype("f8"))
    first, *rest = partials_of(bound, count + 1, shape)
    for carry in (None, first):
        wanted, before = [], carry
        for partial in rest:
            before = merge([before, partial], bound)
            wanted.append(before)
        found = packed.running_partials(carry, rest, bound)
        assert len(found) == count
        for one, other in zip(found, wanted, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


UNLIKE = {
    "shapes": [np.zeros(1), np.zeros(2)],
    "dtypes": [np.zeros(1), np.zeros(1, "f4")],
    "none at all": [None, None],
    "no array": [np.zeros(1), 1.0],
    "nothing": [],
}


@pytest.mark.parametrize("case", UNLIKE)
def test_what_is_not_alike_stays_apart(case):
    items = packed.PackedList(UNLIKE[case])
    assert packed.stacked([i for i in items if i is not None]) is None
    found = pickle.loads(pickle.dumps(items))
    assert type(found) is packed.PackedList and len(found) == len(items)
    for one, other in zip(found, items, strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("gaps", [(), (0,), (0, 1, 7), (3, 40)])
def test_many_travel_as_one(gaps):
    bound = operators.get("var").bind(np.dtype("f4"))
    items = packed.PackedList(partials_of(bound, 40, (2,)))
    for gap in gaps:
        items.insert(gap, None)
    assert len(serialize(items)) <= 4
    found = pickle.loads(pickle.dumps(items))
    assert [i for i, item in enumerate(found) if item is None] == list(gaps)
    for one, other in zip(found, items, strict=True):
        if one is not None:
            np.testing.assert_array_equal(one, other)
            one[...] = 0  # which belongs to whoever got it


def test_the_partials_of_several_slices_travel_as_one():
    bound = operators.get("sum").bind(np.dtype("f4"))
    options = {"bound": bound, "offsets": [()], "layout": reduce_tasks.GroupLayout((0,))}
    runs = [functools.partial(reduce_tasks.reduce_chunks, keys=[i], **options) for i in range(9)]
    found = reduce_tasks.run_each([[np.ones((4, 3), "f4")]], runs=runs)
    assert len(serialize(found)) <= 4
    assert all(one["value"].tolist() == [[4.0, 4.0, 4.0]] for one in pickle.loads(pickle.dumps(found)))
