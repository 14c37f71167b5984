"""The doctor: each check on modules that are there, missing and broken; its report and its exit status."""

from __future__ import annotations

import importlib.metadata
import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace

import pytest

from gpureduce_dask.operators import native
from gpureduce_dask.tools import cli, doctor


class CudaError(RuntimeError):
    pass


def fake_cupy(names=("H200",), major=9, driver=13000, runtime=13020) -> ModuleType:
    """A CuPy that sees these GPUs."""

    def count() -> int:
        if not names:
            raise CudaError("no device")
        return len(names)

    made = ModuleType("cupy")
    made.__version__ = "14"
    made.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            CUDARuntimeError=CudaError,
            getDeviceCount=count,
            getDeviceProperties=lambda number: {"name": names[number].encode(), "major": major},
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: runtime,
        )
    )
    return made


def look(check) -> tuple[str, str]:
    return doctor._state(check)


@pytest.fixture
def install(monkeypatch):
    """``install(name, module)``; without a module the name cannot be found."""
    return lambda name, module=None: monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def versions(monkeypatch):
    """What is installed: ``versions(name=(version, requirements))``."""

    def install(**packages):
        table = {name.replace("_", "-"): each for name, each in packages.items()}

        def find(name):
            if name not in table:
                raise importlib.metadata.PackageNotFoundError(name)
            return table[name]

        monkeypatch.setattr(doctor.metadata, "version", lambda name: find(name)[0])
        monkeypatch.setattr(doctor.metadata, "requires", lambda name: find(name)[1])

    return install


def test_host_loops(monkeypatch, tmp_path):
    """In a checkout that has moved on, what was compiled is left aside: a compiler is not what is missing."""
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(native, "FOLDERS", (tmp_path,))
    state, text = look(doctor.host_loops)
    assert state == "missing" and text.startswith("not compiled")
    (tmp_path / "loops-0123-linux.so").touch()
    assert "texts that have changed" in look(doctor.host_loops)[1]


def test_dask_and_distributed_go_together(versions):
    versions(dask=("2026.7.1", []), distributed=("2026.7.1", []))
    assert look(doctor.dask) == ("ok", "dask and distributed 2026.7.1")
    versions(dask=("2026.7.1", []), distributed=("2026.8.0", []))
    assert look(doctor.dask)[0] == "broken"


@pytest.mark.parametrize(
    ("status", "state"), [(0, "ok"), (100, "missing"), (999, "broken"), (None, "missing")], ids=str
)
def test_driver(monkeypatch, status, state):
    def load(name):
        if status is None:
            raise OSError(name)
        return SimpleNamespace(cuDriverGetVersion=lambda at: setattr(at._obj, "value", 13010), cuInit=lambda _: status)

    monkeypatch.setattr(doctor.ctypes, "CDLL", load)
    got, text = look(doctor.driver)
    assert got == state and ("CUDA 13.1" in text or status is None)


def test_cupy_missing_broken_and_twice(install, monkeypatch):
    install("cupy")
    for check in (doctor.cupy, doctor.gpus, doctor.nvrtc, doctor.kernels, doctor.transfers):
        assert look(check) == ("missing", "cupy is not installed")
    install("cupy", fake_cupy())
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: {"cupy": ["cupy-cuda13x", "cupy-cuda13x"]})
    assert look(doctor.cupy) == ("ok", "14, for CUDA 13.2")
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: {"cupy": ["cupy-cuda12x", "cupy-cuda13x"]})
    assert look(doctor.cupy)[0] == "broken"


@pytest.mark.parametrize(
    ("cupy", "state", "words"),
    [
        (fake_cupy(("H200", "H200")), "ok", "2: H200, H200"),
        (fake_cupy(()), "missing", "sees none"),
        (fake_cupy((), driver=0), "missing", "sees none"),
        (fake_cupy(driver=12080), "broken", "driver is for CUDA 12.8, CuPy for CUDA 13.2"),
        (fake_cupy(("P100",), major=6), "warn", "P100"),
    ],
    ids=["two", "none", "no driver", "old driver", "old GPU"],
)
def test_gpus(install, cupy, state, words):
    install("cupy", cupy)
    got, text = look(doctor.gpus)
    assert got == state and words in text


