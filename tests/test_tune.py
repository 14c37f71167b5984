"""Costs of scan kernels: tables that are shipped and tuned, and the fit, without a GPU."""

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

from gpureduce_dask.device import reduce_costs, scan_cost_tables, scan_launch
from gpureduce_dask.device.scan_cost_tables import Cost, Quality, Table
from gpureduce_dask.device.scan_costs import Features, Gpu, seconds
from gpureduce_dask.tools import cli, doctor
from gpureduce_dask.tools.bench import command, random_chunks, tune
from gpureduce_dask.tools.bench.random_draws import SCANS, draws
from gpureduce_dask.tools.bench.tune_fit import Timed, fit, loss, quality

SHIPPED = scan_cost_tables.shipped()
GPU = Gpu(232448, 132)
NAME = "NVIDIA H200"


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


def scans(count: int, seed: int) -> list[list[Timed]]:
    """Scans of 8 to 512 MiB, and their times with a little noise."""
    rng, found, costs = np.random.default_rng(seed), [], truth()
    for _ in range(count):
        elements = int(2 ** rng.uniform(20, 26))
        length = int(2 ** rng.uniform(3, 18))
        plans = [
            Features(kernel, 8 * elements, elements, 4 * length, blocks, chain, False, False, bool(rng.random() < 0.2))
            for kernel, blocks, chain in (
                ("RowScan", 132, 0),
                ("scan_lines", elements // length // 64 + 1, length),
                ("StripScan", 132, elements // (132 << 13)),
            )
        ]
        found.append([Timed(f, seconds(f, costs[f.kernel], GPU) * rng.normal(1, 0.02)) for f in plans])
    return found


def test_a_fit_finds_the_costs_that_times_were_made_of():
    known, others, costs = scans(200, 1), scans(80, 2), truth()
    before, found = SHIPPED.costs, fit(known, SHIPPED.costs, GPU)
    assert quality(others, before, GPU).missed[0] > 1.15
    now = quality(others, found, GPU)
    assert now.cases == 80 and now.missed[0] < 1.03 and now.missed[1] < 1.08 and now.mean_slower < 1.01
    assert loss(others, found, GPU) < 0.2 * loss(others, before, GPU)
    for name in ("RowScan start", "RowScan memory", "scan_lines memory", "StripScan step"):
        kernel, cost = name.split()
        assert getattr(found[kernel], cost) == pytest.approx(getattr(costs[kernel], cost), rel=0.1), name
    moved = {kernel for kernel, cost in before.items() if found[kernel] != cost}
    assert moved == {"RowScan", "scan_lines", "StripScan"}


def test_large_scans_say_nothing_of_how_a_kernel_starts():
    large = [case for case in scans(60, 3) if case[0].features.nbytes > 64 << 20]
    assert fit(large, SHIPPED.costs, GPU)["RowScan"].start == SHIPPED.costs["RowScan"].start


# ---- the command


def case_of(plans: list[Timed], right: bool = True) -> dict:
    told = [{**vars(plan.features), "seconds": plan.seconds, "right": right} for plan in plans]
    return {"case": "a scan", "mib": 4.0, "plans": told}


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
    monkeypatch.setattr(tune, "_nvrtc", lambda: "13.2")
    monkeypatch.setattr(command, "need_gpu", lambda *_: None)


def asked(path, *more):
    known = ["bench", "tune", "--seed", "3", "--mib", "0.004,0.1", "--compilers", "0", "--json", str(path)]
    return cli.main([*known, *more])


def test_tune_keeps_a_table_for_this_gpu(machine, monkeypatch, tmp_path, capsys):
    cases = iter(scans(100, 4))
    monkeypatch.setattr(tune, "measure", lambda draw: case_of(next(cases)))
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
    monkeypatch.setattr(tune, "measure", lambda draw: case_of(next(cases)))
    monkeypatch.setattr(tune, "fit", lambda cases, costs, gpu: costs)
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
    assert tune.fitted(result, GPU, "sm_90", "") is None and "too much alike" in capsys.readouterr().out
    assert scan_cost_tables.in_use(NAME, "sm_90") == (SHIPPED, "")


def test_wrong_plans_are_told_and_not_fitted_to(machine, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tune, "measure", lambda draw: case_of(scans(1, 7)[0], right=False))
    assert asked(tmp_path / "tune.json", "--count", "1") == 1
    out = capsys.readouterr().out
    assert out.count("WRONG") == 3 and "0 cases are too few" in out


def test_every_plan_of_a_draw_is_checked_and_timed(machine, monkeypatch):
    """By NumPy's results in place of each kernel's, one of which is wrong."""
    draw = next(draws(3, [1 / 256], [SCANS]))
    features = scans(1, 8)[0]

    def plans(draw, xs):
        calls = random_chunks.prepare(draw, len(xs)).calls
        wrong = [partial(lambda call: call() * 0 + 77, call) for call in calls]
        return [(timed.features, wrong if i == 1 else calls) for i, timed in enumerate(features)]

    monkeypatch.setattr(tune, "_plans", plans)
    monkeypatch.setattr(tune, "device_seconds", lambda call, **_: 1e-5)
    case = tune.measure(draw)
    assert [plan["right"] for plan in case["plans"]] == [True, False, True]
    assert [timed.features for timed in tune.timed(case)] == [features[0].features, features[2].features]
    assert tune.described(case).count("WRONG") == 1
    assert tune.described({"case": "x", "error": "E"}) == "ERROR x: E"


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
