"""Calls of dask.array that a seed drew, on small arrays: the answers are plain dask's, and a wrong one is found."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from tiers import one_in

from gpureduce_dask.tools.bench import random_calls
from gpureduce_dask.tools.bench.random_calls import CALLS, agree, draws


@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_answers_are_those_of_plain_dask(seed, tmp_path):
    result = random_calls.run(seed, 25, 0.5, tmp_path / "random.json")
    assert random_calls.is_clean(result), random_calls.summary(result)
    assert random_calls.summary(result).startswith(f"seed {seed}, ")


def test_every_call_is_drawn_with_chunks_of_both_kinds():
    some = list(islice(draws(0, 1e6), 400))
    assert {draw.call for draw in some} == {*CALLS}
    assert {(draw.views, draw.gaps) for draw in some} == {(a, b) for a in (True, False) for b in (True, False)}
    assert some == list(islice(draws(0, 1e6), 400))


def test_what_differs_is_told():
    x = np.arange(5.0)
    assert agree(x, x + 1e-9) and agree(np.array([1, np.nan]), np.array([1, np.nan]))
    assert not agree(x, x + 0.1)
    assert not agree(x, x.astype("f4"))
    assert not agree(x, x[:4])
    assert not agree(np.arange(3), np.arange(3) + 1)
