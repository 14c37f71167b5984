"""Clusters on this machine: the same call starts workers on its GPUs, or NumPy workers where there are none."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, ArgumentTypeError, DeviceError, ExtraError, message

if TYPE_CHECKING:
    from distributed import Client

    from .operators.monoid import Bound, Monoid

__all__ = ["count_gpus", "start", "warm"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


COUNT_GPUS = "import cupy; print(cupy.cuda.runtime.getDeviceCount())"
# Rows and columns of a chunk that is large enough to be reduced by the kernels of large chunks, along each of AXES.
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
) -> Client:
    """Start a cluster on this machine, with a worker for each GPU, or with NumPy workers where there is none.

    Parameters
    ----------
    n_workers : int, optional
        How many workers. By default one for each GPU; without GPUs as many as dask takes for the cores.
    gpu : bool, optional
        Whether each worker has a GPU, which takes dask-cuda. By default where CuPy sees one.
    protocol : str, optional
        How workers communicate, such as ``"tcp"`` or ``"ucx"`` (NVLink). By default UCX between several GPUs where
        distributed-ucxx is installed, else TCP.
    rmm_pool_size : int, float, str or None, default 0.5
        How much memory of each GPU RMM, where it is installed, holds for CuPy from the start: bytes, a share between 0
        and 1, or a text such as ``"60GB"``. The pool grows where it has to. None leaves CuPy its own pool. A worker
        that takes the place of one that was killed waits for that one's memory for up to 15 seconds, and then starts
        with what there is.
    dashboard_address : str, default "127.0.0.1:8787"
        Host and port of the dashboard, which only this machine can reach. Port 0 is any that is free.
    **options
        Further arguments of ``dask_cuda.LocalCUDACluster`` or ``distributed.LocalCluster``. With one of dask-cuda's
        other arguments of RMM, ``rmm_...``, dask-cuda makes the pool, and a worker waits for no memory.

    Returns
    -------
    distributed.Client
        A client of the cluster. Closing it, or leaving its ``with`` block, closes the cluster too.

    Raises
    ------
    ArgumentError
        There are fewer GPUs than workers, or others could reach the dashboard.
    DeviceError
        `gpu` is True, and CuPy sees no GPU.
    ExtraError
        There is a GPU, but dask-cuda is not installed.

    See Also
    --------
    warm : Compile kernels on the workers of a client.

    Notes
    -----
    Call it under ``if __name__ == "__main__":`` in a script, since worker processes import the script.

    Worker processes import this package as they start, and then tell Python's garbage collector to leave alone what
    they have (``gc.freeze``): to look at all of it would stop a worker for a tenth of a second every now and then.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> with gr.cluster.start(1, gpu=False, processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     print(gr.sum(da.ones(1000, chunks=100)).compute())
    1000.0
    """
    # A call of dict raises where options repeat one of these: others would be able to reach the workers' pages.
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
    # With any of dask-cuda's arguments of RMM, dask-cuda makes the pool.
    is_ours = not any(name.startswith("rmm_") for name in options)
    pool = rmm_pool_size if find_spec("rmm") else None
    if pool is not None and not is_ours:
        # Without the second argument CuPy would keep a pool of its own beside that of RMM.
        arguments = {"rmm_pool_size": pool, "rmm_allocator_external_lib_list": ["cupy"], **arguments}
    return _own(_gpu_cluster(count, gpus, protocol, arguments), pool if is_ours else None)


def _gpu_cluster(count: int, gpus: int, protocol: str | None, arguments: Any) -> Any:
    if not 1 <= count <= gpus:
        raise ArgumentError(
            message("start", f"n_workers={count}", f"1 to {gpus}, one for each GPU", "Leave it out, or pass gpu=False.")
        )
    try:
        from dask_cuda import LocalCUDACluster  # type: ignore[import-not-found]
    except ImportError as error:
        raise ExtraError(
            message(
                "start",
                f"dask-cuda does not import ({error})",
                "it to be installed, for workers with GPUs",
                'Run: pip install "gpureduce-dask[cluster]" ([cluster12] for CUDA 12), or pass gpu=False.',
            )
        ) from error
    if protocol is None and count > 1 and find_spec("distributed_ucxx"):
        protocol = "ucx"
    return LocalCUDACluster(n_workers=count, protocol=protocol, **arguments)


def count_gpus() -> int:
    """Count the GPUs that CuPy sees on this machine.

    Returns
    -------
    int
        How many there are. 0 where CuPy is not installed or finds no driver.

    See Also
    --------
    cluster.start : Start a worker for each of them.

    Notes
    -----
    Another process counts them, because counting starts CUDA, which takes memory of a GPU. That takes as long as
    importing CuPy does. ``CUDA_VISIBLE_DEVICES`` hides GPUs from this function, as it does from CuPy.

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> gr.cluster.count_gpus() >= 0
    True
    """
    if find_spec("cupy") is None:
        return 0
    done = subprocess.run([sys.executable, "-c", COUNT_GPUS], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0  # no driver, or no GPU


def _loopback(address: str) -> str:
    """The address of a dashboard. Raises where others than this machine could reach it."""
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost") or not port.isdecimal():
        raise ArgumentError(
            message(
                "start",
                f"dashboard_address={address!r}",
                "loopback and a port, as '127.0.0.1:8787'",
                "Reach it from elsewhere with: ssh -L 8787:127.0.0.1:8787 HOST.",
            )
        )
    return address


def _own(cluster: Any, pool: int | float | str | None = None) -> Client:
    """A client that closes the cluster too. With ``pool`` the GPU of each worker gets a memory pool of this size."""
    from distributed import Nanny

    from .distributed.worker_plugins import DevicePool, FrozenImports

    try:
        client: Client = _client_class()(cluster)
        client.wait_for_workers(len(cluster.workers))
        if pool is not None:
            client.register_plugin(DevicePool(pool))
        if all(isinstance(worker, Nanny) for worker in cluster.workers.values()):  # each has a process of its own
            client.register_plugin(FrozenImports())
        return client
    except BaseException:
        cluster.close()
        raise


@functools.cache
def _client_class() -> type[Client]:
    """The class of clients. It is made when it is first needed: importing the package imports this module, and
    distributed only then."""
    import distributed

    class Client(distributed.Client):
        """A client that closes its cluster when it is closed."""

        def close(self, *args: Any, **kwargs: Any) -> Any:
            done = super().close(*args, **kwargs)  # type: ignore[no-untyped-call]
            # A closed one is left alone: the garbage collector closes clients again, maybe in the midst of a start of
            # another cluster, whose lock is not free then.
            if self.cluster is not None and self.cluster.status.name != "closed":
                self.cluster.close()
            return done

    return Client


def warm(
    client: Client,
    ops: Sequence[str | Monoid] = ("sum", "mean", "min", "max", "var", "argmax"),
    dtypes: Sequence[Any] = ("float32",),
) -> Any:
    """Import the package on every worker, and compile kernels on its GPU, before they are needed.

    Parameters
    ----------
    client : distributed.Client
        A client of the workers.
    ops : sequence of str or Monoid, default ("sum", "mean", "min", "max", "var", "argmax")
        The operators to compile kernels of.
    dtypes : sequence of dtype, default ("float32",)
        The dtypes of arrays to compile kernels for.

    Returns
    -------
    dict of str to dict
        For the address of each worker ``"gpu"``, the name of its GPU or None, and ``"seconds"``, how long it took. For
        an asynchronous client an awaitable of that.

    Raises
    ------
    OperatorError
        No operator has one of the names.
    DtypeError
        An operator does not take one of the dtypes.
    ArgumentTypeError
        `client` is not a client.

    See Also
    --------
    cluster.start : Start workers on this machine.

    Notes
    -----
    The kernels are those of large chunks in C order, of one chunk and of several in one launch, over all axes and along
    one. All other kernels are compiled when they first run, as are those of workers that join later.

    Examples
    --------
    >>> import gpureduce_dask as gr
    >>> with gr.cluster.start(1, gpu=False, processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     found = gr.warm(client, ops=["sum"])
    >>> [sorted(worker) for worker in found.values()]
    [['gpu', 'seconds']]
    """
    import numpy as np

    from .operators.table import get

    if not hasattr(client, "sync"):
        remedy = "Make one, as gpureduce_dask.cluster.start() does."
        raise ArgumentTypeError(message("warm", f"type {type(client).__name__}", "a distributed.Client", remedy))
    rows = [get(op) for op in ops]
    bounds = [row.bind(*[np.dtype(dtype)] * row.arity) for row in rows for dtype in dtypes]
    return client.sync(_warm, client, bounds)


async def _warm(client: Any, bounds: Sequence[Bound]) -> dict[str, dict[str, Any]]:
    known = await client.scheduler.identity(n_workers=-1)
    # Tasks, since client.run would keep each worker's event loop from its scheduler while it compiles.
    futures = {worker: client.submit(warm_here, bounds, workers=worker, pure=False) for worker in known["workers"]}
    found: dict[str, dict[str, Any]] = await client.gather(futures, asynchronous=True)
    return found


def warm_here(bounds: Sequence[Bound]) -> dict[str, Any]:
    """The part of :func:`warm` that each worker does."""
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
    """Reduce a small array along each of AXES, in each of the ways that graphs reduce chunks."""
    from . import chunk
    from .place import Place

    operands = (xp.ones((SIDE, SIDE), bound.dtypes[0]),) * bound.monoid.arity
    places = [Place((row, 0), (2 * SIDE, SIDE)) for row in (0, SIDE)]
    for axes in AXES:
        chunk.results(operands, bound, axes)
        one = chunk.reduce(operands, bound, axes, places[0])
        many = chunk.reduce_many([operands, operands], bound, axes, places)
        chunk.finalise(chunk.combine([one, many], bound), bound)