def test_nvrtc_that_does_not_load_is_broken(install):
    def fail():
        raise RuntimeError("libnvrtc.so not found")

    install("cupy", fake_cupy())
    nvrtc = ModuleType("nvrtc")
    nvrtc.getVersion = fail
    install("cupy_backends.cuda.libs.nvrtc", nvrtc)
    assert look(doctor.nvrtc) == ("broken", "RuntimeError: libnvrtc.so not found")
    nvrtc.getVersion = lambda: (13, 2)
    assert look(doctor.nvrtc) == ("ok", "CUDA's run-time compiler 13.2")


def test_a_kernel_compiles_without_a_gpu(install, monkeypatch):
    pytest.importorskip("cupy_backends")
    from gpureduce_dask.device import compile as compiler

    install("cupy", fake_cupy(()))
    kernels = []
    monkeypatch.setattr(compiler, "cubin", lambda kernel, arch: kernels.append((kernel, arch)))
    assert look(doctor.kernels)[0] == "ok"
    assert [arch for _, arch in kernels] == ["sm_90"] and "Sum<" in kernels[0][0]


def test_transfers_want_numba(install, monkeypatch):
    install("cupy", fake_cupy())
    install("distributed.protocol.cupy", ModuleType("distributed.protocol.cupy"))
    assert look(doctor.transfers)[0] == "ok"
    monkeypatch.delitem(sys.modules, "distributed.protocol.cupy")
    fake = ModuleType("cupy")  # which distributed's module finds, before it looks for the missing numba
    fake.ndarray = type("ndarray", (), {})
    install("cupy", fake)
    install("numba")
    install("rmm")
    state, text = look(doctor.transfers)
    assert state == "missing" and "numba" in text


def test_dask_cuda_without_its_extra_is_broken(install, tmp_path, monkeypatch):
    install("dask_cuda")
    assert look(doctor.dask_cuda) == ("missing", "dask_cuda is not installed")
    monkeypatch.delitem(sys.modules, "dask_cuda")
    (tmp_path / "dask_cuda.py").write_text("import cuda_bindings_that_no_extra_brought")
    monkeypatch.syspath_prepend(tmp_path)
    state, text = look(doctor.dask_cuda)
    assert state == "broken" and "cuda_bindings" in text


@pytest.mark.parametrize(("here", "state"), [("2026.7.1", "ok"), ("2026.8.0", "warn"), (None, "missing")])
def test_the_dask_that_dask_cuda_wants(versions, here, state):
    packages = {name: (here or "2026.7.1", []) for name in ("dask", "distributed")}
    if here:
        packages["dask_cuda"] = ("26.10.0", ["click>=8.1", "rapids-dask-dependency==26.10.*"])
        wanted = [
            "bokeh<3.10",
            "dask<2026.7.2,>=2026.7.1",
            "distributed<2026.7.2,>=2026.7.1",
            'pytest; extra == "test"',
        ]
        packages["rapids_dask_dependency"] = ("26.10.0", wanted)
    versions(**packages)
    got, text = look(doctor.pin)
    assert got == state
    if state == "warn":
        assert "dask 2026.8.0, not <2026.7.2,>=2026.7.1" in text


def test_rmm_has_to_serve_cupy(install):
    rmm, allocators = ModuleType("rmm"), ModuleType("rmm.allocators.cupy")
    rmm.__version__ = "26.10"
    served = []
    allocators.rmm_cupy_allocator = served.append
    install("rmm", rmm)
    install("rmm.allocators", ModuleType("rmm.allocators"))
    install("rmm.allocators.cupy", allocators)
    install("cupy", fake_cupy())
    assert look(doctor.rmm) == ("ok", "26.10; it serves CuPy") and served == [256]
    install("cupy", fake_cupy(()))
    assert "untried" in look(doctor.rmm)[1] and served == [256]


