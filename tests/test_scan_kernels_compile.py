"""Scan kernels compile for every generation of GPUs, into registers alone."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("cupy", reason="its binding of NVRTC compiles")

from test_emulated_scans import CALLS

from gpureduce_dask.device import compile as compiler

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
SHAPE = re.compile(r", \d+, \d+, (?=[012], (?:true|false), (?:true|false)>$)")  # warps and packs a lane
KERNELS = sorted({SHAPE.sub(", 16, 7, ", kernel) for call in CALLS.values() for kernel in call.kernels()})


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_compile_without_spills(arch):
    share = KERNELS[ARCHITECTURES.index(arch) :: len(ARCHITECTURES)] + KERNELS[:2]

    def log(kernel: str) -> tuple[str, str]:
        return kernel, compiler._compile(kernel, arch, "")[2]  # as the launch layer does

    with ThreadPoolExecutor(2) as pool:
        for kernel, words in pool.map(log, share):
            spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", words)
            assert spilled and spilled.groups() == ("0", "0"), (kernel, words)
