"""Kernels of maps on the CPU: the same text, plans and task bytes as on a GPU, against the host's answers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cupy", reason="plans are made for CuPy arrays")

from expressions import sample
from simt import build
from simt.backend import Emulator, get, put
from simt.scans import Call, check
from simt.scans import unit as scan_unit
from tiers import one_in

from gpureduce_dask.chunk import Place
from gpureduce_dask.device import launch, map_cut, sources
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.expressions import tracer, whole
from gpureduce_dask.expressions.mapped import map_of, mapped
from gpureduce_dask.host import reduce as host
from gpureduce_dask.operators import table as operators
from gpureduce_dask.operators import weighted as spreads
from gpureduce_dask.operators.monoid import Bound, Monoid
from gpureduce_dask.operators.product_monoid import product

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def bound(function, op, *dtypes, masked=False, dtype=None):
    program = tracer.trace(function, tuple(map(np.dtype, dtypes)))
    values = program.results[:-1] if masked else program.results
    return mapped(program, operators.get(op).bind(*values, dtype=dtype), masked)


def arithmetic(x, y):
    x, y = x.astype("i4"), y.astype("i4")
    return x // (y - 3) + x % y + (x << 3) + (y >> 1) + np.maximum(x, y) * abs(x - y) + np.sign(y) + x**3 + (~x & 7)


def real(x, y):
    quotient = np.floor_divide(x, y) + x % y + np.hypot(x, 2.5) + np.fmin(x, y) - np.clip(y, -1, 1)
    return np.where(np.isfinite(quotient), quotient, np.arctan2(y, x)) + np.log1p(abs(x)) * np.copysign(1.5, y)


def extremes(x, y):
    missing = np.isnan(np.maximum(x, y)) * 4 + np.isnan(np.minimum(y, x)) * 2 + np.isnan(np.fmax(x, y) - np.fmin(y, x))
    return missing + np.where(np.isfinite(x) & np.isfinite(y), x % y + np.rint(x), np.signbit(x))


def truths(x, y):
    return ((x > 0) & np.isfinite(x)) | (x <= y) ^ ~np.isnan(y) | np.signbit(x)


def chosen(x, y, z, mask):
    return x * y + z, mask


REDUCED = {
    "squares": (bound(lambda x: (x - 0.5) ** 2, "sum", "f4"), ("f4",)),
    "product": (bound(lambda x, y: x * y, "var", "f4", "f4"), ("f4", "f4")),
    "truth": (bound(lambda x: x > 2, "any", "f4"), ("f4",)),
    "integers": (bound(arithmetic, "sum", "i1", "i4"), ("i1", "i4")),
    "real": (bound(real, "max", "f4", "f8"), ("f4", "f8")),
    "extremes": (bound(extremes, "sum", "f4", "f4"), ("f4", "f4")),
    "truths": (bound(truths, "count_nonzero", "f8", "f4"), ("f8", "f4")),
    "narrow": (bound(lambda x: np.exp(-abs(x)) * x + x, "mean", "f2"), ("f2",)),
    "unlike": (bound(lambda x, y: (x < y) * 2 + (x == y), "argmax", "i8", "u8"), ("i8", "u8")),
    "complex": (bound(lambda z: (z * z.conj() / (z + 2j)).real - abs(z), "sum", "c8"), ("c8",)),
    "cast": (bound(lambda x: x * 3, "sum", "f4", dtype="c16"), ("f4",)),
    "weighted": (bound(lambda x, w: (x, w * 2.5), spreads.SPREADS["std"], "f4", "u1"), ("f4", "u1")),
    "weighted moments": (bound(lambda x, w: (x, abs(w)), spreads.SPREADS["kurtosis"], "i1", "f4"), ("i1", "f4")),
    "some weights below zero": (
        bound(lambda x, w: (x, w * 2.0 - 1.7), spreads.SPREADS["moment"], "f8", "u1"),
        ("f8", "u1"),
    ),
    "chosen": (bound(lambda x, m: (x * 2, m), "nanargmin", "f4", "bool", masked=True), ("f4", "bool")),
    "moments": (bound(lambda x, m: (x * m, m), "skew", "i1", "bool", masked=True), ("i1", "bool")),
    "masked": (bound(lambda x, m: (x + 1, m), "var", "f4", "bool", masked=True), ("f4", "bool")),
    "three": (bound(lambda x, y, z: (x - y) * z, "sum", "i4", "i1", "f8"), ("i4", "i1", "f8")),
    "four": (bound(lambda x, y, z, w: np.where(x > y, z, w) * x, "nanmax", *["f4"] * 4), ("f4",) * 4),
    "four, masked": (bound(chosen, "argmin", "i4", "u1", "i2", "bool", masked=True), ("i4", "u1", "i2", "bool")),
    "in order": (bound(lambda a, b, c: (a % 2, b + c), "affine", "i1", "i1", "i2"), ("i1", "i1", "i2")),
}
SHAPES = (((5, 70), (1,)), ((70, 6), (0,)), ((300,), (0,)), ((150, 1), (1,)))  # the last: each element for itself


def elements(dtypes, shape):
    found = []
    for seed, dtype in enumerate(dtypes):
        if dtype == "c8":
            found.append((sample("f4", 5, shape) + 1j * sample("f4", 6, shape)).astype("c8"))
            found[-1][~np.isfinite(found[-1])] = 1 + 2j
        else:
            found.append(sample(dtype, seed, shape) if dtype != "u8" else sample("u1", seed, shape).astype("u8"))
    return found


def reduced(machine, name):
    operator, dtypes = REDUCED[name]
    for shape, axes in SHAPES:
        arrays = elements(dtypes, shape)
        partial = device_reduce.reduce(tuple(map(put, arrays)), operator, axes)
        if not machine.collecting:
            got = get(partial).view(operator.state)[..., 0]
            expected = host.reduce(tuple(arrays), operator, axes)
            if operator.indexed:  # -1 where nothing counts, which is no result
                np.testing.assert_array_equal(got["index"], expected["index"])
                continue
            results = (host.finalise(partial, operator) for partial in (got, expected))
            np.testing.assert_allclose(*results, rtol=2e-6, atol=1e-6)


def laid(number, dtype, seed, shape):
    """Elements, and how another array's lie among them: view number so much, of this shape."""
    rows, columns = shape
    base, view = (
        (shape, None),
        ((1, columns), lambda x: np.broadcast_to(x, shape)),
        ((rows, 1), lambda x: np.broadcast_to(x, shape)),
        (shape, lambda x: x[::-1, ::-1]),
        ((rows, columns + 1), lambda x: x[:, 1:]),  # begins within a vector
        ((columns, rows), lambda x: x.T),
        ((rows, columns + 6), lambda x: x[:, 2:-4]),
        # Begins within a vector as the one before does, and ends where that goes on.
        ((1, columns + 3), lambda x: np.broadcast_to(x[:, 3:], shape)),
    )[number]
    return sample(dtype, seed, base), view


