"""Every row on every dtype it takes, in every family of layouts: the calls whose kernels must compile. Nothing runs.

A specialisation is a name expression that a plan gives for such a call. Layouts of one family that differ in size may
get other numbers (items, lanes, columns a thread); the list has those of one or a few shapes of each family.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest
from gpu.samples import DTYPES
from plan_machine import taken
from simt.backend import Emulator

from gpureduce_dask.chunk import Place
from gpureduce_dask.device import launch
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device.specialise import Launch
from gpureduce_dask.errors import ArgumentError, DtypeError
from gpureduce_dask.operators.monoid import Bound, Monoid
from gpureduce_dask.operators.table import OPERATORS

ELEMENTS = [*DTYPES, np.dtype(ml_dtypes.bfloat16)]
MIXED = [("u1", "i8"), ("f2", "f4"), ("f4", "f8"), ("c8", "c16")]  # of two operands; and each dtype with itself
RESULTS = [np.dtype(d) for d in ("?", "i4", "u8", "f2", "f4", "f8", "c8", "c16")]  # asked for by dtype=


def pointer(nbytes: int) -> Any:
    """Memory that nobody reads."""
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(512, max(nbytes, 1), None, 0), 0)


def sketch(shape: tuple[int, ...], dtype: Any, view: Callable[[Any], Any] | None = None) -> Any:
    """A CuPy array of any size without memory, seen through ``view``."""
    dtype = np.dtype(dtype)
    whole = cupy.ndarray(shape, dtype, pointer(math.prod(shape) * dtype.itemsize))
    return whole if view is None else view(whole)


@dataclass(frozen=True)
class Reduced:
    """A reduction of ``count`` chunks of one layout."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    view: Callable[[Any], Any] | None = None
    count: int = 1
    finish: str = "ticket"
    way: str = ""  # that it is taken where it can be

    def __call__(self, bound: Bound, final: bool) -> None:
        chunks = [tuple(sketch(self.shape, d, self.view) for d in bound.dtypes)] * self.count
        shape = chunks[0][0].shape
        places = [Place((0,) * len(shape), shape)] * self.count
        with taken(self.way):
            device_reduce.reduce_many(chunks, bound, self.axes, places, finish=self.finish, final=final)


@dataclass(frozen=True)
class Folded:
    """Partials folded along one of their axes."""

    shape: tuple[int, ...]
    axis: int

    def __call__(self, bound: Bound, final: bool) -> None:
        if not final:
            device_reduce.combine_axis(sketch((*self.shape, bound.state.itemsize), "u1"), bound, self.axis)


@dataclass(frozen=True)
class InARow:
    """Rows that follow one another, of so many runs, one operator's of another length than the next: kernels are made
    for some."""

    lengths: Sequence[int]
    runs: int = 1

    def __call__(self, bound: Bound, final: bool) -> None:
        turn = zlib.crc32(device_operator.cuda_operator(bound).type.encode())
        length = self.lengths[turn % len(self.lengths)]
        way = "subwarp runs" if self.runs > 1 else ""
        Reduced((self.runs, 20000, length), (0, 2), way=way)(bound, final)


def finalised(bound: Bound, final: bool) -> None:
    if final:
        device_reduce.finalise(sketch((1000, bound.state.itemsize), "u1"), bound)


