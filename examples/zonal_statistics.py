"""Which parts of the Earth are land?
==================================

Zonal statistics by boxes of 5 by 5 degrees, from one read of a global mask. ::

    python examples/zonal_statistics.py            NumPy
    python examples/zonal_statistics.py --cupy     CuPy, on the current GPU

A label for each element says which group it is of. Boxes need only a label for each row and one for each column:
groups are all combinations. Cells of a box differ in area, so counts of land are kept by row first, and weighted then.
"""

import argparse

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr
from gpureduce_dask.tools.earth import band_areas, read_mask

DEGREES = 5

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cupy", action="store_true", help="reduce on the GPU")
if parser.parse_args().cupy:
    import cupy as xp
else:
    xp = np

ocean = da.concatenate([da.from_array(block) for block in read_mask(rows=1350)])
land = ~ocean.map_blocks(xp.asarray)
rows, columns = land.shape

# %%
# The labels: the number of the band, from the north, and of the sector, from the west.
band = np.arange(rows) * (180 // DEGREES) // rows
sector = np.arange(columns) * (360 // DEGREES) // columns
edges = np.linspace(90, -90, rows + 1)
area = band_areas(edges)  # of each row

# %%
# How much of each row is land, sector by sector: all cells of a row have one area ...
share_of_row = gr.grouped(land, sector, "mean", axis=1)
# ... and in a box, rows count by their area.
weights = da.from_array(area[:, None], chunks=(share_of_row.chunks[0], 1)).map_blocks(xp.asarray)
weights = da.broadcast_to(weights, share_of_row.shape, chunks=share_of_row.chunks)
share_of_box = gr.grouped((share_of_row, weights), band, "average", axis=0)  # sectors, bands

# %%
# Land by box and in all, and the Earth's share of it, by row: all from the same read of the mask.
cells, box, total, share = dask.compute(
    gr.grouped(land, (band, sector), "count_nonzero"),
    share_of_box,
    gr.count_nonzero(land),
    gr.average(gr.mean(land, axis=1), weights=da.from_array(area, chunks=land.chunks[0]).map_blocks(xp.asarray)),
)
if xp is not np:
    cells, box = cells.get(), box.get()

# %%
# What follows from it, and two checks.
share_of_band = box.mean(axis=0)  # sectors are of one size
weighted = np.average(share_of_band, weights=np.bincount(band, area))
assert cells.sum() == total
assert abs(weighted - float(share)) < 1e-12
print(f"{weighted:.2%} of the Earth is land, box by box as row by row")

whole, none = np.count_nonzero(box == 1), np.count_nonzero(box == 0)
print(f"of {box.size:,} boxes {whole} are land alone, and {none:,} hold none")
north = 90 - DEGREES * np.arange(len(share_of_band))
fullest = np.argmax(share_of_band[north > -60])
print(
    f"but for the Antarctic, most land is between {north[fullest]} and {north[fullest] - DEGREES} degrees north:",
    end="",
)
print(f" {share_of_band[fullest]:.0%} of the band")

# %%
# The map of the boxes.
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
image = axes.imshow(box.T, extent=(-180, 180, -90, 90), cmap="YlGn", vmin=0, vmax=1)
figure.colorbar(image, label="share of land", shrink=0.8)
axes.set(xlabel="longitude", ylabel="latitude")
plt.show()
