"""Reductions, scans and groups of NumPy chunks."""