Family = Callable[[Bound, bool], None]
ALONE: dict[str, Family] = {  # a block, or less, a cell
    "even rows": Reduced((20000, 16), (1,), way="subwarp rows"),
    "longer even rows": Reduced((9000, 256), (1,)),
    "short rows": Reduced((9000, 500), (1,), lambda x: x[:, 1:], way="subwarp a line"),
    "shorter rows": Reduced((9000, 60), (1,), lambda x: x[:, 1:], way="own slots"),
    "shortest rows": Reduced((9000, 10), (1,), lambda x: x[:, 1:9], way="own slots"),
    "starts of rows": Reduced((9000, 16), (1,), lambda x: x[:, :3], way="own slots"),
    "rows of short lines": Reduced((9000, 10, 9), (1, 2), lambda x: x[:, :, 1:], way="subwarp short lines"),
    "rows of short even lines": Reduced((9000, 10, 12), (1, 2), lambda x: x[:, :, :8], way="subwarp short lines"),
    "batch of short even rows": Reduced((9000, 12), (1,), lambda x: x[:, :8], count=5, way="subwarp short lines"),
    "rows of long lines": Reduced((9000, 2, 500), (1, 2), lambda x: x[:, :, 1:]),
    "batch of rows": Reduced((9000, 50), (1,), lambda x: x[:, 1:], count=5),
    "rows in planes": Reduced((90, 102, 50), (2,), lambda x: x[:, 1:-1], way="subwarp rows"),
    "runs of rows in planes": Reduced((9, 3, 200, 50), (1, 3), lambda x: x[:, :, 1:], way="subwarp runs"),
    "runs of short rows": InARow([10, 12, 24, 50, 130, 300, 501, 1000, 2004], 3),
    "batch of short rows": Reduced((9000, 50), (1,), count=5, way="subwarp runs"),
    "batch of long rows": Reduced((9000, 800), (1,), lambda x: x[:, 1:], count=5),
    "batch of a short line": Reduced((32,), (0,), count=5, way="blocks short lines"),
    "rows with gaps": Reduced((9000, 900), (1,), lambda x: x[:, ::3], way="subwarp a line"),
    "batch of rows with gaps": Reduced((9000, 800), (1,), lambda x: x[:, ::2], count=5, way="subwarp long lines"),
    "three in a row": Reduced((20000, 3), (1,)),
    "few in a row": InARow(range(2, 19)),
    "many in a row": InARow([33, 65, 129, 257, 513, 1001]),
    "fold of rows": Folded((5000, 9), 1),
    "fold of columns": Folded((9, 5000), 0),
}
SHARED = {  # cells that several blocks share
    "line": Reduced((1 << 24,), (0,)),
    "long lines": Reduced((64, 3, 5000), (0, 2), lambda x: x[:, :, 1:]),
    "short lines": Reduced((3000, 6, 33), (0, 2), lambda x: x[:, :, 1:]),
    "one row of even lines": Reduced((56, 276), (0, 1), lambda x: x[:, :138], way="blocks short lines"),
    "batch of lines side by side": Reduced((50, 20), (0, 1), lambda x: x[:, :10], count=5, way="blocks short lines"),
    "batch of long lines": Reduced((300, 5000), (0, 1), lambda x: x[:, 1:], count=5),
    "batch of short lines": Reduced((3000, 41), (0, 1), lambda x: x[:, 1:], count=5),
    "short even lines": Reduced((6, 3000, 40), (1, 2), lambda x: x[:, :, :32], way="blocks short lines"),
    "batch of short even lines": Reduced((3000, 40), (0, 1), lambda x: x[:, :32], count=5, way="blocks short lines"),
    "columns": Reduced((9000, 512), (0,), way="columns"),
    "flat columns": Reduced((90000, 3), (0,)),
    "planes inside": Reduced((30, 50, 1030), (0, 1), lambda x: x[:, :-1, 2:], way="columns"),
    "batch of columns": Reduced((500, 400), (0,), count=5, way="columns"),
    "batch of columns by chunk": Reduced((500, 400), (0,), count=5, way="columns by chunk"),
    "batch of flat columns": Reduced((9000, 3), (0,), count=5, way="flat columns"),
}
OTHERS: dict[str, Family] = {
    "columns end to end": Reduced((9001, 1001), (0,), way="columns end to end"),
    "batch of few short lines": Reduced((4, 3, 9), (1, 2), lambda x: x[:, :, :8], count=5, way="subwarp short lines"),
    "few short lines": Reduced((14, 38, 2), (0, 2), way="subwarp short lines"),
    "batch of an element": Reduced((2,), (0,), lambda x: x[::2], count=5, way="subwarp short lines"),
    "even lines": Reduced((98, 58, 6), (0, 2)),
    "few planes inside": Reduced((3, 6405, 246), (0, 1), lambda x: x[:, :2135], way="outer runs of columns"),
    "lines with gaps": Reduced((64, 3, 9000), (0, 2), lambda x: x[:, :, ::2]),
    "few columns": Reduced((5000, 40), (0,), lambda x: x[:, 16:32]),
    "lines by tickets": Reduced((64, 1 << 20), (1,)),
    "few lines with gaps": Reduced((15, 62), (0, 1), lambda x: x[:, ::2], way="blocks a line"),
    "few columns with gaps": Reduced((30, 50, 9), (0, 1), lambda x: x[:, :-1, ::2]),
    "many rows of long lines": Reduced((300, 3, 5000), (1, 2), lambda x: x[:, :, 1:]),
    "many rows of short lines": Reduced((64, 105, 25), (1, 2), lambda x: x[:, :, :21]),
    "batch of many rows of long lines": Reduced((300, 3, 5000), (1, 2), lambda x: x[:, :, 1:], count=5),
    "batch of many rows of short lines": Reduced(
        (64, 105, 41), (1, 2), lambda x: x[:, :, 1:], count=5, way="blocks short lines"
    ),
    "batch of many rows of short even lines": Reduced(
        (64, 105, 40), (1, 2), lambda x: x[:, :, :32], count=5, way="blocks short lines"
    ),
    "batch of odd columns": Reduced((500, 7001), (0,), count=5, way="columns end to end"),
    "flat columns of planes": Reduced((40, 6000, 3), (1,), way="flat columns"),
    "flat columns apart": Reduced((9000, 26), (0,), lambda x: x[:, 1:-1], way="flat columns"),
    "wide columns": Reduced((12, 5000), (0,)),
    "columns with gaps": Reduced((3000, 1000), (0,), lambda x: x[:, ::2]),
    "no elements": Reduced((0, 5), (0,)),
    "finalise": finalised,
}
TWO_PASS = {f"{name} in two passes": replace(call, finish="two-pass") for name, call in SHARED.items()}
ATOMIC = {f"{name} by atomics": replace(call, finish="atomic") for name, call in SHARED.items()}
FAMILIES: dict[str, Family] = {**ALONE, **SHARED, **OTHERS, **TWO_PASS, **ATOMIC}


