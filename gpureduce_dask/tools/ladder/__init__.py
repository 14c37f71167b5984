"""``python -m gpureduce_dask ladder``: every step of the textbook ladder checked, timed, counted and explained."""
