"""The ladder's table against its folder, and its kernels as machine code for three generations of GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tiers import slow

from gpureduce_dask import errors, history
from gpureduce_dask.device import sources
from gpureduce_dask.steps.plans import IN, OUT, SCRATCH, plan
from gpureduce_dask.tools.ladder.explain import PACKAGE, explain, included, listing, source_of

FOLDER = sources.kernels_folder() / "history"
SHARED = {"step.cuh", "steps.cuh", "transpose.cuh"}
WITH_KERNELS = [step for step in history.STEPS if step.kernel]
SIZES = (1, 31, 256, 257, 2**20 + 1, 2**31 + 7)


def test_the_table_holds_every_file_and_the_folder_every_row():
    assert {path.name for path in FOLDER.glob("*.cuh")} - SHARED == {step.file for step in WITH_KERNELS}
    assert all(source_of(step).is_file() for step in history.STEPS)
    assert set(included(FOLDER / "steps.cuh")) == {step.file for step in WITH_KERNELS}


def test_steps_are_numbered_in_order_and_once():
    assert len({step.label for step in history.STEPS}) == len(history.STEPS)
    for family, last in (("reduce", 20), ("scan", 8), ("transpose", 4)):
        numbers = [step.number for step in history.STEPS if step.family == family]
        assert numbers == sorted(numbers) and {*numbers} == {*range(family != "reduce", last + 1)}


@pytest.mark.parametrize("step", history.STEPS, ids=lambda step: step.label)
def test_a_row_says_what_a_file_is_about(step):
    assert step.family in history.FAMILIES and history.get(step.label) is step
    assert all(text[-1] in ".…" for text in (step.idea, step.look))
    assert step.source and step.takes and (step.mended or step.source == "this library" or step.number == 8)
    if step.kernel:
        first = source_of(step).read_text().splitlines()[0]
        assert first.startswith(f"// {step.family.title()} {step.number}: ")
        assert f" {step.kernel.partition('<')[0]}(" in source_of(step).read_text()


@pytest.mark.parametrize("step", WITH_KERNELS, ids=lambda step: step.label)
@pytest.mark.parametrize("n", SIZES)
def test_plans_stay_within_their_buffers(step, n):
    planned = plan(step, n, 1056, 3 if step.family == "transpose" else 1)
    room = {IN: n, OUT: planned.out, SCRATCH: planned.scratch}
    for launch in planned.launches:
        for buffer, at in (launch.reads, launch.writes):
            assert 0 <= at < room[buffer]
        assert 0 < launch.blocks < 2**31 and 0 < launch.threads <= 1024
    assert planned.launches[-1].writes == (OUT, 0)


def test_too_many_and_no_elements_are_refused():
    step = history.get("reduce-08")
    for n in (0, 2**40):
        with pytest.raises(errors.ArgumentError, match="reduce-08"):
            plan(step, n, 8)


def test_an_unknown_step_is_told_which_there_are():
    with pytest.raises(errors.OperatorError, match="reduce-18"):
        history.get("reduce-181")
    with pytest.raises(errors.OperatorError, match="reduce-00 to reduce-20"):
        history.get("quantum")


def test_explain_shows_idea_mending_and_text():
    text = explain(history.get("reduce-13"))
    step = history.get("reduce-13")
    assert step.idea in text and step.mended in text and "shuffle_down(0xffffffffu" in text
    assert "reduce_12_many.cuh" in text
    assert "def pairwise" in explain(history.get("reduce-00"))
    assert len(listing(history.STEPS).splitlines()) == len(history.STEPS)


def test_nobody_trusts_lanes_to_run_in_step():
    for path in FOLDER.glob("*.cuh"):
        assert not re.search(r"\bvolatile\b|__shfl(_\w+)?\((?!.*_sync)", path.read_text()), path.name


def test_sources_of_the_package_are_named_from_its_root():
    assert source_of(history.get("reduce-00")) == Path(PACKAGE, "steps", "host.py")


@pytest.mark.parametrize("architecture", [slow("sm_80"), "sm_90", slow("sm_100")])
def test_every_kernel_becomes_machine_code(architecture):
    pytest.importorskip("cupy", reason="it brings the binding of NVRTC")
    from cupy_backends.cuda.libs import nvrtc

    from gpureduce_dask.device.compile import OPTIONS
    from gpureduce_dask.steps.runs import TYPES

    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC does not load: {error}")
    names = {
        launch.kernel.format(T=cuda)
        for step in WITH_KERNELS
        for n in SIZES
        for launch in plan(step, n, 1056, 3 if step.family == "transpose" else 1).launches
        for cuda in set(TYPES.values())
    }
    program = nvrtc.createProgram(sources.source("history/steps.cuh"), "steps.cu", (), ())
    for name in sorted(names):
        nvrtc.addNameExpression(program, name)
    nvrtc.compileProgram(program, (*OPTIONS, f"-arch={architecture}"))
    spills = re.findall(r"(\d+) bytes spill stores", nvrtc.getProgramLog(program))
    assert len(spills) == len({nvrtc.getLoweredName(program, name) for name in names}) == len(names) > 150
    assert {*spills} == {"0"}
    nvrtc.destroyProgram(program)