def real(element: Any, dtype: Any = None) -> Any:
    if element.kind == "c":
        raise DtypeError("a complex number is no part of its state")
    return np.dtype("u8")


ORDERED = Monoid(
    name="Affine",
    fields={"a": "u8", "b": "u8"},
    identity=(1, 0),
    lift=lambda x, index: (x, index),
    combine=lambda earlier, later: (later[0] * earlier[0], later[0] * earlier[1] + later[1]),
    finalise=lambda state, dtype: state[0],
    result=real,
    commutative=False,
    unsafe_cuda="""
struct Affine {  // x -> a x + b
    struct State { u64 a, b; };
    static GR_HD State identity() { return {1, 0}; }
    template <class T> static GR_HD State lift(T x, i64 index) { return {cast<u64>(x), (u64)index}; }
    static GR_HD State combine(State earlier, State later) {
        return {later.a * earlier.a, later.a * earlier.b + later.b};
    }
};
""",
)
UNORDERED = replace(ORDERED, name="Pairs", commutative=True, unsafe_cuda=ORDERED.unsafe_cuda.replace("Affine", "Pairs"))
ROWS = {row.name: row for row in (*OPERATORS.values(), ORDERED, UNORDERED) if row.cuda or row.unsafe_cuda}


@dataclass(frozen=True)
class Call:
    """One row on one layout; ``final`` asks for results instead of a partial."""

    row: Monoid
    dtypes: tuple[Any, ...]
    family: str
    final: bool
    dtype: Any = None

    def __str__(self) -> str:
        what = "partial" if not self.final else "results" if self.dtype is None else f"results in {self.dtype}"
        return f"{self.row.name} of {', '.join(map(str, self.dtypes))}, {self.family}, {what}"


def dtypes_of(row: Monoid) -> list[tuple[Any, ...]]:
    """The element dtypes that a row takes and CUDA has."""
    taken = []
    for dtypes in [(d,) * row.arity for d in ELEMENTS] + (MIXED if row.arity == 2 else []):
        try:
            row.bind(*dtypes)
        except DtypeError:
            continue
        taken.append(tuple(np.dtype(d) for d in dtypes))
    return taken


def calls() -> Iterator[Call]:
    """What is asked for; a user's operators are finished on the host, and casts meet the families in turn."""
    layouts = itertools.cycle({**ALONE, **SHARED})
    for row in ROWS.values():
        ends = (False,) if row.unsafe_cuda else (False, True)
        for dtypes in dtypes_of(row):
            yield from (Call(row, dtypes, family, final) for family in FAMILIES for final in ends)
            if not row.unsafe_cuda:
                yield from (Call(row, dtypes, next(layouts), True, result) for result in RESULTS)


def launched(asked: Iterable[Call]) -> dict[str, Call]:
    """The kernels by name expression, and the first call that launches each. A call may be refused."""
    found: dict[str, Call] = {}
    bounds: dict[Any, Bound] = {}  # what one knows of itself serves all its calls
    call: Call

    def ready(launches: Sequence[Launch], *_: Any) -> tuple[()]:
        for step in launches:
            found.setdefault(step.kernel, call)
        return ()

    with pytest.MonkeyPatch.context() as patch, Emulator("").installed(), cupy.cuda.using_allocator(pointer):
        patch.setattr(launch, "ready", ready)
        patch.setattr(launch, "run", lambda *_: None)
        for call in asked:
            what = call.row, call.dtypes, call.dtype
            try:
                bound = bounds.get(what) or bounds.setdefault(what, call.row.bind(*call.dtypes, dtype=call.dtype))
                FAMILIES[call.family](bound, call.final)
            except (ArgumentError, DtypeError):
                continue
            finally:
                device_reduce.clear()
    return found


def listing() -> dict[str, Call]:
    """Every specialisation, and a call that launches it."""
    return launched(calls())
