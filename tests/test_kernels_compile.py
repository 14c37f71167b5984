"""Kernels of every row compile for three generations of GPU, without one: NVRTC needs none."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

pytest.importorskip("cupy", reason="it brings the binding of NVRTC")

from cupy_backends.cuda.libs import nvrtc

try:
    nvrtc.getVersion()
except RuntimeError as error:
    pytest.skip(f"NVRTC does not load: {error}", allow_module_level=True)

from gpureduce_dask.chunk.device import cuda_operator
from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device.layout import collapse
from gpureduce_dask.device.specialise import Plan
from gpureduce_dask.errors import DtypeError
from gpureduce_dask.operators import OPERATORS

DTYPES = [np.dtype(d) for d in ("f4", "f8", "u1", "f2", "c8", "i4", "?", "i8", "c16", "i2", "u4", "i1", "u2", "u8")]
SHAPES = [((1 << 20,), (0,)), ((4096, 4096), (0,)), ((1 << 16, 32), (1,)), ((1 << 16, 3), (0,)), ((1 << 16, 3), (1,)),
          ((64, 512, 96), (0, 2)), ((5000, 1001), (1,))]  # fmt: skip


def _bound(name, start):
    """The row on the first dtype from ``start`` on that it takes."""
    for step in range(len(DTYPES)):
        dtype = DTYPES[(start + step) % len(DTYPES)]
        try:
            return OPERATORS[name].bind(*[dtype] * OPERATORS[name].arity)
        except DtypeError:
            continue
    raise AssertionError(f"{name} takes no dtype")


def _kernels(name, number):
    """What a plan launches for one dtype and shape, as finished results."""
    bound = _bound(name, 3 * number)
    shape, axes = SHAPES[number % len(SHAPES)]
    sizes = tuple(d.itemsize for d in bound.dtypes)
    strides = tuple(tuple(s * math.prod(shape[a + 1 :]) for a in range(len(shape))) for s in sizes)
    steps = tuple(math.prod(shape[b] for b in axes[i + 1 :]) for i in range(len(axes)))
    op = cuda_operator(bound, True)
    layout = collapse(shape, strides, sizes, axes, steps, op.commutative, bound.indexed)
    return {launch.kernel for launch in Plan(op, layout, (0,) * len(sizes)).launches()}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_a_kernel_of_every_row_compiles(architecture):
    shift = {"sm_80": 0, "sm_90": 1, "sm_100": 2}[architecture]
    names = sorted(set().union(*(_kernels(name, number + shift) for number, name in enumerate(OPERATORS))))
    assert len(names) >= len(OPERATORS) // 2
    program = nvrtc.createProgram(compiler._program(""), "gpureduce.cu", (), ())
    for name in names:
        nvrtc.addNameExpression(program, name)
    try:
        nvrtc.compileProgram(program, (*compiler.OPTIONS, f"-arch={architecture}"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program)[:4000])
    log = nvrtc.getProgramLog(program)
    lowered = {nvrtc.getLoweredName(program, name): name for name in names}
    nvrtc.destroyProgram(program)
    spills = dict(re.findall(r"Function properties for (\w+)\n.*?(\d+) bytes spill stores", log))
    assert lowered.keys() <= spills.keys()
    for mangled, stored in spills.items():
        if int(stored) and mangled in lowered:  # as the launch layer does it: for fewer blocks an SM
            _, _, again = compiler._compile(lowered[mangled], architecture, "")
            assert not compiler.blocks_without_spill(again), again


def test_sums_load_16_bytes_at_once():
    for element in ("f4", "f8", "i4"):
        (kernel,) = Plan(
            cuda_operator(OPERATORS["sum"].bind(element), True),
            collapse(
                (1 << 20,), ((np.dtype(element).itemsize,),), (np.dtype(element).itemsize,), (0,), (0,), True, False
            ),
            (0,),
        ).launches()
        program = nvrtc.createProgram(compiler._program(""), "gpureduce.cu", (), ())
        nvrtc.addNameExpression(program, kernel.kernel)
        nvrtc.compileProgram(program, (*compiler.OPTIONS, "-arch=compute_90"))
        assert re.search(r"ld\.global\S*\.v4\.[busf]32", nvrtc.getPTX(program).decode())
        nvrtc.destroyProgram(program)
