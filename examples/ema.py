"""An exponential moving average
=============================

The recurrence ``y[i] = y[i - 1] + alpha (x[i] - y[i - 1])`` as a scan of affine maps. ::

    python examples/ema.py          NumPy
    python examples/ema.py --cupy   on the current GPU

Each step is the map ``y -> a y + b`` with ``a = 1 - alpha`` and ``b = alpha x[i]``. One map after another is a map
again, so that chunks need not wait for each other although every value depends on all before it. Where x is missing,
``a = 1`` and ``b = 0`` leave y as it is. The script checks every value against the loop that the formula is.
"""

import argparse

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

# %%
# Hourly readings with a daily cycle, noise and gaps.
HOURS, STATIONS, ALPHA = 100_000, 8, 0.01
rng = np.random.default_rng(0)
x = 10 + 8 * np.sin(np.arange(HOURS) * 2 * np.pi / 24)[:, None] + rng.normal(size=(HOURS, STATIONS))
x[rng.random(x.shape) < 0.05] = np.nan

# %%
# The scan: two lazy arrays, the factors and the terms.
reading = da.from_array(x, chunks=(10_000, 4)).map_blocks(xp.asarray)
is_there = ~da.isnan(reading)
keep = da.where(is_there, 1 - ALPHA, 1.0)
add = da.where(is_there, ALPHA * reading, 0.0)
smooth = gr.scan((keep, add), "affine", axis=0)

# %%
# The loop that the formula is.
want, y = np.empty_like(x), np.zeros(STATIONS)
for i, now in enumerate(x):
    y = np.where(np.isnan(now), y, y + ALPHA * (now - y))
    want[i] = y
got = smooth.compute()
got = got.get() if xp is not np else got
worst = np.abs(got - want).max()
assert worst < 1e-12, worst
print(f"{HOURS:,} hours at {STATIONS} stations smoothed, right to {worst:.0e}")

# %%
# Three weeks at one station.
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.plot(x[:504, 0], ".", markersize=3, color="gray", label="readings, with gaps")
axes.plot(got[:504, 0], label="average")
axes.set(xlabel="hour", ylabel="degrees")
axes.legend()
plt.show()