VIEWS = (
    (0, 0, 0, 0),
    (0, 1, 2, 0),
    (4, 4, 4, 4),
    (3, 3, 0, 3),
    (1, 2, 5, 0),
    (5, 5, 5, 5),
    (4, 3, 2, 4),
    (6, 6, 7, 6),
    (6, 6, 6, 7),
    (0, 2, 2, 0),
    (4, 4, 2, 2),
)


def viewed(machine, views):
    """Four operands, each laid out as it likes, down columns, along rows and all together; then many such chunks."""
    operator, dtypes = REDUCED["four"]
    for shape, axes in (((6, 70), (1,)), ((70, 6), (0,)), ((20, 30), (0, 1))):
        pairs = [laid(view, dtype, seed, shape) for seed, (view, dtype) in enumerate(zip(views, dtypes, strict=True))]
        partial = device_reduce.reduce(tuple(put(base, view) for base, view in pairs), operator, axes)
        if not machine.collecting:
            arrays = [base if view is None else view(base) for base, view in pairs]
            got = host.finalise(get(partial).view(operator.state)[..., 0], operator)
            expected = host.finalise(host.reduce(tuple(arrays), operator, axes), operator)
            np.testing.assert_array_equal(got, expected)


def product_of(x, y, index):
    return (x.astype("f8") * y,)


def sum_of(earlier, later):
    return (earlier[0] + later[0],)


def total_of(state, dtype):
    return state[0]


OWN = Monoid(
    name="own_dot",
    fields={"value": "f8"},
    identity=(0.0,),
    lift=product_of,
    combine=sum_of,
    finalise=total_of,
    arity=2,
    unsafe_cuda="""
struct own_dot {
    struct State { f64 value; };
    static GR_HD State identity() { return {0}; }
    static GR_HD State lift(Pair<f32, i8> p, i64) { return {(f64)p.a * p.b}; }
    static GR_HD State combine(State earlier, State later) { return {earlier.value + later.value}; }
};""",
)
WEIGHED = {name: operators.get(name).bind("f4", "i1") for name in ("vdot", "average")}
WEIGHED["own"] = OWN.bind("f4", "i1")


