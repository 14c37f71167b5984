"""The steps of the textbook ladder (:mod:`gpureduce_dask.history`) at work: planned, run, and as strategies of sums."""
