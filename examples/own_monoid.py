"""An operator of your own
=======================

The exponentially weighted mean, which depends on the order of the elements. ::

    python examples/own_monoid.py            NumPy
    python examples/own_monoid.py --cupy     CuPy, on the current GPU

Reading one element x turns a running value v into ``DECAY * v + x``. Two such steps, one after the other, are again
of the form ``keep * v + value``: steps compose, composition is associative, and so the tree may cut the array
anywhere. It is not commutative: the older step must stay left. That is all a monoid has to say.
"""

import argparse

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr

DECAY = 0.99


def lift(x, index):
    return np.full(x.shape, DECAY), x.astype(np.float64)


def combine(earlier, later):
    keep_earlier, value_earlier = earlier
    keep_later, value_later = later
    return keep_earlier * keep_later, value_earlier * keep_later + value_later


def finalise(state, dtype):
    keep, value = state
    weight = (1 - keep) / (1 - DECAY)  # 1 + DECAY + DECAY**2 + ...
    return (value / weight).astype(dtype)


# %%
# The same on a GPU. The text is compiled and run on every worker: never build it from what others supply.
CUDA = """
struct recent_mean {
    struct State { double keep, value; };
    static __device__ State identity() { return {1.0, 0.0}; }
    static __device__ State lift(double x, long long index) { return {0.99, x}; }
    static __device__ State combine(State earlier, State later) {
        return {earlier.keep * later.keep, earlier.value * later.keep + later.value};
    }
};
"""

recent_mean = gr.Monoid(
    name="recent_mean",
    fields={"keep": "f8", "value": "f8"},
    identity=(1.0, 0.0),
    lift=lift,
    combine=combine,
    finalise=finalise,
    commutative=False,
    unsafe_cuda=CUDA,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cupy", action="store_true", help="reduce on the GPU")
    if parser.parse_args().cupy:
        import cupy as xp
    else:
        xp = np

    readings = np.random.default_rng(0).normal(20, 5, size=(100_000, 16)).astype(np.float32)  # (time, station)
    x = da.from_array(readings, chunks=(7_000, 5)).map_blocks(xp.asarray)
    got = gr.reduction(x, recent_mean, axis=0).compute()
    got = got.get() if hasattr(got, "get") else got

    weights = DECAY ** np.arange(len(readings))[::-1]
    expected = np.average(readings.astype(np.float64), axis=0, weights=weights)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    for station in range(3):
        print(f"station {station}: {got[station]:.4f}, one by one {expected[station]:.4f}")
    print(f"right for all {len(got)} stations, over {x.numblocks[0]} chunks in time")

    last = 300
    _, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    axes.scatter(range(-last, 0), readings[-last:, 0], 40 * weights[-last:], color="gray", label="by weight")
    axes.axhline(got[0], label="recent mean")
    axes.axhline(readings[:, 0].mean(), linestyle=":", label="mean of all")
    axes.set(xlabel="readings before now", ylabel="degrees at one station")
    axes.legend()
    plt.show()


if __name__ == "__main__":
    main()
