"""Densities of Dask arrays."""
