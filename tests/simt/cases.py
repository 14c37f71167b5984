"""What the emulated GPU is tried on: arrays, layouts and operators, and the answers of the host."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu.samples import DTYPES, close, make, rows, view_of
from plan_machine import taken

from gpureduce_dask import chunk, errors
from gpureduce_dask.chunk import Place
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device import tuning
from gpureduce_dask.host import reduce as host_reduce
from gpureduce_dask.operators.monoid import Bound, Monoid
from gpureduce_dask.operators.table import OPERATORS

from .backend import Emulator, get, put


@dataclass(frozen=True)
class Layout:
    """A shape, the reduced axes, and a view of the array; each leads to another kernel, or another edge of one."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    view: Any = None
    way: str = ""  # that it is taken where it can be, whatever is predicted of arrays so small


LINE = Layout((20011,), (0,), way="blocks a line")
LAYOUTS = {
    "line": LINE,
    "line inside": Layout((20011,), (0,), lambda x: x[3:-2], way="blocks a line"),
    "line backwards": Layout((9001,), (0,), lambda x: x[::-1], way="blocks a line"),
    "line with gaps": Layout((9001,), (0,), lambda x: x[1::3], way="blocks a line"),
    "one element": Layout((1,), (0,)),
    "long rows": Layout((3, 9001), (1,), way="blocks a line"),
    "more rows than blocks": Layout((8, 9001), (1,), way="blocks a line"),
    "rows with edges": Layout((5, 2411), (1,), lambda x: x[:, 1:-1], way="blocks a line"),
    "short rows": Layout((901, 32), (1,), way="subwarp rows"),
    "even rows": Layout((901, 48), (1,), lambda x: x[:, :32], way="own slots"),
    "rows of words": Layout((41, 4, 31, 24), (3,), lambda x: x[:, ::2, :, :8], way="own words"),
    "few short rows": Layout((40, 35), (1,), lambda x: x[:, 1:-1], way="own slots"),
    "few short rows to the end": Layout((40, 35), (1,), lambda x: x[:, 1:], way="own slots"),
    "staged rows": Layout((3401, 7), (1,), way="staged rows"),
    "staged rows inside": Layout((3401, 7), (1,), lambda x: x[1:], way="staged rows"),
    "long staged rows": Layout((1700, 13), (1,), way="staged rows"),
    "subwarp rows": Layout((501, 33), (1,), way="subwarp rows"),
    "long subwarp rows": Layout((70, 501), (1,), way="subwarp rows"),
    "subwarp runs": Layout((5, 301, 33), (0, 2), way="subwarp runs"),
    "long subwarp runs": Layout((3, 70, 501), (0, 2), way="subwarp runs"),
    "staged rows apart": Layout((1201, 11), (1,), lambda x: x[:, 3:-1], way="staged rows"),
    "staged rows in planes": Layout((5, 700, 7), (2,), lambda x: x[:, 1:-2], way="staged rows"),
    "subwarp rows apart": Layout((301, 3, 33), (2,), lambda x: x[:, 1:2], way="subwarp rows"),
    "subwarp rows in planes": Layout((7, 41, 101), (2,), lambda x: x[:, 1:-1, 2:-3], way="subwarp rows"),
    "subwarp runs in planes": Layout((5, 4, 91, 33), (1, 3), lambda x: x[:, :, 1:-1, 1:], way="subwarp runs"),
    "rows one row on": Layout((302, 101), (1,), lambda x: x[1:], way="subwarp rows"),
    "rows of several slots": Layout((301, 200), (1,), way="subwarp a line"),
    "even rows of several slots": Layout((301, 208), (1,), lambda x: x[:, :192], way="subwarp a line"),
    "short lines": Layout((6, 50, 33), (0, 2), lambda x: x[:, :, 1:], way="blocks short lines"),
    "short lines as columns": Layout((7, 53, 38, 3), (0, 1, 3), way="columns first"),
    "short lines as columns of planes": Layout((3, 1600, 4, 3), (1, 3), lambda x: x[:, :, ::-1], way="columns first"),
    "short lines as columns with gaps": Layout(
        (61, 5, 9, 8), (0, 3), lambda x: x.transpose(0, 2, 1, 3)[..., 1:6], way="columns first"
    ),
    "short lines as columns, in any order": Layout(
        (5, 40, 6, 3), (0, 1, 3), lambda x: x.transpose(1, 0, 2, 3), way="outer runs of rows"
    ),
    "long lines": Layout((3, 2, 2500), (0, 2), lambda x: x[:, :, 5:], way="blocks long lines"),
    "columns": Layout((517, 70), (0,), way="columns"),
    "short columns": Layout((7, 2602), (0,), way="columns"),
    "five rows": Layout((5, 2048), (0,), way="columns"),  # no power of two, and fewer than are loaded at a time
    "short columns inside": Layout((5, 9, 528), (1,), lambda x: x[..., 3:-2], way="columns"),
    "short columns in reverse": Layout((9, 3, 1403), (0,), lambda x: x[:, ::-1, :0:-1], way="columns"),
    "few columns": Layout((9000, 3), (0,), way="flat columns"),
    "few columns apart": Layout((1801, 26), (0,), lambda x: x[1:, 1:-1], way="flat columns"),
    "few columns of steps": Layout((3, 1201, 23), (1,), lambda x: x[:, :, ::3], way="flat columns"),
    "few columns of planes": Layout((90, 6, 7, 5), (0, 1, 2), lambda x: x[:, ::2], way="inner runs as columns"),
    "columns end to end": Layout((2133, 31), (0,), way="columns end to end"),
    "columns of planes end to end": Layout((3, 565, 29), (1,), way="columns end to end"),
    "columns inside": Layout((300, 1032), (0,), lambda x: x[::-1, 5:-3], way="columns"),
    "columns of odd stride": Layout((900, 6), (0,), lambda x: x[:, :5]),
    "columns with gaps end to end": Layout((1531, 31), (0,), lambda x: x[1:, 1:-1], way="columns end to end"),
    "columns of planes with gaps end to end": Layout(
        (3, 1203, 31), (1,), lambda x: x[::-1, :, 1:], way="columns end to end"
    ),
    "columns far apart end to end": Layout((1401, 6, 2), (0, 1), lambda x: x[:, ::3], way="columns end to end"),
    "staged planes": Layout((901, 5, 9), (1,), lambda x: x[::-1, 1:], way="staged planes"),
    "staged planes apart": Layout((3, 301, 3, 23), (2,), lambda x: x[:, 1:-1, :, 1:-1], way="staged planes"),
    "staged columns": Layout((3, 29, 1403), (1,), lambda x: x[:, ::-1, 2:-1], way="staged columns"),
    "staged columns one on": Layout((31, 511), (0,), lambda x: x[:, 1:-1], way="staged columns"),
    "strided rows of a thread": Layout((2001, 78), (1,), lambda x: x[:, ::3], way="rows as columns"),
    "rows of another order": Layout((3001, 38), (0, 1), lambda x: x.T, way="subwarp long lines"),
    "rows of another order of three": Layout(
        (3, 409, 7, 8), (1, 2, 3), lambda x: x.transpose(0, 3, 1, 2), way="blocks short lines"
    ),
    "columns in any order": Layout(
        (4, 13, 40, 21), (0, 1, 2), lambda x: x.transpose(1, 0, 2, 3), way="inner runs as columns"
    ),
    "columns of two strides": Layout((40, 5, 7, 33), (0, 2), way="outer runs of columns"),
    "columns with gaps": Layout((300, 6, 9), (0,), lambda x: x[::-1, :, 1:-1]),
    "planes": Layout((20, 30, 40), (1,), way="columns"),
    "transposed": Layout((20, 30, 40), (1, 2), lambda x: x.transpose(2, 0, 1)),
    "many dimensions": Layout((6, 5, 4, 3, 2, 3), (0, 2, 5), lambda x: x[:, ::-1, :, ::2], way="subwarp short lines"),
    "broadcast": Layout((40, 1000), (0,), "broadcast"),
}
END_TO_END = ("columns end to end", "columns with gaps end to end", "columns of planes with gaps end to end")
TABLE_LAYOUTS = (
    *("line inside", "rows with edges", "columns", "staged rows", "short rows", "short lines", "planes"),
    *("columns of odd stride", "short columns", "subwarp rows", "subwarp runs", "rows one row on", "staged columns"),
    *("staged planes", "staged planes apart"),
)


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PARTIAL, BOTH = (False,), (False, True)


