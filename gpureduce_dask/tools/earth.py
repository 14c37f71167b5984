"""The Earth as the demo needs it: the land mask in chunks, and the area of a band between two parallels."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ExtraError

Array = np.ndarray[Any, np.dtype[Any]]

# WGS 84: equatorial radius in metres, flattening.
EQUATOR, FLATTENING = 6_378_137.0, 1 / 298.257223563


def mask_file() -> Path:
    """The mask of ``global-land-mask``; found without importing the package, which would unpack it all."""
    package = find_spec("global_land_mask")
    if package is None or not package.submodule_search_locations:
        raise ExtraError('demo: global-land-mask is not installed. Run: pip install "gpureduce-dask[demo]"')
    return Path(package.submodule_search_locations[0]) / "globe_combined_mask_compressed.npz"


def read_mask(rows: int = 1350, progress: Callable[[float], None] = lambda done: None) -> Iterator[Array]:
    """Blocks of ``rows`` rows of the mask (bool, true on the ocean), from the north; one block is in memory at a time.

    Cell (i, j) spans latitudes 90 - i / 120 down to 90 - (i + 1) / 120 and longitudes -180 + j / 120 upwards.
    """
    with zipfile.ZipFile(mask_file()) as archive, archive.open("mask.npy") as stream:
        np.lib.format.read_magic(stream)
        (height, width), _, dtype = np.lib.format.read_array_header_1_0(stream)
        for start in range(0, height, rows):
            block = np.frombuffer(stream.read(rows * width), dtype).reshape(-1, width)
            progress((start + len(block)) / height)
            yield block


def band_areas(edges: Array) -> Array:
    """Area in square metres between each two neighbouring latitudes (degrees, descending), on the WGS 84 ellipsoid."""
    eccentricity = np.sqrt(FLATTENING * (2 - FLATTENING))
    x = eccentricity * np.sin(np.radians(edges))
    # The integral of the length of a parallel along a meridian, in closed form.
    north_of_equator = x / (1 - x * x) + np.arctanh(x)
    polar_radius = EQUATOR * (1 - FLATTENING)
    areas: Array = -np.pi * polar_radius**2 / eccentricity * np.diff(north_of_equator)
    return areas
