"""The wheel and the sdist carry every kernel, byte for byte; an editable install reads the live ones."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import gpureduce_dask

ROOT = Path(__file__).parent.parent
KERNELS = {
    path.relative_to(ROOT / "kernels").as_posix(): path.read_bytes()
    for path in ROOT.glob("kernels/**/*")
    if path.is_file() and path.suffix != ".so"
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Prints where the package and its kernels are, with no help from the current folder.
WHERE = """
import gpureduce_dask
from gpureduce_dask.device.sources import kernels_folder
print(gpureduce_dask.__file__)
print(kernels_folder().resolve())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """An sdist of this tree, and a wheel made of the sdist, whose loops are compiled in a hurry: that takes a tenth of
    the time, and this tree's own are left as they are."""
    out = tmp_path_factory.mktemp("dist")
    compiler = tmp_path_factory.mktemp("compiler") / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CC", "cc")} "$@" -O0\n')
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"CC": str(compiler)})
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="module")
def hook():
    """The build hook as a module."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fresh_environment(folder: Path) -> Path:
    """A new environment that finds this one's dependencies, but not its gpureduce_dask; its Python."""
    venv.create(folder)
    python = folder / "bin" / "python" if sys.platform != "win32" else folder / "Scripts" / "python.exe"
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    # A path in a .pth file is not searched for .pth files of its own, so an editable install here stays out of sight.
    dependencies = {str(Path(module.__file__).parent.parent) for module in (pytest, __import__("numpy"))}
    Path(site, "dependencies.pth").write_text("\n".join(sorted(dependencies)))
    return python


def install(python: Path, *what: str, **environment: str) -> None:
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *offline, *what]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr


def run(python: Path, folder: Path, *arguments: str) -> str:
    """What the command line prints."""
    command = [python, "-I", "-m", "gpureduce_dask", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def where(python: Path, folder: Path) -> tuple[Path, Path]:
    done = subprocess.run([python, "-I", "-c", WHERE], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    package, kernels = done.stdout.split("\n")[:2]
    return Path(package).parent, Path(kernels)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_installed_kernels_are_the_tree_s(built, kind, tmp_path):
    python = fresh_environment(tmp_path / "env")
    without = {"CC": "false"} if kind == "sdist" else {}  # the wheel has its loops already
    install(python, str(built[kind]), **without)
    package, kernels = where(python, tmp_path)
    assert tmp_path in package.parents
    assert kernels == package / "_kernels"
    installed = {
        path.relative_to(kernels).as_posix(): path.read_bytes() for path in kernels.rglob("*") if path.is_file()
    }
    compiled = [name for name in installed if name.endswith(".so")]
    for name in compiled:
        del installed[name]
    assert installed == KERNELS
    assert len(KERNELS) > 10
    assert len(compiled) == (kind == "wheel" and shutil.which(os.environ.get("CC", "cc")) is not None)
    loads = "from gpureduce_dask.operators.native import library; print(library() is not None)"
    done = subprocess.run([python, "-I", "-c", loads], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == str(bool(compiled))
    printed = run(python, tmp_path, "--version")
    assert printed == f"gpureduce-dask {gpureduce_dask.__version__}\n"


@pytest.mark.slow
def test_without_a_compiler_the_doctor_says_what_is_lost(built, tmp_path):
    python = fresh_environment(tmp_path / "env")
    install(python, str(built["sdist"]), CC="false")
    [site] = (tmp_path / "env").rglob("site-packages")
    (site / "no_cupy.pth").write_text(
        "import sys; sys.modules['cupy'] = None"
    )  # whose libraries are not found from here
    printed = run(python, tmp_path, "doctor")
    [at] = [number for number, line in enumerate(printed.splitlines()) if " host loops " in line]
    lost, mend = printed.splitlines()[at : at + 2]
    assert "NumPy does their work" in lost and "C compiler" in mend and "--no-binary gpureduce-dask" in mend
    assert "Ready for NumPy chunks" in printed.splitlines()[-1] and "without compiled loops" in printed.splitlines()[-1]
    reduces = "import gpureduce_dask as gr; print(int(gr.sum(range(10))))"
    done = subprocess.run([python, "-I", "-c", reduces], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "45\n"


def test_the_wheel_says_what_it_runs_on(built):
    tags = built["wheel"].stem.split("-")[2:]
    assert tags[:2] == ["py3", "none"]
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert (tags[2] == "any") == (compiler is None)
    if compiler and shutil.which("objdump") and platform.libc_ver()[0] == "glibc":
        assert tags[2].startswith("manylinux_2_") and tags[2].endswith(platform.machine())


@pytest.mark.parametrize(
    ("needed", "versions", "minor"),
    [
        (["libc.so.6", "libm.so.6"], ["GLIBC_2.2.5", "GLIBC_2.14"], 17),  # manylinux2014 is the oldest that is named
        (["libc.so.6"], ["GLIBC_2.2.5", "GLIBC_2.34"], 34),
        (["libc.so.6"], ["GLIBC_2.14", "GLIBC_ABI_DT_RELR"], None),
        (["libc.so.6"], ["GLIBC_2.14", "GLIBC_PRIVATE"], None),
        (["libgomp.so.1", "libc.so.6"], ["GLIBC_2.14", "GOMP_4.0"], None),
        (["libc.musl-x86_64.so.1"], [], None),
    ],
)
def test_which_glibc_a_library_needs(hook, needed, versions, minor):
    listed = "".join(f"  NEEDED               {name}\n" for name in needed)
    wanted = "".join(f"    0x06969194 0x00 0{n} {name}\n" for n, name in enumerate(versions, 2))
    assert (
        hook.glibc(f"Dynamic Section:\n{listed}\nVersion References:\n  required from {needed[0]}:\n{wanted}") == minor
    )


def test_editable_install_reads_the_live_kernels(tmp_path):
    python = fresh_environment(tmp_path / "env")
    install(python, "--editable", str(ROOT), CC="false")  # the loops in the tree stay: the wheel's are compiled above
    assert where(python, tmp_path) == (ROOT / "gpureduce_dask", ROOT / "kernels")
    assert not (ROOT / "gpureduce_dask" / "_kernels").exists()


def test_sdist_holds_what_tests_need(built):
    import tarfile

    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "examples/own_monoid.py", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    assert {"docs/conf.py", "docs/_static/chunks.svg", "docs/how/levels.svg", ".ci/h200/trees.json"} <= names
    built_pages = ("docs/_build", "docs/gallery", "docs/reference/generated")
    assert not [name for name in names if name.startswith(built_pages)]


def test_needs_only_numpy_dask_and_distributed():
    assert sorted(need.split(">")[0] for need in PROJECT["dependencies"]) == ["dask[array]", "distributed", "numpy"]
    assert set(PROJECT["optional-dependencies"]) >= {"cuda12", "cuda13", "cluster", "demo", "test", "docs", "dev"}


def test_the_tests_of_dask_s_interfaces_are_there():
    """Those that .ci/run names for the oldest dask; all of ``accelerate`` are among them."""
    script = (ROOT / ".ci" / "run").read_text()
    named = re.search(r'^INTERFACES="([^"]*)"', script, re.MULTILINE)[1].split()
    there = {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")}
    assert len(named) > 20 and len(set(named)) == len(named) and set(named) <= there
    assert {name for name in there if name.startswith("accelerate")} <= set(named)
