"""Kernels of maps through NVRTC, without a GPU: what they become on three architectures, and how often it runs."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tiers import slow

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

from expressions import BINARY, UNARY
from simt.backend import Emulator

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import launch
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.expressions import cuda, functions, tracer
from gpureduce_dask.expressions.mapped import Map, mapped
from gpureduce_dask.expressions.program import CAST
from gpureduce_dask.operators import table as operators
from gpureduce_dask.operators.monoid import Bound, Monoid
from gpureduce_dask.operators.product_monoid import product
from gpureduce_dask.operators.weighted import SPREADS

F4 = np.dtype("f4")


def bound(function, op, *dtypes, masked=False, number=0):
    program = tracer.trace(function, tuple(map(np.dtype, dtypes)))
    values = program.results[:-1] if masked else program.results
    return mapped(program, operators.get(op).bind(*values), masked, number=number)


def several(u, v):
    return product(
        "several",
        (
            bound(lambda u, v: u, "mean", u, v, number=0),
            bound(lambda u, v: v, "mean", u, v, number=1),
            bound(lambda u, v: u * v, "mean", u, v, number=2),
        ),
    )


def nothing(*states):
    raise NotImplementedError


OWN = Monoid(
    name="own_total",
    fields={"value": "f8"},
    identity=(0.0,),
    lift=nothing,
    combine=nothing,
    finalise=nothing,
    unsafe_cuda="""
