"""``import gpureduce_dask`` needs neither CuPy nor a driver, touches no CUDA, and is fast."""

import subprocess
import sys

import pytest

# Refuses CuPy as a machine without it would, and anything that opens the CUDA driver.
WITHOUT_CUDA = """
import ctypes, sys

class NoCuda:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"cupy", "cupyx", "cupy_backends", "numba", "rmm", "cuda"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoCuda())
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "ctypes.dlopen" else None)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_without_cupy_touches_no_cuda():
    heavy = "{'cupy', 'dask', 'distributed', 'matplotlib', 'scipy', 'pandas'}"
    out = run(
        WITHOUT_CUDA
        + "import gpureduce_dask\n"
        + f"print(sorted({heavy} & set(sys.modules)), [name for name in opened if 'cuda' in name.lower()])"
    )
    assert out == "[] []"


def test_every_public_name_without_cupy():
    out = run(
        WITHOUT_CUDA
        + "import gpureduce_dask as gr\n"
        + "for name in gr.__all__: getattr(gr, name)\n"
        + "print([name for name in opened if 'cuda' in name.lower()])"
    )
    assert out == "[]"


def test_the_accessor_is_registered_only_by_its_own_module():
    pytest.importorskip("xarray")
    out = run(
        "import xarray, gpureduce_dask as gr\n"
        "for name in gr.__all__: getattr(gr, name)\n"
        "print(hasattr(xarray.DataArray, 'gr'), hasattr(xarray.Dataset, 'gr'))\n"
        "import gpureduce_dask.xarray\n"
        "print(hasattr(xarray.DataArray, 'gr'), hasattr(xarray.Dataset, 'gr'))"
    )
    assert out == "False False\nTrue True"


def test_the_accessor_without_xarray_says_what_to_install():
    out = run(
        "import sys; sys.modules['xarray'] = None\n"
        "try: import gpureduce_dask.xarray\n"
        "except ImportError as error: print(error)"
    )
    assert out.startswith("import: gpureduce_dask.xarray: ") and out.endswith(
        "expected xarray. Install it: pip install xarray."
    )


def test_numpy_arrays_reduce_without_cupy():
    out = run(
        WITHOUT_CUDA
        + "import dask.array as da, gpureduce_dask as gr\n"
        + "print(int(gr.sum(da.arange(10, chunks=3)).compute(scheduler='sync')))"
    )
    assert out == "45"


def test_import_is_fast():
    """Beside NumPy, which every user has loaded; the best of five, for the machine may be busy."""
    timed = "import numpy, time; t = time.perf_counter(); import gpureduce_dask; print(time.perf_counter() - t)"
    assert min(float(run(timed)) for _ in range(5)) < 0.2


@pytest.mark.gpu
def test_import_leaves_the_gpu_alone():
    out = run("import gpureduce_dask, sys; print('cupy' in sys.modules)")
    assert out == "False"
