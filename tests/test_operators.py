"""The table of operators: what is in it, the layout of its states, the dtypes of its results, what it refuses."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from dask.tokenize import tokenize
from strategies import BFLOAT16, CASES, DTYPES, PAIRS, SINGLE, case_id, takes, values

from gpureduce_dask import Monoid, errors
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators.table import OPERATORS, get

NAMES = """
sum prod min max any all count_nonzero sumsq norm1 norm2 norminf mean var std moments moment skew kurtosis argmin argmax
ptp nansum nanprod nanmin nanmax nanmean nanvar nanstd nanargmin nanargmax vdot average first last affine
""".split()


def test_the_table():
    assert sorted(OPERATORS) == sorted(NAMES)
    assert all(row.name == name for name, row in OPERATORS.items())
    with pytest.raises(TypeError):
        OPERATORS["sum"] = OPERATORS["max"]
    with pytest.raises(AttributeError):
        OPERATORS["sum"].name = "total"


def functions_of(row):
    for name in row.__dataclass_fields__:
        value = getattr(row, name)
        if callable(value):
            yield value.of if name == "result" else value


@pytest.mark.parametrize("row", OPERATORS.values(), ids=case_id)
def test_rows_are_made_of_module_level_functions(row):
    assert all(f.__qualname__ == f.__name__ for f in functions_of(row))
    again = pickle.loads(pickle.dumps(row))
    assert again == row
    assert tokenize(again) == tokenize(row)
    assert row.cuda and (row.fold or row.name == "affine")
    assert row.commutative == (row.name not in ("first", "last", "affine"))


def test_a_bound_operator_is_read_once_by_a_process():
    bound = get("var").bind("f4")
    again = pickle.loads(pickle.dumps(bound))
    assert again == bound and tokenize(again) == tokenize(bound)
    assert pickle.loads(pickle.dumps(get("var").bind("f4"))) is again


def test_get():
    assert get("sum") is OPERATORS["sum"]
    assert get(OPERATORS["max"]) is OPERATORS["max"]
    with pytest.raises(errors.OperatorError, match=r"'varr'.*Did you mean var"):
        get("varr")
    with pytest.raises(errors.OperatorError, match=r"Choose from .*sum"):
        get("qqqqqq")
    with pytest.raises(errors.OperatorError):
        get(["sum"])


# ---- states: byte for byte the structs of the kernels

STATES = {
    ("sum", "?"): "value:i8",
    ("sum", "i2"): "value:i8",
    ("sum", "u1"): "value:u8",
    ("sum", "f2"): "value:f8",
    ("sum", BFLOAT16): "value:f8",
    ("sum", "f4"): "value:f8",
    ("sum", "f8"): "hi:f8 lo:f8",
    ("sum", "c8"): "value:c16",
    ("nansum", "c16"): "re_hi:f8 re_lo:f8 im_hi:f8 im_lo:f8",
    ("sum", "m8[s]"): "value:i8 nat:i8",
    ("prod", "f8"): "value:f8 exponent:i8",
    ("prod", "c8"): "value:c16 exponent:i8",
    ("min", "f4"): "value:f4",
    ("max", BFLOAT16): f"value:{BFLOAT16}",
    ("nanmin", "c8"): "value:c8 index:i8",
    ("any", "f8"): "value:?",
    ("count_nonzero", "u1"): "value:i8",
    ("sumsq", "u1"): "value:u8",
    ("sumsq", "f8"): "hi:f8 lo:f8",
    ("sumsq", "c8"): "value:f8",
    ("norm2", "c16"): "hi:f8 lo:f8",
    ("norm2", "i8"): "value:f8",
    ("norm1", "i4"): "value:f8",
    ("norm1", "i8"): "hi:f8 lo:f8",
    ("norm1", "c8"): "value:f8",
    ("norminf", "f2"): "value:f8",
    ("mean", "u4"): "value:i8 count:i8",
    ("mean", "i8"): "hi:f8 lo:f8 count:i8",
    ("nanmean", "f4"): "value:f8 count:i8",
    ("mean", "m8[s]"): "value:i8 nat:i8 count:i8",
    ("var", "f4"): "count:f8 mean:f8 m2:f8",
    ("nanvar", "u4"): "count:f8 mean_hi:f8 mean_lo:f8 m2:f8",
    ("nanstd", "c8"): "count:f8 mean:c16 m2:f8",
    ("moments", "f8"): "count:f8 mean:f8 m2:f8 m3:f8 m4:f8",
    ("argmax", "f2"): "value:f2 index:i8",
    ("ptp", "u1"): "low:u1 high:u1",
    ("first", "f2"): "value:f2 seen:?",
    ("last", "M8[s]"): "value:M8[s] seen:?",
    ("affine", "f4", "f8"): "a:f8 b:f8 exponent:i8",
    ("affine", "u1", "u2"): "a:u8 b:u8",
    ("affine", "u1", "i2"): "a:i8 b:i8",
    ("vdot", "f4", "f2"): "value:f8",
    ("vdot", "f4", "f8"): "hi:f8 lo:f8",
    ("vdot", "c8", "f4"): "value:c16",
    ("vdot", "f8", "c8"): "re_hi:f8 re_lo:f8 im_hi:f8 im_lo:f8",
    ("vdot", "u1", "u2"): "value:u8",
    ("vdot", "u1", "i2"): "value:i8",
    ("average", "f4", "f2"): "total:f8 weight:f8",
    ("average", "f8", "f4"): "total_hi:f8 total_lo:f8 weight_hi:f8 weight_lo:f8",
    ("average", "i4", "i4"): "total_hi:f8 total_lo:f8 weight_hi:f8 weight_lo:f8",
    ("average", "c8", "f2"): "total:c16 weight:f8",
    ("average", "f4", "c8"): "total:c16 weight:c16",
    ("average", "c8", "u1"): "total_re_hi:f8 total_re_lo:f8 total_im_hi:f8 total_im_lo:f8 weight_hi:f8 weight_lo:f8",
}


@pytest.mark.parametrize("case", STATES, ids=str)
def test_states(case):
    name, *dtypes = case
    bound = get(name).bind(*dtypes)
    pairs = [pair.split(":") for pair in STATES[case].split()]
    assert bound.fields == tuple((f, BFLOAT16 if d == str(BFLOAT16) else np.dtype(d)) for f, d in pairs)
    assert bound.state.isalignedstruct


# ---- dtypes


@pytest.mark.parametrize(("row", "dtype"), CASES, ids=case_id)
def test_result_dtypes_are_numpys(row, dtype):
    x = values((3, 2), dtype, special=False)
    kind = "f" if dtype == BFLOAT16 else dtype.kind
    if row.name in ("var", "std", "nanvar", "nanstd") or row.name.startswith("norm"):
        want = np.dtype("f8") if kind in "biu" else x.real.dtype
    elif row.name in ("first", "last"):
        want = dtype
    elif row.name in ("moments", "moment", "skew", "kurtosis"):
        want = np.dtype("f8") if kind in "biu" else dtype
    elif row.name == "sumsq":
        want = x.real.dtype if kind in "fc" else np.sum(x).dtype
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = getattr(np, row.name)(x, axis=0).dtype
    assert row.bind(dtype).result == want


@pytest.mark.parametrize(("row", "x", "y"), PAIRS, ids=case_id)
def test_result_dtypes_of_two_arrays(row, x, y):
    common = np.result_type(x, y)
    if row.name == "average" and np.dtype(x).kind in "biu":  # as np.average has it, whatever the weights
        common = np.result_type(common, "f8")
    assert row.bind(x, y).result == common


@pytest.mark.parametrize("row", SINGLE, ids=case_id)
def test_what_no_operator_takes(row):
    for dtype in ("O", "U3", "S3", "g", "G", [("a", "f4")]):
        if np.dtype(dtype) in (np.dtype("f8"), np.dtype("c16")):
            continue  # long double is float64 on some platforms
        with pytest.raises(errors.DtypeError, match=row.name):
            row.bind(dtype)


def test_what_some_operators_refuse():
    refused = {"sum": "M8[s]", "mean": "M8[s]", "prod": "m8[s]", "var": "m8[s]", "ptp": "c8", "moments": "c16"}
    for name, dtype in refused.items():
        with pytest.raises(errors.DtypeError, match=rf"{name}: dtype .*expected one of .*Convert"):
            get(name).bind(dtype)
    assert not takes(get("ptp"), "?")
    with pytest.raises(errors.DtypeError, match="common"):
        get("vdot").bind("i2", BFLOAT16)
    with pytest.raises(errors.ArgumentError, match=r"argmax: dtype=.*no dtype"):
        get("argmax").bind("f4", dtype="i4")
    with pytest.raises(errors.DtypeError, match="sum"):
        get("sum").bind("f4", dtype="O")
    with pytest.raises(errors.ArgumentError, match="arity"):
        get("vdot").bind("f4")


def test_elements_are_cast_where_the_kind_changes():
    def elements(name, given, asked):
        return get(name).bind(given, dtype=asked).elements[0]

    assert elements("sum", "i4", "f4") == "f4"
    assert elements("sum", "f8", "i4") == "i4"
    assert elements("sum", "f4", "f8") == "f4"
    assert elements("sum", "?", "i1") == "?"
    assert elements("var", "i8", "f4") == "i8"
    assert elements("min", ">f4", None) == np.dtype("=f4")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_identities_are_of_the_fields_dtypes(dtype):
    for row in (r for r, d in CASES if d == dtype):
        bound = row.bind(dtype)
        assert len(bound.identity) == len(bound.fields)
        assert bound.identities((2,)).dtype == bound.state


# ---- operators of one's own


def log_lift(x, index):
    return np.log(x), 1


def log_combine(a, b):
    return tuple(p + q for p, q in zip(a, b, strict=True))


def log_finalise(state, dtype):
    return np.exp(state[0] / state[1])


GEOMETRIC_MEAN = Monoid(
    name="geometric_mean",
    fields={"logs": float, "count": int},
    identity=(0.0, 0),
    lift=log_lift,
    combine=log_combine,
    finalise=log_finalise,
)


def torque_lift(x, index):
    return x * index, x


def torque_finalise(state, dtype):
    return state[0] / state[1]


CENTRE = Monoid(
    name="centre",
    fields={"torque": float, "mass": float},
    identity=(0.0, 0.0),
    lift=torque_lift,
    combine=log_combine,
    finalise=torque_finalise,
)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("order", "CF")
def test_monoids_of_ones_own(axes, order):
    x = np.asarray(np.random.default_rng(0).random((30, 41, 29)) + 1, order=order)
    bound = GEOMETRIC_MEAN.bind("f8")
    got = host_reduce.finalise(host_reduce.reduce((x,), bound, axes), bound)
    np.testing.assert_allclose(got, np.exp(np.log(x).mean(axis=axes, keepdims=True)), rtol=1e-12)
    assert got.dtype == "f8"

    bound = CENTRE.bind("f8")
    kept = [a for a in range(3) if a not in axes]
    line = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[a] for a in kept), -1)
    want = (line * np.arange(line.shape[-1])).sum(axis=-1) / line.sum(axis=-1)
    got = host_reduce.finalise(host_reduce.reduce((x,), bound, axes), bound)
    np.testing.assert_allclose(got, want.reshape(got.shape), rtol=1e-12)


def first_fold(block, index):
    return (block[:, 0],)


def first_lift(x, index):
    return (x,)


def first_combine(earlier, later):
    return earlier


def first_finalise(state, dtype):
    return state[0]


@pytest.mark.parametrize(("name", "worst"), [("nanmin", np.inf), ("nanmax", -np.inf)])
def test_a_state_of_a_gpu_that_has_no_complex_number_is_nan(name, worst):
    bound = OPERATORS[name].bind("c16")
    states = np.array([(complex(worst, worst), -1), (complex(worst, worst), 0)], bound.state)
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        found = host_reduce.finalise(states, bound)
    assert np.isnan(found[0].real) and np.isnan(found[0].imag) and found[1] == complex(worst, worst)


def test_a_fold_may_give_views_of_its_block():
    functions = {"lift": first_lift, "combine": first_combine, "finalise": first_finalise, "fold": first_fold}
    row = Monoid(name="first", fields={"value": "f8"}, identity=(0,), commutative=False, **functions)
    x = np.random.default_rng(0).random((700, 300)).astype(">f8")
    for axis in (0, 1):
        bound = row.bind("f8", dtype="f8")
        got = host_reduce.finalise(host_reduce.reduce((x,), bound, (axis,)), bound)
        np.testing.assert_array_equal(got, np.take(x, [0], axis))
