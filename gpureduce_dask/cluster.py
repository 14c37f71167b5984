"""Clusters of this machine: workers on its GPUs, or NumPy workers where there is none, by the same call."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, DeviceError, ExtraError, message

if TYPE_CHECKING:
    from .operators.monoid import Bound, Monoid

COUNT_GPUS = "import cupy; print(cupy.cuda.runtime.getDeviceCount())"
# Large enough that plans take the kernels of large chunks: one line a grid, many lines, columns.
SIDE = 1024
AXES = ((0, 1), (0,), (1,))


def start(
    n_workers: int | None = None,
    *,
    gpu: bool | None = None,
    protocol: str | None = None,
    rmm_pool_size: int | float | str | None = 0.5,
    dashboard_address: str = "127.0.0.1:8787",
    **options: Any,
) -> Any:
    """Start a cluster of processes on this machine; its client, which as a context manager closes both.

    In a script, call it under ``if __name__ == "__main__":``, for workers import the script.

    Parameters
    ----------
    n_workers : int, optional
        By default one a GPU, or as many as dask takes for the cores.
    gpu : bool, optional
        Whether workers have a GPU each (dask-cuda); by default where CuPy sees one.
    protocol : str, optional
        By default ``"ucx"`` (NVLink) between several GPUs where distributed-ucxx is installed, else dask's own, TCP.
    rmm_pool_size : int, float, str or None
        Bytes, share or text as ``"60GB"`` of each GPU's memory that RMM, where installed, holds for CuPy from the
        start. The pool grows; None leaves CuPy its own pool. A worker that follows one that was killed waits up to 15 s
        for that one's memory, and starts with less if need be. With another argument ``rmm_...`` in ``options``
        dask-cuda makes the pool, and waits for nothing.
    dashboard_address : str
        Host and port of the dashboard, on this machine's loopback alone; port 0 is any that is free.
    **options
        Further arguments of ``dask_cuda.LocalCUDACluster`` or ``distributed.LocalCluster``.

    Raises
    ------
    ArgumentError
        More workers than GPUs, or a dashboard that others could reach.
    DeviceError, ExtraError
        No GPU where ``gpu=True``; a GPU, but no dask-cuda.
    """
    # As a call, which refuses an option that would take the workers' pages off loopback.
    arguments = dict(dashboard_address=_loopback(dashboard_address), worker_dashboard_address="127.0.0.1:0", **options)
    gpus = 0 if gpu is False else count_gpus()
    if gpu and not gpus:
        raise DeviceError(
            message("start", "CuPy sees no GPU", "one", "Run: python -m gpureduce_dask doctor, or leave out gpu=True.")
        )
    if not gpus:
        from distributed import LocalCluster

        return _own(LocalCluster(n_workers=n_workers, protocol=protocol, **arguments))
    count = gpus if n_workers is None else n_workers
    # Whoever passes other arguments of RMM's has dask-cuda make the pool.
    is_ours = not any(name.startswith("rmm_") for name in options)
    pool = rmm_pool_size if find_spec("rmm") else None
    if pool is not None and not is_ours:
        # A pool alone serves RMM's own buffers; CuPy keeps a second one unless it is told.
        arguments = {"rmm_pool_size": pool, "rmm_allocator_external_lib_list": ["cupy"], **arguments}
    return _own(_gpu_cluster(count, gpus, protocol, arguments), pool if is_ours else None)


def _gpu_cluster(count: int, gpus: int, protocol: str | None, arguments: Any) -> Any:
    if not 1 <= count <= gpus:
        raise ArgumentError(
            message("start", f"n_workers={count}", f"1 to {gpus}, one a GPU", "Leave it out, or pass gpu=False.")
        )
    try:
        from dask_cuda import LocalCUDACluster  # type: ignore[import-not-found]
    except ImportError as error:
        raise ExtraError(
            message(
                "start",
                f"dask-cuda does not import ({error})",
                "it, for workers on GPUs",
                'Run: pip install "gpureduce-dask[cluster]" ([cluster12] for CUDA 12), or pass gpu=False.',
            )
        ) from error
    if protocol is None and count > 1 and find_spec("distributed_ucxx"):
        protocol = "ucx"
    return LocalCUDACluster(n_workers=count, protocol=protocol, **arguments)


def count_gpus() -> int:
    """How many GPUs CuPy sees, asked of another process: one that starts CUDA here would hold memory of the first."""
    if find_spec("cupy") is None:
        return 0
    done = subprocess.run([sys.executable, "-c", COUNT_GPUS], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0  # no driver, or no GPU


def _loopback(address: str) -> str:
    """The address, refused where others could reach a dashboard that runs what it is sent."""
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost") or not port.isdecimal():
        raise ArgumentError(
            message(
                "start",
                f"dashboard_address={address!r}",
                "a port of loopback, as '127.0.0.1:8787'",
                "Reach it from elsewhere with: ssh -L 8787:127.0.0.1:8787 HOST.",
            )
        )
    return address


def _own(cluster: Any, pool: int | float | str | None = None) -> Any:
    """A client of the cluster that closes it too, with a memory pool for each worker's GPU."""
    try:
        client = _client_class()(cluster)
        client.wait_for_workers(len(cluster.workers))
        if pool is not None:
            from .distributed.device_pool import DevicePool

            client.register_plugin(DevicePool(pool))
        return client
    except BaseException:
        cluster.close()
        raise