def test_report_says_how_to_mend_what_is_not_ok():
    def fail():
        raise OSError("torn")

    checks = [doctor.Check("good", lambda: "here", "nothing"), doctor.Check("bad", fail, "mend it")]
    text = doctor.report(doctor.examine(checks))
    assert text.splitlines() == ["NumPy chunks", "  ok       good       here", "  broken   bad        OSError: torn",
                                 "                      mend: mend it"]  # fmt: skip


def test_a_purpose_of_which_nothing_is_here_is_one_line():
    def fail():
        raise doctor.Missing("is not installed")

    checks = [doctor.Check(name, fail, f"mend {name}", doctor.GPU) for name in ("driver", "CuPy")]
    found = doctor.examine(checks)
    heading, line = doctor.report(found).splitlines()
    assert heading == "One GPU" and line.startswith("  not set up here; it needs a GPU") and "[cuda13]" in line
    assert len(doctor.report(found, everything=True).splitlines()) == 5
    there = doctor.examine([*checks, doctor.Check("NVRTC", lambda: "13.2", "", doctor.GPU)])
    assert "mend: mend CuPy" in doctor.report(there)


def findings(**states):
    """A finding for each check, ok where no other state is given."""
    named = {name.replace("_", " "): state for name, state in states.items()}
    assert set(named) <= {check.name for check in doctor.CHECKS}
    return [doctor.Finding(check, named.get(check.name, "ok"), f"<{check.name}>") for check in doctor.CHECKS]


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ({}, "2 processors, compiled loops. Ready for GPUs, <GPUs>, and for a cluster of them."),
        ({"RMM": "missing"}, "Ready for GPUs, <GPUs>; a cluster of them is without RMM."),
        ({"host_loops": "missing", "GPUs": "missing", "driver": "missing"},
         "2 processors, without compiled loops. GPUs: none found; NumPy chunks need none."),
        ({"GPUs": "broken"}, "GPUs: not ready, see above. Broken: GPUs."),
        ({"kernels": "broken"}, "GPUs: not ready, see above. Broken: kernels."),
        ({"CuPy": "missing", "GPUs": "missing"}, "GPUs: not ready, see above."),
        ({"dask": "broken"}, "Not ready: mend dask and distributed first."),
    ],
)  # fmt: skip
def test_the_verdict(monkeypatch, states, says):
    monkeypatch.setattr(doctor, "processors", lambda: 2)
    sentence = doctor.verdict(findings(**states))
    assert sentence.endswith(says) and "\n" not in sentence
    assert sentence.startswith("Ready for NumPy chunks on this machine: 2 processors, ") or "dask" in states
    monkeypatch.setattr(doctor, "processors", lambda: 1)
    assert "1 processor, " in doctor.verdict(findings())


@pytest.mark.parametrize(("error", "code"), [(doctor.Missing, 0), (doctor.Doubt, 0), (ImportError, 1)])
def test_exit_status_is_1_only_for_what_is_broken(monkeypatch, capsys, error, code):
    def fail():
        raise error("x")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check("it", fail, "so"),))
    assert doctor.run(Namespace(workers=False, all=True)) == code
    assert "mend: so" in capsys.readouterr().out


def test_here(capsys):
    """On this machine, whatever it has: a line each, nothing broken, and a verdict at the end."""
    pytest.importorskip("distributed")
    assert cli.main(["doctor", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line[11:].startswith(check.name) for line in lines) for check in doctor.CHECKS)
    assert lines[0] == "NumPy chunks" and lines[1].startswith("  ok       dask")
    assert lines[-2] == "" and lines[-1].startswith("Ready for NumPy chunks on this machine: ")


def test_workers(monkeypatch):
    """A cluster is started for it, a small one here."""
    pytest.importorskip("distributed")
    from gpureduce_dask import cluster

    start = cluster.start
    monkeypatch.setattr(cluster, "start", lambda **options: start(1, gpu=False, **options))
    assert look(doctor.workers) == ("ok", "1: NumPy, without a GPU")
