"""An array larger than memory
===========================

Statistics along every axis of an array that is larger than the memory of the workers that reduce it. ::

    python examples/larger_than_memory.py            4 GiB through two workers that may hold 2 GiB together
    python examples/larger_than_memory.py --gib 400
    python examples/larger_than_memory.py --threads  two threads of this process, in place of workers
    python examples/larger_than_memory.py --cupy     the same with CuPy chunks

The array has the shape of a reanalysis, (time, latitude, longitude), and is made chunk by chunk: no chunk exists for
longer than it takes to reduce it. It is the sum of a signal in time and one in space, so that every statistic is known
beforehand, and the script checks each of them.

The output on this page is of ``--threads --gib 1``: workers import the script that starts them, and while the page is
built that would be Sphinx. Two threads have no limit of memory to keep; each has a few chunks of 16 MiB at a time.
"""

import argparse
import time
from contextlib import ExitStack

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import gpureduce_dask as gr

LATITUDES, LONGITUDES = 360, 720
CHUNK = (256, 90, 180)
WORKER_MEMORY = 2**30


def signals(gib: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A trend in time, one value a latitude and one a longitude; multiples of 1/8: float32 adds them exactly."""
    times = max(2, round(gib * 2**30 / (4 * LATITUDES * LONGITUDES)))
    trend = (np.arange(times) % 1000 / 8).astype(np.float32)
    zonal = (np.arange(LATITUDES) % 7 / 8).astype(np.float32)
    meridional = (np.arange(LONGITUDES) % 11 / 8).astype(np.float32)
    return trend, zonal, meridional


def make(trend: np.ndarray, zonal: np.ndarray, meridional: np.ndarray, xp=np) -> da.Array:
    """The array, lazily, in chunks of 16 MiB."""
    parts = zip((trend, zonal, meridional), CHUNK, strict=True)
    in_time, in_latitude, in_longitude = (da.from_array(p, chunks=n).map_blocks(xp.asarray) for p, n in parts)
    return in_time[:, None, None] + (in_latitude[:, None] + in_longitude)


def known_answers(trend: np.ndarray, zonal: np.ndarray, meridional: np.ndarray) -> dict[str, np.ndarray]:
    t, z, m = (part.astype(np.float64) for part in (trend, zonal, meridional))
    space = z[:, None] + m
    return {
        "mean over time": t.mean() + space,
        "standard deviation over time": np.full_like(space, t.std()),
        "mean over space": t + space.mean(),
        "maximum by latitude": t.max() + z + m.max(),
        "step of the maximum": np.full(space.shape, t.argmax()),
    }


def draw(results: dict[str, np.ndarray]) -> None:
    """Two of the statistics."""
    import matplotlib.pyplot as plt  # not where workers, which import this script, would have to

    figure, (field, curve) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
    image = field.imshow(results["mean over time"][:28, :44])
    field.set(title="mean over time, of a corner", xlabel="longitude", ylabel="latitude")
    figure.colorbar(image, ax=field)
    curve.plot(results["mean over space"])
    curve.set(title="mean over space", xlabel="step")
    plt.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4, help="size of the array (default: %(default)s)")
    parser.add_argument("--threads", action="store_true", help="by two threads of this process, without a cluster")
    parser.add_argument("--cupy", action="store_true", help="make the chunks on the GPU")
    arguments = parser.parse_args()
    if arguments.cupy:
        import cupy as xp
    else:
        xp = np

    trend, zonal, meridional = signals(arguments.gib)
    x = make(trend, zonal, meridional, xp)
    statistics = {
        "mean over time": gr.mean(x, axis=0),
        "standard deviation over time": gr.std(x, axis=0),
        "mean over space": gr.mean(x, axis=(1, 2)),
        "maximum by latitude": gr.max(x, axis=(0, 2)),
        "step of the maximum": gr.argmax(x, axis=0),
    }
    print(f"{x.nbytes / 2**30:.1f} GiB of {x.dtype}, shape {x.shape}, {x.npartitions} chunks")

    with ExitStack() as until_done:
        if arguments.threads:
            until_done.enter_context(dask.config.set(scheduler="threads", num_workers=2))
        else:
            pages = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
            workers = LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=WORKER_MEMORY, **pages)
            until_done.enter_context(Client(until_done.enter_context(workers)))
        start = time.perf_counter()
        (results,) = dask.compute(statistics)
        seconds = time.perf_counter() - start

    results = {name: got.get() if hasattr(got, "get") else got for name, got in results.items()}
    for name, expected in known_answers(trend, zonal, meridional).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-6, err_msg=name)
        print(f"  {name:28} {results[name].shape!s:12} right")
    print(f"five statistics in {seconds:.1f} s, {x.nbytes / seconds / 1e9:.2f} GB/s")
    who = "two threads" if arguments.threads else f"two workers of {WORKER_MEMORY / 2**20:.0f} MiB each"
    print(f"{who} reduced {x.nbytes / 2**20:,.0f} MiB")
    draw(results)


if __name__ == "__main__":
    main()
