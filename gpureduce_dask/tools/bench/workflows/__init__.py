"""``python -m gpureduce_dask bench workflows``: daily work with files and calendars, plain and accelerated."""
