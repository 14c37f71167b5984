"""How far does a random walk fall?
================================

How far a long random walk falls below its maximum so far: the greatest drawdown, and where it is. ::

    python examples/drawdown.py                 a walk of 2^25 steps
    python examples/drawdown.py --steps 10**9   eight bytes a step would be 8 GB: chunks come and go
    python examples/drawdown.py --cupy          on the current GPU

Steps are +1 or -1, so that every number is exact. The greatest drawdown of n steps is sqrt(pi n / 2) on average
(Magdon-Ismail and others 2004), and the script walks the same steps again in NumPy, chunk by chunk, to check.
"""

import argparse
import math

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr

CHUNK = 1 << 20


def steps_of(size: int, seed: int, xp=np):
    return xp.asarray(np.random.default_rng(seed).integers(0, 2, size, np.int8) * np.int8(2) - np.int8(1))


def make(xp, block_info=None):
    place = block_info[None]
    return steps_of(place["chunk-shape"][0], place["chunk-location"][0], xp)


# %%
# Chunks of steps are made when they are needed; ``walk`` is a running sum that is never in memory as a whole.
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", default="2**25", help="how many, as 10**9")
parser.add_argument("--cupy", action="store_true", help="on the GPU")
arguments = parser.parse_args()
if arguments.cupy:
    import cupy as xp
else:
    xp = np
base, _, power = arguments.steps.partition("**")
count = int(base) ** int(power or 1)

chunks = da.empty(count, chunks=CHUNK).chunks
meta = gr.device_meta(1, "i1") if arguments.cupy else np.empty(0, np.int8)
walk = gr.cumsum(da.map_blocks(make, xp, chunks=chunks, dtype=np.int8, meta=meta), axis=0)
fall = gr.cummax(walk, axis=0) - walk
depth, where = (int(v) for v in dask.compute(gr.max(fall), gr.argmax(fall)))

# %%
# The same in NumPy, chunk by chunk.
height = peak = deepest = 0
for number, size in enumerate(chunks[0]):
    path = height + np.cumsum(steps_of(size, number), dtype=np.int64)
    peaks = np.maximum(np.maximum.accumulate(path), peak if number else path[0])
    height, peak, deepest = int(path[-1]), int(peaks[-1]), max(deepest, int((peaks - path).max()))
assert depth == deepest, (depth, deepest)
print(f"the greatest drawdown of {count:,} steps is {depth:,}, at step {where:,}")
print(f"right, and {depth / math.sqrt(math.pi * count / 2):.2f} of what is to be expected")

# %%
# Some of the walk, and its maximum so far.
shown = slice(0, count, max(1, count // 2048))
path, peaks = (np.asarray(y.get() if hasattr(y, "get") else y) for y in dask.compute(walk[shown], (walk + fall)[shown]))
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.plot(np.arange(count)[shown], peaks, label="maximum so far")
axes.plot(np.arange(count)[shown], path, linewidth=0.8, label="walk")
axes.axvline(where, linestyle=":", color="gray", label="deepest below the maximum")
axes.set(xlabel="step", ylabel="height")
axes.legend()
plt.show()