@functools.cache
def _client_class() -> Any:
    """Made on first use: this module is imported with the package, which imports no distributed."""
    import distributed

    class Client(distributed.Client):
        """A client whose cluster ends with it."""

        def close(self, *args: Any, **kwargs: Any) -> Any:
            done = super().close(*args, **kwargs)  # type: ignore[no-untyped-call]
            if self.cluster is not None:
                self.cluster.close()
            return done

    return Client


def warm(
    client: Any,
    ops: Sequence[str | Monoid] = ("sum", "mean", "min", "max", "var", "argmax"),
    dtypes: Sequence[Any] = ("float32",),
) -> Any:
    """Import the package on every worker and compile on its GPU the kernels of these operators and dtypes.

    The kernels are those of large chunks in C order, one alone or several in one launch, all axes or one reduced.
    Workers that join later compile when they first reduce, as all do without this.

    Returns
    -------
    dict
        By worker's address: ``gpu``, the name of its GPU or None, and ``seconds``, how long it took. Of an asynchronous
        client an awaitable of it.
    """
    import numpy as np

    from .operators.table import get

    rows = [get(op) for op in ops]
    bounds = [row.bind(*[np.dtype(dtype)] * row.arity) for row in rows for dtype in dtypes]
    return client.sync(_warm, client, bounds)


async def _warm(client: Any, bounds: Sequence[Bound]) -> dict[str, dict[str, Any]]:
    known = await client.scheduler.identity(n_workers=-1)
    # A task, not client.run, which would keep the worker from its scheduler meanwhile.
    futures = {worker: client.submit(warm_here, bounds, workers=worker, pure=False) for worker in known["workers"]}
    found: dict[str, dict[str, Any]] = await client.gather(futures, asynchronous=True)
    return found


def warm_here(bounds: Sequence[Bound]) -> dict[str, Any]:
    """What :func:`warm` does on each worker."""
    begin = time.perf_counter()
    importlib.import_module("gpureduce_dask.api.reductions")
    name = _gpu_name()
    if name is not None:
        import cupy

        for bound in bounds:
            _compile(bound, cupy)
        cupy.cuda.get_current_stream().synchronize()
    return {"gpu": name, "seconds": time.perf_counter() - begin}


def _gpu_name() -> str | None:
    """The name of this process's GPU, or None without one."""
    if find_spec("cupy") is None:
        return None
    import cupy

    try:
        return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode())
    except cupy.cuda.runtime.CUDARuntimeError:
        return None


def _compile(bound: Bound, xp: Any) -> None:
    """Reduce a small array in each of the ways that trees do."""
    from . import chunk
    from .place import Place

    operands = (xp.ones((SIDE, SIDE), bound.dtypes[0]),) * bound.monoid.arity
    places = [Place((row, 0), (2 * SIDE, SIDE)) for row in (0, SIDE)]
    for axes in AXES:
        chunk.results(operands, bound, axes)
        one = chunk.reduce(operands, bound, axes, places[0])
        many = chunk.reduce_many([operands, operands], bound, axes, places)
        chunk.finalise(chunk.combine([one, many], bound), bound)