@dataclass(frozen=True)
class Case:
    """One reduction of one chunk."""

    bound: Bound
    layout: str
    seed: int = 0
    finish: str = "ticket"
    nan: bool = False
    forms: tuple[bool, ...] = BOTH  # the partial; the results in one launch

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        shape = LAYOUTS[self.layout].shape
        arrays = [make(shape, d, self.seed + i, self.nan) for i, d in enumerate(self.bound.dtypes)]
        if self.bound.name == "average":
            arrays[1] = arrays[1] + 3 if arrays[1].dtype.kind == "c" else np.abs(arrays[1]) + 1
        return arrays

    def check(self, machine: Emulator) -> None:
        """The partial and the results of the emulated GPU, against the host's."""
        bound, layout = self.bound, LAYOUTS[self.layout]
        arrays = self.arrays()
        hosts = tuple(view_of(a, layout.view) for a in arrays)
        chunks = tuple(put(a, lambda x: view_of(x, layout.view), self.seed % 2 == 1) for a in arrays)
        with taken(layout.way):
            for final in self.forms:
                ours = device_reduce.reduce(chunks, bound, layout.axes, finish=self.finish, final=final)
                if not machine.collecting:
                    self.compare(get(ours) if final else unpacked(ours, bound), hosts, final)

    def compare(self, ours: np.ndarray[Any, Any], hosts: tuple[np.ndarray[Any, Any], ...], final: bool) -> None:
        bound = self.bound
        wanted = host_reduce.reduce(hosts, bound, LAYOUTS[self.layout].axes)
        if bound.name.startswith("nanarg"):  # a slice of NaN has no answer, but it has a state
            np.testing.assert_array_equal(ours if final else ours["index"], wanted["index"])
            return
        terms = max(1, hosts[0].size // max(1, wanted.size))
        if bound.name in ("skew", "kurtosis"):
            terms *= 10000  # differences of moments that are close to each other
        ours, wanted = ours if final else host_reduce.finalise(ours, bound), host_reduce.finalise(wanted, bound)
        if wanted.dtype == BFLOAT16:
            ours, wanted = ours.view("u2").astype("i4"), wanted.view("u2").astype("i4")
            np.testing.assert_allclose(ours, wanted, atol=1)  # neighbours, or the same
            return
        close(ours, wanted, bound, terms)


def unpacked(partial: Any, bound: Bound) -> np.ndarray[Any, Any]:
    return get(partial).view(bound.state)[..., 0]


@contextmanager
def small_grids() -> Iterator[None]:
    """Few blocks to a full grid, so that small arrays make blocks go round."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BLOCKS", "HEAVY_BLOCKS", "ROW_BLOCKS", "COLUMN_BLOCKS", "GRID"):
            patch.setattr(tuning, name, 6)
        for name in ("ONE_WAVE", "FEW_BLOCKS", "TILES_PER_WARP"):
            patch.setattr(tuning, name, 4)
        patch.setattr(tuning, "POLLED_GROUPS", 1)  # others have tickets
        yield


AFFINE = """
struct Affine {  // x -> a x + b, first the earlier map and then the later: associative, and never commutative
    struct State { u64 a, b; };
    static GR_HD State identity() { return {1, 0}; }
    static GR_HD State lift(i32 x, i64) { return {2 * (u64)(i64)x + 1, 1}; }
    static GR_HD State combine(State earlier, State later) {
        return {later.a * earlier.a, later.a * earlier.b + later.b};
    }
};
"""


def affine_lift(x: Any, index: Any) -> tuple[Any, Any]:
    wide = x.astype(np.int64).view(np.uint64)
    return np.uint64(2) * wide + np.uint64(1), np.ones_like(wide)


def affine_combine(earlier: Any, later: Any) -> tuple[Any, Any]:
    return later[0] * earlier[0], later[0] * earlier[1] + later[1]


def affine_value(state: Any, dtype: Any) -> Any:
    return (state[0] * np.uint64(12345) + state[1]).astype(dtype)


affine = Monoid(
    name="Affine",
    fields={"a": "u8", "b": "u8"},
    identity=(1, 0),
    lift=affine_lift,
    combine=affine_combine,
    finalise=affine_value,
    result=lambda *dtypes, dtype=None: np.dtype("u8"),
    commutative=False,
    unsafe_cuda=AFFINE,
)

FARTHEST = """
struct Farthest {  // where two arrays differ most
    struct State { f64 apart; i64 index; };
    static GR_HD State identity() { return {-1, -1}; }
    static GR_HD State lift(Pair<f32, i16> p, i64 index) { return {fabs(cast<f64>(p.a) - cast<f64>(p.b)), index}; }
    static GR_HD State combine(State earlier, State later) {
        bool tie = earlier.apart == later.apart && later.index < earlier.index;
        return later.apart > earlier.apart || tie ? later : earlier;
    }
};
"""


def farthest_lift(x: Any, y: Any, index: Any) -> tuple[Any, Any]:
    return np.abs(x.astype("f8") - y), index


def farthest_combine(earlier: Any, later: Any) -> tuple[Any, Any]:
    later_wins = (later[0] > earlier[0]) | ((later[0] == earlier[0]) & (later[1] < earlier[1]))
    return tuple(np.where(later_wins, b, a) for a, b in zip(earlier, later, strict=True))


def farthest_value(state: Any, dtype: Any) -> Any:
    return state[1]


farthest = Monoid(
    name="Farthest",
    fields={"apart": "f8", "index": "i8"},
    identity=(-1, -1),
    lift=farthest_lift,
    combine=farthest_combine,
    finalise=farthest_value,
    result=lambda *dtypes, dtype=None: np.dtype("i8"),
    arity=2,
    unsafe_cuda=FARTHEST,
)


def table_cases(dtype: np.dtype[Any]) -> list[Case]:
    """Every row of this dtype, each on two layouts, all layouts in turn: once its results, once its partial."""
    cases = []
    for number, name in enumerate(rows(dtype)):
        bound = OPERATORS[name].bind(dtype)
        for step in range(2):
            layout = TABLE_LAYOUTS[(number + 3 * step + dtype.num) % len(TABLE_LAYOUTS)]
            nan = dtype.kind in "fc" and (step == 1 or name.startswith("nan"))
            cases.append(Case(bound, layout, number, nan=nan, forms=(step == 0,)))
    return cases


PAIRS = [("f4", "f4"), ("f8", "f8"), ("i4", "i8"), ("u1", "u1"), ("f4", "f8"), ("c8", "c16"), ("f2", "f4")]
PAIRS += [("i2", "f4"), ("c8", "f2"), ("c16", "f4"), ("f8", "c8"), ("c8", "c8")]  # complex and real, narrow and wide
TABLE = {d.name: table_cases(d) for d in [*DTYPES, BFLOAT16]}
TABLE["pairs"] = [
    Case(OPERATORS[name].bind(a, b), layout, i)
    for i, (a, b) in enumerate(PAIRS)
    for name, layout in [("vdot", "line inside"), ("average", "rows with edges"), ("average", "columns")]
]
TABLE["pairs"] += [
    Case(farthest.bind("f4", "i2"), layout, forms=PARTIAL)
    for layout in ("line inside", "rows with edges", "columns", "short rows")
]
TABLE["pairs"] += [
    Case(OPERATORS["affine"].bind(a, b), layout, i)
    for i, (a, b) in enumerate([("i4", "i8"), ("u1", "u2"), ("f2", "f4"), ("?", "f8")])
    for layout in ("line inside", "short rows", "columns")
]
TABLE["pairs"] += [
    Case(OPERATORS["vdot"].bind(a, b), layout, i)
    for i, (a, b) in enumerate([("u1", "f4"), ("f4", "f4"), ("i2", "f8")])
    for layout in ("short columns", "five rows")
]
TABLE["dtype given"] = [
    Case(OPERATORS[name].bind(given, dtype=dtype), "line inside")
    for name, given, dtype in [
        *[("sum", "i4", "f8"), ("mean", "u1", "f4"), ("prod", "f4", "i8"), ("sum", "f4", "c16")],
        *[("sum", "c8", "f4"), ("sum", "c16", "?"), ("mean", "c16", "f2"), ("sumsq", "c8", "f8"), ("prod", "c8", "i4")],
    ]
]

# Operators that stand for the others on every layout: pairs, packed words, positions, moments, order.
DEEP = {
    "sum": OPERATORS["sum"].bind("f8"),
    "argmax": OPERATORS["argmax"].bind("f4"),
    "max": OPERATORS["max"].bind("u1"),
    "var": OPERATORS["var"].bind("f4"),
    "var of bytes": OPERATORS["var"].bind("i1"),
    "affine": affine.bind("i4"),
}
FINISHES = [
    Case(OPERATORS[name].bind(dtype), layout, finish=finish, forms=PARTIAL)
    for name, dtype in [("sum", "i4"), ("max", "i8"), ("any", "f2"), ("all", "u1"), ("count_nonzero", "f4")]
    for layout in ("line inside", "long rows", "columns")
    for finish in ("atomic", "two-pass")
]
FINISHES += [
    Case(OPERATORS[name].bind(dtype), layout, seed, finish, forms=(finish == "ticket",))
    for name, dtype in [("sum", "f4"), ("mean", "i4"), ("max", "f4"), ("any", "u4"), ("prod", "f4")]
    for seed, (layout, finish) in enumerate(zip(END_TO_END, ("ticket", "two-pass", "ticket"), strict=True))
]
FINISHES += [  # slots that are in part outside of their line
    Case(OPERATORS[name].bind(dtype), layout, seed)
    for seed, (name, dtype) in enumerate(
        [("mean", "u1"), ("mean", "u8"), ("nanmean", "f4"), ("norminf", "i2"), ("var", "f2")]
    )
    for layout in ("short lines", "few short rows")
]
ORDERED_ALIKE = re.compile("(short|even|staged|subwarp) rows|rows (one|of several)")  # as "few short rows", for longer
DEEP_CASES = [
    (name, layout)
    for name in DEEP
    for layout in LAYOUTS
    if name != "affine" or not ORDERED_ALIKE.match(layout.removeprefix("long "))
]
LOGIC = [
    OPERATORS[name].bind(dtype)
    for name in ("any", "all", "count_nonzero")
    for dtype in ("?", "u1", "i2", "i8", "f2", "f4", "c16")
]


def check_zeros(machine: Emulator, bound: Bound) -> None:
    """Rows of zeros, of minus zeros, of NaN, and with one element that is something else, at every place."""
    dtype, width = bound.dtypes[0], 37
    lowest = np.zeros(dtype.itemsize, np.uint8)
    lowest[-1] = 1 if dtype.kind == "b" else 128
    x = np.zeros((3 + 3 * width, width), dtype)
    x[3 + width : 3 + 2 * width] = 1
    np.fill_diagonal(x[3 : 3 + width], 1)
    np.fill_diagonal(x[3 + width : 3 + 2 * width], 0)
    np.fill_diagonal(x[3 + 2 * width :], lowest.view(dtype)[0])  # the top bit alone
    if dtype.kind in "fc":
        x[1], x[2] = -x[1], np.nan
    count = {"any": np.any, "all": np.all, "count_nonzero": np.count_nonzero}[bound.name]
    columns = np.ascontiguousarray(np.concatenate([x, x[: -len(x) % 16]]).T)  # as many as threads have whole packs of
    for array, axis, way in ((x, 1, "subwarp rows"), (columns, 0, "columns")):
        with taken(way):
            partial = device_reduce.reduce((put(array),), bound, (axis,))
        if not machine.collecting:
            np.testing.assert_array_equal(unpacked(partial, bound)["value"], count(array, axis=axis, keepdims=True))


def check_gaps(machine: Emulator) -> None:
    """Moments of columns of booleans that are read together with what lies between them, which may be any byte."""
    base = np.full((1201, 26), 255, "u1")
    base[:, 1:-1] = np.random.default_rng(0).integers(0, 2, (1201, 24))
    for name, way in (("var", "flat columns"), ("kurtosis", "flat columns"), ("var", "columns end to end")):
        bound = OPERATORS[name].bind(np.dtype("?"))
        with taken(way):
            partial = device_reduce.reduce((put(base.view("?"), lambda x: x[:, 1:-1]),), bound, (0,))
        if not machine.collecting:
            ours = host_reduce.finalise(unpacked(partial, bound), bound)
            wanted = host_reduce.finalise(host_reduce.reduce((base[:, 1:-1].view("?"),), bound, (0,)), bound)
            np.testing.assert_allclose(ours, wanted, rtol=1e-12)


def check_nothing(machine: Emulator) -> None:
    """Lines of zeros: a state of nothing but zeros is a state, and a tie with the identity goes to the element."""
    for bound, count in itertools.product((DEEP["sum"], OPERATORS["argmax"].bind("u1")), (1, 2)):
        state = device_reduce.reduce((put(np.zeros((count, 70001), bound.dtypes[0])),), bound, (1,))
        if not machine.collecting:
            assert not any(field.any() for field in bound.unpack(unpacked(state, bound)))


def check_exact(machine: Emulator) -> None:
    """A float64 sum whose terms cancel is right to the last bit but one: its error does not grow with n."""
    bound = DEEP["sum"]
    x = np.random.default_rng(8).standard_normal(20000) * 10.0 ** np.arange(20000).clip(0, 15)
    x = np.concatenate([x, [0.7], -x[::-1]])
    result = device_reduce.reduce((put(x),), bound, (0,), final=True)
    if not machine.collecting:
        assert get(result)[0] == pytest.approx(math.fsum(x), rel=1e-12, abs=0)


def check_products(machine: Emulator) -> None:
    """Products leave the range only where the true product does: on the way they are of any size. Zeros, infinities and
    NaN are as on the host."""
    rng = np.random.default_rng(10)
    for dtype, most in (("f8", 1000), ("f4", 120), ("f2", 14), ("c16", 400)):
        bound = OPERATORS["prod"].bind(dtype)
        half = np.exp2(rng.integers(-most, most, (450, 6)))
        x = np.concatenate([half, 1 / half]).astype(dtype)
        rng.shuffle(x)
        x[0], x[5, 1], x[7, 2], x[8:10, 3] = 3, 0, np.inf, (-0.0, np.nan)
        for axes in ((0,), (0, 1)):
            for given in (x, *(np.ascontiguousarray(x[:, i : i + 1]) for i in range(3))):
                result = device_reduce.reduce((put(given),), bound, axes, final=True)
                if not machine.collecting:
                    wanted = host_reduce.finalise(host_reduce.reduce((given,), bound, axes), bound)
                    np.testing.assert_array_equal(get(result), wanted)
    for dtype in ("u1", "i1", "u2", "i2", "u4"):  # of odd numbers, whose products do not come to zero
        bound = OPERATORS["prod"].bind(dtype)
        x = rng.integers(0, 256, (300, 112)).astype(dtype) | np.ones((), dtype)
        for axes in ((0,), (1,), (0, 1)):
            result = device_reduce.reduce((put(x),), bound, axes, final=True)
            if not machine.collecting:
                np.testing.assert_array_equal(get(result), np.prod(x, axes, dtype=bound.result, keepdims=True))


def check_far(machine: Emulator) -> None:
    """Variances far from zero are right to the last digits: the means that are merged are pairs."""
    steps = np.random.default_rng(9).integers(-8, 9, (300, 106))
    wanted = steps.var(axis=0), steps.var(axis=1), steps.var()
    for name, dtype in [("var", "f8"), ("nanvar", "f8"), ("var", "u4")]:
        unit = 1.0 if dtype == "u4" else 2.0**-10
        x = ((2.0**31 if dtype == "u4" else 2.0**42) + steps * unit).astype(dtype)
        bound = OPERATORS[name].bind(dtype)
        for axes, exact in zip([(0,), (1,), (0, 1)], wanted, strict=True):
            halves = [device_reduce.reduce((put(h),), bound, axes) for h in (x[:, :70], x[:, 70:])]
            results = [device_reduce.reduce((put(x),), bound, axes, final=True)]
            if axes != (0,):
                results.append(device_reduce.finalise(device_reduce.combine(halves, bound), bound))
            for result in [] if machine.collecting else results:
                np.testing.assert_allclose(get(result).ravel(), exact * unit**2, rtol=1e-13)


def check_outlier(machine: Emulator) -> None:
    """Variances keep their digits where the first lane of a warp has one element, far from those of the others."""
    x = np.random.default_rng(9).integers(-8, 9, 65536) / 1024
    x[0::64] = x[1::64] = np.nan
    x[0] = 1e6 / 3
    for name, dtype in [("nanvar", "f8"), ("nanstd", "c8")]:
        bound = OPERATORS[name].bind(dtype)
        with np.errstate(invalid="ignore"):
            elements = (x * (1 + 1j) if dtype == "c8" else x).astype(dtype)
        result = device_reduce.reduce((put(elements),), bound, (0,), final=True)
        if not machine.collecting:
            there = elements[~np.isnan(elements)].astype("G" if dtype == "c8" else "g")
            wanted = (abs(there - there.mean()) ** 2).mean() ** (0.5 if dtype == "c8" else 1)
            np.testing.assert_allclose(get(result).ravel(), float(wanted), rtol=1e-6 if dtype == "c8" else 5e-15)


def check_scales(machine: Emulator) -> None:
    """Skewness and kurtosis of numbers of any size are right, or NaN where their powers leave the range of binary64."""
    x = np.exp(np.random.default_rng(5).normal(size=(3, 64)))
    away = x - x.mean(1, keepdims=True)
    m2, m3, m4 = ((away**power).mean(1) for power in (2, 3, 4))
    for name, wanted, most in [("skew", m3 / m2**1.5, 100), ("kurtosis", m4 / m2**2 - 3, 75)]:
        for power in (-150, -120, -100, -90, -75, -70, -20, 0, 20, 70, 76, 100, 150):
            result = device_reduce.reduce((put(x * 10.0**power),), OPERATORS[name].bind("f8"), (1,), final=True)
            if not machine.collecting:
                got = get(result).ravel()
                lost = np.isnan(got) if abs(power) > min(most, 70) else np.zeros(3, bool)
                np.testing.assert_allclose(got[~lost], wanted[~lost], rtol=1e-11, err_msg=f"{name} {power}")


def check_rows_apart(machine: Emulator) -> None:
    """A row's variance has the same bits whatever rows share its warp."""
    x = np.random.default_rng(7).normal(size=(64, 160))
    y = x.copy()
    y[3::4, 5] = np.inf
    for name in ("var", "kurtosis"):
        bound = OPERATORS[name].bind("f8")
        found = [device_reduce.reduce((put(rows),), bound, (1,), final=True) for rows in (x, y)]
        if not machine.collecting:
            first, second = (get(each).reshape(16, 4)[:, :3] for each in found)
            np.testing.assert_array_equal(first, second)


def check_freedom(machine: Emulator) -> None:
    """Variances without degrees of freedom: as NumPy has them, infinite or NaN, and NaN where NaN is left out."""
    x = np.array([[1, 2, 4, 8], [5, 5, 5, 5], [3, np.nan, 7, 1]], "f4")
    for name, ddof in itertools.product(("var", "std", "nanvar", "nanstd"), (2, 3, 4, 5.5)):
        bound = OPERATORS[name].with_options(ddof=ddof).bind(x.dtype)
        for axis, elements in ((0, x.T.copy()), (1, x)):
            result = device_reduce.reduce((put(elements),), bound, (axis,), final=True)
            if not machine.collecting:
                wanted = getattr(np, name)(x, axis=1, ddof=ddof)
                np.testing.assert_allclose(get(result).ravel(), wanted, rtol=1e-6, err_msg=f"{name} {ddof} {axis}")


# Kept and reduced axes in either order, of odd lengths, of one element and two: shape, reduced axis, view.
INTEGER_LAYOUTS = {
    "long rows": Layout((5, 4001), (1,), lambda x: x[:, 3:-2], way="blocks a line"),
    "subwarp rows": Layout((91, 33), (1,), way="subwarp rows"),
    "subwarp rows of several slots": Layout((35, 301), (1,), way="subwarp rows"),
    "even rows": Layout((70, 48), (1,), lambda x: x[:, :32], way="own slots"),
    "staged rows": Layout((91, 7), (1,), way="staged rows"),
    "rows with gaps": Layout((70, 95), (1,), lambda x: x[:, ::3], way="own slots"),
    "one element": Layout((7, 1), (1,)),
    "two elements": Layout((7, 2), (1,), way="staged rows"),
    "columns": Layout((517, 70), (0,), way="columns"),
    "columns inside": Layout((301, 91), (0,), lambda x: x[:, 3:-2], way="columns"),
    "wide columns": Layout((67, 288), (0,), way="columns"),
    "staged columns": Layout((31, 291), (0,), way="staged columns"),
    "staged planes": Layout((31, 5, 7), (1,), way="staged planes"),
    "few columns": Layout((9008, 3), (0,), way="flat columns"),
    "planes": Layout((5, 14, 19), (1,), way="columns"),
}
INTEGERS = [np.dtype(d) for d in ("?", "i1", "u1", "i2", "u2")]


def at_extremes(dtype: np.dtype[Any], layout: Layout) -> np.ndarray[Any, Any]:
    """Cells in turn of the lowest and the highest number alone, of both, of few beside one another far from zero, of
    all numbers, and of one unlike the rest."""
    rng = np.random.default_rng(11)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    n = layout.shape[layout.axes[0]]
    other = np.where(np.arange(n) == n // 2, high, low)
    lines = [
        *(np.full(n, low), np.full(n, high), np.where(np.arange(n) % 2, low, high)),
        *(high - rng.integers(0, min(4, high - low + 1), n), rng.integers(low, high + 1, n), other, low + high - other),
    ]
    kept = [size for axis, size in enumerate(layout.shape) if axis not in layout.axes]
    each = np.resize(np.array(lines), (math.prod(kept), n)).reshape(*kept, n)
    return np.ascontiguousarray(np.moveaxis(each, -1, layout.axes[0])).astype(dtype)


@cache
def exact_moments(dtype: np.dtype[Any], name: str) -> tuple[np.ndarray[Any, Any], ...]:
    """Count, mean and sums of the second to fourth powers of distances from it, by integers of any length."""
    layout = INTEGER_LAYOUTS[name]
    x = view_of(at_extremes(dtype, layout), layout.view).astype(object)
    n, total = x.shape[layout.axes[0]], x.sum(axis=layout.axes, keepdims=True)
    sums = [((n * x - total) ** k).sum(axis=layout.axes, keepdims=True) / n**k for k in (2, 3, 4)]
    return tuple(np.asarray(field, "f8") for field in (n, total / n, *sums))


def check_integers(machine: Emulator, dtype: np.dtype[Any]) -> None:
    """Moments of narrow integers are those that exact arithmetic gives."""
    for (at, layout), name in itertools.product(INTEGER_LAYOUTS.items(), ("var", "moments")):
        bound = OPERATORS[name].bind(dtype)
        chunk = put(at_extremes(dtype, layout), lambda x, to=layout: view_of(x, to.view))
        with taken(layout.way):
            partial = device_reduce.reduce((chunk,), bound, layout.axes)
        if machine.collecting:
            continue
        n, mean, m2, m3, m4 = exact_moments(dtype, at)
        state, size = unpacked(partial, bound), np.sqrt(m2 / n)
        np.testing.assert_array_equal(state["count"], n)
        assert np.all(np.abs(state["mean"] - mean) <= 1e-15 * np.abs(mean) + 1e-14 * size), (at, name)
        # Partials keep means of one rounding, whose distance has it too.
        error = 1e-13 + 1e-15 * np.abs(mean) / np.where(size > 0, size, np.inf)
        for field, wanted, most in [("m2", m2, m2), ("m3", m3, np.sqrt(m2 * m4)), ("m4", m4, m4)]:
            if field in state.dtype.names:
                assert np.all(np.abs(state[field] - wanted) <= error * most), (at, name, field)


# Lines that lie closer together than their elements do, as those of a transposed array, and others of several lines.
SHORT_LINES = "blocks short lines"
TIES = {
    "lines turned": Layout((3, 200, 24), (1, 2), lambda x: x[:, :, :16].transpose(0, 2, 1), way=SHORT_LINES),
    "lines turned of planes": Layout(
        (70, 20, 24), (0, 2), lambda x: x[:, :, :16].transpose(2, 1, 0), way="subwarp short lines"
    ),
    "lines backwards": Layout((5, 300, 24), (1, 2), lambda x: x[:, ::-1, 3:19], way=SHORT_LINES),
    "line backwards": Layout((9001,), (0,), lambda x: x[::-1], way="blocks a line"),
    "long lines backwards": Layout((3, 2, 2500), (0, 2), lambda x: x[:, :, :4:-1], way="blocks long lines"),
    "short lines backwards": Layout((5, 300, 24), (1, 2), lambda x: x[:, :, 18:2:-1], way=SHORT_LINES),
    "rows backwards": Layout((40, 67), (1,), lambda x: x[:, ::-1], way="own slots"),
    "rows backwards in sub-warps": Layout((301, 200), (1,), lambda x: x[1:, ::-1], way="subwarp a line"),
}


def check_ties(machine: Emulator) -> None:
    """Of elements that are equal the first in the order of the axes is found, however the array lies in memory."""
    for (at, layout), name, dtype in itertools.product(TIES.items(), ("argmax", "nanargmin"), ("f4", "i2")):
        bound = OPERATORS[name].bind(np.dtype(dtype))
        x = np.random.default_rng(len(at)).integers(0, 3, layout.shape).astype(dtype)
        with taken(layout.way):
            partial = device_reduce.reduce((put(x, lambda a, to=layout: view_of(a, to.view)),), bound, layout.axes)
        if not machine.collecting:
            wanted = host_reduce.reduce((view_of(x, layout.view),), bound, layout.axes)
            np.testing.assert_array_equal(unpacked(partial, bound)["index"], wanted["index"], (at, name, dtype))


BATCHES = [  # the shape of each chunk, the axis along which they follow one another, the reduced ones and the way
    ((30, 90), 0, (0,), ""),
    ((30, 90), 1, (1,), ""),
    ((30, 90), 0, (0, 1), ""),
    ((61, 70), 0, (0,), "columns"),
    ((61, 70), 0, (0,), "columns by chunk"),
    ((2, 3), 0, (0,), "columns by chunk"),
    ((2051, 7), 0, (0,), "flat columns"),
    ((900, 5), 0, (0,), "flat columns"),
    ((533, 131), 0, (0,), "columns end to end"),
]


def check_batch(machine: Emulator, name: str) -> None:
    """Several chunks in one launch are one array."""
    bound = DEEP[name]
    for shape, axis, axes, way in BATCHES:
        chunks = [make(shape, bound.dtypes[0], i) for i in range(5)]
        whole, extent = np.concatenate(chunks, axis), shape[axis]
        places = [Place((extent * i, 0) if axis == 0 else (0, extent * i), whole.shape) for i in range(5)]
        with taken(way):
            partial = device_reduce.reduce_many([(put(c),) for c in chunks], bound, axes, places)
        if not machine.collecting:
            wanted = host_reduce.finalise(host_reduce.reduce((whole,), bound, axes), bound)
            close(host_reduce.finalise(unpacked(partial, bound), bound), wanted, bound, whole.size)


def check_backward(machine: Emulator) -> None:
    """Several chunks in one launch whose lines lie backwards: positions are those in the order of the axes."""
    for (shape, axis, axes), dtype in itertools.product([((3, 700), 1, (1,)), ((20, 90), 0, (0, 1))], ("i1", "f4")):
        bound = OPERATORS["argmin"].bind(dtype)
        chunks = [np.random.default_rng(i).integers(0, 3, shape).astype(dtype) for i in range(3)]
        whole = np.concatenate([x[:, ::-1] for x in chunks], axis)
        places = [Place(tuple(shape[axis] * i if a == axis else 0 for a in range(2)), whole.shape) for i in range(3)]
        given = [(put(x, lambda a: a[:, ::-1]),) for x in chunks]
        partials = [device_reduce.reduce_many(given, bound, axes, places)]
        partials += [
            device_reduce.reduce(chunk, bound, axes, place) for chunk, place in zip(given, places, strict=True)
        ]
        if not machine.collecting:
            wanted = host_reduce.reduce((whole,), bound, axes)["index"]
            np.testing.assert_array_equal(unpacked(partials[0], bound)["index"], wanted)
            joined = host_reduce.combine([unpacked(each, bound) for each in partials[1:]], bound)
            np.testing.assert_array_equal(joined["index"], wanted)


def check_fold(machine: Emulator, name: str) -> None:
    """Partials folded along an axis, and combined, are the partial of all elements."""
    bound = DEEP[name]
    x = make((24, 50), bound.dtypes[0], 1)
    places = [Place((i, 0), x.shape) for i in range(0, 24, 8)]
    partials = [device_reduce.reduce((put(x[p.offsets[0] : p.offsets[0] + 8]),), bound, (0,), p) for p in places]
    folded = [device_reduce.combine(partials, bound)]
    stacked = partials[0] if machine.collecting else put(np.concatenate([get(p) for p in partials]))
    folded.append(device_reduce.combine_axis(stacked, bound, 0))
    finished = None if bound.monoid.unsafe_cuda else device_reduce.finalise(folded[0], bound)
    if machine.collecting:
        return
    wanted = host_reduce.finalise(host_reduce.reduce((x,), bound, (0,)), bound)
    for partial in folded:
        close(host_reduce.finalise(unpacked(partial, bound), bound), wanted, bound, 24)
    if finished is not None:
        close(get(finished), wanted, bound, 24)


def check_refused(machine: Emulator) -> None:
    """A slice of NaN has no position, and weights that sum to zero no mean: errors, as on the host."""
    x = np.array([[1, np.nan, 3], [2, 5, 4]])
    cases = [
        ("nanargmin", (x,), np.array([[0], [0]])),
        ("nanargmax", (x.astype("f4"),), np.array([[2], [1]])),
        ("nanargmin", (np.where(x < 4, np.nan, x),), errors.EmptyError),
        ("average", (x, np.array([[1.0, 2, 3], [0, 0, 1]])), np.array([[np.nan], [4]])),
        ("average", (x, np.array([[1e16, 1, -1e16], [3, -2, -1]])), errors.WeightError),
        ("average", (x + 1j, np.array([[1, 2, 3], [1j, -3j, 2j]])), errors.WeightError),
    ]
    for name, arrays, wanted in cases:
        bound = OPERATORS[name].bind(*(a.dtype for a in arrays))
        chunks = tuple(put(a) for a in arrays)
        with machine.dispatched():
            if machine.collecting:
                with suppress(errors.GpureduceError):  # of noise
                    chunk.results(chunks, bound, (1,))
            elif isinstance(wanted, type):
                with pytest.raises(wanted):
                    chunk.results(chunks, bound, (1,))
            else:
                np.testing.assert_array_equal(get(chunk.results(chunks, bound, (1,))), wanted)


def check_empty(machine: Emulator) -> None:
    """The reduction of nothing is the identity in every cell."""
    for name in ("sum", "var", "affine"):
        bound = DEEP[name]
        chunk = (put(np.empty((0, 5), bound.dtypes[0])),)
        for partial in (device_reduce.reduce(chunk, bound, (0,)), device_reduce.reduce_many([chunk] * 3, bound, (0,))):
            if not machine.collecting:
                np.testing.assert_array_equal(unpacked(partial, bound), bound.identities((1, 5)))