def weighed(machine, name):
    """Operators of two arrays, which are no maps: the second is one number a row."""
    for shape, axes in (((6, 70), (1,)), ((70, 6), (0,)), ((20, 30), (0, 1))):
        x, (w, view) = np.nan_to_num(sample("f4", 1, shape), posinf=1, neginf=2), laid(2, "i1", 2, shape)
        partial = device_reduce.reduce((put(x), put(w, view)), WEIGHED[name], axes)
        if not machine.collecting:
            expected = host.reduce((x, view(w)), WEIGHED[name], axes)
            for field in expected.dtype.names:
                got = get(partial).view(WEIGHED[name].state)[..., 0][field]
                np.testing.assert_allclose(got, expected[field], rtol=1e-12, atol=1e-12)


def batched(machine):
    """More chunks than a launch takes, of which each finds its own four operands."""
    operator, dtypes = REDUCED["four, masked"]
    whole = elements(dtypes, (7, 70))
    chunks = [tuple(a[:, i : i + 1].copy() for a in whole) for i in range(70)]
    places = [Place((0, i), (7, 70)) for i in range(70)]
    partial = device_reduce.reduce_many([tuple(map(put, c)) for c in chunks], operator, (1,), places)
    if not machine.collecting:
        got, expected = get(partial).view(operator.state)[..., 0], host.reduce(tuple(whole), operator, (1,))
        np.testing.assert_array_equal(got["index"], expected["index"])


@pytest.fixture(scope="module")
def machine(request):
    """A machine with the kernels of those tests that are asked for."""
    asked = {item.name for item in request.session.items if item.path == request.path}
    emulator = Emulator(sources.source("maps.cuh"))

    def calls():
        for test, run, cases in OF_CASES:
            for number, case in enumerate(cases):
                if asked & {f"{test.__name__}[{case}]", f"{test.__name__}[views{number}]"}:
                    run(emulator, case)
        batched(emulator)

    emulator.adopt(build(emulator.collect(calls), libraries=2))
    return emulator


@pytest.mark.parametrize("name", one_in(3, REDUCED))
def test_reductions_of_maps(machine, name):
    with machine.installed():
        reduced(machine, name)


@pytest.mark.parametrize("views", one_in(3, VIEWS))
def test_four_operands_of_any_layout(machine, views):
    with machine.installed():
        viewed(machine, views)


@pytest.mark.parametrize("name", WEIGHED)
def test_operators_of_two_arrays_of_which_one_lies_still(machine, name):
    with machine.installed():
        weighed(machine, name)


OF_CASES = (
    (test_reductions_of_maps, reduced, REDUCED),
    (test_four_operands_of_any_layout, viewed, VIEWS),
    (test_operators_of_two_arrays_of_which_one_lies_still, weighed, WEIGHED),
)


def test_four_operands_of_many_chunks(machine):
    with machine.installed():
        batched(machine)


def test_positions_that_are_counted_and_told_together():
    """Of reals a kernel counts elements, of complex numbers it is told where each lies: in any order of axes."""
    maps = [map_of(bound(f, "argmax", "f4")) for f in (lambda x: x, lambda x: x * (1 + 0j))]
    parts = [mapped(m.program, m.inner, False, i) for i, m in enumerate(maps)]
    named = [Bound(replace(p.monoid, name=f"argmax_{i}"), p.dtypes) for i, p in enumerate(parts)]
    operator = product("map_reduce", tuple(named))
    x = np.random.default_rng(0).permutation(3000 * 38).reshape(3000, 38).astype("f4")
    emulator = Emulator(sources.source("maps.cuh"))

    def call():
        return device_reduce.reduce((put(x, lambda a: a.T),), operator, (0, 1))

    emulator.adopt(build(emulator.collect(call)))
    with emulator.installed():
        found = get(call()).view(operator.state)[..., 0]
    np.testing.assert_array_equal(found, host.reduce((x.T,), operator, (0, 1)))


def test_constants_are_values_of_a_launch(machine):
    """Another constant: the same kernel name and text, so nothing that was compiled for the first goes to waste."""
    one, other = (bound(lambda x, c=c: (x - c) ** 2, "sum", "f4") for c in (0.5, 0.25))
    assert one != other
    assert device_operator.cuda_operator(one) == device_operator.cuda_operator(other)
    (text, constants), (same, others) = device_operator.own_text(one), device_operator.own_text(other)
    assert text == same and constants != others


def test_scans_of_maps():
    operator = bound(lambda x, y: x * y + 1, "sum", "f4", "f4")
    x, y = (sample("f4", seed, (4, 90)) for seed in (1, 2))
    x[~np.isfinite(x)] = y[~np.isfinite(y)] = 1
    calls = [Call(operator, (x, y), 1), Call(operator, (x.T.copy(), y.T.copy()), 0, reverse=True)]
    text = sources.source("maps.cuh") + "\n#define " + _values(operator) + "\n" + device_operator.own_text(operator)[0]
    (kernels,) = build([scan_unit(calls, text)])
    for call in calls:
        check(kernels, call, "random")


