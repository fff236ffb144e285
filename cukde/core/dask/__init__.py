"""Dask collections: their forms, blocks and graphs."""
