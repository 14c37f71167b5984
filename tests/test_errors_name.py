"""Every error at a call names the function that was called, whatever part of the package found the fault."""

from __future__ import annotations

import inspect

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

X = da.ones((4, 6), chunks=3)
MORE = {"moment": [2], "reduction": ["sum"], "scan": ["sum"], "plan": ["sum"], "stats": [["std", "max"]]}
MORE |= {"histogram": [3, (0, 1)], "vdot": [X], "grouped": [np.zeros((4, 6), int)]}
APART = {"tree", "scan_tree", "device_meta", "warm"}
NAMES = [name for name in gr.__all__ if inspect.isfunction(getattr(gr, name)) and name not in APART]
TAKES = {name: set(inspect.signature(getattr(gr, name)).parameters) for name in NAMES}


def call(name, x, **arguments):
    if name.startswith("map_"):
        return getattr(gr, name)(np.abs, "sum", x, **arguments)
    return getattr(gr, name)(x, *MORE.get(name, []), **arguments)


ORDERED = {*"min max nanmin nanmax ptp argmin argmax nanargmin nanargmax".split()}
TIMES = ORDERED | {*"any all mean std nanmean count_nonzero cummin cummax ffill bfill persist describe".split()}
TIMES |= {"map_reduce", "map_scan"}
FOR_NOTHING = {*NAMES} - ORDERED - {"describe"}

# What is wrong, the argument that says so (None: the array itself), and functions in which it is not wrong.
WRONG = [
    ("generator", None, lambda: (i for i in range(3)), ()),
    ("mapping", None, lambda: {"a": 1}, ()),
    ("nothing", None, lambda: None, ()),
    ("ragged", None, lambda: [[1], [2, 3]], ()),
    (
        "strings",
        None,
        lambda: np.array(["a", "b"]),
        ("any", "all", "count_nonzero", "persist", "map_reduce", "map_scan"),
    ),
    ("axis", "axis", lambda: 2, ()),
    ("axis twice", "axis", lambda: (0, 0), ()),
    ("axis of text", "axis", lambda: "x", ()),
    ("split_every", "split_every", lambda: 1, ()),
    ("mask of another shape", "where", lambda: np.ones(5, bool), ()),
    ("mask of numbers", "where", lambda: np.ones((4, 6)), ()),
    ("generator as mask", "where", lambda: (b for b in [True]), ()),
    ("weights of another shape", "weights", lambda: np.ones(5), ()),
    ("min_count", "min_count", lambda: -1, ()),
    ("initial", "initial", lambda: "a", ()),
    ("segments", "segments", lambda: np.ones(5, bool), ()),
    ("dim", "dim", lambda: "time", ()),
    ("ddof", "ddof", lambda: "a", ()),
    ("method", "method", lambda: "fast", ()),
    ("group", "group", lambda: 0, ()),
    ("dtype", "dtype", lambda: "float3", ()),
    ("out", "out", lambda: np.ones(3), ()),
    ("no time", None, lambda: np.array(["2020-01-01"], "M8[D]"), TIMES),
    ("nothing in it", None, lambda: np.ones((0, 3)), FOR_NOTHING),
]
CASES = [
    pytest.param(name, argument, make, id=f"{name}-{what}")
    for what, argument, make, fine in WRONG
    for name in NAMES
    if name not in fine and (argument is None or argument in TAKES[name])
]


@pytest.mark.parametrize("name, argument, make", CASES)
def test_the_function_is_named(name, argument, make):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}( by \w+)?(: |\(\))"):
        call(name, X if argument else make(), **({argument: make()} if argument else {}))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"persist"}))  # whose keywords are dask's
def test_keywords_that_nobody_knows(name):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}( by \w+)?(: |\(\)).*nonsense"):
        call(name, X, nonsense=1)


def test_arguments_in_the_wrong_place():
    for name, wrong in {
        "map_reduce": lambda: gr.map_reduce("sum", np.abs, X),
        "map_scan": lambda: gr.map_scan("sum", np.abs, X, axis=0),
        "scan": lambda: gr.scan(X, np.add, axis=0),
        "reduction": lambda: gr.reduction(X, np.sum),
        "stats": lambda: gr.stats(X, np.sum),
        "bincount": lambda: gr.bincount([1, 2], minlength=None),
        "tree by var": lambda: gr.tree("var", "f4", dof=1),
        "plan": lambda: gr.plan(X, "summ"),
    }.items():
        with pytest.raises(gr.errors.GpureduceError, match=f"^{name}: .*; expected"):
            wrong()
