"""Private interfaces of dask and distributed stand in one module, are few, and each can be missing."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import private_interfaces
import pytest
from clusters import local_cluster

import gpureduce_dask as gr
from gpureduce_dask.distributed import private

X = np.random.default_rng(3).normal(size=(24, 30))
LOCAL = [name for name in private.NAMES if name.startswith("dask.") and not name.endswith("_meta")]
CLUSTER = [name for name in private.NAMES if name.startswith("distributed.")]


def test_they_stand_in_one_module():
    assert private_interfaces.elsewhere() == {}


def test_they_are_few():
    assert len(private.NAMES) <= 9
    assert len(private.EXPRESSIONS) <= 4


def test_the_page_lists_them():
    text = private_interfaces.PAGE.read_text()
    assert private_interfaces.page(text) == text


def test_the_walk_finds_them(tmp_path):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "file.py").write_text(
        "from dask._expr import FinalizeCompute\nfrom dask.layers import Blockwise\n"
        "def f(client):\n    import distributed.core\n    return client._handle_scheduler_coroutine\n"
    )
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "file.py").write_text("import dask._expr\n")
    found = private_interfaces.elsewhere(tmp_path, tmp_path / "none.py")
    assert set(found) == {
        "dask._expr.FinalizeCompute",
        "dask.layers.Blockwise",
        "distributed.core",
        "._handle_scheduler_coroutine",
    }


def test_the_list_names_what_there_is():
    """A name that an upstream has no longer is a mechanism that does nothing."""
    pytest.importorskip("distributed")
    for name in private.NAMES:
        assert "_meta" in vars(da.Array) if name.endswith("._meta") else private._get(name) is not None, name


def take_away(monkeypatch, name):
    """As where an upstream has it no longer."""
    get = private._get
    monkeypatch.setattr(private, "_get", lambda asked: None if asked == name else get(asked))


# What each is for, in one process: a name in an error where it cannot be done without.
CHECKS = """
import sys
import dask, dask.array as da, numpy as np
import gpureduce_dask as gr
from gpureduce_dask.distributed import private

name = sys.argv[1]
get = private._get
private._get = lambda asked: None if asked == name else get(asked)
ref = np.random.default_rng(3).normal(size=(24, 30))
x = da.from_array(ref, chunks=(4, 5)).map_blocks(np.copy)
y = np.abs(x) + x.astype("f4").astype("f8")
want = np.abs(ref) + ref.astype("f4").astype("f8")
for a, b in [
    (gr.sum(y), want.sum()), (gr.argmax(y, axis=0), want.argmax(0)), (gr.argmin(y), want.argmin()),
    (gr.cumsum(y, axis=1), want.cumsum(1)), (gr.var(y - gr.mean(y), axis=1), want.var(1)),
    (gr.stats(y, ["min", "std"], axis=0).std, want.std(0)),
    (gr.histogram(y, 9, (0, 4))[0], np.histogram(want, 9, (0, 4))[0]),
    (gr.map_reduce(lambda u, v: u * v, "sum", x, y), (ref * want).sum()),
]:
    np.testing.assert_allclose(a.compute(scheduler="threads"), b, rtol=1e-10)
is_hooked = isinstance(vars(da.Array)["__dask_optimize__"], private._Optimizer)
assert is_hooked == (not name.endswith("__dask_optimize__"))
with gr.accelerate(numpy=True):
    np.testing.assert_array_equal(y.argmax(axis=1).compute(), want.argmax(1))
    np.testing.assert_allclose(y.mean(axis=0).compute(), want.mean(0))
out = da.zeros((), chunks=())
try:
    gr.sum(y, out=out)
except gr.errors.ArgumentError as error:
    assert name.endswith("handle_out") and "out=" in str(error), error
else:
    assert not name.endswith("handle_out")
    np.testing.assert_allclose(out.compute(), want.sum())
"""


# Each name in a process of its own, for the hook of arrays is put in once; what all of them import is imported before.
EACH = """
import json, os, sys, traceback
import dask, dask.array, distributed, numpy

_, checks, *names = sys.argv
faults = {}
for name in names:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        said = ""
        try:
            sys.argv[1] = name
            exec(checks, {})
        except BaseException:
            said = traceback.format_exc()
        os.write(writer, said.encode()[-4000:] or b"passed")
        os._exit(0)
    os.close(writer)
    with open(reader) as said:
        faults[name] = said.read()
    os.waitpid(child, 0)
print(json.dumps(faults))
"""


@functools.cache
def said_without() -> dict[str, str]:
    """What the checks say without each name: "passed", or how they failed."""
    pytest.importorskip("distributed")
    program = [sys.executable, "-c", EACH, CHECKS, "nothing", *LOCAL]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["nothing", *LOCAL])
def test_one_process_without(name):
    said = said_without()[name]
    assert said == "passed", said


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.admin.tick.limit": "1m"}),
        local_cluster(3, processes=False) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("name", [None, *CLUSTER])
def test_a_cluster_without(name, client, monkeypatch):
    """Its workers are of this process."""
    from distributed import wait

    take_away(monkeypatch, name)
    ref = X + len(str(name))  # whose handles are of this test
    x = da.from_array(ref, chunks=(4, 5)).persist()
    wait(x)
    np.testing.assert_allclose(gr.sum(x).compute(), ref.sum())
    np.testing.assert_allclose(gr.std(x, axis=0).compute(), ref.std(0))
    np.testing.assert_allclose(gr.cumsum(x, axis=1).compute(), ref.cumsum(1))
    np.testing.assert_allclose(gr.max(x * 2 - gr.min(x)).compute(), ref.max() * 2 - ref.min())
