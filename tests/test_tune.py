"""Costs of kernels: tables that are shipped and tuned, and the fit, without a GPU."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from test_doctor import fake_cupy, look
from test_random_chunks import Stand

from gpureduce_dask.device import launch, reduce_costs, scan_cost_tables, scan_launch
from gpureduce_dask.device.scan_cost_tables import Cost, Quality, Table
from gpureduce_dask.device.scan_costs import Features, seconds
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.tools import cli, doctor
from gpureduce_dask.tools.bench import command, tune, tune_fit, tune_reductions, tune_scans
from gpureduce_dask.tools.bench.cases import dtype_of
from gpureduce_dask.tools.bench.random_draws import BATCH, CHUNKS, SCANS, draws
from gpureduce_dask.tools.bench.tune_fit import loss, quality
from gpureduce_dask.tools.bench.tune_reductions import Reductions
from gpureduce_dask.tools.bench.tune_scans import Scans, costs_of, values_of

SHIPPED = scan_cost_tables.shipped()
GPU = Gpu(232448, 132)
NAME = "NVIDIA H200"
BEFORE = values_of(SHIPPED.costs)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tuned(**changes) -> Table:
    costs = {kernel: replace(cost, start=2 * cost.start) for kernel, cost in SHIPPED.costs.items()}
    return replace(SHIPPED, costs=costs, gpu=NAME, date="2026-12-01", text=scan_cost_tables.version(), **changes)


# ---- tables


def test_shipped_tables_say_where_they_are_from():
    reductions = reduce_costs.table()
    assert reductions.gpu and reductions.date and reductions.measured
    for path in scan_cost_tables.SHIPPED.glob("sm_*.json"):
        table = scan_cost_tables.from_json(path.read_text())
        assert path.name == f"{table.architecture}.json" and table.as_json() == path.read_text()
        assert table.gpu and table.date and table.nvrtc and table.measured and table.quality.cases > 100
        assert 1 <= table.quality.missed[0] <= table.quality.missed[1]
        assert 1 <= table.quality.slower[0] <= table.quality.slower[1]


def test_other_architectures_take_the_nearest_table():
    assert scan_cost_tables.in_use("NVIDIA A100", "sm_80") == (SHIPPED, "")
    assert scan_cost_tables.shipped("sm_120").architecture == SHIPPED.architecture


def test_a_users_own_table_comes_first_until_it_is_forgotten(capsys):
    assert scan_cost_tables.in_use(NAME, "sm_90") == (SHIPPED, "")
    path = scan_cost_tables.write(tuned())
    assert scan_cost_tables.in_use(NAME, "sm_90") == (tuned(), "")
    assert scan_cost_tables.in_use("NVIDIA H100", "sm_90") == (SHIPPED, "")
    assert cli.main(["bench", "tune", "--forget"]) == 0
    assert f"removed {path}" in capsys.readouterr().out
    assert scan_cost_tables.in_use(NAME, "sm_90") == (SHIPPED, "") and scan_cost_tables.forget() == []


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda text: text[:-100], "cannot be read"),
        (lambda text: "[]", "cannot be read"),
        (lambda text: json.dumps({**json.loads(text), "quality": {}}), "cannot be read"),
        (lambda text: json.dumps({**json.loads(text), "more": 1}), "cannot be read"),
        (lambda text: text.replace('"start": 8e-06', '"start": -8e-06').replace("1.6e-05", "NaN"), "start is nan"),
        (lambda text: text.replace(scan_cost_tables.version(), "0" * 16), "before the kernels changed"),
        (lambda text: text.replace("RowScan", "scan_others"), "before the kernels changed"),
        (lambda text: text.replace("sm_90", "sm_80"), "of another GPU"),
    ],
)
def test_a_table_that_is_broken_or_stale_is_left_aside(spoil, why):
    path = scan_cost_tables.write(tuned())
    path.write_text(spoil(path.read_text()))
    found, said = scan_cost_tables.in_use(NAME, "sm_90")
    assert found == SHIPPED and why in said


def test_costs_that_mean_nothing_are_refused():
    for value in (-1e-6, math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="start"):
            Cost(value, 1.0)


def test_plans_are_made_by_the_users_table(monkeypatch):
    gpu = SimpleNamespace(attributes={"MaxSharedMemoryPerBlockOptin": 1, "MultiProcessorCount": 2})
    gpu.compute_capability = "90"
    runtime = SimpleNamespace(getDeviceProperties=lambda number: {"name": NAME.encode()})
    module = SimpleNamespace(cuda=SimpleNamespace(Device=lambda number: gpu, runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", module)
    assert scan_launch.gpu.__wrapped__(0).costs == SHIPPED.costs
    scan_cost_tables.write(tuned())
    assert scan_launch.gpu.__wrapped__(0).costs == tuned().costs


# ---- the doctor


def test_the_doctor_says_which_table_is_in_use(monkeypatch):
    cupy = fake_cupy((NAME,))
    properties = cupy.cuda.runtime.getDeviceProperties
    cupy.cuda.runtime.getDeviceProperties = lambda number: {**properties(number), "minor": 0}
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert look(doctor.scan_costs) == ("ok", f"{NAME}: {SHIPPED}")
    path = scan_cost_tables.write(tuned())
    state, text = look(doctor.scan_costs)
    assert state == "ok" and "by bench tune, of NVIDIA H200, 2026-12-01: 217 cases, times missed by " in text
    path.write_text("{")
    state, text = look(doctor.scan_costs)
    assert state == "warn" and str(path) in text and "as shipped" in text
    cupy.cuda.runtime.getDeviceProperties = lambda number: {"name": b"A100", "major": 8, "minor": 0}
    assert "the nearest to sm_80" in look(doctor.scan_costs)[1]
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(()))
    assert look(doctor.scan_costs) == ("ok", str(SHIPPED))


# ---- the fit


def truth() -> dict[str, Cost]:
    """Of a GPU on which some kernels cost something else."""
    costs = dict(SHIPPED.costs)
    costs["RowScan"] = replace(costs["RowScan"], start=20e-6, memory=1.3)
    costs["scan_lines"] = replace(costs["scan_lines"], start=6e-6, memory=0.8, element=1e-12)
    costs["StripScan"] = replace(costs["StripScan"], step=4e-6)
    return costs


def scans(count: int, seed: int, right: bool = True) -> list[list[dict]]:
    """Scans of 8 to 512 MiB, and their times with a little noise, as they stand in a file."""
    rng, found, costs = np.random.default_rng(seed), [], truth()
    for _ in range(count):
        elements = int(2 ** rng.uniform(20, 26))
        length = int(2 ** rng.uniform(3, 18))
        plans = [
            Features(kernel, 8 * elements, elements, 4 * length, blocks, chain, False, False, bool(rng.random() < 0.2))
            for kernel, blocks, chain in (
                ("RowScan", 132, 0),
                ("scan_lines", elements // length // 64 + 1, length),
                ("StripScan", 132, int(rng.integers(1, 100))),
            )
        ]
        timed = [seconds(f, costs[f.kernel], GPU) * rng.normal(1, 0.02) for f in plans]
        found.append([{**vars(f), "seconds": s, "right": right} for f, s in zip(plans, timed, strict=True)])
    return found


def model(cases: list[list[dict]]) -> tune_scans.Model:
    return tune_scans.Model(cases, GPU)


def fit(cases: list[list[dict]]) -> dict[str, Cost]:
    return costs_of(tune_fit.fit(model(cases), BEFORE), SHIPPED.costs)


def test_a_fit_finds_the_costs_that_times_were_made_of():
    others, costs, found = model(scans(80, 2)), truth(), fit(scans(200, 1))
    assert quality(others, BEFORE).missed[0] > 1.15
    now = quality(others, values_of(found))
    assert now.cases == 80 and now.missed[0] < 1.03 and now.missed[1] < 1.08 and now.mean_slower < 1.01
    assert loss(others, values_of(found)) < 0.2 * loss(others, BEFORE)
    for name in ("RowScan start", "RowScan memory", "scan_lines memory", "StripScan step"):
        kernel, cost = name.split()
        assert getattr(found[kernel], cost) == pytest.approx(getattr(costs[kernel], cost), rel=0.1), name
    moved = {kernel for kernel, cost in SHIPPED.costs.items() if found[kernel] != cost}
    assert moved == {"RowScan", "scan_lines", "StripScan"}


def test_large_scans_say_nothing_of_how_a_kernel_starts():
    large = [case for case in scans(60, 3) if case[0]["nbytes"] > 64 << 20]
    assert fit(large)["RowScan"].start == SHIPPED.costs["RowScan"].start


# ---- the command


def case_of(plans: list[dict]) -> dict:
    return {"case": "a scan", "mib": 4.0, "plans": plans}


@pytest.fixture
def machine(monkeypatch):
    """A GPU that is not there, on which scans take what the truth says."""
    stand = Stand("cupy")
    monkeypatch.setitem(sys.modules, "cupy", stand)
    device = SimpleNamespace(id=0, compute_capability="90", attributes={"L2CacheSize": 4096}, mem_info=(0, 1 << 40))
    properties = {"name": NAME.encode()}
    runtime = SimpleNamespace(getDeviceProperties=lambda _: properties, getDeviceCount=lambda: 1)
    monkeypatch.setattr(
        Stand,
        "cuda",
        SimpleNamespace(Device=lambda *_: device, runtime=runtime, get_current_stream=Stand.cuda.get_current_stream),
    )
    monkeypatch.setattr(scan_launch, "gpu", lambda number: GPU)
    monkeypatch.setattr(tune_scans, "_nvrtc", lambda: "13.2")
    monkeypatch.setattr(command, "need_gpu", lambda *_: None)


def asked(path, *more):
    known = ["bench", "tune", "--seed", "3", "--mib", "0.004,0.1", "--compilers", "0", "--json", str(path)]
    return cli.main([*known, *more])


def test_tune_keeps_a_table_for_this_gpu(machine, monkeypatch, tmp_path, capsys):
    cases = iter(scans(100, 4))
    monkeypatch.setattr(tune, "measure", lambda tuned, draw: case_of(next(cases)))
    assert asked(tmp_path / "tune.json", "--count", "100") == 0
    table, said = scan_cost_tables.in_use(NAME, "sm_90")
    assert not said and table.nvrtc == "13.2" and "100 random scans" in table.measured and table.quality.cases == 50
    assert table.quality.missed[0] < SHIPPED.quality.missed[0]
    out = capsys.readouterr().out
    assert "as shipped: 50 cases" in out and "fitted:     50 cases" in out and "written to" in out
    kept = json.loads((tmp_path / "tune.json").read_text())
    assert len(kept["cases"]) == 100 and kept["table"]["gpu"] == NAME


def test_tune_keeps_nothing_that_is_hardly_better(machine, monkeypatch, tmp_path, capsys):
    cases = iter(scans(100, 5))
    monkeypatch.setattr(tune, "measure", lambda tuned, draw: case_of(next(cases)))
    monkeypatch.setattr(tune, "fit", lambda model, values: values)
    assert asked(tmp_path / "tune.json", "--count", "70") == 0
    assert asked(tmp_path / "tune.json", "--count", "7") == 0
    assert asked(tmp_path / "tune.json", "--count", "0") == 0
    out = capsys.readouterr().out
    assert "hardly better than what is shipped" in out and "7 cases are too few" in out
    result = {
        "tune": 1,
        "gpu": NAME,
        "sizes": [64, 256],
        "date": "",
        "cases": [case_of(plans) for plans in scans(60, 6)],
    }
    assert tune.fitted(result, Scans(0)) is None and "too much alike" in capsys.readouterr().out
    assert scan_cost_tables.in_use(NAME, "sm_90") == (SHIPPED, "")


def test_wrong_plans_are_told_and_not_fitted_to(machine, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tune, "measure", lambda tuned, draw: case_of(scans(1, 7, right=False)[0]))
    assert asked(tmp_path / "tune.json", "--count", "1") == 1
    out = capsys.readouterr().out
    assert out.count("WRONG") == 3 and "0 cases are too few" in out


def test_every_plan_of_a_draw_is_checked_and_timed(machine, monkeypatch):
    """By NumPy's results in place of each kernel's, one of which is wrong."""
    draw = next(draws(3, [1 / 256], [SCANS]))
    plans = [{key: plan[key] for key in Features.__dataclass_fields__} for plan in scans(1, 8)[0]]

    class Stub(Scans):
        def plans(self, draw, job):
            wrong = [partial(lambda call: call() * 0 + 77, call) for call in job.calls]
            return iter([(plan, wrong if i == 1 else job.calls) for i, plan in enumerate(plans)])

    monkeypatch.setattr(tune, "device_seconds", lambda call, **_: 1e-5)
    case = tune.measure(Stub(0), draw)
    assert [plan["right"] for plan in case["plans"]] == [True, False, True]
    assert [plan["kernel"] for plan in tune.timed(case)] == [plans[0]["kernel"], plans[2]["kernel"]]
    assert tune.describe(case, "kernel").count("WRONG") == 1
    assert tune.describe({"case": "x", "error": "E"}, "kernel") == "ERROR x: E"


# ---- of reductions


def reductions(count: int, seed: int) -> list[list[dict]]:
    """Reductions as planned of arrays that are not there, in every way, and times as costs say that are not the
    shipped ones, with a little noise."""
    rng, found = np.random.default_rng(seed), []
    for draw in islice(draws(seed, [4, 64, 256], Reductions.kinds), count):
        ways = [*waysof(draw)]
        case = tune_reductions.Model([[{**way, "seconds": 1.0} for way in ways]])
        times = np.exp(tune_fit.predicted(case, TRUE)[0]) * rng.normal(1, 0.02, len(ways))
        found.append([{**way, "seconds": float(s), "right": True} for way, s in zip(ways, times, strict=True)])
    return found


def waysof(draw):
    """What stands in a file of each way, but for its time: nothing is compiled."""
    count, x = CHUNKS if draw.kind == BATCH else 1, address_of(draw)
    job = SimpleNamespace(arrays=[[x] * count])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "ready", lambda *_: ())
        for plan, calls in Reductions().plans(draw, job):
            assert len(calls) == 1
            yield plan


def address_of(draw):
    """The chunk of a draw as planners see it."""
    dtype = dtype_of(draw.dtype)
    cell = np.zeros(1, dtype)
    x = draw.view(np.lib.stride_tricks.as_strided(cell, draw.base, contiguous(draw.base, dtype.itemsize)))
    at = x.__array_interface__["data"][0] - cell.__array_interface__["data"][0] + 2**30
    data = SimpleNamespace(ptr=at, device_id=0)
    return SimpleNamespace(shape=x.shape, strides=x.strides, dtype=dtype, itemsize=dtype.itemsize, data=data)


def contiguous(shape, itemsize):
    return tuple(itemsize * math.prod(shape[a + 1 :]) for a in range(len(shape)))


PLANNED = reduce_costs.table()
SHIPPED_VALUES = tune_reductions.values_of(PLANNED)
TRUE = {
    **SHIPPED_VALUES,
    ("", "memory"): 1.6 * SHIPPED_VALUES["", "memory"],
}


def test_times_of_reductions_are_predicted_as_the_planner_does():
    for case in reductions(20, 1):
        predicted = tune_fit.predicted(tune_reductions.Model([case]), SHIPPED_VALUES)[0]
        wanted = [sum(reduce_costs.seconds(reduce_costs.Effort(**e)) for e in way["efforts"]) for way in case]
        np.testing.assert_allclose(np.exp(predicted), wanted, rtol=1e-12)


def test_a_fit_finds_the_costs_of_reductions():
    known, others = (tune_reductions.Model(reductions(count, seed)) for count, seed in ((150, 2), (60, 3)))
    found = tune_fit.fit(known, SHIPPED_VALUES)
    then, now = quality(others, SHIPPED_VALUES), quality(others, found)
    assert then.missed[0] > 1.1 and now.missed[0] < 1.04 and now.mean_slower < 1.01
    assert found["", "memory"] == pytest.approx(TRUE["", "memory"], rel=0.1)
    moved = {kind for kind, name in found if kind and found[kind, name] != SHIPPED_VALUES[kind, name]}
    assert moved <= known.known


def test_reductions_are_measured_and_fitted_by_one_command(machine, monkeypatch, tmp_path, capsys):
    cases = iter(reductions(100, 4))
    monkeypatch.setattr(tune, "measure", lambda tuned, draw: case_of(next(cases)))
    assert asked(tmp_path / "tune.json", "--count", "100", "--reductions") == 0
    assert str(reduce_costs.TABLE) in capsys.readouterr().out
    kept = json.loads((tmp_path / "tune.json").read_text())["table"]
    assert kept["gpu"] == NAME and "100 random reductions" in kept["measured"] and "50 cases" in kept["measured"]
    assert kept.keys() == json.loads(reduce_costs.TABLE.read_text()).keys()
    monkeypatch.setattr(reduce_costs, "TABLE", tmp_path / "table.json")
    (tmp_path / "table.json").write_text(json.dumps(kept))
    assert reduce_costs.table.__wrapped__().kinds.keys() == PLANNED.kinds.keys()


def test_ways_run_on_the_buffers_they_are_for(monkeypatch):
    """Each call gets the addresses of its own chunks, and positions where an operator has some."""
    draw = next(d for d in draws(5, [1], [BATCH]) if d.op == "argmax")
    parts = [[address_of(draw)] * CHUNKS for _ in range(2)]
    for i, part in enumerate(parts):
        part[0] = SimpleNamespace(**{**vars(part[0]), "data": SimpleNamespace(ptr=2**31 + 16 * i, device_id=0)})
    monkeypatch.setattr(launch, "ready", lambda *_: ())
    seen = []
    monkeypatch.setattr(
        tune_reductions.device_reduce, "run", lambda plan, at, starts, device: seen.append((at, starts))
    )
    for _, calls in Reductions().plans(draw, SimpleNamespace(arrays=parts)):
        for call in calls:
            call()
    assert {at[0, 0] for at, _ in seen} == {2**31, 2**31 + 16}
    assert all(len(at) == len(starts) == CHUNKS and starts[1] > starts[0] for at, starts in seen)


# ---- the command without a GPU


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    def none(*_):
        raise command.DeviceError("no usable GPU")

    monkeypatch.setattr(command, "need_gpu", none)
    with pytest.raises(command.DeviceError):
        command.run(command.argparse.Namespace(what="tune", forget=False, seed=1, json=None))


def test_draws_of_half_the_cases_are_of_all_sizes():
    sizes = [draw.mib for draw in islice(draws(1, [4, 64, 256], [SCANS]), 60)]
    order = np.random.default_rng(1).permutation(60)
    assert {sizes[i] for i in order[::2]} == {sizes[i] for i in order[1::2]} == {4, 64, 256}


def test_quality_is_readable():
    assert str(Quality(217, (1.35, 2.33), (1.0, 1.013), 1.0142)) == (
        "217 cases, times missed by 1.35 (90 %: 2.33), picked plans slower than the best by 1.014 "
        "(median 1.000, 90 %: 1.013)"
    )
