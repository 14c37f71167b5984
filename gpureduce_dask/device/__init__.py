"""Reductions, scans, groups and histograms of CuPy chunks: layouts, plans, compilation and launches."""