struct own_total {
    struct State { f64 value; };
    static GR_HD State identity() { return {0}; }
    static GR_HD State lift(f32 x, i64) { return {x}; }
    static GR_HD State combine(State earlier, State later) { return {earlier.value + later.value}; }
};""",
)


def twice_ones_own():
    parts = [bound(lambda x: x + 1, OWN, "f4", number=i) for i in range(2)]
    return product("twice", tuple(Bound(replace(p.monoid, name=f"part_{i}"), p.dtypes) for i, p in enumerate(parts)))


def twice_weighted(x, w, mask):
    return np.where(mask, x, 0), np.where(mask, w, 0)


SHIPPED = {
    "one's own": (twice_ones_own, "f4"),
    "squares": (lambda: bound(lambda x: (x - 0.5) ** 2, "sum", "f4"), "f4"),
    "weighted": (lambda: bound(lambda x, w: (x, w), "average", "f4", "f4"), "f4 f4"),
    "moments": (lambda: bound(lambda x, w: (x, w), SPREADS["skew"], "f4", "f4"), "f4 f4"),
    "masked": (lambda: bound(lambda x, m: (x, m), "var", "f4", "bool", masked=True), "f4 bool"),
    "several": (lambda: several("f4", "f4"), "f4 f4"),
    "four": (lambda: bound(lambda u, v, w, q: u * v + w * q, "sum", *["f4"] * 4), "f4 f4 f4 f4"),
    "two weighted and masked": (lambda: bound(twice_weighted, "average", "f8", "f4", "bool"), "f8 f4 bool"),
    "narrow": (lambda: bound(lambda x: np.exp(x) * 2, "sum", "f2"), "f2"),
}


def plans(operator, dtypes, shape, axes):
    """Kernels and texts that a chunk of this shape takes, as no kernel runs."""
    found = []
    import cupy

    memory = cupy.cuda.UnownedMemory(1 << 20, 1 << 40, None, 0)
    pointer = cupy.cuda.MemoryPointer(memory, 0)

    def ready(launches, number, text="", constants=()):
        found.extend((step.kernel, text) for step in launches)
        return ()

    with Emulator("").installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "ready", ready)
        patch.setattr(launch, "run", lambda *given: None)
        patch.setattr(launch, "new_array", lambda shape, dtype, nbytes: (None, 0))
        chunks = tuple(cupy.ndarray(shape, np.dtype(d), pointer) for d in dtypes.split())
        device_reduce._reduce_one(chunks, operator, axes, None, "ticket", False)
    return found


BUILT = [(name, "sm_90") for name in SHIPPED] + [
    (name, arch) for name in ("squares", "four") for arch in ("sm_80", "sm_100")
]
QUICK = [(name, "sm_90") for name in ("squares", "weighted", "masked")]


@pytest.mark.parametrize("name, arch", [one if one in QUICK else slow(*one) for one in BUILT])
def test_maps_become_machine_code_that_does_not_spill(name, arch):
    make, dtypes = SHIPPED[name]
    for shape, axes in (((1 << 24,), (0,)), ((1 << 12, 1 << 12), (0,))):
        for kernel, text in plans(make(), dtypes, shape, axes):
            log = compiler._compiled(kernel, arch, text)[2]
            assert not re.search(r"[1-9]\d* bytes spill", log), f"{kernel}: {log}"


@pytest.mark.parametrize("name", SPREADS)
def test_results_of_weights_are_finished_where_no_map_is(name):
    """Partials that stay on a GPU are combined and finished by the operator itself."""
    op = device_operator.cuda_operator(SPREADS[name].bind("f4", "f4"), True)
    compiler._compiled(f"finalise_cells<{op.type}, {op.emits}, 256, 1>", "sm_90", "")


def test_other_constants_do_not_compile_again(monkeypatch):
    compiled, written = [], []

    def compile_text(program, kernel, options):
        compiled.append(kernel)
        return b"", kernel, "ptxas info: Used 1 registers, 0 bytes spill stores, 0 bytes spill loads"

    module = SimpleNamespace()
    monkeypatch.setattr(compiler, "compile_text", compile_text)
    monkeypatch.setattr(compiler, "architecture", lambda device: "sm_90")
    monkeypatch.setattr(compiler, "_function_of", lambda code, name: SimpleNamespace(module=module, ptr=len(written)))
    monkeypatch.setattr(compiler, "_write", lambda module, constants: written.append(constants))
    compiler.clear()
    try:
        for c in (0.5, 0.25, 0.5, 0.125):
            operator = bound(lambda x, c=c: (x - c) ** 2, "sum", "f4")
            text, constants = device_operator.own_text(operator)
            compiler.function(f"reduce_rows<{device_operator.cuda_operator(operator).type}>", 0, text, constants)
        assert len(compiled) == 1
        assert len(written) == 3  # and each is written but once
    finally:
        compiler.clear()


def test_few_variants_stay_loaded(monkeypatch):
    monkeypatch.setattr(compiler, "_load", lambda kernel, arch, text: SimpleNamespace(module=None))
    monkeypatch.setattr(compiler, "architecture", lambda device: "sm_90")
    monkeypatch.setattr(compiler, "_write", lambda module, constants: None)
    for i in range(compiler.VARIANTS + 5):
        compiler.function("kernel", 0, "text", (("name", bytes([i % 256, i // 256])),))
    assert len(compiler._variants) == compiler.VARIANTS
    compiler.clear()


def test_every_function_of_the_table_compiles():
    """One kernel of all functions, of each dtype that they take."""
    structs = []
    for name, ufunc in functions.BY_NAME.items():
        for dtype in ("f4", "f8", "i4", "u8", "bool", "f2", "c8"):
            if name in ("power", "reciprocal") and dtype not in ("f4", "f8", "f2"):
                continue
            program = tracer.trace(lambda *x, u=ufunc: u(*x), (np.dtype(dtype),) * ufunc.nin)
            if program is not None:
                inner = operators.get("count_nonzero").bind(*program.results)
                structs.append(cuda.struct(Map(program, inner)))
    assert len(structs) > 200
    program = compiler.sources.source(compiler.MAPS) + "\n".join({s.name: s.text for s in structs}.values())
    program += "\ntemplate <int N> __global__ void nothing() {}"
    compiler.compile_text(program, "nothing<1>", (*compiler.OPTIONS, "-arch=sm_90"))


def test_no_text_but_names_of_tables_reaches_a_kernel():
    known = {*functions.BY_NAME, functions.WHERE, functions.REAL, functions.IMAG, "load", "cast", "ComputeType", "Word"}
    steps = {*known, functions.CLIP, CAST, "array", "constant"}
    for unary in UNARY:
        program = tracer.trace(unary, (F4,))
        if program is not None:
            text = cuda.struct(Map(program, operators.get("count_nonzero").bind(*program.results))).text
            assert set(re.findall(r"fn::(\w+)", text)) <= known
            assert {n.op for n in program.nodes} <= steps
    assert BINARY
