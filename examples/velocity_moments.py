"""Moments of a velocity field
===========================

The means <u>, <v> and <uv> from one read, and from them the stress <uv> - <u><v>. ::

    python examples/velocity_moments.py          NumPy
    python examples/velocity_moments.py --cupy   on the current GPU

A field of plane waves over a mean flow has means that are known: with u = U + A cos(p) and v = V + B cos(p + d) over
whole periods of p, <u> = U, <v> = V and <uv> - <u><v> = A B cos(d) / 2. The products are computed where they are
averaged: no array of them exists. The script counts how often chunks are made, and checks every mean.
"""

import argparse
import threading

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cupy", action="store_true", help="on the GPU")
if parser.parse_args().cupy:
    import cupy as xp
else:
    xp = np

TIMES, POINTS, WAVES = 2_000, 1_536, 12
FLOW_U, FLOW_V, A, B, LAG = 0.7, -0.2, 1.5, 0.8, 0.6

made: list[int] = []
lock = threading.Lock()


# %%
# Chunks of both components are made when they are needed, and counted.
def wave(block, mean=0.0, amplitude=1.0, lag=0.0):
    """A component of the velocity at some times and points; ``block`` is the phase."""
    with lock:
        made.append(1)
    return xp.asarray(mean + amplitude * np.cos(block + lag))


phase = (
    2
    * np.pi
    * WAVES
    * (da.arange(POINTS, chunks=512)[None, :] / POINTS + da.arange(TIMES, chunks=250)[:, None] / TIMES)
)
like = xp.empty((0, 0), "f8")
u = phase.map_blocks(wave, mean=FLOW_U, amplitude=A, meta=like)
v = phase.map_blocks(wave, mean=FLOW_V, amplitude=B, lag=LAG, meta=like)
made.clear()

# %%
# One reduction, of a function with three results.
mean_u, mean_v, mean_uv = dask.compute(*gr.map_reduce(lambda u, v: (u, v, u * v), "mean", u, v, axis=0))
chunks = u.npartitions + v.npartitions
assert len(made) == chunks, f"{len(made)} chunks were made, {chunks} were needed"

found = [x.get() if xp is not np else x for x in (mean_u, mean_v, mean_uv)]
want = (FLOW_U, FLOW_V, FLOW_U * FLOW_V + A * B * np.cos(LAG) / 2)
worst = max(np.abs(x - y).max() for x, y in zip(found, want, strict=True))
assert worst < 1e-12, worst
stress = (found[2] - found[0] * found[1])[0]
means = f"<u> {found[0][0]:.3f}, <v> {found[1][0]:.3f}, stress {stress:.6f}"
print(f"{chunks} chunks read once: {means}, right to {worst:.0e}")

# %%
# The product of the components at first, whose mean over time is the second of the two curves.
product = (u * v)[:250].compute()
product = product.get() if xp is not np else product
figure, (field, curves) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
field.imshow(product, aspect="auto", cmap="RdBu_r", vmin=-2, vmax=2)
field.set(xlabel="point", ylabel="time", title="u v")
curves.plot(found[0] * found[1], label="<u> <v>")
curves.plot(found[2], label="<u v>")
curves.set(xlabel="point", ylim=(-0.5, 0.75))
curves.legend()
plt.show()
