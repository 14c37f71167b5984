"""Benchmarks: ours, the peers and the ceiling in one run, each result checked before it is timed."""
