"""What talks to clusters: workers and their memory pools, where chunks lie, handles of these, and the private
interfaces of dask and distributed."""
