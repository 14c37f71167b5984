"""CUDA that does not start, children forked after it has, and faults that end it; on fakes, without a GPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from clusters import local_cluster

import gpureduce_dask as gr
from gpureduce_dask.device import faults
from gpureduce_dask.errors import DeviceError
from gpureduce_dask.graph import reduce_tasks
from gpureduce_dask.integrations import chunk_functions


class Fault(RuntimeError):
    """An error as CuPy raises it: a text and CUDA's number."""

    def __init__(self, status: int) -> None:
        super().__init__(f"fault {status}")
        self.status = status


@faults.task
def fail(status: int) -> None:
    raise Fault(status)


@faults.task
def fail_once(marker: str) -> int:
    """Meets an illegal address the first time; after that, tells its process."""
    if not Path(marker).exists():
        Path(marker).touch()
        raise Fault(700)
    return os.getpid()


# ---- starting


@pytest.mark.parametrize("status", sorted(faults.UNUSABLE))
def test_no_driver_names_the_remedy(status):
    with pytest.raises(DeviceError, match=rf"^reduce: .*start \(fault {status}\); expected .*driver.*NumPy") as caught:
        fail(status)
    assert isinstance(caught.value.__cause__, Fault)


def as_device_chunk(block):
    """A CuPy array in no memory, made without a driver."""
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.UnownedMemory(512, block.nbytes, None, 0)
    return cupy.ndarray(block.shape, block.dtype, cupy.cuda.MemoryPointer(memory, 0))


@pytest.mark.parametrize("make", [as_device_chunk, np.asarray], ids=["CuPy chunks", "promised CuPy chunks"])
def test_device_chunks_without_a_driver(make):
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.is_available():
        pytest.skip("this machine has a GPU")
    x = da.ones(6, chunks=3).map_blocks(make, meta=gr.device_meta(1, "f8"))
    with pytest.raises(DeviceError, match="CUDA does not start"):
        gr.sum(x).compute(scheduler="sync")


FORK = """
import os, sys, warnings
from gpureduce_dask.device import faults
from gpureduce_dask.errors import DeviceError

warnings.simplefilter("ignore")
forgotten = []
begin = lambda: faults.begin(lambda: forgotten.append(True))
{parent}
child = os.fork()
if not child:
    try:
        begin()
    except DeviceError as error:
        os._exit(7 if forgotten and "spawn" in str(error) else 8)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
begin()  # the parent works on
sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.parametrize(("parent", "code"), [("begin()", 7), ("", 0)], ids=["after CUDA", "before CUDA"])
def test_children_forked_after_cuda_are_refused(parent, code):
    done = subprocess.run([sys.executable, "-c", FORK.format(parent=parent)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr


# ---- faults


@pytest.mark.parametrize("status", sorted(faults.STICKY))
def test_a_fault_that_ends_cuda_says_so(status):
    with pytest.raises(DeviceError, match=rf"process {os.getpid()} \(fault {status}\).*anew") as caught:
        fail(status)
    assert isinstance(caught.value.__cause__, Fault)
    assert ("a scan, too, whose tile waits in vain" in str(caught.value)) == (status in (715, 719))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("status", [1, 2, 400])
def test_other_errors_pass(status):
    with pytest.raises(Fault):
        fail(status)


def test_cupy_errors_carry_the_number():
    driver = pytest.importorskip("cupy_backends.cuda.api.driver")
    runtime = pytest.importorskip("cupy_backends.cuda.api.runtime")
    assert runtime.CUDARuntimeError(700).status in faults.STICKY
    assert issubclass(driver.CUDADriverError, RuntimeError)


@pytest.mark.parametrize("module", [reduce_tasks, chunk_functions])
def test_every_task_is_guarded(module):
    names = {
        reduce_tasks: ("reduce_chunk", "reduce_whole", "combine", "finalise"),
        chunk_functions: ("reduce_chunk", "combine", "aggregate"),
    }
    for name in names[module]:
        function = getattr(module, name)
        assert function.__wrapped__.__name__ == name
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(("nanny", "error"), [("tcp://127.0.0.1:1", SystemExit), (None, DeviceError)])
def test_a_worker_with_a_nanny_exits(monkeypatch, caplog, nanny, error):
    worker = SimpleNamespace(nanny=nanny)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_worker=lambda: worker))
    with pytest.raises(error, match="CUDA is lost"):
        fail(719)
    assert [record.levelname for record in caplog.records] == (["CRITICAL"] if nanny else [])


@pytest.mark.slow
def test_the_work_of_a_lost_worker_is_redone(tmp_path):
    from distributed import Client

    with (
        local_cluster(1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        before = client.submit(os.getpid).result(timeout=60)
        after = client.submit(fail_once, str(tmp_path / "marker")).result(timeout=60)
    assert before != after
