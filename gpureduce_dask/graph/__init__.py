"""Dask graphs of reductions, scans, maps, groups and histograms."""
