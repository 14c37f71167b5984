"""How ``gr.accelerate()`` is switched: calls, blocks, threads, the configuration key, and programs left as they are."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.array import reductions
from plain_calls import ROW, X, is_ours, switched_off  # noqa: F401

import gpureduce_dask as gr
from gpureduce_dask.integrations.accelerate import _calls
from gpureduce_dask.integrations.patches import WRAPPED


def test_a_call_holds_until_the_next():
    gr.accelerate(numpy=True)
    assert is_ours(ROW.sum())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(is_ours(ROW.sum())))
    thread.start()
    thread.join()
    assert seen == [True]
    for _ in range(1000):
        gr.accelerate(False)
    assert not is_ours(ROW.sum()) and len(_calls) <= 100


def test_blocks_nest():
    with gr.accelerate(numpy=True) as switch:
        with gr.accelerate(False):
            assert not is_ours(ROW.sum())
            with switch, switch:
                assert is_ours(ROW.sum())
            assert not is_ours(ROW.sum())
        assert is_ours(ROW.sum())
    assert not is_ours(ROW.sum())
    with pytest.raises(KeyError), gr.accelerate(numpy=True):
        raise KeyError
    assert not is_ours(ROW.sum()) and not _calls


def test_blocks_end_in_any_order():
    outer, inner = gr.accelerate(numpy=True), gr.accelerate(False)
    outer.__enter__(), inner.__enter__()
    outer.__exit__(None, None, None)
    assert not is_ours(ROW.sum())  # the inner one is still open
    inner.__exit__(None, None, None)
    with gr.accelerate(numpy=True):
        outer.__exit__(None, None, None)  # which is not open
        assert is_ours(ROW.sum())
    assert not is_ours(ROW.sum()) and not _calls


@gr.accelerate(numpy=True)
def total(x, depth=0):
    """Of every element."""
    return total(x, depth - 1) if depth else x.sum()


def test_a_decorator():
    assert not _calls and not is_ours(ROW.sum())
    assert is_ours(total(ROW, depth=3)) and not is_ours(ROW.sum())
    assert total.__name__ == "total" and total.__doc__ == "Of every element." and inspect.unwrap(total) is not total

    @gr.accelerate("numpy")
    async def later(x):
        await asyncio.sleep(0)
        return is_ours(x.sum())

    async def both():
        return await asyncio.gather(later(ROW), asyncio.sleep(0, is_ours(ROW.sum())))

    assert asyncio.run(both()) == [True, False] and inspect.iscoroutinefunction(later)

    @gr.accelerate(numpy=True)
    def failing():
        assert is_ours(ROW.sum())
        raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert not is_ours(ROW.sum()) and not _calls
    with ThreadPoolExecutor(8) as pool:  # one wrapper in many threads, beside what never asked
        found = pool.map(lambda n: is_ours(total(ROW, n % 3) if n % 2 else ROW.sum()), range(64))
        assert list(found) == [False, True] * 32


def test_what_cannot_be_decorated():
    def steps():
        yield ROW.sum()

    async def flow():
        yield ROW.sum()

    for thing, says in ((steps, "the loop over it"), (flow, "the loop"), (dict, "methods"), (5, "@accelerate")):
        with pytest.raises(gr.errors.ArgumentTypeError, match=f"^accelerate: .*{says}"):
            gr.accelerate(numpy=True)(thing)
    with pytest.raises(gr.errors.ArgumentTypeError, match=r"Write @accelerate\(\)"):
        gr.accelerate(total)
    assert not _calls


@pytest.mark.parametrize("wrong", ["nmpy", "", "true", 1, 0, None, [True]])
def test_arguments_that_mean_nothing(wrong):
    for call in (
        lambda: gr.accelerate(wrong),
        lambda: gr.accelerate(numpy=wrong),
        lambda: gr.accelerate(True, fuse=wrong),
    ):
        with pytest.raises(gr.errors.ArgumentError, match=r"^accelerate: .*True(, | or )False"):
            call()
    assert not _calls
    with gr.accelerate("numpy"), gr.accelerate(np.True_, numpy=np.True_):
        assert is_ours(ROW.sum())


@pytest.mark.parametrize(
    "keys, says",
    [
        ({"gpureduce.acelerate": True}, r"^gpureduce\.acelerate: .*gpureduce\.fuse.*mean gpureduce\.accelerate\?"),
        ({"gpureduce.threads": 4}, r"^gpureduce\.threads: no such key"),
        ({"gpureduce.accelerate": "nmpy"}, r"^gpureduce\.accelerate: 'nmpy'; expected True, False or 'numpy'"),
        ({"gpureduce.accelerate": 2}, r"^gpureduce\.accelerate: 2;"),
        ({"gpureduce.fuse": "no"}, r"^gpureduce\.fuse: 'no'; expected True or False"),
        ({"gpureduce.group": "all"}, r"^gpureduce\.group: 'all'; expected an integer"),
        ({"gpureduce": True}, r"^gpureduce: True .*gpureduce\.accelerate"),
    ],
)
def test_configuration_that_means_nothing(keys, says):
    import gpureduce_dask.auto  # noqa: F401

    with dask.config.set(keys):
        for build in (ROW.sum, lambda: gr.sum(ROW)):
            with pytest.raises(gr.errors.ArgumentError, match=says):
                build()


@pytest.mark.parametrize(
    "text, on", [("numpy", True), ("NumPy", True), ("true", False), ("False", False), ("0", False)]
)
def test_configuration_as_text(text, on):
    import gpureduce_dask.auto  # noqa: F401

    from_environment = dask.config.collect_env({"DASK_GPUREDUCE__ACCELERATE": text})
    value = from_environment["gpureduce"]["accelerate"]
    for each in (value, text) if text != "0" else (value,):  # as the environment is read, and as left in a file
        with dask.config.set({"gpureduce.accelerate": each}):
            assert is_ours(ROW.sum()) == on


def test_blocks_are_a_threads_own():
    """Sixteen threads, each in and out of the same switch at its own pace, beside others that never asked."""
    switch, wrong = gr.accelerate(numpy=True), []
    with switch:
        pass
    start = threading.Barrier(16)

    def work(number):
        start.wait()
        for _ in range(5):
            if number % 2 and is_ours(ROW.sum()):
                wrong.append("on")
            with switch if number % 2 == 0 else gr.accelerate(False):
                if is_ours(ROW.sum()) != (number % 2 == 0):
                    wrong.append("off")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not _calls


def test_a_context_keeps_its_block():
    with gr.accelerate(numpy=True):
        context = contextvars.copy_context()
    assert context.run(lambda: is_ours(ROW.sum()))


def test_the_configuration_key():
    import gpureduce_dask.auto  # noqa: F401

    with dask.config.set({"gpureduce.accelerate": "numpy"}):
        assert is_ours(ROW.sum())
        with gr.accelerate(False):
            assert not is_ours(ROW.sum())
    for off in (True, False, None):  # True is for CuPy chunks alone
        with dask.config.set({"gpureduce.accelerate": off}):
            assert not is_ours(ROW.sum())
    x = ROW.map_blocks(np.asarray, meta=gr.device_meta(3, "f8"))
    with dask.config.set({"gpureduce.accelerate": True}):
        assert is_ours(x.sum())
    with (
        dask.config.set({"gpureduce.accelerate": "yes"}),
        pytest.raises(gr.errors.ArgumentError, match=r"gpureduce\.accelerate: 'yes'"),
    ):
        ROW.sum()


def test_graphs_outlive_the_switch():
    with gr.accelerate(numpy=True):
        total, lazy = ROW.sum(), (ROW - ROW.mean()).std(axis=0)
    assert is_ours(total) and is_ours(lazy)
    travelled = cloudpickle.loads(cloudpickle.dumps(lazy))
    np.testing.assert_allclose(total.compute(), X.sum(), rtol=1e-12)
    np.testing.assert_allclose(travelled.compute(), (X - X.mean()).std(axis=0), rtol=1e-12)


def test_hooks_look_like_what_they_stand_for():
    gr.accelerate()
    for stock in WRAPPED:
        hook = getattr(reductions, stock.__name__, None) or getattr(da, stock.__name__)
        assert hook is not stock and inspect.unwrap(hook) is stock
        assert inspect.signature(hook) == inspect.signature(stock) and hook.__doc__ == stock.__doc__
        assert pickle.loads(pickle.dumps(hook)) is hook
    assert da.std is reductions.std and da.reduction is reductions.reduction
    gr.accelerate()
    assert inspect.unwrap(da.std, stop=lambda f: f in WRAPPED) is da.std.__wrapped__


CLUSTER = """
import sys
import dask.array as da
from dask.distributed import Client

