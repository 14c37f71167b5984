"""Every public name has a complete docstring by numpydoc's rules, whose examples run; signatures say what is taken."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

import dask.array as da
import numpy as np
import pytest

import gpureduce_dask as gr
from gpureduce_dask.api.options import TAKERS
from gpureduce_dask.api.summaries import Statistics
from gpureduce_dask.operators.shared_states import COUNTS
from gpureduce_dask.parameters import ELEMENTS, documented

FUNCTIONS = [name for name in gr.__all__ if callable(getattr(gr, name))] + ["cluster.start", "cluster.count_gpus"]
ERRORS = [f"errors.{name}" for name in gr.errors.__all__]
RESULTS = [f"api.summaries.{name}" for name in ("Statistics", "Description", "Descriptions")] + [
    "api.explain.Explanation"
]
RESULTS += ["api.plan.Plan", "api.plan.Share", "xarray.Accessor"]
METHODS = ["Monoid.with_options", "Monoid.bind"]

UNCHECKED = {
    "GL01": "in this project the summary stands on the line of the opening quotes",
    "ES01": "one line may say all, and Notes say the rest",
    "SA01": "not every function has a relative",
}
# Of what functions return and raise, and of methods: their functions have the examples, and dataclasses Attributes.
LESS = {"EX01", "PR01", "RT01"}


def found(name):
    value = gr
    for part in name.split("."):
        if not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


def described(name):
    """The parameters that a docstring describes, by their names."""
    text = inspect.getdoc(found(name))
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-{3,}$|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\*{0,2}(\w+)", section.group(1), re.MULTILINE) if section else []


def described_text(name, parameter):
    """What a docstring says of a parameter."""
    text = inspect.getdoc(found(name))
    return re.search(rf"^{parameter} : (.*?)(?=^\S)", text, re.MULTILINE | re.DOTALL).group(1)


@pytest.mark.parametrize("name", [*FUNCTIONS, *RESULTS, *ERRORS, *METHODS])
def test_numpydoc_has_no_complaint(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    unchecked = {*UNCHECKED} | (set() if name in FUNCTIONS else LESS)
    assert [error for error in validate(f"gpureduce_dask.{name}")["errors"] if error[0] not in unchecked] == []


WORDS = {"bool": "?", "integers": "i4", "floats": "f4", "complex numbers": "c8", "datetime64": "M8[s]"}
WORDS |= {"timedelta64": "m8[s]", "strings": "U3"}


@pytest.mark.parametrize("name", ELEMENTS)
def test_functions_take_the_elements_that_their_docstrings_name_and_no_others(name):
    assert f"dimensions. Elements are {ELEMENTS[name]}.\n" in inspect.getdoc(found(name))
    said = ELEMENTS[name].replace("times", "datetime64, timedelta64")
    axis = {"axis": 0} if "axis" in inspect.signature(found(name)).parameters else {}
    for word, dtype in WORDS.items():
        arguments = [da.from_array(np.zeros(4, dtype), chunks=2), *[2] * (name == "moment")]
        if word in said:
            found(name)(*arguments, **axis)
        else:
            with pytest.raises(gr.errors.DtypeError):
                found(name)(*arguments, **axis)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_has_notes(name):
    assert "\nNotes\n-----\n" in inspect.getdoc(found(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_are_described_with_their_dimensions(name):
    """Those that are reduced or scanned, which docstrings describe together or each by itself."""
    parameters = list(inspect.signature(found(name)).parameters)
    if parameters and parameters[0] in ("a", "x") and name not in ("explain", "persist"):
        assert "dimension" in described_text(name, parameters[0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_reference_begins_with_an_initial(name):
    """reStructuredText takes ``D. E. Knuth`` for item D of a list."""
    assert not re.search(r"^ *\.\. \[\d+\] [A-Z]\. ", inspect.getdoc(found(name)), re.MULTILINE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_parameter_is_described_and_no_other(name):
    assert described(name) == list(inspect.signature(found(name)).parameters)


def test_the_package_names_all_that_it_has():
    assert set(gr.__all__) <= set(re.findall(r"\w+", gr.__doc__))


@pytest.mark.parametrize("name", [*FUNCTIONS, *RESULTS, *ERRORS])
def test_examples_run(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (test,) = finder.find(found(name), name, globs={})
    assert test.examples or name not in FUNCTIONS
    text = []
    runner.run(test, out=text.append)
    assert not runner.failures, "".join(text)


def test_a_docstring_keeps_its_own_descriptions_and_gets_the_shared_ones():
    text = """Sum.

    Parameters
    ----------
    b : int
        Its own.
    **options
        More.

    Returns
    -------
    int
    """
    assert documented(text, ["axis", "b", "options"], {"axis": "int\n    Shared.", "b": "str\n    Not this."}) == (
        "Sum.\n\nParameters\n----------\naxis : int\n    Shared.\nb : int\n    Its own.\n**options\n    More.\n\n"
        "Returns\n-------\nint\n"
    )
    assert documented("Sum.\n\nNotes\n-----\nNone.", ["axis"], {"axis": "int\n    Shared."}) == (
        "Sum.\n\nParameters\n----------\naxis : int\n    Shared.\n\nNotes\n-----\nNone.\n"
    )
    assert documented("Sum.", ["axis"], {"axis": "int\n    Shared."}) == "Sum."
    assert documented(None, ["axis"], {}) is None


# ---- keywords: a signature has those that the function has a meaning for, and the others are refused by name

REDUCTIONS = [name for name in FUNCTIONS if "where" in inspect.signature(found(name)).parameters]
REDUCTIONS = [name for name in REDUCTIONS if name not in ("stats", "map_reduce")]
ROWS = {"norm": "norm2", "vector_norm": "norm2"}


@pytest.mark.parametrize("keyword", TAKERS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_signatures_have_the_keywords_of_their_operators(name, keyword):
    takes = keyword in inspect.signature(found(name)).parameters
    assert takes == (ROWS.get(name, name) in TAKERS[keyword])
    if not takes:
        arguments = [da.ones(3), 2] if name == "moment" else [da.ones(3)]
        with pytest.raises(gr.errors.ArgumentError, match=f"^{name}: {keyword}=; expected it with one of "):
            found(name)(*arguments, **{keyword: 1})
        found(name)(*arguments, **{keyword: None})  # is as good as none


def test_strategies_take_no_masks():
    with pytest.raises(gr.errors.ArgumentError, match=r"strategy= with where=, min_count="):
        gr.sum(np.ones(3), strategy="reduce-00", where=[True, True, False], min_count=1)
    assert gr.sum(np.ones(3), strategy="reduce-00", where=None).compute() == 3


# ---- results of several operators


def test_statistics_are_annotated_with_every_field_that_the_table_can_give():
    unnamed = {"moment", "moments"}  # which want an order, too
    rows = {name for name, row in gr.OPERATORS.items() if row.arity == 1} - unnamed
    assert set(Statistics.__annotations__) == rows | set(COUNTS)
    x = da.arange(1.0, 5.0, chunks=2)
    names = sorted(set(Statistics.__annotations__))
    result = gr.stats(x, names)
    assert isinstance(result, Statistics) and result._fields == tuple(names) and len(result) == len(names)
    assert int(result.count.compute()) == 4  # a field, and no method of tuples
    with pytest.raises(AttributeError):
        _ = gr.stats(x, ["min"]).max
