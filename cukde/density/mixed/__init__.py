"""Densities of columns of categories beside numbers."""