if __name__ == "__main__":
    with Client(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        x = da.random.RandomState(0).random((40, 40), chunks=10).persist()
        total, mean = x.sum(), x.mean(axis=0)
        print(total.name[:3], mean.name[:3], abs(float(total.compute()) - 1600 * float(mean.mean().compute())) < 1e-6)
        print(client.run(lambda: "gpureduce_dask.integrations.patches" in sys.modules).popitem()[1])
"""

EXPRESSIONS = """
import warnings
import dask
dask.config.set({"array.query-planning": True, "gpureduce.accelerate": "numpy"})
import dask.array as da
import gpureduce_dask as gr
print(da.ones(8, chunks=3).sum().name[:3])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import gpureduce_dask.auto
total = da.ones(8, chunks=3).sum()
print(len(caught), total.name[:3], float(total.compute()))
with gr.accelerate(False):
    print(da.ones(8, chunks=3).sum().name[:3])
x = da.ones((8, 4), chunks=3)
print(da.reduction(x, **gr.tree("var", x.dtype), axis=0).compute().tolist())
"""


def run(tmp_path, text, **environment):
    script = tmp_path / "script.py"
    script.write_text(text)
    path = os.pathsep.join([str(p) for p in sys.path if p])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_a_program_that_is_not_changed(tmp_path):
    """Two environment variables, and only dask is imported; the worker has nothing switched on."""
    on = {"DASK_GPUREDUCE__ACCELERATE": "numpy", "DASK_DISTRIBUTED__CLIENT__PRELOAD": "gpureduce_dask.auto"}
    assert run(tmp_path, CLUSTER, **on) == ["gr- gr- True", "False"]


def test_array_expressions(tmp_path):
    """The key takes dask's reductions of expressions from the import of ``auto`` on, and a block leaves them."""
    assert run(tmp_path, EXPRESSIONS) == ["sum", "0 gr- 8.0", "sum", "[0.0, 0.0, 0.0, 0.0]"]
