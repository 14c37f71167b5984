"""Which parallel has half of the Earth's land to its north? A running sum and a search in it.

    python examples/half_of_the_land.py            NumPy
    python examples/half_of_the_land.py --cupy     CuPy, on the current GPU

Rows of the land mask, of 30 arc-seconds each, are weighted by the area between their two parallels.
"""

import argparse

import dask.array as da
import numpy as np

import gpureduce_dask as gr
from gpureduce_dask.tools.earth import band_areas, read_mask

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cupy", action="store_true", help="on the GPU")
if parser.parse_args().cupy:
    import cupy as xp
else:
    xp = np

# Rows run from north to south; True is ocean.
ocean = da.concatenate([da.from_array(block) for block in read_mask(rows=1350)])
land = gr.mean(~ocean.map_blocks(xp.asarray), axis=1)
edges = np.linspace(90, -90, len(land) + 1)
area = da.from_array(band_areas(edges), chunks=land.chunks).map_blocks(xp.asarray)

north = gr.cumulative_sum(land * area, include_initial=True).compute()  # the land north of each edge
north = np.asarray(north.get() if xp is not np else north)
first, half, last = edges[np.searchsorted(north, north[-1] * np.array([0.25, 0.5, 0.75]))]
print(f"half of the land lies north of {half:.2f} degrees")
print(f"and half of it between {last:.2f} and {first:.2f}")
