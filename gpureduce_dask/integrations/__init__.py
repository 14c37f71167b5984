"""What takes the calls of plain dask, flox and xarray."""
