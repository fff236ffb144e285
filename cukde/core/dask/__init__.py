"""Dask collections: their checks, blocks and graphs."""
