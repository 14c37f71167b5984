"""Which parallel halves the Earth's land?
=======================================

A running sum by latitude, and a search in it. ::

    python examples/half_of_the_land.py            NumPy
    python examples/half_of_the_land.py --cupy     CuPy, on the current GPU

Rows of the land mask, of 30 arc-seconds each, are weighted by the area between their two parallels.
"""

import argparse

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr
from gpureduce_dask.tools.earth import band_areas, read_mask

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cupy", action="store_true", help="on the GPU")
if parser.parse_args().cupy:
    import cupy as xp
else:
    xp = np

# %%
# Rows run from north to south; True is ocean.
ocean = da.concatenate([da.from_array(block) for block in read_mask(rows=1350)])
land = gr.mean(~ocean.map_blocks(xp.asarray), axis=1)
edges = np.linspace(90, -90, len(land) + 1)
area = da.from_array(band_areas(edges), chunks=land.chunks).map_blocks(xp.asarray)

# %%
# The land to the north of each edge, and the edges that have a quarter, half and three quarters of it.
north = gr.cumulative_sum(land * area, include_initial=True).compute()
north = np.asarray(north.get() if xp is not np else north)
first, half, last = edges[np.searchsorted(north, north[-1] * np.array([0.25, 0.5, 0.75]))]
print(f"half of the land lies north of {half:.2f} degrees")
print(f"and half of it between {last:.2f} and {first:.2f}")

# %%
# The running sum. It is steep where there is much land.
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.plot(edges, north / north[-1])
axes.axvline(half, linestyle=":", color="gray")
axes.annotate(f"{half:.2f} degrees north", (half, 0.5), xytext=(half - 5, 0.6))
axes.set(xlabel="latitude", ylabel="share of all land to the north", xlim=(90, -90))
plt.show()
