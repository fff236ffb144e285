"""Densities on product grids."""
