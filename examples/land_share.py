"""What share of the Earth is land?
================================

The idea of ``python -m gpureduce_dask demo``, in a script to read and change. ::

    python examples/land_share.py            NumPy
    python examples/land_share.py --cupy     CuPy, on the current GPU

A mask of the globe has 933 million cells of 30 by 30 arc-seconds. A third of the cells is land, but not a third of
the Earth: cells near the poles are small. The mean has to be weighted by the area of each cell.
"""

import argparse

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr
from gpureduce_dask.tools.earth import band_areas, read_mask

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cupy", action="store_true", help="reduce on the GPU")
if parser.parse_args().cupy:
    import cupy as xp
else:
    xp = np

# %%
# Rows run from north to south; True is ocean. Any dask array does: this one is made of blocks that are in memory.
ocean = da.concatenate([da.from_array(block) for block in read_mask(rows=1350)])
land = ~ocean.map_blocks(xp.asarray)

# %%
# All cells of a row have one area, so a row's share of land is a plain mean ...
share_of_row = gr.mean(land, axis=1)
# ... and rows are weighted by the area between their two parallels.
edges = np.linspace(90, -90, land.shape[0] + 1)
area = da.from_array(band_areas(edges), chunks=share_of_row.chunks).map_blocks(xp.asarray)

# %%
# Four results from one read of the mask.
cells, share, northernmost, by_latitude = dask.compute(
    gr.mean(land),
    gr.average(share_of_row, weights=area),
    gr.argmax(gr.any(land, axis=1)),
    share_of_row,
)
print(f"{float(cells):.2%} of the cells are land, but {float(share):.2%} of the Earth")
print(f"the northernmost land lies at {edges[int(northernmost)]:.2f} degrees")

# %%
# How much of each parallel is land.
by_latitude = by_latitude.get() if hasattr(by_latitude, "get") else by_latitude
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.fill_between(edges[:-1], by_latitude, step="post")
axes.set(xlabel="latitude", ylabel="share of land", xlim=(90, -90), ylim=(0, 1))
plt.show()
