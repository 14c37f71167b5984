"""``import gpureduce_dask.xarray``: the public functions as methods of xarray's arrays."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

pytest.importorskip("xarray")

import xarray as xr

import gpureduce_dask as gr
import gpureduce_dask.xarray as accessor
from gpureduce_dask import errors

NOT_OF_AN_ARRAY = {"tree", "scan_tree", "device_meta", "warm"}
FUNCTIONS = [name for name in gr.__all__ if inspect.isfunction(getattr(gr, name))]
METHODS = [name for name in FUNCTIONS if name not in NOT_OF_AN_ARRAY]
ARGUMENTS = {
    "average": {"weights": np.arange(1.0, 5)},
    "grouped": {"labels": [0, 1, 1, 0], "op": "max"},
    "histogram": {"bins": 3, "range": (0, 9)},
    "map_reduce": {"f": np.square, "op": "sum"},
    "map_scan": {"f": np.square, "op": "sum"},
    "moment": {"order": 3},
    "plan": {"monoid": "sum"},
    "reduction": {"monoid": "sum"},
    "scan": {"monoid": "max"},
    "stats": {"names": ["min", "max"]},
    "vdot": {"b": np.ones((3, 4))},
}

STUB = Path(accessor.__file__).with_name("xarray_methods.pyi")
HEAD = '''\
"""The methods of the accessor of xarray's arrays, for type checkers and editors; at run time xarray.py makes them.

Written from the signatures of the functions by ``python tests/test_xarray_accessor.py``; a test compares the two.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xarray import Dataset

from .api.explain import Explanation
from .api.plan import Plan
from .api.summaries import Description, Descriptions, Statistics
from .operators.monoid import Monoid
from .parameters import Array, ArrayLike, Axis, Dims, DType, OneAxis, OneDim, SplitEvery

class Methods:
'''


def stub():
    """The text of the stub: a declaration a method, with annotations that stand in quotes as names."""
    signatures = {name: str(inspect.signature(getattr(accessor.Accessor, name))) for name in METHODS}
    bare = {name: re.sub(r"(: |-> )'(.*?)'", r"\1\2", text) for name, text in signatures.items()}
    whole = [re.sub("(?<!,) ", "~", f"def {name}{text}: ...") for name, text in bare.items()]  # broken after commas
    lines = [textwrap.fill(text, 116, subsequent_indent="    ").replace("~", " ") for text in whole]
    return HEAD + textwrap.indent("\n".join(lines), "    ") + "\n"


def test_type_checkers_see_the_methods_as_they_are():
    assert STUB.read_text() == stub(), "python tests/test_xarray_accessor.py writes the stub anew"


@pytest.fixture
def field():
    values = np.random.default_rng(0).integers(0, 9, (3, 4)).astype(float)
    return xr.DataArray(da.from_array(values, chunks=2), dims=("place", "time"), name="warm", attrs={"units": "K"})


def test_every_function_of_an_array_is_a_method():
    assert {name for name in vars(accessor.Accessor) if not name.startswith("_")} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_its_function(field, name):
    function, bound = getattr(gr, name), getattr(field.gr, name)
    assert bound.__doc__ == function.__doc__ and bound.__name__ == name
    parameters = inspect.signature(function).parameters
    own = inspect.signature(bound).parameters
    assert set(own) == set(parameters) - {"a", "x"}
    options = dict(ARGUMENTS.get(name, {}))
    if name == "bincount":
        field = field[0].astype(int).rename("count")
        bound = field.gr.bincount
    if "dim" in parameters:
        options["dim"] = "time"
    if name.startswith("map_"):
        want = function(options.pop("f"), options.pop("op"), field, **options)
    else:
        want = function(field, **options)
    got = bound(**ARGUMENTS.get(name, {}), **({"dim": "time"} if "dim" in parameters else {}))
    assert type(got) is type(want)
    if isinstance(want, xr.DataArray | xr.Dataset):
        xr.testing.assert_identical(got, want)
    else:
        assert repr(got) == repr(want)


def test_dim_stands_in_the_place_of_axis(field):
    for call, want in (
        (field.gr.sum("time"), gr.sum(field, dim="time")),
        (field.gr.sum(), gr.sum(field)),
        (field.gr.sum(axis=0), gr.sum(field, axis=0)),
        (field.gr.nanmean(["time", "place"]), gr.nanmean(field)),
        (field.gr.cumsum("place"), gr.cumsum(field, dim="place")),
        (field.gr.norm(2, "time"), gr.norm(field, 2, dim="time")),
        (field.gr.grouped([0, 1, 1, 0], "mean", "time"), gr.grouped(field, [0, 1, 1, 0], "mean", dim="time")),
        (field.gr.moment(2, "time", ddof=1), gr.moment(field, 2, dim="time", ddof=1)),
    ):
        xr.testing.assert_identical(call, want)
    both = field.gr.map_reduce(lambda x, y: x * y, ["min", "max"], field[0], dim="time")
    xr.testing.assert_allclose(both["max"], (field * field[0]).max("time").rename("max"))


def test_datasets(field):
    data = xr.Dataset({"warm": field, "line": ("time", np.arange(4.0))})
    xr.testing.assert_identical(data.gr.max("time"), gr.max(data, dim="time"))
    found = data.gr.stats(["mean", "std"], dim="time")
    xr.testing.assert_allclose(found["std"], data.std("time"))
    assert list(data.gr.describe()) == ["warm", "line"]
    with pytest.raises(errors.ArgumentTypeError, match=r"^bincount: a Dataset"):
        data.gr.bincount()


def test_errors(field):
    with pytest.raises(errors.AxisError, match=r"^sum: dim 'depth' of dimensions \('place', 'time'\)"):
        field.gr.sum("depth")
    with pytest.raises(errors.ArgumentTypeError, match=r"^sum: multiple values for argument 'dim'"):
        field.gr.sum("time", dim="time")
    with pytest.raises(errors.ArgumentTypeError, match=r"^stats: missing a required argument: 'names'"):
        field.gr.stats()
    with pytest.raises(errors.ArgumentError, match=r"^max: axis=0 and dim='time'"):
        field.gr.max("time", axis=0)


if __name__ == "__main__":
    STUB.write_text(stub())
