"""A plugin for pytest that switches ``gr.accelerate(numpy=True)`` on for the process: ``-p accelerated``, with this
folder on the path.

Warnings are errors where dask's own tests have them so. With ``--answers-alone`` two arrays have the same keys wherever
they are equal: for tests of answers that compare keys as well.
"""

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr

gr.accelerate(numpy=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--answers-alone", action="store_true", help="compare what arrays hold in the place of their keys")


def pytest_configure(config: pytest.Config) -> None:
    for module in ("dask", "numpy", "gpureduce_dask"):
        config.addinivalue_line("filterwarnings", f"error:::{module}[.*]")
    for marker in ("slow", "normal_and_array_expr"):  # dask's
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("answers_alone"):
        for module in {item.module for item in items if isinstance(item, pytest.Function)}:
            module.same_keys = _hold_the_same


def _hold_the_same(x: da.Array, y: da.Array) -> bool:
    return bool(np.array_equal(x.compute(scheduler="sync"), y.compute(scheduler="sync"), equal_nan=True))