def _values(operator):
    ((name, data),) = device_operator.own_text(operator)[1]
    return f"{name.removesuffix('constants')}values {', '.join(f'{v}ull' for v in np.frombuffer(data, np.uint64))}"


CUTS = {
    "weighted squares": (lambda x, y, z, w: (x - y) ** 2 * w + 1, 1),
    "shared": (lambda x, y, z, w: (x * y + z) * np.maximum(z, x * y), 1),
    "apart": (lambda x, y, z, w: x * y + z * w, 2),
    "choice": (lambda x, y, z, w: np.where(x > y, z, w) * x, 2),
    "masked": (lambda x, y, z, w: (np.sqrt(abs(x * y)), z > w), 2),
}


@pytest.mark.parametrize("name", CUTS)
def test_as_little_as_leaves_two_arrays_is_made_first(name, monkeypatch):
    function, steps = CUTS[name]
    arrays = tuple(np.random.default_rng(i).normal(size=(20, 9)).astype("f4") for i in range(4))
    program = tracer.trace(function, (np.dtype("f4"),) * 4)
    masked = name == "masked"
    operator = mapped(program, operators.get("sum").bind("f4"), masked)
    made = []
    evaluate = whole.evaluate
    monkeypatch.setattr(whole, "evaluate", lambda p, given: made.append(p) or evaluate(p, given))
    values, rest = map_cut.fit_operands(arrays, operator, 2)
    assert len(values) == 2
    assert sum(not node.is_leaf for p in made for node in p.nodes) == steps
    got, expected = (host.finalise(host.reduce(a, b, (0,)), b) for a, b in ((values, rest), (arrays, operator)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_of_six_arrays_four_are_left():
    arrays = tuple(np.random.default_rng(i).normal(size=(20, 9)).astype("f4") for i in range(6))
    operator = bound(lambda a, b, c, d, e, f: (a * b + c) * np.where(d > e, f, c), "sum", *["f4"] * 6)
    values, rest = map_cut.fit_operands(arrays, operator, 4)
    assert len(values) == 4
    assert sum(any(v is a for a in arrays) for v in values) == 3  # and the choice, in five bytes
    got, expected = (host.finalise(host.reduce(a, b, (0,)), b) for a, b in ((values, rest), (arrays, operator)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_programs_of_whole_arrays():
    """What CuPy computes where a kernel cannot read all arrays together."""
    x, y, z = (sample("f4", seed) for seed in range(3))
    program = tracer.trace(lambda x, y, z: (np.where(x > y, x * z, 2).astype("f8"), x + 1j), (x.dtype,) * 3)
    first, second = whole.evaluate(program, (x, y, z))
    np.testing.assert_array_equal(first, np.where(x > y, x * z, np.float32(2)).astype("f8"))
    np.testing.assert_array_equal(second, x + 1j)
    three = mapped(tracer.trace(lambda x, y, z: x * y + z, (x.dtype,) * 3), operators.get("sum").bind("f4"))
    found, narrow = map_cut.fit_operands((x, y, z), three, 2)
    assert found[0] is z and narrow.state == three.state  # and x * y beside it, nothing more
    np.testing.assert_array_equal(found[1], x * y)
    one = tracer.trace(lambda x, y, z: z * 2, (x.dtype,) * 3)
    found, narrow = map_cut.fit_operands((x, y, z), mapped(one, operators.get("sum").bind("f4")), 2)
    assert len(found) == 1 and found[0] is z
    assert narrow.dtypes == (z.dtype,)


@pytest.mark.parametrize("shape, axes", [((40, 300), (0, 1)), ((40, 300), (1,)), ((300, 40), (0,))])
def test_an_operand_that_lies_still_costs_no_vector(shape, axes, machine):
    """Weights along one axis: the others are read as they are without them, 16 bytes at a time."""
    found = []
    x, weights = put(sample("f4", 0, shape)), put(np.ones((shape[0], 1), "f4"), lambda w: np.broadcast_to(w, shape))
    cases = [(REDUCED["squares"][0], (x,)), (bound(lambda x, w: x * w, "sum", "f4", "f4"), (x, weights))]
    for operator, arrays in (*cases, (operators.get("vdot").bind("f4", "f4"), (x, weights))):
        with machine.installed(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "ready", lambda launches, *rest: found.append(launches[0].kernel) or ())
            patch.setattr(launch, "run", lambda *given: None)
            device_reduce.reduce(arrays, operator, axes)
    vectors = [re.search(r">>, (\d+), 256", kernel)[1] for kernel in found]
    assert vectors == ["4", "4", "4"]
